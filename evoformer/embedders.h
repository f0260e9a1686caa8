/* embedders.h - from features to the first MSA, extra-MSA and pair representations: input embedder, relative positions,
 * recycling embedder (Jumper et al. 2021, Suppl. Alg. 3, 4, 32). Each rank makes its own rows. */
#ifndef FF_EVOFORMER_EMBEDDERS_H
#define FF_EVOFORMER_EMBEDDERS_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FF_TARGET_FEAT = 22,    /* segment break, one-hot aatype 21 */
    FF_MSA_FEAT = 49,       /* one-hot 23, has_deletion, deletion_value, cluster profile 23, cluster deletion mean */
    FF_EXTRA_MSA_CLASS = 23, /* one-hot classes of extra_msa */
    FF_EXTRA_MSA_FEAT = 25, /* and has_deletion, deletion_value */
    FF_ATOM37 = 37
};

/* Bins of a distance: one-hot of low[b]^2 < d^2 < low[b + 1]^2, strictly, low evenly spaced; the last bin is open. */
typedef struct {
    double min_ang, max_ang; /* lower edges of the first and the last bin */
    int64_t num_bins;
} ff_dgram_config;

typedef struct {
    int64_t c_m, c_z, c_e;
    int64_t max_relative_feature; /* 32: 65 classes */
    ff_dgram_config prev_pos;     /* 3.25, 20.75, 15 */
} ff_embedder_config;

typedef struct {
    ff_embedder_config config;
    ff_linear_layer preprocess_1d, preprocess_msa, left_single, right_single, prev_pos_linear;
    ff_linear_layer pair_activiations; /* of the relative positions; AlphaFold's spelling */
    ff_linear_layer extra_msa_activations;
    ff_layer_norm_layer prev_msa_first_row_norm, prev_pair_norm;
} ff_embedder;

ff_status ff_embedder_bind(const ff_binder *b, const ff_embedder_config *config, ff_embedder *w);

/**
 *     msa[s, i] = preprocess_1d(target_feat)[i] + preprocess_msa(msa_feat)[s, i];  row 0 += LN(prev_msa_first_row)
 *
 * @param target_feat         [num_res, 22]
 * @param msa_feat            [num_seq_local, num_res, 49], sequences sharded; the first of rank 0 is sequence 0
 * @param prev_msa_first_row  [num_res, c_m] of the previous recycle; NULL = zeros
 * @return [num_seq_local, num_res, c_m]
 */
ff_tensor *ff_embed_msa(ff_ctx *ctx, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *msa_feat,
                        ff_tensor *prev_msa_first_row);

/**
 *     pair[i, j] = left_single(target_feat)[i] + right_single(target_feat)[j] + prev_pos_linear(dgram(prev_pos))[i, j]
 *                  + LN(prev_pair)[i, j] + pair_activiations(relpos)[i, j]
 *
 * dgram: of pseudo-beta (CB, CA for glycine; no mask). relpos: one-hot of clip(residue_index[i] - residue_index[j] +
 * max_relative_feature, 0, 2 max_relative_feature). One-hot rows are made by chunks, never stored whole.
 *
 * @param prev_pair      [num_res_local, num_res, c_z], rows sharded; NULL = zeros
 * @param prev_pos       [num_res, 37, 3], Angstrom; NULL = zeros (no bin is set); host memory
 * @param aatype         [num_res], 0..20; host memory
 * @param residue_index  [num_res]; host memory
 * The last three must outlive the backward pass.
 * @return [num_res_local, num_res, c_z]
 */
ff_tensor *ff_embed_pair(ff_ctx *ctx, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *prev_pair,
                         const float *prev_pos, const int32_t *aatype, const int32_t *residue_index);

/**
 * extra_msa_activations of [one-hot(extra_msa), has_deletion, deletion_value].
 * Sequences sharded: extra_msa begins at this rank's first one.
 * @param extra_msa       [num_extra_seq_local, num_res], 0..22 (other values: no class); host memory that outlives the backward
 * @param has_deletion, deletion_value  [num_extra_seq_local, num_res]
 * @return [num_extra_seq_local, num_res, c_e]
 */
ff_tensor *ff_embed_extra_msa(ff_ctx *ctx, const ff_embedder *w, const int32_t *extra_msa, ff_tensor *has_deletion,
                              ff_tensor *deletion_value);

/* ---- features of residue pairs, for these embedders, templates and tests ---- */

/** The pseudo-beta atom of each residue, [num_res, 3], from atom37 positions. */
void ff_pseudo_beta(double *beta, const float *positions, const int32_t *aatype, int64_t num_res);

/** The bin of a squared distance; -1 = none. */
int64_t ff_dgram_bin(const ff_dgram_config *config, double distance2);

/** The class of a relative position. */
int64_t ff_relpos_bin(int64_t max_relative_feature, int32_t index_i, int32_t index_j);

/** mask_2d[i, j] = seq_mask[i] seq_mask[j]. */
ff_tensor *ff_mask_2d(ff_ctx *ctx, ff_tensor *seq_mask);

#ifdef __cplusplus
}
#endif
#endif
