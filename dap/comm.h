/* comm.h - inside dap/: a process group and the one exchange that every collective is made of. */
#ifndef FF_DAP_COMM_H
#define FF_DAP_COMM_H

#include "dap/dap.h"

/** What this rank exchanges with one rank (itself included: then the bytes are copied, unless both places are one). */
typedef struct {
    const void *send;
    size_t send_bytes;
    void *receive;
    size_t receive_bytes;
} ff_exchange_part;

typedef ff_dap_shift ff_exchange_handle;

/* Ranks of the grid that exchange with each other: those of one model, those with the same part of every model, all. */
typedef enum { FF_GROUP_DAP, FF_GROUP_DATA, FF_GROUP_WORLD } ff_group_kind;

/* Member m of `size` is process first + m * stride; this one is member `rank`. */
typedef struct {
    int rank, size, first, stride;
} ff_group;

/** A group of this process; one member without a communicator. */
ff_group ff_comm_group(const ff_ctx *ctx, ff_group_kind kind);

/** The list of parts for the next ff_exchange_begin, one a member of the group, lent. Needs a communicator. */
ff_exchange_part *ff_exchange_parts(ff_ctx *ctx);

/**
 * Start an exchange of the parts in the list: all receives and sends are posted, nothing is waited for; the list is free
 * again, buffers stay untouched until ff_exchange_end. All ranks begin the same exchanges in the same order; several may
 * be under way, also in different groups. Adds a record of this name to the plan; in plan mode nothing else happens.
 * @return NULL in plan mode or on failure (in ctx).
 */
ff_exchange_handle *ff_exchange_begin(ff_ctx *ctx, const ff_group *group, const char *name, bool backward, double bytes_moved);

/** Wait for it. After a failure, here or on another rank, the buffers are free as well. NULL is fine. */
ff_status ff_exchange_end(ff_ctx *ctx, ff_exchange_handle *handle);

/** For tests of the tests: sums over ranks take this rank's own contribution only, the wrong adjoint that treats a gather
 * as if its result were used on one rank alone. */
void ff_comm_set_own_only(ff_ctx *ctx, bool own_only);
bool ff_comm_own_only(const ff_ctx *ctx);

/** Whether floats of a forward exchange travel as bfloat16. */
bool ff_comm_narrow(const ff_ctx *ctx);

/** Whether exchanges in two parts are done in the first one (ff_dap_set_blocking). */
bool ff_comm_blocking(const ff_ctx *ctx);

#endif
