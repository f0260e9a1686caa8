/* matmul.cuh - one tiled matrix product for all families: what is multiplied and what becomes of it are functors.
 *
 * Contents
 *   1. ff_arena: scratch by parts
 *   2. ff_rows: rows of a strided array; ff_normed: such rows through their layer norm
 *   3. ff_matmul: the product
 *   4. sums over rows in a fixed order: ff_weight_gradient, ff_column_sums, ff_reduce
 *   5. ff_for_each
 *
 * A problem is a struct P, copied to the kernel:
 *   kPhases, kPairs, kLeftDeep, kRightDeep          see ff_matmul_traits
 *   float left(phase, z, row, k), right(phase, z, k, column)
 *   void store(z, row, column, value)               value[kPhases], or value[kPhases][2] with kPairs
 * z counts products of a batch. Layer norm, gates, masks and transpositions happen while operands are fetched; bias, gate,
 * dropout and residual while the tile of sums is in registers. Loads of a step are in flight while the step before is
 * multiplied. */
#ifndef FF_KERNELS_MATMUL_CUH
#define FF_KERNELS_MATMUL_CUH

#include "kernels/device.cuh"
#include "kernels/tile.cuh"

/* ---- 1. scratch ---- */

/* Counts bytes when base is NULL, hands them out otherwise: one carve function gives both size and pointers. */
struct ff_arena {
    char *base;
    size_t used;

    template <class T>
    T *take(int64_t count)
    {
        T *at = base == nullptr ? nullptr : reinterpret_cast<T *>(base + used);
        used += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
        return at;
    }
};

/* Rows handled at a time by backward passes that keep wide rows in scratch. */
constexpr int64_t FF_ROW_CHUNK = 1 << 16;

static inline int64_t ff_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ff_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- 2. rows ---- */

/* Row r of [rows / inner, inner] positions lies at r / inner * stride_outer + r % inner * stride_inner. */
struct ff_rows {
    int64_t inner, stride_outer, stride_inner;
    bool flat; /* one stride for all rows */

    static ff_rows make(int64_t inner, int64_t stride_outer, int64_t stride_inner)
    {
        return {inner, stride_outer, stride_inner, stride_outer == inner * stride_inner};
    }

    static ff_rows contiguous(int64_t width) { return {1, width, 0, false}; }

    FF_DEVICE int64_t offset(int64_t r) const
    {
        if (flat)
            return r * stride_inner;
        if (inner == 1)
            return r * stride_outer;
        if (static_cast<uint64_t>(r) >> 32 == 0 && static_cast<uint64_t>(inner) >> 32 == 0) {
            const uint32_t row = static_cast<uint32_t>(r), in = static_cast<uint32_t>(inner);
            return row / in * stride_outer + row % in * stride_inner;
        }
        return r / inner * stride_outer + r % inner * stride_inner;
    }
};

/* Rows through their layer norm: stats hold mean and 1 / sqrt(var + eps) of each row; scale NULL = rows as they are. */
struct ff_normed {
    const float *x;
    ff_rows rows;
    const float2 *stats;
    const float *scale, *shift;
    int64_t first; /* row 0 here is row `first` of x; stats start at row 0 */

    FF_DEVICE float hat(int64_t r, int64_t c) const
    {
        const float2 s = stats[r];
        return (x[rows.offset(first + r) + c] - s.x) * s.y;
    }

    FF_DEVICE float value(int64_t r, int64_t c) const
    {
        if (scale == nullptr)
            return x[rows.offset(first + r) + c];
        return fmaf(hat(r, c), scale[c], shift[c]);
    }
};

/* ---- 3. the product ---- */

struct ff_matmul_shape {
    int64_t batch, rows, columns, depth[2]; /* of each phase */
    int64_t splits; /* the depth in so many parts, each a product of its own (then batch is 1, and z the part) */
};

/* What most problems have; a problem overrides what differs. */
struct ff_matmul_traits {
    static constexpr int kPhases = 1;         /* products that share one tile of results */
    static constexpr bool kPairs = false;     /* store gets columns 2n and 2n + 1 together */
    /* by phase: left's neighbours in memory are neighbours in k, else in the row; right's in k, else in the column */
    static constexpr bool kLeftDeep = true, kLeftDeep1 = true;
    static constexpr bool kRightDeep = false, kRightDeep1 = false;
    static constexpr bool kStoreRows = false; /* results' neighbours in memory are neighbours in the row */
};

enum { FF_RESULT_PITCH = FF_TILE_COLUMNS + 1 };

template <class T>
struct ff_matmul_tiles {
    static constexpr int kStep = 32;
    static constexpr int kLeftPitch = kStep + ff_pad<T>::value;
    static constexpr int kRightPitch = FF_TILE_COLUMNS + ff_pad<T>::value; /* [kStep][64] */
    static constexpr int kRightPitchDeep = kLeftPitch;                     /* [64][kStep] */
    static constexpr size_t kBytes = sizeof(T) * 2 * FF_TILE_ROWS * kLeftPitch;
    static_assert(kStep * kRightPitch <= FF_TILE_COLUMNS * kRightPitchDeep, "one room for both");
    static constexpr int kResults = FF_TILE_ROWS * FF_RESULT_PITCH; /* floats of a phase's results */
    static constexpr size_t bytes(int phases)
    {
        return kBytes > phases * kResults * sizeof(float) ? kBytes
                                                          : phases * kResults * sizeof(float);
    }
    static constexpr int kEach = FF_TILE_ROWS * kStep / FF_TILE_THREADS; /* elements per thread */
};

/* Element i of a thread's share of a tile [64, kStep]: its place along the 64 and along the depth. */
template <bool kDeep>
FF_DEVICE void ff_matmul_place(int i, int &wide, int &deep)
{
    const int at = i * FF_TILE_THREADS + threadIdx.x;
    wide = kDeep ? at / 32 : at % 64;
    deep = kDeep ? at % 32 : at / 64;
}

/* tile += rows first_row .. + 63 of left times columns first_column .. + 63 of right, over this split's part of the depth. */
template <class T, int kPhase, class P>
FF_DEVICE void ff_matmul_phase(ff_warp_tile<FF_TILE_COLUMNS> &tile, const P &p, int64_t z,
                               const ff_matmul_shape &s, int64_t first_row, int64_t first_column,
                               T *left, T *right)
{
    typedef ff_matmul_tiles<T> Tiles;
    constexpr bool kLeftDeep = kPhase == 0 ? P::kLeftDeep : P::kLeftDeep1;
    constexpr bool kRightDeep = kPhase == 0 ? P::kRightDeep : P::kRightDeep1;
    constexpr int kRightPitch = kRightDeep ? Tiles::kRightPitchDeep : Tiles::kRightPitch;
    int64_t from = 0, to = s.depth[kPhase];
    if (s.splits > 1) {
        const int64_t unit = s.splits * Tiles::kStep, part = (to + unit - 1) / unit * Tiles::kStep;
        from = z * part < to ? z * part : to;
        to = from + part < to ? from + part : to;
    }
    T l[Tiles::kEach], r[Tiles::kEach];
    auto fetch = [&](int64_t k0) {
#pragma unroll
        for (int i = 0; i < Tiles::kEach; i++) {
            int wide, deep;
            ff_matmul_place<kLeftDeep>(i, wide, deep);
            const bool inside = first_row + wide < s.rows && k0 + deep < to;
            l[i] = ff_from_float<T>(inside ? p.left(kPhase, z, first_row + wide, k0 + deep) : 0.0f);
        }
#pragma unroll
        for (int i = 0; i < Tiles::kEach; i++) {
            int wide, deep;
            ff_matmul_place<kRightDeep>(i, wide, deep);
            const bool inside = first_column + wide < s.columns && k0 + deep < to;
            r[i] = ff_from_float<T>(inside ? p.right(kPhase, z, k0 + deep, first_column + wide)
                                           : 0.0f);
        }
    };
    if (from < to)
        fetch(from);
    for (int64_t k0 = from; k0 < to; k0 += Tiles::kStep) {
        __syncthreads(); /* the step before has been used */
#pragma unroll
        for (int i = 0; i < Tiles::kEach; i++) {
            int wide, deep;
            ff_matmul_place<kLeftDeep>(i, wide, deep);
            left[wide * Tiles::kLeftPitch + deep] = l[i];
            ff_matmul_place<kRightDeep>(i, wide, deep);
            right[kRightDeep ? wide * kRightPitch + deep : deep * kRightPitch + wide] = r[i];
        }
        __syncthreads();
        if (k0 + Tiles::kStep < to)
            fetch(k0 + Tiles::kStep);
        const T *own = left + threadIdx.x / FF_WARP * 16 * Tiles::kLeftPitch;
        if (kRightDeep)
            ff_multiply_transposed(tile, own, Tiles::kLeftPitch, right, kRightPitch, Tiles::kStep);
        else
            ff_multiply(tile, own, Tiles::kLeftPitch, right, kRightPitch, Tiles::kStep);
    }
}

/* A warp's part of the results into shared memory: [row][column], or [column][row] when rows are neighbours in memory. */
template <bool kRows>
FF_DEVICE void ff_matmul_put(const ff_warp_tile<FF_TILE_COLUMNS> &tile, float *results)
{
    const int first_row = threadIdx.x / FF_WARP * 16;
#pragma unroll
    for (int n = 0; n < FF_TILE_COLUMNS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int row = first_row + tile.row(e), column = tile.column(n, e);
            results[kRows ? column * FF_RESULT_PITCH + row : row * FF_RESULT_PITCH + column] =
                tile.value[n][e];
        }
}

/* The results of a tile to the problem's store, neighbouring threads on neighbours in memory. */
template <class P>
FF_DEVICE void ff_matmul_store(const P &p, const float *results, int64_t z, int64_t first_row,
                               int64_t first_column, const ff_matmul_shape &s)
{
    constexpr int kGroup = P::kPairs ? 2 : 1, kWide = FF_TILE_COLUMNS / kGroup;
#pragma unroll 2
    for (int i = threadIdx.x; i < FF_TILE_ROWS * kWide; i += FF_TILE_THREADS) {
        const int r = P::kStoreRows ? i % FF_TILE_ROWS : i / kWide;
        const int c = (P::kStoreRows ? i / FF_TILE_ROWS : i % kWide) * kGroup;
        if (first_row + r >= s.rows || first_column + c >= s.columns)
            continue;
        auto result = [&](int phase, int e) {
            const float *from = results + phase * FF_TILE_ROWS * FF_RESULT_PITCH;
            return P::kStoreRows ? from[(c + e) * FF_RESULT_PITCH + r]
                                 : from[r * FF_RESULT_PITCH + c + e];
        };
        if constexpr (P::kPairs) {
            float value[P::kPhases][2];
#pragma unroll
            for (int phase = 0; phase < P::kPhases; phase++) {
                value[phase][0] = result(phase, 0);
                value[phase][1] = result(phase, 1);
            }
            p.store(z, first_row + r, first_column + c, value);
        } else {
            float value[P::kPhases];
#pragma unroll
            for (int phase = 0; phase < P::kPhases; phase++)
                value[phase] = result(phase, 0);
            p.store(z, first_row + r, first_column + c, value);
        }
    }
}

/* One block: tiles of 64 x 64 results, columns first, so that blocks that run together share their rows. */
template <class T, class P>
__global__ void __launch_bounds__(FF_TILE_THREADS) ff_matmul_kernel(P p, ff_matmul_shape s)
{
    typedef ff_matmul_tiles<T> Tiles;
    FF_SHARED(T, left);
    T *right = left + FF_TILE_ROWS * Tiles::kLeftPitch;
    const int64_t column_tiles = (s.columns + FF_TILE_COLUMNS - 1) / FF_TILE_COLUMNS,
                  row_tiles = (s.rows + FF_TILE_ROWS - 1) / FF_TILE_ROWS;
    const int64_t tasks = column_tiles * row_tiles * (s.splits > 1 ? s.splits : s.batch);
    for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        const int64_t first_column = task % column_tiles * FF_TILE_COLUMNS;
        const int64_t first_row = task / column_tiles % row_tiles * FF_TILE_ROWS;
        const int64_t z = task / (column_tiles * row_tiles);
        ff_warp_tile<FF_TILE_COLUMNS> tile[P::kPhases];
#pragma unroll
        for (int phase = 0; phase < P::kPhases; phase++)
            tile[phase].clear();
        ff_matmul_phase<T, 0>(tile[0], p, z, s, first_row, first_column, left, right);
        if constexpr (P::kPhases > 1)
            ff_matmul_phase<T, 1>(tile[1], p, z, s, first_row, first_column, left, right);
        float *results = reinterpret_cast<float *>(left);
        __syncthreads(); /* the last step has been used: results take its room */
#pragma unroll
        for (int phase = 0; phase < P::kPhases; phase++)
            ff_matmul_put<P::kStoreRows>(tile[phase], results + phase * Tiles::kResults);
        __syncthreads();
        ff_matmul_store(p, results, z, first_row, first_column, s);
        __syncthreads(); /* the next task's operands take the room of the results */
    }
}

/* Runs a problem; an empty depth stores sums of nothing. */
template <class T, class P>
void ff_matmul(const P &p, int64_t batch, int64_t rows, int64_t columns, int64_t depth,
               int64_t depth1 = 0)
{
    const ff_matmul_shape s = {batch, rows, columns, {depth, depth1}, 1};
    const int64_t tiles =
        ff_divide_up(rows, FF_TILE_ROWS) * ff_divide_up(columns, FF_TILE_COLUMNS) * batch;
    if (tiles > 0)
        FF_LAUNCH((ff_matmul_kernel<T, P>), ff_grid_size(tiles), FF_TILE_THREADS,
                  ff_matmul_tiles<T>::bytes(P::kPhases), p, s);
}

/* ---- 4. sums over rows in a fixed order ---- */

/* Columns first .. first + width - 1 of a matrix of sums are added to `to`: element (m, n) to m * stride + n - first. */
struct ff_reduce_segment {
    float *to; /* NULL = not wanted */
    int64_t stride, first, width;
    float factor;
};

enum { FF_REDUCE_SEGMENTS = 5 };

struct ff_reduce_target {
    ff_reduce_segment segments[FF_REDUCE_SEGMENTS];
    int num_segments;

    void add(float *to, int64_t stride, int64_t width, float factor = 1.0f)
    {
        const int64_t first = num_segments == 0 ? 0
                                                : segments[num_segments - 1].first +
                                                      segments[num_segments - 1].width;
        segments[num_segments++] = {to, stride, first, width, factor};
    }
};

/* One thread per element; parts are added in their order, so the result does not depend on which block was first. */
template <int kUnused>
__global__ void ff_reduce_kernel(ff_reduce_target target, const float *parts, int64_t num_parts,
                                 int64_t rows, int64_t columns)
{
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < rows * columns; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
        float sum = 0.0f;
        for (int64_t s = 0; s < num_parts; s++)
            sum += parts[s * rows * columns + i];
        const int64_t m = i / columns, n = i % columns;
        for (int t = 0; t < target.num_segments; t++) {
            const ff_reduce_segment &g = target.segments[t];
            if (n >= g.first && n < g.first + g.width && g.to != nullptr)
                g.to[m * g.stride + n - g.first] += sum * g.factor;
        }
    }
}

static inline void ff_reduce(const ff_reduce_target &target, const float *parts, int64_t num_parts,
                             int64_t rows, int64_t columns)
{
    if (rows * columns > 0)
        FF_LAUNCH(ff_reduce_kernel<0>, ff_grid_size(ff_divide_up(rows * columns, 256)), 256, 0,
                  target, parts, num_parts, rows, columns);
}

/* In how many parts the depth of a product of few tiles is cut, so that it fills a GPU. */
static inline int64_t ff_num_splits(int64_t rows, int64_t columns, int64_t depth)
{
    const int64_t tiles = ff_max(1, ff_divide_up(rows, FF_TILE_ROWS) * ff_divide_up(columns, FF_TILE_COLUMNS));
    return ff_max(1, ff_min(ff_divide_up(512, tiles), ff_divide_up(depth, 512)));
}

static inline int64_t ff_parts_size(int64_t rows, int64_t columns, int64_t depth)
{
    return ff_num_splits(rows, columns, depth) * rows * columns;
}

/* sums[m, n] = sum_r x(r, m) y(r, n); X, Y have float value(r, column). parts hold ff_parts_size floats. */
template <class X, class Y>
struct ff_weight_problem : ff_matmul_traits {
    static constexpr bool kLeftDeep = false;
    X x;
    Y y;
    float *parts;
    int64_t rows, columns;

    FF_DEVICE float left(int, int64_t, int64_t m, int64_t r) const { return x.value(r, m); }
    FF_DEVICE float right(int, int64_t, int64_t r, int64_t n) const { return y.value(r, n); }
    FF_DEVICE void store(int64_t z, int64_t m, int64_t n, const float (&value)[1]) const
    {
        parts[(z * rows + m) * columns + n] = value[0];
    }
};

template <class T, class X, class Y>
void ff_weight_gradient(const ff_reduce_target &target, const X &x, const Y &y, int64_t rows,
                        int64_t columns, int64_t depth, float *parts)
{
    if (rows * columns == 0 || depth == 0)
        return;
    typedef ff_weight_problem<X, Y> P;
    P p;
    p.x = x;
    p.y = y;
    p.parts = parts;
    p.rows = rows;
    p.columns = columns;
    const int64_t splits = ff_num_splits(rows, columns, depth);
    const ff_matmul_shape s = {1, rows, columns, {depth, 0}, splits};
    const int64_t tiles =
        ff_divide_up(rows, FF_TILE_ROWS) * ff_divide_up(columns, FF_TILE_COLUMNS) * splits;
    FF_LAUNCH((ff_matmul_kernel<T, P>), ff_grid_size(tiles), FF_TILE_THREADS,
              ff_matmul_tiles<T>::bytes(P::kPhases), p, s);
    ff_reduce(target, parts, splits, rows, columns);
}

/* parts[part, v, c] = sums over the part's rows r of y.values(r, c)[v]. One block: 32 columns, 8 rows at a time. */
enum { FF_SUM_ROWS = 8, FF_SUM_PART = 1024, FF_SUM_PARTS = 256 };

template <class Y>
__global__ void __launch_bounds__(FF_SUM_ROWS *FF_WARP)
    ff_column_sums_kernel(Y y, float *parts, int64_t rows, int64_t columns, int64_t num_parts)
{
    FF_SHARED(float, shared); /* [FF_SUM_ROWS][kValues][32] */
    const int lane = threadIdx.x % FF_WARP, warp = threadIdx.x / FF_WARP;
    const int64_t column_tiles = (columns + FF_WARP - 1) / FF_WARP;
    const int64_t c = blockIdx.x % column_tiles * FF_WARP + lane, part = blockIdx.x / column_tiles;
    const int64_t each = (rows + num_parts - 1) / num_parts;
    const int64_t end = (part + 1) * each < rows ? (part + 1) * each : rows;
    float sum[Y::kValues];
#pragma unroll
    for (int v = 0; v < Y::kValues; v++)
        sum[v] = 0.0f;
    for (int64_t r = part * each + warp; r < end && c < columns; r += FF_SUM_ROWS) {
        float value[Y::kValues];
        y.values(r, c, value);
#pragma unroll
        for (int v = 0; v < Y::kValues; v++)
            sum[v] += value[v];
    }
#pragma unroll
    for (int v = 0; v < Y::kValues; v++)
        shared[(warp * Y::kValues + v) * FF_WARP + lane] = sum[v];
    __syncthreads();
    if (warp >= Y::kValues || c >= columns)
        return;
    float total = 0.0f;
    for (int w = 0; w < FF_SUM_ROWS; w++)
        total += shared[(w * Y::kValues + warp) * FF_WARP + lane];
    parts[(part * Y::kValues + warp) * columns + c] = total;
}

static inline int64_t ff_sum_parts(int64_t rows)
{
    return ff_max(1, ff_min(FF_SUM_PARTS, ff_divide_up(rows, FF_SUM_PART)));
}

static inline int64_t ff_sum_parts_size(int64_t rows, int64_t columns, int num_values)
{
    return ff_sum_parts(rows) * columns * num_values;
}

/* target's segments are columns of [1, kValues * columns]. */
template <class Y>
void ff_column_sums(const ff_reduce_target &target, const Y &y, int64_t rows, int64_t columns,
                    float *parts)
{
    if (rows == 0 || columns == 0)
        return;
    const int64_t num_parts = ff_sum_parts(rows);
    FF_LAUNCH((ff_column_sums_kernel<Y>),
              static_cast<unsigned>(num_parts * ff_divide_up(columns, FF_WARP)),
              FF_SUM_ROWS * FF_WARP, sizeof(float) * FF_SUM_ROWS * FF_WARP * Y::kValues, y, parts,
              rows, columns, num_parts);
    ff_reduce(target, parts, num_parts, 1, Y::kValues * columns);
}

/* A contiguous matrix as an operand of ff_weight_gradient and ff_column_sums. */
template <class T>
struct ff_matrix {
    static constexpr int kValues = 1;
    const T *data;
    int64_t stride;

    FF_DEVICE float value(int64_t r, int64_t c) const { return ff_to_float(data[r * stride + c]); }
    FF_DEVICE void values(int64_t r, int64_t c, float (&v)[1]) const { v[0] = value(r, c); }
};

/* ---- 5. elements ---- */

template <class P>
__global__ void __launch_bounds__(256) ff_for_each_kernel(P p, int64_t n)
{
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += static_cast<int64_t>(gridDim.x) * blockDim.x)
        p(i);
}

/* p(i) for all i < n, one thread each. */
template <class P>
void ff_for_each(const P &p, int64_t n)
{
    if (n > 0)
        FF_LAUNCH(ff_for_each_kernel<P>, ff_grid_size(ff_divide_up(n, 256)), 256, 0, p, n);
}

FF_DEVICE float ff_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

#endif
