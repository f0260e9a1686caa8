/* suite kernels/elementwise: layer norm, softmax, gates, dropout and copies against double loops and differences of them.
 *
 * Contents: layer norm; softmax; bias + dropout + residual; sigmoid gate; dropout mask; add_scaled and transpose. */
#include "tests/kernel_case.h"

/* bf16 tables keep these in float32; their exponential is good to 8e-5 only (v_exp2_fraction) */
static double tolerance_of(const ff_kernels *k) { return k->dtype == FF_DTYPE_F32 ? 3e-6 : 4e-4; }

static const int64_t widths[] = {1, 2, 3, 5, 12, 15, 16, 17, 31, 32, 33, 64, 67, 100, 128, 129, 256, 257, 300, 521};
enum { NUM_WIDTHS = sizeof widths / sizeof *widths };

/* sum of value * cotangent, the loss whose differences are the gradients */
static double weigh(const double *value, const double *cotangent, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += value[i] * cotangent[i];
    return s;
}

/* ---- layer norm ---- */

typedef struct {
    int64_t rows, c;
    kernel_array x, scale, offset, cotangent;
    double *y;
} norm_case;

static double norm_loss(void *arg)
{
    norm_case *n = arg;
    for (int64_t r = 0; r < n->rows; r++)
        kernel_layer_norm(n->y + r * n->c, n->x.d + r * n->c, n->scale.d, n->offset.d, n->c);
    return weigh(n->y, n->cotangent.d, n->rows * n->c);
}

static void run_layer_norm(const ff_kernels *k, int64_t rows, int64_t c, int64_t samples)
{
    norm_case n = {rows, c, kernel_array_make("x", rows * c, 0.5f, 1), kernel_array_make("scale", c, 1, 0.3f),
                   kernel_array_make("offset", c, 0, 0.3f), kernel_array_make("grad_y", rows * c, 0, 1), NULL};
    n.y = malloc((size_t)(rows * c) * sizeof *n.y + 1);
    const ff_layer_norm_params w = {n.scale.x, n.offset.x}, g = {n.scale.grad, n.offset.grad};
    float *y = malloc((size_t)(rows * c) * sizeof *y + 1), *in_place = malloc((size_t)(rows * c) * sizeof *y + 1);
    k->layer_norm_forward(y, n.x.x, &w, rows, c);
    norm_loss(&n);
    kernel_check(k, "layer norm", y, n.y, rows * c, 3e-6);
    memcpy(in_place, n.x.x, (size_t)(rows * c) * sizeof *y);
    k->layer_norm_forward(in_place, in_place, &w, rows, c);
    CU_ASSERT_EQUAL(memcmp(in_place, y, (size_t)(rows * c) * sizeof *y), 0);
    if (samples > 0 && c > 2) { /* one or two channels: the gradient is all cancellation */
        void *scratch = kernel_scratch(k->layer_norm_backward_scratch_bytes(rows, c));
        k->layer_norm_backward(n.x.grad, &g, n.cotangent.x, n.x.x, &w, rows, c, scratch);
        kernel_check_gradient(k, &n.x, norm_loss, &n, samples, 2e-5, 0.1);
        kernel_check_gradient(k, &n.scale, norm_loss, &n, samples, 2e-5, 0.1);
        kernel_check_gradient(k, &n.offset, norm_loss, &n, samples, 2e-5, 0.1);
        memcpy(in_place, n.x.grad, (size_t)(rows * c) * sizeof *y);
        kernel_array_reset_grad(&n.x);
        k->layer_norm_backward(n.x.grad, NULL, n.cotangent.x, n.x.x, &w, rows, c, scratch); /* no gradients of w wanted */
        CU_ASSERT_EQUAL(memcmp(in_place, n.x.grad, (size_t)(rows * c) * sizeof *y), 0);
        free(scratch);
    }
    free(in_place);
    free(y);
    free(n.y);
    kernel_array_free(&n.x);
    kernel_array_free(&n.scale);
    kernel_array_free(&n.offset);
    kernel_array_free(&n.cotangent);
}
static void layer_norm_sizes(const ff_kernels *k)
{
    kernel_draws = 0;
    for (int i = 0; i < NUM_WIDTHS; i++) {
        omp_set_num_threads(1 + i % 3);
        run_layer_norm(k, i % 4 == 0 ? 37 : 1 + i, widths[i], 20);
    }
    run_layer_norm(k, 0, 128, 0);
    run_layer_norm(k, 4097, 128, 0);
}
static void test_layer_norm_equals_differences(void) { kernel_every_table(layer_norm_sizes); }

/* A large common offset of a row must not cost precision: mean 1000, spread 1. */
static void far_from_zero(const ff_kernels *k)
{
    enum { C = 128 };
    float x[C], y[C], scale[C], offset[C];
    double d[C], one[C], zero[C] = {0}, want[C];
    for (int i = 0; i < C; i++) {
        x[i] = 1000 + (float)(i * 37 % C) / 32;
        d[i] = x[i];
        scale[i] = 1;
        one[i] = 1;
        offset[i] = 0;
    }
    const ff_layer_norm_params w = {scale, offset};
    k->layer_norm_forward(y, x, &w, 1, C);
    kernel_layer_norm(want, d, one, zero, C);
    kernel_check(k, "layer norm of a distant row", y, want, C, 1e-4); /* the mean itself is rounded to 6e-5 */
}
static void test_layer_norm_of_distant_rows(void) { kernel_every_table(far_from_zero); }

/* ---- softmax ---- */

typedef struct {
    int64_t batch, heads, queries, keys;
    kernel_array x, bias, cotangent;
    float *mask; /* NULL = none */
    bool use_bias;
    double *y;
} softmax_case;

static double softmax_loss(void *arg)
{
    softmax_case *s = arg;
    const int64_t per_batch = s->heads * s->queries, rows = s->batch * per_batch;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t b = r / per_batch, at = r * s->keys;
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < s->keys; j++) {
            double v = s->x.d[at + j] + (s->use_bias ? s->bias.d[r % per_batch * s->keys + j] : 0);
            if (s->mask != NULL && s->mask[b * s->keys + j] == 0)
                v = (double)FF_MASKED_LOGIT;
            s->y[at + j] = v;
            top = fmax(top, v);
        }
        for (int64_t j = 0; j < s->keys; j++)
            sum += s->y[at + j] = exp(s->y[at + j] - top);
        for (int64_t j = 0; j < s->keys; j++)
            s->y[at + j] /= sum;
    }
    return weigh(s->y, s->cotangent.d, rows * s->keys);
}

static void run_softmax(const ff_kernels *k, int64_t batch, int64_t heads, int64_t queries, int64_t keys, bool masked,
                        bool use_bias, int64_t samples)
{
    const int64_t n = batch * heads * queries * keys, nb = heads * queries * keys;
    softmax_case s = {batch, heads, queries, keys, kernel_array_make("x", n, 0, 3), kernel_array_make("bias", nb, 0, 1),
                      kernel_array_make("grad_y", n, 0, 1), masked ? kernel_mask(batch * keys, 0.7f) : NULL, use_bias, NULL};
    if (masked)
        for (int64_t j = 0; j < keys && batch > 0; j++)
            s.mask[(batch - 1) * keys + j] = 0; /* the last batch entry is fully masked */
    s.y = malloc((size_t)n * sizeof *s.y + 1);
    float *y = malloc((size_t)n * sizeof *y + 1), *in_place = malloc((size_t)n * sizeof *y + 1);
    const float *bias = use_bias ? s.bias.x : NULL;
    k->softmax_forward(y, s.x.x, s.mask, bias, batch, heads, queries, keys);
    softmax_loss(&s);
    kernel_check(k, "softmax", y, s.y, n, tolerance_of(k));
    for (int64_t r = 0; r < batch * heads * queries && keys > 0; r++) { /* rows sum to 1; fully masked ones are uniform */
        double sum = 0;
        for (int64_t j = 0; j < keys; j++)
            sum += (double)y[r * keys + j];
        CU_ASSERT_DOUBLE_EQUAL(sum, 1.0, 1e-5); /* a lane of plain C adds 1024 numbers */
        if (masked && r >= (batch - 1) * heads * queries)
            CU_ASSERT_DOUBLE_EQUAL((double)y[r * keys], 1.0 / (double)keys, 1e-6);
    }
    memcpy(in_place, s.x.x, (size_t)n * sizeof *y);
    k->softmax_forward(in_place, in_place, s.mask, bias, batch, heads, queries, keys);
    CU_ASSERT_EQUAL(memcmp(in_place, y, (size_t)n * sizeof *y), 0);
    if (samples > 0) {
        k->softmax_backward(s.x.grad, use_bias ? s.bias.grad : NULL, s.cotangent.x, y, s.mask, batch, heads, queries, keys);
        const double tolerance = k->dtype == FF_DTYPE_F32 ? 2e-5 : 2e-3;
        kernel_check_gradient(k, &s.x, softmax_loss, &s, samples, tolerance, 0.01);
        if (use_bias)
            kernel_check_gradient(k, &s.bias, softmax_loss, &s, samples, tolerance, 0.01);
    }
    free(in_place);
    free(y);
    free(s.y);
    free(s.mask);
    kernel_array_free(&s.x);
    kernel_array_free(&s.bias);
    kernel_array_free(&s.cotangent);
}
static void softmax_sizes(const ff_kernels *k)
{
    kernel_draws = 0;
    for (int i = 0; i < NUM_WIDTHS; i++) {
        omp_set_num_threads(1 + i % 3);
        run_softmax(k, 1 + i % 3, 1 + i % 2, 1 + i % 5, widths[i], i % 2, i % 3, 12);
    }
    run_softmax(k, 0, 2, 3, 5, true, true, 0);
    run_softmax(k, 2, 2, 0, 5, true, true, 0);
    run_softmax(k, 2, 2, 3, 0, false, true, 0);
    run_softmax(k, 2, 1, 2, 4097, true, true, 0);
}
static void test_softmax_equals_differences(void) { kernel_every_table(softmax_sizes); }

/* Logits far apart: no overflow, no NaN, the largest takes all. */
static void extreme_logits(const ff_kernels *k)
{
    float x[19], y[19];
    for (int i = 0; i < 19; i++)
        x[i] = i == 7 ? 3e38f : -3e38f;
    k->softmax_forward(y, x, NULL, NULL, 1, 1, 1, 19);
    for (int i = 0; i < 19; i++)
        CU_ASSERT_EQUAL(y[i], i == 7 ? 1.0f : 0.0f);
}
static void test_softmax_of_extreme_logits(void) { kernel_every_table(extreme_logits); }

/* ---- bias, dropout, residual ---- */

static void run_update(const ff_kernels *k, int64_t rows, int64_t period, int64_t c, int parts)
{
    kernel_array x = kernel_array_make("x", rows * c, 0, 1), residual = kernel_array_make("residual", rows * c, 0, 1);
    kernel_array bias = kernel_array_make("bias", c, 0, 1);
    float *dropout = kernel_mask(period * c, 0.7f), *out = malloc((size_t)(rows * c) * sizeof *out + 1);
    double *want = malloc((size_t)(rows * c) * sizeof *want + 1);
    for (int64_t i = 0; i < rows * c; i++) {
        const double v = x.d[i] + (parts & 1 ? bias.d[i % c] : 0);
        want[i] = v * (parts & 2 ? (double)dropout[i / c % period * c + i % c] : 1) + (parts & 4 ? residual.d[i] : 0);
    }
    k->bias_dropout_residual(out, x.x, parts & 1 ? bias.x : NULL, parts & 2 ? dropout : NULL, parts & 4 ? residual.x : NULL,
                             rows, period, c);
    kernel_check(k, "bias dropout residual", out, want, rows * c, 1e-6);
    if (parts & 4) { /* in place */
        k->bias_dropout_residual(residual.x, x.x, parts & 1 ? bias.x : NULL, parts & 2 ? dropout : NULL, residual.x, rows,
                                 period, c);
        CU_ASSERT_EQUAL(memcmp(out, residual.x, (size_t)(rows * c) * sizeof *out), 0);
    }
    free(want);
    free(out);
    free(dropout);
    kernel_array_free(&bias);
    kernel_array_free(&residual);
    kernel_array_free(&x);
}
static void update_sizes(const ff_kernels *k)
{
    kernel_draws = 0;
    for (int i = 0; i < NUM_WIDTHS; i++) {
        omp_set_num_threads(1 + i % 3);
        run_update(k, 3 + 7 * i, 1 + i % 7, widths[i], i % 8);
        run_update(k, i, 1 + i % 3, widths[i], 7);
    }
}
static void test_bias_dropout_residual(void) { kernel_every_table(update_sizes); }

/* ---- sigmoid gate ---- */

typedef struct {
    int64_t rows, c;
    bool use_bias;
    kernel_array x, gate, bias, cotangent;
    double *y;
} gate_case;

static double gate_loss(void *arg)
{
    gate_case *g = arg;
    for (int64_t i = 0; i < g->rows * g->c; i++)
        g->y[i] = g->x.d[i] / (1 + exp(-g->gate.d[i] - (g->use_bias ? g->bias.d[i % g->c] : 0)));
    return weigh(g->y, g->cotangent.d, g->rows * g->c);
}

static void run_gate(const ff_kernels *k, int64_t rows, int64_t c, bool use_bias, int64_t samples)
{
    gate_case g = {rows, c, use_bias, kernel_array_make("x", rows * c, 0, 1), kernel_array_make("gate", rows * c, 0, 2),
                   kernel_array_make("gate_bias", c, 1, 0.5f), kernel_array_make("grad_out", rows * c, 0, 1), NULL};
    g.y = malloc((size_t)(rows * c) * sizeof *g.y + 1);
    float *out = malloc((size_t)(rows * c) * sizeof *out + 1);
    const float *bias = use_bias ? g.bias.x : NULL;
    k->sigmoid_gate_forward(out, g.x.x, g.gate.x, bias, rows, c);
    gate_loss(&g);
    kernel_check(k, "sigmoid gate", out, g.y, rows * c, tolerance_of(k));
    if (samples > 0) {
        k->sigmoid_gate_backward(g.x.grad, g.gate.grad, use_bias ? g.bias.grad : NULL, g.cotangent.x, g.x.x, g.gate.x, bias,
                                 rows, c);
        const double tolerance = k->dtype == FF_DTYPE_F32 ? 2e-5 : 2e-3;
        kernel_check_gradient(k, &g.x, gate_loss, &g, samples, tolerance, 0.1);
        kernel_check_gradient(k, &g.gate, gate_loss, &g, samples, tolerance, 0.1);
        if (use_bias)
            kernel_check_gradient(k, &g.bias, gate_loss, &g, samples, tolerance, 0.1);
    }
    free(out);
    free(g.y);
    kernel_array_free(&g.x);
    kernel_array_free(&g.gate);
    kernel_array_free(&g.bias);
    kernel_array_free(&g.cotangent);
}
static void gate_sizes(const ff_kernels *k)
{
    kernel_draws = 0;
    for (int i = 0; i < NUM_WIDTHS; i++) {
        omp_set_num_threads(1 + i % 3);
        run_gate(k, 1 + 3 * i, widths[i], i % 2, 12);
    }
    run_gate(k, 0, 7, true, 0);
    run_gate(k, 1031, 128, true, 4);
    run_gate(k, 601, 5, true, 4);
}
static void test_sigmoid_gate_equals_differences(void) { kernel_every_table(gate_sizes); }

/* ---- dropout mask ---- */

static void dropout_masks(const ff_kernels *k)
{
    static const int64_t ranges[][2] = {{0, 0}, {0, 1}, {0, 1000}, {3, 1}, {5, 131}, {1021, 67}, {2, 4099},
                                        {((int64_t)1 << 34) - 5, 40}, {((int64_t)1 << 40) + 1, 131}};
    const float rates[] = {0.0f, 0.15f, 0.25f, 0.5f};
    const ff_random_key keys[] = {{1, 2}, {UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210)}};
    float mask[4099];
    int64_t wrong = 0;
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        for (size_t q = 0; q < sizeof rates / sizeof *rates; q++)
            for (size_t key = 0; key < 2; key++) {
                omp_set_num_threads(1 + (int)(r + q) % 3);
                const int64_t first = ranges[r][0], n = ranges[r][1];
                for (int64_t i = 0; i < 4099; i++)
                    mask[i] = -1;
                k->dropout_mask(mask, keys[key], rates[q], first, n);
                for (int64_t i = 0; i < 4099; i++) {
                    const float u = ff_random_uniform(keys[key], (uint64_t)(first + i));
                    wrong += mask[i] != (i >= n ? -1.0f : u < rates[q] ? 0.0f : 1.0f / (1.0f - rates[q]));
                }
            }
    CU_ASSERT_EQUAL(wrong, 0);
}
static void test_dropout_mask_is_that_of_the_random_numbers(void) { kernel_every_table(dropout_masks); }

static void test_dropout_mask_has_its_rate(void)
{
    enum { N = 100000 };
    ff_ctx ctx;
    ff_context_init(&ctx);
    const ff_kernels *k;
    CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &k, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32), FF_OK);
    float *mask = malloc(N * sizeof *mask);
    const ff_random_key key = {7, 11};
    k->dropout_mask(mask, key, 0.15f, 0, N);
    double mean = 0;
    for (int i = 0; i < N; i++)
        mean += (double)mask[i] / N;
    CU_ASSERT_DOUBLE_EQUAL(mean, 1.0, 0.006); /* 4.5 standard deviations: sqrt(0.15 / 0.85 / N) each */
    free(mask);
}

/* ---- add_scaled, transpose ---- */

static void copies(const ff_kernels *k)
{
    kernel_draws = 0;
    for (int i = 0; i < NUM_WIDTHS; i++) {
        omp_set_num_threads(1 + i % 3);
        const int64_t n = widths[i] * (i % 4 + (i > 3));
        kernel_array x = kernel_array_make("x", n, 0, 1), y = kernel_array_make("y", n, 0, 1);
        k->add_scaled(y.x, x.x, -0.75f, n);
        for (int64_t e = 0; e < n; e++)
            y.d[e] -= 0.75 * x.d[e];
        kernel_check(k, "add_scaled", y.x, y.d, n, 1e-6);
        kernel_array_free(&x);
        kernel_array_free(&y);
    }
    static const int64_t shapes[][3] = {{0, 3, 5}, {3, 0, 5}, {1, 1, 1}, {1, 97, 16}, {31, 1, 3}, {17, 15, 4}, {16, 33, 1},
                                        {37, 41, 12}, {5, 64, 131}, {70, 66, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            omp_set_num_threads(1 + (int)s % 3);
            const int64_t ni = shapes[s][0], nj = shapes[s][1], c = shapes[s][2], n = ni * nj * c;
            kernel_array x = kernel_array_make("x", n, 0, 1), y = kernel_array_make("y", n, 0, 1);
            k->transpose(y.x, x.x, ni, nj, c, accumulate);
            for (int64_t e = 0; e < n; e++) {
                const int64_t j = e / (ni * c), i = e / c % ni;
                y.d[e] = (accumulate ? y.d[e] : 0) + x.d[(i * nj + j) * c + e % c];
            }
            kernel_check(k, "transpose", y.x, y.d, n, 1e-6);
            kernel_array_free(&x);
            kernel_array_free(&y);
        }
}
static void test_add_scaled_and_transpose(void) { kernel_every_table(copies); }

static CU_TestInfo tests[] = {
    {"layer_norm_equals_differences", test_layer_norm_equals_differences},
    {"layer_norm_of_distant_rows", test_layer_norm_of_distant_rows},
    {"softmax_equals_differences", test_softmax_equals_differences},
    {"softmax_of_extreme_logits", test_softmax_of_extreme_logits},
    {"bias_dropout_residual", test_bias_dropout_residual},
    {"sigmoid_gate_equals_differences", test_sigmoid_gate_equals_differences},
    {"dropout_mask_is_that_of_the_random_numbers", test_dropout_mask_is_that_of_the_random_numbers},
    {"dropout_mask_has_its_rate", test_dropout_mask_has_its_rate},
    {"add_scaled_and_transpose", test_add_scaled_and_transpose},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_elementwise = {"kernels/elementwise", NULL, NULL, NULL, NULL, tests};
