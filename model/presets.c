#include "model/presets.h"

#include <stdio.h>
#include <string.h>

#define PUBLISHED_NAMES "model_1 .. model_5, model_1_ptm .. model_5_ptm"

static const char *const names[] = {"model_1",     "model_2",     "model_3",     "model_4",
                                    "model_5",     "model_1_ptm", "model_2_ptm", "model_3_ptm",
                                    "model_4_ptm", "model_5_ptm", "small",       "tiny"};
enum { NUM_NAMES = sizeof names / sizeof *names, FIRST_PTM = 5 };

const char *ff_model_preset_name(int i)
{
    return i >= 0 && i < NUM_NAMES ? names[i] : NULL;
}

/* Position in `names`, or -1. */
static int find(const char *name)
{
    for (int i = 0; i < NUM_NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* ---- the sizes ---- */

/* Structure module and heads as the trunk's channels want them. */
static void set_rest(ff_model_config *config, bool ptm)
{
    const ff_evoformer_config *t = &config->evoformer;
    config->structure = ff_structure_config_default(t->c_s, t->embedder.c_z);
    config->heads = ff_heads_config_default(t->embedder.c_m, t->embedder.c_z, t->c_s, config->structure.num_channel, ptm);
}

/* model_`number`, with or without the predicted aligned error. */
static ff_status published(ff_ctx *ctx, ff_model_config *config, int number, bool ptm)
{
    FF_TRY(ff_evoformer_config_preset(ctx, &config->evoformer, number));
    const bool templates = config->evoformer.template_enabled;
    set_rest(config, ptm);
    config->max_templates = templates ? 4 : 0;
    config->num_seq = 512 - config->max_templates;
    config->num_extra_seq = number == 2 || number == 5 ? 1024 : 5120;
    config->num_recycle = 3;
    config->num_ensemble = 1;
    return FF_OK;
}

/* What our own presets change; everything else is as in model_1_ptm. */
typedef struct {
    int64_t c_m, c_z, c_e, c_s, c_t;
    int64_t num_head_msa, num_head_pair, c_triangle, c_outer, transition_factor;
    int64_t evoformer_num_block, extra_msa_num_block, template_num_block, template_num_head, template_key_dim;
    int64_t num_layer, num_head, sidechain_num_channel, plddt_num_channels;
    int64_t num_seq, num_extra_seq, max_templates, num_recycle;
} own_sizes;

static const own_sizes small = {
    .c_m = 128, .c_z = 64, .c_e = 32, .c_s = 192, .c_t = 32,
    .num_head_msa = 4, .num_head_pair = 2, .c_triangle = 64, .c_outer = 16, .transition_factor = 4,
    .evoformer_num_block = 12, .extra_msa_num_block = 2, .template_num_block = 2, .template_num_head = 2,
    .template_key_dim = 32,
    .num_layer = 8, .num_head = 8, .sidechain_num_channel = 64, .plddt_num_channels = 64,
    .num_seq = 128, .num_extra_seq = 512, .max_templates = 4, .num_recycle = 3,
};

static const own_sizes tiny = {
    .c_m = 64, .c_z = 32, .c_e = 16, .c_s = 64, .c_t = 16,
    .num_head_msa = 4, .num_head_pair = 2, .c_triangle = 32, .c_outer = 8, .transition_factor = 2,
    .evoformer_num_block = 2, .extra_msa_num_block = 1, .template_num_block = 1, .template_num_head = 1,
    .template_key_dim = 16,
    .num_layer = 4, .num_head = 4, .sidechain_num_channel = 32, .plddt_num_channels = 32,
    .num_seq = 32, .num_extra_seq = 64, .max_templates = 2, .num_recycle = 1,
};

static void set_block(ff_block_config *block, const own_sizes *s, int64_t c_m, int64_t num_head_msa)
{
    block->c_m = c_m;
    block->c_z = s->c_z;
    block->num_head_msa = num_head_msa;
    block->num_head_pair = s->num_head_pair;
    block->c_triangle = s->c_triangle;
    block->c_outer = s->c_outer;
    block->transition_factor = s->transition_factor;
}

static ff_status own(ff_ctx *ctx, ff_model_config *config, const own_sizes *s)
{
    FF_TRY(published(ctx, config, 1, true));
    ff_evoformer_config *trunk = &config->evoformer;
    trunk->embedder.c_m = s->c_m;
    trunk->embedder.c_z = s->c_z;
    trunk->embedder.c_e = s->c_e;
    set_block(&trunk->evoformer, s, s->c_m, s->num_head_msa);
    set_block(&trunk->extra_msa, s, s->c_e, s->num_head_msa);
    trunk->evoformer_num_block = s->evoformer_num_block;
    trunk->extra_msa_num_block = s->extra_msa_num_block;
    trunk->c_s = s->c_s;
    trunk->templates.c_z = s->c_z;
    trunk->templates.c_t = trunk->templates.c_triangle = s->c_t;
    trunk->templates.num_block = s->template_num_block;
    trunk->templates.num_head = trunk->templates.attention_num_head = s->template_num_head;
    trunk->templates.attention_key_dim = s->template_key_dim;
    set_rest(config, true);
    config->structure.num_layer = s->num_layer;
    config->structure.num_channel = config->heads.num_channel = s->c_s;
    config->structure.num_head = s->num_head;
    config->structure.sidechain_num_channel = s->sidechain_num_channel;
    config->heads.plddt_num_channels = s->plddt_num_channels;
    config->num_seq = s->num_seq;
    config->num_extra_seq = s->num_extra_seq;
    config->max_templates = s->max_templates;
    config->num_recycle = s->num_recycle;
    return FF_OK;
}

/* ---- by name ---- */

static ff_status unknown(ff_ctx *ctx, const char *name)
{
    if (strstr(name, "multimer") != NULL)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                       "%s predicts complexes, which this version does not; single chains: " PUBLISHED_NAMES, name);
    return FF_FAIL(ctx, FF_ERR_ARG, "there is no preset %s; there are " PUBLISHED_NAMES ", small, tiny", name);
}

ff_status ff_model_config_preset(ff_ctx *ctx, ff_model_config *config, const char *name)
{
    const int i = find(name);
    memset(config, 0, sizeof *config);
    if (i < 0 && ff_model_preset_family(name, NULL))
        return FF_FAIL(ctx, FF_ERR_ARG, "%s stands for five models; name one of them, as %s", name,
                       strcmp(name, "monomer_ptm") == 0 ? "model_1_ptm" : "model_1");
    if (i < 0)
        return unknown(ctx, name);
    if (strcmp(name, "small") == 0)
        FF_TRY(own(ctx, config, &small));
    else if (strcmp(name, "tiny") == 0)
        FF_TRY(own(ctx, config, &tiny));
    else
        FF_TRY(published(ctx, config, i % FIRST_PTM + 1, i >= FIRST_PTM));
    snprintf(config->name, sizeof config->name, "%s", name);
    return FF_OK;
}

bool ff_model_preset_family(const char *name, const char *members[FF_FAMILY_MODELS])
{
    const bool ptm = strcmp(name, "monomer_ptm") == 0;
    if (!ptm && strcmp(name, "monomer") != 0 && strcmp(name, "monomer_casp14") != 0)
        return false;
    for (int i = 0; members != NULL && i < FF_FAMILY_MODELS; i++)
        members[i] = names[i + (ptm ? FIRST_PTM : 0)];
    return true;
}

ff_status ff_model_preset_agrees(ff_ctx *ctx, const char *preset, const char *model)
{
    const char *members[FF_FAMILY_MODELS] = {NULL};
    const bool family = preset != NULL && ff_model_preset_family(preset, members);
    /* said first: beside a known model, a multimer preset is a disagreement and not just a wish we cannot meet */
    if (preset != NULL && model != NULL && strstr(preset, "multimer") != NULL && find(model) >= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "preset %s and model %s disagree: %s is a monomer model; leave out the preset",
                       preset, model, model);
    if (model != NULL && find(model) < 0)
        return unknown(ctx, model);
    if (preset != NULL && !family && find(preset) < 0)
        return unknown(ctx, preset);
    if (preset == NULL || model == NULL || strcmp(preset, model) == 0)
        return FF_OK;
    for (int i = 0; family && i < FF_FAMILY_MODELS; i++)
        if (strcmp(members[i], model) == 0)
            return FF_OK;
    if (family)
        return FF_FAIL(ctx, FF_ERR_ARG, "preset %s and model %s disagree; %s has %s .. %s", preset, model, preset,
                       members[0], members[FF_FAMILY_MODELS - 1]);
    return FF_FAIL(ctx, FF_ERR_ARG, "preset %s and model %s disagree; leave out one of them", preset, model);
}
