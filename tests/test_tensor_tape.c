/* suite tensor/tape: ownership, gradients, checkpointed regions, plan mode, on a small operation of the test's own. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "core/context.h"
#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"
#include "tests/check.h"

static ff_ctx ctx;

static int set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    if (ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32) != FF_OK)
        return 1;
    return ff_pool_create(&ctx, 0, false) != FF_OK;
}

static int tear_down(void)
{
    ff_tape_destroy(&ctx);
    ff_pool_destroy(&ctx);
    return 0;
}

/* out = x + s * x * x * u, u uniform by the context's counter: one residual module with a random number of its own */
typedef struct {
    float s;
    ff_random_key key;
} square_args;

static void square_backward(ff_ctx *c, ff_node *node)
{
    square_args a;
    memcpy(&a, node->args, sizeof a);
    ff_tensor *x = node->inputs[0];
    ff_tensor *grad = ff_grad_through_residual(c, x, node->outputs[0]);
    ff_plan_add(c, "square", true, 4.0 * (double)x->size, 0, 0, 0);
    if (ff_computing(c) && grad != NULL)
        for (int64_t i = 0; i < x->size; i++)
            ff_data(grad)[i] *= 1 + 2 * a.s * ff_random_uniform(a.key, (uint64_t)i) * ff_data(x)[i];
}

static ff_tensor *square(ff_ctx *c, float s, ff_tensor *x)
{
    square_args a = {s, {c->seed, ff_random_stream(c->step, c->op_index++)}};
    const bool recorded = ff_recording(c, &x, 1);
    ff_tensor *out = ff_update_target(c, x, recorded);
    ff_plan_add(c, "square", false, 2.0 * (double)(x == NULL ? 0 : x->size), 0, 0, 0);
    if (ff_computing(c) && out != NULL)
        for (int64_t i = 0; i < x->size; i++) {
            const float v = ff_data(x)[i];
            ff_data(out)[i] = v + a.s * v * v * ff_random_uniform(a.key, (uint64_t)i);
        }
    if (recorded && out != NULL)
        ff_tape_add(c, "square", square_backward, &x, 1, &out, 1, NULL, 0, &a, sizeof a);
    if (out != x)
        ff_tensor_release(x);
    return out;
}

static void two_squares(ff_ctx *c, const void *arg, ff_tensor **t)
{
    const float *s = arg;
    t[0] = square(c, s[0], t[0]);
    t[0] = square(c, s[1], t[0]);
}

static float input[7] = {1, -2, 3, 0.5f, -0.25f, 7, 0};

/* d sum(out) / d input over two regions of two squares each, checkpointed or not */
static void run(bool checkpointed, float *out, float *grad)
{
    const float s[2] = {0.1f, -0.2f};
    ctx.op_index = 0;
    ctx.seed = 5;
    CU_ASSERT_EQUAL(ff_tape_create(&ctx), FF_OK);
    ff_tensor *x = ff_tensor_view(&ctx, input, FF_SHAPE(7));
    x->requires_grad = true;
    ff_tensor *t[1] = {ff_tensor_retain(x)};
    for (int i = 0; i < 2; i++) {
        if (checkpointed)
            ff_checkpoint(&ctx, "region", two_squares, s, t, 1, NULL, 0);
        else
            two_squares(&ctx, s, t);
    }
    memcpy(out, ff_data(t[0]), sizeof input);
    const float ones[7] = {1, 1, 1, 1, 1, 1, 1};
    ff_tensor_set_grad(&ctx, t[0], ones);
    ff_tensor_release(t[0]);
    CU_ASSERT_EQUAL(ff_tape_backward(&ctx), FF_OK);
    memcpy(grad, ff_data(x->grad), sizeof input);
    ff_tensor_release(x);
    ff_tape_destroy(&ctx);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
}

static void test_checkpointed_regions_give_the_same_bits(void)
{
    float out[2][7], grad[2][7];
    run(false, out[0], grad[0]);
    run(true, out[1], grad[1]);
    CU_ASSERT_EQUAL(memcmp(out[0], out[1], sizeof input), 0);
    CU_ASSERT_EQUAL(memcmp(grad[0], grad[1], sizeof input), 0);
}

static void test_gradient_equals_finite_difference(void)
{
    float out[7], grad[7], up[7], down[7], unused[7], want[7];
    run(false, out, grad);
    for (int i = 0; i < 7; i++) {
        const float keep = input[i], h = 1e-2f;
        input[i] = keep + h;
        run(false, up, unused);
        input[i] = keep - h;
        run(false, down, unused);
        input[i] = keep;
        want[i] = (up[i] - down[i]) / (2 * h);
    }
    FF_CHECK_CLOSE(grad, want, 7, 2e-3, 2e-3); /* h^2 third derivatives of a degree 16 polynomial */
}

static void test_without_tape_the_update_is_in_place(void)
{
    ff_tensor *x = ff_tensor_zeros(&ctx, FF_SHAPE(3, 5));
    void *data = x->data;
    x = square(&ctx, 1.0f, x);
    CU_ASSERT_PTR_EQUAL(x->data, data);
    ff_tensor *held = ff_tensor_retain(x);
    ff_tensor *y = square(&ctx, 1.0f, x);
    CU_ASSERT_PTR_NOT_EQUAL(y->data, data); /* somebody else holds x */
    ff_tensor_release(held);
    ff_tensor_release(y);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
}

static void test_after_a_failure_operations_return_null(void)
{
    ff_tensor *x = ff_tensor_zeros(&ctx, FF_SHAPE(4));
    CU_ASSERT_FALSE(ff_check_shape(&ctx, x, "x", FF_SHAPE(5)));
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_SHAPE);
    CU_ASSERT_STRING_EQUAL(ctx.message, "x has shape [4], expected [5]");
    CU_ASSERT_PTR_NULL(ff_tensor_zeros(&ctx, FF_SHAPE(4)));
    x = square(&ctx, 1.0f, x);
    CU_ASSERT_PTR_NULL(x);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
}

static void test_pool_reuses_blocks_and_keeps_its_limit(void)
{
    ff_ctx c;
    ff_context_init(&c);
    c.log.file = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(&c, 1 << 20, false), FF_OK);
    void *a = ff_pool_alloc(&c, 1000);
    ff_pool_free(c.pool, a, 1000);
    void *b = ff_pool_alloc(&c, 1000);
    CU_ASSERT_PTR_EQUAL(a, b);
    CU_ASSERT_EQUAL(ff_pool_get_stats(c.pool).num_system, 1);
    CU_ASSERT_PTR_NULL(ff_pool_alloc(&c, 1 << 20));
    CU_ASSERT_EQUAL(c.status, FF_ERR_MEM);
    ff_pool_free(c.pool, b, 1000);
    ff_pool_destroy(&c);
}

/* Ever new sizes, two blocks at a time, small ones and large ones: what is held stays near what is used. */
static void test_pool_holds_little_more_than_was_in_use(void)
{
    static const size_t units[] = {64, 1 << 16};
    for (int large = 0; large < 2; large++) {
        ff_ctx c;
        ff_context_init(&c);
        CU_ASSERT_EQUAL_FATAL(ff_pool_create(&c, 0, false), FF_OK);
        for (size_t n = 100; n <= 200; n++) {
            const size_t first = n * units[large], second = (300 - n) * units[large];
            char *a = ff_pool_alloc(&c, first), *b = ff_pool_alloc(&c, second);
            CU_ASSERT_FATAL(a != NULL && b != NULL);
            memset(a, 1, first);
            memset(b, 2, second);
            CU_ASSERT(a[first - 1] == 1 && b[0] == 2);
            ff_pool_free(c.pool, a, first);
            ff_pool_free(c.pool, b, second);
            const ff_pool_stats s = ff_pool_get_stats(c.pool);
            CU_ASSERT(s.in_use == 0 && s.reserved <= s.peak / 4 * 5);
        }
        const uint64_t before = ff_pool_get_stats(c.pool).num_system;
        ff_pool_free(c.pool, ff_pool_alloc(&c, 200 * units[large]), 200 * units[large]);
        CU_ASSERT_EQUAL(ff_pool_get_stats(c.pool).num_system, before);
        ff_pool_destroy(&c);
    }
}

static void test_plan_mode_predicts_the_peak_without_computing(void)
{
    size_t peak[2];
    for (int dry = 0; dry < 2; dry++) {
        ff_ctx c;
        ff_context_init(&c);
        c.log.file = NULL;
        c.kernels = ctx.kernels;
        CU_ASSERT_EQUAL_FATAL(ff_pool_create(&c, 0, dry), FF_OK);
        CU_ASSERT_EQUAL(ff_plan_create(&c), FF_OK);
        CU_ASSERT_EQUAL(ff_tape_create(&c), FF_OK);
        const float s[2] = {0.1f, 0.1f};
        ff_tensor *t[1] = {ff_tensor_zeros(&c, FF_SHAPE(100, 7))};
        t[0]->requires_grad = true;
        ff_tensor *x = ff_tensor_retain(t[0]);
        ff_checkpoint(&c, "region", two_squares, s, t, 1, NULL, 0);
        void *scratch = ff_scratch_begin(&c, 12345);
        ff_scratch_end(&c, scratch);
        ff_tensor_grad(&c, t[0]);
        ff_tensor_release(t[0]);
        CU_ASSERT_EQUAL(ff_tape_backward(&c), FF_OK);
        ff_tensor_release(x);
        ff_tape_destroy(&c);
        peak[dry] = ff_pool_get_stats(c.pool).peak;
        CU_ASSERT_EQUAL(ff_pool_get_stats(c.pool).in_use, 0);
        /* two forward, two rerun, two backward */
        CU_ASSERT_EQUAL(ff_plan_count(c.plan), 6);
        CU_ASSERT_DOUBLE_EQUAL(ff_plan_total(&c).flop, 700 * (4 * 2 + 2 * 4), 0);
        ff_plan_destroy(&c);
        ff_pool_destroy(&c);
    }
    CU_ASSERT_EQUAL(peak[0], peak[1]);
}

static CU_TestInfo tests[] = {
    {"checkpointed_regions_give_the_same_bits", test_checkpointed_regions_give_the_same_bits},
    {"gradient_equals_finite_difference", test_gradient_equals_finite_difference},
    {"without_tape_the_update_is_in_place", test_without_tape_the_update_is_in_place},
    {"after_a_failure_operations_return_null", test_after_a_failure_operations_return_null},
    {"pool_holds_little_more_than_was_in_use", test_pool_holds_little_more_than_was_in_use},
    {"pool_reuses_blocks_and_keeps_its_limit", test_pool_reuses_blocks_and_keeps_its_limit},
    {"plan_mode_predicts_the_peak_without_computing", test_plan_mode_predicts_the_peak_without_computing},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_tensor_tape = {"tensor/tape", set_up, tear_down, NULL, NULL, tests};
