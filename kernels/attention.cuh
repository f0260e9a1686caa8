/* attention.cuh - softmax(q k + bias, masked) v by tiles, forward; attention_backward.cuh has the gradients.
 *
 * The attention matrix exists as tiles in registers only: the softmax keeps the running maximum and sum of each row and
 * rescales what it has accumulated when the maximum grows. Products are float32 FMAs for float32 tiles (T = float) and
 * bf16 tensor core instructions with float32 sums for bf16 ones. */
#ifndef FF_KERNELS_ATTENTION_CUH
#define FF_KERNELS_ATTENTION_CUH

#include "kernels/device.cuh"
#include "kernels/tile.cuh"

namespace
{

/* Element (b, h, l, c) of q lies at b * query_batch + h * query_head + l * query_row + c; k and v likewise; out and
 * ungated at b * out_batch + h * out_head + l * out_row + c; bias and lse are contiguous. */
template <class Source, class Target>
struct Attention {
    const Source *query, *key, *value;
    int64_t query_batch, query_head, query_row, key_batch, key_head, key_row;
    Target *out;
    float *ungated; /* o before the gate, NULL = not wanted */
    int64_t out_batch, out_head, out_row;
    bool gated; /* out holds the gate when the kernel starts */
    float *lse; /* [batch, num_head, num_query] or NULL */
    const float *mask, *bias;
    int64_t mask_batch, mask_key;
    int64_t batch, num_head, num_query, num_key;
    int width;   /* c_hidden */
    float scale; /* of q k */
    bool vector; /* rows of q, k, v are whole 16-byte vectors: copied asynchronously */
};

/* Sizes of a block's tiles for kWidth channels. Heads up to 64 channels wide have one chunk of kWidth; wider ones loop
 * over chunks of 64 for q k, and one block makes each chunk of the output. */
template <class T, int kWidth>
struct AttentionTiles {
    static constexpr int kQueries = FF_TILE_ROWS;
    static constexpr int kKeys = sizeof(T) == 2 ? 64 : 32;
    static constexpr int kPitch = kWidth + ff_pad<T>::value;
    static constexpr int kStripPitch = kKeys + ff_pad<T>::value;
    /* float32 probabilities pass through shared memory; see ff_multiply_registers */
    static constexpr int kStripRows = sizeof(T) == 2 ? 0 : kQueries;

    /* Where the tiles lie in shared memory, in elements of T. Step i uses the buffers of its parity; there are two query
     * tiles only when queries come in chunks. */
    T *shared;
    int second_query; /* 0 or the size of a query tile */

    FF_DEVICE AttentionTiles(T *shared_, bool one_chunk)
        : shared(shared_), second_query(one_chunk ? 0 : kQueries * kPitch)
    {
    }

    FF_DEVICE T *query(int i) const { return shared + (i & 1) * second_query; }
    FF_DEVICE T *key(int i) const
    {
        return shared + second_query + (kQueries + (i & 1) * kKeys) * kPitch;
    }
    FF_DEVICE T *value(int i) const { return key(i) + 2 * kKeys * kPitch; }
    FF_DEVICE T *strip() const { return shared + second_query + (kQueries + 4 * kKeys) * kPitch; }
    /* per key: 0 = attend, else the logit it gets */
    FF_DEVICE float *fill(int i) const
    {
        return reinterpret_cast<float *>(strip() + kStripRows * kStripPitch) + (i & 1) * kKeys;
    }

    static size_t shared_bytes(bool one_chunk)
    {
        return sizeof(T) * ((one_chunk ? 1 : 2) * kQueries * kPitch + 4 * kKeys * kPitch +
                            kStripRows * kStripPitch) +
               sizeof(float) * 2 * kKeys;
    }
};

/* tile[r, c] = source[r * stride + c] for r < rows and c < columns, else 0; with asynchronous copies when `vector`. */
template <int kRows>
FF_DEVICE int rows_left(int64_t rows)
{
    return rows < kRows ? static_cast<int>(rows) : kRows;
}

template <class T, int kRows, int kWidth, class Source>
FF_DEVICE void load_tile(T *tile, const Source *source, int64_t stride, int rows, int columns,
                         bool vector)
{
    constexpr int kPitch = kWidth + ff_pad<T>::value;
    if (sizeof(T) == sizeof(Source) && vector) {
        constexpr int kVector = 16 / sizeof(T);
        for (int i = threadIdx.x; i < kRows * (kWidth / kVector); i += FF_TILE_THREADS) {
            const int r = i / (kWidth / kVector), c = i % (kWidth / kVector) * kVector;
            const bool inside = r < rows && c < columns;
            ff_copy_async_16(tile + r * kPitch + c, inside ? source + r * stride + c : source,
                             inside);
        }
    } else {
        for (int i = threadIdx.x; i < kRows * kWidth; i += FF_TILE_THREADS) {
            const int r = i / kWidth, c = i % kWidth;
            const bool inside = r < rows && c < columns;
            tile[r * kPitch + c] =
                ff_from_float<T>(inside ? ff_to_float(source[r * stride + c]) : 0.0f);
        }
    }
}

/* Logits from products: scale, then the bias of the warp's rows, then what a key's fill says. bias starts at the warp's
 * first row and the tile's first key; NULL = none. */
template <int kKeys>
FF_DEVICE void add_bias(ff_warp_tile<kKeys> &s, const float *fill, const float *bias,
                        int64_t bias_row, int num_row, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float *row = bias != nullptr && s.row(2 * half) < num_row
                               ? bias + s.row(2 * half) * bias_row
                               : nullptr;
#pragma unroll
        for (int n = 0; n < kKeys / 8; n++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                const float instead = fill[s.column(n, e)];
                float logit = s.value[n][e] * scale;
                if (row != nullptr && instead == 0.0f)
                    logit += row[s.column(n, e)];
                s.value[n][e] = instead == 0.0f ? logit : instead;
            }
    }
}

/* What a thread knows of its two query rows while the keys go by: maximum and sum over all keys so far of the row. */
struct RunningSoftmax {
    float maximum[2], sum[2]; /* sum: this lane's columns only */
};

/* Turn logits into exp(logit - maximum), keep the row's maximum and sum, and rescale what was accumulated before. */
template <int kKeys, int kWidth>
FF_DEVICE void update_softmax(ff_warp_tile<kKeys> &s, ff_warp_tile<kWidth> &o,
                              RunningSoftmax &state)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float maximum = state.maximum[half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; n++)
            maximum = fmaxf(maximum, fmaxf(s.value[n][2 * half], s.value[n][2 * half + 1]));
        maximum = ff_warp_max<4>(maximum);
        const float factor = expf(state.maximum[half] - maximum);
        float sum = state.sum[half] * factor;
#pragma unroll
        for (int n = 0; n < kKeys / 8; n++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s.value[n][e] = expf(s.value[n][e] - maximum);
                sum += s.value[n][e];
            }
#pragma unroll
        for (int n = 0; n < kWidth / 8; n++) {
            o.value[n][2 * half] *= factor;
            o.value[n][2 * half + 1] *= factor;
        }
        state.maximum[half] = maximum;
        state.sum[half] = sum;
    }
}

/* One block: 64 queries of one (batch row, head), one chunk of output channels; keys by tiles, the next tile on its way
 * while this one is used. Tasks in order of batch row first: blocks that run together share their bias tile in L2. */
template <class T, int kWidth, class Source, class Target>
__global__ void __launch_bounds__(FF_TILE_THREADS) attend(Attention<Source, Target> a)
{
    typedef AttentionTiles<T, kWidth> Tiles;
    const int num_chunk = (a.width + kWidth - 1) / kWidth;
    const int64_t num_query_tile = (a.num_query + Tiles::kQueries - 1) / Tiles::kQueries;
    const int num_key_tile = static_cast<int>((a.num_key + Tiles::kKeys - 1) / Tiles::kKeys);
    const int num_step = num_key_tile * num_chunk;
    const int warp = threadIdx.x / FF_WARP;
    FF_SHARED(T, shared);
    Tiles tiles(shared, num_chunk == 1);

    for (int64_t task = blockIdx.x; task < a.batch * a.num_head * num_query_tile * num_chunk;
         task += gridDim.x) {
        const int64_t b = task % a.batch;
        const int64_t first_query = task / a.batch % num_query_tile * Tiles::kQueries;
        const int64_t h = task / (a.batch * num_query_tile) % a.num_head;
        const int out_chunk = static_cast<int>(task / (a.batch * num_query_tile * a.num_head));
        const int out_first = out_chunk * kWidth;
        const Source *query =
            a.query + b * a.query_batch + h * a.query_head + first_query * a.query_row;
        const Source *key = a.key + b * a.key_batch + h * a.key_head;
        const Source *value = a.value + b * a.key_batch + h * a.key_head;
        const float *mask = a.mask == nullptr ? nullptr : a.mask + b * a.mask_batch;
        const int64_t first_own = first_query + warp * 16; /* this warp's rows */
        const int num_own = rows_left<16>(a.num_query - first_own);
        const float *bias =
            a.bias == nullptr ? nullptr : a.bias + (h * a.num_query + first_own) * a.num_key;

        /* Step i: chunk i % num_chunk of key tile i / num_chunk, into the buffers of i's parity. Values and masks come
         * with a tile's last chunk; the one query chunk of a narrow head comes with the first step. */
        auto load_step = [&](int i) {
            const int chunk = num_chunk == 1 ? 0 : i % num_chunk, first_channel = chunk * kWidth;
            const int64_t first_key =
                static_cast<int64_t>(num_chunk == 1 ? i : i / num_chunk) * Tiles::kKeys;
            const int num_row = rows_left<Tiles::kKeys>(a.num_key - first_key);
            if (num_chunk > 1 || i == 0)
                load_tile<T, Tiles::kQueries, kWidth>(
                    tiles.query(i), query + first_channel, a.query_row,
                    rows_left<Tiles::kQueries>(a.num_query - first_query), a.width - first_channel,
                    a.vector);
            load_tile<T, Tiles::kKeys, kWidth>(
                tiles.key(i), key + first_key * a.key_row + first_channel, a.key_row, num_row,
                a.width - first_channel, a.vector);
            if (chunk != num_chunk - 1)
                return;
            load_tile<T, Tiles::kKeys, kWidth>(tiles.value(i),
                                               value + first_key * a.key_row + out_first, a.key_row,
                                               num_row, a.width - out_first, a.vector);
            for (int k = threadIdx.x; k < Tiles::kKeys; k += FF_TILE_THREADS) {
                const bool masked =
                    mask != nullptr && k < num_row && mask[(first_key + k) * a.mask_key] == 0.0f;
                tiles.fill(i)[k] = k >= num_row ? -INFINITY : masked ? FF_MASKED_LOGIT : 0.0f;
            }
        };

        ff_warp_tile<kWidth> o;
        ff_warp_tile<Tiles::kKeys> s;
        RunningSoftmax state = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
        o.clear();
        s.clear();
        for (int i = -1; i < num_step; i++) {
            if (i + 1 < num_step)
                load_step(i + 1);
            ff_copy_async_commit();
            if (i < 0)
                continue;
            ff_copy_async_wait<1>();
            __syncthreads(); /* step i has arrived */
            ff_multiply_transposed(s, tiles.query(i) + warp * 16 * Tiles::kPitch, Tiles::kPitch,
                                   tiles.key(i), Tiles::kPitch, kWidth);
            if (num_chunk == 1 || i % num_chunk == num_chunk - 1) {
                const int64_t first_key =
                    static_cast<int64_t>(num_chunk == 1 ? i : i / num_chunk) * Tiles::kKeys;
                add_bias(s, tiles.fill(i), bias == nullptr ? nullptr : bias + first_key, a.num_key,
                         num_own, a.scale);
                update_softmax(s, o, state);
                ff_multiply_registers(o, s, tiles.strip() + warp * 16 * Tiles::kStripPitch,
                                      tiles.value(i), Tiles::kPitch);
                s.clear();
            }
            __syncthreads(); /* step i has been used: its buffers take step i + 2 */
        }

        const float sum[2] = {ff_warp_sum<4>(state.sum[0]), ff_warp_sum<4>(state.sum[1])};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (o.row(e) >= num_own)
                continue;
            const int64_t q = first_own + o.row(e);
            const float factor =
                sum[e / 2] > 0.0f ? 1.0f / sum[e / 2] : 0.0f; /* no keys at all: an empty sum */
            const int64_t row = b * a.out_batch + h * a.out_head + q * a.out_row + out_first;
#pragma unroll
            for (int n = 0; n < kWidth / 8; n++) {
                const int c = o.column(n, e);
                if (out_first + c >= a.width)
                    continue;
                const float result = o.value[n][e] * factor;
                if (a.ungated != nullptr)
                    a.ungated[row + c] = result;
                const float gate = a.gated ? ff_to_float(a.out[row + c]) : 1.0f;
                a.out[row + c] = ff_from_float<Target>(gate * result);
            }
            if (a.lse != nullptr && out_chunk == 0 && e % 2 == 0 && threadIdx.x % 4 == 0)
                a.lse[(b * a.num_head + h) * a.num_query + q] =
                    state.maximum[e / 2] + logf(sum[e / 2]);
        }
    }
}

template <class T, int kWidth, class Source, class Target>
void launch_attend_width(const Attention<Source, Target> &a)
{
    const int64_t num_chunk = ff_divide_up(a.width, kWidth);
    const int64_t tasks =
        a.batch * a.num_head * ff_divide_up(a.num_query, FF_TILE_ROWS) * num_chunk;
    const size_t shared_bytes = AttentionTiles<T, kWidth>::shared_bytes(num_chunk == 1);
    FF_LAUNCH((attend<T, kWidth, Source, Target>), ff_grid_size(tasks), FF_TILE_THREADS,
              shared_bytes, a);
}

template <class T, class Source, class Target>
void launch_attend(const Attention<Source, Target> &a)
{
    if (a.batch == 0 || a.num_head == 0 || a.num_query == 0 || a.width == 0)
        return;
    if (a.width <= 16)
        launch_attend_width<T, 16>(a);
    else if (a.width <= 32)
        launch_attend_width<T, 32>(a);
    else
        launch_attend_width<T, 64>(a);
}

} /* namespace */

#endif
