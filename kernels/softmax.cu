/* softmax.cu - CUDA side of the table's softmax entries.
 *
 * forward    y[b, h, q, :] = softmax over keys of x[b, h, q, :] + bias[h, q, :], FF_MASKED_LOGIT where mask[b, :] is 0
 * backward   grad_x += y (grad_y - sum grad_y y), 0 where masked; grad_bias += its sum over b
 *
 * A row without any key left gives 1 / num_key everywhere. Launch: one warp per row; a block's warps stride over the rows.
 * Up to 512 keys the row stays in registers; longer ones are read twice, with the maximum and the sum kept together in
 * the first pass. Memory bound: 8 bytes per element plus the bias, which all b share. */
#include "kernels/device.cuh"

namespace
{

enum { WARPS = 4 };

struct Arguments {
    const float *x, *mask, *bias; /* mask, bias may be NULL */
    float *y;
    int64_t num_row, num_head, num_query, num_key;
};

/* Where a row's bias and mask lie. */
struct Row {
    const float *x, *mask, *bias;

    FF_DEVICE Row(const Arguments &a, int64_t row)
    {
        const int64_t head_query = a.num_head * a.num_query;
        x = a.x + row * a.num_key;
        mask = a.mask == nullptr ? nullptr : a.mask + row / head_query * a.num_key;
        bias = a.bias == nullptr ? nullptr : a.bias + row % head_query * a.num_key;
    }

    FF_DEVICE float logit(int64_t key) const
    {
        if (mask != nullptr && mask[key] == 0.0f)
            return FF_MASKED_LOGIT;
        return bias == nullptr ? x[key] : x[key] + bias[key];
    }
};

/* num_key <= 32 kValues. Each element is read and written by one lane, so y may be x. */
template <int kValues>
__global__ void __launch_bounds__(WARPS *FF_WARP) softmax_registers(Arguments a)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP;
         row < a.num_row; row += static_cast<int64_t>(gridDim.x) * WARPS) {
        const Row from(a, row);
        float value[kValues], maximum = -INFINITY, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kValues; i++) {
            const int key = i * FF_WARP + lane;
            value[i] = key < a.num_key ? from.logit(key) : -INFINITY;
            maximum = fmaxf(maximum, value[i]);
        }
        maximum = ff_warp_max(maximum);
#pragma unroll
        for (int i = 0; i < kValues; i++) {
            value[i] = expf(value[i] - maximum);
            sum += value[i];
        }
        const float factor = 1.0f / ff_warp_sum(sum);
#pragma unroll
        for (int i = 0; i < kValues; i++) {
            const int key = i * FF_WARP + lane;
            if (key < a.num_key)
                a.y[row * a.num_key + key] = value[i] * factor;
        }
    }
}

__global__ void __launch_bounds__(WARPS *FF_WARP) softmax_any(Arguments a)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP;
         row < a.num_row; row += static_cast<int64_t>(gridDim.x) * WARPS) {
        const Row from(a, row);
        float own_maximum = -INFINITY, sum = 0.0f;
        for (int64_t key = lane; key < a.num_key; key += FF_WARP) {
            const float value = from.logit(key), larger = fmaxf(own_maximum, value);
            sum = fmaf(sum, expf(own_maximum - larger), expf(value - larger));
            own_maximum = larger;
        }
        const float maximum = ff_warp_max(own_maximum);
        const float factor = 1.0f / ff_warp_sum(sum * expf(own_maximum - maximum));
        for (int64_t key = lane; key < a.num_key; key += FF_WARP)
            a.y[row * a.num_key + key] = expf(from.logit(key) - maximum) * factor;
    }
}

void softmax_forward(float *y, const float *x, const float *mask, const float *bias, int64_t batch,
                     int64_t num_head, int64_t num_query, int64_t num_key)
{
    const Arguments a = {x,        mask,      bias,   y, batch * num_head * num_query,
                         num_head, num_query, num_key};
    if (a.num_row == 0 || num_key == 0)
        return;
    const unsigned grid = ff_grid_size(ff_divide_up(a.num_row, WARPS));
    if (num_key <= 4 * FF_WARP)
        FF_LAUNCH(softmax_registers<4>, grid, WARPS * FF_WARP, 0, a);
    else if (num_key <= 16 * FF_WARP)
        FF_LAUNCH(softmax_registers<16>, grid, WARPS * FF_WARP, 0, a);
    else
        FF_LAUNCH(softmax_any, grid, WARPS * FF_WARP, 0, a);
}

/* One warp per (head, query): it owns its row of grad_bias for all b, and adds them in order. */
__global__ void __launch_bounds__(WARPS *FF_WARP)
    softmax_backward_rows(float *grad_x, float *grad_bias, const float *grad_y, const float *y,
                          const float *mask, int64_t batch, int64_t num_row, int64_t num_key)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP;
         row < num_row; row += static_cast<int64_t>(gridDim.x) * WARPS)
        for (int64_t b = 0; b < batch; b++) {
            const int64_t at = (b * num_row + row) * num_key;
            float dot = 0.0f;
            for (int64_t k = lane; k < num_key; k += FF_WARP)
                dot = fmaf(y[at + k], grad_y[at + k], dot);
            dot = ff_warp_sum(dot);
            for (int64_t k = lane; k < num_key; k += FF_WARP) {
                if (mask != nullptr && mask[b * num_key + k] == 0.0f)
                    continue;
                const float d = y[at + k] * (grad_y[at + k] - dot);
                grad_x[at + k] += d;
                if (grad_bias != nullptr)
                    grad_bias[row * num_key + k] += d;
            }
        }
}

void softmax_backward(float *grad_x, float *grad_bias, const float *grad_y, const float *y,
                      const float *mask, int64_t batch, int64_t num_head, int64_t num_query,
                      int64_t num_key)
{
    const int64_t num_row = num_head * num_query;
    if (batch > 0 && num_row > 0 && num_key > 0)
        FF_LAUNCH(softmax_backward_rows, ff_grid_size(ff_divide_up(num_row, WARPS)),
                  WARPS * FF_WARP, 0, grad_x, grad_bias, grad_y, y, mask, batch, num_row, num_key);
}

} /* namespace */

extern "C" void FF_ENTRY(fill_softmax)(ff_kernels *table)
{
    table->softmax_forward = softmax_forward;
    table->softmax_backward = softmax_backward;
}
