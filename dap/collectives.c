/* collectives.c - scatter, gather, all-gather, all-to-all, reduce-scatter, all-reduce, and their duals on the tape.
 *
 * Contents: plain arrays; the tape. */
#include "dap/transfer.h"

#include <assert.h>
#include <string.h>

#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

enum { GRADIENT_BUCKET = 1 << 21 }; /* floats: scratch while gradients are reduced is one bucket a rank */

static size_t bytes_of(int64_t floats) { return (size_t)floats * sizeof(float); }

/* ---- plain arrays ---- */

/* data = its sum over a group, each member summing its shard. */
static ff_status all_reduce(ff_ctx *ctx, ff_group_kind kind, const char *name, float *data, int64_t n)
{
    const ff_group group = ff_comm_group(ctx, kind);
    if (group.size == 1 || ctx->status != FF_OK)
        return ctx->status;
    const ff_axis_view view = {1, n, 1};
    const ff_transfer_record record = {name, true, (double)bytes_of(n), false};
    ff_transfer t;
    float *own = data + ff_shard_first(n, group.rank, group.size);
    ff_transfer_reduce(ctx, &t, kind, own, data, &view, false, &record);
    ff_transfer_end(ctx, &t);
    ff_transfer_gather(ctx, &t, kind, data, own, &view, false, &record);
    ff_transfer_end(ctx, &t);
    return ctx->status;
}

ff_status ff_dap_all_reduce(ff_ctx *ctx, float *data, int64_t n)
{
    return all_reduce(ctx, FF_GROUP_DAP, "all_reduce", data, n);
}

ff_status ff_dap_reduce_gradients(ff_ctx *ctx, float *block, int64_t total)
{
    for (int64_t at = 0; at < total && ctx->status == FF_OK; at += GRADIENT_BUCKET)
        (void)all_reduce(ctx, FF_GROUP_WORLD, "reduce_gradients", block + at,
                         total - at < GRADIENT_BUCKET ? total - at : GRADIENT_BUCKET);
    return ctx->status;
}

ff_status ff_dap_all_gather_bytes(ff_ctx *ctx, void *out, const void *local, int64_t length, size_t unit_bytes)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    const size_t own = (size_t)ff_shard_length(length, rank, size) * unit_bytes;
    if (ctx->status != FF_OK)
        return ctx->status;
    if (size == 1) {
        if (ff_computing(ctx) && own > 0)
            memcpy(out, local, own);
        return FF_OK;
    }
    const ff_group group = ff_comm_group(ctx, FF_GROUP_DAP);
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    for (int r = 0; r < size; r++) {
        parts[r].send = local;
        parts[r].send_bytes = own;
        parts[r].receive = (char *)out + (size_t)ff_shard_first(length, r, size) * unit_bytes;
        parts[r].receive_bytes = (size_t)ff_shard_length(length, r, size) * unit_bytes;
    }
    return ff_exchange_end(ctx, ff_exchange_begin(ctx, &group, "all_gather_operand", false,
                                                  (double)own + (double)length * (double)unit_bytes));
}

ff_status ff_dap_reduce_scatter(ff_ctx *ctx, float *local, const float *full, int64_t length, int64_t unit)
{
    if (ctx->status != FF_OK)
        return ctx->status;
    if (ff_dap_size(ctx) == 1) {
        if (ff_computing(ctx) && length * unit > 0)
            memcpy(local, full, bytes_of(length * unit));
        return FF_OK;
    }
    const ff_axis_view view = {1, length, unit};
    const ff_transfer_record record = {"reduce_scatter", true, (double)bytes_of(length * unit), false};
    ff_transfer t;
    ff_transfer_reduce(ctx, &t, FF_GROUP_DAP, local, full, &view, false, &record);
    ff_transfer_end(ctx, &t);
    return ctx->status;
}

/* ---- the tape ---- */

typedef struct {
    int axis, to;
    int64_t total;
} node_args;

static ff_tensor *create_with(ff_ctx *ctx, const ff_tensor *x, int axis, int64_t length)
{
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = length;
    return ff_tensor_create(ctx, x->ndim, shape);
}

/* Gradient of x for something that writes all of it: *fresh when it is new, and then not cleared. */
static ff_tensor *grad_to_write(ff_ctx *ctx, ff_tensor *x, bool *fresh)
{
    *fresh = x->grad == NULL;
    if (ctx->status != FF_OK || !x->requires_grad)
        return NULL;
    if (*fresh)
        x->grad = ff_tensor_create(ctx, x->ndim, x->shape);
    return x->grad;
}

static ff_transfer_record record_of(const char *name, bool backward, const ff_tensor *a, const ff_tensor *b)
{
    return (ff_transfer_record){name, backward, a == NULL || b == NULL ? 0.0 : (double)(a->bytes + b->bytes), false};
}

static void scatter_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    bool fresh;
    ff_tensor *x = node->inputs[0], *out = node->outputs[0], *grad = grad_to_write(ctx, x, &fresh);
    if (grad == NULL)
        return;
    const ff_axis_view view = ff_view_axis(x, a.axis);
    const ff_transfer_record record = record_of(node->name, true, x, out);
    ff_transfer t;
    ff_transfer_gather(ctx, &t, FF_GROUP_DAP, ff_data(grad), ff_data(out->grad), &view, !fresh, &record);
    ff_transfer_end(ctx, &t);
}

ff_tensor *ff_dap_scatter(ff_ctx *ctx, ff_tensor *x, int axis)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (size == 1)
        return ff_tensor_retain(x);
    const ff_axis_view view = ff_view_axis(x, axis);
    const int64_t n = ff_shard_length(view.length, rank, size);
    ff_tensor *out = create_with(ctx, x, axis, n);
    if (ff_computing(ctx))
        ff_take_range(ff_data(out), ff_data(x), &view, ff_shard_first(view.length, rank, size), n);
    if (out != NULL)
        ff_plan_add(ctx, "scatter", false, 0, 2.0 * (double)out->bytes, 0, 0);
    const node_args a = {axis, 0, view.length};
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, "scatter", scatter_backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    return out;
}

static void replicated_backward(ff_ctx *ctx, ff_node *node)
{
    ff_tensor *out = node->outputs[0], *grad = ff_tensor_grad(ctx, node->inputs[0]);
    (void)ff_dap_all_reduce(ctx, ff_data(out->grad), out->size);
    if (ff_computing(ctx) && grad != NULL)
        ctx->kernels->add_scaled(ff_data(grad), ff_data(out->grad), 1.0f, out->size);
}

ff_tensor *ff_dap_replicated(ff_ctx *ctx, ff_tensor *x)
{
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (ff_dap_size(ctx) == 1 || !ff_recording(ctx, &x, 1))
        return ff_tensor_retain(x);
    ff_tensor *out = ff_tensor_copy(ctx, x);
    if (out != NULL)
        ff_tape_add(ctx, "replicated", replicated_backward, &x, 1, &out, 1, NULL, 0, NULL, 0);
    return out;
}

static void all_gather_backward(ff_ctx *ctx, ff_node *node);

static ff_tensor *gather(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total, const char *name, ff_backward_fn backward)
{
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (ff_dap_size(ctx) == 1)
        return ff_tensor_retain(x);
    assert(x->shape[axis] == ff_shard_length(total, ff_dap_rank(ctx), ff_dap_size(ctx)));
    ff_tensor *out = create_with(ctx, x, axis, total);
    if (out == NULL)
        return NULL;
    const ff_axis_view view = ff_view_axis(out, axis);
    ff_transfer_record record = record_of(name, false, x, out);
    record.narrow = backward == all_gather_backward && ff_transfer_narrow(ctx, FF_NARROW_CHANNELS);
    ff_transfer t;
    ff_transfer_gather(ctx, &t, FF_GROUP_DAP, ff_data(out), ff_data(x), &view, false, &record);
    ff_transfer_end(ctx, &t);
    const node_args a = {axis, 0, total};
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, name, backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    return out;
}

static void gather_replicated_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    ff_tensor *out = node->outputs[0], *grad = ff_tensor_grad(ctx, node->inputs[0]);
    if (grad == NULL)
        return;
    ff_plan_add(ctx, node->name, true, 0, 3.0 * (double)grad->bytes, 0, 0);
    if (!ff_computing(ctx))
        return;
    const ff_axis_view view = ff_view_axis(out, a.axis);
    const int64_t first = ff_shard_first(a.total, rank, size), run = grad->shape[a.axis] * view.inner;
    for (int64_t o = 0; o < view.outer; o++)
        for (int64_t i = 0; i < run; i++)
            ff_data(grad)[o * run + i] += ff_data(out->grad)[(o * a.total + first) * view.inner + i];
}

ff_tensor *ff_dap_gather_replicated(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total)
{
    return gather(ctx, x, axis, total, "gather_replicated", gather_replicated_backward);
}

static void all_gather_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    bool fresh;
    ff_tensor *x = node->inputs[0], *out = node->outputs[0], *grad = grad_to_write(ctx, x, &fresh);
    if (grad == NULL)
        return;
    const ff_axis_view view = ff_view_axis(out, a.axis);
    const ff_transfer_record record = record_of(node->name, true, x, out);
    ff_transfer t;
    ff_transfer_reduce(ctx, &t, FF_GROUP_DAP, ff_data(grad), ff_data(out->grad), &view, !fresh, &record);
    ff_transfer_end(ctx, &t);
}

ff_tensor *ff_dap_all_gather(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total)
{
    return gather(ctx, x, axis, total, "all_gather", all_gather_backward);
}

static void all_to_all_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    bool fresh;
    ff_tensor *x = node->inputs[0], *out = node->outputs[0], *grad = grad_to_write(ctx, x, &fresh);
    if (grad == NULL)
        return;
    const ff_transfer_record record = record_of(node->name, true, x, out);
    ff_transfer t;
    ff_transfer_all_to_all(ctx, &t, grad, out->grad, a.to, a.axis, !fresh, &record);
    ff_transfer_end(ctx, &t);
}

ff_tensor *ff_dap_all_to_all(ff_ctx *ctx, ff_tensor *x, int from, int64_t total_from, int to, int64_t total_to)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    if (ctx->status != FF_OK || x == NULL) {
        ff_tensor_release(x);
        return NULL;
    }
    if (size == 1)
        return x;
    assert(x->shape[from] == ff_shard_length(total_from, rank, size) && x->shape[to] == total_to);
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[from] = total_from;
    shape[to] = ff_shard_length(total_to, rank, size);
    ff_tensor *out = ff_tensor_create(ctx, x->ndim, shape);
    ff_transfer_record record = record_of("all_to_all", false, x, out);
    record.narrow = ff_transfer_narrow(ctx, x->shape[x->ndim - 1]);
    ff_transfer t;
    ff_transfer_all_to_all(ctx, &t, out, x, from, to, false, &record);
    ff_transfer_end(ctx, &t);
    const node_args a = {from, to, total_from};
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, "all_to_all", all_to_all_backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    ff_tensor_release(x);
    return out;
}
