#include "dap/ping.h"

#include <stdlib.h>

#include "core/clock.h"
#include "dap/comm.h"

static ff_status exchange_once(ff_ctx *ctx, const ff_group *group, const char *sent, char *received, size_t bytes)
{
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    for (int r = 0; r < group->size; r++) {
        const size_t n = r == group->rank ? 0 : bytes;
        parts[r] = (ff_exchange_part){sent, n, received + (size_t)r * bytes, n};
    }
    return ff_exchange_end(ctx, ff_exchange_begin(ctx, group, "ping", false, 0));
}

ff_status ff_dap_ping(ff_ctx *ctx, size_t bytes, int repeat, double *seconds)
{
    *seconds = 0;
    if (ctx->comm == NULL || repeat < 1)
        return ctx->status;
    const ff_group group = ff_comm_group(ctx, FF_GROUP_WORLD);
    if (group.size == 1)
        return ctx->status;
    ff_status status = FF_OK;
    char *sent = calloc(bytes, 1), *received = calloc((size_t)group.size, bytes);
    if (sent == NULL || received == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for pings of %zu bytes among %d", bytes, group.size);
        goto done;
    }
    FF_TRY_DONE(exchange_once(ctx, &group, sent, received, bytes)); /* page faults */
    for (int i = 0; i < repeat; i++) {
        const double begin = ff_clock_s();
        FF_TRY_DONE(exchange_once(ctx, &group, sent, received, bytes));
        const double took = ff_clock_s() - begin;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
done:
    free(sent);
    free(received);
    return status;
}
