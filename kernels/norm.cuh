/* norm.cuh - the layer norm in front of a product: its statistics, and its backward pass behind the product's.
 *
 *   ff_measure          mean and 1 / sqrt(var + 1e-5) of each row, 8 bytes a row; the product normalises as it loads
 *   ff_norm_backward    grad_x += d LN(x) / dx, from the gradient of LN(x) that a product left in scratch
 *   ff_norm_gradients   sums over rows for scale and offset
 *
 * One warp per row; rows are strided (ff_rows). */
#ifndef FF_KERNELS_NORM_CUH
#define FF_KERNELS_NORM_CUH

#include "kernels/matmul.cuh"

enum { FF_NORM_WARPS = 4 };

template <int kUnused>
__global__ void __launch_bounds__(FF_NORM_WARPS *FF_WARP)
    ff_measure_kernel(float2 *stats, const float *x, ff_rows at, int64_t first, int64_t rows,
                      int64_t c)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t r = static_cast<int64_t>(blockIdx.x) * FF_NORM_WARPS + threadIdx.x / FF_WARP;
         r < rows; r += static_cast<int64_t>(gridDim.x) * FF_NORM_WARPS) {
        const float *row = x + at.offset(first + r);
        float sum = 0.0f, squares = 0.0f;
        for (int64_t i = lane; i < c; i += FF_WARP)
            sum += row[i];
        const float mean = ff_warp_sum(sum) / static_cast<float>(c);
        for (int64_t i = lane; i < c; i += FF_WARP)
            squares = fmaf(row[i] - mean, row[i] - mean, squares);
        const float variance = ff_warp_sum(squares) / static_cast<float>(c);
        if (lane == 0)
            stats[r] = float2{mean, 1.0f / sqrtf(variance + FF_LAYER_NORM_EPSILON)};
    }
}

/* Statistics of rows first .. first + rows - 1, and the rows as an operand. */
static inline ff_normed ff_measure(float2 *stats, const float *x, const ff_rows &at, int64_t first,
                                   int64_t rows, int64_t c, const float *scale, const float *shift)
{
    if (scale != nullptr && rows > 0 && c > 0)
        FF_LAUNCH(ff_measure_kernel<0>, ff_grid_size(ff_divide_up(rows, FF_NORM_WARPS)),
                  FF_NORM_WARPS * FF_WARP, 0, stats, x, at, first, rows, c);
    return {x, at, stats, scale, shift, first};
}

/* grad_y [rows, c] is the gradient of the normalised rows; added (NULL = none) is added to grad_x as it is. */
template <int kUnused>
__global__ void __launch_bounds__(FF_NORM_WARPS *FF_WARP)
    ff_norm_backward_kernel(float *grad_x, const float *grad_y, const float *added, ff_normed x,
                            int64_t rows, int64_t c)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t r = static_cast<int64_t>(blockIdx.x) * FF_NORM_WARPS + threadIdx.x / FF_WARP;
         r < rows; r += static_cast<int64_t>(gridDim.x) * FF_NORM_WARPS) {
        const float *dy = grad_y + r * c;
        const int64_t at = x.rows.offset(x.first + r);
        float sum = 0.0f, dot = 0.0f;
        if (x.scale != nullptr) {
            for (int64_t i = lane; i < c; i += FF_WARP) {
                const float d = dy[i] * x.scale[i];
                sum += d;
                dot = fmaf(d, x.hat(r, i), dot);
            }
            sum = ff_warp_sum(sum) / static_cast<float>(c);
            dot = ff_warp_sum(dot) / static_cast<float>(c);
        }
        for (int64_t i = lane; i < c; i += FF_WARP) {
            float d = dy[i];
            if (x.scale != nullptr)
                d = x.stats[r].y * (d * x.scale[i] - sum - x.hat(r, i) * dot);
            grad_x[at + i] += added == nullptr ? d : d + added[at + i];
        }
    }
}

static inline void ff_norm_backward(float *grad_x, const float *grad_y, const float *added,
                                    const ff_normed &x, int64_t rows, int64_t c)
{
    if (rows > 0 && c > 0)
        FF_LAUNCH(ff_norm_backward_kernel<0>, ff_grid_size(ff_divide_up(rows, FF_NORM_WARPS)),
                  FF_NORM_WARPS * FF_WARP, 0, grad_x, grad_y, added, x, rows, c);
}

struct ff_norm_products {
    static constexpr int kValues = 2;
    const float *grad_y;
    ff_normed x;
    int64_t c;

    FF_DEVICE void values(int64_t r, int64_t i, float (&v)[2]) const
    {
        v[1] = grad_y[r * c + i];
        v[0] = v[1] * x.hat(r, i);
    }
};

/* scale += sum dy x^, offset += sum dy; parts hold ff_sum_parts_size(rows, c, 2) floats. */
static inline void ff_norm_gradients(float *scale, float *offset, const float *grad_y,
                                     const ff_normed &x, int64_t rows, int64_t c, float *parts)
{
    ff_reduce_target target = {};
    target.add(scale, c, c);
    target.add(offset, c, c);
    ff_column_sums(target, ff_norm_products{grad_y, x, c}, rows, c, parts);
}

#endif
