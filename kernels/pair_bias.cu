/* pair_bias.cu - CUDA side of the table's pair_bias entries.
 *
 * forward    bias[h, i, j] = LN(pair)[i, j] . weights[:, h]: a block's 64 positions are read once, all heads made
 * backward   by chunks of positions: dLN = grad_bias weights^T, then the layer norm's backward; weights by parts of the rows */
#include "kernels/norm.cuh"

namespace
{

struct PairBias {
    float *bias;
    const float *pair;
    ff_pair_bias_params w;
    ff_pair_bias_args args;
};

/* One block: 64 positions of the pair, all heads. */
template <class T>
__global__ void __launch_bounds__(FF_TILE_THREADS) pair_bias(PairBias a)
{
    FF_SHARED(char, shared);
    const ff_pair_bias_args &s = a.args;
    ff_row_product<T> product(shared, s.c_z);
    ff_norm_rows &rows =
        *reinterpret_cast<ff_norm_rows *>(shared + ff_row_product<T>::shared_bytes(s.c_z));
    const int64_t first = static_cast<int64_t>(blockIdx.x) * FF_TILE_ROWS;
    rows.locate(first, s.num_i * s.num_j, s.num_j, s.stride_i, s.stride_j);
    __syncthreads();
    rows.measure(a.pair, s.c_z);
    product.run(
        s.c_z, a.w.weights, s.num_head, s.num_head,
        [&](int r, int64_t c) { return rows.load(a.pair, a.w.norm_scale, a.w.norm_offset, r, c); },
        [&](int r, int64_t head, float value) {
            const int64_t i = (first + r) / s.num_j, j = (first + r) % s.num_j;
            if (rows.offset[r] >= 0)
                a.bias[head * s.bias_stride_head + i * s.bias_stride_i + j] = value;
        });
}

template <class T>
void pair_bias_forward(float *bias, const float *pair, const ff_pair_bias_params *w,
                       const ff_pair_bias_args *args, void *)
{
    const int64_t num_rows = args->num_i * args->num_j;
    if (num_rows == 0 || args->num_head == 0)
        return;
    const PairBias a = {bias, pair, *w, *args};
    FF_LAUNCH(pair_bias<T>, static_cast<unsigned>(ff_divide_up(num_rows, FF_TILE_ROWS)),
              FF_TILE_THREADS, ff_row_product<T>::shared_bytes(args->c_z) + sizeof(ff_norm_rows),
              a);
}

/* grad_bias of position r as a row of heads, an operand of products and sums. */
struct BiasGradient {
    const float *grad_bias;
    ff_pair_bias_args args;
    int64_t first;

    FF_DEVICE float value(int64_t r, int64_t h) const
    {
        const int64_t i = (first + r) / args.num_j, j = (first + r) % args.num_j;
        return grad_bias[h * args.bias_stride_head + i * args.bias_stride_i + j];
    }
};

struct NormGradient : ff_matmul_traits {
    static constexpr bool kLeftDeep = false;
    static constexpr bool kRightDeep = true;
    BiasGradient from;
    const float *weights;
    float *grad_norm;
    int64_t c, num_head;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return from.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return weights[n * num_head + k];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_norm[r * c + n] = value[0];
    }
};

struct Scratch {
    float2 *stats;
    float *grad_norm, *parts;

    size_t carve(const ff_pair_bias_args &a, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t rows = ff_min(a.num_i * a.num_j, FF_ROW_CHUNK);
        stats = arena.take<float2>(rows);
        grad_norm = arena.take<float>(rows * a.c_z);
        parts = arena.take<float>(
            ff_max(ff_parts_size(a.c_z, a.num_head, rows), ff_sum_parts_size(rows, a.c_z, 2)));
        return arena.used;
    }
};

template <class T>
void pair_bias_backward(float *grad_pair, const ff_pair_bias_params *grad_w, const float *grad_bias,
                        const float *pair, const ff_pair_bias_params *w,
                        const ff_pair_bias_args *args, void *scratch)
{
    const ff_rows at = ff_rows::make(args->num_j, args->stride_i, args->stride_j);
    Scratch s;
    s.carve(*args, scratch);
    for (int64_t first = 0; first < args->num_i * args->num_j; first += FF_ROW_CHUNK) {
        const int64_t rows = ff_min(FF_ROW_CHUNK, args->num_i * args->num_j - first);
        const ff_normed normed = ff_measure(s.stats, pair, at, first, rows, args->c_z,
                                            w->norm_scale, w->norm_offset);
        NormGradient p;
        p.from = BiasGradient{grad_bias, *args, first};
        p.weights = w->weights;
        p.grad_norm = s.grad_norm;
        p.c = args->c_z;
        p.num_head = args->num_head;
        ff_matmul<T>(p, 1, rows, args->c_z, args->num_head);
        if (grad_w != nullptr) {
            ff_reduce_target target = {};
            target.add(grad_w->weights, args->num_head, args->num_head);
            ff_weight_gradient<T>(target, normed, p.from, args->c_z, args->num_head, rows, s.parts);
            ff_norm_gradients(grad_w->norm_scale, grad_w->norm_offset, s.grad_norm, normed, rows,
                              args->c_z, s.parts);
        }
        ff_norm_backward(grad_pair, s.grad_norm, nullptr, normed, rows, args->c_z);
    }
}

size_t pair_bias_scratch_bytes(const ff_pair_bias_args *args, bool backward)
{
    Scratch s;
    return backward ? s.carve(*args, nullptr) : 0;
}

template <class T>
void fill(ff_kernels *table)
{
    table->pair_bias_forward = pair_bias_forward<T>;
    table->pair_bias_backward = pair_bias_backward<T>;
    table->pair_bias_scratch_bytes = pair_bias_scratch_bytes;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_pair_bias)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
