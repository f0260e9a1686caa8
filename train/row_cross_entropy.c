/* row_cross_entropy.c - see row_cross_entropy.h. */
#include "train/row_cross_entropy.h"

#include <math.h>

#include "kernels/kernels.h"

ff_loss_target ff_loss_target_of(const ff_ctx *ctx)
{
    const ff_isa own = ctx->kernels == NULL ? FF_ISA_NONE : ctx->kernels->isa, isa = own == FF_ISA_NONE ? ff_isa_best() : own;
    if (!FF_HAVE_TARGETS || isa < FF_ISA_AVX2_)
        return FF_LOSS_PLAIN;
    return isa < FF_ISA_AVX512_ ? FF_LOSS_AVX2 : FF_LOSS_AVX512;
}

/* e^x for x <= 0: 2^n e^r with |r| <= ln 2 / 2, and the series of e^r up to r^7 / 5040. */
FF_TARGET_BODY float exp_of_negative(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: the last bits of x + shift are x rounded to an integer */
    union {
        float f;
        uint32_t bits;
    } power;
    x = x < -87.0f ? -87.0f : x;
    power.f = x * 1.44269504f + shift;
    const float n = power.f - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    power.bits = (power.bits << 23) + 0x3f800000u;
    float y = 1.0f / 5040;
    y = y * r + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    return power.f * (y * r + 1.0f);
}

FF_TARGET_BODY double cross_entropy(const float *restrict logits, int64_t n, int64_t target, float *restrict grad, double scale)
{
    float max = logits[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t k = 0; k < n; k++)
        max = logits[k] > max ? logits[k] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++)
        sum += exp_of_negative(logits[k] - max);
    if (grad != NULL && scale != 0) {
        const float factor = (float)(scale / (double)sum);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            grad[k] += factor * exp_of_negative(logits[k] - max);
        grad[target] -= (float)scale;
    }
    return log((double)sum) + (double)max - (double)logits[target];
}

static double row_plain(const float *logits, int64_t n, int64_t target, float *grad, double scale)
{
    return cross_entropy(logits, n, target, grad, scale);
}

#if FF_HAVE_TARGETS
FF_TARGET_AVX2 static double row_avx2(const float *logits, int64_t n, int64_t target, float *grad, double scale)
{
    return cross_entropy(logits, n, target, grad, scale);
}

FF_TARGET_AVX512 static double row_avx512(const float *logits, int64_t n, int64_t target, float *grad, double scale)
{
    return cross_entropy(logits, n, target, grad, scale);
}
#endif

ff_row_cross_entropy_fn ff_row_cross_entropy_of(const ff_ctx *ctx)
{
#if FF_HAVE_TARGETS
    static const ff_row_cross_entropy_fn rows[] = {row_plain, row_avx2, row_avx512};
    return rows[ff_loss_target_of(ctx)];
#else
    (void)ctx;
    return row_plain;
#endif
}
