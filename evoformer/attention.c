#include "evoformer/attention.h"

#include <string.h>

#include "dap/dap.h"

/* ---- bias ---- */

typedef struct {
    const ff_pair_bias_layer *w;
    ff_pair_bias_args a;
} bias_node;

static double bias_flop(const ff_pair_bias_args *a)
{
    return 2.0 * (double)a->num_i * (double)a->num_j * (double)a->c_z * (double)a->num_head;
}

static double bias_bytes(const ff_pair_bias_args *a)
{
    return 4.0 * (double)a->num_i * (double)a->num_j * (double)(a->c_z + a->num_head);
}

static void bias_backward(ff_ctx *ctx, ff_node *node)
{
    bias_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *pair = node->inputs[0], *grad_bias = node->outputs[0]->grad;
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->pair_bias_backward != NULL, "pair bias backward"))
        return;
    ff_module_drop_outputs(node);
    ff_tensor *unwanted = pair->requires_grad ? NULL : ff_tensor_zeros(ctx, pair->ndim, pair->shape);
    ff_tensor *grad_pair = pair->requires_grad ? ff_tensor_grad(ctx, pair) : unwanted;
    void *scratch = ff_scratch_begin(ctx, k->pair_bias_scratch_bytes(&n.a, true));
    if (ff_computing(ctx))
        k->pair_bias_backward(ff_data(grad_pair), n.w->trained ? &n.w->grad : NULL, ff_data(grad_bias), ff_data(pair),
                              &n.w->value, &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "pair_bias", true, bias_flop(&n.a), bias_bytes(&n.a), 0, 0);
    ff_tensor_release(unwanted);
}

static ff_tensor *pair_bias_on_table(ff_ctx *ctx, const ff_pair_bias_layer *w, ff_tensor *pair, ff_bias_of of)
{
    const bool transposed = of == FF_BIAS_OF_TRANSPOSED, columns = of == FF_BIAS_OF_COLUMNS;
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->pair_bias_forward != NULL, "pair bias") ||
        !ff_check_shape(ctx, pair, "pair", FF_SHAPE(-1, -1, w->c_z)))
        return NULL;
    const int64_t num_local = pair->shape[transposed ? 1 : 0], num_res = pair->shape[transposed ? 0 : 1];
    const int64_t stride_row = pair->shape[1] * w->c_z;
    bias_node n = {w, {.num_i = num_local, .num_j = num_res, .c_z = w->c_z, .num_head = w->num_head}};
    n.a.stride_i = transposed ? w->c_z : stride_row;
    n.a.stride_j = transposed ? stride_row : w->c_z;
    n.a.bias_stride_head = num_local * num_res;
    n.a.bias_stride_i = num_res;
    const bool recorded = ff_module_recorded(ctx, w->trained, &pair, 1);
    ff_tensor *local = ff_tensor_create(ctx, FF_SHAPE(w->num_head, num_local, num_res));
    void *scratch = ff_scratch_begin(ctx, k->pair_bias_scratch_bytes(&n.a, false));
    if (ff_computing(ctx))
        k->pair_bias_forward(ff_data(local), ff_data(pair), &w->value, &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "pair_bias", false, bias_flop(&n.a), bias_bytes(&n.a), 0, 0);
    if (recorded)
        ff_tape_add(ctx, "pair_bias", bias_backward, &pair, 1, &local, 1, NULL, 0, &n, sizeof n);
    ff_tensor *bias = ff_dap_size(ctx) > 1 ? ff_dap_all_gather(ctx, local, columns ? 2 : 1, columns ? pair->shape[0] : num_res)
                                           : ff_tensor_retain(local);
    ff_tensor_release(local);
    return ff_module_end(ctx, NULL, bias);
}

ff_tensor *ff_pair_bias(ff_ctx *ctx, const ff_pair_bias_layer *w, ff_tensor *pair, ff_bias_of of)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_z);
    ff_tensor *out = pair_bias_on_table(ctx, w, pair, of);
    ctx->kernels = outer;
    return out;
}

/* ---- gated attention ---- */

enum { KEPT_LSE, KEPT_OUTPUT, KEPT_QUERY, KEPT_KEY, KEPT_VALUE, KEPT_DROPOUT, KEPT_COUNT };

typedef struct {
    const ff_attention_layer *w;
    ff_gated_attention_args a;
    ff_update update;
} attention_node;

static double attention_flop(const ff_gated_attention_args *a)
{
    const double rows = (double)a->batch * (double)a->length, hc = (double)a->num_head * (double)a->c_hidden;
    return 10.0 * rows * (double)a->c_in * hc + 4.0 * rows * (double)a->length * hc;
}

/* x in and out; q, k, v written and read once (with one key axis in registers or cache, the matrix is free) */
static double attention_bytes(const ff_ctx *ctx, const ff_gated_attention_args *a)
{
    const double rows = (double)a->batch * (double)a->length, hc = (double)a->num_head * (double)a->c_hidden;
    const double bias = a->bias == NULL ? 0.0 : 4.0 * (double)a->num_head * (double)a->length * (double)a->length;
    return rows * (8.0 * (double)a->c_in + 6.0 * hc * (double)ctx->kernels->operand_bytes) + bias;
}

static ff_gated_attention_kept kept_arrays(ff_tensor *const *kept)
{
    return (ff_gated_attention_kept){.lse = ff_data(kept[KEPT_LSE]),
                                     .output = ff_data(kept[KEPT_OUTPUT]),
                                     .query = ff_data(kept[KEPT_QUERY]),
                                     .key = ff_data(kept[KEPT_KEY]),
                                     .value = ff_data(kept[KEPT_VALUE])};
}

static void attention_backward(ff_ctx *ctx, ff_node *node)
{
    attention_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *x = node->inputs[0], *bias = node->inputs[1];
    const ff_kernels *k = ctx->kernels;
    ff_module_grads g;
    if (!ff_module_offered(ctx, k->gated_attention_backward != NULL, "gated attention backward") ||
        !ff_module_grads_begin(ctx, node, x, node->outputs[0], n.update, &g))
        return;
    const ff_gated_attention_kept kept = kept_arrays(node->kept);
    float *grad_bias = bias == NULL ? NULL : ff_data(ff_tensor_grad(ctx, bias));
    void *scratch = ff_scratch_begin(ctx, k->gated_attention_scratch_bytes(&n.a, true));
    if (ff_computing(ctx))
        k->gated_attention_backward(g.grad_x, grad_bias, n.w->trained ? &n.w->grad : NULL, g.grad_out, ff_data(x),
                                    &n.w->value, &n.a, &kept, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, node->name, true, attention_flop(&n.a), attention_bytes(ctx, &n.a),
                     ff_module_bytes(node->kept, KEPT_COUNT), 0);
    ff_module_grads_end(&g);
}

static void create_kept(ff_ctx *ctx, ff_tensor **kept, const ff_gated_attention_args *a, ff_keep keep)
{
    const int64_t hc = a->num_head * a->c_hidden;
    if (keep >= FF_KEEP_RESULT) {
        kept[KEPT_LSE] = ff_tensor_create(ctx, FF_SHAPE(a->batch, a->num_head, a->length));
        kept[KEPT_OUTPUT] = ff_tensor_create(ctx, FF_SHAPE(a->batch, a->length, hc));
    }
    for (int i = KEPT_QUERY; keep >= FF_KEEP_ALL && i <= KEPT_VALUE; i++)
        kept[i] = ff_tensor_create_operand(ctx, FF_SHAPE(a->batch, a->num_head, a->length, a->c_hidden));
}

static ff_tensor *gated_attention_on_table(ff_ctx *ctx, const char *name, const ff_attention_layer *w, ff_tensor *x, ff_tensor *bias,
                                           ff_tensor *mask, const ff_gated_attention_args *layout, ff_keep keep, ff_update update)
{
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->gated_attention_forward != NULL, "gated attention") ||
        (bias != NULL &&
         !ff_check_shape(ctx, bias, "bias", FF_SHAPE(w->num_head, layout->length, layout->length))))
        return ff_module_end(ctx, x, NULL);
    attention_node n = {w, *layout, update};
    n.a.c_in = w->c_in;
    n.a.num_head = w->num_head;
    n.a.c_hidden = w->c_hidden;
    n.a.bias = ff_data(bias);
    n.a.residual = update == FF_RESIDUAL;
    ff_tensor *inputs[] = {x, bias, mask};
    ff_tensor *kept[KEPT_COUNT] = {NULL};
    const bool recorded = ff_module_recorded(ctx, w->trained, inputs, 2);
    ff_tensor *out = ff_module_output(ctx, x, recorded, update);
    kept[KEPT_DROPOUT] = ff_module_dropout(ctx, w->dropout, 0, n.a.length, w->c_in);
    n.a.dropout = ff_data(kept[KEPT_DROPOUT]);
    if (recorded)
        create_kept(ctx, kept, &n.a, keep);
    const ff_gated_attention_kept arrays = kept_arrays(kept);
    void *scratch = ff_scratch_begin(ctx, k->gated_attention_scratch_bytes(&n.a, false));
    if (ff_computing(ctx))
        k->gated_attention_forward(ff_data(out), ff_data(x), &w->value, &n.a, &arrays, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, name, false, attention_flop(&n.a), attention_bytes(ctx, &n.a),
                     ff_module_bytes(kept, KEPT_COUNT), 0);
    if (recorded)
        ff_tape_add(ctx, name, attention_backward, inputs, 3, &out, 1, kept, KEPT_COUNT, &n, sizeof n);
    else
        ff_tensor_release(kept[KEPT_DROPOUT]);
    return ff_module_end(ctx, x, out);
}

ff_tensor *ff_gated_attention(ff_ctx *ctx, const char *name, const ff_attention_layer *w, ff_tensor *x, ff_tensor *bias,
                              ff_tensor *mask, const ff_gated_attention_args *layout, ff_keep keep, ff_update update)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_in);
    ff_tensor *out = gated_attention_on_table(ctx, name, w, x, bias, mask, layout, keep, update);
    ctx->kernels = outer;
    return out;
}
