/* presets.h - all sizes of a monomer model, and the sets of them that have names.
 *
 * Published: model_1 .. model_5 and model_1_ptm .. model_5_ptm (AlphaFold 2.3; Jumper et al. 2021, Suppl. Table 5).
 * Ours: `small` (a twentieth of the arithmetic) and `tiny` (learns on two cores in minutes); both with templates and
 * the predicted aligned error. Families stand for five models: monomer (also monomer_casp14) and monomer_ptm. */
#ifndef FF_MODEL_PRESETS_H
#define FF_MODEL_PRESETS_H

#include "evoformer/embeddings_and_evoformer.h"
#include "structure/heads.h"
#include "structure/structure_module.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_PRESET_NAME_BYTES = 32, FF_FAMILY_MODELS = 5 };

typedef struct {
    char name[FF_PRESET_NAME_BYTES];
    ff_evoformer_config evoformer; /* the trunk, with c_m, c_z, c_s, block counts, templates */
    ff_structure_config structure;
    ff_heads_config heads; /* pae_num_bins 0 without predicted aligned error */
    /* of the features */
    int64_t num_seq;       /* most MSA clusters (508 = 512 less 4 templates where their torsions become MSA rows) */
    int64_t num_extra_seq; /* most extra MSA rows */
    int64_t max_templates; /* 0 without templates */
    int64_t num_recycle;   /* passes after the first */
    int64_t num_ensemble;
} ff_model_config;

/**
 * All sizes of a preset.
 * @return FF_ERR_ARG for an unknown name (the message lists those there are); FF_ERR_UNSUPPORTED for a multimer name.
 */
ff_status ff_model_config_preset(ff_ctx *ctx, ff_model_config *config, const char *name);

/** The names of single presets, in order, for i = 0, 1, ...; NULL after the last. */
const char *ff_model_preset_name(int i);

/** Whether `name` is a family; then the names of its models. `names` may be NULL. */
bool ff_model_preset_family(const char *name, const char *names[FF_FAMILY_MODELS]);

/**
 * Whether a model belongs to what was asked for: `preset` a family or a single preset, `model` a single preset.
 * Either may be NULL: nothing to disagree with.
 * @return FF_ERR_ARG with both names and what would fit; unknown names as in ff_model_config_preset.
 */
ff_status ff_model_preset_agrees(ff_ctx *ctx, const char *preset, const char *model);

#ifdef __cplusplus
}
#endif
#endif
