/* search_templates.c - from an alignment to what hhsearch and hmmbuild read. */
#include <stdlib.h>
#include <string.h>

#include "data/a3m.h"
#include "data/search_job.h"
#include "data/stockholm.h"

typedef struct ff_template_input template_input;

/* Hand the buffer's memory over. */
static void take(template_input *input, ff_text_buffer *buffer)
{
    input->text = buffer->data;
    input->size = buffer->size;
    *buffer = (ff_text_buffer){0};
}

static ff_status put(ff_ctx *ctx, ff_text_buffer *out, const char *text)
{
    return ff_text_buffer_put(ctx, out, text, strlen(text));
}

/* Rows of equal length as Stockholm; every column is one of the query's. */
static ff_status write_stockholm(ff_ctx *ctx, ff_text_buffer *out, const char *rows, int64_t num_seq, int64_t num_res)
{
    char name[32];
    FF_TRY(put(ctx, out, "# STOCKHOLM 1.0\n"));
    for (int64_t s = 0; s < num_seq; s++) {
        snprintf(name, sizeof name, s == 0 ? "query" : "row%lld", (long long)s);
        FF_TRY(put(ctx, out, name));
        FF_TRY(put(ctx, out, " "));
        FF_TRY(ff_text_buffer_put(ctx, out, rows + s * num_res, (size_t)num_res));
        FF_TRY(put(ctx, out, "\n"));
    }
    FF_TRY(put(ctx, out, "#=GC RF "));
    FF_TRY(ff_text_buffer_reserve(ctx, out, (size_t)num_res));
    memset(out->data + out->size, 'x', (size_t)num_res);
    out->size += (size_t)num_res;
    out->data[out->size] = '\0';
    return put(ctx, out, "\n//\n");
}

static ff_status a3m_to_stockholm(ff_ctx *ctx, ff_text_buffer *out, const char *path)
{
    const ff_msa_options options = {.max_seq = FF_UNIREF90_MAX_SEQ, .lenient = true};
    ff_msa msa;
    FF_TRY(ff_a3m_read(ctx, &msa, path, &options));
    const ff_status status = write_stockholm(ctx, out, msa.rows, msa.num_seq, msa.num_res);
    ff_msa_destroy(&msa);
    return status;
}

/* Truncate, remove duplicates, and, where an RF line says which columns there are, all-gap columns. */
static ff_status clean_stockholm(ff_ctx *ctx, ff_text_buffer *out, const char *path, const char *text, size_t size,
                                 bool *has_rf)
{
    ff_text_buffer truncated = {0}, unique = {0};
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_stockholm_truncate(ctx, &truncated, path, text, size, FF_UNIREF90_MAX_SEQ));
    FF_TRY_DONE(ff_stockholm_remove_duplicates(ctx, &unique, path, truncated.data, truncated.size));
    *has_rf = strstr(unique.data, "\n#=GC RF ") != NULL;
    if (*has_rf) {
        FF_TRY_DONE(ff_stockholm_remove_empty_columns(ctx, out, path, unique.data, unique.size));
    } else {
        *out = unique;
        unique = (ff_text_buffer){0};
    }
done:
    ff_text_buffer_destroy(&truncated);
    ff_text_buffer_destroy(&unique);
    return status;
}

static ff_status from_query(ff_ctx *ctx, ff_text_buffer *out, const char *sequence, bool stockholm)
{
    if (stockholm)
        return write_stockholm(ctx, out, sequence, 1, (int64_t)strlen(sequence));
    FF_TRY(put(ctx, out, ">query\n"));
    FF_TRY(put(ctx, out, sequence));
    return put(ctx, out, "\n");
}

ff_status ff_search_template_input(ff_ctx *ctx, template_input *input, const char *path, const char *sequence,
                                   bool stockholm)
{
    ff_text_buffer out = {0}, sto = {0};
    char *text = NULL;
    size_t size = 0;
    ff_status status = FF_OK;
    *input = (template_input){.has_rf = true};
    if (path == NULL) {
        FF_TRY_DONE(from_query(ctx, &out, sequence, stockholm));
    } else {
        FF_TRY_DONE(ff_text_read_all(ctx, path, &text, &size));
        const char *first = text + strspn(text, " \t\r\n");
        const bool is_a3m = *first == '>' || (*first == '#' && strncmp(first, "# STOCKHOLM", 11) != 0);
        if (is_a3m && stockholm)
            FF_TRY_DONE(a3m_to_stockholm(ctx, &out, path));
        else if (is_a3m)
            FF_TRY_DONE(ff_text_buffer_put(ctx, &out, text, size));
        else if (stockholm)
            FF_TRY_DONE(clean_stockholm(ctx, &out, path, text, size, &input->has_rf));
        else {
            FF_TRY_DONE(clean_stockholm(ctx, &sto, path, text, size, &input->has_rf));
            FF_TRY_DONE(ff_stockholm_to_a3m(ctx, &out, path, sto.data, sto.size, 0, false));
        }
    }
    take(input, &out);
done:
    free(text);
    ff_text_buffer_destroy(&out);
    ff_text_buffer_destroy(&sto);
    return status;
}
