/* suite evoformer/block: blocks and stacks in their four ways of running, memory as planned, dropout, failures. Numbers
 * against AlphaFold's are golden_check's part. */
#include <math.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "tests/evoformer_case.h"

static stack_run runs[4];

static void tear_down(void)
{
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        stack_run_free(&runs[i]);
}

static stack_run small_run(int64_t num_block, int64_t num_seq, int64_t num_res)
{
    return (stack_run){.config = case_small_block(), .num_block = num_block, .num_seq = num_seq, .num_res = num_res, .tape = true};
}

/* Run `r` into runs[i]. */
static stack_run *go(int i, stack_run r)
{
    stack_run_free(&runs[i]);
    runs[i] = r;
    stack_run_go(&runs[i]);
    CU_ASSERT_EQUAL_FATAL(runs[i].status, FF_OK);
    return &runs[i];
}

static double largest(const float *x, int64_t n)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++)
        m = fabs((double)x[i]) > m ? fabs((double)x[i]) : m;
    return m;
}

/* The same kernels in another order of sums at most: 2e-5 of the largest entry (gradients pass through several blocks). */
static void check_same(const stack_run *a, const stack_run *b, double tolerance)
{
    FF_CHECK_CLOSE(a->msa, b->msa, a->msa_size, 0.0, tolerance * largest(b->msa, b->msa_size));
    FF_CHECK_CLOSE(a->pair, b->pair, a->pair_size, 0.0, tolerance * largest(b->pair, b->pair_size));
    if (a->grads == NULL || b->grads == NULL)
        return;
    FF_CHECK_CLOSE(a->grad_msa, b->grad_msa, a->msa_size, 0.0, tolerance * largest(b->grad_msa, b->msa_size));
    FF_CHECK_CLOSE(a->grad_pair, b->grad_pair, a->pair_size, 0.0, tolerance * largest(b->grad_pair, b->pair_size));
    FF_CHECK_CLOSE(a->grads, b->grads, a->num_grads, 0.0, tolerance * largest(b->grads, b->num_grads));
}

static bool differ(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return true;
    return false;
}

/* ---- dropout and the ways of running ---- */

static void dropout_masks_repeat(ff_block_config config)
{
    stack_run r = small_run(3, 5, 7);
    r.config = config;
    r.training = true;
    r.step = 4;
    const stack_run *plain = go(0, r);
    r.checkpoint = true;
    check_same(go(1, r), plain, 1e-6);
    r.keep_inputs = true;
    check_same(go(2, r), plain, 2e-5);
    r.checkpoint = false;
    check_same(go(3, r), plain, 2e-5);
}

static void test_dropout_masks_are_the_same_with_and_without_checkpointing(void) { dropout_masks_repeat(case_small_block()); }

static void test_the_same_in_the_multimer_order(void)
{
    ff_block_config config = case_small_block();
    config.outer_product_mean_first = true;
    config.fuse_projection_weights = true;
    dropout_masks_repeat(config);
}

static void test_the_same_in_the_extra_msa_stack(void)
{
    ff_block_config config = case_small_block();
    config.is_extra_msa = true;
    dropout_masks_repeat(config);
}

static void test_dropout_depends_on_the_step_and_is_off_in_inference(void)
{
    stack_run r = small_run(1, 4, 5);
    r.tape = false;
    const stack_run *without = go(0, r);
    r.training = true;
    const stack_run *with = go(1, r);
    r.step = 1;
    const stack_run *later = go(2, r);
    r.step = 0;
    const stack_run *again = go(3, r);
    CU_ASSERT_TRUE(differ(without->msa, with->msa, with->msa_size));
    CU_ASSERT_TRUE(differ(without->pair, with->pair, with->pair_size));
    CU_ASSERT_TRUE(differ(later->msa, with->msa, with->msa_size));
    CU_ASSERT_FALSE(differ(again->msa, with->msa, with->msa_size));
    CU_ASSERT_FALSE(differ(again->pair, with->pair, with->pair_size));
}

/* Row attention's multipliers are one row of [num_res, c_m], shared over sequences: 0 or 1 / 0.85, by global position. */
static void test_a_mask_is_a_function_of_the_global_position(void)
{
    enum { N = 40, C = 6, FIRST = 13 };
    ff_ctx ctx;
    CU_ASSERT_TRUE_FATAL(case_context(&ctx, 0, false));
    ctx.training = true;
    ff_tensor *whole = ff_module_dropout(&ctx, 0.15f, 0, N, C);
    CU_ASSERT_EQUAL(ctx.op_index, 1);
    ctx.op_index = 0;
    ff_tensor *part = ff_module_dropout(&ctx, 0.15f, FIRST, N - FIRST, C);
    CU_ASSERT_EQUAL(memcmp(ff_data(part), ff_data(whole) + FIRST * C, (size_t)(part->size) * sizeof(float)), 0);
    int kept = 0;
    for (int64_t i = 0; i < whole->size; i++) {
        const float m = ff_data(whole)[i];
        kept += m != 0.0f;
        CU_ASSERT_TRUE(m == 0.0f || fabsf(m - 1.0f / 0.85f) < 1e-6f);
    }
    CU_ASSERT_TRUE(kept > 170 && kept < 235); /* 204 expected of 240, standard deviation 5.5 */
    ctx.training = false;
    CU_ASSERT_PTR_NULL(ff_module_dropout(&ctx, 0.15f, 0, N, C));
    ff_tensor_release(whole);
    ff_tensor_release(part);
    ff_pool_destroy(&ctx);
}

static void test_inference_in_place_equals_training_forward(void)
{
    const int64_t sizes[][2] = {{1, 1}, {1, 5}, {2, 1}, {3, 2}, {7, 13}, {17, 11}, {4, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stack_run r = small_run(2, sizes[i][0], sizes[i][1]);
        const stack_run *with = go(0, r);
        r.keep_inputs = true;
        check_same(go(1, r), with, 2e-5);
        r.checkpoint = true;
        check_same(go(2, r), with, 2e-5);
        r.tape = false;
        check_same(go(3, r), with, 1e-6);
    }
}

/* Along a random direction, with dropout on: the masks of forward and backward are the same ones. float32 sums of 1e3
 * terms and curvature leave about 1e-2 at this step. */
static void test_gradient_agrees_with_a_difference_under_dropout(void)
{
    stack_run r = small_run(2, 4, 5);
    r.training = true;
    const stack_run *base = go(0, r);
    const int64_t n = base->msa_size + base->pair_size;
    float *up = ff_test_floats(n), *down = ff_test_floats(n), *cotangent = ff_test_floats(n);
    const float h = 2e-3f;
    double slope = 0, difference = 0, size = 0;
    case_normal(up, n, 77, h);
    case_normal(cotangent, base->msa_size, 900, 1.0f);
    case_normal(cotangent + base->msa_size, base->pair_size, 901, 1.0f);
    for (int64_t i = 0; i < n; i++) {
        const double g = i < base->msa_size ? base->grad_msa[i] : base->grad_pair[i - base->msa_size];
        slope += g * up[i];
        size += g * up[i] * g * up[i];
        down[i] = -up[i];
    }
    r.tape = false;
    r.shift = up;
    const stack_run *plus = go(1, r);
    r.shift = down;
    const stack_run *minus = go(2, r);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = i - base->msa_size;
        const double d = k < 0 ? (double)plus->msa[i] - minus->msa[i] : (double)plus->pair[k] - minus->pair[k];
        difference += 0.5 * d * cotangent[i];
    }
    CU_ASSERT_TRUE(fabs(slope - difference) < 2e-2 * sqrt(size));
    ff_test_free(up);
    ff_test_free(down);
    ff_test_free(cotangent);
}

/* Every residual module of the pair, on one input used by `uses` of them: d sum / d input is that of one, times uses. */
static ff_tensor *pair_module(ff_ctx *ctx, const ff_block *w, int which, ff_tensor *pair, ff_tensor *mask)
{
    switch (which) {
    case 0: return ff_triangle_multiplication_outgoing(ctx, &w->triangle_multiplication_outgoing, pair, mask, FF_RESIDUAL);
    case 1: return ff_triangle_multiplication_incoming(ctx, &w->triangle_multiplication_incoming, pair, mask, FF_RESIDUAL);
    case 2: return ff_triangle_attention_starting_node(ctx, &w->triangle_attention_starting_node, pair, mask, FF_RESIDUAL);
    case 3: return ff_triangle_attention_ending_node(ctx, &w->triangle_attention_ending_node, pair, mask, FF_RESIDUAL);
    default: return ff_transition(ctx, "pair_transition", &w->pair_transition, pair, FF_RESIDUAL, false);
    }
}

static void test_an_input_of_two_modules_gets_both_gradients(void)
{
    enum { R = 6, MODULES = 5, C_Z = 8, SIZE = R * R * C_Z };
    ff_ctx ctx;
    ff_parameters p;
    ff_block w;
    const ff_block_config config = case_small_block();
    ff_parameters_init(&p);
    CU_ASSERT_TRUE_FATAL(case_context(&ctx, 0, false));
    ff_binder b = ff_binder_at(&ctx, &p, true, "");
    CU_ASSERT_EQUAL_FATAL(ff_block_bind(&b, &config, &w), FF_OK);
    CU_ASSERT_TRUE_FATAL(case_fill_parameters(&ctx, &p));
    b.declare = false;
    CU_ASSERT_EQUAL_FATAL(ff_block_bind(&b, &config, &w), FF_OK);
    ff_tensor *mask = case_tensor(&ctx, FF_SHAPE(R, R), 4, true, NULL);
    for (int which = 0; which < MODULES; which++) {
        float grads[2][SIZE];
        for (int uses = 1; uses <= 2; uses++) {
            ff_tensor *pair = case_tensor(&ctx, FF_SHAPE(R, R, C_Z), 5, false, NULL), *out[2] = {NULL, NULL};
            pair->requires_grad = true;
            CU_ASSERT_EQUAL_FATAL(ff_tape_create(&ctx), FF_OK);
            for (int i = 0; i < uses; i++) {
                out[i] = pair_module(&ctx, &w, which, ff_tensor_retain(pair), mask);
                case_normal(ff_data(ff_tensor_grad(&ctx, out[i])), SIZE, 6, 1.0f);
            }
            CU_ASSERT_EQUAL(ff_tape_backward(&ctx), FF_OK);
            for (int64_t i = 0; i < SIZE; i++)
                grads[uses - 1][i] = ff_data(pair->grad)[i] * (uses == 1 ? 2.0f : 1.0f);
            ff_tape_destroy(&ctx);
            ff_tensor_release(out[0]);
            ff_tensor_release(out[1]);
            ff_tensor_release(pair);
        }
        FF_CHECK_CLOSE(grads[1], grads[0], SIZE, 0.0, 1e-5 * largest(grads[0], SIZE));
    }
    ff_tensor_release(mask);
    ff_pool_destroy(&ctx);
    ff_parameters_destroy(&p);
}

/* ---- memory ---- */

/* Scratch grows with the threads; the figures are for two. Returns what was set before. */
static int set_threads(int threads)
{
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
#else
    return threads;
#endif
}

static void test_plans_predict_measured_peaks(void)
{
    const int threads = set_threads(2);
    for (int i = 0; i < 5; i++) {
        stack_run r = small_run(i == 4 ? 8 : 1, 24, 40);
        r.config = case_published_block();
        r.config.c_m = 64; /* enough for activations to outweigh scratch in part, little enough to be quick */
        r.config.c_z = 32;
        r.config.c_triangle = 32;
        r.tape = i > 0;
        r.keep_inputs = i == 2;
        r.checkpoint = i >= 3;
        const double measured = (double)go(0, r)->peak;
        r.dry = true;
        const double predicted = (double)go(1, r)->peak;
        CU_ASSERT_TRUE(fabs(predicted - measured) <= 0.05 * measured);
    }
    set_threads(threads);
}

static double planned_peak(stack_run r, int64_t num_block)
{
    r.num_block = num_block;
    r.dry = true;
    return (double)go(0, r)->peak;
}

/* The budgets of the project's plan at (num_seq, num_res) = (128, 256), in units of the bytes of msa and pair. */
static void test_a_block_stays_in_its_memory(void)
{
    const int threads = set_threads(2);
    stack_run r = {.config = case_published_block(), .num_seq = 128, .num_res = 256};
    const double unit = 4.0 * (128.0 * 256 * 256 + 256.0 * 256 * 128);
    CU_ASSERT_TRUE(planned_peak(r, 1) <= 2.5 * unit);
    CU_ASSERT_TRUE(planned_peak(r, 3) <= 2.5 * unit);
    r.tape = true;
    r.training = true;
    const double one = planned_peak(r, 1);
    CU_ASSERT_TRUE(one <= 16 * unit);
    r.checkpoint = true;
    CU_ASSERT_TRUE(planned_peak(r, 8) <= one + 7 * unit); /* the inputs of seven more, and no block's outputs twice */
    r.checkpoint = false;
    r.keep_inputs = true;
    CU_ASSERT_TRUE(planned_peak(r, 1) <= 6 * unit);
    set_threads(threads);
}

/* ---- failures ---- */

static void test_running_out_of_memory_anywhere_releases_everything(void)
{
    stack_run r = small_run(2, 3, 4);
    const size_t peak = go(0, r)->peak;
    int failures = 0;
    for (size_t limit = 2048; limit < peak; limit += peak / 60) {
        r = small_run(2, 3, 4);
        r.training = true;
        r.limit = limit;
        r.checkpoint = limit % 2 == 1;
        r.keep_inputs = limit % 3 == 1;
        stack_run_go(&r); /* asserts that nothing stays in use */
        failures += r.status == FF_ERR_MEM;
        CU_ASSERT_TRUE(r.status == FF_ERR_MEM || r.status == FF_OK);
        stack_run_free(&r);
    }
    CU_ASSERT_TRUE(failures > 20);
}

static void test_wrong_shapes_and_sizes_are_refused(void)
{
    ff_ctx ctx;
    ff_parameters p;
    ff_block block;
    ff_block_config config = case_small_block();
    ff_parameters_init(&p);
    CU_ASSERT_TRUE_FATAL(case_context(&ctx, 0, false));
    ff_binder b = ff_binder_at(&ctx, &p, true, "");
    config.num_head_msa = 5;
    CU_ASSERT_EQUAL(ff_block_bind(&b, &config, &block), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "heads"));
    ff_context_clear(&ctx);
    config.num_head_msa = 4;
    CU_ASSERT_EQUAL(ff_block_bind(&b, &config, &block), FF_OK);
    CU_ASSERT_TRUE_FATAL(case_fill_parameters(&ctx, &p));
    b.declare = false;
    CU_ASSERT_EQUAL(ff_block_bind(&b, &config, &block), FF_OK);
    ff_tensor *msa = case_tensor(&ctx, FF_SHAPE(3, 4, 12), 1, false, NULL);
    ff_tensor *pair = case_tensor(&ctx, FF_SHAPE(4, 4, 8), 2, false, NULL);
    ff_tensor *msa_mask = case_tensor(&ctx, FF_SHAPE(3, 5), 3, true, NULL);
    ff_tensor *pair_mask = case_tensor(&ctx, FF_SHAPE(4, 4), 4, true, NULL);
    ff_block_forward(&ctx, &block, &msa, &pair, msa_mask, pair_mask);
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_SHAPE);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "[3, 5]"));
    CU_ASSERT_PTR_NULL(msa); /* consumed all the same */
    CU_ASSERT_PTR_NULL(pair);
    ff_tensor_release(msa_mask);
    ff_tensor_release(pair_mask);
    ff_pool_destroy(&ctx);
    ff_parameters_destroy(&p);
}

static CU_TestInfo tests[] = {
    {"dropout_masks_are_the_same_with_and_without_checkpointing",
     test_dropout_masks_are_the_same_with_and_without_checkpointing},
    {"the_same_in_the_multimer_order", test_the_same_in_the_multimer_order},
    {"the_same_in_the_extra_msa_stack", test_the_same_in_the_extra_msa_stack},
    {"dropout_depends_on_the_step_and_is_off_in_inference", test_dropout_depends_on_the_step_and_is_off_in_inference},
    {"a_mask_is_a_function_of_the_global_position", test_a_mask_is_a_function_of_the_global_position},
    {"inference_in_place_equals_training_forward", test_inference_in_place_equals_training_forward},
    {"gradient_agrees_with_a_difference_under_dropout", test_gradient_agrees_with_a_difference_under_dropout},
    {"an_input_of_two_modules_gets_both_gradients", test_an_input_of_two_modules_gets_both_gradients},
    {"plans_predict_measured_peaks", test_plans_predict_measured_peaks},
    {"a_block_stays_in_its_memory", test_a_block_stays_in_its_memory},
    {"running_out_of_memory_anywhere_releases_everything", test_running_out_of_memory_anywhere_releases_everything},
    {"wrong_shapes_and_sizes_are_refused", test_wrong_shapes_and_sizes_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_evoformer_block = {"evoformer/block", NULL, NULL, NULL, tear_down, tests};
