/* test_train_losses.c - FAPE, renaming, torsions, violations and the total: values by hand, finite differences, invariants.
 *
 * Contents: set-up; finite differences; FAPE; renaming; torsions; violations; invariants of the total; edge cases. */
#include "tests/loss_case.h"
#ifdef _OPENMP
#include <omp.h>
#endif

static ff_ctx ctx;
static loss_case c;

static void set_up(void)
{
    loss_context(&ctx);
    memset(&c, 0, sizeof c);
}

static void tear_down(void)
{
    loss_case_free(&c);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
    ff_pool_destroy(&ctx);
}

static ff_loss_parts total(const ff_loss_grads *grads, double sample_weight)
{
    const ff_loss_weights weights = ff_loss_stage_weights(FF_STAGE_PTM);
    ff_loss_parts parts;
    CU_ASSERT_EQUAL(ff_loss_total(&ctx, &parts, grads, &c.in, &weights, sample_weight), FF_OK);
    return parts;
}

/* ---- finite differences ---- */

typedef double (*value_fn)(void);

/* Central differences of `value` at some elements of x against grad. A place where the two one-sided differences disagree is
 * a kink (clamp, relu, minimum) and is left out; more than a quarter of such places fails. */
static void check_differences(value_fn value, float *x, const float *grad, int64_t n, float step, double tolerance,
                              const char *what)
{
    enum { SAMPLES = 40 };
    double largest = 0, worst = 0;
    int kinks = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)grad[i]));
    CU_ASSERT_FATAL(largest > 0);
    const double middle = value();
    for (uint64_t k = 0; k < SAMPLES; k++) {
        int64_t i = 0; /* an element with a gradient, four times out of five */
        for (uint64_t t = 0; t < 50; t++) {
            i = (int64_t)ff_random_below((ff_random_key){12, k}, t, (uint64_t)n);
            if (grad[i] != 0 || k % 5 == 0)
                break;
        }
        const float before = x[i], up = before + step, down = before - step;
        x[i] = up;
        const double above = value();
        x[i] = down;
        const double below = value();
        x[i] = before;
        const double right = (above - middle) / (double)(up - before),
                     left = (middle - below) / (double)(before - down);
        const double difference = (above - below) / (double)(up - down);
        if (fabs(right - left) > 50 * tolerance * largest)
            kinks++;
        else
            worst = fmax(worst, fabs(difference - (double)grad[i]) / largest);
    }
    if (!(worst <= tolerance) || kinks > SAMPLES / 4)
        printf("  %s: worst %.2e of the largest gradient, %d kinks\n", what, worst, kinks);
    CU_ASSERT(worst <= tolerance);
    CU_ASSERT(kinks <= SAMPLES / 4);
}

/* ---- FAPE ---- */

/* The formula, in double, one pair at a time. */
static double plain_fape(const ff_fape_inputs *in)
{
    double sum = 0, frames = 0, points = 0;
    for (int64_t f = 0; f < in->num_frames; f++)
        frames += (double)in->frame_mask[f];
    for (int64_t p = 0; p < in->num_points; p++)
        points += (double)in->point_mask[p];
    for (int64_t f = 0; f < in->num_frames; f++)
        for (int64_t p = 0; p < in->num_points; p++) {
            double rigid[2][12], point[2][3], local[2][3], d2 = 1e-4;
            for (int k = 0; k < 12; k++) {
                rigid[0][k] = (double)in->frames[12 * f + k];
                rigid[1][k] = (double)in->true_frames[12 * f + k];
            }
            for (int x = 0; x < 3; x++) {
                point[0][x] = (double)in->points[3 * p + x];
                point[1][x] = (double)in->true_points[3 * p + x];
            }
            ff_rigid_apply_inverse(local[0], rigid[0], point[0]);
            ff_rigid_apply_inverse(local[1], rigid[1], point[1]);
            for (int x = 0; x < 3; x++)
                d2 += (local[0][x] - local[1][x]) * (local[0][x] - local[1][x]);
            const double d = sqrt(d2), mixed = in->clamped * fmin(d, 10) + (1 - in->clamped) * d;
            sum += mixed / 10 * (double)in->frame_mask[f] * (double)in->point_mask[p];
        }
    return sum / (1e-4 + frames * points);
}

static ff_fape_inputs sidechain_fape(double clamped)
{
    const int64_t n = c.num_res;
    return (ff_fape_inputs){8 * n,    14 * n,   c.frames,    c.gt_frames, c.frame_mask,
                            c.atom14, c.gt_pos, c.gt_exists, clamped};
}

static double value_of_plain_fape(void)
{
    const ff_fape_inputs in = sidechain_fape(0.7);
    return plain_fape(&in);
}

static void test_fape_equals_the_formula_and_its_differences(void)
{
    loss_case_make(&c, 13, 4);
    const ff_fape_inputs in = sidechain_fape(0.7);
    double value, again;
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape(&ctx, &value, c.grads.frames, c.grads.atom14_pos, 1, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, plain_fape(&in), 1e-6 * value);
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape(&ctx, &again, NULL, NULL, 1, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, again, 1e-7 * value);
    check_differences(value_of_plain_fape, c.frames, c.grads.frames, 96 * c.num_res, 1e-3f, 1e-3, "frames");
    check_differences(value_of_plain_fape, c.atom14, c.grads.atom14_pos, 42 * c.num_res, 1e-3f, 1e-3, "atoms");
}

static double value_of_backbone_fape(void)
{
    double value;
    CU_ASSERT_EQUAL(ff_loss_fape_backbone(&ctx, &value, NULL, NULL, 1, &c.in.backbone), FF_OK);
    return value;
}

static void test_backbone_fape_equals_its_differences(void)
{
    loss_case_make(&c, 11, 4);
    double value, last;
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape_backbone(&ctx, &value, &last, c.grads.traj, 1, &c.in.backbone), FF_OK);
    for (int layer = 0; layer < LOSS_LAYERS; layer++) /* float32 values: a larger step */
        check_differences(value_of_backbone_fape, c.traj[layer], c.grad_traj[layer], 7 * c.num_res, 1e-2f, 5e-3,
                          "traj");
}

/* One frame at the origin, one point 3 Å and then 20 Å off. */
static void test_fape_of_one_pair_is_known(void)
{
    const float frame[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, one[1] = {1}, truth[3] = {1, 2, 3};
    float point[3] = {4, 2, 3}, grad[3] = {0};
    ff_fape_inputs in = {1, 1, frame, frame, one, point, truth, one, 1};
    double value;
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape(&ctx, &value, NULL, grad, 2, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, sqrt(9.0001) / 10 / 1.0001, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(grad[0], 2 * 3 / sqrt(9.0001) / 10 / 1.0001, 1e-7);
    CU_ASSERT_EQUAL(grad[1], 0);
    point[0] = 21;
    grad[0] = 0;
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape(&ctx, &value, NULL, grad, 1, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, 1 / 1.0001, 1e-7);
    CU_ASSERT_EQUAL(grad[0], 0);
    in.clamped = 0;
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape(&ctx, &value, NULL, grad, 1, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, 2 / 1.0001, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(grad[0], 0.1 / 1.0001, 1e-7);
    in.clamped = 0.9;
    CU_ASSERT_EQUAL_FATAL(ff_loss_fape(&ctx, &value, NULL, NULL, 1, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, 1.1 / 1.0001, 1e-6);
}

/* Every error is sqrt(1e-4) Å: 1e-3 in units of 10 Å. */
static void test_a_perfect_prediction_has_the_smallest_fape(void)
{
    loss_case_make(&c, 17, 0);
    const ff_loss_parts p = total(NULL, 1);
    CU_ASSERT_DOUBLE_EQUAL(p.backbone_fape, 1e-3, 2e-6);
    CU_ASSERT_DOUBLE_EQUAL(p.sidechain_fape, 1e-3, 2e-6);
    CU_ASSERT_DOUBLE_EQUAL(p.lddt_ca, 1, 1e-12);
}

/* ---- renaming ---- */

static void test_exchanged_symmetric_atoms_are_renamed(void)
{
    loss_case_make(&c, 15, 0); /* residue 0 is aspartate: OD1, OD2 in slots 6, 7 */
    CU_ASSERT_EQUAL_FATAL(ff_resnames[c.aatype[0]][2], 'P');
    const int64_t n = c.num_res;
    float *better = loss_array(&c, n), *pos = loss_array(&c, 42 * n), *exists = loss_array(&c, 14 * n);
    float *frames = loss_array(&c, 96 * n);
    CU_ASSERT_EQUAL_FATAL(ff_loss_rename_truth(&ctx, better, pos, exists, frames, &c.in.renaming), FF_OK);
    for (int64_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(better[i], 0);
    FF_CHECK_CLOSE(pos, c.gt_pos, 42 * n, 0, 0);
    for (int x = 0; x < 3; x++) {
        const float od1 = c.atom14[18 + x];
        c.atom14[18 + x] = c.atom14[21 + x];
        c.atom14[21 + x] = od1;
    }
    CU_ASSERT_EQUAL_FATAL(ff_loss_rename_truth(&ctx, better, pos, exists, frames, &c.in.renaming), FF_OK);
    CU_ASSERT_EQUAL(better[0], 1);
    FF_CHECK_CLOSE(pos, c.alt_pos, 42, 0, 0);
    FF_CHECK_CLOSE(frames, c.alt_frames, 96, 0, 0);
    FF_CHECK_CLOSE(pos + 42, c.gt_pos + 42, 42 * (n - 1), 0, 0);
}

/* ---- torsions ---- */

static double value_of_torsion(void)
{
    ff_torsion_result r;
    CU_ASSERT_EQUAL(ff_loss_torsion(&ctx, &r, NULL, NULL, 1, &c.in.torsion), FF_OK);
    return r.loss;
}

static void test_torsion_loss_equals_its_differences(void)
{
    loss_case_make(&c, 19, 1);
    ff_torsion_result r;
    CU_ASSERT_EQUAL_FATAL(ff_loss_torsion(&ctx, &r, c.grads.angles, c.grads.unnormalized_angles, 1, &c.in.torsion),
                          FF_OK);
    check_differences(value_of_torsion, c.angles[1], c.grad_angles[1], 14 * c.num_res, 1e-3f, 1e-4, "angles");
    check_differences(value_of_torsion, c.raw_angles[2], c.grad_raw[2], 14 * c.num_res, 1e-3f, 1e-3, "lengths");
}

/* Aspartate, chi2 = 30 degrees, predicted as 210: the same place. Serine's chi1 predicted opposite: |difference|^2 = 4. */
static void test_only_symmetric_chis_may_be_opposite(void)
{
    const int32_t type[2] = {3, 15};
    const float a = (float)(M_PI / 6), chi[8] = {0, (float)(M_PI / 6), 0, 0, (float)(M_PI / 6), 0, 0, 0};
    const float mask[8] = {0, 1, 0, 0, 1, 0, 0, 0}, seq_mask[2] = {1, 1};
    float angles[28] = {0}, raw[28] = {0};
    const float *layers[1] = {angles}, *raw_layers[1] = {raw};
    for (int k = 0; k < 14; k++)
        raw[2 * k] = 1;
    angles[2 * 4] = -sinf(a);
    angles[2 * 4 + 1] = -cosf(a);
    angles[14 + 2 * 3] = -sinf(a);
    angles[14 + 2 * 3 + 1] = -cosf(a);
    const ff_torsion_inputs in = {1, 2, layers, raw_layers, type, chi, mask, seq_mask};
    ff_torsion_result r;
    CU_ASSERT_EQUAL_FATAL(ff_loss_torsion(&ctx, &r, NULL, NULL, 1, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(r.chi, (0 + 4) / 2.0, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(r.angle_norm, sqrt(1 + 1e-6) - 1, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(r.loss, 0.5 * r.chi + 0.01 * r.angle_norm, 1e-12);
}

/* ---- violations ---- */

static double value_of_violation(void)
{
    ff_violation_result r;
    CU_ASSERT_EQUAL(ff_loss_violation(&ctx, &r, NULL, NULL, 1, NULL, &c.in.violation), FF_OK);
    return r.loss;
}

static void test_violation_loss_equals_its_differences(void)
{
    loss_case_make(&c, 13, 0.7f);
    ff_violation_result r;
    CU_ASSERT_EQUAL_FATAL(ff_loss_violation(&ctx, &r, NULL, c.grads.atom14_pos, 1, NULL, &c.in.violation), FF_OK);
    CU_ASSERT(r.bond_c_n > 0 && r.angle_ca_c_n > 0 && r.angle_c_n_ca > 0 && r.clash > 0 && r.within > 0);
    check_differences(value_of_violation, c.atom14, c.grads.atom14_pos, 42 * c.num_res, 1e-3f, 2e-3, "atoms");
}

/* Clashes over all pairs without looking whether residues are near. */
static double plain_clash(void)
{
    double sum = 0, atoms = 0;
    for (int64_t p = 0; p < 14 * c.num_res; p++) {
        atoms += (double)c.atom_exists[p];
        for (int64_t q = 0; q < 14 * c.num_res; q++) {
            const int64_t i = p / 14, j = q / 14;
            const int a = (int)(p % 14), b = (int)(q % 14), step = c.residue_index[j] - c.residue_index[i];
            if (c.atom_exists[p] == 0 || c.atom_exists[q] == 0 || step <= 0 || (step == 1 && a == 2 && b == 0) ||
                (a == 5 && b == 5))
                continue;
            double d2 = 1e-10;
            for (int x = 0; x < 3; x++)
                d2 += pow((double)c.atom14[3 * p + x] - (double)c.atom14[3 * q + x], 2);
            const double radii = (double)ff_atom37_van_der_waals_radius[ff_restype_atom14_to_atom37[c.aatype[i]][a]] +
                                 (double)ff_atom37_van_der_waals_radius[ff_restype_atom14_to_atom37[c.aatype[j]][b]];
            sum += 2 * fmax(radii - 1.5 - sqrt(d2), 0);
        }
    }
    return sum / (1e-6 + atoms);
}

static void test_clashes_miss_no_pair(void)
{
    const float noises[] = {0.3f, 3, 8};
    for (int k = 0; k < 3; k++) {
        ff_violation_result r;
        loss_case_make(&c, 29, noises[k]);
        CU_ASSERT_EQUAL_FATAL(ff_loss_violation(&ctx, &r, NULL, NULL, 1, NULL, &c.in.violation), FF_OK);
        CU_ASSERT(r.clash > 0);
        CU_ASSERT_DOUBLE_EQUAL(r.clash, plain_clash(), 1e-9);
        loss_case_free(&c);
    }
}

/* Two alanines of which only C and N exist, 0.5 Å too far from each other: 0.5 - 12 * 0.014, and 0 across a gap. */
static void test_a_stretched_peptide_bond_is_known(void)
{
    float pos[84] = {0}, exists[28] = {0}, bond_loss[2], mask[2];
    const int32_t type[2] = {0, 0}, joined[2] = {7, 8}, gap[2] = {7, 9};
    exists[2] = exists[14] = 1;
    pos[42] = 1.829f;
    ff_violation_inputs in = {2, pos, exists, type, joined, NULL};
    const ff_violation_details details = {.connection_loss = bond_loss, .connection_mask = mask};
    ff_violation_result r;
    CU_ASSERT_EQUAL_FATAL(ff_loss_violation(&ctx, &r, &details, NULL, 1, NULL, &in), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(r.bond_c_n, 0.5 - 12 * 0.014, 3e-6);
    CU_ASSERT_DOUBLE_EQUAL(r.loss, r.bond_c_n, 1e-12);
    CU_ASSERT_EQUAL(mask[0], 1);
    CU_ASSERT_EQUAL(mask[1], 1);
    CU_ASSERT_DOUBLE_EQUAL(r.fraction_bond, 1, 1e-9);
    in.residue_index = gap;
    CU_ASSERT_EQUAL_FATAL(ff_loss_violation(&ctx, &r, &details, NULL, 1, NULL, &in), FF_OK);
    CU_ASSERT_EQUAL(r.loss, 0);
    CU_ASSERT_EQUAL(mask[0], 0);
}

/* ---- invariants of the total ---- */

/* A copy of all gradients, one behind the other. */
static float *copy_gradients(int64_t *size)
{
    *size = 0;
    for (int k = 0; k < LOSS_GRADS; k++)
        *size += c.grad_size[k];
    float *copy = ff_test_floats(*size), *at = copy;
    for (int k = 0; k < LOSS_GRADS; k++) {
        memcpy(at, c.grad[k], (size_t)c.grad_size[k] * sizeof *at);
        at += c.grad_size[k];
    }
    return copy;
}

/* Each array's largest difference over its largest gradient. */
static double gradient_change(const float *before)
{
    double worst = 0;
    for (int k = 0; k < LOSS_GRADS; before += c.grad_size[k], k++) {
        double largest = 0, change = 0;
        for (int64_t i = 0; i < c.grad_size[k]; i++) {
            largest = fmax(largest, fabs((double)before[i]));
            change = fmax(change, fabs((double)c.grad[k][i] - (double)before[i]));
        }
        CU_ASSERT(largest > 0);
        worst = fmax(worst, change / largest);
    }
    return worst;
}

/* All truth through x -> R x + t with missing atoms left at 0. */
static void move_truth(const double rigid[12])
{
    for (int64_t a = 0; a < 37 * c.num_res; a++) {
        double p[3], q[3];
        for (int x = 0; x < 3; x++)
            p[x] = (double)c.all_atom_pos[3 * a + x];
        ff_rigid_apply(q, rigid, p);
        for (int x = 0; x < 3 && c.all_atom_mask[a] != 0; x++)
            c.all_atom_pos[3 * a + x] = (float)q[x];
    }
    loss_make_labels(&c);
}

static void test_moving_the_truth_changes_no_loss_and_no_gradient(void)
{
    double affine[7] = {0.3, -0.5, 0.7, 0.1, 12, -31, 8}, rigid[12], norm = 0;
    int64_t size;
    loss_case_make(&c, 23, 2);
    const ff_loss_parts before = total(&c.grads, 1);
    float *copy = copy_gradients(&size);
    for (int k = 0; k < 4; k++)
        norm += affine[k] * affine[k];
    for (int k = 0; k < 4; k++)
        affine[k] /= sqrt(norm);
    ff_affine_to_rigid(rigid, affine, 1.0);
    move_truth(rigid);
    loss_case_clear_gradients(&c);
    const ff_loss_parts after = total(&c.grads, 1);
    CU_ASSERT_DOUBLE_EQUAL(before.total, after.total, 1e-5 * before.total); /* coordinates are rounded to 4e-6 Å */
    CU_ASSERT_DOUBLE_EQUAL(before.backbone_fape, after.backbone_fape, 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(before.sidechain_fape, after.sidechain_fape, 1e-5);
    CU_ASSERT_EQUAL(before.lddt_ca, after.lddt_ca);
    CU_ASSERT(gradient_change(copy) < 1e-4);
    ff_test_free(copy);
}

static void test_a_mirrored_truth_changes_fape_only(void)
{
    const double mirror[12] = {-1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    loss_case_make(&c, 23, 0.5f);
    const ff_loss_parts before = total(NULL, 1);
    move_truth(mirror);
    const ff_loss_parts after = total(NULL, 1);
    CU_ASSERT(after.backbone_fape > before.backbone_fape + 0.2);
    CU_ASSERT(after.sidechain_fape > before.sidechain_fape + 0.2);
    CU_ASSERT_DOUBLE_EQUAL(before.distogram, after.distogram, 1e-9); /* distances are the same */
    CU_ASSERT_EQUAL(before.plddt, after.plddt);
}

static void test_gradients_are_added_and_follow_the_weight(void)
{
    int64_t size;
    loss_case_make(&c, 9, 2);
    const ff_loss_parts one = total(&c.grads, 1);
    float *copy = copy_gradients(&size);
    for (int64_t i = 0; i < size; i++)
        copy[i] *= 4;
    const ff_loss_parts three = total(&c.grads, 3); /* 1 + 3 */
    CU_ASSERT_DOUBLE_EQUAL(three.total, 3 * one.total, 1e-9);
    CU_ASSERT_EQUAL(three.structure_module, one.structure_module);
    CU_ASSERT(gradient_change(copy) < 1e-6);
    ff_test_free(copy);
}

static void test_the_total_is_the_weighted_sum(void)
{
    loss_case_make(&c, 9, 2);
    const ff_loss_parts p = total(NULL, 1);
    const double structure = 0.5 * p.backbone_fape + 0.5 * p.sidechain_fape + p.torsion.loss + p.violation.loss;
    CU_ASSERT_DOUBLE_EQUAL(p.structure_module, structure, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(
        p.total, structure + 2 * p.masked_msa + 0.3 * p.distogram + 0.01 * p.plddt + 0.01 * p.resolved + 0.1 * p.pae,
        1e-12);
    const ff_loss_weights w = ff_loss_stage_weights(FF_STAGE_INITIAL);
    CU_ASSERT(w.violation == 0 && w.resolved == 0 && w.pae == 0);
    ff_loss_parts initial;
    CU_ASSERT_EQUAL_FATAL(ff_loss_total(&ctx, &initial, NULL, &c.in, &w, 1), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(
        initial.total, structure - p.violation.loss + 2 * p.masked_msa + 0.3 * p.distogram + 0.01 * p.plddt, 1e-12);
    const float mask[5] = {1, 1, 0, 1, 1};
    CU_ASSERT_DOUBLE_EQUAL(ff_loss_sample_weight(mask, 5), 2, 1e-12);
}

/* The gradients that ff_loss_total added, against those of the losses one by one with their weights in the stage. */
static void test_gradients_of_the_total_are_those_of_its_parts(void)
{
    const double sample = 1.5;
    const ff_loss_weights w = ff_loss_stage_weights(FF_STAGE_PTM);
    int64_t size;
    double value;
    ff_torsion_result torsion;
    ff_violation_result violation;
    loss_case_make(&c, 9, 2);
    const int64_t n = c.num_res;
    total(&c.grads, sample);
    float *copy = copy_gradients(&size);
    loss_case_clear_gradients(&c);
    float *better = loss_array(&c, n), *pos = loss_array(&c, 42 * n), *exists = loss_array(&c, 14 * n);
    float *frames = loss_array(&c, 96 * n);
    CU_ASSERT_EQUAL(ff_loss_rename_truth(&ctx, better, pos, exists, frames, &c.in.renaming), FF_OK);
    const ff_sidechain_fape_inputs sidechain = {n, c.frames, c.atom14, frames, c.frame_mask, pos, exists};
    const ff_loss_grads *g = &c.grads;
    ff_loss_fape_backbone(&ctx, &value, NULL, g->traj, 0.5 * sample, &c.in.backbone);
    ff_loss_fape_sidechain(&ctx, &value, g->frames, g->atom14_pos, 0.5 * sample, &sidechain);
    ff_loss_torsion(&ctx, &torsion, g->angles, g->unnormalized_angles, sample, &c.in.torsion);
    ff_loss_violation(&ctx, &violation, NULL, g->atom14_pos, w.violation * sample, NULL, &c.in.violation);
    ff_loss_distogram(&ctx, &value, g->distogram_logits, w.distogram * sample, &c.in.distogram);
    ff_loss_masked_msa(&ctx, &value, g->masked_msa_logits, w.masked_msa * sample, &c.in.masked_msa);
    ff_loss_plddt(&ctx, &value, NULL, g->plddt_logits, w.plddt * sample, &c.in.plddt);
    ff_loss_resolved(&ctx, &value, g->resolved_logits, w.resolved * sample, &c.in.resolved);
    ff_loss_pae(&ctx, &value, g->pae_logits, w.pae * sample, &c.in.pae);
    CU_ASSERT_EQUAL(ctx.status, FF_OK);
    CU_ASSERT(gradient_change(copy) < 1e-6);
    ff_test_free(copy);
}

/* Parts of weight 0 leave their gradients alone: initial training has no violations, no resolved, no PAE. */
static void test_a_zero_weight_has_no_gradient(void)
{
    loss_case_make(&c, 9, 2);
    const ff_loss_weights w = ff_loss_stage_weights(FF_STAGE_INITIAL);
    ff_loss_parts p;
    CU_ASSERT_EQUAL_FATAL(ff_loss_total(&ctx, &p, &c.grads, &c.in, &w, 1), FF_OK);
    CU_ASSERT(p.violation.loss > 0 && p.resolved > 0 && p.pae > 0);
    for (int64_t i = 0; i < 37 * c.num_res; i++)
        CU_ASSERT_EQUAL(c.grads.resolved_logits[i], 0);
    for (int64_t i = 0; i < c.num_res * c.num_res * LOSS_BINS; i++)
        CU_ASSERT_EQUAL(c.grads.pae_logits[i], 0);
}

static void set_threads(int n)
{
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

static void test_threads_do_not_change_a_bit(void)
{
    int64_t size;
    loss_case_make(&c, 31, 2);
#ifdef _OPENMP
    const int before = omp_get_max_threads();
#else
    const int before = 1;
#endif
    set_threads(1);
    const ff_loss_parts one = total(&c.grads, 1);
    float *copy = copy_gradients(&size);
    loss_case_clear_gradients(&c);
    set_threads(3);
    const ff_loss_parts three = total(&c.grads, 1);
    set_threads(before);
    CU_ASSERT_EQUAL(memcmp(&one, &three, sizeof one), 0);
    CU_ASSERT_EQUAL(gradient_change(copy), 0);
    ff_test_free(copy);
}

/* ---- edge cases ---- */

static void clear(float *x, int64_t n) { memset(x, 0, (size_t)n * sizeof *x); }

static void test_empty_masks_give_zero(void)
{
    loss_case_make(&c, 7, 2);
    const int64_t n = c.num_res;
    clear(c.affine_mask, n);
    clear(c.frame_mask, 8 * n);
    clear(c.gt_exists, 14 * n);
    clear(c.alt_exists, 14 * n);
    clear(c.atom_exists, 14 * n);
    clear(c.chi_mask, 4 * n);
    clear(c.seq_mask, n);
    clear(c.beta_mask, n);
    clear(c.bert_mask, LOSS_SEQ * n);
    clear(c.all_atom_mask, 37 * n);
    clear(c.atom37_exists, 37 * n);
    const ff_loss_parts p = total(&c.grads, 1);
    CU_ASSERT_EQUAL(p.total, 0);
    CU_ASSERT_EQUAL(p.violation.fraction_any, 0);
    CU_ASSERT_EQUAL(p.lddt_ca, 0);
    for (int k = 0; k < LOSS_GRADS; k++)
        for (int64_t i = 0; i < c.grad_size[k]; i++)
            CU_ASSERT_EQUAL(c.grad[k][i], 0);
}

static void test_one_residue_has_finite_losses(void)
{
    loss_case_make(&c, 1, 2);
    const ff_loss_parts p = total(&c.grads, 1);
    CU_ASSERT(isfinite(p.total));
    CU_ASSERT(p.total > 0);
    CU_ASSERT_EQUAL(p.violation.bond_c_n, 0);
    CU_ASSERT_EQUAL(p.violation.clash, 0);
    for (int k = 0; k < LOSS_GRADS; k++)
        for (int64_t i = 0; i < c.grad_size[k]; i++)
            CU_ASSERT_FATAL(isfinite(c.grad[k][i]));
}

static void test_wrong_inputs_are_rejected(void)
{
    double value;
    ff_violation_result r;
    loss_case_make(&c, 3, 1);
    ff_fape_inputs fape = sidechain_fape(1);
    fape.num_points = 0;
    CU_ASSERT_EQUAL(ff_loss_fape(&ctx, &value, NULL, NULL, 1, &fape), FF_ERR_ARG);
    ff_context_clear(&ctx);
    c.aatype[1] = 21;
    CU_ASSERT_EQUAL(ff_loss_violation(&ctx, &r, NULL, NULL, 1, NULL, &c.in.violation), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "aatype[1] is 21, wanted 0..20");
}

/* A model that has blown up: the loss says so, and nothing crashes. */
static void test_nan_predictions_show_in_the_loss(void)
{
    loss_case_make(&c, 5, 1);
    for (int64_t k = 0; k < 42 * c.num_res; k++)
        c.atom14[k] = NAN;
    CU_ASSERT(!isfinite(total(&c.grads, 1).total));
}

static CU_TestInfo tests[] = {
    {"fape_equals_the_formula_and_its_differences", test_fape_equals_the_formula_and_its_differences},
    {"backbone_fape_equals_its_differences", test_backbone_fape_equals_its_differences},
    {"fape_of_one_pair_is_known", test_fape_of_one_pair_is_known},
    {"a_perfect_prediction_has_the_smallest_fape", test_a_perfect_prediction_has_the_smallest_fape},
    {"exchanged_symmetric_atoms_are_renamed", test_exchanged_symmetric_atoms_are_renamed},
    {"torsion_loss_equals_its_differences", test_torsion_loss_equals_its_differences},
    {"only_symmetric_chis_may_be_opposite", test_only_symmetric_chis_may_be_opposite},
    {"violation_loss_equals_its_differences", test_violation_loss_equals_its_differences},
    {"clashes_miss_no_pair", test_clashes_miss_no_pair},
    {"a_stretched_peptide_bond_is_known", test_a_stretched_peptide_bond_is_known},
    {"moving_the_truth_changes_no_loss_and_no_gradient", test_moving_the_truth_changes_no_loss_and_no_gradient},
    {"a_mirrored_truth_changes_fape_only", test_a_mirrored_truth_changes_fape_only},
    {"gradients_are_added_and_follow_the_weight", test_gradients_are_added_and_follow_the_weight},
    {"the_total_is_the_weighted_sum", test_the_total_is_the_weighted_sum},
    {"gradients_of_the_total_are_those_of_its_parts", test_gradients_of_the_total_are_those_of_its_parts},
    {"a_zero_weight_has_no_gradient", test_a_zero_weight_has_no_gradient},
    {"threads_do_not_change_a_bit", test_threads_do_not_change_a_bit},
    {"empty_masks_give_zero", test_empty_masks_give_zero},
    {"one_residue_has_finite_losses", test_one_residue_has_finite_losses},
    {"wrong_inputs_are_rejected", test_wrong_inputs_are_rejected},
    {"nan_predictions_show_in_the_loss", test_nan_predictions_show_in_the_loss},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_train_losses = {"train/losses", NULL, NULL, set_up, tear_down, tests};
