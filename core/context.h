/* context.h - ff_ctx, the one object every call receives: error state, log, and what the layers above hang on it.
 *
 * One context per rank and host thread; nothing in the project has mutable globals. The pointers to types of other
 * layers are opaque here; each layer installs its own (tensor/tensor.h: pool, tape, recorder; dap/dap.h: comm). */
#ifndef FF_CORE_CONTEXT_H
#define FF_CORE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/log.h"
#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_MESSAGE_BYTES = 1024 };

/** Told between the steps of a long computation: `phase` ("evoformer"), steps done, steps in all. True = stop. */
typedef bool (*ff_step_fn)(void *arg, const char *phase, int64_t step, int64_t total);

typedef struct ff_ctx {
    ff_status status;               /* sticky: the first failure; tensor operations return NULL while it is set */
    char message[FF_MESSAGE_BYTES]; /* says what failed, where, and what to do; empty while status is FF_OK */
    ff_log log;                     /* where messages of this context go */

    const struct ff_kernels *kernels; /* kernels/kernels.h: the backend's table; set by ff_context_use_kernels */
    struct ff_pool *pool;             /* tensor/pool.h: activation memory */
    struct ff_tape *tape;             /* tensor/tape.h: NULL = inference: keep nothing, update residuals in place */
    struct ff_plan *plan;             /* tensor/plan.h: not NULL = record costs (and compute nothing in plan mode) */
    struct ff_comm *comm;             /* dap/dap.h: NULL = a single process */

    ff_step_fn on_step; /* NULL = nobody is told */
    void *on_step_arg;

    uint64_t seed;     /* key of all random numbers */
    uint64_t step;     /* training step, part of every random key */
    uint64_t op_index; /* counts operations that draw random numbers; reset at the start of each forward pass */
    bool training;     /* dropout on */
    bool keep_inputs;  /* tape nodes keep their inputs only and recompute the rest (keep = inputs) */
} ff_ctx;

/** A context with status FF_OK, logging to stderr, one seed of 0 and nothing else attached. */
void ff_context_init(ff_ctx *ctx);

/**
 * Record a failure (the first one wins) and return `code`. Use through FF_FAIL.
 * `format` is a printf format; the text should name file, line, the offending value, and what to do.
 */
ff_status ff_context_fail(ff_ctx *ctx, ff_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/** Tell ctx->on_step, if anybody listens; FF_ERR_CANCELLED when it says so. Every rank must decide alike. */
ff_status ff_context_step(ff_ctx *ctx, const char *phase, int64_t step, int64_t total);

/** Forget a recorded failure, to go on with the next independent job. */
void ff_context_clear(ff_ctx *ctx);

#define FF_FAIL(ctx, code, ...) ff_context_fail((ctx), (code), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
