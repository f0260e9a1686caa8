/* fasta.h - FASTA files, and what is taken as the sequence of a query.
 *
 * Reading is AlphaFold's: lines are trimmed at both ends and blank ones skipped; the whole text after `>` is the
 * description; the lines below it are joined as they are. Files stream: one record is in memory at a time. */
#ifndef FF_DATA_FASTA_H
#define FF_DATA_FASTA_H

#include "core/context.h"
#include "io/text_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_fasta_reader ff_fasta_reader;

typedef struct {
    const char *path;        /* lent by the reader, as are the texts: good until the next call */
    int64_t line;            /* of its `>` */
    const char *description; /* without `>`; ends with '\0', and a NUL of the file is written `\0` (two characters) */
    const char *sequence;    /* as it stands in the file, NUL likewise; may be empty */
    int64_t length;          /* of the sequence, bytes */
} ff_fasta_record;

/** Errors as ff_text_open. */
ff_status ff_fasta_open(ff_ctx *ctx, ff_fasta_reader **reader, const char *path);
/** The same over a text file that is open already, which the reader then owns, also after a failure. */
ff_status ff_fasta_open_text(ff_ctx *ctx, ff_fasta_reader **reader, ff_text_file *text);
void ff_fasta_close(ff_fasta_reader *reader); /* NULL is fine */
/**
 * The next record.
 * @param more  out  false: the file has ended and `record` is empty
 * @return FF_ERR_FORMAT: a sequence before the first `>`; errors of ff_text_next.
 */
ff_status ff_fasta_next(ff_ctx *ctx, ff_fasta_reader *reader, ff_fasta_record *record, bool *more);

/* ---- query sequences ---- */

typedef struct {
    char *sequence; /* upper-case letters only; the caller frees it (ff_query_destroy) */
    int64_t length;
    char note[256]; /* what was changed or deserves a word; empty when nothing did */
} ff_query;

/**
 * The sequence of a record as the model can take it.
 *
 * Accepted with a note that names file and line: lower case, blanks inside, one `*` at the end; B, Z, U, O and J, which
 * become X (AlphaFold: as letters they stay in the text, as aatype they are 20 as well). Refused: no residues, `:`
 * (several chains), gaps, digits, `*` elsewhere, anything else that is no letter.
 *
 * @param alphafold_compatible  refuse what AlphaFold refuses (every character that is not an upper-case letter) and
 *                              leave B Z U O J as they are
 * @return FF_ERR_FORMAT with file, line, the offending character and its position.
 */
ff_status ff_query_from_record(ff_ctx *ctx, ff_query *query, const ff_fasta_record *record, bool alphafold_compatible);
void ff_query_destroy(ff_query *query);

/** aatype of a letter: 0..19, or 20 for every other upper-case letter; -1 for anything else. */
int ff_aatype_of_letter(char letter);

enum { FF_FILE_NAME_BYTES = 96 };
/**
 * A file name for a description: its first word, with everything but letters, digits, `_`, `-`, `+` and inner dots made
 * `_`, at most 80 bytes; "unnamed" when nothing is left. Cannot leave its folder, be hidden, or look like an option.
 */
const char *ff_fasta_file_name(char name[FF_FILE_NAME_BYTES], const char *description);

#ifdef __cplusplus
}
#endif
#endif
