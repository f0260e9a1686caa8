/* emulate_faults.h - small kernels with deliberate mistakes, to show that the emulator of CUDA kernels sees them. */
#ifndef FF_TESTS_EMULATE_FAULTS_H
#define FF_TESTS_EMULATE_FAULTS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_FAULT_NONE = 0,
    /* in the row kernel */
    FF_FAULT_NO_BARRIER_BEFORE_READ,
    FF_FAULT_NO_BARRIER_BEFORE_REUSE,
    FF_FAULT_WRONG_LANE,
    FF_FAULT_TILE_EDGE,
    FF_FAULT_UNSET_SHARED,
    FF_FAULT_RACE_ON_SUM,
    FF_FAULT_SHARED_OVERRUN,
    FF_FAULT_SHARED_FAR_OVERRUN,
    FF_FAULT_DIVERGENT_BARRIER,
    FF_FAULT_DIVERGENT_SHUFFLE,
    FF_FAULT_RETURNED_LANE,
    FF_FAULT_FOREIGN_MASK,
    FF_FAULT_DEADLOCK,
    FF_FAULT_MISALIGNED_VECTOR,
    FF_FAULT_STACK_OVERFLOW,
    FF_FAULT_EMPTY_GRID,
    /* in the product kernel */
    FF_FAULT_NO_BARRIER_AFTER_COPY,
    FF_FAULT_WEAK_WAIT,
    FF_FAULT_SWAPPED_FRAGMENT,
    FF_FAULT_NOT_TRANSPOSED,
    FF_FAULT_MISALIGNED_COPY,
    FF_FAULT_MISALIGNED_MATRIX,
    FF_FAULT_MATRIX_NOT_SHARED,
    FF_FAULT_HALF_A_WARP,
    FF_FAULT_COUNT
} ff_fault;

enum { FF_FAULT_ROWS = 5, FF_FAULT_CHANNELS = 203 };

/** Sum and sum of squares about the mean of each row: y [rows, 2] from x [rows, channels]. */
void ff_fault_row_moments(ff_fault fault, float *y, const float *x);

/** y [16, 8] = a [16, 32] b [32, 8], operands rounded to bf16. */
void ff_fault_product(ff_fault fault, float *y, const float *a, const float *b);

#ifdef __cplusplus
}
#endif
#endif
