/* training_page.h - training.html: the curves of a run, one page that needs nothing from elsewhere. */
#ifndef FF_TRAIN_TRAINING_PAGE_H
#define FF_TRAIN_TRAINING_PAGE_H

#include "train/run_folder.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Write RUN/training.html from the metrics so far; long runs are thinned to about two thousand points.
 * @param title  what is trained on; NULL = none
 */
ff_status ff_training_page_write(ff_ctx *ctx, const ff_run_folder *run, const char *title);

#ifdef __cplusplus
}
#endif
#endif
