/* losses.h - AlphaFold's training losses: each gives its value and adds its gradient, on plain arrays in host memory.
 *
 * Contents: conventions; FAPE; renaming of symmetric atoms; torsion angles; violations; cross entropies
 * (distogram, masked MSA, pLDDT, experimentally resolved, PAE); the total.
 *
 * Conventions. Positions, translations and frames are in Å; a frame of 12 numbers is a row-major rotation,
 * then a translation; one of 7 is a quaternion w, x, y, z, taken as it is (never normalised), then a
 * translation. Masks are 0 or 1. `*value` is set to the unweighted loss; gradients are added: grad_x +=
 * weight * d value / d x, and a NULL grad_x means that this gradient is not wanted. No gradient goes to
 * ground truth, to masks, to the choice of a name or to a target bin. Nothing but `value`, the gradients and
 * the results named is written. Sums are made in double precision in an order that does not depend on the
 * number of threads: results repeat bit for bit on one machine. Empty masks give 0. Scratch comes from
 * ctx->pool (FF_ERR_MEM when it has no more; then gradients may be incomplete). Every function fails with
 * FF_ERR_ARG when a size is not positive.
 *
 * Source: Jumper et al. 2021, Supplementary Information, section 1.9 ("Loss functions and auxiliary heads");
 * epsilons, order of masks and constants as in AlphaFold 2's published code where the paper leaves them open. */
#ifndef FF_TRAIN_LOSSES_H
#define FF_TRAIN_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- FAPE: loss_fape.c ---- */

/* Frames against points, both predicted and true. */
typedef struct {
    int64_t num_frames, num_points;
    const float *frames;      /* [num_frames, 12] predicted */
    const float *true_frames; /* [num_frames, 12] */
    const float *frame_mask;  /* [num_frames] */
    const float *points;      /* [num_points, 3] predicted */
    const float *true_points; /* [num_points, 3] */
    const float *point_mask;  /* [num_points] */
    double clamped;           /* u in 0..1: u times the clamped error plus 1 - u times the unclamped one */
} ff_fape_inputs;

/**
 * Frame aligned point error (Suppl. Alg. 28).
 *
 *     d(f, p) = sqrt(|R_f^T (x_p - t_f) - the same of the truth|^2 + 1e-4),   clamped: min(d, 10 Å)
 *     value   = sum of mask_f mask_p d / 10 Å / (1e-4 + sum of mask_f * sum of mask_p)
 *
 * An error beyond the clamp has no gradient. Time O(frames * points), memory O(frames + points).
 *
 * @param grad_frames  [num_frames, 12] inout, or NULL
 * @param grad_points  [num_points, 3]  inout, or NULL
 */
ff_status ff_loss_fape(ff_ctx *ctx, double *value, float *grad_frames, float *grad_points, double weight,
                       const ff_fape_inputs *in);

typedef struct {
    int64_t num_layer, num_res;
    const float *const *traj; /* [num_layer] of [num_res, 7]: backbone frames of every layer */
    const float *true_affine; /* [num_res, 7] backbone_affine_tensor */
    const float *mask;        /* [num_res] backbone_affine_mask */
    double use_clamped_fape;  /* u of ff_fape_inputs: training draws 1 for 90 % of the samples and 0 for the others */
} ff_backbone_fape_inputs;

/**
 * Backbone FAPE: the frames of every residue against the origins of all (CA), mean over layers (Suppl. Alg.
 * 20 line 17 and section 1.11.5 on clamping).
 *
 * @param last_layer  the FAPE of the last layer alone, or NULL
 * @param grad_traj   [num_layer] of [num_res, 7] inout, or NULL: through the quadratic form of w, x, y, z
 */
ff_status ff_loss_fape_backbone(ff_ctx *ctx, double *value, double *last_layer, float *const *grad_traj,
                                double weight, const ff_backbone_fape_inputs *in);

typedef struct {
    int64_t num_res;
    const float *frames;      /* [num_res, 8, 12] predicted rigid groups of the last layer */
    const float *atom14_pos;  /* [num_res, 14, 3] predicted */
    const float *true_frames; /* [num_res, 8, 12] renamed */
    const float *frame_mask;  /* [num_res, 8] rigidgroups_gt_exists */
    const float *true_pos;    /* [num_res, 14, 3] renamed */
    const float *atom_mask;   /* [num_res, 14] renamed */
} ff_sidechain_fape_inputs;

/** Side-chain FAPE: all rigid groups against all atoms of the last layer, clamped (Suppl. Alg. 20 line 28).
 * Truth comes from ff_loss_rename_truth. grad_frames [num_res, 8, 12], grad_pos [num_res, 14, 3], or NULL. */
ff_status ff_loss_fape_sidechain(ff_ctx *ctx, double *value, float *grad_frames, float *grad_pos, double weight,
                                 const ff_sidechain_fape_inputs *in);

/* ---- renaming: loss_renaming.c ---- */

typedef struct {
    int64_t num_res;
    const float *atom14_pos;   /* [num_res, 14, 3] predicted */
    const float *true_pos;     /* [num_res, 14, 3] atom14_gt_positions */
    const float *alt_pos;      /* [num_res, 14, 3] atom14_alt_gt_positions */
    const float *exists;       /* [num_res, 14] atom14_gt_exists */
    const float *alt_exists;   /* [num_res, 14] atom14_alt_gt_exists */
    const float *is_ambiguous; /* [num_res, 14] atom14_atom_is_ambiguous */
    const float *true_frames;  /* [num_res, 8, 12] rigidgroups_gt_frames */
    const float *alt_frames;   /* [num_res, 8, 12] rigidgroups_alt_gt_frames */
} ff_renaming_inputs;

/**
 * Choose between the two names of symmetric side-chain atoms, residue by residue (Suppl. Alg. 26): the
 * alternative when its distances from the ambiguous atoms to all unambiguous resolved atoms differ less (in
 * sum) from the predicted ones.
 *
 * @param alt_is_better  [num_res]        out  0 or 1
 * @param pos            [num_res, 14, 3] out  truth under the chosen names
 * @param exists         [num_res, 14]    out
 * @param frames         [num_res, 8, 12] out  may be NULL (then in->true_frames may be, too)
 */
ff_status ff_loss_rename_truth(ff_ctx *ctx, float *alt_is_better, float *pos, float *exists, float *frames,
                               const ff_renaming_inputs *in);

/* ---- torsion angles: loss_torsion.c ---- */

typedef struct {
    int64_t num_layer, num_res;
    const float *const *angles; /* [num_layer] of [num_res, 7, 2]: unit (sin, cos) of omega, phi, psi, chi1..4 */
    const float *const *unnormalized; /* [num_layer] of [num_res, 7, 2]: before normalisation */
    const int32_t *aatype;            /* [num_res] */
    const float *chi_angles;          /* [num_res, 4] true, radian */
    const float *chi_mask;            /* [num_res, 4] */
    const float *seq_mask;            /* [num_res] */
} ff_torsion_inputs;

typedef struct {
    double chi;        /* mean of the squared differences of (sin, cos) */
    double angle_norm; /* mean of |length - 1| */
    double loss;       /* 0.5 chi + 0.01 angle_norm */
} ff_torsion_result;

/**
 * Supervised chi angles and the length of all seven pairs (Suppl. Alg. 27), over all layers. A chi with 180
 * degree symmetry takes the nearer of the true angle and its opposite.
 *
 * @param grad_angles        like in->angles, or NULL
 * @param grad_unnormalized  like in->unnormalized, or NULL
 */
ff_status ff_loss_torsion(ff_ctx *ctx, ff_torsion_result *result, float *const *grad_angles,
                          float *const *grad_unnormalized, double weight, const ff_torsion_inputs *in);

/* ---- violations: loss_violation.c ---- */

typedef struct {
    int64_t num_res;
    const float *atom14_pos;      /* [num_res, 14, 3] predicted */
    const float *atom_exists;     /* [num_res, 14] atom14_atom_exists: of the residue type, resolved or not */
    const int32_t *aatype;        /* [num_res] */
    const int32_t *residue_index; /* [num_res] neighbours differ by exactly 1 */
    const float *seq_mask;        /* [num_res] for the fractions; NULL = all 1 */
} ff_violation_inputs;

/* Factors of the terms in `loss` and in its gradient. */
typedef struct {
    double bond_c_n, angle_ca_c_n, angle_c_n_ca, clash, within;
} ff_violation_weights;

extern const ff_violation_weights ff_violation_all; /* 1 each, as in the loss */

typedef struct {
    double loss;
    double bond_c_n, angle_ca_c_n, angle_c_n_ca; /* means over neighbours */
    double clash_mean;                           /* mean over pairs of atoms; not a part of the loss */
    double clash, within;                        /* sums of the per-atom losses / (1e-6 + atoms that exist) */
    /* fractions of residues (of neighbours for ca_ca) that break a rule */
    double fraction_bond, fraction_clash, fraction_within, fraction_any, fraction_ca_ca;
} ff_violation_result;

/* Optional arrays; NULL = not wanted. Losses are sums, masks are 0 or 1. */
typedef struct {
    float *connection_loss, *connection_mask; /* [num_res] bond and angles, half to each of the two residues */
    float *clash_loss, *clash_mask;           /* [num_res, 14] */
    float *within_loss, *within_mask;         /* [num_res, 14] */
    float *residue_mask;                      /* [num_res] any of the three */
} ff_violation_details;

/**
 * Structural violations (Suppl. section 1.9.11): peptide bond length and its two angles beyond 12 standard
 * deviations, overlaps of atoms of different residues by more than 1.5 Å, distances within a residue outside
 * of their bounds.
 *
 * Clashes leave out C-N of neighbours and any two atoms in slot 5 (SG of a disulfide, and whatever else is in
 * that slot: as the published code does). Time O(num_res^2), but atoms are compared only where residues are
 * near each other.
 *
 * @param details   NULL, or arrays to fill
 * @param grad_pos  [num_res, 14, 3] inout, or NULL
 * @param terms     NULL = ff_violation_all
 */
ff_status ff_loss_violation(ff_ctx *ctx, ff_violation_result *result, const ff_violation_details *details,
                            float *grad_pos, double weight, const ff_violation_weights *terms,
                            const ff_violation_inputs *in);

/* ---- cross entropies ---- */

/* Logits of rows first .. end - 1 only, as a rank has them: the value is their part of the sum over all rows. 0, 0 = all rows. */
typedef struct {
    int64_t first, end;
} ff_loss_rows;

typedef struct {
    int64_t num_res, num_bins;
    const float *logits;           /* [num_res, num_res, num_bins], or its rows; so is the gradient */
    const float *bin_edges;        /* [num_bins - 1] Å, rising: 2.3125 .. 21.6875 for 64 bins */
    const float *pseudo_beta;      /* [num_res, 3] true CB, CA of glycine */
    const float *pseudo_beta_mask; /* [num_res] */
    ff_loss_rows rows;
} ff_distogram_inputs;

/** Cross entropy of distances between pseudo-beta atoms, mean over pairs, the diagonal included (Suppl. eq. 41).
 * grad_logits like in->logits, or NULL. Class = number of edges that the distance exceeds. */
ff_status ff_loss_distogram(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                            const ff_distogram_inputs *in);
/** Its targets: bins [num_res, num_res] and distances sqrt(1e-6 + d^2) in Å (either may be NULL). */
void ff_loss_distogram_targets(int32_t *bins, float *distances, const ff_distogram_inputs *in);

typedef struct {
    int64_t num_seq, num_res, num_class;
    const float *logits;     /* [num_seq, num_res, num_class], or its rows; so is the gradient */
    const int32_t *true_msa; /* [num_seq, num_res] */
    const float *bert_mask;  /* [num_seq, num_res] 1 = position was masked or replaced */
    ff_loss_rows rows;       /* sequences */
} ff_masked_msa_inputs;

/** Cross entropy of masked MSA positions (Suppl. eq. 42). A class outside of 0 .. num_class - 1 where the mask is 1 is
 * FF_ERR_ARG. */
ff_status ff_loss_masked_msa(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                             const ff_masked_msa_inputs *in);

typedef struct {
    int64_t num_res, num_bins;
    const float *logits;        /* [num_res, num_bins] */
    const float *predicted_pos; /* [num_res, 37, 3] final_atom_positions; only CA is read */
    const float *all_atom_pos;  /* [num_res, 37, 3] true */
    const float *all_atom_mask; /* [num_res, 37] */
    double resolution;          /* Å; the loss is 0 outside of 0.1 .. 3 */
} ff_plddt_inputs;

/** Cross entropy of the per-residue lDDT-CA of the prediction (Suppl. Alg. 29 and section 1.9.6).
 * @param lddt_ca  [num_res] out, the target in 0..1, or NULL */
ff_status ff_loss_plddt(ff_ctx *ctx, double *value, double *lddt_ca, float *grad_logits, double weight,
                        const ff_plddt_inputs *in);
/** Class of an lDDT in 0..1: min(floor(lddt * num_bins), num_bins - 1). In double: lDDTs are fractions on the very
 * edges of bins. */
int32_t ff_loss_plddt_bin(double lddt, int64_t num_bins);

typedef struct {
    int64_t num_res;
    const float *logits;             /* [num_res, 37] */
    const float *all_atom_mask;      /* [num_res, 37] 1 = resolved */
    const float *atom37_atom_exists; /* [num_res, 37] 1 = the residue type has it */
    double resolution;
} ff_resolved_inputs;

/** Sigmoid cross entropy: is an atom that exists resolved? (Suppl. section 1.9.10). */
ff_status ff_loss_resolved(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                           const ff_resolved_inputs *in);

typedef struct {
    int64_t num_res, num_bins;
    const float *logits;           /* [num_res, num_res, num_bins]; row = frame; or its rows, and so is the gradient */
    const float *breaks;           /* [num_bins - 1] Å: linspace(0, 31) */
    const float *predicted_affine; /* [num_res, 7] final_affines */
    const float *true_affine;      /* [num_res, 7] backbone_affine_tensor */
    const float *mask;             /* [num_res] backbone_affine_mask */
    double resolution;
    ff_loss_rows rows;
} ff_pae_inputs;

/** Cross entropy of aligned errors: distance of CA j from its true place, seen from frame i (Suppl. eq. 43). */
ff_status ff_loss_pae(ff_ctx *ctx, double *value, float *grad_logits, double weight, const ff_pae_inputs *in);
/** Its targets: bins [num_res, num_res]. */
void ff_loss_pae_targets(int32_t *bins, const ff_pae_inputs *in);

/** Whether a structure's resolution (Å) counts for pLDDT, PAE and experimentally resolved: 0.1 .. 3. */
bool ff_loss_resolution_counts(double resolution);

/* ---- the total: loss_total.c ---- */

typedef enum { FF_STAGE_INITIAL = 0, FF_STAGE_FINETUNE, FF_STAGE_PTM } ff_training_stage;

typedef struct {
    double structure_module; /* of 1/2 backbone FAPE + 1/2 side-chain FAPE + torsions + violation * violations */
    double violation;        /* structural_violation_loss_weight */
    double masked_msa, distogram, plddt, resolved, pae;
} ff_loss_weights;

/**
 * Weights of a stage (Suppl. eq. 7 and section 1.12.1): structure 1, masked MSA 2, distogram 0.3, pLDDT 0.01;
 * fine-tuning adds violations 1 and experimentally resolved 0.01; pTM fine-tuning adds PAE 0.1.
 */
ff_loss_weights ff_loss_stage_weights(ff_training_stage stage);

/** sqrt of the number of residues after cropping: the factor of a sample's loss (Suppl. section 1.11.6; padding not
 * counted: mask [num_res]). */
double ff_loss_sample_weight(const float *seq_mask, int64_t num_res);

typedef struct {
    ff_backbone_fape_inputs backbone;
    ff_sidechain_fape_inputs sidechain; /* truth fields are ignored: they come from `renaming` */
    ff_renaming_inputs renaming;
    ff_torsion_inputs torsion;
    ff_violation_inputs violation;
    ff_distogram_inputs distogram;
    ff_masked_msa_inputs masked_msa;
    ff_plddt_inputs plddt;
    ff_resolved_inputs resolved;
    ff_pae_inputs pae; /* logits NULL = the model has no such head */
} ff_loss_inputs;

/* Gradients, shaped as the predictions are; NULL = not wanted. */
typedef struct {
    float *const *traj, *const *angles, *const *unnormalized_angles; /* [num_layer] pointers */
    float *frames, *atom14_pos;
    float *distogram_logits, *masked_msa_logits, *plddt_logits, *resolved_logits, *pae_logits;
} ff_loss_grads;

/* Unweighted parts. A part whose weight is 0 is evaluated all the same: it is worth watching. */
typedef struct {
    double total;            /* weighted sum times the sample weight */
    double structure_module; /* with the stage's violation weight inside */
    double backbone_fape, backbone_fape_last, sidechain_fape;
    ff_torsion_result torsion;
    ff_violation_result violation;
    double distogram, masked_msa, plddt, resolved, pae;
    double lddt_ca; /* mean target of the pLDDT loss over resolved CA, 0..1 */
} ff_loss_parts;

/** The weighted sum of parts: ff_loss_parts.total. */
double ff_loss_weighted_sum(const ff_loss_parts *parts, const ff_loss_weights *weights, double sample_weight);

/**
 * The training loss of one sample: sample_weight * sum of weight * part (Suppl. eq. 7); gradients are added
 * into `grads`.
 *
 * @param grads          NULL = values only (validation)
 * @param sample_weight  ff_loss_sample_weight, or 1
 */
ff_status ff_loss_total(ff_ctx *ctx, ff_loss_parts *parts, const ff_loss_grads *grads, const ff_loss_inputs *in,
                        const ff_loss_weights *weights, double sample_weight);

#ifdef __cplusplus
}
#endif
#endif
