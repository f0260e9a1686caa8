/* simd.h - the vector layer of the CPU kernels: one set of names, filled for the instruction set a file is compiled for.
 *
 * Every source in kernels/cpu/ is compiled once per instruction set (FF_ISA) and operand type (FF_BF16); FF_FN(name)
 * gives each copy its own symbol. `vf` is a vector of FF_VL floats and `vi` the same number of 32-bit integers, as GCC
 * vector extensions: + - * / and comparisons work on them directly. The plain variant uses no instruction beyond the
 * compiler's baseline. */
#ifndef FF_KERNELS_CPU_SIMD_H
#define FF_KERNELS_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(FF_ISA_AVX2) || defined(FF_ISA_AVX512) || defined(FF_ISA_AVX512_BF16) || defined(FF_ISA_AMX)
#include <immintrin.h>
#endif

#define FF_CAT3_(a, b, c) a##_##b##_##c
#define FF_CAT3(a, b, c) FF_CAT3_(a, b, c)
#if FF_BF16
#define FF_FN(name) FF_CAT3(name, FF_ISA, bf16)
#else
#define FF_FN(name) FF_CAT3(name, FF_ISA, f32)
#endif

#define FF_INLINE static inline __attribute__((always_inline, unused))

#if defined(FF_ISA_AVX512) || defined(FF_ISA_AVX512_BF16) || defined(FF_ISA_AMX)
#define FF_SIMD_512 1
enum { FF_VL = 16 };
#elif defined(FF_ISA_AVX2)
#define FF_SIMD_256 1
enum { FF_VL = 8 };
#else
#define FF_SIMD_PLAIN 1
enum { FF_VL = 4 };
#endif

typedef float vf __attribute__((vector_size(FF_VL * 4)));
typedef float vf_u __attribute__((vector_size(FF_VL * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(FF_VL * 4)));
typedef int32_t vi_u __attribute__((vector_size(FF_VL * 4), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(FF_VL * 4)));

FF_INLINE vf v_load(const float *p) { return *(const vf_u *)p; }
FF_INLINE void v_store(float *p, vf v) { *(vf_u *)p = v; }
FF_INLINE vi vi_load(const void *p) { return *(const vi_u *)p; }
FF_INLINE void vi_store(void *p, vi v) { *(vi_u *)p = v; }
FF_INLINE vf v_set1(float x)
{
#if FF_SIMD_512
    return (vf)_mm512_set1_ps(x);
#elif FF_SIMD_256
    return (vf)_mm256_set1_ps(x);
#else
    return (vf){x, x, x, x};
#endif
}
FF_INLINE vi vi_set1(int32_t x)
{
#if FF_SIMD_512
    return (vi)_mm512_set1_epi32(x);
#elif FF_SIMD_256
    return (vi)_mm256_set1_epi32(x);
#else
    return (vi){x, x, x, x};
#endif
}
FF_INLINE vf v_zero(void) { return v_set1(0.0f); }

/** The first n (0..FF_VL) elements from p, the rest zero. Never reads past p + n. */
FF_INLINE vf v_load_n(const float *p, int64_t n)
{
#if FF_SIMD_512
    return (vf)_mm512_maskz_loadu_ps((__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1), p);
#elif FF_SIMD_256
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vf)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n > 8 ? 8 : n)), lane));
#else
    vf v = v_zero(); /* bytes: pairs of bf16 come here too, at even addresses only */
    memcpy(&v, p, (size_t)(n < FF_VL ? n : FF_VL) * sizeof(float));
    return v;
#endif
}
/** Store the first n (0..FF_VL) elements. Never writes past p + n. */
FF_INLINE void v_store_n(float *p, vf v, int64_t n)
{
#if FF_SIMD_512
    _mm512_mask_storeu_ps(p, (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1), (__m512)v);
#elif FF_SIMD_256
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n > 8 ? 8 : n)), lane), (__m256)v);
#else
    memcpy(p, &v, (size_t)(n < FF_VL ? n : FF_VL) * sizeof(float));
#endif
}

/** a * b + c */
FF_INLINE vf v_fma(vf a, vf b, vf c)
{
#if FF_SIMD_512
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif FF_SIMD_256
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
FF_INLINE vf v_select(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); } /* mask lanes are 0 / -1 */
FF_INLINE vf v_max(vf a, vf b)
{
#if FF_SIMD_512
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif FF_SIMD_256
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return v_select(a > b, a, b);
#endif
}
FF_INLINE vf v_min(vf a, vf b)
{
#if FF_SIMD_512
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif FF_SIMD_256
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return v_select(a < b, a, b);
#endif
}
FF_INLINE float v_sum(vf v)
{
#if FF_SIMD_512
    return _mm512_reduce_add_ps((__m512)v);
#else
    float s = 0;
    for (int i = 0; i < FF_VL; i++)
        s += v[i];
    return s;
#endif
}
FF_INLINE float v_hmax(vf v)
{
#if FF_SIMD_512
    return _mm512_reduce_max_ps((__m512)v);
#else
    float s = v[0];
    for (int i = 1; i < FF_VL; i++)
        s = v[i] > s ? v[i] : s;
    return s;
#endif
}

/** 2^f for f in [-0.5, 0.5]: error 3e-7 with rounding; 8e-5 in the bf16 copies, whose results are rounded to 4e-3. */
FF_INLINE vf v_exp2_fraction(vf f)
{
#if FF_BF16
    vf p = v_fma(v_set1(5.508868e-2f), f, v_set1(2.4260405e-1f));
    p = v_fma(p, f, v_set1(6.9327624e-1f));
    return v_fma(p, f, v_set1(9.9992894e-1f));
#else
    vf p = v_fma(v_set1(1.339086331e-3f), f, v_set1(9.676031768e-3f)); /* Chebyshev fit of degree 5 */
    p = v_fma(p, f, v_set1(5.550356954e-2f));
    p = v_fma(p, f, v_set1(2.402210683e-1f));
    p = v_fma(p, f, v_set1(6.931471825e-1f));
    return v_fma(p, f, v_set1(1.0f));
#endif
}

/** 2^t for t <= 127; t under -126 gives 0 (or a denormal), never NaN for a number. */
FF_INLINE vf v_exp2(vf t)
{
#if FF_SIMD_512
    const __m512 f = _mm512_reduce_ps((__m512)t, 0);
    return (vf)_mm512_scalef_ps((__m512)v_exp2_fraction((vf)f), _mm512_sub_ps((__m512)t, f));
#else
    t = v_max(t, v_set1(-126.0f));
    const vf magic = v_set1(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    const vf shifted = t + magic;
    const vf p = v_exp2_fraction(t - (shifted - magic));
    /* under 2^-125.5 answer 0, as masked keys must not count */
    const vi r = (vi)p + ((vi)shifted << 23);
    return (vf)(r & (vi)(t > v_set1(-125.5f)));
#endif
}
FF_INLINE vf v_exp(vf x) { return v_exp2(x * v_set1(1.44269504f)); }

FF_INLINE vf v_rcp(vf x) /* 1 / x, to rounding */
{
    return v_set1(1.0f) / x;
}
/** 1 / (1 + e^-x) */
FF_INLINE vf v_sigmoid(vf x)
{
    const vf t = v_min(x * v_set1(-1.44269504f), v_set1(126.0f));
#if FF_SIMD_512
    const vf d = v_exp2(t) + v_set1(1.0f);
    const vf r = (vf)_mm512_rcp14_ps((__m512)d); /* 6e-5, enough in the bf16 copies */
    return FF_BF16 ? r : r * (v_set1(2.0f) - d * r); /* one Newton step: below 2e-7 */
#else
    return v_rcp(v_exp2(t) + v_set1(1.0f));
#endif
}

/** FF_VL x FF_VL transposition in registers: lane i of row k becomes lane k of row i. */
#if FF_SIMD_512
FF_INLINE void v_transpose(vf r[FF_VL])
{
    __m512 t[16], u[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps((__m512)r[i], (__m512)r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps((__m512)r[i], (__m512)r[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) {
        u[i] = (__m512)_mm512_unpacklo_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 1] = (__m512)_mm512_unpackhi_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 2] = (__m512)_mm512_unpacklo_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
        u[i + 3] = (__m512)_mm512_unpackhi_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) { /* lanes of 128 bits: u[4 b + j] holds rows 4b..4b+3 of columns j, 4+j, 8+j, 12+j */
        const __m512 a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88), b = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88);
        const __m512 c = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);
        r[j] = (vf)_mm512_shuffle_f32x4(a, b, 0x88);
        r[8 + j] = (vf)_mm512_shuffle_f32x4(a, b, 0xdd);
        r[4 + j] = (vf)_mm512_shuffle_f32x4(c, d, 0x88);
        r[12 + j] = (vf)_mm512_shuffle_f32x4(c, d, 0xdd);
    }
}
#else
FF_INLINE void v_transpose(vf r[FF_VL])
{
    float a[FF_VL][FF_VL], b[FF_VL][FF_VL];
    for (int i = 0; i < FF_VL; i++)
        v_store(a[i], r[i]);
    for (int i = 0; i < FF_VL; i++)
        for (int j = 0; j < FF_VL; j++)
            b[i][j] = a[j][i];
    for (int i = 0; i < FF_VL; i++)
        r[i] = v_load(b[i]);
}
#endif

/* ---- bfloat16: operands of matrix products; sums are always float32 ---- */

typedef uint16_t ff_bf16;

FF_INLINE float bf16_to_float(ff_bf16 b)
{
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
FF_INLINE ff_bf16 bf16_from_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (ff_bf16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
/** Round to bf16 to nearest even: the 16 bits in the low half of each lane. Finite numbers (NaN may become Inf). */
FF_INLINE vu v_bf16_bits(vf x)
{
    const vu u = (vu)x;
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
/** Lanes of (lo, hi) pairs: bf16(lo[i]) in the low half, bf16(hi[i]) in the high half. */
FF_INLINE vi v_bf16_pair(vf lo, vf hi) { return (vi)(v_bf16_bits(lo) | (v_bf16_bits(hi) << 16)); }
/** acc[i] += lo(a[i]) * lo(b[i]) + hi(a[i]) * hi(b[i]) */
FF_INLINE vf v_bf16_dot(vf acc, vi a, vi b)
{
#if __AVX512BF16__
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
#else
    const vi high = vi_set1((int32_t)0xffff0000u);
    acc = v_fma((vf)(a << 16), (vf)(b << 16), acc);
    return v_fma((vf)(a & high), (vf)(b & high), acc);
#endif
}
/** Store FF_VL floats as bf16, contiguous. */
FF_INLINE void v_store_bf16(ff_bf16 *p, vf x)
{
#if __AVX512BF16__
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#elif FF_SIMD_512
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16((__m512i)v_bf16_bits(x)));
#else
    const vu b = v_bf16_bits(x);
    for (int i = 0; i < FF_VL; i++)
        p[i] = (ff_bf16)b[i];
#endif
}
/** Load FF_VL bf16 as floats. */
FF_INLINE vf v_load_bf16(const ff_bf16 *p)
{
#if FF_SIMD_512
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16);
#else
    vi v;
    for (int i = 0; i < FF_VL; i++)
        v[i] = (int32_t)((uint32_t)p[i] << 16);
    return (vf)v;
#endif
}

/* ---- operands: float, or bf16 in the FF_BF16 copies ---- */
#if FF_BF16
typedef ff_bf16 ff_operand;
FF_INLINE void v_store_operand(ff_operand *p, vf x) { v_store_bf16(p, x); }
FF_INLINE vf v_load_operand(const ff_operand *p) { return v_load_bf16(p); }
FF_INLINE float operand_to_float(ff_operand x) { return bf16_to_float(x); }
FF_INLINE ff_operand operand_from_float(float x) { return bf16_from_float(x); }
#else
typedef float ff_operand;
FF_INLINE void v_store_operand(ff_operand *p, vf x) { v_store(p, x); }
FF_INLINE vf v_load_operand(const ff_operand *p) { return v_load(p); }
FF_INLINE float operand_to_float(ff_operand x) { return x; }
FF_INLINE ff_operand operand_from_float(float x) { return x; }
#endif

#endif
