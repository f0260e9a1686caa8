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
#include "data/make_features.h"
#include "io/name_table.h"
#include "io/safe_file.h"

/* ---- 1. options ---- */

typedef struct {
    ff_feature_options make;
    const char *output;
} features_options;

static const ff_option table[] = {
    FF_FEATURE_INPUT_OPTIONS(features_options, make),
    {"max-templates", FF_OPTION_INT64, offsetof(features_options, make.max_templates), "20", "1..", "Templates",
     "most templates kept"},
    FF_FEATURE_SEARCH_OPTIONS(features_options, make),
    {"alphafold-compatible", FF_OPTION_FLAG, offsetof(features_options, make.alphafold_compatible), NULL, NULL, "Input",
     "refuse what AlphaFold refuses"},
    {"o", FF_OPTION_STRING, offsetof(features_options, output), NULL, NULL, "Output",
     "features.h5; of several records the folder for NAME.h5"},
    FF_OPTION_END};

static int check_usage(ff_ctx *ctx, const features_options *o, const ff_arguments *args)
{
    if (args->num_positional != 1)
        return ff_command_usage(ctx, "one FASTA file is needed, %d were given; see --help", args->num_positional);
    if (o->output == NULL || *o->output == '\0')
        return ff_command_usage(ctx, "-o FILE is missing: where the features go");
    return FF_EXIT_DONE;
}

/* ---- 2. records of the FASTA file ---- */

typedef struct {
    char *description, *output; /* output: path of its file */
    char name[FF_FILE_NAME_BYTES + 16];
    char message[FF_MESSAGE_BYTES]; /* why it cannot be used; empty = it can */
    char *source; /* "file.fasta:3" */
    ff_query query;
} record;

typedef struct {
    ff_ctx *ctx;
    const features_options *o;
    const char *path; /* of the FASTA file */
    record *records;
    int64_t num_records, capacity;
    bool to_folder;
    ff_feature_maker *maker;
    ff_feature_query *queries; /* [num_queries] the good records */
    int64_t *owners;           /* [num_queries] index of the record */
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
    *r = (record){.description = strdup(from->description)};
    run->num_records++;
    if (asprintf(&r->source, "%s:%lld", run->path, (long long)from->line) < 0)
        r->source = NULL;
    if (r->description == NULL || r->source == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    FF_TRY(choose_name(ctx, names, r));
    const ff_status status = ff_query_from_record(ctx, &r->query, from, run->o->make.alphafold_compatible);
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

/* The good records, and what --msa-dir has of them. */
static ff_status set_queries(features_run *run)
{
    run->queries = calloc((size_t)run->num_records + 1, sizeof *run->queries);
    run->owners = calloc((size_t)run->num_records + 1, sizeof *run->owners);
    if (run->queries == NULL || run->owners == NULL)
        return FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < run->num_records; i++) {
        const record *r = &run->records[i];
        if (r->message[0] != '\0')
            continue;
        run->owners[run->num_queries] = i;
        run->queries[run->num_queries++] = (ff_feature_query){
            .name = r->name, .description = r->description, .sequence = r->query.sequence, .source = r->source};
    }
    FF_TRY(ff_feature_maker_set_queries(run->ctx, run->maker, run->queries, run->num_queries));
    for (int64_t k = 0; k < run->num_queries; k++) {
        record *r = &run->records[run->owners[k]];
        const char *complaint = ff_feature_maker_complaint(run->maker, k);
        if (complaint != NULL)
            snprintf(r->message, sizeof r->message, "%s", complaint);
    }
    return FF_OK;
}

/* ---- 3. one record to its file ---- */

static ff_status make_features(features_run *run, const record *r, int64_t query)
{
    ff_ctx *ctx = run->ctx;
    ff_made_features made;
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_feature_maker_make(ctx, run->maker, query, &made));
    FF_TRY_DONE(ff_query_features_write(ctx, &made.set, &made.input, r->output));
    printf("%s: %lld residues, %lld MSA rows of %lld files, %lld templates\n", r->output, (long long)made.counts.num_res,
           (long long)made.counts.num_seq, (long long)made.input.num_msas, (long long)made.counts.num_templates);
    fflush(stdout);
done:
    ff_made_features_destroy(&made);
    return status;
}

/* Count a record as good or bad; its failure is not that of the run, unless it is the only one. */
static ff_status finish_record(features_run *run, const record *r, int64_t query)
{
    ff_ctx *ctx = run->ctx;
    char text[FF_MESSAGE_BYTES];
    ff_status status = FF_OK;
    if (r->message[0] != '\0') {
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s", r->message);
    } else if (make_features(run, r, query) != FF_OK) {
        snprintf(text, sizeof text, "%s", ctx->message);
        ff_context_clear(ctx);
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s: %.60s: %s", r->source, r->name, text);
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
    return finish_record(run, &run->records[run->owners[query]], query);
}

/* Records that need no search, or cannot have one, go first; the others follow as their searches end. */
static ff_status make_all(features_run *run)
{
    const bool searches = ff_feature_maker_searches(run->maker);
    for (int64_t i = 0, query = 0; i < run->num_records; i++) {
        const bool is_query = query < run->num_queries && run->owners[query] == i;
        if (told_to_end)
            return FF_FAIL(run->ctx, FF_ERR_IO, "stopped by signal %d", (int)told_to_end);
        if (!searches || !is_query)
            FF_TRY(finish_record(run, &run->records[i], query));
        query += is_query;
    }
    return ff_feature_maker_search(run->ctx, run->maker, searches_ended, run);
}

static void destroy_run(features_run *run)
{
    ff_feature_maker_destroy(run->maker);
    for (int64_t i = 0; i < run->num_records; i++) {
        free(run->records[i].description);
        free(run->records[i].source);
        free(run->records[i].output);
        ff_query_destroy(&run->records[i].query);
    }
    free(run->records);
    free(run->queries);
    free(run->owners);
}

static int run_features(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const features_options *o = options;
    ff_status status = FF_OK;
    features_run run = {.ctx = ctx, .o = o, .path = args->positional[0]};
    if (check_usage(ctx, o, args) != FF_EXIT_DONE)
        return FF_EXIT_USAGE;
    watch_signals();
    FF_TRY_DONE(ff_feature_maker_create(ctx, &run.maker, &o->make, &told_to_end));
    FF_TRY_DONE(read_records(&run));
    if (run.num_records > 1 && (o->make.msas.count > 0 || o->make.hhr != NULL)) {
        status = FF_FAIL(ctx, FF_ERR_ARG, "--msa and --hhr belong to one sequence, but %s holds %lld; use --msa-dir DIR",
                         run.path, (long long)run.num_records);
        goto done;
    }
    FF_TRY_DONE(choose_outputs(&run));
    FF_TRY_DONE(set_queries(&run));
    FF_TRY_DONE(make_all(&run));
done:
    destroy_run(&run);
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
