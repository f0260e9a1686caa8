/* loss_pae.c - cross entropy of the aligned error of residue pairs: see losses.h. */
#include "train/loss_common.h"
#include "train/losses.h"

static const double MEAN_EPSILON = 1e-8;

/* Where origin j lies in frame i: R_i^T (t_j - t_i). */
static void local_origin(double local[3], const double r[9], const float *affine, int64_t i,
                         int64_t j)
{
    double d[3];
    for (int x = 0; x < 3; x++)
        d[x] = (double)affine[7 * j + 4 + x] - (double)affine[7 * i + 4 + x];
    for (int x = 0; x < 3; x++)
        local[x] = r[x] * d[0] + r[3 + x] * d[1] + r[6 + x] * d[2];
}

/* Class of pair (i, j); the rotations are those of frame i. */
static int32_t pair_bin(const ff_pae_inputs *in, const double predicted[9], const double truth[9],
                        int64_t i, int64_t j)
{
    double a[3], b[3], d2 = 0;
    local_origin(a, predicted, in->predicted_affine, i, j);
    local_origin(b, truth, in->true_affine, i, j);
    for (int x = 0; x < 3; x++)
        d2 += (a[x] - b[x]) * (a[x] - b[x]);
    return ff_count_exceeded(d2, in->breaks, in->num_bins - 1);
}

static void frame_rotations(double predicted[9], double truth[9], const ff_pae_inputs *in,
                            int64_t i)
{
    ff_quaternion_to_rotation(predicted, in->predicted_affine + 7 * i);
    ff_quaternion_to_rotation(truth, in->true_affine + 7 * i);
}

void ff_loss_pae_targets(int32_t *bins, const ff_pae_inputs *in)
{
    for (int64_t i = 0; i < in->num_res; i++) {
        double predicted[9], truth[9];
        frame_rotations(predicted, truth, in, i);
        for (int64_t j = 0; j < in->num_res; j++)
            bins[i * in->num_res + j] = pair_bin(in, predicted, truth, i, j);
    }
}

ff_status ff_loss_pae(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                      const ff_pae_inputs *in)
{
    ff_status status = FF_OK;
    double *rows = NULL;
    const int64_t n = in->num_res, num_bins = in->num_bins;
    if (n <= 0 || num_bins <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "PAE loss of %lld residues and %lld bins: both must be positive",
                       (long long)n, (long long)num_bins);
    FF_LOSS_SCRATCH(ctx, rows, n);
    const double counts = ff_loss_resolution_counts(in->resolution) ? 1 : 0;
    const double sum_mask = ff_sum_mask(in->mask, n), norm = MEAN_EPSILON + sum_mask * sum_mask;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        double predicted[9], truth[9];
        frame_rotations(predicted, truth, in, i);
        rows[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            const double factor = counts * (double)in->mask[i] * (double)in->mask[j];
            const int64_t at = (i * n + j) * num_bins;
            if (factor != 0)
                rows[i] +=
                    factor * ff_row_cross_entropy(in->logits + at, num_bins,
                                                  pair_bin(in, predicted, truth, i, j),
                                                  grad_logits == NULL ? NULL : grad_logits + at,
                                                  weight * factor / norm);
        }
    }
    *value = ff_sum_rows(rows, n) / norm;
done:
    FF_LOSS_SCRATCH_FREE(ctx, rows, n);
    return status;
}
