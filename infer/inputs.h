/* inputs.h - inputs that stand in place of a sequence: a feature file, a batch file. (Features of sequences:
 * data/make_features.h.) */
#ifndef FF_INFER_INPUTS_H
#define FF_INFER_INPUTS_H

#include "infer/targets.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the reader of a single-sequence prediction must know, in one line. */
const char *ff_input_single_sequence_note(void);

/** A target and its raw features from a features.h5 (its sequence and domain_name name the target). */
ff_status ff_input_read_features(ff_ctx *ctx, ff_array_set *features, ff_targets *targets, const char *path);

/**
 * A batch file, FILE.h5 or FILE.h5:/GROUP: arrays under the names the model reads, leading axis = recycling steps; below
 * `input/` of the group when that is there. One target is added, named after the file and group.
 * @param placeholder  in: as the command line has it; out: as the group's attribute placeholder_for_undefined has it
 */
ff_status ff_input_read_batch(ff_ctx *ctx, ff_array_set *batch, ff_targets *targets, const char *path, bool *placeholder);

#ifdef __cplusplus
}
#endif
#endif
