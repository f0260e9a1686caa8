#include "data/hits.h"

#include <stdlib.h>
#include <string.h>

void ff_template_hits_destroy(ff_template_hits *hits)
{
    free(hits->path);
    free(hits->hits);
    free(hits->indices);
    ff_text_buffer_destroy(&hits->text);
    *hits = (ff_template_hits){.path = NULL};
}

ff_status ff_hits_builder_add(ff_ctx *ctx, ff_hits_builder *b, const ff_template_hit *hit,
                              const ff_hit_offsets *offsets)
{
    ff_template_hits *h = &b->hits;
    FF_TRY(ff_grow(ctx, &h->hits, &h->hit_capacity, h->count + 1, sizeof *h->hits));
    FF_TRY(ff_grow(ctx, &b->offsets, &b->offset_capacity, h->count + 1, sizeof *b->offsets));
    b->offsets[h->count] = *offsets;
    h->hits[h->count++] = *hit;
    return FF_OK;
}

ff_status ff_hits_builder_text(ff_ctx *ctx, ff_hits_builder *b, const char *text, int64_t length, int64_t *at)
{
    *at = (int64_t)b->hits.text.size;
    FF_TRY(ff_text_buffer_put_line(ctx, &b->hits.text, text, (size_t)length));
    return ff_text_buffer_put(ctx, &b->hits.text, "", 1);
}

ff_status ff_hits_builder_indices(ff_ctx *ctx, ff_hits_builder *b, const char *sequence, int64_t length, int32_t start)
{
    ff_template_hits *h = &b->hits;
    FF_TRY(ff_grow(ctx, &h->indices, &h->index_capacity, h->num_indices + length, sizeof *h->indices));
    uint32_t number = (uint32_t)start; /* a start near 2^31 in a damaged file may wrap */
    for (int64_t i = 0; i < length; i++) {
        const char c = sequence[i];
        const bool lower = c >= 'a' && c <= 'z';
        if (!lower)
            h->indices[h->num_indices++] = c == '-' ? -1 : (int32_t)number;
        number += c != '-';
    }
    return FF_OK;
}

static ff_status finish(ff_ctx *ctx, ff_hits_builder *b, const char *path)
{
    ff_template_hits *h = &b->hits;
    h->path = strdup(path);
    if (h->path == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the hits of %s", path);
    FF_TRY(ff_text_buffer_reserve(ctx, &h->text, 0));
    FF_TRY(ff_grow(ctx, &h->indices, &h->index_capacity, 1, sizeof *h->indices));
    for (int64_t k = 0; k < h->count; k++) {
        ff_template_hit *hit = &h->hits[k];
        const ff_hit_offsets *at = &b->offsets[k];
        hit->name = h->text.data + at->name;
        hit->query = h->text.data + at->query;
        hit->hit_sequence = h->text.data + at->hit_sequence;
        hit->indices_query = h->indices + at->indices_query;
        hit->indices_hit = h->indices + at->indices_hit;
    }
    return FF_OK;
}

ff_status ff_hits_builder_finish(ff_ctx *ctx, ff_hits_builder *b, const char *path, ff_template_hits *hits)
{
    const ff_status status = finish(ctx, b, path);
    *hits = (ff_template_hits){.path = NULL};
    if (status == FF_OK) {
        *hits = b->hits;
        b->hits = (ff_template_hits){.path = NULL};
    }
    ff_hits_builder_destroy(b);
    return status;
}

void ff_hits_builder_destroy(ff_hits_builder *b)
{
    ff_template_hits_destroy(&b->hits);
    free(b->offsets);
    *b = (ff_hits_builder){.offsets = NULL};
}
