/* run_folder.h - what a training run leaves on disk, so that it can go on after any end.
 *
 *     config.ini               every option, as resolved; --config and --resume read it back
 *     run.json                 version, command line, hashes of the data, size of the model
 *     checkpoint_0000012000.h5 state after that step (model/checkpoint.h); the newest K are kept
 *     best.h5                  state at the best validated lDDT
 *     metrics.jsonl            one JSON object a line: "train" and "validation" records
 *     training.html            the curves, one page without anything from elsewhere
 *     lock                     held by the process that trains here
 *
 * Every file but metrics.jsonl appears whole or not at all. */
#ifndef FF_TRAIN_RUN_FOLDER_H
#define FF_TRAIN_RUN_FOLDER_H

#include "train/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_RUN_PATH_BYTES = 4096 };

typedef struct {
    char folder[FF_RUN_PATH_BYTES];
    char metrics[FF_RUN_PATH_BYTES];
    int64_t keep; /* newest checkpoints */
    FILE *lines;  /* metrics, open for appending */
    int lock;     /* file descriptor; 0 = none */
} ff_run_folder;

/**
 * Make the folder and take its lock; files that an earlier run was writing when it was killed are removed.
 * @param metrics  path of the metrics file, NULL = metrics.jsonl in the folder
 * @param resume   false: FF_ERR_ARG when there is a checkpoint of another run in it
 * @return FF_ERR_IO: files cannot be written there, or another process trains there
 */
ff_status ff_run_folder_open(ff_ctx *ctx, ff_run_folder *run, const char *folder, const char *metrics, int64_t keep, bool resume);
void ff_run_folder_close(ff_run_folder *run); /* a zeroed one is fine */

/** `folder`/`name` in a buffer of FF_RUN_PATH_BYTES. @return the buffer */
const char *ff_run_folder_path(const ff_run_folder *run, const char *name, char path[FF_RUN_PATH_BYTES]);

/** Steps of the checkpoints there are, newest first; the caller frees them. */
ff_status ff_run_folder_list(ff_ctx *ctx, const ff_run_folder *run, int64_t **steps, int64_t *count);

/** Write the state as checkpoint of its step, and then remove what is older than the newest `keep`. What was there stays whole
 * when writing fails. */
ff_status ff_run_folder_save(ff_ctx *ctx, const ff_run_folder *run, const ff_trainer *trainer, const ff_checkpoint_header *header);
/**
 * Read the newest checkpoint that is whole; a damaged one gives a warning, and the one before is taken.
 * @param found  out  false: there is none, and the trainer is as before
 * @return FF_ERR_FORMAT when there are some and none is whole
 */
ff_status ff_run_folder_load(ff_ctx *ctx, const ff_run_folder *run, ff_trainer *trainer, ff_checkpoint_header *header, bool *found);

/** Open the metrics for appending, without the lines of steps after `step` that an earlier run left. */
ff_status ff_run_folder_begin_metrics(ff_ctx *ctx, ff_run_folder *run, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
