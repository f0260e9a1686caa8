/* text_buffer.h - bytes that grow at the end, lists of texts, and growing arrays. */
#ifndef FF_IO_TEXT_BUFFER_H
#define FF_IO_TEXT_BUFFER_H

#include <stddef.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char *data; /* NULL while nothing was ever put; else data[size] is '\0' */
    size_t size, capacity;
} ff_text_buffer;

/** Room for `more` bytes behind `size`, and the '\0'. */
ff_status ff_text_buffer_reserve(ff_ctx *ctx, ff_text_buffer *buffer, size_t more);
ff_status ff_text_buffer_put(ff_ctx *ctx, ff_text_buffer *buffer, const char *bytes, size_t length);
/** The same with each NUL written as the two characters `\0`, so that the result is a C string. */
ff_status ff_text_buffer_put_line(ff_ctx *ctx, ff_text_buffer *buffer, const char *bytes, size_t length);
/** Empty it and keep its memory. */
void ff_text_buffer_clear(ff_text_buffer *buffer);
/** Free it; empty afterwards. */
void ff_text_buffer_destroy(ff_text_buffer *buffer);

/**
 * Room for `wanted` elements of `element_bytes` each in a growing array: doubles its capacity when it is too small.
 * @param data      inout  the array; the new part is not cleared
 * @param capacity  inout  elements there is room for
 */
ff_status ff_grow(ff_ctx *ctx, void *data, int64_t *capacity, int64_t wanted, size_t element_bytes);

/* ---- many short texts in one block ---- */

typedef struct {
    ff_text_buffer bytes;
    int64_t *offsets; /* of each text in bytes */
    int64_t count, capacity;
} ff_text_list;

/** Add a copy; a NUL inside is written as `\0`. */
ff_status ff_text_list_add(ff_ctx *ctx, ff_text_list *list, const char *text, size_t length);
/** Text i as a C string, good until the next add. */
static inline const char *ff_text_list_get(const ff_text_list *list, int64_t i)
{
    return list->bytes.data + list->offsets[i];
}
void ff_text_list_destroy(ff_text_list *list);

#ifdef __cplusplus
}
#endif
#endif
