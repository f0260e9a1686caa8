/* stockholm_tools.c - AlphaFold's tools on the text of a Stockholm alignment; contract in stockholm.h. */
#include "data/stockholm.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/name_table.h"

/* ---- lines ---- */

typedef enum { BLANK, MARKUP, END, ROW } line_kind;

typedef struct {
    const char *text; /* with its blanks */
    int64_t length;
    int64_t number;
    line_kind kind;
} source_line;

/* The next line of a text; false at the end. Lines end as for text files. */
static bool next_line(const char **at, const char *end, source_line *line)
{
    if (*at == end)
        return false;
    const char *p = *at;
    while (p < end && *p != '\n' && *p != '\r')
        p++;
    line->text = *at;
    line->length = p - *at;
    line->number++;
    *at = p == end ? end : p + 1 + (*p == '\r' && p + 1 < end && p[1] == '\n');
    line->kind = BLANK;
    for (int64_t i = 0; i < line->length && line->kind == BLANK; i++)
        if (!ff_text_is_blank((unsigned char)line->text[i]))
            line->kind = ROW;
    if (line->kind == ROW && line->text[0] == '#')
        line->kind = MARKUP;
    if (line->kind == ROW && line->length >= 2 && memcmp(line->text, "//", 2) == 0)
        line->kind = END;
    return true;
}

static bool starts_with(const source_line *line, const char *prefix)
{
    const size_t n = strlen(prefix);
    return (size_t)line->length >= n && memcmp(line->text, prefix, n) == 0;
}

/* Word `index` of the line; false when there are fewer. */
static bool get_word(const source_line *line, int index, const char **word, int64_t *length)
{
    const char *at = line->text;
    for (int i = 0; i <= index; i++)
        if (!ff_text_next_word(&at, line->text + line->length, word, length))
            return false;
    return true;
}

/* The name and the sequence of a row. */
static ff_status split_row(ff_ctx *ctx, const char *file, const source_line *line, const char **name,
                           int64_t *name_length, const char **sequence, int64_t *length)
{
    char quoted[FF_TEXT_QUOTE_BYTES];
    const char *third;
    int64_t third_length;
    if (!get_word(line, 0, name, name_length) || !get_word(line, 1, sequence, length) ||
        get_word(line, 2, &third, &third_length))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s is not `name sequence`, two words", file,
                       (long long)line->number, ff_text_quote(quoted, line->text, line->length));
    return FF_OK;
}

/* ---- whole rows by name ---- */

typedef struct {
    ff_name_table names;
    ff_text_buffer *rows; /* [capacity], the first names.count in use */
    int64_t capacity;
} whole_rows;

static void destroy_rows(whole_rows *w)
{
    for (int64_t s = 0; s < w->names.names.count && s < w->capacity; s++)
        ff_text_buffer_destroy(&w->rows[s]);
    free(w->rows);
    ff_name_table_destroy(&w->names);
}

static ff_status read_rows(ff_ctx *ctx, whole_rows *w, const char *file, const char *text, size_t size, int64_t max_seq)
{
    source_line line = {.number = 0};
    for (const char *at = text; next_line(&at, text + size, &line);) {
        const char *name, *sequence;
        int64_t name_length, length, s;
        bool added = false;
        if (line.kind != ROW)
            continue;
        FF_TRY(split_row(ctx, file, &line, &name, &name_length, &sequence, &length));
        if (max_seq > 0 && w->names.names.count >= max_seq) {
            s = ff_name_table_find(&w->names, name, (size_t)name_length);
            if (s < 0)
                continue;
        } else {
            FF_TRY(ff_grow(ctx, &w->rows, &w->capacity, w->names.names.count + 1, sizeof *w->rows));
            w->rows[w->names.names.count] = (ff_text_buffer){NULL, 0, 0};
            FF_TRY(ff_name_table_add(ctx, &w->names, name, (size_t)name_length, &s, &added));
        }
        FF_TRY(ff_text_buffer_put(ctx, &w->rows[s], sequence, (size_t)length));
    }
    return FF_OK;
}

static ff_status need_rows(ff_ctx *ctx, const whole_rows *w, const char *file)
{
    if (w->names.names.count > 0)
        return FF_OK;
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s holds no rows; is it Stockholm format?", file);
}

/* ---- to A3M ---- */

/* The DE line of each name; [count], NULL = none; pointers into the text. */
static void find_descriptions(const whole_rows *w, const char *text, size_t size, const char **descriptions,
                              int64_t *lengths)
{
    source_line line = {.number = 0};
    for (const char *at = text; next_line(&at, text + size, &line);) {
        const char *word;
        int64_t length;
        if (!starts_with(&line, "#=GS") || !get_word(&line, 2, &word, &length) || length != 2 ||
            memcmp(word, "DE", 2) != 0)
            continue;
        const char *rest = word + 2, *end = line.text + line.length;
        get_word(&line, 1, &word, &length);
        const int64_t s = ff_name_table_find(&w->names, word, (size_t)length);
        if (s < 0)
            continue;
        while (rest < end && ff_text_is_blank((unsigned char)*rest))
            rest++;
        descriptions[s] = rest;
        lengths[s] = end - rest;
    }
}

/* One row, its dots removed first; then, along what is left, columns in which `query` has a gap become insertions. */
static ff_status put_a3m_row(ff_ctx *ctx, ff_text_buffer *out, const ff_text_buffer *row, const ff_text_buffer *query)
{
    FF_TRY(ff_text_buffer_reserve(ctx, out, row->size));
    char *to = out->data + out->size;
    size_t column = 0;
    for (size_t i = 0; i < row->size; i++) {
        const char c = row->data[i];
        if (c == '.')
            continue;
        if (query == NULL) {
            *to++ = c;
            continue;
        }
        if (column == query->size)
            break;
        if (query->data[column++] != '-')
            *to++ = c;
        else if (c != '-')
            *to++ = (char)tolower((unsigned char)c);
    }
    out->size = (size_t)(to - out->data);
    *to = '\0';
    return FF_OK;
}

static ff_status put_a3m(ff_ctx *ctx, ff_text_buffer *out, const whole_rows *w, const char *const *descriptions,
                         const int64_t *lengths, bool keep_query_gaps)
{
    for (int64_t s = 0; s < w->names.names.count; s++) {
        const char *name = ff_name_table_get(&w->names, s);
        FF_TRY(ff_text_buffer_put(ctx, out, ">", 1));
        FF_TRY(ff_text_buffer_put(ctx, out, name, strlen(name)));
        FF_TRY(ff_text_buffer_put(ctx, out, " ", 1));
        if (descriptions[s] != NULL)
            FF_TRY(ff_text_buffer_put(ctx, out, descriptions[s], (size_t)lengths[s]));
        FF_TRY(ff_text_buffer_put(ctx, out, "\n", 1));
        FF_TRY(put_a3m_row(ctx, out, &w->rows[s], keep_query_gaps ? NULL : &w->rows[0]));
        FF_TRY(ff_text_buffer_put(ctx, out, "\n", 1));
    }
    return FF_OK;
}

ff_status ff_stockholm_to_a3m(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text, size_t size,
                              int64_t max_seq, bool keep_query_gaps)
{
    ff_status status = FF_OK;
    whole_rows w = {.rows = NULL};
    const char **descriptions = NULL;
    int64_t *lengths = NULL;
    FF_TRY_DONE(read_rows(ctx, &w, name, text, size, max_seq));
    if (!keep_query_gaps)
        FF_TRY_DONE(need_rows(ctx, &w, name)); /* the first one is the query */
    descriptions = calloc((size_t)w.names.names.count + 1, sizeof *descriptions);
    lengths = calloc((size_t)w.names.names.count + 1, sizeof *lengths);
    if (descriptions == NULL || lengths == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the rows of %s", name));
    find_descriptions(&w, text, size, descriptions, lengths);
    FF_TRY_DONE(put_a3m(ctx, out, &w, descriptions, lengths, keep_query_gaps));
done:
    free(descriptions);
    free(lengths);
    destroy_rows(&w);
    return status;
}

/* ---- keeping some rows ---- */

/* Whether a line stays: rows and `#=GS` lines of kept names, `#=GC RF`, blank lines, the first and the last line. */
static bool stays(const source_line *line, const ff_name_table *kept)
{
    const char *word;
    int64_t length;
    if (line->kind == BLANK || line->kind == END || starts_with(line, "# STOCKHOLM") || starts_with(line, "#=GC RF"))
        return true;
    if (line->kind == MARKUP)
        return starts_with(line, "#=GS") && get_word(line, 1, &word, &length) &&
               ff_name_table_find(kept, word, (size_t)length) >= 0;
    return get_word(line, 0, &word, &length) && ff_name_table_find(kept, word, (size_t)length) >= 0;
}

static ff_status put_kept(ff_ctx *ctx, ff_text_buffer *out, const char *text, size_t size, const ff_name_table *kept)
{
    source_line line = {.number = 0};
    for (const char *at = text; next_line(&at, text + size, &line);) {
        if (!stays(&line, kept))
            continue;
        FF_TRY(ff_text_buffer_put(ctx, out, line.text, (size_t)line.length));
        FF_TRY(ff_text_buffer_put(ctx, out, "\n", 1));
    }
    return FF_OK;
}

ff_status ff_stockholm_truncate(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text, size_t size,
                                int64_t max_seq)
{
    ff_name_table kept = {.hashes = NULL};
    source_line line = {.number = 0};
    ff_status status = FF_OK;
    (void)name;
    for (const char *at = text; kept.names.count < max_seq && next_line(&at, text + size, &line);) {
        const char *word;
        int64_t length, s;
        if (line.kind == ROW && get_word(&line, 0, &word, &length))
            FF_TRY_DONE(ff_name_table_add(ctx, &kept, word, (size_t)length, &s, NULL));
    }
    FF_TRY_DONE(put_kept(ctx, out, text, size, &kept));
done:
    ff_name_table_destroy(&kept);
    return status;
}

/* Names of the rows whose letters in the columns of the query were not seen before. */
static ff_status find_different(ff_ctx *ctx, const whole_rows *w, ff_name_table *kept, ff_name_table *seen,
                                ff_text_buffer *aligned)
{
    for (int64_t s = 0; s < w->names.names.count; s++) {
        const char *name = ff_name_table_get(&w->names, s);
        const ff_text_buffer *own = &w->rows[s], *query = &w->rows[0];
        int64_t index;
        bool added;
        ff_text_buffer_clear(aligned);
        FF_TRY(ff_text_buffer_reserve(ctx, aligned, own->size));
        for (size_t i = 0; i < own->size && i < query->size; i++)
            if (query->data[i] != '-')
                aligned->data[aligned->size++] = own->data[i];
        FF_TRY(ff_name_table_add(ctx, seen, aligned->data, aligned->size, &index, &added));
        if (added)
            FF_TRY(ff_name_table_add(ctx, kept, name, strlen(name), &index, NULL));
    }
    return FF_OK;
}

ff_status ff_stockholm_remove_duplicates(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text,
                                         size_t size)
{
    ff_status status = FF_OK;
    whole_rows w = {.rows = NULL};
    ff_name_table kept = {.hashes = NULL}, seen = {.hashes = NULL};
    ff_text_buffer aligned = {NULL, 0, 0};
    FF_TRY_DONE(read_rows(ctx, &w, name, text, size, 0));
    FF_TRY_DONE(need_rows(ctx, &w, name));
    FF_TRY_DONE(find_different(ctx, &w, &kept, &seen, &aligned));
    FF_TRY_DONE(put_kept(ctx, out, text, size, &kept));
done:
    ff_text_buffer_destroy(&aligned);
    ff_name_table_destroy(&seen);
    ff_name_table_destroy(&kept);
    destroy_rows(&w);
    return status;
}

/* ---- empty columns ---- */

/* The last word of a row and what stands before it, without the blank between them. */
static void split_last_word(const source_line *line, int64_t *prefix_length, const char **last, int64_t *length)
{
    int64_t i = line->length;
    while (i > 0 && line->text[i - 1] != ' ')
        i--;
    *last = line->text + i;
    *length = line->length - i;
    *prefix_length = i > 0 ? i - 1 : 0;
}

/* Columns in which a row of the block [begin, end) has something; rows shorter than `columns` are a fault. */
static ff_status find_used_columns(ff_ctx *ctx, const char *file, const source_line *begin, const source_line *end,
                                   bool *used, int64_t columns)
{
    memset(used, 0, (size_t)columns * sizeof *used);
    for (const source_line *line = begin; line < end; line++) {
        int64_t prefix_length, length;
        const char *last;
        if (line->kind != ROW)
            continue;
        split_last_word(line, &prefix_length, &last, &length);
        if (length < columns)
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "%s:%lld: the row has %lld columns, the `#=GC RF` line of its block %lld", file,
                           (long long)line->number, (long long)length, (long long)columns);
        for (int64_t i = 0; i < columns; i++)
            used[i] |= last[i] != '-';
    }
    return FF_OK;
}

static ff_status put_used(ff_ctx *ctx, ff_text_buffer *out, const source_line *line, const bool *used, int64_t columns)
{
    int64_t prefix_length, length;
    const char *last;
    split_last_word(line, &prefix_length, &last, &length);
    FF_TRY(ff_text_buffer_put(ctx, out, line->text, (size_t)prefix_length));
    FF_TRY(ff_text_buffer_put(ctx, out, " ", 1));
    FF_TRY(ff_text_buffer_reserve(ctx, out, (size_t)columns));
    for (int64_t i = 0; i < columns && i < length; i++)
        if (used[i])
            out->data[out->size++] = last[i];
    out->data[out->size] = '\0';
    return FF_OK;
}

/* Write the lines [begin, end]: the last one is the `#=GC RF` line that ends a block. Lines that are no rows stay. */
static ff_status put_block(ff_ctx *ctx, ff_text_buffer *out, const char *file, const source_line *begin,
                           const source_line *end)
{
    int64_t prefix_length, columns;
    const char *last;
    split_last_word(end, &prefix_length, &last, &columns);
    bool *used = malloc((size_t)columns + 1), any = false;
    if (used == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the columns of %s", file);
    ff_status status = find_used_columns(ctx, file, begin, end, used, columns);
    for (int64_t i = 0; i < columns; i++)
        any |= used[i];
    for (const source_line *line = begin; status == FF_OK && line <= end; line++) {
        if (line->kind != ROW && line != end)
            status = ff_text_buffer_put(ctx, out, line->text, (size_t)line->length);
        else if (any)
            status = put_used(ctx, out, line, used, columns);
        if (status == FF_OK)
            status = ff_text_buffer_put(ctx, out, "\n", 1);
    }
    free(used);
    return status;
}

ff_status ff_stockholm_remove_empty_columns(ff_ctx *ctx, ff_text_buffer *out, const char *name, const char *text,
                                            size_t size)
{
    ff_status status = FF_OK;
    source_line *lines = NULL, line = {.number = 0};
    int64_t count = 0, capacity = 0, begin = 0, first_row = -1;
    for (const char *at = text; next_line(&at, text + size, &line);) {
        FF_TRY_DONE(ff_grow(ctx, &lines, &capacity, count + 1, sizeof *lines));
        lines[count++] = line;
        if (line.kind == ROW && first_row < 0)
            first_row = line.number;
        if (!starts_with(&line, "#=GC RF"))
            continue;
        FF_TRY_DONE(put_block(ctx, out, name, lines + begin, lines + count - 1));
        begin = count;
        first_row = -1;
    }
    if (first_row >= 0)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_FORMAT,
                            "%s:%lld: a block of rows without a `#=GC RF` line, which tells its columns", name,
                            (long long)first_row));
    for (int64_t i = begin; i < count; i++) {
        FF_TRY_DONE(ff_text_buffer_put(ctx, out, lines[i].text, (size_t)lines[i].length));
        FF_TRY_DONE(ff_text_buffer_put(ctx, out, "\n", 1));
    }
    if (count > 0) /* AlphaFold's text does not end in a newline */
        out->data[--out->size] = '\0';
done:
    free(lines);
    return status;
}
