/* loss_common.h - what the losses share: cross entropy of a row of logits, small geometry, sums in a fixed order.
 * For the files of train/ only. */
#ifndef FF_TRAIN_LOSS_COMMON_H
#define FF_TRAIN_LOSS_COMMON_H

#include <math.h>
#include <stdint.h>

#include "tensor/pool.h"

/* Scratch of `count` things of the type of `pointer`; goto done with a status of FF_ERR_MEM when there is none. */
#define FF_LOSS_SCRATCH(ctx, pointer, count)                                                       \
    do {                                                                                           \
        (pointer) = ff_pool_alloc((ctx), (size_t)(count) * sizeof *(pointer));                     \
        if ((pointer) == NULL) {                                                                   \
            status = (ctx)->status;                                                                \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)
#define FF_LOSS_SCRATCH_FREE(ctx, pointer, count)                                                  \
    do {                                                                                           \
        if ((pointer) != NULL)                                                                     \
            ff_pool_free((ctx)->pool, (pointer), (size_t)(count) * sizeof *(pointer));             \
    } while (0)

/* -log softmax(logits)[target]; with `grad`, adds scale * (softmax(logits) - one_hot(target)). */
static inline double ff_row_cross_entropy(const float *logits, int64_t n, int64_t target,
                                          float *grad, double scale)
{
    float max = logits[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t k = 0; k < n; k++)
        max = logits[k] > max ? logits[k] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; k++)
        sum += expf(logits[k] - max);
    if (grad != NULL && scale != 0) {
        const float factor = (float)(scale / (double)sum);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            grad[k] += factor * expf(logits[k] - max);
        grad[target] -= (float)scale;
    }
    return log((double)sum) + (double)max - (double)logits[target];
}

/* Class of a squared distance: how many of the rising edges (not squared) it exceeds. */
static inline int32_t ff_count_exceeded(double d2, const float *edges, int64_t num_edges)
{
    int32_t count = 0;
    for (int64_t k = 0; k < num_edges; k++)
        count += d2 > (double)edges[k] * (double)edges[k];
    return count;
}

/* Sum of n doubles in order: the parts of a loss, one for each row. */
static inline double ff_sum_rows(const double *rows, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += rows[i];
    return sum;
}

static inline double ff_sum_mask(const float *mask, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)mask[i];
    return sum;
}

/* Rotation (row-major) of a quaternion as AlphaFold's quat_to_rot: the quadratic form, without normalisation. */
static inline void ff_quaternion_to_rotation(double r[9], const float q[4])
{
    const double w = (double)q[0], x = (double)q[1], y = (double)q[2], z = (double)q[3];
    r[0] = w * w + x * x - y * y - z * z;
    r[1] = 2 * (x * y - w * z);
    r[2] = 2 * (x * z + w * y);
    r[3] = 2 * (x * y + w * z);
    r[4] = w * w - x * x + y * y - z * z;
    r[5] = 2 * (y * z - w * x);
    r[6] = 2 * (x * z - w * y);
    r[7] = 2 * (y * z + w * x);
    r[8] = w * w - x * x - y * y + z * z;
}

/* grad_q += factor * (d r / d q)^T grad_r. */
static inline void ff_quaternion_to_rotation_backward(float grad_q[4], const double g[9],
                                                      const float q[4], double factor)
{
    const double w = (double)q[0], x = (double)q[1], y = (double)q[2], z = (double)q[3];
    grad_q[0] += (float)(2 * factor *
                         (w * (g[0] + g[4] + g[8]) + x * (g[7] - g[5]) + y * (g[2] - g[6]) +
                          z * (g[3] - g[1])));
    grad_q[1] += (float)(2 * factor *
                         (x * (g[0] - g[4] - g[8]) + w * (g[7] - g[5]) + y * (g[1] + g[3]) +
                          z * (g[2] + g[6])));
    grad_q[2] += (float)(2 * factor *
                         (y * (g[4] - g[0] - g[8]) + w * (g[2] - g[6]) + x * (g[1] + g[3]) +
                          z * (g[5] + g[7])));
    grad_q[3] += (float)(2 * factor *
                         (z * (g[8] - g[0] - g[4]) + w * (g[3] - g[1]) + x * (g[2] + g[6]) +
                          y * (g[5] + g[7])));
}

/* affine [7] to frame [12]. */
static inline void ff_affine_to_frame(float frame[12], const float affine[7])
{
    double r[9];
    ff_quaternion_to_rotation(r, affine);
    for (int k = 0; k < 9; k++)
        frame[k] = (float)r[k];
    for (int k = 0; k < 3; k++)
        frame[9 + k] = affine[4 + k];
}

#endif
