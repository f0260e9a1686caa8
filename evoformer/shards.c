#include "evoformer/shards.h"

#include <string.h>

#include "dap/dap.h"
#include "dap/wire.h"
#include "evoformer/primitives.h"

ff_tensor *ff_shards_gather_operand(ff_ctx *ctx, ff_tensor *local, int64_t length, int64_t unit)
{
    if (ff_dap_size(ctx) == 1 || ctx->status != FF_OK)
        return ff_tensor_retain(local);
    ff_tensor *whole = ff_tensor_create_operand(ctx, FF_SHAPE(length, unit));
    if (whole != NULL) /* a failure stays in ctx */
        (void)ff_dap_all_gather_bytes(ctx, whole->data, local->data, length, (size_t)unit * ctx->kernels->operand_bytes);
    return whole;
}

ff_tensor *ff_shards_reduce(ff_ctx *ctx, ff_tensor *all, int64_t length, int64_t unit)
{
    const int size = ff_dap_size(ctx);
    if (size == 1 || ctx->status != FF_OK)
        return ff_tensor_retain(all);
    ff_tensor *local = ff_tensor_create(ctx, FF_SHAPE(ff_shard_length(length, ff_dap_rank(ctx), size), unit));
    (void)ff_dap_reduce_scatter(ctx, ff_data(local), ff_data(all), length, unit);
    return local;
}

/* ---- rows ---- */

ff_tensor *ff_shards_take_rows(ff_ctx *ctx, ff_tensor *x, int64_t first, int64_t count)
{
    if (ff_dap_size(ctx) == 1 || ctx->status != FF_OK)
        return ctx->status != FF_OK ? NULL : ff_tensor_retain(x);
    ff_tensor *shared = ff_dap_replicated(ctx, x);
    return ff_module_end(ctx, shared, ff_slice_rows(ctx, shared, first, count));
}

/* x with rows of zeros below. */
static ff_tensor *padded(ff_ctx *ctx, ff_tensor *x, int64_t rows)
{
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = rows - x->shape[0];
    if (shape[0] == 0)
        return ff_tensor_retain(x);
    ff_tensor *zeros = ff_tensor_zeros(ctx, x->ndim, shape);
    return ff_module_end(ctx, zeros, ff_concat_rows(ctx, x, zeros));
}

ff_tensor *ff_shards_gather_rows(ff_ctx *ctx, ff_tensor *x, int64_t total, int64_t count)
{
    if (ff_dap_size(ctx) == 1 || ctx->status != FF_OK)
        return ctx->status != FF_OK ? NULL : ff_tensor_retain(x);
    ff_tensor *shard = padded(ctx, x, ff_shard_length(total, ff_dap_rank(ctx), ff_dap_size(ctx)));
    ff_tensor *whole = ff_module_end(ctx, shard, ff_dap_gather_replicated(ctx, shard, 0, total));
    return count == total ? whole : ff_module_end(ctx, whole, ff_slice_rows(ctx, whole, 0, count));
}

void ff_shards_replace_by_rows(ff_ctx *ctx, ff_tensor **x, int64_t total, int64_t count)
{
    ff_tensor *rows = *x == NULL ? NULL : ff_shards_gather_rows(ctx, *x, total, count);
    ff_tensor_release(*x);
    *x = rows;
}

/* ---- operands ---- */

static bool on_host(ff_ctx *ctx)
{
    if (ctx->status == FF_OK && ctx->kernels->backend == FF_BACKEND_CUDA)
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "operand conversion for sharded gradients is not there on the cuda backend");
    return ctx->status == FF_OK;
}

ff_tensor *ff_shards_to_float(ff_ctx *ctx, const ff_tensor *operand)
{
    if (!on_host(ctx))
        return NULL;
    ff_tensor *x = ff_tensor_create(ctx, operand->ndim, operand->shape);
    if (!ff_computing(ctx))
        return x;
    if (ctx->kernels->dtype == FF_DTYPE_F32) {
        memcpy(x->data, operand->data, x->bytes);
        return x;
    }
    const uint16_t *in = operand->data;
    for (int64_t i = 0; i < x->size; i++)
        ff_data(x)[i] = ff_from_bf16(in[i]);
    return x;
}

ff_tensor *ff_shards_to_operand(ff_ctx *ctx, const ff_tensor *x)
{
    if (!on_host(ctx))
        return NULL;
    ff_tensor *operand = ff_tensor_create_operand(ctx, x->ndim, x->shape);
    if (!ff_computing(ctx))
        return operand;
    if (ctx->kernels->dtype == FF_DTYPE_F32) {
        memcpy(operand->data, x->data, operand->bytes);
        return operand;
    }
    uint16_t *out = operand->data;
    for (int64_t i = 0; i < x->size; i++)
        out[i] = ff_to_bf16(ff_data(x)[i]);
    return operand;
}
