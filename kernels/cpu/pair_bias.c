/* pair_bias.c - bias[h, i, j] = LN(pair)[i, j] . weights[:, h], and its gradients: bound by reading the pair once.
 *
 * A block is FF_VL positions along the axis that is contiguous in memory. With d = x - x[0] (so that a common offset of a
 * row costs no precision), w'[h] = scale weights[:, h] and s[h] = sum w'[h], all sums over channels:
 *
 *     mean - x[0] = sum d / c,  var = sum d^2 / c - (mean - x[0])^2,  xh = (x - mean) rstd
 *     dot[h]   = rstd (sum d w'[h] - (mean - x[0]) s[h]),     bias[h] = dot[h] + sum offset weights[:, h]
 *     grad xh  = sum_h g[h] w'[h]
 *     grad x   = rstd (grad xh - sum_h g[h] s[h] / c - xh sum_h g[h] dot[h] / c)
 *
 * and the parameters' gradients come from G[h] = sum xh g[h] and sum g[h] as in triangle.c. Sums over channels of FF_VL
 * vectors at a time are one register transposition. When the contiguous axis is i, FF_VL rows of it are
 * done together, in squares of FF_VL x FF_VL positions transposed on the way to or from the planes of the heads. */
#include "kernels/cpu/families.h"
#include "kernels/cpu/register_tile.h"

enum {
    GROUP = 4,              /* heads of a register block */
    SUB = FF_VL / GROUP,    /* rows of a register block */
    SPAN = 4 * FF_VL,       /* contiguous positions of a step when the contiguous axis is i */
    AHEAD = 3 * FF_VL       /* rows prefetched ahead; at most SPAN */
};

typedef ff_pair_bias_args bias_args;

typedef struct {
    float *w, *sum, *offset; /* shared: [heads][c], [heads], [heads]; heads in whole groups, channels in whole vectors */
    float *G, *g;            /* of a thread: [heads][c], [heads][FF_VL] */
    float *dot, *grad;       /* [heads][FF_VL], squares [heads][SPAN / FF_VL][FF_VL][FF_VL] */
    size_t thread_stride;
} bias_scratch;

static size_t bias_layout(bias_scratch *s, const bias_args *a, bool backward, void *base, int thread)
{
    const int64_t heads = mm_round_up(a->num_head, GROUP), c = mm_round_up(a->c_z, FF_VL);
    tile_arena shared = {base, 0}, own = {NULL, 0};
    s->w = tile_floats(&shared, heads * c);
    s->sum = tile_floats(&shared, heads);
    s->offset = tile_floats(&shared, heads);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            s->thread_stride = ((own.used + 4095) & ~(size_t)4095) / sizeof(float);
            own = tile_own(&shared, thread, own.used);
        }
        s->G = tile_floats(&own, backward ? heads * c : 0);
        s->g = tile_floats(&own, backward ? heads * FF_VL : 0);
        s->dot = tile_floats(&own, heads * FF_VL);
        s->grad = tile_floats(&own, heads * SPAN * FF_VL);
    }
    return shared.used;
}

/* Folded weights; all threads of the region, ends with a barrier. */
static void bias_fold(const bias_scratch *s, const ff_pair_bias_params *w, const bias_args *a)
{
    const int64_t heads = mm_round_up(a->num_head, GROUP), c = mm_round_up(a->c_z, FF_VL);
#pragma omp for
    for (int64_t h = 0; h < heads; h++) {
        float sum = 0.0f, offset = 0.0f;
        for (int64_t k = 0; k < c; k++) {
            const float x = h < a->num_head && k < a->c_z ? w->weights[k * a->num_head + h] : 0.0f;
            s->w[h * c + k] = k < a->c_z ? w->norm_scale[k] * x : 0.0f;
            sum += s->w[h * c + k];
            offset += k < a->c_z ? w->norm_offset[k] * x : 0.0f;
        }
        s->sum[h] = sum;
        s->offset[h] = offset;
    }
}

/* Prefetch channels [from, to) of a row, given as lines; `other` (NULL = none) is a second array of the same layout. */
FF_INLINE void bias_prefetch_row(const char *row, const char *other, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k += 64) {
        __builtin_prefetch(row + k, 0, 3);
        if (other != NULL)
            __builtin_prefetch(other + k, 0, 3);
    }
}

/* mean - x[0] and rstd of FF_VL rows, lane = row; dot[h] of all heads. Rows beyond n repeat the last. Meanwhile the rows at
 * `ahead` are prefetched, half of each in either loop. */
static void bias_block(const bias_scratch *s, const float *x, int64_t stride, int64_t n, const bias_args *a, const char *ahead,
                       const char *ahead2, vf *mean, vf *rstd)
{
    const int64_t heads = mm_round_up(a->num_head, GROUP), c = a->c_z, cp = mm_round_up(c, FF_VL);
    const int64_t row_bytes = c * (int64_t)sizeof(float), half = row_bytes / 2, step = stride * (int64_t)sizeof(float);
    const float *row[FF_VL];
    vf sum[FF_VL], square[FF_VL];
    for (int r = 0; r < FF_VL; r++)
        row[r] = x + (r < n ? r : n - 1) * stride;
    for (int r = 0; r < FF_VL; r++) {
        bias_prefetch_row(ahead + r * step, ahead2 == NULL ? NULL : ahead2 + r * step, 0, half);
        rt_row_sums(row[r], c, &sum[r], &square[r]);
    }
    rt_finish_statistics(sum, square, c, mean, rstd);
    const vf m = *mean;

    for (int64_t h = 0; h < heads; h += GROUP) {
        const float *w = s->w + h * cp;
        for (int r = 0; r < FF_VL; r += SUB) {
            vf acc[FF_VL];
#pragma GCC unroll 16
            for (int i = 0; i < FF_VL; i++)
                acc[i] = v_zero();
            vf first[SUB];
            for (int q = 0; q < SUB; q++)
                first[q] = v_set1(row[r + q][0]);
            for (int q = 0; q < SUB && h == 0; q++)
                bias_prefetch_row(ahead + (r + q) * step, ahead2 == NULL ? NULL : ahead2 + (r + q) * step, half, row_bytes);
            int64_t k = 0;
            for (; k + FF_VL <= c; k += FF_VL)
#pragma GCC unroll 4
                for (int q = 0; q < SUB; q++) {
                    const vf d = v_load(row[r + q] + k) - first[q];
#pragma GCC unroll 4
                    for (int e = 0; e < GROUP; e++)
                        acc[e * SUB + q] = v_fma(d, v_load(w + e * cp + k), acc[e * SUB + q]);
                }
            if (k < c)
                for (int q = 0; q < SUB; q++) {
                    const vf d = rt_load_shifted(row[r + q], k, c, first[q]);
                    for (int e = 0; e < GROUP; e++)
                        acc[e * SUB + q] = v_fma(d, v_load(w + e * cp + k), acc[e * SUB + q]);
                }
            float lanes[FF_VL];
            v_store(lanes, rt_lane_sums(acc));
            for (int e = 0; e < GROUP; e++)
                memcpy(s->dot + (h + e) * FF_VL + r, lanes + e * SUB, SUB * sizeof(float));
        }
        for (int64_t e = h; e < h + GROUP; e++)
            v_store(s->dot + e * FF_VL, (v_load(s->dot + e * FF_VL) - m * v_set1(s->sum[e])) * *rstd);
    }
}

/* What a thread walks: units of `depth` slow rows by `span` positions of the axis that is contiguous in memory. */
typedef struct {
    bool fast_j;
    int64_t fast, slow, stride_fast, stride_slow; /* extents and strides of the pair */
    int64_t span, depth, spans, units;
} bias_walk;

static bias_walk bias_axes(const bias_args *a)
{
    bias_walk b = {true, a->num_j, a->num_i, a->stride_j, a->stride_i, FF_VL, 1, 0, 0};
    if (a->stride_j > a->stride_i)
        b = (bias_walk){false, a->num_i, a->num_j, a->stride_i, a->stride_j, SPAN, FF_VL, 0, 0};
    b.spans = (b.fast + b.span - 1) / b.span;
    b.units = (b.slow + b.depth - 1) / b.depth * b.spans;
    return b;
}
typedef struct {
    int64_t slow, fast, rows, n; /* first row and position, how many of each */
} bias_unit;

static bias_unit bias_unit_get(const bias_walk *b, int64_t u)
{
    bias_unit x = {u / b->spans * b->depth, u % b->spans * b->span, b->depth, b->span};
    x.rows = b->slow - x.slow < x.rows ? b->slow - x.slow : x.rows;
    x.n = b->fast - x.fast < x.n ? b->fast - x.fast : x.n;
    return x;
}

/* Where the FF_VL rows AHEAD of (slow, fast) in the order of the walk are; past the end of the array does no harm. */
static const char *bias_ahead(const float *x, const bias_walk *b, const bias_unit *u, int64_t slow, int64_t fast)
{
    const int64_t end = b->fast_j ? b->fast : u->fast + u->n;
    fast += AHEAD;
    if (fast >= end) {
        fast = fast - end + (b->fast_j ? 0 : u->fast);
        if (!b->fast_j && slow + 1 == u->slow + u->rows) { /* the next span */
            fast += u->n;
            slow = u->slow;
        } else {
            slow++;
        }
    }
    return (const char *)x + (slow * b->stride_slow + fast * b->stride_fast) * (int64_t)sizeof(float);
}

/* A square [row][lane] of a head, rows = slow (j), lanes = fast (i), to or from plane rows i. */
static void bias_square(float *square, float *plane, int64_t stride_i, int64_t num_i, int64_t num_j, bool load)
{
    vf v[FF_VL];
    if (load) {
        for (int i = 0; i < FF_VL; i++)
            v[i] = i < num_i ? rt_load(plane + i * stride_i, num_j) : v_zero();
        v_transpose(v);
        for (int j = 0; j < FF_VL; j++)
            v_store(square + j * FF_VL, v[j]);
    } else {
        for (int j = 0; j < FF_VL; j++)
            v[j] = v_load(square + j * FF_VL);
        v_transpose(v);
        for (int64_t i = 0; i < num_i; i++)
            rt_store(plane + i * stride_i, v[i], num_j);
    }
}

static void pair_bias_forward(float *bias, const float *pair, const ff_pair_bias_params *w, const bias_args *a, void *scratch)
{
    const bias_walk b = bias_axes(a);
    if (b.units == 0 || a->c_z == 0)
        return;
#pragma omp parallel
    {
        bias_scratch s;
        bias_layout(&s, a, false, scratch, omp_get_thread_num());
        bias_fold(&s, w, a);
        int64_t first, last;
        tile_share(b.units, &first, &last);
        for (int64_t i = first; i < last; i++) {
            const bias_unit u = bias_unit_get(&b, i);
            for (int64_t q = 0; q < u.rows; q++)
                for (int64_t f = 0; f < u.n; f += FF_VL) {
                    const int64_t n = u.n - f < FF_VL ? u.n - f : FF_VL;
                    vf mean, rstd;
                    bias_block(&s, pair + (u.slow + q) * b.stride_slow + (u.fast + f) * b.stride_fast, b.stride_fast, n, a,
                               bias_ahead(pair, &b, &u, u.slow + q, u.fast + f), NULL, &mean, &rstd);
                    for (int64_t h = 0; h < a->num_head; h++) {
                        const vf y = v_load(s.dot + h * FF_VL) + v_set1(s.offset[h]);
                        if (b.fast_j)
                            rt_store(bias + h * a->bias_stride_head + u.slow * a->bias_stride_i + u.fast + f, y, n);
                        else
                            v_store(s.grad + (h * SPAN + f + q) * FF_VL, y);
                    }
                }
            for (int64_t h = 0; h < a->num_head && !b.fast_j; h++)
                for (int64_t f = 0; f < u.n; f += FF_VL)
                    bias_square(s.grad + (h * SPAN + f) * FF_VL,
                                bias + h * a->bias_stride_head + (u.fast + f) * a->bias_stride_i + u.slow, a->bias_stride_i,
                                u.n - f < FF_VL ? u.n - f : FF_VL, u.rows, false);
        }
    }
}

/* grad_pair of a block and the sums for the parameters; g at s->grad + h * step, lane = row, 0 beyond n. */
static void bias_block_backward(const bias_scratch *s, float *grad_pair, const float *x, int64_t stride, int64_t n,
                                const bias_args *a, const float *g, int64_t step, vf mean, vf rstd)
{
    const int64_t heads = mm_round_up(a->num_head, GROUP), c = a->c_z, cp = mm_round_up(c, FF_VL);
    vf m1 = v_zero(), m2 = v_zero();
    for (int64_t h = 0; h < a->num_head; h++) {
        const vf v = v_load(g + h * step);
        m1 = v_fma(v, v_set1(s->sum[h]), m1);
        m2 = v_fma(v, v_load(s->dot + h * FF_VL), m2);
        v_store(s->g + h * FF_VL, v_load(s->g + h * FF_VL) + v);
    }
    const vf inverse = v_set1(1.0f / (float)c);
    float a1[FF_VL], a2[FF_VL], shift[FF_VL], rs[FF_VL];
    v_store(a1, m1 * inverse);
    v_store(a2, m2 * inverse);
    v_store(rs, rstd);
    v_store(shift, mean);
    for (int r = 0; r < n; r++)
        shift[r] += x[r * stride];
    for (int64_t k = 0; k < c; k += FF_VL) {
        const int64_t left = c - k;
        vf part[FF_VL];
        for (int64_t h = 0; h < heads; h += GROUP) {
            vf w[GROUP], G[GROUP];
#pragma GCC unroll 4
            for (int e = 0; e < GROUP; e++) {
                w[e] = v_load(s->w + (h + e) * cp + k);
                G[e] = v_load(s->G + (h + e) * cp + k);
            }
            for (int r = 0; r < n; r++) {
                const vf xh = (rt_load(x + r * stride + k, left) - v_set1(shift[r])) * v_set1(rs[r]);
                vf p = h == 0 ? v_zero() - v_set1(a1[r]) - xh * v_set1(a2[r]) : part[r];
#pragma GCC unroll 4
                for (int e = 0; e < GROUP; e++) {
                    const vf y = v_set1(h + e < a->num_head ? g[(h + e) * step + r] : 0.0f);
                    p = v_fma(y, w[e], p);
                    G[e] = v_fma(y, xh, G[e]);
                }
                part[r] = p;
            }
#pragma GCC unroll 4
            for (int e = 0; e < GROUP; e++)
                v_store(s->G + (h + e) * cp + k, G[e]);
        }
        for (int r = 0; r < n; r++) {
            float *out = grad_pair + r * stride + k;
            rt_store(out, v_fma(part[r], v_set1(rs[r]), rt_load(out, left)), left);
        }
    }
}

static void pair_bias_backward(float *grad_pair, const ff_pair_bias_params *grad_w, const float *grad_bias, const float *pair,
                               const ff_pair_bias_params *w, const bias_args *a, void *scratch)
{
    const bias_walk b = bias_axes(a);
    const int64_t cp = mm_round_up(a->c_z, FF_VL);
    if (b.units == 0 || a->c_z == 0)
        return;
    bias_scratch first_thread;
    bias_layout(&first_thread, a, true, scratch, 0);
#pragma omp parallel
    {
        bias_scratch s;
        bias_layout(&s, a, true, scratch, omp_get_thread_num());
        memset(s.G, 0, s.thread_stride * sizeof(float));
        bias_fold(&s, w, a);
        int64_t first, last;
        tile_share(b.units, &first, &last);
        for (int64_t i = first; i < last; i++) {
            const bias_unit u = bias_unit_get(&b, i);
            for (int64_t h = 0; h < a->num_head; h++)
                for (int64_t f = 0; f < u.n; f += FF_VL) {
                    const int64_t n = u.n - f < FF_VL ? u.n - f : FF_VL;
                    const float *plane = grad_bias + h * a->bias_stride_head;
                    float *square = s.grad + (h * SPAN + f) * FF_VL;
                    if (b.fast_j)
                        v_store(square, rt_load(plane + u.slow * a->bias_stride_i + u.fast + f, n));
                    else
                        bias_square(square, (float *)(uintptr_t)(plane + (u.fast + f) * a->bias_stride_i + u.slow),
                                    a->bias_stride_i, n, u.rows, true);
                }
            for (int64_t q = 0; q < u.rows; q++)
                for (int64_t f = 0; f < u.n; f += FF_VL) {
                    const int64_t n = u.n - f < FF_VL ? u.n - f : FF_VL;
                    const int64_t at = (u.slow + q) * b.stride_slow + (u.fast + f) * b.stride_fast;
                    vf mean, rstd;
                    bias_block(&s, pair + at, b.stride_fast, n, a, bias_ahead(pair, &b, &u, u.slow + q, u.fast + f),
                               bias_ahead(grad_pair, &b, &u, u.slow + q, u.fast + f), &mean, &rstd);
                    bias_block_backward(&s, grad_pair + at, pair + at, b.stride_fast, n, a, s.grad + (f + q) * FF_VL,
                                        SPAN * FF_VL, mean, rstd);
                }
        }
#pragma omp barrier
        const int threads = omp_get_num_threads();
#pragma omp for
        for (int64_t k = 0; k < (grad_w == NULL ? 0 : a->c_z); k++) {
            float scale = 0.0f, offset = 0.0f;
            for (int64_t h = 0; h < a->num_head; h++) {
                float G = 0.0f, g = 0.0f;
                for (int t = 0; t < threads; t++) {
                    G += first_thread.G[(size_t)t * s.thread_stride + (size_t)(h * cp + k)];
                    g += v_sum(v_load(first_thread.g + (size_t)t * s.thread_stride + h * FF_VL));
                }
                const float x = w->weights[k * a->num_head + h];
                grad_w->weights[k * a->num_head + h] += w->norm_scale[k] * G + w->norm_offset[k] * g;
                scale += x * G;
                offset += x * g;
            }
            grad_w->norm_scale[k] += scale;
            grad_w->norm_offset[k] += offset;
        }
    }
}

static size_t pair_bias_scratch_bytes(const bias_args *a, bool backward)
{
    bias_scratch s;
    return bias_layout(&s, a, backward, NULL, 0);
}

void FF_FN(ff_fill_pair_bias)(ff_kernels *table)
{
    table->pair_bias_forward = pair_bias_forward;
    table->pair_bias_backward = pair_bias_backward;
    table->pair_bias_scratch_bytes = pair_bias_scratch_bytes;
}
