/* training.h - training runs as the benchmarks take them: a preset of fastfold-train, its trainer and its loader, without files. */
#ifndef FF_BENCH_TRAINING_H
#define FF_BENCH_TRAINING_H

#include "bench/cases.h"
#include "train/train_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The settings of a preset of fastfold-train, without recycling (each step is one forward and one backward pass). */
ff_status bench_training_settings(ff_ctx *ctx, ff_train_settings *settings, const char *preset, int64_t num_workers);

/** Take the next sample and throw it away. */
ff_status bench_take_sample(ff_ctx *ctx, ff_samples *samples);

typedef struct {
    ff_train_settings settings;
    ff_trainer trainer;
    ff_samples *samples;
    /* of the last bench_training_run */
    bench_seconds step;
    double whole_s, wait_s, longest_wait_s, update_s; /* of all its steps together */
} bench_training;

/** Random weights, and a loader of `source`, which must stay. Close it also after a failure. */
ff_status bench_training_open(ff_ctx *ctx, bench_training *training, const char *preset, const ff_chain_source *source,
                              int64_t num_workers);
/** Steps after one that warms up. FF_ERR_FORMAT when a step is skipped. */
ff_status bench_training_run(ff_ctx *ctx, bench_training *training, int64_t num_steps);
void bench_training_close(ff_ctx *ctx, bench_training *training);

#ifdef __cplusplus
}
#endif
#endif
