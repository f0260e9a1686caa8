/* suite kernels/pair_bias: against double loops and differences of them. */
#include "tests/kernel_case.h"

typedef struct {
    int64_t num_i, num_j, c, heads;
    bool transposed; /* strides of rows and columns exchanged */
    kernel_array pair, scale, offset, weights;
    double *cotangent; /* [heads, num_i, num_j] */
} bias_case;

static void reference(const bias_case *b, double *bias)
{
    double *y = malloc((size_t)b->c * sizeof *y + 1);
    for (int64_t i = 0; i < b->num_i; i++)
        for (int64_t j = 0; j < b->num_j; j++) {
            kernel_layer_norm(y, b->pair.d + (b->transposed ? j * b->num_i + i : i * b->num_j + j) * b->c, b->scale.d,
                              b->offset.d, b->c);
            for (int64_t h = 0; h < b->heads; h++) {
                double s = 0;
                for (int64_t k = 0; k < b->c; k++)
                    s += y[k] * b->weights.d[k * b->heads + h];
                bias[(h * b->num_i + i) * b->num_j + j] = s;
            }
        }
    free(y);
}
static double loss(void *arg)
{
    const bias_case *b = arg;
    const int64_t n = b->heads * b->num_i * b->num_j;
    double *bias = malloc((size_t)n * sizeof *bias + 1), s = 0;
    reference(b, bias);
    for (int64_t i = 0; i < n; i++)
        s += bias[i] * b->cotangent[i];
    free(bias);
    return s;
}

static void run_case(const ff_kernels *k, int64_t num_i, int64_t num_j, int64_t c, int64_t heads, bool transposed,
                     int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32;
    const int64_t P = num_i * num_j, n = heads * P, gap = 3; /* planes lie apart, and rows too */
    bias_case b = {num_i, num_j, c, heads, transposed, kernel_array_make("pair", P * c, 0.3f, 1),
                   kernel_array_make("norm_scale", c, 1, 0.3f), kernel_array_make("norm_offset", c, 0.1f, 0.3f),
                   kernel_array_make("weights", c * heads, 0, 0.3f), NULL};
    kernel_array cotangent = kernel_array_make("cotangent", n, 0, 1);
    b.cotangent = cotangent.d;
    const ff_pair_bias_params w = {b.scale.x, b.offset.x, b.weights.x}, g = {b.scale.grad, b.offset.grad, b.weights.grad};
    const int64_t row = num_j + gap, plane = num_i * row + gap, size = heads * plane;
    const ff_pair_bias_args args = {num_i, num_j, c, heads, transposed ? c : num_j * c, transposed ? num_i * c : c, plane,
                                    row};
    float *got = malloc((size_t)size * sizeof *got + 1), *grad = malloc((size_t)size * sizeof *grad + 1);
    for (int64_t i = 0; i < size; i++)
        got[i] = grad[i] = NAN;
    for (int64_t i = 0; i < n; i++)
        grad[i / P * plane + i % P / num_j * row + i % num_j] = cotangent.x[i];
    void *scratch = kernel_scratch(k->pair_bias_scratch_bytes(&args, false));
    k->pair_bias_forward(got, b.pair.x, &w, &args, scratch);
    free(scratch);
    double *want = malloc((size_t)n * sizeof *want + 1);
    float *compact = malloc((size_t)n * sizeof *compact + 1);
    int64_t gaps = 0;
    for (int64_t i = 0; i < size; i++)
        gaps += isnan(got[i]) != 0;
    CU_ASSERT_EQUAL(gaps, size - n); /* nothing between the rows was touched */
    for (int64_t i = 0; i < n; i++)
        compact[i] = got[i / P * plane + i % P / num_j * row + i % num_j];
    reference(&b, want);
    kernel_check(k, "bias", compact, want, n, f32 ? 3e-6 : 2e-2);
    if (samples > 0) {
        scratch = kernel_scratch(k->pair_bias_scratch_bytes(&args, true));
        k->pair_bias_backward(b.pair.grad, &g, grad, b.pair.x, &w, &args, scratch);
        free(scratch);
        const double tolerance = f32 ? 2e-5 : 5e-2;
        kernel_check_gradient(k, &b.pair, loss, &b, samples, tolerance, 0.02);
        kernel_check_gradient(k, &b.scale, loss, &b, samples, tolerance, 0.1);
        kernel_check_gradient(k, &b.offset, loss, &b, samples, tolerance, 0.1);
        kernel_check_gradient(k, &b.weights, loss, &b, samples, tolerance, 0.1);
    }
    free(compact);
    free(want);
    free(grad);
    free(got);
    kernel_array_free(&cotangent);
    kernel_array_free(&b.pair);
    kernel_array_free(&b.scale);
    kernel_array_free(&b.offset);
    kernel_array_free(&b.weights);
}

static void all_sizes(const ff_kernels *k)
{
    static const int64_t sizes[][4] = {{5, 7, 12, 4}, {0, 3, 12, 4},  {3, 0, 12, 4},   {1, 1, 128, 8},  {1, 131, 64, 4},
                                       {3, 17, 5, 3}, {16, 15, 33, 1}, {2, 97, 128, 4}, {33, 32, 128, 8}, {9, 40, 16, 17}};
    kernel_draws = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            omp_set_num_threads(1 + (int)((i + (size_t)transposed) % 3));
            run_case(k, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], transposed, i < 1 ? 1000 : 6);
        }
}
static void test_bias_and_gradients_equal_differences(void) { kernel_every_table(all_sizes); }

static CU_TestInfo tests[] = {
    {"bias_and_gradients_equal_differences", test_bias_and_gradients_equal_differences},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_pair_bias = {"kernels/pair_bias", NULL, NULL, NULL, NULL, tests};
