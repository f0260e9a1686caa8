#include "evoformer/embeddings_and_evoformer.h"

#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"
#include "evoformer/primitives.h"
#include "evoformer/shards.h"

/* ---- presets ---- */

ff_status ff_evoformer_config_preset(ff_ctx *ctx, ff_evoformer_config *config, int model)
{
    if (model < 1 || model > 5)
        return FF_FAIL(ctx, FF_ERR_ARG, "there is no monomer model_%d; 1 to 5 are published", model);
    const ff_block_config evoformer = {.c_m = 256,
                                       .c_z = 128,
                                       .num_head_msa = 8,
                                       .num_head_pair = 4,
                                       .c_triangle = 128,
                                       .c_outer = 32,
                                       .transition_factor = 4,
                                       .dropout_msa = 0.15f,
                                       .dropout_pair = 0.25f};
    *config = (ff_evoformer_config){
        .embedder = {256, 128, 64, 32, {3.25, 20.75, 15}},
        .evoformer = evoformer,
        .extra_msa = evoformer,
        .evoformer_num_block = 48,
        .extra_msa_num_block = 4,
        .c_s = 384,
        .template_enabled = model <= 2,
        .embed_torsion_angles = model <= 2,
        .templates = {.c_z = 128,
                      .c_t = 64,
                      .num_block = 2,
                      .num_head = 4,
                      .c_triangle = 64,
                      .transition_factor = 2,
                      .dropout = 0.25f,
                      .attention_num_head = 4,
                      .attention_key_dim = 64,
                      .dgram = {3.25, 50.75, 39}},
        .checkpoint = true,
    };
    config->extra_msa.c_m = 64;
    config->extra_msa.is_extra_msa = true;
    return FF_OK;
}

/* ---- parameters ---- */

static ff_status bind_all(const ff_binder *b, const ff_evoformer_config *g, ff_evoformer *w)
{
    const ff_binder extra = ff_binder_enter(b, "extra_msa_stack"), evoformer = ff_binder_enter(b, "evoformer_iteration");
    FF_TRY(ff_embedder_bind(b, &g->embedder, &w->embedder));
    FF_TRY(ff_block_stack_bind(&extra, &g->extra_msa, g->extra_msa_num_block, w->extra_msa_stack));
    FF_TRY(ff_block_stack_bind(&evoformer, &g->evoformer, g->evoformer_num_block, w->evoformer));
    if (g->template_enabled) {
        const ff_binder templates = ff_binder_enter(b, "template_embedding");
        FF_TRY(ff_template_bind(&templates, &g->templates, &w->templates));
        if (g->embed_torsion_angles)
            FF_TRY(ff_template_torsion_bind(b, g->embedder.c_m, &w->torsion));
    }
    return ff_bind_linear(b, "single_activations", &w->single_activations);
}

static ff_status declare_or_bind(ff_ctx *ctx, ff_parameters *parameters, const char *scope, bool declare,
                                 const ff_evoformer_config *config, ff_evoformer *w)
{
    *w = (ff_evoformer){.config = *config};
    w->single_activations = (ff_linear_layer){.num_input = config->embedder.c_m, .num_output = config->c_s};
    w->extra_msa_stack = calloc((size_t)config->extra_msa_num_block + 1, sizeof *w->extra_msa_stack);
    w->evoformer = calloc((size_t)config->evoformer_num_block + 1, sizeof *w->evoformer);
    if (w->extra_msa_stack == NULL || w->evoformer == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the Evoformer's layers");
    const ff_binder b = ff_binder_at(ctx, parameters, declare, scope);
    return bind_all(&b, config, w);
}

ff_status ff_evoformer_declare(ff_ctx *ctx, ff_parameters *parameters, const char *scope,
                               const ff_evoformer_config *config)
{
    ff_evoformer w;
    const ff_status status = declare_or_bind(ctx, parameters, scope, true, config, &w);
    ff_evoformer_destroy(&w);
    return status;
}

ff_status ff_evoformer_bind(ff_ctx *ctx, ff_parameters *parameters, const char *scope,
                            const ff_evoformer_config *config, ff_evoformer *w)
{
    return declare_or_bind(ctx, parameters, scope, false, config, w);
}

void ff_evoformer_destroy(ff_evoformer *w)
{
    ff_template_destroy(&w->templates);
    free(w->extra_msa_stack);
    free(w->evoformer);
    w->extra_msa_stack = w->evoformer = NULL;
}

/* ---- forward ---- */

/* This rank's rows of the MSA with the torsion-angle rows of the templates below it. */
typedef struct {
    int64_t num_rows;                /* of all ranks */
    int64_t first, num_seq;          /* sequences */
    int64_t first_templ, num_templ;  /* templates */
} msa_shard;

/* The last blocks, which the backward pass needs first, may keep more than their inputs: as many as a trainer's plan found room
 * for. */
static void evoformer_stack(ff_ctx *ctx, const ff_evoformer *w, ff_tensor **msa, ff_tensor **pair, ff_tensor *msa_mask,
                            ff_tensor *mask_2d)
{
    const int64_t num_block = w->config.evoformer_num_block, wanted = w->config.num_plain_block;
    const int64_t num_plain = !w->config.checkpoint ? 0 : wanted < num_block ? wanted : num_block;
    const int64_t first = num_block - num_plain;
    if (first > 0)
        ff_block_stack_forward(ctx, w->evoformer, first, w->config.checkpoint, msa, pair, msa_mask, mask_2d);
    if (num_plain > 0)
        ff_block_stack_forward(ctx, w->evoformer + first, num_plain, false, msa, pair, msa_mask, mask_2d);
}

static bool has_templates(const ff_evoformer *w, const ff_evoformer_features *f)
{
    return w->config.template_enabled && f->num_templ > 0;
}

static msa_shard shard_of_msa(const ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    const int64_t num_templ = has_templates(w, f) && w->config.embed_torsion_angles ? f->num_templ : 0;
    msa_shard s = {.num_rows = f->num_seq + num_templ};
    const int64_t first = ff_shard_first(s.num_rows, rank, size), end = first + ff_shard_length(s.num_rows, rank, size);
    s.first = first < f->num_seq ? first : f->num_seq;
    s.num_seq = (end < f->num_seq ? end : f->num_seq) - s.first;
    s.first_templ = first - s.first;
    s.num_templ = end - first - s.num_seq;
    return s;
}

/* Mask rows of the templates: where psi is defined. */
static ff_tensor *psi_mask(ff_ctx *ctx, const ff_tensor *features)
{
    enum { PSI = FF_TEMPLATE_TORSION_FEAT - FF_TORSIONS + 2 };
    if (ctx->status != FF_OK)
        return NULL;
    ff_tensor *mask = ff_tensor_create(ctx, FF_SHAPE(features->shape[0], features->shape[1]));
    for (int64_t i = 0; ff_computing(ctx) && i < mask->size; i++)
        ff_data(mask)[i] = ff_data(features)[i * FF_TEMPLATE_TORSION_FEAT + PSI];
    return mask;
}

/* Append the torsion-angle rows to msa (this rank's) and to its mask (all); both are consumed and replaced. */
static void append_torsion_rows(ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f, const msa_shard *shard,
                                ff_tensor **msa, ff_tensor **msa_mask)
{
    ff_tensor *features = ff_template_torsion_rows_features(ctx, f->templates, f->num_templ);
    ff_tensor *own = ff_shards_take_rows(ctx, features, shard->first_templ, shard->num_templ);
    ff_tensor *rows = ff_template_torsion_rows(ctx, &w->torsion, own), *row_mask = psi_mask(ctx, features);
    *msa = ff_module_end(ctx, *msa, ff_concat_rows(ctx, *msa, rows));
    *msa_mask = ff_module_end(ctx, *msa_mask, ff_concat_rows(ctx, *msa_mask, row_mask));
    ff_tensor_release(features);
    ff_tensor_release(own);
    ff_tensor_release(rows);
    ff_tensor_release(row_mask);
}

/* Extra-MSA stack: its pair goes on (rows sharded, consumed and replaced), its msa is dropped. */
static void extra_msa_stack(ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f, ff_tensor **pair,
                            ff_tensor *mask_2d)
{
    const int64_t first = ff_shard_first(f->num_extra_seq, ff_dap_rank(ctx), ff_dap_size(ctx));
    ff_tensor *has = ff_dap_scatter(ctx, f->extra_has_deletion, 0), *value = ff_dap_scatter(ctx, f->extra_deletion_value, 0);
    ff_tensor *extra = ff_embed_extra_msa(ctx, &w->embedder, f->extra_msa + first * f->num_res, has, value);
    ff_tensor_release(has);
    ff_tensor_release(value);
    ff_block_stack_forward(ctx, w->extra_msa_stack, w->config.extra_msa_num_block, w->config.checkpoint, &extra, pair,
                           f->extra_msa_mask, mask_2d);
    ff_tensor_release(extra);
}

/* Row 0 of the MSA, which rank 0 has, on every rank: [num_res, c_m]. */
static ff_tensor *first_row(ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f, ff_tensor *msa)
{
    const int64_t row[2] = {f->num_res, w->config.embedder.c_m};
    ff_tensor *own = ff_slice_rows(ctx, msa, 0, ff_dap_rank(ctx) == 0 ? 1 : 0);
    ff_tensor *first = ff_dap_gather_replicated(ctx, own, 0, 1), *out = NULL;
    ff_tensor_release(own);
    if (first != NULL) { /* [1, num_res, c_m] without its first axis */
        ff_tensor *flat = ff_tensor_reshape(ctx, first, 2, row);
        out = flat == NULL ? NULL : ff_slice_rows(ctx, flat, 0, f->num_res);
        ff_tensor_release(flat);
    }
    ff_tensor_release(first);
    return out;
}

/* msa and pair to the results. */
static void finish(ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f, const msa_shard *shard, ff_tensor *msa,
                   ff_tensor *pair, ff_evoformer_output *out)
{
    out->num_seq = f->num_seq;
    out->num_res = f->num_res;
    out->num_rows = shard->num_rows;
    out->msa_first_row = first_row(ctx, w, f, msa);
    out->single = out->msa_first_row == NULL ? NULL : ff_linear(ctx, &w->single_activations, out->msa_first_row, false);
    out->msa = ctx->status == FF_OK && shard->num_templ > 0 ? ff_slice_rows(ctx, msa, 0, shard->num_seq)
                                                            : ff_tensor_retain(msa);
    out->pair = ff_tensor_retain(pair);
}

ff_status ff_evoformer_forward(ff_ctx *ctx, const ff_evoformer *w, const ff_evoformer_features *f,
                               ff_evoformer_output *out)
{
    const bool checkpoint = w->config.checkpoint;
    *out = (ff_evoformer_output){.msa = NULL};
    if (ctx->status == FF_OK && f->num_seq < 1)
        FF_FAIL(ctx, FF_ERR_ARG, "the MSA is empty: it has to hold at least the target sequence");
    const msa_shard shard = shard_of_msa(ctx, w, f);
    ff_tensor *mask_2d = ff_mask_2d(ctx, f->seq_mask), *msa_mask = ff_tensor_retain(f->msa_mask);
    ff_tensor *msa_feat = ff_shards_take_rows(ctx, f->msa_feat, shard.first, shard.num_seq);
    ff_tensor *msa = ff_embed_msa(ctx, &w->embedder, f->target_feat, msa_feat, f->prev_msa_first_row);
    ff_tensor_release(msa_feat);
    ff_tensor *pair =
        ff_embed_pair(ctx, &w->embedder, f->target_feat, f->prev_pair, f->prev_pos, f->aatype, f->residue_index);
    if (f->release_prev_pair != NULL && ctx->tape == NULL) {
        ff_tensor_release(*f->release_prev_pair);
        *f->release_prev_pair = NULL;
    }
    if (has_templates(w, f))
        pair = ff_template_embedding(ctx, &w->templates, pair, f->templates, f->num_templ, f->template_mask, mask_2d,
                                     checkpoint, FF_RESIDUAL);
    extra_msa_stack(ctx, w, f, &pair, mask_2d);
    if (has_templates(w, f) && w->config.embed_torsion_angles)
        append_torsion_rows(ctx, w, f, &shard, &msa, &msa_mask);
    evoformer_stack(ctx, w, &msa, &pair, msa_mask, mask_2d);
    finish(ctx, w, f, &shard, msa, pair, out);
    ff_tensor_release(msa);
    ff_tensor_release(pair);
    ff_tensor_release(msa_mask);
    ff_tensor_release(mask_2d);
    if (ctx->status != FF_OK)
        ff_evoformer_output_release(out);
    return ctx->status;
}

ff_status ff_evoformer_output_gather(ff_ctx *ctx, ff_evoformer_output *out)
{
    ff_shards_replace_by_rows(ctx, &out->msa, out->num_rows, out->num_seq);
    ff_shards_replace_by_rows(ctx, &out->pair, out->num_res, out->num_res);
    return ctx->status;
}

void ff_evoformer_output_release(ff_evoformer_output *out)
{
    ff_tensor_release(out->msa);
    ff_tensor_release(out->msa_first_row);
    ff_tensor_release(out->pair);
    ff_tensor_release(out->single);
    *out = (ff_evoformer_output){.msa = NULL};
}
