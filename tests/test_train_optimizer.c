/* test_train_optimizer.c - learning rates, clipping, Adam and the average against sequences computed by hand. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/random.h"
#include "tests/check.h"
#include "train/optimizer.h"

static ff_ctx ctx;
static ff_optimizer o;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    memset(&o, 0, sizeof o);
}

static void tear_down(void) { ff_optimizer_destroy(&o); }

/* No warm-up, no decay, no clipping. */
static ff_optimizer_config plain(void)
{
    ff_optimizer_config c = ff_optimizer_alphafold(false);
    c.warmup_steps = c.decay_start = 0;
    c.clip_norm = 0;
    return c;
}

static void test_the_defaults_are_those_of_the_paper(void)
{
    const ff_optimizer_config c = ff_optimizer_alphafold(false), f = ff_optimizer_alphafold(true);
    CU_ASSERT_EQUAL(c.learning_rate, 1e-3);
    CU_ASSERT_EQUAL(c.beta1, 0.9);
    CU_ASSERT_EQUAL(c.beta2, 0.999);
    CU_ASSERT_EQUAL(c.epsilon, 1e-6);
    CU_ASSERT_EQUAL(c.clip_norm, 0.1);
    CU_ASSERT_EQUAL(c.ema_decay, 0.999);
    CU_ASSERT_EQUAL(f.learning_rate, 5e-4);
    CU_ASSERT_EQUAL(ff_learning_rate(&f, 1), 5e-4);
    CU_ASSERT_EQUAL(ff_learning_rate(&f, 1000000), 5e-4);
    CU_ASSERT_EQUAL(ff_optimizer_check_config(&ctx, &c), FF_OK);
    CU_ASSERT_EQUAL(ff_optimizer_check_config(&ctx, &f), FF_OK);
}

static void test_the_rate_rises_linearly_over_the_warmup(void)
{
    ff_optimizer_config c = ff_optimizer_alphafold(false);
    CU_ASSERT_DOUBLE_EQUAL(ff_learning_rate(&c, 1), 1e-6, 1e-18);
    CU_ASSERT_DOUBLE_EQUAL(ff_learning_rate(&c, 250), 2.5e-4, 1e-18);
    CU_ASSERT_EQUAL(ff_learning_rate(&c, 1000), 1e-3);
    CU_ASSERT_EQUAL(ff_learning_rate(&c, 1001), 1e-3);
    c.warmup_steps = 4;
    c.learning_rate = 0.8;
    const double want[] = {0.2, 0.4, 0.6, 0.8, 0.8};
    for (int s = 1; s <= 5; s++)
        CU_ASSERT_DOUBLE_EQUAL(ff_learning_rate(&c, s), want[s - 1], 1e-15);
}

static void test_the_rate_decays_after_a_step_once_or_again_and_again(void)
{
    ff_optimizer_config c = ff_optimizer_alphafold(false);
    CU_ASSERT_EQUAL(ff_learning_rate(&c, 50000), 1e-3);
    CU_ASSERT_DOUBLE_EQUAL(ff_learning_rate(&c, 50001), 0.95e-3, 1e-18);
    CU_ASSERT_DOUBLE_EQUAL(ff_learning_rate(&c, 5000000), 0.95e-3, 1e-18);
    c.warmup_steps = 0;
    c.learning_rate = 1;
    c.decay_start = 2;
    c.decay_every = 3;
    c.decay_factor = 0.5;
    const double want[] = {1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
    for (int s = 1; s <= 9; s++)
        CU_ASSERT_DOUBLE_EQUAL(ff_learning_rate(&c, s), want[s - 1], 1e-15);
}

/* By hand, rate 0.1, betas 0.9 and 0.999, epsilon 1e-6, start 1, gradients 2, -1, 0.
 *   step 1  m 0.2    v 0.004       m^ 2          v^ 4          value 1 - 0.1 * 2 / (2 + 1e-6) = 0.90000005
 *   step 2  m 0.08   v 0.004996    m^ 0.4210526  v^ 2.4992496  value 0.90000005 - 0.1 * 0.4210526 / 1.5809027
 *   step 3  m 0.072  v 0.004991004 m^ 0.2656827  v^ 1.6653328  value ... - 0.1 * 0.2656827 / 1.2904798 */
static void test_adam_equals_a_sequence_by_hand(void)
{
    const double grads[] = {2, -1, 0}, want[] = {0.90000005, 0.87336637, 0.85277852};
    ff_optimizer_config c = plain();
    float value = 1;
    c.learning_rate = 0.1;
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, &value, 1), FF_OK);
    for (int s = 0; s < 3; s++) {
        float grad = (float)grads[s];
        const ff_step_report r = ff_optimizer_step(&o, &value, &grad, 1, true);
        CU_ASSERT(r.applied);
        CU_ASSERT_DOUBLE_EQUAL(r.gradient_norm, fabs(grads[s]), 1e-12);
        CU_ASSERT_EQUAL(r.learning_rate, 0.1);
        CU_ASSERT_DOUBLE_EQUAL(value, want[s], 2e-7);
        CU_ASSERT_EQUAL(grad, 0);
    }
    CU_ASSERT_EQUAL(o.step, 3);
    CU_ASSERT_DOUBLE_EQUAL(o.first[0], 0.072, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(o.second[0], 0.004991004, 1e-9);
}

/* Decay 0.75 and values that move 8, 4, 4 (set by hand between steps of rate 0):
 *   0.75 * 0 + 0.25 * 8 = 2;  0.75 * 2 + 0.25 * 4 = 2.5;  0.75 * 2.5 + 0.25 * 4 = 2.875 */
static void test_the_average_equals_a_sequence_by_hand(void)
{
    const float moves[] = {8, 4, 4}, want[] = {2, 2.5f, 2.875f};
    ff_optimizer_config c = plain();
    float value = 0, grad = 0;
    c.learning_rate = 0;
    c.ema_decay = 0.75;
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, &value, 1), FF_OK);
    CU_ASSERT_EQUAL(o.ema[0], 0);
    for (int s = 0; s < 3; s++) {
        value = moves[s];
        ff_optimizer_step(&o, &value, &grad, 1, true);
        CU_ASSERT_EQUAL(value, moves[s]);
        CU_ASSERT_EQUAL(o.ema[0], want[s]);
    }
}

static void test_the_average_starts_at_the_values(void)
{
    const float values[3] = {1, -2, 3};
    const ff_optimizer_config c = plain();
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, values, 3), FF_OK);
    FF_CHECK_CLOSE(o.ema, values, 3, 0, 0);
}

/* Norms 5 and 0.05: the first is scaled by 0.02, the second is left. */
static void test_samples_are_clipped_one_by_one(void)
{
    float sum[2] = {0}, large[2] = {3, -4}, small[2] = {0.03f, 0.04f};
    const float after_first[2] = {0.06f, -0.08f}, after_second[2] = {0.09f, -0.04f}, zero[2] = {0};
    double norm;
    CU_ASSERT(ff_gradient_accumulate(sum, large, 2, 0.1, &norm));
    CU_ASSERT_DOUBLE_EQUAL(norm, 5, 1e-12);
    FF_CHECK_CLOSE(sum, after_first, 2, 1e-6, 0);
    CU_ASSERT(ff_gradient_accumulate(sum, small, 2, 0.1, &norm));
    CU_ASSERT_DOUBLE_EQUAL(norm, 0.05, 1e-8);
    FF_CHECK_CLOSE(sum, after_second, 2, 1e-6, 0);
    FF_CHECK_CLOSE(large, zero, 2, 0, 0);
    FF_CHECK_CLOSE(small, zero, 2, 0, 0);
    float whole[2] = {3, -4}, unclipped[2] = {0};
    CU_ASSERT(ff_gradient_accumulate(unclipped, whole, 2, 0, NULL));
    CU_ASSERT_EQUAL(unclipped[1], -4);
}

/* The first moment after a step from zero is 0.1 g. */
static void test_the_batch_gradient_is_clipped_by_its_norm_when_asked(void)
{
    ff_optimizer_config c = plain();
    float values[2] = {0};
    const float clipped[2] = {0.1f * 0.06f, -0.1f * 0.08f}, whole[2] = {0.1f * 1.5f, -0.1f * 2};
    c.clip_norm = 0.1;
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, values, 2), FF_OK);
    float grads[2] = {3, -4};
    CU_ASSERT_DOUBLE_EQUAL(ff_optimizer_step(&o, values, grads, 0.5, true).gradient_norm, 2.5, 1e-12);
    FF_CHECK_CLOSE(o.first, clipped, 2, 1e-6, 0);
    ff_optimizer_destroy(&o);
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, values, 2), FF_OK);
    float again[2] = {3, -4};
    ff_optimizer_step(&o, values, again, 0.5, false);
    FF_CHECK_CLOSE(o.first, whole, 2, 1e-6, 0);
}

static void test_nan_and_infinity_change_nothing(void)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const ff_optimizer_config c = ff_optimizer_alphafold(false);
    for (int k = 0; k < 3; k++) {
        float values[3] = {1, 2, 3}, grads[3] = {0.5f, bad[k], 1}, sample[3] = {1, 1, bad[k]}, sum[3] = {7, 8, 9};
        const float values_before[3] = {1, 2, 3}, sum_before[3] = {7, 8, 9}, zero[3] = {0};
        CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, values, 3), FF_OK);
        const ff_step_report r = ff_optimizer_step(&o, values, grads, 1, true);
        CU_ASSERT(!r.applied);
        CU_ASSERT(!isfinite(r.gradient_norm));
        CU_ASSERT_EQUAL(o.step, 0);
        FF_CHECK_CLOSE(values, values_before, 3, 0, 0);
        FF_CHECK_CLOSE(o.first, zero, 3, 0, 0);
        FF_CHECK_CLOSE(grads, zero, 3, 0, 0);
        CU_ASSERT(!ff_gradient_accumulate(sum, sample, 3, 0.1, NULL));
        FF_CHECK_CLOSE(sum, sum_before, 3, 0, 0);
        FF_CHECK_CLOSE(sample, zero, 3, 0, 0);
        ff_optimizer_destroy(&o);
    }
}

static void test_the_largest_floats_have_a_finite_norm(void)
{
    float grads[2] = {3e38f, -3e38f};
    CU_ASSERT_DOUBLE_EQUAL(ff_gradient_norm(grads, 2) / (3e38 * sqrt(2)), 1, 1e-6);
    CU_ASSERT_EQUAL(ff_gradient_norm(grads, 0), 0);
}

/* Steps of a block with a length no vector divides, in double, one number at a time. */
static void test_a_block_equals_one_number_at_a_time(void)
{
    enum { SIZE = 10007, STEPS = 5 };
    const ff_optimizer_config c = {.learning_rate = 0.01,
                                   .beta1 = 0.8,
                                   .beta2 = 0.95,
                                   .epsilon = 1e-6,
                                   .warmup_steps = 3,
                                   .clip_norm = 0.5,
                                   .ema_decay = 0.9};
    const ff_random_key key = {3, 4};
    float *values = ff_test_floats(SIZE), *grads = ff_test_floats(SIZE), *want = ff_test_floats(SIZE);
    float *want_ema = ff_test_floats(SIZE);
    double *state = calloc(4 * SIZE, sizeof *state), *m = state, *v = state + SIZE, *p = state + 2 * SIZE;
    double *ema = state + 3 * SIZE;
    for (int i = 0; i < SIZE; i++)
        ema[i] = p[i] = values[i] = ff_random_normal(key, (uint64_t)i);
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, values, SIZE), FF_OK);
    for (int s = 1; s <= STEPS; s++) {
        double norm = 0;
        for (int i = 0; i < SIZE; i++) {
            grads[i] = ff_random_normal(key, (uint64_t)(s * SIZE + i));
            norm += (double)grads[i] * grads[i];
        }
        const double factor = 0.5 / sqrt(norm), rate = 0.01 * (s < 3 ? s / 3.0 : 1);
        for (int i = 0; i < SIZE; i++) {
            const double g = factor * grads[i];
            m[i] = 0.8 * m[i] + 0.2 * g;
            v[i] = 0.95 * v[i] + 0.05 * g * g;
            p[i] -= rate * m[i] / (1 - pow(0.8, s)) / (sqrt(v[i] / (1 - pow(0.95, s))) + 1e-6);
            ema[i] = 0.9 * ema[i] + 0.1 * p[i];
        }
        CU_ASSERT(ff_optimizer_step(&o, values, grads, 1, true).applied);
    }
    for (int i = 0; i < SIZE; i++) {
        want[i] = (float)p[i];
        want_ema[i] = (float)ema[i];
    }
    FF_CHECK_CLOSE(values, want, SIZE, 1e-6, 1e-6); /* some roundings each step */
    FF_CHECK_CLOSE(o.ema, want_ema, SIZE, 1e-6, 1e-6);
    free(state);
    ff_test_free(values);
    ff_test_free(grads);
    ff_test_free(want);
    ff_test_free(want_ema);
}

/* Values after three steps with `threads` threads. */
static void run_steps(float *values, float *grads, int64_t n, int threads)
{
    const ff_optimizer_config c = ff_optimizer_alphafold(false);
    const ff_random_key key = {5, 6};
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
#endif
    for (int64_t i = 0; i < n; i++)
        values[i] = ff_random_normal(key, (uint64_t)i);
    CU_ASSERT_EQUAL_FATAL(ff_optimizer_create(&ctx, &o, &c, values, n), FF_OK);
    for (int s = 1; s <= 3; s++) {
        for (int64_t i = 0; i < n; i++)
            grads[i] = ff_random_normal(key, (uint64_t)(s * n + i));
        ff_optimizer_step(&o, values, grads, 1, true);
    }
    ff_optimizer_destroy(&o);
#ifdef _OPENMP
    omp_set_num_threads(before);
#endif
    (void)threads;
}

static void test_threads_do_not_change_a_bit(void)
{
    enum { SIZE = 50021 };
    float *one = ff_test_floats(SIZE), *three = ff_test_floats(SIZE), *grads = ff_test_floats(SIZE);
    run_steps(one, grads, SIZE, 1);
    run_steps(three, grads, SIZE, 3);
    CU_ASSERT_EQUAL(memcmp(one, three, SIZE * sizeof *one), 0);
    ff_test_free(one);
    ff_test_free(three);
    ff_test_free(grads);
}

static void test_wrong_settings_are_named(void)
{
    ff_optimizer_config c = plain();
    const float value = 0;
    c.beta2 = 1;
    CU_ASSERT_EQUAL(ff_optimizer_create(&ctx, &o, &c, &value, 1), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "optimiser: beta2 is 1, wanted 0 <= beta2 < 1");
    CU_ASSERT_PTR_NULL(o.first);
    ff_context_clear(&ctx);
    c = plain();
    c.learning_rate = NAN;
    CU_ASSERT_EQUAL(ff_optimizer_check_config(&ctx, &c), FF_ERR_ARG);
    ff_context_clear(&ctx);
    c = plain();
    CU_ASSERT_EQUAL(ff_optimizer_create(&ctx, &o, &c, &value, 0), FF_ERR_ARG);
}

static CU_TestInfo tests[] = {
    {"the_defaults_are_those_of_the_paper", test_the_defaults_are_those_of_the_paper},
    {"the_rate_rises_linearly_over_the_warmup", test_the_rate_rises_linearly_over_the_warmup},
    {"the_rate_decays_after_a_step_once_or_again_and_again",
     test_the_rate_decays_after_a_step_once_or_again_and_again},
    {"adam_equals_a_sequence_by_hand", test_adam_equals_a_sequence_by_hand},
    {"the_average_equals_a_sequence_by_hand", test_the_average_equals_a_sequence_by_hand},
    {"the_average_starts_at_the_values", test_the_average_starts_at_the_values},
    {"samples_are_clipped_one_by_one", test_samples_are_clipped_one_by_one},
    {"the_batch_gradient_is_clipped_by_its_norm_when_asked",
     test_the_batch_gradient_is_clipped_by_its_norm_when_asked},
    {"nan_and_infinity_change_nothing", test_nan_and_infinity_change_nothing},
    {"the_largest_floats_have_a_finite_norm", test_the_largest_floats_have_a_finite_norm},
    {"a_block_equals_one_number_at_a_time", test_a_block_equals_one_number_at_a_time},
    {"threads_do_not_change_a_bit", test_threads_do_not_change_a_bit},
    {"wrong_settings_are_named", test_wrong_settings_are_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_train_optimizer = {"train/optimizer", NULL, NULL, set_up, tear_down, tests};
