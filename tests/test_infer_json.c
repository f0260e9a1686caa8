/* JSON of confidences, errors and timings: parsed back by cJSON, in the forms that AlphaFold's readers expect. */
#include "infer/json_writer.h"
#include "infer/text.h"
#include "infer/write_json.h"
#include "tests/infer_case.h"

#ifdef FF_HAVE_CJSON
#include <cjson/cJSON.h>

static cJSON *parse_file(const char *path)
{
    char *text = content_of(path);
    cJSON *json = cJSON_Parse(text);
    free(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    return json;
}

static double number_at(const cJSON *array, int64_t k)
{
    const cJSON *item = cJSON_GetArrayItem(array, (int)k);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static void test_confidence_has_the_form_of_alphafold_db(void)
{
    char path[256];
    make_prediction(&prediction, "name \"quoted\" \xff </script>", 30);
    make_up_confidences(&prediction);
    const float scores[] = {0, 49.994f, 49.996f, 50, 69.99f, 70, 89.99f, 90, 100};
    memcpy(prediction.plddt, scores, sizeof scores);
    CU_ASSERT_EQUAL(ff_prediction_add_pass(&ctx, &prediction, &(ff_recycle_record){80.5, 0.7, NAN, 1.25}), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_confidence_json_write(&ctx, &prediction, in_folder(path, "confidence.json")), FF_OK);
    cJSON *json = parse_file(path);
    const cJSON *numbers = member(json, "residueNumber"), *score = member(json, "confidenceScore");
    const cJSON *category = member(json, "confidenceCategory"), *pass = cJSON_GetArrayItem(member(json, "recycles"), 0);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(numbers), 30);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(score), 30);
    CU_ASSERT_EQUAL(number_at(numbers, 0), 1);
    CU_ASSERT_EQUAL(number_at(numbers, 29), 30);
    CU_ASSERT_EQUAL(number_at(score, 1), 49.99);
    CU_ASSERT_EQUAL(number_at(score, 2), 50);
    for (int k = 0; k < 9; k++)
        CU_ASSERT_EQUAL(cJSON_GetArrayItem(category, k)->valuestring[0], "DDLLLMMHH"[k]);
    CU_ASSERT_STRING_EQUAL(member(json, "target")->valuestring, "name \"quoted\" \xef\xbf\xbd </script>");
    CU_ASSERT_EQUAL(member(json, "ptm")->valuedouble, 0.8125);
    CU_ASSERT_EQUAL(member(pass, "mean_plddt")->valuedouble, 80.5);
    CU_ASSERT(cJSON_IsNull(member(pass, "ca_change")));
    cJSON_Delete(json);
}

static void test_pae_has_the_form_of_alphafold_db(void)
{
    char path[256];
    const int64_t n = 23;
    make_prediction(&prediction, "x", n);
    make_up_confidences(&prediction);
    CU_ASSERT_EQUAL_FATAL(ff_pae_json_write(&ctx, &prediction, in_folder(path, "pae.json")), FF_OK);
    char *text = content_of(path);
    CU_ASSERT_EQUAL(strncmp(text, "[{\"predicted_aligned_error\": [[0.2, ", 36), 0);
    free(text);
    cJSON *json = parse_file(path);
    CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(json), 1);
    const cJSON *only = cJSON_GetArrayItem(json, 0), *rows = member(only, "predicted_aligned_error");
    CU_ASSERT_EQUAL(member(only, "max_predicted_aligned_error")->valuedouble, 31.75);
    CU_ASSERT_EQUAL_FATAL(cJSON_GetArraySize(rows), n);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetArrayItem(rows, (int)i)), n);
        for (int64_t j = 0; j < n; j++)
            worst = fmax(worst, fabs(number_at(cJSON_GetArrayItem(rows, (int)i), j) - prediction.pae[i * n + j]));
    }
    CU_ASSERT(worst <= 0.0500001); /* one decimal */
    cJSON_Delete(json);
}

static void test_ranking_and_timings_name_every_prediction(void)
{
    char path[256];
    ff_prediction two[2];
    for (int k = 0; k < 2; k++) {
        CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, &two[k], "x", "MK", k == 0 ? "model_1_ptm" : "model_2_ptm", 7),
                              FF_OK);
        two[k].plddt[0] = two[k].plddt[1] = (float)(50 + 20 * k);
        two[k].ptm = 0.5 + 0.25 * k;
        CU_ASSERT_EQUAL(ff_prediction_add_timing(&ctx, &two[k], "features", 0.5), FF_OK);
        CU_ASSERT_EQUAL(ff_prediction_add_pass(&ctx, &two[k], &(ff_recycle_record){50, 0.5, NAN, 2.5}), FF_OK);
    }
    CU_ASSERT_EQUAL_FATAL(ff_ranking_json_write(&ctx, two, (const int64_t[]){1, 0}, 2, in_folder(path, "r.json")),
                          FF_OK);
    cJSON *json = parse_file(path);
    CU_ASSERT_STRING_EQUAL(cJSON_GetArrayItem(member(json, "order"), 0)->valuestring, "model_2_ptm_seed_7");
    CU_ASSERT_EQUAL(member(member(json, "plddts"), "model_1_ptm_seed_7")->valuedouble, 50);
    CU_ASSERT_EQUAL(member(member(json, "ptms"), "model_2_ptm_seed_7")->valuedouble, 0.75);
    CU_ASSERT_STRING_EQUAL(member(member(json, "files"), "ranked_1.pdb")->valuestring, "model_1_ptm_seed_7");
    cJSON_Delete(json);
    CU_ASSERT_EQUAL_FATAL(ff_timings_json_write(&ctx, two, 2, in_folder(path, "t.json")), FF_OK);
    json = parse_file(path);
    CU_ASSERT_EQUAL(member(member(json, "model_1_ptm_seed_7"), "features")->valuedouble, 0.5);
    CU_ASSERT_EQUAL(member(member(json, "model_2_ptm_seed_7"), "recycle_0")->valuedouble, 2.5);
    cJSON_Delete(json);
    ff_prediction_destroy(&two[0]);
    ff_prediction_destroy(&two[1]);
}

/* Every byte value, in and out of place: what is valid comes back, what is not becomes U+FFFD. */
static void test_texts_of_any_bytes_are_valid_json(void)
{
    static const char *const texts[][2] = {
        {"plain", "plain"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\x01\t\n\r\"\\</script>\x7f", "\x01\t\n\r\"\\</script>\x7f"}};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        ff_json json;
        ff_json_begin(&json, file, true);
        ff_json_object_begin(&json, NULL);
        ff_json_text(&json, texts[k][0], texts[k][0]);
        ff_json_object_end(&json);
        ff_json_end(&json);
        fclose(file);
        CU_ASSERT_PTR_NULL(strchr(text, '<'));
        cJSON *back = cJSON_Parse(text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(back);
        CU_ASSERT_STRING_EQUAL(back->child->valuestring, texts[k][1]);
        CU_ASSERT_STRING_EQUAL(back->child->string, texts[k][1]);
        cJSON_Delete(back);
        free(text);
    }
}
#endif

static char *written_number(double value, int decimals)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ff_json json;
    ff_json_begin(&json, file, false);
    ff_json_number(&json, NULL, value, decimals);
    fclose(file);
    return text;
}

static void test_numbers_are_rounded_to_their_decimals(void)
{
    static const struct { double value; int decimals; const char *text;
    } cases[] = {{0, 1, "0.0"},
                 {0.04, 1, "0.0"},
                 {0.06, 1, "0.1"},
                 {-0.04, 1, "0.0"},
                 {-1.26, 1, "-1.3"},
                 {31.75, 4, "31.75"},
                 {31.75, 1, "31.8"},
                 {100, 2, "100.0"},
                 {1, 0, "1"},
                 {9.9996, 3, "10.0"},
                 {1e15, 1, "1000000000000000"},
                 {1e300, 2, "1.0000000000000001e+300"},
                 {NAN, 2, "null"},
                 {-INFINITY, 2, "null"},
                 {123456.789, 9, "123456.789"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char *text = written_number(cases[k].value, cases[k].decimals);
        CU_ASSERT_STRING_EQUAL(text, cases[k].text);
        if (strcmp(text, cases[k].text) != 0)
            printf("    %s, expected %s\n", text, cases[k].text);
        free(text);
    }
    for (uint64_t k = 0; k < 20000; k++) { /* against printf */
        const double value = (double)ff_random_normal((ff_random_key){1, 1}, k) * 100;
        char *text = written_number(value, 2);
        CU_ASSERT(fabs(atof(text) - value) <= 0.0050001);
        free(text);
    }
}

static void test_base64_ends_as_it_should(void)
{
    static const char *const expected[] = {"\"\"", "\"AA==\"", "\"AAE=\"", "\"AAEC\"", "\"AAECAw==\""}; /* RFC 4648 */
    const uint8_t bytes[] = {0, 1, 2, 3};
    for (int64_t n = 0; n <= 4; n++) {
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        ff_json json;
        ff_json_begin(&json, file, false);
        ff_json_base64(&json, NULL, bytes, n);
        fclose(file);
        CU_ASSERT_STRING_EQUAL(text, expected[n]);
        free(text);
    }
}

static void test_a_model_without_pae_has_no_pae_file(void)
{
    char path[256];
    make_prediction(&prediction, "x", 3);
    CU_ASSERT_EQUAL(ff_pae_json_write(&ctx, &prediction, in_folder(path, "pae.json")), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "models named _ptm"));
}

static void test_lines_of_ascii_fit_and_stay_printable(void)
{
    char line[8];
    CU_ASSERT_STRING_EQUAL(ff_text_ascii_line(line, sizeof line, "  a\t\n b\x01 "), "a b");
    CU_ASSERT_STRING_EQUAL(ff_text_ascii_line(line, sizeof line, "caf\xc3\xa9\xff!"), "caf?\?!");
    CU_ASSERT_STRING_EQUAL(ff_text_ascii_line(line, sizeof line, "123456 89"), "123456");
    CU_ASSERT_STRING_EQUAL(ff_text_ascii_line(line, sizeof line, ""), "");
}

static CU_TestInfo tests[] = {
#ifdef FF_HAVE_CJSON
    {"confidence_has_the_form_of_alphafold_db", test_confidence_has_the_form_of_alphafold_db},
    {"pae_has_the_form_of_alphafold_db", test_pae_has_the_form_of_alphafold_db},
    {"ranking_and_timings_name_every_prediction", test_ranking_and_timings_name_every_prediction},
    {"texts_of_any_bytes_are_valid_json", test_texts_of_any_bytes_are_valid_json},
#endif
    {"numbers_are_rounded_to_their_decimals", test_numbers_are_rounded_to_their_decimals},
    {"base64_ends_as_it_should", test_base64_ends_as_it_should},
    {"a_model_without_pae_has_no_pae_file", test_a_model_without_pae_has_no_pae_file},
    {"lines_of_ascii_fit_and_stay_printable", test_lines_of_ascii_fit_and_stay_printable},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_json = {"infer/json", NULL, NULL, set_up, tear_down, tests};
