/* stockholm.h - alignments in Stockholm format (jackhmmer, hmmsearch, Pfam), and AlphaFold's tools on their text.
 *
 * Rows may come in blocks; the parts of one name are joined. Everything is told by AlphaFold's rules: `#` lines and
 * `//` are skipped, columns where the first row has `-` are insertions. Lines after `//` are refused: they begin a
 * second alignment. */
#ifndef FF_DATA_STOCKHOLM_H
#define FF_DATA_STOCKHOLM_H

#include "data/msa.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read an alignment (plain or gzip). Columns where the first row has `-` are left out; what another row has there
 * counts as deletions of its next column. With `max_seq` only the first names are kept (AlphaFold: 10,000 for
 * uniref90, 501 for mgnify), and the others take no memory.
 *
 * @param msa      out  destroy it with ff_msa_destroy; empty after a failure
 * @param options  NULL = all false; rows of unequal lengths are refused in any case
 * @return FF_ERR_FORMAT with file and line: a line that is not `name sequence`, rows of unequal lengths, a second
 *         alignment.
 */
ff_status ff_stockholm_read(ff_ctx *ctx, ff_msa *msa, const char *path, const ff_msa_options *options);
/** The same over an open file, which it does not close. */
ff_status ff_stockholm_read_text(ff_ctx *ctx, ff_msa *msa, ff_text_file *text, const ff_msa_options *options);

/* ---- text to text, as AlphaFold does it before a template search. `name` stands for the file in messages; results
 * go to the end of `out` ---- */

/**
 * To A3M: `>name description`, the description from `#=GS name DE`; dots are removed.
 * @param max_seq          0 = all
 * @param keep_query_gaps  do not turn the columns in which the first row has `-` into lower-case insertions
 */
ff_status ff_stockholm_to_a3m(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text, size_t size,
                              int64_t max_seq, bool keep_query_gaps);
/** Keep the first row of each sequence, insertions left out of the comparison. */
ff_status ff_stockholm_remove_duplicates(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text,
                                         size_t size);
/** Remove the columns in which every row has `-`, block by block; FF_ERR_FORMAT: a block without `#=GC RF` at its
 * end. */
ff_status ff_stockholm_remove_empty_columns(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text,
                                            size_t size);
/** Keep the rows of the first `max_seq` names. */
ff_status ff_stockholm_truncate(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text, size_t size,
                                int64_t max_seq);

#ifdef __cplusplus
}
#endif
#endif
