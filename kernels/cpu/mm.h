/* mm.h - matrix products of one thread on operands in cache: what the fused kernels are made of.
 *
 * A library GEMM would cost a pass over memory on each side of every product; these run inside a fused kernel, one call
 * per row tile, with the right operand packed once into panels of FF_NR columns ([panel][k][FF_NR], zero padded).
 * Operands are float (FF_BF16 = 0) or bf16 (FF_BF16 = 1: k in pairs, [panel][k/2][FF_NR][2]); sums are float32.
 * Measured against the library in docs/architecture.md. */
#ifndef FF_KERNELS_CPU_MM_H
#define FF_KERNELS_CPU_MM_H

#include "kernels/cpu/simd.h"

enum {
    FF_NR = 2 * FF_VL, /* columns of a panel */
#if FF_SIMD_512
    FF_MR = 12, /* rows of a register tile: 24 sums + 2 of B + 1 broadcast of 32 registers */
#elif FF_SIMD_256
    FF_MR = 6, /* 12 sums + 2 + 1 of 16 registers */
#else
    FF_MR = 4,
#endif
    FF_KP = FF_BF16 ? 2 : 1 /* k is padded to a multiple of this */
};

FF_INLINE int64_t mm_round_up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }
/** Number of operands a packed [K, N] right side takes. */
FF_INLINE int64_t mm_packed_size(int64_t K, int64_t N) { return mm_round_up(N, FF_NR) * mm_round_up(K, FF_KP); }
/** Leading dimension (operands) for a left side of K columns: even in bf16, where the pad column must be zero. */
FF_INLINE int64_t mm_lda(int64_t K) { return mm_round_up(K, FF_KP); }

/** Pack B[k, n] = b[k * ldb + n] (float32). */
void FF_FN(mm_pack)(ff_operand *packed, const float *b, int64_t ldb, int64_t K, int64_t N);
/** Pack B[k, n] = b[n * ldb + k] (float32): the right side is stored transposed. */
void FF_FN(mm_pack_t)(ff_operand *packed, const float *b, int64_t ldb, int64_t K, int64_t N);
/** As mm_pack and mm_pack_t, of a right side already stored as operands. */
void FF_FN(mm_pack_operand)(ff_operand *packed, const ff_operand *b, int64_t ldb, int64_t K, int64_t N);
void FF_FN(mm_pack_operand_t)(ff_operand *packed, const ff_operand *b, int64_t ldb, int64_t K, int64_t N);
/** Copy rows of float32 into operands with leading dimension ldd (>= mm_lda(K); pad columns are zeroed). */
void FF_FN(mm_rows)(ff_operand *dst, int64_t ldd, const float *src, int64_t lds, int64_t M, int64_t K);

/** dst[j, i] = src[i, j], float32, by register blocks. */
void FF_FN(mm_transpose)(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols);

enum { MM_STORE = 0, MM_ADD = 1 };
/**
 * C[m, n] (=, +=) sum_k A[m, k] B[k, n] (+ bias[n] where bias is not NULL and MM_STORE).
 * A: row-major operands, leading dimension lda. Bp: packed panels of [K, N]. C: float32, leading dimension ldc.
 * 2 M N K FLOP. K = 0 stores bias or 0.
 */
void FF_FN(mm)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp, float *C,
               int64_t ldc, int mode, const float *bias);
/** The same with C stored as operands (MM_STORE only), optionally through relu. */
void FF_FN(mm_operand)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp,
                       ff_operand *C, int64_t ldc, const float *bias, int relu);
/** C (=, += when add is set) A B with C stored as operands. */
void FF_FN(mm_operand_add)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp,
                           ff_operand *C, int64_t ldc, int add);
/** dst[j, i] = src[i, j], operands; pad columns of dst up to mm_lda(rows) are zeroed. */
void FF_FN(mm_transpose_operand)(ff_operand *dst, int64_t ldd, const ff_operand *src, int64_t lds, int64_t rows,
                                 int64_t cols);

/** out = residual + factor * (A B + bias), each part optional (NULL). */
typedef struct {
    const float *residual; /* [M, N], leading dimension ld_residual; may be out itself */
    int64_t ld_residual;
    const float *bias;   /* [N] */
    const float *factor; /* [M, N], leading dimension ld_factor: dropout multipliers */
    int64_t ld_factor;
} mm_residual;
void FF_FN(mm_update)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp, float *out,
                      int64_t ldo, const mm_residual *update);

/**
 * C[m, n] += sum_r X[r, m] Y[r, n]: weight gradients. X and Y float32 row-major, r = 0..K-1.
 * scratch: mm_tn_scratch(M, N, K) bytes (bf16 copies need row pairs; float32 packs Y for large N only).
 */
size_t FF_FN(mm_tn_scratch)(int64_t M, int64_t N, int64_t K);
void FF_FN(mm_tn)(int64_t M, int64_t N, int64_t K, const float *X, int64_t ldx, const float *Y, int64_t ldy, float *C,
                  int64_t ldc, void *scratch);

/* ---- the register tile, for kernels with an epilogue of their own ---- */

/* rows x (2 vectors): acc += A[rows, k] * panel[k]; A elements are broadcast from memory. */
#if FF_BF16
typedef int32_t mm_a; /* a pair of bf16 */
#define MM_STEP(acc, a, b) v_bf16_dot(acc, vi_set1(a), b)
#define MM_B(p) vi_load(p)
typedef vi mm_b;
#else
typedef float mm_a;
#define MM_STEP(acc, a, b) v_fma(v_set1(a), b, acc)
#define MM_B(p) v_load(p)
typedef vf mm_b;
#endif

FF_INLINE mm_a mm_read(const ff_operand *p)
{
    mm_a a;
    memcpy(&a, p, sizeof a);
    return a;
}

/* K in steps of one operand (float) or one pair (bf16); sa = row stride of A in operands. */
FF_INLINE void mm_tile_sum(int rows, int vecs, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp,
                           vf acc[][2])
{
    const int64_t ka = FF_KP, kb = (int64_t)FF_NR * FF_KP;
    for (int64_t k = 0; k < steps; k++) {
        const mm_b b0 = MM_B(Bp + k * kb);
        const mm_b b1 = vecs > 1 ? MM_B(Bp + k * kb + FF_VL * FF_KP) : b0;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const mm_a a = mm_read(A + r * sa + k * ka);
            acc[r][0] = MM_STEP(acc[r][0], a, b0);
            if (vecs > 1)
                acc[r][1] = MM_STEP(acc[r][1], a, b1);
        }
    }
}

/** case 1: .. case FF_MR: of a switch over the rows of a register tile. */
#if FF_SIMD_512
#define MM_ROW_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif FF_SIMD_256
#define MM_ROW_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define MM_ROW_CASES(X) X(1) X(2) X(3) X(4)
#endif

#endif
