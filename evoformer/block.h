/* block.h - the Evoformer block, its extra-MSA form, and stacks of them (Jumper et al. 2021, Suppl. Alg. 6, 18). */
#ifndef FF_EVOFORMER_BLOCK_H
#define FF_EVOFORMER_BLOCK_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t c_m; /* channels of the MSA: c_m, or c_e in the extra-MSA stack */
    int64_t c_z;
    int64_t num_head_msa, num_head_pair; /* head sizes are c_m / num_head_msa, c_z / num_head_pair */
    int64_t num_head_msa_column;         /* of the MSA column attention; 0 = num_head_msa */
    int64_t c_triangle;                  /* num_intermediate_channel of the triangle multiplications */
    int64_t c_outer;                     /* num_outer_channel of the outer product mean */
    int64_t transition_factor;
    float dropout_msa;  /* rate of MSA row attention */
    float dropout_pair; /* rate of triangle multiplication and attention */
    bool is_extra_msa;  /* global column attention in place of column attention */
    bool outer_product_mean_first; /* the order of multimer presets */
    bool fuse_projection_weights;  /* triangle multiplications of multimer v3 presets */
} ff_block_config;

typedef struct ff_block {
    ff_block_config config;
    ff_biased_attention_layer msa_row_attention_with_pair_bias;
    ff_attention_layer msa_column_attention; /* extra MSA: msa_column_global_attention */
    ff_transition_layer msa_transition;
    ff_outer_product_mean_layer outer_product_mean;
    ff_triangle_multiplication_layer triangle_multiplication_outgoing, triangle_multiplication_incoming;
    ff_biased_attention_layer triangle_attention_starting_node, triangle_attention_ending_node;
    ff_transition_layer pair_transition;
} ff_block;

/** Declare or bind one block at the binder's scope; fills `w` from `config`. */
ff_status ff_block_bind(const ff_binder *b, const ff_block_config *config, ff_block *w);
/** Blocks 0 .. num_block - 1 of a stack, whose parameters have a leading block axis. `w` [num_block]. */
ff_status ff_block_stack_bind(const ff_binder *b, const ff_block_config *config, int64_t num_block, ff_block *w);

/**
 * One block, in place of the two references (both consumed and replaced; NULL after a failure).
 *
 * @param msa        [num_seq_local, num_res, c_m], sequences sharded
 * @param pair       [num_res_local, num_res, c_z], rows sharded
 * @param msa_mask   [num_seq, num_res], whole; borrowed
 * @param pair_mask  [num_res, num_res], whole; borrowed
 *
 * Exchanges per forward pass with D ranks: MSA to columns and back, pair to columns and back twice (all-to-all, (D - 1) /
 * D of the local array each); pair bias three times, the right operands of outer product mean and of both triangle
 * multiplications (all-gather).
 * With ctx->keep_inputs the two MSA attentions and the transition are one checkpointed region.
 */
void ff_block_forward(ff_ctx *ctx, const ff_block *w, ff_tensor **msa, ff_tensor **pair, ff_tensor *msa_mask,
                      ff_tensor *pair_mask);

/** Blocks one after the other; `checkpoint` keeps only their inputs and runs each again in the backward pass. */
void ff_block_stack_forward(ff_ctx *ctx, const ff_block *w, int64_t num_block, bool checkpoint, ff_tensor **msa,
                            ff_tensor **pair, ff_tensor *msa_mask, ff_tensor *pair_mask);

#ifdef __cplusplus
}
#endif
#endif
