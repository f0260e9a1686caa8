/* test_core_random.c - Philox against the published vectors, and what the distributions promise. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>

#include "core/random.h"
#include "tests/check.h"

/* Known answers published with Random123 (kat_vectors, philox4x32 with 10 rounds). */
static void test_blocks_equal_the_published_vectors(void)
{
    static const struct {
        uint64_t seed, stream, counter;
        uint32_t want[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x0370734413198a2e),
         UINT64_C(0x85a308d3243f6a88),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t words[4];
        ff_random_block((ff_random_key){known[i].seed, known[i].stream}, known[i].counter, words);
        for (int w = 0; w < 4; w++)
            CU_ASSERT_EQUAL(words[w], known[i].want[w]);
    }
}

static void test_uniform_takes_one_word_an_element(void)
{
    const ff_random_key key = {7, 11};
    for (uint64_t i = 0; i < 64; i++) {
        uint32_t words[4];
        ff_random_block(key, i / 4, words);
        CU_ASSERT_EQUAL(ff_random_uniform(key, i), (float)(words[i % 4] >> 8) / 16777216.0f);
    }
}

/* 4096 bins of 2^20 draws: chi-squared has mean 4095 and standard deviation sqrt(2 * 4095) = 90.5; 6 of them. */
static void test_uniform_is_flat_and_below_one(void)
{
    enum { BINS = 4096, DRAWS = 1 << 20 };
    int64_t *count = calloc(BINS, sizeof *count);
    CU_ASSERT_PTR_NOT_NULL_FATAL(count);
    int64_t outside = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const float u = ff_random_uniform((ff_random_key){1, 2}, i);
        if (u >= 0.0f && u < 1.0f)
            count[(int)(u * BINS)]++;
        else
            outside++;
    }
    CU_ASSERT_EQUAL(outside, 0);
    double chi2 = 0;
    const double expected = (double)DRAWS / BINS;
    for (int b = 0; b < BINS; b++)
        chi2 += ((double)count[b] - expected) * ((double)count[b] - expected) / expected;
    CU_ASSERT_TRUE(fabs(chi2 - (BINS - 1)) < 6 * sqrt(2.0 * (BINS - 1)));
    free(count);
}

/* Of n normal draws the k-th moments have standard error sqrt((E x^2k - (E x^k)^2) / n); 5 of them are allowed. */
static void test_normal_has_the_moments_of_a_normal(void)
{
    enum { DRAWS = 1 << 20 };
    double sum[4] = {0}, neighbours = 0;
    float before = 0;
    int64_t not_finite = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const float x = ff_random_normal((ff_random_key){3, 4}, i);
        not_finite += !isfinite(x);
        double power = 1;
        for (int k = 0; k < 4; k++)
            sum[k] += power *= (double)x;
        neighbours += (double)x * (double)before;
        before = x;
    }
    const double n = DRAWS;
    CU_ASSERT_EQUAL(not_finite, 0);
    CU_ASSERT_TRUE(fabs(sum[0] / n) < 5 * sqrt(1 / n));
    CU_ASSERT_TRUE(fabs(sum[1] / n - 1) < 5 * sqrt(2 / n));
    CU_ASSERT_TRUE(fabs(sum[2] / n) < 5 * sqrt(15 / n));
    CU_ASSERT_TRUE(fabs(sum[3] / n - 3) < 5 * sqrt(96 / n));
    CU_ASSERT_TRUE(fabs(neighbours / n) < 5 * sqrt(1 / n)); /* elements of one block are independent */
}

static void test_below_is_below_and_flat(void)
{
    enum { N = 7, DRAWS = 70000 };
    const ff_random_key key = {5, 6};
    int64_t count[N] = {0}, outside = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const uint64_t x = ff_random_below(key, i, N);
        if (x < N)
            count[x]++;
        else
            outside++;
    }
    CU_ASSERT_EQUAL(outside, 0);
    const double expected = (double)DRAWS / N;
    for (int b = 0; b < N; b++)
        CU_ASSERT_TRUE(fabs((double)count[b] - expected) < 5 * sqrt(expected));
    for (uint64_t i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(ff_random_below(key, i, 1), 0);
}

/* The product of two 64-bit numbers is made from 32-bit halves: compare with the compiler's own 128-bit product. */
static void test_below_is_the_high_half_of_the_product(void)
{
    __extension__ typedef unsigned __int128 wide;
    static const uint64_t bounds[] = {2, 3, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(0x123456789abcdef1), UINT64_MAX};
    const ff_random_key key = {8, 9};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        for (uint64_t i = 0; i < 1000; i++) {
            uint32_t words[4];
            ff_random_block(key, i / 2, words);
            const uint64_t x = (uint64_t)words[2 * (i % 2) + 1] << 32 | words[2 * (i % 2)];
            CU_ASSERT_EQUAL(ff_random_below(key, i, bounds[b]), (uint64_t)((wide)x * bounds[b] >> 64));
        }
    }
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_different_pairs_give_different_streams(void)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 255, 256, 65535, (1 << 24) - 1, 1 << 24, (1 << 24) + 1,
                                       UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 40) - 1, UINT64_C(1) << 40,
                                       (UINT64_C(1) << 40) + 1, UINT64_C(1) << 63, UINT64_MAX - 1, UINT64_MAX};
    enum { N = sizeof numbers / sizeof *numbers };
    uint64_t streams[N * N];
    for (int step = 0; step < N; step++)
        for (int operation = 0; operation < N; operation++)
            streams[step * N + operation] = ff_random_stream(numbers[step], numbers[operation]);
    qsort(streams, N * N, sizeof *streams, compare_u64);
    for (int i = 1; i < N * N; i++)
        CU_ASSERT_NOT_EQUAL(streams[i - 1], streams[i]);
}

static void test_seed_stream_and_element_each_change_the_draw(void)
{
    const float u = ff_random_uniform((ff_random_key){1, 1}, 1);
    CU_ASSERT_EQUAL(u, ff_random_uniform((ff_random_key){1, 1}, 1));
    CU_ASSERT_NOT_EQUAL(u, ff_random_uniform((ff_random_key){2, 1}, 1));
    CU_ASSERT_NOT_EQUAL(u, ff_random_uniform((ff_random_key){1, 2}, 1));
    CU_ASSERT_NOT_EQUAL(u, ff_random_uniform((ff_random_key){1, 1}, 2));
    /* the upper halves of all three count as well */
    CU_ASSERT_NOT_EQUAL(u, ff_random_uniform((ff_random_key){1 | UINT64_C(1) << 32, 1}, 1));
    CU_ASSERT_NOT_EQUAL(u, ff_random_uniform((ff_random_key){1, 1 | UINT64_C(1) << 32}, 1));
    CU_ASSERT_NOT_EQUAL(u, ff_random_uniform((ff_random_key){1, 1}, 1 | UINT64_C(1) << 40));
}

static CU_TestInfo tests[] = {
    {"blocks_equal_the_published_vectors", test_blocks_equal_the_published_vectors},
    {"uniform_takes_one_word_an_element", test_uniform_takes_one_word_an_element},
    {"uniform_is_flat_and_below_one", test_uniform_is_flat_and_below_one},
    {"normal_has_the_moments_of_a_normal", test_normal_has_the_moments_of_a_normal},
    {"below_is_below_and_flat", test_below_is_below_and_flat},
    {"below_is_the_high_half_of_the_product", test_below_is_the_high_half_of_the_product},
    {"different_pairs_give_different_streams", test_different_pairs_give_different_streams},
    {"seed_stream_and_element_each_change_the_draw", test_seed_stream_and_element_each_change_the_draw},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_core_random = {"core/random", NULL, NULL, NULL, NULL, tests};
