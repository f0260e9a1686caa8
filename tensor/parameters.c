#include "tensor/parameters.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOATS_PER_LINE = 16, NAME_BYTES = 512 };

void ff_parameters_init(ff_parameters *p) { memset(p, 0, sizeof *p); }

void ff_parameters_destroy(ff_parameters *p)
{
    for (int64_t i = 0; i < p->count; i++)
        free(p->items[i].name);
    free(p->items);
    free(p->values);
    free(p->grads);
    memset(p, 0, sizeof *p);
}

static void describe(char *text, size_t bytes, int ndim, const int64_t *shape)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < ndim && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, i == 0 ? "%lld" : ", %lld", (long long)shape[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, "]");
}

static ff_status shape_failure(ff_ctx *ctx, const char *name, int ndim, const int64_t *got, int want_ndim,
                               const int64_t *want)
{
    char a[160], b[160];
    describe(a, sizeof a, ndim, got);
    describe(b, sizeof b, want_ndim, want);
    return FF_FAIL(ctx, FF_ERR_SHAPE, "parameter %s has shape %s, expected %s", name, a, b);
}

static bool same_shape(int ndim, const int64_t *a, int ndim_b, const int64_t *b)
{
    return ndim == ndim_b && memcmp(a, b, (size_t)ndim * sizeof *a) == 0;
}

/* Linear: a model has a few hundred distinct arrays, and they are looked up once. */
ff_parameter *ff_parameters_find(const ff_parameters *p, const char *name)
{
    for (int64_t i = 0; i < p->count; i++)
        if (strcmp(p->items[i].name, name) == 0)
            return &p->items[i];
    return NULL;
}

ff_status ff_parameters_add(ff_ctx *ctx, ff_parameters *p, const char *name, int ndim, const int64_t *shape)
{
    assert(p->values == NULL && ndim <= FF_MAX_DIMS);
    const ff_parameter *old = ff_parameters_find(p, name);
    if (old != NULL)
        return same_shape(old->ndim, old->shape, ndim, shape) ? FF_OK
                                                              : shape_failure(ctx, name, ndim, shape, old->ndim, old->shape);
    if (p->count == p->capacity) {
        const int64_t capacity = p->capacity == 0 ? 128 : 2 * p->capacity;
        ff_parameter *grown = realloc(p->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the parameter list");
        p->items = grown;
        p->capacity = capacity;
    }
    ff_parameter *item = &p->items[p->count];
    memset(item, 0, sizeof *item);
    item->name = strdup(name);
    if (item->name == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the parameter list");
    item->ndim = ndim;
    item->size = 1;
    for (int i = 0; i < ndim; i++) {
        item->shape[i] = shape[i];
        item->size *= shape[i];
    }
    item->offset = p->total;
    p->total += (item->size + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
    p->count++;
    return FF_OK;
}

static float *zeroed_block(int64_t floats)
{
    float *block = aligned_alloc(64, (size_t)(floats + FLOATS_PER_LINE) * sizeof(float));
    if (block != NULL)
        memset(block, 0, (size_t)(floats + FLOATS_PER_LINE) * sizeof(float));
    return block;
}

ff_status ff_parameters_allocate(ff_ctx *ctx, ff_parameters *p, bool with_grads)
{
    assert(p->values == NULL);
    p->values = zeroed_block(p->total);
    if (with_grads)
        p->grads = zeroed_block(p->total);
    if (p->values == NULL || (with_grads && p->grads == NULL))
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld parameters", (long long)p->total);
    return FF_OK;
}

ff_status ff_parameters_bind(ff_ctx *ctx, ff_parameters *p, const char *scope, const char *name, int64_t block, int ndim,
                             const int64_t *shape, float **value, float **grad)
{
    char full[NAME_BYTES];
    const int length = snprintf(full, sizeof full, "%s%s%s", scope, scope[0] != '\0' ? "/" : "", name);
    if (length < 0 || length >= NAME_BYTES)
        return FF_FAIL(ctx, FF_ERR_ARG, "parameter name too long: %s/%s", scope, name);
    ff_parameter *item = ff_parameters_find(p, full);
    if (item == NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "parameter %s is missing", full);
    const int lead = block >= 0 ? 1 : 0;
    if (!same_shape(item->ndim - lead, item->shape + lead, ndim, shape))
        return shape_failure(ctx, full, item->ndim - lead, item->shape + lead, ndim, shape);
    if (block >= 0 && block >= item->shape[0])
        return FF_FAIL(ctx, FF_ERR_SHAPE, "parameter %s has %lld blocks, block %lld is needed", full,
                       (long long)item->shape[0], (long long)block);
    const int64_t first = item->offset + (block >= 0 ? block * (item->size / item->shape[0]) : 0);
    item->bound = true;
    *value = p->values + first;
    *grad = p->grads == NULL ? NULL : p->grads + first;
    return FF_OK;
}

void ff_parameters_zero_grads(ff_parameters *p)
{
    if (p->grads != NULL)
        memset(p->grads, 0, (size_t)p->total * sizeof(float));
}
