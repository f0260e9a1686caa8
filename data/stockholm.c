/* stockholm.c - reading Stockholm alignments; the tools on text are in stockholm_tools.c.
 *
 * While reading, the parts of all rows stand in one block of text, chained row by row; at the end each row is put
 * together and its columns are sorted into residues and insertions. */
#include "data/stockholm.h"

#include <stdlib.h>
#include <string.h>

#include "io/name_table.h"

typedef struct {
    int64_t begin, length; /* in the text */
    int64_t next;          /* part of the same row, -1 = the last */
} part;

typedef struct {
    int64_t first, last; /* parts */
    int64_t length;      /* of all parts */
    int64_t line;        /* of the first one */
} row;

typedef struct {
    ff_name_table names; /* row by name */
    row *rows;
    part *parts;
    int64_t num_parts, row_capacity, part_capacity;
    ff_text_buffer text;
} rows_read;

static void destroy(rows_read *r)
{
    ff_name_table_destroy(&r->names);
    free(r->rows);
    free(r->parts);
    ff_text_buffer_destroy(&r->text);
}

/* The row of a name, -1 when it is beyond max_seq. Blocks repeat the order of rows, so the one after `previous` is
 * tried first. */
static ff_status find_row(ff_ctx *ctx, rows_read *r, const char *name, int64_t length, int64_t line, int64_t max_seq,
                          int64_t *previous)
{
    int64_t s = *previous + 1 < r->names.names.count ? *previous + 1 : 0;
    bool added = false;
    if (r->names.names.count > 0) {
        const char *next = ff_name_table_get(&r->names, s);
        if (strncmp(next, name, (size_t)length) == 0 && next[length] == '\0') {
            *previous = s;
            return FF_OK;
        }
    }
    if (max_seq > 0 && r->names.names.count == max_seq) {
        s = ff_name_table_find(&r->names, name, (size_t)length);
    } else {
        FF_TRY(ff_name_table_add(ctx, &r->names, name, (size_t)length, &s, &added));
        FF_TRY(ff_grow(ctx, &r->rows, &r->row_capacity, s + 1, sizeof *r->rows));
        if (added)
            r->rows[s] = (row){-1, -1, 0, line};
    }
    *previous = s;
    return FF_OK;
}

static ff_status add_part(ff_ctx *ctx, rows_read *r, int64_t s, const char *text, int64_t length)
{
    FF_TRY(ff_grow(ctx, &r->parts, &r->part_capacity, r->num_parts + 1, sizeof *r->parts));
    r->parts[r->num_parts] = (part){(int64_t)r->text.size, length, -1};
    row *own = &r->rows[s];
    if (own->last >= 0)
        r->parts[own->last].next = r->num_parts;
    else
        own->first = r->num_parts;
    own->last = r->num_parts++;
    own->length += length;
    return ff_text_buffer_put(ctx, &r->text, text, (size_t)length);
}

static ff_status read_lines(ff_ctx *ctx, rows_read *r, ff_text_file *text, int64_t max_seq)
{
    char quoted[FF_TEXT_QUOTE_BYTES];
    bool ended = false;
    int64_t previous = -1;
    for (ff_text_line line;;) {
        FF_TRY(ff_text_next(ctx, text, &line));
        if (line.text == NULL)
            break;
        ff_text_strip(&line.text, &line.length);
        if (line.length == 0 || line.text[0] == '#')
            continue;
        if (line.length >= 2 && memcmp(line.text, "//", 2) == 0) {
            ended = true;
            continue;
        }
        if (ended)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: a second alignment follows `//`; give each a file of its own",
                           ff_text_path(text), (long long)line.number);
        const char *at = line.text, *end = line.text + line.length, *name, *sequence, *third;
        int64_t name_length, length, third_length;
        ff_text_next_word(&at, end, &name, &name_length);
        if (!ff_text_next_word(&at, end, &sequence, &length) || ff_text_next_word(&at, end, &third, &third_length))
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "%s:%lld: %s is not `name sequence`, two words; is this Stockholm format?",
                           ff_text_path(text), (long long)line.number, ff_text_quote(quoted, line.text, line.length));
        FF_TRY(find_row(ctx, r, name, name_length, line.number, max_seq, &previous));
        if (previous >= 0)
            FF_TRY(add_part(ctx, r, previous, sequence, length));
    }
    if (!ended && r->num_parts > 0)
        FF_WARN(ctx, "%s: no `//` at the end; the file may have been cut", ff_text_path(text));
    return FF_OK;
}

/* Row s in one piece: where it stands, or put together in `whole`. */
static const char *join_parts(const rows_read *r, int64_t s, char *whole)
{
    const part *p = &r->parts[r->rows[s].first];
    if (p->next < 0)
        return r->text.data + p->begin;
    for (char *to = whole;; p = &r->parts[p->next]) {
        memcpy(to, r->text.data + p->begin, (size_t)p->length);
        to += p->length;
        if (p->next < 0)
            return whole;
    }
}

/* Gaps as `-` and residues in upper case. */
static void be_lenient(char *whole, const char *row_text, int64_t length)
{
    for (int64_t i = 0; i < length; i++) {
        const char c = row_text[i];
        whole[i] = c == '.' || c == '~' || c == '_' ? '-' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
}

/* Runs of columns: those of the query, and insertions, in turn; the first run is of the query (perhaps of no
 * columns). */
static ff_status find_runs(ff_ctx *ctx, const char *query, int64_t length, int64_t **runs, int64_t *num_runs)
{
    int64_t capacity = 0;
    *num_runs = 0;
    for (int64_t i = 0; i < length;) {
        const int64_t begin = i;
        const bool insertion = *num_runs % 2 == 1;
        while (i < length && (query[i] == '-') == insertion)
            i++;
        FF_TRY(ff_grow(ctx, runs, &capacity, *num_runs + 1, sizeof **runs));
        (*runs)[(*num_runs)++] = i - begin;
    }
    return FF_OK;
}

static ff_status add_row(ff_ctx *ctx, ff_msa_builder *b, const char *text, const int64_t *runs, int64_t num_runs)
{
    for (int64_t k = 0; k < num_runs; k++) {
        if (k % 2 == 1) {
            for (int64_t i = 0; i < runs[k]; i++)
                b->pending += text[i] != '-';
        } else if (runs[k] > 0) {
            FF_TRY(ff_msa_builder_flush(ctx, b, b->size));
            FF_TRY(ff_msa_builder_reserve(ctx, b, runs[k]));
            memcpy(b->msa.rows + b->size, text, (size_t)runs[k]);
            for (int64_t i = 0; i < runs[k]; i++)
                b->msa.codes[b->size + i] = ff_msa_codes[(unsigned char)text[i]];
            b->size += runs[k];
        }
        text += runs[k];
    }
    return FF_OK;
}

static ff_status sort_columns(ff_ctx *ctx, const rows_read *r, ff_msa_builder *b, const char *path, bool lenient,
                              char *whole, int64_t **runs)
{
    int64_t num_runs = 0;
    for (int64_t s = 0; s < r->names.names.count; s++) {
        const char *name = ff_name_table_get(&r->names, s);
        char quoted[FF_TEXT_QUOTE_BYTES];
        const int64_t length = r->rows[s].length;
        if (length != r->rows[0].length)
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "%s:%lld: row %lld (%s) has %lld columns, the first row has %lld; the file may"
                           " have been cut",
                           path, (long long)r->rows[s].line, (long long)s + 1,
                           ff_text_quote(quoted, name, (int64_t)strlen(name)), (long long)length,
                           (long long)r->rows[0].length);
        const char *text = join_parts(r, s, whole);
        if (lenient) {
            be_lenient(whole, text, length);
            text = whole;
        }
        if (s == 0)
            FF_TRY(find_runs(ctx, text, length, runs, &num_runs));
        FF_TRY(ff_msa_builder_begin(ctx, b, name, (int64_t)strlen(name), r->rows[s].line));
        FF_TRY(add_row(ctx, b, text, *runs, num_runs));
    }
    return FF_OK;
}

ff_status ff_stockholm_read_text(ff_ctx *ctx, ff_msa *msa, ff_text_file *text, const ff_msa_options *options)
{
    static const ff_msa_options none = {0, false, false};
    ff_status status = FF_OK;
    rows_read r = {.rows = NULL};
    ff_msa_builder builder = {.size = 0};
    char *whole = NULL;
    int64_t *runs = NULL, longest = 0;
    options = options == NULL ? &none : options;
    *msa = (ff_msa){.path = NULL};
    FF_TRY_DONE(read_lines(ctx, &r, text, options->max_seq));
    for (int64_t s = 0; s < r.names.names.count; s++)
        longest = r.rows[s].length > longest ? r.rows[s].length : longest;
    whole = malloc((size_t)longest + 1);
    if (whole == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a row of %s", ff_text_path(text)));
    FF_TRY_DONE(sort_columns(ctx, &r, &builder, ff_text_path(text), options->lenient, whole, &runs));
    FF_TRY_DONE(ff_msa_builder_finish(ctx, &builder, ff_text_path(text), msa));
done:
    ff_msa_builder_destroy(&builder);
    free(runs);
    free(whole);
    destroy(&r);
    return status;
}

ff_status ff_stockholm_read(ff_ctx *ctx, ff_msa *msa, const char *path, const ff_msa_options *options)
{
    ff_text_file *text;
    *msa = (ff_msa){.path = NULL};
    FF_TRY(ff_text_open(ctx, &text, path));
    const ff_status status = ff_stockholm_read_text(ctx, msa, text, options);
    ff_text_close(text);
    return status;
}
