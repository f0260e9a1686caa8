/* kernel_arrays.h - arrays, weights and arguments of a kernel that fastfold-bench measures.
 *
 * Arrays come from the pool, so that peak_bytes counts them; weights and their gradients do not. Forward passes write to
 * an array of their own, except inference, which updates residuals in place. */
#ifndef FF_BENCH_KERNEL_ARRAYS_H
#define FF_BENCH_KERNEL_ARRAYS_H

#include "bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of AlphaFold's trunk. */
enum { C_M = 256, C_Z = 128, C_E = 64, C_T = 64, C_HIDDEN = 32, C_OUTER = 32, FACTOR = 4 };
enum { HEADS_MSA = 8, HEADS_PAIR = 4 };
enum { MOST_ARRAYS = 24, MOST_WEIGHTS = 48 };

typedef struct {
    float *x, *y, *grad_x, *grad_y; /* input, output, their gradients */
    float *a, *b, *c;               /* further inputs */
    float *grad_a, *grad_b, *grad_c;
    float *mask;
    void *scratch;
    int64_t rows, width; /* where a kernel is called with these */
    struct {
        void *memory;
        size_t bytes;
    } arrays[MOST_ARRAYS];
    int num_arrays;
    float *weights[MOST_WEIGHTS];
    int num_weights;
    union {
        struct { ff_layer_norm_params value, grad; } layer_norm;
        struct { ff_linear_params value, grad; } linear;
        struct { ff_attention_params value, grad; } attention;
        struct { ff_pair_bias_params value, grad; } pair_bias;
        struct { ff_transition_params value, grad; } transition;
        struct { ff_triangle_multiplication_params value, grad; } triangle;
        struct { ff_outer_product_mean_params value, grad; } outer;
    } w;
    union {
        ff_attention_core_args core;
        ff_gated_attention_args attention;
        ff_pointwise_attention_args pointwise;
        ff_pair_bias_args pair_bias;
        ff_transition_args transition;
        struct {
            ff_triangle_multiplication_args own;
            ff_triangle_product_args product;
            ff_operand_block block;
        } triangle;
        struct {
            ff_outer_product_project_args project;
            ff_outer_product_args product;
        } outer;
    } args;
    ff_gated_attention_kept kept;
} bench_kernel_state;

/** Fail unless the backend has the entries that the pass needs; else make run->state. */
ff_status bench_offered(bench_run *run, bool forward, bool backward);
void bench_arrays_release(bench_run *run);

/* Arrays of the pool; NULL after a failure, which stays in the context. */
void *bench_take_bytes(bench_run *run, size_t bytes);
float *bench_take(bench_run *run, int64_t n, float scale); /* random, times scale */
float *bench_take_ones(bench_run *run, int64_t n);
void *bench_take_operand(bench_run *run, int64_t n, float scale); /* matrix-product operands in the table's dtype */
/** Gradients of x and y where the pass needs them. */
void bench_take_grads(bench_run *run, int64_t num_x, int64_t num_y);

/** Random weights, small enough that an update is smaller than what it is added to; and a gradient for them. */
void bench_make_weight(bench_run *run, float **value, float **grad, int64_t num_input, int64_t num_output);
/** Ones. */
void bench_make_scale(bench_run *run, float **value, float **grad, int64_t c);

bool bench_wants_backward(const bench_run *run);
bool bench_in_place(const bench_run *run);
size_t bench_larger(size_t a, size_t b);

/* Rows of the tables of operations. */
#define BENCH_KERNEL(name, about, variant, prefix)                                                                     \
    {                                                                                                                  \
        name, about, false, variant, prefix##_set_up, NULL, prefix##_forward, NULL, prefix##_backward,                 \
            bench_arrays_release                                                                                       \
    }
#define BENCH_FORWARD_ONLY(name, about, variant, prefix)                                                               \
    {                                                                                                                  \
        name, about, false, variant, prefix##_set_up, NULL, prefix##_forward, NULL, NULL, bench_arrays_release         \
    }

#ifdef __cplusplus
}
#endif
#endif
