/* shards.h - exchanges of raw arrays inside a node of the trunk. With one rank they cost nothing. Records of the
 * bytes sent are theirs, not the module's.
 *
 * A whole array of `length` entries of `unit` elements lies as the ranks' parts one after the other: rank r's part is its
 * shard of the length, in whatever order of axes the part itself has. */
#ifndef FF_EVOFORMER_SHARDS_H
#define FF_EVOFORMER_SHARDS_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** All ranks' parts of an operand array, [length, unit]. With one rank `local` itself, retained. Not differentiated. */
ff_tensor *ff_shards_gather_operand(ff_ctx *ctx, ff_tensor *local, int64_t length, int64_t unit);

/** This rank's part of the sum over ranks of `all` [length, unit], float32, in fixed order. With one rank `all` itself,
 * retained. */
ff_tensor *ff_shards_reduce(ff_ctx *ctx, ff_tensor *all, int64_t length, int64_t unit);

/** Rows first .. first + count - 1 of a replicated tensor, for use by this rank alone; backward: summed over ranks. */
ff_tensor *ff_shards_take_rows(ff_ctx *ctx, ff_tensor *x, int64_t first, int64_t count);

/** The first `count` rows of `total` from the ranks' shards, whole on every rank and used alike there; x (borrowed) may lack rows of
 * the shard from `count` on. */
ff_tensor *ff_shards_gather_rows(ff_ctx *ctx, ff_tensor *x, int64_t total, int64_t count);
/** The same in place of *x; NULL stays NULL. */
void ff_shards_replace_by_rows(ff_ctx *ctx, ff_tensor **x, int64_t total, int64_t count);

/** An operand array as float32, and back. They read host memory: FF_ERR_UNSUPPORTED on the CUDA backend. */
ff_tensor *ff_shards_to_float(ff_ctx *ctx, const ff_tensor *operand);
ff_tensor *ff_shards_to_operand(ff_ctx *ctx, const ff_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
