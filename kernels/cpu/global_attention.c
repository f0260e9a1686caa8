/* global_attention.c - attention with one query: over the extra MSA's columns (Suppl. Alg. 19) and over templates (Alg. 17).
 *
 * global     per residue column: LN rows and their masked mean; k and v single-headed; one softmax per head over sequences;
 *            the gate is per sequence, by tiles of ROWS                  2 S R c_in (2 H c + 2 c) + 4 S R H c FLOP
 * pointwise  per position, over templates: by tiles of ROWS positions    2 R^2 H c (c_z 2 + c_t 2 T) FLOP */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

enum { ROWS = 96 };
#define MEAN_EPSILON 1e-10f /* alphafold/model/modules.py GlobalAttention: mask_mean(eps=1e-10) */
#define LOG2E 1.44269504f

FF_INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

FF_INLINE void store_part(float *p, vf v, int64_t n)
{
    if (n >= FF_VL)
        v_store(p, v);
    else
        v_store_n(p, v, n);
}

FF_INLINE void as_operands(ff_operand *dst, const float *src, int64_t rows, int64_t c)
{
    FF_FN(mm_rows)(dst, mm_lda(c), src, c, rows, c);
}

/* ---- global: one column ---- */

typedef ff_global_attention_args args_t;

typedef struct {
    float *w_kv;                /* shared [c_in, 2 c]: key, value side by side */
    ff_operand *kv, *gate, *out; /* packed: [c_in, 2c], [c_in, Hc], [Hc, c_in] */
    ff_operand *kv_t, *gate_t, *out_t; /* packed transposes (backward) */
    float *parts;
    int64_t part;
    ff_operand *x;      /* per thread [L, lda(c_in)] */
    float *kv_rows;     /* [L, 2c] */
    float *mean, *q, *o; /* [c_in], [H, c] scaled, [H, c] */
    float *weights;     /* [H, padded L]: softmax */
    ff_operand *qo, *weights_o, *k_t, *v;
    float *g, *og;      /* [ROWS, Hc] */
    ff_operand *go;     /* [ROWS, lda(Hc)] */
    /* backward */
    float *xf, *dy, *dog, *dx, *d_logits, *d_kv, *d_o, *d_total, *d_q, *d_mean; /* d_o is summed again in pass 1; d_total keeps pass 0's */
    ff_operand *dyo, *d_kvo;
    void *tn;
} column_scratch;

static void carve_column(column_scratch *s, const args_t *a, bool backward, tile_arena *own)
{
    const int64_t L = a->length, ci = a->c_in, H = a->num_head, c = a->c_hidden, hc = H * c, lp = mm_round_up(L, FF_NR);
    s->x = tile_operands(own, L * mm_lda(ci));
    s->kv_rows = tile_floats(own, L * 2 * c);
    s->mean = tile_floats(own, ci);
    s->q = tile_floats(own, hc);
    s->o = tile_floats(own, hc);
    s->weights = tile_floats(own, H * lp);
    s->qo = tile_operands(own, H * mm_lda(c));
    s->weights_o = FF_BF16 ? tile_operands(own, H * lp) : (ff_operand *)(void *)s->weights;
    s->k_t = tile_operands(own, mm_packed_size(c, L));
    s->v = tile_operands(own, mm_packed_size(L, c));
    s->g = tile_floats(own, ROWS * hc);
    s->og = tile_floats(own, ROWS * hc);
    s->go = tile_operands(own, ROWS * mm_lda(hc));
    if (!backward)
        return;
    s->xf = tile_floats(own, ROWS * ci);
    s->dy = tile_floats(own, ROWS * ci);
    s->dyo = tile_operands(own, ROWS * mm_lda(ci));
    s->dog = tile_floats(own, ROWS * hc);
    s->dx = tile_floats(own, ROWS * ci);
    s->d_logits = tile_floats(own, H * lp);
    s->d_kv = tile_floats(own, ROWS * 2 * c);
    s->d_kvo = tile_operands(own, ROWS * 2 * c);
    s->d_o = tile_floats(own, hc);
    s->d_total = tile_floats(own, hc);
    s->d_q = tile_floats(own, hc);
    s->d_mean = tile_floats(own, ci);
    const size_t t1 = FF_FN(mm_tn_scratch)(hc, ci, ROWS), t2 = FF_FN(mm_tn_scratch)(ci, hc, ROWS);
    const size_t t3 = FF_FN(mm_tn_scratch)(ci, 2 * c, ROWS), t12 = t1 > t2 ? t1 : t2;
    s->tn = tile_take(own, t12 > t3 ? t12 : t3);
}

static size_t carve_global(column_scratch *s, const args_t *a, bool backward, void *scratch, int thread)
{
    const int64_t ci = a->c_in, c = a->c_hidden, hc = a->num_head * c;
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    s->w_kv = tile_floats(&shared, ci * 2 * c);
    s->kv = tile_operands(&shared, mm_packed_size(ci, 2 * c));
    s->gate = tile_operands(&shared, mm_packed_size(ci, hc));
    s->out = tile_operands(&shared, mm_packed_size(hc, ci));
    if (backward) {
        s->kv_t = tile_operands(&shared, mm_packed_size(2 * c, ci));
        s->gate_t = tile_operands(&shared, mm_packed_size(hc, ci));
        s->out_t = tile_operands(&shared, mm_packed_size(ci, hc));
        /* gradients of q w, kv w, gate w, output w, gate b, output b, norm */
        s->part = mm_round_up(3 * ci * hc + 2 * ci * c + hc + 3 * ci, 16);
        s->parts = tile_floats(&shared, s->part * omp_get_max_threads());
    }
    carve_column(s, a, backward, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_column(s, a, backward, &own);
    return shared.used;
}

static void pack_global(const column_scratch *s, const ff_attention_params *w, const args_t *a, bool backward)
{
    const int64_t ci = a->c_in, c = a->c_hidden, hc = a->num_head * c;
#pragma omp for
    for (int64_t k = 0; k < ci; k++) {
        memcpy(s->w_kv + k * 2 * c, w->key_w + k * c, (size_t)c * sizeof(float));
        memcpy(s->w_kv + k * 2 * c + c, w->value_w + k * c, (size_t)c * sizeof(float));
    }
    tile_pack(s->kv, s->w_kv, 2 * c, ci, 2 * c, 0);
    tile_pack(s->gate, w->gating_w, hc, ci, hc, 0);
    tile_pack(s->out, w->output_w, ci, hc, ci, 0);
    if (backward) {
        tile_pack(s->kv_t, s->w_kv, 2 * c, 2 * c, ci, 1);
        tile_pack(s->gate_t, w->gating_w, hc, hc, ci, 1);
        tile_pack(s->out_t, w->output_w, ci, ci, hc, 1);
    }
#pragma omp barrier
}

FF_INLINE float key_mask(const args_t *a, int64_t b, int64_t l)
{
    return a->mask == NULL ? 1.0f : a->mask[b * a->mask_stride_batch + l * a->mask_stride_length];
}

/* softmax over keys of one head's logits in place; masked keys replaced, padding 0 */
static void softmax_keys(float *x, ff_operand *o, const args_t *a, int64_t b)
{
    const int64_t L = a->length, lp = mm_round_up(L, FF_NR);
    float top = -INFINITY;
    for (int64_t l = 0; l < L; l++) {
        x[l] = key_mask(a, b, l) == 0.0f ? FF_MASKED_LOGIT : x[l];
        top = x[l] > top ? x[l] : top;
    }
    for (int64_t l = L; l < lp; l++)
        x[l] = -1e30f;
    vf sum = v_zero();
    for (int64_t l = 0; l < lp; l += FF_VL) {
        const vf e = v_exp2((v_load(x + l) - v_set1(top)) * v_set1(LOG2E));
        v_store(x + l, e);
        sum += e;
    }
    const vf scale = v_set1(1.0f / v_sum(sum));
    for (int64_t l = 0; l < lp; l += FF_VL) {
        const vf p = v_load(x + l) * scale;
        v_store(x + l, p);
        if (FF_BF16)
            v_store_operand(o + l, p);
    }
}

/* Everything up to o [H, c]; x, kv_rows, mean, q and weights stay for what follows. @return sum of the mask */
static float column_attention(column_scratch *s, const float *x, const ff_attention_params *w, const args_t *a, int64_t b)
{
    const int64_t L = a->length, ci = a->c_in, H = a->num_head, c = a->c_hidden, hc = H * c, lp = mm_round_up(L, FF_NR);
    const float scale = 1.0f / sqrtf((float)c);
    float sum = 0;
    tile_layer_norm(s->x, mm_lda(ci), x + b * a->stride_batch, a->stride_length, L, ci, w->query_norm_scale,
                    w->query_norm_offset);
    FF_FN(mm)(L, 2 * c, ci, s->x, mm_lda(ci), s->kv, s->kv_rows, 2 * c, MM_STORE, NULL);
    memset(s->mean, 0, (size_t)ci * sizeof(float));
    for (int64_t l = 0; l < L; l++) {
        const float m = key_mask(a, b, l);
        sum += m;
        if (m == 0.0f)
            continue;
        int64_t i = 0;
        for (; i + FF_VL <= ci; i += FF_VL)
            v_store(s->mean + i, v_fma(v_load_operand(s->x + l * mm_lda(ci) + i), v_set1(m), v_load(s->mean + i)));
        for (; i < ci; i++)
            s->mean[i] += m * operand_to_float(s->x[l * mm_lda(ci) + i]);
    }
    for (int64_t i = 0; i < ci; i++)
        s->mean[i] /= sum + MEAN_EPSILON;
    memset(s->q, 0, (size_t)hc * sizeof(float));
    for (int64_t i = 0; i < ci; i++)
        for (int64_t k = 0; k < hc; k++)
            s->q[k] += s->mean[i] * w->query_w[i * hc + k] * scale;
    as_operands(s->qo, s->q, H, c);
    FF_FN(mm_pack_t)(s->k_t, s->kv_rows, 2 * c, c, L);
    FF_FN(mm_pack)(s->v, s->kv_rows + c, 2 * c, L, c);
    FF_FN(mm)(H, L, c, s->qo, mm_lda(c), s->k_t, s->weights, lp, MM_STORE, NULL);
    for (int64_t h = 0; h < H; h++)
        softmax_keys(s->weights + h * lp, s->weights_o + h * lp, a, b);
    FF_FN(mm)(H, c, L, s->weights_o, lp, s->v, s->o, c, MM_STORE, NULL);
    return sum;
}

static void global_attention_forward(float *out, const float *x, const ff_attention_params *w, const args_t *a, void *scratch)
{
    const int64_t L = a->length, ci = a->c_in, hc = a->num_head * a->c_hidden;
#pragma omp parallel
    {
        column_scratch s;
        carve_global(&s, a, false, scratch, omp_get_thread_num());
        pack_global(&s, w, a, false);
        int64_t first, last;
        tile_share(a->batch, &first, &last);
        for (int64_t b = first; b < last && L > 0; b++) {
            column_attention(&s, x, w, a, b);
            for (int64_t l0 = 0; l0 < L; l0 += ROWS) {
                const int64_t n = min64(ROWS, L - l0), at = b * a->stride_batch + l0 * a->stride_length;
                FF_FN(mm)(n, hc, ci, s.x + l0 * mm_lda(ci), mm_lda(ci), s.gate, s.g, hc, MM_STORE, w->gating_b);
                for (int64_t l = 0; l < n; l++)
                    for (int64_t i = 0; i < hc; i += FF_VL)
                        store_part(s.g + l * hc + i, v_sigmoid(tile_load(s.g + l * hc + i, hc - i)) * tile_load(s.o + i, hc - i),
                                   hc - i);
                as_operands(s.go, s.g, n, hc);
                const mm_residual u = {a->residual ? x + at : NULL, a->stride_length, w->output_b,
                                       a->dropout == NULL ? NULL : a->dropout + l0 * ci, ci};
                FF_FN(mm_update)(n, ci, hc, s.go, mm_lda(hc), s.out, out + at, a->stride_length, &u);
            }
        }
    }
}

/* Gate part of a tile of sequences: dog, g, og and the sums for d_o; g becomes the gradient of the gate's logits. */
static void gate_tile(column_scratch *s, int64_t n, int64_t hc)
{
    for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < hc; i += FF_VL) {
            const int64_t left = hc - i;
            const vf g = v_sigmoid(tile_load(s->g + l * hc + i, left)), o = tile_load(s->o + i, left);
            const vf d = tile_load(s->dog + l * hc + i, left), dg = d * g;
            store_part(s->d_o + i, tile_load(s->d_o + i, left) + dg, left);
            store_part(s->og + l * hc + i, o * g, left);
            store_part(s->g + l * hc + i, dg * o * (v_set1(1.0f) - g), left);
        }
}

static void load_tile(column_scratch *s, const float *grad_out, const float *x, const ff_attention_params *w, const args_t *a,
                      int64_t at, int64_t l0, int64_t n)
{
    const int64_t ci = a->c_in;
    for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < ci; i++)
            s->dy[l * ci + i] = grad_out[at + l * a->stride_length + i] *
                                (a->dropout == NULL ? 1.0f : a->dropout[(l0 + l) * ci + i]);
    as_operands(s->dyo, s->dy, n, ci);
    tile_layer_norm_float(s->xf, ci, x + at, a->stride_length, n, ci, w->query_norm_scale, w->query_norm_offset);
}

/* Gradients of logits [H, L], q and the mean: s->d_logits, s->d_q (of the scaled q), s->d_mean */
static void column_backward(column_scratch *s, const ff_attention_params *w, const args_t *a, bool uniform, float *dqw)
{
    const int64_t L = a->length, ci = a->c_in, H = a->num_head, c = a->c_hidden, hc = H * c, lp = mm_round_up(L, FF_NR);
    const float scale = 1.0f / sqrtf((float)c);
    memset(s->d_q, 0, (size_t)hc * sizeof(float));
    for (int64_t h = 0; h < H; h++) {
        float dot = 0;
        for (int64_t i = 0; i < c; i++)
            dot += s->d_o[h * c + i] * s->o[h * c + i];
        for (int64_t l = 0; l < L; l++) {
            const float *k = s->kv_rows + l * 2 * c, *v = k + c;
            float d = 0;
            for (int64_t i = 0; i < c; i++)
                d += s->d_o[h * c + i] * v[i];
            d = uniform ? 0.0f : s->weights[h * lp + l] * (d - dot);
            s->d_logits[h * lp + l] = d;
            for (int64_t i = 0; i < c; i++)
                s->d_q[h * c + i] += d * k[i];
        }
    }
    for (int64_t i = 0; i < ci; i++) {
        float d = 0;
        for (int64_t k = 0; k < hc; k++) {
            d += w->query_w[i * hc + k] * s->d_q[k] * scale;
            dqw[i * hc + k] += s->mean[i] * s->d_q[k] * scale;
        }
        s->d_mean[i] = d;
    }
}

static void global_attention_backward(float *grad_x, const ff_attention_params *grad_w, const float *grad_out, const float *x,
                                      const ff_attention_params *w, const args_t *a, void *scratch)
{
    const int64_t L = a->length, ci = a->c_in, H = a->num_head, c = a->c_hidden, hc = H * c, lp = mm_round_up(L, FF_NR);
    const bool add_residual = a->residual && grad_x != grad_out;
#pragma omp parallel
    {
        column_scratch s;
        carve_global(&s, a, true, scratch, omp_get_thread_num());
        pack_global(&s, w, a, true);
        float *dqw = s.parts + omp_get_thread_num() * s.part, *dkv = dqw + ci * hc, *dgw = dkv + 2 * ci * c;
        float *dow = dgw + ci * hc, *dgb = dow + ci * hc, *dob = dgb + hc, *dns = dob + ci, *dno = dns + ci;
        memset(dqw, 0, (size_t)s.part * sizeof(float));
        int64_t first, last;
        tile_share(a->batch, &first, &last);
        for (int64_t b = first; b < last && L > 0; b++) {
            const float sum = column_attention(&s, x, w, a, b);
            memset(s.d_o, 0, (size_t)hc * sizeof(float));
            for (int pass = 0; pass < 2; pass++) { /* the gate's gradients need a pass before the logits' */
                for (int64_t l0 = 0; l0 < L; l0 += ROWS) {
                    const int64_t n = min64(ROWS, L - l0), at = b * a->stride_batch + l0 * a->stride_length;
                    load_tile(&s, grad_out, x, w, a, at, l0, n);
                    FF_FN(mm)(n, hc, ci, s.x + l0 * mm_lda(ci), mm_lda(ci), s.gate, s.g, hc, MM_STORE, w->gating_b);
                    FF_FN(mm)(n, hc, ci, s.dyo, mm_lda(ci), s.out_t, s.dog, hc, MM_STORE, NULL);
                    gate_tile(&s, n, hc);
                    if (pass == 0)
                        continue;
                    as_operands(s.go, s.g, n, hc);
                    FF_FN(mm)(n, ci, hc, s.go, mm_lda(hc), s.gate_t, s.dx, ci, MM_STORE, NULL);
                    for (int64_t l = 0; l < n; l++)
                        for (int64_t i = 0; i < c; i++) {
                            float dk = 0, dv = 0;
                            for (int64_t h = 0; h < H; h++) {
                                dk += s.d_logits[h * lp + l0 + l] * s.q[h * c + i];
                                dv += s.weights[h * lp + l0 + l] * s.d_total[h * c + i];
                            }
                            s.d_kv[l * 2 * c + i] = dk;
                            s.d_kv[l * 2 * c + c + i] = dv;
                        }
                    as_operands(s.d_kvo, s.d_kv, n, 2 * c);
                    FF_FN(mm)(n, ci, 2 * c, s.d_kvo, 2 * c, s.kv_t, s.dx, ci, MM_ADD, NULL);
                    for (int64_t l = 0; l < n; l++) {
                        const float m = key_mask(a, b, l0 + l) / (sum + MEAN_EPSILON);
                        for (int64_t i = 0; i < ci; i++)
                            s.dx[l * ci + i] += m * s.d_mean[i];
                    }
                    FF_FN(mm_tn)(hc, ci, n, s.og, hc, s.dy, ci, dow, ci, s.tn);
                    FF_FN(mm_tn)(ci, hc, n, s.xf, ci, s.g, hc, dgw, hc, s.tn);
                    FF_FN(mm_tn)(ci, 2 * c, n, s.xf, ci, s.d_kv, 2 * c, dkv, 2 * c, s.tn);
                    tile_column_sum(dgb, s.g, hc, n, hc);
                    tile_column_sum(dob, s.dy, ci, n, ci);
                    for (int64_t l = 0; add_residual && l < n; l++)
                        for (int64_t i = 0; i < ci; i++)
                            grad_x[at + l * a->stride_length + i] += grad_out[at + l * a->stride_length + i];
                    tile_layer_norm_backward(grad_x + at, NULL, s.dx, ci, x + at, a->stride_length, n, ci, w->query_norm_scale,
                                             dns, dno);
                }
                if (pass == 0) {
                    memcpy(s.d_total, s.d_o, (size_t)hc * sizeof(float));
                    column_backward(&s, w, a, sum == 0.0f, dqw);
                }
            }
        }
#pragma omp barrier
        if (grad_w != NULL) {
            const float *p = s.parts;
            tile_reduce(grad_w->query_w, p, s.part, ci * hc);
            p += ci * hc;
            tile_share(ci, &first, &last);
            for (int64_t k = first; k < last; k++)
                for (int64_t i = 0; i < 2 * c; i++) {
                    float sum = 0;
                    for (int t = 0; t < omp_get_num_threads(); t++)
                        sum += p[t * s.part + k * 2 * c + i];
                    if (i < c)
                        grad_w->key_w[k * c + i] += sum;
                    else
                        grad_w->value_w[k * c + i - c] += sum;
                }
            tile_reduce(grad_w->gating_w, p += 2 * ci * c, s.part, ci * hc);
            tile_reduce(grad_w->output_w, p += ci * hc, s.part, hc * ci);
            tile_reduce(grad_w->gating_b, p += hc * ci, s.part, hc);
            tile_reduce(grad_w->output_b, p += hc, s.part, ci);
            tile_reduce(grad_w->query_norm_scale, p += ci, s.part, ci);
            tile_reduce(grad_w->query_norm_offset, p + ci, s.part, ci);
        }
    }
}

static size_t global_attention_scratch_bytes(const args_t *a, bool backward)
{
    column_scratch s;
    return carve_global(&s, a, backward, NULL, 0);
}

/* ---- pointwise ---- */

typedef ff_pointwise_attention_args point_args;

typedef struct {
    ff_operand *q, *k, *v, *out;         /* packed weights, shared */
    ff_operand *q_t, *k_t, *v_t, *out_t; /* packed transposes (backward) */
    float *parts;
    int64_t part;
    ff_operand *a;           /* per thread: operand rows [ROWS, widest] */
    float *qf, *kf, *vf_, *o; /* [ROWS, Hc], [T, ROWS, Hc] twice, [ROWS, Hc] */
    float *p;                /* [ROWS, H, T] */
    float *d_o, *dq, *dk, *dv, *dx;
    void *tn;
} point_scratch;

static void carve_point_own(point_scratch *s, const point_args *a, bool backward, tile_arena *own)
{
    const int64_t hc = a->num_head * a->c_hidden, T = a->num_templ, cz = a->c_z, ct = a->c_t;
    int64_t widest = hc > cz ? hc : cz;
    widest = ct > widest ? ct : widest;
    s->a = tile_operands(own, ROWS * mm_lda(widest));
    s->qf = tile_floats(own, ROWS * hc);
    s->kf = tile_floats(own, T * ROWS * hc);
    s->vf_ = tile_floats(own, T * ROWS * hc);
    s->o = tile_floats(own, ROWS * hc);
    s->p = tile_floats(own, ROWS * a->num_head * T);
    if (!backward)
        return;
    s->d_o = tile_floats(own, ROWS * hc);
    s->dq = tile_floats(own, ROWS * hc);
    s->dk = tile_floats(own, T * ROWS * hc);
    s->dv = tile_floats(own, T * ROWS * hc);
    s->dx = tile_floats(own, ROWS * widest);
    s->tn = tile_take(own, FF_FN(mm_tn_scratch)(widest, widest, ROWS));
}

static size_t carve_point(point_scratch *s, const point_args *a, bool backward, void *scratch, int thread)
{
    const int64_t hc = a->num_head * a->c_hidden, cz = a->c_z, ct = a->c_t;
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    s->q = tile_operands(&shared, mm_packed_size(cz, hc));
    s->k = tile_operands(&shared, mm_packed_size(ct, hc));
    s->v = tile_operands(&shared, mm_packed_size(ct, hc));
    s->out = tile_operands(&shared, mm_packed_size(hc, cz));
    if (backward) {
        s->q_t = tile_operands(&shared, mm_packed_size(hc, cz));
        s->k_t = tile_operands(&shared, mm_packed_size(hc, ct));
        s->v_t = tile_operands(&shared, mm_packed_size(hc, ct));
        s->out_t = tile_operands(&shared, mm_packed_size(cz, hc));
        s->part = mm_round_up(2 * cz * hc + 2 * ct * hc + cz, 16);
        s->parts = tile_floats(&shared, s->part * omp_get_max_threads());
    }
    carve_point_own(s, a, backward, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_point_own(s, a, backward, &own);
    return shared.used;
}

static void pack_point(const point_scratch *s, const ff_attention_params *w, const point_args *a, bool backward)
{
    const int64_t hc = a->num_head * a->c_hidden, cz = a->c_z, ct = a->c_t;
    tile_pack(s->q, w->query_w, hc, cz, hc, 0);
    tile_pack(s->k, w->key_w, hc, ct, hc, 0);
    tile_pack(s->v, w->value_w, hc, ct, hc, 0);
    tile_pack(s->out, w->output_w, cz, hc, cz, 0);
    if (backward) {
        tile_pack(s->q_t, w->query_w, hc, hc, cz, 1);
        tile_pack(s->k_t, w->key_w, hc, hc, ct, 1);
        tile_pack(s->v_t, w->value_w, hc, hc, ct, 1);
        tile_pack(s->out_t, w->output_w, cz, cz, hc, 1);
    }
#pragma omp barrier
}

/* @return whether any template counts */
static bool any_template(const point_args *a)
{
    for (int64_t t = 0; t < a->num_templ; t++)
        if (a->template_mask[t] != 0.0f)
            return true;
    return false;
}

/* q, k, v, p and o of positions r0 .. r0 + n - 1 */
static void point_tile(point_scratch *s, const float *pair, const float *templates, const point_args *a, int64_t r0, int64_t n)
{
    const int64_t H = a->num_head, c = a->c_hidden, hc = H * c, T = a->num_templ;
    const float scale = 1.0f / sqrtf((float)c);
    as_operands(s->a, pair + r0 * a->c_z, n, a->c_z);
    FF_FN(mm)(n, hc, a->c_z, s->a, mm_lda(a->c_z), s->q, s->qf, hc, MM_STORE, NULL);
    for (int64_t t = 0; t < T; t++) {
        as_operands(s->a, templates + (t * a->num_pair + r0) * a->c_t, n, a->c_t);
        FF_FN(mm)(n, hc, a->c_t, s->a, mm_lda(a->c_t), s->k, s->kf + t * ROWS * hc, hc, MM_STORE, NULL);
        FF_FN(mm)(n, hc, a->c_t, s->a, mm_lda(a->c_t), s->v, s->vf_ + t * ROWS * hc, hc, MM_STORE, NULL);
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t h = 0; h < H; h++) {
            float *p = s->p + (r * H + h) * T, top = -INFINITY, sum = 0;
            const float *q = s->qf + r * hc + h * c;
            for (int64_t t = 0; t < T; t++) {
                float d = 0;
                for (int64_t i = 0; i < c; i++)
                    d += q[i] * s->kf[(t * ROWS + r) * hc + h * c + i];
                p[t] = a->template_mask[t] == 0.0f ? FF_MASKED_LOGIT : d * scale;
                top = p[t] > top ? p[t] : top;
            }
            for (int64_t t = 0; t < T; t++) {
                p[t] = expf(p[t] - top);
                sum += p[t];
            }
            for (int64_t i = 0; i < c; i++)
                s->o[r * hc + h * c + i] = 0;
            for (int64_t t = 0; t < T; t++) {
                p[t] /= sum;
                for (int64_t i = 0; i < c; i++)
                    s->o[r * hc + h * c + i] += p[t] * s->vf_[(t * ROWS + r) * hc + h * c + i];
            }
        }
}

static void pointwise_attention_forward(float *out, const float *pair, const float *templates, const ff_attention_params *w,
                                        const point_args *a, void *scratch)
{
    const int64_t hc = a->num_head * a->c_hidden, cz = a->c_z, tiles = (a->num_pair + ROWS - 1) / ROWS;
    if (!any_template(a)) {
#pragma omp parallel for
        for (int64_t i = 0; i < a->num_pair * cz; i++)
            out[i] = a->residual ? pair[i] : 0.0f;
        return;
    }
#pragma omp parallel
    {
        point_scratch s;
        carve_point(&s, a, false, scratch, omp_get_thread_num());
        pack_point(&s, w, a, false);
        int64_t first, last;
        tile_share(tiles, &first, &last);
        for (int64_t t = first; t < last; t++) {
            const int64_t r0 = t * ROWS, n = min64(ROWS, a->num_pair - r0);
            point_tile(&s, pair, templates, a, r0, n);
            as_operands(s.a, s.o, n, hc);
            const mm_residual u = {a->residual ? pair + r0 * cz : NULL, cz, w->output_b, NULL, 0};
            FF_FN(mm_update)(n, cz, hc, s.a, mm_lda(hc), s.out, out + r0 * cz, cz, &u);
        }
    }
}

/* dq, dk, dv from d_o; masked templates get no gradient through their logits */
static void point_gradients(point_scratch *s, const point_args *a, int64_t n)
{
    const int64_t H = a->num_head, c = a->c_hidden, hc = H * c, T = a->num_templ;
    const float scale = 1.0f / sqrtf((float)c);
    memset(s->dq, 0, (size_t)(n * hc) * sizeof(float));
    for (int64_t r = 0; r < n; r++)
        for (int64_t h = 0; h < H; h++) {
            const float *p = s->p + (r * H + h) * T, *d_o = s->d_o + r * hc + h * c, *q = s->qf + r * hc + h * c;
            float dot = 0;
            for (int64_t i = 0; i < c; i++)
                dot += d_o[i] * s->o[r * hc + h * c + i];
            for (int64_t t = 0; t < T; t++) {
                const int64_t at = (t * ROWS + r) * hc + h * c;
                float d = 0;
                for (int64_t i = 0; i < c; i++)
                    d += d_o[i] * s->vf_[at + i];
                d = a->template_mask[t] == 0.0f ? 0.0f : p[t] * (d - dot) * scale;
                for (int64_t i = 0; i < c; i++) {
                    s->dv[at + i] = p[t] * d_o[i];
                    s->dk[at + i] = d * q[i];
                    s->dq[r * hc + h * c + i] += d * s->kf[at + i];
                }
            }
        }
}

static void pointwise_attention_backward(float *grad_pair, float *grad_templates, const ff_attention_params *grad_w,
                                         const float *grad_out, const float *pair, const float *templates,
                                         const ff_attention_params *w, const point_args *a, void *scratch)
{
    const int64_t hc = a->num_head * a->c_hidden, cz = a->c_z, ct = a->c_t, tiles = (a->num_pair + ROWS - 1) / ROWS;
    const bool any = any_template(a), add_residual = a->residual && grad_pair != NULL && grad_pair != grad_out;
#pragma omp parallel
    {
        point_scratch s;
        carve_point(&s, a, true, scratch, omp_get_thread_num());
        float *dqw = s.parts + omp_get_thread_num() * s.part, *dkw = dqw + cz * hc, *dvw = dkw + ct * hc;
        float *dow = dvw + ct * hc, *dob = dow + hc * cz;
        memset(dqw, 0, (size_t)s.part * sizeof(float));
        pack_point(&s, w, a, true);
        int64_t first, last;
        tile_share(tiles, &first, &last);
        for (int64_t tile = first; tile < last; tile++) {
            const int64_t r0 = tile * ROWS, n = min64(ROWS, a->num_pair - r0);
            const float *dy = grad_out + r0 * cz;
            for (int64_t i = 0; add_residual && i < n * cz; i++)
                grad_pair[r0 * cz + i] += dy[i];
            if (!any)
                continue;
            point_tile(&s, pair, templates, a, r0, n);
            as_operands(s.a, dy, n, cz);
            FF_FN(mm)(n, hc, cz, s.a, mm_lda(cz), s.out_t, s.d_o, hc, MM_STORE, NULL);
            point_gradients(&s, a, n);
            FF_FN(mm_tn)(hc, cz, n, s.o, hc, dy, cz, dow, cz, s.tn);
            tile_column_sum(dob, dy, cz, n, cz);
            FF_FN(mm_tn)(cz, hc, n, pair + r0 * cz, cz, s.dq, hc, dqw, hc, s.tn);
            if (grad_pair != NULL) {
                as_operands(s.a, s.dq, n, hc);
                FF_FN(mm)(n, cz, hc, s.a, mm_lda(hc), s.q_t, grad_pair + r0 * cz, cz, MM_ADD, NULL);
            }
            for (int64_t t = 0; t < a->num_templ; t++) {
                const float *x = templates + (t * a->num_pair + r0) * ct, *dk = s.dk + t * ROWS * hc, *dv = s.dv + t * ROWS * hc;
                FF_FN(mm_tn)(ct, hc, n, x, ct, dk, hc, dkw, hc, s.tn);
                FF_FN(mm_tn)(ct, hc, n, x, ct, dv, hc, dvw, hc, s.tn);
                if (grad_templates == NULL)
                    continue;
                float *g = grad_templates + (t * a->num_pair + r0) * ct;
                as_operands(s.a, dk, n, hc);
                FF_FN(mm)(n, ct, hc, s.a, mm_lda(hc), s.k_t, g, ct, MM_ADD, NULL);
                as_operands(s.a, dv, n, hc);
                FF_FN(mm)(n, ct, hc, s.a, mm_lda(hc), s.v_t, g, ct, MM_ADD, NULL);
            }
        }
#pragma omp barrier
        if (grad_w != NULL) {
            const float *p = s.parts;
            tile_reduce(grad_w->query_w, p, s.part, cz * hc);
            tile_reduce(grad_w->key_w, p += cz * hc, s.part, ct * hc);
            tile_reduce(grad_w->value_w, p += ct * hc, s.part, ct * hc);
            tile_reduce(grad_w->output_w, p += ct * hc, s.part, hc * cz);
            tile_reduce(grad_w->output_b, p + hc * cz, s.part, cz);
        }
    }
}

static size_t pointwise_attention_scratch_bytes(const point_args *a, bool backward)
{
    point_scratch s;
    return carve_point(&s, a, backward, NULL, 0);
}

void FF_FN(ff_fill_global_attention)(ff_kernels *table)
{
    table->global_attention_forward = global_attention_forward;
    table->global_attention_backward = global_attention_backward;
    table->global_attention_scratch_bytes = global_attention_scratch_bytes;
    table->pointwise_attention_forward = pointwise_attention_forward;
    table->pointwise_attention_backward = pointwise_attention_backward;
    table->pointwise_attention_scratch_bytes = pointwise_attention_scratch_bytes;
}
