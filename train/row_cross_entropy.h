/* row_cross_entropy.h - the cross entropy of one row of logits, as fast as the machine can: most of the time of the losses. */
#ifndef FF_TRAIN_ROW_CROSS_ENTROPY_H
#define FF_TRAIN_ROW_CROSS_ENTROPY_H

#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions compiled for several instruction sets: FF_TARGET_AVX2 and FF_TARGET_AVX512 stand before their definitions. */
#if defined(__x86_64__) && defined(__GNUC__)
#define FF_HAVE_TARGETS 1
#define FF_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define FF_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#define FF_TARGET_BODY static inline __attribute__((always_inline))
#else
#define FF_HAVE_TARGETS 0
#define FF_TARGET_BODY static inline
#endif

typedef enum { FF_LOSS_PLAIN, FF_LOSS_AVX2, FF_LOSS_AVX512 } ff_loss_target;

/** The one for the context's kernels; without kernels, the best this machine has. */
ff_loss_target ff_loss_target_of(const ff_ctx *ctx);

/**
 * -log softmax(logits)[target], NaN when a logit is.
 *
 * @param logits  [n]
 * @param grad    [n] inout, or NULL: adds scale * (softmax(logits) - one_hot(target))
 *
 * exp is a polynomial with a relative error of about 2e-7; what is more than 87 below the largest logit counts as e^-87.
 */
typedef double (*ff_row_cross_entropy_fn)(const float *logits, int64_t n, int64_t target, float *grad, double scale);

ff_row_cross_entropy_fn ff_row_cross_entropy_of(const ff_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
