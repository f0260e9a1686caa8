/* Contents: parameters; pair features; pair stack; one template; pointwise attention; torsion-angle rows. */
#include "evoformer/template.h"

#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"
#include "evoformer/primitives.h"
#include "evoformer/transition.h"
#include "evoformer/triangle_attention.h"
#include "evoformer/triangle_multiplication.h"

/* ---- parameters ---- */

static ff_status bind_block(const ff_binder *b, const ff_template_config *g, ff_template_block *w)
{
    const ff_biased_attention_layer attention = {
        .attention = {.c_in = g->c_t, .num_head = g->num_head, .c_hidden = g->c_t / g->num_head, .dropout = g->dropout},
        .bias = {.c_z = g->c_t, .num_head = g->num_head}};
    const ff_triangle_multiplication_layer triangle = {
        .c_z = g->c_t, .c_hidden = g->c_triangle, .dropout = g->dropout};
    *w = (ff_template_block){attention, attention, triangle, triangle,
                             {.c = g->c_t, .c_hidden = g->transition_factor * g->c_t}};
    FF_TRY(ff_bind_triangle_attention(b, "triangle_attention_starting_node", &w->triangle_attention_starting_node));
    FF_TRY(ff_bind_triangle_attention(b, "triangle_attention_ending_node", &w->triangle_attention_ending_node));
    FF_TRY(ff_bind_triangle_multiplication(b, "triangle_multiplication_outgoing", &w->triangle_multiplication_outgoing,
                                           g->fuse_projection_weights));
    FF_TRY(ff_bind_triangle_multiplication(b, "triangle_multiplication_incoming", &w->triangle_multiplication_incoming,
                                           g->fuse_projection_weights));
    return ff_bind_transition(b, "pair_transition", &w->pair_transition);
}

/* Published weights have the first name; the reference's code as it is now makes the second. */
static const char *stack_scope(const ff_binder *b)
{
    static const char state[] = "template_pair_stack/__layer_stack_no_state";
    static const char per_layer[] = "template_pair_stack/__layer_stack_no_per_layer";
    const ff_binder probe = ff_binder_enter(b, per_layer), array = ff_binder_enter(&probe, "pair_transition/transition1/bias");
    return !b->declare && ff_parameters_find(b->parameters, array.scope) != NULL ? per_layer : state;
}

ff_status ff_single_template_bind(const ff_binder *b, const ff_template_config *g, ff_template_embedder *w)
{
    *w = (ff_template_embedder){.config = *g};
    if (g->num_head < 1 || g->c_t % g->num_head != 0)
        return FF_FAIL(b->ctx, FF_ERR_ARG, "%lld template channels do not divide into %lld heads", (long long)g->c_t,
                       (long long)g->num_head);
    w->embedding2d = (ff_linear_layer){.num_input = ff_template_pair_channels(&g->dgram), .num_output = g->c_t};
    w->output_layer_norm = (ff_layer_norm_layer){.c = g->c_t};
    w->blocks = calloc((size_t)g->num_block + 1, sizeof *w->blocks);
    if (w->blocks == NULL)
        return FF_FAIL(b->ctx, FF_ERR_MEM, "out of memory for the template pair stack");
    FF_TRY(ff_bind_linear(b, "embedding2d", &w->embedding2d));
    FF_TRY(ff_bind_layer_norm(b, "output_layer_norm", &w->output_layer_norm));
    ff_binder stacked = ff_binder_enter(b, stack_scope(b));
    stacked.num_block = g->num_block;
    for (int64_t i = 0; i < g->num_block; i++) {
        stacked.block = i;
        FF_TRY(bind_block(&stacked, g, &w->blocks[i]));
    }
    return FF_OK;
}

ff_status ff_template_bind(const ff_binder *b, const ff_template_config *g, ff_template_embedder *w)
{
    const ff_binder single = ff_binder_enter(b, "single_template_embedding");
    FF_TRY(ff_single_template_bind(&single, g, w));
    if (g->attention_num_head < 1 || g->attention_key_dim % g->attention_num_head != 0)
        return FF_FAIL(b->ctx, FF_ERR_ARG, "%lld channels do not divide into %lld heads",
                       (long long)g->attention_key_dim, (long long)g->attention_num_head);
    w->attention = (ff_attention_layer){.c_in = g->c_z,
                                        .c_memory = g->c_t,
                                        .num_head = g->attention_num_head,
                                        .c_hidden = g->attention_key_dim / g->attention_num_head};
    return ff_bind_pointwise_attention(b, "attention", &w->attention);
}

void ff_template_destroy(ff_template_embedder *w)
{
    free(w->blocks);
    w->blocks = NULL;
}

/* ---- pair features ---- */

enum { CHUNK_PAIRS = 8192 }; /* rows of features made at a time */

typedef struct {
    const ff_template_embedder *w;
    ff_template t;
    int64_t first, rows; /* this rank's */
} features_node;

static int64_t chunk_height(int64_t num_res)
{
    return num_res < 1 || num_res > CHUNK_PAIRS ? 1 : CHUNK_PAIRS / num_res;
}

/* embedding2d of the features by chunks of rows: forward into `y`, or (grad) backward from it. */
static void embed_features(ff_ctx *ctx, const features_node *n, float *y, bool grad)
{
    const ff_kernels *k = ctx->kernels;
    const ff_linear_layer *w = &n->w->embedding2d;
    const int64_t num_res = n->t.num_res, height = chunk_height(num_res), first = n->first, end = first + n->rows;
    for (int64_t i0 = first; i0 < end && ctx->status == FF_OK; i0 += height) {
        const int64_t i1 = i0 + height < end ? i0 + height : end, rows = (i1 - i0) * num_res;
        ff_tensor *x = ff_tensor_create(ctx, FF_SHAPE(rows, w->num_input));
        void *scratch = ff_scratch_begin(ctx, k->linear_scratch_bytes(rows, w->num_input, w->num_output));
        if (ff_computing(ctx)) {
            float *at = y + (i0 - first) * num_res * w->num_output;
            ff_template_pair_features(ff_data(x), &n->t, &n->w->config.dgram, n->w->config.use_template_unit_vector, i0,
                                      i1);
            if (grad)
                k->linear_backward(NULL, w->trained ? &w->grad : NULL, at, ff_data(x), &w->value, rows, w->num_input,
                                   w->num_output, scratch);
            else
                k->linear_forward(at, ff_data(x), &w->value, rows, w->num_input, w->num_output, false, false, scratch);
        }
        ff_scratch_end(ctx, scratch);
        ff_tensor_release(x);
    }
    ff_module_record(ctx, "template_pair_features", grad,
                     2.0 * (double)(n->rows * num_res) * (double)w->num_input * (double)w->num_output,
                     4.0 * (double)(n->rows * num_res * w->num_output), 0, 0);
}

static void features_backward(ff_ctx *ctx, ff_node *node)
{
    features_node n;
    memcpy(&n, node->args, sizeof n);
    if (!ff_module_offered(ctx, ctx->kernels->linear_backward != NULL, "linear backward"))
        return;
    ff_module_drop_outputs(node);
    embed_features(ctx, &n, ff_data(node->outputs[0]->grad), true);
}

static ff_tensor *embedded_features_on_table(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *t)
{
    if (!ff_module_offered(ctx, ctx->kernels->linear_forward != NULL, "linear"))
        return NULL;
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    const features_node n = {w, *t, ff_shard_first(t->num_res, rank, size), ff_shard_length(t->num_res, rank, size)};
    ff_tensor *pair = ff_tensor_create(ctx, FF_SHAPE(n.rows, t->num_res, w->config.c_t));
    embed_features(ctx, &n, ff_data(pair), false);
    if (ff_module_recorded(ctx, w->embedding2d.trained, NULL, 0))
        ff_tape_add(ctx, "template_pair_features", features_backward, NULL, 0, &pair, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, NULL, pair);
}

static ff_tensor *embedded_features(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *t)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->config.c_t);
    ff_tensor *out = embedded_features_on_table(ctx, w, t);
    ctx->kernels = outer;
    return out;
}

/* ---- pair stack ---- */

/* `unread`: see ff_transition. */
static ff_tensor *block_steps(ff_ctx *ctx, const ff_template_block *w, ff_tensor *pair, ff_tensor *mask_2d, bool unread)
{
    if (ctx->status != FF_OK)
        return ff_module_end(ctx, pair, NULL);
    const int64_t n = mask_2d->shape[0];
    const bool sharded = ff_dap_size(ctx) > 1;
    pair = ff_triangle_attention_starting_node(ctx, &w->triangle_attention_starting_node, pair, mask_2d, FF_RESIDUAL);
    pair = sharded ? ff_dap_all_to_all(ctx, pair, 0, n, 1, n) : pair;
    pair = ff_triangle_attention_ending_node(ctx, &w->triangle_attention_ending_node, pair, mask_2d, FF_RESIDUAL);
    pair = sharded ? ff_dap_all_to_all(ctx, pair, 1, n, 0, n) : pair;
    pair = ff_triangle_multiplication_outgoing(ctx, &w->triangle_multiplication_outgoing, pair, mask_2d, FF_RESIDUAL);
    pair = ff_triangle_multiplication_incoming_rows(ctx, &w->triangle_multiplication_incoming, pair, mask_2d, FF_RESIDUAL);
    return ff_transition(ctx, "pair_transition", &w->pair_transition, pair, FF_RESIDUAL, unread);
}

ff_tensor *ff_template_block_forward(ff_ctx *ctx, const ff_template_block *w, ff_tensor *pair, ff_tensor *mask_2d)
{
    return block_steps(ctx, w, pair, mask_2d, false);
}

enum { REGION_PAIR, REGION_MASK, REGION_COUNT };

/* With a tape this is the second run, whose results nobody reads. */
static void block_region(ff_ctx *ctx, const void *arg, ff_tensor **t)
{
    t[REGION_PAIR] = block_steps(ctx, arg, t[REGION_PAIR], t[REGION_MASK], ctx->tape != NULL);
}

ff_tensor *ff_template_pair_stack(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *t, ff_tensor *mask_2d,
                                  bool checkpoint)
{
    ff_tensor *pair = embedded_features(ctx, w, t);
    if (!ff_check_shape(ctx, mask_2d, "mask_2d", FF_SHAPE(t->num_res, t->num_res)))
        return ff_module_end(ctx, pair, NULL);
    for (int64_t i = 0; i < w->config.num_block; i++) {
        ff_tensor *tensors[REGION_COUNT] = {pair, mask_2d};
        if (checkpoint && ff_recording(ctx, tensors, REGION_COUNT))
            ff_checkpoint(ctx, "template_block", block_region, &w->blocks[i], tensors, REGION_COUNT, NULL, 0);
        else
            tensors[REGION_PAIR] = ff_template_block_forward(ctx, &w->blocks[i], pair, mask_2d);
        pair = ff_module_end(ctx, NULL, tensors[REGION_PAIR]);
    }
    return pair;
}

ff_tensor *ff_single_template_embedding(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *t,
                                        ff_tensor *mask_2d, bool checkpoint)
{
    ff_tensor *pair = ff_template_pair_stack(ctx, w, t, mask_2d, checkpoint);
    return ff_module_end(ctx, pair, ff_layer_norm_sharded(ctx, &w->output_layer_norm, pair));
}

/* ---- pointwise attention ---- */

/* The output layer norm of each template goes straight to its place in one array; the inputs are the stacks' results. */
typedef struct {
    const ff_layer_norm_layer *w;
    int64_t num_templ;
} stacking_node;

static void stacking_backward(ff_ctx *ctx, ff_node *node)
{
    stacking_node n;
    memcpy(&n, node->args, sizeof n);
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->layer_norm_backward != NULL, "layer norm backward"))
        return;
    const float *grad = ff_data(node->outputs[0]->grad);
    ff_module_drop_outputs(node);
    for (int64_t t = 0; t < n.num_templ; t++) {
        ff_tensor *x = node->inputs[t];
        const int64_t rows = x->size / n.w->c;
        ff_tensor *held = x->requires_grad ? NULL : ff_tensor_zeros(ctx, x->ndim, x->shape);
        ff_tensor *grad_x = x->requires_grad ? ff_tensor_grad(ctx, x) : held;
        void *scratch = ff_scratch_begin(ctx, k->layer_norm_backward_scratch_bytes(rows, n.w->c));
        if (ff_computing(ctx))
            k->layer_norm_backward(ff_data(grad_x), n.w->trained ? &n.w->grad : NULL, grad + t * x->size, ff_data(x),
                                   &n.w->value, rows, n.w->c, scratch);
        ff_scratch_end(ctx, scratch);
        ff_tensor_release(held);
    }
    ff_module_record(ctx, node->name, true, 0, 2 * (double)node->outputs[0]->grad->bytes, 0, 0);
}

/* [num_templ, num_res_local, num_res, c_t] */
static ff_tensor *stacked_templates(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *templates,
                                    int64_t num_templ, ff_tensor *mask_2d, bool checkpoint)
{
    const int64_t num_res = templates[0].num_res, local = ff_shard_length(num_res, ff_dap_rank(ctx), ff_dap_size(ctx));
    const stacking_node n = {&w->output_layer_norm, num_templ};
    ff_tensor *inputs[FF_MODEL_MAX_TEMPLATES] = {NULL};
    ff_tensor *all = ff_tensor_create(ctx, FF_SHAPE(num_templ, local, num_res, w->config.c_t));
    bool recorded = false;
    for (int64_t t = 0; t < num_templ && ctx->status == FF_OK; t++) {
        ff_tensor *x = ff_template_pair_stack(ctx, w, &templates[t], mask_2d, checkpoint);
        if (ff_computing(ctx))
            ctx->kernels->layer_norm_forward(ff_data(all) + t * x->size, ff_data(x), &w->output_layer_norm.value,
                                             x->size / w->config.c_t, w->config.c_t);
        inputs[t] = x;
        recorded = ff_module_recorded(ctx, w->output_layer_norm.trained, inputs, (int)t + 1);
        if (!recorded) {
            ff_tensor_release(x);
            inputs[t] = NULL;
        }
    }
    ff_module_record(ctx, "template_layer_norm", false, 0, all == NULL ? 0 : 2 * (double)all->bytes, 0, 0);
    if (recorded)
        ff_tape_add(ctx, "template_layer_norm", stacking_backward, inputs, (int)num_templ, &all, 1, NULL, 0, &n,
                    sizeof n);
    for (int64_t t = 0; t < num_templ; t++)
        ff_tensor_release(inputs[t]);
    return ff_module_end(ctx, NULL, all);
}

typedef struct {
    const ff_attention_layer *w;
    ff_pointwise_attention_args a;
    ff_update update;
} pointwise_node;

static double pointwise_flop(const ff_pointwise_attention_args *a)
{
    const double hc = (double)(a->num_head * a->c_hidden), t = (double)a->num_templ;
    return (double)a->num_pair * (4.0 * (double)a->c_z * hc + t * (4.0 * (double)a->c_t * hc + 4.0 * hc));
}

static double pointwise_bytes(const ff_pointwise_attention_args *a)
{
    return 4.0 * (double)a->num_pair * (2.0 * (double)a->c_z + (double)(a->num_templ * a->c_t));
}

static void pointwise_backward(ff_ctx *ctx, ff_node *node)
{
    pointwise_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *pair = node->inputs[0], *templates = node->inputs[1];
    const ff_kernels *k = ctx->kernels;
    ff_module_grads g;
    if (!ff_module_offered(ctx, k->pointwise_attention_backward != NULL, "pointwise attention backward") ||
        !ff_module_grads_begin(ctx, node, pair, node->outputs[0], n.update, &g))
        return;
    ff_tensor *held = templates->requires_grad ? NULL : ff_tensor_zeros(ctx, templates->ndim, templates->shape);
    ff_tensor *grad_templates = templates->requires_grad ? ff_tensor_grad(ctx, templates) : held;
    void *scratch = ff_scratch_begin(ctx, k->pointwise_attention_scratch_bytes(&n.a, true));
    if (ff_computing(ctx))
        k->pointwise_attention_backward(g.grad_x, ff_data(grad_templates), n.w->trained ? &n.w->grad : NULL, g.grad_out,
                                        ff_data(pair), ff_data(templates), &n.w->value, &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, node->name, true, pointwise_flop(&n.a), pointwise_bytes(&n.a), 0, 0);
    ff_tensor_release(held);
    ff_module_grads_end(&g);
}

static ff_tensor *pointwise_attention_on_table(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *pair, ff_tensor *templates,
                                               const float *template_mask, ff_update update)
{
    static const char name[] = "template_pointwise_attention";
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->pointwise_attention_forward != NULL, "pointwise attention"))
        return ff_module_end(ctx, pair, NULL);
    const pointwise_node n = {w,
                              {.num_pair = pair->size / w->c_in,
                               .num_templ = templates->shape[0],
                               .c_z = w->c_in,
                               .c_t = w->c_memory,
                               .num_head = w->num_head,
                               .c_hidden = w->c_hidden,
                               .template_mask = template_mask,
                               .residual = update == FF_RESIDUAL},
                              update};
    ff_tensor *inputs[] = {pair, templates};
    const bool recorded = ff_module_recorded(ctx, w->trained, inputs, 2);
    ff_tensor *out = ff_module_output(ctx, pair, recorded, update);
    void *scratch = ff_scratch_begin(ctx, k->pointwise_attention_scratch_bytes(&n.a, false));
    if (ff_computing(ctx))
        k->pointwise_attention_forward(ff_data(out), ff_data(pair), ff_data(templates), &w->value, &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, name, false, pointwise_flop(&n.a), pointwise_bytes(&n.a), 0, 0);
    if (recorded)
        ff_tape_add(ctx, name, pointwise_backward, inputs, 2, &out, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, pair, out);
}

static ff_tensor *pointwise_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *pair, ff_tensor *templates,
                                      const float *template_mask, ff_update update)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_memory);
    ff_tensor *out = pointwise_attention_on_table(ctx, w, pair, templates, template_mask, update);
    ctx->kernels = outer;
    return out;
}

ff_tensor *ff_template_embedding(ff_ctx *ctx, const ff_template_embedder *w, ff_tensor *pair,
                                 const ff_template *templates, int64_t num_templ, const float *template_mask,
                                 ff_tensor *mask_2d, bool checkpoint, ff_update update)
{
    if (num_templ < 1 || num_templ > FF_MODEL_MAX_TEMPLATES) {
        if (ctx->status == FF_OK)
            FF_FAIL(ctx, FF_ERR_ARG, "%lld templates: 1 to %d can be embedded", (long long)num_templ, FF_MODEL_MAX_TEMPLATES);
        return ff_module_end(ctx, pair, NULL);
    }
    const int64_t num_res = templates[0].num_res, local = ff_shard_length(num_res, ff_dap_rank(ctx), ff_dap_size(ctx));
    if (!ff_check_shape(ctx, pair, "pair", FF_SHAPE(local, num_res, w->config.c_z)))
        return ff_module_end(ctx, pair, NULL);
    ff_tensor *all = stacked_templates(ctx, w, templates, num_templ, mask_2d, checkpoint);
    pair = pointwise_attention(ctx, &w->attention, pair, all, template_mask, update);
    ff_tensor_release(all);
    return pair;
}

/* ---- torsion-angle rows ---- */

ff_status ff_template_torsion_bind(const ff_binder *b, int64_t c_m, ff_template_torsion *w)
{
    *w = (ff_template_torsion){c_m,
                               {.num_input = FF_TEMPLATE_TORSION_FEAT, .num_output = c_m},
                               {.num_input = c_m, .num_output = c_m}};
    FF_TRY(ff_bind_linear(b, "template_single_embedding", &w->template_single_embedding));
    return ff_bind_linear(b, "template_projection", &w->template_projection);
}

ff_tensor *ff_template_torsion_rows_features(ff_ctx *ctx, const ff_template *templates, int64_t num_templ)
{
    if (ctx->status != FF_OK)
        return NULL;
    const int64_t num_res = num_templ > 0 ? templates[0].num_res : 0;
    ff_tensor *features = ff_tensor_create(ctx, FF_SHAPE(num_templ, num_res, FF_TEMPLATE_TORSION_FEAT));
    for (int64_t t = 0; t < num_templ && ff_computing(ctx); t++)
        ff_template_torsion_features(ff_data(features) + t * num_res * FF_TEMPLATE_TORSION_FEAT, NULL, &templates[t]);
    return features;
}

ff_tensor *ff_template_torsion_rows(ff_ctx *ctx, const ff_template_torsion *w, ff_tensor *features)
{
    ff_tensor *hidden = ff_linear_sharded(ctx, &w->template_single_embedding, features, true);
    return ff_module_end(ctx, hidden, ff_linear_sharded(ctx, &w->template_projection, hidden, false));
}
