/* suite tests/golden_judge: the judge of reference files, on cases made by hand: right numbers pass, wrong ones fail. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "tests/golden_case.h"
#include "tests/golden_judge.h"

enum { MOST_VERDICTS = 32 };

static ff_ctx ctx;
static golden_case c;
static golden_verdict verdicts[MOST_VERDICTS];
static int num_verdicts;

static void take(void *arg, const golden_verdict *v)
{
    (void)arg;
    if (num_verdicts < MOST_VERDICTS)
        verdicts[num_verdicts++] = *v;
}

static void run_judge(void)
{
    const golden_tolerances t = golden_default_tolerances(false);
    num_verdicts = 0;
    golden_judge(&ctx, &c, &t, take, NULL);
}

/* The result for an array; the test fails when there is not exactly one. */
static const golden_verdict *result_of(const char *array)
{
    static const golden_verdict none = {.result = (golden_result)-1};
    const golden_verdict *found = &none;
    int count = 0;
    for (int i = 0; i < num_verdicts; i++)
        if (strcmp(verdicts[i].array, array) == 0) {
            found = &verdicts[i];
            count++;
        }
    CU_ASSERT_EQUAL(count, 1);
    return found;
}

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    memset(&c, 0, sizeof c);
}

static void tear_down(void) { golden_case_free(&c); }

static void new_case(const char *family, const char *op)
{
    golden_case_free(&c);
    c.file = strdup("by hand");
    c.family = strdup(family);
    c.name = strdup("tiny");
    c.op = strdup(op);
}

static void want_output(const char *name, const float *data, int ndim, const int64_t *shape)
{
    CU_ASSERT_EQUAL(golden_list_add(&c.want_outputs, name, ndim, shape, data), FF_OK);
}

static void want_grad(const char *name, const float *data, int ndim, const int64_t *shape)
{
    CU_ASSERT_EQUAL(golden_list_add(&c.want_grads, name, ndim, shape, data), FF_OK);
}

/* ---- rule 1 ---- */

static void check_perturbed(float delta, golden_result expected)
{
    const float want[4] = {1, -2, 4, 3};
    float got[4] = {1, -2, 4, 3};
    got[2] += delta;
    new_case("evoformer_block", "evoformer_block");
    want_output("msa", want, 1, (int64_t[]){4});
    golden_store_output(&c, "msa", got, 1, (int64_t[]){4});
    run_judge();
    CU_ASSERT_EQUAL(num_verdicts, 1);
    CU_ASSERT_EQUAL(result_of("output/msa")->result, expected);
}

static void test_outputs_pass_below_their_tolerance_and_fail_above(void)
{
    check_perturbed(0, GOLDEN_PASSED);
    check_perturbed(7.5e-5f, GOLDEN_PASSED); /* 4 * 2e-5 = 8e-5 */
    check_perturbed(8.5e-5f, GOLDEN_FAILED);
    check_perturbed(-8.5e-5f, GOLDEN_FAILED);
    check_perturbed(NAN, GOLDEN_FAILED);
    check_perturbed(INFINITY, GOLDEN_FAILED);
}

static void test_a_failure_names_the_worst_entry(void)
{
    const float want[4] = {1, -2, 4, 3};
    const float got[4] = {1, -2, 4, 3.5f};
    new_case("transition", "transition");
    want_output("out", want, 2, (int64_t[]){2, 2});
    golden_store_output(&c, "out", got, 2, (int64_t[]){2, 2});
    run_judge();
    CU_ASSERT_STRING_EQUAL(result_of("output/out")->reason, "largest error: at [1, 1] got 3.5, want 3");
    CU_ASSERT_DOUBLE_EQUAL(result_of("output/out")->error, 0.125, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(result_of("output/out")->max_want, 4, 0);
}

static void test_all_zero_output_must_be_zero(void)
{
    const float want[2] = {0, 0};
    const float wrong[2] = {0, 1e-9f};
    new_case("template", "template_embedding");
    want_output("out", want, 1, (int64_t[]){2});
    golden_store_output(&c, "out", want, 1, (int64_t[]){2});
    golden_set_variant(&c, "again");
    golden_store_output(&c, "out", wrong, 1, (int64_t[]){2});
    run_judge();
    CU_ASSERT_EQUAL(result_of("output/out")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("again:output/out")->result, GOLDEN_FAILED);
}

static void check_recorded_error(double recorded, bool as_is, golden_result expected)
{
    const float want[2] = {1, 1};
    const float got[2] = {1, 1 + 6e-5f};
    golden_tolerances t = golden_default_tolerances(false);
    t.forward_as_is = as_is;
    new_case("evoformer_block", "evoformer_block");
    CU_ASSERT_EQUAL(golden_add_number(&c, "check_f32_output", recorded), FF_OK);
    want_output("msa", want, 1, (int64_t[]){2});
    golden_store_output(&c, "msa", got, 1, (int64_t[]){2});
    num_verdicts = 0;
    golden_judge(&ctx, &c, &t, take, NULL);
    CU_ASSERT_EQUAL(result_of("output/msa")->result, expected);
}

static void test_a_recorded_float32_error_loosens_the_tolerance(void)
{
    check_recorded_error(1e-6, false, GOLDEN_FAILED);
    check_recorded_error(1.5e-5, false, GOLDEN_PASSED); /* 5 x 1.5e-5 = 7.5e-5 */
    check_recorded_error(1.5e-5, true, GOLDEN_FAILED);
}

/* ---- rule 2 ---- */

static void test_large_entries_do_not_hide_wrong_ordinary_ones(void)
{
    const float want[5] = {1000, 1, 1, 1, 1};
    const float got[5] = {1000, 1, 1.001f, 1, 1}; /* 1e-6 of the largest; rule 2 allows 10 * 2e-5 * (1 + 1) */
    new_case("primitives", "linear");
    want_output("out", want, 1, (int64_t[]){5});
    golden_store_output(&c, "out", got, 1, (int64_t[]){5});
    run_judge();
    const golden_verdict *v = result_of("output/out");
    CU_ASSERT_EQUAL(v->result, GOLDEN_FAILED);
    CU_ASSERT(v->error <= v->tolerance);
    CU_ASSERT_DOUBLE_EQUAL(v->entry_error, 0.001 / 20, 1e-8);
    CU_ASSERT(strncmp(v->reason, "an ordinary entry: at [2]", 25) == 0);
}

static void check_gradient_entries(const char *family, golden_result expected)
{
    const float want[5] = {1000, 1, 1, 1, 1};
    const float got[5] = {1000, 1, 1.01f, 1, 1};
    new_case(family, "some operation");
    want_grad("param/w", want, 1, (int64_t[]){5});
    golden_store_grad_param(&c, "w", got, 1, (int64_t[]){5});
    run_judge();
    CU_ASSERT_EQUAL(result_of("grad/param/w")->result, expected);
}

static void test_gradients_of_single_modules_are_judged_by_entry_and_others_not(void)
{
    check_gradient_entries("primitives", GOLDEN_FAILED);
    check_gradient_entries("triangle", GOLDEN_FAILED);
    check_gradient_entries("evoformer_block", GOLDEN_PASSED);
    check_gradient_entries("embeddings", GOLDEN_PASSED);
}

/* ---- floors of gradients ---- */

static void check_small_gradient(const char *exact_zero, float error, golden_result expected)
{
    const float big[1] = {100}, zero[2] = {0, 0};
    const float noise[2] = {0, error};
    new_case("msa_attention", "msa_row_attention_with_pair_bias");
    if (exact_zero != NULL)
        CU_ASSERT_EQUAL(golden_add_text(&c, "grad_exact_zero", exact_zero), FF_OK);
    want_grad("input/msa", big, 1, (int64_t[]){1});
    want_grad("param/norm/offset", zero, 1, (int64_t[]){2});
    golden_store_grad_input(&c, "msa", big, 1, (int64_t[]){1});
    golden_store_grad_param(&c, "norm/offset", noise, 1, (int64_t[]){2});
    run_judge();
    CU_ASSERT_EQUAL(result_of("grad/input/msa")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("grad/param/norm/offset")->result, expected);
}

static void test_small_gradients_are_held_against_the_largest_of_the_case(void)
{
    check_small_gradient(NULL, 0.9e-5f, GOLDEN_PASSED); /* 1e-4 * 1e-3 * 100 = 1e-5 */
    check_small_gradient(NULL, 1.1e-5f, GOLDEN_FAILED);
    check_small_gradient("param/a param/norm/offset", 0.9e-4f, GOLDEN_PASSED); /* ten times that */
    check_small_gradient("param/a param/norm/offset", 1.1e-4f, GOLDEN_FAILED);
    check_small_gradient("param/norm/offset_too", 0.9e-4f, GOLDEN_FAILED); /* another name */
}

/* ---- parts ---- */

/* Two residues; no sequence has residue 1 together with anything, so only the pair (0, 0) is covered. */
static void check_pair(const char *family, const char *op, const char *mask, const char *array, const float *got,
                       golden_result expected)
{
    const float want[4] = {1, 1000, 1000, 1000}, msa_mask[2] = {1, 0};
    new_case(family, op);
    CU_ASSERT_EQUAL(golden_list_add(&c.inputs, mask, 2, (int64_t[]){1, 2}, msa_mask), FF_OK);
    want_output(array, want, 3, (int64_t[]){2, 2, 1});
    golden_store_output(&c, array, got, 3, (int64_t[]){2, 2, 1});
    run_judge();
    char name[64];
    snprintf(name, sizeof name, "output/%s", array);
    CU_ASSERT_EQUAL(result_of(name)->result, expected);
}

static void test_pairs_that_no_sequence_covers_are_judged_apart(void)
{
    const float covered_wrong[4] = {1.0001f, 1000, 1000, 1000}; /* far inside the tolerance of 1000 */
    const float uncovered_wrong[4] = {1, 1000, 1000.1f, 1000};
    const float uncovered_fine[4] = {1, 1000, 1000.01f, 1000};
    check_pair("outer_product_mean", "outer_product_mean", "mask", "out", covered_wrong, GOLDEN_FAILED);
    check_pair("evoformer_block", "evoformer_block", "msa_mask", "pair", covered_wrong, GOLDEN_FAILED);
    check_pair("evoformer_stack", "extra_msa_stack", "msa_mask", "pair", covered_wrong, GOLDEN_FAILED);
    check_pair("embeddings_and_evoformer", "embeddings_and_evoformer", "msa_mask", "pair", covered_wrong,
               GOLDEN_FAILED);
    check_pair("evoformer_block", "evoformer_block", "msa_mask", "pair", uncovered_wrong, GOLDEN_FAILED);
    check_pair("evoformer_block", "evoformer_block", "msa_mask", "pair", uncovered_fine, GOLDEN_PASSED);
    check_pair("template", "template_embedding", "msa_mask", "pair", covered_wrong, GOLDEN_PASSED); /* one part */
}

static void test_a_template_row_covers_pairs_too(void)
{
    enum { CHANNELS = 57, PSI = 52 };
    const float want[4] = {1, 1, 1, 1}, msa_mask[2] = {1, 0};
    float features[2 * CHANNELS] = {0};
    const float got[4] = {1, 1.0001f, 1, 1};
    features[PSI] = features[CHANNELS + PSI] = 1;
    new_case("embeddings_and_evoformer", "embeddings_and_evoformer");
    CU_ASSERT_EQUAL(golden_add_number(&c, "embed_torsion_angles", 1), FF_OK);
    CU_ASSERT_EQUAL(golden_list_add(&c.inputs, "msa_mask", 2, (int64_t[]){1, 2}, msa_mask), FF_OK);
    want_output("pair", want, 3, (int64_t[]){2, 2, 1});
    want_output("template_features", features, 3, (int64_t[]){1, 2, CHANNELS});
    golden_store_output(&c, "pair", got, 3, (int64_t[]){2, 2, 1});
    golden_store_output(&c, "template_features", features, 3, (int64_t[]){1, 2, CHANNELS});
    run_judge();
    CU_ASSERT(strncmp(result_of("output/pair")->reason, "largest error", 13) == 0); /* not "uncovered pairs" */
    CU_ASSERT_EQUAL(result_of("output/template_features")->result, GOLDEN_PASSED);
}

static void test_undefined_torsions_are_left_out(void)
{
    enum { CHANNELS = 57, PHI = 1 };
    float features[CHANNELS], noise[CHANNELS], wrong[CHANNELS], well[7];
    for (int i = 0; i < CHANNELS; i++)
        features[i] = noise[i] = wrong[i] = 0.5f;
    for (int i = 0; i < 7; i++)
        well[i] = i != PHI;
    noise[22 + 2 * PHI] = noise[22 + 2 * PHI + 1] = noise[36 + 2 * PHI] = noise[36 + 2 * PHI + 1] = -1;
    wrong[22 + 2 * PHI + 2] = -1; /* psi is defined */
    new_case("template", "template_torsion_rows");
    want_output("template_features", features, 3, (int64_t[]){1, 1, CHANNELS});
    want_output("torsion_well_conditioned", well, 3, (int64_t[]){1, 1, 7});
    golden_store_output(&c, "template_features", noise, 3, (int64_t[]){1, 1, CHANNELS});
    golden_set_variant(&c, "wrong");
    golden_store_output(&c, "template_features", wrong, 3, (int64_t[]){1, 1, CHANNELS});
    run_judge();
    CU_ASSERT_EQUAL(num_verdicts, 2); /* the marker is not asked for */
    CU_ASSERT_EQUAL(result_of("output/template_features")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("wrong:output/template_features")->result, GOLDEN_FAILED);
}

/* ---- what is missing or misshapen ---- */

static void test_arrays_that_are_not_produced_fail(void)
{
    const float x[2] = {1, 2};
    new_case("primitives", "layer_norm");
    want_output("out", x, 1, (int64_t[]){2});
    want_grad("input/x", x, 1, (int64_t[]){2});
    want_grad("param/scale", x, 1, (int64_t[]){2});
    golden_store_grad_input(&c, "x", x, 1, (int64_t[]){2});
    golden_store_output(&c, "something else", x, 1, (int64_t[]){2});
    run_judge();
    CU_ASSERT_EQUAL(num_verdicts, 3);
    CU_ASSERT_EQUAL(result_of("grad/input/x")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("output/out")->result, GOLDEN_FAILED);
    CU_ASSERT_STRING_EQUAL(result_of("output/out")->reason, "not produced");
    CU_ASSERT_STRING_EQUAL(result_of("grad/param/scale")->reason, "not produced");
}

static void test_another_shape_fails(void)
{
    const float x[4] = {1, 2, 3, 4};
    new_case("primitives", "layer_norm");
    want_output("out", x, 2, (int64_t[]){2, 2});
    golden_store_output(&c, "out", x, 2, (int64_t[]){1, 4});
    run_judge();
    CU_ASSERT_STRING_EQUAL(result_of("output/out")->reason, "got shape [1, 4], want [2, 2]");
}

static void test_variants_are_judged_again_and_may_leave_arrays_out(void)
{
    const float x[2] = {1, 2}, wrong[2] = {1, 3};
    new_case("primitives", "layer_norm");
    want_output("out", x, 1, (int64_t[]){2});
    want_grad("input/x", x, 1, (int64_t[]){2});
    golden_store_output(&c, "out", x, 1, (int64_t[]){2});
    golden_store_grad_input(&c, "x", x, 1, (int64_t[]){2});
    golden_set_variant(&c, "inference");
    golden_store_output(&c, "out", wrong, 1, (int64_t[]){2});
    run_judge();
    CU_ASSERT_EQUAL(num_verdicts, 3);
    CU_ASSERT_EQUAL(result_of("output/out")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("inference:output/out")->result, GOLDEN_FAILED);
}

static void test_lacking_gradients_are_reported_once_as_unknown(void)
{
    const float x[2] = {1, 2};
    new_case("primitives", "layer_norm");
    want_output("out", x, 1, (int64_t[]){2});
    want_grad("input/x", x, 1, (int64_t[]){2});
    want_grad("param/scale", x, 1, (int64_t[]){2});
    golden_store_output(&c, "out", x, 1, (int64_t[]){2});
    golden_lack_gradients(&c, "no layer_norm_backward");
    run_judge();
    CU_ASSERT_EQUAL(num_verdicts, 2);
    CU_ASSERT_EQUAL(result_of("output/out")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("grad/*")->result, GOLDEN_UNKNOWN);
}

/* ---- sums ---- */

static void test_large_gradients_are_compared_by_their_sums(void)
{
    const float grad[6] = {1, 2, 3, 4, 5, 6}; /* [2, 3] */
    const float sum0[3] = {5, 7, 9}, sum1[2] = {6, 15}, wrong1[2] = {6, 15.1f}, l2[1] = {9.539392f};
    new_case("ipa", "invariant_point_attention");
    CU_ASSERT_EQUAL(golden_list_add(&c.want_reduced, "param/q/weights/sum_axis0", 1, (int64_t[]){3}, sum0), FF_OK);
    CU_ASSERT_EQUAL(golden_list_add(&c.want_reduced, "param/q/weights/sum_axis1", 1, (int64_t[]){2}, sum1), FF_OK);
    CU_ASSERT_EQUAL(golden_list_add(&c.want_reduced, "param/q/weights/l2", 0, NULL, l2), FF_OK);
    CU_ASSERT_EQUAL(golden_list_add(&c.want_reduced, "param/k/weights/sum_axis1", 1, (int64_t[]){2}, wrong1), FF_OK);
    golden_store_grad_param(&c, "q/weights", grad, 2, (int64_t[]){2, 3});
    golden_store_grad_param(&c, "k/weights", grad, 2, (int64_t[]){2, 3});
    CU_ASSERT(golden_wants_grad(&c, "param/q/weights") && !golden_wants_grad(&c, "param/q"));
    run_judge();
    CU_ASSERT_EQUAL(num_verdicts, 4);
    CU_ASSERT_EQUAL(result_of("grad_reduced/param/q/weights/sum_axis0")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("grad_reduced/param/q/weights/sum_axis1")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("grad_reduced/param/q/weights/l2")->result, GOLDEN_PASSED);
    CU_ASSERT_EQUAL(result_of("grad_reduced/param/k/weights/sum_axis1")->result, GOLDEN_FAILED);
}

/* ---- files ---- */

static void test_missing_and_foreign_files_are_one_clear_line(void)
{
    golden_names names;
    CU_ASSERT_EQUAL(golden_names_read(&ctx, &names, "/no/such/file.h5"), FF_ERR_IO);
    CU_ASSERT_STRING_EQUAL(ctx.message, "cannot open /no/such/file.h5: No such file or directory");
    ff_context_clear(&ctx);
    char path[] = "/tmp/golden_judge_XXXXXX";
    const int fd = mkstemp(path);
    CU_ASSERT(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("not a reference file\n", file);
    fclose(file);
    CU_ASSERT_EQUAL(golden_names_read(&ctx, &names, path), FF_ERR_FORMAT);
    CU_ASSERT(strstr(ctx.message, path) != NULL && strstr(ctx.message, "is not an HDF5 file") != NULL);
    CU_ASSERT(strchr(ctx.message, '\n') == NULL);
    remove(path);
}

/* Half of one of the project's own reference files, and its first kilobyte. */
static void test_truncated_files_are_one_clear_line(void)
{
    static char bytes[1 << 16];
    golden_names names;
    FILE *whole = fopen("tests/golden/primitives.h5", "rb");
    if (whole == NULL)
        return; /* not run from the root of the tree */
    const size_t half = fread(bytes, 1, sizeof bytes, whole);
    fclose(whole);
    for (size_t length = half; length > 0; length = length > 1024 ? 1024 : 0) {
        char path[] = "/tmp/golden_judge_XXXXXX";
        const int fd = mkstemp(path);
        FILE *file = fdopen(fd, "w");
        fwrite(bytes, 1, length, file);
        fclose(file);
        ff_context_clear(&ctx);
        CU_ASSERT_EQUAL(golden_names_read(&ctx, &names, path), FF_ERR_FORMAT);
        CU_ASSERT(strstr(ctx.message, path) != NULL && strchr(ctx.message, '\n') == NULL);
        remove(path);
    }
}

static void test_a_file_is_read_whole(void)
{
    golden_names names;
    if (golden_names_read(&ctx, &names, "tests/golden/primitives.h5") != FF_OK) {
        CU_ASSERT(ctx.status == FF_ERR_IO || ctx.status == FF_ERR_UNSUPPORTED);
        return; /* not run from the root of the tree, or built without HDF5 */
    }
    CU_ASSERT_STRING_EQUAL(names.family, "primitives");
    CU_ASSERT(names.count > 0);
    new_case("primitives", "");
    golden_case_free(&c);
    CU_ASSERT_EQUAL(golden_case_read(&ctx, &c, "tests/golden/primitives.h5", "primitives", "layer_norm_tiny"), FF_OK);
    CU_ASSERT_STRING_EQUAL(c.op, "layer_norm");
    CU_ASSERT_EQUAL(golden_int(&c, "num_channel", 0), 16);
    const golden_array *x = golden_input(&ctx, &c, "x");
    CU_ASSERT(x != NULL && x->ndim == 3 && x->shape[2] == 16 && !x->integer);
    CU_ASSERT(golden_param(&ctx, &c, "scale") != NULL && golden_cotangent(&c, "out") != NULL);
    CU_ASSERT(golden_wants_output(&c, "out") && golden_wants_grad(&c, "param/offset"));
    CU_ASSERT(golden_input(&ctx, &c, "y") == NULL && ctx.status == FF_ERR_FORMAT);
    golden_names_free(&names);
}

static CU_TestInfo tests[] = {
    {"outputs_pass_below_their_tolerance_and_fail_above", test_outputs_pass_below_their_tolerance_and_fail_above},
    {"a_failure_names_the_worst_entry", test_a_failure_names_the_worst_entry},
    {"all_zero_output_must_be_zero", test_all_zero_output_must_be_zero},
    {"a_recorded_float32_error_loosens_the_tolerance", test_a_recorded_float32_error_loosens_the_tolerance},
    {"large_entries_do_not_hide_wrong_ordinary_ones", test_large_entries_do_not_hide_wrong_ordinary_ones},
    {"gradients_of_single_modules_are_judged_by_entry_and_others_not",
     test_gradients_of_single_modules_are_judged_by_entry_and_others_not},
    {"small_gradients_are_held_against_the_largest_of_the_case",
     test_small_gradients_are_held_against_the_largest_of_the_case},
    {"pairs_that_no_sequence_covers_are_judged_apart", test_pairs_that_no_sequence_covers_are_judged_apart},
    {"a_template_row_covers_pairs_too", test_a_template_row_covers_pairs_too},
    {"undefined_torsions_are_left_out", test_undefined_torsions_are_left_out},
    {"arrays_that_are_not_produced_fail", test_arrays_that_are_not_produced_fail},
    {"another_shape_fails", test_another_shape_fails},
    {"variants_are_judged_again_and_may_leave_arrays_out", test_variants_are_judged_again_and_may_leave_arrays_out},
    {"lacking_gradients_are_reported_once_as_unknown", test_lacking_gradients_are_reported_once_as_unknown},
    {"large_gradients_are_compared_by_their_sums", test_large_gradients_are_compared_by_their_sums},
    {"missing_and_foreign_files_are_one_clear_line", test_missing_and_foreign_files_are_one_clear_line},
    {"truncated_files_are_one_clear_line", test_truncated_files_are_one_clear_line},
    {"a_file_is_read_whole", test_a_file_is_read_whole},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_tests_golden_judge = {"tests/golden_judge", NULL, NULL, set_up, tear_down, tests};
