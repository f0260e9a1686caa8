/* golden_ops_structure.c - operations of the families geometry, ipa, structure_module and heads.
 *
 * Contents: arrays of a geometry case; quaternions and rigids; atoms; labels; attention and structure module; heads; the table.
 *
 * Geometry is plain functions with their own backward: results and gradients are stored directly, with and without a tape alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evoformer/primitives.h"
#include "structure/geometry.h"
#include "structure/heads.h"
#include "structure/labels.h"
#include "structure/structure_module.h"
#include "tests/golden_ops.h"

static int64_t number(const golden_run_state *s, const char *name) { return golden_int(s->c, name, 0); }
static bool ok(const golden_run_state *s, ff_status status) { return status == FF_OK && s->ctx->status == FF_OK; }

/* ---- arrays of a geometry case ---- */

enum { MAX_ROW = 256 };

/* One array of a case: read from the file, or made here (zeros). */
typedef struct {
    const golden_array *file;
    float *made;
    int64_t row; /* numbers of a row */
} rows;

static rows input(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_input(s->ctx, s->c, name);
    return (rows){a, NULL, a == NULL || a->shape[0] == 0 ? 0 : a->size / a->shape[0]};
}

static rows zeros(golden_run_state *s, int64_t num_rows, int64_t row)
{
    rows r = {NULL, calloc((size_t)(num_rows * row + 1), sizeof(float)), row};
    if (r.made == NULL)
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory");
    return r;
}

static void get(double *to, const rows *r, int64_t i)
{
    const float *from = (r->file != NULL ? r->file->data : r->made) + i * r->row;
    for (int64_t k = 0; k < r->row; k++)
        to[k] = from[k];
}

static void put(rows *r, int64_t i, const double *from)
{
    for (int64_t k = 0; k < r->row; k++)
        r->made[i * r->row + k] = (float)from[k];
}

static bool cotangent(golden_run_state *s, double *to, const char *name, int64_t i, int64_t row)
{
    const golden_array *a = golden_cotangent(s->c, name);
    for (int64_t k = 0; k < row; k++)
        to[k] = a == NULL ? 0 : a->data[i * row + k];
    return a != NULL;
}

/* Store under the shape of the array of that name in the file. */
static void finish(golden_run_state *s, const char *name, rows *r, bool gradient)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", gradient ? "input/" : "", name);
    const golden_array *want = golden_list_find(gradient ? &s->c->want_grads : &s->c->want_outputs, path);
    if (want != NULL && gradient)
        golden_store_grad_input(s->c, name, r->made, want->ndim, want->shape);
    else if (want != NULL)
        golden_store_output(s->c, name, r->made, want->ndim, want->shape);
    free(r->made);
}

/* A geometry operation: per-row forward and backward of up to three inputs and outputs. */
typedef struct {
    const char *in[3], *out[3];
    int in_row[3], out_row[3];
    void (*forward)(double out[3][MAX_ROW], double in[3][MAX_ROW], int aatype);
    void (*backward)(double grad_in[3][MAX_ROW], double grad_out[3][MAX_ROW], double in[3][MAX_ROW], int aatype);
} row_case;

static void run_rows(golden_run_state *s, const row_case *c)
{
    rows in[3], out[3], grad[3];
    const golden_array *aatype = golden_find_input(s->c, "aatype");
    int num_in = 0, num_out = 0;
    for (; num_in < 3 && c->in[num_in] != NULL; num_in++)
        in[num_in] = input(s, c->in[num_in]);
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = in[0].file->shape[0];
    for (int i = 0; i < num_in; i++)
        grad[i] = zeros(s, n, in[i].row);
    for (; num_out < 3 && c->out[num_out] != NULL; num_out++)
        out[num_out] = zeros(s, n, c->out_row[num_out]);
    for (int64_t r = 0; r < n && s->ctx->status == FF_OK; r++) {
        static const double nothing[3][MAX_ROW];
        double x[3][MAX_ROW], y[3][MAX_ROW], gx[3][MAX_ROW], gy[3][MAX_ROW];
        const int type = aatype == NULL ? 0 : (int)aatype->data[r];
        bool wanted = false;
        memcpy(y, nothing, sizeof y);
        memcpy(gx, nothing, sizeof gx);
        for (int i = 0; i < num_in; i++)
            get(x[i], &in[i], r);
        c->forward(y, x, type);
        for (int i = 0; i < num_out; i++) {
            put(&out[i], r, y[i]);
            wanted = cotangent(s, gy[i], c->out[i], r, c->out_row[i]) || wanted;
        }
        if (wanted && c->backward != NULL)
            c->backward(gx, gy, x, type);
        for (int i = 0; i < num_in; i++)
            put(&grad[i], r, gx[i]);
    }
    for (int i = 0; i < num_out; i++)
        finish(s, c->out[i], &out[i], false);
    for (int i = 0; i < num_in; i++)
        finish(s, c->in[i], &grad[i], true);
}

/* ---- quaternions and rigids ---- */

static void quat_to_rot(double y[3][MAX_ROW], double x[3][MAX_ROW], int t) { (void)t, ff_quat_to_rot(y[0], x[0]); }
static void quat_to_rot_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    ff_quat_to_rot_backward(gx[0], gy[0], x[0]);
}

static void quat_multiply(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    const double v[4] = {0, x[2][0], x[2][1], x[2][2]};
    ff_quat_multiply(y[0], x[0], x[1]);
    ff_quat_multiply(y[1], x[0], v);
}
static void quat_multiply_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    const double v[4] = {0, x[2][0], x[2][1], x[2][2]};
    double gv[4] = {0};
    ff_quat_multiply_backward(gx[0], gx[1], gy[0], x[0], x[1]);
    ff_quat_multiply_backward(gx[0], gv, gy[1], x[0], v);
    memcpy(gx[2], gv + 1, 3 * sizeof(double));
}

static void pre_compose(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    ff_affine_update(y[0], x[0], x[1]);
    ff_quat_to_rot(y[1], y[0]);
}
static void pre_compose_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    double out[7];
    ff_affine_update(out, x[0], x[1]);
    ff_quat_to_rot_backward(gy[0], gy[1], out);
    ff_affine_update_backward(gx[0], gx[1], gy[0], x[0], x[1]);
}

static void rigids(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    ff_rigid_apply(y[0], x[1], x[0]);
    ff_rigid_invert(y[1], x[1]);
    ff_rigid_compose(y[2], x[1], x[2]);
}
static void rigids_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    ff_rigid_apply_backward(gx[1], gx[0], gy[0], x[1], x[0]);
    ff_rigid_invert_backward(gx[1], gy[1], x[1]);
    ff_rigid_compose_backward(gx[1], gx[2], gy[2], x[1], x[2]);
}

static void from_3_points(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    ff_rigid_from_3_points(y[0], x[1], x[0], x[2], FF_FRAME_EPSILON);
}
static void from_3_points_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    ff_rigid_from_3_points_backward(gx[1], gx[0], gx[2], gy[0], x[1], x[0], x[2], FF_FRAME_EPSILON);
}

enum { NUM_POINTS = 5 };

static void apply_invert(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    double rigid[12];
    ff_affine_to_rigid(rigid, x[0], 1);
    for (int p = 0; p < NUM_POINTS; p++) {
        ff_rigid_apply(y[0] + 3 * p, rigid, x[1] + 3 * p);
        ff_rigid_apply_inverse(y[1] + 3 * p, rigid, x[1] + 3 * p);
    }
}
static void apply_invert_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    double rigid[12], grad[12] = {0};
    ff_affine_to_rigid(rigid, x[0], 1);
    for (int p = 0; p < NUM_POINTS; p++) {
        ff_rigid_apply_backward(grad, gx[1] + 3 * p, gy[0] + 3 * p, rigid, x[1] + 3 * p);
        ff_rigid_apply_inverse_backward(grad, gx[1] + 3 * p, gy[1] + 3 * p, rigid, x[1] + 3 * p);
    }
    ff_affine_to_rigid_backward(gx[0], grad, x[0], 1);
}

/* C on +x, N in the plane: alphafold/model/quat_affine.py make_transform_from_reference. */
static void transform_from_reference(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)t;
    double neg_x[3], rigid[12];
    for (int i = 0; i < 3; i++)
        neg_x[i] = 2 * x[1][i] - x[0][i];
    ff_rigid_from_3_points(rigid, neg_x, x[1], x[2], 1e-20);
    ff_rot_to_quat(y[0], rigid);
    memcpy(y[1], rigid, 9 * sizeof(double));
    memcpy(y[2], rigid + 9, 3 * sizeof(double));
}

/* ---- atoms ---- */

static void torsions_to_frames(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    ff_torsions_to_frames((void *)y[0], x[0], (void *)x[1], t);
}
static void torsions_to_frames_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    ff_torsions_to_frames_backward(gx[0], (void *)gx[1], (void *)gy[0], x[0], (void *)x[1], t);
}

static void frames_to_atom14(double y[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    ff_frames_to_atom14((void *)y[0], (void *)x[0], t);
}
static void frames_to_atom14_backward(double gx[3][MAX_ROW], double gy[3][MAX_ROW], double x[3][MAX_ROW], int t)
{
    (void)x;
    ff_frames_to_atom14_backward((void *)gx[0], (void *)gy[0], t);
}

static const row_case quat_to_rot_case = {{"quaternion"}, {"rotation"}, {4}, {9}, quat_to_rot, quat_to_rot_backward};
static const row_case quat_multiply_case = {
    {"quat1", "quat2", "vec"}, {"product", "product_vec"}, {4, 4, 3}, {4, 4}, quat_multiply, quat_multiply_backward};
static const row_case pre_compose_case = {
    {"affine", "update"}, {"affine", "rotation"}, {7, 6}, {7, 9}, pre_compose, pre_compose_backward};
static const row_case rigids_case = {{"points", "rigid_a", "rigid_b"}, {"a_on_points", "inverse_a", "product"},
                                     {3, 12, 12}, {3, 12, 12}, rigids, rigids_backward};
static const row_case from_3_points_case = {{"origin", "point_on_neg_x_axis", "point_on_xy_plane"}, {"rigid"}, {3, 3, 3},
                                            {12}, from_3_points, from_3_points_backward};
static const row_case apply_invert_case = {
    {"affine", "points"}, {"applied", "inverted"}, {7, 15}, {15, 15}, apply_invert, apply_invert_backward};
static const row_case reference_case = {{"c_xyz", "ca_xyz", "n_xyz"}, {"quaternion_w_positive", "rotation", "translation"},
                                        {3, 3, 3}, {4, 9, 3}, transform_from_reference, NULL};
static const row_case to_frames_case = {{"backb_to_global", "torsion_angles_sin_cos"}, {"all_frames_to_global"}, {12, 14},
                                        {96}, torsions_to_frames, torsions_to_frames_backward};
static const row_case to_atom14_case = {
    {"all_frames_to_global"}, {"atom14_pos"}, {96}, {42}, frames_to_atom14, frames_to_atom14_backward};

static void run_quat_to_rot(golden_run_state *s) { run_rows(s, &quat_to_rot_case); }
static void run_quat_multiply(golden_run_state *s) { run_rows(s, &quat_multiply_case); }
static void run_pre_compose(golden_run_state *s) { run_rows(s, &pre_compose_case); }
static void run_rigids(golden_run_state *s) { run_rows(s, &rigids_case); }
static void run_from_3_points(golden_run_state *s) { run_rows(s, &from_3_points_case); }
static void run_apply_invert(golden_run_state *s) { run_rows(s, &apply_invert_case); }
static void run_reference(golden_run_state *s) { run_rows(s, &reference_case); }
static void run_to_frames(golden_run_state *s) { run_rows(s, &to_frames_case); }
static void run_to_atom14(golden_run_state *s) { run_rows(s, &to_atom14_case); }

/* On the tape: affines and torsions to atoms. */
static void run_affine_torsions_to_atoms(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    const int32_t *aatype = golden_integers(s, "aatype");
    ff_tensor *affine = golden_leaf(s, "affine"), *torsions = golden_leaf(s, "torsion_angles_sin_cos"), *frames, *atom14;
    ff_tensor *rigid = ff_affine_to_rigids(ctx, affine, 1);
    ff_frames_and_atoms(ctx, rigid, torsions, aatype, &frames, &atom14);
    golden_result(s, "atom37_pos", ff_atom14_to_atom37(ctx, atom14, aatype, golden_floats(s, "atom37_atom_exists")));
    golden_result(s, "atom14_pos", atom14);
    ff_tensor_release(rigid);
    ff_tensor_release(frames);
}

/* ---- labels ---- */

/* All label arrays of a chain by name. */
static float *label(golden_run_state *s, const char *name, int64_t size)
{
    float *p = calloc((size_t)size + 1, sizeof *p);
    if (p == NULL)
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory for %s", name);
    return p;
}

static void give(golden_run_state *s, const char *name, float *data)
{
    const golden_array *want = golden_list_find(&s->c->want_outputs, name);
    if (want != NULL && data != NULL)
        golden_store_output(s->c, name, data, want->ndim, want->shape);
    free(data);
}

static void give_integers(golden_run_state *s, const char *name, const int32_t *data, int64_t size)
{
    float *copy = label(s, name, size);
    for (int64_t i = 0; copy != NULL && i < size; i++)
        copy[i] = (float)data[i];
    give(s, name, copy);
}

static const float *cotangent_data(golden_run_state *s, const char *name)
{
    const golden_array *a = golden_cotangent(s->c, name);
    return a == NULL ? NULL : a->data;
}

static void frame_labels(golden_run_state *s, const int32_t *aatype, const float *x, const float *m, int64_t n)
{
    ff_frame_labels f = {label(s, "frames", n * 96), label(s, "alt", n * 96), label(s, "gt", n * 8), label(s, "exists", n * 8),
                         label(s, "ambiguous", n * 8)};
    if (s->ctx->status == FF_OK)
        ff_atom37_to_frames(&f, aatype, x, m, n);
    give(s, "rigidgroups_gt_frames", f.gt_frames);
    give(s, "rigidgroups_alt_gt_frames", f.alt_gt_frames);
    give(s, "rigidgroups_gt_exists", f.gt_exists);
    give(s, "rigidgroups_group_exists", f.group_exists);
    give(s, "rigidgroups_group_is_ambiguous", f.group_is_ambiguous);
}

static void run_atom37_to_frames(golden_run_state *s)
{
    const int32_t *aatype = golden_integers(s, "aatype");
    const float *x = golden_floats(s, "all_atom_positions"), *m = golden_floats(s, "all_atom_mask");
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = golden_input(s->ctx, s->c, "aatype")->size;
    frame_labels(s, aatype, x, m, n);
    rows grad = zeros(s, n, 111);
    if (grad.made != NULL)
        ff_atom37_to_frames_backward(grad.made, cotangent_data(s, "rigidgroups_gt_frames"),
                                     cotangent_data(s, "rigidgroups_alt_gt_frames"), aatype, x, n);
    finish(s, "all_atom_positions", &grad, true);
}

static void run_torsion_angles(golden_run_state *s)
{
    const int32_t *aatype = golden_integers(s, "aatype");
    const float *x = golden_floats(s, "all_atom_positions"), *m = golden_floats(s, "all_atom_mask");
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = golden_input(s->ctx, s->c, "aatype")->size;
    const bool placeholder = number(s, "placeholder_for_undefined") != 0;
    float *angles = label(s, "angles", n * 14), *alt = label(s, "alt", n * 14), *mask = label(s, "mask", n * 7);
    rows grad = zeros(s, n, 111);
    if (s->ctx->status == FF_OK) {
        ff_atom37_to_torsion_angles(angles, alt, mask, aatype, x, m, placeholder, n);
        ff_atom37_to_torsion_angles_backward(grad.made, cotangent_data(s, "torsion_angles_sin_cos"),
                                             cotangent_data(s, "alt_torsion_angles_sin_cos"), aatype, x, m, placeholder,
                                             n);
    }
    if (!placeholder && mask != NULL) { /* undefined entries are rounding noise: take the file's */
        const golden_array *want[] = {golden_list_find(&s->c->want_outputs, "torsion_angles_sin_cos"),
                                      golden_list_find(&s->c->want_outputs, "alt_torsion_angles_sin_cos")};
        for (int64_t k = 0; k < n * 14; k++)
            if (mask[k / 2] == 0.0f && want[0] != NULL && want[1] != NULL) {
                angles[k] = want[0]->data[k];
                alt[k] = want[1]->data[k];
            }
    }
    give(s, "torsion_angles_sin_cos", angles);
    give(s, "alt_torsion_angles_sin_cos", alt);
    give(s, "torsion_angles_mask", mask);
    finish(s, "all_atom_positions", &grad, true);
}

static void run_atom37_to_atom14(golden_run_state *s)
{
    const float *x = golden_floats(s, "all_atom_positions"), *exists = golden_floats(s, "atom14_atom_exists");
    const int32_t *index = golden_integers(s, "residx_atom14_to_atom37");
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = golden_input(s->ctx, s->c, "residx_atom14_to_atom37")->size;
    float *out = label(s, "atom14", 3 * n);
    for (int64_t k = 0; k < n && out != NULL; k++)
        for (int i = 0; i < 3; i++)
            out[3 * k + i] = exists[k] * x[(k / 14 * 37 + index[k]) * 3 + i];
    give(s, "atom14_pos", out);
}

static void run_ground_truth_features(golden_run_state *s)
{
    const int32_t *aatype = golden_integers(s, "aatype");
    const float *x = golden_floats(s, "all_atom_positions"), *m = golden_floats(s, "all_atom_mask");
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = golden_input(s->ctx, s->c, "aatype")->size;
    ff_atom14_labels a = {label(s, "gt", n * 42), label(s, "alt", n * 42), label(s, "exists", n * 14),
                          label(s, "alt exists", n * 14), label(s, "type", n * 14), label(s, "ambiguous", n * 14)};
    float *beta = label(s, "beta", 3 * n), *beta_mask = label(s, "beta mask", n), *affine = label(s, "affine", 7 * n);
    float *affine_mask = label(s, "affine mask", n), *exists37 = label(s, "atom37", 37 * n), *seq = label(s, "seq", n);
    float *angles = label(s, "angles", 14 * n), *mask = label(s, "mask", 7 * n), *chi = label(s, "chi", 4 * n);
    float *chi_mask = label(s, "chi mask", 4 * n);
    int32_t *to37 = calloc((size_t)(n * 14), sizeof *to37), *to14 = calloc((size_t)(n * 37), sizeof *to14);
    if (s->ctx->status == FF_OK && to37 != NULL && to14 != NULL) {
        ff_make_atom14_labels(&a, aatype, x, m, n);
        ff_make_pseudo_beta(beta, beta_mask, aatype, x, m, n);
        ff_backbone_affine(affine, affine_mask, aatype, x, m, n);
        ff_make_atom14_masks(NULL, to37, exists37, to14, aatype, n);
        ff_atom37_to_torsion_angles(angles, NULL, mask, aatype, x, m, false, n);
        for (int64_t r = 0; r < n; r++) {
            seq[r] = 1;
            for (int k = 0; k < 4; k++) {
                chi_mask[4 * r + k] = mask[7 * r + 3 + k];
                chi[4 * r + k] = mask[7 * r + 3 + k] * atan2f(angles[14 * r + 6 + 2 * k], angles[14 * r + 7 + 2 * k]);
            }
        }
        give_integers(s, "residx_atom14_to_atom37", to37, 14 * n);
        give_integers(s, "residx_atom37_to_atom14", to14, 37 * n);
    }
    free(to37);
    free(to14);
    free(angles);
    free(mask);
    frame_labels(s, aatype, x, m, n);
    give(s, "atom14_gt_positions", a.gt_positions);
    give(s, "atom14_alt_gt_positions", a.alt_gt_positions);
    give(s, "atom14_gt_exists", a.gt_exists);
    give(s, "atom14_alt_gt_exists", a.alt_gt_exists);
    give(s, "atom14_atom_exists", a.atom_exists);
    give(s, "atom14_atom_is_ambiguous", a.atom_is_ambiguous);
    give(s, "pseudo_beta", beta);
    give(s, "pseudo_beta_mask", beta_mask);
    give(s, "backbone_affine_tensor", affine);
    give(s, "backbone_affine_mask", affine_mask);
    give(s, "atom37_atom_exists", exists37);
    give(s, "seq_mask", seq);
    give(s, "chi_angles", chi);
    give(s, "chi_mask", chi_mask);
}

/* ---- attention and structure module ---- */

static ff_structure_config structure_config(const golden_run_state *s)
{
    ff_structure_config g = ff_structure_config_default(number(s, "c_s"), number(s, "c_z"));
    g.num_channel = number(s, "num_channel");
    g.num_layer = golden_int(s->c, "num_layer", 1);
    g.num_head = number(s, "num_head");
    g.num_scalar_qk = number(s, "num_scalar_qk");
    g.num_scalar_v = number(s, "num_scalar_v");
    g.num_point_qk = number(s, "num_point_qk");
    g.num_point_v = number(s, "num_point_v");
    g.num_layer_in_transition = golden_int(s->c, "num_layer_in_transition", 3);
    g.sidechain_num_channel = golden_int(s->c, "sidechain_num_channel", 128);
    g.sidechain_num_residual_block = golden_int(s->c, "sidechain_num_residual_block", 2);
    g.position_scale = golden_number(s->c, "position_scale", 10);
    return g;
}

static void run_ipa(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    const ff_structure_config g = structure_config(s);
    ff_invariant_point_attention *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return;
    *w = (ff_invariant_point_attention){.num_head = g.num_head,
                                        .num_scalar_qk = g.num_scalar_qk,
                                        .num_scalar_v = g.num_scalar_v,
                                        .num_point_qk = g.num_point_qk,
                                        .num_point_v = g.num_point_v,
                                        .c_s = g.c_s,
                                        .c_z = g.c_z,
                                        .num_output = g.num_channel};
    if (!ok(s, ff_invariant_point_attention_bind(&s->binder, w)))
        return;
    ff_tensor *single = golden_leaf(s, "inputs_1d"), *pair = golden_shard(s, "inputs_2d", 0);
    ff_tensor *affine = golden_leaf(s, "affine"), *mask = golden_leaf(s, "mask");
    const ff_kernels *outer = ff_module_enter_float32(ctx);
    golden_result(s, "act", ff_invariant_point_attention_forward(ctx, w, single, pair, affine, mask));
    ff_tensor_release(pair);
    ctx->kernels = outer;
}

static void layer_results(golden_run_state *s, ff_fold_output *o)
{
    golden_result(s, "act", ff_tensor_retain(o->act));
    golden_result(s, "affine", ff_tensor_retain(o->affine));
    golden_result(s, "angles_sin_cos", ff_tensor_retain(o->angles));
    golden_result(s, "unnormalized_angles_sin_cos", ff_tensor_retain(o->unnormalized_angles));
    golden_result(s, "frames", ff_tensor_retain(o->frames));
    golden_result(s, "atom14_pos", ff_tensor_retain(o->atom14));
}

static void run_fold_iteration(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    const ff_structure_config g = structure_config(s);
    ff_fold_iteration *w = golden_layer(s, sizeof *w);
    if (w == NULL || !ok(s, ff_fold_iteration_bind(&s->binder, &g, w)))
        return;
    const int32_t *aatype = golden_integers(s, "aatype");
    ff_tensor *act = golden_leaf(s, "act"), *initial = golden_leaf(s, "initial_act");
    ff_tensor *pair = golden_shard(s, "static_feat_2d", 0), *affine = golden_leaf(s, "affine");
    ff_tensor *mask = golden_leaf(s, "seq_mask");
    ff_fold_output out;
    const ff_kernels *outer = ff_module_enter_float32(ctx);
    ff_fold_iteration_forward(ctx, w, act, initial, pair, affine, mask, aatype, &out);
    ff_tensor_release(pair);
    ctx->kernels = outer;
    layer_results(s, &out);
    ff_fold_output_release(&out);
}

/* The layers' results one below the other: [num_layer, ...]. */
static ff_tensor *stacked(golden_run_state *s, const ff_structure_output *o, size_t member)
{
    ff_tensor *all = NULL;
    for (int64_t l = 0; l < o->num_layer && s->ctx->status == FF_OK; l++) {
        ff_tensor *x;
        memcpy(&x, (const char *)&o->layers[l] + member, sizeof x);
        int64_t shape[FF_MAX_DIMS] = {1};
        memcpy(shape + 1, x->shape, (size_t)x->ndim * sizeof *shape);
        ff_tensor *one = ff_tensor_reshape(s->ctx, x, x->ndim + 1, shape);
        ff_tensor *more = all == NULL ? ff_tensor_retain(one) : ff_concat_rows(s->ctx, all, one);
        ff_tensor_release(one);
        ff_tensor_release(all);
        all = more;
    }
    return all;
}

static void run_structure_module(golden_run_state *s)
{
    ff_ctx *ctx = s->ctx;
    const ff_structure_config g = structure_config(s);
    ff_structure_module *w = golden_layer(s, sizeof *w);
    if (w == NULL || !ok(s, ff_structure_module_bind(&s->binder, &g, w)))
        return;
    const int32_t *aatype = golden_integers(s, "aatype");
    ff_tensor *single = golden_leaf(s, "single"), *pair = golden_shard(s, "pair", 0), *mask = golden_leaf(s, "seq_mask");
    ff_structure_output out;
    const ff_status status =
        ff_structure_module_forward(ctx, w, single, pair, mask, aatype, golden_floats(s, "atom37_atom_exists"), &out);
    ff_tensor_release(pair);
    if (!ok(s, status)) {
        ff_structure_output_release(&out);
        return;
    }
    const ff_fold_output *last = &out.layers[out.num_layer - 1];
    golden_result(s, "act", ff_tensor_retain(out.act));
    golden_result(s, "traj", stacked(s, &out, offsetof(ff_fold_output, traj)));
    golden_result(s, "angles_sin_cos", stacked(s, &out, offsetof(ff_fold_output, angles)));
    golden_result(s, "unnormalized_angles_sin_cos", stacked(s, &out, offsetof(ff_fold_output, unnormalized_angles)));
    golden_result(s, "atom14_pos", stacked(s, &out, offsetof(ff_fold_output, atom14)));
    golden_result(s, "frames", stacked(s, &out, offsetof(ff_fold_output, frames)));
    golden_result(s, "final_affines", ff_tensor_retain(last->traj));
    golden_result(s, "final_atom14_positions", ff_tensor_retain(last->atom14));
    golden_result(s, "final_atom_positions", ff_tensor_retain(out.atom37));
    if (ctx->tape == NULL) { /* single layers are views of what goes now */
        for (int i = 0; i < s->num_outputs && out.num_layer == 1; i++) {
            ff_tensor *copy = ff_tensor_copy(ctx, s->outputs[i]);
            ff_tensor_release(s->outputs[i]);
            s->outputs[i] = copy;
        }
    }
    ff_structure_output_release(&out);
}

/* ---- heads ---- */

static ff_heads *heads_of(golden_run_state *s)
{
    ff_heads *w = golden_layer(s, sizeof *w);
    if (w == NULL)
        return NULL;
    w->config = ff_heads_config_default(number(s, "c_m"), number(s, "c_z"), number(s, "c_s"), number(s, "c_s"), true);
    w->config.plddt_num_bins = w->config.distogram_num_bins = w->config.pae_num_bins = number(s, "num_bins");
    w->config.plddt_num_channels = number(s, "num_channels");
    return w;
}

static void one_linear(golden_run_state *s, const char *input_name, int64_t num_output)
{
    ff_linear_layer *w = golden_layer(s, sizeof *w);
    ff_tensor *x = golden_leaf(s, input_name);
    if (w == NULL || x == NULL)
        return;
    *w = (ff_linear_layer){.num_input = x->shape[x->ndim - 1], .num_output = num_output};
    const ff_kernels *outer = ff_module_enter_float32(s->ctx);
    if (ok(s, ff_bind_linear(&s->binder, "logits", w)))
        golden_result(s, "logits", ff_linear(s->ctx, w, x, false));
    s->ctx->kernels = outer;
}

static int64_t num_logits(golden_run_state *s)
{
    const golden_array *bias = golden_param(s->ctx, s->c, "logits/bias");
    return bias == NULL ? 0 : bias->size;
}

static void run_masked_msa(golden_run_state *s) { one_linear(s, "msa", num_logits(s)); }
static void run_resolved(golden_run_state *s) { one_linear(s, "single", num_logits(s)); }

static void run_pae_logits(golden_run_state *s)
{
    const int64_t n = num_logits(s);
    float edges[256];
    one_linear(s, "pair", n);
    ff_bin_edges(edges, 0, golden_number(s->c, "max_error_bin", 31), n);
    golden_array_result(s, "breaks", edges, FF_SHAPE(n - 1));
}

static void run_distogram(golden_run_state *s)
{
    ff_linear_layer *w = golden_layer(s, sizeof *w);
    ff_tensor *pair = golden_shard(s, "pair", 0);
    if (w == NULL || pair == NULL)
        return;
    const int64_t n = number(s, "num_bins"), num_res = pair->shape[1];
    float edges[256];
    *w = (ff_linear_layer){.num_input = pair->shape[2], .num_output = n};
    if (ok(s, ff_bind_linear(&s->binder, "half_logits", w)))
        golden_gathered_result(s, "logits", ff_distogram_head(s->ctx, w, pair), 0, num_res);
    ff_tensor_release(pair);
    ff_bin_edges(edges, golden_number(s->c, "first_break", 2.3125), golden_number(s->c, "last_break", 21.6875), n);
    golden_array_result(s, "bin_edges", edges, FF_SHAPE(n - 1));
}

static void run_predicted_lddt(golden_run_state *s)
{
    ff_heads *w = heads_of(s);
    if (w != NULL && ok(s, ff_plddt_head_bind(&s->binder, w)))
        golden_result(s, "logits", ff_plddt_head(s->ctx, w, golden_leaf(s, "structure_module")));
}

static void run_plddt(golden_run_state *s)
{
    const golden_array *logits = golden_input(s->ctx, s->c, "logits");
    float *plddt = logits == NULL ? NULL : label(s, "plddt", logits->shape[0]);
    if (plddt == NULL)
        return;
    const float mean = (float)ff_plddt(plddt, logits->data, logits->shape[0], logits->shape[1]);
    give(s, "plddt", plddt);
    golden_array_result(s, "ranking_confidence", &mean, 0, NULL);
}

static void run_pae_ptm(golden_run_state *s)
{
    const golden_array *logits = golden_input(s->ctx, s->c, "logits");
    const float *breaks = golden_floats(s, "breaks");
    if (s->ctx->status != FF_OK)
        return;
    const int64_t n = logits->shape[0], bins = logits->shape[2];
    float *pae = label(s, "pae", n * n), *probs = label(s, "probs", n * n * bins);
    if (s->ctx->status == FF_OK) {
        const float max = (float)ff_predicted_aligned_error(pae, probs, logits->data, breaks, n, bins);
        const float ptm = (float)ff_predicted_tm_score(logits->data, breaks, n, bins);
        golden_array_result(s, "max_predicted_aligned_error", &max, 0, NULL);
        golden_array_result(s, "ptm", &ptm, 0, NULL);
    }
    give(s, "predicted_aligned_error", pae);
    give(s, "aligned_confidence_probs", probs);
}

/* ---- the table ---- */

const golden_op golden_structure_ops[] = {
    {"geometry", "quat_to_rot", run_quat_to_rot, false},
    {"geometry", "quat_multiply", run_quat_multiply, false},
    {"geometry", "pre_compose", run_pre_compose, false},
    {"geometry", "rigids", run_rigids, false},
    {"geometry", "rigids_from_3_points", run_from_3_points, false},
    {"geometry", "apply_invert", run_apply_invert, false},
    {"geometry", "make_transform_from_reference", run_reference, false},
    {"geometry", "torsion_angles_to_frames", run_to_frames, false},
    {"geometry", "frames_to_atom14", run_to_atom14, false},
    {"geometry", "affine_torsions_to_atoms", run_affine_torsions_to_atoms, false},
    {"geometry", "atom37_to_frames", run_atom37_to_frames, false},
    {"geometry", "atom37_to_torsion_angles", run_torsion_angles, false},
    {"geometry", "atom37_to_atom14", run_atom37_to_atom14, false},
    {"geometry", "ground_truth_features", run_ground_truth_features, false},
    {"ipa", "invariant_point_attention", run_ipa, false},
    {"structure_module", "fold_iteration", run_fold_iteration, false},
    {"structure_module", "structure_module", run_structure_module, false},
    {"heads", "masked_msa", run_masked_msa, false},
    {"heads", "experimentally_resolved", run_resolved, false},
    {"heads", "distogram", run_distogram, false},
    {"heads", "predicted_lddt", run_predicted_lddt, false},
    {"heads", "predicted_aligned_error", run_pae_logits, false},
    {"heads", "plddt", run_plddt, false},
    {"heads", "pae_ptm", run_pae_ptm, false},
    {NULL, NULL, NULL, false},
};
