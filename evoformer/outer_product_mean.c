#include "evoformer/outer_product_mean.h"

#include <string.h>

#include "dap/dap.h"
#include "evoformer/shards.h"

enum { KEPT_LEFT, KEPT_RIGHT, KEPT_COUNT }; /* right: gathered, all residues */

typedef struct {
    const ff_outer_product_mean_layer *w;
    ff_outer_product_project_args project;
    ff_outer_product_args product; /* masks are set per pass */
    int64_t num_res;
    ff_update update;
} outer_node;

static double project_flop(const outer_node *n)
{
    return 4.0 * (double)n->project.num_seq * (double)n->project.num_res * (double)n->w->c_m * (double)n->w->c_outer;
}

static double product_flop(const outer_node *n)
{
    const double ij = (double)n->product.num_res_i * (double)n->num_res, cc = (double)(n->w->c_outer * n->w->c_outer);
    return 2.0 * ij * cc * ((double)n->project.num_seq + (double)n->w->c_z);
}

static double outer_bytes(const outer_node *n)
{
    return 4.0 * (double)n->project.num_seq * (double)n->project.num_res * (double)n->w->c_m +
           8.0 * (double)n->product.num_res_i * (double)n->num_res * (double)n->w->c_z;
}

/* ---- the parts both passes use ---- */

/* left [num_res_local, c_outer, num_seq]; right [num_res, num_seq, c_outer], gathered. */
static void project(ff_ctx *ctx, const outer_node *n, ff_tensor *msa, ff_tensor **left, ff_tensor **right)
{
    const int64_t local = n->project.num_res, num_seq = n->project.num_seq, c = n->w->c_outer;
    *left = ff_tensor_create_operand(ctx, FF_SHAPE(local, c, num_seq));
    ff_tensor *own = ff_tensor_create_operand(ctx, FF_SHAPE(local, num_seq, c));
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->outer_product_mean_project_scratch_bytes(&n->project, false));
    if (ff_computing(ctx))
        ctx->kernels->outer_product_mean_project_forward((*left)->data, own->data, ff_data(msa), &n->w->value,
                                                         &n->project, scratch);
    ff_scratch_end(ctx, scratch);
    *right = ff_shards_gather_operand(ctx, own, n->num_res, num_seq * c);
    ff_tensor_release(own);
}

/* mask[s, i] as [num_res, num_seq]; sets the product's pointers into it. */
static ff_tensor *transposed_mask(ff_ctx *ctx, outer_node *n, const ff_tensor *msa_mask)
{
    const int64_t num_seq = msa_mask->shape[0], num_res = msa_mask->shape[1];
    ff_tensor *mask = ff_tensor_create(ctx, FF_SHAPE(num_res, num_seq));
    if (ff_computing(ctx)) {
        ctx->kernels->transpose(ff_data(mask), ff_data(msa_mask), num_seq, num_res, 1, false);
        n->product.mask_i = ff_data(mask) + ff_shard_first(num_res, ff_dap_rank(ctx), ff_dap_size(ctx)) * num_seq;
        n->product.mask_j = ff_data(mask);
    }
    return mask;
}

/* ---- backward ---- */

/* Gradients of left (local) and of right (this rank's part of the sum over ranks), float32. */
static void product_backward(ff_ctx *ctx, outer_node *n, const float *grad_out, ff_tensor *const *kept,
                             const ff_tensor *msa_mask, ff_tensor **grad_left, ff_tensor **grad_right)
{
    const int64_t local = n->project.num_res, num_seq = n->project.num_seq, c = n->w->c_outer;
    *grad_left = ff_tensor_zeros(ctx, FF_SHAPE(local, c, num_seq));
    ff_tensor *all = ff_tensor_zeros(ctx, FF_SHAPE(n->num_res, num_seq, c));
    ff_tensor *mask = transposed_mask(ctx, n, msa_mask);
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->outer_product_mean_product_scratch_bytes(&n->product, true));
    if (ff_computing(ctx))
        ctx->kernels->outer_product_mean_product_backward(ff_data(*grad_left), ff_data(all),
                                                          n->w->trained ? &n->w->grad : NULL, grad_out,
                                                          kept[KEPT_LEFT]->data, kept[KEPT_RIGHT]->data, &n->w->value,
                                                          &n->product, scratch);
    ff_scratch_end(ctx, scratch);
    ff_tensor_release(mask);
    *grad_right = ff_shards_reduce(ctx, all, n->num_res, num_seq * c);
    ff_tensor_release(all);
}

static void outer_backward(ff_ctx *ctx, ff_node *node)
{
    outer_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *msa = node->inputs[0], *pair = node->inputs[1], *msa_mask = node->inputs[2];
    ff_tensor *out = node->outputs[0], *grad_left = NULL, *grad_right = NULL, *held = NULL;
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->outer_product_mean_product_backward != NULL, "outer product mean backward"))
        return;
    ff_module_drop_outputs(node);
    const bool recompute = node->kept[KEPT_LEFT] == NULL;
    if (recompute)
        project(ctx, &n, msa, &node->kept[KEPT_LEFT], &node->kept[KEPT_RIGHT]);
    product_backward(ctx, &n, ff_data(out->grad), node->kept, msa_mask, &grad_left, &grad_right);
    if (pair != NULL) /* the residual part */
        ff_grad_through_residual(ctx, pair, out);
    if (!msa->requires_grad)
        held = ff_tensor_zeros(ctx, msa->ndim, msa->shape);
    ff_tensor *grad_msa = msa->requires_grad ? ff_tensor_grad(ctx, msa) : held;
    void *scratch = ff_scratch_begin(ctx, k->outer_product_mean_project_scratch_bytes(&n.project, true));
    if (ff_computing(ctx))
        k->outer_product_mean_project_backward(ff_data(grad_msa), n.w->trained ? &n.w->grad : NULL, ff_data(grad_left),
                                               ff_data(grad_right), ff_data(msa), &n.w->value, &n.project, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, node->name, true, project_flop(&n) + product_flop(&n), outer_bytes(&n),
                     recompute ? 0 : ff_module_bytes(node->kept, KEPT_COUNT), 0);
    ff_tensor_release(grad_left);
    ff_tensor_release(grad_right);
    ff_tensor_release(held);
}

/* ---- forward ---- */

static bool outer_shapes(ff_ctx *ctx, const ff_outer_product_mean_layer *w, const ff_tensor *msa, const ff_tensor *pair,
                         const ff_tensor *msa_mask, ff_update update, outer_node *n)
{
    if (!ff_check_shape(ctx, msa, "msa", FF_SHAPE(-1, -1, w->c_m)) ||
        !ff_check_shape(ctx, msa_mask, "msa_mask", FF_SHAPE(msa->shape[0], -1)))
        return false;
    const int64_t num_seq = msa->shape[0], local = msa->shape[1], num_res = msa_mask->shape[1];
    if (update == FF_RESIDUAL && !ff_check_shape(ctx, pair, "pair", FF_SHAPE(local, num_res, w->c_z)))
        return false;
    *n = (outer_node){.w = w, .num_res = num_res, .update = update};
    n->project = (ff_outer_product_project_args){
        .num_seq = num_seq,
        .num_res = local,
        .c_m = w->c_m,
        .c_outer = w->c_outer,
        .stride_seq = local * w->c_m,
        .stride_res = w->c_m,
        .mask = ff_data(msa_mask) + ff_shard_first(num_res, ff_dap_rank(ctx), ff_dap_size(ctx)),
        .mask_stride_seq = num_res,
        .mask_stride_res = 1};
    n->product = (ff_outer_product_args){.num_seq = num_seq,
                                         .num_res_i = local,
                                         .num_res_j = num_res,
                                         .c_outer = w->c_outer,
                                         .c_z = w->c_z,
                                         .stride_i = num_res * w->c_z,
                                         .stride_j = w->c_z,
                                         .residual = update == FF_RESIDUAL};
    return true;
}

static ff_tensor *outer_product_mean_on_table(ff_ctx *ctx, const ff_outer_product_mean_layer *w, ff_tensor *msa, ff_tensor *pair,
                                              ff_tensor *msa_mask, ff_update update)
{
    static const char name[] = "outer_product_mean";
    const ff_kernels *k = ctx->kernels;
    outer_node n;
    if (!ff_module_offered(ctx, k->outer_product_mean_product_forward != NULL, "outer product mean") ||
        !outer_shapes(ctx, w, msa, pair, msa_mask, update, &n))
        return ff_module_end(ctx, pair, NULL);
    ff_tensor *inputs[] = {msa, pair, msa_mask}, *kept[KEPT_COUNT] = {NULL};
    const bool recorded = ff_module_recorded(ctx, w->trained, inputs, 2);
    project(ctx, &n, msa, &kept[KEPT_LEFT], &kept[KEPT_RIGHT]);
    ff_tensor *out = pair != NULL ? ff_module_output(ctx, pair, recorded, FF_RESIDUAL)
                                  : ff_tensor_create(ctx, FF_SHAPE(n.project.num_res, n.num_res, w->c_z));
    ff_tensor *mask = transposed_mask(ctx, &n, msa_mask);
    void *scratch = ff_scratch_begin(ctx, k->outer_product_mean_product_scratch_bytes(&n.product, false));
    if (ff_computing(ctx))
        k->outer_product_mean_product_forward(ff_data(out), ff_data(pair), kept[KEPT_LEFT]->data,
                                              kept[KEPT_RIGHT]->data, &w->value, &n.product, scratch);
    ff_scratch_end(ctx, scratch);
    ff_tensor_release(mask);
    if (!recorded || ff_module_keep(ctx) == FF_KEEP_INPUTS)
        for (int i = 0; i < KEPT_COUNT; i++) {
            ff_tensor_release(kept[i]);
            kept[i] = NULL;
        }
    ff_module_record(ctx, name, false, project_flop(&n) + product_flop(&n), outer_bytes(&n),
                     ff_module_bytes(kept, KEPT_COUNT), 0);
    if (recorded)
        ff_tape_add(ctx, name, outer_backward, inputs, 3, &out, 1, kept, KEPT_COUNT, &n, sizeof n);
    return ff_module_end(ctx, pair, out);
}

ff_tensor *ff_outer_product_mean(ff_ctx *ctx, const ff_outer_product_mean_layer *w, ff_tensor *msa, ff_tensor *pair,
                                 ff_tensor *msa_mask, ff_update update)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_z);
    ff_tensor *out = outer_product_mean_on_table(ctx, w, msa, pair, msa_mask, update);
    ctx->kernels = outer;
    return out;
}
