/* search.h - the searches of AlphaFold's data pipeline and of a local ColabFold: alignments by jackhmmer, hhblits and
 * MMseqs2, template hits by hhsearch or hmmsearch, with the flags those pipelines use.
 *
 *     ff_search *search;
 *     FF_TRY(ff_search_open(ctx, &search, &options));          // every database file and program is checked
 *     status = ff_search_run(ctx, search, queries, n, use_results, arg);
 *     ff_search_queries_clear(queries, n);
 *     ff_search_close(search);
 *
 * Searches run side by side within a number of CPUs. What a tool wrote is kept in the cache folder under a hash of
 * the query, the database, the program and its flags, so a rerun starts where the last one stopped. One search that
 * fails leaves all others usable. */
#ifndef FF_DATA_SEARCH_H
#define FF_DATA_SEARCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_DB_UNIREF90,
    FF_DB_MGNIFY,
    FF_DB_BFD,
    FF_DB_UNIREF30,
    FF_DB_PDB70,
    FF_DB_PDB_SEQRES,
    FF_DB_MMSEQS,
    FF_NUM_DBS
} ff_search_db;

typedef enum {
    FF_TOOL_JACKHMMER,
    FF_TOOL_HHBLITS,
    FF_TOOL_HHSEARCH,
    FF_TOOL_HMMBUILD,
    FF_TOOL_HMMSEARCH,
    FF_TOOL_MMSEQS,
    FF_TOOL_KALIGN,
    FF_NUM_TOOLS
} ff_search_tool;

/* In the order in which their rows become features. */
typedef enum {
    FF_SEARCH_UNIREF90,   /* jackhmmer: Stockholm */
    FF_SEARCH_BFD,        /* hhblits against BFD, UniRef30 or both: A3M */
    FF_SEARCH_MGNIFY,     /* jackhmmer: Stockholm */
    FF_SEARCH_MMSEQS,     /* one call for all queries: A3M */
    FF_SEARCH_PDB70,      /* hhsearch: .hhr */
    FF_SEARCH_PDB_SEQRES, /* hmmbuild and hmmsearch: Stockholm; empty when nothing was found */
    FF_NUM_SEARCHES
} ff_search_kind;

/* Rows AlphaFold reads of these alignments, the query included. */
enum { FF_UNIREF90_MAX_SEQ = 10000, FF_MGNIFY_MAX_SEQ = 501 };

typedef struct {
    const char *databases[FF_NUM_DBS];   /* NULL = not searched; a path or prefix as the tool takes it */
    const char *programs[FF_NUM_TOOLS];  /* NULL = environment FASTFOLD_JACKHMMER and so on, then PATH */
    const char *cache;                   /* folder; NULL = a temporary one, removed by ff_search_close */
    int num_cpus;                        /* budget; 0 = all this process may use */
    double time_limit_s;                 /* of one command; 0 = none */
    const volatile sig_atomic_t *cancel; /* set by a signal handler to stop; NULL = none */
} ff_search_options;

typedef struct {
    bool wanted; /* a database for it was given */
    bool from_cache;
    char *path;    /* the tool's output; NULL when it failed */
    char *message; /* why it failed */
    double wall_s;
} ff_search_output;

typedef struct {
    const char *name;     /* for messages */
    const char *sequence; /* upper-case letters */
    const char
        *template_msa; /* A3M or Stockholm file to search templates with when there is no UniRef90 search; NULL =
                                 the query alone */
    ff_search_output outputs[FF_NUM_SEARCHES]; /* out */
    int num_open;                              /* ff_search_run's: searches not yet ended */
} ff_search_query;

typedef struct ff_search ff_search;

/** Name of a database ("uniref90", its option is --uniref90), a tool ("jackhmmer", the option of MMseqs2 is
 * "mmseqs-program") or a search ("mgnify"). */
const char *ff_search_db_name(ff_search_db db);
const char *ff_search_tool_name(ff_search_tool tool);
const char *ff_search_tool_option(ff_search_tool tool);
const char *ff_search_kind_name(ff_search_kind kind);

/**
 * Check all databases given, find the programs they need, and make the cache folder.
 * @return FF_ERR_IO naming the first file or program that is missing and its option; FF_ERR_ARG: both template
 * databases.
 */
ff_status ff_search_open(ff_ctx *ctx, ff_search **search, const ff_search_options *options);
/** Removes everything temporary; NULL is fine. */
void ff_search_close(ff_search *search);
/** Whether any database was given. */
bool ff_search_wanted(const ff_search_options *options);

/** Called when the searches of a query have ended, well or not, in the order in which they end. A failure ends the
 * run. */
typedef ff_status (*ff_search_done_fn)(ff_ctx *ctx, void *arg, int64_t query);

/**
 * Search for all queries. Equal sequences are searched once.
 * @return FF_OK also when searches failed (see outputs); FF_ERR_IO after a cancel; what `done` returned.
 */
ff_status ff_search_run(ff_ctx *ctx, ff_search *search, ff_search_query *queries, int64_t num_queries,
                        ff_search_done_fn done, void *arg);
/** Free the outputs. */
void ff_search_queries_clear(ff_search_query *queries, int64_t num_queries);

/** Path of a program by option, environment or PATH, as ff_find_program. */
ff_status ff_search_find_tool(ff_ctx *ctx, char **path, ff_search_tool tool, const ff_search_options *options);

#ifdef __cplusplus
}
#endif
#endif
