/* model.h - the whole monomer model: trunk, structure module and heads over recycling passes and ensembles
 * (Jumper et al. 2021, Suppl. Alg. 2; alphafold/model/modules.py AlphaFold, AlphaFoldIteration). */
#ifndef FF_MODEL_MODEL_H
#define FF_MODEL_MODEL_H

#include "evoformer/embeddings_and_evoformer.h"
#include "io/arrays.h"
#include "model/presets.h"
#include "structure/heads.h"
#include "structure/structure_module.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_model_config config;
    ff_parameters parameters; /* of all layers, by the names below alphafold/alphafold_iteration */
    ff_evoformer evoformer;
    ff_structure_module structure_module;
    ff_heads heads;
} ff_model;

/** Declare all parameters of a model (before ff_parameters_allocate), without a prefix. */
ff_status ff_model_declare(ff_ctx *ctx, const ff_model_config *config, ff_parameters *parameters);

/** Declare, allocate (zeros) and bind; then fill model->parameters. ff_model_destroy also after a failure. */
ff_status ff_model_create(ff_ctx *ctx, ff_model *model, const ff_model_config *config, bool with_grads);
/** Bind model->config to parameters elsewhere, below `scope` ("" = as declared); model->parameters stays empty. */
ff_status ff_model_bind(ff_ctx *ctx, ff_model *model, const ff_model_config *config, ff_parameters *parameters,
                        const char *scope);
void ff_model_destroy(ff_model *model);

/* ---- forward ---- */

struct ff_model_output;

/** Told after each pass, with what it gave: out->num_passes and out->change_ang, representations and structure, no heads. */
typedef void (*ff_pass_fn)(ff_ctx *ctx, void *arg, const struct ff_model_output *out);

typedef struct {
    int64_t num_recycle;      /* passes after the first; -1 = as many as the batch has slices for */
    int64_t num_ensemble;     /* slices averaged in each pass; the batch has num_ensemble (num_recycle + 1) */
    double recycle_tolerance; /* Å: stop when the change falls below it; <= 0 = never */
    bool template_torsion_placeholder; /* ff_template: undefined template torsions */
    bool input_gradients;     /* with a tape: target_feat and msa_feat of the last pass get gradients */
    bool heads;               /* compute the heads after the last pass */
    ff_pass_fn on_pass;       /* NULL = nobody */
    void *on_pass_arg;
} ff_model_options;

/** All slices, no early stop, placeholder on, heads on. */
ff_model_options ff_model_options_default(void);

/* Of the last pass; released by ff_model_output_release. */
typedef struct ff_model_output {
    int64_t num_res, num_passes; /* passes done */
    double change_ang;           /* of the CA distance matrix since the pass before, root mean square; NaN after the first, and when neither
                                    on_pass nor recycle_tolerance asks for it */
    ff_evoformer_output representations;
    ff_structure_output structure;
    ff_heads_output heads;
    struct ff_model_inputs *inputs; /* what the tape reads of the last pass's inputs; its slices' sequence masks */
} ff_model_output;

/**
 * Run the model on a batch of arrays under the names and shapes of the data pipeline (docs/architecture.md): every array has a
 * leading axis of slices, of which pass r reads slices r num_ensemble ... With a tape only the last pass is recorded; its inputs from
 * the pass before carry no gradient. Under DAP every rank has the whole batch. Dropout follows ctx->training. Batch and output must outlive the backward pass.
 *
 * @return FF_ERR_FORMAT naming an array that is missing or misshapen; FF_ERR_ARG for too few slices.
 */
ff_status ff_model_forward(ff_ctx *ctx, const ff_model *model, const ff_array_set *batch, const ff_model_options *options,
                           ff_model_output *out);
/** The results that are sharded under DAP (ff_evoformer_output, ff_heads_output) whole on every rank, used alike there; on the tape if
 * there is one. One rank: nothing changes. */
ff_status ff_model_output_gather(ff_ctx *ctx, ff_model_output *out);
/** The features of the last pass (of the first slice of its ensemble). */
const ff_evoformer_features *ff_model_output_features(const ff_model_output *out);
void ff_model_output_release(ff_model_output *out);

#ifdef __cplusplus
}
#endif
#endif
