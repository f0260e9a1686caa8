/* test_train_metrics.c - scores of CA traces: values by hand, invariants, and the TM-score program where it is installed. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/random.h"
#include "structure/geometry.h"
#include "tensor/pool.h"
#include "tests/check.h"
#include "train/metrics.h"

enum { SIZE = 60 };

static ff_ctx ctx;
static float *predicted, *truth, *mask;

static float normal(uint64_t stream, int64_t i) { return ff_random_normal((ff_random_key){13, stream}, (uint64_t)i); }

/* A walk of steps of 3.8 Å that keeps its direction a little: something like a chain. */
static void make_chain(float *ca, int64_t n, uint64_t stream)
{
    double at[3] = {10, -20, 5}, direction[3] = {1, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        double norm = 0;
        for (int x = 0; x < 3; x++) {
            direction[x] = 0.6 * direction[x] + 0.7 * (double)normal(stream, 3 * i + x) - 0.01 * at[x];
            norm += direction[x] * direction[x];
        }
        for (int x = 0; x < 3; x++) {
            direction[x] /= sqrt(norm);
            at[x] += 3.8 * direction[x];
            ca[3 * i + x] = (float)at[x];
        }
    }
}

static void rotate(float *out, const float *in, int64_t n)
{
    const double affine[7] = {0.5, 0.5, -0.5, 0.5, 40, -3, 11}; /* a third of a turn */
    double rigid[12];
    ff_affine_to_rigid(rigid, affine, 1);
    for (int64_t i = 0; i < n; i++) {
        const double p[3] = {in[3 * i], in[3 * i + 1], in[3 * i + 2]};
        double q[3];
        ff_rigid_apply(q, rigid, p);
        for (int x = 0; x < 3; x++)
            out[3 * i + x] = (float)q[x];
    }
}

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(&ctx, 0, false), FF_OK);
    predicted = ff_test_floats(3 * SIZE);
    truth = ff_test_floats(3 * SIZE);
    mask = ff_test_floats(SIZE);
    make_chain(truth, SIZE, 1);
    for (int i = 0; i < SIZE; i++)
        mask[i] = 1;
}

static void tear_down(void)
{
    ff_test_free(predicted);
    ff_test_free(truth);
    ff_test_free(mask);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
    ff_pool_destroy(&ctx);
}

static ff_structure_metrics metrics(int64_t n)
{
    ff_structure_metrics m;
    CU_ASSERT_EQUAL(ff_structure_metrics_compute(&ctx, &m, predicted, truth, mask, n), FF_OK);
    return m;
}

static void test_a_moved_copy_is_perfect(void)
{
    rotate(predicted, truth, SIZE);
    const ff_structure_metrics m = metrics(SIZE);
    CU_ASSERT_EQUAL(m.num_resolved, SIZE);
    CU_ASSERT_EQUAL(m.lddt_ca, 1);
    CU_ASSERT(m.drmsd_ang < 1e-5);
    CU_ASSERT(m.rmsd_ang < 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(m.tm_score, 1, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(m.gdt_ts, 1, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(m.gdt_ha, 1, 1e-12);
}

static void test_a_mirror_image_keeps_distances_only(void)
{
    memcpy(predicted, truth, 3 * SIZE * sizeof *truth);
    for (int i = 0; i < SIZE; i++)
        predicted[3 * i] = -predicted[3 * i];
    const ff_structure_metrics m = metrics(SIZE);
    CU_ASSERT_EQUAL(m.lddt_ca, 1);
    CU_ASSERT(m.drmsd_ang < 1e-6);
    CU_ASSERT(m.rmsd_ang > 2);
    CU_ASSERT(m.tm_score < 0.8);
}

/* Four points on the corners of a square of side 10; one is moved by 3 along a side: distances to the others change by 3, and by
 * sqrt(149) - sqrt(200), sqrt(109) - 10. */
static void test_a_square_by_hand(void)
{
    const float square[12] = {0, 0, 0, 10, 0, 0, 10, 10, 0, 0, 10, 0};
    memcpy(truth, square, sizeof square);
    memcpy(predicted, square, sizeof square);
    predicted[0] = 3;
    const double e1 = 3, e2 = sqrt(200) - sqrt(149), e3 = sqrt(109) - 10;
    CU_ASSERT_DOUBLE_EQUAL(ff_drmsd(predicted, truth, mask, 4), sqrt((e1 * e1 + e2 * e2 + e3 * e3) / 6), 1e-6);
    /* within 15 Å all six pairs; 3 passes 4 only, 1.94 passes 2 and 4, 0.44 passes all; three are right */
    CU_ASSERT_DOUBLE_EQUAL(ff_lddt_ca(predicted, truth, mask, 4), (3 + 0.25 + 0.5 + 1) / 6, 1e-12);
    double lddt[4];
    ff_lddt_per_residue(lddt, predicted, truth, mask, 4, FF_LDDT_CUTOFF_ANG);
    CU_ASSERT_DOUBLE_EQUAL(lddt[0], (0.25 + 0.5 + 1) / 3, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(lddt[1], (0.25 + 1 + 1) / 3, 1e-9);
}

/* Pairs of points at +-a and +-(a + 1) on the x axis and at +-b on y: no rotation helps, RMSD = sqrt(2 / 4). */
static void test_rmsd_by_hand(void)
{
    const float cross[12] = {5, 0, 0, -5, 0, 0, 0, 3, 0, 0, -3, 0};
    double rmsd;
    memcpy(truth, cross, sizeof cross);
    memcpy(predicted, cross, sizeof cross);
    predicted[0] = 6;
    predicted[3] = -6;
    CU_ASSERT_EQUAL(ff_rmsd(&ctx, &rmsd, predicted, truth, mask, 4), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(rmsd, sqrt(0.5), 1e-9);
}

/* No rotation does better than the one found: small turns about three axes. */
static void test_the_superposition_is_the_best(void)
{
    double moving[3 * SIZE], fixed[3 * SIZE], weight[SIZE];
    for (int i = 0; i < 3 * SIZE; i++) {
        moving[i] = (double)truth[i] + 3 * (double)normal(2, i);
        fixed[i] = (double)truth[i];
    }
    for (int i = 0; i < SIZE; i++)
        weight[i] = i % 3;
    ff_superposition s;
    const double best = ff_superpose(&s, moving, fixed, weight, SIZE);
    const double *r = s.rotation;
    const double det =
        r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) + r[2] * (r[3] * r[7] - r[4] * r[6]);
    CU_ASSERT_DOUBLE_EQUAL(det, 1, 1e-9);
    for (int k = 0; k < 6; k++) {
        double q[4] = {1, 0, 0, 0}, turn[9], sum = 0, total = 0;
        q[1 + k % 3] = k < 3 ? 0.01 : -0.01;
        ff_quat_to_rot(turn, q);
        for (int i = 0; i < SIZE; i++) {
            double p[3], d2 = 0;
            for (int x = 0; x < 3; x++)
                p[x] = r[3 * x] * moving[3 * i] + r[3 * x + 1] * moving[3 * i + 1] +
                       r[3 * x + 2] * moving[3 * i + 2] + s.translation[x];
            for (int x = 0; x < 3; x++) /* q is longer than 1 by 5e-5 */
                d2 += pow((turn[3 * x] * p[0] + turn[3 * x + 1] * p[1] + turn[3 * x + 2] * p[2]) / 1.0001 -
                              fixed[3 * i + x],
                          2);
            sum += weight[i] * d2;
            total += weight[i];
        }
        CU_ASSERT(sqrt(sum / total) > best);
    }
}

static void test_unresolved_residues_count_nowhere(void)
{
    rotate(predicted, truth, SIZE);
    for (int i = 0; i < SIZE; i += 4) {
        mask[i] = 0;
        predicted[3 * i] = i % 8 == 0 ? NAN : 1e6f;
    }
    const ff_structure_metrics m = metrics(SIZE);
    CU_ASSERT_EQUAL(m.num_resolved, SIZE - SIZE / 4);
    CU_ASSERT_EQUAL(m.lddt_ca, 1);
    CU_ASSERT(m.rmsd_ang < 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(m.tm_score, 1, 1e-9);
}

static void test_few_residues_are_fine(void)
{
    rotate(predicted, truth, SIZE);
    ff_structure_metrics m = metrics(0);
    CU_ASSERT(m.tm_score == 0 && m.rmsd_ang == 0 && m.lddt_ca == 0 && m.drmsd_ang == 0);
    for (int n = 1; n <= 5; n++) {
        m = metrics(n);
        CU_ASSERT(m.rmsd_ang < 1e-5);
        CU_ASSERT_DOUBLE_EQUAL(m.tm_score, 1, 1e-6);
        CU_ASSERT_EQUAL(m.lddt_ca, n > 1);
    }
    double lddt;
    ff_lddt_per_residue(&lddt, predicted, truth, mask, 1, FF_LDDT_CUTOFF_ANG);
    CU_ASSERT_DOUBLE_EQUAL(lddt, 1, 1e-12);
}

static void test_nan_has_the_worst_scores(void)
{
    rotate(predicted, truth, SIZE);
    predicted[30] = NAN;
    const ff_structure_metrics m = metrics(SIZE);
    CU_ASSERT_EQUAL(m.tm_score, 0);
    CU_ASSERT_EQUAL(m.gdt_ts, 0);
    CU_ASSERT(isinf(m.rmsd_ang));
    CU_ASSERT(isinf(m.drmsd_ang));
    CU_ASSERT(m.lddt_ca < 1);
}

/* Half of a straight chain is moved far away: GDT is 1/2, TM a little more than 1/2. */
static void test_half_a_chain_by_hand(void)
{
    memcpy(predicted, truth, 3 * SIZE * sizeof *truth);
    for (int i = 3 * SIZE / 2; i < 3 * SIZE; i += 3)
        predicted[i] += 1000;
    const ff_structure_metrics m = metrics(SIZE);
    CU_ASSERT_DOUBLE_EQUAL(m.gdt_ts, 0.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(m.gdt_ha, 0.5, 1e-12);
    CU_ASSERT(m.tm_score >= 0.5 && m.tm_score < 0.501);
    CU_ASSERT_DOUBLE_EQUAL(ff_tm_d0(SIZE), 1.24 * cbrt(45) - 1.8, 1e-12);
    CU_ASSERT_EQUAL(ff_tm_d0(21), 0.5);
    CU_ASSERT_EQUAL(ff_tm_d0(1), 0.5);
}

/* ---- against the program TMscore ---- */

static void write_ca(const char *path, const float *ca, int n)
{
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    for (int i = 0; i < n; i++)
        fprintf(file, "ATOM  %5d  CA  ALA A%4d    %8.3f%8.3f%8.3f  1.00  0.00           C\n", i + 1, i + 1, ca[3 * i],
                ca[3 * i + 1], ca[3 * i + 2]);
    fprintf(file, "TER\nEND\n");
    fclose(file);
}

/* The number behind `label`, or -1. */
static double number_behind(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    return at == NULL ? -1 : atof(at + strlen(label));
}

static bool run_tmscore(char *text, size_t bytes, const char *folder, int n)
{
    char path[2][96], command[256];
    snprintf(path[0], sizeof path[0], "%s/model.pdb", folder);
    snprintf(path[1], sizeof path[1], "%s/native.pdb", folder);
    write_ca(path[0], predicted, n);
    write_ca(path[1], truth, n);
    snprintf(command, sizeof command, "TMscore %s %s 2>&1", path[0], path[1]);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL)
        return false;
    const size_t length = fread(text, 1, bytes - 1, pipe);
    text[length] = '\0';
    return pclose(pipe) == 0;
}

static void test_scores_equal_those_of_the_tmscore_program(void)
{
    char folder[] = "/tmp/ff_tm_XXXXXX", command[64];
    static const float noises[] = {0.5f, 2, 4, 8, 0.5f};
    if (system("command -v TMscore >/dev/null 2>&1") != 0) {
        ff_test_skip("TMscore is not installed (Debian: tm-align)");
        return;
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    for (int k = 0; k < 5; k++) {
        char text[8192];
        rotate(predicted, truth, SIZE);
        if (k == 4) /* only the last third is alike: found from short fragments, not from the whole chain */
            make_chain(predicted, 40, 9);
        for (int i = 0; i < 3 * SIZE; i++) /* one half much better than the other */
            predicted[i] += noises[k] * (i < 3 * SIZE / 2 ? 0.3f : 1) * normal(3 + (uint64_t)k, i);
        CU_ASSERT_FATAL(run_tmscore(text, sizeof text, folder, SIZE));
        const ff_structure_metrics m = metrics(SIZE);
        CU_ASSERT_DOUBLE_EQUAL(m.tm_score, number_behind(text, "TM-score    ="), 5e-3);
        CU_ASSERT_DOUBLE_EQUAL(m.gdt_ts, number_behind(text, "GDT-TS-score="), 0.01);
        CU_ASSERT_DOUBLE_EQUAL(m.gdt_ha, number_behind(text, "GDT-HA-score="), 0.01);
        CU_ASSERT_DOUBLE_EQUAL(m.rmsd_ang, number_behind(text, "common residues="), 2e-3);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static CU_TestInfo tests[] = {
    {"a_moved_copy_is_perfect", test_a_moved_copy_is_perfect},
    {"a_mirror_image_keeps_distances_only", test_a_mirror_image_keeps_distances_only},
    {"a_square_by_hand", test_a_square_by_hand},
    {"rmsd_by_hand", test_rmsd_by_hand},
    {"the_superposition_is_the_best", test_the_superposition_is_the_best},
    {"unresolved_residues_count_nowhere", test_unresolved_residues_count_nowhere},
    {"few_residues_are_fine", test_few_residues_are_fine},
    {"nan_has_the_worst_scores", test_nan_has_the_worst_scores},
    {"half_a_chain_by_hand", test_half_a_chain_by_hand},
    {"scores_equal_those_of_the_tmscore_program", test_scores_equal_those_of_the_tmscore_program},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_train_metrics = {"train/metrics", NULL, NULL, set_up, tear_down, tests};
