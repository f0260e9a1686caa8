/* bench_model.c - the whole model as an operation of fastfold-bench: one pass (no recycling) of a preset's sizes on random features,
 * without templates; in training with the loss of random labels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "dap/dap.h"
#include "model/initialise.h"
#include "model/model.h"
#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"
#include "train/model_loss.h"

typedef struct {
    ff_model model;
    ff_array_set batch;
    ff_model_output out;
    ff_loss_parts loss;
} model_state;

static const char *const presets[] = {"model_1_ptm", "small", "tiny"};

/* ---- features ---- */

static float *add_floats(bench_run *run, model_state *s, const char *name, int ndim, const int64_t *shape)
{
    ff_array *a = run->ctx->status == FF_OK ? ff_array_add(run->ctx, &s->batch, name, FF_ARRAY_FLOAT32, ndim, shape) : NULL;
    return a == NULL ? NULL : a->f32;
}

static int32_t *add_codes(bench_run *run, model_state *s, const char *name, int32_t count, int ndim, const int64_t *shape)
{
    ff_array *a = run->ctx->status == FF_OK ? ff_array_add(run->ctx, &s->batch, name, FF_ARRAY_INT32, ndim, shape) : NULL;
    const ff_random_key key = {2, (uint64_t)ndim};
    for (int64_t i = 0; a != NULL && count > 0 && !ff_pool_is_dry(run->ctx->pool) && i < a->size; i++)
        a->i32[i] = (int32_t)ff_random_below(key, (uint64_t)i, (uint64_t)count);
    return a == NULL ? NULL : a->i32;
}

static void fill(const bench_run *run, float *x, int64_t n, float value)
{
    for (int64_t i = 0; x != NULL && !ff_pool_is_dry(run->ctx->pool) && i < n; i++)
        x[i] = value;
}

static ff_status make_features(bench_run *run, model_state *s)
{
    const int64_t n = run->sizes.num_res, rows = run->sizes.num_seq, extra = run->sizes.num_extra;
    add_codes(run, s, "aatype", 20, FF_DIMS(1, n));
    int32_t *index = add_codes(run, s, "residue_index", 0, FF_DIMS(1, n));
    add_codes(run, s, "extra_msa", 22, FF_DIMS(1, extra, n));
    fill(run, add_floats(run, s, "seq_mask", FF_DIMS(1, n)), n, 1);
    fill(run, add_floats(run, s, "msa_mask", FF_DIMS(1, rows, n)), rows * n, 1);
    fill(run, add_floats(run, s, "extra_msa_mask", FF_DIMS(1, extra, n)), extra * n, 1);
    fill(run, add_floats(run, s, "atom37_atom_exists", FF_DIMS(1, n, 37)), n * 37, 1);
    float *target = add_floats(run, s, "target_feat", FF_DIMS(1, n, FF_TARGET_FEAT));
    float *msa = add_floats(run, s, "msa_feat", FF_DIMS(1, rows, n, FF_MSA_FEAT));
    add_floats(run, s, "extra_has_deletion", FF_DIMS(1, extra, n));
    add_floats(run, s, "extra_deletion_value", FF_DIMS(1, extra, n));
    if (run->ctx->status != FF_OK || ff_pool_is_dry(run->ctx->pool))
        return run->ctx->status;
    for (int64_t i = 0; i < n; i++)
        index[i] = (int32_t)i;
    bench_fill(target, n * FF_TARGET_FEAT, 1, 3);
    bench_fill(msa, rows * n * FF_MSA_FEAT, 1, 4);
    return FF_OK;
}

/* A chain of random atoms. */
static ff_status make_truth(bench_run *run, model_state *s)
{
    const int64_t n = run->sizes.num_res, rows = run->sizes.num_seq;
    float *positions = add_floats(run, s, "all_atom_positions", FF_DIMS(1, n, 37, 3));
    fill(run, add_floats(run, s, "all_atom_mask", FF_DIMS(1, n, 37)), n * 37, 1);
    fill(run, add_floats(run, s, "atom14_atom_exists", FF_DIMS(1, n, 14)), n * 14, 1);
    add_codes(run, s, "true_msa", 22, FF_DIMS(1, rows, n));
    fill(run, add_floats(run, s, "bert_mask", FF_DIMS(1, rows, n)), rows * n, 1);
    fill(run, add_floats(run, s, "resolution", FF_DIMS(1)), 1, 2);
    if (run->ctx->status == FF_OK && !ff_pool_is_dry(run->ctx->pool))
        bench_fill(positions, n * 111, 20, 5);
    return run->ctx->status == FF_OK ? ff_model_make_labels(run->ctx, &s->batch) : run->ctx->status;
}

/* ---- the operation ---- */

static void tear_down(bench_run *run)
{
    model_state *s = run->state;
    if (s == NULL)
        return;
    ff_model_output_release(&s->out);
    ff_model_destroy(&s->model);
    ff_array_set_destroy(&s->batch);
    free(s);
    run->state = NULL;
}

static void forward(bench_run *run)
{
    model_state *s = run->state;
    const ff_model_options options = ff_model_options_default();
    ff_model_output_release(&s->out);
    ff_model_forward(run->ctx, &s->model, &s->batch, &options, &s->out);
}

/* Matrix products of a forward pass, as the operations record them. */
static void count_flop(bench_run *run)
{
    ff_ctx dry = *run->ctx, *const own = run->ctx;
    dry.pool = NULL;
    dry.plan = NULL;
    dry.tape = NULL;
    if (ff_pool_create(&dry, 0, true) == FF_OK && ff_plan_create(&dry) == FF_OK) {
        model_state *s = run->state;
        run->ctx = &dry;
        forward(run);
        ff_model_output_release(&s->out);
        const ff_plan_record total = ff_plan_total(&dry);
        run->flop = total.flop;
        run->bytes = total.bytes_moved;
        run->ctx = own;
    }
    if (dry.plan != NULL)
        ff_plan_destroy(&dry);
    if (dry.pool != NULL)
        ff_pool_destroy(&dry);
}

static ff_status set_up(bench_run *run)
{
    ff_ctx *ctx = run->ctx;
    ff_model_config config;
    model_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    run->state = s;
    ff_array_set_init(&s->batch);
    FF_TRY(ff_model_config_preset(ctx, &config, presets[run->op->variant]));
    config.evoformer.template_enabled = config.evoformer.embed_torsion_angles = false;
    config.evoformer.checkpoint = run->sizes.checkpoint;
    if (run->sizes.blocks > 0)
        config.evoformer.evoformer_num_block = run->sizes.blocks;
    ctx->keep_inputs = run->sizes.keep_inputs;
    FF_TRY(ff_model_create(ctx, &s->model, &config, run->pass != BENCH_INFERENCE));
    run->parameter_bytes = (double)sizeof(float) * (double)s->model.parameters.total;
    if (!ff_pool_is_dry(ctx->pool))
        FF_TRY(ff_model_initialise(ctx, &s->model.parameters, 1));
    FF_TRY(make_features(run, s));
    if (run->pass != BENCH_INFERENCE)
        FF_TRY(make_truth(run, s));
    count_flop(run);
    return ctx->status;
}

static void prepare(bench_run *run)
{
    model_state *s = run->state;
    ff_model_output_release(&s->out);
    if (run->pass != BENCH_INFERENCE)
        ff_tape_create(run->ctx);
}

static void prepare_backward(bench_run *run)
{
    model_state *s = run->state;
    const ff_loss_weights weights = ff_loss_stage_weights(FF_STAGE_PTM);
    ff_model_loss(run->ctx, &s->loss, &s->model, &s->batch, 0, &s->out, &weights, 1, true);
}

static void backward(bench_run *run)
{
    model_state *s = run->state;
    ff_tape_backward(run->ctx);
    if (ff_dap_size(run->ctx) * ff_data_size(run->ctx) > 1 && !ff_pool_is_dry(run->ctx->pool))
        ff_dap_reduce_gradients(run->ctx, s->model.parameters.grads, s->model.parameters.total);
    ff_model_output_release(&s->out);
}

#define MODEL(name_, about_, variant_)                                                                                 \
    {                                                                                                                  \
        .name = name_, .about = about_, .is_module = true, .variant = variant_, .set_up = set_up, .prepare = prepare,  \
        .forward = forward, .prepare_backward = prepare_backward, .backward = backward, .tear_down = tear_down         \
    }

const bench_op bench_model_ops[] = {
    MODEL("model", "model_1_ptm without templates, one pass; --blocks of its 48", 0),
    MODEL("model_small", "the preset small, likewise", 1),
    MODEL("model_tiny", "the preset tiny, likewise", 2),
};
const int bench_num_model_ops = sizeof bench_model_ops / sizeof *bench_model_ops;
