/* training_log.h - what a run tells while it goes: JSON lines of means over some steps, and a live line on a terminal. */
#ifndef FF_TRAIN_TRAINING_LOG_H
#define FF_TRAIN_TRAINING_LOG_H

#include "train/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums since the last line. */
typedef struct {
    int64_t steps, skipped, samples;
    ff_loss_parts parts; /* sums over steps that were not skipped */
    double gradient_norm, num_recycle, num_res;
    double wait_s, forward_s, backward_s, update_s, total_s;
} ff_training_sums;

typedef struct {
    FILE *lines;    /* JSON; NULL = none */
    FILE *terminal; /* live line; NULL = none */
    int64_t steps;  /* of the whole run */
    int64_t log_every;
    ff_training_sums sums;
    double shown_s, rate; /* of the live line; steps a second, smoothed */
    double lddt;          /* last validated, or of the training samples */
} ff_training_log;

/** A log from `step` on. The live line appears when `terminal` is one. */
void ff_training_log_begin(ff_training_log *log, FILE *lines, FILE *terminal, int64_t steps, int64_t log_every);
/** Add a step; every log_every steps a line {"kind":"train", ...}. */
void ff_training_log_step(ff_ctx *ctx, ff_training_log *log, const ff_trainer *trainer, const ff_trainer_report *report);
/** A line {"kind":"validation", ...} with all chains. */
void ff_training_log_validation(ff_training_log *log, int64_t step, const ff_validation *validation);
/** Remove the live line, for other output. */
void ff_training_log_clear(ff_training_log *log);

/** The text of the live line; @return as snprintf. */
int ff_training_log_format(char *text, size_t size, const ff_training_log *log, const ff_trainer_report *report);

/** Largest memory of this process so far, bytes. */
double ff_training_peak_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
