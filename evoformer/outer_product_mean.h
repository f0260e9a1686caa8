/* outer_product_mean.h - from the MSA to the pair representation (Jumper et al. 2021, Suppl. Alg. 10). */
#ifndef FF_EVOFORMER_OUTER_PRODUCT_MEAN_H
#define FF_EVOFORMER_OUTER_PRODUCT_MEAN_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * pair + outer product mean of the MSA, or the update alone.
 *
 *     left, right = mask (LN(msa) w + b)
 *     update[i, j] = (sum_ce (sum_s left[s, i, c] right[s, j, e]) output_w[c, e] + output_b)
 *                    / (1e-3 + sum_s mask[s, i] mask[s, j])
 *
 * @param msa       [num_seq, num_res_local, c_m], residues sharded; borrowed
 * @param pair      [num_res_local, num_res, c_z], rows sharded; consumed; NULL with FF_UPDATE_ONLY
 * @param msa_mask  [num_seq, num_res], whole; borrowed
 * @return as pair. Gathers `right` along j: (D - 1) / D of [num_res, num_seq, c_outer] operands into each rank;
 *         backward: reduce-scatter in float32.
 */
ff_tensor *ff_outer_product_mean(ff_ctx *ctx, const ff_outer_product_mean_layer *w, ff_tensor *msa, ff_tensor *pair,
                                 ff_tensor *msa_mask, ff_update update);

#ifdef __cplusplus
}
#endif
#endif
