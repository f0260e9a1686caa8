/* attention.c - attention that never stores its matrix, and the whole gated module around it.
 *
 * Contents: register tiles; one head forward; one head backward; the gated module forward; backward; attention_core.
 *
 * forward    by blocks of 12 queries: logits of one block against all keys [12, L] stay in cache; row maximum, exponentials
 *            and their sum; P V; division and gate on the result
 * backward   by blocks of KEY_BLOCK keys, transposed (rows are keys): P^T = exp(K Q^T + bias^T - lse), dP^T = V dO^T,
 *            dS^T = P^T (dP^T - D), then dV = P^T dO and dK = dS^T Q are finished per block and only dQ is summed over
 *            blocks; grad_bias is summed transposed, one copy a thread */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

#define LOG2E 1.44269504f
#define EXCLUDED (-1e30f) /* logit of padding: far below FF_MASKED_LOGIT, so its weight is 0 even in masked rows */

enum { KEY_BLOCK = 48 };

/* ---- register tiles ---- */

enum { KIND_LOGITS, KIND_WEIGHTS, KIND_GRAD_LOGITS };

typedef struct {
    const float *bias; /* [rows, ld_bias] added to the product; NULL = none */
    int64_t ld_bias;
    const float *limit;   /* LOGITS: per column: +inf, FF_MASKED_LOGIT or EXCLUDED */
    vf *top;              /* LOGITS: per row: running maximum */
    const float *minus;   /* WEIGHTS: per column -lse * log2(e); GRAD_LOGITS: per column D */
    const float *weights; /* GRAD_LOGITS: P^T [rows, ld_out] */
    float *grad_bias;     /* GRAD_LOGITS: += [rows, ld_bias]; NULL = not wanted */
    float *out;           /* float32 result [rows, ld_out]: logits, weights or their gradient */
    int64_t ld_out;
    ff_operand *operand; /* bf16 copy of out, [rows, ld_operand]; NULL = not wanted */
    int64_t ld_operand;
} tile_io;

FF_INLINE vf load_part(const float *p, int64_t n) { return n >= FF_VL ? v_load(p) : v_load_n(p, n < 0 ? 0 : n); }

/* One 12 x 32 tile over K = c_hidden; column arrays are padded to whole panels, bias and grad_bias are not (n columns). */
FF_INLINE void head_tile(int kind, int rows, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp, int64_t n,
                         const tile_io *io, int64_t column)
{
    vf acc[FF_MR][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            acc[r][v] = kind != KIND_GRAD_LOGITS && io->bias != NULL
                            ? load_part(io->bias + r * io->ld_bias + column + v * FF_VL, n - v * FF_VL)
                            : v_zero();
    /* the next tile's bias, strips of 128 bytes a row that no hardware stream follows */
    const float *ahead = kind == KIND_GRAD_LOGITS ? io->grad_bias : io->bias;
    if (ahead != NULL && n > FF_NR)
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < 2 * FF_VL; v += 16)
                __builtin_prefetch(ahead + r * io->ld_bias + column + FF_NR + v, kind == KIND_GRAD_LOGITS, 3);
    mm_tile_sum(rows, 2, steps, A, sa, Bp, acc);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const int64_t at = column + v * FF_VL;
            vf x = acc[r][v];
            if (kind == KIND_LOGITS) {
                x = v_min(x, v_load(io->limit + at));
                io->top[r] = v_max(io->top[r], x);
            } else if (kind == KIND_WEIGHTS) {
                x = v_exp2(v_fma(x, v_set1(LOG2E), v_load(io->minus + at)));
            } else {
                x = v_load(io->weights + r * io->ld_out + at) * (x - v_load(io->minus + at));
                if (io->grad_bias != NULL) {
                    float *g = io->grad_bias + r * io->ld_bias + at;
                    if (n - v * FF_VL >= FF_VL)
                        v_store(g, v_load(g) + x);
                    else if (n > v * FF_VL)
                        v_store_n(g, v_load_n(g, n - v * FF_VL) + x, n - v * FF_VL);
                }
            }
            v_store(io->out + r * io->ld_out + at, x);
            if (FF_BF16 && io->operand != NULL)
                v_store_operand(io->operand + r * io->ld_operand + at, x);
        }
}

#define HEAD_CASE(r)                                                                                                   \
    case r:                                                                                                            \
        head_tile(kind, r, steps, A, sa, Bp + column * steps * FF_KP, n, io, column);                                  \
        break;

/* All columns of a row block of at most FF_MR rows. */
FF_INLINE void head_rows(int kind, int64_t rows, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp,
                         int64_t columns, const tile_io *io)
{
    for (int64_t column = 0; column < columns; column += FF_NR) {
        const int64_t n = columns - column;
        switch (rows) { MM_ROW_CASES(HEAD_CASE) }
    }
}
static void logits_rows(int64_t rows, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp, int64_t columns,
                        const tile_io *io)
{
    head_rows(KIND_LOGITS, rows, steps, A, sa, Bp, columns, io);
}
static void weights_rows(int64_t rows, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp, int64_t columns,
                         const tile_io *io)
{
    head_rows(KIND_WEIGHTS, rows, steps, A, sa, Bp, columns, io);
}
static void grad_logits_rows(int64_t rows, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp,
                             int64_t columns, const tile_io *io)
{
    head_rows(KIND_GRAD_LOGITS, rows, steps, A, sa, Bp, columns, io);
}

/* ---- one head forward ---- */

typedef struct {
    int64_t num_query, num_key, c; /* c = c_hidden */
    const ff_operand *q;           /* [num_query, ld_q], already scaled */
    int64_t ld_q;
    const ff_operand *k_t; /* packed [c, num_key] */
    const ff_operand *v;   /* packed [num_key, c] */
    const float *bias;     /* [num_query, num_key] or NULL */
    const float *limit;    /* [num_key padded] */
} head_input;

typedef struct {
    float *logits;      /* [FF_MR, ld] */
    ff_operand *weight; /* the same memory in float32 */
    int64_t ld;
    float *result; /* [FF_MR, c] */
} head_scratch;

FF_INLINE int64_t padded(int64_t n) { return mm_round_up(n, FF_NR); }
/* Leading dimension of rows of n floats that walks through the cache's sets. */
FF_INLINE int64_t spread(int64_t n) { return padded(n) + 16; }

static void carve_head(head_scratch *s, tile_arena *arena, int64_t num_key, int64_t c)
{
    s->ld = spread(num_key);
    s->logits = tile_floats(arena, FF_MR * s->ld);
    s->weight = FF_BF16 ? tile_operands(arena, FF_MR * s->ld) : (ff_operand *)(void *)s->logits;
    s->result = tile_floats(arena, FF_MR * c);
}

/* exp(x - max) of a row in place (or into operands); returns their sum. */
FF_INLINE float exponentials(float *x, ff_operand *weight, float top, int64_t columns)
{
    const vf minus = v_set1(-top * LOG2E), log2e = v_set1(LOG2E);
    vf s0 = v_zero(), s1 = v_zero();
    for (int64_t i = 0; i < columns; i += FF_NR) {
        const vf a = v_exp2(v_fma(v_load(x + i), log2e, minus)), b = v_exp2(v_fma(v_load(x + i + FF_VL), log2e, minus));
        s0 += a;
        s1 += b;
        if (FF_BF16) {
            v_store_operand(weight + i, a);
            v_store_operand(weight + i + FF_VL, b);
        } else {
            v_store(x + i, a);
            v_store(x + i + FF_VL, b);
        }
    }
    return v_sum(s0 + s1);
}

FF_INLINE int64_t block_height(int64_t left)
{
    return left >= 2 * FF_MR ? FF_MR : left > FF_MR ? (left + 1) / 2 : left;
}

/* Rows q0 .. q0 + rows - 1: s->result [rows, c] = sum of exp . v, inverse[r] = 1 / sum, lse[r] (NULL = not wanted). */
static void head_block(const head_input *h, head_scratch *s, int64_t q0, int64_t rows, float *inverse, float *lse)
{
    vf top[FF_MR];
    for (int r = 0; r < FF_MR; r++)
        top[r] = v_set1(EXCLUDED);
    const tile_io io = {.bias = h->bias == NULL ? NULL : h->bias + q0 * h->num_key,
                        .ld_bias = h->num_key,
                        .limit = h->limit,
                        .top = top,
                        .out = s->logits,
                        .ld_out = s->ld};
    const int64_t steps = (h->c + FF_KP - 1) / FF_KP;
    if (h->bias != NULL && q0 + 2 * rows <= h->num_query) /* the first strips of the next block; this one's are on their way */
        for (int64_t r = rows; r < 2 * rows; r++)
            __builtin_prefetch(h->bias + (q0 + r) * h->num_key, 0, 3);
    logits_rows(rows, steps, h->q + q0 * h->ld_q, h->ld_q, h->k_t, h->num_key, &io);
    for (int64_t r = 0; r < rows; r++) {
        const float m = v_hmax(top[r]);
        const float sum = exponentials(s->logits + r * s->ld, s->weight + r * s->ld, m, padded(h->num_key));
        inverse[r] = h->num_key > 0 ? 1.0f / sum : 0.0f; /* no keys: an empty sum */
        if (lse != NULL)
            lse[r] = m + logf(sum);
    }
    FF_FN(mm)(rows, h->c, h->num_key, s->weight, s->ld, h->v, s->result, h->c, MM_STORE, NULL);
}

/* ---- one head backward ---- */

typedef struct {
    int64_t num_query, num_key, c;
    bool uniform;           /* every key masked: weights 1 / num_key, no gradient to logits */
    const float *q, *k, *v; /* float32 rows, leading dimension ld; q already scaled */
    int64_t ld;
    const float *limit;      /* [num_key]: FF_MASKED_LOGIT = masked key */
    const float *bias_t;     /* [num_key, num_query] or NULL */
    const float *minus_lse;  /* [padded num_query]: -lse * log2(e), EXCLUDED beyond */
    const float *grad_out;   /* [num_query, ld_grad]: dO */
    int64_t ld_grad;
    const float *dot;        /* [padded num_query]: D */
    float *grad_q;           /* [num_query, ld_dq] = (of the scaled q) */
    float *grad_k, *grad_v;  /* [num_key, ld_dq] = */
    int64_t ld_dq;
    float *grad_bias_t; /* [num_key, num_query] += or NULL */
} head_grad;

typedef struct {
    ff_operand *q_t, *do_t;   /* packed [c, num_query] */
    ff_operand *q, *grad_out; /* packed [num_query, c] */
    ff_operand *k, *v;        /* rows as operands [KEY_BLOCK, lda] (bf16, or odd c) */
    float *weight, *grad;     /* P^T, dS^T [KEY_BLOCK, ld] */
    ff_operand *weight_o, *grad_o;
    int64_t ld;
    void *tn;
} head_grad_scratch;

static void carve_head_grad(head_grad_scratch *s, tile_arena *arena, int64_t num_query, int64_t c)
{
    s->ld = spread(num_query);
    s->q_t = tile_operands(arena, mm_packed_size(c, num_query));
    s->do_t = tile_operands(arena, mm_packed_size(c, num_query));
    s->q = tile_operands(arena, mm_packed_size(num_query, c));
    s->grad_out = tile_operands(arena, mm_packed_size(num_query, c));
    s->k = tile_operands(arena, KEY_BLOCK * mm_lda(c));
    s->v = tile_operands(arena, KEY_BLOCK * mm_lda(c));
    s->weight = tile_floats(arena, KEY_BLOCK * s->ld);
    s->grad = tile_floats(arena, KEY_BLOCK * s->ld);
    s->weight_o = FF_BF16 ? tile_operands(arena, KEY_BLOCK * s->ld) : (ff_operand *)(void *)s->weight;
    s->grad_o = FF_BF16 ? tile_operands(arena, KEY_BLOCK * s->ld) : (ff_operand *)(void *)s->grad;
    s->tn = tile_take(arena, FF_FN(mm_tn_scratch)(num_query, c, KEY_BLOCK));
}

static void fill_row(float *x, ff_operand *o, float value, int64_t n, int64_t n_padded)
{
    for (int64_t i = 0; i < n_padded; i++)
        x[i] = i < n ? value : 0.0f;
    if (FF_BF16)
        for (int64_t i = 0; i < n_padded; i++)
            o[i] = operand_from_float(x[i]);
}

static void head_backward(const head_grad *h, head_grad_scratch *s)
{
    const int64_t c = h->c, nq = h->num_query, steps = (c + FF_KP - 1) / FF_KP;
    FF_FN(mm_pack_t)(s->q_t, h->q, h->ld, c, nq);
    FF_FN(mm_pack_t)(s->do_t, h->grad_out, h->ld_grad, c, nq);
    FF_FN(mm_pack)(s->q, h->q, h->ld, nq, c);
    FF_FN(mm_pack)(s->grad_out, h->grad_out, h->ld_grad, nq, c);
    for (int64_t i = 0; i < nq; i++)
        memset(h->grad_q + i * h->ld_dq, 0, (size_t)c * sizeof(float));
    for (int64_t k0 = 0; k0 < h->num_key; k0 += KEY_BLOCK) {
        const int64_t keys = h->num_key - k0 < KEY_BLOCK ? h->num_key - k0 : KEY_BLOCK;
        FF_FN(mm_rows)(s->k, mm_lda(c), h->k + k0 * h->ld, h->ld, keys, c);
        FF_FN(mm_rows)(s->v, mm_lda(c), h->v + k0 * h->ld, h->ld, keys, c);
        for (int64_t r0 = 0, rows; r0 < keys; r0 += rows) {
            rows = block_height(keys - r0);
            tile_io io = {.bias = h->bias_t == NULL ? NULL : h->bias_t + (k0 + r0) * nq,
                          .ld_bias = nq,
                          .minus = h->minus_lse,
                          .out = s->weight + r0 * s->ld,
                          .ld_out = s->ld,
                          .operand = s->weight_o + r0 * s->ld,
                          .ld_operand = s->ld};
            if (!h->uniform)
                weights_rows(rows, steps, s->k + r0 * mm_lda(c), mm_lda(c), s->q_t, nq, &io);
            for (int64_t r = 0; r < rows; r++)
                if (h->uniform || h->limit[k0 + r0 + r] == FF_MASKED_LOGIT)
                    fill_row(s->weight + (r0 + r) * s->ld, s->weight_o + (r0 + r) * s->ld,
                             h->uniform ? 1.0f / (float)h->num_key : 0.0f, nq, padded(nq));
            if (h->uniform) /* the logits of masked keys are constants */
                continue;
            io.weights = io.out;
            io.out = s->grad + r0 * s->ld;
            io.operand = s->grad_o + r0 * s->ld;
            io.minus = h->dot;
            io.grad_bias = h->grad_bias_t == NULL ? NULL : h->grad_bias_t + (k0 + r0) * nq;
            grad_logits_rows(rows, steps, s->v + r0 * mm_lda(c), mm_lda(c), s->do_t, nq, &io);
        }
        FF_FN(mm)(keys, c, nq, s->weight_o, s->ld, s->grad_out, h->grad_v + k0 * h->ld_dq, h->ld_dq, MM_STORE, NULL);
        if (h->uniform) {
            for (int64_t r = 0; r < keys; r++)
                memset(h->grad_k + (k0 + r) * h->ld_dq, 0, (size_t)c * sizeof(float));
            continue;
        }
        FF_FN(mm)(keys, c, nq, s->grad_o, s->ld, s->q, h->grad_k + k0 * h->ld_dq, h->ld_dq, MM_STORE, NULL);
        FF_FN(mm_tn)(nq, c, keys, s->grad, s->ld, h->k + k0 * h->ld, h->ld, h->grad_q, h->ld_dq, s->tn);
    }
}

/* ---- the gated module ---- */

/* Heads are projected in groups that fill whole panels. */
static int64_t group_heads(int64_t num_head, int64_t c)
{
    for (int64_t g = 1; g <= num_head; g++)
        if (num_head % g == 0 && g * c % FF_NR == 0)
            return g;
    return num_head > 0 ? num_head : 1;
}

typedef struct {
    ff_operand *w[4];  /* q, k, v, gate: packed [c_in, H c], shared */
    ff_operand *out_w; /* packed [H c, c_in], shared */
    ff_operand *x, *o; /* per thread: [L, lda(c_in)], [L, lda(H c)] */
    float *p[4];       /* per thread: q, k, v, gate of one group: [L, group c] */
    ff_operand *q;     /* per thread: one head's queries as operands (bf16) */
    ff_operand *k_t, *v;
    float *limit;
    head_scratch head;
} gated_scratch;

static void carve_gated_own(gated_scratch *s, const ff_gated_attention_args *a, tile_arena *own)
{
    const int64_t L = a->length, hc = a->num_head * a->c_hidden, c = a->c_hidden, gc = group_heads(a->num_head, c) * c;
    s->x = tile_operands(own, L * mm_lda(a->c_in));
    s->o = tile_operands(own, L * mm_lda(hc));
    for (int i = 0; i < 4; i++)
        s->p[i] = tile_floats(own, L * gc);
    s->q = FF_BF16 ? tile_operands(own, L * mm_lda(c)) : NULL;
    s->k_t = tile_operands(own, mm_packed_size(c, L));
    s->v = tile_operands(own, mm_packed_size(L, c));
    s->limit = tile_floats(own, padded(L));
    carve_head(&s->head, own, L, c);
}

static size_t carve_gated(gated_scratch *s, const ff_gated_attention_args *a, void *scratch, int thread)
{
    const int64_t hc = a->num_head * a->c_hidden;
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    for (int i = 0; i < 4; i++)
        s->w[i] = tile_operands(&shared, mm_packed_size(a->c_in, hc));
    s->out_w = tile_operands(&shared, mm_packed_size(hc, a->c_in));
    carve_gated_own(s, a, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_gated_own(s, a, &own);
    return shared.used;
}

/* limit[key] for one batch row; returns whether every key is masked */
static bool key_limits(float *limit, const float *mask, int64_t stride, int64_t n)
{
    bool all = mask != NULL && n > 0;
    for (int64_t k = 0; k < padded(n); k++) {
        const bool masked = k < n && mask != NULL && mask[k * stride] == 0.0f;
        limit[k] = k >= n ? EXCLUDED : masked ? FF_MASKED_LOGIT : INFINITY;
        if (k < n && !masked)
            all = false;
    }
    return all;
}

FF_INLINE void scale_rows(float *x, int64_t n, float factor)
{
    const vf f = v_set1(factor);
    for (int64_t i = 0; i < n; i += FF_VL) {
        const vf v = tile_load(x + i, n - i) * f;
        if (n - i >= FF_VL)
            v_store(x + i, v);
        else
            v_store_n(x + i, v, n - i);
    }
}

/* o[r, 0..c) = result * inverse (kept without the gate where asked) * sigmoid(gate) */
FF_INLINE void finish_rows(ff_operand *o, int64_t ld_o, float *kept, int64_t ld_kept, const float *result,
                           const float *inverse, const float *gate, int64_t ld_gate, int64_t rows, int64_t c)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i += FF_VL) {
            const int64_t n = c - i;
            vf v = tile_load(result + r * c + i, n) * v_set1(inverse[r]);
            if (kept != NULL && n >= FF_VL)
                v_store(kept + r * ld_kept + i, v);
            else if (kept != NULL)
                v_store_n(kept + r * ld_kept + i, v, n);
            if (gate != NULL)
                v *= v_sigmoid(tile_load(gate + r * ld_gate + i, n));
            tile_store_operand(o + r * ld_o + i, v, n);
        }
}

static void keep_rows(void *kept, int64_t at, const float *x, int64_t ld, int64_t rows, int64_t c)
{
    ff_operand *dst = (ff_operand *)kept + at;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i += FF_VL)
            tile_store_operand(dst + r * c + i, tile_load(x + r * ld + i, c - i), c - i);
}

/* q, k, v (i = 0..2) and gate (3) of the heads from `head` on: s->p[i] [L, gc] */
static void project_group(const gated_scratch *s, const ff_attention_params *w, const ff_gated_attention_args *a,
                          int64_t head, int64_t gc, int from)
{
    const int64_t at = head * a->c_hidden, panels = at * mm_round_up(a->c_in, FF_KP);
    for (int i = from; i < 4; i++) {
        if (i == 3 && w->gating_w == NULL)
            break;
        FF_FN(mm)(a->length, gc, a->c_in, s->x, mm_lda(a->c_in), s->w[i] + panels, s->p[i], gc, MM_STORE,
                  i == 3 ? w->gating_b + at : NULL);
    }
}

/* Everything up to the gated result of row b: s->o; keeps what `keep` asks for. */
static void gated_row(gated_scratch *s, const float *x, const ff_attention_params *w, const ff_gated_attention_args *a,
                      const ff_gated_attention_kept *keep, int64_t b)
{
    const int64_t L = a->length, c = a->c_hidden, hc = a->num_head * c, gh = group_heads(a->num_head, c), gc = gh * c;
    const float scale = 1.0f / sqrtf((float)c);
    tile_layer_norm(s->x, mm_lda(a->c_in), x + b * a->stride_batch, a->stride_length, L, a->c_in, w->query_norm_scale,
                    w->query_norm_offset);
    key_limits(s->limit, a->mask == NULL ? NULL : a->mask + b * a->mask_stride_batch, a->mask_stride_length, L);
    for (int64_t head = 0; head < a->num_head; head++) {
        const int64_t in_group = head % gh;
        if (in_group == 0) {
            project_group(s, w, a, head, gc, 0);
            scale_rows(s->p[0], L * gc, scale);
        }
        const float *q = s->p[0] + in_group * c, *k = s->p[1] + in_group * c, *v = s->p[2] + in_group * c;
        FF_FN(mm_pack_t)(s->k_t, k, gc, c, L);
        FF_FN(mm_pack)(s->v, v, gc, L, c);
        const int64_t kept_at = (b * a->num_head + head) * L * c;
        if (keep != NULL && keep->query != NULL) {
            keep_rows(keep->query, kept_at, q, gc, L, c);
            keep_rows(keep->key, kept_at, k, gc, L, c);
            keep_rows(keep->value, kept_at, v, gc, L, c);
        }
        head_input in = {L, L, c, (const ff_operand *)(const void *)q, gc, s->k_t, s->v,
                         a->bias == NULL ? NULL : a->bias + head * L * L, s->limit};
        if (FF_BF16) {
            FF_FN(mm_rows)(s->q, mm_lda(c), q, gc, L, c);
            in.q = s->q;
            in.ld_q = mm_lda(c);
        }
        for (int64_t q0 = 0, rows; q0 < L; q0 += rows) {
            float inverse[FF_MR];
            rows = block_height(L - q0);
            head_block(&in, &s->head, q0, rows, inverse,
                       keep == NULL || keep->lse == NULL ? NULL : keep->lse + (b * a->num_head + head) * L + q0);
            finish_rows(s->o + q0 * mm_lda(hc) + head * c, mm_lda(hc),
                        keep == NULL || keep->output == NULL ? NULL
                                                             : keep->output + (b * L + q0) * hc + head * c,
                        hc, s->head.result, inverse,
                        w->gating_w == NULL ? NULL : s->p[3] + q0 * gc + in_group * c, gc, rows, c);
        }
    }
    for (int64_t l = 0; hc != mm_lda(hc) && l < L; l++)
        s->o[l * mm_lda(hc) + hc] = operand_from_float(0.0f);
}

static void pack_weights(gated_scratch *s, const ff_attention_params *w, const ff_gated_attention_args *a)
{
    const int64_t hc = a->num_head * a->c_hidden;
    const float *const in[4] = {w->query_w, w->key_w, w->value_w, w->gating_w};
    for (int i = 0; i < 4; i++)
        if (in[i] != NULL)
            tile_pack(s->w[i], in[i], hc, a->c_in, hc, 0);
    tile_pack(s->out_w, w->output_w, a->c_in, hc, a->c_in, 0);
}

static void gated_attention_forward(float *out, const float *x, const ff_attention_params *w,
                                    const ff_gated_attention_args *a, const ff_gated_attention_kept *keep, void *scratch)
{
    const int64_t hc = a->num_head * a->c_hidden;
#pragma omp parallel
    {
        gated_scratch s;
        carve_gated(&s, a, scratch, omp_get_thread_num());
        pack_weights(&s, w, a);
#pragma omp barrier
        int64_t first, last;
        tile_share(a->batch, &first, &last);
        for (int64_t b = first; b < last; b++) {
            gated_row(&s, x, w, a, keep, b);
            const mm_residual u = {a->residual ? x + b * a->stride_batch : NULL, a->stride_length, w->output_b, a->dropout,
                                   a->c_in};
            FF_FN(mm_update)(a->length, a->c_in, hc, s.o, mm_lda(hc), s.out_w, out + b * a->stride_batch, a->stride_length,
                             &u);
        }
    }
}

/* ---- the gated module backward ---- */

typedef struct {
    gated_scratch f;           /* the forward's arrays; its x, o and projections are used here too */
    ff_operand *out_w_t;       /* packed [c_in, H c]: output_w transposed, shared */
    ff_operand *in_w_t;        /* per head group packed [4 gc, c_in]: input weights transposed, shared */
    float *w_t;                /* [4 H c, c_in] in group order, to pack from, shared */
    float *bias_t;             /* [H, L, L] key-major, shared */
    float *grad_bias_t;        /* [threads][H, L, L] */
    float *parts;              /* [threads][part]: input weights [groups][c_in, 4 gc], output_w, gating_b, output_b, norm */
    int64_t part;
    float *xf;                 /* per thread [L, c_in]: LN(x) in float32 (x itself is an operand array) */
    float *dy;                 /* [L, c_in] grad_out * dropout */
    ff_operand *dyo;           /* its operand copy (bf16) */
    float *og;                 /* [L, H c] gated result, float32 */
    float *dog;                /* [L, gc] gradient of the gated result of a group */
    float *d4;                 /* [L, 4 gc] gradients of q, k, v, gate of a group */
    ff_operand *d4o;           /* its operand copy (bf16) */
    float *d_out;              /* [L, c] of one head: dO */
    float *result;             /* [L, c] of one head: attention result before the gate */
    float *dx;                 /* [L, c_in] gradient of LN(x) */
    float *minus_lse, *dot;    /* [padded L] */
    head_grad_scratch head;
    void *tn;
} gated_backward_scratch;

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static void carve_backward_own(gated_backward_scratch *s, const ff_gated_attention_args *a, tile_arena *own)
{
    const int64_t L = a->length, c = a->c_hidden, hc = a->num_head * c, gc = group_heads(a->num_head, c) * c, ci = a->c_in;
    carve_gated_own(&s->f, a, own);
    s->xf = FF_BF16 ? tile_floats(own, L * ci) : (float *)(void *)s->f.x;
    s->dy = tile_floats(own, L * ci);
    s->dyo = FF_BF16 ? tile_operands(own, L * mm_lda(ci)) : (ff_operand *)(void *)s->dy;
    s->og = tile_floats(own, L * hc);
    s->dog = tile_floats(own, L * gc);
    s->d4 = tile_floats(own, L * 4 * gc);
    s->d4o = FF_BF16 ? tile_operands(own, L * 4 * gc) : (ff_operand *)(void *)s->d4;
    s->d_out = tile_floats(own, L * c);
    s->result = tile_floats(own, L * c);
    s->dx = tile_floats(own, L * ci);
    s->minus_lse = tile_floats(own, padded(L));
    s->dot = tile_floats(own, padded(L));
    carve_head_grad(&s->head, own, L, c);
    s->tn = tile_take(own, max_size(FF_FN(mm_tn_scratch)(ci, 4 * gc, L), FF_FN(mm_tn_scratch)(hc, ci, L)));
}

static size_t carve_gated_backward(gated_backward_scratch *s, const ff_gated_attention_args *a, void *scratch, int thread)
{
    const int64_t L = a->length, c = a->c_hidden, hc = a->num_head * c, ci = a->c_in, gh = group_heads(a->num_head, c);
    const int64_t groups = a->num_head / gh, threads = omp_get_max_threads();
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    for (int i = 0; i < 4; i++)
        s->f.w[i] = tile_operands(&shared, mm_packed_size(ci, hc));
    s->f.out_w = NULL;
    s->out_w_t = tile_operands(&shared, mm_packed_size(ci, hc));
    s->in_w_t = tile_operands(&shared, groups * mm_packed_size(4 * gh * c, ci));
    s->w_t = tile_floats(&shared, 4 * hc * ci);
    s->bias_t = tile_floats(&shared, a->bias == NULL ? 0 : a->num_head * L * L);
    s->grad_bias_t = tile_floats(&shared, a->bias == NULL ? 0 : threads * a->num_head * L * L);
    s->part = mm_round_up(5 * ci * hc + hc + 3 * ci, 16);
    s->parts = tile_floats(&shared, threads * s->part);
    carve_backward_own(s, a, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_backward_own(s, a, &own);
    return shared.used;
}

/* dst[h, k, q] = src[h, q, k], heads and column strips split over the threads. */
static void transpose_heads(float *dst, const float *src, int64_t num_head, int64_t rows, int64_t cols)
{
    enum { STRIP = 64 };
    const int64_t strips = (rows + STRIP - 1) / STRIP;
    int64_t first, last;
    tile_share(num_head * strips, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t h = i / strips, r0 = i % strips * STRIP, n = rows - r0 < STRIP ? rows - r0 : STRIP;
        FF_FN(mm_transpose)(dst + h * rows * cols + r0, rows, src + h * rows * cols + r0 * cols, cols, n, cols);
    }
}

/* Gradient of the bias: sum over threads' copies (transposed) added to grad_bias. */
static void add_bias_gradient(float *grad_bias, const gated_backward_scratch *s, int64_t num_head, int64_t L)
{
    const int64_t n = num_head * L * L;
    const int T = omp_get_num_threads();
    int64_t first, last;
    tile_share(n, &first, &last);
    for (int t = 1; t < T; t++)
        for (int64_t i = first; i < last; i++)
            s->grad_bias_t[i] += s->grad_bias_t[t * n + i];
#pragma omp barrier
    transpose_heads(s->bias_t, s->grad_bias_t, num_head, L, L); /* bias_t is free by now */
#pragma omp barrier
    for (int64_t i = first; i < last; i++)
        grad_bias[i] += s->bias_t[i];
}

static void pack_backward_weights(gated_backward_scratch *s, const ff_attention_params *w, const ff_gated_attention_args *a)
{
    const int64_t c = a->c_hidden, hc = a->num_head * c, ci = a->c_in, gh = group_heads(a->num_head, c), gc = gh * c;
    const float *const in[4] = {w->query_w, w->key_w, w->value_w, w->gating_w};
    const int64_t groups = a->num_head / gh;
    for (int i = 0; i < 4; i++)
        if (in[i] != NULL)
            tile_pack(s->f.w[i], in[i], hc, ci, hc, 0);
    tile_pack(s->out_w_t, w->output_w, ci, ci, hc, 1);
    for (int64_t i = omp_get_thread_num(); i < groups * 4; i += omp_get_num_threads()) {
        float *dst = s->w_t + i * gc * ci;
        if (in[i % 4] != NULL)
            FF_FN(mm_transpose)(dst, ci, in[i % 4] + i / 4 * gc, hc, ci, gc);
        else
            memset(dst, 0, (size_t)(gc * ci) * sizeof *dst);
    }
    if (a->bias != NULL) {
        const int64_t n = a->num_head * a->length * a->length;
        transpose_heads(s->bias_t, a->bias, a->num_head, a->length, a->length);
        memset(s->grad_bias_t + omp_get_thread_num() * n, 0, (size_t)n * sizeof(float));
    }
    memset(s->parts + omp_get_thread_num() * s->part, 0, (size_t)s->part * sizeof(float));
#pragma omp barrier
    for (int64_t g = 0; g < groups; g++)
        tile_pack(s->in_w_t + g * mm_packed_size(4 * gc, ci), s->w_t + g * 4 * gc * ci, ci, 4 * gc, ci, 0);
}

/* Rows of grad_out times dropout, contiguous. */
static void load_grad_rows(float *dy, const float *grad_out, int64_t stride, const float *dropout, int64_t rows, int64_t c)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i += FF_VL) {
            vf v = tile_load(grad_out + r * stride + i, c - i);
            if (dropout != NULL)
                v *= tile_load(dropout + r * c + i, c - i);
            if (c - i >= FF_VL)
                v_store(dy + r * c + i, v);
            else
                v_store_n(dy + r * c + i, v, c - i);
        }
}

static void unkeep_rows(float *x, int64_t ld, const void *kept, int64_t at, int64_t ld_kept, int64_t rows, int64_t c)
{
    const ff_operand *src = (const ff_operand *)kept + at;
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = 0;
        for (; i + FF_VL <= c; i += FF_VL)
            v_store(x + r * ld + i, v_load_operand(src + r * ld_kept + i));
        for (; i < c; i++)
            x[r * ld + i] = operand_to_float(src[r * ld_kept + i]);
    }
}

/* Result before the gate and log-sum-exp of one head, when they were not kept. */
static void recompute_head(gated_backward_scratch *s, const ff_gated_attention_args *a, int64_t head, int64_t in_group,
                           int64_t gc)
{
    const int64_t L = a->length, c = a->c_hidden;
    const float *q = s->f.p[0] + in_group * c;
    FF_FN(mm_pack_t)(s->f.k_t, s->f.p[1] + in_group * c, gc, c, L);
    FF_FN(mm_pack)(s->f.v, s->f.p[2] + in_group * c, gc, L, c);
    head_input in = {L, L, c, (const ff_operand *)(const void *)q, gc, s->f.k_t, s->f.v,
                     a->bias == NULL ? NULL : a->bias + head * L * L, s->f.limit};
    if (FF_BF16) {
        FF_FN(mm_rows)(s->f.q, mm_lda(c), q, gc, L, c);
        in.q = s->f.q;
        in.ld_q = mm_lda(c);
    }
    for (int64_t q0 = 0, rows; q0 < L; q0 += rows) {
        float inverse[FF_MR];
        rows = block_height(L - q0);
        head_block(&in, &s->f.head, q0, rows, inverse, s->minus_lse + q0);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < c; i++)
                s->result[(q0 + r) * c + i] = s->f.head.result[r * c + i] * inverse[r];
    }
}

/* Gate of one head: og = result * g; dO = dog * g; dg = dog * result * g (1 - g); dot = rowsum(dO * result). */
static void gate_backward(gated_backward_scratch *s, bool gated, const float *gate, const float *dog, float *dg, int64_t ld,
                          int64_t ld4, float *og, int64_t hc, int64_t L, int64_t c)
{
    for (int64_t l = 0; l < L; l++) {
        vf dot = v_zero();
        for (int64_t i = 0; i < c; i += FF_VL) {
            const int64_t n = c - i;
            const vf r = tile_load(s->result + l * c + i, n), d = tile_load(dog + l * ld + i, n);
            const vf g = gated ? v_sigmoid(tile_load(gate + l * ld + i, n)) : v_set1(1.0f);
            const vf d_out = d * g;
            const vf d_gate = d_out * r * (v_set1(1.0f) - g);
            dot = v_fma(d_out, r, dot);
            if (n >= FF_VL) {
                v_store(og + l * hc + i, r * g);
                v_store(s->d_out + l * c + i, d_out);
                v_store(dg + l * ld4 + i, d_gate);
            } else {
                v_store_n(og + l * hc + i, r * g, n);
                v_store_n(s->d_out + l * c + i, d_out, n);
                v_store_n(dg + l * ld4 + i, d_gate, n);
            }
        }
        s->dot[l] = v_sum(dot);
    }
    for (int64_t l = L; l < padded(L); l++)
        s->dot[l] = 0;
}

static void group_backward(gated_backward_scratch *s, const ff_attention_params *w, const ff_gated_attention_args *a,
                           const ff_gated_attention_kept *kept, int64_t b, int64_t group, bool uniform)
{
    const int64_t L = a->length, c = a->c_hidden, hc = a->num_head * c, ci = a->c_in;
    const int64_t gh = group_heads(a->num_head, c), gc = gh * c, head0 = group * gh;
    const float scale = 1.0f / sqrtf((float)c);
    const bool have_qkv = kept != NULL && kept->query != NULL, have_output = kept != NULL && kept->output != NULL && kept->lse != NULL;
    project_group(&s->f, w, a, head0, gc, have_qkv ? 3 : 0);
    if (!have_qkv)
        scale_rows(s->f.p[0], L * gc, scale);
    FF_FN(mm)(L, gc, ci, s->dyo, mm_lda(ci), s->out_w_t + head0 * c * mm_round_up(ci, FF_KP), s->dog, gc, MM_STORE, NULL);
    for (int64_t i = 0; i < gh; i++) {
        const int64_t head = head0 + i, at = (b * a->num_head + head) * L;
        if (have_qkv) {
            unkeep_rows(s->f.p[0] + i * c, gc, kept->query, at * c, c, L, c);
            unkeep_rows(s->f.p[1] + i * c, gc, kept->key, at * c, c, L, c);
            unkeep_rows(s->f.p[2] + i * c, gc, kept->value, at * c, c, L, c);
        }
        if (have_output) {
            for (int64_t l = 0; l < L; l++)
                memcpy(s->result + l * c, kept->output + (b * L + l) * hc + head * c, (size_t)c * sizeof(float));
            for (int64_t l = 0; l < L; l++)
                s->minus_lse[l] = kept->lse[at + l];
        } else {
            recompute_head(s, a, head, i, gc);
        }
        for (int64_t l = 0; l < padded(L); l++)
            s->minus_lse[l] = l < L ? -LOG2E * s->minus_lse[l] : EXCLUDED;
        gate_backward(s, w->gating_w != NULL, s->f.p[3] + i * c, s->dog + i * c, s->d4 + 3 * gc + i * c, gc, 4 * gc,
                      s->og + head * c, hc, L, c);
        const head_grad h = {.num_query = L,
                             .num_key = L,
                             .c = c,
                             .uniform = uniform,
                             .q = s->f.p[0] + i * c,
                             .k = s->f.p[1] + i * c,
                             .v = s->f.p[2] + i * c,
                             .ld = gc,
                             .limit = s->f.limit,
                             .bias_t = a->bias == NULL ? NULL : s->bias_t + head * L * L,
                             .minus_lse = s->minus_lse,
                             .grad_out = s->d_out,
                             .ld_grad = c,
                             .dot = s->dot,
                             .grad_q = s->d4 + i * c,
                             .grad_k = s->d4 + gc + i * c,
                             .grad_v = s->d4 + 2 * gc + i * c,
                             .ld_dq = 4 * gc,
                             .grad_bias_t = a->bias == NULL
                                                ? NULL
                                                : s->grad_bias_t + (omp_get_thread_num() * a->num_head + head) * L * L};
        head_backward(&h, &s->head);
    }
    for (int64_t l = 0; l < L; l++)
        scale_rows(s->d4 + l * 4 * gc, gc, scale);
    if (FF_BF16)
        FF_FN(mm_rows)(s->d4o, 4 * gc, s->d4, 4 * gc, L, 4 * gc);
    FF_FN(mm)(L, ci, 4 * gc, s->d4o, 4 * gc, s->in_w_t + group * mm_packed_size(4 * gc, ci), s->dx, ci,
              group == 0 ? MM_STORE : MM_ADD, NULL);
}

static void add_input_weight_gradient(float *grad, const gated_backward_scratch *s, const ff_gated_attention_args *a, int which)
{
    const int64_t c = a->c_hidden, hc = a->num_head * c, ci = a->c_in, gc = group_heads(a->num_head, c) * c;
    int64_t first, last;
    if (grad == NULL)
        return;
    tile_share(ci, &first, &last);
    for (int64_t m = first; m < last; m++)
        for (int64_t i = 0; i < hc; i++) {
            const int64_t at = (i / gc * ci + m) * 4 * gc + which * gc + i % gc;
            float sum = 0;
            for (int t = 0; t < omp_get_num_threads(); t++)
                sum += s->parts[t * s->part + at];
            grad[m * hc + i] += sum;
        }
}

static void reduce_gated(const ff_attention_params *g, const gated_backward_scratch *s, const ff_gated_attention_args *a)
{
    const int64_t hc = a->num_head * a->c_hidden, ci = a->c_in;
    float *const in[4] = {g->query_w, g->key_w, g->value_w, g->gating_w};
    for (int i = 0; i < 4; i++)
        add_input_weight_gradient(in[i], s, a, i);
    int64_t at = 4 * ci * hc;
    tile_reduce(g->output_w, s->parts + at, s->part, hc * ci);
    at += hc * ci;
    tile_reduce(g->gating_b, s->parts + at, s->part, hc);
    at += hc;
    tile_reduce(g->output_b, s->parts + at, s->part, ci);
    tile_reduce(g->query_norm_scale, s->parts + at + ci, s->part, ci);
    tile_reduce(g->query_norm_offset, s->parts + at + 2 * ci, s->part, ci);
}

static void gated_attention_backward(float *grad_x, float *grad_bias, const ff_attention_params *grad_w,
                                     const float *grad_out, const float *x, const ff_attention_params *w,
                                     const ff_gated_attention_args *a, const ff_gated_attention_kept *kept, void *scratch)
{
    const int64_t L = a->length, c = a->c_hidden, hc = a->num_head * c, ci = a->c_in;
    const int64_t gh = group_heads(a->num_head, c), gc = gh * c;
    const bool add_residual = a->residual && grad_x != grad_out;
    if (a->batch == 0 || L == 0)
        return;
#pragma omp parallel
    {
        gated_backward_scratch s;
        carve_gated_backward(&s, a, scratch, omp_get_thread_num());
        pack_backward_weights(&s, w, a);
        float *part = s.parts + omp_get_thread_num() * s.part;
        float *d_out_w = part + 4 * ci * hc, *d_gate_b = d_out_w + hc * ci, *d_out_b = d_gate_b + hc;
#pragma omp barrier
        int64_t first, last;
        tile_share(a->batch, &first, &last);
        for (int64_t b = first; b < last; b++) {
            const float *xb = x + b * a->stride_batch, *gb = grad_out + b * a->stride_batch;
            float *gx = grad_x + b * a->stride_batch;
            tile_layer_norm_float(s.xf, ci, xb, a->stride_length, L, ci, w->query_norm_scale, w->query_norm_offset);
            load_grad_rows(s.dy, gb, a->stride_length, a->dropout, L, ci);
            if (FF_BF16) {
                FF_FN(mm_rows)(s.f.x, mm_lda(ci), s.xf, ci, L, ci);
                FF_FN(mm_rows)(s.dyo, mm_lda(ci), s.dy, ci, L, ci);
            }
            const bool uniform = key_limits(s.f.limit, a->mask == NULL ? NULL : a->mask + b * a->mask_stride_batch,
                                            a->mask_stride_length, L);
            if (a->num_head == 0)
                memset(s.dx, 0, (size_t)(L * ci) * sizeof *s.dx);
            for (int64_t g = 0; g < a->num_head / gh; g++) {
                group_backward(&s, w, a, kept, b, g, uniform);
                if (grad_w != NULL) {
                    FF_FN(mm_tn)(ci, 4 * gc, L, s.xf, ci, s.d4, 4 * gc, part + g * ci * 4 * gc, 4 * gc, s.tn);
                    tile_column_sum(d_gate_b + g * gc, s.d4 + 3 * gc, 4 * gc, L, gc);
                }
            }
            if (grad_w != NULL) {
                FF_FN(mm_tn)(hc, ci, L, s.og, hc, s.dy, ci, d_out_w, ci, s.tn);
                tile_column_sum(d_out_b, s.dy, ci, L, ci);
            }
            if (add_residual)
                for (int64_t l = 0; l < L; l++)
                    for (int64_t i = 0; i < ci; i++)
                        gx[l * a->stride_length + i] += gb[l * a->stride_length + i];
            tile_layer_norm_backward(gx, NULL, s.dx, ci, xb, a->stride_length, L, ci, w->query_norm_scale, d_out_b + ci,
                                     d_out_b + 2 * ci);
        }
#pragma omp barrier
        if (grad_w != NULL)
            reduce_gated(grad_w, &s, a);
        if (grad_bias != NULL && a->bias != NULL)
            add_bias_gradient(grad_bias, &s, a->num_head, L);
    }
}

static size_t gated_attention_scratch_bytes(const ff_gated_attention_args *a, bool backward)
{
    gated_scratch f;
    gated_backward_scratch b;
    return backward ? carve_gated_backward(&b, a, NULL, 0) : carve_gated(&f, a, NULL, 0);
}

/* ---- attention on projected operands ---- */

typedef struct {
    float *q, *out; /* [num_query, c] contiguous */
    ff_operand *qo, *k_t, *v;
    float *limit;
    head_scratch head;
    /* backward */
    float *bias_t, *grad_bias_t; /* [H, K, Q]; the second one copy a thread */
    float *k, *vf, *d_out, *d4, *minus_lse, *dot;
    head_grad_scratch grad;
} core_scratch;

static void carve_core_own(core_scratch *s, const ff_attention_core_args *a, bool backward, tile_arena *own)
{
    const int64_t Q = a->num_query, K = a->num_key, c = a->c_hidden;
    s->q = tile_floats(own, Q * c);
    s->out = tile_floats(own, Q * c);
    s->qo = tile_operands(own, Q * mm_lda(c));
    s->k_t = tile_operands(own, mm_packed_size(c, K));
    s->v = tile_operands(own, mm_packed_size(K, c));
    s->limit = tile_floats(own, padded(K));
    carve_head(&s->head, own, K, c);
    if (!backward)
        return;
    s->k = tile_floats(own, K * c);
    s->vf = tile_floats(own, K * c);
    s->d_out = tile_floats(own, Q * c);
    s->d4 = tile_floats(own, (Q > K ? Q : K) * 3 * c);
    s->minus_lse = tile_floats(own, padded(Q));
    s->dot = tile_floats(own, padded(Q));
    carve_head_grad(&s->grad, own, Q, c);
}

static size_t carve_core(core_scratch *s, const ff_attention_core_args *a, bool backward, void *scratch, int thread)
{
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    const int64_t n = backward && a->bias != NULL ? a->num_head * a->num_query * a->num_key : 0;
    s->bias_t = tile_floats(&shared, n);
    s->grad_bias_t = tile_floats(&shared, n * omp_get_max_threads());
    carve_core_own(s, a, backward, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_core_own(s, a, backward, &own);
    return shared.used;
}

static void copy_rows(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t c, float factor)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i++)
            dst[r * ldd + i] = src[r * lds + i] * factor;
}

/* s->out = attention result of (batch b, head h); lse to s->minus_lse when wanted */
static void core_head_forward(core_scratch *s, const float *q, const float *k, const float *v,
                              const ff_attention_core_args *a, int64_t b, int64_t h, float *lse)
{
    const int64_t Q = a->num_query, K = a->num_key, c = a->c_hidden, ld = a->num_head * c;
    copy_rows(s->q, c, q + b * Q * ld + h * c, ld, Q, c, a->scale);
    FF_FN(mm_rows)(s->qo, mm_lda(c), s->q, c, Q, c);
    FF_FN(mm_pack_t)(s->k_t, k + b * K * ld + h * c, ld, c, K);
    FF_FN(mm_pack)(s->v, v + b * K * ld + h * c, ld, K, c);
    key_limits(s->limit, a->mask == NULL ? NULL : a->mask + b * K, 1, K);
    const head_input in = {Q, K, c, s->qo, mm_lda(c), s->k_t, s->v, a->bias == NULL ? NULL : a->bias + h * Q * K, s->limit};
    for (int64_t q0 = 0, rows; q0 < Q; q0 += rows) {
        float inverse[FF_MR];
        rows = block_height(Q - q0);
        head_block(&in, &s->head, q0, rows, inverse, lse == NULL ? NULL : lse + q0);
        for (int64_t r = 0; r < rows; r++)
            copy_rows(s->out + (q0 + r) * c, c, s->head.result + r * c, c, 1, c, inverse[r]);
    }
}

static void attention_core_forward(float *out, const float *q, const float *k, const float *v, const ff_attention_core_args *a,
                                   void *scratch)
{
    const int64_t ld = a->num_head * a->c_hidden;
#pragma omp parallel
    {
        core_scratch s;
        carve_core(&s, a, false, scratch, omp_get_thread_num());
        int64_t first, last;
        tile_share(a->batch * a->num_head, &first, &last);
        for (int64_t i = first; i < last; i++) {
            const int64_t b = i / a->num_head, h = i % a->num_head;
            core_head_forward(&s, q, k, v, a, b, h, NULL);
            copy_rows(out + b * a->num_query * ld + h * a->c_hidden, ld, s.out, a->c_hidden, a->num_query, a->c_hidden, 1.0f);
        }
    }
}

static void attention_core_backward(float *grad_q, float *grad_k, float *grad_v, float *grad_bias, const float *grad_out,
                                    const float *q, const float *k, const float *v, const ff_attention_core_args *a,
                                    void *scratch)
{
    const int64_t Q = a->num_query, K = a->num_key, c = a->c_hidden, ld = a->num_head * c, n = a->num_head * Q * K;
    if (a->batch == 0 || Q == 0 || K == 0)
        return;
#pragma omp parallel
    {
        core_scratch s;
        carve_core(&s, a, true, scratch, omp_get_thread_num());
        if (a->bias != NULL) {
            transpose_heads(s.bias_t, a->bias, a->num_head, Q, K);
            memset(s.grad_bias_t + omp_get_thread_num() * n, 0, (size_t)n * sizeof(float));
        }
#pragma omp barrier
        int64_t first, last;
        tile_share(a->batch * a->num_head, &first, &last);
        for (int64_t i = first; i < last; i++) {
            const int64_t b = i / a->num_head, h = i % a->num_head;
            core_head_forward(&s, q, k, v, a, b, h, s.minus_lse);
            const bool uniform = key_limits(s.limit, a->mask == NULL ? NULL : a->mask + b * K, 1, K);
            copy_rows(s.k, c, k + b * K * ld + h * c, ld, K, c, 1.0f);
            copy_rows(s.vf, c, v + b * K * ld + h * c, ld, K, c, 1.0f);
            copy_rows(s.d_out, c, grad_out + b * Q * ld + h * c, ld, Q, c, 1.0f);
            for (int64_t l = 0; l < padded(Q); l++) {
                float dot = 0;
                for (int64_t j = 0; l < Q && j < c; j++)
                    dot += s.d_out[l * c + j] * s.out[l * c + j];
                s.dot[l] = dot;
                s.minus_lse[l] = l < Q ? -LOG2E * s.minus_lse[l] : EXCLUDED;
            }
            const head_grad g = {.num_query = Q,
                                 .num_key = K,
                                 .c = c,
                                 .uniform = uniform,
                                 .q = s.q,
                                 .k = s.k,
                                 .v = s.vf,
                                 .ld = c,
                                 .limit = s.limit,
                                 .bias_t = a->bias == NULL ? NULL : s.bias_t + h * Q * K,
                                 .minus_lse = s.minus_lse,
                                 .grad_out = s.d_out,
                                 .ld_grad = c,
                                 .dot = s.dot,
                                 .grad_q = s.d4,
                                 .grad_k = s.d4 + c,
                                 .grad_v = s.d4 + 2 * c,
                                 .ld_dq = 3 * c,
                                 .grad_bias_t = a->bias == NULL ? NULL : s.grad_bias_t + omp_get_thread_num() * n + h * Q * K};
            head_backward(&g, &s.grad);
            for (int64_t l = 0; l < Q; l++)
                for (int64_t j = 0; j < c; j++)
                    grad_q[(b * Q + l) * ld + h * c + j] += a->scale * s.d4[l * 3 * c + j];
            for (int64_t l = 0; l < K; l++)
                for (int64_t j = 0; j < c; j++) {
                    grad_k[(b * K + l) * ld + h * c + j] += s.d4[l * 3 * c + c + j];
                    grad_v[(b * K + l) * ld + h * c + j] += s.d4[l * 3 * c + 2 * c + j];
                }
        }
#pragma omp barrier
        if (grad_bias != NULL && a->bias != NULL) {
            int64_t f, e;
            tile_share(n, &f, &e);
            for (int t = 1; t < omp_get_num_threads(); t++)
                for (int64_t i = f; i < e; i++)
                    s.grad_bias_t[i] += s.grad_bias_t[t * n + i];
#pragma omp barrier
            transpose_heads(s.bias_t, s.grad_bias_t, a->num_head, K, Q);
#pragma omp barrier
            for (int64_t i = f; i < e; i++)
                grad_bias[i] += s.bias_t[i];
        }
    }
}

static size_t attention_core_scratch_bytes(const ff_attention_core_args *a, bool backward)
{
    core_scratch s;
    return carve_core(&s, a, backward, NULL, 0);
}

void FF_FN(ff_fill_attention)(ff_kernels *table)
{
    table->attention_core_forward = attention_core_forward;
    table->attention_core_backward = attention_core_backward;
    table->attention_core_scratch_bytes = attention_core_scratch_bytes;
    table->gated_attention_forward = gated_attention_forward;
    table->gated_attention_backward = gated_attention_backward;
    table->gated_attention_scratch_bytes = gated_attention_scratch_bytes;
}
