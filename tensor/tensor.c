#include "tensor/tensor.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/pool.h"
#include "tensor/tape.h"

static ff_tensor *create(ff_ctx *ctx, int ndim, const int64_t *shape, size_t element_bytes, float *external)
{
    if (ctx->status != FF_OK)
        return NULL;
    assert(ndim >= 0 && ndim <= FF_MAX_DIMS);
    ff_tensor *t = calloc(1, sizeof *t);
    if (t == NULL) {
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a tensor's description");
        return NULL;
    }
    t->refs = 1;
    t->ndim = ndim;
    t->size = 1;
    for (int i = 0; i < ndim; i++) {
        assert(shape[i] >= 0);
        t->shape[i] = shape[i];
        t->size *= shape[i];
    }
    t->bytes = (size_t)t->size * element_bytes;
    t->pool = ctx->pool;
    t->external = external != NULL;
    t->data = external;
    if (external == NULL) {
        t->data = ff_pool_alloc(ctx, t->bytes);
        if (t->data == NULL) {
            free(t);
            return NULL;
        }
    }
    return t;
}

ff_tensor *ff_tensor_create(ff_ctx *ctx, int ndim, const int64_t *shape)
{
    return create(ctx, ndim, shape, sizeof(float), NULL);
}

ff_tensor *ff_tensor_create_operand(ff_ctx *ctx, int ndim, const int64_t *shape)
{
    return ctx->status != FF_OK ? NULL : create(ctx, ndim, shape, ctx->kernels->operand_bytes, NULL);
}

ff_tensor *ff_tensor_zeros(ff_ctx *ctx, int ndim, const int64_t *shape)
{
    ff_tensor *t = ff_tensor_create(ctx, ndim, shape);
    if (t != NULL && ff_computing(ctx))
        memset(t->data, 0, t->bytes);
    return t;
}

ff_tensor *ff_tensor_view(ff_ctx *ctx, float *data, int ndim, const int64_t *shape)
{
    static float nothing; /* address of empty arrays; never read or written */
    return create(ctx, ndim, shape, sizeof(float), data == NULL ? &nothing : data);
}

ff_tensor *ff_tensor_copy(ff_ctx *ctx, const ff_tensor *x)
{
    if (ctx->status != FF_OK)
        return NULL;
    ff_tensor *t = ff_tensor_create(ctx, x->ndim, x->shape);
    if (t != NULL && ff_computing(ctx))
        memcpy(t->data, x->data, x->bytes);
    return t;
}

static void reshape_backward(ff_ctx *ctx, ff_node *node)
{
    ff_tensor *out = node->outputs[0];
    float *grad = ff_data(ff_tensor_grad(ctx, node->inputs[0]));
    if (ff_computing(ctx) && grad != NULL)
        ctx->kernels->add_scaled(grad, ff_data(out->grad), 1.0f, out->size);
}

ff_tensor *ff_tensor_reshape(ff_ctx *ctx, ff_tensor *x, int ndim, const int64_t *shape)
{
    if (ctx->status != FF_OK)
        return NULL;
    /* The view lives as long as its owner: without a tape the caller keeps x, with one the node does. */
    ff_tensor *t = create(ctx, ndim, shape, sizeof(float), x->data);
    if (t == NULL)
        return NULL;
    assert(t->size == x->size);
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, "reshape", reshape_backward, &x, 1, &t, 1, NULL, 0, NULL, 0);
    return t;
}

ff_tensor *ff_tensor_retain(ff_tensor *x)
{
    if (x != NULL)
        x->refs++;
    return x;
}

void ff_tensor_release(ff_tensor *x)
{
    if (x == NULL || --x->refs > 0)
        return;
    ff_tensor_release(x->grad);
    if (!x->external)
        ff_pool_free(x->pool, x->data, x->bytes);
    free(x);
}

bool ff_computing(const ff_ctx *ctx) { return ctx->status == FF_OK && (ctx->pool == NULL || !ff_pool_is_dry(ctx->pool)); }

bool ff_recording(const ff_ctx *ctx, ff_tensor *const *inputs, int n)
{
    if (ctx->tape == NULL || ctx->status != FF_OK)
        return false;
    for (int i = 0; i < n; i++)
        if (inputs[i] != NULL && inputs[i]->requires_grad)
            return true;
    return false;
}

ff_tensor *ff_tensor_grad(ff_ctx *ctx, ff_tensor *x)
{
    if (ctx->status != FF_OK || x == NULL || !x->requires_grad)
        return NULL;
    if (x->grad == NULL)
        x->grad = ff_tensor_zeros(ctx, x->ndim, x->shape);
    return x->grad;
}

ff_status ff_tensor_set_grad(ff_ctx *ctx, ff_tensor *x, const float *values)
{
    ff_tensor *grad = ff_tensor_grad(ctx, x);
    if (grad != NULL && ff_computing(ctx))
        memcpy(grad->data, values, grad->bytes);
    return ctx->status;
}

ff_tensor *ff_grad_through_residual(ff_ctx *ctx, ff_tensor *x, ff_tensor *out)
{
    if (ctx->status != FF_OK || out->grad == NULL || !x->requires_grad)
        return NULL;
    ff_tensor *moved = out->grad;
    out->grad = NULL;
    if (x->grad == NULL && moved->refs == 1 && !moved->external) {
        x->grad = moved;
        return moved;
    }
    ff_tensor *grad = ff_tensor_grad(ctx, x);
    if (grad != NULL && ff_computing(ctx))
        ctx->kernels->add_scaled(ff_data(grad), ff_data(moved), 1.0f, grad->size);
    ff_tensor_release(moved);
    return grad;
}

ff_tensor *ff_update_target(ff_ctx *ctx, ff_tensor *x, bool recorded)
{
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (!recorded && x->refs == 1 && !x->external)
        return x;
    return ff_tensor_create(ctx, x->ndim, x->shape);
}

/* Scratch blocks carry their size in front, one cache line ahead of what the caller gets. */
enum { SCRATCH_HEADER = 64 };

void *ff_scratch_begin(ff_ctx *ctx, size_t bytes)
{
    if (ctx->status != FF_OK || bytes == 0)
        return NULL;
    char *block = ff_pool_alloc(ctx, bytes + SCRATCH_HEADER);
    if (block == NULL)
        return NULL;
    if (ff_pool_is_dry(ctx->pool)) { /* nothing may be written there: remember the size in the pointer itself */
        return (void *)(uintptr_t)((bytes + SCRATCH_HEADER) << 1 | 1);
    }
    memcpy(block, &bytes, sizeof bytes);
    return block + SCRATCH_HEADER;
}

void ff_scratch_end(ff_ctx *ctx, void *scratch)
{
    if (scratch == NULL)
        return;
    size_t bytes;
    if (ff_pool_is_dry(ctx->pool)) {
        ff_pool_free(ctx->pool, ctx->pool, (size_t)((uintptr_t)scratch >> 1));
        return;
    }
    char *block = (char *)scratch - SCRATCH_HEADER;
    memcpy(&bytes, block, sizeof bytes);
    ff_pool_free(ctx->pool, block, bytes + SCRATCH_HEADER);
}

static void print_shape(char *text, size_t bytes, int ndim, const int64_t *shape)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < ndim && used < bytes; i++)
        used += (size_t)(shape[i] < 0 ? snprintf(text + used, bytes - used, i ? ", any" : "any")
                                      : snprintf(text + used, bytes - used, i ? ", %lld" : "%lld", (long long)shape[i]));
    if (used < bytes)
        snprintf(text + used, bytes - used, "]");
}

bool ff_check_shape(ff_ctx *ctx, const ff_tensor *x, const char *name, int ndim, const int64_t *shape)
{
    if (ctx->status != FF_OK)
        return false;
    bool same = x != NULL && x->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = shape[i] < 0 || shape[i] == x->shape[i];
    if (same)
        return true;
    char want[160], got[160] = "nothing";
    print_shape(want, sizeof want, ndim, shape);
    if (x != NULL)
        print_shape(got, sizeof got, x->ndim, x->shape);
    FF_FAIL(ctx, FF_ERR_SHAPE, "%s has shape %s, expected %s", name, got, want);
    return false;
}
