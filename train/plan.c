/* Contents: a sample of the largest size; the dry step; the choice; printing. */
#include "train/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

/* ---- a sample of the largest size ---- */

static ff_array *add(ff_ctx *ctx, ff_array_set *set, const char *name, ff_array_type type, int ndim, const int64_t *shape)
{
    return ctx->status != FF_OK ? NULL : ff_array_add(ctx, set, name, type, ndim, shape);
}

/* Raw features of a chain of alanine with as many MSA rows as the model reads. The pipeline makes the batch, so it has the arrays and
 * shapes of a real one. */
static ff_status make_batch(ff_ctx *ctx, const ff_process_options *process, int64_t num_res, ff_array_set *batch)
{
    ff_status status = FF_OK;
    ff_array_set raw;
    const int64_t rows = process->num_seq + process->num_extra;
    ff_array_set_init(&raw);
    add(ctx, &raw, "aatype", FF_ARRAY_INT32, FF_DIMS(num_res));
    ff_array *index = add(ctx, &raw, "residue_index", FF_ARRAY_INT32, FF_DIMS(num_res));
    add(ctx, &raw, "between_segment_residues", FF_ARRAY_INT32, FF_DIMS(num_res));
    add(ctx, &raw, "msa", FF_ARRAY_INT32, FF_DIMS(rows, num_res));
    add(ctx, &raw, "deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(rows, num_res));
    add(ctx, &raw, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(num_res, 37, 3));
    add(ctx, &raw, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(num_res, 37));
    if (process->max_templates > 0) {
        const int64_t k = process->max_templates;
        add(ctx, &raw, "template_aatype", FF_ARRAY_FLOAT32, FF_DIMS(k, num_res, 22));
        add(ctx, &raw, "template_all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(k, num_res, 37, 3));
        add(ctx, &raw, "template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(k, num_res, 37));
    }
    FF_TRY_DONE(ctx->status);
    for (int64_t i = 0; i < num_res; i++)
        index->i32[i] = (int32_t)i;
    status = ff_samples_make_batch(ctx, batch, &raw, process);
done:
    ff_array_set_destroy(&raw);
    return status;
}

static double set_bytes(const ff_array_set *set)
{
    double bytes = 0;
    for (int64_t i = 0; i < set->count; i++)
        bytes += (double)set->items[i]->size * (double)ff_array_type_bytes(set->items[i]->type);
    return bytes;
}

static int64_t axis_length(const ff_array_set *batch, const char *name, int axis)
{
    const ff_array *a = ff_array_find(batch, name);
    return a == NULL || a->ndim <= axis ? 0 : a->shape[axis];
}

/* ---- the dry step ---- */

/* One pass, with or without a backward; the FLOP of it and the peak. */
static ff_status dry_pass(ff_ctx *dry, const ff_model *model, const ff_array_set *batch, const ff_loss_weights *weights,
                          bool backward, ff_plan_record *total)
{
    ff_status status = FF_OK;
    ff_model_output out = {0};
    ff_loss_parts parts;
    ff_model_options options = ff_model_options_default();
    FF_TRY(ff_plan_create(dry));
    if (backward)
        FF_TRY_DONE(ff_tape_create(dry));
    options.num_recycle = backward ? -1 : 0;
    FF_TRY_DONE(ff_model_forward(dry, model, batch, &options, &out));
    if (backward) {
        FF_TRY_DONE(ff_model_loss(dry, &parts, model, batch, out.num_passes - 1, &out, weights, 1, true));
        FF_TRY_DONE(ff_tape_backward(dry));
    }
    *total = ff_plan_total(dry);
done:
    ff_tape_destroy(dry);
    ff_model_output_release(&out);
    ff_plan_destroy(dry);
    return status;
}

/* A model with all names and shapes, and values that nobody touches; a sample of two slices: peak and FLOP of further passes do not
 * differ. */
typedef struct {
    ff_ctx dry;
    const ff_train_settings *s;
    ff_model model;
    ff_array_set batch;
    ff_plan_record one; /* pass without backward */
} planner;

static ff_status planner_fill(planner *p)
{
    ff_ctx *dry = &p->dry;
    ff_process_options process = p->s->samples.process;
    const int64_t num_res = process.crop_size > 0 ? process.crop_size : 256;
    process.num_recycle = process.num_recycle > 0 ? 1 : 0;
    FF_TRY(ff_pool_create(dry, 0, true));
    FF_TRY(ff_model_create(dry, &p->model, &p->s->trainer.model, true));
    FF_TRY(make_batch(dry, &process, num_res, &p->batch));
    return dry_pass(dry, &p->model, &p->batch, &p->s->trainer.weights, false, &p->one);
}

static void planner_close(planner *p)
{
    ff_array_set_destroy(&p->batch);
    ff_model_destroy(&p->model);
    if (p->dry.pool != NULL)
        ff_pool_destroy(&p->dry);
}

/* Release it also after a failure. */
static ff_status planner_open(ff_ctx *ctx, planner *p, const ff_train_settings *s)
{
    memset(p, 0, sizeof *p);
    p->s = s;
    p->dry = *ctx; /* kernels, communicator, options */
    p->dry.pool = NULL;
    p->dry.plan = NULL;
    p->dry.tape = NULL;
    p->dry.on_step = NULL;
    p->dry.training = s->trainer.dropout;
    ff_array_set_init(&p->batch);
    const ff_status status = planner_fill(p);
    return status == FF_OK ? FF_OK : FF_FAIL(ctx, status, "%s", p->dry.message);
}

void ff_train_apply(const ff_train_cost *cost, ff_evoformer_config *config)
{
    config->checkpoint = cost->checkpoint;
    config->num_plain_block = cost->num_plain_block;
}

/* num_plain < 0: nothing is recomputed. */
static ff_status planner_run(ff_ctx *ctx, planner *p, int64_t num_plain, ff_train_cost *cost)
{
    ff_plan_record step;
    const ff_samples_options *o = &p->s->samples;
    const double most = (double)o->process.num_recycle, recycles = o->draw_recycles ? 0.5 * most : most;
    const double slices = o->process.num_recycle > 0 ? 2 : 1;
    *cost = (ff_train_cost){.num_res = axis_length(&p->batch, "msa_feat", 2),
                            .num_seq = axis_length(&p->batch, "msa_feat", 1),
                            .num_extra = axis_length(&p->batch, "extra_msa", 1),
                            .num_templ = axis_length(&p->batch, "template_mask", 1),
                            .num_block = p->model.evoformer.config.evoformer_num_block,
                            .num_plain_block = num_plain < 0 ? 0 : num_plain,
                            .checkpoint = num_plain >= 0};
    ff_train_apply(cost, &p->model.evoformer.config);
    ff_pool_reset_peak(p->dry.pool);
    if (dry_pass(&p->dry, &p->model, &p->batch, &p->s->trainer.weights, true, &step) != FF_OK)
        return FF_FAIL(ctx, p->dry.status, "%s", p->dry.message);
    for (int64_t k = 0; k < p->model.parameters.count; k++)
        cost->num_parameters += (double)p->model.parameters.items[k].size;
    cost->weights_bytes = 4 * (double)p->model.parameters.total * (p->s->trainer.batch_size > 1 ? 6 : 5);
    cost->activation_bytes = (double)step.in_use;
    cost->batch_bytes = set_bytes(&p->batch) / slices * (most + 1) * (double)(o->queue_length + 1);
    cost->cache_bytes = (double)o->cache_bytes;
    cost->flop = step.flop + (recycles - (slices - 1)) * p->one.flop;
    cost->total_bytes = cost->weights_bytes + cost->activation_bytes + cost->batch_bytes + cost->cache_bytes;
    return FF_OK;
}

ff_status ff_train_plan(ff_ctx *ctx, const ff_train_settings *s, int64_t num_plain, ff_train_cost *cost)
{
    planner p;
    ff_status status = planner_open(ctx, &p, s);
    if (status == FF_OK)
        status = planner_run(ctx, &p, num_plain, cost);
    planner_close(&p);
    return status;
}

/* ---- the choice ---- */

/* The most plain blocks that fit, knowing that none fit and not all. */
static ff_status choose_blocks(ff_ctx *ctx, planner *p, double max_bytes, ff_train_cost *cost)
{
    int64_t low = 0, high = cost->num_block;
    while (high - low > 1) {
        ff_train_cost middle;
        const int64_t num_plain = low + (high - low) / 2;
        FF_TRY(planner_run(ctx, p, num_plain, &middle));
        if (middle.total_bytes <= max_bytes) {
            *cost = middle;
            low = num_plain;
        } else {
            high = num_plain;
        }
    }
    return FF_OK;
}

static ff_status choose(ff_ctx *ctx, planner *p, double max_bytes, ff_train_cost *cost)
{
    FF_TRY(planner_run(ctx, p, -1, cost));
    if (max_bytes <= 0 || cost->total_bytes <= max_bytes)
        return FF_OK;
    FF_TRY(planner_run(ctx, p, 0, cost));
    if (cost->total_bytes <= max_bytes)
        return choose_blocks(ctx, p, max_bytes, cost);
    return FF_FAIL(ctx, FF_ERR_MEM,
                   "a step needs %.2f GiB with every block recomputed (%.2f of them activations, %.2f weights and moments), "
                   "--max-memory allows %.2f GiB; try --crop %lld, --num-extra %lld or --cache 0",
                   cost->total_bytes / GIB, cost->activation_bytes / GIB, cost->weights_bytes / GIB, max_bytes / GIB,
                   (long long)(cost->num_res * 3 / 4), (long long)(cost->num_extra / 2));
}

ff_status ff_train_choose(ff_ctx *ctx, const ff_train_settings *s, int64_t max_bytes, ff_train_cost *cost)
{
    planner p;
    ff_status status = planner_open(ctx, &p, s);
    if (status == FF_OK)
        status = choose(ctx, &p, (double)max_bytes, cost);
    planner_close(&p);
    return status;
}

/* ---- printing ---- */

void ff_train_print_plan(const ff_train_cost *c, FILE *file)
{
    fprintf(file, "sample        %lld residues, %lld MSA rows, %lld extra rows, %lld templates\n", (long long)c->num_res,
            (long long)c->num_seq, (long long)c->num_extra, (long long)c->num_templ);
    fprintf(file, "parameters    %.0f\n", c->num_parameters);
    if (c->checkpoint)
        fprintf(file, "recomputed    %lld of %lld Evoformer blocks, extra-MSA and template stack\n",
                (long long)(c->num_block - c->num_plain_block), (long long)c->num_block);
    else
        fprintf(file, "recomputed    nothing\n");
    fprintf(file, "activations   %.3f GiB\n", c->activation_bytes / GIB);
    fprintf(file, "weights       %.3f GiB with gradients, moments and average\n", c->weights_bytes / GIB);
    fprintf(file, "samples       %.3f GiB made ahead, %.3f GiB of chains kept\n", c->batch_bytes / GIB, c->cache_bytes / GIB);
    fprintf(file, "total         %.3f GiB\n", c->total_bytes / GIB);
    fprintf(file, "arithmetic    %.4g TFLOP a sample\n", c->flop * 1e-12);
}
