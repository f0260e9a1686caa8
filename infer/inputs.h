/* inputs.h - where the numbers of a target come from: alignments and template hits of its own, a feature file, or nothing but
 * its sequence. */
#ifndef FF_INFER_INPUTS_H
#define FF_INFER_INPUTS_H

#include "data/templates.h"
#include "infer/targets.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *const *msas; /* [num_msas] files given by --msa: of the only target */
    int64_t num_msas;
    const char *msa_dir;     /* DIR/NAME/... or DIR/NAME.a3m ...; NULL = none */
    const char *hhr;         /* template hits of the only target; NULL = those of msa_dir */
    ff_template_source *templates; /* NULL = no templates */
    bool alphafold_compatible;
} ff_input_options;

typedef struct {
    int64_t num_seq, num_templates; /* rows of the alignment, templates found */
    bool single_sequence;           /* there is no alignment */
} ff_input_counts;

/**
 * Raw features of a target (names and shapes of features.pkl).
 * @param hash  gets everything the features depend on: texts, and the bytes of the files read
 */
ff_status ff_input_features(ff_ctx *ctx, ff_array_set *features, const ff_target *target, const ff_input_options *options,
                            ff_input_counts *counts);

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
