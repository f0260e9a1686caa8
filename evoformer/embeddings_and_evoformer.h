/* embeddings_and_evoformer.h - the whole trunk: from features to msa, pair and single (AlphaFold's
 * EmbeddingsAndEvoformer; Jumper et al. 2021, Suppl. Alg. 2 lines 5-18). */
#ifndef FF_EVOFORMER_EMBEDDINGS_AND_EVOFORMER_H
#define FF_EVOFORMER_EMBEDDINGS_AND_EVOFORMER_H

#include "evoformer/block.h"
#include "evoformer/embedders.h"
#include "evoformer/template.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_embedder_config embedder;
    ff_block_config evoformer, extra_msa;
    int64_t evoformer_num_block, extra_msa_num_block;
    int64_t c_s;
    bool template_enabled, embed_torsion_angles;
    ff_template_config templates;
    bool checkpoint;          /* keep only the inputs of each block for the backward pass */
    int64_t num_plain_block;  /* with checkpoint: the last Evoformer blocks that keep everything all the same */
} ff_evoformer_config;

/** AlphaFold's published sizes: monomer `model_1` to `model_5` by number; 1 and 2 have templates. FF_ERR_ARG otherwise. */
ff_status ff_evoformer_config_preset(ff_ctx *ctx, ff_evoformer_config *config, int model);

typedef struct {
    ff_evoformer_config config;
    ff_embedder embedder;
    ff_block *extra_msa_stack; /* owned */
    ff_block *evoformer;       /* owned */
    ff_template_embedder templates;
    ff_template_torsion torsion;
    ff_linear_layer single_activations;
} ff_evoformer;

/** Declare all names and shapes below `scope` (before ff_parameters_allocate). */
ff_status ff_evoformer_declare(ff_ctx *ctx, ff_parameters *parameters, const char *scope,
                               const ff_evoformer_config *config);
/** Bind to them. ff_evoformer_destroy frees what `w` owns, also after a failure. */
ff_status ff_evoformer_bind(ff_ctx *ctx, ff_parameters *parameters, const char *scope,
                            const ff_evoformer_config *config, ff_evoformer *w);
void ff_evoformer_destroy(ff_evoformer *w);

/* All arrays are borrowed. Plain pointers are host memory and must outlive the backward pass. */
typedef struct {
    int64_t num_res, num_seq, num_extra_seq, num_templ;
    const int32_t *aatype;        /* [num_res], 0..20 */
    const int32_t *residue_index; /* [num_res] */
    const int32_t *extra_msa;     /* [num_extra_seq, num_res], 0..22 */
    ff_tensor *target_feat;       /* [num_res, 22] */
    ff_tensor *msa_feat;          /* [num_seq, num_res, 49] */
    ff_tensor *extra_has_deletion, *extra_deletion_value; /* [num_extra_seq, num_res] */
    ff_tensor *seq_mask;                                  /* [num_res] */
    ff_tensor *msa_mask;                                  /* [num_seq, num_res] */
    ff_tensor *extra_msa_mask;                            /* [num_extra_seq, num_res] */
    const float *prev_pos;                                /* [num_res, 37, 3] of the previous recycle; NULL = zeros */
    ff_tensor *prev_msa_first_row;                        /* [num_res, c_m]; NULL = zeros */
    ff_tensor *prev_pair;                                 /* [num_res_local, num_res, c_z]; NULL = zeros */
    ff_tensor **release_prev_pair; /* NULL, or where the caller's reference to prev_pair lies: without a tape it is given back as soon as
                                      it is embedded (a whole pair less for the rest of the pass) */
    const ff_template *templates;                         /* [num_templ] */
    const float *template_mask;                           /* [num_templ] */
} ff_evoformer_features;

/* Each a reference the caller releases; NULL after a failure. Under DAP msa and pair are this rank's rows, which
 * ff_evoformer_output_gather makes whole. */
typedef struct {
    ff_tensor *msa;           /* [num_seq_local, num_res, c_m], without the template rows */
    ff_tensor *msa_first_row; /* [num_res, c_m] */
    ff_tensor *pair;          /* [num_res_local, num_res, c_z] */
    ff_tensor *single;        /* [num_res, c_s] */
    int64_t num_seq, num_res, num_rows; /* num_rows: with the template rows, which are sharded together with the MSA's */
} ff_evoformer_output;

/** Features are whole on every rank, but for prev_pair; each rank embeds and computes its own rows. */
ff_status ff_evoformer_forward(ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f,
                               ff_evoformer_output *out);
/** msa and pair whole on every rank, on the tape if there is one. One rank: nothing changes. */
ff_status ff_evoformer_output_gather(ff_ctx *ctx, ff_evoformer_output *out);
void ff_evoformer_output_release(ff_evoformer_output *out);

#ifdef __cplusplus
}
#endif
#endif
