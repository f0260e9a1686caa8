/* run_log.h - what a run of fastfold-infer tells: a progress line on a terminal, log records, JSON events.
 *
 *     ff_run_log log;
 *     ff_run_log_begin(&log, ctx, stderr, targets.count, &stop);          // hangs itself into ctx->on_step
 *     for each target:
 *         ff_run_log_target(&log, &(ff_run_target){...});
 *         for each model and seed:
 *             ff_run_log_prediction(&log, "model_1_ptm_seed_0");
 *             ... predict; ff_run_log_pass after each pass ...
 *         ff_run_log_target_end(&log, name, FF_TARGET_FINISHED, NULL, &best);
 *     status = ff_run_log_end(&log);
 *
 * The line: `[2/5] T1078: recycle 1/3, evoformer 12/48; all 64/212 (30 %), 1:02 left`. It is drawn on a terminal
 * only; elsewhere the records of targets and passes are all there is. With ctx->log.json every record is an object
 * with an `event`:
 *
 *     {"level": "info", "event": "block", "time": "2024-05-01T12:00:00Z", "target": "T1078",
 *      "prediction": "model_1_ptm_seed_0", "recycle": 1, "phase": "evoformer", "step": 12, "total": 48,
 *      "seconds_left": 62}
 *
 * run_begin, target_begin, block (at most one a second), pass, target_end, run_end. */
#ifndef FF_INFER_RUN_LOG_H
#define FF_INFER_RUN_LOG_H

#include <signal.h>

#include "core/context.h"
#include "core/progress.h"
#include "infer/prediction.h"
#include "infer/target_folder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *name;  /* the folder's name reads best; must stay until ff_run_log_target_end */
    int64_t num_res;
    int64_t num_predictions; /* models times seeds */
    int64_t num_recycle;  /* passes after the first, of each prediction */
    int64_t num_ensemble; /* trunk runs in each pass */
    int64_t num_steps;    /* blocks of extra-MSA stack and Evoformer of one trunk run, and 1 for the structure module */
} ff_run_target;

typedef struct {
    ff_ctx *ctx;
    ff_progress progress;
    char line[256]; /* what ff_progress shows before the count */
    FILE *terminal;
    const volatile sig_atomic_t *stop;
    ff_run_target target;
    bool in_target;
    int64_t num_targets, index; /* the target under way, from 1 */
    int64_t num_finished, num_failed, num_skipped;
    int64_t done_steps;         /* of the target */
    int64_t prediction;         /* under way in this target, from 1 */
    int64_t passes;             /* ended in this prediction */
    const char *key;            /* of the prediction */
    double begin_s, target_begin_s, event_s;
} ff_run_log;

/**
 * @param terminal  where the progress line goes if it is a terminal and records are no JSON; NULL = nowhere
 * @param stop      set from a signal handler: steps then end with FF_ERR_CANCELLED; may be NULL
 */
void ff_run_log_begin(ff_run_log *log, ff_ctx *ctx, FILE *terminal, int64_t num_targets,
                      const volatile sig_atomic_t *stop);

void ff_run_log_target(ff_run_log *log, const ff_run_target *target);
/** The next model or seed of the target; `key` (ff_prediction_key) must stay until the next one or the target's end. */
void ff_run_log_prediction(ff_run_log *log, const char *key);
/** A target that was finished in an earlier run. */
void ff_run_log_skip(ff_run_log *log, const char *name);
/** A pass through the model has ended. */
void ff_run_log_pass(ff_run_log *log, const ff_recycle_record *pass);
/** Also for a target that failed before ff_run_log_target: `name` is for those. `best` may be NULL. */
void ff_run_log_target_end(ff_run_log *log, const char *name, ff_target_state state, const char *message,
                           const ff_prediction *best);

/** Sum up and let go of the context. @return the program's exit status: 1 if a target failed or the run was stopped */
int ff_run_log_end(ff_run_log *log);

/** What ctx->on_step calls. */
bool ff_run_log_step(void *log, const char *phase, int64_t step, int64_t total);

#ifdef __cplusplus
}
#endif
#endif
