/* suite kernels/outer_product_mean: both parts together against a double loop and differences of it. */
#include "tests/kernel_case.h"

typedef struct {
    int64_t S, R, cm, co, cz;
    const float *mask;
    kernel_array msa, scale, offset, lw, lb, rw, rb, ow, ob;
    const double *cotangent, *pair;
} opm_case;

static void reference(const opm_case *t, double *out)
{
    const int64_t S = t->S, R = t->R, co = t->co;
    double *y = malloc((size_t)(t->cm + 2 * S * R * co + co * co + 1) * sizeof *y), *l = y + t->cm, *r = l + S * R * co,
           *o = r + S * R * co;
    for (int64_t p = 0; p < S * R; p++) {
        kernel_layer_norm(y, t->msa.d + p * t->cm, t->scale.d, t->offset.d, t->cm);
        for (int64_t c = 0; c < co; c++) {
            double a = t->lb.d[c], b = t->rb.d[c];
            for (int64_t i = 0; i < t->cm; i++) {
                a += y[i] * t->lw.d[i * co + c];
                b += y[i] * t->rw.d[i * co + c];
            }
            l[p * co + c] = a * t->mask[p];
            r[p * co + c] = b * t->mask[p];
        }
    }
    for (int64_t i = 0; i < R; i++)
        for (int64_t j = 0; j < R; j++) {
            double norm = 1e-3;
            memset(o, 0, (size_t)(co * co) * sizeof *o);
            for (int64_t s = 0; s < S; s++) {
                norm += (double)t->mask[s * R + i] * t->mask[s * R + j];
                for (int64_t c = 0; c < co; c++)
                    for (int64_t e = 0; e < co; e++)
                        o[c * co + e] += l[(s * R + i) * co + c] * r[(s * R + j) * co + e];
            }
            for (int64_t f = 0; f < t->cz; f++) {
                double v = t->ob.d[f];
                for (int64_t ce = 0; ce < co * co; ce++)
                    v += o[ce] * t->ow.d[ce * t->cz + f];
                out[(i * R + j) * t->cz + f] = t->pair[(i * R + j) * t->cz + f] + v / norm;
            }
        }
    free(y);
}
static double loss(void *arg)
{
    const opm_case *t = arg;
    const int64_t n = t->R * t->R * t->cz;
    double *out = malloc((size_t)(n + 1) * sizeof *out), s = 0;
    reference(t, out);
    for (int64_t i = 0; i < n; i++)
        s += out[i] * t->cotangent[i];
    free(out);
    return s;
}

static void run_case(const ff_kernels *k, int64_t S, int64_t R, int64_t cm, int64_t co, int64_t cz, int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32;
    const int64_t n = R * R * cz;
    float *mask = kernel_mask(S * R, 0.8f), *turned = malloc((size_t)(S * R + 1) * sizeof *turned);
    for (int64_t i = 0; i < R; i++)
        for (int64_t s = 0; s < S; s++) {
            if (s == 0)
                mask[i] = 1; /* every pair is covered: uncovered ones are a thousand times larger, golden cases have them */
            turned[i * S + s] = mask[s * R + i];
        }
    kernel_array cotangent = kernel_array_make("cotangent", n, 0, 1), pair = kernel_array_make("pair", n, 0, 1);
    opm_case t = {S, R, cm, co, cz, mask, kernel_array_make("msa", S * R * cm, 0.2f, 1), kernel_array_make("scale", cm, 1, 0.3f),
                  kernel_array_make("offset", cm, 0, 0.3f), kernel_array_make("left_w", cm * co, 0, 0.3f),
                  kernel_array_make("left_b", co, 0, 0.3f), kernel_array_make("right_w", cm * co, 0, 0.3f),
                  kernel_array_make("right_b", co, 0, 0.3f), kernel_array_make("output_w", co * co * cz, 0, 1 / (float)co),
                  kernel_array_make("output_b", cz, 0, 0.3f), cotangent.d, pair.d};
    const ff_outer_product_mean_params w = {t.scale.x, t.offset.x, t.lw.x, t.lb.x, t.rw.x, t.rb.x, t.ow.x, t.ob.x};
    const ff_outer_product_mean_params g = {t.scale.grad, t.offset.grad, t.lw.grad, t.lb.grad,
                                            t.rw.grad,    t.rb.grad,     t.ow.grad, t.ob.grad};
    const ff_outer_product_project_args p = {S, R, cm, co, R * cm, cm, mask, R, 1};
    const ff_outer_product_args a = {S, R, R, co, cz, turned, turned, R * cz, cz, true};
    void *left = kernel_operands(k, S * R * co), *right = kernel_operands(k, S * R * co);
    float *out = malloc((size_t)(n + 1) * sizeof *out), *grads = calloc((size_t)(2 * S * R * co + 1), sizeof *grads);
    double *want = malloc((size_t)(n + 1) * sizeof *want);
    void *scratch = kernel_scratch(k->outer_product_mean_project_scratch_bytes(&p, false));
    k->outer_product_mean_project_forward(left, right, t.msa.x, &w, &p, scratch);
    free(scratch);
    scratch = kernel_scratch(k->outer_product_mean_product_scratch_bytes(&a, false));
    k->outer_product_mean_product_forward(out, pair.x, left, right, &w, &a, scratch);
    free(scratch);
    reference(&t, want);
    kernel_check(k, "out", out, want, n, f32 ? 5e-6 : 2e-2);
    if (samples > 0) {
        kernel_array *const all[] = {&t.msa, &t.scale, &t.offset, &t.lw, &t.lb, &t.rw, &t.rb, &t.ow, &t.ob};
        scratch = kernel_scratch(k->outer_product_mean_product_scratch_bytes(&a, true));
        k->outer_product_mean_product_backward(grads, grads + S * R * co, &g, cotangent.x, left, right, &w, &a, scratch);
        free(scratch);
        scratch = kernel_scratch(k->outer_product_mean_project_scratch_bytes(&p, true));
        k->outer_product_mean_project_backward(t.msa.grad, &g, grads, grads + S * R * co, t.msa.x, &w, &p, scratch);
        free(scratch);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            kernel_check_gradient(k, all[i], loss, &t, samples, f32 ? 1e-4 : 0.25, 0.1);
    }
    void *const blocks[] = {want, grads, out, right, left, turned, mask};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
    kernel_array *const arrays[] = {&t.msa, &t.scale, &t.offset, &t.lw, &t.lb, &t.rw, &t.rb, &t.ow, &t.ob, &cotangent, &pair};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        kernel_array_free(arrays[i]);
}

static void all_cases(const ff_kernels *k)
{
    kernel_draws = 0;
    run_case(k, 5, 7, 10, 5, 6, 5);
    run_case(k, 4, 11, 12, 16, 9, 3);
    run_case(k, 3, 5, 16, 32, 8, 2); /* odd number of sequences */
    run_case(k, 97, 3, 8, 3, 5, 2);  /* more than one tile of sequences */
    run_case(k, 1, 1, 7, 2, 3, 3);
    run_case(k, 2, 67, 8, 2, 4, 0);  /* more than one tile of positions */
    run_case(k, 4, 0, 8, 2, 4, 0);
}
static void test_module_and_gradients_equal_differences(void) { kernel_every_table(all_cases); }

static CU_TestInfo tests[] = {
    {"module_and_gradients_equal_differences", test_module_and_gradients_equal_differences},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_outer_product_mean = {"kernels/outer_product_mean", NULL, NULL, NULL, NULL, tests};
