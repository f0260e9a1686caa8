/* suite evoformer/embedders: bins, relative positions, missing previous recycle, odd features. */
#include <math.h>

#include "tests/evoformer_case.h"

enum { S = 2, E = 3, R = 5, C_M = 6, C_Z = 4, C_E = 3 };

static ff_ctx ctx;
static ff_parameters p;
static ff_embedder w;

static void tear_down(void)
{
    ff_tape_destroy(&ctx);
    if (ctx.pool != NULL && ff_pool_get_stats(ctx.pool).in_use == 0)
        ff_pool_destroy(&ctx);
    ff_parameters_destroy(&p);
}

static void start(void)
{
    const ff_embedder_config config = {C_M, C_Z, C_E, 32, {3.25, 20.75, 15}};
    tear_down();
    CU_ASSERT_TRUE_FATAL(case_context(&ctx, 0, false));
    ff_parameters_init(&p);
    ff_binder b = ff_binder_at(&ctx, &p, true, "evoformer");
    CU_ASSERT_EQUAL_FATAL(ff_embedder_bind(&b, &config, &w), FF_OK);
    CU_ASSERT_TRUE_FATAL(case_fill_parameters(&ctx, &p));
    b.declare = false;
    CU_ASSERT_EQUAL_FATAL(ff_embedder_bind(&b, &config, &w), FF_OK);
}

/* Edges belong to no bin: both comparisons are strict. 20.75 = 3.25 + 14 * 1.25, the last bin is open. */
static void test_bins_have_strict_edges(void)
{
    const ff_dgram_config g = {3.25, 20.75, 15};
    const struct {
        double d;
        int64_t bin;
    } cases[] = {{0, -1}, {3.2, -1}, {3.25, -1}, {3.26, 0}, {4.49, 0}, {4.5, -1}, {4.51, 1}, {20.7, 13}, {20.75, -1}, {20.8, 14}, {9000, 14}, {10001, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_EQUAL(ff_dgram_bin(&g, cases[i].d * cases[i].d), cases[i].bin);
}

static void test_relative_positions_are_clipped(void)
{
    CU_ASSERT_EQUAL(ff_relpos_bin(32, 10, 10), 32);
    CU_ASSERT_EQUAL(ff_relpos_bin(32, 12, 10), 34);
    CU_ASSERT_EQUAL(ff_relpos_bin(32, 0, 500), 0);
    CU_ASSERT_EQUAL(ff_relpos_bin(32, 500, 0), 64);
    CU_ASSERT_EQUAL(ff_relpos_bin(32, INT32_MAX, INT32_MIN), 64); /* the difference needs 64 bits */
}

static void test_glycine_uses_ca(void)
{
    float positions[2 * FF_ATOM37 * 3] = {0};
    const int32_t aatype[2] = {7, 0};
    double beta[6];
    for (int a = 0; a < 2 * FF_ATOM37 * 3; a++)
        positions[a] = (float)a;
    ff_pseudo_beta(beta, positions, aatype, 2);
    CU_ASSERT_EQUAL(beta[0], 3);                    /* atom 1 */
    CU_ASSERT_EQUAL(beta[3], FF_ATOM37 * 3 + 3 * 3); /* atom 3 */
}

static const int32_t aatype[R] = {0, 7, 20, 3, 19}, residue_index[R] = {0, 1, 2, 40, 90};

/* No previous recycle is a previous recycle of zeros, gradients included. */
static void test_missing_previous_pass_is_zeros(void)
{
    float *out[2][3], *grads[2];
    for (int given = 0; given < 2; given++) {
        start();
        CU_ASSERT_EQUAL_FATAL(ff_tape_create(&ctx), FF_OK);
        ff_tensor *target = case_tensor(&ctx, FF_SHAPE(R, FF_TARGET_FEAT), 1, false, NULL);
        ff_tensor *feat = case_tensor(&ctx, FF_SHAPE(S, R, FF_MSA_FEAT), 2, false, NULL);
        ff_tensor *row = given ? ff_tensor_zeros(&ctx, FF_SHAPE(R, C_M)) : NULL;
        ff_tensor *prev = given ? ff_tensor_zeros(&ctx, FF_SHAPE(R, R, C_Z)) : NULL;
        float zeros[R * FF_ATOM37 * 3] = {0};
        target->requires_grad = true;
        ff_tensor *msa = ff_embed_msa(&ctx, &w, target, feat, row);
        ff_tensor *pair = ff_embed_pair(&ctx, &w, target, prev, given ? zeros : NULL, aatype, residue_index);
        CU_ASSERT_EQUAL_FATAL(ctx.status, FF_OK);
        out[given][0] = case_copy(ff_data(msa), msa->size);
        out[given][1] = case_copy(ff_data(pair), pair->size);
        case_normal(ff_data(ff_tensor_grad(&ctx, msa)), msa->size, 3, 1.0f);
        case_normal(ff_data(ff_tensor_grad(&ctx, pair)), pair->size, 4, 1.0f);
        CU_ASSERT_EQUAL(ff_tape_backward(&ctx), FF_OK);
        out[given][2] = case_copy(ff_data(target->grad), target->size);
        grads[given] = case_copy(p.grads, p.total);
        ff_tensor *all[] = {target, feat, row, prev, msa, pair};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            ff_tensor_release(all[i]);
    }
    FF_CHECK_CLOSE(out[0][0], out[1][0], S * R * C_M, 0.0, 0.0);
    FF_CHECK_CLOSE(out[0][1], out[1][1], R * R * C_Z, 0.0, 0.0);
    FF_CHECK_CLOSE(out[0][2], out[1][2], R * FF_TARGET_FEAT, 0.0, 0.0);
    FF_CHECK_CLOSE(grads[0], grads[1], p.total, 0.0, 0.0);
    for (int given = 0; given < 2; given++) {
        for (int i = 0; i < 3; i++)
            free(out[given][i]);
        free(grads[given]);
    }
}

/* A letter outside 0..22 has no class; its row is the deletion channels and the bias. */
static void test_unknown_extra_letters_have_no_class(void)
{
    const int32_t letters[E * R] = {-1, 23, 22, 0, 5};
    start();
    ff_tensor *has = ff_tensor_zeros(&ctx, FF_SHAPE(E, R)), *value = ff_tensor_zeros(&ctx, FF_SHAPE(E, R));
    ff_tensor *out = ff_embed_extra_msa(&ctx, &w, letters, has, value);
    CU_ASSERT_EQUAL_FATAL(ctx.status, FF_OK);
    const ff_linear_params *l = &w.extra_msa_activations.value;
    float want[C_E];
    FF_CHECK_CLOSE(ff_data(out), l->bias, C_E, 0.0, 0.0);
    FF_CHECK_CLOSE(ff_data(out) + C_E, l->bias, C_E, 0.0, 0.0);
    for (int c = 0; c < C_E; c++)
        want[c] = l->bias[c] + l->weights[22 * C_E + c];
    FF_CHECK_CLOSE(ff_data(out) + 2 * C_E, want, C_E, 1e-6, 1e-6); /* one addition, in another order */
    ff_tensor_release(has);
    ff_tensor_release(value);
    ff_tensor_release(out);
}

static void test_mask_2d_is_an_outer_product(void)
{
    start();
    ff_tensor *mask = case_tensor(&ctx, FF_SHAPE(R), 5, true, NULL);
    ff_data(mask)[1] = 0.0f;
    ff_tensor *both = ff_mask_2d(&ctx, mask);
    CU_ASSERT_EQUAL_FATAL(ctx.status, FF_OK);
    for (int i = 0; i < R; i++)
        for (int j = 0; j < R; j++)
            CU_ASSERT_EQUAL(ff_data(both)[i * R + j], ff_data(mask)[i] * ff_data(mask)[j]);
    ff_tensor_release(mask);
    ff_tensor_release(both);
}

static void test_wrong_shapes_are_refused(void)
{
    start();
    ff_tensor *target = case_tensor(&ctx, FF_SHAPE(R, FF_TARGET_FEAT), 1, false, NULL);
    ff_tensor *feat = case_tensor(&ctx, FF_SHAPE(S, R + 1, FF_MSA_FEAT), 2, false, NULL);
    CU_ASSERT_PTR_NULL(ff_embed_msa(&ctx, &w, target, feat, NULL));
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_SHAPE);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "msa_feat"));
    ff_tensor_release(target);
    ff_tensor_release(feat);
}

static CU_TestInfo tests[] = {
    {"bins_have_strict_edges", test_bins_have_strict_edges},
    {"relative_positions_are_clipped", test_relative_positions_are_clipped},
    {"glycine_uses_ca", test_glycine_uses_ca},
    {"missing_previous_pass_is_zeros", test_missing_previous_pass_is_zeros},
    {"unknown_extra_letters_have_no_class", test_unknown_extra_letters_have_no_class},
    {"mask_2d_is_an_outer_product", test_mask_2d_is_an_outer_product},
    {"wrong_shapes_are_refused", test_wrong_shapes_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_evoformer_embedders = {"evoformer/embedders", NULL, NULL, NULL, tear_down, tests};
