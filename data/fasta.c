/* fasta.c - see fasta.h.
 *
 * Contents: reading; the sequence of a query; file names. */
#include "data/fasta.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text_buffer.h"
#include "structure/residue_constants.h"

/* ---- reading ---- */

struct ff_fasta_reader {
    ff_text_file *text;
    ff_text_buffer description, sequence;
};

ff_status ff_fasta_open_text(ff_ctx *ctx, ff_fasta_reader **reader, ff_text_file *text)
{
    *reader = calloc(1, sizeof **reader);
    if (*reader == NULL) {
        ff_text_close(text);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading FASTA");
    }
    (*reader)->text = text;
    return FF_OK;
}

ff_status ff_fasta_open(ff_ctx *ctx, ff_fasta_reader **reader, const char *path)
{
    ff_text_file *text;
    *reader = NULL;
    FF_TRY(ff_text_open(ctx, &text, path));
    return ff_fasta_open_text(ctx, reader, text);
}

void ff_fasta_close(ff_fasta_reader *reader)
{
    if (reader == NULL)
        return;
    ff_text_close(reader->text);
    ff_text_buffer_destroy(&reader->description);
    ff_text_buffer_destroy(&reader->sequence);
    free(reader);
}

/* The next line that is not blank, trimmed. */
static ff_status next_line(ff_ctx *ctx, ff_fasta_reader *r, ff_text_line *line)
{
    do {
        FF_TRY(ff_text_next(ctx, r->text, line));
        if (line->text == NULL)
            return FF_OK;
        ff_text_strip(&line->text, &line->length);
    } while (line->length == 0);
    return FF_OK;
}

ff_status ff_fasta_next(ff_ctx *ctx, ff_fasta_reader *r, ff_fasta_record *record, bool *more)
{
    ff_text_line line;
    char quoted[FF_TEXT_QUOTE_BYTES];
    *record = (ff_fasta_record){ff_text_path(r->text), 0, "", "", 0};
    *more = false;
    FF_TRY(next_line(ctx, r, &line));
    if (line.text == NULL)
        return FF_OK;
    if (line.text[0] != '>')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s stands before the first '>'; a FASTA record begins with a line"
                       " `>name`", record->path, (long long)line.number,
                       ff_text_quote(quoted, line.text, line.length));
    record->line = line.number;
    ff_text_buffer_clear(&r->description);
    ff_text_buffer_clear(&r->sequence);
    FF_TRY(ff_text_buffer_put_line(ctx, &r->description, line.text + 1, (size_t)line.length - 1));
    FF_TRY(ff_text_buffer_reserve(ctx, &r->sequence, 0));
    for (;;) {
        FF_TRY(next_line(ctx, r, &line));
        if (line.text == NULL)
            break;
        if (line.text[0] == '>') {
            ff_text_push_back(r->text, &line);
            break;
        }
        FF_TRY(ff_text_buffer_put_line(ctx, &r->sequence, line.text, (size_t)line.length));
    }
    record->description = r->description.data;
    record->sequence = r->sequence.data;
    record->length = (int64_t)r->sequence.size;
    *more = true;
    return FF_OK;
}

/* ---- the sequence of a query ---- */

int ff_aatype_of_letter(char letter)
{
    if (letter < 'A' || letter > 'Z')
        return -1;
    const char *p = memchr(ff_restypes, letter, 20);
    return p == NULL ? FF_AATYPE_X : (int)(p - ff_restypes);
}

/* What is wrong with a character, and what to do. */
static const char *advice(unsigned char c, bool alphafold_compatible)
{
    if (c == ':' || c == '/')
        return "joins the chains of a complex; this program takes single chains: give each chain a record of its own";
    if (alphafold_compatible)
        return "is no upper-case letter, and AlphaFold takes nothing else";
    if (c == '-' || c == '.')
        return "is a gap, and a query has none; remove the gaps, or give the alignment with --msa";
    if (c == '*')
        return "is a stop inside the sequence; end the sequence there or remove it";
    if (c >= '0' && c <= '9')
        return "is a digit; remove the numbering";
    if (c == '\\')
        return "is no amino-acid letter; a NUL byte is shown as \\0";
    if (c == '>')
        return "stands inside a sequence line; each record begins on a line of its own";
    return "is no amino-acid letter";
}

static ff_status fail_character(ff_ctx *ctx, const ff_fasta_record *record, int64_t at, bool alphafold_compatible)
{
    char quoted[FF_TEXT_QUOTE_BYTES], name[FF_TEXT_QUOTE_BYTES];
    const unsigned char c = (unsigned char)record->sequence[at];
    /* the message shows a NUL as the reader keeps it, and UTF-8 characters whole */
    int64_t bytes = c == '\\' && record->sequence[at + 1] == '0' ? 2 : 1;
    while (c >= 0xc0 && at + bytes < record->length && ((unsigned char)record->sequence[at + bytes] & 0xc0) == 0x80)
        bytes++;
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s at position %lld of %s %s", record->path, (long long)record->line,
                   ff_text_quote(quoted, record->sequence + at, bytes), (long long)at + 1,
                   ff_text_quote(name, record->description, (int64_t)strlen(record->description)),
                   advice(c, alphafold_compatible));
}

typedef struct {
    int64_t lower, blank, stop, unusual;
    bool nucleotides; /* nothing but A C G T U N */
} changes;

/* Keep the letters of the record in `out`; what was changed is counted. Position of a bad character, or -1. */
static int64_t take_letters(const ff_fasta_record *record, bool strict, char *out, int64_t *length, changes *n)
{
    int64_t last = record->length - 1;
    while (last >= 0 && ff_text_is_blank((unsigned char)record->sequence[last]))
        last--;
    *length = 0;
    *n = (changes){.nucleotides = true};
    for (int64_t i = 0; i < record->length; i++) {
        char c = record->sequence[i];
        if (!strict && ff_text_is_blank((unsigned char)c)) {
            n->blank++;
            continue;
        }
        if (!strict && c == '*' && i == last) {
            n->stop++;
            continue;
        }
        if (!strict && c >= 'a' && c <= 'z') {
            n->lower++;
            c = (char)(c - 'a' + 'A');
        }
        if (c < 'A' || c > 'Z')
            return i;
        n->nucleotides &= strchr("ACGTUN", c) != NULL;
        if (strchr("BZUOJ", c) != NULL) {
            n->unusual++;
            c = strict ? c : 'X';
        }
        out[(*length)++] = c;
    }
    out[*length] = '\0';
    return -1;
}

static void add_note(ff_query *query, bool is_so, int64_t count, const char *text)
{
    const size_t used = strlen(query->note);
    if (!is_so)
        return;
    const char *comma = used > 0 ? ", " : "";
    if (count > 0)
        snprintf(query->note + used, sizeof query->note - used, "%s%lld %s", comma, (long long)count, text);
    else
        snprintf(query->note + used, sizeof query->note - used, "%s%s", comma, text);
}

ff_status ff_query_from_record(ff_ctx *ctx, ff_query *query, const ff_fasta_record *record, bool alphafold_compatible)
{
    char quoted[FF_TEXT_QUOTE_BYTES];
    changes n;
    *query = (ff_query){.sequence = malloc((size_t)record->length + 1)};
    if (query->sequence == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "%s:%lld: out of memory", record->path, (long long)record->line);
    const int64_t bad = take_letters(record, alphafold_compatible, query->sequence, &query->length, &n);
    if (bad >= 0 || query->length == 0) {
        ff_query_destroy(query);
        if (bad >= 0)
            return fail_character(ctx, record, bad, alphafold_compatible);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s has no residues", record->path, (long long)record->line,
                       ff_text_quote(quoted, record->description, (int64_t)strlen(record->description)));
    }
    add_note(query, n.lower > 0, n.lower, "lower-case letters were made upper case");
    add_note(query, n.blank > 0, n.blank, "blanks inside were left out");
    add_note(query, n.stop > 0, 0, "the '*' at the end was left out");
    add_note(query, n.unusual > 0 && !alphafold_compatible, n.unusual, "of B Z U O J were made X");
    add_note(query, n.nucleotides && query->length >= 20, 0, "it looks like nucleotides; amino acids are expected");
    if (query->note[0] != '\0')
        FF_WARN(ctx, "%s:%lld: %s: %s", record->path, (long long)record->line,
                ff_text_quote(quoted, record->description, (int64_t)strlen(record->description)), query->note);
    return FF_OK;
}

void ff_query_destroy(ff_query *query)
{
    free(query->sequence);
    *query = (ff_query){NULL, 0, ""};
}

/* ---- file names ---- */

const char *ff_fasta_file_name(char name[FF_FILE_NAME_BYTES], const char *description)
{
    enum { LONGEST = 80 };
    size_t n = 0;
    while (ff_text_is_blank((unsigned char)*description))
        description++;
    for (; *description != '\0' && !ff_text_is_blank((unsigned char)*description) && n < LONGEST; description++) {
        const unsigned char c = (unsigned char)*description;
        const bool plain = c < 0x80 && (isalnum(c) || c == '_' || c == '+' || (n > 0 && (c == '-' || c == '.')));
        name[n++] = plain ? (char)c : '_';
    }
    while (n > 0 && name[n - 1] == '.')
        n--;
    if (n == 0)
        n = (size_t)snprintf(name, FF_FILE_NAME_BYTES, "unnamed");
    name[n] = '\0';
    return name;
}
