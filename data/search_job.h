/* search_job.h - inside data/search*.c: one search under way, and the commands of each tool. */
#ifndef FF_DATA_SEARCH_JOB_H
#define FF_DATA_SEARCH_JOB_H

#include "data/search.h"
#include "data/search_database.h"
#include "io/tasks.h"

struct ff_search {
    ff_search_options options;
    ff_database databases[FF_NUM_DBS]; /* path NULL = not given */
    char *programs[FF_NUM_TOOLS];      /* NULL = not needed */
    char program_identities[FF_NUM_TOOLS][FF_SHA256_HEX_BYTES];
    int num_cpus;
    char *cache, *scratch; /* folders; scratch is inside the cache, and ours alone */
    bool own_cache;
    char *seqres; /* the FASTA file hmmsearch gets: the database, or a clean copy in scratch */
};

/* One task: a search of one query, or MMseqs2 for several. */
typedef struct {
    ff_search *search;
    ff_search_kind kind;
    ff_search_query *queries;
    int64_t query;             /* index; MMseqs2: the first of them */
    int64_t *batch, num_batch; /* MMseqs2: indices of all of them */
    char *name;                /* of the task */
    char *folder;              /* scratch of this task; NULL before its first command */
    char *entry;               /* path of the cache entry that will be made; NULL while not known */
    int phase;                 /* MMseqs2: commands are left out as they are not needed */
    bool from_cache;
    ff_search_done_fn done;
    void *done_arg;
    const int64_t *next_twin; /* [queries] the next one with the same work, which gets the same result; -1 = none */
} ff_search_job;

/** The next command of a job: ff_task.next of every search. */
ff_status ff_search_next(ff_ctx *ctx, ff_task *task, ff_subprocess *command, bool *more);

/* ---- search_cache.c ---- */

/** Begin the key of a search: format, kind, database, program and flags. */
void ff_search_key_begin(ff_sha256 *hash, const ff_search *search, ff_search_kind kind);
/** Path of the entry for a key in the cache; `hash` is ended. The caller frees it. */
ff_status ff_search_entry_path(ff_ctx *ctx, const ff_search *search, ff_search_kind kind, ff_sha256 *hash,
                               char **path);
/** Path of the entry for a search that needs the sequence only. */
ff_status ff_search_query_entry(ff_ctx *ctx, const ff_search *search, ff_search_kind kind, const char *sequence,
                                char **path);
/** Whether an entry is there and looks whole (else a warning, and it is removed). */
bool ff_search_entry_is_good(ff_ctx *ctx, ff_search_kind kind, const char *path);
/** Flush `made` to the disk and move it into the cache. FF_ERR_FORMAT when it is not what that tool writes. */
ff_status ff_search_entry_install(ff_ctx *ctx, ff_search_kind kind, const char *made, const char *entry);
/** Hash of the content of a program's file. */
ff_status ff_search_program_identity(ff_ctx *ctx, const char *path, char hex[FF_SHA256_HEX_BYTES]);
/** The fixed flags of a search, in words; hmmbuild's and MMseqs2's all joined. */
const char *ff_search_flags(ff_search_kind kind);

/* ---- search_templates.c ---- */

/**
 * What a template search gets, made of an alignment as AlphaFold does: the first 10,000 rows, duplicates and all-gap
 * columns removed, as A3M for hhsearch, Stockholm for hmmsearch. `path` NULL: the query alone.
 * @param text  out  to be destroyed by the caller
 */
struct ff_template_input {
    char *text;
    size_t size;
    bool has_rf; /* Stockholm: a `#=GC RF` line says which columns are the query's */
};
ff_status ff_search_template_input(ff_ctx *ctx, struct ff_template_input *input, const char *path,
                                   const char *sequence, bool stockholm);

#endif
