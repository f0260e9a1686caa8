/* suite kernels/linear: against double loops and differences of them, and the GEMM library behind kernels/gemm.h. */
#include "tests/kernel_case.h"

#include "kernels/gemm.h"

typedef struct {
    int64_t rows, ni, no;
    bool relu, accumulate, use_bias;
    kernel_array x, weights, bias, y, cotangent; /* y is what accumulate starts from */
    double *out;
    bool settled; /* then relu passes what it passed at first: differences must not step over its kink */
    bool *active; /* [rows, no] */
} linear_case;

static double loss(void *arg)
{
    linear_case *l = arg;
    double s = 0;
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t o = 0; o < l->no; o++) {
            double v = l->use_bias ? l->bias.d[o] : 0;
            for (int64_t i = 0; i < l->ni; i++)
                v += l->x.d[r * l->ni + i] * l->weights.d[i * l->no + o];
            if (!l->settled)
                l->active[r * l->no + o] = !l->relu || v > 0;
            if (!l->active[r * l->no + o])
                v = 0;
            if (l->accumulate)
                v += l->y.d[r * l->no + o];
            l->out[r * l->no + o] = v;
            s += v * l->cotangent.d[r * l->no + o];
        }
    return s;
}

static void run_case(const ff_kernels *k, int64_t rows, int64_t ni, int64_t no, bool relu, bool accumulate, bool use_bias,
                     int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32;
    linear_case l = {rows, ni, no, relu, accumulate, use_bias, kernel_array_make("x", rows * ni, 0, 1),
                     kernel_array_make("weights", ni * no, 0, 0.5f), kernel_array_make("bias", no, 0.2f, 1),
                     kernel_array_make("y", rows * no, 0, 1), kernel_array_make("cotangent", rows * no, 0, 1), NULL, false, NULL};
    l.out = malloc((size_t)(rows * no) * sizeof *l.out + 1);
    l.active = malloc((size_t)(rows * no) * sizeof *l.active + 1);
    const ff_linear_params w = {l.weights.x, use_bias ? l.bias.x : NULL};
    const ff_linear_params g = {l.weights.grad, use_bias ? l.bias.grad : NULL};
    float *start = malloc((size_t)(rows * no) * sizeof *start + 1);
    memcpy(start, l.y.x, (size_t)(rows * no) * sizeof *start);
    if (!accumulate) /* then nothing of y may be read */
        for (int64_t i = 0; i < rows * no; i++)
            l.y.x[i] = NAN;
    void *scratch = kernel_scratch(k->linear_scratch_bytes(rows, ni, no));
    k->linear_forward(l.y.x, l.x.x, &w, rows, ni, no, relu, accumulate, scratch);
    loss(&l);
    l.settled = true;
    kernel_check(k, "linear", l.y.x, l.out, rows * no, f32 ? 3e-6 : 2e-2);
    if (samples > 0) {
        float *grad_y = malloc((size_t)(rows * no) * sizeof *grad_y + 1);
        for (int64_t i = 0; i < rows * no; i++)
            grad_y[i] = l.active[i] ? l.cotangent.x[i] : 0; /* the caller masks */
        k->linear_backward(l.x.grad, &g, grad_y, l.x.x, &w, rows, ni, no, scratch);
        const double tolerance = f32 ? 2e-5 : 3e-2;
        kernel_check_gradient(k, &l.x, loss, &l, samples, tolerance, 0.1);
        kernel_check_gradient(k, &l.weights, loss, &l, samples, tolerance, 0.1);
        if (use_bias)
            kernel_check_gradient(k, &l.bias, loss, &l, samples, tolerance, 0.1);
        kernel_array twice = kernel_array_make("again", rows * ni, 0, 1);
        kernel_array_reset_grad(&l.weights);
        memcpy(twice.grad, l.x.grad, (size_t)(rows * ni) * sizeof(float));
        k->linear_backward(NULL, &g, grad_y, l.x.x, &w, rows, ni, no, scratch); /* weights only */
        kernel_check_gradient(k, &l.weights, loss, &l, samples, tolerance, 0.1);
        kernel_array_reset_grad(&l.x);
        k->linear_backward(l.x.grad, NULL, grad_y, l.x.x, &w, rows, ni, no, scratch); /* input only */
        CU_ASSERT_EQUAL(memcmp(twice.grad, l.x.grad, (size_t)(rows * ni) * sizeof(float)), 0);
        kernel_array_free(&twice);
        free(grad_y);
    }
    free(scratch);
    free(start);
    free(l.out);
    free(l.active);
    kernel_array_free(&l.x);
    kernel_array_free(&l.weights);
    kernel_array_free(&l.bias);
    kernel_array_free(&l.y);
    kernel_array_free(&l.cotangent);
}

static void all_sizes(const ff_kernels *k)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},     {0, 22, 33},  {97, 22, 16}, {17, 49, 128}, {95, 57, 64},
                                       {96, 65, 12},  {101, 88, 15}, {15, 16, 17}, {193, 3, 31}, {13, 131, 5},  {5, 128, 256},
                                       {7, 33, 160},  {98, 2, 1},    {11, 64, 37}, {2, 0, 4}};
    kernel_draws = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        omp_set_num_threads(1 + (int)i % 3);
        run_case(k, sizes[i][0], sizes[i][1], sizes[i][2], false, false, i % 4 != 3, i == 1 ? 100 : 8);
        run_case(k, sizes[i][0], sizes[i][1], sizes[i][2], true, false, i % 4 != 1, 8);
        run_case(k, sizes[i][0], sizes[i][1], sizes[i][2], false, true, i % 4 != 2, 0);
    }
}
static void test_linear_equals_differences(void) { kernel_every_table(all_sizes); }

/* The library's product, or a clean refusal where it was not built in. */
static void test_library_product(void)
{
    enum { M = 13, N = 17, K = 11 };
    float a[M * K], at[K * M], b[K * N], bt[N * K], c[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = at[i % K * M + i / K] = (float)(i * 7 % 19) - 9;
    for (int i = 0; i < K * N; i++)
        b[i] = bt[i % N * K + i / N] = (float)(i * 5 % 23) - 11;
    for (int t = 0; t < 8; t++) {
        for (int i = 0; i < M * N; i++)
            c[i] = 2;
        const bool ta = t & 1, tb = t & 2;
        const float beta = t & 4 ? 1.0f : 0.0f;
        const bool done = ff_gemm_f32(ta, tb, M, N, K, ta ? at : a, ta ? M : K, tb ? bt : b, tb ? K : N, beta, c, N);
        CU_ASSERT_EQUAL(done, ff_gemm_available());
        int wrong = 0;
        for (int i = 0; i < M * N; i++) {
            float want = done ? 2 * beta : 2;
            for (int k = 0; done && k < K; k++)
                want += a[i / N * K + k] * b[k * N + i % N];
            wrong += c[i] != want; /* whole numbers below 2^24: exact in any order */
        }
        CU_ASSERT_EQUAL(wrong, 0);
    }
}

static CU_TestInfo tests[] = {
    {"linear_equals_differences", test_linear_equals_differences},
    {"library_product", test_library_product},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_linear = {"kernels/linear", NULL, NULL, NULL, NULL, tests};
