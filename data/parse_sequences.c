/* parse_sequences.c - FASTA files and alignments as named arrays.
 *
 * Contents: FASTA; queries; alignments. */
#include <stdio.h>
#include <string.h>

#include "data/a3m.h"
#include "data/fasta.h"
#include "data/parse.h"
#include "data/stockholm.h"
#include "structure/residue_constants.h"

/* ---- FASTA ---- */

enum { NUM_WITH_AATYPE = 5 }; /* the first entries of a FASTA file get aatype_K */

/* Bytes of the character at `text` and its aatype: Python counts an accented capital as an upper-case letter, so as X
 * (here the Latin, Greek and Cyrillic ones of two bytes); -1 = no upper-case letter. */
static int aatype_of_character(const char *text, int *bytes)
{
    const unsigned char c = (unsigned char)text[0], d = c >= 0xc3 && c <= 0xd0 ? (unsigned char)text[1] : 0;
    const int code = (c & 0x1f) << 6 | (d & 0x3f);
    *bytes = (d & 0xc0) == 0x80 ? 2 : 1;
    if (*bytes == 1)
        return ff_aatype_of_letter(text[0]);
    const bool capital = (code >= 0xc0 && code <= 0xde && code != 0xd7) || (code >= 0x391 && code <= 0x3a9) ||
                         (code >= 0x410 && code <= 0x42f);
    return capital ? FF_AATYPE_X : -1;
}

/* aatype_K of one record, or attribute aatype_K_error where a character is no upper-case letter. */
static ff_status put_aatype(ff_ctx *ctx, ff_parsed *parsed, int64_t k, const ff_fasta_record *record)
{
    char name[48];
    int bytes;
    int64_t length = 0;
    snprintf(name, sizeof name, "aatype_%lld", (long long)k);
    for (int64_t i = 0; i < record->length; i += bytes, length++)
        if (aatype_of_character(record->sequence + i, &bytes) < 0) {
            char error[160], quoted[FF_TEXT_QUOTE_BYTES];
            snprintf(error, sizeof error, "%s at position %lld is no upper-case letter",
                     ff_text_quote(quoted, record->sequence + i, bytes), (long long)length + 1);
            strcat(name, "_error");
            return ff_parsed_put_text(ctx, parsed, "/", name, error);
        }
    ff_array *aatype = ff_array_add(ctx, &parsed->arrays, name, FF_ARRAY_INT32, FF_DIMS(length));
    if (aatype == NULL)
        return ctx->status;
    length = 0;
    for (int64_t i = 0; i < record->length; i += bytes)
        aatype->i32[length++] = aatype_of_character(record->sequence + i, &bytes);
    return FF_OK;
}

ff_status ff_parse_fasta(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_status status = FF_OK;
    ff_fasta_reader *reader = NULL;
    ff_text_list sequences = {0}, descriptions = {0};
    int64_t residues = 0;
    (void)options; /* reading is AlphaFold's in both modes */
    FF_TRY_DONE(ff_fasta_open(ctx, &reader, path));
    for (;;) {
        ff_fasta_record record;
        bool more;
        FF_TRY_DONE(ff_fasta_next(ctx, reader, &record, &more));
        if (!more)
            break;
        if (sequences.count < NUM_WITH_AATYPE)
            FF_TRY_DONE(put_aatype(ctx, parsed, sequences.count, &record));
        FF_TRY_DONE(ff_text_list_add(ctx, &sequences, record.sequence, (size_t)record.length));
        FF_TRY_DONE(ff_text_list_add(ctx, &descriptions, record.description, strlen(record.description)));
        residues += record.length;
    }
    FF_TRY_DONE(ff_parsed_put_texts(ctx, parsed, "sequences", &sequences));
    FF_TRY_DONE(ff_parsed_put_texts(ctx, parsed, "descriptions", &descriptions));
    FF_TRY_DONE(ff_parsed_put_number(ctx, parsed, "/", "num", (double)sequences.count));
    snprintf(parsed->summary, sizeof parsed->summary, "%lld sequences, %lld characters", (long long)sequences.count,
             (long long)residues);
done:
    ff_fasta_close(reader);
    ff_text_list_destroy(&sequences);
    ff_text_list_destroy(&descriptions);
    return status;
}

/* ---- queries ---- */

typedef struct {
    ff_text_list sequences, descriptions, notes;
    int64_t residues, noted;
} query_list;

static ff_status add_query(ff_ctx *ctx, query_list *list, const ff_fasta_record *record, bool alphafold_compatible)
{
    ff_query query;
    FF_TRY(ff_query_from_record(ctx, &query, record, alphafold_compatible));
    ff_status status = ff_text_list_add(ctx, &list->sequences, query.sequence, (size_t)query.length);
    if (status == FF_OK)
        status = ff_text_list_add(ctx, &list->descriptions, record->description, strlen(record->description));
    if (status == FF_OK)
        status = ff_text_list_add(ctx, &list->notes, query.note, strlen(query.note));
    list->residues += query.length;
    list->noted += query.note[0] != '\0';
    ff_query_destroy(&query);
    return status;
}

static ff_status put_queries(ff_ctx *ctx, ff_parsed *parsed, const query_list *list, const char *path)
{
    if (list->sequences.count == 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s holds no sequences", path);
    FF_TRY(ff_parsed_put_texts(ctx, parsed, "sequences", &list->sequences));
    FF_TRY(ff_parsed_put_texts(ctx, parsed, "descriptions", &list->descriptions));
    FF_TRY(ff_parsed_put_texts(ctx, parsed, "notes", &list->notes));
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "num", (double)list->sequences.count));
    snprintf(parsed->summary, sizeof parsed->summary, "%lld sequences, %lld residues%s%s",
             (long long)list->sequences.count, (long long)list->residues, list->noted > 0 ? ", with a note: " : "",
             list->sequences.count == 1 ? ff_text_list_get(&list->notes, 0)
             : list->noted > 0          ? "see notes"
                                        : "");
    return FF_OK;
}

ff_status ff_parse_queries(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_status status = FF_OK;
    ff_fasta_reader *reader = NULL;
    query_list list = {.residues = 0};
    FF_TRY_DONE(ff_fasta_open(ctx, &reader, path));
    for (;;) {
        ff_fasta_record record;
        bool more;
        FF_TRY_DONE(ff_fasta_next(ctx, reader, &record, &more));
        if (!more)
            break;
        FF_TRY_DONE(add_query(ctx, &list, &record, options->alphafold_compatible));
    }
    FF_TRY_DONE(put_queries(ctx, parsed, &list, path));
done:
    ff_fasta_close(reader);
    ff_text_list_destroy(&list.sequences);
    ff_text_list_destroy(&list.descriptions);
    ff_text_list_destroy(&list.notes);
    return status;
}

/* ---- alignments ---- */

/* Row by row: letters as text. */
static ff_status put_rows(ff_ctx *ctx, ff_parsed *parsed, const ff_msa *msa)
{
    ff_array *sequences = ff_array_add(ctx, &parsed->arrays, "sequences", FF_ARRAY_TEXT, FF_DIMS(msa->num_seq));
    if (sequences == NULL)
        return ctx->status;
    for (int64_t s = 0; s < msa->num_seq; s++)
        FF_TRY(ff_array_put_text(ctx, sequences, s, msa->rows + msa->offsets[s],
                                 (size_t)(msa->offsets[s + 1] - msa->offsets[s])));
    return ff_parsed_put_texts(ctx, parsed, "descriptions", &msa->descriptions);
}

static ff_status put_deletions(ff_ctx *ctx, ff_parsed *parsed, const ff_msa *msa)
{
    ff_array *array = ff_array_add(ctx, &parsed->arrays, "deletion_matrix", FF_ARRAY_INT32,
                                   FF_DIMS(msa->num_seq, msa->num_res));
    if (array == NULL)
        return ctx->status;
    for (int64_t s = 0; s < msa->num_seq; s++)
        ff_msa_put_deletions(msa, s, array->i32 + msa->offsets[s]);
    return FF_OK;
}

/* Rows of unequal lengths: lengths, and all deletions one after the other. */
static ff_status put_unequal(ff_ctx *ctx, ff_parsed *parsed, const ff_msa *msa)
{
    ff_array *lengths = ff_array_add(ctx, &parsed->arrays, "row_len", FF_ARRAY_INT32, FF_DIMS(msa->num_seq));
    ff_array *deletion_lengths =
        ff_array_add(ctx, &parsed->arrays, "deletion_len", FF_ARRAY_INT32, FF_DIMS(msa->num_seq));
    ff_array *flat =
        ff_array_add(ctx, &parsed->arrays, "deletion_flat", FF_ARRAY_INT32, FF_DIMS(msa->offsets[msa->num_seq]));
    if (lengths == NULL || deletion_lengths == NULL || flat == NULL)
        return ctx->status;
    for (int64_t s = 0; s < msa->num_seq; s++)
        lengths->i32[s] = deletion_lengths->i32[s] = (int32_t)(msa->offsets[s + 1] - msa->offsets[s]);
    for (int64_t s = 0; s < msa->num_seq; s++)
        ff_msa_put_deletions(msa, s, flat->i32 + msa->offsets[s]);
    return FF_OK;
}

/* Codes; absent when a letter has none. No rows: an array of one empty dimension, as numpy makes it. */
static ff_status put_codes(ff_ctx *ctx, ff_parsed *parsed, const ff_msa *msa)
{
    const int64_t shape[2] = {msa->num_seq, msa->num_res};
    ff_array *array = ff_array_add(ctx, &parsed->arrays, "msa", FF_ARRAY_INT32, msa->num_seq > 0 ? 2 : 1, shape);
    if (array == NULL)
        return ctx->status;
    for (int64_t i = 0; i < array->size; i++)
        array->i32[i] = msa->codes[i];
    return FF_OK;
}

static ff_status put_msa(ff_ctx *ctx, ff_parsed *parsed, const ff_msa *msa)
{
    const bool has_codes = msa->first_no_code < 0;
    FF_TRY(put_rows(ctx, parsed, msa));
    if (!msa->aligned)
        FF_TRY(put_unequal(ctx, parsed, msa));
    else if (msa->num_seq > 0)
        FF_TRY(put_deletions(ctx, parsed, msa));
    if (msa->aligned && has_codes)
        FF_TRY(put_codes(ctx, parsed, msa));
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "num_seq", (double)msa->num_seq));
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "aligned", msa->aligned));
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "msa_ok", has_codes));
    if (!has_codes) {
        char quoted[FF_TEXT_QUOTE_BYTES], error[160];
        snprintf(error, sizeof error, "%s stands for no residue",
                 ff_text_quote(quoted, msa->rows + msa->first_no_code, 1));
        FF_TRY(ff_parsed_put_text(ctx, parsed, "/", "msa_error", error));
    }
    snprintf(parsed->summary, sizeof parsed->summary, "%lld rows of %lld columns%s%s", (long long)msa->num_seq,
             (long long)msa->num_res, msa->aligned ? "" : ", of unequal lengths",
             has_codes ? "" : ", with letters that stand for no residue");
    return FF_OK;
}

ff_status ff_parse_a3m(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    const ff_msa_options as_it_is = {0, false, true};
    ff_msa msa;
    (void)options;
    ff_status status = ff_a3m_read(ctx, &msa, path, &as_it_is);
    if (status == FF_OK)
        status = put_msa(ctx, parsed, &msa);
    ff_msa_destroy(&msa);
    return status;
}

ff_status ff_parse_stockholm(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_msa msa;
    (void)options;
    ff_status status = ff_stockholm_read(ctx, &msa, path, NULL);
    if (status == FF_OK)
        status = put_msa(ctx, parsed, &msa);
    ff_msa_destroy(&msa);
    return status;
}
