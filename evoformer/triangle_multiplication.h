/* triangle_multiplication.h - multiplicative update of the pair representation along triangle edges (Jumper et al. 2021,
 * Suppl. Alg. 11, 12), with separate or fused left and right projections. */
#ifndef FF_EVOFORMER_TRIANGLE_MULTIPLICATION_H
#define FF_EVOFORMER_TRIANGLE_MULTIPLICATION_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 *     t[i, j] = sum_k left[i, k] right[j, k]
 *     pair[i, j] += dropout[j] output_projection(LN(t)) sigmoid(gating_linear(LN(pair)))
 *
 * @param pair       [num_res_local, num_res, c_z], rows sharded; consumed
 * @param pair_mask  [num_res, num_res], whole; borrowed
 * @return as pair. Gathers `right` by row blocks: (D - 1) / D of [num_res, num_res, c_hidden] operands into each rank;
 *         backward: reduce-scatter in float32. Without a tape t takes the place of one operand.
 */
ff_tensor *ff_triangle_multiplication_outgoing(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                                               ff_tensor *pair_mask, ff_update update);

/**
 *     t[i, j] = sum_k left[k, j] right[k, i]
 *
 * @param pair  [num_res, num_res_local, c_z], columns sharded; consumed
 */
ff_tensor *ff_triangle_multiplication_incoming(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                                               ff_tensor *pair_mask, ff_update update);

/**
 * The same on rows: k is local, ranks sum their parts of t. No all-to-all is needed before and after it.
 *
 * @param pair  [num_res_local, num_res, c_z], rows sharded; consumed
 * @return as pair. Sends (D - 1) / D of [num_res, num_res, c_hidden] operands, band by band; sums in float32; backward: all-gather.
 */
ff_tensor *ff_triangle_multiplication_incoming_rows(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                                                    ff_tensor *pair_mask, ff_update update);

#ifdef __cplusplus
}
#endif
#endif
