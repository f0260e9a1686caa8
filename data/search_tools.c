/* search_tools.c - the commands of each search, and what becomes of their output.
 *
 * Contents
 *   1. small files
 *   2. jackhmmer and hhblits: one command
 *   3. hhsearch and hmmsearch, from an alignment
 *   4. MMseqs2: one call for many queries */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/search_job.h"
#include "io/safe_file.h"
#include "io/text_file.h"

/* ---- 1. small files ---- */

static ff_search_query *query_of(const ff_search_job *job) { return &job->queries[job->query]; }

static ff_status make_folder(ff_ctx *ctx, ff_search_job *job)
{
    if (asprintf(&job->folder, "%s/%s-XXXXXX", job->search->scratch, ff_search_kind_name(job->kind)) < 0) {
        job->folder = NULL;
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    }
    if (mkdtemp(job->folder) == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot make folder %s: %s", job->folder, strerror(errno));
    return FF_OK;
}

/* FOLDER/NAME of a job. */
typedef struct {
    char text[4096];
} job_path;

static job_path in_folder(const ff_search_job *job, const char *name)
{
    job_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", job->folder, name);
    return path;
}

static ff_status write_file(ff_ctx *ctx, const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(text, 1, size, file) == size;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    return good ? FF_OK : FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

/* The tools know every query as "query": output then depends on the sequence only, and no name can hurt. */
static ff_status write_query(ff_ctx *ctx, const char *path, const char *sequence)
{
    char *text = NULL;
    const int length = asprintf(&text, ">query\n%s\n", sequence);
    if (length < 0)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    const ff_status status = write_file(ctx, path, text, (size_t)length);
    free(text);
    return status;
}

/* Messages name the program that runs, and its sub-command: "mmseqs expandaln". */
static ff_status name_task(ff_ctx *ctx, ff_task *task, ff_search_job *job, const char *program)
{
    char *name = NULL;
    const bool batch = job->kind == FF_SEARCH_MMSEQS;
    const int length =
        batch ? asprintf(&name, "%s of %lld queries", program, (long long)job->num_batch)
              : asprintf(&name, "%s %s of %.60s", program, ff_search_kind_name(job->kind), query_of(job)->name);
    if (length < 0)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    free(job->name);
    job->name = name;
    task->name = name;
    return FF_OK;
}

static int num_cpus(const ff_search_job *job, int most)
{
    return job->search->num_cpus < most ? job->search->num_cpus : most;
}

/* Whether the entry of a job is there already; then the job is over. */
static bool is_cached(ff_ctx *ctx, ff_search_job *job)
{
    job->from_cache = ff_search_entry_is_good(ctx, job->kind, job->entry);
    return job->from_cache;
}

static const char *database(const ff_search_job *job, ff_search_db db) { return job->search->databases[db].path; }

/* ---- 2. jackhmmer and hhblits: one command ---- */

static ff_status next_jackhmmer(ff_ctx *ctx, ff_search_job *job, int step, ff_subprocess *command, bool *more)
{
    if (step > 0) {
        *more = false;
        return ff_search_entry_install(ctx, job->kind, in_folder(job, "out.sto").text, job->entry);
    }
    FF_TRY(write_query(ctx, in_folder(job, "query.fasta").text, query_of(job)->sequence));
    ff_subprocess_init(command, job->search->programs[FF_TOOL_JACKHMMER]);
    ff_subprocess_add_words(command, ff_search_flags(job->kind));
    ff_subprocess_add(command, "-A");
    ff_subprocess_add(command, in_folder(job, "out.sto").text);
    ff_subprocess_add(command, "--cpu");
    ff_subprocess_addf(command, "%d", num_cpus(job, 8));
    ff_subprocess_add(command, in_folder(job, "query.fasta").text);
    ff_subprocess_add(command, database(job, job->kind == FF_SEARCH_MGNIFY ? FF_DB_MGNIFY : FF_DB_UNIREF90));
    return FF_OK;
}

static ff_status next_hhblits(ff_ctx *ctx, ff_search_job *job, int step, ff_subprocess *command, bool *more)
{
    if (step > 0) {
        *more = false;
        return ff_search_entry_install(ctx, job->kind, in_folder(job, "out.a3m").text, job->entry);
    }
    FF_TRY(write_query(ctx, in_folder(job, "query.fasta").text, query_of(job)->sequence));
    ff_subprocess_init(command, job->search->programs[FF_TOOL_HHBLITS]);
    ff_subprocess_add(command, "-i");
    ff_subprocess_add(command, in_folder(job, "query.fasta").text);
    ff_subprocess_add(command, "-cpu");
    ff_subprocess_addf(command, "%d", num_cpus(job, 4));
    ff_subprocess_add(command, "-oa3m");
    ff_subprocess_add(command, in_folder(job, "out.a3m").text);
    ff_subprocess_add_words(command, ff_search_flags(job->kind));
    static const ff_search_db both[] = {FF_DB_BFD, FF_DB_UNIREF30};
    for (int i = 0; i < 2; i++)
        if (database(job, both[i]) != NULL) {
            ff_subprocess_add(command, "-d");
            ff_subprocess_add(command, database(job, both[i]));
        }
    return FF_OK;
}

/* ---- 3. hhsearch and hmmsearch, from an alignment ---- */

/* The input of a template search, written to FOLDER/in.EXT; and the entry it leads to. */
static ff_status make_template_input(ff_ctx *ctx, ff_search_job *job, bool *has_rf)
{
    const bool stockholm = job->kind == FF_SEARCH_PDB_SEQRES;
    const ff_search_query *q = query_of(job);
    const ff_search_output *uniref90 = &q->outputs[FF_SEARCH_UNIREF90];
    struct ff_template_input input;
    ff_sha256 hash;
    if (uniref90->wanted && uniref90->path == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: not started, as the UniRef90 search it needs failed", job->name);
    FF_TRY(ff_search_template_input(ctx, &input, uniref90->wanted ? uniref90->path : q->template_msa, q->sequence,
                                    stockholm));
    ff_search_key_begin(&hash, job->search, job->kind);
    ff_sha256_add(&hash, input.text, input.size);
    ff_status status = ff_search_entry_path(ctx, job->search, job->kind, &hash, &job->entry);
    if (status == FF_OK)
        status = write_file(ctx, in_folder(job, stockholm ? "in.sto" : "in.a3m").text, input.text, input.size);
    *has_rf = input.has_rf;
    free(input.text);
    return status;
}

static ff_status next_hhsearch(ff_ctx *ctx, ff_search_job *job, int step, ff_subprocess *command, bool *more)
{
    bool has_rf;
    if (step > 0) {
        *more = false;
        return ff_search_entry_install(ctx, job->kind, in_folder(job, "out.hhr").text, job->entry);
    }
    FF_TRY(make_template_input(ctx, job, &has_rf));
    if (is_cached(ctx, job)) {
        *more = false;
        return FF_OK;
    }
    ff_subprocess_init(command, job->search->programs[FF_TOOL_HHSEARCH]);
    ff_subprocess_add(command, "-i");
    ff_subprocess_add(command, in_folder(job, "in.a3m").text);
    ff_subprocess_add(command, "-o");
    ff_subprocess_add(command, in_folder(job, "out.hhr").text);
    ff_subprocess_add_words(command, ff_search_flags(job->kind));
    ff_subprocess_add(command, "-cpu");
    ff_subprocess_addf(command, "%d", num_cpus(job, 8));
    ff_subprocess_add(command, "-d");
    ff_subprocess_add(command, database(job, FF_DB_PDB70));
    return FF_OK;
}

/* hmmsearch writes no file, or an empty one, when nothing was found. */
static ff_status install_hmmsearch(ff_ctx *ctx, ff_search_job *job)
{
    const job_path out = in_folder(job, "out.sto");
    if (access(out.text, F_OK) != 0)
        FF_TRY(write_file(ctx, out.text, "", 0));
    return ff_search_entry_install(ctx, job->kind, out.text, job->entry);
}

static ff_status next_hmmsearch(ff_ctx *ctx, ff_search_job *job, int step, ff_subprocess *command, bool *more)
{
    bool has_rf = true;
    if (step == 0)
        FF_TRY(make_template_input(ctx, job, &has_rf));
    if (step == 0 && is_cached(ctx, job)) {
        *more = false;
    } else if (step == 0) {
        ff_subprocess_init(command, job->search->programs[FF_TOOL_HMMBUILD]);
        if (has_rf)
            ff_subprocess_add(command, "--hand");
        ff_subprocess_add(command, "--amino");
        ff_subprocess_add(command, in_folder(job, "query.hmm").text);
        ff_subprocess_add(command, in_folder(job, "in.sto").text);
    } else if (step == 1) {
        ff_subprocess_init(command, job->search->programs[FF_TOOL_HMMSEARCH]);
        ff_subprocess_add_words(command, ff_search_flags(job->kind));
        ff_subprocess_add(command, "--cpu");
        ff_subprocess_addf(command, "%d", num_cpus(job, 8));
        ff_subprocess_add(command, "-A");
        ff_subprocess_add(command, in_folder(job, "out.sto").text);
        ff_subprocess_add(command, in_folder(job, "query.hmm").text);
        ff_subprocess_add(command, job->search->seqres);
    } else {
        *more = false;
        return install_hmmsearch(ctx, job);
    }
    return FF_OK;
}

/* ---- 4. MMseqs2: one call for many queries ---- */

enum mmseqs_phase {
    MAKE_TARGETS,
    MAKE_QUERIES,
    SEARCH,
    MOVE_PROFILE,
    LINK_HEADERS,
    EXPAND,
    REALIGN,
    FILTER,
    MAKE_MSA,
    UNPACK,
    COLLECT
};

/* Queries are named 0, 1, ... by their place in the batch. */
static ff_status write_batch(ff_ctx *ctx, const ff_search_job *job)
{
    const job_path path = in_folder(job, "queries.fasta");
    FILE *file = fopen(path.text, "wb");
    bool good = file != NULL;
    for (int64_t i = 0; good && i < job->num_batch; i++)
        good = fprintf(file, ">%lld\n%s\n", (long long)i, job->queries[job->batch[i]].sequence) > 0;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    return good ? FF_OK : FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path.text, strerror(errno));
}

/* Move FOLDER/a3m/N.a3m to the cache; its first line says which query it belongs to. */
static ff_status collect_mmseqs(ff_ctx *ctx, const ff_search_job *job)
{
    for (int64_t i = 0; i < job->num_batch; i++) {
        char name[64], line[64] = "", *end = line, *entry;
        snprintf(name, sizeof name, "a3m/%lld.a3m", (long long)i);
        const job_path made = in_folder(job, name);
        FILE *file = fopen(made.text, "rb");
        const bool got = file != NULL && fgets(line, sizeof line, file) != NULL;
        if (file != NULL)
            fclose(file);
        const long long k = got && line[0] == '>' ? strtoll(line + 1, &end, 10) : -1;
        if (end == line + 1 || k < 0 || k >= job->num_batch || (*end != '\n' && *end != '\t' && *end != ' '))
            return FF_FAIL(ctx, FF_ERR_FORMAT, "mmseqs unpackdb: %s does not begin with a query of ours", made.text);
        FF_TRY(ff_search_query_entry(ctx, job->search, job->kind, job->queries[job->batch[k]].sequence, &entry));
        const ff_status status = ff_search_entry_install(ctx, job->kind, made.text, entry);
        free(entry);
        FF_TRY(status);
    }
    return FF_OK;
}

static void add_path(ff_subprocess *command, const ff_search_job *job, const char *name)
{
    ff_subprocess_add(command, in_folder(job, name).text);
}

/* Sequences and alignments of the target database for the steps after the search: those of the clusters, by way of
 * the index where there is one. */
static void add_target(ff_subprocess *command, const ff_search_job *job, const char *part)
{
    const ff_database *d = &job->search->databases[FF_DB_MMSEQS];
    if (d->is_fasta)
        add_path(command, job, "targets");
    else if (d->is_clustered)
        ff_subprocess_addf(command, "%s%s", d->path, d->has_index ? ".idx" : part);
    else
        ff_subprocess_add(command, d->path);
}

static void add_machine(ff_subprocess *command, const ff_search_job *job)
{
    ff_subprocess_add(command, "--threads");
    ff_subprocess_addf(command, "%d", job->search->num_cpus);
    if (job->search->databases[FF_DB_MMSEQS].has_index)
        ff_subprocess_add_words(command, "--db-load-mode 2");
}

static bool is_needed(const ff_search_job *job, int phase)
{
    const ff_database *d = &job->search->databases[FF_DB_MMSEQS];
    if (phase == MAKE_TARGETS)
        return d->is_fasta;
    return phase < MOVE_PROFILE || phase > FILTER || d->is_clustered;
}

/* A clustered database is searched by its representatives; members come in by expansion, are aligned to the profile
 * of the search and filtered. */
static void fill_clustered(const ff_search_job *job, int phase, ff_subprocess *command)
{
    switch (phase) {
    case MOVE_PROFILE:
        ff_subprocess_add(command, "mvdb");
        add_path(command, job, "tmp/latest/profile_1");
        add_path(command, job, "profile");
        break;
    case LINK_HEADERS:
        ff_subprocess_add(command, "lndb");
        add_path(command, job, "queries_h");
        add_path(command, job, "profile_h");
        break;
    case EXPAND:
        ff_subprocess_add(command, "expandaln");
        add_path(command, job, "queries");
        add_target(command, job, "_seq");
        add_path(command, job, "result");
        add_target(command, job, "_aln");
        add_path(command, job, "expanded");
        ff_subprocess_add_words(command, "--expansion-mode 0 -e inf --expand-filter-clusters 1 --max-seq-id 0.95");
        add_machine(command, job);
        break;
    case REALIGN:
        ff_subprocess_add(command, "align");
        add_path(command, job, "profile");
        add_target(command, job, "_seq");
        add_path(command, job, "expanded");
        add_path(command, job, "aligned");
        ff_subprocess_add_words(command, "-e 10 --max-accept 100000 --alt-ali 10 -a");
        add_machine(command, job);
        break;
    case FILTER:
        ff_subprocess_add(command, "filterresult");
        add_path(command, job, "queries");
        add_target(command, job, "_seq");
        add_path(command, job, "aligned");
        add_path(command, job, "filtered");
        ff_subprocess_add_words(command, "--qid 0 --qsc 0.8 --diff 0 --max-seq-id 1.0 --filter-min-enable 100");
        add_machine(command, job);
        break;
    default: break;
    }
}

static void fill_search(const ff_search_job *job, ff_subprocess *command)
{
    const ff_database *d = &job->search->databases[FF_DB_MMSEQS];
    ff_subprocess_add(command, "search");
    add_path(command, job, "queries");
    if (d->is_fasta)
        add_path(command, job, "targets");
    else
        ff_subprocess_add(command, d->path);
    add_path(command, job, "result");
    add_path(command, job, "tmp");
    ff_subprocess_add_words(command, ff_search_flags(job->kind));
    add_machine(command, job);
}

static ff_status fill_mmseqs(ff_ctx *ctx, const ff_search_job *job, int phase, ff_subprocess *command)
{
    const bool clustered = job->search->databases[FF_DB_MMSEQS].is_clustered;
    ff_subprocess_init(command, job->search->programs[FF_TOOL_MMSEQS]);
    switch (phase) {
    case MAKE_TARGETS:
        ff_subprocess_add(command, "createdb");
        ff_subprocess_add(command, database(job, FF_DB_MMSEQS));
        add_path(command, job, "targets");
        break;
    case MAKE_QUERIES:
        FF_TRY(write_batch(ctx, job));
        ff_subprocess_add(command, "createdb");
        add_path(command, job, "queries.fasta");
        add_path(command, job, "queries");
        ff_subprocess_add_words(command, "--shuffle 0");
        break;
    case SEARCH: fill_search(job, command); break;
    case MAKE_MSA:
        ff_subprocess_add(command, "result2msa");
        add_path(command, job, "queries");
        add_target(command, job, "_seq");
        add_path(command, job, clustered ? "filtered" : "result");
        add_path(command, job, "msas");
        ff_subprocess_add_words(command, "--msa-format-mode 6 --filter-msa 1 --filter-min-enable 1000 --diff 3000 "
                                         "--qid 0.0,0.2,0.4,0.6,0.8,1.0 --qsc 0 --max-seq-id 0.95");
        add_machine(command, job);
        break;
    case UNPACK:
        if (mkdir(in_folder(job, "a3m").text, 0777) != 0)
            return FF_FAIL(ctx, FF_ERR_IO, "cannot make folder %s/a3m: %s", job->folder, strerror(errno));
        ff_subprocess_add(command, "unpackdb");
        add_path(command, job, "msas");
        add_path(command, job, "a3m");
        ff_subprocess_add_words(command, "--unpack-name-mode 0 --unpack-suffix .a3m");
        break;
    default: fill_clustered(job, phase, command); break;
    }
    return FF_OK;
}

static ff_status next_mmseqs(ff_ctx *ctx, ff_search_job *job, ff_subprocess *command, bool *more)
{
    while (!is_needed(job, job->phase))
        job->phase++;
    if (job->phase == COLLECT) {
        *more = false;
        return collect_mmseqs(ctx, job);
    }
    return fill_mmseqs(ctx, job, job->phase++, command);
}

ff_status ff_search_next(ff_ctx *ctx, ff_task *task, ff_subprocess *command, bool *more)
{
    ff_search_job *job = task->arg;
    const bool for_templates = job->kind == FF_SEARCH_PDB70 || job->kind == FF_SEARCH_PDB_SEQRES;
    if (task->step == 0 && !for_templates && job->kind != FF_SEARCH_MMSEQS) {
        FF_TRY(ff_search_query_entry(ctx, job->search, job->kind, query_of(job)->sequence, &job->entry));
        if (is_cached(ctx, job)) {
            *more = false;
            return FF_OK;
        }
    }
    if (job->folder == NULL)
        FF_TRY(make_folder(ctx, job));
    ff_status status = FF_OK;
    switch (job->kind) {
    case FF_SEARCH_UNIREF90:
    case FF_SEARCH_MGNIFY: status = next_jackhmmer(ctx, job, task->step, command, more); break;
    case FF_SEARCH_BFD: status = next_hhblits(ctx, job, task->step, command, more); break;
    case FF_SEARCH_PDB70: status = next_hhsearch(ctx, job, task->step, command, more); break;
    case FF_SEARCH_PDB_SEQRES: status = next_hmmsearch(ctx, job, task->step, command, more); break;
    case FF_SEARCH_MMSEQS: status = next_mmseqs(ctx, job, command, more); break;
    case FF_NUM_SEARCHES: break;
    }
    command->time_limit_s = job->search->options.time_limit_s;
    if (status != FF_OK || command->argc < 2)
        return status != FF_OK || job->kind != FF_SEARCH_MMSEQS ? status : name_task(ctx, task, job, "mmseqs");
    char program[64] = "";
    for (int t = 0; t < FF_NUM_TOOLS; t++)
        if (job->search->programs[t] != NULL && strcmp(job->search->programs[t], command->argv[0]) == 0)
            snprintf(program, sizeof program, "%s%s%.40s", ff_search_tool_name(t), t == FF_TOOL_MMSEQS ? " " : "",
                     t == FF_TOOL_MMSEQS ? command->argv[1] : "");
    return name_task(ctx, task, job, program);
}
