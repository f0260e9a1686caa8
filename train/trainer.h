/* trainer.h - a model in training: its weights, gradients and moments, and one step of the loop.
 *
 * A step: samples -> forward with the step's number of recycles -> loss -> backward -> clip each sample -> Adam and average
 * (Jumper et al. 2021, Suppl. section 1.11). Everything random is a pure function of (seed, draw), so a run that starts again from
 * its state at step s goes on bit for bit, with the same number of threads. */
#ifndef FF_TRAIN_TRAINER_H
#define FF_TRAIN_TRAINER_H

#include "model/checkpoint.h"
#include "train/model_loss.h"
#include "train/optimizer.h"
#include "train/samples.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_model_config model;
    ff_optimizer_config optimizer;
    ff_loss_weights weights;
    int64_t violation_from; /* steps before this one have no violation loss */
    int64_t batch_size;
    int64_t max_bad_steps;  /* skipped steps in a row that end the run */
    uint64_t seed;
    bool dropout;
} ff_trainer_config;

typedef struct {
    ff_trainer_config config;
    ff_model model;
    ff_optimizer optimizer;
    float *batch_grads; /* [total] sum over the samples of a step; NULL when it has one */
    /* where the run stands */
    int64_t step;           /* done, skipped ones among them */
    int64_t skipped;        /* steps: loss or gradient was not finite, or no sample could be made */
    int64_t skipped_in_row;
    int64_t bad_samples;    /* that could not be made: damaged records, ... */
} ff_trainer;

/** Weights are zero: fill trainer->model.parameters, then ff_trainer_start. Release with ff_trainer_destroy, also on failure. */
ff_status ff_trainer_create(ff_ctx *ctx, ff_trainer *trainer, const ff_trainer_config *config);
/** Begin at step 0 with the weights there are: moments are zero, the average is the weights. */
ff_status ff_trainer_start(ff_ctx *ctx, ff_trainer *trainer);
void ff_trainer_destroy(ff_trainer *trainer);

typedef struct {
    int64_t step;           /* this one, from 1 */
    int64_t num_recycle, num_samples;
    bool skipped;
    const char *name;       /* of the last sample, or of the one at fault */
    ff_loss_parts parts;    /* mean over the samples */
    double gradient_norm;   /* largest of the samples, before clipping */
    double learning_rate;
    double num_res;         /* residues of all samples */
    double wait_s, forward_s, backward_s, update_s, total_s;
} ff_trainer_report;

/**
 * One step. A loss or gradient with NaN or Inf skips it, a sample that cannot be made is left out: both with a warning that names
 * the chain.
 *
 * @return FF_ERR_FORMAT after max_bad_steps skipped steps in a row; any failure of the model itself
 */
ff_status ff_trainer_step(ff_ctx *ctx, ff_trainer *trainer, ff_samples *samples, const ff_samples_options *options,
                          ff_trainer_report *report);

/** Forward pass, loss and backward pass of one sample: gradients are added to the model's, parts and times to the report. */
ff_status ff_trainer_gradient(ff_ctx *ctx, ff_trainer *trainer, const ff_array_set *batch, int64_t draw,
                              ff_trainer_report *report);

/** sum += factor * parts, member by member. */
void ff_trainer_add_parts(ff_loss_parts *sum, const ff_loss_parts *parts, double factor);

/** Exchange the weights and their average; twice = nothing. */
void ff_trainer_swap_average(ff_trainer *trainer);

/* ---- state on disk ---- */

/** Write weights, average, moments and where the run stands; `header` brings numbers of the caller's own. */
ff_status ff_trainer_save(ff_ctx *ctx, const ff_trainer *trainer, const ff_checkpoint_header *header, const char *path);
/** Read them back, after ff_trainer_start. On failure the state is undefined. */
ff_status ff_trainer_load(ff_ctx *ctx, ff_trainer *trainer, ff_checkpoint_header *header, const char *path);

#ifdef __cplusplus
}
#endif
#endif
