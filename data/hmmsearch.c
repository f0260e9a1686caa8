#include "data/hmmsearch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "data/fasta.h"
#include "data/stockholm.h"

/* ---- hits ---- */

typedef struct {
    const char *pdb_id;
    int64_t length; /* of `pdbid_CHAIN` */
    int32_t first;  /* residue, from 1 */
} hit_name;

static bool is_word_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* `4pqx_A/2-217 [subseq from] mol:protein length:217  Free text` */
static bool read_name(const char *description, hit_name *name)
{
    const char *p = description;
    char *end;
    if (*p == '>')
        p++;
    name->pdb_id = p;
    while ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9'))
        p++;
    if (p == name->pdb_id || *p++ != '_')
        return false;
    const char *chain = p;
    while (is_word_character(*p))
        p++;
    if (p == chain || *p != '/')
        return false;
    name->length = p - name->pdb_id;
    if (!isdigit((unsigned char)p[1]))
        return false;
    const long first = strtol(p + 1, &end, 10);
    if (*end != '-' || !isdigit((unsigned char)end[1]) || first > INT32_MAX)
        return false;
    name->first = (int32_t)first;
    const char *length = strstr(end, "protein length:");
    return length != NULL && isdigit((unsigned char)length[strlen("protein length:")]);
}

static ff_status add_hit(ff_ctx *ctx, ff_hits_builder *b, const ff_fasta_record *record, const hit_name *name,
                         ff_template_hit *hit, const ff_hit_offsets *of_query)
{
    ff_hit_offsets at = *of_query;
    FF_TRY(ff_hits_builder_text(ctx, b, name->pdb_id, name->length, &at.name));
    FF_TRY(ff_hits_builder_text(ctx, b, record->sequence, record->length, &at.hit_sequence));
    at.indices_hit = b->hits.num_indices;
    FF_TRY(ff_hits_builder_indices(ctx, b, record->sequence, record->length, name->first - 1));
    hit->num_hit = b->hits.num_indices - at.indices_hit;
    for (char *p = b->hits.text.data + at.hit_sequence; *p != '\0'; p++) {
        hit->aligned_cols += *p >= 'A' && *p <= 'Z';
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
    }
    return ff_hits_builder_add(ctx, b, hit, &at);
}

static ff_status read_records(ff_ctx *ctx, ff_hits_builder *b, ff_fasta_reader *reader, const char *query, bool strict)
{
    ff_hit_offsets of_query = {0};
    const int64_t query_length = (int64_t)strlen(query);
    FF_TRY(ff_hits_builder_text(ctx, b, query, query_length, &of_query.query));
    FF_TRY(ff_hits_builder_indices(ctx, b, query, query_length, 0));
    const int64_t num_query = b->hits.num_indices;
    for (int32_t index = 1;; index++) {
        ff_fasta_record record;
        hit_name name;
        char quoted[FF_TEXT_QUOTE_BYTES];
        bool more;
        FF_TRY(ff_fasta_next(ctx, reader, &record, &more));
        if (!more)
            return FF_OK;
        if (strstr(record.description, "mol:protein") == NULL)
            continue;
        if (!read_name(record.description, &name)) {
            ff_text_quote(quoted, record.description, (int64_t)strlen(record.description));
            if (strict)
                return FF_FAIL(ctx, FF_ERR_FORMAT,
                               "%s:%lld: %s is not `pdbid_CHAIN/first-last ... mol:protein length:N`", record.path,
                               (long long)record.line, quoted);
            FF_WARN(ctx, "%s:%lld: left out: %s is not `pdbid_CHAIN/first-last ... mol:protein length:N`", record.path,
                    (long long)record.line, quoted);
            continue;
        }
        ff_template_hit hit = {.line = record.line, .index = index, .num_query = num_query};
        FF_TRY(add_hit(ctx, b, &record, &name, &hit, &of_query));
    }
}

ff_status ff_hmmsearch_parse(ff_ctx *ctx, ff_template_hits *hits, const char *name, const char *text, size_t size,
                             const char *query, bool strict)
{
    ff_status status = FF_OK;
    ff_text_buffer a3m = {NULL, 0, 0};
    ff_hits_builder builder = {.offsets = NULL};
    ff_fasta_reader *reader = NULL;
    ff_text_file *source;
    char shown[1024]; /* lines are counted in the A3M, so messages say so */
    size_t blank = 0;
    snprintf(shown, sizeof shown, "%s", name);
    *hits = (ff_template_hits){.path = NULL};
    while (blank < size && ff_text_is_blank((unsigned char)text[blank]))
        blank++;
    if (blank < size && text[blank] == '#') {
        FF_TRY_DONE(ff_stockholm_to_a3m(ctx, &a3m, name, text, size, 0, true));
        text = a3m.data == NULL ? "" : a3m.data;
        size = a3m.size;
        snprintf(shown, sizeof shown, "%s (as A3M)", name);
    }
    FF_TRY_DONE(ff_text_open_memory(ctx, &source, shown, text, size));
    FF_TRY_DONE(ff_fasta_open_text(ctx, &reader, source));
    FF_TRY_DONE(read_records(ctx, &builder, reader, query, strict));
    FF_TRY_DONE(ff_hits_builder_finish(ctx, &builder, name, hits));
done:
    ff_fasta_close(reader);
    ff_hits_builder_destroy(&builder);
    ff_text_buffer_destroy(&a3m);
    return status;
}

ff_status ff_hmmsearch_read(ff_ctx *ctx, ff_template_hits *hits, const char *path, const char *query, bool strict)
{
    char *text;
    size_t size;
    *hits = (ff_template_hits){.path = NULL};
    FF_TRY(ff_text_read_all(ctx, path, &text, &size));
    const ff_status status = ff_hmmsearch_parse(ctx, hits, path, text, size, query, strict);
    free(text);
    return status;
}

/* ---- tables ---- */

static ff_status put_e_value(ff_ctx *ctx, ff_tblout *table, const char *name, int64_t length, double value)
{
    int64_t index;
    FF_TRY(ff_name_table_add(ctx, &table->names, name, (size_t)length, &index, NULL));
    FF_TRY(ff_grow(ctx, &table->e_values, &table->capacity, index + 1, sizeof *table->e_values));
    table->e_values[index] = (float)value;
    return FF_OK;
}

static ff_status read_table_line(ff_ctx *ctx, ff_tblout *table, const char *path, const ff_text_line *line)
{
    enum { NAME = 0, E_VALUE = 4, NUM_COLUMNS = 5 };
    const char *at = line->text, *words[NUM_COLUMNS];
    int64_t lengths[NUM_COLUMNS];
    char quoted[FF_TEXT_QUOTE_BYTES], *end;
    for (int k = 0; k < NUM_COLUMNS; k++)
        if (!ff_text_next_word(&at, line->text + line->length, &words[k], &lengths[k]))
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s has %d columns, a line of a --tblout table has more", path,
                           (long long)line->number, ff_text_quote(quoted, line->text, line->length), k);
    const double value = strtod(words[E_VALUE], &end);
    if (end != words[E_VALUE] + lengths[E_VALUE])
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s in the fifth column is no E-value", path,
                       (long long)line->number, ff_text_quote(quoted, words[E_VALUE], lengths[E_VALUE]));
    return put_e_value(ctx, table, words[NAME], lengths[NAME], value);
}

ff_status ff_tblout_read_text(ff_ctx *ctx, ff_tblout *table, ff_text_file *text)
{
    *table = (ff_tblout){.e_values = NULL};
    ff_status status = put_e_value(ctx, table, "query", 5, 0);
    for (ff_text_line line; status == FF_OK;) {
        status = ff_text_next(ctx, text, &line);
        if (status != FF_OK || line.text == NULL)
            break;
        ff_text_strip(&line.text, &line.length);
        if (line.length > 0 && line.text[0] != '#')
            status = read_table_line(ctx, table, ff_text_path(text), &line);
    }
    if (status != FF_OK)
        ff_tblout_destroy(table);
    return status;
}

ff_status ff_tblout_read(ff_ctx *ctx, ff_tblout *table, const char *path)
{
    ff_text_file *text;
    *table = (ff_tblout){.e_values = NULL};
    FF_TRY(ff_text_open(ctx, &text, path));
    const ff_status status = ff_tblout_read_text(ctx, table, text);
    ff_text_close(text);
    return status;
}

void ff_tblout_destroy(ff_tblout *table)
{
    ff_name_table_destroy(&table->names);
    free(table->e_values);
    *table = (ff_tblout){.e_values = NULL};
}
