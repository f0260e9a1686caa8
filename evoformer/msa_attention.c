#include "evoformer/msa_attention.h"

#include <string.h>

#include "dap/dap.h"

/* ---- row ---- */

ff_tensor *ff_msa_row_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *bias,
                                ff_tensor *msa_mask, ff_keep keep, ff_update update)
{
    if (!ff_check_shape(ctx, msa, "msa", FF_SHAPE(-1, -1, w->c_in)) ||
        !ff_check_shape(ctx, msa_mask, "msa_mask", FF_SHAPE(-1, msa->shape[1])))
        return ff_module_end(ctx, msa, NULL);
    const int64_t num_res = msa->shape[1];
    const int64_t first = ff_shard_first(msa_mask->shape[0], ff_dap_rank(ctx), ff_dap_size(ctx));
    const ff_gated_attention_args layout = {.batch = msa->shape[0],
                                            .length = num_res,
                                            .stride_batch = num_res * w->c_in,
                                            .stride_length = w->c_in,
                                            .mask = ff_data(msa_mask) + first * num_res,
                                            .mask_stride_batch = num_res,
                                            .mask_stride_length = 1};
    return ff_gated_attention(ctx, "msa_row_attention_with_pair_bias", w, msa, bias, msa_mask, &layout, keep, update);
}

ff_tensor *ff_msa_row_attention_with_pair_bias(ff_ctx *ctx, const ff_biased_attention_layer *w, ff_tensor *msa,
                                               ff_tensor *pair, ff_tensor *msa_mask, ff_update update)
{
    ff_tensor *bias = ff_pair_bias(ctx, &w->bias, pair, FF_BIAS_OF_ROWS);
    msa = ff_msa_row_attention(ctx, &w->attention, msa, bias, msa_mask, ff_module_keep(ctx), update);
    ff_tensor_release(bias);
    return msa;
}

/* ---- column ---- */

/* Batch = residues of this rank, length = all sequences: columns are walked by strides, nothing is transposed. */
static bool column_layout(ff_ctx *ctx, const ff_attention_layer *w, const ff_tensor *msa, const ff_tensor *msa_mask,
                          ff_gated_attention_args *layout)
{
    if (!ff_check_shape(ctx, msa, "msa", FF_SHAPE(-1, -1, w->c_in)) ||
        !ff_check_shape(ctx, msa_mask, "msa_mask", FF_SHAPE(msa->shape[0], -1)))
        return false;
    const int64_t num_res = msa_mask->shape[1], first = ff_shard_first(num_res, ff_dap_rank(ctx), ff_dap_size(ctx));
    *layout = (ff_gated_attention_args){.batch = msa->shape[1],
                                        .length = msa->shape[0],
                                        .c_in = w->c_in,
                                        .num_head = w->num_head,
                                        .c_hidden = w->c_hidden,
                                        .stride_batch = w->c_in,
                                        .stride_length = msa->shape[1] * w->c_in,
                                        .mask = ff_data(msa_mask) + first,
                                        .mask_stride_batch = 1,
                                        .mask_stride_length = num_res};
    return true;
}

ff_tensor *ff_msa_column_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *msa_mask,
                                   ff_keep keep, ff_update update)
{
    ff_gated_attention_args layout;
    if (!column_layout(ctx, w, msa, msa_mask, &layout))
        return ff_module_end(ctx, msa, NULL);
    return ff_gated_attention(ctx, "msa_column_attention", w, msa, NULL, msa_mask, &layout, keep, update);
}

/* ---- global column ---- */

typedef struct {
    const ff_attention_layer *w;
    ff_global_attention_args a;
    ff_update update;
} global_node;

/* k, v of one head; gate and output of all; q and its projection are once per column */
static double global_flop(const ff_global_attention_args *a)
{
    const double rows = (double)a->batch * (double)a->length, hc = (double)a->num_head * (double)a->c_hidden;
    return rows * (4.0 * (double)a->c_in * ((double)a->c_hidden + hc) + 4.0 * hc) +
           2.0 * (double)a->batch * (double)a->c_in * hc;
}

static double global_bytes(const ff_global_attention_args *a)
{
    return 8.0 * (double)a->batch * (double)a->length * (double)a->c_in;
}

static void global_backward(ff_ctx *ctx, ff_node *node)
{
    global_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *x = node->inputs[0];
    const ff_kernels *k = ctx->kernels;
    ff_module_grads g;
    if (!ff_module_offered(ctx, k->global_attention_backward != NULL, "global attention backward") ||
        !ff_module_grads_begin(ctx, node, x, node->outputs[0], n.update, &g))
        return;
    void *scratch = ff_scratch_begin(ctx, k->global_attention_scratch_bytes(&n.a, true));
    if (ff_computing(ctx))
        k->global_attention_backward(g.grad_x, n.w->trained ? &n.w->grad : NULL, g.grad_out, ff_data(x), &n.w->value,
                                     &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, node->name, true, global_flop(&n.a), global_bytes(&n.a), 0, 0);
    ff_module_grads_end(&g);
}

static ff_tensor *msa_column_global_attention_on_table(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *msa_mask,
                                                       ff_update update)
{
    static const char name[] = "msa_column_global_attention";
    const ff_kernels *k = ctx->kernels;
    global_node n = {.w = w, .update = update};
    if (!ff_module_offered(ctx, k->global_attention_forward != NULL, "global attention") ||
        !column_layout(ctx, w, msa, msa_mask, &n.a))
        return ff_module_end(ctx, msa, NULL);
    n.a.residual = update == FF_RESIDUAL;
    ff_tensor *inputs[] = {msa, msa_mask};
    const bool recorded = ff_module_recorded(ctx, w->trained, inputs, 1);
    ff_tensor *out = ff_module_output(ctx, msa, recorded, update);
    ff_tensor *dropout = ff_module_dropout(ctx, w->dropout, 0, n.a.length, w->c_in);
    n.a.dropout = ff_data(dropout);
    void *scratch = ff_scratch_begin(ctx, k->global_attention_scratch_bytes(&n.a, false));
    if (ff_computing(ctx))
        k->global_attention_forward(ff_data(out), ff_data(msa), &w->value, &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, name, false, global_flop(&n.a), global_bytes(&n.a), ff_module_bytes(&dropout, 1), 0);
    if (recorded)
        ff_tape_add(ctx, name, global_backward, inputs, 2, &out, 1, &dropout, 1, &n, sizeof n);
    else
        ff_tensor_release(dropout);
    return ff_module_end(ctx, msa, out);
}

ff_tensor *ff_msa_column_global_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *msa, ff_tensor *msa_mask,
                                          ff_update update)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_in);
    ff_tensor *out = msa_column_global_attention_on_table(ctx, w, msa, msa_mask, update);
    ctx->kernels = outer;
    return out;
}
