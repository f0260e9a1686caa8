/* command_chains.c - fastfold-data chains: from structure files to a training set.
 *
 * Contents
 *   1. options
 *   2. files
 *   3. one chain
 *   4. one file
 *   5. all of them */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/chain_lists.h"
#include "data/chain_record.h"
#include "data/command.h"
#include "data/structure_find.h"
#include "io/safe_file.h"

/* ---- 1. options ---- */

typedef struct {
    const char *chain, *chain_list, *msa_dir, *clusters, *max_release_date, *fasta, *output;
    double assume_resolution;
    int64_t max_msa;
    bool allow_undated, alphafold_compatible, distillation, append;
} chains_options;

#define AT(member) offsetof(chains_options, member)
static const ff_option table[] = {
    {"chain", FF_OPTION_STRING, AT(chain), NULL, NULL, "Chains", "author's id: only this chain of each file"},
    {"chain-list", FF_OPTION_STRING, AT(chain_list), NULL, NULL, "Chains",
     "file with names FILEID_CHAIN, in any case: only these"},
    {"max-release-date", FF_OPTION_STRING, AT(max_release_date), NULL, NULL, "Chains",
     "leave out entries released later, YYYY-MM-DD, and undated ones"},
    {"allow-undated", FF_OPTION_FLAG, AT(allow_undated), NULL, NULL, "Chains",
     "entries without a release date pass that"},
    {"alphafold-compatible", FF_OPTION_FLAG, AT(alphafold_compatible), NULL, NULL, "Chains",
     "refuse mmCIF files AlphaFold refuses"},
    {"msa-dir", FF_OPTION_STRING, AT(msa_dir), NULL, NULL, "Alignments",
     "folder with NAME/*.a3m, *.sto or NAME.a3m ... for chains; without one a chain stands alone"},
    {"max-msa", FF_OPTION_INT64, AT(max_msa), "0", "0..", "Alignments", "most rows kept of an alignment, 0 = all"},
    {"clusters", FF_OPTION_STRING, AT(clusters), NULL, NULL, "Record",
     "file with one cluster a line, names separated by blanks"},
    {"assume-resolution", FF_OPTION_DOUBLE, AT(assume_resolution), "0", "0..", "Record",
     "Å, for entries that tell none, so that they train the confidence heads; 0 = leave unknown"},
    {"distillation", FF_OPTION_FLAG, AT(distillation), NULL, NULL, "Record",
     "mark the chains as predicted, for self-distillation"},
    {"append", FF_OPTION_FLAG, AT(append), NULL, NULL, "Output", "extend the data set that is there"},
    {"fasta", FF_OPTION_STRING, AT(fasta), NULL, NULL, "Output",
     "sequences of all records too, to search with: the alignments can then be given to a second run"},
    {"o", FF_OPTION_STRING, AT(output), NULL, NULL, "Output", "the data set"},
    FF_OPTION_END};

typedef struct {
    ff_ctx *ctx;
    const chains_options *o;
    ff_text_list files;
    ff_chain_list wanted, clusters;
    bool *seen; /* of `wanted` */
    ff_chain_alignments alignments;
    ff_dataset_writer *writer;
    ff_batch batch;
    int64_t residues, with_alignment, too_new, undated, not_listed;
} chains_run;

/* ---- 2. files ---- */

typedef struct {
    char **paths;
    int64_t count, capacity;
} path_list;

static int compare_paths(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static ff_status put_path(ff_ctx *ctx, path_list *list, const char *folder, const char *name)
{
    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity > 0 ? 2 * list->capacity : 256;
        char **paths = realloc(list->paths, (size_t)capacity * sizeof *paths);
        if (paths == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory listing %s", folder);
        list->paths = paths;
        list->capacity = capacity;
    }
    if (asprintf(&list->paths[list->count], "%s/%s", folder, name) < 0)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory listing %s", folder);
    list->count++;
    return FF_OK;
}

/* Structure files of a folder and, some levels deep, of those below it. */
static ff_status list_folder(ff_ctx *ctx, path_list *list, const char *folder, int depth)
{
    enum { MAX_DEPTH = 4 };
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot list folder %s: %s", folder, strerror(errno));
    ff_status status = FF_OK;
    for (const struct dirent *d = readdir(dir); status == FF_OK && d != NULL; d = readdir(dir)) {
        struct stat st;
        char path[4096];
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (ff_structure_is_file_name(d->d_name))
            status = put_path(ctx, list, folder, d->d_name);
        else if (depth < MAX_DEPTH && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            status = list_folder(ctx, list, path, depth + 1);
    }
    closedir(dir);
    return status;
}

/* Files as given, folders as the sorted files in them. */
static ff_status collect_files(chains_run *run, const ff_arguments *args)
{
    ff_status status = FF_OK;
    for (int i = 0; status == FF_OK && i < args->num_positional; i++) {
        const char *path = args->positional[i];
        struct stat st;
        path_list list = {NULL, 0, 0};
        if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
            status = ff_text_list_add(run->ctx, &run->files, path, strlen(path));
            continue;
        }
        status = list_folder(run->ctx, &list, path, 0);
        if (status == FF_OK && list.count == 0)
            status =
                FF_FAIL(run->ctx, FF_ERR_IO,
                        "%s: no structure file in this folder (.cif, .mmcif, .pdb or .ent, also with .gz)", path);
        if (list.count > 0)
            qsort(list.paths, (size_t)list.count, sizeof *list.paths, compare_paths);
        for (int64_t k = 0; k < list.count; k++) {
            if (status == FF_OK)
                status = ff_text_list_add(run->ctx, &run->files, list.paths[k], strlen(list.paths[k]));
            free(list.paths[k]);
        }
        free(list.paths);
    }
    return status;
}

/* ---- 3. one chain ---- */

/* A chain on its way: where it comes from and what it will be called. */
typedef struct {
    const char *path, *file_id, *name;
    const ff_structure *structure;
    const ff_structure_chain *chain;
} chain_source;

static ff_status write_chain(chains_run *run, const chain_source *source, const ff_array_set *features,
                             int32_t *index)
{
    const ff_structure *s = source->structure;
    const ff_structure_chain *c = source->chain;
    const ff_array *msa = ff_array_find(features, "msa"), *deletions = ff_array_find(features, "deletion_matrix_int");
    const bool assumed = s->resolution == 0 && run->o->assume_resolution > 0;
    ff_chain_residue_index(c, index);
    const ff_dataset_record record = {
        .name = source->name,
        .sequence = c->sequence,
        .source = source->path,
        .release_date = s->release_date,
        .method = s->method,
        .cluster = ff_chain_list_cluster(&run->clusters, source->name),
        .num_res = c->num_res,
        .num_observed = c->num_observed,
        .num_msa = msa == NULL ? 0 : msa->shape[0],
        .resolution = assumed ? (float)run->o->assume_resolution : s->resolution,
        .max_aa_fraction = ff_dataset_max_aa_fraction(c->aatype, c->num_res),
        .resolution_assumed = assumed,
        .is_distillation = run->o->distillation,
    };
    const ff_dataset_arrays arrays = {c->aatype,
                                      index,
                                      c->positions,
                                      c->mask,
                                      msa == NULL ? NULL : msa->i32,
                                      deletions == NULL ? NULL : deletions->i32};
    const ff_status status = ff_dataset_add(run->ctx, run->writer, &record, &arrays);
    if (status == FF_ERR_ARG) { /* which file it came from */
        char message[FF_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%.400s: %.500s", source->path, run->ctx->message);
        ff_context_clear(run->ctx);
        return FF_FAIL(run->ctx, status, "%s", message);
    }
    return status;
}

static ff_status add_chain(chains_run *run, const chain_source *source)
{
    const ff_structure_chain *c = source->chain;
    bool aligned = false;
    ff_array_set features;
    if (c->problem != NULL)
        return FF_FAIL(run->ctx, FF_ERR_FORMAT, "%s: chain %s: %s", source->path, c->id, c->problem);
    ff_array_set_init(&features);
    int32_t *index = malloc((size_t)c->num_res * sizeof *index);
    ff_status status = index == NULL ? FF_FAIL(run->ctx, FF_ERR_MEM, "%s: out of memory", source->path) : FF_OK;
    if (status == FF_OK && run->o->msa_dir != NULL)
        status = ff_chain_alignment_read(run->ctx, &run->alignments, source->name, source->file_id,
                                         source->structure->entry_id, c, &features, &aligned);
    if (status == FF_OK)
        status = write_chain(run, source, &features, index);
    ff_array_set_destroy(&features);
    free(index);
    if (status == FF_OK) {
        run->residues += c->num_res;
        run->with_alignment += aligned;
    }
    return status;
}

/* ---- 4. one file ---- */

/* Count the outcome of one chain or file; what stops the whole run comes back. */
static ff_status count(chains_run *run, ff_status status)
{
    if (status == FF_OK)
        ff_batch_good(&run->batch);
    else if (status == FF_ERR_MEM || (status == FF_ERR_IO && ff_dataset_failed(run->writer)))
        return status;
    else
        ff_batch_bad(&run->batch, run->ctx);
    return FF_OK;
}

/* Whether the entry's date lets it in. */
static bool date_passes(chains_run *run, const ff_structure *s)
{
    const char *limit = run->o->max_release_date;
    if (limit == NULL || (s->release_date[0] == '\0' && run->o->allow_undated))
        return true;
    if (s->release_date[0] == '\0')
        run->undated += s->num_chains;
    else if (strcmp(s->release_date, limit) > 0)
        run->too_new += s->num_chains;
    return s->release_date[0] != '\0' && strcmp(s->release_date, limit) <= 0;
}

static bool is_wanted(chains_run *run, const char *name, const char *chain_id)
{
    if (run->o->chain != NULL && strcmp(run->o->chain, chain_id) != 0)
        return false;
    if (run->o->chain_list == NULL)
        return true;
    const int64_t index = ff_chain_list_find(&run->wanted, name);
    if (index >= 0)
        run->seen[index] = true;
    return index >= 0;
}

static ff_status add_chains(chains_run *run, const char *path, const ff_structure *s)
{
    char file_id[FF_RECORD_NAME_BYTES], name[FF_RECORD_NAME_BYTES];
    int64_t taken = 0;
    ff_chain_file_id(file_id, path);
    for (int64_t k = 0; k < s->num_chains; k++) {
        const ff_structure_chain *c = &s->chains[k];
        const chain_source source = {path, file_id, ff_chain_record_name(name, file_id, c->id), s, c};
        if (!is_wanted(run, name, c->id)) {
            run->not_listed++;
            continue;
        }
        taken++;
        FF_TRY(count(run, add_chain(run, &source)));
    }
    if (taken == 0 && run->o->chain != NULL && run->o->chain_list == NULL)
        return count(run, FF_FAIL(run->ctx, FF_ERR_FORMAT, "%s: no protein chain %s; the first one is %s", path,
                                  run->o->chain, s->chains[0].id));
    return FF_OK;
}

static ff_status add_file(chains_run *run, const char *path)
{
    ff_structure s;
    const ff_structure_options how = {FF_STRUCTURE_AUTO, run->o->alphafold_compatible};
    ff_status status = ff_structure_read(run->ctx, &s, path, &how);
    if (status != FF_OK)
        return status == FF_ERR_UNSUPPORTED ? status : count(run, status);
    status = date_passes(run, &s) ? add_chains(run, path, &s) : FF_OK;
    ff_structure_destroy(&s);
    return status;
}

/* ---- 5. all of them ---- */

static ff_status open_run(chains_run *run, const ff_arguments *args)
{
    const chains_options *o = run->o;
    FF_TRY(collect_files(run, args));
    if (o->chain_list != NULL) {
        FF_TRY(ff_chain_list_read(run->ctx, &run->wanted, o->chain_list));
        run->seen = calloc((size_t)run->wanted.names.names.count, sizeof *run->seen);
        if (run->seen == NULL)
            return FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    }
    if (o->clusters != NULL)
        FF_TRY(ff_cluster_list_read(run->ctx, &run->clusters, o->clusters));
    if (o->msa_dir != NULL)
        FF_TRY(ff_chain_alignments_open(run->ctx, &run->alignments, o->msa_dir, o->max_msa));
    return ff_dataset_create(run->ctx, &run->writer, o->output, o->append);
}

static void destroy_run(chains_run *run)
{
    ff_dataset_abandon(run->writer);
    ff_chain_alignments_destroy(&run->alignments);
    ff_chain_list_destroy(&run->wanted);
    ff_chain_list_destroy(&run->clusters);
    ff_text_list_destroy(&run->files);
    free(run->seen);
}

/* Names of the chain list that no file had. */
static void report_missing(chains_run *run)
{
    for (int64_t i = 0; run->seen != NULL && i < run->wanted.names.names.count; i++)
        if (!run->seen[i]) {
            FF_FAIL(run->ctx, FF_ERR_FORMAT, "%s:%lld: chain %s is in none of the files", run->o->chain_list,
                    (long long)run->wanted.numbers[i], ff_name_table_get(&run->wanted.names, i));
            ff_batch_bad(&run->batch, run->ctx);
        }
}

static ff_status write_fasta(ff_ctx *ctx, FILE *file, const void *arg)
{
    const ff_dataset *d = arg;
    (void)ctx;
    for (int64_t k = 0; k < ff_dataset_count(d); k++)
        fprintf(file, ">%s\n%s\n", ff_dataset_get(d, k)->name, ff_dataset_get(d, k)->sequence);
    return FF_OK;
}

static ff_status write_sequences(chains_run *run)
{
    ff_dataset *d;
    if (run->o->fasta == NULL)
        return FF_OK;
    FF_TRY(ff_dataset_open(run->ctx, &d, run->o->output));
    const ff_status status = ff_safe_file_write(run->ctx, run->o->fasta, write_fasta, d);
    ff_dataset_close(d);
    return status;
}

static ff_status finish(chains_run *run)
{
    report_missing(run);
    if (run->batch.good == 0 && !run->o->append)
        return FF_FAIL(run->ctx, FF_ERR_FORMAT,
                       "no chain is left for %s (%lld released too late, %lld undated, %lld not asked for)",
                       run->o->output, (long long)run->too_new, (long long)run->undated, (long long)run->not_listed);
    ff_dataset_writer *writer = run->writer;
    const int64_t records = ff_dataset_written(writer);
    run->writer = NULL;
    FF_TRY(ff_dataset_commit(run->ctx, writer));
    FF_TRY(write_sequences(run));
    printf("%s: %lld chains of %lld residues written, %lld with an alignment; %lld records in all; left out: %lld "
           "released too late, "
           "%lld undated, %lld not asked for\n",
           run->o->output, (long long)run->batch.good, (long long)run->residues, (long long)run->with_alignment,
           (long long)records, (long long)run->too_new, (long long)run->undated, (long long)run->not_listed);
    return FF_OK;
}

static int run_chains(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    chains_run run = {.ctx = ctx, .o = options};
    if (args->num_positional == 0)
        return ff_command_usage(ctx, "no structure file or folder given; see --help");
    if (run.o->output == NULL)
        return ff_command_usage(ctx, "-o needs the name of the data set");
    if (run.o->max_release_date != NULL && !ff_structure_is_date(run.o->max_release_date))
        return ff_command_usage(ctx, "--max-release-date: \"%s\" is no date like 2021-11-01",
                                run.o->max_release_date);
    ff_status status = open_run(&run, args);
    for (int64_t i = 0; status == FF_OK && i < run.files.count; i++)
        status = add_file(&run, ff_text_list_get(&run.files, i));
    if (status == FF_OK)
        status = finish(&run);
    destroy_run(&run);
    const int exit_status = ff_batch_finish(&run.batch, ctx);
    return status == FF_OK ? exit_status : FF_EXIT_FAILED;
}

const ff_command ff_command_chains = {"chains",
                                      "from structure files to a training set of their protein chains",
                                      {"fastfold-data chains", "STRUCTURE|DIR... -o dataset.h5 [options]",
                                       "Writes every protein chain of the files (mmCIF or PDB, plain or gzip; "
                                       "folders are searched) as a record FILEID_CHAIN with\n"
                                       "sequence, coordinates and, with --msa-dir, its alignment. Nothing is "
                                       "filtered by resolution or composition here: training\n"
                                       "does that when it draws.",
                                       table},
                                      sizeof(chains_options),
                                      run_chains};
