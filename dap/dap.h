/* dap.h - ranks, shards and collectives of Dynamic Axial Parallelism. Without a communicator (ctx->comm NULL) every call
 * is the identity, so that model code is written once.
 *
 * An axis of length n over D ranks: rank r holds ff_shard_length(n, r, D) consecutive entries starting at
 * ff_shard_first(n, r, D); the first n mod D ranks hold one more; shards may be empty (n < D).
 *
 * Blocking collectives over MPI; each has its dual as backward. All ranks call the same ones in the same order. Every
 * exchange adds a record with the bytes this rank sends to ctx->plan; in plan mode that is all it does. Sums run in rank
 * order, in float32: the same run gives the same bits, and what all ranks receive is the same on each. */
#ifndef FF_DAP_DAP_H
#define FF_DAP_DAP_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_comm ff_comm;

int64_t ff_shard_length(int64_t n, int rank, int size);
int64_t ff_shard_first(int64_t n, int rank, int size);

/* ---- the group ---- */

/** Start MPI when launched under it with dap_size > 1 (else a single process: comm stays NULL). Checks the world size. */
ff_status ff_dap_init(ff_ctx *ctx, int *argc, char ***argv, int dap_size);
/** The same for data_size models at once, each over dap_size ranks: process p is DAP rank p % dap_size of model p / dap_size. The
 * collectives below run among the ranks of one model, but for ff_dap_reduce_gradients and ff_dap_agree, which take in all. */
ff_status ff_dap_init_grid(ff_ctx *ctx, int *argc, char ***argv, int data_size, int dap_size);
/** The part of one rank among `size` for plan mode, in a single process: records are made, nothing is sent. */
ff_status ff_dap_init_plan(ff_ctx *ctx, int rank, int size);
/** Agrees a last time, then leaves the group; NULL comm is fine. */
void ff_dap_finalize(ff_ctx *ctx);
int ff_dap_rank(const ff_ctx *ctx); /* 0 without a communicator */
int ff_dap_size(const ff_ctx *ctx); /* 1 without a communicator */
int ff_data_rank(const ff_ctx *ctx); /* of this process's model among data_size; 0 without a communicator */
int ff_data_size(const ff_ctx *ctx);
/** Bytes this rank has sent to others in collectives since the start. */
double ff_dap_bytes_sent(const ff_ctx *ctx);

/**
 * All ranks learn of a failure of any: each returns the status and has the message of the lowest rank that failed by
 * itself, as "rank 2: message" on the others. Call it at step boundaries, whatever the status.
 *
 * A rank that has failed calls no more collectives and comes here. Ranks that wait for it in a collective are woken: their
 * collective fails with FF_ERR_COMM, and they come here as well. After an agreed failure collectives fail at once.
 */
ff_status ff_dap_agree(ff_ctx *ctx);

/* ---- overlap: what exchanges cost ---- */

/** Let messages of exchanges under way move; between tiles of other work, from the thread that began them. Cheap when there are none. */
void ff_dap_poll(ff_ctx *ctx);

/** How float arrays travel in forward gathers and all-to-alls: float32 (the default) or rounded to bfloat16, half the bytes. Operands
 * travel in their own type, sums and backward exchanges in float32, and so does all that a bfloat16 run computes in float32 (layers of
 * few channels, the structure module). */
void ff_dap_set_wire(ff_ctx *ctx, ff_dtype dtype);

/** Wait in every begin, so that nothing overlaps: to compare with. */
void ff_dap_set_blocking(ff_ctx *ctx, bool blocking);

/** An artificial link for measurements: an exchange is done no sooner than latency_s + bytes received / bytes_per_s after all ranks
 * have begun it, one after the other on the link, while computation goes on. bytes_per_s 0 = none. */
void ff_dap_set_link(ff_ctx *ctx, double latency_s, double bytes_per_s);

/* One exchange; times in seconds on the clock of the machine, which its ranks share. */
typedef struct {
    const char *name;
    bool backward;
    double bytes_sent, bytes_received;
    double begin_s;  /* this rank began it */
    double posted_s; /* all ranks of the group had begun it */
    double done_s;   /* complete; without a link: seen to be complete */
    double wait_s, end_s; /* this rank waited for it */
} ff_dap_event;

/** The part of its wait that no other rank is the reason of. */
double ff_dap_event_exposed(const ff_dap_event *e);

/** Keep events from now on (forgetting earlier ones), or stop. Costs a small message per exchange and rank. */
void ff_dap_trace(ff_ctx *ctx, bool on);
int64_t ff_dap_num_events(const ff_ctx *ctx);
const ff_dap_event *ff_dap_get_event(const ff_ctx *ctx, int64_t index);

/* ---- operations on the tape; fresh tensors, except that one rank gets its argument back ---- */

/** A replicated tensor for use by each rank's own rows: x itself; backward: all-reduce. */
ff_tensor *ff_dap_replicated(ff_ctx *ctx, ff_tensor *x);
/** Local shard of a replicated tensor along `axis`; backward: all-gather (the rest of the model is replicated). */
ff_tensor *ff_dap_scatter(ff_ctx *ctx, ff_tensor *x, int axis);
/** The whole replicated tensor, `total` along `axis`, used identically on every rank; backward: local slice. */
ff_tensor *ff_dap_gather_replicated(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total);
/** The whole tensor for use by each rank's own rows; backward: reduce-scatter. */
ff_tensor *ff_dap_all_gather(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total);
/** x (consumed) is split along `from` (of total_from); afterwards it is whole there and split along `to` (of total_to);
 * backward: the opposite exchange. */
ff_tensor *ff_dap_all_to_all(ff_ctx *ctx, ff_tensor *x, int from, int64_t total_from, int to, int64_t total_to);

/* An exchange under way. */
typedef struct ff_dap_pending ff_dap_pending;

/**
 * ff_dap_all_to_all in two parts: other work goes on in between. In the backward pass the end begins the opposite exchange and the
 * begin waits for it. x is consumed, but others may hold and read it meanwhile. Every begin has its end, also after a failure.
 * @return NULL after a failure
 */
ff_dap_pending *ff_dap_all_to_all_begin(ff_ctx *ctx, ff_tensor *x, int from, int64_t total_from, int to, int64_t total_to);
/** NULL gives NULL. */
ff_tensor *ff_dap_all_to_all_end(ff_ctx *ctx, ff_dap_pending *pending);

/* ---- on plain arrays; not differentiated ---- */

/* Messages under way. */
typedef struct ff_exchange_handle ff_dap_shift;

/**
 * Send the data of `to` to rank + by and receive that of `from` from rank - by (both cyclic), while other work goes on. All ranks
 * begin the same shifts in the same order; the tensors stay until the end, which comes also after a failure (NULL is fine).
 */
ff_dap_shift *ff_dap_shift_begin(ff_ctx *ctx, const char *name, int by, const ff_tensor *to, ff_tensor *from);
void ff_dap_shift_end(ff_ctx *ctx, ff_dap_shift *shift);

/** Sum of n floats over the ranks of a model, in place. */
ff_status ff_dap_all_reduce(ff_ctx *ctx, float *data, int64_t n);
/** Sum of a block of parameter gradients over all processes, in place, in buckets: what every layer added on its rank becomes the
 * gradient of the sum of all models' losses, the same bits on each process. */
ff_status ff_dap_reduce_gradients(ff_ctx *ctx, float *block, int64_t total);
/** out: the ranks' parts one after the other; a part is that rank's shard of `length` times unit_bytes, in any layout. */
ff_status ff_dap_all_gather_bytes(ff_ctx *ctx, void *out, const void *local, int64_t length, size_t unit_bytes);
/** local = sum over ranks of this rank's part of their `full`, which holds parts as above, `unit` floats an entry. */
ff_status ff_dap_reduce_scatter(ff_ctx *ctx, float *local, const float *full, int64_t length, int64_t unit);

#ifdef __cplusplus
}
#endif
#endif
