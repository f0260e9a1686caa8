/* training_run.h - a whole run: sources, trainer, folder, and the loop with checkpoints, validation and metrics. */
#ifndef FF_TRAIN_TRAINING_RUN_H
#define FF_TRAIN_TRAINING_RUN_H

#include "train/train_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Asked between steps, and between the blocks of a long one: true = write a checkpoint and end. */
typedef bool (*ff_stop_fn)(void *arg);

/**
 * Train as the options say. Their values must be resolved into `settings`.
 * @param command  the command line, for the record
 * @return FF_OK also when asked to stop
 */
ff_status ff_training_run(ff_ctx *ctx, const ff_train_options *options, ff_train_settings *settings, const char *command,
                          ff_stop_fn stop, void *stop_arg);

#ifdef __cplusplus
}
#endif
#endif
