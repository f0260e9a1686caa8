/* Presets: AlphaFold's published sizes (config.py of AlphaFold 2.3), and names that do not fit each other. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "model/presets.h"
#include "tests/check.h"

static ff_ctx ctx;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
}

static void tear_down(void) {}

static void test_published_sizes_of_the_features(void)
{
    static const struct {
        const char *name;
        int64_t num_seq, num_extra_seq, max_templates;
        bool ptm;
    } want[] = {{"model_1", 508, 5120, 4, false},    {"model_2", 508, 1024, 4, false},
                {"model_3", 512, 5120, 0, false},    {"model_4", 512, 5120, 0, false},
                {"model_5", 512, 1024, 0, false},    {"model_1_ptm", 508, 5120, 4, true},
                {"model_2_ptm", 508, 1024, 4, true}, {"model_3_ptm", 512, 5120, 0, true},
                {"model_4_ptm", 512, 5120, 0, true}, {"model_5_ptm", 512, 1024, 0, true}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        ff_model_config c;
        CU_ASSERT_EQUAL_FATAL(ff_model_config_preset(&ctx, &c, want[i].name), FF_OK);
        CU_ASSERT_STRING_EQUAL(c.name, want[i].name);
        CU_ASSERT_STRING_EQUAL(ff_model_preset_name((int)i), want[i].name);
        CU_ASSERT_EQUAL(c.num_seq, want[i].num_seq);
        CU_ASSERT_EQUAL(c.num_extra_seq, want[i].num_extra_seq);
        CU_ASSERT_EQUAL(c.max_templates, want[i].max_templates);
        CU_ASSERT_EQUAL(c.evoformer.template_enabled, want[i].max_templates > 0);
        CU_ASSERT_EQUAL(c.evoformer.embed_torsion_angles, want[i].max_templates > 0);
        CU_ASSERT_EQUAL(c.heads.pae_num_bins > 0, want[i].ptm);
        CU_ASSERT_EQUAL(c.num_recycle, 3);
        CU_ASSERT_EQUAL(c.evoformer.evoformer_num_block, 48);
    }
}

static void test_heads_divide_channels_in_every_preset(void)
{
    for (int i = 0; ff_model_preset_name(i) != NULL; i++) {
        ff_model_config c;
        CU_ASSERT_EQUAL_FATAL(ff_model_config_preset(&ctx, &c, ff_model_preset_name(i)), FF_OK);
        const ff_evoformer_config *e = &c.evoformer;
        CU_ASSERT_EQUAL(e->evoformer.c_m, e->embedder.c_m);
        CU_ASSERT_EQUAL(e->extra_msa.c_m, e->embedder.c_e);
        CU_ASSERT_EQUAL(e->extra_msa.c_z, e->embedder.c_z);
        CU_ASSERT_EQUAL(e->templates.c_z, e->embedder.c_z);
        CU_ASSERT_EQUAL(e->evoformer.c_m % e->evoformer.num_head_msa, 0);
        CU_ASSERT_EQUAL(e->extra_msa.c_m % e->extra_msa.num_head_msa, 0);
        CU_ASSERT_EQUAL(e->evoformer.c_z % e->evoformer.num_head_pair, 0);
        CU_ASSERT_EQUAL(e->templates.c_t % e->templates.num_head, 0);
        CU_ASSERT_EQUAL(e->templates.attention_key_dim % e->templates.attention_num_head, 0);
        CU_ASSERT_TRUE(e->extra_msa.is_extra_msa && !e->evoformer.is_extra_msa);
    }
}

/* The message must be one line and hold each of the words. */
static void expect_message(ff_status got, ff_status want, const char *first, const char *second)
{
    CU_ASSERT_EQUAL(got, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, first));
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, second));
    CU_ASSERT_PTR_NULL(strchr(ctx.message, '\n'));
    ff_context_clear(&ctx);
}

static void test_preset_and_model_that_disagree_are_named(void)
{
    expect_message(ff_model_preset_agrees(&ctx, "multimer", "model_1"), FF_ERR_ARG, "multimer", "model_1");
    expect_message(ff_model_preset_agrees(&ctx, "monomer_ptm", "model_1"), FF_ERR_ARG, "monomer_ptm", "model_1_ptm");
    expect_message(ff_model_preset_agrees(&ctx, "model_2", "model_1"), FF_ERR_ARG, "model_2", "model_1");
    expect_message(ff_model_preset_agrees(&ctx, "monomer", "model_6"), FF_ERR_ARG, "model_6", "model_1");
    expect_message(ff_model_preset_agrees(&ctx, "monomre", NULL), FF_ERR_ARG, "monomre", "tiny");
    expect_message(ff_model_preset_agrees(&ctx, NULL, "model_1_multimer_v3"), FF_ERR_UNSUPPORTED, "complexes",
                   "model_1");
    CU_ASSERT_EQUAL(ff_model_preset_agrees(&ctx, "monomer", "model_5"), FF_OK);
    CU_ASSERT_EQUAL(ff_model_preset_agrees(&ctx, "monomer_ptm", "model_5_ptm"), FF_OK);
    CU_ASSERT_EQUAL(ff_model_preset_agrees(&ctx, "tiny", "tiny"), FF_OK);
    CU_ASSERT_EQUAL(ff_model_preset_agrees(&ctx, NULL, "small"), FF_OK);
    CU_ASSERT_EQUAL(ff_model_preset_agrees(&ctx, NULL, NULL), FF_OK);
}

static void test_a_family_is_not_one_preset(void)
{
    ff_model_config c;
    const char *names[FF_FAMILY_MODELS];
    expect_message(ff_model_config_preset(&ctx, &c, "monomer_ptm"), FF_ERR_ARG, "five models", "model_1_ptm");
    CU_ASSERT_FATAL(ff_model_preset_family("monomer_ptm", names));
    CU_ASSERT_STRING_EQUAL(names[4], "model_5_ptm");
    CU_ASSERT_FATAL(ff_model_preset_family("monomer", names));
    CU_ASSERT_STRING_EQUAL(names[0], "model_1");
    CU_ASSERT_FALSE(ff_model_preset_family("model_1", names));
}

static CU_TestInfo tests[] = {
    {"published_sizes_of_the_features", test_published_sizes_of_the_features},
    {"heads_divide_channels_in_every_preset", test_heads_divide_channels_in_every_preset},
    {"preset_and_model_that_disagree_are_named", test_preset_and_model_that_disagree_are_named},
    {"a_family_is_not_one_preset", test_a_family_is_not_one_preset},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_model_presets = {"model/presets", NULL, NULL, set_up, tear_down, tests};
