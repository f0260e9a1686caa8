/* targets.h - what is to be predicted, and the folder each result goes to.
 *
 *     ff_targets targets = {0};
 *     for each argument: FF_TRY_DONE(ff_targets_add_path(ctx, &targets, argument));
 *     FF_TRY_DONE(ff_targets_choose_folders(ctx, &targets));      // safe, different names
 *     ff_targets_sort(&targets);                                  // the largest last
 *     FF_TRY_DONE(ff_targets_write_names(ctx, &targets, output_dir));
 *     for each target: infer/target_folder.h
 *
 * A record that cannot be predicted stays in the list with its `problem`, so that the others are not held up by it. */
#ifndef FF_INFER_TARGETS_H
#define FF_INFER_TARGETS_H

#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char *name;      /* the header's text, any bytes but NUL; "" where it was empty */
    char *sequence;  /* upper-case letters; "" with a problem */
    int64_t num_res; /* 0 with a problem */
    int64_t place;   /* in the order of the input, from 0 */
    char *source;    /* "file.fasta:3", for messages and the map of names */
    char *note;      /* what was changed in the sequence; "" */
    char *problem;   /* NULL, or one line that says why it cannot be predicted */
    char *msa_path;  /* the A3M file whose first row it is; NULL for FASTA */
    char *folder;    /* its folder's name inside the output folder; NULL until ff_targets_choose_folders */
} ff_target;

typedef struct {
    ff_target *items;
    int64_t count, capacity;
} ff_targets;

void ff_targets_destroy(ff_targets *targets); /* leaves it empty */

/**
 * Add all targets of a path: a FASTA file (each record is one), an A3M file (`.a3m`, `.a3m.gz`: the first row), a
 * folder (its files `.fasta .fa .faa .fas .a3m`, gzip or not, in order of name; not those of folders inside), `-`
 * for FASTA on standard input.
 *
 * @return FF_ERR_IO: cannot be read; FF_ERR_FORMAT: no record in it, text before the first `>`; FF_ERR_ARG: a folder
 *         without such files. Inside a folder a file like that becomes a target with a problem. Notes are warnings
 *         in the log.
 */
ff_status ff_targets_add_path(ff_ctx *ctx, ff_targets *targets, const char *path);

/** Add one target. Copies everything. `msa_path`, `note` and `problem` may be NULL. */
ff_status ff_targets_add(ff_ctx *ctx, ff_targets *targets, const char *name, const char *sequence, const char *source,
                         const char *note, const char *msa_path, const char *problem);

/**
 * Give every target a folder name: ff_fasta_file_name of its name, with `_2`, `_3`, ... where another target has it
 * already (letters' case does not count: some file systems ignore it). The same list gives the same names.
 */
ff_status ff_targets_choose_folders(ff_ctx *ctx, ff_targets *targets);

/** Shortest first, so that what needs most time and memory fails last; targets of one length stay in order. */
void ff_targets_sort(ff_targets *targets);

/**
 * Write the map of names, `output_dir/names.tsv`: folder, residues, source, name, one line each, blanks instead of
 * control characters. Lines of folders that are not in the list are kept. Makes the output folder.
 */
ff_status ff_targets_write_names(ff_ctx *ctx, const ff_targets *targets, const char *output_dir);

#ifdef __cplusplus
}
#endif
#endif
