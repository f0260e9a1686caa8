/* primitives.h - small operations of the tape: layer norm, linear, the attention core, gates, rows of an array.
 *
 * Where the model is not sharded every rank computes the same, and only rank 0 adds to the gradients of parameters, so that the sum
 * over ranks is the gradient. The _sharded forms are for shards: each rank adds its part. */
#ifndef FF_EVOFORMER_PRIMITIVES_H
#define FF_EVOFORMER_PRIMITIVES_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether this rank's replicated computation adds to parameter gradients. */
bool ff_replicated_trained(const ff_ctx *ctx, bool trained);

/** LN(x) over the last axis; x borrowed. */
ff_tensor *ff_layer_norm(ff_ctx *ctx, const ff_layer_norm_layer *w, ff_tensor *x);
ff_tensor *ff_layer_norm_sharded(ff_ctx *ctx, const ff_layer_norm_layer *w, ff_tensor *x);

/** x weights + bias over the last axis, through relu when asked; x [..., num_input] borrowed. bias may be NULL. */
ff_tensor *ff_linear(ff_ctx *ctx, const ff_linear_layer *w, ff_tensor *x, bool relu);
ff_tensor *ff_linear_sharded(ff_ctx *ctx, const ff_linear_layer *w, ff_tensor *x, bool relu);

/**
 * softmax_k(scale q.k + bias, masked) v: q [batch, num_query, num_head, c], k and v [batch, num_key, num_head, c],
 * mask [batch, num_key] or NULL, bias [num_head, num_query, num_key] or NULL; all borrowed.
 */
ff_tensor *ff_attention_core(ff_ctx *ctx, ff_tensor *q, ff_tensor *k, ff_tensor *v, ff_tensor *mask, ff_tensor *bias,
                             float scale);

/** max(x, 0); x borrowed. */
ff_tensor *ff_relu(ff_ctx *ctx, ff_tensor *x);

/** a + b, same shapes; borrowed. */
ff_tensor *ff_add(ff_ctx *ctx, ff_tensor *a, ff_tensor *b);

/** x [rows, c] with entries dropped at `rate` and the others scaled by 1 / (1 - rate), in training; x borrowed. */
ff_tensor *ff_dropout(ff_ctx *ctx, ff_tensor *x, float rate);

/** x sigmoid(gate), same shapes; borrowed. */
ff_tensor *ff_sigmoid_gate(ff_ctx *ctx, ff_tensor *x, ff_tensor *gate);

/**
 * AlphaFold's Attention as a composition: q from q_data [batch, num_query, c], k and v from m_data [batch, num_key, c'],
 * gate from q_data when w->value.gating_w is there, output projection. All borrowed. No layer norm.
 */
ff_tensor *ff_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *q_data, ff_tensor *m_data, ff_tensor *mask,
                        ff_tensor *bias);

/** Entries first .. first + count - 1 of the first axis, as a copy. */
ff_tensor *ff_slice_rows(ff_ctx *ctx, ff_tensor *x, int64_t first, int64_t count);

/** b below a along the first axis; both borrowed, the other axes are equal. */
ff_tensor *ff_concat_rows(ff_ctx *ctx, ff_tensor *a, ff_tensor *b);

#ifdef __cplusplus
}
#endif
#endif
