/* suite kernels/transition: against double loops and differences of them. */
#include "tests/kernel_case.h"

enum { NORM_SCALE, NORM_OFFSET, WEIGHTS1, BIAS1, WEIGHTS2, BIAS2, PARAMS };

typedef struct {
    ff_transition_args args;
    kernel_array x, w[PARAMS], cotangent;
    double *out, *y, *h; /* [rows, c], one row of the layer norm and of the hidden layer */
    bool settled;        /* then relu passes what it passed at first: differences must not step over its kink */
    bool *active;        /* [rows, c_hidden] */
} transition_case;

static double loss(void *arg)
{
    transition_case *t = arg;
    const int64_t c = t->args.c, ch = t->args.c_hidden;
    double s = 0;
    for (int64_t r = 0; r < t->args.rows; r++) {
        kernel_layer_norm(t->y, t->x.d + r * c, t->w[NORM_SCALE].d, t->w[NORM_OFFSET].d, c);
        for (int64_t n = 0; n < ch; n++) {
            double v = t->w[BIAS1].d[n];
            for (int64_t k = 0; k < c; k++)
                v += t->y[k] * t->w[WEIGHTS1].d[k * ch + n];
            if (!t->settled)
                t->active[r * ch + n] = v > 0;
            t->h[n] = t->active[r * ch + n] ? v : 0;
        }
        for (int64_t k = 0; k < c; k++) {
            double v = t->w[BIAS2].d[k] + (t->args.residual ? t->x.d[r * c + k] : 0);
            for (int64_t n = 0; n < ch; n++)
                v += t->h[n] * t->w[WEIGHTS2].d[n * c + k];
            t->out[r * c + k] = v;
            s += v * t->cotangent.d[r * c + k];
        }
    }
    return s;
}

static void check_gradients(const ff_kernels *k, transition_case *t, int64_t samples)
{
    const double tolerance = k->dtype == FF_DTYPE_F32 ? 2e-5 : 5e-2;
    kernel_check_gradient(k, &t->x, loss, t, samples, tolerance, 0.1);
    for (int i = 0; i < PARAMS; i++)
        kernel_check_gradient(k, &t->w[i], loss, t, samples, tolerance, 0.1);
}

static void run_case(const ff_kernels *k, int64_t rows, int64_t c, int64_t ch, bool residual, int64_t samples)
{
    static const char *const names[PARAMS] = {"norm_scale", "norm_offset", "weights1", "bias1", "weights2", "bias2"};
    const int64_t n = rows * c, sizes[PARAMS] = {c, c, c * ch, ch, ch * c, c};
    const float mean[PARAMS] = {1, 0, 0, 0.1f, 0, 0};
    const float spread[PARAMS] = {0.3f, 0.3f, 1 / sqrtf((float)c + 1), 0.3f, 1 / sqrtf((float)ch + 1), 0.3f};
    transition_case t = {.args = {rows, c, ch, residual}, .x = kernel_array_make("x", n, 0.3f, 1),
                         .cotangent = kernel_array_make("cotangent", n, 0, 1)};
    for (int i = 0; i < PARAMS; i++)
        t.w[i] = kernel_array_make(names[i], sizes[i], mean[i], spread[i]);
    t.out = malloc((size_t)n * sizeof(double) + 1);
    t.y = malloc((size_t)c * sizeof(double) + 1);
    t.h = malloc((size_t)ch * sizeof(double) + 1);
    t.active = malloc((size_t)(rows * ch) * sizeof(bool) + 1);
    const ff_transition_params w = {t.w[0].x, t.w[1].x, t.w[2].x, t.w[3].x, t.w[4].x, t.w[5].x};
    const ff_transition_params g = {t.w[0].grad, t.w[1].grad, t.w[2].grad, t.w[3].grad, t.w[4].grad, t.w[5].grad};
    float *out = malloc((size_t)n * sizeof *out + 1), *other = malloc((size_t)n * sizeof *out + 1);
    void *scratch = kernel_scratch(k->transition_scratch_bytes(&t.args, false));
    memset(out, 0xff, (size_t)n * sizeof *out);
    k->transition_forward(out, t.x.x, &w, &t.args, scratch);
    loss(&t);
    t.settled = true;
    kernel_check(k, "out", out, t.out, n, k->dtype == FF_DTYPE_F32 ? 3e-6 : 2e-2);
    memcpy(other, t.x.x, (size_t)n * sizeof *out);
    k->transition_forward(other, other, &w, &t.args, scratch); /* in place */
    CU_ASSERT_EQUAL(memcmp(other, out, (size_t)n * sizeof *out), 0);
    free(scratch);
    if (samples > 0) {
        scratch = kernel_scratch(k->transition_scratch_bytes(&t.args, true));
        k->transition_backward(t.x.grad, &g, t.cotangent.x, t.x.x, &w, &t.args, scratch);
        check_gradients(k, &t, samples);
        memcpy(other, t.x.grad, (size_t)n * sizeof *out);
        kernel_array_reset_grad(&t.x);
        memset(scratch, 0xff, k->transition_scratch_bytes(&t.args, true));
        k->transition_backward(t.x.grad, NULL, t.cotangent.x, t.x.x, &w, &t.args, scratch); /* no parameter gradients */
        CU_ASSERT_EQUAL(memcmp(other, t.x.grad, (size_t)n * sizeof *out), 0);
        if (residual) { /* in place: the gradient of out becomes that of x */
            memcpy(t.x.grad, t.cotangent.x, (size_t)n * sizeof *out);
            for (int i = 0; i < PARAMS; i++)
                kernel_array_reset_grad(&t.w[i]);
            k->transition_backward(t.x.grad, &g, t.x.grad, t.x.x, &w, &t.args, scratch);
            for (int64_t i = 0; i < n; i++)
                t.x.grad[i] += kernel_grad_start;
            check_gradients(k, &t, samples < 8 ? samples : 8);
        }
        free(scratch);
    }
    free(other);
    free(out);
    free(t.active);
    free(t.h);
    free(t.y);
    free(t.out);
    kernel_array_free(&t.x);
    kernel_array_free(&t.cotangent);
    for (int i = 0; i < PARAMS; i++)
        kernel_array_free(&t.w[i]);
}

static void all_sizes(const ff_kernels *k)
{
    static const int64_t sizes[][3] = {{5, 12, 48},   {0, 16, 64},   {1, 128, 512}, {3, 5, 7},     {97, 17, 31},
                                       {131, 12, 24}, {15, 64, 256}, {16, 33, 132}, {17, 15, 60},  {2, 256, 1024},
                                       {200, 16, 64}, {259, 3, 5},   {7, 32, 600},  {30, 128, 257}};
    kernel_draws = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int residual = 0; residual < 2; residual++) {
            omp_set_num_threads(1 + (int)(i + (size_t)residual) % 3);
            run_case(k, sizes[i][0], sizes[i][1], sizes[i][2], residual, i < 1 ? 64 : 6);
        }
}
static void test_update_and_gradients_equal_differences(void) { kernel_every_table(all_sizes); }

/* The same numbers twice, bit for bit, whatever lay in the scratch memory. */
static void repeats(const ff_kernels *k)
{
    enum { ROWS = 300, C = 32, CH = 128 };
    kernel_draws = 0;
    omp_set_num_threads(3);
    kernel_array x = kernel_array_make("x", ROWS * C, 0, 1), w1 = kernel_array_make("w1", C * CH, 0, 0.2f);
    kernel_array w2 = kernel_array_make("w2", C * CH, 0, 0.2f), b = kernel_array_make("b", CH, 1, 0.2f);
    const ff_transition_params w = {b.x, b.x, w1.x, b.x, w2.x, b.x};
    const ff_transition_args args = {ROWS, C, CH, true};
    float *first = malloc((C * CH + ROWS * C) * sizeof *first);
    const size_t bytes = k->transition_scratch_bytes(&args, true);
    void *scratch = kernel_scratch(bytes);
    for (int run = 0; run < 3; run++) {
        float gb[6][CH] = {{0}};
        kernel_array_reset_grad(&x);
        kernel_array_reset_grad(&w1);
        kernel_array_reset_grad(&w2);
        memset(scratch, run == 1 ? 0xff : 0x3f, bytes);
        const ff_transition_params g = {gb[0], gb[1], w1.grad, gb[2], w2.grad, gb[3]};
        k->transition_backward(x.grad, &g, x.x, x.x, &w, &args, scratch);
        if (run == 0) {
            memcpy(first, w1.grad, C * CH * sizeof *first);
            memcpy(first + C * CH, x.grad, ROWS * C * sizeof *first);
        }
        CU_ASSERT_EQUAL(memcmp(first, w1.grad, C * CH * sizeof *first), 0);
        CU_ASSERT_EQUAL(memcmp(first + C * CH, x.grad, ROWS * C * sizeof *first), 0);
    }
    free(scratch);
    free(first);
    kernel_array_free(&x);
    kernel_array_free(&w1);
    kernel_array_free(&w2);
    kernel_array_free(&b);
}
static void test_gradients_repeat_bit_for_bit(void) { kernel_every_table(repeats); }

static CU_TestInfo tests[] = {
    {"update_and_gradients_equal_differences", test_update_and_gradients_equal_differences},
    {"gradients_repeat_bit_for_bit", test_gradients_repeat_bit_for_bit},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_transition = {"kernels/transition", NULL, NULL, NULL, NULL, tests};
