/* register_tile.h - one register tile of a matrix product, inlined into kernels whose epilogue needs the sums in registers.
 *
 * mm.h stores plain products; here the caller owns the sums of up to FF_MR rows x 2 vectors and says how both operands are
 * strided, so that packed panels, rows, and the transposed reads of weight gradients are all one function. */
#ifndef FF_KERNELS_CPU_REGISTER_TILE_H
#define FF_KERNELS_CPU_REGISTER_TILE_H

#include "kernels/cpu/tile.h"

/* Right operand vectors and broadcast left elements: floats, or pairs of bf16 along k. */
#if FF_BF16
typedef vi rt_vector;
typedef int32_t rt_element;
#define RT_LOAD(p) vi_load(p)
#define RT_STEP(acc, a, b) v_bf16_dot(acc, vi_set1(a), b)
#else
typedef vf rt_vector;
typedef float rt_element;
#define RT_LOAD(p) v_load(p)
#define RT_STEP(acc, a, b) v_fma(v_set1(a), b, acc)
#endif

FF_INLINE rt_element rt_read(const ff_operand *p)
{
    rt_element a;
    memcpy(&a, p, sizeof a);
    return a;
}

FF_INLINE void rt_prefetch(const void *p) { __builtin_prefetch(p, 0, 2); }

FF_INLINE void rt_zero(int rows, vf acc[][2])
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = v_zero();
}

/**
 * acc[r][v] += sum over `steps` of A(r, k) B(k, v); a step is one k (float32) or a pair (bf16).
 * A(r, k) at A + r * sr + k * sk, B(k, v) at B + k * sb + v * FF_VL * FF_KP, all in operands.
 * Every fourth step prefetches the line at `ahead`, which moves on by `ahead_step` bytes (NULL = none).
 */
FF_INLINE void rt_sum(int rows, int vecs, int64_t steps, const ff_operand *A, int64_t sr, int64_t sk,
                      const ff_operand *B, int64_t sb, vf acc[][2], const char *ahead, int64_t ahead_step)
{
    int64_t k = 0;
    if (ahead != NULL) {
        for (; k + 4 <= steps; k += 4, ahead += ahead_step) {
            rt_prefetch(ahead);
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
                const ff_operand *b = B + (k + q) * sb, *a = A + (k + q) * sk;
                const rt_vector b0 = RT_LOAD(b), b1 = vecs > 1 ? RT_LOAD(b + FF_VL * FF_KP) : b0;
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++) {
                    const rt_element x = rt_read(a + r * sr);
                    acc[r][0] = RT_STEP(acc[r][0], x, b0);
                    if (vecs > 1)
                        acc[r][1] = RT_STEP(acc[r][1], x, b1);
                }
            }
        }
    }
    for (; k < steps; k++) {
        const ff_operand *b = B + k * sb, *a = A + k * sk;
        const rt_vector b0 = RT_LOAD(b), b1 = vecs > 1 ? RT_LOAD(b + FF_VL * FF_KP) : b0;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const rt_element x = rt_read(a + r * sr);
            acc[r][0] = RT_STEP(acc[r][0], x, b0);
            if (vecs > 1)
                acc[r][1] = RT_STEP(acc[r][1], x, b1);
        }
    }
}

/* Calls F(r) for the number of rows 1 .. FF_MR, so that each height has its own registers. */
#if FF_SIMD_512
#define RT_ROWS(rows, F)                                                                                               \
    switch (rows) {                                                                                                    \
    case 1: F(1); break;                                                                                               \
    case 2: F(2); break;                                                                                               \
    case 3: F(3); break;                                                                                               \
    case 4: F(4); break;                                                                                               \
    case 5: F(5); break;                                                                                               \
    case 6: F(6); break;                                                                                               \
    case 7: F(7); break;                                                                                               \
    case 8: F(8); break;                                                                                               \
    case 9: F(9); break;                                                                                               \
    case 10: F(10); break;                                                                                             \
    case 11: F(11); break;                                                                                             \
    case 12: F(12); break;                                                                                             \
    default: break;                                                                                                    \
    }
#elif FF_SIMD_256
#define RT_ROWS(rows, F)                                                                                               \
    switch (rows) {                                                                                                    \
    case 1: F(1); break;                                                                                               \
    case 2: F(2); break;                                                                                               \
    case 3: F(3); break;                                                                                               \
    case 4: F(4); break;                                                                                               \
    case 5: F(5); break;                                                                                               \
    case 6: F(6); break;                                                                                               \
    default: break;                                                                                                    \
    }
#else
#define RT_ROWS(rows, F)                                                                                               \
    switch (rows) {                                                                                                    \
    case 1: F(1); break;                                                                                               \
    case 2: F(2); break;                                                                                               \
    case 3: F(3); break;                                                                                               \
    case 4: F(4); break;                                                                                               \
    default: break;                                                                                                    \
    }
#endif

/** Height of the next row tile when `left` rows are left: the last two share what is between one and two tiles. */
FF_INLINE int64_t rt_height(int64_t left)
{
    if (left >= 2 * FF_MR || left <= FF_MR)
        return left < FF_MR ? left : FF_MR;
    return (left + 1) / 2;
}

/* ---- stores ---- */

FF_INLINE void rt_store(float *p, vf v, int64_t n)
{
    if (n >= FF_VL)
        v_store(p, v);
    else if (n > 0)
        v_store_n(p, v, n);
}
FF_INLINE vf rt_load(const float *p, int64_t n) { return n >= FF_VL ? v_load(p) : v_load_n(p, n < 0 ? 0 : n); }

/** FF_VL operands with only the first n (may be <= 0) read. */
FF_INLINE vf rt_load_operand(const ff_operand *p, int64_t n)
{
#if FF_BF16
    if (n >= FF_VL)
        return v_load_bf16(p);
    ff_bf16 t[FF_VL] = {0};
    for (int64_t i = 0; i < n; i++)
        t[i] = p[i];
    return v_load_bf16(t);
#else
    return rt_load(p, n);
#endif
}
FF_INLINE void rt_store_operand(ff_operand *p, vf v, int64_t n)
{
#if FF_BF16
    if (n >= FF_VL) {
        v_store_bf16(p, v);
    } else if (n > 0) {
        ff_bf16 t[FF_VL];
        v_store_bf16(t, v);
        memcpy(p, t, (size_t)n * sizeof *t);
    }
#else
    rt_store(p, v, n);
#endif
}

/** Store two vectors of operands past the caches; p aligned to their size (see rt_can_stream). */
FF_INLINE void rt_stream(ff_operand *p, vf v0, vf v1)
{
#if FF_BF16 && (defined(FF_ISA_AVX512_BF16) || defined(FF_ISA_AMX))
    _mm512_stream_si512((__m512i *)(void *)p, (__m512i)_mm512_cvtne2ps_pbh((__m512)v1, (__m512)v0));
#elif FF_BF16
    v_store_bf16(p, v0);
    v_store_bf16(p + FF_VL, v1);
#elif FF_SIMD_512
    _mm512_stream_ps(p, (__m512)v0);
    _mm512_stream_ps(p + FF_VL, (__m512)v1);
#elif FF_SIMD_256
    _mm256_stream_ps(p, (__m256)v0);
    _mm256_stream_ps(p + FF_VL, (__m256)v1);
#else
    v_store(p, v0);
    v_store(p + FF_VL, v1);
#endif
}
/** Before other threads read what rt_stream wrote. */
FF_INLINE void rt_stream_end(void)
{
#if FF_SIMD_512 || FF_SIMD_256
    _mm_sfence();
#endif
}
/* ---- layer norm statistics of FF_VL rows at a time ---- */

/** Lane r of the result is the sum of v[r]'s lanes. */
FF_INLINE vf rt_lane_sums(vf v[FF_VL])
{
    v_transpose(v);
#pragma GCC unroll 5
    for (int step = FF_VL / 2; step > 0; step /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < step; i++)
            v[i] += v[i + step];
    return v[0];
}
/** x[k ..] - first for one vector of channels; 0 beyond channel c. */
FF_INLINE vf rt_load_shifted(const float *x, int64_t k, int64_t c, vf first)
{
    if (k + FF_VL <= c)
        return v_load(x + k) - first;
    float mask[FF_VL];
    for (int64_t i = 0; i < FF_VL; i++)
        mask[i] = k + i < c ? 1.0f : 0.0f;
    return (v_load_n(x + k, c - k) - first) * v_load(mask);
}
/** Sums of d and d^2, d = x - x[0] (so that what a row's channels have in common costs no precision). */
FF_INLINE void rt_row_sums(const float *x, int64_t c, vf *sum, vf *square)
{
    const vf first = v_set1(x[0]);
    vf s0 = v_zero(), s1 = v_zero(), q0 = v_zero(), q1 = v_zero();
    int64_t k = 0;
    for (; k + 2 * FF_VL <= c; k += 2 * FF_VL) {
        const vf d0 = v_load(x + k) - first, d1 = v_load(x + k + FF_VL) - first;
        s0 += d0;
        s1 += d1;
        q0 = v_fma(d0, d0, q0);
        q1 = v_fma(d1, d1, q1);
    }
    for (; k < c; k += FF_VL) {
        const vf d = rt_load_shifted(x, k, c, first);
        s0 += d;
        q0 = v_fma(d, d, q0);
    }
    *sum = s0 + s1;
    *square = q0 + q1;
}
/** From the sums of rt_row_sums, one row a vector: mean - x[0] and 1 / sqrt(var + epsilon), one row a lane. */
FF_INLINE void rt_finish_statistics(vf sum[FF_VL], vf square[FF_VL], int64_t c, vf *mean, vf *rstd)
{
    const vf inverse = v_set1(1.0f / (float)c), m = rt_lane_sums(sum) * inverse;
    const vf v = v_max(rt_lane_sums(square) * inverse - m * m, v_zero()) + v_set1(FF_LAYER_NORM_EPSILON);
    *mean = m;
#if FF_SIMD_512
    *rstd = v_set1(1.0f) / (vf)_mm512_sqrt_ps((__m512)v);
#elif FF_SIMD_256
    *rstd = v_set1(1.0f) / (vf)_mm256_sqrt_ps((__m256)v);
#else
    vf r;
    for (int i = 0; i < FF_VL; i++)
        r[i] = 1.0f / sqrtf(v[i]);
    *rstd = r;
#endif
}
/** Mean and 1 / sqrt(var + epsilon) of FF_VL rows, one row a lane. */
FF_INLINE void rt_statistics(const float *const row[FF_VL], int64_t c, vf *mean, vf *rstd)
{
    vf sum[FF_VL], square[FF_VL];
    float first[FF_VL];
    for (int r = 0; r < FF_VL; r++) {
        rt_row_sums(row[r], c, &sum[r], &square[r]);
        first[r] = row[r][0];
    }
    rt_finish_statistics(sum, square, c, mean, rstd);
    *mean += v_load(first);
}

FF_INLINE int rt_aligned(const void *p) { return ((uintptr_t)p & 63) == 0; }

#endif
