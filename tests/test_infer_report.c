/* The report: whole in itself, safe with names of any kind, its numbers those of the prediction, and drawn by a
 * browser. */
#include "infer/report.h"
#include "tests/infer_case.h"

#ifdef FF_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

static const int64_t only[] = {0};

static void add_extras(ff_prediction *p)
{
    int8_t *msa = malloc((size_t)(50 * p->num_res));
    for (int64_t k = 0; k < 50 * p->num_res; k++)
        msa[k] = (int8_t)(k % 23 < 5 && k >= p->num_res ? 21 : p->aatype[k % p->num_res]);
    CU_ASSERT_EQUAL(ff_prediction_set_msa(&ctx, p, msa, 50), FF_OK);
    free(msa);
    for (int k = 0; k < 3; k++)
        CU_ASSERT_EQUAL(ff_prediction_add_pass(&ctx, p, &(ff_recycle_record){70 + k, 0.5, k > 0 ? 1.0 / k : NAN, 2.5}),
                        FF_OK);
    CU_ASSERT_EQUAL(ff_prediction_add_timing(&ctx, p, "evoformer", 7.5), FF_OK);
    CU_ASSERT_EQUAL(ff_prediction_add_note(&ctx, p, "a <b>note</b> & more"), FF_OK);
}

static void test_the_page_needs_nothing_from_outside(void)
{
    char path[256];
    make_prediction(&prediction, "x", 20);
    make_up_confidences(&prediction);
    CU_ASSERT_EQUAL_FATAL(ff_report_write(&ctx, &prediction, only, 1, in_folder(path, "report.html")), FF_OK);
    char *text = content_of(path);
    CU_ASSERT_EQUAL(strncmp(text, "<!doctype html>", 15), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "</html>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "default-src 'none'"));
    static const char *const outside[] = {" src=", "@import", "url(", "fetch(", "https://", "XMLHttpRequest"};
    for (size_t k = 0; k < sizeof outside / sizeof *outside; k++)
        CU_ASSERT_PTR_NULL(strstr(text, outside[k]));
    const char *name_space = strstr(text, "http://"); /* the name of SVG, no address that is asked */
    CU_ASSERT_PTR_NOT_NULL_FATAL(name_space);
    CU_ASSERT_EQUAL(strncmp(name_space, "http://www.w3.org/2000/svg", 26), 0);
    CU_ASSERT_PTR_NULL(strstr(name_space + 7, "http://"));
    free(text);
}

static void test_names_cannot_leave_the_data(void)
{
    char path[256];
    make_prediction(&prediction, "</script><script>alert(1)</script><!-- \xff\" @DATA@", 4);
    CU_ASSERT_EQUAL_FATAL(ff_report_write(&ctx, &prediction, only, 1, in_folder(path, "report.html")), FF_OK);
    char *text = content_of(path);
    CU_ASSERT_PTR_NULL(strstr(text, "<script>alert"));
    CU_ASSERT_PTR_NULL(strstr(text, "<!--"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\\u003c/script>\\u003cscript>alert(1)"));
    free(text);
}

#ifdef FF_HAVE_CJSON
static cJSON *data_of(const char *path)
{
    char *text = content_of(path);
    const char *begin = strstr(text, "id=\"data\">");
    CU_ASSERT_PTR_NOT_NULL_FATAL(begin);
    char *end = strstr(begin, "</script>");
    CU_ASSERT_PTR_NOT_NULL_FATAL(end);
    *end = '\0';
    cJSON *json = cJSON_Parse(begin + 10);
    free(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    return json;
}

/* Bytes of a base64 text; the caller frees them. */
static uint8_t *bytes_of(const cJSON *item, int64_t *count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = cJSON_GetStringValue(item);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    uint8_t *bytes = malloc(strlen(text));
    uint32_t bits = 0;
    *count = 0;
    for (int64_t k = 0; text[k] != '\0' && text[k] != '='; k++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, text[k]) - digits);
        if (k % 4 != 0)
            bytes[(*count)++] = (uint8_t)(bits >> (6 - 2 * (k % 4)));
    }
    return bytes;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static void test_its_numbers_are_the_predictions(void)
{
    char path[256];
    const int64_t n = 37;
    int64_t count;
    make_prediction(&prediction, "x", n);
    make_up_confidences(&prediction);
    add_extras(&prediction);
    CU_ASSERT_EQUAL_FATAL(ff_report_write(&ctx, &prediction, only, 1, in_folder(path, "report.html")), FF_OK);
    cJSON *json = data_of(path);
    const cJSON *pae = cJSON_GetObjectItem(json, "pae"), *msa = cJSON_GetObjectItem(json, "msa"),
                *ca = cJSON_GetObjectItem(json, "ca");
    CU_ASSERT_EQUAL(number(pae, "side"), n);
    uint8_t *bytes = bytes_of(cJSON_GetObjectItem(pae, "bytes"), &count);
    CU_ASSERT_EQUAL_FATAL(count, n * n);
    double worst = 0;
    for (int64_t k = 0; k < n * n; k++)
        worst = fmax(worst, fabs(bytes[k] * 31.75 / 255 - prediction.pae[k]));
    CU_ASSERT(worst <= 31.75 / 510 + 1e-6); /* half a step */
    free(bytes);
    bytes = bytes_of(cJSON_GetObjectItem(msa, "bytes"), &count);
    CU_ASSERT_EQUAL_FATAL(count, (50 * n + 7) / 8);
    int64_t wrong = 0;
    for (int64_t k = 0; k < 50 * n; k++)
        wrong += (bytes[k / 8] >> (k % 8) & 1) != prediction.coverage[k];
    CU_ASSERT_EQUAL(wrong, 0);
    free(bytes);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(ca), 3 * n);
    CU_ASSERT(fabs(cJSON_GetArrayItem(ca, 5)->valuedouble -
                   prediction.atom37_positions[(FF_NUM_ATOM37 + FF_ATOM_CA) * 3 + 2]) <= 0.00501);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(json, "history")), 3);
    cJSON_Delete(json);
}

static void test_large_maps_are_means_over_squares(void)
{
    char path[256];
    const int64_t n = FF_REPORT_MAX_SIDE * 2 + 1,
                  side = FF_REPORT_MAX_SIDE / 3 * 2 + 1; /* squares of 3, the last cut */
    int64_t count;
    make_prediction(&prediction, "x", n);
    prediction.contact_probability = calloc((size_t)(n * n), sizeof(float));
    prediction.contact_probability[0 * n + 4] = 1.0f;
    prediction.contact_probability[(n - 1) * n + n - 1] = 0.6f;
    CU_ASSERT_EQUAL_FATAL(ff_report_write(&ctx, &prediction, only, 1, in_folder(path, "report.html")), FF_OK);
    cJSON *json = data_of(path);
    const cJSON *map = cJSON_GetObjectItem(json, "contacts");
    CU_ASSERT_EQUAL(number(map, "step"), 3);
    CU_ASSERT_EQUAL(number(map, "side"), side);
    uint8_t *bytes = bytes_of(cJSON_GetObjectItem(map, "bytes"), &count);
    CU_ASSERT_EQUAL_FATAL(count, side * side);
    CU_ASSERT_EQUAL(bytes[1], 28);                 /* 1 / 9 of 255 */
    CU_ASSERT_EQUAL(bytes[side * side - 1], 153); /* one pair: 0.6 of 255 */
    CU_ASSERT_EQUAL(bytes[0], 0);
    free(bytes);
    cJSON_Delete(json);
}
#endif

/* Uses every control and reports the first error in the page's title. */
static const char exercise[] =
    "<script>\"use strict\";\n"
    "const texts = [], errors = [];\n"
    "addEventListener('error', e => errors.push(e.message));\n"
    "const move = (target, u, v) => { const r = target.getBoundingClientRect(); target.dispatchEvent(new "
    "PointerEvent('pointermove',"
    " {bubbles: true, clientX: r.left + u * r.width, clientY: r.top + v * r.height})); "
    "texts.push($('tip').textContent); };\n"
    "move($('pae'), 0.5, 0.4); move($('contacts'), 0.5, 0.4); move($('msa'), 0.5, 0.4); move($('plddt').firstChild, "
    "0.5, 0.5);\n"
    "const before = scene.turn.join();\n"
    "for (const key of ['ArrowLeft', 'ArrowUp', '+', '-'])\n"
    "  $('trace').dispatchEvent(new KeyboardEvent('keydown', {key}));\n"
    "$('zoom-in').click(); drawAll();\n"
    "const turned = scene.turn.join() !== before, m = scene.turn;\n"
    "let off = 0;\n" /* the matrix stays a rotation */
    "for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++)\n"
    "  off = Math.max(off, Math.abs(m[3*i]*m[3*j] + m[3*i+1]*m[3*j+1] + m[3*i+2]*m[3*j+2] - (i === j ? 1 : 0)));\n"
    "const p = $('pae').getContext('2d').getImageData(0, 0, $('pae').width, $('pae').height).data;\n"
    "const colours = new Set(); for (let k = 0; k < p.length; k += 4) colours.add(p[k] << 16 | p[k + 1] << 8 | p[k + "
    "2]);\n"
    "const t = $('trace').getContext('2d').getImageData(0, 0, $('trace').width, $('trace').height).data;\n"
    "let inked = 0; for (let k = 3; k < t.length; k += 4) inked += t[k] > 0;\n"
    "const out = document.createElement('pre'); out.id = 'exercise';\n"
    "out.textContent = 'tips ' + texts.join(' | ') + '; turned ' + turned + '; off ' + (off < 1e-9) + '; colours ' + "
    "(colours.size > 50) +\n"
    "  '; inked ' + (inked > 1000) + '; errors ' + errors.length;\n"
    "document.body.append(out);\n"
    "</script>\n";

static void test_a_browser_draws_it_without_errors(void)
{
    char path[256], tested[256], command[1024];
    int status;
    if (!have_program("chromium")) {
        ff_test_skip("no program chromium");
        return;
    }
    make_prediction(&prediction, "x", 60);
    make_up_confidences(&prediction);
    add_extras(&prediction);
    CU_ASSERT_EQUAL_FATAL(ff_report_write(&ctx, &prediction, only, 1, in_folder(path, "report.html")), FF_OK);
    char *page = content_of(path);
    FILE *file = fopen(in_folder(tested, "tested.html"), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(page, file);
    fputs(exercise, file);
    fclose(file);
    free(page);
    snprintf(command, sizeof command,
             "timeout 100 chromium --headless --no-sandbox --disable-gpu --user-data-dir=%s/profile"
             " --enable-logging=stderr --window-size=1200,1600 --dump-dom file://%s 2>%s/log",
             folder, tested, folder);
    char *dom = output_of(command, &status);
    CU_ASSERT_EQUAL(status, 0);
    const char *found = strstr(dom, "id=\"exercise\">");
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    if (strstr(found, "; turned true; off true; colours true; inked true; errors 0</pre>") == NULL)
        printf("    the page says: %.400s\n", found);
    CU_ASSERT_PTR_NOT_NULL(strstr(found, "; turned true; off true; colours true; inked true; errors 0</pre>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(found, "tips aligned on "));
    CU_ASSERT_PTR_NOT_NULL(strstr(found, " of 50 rows; this row is "));
    CU_ASSERT_PTR_NOT_NULL(strstr(found, ": pLDDT "));
    CU_ASSERT_PTR_NOT_NULL(strstr(dom, "<polyline points="));
    CU_ASSERT_PTR_NOT_NULL(strstr(dom, "a &lt;b&gt;note&lt;/b&gt; &amp; more"));
    free(dom);
    snprintf(command, sizeof command, "grep CONSOLE %s/log", folder); /* console messages of the page */
    char *log = output_of(command, &status);
    CU_ASSERT_STRING_EQUAL(log, "");
    free(log);
}

static CU_TestInfo tests[] = {
    {"the_page_needs_nothing_from_outside", test_the_page_needs_nothing_from_outside},
    {"names_cannot_leave_the_data", test_names_cannot_leave_the_data},
#ifdef FF_HAVE_CJSON
    {"its_numbers_are_the_predictions", test_its_numbers_are_the_predictions},
    {"large_maps_are_means_over_squares", test_large_maps_are_means_over_squares},
#endif
    {"a_browser_draws_it_without_errors", test_a_browser_draws_it_without_errors},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_report = {"infer/report", NULL, NULL, set_up, tear_down, tests};
