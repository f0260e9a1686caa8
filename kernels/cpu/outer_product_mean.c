/* outer_product_mean.c - mean over sequences of left (x) right, projected to the pair (Suppl. Alg. 10), in two parts.
 *
 * Contents: layout of right; project forward, backward; product forward; product backward.
 *
 * project    per residue, by tiles of sequences: LN rows, both projections, mask     4 S R c_m c_outer FLOP
 * product    per tile of positions: o[c, e] = sum_s left right (one small product a position), rows of c_outer^2 operands,
 *            times output_w, ending in (+ bias) / norm + residual   2 S R^2 c_outer^2 + 2 R^2 c_outer^2 c_z FLOP
 * backward   threads own columns j; blocks of BLOCK rows i are taken by all threads together, so grad_right has one owner and
 *            grad_left one partial sum a thread, added in thread order after each block of rows */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

enum {
    ROWS = 96,     /* sequences of a project tile */
    POSITIONS = 64, /* positions of a product tile: 64 x 1024 operands are 256 KB */
    BLOCK = 8       /* backward: tiles of BLOCK x BLOCK positions */
};
#define NORM_EPSILON 1e-3f

typedef ff_outer_product_mean_params params;

FF_INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* right[j] is stored as packed panels [num_seq, c_outer] when that takes no more room than [s][e]; else as [s][e]. */
FF_INLINE bool right_is_packed(int64_t num_seq, int64_t c) { return c % FF_NR == 0 && num_seq % FF_KP == 0; }

/* ---- project ---- */

typedef struct {
    ff_operand *w; /* shared: packed [c_m, 2 c_outer]; backward: its transpose */
    float *w2;     /* shared [c_m, 2 c_outer]: left, right side by side */
    float *bias;
    float *parts; /* backward: gradients of w2, bias, norm */
    int64_t part;
    ff_operand *x; /* per thread */
    float *xf, *y, *dx, *t;
    ff_operand *yo;
    void *tn;
} project_scratch;

static void carve_project_own(project_scratch *s, const ff_outer_product_project_args *a, bool backward, tile_arena *own)
{
    const int64_t c2 = 2 * a->c_outer;
    s->x = tile_operands(own, backward ? 0 : ROWS * mm_lda(a->c_m));
    s->y = tile_floats(own, ROWS * c2);
    s->t = tile_floats(own, ROWS * a->c_outer);
    if (!backward)
        return;
    s->xf = tile_floats(own, ROWS * a->c_m);
    s->dx = tile_floats(own, ROWS * a->c_m);
    s->yo = FF_BF16 ? tile_operands(own, ROWS * c2) : (ff_operand *)(void *)s->y;
    s->tn = tile_take(own, FF_FN(mm_tn_scratch)(a->c_m, c2, ROWS));
}

static size_t carve_project(project_scratch *s, const ff_outer_product_project_args *a, bool backward, void *scratch,
                            int thread)
{
    const int64_t c2 = 2 * a->c_outer;
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    s->w2 = tile_floats(&shared, a->c_m * c2);
    s->bias = tile_floats(&shared, c2);
    s->w = tile_operands(&shared, backward ? mm_packed_size(c2, a->c_m) : mm_packed_size(a->c_m, c2));
    s->part = mm_round_up(a->c_m * c2 + c2 + 2 * a->c_m, 16);
    s->parts = tile_floats(&shared, backward ? s->part * omp_get_max_threads() : 0);
    carve_project_own(s, a, backward, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_project_own(s, a, backward, &own);
    return shared.used;
}

/* w2 and bias from both projections; ends in a barrier. */
static void join_weights(const project_scratch *s, const params *w, const ff_outer_product_project_args *a)
{
    const int64_t c = a->c_outer;
#pragma omp for
    for (int64_t k = 0; k < a->c_m; k++) {
        memcpy(s->w2 + k * 2 * c, w->left_projection_w + k * c, (size_t)c * sizeof(float));
        memcpy(s->w2 + k * 2 * c + c, w->right_projection_w + k * c, (size_t)c * sizeof(float));
    }
#pragma omp single
    {
        memcpy(s->bias, w->left_projection_b, (size_t)c * sizeof(float));
        memcpy(s->bias + c, w->right_projection_b, (size_t)c * sizeof(float));
    }
}

FF_INLINE float mask_at(const ff_outer_product_project_args *a, int64_t seq, int64_t res)
{
    return a->mask == NULL ? 1.0f : a->mask[seq * a->mask_stride_seq + res * a->mask_stride_res];
}

/* right[e] of sequences s0 .. s0 + n - 1 of one residue, from y[., c + e], into the residue's block */
static void store_right(ff_operand *right, const float *y, int64_t c, int64_t s0, int64_t n, int64_t num_seq)
{
    if (!right_is_packed(num_seq, c)) {
        for (int64_t r = 0; r < n; r++)
            for (int64_t e = 0; e < c; e++)
                right[(s0 + r) * c + e] = operand_from_float(y[r * 2 * c + c + e]);
        return;
    }
    for (int64_t e = 0; e < c; e += FF_NR) /* s0 is even: ROWS is */
        FF_FN(mm_pack)(right + e * num_seq + s0 * FF_NR, y + c + e, 2 * c, n, FF_NR);
}

static void project_forward(void *left, void *right, const float *msa, const params *w, const ff_outer_product_project_args *a,
                            void *scratch)
{
    const int64_t c = a->c_outer, S = a->num_seq, tiles = (S + ROWS - 1) / ROWS;
#pragma omp parallel
    {
        project_scratch s;
        carve_project(&s, a, false, scratch, omp_get_thread_num());
        join_weights(&s, w, a);
        tile_pack(s.w, s.w2, 2 * c, a->c_m, 2 * c, 0);
#pragma omp barrier
        int64_t first, last;
        tile_share(a->num_res * tiles, &first, &last);
        for (int64_t unit = first; unit < last; unit++) {
            const int64_t i = unit / tiles, s0 = unit % tiles * ROWS, n = min64(ROWS, S - s0);
            tile_layer_norm(s.x, mm_lda(a->c_m), msa + s0 * a->stride_seq + i * a->stride_res, a->stride_seq, n, a->c_m,
                            w->norm_scale, w->norm_offset);
            FF_FN(mm)(n, 2 * c, a->c_m, s.x, mm_lda(a->c_m), s.w, s.y, 2 * c, MM_STORE, s.bias);
            for (int64_t r = 0; r < n; r++) {
                const float m = mask_at(a, s0 + r, i);
                for (int64_t e = 0; e < 2 * c; e++)
                    s.y[r * 2 * c + e] *= m;
            }
            FF_FN(mm_transpose)(s.t, ROWS, s.y, 2 * c, n, c);
            ff_operand *l = (ff_operand *)left + i * c * S + s0;
            for (int64_t e = 0; e < c; e++)
                for (int64_t r = 0; r < n; r += FF_VL)
                    tile_store_operand(l + e * S + r, tile_load(s.t + e * ROWS + r, n - r), n - r);
            store_right((ff_operand *)right + i * S * c, s.y, c, s0, n, S);
        }
    }
}

static void reduce_project(const params *g, const project_scratch *s, const ff_outer_product_project_args *a)
{
    const int64_t c = a->c_outer, c2 = 2 * c;
    int64_t first, last;
    tile_share(a->c_m, &first, &last);
    for (int64_t k = first; k < last; k++)
        for (int64_t e = 0; e < c2; e++) {
            float sum = 0;
            for (int t = 0; t < omp_get_num_threads(); t++)
                sum += s->parts[t * s->part + k * c2 + e];
            if (e < c)
                g->left_projection_w[k * c + e] += sum;
            else
                g->right_projection_w[k * c + e - c] += sum;
        }
    const float *p = s->parts + a->c_m * c2;
    tile_reduce(g->left_projection_b, p, s->part, c);
    tile_reduce(g->right_projection_b, p + c, s->part, c);
    tile_reduce(g->norm_scale, p + c2, s->part, a->c_m);
    tile_reduce(g->norm_offset, p + c2 + a->c_m, s->part, a->c_m);
}

static void project_backward(float *grad_msa, const params *grad_w, const float *grad_left, const float *grad_right,
                             const float *msa, const params *w, const ff_outer_product_project_args *a, void *scratch)
{
    const int64_t c = a->c_outer, c2 = 2 * c, S = a->num_seq, tiles = (S + ROWS - 1) / ROWS;
#pragma omp parallel
    {
        project_scratch s;
        carve_project(&s, a, true, scratch, omp_get_thread_num());
        float *part = s.parts + omp_get_thread_num() * s.part, *db = part + a->c_m * c2;
        memset(part, 0, (size_t)s.part * sizeof *part);
        join_weights(&s, w, a);
        tile_pack(s.w, s.w2, c2, c2, a->c_m, 1);
#pragma omp barrier
        int64_t first, last;
        tile_share(a->num_res * tiles, &first, &last);
        for (int64_t unit = first; unit < last; unit++) {
            const int64_t i = unit / tiles, s0 = unit % tiles * ROWS, n = min64(ROWS, S - s0);
            const int64_t at = s0 * a->stride_seq + i * a->stride_res;
            FF_FN(mm_transpose)(s.y, c2, grad_left + i * c * S + s0, S, c, n);
            for (int64_t r = 0; r < n; r++) {
                const float m = mask_at(a, s0 + r, i);
                memcpy(s.y + r * c2 + c, grad_right + (i * S + s0 + r) * c, (size_t)c * sizeof(float));
                for (int64_t e = 0; e < c2; e++)
                    s.y[r * c2 + e] *= m;
            }
            if (FF_BF16)
                FF_FN(mm_rows)(s.yo, c2, s.y, c2, n, c2);
            FF_FN(mm)(n, a->c_m, c2, s.yo, c2, s.w, s.dx, a->c_m, MM_STORE, NULL);
            if (grad_w != NULL) {
                tile_layer_norm_float(s.xf, a->c_m, msa + at, a->stride_seq, n, a->c_m, w->norm_scale, w->norm_offset);
                FF_FN(mm_tn)(a->c_m, c2, n, s.xf, a->c_m, s.y, c2, part, c2, s.tn);
                tile_column_sum(db, s.y, c2, n, c2);
            }
            tile_layer_norm_backward(grad_msa + at, NULL, s.dx, a->c_m, msa + at, a->stride_seq, n, a->c_m, w->norm_scale,
                                     db + c2, db + c2 + a->c_m);
        }
#pragma omp barrier
        if (grad_w != NULL)
            reduce_project(grad_w, &s, a);
    }
}

static size_t project_scratch_bytes(const ff_outer_product_project_args *a, bool backward)
{
    project_scratch s;
    return carve_project(&s, a, backward, NULL, 0);
}

/* ---- product, forward ---- */

typedef struct {
    ff_operand *w; /* shared: packed output_w [c^2, c_z]; backward: packed transpose [c_z, c^2] */
    ff_operand *left;  /* per thread: left rows with an even leading dimension (bf16, odd num_seq) */
    ff_operand *right; /* packed panels of one residue, where right is stored as [s][e] */
    ff_operand *o;     /* [POSITIONS, lda(c^2)] */
    float *factor;     /* [POSITIONS, c_z] 1 / norm */
} product_scratch;

static size_t carve_product(product_scratch *s, const ff_outer_product_args *a, void *scratch, int thread)
{
    const int64_t c = a->c_outer, cc = mm_lda(c * c), l = c * mm_lda(a->num_seq), r = mm_packed_size(a->num_seq, c);
    tile_arena shared = {scratch, 0};
    s->w = tile_operands(&shared, mm_packed_size(c * c, a->c_z));
    tile_arena own = tile_own(&shared, thread, (size_t)(l + r + POSITIONS * cc) * sizeof(ff_operand) +
                                                   (size_t)(POSITIONS * a->c_z) * sizeof(float) + 256);
    s->left = tile_operands(&own, l);
    s->right = tile_operands(&own, r);
    s->o = tile_operands(&own, POSITIONS * cc);
    s->factor = tile_floats(&own, POSITIONS * a->c_z);
    return shared.used;
}

static const ff_operand *left_of(ff_operand *copy, const ff_operand *left, int64_t i, const ff_outer_product_args *a)
{
    const int64_t S = a->num_seq, c = a->c_outer;
    const ff_operand *rows = left + i * c * S;
    if (mm_lda(S) == S)
        return rows;
    for (int64_t r = 0; r < c; r++) {
        memcpy(copy + r * mm_lda(S), rows + r * S, (size_t)S * sizeof *copy);
        copy[r * mm_lda(S) + S] = operand_from_float(0.0f);
    }
    return copy;
}

static const ff_operand *right_of(ff_operand *copy, const ff_operand *right, int64_t j, const ff_outer_product_args *a)
{
    const ff_operand *block = right + j * a->num_seq * a->c_outer;
    if (right_is_packed(a->num_seq, a->c_outer))
        return block;
    FF_FN(mm_pack_operand)(copy, block, a->c_outer, a->num_seq, a->c_outer);
    return copy;
}

/* 1 / (1e-3 + sum_s mask[i, s] mask[j, s]) */
FF_INLINE float inverse_norm(const ff_outer_product_args *a, int64_t i, int64_t j)
{
    const float *mi = a->mask_i + i * a->num_seq, *mj = a->mask_j + j * a->num_seq;
    vf sum = v_zero();
    for (int64_t s = 0; s < a->num_seq; s += FF_VL)
        sum = v_fma(tile_load(mi + s, a->num_seq - s), tile_load(mj + s, a->num_seq - s), sum);
    return 1.0f / (NORM_EPSILON + v_sum(sum));
}

static void product_forward(float *out, const float *pair, const void *left, const void *right, const params *w,
                            const ff_outer_product_args *a, void *scratch)
{
    const int64_t c = a->c_outer, cc = c * c, per_row = (a->num_res_j + POSITIONS - 1) / POSITIONS;
#pragma omp parallel
    {
        product_scratch s;
        carve_product(&s, a, scratch, omp_get_thread_num());
        tile_pack(s.w, w->output_w, a->c_z, cc, a->c_z, 0);
        if (mm_lda(cc) != cc)
            memset(s.o, 0, (size_t)(POSITIONS * mm_lda(cc)) * sizeof *s.o);
#pragma omp barrier
        int64_t first, last;
        tile_share(a->num_res_i * per_row, &first, &last);
        for (int64_t unit = first; unit < last; unit++) {
            const int64_t i = unit / per_row, j0 = unit % per_row * POSITIONS, n = min64(POSITIONS, a->num_res_j - j0);
            const int64_t at = i * a->stride_i + j0 * a->stride_j;
            const ff_operand *l = left_of(s.left, left, i, a);
            for (int64_t p = 0; p < n; p++) {
                FF_FN(mm_operand)(c, c, a->num_seq, l, mm_lda(a->num_seq), right_of(s.right, right, j0 + p, a),
                                  s.o + p * mm_lda(cc), c, NULL, 0);
                const vf f = v_set1(inverse_norm(a, i, j0 + p));
                for (int64_t k = 0; k < a->c_z; k += FF_VL)
                    v_store_n(s.factor + p * a->c_z + k, f, a->c_z - k);
            }
            const mm_residual u = {a->residual ? pair + at : NULL, a->stride_j, w->output_b, s.factor, a->c_z};
            FF_FN(mm_update)(n, a->c_z, cc, s.o, mm_lda(cc), s.w, out + at, a->stride_j, &u);
        }
    }
}

/* ---- product, backward ---- */

typedef struct {
    product_scratch f; /* w is output_w^T packed [c_z, c^2] here; o has BLOCK * BLOCK rows */
    float *parts;      /* gradients of output_w and output_b */
    int64_t part;
    float *grad_left;  /* [threads][BLOCK, c, num_seq] partial sums of a block of rows */
    float *dz, *d, *of; /* per thread: [64, c_z]; [64, c^2] gradient of o; o in float32 */
    ff_operand *dzo, *d_operand;
    ff_operand *left_pairs; /* [BLOCK][c / FF_KP, num_seq padded] steps of left^T as a left side */
    ff_operand *right_t;    /* [BLOCK] packed [c, num_seq] */
    ff_operand *d_packed;   /* [BLOCK] packed [c, c] of one column of the tile */
    float *t;               /* [num_seq, c] */
    void *tn;
} backward_scratch;

enum { TILE = BLOCK * BLOCK };

static void carve_backward_own(backward_scratch *s, const ff_outer_product_args *a, tile_arena *own)
{
    const int64_t c = a->c_outer, cc = c * c, S = a->num_seq, cz = a->c_z;
    s->f.left = tile_operands(own, c * mm_lda(S));
    s->f.right = tile_operands(own, mm_packed_size(S, c));
    s->dz = tile_floats(own, TILE * cz);
    s->d = tile_floats(own, TILE * cc);
    s->of = tile_floats(own, TILE * cc);
    s->dzo = FF_BF16 ? tile_operands(own, TILE * mm_lda(cz)) : (ff_operand *)(void *)s->dz;
    s->d_operand = FF_BF16 ? tile_operands(own, TILE * c * mm_lda(c)) : (ff_operand *)(void *)s->d;
    s->left_pairs = tile_operands(own, BLOCK * mm_lda(c) * mm_round_up(S, FF_NR));
    s->right_t = tile_operands(own, BLOCK * mm_packed_size(c, S));
    s->d_packed = tile_operands(own, BLOCK * mm_packed_size(c, c));
    s->t = tile_floats(own, mm_round_up(S, 2) * c);
    s->tn = tile_take(own, FF_FN(mm_tn_scratch)(cc, cz, TILE));
}

static size_t carve_backward(backward_scratch *s, const ff_outer_product_args *a, void *scratch, int thread)
{
    const int64_t c = a->c_outer, cc = c * c;
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    s->f.w = tile_operands(&shared, mm_packed_size(a->c_z, cc));
    s->part = mm_round_up(cc * a->c_z + a->c_z, 16);
    s->parts = tile_floats(&shared, s->part * omp_get_max_threads());
    s->grad_left = tile_floats(&shared, BLOCK * c * a->num_seq * omp_get_max_threads());
    carve_backward_own(s, a, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_backward_own(s, a, &own);
    return shared.used;
}

/* right[j] as rows [s][e] in float32 */
static void unpack_right(float *t, const ff_operand *right, int64_t j, const ff_outer_product_args *a)
{
    const int64_t c = a->c_outer, S = a->num_seq;
    const ff_operand *block = right + j * S * c;
    const bool packed = right_is_packed(S, c);
    for (int64_t s = 0; s < S; s++)
        for (int64_t e = 0; e < c; e++) {
            const int64_t at = packed ? e / FF_NR * FF_NR * S + (s / FF_KP * FF_NR + e % FF_NR) * FF_KP + s % FF_KP : s * c + e;
            t[s * c + e] = operand_to_float(block[at]);
        }
}

/* left[i] [c][s] as the steps of a transposed left side: float32 rows, or pairs of rows c, c + 1 interleaved */
static void pair_left(ff_operand *dst, const ff_operand *left, int64_t i, const ff_outer_product_args *a)
{
    const int64_t c = a->c_outer, S = a->num_seq, ld = mm_round_up(S, FF_NR);
    const ff_operand *rows = left + i * c * S;
    for (int64_t k = 0; k < c; k += FF_KP)
        for (int64_t s = 0; s < S; s++)
            for (int64_t q = 0; q < FF_KP; q++)
                dst[k * ld + s * FF_KP + q] = k + q < c ? rows[(k + q) * S + s] : operand_from_float(0.0f);
}

FF_INLINE void add_tile(float *C, int64_t ldc, vf acc[][2], int rows, int64_t n)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const int64_t left = n - v * FF_VL;
            float *p = C + r * ldc + v * FF_VL;
            if (left >= FF_VL)
                v_store(p, v_load(p) + acc[r][v]);
            else if (left > 0)
                v_store_n(p, v_load_n(p, left) + acc[r][v], left);
        }
}

/* C[m, n] += sum over `segments` blocks of k: A_q[m, k] B_q[k, n]: A rows with row stride sr, step stride sk. */
FF_INLINE void segment_tile(int rows, int64_t segments, int64_t steps, const ff_operand *A, int64_t sr, int64_t sk, int64_t sq,
                            const ff_operand *Bp, int64_t bq, float *C, int64_t ldc, int64_t n)
{
    vf acc[FF_MR][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = v_zero();
    for (int64_t q = 0; q < segments; q++) {
        const ff_operand *a = A + q * sq, *b = Bp + q * bq;
        for (int64_t k = 0; k < steps; k++) {
            const mm_b b0 = MM_B(b + k * FF_NR * FF_KP), b1 = MM_B(b + k * FF_NR * FF_KP + FF_VL * FF_KP);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
                const mm_a x = mm_read(a + r * sr + k * sk);
                acc[r][0] = MM_STEP(acc[r][0], x, b0);
                acc[r][1] = MM_STEP(acc[r][1], x, b1);
            }
        }
    }
    add_tile(C, ldc, acc, rows, n);
}

#define SEGMENT_CASE(r)                                                                                                \
    case r:                                                                                                            \
        segment_tile(r, segments, steps, A, sr, sk, sq, Bp, bq, C, ldc, n);                                            \
        break;

static void segment_rows(int64_t rows, int64_t segments, int64_t steps, const ff_operand *A, int64_t sr, int64_t sk, int64_t sq,
                         const ff_operand *Bp, int64_t bq, float *C, int64_t ldc, int64_t n)
{
    switch (rows) { MM_ROW_CASES(SEGMENT_CASE) }
}

/* One tile of ni x nj positions from (i0, j0): into grad_left (this thread's partial sums of the block) and grad_right. */
static void tile_backward(backward_scratch *s, float *grad_left, float *grad_right, float *part, const float *grad_out,
                          const void *left, const void *right, const ff_outer_product_args *a, int64_t i0, int64_t ni,
                          int64_t j0, int64_t nj, bool want_weights)
{
    const int64_t c = a->c_outer, cc = c * c, S = a->num_seq, cz = a->c_z, n = ni * nj;
    for (int64_t p = 0; p < n; p++) { /* position p: row i0 + p / nj, column j0 + p % nj */
        const float f = inverse_norm(a, i0 + p / nj, j0 + p % nj);
        const float *g = grad_out + (i0 + p / nj) * a->stride_i + (j0 + p % nj) * a->stride_j;
        for (int64_t k = 0; k < cz; k++)
            s->dz[p * cz + k] = g[k] * f;
    }
    if (FF_BF16)
        FF_FN(mm_rows)(s->dzo, mm_lda(cz), s->dz, cz, n, cz);
    FF_FN(mm)(n, cc, cz, s->dzo, mm_lda(cz), s->f.w, s->d, cc, MM_STORE, NULL);
    if (want_weights) {
        for (int64_t p = 0; p < n; p++)
            FF_FN(mm)(c, c, S, left_of(s->f.left, left, i0 + p / nj, a), mm_lda(S), right_of(s->f.right, right, j0 + p % nj, a),
                      s->of + p * cc, c, MM_STORE, NULL);
        FF_FN(mm_tn)(cc, cz, n, s->of, cc, s->dz, cz, part, cz, s->tn);
        tile_column_sum(part + cc * cz, s->dz, cz, n, cz);
    }
    /* grad_left[i][c, s] += sum_j,e d[i, j][c, e] right[j][s, e] */
    const int64_t lc = mm_lda(c), step_e = lc / FF_KP, rt = mm_packed_size(c, S);
    if (FF_BF16)
        FF_FN(mm_rows)(s->d_operand, lc, s->d, c, n * c, c);
    const int64_t ld = FF_BF16 ? lc : c;
    for (int64_t i = 0; i < ni; i++)
        for (int64_t s0 = 0; s0 < S; s0 += FF_NR)
            for (int64_t m = 0, h; m < c; m += h) {
                h = min64(FF_MR, c - m);
                segment_rows(h, nj, step_e, s->d_operand + (i * nj * c + m) * ld, ld, FF_KP, c * ld,
                             s->right_t + s0 * lc, rt, grad_left + (i * c + m) * S + s0, S, S - s0);
            }
    /* grad_right[j][s, e] += sum_i,c left[i][c, s] d[i, j][c, e] */
    const int64_t pd = mm_packed_size(c, c), lp = mm_round_up(S, FF_NR) * lc;
    for (int64_t j = 0; j < nj; j++) {
        for (int64_t i = 0; i < ni; i++)
            FF_FN(mm_pack)(s->d_packed + i * pd, s->d + (i * nj + j) * cc, c, c, c);
        for (int64_t e0 = 0; e0 < c; e0 += FF_NR)
            for (int64_t m = 0, h; m < S; m += h) {
                h = min64(FF_MR, S - m);
                segment_rows(h, ni, step_e, s->left_pairs + m * FF_KP, FF_KP, mm_round_up(S, FF_NR) * FF_KP, lp,
                             s->d_packed + e0 * lc, pd, grad_right + ((j0 + j) * S + m) * c + e0, c, c - e0);
            }
    }
}

static void product_backward(float *grad_left, float *grad_right, const params *grad_w, const float *grad_out,
                             const void *left, const void *right, const params *w, const ff_outer_product_args *a,
                             void *scratch)
{
    const int64_t c = a->c_outer, cc = c * c, S = a->num_seq, block = BLOCK * c * S;
    const int64_t lp = mm_round_up(S, FF_NR) * mm_lda(c), rt = mm_packed_size(c, S);
#pragma omp parallel
    {
        backward_scratch s;
        carve_backward(&s, a, scratch, omp_get_thread_num());
        float *part = s.parts + omp_get_thread_num() * s.part, *own = s.grad_left + omp_get_thread_num() * block;
        memset(part, 0, (size_t)s.part * sizeof *part);
        tile_pack(s.f.w, w->output_w, a->c_z, a->c_z, cc, 1);
        int64_t first, last;
        tile_share(a->num_res_j, &first, &last);
        for (int64_t i0 = 0; i0 < a->num_res_i; i0 += BLOCK) {
            const int64_t ni = min64(BLOCK, a->num_res_i - i0);
            memset(own, 0, (size_t)block * sizeof *own);
            for (int64_t i = 0; i < ni; i++)
                pair_left(s.left_pairs + i * lp, left, i0 + i, a);
#pragma omp barrier
            for (int64_t j0 = first; j0 < last; j0 += BLOCK) {
                const int64_t nj = min64(BLOCK, last - j0);
                for (int64_t j = 0; j < nj; j++) {
                    unpack_right(s.t, right, j0 + j, a);
                    FF_FN(mm_pack_t)(s.right_t + j * rt, s.t, c, c, S);
                }
                tile_backward(&s, own, grad_right, part, grad_out, left, right, a, i0, ni, j0, nj, grad_w != NULL);
            }
#pragma omp barrier
            tile_reduce(grad_left + i0 * c * S, s.grad_left, block, ni * c * S);
#pragma omp barrier
        }
        if (grad_w != NULL) {
#pragma omp barrier
            tile_reduce(grad_w->output_w, s.parts, s.part, cc * a->c_z);
            tile_reduce(grad_w->output_b, s.parts + cc * a->c_z, s.part, a->c_z);
        }
    }
}

static size_t product_scratch_bytes(const ff_outer_product_args *a, bool backward)
{
    product_scratch f;
    backward_scratch b;
    return backward ? carve_backward(&b, a, NULL, 0) : carve_product(&f, a, NULL, 0);
}

void FF_FN(ff_fill_outer_product_mean)(ff_kernels *table)
{
    table->outer_product_mean_project_forward = project_forward;
    table->outer_product_mean_project_backward = project_backward;
    table->outer_product_mean_project_scratch_bytes = project_scratch_bytes;
    table->outer_product_mean_product_forward = product_forward;
    table->outer_product_mean_product_backward = product_backward;
    table->outer_product_mean_product_scratch_bytes = product_scratch_bytes;
}
