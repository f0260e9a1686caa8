/* loss_total.c - the weighted sum of all losses of a sample: see losses.h. */
#include "structure/residue_constants.h"
#include "train/loss_common.h"
#include "train/losses.h"

static const double BACKBONE_FRACTION = 0.5, SIDECHAIN_FRACTION = 0.5; /* Suppl. eq. 7 */

ff_loss_weights ff_loss_stage_weights(ff_training_stage stage)
{
    ff_loss_weights w = {.structure_module = 1, .masked_msa = 2, .distogram = 0.3, .plddt = 0.01};
    if (stage == FF_STAGE_FINETUNE || stage == FF_STAGE_PTM) {
        w.violation = 1;
        w.resolved = 0.01;
    }
    if (stage == FF_STAGE_PTM)
        w.pae = 0.1;
    return w;
}

double ff_loss_sample_weight(const float *seq_mask, int64_t num_res) { return sqrt(ff_sum_mask(seq_mask, num_res)); }

double ff_loss_weighted_sum(const ff_loss_parts *parts, const ff_loss_weights *weights, double sample_weight)
{
    return sample_weight *
           (weights->structure_module * parts->structure_module + weights->masked_msa * parts->masked_msa +
            weights->distogram * parts->distogram + weights->plddt * parts->plddt + weights->resolved * parts->resolved +
            weights->pae * parts->pae);
}

/* The renamed truth of the side-chain FAPE, in one block. */
typedef struct {
    float *better, *pos, *exists, *frames;
} renamed_truth;

enum { RENAMED_FLOATS = 1 + FF_NUM_ATOM14 * 3 + FF_NUM_ATOM14 + FF_NUM_GROUPS * 12 };

static renamed_truth cut_renamed(float *block, int64_t n)
{
    renamed_truth r = {.better = block, .pos = block + n};
    r.exists = r.pos + n * FF_NUM_ATOM14 * 3;
    r.frames = r.exists + n * FF_NUM_ATOM14;
    return r;
}

/* `weight` is that of the structure module times the sample's. */
static ff_status structure_losses(ff_ctx *ctx, ff_loss_parts *parts, const ff_loss_grads *grads,
                                  const ff_loss_inputs *in, const renamed_truth *truth, double weight,
                                  double violation_weight)
{
    FF_TRY(ff_loss_fape_backbone(ctx, &parts->backbone_fape, &parts->backbone_fape_last, grads->traj,
                                 weight * BACKBONE_FRACTION, &in->backbone));
    FF_TRY(ff_loss_rename_truth(ctx, truth->better, truth->pos, truth->exists, truth->frames, &in->renaming));
    ff_sidechain_fape_inputs sidechain = in->sidechain;
    sidechain.true_frames = truth->frames;
    sidechain.true_pos = truth->pos;
    sidechain.atom_mask = truth->exists;
    FF_TRY(ff_loss_fape_sidechain(ctx, &parts->sidechain_fape, grads->frames, grads->atom14_pos,
                                  weight * SIDECHAIN_FRACTION, &sidechain));
    FF_TRY(ff_loss_torsion(ctx, &parts->torsion, grads->angles, grads->unnormalized_angles, weight, &in->torsion));
    FF_TRY(ff_loss_violation(ctx, &parts->violation, NULL, violation_weight == 0 ? NULL : grads->atom14_pos,
                             weight * violation_weight, NULL, &in->violation));
    parts->structure_module = BACKBONE_FRACTION * parts->backbone_fape + SIDECHAIN_FRACTION * parts->sidechain_fape +
                              parts->torsion.loss + violation_weight * parts->violation.loss;
    return FF_OK;
}

/* A gradient that a zero weight would leave as it is need not be computed. */
static float *wanted(float *grad, double weight) { return weight == 0 ? NULL : grad; }

static ff_status head_losses(ff_ctx *ctx, ff_loss_parts *parts, const ff_loss_grads *grads, const ff_loss_inputs *in,
                             const ff_loss_weights *w, double scale, double *lddt)
{
    FF_TRY(ff_loss_masked_msa(ctx, &parts->masked_msa, wanted(grads->masked_msa_logits, w->masked_msa),
                              scale * w->masked_msa, &in->masked_msa));
    FF_TRY(ff_loss_distogram(ctx, &parts->distogram, wanted(grads->distogram_logits, w->distogram),
                             scale * w->distogram, &in->distogram));
    FF_TRY(
        ff_loss_plddt(ctx, &parts->plddt, lddt, wanted(grads->plddt_logits, w->plddt), scale * w->plddt, &in->plddt));
    FF_TRY(ff_loss_resolved(ctx, &parts->resolved, wanted(grads->resolved_logits, w->resolved), scale * w->resolved,
                            &in->resolved));
    if (in->pae.logits != NULL)
        FF_TRY(ff_loss_pae(ctx, &parts->pae, wanted(grads->pae_logits, w->pae), scale * w->pae, &in->pae));
    return FF_OK;
}

/* Mean lDDT over resolved CA; 0 when there is none. */
static double mean_lddt(const double *lddt, const ff_plddt_inputs *in)
{
    double sum = 0, count = 0;
    for (int64_t i = 0; i < in->num_res; i++) {
        const double mask = (double)in->all_atom_mask[i * FF_NUM_ATOM37 + FF_ATOM_CA];
        sum += mask * lddt[i];
        count += mask;
    }
    return count > 0 ? sum / count : 0;
}

ff_status ff_loss_total(ff_ctx *ctx, ff_loss_parts *parts, const ff_loss_grads *grads, const ff_loss_inputs *in,
                        const ff_loss_weights *weights, double sample_weight)
{
    ff_status status = FF_OK;
    float *block = NULL;
    double *lddt = NULL;
    const int64_t n = in->renaming.num_res, num_lddt = in->plddt.num_res;
    if (n <= 0 || num_lddt <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "loss of %lld residues: the number must be positive", (long long)n);
    *parts = (ff_loss_parts){0};
    FF_LOSS_SCRATCH(ctx, block, RENAMED_FLOATS * n);
    FF_LOSS_SCRATCH(ctx, lddt, num_lddt);
    const renamed_truth truth = cut_renamed(block, n);
    const ff_loss_grads none = {0}, *g = grads == NULL ? &none : grads;
    FF_TRY_DONE(
        structure_losses(ctx, parts, g, in, &truth, sample_weight * weights->structure_module, weights->violation));
    FF_TRY_DONE(head_losses(ctx, parts, g, in, weights, sample_weight, lddt));
    parts->lddt_ca = mean_lddt(lddt, &in->plddt);
    parts->total = ff_loss_weighted_sum(parts, weights, sample_weight);
done:
    FF_LOSS_SCRATCH_FREE(ctx, lddt, num_lddt);
    FF_LOSS_SCRATCH_FREE(ctx, block, RENAMED_FLOATS * n);
    return status;
}
