/* Weights in files: round trips, every kind of damage in one line with file and array, random weights as AlphaFold's.
 *
 * tests/data/weights/model_1_ptm.txt: names and shapes of the published model, and what AlphaFold's own initialiser
 * does with each array ("=" and a constant, or the standard deviation of its random numbers). */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/hdf5_file.h"
#include "io/npz.h"
#include "model/checkpoint.h"
#include "model/initialise.h"
#include "model/model.h"
#include "model/weights_fit.h"
#include "tests/check.h"

#define MANIFEST "tests/data/weights/model_1_ptm.txt"

static ff_ctx ctx;
static char folder[64], path[128], other[128];
static ff_parameters a, b;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    ff_parameters_init(&a);
    ff_parameters_init(&b);
    strcpy(folder, "/tmp/ff_weights_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/params_model_1.npz", folder);
    snprintf(other, sizeof other, "%s/checkpoint.h5", folder);
}

static void tear_down(void)
{
    char command[96];
    ff_parameters_destroy(&a);
    ff_parameters_destroy(&b);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void expect(ff_status got, ff_status want, const char *first, const char *second)
{
    CU_ASSERT_EQUAL(got, want);
    if (strstr(ctx.message, first) == NULL || strstr(ctx.message, second) == NULL)
        printf("    message: %s\n", ctx.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, first));
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, second));
    CU_ASSERT_PTR_NULL(strchr(ctx.message, '\n'));
    ff_context_clear(&ctx);
}

static const struct {
    const char *name;
    int ndim;
    int64_t shape[4];
} few[] = {
    {"evoformer/preprocess_1d/weights", 2, {22, 7}},
    {"evoformer/preprocess_1d/bias", 1, {7}},
    {"evoformer/evoformer_iteration/msa_column_attention/attention/query_w", 4, {3, 6, 2, 3}},
    {"structure_module/fold_iteration/invariant_point_attention/trainable_point_weights", 1, {5}},
};
enum { FEW = sizeof few / sizeof *few };

/* The few arrays with numbers that no two share; `skip` leaves one out. */
static void make_few(ff_parameters *p, int skip)
{
    for (int i = 0; i < FEW; i++)
        if (i != skip)
            CU_ASSERT_EQUAL_FATAL(ff_parameters_add(&ctx, p, few[i].name, few[i].ndim, few[i].shape), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, p, false), FF_OK);
}

static void fill(ff_parameters *p, float first)
{
    for (int64_t i = 0; i < p->total; i++)
        p->values[i] = first + (float)i / 3;
}

/* The declared arrays are the same, bit for bit (the padding between them is not looked at). */
static bool same_values(const ff_parameters *p, const float *x, const float *y)
{
    for (int64_t k = 0; k < p->count; k++) {
        const ff_parameter *item = &p->items[k];
        if (memcmp(x + item->offset, y + item->offset, (size_t)item->size * sizeof *x) != 0)
            return false;
    }
    return true;
}

static void test_names_go_both_ways(void)
{
    char name[FF_WEIGHT_NAME_BYTES], stored[FF_WEIGHT_NAME_BYTES];
    static const char published[] = "alphafold/alphafold_iteration/evoformer/preprocess_1d//weights";
    ff_weights_memory_name(published, name);
    CU_ASSERT_STRING_EQUAL(name, "evoformer/preprocess_1d/weights");
    ff_weights_published_name(name, stored);
    CU_ASSERT_STRING_EQUAL(stored, published);
    ff_weights_published_name("alphafold/alphafold_iteration/evoformer/preprocess_1d/weights", stored);
    CU_ASSERT_STRING_EQUAL(stored, published);
    ff_weights_memory_name("s/template_pair_stack/__layer_stack_no_per_layer/pair_transition//x", name);
    CU_ASSERT_STRING_EQUAL(name, "s/template_pair_stack/__layer_stack_no_state/pair_transition/x");
    char lengthy[1000];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[999] = '\0';
    ff_weights_memory_name(lengthy, name);
    CU_ASSERT_TRUE(strlen(name) < FF_WEIGHT_NAME_BYTES);
}

static void test_npz_comes_back_under_published_names(void)
{
    make_few(&a, -1);
    make_few(&b, -1);
    fill(&a, 1);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    ff_npz *npz;
    CU_ASSERT_EQUAL_FATAL(ff_npz_open(&ctx, &npz, path), FF_OK);
    CU_ASSERT_EQUAL(ff_npz_count(npz), FEW);
    CU_ASSERT_EQUAL(ff_npz_find(npz, "alphafold/alphafold_iteration/evoformer/preprocess_1d//bias"), 1); /* by name */
    ff_npz_close(npz);
    CU_ASSERT_EQUAL_FATAL(ff_weights_read(&ctx, &b, path), FF_OK);
    CU_ASSERT_TRUE(same_values(&a, a.values, b.values));
}

static void test_a_missing_array_is_named(void)
{
    make_few(&a, 2);
    make_few(&b, -1);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    expect(ff_weights_read(&ctx, &b, path), FF_ERR_FORMAT, path, few[2].name);
    const ff_checkpoint_header header = {.preset = "tiny"};
    const ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, a.values, false, false};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &a, &block, 1), FF_OK);
    expect(ff_weights_read(&ctx, &b, other), FF_ERR_FORMAT, other, few[2].name);
}

static void test_surplus_arrays_are_only_noted(void)
{
    char text[512] = "";
    make_few(&a, -1);
    make_few(&b, 2);
    fill(&a, 1);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    FILE *log = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(log);
    ctx.log.file = log;
    ctx.log.level = FF_LOG_INFO;
    CU_ASSERT_EQUAL(ff_weights_read(&ctx, &b, path), FF_OK);
    rewind(log);
    CU_ASSERT_PTR_NOT_NULL(fgets(text, sizeof text, log));
    fclose(log);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 arrays are not of this model"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "msa_column_attention/attention//query_w"));
}

static void test_a_wrong_shape_is_named_with_both(void)
{
    make_few(&a, -1);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    const ff_checkpoint_header header = {.preset = "tiny"};
    const ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, a.values, false, false};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &a, &block, 1), FF_OK);
    ff_parameters_add(&ctx, &b, few[0].name, 2, (int64_t[]){7, 22}); /* as many numbers, but transposed */
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &b, false), FF_OK);
    expect(ff_weights_read(&ctx, &b, path), FF_ERR_FORMAT, few[0].name, "has shape [22, 7], the model needs [7, 22]");
    expect(ff_weights_read(&ctx, &b, other), FF_ERR_FORMAT, few[0].name, "has shape [22, 7], the model needs [7, 22]");
}

static long length_of(const char *file)
{
    FILE *f = fopen(file, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fseek(f, 0, SEEK_END);
    const long length = ftell(f);
    fclose(f);
    return length;
}

static void test_a_file_cut_anywhere_is_refused(void)
{
    make_few(&a, -1);
    make_few(&b, -1);
    fill(&a, 1);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    const ff_checkpoint_header header = {.preset = "tiny"};
    const ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, a.values, false, false};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &a, &block, 1), FF_OK);
    for (int which = 0; which < 2; which++) {
        const char *file = which == 0 ? path : other;
        for (long cut = length_of(file) - 1; cut > 0; cut -= 97) {
            CU_ASSERT_EQUAL_FATAL(truncate(file, cut), 0);
            expect(ff_weights_read(&ctx, &b, file), FF_ERR_FORMAT, file, "");
        }
        CU_ASSERT_EQUAL_FATAL(truncate(file, 0), 0);
        expect(ff_weights_read(&ctx, &b, file), FF_ERR_FORMAT, file, "holds no weights");
    }
}

static void test_what_a_file_is_is_told_by_its_content(void)
{
    ff_weights_kind kind;
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs("ATOM      1  N   MET A   1", f);
    fclose(f);
    expect(ff_weights_get_kind(&ctx, path, &kind), FF_ERR_FORMAT, path, "holds no weights");
    f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs("\x80\x02\x8a\x0alP", f);
    fclose(f);
    expect(ff_weights_get_kind(&ctx, path, &kind), FF_ERR_UNSUPPORTED, path, "before version 1.6");
    unlink(path);
    expect(ff_weights_get_kind(&ctx, path, &kind), FF_ERR_IO, "params_model_1.npz: No such file",
           "alphafold_params_2022-12-06.tar (licence CC BY 4.0)");
    expect(ff_weights_absent(&ctx, "model_2_ptm"), FF_ERR_ARG, "params_model_2_ptm.npz",
           "https://storage.googleapis.com/alphafold/alphafold_params_2022-12-06.tar (licence CC BY 4.0)");
    expect(ff_weights_absent(&ctx, "tiny"), FF_ERR_ARG, "fastfold-weights init --preset tiny", "CC BY 4.0");
    expect(ff_weights_absent(&ctx, NULL), FF_ERR_ARG, "--weights FILE", "CC BY 4.0");
}

/* ---- checkpoints ---- */

static float *block_of(const ff_parameters *p, float first)
{
    float *x = calloc((size_t)p->total, sizeof *x);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    for (int64_t i = 0; first > 0 && i < p->total; i++)
        x[i] = first * (float)i;
    return x;
}

static void test_a_checkpoint_keeps_blocks_step_and_numbers(void)
{
    make_few(&a, -1);
    make_few(&b, -1);
    fill(&a, 1);
    float *ema = block_of(&a, 0.5f), *moment = block_of(&a, 1e-9f), *got_ema = block_of(&a, 0), *got = block_of(&a, 0);
    ff_checkpoint_header header = {.preset = "tiny", .step = 123456789012}, back;
    CU_ASSERT_EQUAL(ff_checkpoint_set_number(&ctx, &header, "samples", 0x1p53), FF_OK);
    CU_ASSERT_EQUAL(ff_checkpoint_set_number(&ctx, &header, "loss", 0.1), FF_OK);
    CU_ASSERT_EQUAL(ff_checkpoint_set_number(&ctx, &header, "loss", 0.3), FF_OK);
    const ff_checkpoint_block blocks[] = {{FF_CHECKPOINT_PARAMETERS, a.values, false, false},
                                          {FF_CHECKPOINT_EMA, ema, false, false},
                                          {"adam/first_moment", moment, false, false}};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &a, blocks, 3), FF_OK);
    ff_checkpoint_block in[] = {{FF_CHECKPOINT_PARAMETERS, b.values, false, false},
                                {FF_CHECKPOINT_EMA, got_ema, true, false},
                                {"adam/first_moment", got, false, false},
                                {"adam/second_moment", NULL, true, false}};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_read(&ctx, other, &back, &b, in, 4), FF_OK);
    CU_ASSERT_STRING_EQUAL(back.preset, "tiny");
    CU_ASSERT_EQUAL(back.step, 123456789012);
    CU_ASSERT_EQUAL(back.num_numbers, 2);
    CU_ASSERT_EQUAL(ff_checkpoint_get_number(&back, "samples", 0), 0x1p53);
    CU_ASSERT_EQUAL(ff_checkpoint_get_number(&back, "loss", 0), 0.3);
    CU_ASSERT_EQUAL(ff_checkpoint_get_number(&back, "none", -7), -7);
    CU_ASSERT_TRUE(in[0].found && in[1].found && in[2].found && !in[3].found);
    CU_ASSERT_TRUE(same_values(&a, a.values, b.values));
    CU_ASSERT_TRUE(same_values(&a, ema, got_ema));
    CU_ASSERT_TRUE(same_values(&a, moment, got));
    in[3].optional = false;
    expect(ff_checkpoint_read(&ctx, other, &back, &b, in, 4), FF_ERR_FORMAT, other, "adam/second_moment");
    CU_ASSERT_EQUAL_FATAL(ff_weights_read(&ctx, &b, other), FF_OK); /* for inference: the average */
    CU_ASSERT_TRUE(same_values(&a, ema, b.values));
    CU_ASSERT_EQUAL_FATAL(ff_weights_read_last(&ctx, &b, other), FF_OK);
    CU_ASSERT_TRUE(same_values(&a, a.values, b.values));
    free(ema);
    free(moment);
    free(got_ema);
    free(got);
}

static void test_a_flipped_byte_of_a_checkpoint_is_noticed(void)
{
    make_few(&a, -1);
    fill(&a, 1);
    ff_checkpoint_header header = {.preset = "tiny", .step = 77}, back;
    CU_ASSERT_EQUAL(ff_checkpoint_set_number(&ctx, &header, "samples", 5), FF_OK);
    ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, a.values, false, false};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &a, &block, 1), FF_OK);
    const long length = length_of(other);
    FILE *f = fopen(other, "r+b");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (long at = 0; at < length; at++) {
        fseek(f, at, SEEK_SET);
        const int was = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(was ^ (1 << at % 8), f);
        fflush(f);
        expect(ff_checkpoint_read_header(&ctx, other, &back), FF_ERR_FORMAT, other, at < length - 32 ? "checksum" : "");
        fseek(f, at, SEEK_SET);
        fputc(was, f);
    }
    fclose(f);
    CU_ASSERT_EQUAL(ff_checkpoint_read_header(&ctx, other, &back), FF_OK);
    CU_ASSERT_EQUAL(back.step, 77);
}

static void test_other_hdf5_files_and_versions_are_told_apart(void)
{
    ff_checkpoint_header back;
    ff_hdf5_writer *w;
    for (int version = 0; version < 3; version += 2) {
        CU_ASSERT_EQUAL_FATAL(ff_hdf5_create(&ctx, &w, other), FF_OK);
        CU_ASSERT_EQUAL(
            ff_hdf5_write_text_attribute(&ctx, w, "/", "format", version == 0 ? "x" : "fastfold checkpoint"), FF_OK);
        CU_ASSERT_EQUAL(ff_hdf5_write_number_attribute(&ctx, w, "/", "version", version), FF_OK);
        CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit_sealed(&ctx, w), FF_OK);
        expect(ff_checkpoint_read_header(&ctx, other, &back), FF_ERR_FORMAT, other,
               version == 0 ? "not a checkpoint" : "version 2; this program reads version 1");
    }
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_create(&ctx, &w, other), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit(&ctx, w), FF_OK);
    expect(ff_checkpoint_read_header(&ctx, other, &back), FF_ERR_FORMAT, other, "no seal");
}

static void test_conversion_both_ways_keeps_every_bit(void)
{
    make_few(&a, -1);
    fill(&a, 1);
    a.values[a.items[1].offset] = -0.0f;
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_declare_as_in_file(&ctx, &b, path), FF_OK);
    CU_ASSERT_EQUAL(b.count, FEW);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &b, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_read(&ctx, &b, path), FF_OK);
    const ff_checkpoint_header header = {.preset = "", .step = 0};
    const ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, b.values, false, false};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &b, &block, 1), FF_OK);
    ff_parameters_destroy(&b);
    ff_parameters_init(&b);
    CU_ASSERT_EQUAL_FATAL(ff_weights_declare_as_in_file(&ctx, &b, other), FF_OK);
    CU_ASSERT_EQUAL(b.count, FEW);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &b, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_read(&ctx, &b, other), FF_OK);
    for (int i = 0; i < FEW; i++) {
        const ff_parameter *want = ff_parameters_find(&a, few[i].name), *got = ff_parameters_find(&b, few[i].name);
        CU_ASSERT_FATAL(got != NULL && got->ndim == want->ndim && got->size == want->size);
        CU_ASSERT_EQUAL(memcmp(a.values + want->offset, b.values + got->offset, (size_t)got->size * sizeof(float)), 0);
    }
}

/* ---- presets and files ---- */

static void declare_preset(ff_parameters *p, const char *preset)
{
    ff_model_config config;
    CU_ASSERT_EQUAL_FATAL(ff_model_config_preset(&ctx, &config, preset), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_model_declare(&ctx, &config, p), FF_OK);
}

/* The next array of the manifest; false at its end. */
static bool next_line(FILE *file, char name[256], int *ndim, int64_t *shape, char rule[32])
{
    char line[512], text[64];
    if (fgets(line, sizeof line, file) == NULL)
        return false;
    CU_ASSERT_EQUAL_FATAL(sscanf(line, "%255s %63s %31s", name, text, rule), 3);
    *ndim = 0;
    for (char *s = text; *s != '\0'; s += *s == ',')
        shape[(*ndim)++] = strtoll(s, &s, 10);
    return true;
}

static void test_presets_declare_the_published_arrays(void)
{
    /* counts from the reference's own initialiser */
    static const struct {
        const char *preset;
        int64_t arrays, numbers;
        bool templates, ptm;
    } want[] = {{"model_1", 336, 93229082, true, false},     {"model_2", 336, 93229082, true, false},
                {"model_3", 265, 92899674, false, false},    {"model_5", 265, 92899674, false, false},
                {"model_1_ptm", 338, 93237338, true, true},  {"model_2_ptm", 338, 93237338, true, true},
                {"model_3_ptm", 267, 92907930, false, true}, {"model_4_ptm", 267, 92907930, false, true}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char name[256], rule[32];
        int64_t shape[FF_MAX_DIMS], numbers = 0, arrays = 0;
        int ndim;
        ff_parameters p;
        ff_parameters_init(&p);
        declare_preset(&p, want[i].preset);
        FILE *file = fopen(MANIFEST, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        while (next_line(file, name, &ndim, shape, rule)) {
            if ((!want[i].templates && strstr(name, "template") != NULL) ||
                (!want[i].ptm && strstr(name, "predicted_aligned_error") != NULL))
                continue;
            const ff_parameter *item = ff_parameters_find(&p, name);
            const bool same =
                item != NULL && item->ndim == ndim && memcmp(item->shape, shape, (size_t)ndim * sizeof *shape) == 0;
            if (!same)
                printf("    %s: %s\n", want[i].preset, name);
            CU_ASSERT_TRUE(same);
            arrays++;
            numbers += item == NULL ? 0 : item->size;
        }
        fclose(file);
        CU_ASSERT_EQUAL(arrays, want[i].arrays);
        CU_ASSERT_EQUAL(p.count, want[i].arrays);
        CU_ASSERT_EQUAL(numbers, want[i].numbers);
        ff_parameters_destroy(&p);
    }
}

static void test_a_file_tells_its_preset(void)
{
    ff_weights_fit fit;
    char text[512];
    declare_preset(&a, "tiny");
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &a, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_find_fit(&ctx, path, &fit), FF_OK);
    CU_ASSERT_EQUAL_FATAL(fit.num_fitting, 1);
    CU_ASSERT_STRING_EQUAL(fit.fitting[0], "tiny");
    const ff_checkpoint_header header = {.preset = ""};
    const ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, a.values, false, false};
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, other, &header, &a, &block, 1), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_find_fit(&ctx, other, &fit), FF_OK);
    ff_weights_format_fit(&fit, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "tiny");
    char preset[FF_PRESET_NAME_BYTES], misnamed[160];
    CU_ASSERT_EQUAL_FATAL(ff_weights_find_preset(&ctx, path, preset), FF_OK);
    CU_ASSERT_STRING_EQUAL(preset, "tiny"); /* though the file's name says model_1 */
    const ff_checkpoint_header of_model_2 = {.preset = "model_2_ptm"};
    snprintf(misnamed, sizeof misnamed, "%s/tiny.h5", folder);
    CU_ASSERT_EQUAL_FATAL(ff_checkpoint_write(&ctx, misnamed, &of_model_2, &a, &block, 1), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_find_preset(&ctx, misnamed, preset), FF_OK);
    CU_ASSERT_STRING_EQUAL(preset, "model_2_ptm"); /* what it says itself comes first */
    ff_parameters_destroy(&a);
    ff_parameters_init(&a);
    declare_preset(&a, "tiny");
    const ff_parameter *head = ff_parameters_find(&a, "predicted_lddt_head/act_0/bias");
    a.items[head - a.items].name[0] = 'P'; /* one array under another name */
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &a, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_write_npz(&ctx, &a, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_weights_find_fit(&ctx, path, &fit), FF_OK);
    ff_weights_format_fit(&fit, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "none; nearest tiny: 1 arrays missing, 0 of another shape, first "
                                 "predicted_lddt_head/act_0/bias");
    expect(ff_weights_find_preset(&ctx, path, preset), FF_ERR_FORMAT, path, "fits no preset (none; nearest tiny");
}

/* ---- random weights ---- */

enum { MANIFEST_ARRAYS = 338 };

/* The published model with one block in each stack; `rules` gets the last column. */
static void declare_manifest(ff_parameters *p, char rules[MANIFEST_ARRAYS][32])
{
    char name[256];
    int64_t shape[FF_MAX_DIMS];
    int ndim, k = 0;
    FILE *file = fopen(MANIFEST, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    for (; k < MANIFEST_ARRAYS && next_line(file, name, &ndim, shape, rules[k]); k++) {
        if (strstr(name, "evoformer_iteration") || strstr(name, "extra_msa_stack") || strstr(name, "__layer_stack"))
            shape[0] = 1;
        CU_ASSERT_EQUAL_FATAL(ff_parameters_add(&ctx, p, name, ndim, shape), FF_OK);
    }
    CU_ASSERT_EQUAL(k, MANIFEST_ARRAYS);
    fclose(file);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, p, false), FF_OK);
}

static void check_rule(const ff_parameter *item, const float *x, const char *rule)
{
    double sum = 0, squares = 0, largest = 0;
    for (int64_t i = 0; i < item->size; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        largest = fmax(largest, fabs((double)x[i]));
    }
    const double n = (double)item->size, mean = sum / n, stddev = sqrt(squares / n);
    bool good;
    if (rule[0] == '=') {
        good = fabs(mean - atof(rule + 1)) < 1e-6 && fabs(stddev - fabs(atof(rule + 1))) < 1e-6;
    } else { /* six standard errors; no distribution of ours goes past 5.8 standard deviations in 2^24 draws */
        const double want = atof(rule);
        good = fabs(mean) < 6 * want / sqrt(n) && fabs(stddev / want - 1) < 6 / sqrt(2 * n) && largest < 5.8 * want;
        if (strstr(item->name, "/weights") != NULL) /* cut off at two standard deviations of the uncut one */
            good = good && largest <= 2 * want / 0.8796 && largest > 1.8 * want;
    }
    if (!good)
        printf("    %s: mean %g, stddev %g, largest %g, rule %s\n", item->name, mean, stddev, largest, rule);
    CU_ASSERT_TRUE(good);
}

static void test_random_weights_start_as_alphafolds(void)
{
    static char rules[MANIFEST_ARRAYS][32];
    declare_manifest(&a, rules);
    CU_ASSERT_EQUAL_FATAL(ff_model_initialise(&ctx, &a, 1), FF_OK);
    for (int k = 0; k < MANIFEST_ARRAYS; k++)
        check_rule(&a.items[k], a.values + a.items[k].offset, rules[k]);
}

static void test_random_weights_are_a_function_of_the_seed(void)
{
    make_few(&a, -1);
    make_few(&b, 1); /* another layout */
    CU_ASSERT_EQUAL(ff_model_initialise(&ctx, &a, 5), FF_OK);
    CU_ASSERT_EQUAL(ff_model_initialise(&ctx, &b, 5), FF_OK);
    const ff_parameter *x = ff_parameters_find(&a, few[2].name), *y = ff_parameters_find(&b, few[2].name);
    CU_ASSERT_EQUAL(memcmp(a.values + x->offset, b.values + y->offset, (size_t)x->size * sizeof(float)), 0);
    CU_ASSERT_EQUAL(ff_model_initialise(&ctx, &b, 6), FF_OK);
    CU_ASSERT_NOT_EQUAL(memcmp(a.values + x->offset, b.values + y->offset, (size_t)x->size * sizeof(float)), 0);
}

static void test_an_array_without_a_rule_is_named(void)
{
    ff_parameters_add(&ctx, &a, "scope/unheard_of", 1, (int64_t[]){3});
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &a, false), FF_OK);
    expect(ff_model_initialise(&ctx, &a, 1), FF_ERR_ARG, "scope/unheard_of", "rule");
}

static CU_TestInfo tests[] = {
    {"names_go_both_ways", test_names_go_both_ways},
    {"npz_comes_back_under_published_names", test_npz_comes_back_under_published_names},
    {"a_missing_array_is_named", test_a_missing_array_is_named},
    {"surplus_arrays_are_only_noted", test_surplus_arrays_are_only_noted},
    {"a_wrong_shape_is_named_with_both", test_a_wrong_shape_is_named_with_both},
    {"a_file_cut_anywhere_is_refused", test_a_file_cut_anywhere_is_refused},
    {"what_a_file_is_is_told_by_its_content", test_what_a_file_is_is_told_by_its_content},
    {"a_checkpoint_keeps_blocks_step_and_numbers", test_a_checkpoint_keeps_blocks_step_and_numbers},
    {"a_flipped_byte_of_a_checkpoint_is_noticed", test_a_flipped_byte_of_a_checkpoint_is_noticed},
    {"other_hdf5_files_and_versions_are_told_apart", test_other_hdf5_files_and_versions_are_told_apart},
    {"conversion_both_ways_keeps_every_bit", test_conversion_both_ways_keeps_every_bit},
    {"presets_declare_the_published_arrays", test_presets_declare_the_published_arrays},
    {"a_file_tells_its_preset", test_a_file_tells_its_preset},
    {"random_weights_start_as_alphafolds", test_random_weights_start_as_alphafolds},
    {"random_weights_are_a_function_of_the_seed", test_random_weights_are_a_function_of_the_seed},
    {"an_array_without_a_rule_is_named", test_an_array_without_a_rule_is_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_model_weights = {"model/weights", NULL, NULL, set_up, tear_down, tests};
