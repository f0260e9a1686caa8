/* test_structure_geometry.c - rotations, frames and torsions: finite differences of every backward, invariants, degenerate points; invariance
 * of invariant point attention. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "kernels/kernels.h"
#include "structure/geometry.h"
#include "structure/heads.h"
#include "structure/operations.h"
#include "structure/residue_constants.h"
#include "tensor/pool.h"
#include "tests/check.h"

enum { MOST = 128 };

static void draw(double *x, int n, uint64_t stream)
{
    const ff_random_key key = {11, stream};
    for (int i = 0; i < n; i++)
        x[i] = ff_random_normal(key, (uint64_t)i);
}

/* A function of x[n] to y[m] and its backward. */
typedef struct {
    int n, m, aatype;
    void (*forward)(double *y, double *x, int aatype);
    void (*backward)(double *gx, double *gy, double *x, int aatype);
} differentiable;

/* d(sum g y)/dx by central differences against the backward. */
static void check_gradient(const differentiable *f, uint64_t stream)
{
    double x[MOST], y[MOST], g[MOST], copy[MOST], grad[MOST] = {0};
    draw(x, f->n, stream);
    draw(g, f->m, stream + 1000);
    memcpy(copy, g, sizeof copy);
    f->backward(grad, copy, x, f->aatype);
    for (int i = 0; i < f->n; i++) {
        const double h = 1e-6, at = x[i];
        double difference = 0;
        for (int side = -1; side <= 1; side += 2) {
            x[i] = at + side * h;
            f->forward(y, x, f->aatype);
            for (int k = 0; k < f->m; k++)
                difference += side * g[k] * y[k] / (2 * h);
        }
        x[i] = at;
        CU_ASSERT(fabs(difference - grad[i]) < 1e-6 * (1 + fabs(grad[i]) + fabs(difference)) * 50);
    }
}

static void quat_forward(double *y, double *x, int t) { (void)t, ff_quat_to_rot(y, x); }
static void quat_backward(double *gx, double *gy, double *x, int t) { (void)t, ff_quat_to_rot_backward(gx, gy, x); }
static void product_forward(double *y, double *x, int t) { (void)t, ff_quat_multiply(y, x, x + 4); }
static void product_backward(double *gx, double *gy, double *x, int t)
{
    (void)t;
    ff_quat_multiply_backward(gx, gx + 4, gy, x, x + 4);
}
static void update_forward(double *y, double *x, int t) { (void)t, ff_affine_update(y, x, x + 7); }
static void update_backward(double *gx, double *gy, double *x, int t)
{
    (void)t;
    ff_affine_update_backward(gx, gx + 7, gy, x, x + 7);
}
static void compose_forward(double *y, double *x, int t) { (void)t, ff_rigid_compose(y, x, x + 12); }
static void compose_backward(double *gx, double *gy, double *x, int t)
{
    (void)t;
    ff_rigid_compose_backward(gx, gx + 12, gy, x, x + 12);
}
static void invert_forward(double *y, double *x, int t) { (void)t, ff_rigid_invert(y, x); }
static void invert_backward(double *gx, double *gy, double *x, int t) { (void)t, ff_rigid_invert_backward(gx, gy, x); }
static void inverse_forward(double *y, double *x, int t) { (void)t, ff_rigid_apply_inverse(y, x, x + 12); }
static void inverse_backward(double *gx, double *gy, double *x, int t)
{
    (void)t;
    ff_rigid_apply_inverse_backward(gx, gx + 12, gy, x, x + 12);
}
static void points_forward(double *y, double *x, int t) { (void)t, ff_rigid_from_3_points(y, x, x + 3, x + 6, 1e-8); }
static void points_backward(double *gx, double *gy, double *x, int t)
{
    (void)t;
    ff_rigid_from_3_points_backward(gx, gx + 3, gx + 6, gy, x, x + 3, x + 6, 1e-8);
}
static void dihedral_forward(double *y, double *x, int t) { (void)t, ff_dihedral(y, (void *)x); }
static void dihedral_backward(double *gx, double *gy, double *x, int t)
{
    (void)t;
    ff_dihedral_backward((void *)gx, gy, (void *)x);
}
static void frames_forward(double *y, double *x, int t) { ff_torsions_to_frames((void *)y, x, (void *)(x + 12), t); }
static void frames_backward(double *gx, double *gy, double *x, int t)
{
    ff_torsions_to_frames_backward(gx, (void *)(gx + 12), (void *)gy, x, (void *)(x + 12), t);
}
static void atoms_forward(double *y, double *x, int t) { ff_frames_to_atom14((void *)y, (void *)x, t); }
static void atoms_backward(double *gx, double *gy, double *x, int t)
{
    (void)x;
    ff_frames_to_atom14_backward((void *)gx, (void *)gy, t);
}

static void test_gradients_are_differences(void)
{
    const differentiable all[] = {{4, 9, 0, quat_forward, quat_backward},
                                  {8, 4, 0, product_forward, product_backward},
                                  {13, 7, 0, update_forward, update_backward},
                                  {24, 12, 0, compose_forward, compose_backward},
                                  {12, 12, 0, invert_forward, invert_backward},
                                  {15, 3, 0, inverse_forward, inverse_backward},
                                  {9, 12, 0, points_forward, points_backward},
                                  {12, 2, 0, dihedral_forward, dihedral_backward}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint64_t s = 0; s < 5; s++)
            check_gradient(&all[i], 10 * i + s);
    for (int type = 0; type <= FF_AATYPE_X; type++) { /* every residue's chain of torsions */
        const differentiable frames = {26, 96, type, frames_forward, frames_backward};
        const differentiable atoms = {96, 42, type, atoms_forward, atoms_backward};
        check_gradient(&frames, 500 + (uint64_t)type);
        check_gradient(&atoms, 600 + (uint64_t)type);
    }
}

static void random_rotation(double r[9], uint64_t stream)
{
    double q[4], norm = 0;
    draw(q, 4, stream);
    for (int i = 0; i < 4; i++)
        norm += q[i] * q[i];
    for (int i = 0; i < 4; i++)
        q[i] /= sqrt(norm);
    ff_quat_to_rot(r, q);
}

static void test_a_rotation_comes_back_from_its_quaternion(void)
{
    for (uint64_t s = 0; s < 200; s++) {
        double r[9], q[4], back[9];
        random_rotation(r, 2000 + s);
        if (s == 0) /* half a turn about z: w = 0 */
            memcpy(r, (double[9]){-1, 0, 0, 0, -1, 0, 0, 0, 1}, sizeof r);
        ff_rot_to_quat(q, r);
        CU_ASSERT(q[0] >= 0);
        ff_quat_to_rot(back, q);
        for (int i = 0; i < 9; i++)
            CU_ASSERT_DOUBLE_EQUAL(back[i], r[i], 1e-12);
    }
}

static void test_an_inverse_undoes(void)
{
    double a[12], inverse[12], product[12];
    random_rotation(a, 31);
    draw(a + 9, 3, 32);
    ff_rigid_invert(inverse, a);
    ff_rigid_compose(product, a, inverse);
    for (int i = 0; i < 12; i++)
        CU_ASSERT_DOUBLE_EQUAL(product[i], i < 9 && i % 4 == 0 ? 1 : 0, 1e-12);
}

static void test_points_in_one_place_give_zero_columns(void)
{
    const double p[3] = {1, 2, 3};
    double rigid[12];
    ff_rigid_from_3_points(rigid, p, p, p, FF_FRAME_EPSILON);
    for (int i = 0; i < 9; i++)
        CU_ASSERT_EQUAL(rigid[i], 0);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(rigid[9 + i], p[i]);
}

static void test_a_quarter_turn_has_sine_one(void)
{
    double p[4][3] = {{1, 0, 0}, {0, 0, 0}, {0, 0, 1}, {0, 1, 1}}, angle[2];
    ff_dihedral(angle, p);
    CU_ASSERT_DOUBLE_EQUAL(fabs(angle[0]), 1, 1e-7);
    CU_ASSERT_DOUBLE_EQUAL(angle[1], 0, 1e-7);
}

/* Moving all frames together changes nothing but where the points are, and those are seen from the frames. */
static void test_invariant_point_attention_is_invariant(void)
{
    enum { N = 7, H = 3, QK = 4, V = 5, PQ = 2, PV = 3, Z = 6, WIDTH = H * (V + 4 * PV + Z) };
    ff_ctx ctx;
    ff_context_init(&ctx);
    CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32), FF_OK);
    float q[N * H * QK], kv[N * H * (QK + V)], qp[N * 3 * H * PQ], kvp[N * 3 * H * (PQ + PV)], bias[N * N * H], pair[N * N * Z];
    float frames[2][N * 12], mask[N], gamma[H], out[2][N * WIDTH];
    float *const arrays[] = {q, kv, qp, kvp, bias, pair, gamma};
    const int sizes[] = {N * H * QK, N * H * (QK + V), N * 3 * H * PQ, N * 3 * H * (PQ + PV), N * N * H, N * N * Z, H};
    for (int a = 0; a < 7; a++)
        for (int i = 0; i < sizes[a]; i++)
            arrays[a][i] = ff_random_normal((ff_random_key){4, (uint64_t)a}, (uint64_t)i);
    double motion[12];
    random_rotation(motion, 77);
    draw(motion + 9, 3, 78);
    for (int i = 0; i < N; i++) {
        double frame[12], moved[12];
        random_rotation(frame, 100 + (uint64_t)i);
        draw(frame + 9, 3, 200 + (uint64_t)i);
        ff_rigid_compose(moved, motion, frame);
        for (int k = 0; k < 12; k++) {
            frames[0][12 * i + k] = (float)frame[k];
            frames[1][12 * i + k] = (float)moved[k];
        }
        mask[i] = i == 5 ? 0.0f : 1.0f;
    }
    const ff_ipa_args args = {N, N, H, QK, V, PQ, PV, Z, mask, mask};
    void *scratch = aligned_alloc(64, (ctx.kernels->invariant_point_attention_scratch_bytes(&args, false) + 63) / 64 * 64);
    for (int k = 0; k < 2; k++) {
        const ff_ipa_arrays x = {q, kv, qp, kvp, bias, pair, frames[k], frames[k], gamma};
        ctx.kernels->invariant_point_attention_forward(out[k], &x, &args, scratch);
    }
    free(scratch);
    FF_CHECK_CLOSE(out[1], out[0], N * WIDTH, 1e-4, 1e-5);
}

static void test_confidences_by_hand(void)
{
    const float certain[2][4] = {{-50, -50, -50, 50}, {50, -50, -50, -50}}; /* the last bin, the first bin */
    float plddt[2], edges[3], contacts[1];
    CU_ASSERT_DOUBLE_EQUAL(ff_plddt(plddt, certain[0], 2, 4), 50, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(plddt[0], 87.5, 1e-4);
    CU_ASSERT_DOUBLE_EQUAL(plddt[1], 12.5, 1e-4);
    ff_bin_edges(edges, 4, 12, 4);
    CU_ASSERT_DOUBLE_EQUAL(edges[1], 8, 1e-6);
    const float even[4] = {1, 1, 1, 1}; /* bins below 4, 4..8, 8..12, above: half of it up to 8 Å */
    ff_contact_probabilities(contacts, even, edges, 1, 4, 8);
    CU_ASSERT_DOUBLE_EQUAL(contacts[0], 0.5, 1e-6);
}

static CU_TestInfo tests[] = {
    {"gradients_are_differences", test_gradients_are_differences},
    {"a_rotation_comes_back_from_its_quaternion", test_a_rotation_comes_back_from_its_quaternion},
    {"an_inverse_undoes", test_an_inverse_undoes},
    {"points_in_one_place_give_zero_columns", test_points_in_one_place_give_zero_columns},
    {"a_quarter_turn_has_sine_one", test_a_quarter_turn_has_sine_one},
    {"invariant_point_attention_is_invariant", test_invariant_point_attention_is_invariant},
    {"confidences_by_hand", test_confidences_by_hand},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_structure_geometry = {"structure/geometry", NULL, NULL, NULL, NULL, tests};
