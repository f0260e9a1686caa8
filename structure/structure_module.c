/* Contents: sizes and names; invariant point attention; side chain; one iteration; the module. */
#include "structure/structure_module.h"

#include <stdio.h>
#include <string.h>

#include "dap/dap.h"
#include "evoformer/primitives.h"

/* ---- sizes and names ---- */

ff_structure_config ff_structure_config_default(int64_t c_s, int64_t c_z)
{
    return (ff_structure_config){.c_s = c_s,
                                 .c_z = c_z,
                                 .num_channel = 384,
                                 .num_layer = 8,
                                 .num_head = 12,
                                 .num_scalar_qk = 16,
                                 .num_scalar_v = 16,
                                 .num_point_qk = 4,
                                 .num_point_v = 8,
                                 .num_layer_in_transition = 3,
                                 .sidechain_num_channel = 128,
                                 .sidechain_num_residual_block = 2,
                                 .position_scale = 10,
                                 .dropout = 0.1f};
}

/* Haiku's numbering: name, name_1, name_2. */
static ff_status bind_numbered(const ff_binder *b, const char *name, int index, ff_linear_layer *w, int64_t num_input,
                               int64_t num_output)
{
    char full[64];
    snprintf(full, sizeof full, index > 0 ? "%s_%d" : "%s", name, index);
    return ff_bind_sized_linear(b, full, w, num_input, num_output);
}

static ff_status bind_norm(const ff_binder *b, const char *name, ff_layer_norm_layer *w, int64_t c)
{
    *w = (ff_layer_norm_layer){.c = c};
    return ff_bind_layer_norm(b, name, w);
}

ff_status ff_invariant_point_attention_bind(const ff_binder *b, ff_invariant_point_attention *w)
{
    const int64_t h = w->num_head, points = w->num_point_qk + w->num_point_v;
    FF_TRY(ff_bind_sized_linear(b, "q_scalar", &w->q_scalar, w->c_s, h * w->num_scalar_qk));
    FF_TRY(ff_bind_sized_linear(b, "kv_scalar", &w->kv_scalar, w->c_s, h * (w->num_scalar_qk + w->num_scalar_v)));
    FF_TRY(ff_bind_sized_linear(b, "q_point_local", &w->q_point_local, w->c_s, 3 * h * w->num_point_qk));
    FF_TRY(ff_bind_sized_linear(b, "kv_point_local", &w->kv_point_local, w->c_s, 3 * h * points));
    FF_TRY(ff_bind_sized_linear(b, "attention_2d", &w->attention_2d, w->c_z, h));
    FF_TRY(ff_bind_sized_linear(b, "output_projection", &w->output_projection,
                       h * (w->num_scalar_v + 4 * w->num_point_v + w->c_z), w->num_output));
    w->core = (ff_ipa_core){.num_head = h,
                            .c_scalar_qk = w->num_scalar_qk,
                            .c_scalar_v = w->num_scalar_v,
                            .num_point_qk = w->num_point_qk,
                            .num_point_v = w->num_point_v,
                            .c_z = w->c_z,
                            .trained = w->q_scalar.trained};
    return ff_bind_array(b, "trainable_point_weights", FF_SHAPE(h), &w->core.gamma, &w->core.grad_gamma);
}

static ff_status bind_sidechain(const ff_binder *b, ff_fold_iteration *w)
{
    const ff_structure_config *g = &w->config;
    const ff_binder in = ff_binder_enter(b, "rigid_sidechain");
    const int64_t c = g->sidechain_num_channel;
    for (int i = 0; i < 2; i++)
        FF_TRY(bind_numbered(&in, "input_projection", i, &w->input_projection[i], g->num_channel, c));
    for (int i = 0; i < g->sidechain_num_residual_block; i++) {
        FF_TRY(bind_numbered(&in, "resblock1", i, &w->resblock1[i], c, c));
        FF_TRY(bind_numbered(&in, "resblock2", i, &w->resblock2[i], c, c));
    }
    return ff_bind_sized_linear(&in, "unnormalized_angles", &w->unnormalized_angles, c, 14);
}

ff_status ff_fold_iteration_bind(const ff_binder *b, const ff_structure_config *config, ff_fold_iteration *w)
{
    if (config->num_layer_in_transition > FF_STRUCTURE_MAX_TRANSITION ||
        config->sidechain_num_residual_block > FF_STRUCTURE_MAX_BLOCKS || config->num_layer > FF_STRUCTURE_MAX_LAYERS)
        return FF_FAIL(b->ctx, FF_ERR_UNSUPPORTED, "a structure module of that many layers is not offered");
    const int64_t c = config->num_channel;
    *w = (ff_fold_iteration){.config = *config,
                             .attention = {.num_head = config->num_head,
                                           .num_scalar_qk = config->num_scalar_qk,
                                           .num_scalar_v = config->num_scalar_v,
                                           .num_point_qk = config->num_point_qk,
                                           .num_point_v = config->num_point_v,
                                           .c_s = c,
                                           .c_z = config->c_z,
                                           .num_output = c}};
    const ff_binder ipa = ff_binder_enter(b, "invariant_point_attention");
    FF_TRY(ff_invariant_point_attention_bind(&ipa, &w->attention));
    FF_TRY(bind_norm(b, "attention_layer_norm", &w->attention_layer_norm, c));
    for (int i = 0; i < config->num_layer_in_transition; i++)
        FF_TRY(bind_numbered(b, "transition", i, &w->transition[i], c, c));
    FF_TRY(bind_norm(b, "transition_layer_norm", &w->transition_layer_norm, c));
    FF_TRY(ff_bind_sized_linear(b, "affine_update", &w->affine_update, c, 6));
    return bind_sidechain(b, w);
}

ff_status ff_structure_module_bind(const ff_binder *b, const ff_structure_config *config, ff_structure_module *w)
{
    *w = (ff_structure_module){.config = *config};
    FF_TRY(bind_norm(b, "single_layer_norm", &w->single_layer_norm, config->c_s));
    FF_TRY(ff_bind_sized_linear(b, "initial_projection", &w->initial_projection, config->c_s, config->num_channel));
    FF_TRY(bind_norm(b, "pair_layer_norm", &w->pair_layer_norm, config->c_z));
    const ff_binder in = ff_binder_enter(b, "fold_iteration");
    return ff_fold_iteration_bind(&in, config, &w->fold_iteration);
}

/* Put `next` in x's place. */
static void replace(ff_tensor **x, ff_tensor *next)
{
    ff_tensor_release(*x);
    *x = next;
}

/* ---- invariant point attention ---- */

/* The rows of all ranks; x is consumed. */
static ff_tensor *of_all(ff_ctx *ctx, ff_tensor *x, int64_t total)
{
    ff_tensor *all = ff_dap_all_gather(ctx, x, 0, total);
    ff_tensor_release(x);
    return all;
}

ff_tensor *ff_invariant_point_attention_forward(ff_ctx *ctx, const ff_invariant_point_attention *w, ff_tensor *single,
                                                ff_tensor *pair, ff_tensor *affine, ff_tensor *mask)
{
    /* queries are this rank's residues; keys, values and frames are gathered */
    ff_tensor *own = ff_dap_scatter(ctx, single, 0), *own_affine = ff_dap_scatter(ctx, affine, 0);
    ff_tensor *rigids_query = ff_affine_to_rigids(ctx, own_affine, 1);
    ff_tensor *q_scalar = ff_linear_sharded(ctx, &w->q_scalar, own, false);
    ff_tensor *q_point = ff_linear_sharded(ctx, &w->q_point_local, own, false);
    const int64_t n = ctx->status == FF_OK ? single->shape[0] : 0;
    ff_tensor *kv_scalar = of_all(ctx, ff_linear_sharded(ctx, &w->kv_scalar, own, false), n);
    ff_tensor *kv_point = of_all(ctx, ff_linear_sharded(ctx, &w->kv_point_local, own, false), n);
    ff_tensor *rigids = of_all(ctx, ff_tensor_retain(rigids_query), n);
    ff_tensor *bias = ff_linear_sharded(ctx, &w->attention_2d, pair, false);
    ff_tensor *features = ff_ipa_attention(ctx, &w->core, q_scalar, kv_scalar, q_point, kv_point, bias, pair, rigids_query,
                                           rigids, mask);
    ff_tensor *rows = ff_linear_sharded(ctx, &w->output_projection, features, false);
    ff_tensor *out = ff_dap_gather_replicated(ctx, rows, 0, n);
    ff_tensor *const done[] = {own, own_affine, rigids_query, rigids, q_scalar, kv_scalar, q_point, kv_point, bias, features, rows};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        ff_tensor_release(done[i]);
    return out;
}

/* ---- side chain: torsion angles from the activations (Alg. 20 lines 11-14) ---- */

static ff_tensor *relu_linear(ff_ctx *ctx, const ff_linear_layer *w, ff_tensor *x)
{
    ff_tensor *positive = ff_relu(ctx, x), *out = ff_linear(ctx, w, positive, false);
    ff_tensor_release(positive);
    return out;
}

static ff_tensor *unnormalized_angles(ff_ctx *ctx, const ff_fold_iteration *w, ff_tensor *act, ff_tensor *initial_act)
{
    ff_tensor *a = relu_linear(ctx, &w->input_projection[0], act);
    ff_tensor *b = relu_linear(ctx, &w->input_projection[1], initial_act);
    replace(&a, ff_add(ctx, a, b));
    ff_tensor_release(b);
    for (int i = 0; i < w->config.sidechain_num_residual_block; i++) {
        ff_tensor *hidden = relu_linear(ctx, &w->resblock1[i], a);
        replace(&hidden, relu_linear(ctx, &w->resblock2[i], hidden));
        replace(&a, ff_add(ctx, a, hidden));
        ff_tensor_release(hidden);
    }
    replace(&a, relu_linear(ctx, &w->unnormalized_angles, a));
    if (ctx->status == FF_OK) { /* [num_res, 14] is [num_res, 7, 2] */
        a->ndim = 3;
        a->shape[1] = 7;
        a->shape[2] = 2;
    }
    return a;
}

/* ---- one iteration ---- */

static ff_tensor *residual_norm(ff_ctx *ctx, const ff_layer_norm_layer *norm, ff_tensor *act, ff_tensor *update,
                                float dropout)
{
    ff_tensor *sum = ff_add(ctx, act, update);
    replace(&sum, ff_dropout(ctx, sum, dropout));
    replace(&sum, ff_layer_norm(ctx, norm, sum));
    return sum;
}

void ff_fold_iteration_forward(ff_ctx *ctx, const ff_fold_iteration *w, ff_tensor *act, ff_tensor *initial_act,
                               ff_tensor *pair, ff_tensor *affine, ff_tensor *mask, const int32_t *aatype,
                               ff_fold_output *out)
{
    const ff_structure_config *g = &w->config;
    *out = (ff_fold_output){0};
    /* lines 6, 7 */
    ff_tensor *update = ff_invariant_point_attention_forward(ctx, &w->attention, act, pair, affine, mask);
    ff_tensor *x = residual_norm(ctx, &w->attention_layer_norm, act, update, g->dropout);
    /* lines 8, 9 */
    replace(&update, ff_tensor_retain(x));
    for (int i = 0; i < g->num_layer_in_transition; i++)
        replace(&update, ff_linear(ctx, &w->transition[i], update, i + 1 < g->num_layer_in_transition));
    replace(&x, residual_norm(ctx, &w->transition_layer_norm, x, update, g->dropout));
    /* line 10 */
    replace(&update, ff_linear(ctx, &w->affine_update, x, false));
    out->act = x;
    out->affine = ff_backbone_update(ctx, affine, update);
    ff_tensor_release(update);
    /* lines 11-18, 24 */
    ff_tensor *angles = unnormalized_angles(ctx, w, x, initial_act);
    out->unnormalized_angles = angles;
    out->angles = ff_normalise_torsions(ctx, angles);
    out->traj = ff_scale_translation(ctx, out->affine, g->position_scale);
    ff_tensor *rigids = ff_affine_to_rigids(ctx, out->affine, g->position_scale);
    ff_frames_and_atoms(ctx, rigids, out->angles, aatype, &out->frames, &out->atom14);
    ff_tensor_release(rigids);
}

void ff_fold_output_release(ff_fold_output *out)
{
    ff_tensor *const all[] = {out->act,    out->affine, out->traj, out->unnormalized_angles,
                              out->angles, out->frames, out->atom14};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ff_tensor_release(all[i]);
    *out = (ff_fold_output){0};
}

/* ---- the module ---- */

/* (1, 0, 0, 0, 0, 0, 0) for every residue. */
static ff_tensor *zero_affine(ff_ctx *ctx, int64_t num_res)
{
    ff_tensor *affine = ff_tensor_zeros(ctx, FF_SHAPE(num_res, 7));
    if (ff_computing(ctx))
        for (int64_t i = 0; i < num_res; i++)
            ff_data(affine)[7 * i] = 1.0f;
    return affine;
}

ff_status ff_structure_module_forward(ff_ctx *ctx, const ff_structure_module *w, ff_tensor *single, ff_tensor *pair,
                                      ff_tensor *seq_mask, const int32_t *aatype, const float *atom37_atom_exists,
                                      ff_structure_output *out)
{
    *out = (ff_structure_output){.num_layer = w->config.num_layer};
    if (!ff_check_shape(ctx, single, "single", FF_SHAPE(-1, w->config.c_s)) ||
        !ff_check_shape(ctx, pair, "pair",
                        FF_SHAPE(ff_shard_length(single->shape[0], ff_dap_rank(ctx), ff_dap_size(ctx)), single->shape[0],
                                 w->config.c_z)) ||
        !ff_check_shape(ctx, seq_mask, "seq_mask", FF_SHAPE(single->shape[0])))
        return ctx->status;
    const ff_kernels *outer = ff_module_enter_float32(ctx);
    ff_tensor *initial_act = ff_layer_norm(ctx, &w->single_layer_norm, single);
    ff_tensor *static_feat_2d = ff_layer_norm_sharded(ctx, &w->pair_layer_norm, pair);
    ff_tensor *act = ff_linear(ctx, &w->initial_projection, initial_act, false);
    ff_tensor *affine = zero_affine(ctx, single->shape[0]);
    for (int64_t l = 0; l < w->config.num_layer && ctx->status == FF_OK; l++) {
        ff_fold_output *layer = &out->layers[l];
        ff_fold_iteration_forward(ctx, &w->fold_iteration, act, initial_act, static_feat_2d, affine, seq_mask, aatype,
                                  layer);
        replace(&act, ff_tensor_retain(layer->act));
        replace(&affine, ff_stop_rotation_gradient(ctx, layer->affine));
    }
    out->act = act;
    if (ctx->status == FF_OK && w->config.num_layer > 0)
        out->atom37 = ff_atom14_to_atom37(ctx, out->layers[w->config.num_layer - 1].atom14, aatype,
                                          atom37_atom_exists);
    ff_tensor_release(initial_act);
    ff_tensor_release(static_feat_2d);
    ff_tensor_release(affine);
    ctx->kernels = outer;
    return ctx->status;
}

void ff_structure_output_release(ff_structure_output *out)
{
    for (int64_t l = 0; l < out->num_layer; l++)
        ff_fold_output_release(&out->layers[l]);
    ff_tensor_release(out->act);
    ff_tensor_release(out->atom37);
    *out = (ff_structure_output){0};
}
