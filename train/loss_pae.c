/* loss_pae.c - cross entropy of the aligned error of residue pairs: see losses.h. */
#include "structure/geometry.h"
#include "train/loss_common.h"
#include "train/losses.h"

static const double MEAN_EPSILON = 1e-8;

/* Frame i of affines [num_res, 7]. */
static void frame_of(double rigid[12], const float *affines, int64_t i)
{
    double affine[7];
    for (int k = 0; k < 7; k++)
        affine[k] = (double)affines[7 * i + k];
    ff_affine_to_rigid(rigid, affine, 1.0);
}

/* Class of the pair of a frame (predicted and true) and the origin of frame j. */
static int32_t pair_bin(const ff_pae_inputs *in, const double predicted[12], const double truth[12], int64_t j)
{
    double p[3], q[3], a[3], b[3], d2 = 0;
    for (int x = 0; x < 3; x++) {
        p[x] = (double)in->predicted_affine[7 * j + 4 + x];
        q[x] = (double)in->true_affine[7 * j + 4 + x];
    }
    ff_rigid_apply_inverse(a, predicted, p);
    ff_rigid_apply_inverse(b, truth, q);
    for (int x = 0; x < 3; x++)
        d2 += (a[x] - b[x]) * (a[x] - b[x]);
    return ff_count_exceeded(d2, in->breaks, in->num_bins - 1);
}

void ff_loss_pae_targets(int32_t *bins, const ff_pae_inputs *in)
{
    for (int64_t i = 0; i < in->num_res; i++) {
        double predicted[12], truth[12];
        frame_of(predicted, in->predicted_affine, i);
        frame_of(truth, in->true_affine, i);
        for (int64_t j = 0; j < in->num_res; j++)
            bins[i * in->num_res + j] = pair_bin(in, predicted, truth, j);
    }
}

ff_status ff_loss_pae(ff_ctx *ctx, double *value, float *grad_logits, double weight, const ff_pae_inputs *in)
{
    ff_status status = FF_OK;
    const ff_row_cross_entropy_fn row_cross_entropy = ff_row_cross_entropy_of(ctx);
    double *rows = NULL;
    const int64_t n = in->num_res, num_bins = in->num_bins;
    if (n <= 0 || num_bins <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "PAE loss of %lld residues and %lld bins: both must be positive",
                       (long long)n, (long long)num_bins);
    FF_LOSS_SCRATCH(ctx, rows, n);
    const double counts = ff_loss_resolution_counts(in->resolution) ? 1 : 0;
    const double sum_mask = ff_sum_mask(in->mask, n), norm = MEAN_EPSILON + sum_mask * sum_mask;
    const ff_loss_rows r = ff_loss_all_rows(in->rows, n);
#pragma omp parallel for schedule(static)
    for (int64_t i = r.first; i < r.end; i++) {
        double predicted[12], truth[12];
        frame_of(predicted, in->predicted_affine, i);
        frame_of(truth, in->true_affine, i);
        rows[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            const double factor = counts * (double)in->mask[i] * (double)in->mask[j];
            const int64_t at = ((i - r.first) * n + j) * num_bins;
            if (factor != 0)
                rows[i] += factor * row_cross_entropy(in->logits + at, num_bins, pair_bin(in, predicted, truth, j),
                                                         grad_logits == NULL ? NULL : grad_logits + at,
                                                         weight * factor / norm);
        }
    }
    *value = ff_sum_rows(rows + r.first, r.end - r.first) / norm;
done:
    FF_LOSS_SCRATCH_FREE(ctx, rows, n);
    return status;
}
