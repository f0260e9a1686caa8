/* parse_hits.c - template hits and tables as named arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/fasta.h"
#include "data/hhr.h"
#include "data/hmmsearch.h"
#include "data/parse.h"
#include "data/stockholm.h"

/* ---- hits ---- */

static ff_status put_hit_texts(ff_ctx *ctx, ff_parsed *parsed, const ff_template_hits *hits)
{
    ff_array_set *set = &parsed->arrays;
    ff_array *name = ff_array_add(ctx, set, "name", FF_ARRAY_TEXT, FF_DIMS(hits->count));
    ff_array *query = ff_array_add(ctx, set, "query", FF_ARRAY_TEXT, FF_DIMS(hits->count));
    ff_array *sequence = ff_array_add(ctx, set, "hit_sequence", FF_ARRAY_TEXT, FF_DIMS(hits->count));
    if (name == NULL || query == NULL || sequence == NULL)
        return ctx->status;
    for (int64_t k = 0; k < hits->count; k++) {
        const ff_template_hit *hit = &hits->hits[k];
        FF_TRY(ff_array_put_text(ctx, name, k, hit->name, strlen(hit->name)));
        FF_TRY(ff_array_put_text(ctx, query, k, hit->query, strlen(hit->query)));
        FF_TRY(ff_array_put_text(ctx, sequence, k, hit->hit_sequence, strlen(hit->hit_sequence)));
    }
    return FF_OK;
}

/* Indices of all hits one after the other, and where each hit begins. */
static ff_status put_indices(ff_ctx *ctx, ff_parsed *parsed, const ff_template_hits *hits, bool of_query,
                             const char *offset_name)
{
    int64_t total = 0;
    for (int64_t k = 0; k < hits->count; k++)
        total += of_query ? hits->hits[k].num_query : hits->hits[k].num_hit;
    ff_array *indices = ff_array_add(ctx, &parsed->arrays, of_query ? "indices_query" : "indices_hit", FF_ARRAY_INT32,
                                     FF_DIMS(total));
    ff_array *offset = ff_array_add(ctx, &parsed->arrays, offset_name, FF_ARRAY_INT32, FF_DIMS(hits->count + 1));
    if (indices == NULL || offset == NULL)
        return ctx->status;
    total = 0;
    for (int64_t k = 0; k < hits->count; k++) {
        const ff_template_hit *hit = &hits->hits[k];
        const int64_t n = of_query ? hit->num_query : hit->num_hit;
        if (n > 0)
            memcpy(indices->i32 + total, of_query ? hit->indices_query : hit->indices_hit,
                   (size_t)n * sizeof *indices->i32);
        total += n;
        offset->i32[k + 1] = (int32_t)total;
    }
    return FF_OK;
}

/* Everything but offsets and sum_probs; nothing at all when there are no hits. */
static ff_status put_hits(ff_ctx *ctx, ff_parsed *parsed, const ff_template_hits *hits)
{
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "num_hits", (double)hits->count));
    snprintf(parsed->summary, sizeof parsed->summary, "%lld hits", (long long)hits->count);
    if (hits->count == 0)
        return FF_OK;
    ff_array *index = ff_array_add(ctx, &parsed->arrays, "index", FF_ARRAY_INT32, FF_DIMS(hits->count));
    ff_array *aligned_cols = ff_array_add(ctx, &parsed->arrays, "aligned_cols", FF_ARRAY_INT32, FF_DIMS(hits->count));
    if (index == NULL || aligned_cols == NULL)
        return ctx->status;
    for (int64_t k = 0; k < hits->count; k++) {
        index->i32[k] = hits->hits[k].index;
        aligned_cols->i32[k] = hits->hits[k].aligned_cols;
    }
    return put_hit_texts(ctx, parsed, hits);
}

static ff_status put_hhr(ff_ctx *ctx, ff_parsed *parsed, const ff_template_hits *hits)
{
    FF_TRY(put_hits(ctx, parsed, hits));
    if (hits->count == 0)
        return FF_OK;
    FF_TRY(put_indices(ctx, parsed, hits, true, "offset"));
    FF_TRY(put_indices(ctx, parsed, hits, false, "offset")); /* the same: rows of a hit are equally long */
    ff_array *sum_probs = ff_array_add(ctx, &parsed->arrays, "sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(hits->count));
    if (sum_probs == NULL)
        return ctx->status;
    for (int64_t k = 0; k < hits->count; k++)
        sum_probs->f32[k] = hits->hits[k].sum_probs;
    return FF_OK;
}

ff_status ff_parse_hhr(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_template_hits hits;
    (void)options;
    ff_status status = ff_hhr_read(ctx, &hits, path);
    if (status == FF_OK)
        status = put_hhr(ctx, parsed, &hits);
    ff_template_hits_destroy(&hits);
    return status;
}

/* ---- hmmsearch ---- */

static ff_status put_text(ff_ctx *ctx, ff_parsed *parsed, const char *name, const char *text, size_t length)
{
    ff_array *array = ff_array_add(ctx, &parsed->arrays, name, FF_ARRAY_TEXT, 0, NULL);
    return array == NULL ? ctx->status : ff_array_put_text(ctx, array, 0, text, length);
}

/* The first sequence of a FASTA file. */
static ff_status read_query(ff_ctx *ctx, const char *path, bool alphafold_compatible, ff_query *query)
{
    ff_fasta_reader *reader;
    ff_fasta_record record;
    bool more;
    FF_TRY(ff_fasta_open(ctx, &reader, path));
    ff_status status = ff_fasta_next(ctx, reader, &record, &more);
    if (status == FF_OK && !more)
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s holds no sequence", path);
    if (status == FF_OK)
        status = ff_query_from_record(ctx, query, &record, alphafold_compatible);
    ff_fasta_close(reader);
    return status;
}

static ff_status put_hmmsearch(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_query *query, bool strict)
{
    ff_status status = FF_OK;
    char *text = NULL;
    size_t size;
    ff_text_buffer a3m = {NULL, 0, 0};
    ff_template_hits hits = {.path = NULL};
    FF_TRY_DONE(ff_text_read_all(ctx, path, &text, &size));
    FF_TRY_DONE(ff_hmmsearch_parse(ctx, &hits, path, text, size, query->sequence, strict));
    FF_TRY_DONE(put_hits(ctx, parsed, &hits));
    if (text[strspn(text, " \t\r\n")] == '#') {
        FF_TRY_DONE(ff_stockholm_to_a3m(ctx, &a3m, path, text, size, 0, true));
        FF_TRY_DONE(put_text(ctx, parsed, "a3m", a3m.data, a3m.size));
    }
    FF_TRY_DONE(put_text(ctx, parsed, "query_sequence", query->sequence, (size_t)query->length));
    if (hits.count > 0) {
        FF_TRY_DONE(put_indices(ctx, parsed, &hits, true, "offset_query"));
        FF_TRY_DONE(put_indices(ctx, parsed, &hits, false, "offset_hit"));
    }
done:
    ff_template_hits_destroy(&hits);
    ff_text_buffer_destroy(&a3m);
    free(text);
    return status;
}

ff_status ff_parse_hmmsearch(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_query query;
    if (options->query == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "hits of hmmsearch are numbered along the query: give it with --query FASTA");
    FF_TRY(read_query(ctx, options->query, options->alphafold_compatible, &query));
    const ff_status status = put_hmmsearch(ctx, parsed, path, &query, options->alphafold_compatible);
    ff_query_destroy(&query);
    return status;
}

/* ---- tables ---- */

static ff_status put_table(ff_ctx *ctx, ff_parsed *parsed, const ff_tblout *table)
{
    const int64_t count = table->names.names.count;
    FF_TRY(ff_parsed_put_texts(ctx, parsed, "name", &table->names.names));
    ff_array *e_value = ff_array_add(ctx, &parsed->arrays, "e_value", FF_ARRAY_FLOAT32, FF_DIMS(count));
    if (e_value == NULL)
        return ctx->status;
    memcpy(e_value->f32, table->e_values, (size_t)count * sizeof *e_value->f32);
    snprintf(parsed->summary, sizeof parsed->summary, "%lld targets", (long long)count - 1);
    return FF_OK;
}

ff_status ff_parse_tblout(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_tblout table;
    (void)options;
    ff_status status = ff_tblout_read(ctx, &table, path);
    if (status == FF_OK)
        status = put_table(ctx, parsed, &table);
    ff_tblout_destroy(&table);
    return status;
}
