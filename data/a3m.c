#include "data/a3m.h"

#include <string.h>

#include "io/safe_file.h"

/* What a character of a row is, besides its code. */
enum { COLUMN_NO_CODE = -1, INSERTION = -2, SKIPPED = -3 };

/* Kind or code of every character. */
static void make_table(int8_t table[256], bool lenient)
{
    memcpy(table, ff_msa_codes, 256);
    for (int c = 'a'; c <= 'z'; c++)
        table[c] = INSERTION;
    table[0] = SKIPPED;
    if (lenient) {
        table['.'] = table['~'] = SKIPPED; /* padding beside the insertions of other rows */
        for (int c = 1; c < 256; c++)
            if (ff_text_is_blank((unsigned char)c))
                table[c] = SKIPPED;
    }
}

/* Letters that are looked at together; most blocks of a row are columns only. */
enum { BLOCK = 32 };

/* Codes of a block, and whether it is columns only. */
static inline bool take_block(const int8_t table[256], const char *text, int8_t *codes)
{
    int8_t lowest = 0;
    for (int i = 0; i < BLOCK; i++)
        codes[i] = table[(unsigned char)text[i]];
    for (int i = 0; i < BLOCK; i++)
        lowest = codes[i] < lowest ? codes[i] : lowest;
    return lowest >= COLUMN_NO_CODE;
}

/* A stretch of a row. */
static ff_status add_columns(ff_ctx *ctx, ff_msa_builder *b, const int8_t table[256], const char *text, int64_t length)
{
    FF_TRY(ff_msa_builder_reserve(ctx, b, length));
    char *rows = b->msa.rows;
    int8_t *codes = b->msa.codes;
    int64_t n = b->size;
    for (int64_t i = 0; i < length;) {
        if (b->pending == 0 && i + BLOCK <= length && take_block(table, text + i, codes + n)) {
            memcpy(rows + n, text + i, BLOCK);
            n += BLOCK;
            i += BLOCK;
            continue;
        }
        const int64_t end = i + BLOCK < length ? i + BLOCK : length;
        for (; i < end; i++) {
            const int8_t kind = table[(unsigned char)text[i]];
            if (kind >= COLUMN_NO_CODE) {
                if (b->pending > 0)
                    FF_TRY(ff_msa_builder_flush(ctx, b, n));
                rows[n] = text[i];
                codes[n++] = kind;
            } else if (kind == INSERTION) {
                b->pending++;
            }
        }
    }
    b->size = n;
    return FF_OK;
}

/* A `#` line before the first row: ColabFold's `#73\t1`, or `#73,80\t1,1` for a complex. */
static ff_status check_comment(ff_ctx *ctx, const ff_text_file *text, const ff_text_line *line)
{
    char quoted[FF_TEXT_QUOTE_BYTES];
    const size_t digits = strspn(line->text + 1, "0123456789");
    if (digits > 0 && line->text[1 + digits] == ',')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s: an alignment of a complex; this program takes single chains",
                       ff_text_path(text), (long long)line->number, ff_text_quote(quoted, line->text, line->length));
    return FF_OK;
}

/* Blanks and NULs off both ends. */
static void strip_line(ff_text_line *line)
{
    do {
        ff_text_strip(&line->text, &line->length);
        while (line->length > 0 && line->text[0] == '\0') {
            line->text++;
            line->length--;
        }
    } while (line->length > 0 && ff_text_is_blank((unsigned char)line->text[0]));
}

static ff_status read_rows(ff_ctx *ctx, ff_msa_builder *b, ff_text_file *text, const ff_msa_options *options)
{
    int8_t table[256];
    char quoted[FF_TEXT_QUOTE_BYTES];
    make_table(table, options->lenient);
    for (ff_text_line line;;) {
        FF_TRY(ff_text_next(ctx, text, &line));
        if (line.text == NULL)
            return FF_OK;
        strip_line(&line);
        if (line.length == 0)
            continue;
        if (line.text[0] == '>') {
            if (options->max_seq > 0 && b->msa.num_seq == options->max_seq)
                return FF_OK;
            FF_TRY(ff_msa_builder_begin(ctx, b, line.text + 1, line.length - 1, line.number));
        } else if (b->msa.num_seq > 0) {
            FF_TRY(add_columns(ctx, b, table, line.text, line.length));
        } else if (line.text[0] == '#') {
            FF_TRY(check_comment(ctx, text, &line));
        } else {
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "%s:%lld: %s stands before the first '>'; a row of an A3M file begins with a"
                           " line `>name`",
                           ff_text_path(text), (long long)line.number, ff_text_quote(quoted, line.text, line.length));
        }
    }
}

static ff_status check_lengths(ff_ctx *ctx, const ff_msa *msa)
{
    ff_msa lengths_only = *msa; /* an empty file and letters without a code are no matter here */
    lengths_only.first_no_code = -1;
    return msa->aligned ? FF_OK : ff_msa_check(ctx, &lengths_only, 0);
}

ff_status ff_a3m_read_text(ff_ctx *ctx, ff_msa *msa, ff_text_file *text, const ff_msa_options *options)
{
    static const ff_msa_options none = {0, false, false};
    ff_msa_builder builder = {.size = 0};
    options = options == NULL ? &none : options;
    *msa = (ff_msa){.path = NULL};
    ff_status status = read_rows(ctx, &builder, text, options);
    if (status == FF_OK)
        status = ff_msa_builder_finish(ctx, &builder, ff_text_path(text), msa);
    if (status == FF_OK && !options->allow_unequal)
        status = check_lengths(ctx, msa);
    if (status != FF_OK)
        ff_msa_destroy(msa);
    ff_msa_builder_destroy(&builder);
    return status;
}

ff_status ff_a3m_read(ff_ctx *ctx, ff_msa *msa, const char *path, const ff_msa_options *options)
{
    ff_text_file *text;
    *msa = (ff_msa){.path = NULL};
    FF_TRY(ff_text_open(ctx, &text, path));
    const ff_status status = ff_a3m_read_text(ctx, msa, text, options);
    ff_text_close(text);
    return status;
}

ff_status ff_a3m_write(ff_ctx *ctx, const ff_msa *msa, const char *path)
{
    ff_safe_file safe;
    FF_TRY(ff_safe_file_begin(ctx, &safe, path));
    const ff_msa_deletion *next = msa->deletion_list, *end = next + msa->deletion_offsets[msa->num_seq];
    for (int64_t s = 0; s < msa->num_seq; s++) {
        fprintf(safe.file, ">%s\n", ff_text_list_get(&msa->descriptions, s));
        int64_t at = msa->offsets[s];
        for (; next < end && next->at < msa->offsets[s + 1]; at = (next++)->at) {
            fwrite(msa->rows + at, 1, (size_t)(next->at - at), safe.file);
            for (int32_t k = 0; k < next->count; k++)
                fputc('x', safe.file);
        }
        fwrite(msa->rows + at, 1, (size_t)(msa->offsets[s + 1] - at), safe.file);
        fputc('\n', safe.file);
    }
    return ff_safe_file_commit(ctx, &safe);
}
