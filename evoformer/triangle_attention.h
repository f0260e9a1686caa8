/* triangle_attention.h - gated self-attention along triangle edges (Jumper et al. 2021, Suppl. Alg. 13, 14). */
#ifndef FF_EVOFORMER_TRIANGLE_ATTENTION_H
#define FF_EVOFORMER_TRIANGLE_ATTENTION_H

#include "evoformer/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Around the starting node: in each row i, queries j attend to keys k with bias LN(pair)[j, k] feat_2d_weights.
 *
 * @param pair       [num_res_local, num_res, c_z], rows sharded; consumed
 * @param pair_mask  [num_res, num_res], whole; key (i, k) is masked where it is 0; borrowed
 * Gathers the bias, [num_head, num_res, num_res].
 */
ff_tensor *ff_triangle_attention_starting_node(ff_ctx *ctx, const ff_biased_attention_layer *w, ff_tensor *pair,
                                               ff_tensor *pair_mask, ff_update update);

/**
 * Around the ending node: the same on the transposed pair and mask, by strides.
 * @param pair  [num_res, num_res_local, c_z], columns sharded; consumed
 */
ff_tensor *ff_triangle_attention_ending_node(ff_ctx *ctx, const ff_biased_attention_layer *w, ff_tensor *pair,
                                             ff_tensor *pair_mask, ff_update update);

#ifdef __cplusplus
}
#endif
#endif
