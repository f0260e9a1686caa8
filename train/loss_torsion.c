/* loss_torsion.c - supervised chi angles and length of the angle vectors: see losses.h. */
#include "structure/residue_constants.h"
#include "train/loss_common.h"
#include "train/losses.h"

enum { CHI = 4, FIRST_CHI = FF_NUM_TORSIONS - CHI };

static const double CHI_WEIGHT = 0.5, ANGLE_NORM_WEIGHT = 0.01; /* Suppl. Alg. 27 line 4 and Alg. 20 line 25 */
static const double NORM_EPSILON = 1e-6, MEAN_EPSILON = 1e-10;

/* Squared difference of predicted (sin, cos) to chi `k` of residue i, or to its opposite where that is the same. */
static double chi_error(float *grad, const float pred[2], const ff_torsion_inputs *in, int64_t i, int k,
                        double factor)
{
    const int32_t type = in->aatype[i];
    const double chi = (double)in->chi_angles[CHI * i + k], s = sin(chi), c = cos(chi);
    const double p0 = (double)pred[0], p1 = (double)pred[1];
    double d0 = p0 - s, d1 = p1 - c;
    if (type >= 0 && type < FF_NUM_RESTYPES && ff_chi_pi_periodic[type][k] != 0) {
        const double o0 = p0 + s, o1 = p1 + c;
        if (o0 * o0 + o1 * o1 < d0 * d0 + d1 * d1) {
            d0 = o0;
            d1 = o1;
        }
    }
    if (grad != NULL) {
        grad[0] += (float)(2 * factor * d0);
        grad[1] += (float)(2 * factor * d1);
    }
    return d0 * d0 + d1 * d1;
}

static double norm_error(float *grad, const float v[2], double factor)
{
    const double v0 = (double)v[0], v1 = (double)v[1], norm = sqrt(v0 * v0 + v1 * v1 + NORM_EPSILON);
    const double sign = norm > 1 ? 1 : norm < 1 ? -1 : 0;
    if (grad != NULL) {
        grad[0] += (float)(factor * sign * v0 / norm);
        grad[1] += (float)(factor * sign * v1 / norm);
    }
    return fabs(norm - 1);
}

ff_status ff_loss_torsion(ff_ctx *ctx, ff_torsion_result *result, float *const *grad_angles,
                          float *const *grad_unnormalized, double weight, const ff_torsion_inputs *in)
{
    ff_status status = FF_OK;
    double *rows = NULL; /* [num_layer * num_res, 2] */
    const int64_t n = in->num_res, num_rows = in->num_layer * n;
    if (n <= 0 || in->num_layer <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "torsion loss of %lld layers of %lld residues: both must be positive",
                       (long long)in->num_layer, (long long)n);
    FF_LOSS_SCRATCH(ctx, rows, 2 * num_rows);
    const double layers = (double)in->num_layer;
    const double chi_norm = layers * ff_sum_mask(in->chi_mask, CHI * n) + MEAN_EPSILON;
    const double angle_norm = layers * FF_NUM_TORSIONS * ff_sum_mask(in->seq_mask, n) + MEAN_EPSILON;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < num_rows; row++) {
        const int64_t layer = row / n, i = row % n, at = i * FF_NUM_TORSIONS * 2;
        double chi = 0, norm = 0;
        for (int k = 0; k < CHI; k++) {
            const double mask = (double)in->chi_mask[CHI * i + k];
            const int64_t to = at + 2 * (FIRST_CHI + k);
            if (mask != 0)
                chi += mask * chi_error(grad_angles == NULL ? NULL : grad_angles[layer] + to, in->angles[layer] + to,
                                        in, i, k, weight * CHI_WEIGHT * mask / chi_norm);
        }
        const double mask = (double)in->seq_mask[i];
        for (int k = 0; k < FF_NUM_TORSIONS && mask != 0; k++)
            norm += mask * norm_error(grad_unnormalized == NULL ? NULL : grad_unnormalized[layer] + at + 2 * k,
                                      in->unnormalized[layer] + at + 2 * k,
                                      weight * ANGLE_NORM_WEIGHT * mask / angle_norm);
        rows[row] = chi;
        rows[num_rows + row] = norm;
    }
    result->chi = ff_sum_rows(rows, num_rows) / chi_norm;
    result->angle_norm = ff_sum_rows(rows + num_rows, num_rows) / angle_norm;
    result->loss = CHI_WEIGHT * result->chi + ANGLE_NORM_WEIGHT * result->angle_norm;
done:
    FF_LOSS_SCRATCH_FREE(ctx, rows, 2 * num_rows);
    return status;
}
