/* hmmsearch.h - template hits of hmmsearch, and the table of jackhmmer (--tblout). */
#ifndef FF_DATA_HMMSEARCH_H
#define FF_DATA_HMMSEARCH_H

#include "data/hits.h"
#include "io/name_table.h"
#include "io/text_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read hits: Stockholm as `hmmsearch -A` writes it, or the A3M AlphaFold makes of it (all columns kept), plain or gzip.
 * Names are `pdbid_CHAIN/first-last` with a description `... mol:protein length:N ...`, as a pdb_seqres database gives
 * them; entries that are no proteins are left out silently, and others with a warning.
 *
 * @param hits    out  destroy it with ff_template_hits_destroy; empty after a failure. name is `pdbid_CHAIN`; index
 *                     counts the entries of the file; indices_query numbers the whole query
 * @param query   the sequence that was searched
 * @param strict  refuse a protein whose name is not of that form, as AlphaFold does
 * @return FF_ERR_FORMAT with file and line. A file without rows has no hits.
 */
ff_status ff_hmmsearch_read(ff_ctx *ctx, ff_template_hits *hits, const char *path, const char *query, bool strict);
/** The same over text in memory; `name` stands for the file in messages. */
ff_status ff_hmmsearch_parse(ff_ctx *ctx, ff_template_hits *hits, const char *name, const char *text, size_t size,
                             const char *query, bool strict);

/** Targets of a table, with their E-values (full sequence); index 0 is "query" with 0. A repeated name keeps the last
 * one. */
typedef struct {
    ff_name_table names;
    float *e_values; /* [names.names.count] */
    int64_t capacity;
} ff_tblout;

/** Read a table. FF_ERR_FORMAT with file and line: fewer than five columns, or no number in the fifth. */
ff_status ff_tblout_read(ff_ctx *ctx, ff_tblout *table, const char *path);
ff_status ff_tblout_read_text(ff_ctx *ctx, ff_tblout *table, ff_text_file *text);
void ff_tblout_destroy(ff_tblout *table);

#ifdef __cplusplus
}
#endif
#endif
