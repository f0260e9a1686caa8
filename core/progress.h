/* progress.h - one line on a terminal that says what is done and how long it still takes; elsewhere it prints nothing. */
#ifndef FF_CORE_PROGRESS_H
#define FF_CORE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    FILE *file;        /* NULL = print nothing */
    const char *phase; /* "evoformer"; must outlive the progress line */
    int64_t total;     /* steps; 0 or less = not known */
    double begin_s;    /* monotonic time of the begin */
    double shown_s;    /* of the last update on the screen */
} ff_progress;

/** Begin a phase. Prints only when `file` is not NULL and a terminal. */
void ff_progress_begin(ff_progress *progress, FILE *file, const char *phase, int64_t total);

/** Show that `step` steps are done. Cheap: the line is drawn at most ten times a second, and for the last step. */
void ff_progress_step(ff_progress *progress, int64_t step);

/** Remove the line. */
void ff_progress_end(ff_progress *progress);

/**
 * The text of the line: `evoformer 12/48 (25 %), 0:36 left`. The time left is elapsed * (total - step) / step; it is
 * left out while step is 0 or the total is not known.
 * @return as snprintf
 */
int ff_progress_format(char *text, size_t size, const char *phase, int64_t step, int64_t total, double elapsed_s);

#ifdef __cplusplus
}
#endif
#endif
