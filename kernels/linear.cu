/* linear.cu - CUDA side of the table's linear entries.
 *
 * forward    y (=, +=) x W + b, through relu when asked      2 rows num_input num_output FLOP
 * backward   grad_x += grad_y W^T; grad_W += x^T grad_y; grad_b += sum of grad_y's rows
 *
 * One tiled product each (matmul.cuh); the weight gradient is cut along the rows, and its parts are added in order. */
#include "kernels/matmul.cuh"

namespace
{

struct Forward : ff_matmul_traits {
    float *y;
    const float *x;
    ff_linear_params w;
    int64_t num_input, num_output;
    bool relu, accumulate;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return x[r * num_input + k]; }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return w.weights[k * num_output + n];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        float result = value[0] + (w.bias == nullptr ? 0.0f : w.bias[n]);
        if (accumulate)
            result += y[r * num_output + n];
        y[r * num_output + n] = relu ? fmaxf(result, 0.0f) : result;
    }
};

struct InputGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    float *grad_x;
    const float *grad_y, *weights;
    int64_t num_input, num_output;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return grad_y[r * num_output + k];
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return weights[n * num_output + k];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_x[r * num_input + n] += value[0];
    }
};

template <class T>
void linear_forward(float *y, const float *x, const ff_linear_params *w, int64_t rows,
                    int64_t num_input, int64_t num_output, bool relu, bool accumulate, void *)
{
    Forward p;
    p.y = y;
    p.x = x;
    p.w = *w;
    p.num_input = num_input;
    p.num_output = num_output;
    p.relu = relu;
    p.accumulate = accumulate;
    ff_matmul<T>(p, 1, rows, num_output, num_input);
}

template <class T>
void linear_backward(float *grad_x, const ff_linear_params *grad_w, const float *grad_y,
                     const float *x, const ff_linear_params *w, int64_t rows, int64_t num_input,
                     int64_t num_output, void *scratch)
{
    if (grad_x != nullptr) {
        InputGradient p;
        p.grad_x = grad_x;
        p.grad_y = grad_y;
        p.weights = w->weights;
        p.num_input = num_input;
        p.num_output = num_output;
        ff_matmul<T>(p, 1, rows, num_input, num_output);
    }
    if (grad_w == nullptr)
        return;
    float *parts = static_cast<float *>(scratch);
    const ff_matrix<float> dy = {grad_y, num_output};
    ff_reduce_target weights = {}, bias = {};
    weights.add(grad_w->weights, num_output, num_output);
    bias.add(grad_w->bias, num_output, num_output);
    ff_weight_gradient<T>(weights, ff_matrix<float>{x, num_input}, dy, num_input, num_output, rows,
                          parts);
    if (grad_w->bias != nullptr)
        ff_column_sums(bias, dy, rows, num_output, parts);
}

size_t linear_scratch_bytes(int64_t rows, int64_t num_input, int64_t num_output)
{
    const int64_t floats = ff_max(ff_parts_size(num_input, num_output, rows),
                                  ff_sum_parts_size(rows, num_output, 1));
    return static_cast<size_t>(floats) * sizeof(float);
}

template <class T>
void fill(ff_kernels *table)
{
    table->linear_forward = linear_forward<T>;
    table->linear_backward = linear_backward<T>;
    table->linear_scratch_bytes = linear_scratch_bytes;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_linear)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
