#include "infer/prediction.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/fasta.h"
#include "structure/heads.h"
#include "structure/residue_constants.h"

static const double contact_ang = 8.0;
enum { MSA_GAP = 21 };

static ff_status out_of_memory(ff_ctx *ctx, const ff_prediction *p)
{
    return FF_FAIL(ctx, FF_ERR_MEM, "out of memory holding a prediction of %" PRId64 " residues", p->num_res);
}

ff_status ff_prediction_create(ff_ctx *ctx, ff_prediction *p, const char *name, const char *sequence,
                               const char *model_name, uint64_t seed)
{
    *p = (ff_prediction){.seed = seed, .num_res = (int64_t)strlen(sequence), .ptm = NAN};
    if (p->num_res == 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "a prediction needs at least one residue");
    const size_t n = (size_t)p->num_res;
    p->name = strdup(name);
    p->model_name = strdup(model_name);
    p->sequence = strdup(sequence);
    p->aatype = malloc(n * sizeof *p->aatype);
    p->residue_index = malloc(n * sizeof *p->residue_index);
    p->atom37_positions = calloc(n * FF_NUM_ATOM37 * 3, sizeof *p->atom37_positions);
    p->atom37_mask = calloc(n * FF_NUM_ATOM37, sizeof *p->atom37_mask);
    p->plddt = calloc(n, sizeof *p->plddt);
    if (!p->name || !p->model_name || !p->sequence || !p->aatype || !p->residue_index || !p->atom37_positions ||
        !p->atom37_mask || !p->plddt)
        return out_of_memory(ctx, p);
    for (size_t i = 0; i < n; i++) {
        const int code = ff_aatype_of_letter(sequence[i]);
        p->aatype[i] = code < 0 ? FF_AATYPE_X : code;
        p->residue_index[i] = (int32_t)i;
    }
    return FF_OK;
}

void ff_prediction_destroy(ff_prediction *p)
{
    for (int64_t i = 0; i < p->num_notes; i++)
        free(p->notes[i]);
    void *const owned[] = {p->name, p->model_name, p->sequence, p->aatype, p->residue_index, p->atom37_positions,
                           p->atom37_mask, p->plddt, p->pae, p->contact_probability, p->msa_depth, p->coverage,
                           p->coverage_identity, p->history, p->timings, p->notes};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]);
    *p = (ff_prediction){0};
}

ff_status ff_prediction_set_pae(ff_ctx *ctx, ff_prediction *p, const float *pae, double max_pae)
{
    const size_t bytes = (size_t)(p->num_res * p->num_res) * sizeof *pae;
    if (p->pae == NULL)
        p->pae = malloc(bytes);
    if (p->pae == NULL)
        return out_of_memory(ctx, p);
    memcpy(p->pae, pae, bytes);
    p->max_pae = max_pae;
    return FF_OK;
}

ff_status ff_prediction_set_contacts(ff_ctx *ctx, ff_prediction *p, const float *logits, int64_t num_bins,
                                     const float *bin_edges)
{
    if (num_bins < 2)
        return FF_FAIL(ctx, FF_ERR_ARG, "a distogram needs at least 2 bins, not %" PRId64, num_bins);
    if (p->contact_probability == NULL)
        p->contact_probability = malloc((size_t)(p->num_res * p->num_res) * sizeof *p->contact_probability);
    if (p->contact_probability == NULL)
        return out_of_memory(ctx, p);
    ff_contact_probabilities(p->contact_probability, logits, bin_edges, p->num_res, num_bins, contact_ang);
    return FF_OK;
}

typedef struct {
    float identity;
    int64_t row;
} row_identity;

static int more_similar_first(const void *a, const void *b)
{
    const row_identity *x = a, *y = b;
    if (x->identity != y->identity)
        return x->identity > y->identity ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Depth of every column, and of every row the share of its residues that are the query's. */
static void count_rows(ff_prediction *p, row_identity *rows, const int8_t *msa, int64_t num_rows)
{
    for (int64_t s = 0; s < num_rows; s++) {
        const int8_t *row = msa + s * p->num_res;
        int64_t residues = 0, same = 0;
        for (int64_t i = 0; i < p->num_res; i++) {
            const int filled = row[i] != MSA_GAP;
            p->msa_depth[i] += filled;
            residues += filled;
            same += filled && row[i] == msa[i];
        }
        rows[s] = (row_identity){residues > 0 ? (float)same / (float)residues : 0.0f, s};
    }
}

ff_status ff_prediction_set_msa(ff_ctx *ctx, ff_prediction *p, const int8_t *msa, int64_t num_rows)
{
    if (num_rows < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "an MSA has at least one row, the query; this one has %" PRId64, num_rows);
    const int64_t kept = num_rows < FF_MAX_COVERAGE_ROWS ? num_rows : FF_MAX_COVERAGE_ROWS;
    free(p->msa_depth);
    free(p->coverage);
    free(p->coverage_identity);
    row_identity *rows = malloc((size_t)num_rows * sizeof *rows);
    p->msa_depth = calloc((size_t)p->num_res, sizeof *p->msa_depth);
    p->coverage = malloc((size_t)(kept * p->num_res));
    p->coverage_identity = malloc((size_t)kept * sizeof *p->coverage_identity);
    if (rows == NULL || p->msa_depth == NULL || p->coverage == NULL || p->coverage_identity == NULL) {
        free(rows);
        return out_of_memory(ctx, p);
    }
    count_rows(p, rows, msa, num_rows);
    qsort(rows, (size_t)num_rows, sizeof *rows, more_similar_first);
    for (int64_t k = 0; k < kept; k++) {
        const row_identity *chosen = &rows[k * num_rows / kept];
        p->coverage_identity[k] = chosen->identity;
        for (int64_t i = 0; i < p->num_res; i++)
            p->coverage[k * p->num_res + i] = msa[chosen->row * p->num_res + i] != MSA_GAP;
    }
    p->num_msa = num_rows;
    p->num_coverage = kept;
    free(rows);
    return FF_OK;
}

/* Room for one more item; NULL leaves the old block as it was. */
static void *one_more(void *items, int64_t count, size_t item_bytes)
{
    return realloc(items, (size_t)(count + 1) * item_bytes);
}

ff_status ff_prediction_add_pass(ff_ctx *ctx, ff_prediction *p, const ff_recycle_record *record)
{
    ff_recycle_record *grown = one_more(p->history, p->num_history, sizeof *grown);
    if (grown == NULL)
        return out_of_memory(ctx, p);
    p->history = grown;
    p->history[p->num_history++] = *record;
    return FF_OK;
}

ff_status ff_prediction_add_timing(ff_ctx *ctx, ff_prediction *p, const char *name, double seconds)
{
    ff_timing *grown = one_more(p->timings, p->num_timings, sizeof *grown);
    if (grown == NULL)
        return out_of_memory(ctx, p);
    p->timings = grown;
    ff_timing *timing = &p->timings[p->num_timings++];
    snprintf(timing->name, sizeof timing->name, "%s", name);
    timing->seconds = seconds;
    return FF_OK;
}

ff_status ff_prediction_add_note(ff_ctx *ctx, ff_prediction *p, const char *note)
{
    char **grown = one_more(p->notes, p->num_notes, sizeof *grown);
    if (grown == NULL)
        return out_of_memory(ctx, p);
    p->notes = grown;
    if ((p->notes[p->num_notes] = strdup(note)) == NULL)
        return out_of_memory(ctx, p);
    p->num_notes++;
    return FF_OK;
}

double ff_prediction_mean_plddt(const ff_prediction *p)
{
    double sum = 0;
    for (int64_t i = 0; i < p->num_res; i++)
        sum += p->plddt[i];
    return sum / (double)p->num_res;
}

static ff_status check_residue(ff_ctx *ctx, const ff_prediction *p, int64_t i)
{
    if (p->aatype[i] < 0 || p->aatype[i] > FF_AATYPE_X)
        return FF_FAIL(ctx, FF_ERR_ARG, "residue %" PRId64 ": aatype %d is not in 0..20", i + 1, p->aatype[i]);
    if (i > 0 && p->residue_index[i] <= p->residue_index[i - 1])
        return FF_FAIL(ctx, FF_ERR_ARG, "residue %" PRId64 ": residue_index %d follows %d; it must rise", i + 1,
                       p->residue_index[i], p->residue_index[i - 1]);
    if (!(p->plddt[i] >= -1e-3f && p->plddt[i] <= 100.001f))
        return FF_FAIL(ctx, FF_ERR_ARG, "residue %" PRId64 ": pLDDT %g is not in 0..100", i + 1, p->plddt[i]);
    for (int64_t a = 0; a < FF_NUM_ATOM37; a++) {
        if (p->atom37_mask[i * FF_NUM_ATOM37 + a] < 0.5f)
            continue;
        const float *x = p->atom37_positions + (i * FF_NUM_ATOM37 + a) * 3;
        if (!isfinite(x[0]) || !isfinite(x[1]) || !isfinite(x[2]))
            return FF_FAIL(ctx, FF_ERR_ARG,
                           "residue %" PRId64
                           " (%s) atom %s: its position %g %g %g is not finite; weights or features are"
                           " wrong",
                           i + 1, ff_resnames[p->aatype[i]], ff_atom_types[a], x[0], x[1], x[2]);
    }
    return FF_OK;
}

/* The first element that is not finite fails. */
static ff_status check_finite(ff_ctx *ctx, const float *pairs, int64_t num_res, const char *what)
{
    for (int64_t k = 0; pairs != NULL && k < num_res * num_res; k++)
        if (!isfinite(pairs[k]))
            return FF_FAIL(ctx, FF_ERR_ARG, "%s of residues %" PRId64 " and %" PRId64 " is not finite", what,
                           k / num_res + 1, k % num_res + 1);
    return FF_OK;
}

ff_status ff_prediction_check(ff_ctx *ctx, const ff_prediction *p)
{
    if (p->num_res < 1 || p->sequence == NULL || (int64_t)strlen(p->sequence) != p->num_res)
        return FF_FAIL(ctx, FF_ERR_ARG, "a prediction of %" PRId64 " residues needs a sequence of that length",
                       p->num_res);
    for (int64_t i = 0; i < p->num_res; i++)
        FF_TRY(check_residue(ctx, p, i));
    FF_TRY(check_finite(ctx, p->pae, p->num_res, "the predicted aligned error"));
    return check_finite(ctx, p->contact_probability, p->num_res, "the contact probability");
}
