/* loss_distogram.c - cross entropy of pairwise distances: see losses.h. */
#include "train/loss_common.h"
#include "train/losses.h"

static const double MEAN_EPSILON = 1e-6, DISTANCE_EPSILON = 1e-6;

static double pair_distance2(const ff_distogram_inputs *in, int64_t i, int64_t j)
{
    double d2 = 0;
    for (int x = 0; x < 3; x++) {
        const double d = (double)in->pseudo_beta[3 * i + x] - (double)in->pseudo_beta[3 * j + x];
        d2 += d * d;
    }
    return d2;
}

void ff_loss_distogram_targets(int32_t *bins, float *distances, const ff_distogram_inputs *in)
{
    const int64_t n = in->num_res;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            const double d2 = pair_distance2(in, i, j);
            if (bins != NULL)
                bins[i * n + j] = ff_count_exceeded(d2, in->bin_edges, in->num_bins - 1);
            if (distances != NULL)
                distances[i * n + j] = (float)sqrt(DISTANCE_EPSILON + d2);
        }
}

ff_status ff_loss_distogram(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                            const ff_distogram_inputs *in)
{
    ff_status status = FF_OK;
    const ff_row_cross_entropy_fn row_cross_entropy = ff_row_cross_entropy_of(ctx);
    double *rows = NULL;
    const int64_t n = in->num_res, num_bins = in->num_bins;
    if (n <= 0 || num_bins <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "distogram loss of %lld residues and %lld bins: both must be positive",
                       (long long)n, (long long)num_bins);
    FF_LOSS_SCRATCH(ctx, rows, n);
    const double sum_mask = ff_sum_mask(in->pseudo_beta_mask, n), norm = MEAN_EPSILON + sum_mask * sum_mask;
    const ff_loss_rows r = ff_loss_all_rows(in->rows, n);
#pragma omp parallel for schedule(static)
    for (int64_t i = r.first; i < r.end; i++) {
        rows[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            const double mask = (double)in->pseudo_beta_mask[i] * (double)in->pseudo_beta_mask[j];
            if (mask == 0)
                continue;
            const int64_t at = ((i - r.first) * n + j) * num_bins;
            const int32_t bin = ff_count_exceeded(pair_distance2(in, i, j), in->bin_edges, num_bins - 1);
            rows[i] +=
                mask * row_cross_entropy(in->logits + at, num_bins, bin,
                                            grad_logits == NULL ? NULL : grad_logits + at, weight * mask / norm);
        }
    }
    *value = ff_sum_rows(rows + r.first, r.end - r.first) / norm;
done:
    FF_LOSS_SCRATCH_FREE(ctx, rows, n);
    return status;
}
