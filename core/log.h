/* log.h - one record a line, with a level and named fields in the text. Libraries print through this only. */
#ifndef FF_CORE_LOG_H
#define FF_CORE_LOG_H

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FF_LOG_ERROR = 0, FF_LOG_WARNING, FF_LOG_INFO, FF_LOG_DEBUG } ff_log_level;

typedef struct ff_log {
    FILE *file;         /* NULL = silent */
    ff_log_level level; /* records above this level are dropped */
    bool json;          /* one JSON object a line instead of text */
    int rank;           /* printed when >= 0 */
} ff_log;

/** Write one record: `[warning] text` or {"level": "warning", "rank": 0, "message": "text"}. */
void ff_log_write(const ff_log *log, ff_log_level level, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#define FF_WARN(ctx, ...) ff_log_write(&(ctx)->log, FF_LOG_WARNING, __VA_ARGS__)
#define FF_INFO(ctx, ...) ff_log_write(&(ctx)->log, FF_LOG_INFO, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
