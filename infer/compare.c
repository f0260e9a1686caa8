/* Contents: alignment; chains; structures. */
#include "infer/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CA = 1 }; /* of atom37 */

/* ---- alignment ---- */

enum { EQUAL = 2, DIFFERENT = -1, GAP = -2 };
typedef enum { PAIR, SKIP_A, SKIP_B } step;

/* Scores row by row, and for each cell the step that led there. steps is [na + 1, nb + 1], scores [nb + 1]. */
static void fill_table(unsigned char *steps, int32_t *scores, const char *a, int64_t na, const char *b, int64_t nb)
{
    for (int64_t j = 0; j <= nb; j++) {
        scores[j] = 0; /* ends are free */
        steps[j] = SKIP_B;
    }
    for (int64_t i = 1; i <= na; i++) {
        int32_t diagonal = scores[0];
        steps[i * (nb + 1)] = SKIP_A;
        for (int64_t j = 1; j <= nb; j++) {
            const int32_t pair = diagonal + (a[i - 1] == b[j - 1] ? EQUAL : DIFFERENT);
            const int32_t skip_a = scores[j] + (j == nb ? 0 : GAP), skip_b = scores[j - 1] + (i == na ? 0 : GAP);
            diagonal = scores[j];
            const step best = pair >= skip_a && pair >= skip_b ? PAIR : skip_a >= skip_b ? SKIP_A : SKIP_B;
            scores[j] = best == PAIR ? pair : best == SKIP_A ? skip_a : skip_b;
            steps[i * (nb + 1) + j] = (unsigned char)best;
        }
    }
}

ff_status ff_sequence_align(ff_ctx *ctx, int64_t *partner, const char *a, const char *b)
{
    const int64_t na = (int64_t)strlen(a), nb = (int64_t)strlen(b);
    if ((na + 1) > ((int64_t)1 << 28) / (nb + 1))
        return FF_FAIL(ctx, FF_ERR_ARG, "chains of %lld and %lld residues are too long to be aligned", (long long)na, (long long)nb);
    unsigned char *steps = malloc((size_t)((na + 1) * (nb + 1)));
    int32_t *scores = malloc((size_t)(nb + 1) * sizeof *scores);
    if (steps == NULL || scores == NULL) {
        free(steps);
        free(scores);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for an alignment");
    }
    fill_table(steps, scores, a, na, b, nb);
    for (int64_t i = na, j = nb; i > 0;) {
        const step s = (step)steps[i * (nb + 1) + j];
        if (s != SKIP_B)
            partner[--i] = s == PAIR ? j - 1 : -1;
        j -= s != SKIP_A;
    }
    free(steps);
    free(scores);
    return FF_OK;
}

/* ---- chains ---- */

static bool has_ca(const ff_structure_chain *chain, int64_t i) { return chain->mask[i * 37 + CA] > 0; }

static int64_t count_equal(const ff_structure_chain *truth, const ff_structure_chain *model, const int64_t *partner)
{
    int64_t n = 0;
    for (int64_t i = 0; i < truth->num_res; i++)
        n += partner[i] >= 0 && truth->sequence[i] == model->sequence[partner[i]];
    return n;
}

static double mean_b(const ff_structure_chain *model)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < model->num_res; i++)
        if (has_ca(model, i)) {
            sum += model->b_factors[i * 37 + CA];
            n++;
        }
    return n == 0 ? 0 : sum / (double)n;
}

/* CA atoms of corresponding residues, one after the other. */
static void gather(ff_comparison *r, const int64_t *partner, float *predicted, float *truth)
{
    for (int64_t i = 0; i < r->truth->num_res; i++) {
        const int64_t k = partner[i];
        if (!has_ca(r->truth, i))
            continue;
        r->num_resolved++;
        if (k < 0 || !has_ca(r->model, k))
            continue;
        memcpy(predicted + 3 * r->num_compared, r->model->positions + (k * 37 + CA) * 3, 3 * sizeof(float));
        memcpy(truth + 3 * r->num_compared, r->truth->positions + (i * 37 + CA) * 3, 3 * sizeof(float));
        r->num_compared++;
        r->num_identical += r->truth->sequence[i] == r->model->sequence[k];
    }
}

ff_status ff_compare_chains(ff_ctx *ctx, ff_comparison *r, const ff_structure_chain *model, const ff_structure_chain *truth)
{
    const size_t n = (size_t)truth->num_res + 1;
    ff_status status = FF_OK;
    int64_t *partner = malloc(n * sizeof *partner);
    float *predicted = malloc(3 * n * sizeof *predicted), *real = malloc(3 * n * sizeof *real), *mask = malloc(n * sizeof *mask);
    *r = (ff_comparison){.model = model, .truth = truth, .mean_b = mean_b(model)};
    if (partner == NULL || predicted == NULL || real == NULL || mask == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a comparison");
        goto done;
    }
    FF_TRY_DONE(ff_sequence_align(ctx, partner, truth->sequence, model->sequence));
    gather(r, partner, predicted, real);
    if (r->num_compared < 3) {
        status = FF_FAIL(ctx, FF_ERR_ARG, "%lld residues of chain %s correspond to the model; are these the same protein?",
                         (long long)r->num_compared, truth->id);
        goto done;
    }
    if (2 * r->num_compared < (model->num_res < truth->num_res ? model->num_res : truth->num_res))
        FF_WARN(ctx, "only %lld residues of %lld and %lld correspond; are these the same protein?", (long long)r->num_compared,
                (long long)model->num_res, (long long)truth->num_res);
    for (int64_t i = 0; i < r->num_compared; i++)
        mask[i] = 1;
    status = ff_structure_metrics_compute(ctx, &r->metrics, predicted, real, mask, r->num_compared);
done:
    free(partner);
    free(predicted);
    free(real);
    free(mask);
    return status;
}

/* ---- structures ---- */

static ff_status need_chain(ff_ctx *ctx, const ff_structure *s, const char *id, const char *what, const ff_structure_chain **chain)
{
    char list[256] = "";
    *chain = id == NULL ? (s->num_chains > 0 ? &s->chains[0] : NULL) : ff_structure_find_chain(s, id);
    if (*chain != NULL)
        return FF_OK;
    for (int64_t k = 0, n = 0; k < s->num_chains && n < 200; k++)
        n += snprintf(list + n, sizeof list - (size_t)n, " %.8s", s->chains[k].id);
    return FF_FAIL(ctx, FF_ERR_ARG, "the %s has no chain %s; there are%s", what, id == NULL ? "at all" : id, list);
}

/* The chain of the truth that is most like the model's. */
static ff_status most_alike(ff_ctx *ctx, const ff_structure *truth, const ff_structure_chain *model,
                            const ff_structure_chain **best)
{
    int64_t most = -1;
    for (int64_t k = 0; k < truth->num_chains; k++) {
        const ff_structure_chain *chain = &truth->chains[k];
        int64_t *partner = malloc(((size_t)chain->num_res + 1) * sizeof *partner);
        if (partner == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a comparison");
        const ff_status status = ff_sequence_align(ctx, partner, chain->sequence, model->sequence);
        const int64_t equal = status == FF_OK ? count_equal(chain, model, partner) : 0;
        free(partner);
        FF_TRY(status);
        if (equal > most) {
            most = equal;
            *best = chain;
        }
    }
    return FF_OK;
}

ff_status ff_compare_structures(ff_ctx *ctx, ff_comparison *result, const ff_structure *model, const char *model_chain,
                                const ff_structure *truth, const char *truth_chain)
{
    const ff_structure_chain *a, *b;
    FF_TRY(need_chain(ctx, model, model_chain, "model", &a));
    FF_TRY(need_chain(ctx, truth, truth_chain, "experimental structure", &b));
    if (truth_chain == NULL)
        FF_TRY(most_alike(ctx, truth, a, &b));
    return ff_compare_chains(ctx, result, a, b);
}
