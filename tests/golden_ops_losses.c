/* golden_ops_losses.c - operations of the family losses: values and gradients on plain arrays.
 *
 * Contents: storing; FAPE; torsions; violations; cross entropies; the total; the table.
 *
 * With a tape gradients are computed, without one values only: both ways are judged. */
#include <stdlib.h>
#include <string.h>

#include "structure/residue_constants.h"
#include "tests/golden_ops.h"
#include "train/losses.h"

/* ---- storing ---- */

static bool ok(const golden_run_state *s, ff_status status) { return status == FF_OK && s->ctx->status == FF_OK; }

static void store_number(golden_run_state *s, const char *name, double value)
{
    const float number = (float)value;
    golden_store_output(s->c, name, &number, 0, NULL);
}

static int64_t size_of(golden_run_state *s, const char *name, int axis)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    return a == NULL || axis >= a->ndim ? 0 : a->shape[axis];
}

static double number_of(golden_run_state *s, const char *name, double fallback)
{
    const golden_array *a = golden_find_input(s->c, name);
    return a == NULL ? fallback : (double)a->data[0];
}

/* An output of the shape the file has, converted from integers. */
static void store_integers(golden_run_state *s, const char *name, const int32_t *data, int64_t rows, int64_t columns)
{
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    if (values == NULL) {
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory for %s", name);
        return;
    }
    for (int64_t i = 0; i < rows * columns; i++)
        values[i] = (float)data[i];
    golden_store_output(s->c, name, values, columns == 1 ? 1 : 2, (const int64_t[]){rows, columns});
    free(values);
}

/* Zeros for the gradient of an input; NULL when the run wants none. store_gradient stores and frees it. */
static float *gradient_of(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    if (a == NULL || s->ctx->tape == NULL)
        return NULL;
    float *grad = calloc((size_t)a->size, sizeof *grad);
    if (grad == NULL)
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory for the gradient of %s", name);
    return grad;
}

static void store_gradient(golden_run_state *s, const char *name, float *grad)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    if (grad != NULL && a != NULL)
        golden_store_grad_input(s->c, name, grad, a->ndim, a->shape);
    free(grad);
}

/* The layers of an array [num_layer, ...]. */
enum { MAX_LAYERS = 16 };
typedef struct {
    const float *of[MAX_LAYERS];
} layers;
typedef struct {
    float *of[MAX_LAYERS];
} grad_layers;

static layers layers_of(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    layers l = {{NULL}};
    for (int64_t k = 0; a != NULL && k < a->shape[0] && k < MAX_LAYERS; k++)
        l.of[k] = a->data + k * (a->size / a->shape[0]);
    return l;
}

static grad_layers grad_layers_of(golden_run_state *s, const char *name, float *grad)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    grad_layers l = {{NULL}};
    for (int64_t k = 0; a != NULL && grad != NULL && k < a->shape[0] && k < MAX_LAYERS; k++)
        l.of[k] = grad + k * (a->size / a->shape[0]);
    return l;
}

/* ---- FAPE ---- */

static ff_backbone_fape_inputs backbone_inputs(golden_run_state *s, const layers *traj)
{
    return (ff_backbone_fape_inputs){.num_layer = size_of(s, "traj", 0),
                                     .num_res = size_of(s, "traj", 1),
                                     .traj = traj->of,
                                     .true_affine = golden_floats(s, "backbone_affine_tensor"),
                                     .mask = golden_floats(s, "backbone_affine_mask"),
                                     .use_clamped_fape = number_of(s, "use_clamped_fape", 1)};
}

static void run_backbone_fape(golden_run_state *s)
{
    const layers traj = layers_of(s, "traj");
    const ff_backbone_fape_inputs in = backbone_inputs(s, &traj);
    float *grad = gradient_of(s, "traj");
    const grad_layers grads = grad_layers_of(s, "traj", grad);
    double loss, last;
    if (ok(s, ff_loss_fape_backbone(s->ctx, &loss, &last, grad == NULL ? NULL : grads.of, 1, &in))) {
        store_number(s, "loss", loss);
        store_number(s, "fape", last);
    }
    store_gradient(s, "traj", grad);
}

static ff_renaming_inputs renaming_inputs(golden_run_state *s)
{
    return (ff_renaming_inputs){.num_res = size_of(s, "atom14_pos", 0),
                                .atom14_pos = golden_floats(s, "atom14_pos"),
                                .true_pos = golden_floats(s, "atom14_gt_positions"),
                                .alt_pos = golden_floats(s, "atom14_alt_gt_positions"),
                                .exists = golden_floats(s, "atom14_gt_exists"),
                                .alt_exists = golden_floats(s, "atom14_alt_gt_exists"),
                                .is_ambiguous = golden_floats(s, "atom14_atom_is_ambiguous"),
                                .true_frames = golden_floats(s, "rigidgroups_gt_frames"),
                                .alt_frames = golden_floats(s, "rigidgroups_alt_gt_frames")};
}

static ff_sidechain_fape_inputs sidechain_inputs(golden_run_state *s)
{
    return (ff_sidechain_fape_inputs){.num_res = size_of(s, "frames", 0),
                                      .frames = golden_floats(s, "frames"),
                                      .atom14_pos = golden_floats(s, "atom14_pos"),
                                      .frame_mask = golden_floats(s, "rigidgroups_gt_exists")};
}

static void run_sidechain_fape(golden_run_state *s)
{
    const ff_renaming_inputs renaming = renaming_inputs(s);
    ff_sidechain_fape_inputs in = sidechain_inputs(s);
    const int64_t n = in.num_res;
    float *block = calloc((size_t)(n * (1 + 42 + 14 + 96) + 1), sizeof *block);
    if (block == NULL || s->ctx->status != FF_OK) {
        free(block);
        return;
    }
    float *better = block, *pos = block + n, *exists = pos + 42 * n, *frames = exists + 14 * n;
    float *grad_frames = gradient_of(s, "frames"), *grad_pos = gradient_of(s, "atom14_pos");
    double loss;
    in.true_frames = frames;
    in.true_pos = pos;
    in.atom_mask = exists;
    if (ok(s, ff_loss_rename_truth(s->ctx, better, pos, exists, frames, &renaming)) &&
        ok(s, ff_loss_fape_sidechain(s->ctx, &loss, grad_frames, grad_pos, 1, &in))) {
        golden_store_output(s->c, "alt_naming_is_better", better, FF_SHAPE(n));
        golden_store_output(s->c, "renamed_atom14_gt_positions", pos, FF_SHAPE(n, 14, 3));
        golden_store_output(s->c, "renamed_atom14_gt_exists", exists, FF_SHAPE(n, 14));
        store_number(s, "loss", loss);
    }
    store_gradient(s, "frames", grad_frames);
    store_gradient(s, "atom14_pos", grad_pos);
    free(block);
}

/* ---- torsions ---- */

static ff_torsion_inputs torsion_inputs(golden_run_state *s, const layers *angles, const layers *raw)
{
    return (ff_torsion_inputs){.num_layer = size_of(s, "angles_sin_cos", 0),
                               .num_res = size_of(s, "angles_sin_cos", 1),
                               .angles = angles->of,
                               .unnormalized = raw->of,
                               .aatype = golden_integers(s, "aatype"),
                               .chi_angles = golden_floats(s, "chi_angles"),
                               .chi_mask = golden_floats(s, "chi_mask"),
                               .seq_mask = golden_floats(s, "seq_mask")};
}

static void run_supervised_chi(golden_run_state *s)
{
    const layers angles = layers_of(s, "angles_sin_cos"), raw = layers_of(s, "unnormalized_angles_sin_cos");
    const ff_torsion_inputs in = torsion_inputs(s, &angles, &raw);
    float *grad = gradient_of(s, "angles_sin_cos"), *grad_raw = gradient_of(s, "unnormalized_angles_sin_cos");
    const grad_layers g = grad_layers_of(s, "angles_sin_cos", grad);
    const grad_layers g_raw = grad_layers_of(s, "unnormalized_angles_sin_cos", grad_raw);
    const bool with_grads = s->ctx->tape != NULL;
    ff_torsion_result r;
    if (s->ctx->status == FF_OK &&
        ok(s, ff_loss_torsion(s->ctx, &r, with_grads ? g.of : NULL, with_grads ? g_raw.of : NULL, 1, &in))) {
        store_number(s, "loss", r.loss);
        store_number(s, "chi_loss", r.chi);
        store_number(s, "angle_norm_loss", r.angle_norm);
    }
    store_gradient(s, "angles_sin_cos", grad);
    store_gradient(s, "unnormalized_angles_sin_cos", grad_raw);
}

/* ---- violations ---- */

static ff_violation_inputs violation_inputs(golden_run_state *s)
{
    return (ff_violation_inputs){.num_res = size_of(s, "atom14_pos", 0),
                                 .atom14_pos = golden_floats(s, "atom14_pos"),
                                 .atom_exists = golden_floats(s, "atom14_atom_exists"),
                                 .aatype = golden_integers(s, "aatype"),
                                 .residue_index = golden_integers(s, "residue_index"),
                                 .seq_mask = golden_floats(s, "seq_mask")};
}

static void store_violation_numbers(golden_run_state *s, const ff_violation_result *r)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"loss", r->loss},
                   {"between_residues_bonds_c_n_loss_mean", r->bond_c_n},
                   {"between_residues_angles_ca_c_n_loss_mean", r->angle_ca_c_n},
                   {"between_residues_angles_c_n_ca_loss_mean", r->angle_c_n_ca},
                   {"between_residues_clashes_mean_loss", r->clash_mean},
                   {"clash_term", r->clash},
                   {"within_term", r->within},
                   {"metric_violations_between_residue_bond", r->fraction_bond},
                   {"metric_violations_between_residue_clash", r->fraction_clash},
                   {"metric_violations_within_residue", r->fraction_within},
                   {"metric_violations_per_residue", r->fraction_any},
                   {"metric_violations_extreme_ca_ca_distance", r->fraction_ca_ca}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (golden_wants_output(s->c, numbers[k].name))
            store_number(s, numbers[k].name, numbers[k].value);
}

static void store_violation_details(golden_run_state *s, const ff_violation_details *d, int64_t n)
{
    golden_store_output(s->c, "between_residues_connections_per_residue_loss_sum", d->connection_loss, FF_SHAPE(n));
    golden_store_output(s->c, "between_residues_connections_per_residue_violation_mask", d->connection_mask,
                        FF_SHAPE(n));
    golden_store_output(s->c, "between_residues_clashes_per_atom_loss_sum", d->clash_loss, FF_SHAPE(n, 14));
    golden_store_output(s->c, "between_residues_clashes_per_atom_clash_mask", d->clash_mask, FF_SHAPE(n, 14));
    golden_store_output(s->c, "within_residues_per_atom_loss_sum", d->within_loss, FF_SHAPE(n, 14));
    golden_store_output(s->c, "within_residues_per_atom_violations", d->within_mask, FF_SHAPE(n, 14));
    golden_store_output(s->c, "total_per_residue_violations_mask", d->residue_mask, FF_SHAPE(n));
}

static void run_violation(golden_run_state *s, const ff_violation_weights *terms)
{
    const ff_violation_inputs in = violation_inputs(s);
    const int64_t n = in.num_res;
    float *block = calloc((size_t)(n * (3 + 4 * 14) + 1), sizeof *block), *grad = gradient_of(s, "atom14_pos");
    if (block != NULL && s->ctx->status == FF_OK) {
        const ff_violation_details d = {.connection_loss = block,
                                        .connection_mask = block + n,
                                        .residue_mask = block + 2 * n,
                                        .clash_loss = block + 3 * n,
                                        .clash_mask = block + 17 * n,
                                        .within_loss = block + 31 * n,
                                        .within_mask = block + 45 * n};
        const bool all = golden_wants_output(s->c, "loss");
        ff_violation_result r;
        if (ok(s, ff_loss_violation(s->ctx, &r, all ? &d : NULL, grad, 1, terms, &in))) {
            store_violation_numbers(s, &r);
            if (all)
                store_violation_details(s, &d, n);
        }
    }
    store_gradient(s, "atom14_pos", grad);
    free(block);
}

static void run_violation_total(golden_run_state *s) { run_violation(s, NULL); }
static void run_violation_bond(golden_run_state *s) { run_violation(s, &(ff_violation_weights){.bond_c_n = 1}); }
static void run_violation_ca_c_n(golden_run_state *s)
{
    run_violation(s, &(ff_violation_weights){.angle_ca_c_n = 1});
}
static void run_violation_c_n_ca(golden_run_state *s)
{
    run_violation(s, &(ff_violation_weights){.angle_c_n_ca = 1});
}
static void run_violation_clash(golden_run_state *s) { run_violation(s, &(ff_violation_weights){.clash = 1}); }
static void run_violation_within(golden_run_state *s) { run_violation(s, &(ff_violation_weights){.within = 1}); }

/* ---- cross entropies ---- */

static ff_distogram_inputs distogram_inputs(golden_run_state *s, const char *logits)
{
    return (ff_distogram_inputs){.num_res = size_of(s, logits, 0),
                                 .num_bins = size_of(s, logits, 2),
                                 .logits = golden_floats(s, logits),
                                 .bin_edges = golden_floats(s, "bin_edges"),
                                 .pseudo_beta = golden_floats(s, "pseudo_beta"),
                                 .pseudo_beta_mask = golden_floats(s, "pseudo_beta_mask")};
}

static void run_distogram(golden_run_state *s)
{
    const ff_distogram_inputs in = distogram_inputs(s, "logits");
    const int64_t n = in.num_res;
    float *grad = gradient_of(s, "logits"), *distances = malloc((size_t)(n * n + 1) * sizeof *distances);
    int32_t *bins = malloc((size_t)(n * n + 1) * sizeof *bins);
    double loss;
    if (bins != NULL && distances != NULL && s->ctx->status == FF_OK &&
        ok(s, ff_loss_distogram(s->ctx, &loss, grad, 1, &in))) {
        ff_loss_distogram_targets(bins, distances, &in);
        store_number(s, "loss", loss);
        store_integers(s, "true_bins", bins, n, n);
        golden_store_output(s->c, "true_dist", distances, FF_SHAPE(n, n));
    }
    store_gradient(s, "logits", grad);
    free(bins);
    free(distances);
}

static ff_masked_msa_inputs masked_msa_inputs(golden_run_state *s, const char *logits)
{
    return (ff_masked_msa_inputs){.num_seq = size_of(s, logits, 0),
                                  .num_res = size_of(s, logits, 1),
                                  .num_class = size_of(s, logits, 2),
                                  .logits = golden_floats(s, logits),
                                  .true_msa = golden_integers(s, "true_msa"),
                                  .bert_mask = golden_floats(s, "bert_mask")};
}

static void run_masked_msa(golden_run_state *s)
{
    const ff_masked_msa_inputs in = masked_msa_inputs(s, "logits");
    float *grad = gradient_of(s, "logits");
    double loss;
    if (s->ctx->status == FF_OK && ok(s, ff_loss_masked_msa(s->ctx, &loss, grad, 1, &in)))
        store_number(s, "loss", loss);
    store_gradient(s, "logits", grad);
}

static ff_plddt_inputs plddt_inputs(golden_run_state *s, const char *logits)
{
    return (ff_plddt_inputs){.num_res = size_of(s, logits, 0),
                             .num_bins = size_of(s, logits, 1),
                             .logits = golden_floats(s, logits),
                             .all_atom_pos = golden_floats(s, "all_atom_positions"),
                             .all_atom_mask = golden_floats(s, "all_atom_mask"),
                             .resolution = number_of(s, "resolution", 0)};
}

static void run_plddt(golden_run_state *s)
{
    ff_plddt_inputs in = plddt_inputs(s, "logits");
    in.predicted_pos = golden_floats(s, "final_atom_positions");
    const int64_t n = in.num_res;
    float *grad = gradient_of(s, "logits"), *stored = calloc((size_t)n + 1, sizeof *stored);
    double *lddt = calloc((size_t)n + 1, sizeof *lddt);
    int32_t *bins = calloc((size_t)n + 1, sizeof *bins);
    double loss;
    if (stored != NULL && lddt != NULL && bins != NULL && s->ctx->status == FF_OK &&
        ok(s, ff_loss_plddt(s->ctx, &loss, lddt, grad, 1, &in))) {
        for (int64_t i = 0; i < n; i++) {
            stored[i] = (float)lddt[i];
            bins[i] = ff_loss_plddt_bin(lddt[i], in.num_bins);
        }
        store_number(s, "loss", loss);
        golden_store_output(s->c, "lddt_ca", stored, FF_SHAPE(n));
        store_integers(s, "true_bins", bins, n, 1);
    }
    store_gradient(s, "logits", grad);
    free(lddt);
    free(stored);
    free(bins);
}

static ff_resolved_inputs resolved_inputs(golden_run_state *s, const char *logits)
{
    return (ff_resolved_inputs){.num_res = size_of(s, logits, 0),
                                .logits = golden_floats(s, logits),
                                .all_atom_mask = golden_floats(s, "all_atom_mask"),
                                .atom37_atom_exists = golden_floats(s, "atom37_atom_exists"),
                                .resolution = number_of(s, "resolution", 0)};
}

static void run_resolved(golden_run_state *s)
{
    const ff_resolved_inputs in = resolved_inputs(s, "logits");
    float *grad = gradient_of(s, "logits");
    double loss;
    if (s->ctx->status == FF_OK && ok(s, ff_loss_resolved(s->ctx, &loss, grad, 1, &in)))
        store_number(s, "loss", loss);
    store_gradient(s, "logits", grad);
}

static ff_pae_inputs pae_inputs(golden_run_state *s, const char *logits)
{
    return (ff_pae_inputs){.num_res = size_of(s, logits, 0),
                           .num_bins = size_of(s, logits, 2),
                           .logits = golden_floats(s, logits),
                           .breaks = golden_floats(s, "breaks"),
                           .true_affine = golden_floats(s, "backbone_affine_tensor"),
                           .mask = golden_floats(s, "backbone_affine_mask"),
                           .resolution = number_of(s, "resolution", 0)};
}

static void run_pae(golden_run_state *s)
{
    ff_pae_inputs in = pae_inputs(s, "logits");
    in.predicted_affine = golden_floats(s, "final_affines");
    const int64_t n = in.num_res;
    float *grad = gradient_of(s, "logits");
    int32_t *bins = malloc((size_t)(n * n + 1) * sizeof *bins);
    double loss;
    if (bins != NULL && s->ctx->status == FF_OK && ok(s, ff_loss_pae(s->ctx, &loss, grad, 1, &in))) {
        ff_loss_pae_targets(bins, &in);
        store_number(s, "loss", loss);
        store_integers(s, "true_bins", bins, n, n);
    }
    store_gradient(s, "logits", grad);
    free(bins);
}

/* ---- the total ---- */

/* final_atom_positions as far as the pLDDT loss reads them: CA. */
static float *final_positions(const float *atom14_pos, int64_t n)
{
    float *pos = calloc((size_t)(n * 37 * 3 + 1), sizeof *pos);
    for (int64_t i = 0; i < n && pos != NULL; i++)
        memcpy(pos + (i * 37 + FF_ATOM_CA) * 3, atom14_pos + (i * 14 + FF_ATOM_CA) * 3, 3 * sizeof *pos);
    return pos;
}

static ff_loss_weights total_weights(const golden_run_state *s)
{
    return (ff_loss_weights){.structure_module = golden_number(s->c, "weight_structure_module", 0),
                             .violation = golden_number(s->c, "structural_violation_loss_weight", 0),
                             .masked_msa = golden_number(s->c, "weight_masked_msa", 0),
                             .distogram = golden_number(s->c, "weight_distogram", 0),
                             .plddt = golden_number(s->c, "weight_predicted_lddt", 0),
                             .resolved = golden_number(s->c, "weight_experimentally_resolved", 0),
                             .pae = golden_number(s->c, "weight_predicted_aligned_error", 0)};
}

/* The weights of the stage that the case is named after have to be those of its attributes. */
static void check_stage(golden_run_state *s, const ff_loss_weights *want)
{
    const ff_training_stage stage = strstr(s->c->name, "initial") != NULL ? FF_STAGE_INITIAL
                                    : strstr(s->c->name, "ptm") != NULL   ? FF_STAGE_PTM
                                                                          : FF_STAGE_FINETUNE;
    const ff_loss_weights got = ff_loss_stage_weights(stage);
    if (memcmp(&got, want, sizeof got) != 0)
        FF_FAIL(s->ctx, FF_ERR_FORMAT, "ff_loss_stage_weights(%d) differs from the weights of case %s", (int)stage,
                s->c->name);
}

static void store_parts(golden_run_state *s, const ff_loss_parts *p)
{
    store_number(s, "loss_structure_module", p->structure_module);
    store_number(s, "loss_distogram", p->distogram);
    store_number(s, "loss_masked_msa", p->masked_msa);
    store_number(s, "loss_predicted_lddt", p->plddt);
    store_number(s, "loss_experimentally_resolved", p->resolved);
    store_number(s, "loss_predicted_aligned_error", p->pae);
    store_number(s, "structure_module_fape", p->backbone_fape_last);
    store_number(s, "structure_module_sidechain_fape", p->sidechain_fape);
    store_number(s, "structure_module_chi_loss", p->torsion.chi);
    store_number(s, "structure_module_angle_norm_loss", p->torsion.angle_norm);
    store_number(s, "total_loss", p->total);
}

static void run_total(golden_run_state *s)
{
    enum { NUM_GRADS = 10 };
    static const char *const names[NUM_GRADS] = {"traj",
                                                 "angles_sin_cos",
                                                 "unnormalized_angles_sin_cos",
                                                 "frames",
                                                 "atom14_pos",
                                                 "distogram_logits",
                                                 "masked_msa_logits",
                                                 "predicted_lddt_logits",
                                                 "experimentally_resolved_logits",
                                                 "predicted_aligned_error_logits"};
    const layers traj = layers_of(s, "traj"), angles = layers_of(s, "angles_sin_cos");
    const layers raw = layers_of(s, "unnormalized_angles_sin_cos");
    ff_loss_inputs in = {.backbone = backbone_inputs(s, &traj),
                         .sidechain = sidechain_inputs(s),
                         .renaming = renaming_inputs(s),
                         .torsion = torsion_inputs(s, &angles, &raw),
                         .violation = violation_inputs(s),
                         .distogram = distogram_inputs(s, "distogram_logits"),
                         .masked_msa = masked_msa_inputs(s, "masked_msa_logits"),
                         .plddt = plddt_inputs(s, "predicted_lddt_logits"),
                         .resolved = resolved_inputs(s, "experimentally_resolved_logits"),
                         .pae = pae_inputs(s, "predicted_aligned_error_logits")};
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = in.renaming.num_res;
    float *pos = final_positions(in.renaming.atom14_pos, n), *grad[NUM_GRADS];
    const ff_loss_weights weights = total_weights(s);
    ff_loss_parts parts;
    for (int k = 0; k < NUM_GRADS; k++)
        grad[k] = gradient_of(s, names[k]);
    const grad_layers grad_traj = grad_layers_of(s, names[0], grad[0]),
                      grad_angles = grad_layers_of(s, names[1], grad[1]);
    const grad_layers grad_raw = grad_layers_of(s, names[2], grad[2]);
    const ff_loss_grads grads = {.traj = grad_traj.of,
                                 .angles = grad_angles.of,
                                 .unnormalized_angles = grad_raw.of,
                                 .frames = grad[3],
                                 .atom14_pos = grad[4],
                                 .distogram_logits = grad[5],
                                 .masked_msa_logits = grad[6],
                                 .plddt_logits = grad[7],
                                 .resolved_logits = grad[8],
                                 .pae_logits = grad[9]};
    in.plddt.predicted_pos = pos;
    in.pae.predicted_affine = in.backbone.traj[in.backbone.num_layer - 1];
    check_stage(s, &weights);
    if (pos != NULL && s->ctx->status == FF_OK &&
        ok(s, ff_loss_total(s->ctx, &parts, s->ctx->tape == NULL ? NULL : &grads, &in, &weights, 1)))
        store_parts(s, &parts);
    for (int k = 0; k < NUM_GRADS; k++)
        store_gradient(s, names[k], grad[k]);
    free(pos);
}

/* ---- the table ---- */

const golden_op golden_loss_ops[] = {
    {"losses", "backbone_fape", run_backbone_fape, false},
    {"losses", "sidechain_fape", run_sidechain_fape, false},
    {"losses", "supervised_chi", run_supervised_chi, false},
    {"losses", "violation_total", run_violation_total, false},
    {"losses", "violation_bond_c_n", run_violation_bond, false},
    {"losses", "violation_angle_ca_c_n", run_violation_ca_c_n, false},
    {"losses", "violation_angle_c_n_ca", run_violation_c_n_ca, false},
    {"losses", "violation_clash", run_violation_clash, false},
    {"losses", "violation_within", run_violation_within, false},
    {"losses", "distogram", run_distogram, false},
    {"losses", "masked_msa", run_masked_msa, false},
    {"losses", "plddt", run_plddt, false},
    {"losses", "experimentally_resolved", run_resolved, false},
    {"losses", "predicted_aligned_error", run_pae, false},
    {"losses", "total_loss", run_total, false},
    {NULL, NULL, NULL, false},
};
