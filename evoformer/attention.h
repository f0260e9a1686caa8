/* attention.h - the two tape nodes all gated attentions of the trunk are made of: the bias from the pair representation,
 * and gated self-attention along one axis of an array. They are cut where ranks exchange the bias. */
#ifndef FF_EVOFORMER_ATTENTION_H
#define FF_EVOFORMER_ATTENTION_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_BIAS_OF_ROWS,       /* pair [num_res_local, num_res, c_z]: q is local */
    FF_BIAS_OF_TRANSPOSED, /* pair [num_res, num_res_local, c_z], and q is its second axis, which is local */
    FF_BIAS_OF_COLUMNS     /* pair [num_res, num_res_local, c_z]: k is local */
} ff_bias_of;

/**
 * Attention bias of every head, gathered over ranks.
 *
 *     bias[h, q, k] = sum_c LN(pair)[q, k, c] weights[c, h]         transposed: LN(pair)[k, q, c]
 *
 * @param pair  borrowed
 * @return [num_head, num_res, num_res]. Moves (D - 1) / D of it into each rank (all-gather along the local axis); backward:
 *         reduce-scatter.
 */
ff_tensor *ff_pair_bias(ff_ctx *ctx, const ff_pair_bias_layer *w, ff_tensor *pair, ff_bias_of of);

/**
 * Gated self-attention, Jumper et al. 2021, Suppl. Alg. 7, 8, 13, 14, from the layer norm to the residual.
 *
 * @param name    of the record and the node
 * @param x       consumed
 * @param bias    borrowed, [num_head, length, length]; NULL = none
 * @param mask    borrowed; `layout.mask` points into it
 * @param layout  batch, length, strides, mask and its strides; the rest is filled in here. The inner axis (length) is
 *                never sharded, so the dropout mask starts at position 0.
 */
ff_tensor *ff_gated_attention(ff_ctx *ctx, const char *name, const ff_attention_layer *w, ff_tensor *x, ff_tensor *bias,
                              ff_tensor *mask, const ff_gated_attention_args *layout, ff_keep keep, ff_update update);

#ifdef __cplusplus
}
#endif
#endif
