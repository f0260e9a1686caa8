/* infer_options.h - the command line of fastfold-infer. */
#ifndef FF_INFER_INFER_OPTIONS_H
#define FF_INFER_INFER_OPTIONS_H

#include "data/make_features.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the options of `fastfold-infer --help` say, member by member under their names. */
typedef struct {
    ff_option_list weights, presets;
    ff_feature_options make; /* alignments, templates, searches */
    const char *features, *batch, *output_dir;
    int64_t num_recycle, num_ensemble, num_seq, num_extra, max_templates, seed, num_seeds, threads, max_memory, blocks;
    double recycle_tolerance;
    int dtype, backend, isa, b_column;
    int64_t placeholder;
    bool random_weights, plan, save_raw, overwrite, json_log, mmcif, report;
} ff_infer_options;

extern const ff_program ff_infer_program;

/**
 * Read the command line.
 * @return FF_ERR_ARG: one line that says what is wrong; options that other programs have and this version has not are told
 *         from mistyped ones.
 */
ff_status ff_infer_options_read(ff_ctx *ctx, ff_infer_options *options, int argc, char **argv, ff_arguments *args);

#ifdef __cplusplus
}
#endif
#endif
