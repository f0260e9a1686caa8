/* Contents: ranges; transfers. */
#include "dap/transfer.h"

#include <string.h>

#include "dap/wire.h"

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

/* The same between float32 and bfloat16; in place of what is there. */
static void take_range_narrow(uint16_t *part, const float *whole, const ff_axis_view *v, int64_t first, int64_t n)
{
    const int64_t run = n * v->inner, stride = v->length * v->inner;
#pragma omp parallel for schedule(static) if (v->outer * run >= PARALLEL_FROM)
    for (int64_t o = 0; o < v->outer; o++)
        for (int64_t i = 0; i < run; i++)
            part[o * run + i] = ff_to_bf16(whole[o * stride + first * v->inner + i]);
}

static void put_range_narrow(float *whole, const uint16_t *part, const ff_axis_view *v, int64_t first, int64_t n)
{
    const int64_t run = n * v->inner, stride = v->length * v->inner;
#pragma omp parallel for schedule(static) if (v->outer * run >= PARALLEL_FROM)
    for (int64_t o = 0; o < v->outer; o++)
        for (int64_t i = 0; i < run; i++)
            whole[o * stride + first * v->inner + i] = ff_from_bf16(part[o * run + i]);
}

/* ---- transfers ---- */

bool ff_transfer_narrow(const ff_ctx *ctx, int64_t channels)
{
    return ff_comm_narrow(ctx) && ctx->kernels->dtype == FF_DTYPE_BF16 && channels >= FF_NARROW_CHANNELS;
}

static size_t wire_bytes(const ff_transfer *t, int64_t floats)
{
    return (size_t)floats * (t->narrow ? sizeof(uint16_t) : sizeof(float));
}

static char *wire_at(const ff_transfer *t, void *buffer, int64_t floats) { return (char *)buffer + wire_bytes(t, floats); }

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
        const void *part = wire_at(t, t->received, t->view.outer * first * t->view.inner);
        if (t->narrow)
            put_range_narrow(t->out, part, &t->view, first, n);
        else
            ff_put_range(t->out, part, &t->view, first, n, t->add);
    }
    ff_scratch_end(ctx, t->received);
    ff_scratch_end(ctx, t->packed);
}

/* Receive every rank's shard along `view` of out, into place where that is contiguous. */
static void receive_shards(ff_ctx *ctx, ff_transfer *t, float *out, const ff_axis_view *view, bool add)
{
    const int size = t->group.size;
    const bool in_place = view->outer == 1 && !add && !t->narrow;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    t->unpack = in_place ? FF_UNPACK_NOTHING : FF_UNPACK_RANGES;
    t->out = out;
    t->view = *view;
    t->add = add;
    t->received = in_place ? NULL : ff_scratch_begin(ctx, wire_bytes(t, view->outer * view->length * view->inner));
    char *to = in_place ? (char *)out : t->received;
    for (int r = 0; r < size && ctx->status == FF_OK; r++) {
        parts[r].receive = to;
        parts[r].receive_bytes = wire_bytes(t, view->outer * ff_shard_length(view->length, r, size) * view->inner);
        to += parts[r].receive_bytes;
    }
}

/* Send every rank its shard along `view` of `in`, packed where it is not contiguous. */
static void send_shards(ff_ctx *ctx, ff_transfer *t, const float *in, const ff_axis_view *view)
{
    const int size = t->group.size;
    const bool in_place = view->outer == 1 && !t->narrow;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    t->packed = in_place ? NULL : ff_scratch_begin(ctx, wire_bytes(t, view->outer * view->length * view->inner));
    for (int64_t r = 0, at = 0; r < size && ctx->status == FF_OK; r++) {
        const int64_t first = ff_shard_first(view->length, (int)r, size), n = ff_shard_length(view->length, (int)r, size);
        char *packed = in_place ? NULL : wire_at(t, t->packed, at);
        if (t->narrow && ff_computing(ctx))
            take_range_narrow((uint16_t *)packed, in, view, first, n);
        else if (!in_place && ff_computing(ctx))
            ff_take_range((float *)packed, in, view, first, n);
        parts[r].send = in_place ? (const void *)(in + at) : packed;
        parts[r].send_bytes = wire_bytes(t, view->outer * n * view->inner);
        at += view->outer * n * view->inner;
    }
}

/* out (whole along view's axis) = or += the ranks' shards */
void ff_transfer_gather(ff_ctx *ctx, ff_transfer *t, ff_group_kind kind, float *out, const float *local, const ff_axis_view *view,
                         bool add, const ff_transfer_record *record)
{
    *t = (ff_transfer){.group = ff_comm_group(ctx, kind), .narrow = record->narrow};
    const int rank = t->group.rank, size = t->group.size;
    const int64_t own = view->outer * ff_shard_length(view->length, rank, size) * view->inner;
    const ff_axis_view flat = {1, own, 1};
    t->packed = t->narrow ? ff_scratch_begin(ctx, wire_bytes(t, own)) : NULL;
    if (t->narrow && ff_computing(ctx))
        take_range_narrow(t->packed, local, &flat, 0, own);
    receive_shards(ctx, t, out, view, add);
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    for (int r = 0; r < size; r++) {
        parts[r].send = t->narrow ? t->packed : (const void *)local;
        parts[r].send_bytes = wire_bytes(t, own);
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
    *t = (ff_transfer){.group = ff_comm_group(ctx, FF_GROUP_DAP), .narrow = record->narrow};
    send_shards(ctx, t, ff_data(in), &send);
    receive_shards(ctx, t, ff_data(out), &receive, add);
    transfer_begin(ctx, t, record);
}
