/* suite kernels/mm: the products inside the fused kernels, every variant of this machine, against plain loops. AMX is also
 * run with its instructions in software (tests/amx_software.h), so its tiles are tested wherever there is AVX-512. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FF_ISA none /* types only: no variant has this name */
#define FF_BF16 0
#include "kernels/cpu/mm.h"

#include "core/random.h"
#include "kernels/kernels.h"
#include "tests/check.h"

/* kernels/cpu/mm.h has one copy of each function per variant; here they are called through void pointers to operands */
typedef void pack_fn(void *, const float *, int64_t, int64_t, int64_t);
typedef void pack_operand_fn(void *, const void *, int64_t, int64_t, int64_t);
typedef void rows_fn(void *, int64_t, const float *, int64_t, int64_t, int64_t);
typedef void mm_fn(int64_t, int64_t, int64_t, const void *, int64_t, const void *, float *, int64_t, int, const float *);
typedef void operand_fn(int64_t, int64_t, int64_t, const void *, int64_t, const void *, void *, int64_t, const float *, int);
typedef void operand_add_fn(int64_t, int64_t, int64_t, const void *, int64_t, const void *, void *, int64_t, int);
typedef void update_fn(int64_t, int64_t, int64_t, const void *, int64_t, const void *, float *, int64_t,
                       const mm_residual *);
typedef size_t tn_scratch_fn(int64_t, int64_t, int64_t);
typedef void tn_fn(int64_t, int64_t, int64_t, const float *, int64_t, const float *, int64_t, float *, int64_t, void *);
typedef void transpose_fn(float *, int64_t, const float *, int64_t, int64_t, int64_t);
typedef void transpose_operand_fn(void *, int64_t, const void *, int64_t, int64_t, int64_t);

typedef struct {
    const char *name;
    ff_isa isa; /* what the machine must have */
    bool bf16;
    int panel; /* FF_NR */
    pack_fn *pack, *pack_t;
    pack_operand_fn *pack_operand, *pack_operand_t;
    rows_fn *rows;
    mm_fn *mm;
    operand_fn *operand;
    operand_add_fn *operand_add;
    update_fn *update;
    tn_scratch_fn *tn_scratch;
    tn_fn *tn;
    transpose_fn *transpose;
    transpose_operand_fn *transpose_operand;
} variant;

#define DECLARE(v)                                                                                                     \
    pack_fn mm_pack_##v, mm_pack_t_##v;                                                                                \
    pack_operand_fn mm_pack_operand_##v, mm_pack_operand_t_##v;                                                        \
    rows_fn mm_rows_##v;                                                                                               \
    mm_fn mm_##v;                                                                                                      \
    operand_fn mm_operand_##v;                                                                                         \
    operand_add_fn mm_operand_add_##v;                                                                                 \
    update_fn mm_update_##v;                                                                                           \
    tn_scratch_fn mm_tn_scratch_##v;                                                                                   \
    tn_fn mm_tn_##v;                                                                                                   \
    transpose_fn mm_transpose_##v;                                                                                     \
    transpose_operand_fn mm_transpose_operand_##v;
#define ENTRY(v, isa, bf16, panel)                                                                                     \
    {#v,                                                                                                               \
     isa,                                                                                                              \
     bf16,                                                                                                             \
     panel,                                                                                                            \
     mm_pack_##v,                                                                                                      \
     mm_pack_t_##v,                                                                                                    \
     mm_pack_operand_##v,                                                                                              \
     mm_pack_operand_t_##v,                                                                                            \
     mm_rows_##v,                                                                                                      \
     mm_##v,                                                                                                           \
     mm_operand_##v,                                                                                                   \
     mm_operand_add_##v,                                                                                               \
     mm_update_##v,                                                                                                    \
     mm_tn_scratch_##v,                                                                                                \
     mm_tn_##v,                                                                                                        \
     mm_transpose_##v,                                                                                                 \
     mm_transpose_operand_##v},

DECLARE(plain_f32)
DECLARE(plain_bf16)
#if defined(__x86_64__)
DECLARE(avx2_f32)
DECLARE(avx2_bf16)
DECLARE(avx512_f32)
DECLARE(avx512_bf16)
DECLARE(avx512_bf16_bf16)
DECLARE(amx_bf16)
DECLARE(amx_software_bf16)
#endif

/* clang-format off */
static const variant variants[] = {
    ENTRY(plain_f32, FF_ISA_PLAIN_, false, 8)
    ENTRY(plain_bf16, FF_ISA_PLAIN_, true, 8)
#if defined(__x86_64__)
    ENTRY(avx2_f32, FF_ISA_AVX2_, false, 16)
    ENTRY(avx2_bf16, FF_ISA_AVX2_, true, 16)
    ENTRY(avx512_f32, FF_ISA_AVX512_, false, 32)
    ENTRY(avx512_bf16, FF_ISA_AVX512_, true, 32)
    ENTRY(avx512_bf16_bf16, FF_ISA_AVX512_BF16_, true, 32)
    ENTRY(amx_bf16, FF_ISA_AMX_, true, 32)
    ENTRY(amx_software_bf16, FF_ISA_AVX512_, true, 32)
#endif
};
/* clang-format on */
enum { VARIANTS = sizeof variants / sizeof *variants, CASES = 150 };

/* Whole 64ths in [-2, 2): exact in bf16, and every sum below is exact in float32, whatever its order. So both dtypes and all
 * variants must give the very numbers of the plain loop, but for bf16 results, which are rounded once: 2^-8. */
static float number(uint64_t i)
{
    const ff_random_key key = {7, 0};
    return (float)((int)ff_random_below(key, i, 255) - 127) / 64.0f;
}

static int64_t round_up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

/* A [M, K] and B [K, N], their transposes, and what the variant makes of them */
typedef struct {
    const variant *v;
    int64_t M, N, K, lda, packed;
    size_t es; /* bytes of an operand */
    float *a, *at, *b, *bt, *c0, *bias, *factor, *ab, *got, *want;
    char *A, *Bp, *C; /* operands: rows of A, panels of B, a result */
} problem;

static float *numbers(int64_t n, uint64_t first)
{
    float *x = ff_test_floats(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = number(first + (uint64_t)i);
    return x;
}

static float *transposed(const float *x, int64_t rows, int64_t cols)
{
    float *t = ff_test_floats(rows * cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            t[j * rows + i] = x[i * cols + j];
    return t;
}

/* n operands of one row */
static char *operands(const problem *p, const float *x, int64_t n)
{
    char *o = malloc((size_t)n * p->es);
    for (int64_t i = 0; i < n; i++)
        memcpy(o + (size_t)i * p->es, (const char *)&x[i] + (4 - p->es), p->es); /* bf16: the high half */
    return o;
}

static void set_up_problem(problem *p, const variant *v, int64_t M, int64_t N, int64_t K)
{
    *p = (problem){.v = v, .M = M, .N = N, .K = K, .es = v->bf16 ? 2 : 4};
    const int64_t kp = v->bf16 ? 2 : 1;
    p->lda = round_up(K, kp);
    p->packed = round_up(N, v->panel) * round_up(K, kp);
    p->a = numbers(M * K, 0);
    p->b = numbers(K * N, 100000);
    p->c0 = numbers(M * N, 200000);
    p->bias = numbers(N, 300000);
    p->factor = numbers(M * N, 400000);
    p->at = transposed(p->a, M, K);
    p->bt = transposed(p->b, K, N);
    p->ab = ff_test_floats(M * N);
    p->got = ff_test_floats(M * N);
    p->want = ff_test_floats(M * N);
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            double s = 0;
            for (int64_t k = 0; k < K; k++)
                s += (double)p->a[m * K + k] * p->b[k * N + n];
            p->ab[m * N + n] = (float)s;
        }
    p->A = malloc((size_t)(M * p->lda) * p->es);
    p->Bp = malloc((size_t)p->packed * p->es);
    p->C = malloc((size_t)(M * N) * p->es);
    v->rows(p->A, p->lda, p->a, K, M, K);
    v->pack(p->Bp, p->b, N, K, N);
}

static void tear_down_problem(problem *p)
{
    float *arrays[] = {p->a, p->at, p->b, p->bt, p->c0, p->bias, p->factor, p->ab, p->got, p->want};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        ff_test_free(arrays[i]);
    free(p->A);
    free(p->Bp);
    free(p->C);
}

/* every way to pack the right side gives the same panels */
static void check_packing(const problem *p)
{
    char *other = malloc((size_t)p->packed * p->es);
    char *b = operands(p, p->b, p->K * p->N), *bt = operands(p, p->bt, p->K * p->N);
    p->v->pack_t(other, p->bt, p->K, p->K, p->N);
    CU_ASSERT_EQUAL(memcmp(p->Bp, other, (size_t)p->packed * p->es), 0);
    p->v->pack_operand(other, b, p->N, p->K, p->N);
    CU_ASSERT_EQUAL(memcmp(p->Bp, other, (size_t)p->packed * p->es), 0);
    p->v->pack_operand_t(other, bt, p->K, p->K, p->N);
    CU_ASSERT_EQUAL(memcmp(p->Bp, other, (size_t)p->packed * p->es), 0);
    free(bt);
    free(b);
    free(other);
}

static void check_transposes(const problem *p)
{
    float *at = ff_test_floats(p->M * p->K);
    p->v->transpose(at, p->M, p->a, p->K, p->M, p->K);
    FF_CHECK_CLOSE(at, p->at, p->M * p->K, 0, 0);
    ff_test_free(at);
    const int64_t ldd = round_up(p->M, 2); /* pairs of bf16: a pad column of zeros */
    char *dst = malloc((size_t)(p->K * ldd) * p->es), *src = operands(p, p->a, p->M * p->K);
    char *want = operands(p, p->at, p->M * p->K);
    memset(dst, 0, (size_t)(p->K * ldd) * p->es);
    p->v->transpose_operand(dst, ldd, src, p->K, p->M, p->K);
    for (int64_t k = 0; k < p->K; k++)
        CU_ASSERT_EQUAL(memcmp(dst + (size_t)(k * ldd) * p->es, want + (size_t)(k * p->M) * p->es, (size_t)p->M * p->es), 0);
    free(want);
    free(src);
    free(dst);
}

/* got = the operands of p->C as floats */
static void read_operands(problem *p)
{
    memset(p->got, 0, (size_t)(p->M * p->N) * sizeof *p->got);
    for (int64_t i = 0; i < p->M * p->N; i++)
        memcpy((char *)&p->got[i] + (4 - p->es), p->C + (size_t)i * p->es, p->es);
}

static void check_products(problem *p)
{
    const variant *v = p->v;
    const int64_t M = p->M, N = p->N, K = p->K, size = M * N;
    const double rounding = v->bf16 ? 1.0 / 256 : 0.0;
    v->mm(M, N, K, p->A, p->lda, p->Bp, p->got, N, MM_STORE, p->bias);
    for (int64_t i = 0; i < size; i++)
        p->want[i] = p->ab[i] + p->bias[i % N];
    FF_CHECK_CLOSE(p->got, p->want, size, 0, 0);
    v->mm(M, N, K, p->A, p->lda, p->Bp, p->got, N, MM_ADD, NULL);
    for (int64_t i = 0; i < size; i++)
        p->want[i] += p->ab[i];
    FF_CHECK_CLOSE(p->got, p->want, size, 0, 0);

    for (int relu = 0; relu < 2; relu++) {
        v->operand(M, N, K, p->A, p->lda, p->Bp, p->C, N, p->bias, relu);
        read_operands(p);
        for (int64_t i = 0; i < size; i++) {
            const float x = p->ab[i] + p->bias[i % N];
            p->want[i] = relu && x < 0 ? 0.0f : x;
        }
        FF_CHECK_CLOSE(p->got, p->want, size, rounding, 0);
    }
    char *c0 = operands(p, p->c0, size);
    memcpy(p->C, c0, (size_t)size * p->es);
    free(c0);
    v->operand_add(M, N, K, p->A, p->lda, p->Bp, p->C, N, 1);
    read_operands(p);
    for (int64_t i = 0; i < size; i++)
        p->want[i] = p->c0[i] + p->ab[i];
    FF_CHECK_CLOSE(p->got, p->want, size, rounding, 0);
    v->operand_add(M, N, K, p->A, p->lda, p->Bp, p->C, N, 0);
    read_operands(p);
    FF_CHECK_CLOSE(p->got, p->ab, size, rounding, 0);
}

/* out = residual + factor (A B + bias), any part absent, in place too */
static void check_updates(problem *p)
{
    const int64_t size = p->M * p->N;
    for (int parts = 0; parts < 8; parts++) {
        const mm_residual u = {.residual = parts & 1 ? p->got : NULL,
                               .ld_residual = p->N,
                               .bias = parts & 2 ? p->bias : NULL,
                               .factor = parts & 4 ? p->factor : NULL,
                               .ld_factor = p->N};
        memcpy(p->got, p->c0, (size_t)size * sizeof *p->got);
        for (int64_t i = 0; i < size; i++)
            p->want[i] = (parts & 1 ? p->c0[i] : 0.0f) +
                         (parts & 4 ? p->factor[i] : 1.0f) * (p->ab[i] + (parts & 2 ? p->bias[i % p->N] : 0.0f));
        p->v->update(p->M, p->N, p->K, p->A, p->lda, p->Bp, p->got, p->N, &u);
        FF_CHECK_CLOSE(p->got, p->want, size, 1e-6, 1e-5); /* the factor's product is not exact */
    }
}

static void check_weight_gradient(problem *p)
{
    const int64_t size = p->M * p->N;
    void *scratch = aligned_alloc(64, (size_t)round_up((int64_t)p->v->tn_scratch(p->M, p->N, p->K), 64));
    memcpy(p->got, p->c0, (size_t)size * sizeof *p->got);
    p->v->tn(p->M, p->N, p->K, p->at, p->M, p->b, p->N, p->got, p->N, scratch);
    for (int64_t i = 0; i < size; i++)
        p->want[i] = p->c0[i] + p->ab[i];
    FF_CHECK_CLOSE(p->got, p->want, size, 0, 0);
    free(scratch);
}

static void one_case(const variant *v, int64_t M, int64_t N, int64_t K)
{
    problem p;
    set_up_problem(&p, v, M, N, K);
    check_packing(&p);
    check_transposes(&p);
    check_products(&p);
    check_updates(&p);
    check_weight_gradient(&p);
    tear_down_problem(&p);
}

static void every_variant(const int64_t (*sizes)[3], int num_sizes)
{
    const ff_isa best = ff_isa_best();
    for (int i = 0; i < VARIANTS; i++)
        for (int s = 0; s < num_sizes && variants[i].isa <= best; s++)
            one_case(&variants[i], sizes[s][0], sizes[s][1], sizes[s][2]);
}

static void test_random_sizes_equal_plain_loops(void)
{
    const ff_random_key key = {11, 1};
    int64_t sizes[CASES][3];
    for (uint64_t t = 0; t < CASES; t++) {
        sizes[t][0] = (int64_t)ff_random_below(key, 3 * t, 40) + 1;
        sizes[t][1] = (int64_t)ff_random_below(key, 3 * t + 1, 80) + 1;
        sizes[t][2] = (int64_t)ff_random_below(key, 3 * t + 2, 100) + 1;
    }
    every_variant((const int64_t(*)[3])sizes, CASES);
}

/* one below, at and one above every tile of every variant: 16 and 32 rows, 32 columns, 32 values of k for AMX */
static void test_sizes_around_tiles_equal_plain_loops(void)
{
    static const int64_t m[] = {1, 15, 16, 17, 31, 32, 33, 47, 49, 67}, n[] = {1, 31, 32, 33, 65}, k[] = {1, 31, 32, 33, 95};
    enum { SIZES = 10 * 5 * 5 };
    int64_t sizes[SIZES][3];
    for (int i = 0; i < SIZES; i++) {
        sizes[i][0] = m[i / 25];
        sizes[i][1] = n[i / 5 % 5];
        sizes[i][2] = k[i % 5];
    }
    every_variant((const int64_t(*)[3])sizes, SIZES);
}

static CU_TestInfo tests[] = {
    {"random_sizes_equal_plain_loops", test_random_sizes_equal_plain_loops},
    {"sizes_around_tiles_equal_plain_loops", test_sizes_around_tiles_equal_plain_loops},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_mm = {"kernels/mm", NULL, NULL, NULL, NULL, tests};
