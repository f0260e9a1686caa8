#include "data/hhr.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_COLUMN = 17 }; /* where the residue number and the row begin */

typedef struct {
    ff_hits_builder builder;
    ff_text_buffer query, hit_sequence;      /* of the open hit */
    int32_t *indices_query, *indices_hit;    /* of the open hit */
    int64_t num_query, num_hit, query_capacity, hit_capacity;
    int64_t block_length; /* of the query's row in the open block; -1 before it */
    const char *path;
} hhr_reader;

/* ---- one hit ---- */

static ff_status end_hit(ff_ctx *ctx, hhr_reader *r, ff_template_hit *hit, ff_hit_offsets *at)
{
    ff_template_hits *h = &r->builder.hits;
    if (r->num_query != r->num_hit)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s:%lld: hit %d has %lld columns of the query and %lld of the template; the file"
                       " may have been cut",
                       r->path, (long long)hit->line, (int)hit->index, (long long)r->num_query, (long long)r->num_hit);
    FF_TRY(ff_hits_builder_text(ctx, &r->builder, r->query.data, (int64_t)r->query.size, &at->query));
    FF_TRY(
        ff_hits_builder_text(ctx, &r->builder, r->hit_sequence.data, (int64_t)r->hit_sequence.size, &at->hit_sequence));
    FF_TRY(
        ff_grow(ctx, &h->indices, &h->index_capacity, h->num_indices + r->num_query + r->num_hit, sizeof *h->indices));
    at->indices_query = h->num_indices;
    at->indices_hit = h->num_indices + r->num_query;
    if (r->num_query > 0) {
        memcpy(h->indices + at->indices_query, r->indices_query, (size_t)r->num_query * sizeof *h->indices);
        memcpy(h->indices + at->indices_hit, r->indices_hit, (size_t)r->num_hit * sizeof *h->indices);
    }
    h->num_indices += r->num_query + r->num_hit;
    hit->num_query = r->num_query;
    hit->num_hit = r->num_hit;
    r->num_query = r->num_hit = 0;
    ff_text_buffer_clear(&r->query);
    ff_text_buffer_clear(&r->hit_sequence);
    return ff_hits_builder_add(ctx, &r->builder, hit, at);
}

/* The number after `key` in the summary line; false when there is none. */
static bool find_number(const char *line, const char *key, double *value)
{
    const char *p = strstr(line, key);
    char *end;
    if (p == NULL)
        return false;
    p += strlen(key);
    *value = strtod(p, &end);
    return end != p;
}

/* `Probab=0.22  E-value=10  Score=8.92  Aligned_cols=13  Identities=31%  Similarity=0.307  Sum_probs=5.3 
 * Template_Neff=1` */
static ff_status read_summary(ff_ctx *ctx, const hhr_reader *r, const ff_text_line *line, ff_template_hit *hit)
{
    static const char *const keys[] = {"Probab=",     "E-value=",    "Score=",     "Aligned_cols=",
                                       "Identities=", "Similarity=", "Sum_probs=", "Template_Neff="};
    enum { ALIGNED_COLS = 3, SUM_PROBS = 6, TEMPLATE_NEFF = 7, NUM_KEYS = 8 };
    double values[NUM_KEYS];
    char quoted[FF_TEXT_QUOTE_BYTES];
    for (int k = 0; k < NUM_KEYS; k++) {
        if (find_number(line->text, keys[k], &values[k]))
            continue;
        if (k == TEMPLATE_NEFF)
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "%s:%lld: the summary of hit %d has no Template_Neff: made by HH-suite 1 or 2;"
                           " search again with HH-suite 3",
                           r->path, (long long)line->number, (int)hit->index);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: hit %d needs a summary line with %s and a number, not %s", r->path,
                       (long long)line->number, (int)hit->index, keys[k],
                       ff_text_quote(quoted, line->text, line->length));
    }
    if (!(values[ALIGNED_COLS] >= 0 && values[ALIGNED_COLS] < INT32_MAX))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: Aligned_cols of hit %d is out of range", r->path,
                       (long long)line->number, (int)hit->index);
    hit->aligned_cols = (int32_t)values[ALIGNED_COLS];
    hit->sum_probs = (float)values[SUM_PROBS];
    return FF_OK;
}

/* ---- rows ---- */

/* At most nine digits, so that sums of two stay exact. */
static bool read_residue_number(const char **p, int64_t *number)
{
    const char *begin = *p;
    for (*number = 0; **p >= '0' && **p <= '9'; ++*p) {
        if (*p - begin == 9)
            return false;
        *number = 10 * *number + (**p - '0');
    }
    return *p > begin;
}

/* `   15 EHHEQAAK-HHHAA   27 (73)`: residue numbers, and the row between them. */
static bool split_row(const char *p, int64_t *begin, const char **row, int64_t *length, int64_t *end)
{
    int64_t total;
    p += strspn(p, " \t");
    if (!read_residue_number(&p, begin) || *p++ != ' ')
        return false;
    *row = p;
    while ((*p >= 'A' && *p <= 'Z') || *p == '-')
        p++;
    *length = p - *row;
    p += strspn(p, " \t");
    if (!read_residue_number(&p, end) || *p++ != ' ' || *p++ != '(')
        return false;
    return *p == ')' || (read_residue_number(&p, &total) && *p == ')');
}

/* A row of the query or the template. */
static ff_status read_row(ff_ctx *ctx, hhr_reader *r, const ff_text_line *line, bool of_query)
{
    const char *row;
    char quoted[FF_TEXT_QUOTE_BYTES];
    int64_t begin, end, length, residues = 0;
    if (line->length < ROW_COLUMN || !split_row(line->text + ROW_COLUMN, &begin, &row, &length, &end))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s is no row `%c name  first RESIDUES last (total)`", r->path,
                       (long long)line->number, ff_text_quote(quoted, line->text, line->length), of_query ? 'Q' : 'T');
    for (int64_t i = 0; i < length; i++)
        residues += row[i] != '-';
    if (of_query && end - begin + 1 != residues)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: the row has %lld residues, its numbers say %lld to %lld", r->path,
                       (long long)line->number, (long long)residues, (long long)begin, (long long)end);
    if (!of_query && r->block_length < 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: a row of the template without one of the query before it", r->path,
                       (long long)line->number);
    if (!of_query && length != r->block_length)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: the row of the template has %lld columns, that of the query %lld",
                       r->path, (long long)line->number, (long long)length, (long long)r->block_length);
    FF_TRY(ff_text_buffer_put(ctx, of_query ? &r->query : &r->hit_sequence, row, (size_t)length));
    int32_t **indices = of_query ? &r->indices_query : &r->indices_hit;
    int64_t *count = of_query ? &r->num_query : &r->num_hit;
    FF_TRY(ff_grow(ctx, indices, of_query ? &r->query_capacity : &r->hit_capacity, *count + length, sizeof **indices));
    for (int64_t i = 0, number = begin - 1; i < length; i++)
        (*indices)[(*count)++] = row[i] == '-' ? -1 : (int32_t)number++;
    r->block_length = of_query ? length : -1;
    return FF_OK;
}

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

/* Rows of the sequences, not those of consensus and secondary structure. */
static bool is_sequence_row(const char *text, char which)
{
    return text[0] == which && text[1] == ' ' && !starts_with(text + 2, "ss_dssp") &&
           !starts_with(text + 2, "ss_pred") && !starts_with(text + 2, "Consensus");
}

/* ---- the file ---- */

/* From a `No 1` line to the next one, or the end. */
static ff_status read_hit(ff_ctx *ctx, hhr_reader *r, ff_text_file *text, ff_text_line *line)
{
    ff_template_hit hit = {.line = line->number};
    ff_hit_offsets at = {0};
    char quoted[FF_TEXT_QUOTE_BYTES], *end;
    const long index = strtol(line->text + 3, &end, 10);
    if (end == line->text + 3 || index < 0 || index > INT32_MAX || end[strspn(end, " \t")] != '\0')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s should give the number of a hit", r->path,
                       (long long)line->number, ff_text_quote(quoted, line->text, line->length));
    hit.index = (int32_t)index;
    FF_TRY(ff_text_next(ctx, text, line));
    if (line->text == NULL || line->text[0] != '>')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: hit %d needs a line `>name` next; the file may have been cut",
                       r->path, (long long)hit.line, (int)hit.index);
    FF_TRY(ff_hits_builder_text(ctx, &r->builder, line->text + 1, line->length - 1, &at.name));
    FF_TRY(ff_text_next(ctx, text, line));
    if (line->text == NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: hit %d ends before its summary line; the file may have been cut",
                       r->path, (long long)hit.line, (int)hit.index);
    FF_TRY(read_summary(ctx, r, line, &hit));
    r->block_length = -1;
    for (;;) {
        FF_TRY(ff_text_next(ctx, text, line));
        if (line->text == NULL || starts_with(line->text, "No "))
            return end_hit(ctx, r, &hit, &at);
        if (is_sequence_row(line->text, 'Q'))
            FF_TRY(read_row(ctx, r, line, true));
        else if (is_sequence_row(line->text, 'T'))
            FF_TRY(read_row(ctx, r, line, false));
    }
}

static ff_status read_file(ff_ctx *ctx, hhr_reader *r, ff_text_file *text)
{
    ff_text_line line;
    char quoted[FF_TEXT_QUOTE_BYTES];
    FF_TRY(ff_text_next(ctx, text, &line));
    if (line.text == NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s is empty; hhsearch and hhblits write a header at least", r->path);
    if (!starts_with(line.text, "Query"))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:1: %s: the output of hhsearch begins with `Query`", r->path,
                       ff_text_quote(quoted, line.text, line.length));
    while (line.text != NULL && !starts_with(line.text, "No "))
        FF_TRY(ff_text_next(ctx, text, &line));
    while (line.text != NULL)
        FF_TRY(read_hit(ctx, r, text, &line));
    return FF_OK;
}

ff_status ff_hhr_read_text(ff_ctx *ctx, ff_template_hits *hits, ff_text_file *text)
{
    hhr_reader r = {.path = ff_text_path(text)};
    *hits = (ff_template_hits){.path = NULL};
    ff_status status = ff_text_buffer_reserve(ctx, &r.query, 0);
    if (status == FF_OK)
        status = ff_text_buffer_reserve(ctx, &r.hit_sequence, 0);
    if (status == FF_OK)
        status = read_file(ctx, &r, text);
    if (status == FF_OK)
        status = ff_hits_builder_finish(ctx, &r.builder, r.path, hits);
    ff_hits_builder_destroy(&r.builder);
    ff_text_buffer_destroy(&r.query);
    ff_text_buffer_destroy(&r.hit_sequence);
    free(r.indices_query);
    free(r.indices_hit);
    return status;
}

ff_status ff_hhr_read(ff_ctx *ctx, ff_template_hits *hits, const char *path)
{
    ff_text_file *text;
    *hits = (ff_template_hits){.path = NULL};
    FF_TRY(ff_text_open(ctx, &text, path));
    const ff_status status = ff_hhr_read_text(ctx, hits, text);
    ff_text_close(text);
    return status;
}
