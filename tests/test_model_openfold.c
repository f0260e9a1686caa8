/* OpenFold's names and layouts: a whole small model in OpenFold's form (tests/data/weights/openfold.pt, made by
 * make_weight_fixtures.py) comes out as AlphaFold's arrays, number by number. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/openfold_names.h"
#include "model/weights.h"
#include "tests/check.h"

#define MANIFEST "tests/data/weights/model_1_ptm.txt"
#define OPENFOLD "tests/data/weights/openfold.pt"

static ff_ctx ctx;
static ff_parameters p;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    ff_parameters_init(&p);
}

static void tear_down(void) { ff_parameters_destroy(&p); }

static void expect(ff_status got, ff_status want, const char *first, const char *second)
{
    CU_ASSERT_EQUAL(got, want);
    if (strstr(ctx.message, first) == NULL || strstr(ctx.message, second) == NULL)
        printf("    message: %s\n", ctx.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, first));
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, second));
    ff_context_clear(&ctx);
}

/* The small model of the fixture: `blocks` blocks, other lengths n -> 2 + n % 3; `odd` gets one length more. */
static void declare(int64_t blocks, const char *odd)
{
    char line[512], name[256], text[64];
    FILE *file = fopen(MANIFEST, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fgets(line, sizeof line, file) != NULL) {
        int64_t shape[FF_MAX_DIMS];
        int ndim = 0;
        CU_ASSERT_EQUAL_FATAL(sscanf(line, "%255s %63s", name, text), 2);
        for (char *s = text; *s != '\0'; s += *s == ',')
            shape[ndim++] = 2 + strtoll(s, &s, 10) % 3;
        if (strstr(name, "evoformer_iteration/") || strstr(name, "extra_msa_stack/") || strstr(name, "__layer_stack"))
            shape[0] = blocks;
        if (strcmp(name, odd) == 0)
            shape[ndim - 1]++;
        CU_ASSERT_EQUAL_FATAL(ff_parameters_add(&ctx, &p, name, ndim, shape), FF_OK);
    }
    fclose(file);
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &p, false), FF_OK);
}

static uint64_t fnv1a(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static void test_every_array_comes_from_openfolds_form(void)
{
    declare(2, "");
    CU_ASSERT_EQUAL(p.count, 338);
    CU_ASSERT_EQUAL_FATAL(ff_weights_read(&ctx, &p, OPENFOLD), FF_OK);
    for (int64_t k = 0; k < p.count; k++) {
        const ff_parameter *item = &p.items[k];
        const float *x = p.values + item->offset;
        int64_t wrong = 0;
        for (int64_t i = 0; i < item->size; i++)
            wrong += x[i] != (float)(int64_t)(fnv1a(item->name) % 1000 + (uint64_t)i) / 4;
        if (wrong > 0)
            printf("    %s: %lld of %lld numbers are wrong\n", item->name, (long long)wrong, (long long)item->size);
        CU_ASSERT_EQUAL(wrong, 0);
    }
}

static void test_missing_blocks_and_wrong_shapes_are_named_in_both_forms(void)
{
    declare(3, ""); /* the file has two */
    expect(ff_weights_read(&ctx, &p, OPENFOLD), FF_ERR_FORMAT, "tensor evoformer.blocks.2.",
           "which is evoformer/evoformer_iteration/");
    ff_parameters_destroy(&p);
    ff_parameters_init(&p);
    declare(2, "evoformer/preprocess_msa/weights"); /* [3, 3] and one more */
    expect(ff_weights_read(&ctx, &p, OPENFOLD), FF_ERR_FORMAT,
           "tensor ema/params/model.input_embedder.linear_msa_m.weight has shape [3, 3]",
           "evoformer/preprocess_msa/weights needs [3, 4]");
}

static void test_names_of_all_releases_come_to_one_form(void)
{
    static const char *const pairs[][2] = {
        {"evoformer.blocks.7.core.tri_mul_out.linear_a_p.weight", "evoformer.blocks.7.tri_mul_out.linear_a_p.weight"},
        {"model.evoformer.blocks.7.pair_stack.tri_mul_out.linear_a_p.weight",
         "evoformer.blocks.7.tri_mul_out.linear_a_p.weight"},
        {"module.model.evoformer.blocks.0.msa_att_col._msa_att.mha.linear_q.weight",
         "evoformer.blocks.0.msa_att_col.mha.linear_q.weight"},
        {"extra_msa_stack.stack.blocks.3.msa_transition.linear_1.bias",
         "extra_msa_stack.blocks.3.msa_transition.linear_1.bias"},
        {"template_embedder.template_pair_stack.blocks.1.tri_att_end.linear.weight",
         "template_pair_stack.blocks.1.tri_att_end.linear.weight"},
        {"template_angle_embedder.linear_1.weight", "template_single_embedder.linear_1.weight"},
        {"structure_module.ipa.linear_q_points.linear.weight", "structure_module.ipa.linear_q_points.weight"},
        {"structure_module.bb_update.linear.weight", "structure_module.bb_update.linear.weight"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char name[FF_OPENFOLD_NAME_BYTES];
        ff_openfold_normalise(pairs[i][0], name);
        CU_ASSERT_STRING_EQUAL(name, pairs[i][1]);
    }
    char lengthy[1000], name[FF_OPENFOLD_NAME_BYTES];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[999] = '\0';
    ff_openfold_normalise(lengthy, name);
    CU_ASSERT_TRUE(strlen(name) < FF_OPENFOLD_NAME_BYTES);
}

static void test_a_parameter_openfold_lacks_is_named(void)
{
    char name[FF_OPENFOLD_NAME_BYTES];
    bool stacked;
    CU_ASSERT_FALSE(ff_openfold_name("evoformer/unheard_of/weights", 0, name, &stacked));
    CU_ASSERT_FALSE(ff_openfold_name("weights", 0, name, &stacked));
    ff_parameters_add(&ctx, &p, "evoformer/unheard_of/weights", 1, (int64_t[]){3});
    CU_ASSERT_EQUAL_FATAL(ff_parameters_allocate(&ctx, &p, false), FF_OK);
    expect(ff_weights_read(&ctx, &p, OPENFOLD), FF_ERR_UNSUPPORTED, "OpenFold", "evoformer/unheard_of/weights");
}

static CU_TestInfo tests[] = {
    {"every_array_comes_from_openfolds_form", test_every_array_comes_from_openfolds_form},
    {"missing_blocks_and_wrong_shapes_are_named_in_both_forms",
     test_missing_blocks_and_wrong_shapes_are_named_in_both_forms},
    {"names_of_all_releases_come_to_one_form", test_names_of_all_releases_come_to_one_form},
    {"a_parameter_openfold_lacks_is_named", test_a_parameter_openfold_lacks_is_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_model_openfold = {"model/openfold", NULL, NULL, set_up, tear_down, tests};
