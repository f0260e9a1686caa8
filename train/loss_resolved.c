/* loss_resolved.c - sigmoid cross entropy of resolved atoms: see losses.h. */
#include "structure/residue_constants.h"
#include "train/loss_common.h"
#include "train/losses.h"

static const double MEAN_EPSILON = 1e-8;

ff_status ff_loss_resolved(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                           const ff_resolved_inputs *in)
{
    const int64_t n = in->num_res * FF_NUM_ATOM37;
    if (n <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "experimentally-resolved loss of %lld residues: the number must be positive",
                       (long long)in->num_res);
    const double counts = ff_loss_resolution_counts(in->resolution) ? 1 : 0;
    const double norm = MEAN_EPSILON + ff_sum_mask(in->atom37_atom_exists, n);
    double sum = 0;
    for (int64_t a = 0; a < n; a++) {
        const double factor = counts * (double)in->atom37_atom_exists[a];
        if (factor == 0)
            continue;
        /* -log sigmoid(x) = log1p(exp(-|x|)) + max(-x, 0); -log(1 - sigmoid(x)) adds x */
        const double x = (double)in->logits[a], label = (double)in->all_atom_mask[a];
        const double tail = exp(-fabs(x)), sigmoid = x >= 0 ? 1 / (1 + tail) : tail / (1 + tail);
        sum += factor * (log1p(tail) + (x < 0 ? -x : 0) + (1 - label) * x);
        if (grad_logits != NULL)
            grad_logits[a] += (float)(weight * factor / norm * (sigmoid - label));
    }
    *value = sum / norm;
    return FF_OK;
}
