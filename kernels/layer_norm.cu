/* layer_norm.cu - CUDA side of the table's layer_norm entries.
 *
 * forward    y = (x - mean) / sqrt(var + 1e-5) * scale + offset, biased variance
 * backward   grad_x += rstd (d - mean(d) - x^ mean(d x^)), d = grad_y scale, x^ = (x - mean) rstd;
 *            grad_scale += sum grad_y x^, grad_offset += sum grad_y, by parts of the rows in a fixed order (norm.cuh)
 *
 * Launch: one warp per row; a block's warps stride over the rows. Rows of up to 512 channels, a multiple of 4 and
 * 16-byte aligned, are read once into registers (mean, then squared differences: the two-pass formula); any other row is
 * read three times, the last two from cache. Memory bound: 8 bytes per element. */
#include "kernels/device.cuh"
#include "kernels/norm.cuh"

namespace
{

enum {
    WARPS = 4
}; /* rows in flight per block: enough blocks per SM to hide latency at few registers */

/* kVectors float4 per lane: c <= 128 kVectors, c % 4 == 0, everything aligned to 16 bytes. y may be x. */
template <int kVectors>
__global__ void __launch_bounds__(WARPS *FF_WARP)
    layer_norm_vector(float *y, const float *x, const float *scale, const float *offset,
                      int64_t rows, int c)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP; row < rows;
         row += static_cast<int64_t>(gridDim.x) * WARPS) {
        float4 value[kVectors];
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kVectors; i++) {
            const int at = (i * FF_WARP + lane) * 4;
            value[i] = at < c ? ff_load<float4>(x + row * c + at) : float4{0.0f, 0.0f, 0.0f, 0.0f};
            sum += (value[i].x + value[i].y) + (value[i].z + value[i].w);
        }
        const float mean = ff_warp_sum(sum) / static_cast<float>(c);
#pragma unroll
        for (int i = 0; i < kVectors; i++) {
            value[i].x -= mean;
            value[i].y -= mean;
            value[i].z -= mean;
            value[i].w -= mean;
            if ((i * FF_WARP + lane) * 4 < c)
                squares += (value[i].x * value[i].x + value[i].y * value[i].y) +
                           (value[i].z * value[i].z + value[i].w * value[i].w);
        }
        const float factor =
            1.0f / sqrtf(ff_warp_sum(squares) / static_cast<float>(c) + FF_LAYER_NORM_EPSILON);
#pragma unroll
        for (int i = 0; i < kVectors; i++) {
            const int at = (i * FF_WARP + lane) * 4;
            if (at >= c)
                continue;
            const float4 s = ff_load<float4>(scale + at), o = ff_load<float4>(offset + at),
                         v = value[i];
            ff_store<float4>(y + row * c + at,
                             float4{fmaf(v.x * factor, s.x, o.x), fmaf(v.y * factor, s.y, o.y),
                                    fmaf(v.z * factor, s.z, o.z), fmaf(v.w * factor, s.w, o.w)});
        }
    }
}

/* Any c. Each element is read and written by one lane, so y may be x. */
__global__ void __launch_bounds__(WARPS *FF_WARP)
    layer_norm_any(float *y, const float *x, const float *scale, const float *offset, int64_t rows,
                   int64_t c)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP; row < rows;
         row += static_cast<int64_t>(gridDim.x) * WARPS) {
        const float *from = x + row * c;
        float sum = 0.0f, squares = 0.0f;
        for (int64_t at = lane; at < c; at += FF_WARP)
            sum += from[at];
        const float mean = ff_warp_sum(sum) / static_cast<float>(c);
        for (int64_t at = lane; at < c; at += FF_WARP)
            squares = fmaf(from[at] - mean, from[at] - mean, squares);
        const float factor =
            1.0f / sqrtf(ff_warp_sum(squares) / static_cast<float>(c) + FF_LAYER_NORM_EPSILON);
        for (int64_t at = lane; at < c; at += FF_WARP)
            y[row * c + at] = fmaf((from[at] - mean) * factor, scale[at], offset[at]);
    }
}

void layer_norm_forward(float *y, const float *x, const ff_layer_norm_params *w, int64_t rows,
                        int64_t c)
{
    if (rows == 0 || c == 0)
        return;
    const unsigned grid = ff_grid_size(ff_divide_up(rows, WARPS));
    const int64_t row_bytes = c * static_cast<int64_t>(sizeof(float));
    const bool vector = c <= 512 && ff_is_aligned_16(x, row_bytes) &&
                        ff_is_aligned_16(y, row_bytes) && ff_is_aligned_16(w->scale, 0) &&
                        ff_is_aligned_16(w->offset, 0);
    const int width = static_cast<int>(c <= 512 ? c : 0);
    if (vector && c <= 128)
        FF_LAUNCH(layer_norm_vector<1>, grid, WARPS * FF_WARP, 0, y, x, w->scale, w->offset, rows,
                  width);
    else if (vector && c <= 256)
        FF_LAUNCH(layer_norm_vector<2>, grid, WARPS * FF_WARP, 0, y, x, w->scale, w->offset, rows,
                  width);
    else if (vector)
        FF_LAUNCH(layer_norm_vector<4>, grid, WARPS * FF_WARP, 0, y, x, w->scale, w->offset, rows,
                  width);
    else
        FF_LAUNCH(layer_norm_any, grid, WARPS * FF_WARP, 0, y, x, w->scale, w->offset, rows, c);
}

size_t carve_backward(float2 **stats, float **parts, int64_t rows, int64_t c, void *scratch)
{
    ff_arena arena = {static_cast<char *>(scratch), 0};
    *stats = arena.take<float2>(rows);
    *parts = arena.take<float>(ff_sum_parts_size(rows, c, 2));
    return arena.used;
}

size_t layer_norm_backward_scratch_bytes(int64_t rows, int64_t c)
{
    float2 *stats;
    float *parts;
    return carve_backward(&stats, &parts, rows, c, nullptr);
}

void layer_norm_backward(float *grad_x, const ff_layer_norm_params *grad_w, const float *grad_y,
                         const float *x, const ff_layer_norm_params *w, int64_t rows, int64_t c,
                         void *scratch)
{
    float2 *stats;
    float *parts;
    carve_backward(&stats, &parts, rows, c, scratch);
    const ff_normed normed =
        ff_measure(stats, x, ff_rows::contiguous(c), 0, rows, c, w->scale, w->offset);
    if (grad_w != nullptr)
        ff_norm_gradients(grad_w->scale, grad_w->offset, grad_y, normed, rows, c, parts);
    ff_norm_backward(grad_x, grad_y, nullptr, normed, rows, c);
}

} /* namespace */

extern "C" void FF_ENTRY(fill_layer_norm)(ff_kernels *table)
{
    table->layer_norm_forward = layer_norm_forward;
    table->layer_norm_backward = layer_norm_backward;
    table->layer_norm_backward_scratch_bytes = layer_norm_backward_scratch_bytes;
}
