/* report.h - one HTML page about a prediction: no network, no other files, opened by any browser.
 *
 * The page is infer/report_page.html, which the build turns into a C string; the numbers go into it as one JSON
 * document, matrices as base64 bytes. Plots are drawn by the page's own script. */
#ifndef FF_INFER_REPORT_H
#define FF_INFER_REPORT_H

#include "infer/prediction.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_REPORT_MAX_SIDE = 1500 }; /* larger matrices are averaged over squares, so that the page opens fast */

/**
 * Write the page about the best prediction, with a table of all.
 * @param order  [count] the prediction at each rank; order[0] is shown
 */
ff_status ff_report_write(ff_ctx *ctx, const ff_prediction *predictions, const int64_t *order, int64_t count,
                          const char *path);

#ifdef __cplusplus
}
#endif
#endif
