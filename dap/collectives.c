/* collectives.c - scatter, gather, all-gather, all-to-all, reduce-scatter, all-reduce, and their duals on the tape.
 *
 * A tensor is seen as [outer, axis, inner]; a shard is a range of the axis. Everything travels through ff_exchange
 * (comm.h), blocking here; sums run in rank order, so every rank gets the same bits. */
#include "dap/comm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

typedef struct {
    int64_t outer, length, inner; /* length: of the axis in this tensor */
} axis_view;

static axis_view view_axis(const ff_tensor *x, int axis)
{
    axis_view v = {1, x->shape[axis], 1};
    for (int i = 0; i < axis; i++)
        v.outer *= x->shape[i];
    for (int i = axis + 1; i < x->ndim; i++)
        v.inner *= x->shape[i];
    return v;
}

static ff_tensor *create_with(ff_ctx *ctx, const ff_tensor *x, int axis, int64_t length)
{
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[axis] = length;
    return ff_tensor_create(ctx, x->ndim, shape);
}

/* Copy (or add) entries [from, from + n) of src's axis to [to, ..) of dst's. */
static void copy_range(float *dst, int64_t dst_length, int64_t to, const float *src, int64_t src_length, int64_t from, int64_t n,
                       int64_t outer, int64_t inner, bool add)
{
    for (int64_t o = 0; o < outer; o++) {
        float *d = dst + (o * dst_length + to) * inner;
        const float *s = src + (o * src_length + from) * inner;
        if (!add)
            memcpy(d, s, (size_t)(n * inner) * sizeof *d);
        else
            for (int64_t i = 0; i < n * inner; i++)
                d[i] += s[i];
    }
}

/* Per-rank pointers and sizes of one exchange, in one scratch block. */
typedef struct {
    const void **send;
    void **receive;
    size_t *send_bytes, *receive_bytes;
    void *block;
} lists;

static bool make_lists(ff_ctx *ctx, lists *l, int size)
{
    l->block = ctx->status == FF_OK ? calloc((size_t)size * 4, sizeof(void *) > sizeof(size_t) ? sizeof(void *) : sizeof(size_t)) : NULL;
    if (l->block == NULL) {
        if (ctx->status == FF_OK)
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a collective over %d ranks", size);
        return false;
    }
    l->send = l->block;
    l->receive = (void **)(l->send + size);
    l->send_bytes = (size_t *)(void *)(l->receive + size);
    l->receive_bytes = l->send_bytes + size;
    return true;
}

static void run_lists(ff_ctx *ctx, const lists *l)
{
    const ff_exchange x = {l->send, l->send_bytes, l->receive, l->receive_bytes};
    (void)ff_exchange_run(ctx, &x); /* a failure stays in ctx */
}

/* ---- on plain arrays ---- */

/* whole [outer, total, inner] (+)= the shards of all ranks along the axis */
static void gather_axis(ff_ctx *ctx, float *whole, const float *local, int64_t outer, int64_t total, int64_t inner, bool add)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    lists l;
    if (!make_lists(ctx, &l, size))
        return;
    const bool direct = outer == 1 && !add;
    float *buffer = direct ? whole : ff_scratch_begin(ctx, (size_t)(outer * total * inner) * sizeof *buffer);
    for (int r = 0; r < size; r++) {
        l.send[r] = local;
        l.send_bytes[r] = (size_t)(outer * ff_shard_length(total, rank, size) * inner) * sizeof(float);
        l.receive[r] = buffer + outer * ff_shard_first(total, r, size) * inner;
        l.receive_bytes[r] = (size_t)(outer * ff_shard_length(total, r, size) * inner) * sizeof(float);
    }
    if (ctx->status == FF_OK)
        run_lists(ctx, &l);
    if (!direct && ctx->status == FF_OK)
        for (int r = 0; r < size; r++)
            copy_range(whole, total, ff_shard_first(total, r, size), l.receive[r], ff_shard_length(total, r, size), 0,
                       ff_shard_length(total, r, size), outer, inner, add);
    if (!direct)
        ff_scratch_end(ctx, buffer);
    free(l.block);
}

/* local += sum over ranks of their `whole`, this rank's shard of the axis */
static void reduce_scatter_axis(ff_ctx *ctx, float *local, const float *whole, int64_t outer, int64_t total, int64_t inner)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    const int64_t own = outer * ff_shard_length(total, rank, size) * inner;
    lists l;
    if (!make_lists(ctx, &l, size))
        return;
    float *packed = outer == 1 ? NULL : ff_scratch_begin(ctx, (size_t)(outer * total * inner) * sizeof *packed);
    float *received = ff_scratch_begin(ctx, (size_t)(own * size) * sizeof *received);
    for (int r = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t first = ff_shard_first(total, r, size), n = ff_shard_length(total, r, size);
        const float *block = whole + first * inner;
        if (packed != NULL) {
            copy_range(packed + outer * first * inner, n, 0, whole, total, first, n, outer, inner, false);
            block = packed + outer * first * inner;
        }
        l.send[r] = block;
        l.send_bytes[r] = (size_t)(outer * n * inner) * sizeof(float);
        l.receive[r] = received + r * own;
        l.receive_bytes[r] = (size_t)own * sizeof(float);
    }
    if (ctx->status == FF_OK)
        run_lists(ctx, &l);
    for (int r = 0; r < size && ctx->status == FF_OK; r++)
        for (int64_t i = 0; i < own; i++)
            local[i] += received[r * own + i];
    ff_scratch_end(ctx, received);
    ff_scratch_end(ctx, packed);
    free(l.block);
}

/* out: whole along `from`, shard along `to`; in: shard along `from`, whole along `to`. Axes of the same array. */
static void all_to_all_axes(ff_ctx *ctx, ff_tensor *out, const ff_tensor *in, int from, int to, bool add)
{
    const int size = ff_dap_size(ctx);
    const axis_view in_to = view_axis(in, to), out_from = view_axis(out, from);
    const int64_t total_to = in->shape[to], total_from = out->shape[from];
    lists l;
    if (!make_lists(ctx, &l, size))
        return;
    float *send = ff_scratch_begin(ctx, in->bytes), *receive = ff_scratch_begin(ctx, out->bytes);
    int64_t at = 0, back = 0;
    for (int r = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t n = ff_shard_length(total_to, r, size), count = in_to.outer * n * in_to.inner;
        copy_range(send + at, n, 0, ff_data(in), total_to, ff_shard_first(total_to, r, size), n, in_to.outer, in_to.inner, false);
        l.send[r] = send + at;
        l.send_bytes[r] = (size_t)count * sizeof(float);
        at += count;
        const int64_t m = out_from.outer * ff_shard_length(total_from, r, size) * out_from.inner;
        l.receive[r] = receive + back;
        l.receive_bytes[r] = (size_t)m * sizeof(float);
        back += m;
    }
    if (ctx->status == FF_OK)
        run_lists(ctx, &l);
    for (int r = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t n = ff_shard_length(total_from, r, size);
        copy_range(ff_data(out), total_from, ff_shard_first(total_from, r, size), l.receive[r], n, 0, n, out_from.outer,
                   out_from.inner, add);
    }
    ff_scratch_end(ctx, receive);
    ff_scratch_end(ctx, send);
    free(l.block);
}

ff_status ff_dap_all_reduce(ff_ctx *ctx, float *data, int64_t n)
{
    const int size = ff_dap_size(ctx);
    if (size == 1 || ctx->status != FF_OK)
        return ctx->status;
    ff_plan_add(ctx, "all_reduce", true, 0, 0, 0, 2.0 * (size - 1) / size * 4.0 * (double)n);
    if (!ff_computing(ctx))
        return ctx->status;
    const int64_t own = ff_shard_length(n, ff_dap_rank(ctx), size);
    float *sum = ff_scratch_begin(ctx, (size_t)(own + 1) * sizeof *sum);
    if (sum != NULL) {
        memset(sum, 0, (size_t)own * sizeof *sum);
        reduce_scatter_axis(ctx, sum, data, 1, n, 1);
        gather_axis(ctx, data, sum, 1, n, 1, false);
    }
    ff_scratch_end(ctx, sum);
    return ctx->status;
}

ff_status ff_dap_all_gather_bytes(ff_ctx *ctx, const void *local, size_t local_bytes, void *out, const size_t *bytes)
{
    const int size = ff_dap_size(ctx);
    if (ctx->status != FF_OK)
        return ctx->status;
    if (size == 1) {
        memcpy(out, local, local_bytes);
        return FF_OK;
    }
    lists l;
    if (!make_lists(ctx, &l, size))
        return ctx->status;
    size_t at = 0;
    for (int r = 0; r < size; r++) {
        l.send[r] = local;
        l.send_bytes[r] = local_bytes;
        l.receive[r] = (char *)out + at;
        l.receive_bytes[r] = bytes[r];
        at += bytes[r];
    }
    run_lists(ctx, &l);
    free(l.block);
    return ctx->status;
}

ff_status ff_dap_reduce_scatter(ff_ctx *ctx, const float *full, const int64_t *counts, float *local)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    if (ctx->status != FF_OK)
        return ctx->status;
    if (size == 1) {
        memcpy(local, full, (size_t)counts[0] * sizeof *local);
        return FF_OK;
    }
    lists l;
    if (!make_lists(ctx, &l, size))
        return ctx->status;
    float *received = ff_scratch_begin(ctx, (size_t)(counts[rank] * size + 1) * sizeof *received);
    for (int64_t r = 0, at = 0; r < size && ctx->status == FF_OK; at += counts[r++]) {
        l.send[r] = full + at;
        l.send_bytes[r] = (size_t)counts[r] * sizeof(float);
        l.receive[r] = received + r * counts[rank];
        l.receive_bytes[r] = (size_t)counts[rank] * sizeof(float);
    }
    if (ctx->status == FF_OK)
        run_lists(ctx, &l);
    for (int64_t i = 0; i < counts[rank] && ctx->status == FF_OK; i++) {
        float sum = 0;
        for (int r = 0; r < size; r++)
            sum += received[r * counts[rank] + i];
        local[i] = sum;
    }
    ff_scratch_end(ctx, received);
    free(l.block);
    return ctx->status;
}

/* ---- on the tape ---- */

typedef struct {
    int axis, to;
    int64_t total;
} node_args;

static double sent(const ff_ctx *ctx, const ff_tensor *whole)
{
    const double size = ff_dap_size(ctx);
    return whole == NULL ? 0 : (size - 1) / size * (double)whole->bytes;
}

static void scatter_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    ff_tensor *grad = ff_tensor_grad(ctx, node->inputs[0]), *out = node->outputs[0];
    ff_plan_add(ctx, "scatter", true, 0, 0, 0, sent(ctx, node->inputs[0]));
    if (grad == NULL || !ff_computing(ctx))
        return;
    const axis_view v = view_axis(node->inputs[0], a.axis);
    gather_axis(ctx, ff_data(grad), ff_data(out->grad), v.outer, v.length, v.inner, true);
}

ff_tensor *ff_dap_scatter(ff_ctx *ctx, ff_tensor *x, int axis)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (size == 1)
        return ff_tensor_retain(x);
    const axis_view v = view_axis(x, axis);
    const int64_t n = ff_shard_length(v.length, rank, size);
    ff_tensor *out = create_with(ctx, x, axis, n);
    ff_plan_add(ctx, "scatter", false, 0, 0, 0, 0);
    if (ff_computing(ctx))
        copy_range(ff_data(out), n, 0, ff_data(x), v.length, ff_shard_first(v.length, rank, size), n, v.outer, v.inner, false);
    const node_args a = {axis, 0, v.length};
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, "scatter", scatter_backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    return out;
}

static ff_tensor *gather(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total, const char *name, ff_backward_fn backward)
{
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (ff_dap_size(ctx) == 1)
        return ff_tensor_retain(x);
    assert(x->shape[axis] == ff_shard_length(total, ff_dap_rank(ctx), ff_dap_size(ctx)));
    ff_tensor *out = create_with(ctx, x, axis, total);
    ff_plan_add(ctx, name, false, 0, 0, 0, sent(ctx, out));
    if (ff_computing(ctx)) {
        const axis_view v = view_axis(out, axis);
        gather_axis(ctx, ff_data(out), ff_data(x), v.outer, total, v.inner, false);
    }
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
    ff_tensor *grad = ff_tensor_grad(ctx, node->inputs[0]);
    if (grad == NULL || !ff_computing(ctx))
        return;
    const axis_view v = view_axis(node->inputs[0], a.axis);
    copy_range(ff_data(grad), v.length, 0, ff_data(node->outputs[0]->grad), a.total, ff_shard_first(a.total, rank, size), v.length,
               v.outer, v.inner, true);
}

ff_tensor *ff_dap_gather_replicated(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total)
{
    return gather(ctx, x, axis, total, "gather_replicated", gather_replicated_backward);
}

static void all_gather_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    ff_tensor *grad = ff_tensor_grad(ctx, node->inputs[0]);
    ff_plan_add(ctx, "all_gather", true, 0, 0, 0, sent(ctx, node->outputs[0]));
    if (!ff_computing(ctx) || grad == NULL)
        return;
    const axis_view v = view_axis(node->outputs[0], a.axis);
    reduce_scatter_axis(ctx, ff_data(grad), ff_data(node->outputs[0]->grad), v.outer, a.total, v.inner);
}

ff_tensor *ff_dap_all_gather(ff_ctx *ctx, ff_tensor *x, int axis, int64_t total)
{
    return gather(ctx, x, axis, total, "all_gather", all_gather_backward);
}

static void all_to_all_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    ff_tensor *x = node->inputs[0], *out = node->outputs[0];
    ff_plan_add(ctx, "all_to_all", true, 0, 0, 0, sent(ctx, x));
    if (!x->requires_grad)
        return;
    const bool fresh = x->grad == NULL;
    if (fresh && ctx->status == FF_OK)
        x->grad = ff_tensor_create(ctx, x->ndim, x->shape);
    if (ff_computing(ctx))
        all_to_all_axes(ctx, x->grad, out->grad, a.to, a.axis, !fresh);
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
    ff_plan_add(ctx, "all_to_all", false, 0, 0, 0, sent(ctx, x));
    if (ff_computing(ctx))
        all_to_all_axes(ctx, out, x, from, to, false);
    const node_args a = {from, to, total_from};
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, "all_to_all", all_to_all_backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    ff_tensor_release(x);
    return out;
}
