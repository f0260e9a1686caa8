/* search_database.h - sequence databases as the search tools want them: which files make one up, whether all are
 * there (before anything starts), and what tells one version from another. */
#ifndef FF_DATA_SEARCH_DATABASE_H
#define FF_DATA_SEARCH_DATABASE_H

#include "core/context.h"
#include "core/sha256.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_DATABASE_FASTA,   /* one FASTA file: jackhmmer, hmmsearch */
    FF_DATABASE_HHSUITE, /* PREFIX_{a3m,hhm,cs219}.ff{data,index}: hhblits, hhsearch */
    FF_DATABASE_MMSEQS   /* PREFIX, .index, .dbtype, _h...; or a FASTA file, which a search makes a database of */
} ff_database_kind;

typedef struct {
    ff_database_kind kind;
    const char *option; /* "--pdb70", for messages */
    char *path;         /* as a tool takes it: the file or the prefix */
    bool is_fasta;      /* MMseqs2: `path` is a FASTA file */
    bool has_index;     /* MMseqs2: PREFIX.idx was made (mmseqs createindex) */
    bool is_clustered;  /* MMseqs2: PREFIX_seq and PREFIX_aln are there (ColabFold's expandable profiles) */
    char identity[FF_SHA256_HEX_BYTES];
} ff_database;

/**
 * Check that every file of a database is there, readable and not empty, and take its identity: names, sizes, times
 * of the last change and the first and last 64 KiB of each file. A database that moved keeps it.
 *
 * `path` may also be the folder of a database that is alone in it, or one of its files.
 *
 * @param option  the option that gave it; must outlive the database
 * @return FF_ERR_IO naming the option and the first missing file (and how many more); FF_ERR_FORMAT: a FASTA file
 * that is
 *         none, or is packed.
 */
ff_status ff_database_open(ff_ctx *ctx, ff_database *database, ff_database_kind kind, const char *option,
                           const char *path);
void ff_database_close(ff_database *database); /* {0} is fine */

/**
 * A copy of a FASTA database that HMMER can read, should it need one: HMMER stops at characters that are no residues
 * (a digit in pdb_seqres), which become X.
 *
 * @param clean      where the copy goes
 * @param num_bad    out  characters replaced; 0: the file is fine as it is, and no copy was written
 * @param first_bad  out  line of the first one
 */
ff_status ff_database_clean_fasta(ff_ctx *ctx, const char *path, const char *clean, int64_t *num_bad,
                                  int64_t *first_bad);

#ifdef __cplusplus
}
#endif
#endif
