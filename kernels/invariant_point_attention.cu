/* invariant_point_attention.cu - CUDA side of the table's invariant_point_attention entries (Suppl. Alg. 22 lines 4-10);
 * float32 in every table.
 *
 * Contents: layout; operands; weights and results; gradients of one query row; gradients of keys and values; entries.
 *
 * Small next to the trunk, so many plain launches. Keys lie as [head][channel][residue], values and their global points as
 * [head][residue][channel]. Weights and their gradients are stored, [num_query, num_head, num_res] each. Whatever heads or
 * queries share (frames, keys, values) is summed by one owner in a fixed order. */
#include "kernels/matmul.cuh"

namespace
{

constexpr float BIAS_FACTOR = 0.57735026919f; /* 3^-1/2 */
constexpr float LENGTH_EPSILON = 1e-8f;

/* ---- layout ---- */

struct Ipa {
    ff_ipa_args a;
    ff_ipa_arrays x, grad;
    int64_t ck, cv; /* channels of a key (scalars, then points x y z) and of a value */
    float *keys, *values, *queries; /* [head][ck][res], [head][res][cv], [query][head][ck] (scalars scaled) */
    float *weights, *sums;          /* [query][head][res], [query][head][cv] */
    float *grad_weights, *grad_sums, *grad_factor; /* as weights (becomes that of logits), as sums, [query][head] */
    float *grad_keys;               /* [head][ck + cv][res] */
    float *frame_parts;             /* [max(query, res)][head][12] */
    float *out;
    const float *grad_out;

    size_t carve(const ff_ipa_args &args, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        a = args;
        ck = a.c_scalar_qk + 3 * a.num_point_qk;
        cv = a.c_scalar_v + 3 * a.num_point_v;
        const int64_t rows = a.num_query * a.num_head;
        keys = arena.take<float>(a.num_head * ck * a.num_res);
        values = arena.take<float>(a.num_head * a.num_res * cv);
        queries = arena.take<float>(rows * ck);
        weights = arena.take<float>(rows * a.num_res);
        sums = arena.take<float>(rows * cv);
        if (!backward)
            return arena.used;
        grad_weights = arena.take<float>(rows * a.num_res);
        grad_sums = arena.take<float>(rows * cv);
        grad_factor = arena.take<float>(rows);
        grad_keys = arena.take<float>(a.num_head * (ck + cv) * a.num_res);
        frame_parts = arena.take<float>(ff_max(a.num_query, a.num_res) * a.num_head * 12);
        return arena.used;
    }

    FF_DEVICE int64_t width() const
    {
        return a.num_head * (a.c_scalar_v + 4 * a.num_point_v + a.c_z);
    }
    /* where a row of out has its points (x of head 0) and its pair sums */
    FF_DEVICE int64_t points_at() const { return a.num_head * a.c_scalar_v; }
    FF_DEVICE int64_t pair_at() const { return points_at() + 4 * a.num_head * a.num_point_v; }
    FF_DEVICE float scalar_factor() const
    {
        return sqrtf(1.0f / (3.0f * static_cast<float>(a.c_scalar_qk)));
    }
    /* of squared distances without the softplus */
    FF_DEVICE float distance_factor() const
    {
        return sqrtf(1.0f / (3.0f * static_cast<float>(a.num_point_qk) * 4.5f));
    }
    FF_DEVICE float factor(int64_t h) const
    {
        const float gamma = x.gamma[h]; /* log(1 + e^gamma) without overflow */
        return distance_factor() * (fmaxf(gamma, 0.0f) + log1pf(expf(-fabsf(gamma))));
    }
};

/* ---- operands ---- */

/* Local point `index` of [3][plane] in the global frame. */
FF_DEVICE void to_global(float (&out)[3], const float *local, const float *frame, int64_t index,
                         int64_t plane)
{
    const float x = local[index], y = local[plane + index], z = local[2 * plane + index];
    for (int i = 0; i < 3; i++)
        out[i] = frame[3 * i] * x + frame[3 * i + 1] * y + frame[3 * i + 2] * z + frame[9 + i];
}

/* Its gradients: of the local coordinates, and of the frame. */
FF_DEVICE void to_global_backward(float *grad_local, float *grad_frame, const float (&g)[3],
                                  const float *local, const float *frame, int64_t index, int64_t plane)
{
    for (int k = 0; k < 3; k++)
        grad_local[k * plane + index] += frame[k] * g[0] + frame[3 + k] * g[1] + frame[6 + k] * g[2];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            grad_frame[3 * i + k] += g[i] * local[k * plane + index];
        grad_frame[9 + i] += g[i];
    }
}

/* A global point in a frame. */
FF_DEVICE void to_local(float (&out)[3], const float *g, const float *frame)
{
    const float x = g[0] - frame[9], y = g[1] - frame[10], z = g[2] - frame[11];
    for (int k = 0; k < 3; k++)
        out[k] = frame[k] * x + frame[3 + k] * y + frame[6 + k] * z;
}

/* Element = (head, residue) */
struct PrepareKeys {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t h = at / p.a.num_res, j = at % p.a.num_res, qk = p.a.c_scalar_qk,
                      v = p.a.c_scalar_v, pk = p.a.num_point_qk, points = pk + p.a.num_point_v;
        const float *scalar = p.x.kv_scalar + (j * p.a.num_head + h) * (qk + v);
        float *key = p.keys + h * p.ck * p.a.num_res + j, *value = p.values + at * p.cv;
        for (int64_t c = 0; c < qk; c++)
            key[c * p.a.num_res] = scalar[c];
        for (int64_t c = 0; c < v; c++)
            value[c] = scalar[qk + c];
        for (int64_t i = 0; i < points; i++) {
            float g[3];
            to_global(g, p.x.kv_point + j * 3 * p.a.num_head * points, p.x.frames + 12 * j,
                      h * points + i, p.a.num_head * points);
            for (int d = 0; d < 3; d++) {
                if (i < pk)
                    key[(qk + 3 * i + d) * p.a.num_res] = g[d];
                else
                    value[v + 3 * (i - pk) + d] = g[d];
            }
        }
    }
};

/* Element = (query, head) */
struct PrepareQueries {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t i = at / p.a.num_head, h = at % p.a.num_head, qk = p.a.c_scalar_qk,
                      pk = p.a.num_point_qk, plane = p.a.num_head * pk;
        float *q = p.queries + at * p.ck;
        for (int64_t c = 0; c < qk; c++)
            q[c] = p.scalar_factor() * p.x.q_scalar[at * qk + c];
        for (int64_t k = 0; k < pk; k++) {
            float g[3];
            to_global(g, p.x.q_point + i * 3 * plane, p.x.frames_query + 12 * i, h * pk + k, plane);
            for (int d = 0; d < 3; d++)
                q[qk + 3 * k + d] = g[d];
        }
    }
};

/* ---- weights and results ---- */

enum { WARPS = 4 };

/* One warp per (query, head): softmax of its logits. The mask's term lacks what is the same for all keys, in which a
 * masked query would lose its digits. */
__global__ void __launch_bounds__(WARPS *FF_WARP) make_weights(Ipa p)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t at = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP;
         at < p.a.num_query * p.a.num_head; at += static_cast<int64_t>(gridDim.x) * WARPS) {
        const int64_t i = at / p.a.num_head, h = at % p.a.num_head, n = p.a.num_res;
        const float *q = p.queries + at * p.ck, *keys = p.keys + h * p.ck * n;
        const float half = -0.5f * p.factor(h), masked = -1e5f * p.a.mask_query[i];
        float *row = p.weights + at * n, maximum = -INFINITY, sum = 0.0f;
        for (int64_t j = lane; j < n; j += FF_WARP) {
            float dot = 0.0f, square = 0.0f;
            for (int64_t c = 0; c < p.a.c_scalar_qk; c++)
                dot = fmaf(q[c], keys[c * n + j], dot);
            for (int64_t c = p.a.c_scalar_qk; c < p.ck; c++) {
                const float gap = q[c] - keys[c * n + j];
                square = fmaf(gap, gap, square);
            }
            row[j] = fmaf(half, square, dot) + BIAS_FACTOR * p.x.bias[(i * n + j) * p.a.num_head + h] +
                     masked * (1.0f - p.a.mask[j]);
            maximum = fmaxf(maximum, row[j]);
        }
        maximum = ff_warp_max(maximum);
        for (int64_t j = lane; j < n; j += FF_WARP) {
            row[j] = expf(row[j] - maximum);
            sum += row[j];
        }
        const float scale = 1.0f / ff_warp_sum(sum);
        for (int64_t j = lane; j < n; j += FF_WARP)
            row[j] *= scale;
    }
}

/* Element = (query, head, value channel) */
struct SumValues {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t row = at / p.cv, c = at % p.cv, h = row % p.a.num_head, n = p.a.num_res;
        float sum = 0.0f;
        for (int64_t j = 0; j < n; j++)
            sum = fmaf(p.weights[row * n + j], p.values[(h * n + j) * p.cv + c], sum);
        p.sums[at] = sum;
    }
};

/* Element = (query, head): scalars, points in the query's frame, their lengths */
struct StoreSums {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t i = at / p.a.num_head, h = at % p.a.num_head, v = p.a.c_scalar_v,
                      plane = p.a.num_head * p.a.num_point_v;
        const float *sum = p.sums + at * p.cv;
        float *o = p.out + i * p.width();
        for (int64_t c = 0; c < v; c++)
            o[h * v + c] = sum[c];
        for (int64_t k = 0; k < p.a.num_point_v; k++) {
            float l[3], *to = o + p.points_at() + h * p.a.num_point_v + k;
            to_local(l, sum + v + 3 * k, p.x.frames_query + 12 * i);
            for (int d = 0; d < 3; d++)
                to[d * plane] = l[d];
            to[3 * plane] = sqrtf(LENGTH_EPSILON + l[0] * l[0] + l[1] * l[1] + l[2] * l[2]);
        }
    }
};

/* Element = (query, head, pair channel) */
struct SumPair {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t row = at / p.a.c_z, c = at % p.a.c_z, i = row / p.a.num_head,
                      h = row % p.a.num_head, n = p.a.num_res;
        float sum = 0.0f;
        for (int64_t j = 0; j < n; j++)
            sum = fmaf(p.weights[row * n + j], p.x.pair[(i * n + j) * p.a.c_z + c], sum);
        p.out[i * p.width() + p.pair_at() + h * p.a.c_z + c] = sum;
    }
};

/* ---- gradients of one query row ---- */

/* Element = (query, head): from out's gradient to that of the sums, and a part of the query frame's. */
struct GradSums {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t i = at / p.a.num_head, h = at % p.a.num_head, v = p.a.c_scalar_v,
                      plane = p.a.num_head * p.a.num_point_v;
        const float *g = p.grad_out + i * p.width(), *frame = p.x.frames_query + 12 * i;
        float *d = p.grad_sums + at * p.cv, *grad_frame = p.frame_parts + at * 12;
        for (int k = 0; k < 12; k++)
            grad_frame[k] = 0.0f;
        for (int64_t c = 0; c < v; c++)
            d[c] = g[h * v + c];
        for (int64_t m = 0; m < p.a.num_point_v; m++) {
            const float *from = g + p.points_at() + h * p.a.num_point_v + m;
            const float *place = p.sums + at * p.cv + v + 3 * m;
            float l[3], gl[3], *back = d + v + 3 * m;
            to_local(l, place, frame);
            const float length = sqrtf(LENGTH_EPSILON + l[0] * l[0] + l[1] * l[1] + l[2] * l[2]);
            for (int k = 0; k < 3; k++)
                gl[k] = from[k * plane] + from[3 * plane] * l[k] / length;
            for (int r = 0; r < 3; r++) {
                back[r] = frame[3 * r] * gl[0] + frame[3 * r + 1] * gl[1] + frame[3 * r + 2] * gl[2];
                grad_frame[9 + r] -= back[r];
                for (int k = 0; k < 3; k++)
                    grad_frame[3 * r + k] += (place[r] - frame[9 + r]) * gl[k];
            }
        }
    }
};

/* Element = (query, head, residue) */
struct GradWeights {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t n = p.a.num_res, row = at / n, j = at % n, i = row / p.a.num_head,
                      h = row % p.a.num_head;
        const float *value = p.values + (h * n + j) * p.cv, *d = p.grad_sums + row * p.cv;
        const float *g = p.grad_out + i * p.width() + p.pair_at() + h * p.a.c_z;
        const float *pair = p.x.pair + (i * n + j) * p.a.c_z;
        float sum = 0.0f;
        for (int64_t c = 0; c < p.cv; c++)
            sum = fmaf(value[c], d[c], sum);
        for (int64_t c = 0; c < p.a.c_z; c++)
            sum = fmaf(g[c], pair[c], sum);
        p.grad_weights[at] = sum;
    }
};

/* Element = (query, residue, pair channel) */
struct GradPair {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t c = at % p.a.c_z, position = at / p.a.c_z, i = position / p.a.num_res,
                      j = position % p.a.num_res;
        const float *g = p.grad_out + i * p.width() + p.pair_at() + c;
        float sum = 0.0f;
        for (int64_t h = 0; h < p.a.num_head; h++)
            sum = fmaf(p.weights[(i * p.a.num_head + h) * p.a.num_res + j], g[h * p.a.c_z], sum);
        p.grad.pair[at] += sum;
    }
};

/* One warp per (query, head): through the softmax, then to the query's scalars, points and frame part. */
__global__ void __launch_bounds__(WARPS *FF_WARP) query_backward(Ipa p)
{
    const int lane = threadIdx.x % FF_WARP;
    for (int64_t at = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / FF_WARP;
         at < p.a.num_query * p.a.num_head; at += static_cast<int64_t>(gridDim.x) * WARPS) {
        const int64_t i = at / p.a.num_head, h = at % p.a.num_head, n = p.a.num_res,
                      qk = p.a.c_scalar_qk, pk = p.a.num_point_qk, plane = p.a.num_head * pk;
        const float *w = p.weights + at * n, *q = p.queries + at * p.ck, *keys = p.keys + h * p.ck * n;
        float *g = p.grad_weights + at * n, dot = 0.0f, squares = 0.0f;
        for (int64_t j = lane; j < n; j += FF_WARP)
            dot = fmaf(w[j], g[j], dot);
        dot = ff_warp_sum(dot);
        for (int64_t j = lane; j < n; j += FF_WARP) {
            g[j] = w[j] * (g[j] - dot);
            p.grad.bias[(i * n + j) * p.a.num_head + h] += BIAS_FACTOR * g[j];
        }
        for (int64_t c = 0; c < qk; c++) {
            float sum = 0.0f;
            for (int64_t j = lane; j < n; j += FF_WARP)
                sum = fmaf(g[j], keys[c * n + j], sum);
            sum = ff_warp_sum(sum);
            if (lane == 0)
                p.grad.q_scalar[at * qk + c] += p.scalar_factor() * sum;
        }
        for (int64_t k = 0; k < pk; k++) {
            float place[3];
            for (int d = 0; d < 3; d++) {
                const int64_t c = qk + 3 * k + d;
                float sum = 0.0f;
                for (int64_t j = lane; j < n; j += FF_WARP) {
                    const float gap = q[c] - keys[c * n + j];
                    sum = fmaf(g[j], gap, sum);
                    squares = fmaf(g[j] * gap, gap, squares);
                }
                place[d] = -p.factor(h) * ff_warp_sum(sum);
            }
            if (lane == 0)
                to_global_backward(p.grad.q_point + i * 3 * plane, p.frame_parts + at * 12, place,
                                   p.x.q_point + i * 3 * plane, p.x.frames_query + 12 * i, h * pk + k,
                                   plane);
        }
        squares = ff_warp_sum(squares);
        if (lane == 0)
            p.grad_factor[at] = -0.5f * squares;
    }
}

/* Element = (row, entry of the frame): parts of its heads in their order. */
struct SumFrames {
    const float *parts;
    float *grad;
    int64_t num_head;
    FF_DEVICE void operator()(int64_t at) const
    {
        float sum = 0.0f;
        for (int64_t h = 0; h < num_head; h++)
            sum += parts[(at / 12 * num_head + h) * 12 + at % 12];
        grad[at] += sum;
    }
};

/* ---- gradients of keys and values ---- */

/* Element = (head, channel of key or value, residue) */
struct GradKeys {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t n = p.a.num_res, j = at % n, c = at / n % (p.ck + p.cv),
                      h = at / (n * (p.ck + p.cv));
        float sum = 0.0f;
        if (c >= p.ck) {
            for (int64_t i = 0; i < p.a.num_query; i++) {
                const int64_t row = i * p.a.num_head + h;
                sum = fmaf(p.weights[row * n + j], p.grad_sums[row * p.cv + c - p.ck], sum);
            }
        } else {
            const bool point = c >= p.a.c_scalar_qk;
            const float key = point ? p.keys[(h * p.ck + c) * n + j] : 0.0f;
            for (int64_t i = 0; i < p.a.num_query; i++) {
                const int64_t row = i * p.a.num_head + h;
                sum = fmaf(p.grad_weights[row * n + j], p.queries[row * p.ck + c] - key, sum);
            }
            sum *= point ? p.factor(h) : 1.0f;
        }
        p.grad_keys[at] = sum;
    }
};

/* Element = (residue, head) */
struct ScatterKeys {
    Ipa p;
    FF_DEVICE void operator()(int64_t at) const
    {
        const int64_t j = at / p.a.num_head, h = at % p.a.num_head, n = p.a.num_res,
                      qk = p.a.c_scalar_qk, v = p.a.c_scalar_v, pk = p.a.num_point_qk,
                      points = pk + p.a.num_point_v, plane = p.a.num_head * points;
        const float *g = p.grad_keys + h * (p.ck + p.cv) * n + j;
        float *scalar = p.grad.kv_scalar + at * (qk + v), *grad_frame = p.frame_parts + at * 12;
        for (int k = 0; k < 12; k++)
            grad_frame[k] = 0.0f;
        for (int64_t c = 0; c < qk; c++)
            scalar[c] += g[c * n];
        for (int64_t c = 0; c < v; c++)
            scalar[qk + c] += g[(p.ck + c) * n];
        for (int64_t k = 0; k < points; k++) {
            float place[3];
            for (int d = 0; d < 3; d++)
                place[d] = g[(k < pk ? qk + 3 * k + d : p.ck + v + 3 * (k - pk) + d) * n];
            to_global_backward(p.grad.kv_point + j * 3 * plane, grad_frame, place,
                               p.x.kv_point + j * 3 * plane, p.x.frames + 12 * j, h * points + k,
                               plane);
        }
    }
};

/* Element = head; softplus' = sigmoid */
struct GradGamma {
    Ipa p;
    FF_DEVICE void operator()(int64_t h) const
    {
        float sum = 0.0f;
        for (int64_t i = 0; i < p.a.num_query; i++)
            sum += p.grad_factor[i * p.a.num_head + h];
        p.grad.gamma[h] += p.distance_factor() * sum * ff_sigmoid(p.x.gamma[h]);
    }
};

/* ---- entries ---- */

void attend(const Ipa &p)
{
    const int64_t rows = p.a.num_query * p.a.num_head;
    ff_for_each(PrepareKeys{p}, p.a.num_head * p.a.num_res);
    ff_for_each(PrepareQueries{p}, rows);
    if (rows > 0)
        FF_LAUNCH(make_weights, ff_grid_size(ff_divide_up(rows, WARPS)), WARPS * FF_WARP, 0, p);
    ff_for_each(SumValues{p}, rows * p.cv);
}

void invariant_point_attention_forward(float *out, const ff_ipa_arrays *x, const ff_ipa_args *args,
                                       void *scratch)
{
    Ipa p = {};
    if (args->num_res == 0)
        return;
    p.carve(*args, false, scratch);
    p.x = *x;
    p.out = out;
    attend(p);
    ff_for_each(StoreSums{p}, args->num_query * args->num_head);
    ff_for_each(SumPair{p}, args->num_query * args->num_head * args->c_z);
}

void invariant_point_attention_backward(const ff_ipa_arrays *grad, const float *grad_out,
                                        const ff_ipa_arrays *x, const ff_ipa_args *args,
                                        void *scratch)
{
    Ipa p = {};
    const int64_t rows = args->num_query * args->num_head, n = args->num_res;
    if (n == 0)
        return;
    p.carve(*args, true, scratch);
    p.x = *x;
    p.grad = *grad;
    p.grad_out = grad_out;
    attend(p);
    ff_for_each(GradSums{p}, rows);
    ff_for_each(GradWeights{p}, rows * n);
    if (grad->pair != nullptr)
        ff_for_each(GradPair{p}, args->num_query * n * args->c_z);
    if (rows > 0)
        FF_LAUNCH(query_backward, ff_grid_size(ff_divide_up(rows, WARPS)), WARPS * FF_WARP, 0, p);
    ff_for_each(SumFrames{p.frame_parts, grad->frames_query, args->num_head}, args->num_query * 12);
    ff_for_each(GradKeys{p}, args->num_head * (p.ck + p.cv) * n);
    ff_for_each(ScatterKeys{p}, n * args->num_head);
    ff_for_each(SumFrames{p.frame_parts, grad->frames, args->num_head}, n * 12);
    if (grad->gamma != nullptr)
        ff_for_each(GradGamma{p}, args->num_head);
}

size_t invariant_point_attention_scratch_bytes(const ff_ipa_args *args, bool backward)
{
    Ipa p;
    return p.carve(*args, backward, nullptr);
}

} /* namespace */

extern "C" void FF_ENTRY(fill_invariant_point_attention)(ff_kernels *table)
{
    table->invariant_point_attention_forward = invariant_point_attention_forward;
    table->invariant_point_attention_backward = invariant_point_attention_backward;
    table->invariant_point_attention_scratch_bytes = invariant_point_attention_scratch_bytes;
}
