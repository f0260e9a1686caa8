/* context.c - start values and the sticky error of a context. */
#include "core/context.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

void ff_context_init(ff_ctx *ctx)
{
    *ctx = (ff_ctx){
        .status = FF_OK,
        .log = {.file = stderr, .level = FF_LOG_INFO, .json = false, .rank = -1},
    };
}

ff_status ff_context_fail(ff_ctx *ctx, ff_status code, const char *format, ...)
{
    assert(code != FF_OK);
    if (ctx->status != FF_OK)
        return code; /* what came first is the cause; this is a consequence */
    ctx->status = code;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(ctx->message, sizeof ctx->message, format, args);
    va_end(args);
    if (length < 0)
        snprintf(ctx->message, sizeof ctx->message, "(message could not be formatted: %s)", format);
    else if ((size_t)length >= sizeof ctx->message)
        snprintf(ctx->message + sizeof ctx->message - 4, 4, "...");
    return code;
}

void ff_context_clear(ff_ctx *ctx)
{
    ctx->status = FF_OK;
    ctx->message[0] = '\0';
}

ff_status ff_context_step(ff_ctx *ctx, const char *phase, int64_t step, int64_t total)
{
    if (ctx->status == FF_OK && ctx->on_step != NULL && ctx->on_step(ctx->on_step_arg, phase, step, total))
        return FF_FAIL(ctx, FF_ERR_CANCELLED, "stopped on request in %s, step %lld of %lld", phase, (long long)step,
                       (long long)total);
    return ctx->status;
}
