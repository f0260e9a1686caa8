/* global_attention.cu - CUDA side of the table's global_attention entries (Suppl. Alg. 19).
 *
 * Row r is residue column r / length, sequence r % length; columns are taken by chunks.
 * forward    k, v [row, c_hidden] by one product; mean of LN(x) over a column's sequences, q from it; softmax over the
 *            column's sequences per head (one block a head); o * sigmoid(LN(x) gating_w + b), then output_w and residual
 * backward   all of it again, then the gate's and o's gradients from one pair of products; sums over a column's sequences
 *            have one owner each; one product for the gradient of LN(x), to which the mean's part is added */
#include "kernels/norm.cuh"

namespace
{

typedef ff_attention_params Params;
typedef ff_global_attention_args Args;

constexpr float MEAN_EPSILON = 1e-10f; /* alphafold/model/modules.py GlobalAttention: mask_mean(eps=1e-10) */
enum { THREADS = 128, WARPS = THREADS / FF_WARP };

template <class T>
struct Scratch {
    float2 *stats;
    float *kv;            /* [rows, 2 c] */
    float *mean, *sum;    /* [columns, c_in], [columns]: of the mask */
    float *q, *o;         /* [columns, hc], q scaled */
    float *weights;       /* [columns, num_head, length] */
    T *gated;             /* [rows, hc] */
    float *grad_gated;    /* [rows, hc]: gradient of o before the sum over sequences */
    float *grad_o, *grad_q, *grad_mean, *grad_logits, *grad_norm, *parts;
    T *grads;             /* [rows, hc + 2 c]: gate's logits, k, v */

    static int64_t chunk(const Args &a)
    {
        return ff_max(1, ff_min(a.batch, FF_ROW_CHUNK / ff_max(1, a.length)));
    }

    size_t carve(const Args &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t columns = chunk(a), rows = columns * a.length, c = a.c_hidden,
                      hc = a.num_head * c;
        stats = arena.take<float2>(rows);
        kv = arena.take<float>(rows * 2 * c);
        mean = arena.take<float>(columns * a.c_in);
        sum = arena.take<float>(columns);
        q = arena.take<float>(columns * hc);
        o = arena.take<float>(columns * hc);
        weights = arena.take<float>(rows * a.num_head);
        gated = arena.take<T>(rows * hc);
        if (!backward)
            return arena.used;
        grad_gated = arena.take<float>(rows * hc);
        grad_o = arena.take<float>(columns * hc);
        grad_q = arena.take<float>(columns * hc);
        grad_mean = arena.take<float>(columns * a.c_in);
        grad_logits = arena.take<float>(rows * a.num_head);
        grad_norm = arena.take<float>(rows * a.c_in);
        grads = arena.take<T>(rows * (hc + 2 * c));
        const int64_t weights_size =
            ff_max(ff_parts_size(a.c_in, hc + 2 * c, rows),
                   ff_max(ff_parts_size(hc, a.c_in, rows), ff_parts_size(a.c_in, hc, columns)));
        parts = arena.take<float>(
            ff_max(weights_size, ff_sum_parts_size(rows, ff_max(2 * a.c_in, hc), 1)));
        return arena.used;
    }
};

struct Mask {
    const float *mask;
    int64_t stride_column, stride_sequence;

    FF_DEVICE float at(int64_t column, int64_t l) const
    {
        return mask == nullptr ? 1.0f : mask[column * stride_column + l * stride_sequence];
    }
};

/* ---- 1. up to o ---- */

struct KeyValueProblem : ff_matmul_traits {
    ff_normed x;
    Params w;
    float *kv;
    int64_t c;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return x.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return n < c ? w.key_w[k * c + n] : w.value_w[k * c + n - c];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        kv[r * 2 * c + n] = value[0];
    }
};

/* Element i = (column, channel): mean over the sequences that count. */
struct ColumnMean {
    ff_normed x;
    Mask mask;
    float *mean, *sum;
    int64_t length, c_in;

    FF_DEVICE void operator()(int64_t i) const
    {
        const int64_t column = i / c_in, channel = i % c_in;
        float total = 0.0f, count = 0.0f;
        for (int64_t l = 0; l < length; l++) {
            const float m = mask.at(column, l);
            count += m;
            if (m != 0.0f)
                total = fmaf(m, x.value(column * length + l, channel), total);
        }
        mean[i] = total / (count + MEAN_EPSILON);
        if (channel == 0)
            sum[column] = count;
    }
};

/* Element i = (column, head channel) */
struct MeanQuery {
    const float *mean, *query_w;
    float *q;
    int64_t c_in, hc;
    float scale;

    FF_DEVICE void operator()(int64_t i) const
    {
        const int64_t column = i / hc, n = i % hc;
        float sum = 0.0f;
        for (int64_t k = 0; k < c_in; k++)
            sum = fmaf(mean[column * c_in + k], query_w[k * hc + n], sum);
        q[i] = sum * scale;
    }
};

struct ColumnAttention {
    const float *kv, *q;
    float *weights, *o;
    Mask mask;
    int64_t length, num_head, c;
    /* backward */
    const float *sum, *grad_o;
    float *grad_logits, *grad_q;
};

/* Largest (or sum) over the block; shared holds WARPS floats, and the call begins with a barrier. */
template <bool kMaximum>
FF_DEVICE float block_reduce(float value, float *shared)
{
    value = kMaximum ? ff_warp_max(value) : ff_warp_sum(value);
    __syncthreads();
    if (threadIdx.x % FF_WARP == 0)
        shared[threadIdx.x / FF_WARP] = value;
    __syncthreads();
    value = shared[0];
    for (int w = 1; w < WARPS; w++)
        value = kMaximum ? fmaxf(value, shared[w]) : value + shared[w];
    return value;
}

/* to[i] = sum_l factor[l] rows[l * 2 c + i]: warps take channels, lanes sequences. After a barrier. */
FF_DEVICE void sum_rows(float *to, const float *factor, const float *rows, int64_t length, int64_t c)
{
    for (int64_t i = threadIdx.x / FF_WARP; i < c; i += WARPS) {
        float sum = 0.0f;
        for (int64_t l = threadIdx.x % FF_WARP; l < length; l += FF_WARP)
            sum = fmaf(factor[l], rows[l * 2 * c + i], sum);
        sum = ff_warp_sum(sum);
        if (threadIdx.x % FF_WARP == 0)
            to[i] = sum;
    }
}

/* One block: one head of one column. Weights pass through memory that only this block touches. */
__global__ void __launch_bounds__(THREADS) attend_column(ColumnAttention a)
{
    FF_SHARED(float, shared); /* [WARPS] */
    const int64_t column = blockIdx.x / a.num_head, head = blockIdx.x;
    const float *q = a.q + head * a.c, *kv = a.kv + column * a.length * 2 * a.c;
    float *weights = a.weights + head * a.length;
    float maximum = -INFINITY, sum = 0.0f;
    for (int64_t l = threadIdx.x; l < a.length; l += THREADS) {
        float logit = 0.0f;
        for (int64_t i = 0; i < a.c; i++)
            logit = fmaf(q[i], kv[l * 2 * a.c + i], logit);
        if (a.mask.at(column, l) == 0.0f)
            logit = FF_MASKED_LOGIT;
        weights[l] = logit;
        maximum = fmaxf(maximum, logit);
    }
    maximum = block_reduce<true>(maximum, shared);
    for (int64_t l = threadIdx.x; l < a.length; l += THREADS) {
        weights[l] = expf(weights[l] - maximum);
        sum += weights[l];
    }
    const float factor = 1.0f / block_reduce<false>(sum, shared);
    for (int64_t l = threadIdx.x; l < a.length; l += THREADS)
        weights[l] *= factor;
    __syncthreads();
    sum_rows(a.o + head * a.c, weights, kv + a.c, a.length, a.c);
}

template <class T>
ColumnAttention attend_columns(const Scratch<T> &s, const ff_normed &x, const Params *w,
                               const Args *args, int64_t columns)
{
    const int64_t c = args->c_hidden, hc = args->num_head * c, rows = columns * args->length;
    const Mask mask = {args->mask, args->mask_stride_batch, args->mask_stride_length};
    KeyValueProblem p;
    p.x = x;
    p.w = *w;
    p.kv = s.kv;
    p.c = c;
    ff_matmul<T>(p, 1, rows, 2 * c, args->c_in);
    ff_for_each(ColumnMean{x, mask, s.mean, s.sum, args->length, args->c_in}, columns * args->c_in);
    ff_for_each(MeanQuery{s.mean, w->query_w, s.q, args->c_in, hc, 1.0f / sqrtf(static_cast<float>(c))},
                columns * hc);
    ColumnAttention a = {};
    a.kv = s.kv;
    a.q = s.q;
    a.weights = s.weights;
    a.o = s.o;
    a.mask = mask;
    a.length = args->length;
    a.num_head = args->num_head;
    a.c = c;
    if (columns * args->num_head > 0)
        FF_LAUNCH(attend_column, static_cast<unsigned>(columns * args->num_head), THREADS,
                  WARPS * sizeof(float), a);
    return a;
}

/* ---- 2. gate and output ---- */

struct UpdateGradient {
    static constexpr int kValues = 1;
    const float *grad_out, *dropout;
    ff_rows rows;
    int64_t length, c_in;

    FF_DEVICE float value(int64_t r, int64_t c) const
    {
        const float g = grad_out[rows.offset(r) + c];
        return dropout == nullptr ? g : g * dropout[r % length * c_in + c];
    }
    FF_DEVICE void values(int64_t r, int64_t c, float (&v)[1]) const { v[0] = value(r, c); }
};

/* Forward: the gate's logits; backward: phase 1, behind the gradient of the gated o. */
template <class T, bool kBackward>
struct GateProblem : ff_matmul_traits {
    static constexpr int kPhases = kBackward ? 2 : 1;
    static constexpr bool kRightDeep = kBackward;
    ff_normed x;
    Params w;
    UpdateGradient update;
    const float *o;
    T *gated, *grads;
    float *grad_gated;
    int64_t length, hc, c_in, stride; /* of a row of grads */

    FF_DEVICE float left(int phase, int64_t, int64_t r, int64_t k) const
    {
        return kBackward && phase == 0 ? update.value(r, k) : x.value(r, k);
    }
    FF_DEVICE float right(int phase, int64_t, int64_t k, int64_t n) const
    {
        return kBackward && phase == 0 ? w.output_w[n * c_in + k] : w.gating_w[k * hc + n];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[kPhases]) const
    {
        const float s = ff_sigmoid(value[kPhases - 1] + w.gating_b[n]), result = o[r / length * hc + n];
        gated[r * hc + n] = ff_from_float<T>(result * s);
        if (kBackward) {
            grad_gated[r * hc + n] = value[0] * s;
            grads[r * stride + n] = ff_from_float<T>(value[0] * result * s * (1.0f - s));
        }
    }
};

template <class T>
struct OutProblem : ff_matmul_traits {
    const T *gated;
    const float *x, *dropout;
    Params w;
    float *out;
    ff_rows rows;
    int64_t length, hc, c_in;
    bool residual;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(gated[r * hc + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return w.output_w[k * c_in + n]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const int64_t at = rows.offset(r) + n;
        float update = value[0] + w.output_b[n];
        if (dropout != nullptr)
            update *= dropout[r % length * c_in + n];
        out[at] = residual ? x[at] + update : update;
    }
};

template <class T, bool kBackward>
GateProblem<T, kBackward> make_gate(const Scratch<T> &s, const ff_normed &x, const Params *w,
                                    const Args *args)
{
    GateProblem<T, kBackward> g = {};
    g.x = x;
    g.w = *w;
    g.o = s.o;
    g.gated = s.gated;
    g.grads = s.grads;
    g.grad_gated = s.grad_gated;
    g.length = args->length;
    g.hc = args->num_head * args->c_hidden;
    g.c_in = args->c_in;
    g.stride = g.hc + 2 * args->c_hidden;
    return g;
}

template <class T>
void global_attention_forward(float *out, const float *x, const Params *w, const Args *args,
                              void *scratch)
{
    const int64_t hc = args->num_head * args->c_hidden, chunk = Scratch<T>::chunk(*args);
    const ff_rows rows_at = ff_rows::make(args->length, args->stride_batch, args->stride_length);
    if (args->length == 0 || args->c_in == 0)
        return;
    Scratch<T> s = {};
    s.carve(*args, false, scratch);
    for (int64_t b = 0; b < args->batch; b += chunk) {
        const int64_t columns = ff_min(chunk, args->batch - b), rows = columns * args->length;
        Args part = *args;
        part.mask = args->mask == nullptr ? nullptr : args->mask + b * args->mask_stride_batch;
        const ff_normed normed =
            ff_measure(s.stats, x + b * args->stride_batch, rows_at, 0, rows, args->c_in,
                       w->query_norm_scale, w->query_norm_offset);
        attend_columns<T>(s, normed, w, &part, columns);
        ff_matmul<T>(make_gate<T, false>(s, normed, w, args), 1, rows, hc, args->c_in);
        OutProblem<T> o;
        o.gated = s.gated;
        o.x = normed.x;
        o.dropout = args->dropout;
        o.w = *w;
        o.out = out + b * args->stride_batch;
        o.rows = rows_at;
        o.length = args->length;
        o.hc = hc;
        o.c_in = args->c_in;
        o.residual = args->residual;
        ff_matmul<T>(o, 1, rows, args->c_in, hc);
    }
}

/* ---- 3. gradients ---- */

/* Element i = (column, head channel): sum over the sequences. */
struct ColumnSum {
    const float *rows;
    float *sum;
    int64_t length, hc;

    FF_DEVICE void operator()(int64_t i) const
    {
        const int64_t column = i / hc, n = i % hc;
        float total = 0.0f;
        for (int64_t l = 0; l < length; l++)
            total += rows[(column * length + l) * hc + n];
        sum[i] = total;
    }
};

/* One block: one head of one column. A column without any sequence attends uniformly, and its logits have no gradient. */
__global__ void __launch_bounds__(THREADS) attend_column_backward(ColumnAttention a)
{
    const int64_t column = blockIdx.x / a.num_head, head = blockIdx.x;
    const float *kv = a.kv + column * a.length * 2 * a.c, *grad_o = a.grad_o + head * a.c;
    const float *weights = a.weights + head * a.length;
    float *grad_logits = a.grad_logits + head * a.length, delta = 0.0f;
    for (int64_t i = 0; i < a.c; i++)
        delta = fmaf(grad_o[i], a.o[head * a.c + i], delta);
    for (int64_t l = threadIdx.x; l < a.length; l += THREADS) {
        float d = 0.0f;
        for (int64_t i = 0; i < a.c; i++)
            d = fmaf(grad_o[i], kv[l * 2 * a.c + a.c + i], d);
        grad_logits[l] = a.sum[column] == 0.0f ? 0.0f : weights[l] * (d - delta);
    }
    __syncthreads();
    sum_rows(a.grad_q + head * a.c, grad_logits, kv, a.length, a.c);
}

/* Element i = (row, channel): gradients of k and v, summed over heads. */
template <class T>
struct KeyValueGradient {
    ColumnAttention a;
    T *grads;
    int64_t hc;

    FF_DEVICE void operator()(int64_t i) const
    {
        const int64_t r = i / a.c, channel = i % a.c, column = r / a.length, l = r % a.length;
        float key = 0.0f, value = 0.0f;
        for (int64_t h = 0; h < a.num_head; h++) {
            const int64_t at = (column * a.num_head + h) * a.length + l,
                          n = column * hc + h * a.c + channel;
            key = fmaf(a.grad_logits[at], a.q[n], key);
            value = fmaf(a.weights[at], a.grad_o[n], value);
        }
        T *row = grads + r * (hc + 2 * a.c) + hc + channel;
        row[0] = ff_from_float<T>(key);
        row[a.c] = ff_from_float<T>(value);
    }
};

/* Element i = (column, channel): gradient of the mean, through q. */
struct MeanGradient {
    const float *grad_q, *query_w;
    float *grad_mean;
    int64_t c_in, hc;
    float scale;

    FF_DEVICE void operator()(int64_t i) const
    {
        const int64_t column = i / c_in, channel = i % c_in;
        float sum = 0.0f;
        for (int64_t n = 0; n < hc; n++)
            sum = fmaf(query_w[channel * hc + n], grad_q[column * hc + n], sum);
        grad_mean[i] = sum * scale;
    }
};

template <class T>
struct NormGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const T *grads;
    Params w;
    Mask mask;
    const float *sum, *grad_mean;
    float *grad_norm;
    int64_t length, hc, c, c_in;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(grads[r * (hc + 2 * c) + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        if (k < hc)
            return w.gating_w[n * hc + k];
        k -= hc;
        return k < c ? w.key_w[n * c + k] : w.value_w[n * c + k - c];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const int64_t column = r / length;
        const float m = mask.at(column, r % length) / (sum[column] + MEAN_EPSILON);
        grad_norm[r * c_in + n] = fmaf(m, grad_mean[column * c_in + n], value[0]);
    }
};

template <class T>
void column_parameters(const Params *g, const Scratch<T> &s, const GateProblem<T, true> &p,
                       const Args *args, int64_t columns, int64_t rows)
{
    const int64_t c = args->c_hidden, hc = p.hc, c_in = args->c_in;
    const ff_matrix<T> grads = {s.grads, p.stride};
    ff_reduce_target query = {}, weights = {}, out = {}, out_bias = {}, gate_bias = {};
    query.add(g->query_w, hc, hc, 1.0f / sqrtf(static_cast<float>(c)));
    weights.add(g->gating_w, hc, hc);
    weights.add(g->key_w, c, c);
    weights.add(g->value_w, c, c);
    out.add(g->output_w, c_in, c_in);
    out_bias.add(g->output_b, c_in, c_in);
    gate_bias.add(g->gating_b, hc, hc);
    ff_weight_gradient<T>(query, ff_matrix<float>{s.mean, c_in}, ff_matrix<float>{s.grad_q, hc}, c_in,
                          hc, columns, s.parts);
    ff_weight_gradient<T>(weights, p.x, grads, c_in, p.stride, rows, s.parts);
    ff_weight_gradient<T>(out, ff_matrix<T>{s.gated, hc}, p.update, hc, c_in, rows, s.parts);
    ff_column_sums(out_bias, p.update, rows, c_in, s.parts);
    ff_column_sums(gate_bias, grads, rows, hc, s.parts);
    if (p.x.scale != nullptr)
        ff_norm_gradients(g->query_norm_scale, g->query_norm_offset, s.grad_norm, p.x, rows, c_in,
                          s.parts);
}

template <class T>
void column_chunk_backward(const Scratch<T> &s, float *grad_x, const Params *grad_w,
                           const float *grad_out, const float *x, const Params *w, const Args *args,
                           int64_t columns)
{
    const int64_t c = args->c_hidden, hc = args->num_head * c, c_in = args->c_in,
                  rows = columns * args->length;
    const ff_rows rows_at = ff_rows::make(args->length, args->stride_batch, args->stride_length);
    const float scale = 1.0f / sqrtf(static_cast<float>(c));
    const ff_normed normed = ff_measure(s.stats, x, rows_at, 0, rows, c_in, w->query_norm_scale,
                                        w->query_norm_offset);
    ColumnAttention a = attend_columns<T>(s, normed, w, args, columns);
    GateProblem<T, true> p = make_gate<T, true>(s, normed, w, args);
    p.update = UpdateGradient{grad_out, args->dropout, rows_at, args->length, c_in};
    ff_matmul<T>(p, 1, rows, hc, c_in, c_in);
    ff_for_each(ColumnSum{s.grad_gated, s.grad_o, args->length, hc}, columns * hc);
    a.sum = s.sum;
    a.grad_o = s.grad_o;
    a.grad_logits = s.grad_logits;
    a.grad_q = s.grad_q;
    if (hc > 0)
        FF_LAUNCH(attend_column_backward, static_cast<unsigned>(columns * args->num_head), THREADS, 0,
                  a);
    ff_for_each(KeyValueGradient<T>{a, s.grads, hc}, rows * c);
    ff_for_each(MeanGradient{s.grad_q, w->query_w, s.grad_mean, c_in, hc, scale}, columns * c_in);
    NormGradient<T> n;
    n.grads = s.grads;
    n.w = *w;
    n.mask = a.mask;
    n.sum = s.sum;
    n.grad_mean = s.grad_mean;
    n.grad_norm = s.grad_norm;
    n.length = args->length;
    n.hc = hc;
    n.c = c;
    n.c_in = c_in;
    ff_matmul<T>(n, 1, rows, c_in, p.stride);
    if (grad_w != nullptr)
        column_parameters<T>(grad_w, s, p, args, columns, rows);
    ff_norm_backward(grad_x, s.grad_norm, args->residual && grad_x != grad_out ? grad_out : nullptr,
                     normed, rows, c_in);
}

template <class T>
void global_attention_backward(float *grad_x, const Params *grad_w, const float *grad_out,
                               const float *x, const Params *w, const Args *args, void *scratch)
{
    const int64_t chunk = Scratch<T>::chunk(*args);
    if (args->length == 0 || args->c_in == 0)
        return;
    Scratch<T> s = {};
    s.carve(*args, true, scratch);
    for (int64_t b = 0; b < args->batch; b += chunk) {
        const int64_t at = b * args->stride_batch;
        Args part = *args;
        part.mask = args->mask == nullptr ? nullptr : args->mask + b * args->mask_stride_batch;
        column_chunk_backward<T>(s, grad_x + at, grad_w, grad_out + at, x + at, w, &part,
                                 ff_min(chunk, args->batch - b));
    }
}

template <class T>
size_t global_attention_scratch_bytes(const Args *args, bool backward)
{
    Scratch<T> s;
    return s.carve(*args, backward, nullptr);
}

template <class T>
void fill(ff_kernels *table)
{
    table->global_attention_forward = global_attention_forward<T>;
    table->global_attention_backward = global_attention_backward<T>;
    table->global_attention_scratch_bytes = global_attention_scratch_bytes<T>;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_global_attention)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
