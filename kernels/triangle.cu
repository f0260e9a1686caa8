/* triangle.cu - CUDA side of the table's triangle_multiplication entries (Suppl. Alg. 11 and 12).
 *
 * Contents
 *   1. project: layer norm, projections, gates and mask around one product
 *   2. product: one matrix product per channel
 *   3. output: two products share a tile, the update's and its gate's
 *   4. scratch, table
 *
 * Operands are [channel, position]. Projection and gate of a channel are neighbouring columns of one product, so that one
 * thread holds both. A product over its own input (square, in place) goes by groups of channels, whose input is copied to
 * scratch first. Backward passes go by chunks of positions, with gradients of what precedes the layer norms in scratch. */
#include "kernels/norm.cuh"

namespace
{

typedef ff_triangle_multiplication_params Params;
typedef ff_triangle_multiplication_args Args;

enum { MAX_BLOCKS = 128 }; /* gathered shards of a product: they are kernel arguments */
constexpr int64_t GROUP_BYTES = 24 << 20; /* of channels copied at a time: half of an L2 cache */

ff_rows pair_rows(const Args &a) { return ff_rows::make(a.num_j, a.stride_i, a.stride_j); }

/* ---- 1. project ---- */

struct Mask {
    const float *mask;
    ff_rows rows;

    FF_DEVICE float at(int64_t r) const { return mask == nullptr ? 1.0f : mask[rows.offset(r)]; }
};

Mask make_mask(const Args &a)
{
    return {a.mask, ff_rows::make(a.num_j, a.mask_stride_i, a.mask_stride_j)};
}

/* Column 2 q: projection, 2 q + 1: gate of channel q % c_hidden of left (q < c_hidden) or right. */
template <class T>
struct ProjectProblem : ff_matmul_traits {
    static constexpr bool kPairs = true, kStoreRows = true;
    ff_normed pair;
    Params w;
    Mask mask;
    T *left_out, *right_out;
    int64_t positions, c_hidden;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return pair.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        const int64_t q = n / 2, channel = q < c_hidden ? q : q - c_hidden;
        const float *from = n % 2 == 0
                                ? (q < c_hidden ? w.left_projection_w : w.right_projection_w)
                                : (q < c_hidden ? w.left_gate_w : w.right_gate_w);
        return from[k * w.projection_stride + channel];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1][2]) const
    {
        const int64_t q = n / 2;
        const bool is_left = q < c_hidden;
        const int64_t channel = is_left ? q : q - c_hidden;
        const float projection =
            value[0][0] + (is_left ? w.left_projection_b : w.right_projection_b)[channel];
        const float gate = ff_sigmoid(value[0][1] + (is_left ? w.left_gate_b : w.right_gate_b)[channel]);
        (is_left ? left_out : right_out)[channel * positions + r] =
            ff_from_float<T>(mask.at(r) * projection * gate);
    }
};

template <class T>
void project_forward(void *left, void *right, const float *pair, const Params *w, const Args *args,
                     void *scratch)
{
    const int64_t positions = args->num_i * args->num_j;
    ProjectProblem<T> p;
    p.pair = ff_measure(static_cast<float2 *>(scratch), pair, pair_rows(*args), 0, positions,
                        args->c_z, w->norm_scale, w->norm_offset);
    p.w = *w;
    p.mask = make_mask(*args);
    p.left_out = static_cast<T *>(left);
    p.right_out = static_cast<T *>(right);
    p.positions = positions;
    p.c_hidden = args->c_hidden;
    ff_matmul<T>(p, 1, positions, 4 * args->c_hidden, args->c_z);
}

/* Gates again; with l = mask u s: du = mask s dl, d(gate logit) = l (1 - s) dl. Columns of `grads`: du of left and right,
 * then the gates' of left and right. */
template <class T>
struct ProjectGradient : ff_matmul_traits {
    static constexpr bool kStoreRows = true; /* reads channel-major operands */
    ff_normed pair;
    Params w;
    Mask mask;
    const T *left_in, *right_in, *grad_left, *grad_right;
    T *grads;
    int64_t positions, c_hidden, first;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return pair.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return n < c_hidden ? w.left_gate_w[k * w.projection_stride + n]
                            : w.right_gate_w[k * w.projection_stride + n - c_hidden];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const bool is_left = n < c_hidden;
        const int64_t channel = is_left ? n : n - c_hidden, at = channel * positions + first + r;
        const float s = ff_sigmoid(value[0] + (is_left ? w.left_gate_b : w.right_gate_b)[channel]);
        const float d = ff_to_float((is_left ? grad_left : grad_right)[at]);
        const float l = ff_to_float((is_left ? left_in : right_in)[at]);
        grads[r * 4 * c_hidden + n] = ff_from_float<T>(mask.at(first + r) * s * d);
        grads[r * 4 * c_hidden + 2 * c_hidden + n] = ff_from_float<T>(l * (1.0f - s) * d);
    }
};

/* dLN(pair) = grads [rows, 4 c_hidden] times the four weights' transposes. */
template <class T>
struct ProjectNormGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const T *grads;
    Params w;
    float *grad_norm;
    int64_t c_hidden, c_z;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(grads[r * 4 * c_hidden + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        const float *from = w.left_projection_w;
        if (k >= 2 * c_hidden) {
            from = w.left_gate_w;
            k -= 2 * c_hidden;
            if (k >= c_hidden)
                from = w.right_gate_w;
        } else if (k >= c_hidden) {
            from = w.right_projection_w;
        }
        return from[n * w.projection_stride + (k >= c_hidden ? k - c_hidden : k)];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_norm[r * c_z + n] = value[0];
    }
};

/* Statistics, and what passes keep of a chunk of positions. */
template <class T>
struct Scratch {
    float2 *stats, *center_stats;
    T *grads;
    float *grad_norm, *grad_center, *parts;

    size_t carve(const Args &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t positions = a.num_i * a.num_j, c = a.c_hidden;
        if (!backward) {
            stats = arena.take<float2>(positions);
            center_stats = arena.take<float2>(positions);
            grads = arena.take<T>(ff_min(positions, FF_ROW_CHUNK) * a.c_z); /* gates, in place */
            return arena.used;
        }
        const int64_t rows = ff_min(positions, FF_ROW_CHUNK), wide = ff_max(4 * c, 2 * a.c_z);
        stats = arena.take<float2>(rows);
        center_stats = arena.take<float2>(rows);
        grads = arena.take<T>(rows * wide);
        grad_norm = arena.take<float>(rows * a.c_z);
        grad_center = arena.take<float>(rows * c);
        const int64_t sums = ff_sum_parts_size(rows, ff_max(wide, 2 * ff_max(c, a.c_z)), 1);
        const int64_t weights =
            ff_max(ff_parts_size(a.c_z, 4 * c, rows),
                   ff_max(ff_parts_size(c, a.c_z, rows), ff_parts_size(a.c_z, a.c_z, rows)));
        parts = arena.take<float>(ff_max(sums, weights));
        return arena.used;
    }
};

template <class T>
void project_parameters(const Params *g, const Scratch<T> &s, const ff_normed &pair, const Args &a,
                        int64_t rows)
{
    const int64_t c = a.c_hidden;
    const ff_matrix<T> grads = {s.grads, 4 * c};
    ff_reduce_target weights = {}, biases = {};
    weights.add(g->left_projection_w, g->projection_stride, c);
    weights.add(g->right_projection_w, g->projection_stride, c);
    weights.add(g->left_gate_w, g->projection_stride, c);
    weights.add(g->right_gate_w, g->projection_stride, c);
    biases.add(g->left_projection_b, c, c);
    biases.add(g->right_projection_b, c, c);
    biases.add(g->left_gate_b, c, c);
    biases.add(g->right_gate_b, c, c);
    ff_weight_gradient<T>(weights, pair, grads, a.c_z, 4 * c, rows, s.parts);
    ff_column_sums(biases, grads, rows, 4 * c, s.parts);
    ff_norm_gradients(g->norm_scale, g->norm_offset, s.grad_norm, pair, rows, a.c_z, s.parts);
}

template <class T>
void project_backward(float *grad_pair, const Params *grad_w, const void *grad_left,
                      const void *grad_right, const void *left, const void *right, const float *pair,
                      const Params *w, const Args *args, void *scratch)
{
    const int64_t positions = args->num_i * args->num_j, c = args->c_hidden;
    Scratch<T> s;
    s.carve(*args, true, scratch);
    for (int64_t first = 0; first < positions; first += FF_ROW_CHUNK) {
        const int64_t rows = ff_min(FF_ROW_CHUNK, positions - first);
        ProjectGradient<T> p;
        p.pair = ff_measure(s.stats, pair, pair_rows(*args), first, rows, args->c_z, w->norm_scale,
                            w->norm_offset);
        p.w = *w;
        p.mask = make_mask(*args);
        p.left_in = static_cast<const T *>(left);
        p.right_in = static_cast<const T *>(right);
        p.grad_left = static_cast<const T *>(grad_left);
        p.grad_right = static_cast<const T *>(grad_right);
        p.grads = s.grads;
        p.positions = positions;
        p.c_hidden = c;
        p.first = first;
        ff_matmul<T>(p, 1, rows, 2 * c, args->c_z);
        ProjectNormGradient<T> n;
        n.grads = s.grads;
        n.w = *w;
        n.grad_norm = s.grad_norm;
        n.c_hidden = c;
        n.c_z = args->c_z;
        ff_matmul<T>(n, 1, rows, args->c_z, 4 * c);
        if (grad_w != nullptr)
            project_parameters<T>(grad_w, s, p.pair, *args, rows);
        ff_norm_backward(grad_pair, s.grad_norm, nullptr, p.pair, rows, args->c_z);
    }
}

/* ---- 2. product ---- */

/* Rows j of several arrays [c_hidden, rows, num_k]. */
template <class T>
struct Blocks {
    const T *data[MAX_BLOCKS];
    int64_t end[MAX_BLOCKS]; /* row after the block's last */
    int num_blocks;
    int64_t num_k;

    FF_DEVICE float value(int64_t channel, int64_t j, int64_t k) const
    {
        int b = 0;
        while (j >= end[b])
            b++;
        const int64_t first = b == 0 ? 0 : end[b - 1], rows = end[b] - first;
        return ff_to_float(data[b][(channel * rows + j - first) * num_k + k]);
    }
};

template <class T>
Blocks<T> make_blocks(const ff_triangle_product_args &a)
{
    Blocks<T> blocks = {};
    int64_t end = 0;
    blocks.num_k = a.num_k;
    for (int64_t b = 0; b < a.num_blocks; b++) {
        if (a.blocks[b].rows == 0)
            continue;
        end += a.blocks[b].rows;
        blocks.data[blocks.num_blocks] = static_cast<const T *>(a.blocks[b].data);
        blocks.end[blocks.num_blocks++] = end;
    }
    return blocks;
}

/* t[c, i, j] = sum_k a[c, i, k] b[c, j, k]; z counts channels from `channel` on, a and t start at the first of them */
template <class T>
struct ProductProblem : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const T *a;
    T *t;
    Blocks<T> b;
    int64_t num_i, num_j, channel;

    FF_DEVICE float left(int, int64_t z, int64_t i, int64_t k) const
    {
        return ff_to_float(a[(z * num_i + i) * b.num_k + k]);
    }
    FF_DEVICE float right(int, int64_t z, int64_t k, int64_t j) const
    {
        return b.value(channel + z, j, k);
    }
    FF_DEVICE void store(int64_t z, int64_t i, int64_t j, const float (&value)[1]) const
    {
        t[(z * num_i + i) * num_j + j] = ff_from_float<T>(value[0]);
    }
};

/* grad_a[c, i, k] = sum_j grad_t[c, i, j] b[c, j, k] */
template <class T>
struct LeftGradient : ff_matmul_traits {
    const T *grad_t;
    T *grad_a;
    Blocks<T> b;
    int64_t num_i, num_j, channel;

    FF_DEVICE float left(int, int64_t z, int64_t i, int64_t j) const
    {
        return ff_to_float(grad_t[(z * num_i + i) * num_j + j]);
    }
    FF_DEVICE float right(int, int64_t z, int64_t j, int64_t k) const
    {
        return b.value(channel + z, j, k);
    }
    FF_DEVICE void store(int64_t z, int64_t i, int64_t k, const float (&value)[1]) const
    {
        grad_a[(z * num_i + i) * b.num_k + k] = ff_from_float<T>(value[0]);
    }
};

/* grad_b[c, j, k] = sum_i grad_t[c, i, first + j] a[c, i, k] of one block */
template <class T>
struct RightGradient : ff_matmul_traits {
    static constexpr bool kLeftDeep = false;
    const T *grad_t, *a;
    T *grad_b;
    int64_t num_i, num_j, num_k, first, rows;

    FF_DEVICE float left(int, int64_t z, int64_t j, int64_t i) const
    {
        return ff_to_float(grad_t[(z * num_i + i) * num_j + first + j]);
    }
    FF_DEVICE float right(int, int64_t z, int64_t i, int64_t k) const
    {
        return ff_to_float(a[(z * num_i + i) * num_k + k]);
    }
    FF_DEVICE void store(int64_t z, int64_t j, int64_t k, const float (&value)[1]) const
    {
        grad_b[(z * rows + j) * num_k + k] = ff_from_float<T>(value[0]);
    }
};

template <class T>
struct Copy {
    T *to;
    const T *from;
    FF_DEVICE void operator()(int64_t i) const { to[i] = from[i]; }
};

int64_t product_columns(const ff_triangle_product_args &a)
{
    int64_t num_j = 0;
    for (int64_t b = 0; b < a.num_blocks; b++)
        num_j += a.blocks[b].rows;
    return num_j;
}

/* Channels whose input is in scratch at a time, when a product is in place. */
template <class T>
int64_t channel_group(const ff_triangle_product_args &a)
{
    const int64_t bytes = a.num_i * ff_max(a.num_k, product_columns(a)) * static_cast<int64_t>(sizeof(T));
    return ff_max(1, ff_min(a.c_hidden, GROUP_BYTES / ff_max(1, bytes)));
}

template <class T>
size_t product_scratch_bytes(const ff_triangle_product_args *a, bool)
{
    return static_cast<size_t>(channel_group<T>(*a) * a->num_i *
                               ff_max(a->num_k, product_columns(*a))) *
           sizeof(T);
}

template <class T>
void product_forward(void *t, const void *a, const ff_triangle_product_args *args, void *scratch)
{
    const int64_t num_j = product_columns(*args);
    const bool in_place = t == a;
    const int64_t group = in_place ? channel_group<T>(*args) : args->c_hidden;
    ProductProblem<T> p;
    p.b = make_blocks<T>(*args);
    p.num_i = args->num_i;
    p.num_j = num_j;
    for (p.channel = 0; p.channel < args->c_hidden; p.channel += group) {
        const int64_t channels = ff_min(group, args->c_hidden - p.channel);
        p.a = static_cast<const T *>(a) + p.channel * args->num_i * args->num_k;
        p.t = static_cast<T *>(t) + p.channel * args->num_i * num_j;
        if (in_place) {
            ff_for_each(Copy<T>{static_cast<T *>(scratch), p.a}, channels * args->num_i * args->num_k);
            p.a = static_cast<const T *>(scratch);
        }
        ff_matmul<T>(p, channels, args->num_i, num_j, args->num_k);
    }
}

template <class T>
void product_backward(void *grad_a, void *const *grad_b, const void *grad_t, const void *a,
                      const ff_triangle_product_args *args, void *scratch)
{
    const int64_t num_j = product_columns(*args);
    const bool in_place = grad_a == grad_t;
    const int64_t group = in_place ? channel_group<T>(*args) : args->c_hidden;
    RightGradient<T> r;
    r.grad_t = static_cast<const T *>(grad_t);
    r.a = static_cast<const T *>(a);
    r.num_i = args->num_i;
    r.num_j = num_j;
    r.num_k = args->num_k;
    r.first = 0;
    for (int64_t b = 0; b < args->num_blocks; b++) {
        r.grad_b = static_cast<T *>(grad_b[b]);
        r.rows = args->blocks[b].rows;
        ff_matmul<T>(r, args->c_hidden, r.rows, args->num_k, args->num_i);
        r.first += r.rows;
    }
    LeftGradient<T> p;
    p.b = make_blocks<T>(*args);
    p.num_i = args->num_i;
    p.num_j = num_j;
    for (p.channel = 0; p.channel < args->c_hidden; p.channel += group) {
        const int64_t channels = ff_min(group, args->c_hidden - p.channel);
        p.grad_t = static_cast<const T *>(grad_t) + p.channel * args->num_i * num_j;
        p.grad_a = static_cast<T *>(grad_a) + p.channel * args->num_i * args->num_k;
        if (in_place) {
            ff_for_each(Copy<T>{static_cast<T *>(scratch), p.grad_t}, channels * args->num_i * num_j);
            p.grad_t = static_cast<const T *>(scratch);
        }
        ff_matmul<T>(p, channels, args->num_i, args->num_k, num_j);
    }
}

/* ---- 3. output ---- */

/* t [c_hidden, positions] through the layer norm over its channels. */
template <class T>
struct CenterNormed {
    const T *t;
    const float2 *stats;
    const float *scale, *shift;
    int64_t positions, first;

    FF_DEVICE float raw(int64_t r, int64_t c) const
    {
        return ff_to_float(t[c * positions + first + r]);
    }
    FF_DEVICE float hat(int64_t r, int64_t c) const
    {
        const float2 s = stats[r];
        return (raw(r, c) - s.x) * s.y;
    }
    FF_DEVICE float value(int64_t r, int64_t c) const { return fmaf(hat(r, c), scale[c], shift[c]); }
};

/* One thread per position, so that a warp reads neighbouring positions of a channel. */
template <class T>
struct MeasureCenter {
    CenterNormed<T> t;
    float2 *stats;
    int64_t c_hidden;

    FF_DEVICE void operator()(int64_t r) const
    {
        float sum = 0.0f, squares = 0.0f;
        for (int64_t c = 0; c < c_hidden; c++)
            sum += t.raw(r, c);
        const float mean = sum / static_cast<float>(c_hidden);
        for (int64_t c = 0; c < c_hidden; c++)
            squares = fmaf(t.raw(r, c) - mean, t.raw(r, c) - mean, squares);
        stats[r] = float2{mean, 1.0f / sqrtf(squares / static_cast<float>(c_hidden) +
                                             FF_LAYER_NORM_EPSILON)};
    }
};

template <class T>
CenterNormed<T> measure_center(float2 *stats, const void *t, const Params *w, const Args &a,
                               int64_t first, int64_t rows)
{
    const CenterNormed<T> center = {static_cast<const T *>(t), stats,
                                    w->center_norm_scale,      w->center_norm_offset,
                                    a.num_i * a.num_j,         first};
    ff_for_each(MeasureCenter<T>{center, stats, a.c_hidden}, rows);
    return center;
}

/* Phase 0: the update LN(t) output_projection, phase 1: its gate LN(pair) gating_linear. */
template <class T>
struct OutputProblem : ff_matmul_traits {
    static constexpr int kPhases = 2;
    static constexpr bool kLeftDeep = false;
    CenterNormed<T> center;
    ff_normed pair;
    Params w;
    Args a;
    float *out;            /* forward */
    const float *grad_out; /* backward: gradients of both products go to grads [rows, 2 c_z] */
    T *grads;

    FF_DEVICE float left(int phase, int64_t, int64_t r, int64_t k) const
    {
        return phase == 0 ? center.value(r, k) : pair.value(r, k);
    }
    FF_DEVICE float right(int phase, int64_t, int64_t k, int64_t n) const
    {
        return (phase == 0 ? w.output_projection_w : w.gating_linear_w)[k * a.c_z + n];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[2]) const
    {
        const int64_t at = pair.rows.offset(pair.first + r) + n;
        const float y = value[0] + w.output_projection_b[n],
                    s = ff_sigmoid(value[1] + w.gating_linear_b[n]);
        const float keep =
            a.dropout == nullptr ? 1.0f : a.dropout[(pair.first + r) % a.num_j * a.c_z + n];
        if (grads == nullptr) {
            out[at] = a.residual ? pair.x[at] + keep * (y * s) : keep * (y * s);
            return;
        }
        const float g = keep * grad_out[at];
        grads[r * 2 * a.c_z + n] = ff_from_float<T>(g * s);
        grads[r * 2 * a.c_z + a.c_z + n] = ff_from_float<T>(g * y * s * (1.0f - s));
    }
};

/* In place, a tile of results overwrites what other tiles normalise: the gates come first, in a launch of their own. */
template <class T>
struct GateProblem : ff_matmul_traits {
    ff_normed pair;
    Params w;
    T *gates; /* [rows, c_z] */
    int64_t c_z;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return pair.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return w.gating_linear_w[k * c_z + n];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        gates[r * c_z + n] = ff_from_float<T>(ff_sigmoid(value[0] + w.gating_linear_b[n]));
    }
};

template <class T>
struct GatedUpdateProblem : ff_matmul_traits {
    static constexpr bool kLeftDeep = false;
    CenterNormed<T> center;
    ff_normed pair;
    Params w;
    Args a;
    float *out;
    const T *gates;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return center.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return w.output_projection_w[k * a.c_z + n];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const int64_t at = pair.rows.offset(pair.first + r) + n;
        float update = (value[0] + w.output_projection_b[n]) * ff_to_float(gates[r * a.c_z + n]);
        if (a.dropout != nullptr)
            update *= a.dropout[(pair.first + r) % a.num_j * a.c_z + n];
        out[at] = a.residual ? pair.x[at] + update : update;
    }
};

template <class T>
void output_in_place(float *out, const void *t, const Params *w, const Args *args,
                     const Scratch<T> &s)
{
    const int64_t positions = args->num_i * args->num_j;
    for (int64_t first = 0; first < positions; first += FF_ROW_CHUNK) {
        const int64_t rows = ff_min(FF_ROW_CHUNK, positions - first);
        GateProblem<T> g;
        g.pair = ff_measure(s.stats, out, pair_rows(*args), first, rows, args->c_z, w->norm_scale,
                            w->norm_offset);
        g.w = *w;
        g.gates = s.grads;
        g.c_z = args->c_z;
        ff_matmul<T>(g, 1, rows, args->c_z, args->c_z);
        GatedUpdateProblem<T> p;
        p.center = measure_center<T>(s.center_stats, t, w, *args, first, rows);
        p.pair = g.pair;
        p.w = *w;
        p.a = *args;
        p.out = out;
        p.gates = s.grads;
        ff_matmul<T>(p, 1, rows, args->c_z, args->c_hidden);
    }
}

template <class T>
void output_forward(float *out, const float *pair, const void *t, const Params *w, const Args *args,
                    void *scratch)
{
    const int64_t positions = args->num_i * args->num_j;
    Scratch<T> s;
    s.carve(*args, false, scratch);
    if (out == pair && args->c_z > FF_TILE_COLUMNS) {
        output_in_place<T>(out, t, w, args, s);
        return;
    }
    OutputProblem<T> p = {};
    p.center = measure_center<T>(s.center_stats, t, w, *args, 0, positions);
    p.pair = ff_measure(s.stats, pair, pair_rows(*args), 0, positions, args->c_z, w->norm_scale,
                        w->norm_offset);
    p.w = *w;
    p.a = *args;
    p.out = out;
    ff_matmul<T>(p, 1, positions, args->c_z, args->c_hidden, args->c_z);
}

/* Gradient of a layer norm's result from columns first .. first + c_z - 1 of grads, times weights [columns, c_z]^T;
 * kChannels: stored as [column, row]. */
template <class T, bool kChannels>
struct OutputNormGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true, kStoreRows = kChannels;
    const T *grads;
    const float *weights;
    float *grad;
    int64_t c_z, first, rows, columns;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(grads[r * 2 * c_z + first + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return weights[n * c_z + k]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad[kChannels ? n * rows + r : r * columns + n] = value[0];
    }
};

/* grad_t of one position; grad [c_hidden, rows]. grad_t may be t. */
template <class T>
struct CenterBackward {
    CenterNormed<T> t;
    const float *grad;
    T *grad_t;
    int64_t rows, c_hidden;

    FF_DEVICE void operator()(int64_t r) const
    {
        float sum = 0.0f, dot = 0.0f;
        for (int64_t c = 0; c < c_hidden; c++) {
            const float d = grad[c * rows + r] * t.scale[c];
            sum += d;
            dot = fmaf(d, t.hat(r, c), dot);
        }
        sum /= static_cast<float>(c_hidden);
        dot /= static_cast<float>(c_hidden);
        for (int64_t c = 0; c < c_hidden; c++) {
            const float d = grad[c * rows + r] * t.scale[c] - sum - t.hat(r, c) * dot;
            grad_t[c * t.positions + t.first + r] = ff_from_float<T>(t.stats[r].y * d);
        }
    }
};

template <class T>
struct CenterProducts {
    static constexpr int kValues = 2;
    CenterNormed<T> t;
    const float *grad;
    int64_t rows;

    FF_DEVICE void values(int64_t r, int64_t c, float (&v)[2]) const
    {
        v[1] = grad[c * rows + r];
        v[0] = v[1] * t.hat(r, c);
    }
};

template <class T>
void output_parameters(const Params *g, const Scratch<T> &s, const OutputProblem<T> &p, int64_t rows)
{
    const int64_t c = p.a.c_hidden, c_z = p.a.c_z;
    const ff_matrix<T> update = {s.grads, 2 * c_z}, gate = {s.grads + c_z, 2 * c_z};
    ff_reduce_target projection = {}, gating = {}, biases = {}, center = {};
    projection.add(g->output_projection_w, c_z, c_z);
    gating.add(g->gating_linear_w, c_z, c_z);
    biases.add(g->output_projection_b, c_z, c_z);
    biases.add(g->gating_linear_b, c_z, c_z);
    center.add(g->center_norm_scale, c, c);
    center.add(g->center_norm_offset, c, c);
    ff_weight_gradient<T>(projection, p.center, update, c, c_z, rows, s.parts);
    ff_weight_gradient<T>(gating, p.pair, gate, c_z, c_z, rows, s.parts);
    ff_column_sums(biases, update, rows, 2 * c_z, s.parts);
    ff_column_sums(center, CenterProducts<T>{p.center, s.grad_center, rows}, rows, c, s.parts);
    ff_norm_gradients(g->norm_scale, g->norm_offset, s.grad_norm, p.pair, rows, c_z, s.parts);
}

template <class T>
void output_backward(void *grad_t, float *grad_pair, const Params *grad_w, const float *grad_out,
                     const float *pair, const void *t, const Params *w, const Args *args,
                     void *scratch)
{
    const int64_t positions = args->num_i * args->num_j, c = args->c_hidden, c_z = args->c_z;
    Scratch<T> s;
    s.carve(*args, true, scratch);
    for (int64_t first = 0; first < positions; first += FF_ROW_CHUNK) {
        const int64_t rows = ff_min(FF_ROW_CHUNK, positions - first);
        OutputProblem<T> p = {};
        p.center = measure_center<T>(s.center_stats, t, w, *args, first, rows);
        p.pair = ff_measure(s.stats, pair, pair_rows(*args), first, rows, c_z, w->norm_scale,
                            w->norm_offset);
        p.w = *w;
        p.a = *args;
        p.grad_out = grad_out;
        p.grads = s.grads;
        ff_matmul<T>(p, 1, rows, c_z, c, c_z);
        OutputNormGradient<T, true> center;
        center.grads = s.grads;
        center.weights = w->output_projection_w;
        center.grad = s.grad_center;
        center.c_z = c_z;
        center.first = 0;
        center.rows = rows;
        center.columns = c;
        ff_matmul<T>(center, 1, rows, c, c_z);
        OutputNormGradient<T, false> norm;
        norm.grads = s.grads;
        norm.weights = w->gating_linear_w;
        norm.grad = s.grad_norm;
        norm.c_z = c_z;
        norm.first = c_z;
        norm.rows = rows;
        norm.columns = c_z;
        ff_matmul<T>(norm, 1, rows, c_z, c_z);
        if (grad_w != nullptr)
            output_parameters<T>(grad_w, s, p, rows);
        ff_for_each(CenterBackward<T>{p.center, s.grad_center, static_cast<T *>(grad_t), rows, c},
                    rows);
        ff_norm_backward(grad_pair, s.grad_norm,
                         args->residual && grad_pair != grad_out ? grad_out : nullptr, p.pair, rows,
                         c_z);
    }
}

/* ---- 4. scratch, table ---- */

template <class T>
size_t scratch_bytes(const Args *args, bool backward)
{
    Scratch<T> s;
    return s.carve(*args, backward, nullptr);
}

template <class T>
void fill(ff_kernels *table)
{
    table->triangle_multiplication_project_forward = project_forward<T>;
    table->triangle_multiplication_project_backward = project_backward<T>;
    table->triangle_multiplication_product_forward = product_forward<T>;
    table->triangle_multiplication_product_backward = product_backward<T>;
    table->triangle_multiplication_output_forward = output_forward<T>;
    table->triangle_multiplication_output_backward = output_backward<T>;
    table->triangle_multiplication_scratch_bytes = scratch_bytes<T>;
    table->triangle_product_scratch_bytes = product_scratch_bytes<T>;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_triangle)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
