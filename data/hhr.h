/* hhr.h - the output of hhsearch and hhblits (HH-suite 3). */
#ifndef FF_DATA_HHR_H
#define FF_DATA_HHR_H

#include "data/hits.h"
#include "io/text_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read the alignments of an .hhr file; a file without hits is fine.
 *
 * @param hits  out  destroy it with ff_template_hits_destroy; empty after a failure
 * @return FF_ERR_FORMAT with file and line: no .hhr file; a hit without a summary line, or without `Template_Neff` in
 *         it (HH-suite 1 and 2, which AlphaFold refuses as well); a row that cannot be read; residue numbers or
 *         lengths of the rows of a block that do not agree. Errors of ff_text_next.
 */
ff_status ff_hhr_read(ff_ctx *ctx, ff_template_hits *hits, const char *path);
/** The same over an open file, which it does not close. */
ff_status ff_hhr_read_text(ff_ctx *ctx, ff_template_hits *hits, ff_text_file *text);

#ifdef __cplusplus
}
#endif
#endif
