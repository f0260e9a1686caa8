/* Contents: a maker; files of queries; searches; features. */
#include "data/make_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/fasta.h"
#include "data/msa_folder.h"
#include "data/search_config.h"

typedef struct {
    ff_msa_files files;      /* of --msa-dir */
    char *complaint;         /* NULL = none */
    const ff_search_query *search; /* NULL = none */
} entry;

struct ff_feature_maker {
    const ff_feature_options *options;
    ff_search_config config;
    ff_search_options search_options;
    ff_search *search; /* NULL = no database was given */
    ff_template_source *templates;
    char *kalign;
    const ff_feature_query *queries; /* [count] */
    entry *entries;                  /* [count] */
    ff_search_query *searches;       /* [count], NULL without a search */
    int64_t count;
};

/* ---- a maker ---- */

static ff_status check_options(ff_ctx *ctx, const ff_feature_options *o, const ff_search_options *search)
{
    const bool pdb70 = search->databases[FF_DB_PDB70] != NULL, seqres = search->databases[FF_DB_PDB_SEQRES] != NULL;
    if ((o->hhr != NULL || pdb70 || seqres) && o->template_dir == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s needs --template-dir DIR, where the structures of the hits are",
                       o->hhr != NULL ? "--hhr" : "a template database");
    if (o->hhr != NULL && (pdb70 || seqres))
        return FF_FAIL(ctx, FF_ERR_ARG, "--hhr gives template hits, and so does a template database; give one of them");
    if (pdb70 && seqres)
        return FF_FAIL(ctx, FF_ERR_ARG, "--pdb70 and --pdb-seqres both give templates; give one of them");
    return FF_OK;
}

static ff_status open_templates(ff_ctx *ctx, ff_feature_maker *maker)
{
    const ff_feature_options *o = maker->options;
    const ff_search_options *search = &maker->search_options;
    if (o->template_dir == NULL)
        return FF_OK;
    if (ff_search_find_tool(ctx, &maker->kalign, FF_TOOL_KALIGN, search) != FF_OK) {
        if (search->programs[FF_TOOL_KALIGN] != NULL)
            return ctx->status;
        ff_context_clear(ctx); /* few hits need it; those that do will say so */
    }
    const ff_template_options options = {.folder = o->template_dir,
                                         .obsolete = o->obsolete,
                                         .max_date = o->max_template_date,
                                         .allow_undated = o->allow_undated,
                                         .alphafold_compatible = o->alphafold_compatible,
                                         .max_templates = o->max_templates,
                                         .kalign = maker->kalign,
                                         .cancel = search->cancel};
    return ff_template_source_create(ctx, &maker->templates, &options);
}

static ff_status set_up(ff_ctx *ctx, ff_feature_maker *maker)
{
    const ff_feature_options *o = maker->options;
    if (o->databases_file != NULL)
        FF_TRY(ff_search_config_read(ctx, &maker->config, o->databases_file));
    ff_search_config_apply(&maker->config, &maker->search_options);
    FF_TRY(check_options(ctx, o, &maker->search_options));
    FF_TRY(open_templates(ctx, maker));
    return ff_search_wanted(&maker->search_options) ? ff_search_open(ctx, &maker->search, &maker->search_options) : FF_OK;
}

ff_status ff_feature_maker_create(ff_ctx *ctx, ff_feature_maker **made, const ff_feature_options *o,
                                  const volatile sig_atomic_t *cancel)
{
    ff_feature_maker *maker = *made = calloc(1, sizeof *maker);
    if (maker == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    maker->options = o;
    maker->search_options = (ff_search_options){
        .cache = o->cache, .num_cpus = (int)o->cpus, .time_limit_s = o->time_limit, .cancel = cancel};
    memcpy(maker->search_options.databases, o->databases, sizeof o->databases);
    memcpy(maker->search_options.programs, o->programs, sizeof o->programs);
    const ff_status status = set_up(ctx, maker);
    if (status != FF_OK) {
        ff_feature_maker_destroy(maker);
        *made = NULL;
    }
    return status;
}

void ff_feature_maker_destroy(ff_feature_maker *maker)
{
    if (maker == NULL)
        return;
    if (maker->searches != NULL)
        ff_search_queries_clear(maker->searches, maker->count);
    ff_search_close(maker->search);
    ff_template_source_destroy(maker->templates);
    for (int64_t i = 0; i < maker->count; i++) {
        ff_msa_files_destroy(&maker->entries[i].files);
        free(maker->entries[i].complaint);
    }
    free(maker->entries);
    free(maker->searches);
    free(maker->kalign);
    ff_search_config_destroy(&maker->config);
    free(maker);
}

bool ff_feature_maker_searches(const ff_feature_maker *maker) { return maker->search != NULL; }

/* ---- files of queries ---- */

/* The first word of the description is the name people give their files; ours is the same made harmless. */
static ff_status find_files(ff_ctx *ctx, const ff_feature_maker *maker, const ff_feature_query *query, entry *e)
{
    const char *folder = maker->options->msa_dir;
    char word[FF_FILE_NAME_BYTES], text[600];
    const int length = (int)strcspn(query->description, " \t|");
    snprintf(word, sizeof word, "%.*s", length < (int)sizeof word - 1 ? length : (int)sizeof word - 1, query->description);
    if (word[0] != '\0' && strchr(word, '/') == NULL && word[0] != '.')
        FF_TRY(ff_msa_files_find(ctx, &e->files, folder, word));
    if (e->files.msas.count == 0 && e->files.hits == NULL) {
        ff_msa_files_destroy(&e->files);
        FF_TRY(ff_msa_files_find(ctx, &e->files, folder, query->name));
    }
    if (e->files.msas.count > 0 || e->files.hits != NULL || maker->search != NULL)
        return FF_OK;
    if (asprintf(&e->complaint, "%s: --msa-dir: %s", query->source,
                 ff_msa_folder_explain(folder, query->name, text, sizeof text)) < 0) {
        e->complaint = NULL;
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    }
    return FF_OK;
}

ff_status ff_feature_maker_set_queries(ff_ctx *ctx, ff_feature_maker *maker, const ff_feature_query *queries, int64_t count)
{
    maker->entries = calloc((size_t)count + 1, sizeof *maker->entries);
    if (maker->entries == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    maker->queries = queries;
    maker->count = count;
    for (int64_t i = 0; i < count && maker->options->msa_dir != NULL; i++)
        FF_TRY(find_files(ctx, maker, &queries[i], &maker->entries[i]));
    return FF_OK;
}

const char *ff_feature_maker_complaint(const ff_feature_maker *maker, int64_t query)
{
    return maker->entries[query].complaint;
}

/* ---- searches ---- */

ff_status ff_feature_maker_search(ff_ctx *ctx, ff_feature_maker *maker, ff_search_done_fn done, void *arg)
{
    if (maker->search == NULL)
        return FF_OK;
    maker->searches = calloc((size_t)maker->count + 1, sizeof *maker->searches);
    if (maker->searches == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < maker->count; i++) {
        const ff_feature_query *q = &maker->queries[i];
        const ff_feature_options *o = maker->options;
        entry *e = &maker->entries[i];
        const char *msa = q->msa != NULL            ? q->msa
                          : o->msas.count > 0       ? o->msas.items[0]
                          : e->files.msas.count > 0 ? ff_text_list_get(&e->files.msas, 0)
                                                    : NULL;
        maker->searches[i] = (ff_search_query){.name = q->name, .sequence = q->sequence, .template_msa = msa};
        e->search = &maker->searches[i];
    }
    return ff_search_run(ctx, maker->search, maker->searches, maker->count, done, arg);
}

/* ---- features ---- */

/* All alignments of a query: its own, given, found in --msa-dir, searched. */
static int64_t collect_msas(const ff_feature_maker *maker, int64_t query, ff_query_msa *msas)
{
    const ff_feature_options *o = maker->options;
    const entry *e = &maker->entries[query];
    const ff_search_query *s = e->search;
    int64_t n = 0;
    if (maker->queries[query].msa != NULL)
        msas[n++] = (ff_query_msa){.path = maker->queries[query].msa};
    for (int i = 0; i < o->msas.count; i++)
        msas[n++] = (ff_query_msa){.path = o->msas.items[i]};
    for (int64_t i = 0; i < e->files.msas.count; i++) {
        const char *path = ff_text_list_get(&e->files.msas, i);
        msas[n++] = (ff_query_msa){.path = path, .max_seq = ff_msa_file_max_seq(path)};
    }
    for (int k = 0; s != NULL && k <= FF_SEARCH_MMSEQS; k++)
        if (s->outputs[k].path != NULL)
            msas[n++] = (ff_query_msa){.path = s->outputs[k].path,
                                       .searched = true,
                                       .max_seq = k == FF_SEARCH_UNIREF90 ? FF_UNIREF90_MAX_SEQ
                                                  : k == FF_SEARCH_MGNIFY ? FF_MGNIFY_MAX_SEQ
                                                                          : 0};
    return n;
}

static const char *choose_hits(const ff_feature_maker *maker, const entry *e)
{
    for (int k = FF_SEARCH_PDB70; e->search != NULL && k < FF_NUM_SEARCHES; k++)
        if (e->search->outputs[k].path != NULL)
            return e->search->outputs[k].path;
    return maker->options->hhr != NULL ? maker->options->hhr : e->files.hits;
}

/* The first search that failed, when that must not be. */
static ff_status check_searches(ff_ctx *ctx, const ff_feature_options *o, const ff_search_query *s)
{
    for (int k = 0; s != NULL && k < FF_NUM_SEARCHES; k++)
        if (s->outputs[k].message != NULL && !o->allow_failed_searches)
            return FF_FAIL(ctx, FF_ERR_IO, "%s%s", s->outputs[k].message,
                           o->cache != NULL ? " (the searches that worked are in --cache)" : "");
    return FF_OK;
}

ff_status ff_feature_maker_make(ff_ctx *ctx, ff_feature_maker *maker, int64_t query, ff_made_features *made)
{
    const ff_feature_options *o = maker->options;
    const ff_feature_query *q = &maker->queries[query];
    const entry *e = &maker->entries[query];
    const int64_t most = 1 + o->msas.count + e->files.msas.count + FF_NUM_SEARCHES;
    *made = (ff_made_features){.msas = NULL};
    ff_array_set_init(&made->set);
    FF_TRY(check_searches(ctx, o, e->search));
    made->msas = calloc((size_t)most, sizeof *made->msas);
    if (made->msas == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    made->input = (ff_query_input){.description = q->description,
                                   .sequence = q->sequence,
                                   .msas = made->msas,
                                   .num_msas = collect_msas(maker, query, made->msas),
                                   .hits = choose_hits(maker, e),
                                   .templates = maker->templates,
                                   .alphafold_compatible = o->alphafold_compatible,
                                   .quiet_alone = o->quiet_alone};
    return ff_query_features(ctx, &made->set, &made->input, &made->counts);
}

void ff_made_features_destroy(ff_made_features *made)
{
    ff_array_set_destroy(&made->set);
    free(made->msas);
    made->msas = NULL;
}
