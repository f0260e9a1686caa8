/* msa.h - an alignment in memory, as the A3M and Stockholm readers leave it.
 *
 * Columns are those of the query, row 0; what other rows have between them is counted as deletions (insertions with
 * respect to the query). Codes are HHblits': A C D E F G H I K L M N P Q R S T V W Y = 0..19, X = 20, gap = 21; B, Z, U
 * are D, E, C; J and O are X. */
#ifndef FF_DATA_MSA_H
#define FF_DATA_MSA_H

#include "io/text_buffer.h"
#include "io/text_file.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_MSA_GAP = 21, FF_MSA_NO_CODE = -1 };

typedef struct {
    int64_t at; /* position in rows */
    int32_t count;
} ff_msa_deletion;

typedef struct {
    char *path; /* where it was read, for messages */
    int64_t num_seq;
    int64_t num_res;    /* columns of row 0; 0 when there are no rows */
    bool aligned;       /* every row has num_res columns */
    char *rows;         /* letters; [num_seq, num_res] when aligned, else row s is [offsets[s], offsets[s + 1]) */
    int8_t *codes;      /* likewise; FF_MSA_NO_CODE where the letter has none */
    int64_t *offsets;   /* [num_seq + 1] */
    int64_t *lines;     /* [num_seq] where the row began in the file */
    ff_text_list descriptions; /* [num_seq] A3M: all after `>`; Stockholm: the name */
    int64_t first_no_code;     /* position in rows of the first letter without a code; -1 = none */

    /* few places have deletions (residues left out just before a column), so they are listed: ff_msa_put_deletions */
    ff_msa_deletion *deletion_list; /* by position */
    int64_t *deletion_offsets;      /* [num_seq + 1] where each row's begin in the list */
} ff_msa;

typedef struct {
    int64_t max_seq;    /* rows to read, the query included; 0 = all */
    bool lenient; /* take what AlphaFold cannot: `.` and `~` are gaps (A3M: left out), lower case in Stockholm is a
                           residue, blanks inside an A3M row are left out */
    bool allow_unequal; /* do not refuse A3M rows of unequal lengths; see `aligned` */
} ff_msa_options;

void ff_msa_destroy(ff_msa *msa); /* empty afterwards, as {0} */

/**
 * Whether it can become features: there are rows, all of `num_res` columns (0 = as many as row 0 has), every letter
 * has a code. FF_ERR_FORMAT with file and line, the row's name, and the letter or both lengths.
 */
ff_status ff_msa_check(ff_ctx *ctx, const ff_msa *msa, int64_t num_res);

/** Deletions before each column of row s; `out` has as many places as the row. */
void ff_msa_put_deletions(const ff_msa *msa, int64_t s, int32_t *out);

/** HHblits code of a letter, or FF_MSA_NO_CODE. */
int ff_msa_code(char letter);

/**
 * The species of a row: from `db|ACCESSION|NAME_SPECIES` with db `sp` or `tr`, in the first word of the description
 * up to a `/`; else empty.
 * @param species  out  at most 5 letters or digits
 * @return `species`
 */
const char *ff_msa_species(char species[8], const char *description);

/* ---- for readers ---- */

/** An alignment that grows row by row. Start with {0}. */
typedef struct {
    ff_msa msa;
    int64_t size, capacity; /* of rows and codes */
    int64_t code_capacity, offset_capacity, line_capacity, deletion_offset_capacity;
    int64_t num_deletions, deletion_capacity;
    int64_t pending; /* deletions before the next column */
} ff_msa_builder;

/** Begin a row: its description and the line it stands on. */
ff_status ff_msa_builder_begin(ff_ctx *ctx, ff_msa_builder *builder, const char *description, int64_t length,
                               int64_t line);
/** Room for `length` more columns of the row. */
ff_status ff_msa_builder_reserve(ff_ctx *ctx, ff_msa_builder *builder, int64_t length);
/** Note `pending` deletions before the column at `at`, and forget them. */
ff_status ff_msa_builder_flush(ff_ctx *ctx, ff_msa_builder *builder, int64_t at);
/** Move what was built into `msa`, whose memory is then its own; the builder is empty afterwards, also on failure. */
ff_status ff_msa_builder_finish(ff_ctx *ctx, ff_msa_builder *builder, const char *path, ff_msa *msa);
void ff_msa_builder_destroy(ff_msa_builder *builder);

/** [256] code by character; letters of lower case are FF_MSA_NO_CODE. */
extern const int8_t ff_msa_codes[256];

#ifdef __cplusplus
}
#endif
#endif
