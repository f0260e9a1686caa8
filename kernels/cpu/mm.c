#include "kernels/cpu/mm.h"

/* ---- the register tile ---- */

enum { OUT_FLOAT, OUT_OPERAND };

FF_INLINE void store_row(int out, void *C, vf v, int64_t n, int relu)
{
    if (relu)
        v = v_max(v, v_zero());
    if (out == OUT_FLOAT) {
        if (n >= FF_VL)
            v_store((float *)C, v);
        else
            v_store_n((float *)C, v, n);
    } else {
#if FF_BF16
        if (n >= FF_VL) {
            v_store_bf16((ff_bf16 *)C, v);
        } else {
            ff_bf16 t[FF_VL];
            v_store_bf16(t, v);
            memcpy(C, t, (size_t)n * sizeof *t);
        }
#else
        if (n >= FF_VL)
            v_store((float *)C, v);
        else
            v_store_n((float *)C, v, n);
#endif
    }
}

FF_INLINE void tile(int rows, int vecs, int out, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp,
                    void *C, int64_t ldc, int64_t n, int mode, const float *bias, int relu)
{
    const size_t es = out == OUT_FLOAT ? sizeof(float) : sizeof(ff_operand);
    vf acc[FF_MR][2];
    vf i0 = v_zero(), i1 = v_zero();
    if (bias != NULL) {
        i0 = n >= FF_VL ? v_load(bias) : v_load_n(bias, n);
        if (vecs > 1)
            i1 = n >= 2 * FF_VL ? v_load(bias + FF_VL) : v_load_n(bias + FF_VL, n - FF_VL);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        acc[r][0] = i0;
        acc[r][1] = i1;
    }
    mm_tile_sum(rows, vecs, steps, A, sa, Bp, acc);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        char *c = (char *)C + (size_t)(r * ldc) * es;
        if (mode == MM_ADD) {
            acc[r][0] += n >= FF_VL ? v_load((float *)c) : v_load_n((float *)c, n);
            if (vecs > 1)
                acc[r][1] += n >= 2 * FF_VL ? v_load((float *)c + FF_VL) : v_load_n((float *)c + FF_VL, n - FF_VL);
        }
        store_row(out, c, acc[r][0], n, relu);
        if (vecs > 1)
            store_row(out, c + FF_VL * es, acc[r][1], n - FF_VL, relu);
    }
}

#define MM_TILE_ARGS steps, A, sa, Bp, C, ldc, n, mode, bias, relu
#define MM_CASE(r)                                                                                                     \
    case r:                                                                                                            \
        if (wide)                                                                                                      \
            tile(r, 2, out, MM_TILE_ARGS);                                                                             \
        else                                                                                                           \
            tile(r, 1, out, MM_TILE_ARGS);                                                                             \
        break;

FF_INLINE void tile_rows(int64_t rows, int out, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp,
                         void *C, int64_t ldc, int64_t n, int mode, const float *bias, int relu)
{
    const int wide = n > FF_VL;
    switch (rows) {
        MM_ROW_CASES(MM_CASE)
    default:
        break;
    }
}

/* Rows of a register tile such that the last tile of M is not a sliver. */
FF_INLINE int64_t tile_height(int64_t left)
{
    if (left >= 2 * FF_MR || left <= FF_MR)
        return left < FF_MR ? left : FF_MR;
    return (left + 1) / 2; /* between one and two tiles: two equal ones */
}

#if defined(FF_ISA_AMX)
/* ---- AMX: 32 x 32 sums in four tiles, 32 values of k a step; what is left over goes through the register tile ---- */

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} amx_config;

enum { AMX_K = 32, AMX_STEPS = AMX_K / FF_KP };

FF_INLINE void amx_begin(void)
{
    amx_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.bytes[t] = 64;
        config.rows[t] = 16;
    }
    _tile_loadconfig(&config);
}

/* buf[rows][32] = A[rows, 32 blocks] panel; rows is 16 or 32 */
FF_INLINE void amx_block(int rows, int64_t blocks, const ff_operand *A, int64_t lda, const ff_operand *panel, float *buf)
{
    const int sb = FF_NR * FF_KP * (int)sizeof(ff_operand);
    const size_t sa = (size_t)lda * sizeof(ff_operand);
    _tile_zero(0);
    _tile_zero(1);
    if (rows > 16) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t b = 0; b < blocks; b++) {
        const ff_operand *p = panel + b * AMX_STEPS * FF_NR * FF_KP;
        _tile_loadd(4, A + b * AMX_K, sa);
        _tile_loadd(6, p, sb);
        _tile_loadd(7, p + FF_VL * FF_KP, sb);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (rows > 16) {
            _tile_loadd(5, A + 16 * lda + b * AMX_K, sa);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, buf, FF_NR * 4);
    _tile_stored(1, buf + FF_VL, FF_NR * 4);
    if (rows > 16) {
        _tile_stored(2, buf + 16 * FF_NR, FF_NR * 4);
        _tile_stored(3, buf + 16 * FF_NR + FF_VL, FF_NR * 4);
    }
}

/* Rows of C that the tiles can do, 0 when too few: the caller does the rest. */
FF_INLINE int64_t amx_rows(int out, int64_t M, int64_t steps, const ff_operand *A, int64_t lda, const ff_operand *panel,
                           void *C, int64_t ldc, int64_t n, int mode, const float *bias, int relu)
{
    const int64_t blocks = steps / AMX_STEPS, rest = steps % AMX_STEPS;
    const size_t es = out == OUT_FLOAT ? sizeof(float) : sizeof(ff_operand);
    _Alignas(64) float buf[32 * FF_NR];
    if (blocks == 0)
        return 0;
    int64_t m = 0;
    while (M - m >= 16) {
        const int rows = M - m >= 32 ? 32 : 16;
        amx_block(rows, blocks, A + m * lda, lda, panel, buf);
        for (int64_t r = 0; rest > 0 && r < rows; r += 8)
            tile_rows(8, OUT_FLOAT, rest, A + (m + r) * lda + blocks * AMX_K, lda, panel + blocks * AMX_STEPS * FF_NR * FF_KP,
                      buf + r * FF_NR, FF_NR, FF_NR, MM_ADD, NULL, 0);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t v = 0; v * FF_VL < n; v++) {
                const int64_t left = n - v * FF_VL;
                char *c = (char *)C + (size_t)((m + r) * ldc + v * FF_VL) * es;
                vf sum = v_load(buf + r * FF_NR + v * FF_VL);
                if (bias != NULL)
                    sum += v_load_n(bias + v * FF_VL, left);
                if (mode == MM_ADD)
                    sum += v_load_n((const float *)c, left);
                store_row(out, c, sum, left, relu);
            }
        m += rows;
    }
    return m;
}
#endif

FF_INLINE void mm_any(int out, int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp,
                      void *C, int64_t ldc, int mode, const float *bias, int relu)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    const size_t es = out == OUT_FLOAT ? sizeof(float) : sizeof(ff_operand);
#if defined(FF_ISA_AMX)
    amx_begin();
#endif
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR) {
        const int64_t n = N - n0 < FF_NR ? N - n0 : FF_NR;
        const ff_operand *panel = Bp + n0 * steps * FF_KP;
        int64_t first = 0;
#if defined(FF_ISA_AMX)
        first = amx_rows(out, M, steps, A, lda, panel, (char *)C + (size_t)n0 * es, ldc, n, mode,
                         bias == NULL ? NULL : bias + n0, relu);
#endif
        for (int64_t m0 = first, h; m0 < M; m0 += h) {
            h = tile_height(M - m0);
            tile_rows(h, out, steps, A + m0 * lda, lda, panel, (char *)C + (size_t)(m0 * ldc + n0) * es, ldc, n, mode,
                      bias == NULL ? NULL : bias + n0, relu);
        }
    }
#if defined(FF_ISA_AMX)
    _tile_release();
#endif
}

void FF_FN(mm)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp, float *C,
               int64_t ldc, int mode, const float *bias)
{
    if (mode == MM_ADD)
        mm_any(OUT_FLOAT, M, N, K, A, lda, Bp, C, ldc, MM_ADD, NULL, 0);
    else
        mm_any(OUT_FLOAT, M, N, K, A, lda, Bp, C, ldc, MM_STORE, bias, 0);
}

void FF_FN(mm_operand)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp,
                       ff_operand *C, int64_t ldc, const float *bias, int relu)
{
    if (relu)
        mm_any(OUT_OPERAND, M, N, K, A, lda, Bp, C, ldc, MM_STORE, bias, 1);
    else
        mm_any(OUT_OPERAND, M, N, K, A, lda, Bp, C, ldc, MM_STORE, bias, 0);
}

/* ---- packing ---- */

void FF_FN(mm_transpose)(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols)
{
    for (int64_t i0 = 0; i0 < rows; i0 += FF_VL)
        for (int64_t j0 = 0; j0 < cols; j0 += FF_VL) {
            const int64_t ni = rows - i0 < FF_VL ? rows - i0 : FF_VL, nj = cols - j0 < FF_VL ? cols - j0 : FF_VL;
            vf r[FF_VL];
            if (ni == FF_VL && nj == FF_VL) {
#pragma GCC unroll 16
                for (int i = 0; i < FF_VL; i++)
                    r[i] = v_load(src + (i0 + i) * lds + j0);
                v_transpose(r);
#pragma GCC unroll 16
                for (int j = 0; j < FF_VL; j++)
                    v_store(dst + (j0 + j) * ldd + i0, r[j]);
            } else {
                for (int i = 0; i < FF_VL; i++)
                    r[i] = i < ni ? v_load_n(src + (i0 + i) * lds + j0, nj) : v_zero();
                v_transpose(r);
                for (int64_t j = 0; j < nj; j++)
                    v_store_n(dst + (j0 + j) * ldd + i0, r[j], ni);
            }
        }
}

/* One vector of a packed panel: from one row (float) or a pair of rows (bf16; hi NULL = zero). */
FF_INLINE void pack_vector(ff_operand *dst, const float *lo, const float *hi, int64_t n)
{
#if FF_BF16
    const vf a = v_load_n(lo, n < 0 ? 0 : n), b = hi != NULL ? v_load_n(hi, n < 0 ? 0 : n) : v_zero();
    vi_store(dst, v_bf16_pair(a, b));
#else
    (void)hi;
    v_store(dst, v_load_n(lo, n < 0 ? 0 : n));
#endif
}

void FF_FN(mm_pack)(ff_operand *packed, const float *b, int64_t ldb, int64_t K, int64_t N)
{
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR)
        for (int64_t k = 0; k < K; k += FF_KP) {
            const float *lo = b + k * ldb + n0;
            const float *hi = k + 1 < K ? lo + ldb : NULL;
            const int64_t n = N - n0;
            pack_vector(packed, lo, hi, n);
            pack_vector(packed + FF_VL * FF_KP, lo + FF_VL, hi == NULL ? NULL : hi + FF_VL, n - FF_VL);
            packed += FF_NR * FF_KP;
        }
}

void FF_FN(mm_pack_t)(ff_operand *packed, const float *b, int64_t ldb, int64_t K, int64_t N)
{
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR, packed += FF_NR * mm_round_up(K, FF_KP))
        for (int64_t v = 0; v < 2; v++) { /* the two vectors of a panel row */
            const int64_t first = n0 + v * FF_VL, n = N - first < FF_VL ? N - first : FF_VL;
            for (int64_t k0 = 0; k0 < K; k0 += FF_VL) {
                const int64_t nk = K - k0 < FF_VL ? K - k0 : FF_VL;
                vf r[FF_VL];
#pragma GCC unroll 16
                for (int i = 0; i < FF_VL; i++)
                    r[i] = i < n ? v_load_n(b + (first + i) * ldb + k0, nk) : v_zero();
                v_transpose(r);
                ff_operand *p = packed + k0 * FF_NR + v * FF_VL * FF_KP;
#if FF_BF16
                for (int k = 0; k < nk; k += 2)
                    vi_store(p + k * FF_NR, v_bf16_pair(r[k], r[k + 1]));
#else
                for (int k = 0; k < nk; k++)
                    v_store(p + k * FF_NR, r[k]);
#endif
            }
        }
}

#if FF_BF16
void FF_FN(mm_pack_operand)(ff_operand *packed, const ff_operand *b, int64_t ldb, int64_t K, int64_t N)
{
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR)
        for (int64_t k = 0; k < K; k += 2) {
            const ff_operand *lo = b + k * ldb + n0;
            const int64_t n = N - n0 < FF_NR ? N - n0 : FF_NR;
            if (n == FF_NR && k + 1 < K) {
                for (int64_t i = 0; i < FF_NR; i += FF_VL) {
#if FF_SIMD_512
                    const __m512i l = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(lo + i)));
                    const __m512i h =
                        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(lo + ldb + i)));
                    vi_store(packed + 2 * i, (vi)_mm512_or_si512(l, _mm512_slli_epi32(h, 16)));
#else
                    for (int64_t j = i; j < i + FF_VL; j++) {
                        packed[2 * j] = lo[j];
                        packed[2 * j + 1] = lo[ldb + j];
                    }
#endif
                }
            } else {
                for (int64_t i = 0; i < FF_NR; i++) {
                    packed[2 * i] = i < n ? lo[i] : 0;
                    packed[2 * i + 1] = i < n && k + 1 < K ? lo[ldb + i] : 0;
                }
            }
            packed += 2 * FF_NR;
        }
}

void FF_FN(mm_pack_operand_t)(ff_operand *packed, const ff_operand *b, int64_t ldb, int64_t K, int64_t N)
{
    const int64_t pairs = (K + 1) / 2; /* transposition of 32-bit pairs */
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR, packed += FF_NR * pairs * 2)
        for (int64_t v = 0; v < 2; v++) {
            const int64_t first = n0 + v * FF_VL, n = N - first < FF_VL ? N - first : FF_VL;
            for (int64_t p0 = 0; p0 < pairs; p0 += FF_VL) {
                const int64_t np = pairs - p0 < FF_VL ? pairs - p0 : FF_VL;
                vf r[FF_VL];
                for (int i = 0; i < FF_VL; i++) {
                    if (i >= n) {
                        r[i] = v_zero();
                    } else if (2 * (p0 + np) <= K) {
                        r[i] = v_load_n((const float *)(const void *)(b + (first + i) * ldb + 2 * p0), np);
                    } else { /* odd K: the last pair has one half */
                        ff_operand t[2 * FF_VL] = {0};
                        memcpy(t, b + (first + i) * ldb + 2 * p0, (size_t)(K - 2 * p0) * sizeof *t);
                        r[i] = (vf)vi_load(t);
                    }
                }
                v_transpose(r);
                for (int64_t p = 0; p < np; p++)
                    vi_store(packed + (p0 + p) * 2 * FF_NR + v * 2 * FF_VL, (vi)r[p]);
            }
        }
}
#else
void FF_FN(mm_pack_operand)(ff_operand *packed, const ff_operand *b, int64_t ldb, int64_t K, int64_t N)
{
    FF_FN(mm_pack)(packed, b, ldb, K, N);
}
void FF_FN(mm_pack_operand_t)(ff_operand *packed, const ff_operand *b, int64_t ldb, int64_t K, int64_t N)
{
    FF_FN(mm_pack_t)(packed, b, ldb, K, N);
}
#endif

void FF_FN(mm_rows)(ff_operand *dst, int64_t ldd, const float *src, int64_t lds, int64_t M, int64_t K)
{
    for (int64_t m = 0; m < M; m++) {
        int64_t k = 0;
        for (; k + FF_VL <= K; k += FF_VL)
            v_store_operand(dst + m * ldd + k, v_load(src + m * lds + k));
        for (; k < K; k++)
            dst[m * ldd + k] = operand_from_float(src[m * lds + k]);
        for (; k < ldd && k < mm_lda(K); k++)
            dst[m * ldd + k] = operand_from_float(0.0f);
    }
}

/* ---- weight gradients: C += X^T Y ---- */

/* rows of C from columns m of X: float: A[k] contiguous in m; bf16: pairs packed by mm_tn first. */
FF_INLINE void tn_tile(int rows, int vecs, int64_t steps, const mm_a *X, int64_t ldx, const ff_operand *Y, int64_t ldy,
                       float *C, int64_t ldc, int64_t n)
{
    vf acc[FF_MR][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = v_zero();
    for (int64_t k = 0; k < steps; k++) {
        const mm_b b0 = MM_B(Y + k * ldy);
        const mm_b b1 = vecs > 1 ? MM_B(Y + k * ldy + FF_VL * FF_KP) : b0;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const mm_a a = X[k * ldx + r];
            acc[r][0] = MM_STEP(acc[r][0], a, b0);
            if (vecs > 1)
                acc[r][1] = MM_STEP(acc[r][1], a, b1);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        float *c = C + r * ldc;
        if (n >= FF_VL)
            v_store(c, v_load(c) + acc[r][0]);
        else
            v_store_n(c, v_load_n(c, n) + acc[r][0], n);
        if (vecs > 1) {
            if (n >= 2 * FF_VL)
                v_store(c + FF_VL, v_load(c + FF_VL) + acc[r][1]);
            else
                v_store_n(c + FF_VL, v_load_n(c + FF_VL, n - FF_VL) + acc[r][1], n - FF_VL);
        }
    }
}

#define TN_CASE(r)                                                                                                     \
    case r:                                                                                                            \
        if (n > FF_VL)                                                                                                 \
            tn_tile(r, 2, steps, X, ldx, Y, ldy, C, ldc, n);                                                           \
        else                                                                                                           \
            tn_tile(r, 1, steps, X, ldx, Y, ldy, C, ldc, n);                                                           \
        break;

static void tn_rows(int64_t rows, int64_t steps, const mm_a *X, int64_t ldx, const ff_operand *Y, int64_t ldy, float *C,
                    int64_t ldc, int64_t n)
{
    switch (rows) {
        MM_ROW_CASES(TN_CASE)
    default:
        break;
    }
}

size_t FF_FN(mm_tn_scratch)(int64_t M, int64_t N, int64_t K)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    /* Y in panels, and in bf16 the row pairs of X too */
    return (size_t)(steps * FF_KP * mm_round_up(N, FF_NR) * (int64_t)sizeof(ff_operand) +
                    (FF_BF16 ? steps * mm_round_up(M, 16) * 4 : 0) + 128);
}

void FF_FN(mm_tn)(int64_t M, int64_t N, int64_t K, const float *X, int64_t ldx, const float *Y, int64_t ldy, float *C,
                  int64_t ldc, void *scratch)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    ff_operand *Yp = scratch;
    FF_FN(mm_pack)(Yp, Y, ldy, K, N);
#if FF_BF16
    int32_t *Xp = (int32_t *)(void *)(Yp + steps * 2 * mm_round_up(N, FF_NR));
    const int64_t ldp = mm_round_up(M, 16);
    for (int64_t k = 0; k < steps; k++)
        for (int64_t m = 0; m < M; m += FF_VL)
            pack_vector((ff_operand *)(void *)(Xp + k * ldp + m), X + 2 * k * ldx + m,
                        2 * k + 1 < K ? X + (2 * k + 1) * ldx + m : NULL, M - m);
#else
    const float *Xp = X;
    const int64_t ldp = ldx;
#endif
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR) {
        const int64_t n = N - n0 < FF_NR ? N - n0 : FF_NR;
        for (int64_t m0 = 0, h; m0 < M; m0 += h) {
            h = tile_height(M - m0);
            tn_rows(h, steps, Xp + m0, ldp, Yp + n0 * steps * FF_KP, FF_NR * FF_KP, C + m0 * ldc + n0, ldc, n);
        }
    }
}

/* ---- residual updates ---- */

FF_INLINE void update_tile(int rows, int vecs, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp,
                           float *out, int64_t ldo, int64_t n, const mm_residual *u)
{
    vf acc[FF_MR][2];
    vf i0 = v_zero(), i1 = v_zero();
    if (u->bias != NULL) {
        i0 = n >= FF_VL ? v_load(u->bias) : v_load_n(u->bias, n);
        if (vecs > 1)
            i1 = n >= 2 * FF_VL ? v_load(u->bias + FF_VL) : v_load_n(u->bias + FF_VL, n - FF_VL);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        acc[r][0] = i0;
        acc[r][1] = i1;
    }
    mm_tile_sum(rows, vecs, steps, A, sa, Bp, acc);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) {
            const int64_t left = n - v * FF_VL;
            vf y = acc[r][v];
            if (u->factor != NULL) {
                const float *f = u->factor + r * u->ld_factor + v * FF_VL;
                y *= left >= FF_VL ? v_load(f) : v_load_n(f, left);
            }
            if (u->residual != NULL) {
                const float *x = u->residual + r * u->ld_residual + v * FF_VL;
                y += left >= FF_VL ? v_load(x) : v_load_n(x, left);
            }
            float *o = out + r * ldo + v * FF_VL;
            if (left >= FF_VL)
                v_store(o, y);
            else
                v_store_n(o, y, left);
        }
}

#define UPDATE_CASE(r)                                                                                                 \
    case r:                                                                                                            \
        if (n > FF_VL)                                                                                                 \
            update_tile(r, 2, steps, A, sa, Bp, out, ldo, n, u);                                                       \
        else                                                                                                           \
            update_tile(r, 1, steps, A, sa, Bp, out, ldo, n, u);                                                       \
        break;

static void update_rows(int64_t rows, int64_t steps, const ff_operand *A, int64_t sa, const ff_operand *Bp, float *out,
                        int64_t ldo, int64_t n, const mm_residual *u)
{
    switch (rows) {
        MM_ROW_CASES(UPDATE_CASE)
    default:
        break;
    }
}

void FF_FN(mm_update)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp, float *out,
                      int64_t ldo, const mm_residual *update)
{
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
#if defined(FF_ISA_AMX)
    if (M >= 16 && N >= FF_NR && steps >= AMX_STEPS) { /* tiles first, then one pass over the hot result */
        _Alignas(64) float y[16 * FF_NR];
        for (int64_t m = 0; m < M; m += 16)
            for (int64_t n0 = 0; n0 < N; n0 += FF_NR) {
                const int64_t h = M - m < 16 ? M - m : 16, n = N - n0 < FF_NR ? N - n0 : FF_NR;
                FF_FN(mm)(h, n, K, A + m * lda, lda, Bp + n0 * steps * FF_KP, y, FF_NR, MM_STORE,
                          update->bias == NULL ? NULL : update->bias + n0);
                for (int64_t r = 0; r < h; r++)
                    for (int64_t i = 0; i < n; i += FF_VL) {
                        const int64_t left = n - i;
                        vf v = v_load(y + r * FF_NR + i);
                        if (update->factor != NULL)
                            v *= v_load_n(update->factor + (m + r) * update->ld_factor + n0 + i, left);
                        if (update->residual != NULL)
                            v += v_load_n(update->residual + (m + r) * update->ld_residual + n0 + i, left);
                        v_store_n(out + (m + r) * ldo + n0 + i, v, left);
                    }
            }
        return;
    }
#endif
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR) {
        const int64_t n = N - n0 < FF_NR ? N - n0 : FF_NR;
        for (int64_t m0 = 0, h; m0 < M; m0 += h) {
            h = tile_height(M - m0);
            const mm_residual u = {
                update->residual == NULL ? NULL : update->residual + m0 * update->ld_residual + n0, update->ld_residual,
                update->bias == NULL ? NULL : update->bias + n0,
                update->factor == NULL ? NULL : update->factor + m0 * update->ld_factor + n0, update->ld_factor};
            update_rows(h, steps, A + m0 * lda, lda, Bp + n0 * steps * FF_KP, out + m0 * ldo + n0, ldo, n, &u);
        }
    }
}

void FF_FN(mm_operand_add)(int64_t M, int64_t N, int64_t K, const ff_operand *A, int64_t lda, const ff_operand *Bp,
                           ff_operand *C, int64_t ldc, int add)
{
    if (!add) {
        FF_FN(mm_operand)(M, N, K, A, lda, Bp, C, ldc, NULL, 0);
        return;
    }
#if FF_BF16
    const int64_t steps = (K + FF_KP - 1) / FF_KP;
    _Alignas(64) float y[FF_MR * FF_NR];
    for (int64_t n0 = 0; n0 < N; n0 += FF_NR)
        for (int64_t m0 = 0; m0 < M; m0 += FF_MR) {
            const int64_t h = M - m0 < FF_MR ? M - m0 : FF_MR, n = N - n0 < FF_NR ? N - n0 : FF_NR;
            FF_FN(mm)(h, n, K, A + m0 * lda, lda, Bp + n0 * steps * FF_KP, y, FF_NR, MM_STORE, NULL);
            for (int64_t r = 0; r < h; r++)
                for (int64_t i = 0; i < n; i++) {
                    ff_operand *c = C + (m0 + r) * ldc + n0 + i;
                    *c = operand_from_float(operand_to_float(*c) + y[r * FF_NR + i]);
                }
        }
#else
    FF_FN(mm)(M, N, K, A, lda, Bp, C, ldc, MM_ADD, NULL);
#endif
}

void FF_FN(mm_transpose_operand)(ff_operand *dst, int64_t ldd, const ff_operand *src, int64_t lds, int64_t rows,
                                 int64_t cols)
{
#if FF_BF16
    /* lanes hold (src[i][j], src[i + 1][j]): transposed as 32-bit numbers they are dst[j][i..i + 1] */
    for (int64_t i0 = 0; i0 < rows; i0 += 2 * FF_VL)
        for (int64_t j0 = 0; j0 < cols; j0 += FF_VL) {
            const int64_t pairs = (rows - i0 + 1) / 2 < FF_VL ? (rows - i0 + 1) / 2 : FF_VL;
            const int64_t nj = cols - j0 < FF_VL ? cols - j0 : FF_VL;
            vf r[FF_VL];
            for (int p = 0; p < FF_VL; p++) {
                ff_operand lo[FF_VL] = {0}, hi[FF_VL] = {0};
                const int64_t i = i0 + 2 * p;
                if (p < pairs) {
                    memcpy(lo, src + i * lds + j0, (size_t)nj * sizeof *lo);
                    if (i + 1 < rows)
                        memcpy(hi, src + (i + 1) * lds + j0, (size_t)nj * sizeof *hi);
                }
                r[p] = (vf)(((vi)v_load_bf16(hi)) | (vi)((vu)v_load_bf16(lo) >> 16));
            }
            v_transpose(r);
            for (int64_t j = 0; j < nj; j++)
                v_store_n((float *)(void *)(dst + (j0 + j) * ldd + i0), r[j], pairs);
        }
#else
    FF_FN(mm_transpose)(dst, ldd, src, lds, rows, cols);
#endif
}
