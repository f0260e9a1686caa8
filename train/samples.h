/* samples.h - the samples of a training run: which chain draw k reads and what is made of it, as pure functions of (seed, k), made
 * ahead of their use (data/loader.h).
 *
 * Step s has the draws s * batch_size ... of all its samples; they share its number of recycles, which is drawn uniformly from
 * 0 .. num_recycle (Jumper et al. 2021, Suppl. Alg. 31). With self-distillation each draw takes the second source with probability
 * `distillation_fraction` (Suppl. section 1.2.4: 0.75).
 *
 * A batch holds one sample: crop, MSA rows and labels. Chains shorter than the crop, and alignments with fewer rows than the model
 * reads, give smaller batches: nothing is padded that every kernel would then compute in vain. */
#ifndef FF_TRAIN_SAMPLES_H
#define FF_TRAIN_SAMPLES_H

#include "data/loader.h"
#include "data/process.h"
#include "train/chain_source.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_process_options process;   /* sizes; num_recycle is the largest; key is set for each draw */
    uint64_t seed;
    int64_t batch_size;
    bool draw_recycles;           /* false: always num_recycle */
    double distillation_fraction; /* used when there is a second source */
    int64_t num_workers, queue_length;
    size_t cache_bytes;
} ff_samples_options;

typedef struct ff_samples ff_samples;

/**
 * Start making samples from draw first_step * batch_size on.
 * @param source, distillation  borrowed; must outlive the samples; distillation NULL = none
 */
ff_status ff_samples_create(ff_ctx *ctx, ff_samples **samples, const ff_samples_options *options,
                            const ff_chain_source *source, const ff_chain_source *distillation, int64_t first_step);
void ff_samples_destroy(ff_samples *samples); /* NULL is fine */

/** The next sample, as ff_loader_next. The name of its chain is lent. On failure draw and name are set all the same. */
ff_status ff_samples_next(ff_ctx *ctx, ff_samples *samples, ff_array_set *batch, ff_loader_draw *draw, const char **name);
ff_loader_stats ff_samples_stats(ff_samples *samples);

/** Recycles of a step. */
int64_t ff_samples_num_recycle(const ff_samples_options *options, int64_t step);

/** One batch from raw features, cut to what is there (see above), with labels. */
ff_status ff_samples_make_batch(ff_ctx *ctx, ff_array_set *batch, const ff_array_set *raw, const ff_process_options *process);

#ifdef __cplusplus
}
#endif
#endif
