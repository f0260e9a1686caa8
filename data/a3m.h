/* a3m.h - alignments in A3M: FASTA whose lower-case letters are insertions with respect to the first row. */
#ifndef FF_DATA_A3M_H
#define FF_DATA_A3M_H

#include "data/msa.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read an alignment (plain or gzip). NUL bytes are skipped, and so are `#` lines before the first row (ColabFold puts
 * the length of the query there). Insertions at the end of a row are dropped, as AlphaFold does.
 *
 * @param msa      out  destroy it with ff_msa_destroy; empty after a failure
 * @param options  NULL = all false
 * @return FF_ERR_FORMAT with file and line: no `>` before the first row, an alignment of a complex, rows of unequal
 *         lengths (unless allowed). Letters without a code are found by ff_msa_check. Errors of ff_text_next.
 */
ff_status ff_a3m_read(ff_ctx *ctx, ff_msa *msa, const char *path, const ff_msa_options *options);
/** The same over an open file, which it does not close. */
ff_status ff_a3m_read_text(ff_ctx *ctx, ff_msa *msa, ff_text_file *text, const ff_msa_options *options);

/** Write an alignment as A3M: deletions become runs of `x`, as their letters are not kept. FF_ERR_IO. */
ff_status ff_a3m_write(ff_ctx *ctx, const ff_msa *msa, const char *path);

#ifdef __cplusplus
}
#endif
#endif
