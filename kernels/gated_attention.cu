/* gated_attention.cu - CUDA side of the table's gated_attention and attention_core entries.
 *
 * Contents
 *   1. attention_core
 *   2. gated_attention: projections, attention, output
 *   3. gated_attention: gradients
 *
 * forward, in three launches (attention.cuh has the second):
 *   project    x' = LN(x); q = x' query_w c^-0.5, k = x' key_w, v = x' value_w, gate = sigmoid(x' gating_w + gating_b)
 *   attend     o = gate * softmax(q k + bias, FF_MASKED_LOGIT where mask is 0) v
 *   output     out = x + dropout * (o output_w + output_b)
 * with q, k, v [batch, num_head, length, c_hidden] and gate, o [batch, length, num_head c_hidden] in the operand type.
 *
 * backward, for as many batch rows at a time as scratch is meant for (q, k, v, o and the log-sum-exp are made again unless
 * all were kept): one product pair gives the gradients of o and of the gate, whose logits are made again beside it; the
 * three launches of attention_backward.cuh; one product for the gradient of LN(x); weights by parts of the rows. */
#include "kernels/attention.cuh"
#include "kernels/attention_backward.cuh"
#include "kernels/norm.cuh"

namespace
{

/* ---- 1. attention_core ---- */

/* Runs attention on float32 operands; ungated and lse may be NULL. */
template <class T>
void attend_core(float *out, float *lse, const float *q, const float *k, const float *v,
                 const ff_attention_core_args *args)
{
    Attention<float, float> a = {};
    const int64_t c = args->c_hidden, row = args->num_head * c;
    a.query = q;
    a.key = k;
    a.value = v;
    a.out = out;
    a.lse = lse;
    a.query_row = a.key_row = a.out_row = row;
    a.query_head = a.key_head = a.out_head = c;
    a.query_batch = a.out_batch = args->num_query * row;
    a.key_batch = args->num_key * row;
    a.mask = args->mask;
    a.mask_batch = args->num_key;
    a.mask_key = 1;
    a.bias = args->bias;
    a.batch = args->batch;
    a.num_head = args->num_head;
    a.num_query = args->num_query;
    a.num_key = args->num_key;
    a.width = static_cast<int>(c);
    a.scale = args->scale;
    const int64_t head_bytes = c * static_cast<int64_t>(sizeof(float));
    a.vector = sizeof(T) == sizeof(float) && ff_is_aligned_16(q, head_bytes) &&
               ff_is_aligned_16(k, 0) && ff_is_aligned_16(v, 0);
    launch_attend<T>(a);
}

template <class T>
void attention_core_forward(float *out, const float *q, const float *k, const float *v,
                            const ff_attention_core_args *args, void *)
{
    attend_core<T>(out, nullptr, q, k, v, args);
}

struct CoreScratch {
    float *out, *lse, *delta;

    size_t carve(const ff_attention_core_args &a, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t rows = a.batch * a.num_head * a.num_query;
        out = arena.take<float>(rows * a.c_hidden);
        lse = arena.take<float>(rows);
        delta = arena.take<float>(rows);
        return arena.used;
    }
};

template <class T>
void attention_core_backward(float *grad_q, float *grad_k, float *grad_v, float *grad_bias,
                             const float *grad_out, const float *q, const float *k, const float *v,
                             const ff_attention_core_args *args, void *scratch)
{
    if (args->num_query == 0 || args->num_key == 0)
        return;
    const int64_t c = args->c_hidden, row = args->num_head * c;
    const HeadStrides query_at = {args->num_query * row, c, row}, key_at = {args->num_key * row, c, row};
    CoreScratch s;
    s.carve(*args, scratch);
    attend_core<T>(s.out, s.lse, q, k, v, args);
    launch_delta(DeltaRows<float>{grad_out, s.out, query_at, query_at, s.delta, args->batch,
                                  args->num_head, args->num_query, static_cast<int>(c)});
    AttentionGradient<float, float> a = {};
    a.query = q;
    a.key = k;
    a.value = v;
    a.grad_out = grad_out;
    a.query_at = a.grad_out_at = a.grad_query_at = query_at;
    a.key_at = a.grad_key_at = key_at;
    a.grad_query = grad_q;
    a.grad_key = grad_k;
    a.grad_value = grad_v;
    a.query_factor = a.key_factor = a.scale = args->scale;
    a.accumulate = true;
    a.grad_bias = grad_bias;
    a.lse = s.lse;
    a.delta = s.delta;
    a.mask = args->mask;
    a.mask_batch = args->num_key;
    a.mask_key = 1;
    a.bias = args->bias;
    a.batch = args->batch;
    a.num_head = args->num_head;
    a.num_query = args->num_query;
    a.num_key = args->num_key;
    a.width = static_cast<int>(c);
    launch_attend_backward<T>(a);
}

size_t attention_core_scratch_bytes(const ff_attention_core_args *args, bool backward)
{
    CoreScratch s;
    return backward ? s.carve(*args, nullptr) : 0;
}

/* ---- 2. gated_attention, forward ---- */

/* The three operands and the gate (which becomes the gated result) of one call. */
template <class T>
struct Operands {
    T *query, *key, *value, *gate;
};

template <class T>
struct Project {
    const float *x;
    ff_attention_params w;
    Operands<T> to;
    int64_t batch, length, c_in, num_head, c_hidden;
    int64_t stride_batch, stride_length;
};

/* One block: 64 positions, all their projections; the normalised rows stay in shared memory meanwhile. */
template <class T>
__global__ void __launch_bounds__(FF_TILE_THREADS) project(Project<T> a)
{
    FF_SHARED(char, shared);
    ff_row_product<T> product(shared, a.c_in);
    ff_norm_rows &rows =
        *reinterpret_cast<ff_norm_rows *>(shared + ff_row_product<T>::shared_bytes(a.c_in));
    int64_t *target =
        reinterpret_cast<int64_t *>(&rows + 1); /* of the row's first element in q, k, v */
    const int64_t first = static_cast<int64_t>(blockIdx.x) * FF_TILE_ROWS,
                  num_rows = a.batch * a.length;
    const int64_t width = a.num_head * a.c_hidden;
    const int c_hidden = static_cast<int>(a.c_hidden);

    rows.locate(first, num_rows, a.length, a.stride_batch, a.stride_length);
    for (int r = threadIdx.x; r < FF_TILE_ROWS; r += FF_TILE_THREADS) {
        const int64_t b = (first + r) / a.length, l = (first + r) % a.length;
        target[r] = (b * a.num_head * a.length + l) * a.c_hidden;
    }
    __syncthreads();
    if (a.w.query_norm_scale != nullptr)
        rows.measure(a.x, a.c_in);

    auto load = [&](int r, int64_t c) {
        return rows.load(a.x, a.w.query_norm_scale, a.w.query_norm_offset, r, c);
    };
    const float scale = 1.0f / sqrtf(static_cast<float>(a.c_hidden));
#pragma unroll 1 /* the same code three times would be large */
    for (int part = 0; part < 3; part++) {
        const float *weights = part == 0 ? a.w.query_w : part == 1 ? a.w.key_w : a.w.value_w;
        T *to = part == 0 ? a.to.query : part == 1 ? a.to.key : a.to.value;
        const float factor = part == 0 ? scale : 1.0f;
        product.run(a.c_in, weights, width, width, load, [&](int r, int64_t column, float value) {
            const int n = static_cast<int>(column), head = n / c_hidden, c = n % c_hidden;
            if (rows.offset[r] >= 0)
                to[target[r] + head * a.length * a.c_hidden + c] = ff_from_float<T>(value * factor);
        });
    }
    if (a.w.gating_w != nullptr)
        product.run(
            a.c_in, a.w.gating_w, width, width, load, [&](int r, int64_t column, float value) {
                if (rows.offset[r] >= 0)
                    a.to.gate[(first + r) * width + column] =
                        ff_from_float<T>(1.0f / (1.0f + expf(-(value + a.w.gating_b[column]))));
            });
}

template <class T>
struct Output {
    const T *gated; /* [batch, length, width] */
    const float *x, *output_w, *output_b, *dropout;
    float *out;
    int64_t batch, length, c_out, width;
    int64_t stride_batch, stride_length;
    bool residual;
};

/* One block: 64 positions. out may be x: an element is read and written by one thread. */
template <class T>
__global__ void __launch_bounds__(FF_TILE_THREADS) output(Output<T> a)
{
    FF_SHARED(char, shared);
    ff_row_product<T> product(shared, a.width);
    ff_norm_rows &rows =
        *reinterpret_cast<ff_norm_rows *>(shared + ff_row_product<T>::shared_bytes(a.width));
    const int64_t first = static_cast<int64_t>(blockIdx.x) * FF_TILE_ROWS;
    rows.locate(first, a.batch * a.length, a.length, a.stride_batch, a.stride_length);
    product.run(
        a.width, a.output_w, a.c_out, a.c_out,
        [&](int r, int64_t k) {
            return rows.offset[r] < 0 ? 0.0f : ff_to_float(a.gated[(first + r) * a.width + k]);
        },
        [&](int r, int64_t column, float value) {
            if (rows.offset[r] < 0)
                return;
            float update = value + a.output_b[column];
            if (a.dropout != nullptr)
                update *= a.dropout[(first + r) % a.length * a.c_out + column];
            const int64_t at = rows.offset[r] + column;
            a.out[at] = a.residual ? a.x[at] + update : update;
        });
}

/* q, k, v and the gated result (in operands.gate) of all rows; o before the gate and the log-sum-exp where wanted. */
template <class T>
void attend_rows(const float *x, const ff_attention_params *w, const ff_gated_attention_args *args,
                 const Operands<T> &operands, float *ungated, float *lse)
{
    const int64_t c = args->c_hidden, width = args->num_head * c,
                  num_rows = args->batch * args->length;
    if (width == 0)
        return;
    const Project<T> p = {x,
                          *w,
                          operands,
                          args->batch,
                          args->length,
                          args->c_in,
                          args->num_head,
                          c,
                          args->stride_batch,
                          args->stride_length};
    const size_t shared_bytes = ff_row_product<T>::shared_bytes(args->c_in) + sizeof(ff_norm_rows) +
                                FF_TILE_ROWS * sizeof(int64_t);
    FF_LAUNCH(project<T>, static_cast<unsigned>(ff_divide_up(num_rows, FF_TILE_ROWS)),
              FF_TILE_THREADS, shared_bytes, p);

    Attention<T, T> a = {};
    a.query = operands.query;
    a.key = operands.key;
    a.value = operands.value;
    a.query_batch = a.key_batch = args->length * width;
    a.query_head = a.key_head = args->length * c;
    a.query_row = a.key_row = c;
    a.out = operands.gate;
    a.ungated = ungated;
    a.out_batch = args->length * width;
    a.out_head = c;
    a.out_row = width;
    a.gated = w->gating_w != nullptr;
    a.lse = lse;
    a.mask = args->mask;
    a.mask_batch = args->mask_stride_batch;
    a.mask_key = args->mask_stride_length;
    a.bias = args->bias;
    a.batch = args->batch;
    a.num_head = args->num_head;
    a.num_query = a.num_key = args->length;
    a.width = static_cast<int>(c);
    a.scale = 1.0f; /* q has it */
    const int64_t head_bytes = c * static_cast<int64_t>(sizeof(T));
    a.vector = ff_is_aligned_16(a.query, head_bytes) && ff_is_aligned_16(a.key, 0) &&
               ff_is_aligned_16(a.value, 0);
    launch_attend<T>(a);
}

/* Scratch of both directions; the backward pass takes batch rows by chunks. */
template <class T>
struct Scratch {
    Operands<T> operands;
    float2 *stats;
    float *lse, *output, *delta, *grad_norm, *parts;
    T *grad_output, *grads; /* [rows, width]; [rows, 4 width]: gradients of q, k, v and the gate's logits */

    static int64_t chunk(const ff_gated_attention_args &a)
    {
        return ff_max(1, ff_min(a.batch, FF_ROW_CHUNK / ff_max(1, a.length)));
    }

    size_t carve(const ff_gated_attention_args &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t rows = (backward ? chunk(a) : a.batch) * a.length,
                      width = a.num_head * a.c_hidden;
        operands.query = arena.take<T>(rows * width);
        operands.key = arena.take<T>(rows * width);
        operands.value = arena.take<T>(rows * width);
        operands.gate = arena.take<T>(rows * width);
        if (!backward)
            return arena.used;
        stats = arena.take<float2>(rows);
        lse = arena.take<float>(rows * a.num_head);
        output = arena.take<float>(rows * width);
        delta = arena.take<float>(rows * a.num_head);
        grad_norm = arena.take<float>(rows * a.c_in);
        grad_output = arena.take<T>(rows * width);
        grads = arena.take<T>(rows * 4 * width);
        parts = arena.take<float>(
            ff_max(ff_max(ff_parts_size(a.c_in, 4 * width, rows), ff_parts_size(width, a.c_in, rows)),
                   ff_sum_parts_size(rows, ff_max(2 * a.c_in, width), 1)));
        return arena.used;
    }
};

template <class T>
size_t gated_attention_scratch_bytes(const ff_gated_attention_args *args, bool backward)
{
    Scratch<T> s;
    return s.carve(*args, backward, nullptr);
}

template <class T>
void gated_attention_forward(float *out, const float *x, const ff_attention_params *w,
                             const ff_gated_attention_args *args,
                             const ff_gated_attention_kept *keep, void *scratch)
{
    const int64_t width = args->num_head * args->c_hidden, num_rows = args->batch * args->length;
    if (num_rows == 0 || args->c_in == 0)
        return;
    const ff_gated_attention_kept nothing = {}, &kept = keep != nullptr ? *keep : nothing;
    Scratch<T> s;
    s.carve(*args, false, scratch);
    if (kept.query != nullptr) {
        s.operands.query = static_cast<T *>(kept.query);
        s.operands.key = static_cast<T *>(kept.key);
        s.operands.value = static_cast<T *>(kept.value);
    }
    attend_rows<T>(x, w, args, s.operands, kept.output, kept.lse);
    const Output<T> o = {s.operands.gate, x,     w->output_w,        w->output_b,
                         args->dropout,   out,   args->batch,        args->length,
                         args->c_in,      width, args->stride_batch, args->stride_length,
                         args->residual};
    FF_LAUNCH(output<T>, static_cast<unsigned>(ff_divide_up(num_rows, FF_TILE_ROWS)),
              FF_TILE_THREADS, ff_row_product<T>::shared_bytes(width) + sizeof(ff_norm_rows), o);
}

/* ---- 3. gated_attention, gradients ---- */

/* The gradient of the update before dropout: row r, channel c. */
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

/* Phase 0: gradient of the gated o = update output_w^T; phase 1: the gate's logits LN(x) gating_w again. */
template <class T>
struct GateProblem : ff_matmul_traits {
    static constexpr int kPhases = 2;
    static constexpr bool kRightDeep = true;
    UpdateGradient update;
    ff_normed x;
    ff_attention_params w;
    const float *output; /* o [rows, width] */
    T *gated, *grad_output, *grads;
    int64_t width, c_in;

    FF_DEVICE float left(int phase, int64_t, int64_t r, int64_t k) const
    {
        return phase == 0 ? update.value(r, k) : x.value(r, k);
    }
    FF_DEVICE float right(int phase, int64_t, int64_t k, int64_t n) const
    {
        return phase == 0 ? w.output_w[n * c_in + k] : w.gating_w[k * width + n];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[2]) const
    {
        const float o = output[r * width + n];
        const float s = w.gating_w == nullptr ? 1.0f : ff_sigmoid(value[1] + w.gating_b[n]);
        gated[r * width + n] = ff_from_float<T>(o * s);
        grad_output[r * width + n] = ff_from_float<T>(value[0] * s);
        grads[r * 4 * width + 3 * width + n] = ff_from_float<T>(value[0] * o * s * (1.0f - s));
    }
};

/* dLN(x) = grads [rows, 4 width] times the transposes of query_w, key_w, value_w, gating_w. */
template <class T>
struct NormGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const T *grads;
    ff_attention_params w;
    float *grad_norm;
    int64_t width, c_in;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(grads[r * 4 * width + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        const float *from = w.query_w;
        if (k >= 2 * width) {
            from = w.value_w;
            k -= 2 * width;
            if (k >= width)
                from = w.gating_w;
        } else if (k >= width) {
            from = w.key_w;
        }
        return from[n * width + (k >= width ? k - width : k)];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_norm[r * c_in + n] = value[0];
    }
};

/* Gradients of q, k, v (columns of s.grads) and of the bias. */
template <class T>
void attention_gradients(const Scratch<T> &s, float *grad_bias, const ff_gated_attention_args *args,
                         const ff_gated_attention_kept &kept)
{
    const int64_t c = args->c_hidden, width = args->num_head * c, length = args->length;
    const HeadStrides rows = {length * width, c, width}, heads = {length * width, length * c, c},
                      grads = {length * 4 * width, c, 4 * width};
    launch_delta(DeltaRows<T>{s.grad_output, kept.output, rows, rows, s.delta, args->batch,
                              args->num_head, length, static_cast<int>(c)});
    AttentionGradient<T, T> a = {};
    a.query = static_cast<const T *>(kept.query);
    a.key = static_cast<const T *>(kept.key);
    a.value = static_cast<const T *>(kept.value);
    a.grad_out = s.grad_output;
    a.query_at = a.key_at = heads;
    a.grad_out_at = rows;
    a.grad_query = s.grads;
    a.grad_key = s.grads + width;
    a.grad_value = s.grads + 2 * width;
    a.grad_query_at = a.grad_key_at = grads;
    a.query_factor = 1.0f / sqrtf(static_cast<float>(c)); /* q is scaled */
    a.key_factor = 1.0f;
    a.grad_bias = grad_bias;
    a.lse = kept.lse;
    a.delta = s.delta;
    a.mask = args->mask;
    a.mask_batch = args->mask_stride_batch;
    a.mask_key = args->mask_stride_length;
    a.bias = args->bias;
    a.batch = args->batch;
    a.num_head = args->num_head;
    a.num_query = a.num_key = length;
    a.width = static_cast<int>(c);
    a.scale = 1.0f;
    const int64_t head_bytes = c * static_cast<int64_t>(sizeof(T));
    a.vector = ff_is_aligned_16(a.query, head_bytes) && ff_is_aligned_16(a.key, 0) &&
               ff_is_aligned_16(a.value, 0) && ff_is_aligned_16(a.grad_out, 0);
    launch_attend_backward<T>(a);
}

template <class T>
void attention_parameters(const ff_attention_params *g, const Scratch<T> &s, const GateProblem<T> &p,
                          int64_t rows)
{
    const int64_t width = p.width, c_in = p.c_in;
    const int64_t parts = p.w.gating_w == nullptr ? 3 : 4;
    const ff_matrix<T> grads = {s.grads, 4 * width}, gate = {s.grads + 3 * width, 4 * width};
    ff_reduce_target weights = {}, out = {}, out_bias = {}, gate_bias = {};
    weights.add(g->query_w, width, width);
    weights.add(g->key_w, width, width);
    weights.add(g->value_w, width, width);
    weights.add(g->gating_w, width, width);
    out.add(g->output_w, c_in, c_in);
    out_bias.add(g->output_b, c_in, c_in);
    gate_bias.add(g->gating_b, width, width);
    ff_weight_gradient<T>(weights, p.x, grads, c_in, parts * width, rows, s.parts);
    ff_weight_gradient<T>(out, ff_matrix<T>{p.gated, width}, p.update, width, c_in, rows, s.parts);
    ff_column_sums(out_bias, p.update, rows, c_in, s.parts);
    if (parts == 4)
        ff_column_sums(gate_bias, gate, rows, width, s.parts);
    if (p.x.scale != nullptr)
        ff_norm_gradients(g->query_norm_scale, g->query_norm_offset, s.grad_norm, p.x, rows, c_in,
                          s.parts);
}

/* All gradients of args->batch rows whose attention is in `kept`. */
template <class T>
void chunk_backward(const Scratch<T> &s, float *grad_x, float *grad_bias,
                    const ff_attention_params *grad_w, const float *grad_out, const float *x,
                    const ff_attention_params *w, const ff_gated_attention_args *args,
                    const ff_gated_attention_kept &kept)
{
    const int64_t width = args->num_head * args->c_hidden, rows = args->batch * args->length,
                  c_in = args->c_in;
    const ff_rows at = ff_rows::make(args->length, args->stride_batch, args->stride_length);
    const bool gated = w->gating_w != nullptr;
    GateProblem<T> p;
    p.update = UpdateGradient{grad_out, args->dropout, at, args->length, c_in};
    p.x = ff_measure(s.stats, x, at, 0, rows, c_in, w->query_norm_scale, w->query_norm_offset);
    p.w = *w;
    p.output = kept.output;
    p.gated = s.operands.gate;
    p.grad_output = s.grad_output;
    p.grads = s.grads;
    p.width = width;
    p.c_in = c_in;
    ff_matmul<T>(p, 1, rows, width, c_in, gated ? c_in : 0);
    attention_gradients<T>(s, grad_bias, args, kept);
    NormGradient<T> n;
    n.grads = s.grads;
    n.w = *w;
    n.grad_norm = s.grad_norm;
    n.width = width;
    n.c_in = c_in;
    ff_matmul<T>(n, 1, rows, c_in, (gated ? 4 : 3) * width);
    if (grad_w != nullptr)
        attention_parameters<T>(grad_w, s, p, rows);
    ff_norm_backward(grad_x, s.grad_norm,
                     args->residual && grad_x != grad_out ? grad_out : nullptr, p.x, rows, c_in);
}

/* Elements first .. of an array that may be absent. */
template <class E>
E *from(E *array, int64_t first)
{
    return array == nullptr ? nullptr : array + first;
}

template <class T>
void gated_attention_backward(float *grad_x, float *grad_bias, const ff_attention_params *grad_w,
                              const float *grad_out, const float *x, const ff_attention_params *w,
                              const ff_gated_attention_args *args,
                              const ff_gated_attention_kept *kept, void *scratch)
{
    const int64_t width = args->num_head * args->c_hidden;
    if (args->batch == 0 || args->length == 0 || args->c_in == 0)
        return;
    Scratch<T> s;
    s.carve(*args, true, scratch);
    const bool complete = kept != nullptr && kept->query != nullptr && kept->key != nullptr &&
                          kept->value != nullptr && kept->lse != nullptr && kept->output != nullptr;
    const int64_t chunk = Scratch<T>::chunk(*args);
    for (int64_t b = 0; b < args->batch; b += chunk) {
        ff_gated_attention_args part = *args;
        part.batch = ff_min(chunk, args->batch - b);
        part.mask = from(args->mask, b * args->mask_stride_batch);
        const int64_t first = b * args->length * width, at = b * args->stride_batch;
        ff_gated_attention_kept own = {s.lse, s.output, s.operands.query, s.operands.key,
                                       s.operands.value};
        if (complete)
            own = {kept->lse + b * args->num_head * args->length, kept->output + first,
                   static_cast<T *>(kept->query) + first, static_cast<T *>(kept->key) + first,
                   static_cast<T *>(kept->value) + first};
        else
            attend_rows<T>(x + at, w, &part, s.operands, s.output, s.lse);
        chunk_backward<T>(s, grad_x + at, grad_bias, grad_w, grad_out + at, x + at, w, &part, own);
    }
}

template <class T>
void fill(ff_kernels *table)
{
    table->attention_core_forward = attention_core_forward<T>;
    table->attention_core_backward = attention_core_backward<T>;
    table->attention_core_scratch_bytes = attention_core_scratch_bytes;
    table->gated_attention_forward = gated_attention_forward<T>;
    table->gated_attention_backward = gated_attention_backward<T>;
    table->gated_attention_scratch_bytes = gated_attention_scratch_bytes<T>;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_gated_attention)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
