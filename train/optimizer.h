/* optimizer.h - Adam as AlphaFold trains with it, its learning rate, clipping, and the averaged weights.
 *
 * Contents: configuration; learning rate; norms and clipping; the optimiser; a step.
 *
 * Values, gradients, both moments and the average are contiguous blocks of the same layout
 * (tensor/parameters.h): a step is two passes over memory, one for the norm and one for everything else.
 * Results do not depend on the number of threads. Padding between parameters is zero everywhere and stays so.
 *
 * Source: Jumper et al. 2021, Suppl. section 1.11.3 (Adam, warm-up, decay, clipping) and 1.11.7 (averaged weights). */
#ifndef FF_TRAIN_OPTIMIZER_H
#define FF_TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    double learning_rate; /* after the warm-up */
    double beta1, beta2;  /* decay of the first and the second moment */
    double epsilon;       /* added to the root of the bias-corrected second moment */
    int64_t warmup_steps; /* the rate rises linearly over these; 0 = no warm-up */
    int64_t decay_start;  /* the last step at the full rate; 0 = the rate never decays */
    int64_t decay_every;  /* steps between further decays; 0 = one decay only, as in the paper */
    double decay_factor;  /* of each decay */
    double clip_norm;     /* largest norm of a gradient; 0 = no clipping */
    double ema_decay;     /* of the averaged weights, a step */
} ff_optimizer_config;

/**
 * Initial training: 1e-3, 0.9, 0.999, 1e-6; warm-up over 1,000 steps (128,000 samples in batches of 128),
 * times 0.95 after 50,000 steps; clipping at 0.1; average 0.999. With `finetune`: half the rate, neither
 * warm-up nor decay.
 */
ff_optimizer_config ff_optimizer_alphafold(bool finetune);
/** @return FF_ERR_ARG naming the first value that makes no sense. */
ff_status ff_optimizer_check_config(ff_ctx *ctx, const ff_optimizer_config *config);

/**
 * Rate of step s = 1, 2, ...
 *
 *     learning_rate * min(1, s / warmup_steps) * decay_factor^k
 *     k = 0 up to decay_start; then 1, and one more after every decay_every further steps
 */
double ff_learning_rate(const ff_optimizer_config *config, int64_t step);

/* ---- norms and clipping ---- */

/** sqrt(sum of squares), in double; not finite exactly when some number is not. */
double ff_gradient_norm(const float *grads, int64_t total);

/** What a gradient of this norm is multiplied by: min(1, clip_norm / norm); 1 when clip_norm is 0. */
double ff_clip_factor(double norm, double clip_norm);

/**
 * Clip one sample's gradient and add it to the batch: sum += min(1, clip_norm / norm) * sample; sample = 0.
 * A gradient with NaN or Inf is left out: `sum` is untouched and `sample` is 0.
 *
 * @param norm  out, before clipping; may be NULL
 * @return whether it was added
 */
bool ff_gradient_accumulate(float *sum, float *sample, int64_t total, double clip_norm, double *norm);

/* ---- the optimiser ---- */

typedef struct {
    ff_optimizer_config config;
    int64_t total; /* floats of a block */
    int64_t step;  /* updates made */
    float *first;  /* [total] first moment */
    float *second; /* [total] second moment */
    float *ema;    /* [total] averaged weights: for validation and inference */
} ff_optimizer;

/** Moments are zero, the average starts at `values` [total]. FF_ERR_ARG, FF_ERR_MEM: nothing is held then. */
ff_status ff_optimizer_create(ff_ctx *ctx, ff_optimizer *o, const ff_optimizer_config *config, const float *values,
                              int64_t total);
void ff_optimizer_destroy(ff_optimizer *o); /* a zeroed one is fine */

typedef struct {
    bool applied;         /* false: the gradient had NaN or Inf, and nothing changed but `grads`, which is 0 */
    double gradient_norm; /* of factor * grads, before clipping */
    double learning_rate; /* of this step */
} ff_step_report;

/**
 * One step; the gradient is g = factor * grads, scaled to clip_norm when its norm is larger and `clip` is set
 * (samples that ff_gradient_accumulate has clipped are not clipped again).
 *
 *     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *     value -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
 *     ema = ema_decay ema + (1 - ema_decay) value
 *     grads = 0
 *
 * @param values  [total] inout
 * @param grads   [total] inout; 0 afterwards
 * @param factor  1 / batch size, or 1
 */
ff_step_report ff_optimizer_step(ff_optimizer *o, float *values, float *grads, double factor, bool clip);

#ifdef __cplusplus
}
#endif
#endif
