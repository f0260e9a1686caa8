/* Contents: sources; records of the run; start; checkpoints; validation; the loop; the whole. */
#include "train/training_run.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/version.h"
#include "infer/json_writer.h"
#include "io/safe_file.h"
#include "model/initialise.h"
#include "model/weights.h"
#include "tensor/pool.h"
#include "train/plan.h"
#include "train/run_folder.h"
#include "train/training_log.h"
#include "train/training_page.h"

typedef struct {
    const ff_train_options *o;
    ff_train_settings *s;
    ff_chain_source data, distillation, validation;
    ff_trainer trainer;
    ff_samples *samples;
    ff_run_folder folder;
    ff_training_log log;
    double best_lddt;        /* -1 = nothing validated yet */
    int64_t saved_step;      /* of the newest checkpoint */
    int64_t validated_step;
    double saved_s;          /* when */
    ff_stop_fn stop;
    void *stop_arg;
} training_run;

/* ---- sources ---- */

/* A chain by heart: of the data set, or of a structure file, "FILE" or "FILE:CHAIN". */
static ff_status open_overfit(ff_ctx *ctx, const training_run *r, ff_chain_source *source)
{
    char path[FF_RUN_PATH_BYTES];
    if (r->o->data != NULL)
        return ff_chain_source_open_dataset(ctx, source, r->o->data, &r->s->filter, r->o->overfit);
    snprintf(path, sizeof path, "%s", r->o->overfit);
    char *colon = strrchr(path, ':');
    if (colon != NULL)
        *colon++ = '\0';
    return ff_chain_source_open_structure(ctx, source, path, colon);
}

static ff_status open_sources(ff_ctx *ctx, training_run *r)
{
    const ff_train_options *o = r->o;
    const ff_dataset_filter all = ff_dataset_filter_default();
    if (o->overfit != NULL)
        FF_TRY(open_overfit(ctx, r, &r->data));
    else
        FF_TRY(ff_chain_source_open_dataset(ctx, &r->data, o->data, &r->s->filter, NULL));
    if (o->distillation != NULL)
        FF_TRY(ff_chain_source_open_dataset(ctx, &r->distillation, o->distillation, &r->s->filter, NULL));
    if (o->validation != NULL)
        FF_TRY(ff_chain_source_open_dataset(ctx, &r->validation, o->validation, &all, NULL));
    else if (o->overfit != NULL) /* what was learned is what should be known */
        FF_TRY(open_overfit(ctx, r, &r->validation));
    return FF_OK;
}

/* ---- records of the run ---- */

typedef struct {
    const training_run *run;
    const char *command;
} run_record;

static ff_status write_config(ff_ctx *ctx, FILE *file, const void *arg)
{
    const run_record *record = arg;
    (void)ctx;
    ff_train_options o = *record->run->o;
    o.resume = o.plan = false; /* of one call, not of the run */
    o.config = NULL;
    fprintf(file, "# fastfold-train %s: every option of this run; --config reads it back\n", FF_VERSION);
    ff_options_write_ini(&ff_train_program, &o, file);
    return FF_OK;
}

static void write_source(ff_json *j, const char *key, const ff_chain_source *source)
{
    if (source->read == NULL)
        return;
    ff_json_object_begin(j, key);
    ff_json_integer(j, "chains", source->num_records);
    ff_json_text(j, "sha256", source->hash);
    ff_json_object_end(j);
}

static ff_status write_run(ff_ctx *ctx, FILE *file, const void *arg)
{
    const run_record *record = arg;
    const training_run *r = record->run;
    int64_t parameters = 0;
    ff_json j;
    (void)ctx;
    for (int64_t k = 0; k < r->trainer.model.parameters.count; k++)
        parameters += r->trainer.model.parameters.items[k].size;
    ff_json_begin(&j, file, true);
    ff_json_object_begin(&j, NULL);
    ff_json_text(&j, "program", "fastfold-train");
    ff_json_text(&j, "version", FF_VERSION);
    ff_json_text(&j, "command", record->command);
    ff_json_text(&j, "model", r->trainer.config.model.name);
    ff_json_integer(&j, "parameters", parameters);
    ff_json_integer(&j, "threads", r->o->threads);
    write_source(&j, "data", &r->data);
    write_source(&j, "distillation", &r->distillation);
    write_source(&j, "validation", &r->validation);
    ff_json_object_end(&j);
    ff_json_end(&j);
    return FF_OK;
}

static ff_status write_records(ff_ctx *ctx, const training_run *r, const char *command)
{
    char path[FF_RUN_PATH_BYTES];
    const run_record record = {r, command};
    FF_TRY(ff_safe_file_write(ctx, ff_run_folder_path(&r->folder, "config.ini", path), write_config, &record));
    return ff_safe_file_write(ctx, ff_run_folder_path(&r->folder, "run.json", path), write_run, &record);
}

/* ---- start ---- */

/* Hashes are 256 bits; a checkpoint's numbers hold 52 of them, enough to see that data changed. */
static double short_hash(const ff_chain_source *source)
{
    uint64_t bits = 0;
    for (int i = 0; i < 13 && source->hash[i] != '\0'; i++)
        bits = bits * 16 + (uint64_t)(source->hash[i] <= '9' ? source->hash[i] - '0' : source->hash[i] - 'a' + 10);
    return (double)bits;
}

static ff_status start(ff_ctx *ctx, training_run *r)
{
    ff_checkpoint_header header;
    bool found = false;
    r->best_lddt = -1;
    r->saved_step = r->validated_step = -1;
    if (r->o->init_weights != NULL)
        FF_TRY(ff_weights_read(ctx, &r->trainer.model.parameters, r->o->init_weights));
    else
        FF_TRY(ff_model_initialise(ctx, &r->trainer.model.parameters, (uint64_t)r->o->seed));
    FF_TRY(ff_trainer_start(ctx, &r->trainer));
    if (!r->o->resume)
        return FF_OK;
    FF_TRY(ff_run_folder_load(ctx, &r->folder, &r->trainer, &header, &found));
    if (!found)
        return FF_OK;
    r->saved_step = r->trainer.step;
    r->best_lddt = ff_checkpoint_get_number(&header, "best_lddt", -1);
    r->validated_step = (int64_t)ff_checkpoint_get_number(&header, "validated_step", -1);
    FF_INFO(ctx, "resume at step %" PRId64 " of %" PRId64, r->trainer.step, r->s->steps);
    if (ff_checkpoint_get_number(&header, "data_hash", short_hash(&r->data)) != short_hash(&r->data))
        FF_WARN(ctx, "the data set is not the one this run began with: it goes on with other samples");
    return FF_OK;
}

/* ---- checkpoints ---- */

static ff_status make_header(ff_ctx *ctx, const training_run *r, ff_checkpoint_header *header)
{
    *header = (ff_checkpoint_header){.step = r->trainer.step};
    FF_TRY(ff_checkpoint_set_number(ctx, header, "seed", (double)r->o->seed));
    FF_TRY(ff_checkpoint_set_number(ctx, header, "batch_size", (double)r->o->batch_size));
    FF_TRY(ff_checkpoint_set_number(ctx, header, "best_lddt", r->best_lddt));
    FF_TRY(ff_checkpoint_set_number(ctx, header, "validated_step", (double)r->validated_step));
    return ff_checkpoint_set_number(ctx, header, "data_hash", short_hash(&r->data));
}

static ff_status save(ff_ctx *ctx, training_run *r)
{
    ff_checkpoint_header header;
    if (r->saved_step == r->trainer.step)
        return FF_OK;
    FF_TRY(make_header(ctx, r, &header));
    FF_TRY(ff_run_folder_save(ctx, &r->folder, &r->trainer, &header));
    r->saved_step = r->trainer.step;
    r->saved_s = ff_clock_s();
    return FF_OK;
}

static bool save_is_due(const training_run *r)
{
    const int64_t every = r->o->checkpoint_every;
    return (every > 0 && r->trainer.step % every == 0) ||
           (r->o->checkpoint_minutes > 0 && ff_clock_s() - r->saved_s >= 60 * r->o->checkpoint_minutes);
}

/* On the way a checkpoint that cannot be written is a warning: the ones before are whole, and there may be room later. */
static ff_status save_on_the_way(ff_ctx *ctx, training_run *r)
{
    if (!save_is_due(r))
        return FF_OK;
    const ff_status status = save(ctx, r);
    if (status != FF_ERR_IO)
        return status;
    ff_training_log_clear(&r->log);
    FF_WARN(ctx, "step %" PRId64 ": no checkpoint: %s", r->trainer.step, ctx->message);
    ff_context_clear(ctx);
    r->saved_s = ff_clock_s();
    return FF_OK;
}

/* ---- validation ---- */

static ff_status save_best(ff_ctx *ctx, training_run *r)
{
    char path[FF_RUN_PATH_BYTES];
    ff_checkpoint_header header;
    FF_TRY(make_header(ctx, r, &header));
    return ff_trainer_save(ctx, &r->trainer, &header, ff_run_folder_path(&r->folder, "best.h5", path));
}

static ff_status validate(ff_ctx *ctx, training_run *r)
{
    ff_status status = FF_OK;
    ff_validation v = {0};
    const int64_t step = r->trainer.step;
    if (r->validation.read == NULL || r->validated_step == step)
        return FF_OK;
    FF_TRY_DONE(ff_validate(ctx, &v, &r->trainer, &r->validation, &r->s->validation));
    r->validated_step = step;
    ff_training_log_clear(&r->log);
    ff_training_log_validation(&r->log, step, &v);
    FF_INFO(ctx,
            "step %" PRId64 " validation of %" PRId64 " chains: lDDT-CA %.4f, RMSD %.3f Å, dRMSD %.3f Å, GDT-TS %.4f, GDT-HA %.4f, "
            "TM %.4f, residues with violations %.2f %%",
            step, v.num_chains - v.num_failed, v.mean.lddt_ca, v.mean.rmsd_ang, v.mean.drmsd_ang, v.mean.gdt_ts, v.mean.gdt_ha,
            v.mean.tm_score, 100 * v.fraction_violating);
    if (v.mean.lddt_ca > r->best_lddt && v.num_chains > v.num_failed) {
        r->best_lddt = v.mean.lddt_ca;
        FF_TRY_DONE(save_best(ctx, r));
    }
    status = ff_training_page_write(ctx, &r->folder, r->o->overfit != NULL ? r->o->overfit : r->o->data);
done:
    ff_validation_destroy(&v);
    return status;
}

/* ---- the loop ---- */

static bool asked_to_stop(const training_run *r) { return r->stop != NULL && r->stop(r->stop_arg); }

static bool stop_within_step(void *arg, const char *phase, int64_t step, int64_t total)
{
    (void)phase;
    (void)step;
    (void)total;
    return asked_to_stop(arg);
}

/* Validation is not broken off: it has no state to save. */
static ff_status step_and_after(ff_ctx *ctx, training_run *r)
{
    ff_trainer_report report;
    ctx->on_step = stop_within_step;
    ctx->on_step_arg = r;
    const ff_status status = ff_trainer_step(ctx, &r->trainer, r->samples, &r->s->samples, &report);
    ctx->on_step = NULL;
    FF_TRY(status);
    ff_training_log_step(ctx, &r->log, &r->trainer, &report);
    if (r->o->validate_every > 0 && r->trainer.step % r->o->validate_every == 0)
        FF_TRY(validate(ctx, r));
    return save_on_the_way(ctx, r);
}

static ff_status loop(ff_ctx *ctx, training_run *r)
{
    while (r->trainer.step < r->s->steps && !asked_to_stop(r)) {
        const ff_status status = step_and_after(ctx, r);
        if (status == FF_ERR_CANCELLED && asked_to_stop(r)) {
            ff_context_clear(ctx); /* the step was not finished; weights are those after the one before */
            break;
        }
        FF_TRY(status);
    }
    ff_training_log_clear(&r->log);
    if (r->trainer.step >= r->s->steps)
        FF_TRY(validate(ctx, r));
    else
        FF_INFO(ctx, "asked to stop after step %" PRId64 ": --resume goes on", r->trainer.step);
    FF_TRY(save(ctx, r));
    return ff_training_page_write(ctx, &r->folder, r->o->overfit != NULL ? r->o->overfit : r->o->data);
}

/* ---- the whole ---- */

/* Which blocks are recomputed, for the longest sample. */
static ff_status choose_blocks(ff_ctx *ctx, training_run *r)
{
    ff_train_cost cost;
    if (r->o->plain_blocks >= 0)
        FF_TRY(ff_train_plan(ctx, r->s, r->o->plain_blocks, &cost));
    else
        FF_TRY(ff_train_choose(ctx, r->s, r->o->max_memory, &cost));
    ff_train_apply(&cost, &r->s->trainer.model.evoformer);
    if (r->o->plan)
        ff_train_print_plan(&cost, stdout);
    return FF_OK;
}

static ff_status prepare(ff_ctx *ctx, training_run *r, const char *command)
{
    FF_TRY(choose_blocks(ctx, r));
    if (r->o->plan)
        return FF_OK;
    FF_TRY(open_sources(ctx, r));
    FF_TRY(ff_run_folder_open(ctx, &r->folder, r->o->output_dir, r->o->metrics, r->o->keep, r->o->resume));
    FF_TRY(ff_trainer_create(ctx, &r->trainer, &r->s->trainer));
    FF_TRY(start(ctx, r));
    FF_TRY(write_records(ctx, r, command));
    FF_TRY(ff_run_folder_begin_metrics(ctx, &r->folder, r->trainer.step));
    ff_training_log_begin(&r->log, r->folder.lines, r->o->progress ? stderr : NULL, r->s->steps, r->o->log_every);
    return ff_samples_create(ctx, &r->samples, &r->s->samples, &r->data, r->distillation.read == NULL ? NULL : &r->distillation,
                             r->trainer.step);
}

ff_status ff_training_run(ff_ctx *ctx, const ff_train_options *options, ff_train_settings *settings, const char *command,
                          ff_stop_fn stop, void *stop_arg)
{
    training_run r = {.o = options, .s = settings, .stop = stop, .stop_arg = stop_arg, .saved_s = ff_clock_s()};
    ff_status status = prepare(ctx, &r, command);
    if (status == FF_OK && !options->plan)
        status = loop(ctx, &r);
    ff_training_log_clear(&r.log);
    ff_samples_destroy(r.samples);
    ff_run_folder_close(&r.folder);
    ff_trainer_destroy(&r.trainer);
    ff_chain_source_close(&r.data);
    ff_chain_source_close(&r.distillation);
    ff_chain_source_close(&r.validation);
    return status;
}
