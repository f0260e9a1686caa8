/* dap.h - ranks, shards and collectives of Dynamic Axial Parallelism. Without a communicator (ctx->comm NULL) every call
 * is the identity, so that model code is written once.
 *
 * An axis of length n over D ranks: rank r holds ff_shard_length(n, r, D) consecutive entries starting at
 * ff_shard_first(n, r, D); the first n mod D ranks hold one more; shards may be empty (n < D).
 * This issue: blocking collectives over MPI; each has its dual as backward. */
#ifndef FF_DAP_DAP_H
#define FF_DAP_DAP_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_comm ff_comm;

int64_t ff_shard_length(int64_t n, int rank, int size);
int64_t ff_shard_first(int64_t n, int rank, int size);

/** Start MPI when launched under it with dap_size > 1 (else a single process: comm stays NULL). Checks the world size. */
ff_status ff_dap_init(ff_ctx *ctx, int *argc, char ***argv, int dap_size);
void ff_dap_finalize(ff_ctx *ctx);
int ff_dap_rank(const ff_ctx *ctx); /* 0 without a communicator */
int ff_dap_size(const ff_ctx *ctx); /* 1 without a communicator */
/** All ranks learn the worst status (and rank 0 the message of the lowest failing rank); call at step boundaries. */
ff_status ff_dap_agree(ff_ctx *ctx);

/* Tape operations; all but ff_dap_scatter's result are fresh tensors. Arguments marked consumed give up a reference. */

/** Local shard of a replicated tensor along `axis`; backward: all-gather (the rest of the model is replicated). */
ff_tensor *ff_dap_scatter(ff_ctx *ctx, ff_tensor *x, int axis);
/** The whole replicated tensor, `total` along `axis`, used identically on every rank; backward: local slice. */
ff_tensor *ff_dap_gather_replicated(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total);
/** The whole tensor for use by each rank's own rows; backward: reduce-scatter (fixed rank order, float32). */
ff_tensor *ff_dap_all_gather(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total);
/** x (consumed) is split along `from` (of total_from); afterwards it is whole there and split along `to` (of total_to);
 * backward: the opposite exchange. */
ff_tensor *ff_dap_all_to_all(ff_ctx *ctx, ff_tensor *x, int from, int64_t total_from, int to, int64_t total_to);
/** Sum of n floats over ranks in fixed order, same bits on every rank; for gradients of replicated parameters. */
ff_status ff_dap_all_reduce(ff_ctx *ctx, float *data, int64_t n);
/** Gather raw operand buffers of different row counts: out[r] (bytes[r]) from each rank; not differentiated. */
ff_status ff_dap_all_gather_bytes(ff_ctx *ctx, const void *local, size_t local_bytes, void *out, const size_t *bytes);
/** Sum contributions of every rank to every rank's shard: local receives sum over ranks of their block for me. */
ff_status ff_dap_reduce_scatter(ff_ctx *ctx, const float *full, const int64_t *counts, float *local);

#ifdef __cplusplus
}
#endif
#endif
