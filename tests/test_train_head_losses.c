/* test_train_head_losses.c - cross entropies of the heads: the formula in double, values by hand, targets, masks. */
#include "kernels/kernels.h"
#include "tests/loss_case.h"
#include "train/loss_common.h"

static ff_ctx ctx;
static loss_case c;

static void set_up(void)
{
    loss_context(&ctx);
    loss_case_make(&c, 11, 2);
}

static void tear_down(void)
{
    loss_case_free(&c);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
    ff_pool_destroy(&ctx);
}

/* ---- softmax cross entropy, one row at a time, in double ---- */

/* Adds factor * -log softmax(logits)[target], and its gradient. */
static double plain_row(double *grad, const float *logits, int n, int target, double factor)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += exp((double)logits[k]);
    for (int k = 0; k < n; k++)
        grad[k] += factor * (exp((double)logits[k]) / sum - (k == target));
    return factor * (log(sum) - (double)logits[target]);
}

static void check_gradient(const float *got, const double *want, int64_t n)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(want[i]));
        worst = fmax(worst, fabs((double)got[i] - want[i]));
    }
    CU_ASSERT(largest > 0);
    CU_ASSERT(worst <= 2e-6 * largest); /* some roundings of float32 */
}

static void test_distogram_equals_the_formula(void)
{
    const int64_t n = c.num_res, size = n * n * LOSS_BINS;
    double *grad = calloc((size_t)size, sizeof *grad), want = 0, mask = 0, value;
    c.beta_mask[3] = 0;
    for (int64_t i = 0; i < n; i++)
        mask += (double)c.beta_mask[i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double d2 = 0;
            int bin = 0;
            for (int x = 0; x < 3; x++)
                d2 += pow((double)c.beta[3 * i + x] - (double)c.beta[3 * j + x], 2);
            while (bin < LOSS_BINS - 1 && sqrt(d2) > (double)c.bin_edges[bin])
                bin++;
            want += plain_row(grad + (i * n + j) * LOSS_BINS, c.distogram + (i * n + j) * LOSS_BINS, LOSS_BINS, bin,
                              (double)(c.beta_mask[i] * c.beta_mask[j]) / (1e-6 + mask * mask));
        }
    CU_ASSERT_EQUAL_FATAL(ff_loss_distogram(&ctx, &value, c.grads.distogram_logits, 1, &c.in.distogram), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, want, 1e-6 * want);
    check_gradient(c.grads.distogram_logits, grad, size);
    free(grad);
}

static void test_distances_fall_into_their_bins(void)
{
    /* from residue 0: 0, 2.3125 (on the edge: not exceeded), 2.4, 4, 30 */
    const float beta[15] = {0, 0, 0, 2.3125f, 0, 0, 0, 2.4f, 0, 0, 0, -4, 30, 0, 0}, mask[5] = {1, 1, 1, 1, 1};
    const float edges[3] = {2.3125f, 3, 20};
    const int32_t want[5] = {0, 0, 1, 2, 3};
    int32_t bins[25];
    float distances[25];
    const ff_distogram_inputs in = {5, 4, NULL, edges, beta, mask, {0, 0}};
    ff_loss_distogram_targets(bins, distances, &in);
    for (int j = 0; j < 5; j++)
        CU_ASSERT_EQUAL(bins[j], want[j]);
    CU_ASSERT_DOUBLE_EQUAL(distances[4], 30, 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(distances[0], 1e-3, 1e-8);
}

/* Logits that are all the same, however large: log of the number of classes. */
static void test_uniform_logits_give_the_log_of_the_classes(void)
{
    const int64_t n = c.num_res;
    double value;
    for (int64_t i = 0; i < n * n * LOSS_BINS; i++)
        c.distogram[i] = c.pae[i] = 1000;
    for (int64_t i = 0; i < LOSS_SEQ * n * LOSS_CLASS; i++)
        c.msa[i] = -1000;
    for (int64_t i = 0; i < n * LOSS_BINS; i++)
        c.plddt[i] = 3;
    for (int64_t i = 0; i < 37 * n; i++)
        c.resolved[i] = 0;
    CU_ASSERT_EQUAL(ff_loss_distogram(&ctx, &value, NULL, 1, &c.in.distogram), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, log(LOSS_BINS), 1e-6);
    CU_ASSERT_EQUAL(ff_loss_pae(&ctx, &value, NULL, 1, &c.in.pae), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, log(LOSS_BINS), 1e-6);
    CU_ASSERT_EQUAL(ff_loss_masked_msa(&ctx, &value, NULL, 1, &c.in.masked_msa), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, log(LOSS_CLASS), 1e-6);
    CU_ASSERT_EQUAL(ff_loss_plddt(&ctx, &value, NULL, NULL, 1, &c.in.plddt), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, log(LOSS_BINS), 1e-6);
    CU_ASSERT_EQUAL(ff_loss_resolved(&ctx, &value, NULL, 1, &c.in.resolved), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, log(2), 1e-9);
}

static void test_masked_msa_equals_the_formula(void)
{
    const int64_t rows = LOSS_SEQ * c.num_res;
    double *grad = calloc((size_t)(rows * LOSS_CLASS), sizeof *grad), want = 0, mask = 1e-8, value;
    for (int64_t i = 0; i < rows; i++)
        mask += (double)c.bert_mask[i];
    for (int64_t i = 0; i < rows; i++)
        want += plain_row(grad + i * LOSS_CLASS, c.msa + i * LOSS_CLASS, LOSS_CLASS, c.true_msa[i],
                          (double)c.bert_mask[i] / mask);
    CU_ASSERT_EQUAL_FATAL(ff_loss_masked_msa(&ctx, &value, c.grads.masked_msa_logits, 1, &c.in.masked_msa), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, want, 1e-6 * want);
    check_gradient(c.grads.masked_msa_logits, grad, rows * LOSS_CLASS);
    free(grad);
}

static void test_a_class_that_does_not_exist_is_rejected_where_it_counts(void)
{
    double value;
    c.true_msa[1] = LOSS_CLASS; /* bert_mask is 0 there */
    CU_ASSERT_EQUAL(ff_loss_masked_msa(&ctx, &value, NULL, 1, &c.in.masked_msa), FF_OK);
    c.true_msa[3] = LOSS_CLASS;
    CU_ASSERT_EQUAL(ff_loss_masked_msa(&ctx, &value, NULL, 1, &c.in.masked_msa), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "true_msa[0, 3] is 23, wanted 0..22");
}

static void test_plddt_equals_the_formula(void)
{
    const int64_t n = c.num_res;
    double *grad = calloc((size_t)(n * LOSS_BINS), sizeof *grad), want = 0, mask = 1e-8, value;
    double *lddt = calloc((size_t)n, sizeof *lddt);
    c.all_atom_mask[37 * 4 + 1] = 0; /* no CA */
    for (int64_t i = 0; i < n; i++)
        mask += (double)c.all_atom_mask[37 * i + 1];
    CU_ASSERT_EQUAL_FATAL(ff_loss_plddt(&ctx, &value, lddt, c.grads.plddt_logits, 1, &c.in.plddt), FF_OK);
    for (int64_t i = 0; i < n; i++) {
        const int bin = lddt[i] >= 1 ? LOSS_BINS - 1 : (int)(lddt[i] * LOSS_BINS);
        want += plain_row(grad + i * LOSS_BINS, c.plddt + i * LOSS_BINS, LOSS_BINS, bin,
                          (double)c.all_atom_mask[37 * i + 1] / mask);
    }
    CU_ASSERT_DOUBLE_EQUAL(value, want, 1e-6 * want);
    check_gradient(c.grads.plddt_logits, grad, n * LOSS_BINS);
    free(lddt);
    free(grad);
}

static void test_lddt_has_half_open_bins(void)
{
    CU_ASSERT_EQUAL(ff_loss_plddt_bin(0, 50), 0);
    CU_ASSERT_EQUAL(ff_loss_plddt_bin(0.0199, 50), 0);
    CU_ASSERT_EQUAL(ff_loss_plddt_bin(0.0201, 50), 1);
    CU_ASSERT_EQUAL(ff_loss_plddt_bin(0.9 + 1e-12, 50), 45);
    CU_ASSERT_EQUAL(ff_loss_plddt_bin(0.999, 50), 49);
    CU_ASSERT_EQUAL(ff_loss_plddt_bin(1, 50), 49);
}

static void test_resolved_equals_the_formula_even_for_large_logits(void)
{
    const int64_t n = 37 * c.num_res;
    double *grad = calloc((size_t)n, sizeof *grad), want = 0, mask = 1e-8, value;
    for (int64_t a = 0; a < n; a++)
        mask += (double)c.atom37_exists[a];
    for (int64_t a = 0; a < n; a++) {
        const double x = (double)c.resolved[a], p = 1 / (1 + exp(-x)), y = (double)c.all_atom_mask[a];
        const double factor = (double)c.atom37_exists[a] / mask;
        want -= factor * (y * log(p) + (1 - y) * log(1 - p));
        grad[a] = factor * (p - y);
    }
    CU_ASSERT_EQUAL_FATAL(ff_loss_resolved(&ctx, &value, c.grads.resolved_logits, 1, &c.in.resolved), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, want, 1e-9);
    check_gradient(c.grads.resolved_logits, grad, n);
    free(grad);
    for (int64_t a = 0; a < n; a++) { /* right by 500: nothing; wrong by 500: 500 */
        c.resolved[a] = c.all_atom_mask[a] != 0 ? 500 : -500;
        c.grads.resolved_logits[a] = 0;
    }
    CU_ASSERT_EQUAL_FATAL(ff_loss_resolved(&ctx, &value, c.grads.resolved_logits, 1, &c.in.resolved), FF_OK);
    CU_ASSERT(value < 1e-200);
    for (int64_t a = 0; a < n; a++)
        c.resolved[a] = -c.resolved[a];
    CU_ASSERT_EQUAL_FATAL(ff_loss_resolved(&ctx, &value, NULL, 1, &c.in.resolved), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, 500, 1e-5);
}

static void test_pae_equals_the_formula(void)
{
    const int64_t n = c.num_res, size = n * n * LOSS_BINS;
    double *grad = calloc((size_t)size, sizeof *grad), want = 0, mask = 0, value;
    c.affine_mask[2] = 0;
    for (int64_t i = 0; i < n; i++)
        mask += (double)c.affine_mask[i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double local[2][3], error = 0;
            const float *affines[2] = {c.traj[LOSS_LAYERS - 1], c.affine};
            for (int k = 0; k < 2; k++) {
                double affine[7], rigid[12], point[3];
                for (int x = 0; x < 7; x++)
                    affine[x] = (double)affines[k][7 * i + x];
                for (int x = 0; x < 3; x++)
                    point[x] = (double)affines[k][7 * j + 4 + x];
                ff_affine_to_rigid(rigid, affine, 1);
                ff_rigid_apply_inverse(local[k], rigid, point);
            }
            for (int x = 0; x < 3; x++)
                error += pow(local[0][x] - local[1][x], 2);
            int bin = 0;
            while (bin < LOSS_BINS - 1 && sqrt(error) > (double)c.breaks[bin])
                bin++;
            want += plain_row(grad + (i * n + j) * LOSS_BINS, c.pae + (i * n + j) * LOSS_BINS, LOSS_BINS, bin,
                              (double)(c.affine_mask[i] * c.affine_mask[j]) / (1e-8 + mask * mask));
        }
    CU_ASSERT_EQUAL_FATAL(ff_loss_pae(&ctx, &value, c.grads.pae_logits, 1, &c.in.pae), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(value, want, 1e-6 * want);
    check_gradient(c.grads.pae_logits, grad, size);
    free(grad);
}

static void test_resolution_decides_about_three_losses(void)
{
    CU_ASSERT(!ff_loss_resolution_counts(0)); /* unknown */
    CU_ASSERT(!ff_loss_resolution_counts(NAN));
    CU_ASSERT(ff_loss_resolution_counts(0.1));
    CU_ASSERT(ff_loss_resolution_counts(3.0));
    CU_ASSERT(!ff_loss_resolution_counts(3.01));
    double plddt, resolved, pae;
    c.in.plddt.resolution = c.in.resolved.resolution = c.in.pae.resolution = 3.5;
    CU_ASSERT_EQUAL(ff_loss_plddt(&ctx, &plddt, NULL, c.grads.plddt_logits, 1, &c.in.plddt), FF_OK);
    CU_ASSERT_EQUAL(ff_loss_resolved(&ctx, &resolved, c.grads.resolved_logits, 1, &c.in.resolved), FF_OK);
    CU_ASSERT_EQUAL(ff_loss_pae(&ctx, &pae, c.grads.pae_logits, 1, &c.in.pae), FF_OK);
    CU_ASSERT(plddt == 0 && resolved == 0 && pae == 0);
    for (int64_t i = 0; i < c.num_res * LOSS_BINS; i++)
        CU_ASSERT_EQUAL(c.grads.plddt_logits[i], 0);
    for (int64_t i = 0; i < 37 * c.num_res; i++)
        CU_ASSERT_EQUAL(c.grads.resolved_logits[i], 0);
}

/* ---- rows on every instruction set ---- */

/* Logits of a spread from 0.1 to 120, lengths that fill no vector; 3e-6: n float sums and an exp to 2e-7. */
static void check_rows(const ff_ctx *with)
{
    enum { MOST = 70 };
    const ff_row_cross_entropy_fn row = ff_row_cross_entropy_of(with);
    for (int n = 1; n <= MOST; n += n < 20 ? 1 : 5)
        for (int trial = 0; trial < 4; trial++) {
            static const float spreads[] = {0.1f, 2, 20, 120};
            float logits[MOST], grad[MOST];
            double want[MOST] = {0};
            const int target = (7 * n + trial) % n;
            for (int k = 0; k < n; k++) {
                logits[k] = spreads[trial] * loss_normal(70 + (uint64_t)n, k);
                grad[k] = 1;
                want[k] = 1;
            }
            const double value = row(logits, n, target, grad, 0.5), right = 2 * plain_row(want, logits, n, target, 0.5);
            CU_ASSERT_DOUBLE_EQUAL(value, right, 3e-6 * (1 + fabs(right)));
            for (int k = 0; k < n; k++)
                CU_ASSERT_DOUBLE_EQUAL(grad[k], want[k], 3e-6);
            CU_ASSERT_EQUAL(row(logits, n, target, NULL, 1), value);
        }
    const float lost[3] = {1, NAN, 2};
    CU_ASSERT(isnan(row(lost, 3, 0, NULL, 1)));
}

static void test_rows_equal_the_formula_on_every_instruction_set(void)
{
    static const char *const names[] = {"plain", "avx2", "avx512"};
    ff_loss_target last = FF_LOSS_PLAIN;
    int checked = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ff_ctx other;
        ff_context_init(&other);
        other.log.file = NULL;
        if (ff_kernels_get(&other, &other.kernels, FF_BACKEND_CPU, ff_isa_from_name(names[i]), FF_DTYPE_F32) != FF_OK)
            continue;
        last = ff_loss_target_of(&other);
        CU_ASSERT(!FF_HAVE_TARGETS || (size_t)last == i);
        check_rows(&other);
        checked++;
    }
    CU_ASSERT(checked > 0);
    ff_ctx none;
    ff_context_init(&none);
    CU_ASSERT_EQUAL(ff_loss_target_of(&none), last); /* without kernels: the best */
}

static void test_halving_counts_like_counting(void)
{
    for (int n = 0; n < 20; n++)
        for (int k = -1; k <= 2 * n + 1; k++) {
            float edges[20];
            int want = 0;
            const double d2 = k < 0 ? NAN : 0.25 * (double)k * (double)k; /* on an edge and between two */
            for (int e = 0; e < n; e++) {
                edges[e] = (float)e;
                want += d2 > (double)e * (double)e;
            }
            CU_ASSERT_EQUAL(ff_count_exceeded(d2, edges, n), want);
        }
}

static CU_TestInfo tests[] = {
    {"rows_equal_the_formula_on_every_instruction_set", test_rows_equal_the_formula_on_every_instruction_set},
    {"halving_counts_like_counting", test_halving_counts_like_counting},
    {"distogram_equals_the_formula", test_distogram_equals_the_formula},
    {"distances_fall_into_their_bins", test_distances_fall_into_their_bins},
    {"uniform_logits_give_the_log_of_the_classes", test_uniform_logits_give_the_log_of_the_classes},
    {"masked_msa_equals_the_formula", test_masked_msa_equals_the_formula},
    {"a_class_that_does_not_exist_is_rejected_where_it_counts",
     test_a_class_that_does_not_exist_is_rejected_where_it_counts},
    {"plddt_equals_the_formula", test_plddt_equals_the_formula},
    {"lddt_has_half_open_bins", test_lddt_has_half_open_bins},
    {"resolved_equals_the_formula_even_for_large_logits", test_resolved_equals_the_formula_even_for_large_logits},
    {"pae_equals_the_formula", test_pae_equals_the_formula},
    {"resolution_decides_about_three_losses", test_resolution_decides_about_three_losses},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_train_head_losses = {"train/head_losses", NULL, NULL, set_up, tear_down, tests};
