/* collectives.c - scatter, gather, all-gather, all-to-all, reduce-scatter, all-reduce, and their duals on the tape.
 *
 * Contents: ranges; transfers; plain arrays; the tape.
 *
 * An array is seen as [outer, length, inner] around one axis; a shard is a range of the axis. A transfer packs what is
 * not contiguous, begins an exchange (comm.h), and its end unpacks or sums; the blocking form is the two in a row. */
#include "dap/comm.h"

#include <assert.h>
#include <string.h>

#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

/* ---- ranges ---- */

typedef struct {
    int64_t outer, length, inner;
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

static size_t bytes_of(int64_t floats) { return (size_t)floats * sizeof(float); }

enum { GRADIENT_BUCKET = 1 << 21 }; /* floats: scratch while gradients are reduced is one bucket a rank */
enum { PARALLEL_FROM = 1 << 15 }; /* floats; below, waking the threads costs more than the copy */

/* Entries [first, first + n) of the axis of `whole`, an array [outer, n, inner] of their own = or += or from there. */
static void take_range(float *part, const float *whole, const axis_view *v, int64_t first, int64_t n)
{
    const int64_t run = n * v->inner, stride = v->length * v->inner;
#pragma omp parallel for schedule(static) if (v->outer * run >= PARALLEL_FROM)
    for (int64_t o = 0; o < v->outer; o++)
        memcpy(part + o * run, whole + o * stride + first * v->inner, bytes_of(run));
}

static void put_range(float *whole, const float *part, const axis_view *v, int64_t first, int64_t n, bool add)
{
    const int64_t run = n * v->inner, stride = v->length * v->inner;
#pragma omp parallel for schedule(static) if (v->outer * run >= PARALLEL_FROM)
    for (int64_t o = 0; o < v->outer; o++) {
        float *to = whole + o * stride + first * v->inner;
        if (!add)
            memcpy(to, part + o * run, bytes_of(run));
        else
            for (int64_t i = 0; i < run; i++)
                to[i] += part[o * run + i];
    }
}

/* ---- transfers ---- */

typedef enum { UNPACK_NOTHING, UNPACK_RANGES, UNPACK_SUM } unpack_kind;

typedef struct {
    ff_group group;
    ff_exchange_handle *handle;
    void *packed, *received; /* scratch; NULL where arrays are exchanged in place */
    unpack_kind unpack;
    float *out;
    axis_view view;   /* RANGES: of out, whole along its axis */
    const float *own; /* SUM: this rank's contribution to its own part, of `size` floats */
    int64_t size;
    bool add; /* into out */
} transfer;

typedef struct {
    const char *name;
    bool backward;
    double bytes_moved; /* arrays read and written once */
} transfer_record;

static void transfer_begin(ff_ctx *ctx, transfer *t, const transfer_record *record)
{
    t->handle = ff_exchange_begin(ctx, &t->group, record->name, record->backward, record->bytes_moved);
}

/* out = or += sum over ranks, in their order, of the parts received. */
static void sum_parts(const ff_ctx *ctx, const transfer *t)
{
    const int rank = t->group.rank, size = ff_comm_own_only(ctx) ? 0 : t->group.size;
    const float *received = t->received;
#pragma omp parallel for schedule(static) if (t->size >= PARALLEL_FROM)
    for (int64_t i = 0; i < t->size; i++) {
        float sum = size == 0 ? t->own[i] : 0.0f;
        for (int r = 0; r < size; r++)
            sum += r == rank ? t->own[i] : received[(r - (r > rank)) * t->size + i];
        t->out[i] = t->add ? t->out[i] + sum : sum;
    }
}

static void transfer_end(ff_ctx *ctx, transfer *t)
{
    const int size = t->group.size;
    (void)ff_exchange_end(ctx, t->handle); /* a failure stays in ctx */
    if (ff_computing(ctx) && t->unpack == UNPACK_SUM)
        sum_parts(ctx, t);
    for (int r = 0; r < size && ff_computing(ctx) && t->unpack == UNPACK_RANGES; r++) {
        const int64_t first = ff_shard_first(t->view.length, r, size), n = ff_shard_length(t->view.length, r, size);
        put_range(t->out, (const float *)t->received + t->view.outer * first * t->view.inner, &t->view, first, n, t->add);
    }
    ff_scratch_end(ctx, t->received);
    ff_scratch_end(ctx, t->packed);
}

/* Receive every rank's shard along `view` of out, into place where that is contiguous. */
static void receive_shards(ff_ctx *ctx, transfer *t, float *out, const axis_view *view, bool add)
{
    const int size = t->group.size;
    const bool in_place = view->outer == 1 && !add;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    t->unpack = in_place ? UNPACK_NOTHING : UNPACK_RANGES;
    t->out = out;
    t->view = *view;
    t->add = add;
    t->received = in_place ? NULL : ff_scratch_begin(ctx, bytes_of(view->outer * view->length * view->inner));
    float *to = in_place ? out : t->received;
    for (int r = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t n = view->outer * ff_shard_length(view->length, r, size) * view->inner;
        parts[r].receive = to;
        parts[r].receive_bytes = bytes_of(n);
        to += n;
    }
}

/* Send every rank its shard along `view` of `in`, packed where it is not contiguous. */
static void send_shards(ff_ctx *ctx, transfer *t, const float *in, const axis_view *view)
{
    const int size = t->group.size;
    const bool in_place = view->outer == 1;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    t->packed = in_place ? NULL : ff_scratch_begin(ctx, bytes_of(view->outer * view->length * view->inner));
    float *packed = t->packed;
    for (int64_t r = 0, at = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t first = ff_shard_first(view->length, (int)r, size), n = ff_shard_length(view->length, (int)r, size);
        if (!in_place && ff_computing(ctx))
            take_range(packed + at, in, view, first, n);
        parts[r].send = (in_place ? in : packed) + at;
        parts[r].send_bytes = bytes_of(view->outer * n * view->inner);
        at += view->outer * n * view->inner;
    }
}

/* out (whole along view's axis) = or += the ranks' shards */
static void gather_begin(ff_ctx *ctx, transfer *t, ff_group_kind kind, float *out, const float *local, const axis_view *view,
                         bool add, const transfer_record *record)
{
    *t = (transfer){.group = ff_comm_group(ctx, kind)};
    const int rank = t->group.rank, size = t->group.size;
    receive_shards(ctx, t, out, view, add);
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    for (int r = 0; r < size; r++) {
        parts[r].send = local;
        parts[r].send_bytes = bytes_of(view->outer * ff_shard_length(view->length, rank, size) * view->inner);
    }
    transfer_begin(ctx, t, record);
}

/* local = or += sum over ranks of this rank's shard of their `whole` */
static void reduce_begin(ff_ctx *ctx, transfer *t, ff_group_kind kind, float *local, const float *whole, const axis_view *view,
                         bool add, const transfer_record *record)
{
    *t = (transfer){.group = ff_comm_group(ctx, kind), .unpack = UNPACK_SUM, .out = local, .add = add};
    const int rank = t->group.rank, size = t->group.size;
    t->size = view->outer * ff_shard_length(view->length, rank, size) * view->inner;
    send_shards(ctx, t, whole, view);
    t->received = ff_scratch_begin(ctx, bytes_of(t->size * (size - 1)));
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    for (int r = 0; r < size && ctx->status == FF_OK; r++) {
        parts[r].receive = (float *)t->received + (r - (r > rank)) * t->size;
        parts[r].receive_bytes = bytes_of(t->size);
    }
    t->own = parts[rank].send;
    parts[rank].receive = (void *)(uintptr_t)parts[rank].send; /* one place: nothing is copied */
    transfer_begin(ctx, t, record);
}

/* out: whole along `from`, a shard along `to`; in: a shard along `from`, whole along `to` */
static void all_to_all_begin(ff_ctx *ctx, transfer *t, ff_tensor *out, const ff_tensor *in, int from, int to, bool add,
                             const transfer_record *record)
{
    const axis_view receive = ctx->status == FF_OK ? view_axis(out, from) : (axis_view){0, 0, 0};
    const axis_view send = ctx->status == FF_OK ? view_axis(in, to) : (axis_view){0, 0, 0};
    *t = (transfer){.group = ff_comm_group(ctx, FF_GROUP_DAP)};
    send_shards(ctx, t, ff_data(in), &send);
    receive_shards(ctx, t, ff_data(out), &receive, add);
    transfer_begin(ctx, t, record);
}

/* ---- plain arrays ---- */

/* data = its sum over a group, each member summing its shard. */
static ff_status all_reduce(ff_ctx *ctx, ff_group_kind kind, const char *name, float *data, int64_t n)
{
    const ff_group group = ff_comm_group(ctx, kind);
    if (group.size == 1 || ctx->status != FF_OK)
        return ctx->status;
    const axis_view view = {1, n, 1};
    const transfer_record record = {name, true, (double)bytes_of(n)};
    transfer t;
    float *own = data + ff_shard_first(n, group.rank, group.size);
    reduce_begin(ctx, &t, kind, own, data, &view, false, &record);
    transfer_end(ctx, &t);
    gather_begin(ctx, &t, kind, data, own, &view, false, &record);
    transfer_end(ctx, &t);
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
    const axis_view view = {1, length, unit};
    const transfer_record record = {"reduce_scatter", true, (double)bytes_of(length * unit)};
    transfer t;
    reduce_begin(ctx, &t, FF_GROUP_DAP, local, full, &view, false, &record);
    transfer_end(ctx, &t);
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

static transfer_record record_of(const char *name, bool backward, const ff_tensor *a, const ff_tensor *b)
{
    return (transfer_record){name, backward, a == NULL || b == NULL ? 0.0 : (double)(a->bytes + b->bytes)};
}

static void scatter_backward(ff_ctx *ctx, ff_node *node)
{
    node_args a;
    memcpy(&a, node->args, sizeof a);
    bool fresh;
    ff_tensor *x = node->inputs[0], *out = node->outputs[0], *grad = grad_to_write(ctx, x, &fresh);
    if (grad == NULL)
        return;
    const axis_view view = view_axis(x, a.axis);
    const transfer_record record = record_of(node->name, true, x, out);
    transfer t;
    gather_begin(ctx, &t, FF_GROUP_DAP, ff_data(grad), ff_data(out->grad), &view, !fresh, &record);
    transfer_end(ctx, &t);
}

ff_tensor *ff_dap_scatter(ff_ctx *ctx, ff_tensor *x, int axis)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    if (ctx->status != FF_OK || x == NULL)
        return NULL;
    if (size == 1)
        return ff_tensor_retain(x);
    const axis_view view = view_axis(x, axis);
    const int64_t n = ff_shard_length(view.length, rank, size);
    ff_tensor *out = create_with(ctx, x, axis, n);
    if (ff_computing(ctx))
        take_range(ff_data(out), ff_data(x), &view, ff_shard_first(view.length, rank, size), n);
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
    const axis_view view = view_axis(out, axis);
    const transfer_record record = record_of(name, false, x, out);
    transfer t;
    gather_begin(ctx, &t, FF_GROUP_DAP, ff_data(out), ff_data(x), &view, false, &record);
    transfer_end(ctx, &t);
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
    const axis_view view = view_axis(out, a.axis);
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
    const axis_view view = view_axis(out, a.axis);
    const transfer_record record = record_of(node->name, true, x, out);
    transfer t;
    reduce_begin(ctx, &t, FF_GROUP_DAP, ff_data(grad), ff_data(out->grad), &view, !fresh, &record);
    transfer_end(ctx, &t);
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
    const transfer_record record = record_of(node->name, true, x, out);
    transfer t;
    all_to_all_begin(ctx, &t, grad, out->grad, a.to, a.axis, !fresh, &record);
    transfer_end(ctx, &t);
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
    const transfer_record record = record_of("all_to_all", false, x, out);
    transfer t;
    all_to_all_begin(ctx, &t, out, x, from, to, false, &record);
    transfer_end(ctx, &t);
    const node_args a = {from, to, total_from};
    if (ff_recording(ctx, &x, 1))
        ff_tape_add(ctx, "all_to_all", all_to_all_backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    ff_tensor_release(x);
    return out;
}
