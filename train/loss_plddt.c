/* loss_plddt.c - cross entropy of the predicted lDDT-CA: see losses.h. */
#include "structure/residue_constants.h"
#include "train/loss_common.h"
#include "train/losses.h"
#include "train/metrics.h"

static const double MEAN_EPSILON = 1e-8;
static const double MIN_RESOLUTION_ANG = 0.1, MAX_RESOLUTION_ANG = 3.0;

bool ff_loss_resolution_counts(double resolution)
{
    return resolution >= MIN_RESOLUTION_ANG && resolution <= MAX_RESOLUTION_ANG;
}

int32_t ff_loss_plddt_bin(double lddt, int64_t num_bins)
{
    const double bin = floor(lddt * (double)num_bins);
    return bin < 0 ? 0 : bin > (double)(num_bins - 1) ? (int32_t)(num_bins - 1) : (int32_t)bin;
}

/* CA of atom37 arrays, [num_res, 3] and [num_res]. */
static void take_ca(float *predicted, float *truth, float *mask, const ff_plddt_inputs *in)
{
    for (int64_t i = 0; i < in->num_res; i++) {
        const int64_t at = i * FF_NUM_ATOM37 + FF_ATOM_CA;
        for (int x = 0; x < 3; x++) {
            predicted[3 * i + x] = in->predicted_pos[3 * at + x];
            truth[3 * i + x] = in->all_atom_pos[3 * at + x];
        }
        mask[i] = in->all_atom_mask[at];
    }
}

ff_status ff_loss_plddt(ff_ctx *ctx, double *value, double *lddt_ca, float *grad_logits, double weight,
                        const ff_plddt_inputs *in)
{
    enum { COLUMNS = 3 + 3 + 1 };
    ff_status status = FF_OK;
    float *block = NULL;
    const ff_row_cross_entropy_fn row_cross_entropy = ff_row_cross_entropy_of(ctx);
    double *rows = NULL, *lddt = NULL;
    const int64_t n = in->num_res, num_bins = in->num_bins;
    if (n <= 0 || num_bins <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "pLDDT loss of %lld residues and %lld bins: both must be positive",
                       (long long)n, (long long)num_bins);
    FF_LOSS_SCRATCH(ctx, block, COLUMNS * n);
    FF_LOSS_SCRATCH(ctx, rows, n);
    FF_LOSS_SCRATCH(ctx, lddt, n);
    float *predicted = block, *truth = block + 3 * n, *mask = block + 6 * n;
    take_ca(predicted, truth, mask, in);
    ff_lddt_per_residue(lddt, predicted, truth, mask, n, FF_LDDT_CUTOFF_ANG);
    const double counts = ff_loss_resolution_counts(in->resolution) ? 1 : 0;
    const double norm = MEAN_EPSILON + ff_sum_mask(mask, n);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const double factor = counts * (double)mask[i];
        rows[i] = 0;
        if (lddt_ca != NULL)
            lddt_ca[i] = lddt[i];
        if (factor != 0)
            rows[i] = factor * row_cross_entropy(
                                   in->logits + i * num_bins, num_bins, ff_loss_plddt_bin(lddt[i], num_bins),
                                   grad_logits == NULL ? NULL : grad_logits + i * num_bins, weight * factor / norm);
    }
    *value = ff_sum_rows(rows, n) / norm;
done:
    FF_LOSS_SCRATCH_FREE(ctx, lddt, n);
    FF_LOSS_SCRATCH_FREE(ctx, rows, n);
    FF_LOSS_SCRATCH_FREE(ctx, block, COLUMNS * n);
    return status;
}
