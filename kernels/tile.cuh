/* tile.cuh - products of tiles in shared memory by a block of four warps, in one register layout for both operand types.
 *
 * Contents
 *   1. ff_warp_tile: a warp's 16 rows of a product
 *   2. products of one warp: float32 by FMA, bf16 by tensor cores
 *   3. ff_row_product: a block's 64 rows times a whole weight matrix
 *   4. ff_norm_rows: the layer norm in front of it
 *
 * A warp tile is laid out like the accumulator of mma.m16n8k16, and the float32 products keep to that layout, so that
 * what follows a product (softmax, gate, bias, residual) is written once. Matrices in shared memory are row-major with
 * a pitch of FF_PAD extra elements: rows start 16-byte aligned and the eight rows of an ldmatrix, or the four columns
 * lanes of one group read, fall into different banks. */
#ifndef FF_KERNELS_TILE_CUH
#define FF_KERNELS_TILE_CUH

#include "kernels/device.cuh"

enum {
    FF_TILE_THREADS = 128,
    FF_TILE_WARPS = FF_TILE_THREADS / FF_WARP,
    FF_TILE_ROWS = 16 * FF_TILE_WARPS,
    FF_TILE_COLUMNS = 64
};

/* ---- 1. a warp's rows ---- */

/* Padding of a row in elements: 16 bytes. */
template <class T>
struct ff_pad {
    static constexpr int value = 16 / sizeof(T);
};

/* 16 rows x kColumns columns. Lane 4 g + t holds of the 8-column group n:
 * value[n] = {(g, 8n + 2t), (g, 8n + 2t + 1), (g + 8, 8n + 2t), (g + 8, 8n + 2t + 1)}. */
template <int kColumns>
struct ff_warp_tile {
    float value[kColumns / 8][4];

    FF_DEVICE void clear()
    {
#pragma unroll
        for (int n = 0; n < kColumns / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                value[n][e] = 0.0f;
    }

    static FF_DEVICE int row(int e) { return (threadIdx.x % FF_WARP) / 4 + e / 2 * 8; }
    static FF_DEVICE int column(int n, int e) { return 8 * n + threadIdx.x % 4 * 2 + e % 2; }
};

/* ---- 2. products of one warp: tile += a b. a [16, depth] and b in shared memory, depth a multiple of 16 ---- */

/* b [kColumns, depth]: its rows are the product's columns */
template <int kColumns>
FF_DEVICE void ff_multiply_transposed(ff_warp_tile<kColumns> &tile, const float *a, int a_pitch,
                                      const float *b, int b_pitch, int depth)
{
    a += tile.row(0) * a_pitch;
    b += tile.column(0, 0) * b_pitch;
#pragma unroll 1 /* one step has 16 loads of its own; more cost registers */
    for (int k = 0; k < depth; k += 4) {
        const float4 upper = ff_load<float4>(a + k), lower = ff_load<float4>(a + 8 * a_pitch + k);
#pragma unroll
        for (int n = 0; n < kColumns / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float4 right = ff_load<float4>(b + (8 * n + e) * b_pitch + k);
                float &u = tile.value[n][e], &l = tile.value[n][2 + e];
                u = fmaf(upper.x, right.x, u);
                u = fmaf(upper.y, right.y, u);
                u = fmaf(upper.z, right.z, u);
                u = fmaf(upper.w, right.w, u);
                l = fmaf(lower.x, right.x, l);
                l = fmaf(lower.y, right.y, l);
                l = fmaf(lower.z, right.z, l);
                l = fmaf(lower.w, right.w, l);
            }
    }
}

/* b [depth, kColumns] */
template <int kColumns>
FF_DEVICE void ff_multiply(ff_warp_tile<kColumns> &tile, const float *a, int a_pitch,
                           const float *b, int b_pitch, int depth)
{
    a += tile.row(0) * a_pitch;
    b += tile.column(0, 0);
    for (int k = 0; k < depth; k += 4) {
        const float4 upper4 = ff_load<float4>(a + k), lower4 = ff_load<float4>(a + 8 * a_pitch + k);
        const float upper[4] = {upper4.x, upper4.y, upper4.z, upper4.w};
        const float lower[4] = {lower4.x, lower4.y, lower4.z, lower4.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int n = 0; n < kColumns / 8; n++) {
                const float2 right = ff_load<float2>(b + (k + i) * b_pitch + 8 * n);
                tile.value[n][0] = fmaf(upper[i], right.x, tile.value[n][0]);
                tile.value[n][1] = fmaf(upper[i], right.y, tile.value[n][1]);
                tile.value[n][2] = fmaf(lower[i], right.x, tile.value[n][2]);
                tile.value[n][3] = fmaf(lower[i], right.y, tile.value[n][3]);
            }
    }
}

/* The 16 x 16 block of a at column k as an mma operand. */
FF_DEVICE void ff_load_left(uint32_t (&fragment)[4], const ff_bf16 *a, int a_pitch, int k)
{
    const int lane = threadIdx.x % FF_WARP;
    ff_load_matrix_x4(fragment, a + lane % 16 * a_pitch + k + lane / 16 * 8);
}

template <int kColumns>
FF_DEVICE void ff_multiply_transposed(ff_warp_tile<kColumns> &tile, const ff_bf16 *a, int a_pitch,
                                      const ff_bf16 *b, int b_pitch, int depth)
{
    const int lane = threadIdx.x % FF_WARP;
    b += (lane % 8 + lane / 16 * 8) * b_pitch + lane / 8 % 2 * 8;
    for (int k = 0; k < depth; k += 16) {
        uint32_t left[4], right[4];
        ff_load_left(left, a, a_pitch, k);
#pragma unroll
        for (int n = 0; n < kColumns / 8; n += 2) {
            ff_load_matrix_x4(right, b + 8 * n * b_pitch + k);
            ff_mma_m16n8k16(tile.value[n], left, right[0], right[1]);
            ff_mma_m16n8k16(tile.value[n + 1], left, right[2], right[3]);
        }
    }
}

/* One step of depth 16: b's rows k .. k + 15. */
template <int kColumns>
FF_DEVICE void ff_multiply_step(ff_warp_tile<kColumns> &tile, const uint32_t (&left)[4],
                                const ff_bf16 *b, int b_pitch, int k)
{
    const int lane = threadIdx.x % FF_WARP;
    b += (k + lane % 16) * b_pitch + lane / 16 * 8;
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
        uint32_t right[4];
        ff_load_matrix_x4_transposed(right, b + 8 * n);
        ff_mma_m16n8k16(tile.value[n], left, right[0], right[1]);
        ff_mma_m16n8k16(tile.value[n + 1], left, right[2], right[3]);
    }
}

template <int kColumns>
FF_DEVICE void ff_multiply(ff_warp_tile<kColumns> &tile, const ff_bf16 *a, int a_pitch,
                           const ff_bf16 *b, int b_pitch, int depth)
{
    for (int k = 0; k < depth; k += 16) {
        uint32_t left[4];
        ff_load_left(left, a, a_pitch, k);
        ff_multiply_step(tile, left, b, b_pitch, k);
    }
}

/* tile += p b with p [16, kDepth] in registers and b [kDepth, kColumns]. float32 passes p through `strip`, 16 rows of
 * kDepth + ff_pad of shared memory that belong to this warp, with a barrier between two calls; bf16 needs no memory: two
 * groups of an accumulator are an operand. */
template <int kColumns, int kDepth>
FF_DEVICE void ff_multiply_registers(ff_warp_tile<kColumns> &tile, const ff_warp_tile<kDepth> &p,
                                     float *strip, const float *b, int b_pitch)
{
    const int pitch = kDepth + ff_pad<float>::value;
#pragma unroll
    for (int n = 0; n < kDepth / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e += 2)
            ff_store<float2>(strip + p.row(e) * pitch + p.column(n, e),
                             float2{p.value[n][e], p.value[n][e + 1]});
    __syncwarp();
    ff_multiply(tile, strip, pitch, b, b_pitch, kDepth);
}

template <int kColumns, int kDepth>
FF_DEVICE void ff_multiply_registers(ff_warp_tile<kColumns> &tile, const ff_warp_tile<kDepth> &p,
                                     ff_bf16 *, const ff_bf16 *b, int b_pitch)
{
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
        const float(&first)[4] = p.value[k / 8], (&second)[4] = p.value[k / 8 + 1];
        const uint32_t left[4] = {
            ff_pack_bf16(first[0], first[1]), ff_pack_bf16(first[2], first[3]),
            ff_pack_bf16(second[0], second[1]), ff_pack_bf16(second[2], second[3])};
        ff_multiply_step(tile, left, b, b_pitch, k);
    }
}

/* ---- 3. 64 rows times a weight matrix ---- */

/* The block's 64 rows of a [rows, depth] times weights [depth, num_columns], one tile of 64 columns after the other.
 * Rows come from load(row, k) as float32, row 0 .. 63, k < depth, and are held in shared memory, kChunk columns at a
 * time; where depth is at most kChunk they are loaded once, for all products made with one ff_row_product. */
template <class T>
struct ff_row_product {
    static constexpr int kStep = 32;               /* rows of weights in shared memory */
    static constexpr int kChunk = 512 / sizeof(T); /* 64 rows of it are 32 KiB */
    static constexpr int kWeightPitch = FF_TILE_COLUMNS + ff_pad<T>::value;

    T *rows, *step;
    int pitch;
    bool loaded;

    static __host__ __device__ int row_pitch(int64_t depth)
    {
        const int padded =
            depth > kChunk ? kChunk : static_cast<int>((depth + kStep - 1) / kStep * kStep);
        return padded + ff_pad<T>::value;
    }

    /* Bytes of shared memory, a multiple of 16. */
    static __host__ __device__ size_t shared_bytes(int64_t depth)
    {
        return sizeof(T) * (FF_TILE_ROWS * row_pitch(depth) + kStep * kWeightPitch);
    }

    FF_DEVICE ff_row_product(void *shared, int64_t depth)
        : rows(static_cast<T *>(shared)), step(rows + FF_TILE_ROWS * row_pitch(depth)),
          pitch(row_pitch(depth)), loaded(false)
    {
    }

    /* weights element (k, n) at k * stride + n; store(row, column, value) is called for every column < num_columns and
     * every row of the tile, beyond the array's end too. */
    template <class Load, class Store>
    FF_DEVICE void run(int64_t depth, const float *weights, int64_t stride, int64_t num_columns,
                       Load load, Store store)
    {
        const int warp = threadIdx.x / FF_WARP, lane = threadIdx.x % FF_WARP;
        const bool keep = depth <= kChunk;
        __syncthreads(); /* what load and store read is there */
        for (int64_t first_column = 0; first_column < num_columns;
             first_column += FF_TILE_COLUMNS) {
            ff_warp_tile<FF_TILE_COLUMNS> tile;
            tile.clear();
            for (int64_t first = 0; first < depth; first += kChunk) {
                const int width = static_cast<int>(depth - first < kChunk ? depth - first : kChunk);
                if (!(keep && loaded)) {
                    __syncthreads(); /* the chunk before has been used */
                    for (int r = warp; r < FF_TILE_ROWS; r += FF_TILE_WARPS)
                        for (int k = lane; k < pitch - ff_pad<T>::value; k += FF_WARP)
                            rows[r * pitch + k] =
                                ff_from_float<T>(k < width ? load(r, first + k) : 0.0f);
                    loaded = true;
                }
                for (int k0 = 0; k0 < width; k0 += kStep) {
                    __syncthreads(); /* the weights before have been used; the rows are there */
                    for (int i = threadIdx.x; i < kStep * FF_TILE_COLUMNS; i += FF_TILE_THREADS) {
                        const int k = i / FF_TILE_COLUMNS, n = i % FF_TILE_COLUMNS;
                        const bool inside = k0 + k < width && first_column + n < num_columns;
                        step[k * kWeightPitch + n] = ff_from_float<T>(
                            inside ? weights[(first + k0 + k) * stride + first_column + n] : 0.0f);
                    }
                    __syncthreads();
                    ff_multiply(tile, rows + warp * 16 * pitch + k0, pitch, step, kWeightPitch,
                                kStep);
                }
            }
#pragma unroll
            for (int n = 0; n < FF_TILE_COLUMNS / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (first_column + tile.column(n, e) < num_columns)
                        store(warp * 16 + tile.row(e), first_column + tile.column(n, e),
                              tile.value[n][e]);
        }
    }
};

/* ---- 4. the layer norm in front ---- */

/* Where the 64 rows of a tile lie and how each is normalised, in shared memory. */
struct ff_norm_rows {
    int64_t offset[FF_TILE_ROWS]; /* of the row's first element; -1 beyond the end */
    float mean[FF_TILE_ROWS], factor[FF_TILE_ROWS];

    /* All threads, before a barrier: offsets of rows first .. first + 63 of [rows / inner, inner] positions. */
    FF_DEVICE void locate(int64_t first, int64_t num_rows, int64_t inner, int64_t stride_outer,
                          int64_t stride_inner)
    {
        for (int r = threadIdx.x; r < FF_TILE_ROWS; r += FF_TILE_THREADS) {
            const int64_t at = first + r;
            offset[r] = at < num_rows ? at / inner * stride_outer + at % inner * stride_inner : -1;
        }
    }

    /* All threads, after a barrier; another one makes the result visible. One warp per row, two passes. */
    FF_DEVICE void measure(const float *x, int64_t num_channels)
    {
        const int warp = threadIdx.x / FF_WARP, lane = threadIdx.x % FF_WARP;
        for (int r = warp; r < FF_TILE_ROWS; r += FF_TILE_WARPS) {
            if (offset[r] < 0)
                continue;
            const float *row = x + offset[r];
            float sum = 0.0f, squares = 0.0f;
            for (int64_t c = lane; c < num_channels; c += FF_WARP)
                sum += row[c];
            const float average = ff_warp_sum(sum) / static_cast<float>(num_channels);
            for (int64_t c = lane; c < num_channels; c += FF_WARP)
                squares = fmaf(row[c] - average, row[c] - average, squares);
            const float variance = ff_warp_sum(squares) / static_cast<float>(num_channels);
            if (lane == 0) {
                mean[r] = average;
                factor[r] = 1.0f / sqrtf(variance + FF_LAYER_NORM_EPSILON);
            }
        }
    }

    /* Element c of row r, normalised when scale is given; 0 beyond the end. */
    FF_DEVICE float load(const float *x, const float *scale, const float *shift, int r,
                         int64_t c) const
    {
        if (offset[r] < 0)
            return 0.0f;
        const float value = x[offset[r] + c];
        return scale == nullptr ? value : fmaf((value - mean[r]) * factor[r], scale[c], shift[c]);
    }
};

#endif
