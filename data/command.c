#include "data/command.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int ff_command_usage(ff_ctx *ctx, const char *format, ...)
{
    char text[FF_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    FF_FAIL(ctx, FF_ERR_ARG, "%s", text);
    return FF_EXIT_USAGE;
}

void ff_batch_good(ff_batch *batch) { batch->good++; }

void ff_batch_bad(ff_batch *batch, ff_ctx *ctx)
{
    FF_WARN(ctx, "%s", ctx->message);
    char **grown = realloc(batch->messages, (size_t)(batch->bad + 1) * sizeof *grown);
    if (grown != NULL) { /* else the log line above has to do */
        batch->messages = grown;
        grown[batch->bad] = strdup(ctx->message);
    }
    batch->bad++;
    ff_context_clear(ctx);
}

int ff_batch_finish(ff_batch *batch, ff_ctx *ctx)
{
    const int64_t total = batch->good + batch->bad;
    if (batch->bad > 0 && total > 1)
        ff_log_write(&ctx->log, FF_LOG_ERROR, "%lld of %lld failed:", (long long)batch->bad, (long long)total);
    for (int64_t i = 0; i < batch->bad && batch->messages != NULL; i++) {
        if (total > 1)
            ff_log_write(&ctx->log, FF_LOG_ERROR, "  %s",
                         batch->messages[i] == NULL ? "(no memory for the message)" : batch->messages[i]);
        free(batch->messages[i]);
    }
    free(batch->messages);
    const int status = batch->bad > 0 ? FF_EXIT_FAILED : FF_EXIT_DONE;
    *batch = (ff_batch){0, 0, NULL};
    return status;
}
