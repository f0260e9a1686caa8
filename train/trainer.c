/* Contents: creation; the gradient of a sample; a step; the average; state on disk. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "tensor/tape.h"

/* ---- creation ---- */

ff_status ff_trainer_create(ff_ctx *ctx, ff_trainer *t, const ff_trainer_config *config)
{
    memset(t, 0, sizeof *t);
    t->config = *config;
    if (config->batch_size < 1 || config->max_bad_steps < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "a batch of %lld samples and %lld skipped steps in a row; each is 1 or more",
                       (long long)config->batch_size, (long long)config->max_bad_steps);
    FF_TRY(ff_optimizer_check_config(ctx, &config->optimizer));
    return ff_model_create(ctx, &t->model, &config->model, true);
}

ff_status ff_trainer_start(ff_ctx *ctx, ff_trainer *t)
{
    const ff_parameters *p = &t->model.parameters;
    FF_TRY(ff_optimizer_create(ctx, &t->optimizer, &t->config.optimizer, p->values, p->total));
    if (t->config.batch_size > 1)
        t->batch_grads = calloc((size_t)p->total, sizeof *t->batch_grads);
    if (t->config.batch_size > 1 && t->batch_grads == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the gradients of %lld parameters", (long long)p->total);
    return FF_OK;
}

void ff_trainer_destroy(ff_trainer *t)
{
    free(t->batch_grads);
    ff_optimizer_destroy(&t->optimizer);
    ff_model_destroy(&t->model);
    memset(t, 0, sizeof *t);
}

/* ---- the gradient of a sample ---- */

static ff_loss_weights step_weights(const ff_trainer *t)
{
    ff_loss_weights weights = t->config.weights;
    if (t->step < t->config.violation_from)
        weights.violation = 0;
    return weights;
}

void ff_trainer_add_parts(ff_loss_parts *sum, const ff_loss_parts *parts, double factor)
{
    double *to = (double *)sum; /* all members are doubles */
    const double *x = (const double *)parts;
    _Static_assert(sizeof *parts % sizeof *to == 0, "parts of a loss are doubles");
    for (size_t i = 0; i < sizeof *parts / sizeof *to; i++)
        to[i] += factor * x[i];
}

ff_status ff_trainer_gradient(ff_ctx *ctx, ff_trainer *t, const ff_array_set *batch, int64_t draw, ff_trainer_report *report)
{
    ff_status status = FF_OK;
    ff_model_output out = {0};
    ff_loss_parts parts;
    const ff_model_options options = ff_model_options_default();
    const ff_loss_weights weights = step_weights(t);
    const ff_array *mask = ff_array_find(batch, "seq_mask");
    const int64_t n = mask == NULL || mask->ndim != 2 ? 0 : mask->shape[1];
    const double begin = ff_clock_s(), sample_weight = n == 0 ? 1 : ff_loss_sample_weight(mask->f32, n);
    ctx->seed = t->config.seed;
    ctx->step = (uint64_t)draw;
    ctx->op_index = 0;
    ctx->training = t->config.dropout;
    FF_TRY(ff_tape_create(ctx));
    FF_TRY_DONE(ff_model_forward(ctx, &t->model, batch, &options, &out));
    FF_TRY_DONE(ff_model_loss(ctx, &parts, &t->model, batch, out.num_passes - 1, &out, &weights, sample_weight, true));
    const double middle = ff_clock_s();
    FF_TRY_DONE(ff_tape_backward(ctx));
    report->forward_s += middle - begin;
    report->backward_s += ff_clock_s() - middle;
    report->num_res += (double)n;
    ff_trainer_add_parts(&report->parts, &parts, 1);
done:
    ff_tape_destroy(ctx);
    ff_model_output_release(&out);
    ctx->training = false;
    return status;
}

/* ---- a step ---- */

/* The next sample; false when it could not be made, which is noted. Failures of memory are the run's. */
static ff_status take_sample(ff_ctx *ctx, ff_trainer *t, ff_samples *samples, ff_array_set *batch, ff_loader_draw *draw,
                             ff_trainer_report *report, bool *made)
{
    const double begin = ff_clock_s();
    const ff_status status = ff_samples_next(ctx, samples, batch, draw, &report->name);
    report->wait_s += ff_clock_s() - begin;
    *made = status == FF_OK;
    if (status == FF_OK || status == FF_ERR_MEM)
        return status;
    FF_WARN(ctx, "step %lld: chain %s is left out: %s", (long long)report->step, report->name, ctx->message);
    ff_context_clear(ctx);
    t->bad_samples++;
    return FF_OK;
}

/* The clipped gradient of one sample, put with those of the step; *finite false when there is none. */
static ff_status add_sample(ff_ctx *ctx, ff_trainer *t, const ff_array_set *batch, int64_t draw, ff_trainer_report *report,
                            bool *finite)
{
    ff_parameters *p = &t->model.parameters;
    const double before = report->parts.total;
    double norm = 0;
    FF_TRY(ff_trainer_gradient(ctx, t, batch, draw, report));
    *finite = isfinite(report->parts.total - before);
    if (*finite && t->batch_grads != NULL)
        *finite = ff_gradient_accumulate(t->batch_grads, p->grads, p->total, t->config.optimizer.clip_norm, &norm);
    report->gradient_norm = fmax(report->gradient_norm, norm);
    report->num_samples++;
    return FF_OK;
}

static void clear_gradients(ff_trainer *t)
{
    ff_parameters_zero_grads(&t->model.parameters);
    if (t->batch_grads != NULL)
        memset(t->batch_grads, 0, (size_t)t->model.parameters.total * sizeof *t->batch_grads);
}

/* With one sample, the optimiser clips; else each sample has been clipped. */
static bool update(ff_trainer *t, ff_trainer_report *report)
{
    ff_parameters *p = &t->model.parameters;
    const double begin = ff_clock_s();
    const bool one = t->batch_grads == NULL;
    const ff_step_report r = ff_optimizer_step(&t->optimizer, p->values, one ? p->grads : t->batch_grads,
                                               1.0 / (double)report->num_samples, one);
    if (one)
        report->gradient_norm = r.gradient_norm;
    report->learning_rate = r.learning_rate;
    report->update_s = ff_clock_s() - begin;
    return r.applied;
}

static ff_status end_step(ff_ctx *ctx, ff_trainer *t, const char *fault, const ff_trainer_report *report)
{
    t->step++;
    if (!report->skipped) {
        t->skipped_in_row = 0;
        return FF_OK;
    }
    clear_gradients(t);
    t->skipped++;
    t->skipped_in_row++;
    if (report->num_samples > 0)
        FF_WARN(ctx, "step %lld is skipped: the loss or gradient of chain %s is not finite", (long long)t->step, fault);
    if (t->skipped_in_row < t->config.max_bad_steps)
        return FF_OK;
    return FF_FAIL(ctx, FF_ERR_FORMAT,
                   "%lld steps in a row gave no finite gradient, the last with chain %s: look at that chain, or lower the learning "
                   "rate and go on from an earlier checkpoint",
                   (long long)t->skipped_in_row, fault);
}

ff_status ff_trainer_step(ff_ctx *ctx, ff_trainer *t, ff_samples *samples, const ff_samples_options *options,
                          ff_trainer_report *report)
{
    const double begin = ff_clock_s();
    const char *fault = "";
    *report = (ff_trainer_report){.step = t->step + 1, .num_recycle = ff_samples_num_recycle(options, t->step)};
    for (int64_t k = 0; k < t->config.batch_size; k++) {
        ff_array_set batch;
        ff_loader_draw draw;
        bool made, finite = true;
        FF_TRY(take_sample(ctx, t, samples, &batch, &draw, report, &made));
        const ff_status status = made ? add_sample(ctx, t, &batch, draw.number, report, &finite) : FF_OK;
        ff_array_set_destroy(&batch);
        FF_TRY(status);
        if (!finite || *fault == '\0')
            fault = report->name;
        report->skipped = report->skipped || !finite;
    }
    const ff_loss_parts sum = report->parts;
    memset(&report->parts, 0, sizeof report->parts);
    ff_trainer_add_parts(&report->parts, &sum, 1.0 / (double)(report->num_samples > 0 ? report->num_samples : 1));
    report->skipped = report->skipped || report->num_samples == 0 || !update(t, report);
    const ff_status status = end_step(ctx, t, fault, report);
    report->total_s = ff_clock_s() - begin;
    return status;
}

/* ---- the average ---- */

void ff_trainer_swap_average(ff_trainer *t)
{
    float *a = t->model.parameters.values, *b = t->optimizer.ema;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < t->optimizer.total; i++) {
        const float kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* ---- state on disk ---- */

enum { STATE_BLOCKS = 4 };

static void state_blocks(const ff_trainer *t, ff_checkpoint_block blocks[STATE_BLOCKS])
{
    blocks[0] = (ff_checkpoint_block){.name = FF_CHECKPOINT_PARAMETERS, .values = t->model.parameters.values};
    blocks[1] = (ff_checkpoint_block){.name = FF_CHECKPOINT_EMA, .values = t->optimizer.ema};
    blocks[2] = (ff_checkpoint_block){.name = "adam/first_moment", .values = t->optimizer.first};
    blocks[3] = (ff_checkpoint_block){.name = "adam/second_moment", .values = t->optimizer.second};
}

ff_status ff_trainer_save(ff_ctx *ctx, const ff_trainer *t, const ff_checkpoint_header *own, const char *path)
{
    ff_checkpoint_block blocks[STATE_BLOCKS];
    ff_checkpoint_header header = *own;
    memcpy(header.preset, t->config.model.name, sizeof header.preset);
    header.step = t->step;
    FF_TRY(ff_checkpoint_set_number(ctx, &header, "updates", (double)t->optimizer.step));
    FF_TRY(ff_checkpoint_set_number(ctx, &header, "skipped", (double)t->skipped));
    FF_TRY(ff_checkpoint_set_number(ctx, &header, "skipped_in_row", (double)t->skipped_in_row));
    FF_TRY(ff_checkpoint_set_number(ctx, &header, "bad_samples", (double)t->bad_samples));
    state_blocks(t, blocks);
    return ff_checkpoint_write(ctx, path, &header, &t->model.parameters, blocks, STATE_BLOCKS);
}

ff_status ff_trainer_load(ff_ctx *ctx, ff_trainer *t, ff_checkpoint_header *header, const char *path)
{
    ff_checkpoint_block blocks[STATE_BLOCKS];
    state_blocks(t, blocks);
    FF_TRY(ff_checkpoint_read(ctx, path, header, &t->model.parameters, blocks, STATE_BLOCKS));
    t->step = header->step;
    t->optimizer.step = (int64_t)ff_checkpoint_get_number(header, "updates", (double)header->step);
    t->skipped = (int64_t)ff_checkpoint_get_number(header, "skipped", 0);
    t->skipped_in_row = (int64_t)ff_checkpoint_get_number(header, "skipped_in_row", 0);
    t->bad_samples = (int64_t)ff_checkpoint_get_number(header, "bad_samples", 0);
    return FF_OK;
}
