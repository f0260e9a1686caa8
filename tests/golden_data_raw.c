/* golden_data_raw.c - raw feature dictionaries: alignments, template hits and structure files in, AlphaFold's
 * features out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/a3m.h"
#include "data/fasta.h"
#include "data/features.h"
#include "data/hhr.h"
#include "data/hmmsearch.h"
#include "data/stockholm.h"
#include "data/templates.h"
#include "tests/golden_data.h"

enum { PATH_BYTES = 1024 };
static const double position_tolerance = 0; /* copied, not computed */

/* The record of a FASTA file whose description is `name`. The texts are the caller's. */
static ff_status read_query(golden_data *g, const char *file, const char *name, char **sequence)
{
    char path[PATH_BYTES];
    ff_fasta_reader *reader;
    ff_status status = FF_OK;
    *sequence = NULL;
    golden_data_path(g, file, path, sizeof path);
    FF_TRY(ff_fasta_open(g->ctx, &reader, path));
    for (bool more = true; more && *sequence == NULL;) {
        ff_fasta_record record;
        FF_TRY_DONE(ff_fasta_next(g->ctx, reader, &record, &more));
        if (more && strcmp(record.description, name) == 0)
            *sequence = strdup(record.sequence);
    }
    if (*sequence == NULL)
        status = FF_FAIL(g->ctx, FF_ERR_FORMAT, "%s has no record %s", path, name);
done:
    ff_fasta_close(reader);
    return status;
}

/* Sequence features, and those of msa/FOLDER's three alignments, in AlphaFold's order. */
static ff_status add_chain(golden_data *g, ff_array_set *set, const char *folder, const char *sequence,
                           const char *name)
{
    static const char *const files[] = {"uniref90_hits.sto", "bfd_uniclust_hits.a3m", "mgnify_hits.sto"};
    ff_msa msas[3] = {0};
    const ff_msa *const all[] = {&msas[0], &msas[1], &msas[2]};
    ff_status status = FF_OK;
    for (int i = 0; i < 3; i++) {
        char file[128], path[PATH_BYTES];
        snprintf(file, sizeof file, "msa|%s|%s", folder, files[i]);
        golden_data_path(g, file, path, sizeof path);
        FF_TRY_DONE((i == 1 ? ff_a3m_read : ff_stockholm_read)(g->ctx, &msas[i], path, NULL));
    }
    FF_TRY_DONE(ff_features_add_sequence(g->ctx, set, sequence, name));
    FF_TRY_DONE(ff_features_add_msas(g->ctx, set, all, 3, (int64_t)strlen(sequence)));
done:
    for (int i = 0; i < 3; i++)
        ff_msa_destroy(&msas[i]);
    return status;
}

static ff_status open_source(golden_data *g, ff_template_source **source)
{
    char folder[PATH_BYTES];
    golden_data_path(g, "mmcif", folder, sizeof folder);
    const ff_template_options options = {.folder = folder, .max_date = "2021-01-01", .alphafold_compatible = true};
    return ff_template_source_create(g->ctx, source, &options);
}

/* ---- one hit ---- */

static ff_status put_floats(golden_data *g, ff_array_set *set, const char *prefix, const char *name,
                            const float *data, int ndim, const int64_t *shape)
{
    char full[160];
    snprintf(full, sizeof full, "%s/%s", prefix, name);
    ff_array *a = ff_array_add(g->ctx, set, full, FF_ARRAY_FLOAT32, ndim, shape);
    if (a == NULL)
        return g->ctx->status;
    memcpy(a->f32, data, (size_t)a->size * sizeof(float));
    return FF_OK;
}

static ff_status put_hit(golden_data *g, ff_array_set *set, const char *prefix, const ff_hit_template *t, int64_t n)
{
    char name[160];
    snprintf(name, sizeof name, "%s/map", prefix);
    ff_array *map = ff_array_add(g->ctx, set, name, FF_ARRAY_INT32, FF_DIMS(t->num_map, 2));
    if (map == NULL)
        return g->ctx->status;
    memcpy(map->i32, t->map, (size_t)t->num_map * sizeof *t->map);
    if (t->verdict != FF_HIT_USED)
        return FF_OK;
    FF_TRY(put_floats(g, set, prefix, "template_aatype", t->aatype, FF_DIMS(n, 22)));
    FF_TRY(put_floats(g, set, prefix, "template_all_atom_masks", t->masks, FF_DIMS(n, 37)));
    FF_TRY(put_floats(g, set, prefix, "template_all_atom_positions", t->positions, FF_DIMS(n, 37, 3)));
    snprintf(name, sizeof name, "%s/template_sequence", prefix);
    ff_array *sequence = ff_array_add(g->ctx, set, name, FF_ARRAY_TEXT, 0, NULL);
    return sequence == NULL ? g->ctx->status : ff_array_put_text(g->ctx, sequence, 0, t->sequence, (size_t)n);
}

/* Each hit that has a group hits/NN_NAME: its verdict, its map, and what came out of it. */
static ff_status add_hits(golden_data *g, const char *group, ff_array_set *set, const ff_template_hits *hits,
                          const char *query)
{
    ff_template_source *source;
    ff_status status = FF_OK;
    int checked = 0;
    FF_TRY(open_source(g, &source));
    for (int64_t i = 0; i < hits->count; i++) {
        const ff_template_hit *hit = &hits->hits[i];
        char prefix[128], path[256], what[192];
        snprintf(prefix, sizeof prefix, "hits/%02d_%.*s", hit->index, (int)strcspn(hit->name, " "), hit->name);
        snprintf(path, sizeof path, "/%s/%s", group, prefix);
        if (!ff_hdf5_exists(g->file, path))
            continue;
        ff_hit_template t;
        FF_TRY_DONE(ff_hit_template_make(g->ctx, source, hit, query, &t));
        char *prefilter = golden_data_text(g, path + 1, "prefilter");
        const bool passed = prefilter != NULL && strcmp(prefilter, "passed") == 0, used = t.verdict == FF_HIT_USED;
        free(prefilter);
        snprintf(what, sizeof what, "%s prefilter", prefix);
        golden_data_check(g, what, passed == (t.map != NULL), "we: %s", t.map != NULL ? "passed" : t.reason);
        snprintf(what, sizeof what, "%s has_features", prefix);
        golden_data_check(g, what, used == (golden_data_number(g, path + 1, "has_features", -1) == 1), "we: %s",
                          used ? "features" : t.reason);
        status = put_hit(g, set, prefix, &t, (int64_t)strlen(query));
        ff_hit_template_destroy(&t);
        if (status != FF_OK)
            goto done;
        checked++;
    }
    golden_data_check(g, "hits", checked > 0, "no hit of the file is in the reference");
done:
    ff_template_source_destroy(source);
    return status;
}

/* ---- cases ---- */

static ff_status run_smbp73(golden_data *g, const char *group)
{
    char path[PATH_BYTES], *query = NULL;
    ff_array_set got;
    ff_template_hits hits = {0};
    ff_template_source *source = NULL;
    ff_status status = FF_OK;
    ff_array_set_init(&got);
    FF_TRY_DONE(read_query(g, "fasta|smbp73.fasta", "query", &query));
    FF_TRY_DONE(add_chain(g, &got, "smbp73", query, "query"));
    golden_data_path(g, "hits|smbp73_pdb70_hits.hhr", path, sizeof path);
    FF_TRY_DONE(ff_hhr_read(g->ctx, &hits, path));
    FF_TRY_DONE(open_source(g, &source));
    FF_TRY_DONE(ff_features_add_templates(g->ctx, &got, source, &hits, FF_HITS_HHSEARCH, query));
    FF_TRY_DONE(add_hits(g, group, &got, &hits, query));
    golden_data_compare(g, group, &got, position_tolerance);
done:
    ff_template_source_destroy(source);
    ff_template_hits_destroy(&hits);
    ff_array_set_destroy(&got);
    free(query);
    return status;
}

static ff_status run_2q2k(golden_data *g, const char *group)
{
    char *query = NULL;
    ff_array_set got;
    ff_status status = FF_OK;
    ff_array_set_init(&got);
    FF_TRY_DONE(read_query(g, "msa|made_here|queries.fasta", "2q2k_A", &query));
    FF_TRY_DONE(add_chain(g, &got, "2q2k_A", query, "2q2k_A"));
    golden_data_compare(g, group, &got, 0);
done:
    ff_array_set_destroy(&got);
    free(query);
    return status;
}

static ff_status run_hmmsearch(golden_data *g, const char *group)
{
    char path[PATH_BYTES], *query = NULL;
    ff_array_set got;
    ff_template_hits hits = {0};
    ff_template_source *source = NULL;
    ff_status status = FF_OK;
    ff_array_set_init(&got);
    FF_TRY_DONE(read_query(g, "fasta|smbp73.fasta", "query", &query));
    golden_data_path(g, "hits|made_smbp73_hmmsearch.sto", path, sizeof path);
    FF_TRY_DONE(ff_hmmsearch_read(g->ctx, &hits, path, query, true));
    FF_TRY_DONE(open_source(g, &source));
    FF_TRY_DONE(ff_features_add_templates(g->ctx, &got, source, &hits, FF_HITS_HMMSEARCH, query));
    golden_data_compare(g, group, &got, position_tolerance);
    char names[2048] = "";
    for (int64_t i = 0; i < hits.count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), i == 0 ? "%s" : " %s", hits.hits[i].name);
    char *wanted = golden_data_text(g, group, "hits");
    golden_data_check(g, "names of the hits", wanted != NULL && strcmp(names, wanted) == 0, "we: %.200s", names);
    free(wanted);
done:
    ff_template_source_destroy(source);
    ff_template_hits_destroy(&hits);
    ff_array_set_destroy(&got);
    free(query);
    return status;
}

const golden_data_kind golden_data_raw_kinds[] = {{"data_raw", "smbp73", 0, run_smbp73},
                                                  {"data_raw", "2q2k_A", 0, run_2q2k},
                                                  {"data_raw", "smbp73_hmmsearch_templates", 0, run_hmmsearch},
                                                  {NULL, NULL, 0, NULL}};
