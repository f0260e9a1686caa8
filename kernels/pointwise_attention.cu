/* pointwise_attention.cu - CUDA side of the table's pointwise_attention entries (Suppl. Alg. 17): one query per position
 * of the pair, templates as keys.
 *
 * Positions are taken by chunks of n; row t n + p of keys and values is template t at position p. Projections are tiled
 * products, the softmax over a few templates is one thread per (position, head). With no template at all the update is 0. */
#include "kernels/norm.cuh"

namespace
{

typedef ff_attention_params Params;
typedef ff_pointwise_attention_args Args;

struct Scratch {
    float *q, *kv, *weights, *o;       /* [n, hc], [T n, 2 hc], [n, num_head, T], [n, hc] */
    float *grad_o, *grad_q, *grad_kv; /* as o, q, kv */
    float *parts;

    static int64_t chunk(const Args &a)
    {
        return ff_max(1, ff_min(a.num_pair, FF_ROW_CHUNK / ff_max(1, a.num_templ)));
    }

    size_t carve(const Args &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t n = chunk(a), hc = a.num_head * a.c_hidden, rows = n * a.num_templ;
        q = arena.take<float>(n * hc);
        kv = arena.take<float>(rows * 2 * hc);
        weights = arena.take<float>(rows * a.num_head);
        o = arena.take<float>(n * hc);
        if (!backward)
            return arena.used;
        grad_o = arena.take<float>(n * hc);
        grad_q = arena.take<float>(n * hc);
        grad_kv = arena.take<float>(rows * 2 * hc);
        const int64_t weights_size =
            ff_max(ff_parts_size(a.c_t, 2 * hc, rows),
                   ff_max(ff_parts_size(a.c_z, hc, n), ff_parts_size(hc, a.c_z, n)));
        parts = arena.take<float>(ff_max(weights_size, ff_sum_parts_size(n, a.c_z, 1)));
        return arena.used;
    }
};

/* 1 if any template counts, else 0 */
FF_DEVICE float any_template(const Args &a)
{
    for (int64_t t = 0; t < a.num_templ; t++)
        if (a.template_mask[t] != 0.0f)
            return 1.0f;
    return 0.0f;
}

/* Rows of templates of a chunk: row t n + p. */
struct TemplateRows {
    const float *templates; /* at the chunk's first position */
    int64_t n, num_pair, c_t;

    FF_DEVICE int64_t offset(int64_t r) const { return (r / n * num_pair + r % n) * c_t; }
    FF_DEVICE float value(int64_t r, int64_t c) const { return templates[offset(r) + c]; }
};

struct QueryProblem : ff_matmul_traits {
    const float *pair, *query_w;
    float *q;
    int64_t c_z, hc;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return pair[r * c_z + k]; }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return query_w[k * hc + n]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        q[r * hc + n] = value[0];
    }
};

struct KeyValueProblem : ff_matmul_traits {
    TemplateRows rows;
    const float *key_w, *value_w;
    float *kv;
    int64_t hc;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return rows.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return n < hc ? key_w[k * hc + n] : value_w[k * hc + n - hc];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        kv[r * 2 * hc + n] = value[0];
    }
};

/* Element i = (position, head). */
struct Attend {
    Args a;
    const float *q, *kv;
    float *weights, *o;
    int64_t n;
    /* backward */
    const float *grad_o;
    float *grad_q, *grad_kv;

    FF_DEVICE void operator()(int64_t i) const
    {
        const int64_t p = i / a.num_head, h = i % a.num_head, c = a.c_hidden, hc = a.num_head * c;
        const int64_t at = p * hc + h * c;
        float *w = weights + i * a.num_templ;
        const float scale = 1.0f / sqrtf(static_cast<float>(c));
        if (grad_o != nullptr) {
            backward(p, h, at, w, scale);
            return;
        }
        float maximum = -INFINITY, sum = 0.0f;
        for (int64_t t = 0; t < a.num_templ; t++) {
            const float *key = kv + (t * n + p) * 2 * hc + h * c;
            float logit = 0.0f;
            for (int64_t e = 0; e < c; e++)
                logit = fmaf(q[at + e], key[e], logit);
            w[t] = a.template_mask[t] == 0.0f ? FF_MASKED_LOGIT : logit * scale;
            maximum = fmaxf(maximum, w[t]);
        }
        for (int64_t t = 0; t < a.num_templ; t++) {
            w[t] = expf(w[t] - maximum);
            sum += w[t];
        }
        for (int64_t e = 0; e < c; e++)
            o[at + e] = 0.0f;
        for (int64_t t = 0; t < a.num_templ; t++) {
            w[t] /= sum;
            const float *value = kv + (t * n + p) * 2 * hc + hc + h * c;
            for (int64_t e = 0; e < c; e++)
                o[at + e] = fmaf(w[t], value[e], o[at + e]);
        }
    }

    /* Masked templates get no gradient through their logits. */
    FF_DEVICE void backward(int64_t p, int64_t h, int64_t at, const float *w, float scale) const
    {
        const int64_t c = a.c_hidden, hc = a.num_head * c;
        float delta = 0.0f;
        for (int64_t e = 0; e < c; e++) {
            delta = fmaf(grad_o[at + e], o[at + e], delta);
            grad_q[at + e] = 0.0f;
        }
        for (int64_t t = 0; t < a.num_templ; t++) {
            const int64_t key = (t * n + p) * 2 * hc + h * c, value = key + hc;
            float d = 0.0f;
            for (int64_t e = 0; e < c; e++)
                d = fmaf(grad_o[at + e], kv[value + e], d);
            d = a.template_mask[t] == 0.0f ? 0.0f : w[t] * (d - delta) * scale;
            for (int64_t e = 0; e < c; e++) {
                grad_kv[value + e] = w[t] * grad_o[at + e];
                grad_kv[key + e] = d * q[at + e];
                grad_q[at + e] = fmaf(d, kv[key + e], grad_q[at + e]);
            }
        }
    }
};

struct OutProblem : ff_matmul_traits {
    Args a;
    const float *o, *pair;
    Params w;
    float *out;
    int64_t hc;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return o[r * hc + k]; }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return w.output_w[k * a.c_z + n]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const float update = any_template(a) == 0.0f ? 0.0f : value[0] + w.output_b[n];
        out[r * a.c_z + n] = a.residual ? pair[r * a.c_z + n] + update : update;
    }
};

/* q, k, v, weights and o of positions first .. first + n - 1. */
template <class T>
Attend attend(const Scratch &s, const float *pair, const float *templates, const Params *w,
              const Args *args, int64_t first, int64_t n)
{
    const int64_t hc = args->num_head * args->c_hidden;
    QueryProblem q;
    q.pair = pair + first * args->c_z;
    q.query_w = w->query_w;
    q.q = s.q;
    q.c_z = args->c_z;
    q.hc = hc;
    ff_matmul<T>(q, 1, n, hc, args->c_z);
    KeyValueProblem k;
    k.rows = TemplateRows{templates + first * args->c_t, n, args->num_pair, args->c_t};
    k.key_w = w->key_w;
    k.value_w = w->value_w;
    k.kv = s.kv;
    k.hc = hc;
    ff_matmul<T>(k, 1, n * args->num_templ, 2 * hc, args->c_t);
    const Attend a = {*args, s.q, s.kv, s.weights, s.o, n, nullptr, nullptr, nullptr};
    ff_for_each(a, n * args->num_head);
    return a;
}

template <class T>
void pointwise_attention_forward(float *out, const float *pair, const float *templates,
                                 const Params *w, const Args *args, void *scratch)
{
    Scratch s;
    s.carve(*args, false, scratch);
    const int64_t chunk = Scratch::chunk(*args), hc = args->num_head * args->c_hidden;
    for (int64_t first = 0; first < args->num_pair; first += chunk) {
        const int64_t n = ff_min(chunk, args->num_pair - first);
        attend<T>(s, pair, templates, w, args, first, n);
        OutProblem o;
        o.a = *args;
        o.o = s.o;
        o.pair = pair + first * args->c_z;
        o.w = *w;
        o.out = out + first * args->c_z;
        o.hc = hc;
        ff_matmul<T>(o, 1, n, args->c_z, hc);
    }
}

/* ---- gradients ---- */

struct UpdateGradient {
    static constexpr int kValues = 1;
    Args a;
    const float *grad_out;

    FF_DEVICE float value(int64_t r, int64_t c) const
    {
        return any_template(a) * grad_out[r * a.c_z + c];
    }
    FF_DEVICE void values(int64_t r, int64_t c, float (&v)[1]) const { v[0] = value(r, c); }
};

struct OutGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    UpdateGradient update;
    const float *output_w;
    float *grad_o;
    int64_t hc;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return update.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return output_w[n * update.a.c_z + k];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_o[r * hc + n] = value[0];
    }
};

struct PairGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const float *grad_q, *query_w, *added; /* added: the residual's part or NULL */
    float *grad_pair;
    int64_t c_z, hc;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return grad_q[r * hc + k]; }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return query_w[n * hc + k]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const int64_t at = r * c_z + n;
        grad_pair[at] += added == nullptr ? value[0] : value[0] + added[at];
    }
};

struct TemplateGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    TemplateRows rows;
    const float *grad_kv, *key_w, *value_w;
    float *grad_templates;
    int64_t hc;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return grad_kv[r * 2 * hc + k]; }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return k < hc ? key_w[n * hc + k] : value_w[n * hc + k - hc];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_templates[rows.offset(r) + n] += value[0];
    }
};

template <class T>
void point_parameters(const Params *g, const Scratch &s, const UpdateGradient &update,
                      const TemplateRows &templates, const float *pair, const Args *args, int64_t n)
{
    const int64_t hc = args->num_head * args->c_hidden, c_z = args->c_z;
    ff_reduce_target query = {}, key_value = {}, out = {}, out_bias = {};
    query.add(g->query_w, hc, hc);
    key_value.add(g->key_w, hc, hc);
    key_value.add(g->value_w, hc, hc);
    out.add(g->output_w, c_z, c_z);
    out_bias.add(g->output_b, c_z, c_z);
    ff_weight_gradient<T>(query, ff_matrix<float>{pair, c_z}, ff_matrix<float>{s.grad_q, hc}, c_z, hc,
                          n, s.parts);
    ff_weight_gradient<T>(key_value, templates, ff_matrix<float>{s.grad_kv, 2 * hc}, args->c_t,
                          2 * hc, n * args->num_templ, s.parts);
    ff_weight_gradient<T>(out, ff_matrix<float>{s.o, hc}, update, hc, c_z, n, s.parts);
    ff_column_sums(out_bias, update, n, c_z, s.parts);
}

template <class T>
void pointwise_attention_backward(float *grad_pair, float *grad_templates, const Params *grad_w,
                                  const float *grad_out, const float *pair, const float *templates,
                                  const Params *w, const Args *args, void *scratch)
{
    Scratch s;
    s.carve(*args, true, scratch);
    const int64_t chunk = Scratch::chunk(*args), hc = args->num_head * args->c_hidden;
    for (int64_t first = 0; first < args->num_pair; first += chunk) {
        const int64_t n = ff_min(chunk, args->num_pair - first), at = first * args->c_z;
        Attend a = attend<T>(s, pair, templates, w, args, first, n);
        OutGradient o;
        o.update = UpdateGradient{*args, grad_out + at};
        o.output_w = w->output_w;
        o.grad_o = s.grad_o;
        o.hc = hc;
        ff_matmul<T>(o, 1, n, hc, args->c_z);
        a.grad_o = s.grad_o;
        a.grad_q = s.grad_q;
        a.grad_kv = s.grad_kv;
        ff_for_each(a, n * args->num_head);
        TemplateGradient t;
        t.rows = TemplateRows{templates + first * args->c_t, n, args->num_pair, args->c_t};
        t.grad_kv = s.grad_kv;
        t.key_w = w->key_w;
        t.value_w = w->value_w;
        t.hc = hc;
        if (grad_templates != nullptr) {
            t.grad_templates = grad_templates + first * args->c_t;
            ff_matmul<T>(t, 1, n * args->num_templ, args->c_t, 2 * hc);
        }
        if (grad_w != nullptr)
            point_parameters<T>(grad_w, s, o.update, t.rows, pair + at, args, n);
        if (grad_pair == nullptr)
            continue;
        PairGradient p;
        p.grad_q = s.grad_q;
        p.query_w = w->query_w;
        p.added = args->residual && grad_pair != grad_out ? grad_out + at : nullptr;
        p.grad_pair = grad_pair + at;
        p.c_z = args->c_z;
        p.hc = hc;
        ff_matmul<T>(p, 1, n, args->c_z, hc);
    }
}

size_t pointwise_attention_scratch_bytes(const Args *args, bool backward)
{
    Scratch s;
    return s.carve(*args, backward, nullptr);
}

template <class T>
void fill(ff_kernels *table)
{
    table->pointwise_attention_forward = pointwise_attention_forward<T>;
    table->pointwise_attention_backward = pointwise_attention_backward<T>;
    table->pointwise_attention_scratch_bytes = pointwise_attention_scratch_bytes;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_pointwise_attention)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
