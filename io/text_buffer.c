#include "io/text_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "core/large_pages.h"

ff_status ff_text_buffer_reserve(ff_ctx *ctx, ff_text_buffer *buffer, size_t more)
{
    const size_t wanted = buffer->size + more + 1;
    if (wanted <= buffer->capacity)
        return FF_OK;
    size_t capacity = buffer->capacity < 256 ? 256 : buffer->capacity;
    while (capacity < wanted)
        capacity *= 2;
    char *grown = realloc(buffer->data, capacity);
    if (grown == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %zu bytes of text", capacity);
    ff_use_large_pages(grown, capacity);
    buffer->data = grown;
    buffer->capacity = capacity;
    grown[buffer->size] = '\0';
    return FF_OK;
}

ff_status ff_text_buffer_put(ff_ctx *ctx, ff_text_buffer *buffer, const char *bytes, size_t length)
{
    FF_TRY(ff_text_buffer_reserve(ctx, buffer, length));
    if (length > 0)
        memcpy(buffer->data + buffer->size, bytes, length);
    buffer->size += length;
    buffer->data[buffer->size] = '\0';
    return FF_OK;
}

ff_status ff_text_buffer_put_line(ff_ctx *ctx, ff_text_buffer *buffer, const char *bytes, size_t length)
{
    const char *end = bytes + length;
    for (const char *nul; (nul = memchr(bytes, '\0', (size_t)(end - bytes))) != NULL; bytes = nul + 1) {
        FF_TRY(ff_text_buffer_put(ctx, buffer, bytes, (size_t)(nul - bytes)));
        FF_TRY(ff_text_buffer_put(ctx, buffer, "\\0", 2));
    }
    return ff_text_buffer_put(ctx, buffer, bytes, (size_t)(end - bytes));
}

void ff_text_buffer_clear(ff_text_buffer *buffer)
{
    buffer->size = 0;
    if (buffer->data != NULL)
        buffer->data[0] = '\0';
}

void ff_text_buffer_destroy(ff_text_buffer *buffer)
{
    free(buffer->data);
    *buffer = (ff_text_buffer){NULL, 0, 0};
}

ff_status ff_grow(ff_ctx *ctx, void *data, int64_t *capacity, int64_t wanted, size_t element_bytes)
{
    if (wanted <= *capacity)
        return FF_OK;
    int64_t room = *capacity < 16 ? 16 : *capacity;
    while (room < wanted)
        room *= 2;
    void *old;
    memcpy(&old, data, sizeof old); /* `data` is the address of a pointer of any type */
    void *grown = realloc(old, (size_t)room * element_bytes);
    if (grown == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld elements of %zu bytes", (long long)room, element_bytes);
    ff_use_large_pages(grown, (size_t)room * element_bytes);
    memcpy(data, &grown, sizeof grown);
    *capacity = room;
    return FF_OK;
}

ff_status ff_text_list_add(ff_ctx *ctx, ff_text_list *list, const char *text, size_t length)
{
    FF_TRY(ff_grow(ctx, &list->offsets, &list->capacity, list->count + 1, sizeof *list->offsets));
    const size_t begin = list->bytes.size;
    FF_TRY(ff_text_buffer_put_line(ctx, &list->bytes, text, length));
    FF_TRY(ff_text_buffer_put(ctx, &list->bytes, "", 1));
    list->offsets[list->count++] = (int64_t)begin;
    return FF_OK;
}

void ff_text_list_destroy(ff_text_list *list)
{
    ff_text_buffer_destroy(&list->bytes);
    free(list->offsets);
    *list = (ff_text_list){{NULL, 0, 0}, NULL, 0, 0};
}
