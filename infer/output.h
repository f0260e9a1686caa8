/* output.h - all files of one target, from its predictions by several models and seeds.
 *
 *     ranked_0.pdb, ranked_1.pdb, ...    by ranking confidence, best first (not where a PDB file cannot hold them)
 *     ranked_0.cif, ...
 *     confidence.json                    of ranked_0; confidence_1.json, ... of the others
 *     predicted_aligned_error.json       of ranked_0, where the model gives it; predicted_aligned_error_1.json, ...
 *     ranking.json, timings.json         of all
 *     report.html                        of ranked_0, with the ranking
 *     result.h5                          arrays of ranked_0, on request; result_1.h5, ... */
#ifndef FF_INFER_OUTPUT_H
#define FF_INFER_OUTPUT_H

#include "infer/prediction.h"
#include "infer/write_structure.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_b_column b_column;
    bool mmcif, report; /* write them */
    /* [count] more arrays for result.h5 of each prediction (raw model outputs; may hold NULL), or NULL: no result.h5 */
    const ff_array_set *const *raw;
} ff_output_options;

/**
 * Places by ranking confidence, largest first; equal ones stay in order, and one that is not a number comes last.
 * @param order  [count] out  the prediction at each rank
 */
ff_status ff_output_rank(ff_ctx *ctx, int64_t *order, const ff_prediction *predictions, int64_t count);

/**
 * Write all files into `folder`, which exists. ranked_0 is written first. With several models the ranking
 * confidences must be of one kind (all pTM, or all mean pLDDT).
 * @return the first failure; files written before it stay.
 */
ff_status ff_output_write(ff_ctx *ctx, const char *folder, const ff_prediction *predictions, int64_t count,
                          const ff_output_options *options);

/** result.h5: the prediction's own arrays and, below `raw/`, those of `raw` (may be NULL). */
ff_status ff_result_h5_write(ff_ctx *ctx, const ff_prediction *prediction, const ff_array_set *raw, const char *path);

#ifdef __cplusplus
}
#endif
#endif
