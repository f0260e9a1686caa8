/* operations.h - what the structure module does besides layers of the trunk, on the tape: rigid geometry of each residue and the
 * core of invariant point attention. Arguments are borrowed; results are references the caller releases. */
#ifndef FF_STRUCTURE_OPERATIONS_H
#define FF_STRUCTURE_OPERATIONS_H

#include "tensor/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Affines [num_res, 7] to rigids [num_res, 12] with the translation multiplied by `scale`. */
ff_tensor *ff_affine_to_rigids(ff_ctx *ctx, ff_tensor *affine, double scale);
/** Affines with the translation multiplied by `scale`. */
ff_tensor *ff_scale_translation(ff_ctx *ctx, ff_tensor *affine, double scale);
/** Backbone update (Alg. 23): affine [num_res, 7], update [num_res, 6]. */
ff_tensor *ff_backbone_update(ff_ctx *ctx, ff_tensor *affine, ff_tensor *update);
/** The same numbers; only the translation passes its gradient on (stop_gradient between the iterations, Alg. 20 line 20). */
ff_tensor *ff_stop_rotation_gradient(ff_ctx *ctx, ff_tensor *affine);
/** [num_res, 14] to unit (sin, cos) pairs [num_res, 7, 2]: v / sqrt(max(|v|^2, 1e-12)). */
ff_tensor *ff_normalise_torsions(ff_ctx *ctx, ff_tensor *x);

/**
 * Alg. 24: backbone rigids [num_res, 12] (Å) and torsions [num_res, 7, 2] to the eight frames [num_res, 8, 12] and atoms
 * [num_res, 14, 3] of each residue. aatype [num_res] must outlive the backward pass.
 */
void ff_frames_and_atoms(ff_ctx *ctx, ff_tensor *rigids, ff_tensor *torsions, const int32_t *aatype, ff_tensor **frames,
                         ff_tensor **atom14);

/** Atoms in the 37 places, times atom37_atom_exists [num_res, 37] (NULL = of the residue types): [num_res, 14, 3] to
 * [num_res, 37, 3]. Plain arrays outlive the backward pass. */
ff_tensor *ff_atom14_to_atom37(ff_ctx *ctx, ff_tensor *atom14, const int32_t *aatype, const float *atom37_atom_exists);

/* Sizes and the one parameter of the attention core. */
typedef struct {
    int64_t num_head, c_scalar_qk, c_scalar_v, num_point_qk, num_point_v, c_z;
    bool trained;
    float *gamma, *grad_gamma; /* [num_head] trainable_point_weights */
} ff_ipa_core;

/**
 * kernels.h, invariant_point_attention, this rank's M of N residues as queries: q_scalar [M, H, qk], kv_scalar [N, H, qk + v],
 * q_point [M, 3, H, pq], kv_point [N, 3, H, pq + pv] (any shape of that size), bias [M, N, H], pair [M, N, c_z], rigids_query
 * [M, 12], rigids [N, 12], mask [N].
 * @return [M, H (v + 4 pv + c_z)]
 */
ff_tensor *ff_ipa_attention(ff_ctx *ctx, const ff_ipa_core *w, ff_tensor *q_scalar, ff_tensor *kv_scalar,
                            ff_tensor *q_point, ff_tensor *kv_point, ff_tensor *bias, ff_tensor *pair,
                            ff_tensor *rigids_query, ff_tensor *rigids, ff_tensor *mask);

#ifdef __cplusplus
}
#endif
#endif
