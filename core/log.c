/* log.c - one record is built in one buffer and written by one call, so that lines of threads and ranks do not mix. */
#include "core/log.h"

#include <stdarg.h>
#include <string.h>

#include "core/utf8.h"

enum { RECORD_BYTES = 8192, TEXT_BYTES = 2048 }; /* escaping makes at most 6 bytes of one, and then cuts */

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* Append `text` as the inside of a JSON string; stops early rather than run over `end`. */
static char *append_json(char *out, const char *end, const char *text)
{
    for (int length = 1; *text != '\0' && end - out > 7; text += length > 1 ? length : 1) {
        const unsigned char c = (unsigned char)*text;
        length = ff_utf8_length(text);
        if (c == '"' || c == '\\') {
            *out++ = '\\';
            *out++ = (char)c;
        } else if (c == '\n') {
            *out++ = '\\';
            *out++ = 'n';
        } else if (c < 0x20) {
            out += snprintf(out, 7, "\\u%04x", c);
        } else if (length == 0) { /* no UTF-8: the replacement character */
            out += snprintf(out, 7, "\\ufffd");
        } else {
            memcpy(out, text, (size_t)length);
            out += length;
        }
    }
    return out;
}

void ff_log_write(const ff_log *log, ff_log_level level, const char *format, ...)
{
    if (log->file == NULL || level > log->level)
        return;
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof text)
        strcpy(text + sizeof text - 4, "...");

    char record[RECORD_BYTES];
    char *const end = record + sizeof record - 4; /* room for the closing `"}` and the newline */
    char *out = record;
    if (log->json) {
        out += sprintf(out, "{\"level\": \"%s\"", level_names[level]);
        if (log->rank >= 0)
            out += sprintf(out, ", \"rank\": %d", log->rank);
        out += sprintf(out, ", \"message\": \"");
        out = append_json(out, end, text);
        *out++ = '"';
        *out++ = '}';
    } else {
        out += sprintf(out, "[%s] ", level_names[level]);
        if (log->rank >= 0)
            out += sprintf(out, "rank %d: ", log->rank);
        for (const char *c = text; *c != '\0'; c++)
            *out++ = *c == '\n' ? ' ' : *c; /* one record is one line */
    }
    *out++ = '\n';
    fwrite(record, 1, (size_t)(out - record), log->file);
    fflush(log->file);
}
