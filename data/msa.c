#include "data/msa.h"

#include <stdlib.h>
#include <string.h>

const int8_t ff_msa_codes[256] = {
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 21, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, 0, 2, 1, 2, 3, 4, 5, 6, 7, 20, 8, 9, 10, 11, 20,
    12, 13, 14, 15, 16, 1, 17, 18, 20, 19, 3, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
};

int ff_msa_code(char letter) { return ff_msa_codes[(unsigned char)letter]; }

void ff_msa_destroy(ff_msa *msa)
{
    free(msa->path);
    free(msa->rows);
    free(msa->codes);
    free(msa->deletion_list);
    free(msa->deletion_offsets);
    free(msa->offsets);
    free(msa->lines);
    ff_text_list_destroy(&msa->descriptions);
    *msa = (ff_msa){.path = NULL};
}

/* ---- checks ---- */

static const char *quote_row(char quoted[FF_TEXT_QUOTE_BYTES], const ff_msa *msa, int64_t s)
{
    const char *description = ff_text_list_get(&msa->descriptions, s);
    return ff_text_quote(quoted, description, (int64_t)strcspn(description, " \t"));
}

ff_status ff_msa_check(ff_ctx *ctx, const ff_msa *msa, int64_t num_res)
{
    char quoted[FF_TEXT_QUOTE_BYTES], letter[FF_TEXT_QUOTE_BYTES];
    const int64_t wanted = num_res == 0 ? msa->num_res : num_res;
    if (msa->num_seq == 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s holds no sequences; an alignment has the query as its first row",
                       msa->path);
    if (wanted == 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: the first row (%s) is empty; it should be the query", msa->path,
                       (long long)msa->lines[0], quote_row(quoted, msa, 0));
    for (int64_t s = 0; s < msa->num_seq; s++) {
        const int64_t length = msa->offsets[s + 1] - msa->offsets[s];
        if (length != wanted)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: row %lld (%s) has %lld columns, the query has %lld", msa->path,
                           (long long)msa->lines[s], (long long)s + 1, quote_row(quoted, msa, s), (long long)length,
                           (long long)wanted);
    }
    if (msa->first_no_code >= 0) {
        const int64_t s = msa->first_no_code / wanted;
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: row %lld (%s) has %s in column %lld, which stands for no residue",
                       msa->path, (long long)msa->lines[s], (long long)s + 1, quote_row(quoted, msa, s),
                       ff_text_quote(letter, msa->rows + msa->first_no_code, 1),
                       (long long)(msa->first_no_code - s * wanted) + 1);
    }
    return FF_OK;
}

void ff_msa_put_deletions(const ff_msa *msa, int64_t s, int32_t *out)
{
    memset(out, 0, (size_t)(msa->offsets[s + 1] - msa->offsets[s]) * sizeof *out);
    for (int64_t k = msa->deletion_offsets[s]; k < msa->deletion_offsets[s + 1]; k++)
        out[msa->deletion_list[k].at - msa->offsets[s]] = msa->deletion_list[k].count;
}

/* ---- species ---- */

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static size_t count_letters_and_digits(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && is_letter_or_digit(p[n]))
        n++;
    return n;
}

const char *ff_msa_species(char species[8], const char *description)
{
    species[0] = '\0';
    const char *p = description, *end, *word;
    int64_t length;
    if (!ff_text_next_word(&p, p + strlen(p), &word, &length))
        return species;
    const char *slash = memchr(word, '/', (size_t)length);
    end = slash == NULL ? word + length : slash;
    p = word;
    if (end - p < 3 || (memcmp(p, "tr|", 3) != 0 && memcmp(p, "sp|", 3) != 0))
        return species;
    p += 3;
    size_t n = count_letters_and_digits(p, end); /* accession, perhaps with the number of an isoform */
    if (n < 6 || n > 10)
        return species;
    p += n;
    if (end - p >= 2 && p[0] == '_' && p[1] >= '0' && p[1] <= '9')
        p += 2;
    if (p == end || *p++ != '|')
        return species;
    n = count_letters_and_digits(p, end);
    p += n;
    if (n == 0 || p == end || *p++ != '_')
        return species;
    n = count_letters_and_digits(p, end);
    const char *rest = p + n;
    if (n < 1 || n > 5)
        return species;
    if (rest < end && *rest == '_') { /* small BFD appends a number */
        do
            rest++;
        while (rest < end && *rest >= '0' && *rest <= '9');
        if (rest[-1] == '_')
            return species;
    }
    if (rest != end)
        return species;
    memcpy(species, p, n);
    species[n] = '\0';
    return species;
}

/* ---- building ---- */

ff_status ff_msa_builder_begin(ff_ctx *ctx, ff_msa_builder *b, const char *description, int64_t length, int64_t line)
{
    ff_msa *msa = &b->msa;
    FF_TRY(ff_grow(ctx, &msa->offsets, &b->offset_capacity, msa->num_seq + 2, sizeof *msa->offsets));
    FF_TRY(ff_grow(ctx, &msa->deletion_offsets, &b->deletion_offset_capacity, msa->num_seq + 2,
                   sizeof *msa->deletion_offsets));
    FF_TRY(ff_grow(ctx, &msa->lines, &b->line_capacity, msa->num_seq + 1, sizeof *msa->lines));
    FF_TRY(ff_text_list_add(ctx, &msa->descriptions, description, (size_t)length));
    msa->offsets[msa->num_seq] = b->size;
    msa->deletion_offsets[msa->num_seq] = b->num_deletions;
    msa->lines[msa->num_seq++] = line;
    b->pending = 0; /* insertions after the last column are not counted */
    return FF_OK;
}

ff_status ff_msa_builder_reserve(ff_ctx *ctx, ff_msa_builder *b, int64_t length)
{
    FF_TRY(ff_grow(ctx, &b->msa.rows, &b->capacity, b->size + length, 1));
    return ff_grow(ctx, &b->msa.codes, &b->code_capacity, b->size + length, 1);
}

ff_status ff_msa_builder_flush(ff_ctx *ctx, ff_msa_builder *b, int64_t at)
{
    if (b->pending == 0)
        return FF_OK;
    FF_TRY(
        ff_grow(ctx, &b->msa.deletion_list, &b->deletion_capacity, b->num_deletions + 1, sizeof *b->msa.deletion_list));
    b->msa.deletion_list[b->num_deletions++] =
        (ff_msa_deletion){at, b->pending > INT32_MAX ? INT32_MAX : (int32_t)b->pending};
    b->pending = 0;
    return FF_OK;
}

static ff_status finish(ff_ctx *ctx, ff_msa_builder *b, const char *path)
{
    ff_msa *msa = &b->msa;
    FF_TRY(ff_grow(ctx, &msa->offsets, &b->offset_capacity, msa->num_seq + 1, sizeof *msa->offsets));
    FF_TRY(ff_grow(ctx, &msa->deletion_offsets, &b->deletion_offset_capacity, msa->num_seq + 1,
                   sizeof *msa->deletion_offsets));
    FF_TRY(ff_msa_builder_reserve(ctx, b, 1)); /* no NULL pointers in an empty alignment */
    msa->path = strdup(path);
    if (msa->path == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the %lld rows of %s", (long long)msa->num_seq, path);
    msa->offsets[msa->num_seq] = b->size;
    msa->deletion_offsets[msa->num_seq] = b->num_deletions;
    msa->num_res = msa->num_seq > 0 ? msa->offsets[1] : 0;
    msa->aligned = true;
    for (int64_t s = 0; s < msa->num_seq; s++)
        msa->aligned &= msa->offsets[s + 1] - msa->offsets[s] == msa->num_res;
    msa->first_no_code = -1;
    const int8_t *bad = memchr(msa->codes, FF_MSA_NO_CODE, (size_t)b->size);
    if (bad != NULL)
        msa->first_no_code = bad - msa->codes;
    return FF_OK;
}

ff_status ff_msa_builder_finish(ff_ctx *ctx, ff_msa_builder *b, const char *path, ff_msa *msa)
{
    const ff_status status = finish(ctx, b, path);
    *msa = (ff_msa){.path = NULL};
    if (status == FF_OK) {
        *msa = b->msa;
        b->msa = (ff_msa){.path = NULL};
    }
    ff_msa_builder_destroy(b);
    return status;
}

void ff_msa_builder_destroy(ff_msa_builder *b)
{
    ff_msa_destroy(&b->msa);
    *b = (ff_msa_builder){.size = 0};
}
