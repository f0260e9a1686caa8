/* golden_ops_embed.c - operations of the families embeddings, template and embeddings_and_evoformer.
 *
 * Contents: input embedder; templates; the whole trunk; the table. */
#include <stdlib.h>

#include "dap/dap.h"
#include "tests/golden_ops.h"

static int64_t number(const golden_run_state *s, const char *name) { return golden_int(s->c, name, 0); }
static bool ok(const golden_run_state *s, ff_status status) { return status == FF_OK && s->ctx->status == FF_OK; }

static ff_dgram_config dgram(const golden_run_state *s, double min_ang, double max_ang, int64_t num_bins, const char *a,
                             const char *b, const char *c)
{
    return (ff_dgram_config){golden_number(s->c, a, min_ang), golden_number(s->c, b, max_ang),
                             golden_int(s->c, c, num_bins)};
}

static ff_embedder_config embedder_config(const golden_run_state *s)
{
    return (ff_embedder_config){.c_m = number(s, "c_m"),
                                .c_z = number(s, "c_z"),
                                .c_e = number(s, "c_e"),
                                .max_relative_feature = number(s, "max_relative_feature"),
                                .prev_pos = dgram(s, 3.25, 20.75, 15, "prev_pos_min_bin", "prev_pos_max_bin",
                                                  "prev_pos_num_bins")};
}

/* ---- input embedder ---- */

/* What the fused nodes never store: one piece each, from the primitives. */
static void embedding_pieces(golden_run_state *s, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *msa_feat,
                             ff_tensor *prev_row, ff_tensor *prev_pair)
{
    ff_ctx *ctx = s->ctx;
    golden_result(s, "preprocess_1d", ff_linear(ctx, &w->preprocess_1d, target_feat, false));
    golden_result(s, "preprocess_msa", ff_linear(ctx, &w->preprocess_msa, msa_feat, false));
    golden_result(s, "left_single", ff_linear(ctx, &w->left_single, target_feat, false));
    golden_result(s, "right_single", ff_linear(ctx, &w->right_single, target_feat, false));
    golden_result(s, "prev_msa_first_row_norm", ff_layer_norm(ctx, &w->prev_msa_first_row_norm, prev_row));
    golden_result(s, "prev_pair_norm", ff_layer_norm(ctx, &w->prev_pair_norm, prev_pair));
}

static void one_hot_pieces(golden_run_state *s, const ff_embedder *w, const float *prev_pos, const int32_t *aatype,
                           const int32_t *residue_index, int64_t n)
{
    ff_ctx *ctx = s->ctx;
    const int64_t bins = w->config.prev_pos.num_bins, classes = 2 * w->config.max_relative_feature + 1;
    ff_tensor *distance = ff_tensor_zeros(ctx, FF_SHAPE(n, n, bins)), *relpos = ff_tensor_zeros(ctx, FF_SHAPE(n, n, classes));
    ff_tensor *bin = ff_tensor_zeros(ctx, FF_SHAPE(n, n));
    double *beta = malloc((size_t)(3 * n + 1) * sizeof *beta);
    if (beta == NULL)
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for pseudo-beta");
    if (ctx->status == FF_OK) {
        ff_pseudo_beta(beta, prev_pos, aatype, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double d2 = 0;
                for (int x = 0; x < 3; x++)
                    d2 += (beta[3 * i + x] - beta[3 * j + x]) * (beta[3 * i + x] - beta[3 * j + x]);
                const int64_t b = ff_dgram_bin(&w->config.prev_pos, d2);
                const int64_t r = ff_relpos_bin(w->config.max_relative_feature, residue_index[i], residue_index[j]);
                if (b >= 0)
                    ff_data(distance)[(i * n + j) * bins + b] = 1.0f;
                ff_data(relpos)[(i * n + j) * classes + r] = 1.0f;
                ff_data(bin)[i * n + j] = (float)r;
            }
        golden_result(s, "prev_pos_linear", ff_linear(ctx, &w->prev_pos_linear, distance, false));
        golden_result(s, "relpos", ff_linear(ctx, &w->pair_activiations, relpos, false));
        golden_result(s, "relpos_bin", ff_tensor_retain(bin));
        golden_result(s, "prev_dgram", ff_tensor_retain(distance));
    }
    free(beta);
    ff_tensor_release(distance);
    ff_tensor_release(relpos);
    ff_tensor_release(bin);
}

static void extra_msa_feat(golden_run_state *s, const int32_t *extra_msa, const ff_tensor *has, const ff_tensor *value)
{
    ff_tensor *feat = ff_tensor_zeros(s->ctx, FF_SHAPE(has->shape[0], has->shape[1], FF_EXTRA_MSA_FEAT));
    for (int64_t i = 0; feat != NULL && i < has->size; i++) {
        float *at = ff_data(feat) + i * FF_EXTRA_MSA_FEAT;
        at[extra_msa[i]] = 1.0f;
        at[FF_EXTRA_MSA_CLASS] = ff_data(has)[i];
        at[FF_EXTRA_MSA_CLASS + 1] = ff_data(value)[i];
    }
    golden_result(s, "extra_msa_feat", feat);
}

static void run_input_embeddings(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    ff_embedder *w = golden_layer(s, sizeof *w);
    const ff_embedder_config config = embedder_config(s);
    if (w == NULL || !ok(s, ff_embedder_bind(&s->binder, &config, w)))
        return;
    const int32_t *aatype = golden_integers(s, "aatype"), *residue_index = golden_integers(s, "residue_index");
    const int32_t *extra_msa = golden_integers(s, "extra_msa");
    const float *prev_pos = golden_floats(s, "prev_pos");
    ff_tensor *target_feat = golden_leaf(s, "target_feat"), *msa_feat = golden_leaf(s, "msa_feat");
    ff_tensor *prev_row = golden_leaf(s, "prev_msa_first_row"), *prev_pair = golden_leaf(s, "prev_pair");
    ff_tensor *has = golden_leaf(s, "extra_has_deletion"), *value = golden_leaf(s, "extra_deletion_value");
    if (ctx->status != FF_OK)
        return;
    const int64_t num_res = target_feat->shape[0], num_extra = has->shape[0];
    ff_tensor *const whole[] = {msa_feat, prev_pair, has, value};
    ff_tensor *shard[4];
    for (int i = 0; i < 4; i++)
        shard[i] = ff_dap_scatter(ctx, whole[i], 0);
    golden_gathered_result(s, "msa_activations", ff_embed_msa(ctx, w, target_feat, shard[0], prev_row), 0, msa_feat->shape[0]);
    golden_gathered_result(s, "pair_activations",
                           ff_embed_pair(ctx, w, target_feat, shard[1], prev_pos, aatype, residue_index), 0, num_res);
    golden_gathered_result(s, "extra_msa_activations",
                           ff_embed_extra_msa(ctx, w, extra_msa + ff_shard_first(num_extra, ff_dap_rank(ctx), ff_dap_size(ctx)) * num_res,
                                              shard[2], shard[3]),
                           0, num_extra);
    for (int i = 0; i < 4; i++)
        ff_tensor_release(shard[i]);
    embedding_pieces(s, w, target_feat, msa_feat, prev_row, prev_pair);
    one_hot_pieces(s, w, prev_pos, aatype, residue_index, target_feat->shape[0]);
    extra_msa_feat(s, extra_msa, has, value);
}

/* ---- templates ---- */

static ff_template_config template_config(const golden_run_state *s, const char *num_block, const char *num_head,
                                          const char *c_triangle)
{
    return (ff_template_config){.c_z = number(s, "c_z"),
                                .c_t = number(s, "c_t"),
                                .num_block = number(s, num_block),
                                .num_head = number(s, num_head),
                                .c_triangle = number(s, c_triangle),
                                .transition_factor = golden_int(s->c, "pair_transition_factor", 2),
                                .attention_num_head = golden_int(s->c, "attention_num_head", number(s, num_head)),
                                .attention_key_dim = golden_int(s->c, "attention_key_dim", number(s, "c_t")),
                                .dgram = dgram(s, 3.25, 50.75, 39, "dgram_min_bin", "dgram_max_bin", "dgram_num_bins"),
                                .use_template_unit_vector = number(s, "use_template_unit_vector") != 0};
}

/* All templates of the case, or its only one when the arrays have no template axis. */
static int64_t read_templates(golden_run_state *s, ff_template *templates)
{
    const golden_array *types = golden_input(s->ctx, s->c, "template_aatype");
    const int32_t *aatype = golden_integers(s, "template_aatype");
    const float *positions = golden_floats(s, "template_all_atom_positions");
    const float *masks = golden_floats(s, "template_all_atom_masks");
    const golden_array *beta = golden_find_input(s->c, "template_pseudo_beta");
    const golden_array *beta_mask = golden_find_input(s->c, "template_pseudo_beta_mask");
    if (s->ctx->status != FF_OK)
        return 0;
    const int64_t num_templ = types->ndim == 2 ? types->shape[0] : 1, n = types->shape[types->ndim - 1];
    for (int64_t t = 0; t < num_templ && t < FF_MODEL_MAX_TEMPLATES; t++)
        templates[t] = (ff_template){n,
                                     aatype + t * n,
                                     positions + t * n * FF_ATOM37 * 3,
                                     masks + t * n * FF_ATOM37,
                                     beta == NULL ? NULL : beta->data + t * n * 3,
                                     beta_mask == NULL ? NULL : beta_mask->data + t * n,
                                     golden_int(s->c, "placeholder_for_undefined", 0) != 0};
    return num_templ < FF_MODEL_MAX_TEMPLATES ? num_templ : FF_MODEL_MAX_TEMPLATES;
}

static void destroy_template(void *layer) { ff_template_destroy(layer); }

static void run_single_template(golden_run_state *s)
{
    ff_template_embedder *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    const ff_template_config config = template_config(s, "num_block", "num_head", "num_intermediate_channel");
    s->destroy = destroy_template;
    if (!ok(s, ff_single_template_bind(&s->binder, &config, w)))
        return;
    ff_template t;
    if (read_templates(s, &t) < 1)
        return;
    ff_tensor *mask_2d = golden_leaf(s, "mask_2d");
    golden_gathered_result(s, "out", ff_single_template_embedding(s->ctx, w, &t, mask_2d, s->checkpoint), 0, t.num_res);
    ff_tensor *features = ff_tensor_create(s->ctx, FF_SHAPE(t.num_res, t.num_res, w->embedding2d.num_input));
    if (features != NULL)
        ff_template_pair_features(ff_data(features), &t, &config.dgram, config.use_template_unit_vector, 0, t.num_res);
    golden_result(s, "features", features);
}

static void run_template_embedding(golden_run_state *s)
{
    ff_template_embedder *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    const ff_template_config config = template_config(s, "num_block", "num_head", "num_intermediate_channel");
    s->destroy = destroy_template;
    if (!ok(s, ff_template_bind(&s->binder, &config, w)))
        return;
    ff_template templates[FF_MODEL_MAX_TEMPLATES];
    const int64_t num_templ = read_templates(s, templates);
    const float *template_mask = golden_floats(s, "template_mask");
    ff_tensor *mask_2d = golden_leaf(s, "mask_2d"), *pair = golden_shard(s, "query_embedding", 0);
    golden_gathered_result(s, "out",
                           ff_template_embedding(s->ctx, w, pair, templates, num_templ, template_mask, mask_2d, s->checkpoint,
                                                 FF_UPDATE_ONLY),
                           0, templates[0].num_res);
}

static void torsion_results(golden_run_state *s, const ff_template *templates, int64_t num_templ)
{
    ff_ctx *ctx = s->ctx;
    const int64_t n = templates[0].num_res;
    ff_tensor *features = ff_template_torsion_rows_features(ctx, templates, num_templ);
    ff_tensor *well = ff_tensor_create(ctx, FF_SHAPE(num_templ, n, FF_TORSIONS));
    ff_tensor *scrap = ff_tensor_create(ctx, FF_SHAPE(n, FF_TEMPLATE_TORSION_FEAT));
    for (int64_t t = 0; t < num_templ && ctx->status == FF_OK; t++)
        ff_template_torsion_features(ff_data(scrap), ff_data(well) + t * n * FF_TORSIONS, &templates[t]);
    ff_tensor_release(scrap);
    golden_result(s, "torsion_well_conditioned", well);
    golden_result(s, "template_features", features);
}

static void run_torsion_rows(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    ff_template_torsion *w = golden_layer(s, sizeof *w);
    if (w == NULL || !ok(s, ff_template_torsion_bind(&s->binder, number(s, "c_m"), w)))
        return;
    ff_template templates[FF_MODEL_MAX_TEMPLATES];
    const int64_t num_templ = read_templates(s, templates);
    if (num_templ < 1)
        return;
    ff_tensor *features = ff_template_torsion_rows_features(ctx, templates, num_templ);
    ff_tensor *own = ff_dap_scatter(ctx, features, 0);
    golden_gathered_result(s, "template_activations", ff_template_torsion_rows(ctx, w, own), 0, num_templ);
    ff_tensor_release(own);
    ff_tensor_release(features);
    torsion_results(s, templates, num_templ);
    ff_tensor *mask = ff_tensor_create(ctx, FF_SHAPE(num_templ, templates[0].num_res)); /* of psi */
    for (int64_t i = 0; ctx->status == FF_OK && i < mask->size; i++)
        ff_data(mask)[i] = ff_data(s->outputs[s->num_outputs - 1])[(i + 1) * FF_TEMPLATE_TORSION_FEAT - FF_TORSIONS + 2];
    golden_result(s, "torsion_angle_mask", mask);
}

/* ---- the whole trunk ---- */

typedef struct {
    ff_evoformer w;
    ff_template templates[FF_MODEL_MAX_TEMPLATES];
} whole;

static void destroy_whole(void *layer) { ff_evoformer_destroy(&((whole *)layer)->w); }

static ff_block_config whole_block(const golden_run_state *s, bool extra)
{
    return (ff_block_config){.c_m = number(s, extra ? "c_e" : "c_m"),
                             .c_z = number(s, "c_z"),
                             .num_head_msa = number(s, "num_head_msa"),
                             .num_head_pair = number(s, "num_head_pair"),
                             .c_triangle = number(s, "num_intermediate_channel"),
                             .c_outer = number(s, "num_outer_channel"),
                             .transition_factor = number(s, "transition_factor"),
                             .is_extra_msa = extra,
                             .outer_product_mean_first = number(s, "outer_product_mean_first") != 0};
}

static ff_evoformer_config whole_config(const golden_run_state *s)
{
    return (ff_evoformer_config){
        .embedder = embedder_config(s),
        .evoformer = whole_block(s, false),
        .extra_msa = whole_block(s, true),
        .evoformer_num_block = number(s, "evoformer_num_block"),
        .extra_msa_num_block = number(s, "extra_msa_stack_num_block"),
        .c_s = number(s, "c_s"),
        .template_enabled = number(s, "template_enabled") != 0,
        .embed_torsion_angles = number(s, "embed_torsion_angles") != 0,
        .templates = template_config(s, "template_num_block", "template_num_head", "template_num_intermediate_channel"),
        .checkpoint = s->checkpoint};
}

static void run_whole(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    whole *m = golden_layer(s, sizeof *m);
    const ff_evoformer_config config = whole_config(s);
    if (m == NULL)
        return;
    s->destroy = destroy_whole;
    if (!ok(s, ff_evoformer_bind(ctx, &s->parameters, "", &config, &m->w)))
        return;
    ff_evoformer_features f = {.num_res = number(s, "num_res"),
                               .num_seq = number(s, "num_seq"),
                               .num_extra_seq = number(s, "num_extra_seq"),
                               .aatype = golden_integers(s, "aatype"),
                               .residue_index = golden_integers(s, "residue_index"),
                               .extra_msa = golden_integers(s, "extra_msa"),
                               .target_feat = golden_leaf(s, "target_feat"),
                               .msa_feat = golden_leaf(s, "msa_feat"),
                               .extra_has_deletion = golden_leaf(s, "extra_has_deletion"),
                               .extra_deletion_value = golden_leaf(s, "extra_deletion_value"),
                               .seq_mask = golden_leaf(s, "seq_mask"),
                               .msa_mask = golden_leaf(s, "msa_mask"),
                               .extra_msa_mask = golden_leaf(s, "extra_msa_mask"),
                               .prev_pos = golden_floats(s, "prev_pos"),
                               .prev_msa_first_row = golden_leaf(s, "prev_msa_first_row"),
                               .prev_pair = golden_shard(s, "prev_pair", 0)};
    if (config.template_enabled) {
        f.num_templ = read_templates(s, m->templates);
        f.templates = m->templates;
        f.template_mask = golden_floats(s, "template_mask");
    }
    ff_evoformer_output out;
    const bool good = ctx->status == FF_OK && ff_evoformer_forward(ctx, &m->w, &f, &out) == FF_OK &&
                      ff_evoformer_output_gather(ctx, &out) == FF_OK;
    ff_tensor_release(f.prev_pair);
    if (!good)
        return;
    golden_result(s, "msa", out.msa);
    golden_result(s, "msa_first_row", out.msa_first_row);
    golden_result(s, "pair", out.pair);
    golden_result(s, "single", out.single);
    if (f.num_templ > 0)
        torsion_results(s, m->templates, f.num_templ);
}

/* ---- the table ---- */

const golden_op golden_embedding_ops[] = {
    {"embeddings", "input_embeddings", run_input_embeddings, false},
    {"template", "single_template_embedding", run_single_template, true},
    {"template", "template_embedding", run_template_embedding, true},
    {"template", "template_torsion_rows", run_torsion_rows, false},
    {"embeddings_and_evoformer", "embeddings_and_evoformer", run_whole, true},
    {NULL, NULL, NULL, false},
};
