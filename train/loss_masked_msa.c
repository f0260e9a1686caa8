/* loss_masked_msa.c - cross entropy of hidden MSA positions: see losses.h. */
#include "train/loss_common.h"
#include "train/losses.h"

static const double MEAN_EPSILON = 1e-8;

static ff_status check_classes(ff_ctx *ctx, const ff_masked_msa_inputs *in)
{
    for (int64_t s = 0; s < in->num_seq; s++)
        for (int64_t i = 0; i < in->num_res; i++) {
            const int64_t at = s * in->num_res + i;
            if (in->bert_mask[at] != 0 && (in->true_msa[at] < 0 || in->true_msa[at] >= in->num_class))
                return FF_FAIL(ctx, FF_ERR_ARG, "true_msa[%lld, %lld] is %d, wanted 0..%lld", (long long)s,
                               (long long)i, (int)in->true_msa[at], (long long)in->num_class - 1);
        }
    return FF_OK;
}

ff_status ff_loss_masked_msa(ff_ctx *ctx, double *value, float *grad_logits, double weight,
                             const ff_masked_msa_inputs *in)
{
    ff_status status = FF_OK;
    const ff_row_cross_entropy_fn row_cross_entropy = ff_row_cross_entropy_of(ctx);
    double *rows = NULL;
    const int64_t num_seq = in->num_seq, num_res = in->num_res, num_class = in->num_class;
    if (num_seq <= 0 || num_res <= 0 || num_class <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "masked MSA loss of %lld sequences, %lld residues, %lld classes: must be positive",
                       (long long)num_seq, (long long)num_res, (long long)num_class);
    FF_TRY(check_classes(ctx, in));
    FF_LOSS_SCRATCH(ctx, rows, num_seq);
    const double norm = MEAN_EPSILON + ff_sum_mask(in->bert_mask, num_seq * num_res);
    const ff_loss_rows r = ff_loss_all_rows(in->rows, num_seq);
#pragma omp parallel for schedule(static)
    for (int64_t s = r.first; s < r.end; s++) {
        rows[s] = 0;
        for (int64_t at = s * num_res; at < (s + 1) * num_res; at++) {
            const double mask = (double)in->bert_mask[at];
            const int64_t logit = (at - r.first * num_res) * num_class;
            if (mask != 0)
                rows[s] += mask * row_cross_entropy(in->logits + logit, num_class, in->true_msa[at],
                                                       grad_logits == NULL ? NULL : grad_logits + logit, weight * mask / norm);
        }
    }
    *value = ff_sum_rows(rows + r.first, r.end - r.first) / norm;
done:
    FF_LOSS_SCRATCH_FREE(ctx, rows, num_seq);
    return status;
}
