/* sampler.h - which record of a data set each draw of a run reads, as a pure function of the number of the draw: the same for any
 * number of workers, and after a restart. */
#ifndef FF_DATA_SAMPLER_H
#define FF_DATA_SAMPLER_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_sampler ff_sampler;

/**
 * Draws with replacement, each record in proportion to its weight (a chain's is 1 / size of its cluster, ...).
 * @param weights  [num_records]  not negative, finite, not all 0; NULL = all equal
 * @return FF_ERR_ARG naming the weight at fault; FF_ERR_MEM.
 */
ff_status ff_sampler_create_weighted(ff_ctx *ctx, ff_sampler **sampler, const double *weights, int64_t num_records,
                                     uint64_t seed);
/** Epochs of num_records draws: each record once an epoch, in an order of its own for each. */
ff_status ff_sampler_create_shuffled(ff_ctx *ctx, ff_sampler **sampler, int64_t num_records, uint64_t seed);
void ff_sampler_destroy(ff_sampler *sampler); /* NULL is fine */

/** The record of a draw, draw >= 0. Constant time; any number of threads may ask. */
int64_t ff_sampler_record(const ff_sampler *sampler, int64_t draw);

#ifdef __cplusplus
}
#endif
#endif
