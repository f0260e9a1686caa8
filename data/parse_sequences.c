/* parse_sequences.c - FASTA files and alignments as named arrays. */
#include <stdio.h>
#include <string.h>

#include "data/fasta.h"
#include "data/parse.h"
#include "structure/residue_constants.h"

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
