/* triangle.c - triangle multiplication: project, product, output, forward and backward (Jumper et al. 2021, Suppl.
 * Algorithms 11 and 12).
 *
 * Contents
 *   1. positions, folded weights, normalised rows
 *   2. project forward
 *   3. project backward
 *   4. product: a channel's matrix product, forward and backward
 *   5. output forward
 *   6. output backward
 *   7. scratch sizes, table
 *
 * Layer norms are folded into the weights that follow them: LN(x) W + b = xh (diag(scale) W) + (b + offset W) with xh the
 * normalised row. So operands are xh itself, and with G = xh^T grad_y and g = sum grad_y the backward pass has
 *     grad_W = diag(scale) G + offset g^T,  grad_scale[k] = sum_n W[k, n] G[k, n],  grad_offset[k] = sum_n W[k, n] g[n].
 *
 * Positions (i, j) are walked flat, p = i num_j + j, so that only the last tile of all is ragged. A register tile holds
 * the value and the gate of the same channels, and the gating happens in registers. */
#include "kernels/cpu/families.h"
#include "kernels/cpu/register_tile.h"

typedef ff_triangle_multiplication_params params;
typedef ff_triangle_multiplication_args tri_args;

enum {
    HALF = FF_MR / 2,        /* values of a register tile; as many gates */
    PROJECT_P = 2 * FF_NR,   /* positions of a project unit: two panels */
    OUTPUT_P = 8 * FF_MR,    /* positions of an output unit: whole register tiles and whole vectors */
    ACCUMULATE_P = 3 * FF_NR /* positions of a project backward unit */
};

/* ---- 1. positions, folded weights, normalised rows ---- */

/* Leading dimension (floats) of buffered rows: whole panels, and an odd number of vectors so that the rows of one column
 * do not fall on the same cache sets. */
static int64_t row_ld(int64_t c) { return mm_round_up(c, FF_NR) + FF_VL; }

/* Where positions first .. first + n - 1 lie in the pair array and, if wanted, their j and mask; mask is 0 up to `room`. */
static void locate(const tri_args *a, int64_t first, int64_t n, int64_t room, int64_t *offset, int64_t *column, float *mask)
{
    if (n <= 0)
        return;
    int64_t i = first / a->num_j, j = first % a->num_j;
    for (int64_t p = 0; p < n; p++) {
        offset[p] = i * a->stride_i + j * a->stride_j;
        if (column != NULL)
            column[p] = j;
        if (mask != NULL)
            mask[p] = a->mask == NULL ? 1.0f : a->mask[i * a->mask_stride_i + j * a->mask_stride_j];
        if (++j == a->num_j) {
            j = 0;
            i++;
        }
    }
    for (int64_t p = n; mask != NULL && p < room; p++)
        mask[p] = 0.0f;
}

/* What the next unit will read, prefetched a little with each register tile of this one: rows of up to 3 arrays of the
 * pair's layout, and `bytes` of each channel of up to 4 planes. */
typedef struct {
    const float *rows[3];
    const int64_t *offset;
    const char *planes[4];
    int64_t n, c, channels, stride, bytes; /* rows, their length, channels of a plane, bytes between them, bytes of each */
    int64_t at, items, per_tile;
} unit_ahead;

static void ahead_begin(unit_ahead *u, const int64_t *offset, int64_t n, int64_t c, int64_t tiles)
{
    u->offset = offset;
    u->n = n;
    u->c = c;
    u->at = 0;
    u->items = n > 0 ? n + u->channels : 0;
    u->per_tile = (u->items + tiles - 1) / tiles;
}
static inline void prefetch_some(unit_ahead *u)
{
    const int64_t end = u->at + u->per_tile < u->items ? u->at + u->per_tile : u->items;
    for (; u->at < end; u->at++) {
        if (u->at < u->n) {
            for (int a = 0; a < 3 && u->rows[a] != NULL; a++)
                for (int64_t k = 0; k < u->c; k += 16)
                    rt_prefetch(u->rows[a] + u->offset[u->at] + k);
        } else {
            for (int a = 0; a < 4 && u->planes[a] != NULL; a++)
                for (int64_t q = 0; q < u->bytes; q += 64)
                    rt_prefetch(u->planes[a] + (u->at - u->n) * u->stride + q);
        }
    }
}

/* Pointers to FF_VL rows from position r; beyond n the last one again. */
FF_INLINE void point_rows(const float *row[FF_VL], const float *x, const int64_t *offset, int64_t r, int64_t n)
{
    for (int i = 0; i < FF_VL; i++)
        row[i] = x + offset[r + i < n ? r + i : n - 1];
}

/* xh = (x - mean) rstd of n rows as operands into rows, as floats into copy (NULL = not wanted; in float32 tables only
 * rows is used); rows n .. room - 1 become zero. Pad columns of the buffers stay as they are. rstd [room] may be NULL. */
static void normalise_rows(ff_operand *rows, float *copy, float *rstd, int64_t ld, const float *x, const int64_t *offset,
                           int64_t n, int64_t room, int64_t c)
{
    for (int64_t r0 = 0; r0 < n; r0 += FF_VL) {
        const float *row[FF_VL];
        float mean[FF_VL], scale[FF_VL];
        vf m, s;
        point_rows(row, x, offset, r0, n);
        rt_statistics(row, c, &m, &s);
        v_store(mean, m);
        v_store(scale, s);
        if (rstd != NULL)
            v_store(rstd + r0, s);
        for (int64_t r = 0; r < FF_VL && r0 + r < n; r++) {
            const vf vm = v_set1(mean[r]), vs = v_set1(scale[r]);
            for (int64_t k = 0; k < c; k += FF_VL) {
                const vf v = (tile_load(row[r] + k, c - k) - vm) * vs;
                rt_store_operand(rows + (r0 + r) * ld + k, v, c - k);
                if (FF_BF16 && copy != NULL)
                    rt_store(copy + (r0 + r) * ld + k, v, c - k);
            }
        }
    }
    for (int64_t r = n; r < room; r++) {
        memset(rows + r * ld, 0, (size_t)c * sizeof *rows);
        if (FF_BF16 && copy != NULL)
            memset(copy + r * ld, 0, (size_t)c * sizeof *copy);
    }
}

/* The same, transposed, as right operand panels [panel][k][FF_NR] of n positions; the last panel's other columns repeat
 * the last position. */
static void normalise_panels(ff_operand *panels, const float *x, const int64_t *offset, int64_t n, int64_t c)
{
    const int64_t kp = mm_round_up(c, FF_KP);
    for (int64_t r = 0; r < mm_round_up(n, FF_NR); r += FF_VL) {
        const float *row[FF_VL];
        vf mean, scale, b[FF_VL + 1];
        ff_operand *out = panels + r / FF_NR * FF_NR * kp + r % FF_NR * FF_KP;
        point_rows(row, x, offset, r, n);
        rt_statistics(row, c, &mean, &scale);
        b[FF_VL] = v_zero();
        for (int64_t k0 = 0; k0 < c; k0 += FF_VL, out += FF_VL * FF_NR) {
            const int64_t nk = c - k0 < FF_VL ? c - k0 : FF_VL;
#pragma GCC unroll 16
            for (int i = 0; i < FF_VL; i++)
                b[i] = tile_load(row[i] + k0, nk);
            v_transpose(b);
#pragma GCC unroll 16
            for (int k = 0; k < FF_VL; k++)
                b[k] = (b[k] - mean) * scale;
            if (nk < FF_VL)
                b[nk] = v_zero();
#if FF_BF16
            for (int k = 0; k < nk; k += 2)
                vi_store(out + k * FF_NR, v_bf16_pair(b[k], b[k + 1]));
#else
            for (int k = 0; k < nk; k++)
                v_store(out + k * FF_NR, b[k]);
#endif
        }
    }
}

/* grad_x = base + rstd (g - mean(g) - xh mean(g xh)) for one row; base NULL = 0 */
FF_INLINE void normalise_backward(float *grad_x, const float *base, const float *base2, const float *g, const float *xh,
                                  float rstd, int64_t c)
{
    vf sg = v_zero(), sx = v_zero();
    for (int64_t k = 0; k < c; k += FF_VL) {
        const vf v = tile_load(g + k, c - k);
        sg += v;
        sx = v_fma(v, tile_load(xh + k, c - k), sx);
    }
    const vf a = v_set1(v_sum(sg) / (float)c), b = v_set1(v_sum(sx) / (float)c), s = v_set1(rstd);
    for (int64_t k = 0; k < c; k += FF_VL) {
        vf v = s * (tile_load(g + k, c - k) - a - tile_load(xh + k, c - k) * b);
        if (base != NULL)
            v += tile_load(base + k, c - k);
        if (base2 != NULL)
            v += tile_load(base2 + k, c - k);
        rt_store(grad_x + k, v, c - k);
    }
}

/* Rows of float32 as pairs of rows, the form a bf16 product sums over rows in: dst[r / 2][k][2], leading dimension ld pairs.
 * Whole panels are read: the buffers have them. */
static void pair_rows(ff_operand *dst, const float *rows, int64_t ld, int64_t n, int64_t c)
{
#if FF_BF16
    for (int64_t r = 0; r < n; r += 2)
        for (int64_t k = 0; k < c; k += FF_VL)
            vi_store(dst + r * ld + 2 * k, v_bf16_pair(v_load(rows + r * ld + k), v_load(rows + (r + 1) * ld + k)));
#else
    (void)dst, (void)rows, (void)ld, (void)n, (void)c;
#endif
}

/* folded[k, n] = scale[k] w[k, n] by all threads of the region; columns `at` .. at + N - 1 of rows of ldf. */
static void fold(float *folded, int64_t ldf, int64_t at, const float *w, int64_t ldw, const float *scale, int64_t K,
                 int64_t N)
{
    int64_t k0, k1;
    tile_share(K, &k0, &k1);
    for (int64_t k = k0; k < k1; k++)
        for (int64_t n = 0; n < N; n += FF_VL)
            rt_store(folded + k * ldf + at + n, v_set1(scale[k]) * tile_load(w + k * ldw + n, N - n), N - n);
}
/* out[n] = b[n] + sum_k offset[k] w[k, n] */
static void fold_bias(float *out, const float *b, const float *w, int64_t ldw, const float *offset, int64_t K, int64_t N)
{
    int64_t v0, v1;
    tile_share((N + FF_VL - 1) / FF_VL, &v0, &v1);
    for (int64_t n = v0 * FF_VL; n < v1 * FF_VL; n += FF_VL) {
        vf s = b == NULL ? v_zero() : tile_load(b + n, N - n);
        for (int64_t k = 0; k < K; k++)
            s = v_fma(v_set1(offset[k]), tile_load(w + k * ldw + n, N - n), s);
        rt_store(out + n, s, N - n);
    }
}

/* The four projections' weights side by side, folded: columns left values, right values, left gates, right gates. */
static void fold_projections(float *folded, float *bias, const params *w, int64_t c_z, int64_t ch)
{
    const float *weights[4] = {w->left_projection_w, w->right_projection_w, w->left_gate_w, w->right_gate_w};
    const float *biases[4] = {w->left_projection_b, w->right_projection_b, w->left_gate_b, w->right_gate_b};
    for (int s = 0; s < 4; s++) {
        fold(folded, 4 * ch, s * ch, weights[s], w->projection_stride, w->norm_scale, c_z, ch);
        fold_bias(bias + s * ch, biases[s], weights[s], w->projection_stride, w->norm_offset, c_z, ch);
    }
}

/* One left-side tile [k][FF_MR]: rows r < count are columns first + r of folded, and (second >= 0) rows HALF + r are columns
 * second + r; others are zero. */
static void pack_left_tile(ff_operand *dst, const float *folded, int64_t ldf, int64_t K, int64_t first, int64_t second,
                           int64_t count)
{
    const int64_t padded = mm_round_up(K, FF_KP);
    for (int64_t k = 0; k < padded; k++)
        for (int64_t r = 0; r < FF_MR; r++) {
            float v = 0.0f;
            if (k < K) {
                if (second >= 0 && r >= HALF)
                    v = r - HALF < count ? folded[k * ldf + second + r - HALF] : 0.0f;
                else
                    v = r < count ? folded[k * ldf + first + r] : 0.0f;
            }
            dst[(k / FF_KP * FF_MR + r) * FF_KP + k % FF_KP] = operand_from_float(v);
        }
}

/* dst[m, n] = sum_k A[m, k] B[k, n], floats in row buffers: whole panels are stored. */
FF_INLINE void rows_tile(int rows, int64_t steps, const ff_operand *A, int64_t lda, const ff_operand *B, float *dst,
                         int64_t ldd)
{
    vf acc[FF_MR][2];
    rt_zero(rows, acc);
    rt_sum(rows, 2, steps, A, lda, FF_KP, B, FF_NR * FF_KP, acc, NULL, 0);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        v_store(dst + r * ldd, acc[r][0]);
        v_store(dst + r * ldd + FF_VL, acc[r][1]);
    }
}
static void rows_product(float *dst, int64_t ldd, const ff_operand *A, int64_t lda, const ff_operand *B, int64_t M, int64_t N,
                         int64_t K, unit_ahead *soon)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    for (int64_t n = 0; n < N; n += FF_NR)
        for (int64_t m = 0, h; m < M; m += h) {
            h = rt_height(M - m);
            prefetch_some(soon);
#define ROWS(r) rows_tile(r, steps, A + m * lda, lda, B + n * steps * FF_KP, dst + m * ldd + n, ldd)
            RT_ROWS(h, ROWS)
        }
}

/* G[m, n] += sum over rows r of X[r, m] Y[r, n]; X, Y row buffers (bf16: as pair_rows), `steps` rows or pairs.
 * Panels of Y and of G (leading dimension a multiple of FF_NR) are whole. */
FF_INLINE void accumulate_tile(int rows, int64_t steps, const ff_operand *X, int64_t ldx, const ff_operand *Y, int64_t ldy,
                               float *G, int64_t ldg)
{
    vf acc[FF_MR][2];
    rt_zero(rows, acc);
    rt_sum(rows, 2, steps, X, FF_KP, ldx * FF_KP, Y, ldy * FF_KP, acc, NULL, 0);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        v_store(G + r * ldg, v_load(G + r * ldg) + acc[r][0]);
        v_store(G + r * ldg + FF_VL, v_load(G + r * ldg + FF_VL) + acc[r][1]);
    }
}
static void accumulate(float *G, int64_t ldg, const ff_operand *X, int64_t ldx, const ff_operand *Y, int64_t ldy, int64_t M,
                       int64_t N, int64_t steps, unit_ahead *soon)
{
    for (int64_t n = 0; n < N; n += FF_NR)
        for (int64_t m = 0, h; m < M; m += h) {
            h = rt_height(M - m);
            prefetch_some(soon);
#define ACCUMULATE(r) accumulate_tile(r, steps, X + m * FF_KP, ldx, Y + n * FF_KP, ldy, G + m * ldg + n, ldg)
            RT_ROWS(h, ACCUMULATE)
        }
}

/* ---- 2. project forward ---- */

typedef struct {
    float *folded, *bias;         /* [c_z, 4 ch], [4 ch] */
    ff_operand *left_tiles;       /* [tile][k][FF_MR] */
    ff_operand *panels;           /* of a thread: [panel][k][FF_NR] */
} project_scratch;

static size_t project_layout(project_scratch *s, const tri_args *a, void *base, int thread)
{
    const int64_t nc = 2 * a->c_hidden, tiles = (nc + HALF - 1) / HALF, kp = mm_round_up(a->c_z, FF_KP);
    tile_arena shared = {base, 0};
    s->folded = tile_floats(&shared, a->c_z * 2 * nc);
    s->bias = tile_floats(&shared, 2 * nc);
    s->left_tiles = tile_operands(&shared, tiles * kp * FF_MR);
    tile_arena own = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            own = tile_own(&shared, thread, own.used);
        s->panels = tile_operands(&own, PROJECT_P * kp);
    }
    return shared.used;
}

/* Value and gate of HALF channels at FF_NR positions. */
FF_INLINE void project_sum(int64_t steps, const ff_operand *A, const ff_operand *panel, vf acc[][2])
{
    rt_zero(FF_MR, acc);
    rt_sum(FF_MR, 2, steps, A, FF_KP, FF_MR * FF_KP, panel, FF_NR * FF_KP, acc, NULL, 0);
}

static void project_forward(void *left_, void *right_, const float *pair, const params *w, const tri_args *args,
                            void *scratch)
{
    ff_operand *left = left_, *right = right_;
    const int64_t P = args->num_i * args->num_j, c_z = args->c_z, ch = args->c_hidden, nc = 2 * ch;
    const int64_t tiles = (nc + HALF - 1) / HALF, kp = mm_round_up(c_z, FF_KP), steps = kp / FF_KP;
    if (P == 0 || ch == 0)
        return;
    /* stores past the caches when the result would not stay in them anyway */
    const bool stream = rt_aligned(left) && rt_aligned(right) && P * (int64_t)sizeof(ff_operand) % 64 == 0 &&
                        P * nc * (int64_t)sizeof(ff_operand) > 16 << 20;
#pragma omp parallel
    {
        project_scratch s;
        project_layout(&s, args, scratch, omp_get_thread_num());
        fold_projections(s.folded, s.bias, w, c_z, ch);
#pragma omp barrier
#pragma omp for
        for (int64_t t = 0; t < tiles; t++)
            pack_left_tile(s.left_tiles + t * kp * FF_MR, s.folded, 2 * nc, c_z, t * HALF, nc + t * HALF,
                           nc - t * HALF < HALF ? nc - t * HALF : HALF);
        int64_t first, last, offset[2][PROJECT_P];
        float mask[2][PROJECT_P];
        tile_share((P + PROJECT_P - 1) / PROJECT_P, &first, &last);
        int now = 0;
        int64_t n = P - first * PROJECT_P < PROJECT_P ? P - first * PROJECT_P : PROJECT_P;
        if (first < last)
            locate(args, first * PROJECT_P, n, PROJECT_P, offset[0], NULL, mask[0]);
        for (int64_t u = first; u < last; u++, now ^= 1) {
            const int64_t p0 = u * PROJECT_P, after = p0 + PROJECT_P;
            const int64_t next = u + 1 == last ? 0 : P - after < PROJECT_P ? P - after : PROJECT_P;
            locate(args, after, next, PROJECT_P, offset[now ^ 1], NULL, mask[now ^ 1]);
            normalise_panels(s.panels, pair, offset[now], n, c_z);
            unit_ahead soon = {{pair, NULL, NULL}, NULL, {NULL}, 0, 0, 0, 0, 0, 0, 0, 0};
            ahead_begin(&soon, offset[now ^ 1], next, c_z, tiles);
            for (int64_t t = 0; t < tiles; t++) {
                prefetch_some(&soon);
                for (int64_t h = 0; h < n; h += FF_NR) {
                    vf acc[FF_MR][2];
                    project_sum(steps, s.left_tiles + t * kp * FF_MR, s.panels + h * kp, acc);
                    const vf m0 = v_load(mask[now] + h), m1 = v_load(mask[now] + h + FF_VL);
#pragma GCC unroll 16
                    for (int r = 0; r < HALF; r++) {
                        const int64_t c = t * HALF + r;
                        if (c >= nc)
                            break;
                        const vf b = v_set1(s.bias[c]), g = v_set1(s.bias[nc + c]);
                        const vf y0 = (acc[r][0] + b) * v_sigmoid(acc[HALF + r][0] + g) * m0;
                        const vf y1 = (acc[r][1] + b) * v_sigmoid(acc[HALF + r][1] + g) * m1;
                        ff_operand *out = (c < ch ? left + c * P : right + (c - ch) * P) + p0 + h;
                        if (n - h < FF_NR) {
                            rt_store_operand(out, y0, n - h);
                            rt_store_operand(out + FF_VL, y1, n - h - FF_VL);
                        } else if (stream) {
                            rt_stream(out, y0, y1);
                        } else {
                            v_store_operand(out, y0);
                            v_store_operand(out + FF_VL, y1);
                        }
                    }
                }
            }
            n = next;
        }
        rt_stream_end();
    }
}

/* ---- 3. project backward ---- */

/* d: gradients of the 2 ch values (rows 0 .. nc - 1) and of their gates' logits (rows nc .. 2 nc - 1) at the unit's
 * positions; in bf16 also as row pairs, the form the product over channels wants. */
typedef struct {
    float *folded, *bias;
    ff_operand *gate_tiles; /* [tile][k][FF_MR] gates */
    ff_operand *back;       /* panels of [2 nc, c_z]: folded transposed */
    float *gt, *db;         /* of a thread: [2 nc, ldg], [2 nc, FF_VL] */
    ff_operand *rows;       /* [ACCUMULATE_P][ld] */
    float *copy;            /* the same as floats (in float32 tables: rows itself) */
    ff_operand *row_pairs, *panels, *d, *d_pairs;
    float *dx;              /* [ACCUMULATE_P][ld] */
    size_t thread_stride;   /* floats from one thread's gt to the next one's */
} project_back_scratch;

enum { D_LD = ACCUMULATE_P + FF_VL };

static size_t project_back_layout(project_back_scratch *s, const tri_args *a, void *base, int thread)
{
    const int64_t nc = 2 * a->c_hidden, tiles = (nc + FF_MR - 1) / FF_MR, kp = mm_round_up(a->c_z, FF_KP);
    const int64_t ld = row_ld(a->c_z);
    tile_arena shared = {base, 0};
    s->folded = tile_floats(&shared, a->c_z * 2 * nc);
    s->bias = tile_floats(&shared, 2 * nc);
    s->gate_tiles = tile_operands(&shared, tiles * kp * FF_MR);
    s->back = tile_operands(&shared, mm_packed_size(2 * nc, a->c_z));
    tile_arena own = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            s->thread_stride = ((own.used + 4095) & ~(size_t)4095) / sizeof(float);
            own = tile_own(&shared, thread, own.used);
        }
        s->gt = tile_floats(&own, 2 * nc * mm_round_up(a->c_z, FF_NR));
        s->db = tile_floats(&own, 2 * nc * FF_VL);
        s->rows = tile_operands(&own, ACCUMULATE_P * ld);
        s->copy = FF_BF16 ? tile_floats(&own, ACCUMULATE_P * ld) : (float *)(void *)s->rows;
        s->row_pairs = FF_BF16 ? tile_operands(&own, ACCUMULATE_P * ld) : s->rows;
        s->panels = tile_operands(&own, ACCUMULATE_P * kp);
        s->d = tile_operands(&own, 2 * nc * D_LD);
        s->d_pairs = FF_BF16 ? tile_operands(&own, 2 * nc * D_LD) : s->d;
        s->dx = tile_floats(&own, ACCUMULATE_P * ld);
    }
    return shared.used;
}

FF_INLINE void store_row_gradient(const project_back_scratch *s, int64_t row, int64_t p, const vf a[2], const vf b[2])
{
    /* rows `row` and row + 1; d_pairs[row / 2][p][2] */
    for (int v = 0; v < 2; v++) {
        v_store_operand(s->d + row * D_LD + p + v * FF_VL, a[v]);
        v_store_operand(s->d + (row + 1) * D_LD + p + v * FF_VL, b[v]);
#if FF_BF16
        vi_store(s->d_pairs + row * D_LD + 2 * (p + v * FF_VL), v_bf16_pair(a[v], b[v]));
#endif
    }
}

/* dx[p, k] = sum over rows n of d[n, p] folded[k, n] for `rows` positions from p and one panel. */
FF_INLINE void project_back_tile(int rows, int64_t steps, const ff_operand *d, const ff_operand *B, float *dx, int64_t ld,
                                 const char *ahead)
{
    vf acc[FF_MR][2];
    rt_zero(rows, acc);
    rt_sum(rows, 2, steps, d, FF_KP, D_LD * FF_KP, B, FF_NR * FF_KP, acc, ahead, 0);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        v_store(dx + r * ld, acc[r][0]);
        v_store(dx + r * ld + FF_VL, acc[r][1]);
    }
}
/* G^T[n, k] += sum_p d[n, p] rows[p, k] */
FF_INLINE void project_weight_tile(int rows, int64_t steps, const ff_operand *d, const ff_operand *Y, int64_t ldy, float *G,
                                   int64_t ldg)
{
    vf acc[FF_MR][2];
    rt_zero(rows, acc);
    rt_sum(rows, 2, steps, d, D_LD, FF_KP, Y, ldy * FF_KP, acc, NULL, 0);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        v_store(G + r * ldg, v_load(G + r * ldg) + acc[r][0]);
        v_store(G + r * ldg + FF_VL, v_load(G + r * ldg + FF_VL) + acc[r][1]);
    }
}

/* From the threads' G^T and bias sums to the parameters' gradients; all threads of the region, after a barrier. */
static void project_weight_gradients(const params *grad, const params *w, const tri_args *a, const project_back_scratch *s,
                                     float *gt, float *db)
{
    const int64_t ch = a->c_hidden, nc = 2 * ch, c_z = a->c_z, ldg = mm_round_up(c_z, FF_NR), lw = w->projection_stride;
    const float *weights[4] = {w->left_projection_w, w->right_projection_w, w->left_gate_w, w->right_gate_w};
    float *grads[4] = {grad->left_projection_w, grad->right_projection_w, grad->left_gate_w, grad->right_gate_w};
    float *biases[4] = {grad->left_projection_b, grad->right_projection_b, grad->left_gate_b, grad->right_gate_b};
    const int threads = omp_get_num_threads();
#pragma omp for
    for (int64_t n = 0; n < 2 * nc; n++) { /* sums over the threads, into the first one's; bias sums into lane 0 */
        float b = 0.0f;
        for (int t = 0; t < threads; t++)
            b += v_sum(v_load(db + (size_t)t * s->thread_stride + n * FF_VL));
        db[n * FF_VL] = b;
        biases[n / ch][n % ch] += b;
        for (int64_t k = 0; k < c_z; k += FF_VL) {
            vf g = v_load(gt + n * ldg + k);
            for (int t = 1; t < threads; t++)
                g += v_load(gt + (size_t)t * s->thread_stride + n * ldg + k);
            v_store(gt + n * ldg + k, g);
        }
    }
#pragma omp for
    for (int64_t k = 0; k < c_z; k++) {
        float scale = 0.0f, offset = 0.0f;
        for (int64_t n = 0; n < 2 * nc; n++) {
            const float g = gt[n * ldg + k], b = db[n * FF_VL], x = weights[n / ch][k * lw + n % ch];
            grads[n / ch][k * lw + n % ch] += w->norm_scale[k] * g + w->norm_offset[k] * b;
            scale += x * g;
            offset += x * b;
        }
        grad->norm_scale[k] += scale;
        grad->norm_offset[k] += offset;
    }
}

static void project_backward(float *grad_pair, const params *grad_w, const void *grad_left_, const void *grad_right_,
                             const void *left_, const void *right_, const float *pair, const params *w,
                             const tri_args *args, void *scratch)
{
    const ff_operand *const grad[2] = {grad_left_, grad_right_}, *const side[2] = {left_, right_};
    const int64_t P = args->num_i * args->num_j, c_z = args->c_z, ch = args->c_hidden, nc = 2 * ch;
    const int64_t tiles = (nc + FF_MR - 1) / FF_MR, kp = mm_round_up(c_z, FF_KP), ld = row_ld(c_z);
    const int64_t ldg = mm_round_up(c_z, FF_NR), panels = ldg / FF_NR;
    if (P == 0 || ch == 0)
        return;
    project_back_scratch first_thread;
    project_back_layout(&first_thread, args, scratch, 0);
#pragma omp parallel
    {
        project_back_scratch s;
        project_back_layout(&s, args, scratch, omp_get_thread_num());
        fold_projections(s.folded, s.bias, w, c_z, ch);
        memset(s.gt, 0, s.thread_stride * sizeof(float));
#pragma omp barrier
#pragma omp for nowait
        for (int64_t t = 0; t < tiles; t++)
            pack_left_tile(s.gate_tiles + t * kp * FF_MR, s.folded, 2 * nc, c_z, nc + t * FF_MR, -1,
                           nc - t * FF_MR < FF_MR ? nc - t * FF_MR : FF_MR);
        tile_pack(s.back, s.folded, 2 * nc, 2 * nc, c_z, 1);
#pragma omp barrier
        int64_t first, last, offset[2][ACCUMULATE_P];
        float mask[2][ACCUMULATE_P], rstd[ACCUMULATE_P];
        tile_share((P + ACCUMULATE_P - 1) / ACCUMULATE_P, &first, &last);
        int now = 0;
        int64_t n = P - first * ACCUMULATE_P < ACCUMULATE_P ? P - first * ACCUMULATE_P : ACCUMULATE_P;
        if (first < last)
            locate(args, first * ACCUMULATE_P, n, ACCUMULATE_P, offset[0], NULL, mask[0]);
        for (int64_t u = first; u < last; u++, now ^= 1) {
            const int64_t p0 = u * ACCUMULATE_P, after = p0 + ACCUMULATE_P;
            const int64_t next = u + 1 == last ? 0 : P - after < ACCUMULATE_P ? P - after : ACCUMULATE_P;
            locate(args, after, next, ACCUMULATE_P, offset[now ^ 1], NULL, mask[now ^ 1]);
            normalise_rows(s.rows, s.copy, rstd, ld, pair, offset[now], n, ACCUMULATE_P, c_z);
            pair_rows(s.row_pairs, s.copy, ld, ACCUMULATE_P, c_z);
            FF_FN(mm_pack_operand_t)(s.panels, s.rows, ld, c_z, ACCUMULATE_P);

            const int64_t es = sizeof *grad[0];
            unit_ahead soon = {{pair, grad_pair, NULL}, NULL, {(const char *)(grad[0] + after), (const char *)(side[0] + after),
                               (const char *)(grad[1] + after), (const char *)(side[1] + after)}, 0, 0, ch, P * es, next * es,
                               0, 0, 0};
            ahead_begin(&soon, offset[now ^ 1], next, c_z,
                        panels * (ACCUMULATE_P / FF_MR + (grad_w == NULL ? 0 : 2 * nc / FF_MR)));
            /* gates again, and the gradients of values and gates: value = left / sigmoid, so that
             * grad_gate = grad_left left (1 - sigmoid) */
            for (int64_t t = 0; t < tiles; t++)
                for (int64_t h = 0; h < ACCUMULATE_P; h += FF_NR) {
                    vf acc[FF_MR][2];
                    project_sum(kp / FF_KP, s.gate_tiles + t * kp * FF_MR, s.panels + h * kp, acc);
                    const vf m[2] = {v_load(mask[now] + h), v_load(mask[now] + h + FF_VL)};
                    for (int r = 0; r < FF_MR; r += 2) {
                        if (t * FF_MR + r >= nc)
                            break;
                        vf dv[2][2], dg[2][2];
                        for (int q = 0; q < 2; q++) {
                            const int64_t c = t * FF_MR + r + q, at = c % ch * P + p0 + h;
                            const vf bias = v_set1(s.bias[nc + c]);
                            for (int v = 0; v < 2; v++) {
                                const int64_t left_over = n - h - v * FF_VL;
                                const vf gate = v_sigmoid(acc[r + q][v] + bias);
                                const vf gy = rt_load_operand(grad[c / ch] + at + v * FF_VL, left_over);
                                const vf y = rt_load_operand(side[c / ch] + at + v * FF_VL, left_over);
                                dv[q][v] = gy * m[v] * gate;
                                dg[q][v] = gy * y * (v_set1(1.0f) - gate);
                            }
                            v_store(s.db + c * FF_VL, v_load(s.db + c * FF_VL) + dv[q][0] + dv[q][1]);
                            v_store(s.db + (nc + c) * FF_VL, v_load(s.db + (nc + c) * FF_VL) + dg[q][0] + dg[q][1]);
                        }
                        store_row_gradient(&s, t * FF_MR + r, h, dv[0], dv[1]);
                        store_row_gradient(&s, nc + t * FF_MR + r, h, dg[0], dg[1]);
                    }
                }

            /* gradient of the normalised rows, then of the rows */
            for (int64_t b = 0; b < panels; b++)
                for (int64_t p = 0, height; p < n; p += height) {
                    height = rt_height(n - p);
                    prefetch_some(&soon);
#define BACK(r)                                                                                                        \
    project_back_tile(r, 2 * nc / FF_KP, s.d_pairs + p * FF_KP, s.back + b * FF_NR * 2 * nc, s.dx + p * ld + b * FF_NR, ld, \
                      NULL)
                    RT_ROWS(height, BACK)
                }
            for (int64_t p = 0; p < n; p++)
                normalise_backward(grad_pair + offset[now][p], grad_pair + offset[now][p], NULL, s.dx + p * ld,
                                   s.copy + p * ld, rstd[p], c_z);

            if (grad_w != NULL)
                for (int64_t b = 0; b < panels; b++)
                    for (int64_t r0 = 0, height; r0 < 2 * nc; r0 += height) {
                        height = rt_height(2 * nc - r0);
                        prefetch_some(&soon);
#define WEIGHT(r)                                                                                                      \
    project_weight_tile(r, ACCUMULATE_P / FF_KP, s.d + r0 * D_LD, s.row_pairs + b * FF_NR * FF_KP, ld,                  \
                        s.gt + r0 * ldg + b * FF_NR, ldg)
                        RT_ROWS(height, WEIGHT)
                    }
            n = next;
        }
        if (grad_w != NULL) {
#pragma omp barrier
            project_weight_gradients(grad_w, w, args, &s, first_thread.gt, first_thread.db);
        }
    }
}

/* ---- 4. product ---- */

enum { PRODUCT_BYTES = 3 << 19 }; /* most of a thread's left side: it is streamed, so L3 will do */

/* Rows of the left side handled at a time: equal blocks that fit, of whole register tiles. */
static int64_t product_block(int64_t rows, int64_t K)
{
    const int64_t most = PRODUCT_BYTES / ((K + 64) * (int64_t)sizeof(ff_operand));
    const int64_t fit = most < 4 * FF_MR ? 4 * FF_MR : most;
    const int64_t blocks = (rows + fit - 1) / fit;
    return blocks <= 1 ? rows : mm_round_up((rows + blocks - 1) / blocks, FF_MR);
}
/* leading dimension of copied rows: an odd number of lines */
static int64_t product_ld(int64_t K)
{
    const int64_t line = 64 / (int64_t)sizeof(ff_operand);
    return (mm_round_up(mm_round_up(K, FF_KP), line) / line | 1) * line;
}

typedef struct {
    ff_operand *left, *panel;
} product_scratch;

/* K of grad_a's product: rows of all blocks, each padded to whole steps. */
static int64_t padded_rows(const ff_triangle_product_args *a)
{
    int64_t k = 0;
    for (int64_t b = 0; b < a->num_blocks; b++)
        k += mm_round_up(a->blocks[b].rows, FF_KP);
    return k;
}
static int64_t all_rows(const ff_triangle_product_args *a)
{
    int64_t n = 0;
    for (int64_t b = 0; b < a->num_blocks; b++)
        n += a->blocks[b].rows;
    return n;
}

static size_t product_layout(product_scratch *s, const ff_triangle_product_args *a, bool backward, void *base, int thread)
{
    int64_t left = product_block(a->num_i, a->num_k) * product_ld(a->num_k);
    int64_t panel = mm_packed_size(a->num_k, FF_NR);
    if (backward) {
        const int64_t K = padded_rows(a), own = product_block(a->num_i, K) * product_ld(K);
        left = own;
        panel = mm_packed_size(K, FF_NR);
        for (int64_t b = 0; b < a->num_blocks; b++) { /* grad_b: packed tiles */
            const int64_t rows = product_block(a->blocks[b].rows, a->num_i);
            const int64_t size = (rows / FF_MR + 2) * FF_MR * mm_round_up(a->num_i, FF_KP);
            left = size > left ? size : left;
        }
        const int64_t other = mm_packed_size(a->num_i, FF_NR);
        panel = other > panel ? other : panel;
    }
    tile_arena shared = {base, 0}, own = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            own = tile_own(&shared, thread, own.used);
        s->left = tile_operands(&own, left + FF_NR * FF_KP);
        s->panel = tile_operands(&own, panel);
    }
    return shared.used;
}

/* What to bring into the cache while computing: pieces handed out a tile at a time. */
typedef struct {
    const char *at[3], *end[3];
    int piece, pieces;
    int64_t per_tile; /* bytes */
} ahead_list;

static void ahead_start(ahead_list *l)
{
    l->piece = l->pieces = 0;
    l->per_tile = 0;
}
static void ahead_add(ahead_list *l, const void *p, int64_t bytes)
{
    if (bytes <= 0 || l->pieces == 3) /* what does not fit is only not prefetched */
        return;
    l->at[l->pieces] = p;
    l->end[l->pieces++] = (const char *)p + bytes;
    l->per_tile += bytes;
}
static void ahead_pace(ahead_list *l, int64_t tiles) { l->per_tile = mm_round_up(l->per_tile / (tiles < 1 ? 1 : tiles) + 64, 64); }
static inline const char *ahead_take(ahead_list *l)
{
    while (l->piece < l->pieces && l->at[l->piece] >= l->end[l->piece])
        l->piece++;
    if (l->piece == l->pieces)
        return NULL;
    const char *p = l->at[l->piece];
    l->at[l->piece] += l->per_tile;
    return p;
}

FF_INLINE void product_tile(int rows, int vecs, int64_t steps, const ff_operand *A, int64_t sr, int64_t sk,
                            const ff_operand *B, ff_operand *C, int64_t ldc, int64_t n, const char *ahead,
                            int64_t ahead_step)
{
    vf acc[FF_MR][2];
    rt_zero(rows, acc);
    rt_sum(rows, vecs, steps, A, sr, sk, B, FF_NR * FF_KP, acc, ahead, ahead_step);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        rt_store_operand(C + r * ldc, acc[r][0], n);
        if (vecs > 1)
            rt_store_operand(C + r * ldc + FF_VL, acc[r][1], n - FF_VL);
    }
}

/* One panel: C[m, 0..n) = sum_k A(m, k) panel[k]. A is rows of leading dimension lda, or (lda = 0) tiles [k][FF_MR]. */
static void product_panel(int64_t M, int64_t n, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *panel,
                          ff_operand *C, int64_t ldc, ahead_list *list)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    const int64_t ahead_step = list->per_tile / (steps / 4 + 1) + 1;
    for (int64_t m = 0, h, t = 0; m < M; m += h, t++) {
        h = rt_height(M - m);
        const char *take = ahead_take(list), *ahead = take == NULL ? (const char *)panel : take;
        const int64_t step = take == NULL ? 0 : ahead_step;
        const ff_operand *a = lda > 0 ? A + m * lda : A + t * steps * FF_MR * FF_KP;
        ff_operand *c = C + m * ldc;
        if (lda > 0 && n > FF_VL) {
#define PRODUCT_WIDE(r) product_tile(r, 2, steps, a, lda, FF_KP, panel, c, ldc, n, ahead, step)
            RT_ROWS(h, PRODUCT_WIDE)
        } else if (lda > 0) {
#define PRODUCT_NARROW(r) product_tile(r, 1, steps, a, lda, FF_KP, panel, c, ldc, n, ahead, step)
            RT_ROWS(h, PRODUCT_NARROW)
        } else {
#define PRODUCT_TILES(r) product_tile(r, 2, steps, a, FF_KP, FF_MR * FF_KP, panel, c, ldc, n, ahead, step)
            RT_ROWS(h, PRODUCT_TILES)
        }
    }
}

/* dst rows [m][ld] = src[m * lds + 0 .. K), zero up to whole steps */
static void copy_rows(ff_operand *dst, int64_t ld, const ff_operand *src, int64_t lds, int64_t M, int64_t K)
{
    for (int64_t m = 0; m < M; m++) {
        memcpy(dst + m * ld, src + m * lds, (size_t)K * sizeof *dst);
        for (int64_t k = K; k < mm_round_up(K, FF_KP); k++)
            dst[m * ld + k] = 0;
    }
}

static void product_forward(void *t_, const void *a_, const ff_triangle_product_args *args, void *scratch)
{
    ff_operand *t = t_;
    const ff_operand *a = a_;
    const int64_t num_i = args->num_i, K = args->num_k, num_j = all_rows(args), ld = product_ld(K);
    const int64_t height = product_block(num_i, K);
    if (num_i == 0 || num_j == 0 || args->c_hidden == 0)
        return;
    const int64_t per_channel = (num_i + height - 1) / height, units = per_channel * args->c_hidden;
    int64_t panels = 0;
    for (int64_t b = 0; b < args->num_blocks; b++)
        panels += (args->blocks[b].rows + FF_NR - 1) / FF_NR;
#pragma omp parallel
    {
        product_scratch s;
        product_layout(&s, args, false, scratch, omp_get_thread_num());
        int64_t first, last;
        tile_share(units, &first, &last);
        for (int64_t u = first; u < last; u++) {
            const int64_t c = u / per_channel, i0 = u % per_channel * height;
            const int64_t M = num_i - i0 < height ? num_i - i0 : height;
            const int64_t next_c = (u + 1) / per_channel, next_i = (u + 1) % per_channel * height;
            const int64_t next_rows = u + 1 == last ? 0 : num_i - next_i < height ? num_i - next_i : height;
            const int64_t slice = (next_rows * K * (int64_t)sizeof *a + panels - 1) / panels;
            copy_rows(s.left, ld, a + (c * num_i + i0) * K, K, M, K);
            int64_t column = 0, panel = 0;
            for (int64_t b = 0; b < args->num_blocks; b++) {
                const int64_t rows = args->blocks[b].rows;
                const ff_operand *block = (const ff_operand *)args->blocks[b].data + c * rows * K;
                for (int64_t j = 0; j < rows; j += FF_NR, panel++) {
                    const int64_t n = rows - j < FF_NR ? rows - j : FF_NR;
                    ahead_list list;
                    ahead_start(&list);
                    if (j + FF_NR < rows)
                        ahead_add(&list, block + (j + FF_NR) * K,
                                  (rows - j - FF_NR < FF_NR ? rows - j - FF_NR : FF_NR) * K * (int64_t)sizeof *a);
                    else if (u + 1 < last && b + 1 == args->num_blocks)
                        ahead_add(&list, (const ff_operand *)args->blocks[0].data + next_c * args->blocks[0].rows * K,
                                  (args->blocks[0].rows < FF_NR ? args->blocks[0].rows : FF_NR) * K *
                                      (int64_t)sizeof *a);
                    if (u + 1 < last)
                        ahead_add(&list, (const char *)(a + (next_c * num_i + next_i) * K) + panel * slice, slice);
                    ahead_pace(&list, M / FF_MR);
                    FF_FN(mm_pack_operand_t)(s.panel, block + j * K, K, K, n);
                    product_panel(M, n, K, s.left, ld, s.panel, t + (c * num_i + i0) * num_j + column + j, num_j, &list);
                }
                column += rows;
            }
        }
    }
}

/* tiles [t][k][FF_MR] (row r of tile t is column first + r) of src[k * lds + m], heights as rt_height gives them */
static void pack_columns(ff_operand *dst, const ff_operand *src, int64_t lds, int64_t M, int64_t K)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    for (int64_t m = 0, h; m < M; m += h, dst += steps * FF_MR * FF_KP) {
        h = rt_height(M - m);
        for (int64_t k = 0; k < steps; k++) {
            const ff_operand *lo = src + k * FF_KP * lds + m;
            ff_operand *d = dst + k * FF_MR * FF_KP;
#if FF_BF16
            const ff_operand *hi = 2 * k + 1 < K ? lo + lds : NULL;
#if FF_SIMD_512
            if (M - m >= 16 && hi != NULL) { /* 12 pairs of the 16 read */
                const __m512i l = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)lo));
                const __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)hi));
                _mm512_mask_storeu_epi32(d, 0xfff, _mm512_or_si512(l, _mm512_slli_epi32(u, 16)));
                continue;
            }
#endif
            for (int64_t r = 0; r < h; r++) {
                d[2 * r] = lo[r];
                d[2 * r + 1] = hi == NULL ? 0 : hi[r];
            }
#else
            for (int64_t r = 0; r < h; r += FF_VL)
                v_store_n(d + r, v_load_n(lo + r, h - r), FF_MR - r < FF_VL ? FF_MR - r : FF_VL);
#endif
        }
    }
}

/* grad_b of one channel: for each block, rows j of grad_t^T a */
static void product_grad_b(void *const *grad_b, const ff_operand *gt, const ff_operand *a, int64_t c,
                           const ff_triangle_product_args *args, const product_scratch *s, int64_t num_j,
                           const ahead_list *soon)
{
    const int64_t num_i = args->num_i, num_k = args->num_k;
    ahead_list list = *soon;
    ahead_pace(&list, (num_k + FF_NR - 1) / FF_NR * (num_j / FF_MR));
    for (int64_t b = 0, j0 = 0; b < args->num_blocks; j0 += args->blocks[b].rows, b++) {
        const int64_t rows = args->blocks[b].rows, height = product_block(rows, num_i);
        ff_operand *out = (ff_operand *)grad_b[b] + c * rows * num_k;
        for (int64_t j = 0; j < rows; j += height) {
            const int64_t M = rows - j < height ? rows - j : height;
            pack_columns(s->left, gt + j0 + j, num_j, M, num_i);
            for (int64_t k = 0; k < num_k; k += FF_NR) {
                const int64_t n = num_k - k < FF_NR ? num_k - k : FF_NR;
                FF_FN(mm_pack_operand)(s->panel, a + k, num_k, num_i, n);
                product_panel(M, n, num_i, s->left, 0, s->panel, out + j * num_k + k, num_k, &list);
            }
        }
    }
}

/* grad_a of one channel: grad_t b */
static void product_grad_a(ff_operand *grad_a, const ff_operand *gt, int64_t c, const ff_triangle_product_args *args,
                           const product_scratch *s, int64_t num_j, const ahead_list *soon)
{
    const int64_t num_i = args->num_i, num_k = args->num_k, K = padded_rows(args), ld = product_ld(K);
    const int64_t height = product_block(num_i, K);
    ahead_list list = *soon;
    ahead_pace(&list, (num_k + FF_NR - 1) / FF_NR * (num_i / FF_MR));
    for (int64_t i = 0; i < num_i; i += height) {
        const int64_t M = num_i - i < height ? num_i - i : height;
        for (int64_t b = 0, j0 = 0, at = 0; b < args->num_blocks; b++) {
            const int64_t rows = args->blocks[b].rows;
            copy_rows(s->left + at, ld, gt + i * num_j + j0, num_j, M, rows);
            j0 += rows;
            at += mm_round_up(rows, FF_KP);
        }
        for (int64_t k = 0; k < num_k; k += FF_NR) {
            const int64_t n = num_k - k < FF_NR ? num_k - k : FF_NR;
            for (int64_t b = 0, at = 0; b < args->num_blocks; b++) {
                const int64_t rows = args->blocks[b].rows;
                FF_FN(mm_pack_operand)(s->panel + at * FF_NR,
                                       (const ff_operand *)args->blocks[b].data + c * rows * num_k + k, num_k, rows, n);
                at += mm_round_up(rows, FF_KP);
            }
            product_panel(M, n, K, s->left, ld, s->panel, grad_a + i * num_k + k, num_k, &list);
        }
    }
}

static void product_backward(void *grad_a_, void *const *grad_b, const void *grad_t_, const void *a_,
                             const ff_triangle_product_args *args, void *scratch)
{
    ff_operand *grad_a = grad_a_;
    const ff_operand *gt = grad_t_, *a = a_;
    const int64_t num_i = args->num_i, num_k = args->num_k, num_j = all_rows(args);
    if (args->c_hidden == 0)
        return;
    /* in place the two products of a channel stay together, grad_b first */
    const int64_t parts = grad_a_ == grad_t_ ? 1 : 2;
#pragma omp parallel
    {
        product_scratch s;
        product_layout(&s, args, true, scratch, omp_get_thread_num());
        int64_t first, last;
        tile_share(args->c_hidden * parts, &first, &last);
        for (int64_t u = first; u < last; u++) {
            const int64_t c = u / parts;
            ahead_list soon;
            if (parts == 1 || u % 2 == 0) {
                ahead_start(&soon);
                for (int64_t b = 0; b < args->num_blocks; b++) /* for grad_a */
                    ahead_add(&soon, (const ff_operand *)args->blocks[b].data + c * args->blocks[b].rows * num_k,
                              args->blocks[b].rows * num_k * (int64_t)sizeof *a);
                product_grad_b(grad_b, gt + c * num_i * num_j, a + c * num_i * num_k, c, args, &s, num_j, &soon);
            }
            if (parts == 1 || u % 2 == 1) {
                ahead_start(&soon);
                if (u + 1 < last) { /* the next channel */
                    ahead_add(&soon, gt + (c + 1) * num_i * num_j, num_i * num_j * (int64_t)sizeof *gt);
                    ahead_add(&soon, a + (c + 1) * num_i * num_k, num_i * num_k * (int64_t)sizeof *a);
                }
                product_grad_a(grad_a + c * num_i * num_k, gt + c * num_i * num_j, c, args, &s, num_j, &soon);
            }
        }
    }
}

/* ---- 5. output forward ---- */

typedef struct {
    float *folded_o, *folded_g, *bias; /* [ch, c_z], [c_z, c_z], [2][whole panels] */
    ff_operand *output, *gate;         /* panels */
    float *chunk;                      /* of a thread: [ch][OUTPUT_P] */
    ff_operand *th, *x;                /* normalised rows [OUTPUT_P][row_ld] */
    /* backward only */
    ff_operand *output_back, *gate_back;  /* panels of the transposes */
    float *grad_output, *grad_gate;       /* of a thread: [ch, ldg], [c_z, ldg] */
    float *grad_bias;                     /* [2][whole panels] */
    float *th_copy, *x_copy, *dth, *dx;
    ff_operand *th_pairs, *x_pairs, *d_output, *d_gate, *d_output_pairs, *d_gate_pairs;
    size_t thread_stride;
} output_scratch;

static size_t output_layout(output_scratch *s, const tri_args *a, bool backward, void *base, int thread)
{
    const int64_t c_z = a->c_z, ch = a->c_hidden, ldt = row_ld(ch), ldx = row_ld(c_z), ldg = mm_round_up(c_z, FF_NR);
    tile_arena shared = {base, 0};
    memset(s, 0, sizeof *s);
    s->folded_o = tile_floats(&shared, ch * c_z);
    s->folded_g = tile_floats(&shared, c_z * c_z);
    s->bias = tile_floats(&shared, 2 * ldg);
    s->output = tile_operands(&shared, mm_packed_size(ch, c_z));
    s->gate = tile_operands(&shared, mm_packed_size(c_z, c_z));
    if (backward) {
        s->output_back = tile_operands(&shared, mm_packed_size(c_z, ch));
        s->gate_back = tile_operands(&shared, mm_packed_size(c_z, c_z));
    }
    tile_arena own = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            s->thread_stride = ((own.used + 4095) & ~(size_t)4095) / sizeof(float);
            own = tile_own(&shared, thread, own.used);
        }
        if (backward) {
            s->grad_output = tile_floats(&own, ch * ldg);
            s->grad_gate = tile_floats(&own, c_z * ldg);
            s->grad_bias = tile_floats(&own, 2 * ldg);
        }
        s->chunk = tile_floats(&own, ch * OUTPUT_P);
        s->th = tile_operands(&own, OUTPUT_P * ldt);
        s->x = tile_operands(&own, OUTPUT_P * ldx);
        if (backward) {
            s->d_output = tile_operands(&own, OUTPUT_P * ldx);
            s->d_gate = tile_operands(&own, OUTPUT_P * ldx);
            s->dth = tile_floats(&own, OUTPUT_P * ldt);
            s->dx = tile_floats(&own, OUTPUT_P * ldx);
            s->th_copy = FF_BF16 ? tile_floats(&own, OUTPUT_P * ldt) : (float *)(void *)s->th;
            s->x_copy = FF_BF16 ? tile_floats(&own, OUTPUT_P * ldx) : (float *)(void *)s->x;
            s->th_pairs = FF_BF16 ? tile_operands(&own, OUTPUT_P * ldt) : s->th;
            s->x_pairs = FF_BF16 ? tile_operands(&own, OUTPUT_P * ldx) : s->x;
            s->d_output_pairs = FF_BF16 ? tile_operands(&own, OUTPUT_P * ldx) : s->d_output;
            s->d_gate_pairs = FF_BF16 ? tile_operands(&own, OUTPUT_P * ldx) : s->d_gate;
        }
    }
    return shared.used;
}

/* Weights of the output, folded and packed; all threads, ends with a barrier. */
static void output_pack(const output_scratch *s, const params *w, const tri_args *a, bool backward)
{
    const int64_t c_z = a->c_z, ch = a->c_hidden, ldg = mm_round_up(c_z, FF_NR);
#pragma omp single
    memset(s->bias, 0, (size_t)(2 * ldg) * sizeof(float));
    fold(s->folded_o, c_z, 0, w->output_projection_w, c_z, w->center_norm_scale, ch, c_z);
    fold(s->folded_g, c_z, 0, w->gating_linear_w, c_z, w->norm_scale, c_z, c_z);
    fold_bias(s->bias, w->output_projection_b, w->output_projection_w, c_z, w->center_norm_offset, ch, c_z);
    fold_bias(s->bias + ldg, w->gating_linear_b, w->gating_linear_w, c_z, w->norm_offset, c_z, c_z);
#pragma omp barrier
    tile_pack(s->output, s->folded_o, c_z, ch, c_z, 0);
    tile_pack(s->gate, s->folded_g, c_z, c_z, c_z, 0);
    if (backward) {
        tile_pack(s->output_back, s->folded_o, c_z, c_z, ch, 1);
        tile_pack(s->gate_back, s->folded_g, c_z, c_z, c_z, 1);
    }
#pragma omp barrier
}

/* th[p, c] = normalised over c of t[c, p0 + p] (t's planes have P operands), through chunk; positions beyond n are zero.
 * copy as in normalise_rows; rstd may be NULL. */
static void normalise_channels(ff_operand *th, float *copy, float *rstd_out, int64_t ld, float *chunk, const ff_operand *t,
                               int64_t P, int64_t p0, int64_t n, int64_t ch)
{
    enum { V = OUTPUT_P / FF_VL };
    vf first[V], mean[V], rstd[V]; /* sums of d and d^2, d = t - t[0], then what they say */
    for (int v = 0; v < V; v++)
        first[v] = mean[v] = rstd[v] = v_zero();
    for (int v = 0; v < V && ch > 0; v++)
        first[v] = rt_load_operand(t + p0 + v * FF_VL, n - v * FF_VL);
    for (int64_t c = 0; c < ch; c++) {
        const ff_operand *row = t + c * P + p0;
        float *out = chunk + c * OUTPUT_P;
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) {
            const vf x = n == OUTPUT_P ? v_load_operand(row + v * FF_VL) : rt_load_operand(row + v * FF_VL, n - v * FF_VL);
            const vf d = x - first[v];
            v_store(out + v * FF_VL, d);
            mean[v] += d;
            rstd[v] = v_fma(d, d, rstd[v]);
        }
    }
    const vf inverse = v_set1(1.0f / (float)ch);
    float r[OUTPUT_P];
    for (int v = 0; v < V; v++) {
        mean[v] *= inverse;
        v_store(r + v * FF_VL, v_max(rstd[v] * inverse - mean[v] * mean[v], v_zero()) + v_set1(FF_LAYER_NORM_EPSILON));
    }
    for (int64_t p = 0; p < OUTPUT_P; p++)
        r[p] = 1.0f / sqrtf(r[p]);
    for (int v = 0; v < V; v++)
        rstd[v] = v_load(r + v * FF_VL);
    if (rstd_out != NULL)
        memcpy(rstd_out, r, sizeof r);
    for (int64_t c0 = 0; c0 < ch; c0 += FF_VL)
        for (int v = 0; v < V; v++) {
            vf b[FF_VL];
#pragma GCC unroll 16
            for (int i = 0; i < FF_VL; i++)
                b[i] = c0 + i < ch ? (v_load(chunk + (c0 + i) * OUTPUT_P + v * FF_VL) - mean[v]) * rstd[v] : v_zero();
            v_transpose(b);
#pragma GCC unroll 16
            for (int i = 0; i < FF_VL; i++) {
                v_store_operand(th + (v * FF_VL + i) * ld + c0, b[i]);
                if (FF_BF16 && copy != NULL)
                    v_store(copy + (v * FF_VL + i) * ld + c0, b[i]);
            }
        }
}

/* Output (acc rows 0 .. HALF - 1) and gate logits (the others) of HALF positions, FF_NR channels. */
FF_INLINE void output_sum(const output_scratch *s, int64_t row, int64_t panel, int64_t ch, int64_t c_z, int64_t ldt,
                          int64_t ldx, int64_t ldg, vf acc[][2])
{
    const int64_t kt = mm_round_up(ch, FF_KP), kx = mm_round_up(c_z, FF_KP);
    const float *bias = s->bias + panel * FF_NR;
#pragma GCC unroll 16
    for (int r = 0; r < HALF; r++)
        for (int v = 0; v < 2; v++) {
            acc[r][v] = v_load(bias + v * FF_VL);
            acc[HALF + r][v] = v_load(bias + ldg + v * FF_VL);
        }
    rt_sum(HALF, 2, kt / FF_KP, s->th + row * ldt, ldt, FF_KP, s->output + panel * FF_NR * kt, FF_NR * FF_KP, acc, NULL, 0);
    rt_sum(HALF, 2, kx / FF_KP, s->x + row * ldx, ldx, FF_KP, s->gate + panel * FF_NR * kx, FF_NR * FF_KP, acc + HALF, NULL,
           0);
}

static void output_forward(float *out, const float *pair, const void *t_, const params *w, const tri_args *args,
                           void *scratch)
{
    const ff_operand *t = t_;
    const int64_t P = args->num_i * args->num_j, c_z = args->c_z, ch = args->c_hidden;
    const int64_t ldt = row_ld(ch), ldx = row_ld(c_z), ldg = mm_round_up(c_z, FF_NR), panels = ldg / FF_NR;
    if (P == 0 || c_z == 0)
        return;
#pragma omp parallel
    {
        output_scratch s;
        output_layout(&s, args, false, scratch, omp_get_thread_num());
        output_pack(&s, w, args, false);
        memset(s.th, 0, (size_t)(OUTPUT_P * ldt) * sizeof *s.th);
        memset(s.x, 0, (size_t)(OUTPUT_P * ldx) * sizeof *s.x);
        int64_t first, last, offset[2][OUTPUT_P], column[2][OUTPUT_P];
        tile_share((P + OUTPUT_P - 1) / OUTPUT_P, &first, &last);
        int now = 0;
        int64_t n = P - first * OUTPUT_P < OUTPUT_P ? P - first * OUTPUT_P : OUTPUT_P;
        if (first < last)
            locate(args, first * OUTPUT_P, n, OUTPUT_P, offset[0], column[0], NULL);
        for (int64_t u = first; u < last; u++, now ^= 1) {
            const int64_t p0 = u * OUTPUT_P, after = p0 + OUTPUT_P;
            const int64_t next = u + 1 == last ? 0 : P - after < OUTPUT_P ? P - after : OUTPUT_P;
            locate(args, after, next, OUTPUT_P, offset[now ^ 1], column[now ^ 1], NULL);
            normalise_channels(s.th, NULL, NULL, ldt, s.chunk, t, P, p0, n, ch);
            normalise_rows(s.x, NULL, NULL, ldx, pair, offset[now], n, OUTPUT_P, c_z);
            const int64_t tiles = panels * ((n + HALF - 1) / HALF);
            const int64_t es = sizeof *t;
            unit_ahead soon = {{pair, NULL, NULL}, NULL, {(const char *)(t + after)}, 0, 0, ch, P * es, next * es, 0, 0, 0};
            ahead_begin(&soon, offset[now ^ 1], next, c_z, tiles);
            for (int64_t b = 0; b < panels; b++)
                for (int64_t row = 0; row < n; row += HALF) {
                    prefetch_some(&soon);
                    vf acc[FF_MR][2];
                    output_sum(&s, row, b, ch, c_z, ldt, ldx, ldg, acc);
#pragma GCC unroll 16
                    for (int r = 0; r < HALF; r++) {
                        if (row + r >= n)
                            break;
                        const int64_t at = offset[now][row + r] + b * FF_NR;
#pragma GCC unroll 2
                        for (int v = 0; v < 2; v++) {
                            const int64_t left = c_z - b * FF_NR - v * FF_VL;
                            if (left <= 0)
                                break;
                            vf y = acc[r][v] * v_sigmoid(acc[HALF + r][v]);
                            if (args->dropout != NULL)
                                y *= tile_load(args->dropout + column[now][row + r] * c_z + b * FF_NR + v * FF_VL, left);
                            if (args->residual)
                                y += tile_load(pair + at + v * FF_VL, left);
                            rt_store(out + at + v * FF_VL, y, left);
                        }
                    }
                }
            n = next;
        }
    }
}

/* ---- 6. output backward ---- */

/* Gradients of one matrix behind a layer norm, from the threads' G [K, ldg] and bias sums; all threads, after a barrier. */
static void folded_weight_gradients(float *grad_w, float *grad_b, float *grad_scale, float *grad_offset, const float *w,
                                    const float *scale, const float *offset, const float *G, const float *bias,
                                    size_t thread_stride, int64_t K, int64_t N, int64_t ldg)
{
    const int threads = omp_get_num_threads();
    tile_reduce(grad_b, bias, (int64_t)thread_stride, N);
#pragma omp for
    for (int64_t k = 0; k < K; k++) {
        float ds = 0.0f, doff = 0.0f;
        for (int64_t n = 0; n < N; n++) {
            float g = 0.0f, b = 0.0f;
            for (int t = 0; t < threads; t++) {
                g += G[(size_t)t * thread_stride + k * ldg + n];
                b += bias[(size_t)t * thread_stride + n];
            }
            grad_w[k * N + n] += scale[k] * g + offset[k] * b;
            ds += w[k * N + n] * g;
            doff += w[k * N + n] * b;
        }
        grad_scale[k] += ds;
        grad_offset[k] += doff;
    }
}

static void output_backward(void *grad_t_, float *grad_pair, const params *grad_w, const float *grad_out, const float *pair,
                            const void *t_, const params *w, const tri_args *args, void *scratch)
{
    const ff_operand *t = t_;
    ff_operand *grad_t = grad_t_;
    const int64_t P = args->num_i * args->num_j, c_z = args->c_z, ch = args->c_hidden;
    const int64_t ldt = row_ld(ch), ldx = row_ld(c_z), ldg = mm_round_up(c_z, FF_NR), panels = ldg / FF_NR;
    if (P == 0 || c_z == 0)
        return;
    const bool pass_through = args->residual && grad_pair != grad_out;
    output_scratch first_thread;
    output_layout(&first_thread, args, true, scratch, 0);
#pragma omp parallel
    {
        output_scratch s;
        output_layout(&s, args, true, scratch, omp_get_thread_num());
        memset(s.grad_output, 0, s.thread_stride * sizeof(float));
        output_pack(&s, w, args, true);
        int64_t first, last, offset[2][OUTPUT_P], column[2][OUTPUT_P];
        float rstd_t[OUTPUT_P], rstd_x[OUTPUT_P];
        tile_share((P + OUTPUT_P - 1) / OUTPUT_P, &first, &last);
        int now = 0;
        int64_t n = P - first * OUTPUT_P < OUTPUT_P ? P - first * OUTPUT_P : OUTPUT_P;
        if (first < last)
            locate(args, first * OUTPUT_P, n, OUTPUT_P, offset[0], column[0], NULL);
        for (int64_t u = first; u < last; u++, now ^= 1) {
            const int64_t p0 = u * OUTPUT_P, after = p0 + OUTPUT_P;
            const int64_t next = u + 1 == last ? 0 : P - after < OUTPUT_P ? P - after : OUTPUT_P;
            locate(args, after, next, OUTPUT_P, offset[now ^ 1], column[now ^ 1], NULL);
            normalise_channels(s.th, s.th_copy, rstd_t, ldt, s.chunk, t, P, p0, n, ch);
            normalise_rows(s.x, s.x_copy, rstd_x, ldx, pair, offset[now], n, OUTPUT_P, c_z);
            if (grad_w != NULL) {
                pair_rows(s.th_pairs, s.th_copy, ldt, OUTPUT_P, ch);
                pair_rows(s.x_pairs, s.x_copy, ldx, OUTPUT_P, c_z);
            }

            const int64_t es = sizeof *t, height = OUTPUT_P / FF_MR;
            unit_ahead soon = {{pair, grad_out, grad_pair != grad_out ? grad_pair : NULL}, NULL, {(const char *)(t + after)},
                               0, 0, ch, P * es, next * es, 0, 0, 0};
            ahead_begin(&soon, offset[now ^ 1], next, c_z,
                        panels * (4 * height + (grad_w == NULL ? 0 : (ch + c_z) / FF_MR)));
            /* outputs and gates again, and their gradients */
            for (int64_t b = 0; b < panels; b++)
                for (int64_t row = 0; row < OUTPUT_P; row += HALF) {
                    prefetch_some(&soon);
                    vf acc[FF_MR][2], sum_o[2] = {v_zero(), v_zero()}, sum_g[2] = {v_zero(), v_zero()};
                    output_sum(&s, row, b, ch, c_z, ldt, ldx, ldg, acc);
#pragma GCC unroll 16
                    for (int r = 0; r < HALF; r++)
#pragma GCC unroll 2
                        for (int v = 0; v < 2; v++) {
                            const int64_t left = c_z - b * FF_NR - v * FF_VL;
                            vf gy = v_zero();
                            if (row + r < n && left > 0) {
                                gy = tile_load(grad_out + offset[now][row + r] + b * FF_NR + v * FF_VL, left);
                                if (args->dropout != NULL)
                                    gy *= tile_load(args->dropout + column[now][row + r] * c_z + b * FF_NR + v * FF_VL,
                                                    left);
                            }
                            const vf gate = v_sigmoid(acc[HALF + r][v]);
                            const vf d_o = gy * gate, d_g = d_o * acc[r][v] * (v_set1(1.0f) - gate);
                            acc[r][v] = d_o;
                            acc[HALF + r][v] = d_g;
                            sum_o[v] += d_o;
                            sum_g[v] += d_g;
                            v_store_operand(s.d_output + (row + r) * ldx + b * FF_NR + v * FF_VL, d_o);
                            v_store_operand(s.d_gate + (row + r) * ldx + b * FF_NR + v * FF_VL, d_g);
#if FF_BF16
                            /* pairs of rows are complete at the odd one; HALF may be odd, OUTPUT_P is not */
                            const int64_t pr = row + r;
                            ff_operand *po = s.d_output_pairs + (pr / 2 * ldx + b * FF_NR + v * FF_VL) * 2;
                            ff_operand *pg = s.d_gate_pairs + (pr / 2 * ldx + b * FF_NR + v * FF_VL) * 2;
                            if (HALF % 2 == 0 && r % 2 == 1) {
                                vi_store(po, v_bf16_pair(acc[r - 1][v], d_o));
                                vi_store(pg, v_bf16_pair(acc[HALF + r - 1][v], d_g));
                            } else if (HALF % 2 != 0) {
                                for (int l = 0; l < FF_VL; l++) {
                                    po[2 * l + pr % 2] = bf16_from_float(d_o[l]);
                                    pg[2 * l + pr % 2] = bf16_from_float(d_g[l]);
                                }
                            }
#endif
                        }
                    for (int v = 0; v < 2; v++) {
                        float *bo = s.grad_bias + b * FF_NR + v * FF_VL, *bg = bo + ldg;
                        v_store(bo, v_load(bo) + sum_o[v]);
                        v_store(bg, v_load(bg) + sum_g[v]);
                    }
                }

            rows_product(s.dth, ldt, s.d_output, ldx, s.output_back, n, ch, c_z, &soon);
            rows_product(s.dx, ldx, s.d_gate, ldx, s.gate_back, n, c_z, c_z, &soon);
            if (grad_w != NULL) {
                accumulate(s.grad_output, ldg, s.th_pairs, ldt, s.d_output_pairs, ldx, ch, c_z, OUTPUT_P / FF_KP, &soon);
                accumulate(s.grad_gate, ldg, s.x_pairs, ldx, s.d_gate_pairs, ldx, c_z, c_z, OUTPUT_P / FF_KP, &soon);
            }
            for (int64_t p = 0; p < n; p++) {
                const int64_t at = offset[now][p];
                normalise_backward(grad_pair + at, grad_pair + at, pass_through ? grad_out + at : NULL, s.dx + p * ldx,
                                   s.x_copy + p * ldx, rstd_x[p], c_z);
                normalise_backward(s.dth + p * ldt, NULL, NULL, s.dth + p * ldt, s.th_copy + p * ldt, rstd_t[p], ch);
            }
            for (int64_t p = 0; p < n; p += FF_VL)
                for (int64_t c0 = 0; c0 < ch; c0 += FF_VL) {
                    vf g[FF_VL];
#pragma GCC unroll 16
                    for (int i = 0; i < FF_VL; i++)
                        g[i] = v_load(s.dth + (p + i) * ldt + c0);
                    v_transpose(g);
                    for (int64_t i = 0; i < FF_VL && c0 + i < ch; i++)
                        rt_store_operand(grad_t + (c0 + i) * P + p0 + p, g[i], n - p);
                }
            n = next;
        }
        if (grad_w != NULL) {
#pragma omp barrier
            folded_weight_gradients(grad_w->output_projection_w, grad_w->output_projection_b, grad_w->center_norm_scale,
                                    grad_w->center_norm_offset, w->output_projection_w, w->center_norm_scale,
                                    w->center_norm_offset, first_thread.grad_output, first_thread.grad_bias,
                                    s.thread_stride, ch, c_z, ldg);
            folded_weight_gradients(grad_w->gating_linear_w, grad_w->gating_linear_b, grad_w->norm_scale,
                                    grad_w->norm_offset, w->gating_linear_w, w->norm_scale, w->norm_offset,
                                    first_thread.grad_gate, first_thread.grad_bias + ldg, s.thread_stride, c_z, c_z, ldg);
        }
    }
}

/* ---- 7. scratch sizes, table ---- */

static size_t scratch_bytes(const tri_args *args, bool backward)
{
    project_scratch p;
    project_back_scratch pb;
    output_scratch o;
    const size_t project = backward ? project_back_layout(&pb, args, NULL, 0) : project_layout(&p, args, NULL, 0);
    const size_t output = output_layout(&o, args, backward, NULL, 0);
    return project > output ? project : output;
}
static size_t product_scratch_bytes(const ff_triangle_product_args *args, bool backward)
{
    product_scratch s;
    return product_layout(&s, args, backward, NULL, 0);
}

void FF_FN(ff_fill_triangle)(ff_kernels *table)
{
    table->triangle_multiplication_project_forward = project_forward;
    table->triangle_multiplication_project_backward = project_backward;
    table->triangle_multiplication_product_forward = product_forward;
    table->triangle_multiplication_product_backward = product_backward;
    table->triangle_multiplication_output_forward = output_forward;
    table->triangle_multiplication_output_backward = output_backward;
    table->triangle_multiplication_scratch_bytes = scratch_bytes;
    table->triangle_product_scratch_bytes = product_scratch_bytes;
}
