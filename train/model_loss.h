/* model_loss.h - the training loss of a model's output on a sample, with its gradient put on the output's tensors. */
#ifndef FF_TRAIN_MODEL_LOSS_H
#define FF_TRAIN_MODEL_LOSS_H

#include "model/model.h"
#include "train/losses.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @param batch  the batch the output was made from, with labels of one slice or more under AlphaFold's names (docs: data pipeline):
 *               true_msa, bert_mask, all_atom_positions, all_atom_mask, atom14_*, rigidgroups_*, backbone_affine_*, chi_*,
 *               pseudo_beta*, resolution, use_clamped_fape (absent = 1), residue_index, seq_mask, atom37_atom_exists
 * @param slice  which of them: that of the last pass
 * @param backward  set gradients on the tensors of `out` (ff_tape_backward follows)
 * @return FF_ERR_FORMAT naming a label that is missing or misshapen
 */
ff_status ff_model_loss(ff_ctx *ctx, ff_loss_parts *parts, const ff_model *model, const ff_array_set *batch, int64_t slice,
                        const ff_model_output *out, const ff_loss_weights *weights, double sample_weight, bool backward);

/** Add the labels that follow from all_atom_positions and all_atom_mask of each slice (structure/labels.h) to a batch that has
 * aatype; resolution and use_clamped_fape are the caller's. */
ff_status ff_model_make_labels(ff_ctx *ctx, ff_array_set *batch);

#ifdef __cplusplus
}
#endif
#endif
