#include "evoformer/triangle_attention.h"

#include "dap/dap.h"

/* Batch = the local axis (rows, or columns when `ending`), length = the whole one. */
static ff_tensor *triangle_attention(ff_ctx *ctx, const char *name, const ff_biased_attention_layer *w, ff_tensor *pair,
                                     ff_tensor *pair_mask, bool ending, ff_update update)
{
    if (!ff_check_shape(ctx, pair, "pair", FF_SHAPE(-1, -1, w->attention.c_in)))
        return ff_module_end(ctx, pair, NULL);
    const int64_t c_z = w->attention.c_in, stride_row = pair->shape[1] * c_z;
    const int64_t local = pair->shape[ending ? 1 : 0], num_res = pair->shape[ending ? 0 : 1];
    if (!ff_check_shape(ctx, pair_mask, "pair_mask", FF_SHAPE(num_res, num_res)))
        return ff_module_end(ctx, pair, NULL);
    const int64_t first = ff_shard_first(num_res, ff_dap_rank(ctx), ff_dap_size(ctx));
    const ff_gated_attention_args layout = {.batch = local,
                                            .length = num_res,
                                            .stride_batch = ending ? c_z : stride_row,
                                            .stride_length = ending ? stride_row : c_z,
                                            .mask = ff_data(pair_mask) + first * (ending ? 1 : num_res),
                                            .mask_stride_batch = ending ? 1 : num_res,
                                            .mask_stride_length = ending ? num_res : 1};
    const ff_keep keep = ff_module_keep(ctx) == FF_KEEP_INPUTS ? FF_KEEP_INPUTS : FF_KEEP_RESULT;
    ff_tensor *bias = ff_pair_bias(ctx, &w->bias, pair, ending ? FF_BIAS_OF_TRANSPOSED : FF_BIAS_OF_ROWS);
    pair = ff_gated_attention(ctx, name, &w->attention, pair, bias, pair_mask, &layout, keep, update);
    ff_tensor_release(bias);
    return pair;
}

ff_tensor *ff_triangle_attention_starting_node(ff_ctx *ctx, const ff_biased_attention_layer *w, ff_tensor *pair,
                                               ff_tensor *pair_mask, ff_update update)
{
    return triangle_attention(ctx, "triangle_attention_starting_node", w, pair, pair_mask, false, update);
}

ff_tensor *ff_triangle_attention_ending_node(ff_ctx *ctx, const ff_biased_attention_layer *w, ff_tensor *pair,
                                             ff_tensor *pair_mask, ff_update update)
{
    return triangle_attention(ctx, "triangle_attention_ending_node", w, pair, pair_mask, true, update);
}
