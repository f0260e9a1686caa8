/* elementwise.cu - CUDA side of bias_dropout_residual, sigmoid_gate, dropout_mask, add_scaled and transpose.
 *
 * One thread per element (dropout_mask: per block of four random numbers) in a grid-stride loop: neighbouring threads touch
 * neighbouring elements, so whole 32-byte sectors move and no byte moves twice. All bound by memory. */
#include "kernels/matmul.cuh"

namespace
{

struct BiasDropoutResidual {
    float *out;
    const float *x, *bias, *dropout, *residual;
    int64_t period, c;

    FF_DEVICE void operator()(int64_t i) const
    {
        float value = x[i];
        if (bias != nullptr)
            value += bias[i % c];
        if (dropout != nullptr)
            value *= dropout[i % (period * c)];
        out[i] = residual == nullptr ? value : residual[i] + value;
    }
};

void bias_dropout_residual(float *out, const float *x, const float *bias, const float *dropout,
                           const float *residual, int64_t rows, int64_t period, int64_t c)
{
    ff_for_each(BiasDropoutResidual{out, x, bias, dropout, residual, period, c}, rows * c);
}

struct SigmoidGate {
    float *out;
    const float *x, *gate, *bias;
    int64_t c;

    FF_DEVICE void operator()(int64_t i) const
    {
        out[i] = x[i] * ff_sigmoid(bias == nullptr ? gate[i] : gate[i] + bias[i % c]);
    }
};

void sigmoid_gate_forward(float *out, const float *x, const float *gate, const float *gate_bias,
                          int64_t rows, int64_t c)
{
    ff_for_each(SigmoidGate{out, x, gate, gate_bias, c}, rows * c);
}

/* Gradients of x and gate; with `sums` the one of the bias comes from one thread per channel, in the order of rows. */
struct SigmoidGateBackward {
    float *grad_x, *grad_gate, *sums;
    const float *grad_out, *x, *gate, *bias;
    int64_t rows, c;

    FF_DEVICE float gate_gradient(int64_t i, int64_t channel, float &s) const
    {
        s = ff_sigmoid(bias == nullptr ? gate[i] : gate[i] + bias[channel]);
        return grad_out[i] * x[i] * s * (1.0f - s);
    }
    FF_DEVICE void operator()(int64_t i) const
    {
        float s;
        if (sums != nullptr) {
            float sum = 0.0f;
            for (int64_t r = 0; r < rows; r++)
                sum += gate_gradient(r * c + i, i, s);
            sums[i] += sum;
            return;
        }
        grad_gate[i] += gate_gradient(i, i % c, s);
        grad_x[i] += grad_out[i] * s;
    }
};

void sigmoid_gate_backward(float *grad_x, float *grad_gate, float *grad_gate_bias,
                           const float *grad_out, const float *x, const float *gate,
                           const float *gate_bias, int64_t rows, int64_t c)
{
    SigmoidGateBackward p = {grad_x, grad_gate, grad_gate_bias, grad_out, x,
                             gate,   gate_bias, rows,           c};
    if (grad_gate_bias != nullptr)
        ff_for_each(p, c);
    p.sums = nullptr;
    ff_for_each(p, rows * c);
}

/* Philox4x32-10 as in core/random.c: thread i makes the four numbers of block first / 4 + i. */
struct DropoutMask {
    float *mask;
    ff_random_key key;
    float rate, keep;
    int64_t first, n;

    FF_DEVICE void operator()(int64_t i) const
    {
        const uint64_t block = static_cast<uint64_t>(first / 4 + i);
        uint32_t c[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                         static_cast<uint32_t>(key.stream), static_cast<uint32_t>(key.stream >> 32)};
        uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
        for (int round = 0; round < 10; round++) {
            const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c[0],
                           p1 = static_cast<uint64_t>(0xCD9E8D57u) * c[2];
            c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0;
            c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1;
            c[1] = static_cast<uint32_t>(p1);
            c[3] = static_cast<uint32_t>(p0);
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t at = static_cast<int64_t>(block) * 4 + e - first;
            if (at >= 0 && at < n)
                mask[at] = static_cast<float>(c[e] >> 8) * 0x1p-24f < rate ? 0.0f : keep;
        }
    }
};

void dropout_mask(float *mask, ff_random_key key, float rate, int64_t first, int64_t n)
{
    const DropoutMask p = {mask, key, rate, 1.0f / (1.0f - rate), first, n};
    if (n > 0)
        ff_for_each(p, (first + n - 1) / 4 - first / 4 + 1);
}

struct AddScaled {
    float *y;
    const float *x;
    float alpha;

    FF_DEVICE void operator()(int64_t i) const { y[i] = fmaf(alpha, x[i], y[i]); }
};

void add_scaled(float *y, const float *x, float alpha, int64_t n)
{
    ff_for_each(AddScaled{y, x, alpha}, n);
}

/* dst[j, i, c] (=, +=) src[i, j, c]: whole rows of channels, so reads and writes are both in order. */
struct Transpose {
    float *dst;
    const float *src;
    int64_t num_i, num_j, c;
    bool accumulate;

    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t channel = at % c, i = at / c % num_i, j = at / (c * num_i);
        const float value = src[(i * num_j + j) * c + channel];
        dst[at] = accumulate ? dst[at] + value : value;
    }
};

/* Few channels: a block moves 32 x 32 positions of one channel through shared memory, so that both sides are in order. */
enum { SQUARE = 32, SQUARE_ROWS = 8 };

__global__ void __launch_bounds__(SQUARE *SQUARE_ROWS) transpose_narrow(Transpose p)
{
    FF_SHARED(float, square); /* [SQUARE][SQUARE + 1] */
    const int64_t tiles_j = (p.num_j + SQUARE - 1) / SQUARE;
    const int64_t channel = blockIdx.x % p.c, tile = blockIdx.x / p.c;
    const int64_t i0 = tile / tiles_j * SQUARE, j0 = tile % tiles_j * SQUARE;
    const int x = threadIdx.x % SQUARE, y0 = threadIdx.x / SQUARE;
    for (int y = y0; y < SQUARE; y += SQUARE_ROWS)
        if (i0 + y < p.num_i && j0 + x < p.num_j)
            square[y * (SQUARE + 1) + x] = p.src[((i0 + y) * p.num_j + j0 + x) * p.c + channel];
    __syncthreads();
    for (int y = y0; y < SQUARE; y += SQUARE_ROWS)
        if (i0 + x < p.num_i && j0 + y < p.num_j) {
            const int64_t at = ((j0 + y) * p.num_i + i0 + x) * p.c + channel;
            const float value = square[x * (SQUARE + 1) + y];
            p.dst[at] = p.accumulate ? p.dst[at] + value : value;
        }
}

void transpose(float *dst, const float *src, int64_t num_i, int64_t num_j, int64_t c,
               bool accumulate)
{
    const Transpose p = {dst, src, num_i, num_j, c, accumulate};
    const int64_t blocks = ff_divide_up(num_i, SQUARE) * ff_divide_up(num_j, SQUARE) * c;
    if (c < 8 && blocks > 0)
        FF_LAUNCH(transpose_narrow, static_cast<unsigned>(blocks), SQUARE * SQUARE_ROWS,
                  SQUARE * (SQUARE + 1) * sizeof(float), p);
    else
        ff_for_each(p, num_i * num_j * c);
}

} /* namespace */

extern "C" void FF_ENTRY(fill_elementwise)(ff_kernels *table)
{
    table->bias_dropout_residual = bias_dropout_residual;
    table->sigmoid_gate_forward = sigmoid_gate_forward;
    table->sigmoid_gate_backward = sigmoid_gate_backward;
    table->dropout_mask = dropout_mask;
    table->add_scaled = add_scaled;
    table->transpose = transpose;
}
