/* loss_common.h - what the losses share: scratch, cross entropy of a row of logits, sums in a fixed order.
 * For the files of train/ only. */
#ifndef FF_TRAIN_LOSS_COMMON_H
#define FF_TRAIN_LOSS_COMMON_H

#include <math.h>
#include <stdint.h>

#include "tensor/pool.h"
#include "train/row_cross_entropy.h"
#include "train/losses.h"

/* Scratch of `count` things of the type of `pointer`; goto done with a status of FF_ERR_MEM when there is none. */
#define FF_LOSS_SCRATCH(ctx, pointer, count)                                                                         \
    do {                                                                                                             \
        (pointer) = ff_pool_alloc((ctx), (size_t)(count) * sizeof *(pointer));                                       \
        if ((pointer) == NULL) {                                                                                     \
            status = (ctx)->status;                                                                                  \
            goto done;                                                                                               \
        }                                                                                                            \
    } while (0)
#define FF_LOSS_SCRATCH_FREE(ctx, pointer, count)                                                                    \
    do {                                                                                                             \
        if ((pointer) != NULL)                                                                                       \
            ff_pool_free((ctx)->pool, (pointer), (size_t)(count) * sizeof *(pointer));                               \
    } while (0)

/* Class of a squared distance: how many of the rising edges (not squared) it exceeds. By halving, without branches. */
static inline int32_t ff_count_exceeded(double d2, const float *edges, int64_t num_edges)
{
    int64_t first = 0;
    for (int64_t left = num_edges; left > 0;) {
        const int64_t half = (left + 1) / 2;
        const double edge = (double)edges[first + half - 1];
        const bool exceeds = d2 > edge * edge;
        first += exceeds ? half : 0;
        left = exceeds ? left - half : half - 1;
    }
    return (int32_t)first;
}

/* Sum of n doubles in order: the parts of a loss, one for each row. */
static inline double ff_sum_rows(const double *rows, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += rows[i];
    return sum;
}

/* 0, 0 means all n rows. */
static inline ff_loss_rows ff_loss_all_rows(ff_loss_rows rows, int64_t n)
{
    return rows.end == 0 ? (ff_loss_rows){0, n} : rows;
}

static inline double ff_sum_mask(const float *mask, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)mask[i];
    return sum;
}

#endif
