/* suite evoformer/template: torsion geometry by hand, masks, residual mode, limits. */
#include <math.h>

#include "tests/evoformer_case.h"

enum { R = 4, T = 2 };

static ff_ctx ctx;
static ff_parameters p;
static ff_template_embedder w;
static float positions[T][R * FF_ATOM37 * 3], atom_masks[T][R * FF_ATOM37], beta[T][R * 3], beta_mask[T][R];
static int32_t types[T][R];
static ff_template templates[T];

static void tear_down(void)
{
    ff_tape_destroy(&ctx);
    if (ctx.pool != NULL && ff_pool_get_stats(ctx.pool).in_use == 0)
        ff_pool_destroy(&ctx);
    ff_parameters_destroy(&p);
    ff_template_destroy(&w);
}

static const ff_template_config config = {.c_z = 6,
                                          .c_t = 8,
                                          .num_block = 2,
                                          .num_head = 2,
                                          .c_triangle = 5,
                                          .transition_factor = 2,
                                          .dropout = 0.25f,
                                          .attention_num_head = 2,
                                          .attention_key_dim = 4,
                                          .dgram = {3.25, 50.75, 39}};

static void start(void)
{
    ff_template_embedder declared;
    tear_down();
    CU_ASSERT_TRUE_FATAL(case_context(&ctx, 0, false));
    ff_parameters_init(&p);
    ff_binder b = ff_binder_at(&ctx, &p, true, "template_embedding");
    CU_ASSERT_EQUAL_FATAL(ff_template_bind(&b, &config, &declared), FF_OK);
    ff_template_destroy(&declared);
    CU_ASSERT_TRUE_FATAL(case_fill_parameters(&ctx, &p));
    b.declare = false;
    CU_ASSERT_EQUAL_FATAL(ff_template_bind(&b, &config, &w), FF_OK);
    for (int t = 0; t < T; t++) {
        case_normal(positions[t], R * FF_ATOM37 * 3, (uint64_t)t, 8.0f);
        case_normal(beta[t], R * 3, 10 + (uint64_t)t, 8.0f);
        for (int i = 0; i < R * FF_ATOM37; i++)
            atom_masks[t][i] = 1.0f;
        for (int i = 0; i < R; i++) {
            beta_mask[t][i] = 1.0f;
            types[t][i] = (5 * i + t) % 20;
        }
        templates[t] = (ff_template){R, types[t], positions[t], atom_masks[t], beta[t], beta_mask[t], false};
    }
}

static void put(float *at, int atom, float x, float y, float z)
{
    at[atom * 3] = x;
    at[atom * 3 + 1] = y;
    at[atom * 3 + 2] = z;
}

/* Serine, N CA CB OG: seen along CA-CB, OG is a quarter turn from N, so chi1 has sin +-1, cos 0. */
static void test_a_quarter_turn(void)
{
    float atoms[FF_ATOM37 * 3] = {0}, mask[FF_ATOM37] = {0}, features[FF_TEMPLATE_TORSION_FEAT];
    const int32_t serine = 15;
    put(atoms, 1, 0, 0, 0); /* CA */
    put(atoms, 0, 0, 1, 0); /* N */
    put(atoms, 3, 1, 0, 0); /* CB */
    put(atoms, 8, 1, 0, 1); /* OG */
    mask[0] = mask[1] = mask[3] = mask[8] = 1.0f;
    const ff_template t = {1, &serine, atoms, mask, NULL, NULL, false};
    ff_template_torsion_features(features, NULL, &t);
    const float *angles = features + FF_TEMPLATE_AATYPE, *masks = features + FF_TEMPLATE_TORSION_FEAT - FF_TORSIONS;
    CU_ASSERT_EQUAL(features[serine], 1.0f);
    CU_ASSERT_TRUE(fabsf(angles[6] - 1.0f) < 1e-6f); /* (sin, cos) of chi1 */
    CU_ASSERT_TRUE(fabsf(angles[7]) < 1e-6f);
    CU_ASSERT_EQUAL(angles[14 + 6], angles[6]); /* serine's chi1 has no other form */
    for (int k = 0; k < FF_TORSIONS; k++)
        CU_ASSERT_EQUAL(masks[k], k == 3 ? 1.0f : 0.0f);
}

static void test_symmetric_chi_have_a_negated_alternative(void)
{
    start();
    const int32_t all[R] = {3, 6, 13, 18}; /* ASP chi2, GLU chi3, PHE chi2, TYR chi2 */
    const int symmetric[R] = {4, 5, 4, 4};
    float features[R * FF_TEMPLATE_TORSION_FEAT];
    memcpy(types[0], all, sizeof all);
    ff_template_torsion_features(features, NULL, &templates[0]);
    for (int i = 0; i < R; i++)
        for (int k = 0; k < FF_TORSIONS; k++) {
            const float *a = features + i * FF_TEMPLATE_TORSION_FEAT + FF_TEMPLATE_AATYPE + 2 * k;
            CU_ASSERT_EQUAL(a[14], k == symmetric[i] ? -a[0] : a[0]);
            CU_ASSERT_EQUAL(a[15], k == symmetric[i] ? -a[1] : a[1]);
        }
}

/* Residue 0 has no residue before it: pre_omega's atoms lie on a line through the origin. A gap has nothing at all. */
static void test_undefined_torsions_are_zero_and_marked(void)
{
    start();
    float features[R * FF_TEMPLATE_TORSION_FEAT], well[R * FF_TORSIONS];
    types[0][2] = 21;
    memset(positions[0] + 2 * FF_ATOM37 * 3, 0, FF_ATOM37 * 3 * sizeof(float));
    memset(atom_masks[0] + 2 * FF_ATOM37, 0, FF_ATOM37 * sizeof(float));
    ff_template_torsion_features(features, well, &templates[0]);
    CU_ASSERT_EQUAL(well[0], 0.0f);
    CU_ASSERT_EQUAL(well[1], 1.0f);
    CU_ASSERT_TRUE(fabsf(features[FF_TEMPLATE_AATYPE]) < 1e-6f);
    const float *gap = features + 2 * FF_TEMPLATE_TORSION_FEAT;
    CU_ASSERT_EQUAL(gap[21], 1.0f);
    for (int i = FF_TEMPLATE_AATYPE + 4; i < FF_TEMPLATE_TORSION_FEAT; i++) /* from psi on; earlier ones see residue 1 */
        CU_ASSERT_EQUAL(gap[i], 0.0f);
    for (int i = 0; i < R * FF_TEMPLATE_TORSION_FEAT; i++)
        CU_ASSERT_TRUE(isfinite(features[i]));
}

static void test_pair_features_are_masked_and_unit_vectors_are_short(void)
{
    start();
    const int64_t channels = ff_template_pair_channels(&config.dgram);
    float features[R * R * 88];
    CU_ASSERT_EQUAL_FATAL(channels, 88);
    atom_masks[0][1 * FF_ATOM37 + 2] = 0.0f; /* residue 1 has no C */
    ff_template_pair_features(features, &templates[0], &config.dgram, true, 0, R);
    for (int i = 0; i < R; i++)
        for (int j = 0; j < R; j++) {
            const float *f = features + (i * R + j) * 88;
            const float length = sqrtf(f[84] * f[84] + f[85] * f[85] + f[86] * f[86]);
            float sum = 0;
            for (int c = 0; c < 88; c++)
                sum += fabsf(f[c]);
            CU_ASSERT_EQUAL(sum == 0.0f, i == 1 || j == 1);
            CU_ASSERT_TRUE(i == 1 || j == 1 || f[87] == 1.0f);
            CU_ASSERT_TRUE(i == j || i == 1 || j == 1 ? length < 1e-3f : fabsf(length - 1.0f) < 1e-5f);
        }
    float rows[R * 88]; /* by chunks as by the whole */
    ff_template_pair_features(rows, &templates[0], &config.dgram, true, 2, 3);
    CU_ASSERT_EQUAL(memcmp(rows, features + 2 * R * 88, sizeof rows), 0);
}

/* ---- the embedding ---- */

static ff_tensor *embed(const float *mask, int64_t num_templ, bool checkpoint, ff_update update)
{
    ff_tensor *mask_2d = case_tensor(&ctx, FF_SHAPE(R, R), 30, true, NULL);
    ff_tensor *pair = case_tensor(&ctx, FF_SHAPE(R, R, config.c_z), 31, false, NULL);
    ff_tensor *out = ff_template_embedding(&ctx, &w, pair, templates, num_templ, mask, mask_2d, checkpoint, update);
    ff_tensor_release(mask_2d);
    return out;
}

static void test_masked_templates_change_nothing(void)
{
    start();
    static const float none[T] = {0, 0};
    ff_tensor *before = case_tensor(&ctx, FF_SHAPE(R, R, config.c_z), 31, false, NULL);
    ff_tensor *after = embed(none, T, false, FF_RESIDUAL), *update = embed(none, T, false, FF_UPDATE_ONLY);
    CU_ASSERT_EQUAL_FATAL(ctx.status, FF_OK);
    CU_ASSERT_EQUAL(memcmp(before->data, after->data, before->bytes), 0);
    for (int64_t i = 0; i < update->size; i++)
        CU_ASSERT_EQUAL(ff_data(update)[i], 0.0f);
    ff_tensor_release(before);
    ff_tensor_release(after);
    ff_tensor_release(update);
}

static void test_a_masked_template_is_as_good_as_none(void)
{
    start();
    static const float first[T] = {1, 0};
    ff_tensor *two = embed(first, 2, false, FF_RESIDUAL), *one = embed(first, 1, false, FF_RESIDUAL);
    CU_ASSERT_EQUAL_FATAL(ctx.status, FF_OK);
    FF_CHECK_CLOSE(ff_data(two), ff_data(one), one->size, 1e-6, 1e-6); /* sums with one more zero */
    ff_tensor_release(one);
    ff_tensor_release(two);
}

/* Gradients with blocks checkpointed and not, dropout on, residual and update alone. */
static void test_checkpointed_gradients_are_the_same(void)
{
    static const float mask[T] = {1, 1};
    float *grads[2][2] = {{NULL}};
    for (int update = 0; update < 2; update++)
        for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
            start();
            ctx.training = true;
            CU_ASSERT_EQUAL_FATAL(ff_tape_create(&ctx), FF_OK);
            ff_tensor *out = embed(mask, T, checkpoint == 1, update == 0 ? FF_RESIDUAL : FF_UPDATE_ONLY);
            CU_ASSERT_EQUAL_FATAL(ctx.status, FF_OK);
            case_normal(ff_data(ff_tensor_grad(&ctx, out)), out->size, 40, 1.0f);
            ff_tensor_release(out);
            CU_ASSERT_EQUAL(ff_tape_backward(&ctx), FF_OK);
            grads[update][checkpoint] = case_copy(p.grads, p.total);
        }
    FF_CHECK_CLOSE(grads[0][1], grads[0][0], p.total, 1e-5, 1e-5);
    FF_CHECK_CLOSE(grads[1][1], grads[1][0], p.total, 1e-5, 1e-5);
    FF_CHECK_CLOSE(grads[1][0], grads[0][0], p.total, 1e-5, 1e-5); /* the residual part goes to the pair alone */
    for (int i = 0; i < 4; i++)
        free(grads[i / 2][i % 2]);
}

static void test_too_many_templates_are_refused(void)
{
    start();
    static const float mask[T] = {1, 1};
    CU_ASSERT_PTR_NULL(embed(mask, FF_MODEL_MAX_TEMPLATES + 1, false, FF_RESIDUAL));
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_ARG);
}

static CU_TestInfo tests[] = {
    {"a_quarter_turn", test_a_quarter_turn},
    {"symmetric_chi_have_a_negated_alternative", test_symmetric_chi_have_a_negated_alternative},
    {"undefined_torsions_are_zero_and_marked", test_undefined_torsions_are_zero_and_marked},
    {"pair_features_are_masked_and_unit_vectors_are_short", test_pair_features_are_masked_and_unit_vectors_are_short},
    {"masked_templates_change_nothing", test_masked_templates_change_nothing},
    {"a_masked_template_is_as_good_as_none", test_a_masked_template_is_as_good_as_none},
    {"checkpointed_gradients_are_the_same", test_checkpointed_gradients_are_the_same},
    {"too_many_templates_are_refused", test_too_many_templates_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_evoformer_template = {"evoformer/template", NULL, NULL, NULL, tear_down, tests};
