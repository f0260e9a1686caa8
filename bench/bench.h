/* bench.h - operations that fastfold-bench can measure, and how they are measured.
 *
 * An operation is a row of a table: it sets itself up for the sizes of a run, says what a forward pass costs, and runs
 * passes. Kernels (bench_primitives.c, bench_attention.c, bench_updates.c) are entries of the kernel table on arrays of
 * their own; modules (bench_modules.c) are the trunk's layers, with tape or without. The measuring is the same for all (bench_measure.c). */
#ifndef FF_BENCH_BENCH_H
#define FF_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { BENCH_INFERENCE = 0, BENCH_FORWARD, BENCH_BACKWARD, BENCH_BOTH } bench_pass;

typedef struct {
    int64_t num_seq, num_res, num_extra, num_templ;
    int64_t blocks;   /* of a stack or model; 0 = all of a model */
    bool keep_inputs; /* tape nodes keep their inputs only */
    bool checkpoint;  /* each block of a stack is a checkpointed region */
    int dap_size;     /* in plan mode: what rank 0 of so many does and sends; 0 or 1 = a single process */
} bench_sizes;

typedef struct bench_op bench_op;

/* One operation being measured. */
typedef struct {
    ff_ctx *ctx;
    const ff_kernels *k;
    const bench_op *op;
    bench_pass pass;
    bench_sizes sizes;
    double flop;        /* of one forward pass: matrix products, by the cost formulas */
    double bytes;       /* least traffic of one forward pass */
    double bytes_back;  /* of its backward; 0 = twice the forward */
    double parameter_bytes; /* of a model, float32 */
    void *state;        /* the operation's own */
} bench_run;

struct bench_op {
    const char *name;
    const char *about; /* one line for the list: the paper's name, shapes */
    bool is_module;
    int variant; /* for operations that share functions */
    /** Make arrays and weights, and set flop and bytes. FF_ERR_UNSUPPORTED when the backend lacks an entry. */
    ff_status (*set_up)(bench_run *run);
    /** Before each forward (outside the time): a fresh tape. */
    void (*prepare)(bench_run *run);
    void (*forward)(bench_run *run);
    /** Between forward and backward (outside the time): gradients of the outputs. */
    void (*prepare_backward)(bench_run *run);
    void (*backward)(bench_run *run);
    void (*tear_down)(bench_run *run);
};

extern const bench_op bench_module_ops[], bench_primitive_ops[], bench_attention_ops[], bench_update_ops[], bench_model_ops[];
extern const int bench_num_module_ops, bench_num_primitive_ops, bench_num_attention_ops, bench_num_update_ops,
    bench_num_model_ops;

/* ---- measuring ---- */

typedef struct {
    double seconds_median, seconds_min;
    double gemm_peak_gflops;      /* 0 = no GEMM library */
    double gemm_peak_spread;      /* best over worst of the GEMM runs: far above 1 on a machine others use too */
    double memory_bandwidth;      /* GB/s */
    double flop, minimal_bytes;   /* of the measured pass */
    size_t peak_bytes;            /* pool high-water mark of a pass, with its inputs */
    size_t predicted_peak_bytes;  /* the same by plan mode; 0 for kernels */
    double predicted_flop;        /* of the measured pass by plan mode; 0 for kernels */
    size_t peak_resident_bytes;   /* of the process, 0 = not known on this system */
} bench_result;

int bench_num_threads(void);

/** Begin anew with the high-water mark of the process's resident memory; bytes, 0 = not known on this system. */
void bench_reset_resident_peak(void);
size_t bench_resident_peak(void);

/* What the machine gives at best, measured in between the runs of what is compared with it. */
enum { BENCH_COPY_BYTES = 256 << 20 };
typedef struct {
    ff_dtype dtype;
    void *gemm;
    char *from, *to;          /* [BENCH_COPY_BYTES] */
    double gflops, bandwidth; /* best; GB/s, read and written */
    double least_gflops;
    int64_t runs;
} bench_peaks;

/** Release with bench_peaks_end, also after a failure. */
ff_status bench_peaks_begin(ff_ctx *ctx, bench_peaks *peaks, ff_dtype dtype);
void bench_peaks_run(bench_peaks *peaks);
void bench_peaks_end(bench_peaks *peaks); /* a zeroed one is fine */

/**
 * Set up an operation, warm it up, and time `repeat` runs of the pass, each after a run of the GEMM peak and of the memory
 * copy (best of them, at least five; none when `quick`).
 */
ff_status bench_measure(bench_run *run, int64_t repeat, bool quick, bench_result *result);

/** Run the pass in plan mode and print what it costs, operation by operation. Modules only. */
ff_status bench_plan(bench_run *run, bool json);

/* The records of a pass in plan mode. */
typedef struct {
    struct ff_plan_record *records; /* [count], owned */
    int64_t count;
    size_t peak_bytes; /* pool high-water mark, with the inputs */
    double parameter_bytes;
} bench_recording;

/** Run the pass in plan mode and keep its records; destroy them also after a failure. */
ff_status bench_record(const bench_run *run, bench_recording *recording);
void bench_recording_destroy(bench_recording *recording);

/** The best of a few runs of the machine's GEMM peak (GFLOP/s; 0 = no GEMM library) and copy bandwidth (GB/s). */
ff_status bench_machine_peaks(ff_ctx *ctx, ff_dtype dtype, double *gflops, double *gbytes_per_s);

/* ---- arrays ---- */

/** Random numbers in [-1, 1) times `scale`, the same each time for the same `stream`. */
void bench_fill(float *x, int64_t n, float scale, uint64_t stream);

#ifdef __cplusplus
}
#endif
#endif
