/* make_features.h - raw features of queries by what the user gave: alignment files, folders of them, template hits, or databases
 * to search in. What `fastfold-data features` and `fastfold-infer` share, their options included.
 *
 *     ff_feature_maker *maker = NULL;
 *     FF_TRY_DONE(ff_feature_maker_create(ctx, &maker, &options, &told_to_end));  // databases and programs are checked
 *     FF_TRY_DONE(ff_feature_maker_set_queries(ctx, maker, queries, n));
 *     FF_TRY_DONE(ff_feature_maker_search(ctx, maker, NULL, NULL));               // side by side, all queries
 *     for each query: FF_TRY_DONE(ff_feature_maker_make(ctx, maker, k, &made)); ...; ff_made_features_destroy(&made);
 *     ff_feature_maker_destroy(maker); */
#ifndef FF_DATA_MAKE_FEATURES_H
#define FF_DATA_MAKE_FEATURES_H

#include <signal.h>

#include "core/options.h"
#include "data/query_features.h"
#include "data/search.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_option_list msas;
    const char *msa_dir, *hhr, *template_dir, *obsolete, *max_template_date;
    bool allow_undated, alphafold_compatible;
    const char *databases[FF_NUM_DBS], *programs[FF_NUM_TOOLS], *databases_file;
    int64_t cpus;
    double time_limit;
    const char *cache;
    bool allow_failed_searches;
    /* below: no options of the tables */
    int64_t max_templates;
    bool quiet_alone; /* the caller says itself that a query has no alignment */
} ff_feature_options;

/* Rows of an option table (core/options.h) for the ff_feature_options `member` of the struct `type`. The first ends with
 * group "Templates". */
#define FF_FEATURE_INPUT_OPTIONS(type, member) \
    {"msa", FF_OPTION_LIST, offsetof(type, member.msas), NULL, NULL, "Alignments", \
     "A3M or Stockholm file, plain or gzip; may be given again; rows come in this order"}, \
    {"msa-dir", FF_OPTION_STRING, offsetof(type, member.msa_dir), NULL, NULL, "Alignments", \
     "folder with NAME/*.a3m, *.sto, *.hhr or NAME.a3m ... for each record"}, \
    {"hhr", FF_OPTION_STRING, offsetof(type, member.hhr), NULL, NULL, "Templates", \
     "template hits: .hhr of hhsearch, or Stockholm of hmmsearch"}, \
    {"template-dir", FF_OPTION_STRING, offsetof(type, member.template_dir), NULL, NULL, "Templates", \
     "folder of mmCIF or PDB files, named by PDB id, plain or .gz, flat or divided"}, \
    {"obsolete", FF_OPTION_STRING, offsetof(type, member.obsolete), NULL, NULL, "Templates", "the PDB's obsolete.dat"}, \
    {"max-template-date", FF_OPTION_STRING, offsetof(type, member.max_template_date), NULL, NULL, "Templates", \
     "latest release date of a template, YYYY-MM-DD (default: any)"}, \
    {"allow-undated", FF_OPTION_FLAG, offsetof(type, member.allow_undated), NULL, NULL, "Templates", \
     "files without a release date pass the cut-off"}

#define FF_FEATURE_DB(type, member, db)     FF_OPTION_STRING, offsetof(type, member.databases[db]), NULL, NULL, "Databases"
#define FF_FEATURE_TOOL(type, member, tool) FF_OPTION_STRING, offsetof(type, member.programs[tool]), NULL, NULL, "Programs"
#define FF_FEATURE_SEARCH_OPTIONS(type, member) \
    {"uniref90", FF_FEATURE_DB(type, member, FF_DB_UNIREF90), "FASTA file, for jackhmmer"}, \
    {"mgnify", FF_FEATURE_DB(type, member, FF_DB_MGNIFY), "FASTA file, for jackhmmer"}, \
    {"bfd", FF_FEATURE_DB(type, member, FF_DB_BFD), "prefix of an HH-suite database, for hhblits"}, \
    {"uniref30", FF_FEATURE_DB(type, member, FF_DB_UNIREF30), "prefix of an HH-suite database, for hhblits"}, \
    {"mmseqs", FF_FEATURE_DB(type, member, FF_DB_MMSEQS), \
     "MMseqs2 database or FASTA file, for a search as ColabFold does it"}, \
    {"pdb70", FF_FEATURE_DB(type, member, FF_DB_PDB70), "prefix of an HH-suite database of templates, for hhsearch"}, \
    {"pdb-seqres", FF_FEATURE_DB(type, member, FF_DB_PDB_SEQRES), \
     "pdb_seqres.txt, for hmmsearch: templates without hhsearch"}, \
    {"databases", FF_OPTION_STRING, offsetof(type, member.databases_file), NULL, NULL, "Databases", \
     "file of lines `uniref90 = PATH`, for all options of this group and the next; options given win"}, \
    {"jackhmmer", FF_FEATURE_TOOL(type, member, FF_TOOL_JACKHMMER), \
     "path (default: environment FASTFOLD_JACKHMMER, then PATH; the others likewise)"}, \
    {"hhblits", FF_FEATURE_TOOL(type, member, FF_TOOL_HHBLITS), "path"}, \
    {"hhsearch", FF_FEATURE_TOOL(type, member, FF_TOOL_HHSEARCH), "path"}, \
    {"hmmbuild", FF_FEATURE_TOOL(type, member, FF_TOOL_HMMBUILD), "path"}, \
    {"hmmsearch", FF_FEATURE_TOOL(type, member, FF_TOOL_HMMSEARCH), "path"}, \
    {"mmseqs-program", FF_FEATURE_TOOL(type, member, FF_TOOL_MMSEQS), "path (environment FASTFOLD_MMSEQS)"}, \
    {"kalign", FF_FEATURE_TOOL(type, member, FF_TOOL_KALIGN), "path"}, \
    {"cpus", FF_OPTION_INT64, offsetof(type, member.cpus), "0", "0..4096", "Searches", \
     "CPUs for all searches together; 0 = all there are"}, \
    {"time-limit", FF_OPTION_DOUBLE, offsetof(type, member.time_limit), "86400", "0..", "Searches", \
     "seconds after which one program is ended; 0 = never"}, \
    {"cache", FF_OPTION_STRING, offsetof(type, member.cache), NULL, NULL, "Searches", \
     "folder where search outputs are kept and found again"}, \
    {"allow-failed-searches", FF_OPTION_FLAG, offsetof(type, member.allow_failed_searches), NULL, NULL, "Searches", \
     "make features of the searches that worked"}

/* A sequence that features are wanted of. The texts must outlive the maker. */
typedef struct {
    const char *name;        /* harmless (ff_fasta_file_name): of its files in --msa-dir, and in messages */
    const char *description; /* of its FASTA record */
    const char *sequence;    /* upper-case letters */
    const char *source;      /* "file.fasta:3", for messages */
    const char *msa;         /* an alignment of its own, before all others; NULL = none */
} ff_feature_query;

typedef struct ff_feature_maker ff_feature_maker;

/**
 * @param options  must outlive the maker
 * @param cancel   set by a signal handler: searches and readers of structures end; NULL = none
 * @return FF_ERR_ARG: options that do not go together; FF_ERR_IO: a database, program or folder is not there
 */
ff_status ff_feature_maker_create(ff_ctx *ctx, ff_feature_maker **maker, const ff_feature_options *options,
                                  const volatile sig_atomic_t *cancel);
void ff_feature_maker_destroy(ff_feature_maker *maker); /* NULL is fine */
/** Whether a database to search in was given. */
bool ff_feature_maker_searches(const ff_feature_maker *maker);

/** Once a maker: what it works on. Looks for files in --msa-dir. `queries` must outlive the maker. */
ff_status ff_feature_maker_set_queries(ff_ctx *ctx, ff_feature_maker *maker, const ff_feature_query *queries, int64_t count);
/** NULL, or why the folder --msa-dir is of no use to a query that has no search either; its features are then its own alone. */
const char *ff_feature_maker_complaint(const ff_feature_maker *maker, int64_t query);

/**
 * Search for all queries (ff_search_run); nothing to do where no database was given.
 * @param done  called as the searches of a query end; may be NULL
 */
ff_status ff_feature_maker_search(ff_ctx *ctx, ff_feature_maker *maker, ff_search_done_fn done, void *arg);

typedef struct {
    ff_array_set set; /* the features */
    ff_query_msa *msas;
    ff_query_input input; /* what they were made of */
    ff_query_counts counts;
} ff_made_features;

/** Features of one query, after ff_feature_maker_search. Destroy `made` in every case. A search that failed is FF_ERR_IO. */
ff_status ff_feature_maker_make(ff_ctx *ctx, ff_feature_maker *maker, int64_t query, ff_made_features *made);
void ff_made_features_destroy(ff_made_features *made);

#ifdef __cplusplus
}
#endif
#endif
