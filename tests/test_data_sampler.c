/* Draws of records: their rates, their orders, and what is refused. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <string.h>

#include "data/sampler.h"

static ff_ctx ctx;
static ff_sampler *sampler;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    sampler = NULL;
}

static void tear_down(void) { ff_sampler_destroy(sampler); }

static void test_rates_follow_the_weights(void)
{
    enum { DRAWS = 60000, RECORDS = 6 };
    static const double weights[RECORDS] = {1, 0, 3, 0.5, 10, 1e-9};
    int64_t counts[RECORDS] = {0};
    CU_ASSERT_EQUAL_FATAL(ff_sampler_create_weighted(&ctx, &sampler, weights, RECORDS, 5), FF_OK);
    for (int64_t k = 0; k < DRAWS; k++)
        counts[ff_sampler_record(sampler, k)]++;
    for (int i = 0; i < RECORDS; i++) { /* five standard errors */
        const double p = weights[i] / 14.5;
        CU_ASSERT(fabs((double)counts[i] / DRAWS - p) <= 5 * sqrt(p * (1 - p) / DRAWS) + 1e-6);
    }
    CU_ASSERT_EQUAL(counts[1], 0);
}

static void test_equal_weights_are_equal_rates(void)
{
    enum { DRAWS = 30000, RECORDS = 7 };
    int64_t counts[RECORDS] = {0};
    CU_ASSERT_EQUAL_FATAL(ff_sampler_create_weighted(&ctx, &sampler, NULL, RECORDS, 9), FF_OK);
    for (int64_t k = 0; k < DRAWS; k++)
        counts[ff_sampler_record(sampler, k)]++;
    for (int i = 0; i < RECORDS; i++)
        CU_ASSERT(fabs((double)counts[i] / DRAWS - 1.0 / RECORDS) <= 5 * sqrt(1.0 / RECORDS / DRAWS));
}

static void test_every_epoch_has_each_record_once_in_its_own_order(void)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 257};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k];
        int64_t same = 0;
        CU_ASSERT_EQUAL_FATAL(ff_sampler_create_shuffled(&ctx, &sampler, n, 3), FF_OK);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            bool seen[257] = {false};
            for (int64_t i = 0; i < n; i++) {
                const int64_t r = ff_sampler_record(sampler, epoch * n + i);
                CU_ASSERT_FATAL(r >= 0 && r < n && !seen[r]);
                seen[r] = true;
                same += epoch > 0 && r == ff_sampler_record(sampler, i);
            }
        }
        CU_ASSERT(n < 16 || same < n / 2);
        ff_sampler_destroy(sampler);
        sampler = NULL;
    }
}

static void test_first_places_of_an_epoch_are_uniform(void)
{
    enum { EPOCHS = 20000, RECORDS = 5 };
    int64_t counts[RECORDS] = {0};
    CU_ASSERT_EQUAL_FATAL(ff_sampler_create_shuffled(&ctx, &sampler, RECORDS, 11), FF_OK);
    for (int64_t e = 0; e < EPOCHS; e++)
        counts[ff_sampler_record(sampler, e * RECORDS)]++;
    for (int i = 0; i < RECORDS; i++)
        CU_ASSERT(fabs((double)counts[i] / EPOCHS - 0.2) <= 5 * sqrt(0.16 / EPOCHS));
}

static void test_wrong_weights_are_refused(void)
{
    const double negative[2] = {1, -1}, none[2] = {0, 0}, nan_weight[2] = {NAN, 1};
    CU_ASSERT_EQUAL(ff_sampler_create_weighted(&ctx, &sampler, negative, 2, 0), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "record 1 is -1"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_sampler_create_weighted(&ctx, &sampler, none, 2, 0), FF_ERR_ARG);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_sampler_create_weighted(&ctx, &sampler, nan_weight, 2, 0), FF_ERR_ARG);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_sampler_create_shuffled(&ctx, &sampler, 0, 0), FF_ERR_ARG);
    CU_ASSERT_PTR_NULL(sampler);
}

static CU_TestInfo tests[] = {
    {"rates_follow_the_weights", test_rates_follow_the_weights},
    {"equal_weights_are_equal_rates", test_equal_weights_are_equal_rates},
    {"every_epoch_has_each_record_once_in_its_own_order", test_every_epoch_has_each_record_once_in_its_own_order},
    {"first_places_of_an_epoch_are_uniform", test_first_places_of_an_epoch_are_uniform},
    {"wrong_weights_are_refused", test_wrong_weights_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_sampler = {"data/sampler", NULL, NULL, set_up, tear_down, tests};
