/* suite evoformer/parameters: names and shapes as published, binding, what is missing. */
#include "tests/evoformer_case.h"

static ff_ctx ctx;
static ff_parameters p;
static ff_evoformer w;

static void tear_down(void)
{
    ff_parameters_destroy(&p);
    ff_evoformer_destroy(&w);
}

static void start(void)
{
    tear_down();
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    ff_parameters_init(&p);
}

static int64_t declared_size(void)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p.count; i++)
        n += p.items[i].size;
    return n;
}

/* Arrays and parameters below alphafold_iteration/evoformer of the monomer presets, from the reference's own initialiser. */
static void test_presets_have_the_published_arrays(void)
{
    const struct {
        int model;
        int64_t arrays, parameters;
    } want[] = {{1, 277, 91108544}, {2, 277, 91108544}, {3, 206, 90779136}, {5, 206, 90779136}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        ff_evoformer_config config;
        start();
        CU_ASSERT_EQUAL_FATAL(ff_evoformer_config_preset(&ctx, &config, want[i].model), FF_OK);
        CU_ASSERT_EQUAL_FATAL(ff_evoformer_declare(&ctx, &p, "alphafold/alphafold_iteration/evoformer", &config), FF_OK);
        CU_ASSERT_EQUAL(p.count, want[i].arrays);
        CU_ASSERT_EQUAL(declared_size(), want[i].parameters);
    }
    const ff_parameter *a = ff_parameters_find(
        &p, "alphafold/alphafold_iteration/evoformer/evoformer_iteration/msa_row_attention_with_pair_bias/feat_2d_weights");
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    CU_ASSERT_EQUAL(a->ndim, 3);
    CU_ASSERT_TRUE(a->shape[0] == 48 && a->shape[1] == 128 && a->shape[2] == 8);
    ff_evoformer_config config;
    CU_ASSERT_EQUAL(ff_evoformer_config_preset(&ctx, &config, 6), FF_ERR_ARG);
}

static ff_evoformer_config small(void)
{
    ff_evoformer_config config;
    ff_evoformer_config_preset(&ctx, &config, 1);
    config.embedder = (ff_embedder_config){12, 8, 8, 4, {3.25, 20.75, 15}};
    config.evoformer = config.extra_msa = case_small_block();
    config.extra_msa.c_m = 8;
    config.extra_msa.is_extra_msa = true;
    config.evoformer_num_block = 2;
    config.extra_msa_num_block = 1;
    config.c_s = 9;
    config.templates.c_z = 8;
    config.templates.c_t = 8;
    config.templates.c_triangle = 5;
    config.templates.attention_key_dim = 8;
    return config;
}

static void test_every_array_is_bound_once_and_blocks_get_their_slice(void)
{
    start();
    const ff_evoformer_config config = small();
    CU_ASSERT_EQUAL_FATAL(ff_evoformer_declare(&ctx, &p, "e", &config), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &p, true), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_evoformer_bind(&ctx, &p, "e", &config, &w), FF_OK);
    for (int64_t i = 0; i < p.count; i++)
        CU_ASSERT_TRUE(p.items[i].bound);
    const ff_transition_layer *t = &w.evoformer[1].msa_transition;
    const ff_parameter *a = ff_parameters_find(&p, "e/evoformer_iteration/msa_transition/transition1/weights");
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    CU_ASSERT_PTR_EQUAL(t->value.weights1, p.values + a->offset + 12 * 36);
    CU_ASSERT_PTR_EQUAL(t->grad.weights1, p.grads + a->offset + 12 * 36);
    CU_ASSERT_TRUE(t->trained);
}

static void test_without_gradients_nothing_is_trained(void)
{
    start();
    const ff_evoformer_config config = small();
    CU_ASSERT_EQUAL_FATAL(ff_evoformer_declare(&ctx, &p, "", &config), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &p, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_evoformer_bind(&ctx, &p, "", &config, &w), FF_OK);
    CU_ASSERT_FALSE(w.evoformer[0].msa_transition.trained);
    CU_ASSERT_FALSE(w.templates.blocks[1].triangle_multiplication_incoming.trained);
}

static void test_a_missing_array_and_a_wrong_shape_are_named(void)
{
    start();
    ff_evoformer_config config = small();
    config.template_enabled = false;
    CU_ASSERT_EQUAL_FATAL(ff_evoformer_declare(&ctx, &p, "", &config), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &p, false), FF_OK);
    config.template_enabled = true;
    CU_ASSERT_EQUAL(ff_evoformer_bind(&ctx, &p, "", &config, &w), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "template_embedding/single_template_embedding/embedding2d/weights"));
    ff_evoformer_destroy(&w);
    ff_context_clear(&ctx);
    config.template_enabled = false;
    config.c_s = 10;
    CU_ASSERT_EQUAL(ff_evoformer_bind(&ctx, &p, "", &config, &w), FF_ERR_SHAPE);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "single_activations/weights"));
}

/* The fused projection of multimer v3: left and right are column halves. */
static void test_fused_projections_are_halves(void)
{
    start();
    ff_triangle_multiplication_layer layer = {.c_z = 4, .c_hidden = 3};
    ff_binder b = ff_binder_at(&ctx, &p, true, "m");
    CU_ASSERT_EQUAL_FATAL(ff_bind_triangle_multiplication(&b, "t", &layer, true), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &p, true), FF_OK);
    b.declare = false;
    CU_ASSERT_EQUAL_FATAL(ff_bind_triangle_multiplication(&b, "t", &layer, true), FF_OK);
    CU_ASSERT_EQUAL(layer.value.projection_stride, 6);
    CU_ASSERT_PTR_EQUAL(layer.value.right_gate_w, layer.value.left_gate_w + 3);
    CU_ASSERT_PTR_EQUAL(layer.grad.right_projection_b, layer.grad.left_projection_b + 3);
    CU_ASSERT_PTR_NOT_NULL(ff_parameters_find(&p, "m/t/left_norm_input/scale"));
}

static CU_TestInfo tests[] = {
    {"presets_have_the_published_arrays", test_presets_have_the_published_arrays},
    {"every_array_is_bound_once_and_blocks_get_their_slice", test_every_array_is_bound_once_and_blocks_get_their_slice},
    {"without_gradients_nothing_is_trained", test_without_gradients_nothing_is_trained},
    {"a_missing_array_and_a_wrong_shape_are_named", test_a_missing_array_and_a_wrong_shape_are_named},
    {"fused_projections_are_halves", test_fused_projections_are_halves},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_evoformer_parameters = {"evoformer/parameters", NULL, NULL, NULL, tear_down, tests};
