/* attention_backward.cuh - gradients of attention.cuh by tiles, from the rows' log-sum-exp.
 *
 * With p = exp(q k + bias - lse), dp = d_o v, delta = d_o . o and ds = p (dp - delta):
 *     grad_v = sum_query p d_o    grad_k = sum_query ds q    grad_q = sum_key ds k    grad_bias = sum_batch ds
 * Three launches of one kernel, each with one owner for what it sums, so that results repeat bit for bit: a block owns 64
 * keys, or 64 queries, or a tile of the bias gradient; p and ds are made again in each (9 products, where 5 would do with
 * atomic additions). */
#ifndef FF_KERNELS_ATTENTION_BACKWARD_CUH
#define FF_KERNELS_ATTENTION_BACKWARD_CUH

#include "kernels/attention.cuh"

namespace
{

enum Owner { OWNS_KEYS, OWNS_QUERIES, OWNS_BIAS };

/* Where (b, h, l, c) of an array lies. */
struct HeadStrides {
    int64_t batch, head, row;

    FF_DEVICE int64_t at(int64_t b, int64_t h, int64_t l) const
    {
        return b * batch + h * head + l * row;
    }
};

template <class Source, class Target>
struct AttentionGradient {
    const Source *query, *key, *value, *grad_out;
    HeadStrides query_at, key_at, grad_out_at; /* value as key */
    Target *grad_query, *grad_key, *grad_value;
    HeadStrides grad_query_at, grad_key_at;
    float query_factor, key_factor; /* of grad_query and grad_key */
    bool accumulate;                /* grad_query, grad_key, grad_value += */
    float *grad_bias;               /* [num_head, num_query, num_key] +=, or NULL */
    const float *lse, *delta;       /* [batch, num_head, num_query] */
    const float *mask, *bias;
    int64_t mask_batch, mask_key;
    int64_t batch, num_head, num_query, num_key;
    int width;
    float scale; /* of q k */
    bool vector;
};

/* Shared memory of a block: own rows of two arrays, a tile of the other side's two, and per row two floats each. */
template <class T, int kWidth>
struct GradientTiles {
    static constexpr int kOwn = FF_TILE_ROWS;
    static constexpr int kOther = sizeof(T) == 2 ? 64 : 32;
    static constexpr int kPitch = kWidth + ff_pad<T>::value;
    static constexpr int kStripPitch = kOther + ff_pad<T>::value;
    static constexpr int kStripRows = sizeof(T) == 2 ? 0 : kOwn;
    static constexpr size_t kBytes =
        sizeof(T) * (2 * (kOwn + kOther) * kPitch + kStripRows * kStripPitch) +
        sizeof(float) * 2 * (kOwn + kOther);

    T *own[2], *other[2], *strip;
    float *own_row[2], *other_row[2]; /* queries: lse, delta; keys: what add_bias calls fill, unused */

    FF_DEVICE explicit GradientTiles(T *shared)
    {
        own[0] = shared;
        own[1] = own[0] + kOwn * kPitch;
        other[0] = own[1] + kOwn * kPitch;
        other[1] = other[0] + kOther * kPitch;
        strip = other[1] + kOther * kPitch;
        own_row[0] = reinterpret_cast<float *>(strip + kStripRows * kStripPitch);
        own_row[1] = own_row[0] + kOwn;
        other_row[0] = own_row[1] + kOwn;
        other_row[1] = other_row[0] + kOther;
    }
};

/* The two floats of each of `count` queries or keys from `first`; beyond the end keys get -inf, queries 0. */
template <class Source, class Target>
FF_DEVICE void load_rows(const AttentionGradient<Source, Target> &a, bool keys, float *first_row,
                         float *second_row, int64_t b, int64_t h, int64_t first, int count)
{
    for (int r = threadIdx.x; r < count; r += FF_TILE_THREADS) {
        if (keys) {
            const bool inside = first + r < a.num_key;
            const bool masked = inside && a.mask != nullptr &&
                                a.mask[b * a.mask_batch + (first + r) * a.mask_key] == 0.0f;
            first_row[r] = !inside ? -INFINITY : masked ? FF_MASKED_LOGIT : 0.0f;
        } else {
            const bool inside = first + r < a.num_query;
            const int64_t at = (b * a.num_head + h) * a.num_query + first + r;
            first_row[r] = inside ? a.lse[at] : INFINITY; /* p = 0 */
            second_row[r] = inside ? a.delta[at] : 0.0f;
        }
    }
}

/* From logits and dp to p and ds of one element. bias points at it, or is NULL. A row whose keys are all masked attends
 * uniformly, and its logits have no gradient. */
FF_DEVICE void soften(float &logit, float &dp, float fill, float lse, float delta, const float *bias,
                      float scale, float uniform)
{
    if (fill != 0.0f) {
        logit = fill == FF_MASKED_LOGIT && lse < 0.5f * FF_MASKED_LOGIT ? uniform : 0.0f;
        dp = 0.0f;
        return;
    }
    logit = expf(fmaf(logit, scale, bias == nullptr ? 0.0f : *bias) - lse);
    dp = logit * (dp - delta);
}

/* Store 16 rows of a warp. */
template <int kWidth, class Target>
FF_DEVICE void store_gradient(const ff_warp_tile<kWidth> &tile, Target *to, int64_t row_stride,
                              int num_row, int num_column, float factor, bool accumulate)
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if (tile.row(e) >= num_row)
            continue;
#pragma unroll
        for (int n = 0; n < kWidth / 8; n++) {
            const int c = tile.column(n, e);
            if (c >= num_column)
                continue;
            Target *at = to + tile.row(e) * row_stride + c;
            const float value = tile.value[n][e] * factor;
            *at = ff_from_float<Target>(accumulate ? ff_to_float(*at) + value : value);
        }
    }
}

template <class T, int kWidth, Owner kOwner, class Source, class Target>
__global__ void __launch_bounds__(FF_TILE_THREADS)
    attend_backward(AttentionGradient<Source, Target> a)
{
    typedef GradientTiles<T, kWidth> Tiles;
    constexpr bool kKeys = kOwner == OWNS_KEYS;
    const int num_chunk = (a.width + kWidth - 1) / kWidth;
    const int64_t num_own = kKeys ? a.num_key : a.num_query,
                  num_other = kKeys ? a.num_query : a.num_key;
    const int64_t own_tiles = (num_own + Tiles::kOwn - 1) / Tiles::kOwn,
                  other_tiles = (num_other + Tiles::kOther - 1) / Tiles::kOther;
    const int64_t tasks = kOwner == OWNS_BIAS ? a.num_head * own_tiles * other_tiles
                                              : a.num_head * own_tiles * a.batch * num_chunk;
    const int64_t steps = kOwner == OWNS_BIAS ? a.batch : other_tiles;
    const int warp = threadIdx.x / FF_WARP;
    const float uniform = 1.0f / static_cast<float>(a.num_key);
    const HeadStrides own_at[2] = {kKeys ? a.key_at : a.query_at, kKeys ? a.key_at : a.grad_out_at};
    const HeadStrides other_at[2] = {kKeys ? a.query_at : a.key_at,
                                     kKeys ? a.grad_out_at : a.key_at};
    const Source *own_from[2] = {kKeys ? a.key : a.query, kKeys ? a.value : a.grad_out};
    const Source *other_from[2] = {kKeys ? a.query : a.key, kKeys ? a.grad_out : a.value};
    FF_SHARED(T, shared);
    const Tiles tiles(shared);

    for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        const int64_t first_own = task % own_tiles * Tiles::kOwn, h = task / own_tiles % a.num_head;
        const int64_t rest = task / (own_tiles * a.num_head);
        const int out_chunk = kOwner == OWNS_BIAS ? num_chunk - 1 : static_cast<int>(rest % num_chunk);
        ff_warp_tile<kOwner == OWNS_BIAS ? Tiles::kOther : kWidth> sum;
        ff_warp_tile<kKeys ? kWidth : 8> sum_value;
        sum.clear();
        sum_value.clear();
        for (int64_t step = 0; step < steps; step++) {
            const int64_t b = kOwner == OWNS_BIAS ? step : rest / num_chunk;
            const int64_t first_other = (kOwner == OWNS_BIAS ? rest : step) * Tiles::kOther;
            ff_warp_tile<Tiles::kOther> s, dp;
            s.clear();
            dp.clear();
#pragma unroll 1
            for (int i = 0; i < num_chunk; i++) { /* the block's own chunk is the last one loaded */
                const int first_channel = (i + out_chunk + 1) % num_chunk * kWidth;
                const bool fresh = num_chunk > 1 || step == 0 || kOwner == OWNS_BIAS;
                __syncthreads(); /* the tiles before have been used */
#pragma unroll
                for (int part = 0; part < 2; part++) {
                    load_tile<T, Tiles::kOther, kWidth>(
                        tiles.other[part],
                        other_from[part] + other_at[part].at(b, h, first_other) + first_channel,
                        other_at[part].row, rows_left<Tiles::kOther>(num_other - first_other),
                        a.width - first_channel, a.vector);
                    if (fresh)
                        load_tile<T, Tiles::kOwn, kWidth>(
                            tiles.own[part],
                            own_from[part] + own_at[part].at(b, h, first_own) + first_channel,
                            own_at[part].row, rows_left<Tiles::kOwn>(num_own - first_own),
                            a.width - first_channel, a.vector);
                }
                if (i == 0)
                    load_rows(a, !kKeys, tiles.other_row[0], tiles.other_row[1], b, h, first_other,
                              Tiles::kOther);
                if (i == 0 && fresh)
                    load_rows(a, kKeys, tiles.own_row[0], tiles.own_row[1], b, h, first_own,
                              Tiles::kOwn);
                ff_copy_async_commit();
                ff_copy_async_wait<0>();
                __syncthreads();
                const int own = warp * 16 * Tiles::kPitch;
                ff_multiply_transposed(s, tiles.own[0] + own, Tiles::kPitch, tiles.other[0],
                                       Tiles::kPitch, kWidth);
                ff_multiply_transposed(dp, tiles.own[1] + own, Tiles::kPitch, tiles.other[1],
                                       Tiles::kPitch, kWidth);
            }
#pragma unroll
            for (int n = 0; n < Tiles::kOther / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int r = warp * 16 + s.row(e), c = s.column(n, e);
                    const int64_t q = kKeys ? first_other + c : first_own + r,
                                  k = kKeys ? first_own + r : first_other + c;
                    const float *bias = a.bias == nullptr || q >= a.num_query || k >= a.num_key
                                            ? nullptr
                                            : a.bias + (h * a.num_query + q) * a.num_key + k;
                    soften(s.value[n][e], dp.value[n][e],
                           kKeys ? tiles.own_row[0][r] : tiles.other_row[0][c],
                           kKeys ? tiles.other_row[0][c] : tiles.own_row[0][r],
                           kKeys ? tiles.other_row[1][c] : tiles.own_row[1][r], bias, a.scale,
                           uniform);
                    if constexpr (kOwner == OWNS_BIAS)
                        sum.value[n][e] += dp.value[n][e];
                }
            if constexpr (kOwner != OWNS_BIAS) {
                T *strip = tiles.strip + warp * 16 * Tiles::kStripPitch;
                if constexpr (kKeys) {
                    ff_multiply_registers(sum_value, s, strip, tiles.other[1], Tiles::kPitch);
                    __syncwarp();
                }
                ff_multiply_registers(sum, dp, strip, tiles.other[0], Tiles::kPitch);
            }
        }
        const int64_t first_row = first_own + warp * 16;
        const int num_row = rows_left<16>(num_own - first_row);
        if constexpr (kOwner == OWNS_BIAS) {
            if (num_row > 0)
                store_gradient(sum,
                               a.grad_bias + (h * a.num_query + first_row) * a.num_key +
                                   rest * Tiles::kOther,
                               a.num_key, num_row,
                               rows_left<Tiles::kOther>(a.num_key - rest * Tiles::kOther), 1.0f,
                               true);
        } else if (num_row > 0) {
            const int64_t b = rest / num_chunk;
            const HeadStrides to = kKeys ? a.grad_key_at : a.grad_query_at;
            const int64_t at = to.at(b, h, first_row) + out_chunk * kWidth;
            store_gradient(sum, (kKeys ? a.grad_key : a.grad_query) + at, to.row, num_row,
                           a.width - out_chunk * kWidth, kKeys ? a.key_factor : a.query_factor,
                           a.accumulate);
            if constexpr (kKeys)
                store_gradient(sum_value, a.grad_value + at, to.row, num_row,
                               a.width - out_chunk * kWidth, 1.0f, a.accumulate);
        }
    }
}

template <class T, int kWidth, Owner kOwner, class Source, class Target>
void launch_owner(const AttentionGradient<Source, Target> &a)
{
    typedef GradientTiles<T, kWidth> Tiles;
    const int64_t num_own = kOwner == OWNS_KEYS ? a.num_key : a.num_query;
    const int64_t own_tiles = ff_divide_up(num_own, Tiles::kOwn) * a.num_head;
    const int64_t tasks = kOwner == OWNS_BIAS
                              ? own_tiles * ff_divide_up(a.num_key, Tiles::kOther)
                              : own_tiles * a.batch * ff_divide_up(a.width, kWidth);
    if (tasks > 0)
        FF_LAUNCH((attend_backward<T, kWidth, kOwner, Source, Target>), ff_grid_size(tasks),
                  FF_TILE_THREADS, Tiles::kBytes, a);
}

template <class T, int kWidth, class Source, class Target>
void launch_width(const AttentionGradient<Source, Target> &a)
{
    launch_owner<T, kWidth, OWNS_KEYS>(a);
    launch_owner<T, kWidth, OWNS_QUERIES>(a);
    if (a.grad_bias != nullptr && a.batch > 0)
        launch_owner<T, kWidth, OWNS_BIAS>(a);
}

template <class T, class Source, class Target>
void launch_attend_backward(const AttentionGradient<Source, Target> &a)
{
    if (a.width <= 16)
        launch_width<T, 16>(a);
    else if (a.width <= 32)
        launch_width<T, 32>(a);
    else
        launch_width<T, 64>(a);
}

/* delta of row (b, h, q) = sum_c grad_out . out; one warp a row. */
template <class Source>
struct DeltaRows {
    const Source *grad_out;
    const float *out;
    HeadStrides grad_out_at, out_at;
    float *delta;
    int64_t batch, num_head, num_query;
    int width;
};

template <class Source>
__global__ void __launch_bounds__(FF_TILE_THREADS) make_delta(DeltaRows<Source> a)
{
    const int lane = threadIdx.x % FF_WARP;
    const int64_t rows = a.batch * a.num_head * a.num_query;
    for (int64_t r = static_cast<int64_t>(blockIdx.x) * FF_TILE_WARPS + threadIdx.x / FF_WARP;
         r < rows; r += static_cast<int64_t>(gridDim.x) * FF_TILE_WARPS) {
        /* heads innermost: a position's heads are neighbours in memory */
        const int64_t h = r % a.num_head, q = r / a.num_head % a.num_query,
                      b = r / (a.num_head * a.num_query);
        const Source *d = a.grad_out + a.grad_out_at.at(b, h, q);
        const float *o = a.out + a.out_at.at(b, h, q);
        float sum = 0.0f;
        for (int c = lane; c < a.width; c += FF_WARP)
            sum = fmaf(ff_to_float(d[c]), o[c], sum);
        sum = ff_warp_sum(sum);
        if (lane == 0)
            a.delta[(b * a.num_head + h) * a.num_query + q] = sum;
    }
}

template <class Source>
void launch_delta(const DeltaRows<Source> &a)
{
    const int64_t rows = a.batch * a.num_head * a.num_query;
    if (rows > 0)
        FF_LAUNCH(make_delta<Source>, ff_grid_size(ff_divide_up(rows, FF_TILE_WARPS)),
                  FF_TILE_THREADS, 0, a);
}

} /* namespace */

#endif
