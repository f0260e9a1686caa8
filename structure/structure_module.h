/* structure_module.h - from single and pair to atoms (Jumper et al. 2021, Suppl. Alg. 20, 22-24), by AlphaFold's names.
 *
 * Inside, translations are in units of position_scale (10 Å); everything handed out is in Å. Always float32, also in bf16 runs:
 * coordinates need it. */
#ifndef FF_STRUCTURE_STRUCTURE_MODULE_H
#define FF_STRUCTURE_STRUCTURE_MODULE_H

#include "evoformer/parameters.h"
#include "structure/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_STRUCTURE_MAX_LAYERS = 16, FF_STRUCTURE_MAX_TRANSITION = 4, FF_STRUCTURE_MAX_BLOCKS = 4 };

typedef struct {
    int64_t c_s, c_z;
    int64_t num_channel;             /* 384, of the activations */
    int64_t num_layer;               /* 8 iterations with one shared set of weights */
    int64_t num_head;                /* 12 */
    int64_t num_scalar_qk, num_scalar_v, num_point_qk, num_point_v; /* 16, 16, 4, 8 */
    int64_t num_layer_in_transition; /* 3 */
    int64_t sidechain_num_channel;   /* 128 */
    int64_t sidechain_num_residual_block; /* 2 */
    double position_scale;           /* 10 Å */
    float dropout;                   /* 0.1, in training */
} ff_structure_config;

typedef struct {
    int64_t num_head, num_scalar_qk, num_scalar_v, num_point_qk, num_point_v, c_s, c_z, num_output;
    ff_linear_layer q_scalar, kv_scalar, q_point_local, kv_point_local, attention_2d, output_projection;
    ff_ipa_core core;
} ff_invariant_point_attention;

typedef struct {
    ff_structure_config config;
    ff_invariant_point_attention attention;
    ff_layer_norm_layer attention_layer_norm, transition_layer_norm;
    ff_linear_layer transition[FF_STRUCTURE_MAX_TRANSITION];
    ff_linear_layer affine_update;
    ff_linear_layer input_projection[2]; /* of the activations and of the initial ones */
    ff_linear_layer resblock1[FF_STRUCTURE_MAX_BLOCKS], resblock2[FF_STRUCTURE_MAX_BLOCKS];
    ff_linear_layer unnormalized_angles;
} ff_fold_iteration;

typedef struct {
    ff_structure_config config;
    ff_layer_norm_layer single_layer_norm, pair_layer_norm;
    ff_linear_layer initial_projection;
    ff_fold_iteration fold_iteration;
} ff_structure_module;

/** AlphaFold's sizes for c_s and c_z channels. */
ff_structure_config ff_structure_config_default(int64_t c_s, int64_t c_z);

ff_status ff_invariant_point_attention_bind(const ff_binder *b, ff_invariant_point_attention *w);
ff_status ff_fold_iteration_bind(const ff_binder *b, const ff_structure_config *config, ff_fold_iteration *w);
ff_status ff_structure_module_bind(const ff_binder *b, const ff_structure_config *config, ff_structure_module *w);

/** Alg. 22. single [num_res, c_s], pair [num_res_local, num_res, c_z], affine [num_res, 7] (10 Å), mask [num_res]; borrowed.
 * @return [num_res, num_output] */
ff_tensor *ff_invariant_point_attention_forward(ff_ctx *ctx, const ff_invariant_point_attention *w, ff_tensor *single,
                                                ff_tensor *pair, ff_tensor *affine, ff_tensor *mask);

/* What one iteration gives; each a reference the caller releases. */
typedef struct {
    ff_tensor *act;                 /* [num_res, num_channel] */
    ff_tensor *affine;              /* [num_res, 7], 10 Å, before the gradient of its rotation is stopped */
    ff_tensor *traj;                /* [num_res, 7], Å */
    ff_tensor *unnormalized_angles; /* [num_res, 7, 2] */
    ff_tensor *angles;              /* [num_res, 7, 2] unit (sin, cos): omega, phi, psi, chi1..4 */
    ff_tensor *frames;              /* [num_res, 8, 12], Å */
    ff_tensor *atom14;              /* [num_res, 14, 3], Å */
} ff_fold_output;

/** Alg. 20 lines 6-18 and 23, 24; arguments borrowed. aatype [num_res] outlives the backward pass. */
void ff_fold_iteration_forward(ff_ctx *ctx, const ff_fold_iteration *w, ff_tensor *act, ff_tensor *initial_act,
                               ff_tensor *pair, ff_tensor *affine, ff_tensor *mask, const int32_t *aatype,
                               ff_fold_output *out);
void ff_fold_output_release(ff_fold_output *out);

typedef struct {
    int64_t num_layer;
    ff_fold_output layers[FF_STRUCTURE_MAX_LAYERS];
    ff_tensor *act;    /* [num_res, num_channel] for the pLDDT head */
    ff_tensor *atom37; /* [num_res, 37, 3] final_atom_positions, Å; places the residue lacks are 0 */
} ff_structure_output;

/** Alg. 20. single [num_res, c_s], pair [num_res_local, num_res, c_z], seq_mask [num_res]; borrowed. atom37_atom_exists
 * [num_res, 37] outlives the backward pass as aatype does; NULL = as the residue types have it. */
ff_status ff_structure_module_forward(ff_ctx *ctx, const ff_structure_module *w, ff_tensor *single, ff_tensor *pair,
                                      ff_tensor *seq_mask, const int32_t *aatype, const float *atom37_atom_exists,
                                      ff_structure_output *out);
void ff_structure_output_release(ff_structure_output *out);

#ifdef __cplusplus
}
#endif
#endif
