/* Contents: labels from a batch; layers' arrays; the loss; making labels. */
#include "train/model_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"
#include "structure/labels.h"
#include "structure/residue_constants.h"

/* ---- labels from a batch ---- */

typedef struct {
    ff_ctx *ctx;
    const ff_array_set *batch;
    int64_t slice, num_res, num_seq;
    ff_loss_rows sequences, residues; /* this rank's */
} labels;

static const void *label_data(const labels *l, const char *name, ff_array_type type, int ndim, const int64_t *shape)
{
    int64_t whole[FF_HDF5_MAX_DIMS] = {-1}, size = 1;
    for (int i = 0; i < ndim; i++) {
        whole[i + 1] = shape[i];
        size *= shape[i];
    }
    const ff_array *a = l->ctx->status == FF_OK ? ff_array_need(l->ctx, l->batch, name, type, ndim + 1, whole) : NULL;
    if (a != NULL && a->shape[0] <= l->slice) {
        FF_FAIL(l->ctx, FF_ERR_FORMAT, "label %s has %lld slices, slice %lld is wanted", name, (long long)a->shape[0],
                (long long)l->slice);
        a = NULL;
    }
    return a == NULL ? NULL : (const char *)a->data + (size_t)(l->slice * size) * ff_array_type_bytes(type);
}

static const float *floats(const labels *l, const char *name, int ndim, const int64_t *shape)
{
    return label_data(l, name, FF_ARRAY_FLOAT32, ndim, shape);
}

static const int32_t *integers(const labels *l, const char *name, int ndim, const int64_t *shape)
{
    return label_data(l, name, FF_ARRAY_INT32, ndim, shape);
}

/* A single number of a slice, or the fallback. */
static double number(const labels *l, const char *name, double fallback)
{
    const ff_array *a = ff_array_find(l->batch, name);
    return a == NULL || a->type != FF_ARRAY_FLOAT32 || l->slice >= a->size ? fallback : a->f32[l->slice];
}

/* ---- layers' arrays ---- */

/* Per-layer arrays and their gradients. */
typedef struct {
    int64_t num_layer;
    const float *traj[FF_STRUCTURE_MAX_LAYERS], *angles[FF_STRUCTURE_MAX_LAYERS], *unnormalized[FF_STRUCTURE_MAX_LAYERS];
    float *grad_traj[FF_STRUCTURE_MAX_LAYERS], *grad_angles[FF_STRUCTURE_MAX_LAYERS];
    float *grad_unnormalized[FF_STRUCTURE_MAX_LAYERS];
} layer_arrays;

static float *grad_of(ff_ctx *ctx, ff_tensor *x)
{
    return x == NULL || !x->requires_grad ? NULL : ff_data(ff_tensor_grad(ctx, x));
}

static void get_layers(ff_ctx *ctx, layer_arrays *s, const ff_structure_output *out, bool backward)
{
    *s = (layer_arrays){.num_layer = out->num_layer};
    for (int64_t l = 0; l < out->num_layer; l++) {
        const ff_fold_output *layer = &out->layers[l];
        s->traj[l] = ff_data(layer->traj);
        s->angles[l] = ff_data(layer->angles);
        s->unnormalized[l] = ff_data(layer->unnormalized_angles);
        s->grad_traj[l] = backward ? grad_of(ctx, layer->traj) : NULL;
        s->grad_angles[l] = backward ? grad_of(ctx, layer->angles) : NULL;
        s->grad_unnormalized[l] = backward ? grad_of(ctx, layer->unnormalized_angles) : NULL;
    }
}

/* ---- the loss ---- */

static void structure_inputs(const labels *l, const ff_model_output *out, const layer_arrays *s, ff_loss_inputs *in)
{
    const int64_t n = l->num_res;
    const ff_fold_output *last = &out->structure.layers[out->structure.num_layer - 1];
    const int32_t *aatype = integers(l, "aatype", FF_DIMS(n));
    const float *seq_mask = floats(l, "seq_mask", FF_DIMS(n));
    in->backbone = (ff_backbone_fape_inputs){.num_layer = s->num_layer,
                                             .num_res = n,
                                             .traj = s->traj,
                                             .true_affine = floats(l, "backbone_affine_tensor", FF_DIMS(n, 7)),
                                             .mask = floats(l, "backbone_affine_mask", FF_DIMS(n)),
                                             .use_clamped_fape = number(l, "use_clamped_fape", 1)};
    in->sidechain = (ff_sidechain_fape_inputs){.num_res = n,
                                               .frames = ff_data(last->frames),
                                               .atom14_pos = ff_data(last->atom14),
                                               .frame_mask = floats(l, "rigidgroups_gt_exists", FF_DIMS(n, 8))};
    in->renaming = (ff_renaming_inputs){.num_res = n,
                                        .atom14_pos = ff_data(last->atom14),
                                        .true_pos = floats(l, "atom14_gt_positions", FF_DIMS(n, 14, 3)),
                                        .alt_pos = floats(l, "atom14_alt_gt_positions", FF_DIMS(n, 14, 3)),
                                        .exists = floats(l, "atom14_gt_exists", FF_DIMS(n, 14)),
                                        .alt_exists = floats(l, "atom14_alt_gt_exists", FF_DIMS(n, 14)),
                                        .is_ambiguous = floats(l, "atom14_atom_is_ambiguous", FF_DIMS(n, 14)),
                                        .true_frames = floats(l, "rigidgroups_gt_frames", FF_DIMS(n, 8, 12)),
                                        .alt_frames = floats(l, "rigidgroups_alt_gt_frames", FF_DIMS(n, 8, 12))};
    in->torsion = (ff_torsion_inputs){.num_layer = s->num_layer,
                                      .num_res = n,
                                      .angles = s->angles,
                                      .unnormalized = s->unnormalized,
                                      .aatype = aatype,
                                      .chi_angles = floats(l, "chi_angles", FF_DIMS(n, 4)),
                                      .chi_mask = floats(l, "chi_mask", FF_DIMS(n, 4)),
                                      .seq_mask = seq_mask};
    in->violation = (ff_violation_inputs){.num_res = n,
                                          .atom14_pos = ff_data(last->atom14),
                                          .atom_exists = floats(l, "atom14_atom_exists", FF_DIMS(n, 14)),
                                          .aatype = aatype,
                                          .residue_index = integers(l, "residue_index", FF_DIMS(n)),
                                          .seq_mask = seq_mask};
}

/* edges: [distogram bins - 1], then [PAE bins - 1] */
static void head_inputs(const labels *l, const ff_model *model, const ff_model_output *out, const float *edges,
                        ff_loss_inputs *in)
{
    const int64_t n = l->num_res;
    const ff_heads_config *h = &model->heads.config;
    const double resolution = number(l, "resolution", 0);
    const float *positions = floats(l, "all_atom_positions", FF_DIMS(n, 37, 3));
    const float *mask = floats(l, "all_atom_mask", FF_DIMS(n, 37));
    in->distogram = (ff_distogram_inputs){.num_res = n,
                                          .num_bins = h->distogram_num_bins,
                                          .rows = l->residues,
                                          .logits = ff_data(out->heads.distogram),
                                          .bin_edges = edges,
                                          .pseudo_beta = floats(l, "pseudo_beta", FF_DIMS(n, 3)),
                                          .pseudo_beta_mask = floats(l, "pseudo_beta_mask", FF_DIMS(n))};
    in->masked_msa = (ff_masked_msa_inputs){.num_seq = l->num_seq,
                                            .num_res = n,
                                            .num_class = h->masked_msa_num_output,
                                            .rows = l->sequences,
                                            .logits = ff_data(out->heads.masked_msa),
                                            .true_msa = integers(l, "true_msa", FF_DIMS(l->num_seq, n)),
                                            .bert_mask = floats(l, "bert_mask", FF_DIMS(l->num_seq, n))};
    in->plddt = (ff_plddt_inputs){.num_res = n,
                                  .num_bins = h->plddt_num_bins,
                                  .logits = ff_data(out->heads.predicted_lddt),
                                  .predicted_pos = ff_data(out->structure.atom37),
                                  .all_atom_pos = positions,
                                  .all_atom_mask = mask,
                                  .resolution = resolution};
    in->resolved = (ff_resolved_inputs){.num_res = n,
                                        .logits = ff_data(out->heads.experimentally_resolved),
                                        .all_atom_mask = mask,
                                        .atom37_atom_exists = floats(l, "atom37_atom_exists", FF_DIMS(n, 37)),
                                        .resolution = resolution};
    in->pae = (ff_pae_inputs){.num_res = n,
                              .num_bins = h->pae_num_bins,
                              .rows = l->residues,
                              .logits = ff_data(out->heads.predicted_aligned_error),
                              .breaks = edges + h->distogram_num_bins - 1,
                              .predicted_affine = in->backbone.traj[in->backbone.num_layer - 1],
                              .true_affine = in->backbone.true_affine,
                              .mask = in->backbone.mask,
                              .resolution = resolution};
}

static ff_loss_grads output_grads(ff_ctx *ctx, const ff_model_output *out, const layer_arrays *s)
{
    const ff_fold_output *last = &out->structure.layers[out->structure.num_layer - 1];
    return (ff_loss_grads){.traj = s->grad_traj,
                           .frames = grad_of(ctx, last->frames),
                           .atom14_pos = grad_of(ctx, last->atom14),
                           .angles = s->grad_angles,
                           .unnormalized_angles = s->grad_unnormalized,
                           .distogram_logits = grad_of(ctx, out->heads.distogram),
                           .masked_msa_logits = grad_of(ctx, out->heads.masked_msa),
                           .plddt_logits = grad_of(ctx, out->heads.predicted_lddt),
                           .resolved_logits = grad_of(ctx, out->heads.experimentally_resolved),
                           .pae_logits = grad_of(ctx, out->heads.predicted_aligned_error)};
}

/* Where the logits are sharded their rows are this rank's. */
static labels get_labels(ff_ctx *ctx, const ff_array_set *batch, int64_t slice, const ff_model_output *out)
{
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    const ff_evoformer_output *r = &out->representations;
    labels l = {ctx, batch, slice, out->num_res, r->num_seq, {0, 0}, {0, 0}};
    if (size > 1) {
        const int64_t first = ff_shard_first(r->num_rows, rank, size), row = ff_shard_first(l.num_res, rank, size);
        l.sequences.first = first < l.num_seq ? first : l.num_seq;
        l.sequences.end = l.sequences.first + r->msa->shape[0];
        l.residues = (ff_loss_rows){row, row + ff_shard_length(l.num_res, rank, size)};
    }
    return l;
}

/* Parts of sharded logits: summed over ranks, in their order. */
static void sum_over_ranks(ff_ctx *ctx, ff_loss_parts *parts, const ff_loss_weights *weights, double sample_weight)
{
    enum { SHARDED = 3 };
    double *const all[SHARDED] = {&parts->masked_msa, &parts->distogram, &parts->pae}, own[SHARDED] = {*all[0], *all[1], *all[2]};
    const int size = ff_dap_size(ctx);
    double *gathered = size == 1 ? NULL : ff_scratch_begin(ctx, (size_t)size * sizeof own);
    if (gathered == NULL || ff_dap_all_gather_bytes(ctx, gathered, own, size, sizeof own) != FF_OK) {
        ff_scratch_end(ctx, gathered);
        return;
    }
    for (int i = 0; i < SHARDED; i++) {
        *all[i] = 0;
        for (int r = 0; r < size; r++)
            *all[i] += gathered[r * SHARDED + i];
    }
    parts->total = ff_loss_weighted_sum(parts, weights, sample_weight);
    ff_scratch_end(ctx, gathered);
}

ff_status ff_model_loss(ff_ctx *ctx, ff_loss_parts *parts, const ff_model *model, const ff_array_set *batch, int64_t slice,
                        const ff_model_output *out, const ff_loss_weights *weights, double sample_weight, bool backward)
{
    FF_TRY(ctx->status);
    memset(parts, 0, sizeof *parts);
    const ff_heads_config *h = &model->heads.config;
    const labels l = get_labels(ctx, batch, slice, out);
    layer_arrays s;
    get_layers(ctx, &s, &out->structure, backward);
    ff_tensor *edges = ff_tensor_create(ctx, FF_SHAPE(h->distogram_num_bins + h->pae_num_bins));
    ff_loss_inputs in = {0};
    if (ctx->status == FF_OK)
        structure_inputs(&l, out, &s, &in);
    if (ctx->status == FF_OK)
        head_inputs(&l, model, out, ff_data(edges), &in);
    if (ff_computing(ctx)) {
        ff_bin_edges(ff_data(edges), h->distogram_first_break, h->distogram_last_break, h->distogram_num_bins);
        if (h->pae_num_bins > 0)
            ff_bin_edges(ff_data(edges) + h->distogram_num_bins - 1, 0, h->pae_max_error_bin, h->pae_num_bins);
    }
    const ff_loss_grads grads = backward && ctx->status == FF_OK ? output_grads(ctx, out, &s) : (ff_loss_grads){0};
    if (ff_computing(ctx))
        ff_loss_total(ctx, parts, backward ? &grads : NULL, &in, weights, sample_weight);
    if (ff_computing(ctx))
        sum_over_ranks(ctx, parts, weights, sample_weight);
    ff_tensor_release(edges);
    return ctx->status;
}

/* ---- making labels ---- */

/* A new array [slices, shape...]. */
static float *add_label(ff_ctx *ctx, ff_array_set *batch, const char *name, int64_t slices, int ndim, const int64_t *shape)
{
    int64_t whole[FF_HDF5_MAX_DIMS] = {slices};
    memcpy(whole + 1, shape, (size_t)ndim * sizeof *shape);
    ff_array *a = ctx->status == FF_OK ? ff_array_add(ctx, batch, name, FF_ARRAY_FLOAT32, ndim + 1, whole) : NULL;
    return a == NULL ? NULL : a->f32;
}

static void chi_angles(float *chi, float *mask, const float *torsions, const float *torsion_mask, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++)
        for (int k = 0; k < 4; k++) {
            const float *pair = torsions + (r * FF_NUM_TORSIONS + 3 + k) * 2;
            mask[4 * r + k] = torsion_mask[r * FF_NUM_TORSIONS + 3 + k];
            chi[4 * r + k] = mask[4 * r + k] * atan2f(pair[0], pair[1]);
        }
}

ff_status ff_model_make_labels(ff_ctx *ctx, ff_array_set *batch)
{
    const ff_array *types = ff_array_need(ctx, batch, "aatype", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (types == NULL)
        return ctx->status;
    const int64_t m = types->shape[0], n = types->shape[1];
    const ff_array *x = ff_array_need(ctx, batch, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(m, n, 37, 3));
    const ff_array *mask = x == NULL ? NULL : ff_array_need(ctx, batch, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(m, n, 37));
    if (mask == NULL)
        return ctx->status;
    float *frames = add_label(ctx, batch, "rigidgroups_gt_frames", m, FF_DIMS(n, 8, 12));
    float *alt_frames = add_label(ctx, batch, "rigidgroups_alt_gt_frames", m, FF_DIMS(n, 8, 12));
    float *frame_exists = add_label(ctx, batch, "rigidgroups_gt_exists", m, FF_DIMS(n, 8));
    float *pos = add_label(ctx, batch, "atom14_gt_positions", m, FF_DIMS(n, 14, 3));
    float *alt_pos = add_label(ctx, batch, "atom14_alt_gt_positions", m, FF_DIMS(n, 14, 3));
    float *exists = add_label(ctx, batch, "atom14_gt_exists", m, FF_DIMS(n, 14));
    float *alt_exists = add_label(ctx, batch, "atom14_alt_gt_exists", m, FF_DIMS(n, 14));
    float *ambiguous = add_label(ctx, batch, "atom14_atom_is_ambiguous", m, FF_DIMS(n, 14));
    float *beta = add_label(ctx, batch, "pseudo_beta", m, FF_DIMS(n, 3));
    float *beta_mask = add_label(ctx, batch, "pseudo_beta_mask", m, FF_DIMS(n));
    float *affine = add_label(ctx, batch, "backbone_affine_tensor", m, FF_DIMS(n, 7));
    float *affine_mask = add_label(ctx, batch, "backbone_affine_mask", m, FF_DIMS(n));
    float *chi = add_label(ctx, batch, "chi_angles", m, FF_DIMS(n, 4));
    float *chi_mask = add_label(ctx, batch, "chi_mask", m, FF_DIMS(n, 4));
    float *torsions = malloc((size_t)(n * 21 + 1) * sizeof *torsions);
    if (torsions == NULL)
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for labels");
    for (int64_t k = 0; k < m && ctx->status == FF_OK; k++) {
        const int32_t *t = types->i32 + k * n;
        const float *p = x->f32 + k * n * 111, *am = mask->f32 + k * n * 37;
        const ff_frame_labels f = {frames + k * n * 96, alt_frames + k * n * 96, frame_exists + k * n * 8, NULL, NULL};
        const ff_atom14_labels a = {pos + k * n * 42,        alt_pos + k * n * 42, exists + k * n * 14,
                                    alt_exists + k * n * 14, NULL,                 ambiguous + k * n * 14};
        ff_atom37_to_frames(&f, t, p, am, n);
        ff_make_atom14_labels(&a, t, p, am, n);
        ff_make_pseudo_beta(beta + k * n * 3, beta_mask + k * n, t, p, am, n);
        ff_backbone_affine(affine + k * n * 7, affine_mask + k * n, t, p, am, n);
        ff_atom37_to_torsion_angles(torsions, NULL, torsions + n * 14, t, p, am, false, n);
        chi_angles(chi + k * n * 4, chi_mask + k * n * 4, torsions, torsions + n * 14, n);
    }
    free(torsions);
    return ctx->status;
}
