/* suite tensor/parameters: declaring, binding, and the messages for what does not fit. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "core/context.h"
#include "tensor/parameters.h"
#include "tests/check.h"

static ff_ctx ctx;

static int set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    return 0;
}

static void test_blocks_bind_to_slices_of_the_leading_axis(void)
{
    ff_parameters p;
    ff_parameters_init(&p);
    CU_ASSERT_EQUAL(ff_parameters_add(&ctx, &p, "stack/w", FF_SHAPE(3, 2, 5)), FF_OK);
    CU_ASSERT_EQUAL(ff_parameters_add(&ctx, &p, "b", FF_SHAPE(7)), FF_OK);
    CU_ASSERT_EQUAL(ff_parameters_allocate(&ctx, &p, true), FF_OK);
    float *value[2], *grad[2];
    CU_ASSERT_EQUAL(ff_parameters_bind(&ctx, &p, "stack", "w", 0, FF_SHAPE(2, 5), &value[0], &grad[0]), FF_OK);
    CU_ASSERT_EQUAL(ff_parameters_bind(&ctx, &p, "stack", "w", 2, FF_SHAPE(2, 5), &value[1], &grad[1]), FF_OK);
    CU_ASSERT_EQUAL(value[1] - value[0], 20);
    CU_ASSERT_EQUAL(grad[1] - grad[0], 20);
    CU_ASSERT_TRUE(ff_parameters_find(&p, "stack/w")->bound);
    CU_ASSERT_FALSE(ff_parameters_find(&p, "b")->bound);
    ff_parameters_destroy(&p);
}

static void test_what_does_not_fit_is_named(void)
{
    ff_parameters p;
    float *value, *grad;
    ff_parameters_init(&p);
    CU_ASSERT_EQUAL(ff_parameters_add(&ctx, &p, "a/w", FF_SHAPE(2, 5)), FF_OK);
    CU_ASSERT_EQUAL(ff_parameters_add(&ctx, &p, "a/w", FF_SHAPE(2, 6)), FF_ERR_SHAPE);
    CU_ASSERT_STRING_EQUAL(ctx.message, "parameter a/w has shape [2, 6], expected [2, 5]");
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_parameters_allocate(&ctx, &p, false), FF_OK);
    CU_ASSERT_EQUAL(ff_parameters_bind(&ctx, &p, "a", "v", -1, FF_SHAPE(2), &value, &grad), FF_ERR_FORMAT);
    CU_ASSERT_STRING_EQUAL(ctx.message, "parameter a/v is missing");
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_parameters_bind(&ctx, &p, "a", "w", -1, FF_SHAPE(5, 2), &value, &grad), FF_ERR_SHAPE);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_parameters_bind(&ctx, &p, "", "a/w", 2, FF_SHAPE(5), &value, &grad), FF_ERR_SHAPE);
    CU_ASSERT_STRING_EQUAL(ctx.message, "parameter a/w has 2 blocks, block 2 is needed");
    ff_context_clear(&ctx);
    ff_parameters_destroy(&p);
}

static CU_TestInfo tests[] = {
    {"blocks_bind_to_slices_of_the_leading_axis", test_blocks_bind_to_slices_of_the_leading_axis},
    {"what_does_not_fit_is_named", test_what_does_not_fit_is_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_tensor_parameters = {"tensor/parameters", set_up, NULL, NULL, NULL, tests};
