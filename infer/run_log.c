#include "infer/run_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "infer/json_writer.h"

static const double event_interval_s = 1.0;
enum { SHOWN_NAME = 24 }; /* the line must fit 80 columns */

/* ---- JSON events: built in memory, written by one call ---- */

typedef struct {
    ff_json json;
    FILE *file;
    char *text;
    size_t size;
} event;

/* False where no JSON is wanted (or no memory is left for it); then there is nothing to end. */
static bool event_begin(const ff_run_log *log, event *e, ff_log_level level, const char *name)
{
    char stamp[32];
    const time_t now = time(NULL);
    struct tm parts;
    if (!log->ctx->log.json || log->ctx->log.file == NULL || level > log->ctx->log.level)
        return false;
    *e = (event){.text = NULL};
    e->file = open_memstream(&e->text, &e->size);
    if (e->file == NULL)
        return false;
    gmtime_r(&now, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
    ff_json_begin(&e->json, e->file, false);
    ff_json_object_begin(&e->json, NULL);
    ff_json_text(&e->json, "level", level == FF_LOG_ERROR ? "error" : "info");
    ff_json_text(&e->json, "event", name);
    ff_json_text(&e->json, "time", stamp);
    if (log->ctx->log.rank >= 0)
        ff_json_integer(&e->json, "rank", log->ctx->log.rank);
    if (log->in_target)
        ff_json_text(&e->json, "target", log->target.name);
    return true;
}

static void event_end(const ff_run_log *log, event *e)
{
    ff_json_object_end(&e->json);
    ff_json_end(&e->json);
    if (fclose(e->file) == 0)
        fwrite(e->text, 1, e->size, log->ctx->log.file);
    fflush(log->ctx->log.file);
    free(e->text);
}

/* Text records: not beside JSON events, which say the same. */
#define SAY(log, ...)                                                                                                  \
    do {                                                                                                               \
        if (!(log)->ctx->log.json)                                                                                     \
            FF_INFO((log)->ctx, __VA_ARGS__);                                                                          \
    } while (0)

/* ---- the progress line ---- */

/* Steps of one pass, of one prediction, of the target. */
static int64_t pass_steps(const ff_run_log *log)
{
    return (log->target.num_ensemble > 0 ? log->target.num_ensemble : 1) * log->target.num_steps;
}

static int64_t prediction_steps(const ff_run_log *log)
{
    return (log->target.num_recycle + 1) * pass_steps(log);
}

static int64_t total_steps(const ff_run_log *log)
{
    return log->target.num_predictions * prediction_steps(log);
}

static void begin_line(ff_run_log *log)
{
    const bool wanted = log->terminal != NULL && !log->ctx->log.json;
    ff_progress_begin(&log->progress, wanted ? log->terminal : NULL, log->line, total_steps(log));
}

/* Take the line away while a record is printed; the time spent so far still counts. */
static void pause_line(ff_run_log *log)
{
    const ff_progress kept = log->progress;
    ff_progress_end(&log->progress);
    log->progress = kept;
    log->progress.shown_s = -INFINITY;
}

static void describe(ff_run_log *log, const char *phase, int64_t step, int64_t total)
{
    char of[48] = "", pass[48] = "first pass";
    if (log->target.num_predictions > 1)
        snprintf(of, sizeof of, " %" PRId64 "/%" PRId64, log->prediction, log->target.num_predictions);
    if (log->passes > 0)
        snprintf(pass, sizeof pass, "recycle %" PRId64 "/%" PRId64, log->passes, log->target.num_recycle);
    snprintf(log->line, sizeof log->line, "[%" PRId64 "/%" PRId64 "] %.*s%s: %s, %.32s %" PRId64 "/%" PRId64 "; all",
             log->index, log->num_targets, SHOWN_NAME, log->target.name, of, pass, phase, step, total);
}

bool ff_run_log_step(void *arg, const char *phase, int64_t step, int64_t total)
{
    ff_run_log *log = arg;
    if (log->stop != NULL && *log->stop != 0)
        return true;
    if (!log->in_target)
        return false;
    const int64_t all = total_steps(log);
    describe(log, phase, step, total);
    ff_progress_step(&log->progress, log->done_steps);
    const double now = ff_clock_s();
    event e;
    if (now - log->event_s >= event_interval_s && event_begin(log, &e, FF_LOG_INFO, "block")) {
        const double elapsed = now - log->target_begin_s;
        log->event_s = now;
        ff_json_text(&e.json, "prediction", log->key);
        ff_json_integer(&e.json, "recycle", log->passes);
        ff_json_text(&e.json, "phase", phase);
        ff_json_integer(&e.json, "step", step);
        ff_json_integer(&e.json, "total", total);
        if (log->done_steps > 0 && all >= log->done_steps)
            ff_json_number(&e.json, "seconds_left", elapsed * (double)(all - log->done_steps) / (double)log->done_steps,
                           0);
        event_end(log, &e);
    }
    if (log->done_steps < all)
        log->done_steps++; /* told before each step: by the next call it is done */
    return false;
}

/* ---- the run ---- */

void ff_run_log_begin(ff_run_log *log, ff_ctx *ctx, FILE *terminal, int64_t num_targets,
                      const volatile sig_atomic_t *stop)
{
    event e;
    *log = (ff_run_log){.ctx = ctx, .terminal = terminal, .stop = stop, .num_targets = num_targets, .begin_s = ff_clock_s()};
    ctx->on_step = ff_run_log_step;
    ctx->on_step_arg = log;
    if (event_begin(log, &e, FF_LOG_INFO, "run_begin")) {
        ff_json_integer(&e.json, "num_targets", num_targets);
        event_end(log, &e);
    }
}

void ff_run_log_target(ff_run_log *log, const ff_run_target *target)
{
    event e;
    log->target = *target;
    log->in_target = true;
    log->index++;
    log->done_steps = log->passes = log->prediction = 0;
    log->key = NULL;
    log->target_begin_s = log->event_s = ff_clock_s();
    SAY(log, "target %" PRId64 "/%" PRId64 " %s: %" PRId64 " residues", log->index, log->num_targets, target->name,
        target->num_res);
    if (event_begin(log, &e, FF_LOG_INFO, "target_begin")) {
        ff_json_integer(&e.json, "index", log->index);
        ff_json_integer(&e.json, "num_targets", log->num_targets);
        ff_json_integer(&e.json, "num_res", target->num_res);
        ff_json_integer(&e.json, "num_predictions", target->num_predictions);
        ff_json_integer(&e.json, "num_recycle", target->num_recycle);
        event_end(log, &e);
    }
    snprintf(log->line, sizeof log->line, "[%" PRId64 "/%" PRId64 "] %.*s; all", log->index, log->num_targets,
             SHOWN_NAME, target->name);
    begin_line(log);
}

void ff_run_log_prediction(ff_run_log *log, const char *key)
{
    log->done_steps = log->prediction * prediction_steps(log); /* one before may have stopped early */
    log->prediction++;
    log->passes = 0;
    log->key = key;
}

void ff_run_log_skip(ff_run_log *log, const char *name)
{
    event e;
    log->index++;
    log->num_skipped++;
    SAY(log, "target %" PRId64 "/%" PRId64 " %s: finished before, left as it is", log->index, log->num_targets, name);
    if (event_begin(log, &e, FF_LOG_INFO, "target_end")) {
        ff_json_text(&e.json, "target", name);
        ff_json_text(&e.json, "state", "skipped");
        event_end(log, &e);
    }
}

void ff_run_log_pass(ff_run_log *log, const ff_recycle_record *pass)
{
    event e;
    char change[48] = "";
    pause_line(log);
    if (isfinite(pass->ca_change_ang))
        snprintf(change, sizeof change, ", CA distances changed by %.3f A", pass->ca_change_ang);
    SAY(log, "%s %s recycle %" PRId64 ": mean pLDDT %.2f%s, %.1f s", log->target.name, log->key != NULL ? log->key : "",
        log->passes, pass->mean_plddt, change, pass->seconds);
    if (event_begin(log, &e, FF_LOG_INFO, "pass")) {
        ff_json_text(&e.json, "prediction", log->key);
        ff_json_integer(&e.json, "recycle", log->passes);
        ff_json_number(&e.json, "mean_plddt", pass->mean_plddt, 4);
        ff_json_number(&e.json, "ca_change", pass->ca_change_ang, 4);
        ff_json_number(&e.json, "seconds", pass->seconds, 4);
        event_end(log, &e);
    }
    log->passes++;
    log->done_steps = (log->prediction > 0 ? log->prediction - 1 : 0) * prediction_steps(log) +
                      log->passes * pass_steps(log); /* whatever the steps were, a pass is a pass */
}

void ff_run_log_target_end(ff_run_log *log, const char *name, ff_target_state state, const char *message,
                           const ff_prediction *best)
{
    const bool finished = state == FF_TARGET_FINISHED;
    const double seconds = log->in_target ? ff_clock_s() - log->target_begin_s : 0.0;
    event e;
    if (log->in_target)
        ff_progress_end(&log->progress);
    else
        log->index++;
    log->in_target = false;
    log->num_finished += finished;
    log->num_failed += !finished;
    if (!log->ctx->log.json && !finished)
        ff_log_write(&log->ctx->log, FF_LOG_ERROR, "target %s failed: %s", name,
                     message != NULL ? message : "no reason given");
    else if (best != NULL)
        SAY(log, "%s finished in %.1f s: mean pLDDT %.2f", name, seconds, ff_prediction_mean_plddt(best));
    if (event_begin(log, &e, finished ? FF_LOG_INFO : FF_LOG_ERROR, "target_end")) {
        ff_json_text(&e.json, "target", name);
        ff_json_text(&e.json, "state", finished ? "finished" : "failed");
        ff_json_text(&e.json, "message", message);
        ff_json_number(&e.json, "seconds", seconds, 3);
        if (best != NULL) {
            ff_json_number(&e.json, "mean_plddt", ff_prediction_mean_plddt(best), 4);
            ff_json_number(&e.json, "ptm", best->ptm, 5);
        }
        event_end(log, &e);
    }
}

int ff_run_log_end(ff_run_log *log)
{
    const bool stopped = log->stop != NULL && *log->stop != 0;
    const int64_t left = log->num_targets - log->num_finished - log->num_failed - log->num_skipped;
    event e;
    if (log->ctx->on_step_arg == log) {
        log->ctx->on_step = NULL;
        log->ctx->on_step_arg = NULL;
    }
    SAY(log,
        "%s in %.1f s: %" PRId64 " finished, %" PRId64 " failed, %" PRId64 " finished before, %" PRId64 " not begun",
        stopped ? "stopped on request" : "done", ff_clock_s() - log->begin_s, log->num_finished, log->num_failed,
        log->num_skipped, left);
    if (event_begin(log, &e, FF_LOG_INFO, "run_end")) {
        ff_json_bool(&e.json, "stopped", stopped);
        ff_json_integer(&e.json, "finished", log->num_finished);
        ff_json_integer(&e.json, "failed", log->num_failed);
        ff_json_integer(&e.json, "skipped", log->num_skipped);
        ff_json_integer(&e.json, "not_begun", left);
        ff_json_number(&e.json, "seconds", ff_clock_s() - log->begin_s, 3);
        event_end(log, &e);
    }
    return log->num_failed > 0 || stopped || left > 0;
}
