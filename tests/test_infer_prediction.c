/* What a prediction is made of: codes, contacts, depth and coverage. */
#include "tests/infer_case.h"

static void test_contacts_are_what_the_bins_below_8_angstrom_hold(void)
{
    float edges[63], logits[4 * 64];
    for (int k = 0; k < 63; k++)
        edges[k] = 2.3125f + 0.3125f * (float)k; /* bins 0..18 end at 7.9375 */
    for (int k = 0; k < 4 * 64; k++)
        logits[k] = 0;
    logits[1 * 64 + 18] = 50; /* all in the last bin below */
    logits[2 * 64 + 19] = 50; /* all in the first one above */
    CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, &prediction, "x", "MK", "model_1", 0), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_set_contacts(&ctx, &prediction, logits, 64, edges), FF_OK);
    const float expected[] = {19.0f / 64, 1, 0, 19.0f / 64};
    FF_CHECK_CLOSE(prediction.contact_probability, expected, 4, 1e-6, 1e-6);
    CU_ASSERT_EQUAL(ff_prediction_set_contacts(&ctx, &prediction, logits, 1, edges), FF_ERR_ARG);
}

static void test_depth_counts_residues_and_rows_stand_by_identity(void)
{
    static const int8_t msa[] = {0, 1, 2, 3,     /* the query */
                                 5, 21, 21, 21,  /* 0 of 1 */
                                 0, 1, 21, 5,    /* 2 of 3 */
                                 21, 21, 21, 21, /* nothing */
                                 0, 1, 2, 21};   /* 3 of 3 */
    static const int32_t depth[] = {4, 3, 2, 2};
    static const float identity[] = {1, 1, 2.0f / 3, 0, 0};
    CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, &prediction, "x", "ARND", "model_1", 0), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_set_msa(&ctx, &prediction, msa, 5), FF_OK);
    CU_ASSERT_EQUAL(memcmp(prediction.msa_depth, depth, sizeof depth), 0);
    CU_ASSERT_EQUAL_FATAL(prediction.num_coverage, 5);
    FF_CHECK_CLOSE(prediction.coverage_identity, identity, 5, 1e-6, 0);
    CU_ASSERT_EQUAL(memcmp(prediction.coverage, "\1\1\1\1\1\1\1\0\1\1\0\1\1\0\0\0\0\0\0\0", 20), 0);
    CU_ASSERT_EQUAL(ff_prediction_set_msa(&ctx, &prediction, msa, 1), FF_OK); /* again, smaller */
    CU_ASSERT_EQUAL(prediction.num_coverage, 1);
    CU_ASSERT_EQUAL(prediction.msa_depth[0], 1);
}

static void test_deep_alignments_are_thinned_evenly(void)
{
    enum { ROWS = 5000 };
    int8_t *msa = calloc(ROWS, 3);
    for (int s = 2500; s < ROWS; s++)
        msa[3 * s] = 21;
    CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, &prediction, "x", "AAA", "model_1", 0), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_set_msa(&ctx, &prediction, msa, ROWS), FF_OK);
    free(msa);
    int64_t covered = 0;
    for (int64_t k = 0; k < prediction.num_coverage; k++)
        covered += prediction.coverage[3 * k];
    CU_ASSERT_EQUAL(prediction.num_msa, ROWS);
    CU_ASSERT_EQUAL(prediction.num_coverage, FF_MAX_COVERAGE_ROWS);
    CU_ASSERT_EQUAL(covered, FF_MAX_COVERAGE_ROWS / 2);
    CU_ASSERT_EQUAL(prediction.msa_depth[0], 2500);
    CU_ASSERT_EQUAL(prediction.msa_depth[2], ROWS);
}

static void test_a_prediction_of_nothing_is_refused(void)
{
    CU_ASSERT_EQUAL(ff_prediction_create(&ctx, &prediction, "x", "", "model_1", 0), FF_ERR_ARG);
}

static void test_what_cannot_be_written_is_named(void)
{
    make_prediction(&prediction, "x", 4);
    CU_ASSERT_EQUAL(ff_prediction_check(&ctx, &prediction), FF_OK);
    prediction.residue_index[2] = 1;
    CU_ASSERT_EQUAL(ff_prediction_check(&ctx, &prediction), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "residue 3: residue_index 1 follows 1; it must rise");
    ff_context_clear(&ctx);
    prediction.residue_index[2] = 2;
    make_up_confidences(&prediction);
    CU_ASSERT_EQUAL(ff_prediction_check(&ctx, &prediction), FF_OK);
    prediction.pae[4 * 1 + 2] = INFINITY;
    CU_ASSERT_EQUAL(ff_prediction_check(&ctx, &prediction), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "the predicted aligned error of residues 2 and 3 is not finite");
}

static CU_TestInfo tests[] = {
    {"contacts_are_what_the_bins_below_8_angstrom_hold", test_contacts_are_what_the_bins_below_8_angstrom_hold},
    {"depth_counts_residues_and_rows_stand_by_identity", test_depth_counts_residues_and_rows_stand_by_identity},
    {"deep_alignments_are_thinned_evenly", test_deep_alignments_are_thinned_evenly},
    {"a_prediction_of_nothing_is_refused", test_a_prediction_of_nothing_is_refused},
    {"what_cannot_be_written_is_named", test_what_cannot_be_written_is_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_prediction = {"infer/prediction", NULL, NULL, set_up, tear_down, tests};
