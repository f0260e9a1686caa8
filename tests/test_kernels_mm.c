/* suite kernels/mm: the products inside the fused kernels, every variant of this machine, against plain loops. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "kernels/kernels.h"
#include "tests/check.h"

/* kernels/cpu/mm.h has one copy of each function per variant; here they are called through void pointers to operands */
typedef struct {
    const char *name;
    ff_isa isa;
    bool bf16;
    int panel; /* FF_NR */
    void (*pack)(void *, const float *, int64_t, int64_t, int64_t);
    void (*pack_t)(void *, const float *, int64_t, int64_t, int64_t);
    void (*pack_operand)(void *, const void *, int64_t, int64_t, int64_t);
    void (*pack_operand_t)(void *, const void *, int64_t, int64_t, int64_t);
    void (*rows)(void *, int64_t, const float *, int64_t, int64_t, int64_t);
    void (*mm)(int64_t, int64_t, int64_t, const void *, int64_t, const void *, float *, int64_t, int, const float *);
    size_t (*tn_scratch)(int64_t, int64_t, int64_t);
    void (*tn)(int64_t, int64_t, int64_t, const float *, int64_t, const float *, int64_t, float *, int64_t, void *);
    void (*transpose)(float *, int64_t, const float *, int64_t, int64_t, int64_t);
} variant;

#define DECLARE(v)                                                                                                     \
    void mm_pack_##v(void *, const float *, int64_t, int64_t, int64_t);                                                \
    void mm_pack_t_##v(void *, const float *, int64_t, int64_t, int64_t);                                              \
    void mm_pack_operand_##v(void *, const void *, int64_t, int64_t, int64_t);                                         \
    void mm_pack_operand_t_##v(void *, const void *, int64_t, int64_t, int64_t);                                       \
    void mm_rows_##v(void *, int64_t, const float *, int64_t, int64_t, int64_t);                                       \
    void mm_##v(int64_t, int64_t, int64_t, const void *, int64_t, const void *, float *, int64_t, int, const float *); \
    size_t mm_tn_scratch_##v(int64_t, int64_t, int64_t);                                                               \
    void mm_tn_##v(int64_t, int64_t, int64_t, const float *, int64_t, const float *, int64_t, float *, int64_t,        \
                   void *);                                                                                            \
    void mm_transpose_##v(float *, int64_t, const float *, int64_t, int64_t, int64_t);
#define ENTRY(v, isa, bf16, panel)                                                                                     \
    {#v,         isa,           bf16,  panel,           mm_pack_##v, mm_pack_t_##v,   mm_pack_operand_##v,             \
     mm_pack_operand_t_##v, mm_rows_##v, mm_##v, mm_tn_scratch_##v, mm_tn_##v,   mm_transpose_##v},

DECLARE(plain_f32)
DECLARE(plain_bf16)
#if defined(__x86_64__)
DECLARE(avx2_f32)
DECLARE(avx2_bf16)
DECLARE(avx512_f32)
DECLARE(avx512_bf16)
DECLARE(avx512_bf16_bf16)
DECLARE(amx_bf16)
#endif

static const variant variants[] = {
    ENTRY(plain_f32, FF_ISA_PLAIN_, false, 8) ENTRY(plain_bf16, FF_ISA_PLAIN_, true, 8)
#if defined(__x86_64__)
        ENTRY(avx2_f32, FF_ISA_AVX2_, false, 16) ENTRY(avx2_bf16, FF_ISA_AVX2_, true, 16)
            ENTRY(avx512_f32, FF_ISA_AVX512_, false, 32) ENTRY(avx512_bf16, FF_ISA_AVX512_, true, 32)
                ENTRY(avx512_bf16_bf16, FF_ISA_AVX512_BF16_, true, 32) ENTRY(amx_bf16, FF_ISA_AMX_, true, 32)
#endif
};

enum { CASES = 150 };

static float number(uint64_t i) /* few bits: exact in bf16, so both dtypes are held to the float32 bound */
{
    const ff_random_key key = {7, 0};
    return (float)((int)ff_random_below(key, i, 255) - 127) / 64.0f;
}

static int64_t round_up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

static void one_case(const variant *v, int64_t M, int64_t N, int64_t K)
{
    const size_t es = v->bf16 ? 2 : 4;
    const int64_t kp = v->bf16 ? 2 : 1, lda = round_up(K, kp), packed = round_up(N, v->panel) * round_up(K, kp);
    float *a = malloc((size_t)(M * K) * 4), *at = malloc((size_t)(M * K) * 4), *b = malloc((size_t)(N * K) * 4);
    float *bt = malloc((size_t)(N * K) * 4), *c = malloc((size_t)(M * N) * 4), *d = malloc((size_t)(M * N) * 4);
    float *want = malloc((size_t)(M * N) * 4);
    for (int64_t i = 0; i < M * K; i++)
        a[i] = number((uint64_t)i);
    for (int64_t k = 0; k < K; k++)
        for (int64_t n = 0; n < N; n++)
            b[k * N + n] = bt[n * K + k] = number((uint64_t)(100000 + k * N + n));
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            double s = 1.0;
            for (int64_t k = 0; k < K; k++)
                s += (double)a[m * K + k] * b[k * N + n];
            want[m * N + n] = (float)s;
            c[m * N + n] = d[m * N + n] = 1.0f;
        }
    char *A = malloc((size_t)(M * lda) * es), *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = aligned_alloc(64, (size_t)round_up(packed * (int64_t)es + 64, 64));
    char *bo = malloc((size_t)(N * K) * es + 8), *bto = malloc((size_t)(N * K) * es + 8);
    for (int64_t i = 0; i < N * K; i++) { /* operands of one row each: no padding between them */
        uint32_t x, y;
        memcpy(&x, &b[i], 4);
        memcpy(&y, &bt[i], 4);
        if (v->bf16) {
            const uint16_t hx = (uint16_t)(x >> 16), hy = (uint16_t)(y >> 16);
            memcpy(bo + 2 * i, &hx, 2);
            memcpy(bto + 2 * i, &hy, 2);
        } else {
            memcpy(bo + 4 * i, &x, 4);
            memcpy(bto + 4 * i, &y, 4);
        }
    }
    v->rows(A, lda, a, K, M, K);
    v->pack(p[0], b, N, K, N);
    v->pack_t(p[1], bt, K, K, N);
    v->pack_operand(p[2], bo, N, K, N);
    v->pack_operand_t(p[3], bto, K, K, N);
    for (int i = 1; i < 4; i++)
        CU_ASSERT_EQUAL(memcmp(p[0], p[i], (size_t)packed * es), 0);
    v->mm(M, N, K, A, lda, p[0], c, N, 1, NULL);
    FF_CHECK_CLOSE(c, want, M * N, 1e-5, 1e-4); /* K products of numbers up to 4 */
    v->transpose(at, M, a, K, M, K);
    void *scratch = aligned_alloc(64, round_up((int64_t)v->tn_scratch(M, N, K), 64));
    v->tn(M, N, K, at, M, b, N, d, N, scratch);
    FF_CHECK_CLOSE(d, want, M * N, 1e-5, 1e-4);
    free(scratch);
    free(bto);
    free(bo);
    for (int i = 0; i < 4; i++)
        free(p[i]);
    free(A);
    free(want);
    free(d);
    free(c);
    free(bt);
    free(b);
    free(at);
    free(a);
}

static void test_every_variant_equals_plain_loops(void)
{
    const ff_random_key key = {11, 1};
    const ff_isa best = ff_isa_best();
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (variants[i].isa > best)
            continue;
        for (uint64_t t = 0; t < CASES; t++)
            one_case(&variants[i], (int64_t)ff_random_below(key, 3 * t, 40) + 1,
                     (int64_t)ff_random_below(key, 3 * t + 1, 80) + 1, (int64_t)ff_random_below(key, 3 * t + 2, 100) + 1);
    }
}

static CU_TestInfo tests[] = {
    {"every_variant_equals_plain_loops", test_every_variant_equals_plain_loops},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_mm = {"kernels/mm", NULL, NULL, NULL, NULL, tests};
