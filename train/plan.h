/* plan.h - what a training step costs, before it is done, and which blocks have to be recomputed for it to fit. */
#ifndef FF_TRAIN_PLAN_H
#define FF_TRAIN_PLAN_H

#include "train/train_options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t num_res, num_seq, num_extra, num_templ, num_block;
    int64_t num_plain_block;  /* Evoformer blocks that keep everything */
    bool checkpoint;          /* the others, the extra-MSA and the template stack are recomputed */
    double num_parameters;
    double weights_bytes;     /* weights, gradients, moments, average */
    double activation_bytes;  /* peak of forward and backward */
    double batch_bytes;       /* samples made ahead */
    double cache_bytes;       /* chains kept by the loader */
    double total_bytes;
    double flop;              /* of one sample: forward passes with the mean number of recycles, and backward */
} ff_train_cost;

/**
 * Run the model's code on shapes alone. ctx needs kernels; its pool and plan are not touched.
 * @param num_plain  Evoformer blocks that are not recomputed; -1 = nothing is recomputed
 */
ff_status ff_train_plan(ff_ctx *ctx, const ff_train_settings *settings, int64_t num_plain, ff_train_cost *cost);

/**
 * The cheapest way that fits: everything kept, else as many plain blocks as there is room for.
 * @param max_bytes  0 = no limit
 * @return FF_ERR_MEM "needs X, --max-memory allows Y, try ..." when even recomputing all does not fit; `cost` is then of that
 */
ff_status ff_train_choose(ff_ctx *ctx, const ff_train_settings *settings, int64_t max_bytes, ff_train_cost *cost);

/** Put the choice into a trunk's configuration. */
void ff_train_apply(const ff_train_cost *cost, ff_evoformer_config *config);

/** A few lines for people. */
void ff_train_print_plan(const ff_train_cost *cost, FILE *file);

#ifdef __cplusplus
}
#endif
#endif
