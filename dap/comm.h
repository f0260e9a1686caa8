/* comm.h - inside dap/: a process group and the one exchange that every collective is made of. */
#ifndef FF_DAP_COMM_H
#define FF_DAP_COMM_H

#include "dap/dap.h"

/* What one rank sends to and receives from every rank (itself included): arrays of `size` entries. */
typedef struct {
    const void *const *send;
    const size_t *send_bytes;
    void *const *receive;
    const size_t *receive_bytes;
} ff_exchange;

typedef struct ff_exchange_handle ff_exchange_handle;

/** Start an exchange: all sends and receives are posted, nothing is waited for. NULL on failure (in ctx) or without ranks.
 * All ranks call the same exchanges in the same order. Buffers stay untouched until ff_exchange_end. */
ff_exchange_handle *ff_exchange_begin(ff_ctx *ctx, const ff_exchange *x);
/** Let messages move (MPI moves them inside its calls only); call between tiles of other work. */
void ff_exchange_poll(ff_ctx *ctx, ff_exchange_handle *handle);
/** Wait for it. A rank that failed elsewhere ends the wait with its message. NULL is fine. */
ff_status ff_exchange_end(ff_ctx *ctx, ff_exchange_handle *handle);

/** begin and end in a row. */
ff_status ff_exchange_run(ff_ctx *ctx, const ff_exchange *x);

#endif
