/* tile.h - what the fused kernels share: layer norm of the rows of a tile, its backward, work split and scratch carving.
 *
 * A fused kernel is one OpenMP region: weights are packed once by all threads, then each thread takes tiles. Work is
 * split statically and per-thread sums are added in thread order, so results repeat for the same number of threads. */
#ifndef FF_KERNELS_CPU_TILE_H
#define FF_KERNELS_CPU_TILE_H

#include <omp.h>
#include <stddef.h>

#include "kernels/cpu/mm.h"
#include "kernels/kernels.h"

/* ---- scratch ---- */

/** Takes aligned pieces off a scratch block; with base NULL it only counts. */
typedef struct {
    char *base;
    size_t used;
} tile_arena;

FF_INLINE void *tile_take(tile_arena *a, size_t bytes)
{
    void *p = a->base == NULL ? NULL : a->base + a->used;
    a->used += (bytes + 63) & ~(size_t)63;
    return p;
}
/** Reserve `bytes` for each thread after what is taken so far; @return the piece of `thread`. */
FF_INLINE tile_arena tile_own(tile_arena *shared, int thread, size_t bytes)
{
    const size_t slice = (bytes + 4095) & ~(size_t)4095; /* whole pages: threads do not share cache lines */
    shared->used = (shared->used + 4095) & ~(size_t)4095;
    const tile_arena own = {shared->base == NULL ? NULL : shared->base + shared->used + slice * (size_t)thread, 0};
    shared->used += slice * (size_t)omp_get_max_threads();
    return own;
}
FF_INLINE float *tile_floats(tile_arena *a, int64_t n) { return tile_take(a, (size_t)n * sizeof(float)); }
FF_INLINE ff_operand *tile_operands(tile_arena *a, int64_t n)
{
    return tile_take(a, (size_t)n * sizeof(ff_operand));
}

/* ---- layer norm of rows ---- */

FF_INLINE vf tile_load(const float *p, int64_t n) { return n >= FF_VL ? v_load(p) : v_load_n(p, n); }

/** Mean and 1/sqrt(var + epsilon) of one row of c channels. */
FF_INLINE void tile_statistics(const float *x, int64_t c, float *mean, float *rstd)
{
    vf s0 = v_zero(), s1 = v_zero();
    int64_t i = 0;
    for (; i + 2 * FF_VL <= c; i += 2 * FF_VL) {
        s0 += v_load(x + i);
        s1 += v_load(x + i + FF_VL);
    }
    for (; i < c; i += FF_VL)
        s0 += tile_load(x + i, c - i);
    const float m = v_sum(s0 + s1) / (float)c;
    const vf vm = v_set1(m);
    s0 = s1 = v_zero();
    for (i = 0; i + 2 * FF_VL <= c; i += 2 * FF_VL) {
        const vf a = v_load(x + i) - vm, b = v_load(x + i + FF_VL) - vm;
        s0 = v_fma(a, a, s0);
        s1 = v_fma(b, b, s1);
    }
    float rest = 0;
    for (; i + FF_VL <= c; i += FF_VL) {
        const vf a = v_load(x + i) - vm;
        s0 = v_fma(a, a, s0);
    }
    for (; i < c; i++)
        rest += (x[i] - m) * (x[i] - m);
    *mean = m;
    *rstd = 1.0f / sqrtf((v_sum(s0 + s1) + rest) / (float)c + FF_LAYER_NORM_EPSILON);
}

FF_INLINE void tile_store_operand(ff_operand *p, vf v, int64_t n)
{
    if (n >= FF_VL) {
        v_store_operand(p, v);
    } else {
        ff_operand t[FF_VL];
        v_store_operand(t, v);
        memcpy(p, t, (size_t)n * sizeof *t);
    }
}

/** dst[r, 0..c) = LN(x[r]) as operands; pad columns up to mm_lda(c) are zeroed. scale NULL = copy without layer norm. */
FF_INLINE void tile_layer_norm(ff_operand *dst, int64_t ldd, const float *x, int64_t stride, int64_t rows, int64_t c,
                               const float *scale, const float *offset)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * stride;
        ff_operand *out = dst + r * ldd;
        float mean = 0, rstd = 1;
        if (scale != NULL)
            tile_statistics(row, c, &mean, &rstd);
        const vf m = v_set1(mean), s = v_set1(rstd);
        for (int64_t i = 0; i < c; i += FF_VL) {
            vf v = tile_load(row + i, c - i);
            if (scale != NULL)
                v = v_fma((v - m) * s, tile_load(scale + i, c - i), tile_load(offset + i, c - i));
            tile_store_operand(out + i, v, c - i);
        }
        for (int64_t i = c; i < mm_lda(c) && i < ldd; i++)
            out[i] = operand_from_float(0.0f);
    }
}
/** The same into float32. */
FF_INLINE void tile_layer_norm_float(float *dst, int64_t ldd, const float *x, int64_t stride, int64_t rows, int64_t c,
                                     const float *scale, const float *offset)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * stride;
        float *out = dst + r * ldd;
        float mean = 0, rstd = 1;
        if (scale != NULL)
            tile_statistics(row, c, &mean, &rstd);
        const vf m = v_set1(mean), s = v_set1(rstd);
        for (int64_t i = 0; i < c; i += FF_VL) {
            vf v = tile_load(row + i, c - i);
            if (scale != NULL)
                v = v_fma((v - m) * s, tile_load(scale + i, c - i), tile_load(offset + i, c - i));
            if (c - i >= FF_VL)
                v_store(out + i, v);
            else
                v_store_n(out + i, v, c - i);
        }
    }
}

/**
 * Layer-norm backward of rows: grad_x[r] (+)= d LN / d x . grad_y[r]; grad_scale, grad_offset += (NULL = not wanted).
 * scale NULL = no layer norm: grad_x += grad_y. `base` (NULL = grad_x itself) is what is added to: grad_x = base + ...
 */
FF_INLINE void tile_layer_norm_backward(float *grad_x, const float *base, const float *grad_y, int64_t ldy, const float *x,
                                        int64_t stride, int64_t rows, int64_t c, const float *scale, float *grad_scale,
                                        float *grad_offset)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * stride, *dy = grad_y + r * ldy;
        float *out = grad_x + r * stride;
        const float *add = base == NULL ? out : base + r * stride;
        if (scale == NULL) {
            for (int64_t i = 0; i < c; i++)
                out[i] = add[i] + dy[i];
            continue;
        }
        float mean, rstd;
        tile_statistics(row, c, &mean, &rstd);
        const vf m = v_set1(mean), s = v_set1(rstd);
        vf sum_g = v_zero(), sum_gx = v_zero(), done_g = v_zero(), done_gx = v_zero();
        for (int64_t i = 0; i < c; i += FF_VL) {
            if (FF_VL < 16 && i % (8 * FF_VL) == 0) { /* short vectors make long sums: in two levels, as rows of grad_x sum to 0 */
                done_g += sum_g;
                done_gx += sum_gx;
                sum_g = sum_gx = v_zero();
            }
            const int64_t n = c - i;
            const vf y = tile_load(dy + i, n), g = y * tile_load(scale + i, n);
            const vf xh = (tile_load(row + i, n) - m) * s; /* lanes beyond c: g is 0 there */
            sum_g += g;
            sum_gx = v_fma(g, xh, sum_gx);
            if (grad_scale != NULL) {
                const vf gs = v_fma(y, xh, tile_load(grad_scale + i, n)), go = tile_load(grad_offset + i, n) + y;
                if (n >= FF_VL) {
                    v_store(grad_scale + i, gs);
                    v_store(grad_offset + i, go);
                } else {
                    v_store_n(grad_scale + i, gs, n);
                    v_store_n(grad_offset + i, go, n);
                }
            }
        }
        const vf a = v_set1(v_sum(sum_g + done_g) / (float)c), b = v_set1(v_sum(sum_gx + done_gx) / (float)c);
        for (int64_t i = 0; i < c; i += FF_VL) {
            const int64_t n = c - i;
            const vf g = tile_load(dy + i, n) * tile_load(scale + i, n);
            const vf xh = (tile_load(row + i, n) - m) * s;
            const vf v = tile_load(add + i, n) + s * (g - a - xh * b);
            if (n >= FF_VL)
                v_store(out + i, v);
            else
                v_store_n(out + i, v, n);
        }
    }
}

/* ---- work ---- */

/** Pack a right side B [K, N] into shared scratch, panels split over the threads of the region (no barrier here).
 * transposed: b[n * ldb + k]. */
FF_INLINE void tile_pack(ff_operand *packed, const float *b, int64_t ldb, int64_t K, int64_t N, int transposed)
{
    const int64_t panels = (N + FF_NR - 1) / FF_NR, size = FF_NR * mm_round_up(K, FF_KP);
    for (int64_t p = omp_get_thread_num(); p < panels; p += omp_get_num_threads()) {
        const int64_t n = N - p * FF_NR < FF_NR ? N - p * FF_NR : FF_NR;
        if (transposed)
            FF_FN(mm_pack_t)(packed + p * size, b + p * FF_NR * ldb, ldb, K, n);
        else
            FF_FN(mm_pack)(packed + p * size, b + p * FF_NR, ldb, K, n);
    }
}

/** This thread's share [first, last) of n units. */
FF_INLINE void tile_share(int64_t n, int64_t *first, int64_t *last)
{
    const int64_t t = omp_get_thread_num(), T = omp_get_num_threads();
    *first = n * t / T;
    *last = n * (t + 1) / T;
}

/** sum[i] += part_0[i] + part_1[i] + ... in thread order, all threads together (inside a parallel region, after a
 * barrier); part_t lies at parts + t * stride. */
FF_INLINE void tile_reduce(float *sum, const float *parts, int64_t stride, int64_t n)
{
    int64_t first, last;
    if (sum == NULL)
        return;
    tile_share(n, &first, &last);
    const int T = omp_get_num_threads();
    for (int64_t i = first; i < last; i++) {
        float s = 0;
        for (int t = 0; t < T; t++)
            s += parts[t * stride + i];
        sum[i] += s;
    }
}

/** columns: sum[i] += sum_r x[r, i] */
FF_INLINE void tile_column_sum(float *sum, const float *x, int64_t ldx, int64_t rows, int64_t c)
{
    for (int64_t i = 0; i < c; i += FF_VL) {
        const int64_t n = c - i;
        vf s = v_zero();
        for (int64_t r = 0; r < rows; r++)
            s += tile_load(x + r * ldx + i, n);
        s += tile_load(sum + i, n);
        if (n >= FF_VL)
            v_store(sum + i, s);
        else
            v_store_n(sum + i, s, n);
    }
}

#endif
