/* Contents: ranges; transfers. */
#include "dap/transfer.h"

#include <string.h>

/* ---- ranges ---- */

ff_axis_view ff_view_axis(const ff_tensor *x, int axis)
{
    ff_axis_view v = {1, x->shape[axis], 1};
    for (int i = 0; i < axis; i++)
        v.outer *= x->shape[i];
    for (int i = axis + 1; i < x->ndim; i++)
        v.inner *= x->shape[i];
    return v;
}

static size_t bytes_of(int64_t floats) { return (size_t)floats * sizeof(float); }

enum { PARALLEL_FROM = 1 << 15 }; /* floats; below, waking the threads costs more than the copy */

/* Entries [first, first + n) of the axis of `whole`, an array [outer, n, inner] of their own = or += or from there. */
void ff_take_range(float *part, const float *whole, const ff_axis_view *v, int64_t first, int64_t n)
{
    const int64_t run = n * v->inner, stride = v->length * v->inner;
#pragma omp parallel for schedule(static) if (v->outer * run >= PARALLEL_FROM)
    for (int64_t o = 0; o < v->outer; o++)
        memcpy(part + o * run, whole + o * stride + first * v->inner, bytes_of(run));
}

void ff_put_range(float *whole, const float *part, const ff_axis_view *v, int64_t first, int64_t n, bool add)
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

static void transfer_begin(ff_ctx *ctx, ff_transfer *t, const ff_transfer_record *record)
{
    t->handle = ff_exchange_begin(ctx, &t->group, record->name, record->backward, record->bytes_moved);
}

/* out = or += sum over ranks, in their order, of the parts received. */
static void sum_parts(const ff_ctx *ctx, const ff_transfer *t)
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

void ff_transfer_end(ff_ctx *ctx, ff_transfer *t)
{
    const int size = t->group.size;
    (void)ff_exchange_end(ctx, t->handle); /* a failure stays in ctx */
    if (ff_computing(ctx) && t->unpack == FF_UNPACK_SUM)
        sum_parts(ctx, t);
    for (int r = 0; r < size && ff_computing(ctx) && t->unpack == FF_UNPACK_RANGES; r++) {
        const int64_t first = ff_shard_first(t->view.length, r, size), n = ff_shard_length(t->view.length, r, size);
        ff_put_range(t->out, (const float *)t->received + t->view.outer * first * t->view.inner, &t->view, first, n, t->add);
    }
    ff_scratch_end(ctx, t->received);
    ff_scratch_end(ctx, t->packed);
}

/* Receive every rank's shard along `view` of out, into place where that is contiguous. */
static void receive_shards(ff_ctx *ctx, ff_transfer *t, float *out, const ff_axis_view *view, bool add)
{
    const int size = t->group.size;
    const bool in_place = view->outer == 1 && !add;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    t->unpack = in_place ? FF_UNPACK_NOTHING : FF_UNPACK_RANGES;
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
static void send_shards(ff_ctx *ctx, ff_transfer *t, const float *in, const ff_axis_view *view)
{
    const int size = t->group.size;
    const bool in_place = view->outer == 1;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    t->packed = in_place ? NULL : ff_scratch_begin(ctx, bytes_of(view->outer * view->length * view->inner));
    float *packed = t->packed;
    for (int64_t r = 0, at = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t first = ff_shard_first(view->length, (int)r, size), n = ff_shard_length(view->length, (int)r, size);
        if (!in_place && ff_computing(ctx))
            ff_take_range(packed + at, in, view, first, n);
        parts[r].send = (in_place ? in : packed) + at;
        parts[r].send_bytes = bytes_of(view->outer * n * view->inner);
        at += view->outer * n * view->inner;
    }
}

/* out (whole along view's axis) = or += the ranks' shards */
void ff_transfer_gather(ff_ctx *ctx, ff_transfer *t, ff_group_kind kind, float *out, const float *local, const ff_axis_view *view,
                         bool add, const ff_transfer_record *record)
{
    *t = (ff_transfer){.group = ff_comm_group(ctx, kind)};
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
void ff_transfer_reduce(ff_ctx *ctx, ff_transfer *t, ff_group_kind kind, float *local, const float *whole, const ff_axis_view *view,
                         bool add, const ff_transfer_record *record)
{
    *t = (ff_transfer){.group = ff_comm_group(ctx, kind), .unpack = FF_UNPACK_SUM, .out = local, .add = add};
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
void ff_transfer_all_to_all(ff_ctx *ctx, ff_transfer *t, ff_tensor *out, const ff_tensor *in, int from, int to, bool add,
                             const ff_transfer_record *record)
{
    const ff_axis_view receive = ctx->status == FF_OK ? ff_view_axis(out, from) : (ff_axis_view){0, 0, 0};
    const ff_axis_view send = ctx->status == FF_OK ? ff_view_axis(in, to) : (ff_axis_view){0, 0, 0};
    *t = (ff_transfer){.group = ff_comm_group(ctx, FF_GROUP_DAP)};
    send_shards(ctx, t, ff_data(in), &send);
    receive_shards(ctx, t, ff_data(out), &receive, add);
    transfer_begin(ctx, t, record);
}
