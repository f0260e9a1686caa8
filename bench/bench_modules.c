/* bench_modules.c - the trunk's modules, blocks and stacks as operations of fastfold-bench, at AlphaFold's sizes.
 *
 * Contents: costs; weights; tensors; passes; the table.
 *
 * inference runs without a tape and in place, each pass on the result of the one before. The other passes start from the
 * same leaves each time; the caller's reference to a result is given up before the backward pass, as a trainer does. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evoformer/block.h"
#include "evoformer/msa_attention.h"
#include "evoformer/outer_product_mean.h"
#include "evoformer/template.h"
#include "evoformer/transition.h"
#include "evoformer/triangle_attention.h"
#include "evoformer/triangle_multiplication.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

enum { C_M = 256, C_Z = 128, C_E = 64, C_T = 64, HEADS_MSA = 8, HEADS_PAIR = 4, C_OUTER = 32, TEMPLATE_BLOCKS = 2 };

typedef enum {
    ROW_ATTENTION = 0,
    COLUMN_ATTENTION,
    COLUMN_GLOBAL_ATTENTION,
    MSA_TRANSITION,
    OUTER_PRODUCT_MEAN,
    TRIANGLE_OUTGOING,
    TRIANGLE_INCOMING,
    TRIANGLE_STARTING,
    TRIANGLE_ENDING,
    PAIR_TRANSITION,
    PAIR_STACK,
    BLOCK,
    EXTRA_BLOCK,
    STACK,
    EXTRA_STACK,
    TEMPLATE_PAIR_STACK
} module_kind;

typedef struct {
    ff_parameters parameters;
    ff_block *blocks;
    int64_t num_block;
    ff_template_embedder template_embedder;
    bool extra;
    ff_tensor *msa, *pair, *msa_mask, *pair_mask; /* NULL where the module does not use it */
    ff_tensor *out_msa, *out_pair;                /* of a pass with a tape */
} module_state;

static module_kind kind_of(const bench_run *run) { return (module_kind)run->op->variant; }

static bool is_extra(module_kind kind)
{
    return kind == COLUMN_GLOBAL_ATTENTION || kind == EXTRA_BLOCK || kind == EXTRA_STACK;
}

static bool is_stack(module_kind kind) { return kind == STACK || kind == EXTRA_STACK; }

static bool uses_msa(module_kind kind)
{
    return kind <= OUTER_PRODUCT_MEAN || kind == BLOCK || kind == EXTRA_BLOCK || is_stack(kind);
}

static bool uses_pair(module_kind kind)
{
    return kind != COLUMN_ATTENTION && kind != COLUMN_GLOBAL_ATTENTION && kind != MSA_TRANSITION;
}

/* ---- costs: multiply + add = 2, matrix products only; S R as s, R^2 as a; e = bytes of an operand ---- */

typedef struct {
    double flop, bytes;
} cost;

static cost add(cost a, cost b) { return (cost){a.flop + b.flop, a.bytes + b.bytes}; }

/* Inputs are read and outputs written once, float32; q, k, v or left, right are written and read once, as operands. */
static cost cost_of(module_kind kind, const bench_sizes *z, double e)
{
    const double num_seq = (double)z->num_seq, num_res = (double)z->num_res, num_extra = (double)z->num_extra;
    const double s = num_seq * num_res, a = num_res * num_res, cube = a * num_res, x = num_extra * num_res;
    cost sum = {0, 0};
    switch (kind) {
    case ROW_ATTENTION:
        return (cost){655360 * s + 2048 * a + 1024 * num_seq * a, s * (4 * 512 + e * 1536) + 4 * 144 * a};
    case COLUMN_ATTENTION: return (cost){655360 * s + 1024 * num_seq * s, s * (4 * 512 + e * 1536)};
    case COLUMN_GLOBAL_ATTENTION: return (cost){18688 * x + 8192 * num_res, x * (4 * 128 + e * 32)}; /* one query a column */
    case MSA_TRANSITION: return (cost){1048576 * s, 4 * 512 * s};
    case OUTER_PRODUCT_MEAN:
        return (cost){32768 * s + 2048 * num_seq * a + 262144 * a, 4 * 256 * s + 4 * 256 * a};
    case TRIANGLE_OUTGOING:
    case TRIANGLE_INCOMING: return (cost){196608 * a + 256 * cube, a * (4 * 256 + e * 512)};
    case TRIANGLE_STARTING:
    case TRIANGLE_ENDING: return (cost){164864 * a + 512 * cube, a * (4 * 264 + e * 768)};
    case PAIR_TRANSITION: return (cost){262144 * a, 4 * 256 * a};
    case PAIR_STACK:
        for (int k = TRIANGLE_OUTGOING; k <= PAIR_TRANSITION; k++)
            sum = add(sum, cost_of((module_kind)k, z, e));
        return sum;
    case BLOCK:
        for (int k = ROW_ATTENTION; k <= PAIR_TRANSITION; k++)
            if (k != COLUMN_GLOBAL_ATTENTION)
                sum = add(sum, cost_of((module_kind)k, z, e));
        return sum;
    case EXTRA_BLOCK: /* row attention 8 x 8 channels, global columns, transition, outer product mean, pair modules */
        sum = cost_of(PAIR_STACK, z, e);
        sum.flop += 133376 * x + 2304 * num_extra * a + (2048 + 262144) * a;
        sum.bytes += x * (4 * 448 + e * 416) + 4 * (256 + 144) * a;
        return sum;
    case STACK:
    case EXTRA_STACK:
        sum = cost_of(kind == STACK ? BLOCK : EXTRA_BLOCK, z, e);
        return (cost){sum.flop * (double)z->blocks, sum.bytes * (double)z->blocks};
    case TEMPLATE_PAIR_STACK: /* one template, two blocks of 64 channels, 4 x 16 heads, transition factor 2 */
        return (cost){425984 * a + 1536 * cube, TEMPLATE_BLOCKS * a * (4 * (5 * 128 + 2 * 8) + e * (2 * 256 + 2 * 384))};
    }
    return sum;
}

/* ---- weights ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Scales are one, weights so small that an update is smaller than what it is added to. */
static void fill_parameters(ff_parameters *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        const ff_parameter *item = &p->items[i];
        float *value = p->values + item->offset;
        const int64_t num_output = item->ndim > 0 ? item->shape[item->ndim - 1] : 1;
        const bool scale = ends_with(item->name, "scale");
        bench_fill(value, item->size, scale ? 0 : 1 / sqrtf((float)(item->size / (num_output > 0 ? num_output : 1))),
                   1000 + (uint64_t)i);
        for (int64_t e = 0; scale && e < item->size; e++)
            value[e] = 1;
    }
}

static ff_status bind_all(const bench_run *run, module_state *s, bool declare)
{
    const ff_binder b = ff_binder_at(run->ctx, &s->parameters, declare, "");
    if (kind_of(run) == TEMPLATE_PAIR_STACK) {
        const ff_template_config config = {.c_z = C_Z, .c_t = C_T, .num_block = TEMPLATE_BLOCKS, .num_head = HEADS_PAIR,
                                           .c_triangle = C_T, .transition_factor = 2,
                                           .attention_num_head = HEADS_PAIR, .attention_key_dim = C_T,
                                           .dgram = {3.25, 50.75, 39}};
        ff_template_destroy(&s->template_embedder);
        return ff_single_template_bind(&b, &config, &s->template_embedder);
    }
    const ff_block_config config = {.c_m = s->extra ? C_E : C_M, .c_z = C_Z, .num_head_msa = HEADS_MSA,
                                    .num_head_pair = HEADS_PAIR, .c_triangle = C_Z, .c_outer = C_OUTER,
                                    .transition_factor = 4, .is_extra_msa = s->extra};
    return is_stack(kind_of(run)) ? ff_block_stack_bind(&b, &config, s->num_block, s->blocks)
                                  : ff_block_bind(&b, &config, s->blocks);
}

static ff_status make_weights(bench_run *run, module_state *s)
{
    s->num_block = is_stack(kind_of(run)) ? run->sizes.blocks : 1;
    s->blocks = calloc((size_t)s->num_block, sizeof *s->blocks);
    if (s->blocks == NULL)
        return FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    FF_TRY(bind_all(run, s, true));
    FF_TRY(ff_parameters_allocate(run->ctx, &s->parameters, run->pass != BENCH_INFERENCE));
    if (!ff_pool_is_dry(run->ctx->pool))
        fill_parameters(&s->parameters);
    return bind_all(run, s, false);
}

/* ---- tensors ---- */

static void fill(ff_ctx *ctx, ff_tensor *x, uint64_t stream)
{
    if (x != NULL && ff_computing(ctx))
        bench_fill(ff_data(x), x->size, 1, stream);
}

static void fill_ones(ff_ctx *ctx, ff_tensor *x)
{
    for (int64_t i = 0; x != NULL && ff_computing(ctx) && i < x->size; i++)
        ff_data(x)[i] = 1;
}

static void make_tensors(bench_run *run, module_state *s)
{
    ff_ctx *ctx = run->ctx;
    const module_kind kind = kind_of(run);
    const int64_t num_res = run->sizes.num_res, num_seq = s->extra ? run->sizes.num_extra : run->sizes.num_seq;
    if (uses_msa(kind)) {
        s->msa = ff_tensor_create(ctx, FF_SHAPE(num_seq, num_res, s->extra ? C_E : C_M));
        s->msa_mask = ff_tensor_create(ctx, FF_SHAPE(num_seq, num_res));
    }
    if (uses_pair(kind)) {
        s->pair = ff_tensor_create(ctx, FF_SHAPE(num_res, num_res, kind == TEMPLATE_PAIR_STACK ? C_T : C_Z));
        s->pair_mask = ff_tensor_create(ctx, FF_SHAPE(num_res, num_res));
    }
    fill(ctx, s->msa, 1);
    fill(ctx, s->pair, 2);
    fill_ones(ctx, s->msa_mask);
    fill_ones(ctx, s->pair_mask);
    if (s->msa != NULL)
        s->msa->requires_grad = run->pass != BENCH_INFERENCE;
    if (s->pair != NULL)
        s->pair->requires_grad = run->pass != BENCH_INFERENCE;
}

static void tear_down(bench_run *run)
{
    module_state *s = run->state;
    ff_tensor *tensors[] = {s->msa, s->pair, s->msa_mask, s->pair_mask, s->out_msa, s->out_pair};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        ff_tensor_release(tensors[i]);
    ff_template_destroy(&s->template_embedder);
    free(s->blocks);
    ff_parameters_destroy(&s->parameters);
    free(s);
    run->state = NULL;
}

static ff_status set_up(bench_run *run)
{
    module_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        return FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    run->state = s;
    s->extra = is_extra(kind_of(run));
    run->ctx->keep_inputs = run->sizes.keep_inputs;
    ff_parameters_init(&s->parameters);
    FF_TRY(make_weights(run, s));
    make_tensors(run, s);
    const cost c = cost_of(kind_of(run), &run->sizes, (double)run->k->operand_bytes);
    run->flop = c.flop;
    run->bytes = c.bytes;
    return run->ctx->status;
}

/* ---- passes ---- */

static void drop_grad(ff_tensor *x)
{
    if (x == NULL)
        return;
    ff_tensor_release(x->grad);
    x->grad = NULL;
}

static void prepare(bench_run *run)
{
    module_state *s = run->state;
    run->ctx->op_index = 0;
    if (run->pass == BENCH_INFERENCE)
        return;
    ff_tensor_release(s->out_msa);
    ff_tensor_release(s->out_pair);
    s->out_msa = s->out_pair = NULL;
    drop_grad(s->msa);
    drop_grad(s->pair);
    ff_tape_create(run->ctx);
}

static void pair_modules(ff_ctx *ctx, const ff_block *w, ff_tensor **pair, ff_tensor *mask)
{
    *pair = ff_triangle_multiplication_outgoing(ctx, &w->triangle_multiplication_outgoing, *pair, mask, FF_RESIDUAL);
    *pair = ff_triangle_multiplication_incoming(ctx, &w->triangle_multiplication_incoming, *pair, mask, FF_RESIDUAL);
    *pair = ff_triangle_attention_starting_node(ctx, &w->triangle_attention_starting_node, *pair, mask, FF_RESIDUAL);
    *pair = ff_triangle_attention_ending_node(ctx, &w->triangle_attention_ending_node, *pair, mask, FF_RESIDUAL);
    *pair = ff_transition(ctx, "pair_transition", &w->pair_transition, *pair, FF_RESIDUAL, false);
}

static void run_msa_module(bench_run *run, ff_tensor **msa)
{
    module_state *s = run->state;
    ff_ctx *ctx = run->ctx;
    const ff_block *w = s->blocks;
    switch (kind_of(run)) {
    case ROW_ATTENTION:
        *msa = ff_msa_row_attention_with_pair_bias(ctx, &w->msa_row_attention_with_pair_bias, *msa, s->pair,
                                                   s->msa_mask, FF_RESIDUAL);
        break;
    case COLUMN_ATTENTION:
        *msa = ff_msa_column_attention(ctx, &w->msa_column_attention, *msa, s->msa_mask, ff_module_keep(ctx),
                                       FF_RESIDUAL);
        break;
    case COLUMN_GLOBAL_ATTENTION:
        *msa = ff_msa_column_global_attention(ctx, &w->msa_column_attention, *msa, s->msa_mask, FF_RESIDUAL);
        break;
    default: *msa = ff_transition(ctx, "msa_transition", &w->msa_transition, *msa, FF_RESIDUAL, false); break;
    }
}

static void run_pair_module(bench_run *run, ff_tensor **pair)
{
    module_state *s = run->state;
    ff_ctx *ctx = run->ctx;
    const ff_block *w = s->blocks;
    ff_tensor *mask = s->pair_mask;
    switch (kind_of(run)) {
    case OUTER_PRODUCT_MEAN:
        *pair = ff_outer_product_mean(ctx, &w->outer_product_mean, s->msa, *pair, s->msa_mask, FF_RESIDUAL);
        break;
    case TRIANGLE_OUTGOING:
        *pair = ff_triangle_multiplication_outgoing(ctx, &w->triangle_multiplication_outgoing, *pair, mask,
                                                    FF_RESIDUAL);
        break;
    case TRIANGLE_INCOMING:
        *pair = ff_triangle_multiplication_incoming(ctx, &w->triangle_multiplication_incoming, *pair, mask,
                                                    FF_RESIDUAL);
        break;
    case TRIANGLE_STARTING:
        *pair = ff_triangle_attention_starting_node(ctx, &w->triangle_attention_starting_node, *pair, mask,
                                                    FF_RESIDUAL);
        break;
    case TRIANGLE_ENDING:
        *pair = ff_triangle_attention_ending_node(ctx, &w->triangle_attention_ending_node, *pair, mask, FF_RESIDUAL);
        break;
    case PAIR_TRANSITION:
        *pair = ff_transition(ctx, "pair_transition", &w->pair_transition, *pair, FF_RESIDUAL, false);
        break;
    case TEMPLATE_PAIR_STACK:
        for (int64_t i = 0; i < TEMPLATE_BLOCKS; i++)
            *pair = ff_template_block_forward(ctx, &s->template_embedder.blocks[i], *pair, mask);
        break;
    default: pair_modules(ctx, w, pair, mask); break;
    }
}

/* The module on (msa, pair): whatever it updates is consumed and replaced. */
static void run_module(bench_run *run, ff_tensor **msa, ff_tensor **pair)
{
    module_state *s = run->state;
    const module_kind kind = kind_of(run);
    if (kind == BLOCK || kind == EXTRA_BLOCK)
        ff_block_forward(run->ctx, s->blocks, msa, pair, s->msa_mask, s->pair_mask);
    else if (is_stack(kind))
        ff_block_stack_forward(run->ctx, s->blocks, s->num_block, run->sizes.checkpoint, msa, pair, s->msa_mask,
                               s->pair_mask);
    else if (kind <= MSA_TRANSITION)
        run_msa_module(run, msa);
    else
        run_pair_module(run, pair);
}

static void forward(bench_run *run)
{
    module_state *s = run->state;
    const module_kind kind = kind_of(run);
    if (run->pass == BENCH_INFERENCE) {
        run_module(run, &s->msa, &s->pair);
        return;
    }
    const bool both = kind >= BLOCK && kind <= EXTRA_STACK;
    if (both || kind <= MSA_TRANSITION)
        s->out_msa = ff_tensor_retain(s->msa);
    if (both || kind > MSA_TRANSITION)
        s->out_pair = ff_tensor_retain(s->pair);
    run_module(run, &s->out_msa, &s->out_pair);
}

static void give_gradient(ff_ctx *ctx, ff_tensor **out, uint64_t stream)
{
    fill(ctx, ff_tensor_grad(ctx, *out), stream);
    ff_tensor_release(*out);
    *out = NULL;
}

static void prepare_backward(bench_run *run)
{
    module_state *s = run->state;
    give_gradient(run->ctx, &s->out_msa, 3);
    give_gradient(run->ctx, &s->out_pair, 4);
}

static void backward(bench_run *run) { ff_tape_backward(run->ctx); }

/* ---- the table ---- */

#define MODULE(name, about, kind)                                                                                      \
    {                                                                                                                  \
        name, about, true, kind, set_up, prepare, forward, prepare_backward, backward, tear_down                       \
    }

const bench_op bench_module_ops[] = {
    MODULE("evoformer_block", "Alg. 6: msa [S, R, 256], pair [R, R, 128]", BLOCK),
    MODULE("evoformer_stack", "--blocks of them", STACK),
    MODULE("extra_msa_block", "Alg. 18: extra msa [E, R, 64], pair [R, R, 128]", EXTRA_BLOCK),
    MODULE("extra_msa_stack", "--blocks of them", EXTRA_STACK),
    MODULE("pair_stack", "the five pair modules of a block", PAIR_STACK),
    MODULE("template_pair_stack", "Alg. 16: two blocks on one template, [R, R, 64]", TEMPLATE_PAIR_STACK),
    MODULE("msa_row_attention_with_pair_bias", "Alg. 7", ROW_ATTENTION),
    MODULE("msa_column_attention", "Alg. 8", COLUMN_ATTENTION),
    MODULE("msa_column_global_attention", "Alg. 19: extra msa [E, R, 64]", COLUMN_GLOBAL_ATTENTION),
    MODULE("msa_transition", "Alg. 9", MSA_TRANSITION),
    MODULE("outer_product_mean", "Alg. 10", OUTER_PRODUCT_MEAN),
    MODULE("triangle_multiplication_outgoing", "Alg. 11", TRIANGLE_OUTGOING),
    MODULE("triangle_multiplication_incoming", "Alg. 12", TRIANGLE_INCOMING),
    MODULE("triangle_attention_starting_node", "Alg. 13", TRIANGLE_STARTING),
    MODULE("triangle_attention_ending_node", "Alg. 14", TRIANGLE_ENDING),
    MODULE("pair_transition", "Alg. 15", PAIR_TRANSITION),
};
const int bench_num_module_ops = (int)(sizeof bench_module_ops / sizeof *bench_module_ops);
