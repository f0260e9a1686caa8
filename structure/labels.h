/* labels.h - what the ground truth of a chain gives for training: frames, torsions, atom14 with its alternative naming, pseudo beta.
 *
 * Inputs are aatype [num_res] (0..20), all_atom_positions [num_res, 37, 3] (Å, 0 where missing) and all_atom_mask
 * [num_res, 37]. Neighbours are array neighbours whatever the residue numbers say. Sources: Jumper et al. 2021, Suppl. 1.8, 1.9;
 * alphafold/model/all_atom.py. */
#ifndef FF_STRUCTURE_LABELS_H
#define FF_STRUCTURE_LABELS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Eight rigid groups a residue: 0 backbone, 3 psi, 4..7 chi1..4 (1, 2 unused: rotation 0, translation of N). Arrays may be
 * NULL when they are not wanted. */
typedef struct {
    float *gt_frames;          /* [num_res, 8, 12] rotation, translation */
    float *alt_gt_frames;      /* the same with ambiguous groups turned by pi about x */
    float *gt_exists;          /* [num_res, 8] all three atoms are there */
    float *group_exists;       /* [num_res, 8] */
    float *group_is_ambiguous; /* [num_res, 8] */
} ff_frame_labels;

void ff_atom37_to_frames(const ff_frame_labels *out, const int32_t *aatype, const float *all_atom_positions,
                         const float *all_atom_mask, int64_t num_res);
/** grad_positions += ; either gradient may be NULL. */
void ff_atom37_to_frames_backward(float *grad_positions, const float *grad_gt_frames, const float *grad_alt_gt_frames,
                                  const int32_t *aatype, const float *all_atom_positions, int64_t num_res);

/**
 * (sin, cos) of omega (of the peptide bond before), phi, psi, chi1..4; alternatives turn pi-periodic chis by pi.
 * @param sin_cos, alt_sin_cos  [num_res, 7, 2]
 * @param mask                  [num_res, 7]
 * @param placeholder  undefined angles become (1, 0); else whatever their zero coordinates give
 */
void ff_atom37_to_torsion_angles(float *sin_cos, float *alt_sin_cos, float *mask, const int32_t *aatype,
                                 const float *all_atom_positions, const float *all_atom_mask, bool placeholder,
                                 int64_t num_res);
void ff_atom37_to_torsion_angles_backward(float *grad_positions, const float *grad_sin_cos, const float *grad_alt_sin_cos,
                                          const int32_t *aatype, const float *all_atom_positions,
                                          const float *all_atom_mask, bool placeholder, int64_t num_res);

/* Atoms in the 14 slots of their residue, as they are and with the symmetric atoms (of D, E, F, Y) exchanged. */
typedef struct {
    float *gt_positions, *alt_gt_positions; /* [num_res, 14, 3] */
    float *gt_exists, *alt_gt_exists;       /* [num_res, 14] */
    float *atom_exists;                     /* [num_res, 14] of the residue type */
    float *atom_is_ambiguous;               /* [num_res, 14] */
} ff_atom14_labels;

void ff_make_atom14_labels(const ff_atom14_labels *out, const int32_t *aatype, const float *all_atom_positions,
                           const float *all_atom_mask, int64_t num_res);

/** CB, CA for glycine. positions [num_res, 3], mask [num_res] (may be NULL). */
void ff_make_pseudo_beta(float *positions, float *mask, const int32_t *aatype, const float *all_atom_positions,
                    const float *all_atom_mask, int64_t num_res);

/** Backbone frame (group 0) as quaternion and translation [num_res, 7], Å; mask [num_res]. (1, 0, 0, 0, 0, 0, 0) where missing. */
void ff_backbone_affine(float *affine, float *mask, const int32_t *aatype, const float *all_atom_positions,
                        const float *all_atom_mask, int64_t num_res);

/** Index of each atom14 slot in atom37 and back, and which atoms a residue has; any may be NULL. */
void ff_make_atom14_masks(float *atom14_atom_exists, int32_t *residx_atom14_to_atom37, float *atom37_atom_exists,
                          int32_t *residx_atom37_to_atom14, const int32_t *aatype, int64_t num_res);

#ifdef __cplusplus
}
#endif
#endif
