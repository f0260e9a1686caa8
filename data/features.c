#include "data/features.h"

#include <stdlib.h>
#include <string.h>

#include "data/a3m.h"
#include "data/fasta.h"
#include "io/name_table.h"

/* ---- the sequence ---- */

static ff_status put_text(ff_ctx *ctx, ff_array_set *set, const char *name, const char *text)
{
    ff_array *a = ff_array_add(ctx, set, name, FF_ARRAY_TEXT, FF_DIMS(1));
    return a == NULL ? ctx->status : ff_array_put_text(ctx, a, 0, text, strlen(text));
}

/* An int32 array [n] of one value. */
static ff_status put_constant(ff_ctx *ctx, ff_array_set *set, const char *name, int64_t n, int32_t value)
{
    ff_array *a = ff_array_add(ctx, set, name, FF_ARRAY_INT32, FF_DIMS(n));
    if (a == NULL)
        return ctx->status;
    for (int64_t i = 0; i < n; i++)
        a->i32[i] = value;
    return FF_OK;
}

ff_status ff_features_add_sequence(ff_ctx *ctx, ff_array_set *set, const char *sequence, const char *description)
{
    enum { NUM_CODES = 21 };
    const int64_t n = (int64_t)strlen(sequence);
    ff_array *aatype = ff_array_add(ctx, set, "aatype", FF_ARRAY_INT32, FF_DIMS(n, NUM_CODES));
    ff_array *index = ff_array_add(ctx, set, "residue_index", FF_ARRAY_INT32, FF_DIMS(n));
    if (aatype == NULL || index == NULL)
        return ctx->status;
    for (int64_t i = 0; i < n; i++) {
        const int code = ff_aatype_of_letter(sequence[i]);
        if (code < 0)
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "the sequence of %.60s has \"%c\" at residue %lld, which is no residue", description,
                           sequence[i], (long long)i + 1);
        aatype->i32[i * NUM_CODES + code] = 1;
        index->i32[i] = (int32_t)i;
    }
    FF_TRY(put_constant(ctx, set, "between_segment_residues", n, 0));
    FF_TRY(put_constant(ctx, set, "seq_length", n, (int32_t)n));
    FF_TRY(put_text(ctx, set, "domain_name", description));
    return put_text(ctx, set, "sequence", sequence);
}

/* ---- alignments ---- */

/* A row of one of the alignments. */
typedef struct {
    const ff_msa *msa;
    int64_t row;
} row_place;

static const char *letters(const row_place *place, int64_t num_res)
{
    return place->msa->rows + place->row * num_res;
}

typedef struct {
    row_place *places; /* [count] rows kept */
    uint64_t *hashes;  /* [count] */
    int64_t count;
    int64_t *slots; /* [num_slots] index into places, -1 = free; a power of two, at most half full */
    int64_t num_slots;
} row_set;

static ff_status create_rows(ff_ctx *ctx, row_set *set, int64_t most)
{
    *set = (row_set){.num_slots = 16};
    while (set->num_slots < 2 * most)
        set->num_slots *= 2;
    set->places = malloc((size_t)(most + 1) * sizeof *set->places);
    set->hashes = malloc((size_t)(most + 1) * sizeof *set->hashes);
    set->slots = malloc((size_t)set->num_slots * sizeof *set->slots);
    if (set->places == NULL || set->hashes == NULL || set->slots == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld rows of alignments", (long long)most);
    memset(set->slots, 0xff, (size_t)set->num_slots * sizeof *set->slots);
    return FF_OK;
}

static void destroy_rows(row_set *set)
{
    free(set->places);
    free(set->hashes);
    free(set->slots);
}

/* Keep a row unless its letters are there. */
static void add_row(row_set *set, const row_place *place, int64_t num_res)
{
    const char *text = letters(place, num_res);
    const uint64_t hash = ff_hash_bytes(text, (size_t)num_res);
    int64_t slot = (int64_t)(hash & (uint64_t)(set->num_slots - 1));
    for (; set->slots[slot] >= 0; slot = (slot + 1) & (set->num_slots - 1)) {
        const int64_t k = set->slots[slot];
        if (set->hashes[k] == hash && memcmp(letters(&set->places[k], num_res), text, (size_t)num_res) == 0)
            return;
    }
    set->places[set->count] = *place;
    set->hashes[set->count] = hash;
    set->slots[slot] = set->count++;
}

static ff_status put_rows(ff_ctx *ctx, ff_array_set *set, const row_set *rows, int64_t num_res)
{
    const int64_t s = rows->count;
    ff_array *msa = ff_array_add(ctx, set, "msa", FF_ARRAY_INT32, FF_DIMS(s, num_res));
    ff_array *deletions = ff_array_add(ctx, set, "deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(s, num_res));
    ff_array *species = ff_array_add(ctx, set, "msa_species_identifiers", FF_ARRAY_TEXT, FF_DIMS(s));
    if (msa == NULL || deletions == NULL || species == NULL)
        return ctx->status;
    for (int64_t k = 0; k < s; k++) {
        const row_place *p = &rows->places[k];
        const int8_t *codes = p->msa->codes + p->row * num_res;
        int32_t *out = msa->i32 + k * num_res;
        for (int64_t i = 0; i < num_res; i++)
            out[i] = codes[i];
        ff_msa_put_deletions(p->msa, p->row, deletions->i32 + k * num_res);
        char name[8];
        ff_msa_species(name, ff_text_list_get(&p->msa->descriptions, p->row));
        if (name[0] != '\0')
            FF_TRY(ff_array_put_text(ctx, species, k, name, strlen(name)));
    }
    return put_constant(ctx, set, "num_alignments", num_res, (int32_t)s);
}

ff_status ff_features_add_msas(ff_ctx *ctx, ff_array_set *set, const ff_msa *const *msas, int64_t num_msas,
                               int64_t num_res)
{
    ff_status status = FF_OK;
    row_set rows = {0};
    int64_t most = 0;
    for (int64_t m = 0; m < num_msas; m++) {
        FF_TRY(ff_msa_check(ctx, msas[m], num_res));
        most += msas[m]->num_seq;
    }
    FF_TRY_DONE(create_rows(ctx, &rows, most));
    for (int64_t m = 0; m < num_msas; m++)
        for (int64_t s = 0; s < msas[m]->num_seq; s++)
            add_row(&rows, &(row_place){msas[m], s}, num_res);
    FF_TRY_DONE(put_rows(ctx, set, &rows, num_res));
done:
    destroy_rows(&rows);
    return status;
}

ff_status ff_msa_from_sequence(ff_ctx *ctx, ff_msa *msa, const char *sequence, const char *description)
{
    ff_text_buffer text = {0};
    ff_text_file *file = NULL;
    ff_status status = FF_OK;
    *msa = (ff_msa){0};
    FF_TRY_DONE(ff_text_buffer_put(ctx, &text, ">", 1));
    FF_TRY_DONE(ff_text_buffer_put(ctx, &text, description, strcspn(description, "\r\n")));
    FF_TRY_DONE(ff_text_buffer_put(ctx, &text, "\n", 1));
    FF_TRY_DONE(ff_text_buffer_put(ctx, &text, sequence, strlen(sequence)));
    FF_TRY_DONE(ff_text_open_memory(ctx, &file, "the query", text.data, text.size));
    FF_TRY_DONE(ff_a3m_read_text(ctx, msa, file, NULL));
done:
    ff_text_close(file);
    ff_text_buffer_destroy(&text);
    return status;
}

int64_t ff_msa_differences(const ff_msa *msa, const char *sequence)
{
    int64_t differences = 0;
    for (int64_t i = 0; i < msa->num_res && sequence[i] != '\0'; i++) {
        const int row = ff_msa_code(msa->rows[i]), query = ff_msa_code(sequence[i]);
        differences += row != query && row != 20 && query != 20;
    }
    return differences;
}
