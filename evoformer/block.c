#include "evoformer/block.h"

#include "dap/dap.h"
#include "evoformer/msa_attention.h"
#include "evoformer/outer_product_mean.h"
#include "evoformer/transition.h"
#include "evoformer/triangle_attention.h"
#include "evoformer/triangle_multiplication.h"

/* ---- parameters ---- */

static ff_biased_attention_layer attention_sizes(int64_t c_in, int64_t c_z, int64_t num_head, float dropout)
{
    return (ff_biased_attention_layer){
        .attention = {.c_in = c_in, .num_head = num_head, .c_hidden = c_in / num_head, .dropout = dropout},
        .bias = {.c_z = c_z, .num_head = num_head}};
}

static int64_t column_heads(const ff_block_config *g)
{
    return g->num_head_msa_column > 0 ? g->num_head_msa_column : g->num_head_msa;
}

static void set_sizes(const ff_block_config *g, ff_block *w)
{
    const ff_triangle_multiplication_layer triangle = {
        .c_z = g->c_z, .c_hidden = g->c_triangle, .dropout = g->dropout_pair};
    *w = (ff_block){.config = *g};
    w->msa_row_attention_with_pair_bias = attention_sizes(g->c_m, g->c_z, g->num_head_msa, g->dropout_msa);
    w->msa_column_attention = attention_sizes(g->c_m, g->c_z, column_heads(g), 0.0f).attention;
    w->msa_transition = (ff_transition_layer){.c = g->c_m, .c_hidden = g->transition_factor * g->c_m};
    w->outer_product_mean = (ff_outer_product_mean_layer){.c_m = g->c_m, .c_outer = g->c_outer, .c_z = g->c_z};
    w->triangle_multiplication_outgoing = w->triangle_multiplication_incoming = triangle;
    w->triangle_attention_starting_node = w->triangle_attention_ending_node =
        attention_sizes(g->c_z, g->c_z, g->num_head_pair, g->dropout_pair);
    w->pair_transition = (ff_transition_layer){.c = g->c_z, .c_hidden = g->transition_factor * g->c_z};
}

ff_status ff_block_bind(const ff_binder *b, const ff_block_config *config, ff_block *w)
{
    if (config->num_head_msa < 1 || config->num_head_pair < 1 || config->c_m % config->num_head_msa != 0 ||
        config->c_m % column_heads(config) != 0 ||
        config->c_z % config->num_head_pair != 0)
        return FF_FAIL(b->ctx, FF_ERR_ARG, "%lld MSA and %lld pair channels do not divide into %lld and %lld heads",
                       (long long)config->c_m, (long long)config->c_z, (long long)config->num_head_msa,
                       (long long)config->num_head_pair);
    const bool fused = config->fuse_projection_weights;
    set_sizes(config, w);
    FF_TRY(ff_bind_row_attention(b, "msa_row_attention_with_pair_bias", &w->msa_row_attention_with_pair_bias));
    if (config->is_extra_msa)
        FF_TRY(ff_bind_global_attention(b, "msa_column_global_attention", &w->msa_column_attention));
    else
        FF_TRY(ff_bind_attention(b, "msa_column_attention", &w->msa_column_attention));
    FF_TRY(ff_bind_transition(b, "msa_transition", &w->msa_transition));
    FF_TRY(ff_bind_outer_product_mean(b, "outer_product_mean", &w->outer_product_mean));
    FF_TRY(ff_bind_triangle_multiplication(b, "triangle_multiplication_outgoing", &w->triangle_multiplication_outgoing,
                                           fused));
    FF_TRY(ff_bind_triangle_multiplication(b, "triangle_multiplication_incoming", &w->triangle_multiplication_incoming,
                                           fused));
    FF_TRY(ff_bind_triangle_attention(b, "triangle_attention_starting_node", &w->triangle_attention_starting_node));
    FF_TRY(ff_bind_triangle_attention(b, "triangle_attention_ending_node", &w->triangle_attention_ending_node));
    return ff_bind_transition(b, "pair_transition", &w->pair_transition);
}

ff_status ff_block_stack_bind(const ff_binder *b, const ff_block_config *config, int64_t num_block, ff_block *w)
{
    ff_binder stacked = *b;
    stacked.num_block = num_block;
    for (int64_t i = 0; i < num_block; i++) {
        stacked.block = i;
        FF_TRY(ff_block_bind(&stacked, config, &w[i]));
    }
    return FF_OK;
}

/* ---- layouts ---- */

/* Of the MSA: sequences sharded to residues sharded, and back. */
static ff_tensor *row_to_col(ff_ctx *ctx, ff_tensor *x, int64_t num_row, int64_t num_col)
{
    return ff_dap_size(ctx) == 1 ? x : ff_dap_all_to_all(ctx, x, 0, num_row, 1, num_col);
}

static ff_tensor *col_to_row(ff_ctx *ctx, ff_tensor *x, int64_t num_row, int64_t num_col)
{
    return ff_dap_size(ctx) == 1 ? x : ff_dap_all_to_all(ctx, x, 1, num_col, 0, num_row);
}

/* The pair between two blocks: its rows, or its columns on their way to become rows. */
typedef struct {
    ff_tensor *rows, *columns;
    ff_dap_pending *pending;
} pair_state;

/* Wait for the rows. */
static void pair_arrive(ff_ctx *ctx, pair_state *pair)
{
    if (pair->pending != NULL)
        pair->rows = ff_dap_all_to_all_end(ctx, pair->pending);
    pair->pending = NULL;
    ff_tensor_release(pair->columns);
    pair->columns = NULL;
}

/* Columns (consumed) set out to become rows. */
static void pair_depart(ff_ctx *ctx, pair_state *pair, ff_tensor *columns, int64_t num_res)
{
    *pair = (pair_state){.rows = columns};
    if (ff_dap_size(ctx) == 1 || ctx->status != FF_OK)
        return;
    *pair = (pair_state){.columns = ff_tensor_retain(columns)};
    pair->pending = ff_dap_all_to_all_begin(ctx, columns, 1, num_res, 0, num_res);
}

/* ---- MSA ---- */

/* Row attention to transition; sequences sharded before, residues sharded after. `unread`: see ff_transition. */
static ff_tensor *msa_track(ff_ctx *ctx, const ff_block *w, ff_tensor *msa, ff_tensor *bias, ff_tensor *msa_mask,
                            ff_keep keep, bool unread)
{
    msa = ff_msa_row_attention(ctx, &w->msa_row_attention_with_pair_bias.attention, msa, bias, msa_mask, keep,
                               FF_RESIDUAL);
    if (ctx->status != FF_OK)
        return ff_module_end(ctx, msa, NULL);
    msa = row_to_col(ctx, msa, msa_mask->shape[0], msa_mask->shape[1]);
    msa = w->config.is_extra_msa
              ? ff_msa_column_global_attention(ctx, &w->msa_column_attention, msa, msa_mask, FF_RESIDUAL)
              : ff_msa_column_attention(ctx, &w->msa_column_attention, msa, msa_mask, keep, FF_RESIDUAL);
    return ff_transition(ctx, "msa_transition", &w->msa_transition, msa, FF_RESIDUAL, unread);
}

enum { REGION_MSA, REGION_BIAS, REGION_MASK, REGION_COUNT };

/* With a tape this is the second run, which only needs what the backward pass reads. */
static void msa_region(ff_ctx *ctx, const void *arg, ff_tensor **t)
{
    const bool rerun = ctx->tape != NULL;
    t[REGION_MSA] = msa_track(ctx, arg, t[REGION_MSA], t[REGION_BIAS], t[REGION_MASK], FF_KEEP_RESULT, rerun);
}

static ff_tensor *msa_steps(ff_ctx *ctx, const ff_block *w, ff_tensor *msa, const pair_state *pair, ff_tensor *msa_mask,
                            bool unread)
{
    const ff_pair_bias_layer *layer = &w->msa_row_attention_with_pair_bias.bias;
    ff_tensor *bias = pair->columns != NULL ? ff_pair_bias(ctx, layer, pair->columns, FF_BIAS_OF_COLUMNS)
                                            : ff_pair_bias(ctx, layer, pair->rows, FF_BIAS_OF_ROWS);
    ff_tensor *t[REGION_COUNT] = {msa, bias, msa_mask};
    if (ctx->keep_inputs && ff_recording(ctx, t, REGION_COUNT)) {
        ff_checkpoint(ctx, "msa_attention_and_transition", msa_region, w, t, REGION_COUNT, NULL, 0);
        msa = ff_module_end(ctx, NULL, t[REGION_MSA]);
    } else {
        msa = msa_track(ctx, w, msa, bias, msa_mask, ff_module_keep(ctx), unread);
    }
    ff_tensor_release(bias);
    return msa;
}

/* ---- pair ---- */

/* Rows sharded before, columns after. */
static ff_tensor *pair_steps(ff_ctx *ctx, const ff_block *w, ff_tensor *pair, ff_tensor *pair_mask, bool unread)
{
    if (ctx->status != FF_OK)
        return ff_module_end(ctx, pair, NULL);
    const int64_t n = pair_mask->shape[0];
    pair = ff_triangle_multiplication_outgoing(ctx, &w->triangle_multiplication_outgoing, pair, pair_mask, FF_RESIDUAL);
    pair = ff_triangle_multiplication_incoming_rows(ctx, &w->triangle_multiplication_incoming, pair, pair_mask, FF_RESIDUAL);
    pair = ff_triangle_attention_starting_node(ctx, &w->triangle_attention_starting_node, pair, pair_mask, FF_RESIDUAL);
    pair = row_to_col(ctx, pair, n, n);
    pair = ff_triangle_attention_ending_node(ctx, &w->triangle_attention_ending_node, pair, pair_mask, FF_RESIDUAL);
    return ff_transition(ctx, "pair_transition", &w->pair_transition, pair, FF_RESIDUAL, unread);
}

/* ---- the block ---- */

static bool shapes_fit(ff_ctx *ctx, const ff_block *w, const ff_tensor *msa, const ff_tensor *msa_mask, const ff_tensor *pair_mask)
{
    return ff_check_shape(ctx, msa, "msa", FF_SHAPE(-1, -1, w->config.c_m)) &&
           ff_check_shape(ctx, msa_mask, "msa_mask", FF_SHAPE(-1, msa->shape[1])) &&
           ff_check_shape(ctx, pair_mask, "pair_mask", FF_SHAPE(msa->shape[1], msa->shape[1]));
}

static ff_tensor *outer_product(ff_ctx *ctx, const ff_block *w, ff_tensor *msa, pair_state *pair, ff_tensor *msa_mask)
{
    pair_arrive(ctx, pair);
    return ff_outer_product_mean(ctx, &w->outer_product_mean, msa, pair->rows, msa_mask, FF_RESIDUAL);
}

/* `unread`: the values of the results are not needed, only their nodes. The pair's rows may still be on their way before and are
 * afterwards. Under DAP two exchanges hide behind other work: the MSA goes back to rows during the pair's steps, the pair during
 * the MSA's steps of the next block. */
static void block_steps(ff_ctx *ctx, const ff_block *w, ff_tensor **msa, pair_state *pair, ff_tensor *msa_mask,
                        ff_tensor *pair_mask, bool unread)
{
    if (!shapes_fit(ctx, w, *msa, msa_mask, pair_mask)) {
        pair_arrive(ctx, pair);
        *msa = ff_module_end(ctx, *msa, NULL);
        pair->rows = ff_module_end(ctx, pair->rows, NULL);
        return;
    }
    const int64_t num_seq = msa_mask->shape[0], num_res = msa_mask->shape[1];
    const bool first = w->config.outer_product_mean_first, alone = ff_dap_size(ctx) == 1;
    if (first) {
        *msa = row_to_col(ctx, *msa, num_seq, num_res);
        pair->rows = outer_product(ctx, w, *msa, pair, msa_mask);
        *msa = col_to_row(ctx, *msa, num_seq, num_res);
    }
    *msa = msa_steps(ctx, w, *msa, pair, msa_mask, unread && first);
    if (!first)
        pair->rows = outer_product(ctx, w, *msa, pair, msa_mask);
    ff_dap_pending *back = alone ? NULL : ff_dap_all_to_all_begin(ctx, *msa, 1, num_res, 0, num_seq);
    ff_tensor *columns = pair_steps(ctx, w, pair->rows, pair_mask, unread);
    pair_depart(ctx, pair, columns, num_res);
    *msa = ff_module_end(ctx, NULL, alone ? *msa : ff_dap_all_to_all_end(ctx, back));
}

void ff_block_forward(ff_ctx *ctx, const ff_block *w, ff_tensor **msa, ff_tensor **pair, ff_tensor *msa_mask,
                      ff_tensor *pair_mask)
{
    pair_state state = {.rows = *pair};
    block_steps(ctx, w, msa, &state, msa_mask, pair_mask, false);
    pair_arrive(ctx, &state);
    *pair = state.rows;
}

/* ---- stacks ---- */

enum { BLOCK_MSA, BLOCK_PAIR, BLOCK_MSA_MASK, BLOCK_PAIR_MASK, BLOCK_COUNT };

static void block_region(ff_ctx *ctx, const void *arg, ff_tensor **t)
{
    pair_state state = {.rows = t[BLOCK_PAIR]};
    block_steps(ctx, arg, &t[BLOCK_MSA], &state, t[BLOCK_MSA_MASK], t[BLOCK_PAIR_MASK], ctx->tape != NULL);
    pair_arrive(ctx, &state);
    t[BLOCK_PAIR] = state.rows;
}

void ff_block_stack_forward(ff_ctx *ctx, const ff_block *w, int64_t num_block, bool checkpoint, ff_tensor **msa,
                            ff_tensor **pair, ff_tensor *msa_mask, ff_tensor *pair_mask)
{
    pair_state state = {.rows = *pair};
    for (int64_t i = 0; i < num_block; i++) {
        if (checkpoint) /* a region has its inputs whole */
            pair_arrive(ctx, &state);
        ff_tensor *t[BLOCK_COUNT] = {*msa, state.rows, msa_mask, pair_mask};
        ff_context_step(ctx, w->config.is_extra_msa ? "extra_msa_stack" : "evoformer", i, num_block);
        if (checkpoint && ff_recording(ctx, t, BLOCK_COUNT)) {
            ff_checkpoint(ctx, "evoformer_block", block_region, &w[i], t, BLOCK_COUNT, NULL, 0);
            *msa = ff_module_end(ctx, NULL, t[BLOCK_MSA]);
            state.rows = ff_module_end(ctx, NULL, t[BLOCK_PAIR]);
        } else {
            block_steps(ctx, &w[i], msa, &state, msa_mask, pair_mask, false);
        }
    }
    pair_arrive(ctx, &state);
    *pair = state.rows;
}
