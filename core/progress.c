/* progress.c - the progress line. */
#include "core/progress.h"
#include "core/clock.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static const double redraw_s = 0.1;

void ff_progress_begin(ff_progress *progress, FILE *file, const char *phase, int64_t total)
{
    const bool shown = file != NULL && isatty(fileno(file));
    *progress = (ff_progress){.file = shown ? file : NULL, .phase = phase, .total = total};
    progress->begin_s = ff_clock_s();
    progress->shown_s = -INFINITY;
    ff_progress_step(progress, 0);
}

void ff_progress_step(ff_progress *progress, int64_t step)
{
    if (progress->file == NULL)
        return;
    const double now = ff_clock_s();
    if (now - progress->shown_s < redraw_s && step != progress->total)
        return;
    progress->shown_s = now;
    char text[160];
    ff_progress_format(text, sizeof text, progress->phase, step, progress->total, now - progress->begin_s);
    fprintf(progress->file, "\r\033[K%s", text); /* back to the left edge, clear the line */
    fflush(progress->file);
}

void ff_progress_end(ff_progress *progress)
{
    if (progress->file == NULL)
        return;
    fputs("\r\033[K", progress->file);
    fflush(progress->file);
    progress->file = NULL;
}

int ff_progress_format(char *text, size_t size, const char *phase, int64_t step, int64_t total, double elapsed_s)
{
    if (total <= 0)
        return snprintf(text, size, "%s %" PRId64, phase, step);
    const double share = 100.0 * (double)step / (double)total;
    if (step <= 0)
        return snprintf(text, size, "%s %" PRId64 "/%" PRId64 " (%.0f %%)", phase, step, total, share);
    const int64_t left_s = llround(elapsed_s * (double)(total - step) / (double)step);
    if (left_s >= 3600)
        return snprintf(text, size, "%s %" PRId64 "/%" PRId64 " (%.0f %%), %" PRId64 ":%02d:%02d left", phase, step,
                        total, share, left_s / 3600, (int)(left_s / 60 % 60), (int)(left_s % 60));
    return snprintf(text, size, "%s %" PRId64 "/%" PRId64 " (%.0f %%), %d:%02d left", phase, step, total, share,
                    (int)(left_s / 60), (int)(left_s % 60));
}
