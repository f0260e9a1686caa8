/* msa_attention.h - attention over the MSA: along residues with pair bias, along sequences, and along the sequences of the
 * extra MSA with one global query (Jumper et al. 2021, Suppl. Alg. 7, 8, 19). Dropout off, or row-wise shared (rate of
 * the layer). `msa` is consumed; msa_mask [num_seq, num_res] is whole on every rank. */
#ifndef FF_EVOFORMER_MSA_ATTENTION_H
#define FF_EVOFORMER_MSA_ATTENTION_H

#include "evoformer/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Row attention.
 * @param msa   [num_seq_local, num_res, c_m], sequences sharded; consumed
 * @param bias  [num_head, num_res, num_res], from ff_pair_bias; borrowed
 */
ff_tensor *ff_msa_row_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *bias,
                                ff_tensor *msa_mask, ff_keep keep, ff_update update);

/** Row attention with the bias of `pair` ([num_res_local, num_res, c_z], rows sharded; borrowed). */
ff_tensor *ff_msa_row_attention_with_pair_bias(ff_ctx *ctx, const ff_biased_attention_layer *w, ff_tensor *msa,
                                               ff_tensor *pair, ff_tensor *msa_mask, ff_update update);

/** Column attention. msa [num_seq, num_res_local, c_m], residues sharded; consumed. */
ff_tensor *ff_msa_column_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *msa_mask,
                                   ff_keep keep, ff_update update);

/** Global column attention of the extra MSA. msa [num_extra_seq, num_res_local, c_e], residues sharded; consumed. */
ff_tensor *ff_msa_column_global_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *msa_mask,
                                          ff_update update);

#ifdef __cplusplus
}
#endif
#endif
