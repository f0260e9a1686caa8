/* golden_ops.c - golden_run and the operations of primitives, attention, transition, outer product, triangle, blocks.
 *
 * Contents: the state; primitives; MSA; pair; blocks and stacks; the table; one run; golden_run.
 *
 * Under DAP a module gets its shards from ff_dap_scatter and its results are gathered, so that the whole arrays of the
 * file are compared whatever the number of ranks. */
#include "tests/golden_ops.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"

/* ---- the state ---- */

static ff_tensor *add_leaf(golden_run_state *s, const golden_array *a, const char *name)
{
    char path[256];
    if (s->ctx->status != FF_OK)
        return NULL;
    assert(s->num_leaves < GOLDEN_TENSORS);
    ff_tensor *x = ff_tensor_create(s->ctx, a->ndim, a->shape);
    if (x == NULL)
        return NULL;
    memcpy(x->data, a->data, x->bytes);
    snprintf(path, sizeof path, "input/%s", name);
    x->requires_grad = golden_wants_grad(s->c, path);
    s->leaf_names[s->num_leaves] = name;
    s->leaves[s->num_leaves++] = x;
    return x;
}

ff_tensor *golden_leaf(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    return a == NULL ? NULL : add_leaf(s, a, name);
}

ff_tensor *golden_find_leaf(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_find_input(s->c, name);
    return a == NULL ? NULL : add_leaf(s, a, name);
}

const float *golden_floats(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    return a == NULL ? NULL : a->data;
}

const int32_t *golden_integers(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    if (a == NULL)
        return NULL;
    assert(s->num_arrays < GOLDEN_ARRAYS);
    int32_t *values = malloc((size_t)(a->size + 1) * sizeof *values);
    if (values == NULL) {
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory for %s", name);
        return NULL;
    }
    for (int64_t i = 0; i < a->size; i++)
        values[i] = (int32_t)a->data[i];
    s->arrays[s->num_arrays++] = values;
    return values;
}

void golden_result(golden_run_state *s, const char *name, ff_tensor *x)
{
    if (x == NULL)
        return;
    assert(s->num_outputs < GOLDEN_TENSORS);
    s->output_names[s->num_outputs] = name;
    s->outputs[s->num_outputs++] = x;
}

void golden_array_result(golden_run_state *s, const char *name, const float *data, int ndim, const int64_t *shape)
{
    golden_store_output(s->c, name, data, ndim, shape);
}

void *golden_layer(golden_run_state *s, size_t bytes)
{
    assert(s->layer == NULL);
    s->layer = calloc(1, bytes);
    if (s->layer == NULL)
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory for a layer");
    return s->layer;
}

static int64_t number(const golden_run_state *s, const char *name) { return golden_int(s->c, name, 0); }

static bool ok(const golden_run_state *s, ff_status status) { return status == FF_OK && s->ctx->status == FF_OK; }

ff_tensor *golden_shard(golden_run_state *s, const char *name, int axis)
{
    ff_tensor *x = golden_leaf(s, name);
    return ff_dap_size(s->ctx) == 1 ? ff_tensor_retain(x) : ff_dap_scatter(s->ctx, x, axis);
}

void golden_gathered_result(golden_run_state *s, const char *name, ff_tensor *x, int axis, int64_t total)
{
    if (ff_dap_size(s->ctx) > 1) {
        ff_tensor *whole = x == NULL ? NULL : ff_dap_gather_replicated(s->ctx, x, axis, total);
        ff_tensor_release(x);
        x = whole;
    }
    golden_result(s, name, x);
}

/* Without a tape nothing needs the leaf afterwards: hand over the only reference, so that updates run in place. */
static ff_tensor *consumed(golden_run_state *s, const char *name, int axis)
{
    ff_tensor *x = golden_shard(s, name, axis);
    if (s->ctx->tape == NULL && x != NULL && x->refs == 2 && s->leaves[s->num_leaves - 1] == x) {
        s->num_leaves--;
        ff_tensor_release(x);
    }
    return x;
}

/* ---- primitives ---- */

static void run_layer_norm(golden_run_state *s)
{
    ff_layer_norm_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    w->c = number(s, "num_channel");
    if (ok(s, ff_bind_layer_norm(&s->binder, "", w)))
        golden_result(s, "out", ff_layer_norm(s->ctx, w, golden_leaf(s, "x")));
}

static void run_linear(golden_run_state *s)
{
    ff_linear_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    w->num_input = number(s, "num_input");
    w->num_output = number(s, "num_output");
    if (ok(s, ff_bind_linear(&s->binder, "", w)))
        golden_result(s, "out", ff_linear(s->ctx, w, golden_leaf(s, "x"), false));
}

static void run_attention_core(golden_run_state *s)
{
    ff_tensor *q = golden_leaf(s, "q"), *k = golden_leaf(s, "k"), *v = golden_leaf(s, "v");
    ff_tensor *mask = golden_leaf(s, "mask"), *bias = golden_leaf(s, "nonbatched_bias");
    if (s->ctx->status == FF_OK) /* the attribute `scale` is printed with few digits */
        golden_result(s, "out",
                      ff_attention_core(s->ctx, q, k, v, mask, bias, 1.0f / __builtin_sqrtf((float)q->shape[3])));
}

/* Gated self-attention runs in the fused kernel, everything else as a composition. */
static void run_attention(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    ff_attention_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    *w = (ff_attention_layer){.c_in = number(s, "q_channel"), .c_memory = number(s, "m_channel")};
    w->num_head = number(s, "num_head");
    if (w->c_in == 0)
        w->c_in = number(s, "output_dim");
    w->c_hidden = number(s, "key_dim") / (w->num_head > 0 ? w->num_head : 1);
    const bool gating = number(s, "gating") != 0;
    if (!ok(s, ff_bind_pointwise_attention(&s->binder, "", w)))
        return;
    const int64_t gate[] = {w->c_in, w->num_head, w->c_hidden};
    if (gating && (!ok(s, ff_bind_array(&s->binder, "gating_w", 3, gate, &w->value.gating_w, &w->grad.gating_w)) ||
                   !ok(s, ff_bind_array(&s->binder, "gating_b", 2, gate + 1, &w->value.gating_b, &w->grad.gating_b))))
        return;
    ff_tensor *q = golden_leaf(s, "q_data"), *m = golden_find_leaf(s, "m_data"), *mask = golden_leaf(s, "mask");
    ff_tensor *bias = golden_find_leaf(s, "nonbatched_bias");
    if (ctx->status != FF_OK)
        return;
    if (m != NULL || !gating) {
        golden_result(s, "out", ff_attention(ctx, w, q, m != NULL ? m : q, mask, bias));
        return;
    }
    const ff_gated_attention_args layout = {.batch = q->shape[0],
                                            .length = q->shape[1],
                                            .stride_batch = q->shape[1] * w->c_in,
                                            .stride_length = w->c_in,
                                            .mask = ff_data(mask),
                                            .mask_stride_batch = q->shape[1],
                                            .mask_stride_length = 1};
    w->trained = ff_replicated_trained(ctx, w->trained); /* not sharded here */
    golden_result(s, "out",
                  ff_gated_attention(ctx, "attention", w, ff_tensor_retain(q), bias, mask, &layout, ff_module_keep(ctx),
                                     FF_UPDATE_ONLY));
}

/* ---- MSA ---- */

static void run_row_attention(golden_run_state *s)
{
    ff_biased_attention_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    const int64_t num_head = number(s, "num_head");
    w->attention = (ff_attention_layer){.c_in = number(s, "c_m"), .num_head = num_head, .c_hidden = number(s, "c_hidden")};
    w->bias = (ff_pair_bias_layer){.c_z = number(s, "c_z"), .num_head = num_head};
    if (!ok(s, ff_bind_row_attention(&s->binder, "", w)))
        return;
    ff_tensor *mask = golden_leaf(s, "msa_mask"), *pair = golden_shard(s, "pair_act", 0), *msa = consumed(s, "msa_act", 0);
    if (s->ctx->status == FF_OK) {
        msa = ff_msa_row_attention_with_pair_bias(s->ctx, w, msa, pair, mask, FF_UPDATE_ONLY);
        golden_gathered_result(s, "out", msa, 0, mask->shape[0]);
    }
    ff_tensor_release(pair);
}

static void run_column(golden_run_state *s, bool global)
{
    ff_ctx *ctx = s->ctx;
    ff_attention_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    *w = (ff_attention_layer){
        .c_in = number(s, "c_m"), .num_head = number(s, "num_head"), .c_hidden = number(s, "c_hidden")};
    if (!ok(s, global ? ff_bind_global_attention(&s->binder, "", w) : ff_bind_attention(&s->binder, "", w)))
        return;
    ff_tensor *mask = golden_leaf(s, "msa_mask"), *msa = consumed(s, "msa_act", 1);
    if (ctx->status != FF_OK)
        return;
    msa = global ? ff_msa_column_global_attention(ctx, w, msa, mask, FF_UPDATE_ONLY)
                 : ff_msa_column_attention(ctx, w, msa, mask, ff_module_keep(ctx), FF_UPDATE_ONLY);
    golden_gathered_result(s, "out", msa, 1, mask->shape[1]);
}

static void run_column_attention(golden_run_state *s) { run_column(s, false); }
static void run_column_global_attention(golden_run_state *s) { run_column(s, true); }

static void run_transition(golden_run_state *s)
{
    ff_transition_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    w->c = number(s, "num_channel");
    w->c_hidden = w->c * number(s, "num_intermediate_factor");
    if (!ok(s, ff_bind_transition(&s->binder, "", w)))
        return;
    ff_tensor *act = consumed(s, "act", 0);
    golden_gathered_result(s, "out", ff_transition(s->ctx, "transition", w, act, FF_UPDATE_ONLY, false), 0,
                    number(s, "num_lead"));
}

static void run_outer_product_mean(golden_run_state *s)
{
    ff_outer_product_mean_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    *w = (ff_outer_product_mean_layer){
        .c_m = number(s, "c_m"), .c_outer = number(s, "num_outer_channel"), .c_z = number(s, "c_z")};
    if (!ok(s, ff_bind_outer_product_mean(&s->binder, "", w)))
        return;
    ff_tensor *mask = golden_leaf(s, "mask"), *msa = golden_shard(s, "act", 1);
    if (s->ctx->status == FF_OK)
        golden_gathered_result(s, "out", ff_outer_product_mean(s->ctx, w, msa, NULL, mask, FF_UPDATE_ONLY), 0, mask->shape[1]);
    ff_tensor_release(msa);
}

/* ---- pair ---- */

static void run_multiplication(golden_run_state *s, bool incoming)
{
    ff_ctx *ctx = s->ctx;
    ff_triangle_multiplication_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    *w = (ff_triangle_multiplication_layer){.c_z = number(s, "c_z"), .c_hidden = number(s, "num_intermediate_channel")};
    if (!ok(s, ff_bind_triangle_multiplication(&s->binder, "", w, number(s, "fuse_projection_weights") != 0)))
        return;
    ff_tensor *mask = golden_leaf(s, "pair_mask"), *pair = consumed(s, "pair_act", incoming ? 1 : 0);
    if (ctx->status != FF_OK)
        return;
    pair = incoming ? ff_triangle_multiplication_incoming(ctx, w, pair, mask, FF_UPDATE_ONLY)
                    : ff_triangle_multiplication_outgoing(ctx, w, pair, mask, FF_UPDATE_ONLY);
    golden_gathered_result(s, "out", pair, incoming ? 1 : 0, mask->shape[0]);
}

static void run_multiplication_outgoing(golden_run_state *s) { run_multiplication(s, false); }
static void run_multiplication_incoming(golden_run_state *s) { run_multiplication(s, true); }

static void run_triangle_attention(golden_run_state *s, bool ending)
{
    ff_ctx *ctx = s->ctx;
    ff_biased_attention_layer *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    const int64_t num_head = number(s, "num_head"), c_z = number(s, "c_z");
    w->attention = (ff_attention_layer){.c_in = c_z, .num_head = num_head, .c_hidden = number(s, "c_hidden")};
    w->bias = (ff_pair_bias_layer){.c_z = c_z, .num_head = num_head};
    if (!ok(s, ff_bind_triangle_attention(&s->binder, "", w)))
        return;
    ff_tensor *mask = golden_leaf(s, "pair_mask"), *pair = consumed(s, "pair_act", ending ? 1 : 0);
    if (ctx->status != FF_OK)
        return;
    pair = ending ? ff_triangle_attention_ending_node(ctx, w, pair, mask, FF_UPDATE_ONLY)
                  : ff_triangle_attention_starting_node(ctx, w, pair, mask, FF_UPDATE_ONLY);
    golden_gathered_result(s, "out", pair, ending ? 1 : 0, mask->shape[0]);
}

static void run_starting_node(golden_run_state *s) { run_triangle_attention(s, false); }
static void run_ending_node(golden_run_state *s) { run_triangle_attention(s, true); }

/* ---- blocks and stacks ---- */

static ff_block_config block_config(const golden_run_state *s)
{
    return (ff_block_config){.c_m = number(s, "c_m"),
                             .c_z = number(s, "c_z"),
                             .num_head_msa = number(s, "num_head_msa"),
                             .num_head_pair = number(s, "num_head_pair"),
                             .c_triangle = number(s, "num_intermediate_channel"),
                             .c_outer = number(s, "num_outer_channel"),
                             .transition_factor = number(s, "transition_factor"),
                             .is_extra_msa = number(s, "is_extra_msa") != 0,
                             .outer_product_mean_first = number(s, "outer_product_mean_first") != 0};
}

static void run_blocks(golden_run_state *s, int64_t num_block)
{
    ff_ctx *ctx = s->ctx;
    const ff_block_config config = block_config(s);
    ff_block *w = golden_layer(s, (size_t)(num_block > 0 ? num_block : 1) * sizeof *w);
    if (w == NULL || !ok(s, num_block > 0 ? ff_block_stack_bind(&s->binder, &config, num_block, w)
                                          : ff_block_bind(&s->binder, &config, w)))
        return;
    ff_tensor *msa_mask = golden_leaf(s, "msa_mask"), *pair_mask = golden_leaf(s, "pair_mask");
    ff_tensor *msa = consumed(s, "msa", 0), *pair = consumed(s, "pair", 0);
    ff_block_stack_forward(ctx, w, num_block > 0 ? num_block : 1, s->checkpoint, &msa, &pair, msa_mask, pair_mask);
    golden_gathered_result(s, "msa", msa, 0, msa_mask == NULL ? 0 : msa_mask->shape[0]);
    golden_gathered_result(s, "pair", pair, 0, pair_mask == NULL ? 0 : pair_mask->shape[0]);
}

static void run_block(golden_run_state *s) { run_blocks(s, 0); }
static void run_stack(golden_run_state *s) { run_blocks(s, number(s, "num_block")); }

/* ---- the table ---- */

static const golden_op ops[] = {
    {"primitives", "layer_norm", run_layer_norm, false},
    {"primitives", "linear", run_linear, false},
    {"primitives", "attention_core", run_attention_core, false},
    {"primitives", "attention", run_attention, false},
    {"msa_attention", "msa_row_attention_with_pair_bias", run_row_attention, false},
    {"msa_attention", "msa_column_attention", run_column_attention, false},
    {"msa_attention", "msa_column_global_attention", run_column_global_attention, false},
    {"transition", "transition", run_transition, false},
    {"outer_product_mean", "outer_product_mean", run_outer_product_mean, false},
    {"triangle", "triangle_multiplication_outgoing", run_multiplication_outgoing, false},
    {"triangle", "triangle_multiplication_incoming", run_multiplication_incoming, false},
    {"triangle", "triangle_attention_starting_node", run_starting_node, false},
    {"triangle", "triangle_attention_ending_node", run_ending_node, false},
    {"evoformer_block", "evoformer_block", run_block, true},
    {"evoformer_block", "extra_msa_block", run_block, true},
    {"evoformer_stack", "evoformer_stack", run_stack, true},
    {"evoformer_stack", "extra_msa_stack", run_stack, true},
    {NULL, NULL, NULL, false},
};

static const golden_op *find_in(const golden_op *table, const char *family, const char *op, bool *family_known)
{
    for (; table->op != NULL; table++) {
        if (strcmp(table->family, family) != 0)
            continue;
        *family_known = true;
        if (strcmp(table->op, op) == 0)
            return table;
    }
    return NULL;
}

/* ---- one run ---- */

static void store_outputs(golden_run_state *s)
{
    for (int i = 0; i < s->num_outputs; i++)
        golden_store_output(s->c, s->output_names[i], ff_data(s->outputs[i]), s->outputs[i]->ndim, s->outputs[i]->shape);
}

static ff_status set_cotangents(golden_run_state *s)
{
    for (int i = 0; i < s->num_outputs; i++) {
        const golden_array *cotangent = golden_cotangent(s->c, s->output_names[i]);
        if (cotangent == NULL || !s->outputs[i]->requires_grad)
            continue;
        if (!ff_check_shape(s->ctx, s->outputs[i], s->output_names[i], cotangent->ndim, cotangent->shape))
            return s->ctx->status;
        FF_TRY(ff_tensor_set_grad(s->ctx, s->outputs[i], cotangent->data));
    }
    return FF_OK;
}

static ff_status store_gradients(golden_run_state *s)
{
    if (s->parameters.count > 0) {
        FF_TRY(ff_dap_reduce_gradients(s->ctx, s->parameters.grads, s->parameters.total));
        golden_store_parameter_grads(s->c, "", &s->parameters);
    }
    for (int i = 0; i < s->num_leaves; i++) {
        ff_tensor *x = s->leaves[i], *grad = x->requires_grad ? ff_tensor_grad(s->ctx, x) : NULL;
        if (grad != NULL)
            golden_store_grad_input(s->c, s->leaf_names[i], ff_data(grad), grad->ndim, grad->shape);
    }
    return s->ctx->status;
}

static void release_run(golden_run_state *s)
{
    ff_tape_destroy(s->ctx);
    for (int i = 0; i < s->num_outputs; i++)
        ff_tensor_release(s->outputs[i]);
    for (int i = 0; i < s->num_leaves; i++)
        ff_tensor_release(s->leaves[i]);
    for (int i = 0; i < s->num_arrays; i++)
        free(s->arrays[i]);
    if (s->destroy != NULL && s->layer != NULL)
        s->destroy(s->layer);
    free(s->layer);
    s->num_outputs = s->num_leaves = s->num_arrays = 0;
    s->layer = NULL;
    s->destroy = NULL;
}

/* A backward entry the backend's table does not have is the judge's business; other failures are ours. */
static ff_status backward(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    FF_TRY(set_cotangents(s));
    const ff_status status = ff_tape_backward(ctx);
    if (status == FF_ERR_UNSUPPORTED && ctx->kernels->backend != FF_BACKEND_CPU) {
        golden_lack_gradients(s->c, ctx->message);
        ff_context_clear(ctx);
        return FF_OK;
    }
    return status == FF_OK ? store_gradients(s) : status;
}

static ff_status run_once(golden_run_state *s, const golden_op *op, bool with_tape)
{
    ff_ctx *ctx = s->ctx;
    ff_status status = FF_OK;
    ctx->op_index = 0;
    ff_parameters_zero_grads(&s->parameters);
    if (with_tape)
        FF_TRY_DONE(ff_tape_create(ctx));
    op->run(s);
    FF_TRY_DONE(ctx->status);
    store_outputs(s);
    if (with_tape)
        FF_TRY_DONE(backward(s));
done:
    release_run(s);
    return status;
}

/* ---- golden_run ---- */

ff_status golden_run(ff_ctx *ctx, const char *family, const char *op_name, golden_case *c)
{
    ff_status status = FF_OK;
    bool family_known = false;
    const golden_op *op = find_in(ops, family, op_name, &family_known);
    const golden_op *const tables[] = {golden_embedding_ops, golden_structure_ops, golden_model_ops, golden_loss_ops};
    for (size_t i = 0; i < sizeof tables / sizeof *tables && op == NULL; i++)
        op = find_in(tables[i], family, op_name, &family_known);
    if (op == NULL)
        return family_known
                   ? FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "unknown operation %s of family %s", op_name, family)
                   : FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "unknown family %s", family);
    golden_run_state *s = calloc(1, sizeof *s);
    const bool keep_inputs = ctx->keep_inputs, training = ctx->training;
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the run");
    ctx->training = false;
    s->ctx = ctx;
    s->c = c;
    FF_TRY_DONE(golden_build_parameters(ctx, c, "", &s->parameters));
    s->binder = ff_binder_at(ctx, &s->parameters, false, "");
    if (c->weights != NULL && c->params.count == 0) { /* the published size: once, as predictions run */
        FF_TRY_DONE(run_once(s, op, false));
        goto done;
    }
    FF_TRY_DONE(run_once(s, op, true));
    golden_set_variant(c, "inference");
    FF_TRY_DONE(run_once(s, op, false));
    if (c->no_gradients == NULL) {
        golden_set_variant(c, "keep_inputs");
        ctx->keep_inputs = true;
        FF_TRY_DONE(run_once(s, op, true));
        ctx->keep_inputs = false;
        if (op->checkpoints) {
            golden_set_variant(c, "checkpointed");
            s->checkpoint = true;
            FF_TRY_DONE(run_once(s, op, true));
        }
    }
done:
    golden_set_variant(c, NULL);
    ctx->keep_inputs = keep_inputs;
    ctx->training = training;
    ff_parameters_destroy(&s->parameters);
    free(s);
    return status;
}
