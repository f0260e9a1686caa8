/* heads.h - auxiliary and confidence heads, and the confidences computed from their logits (Jumper et al. 2021, Suppl. 1.9.6-1.9.10;
 * alphafold/model/modules.py, common/confidence.py). Always float32. */
#ifndef FF_STRUCTURE_HEADS_H
#define FF_STRUCTURE_HEADS_H

#include "evoformer/parameters.h"
#include "tensor/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t c_m, c_z, c_s, num_channel;      /* of msa, pair, single, structure-module activations */
    int64_t masked_msa_num_output;           /* 23 */
    int64_t distogram_num_bins;              /* 64 */
    double distogram_first_break, distogram_last_break; /* 2.3125, 21.6875 Å */
    int64_t plddt_num_bins, plddt_num_channels;         /* 50, 128 */
    int64_t pae_num_bins;                    /* 64; 0 = the model has no predicted aligned error */
    double pae_max_error_bin;                /* 31 Å */
} ff_heads_config;

typedef struct {
    ff_heads_config config;
    ff_linear_layer masked_msa, distogram, experimentally_resolved, predicted_aligned_error;
    ff_layer_norm_layer plddt_norm;
    ff_linear_layer plddt_act_0, plddt_act_1, plddt_logits;
} ff_heads;

/** AlphaFold's sizes; `ptm`: with predicted aligned error. */
ff_heads_config ff_heads_config_default(int64_t c_m, int64_t c_z, int64_t c_s, int64_t num_channel, bool ptm);

/** Scopes masked_msa_head, distogram_head, experimentally_resolved_head, predicted_lddt_head, predicted_aligned_error_head. */
ff_status ff_heads_bind(const ff_binder *b, const ff_heads_config *config, ff_heads *w);
/** The layers of one head at the binder's own scope. */
ff_status ff_plddt_head_bind(const ff_binder *b, ff_heads *w);

/** half + half^T of one linear layer on pair [num_res_local, num_res, c_z]. @return [num_res_local, num_res, num_bins] */
ff_tensor *ff_distogram_head(ff_ctx *ctx, const ff_linear_layer *half_logits, ff_tensor *pair);
/** act [num_res, num_channel]. @return [num_res, num_bins] */
ff_tensor *ff_plddt_head(ff_ctx *ctx, const ff_heads *w, ff_tensor *act);

/* Logits; each a reference the caller releases. predicted_aligned_error may be NULL. Under DAP those of the MSA and of pairs are this
 * rank's rows, as msa and pair are. */
typedef struct {
    ff_tensor *masked_msa;              /* [num_seq_local, num_res, 23] */
    ff_tensor *distogram;               /* [num_res_local, num_res, bins] */
    ff_tensor *experimentally_resolved; /* [num_res, 37] */
    ff_tensor *predicted_lddt;          /* [num_res, bins] */
    ff_tensor *predicted_aligned_error; /* [num_res_local, num_res, bins], row = frame */
} ff_heads_output;

ff_status ff_heads_forward(ff_ctx *ctx, const ff_heads *w, ff_tensor *msa, ff_tensor *pair, ff_tensor *single,
                           ff_tensor *structure_act, ff_heads_output *out);
void ff_heads_output_release(ff_heads_output *out);

/* ---- confidences from logits, on plain arrays ---- */

/** num_bins - 1 edges, evenly spaced from first to last. */
void ff_bin_edges(float *edges, double first, double last, int64_t num_bins);

/** 100 sum_k p_k (k + 1/2) / num_bins. logits [num_res, num_bins]; plddt [num_res], 0..100. @return the mean: ranking confidence */
double ff_plddt(float *plddt, const float *logits, int64_t num_res, int64_t num_bins);

/**
 * Expected aligned error [num_res, num_res] in Å from logits [num_res, num_res, num_bins]; breaks [num_bins - 1]. probs
 * [num_res, num_res, num_bins] may be NULL. @return the largest error that can be told (the last bin's centre).
 */
double ff_predicted_aligned_error(float *pae, float *probs, const float *logits, const float *breaks, int64_t num_res,
                                  int64_t num_bins);

/** Predicted TM-score: the maximum over frames of the mean of E[1 / (1 + (error / d0)^2)], d0 of max(num_res, 19) residues. */
double ff_predicted_tm_score(const float *logits, const float *breaks, int64_t num_res, int64_t num_bins);

/** P(distance of pseudo betas < cutoff Å) [num_res, num_res] from distogram logits: the sum of bins whose upper edge is <= cutoff. */
void ff_contact_probabilities(float *contacts, const float *logits, const float *edges, int64_t num_res, int64_t num_bins,
                              double cutoff);

#ifdef __cplusplus
}
#endif
#endif
