/* search.c - what is searched for whom: databases and programs, tasks and their order, results.
 *
 * Contents
 *   1. names
 *   2. opening: every database and program
 *   3. a job and its end
 *   4. the run */
#include "data/search.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/search_job.h"
#include "io/name_table.h"
#include "io/safe_file.h"

/* ---- 1. names ---- */

static const struct {
    const char *name, *option;
    ff_database_kind kind;
} dbs[FF_NUM_DBS] = {
    [FF_DB_UNIREF90] = {"uniref90", "--uniref90", FF_DATABASE_FASTA},
    [FF_DB_MGNIFY] = {"mgnify", "--mgnify", FF_DATABASE_FASTA},
    [FF_DB_BFD] = {"bfd", "--bfd", FF_DATABASE_HHSUITE},
    [FF_DB_UNIREF30] = {"uniref30", "--uniref30", FF_DATABASE_HHSUITE},
    [FF_DB_PDB70] = {"pdb70", "--pdb70", FF_DATABASE_HHSUITE},
    [FF_DB_PDB_SEQRES] = {"pdb-seqres", "--pdb-seqres", FF_DATABASE_FASTA},
    [FF_DB_MMSEQS] = {"mmseqs", "--mmseqs", FF_DATABASE_MMSEQS},
};

static const struct {
    const char *name, *variable, *option;
} tools[FF_NUM_TOOLS] = {
    [FF_TOOL_JACKHMMER] = {"jackhmmer", "FASTFOLD_JACKHMMER", "jackhmmer"},
    [FF_TOOL_HHBLITS] = {"hhblits", "FASTFOLD_HHBLITS", "hhblits"},
    [FF_TOOL_HHSEARCH] = {"hhsearch", "FASTFOLD_HHSEARCH", "hhsearch"},
    [FF_TOOL_HMMBUILD] = {"hmmbuild", "FASTFOLD_HMMBUILD", "hmmbuild"},
    [FF_TOOL_HMMSEARCH] = {"hmmsearch", "FASTFOLD_HMMSEARCH", "hmmsearch"},
    [FF_TOOL_MMSEQS] = {"mmseqs", "FASTFOLD_MMSEQS", "mmseqs-program"},
    [FF_TOOL_KALIGN] = {"kalign", "FASTFOLD_KALIGN", "kalign"},
};

static const struct {
    const char *name;
    ff_search_tool tool;
    ff_search_db databases[2]; /* either is enough */
    int num_cpus;              /* AlphaFold's numbers; 0 = all */
} kinds[FF_NUM_SEARCHES] = {
    [FF_SEARCH_UNIREF90] = {"uniref90", FF_TOOL_JACKHMMER, {FF_DB_UNIREF90, FF_DB_UNIREF90}, 8},
    [FF_SEARCH_BFD] = {"bfd", FF_TOOL_HHBLITS, {FF_DB_BFD, FF_DB_UNIREF30}, 4},
    [FF_SEARCH_MGNIFY] = {"mgnify", FF_TOOL_JACKHMMER, {FF_DB_MGNIFY, FF_DB_MGNIFY}, 8},
    [FF_SEARCH_MMSEQS] = {"mmseqs", FF_TOOL_MMSEQS, {FF_DB_MMSEQS, FF_DB_MMSEQS}, 0},
    [FF_SEARCH_PDB70] = {"pdb70", FF_TOOL_HHSEARCH, {FF_DB_PDB70, FF_DB_PDB70}, 8},
    [FF_SEARCH_PDB_SEQRES] = {"pdb-seqres", FF_TOOL_HMMSEARCH, {FF_DB_PDB_SEQRES, FF_DB_PDB_SEQRES}, 8},
};

/* Templates wait for UniRef90; of the others, those that run longest go first. */
static const ff_search_kind start_order[FF_NUM_SEARCHES] = {
    FF_SEARCH_MMSEQS, FF_SEARCH_UNIREF90, FF_SEARCH_PDB70, FF_SEARCH_PDB_SEQRES, FF_SEARCH_BFD, FF_SEARCH_MGNIFY};

const char *ff_search_db_name(ff_search_db db) { return dbs[db].name; }
const char *ff_search_tool_name(ff_search_tool tool) { return tools[tool].name; }
const char *ff_search_tool_option(ff_search_tool tool) { return tools[tool].option; }
const char *ff_search_kind_name(ff_search_kind kind) { return kinds[kind].name; }

static bool is_wanted(const ff_search_options *o, ff_search_kind kind)
{
    return o->databases[kinds[kind].databases[0]] != NULL || o->databases[kinds[kind].databases[1]] != NULL;
}

bool ff_search_wanted(const ff_search_options *options)
{
    for (int k = 0; k < FF_NUM_SEARCHES; k++)
        if (is_wanted(options, k))
            return true;
    return false;
}

/* ---- 2. opening: every database and program ---- */

ff_status ff_search_find_tool(ff_ctx *ctx, char **path, ff_search_tool tool, const ff_search_options *options)
{
    return ff_find_program(ctx, path, tools[tool].option, options->programs[tool], tools[tool].variable,
                           tools[tool].name);
}

static ff_status need_tool(ff_ctx *ctx, ff_search *s, ff_search_tool tool)
{
    if (s->programs[tool] != NULL)
        return FF_OK;
    FF_TRY(ff_search_find_tool(ctx, &s->programs[tool], tool, &s->options));
    return ff_search_program_identity(ctx, s->programs[tool], s->program_identities[tool]);
}

/* The cache folder, and in it a scratch folder of this run. */
static ff_status make_folders(ff_ctx *ctx, ff_search *s)
{
    s->own_cache = s->options.cache == NULL;
    if (s->own_cache) {
        FF_TRY(ff_make_temporary_folder(ctx, &s->cache));
    } else {
        s->cache = strdup(s->options.cache);
        if (s->cache == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
        FF_TRY(ff_make_folders(ctx, s->cache));
    }
    if (asprintf(&s->scratch, "%s/work-%ld-XXXXXX", s->cache, (long)getpid()) < 0) {
        s->scratch = NULL;
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    }
    if (mkdtemp(s->scratch) == NULL) {
        const int error = errno;
        free(s->scratch);
        s->scratch = NULL;
        return FF_FAIL(ctx, FF_ERR_IO, "--cache: cannot write in %s: %s", s->cache, strerror(error));
    }
    return FF_OK;
}

/* hmmsearch stops at the first character it does not know, at the end of a long run perhaps. */
static ff_status prepare_seqres(ff_ctx *ctx, ff_search *s)
{
    const char *path = s->databases[FF_DB_PDB_SEQRES].path;
    char *clean = NULL;
    int64_t num_bad = 0, first_bad = 0;
    if (asprintf(&clean, "%s/pdb_seqres.txt", s->scratch) < 0)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    const ff_status status = ff_database_clean_fasta(ctx, path, clean, &num_bad, &first_bad);
    if (status == FF_OK && num_bad > 0)
        FF_WARN(ctx, "%s:%lld: %lld characters are no residues (hmmsearch would stop there); they are read as X",
                path, (long long)first_bad, (long long)num_bad);
    s->seqres = status == FF_OK && num_bad > 0 ? clean : strdup(path);
    if (s->seqres != clean)
        free(clean);
    return status;
}

static ff_status open_all(ff_ctx *ctx, ff_search *s)
{
    const ff_search_options *o = &s->options;
    if (o->databases[FF_DB_PDB70] != NULL && o->databases[FF_DB_PDB_SEQRES] != NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "--pdb70 and --pdb-seqres both give templates; give one of them");
    for (int i = 0; i < FF_NUM_DBS; i++)
        if (o->databases[i] != NULL)
            FF_TRY(ff_database_open(ctx, &s->databases[i], dbs[i].kind, dbs[i].option, o->databases[i]));
    for (int k = 0; k < FF_NUM_SEARCHES; k++)
        if (is_wanted(o, k))
            FF_TRY(need_tool(ctx, s, kinds[k].tool));
    if (o->databases[FF_DB_PDB_SEQRES] != NULL)
        FF_TRY(need_tool(ctx, s, FF_TOOL_HMMBUILD));
    FF_TRY(make_folders(ctx, s));
    return o->databases[FF_DB_PDB_SEQRES] != NULL ? prepare_seqres(ctx, s) : FF_OK;
}

ff_status ff_search_open(ff_ctx *ctx, ff_search **search, const ff_search_options *options)
{
    *search = NULL;
    ff_search *s = calloc(1, sizeof *s);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    s->options = *options;
    s->num_cpus = options->num_cpus > 0 ? options->num_cpus : ff_num_cpus();
    const ff_status status = open_all(ctx, s);
    if (status == FF_OK)
        *search = s;
    else
        ff_search_close(s);
    return status;
}

void ff_search_close(ff_search *search)
{
    if (search == NULL)
        return;
    for (int i = 0; i < FF_NUM_DBS; i++)
        ff_database_close(&search->databases[i]);
    for (int i = 0; i < FF_NUM_TOOLS; i++)
        free(search->programs[i]);
    if (search->scratch != NULL)
        ff_remove_folder(search->scratch);
    if (search->own_cache && search->cache != NULL)
        ff_remove_folder(search->cache);
    free(search->scratch);
    free(search->cache);
    free(search->seqres);
    free(search);
}

/* ---- 3. a job and its end ---- */

static ff_status set_output(ff_ctx *ctx, ff_search_output *output, const char *path, const char *message, bool cached,
                            double wall_s)
{
    output->from_cache = cached;
    output->wall_s = wall_s;
    output->path = path == NULL ? NULL : strdup(path);
    output->message = path != NULL ? NULL : strdup(message);
    return output->path == NULL && output->message == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory") : FF_OK;
}

/* Note one result with a query and its twins; those with all their results are handed on. */
static ff_status give_result(ff_ctx *ctx, const ff_search_job *job, int64_t query, const char *path,
                             const char *message, double wall_s)
{
    for (int64_t i = query; i >= 0; i = job->next_twin[i]) {
        ff_search_query *q = &job->queries[i];
        FF_TRY(set_output(ctx, &q->outputs[job->kind], path, message, job->from_cache, wall_s));
        if (--q->num_open == 0 && job->done != NULL)
            FF_TRY(job->done(ctx, job->done_arg, i));
    }
    return FF_OK;
}

static ff_status end_job(ff_ctx *ctx, ff_task *task)
{
    ff_search_job *job = task->arg;
    const bool good = task->state == FF_TASK_DONE;
    if (job->folder != NULL)
        ff_remove_folder(job->folder);
    if (good)
        FF_INFO(ctx, "%s: %s%.1f s", task->name, job->from_cache ? "from the cache, " : "", task->wall_s);
    else
        FF_WARN(ctx, "%s", task->message);
    if (job->kind != FF_SEARCH_MMSEQS)
        return give_result(ctx, job, job->query, good ? job->entry : NULL, task->message, task->wall_s);
    for (int64_t i = 0; i < job->num_batch; i++) {
        const int64_t k = job->batch[i];
        char *entry = NULL;
        FF_TRY(ff_search_query_entry(ctx, job->search, job->kind, job->queries[k].sequence, &entry));
        const ff_status status = give_result(ctx, job, k, good ? entry : NULL, task->message, task->wall_s);
        free(entry);
        FF_TRY(status);
    }
    return FF_OK;
}

static void destroy_job(ff_search_job *job)
{
    free(job->batch);
    free(job->name);
    free(job->folder);
    free(job->entry);
}

/* ---- 4. the run ---- */

typedef struct {
    ff_search *search;
    ff_search_query *queries;
    int64_t num_queries;
    bool *is_twin;      /* [num_queries] an earlier one has the same work */
    int64_t *next_twin; /* [num_queries] the next one with the same work, or -1 */
    ff_search_job *jobs;
    ff_task *tasks;
    int64_t num_tasks;
    ff_search_done_fn done;
    void *done_arg;
} search_run;

static ff_status add_task(ff_ctx *ctx, search_run *run, ff_search_kind kind, int64_t query, int64_t after)
{
    ff_search_job *job = &run->jobs[run->num_tasks];
    *job = (ff_search_job){.search = run->search,
                           .kind = kind,
                           .queries = run->queries,
                           .query = query,
                           .done = run->done,
                           .done_arg = run->done_arg,
                           .next_twin = run->next_twin};
    const char *tool = tools[kinds[kind].tool].name;
    const int length = kind == FF_SEARCH_MMSEQS
                           ? asprintf(&job->name, "%s of %s", tool, "all queries")
                           : asprintf(&job->name, "%s %s of %.60s", tool, kinds[kind].name, run->queries[query].name);
    if (length < 0) {
        job->name = NULL;
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    }
    run->tasks[run->num_tasks++] = (ff_task){
        .name = job->name,
        .num_cpus = kinds[kind].num_cpus > 0 ? kinds[kind].num_cpus : run->search->num_cpus,
        .after = after,
        .next = ff_search_next,
        .ended = end_job,
        .arg = job,
    };
    return FF_OK;
}

/* MMseqs2 for every query that is not in the cache; one task more for each that is. */
static ff_status add_mmseqs(ff_ctx *ctx, search_run *run)
{
    int64_t *batch = malloc((size_t)(run->num_queries > 0 ? run->num_queries : 1) * sizeof *batch), n = 0;
    if (batch == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < run->num_queries; i++)
        if (!run->is_twin[i])
            batch[n++] = i;
    ff_status status = add_task(ctx, run, FF_SEARCH_MMSEQS, batch[0], -1);
    ff_search_job *job = &run->jobs[run->num_tasks - 1];
    if (status != FF_OK) {
        free(batch);
        return status;
    }
    job->batch = batch;
    job->num_batch = n;
    return FF_OK;
}

/* Give out what is in the cache and leave the others in the batch. */
static ff_status sift_mmseqs(ff_ctx *ctx, ff_search_job *job)
{
    int64_t left = 0;
    for (int64_t i = 0; i < job->num_batch; i++) {
        const int64_t k = job->batch[i];
        char *entry = NULL;
        FF_TRY(ff_search_query_entry(ctx, job->search, job->kind, job->queries[k].sequence, &entry));
        ff_status status = FF_OK;
        job->from_cache = ff_search_entry_is_good(ctx, job->kind, entry);
        if (job->from_cache)
            status = give_result(ctx, job, k, entry, "", 0);
        else
            job->batch[left++] = k;
        free(entry);
        FF_TRY(status);
    }
    job->num_batch = left;
    job->from_cache = false;
    return FF_OK;
}

static ff_status next_or_cached(ff_ctx *ctx, ff_task *task, ff_subprocess *command, bool *more)
{
    ff_search_job *job = task->arg;
    if (task->step == 0) {
        FF_TRY(sift_mmseqs(ctx, job));
        if (job->num_batch == 0) {
            job->from_cache = true;
            *more = false;
            return FF_OK;
        }
    }
    return ff_search_next(ctx, task, command, more);
}

/* Queries with the same sequence and the same alignment for templates are one piece of work. */
static ff_status find_twins(ff_ctx *ctx, search_run *run)
{
    ff_name_table seen = {0};
    ff_text_buffer key = {0};
    int64_t *last = malloc((size_t)(run->num_queries + 1) * sizeof *last); /* [seen] of each kind of work */
    ff_status status = last == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory") : FF_OK;
    for (int64_t i = 0; status == FF_OK && i < run->num_queries; i++) {
        const ff_search_query *q = &run->queries[i];
        const char *msa = q->template_msa == NULL ? "" : q->template_msa;
        int64_t index;
        bool added;
        ff_text_buffer_clear(&key);
        FF_TRY_DONE(ff_text_buffer_put(ctx, &key, q->sequence, strlen(q->sequence)));
        FF_TRY_DONE(ff_text_buffer_put(ctx, &key, "\n", 1));
        FF_TRY_DONE(ff_text_buffer_put(ctx, &key, msa, strlen(msa)));
        FF_TRY_DONE(ff_name_table_add(ctx, &seen, key.data, key.size, &index, &added));
        run->is_twin[i] = !added;
        run->next_twin[i] = -1;
        if (!added)
            run->next_twin[last[index]] = i;
        last[index] = i;
    }
done:
    free(last);
    ff_text_buffer_destroy(&key);
    ff_name_table_destroy(&seen);
    return status;
}

static ff_status add_tasks(ff_ctx *ctx, search_run *run)
{
    const ff_search_options *o = &run->search->options;
    if (is_wanted(o, FF_SEARCH_MMSEQS) && run->num_queries > 0)
        FF_TRY(add_mmseqs(ctx, run));
    for (int64_t i = 0; i < run->num_queries; i++) {
        int64_t uniref90 = -1;
        for (int j = 0; j < FF_NUM_SEARCHES; j++) {
            const ff_search_kind kind = start_order[j];
            if (!is_wanted(o, kind))
                continue;
            run->queries[i].outputs[kind].wanted = true;
            run->queries[i].num_open++;
            if (run->is_twin[i] || kind == FF_SEARCH_MMSEQS)
                continue;
            const bool for_templates = kind == FF_SEARCH_PDB70 || kind == FF_SEARCH_PDB_SEQRES;
            FF_TRY(add_task(ctx, run, kind, i, for_templates ? uniref90 : -1));
            if (kind == FF_SEARCH_UNIREF90)
                uniref90 = run->num_tasks - 1;
        }
    }
    return FF_OK;
}

ff_status ff_search_run(ff_ctx *ctx, ff_search *search, ff_search_query *queries, int64_t num_queries,
                        ff_search_done_fn done, void *arg)
{
    search_run run = {
        .search = search, .queries = queries, .num_queries = num_queries, .done = done, .done_arg = arg};
    const size_t most = (size_t)num_queries * FF_NUM_SEARCHES + 1;
    ff_status status = FF_OK;
    run.is_twin = calloc((size_t)num_queries + 1, sizeof *run.is_twin);
    run.next_twin = calloc((size_t)num_queries + 1, sizeof *run.next_twin);
    run.jobs = calloc(most, sizeof *run.jobs);
    run.tasks = calloc(most, sizeof *run.tasks);
    if (run.is_twin == NULL || run.next_twin == NULL || run.jobs == NULL || run.tasks == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
        goto done;
    }
    for (int64_t i = 0; i < num_queries; i++) {
        memset(queries[i].outputs, 0, sizeof queries[i].outputs);
        queries[i].num_open = 0;
    }
    FF_TRY_DONE(find_twins(ctx, &run));
    FF_TRY_DONE(add_tasks(ctx, &run));
    for (int64_t i = 0; i < run.num_tasks; i++)
        if (run.jobs[i].kind == FF_SEARCH_MMSEQS)
            run.tasks[i].next = next_or_cached;
    FF_TRY_DONE(ff_tasks_run(ctx, run.tasks, run.num_tasks, search->num_cpus, search->options.cancel));
done:
    for (int64_t i = 0; i < run.num_tasks; i++)
        destroy_job(&run.jobs[i]);
    free(run.tasks);
    free(run.jobs);
    free(run.next_twin);
    free(run.is_twin);
    return status;
}

void ff_search_queries_clear(ff_search_query *queries, int64_t num_queries)
{
    for (int64_t i = 0; i < num_queries; i++)
        for (int k = 0; k < FF_NUM_SEARCHES; k++) {
            free(queries[i].outputs[k].path);
            free(queries[i].outputs[k].message);
            queries[i].outputs[k] = (ff_search_output){0};
        }
}
