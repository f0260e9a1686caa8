/* command_features.c - fastfold-data features: from a FASTA file to features.h5, by alignments that are there or by
 * searches.
 *
 * Contents
 *   1. options
 *   2. records of the FASTA file
 *   3. one record to its file
 *   4. all records */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/command.h"
#include "data/fasta.h"
#include "data/msa_folder.h"
#include "data/query_features.h"
#include "data/search_config.h"
#include "io/name_table.h"
#include "io/safe_file.h"

/* ---- 1. options ---- */

typedef struct {
    ff_option_list msas;
    const char *msa_dir, *hhr, *template_dir, *obsolete, *max_template_date;
    int64_t max_templates, cpus;
    bool allow_undated, alphafold_compatible, allow_failed_searches;
    const char *databases[FF_NUM_DBS], *programs[FF_NUM_TOOLS];
    double time_limit;
    const char *cache, *databases_file, *output;
} features_options;

#define AT(member) offsetof(features_options, member)
#define DB(db)     offsetof(features_options, databases[db])
#define TOOL(tool) offsetof(features_options, programs[tool])
static const ff_option table[] = {
    {"msa", FF_OPTION_LIST, AT(msas), NULL, NULL, "Alignments",
     "A3M or Stockholm file, plain or gzip; may be given again; rows come in this order"},
    {"msa-dir", FF_OPTION_STRING, AT(msa_dir), NULL, NULL, "Alignments",
     "folder with NAME/*.a3m, *.sto, *.hhr or NAME.a3m ... for each record"},
    {"hhr", FF_OPTION_STRING, AT(hhr), NULL, NULL, "Templates",
     "template hits: .hhr of hhsearch, or Stockholm of hmmsearch"},
    {"template-dir", FF_OPTION_STRING, AT(template_dir), NULL, NULL, "Templates",
     "folder of mmCIF or PDB files, named by PDB id, plain or .gz, flat or divided"},
    {"obsolete", FF_OPTION_STRING, AT(obsolete), NULL, NULL, "Templates", "the PDB's obsolete.dat"},
    {"max-template-date", FF_OPTION_STRING, AT(max_template_date), NULL, NULL, "Templates",
     "latest release date of a template, YYYY-MM-DD (default: any)"},
    {"allow-undated", FF_OPTION_FLAG, AT(allow_undated), NULL, NULL, "Templates",
     "files without a release date pass the cut-off"},
    {"max-templates", FF_OPTION_INT64, AT(max_templates), "20", "1..", "Templates", "most templates kept"},
    {"uniref90", FF_OPTION_STRING, DB(FF_DB_UNIREF90), NULL, NULL, "Databases", "FASTA file, for jackhmmer"},
    {"mgnify", FF_OPTION_STRING, DB(FF_DB_MGNIFY), NULL, NULL, "Databases", "FASTA file, for jackhmmer"},
    {"bfd", FF_OPTION_STRING, DB(FF_DB_BFD), NULL, NULL, "Databases", "prefix of an HH-suite database, for hhblits"},
    {"uniref30", FF_OPTION_STRING, DB(FF_DB_UNIREF30), NULL, NULL, "Databases",
     "prefix of an HH-suite database, for hhblits"},
    {"mmseqs", FF_OPTION_STRING, DB(FF_DB_MMSEQS), NULL, NULL, "Databases",
     "MMseqs2 database or FASTA file, for a search as ColabFold does it"},
    {"pdb70", FF_OPTION_STRING, DB(FF_DB_PDB70), NULL, NULL, "Databases",
     "prefix of an HH-suite database of templates, for hhsearch"},
    {"pdb-seqres", FF_OPTION_STRING, DB(FF_DB_PDB_SEQRES), NULL, NULL, "Databases",
     "pdb_seqres.txt, for hmmsearch: templates without hhsearch"},
    {"databases", FF_OPTION_STRING, AT(databases_file), NULL, NULL, "Databases",
     "file of lines `uniref90 = PATH`, for all options of this group and the next; options given win"},
    {"jackhmmer", FF_OPTION_STRING, TOOL(FF_TOOL_JACKHMMER), NULL, NULL, "Programs",
     "path (default: environment FASTFOLD_JACKHMMER, then PATH; the others likewise)"},
    {"hhblits", FF_OPTION_STRING, TOOL(FF_TOOL_HHBLITS), NULL, NULL, "Programs", "path"},
    {"hhsearch", FF_OPTION_STRING, TOOL(FF_TOOL_HHSEARCH), NULL, NULL, "Programs", "path"},
    {"hmmbuild", FF_OPTION_STRING, TOOL(FF_TOOL_HMMBUILD), NULL, NULL, "Programs", "path"},
    {"hmmsearch", FF_OPTION_STRING, TOOL(FF_TOOL_HMMSEARCH), NULL, NULL, "Programs", "path"},
    {"mmseqs-program", FF_OPTION_STRING, TOOL(FF_TOOL_MMSEQS), NULL, NULL, "Programs",
     "path (environment FASTFOLD_MMSEQS)"},
    {"kalign", FF_OPTION_STRING, TOOL(FF_TOOL_KALIGN), NULL, NULL, "Programs", "path"},
    {"cpus", FF_OPTION_INT64, AT(cpus), "0", "0..4096", "Searches",
     "CPUs for all searches together; 0 = all there are"},
    {"time-limit", FF_OPTION_DOUBLE, AT(time_limit), "86400", "0..", "Searches",
     "seconds after which one program is ended; 0 = never"},
    {"cache", FF_OPTION_STRING, AT(cache), NULL, NULL, "Searches",
     "folder where search outputs are kept and found again"},
    {"allow-failed-searches", FF_OPTION_FLAG, AT(allow_failed_searches), NULL, NULL, "Searches",
     "make features of the searches that worked"},
    {"alphafold-compatible", FF_OPTION_FLAG, AT(alphafold_compatible), NULL, NULL, "Input",
     "refuse what AlphaFold refuses"},
    {"o", FF_OPTION_STRING, AT(output), NULL, NULL, "Output",
     "features.h5; of several records the folder for NAME.h5"},
    FF_OPTION_END};

static int check_usage(ff_ctx *ctx, const features_options *o, const ff_search_options *search,
                       const ff_arguments *args)
{
    const bool pdb70 = search->databases[FF_DB_PDB70] != NULL, seqres = search->databases[FF_DB_PDB_SEQRES] != NULL;
    if (args->num_positional != 1)
        return ff_command_usage(ctx, "one FASTA file is needed, %d were given; see --help", args->num_positional);
    if (o->output == NULL || *o->output == '\0')
        return ff_command_usage(ctx, "-o FILE is missing: where the features go");
    if ((o->hhr != NULL || pdb70 || seqres) && o->template_dir == NULL)
        return ff_command_usage(ctx, "%s needs --template-dir DIR, where the structures of the hits are",
                                o->hhr != NULL ? "--hhr" : "a template database");
    if (o->hhr != NULL && (pdb70 || seqres))
        return ff_command_usage(ctx, "--hhr gives template hits, and so does a template database; give one of them");
    if (pdb70 && seqres)
        return ff_command_usage(ctx, "--pdb70 and --pdb-seqres both give templates; give one of them");
    return FF_EXIT_DONE;
}

/* ---- 2. records of the FASTA file ---- */

typedef struct {
    char *description, *output; /* output: path of its file */
    char name[FF_FILE_NAME_BYTES + 16];
    char message[FF_MESSAGE_BYTES]; /* why it cannot be used; empty = it can */
    int64_t line;
    ff_query query;
    ff_msa_files files; /* of --msa-dir */
} record;

typedef struct {
    ff_ctx *ctx;
    const features_options *o;
    const char *path; /* of the FASTA file */
    record *records;
    int64_t num_records, capacity;
    bool to_folder, wants_search;
    ff_template_source *templates;
    char *kalign;
    ff_search *search;
    ff_search_query *queries; /* [num_queries] of the good records */
    int64_t *owners;          /* [num_queries] index of the record */
    int64_t num_queries;
    ff_batch batch;
} features_run;

/* The signal handler can reach nothing else; set to the signal that told us to end. */
static volatile sig_atomic_t told_to_end;

static void on_signal(int number) { told_to_end = number; }

/* A second signal ends the program at once. */
static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* A name no earlier record has: NAME, NAME_2, NAME_3, ... */
static ff_status choose_name(ff_ctx *ctx, ff_name_table *names, record *r)
{
    char base[FF_FILE_NAME_BYTES];
    bool added = false;
    int64_t index;
    ff_fasta_file_name(base, r->description);
    snprintf(r->name, sizeof r->name, "%s", base);
    for (int k = 2; !added; k++) {
        FF_TRY(ff_name_table_add(ctx, names, r->name, strlen(r->name), &index, &added));
        if (!added)
            snprintf(r->name, sizeof r->name, "%s_%d", base, k);
    }
    return FF_OK;
}

/* A sequence that cannot be used is noted with its record; only the file's own faults come back. */
static ff_status take_record(features_run *run, ff_name_table *names, const ff_fasta_record *from)
{
    ff_ctx *ctx = run->ctx;
    FF_TRY(ff_grow(ctx, &run->records, &run->capacity, run->num_records + 1, sizeof *run->records));
    record *r = &run->records[run->num_records];
    *r = (record){.line = from->line, .description = strdup(from->description)};
    if (r->description == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    run->num_records++;
    FF_TRY(choose_name(ctx, names, r));
    const ff_status status = ff_query_from_record(ctx, &r->query, from, run->o->alphafold_compatible);
    if (status == FF_ERR_MEM)
        return status;
    if (status != FF_OK) {
        snprintf(r->message, sizeof r->message, "%s", ctx->message);
        ff_context_clear(ctx);
    }
    return FF_OK;
}

static ff_status read_records(features_run *run)
{
    ff_fasta_reader *reader;
    ff_name_table names = {0};
    ff_status status = FF_OK;
    FF_TRY(ff_fasta_open(run->ctx, &reader, run->path));
    for (bool more = true; more;) {
        ff_fasta_record from;
        FF_TRY_DONE(ff_fasta_next(run->ctx, reader, &from, &more));
        if (more)
            FF_TRY_DONE(take_record(run, &names, &from));
    }
    if (run->num_records == 0)
        status = FF_FAIL(run->ctx, FF_ERR_FORMAT, "%s holds no sequence", run->path);
done:
    ff_name_table_destroy(&names);
    ff_fasta_close(reader);
    return status;
}

/* One record goes to the file -o names, unless that is a folder; several go into a folder. */
static ff_status choose_outputs(features_run *run)
{
    const char *output = run->o->output;
    const size_t length = strlen(output);
    struct stat st;
    const bool is_folder = stat(output, &st) == 0 && S_ISDIR(st.st_mode);
    run->to_folder = run->num_records > 1 || is_folder || output[length - 1] == '/';
    if (run->to_folder)
        FF_TRY(ff_make_folders(run->ctx, output));
    for (int64_t i = 0; i < run->num_records; i++) {
        record *r = &run->records[i];
        const int made =
            run->to_folder ? asprintf(&r->output, "%s%s%s.h5", output, output[length - 1] == '/' ? "" : "/", r->name)
                           : asprintf(&r->output, "%s", output);
        if (made < 0) {
            r->output = NULL;
            return FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
        }
    }
    return FF_OK;
}

/* The first word of the description is the name people give their files; ours is the same made harmless. */
static ff_status find_files(features_run *run, record *r)
{
    char word[FF_FILE_NAME_BYTES];
    const int length = (int)strcspn(r->description, " \t|");
    snprintf(word, sizeof word, "%.*s", length < (int)sizeof word - 1 ? length : (int)sizeof word - 1,
             r->description);
    if (word[0] != '\0' && strchr(word, '/') == NULL && word[0] != '.')
        FF_TRY(ff_msa_files_find(run->ctx, &r->files, run->o->msa_dir, word));
    if (r->files.msas.count == 0 && r->files.hits == NULL) {
        ff_msa_files_destroy(&r->files);
        FF_TRY(ff_msa_files_find(run->ctx, &r->files, run->o->msa_dir, r->name));
    }
    if (r->files.msas.count == 0 && r->files.hits == NULL && !run->wants_search) {
        char text[600];
        snprintf(r->message, sizeof r->message, "%s:%lld: --msa-dir: %s", run->path, (long long)r->line,
                 ff_msa_folder_explain(run->o->msa_dir, r->name, text, sizeof text));
    }
    return FF_OK;
}

/* ---- 3. one record to its file ---- */

/* All alignments of a record: given, found in --msa-dir, searched. */
static int64_t collect_msas(const features_run *run, const record *r, const ff_search_query *q, ff_query_msa *msas)
{
    int64_t n = 0;
    for (int i = 0; i < run->o->msas.count; i++)
        msas[n++] = (ff_query_msa){.path = run->o->msas.items[i]};
    for (int64_t i = 0; i < r->files.msas.count; i++) {
        const char *path = ff_text_list_get(&r->files.msas, i);
        msas[n++] = (ff_query_msa){.path = path, .max_seq = ff_msa_file_max_seq(path)};
    }
    for (int k = 0; q != NULL && k <= FF_SEARCH_MMSEQS; k++)
        if (q->outputs[k].path != NULL)
            msas[n++] = (ff_query_msa){.path = q->outputs[k].path,
                                       .searched = true,
                                       .max_seq = k == FF_SEARCH_UNIREF90 ? FF_UNIREF90_MAX_SEQ
                                                  : k == FF_SEARCH_MGNIFY ? FF_MGNIFY_MAX_SEQ
                                                                          : 0};
    return n;
}

static const char *choose_hits(const features_run *run, const record *r, const ff_search_query *q)
{
    for (int k = FF_SEARCH_PDB70; q != NULL && k < FF_NUM_SEARCHES; k++)
        if (q->outputs[k].path != NULL)
            return q->outputs[k].path;
    return run->o->hhr != NULL ? run->o->hhr : r->files.hits;
}

/* The first search that failed, when that must not be. */
static ff_status check_searches(features_run *run, const ff_search_query *q)
{
    for (int k = 0; q != NULL && k < FF_NUM_SEARCHES; k++)
        if (q->outputs[k].message != NULL && !run->o->allow_failed_searches)
            return FF_FAIL(run->ctx, FF_ERR_IO, "%s%s", q->outputs[k].message,
                           run->o->cache != NULL ? " (the searches that worked are in --cache)" : "");
    return FF_OK;
}

static ff_status make_features(features_run *run, const record *r, const ff_search_query *q)
{
    ff_ctx *ctx = run->ctx;
    const int64_t most = run->o->msas.count + r->files.msas.count + FF_NUM_SEARCHES;
    ff_array_set set;
    ff_query_counts counts;
    ff_status status = FF_OK;
    FF_TRY(check_searches(run, q));
    ff_query_msa *msas = calloc((size_t)most, sizeof *msas);
    if (msas == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    const ff_query_input input = {.description = r->description,
                                  .sequence = r->query.sequence,
                                  .msas = msas,
                                  .num_msas = collect_msas(run, r, q, msas),
                                  .hits = choose_hits(run, r, q),
                                  .templates = run->templates,
                                  .alphafold_compatible = run->o->alphafold_compatible};
    ff_array_set_init(&set);
    FF_TRY_DONE(ff_query_features(ctx, &set, &input, &counts));
    FF_TRY_DONE(ff_query_features_write(ctx, &set, &input, r->output));
    printf("%s: %lld residues, %lld MSA rows of %lld files, %lld templates\n", r->output, (long long)counts.num_res,
           (long long)counts.num_seq, (long long)input.num_msas, (long long)counts.num_templates);
    fflush(stdout);
done:
    ff_array_set_destroy(&set);
    free(msas);
    return status;
}

/* Count a record as good or bad; its failure is not that of the run, unless it is the only one. */
static ff_status finish_record(features_run *run, const record *r, const ff_search_query *q)
{
    ff_ctx *ctx = run->ctx;
    char text[FF_MESSAGE_BYTES];
    ff_status status = FF_OK;
    if (r->message[0] != '\0') {
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s", r->message);
    } else if (make_features(run, r, q) != FF_OK) {
        snprintf(text, sizeof text, "%s", ctx->message);
        ff_context_clear(ctx);
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %.60s: %s", run->path, (long long)r->line, r->name, text);
    }
    if (status == FF_OK)
        ff_batch_good(&run->batch);
    else if (run->num_records > 1)
        ff_batch_bad(&run->batch, ctx);
    return run->num_records > 1 ? FF_OK : status;
}

/* ---- 4. all records ---- */

static ff_status searches_ended(ff_ctx *ctx, void *arg, int64_t query)
{
    features_run *run = arg;
    (void)ctx;
    return finish_record(run, &run->records[run->owners[query]], &run->queries[query]);
}

static ff_status open_templates(features_run *run, const ff_search_options *search)
{
    const features_options *o = run->o;
    if (o->template_dir == NULL)
        return FF_OK;
    if (ff_search_find_tool(run->ctx, &run->kalign, FF_TOOL_KALIGN, search) != FF_OK) {
        if (search->programs[FF_TOOL_KALIGN] != NULL)
            return run->ctx->status;
        ff_context_clear(run->ctx); /* few hits need it; those that do will say so */
    }
    const ff_template_options options = {.folder = o->template_dir,
                                         .obsolete = o->obsolete,
                                         .max_date = o->max_template_date,
                                         .allow_undated = o->allow_undated,
                                         .alphafold_compatible = o->alphafold_compatible,
                                         .max_templates = o->max_templates,
                                         .kalign = run->kalign,
                                         .cancel = &told_to_end};
    return ff_template_source_create(run->ctx, &run->templates, &options);
}

static ff_status make_queries(features_run *run)
{
    run->queries = calloc((size_t)run->num_records + 1, sizeof *run->queries);
    run->owners = calloc((size_t)run->num_records + 1, sizeof *run->owners);
    if (run->queries == NULL || run->owners == NULL)
        return FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < run->num_records; i++) {
        const record *r = &run->records[i];
        if (r->message[0] != '\0')
            continue;
        const char *msa = run->o->msas.count > 0    ? run->o->msas.items[0]
                          : r->files.msas.count > 0 ? ff_text_list_get(&r->files.msas, 0)
                                                    : NULL;
        run->owners[run->num_queries] = i;
        run->queries[run->num_queries++] =
            (ff_search_query){.name = r->name, .sequence = r->query.sequence, .template_msa = msa};
    }
    return FF_OK;
}

/* Records that need no search, or cannot have one, go first; the others follow as their searches end. */
static ff_status make_all(features_run *run, const ff_search_options *options)
{
    if (run->wants_search)
        FF_TRY(ff_search_open(run->ctx, &run->search, options));
    for (int64_t i = 0; i < run->num_records; i++) {
        if (told_to_end)
            return FF_FAIL(run->ctx, FF_ERR_IO, "stopped by signal %d", (int)told_to_end);
        if (!run->wants_search || run->records[i].message[0] != '\0')
            FF_TRY(finish_record(run, &run->records[i], NULL));
    }
    if (!run->wants_search)
        return FF_OK;
    FF_TRY(make_queries(run));
    return ff_search_run(run->ctx, run->search, run->queries, run->num_queries, searches_ended, run);
}

static void destroy_run(features_run *run)
{
    if (run->queries != NULL)
        ff_search_queries_clear(run->queries, run->num_queries);
    ff_search_close(run->search);
    ff_template_source_destroy(run->templates);
    for (int64_t i = 0; i < run->num_records; i++) {
        free(run->records[i].description);
        free(run->records[i].output);
        ff_query_destroy(&run->records[i].query);
        ff_msa_files_destroy(&run->records[i].files);
    }
    free(run->records);
    free(run->queries);
    free(run->owners);
    free(run->kalign);
}

static int run_features(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const features_options *o = options;
    ff_status status = FF_OK;
    features_run run = {.ctx = ctx, .o = o, .path = args->positional[0]};
    ff_search_config config = {.databases = {NULL}};
    ff_search_options search = {
        .cache = o->cache, .num_cpus = (int)o->cpus, .time_limit_s = o->time_limit, .cancel = &told_to_end};
    memcpy(search.databases, o->databases, sizeof search.databases);
    memcpy(search.programs, o->programs, sizeof search.programs);
    if (o->databases_file != NULL)
        FF_TRY_DONE(ff_search_config_read(ctx, &config, o->databases_file));
    ff_search_config_apply(&config, &search);
    if (check_usage(ctx, o, &search, args) != FF_EXIT_DONE) {
        status = FF_ERR_ARG;
        goto done;
    }
    run.wants_search = ff_search_wanted(&search);
    watch_signals();
    FF_TRY_DONE(read_records(&run));
    if (run.num_records > 1 && (o->msas.count > 0 || o->hhr != NULL)) {
        status =
            FF_FAIL(ctx, FF_ERR_ARG, "--msa and --hhr belong to one sequence, but %s holds %lld; use --msa-dir DIR",
                    run.path, (long long)run.num_records);
        goto done;
    }
    FF_TRY_DONE(choose_outputs(&run));
    FF_TRY_DONE(open_templates(&run, &search));
    for (int64_t i = 0; i < run.num_records && o->msa_dir != NULL; i++)
        if (run.records[i].message[0] == '\0')
            FF_TRY_DONE(find_files(&run, &run.records[i]));
    FF_TRY_DONE(make_all(&run, &search));
done:
    destroy_run(&run);
    ff_search_config_destroy(&config);
    const int exit_status = ff_batch_finish(&run.batch, ctx);
    return status == FF_OK ? exit_status : status == FF_ERR_ARG ? FF_EXIT_USAGE : FF_EXIT_FAILED;
}

const ff_command ff_command_features = {
    "features",
    "from a FASTA file to features.h5: alignments and templates, given or searched",
    {"fastfold-data features", "QUERY.fasta -o features.h5 [options]",
     "Makes the raw features of AlphaFold's data pipeline for every record of QUERY.fasta, of alignments given (--msa,\n"
     "--msa-dir) and of searches in the databases given. With one database only, only that one is searched. --cache DIR\n"
     "keeps what the searches wrote, so that a run that was stopped goes on where it was.",
     table},
    sizeof(features_options),
    run_features};
