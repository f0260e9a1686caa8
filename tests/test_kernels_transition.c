/* suite kernels/transition: transition, linear, layer norm, softmax, gates and copies against double loops and differences. */
#include "tests/kernel_case.h"

/* ---- transition ---- */

typedef struct {
    int64_t rows, c, hidden;
    kernel_array x, scale, offset, w1, b1, w2, b2;
    const double *cotangent;
} transition_case;

static void transition_reference(const transition_case *t, double *out)
{
    double *y = malloc((size_t)(t->c + t->hidden + 1) * sizeof *y), *h = y + t->c;
    for (int64_t r = 0; r < t->rows; r++) {
        kernel_layer_norm(y, t->x.d + r * t->c, t->scale.d, t->offset.d, t->c);
        for (int64_t j = 0; j < t->hidden; j++) {
            h[j] = t->b1.d[j];
            for (int64_t i = 0; i < t->c; i++)
                h[j] += y[i] * t->w1.d[i * t->hidden + j];
            h[j] = fmax(h[j], 0);
        }
        for (int64_t i = 0; i < t->c; i++) {
            double s = t->b2.d[i] + t->x.d[r * t->c + i];
            for (int64_t j = 0; j < t->hidden; j++)
                s += h[j] * t->w2.d[j * t->c + i];
            out[r * t->c + i] = s;
        }
    }
    free(y);
}
static double weighted(const double *out, const double *cotangent, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += out[i] * cotangent[i];
    return s;
}
static double transition_loss(void *arg)
{
    const transition_case *t = arg;
    double *out = malloc((size_t)(t->rows * t->c + 1) * sizeof *out);
    transition_reference(t, out);
    const double s = weighted(out, t->cotangent, t->rows * t->c);
    free(out);
    return s;
}

static void transition_run(const ff_kernels *k, int64_t rows, int64_t c, int64_t hidden, int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32;
    transition_case t = {rows, c, hidden, kernel_array_make("x", rows * c, 0.2f, 1), kernel_array_make("scale", c, 1, 0.3f),
                         kernel_array_make("offset", c, 0, 0.3f),
                         kernel_array_make("weights1", c * hidden, 0, 1 / sqrtf((float)c)),
                         kernel_array_make("bias1", hidden, 0.1f, 0.3f),
                         kernel_array_make("weights2", c * hidden, 0, 1 / sqrtf((float)hidden)),
                         kernel_array_make("bias2", c, 0, 0.3f), NULL};
    kernel_array cotangent = kernel_array_make("cotangent", rows * c, 0, 1);
    t.cotangent = cotangent.d;
    const ff_transition_params w = {t.scale.x, t.offset.x, t.w1.x, t.b1.x, t.w2.x, t.b2.x};
    const ff_transition_params g = {t.scale.grad, t.offset.grad, t.w1.grad, t.b1.grad, t.w2.grad, t.b2.grad};
    const ff_transition_args args = {rows, c, hidden, true};
    float *out = malloc((size_t)(rows * c + 1) * sizeof *out);
    double *want = malloc((size_t)(rows * c + 1) * sizeof *want);
    void *scratch = kernel_scratch(k->transition_scratch_bytes(&args, false));
    k->transition_forward(out, t.x.x, &w, &args, scratch);
    free(scratch);
    transition_reference(&t, want);
    kernel_check(k, "out", out, want, rows * c, f32 ? 3e-6 : 2e-2);
    if (samples > 0) {
        kernel_array *const all[] = {&t.x, &t.scale, &t.offset, &t.w1, &t.b1, &t.w2, &t.b2};
        scratch = kernel_scratch(k->transition_scratch_bytes(&args, true));
        k->transition_backward(t.x.grad, &g, cotangent.x, t.x.x, &w, &args, scratch);
        free(scratch);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            kernel_check_gradient(k, all[i], transition_loss, &t, samples, f32 ? 1e-4 : 0.25, 0.1);
    }
    kernel_array *const arrays[] = {&t.x, &t.scale, &t.offset, &t.w1, &t.b1, &t.w2, &t.b2, &cotangent};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        kernel_array_free(arrays[i]);
    free(want);
    free(out);
}
static void transition_cases(const ff_kernels *k)
{
    kernel_draws = 0;
    transition_run(k, 7, 10, 23, 8);
    transition_run(k, 131, 16, 64, 4);  /* more than one tile */
    transition_run(k, 3, 12, 300, 4);   /* more than one chunk of hidden channels */
    transition_run(k, 1, 128, 512, 2);
    transition_run(k, 0, 8, 32, 0);
    transition_run(k, 97, 5, 7, 0);
}

/* ---- linear and layer norm ---- */

typedef struct {
    int64_t rows, n, m;
    bool norm;
    kernel_array x, w, b;
    const double *cotangent;
} linear_case;

static void linear_reference(const linear_case *t, double *y)
{
    for (int64_t r = 0; r < t->rows; r++) {
        if (t->norm) {
            kernel_layer_norm(y + r * t->n, t->x.d + r * t->n, t->w.d, t->b.d, t->n);
            continue;
        }
        for (int64_t j = 0; j < t->m; j++) {
            y[r * t->m + j] = t->b.d[j];
            for (int64_t i = 0; i < t->n; i++)
                y[r * t->m + j] += t->x.d[r * t->n + i] * t->w.d[i * t->m + j];
        }
    }
}
static double linear_loss(void *arg)
{
    const linear_case *t = arg;
    double *y = malloc((size_t)(t->rows * t->m + 1) * sizeof *y);
    linear_reference(t, y);
    const double s = weighted(y, t->cotangent, t->rows * t->m);
    free(y);
    return s;
}
static void linear_run(const ff_kernels *k, int64_t rows, int64_t n, int64_t m, bool norm, int64_t samples)
{
    const bool exact = k->dtype == FF_DTYPE_F32 || norm; /* layer norm has no matrix product */
    linear_case t = {rows, n, m, norm, kernel_array_make("x", rows * n, 0.2f, 1),
                     kernel_array_make("weights", norm ? n : n * m, norm ? 1 : 0, 0.4f), kernel_array_make("bias", m, 0, 0.4f), NULL};
    kernel_array cotangent = kernel_array_make("cotangent", rows * m, 0, 1);
    t.cotangent = cotangent.d;
    float *y = malloc((size_t)(rows * m + 1) * sizeof *y);
    double *want = malloc((size_t)(rows * m + 1) * sizeof *want);
    linear_reference(&t, want);
    if (norm) {
        const ff_layer_norm_params w = {t.w.x, t.b.x}, g = {t.w.grad, t.b.grad};
        k->layer_norm_forward(y, t.x.x, &w, rows, n);
        void *scratch = kernel_scratch(k->layer_norm_backward_scratch_bytes(rows, n));
        k->layer_norm_backward(t.x.grad, &g, cotangent.x, t.x.x, &w, rows, n, scratch);
        free(scratch);
    } else {
        const ff_linear_params w = {t.w.x, t.b.x}, g = {t.w.grad, t.b.grad};
        void *scratch = kernel_scratch(k->linear_scratch_bytes(rows, n, m));
        k->linear_forward(y, t.x.x, &w, rows, n, m, false, false, scratch);
        k->linear_backward(t.x.grad, &g, cotangent.x, t.x.x, &w, rows, n, m, scratch);
        free(scratch);
    }
    kernel_check(k, norm ? "layer norm" : "linear", y, want, rows * m, exact ? 3e-6 : 2e-2);
    for (int i = 0; i < 3; i++)
        kernel_check_gradient(k, i == 0 ? &t.x : i == 1 ? &t.w : &t.b, linear_loss, &t, samples, exact ? 1e-4 : 0.25, 0.1);
    kernel_array *const arrays[] = {&t.x, &t.w, &t.b, &cotangent};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        kernel_array_free(arrays[i]);
    free(want);
    free(y);
}
static void linear_cases(const ff_kernels *k)
{
    const int64_t widths[] = {1, 3, 22, 49, 57, 65, 88};
    kernel_draws = 500;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        linear_run(k, 5 + (int64_t)i, widths[i], 7, false, 4);
    linear_run(k, 200, 16, 33, false, 3);
    linear_run(k, 0, 16, 33, false, 0);
    const int64_t channels[] = {1, 2, 15, 16, 17, 31, 64, 128, 256, 257};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        linear_run(k, 5, channels[i], channels[i], true, channels[i] < 3 ? 0 : 4); /* 1, 2: the gradient is all cancellation */
    linear_run(k, 0, 16, 16, true, 0);
}

/* ---- softmax, gates, copies ---- */

static void softmax_run(const ff_kernels *k, int64_t batch, int64_t heads, int64_t q, int64_t n)
{
    kernel_array x = kernel_array_make("x", batch * heads * q * n, 0, 2), bias = kernel_array_make("bias", heads * q * n, 0, 1);
    kernel_array dy = kernel_array_make("grad_y", x.n, 0, 1);
    float *mask = kernel_mask(batch * n, 0.7f), *y = malloc((size_t)(x.n + 1) * sizeof *y);
    double *want = malloc((size_t)(x.n + 1) * sizeof *want), *want_dx = malloc((size_t)(x.n + 1) * sizeof *want_dx);
    double *want_db = calloc((size_t)(bias.n + 1), sizeof *want_db);
    for (int64_t i = 0; i < n; i++)
        mask[i] = 0;
    for (int64_t r = 0; r < batch * heads * q; r++) {
        const float *m = mask + r / (heads * q) * n;
        const double *b = bias.d + r % (heads * q) * n;
        double top = -INFINITY, sum = 0, dot = 0;
        for (int64_t i = 0; i < n; i++) {
            want[r * n + i] = m[i] == 0 ? -1e9 : x.d[r * n + i] + b[i];
            top = fmax(top, want[r * n + i]);
        }
        for (int64_t i = 0; i < n; i++)
            sum += want[r * n + i] = exp(want[r * n + i] - top);
        for (int64_t i = 0; i < n; i++)
            dot += (want[r * n + i] /= sum) * dy.d[r * n + i];
        for (int64_t i = 0; i < n; i++) {
            const double g = m[i] == 0 ? 0 : want[r * n + i] * (dy.d[r * n + i] - dot);
            want_dx[r * n + i] = g + kernel_grad_start;
            want_db[r % (heads * q) * n + i] += g;
        }
    }
    for (int64_t i = 0; i < bias.n; i++)
        want_db[i] += kernel_grad_start;
    k->softmax_forward(y, x.x, mask, bias.x, batch, heads, q, n);
    kernel_check(k, "softmax", y, want, x.n, k->dtype == FF_DTYPE_F32 ? 2e-6 : 1e-3);
    k->softmax_backward(x.grad, bias.grad, dy.x, y, mask, batch, heads, q, n);
    kernel_check(k, "softmax grad_x", x.grad, want_dx, x.n, k->dtype == FF_DTYPE_F32 ? 5e-6 : 2e-3);
    kernel_check(k, "softmax grad_bias", bias.grad, want_db, bias.n, k->dtype == FF_DTYPE_F32 ? 5e-6 : 2e-3);
    free(want_db);
    free(want_dx);
    free(want);
    free(y);
    free(mask);
    kernel_array_free(&x);
    kernel_array_free(&bias);
    kernel_array_free(&dy);
}
static void softmax_cases(const ff_kernels *k)
{
    kernel_draws = 700;
    const int64_t lengths[] = {0, 1, 15, 16, 17, 67, 129};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        softmax_run(k, 3, 2, 5, lengths[i]);
}

static void elementwise_cases(const ff_kernels *k)
{
    enum { ROWS = 7, PERIOD = 3, C = 21, N = ROWS * C };
    kernel_draws = 800;
    kernel_array x = kernel_array_make("x", N, 0, 1), gate = kernel_array_make("gate", N, 0, 1);
    kernel_array bias = kernel_array_make("bias", C, 0, 1), drop = kernel_array_make("dropout", PERIOD * C, 0, 1);
    kernel_array dy = kernel_array_make("grad", N, 0, 1);
    float out[N], transposed[N];
    double want[N], want_x[N], want_gate[N], want_bias[C];
    k->bias_dropout_residual(out, x.x, bias.x, drop.x, gate.x, ROWS, PERIOD, C);
    for (int i = 0; i < N; i++)
        want[i] = gate.d[i] + drop.d[i / C % PERIOD * C + i % C] * (x.d[i] + bias.d[i % C]);
    kernel_check(k, "bias_dropout_residual", out, want, N, 1e-6);
    k->sigmoid_gate_forward(out, x.x, gate.x, bias.x, ROWS, C);
    k->sigmoid_gate_backward(x.grad, gate.grad, bias.grad, dy.x, x.x, gate.x, bias.x, ROWS, C);
    for (int i = 0; i < C; i++)
        want_bias[i] = kernel_grad_start;
    for (int i = 0; i < N; i++) {
        const double s = 1 / (1 + exp(-(gate.d[i] + bias.d[i % C])));
        want[i] = x.d[i] * s;
        want_x[i] = kernel_grad_start + dy.d[i] * s;
        want_gate[i] = kernel_grad_start + dy.d[i] * x.d[i] * s * (1 - s);
        want_bias[i % C] += dy.d[i] * x.d[i] * s * (1 - s);
    }
    const double tolerance = k->dtype == FF_DTYPE_F32 ? 2e-6 : 1e-3;
    kernel_check(k, "sigmoid_gate", out, want, N, tolerance);
    kernel_check(k, "sigmoid_gate grad_x", x.grad, want_x, N, tolerance);
    kernel_check(k, "sigmoid_gate grad_gate", gate.grad, want_gate, N, tolerance);
    kernel_check(k, "sigmoid_gate grad_bias", bias.grad, want_bias, C, tolerance);
    k->transpose(transposed, x.x, ROWS, PERIOD, C / PERIOD, false);
    bool same = true;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < PERIOD; j++)
            for (int c = 0; c < C / PERIOD; c++)
                same = same && transposed[(j * ROWS + i) * (C / PERIOD) + c] == x.x[(i * PERIOD + j) * (C / PERIOD) + c];
    CU_ASSERT_TRUE(same);
    /* a dropout mask is a function of the element's own index, wherever a chunk starts */
    const ff_random_key key = {3, 4};
    float mask[N];
    k->dropout_mask(mask, key, 0.25f, 1000, N);
    for (int i = 0; i < N; i++)
        same = same && mask[i] == (ff_random_uniform(key, (uint64_t)(1000 + i)) < 0.25f ? 0.0f : 1.0f / 0.75f);
    CU_ASSERT_TRUE(same);
    kernel_array *const arrays[] = {&x, &gate, &bias, &drop, &dy};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        kernel_array_free(arrays[i]);
}

static void test_transition_equals_differences(void) { kernel_every_table(transition_cases); }
static void test_linear_and_layer_norm_equal_differences(void) { kernel_every_table(linear_cases); }
static void test_softmax_and_its_gradients(void) { kernel_every_table(softmax_cases); }
static void test_gates_dropout_and_copies(void) { kernel_every_table(elementwise_cases); }

static CU_TestInfo tests[] = {
    {"transition_equals_differences", test_transition_equals_differences},
    {"linear_and_layer_norm_equal_differences", test_linear_and_layer_norm_equal_differences},
    {"softmax_and_its_gradients", test_softmax_and_its_gradients},
    {"gates_dropout_and_copies", test_gates_dropout_and_copies},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_transition = {"kernels/transition", NULL, NULL, NULL, NULL, tests};
