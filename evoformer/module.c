#include "evoformer/module.h"

#include "dap/dap.h"
#include "tensor/pool.h"

ff_keep ff_module_keep(const ff_ctx *ctx) { return ctx->keep_inputs ? FF_KEEP_INPUTS : FF_KEEP_ALL; }

bool ff_module_offered(ff_ctx *ctx, bool entry, const char *operation)
{
    if (ctx->status != FF_OK)
        return false;
    if (!entry)
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "the %s backend has no %s", ctx->kernels->name, operation);
    return entry;
}

const ff_kernels *ff_module_enter_float32(ff_ctx *ctx)
{
    const ff_kernels *outer = ctx->kernels;
    if (outer != NULL && outer->narrow != NULL)
        ctx->kernels = outer->narrow;
    return outer;
}

const ff_kernels *ff_module_enter(ff_ctx *ctx, int64_t channels)
{
    return channels < FF_NARROW_CHANNELS ? ff_module_enter_float32(ctx) : ctx->kernels;
}

bool ff_module_recorded(const ff_ctx *ctx, bool trained, ff_tensor *const *inputs, int num_inputs)
{
    return ctx->tape != NULL && ctx->status == FF_OK && (trained || ff_recording(ctx, inputs, num_inputs));
}

ff_tensor *ff_module_output(ff_ctx *ctx, ff_tensor *x, bool recorded, ff_update update)
{
    if (ctx->status != FF_OK)
        return NULL;
    return update == FF_RESIDUAL ? ff_update_target(ctx, x, recorded) : ff_tensor_create(ctx, x->ndim, x->shape);
}

ff_tensor *ff_module_end(ff_ctx *ctx, ff_tensor *x, ff_tensor *out)
{
    if (out != x)
        ff_tensor_release(x);
    if (ctx->status == FF_OK)
        return out;
    ff_tensor_release(out);
    return NULL;
}

/* ---- backward ---- */

void ff_module_drop_outputs(ff_node *node)
{
    for (int i = 0; i < FF_NODE_OUTPUTS; i++) {
        ff_tensor *out = node->outputs[i];
        if (out == NULL || out->refs > 1 || out->external)
            continue;
        ff_pool_free(out->pool, out->data, out->bytes);
        out->data = NULL;
        out->external = true;
    }
}

void ff_module_drop_kept(ff_node *node, int index)
{
    ff_tensor_release(node->kept[index]);
    node->kept[index] = NULL;
}

/* Take out's gradient over, as an array nobody else writes. */
static ff_tensor *take_grad(ff_ctx *ctx, ff_tensor *out)
{
    ff_tensor *grad = out->grad;
    out->grad = NULL;
    if (grad->refs == 1 && !grad->external)
        return grad;
    ff_tensor *copy = ff_tensor_copy(ctx, grad);
    ff_tensor_release(grad);
    return copy;
}

bool ff_module_grads_begin(ff_ctx *ctx, ff_node *node, ff_tensor *x, ff_tensor *out, ff_update update,
                           ff_module_grads *grads)
{
    *grads = (ff_module_grads){NULL, NULL, NULL};
    if (ctx->status != FF_OK || out->grad == NULL)
        return false;
    ff_module_drop_outputs(node);
    if (update == FF_RESIDUAL && x->grad == NULL) {
        if (x->requires_grad) {
            grads->grad_x = ff_data(ff_grad_through_residual(ctx, x, out));
        } else { /* only parameters are wanted: the input's part is computed and dropped */
            grads->held = take_grad(ctx, out);
            grads->grad_x = ff_data(grads->held);
        }
        grads->grad_out = grads->grad_x;
    } else {
        grads->grad_out = ff_data(out->grad);
        if (!x->requires_grad)
            grads->held = ff_tensor_zeros(ctx, x->ndim, x->shape);
        grads->grad_x = ff_data(x->requires_grad ? ff_tensor_grad(ctx, x) : grads->held);
    }
    return ctx->status == FF_OK;
}

void ff_module_grads_end(ff_module_grads *grads)
{
    ff_tensor_release(grads->held);
    grads->held = NULL;
}

/* ---- dropout ---- */

ff_tensor *ff_module_dropout(ff_ctx *ctx, float rate, int64_t first, int64_t length, int64_t c)
{
    if (!ctx->training || rate <= 0.0f || !ff_module_offered(ctx, ctx->kernels->dropout_mask != NULL, "dropout"))
        return NULL;
    const ff_random_key key = {ctx->seed, ff_random_stream(ctx->step, ctx->op_index++)};
    ff_tensor *mask = ff_tensor_create(ctx, FF_SHAPE(length, c));
    if (ff_computing(ctx))
        ctx->kernels->dropout_mask(ff_data(mask), key, rate, first * c, length * c);
    return mask;
}

/* ---- records ---- */

void ff_module_record(ff_ctx *ctx, const char *name, bool backward, double flop, double bytes_moved, double bytes_kept,
                      double bytes_sent)
{
    ff_dap_poll(ctx); /* a module is done: a good moment */
    if (backward)
        ff_plan_add(ctx, name, true, 2 * flop, 2 * bytes_moved + bytes_kept, 0, bytes_sent);
    else
        ff_plan_add(ctx, name, false, flop, bytes_moved, bytes_kept, bytes_sent);
}

double ff_module_bytes(ff_tensor *const *kept, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += kept[i] == NULL ? 0.0 : (double)kept[i]->bytes;
    return sum;
}
