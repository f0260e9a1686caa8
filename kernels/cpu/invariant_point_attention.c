/* invariant_point_attention.c - Alg. 22 on projected inputs, forward and backward; float32 in every table.
 *
 * Contents: scratch; shared operands; one row forward; forward; one row backward; keys' and values' gradients; backward.
 *
 * Small next to the trunk: what counts is that the pair array is read once a pass and that rows are vectorised. Keys lie as [channel][residue]
 * (vectors over residues), values with their global points as [residue][channel]. The backward pass stores the weights and the logits'
 * gradients, [num_query, num_head, num_res] each (a tenth of the pair), so that queries' and keys' sides each have one owner and sums have a fixed order. */
#include <math.h>

#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

enum { ROW_BLOCK = 32 }; /* pair rows that stay in the first cache while all heads read them */

typedef struct {
    int64_t np;       /* residues in whole vectors */
    int64_t ck, cv;   /* channels of a key (scalars, then points x y z) and of a value */
    int64_t cvp;      /* cv in whole vectors */
    float *keys;      /* [head][ck][np] */
    float *values;    /* [head][num_res][cvp] */
    float *factor;    /* [head] weight of squared distances */
    float *weights, *grad_logits; /* backward: [query][head][np] */
    float *grad_sums;             /* backward: [query][head][cvp] */
    float *queries;               /* backward: [query][head][ck], scalars scaled */
    float *grad_factor;           /* backward: [query][head] */
    float *a, *da, *bias, *q, *sums, *dsums; /* of a thread: [head][np] twice, [head][np], [head][ck], [head][cvp] twice */
    float *tile;                             /* of a thread: [ck + cv][FF_VL] */
} ipa_scratch;

static size_t ipa_layout(ipa_scratch *s, const ff_ipa_args *a, bool backward, void *base, int thread)
{
    tile_arena shared = {base, 0}, own = {NULL, 0};
    s->np = mm_round_up(a->num_res, FF_VL);
    s->ck = a->c_scalar_qk + 3 * a->num_point_qk;
    s->cv = a->c_scalar_v + 3 * a->num_point_v;
    s->cvp = mm_round_up(s->cv, FF_VL);
    const int64_t rows = backward ? a->num_query * a->num_head : 0;
    s->keys = tile_floats(&shared, a->num_head * s->ck * s->np);
    s->values = tile_floats(&shared, a->num_head * a->num_res * s->cvp);
    s->factor = tile_floats(&shared, a->num_head);
    s->weights = tile_floats(&shared, rows * s->np);
    s->grad_logits = tile_floats(&shared, rows * s->np);
    s->grad_sums = tile_floats(&shared, rows * s->cvp);
    s->queries = tile_floats(&shared, rows * s->ck);
    s->grad_factor = tile_floats(&shared, rows);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            own = tile_own(&shared, thread, own.used);
        s->a = tile_floats(&own, a->num_head * s->np);
        s->da = tile_floats(&own, backward ? a->num_head * s->np : 0);
        s->bias = tile_floats(&own, a->num_head * s->np);
        s->q = tile_floats(&own, a->num_head * s->ck);
        s->sums = tile_floats(&own, a->num_head * s->cvp);
        s->dsums = tile_floats(&own, a->num_head * s->cvp);
        s->tile = tile_floats(&own, (s->ck + s->cv) * FF_VL);
    }
    return shared.used;
}

static size_t ipa_scratch_bytes(const ff_ipa_args *a, bool backward)
{
    ipa_scratch s;
    return ipa_layout(&s, a, backward, NULL, 0);
}

/* ---- shared operands ---- */

/* Point p of head h, [3, num_head, points] of one residue, in the global frame. */
FF_INLINE void ipa_to_global(float out[3], const float *local, const float *frame, int64_t index, int64_t plane)
{
    const float x = local[index], y = local[plane + index], z = local[2 * plane + index];
    for (int i = 0; i < 3; i++)
        out[i] = frame[3 * i] * x + frame[3 * i + 1] * y + frame[3 * i + 2] * z + frame[9 + i];
}

/* Gradients of a point's local coordinates and of its frame from that of its global place. */
FF_INLINE void ipa_to_global_backward(float *grad_local, float *grad_frame, const float g[3], const float *local,
                                      const float *frame, int64_t index, int64_t plane)
{
    for (int k = 0; k < 3; k++)
        grad_local[k * plane + index] += frame[k] * g[0] + frame[3 + k] * g[1] + frame[6 + k] * g[2];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            grad_frame[3 * i + k] += g[i] * local[k * plane + index];
        grad_frame[9 + i] += g[i];
    }
}

/* Keys and values of all residues; all threads of the region, ends with a barrier. */
static void ipa_prepare(const ipa_scratch *s, const ff_ipa_arrays *x, const ff_ipa_args *a)
{
    const int64_t qk = a->c_scalar_qk, v = a->c_scalar_v, pk = a->num_point_qk, pv = a->num_point_v;
    const int64_t plane = a->num_head * (pk + pv);
#pragma omp for collapse(2)
    for (int64_t h = 0; h < a->num_head; h++)
        for (int64_t block = 0; block < s->np; block += FF_VL)
            for (int64_t j = block; j < block + FF_VL; j++) {
                float *key = s->keys + h * s->ck * s->np + j;
                if (j >= a->num_res) {
                    for (int64_t c = 0; c < s->ck; c++)
                        key[c * s->np] = 0.0f;
                    continue;
                }
                const float *scalar = x->kv_scalar + (j * a->num_head + h) * (qk + v);
                const float *point = x->kv_point + j * 3 * plane, *frame = x->frames + 12 * j;
                float *value = s->values + (h * a->num_res + j) * s->cvp;
                for (int64_t c = 0; c < qk; c++)
                    key[c * s->np] = scalar[c];
                for (int64_t c = 0; c < v; c++)
                    value[c] = scalar[qk + c];
                for (int64_t c = s->cv; c < s->cvp; c++)
                    value[c] = 0.0f;
                for (int64_t p = 0; p < pk + pv; p++) {
                    float g[3];
                    ipa_to_global(g, point, frame, h * (pk + pv) + p, plane);
                    for (int d = 0; d < 3; d++) {
                        if (p < pk)
                            key[(qk + 3 * p + d) * s->np] = g[d];
                        else
                            value[v + 3 * (p - pk) + d] = g[d];
                    }
                }
            }
#pragma omp for
    for (int64_t h = 0; h < a->num_head; h++) {
        const float gamma = x->gamma[h]; /* log(1 + e^x) without overflow */
        const float softplus = fmaxf(gamma, 0.0f) + log1pf(expf(-fabsf(gamma)));
        s->factor[h] = sqrtf(1.0f / (3.0f * (float)pk * 4.5f)) * softplus;
    }
}

/* ---- one row forward ---- */

/* The query of row i: scalars scaled, points global. */
static void ipa_load_query(float *q, const ipa_scratch *s, const ff_ipa_arrays *x, const ff_ipa_args *a, int64_t i)
{
    const int64_t qk = a->c_scalar_qk, pk = a->num_point_qk, plane = a->num_head * pk;
    const float scale = sqrtf(1.0f / (3.0f * (float)qk));
    for (int64_t h = 0; h < a->num_head; h++) {
        for (int64_t c = 0; c < qk; c++)
            q[h * s->ck + c] = scale * x->q_scalar[(i * a->num_head + h) * qk + c];
        for (int64_t p = 0; p < pk; p++)
            ipa_to_global(q + h * s->ck + qk + 3 * p, x->q_point + i * 3 * plane, x->frames_query + 12 * i, h * pk + p,
                          plane);
    }
}

/* a[h][j] = softmax of the logits of row i; places past num_res are 0. The mask's term without its part that is the same for all j,
 * in which a masked query would lose its digits. */
static void ipa_weights(const ipa_scratch *s, const ff_ipa_arrays *x, const ff_ipa_args *a, int64_t i)
{
    const float *bias = x->bias + i * a->num_res * a->num_head;
    for (int64_t j = 0; j < a->num_res; j++) {
        const float masked = -1e5f * a->mask_query[i] * (1.0f - a->mask[j]);
        for (int64_t h = 0; h < a->num_head; h++)
            s->bias[h * s->np + j] = 0.57735026919f * bias[j * a->num_head + h] + masked;
    }
    for (int64_t h = 0; h < a->num_head; h++) {
        const float *keys = s->keys + h * s->ck * s->np, *q = s->q + h * s->ck;
        float *row = s->a + h * s->np;
        const vf half = v_set1(-0.5f * s->factor[h]);
        for (int64_t j = 0; j < s->np; j += FF_VL) {
            vf dot = v_zero(), square = v_zero();
            for (int64_t c = 0; c < a->c_scalar_qk; c++)
                dot = v_fma(v_set1(q[c]), v_load(keys + c * s->np + j), dot);
            for (int64_t c = a->c_scalar_qk; c < s->ck; c++) {
                const vf d = v_set1(q[c]) - v_load(keys + c * s->np + j);
                square = v_fma(d, d, square);
            }
            v_store(row + j, v_fma(half, square, dot) + v_load(s->bias + h * s->np + j));
        }
        float max = row[0], sum = 0.0f;
        for (int64_t j = 1; j < a->num_res; j++)
            max = row[j] > max ? row[j] : max;
        for (int64_t j = 0; j < s->np; j += FF_VL) {
            vf e = v_exp(v_load(row + j) - v_set1(max));
            v_store(row + j, e);
        }
        for (int64_t j = a->num_res; j < s->np; j++)
            row[j] = 0.0f;
        for (int64_t j = 0; j < s->np; j += FF_VL)
            sum += v_sum(v_load(row + j));
        for (int64_t j = 0; j < s->np; j += FF_VL)
            v_store(row + j, v_load(row + j) * v_set1(1.0f / sum));
    }
}

/* sums[h] = sum_j a[h][j] values[h][j] */
static void ipa_sum_values(const ipa_scratch *s, const ff_ipa_args *a)
{
    for (int64_t h = 0; h < a->num_head; h++)
        for (int64_t c = 0; c < s->cvp; c += FF_VL) {
            const float *value = s->values + h * a->num_res * s->cvp + c, *w = s->a + h * s->np;
            vf sum = v_zero();
            for (int64_t j = 0; j < a->num_res; j++)
                sum = v_fma(v_set1(w[j]), v_load(value + j * s->cvp), sum);
            v_store(s->sums + h * s->cvp + c, sum);
        }
}

/* out[h][c] = sum_j a[h][j] pair[j][c] */
static void ipa_sum_pair(float *out, const float *pair, const ipa_scratch *s, const ff_ipa_args *a)
{
    for (int64_t k = 0; k < a->num_head * a->c_z; k++)
        out[k] = 0.0f;
    for (int64_t from = 0; from < a->num_res; from += ROW_BLOCK) {
        const int64_t to = from + ROW_BLOCK < a->num_res ? from + ROW_BLOCK : a->num_res;
        for (int64_t c = 0; c < a->c_z; c += FF_VL) {
            const int64_t n = a->c_z - c;
            int64_t h = 0;
            for (; h + 4 <= a->num_head; h += 4) {
                const float *w = s->a + h * s->np;
                float *o = out + h * a->c_z + c;
                vf s0 = tile_load(o, n), s1 = tile_load(o + a->c_z, n), s2 = tile_load(o + 2 * a->c_z, n),
                   s3 = tile_load(o + 3 * a->c_z, n);
                for (int64_t j = from; j < to; j++) {
                    const vf z = tile_load(pair + j * a->c_z + c, n);
                    s0 = v_fma(v_set1(w[j]), z, s0);
                    s1 = v_fma(v_set1(w[s->np + j]), z, s1);
                    s2 = v_fma(v_set1(w[2 * s->np + j]), z, s2);
                    s3 = v_fma(v_set1(w[3 * s->np + j]), z, s3);
                }
                v_store_n(o, s0, n);
                v_store_n(o + a->c_z, s1, n);
                v_store_n(o + 2 * a->c_z, s2, n);
                v_store_n(o + 3 * a->c_z, s3, n);
            }
            for (; h < a->num_head; h++) {
                vf sum = tile_load(out + h * a->c_z + c, n);
                for (int64_t j = from; j < to; j++)
                    sum = v_fma(v_set1(s->a[h * s->np + j]), tile_load(pair + j * a->c_z + c, n), sum);
                v_store_n(out + h * a->c_z + c, sum, n);
            }
        }
    }
}

/* A global result point in the frame of the query. */
FF_INLINE void ipa_to_local(float out[3], const float *g, const float *frame)
{
    const float x = g[0] - frame[9], y = g[1] - frame[10], z = g[2] - frame[11];
    for (int k = 0; k < 3; k++)
        out[k] = frame[k] * x + frame[3 + k] * y + frame[6 + k] * z;
}

/* ---- forward ---- */

static void invariant_point_attention_forward(float *out, const ff_ipa_arrays *x, const ff_ipa_args *a, void *scratch)
{
    const int64_t points = a->num_head * a->num_point_v, scalars = a->num_head * a->c_scalar_v;
    const int64_t width = scalars + 4 * points + a->num_head * a->c_z;
    if (a->num_res == 0)
        return;
#pragma omp parallel
    {
        ipa_scratch s;
        ipa_layout(&s, a, false, scratch, omp_get_thread_num());
        ipa_prepare(&s, x, a);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a->num_query; i++) {
            float *o = out + i * width;
            ipa_load_query(s.q, &s, x, a, i);
            ipa_weights(&s, x, a, i);
            ipa_sum_values(&s, a);
            for (int64_t h = 0; h < a->num_head; h++) {
                const float *sum = s.sums + h * s.cvp;
                for (int64_t c = 0; c < a->c_scalar_v; c++)
                    o[h * a->c_scalar_v + c] = sum[c];
                for (int64_t p = 0; p < a->num_point_v; p++) {
                    float local[3], *at = o + scalars + h * a->num_point_v + p;
                    ipa_to_local(local, sum + a->c_scalar_v + 3 * p, x->frames_query + 12 * i);
                    for (int d = 0; d < 3; d++)
                        at[d * points] = local[d];
                    at[3 * points] = sqrtf(1e-8f + local[0] * local[0] + local[1] * local[1] + local[2] * local[2]);
                }
            }
            ipa_sum_pair(o + scalars + 4 * points, x->pair + i * a->num_res * a->c_z, &s, a);
        }
    }
}

/* ---- one row backward ---- */

/* From the gradient of row i of out to that of the value sums, and to the query's frame. */
static void ipa_grad_sums(const ipa_scratch *s, const ff_ipa_arrays *grad, const float *g, const ff_ipa_arrays *x,
                          const ff_ipa_args *a, int64_t i)
{
    const int64_t points = a->num_head * a->num_point_v, scalars = a->num_head * a->c_scalar_v;
    const float *frame = x->frames_query + 12 * i;
    float *grad_frame = grad->frames_query + 12 * i;
    for (int64_t h = 0; h < a->num_head; h++) {
        const float *sum = s->sums + h * s->cvp;
        float *d = s->dsums + h * s->cvp;
        for (int64_t c = 0; c < a->c_scalar_v; c++)
            d[c] = g[h * a->c_scalar_v + c];
        for (int64_t c = s->cv; c < s->cvp; c++)
            d[c] = 0.0f;
        for (int64_t p = 0; p < a->num_point_v; p++) {
            const float *at = g + scalars + h * a->num_point_v + p, *place = sum + a->c_scalar_v + 3 * p;
            float local[3], gl[3], *back = d + a->c_scalar_v + 3 * p;
            ipa_to_local(local, place, frame);
            const float length = sqrtf(1e-8f + local[0] * local[0] + local[1] * local[1] + local[2] * local[2]);
            for (int k = 0; k < 3; k++)
                gl[k] = at[k * points] + at[3 * points] * local[k] / length;
            for (int r = 0; r < 3; r++) {
                back[r] = frame[3 * r] * gl[0] + frame[3 * r + 1] * gl[1] + frame[3 * r + 2] * gl[2];
                grad_frame[9 + r] -= back[r];
                for (int k = 0; k < 3; k++)
                    grad_frame[3 * r + k] += (place[r] - frame[9 + r]) * gl[k];
            }
        }
    }
}

/* da[h][j] = dsums[h] . values[h][j] + g_pair[h] . pair[j], and pair's gradient. */
static void ipa_grad_weights(const ipa_scratch *s, float *grad_pair, const float *g_pair, const float *pair,
                             const ff_ipa_args *a)
{
    for (int64_t j = 0; j < a->num_res; j++) {
        for (int64_t h = 0; h < a->num_head; h++) {
            const float *value = s->values + (h * a->num_res + j) * s->cvp, *d = s->dsums + h * s->cvp;
            vf sum = v_zero();
            for (int64_t c = 0; c < s->cvp; c += FF_VL)
                sum = v_fma(v_load(value + c), v_load(d + c), sum);
            for (int64_t c = 0; c < a->c_z; c += FF_VL)
                sum = v_fma(tile_load(g_pair + h * a->c_z + c, a->c_z - c), tile_load(pair + j * a->c_z + c, a->c_z - c),
                            sum);
            s->da[h * s->np + j] = v_sum(sum);
        }
        for (int64_t c = 0; c < a->c_z && grad_pair != NULL; c += FF_VL) {
            vf sum = tile_load(grad_pair + j * a->c_z + c, a->c_z - c);
            for (int64_t h = 0; h < a->num_head; h++)
                sum = v_fma(v_set1(s->a[h * s->np + j]), tile_load(g_pair + h * a->c_z + c, a->c_z - c), sum);
            v_store_n(grad_pair + j * a->c_z + c, sum, a->c_z - c);
        }
    }
}

/* Softmax backward of head h of row i into grad_logits; the bias gets its part. */
static void ipa_grad_softmax(const ipa_scratch *s, float *grad_bias, const ff_ipa_args *a, int64_t i, int64_t h)
{
    const float *w = s->a + h * s->np, *da = s->da + h * s->np;
    float *keep = s->weights + (i * a->num_head + h) * s->np, *g = s->grad_logits + (i * a->num_head + h) * s->np;
    float sum = 0.0f;
    for (int64_t j = 0; j < a->num_res; j++)
        sum += w[j] * da[j];
    for (int64_t j = 0; j < a->num_res; j++) {
        keep[j] = w[j];
        g[j] = w[j] * (da[j] - sum);
        grad_bias[(i * a->num_res + j) * a->num_head + h] += 0.57735026919f * g[j];
    }
    for (int64_t j = a->num_res; j < s->np; j++)
        keep[j] = g[j] = 0.0f;
}

/* The query's gradient, through the logits of head h of row i. */
static void ipa_grad_query(const ipa_scratch *s, const ff_ipa_arrays *grad, const ff_ipa_arrays *x, const ff_ipa_args *a,
                           int64_t i, int64_t h)
{
    const int64_t qk = a->c_scalar_qk, pk = a->num_point_qk, plane = a->num_head * pk;
    const float scale = sqrtf(1.0f / (3.0f * (float)qk)), factor = s->factor[h];
    const float *g = s->grad_logits + (i * a->num_head + h) * s->np, *keys = s->keys + h * s->ck * s->np;
    const float *q = s->q + h * s->ck;
    vf squares = v_zero();
    for (int64_t c = 0; c < qk; c++) {
        vf sum = v_zero();
        for (int64_t j = 0; j < s->np; j += FF_VL)
            sum = v_fma(v_load(g + j), v_load(keys + c * s->np + j), sum);
        grad->q_scalar[(i * a->num_head + h) * qk + c] += scale * v_sum(sum);
    }
    for (int64_t p = 0; p < pk; p++) {
        float place[3];
        for (int d = 0; d < 3; d++) {
            const int64_t c = qk + 3 * p + d;
            vf sum = v_zero();
            for (int64_t j = 0; j < s->np; j += FF_VL) {
                const vf gap = v_set1(q[c]) - v_load(keys + c * s->np + j), l = v_load(g + j) * gap;
                sum += l;
                squares = v_fma(l, gap, squares);
            }
            place[d] = -factor * v_sum(sum);
        }
        ipa_to_global_backward(grad->q_point + i * 3 * plane, grad->frames_query + 12 * i, place,
                               x->q_point + i * 3 * plane, x->frames_query + 12 * i, h * pk + p, plane);
    }
    s->grad_factor[i * a->num_head + h] = -0.5f * v_sum(squares);
}

static void ipa_row_backward(const ipa_scratch *s, const ff_ipa_arrays *grad, const float *g, const ff_ipa_arrays *x,
                             const ff_ipa_args *a, int64_t i)
{
    const int64_t points = a->num_head * a->num_point_v, scalars = a->num_head * a->c_scalar_v;
    const int64_t row = i * a->num_res * a->c_z;
    ipa_load_query(s->q, s, x, a, i);
    ipa_weights(s, x, a, i);
    ipa_sum_values(s, a);
    ipa_grad_sums(s, grad, g, x, a, i);
    ipa_grad_weights(s, grad->pair == NULL ? NULL : grad->pair + row, g + scalars + 4 * points, x->pair + row, a);
    for (int64_t h = 0; h < a->num_head; h++) {
        ipa_grad_softmax(s, grad->bias, a, i, h);
        ipa_grad_query(s, grad, x, a, i, h);
    }
    memcpy(s->queries + i * a->num_head * s->ck, s->q, (size_t)(a->num_head * s->ck) * sizeof(float));
    memcpy(s->grad_sums + i * a->num_head * s->cvp, s->dsums, (size_t)(a->num_head * s->cvp) * sizeof(float));
}

/* ---- keys' and values' gradients ---- */

/* tile[c][lane] of head h for the FF_VL residues from j: keys' channels, then values'. */
static void ipa_gather_grads(const ipa_scratch *s, const ff_ipa_args *a, int64_t j, int64_t h)
{
    const int64_t head_rows = a->num_head * s->np;
    const float *g = s->grad_logits + h * s->np + j, *w = s->weights + h * s->np + j;
    const float *queries = s->queries + h * s->ck, *sums = s->grad_sums + h * s->cvp;
    const vf factor = v_set1(s->factor[h]);
    for (int64_t c = 0; c < s->ck; c++) {
        const vf key = v_load(s->keys + (h * s->ck + c) * s->np + j);
        const bool scalar = c < a->c_scalar_qk;
        vf sum = v_zero();
        for (int64_t i = 0; i < a->num_query; i++) {
            const vf q = v_set1(queries[i * a->num_head * s->ck + c]);
            sum = v_fma(v_load(g + i * head_rows), scalar ? q : q - key, sum);
        }
        v_store(s->tile + c * FF_VL, scalar ? sum : sum * factor);
    }
    for (int64_t c = 0; c < s->cv; c++) {
        vf sum = v_zero();
        for (int64_t i = 0; i < a->num_query; i++)
            sum = v_fma(v_load(w + i * head_rows), v_set1(sums[i * a->num_head * s->cvp + c]), sum);
        v_store(s->tile + (s->ck + c) * FF_VL, sum);
    }
}

/* Add lane `lane` of the tile to the gradients of residue j. */
static void ipa_scatter_grads(const ipa_scratch *s, const ff_ipa_arrays *grad, const ff_ipa_arrays *x,
                              const ff_ipa_args *a, int64_t j, int64_t h, int lane)
{
    const int64_t qk = a->c_scalar_qk, v = a->c_scalar_v, pk = a->num_point_qk, pv = a->num_point_v;
    const int64_t plane = a->num_head * (pk + pv);
    float *scalar = grad->kv_scalar + (j * a->num_head + h) * (qk + v);
    for (int64_t c = 0; c < qk; c++)
        scalar[c] += s->tile[c * FF_VL + lane];
    for (int64_t c = 0; c < v; c++)
        scalar[qk + c] += s->tile[(s->ck + c) * FF_VL + lane];
    for (int64_t p = 0; p < pk + pv; p++) {
        float g[3];
        for (int d = 0; d < 3; d++)
            g[d] = s->tile[(p < pk ? qk + 3 * p + d : s->ck + v + 3 * (p - pk) + d) * FF_VL + lane];
        ipa_to_global_backward(grad->kv_point + j * 3 * plane, grad->frames + 12 * j, g, x->kv_point + j * 3 * plane,
                               x->frames + 12 * j, h * (pk + pv) + p, plane);
    }
}

/* ---- backward ---- */

static void ipa_grad_gamma(const ipa_scratch *s, float *grad_gamma, const float *gamma, const ff_ipa_args *a)
{
    const float scale = sqrtf(1.0f / (3.0f * (float)a->num_point_qk * 4.5f));
    for (int64_t h = 0; h < a->num_head; h++) {
        double sum = 0;
        for (int64_t i = 0; i < a->num_query; i++)
            sum += s->grad_factor[i * a->num_head + h];
        grad_gamma[h] += scale * (float)sum / (1.0f + expf(-gamma[h])); /* softplus' = sigmoid */
    }
}

static void invariant_point_attention_backward(const ff_ipa_arrays *grad, const float *grad_out, const ff_ipa_arrays *x,
                                               const ff_ipa_args *a, void *scratch)
{
    const int64_t width = a->num_head * (a->c_scalar_v + 4 * a->num_point_v + a->c_z);
    if (a->num_res == 0)
        return;
#pragma omp parallel
    {
        ipa_scratch s;
        ipa_layout(&s, a, true, scratch, omp_get_thread_num());
        ipa_prepare(&s, x, a);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a->num_query; i++)
            ipa_row_backward(&s, grad, grad_out + i * width, x, a, i);
#pragma omp for schedule(static)
        for (int64_t j = 0; j < s.np; j += FF_VL)
            for (int64_t h = 0; h < a->num_head; h++) {
                ipa_gather_grads(&s, a, j, h);
                for (int lane = 0; lane < FF_VL && j + lane < a->num_res; lane++)
                    ipa_scatter_grads(&s, grad, x, a, j + lane, h, lane);
            }
#pragma omp single
        if (grad->gamma != NULL)
            ipa_grad_gamma(&s, grad->gamma, x->gamma, a);
    }
}

void FF_FN(ff_fill_invariant_point_attention)(ff_kernels *table)
{
    table->invariant_point_attention_forward = invariant_point_attention_forward;
    table->invariant_point_attention_backward = invariant_point_attention_backward;
    table->invariant_point_attention_scratch_bytes = ipa_scratch_bytes;
}
