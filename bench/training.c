/* training.c - see training.h. */
#include "bench/training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/clock.h"
#include "model/initialise.h"
#include "tensor/pool.h"

ff_status bench_training_settings(ff_ctx *ctx, ff_train_settings *settings, const char *preset, int64_t num_workers)
{
    ff_train_options o;
    ff_options_set_defaults(&ff_train_program, &o);
    o.preset = preset;
    o.num_recycle = 0;
    o.loader_workers = num_workers;
    return ff_train_resolve(ctx, &o, settings);
}

ff_status bench_take_sample(ff_ctx *ctx, ff_samples *samples)
{
    ff_array_set batch;
    ff_loader_draw draw;
    const char *name;
    const ff_status status = ff_samples_next(ctx, samples, &batch, &draw, &name);
    ff_array_set_destroy(&batch);
    return status;
}

ff_status bench_training_open(ff_ctx *ctx, bench_training *t, const char *preset, const ff_chain_source *source,
                              int64_t num_workers)
{
    memset(t, 0, sizeof *t);
    FF_TRY(bench_training_settings(ctx, &t->settings, preset, num_workers));
    FF_TRY(ff_trainer_create(ctx, &t->trainer, &t->settings.trainer));
    FF_TRY(ff_model_initialise(ctx, &t->trainer.model.parameters, 1));
    FF_TRY(ff_trainer_start(ctx, &t->trainer));
    return ff_samples_create(ctx, &t->samples, &t->settings.samples, source, NULL, 0);
}

static ff_status run_step(ff_ctx *ctx, bench_training *t, ff_trainer_report *report)
{
    FF_TRY(ff_trainer_step(ctx, &t->trainer, t->samples, &t->settings.samples, report));
    return report->skipped ? FF_FAIL(ctx, FF_ERR_FORMAT, "a training step was skipped: see the warning above") : FF_OK;
}

ff_status bench_training_run(ff_ctx *ctx, bench_training *t, int64_t num_steps)
{
    ff_status status = FF_OK;
    ff_trainer_report report;
    double *seconds = calloc((size_t)num_steps, sizeof *seconds);
    if (seconds == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    FF_TRY_DONE(run_step(ctx, t, &report));
    t->wait_s = t->longest_wait_s = t->update_s = 0;
    const double begin = ff_clock_s();
    for (int64_t k = 0; k < num_steps; k++) {
        FF_TRY_DONE(run_step(ctx, t, &report));
        seconds[k] = report.total_s;
        t->wait_s += report.wait_s;
        t->longest_wait_s = fmax(t->longest_wait_s, report.wait_s);
        t->update_s += report.update_s;
    }
    t->whole_s = ff_clock_s() - begin;
    t->step = bench_summary(seconds, num_steps);
done:
    free(seconds);
    return status;
}

void bench_training_close(ff_ctx *ctx, bench_training *t)
{
    ff_samples_destroy(t->samples);
    ff_trainer_destroy(&t->trainer);
    ff_pool_trim(ctx->pool);
    memset(t, 0, sizeof *t);
}
