/* suite kernels/global_attention: one query per column, and over templates, against double loops and differences. */
#include "tests/kernel_case.h"

enum { QNS, QNO, QW, KW, VW, GW, GB, OW, OB, PARAMS };
static const char *const names[PARAMS] = {"query_norm_scale", "query_norm_offset", "query_w",  "key_w",   "value_w",
                                          "gating_w",         "gating_b",          "output_w", "output_b"};

static ff_attention_params pointers(kernel_array *w, bool grad)
{
    float *p[PARAMS];
    for (int i = 0; i < PARAMS; i++)
        p[i] = w[i].n == 0 ? NULL : grad ? w[i].grad : w[i].x;
    return (ff_attention_params){p[QNS], p[QNO], p[QW], p[KW], p[VW], p[GW], p[GB], p[OW], p[OB]};
}
static void make_params(kernel_array *w, const int64_t *sizes)
{
    for (int i = 0; i < PARAMS; i++)
        w[i] = kernel_array_make(names[i], sizes[i], i == QNS ? 1.0f : 0.05f, 0.3f);
}

/* ---- global: x [length, batch, c_in], columns over length ---- */

typedef struct {
    int64_t batch, length, c_in, heads, c;
    bool residual;
    const float *mask, *dropout; /* [length, batch], [length, c_in] */
    kernel_array x, w[PARAMS];
    double *cotangent;
} column_case;

static void column_reference(const column_case *a, double *out)
{
    const int64_t ci = a->c_in, c = a->c, H = a->heads, hc = H * c, L = a->length;
    double *y = malloc((size_t)(L * ci) * sizeof *y + 1), *kv = malloc((size_t)(L * 2 * c) * sizeof *kv + 1);
    double *mean = malloc((size_t)ci * sizeof *mean + 1), *q = malloc((size_t)hc * sizeof *q + 1);
    double *p = malloc((size_t)L * sizeof *p + 1), *o = malloc((size_t)hc * sizeof *o + 1);
    for (int64_t b = 0; b < a->batch; b++) {
        double sum = 1e-10;
        for (int64_t i = 0; i < ci; i++)
            mean[i] = 0;
        for (int64_t l = 0; l < L; l++) {
            const double m = (double)a->mask[l * a->batch + b];
            kernel_layer_norm(y + l * ci, a->x.d + (l * a->batch + b) * ci, a->w[QNS].d, a->w[QNO].d, ci);
            sum += m;
            for (int64_t i = 0; i < ci; i++)
                mean[i] += m * y[l * ci + i];
            for (int64_t k = 0; k < 2 * c; k++) {
                kv[l * 2 * c + k] = 0;
                for (int64_t i = 0; i < ci; i++)
                    kv[l * 2 * c + k] += y[l * ci + i] * (k < c ? a->w[KW].d[i * c + k] : a->w[VW].d[i * c + k - c]);
            }
        }
        for (int64_t k = 0; k < hc; k++) {
            q[k] = 0;
            for (int64_t i = 0; i < ci; i++)
                q[k] += mean[i] / sum * a->w[QW].d[i * hc + k] / sqrt((double)c);
        }
        for (int64_t h = 0; h < H; h++) {
            double top = -INFINITY, total = 0;
            for (int64_t l = 0; l < L; l++) {
                p[l] = 0;
                for (int64_t k = 0; k < c; k++)
                    p[l] += q[h * c + k] * kv[l * 2 * c + k];
                if (a->mask[l * a->batch + b] == 0)
                    p[l] = -1e9;
                top = fmax(top, p[l]);
            }
            for (int64_t l = 0; l < L; l++)
                total += p[l] = exp(p[l] - top);
            for (int64_t k = 0; k < c; k++) {
                o[h * c + k] = 0;
                for (int64_t l = 0; l < L; l++)
                    o[h * c + k] += p[l] / total * kv[l * 2 * c + c + k];
            }
        }
        for (int64_t l = 0; l < L; l++)
            for (int64_t i = 0; i < ci; i++)
                out[(l * a->batch + b) * ci + i] = a->w[OB].d[i];
        for (int64_t l = 0; l < L; l++)
            for (int64_t k = 0; k < hc; k++) {
                double g = a->w[GB].d[k];
                for (int64_t i = 0; i < ci; i++)
                    g += y[l * ci + i] * a->w[GW].d[i * hc + k];
                for (int64_t i = 0; i < ci; i++)
                    out[(l * a->batch + b) * ci + i] += o[k] / (1 + exp(-g)) * a->w[OW].d[k * ci + i];
            }
        for (int64_t l = 0; l < L; l++)
            for (int64_t i = 0; i < ci; i++) {
                double *y0 = out + (l * a->batch + b) * ci + i;
                *y0 *= a->dropout == NULL ? 1.0 : (double)a->dropout[l * ci + i];
                *y0 += a->residual ? a->x.d[(l * a->batch + b) * ci + i] : 0.0;
            }
    }
    free(y);
    free(kv);
    free(mean);
    free(q);
    free(p);
    free(o);
}
static double column_loss(void *arg)
{
    const column_case *a = arg;
    const int64_t n = a->batch * a->length * a->c_in;
    double *out = malloc((size_t)n * sizeof *out + 1), s = 0;
    column_reference(a, out);
    for (int64_t i = 0; i < n; i++)
        s += out[i] * a->cotangent[i];
    free(out);
    return s;
}

static void run_column(const ff_kernels *k, int64_t batch, int64_t length, int64_t ci, int64_t heads, int64_t c, int variant,
                       int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32, in_place = variant & 1;
    const int64_t n = batch * length * ci, hc = heads * c;
    column_case a = {batch, length, ci, heads, c, variant & 2, NULL, NULL, kernel_array_make("x", n, 0.2f, 1), {{0}}, NULL};
    const int64_t sizes[PARAMS] = {ci, ci, ci * hc, ci * c, ci * c, ci * hc, hc, hc * ci, ci};
    make_params(a.w, sizes);
    float *mask = kernel_mask(batch * length, 0.7f), *dropout = kernel_mask(length * ci, 0.75f);
    for (int64_t l = 0; l < length && batch > 1; l++)
        mask[l * batch + 1] = 0; /* a column with every key masked */
    a.mask = mask;
    a.dropout = variant & 4 ? dropout : NULL;
    kernel_array cotangent = kernel_array_make("cotangent", n, 0, 1);
    a.cotangent = cotangent.d;
    const ff_attention_params w = pointers(a.w, false), g = pointers(a.w, true);
    const ff_global_attention_args args = {batch, length, ci, heads, c, ci, batch * ci, mask, 1, batch, NULL, a.dropout,
                                           a.residual};
    float *out = malloc((size_t)n * sizeof *out + 1);
    double *want = malloc((size_t)n * sizeof *want + 1);
    memcpy(out, a.x.x, (size_t)n * sizeof *out);
    void *scratch = kernel_scratch(k->global_attention_scratch_bytes(&args, false));
    k->global_attention_forward(out, in_place ? out : a.x.x, &w, &args, scratch);
    free(scratch);
    column_reference(&a, want);
    kernel_check(k, "global out", out, want, n, f32 ? 5e-6 : 2e-2);
    if (samples > 0) {
        const bool shared = in_place && a.residual;
        float *grad_out = shared ? a.x.grad : cotangent.x;
        if (shared)
            memcpy(a.x.grad, cotangent.x, (size_t)n * sizeof(float));
        scratch = kernel_scratch(k->global_attention_scratch_bytes(&args, true));
        k->global_attention_backward(a.x.grad, &g, grad_out, a.x.x, &w, &args, scratch);
        free(scratch);
        for (int64_t i = 0; shared && i < n; i++)
            a.x.grad[i] += kernel_grad_start;
        /* bf16: differences of rounded numbers where the softmax's gradient cancels */
        const double tolerance = f32 ? 3e-5 : 8e-2, floor = (f32 ? 0.02 : 0.3) * sqrt((double)n);
        kernel_check_gradient(k, &a.x, column_loss, &a, samples, tolerance, 0.1);
        for (int i = 0; i < PARAMS; i++)
            kernel_check_gradient(k, &a.w[i], column_loss, &a, samples, tolerance, floor);
    }
    free(want);
    free(out);
    free(mask);
    free(dropout);
    kernel_array_free(&cotangent);
    kernel_array_free(&a.x);
    for (int i = 0; i < PARAMS; i++)
        kernel_array_free(&a.w[i]);
}

static void column_sizes(const ff_kernels *k)
{
    static const int64_t sizes[][5] = {{3, 7, 8, 4, 2},   {2, 0, 8, 4, 2},    {0, 5, 8, 4, 2},  {1, 1, 64, 8, 8},
                                       {4, 17, 12, 3, 5}, {2, 131, 16, 2, 3}, {9, 16, 64, 8, 8}, {17, 97, 5, 1, 1}};
    kernel_draws = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < (i == 0 ? 8 : 2); variant++) {
            omp_set_num_threads(1 + (int)((i + (size_t)variant) % 3));
            run_column(k, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], sizes[i][4], i == 0 ? variant : variant * 7,
                       i == 0 ? 100 : 3);
        }
}
static void test_columns_equal_differences(void) { kernel_every_table(column_sizes); }
static void long_column(const ff_kernels *k)
{
    kernel_draws = 100;
    omp_set_num_threads(2);
    run_column(k, 5, 4097, 64, 8, 8, 3, 0);
}
static void test_long_columns(void) { kernel_every_table(long_column); }

/* ---- pointwise ---- */

typedef struct {
    int64_t positions, templates, cz, ct, heads, c;
    bool residual;
    const float *mask;
    kernel_array pair, templ, w[PARAMS];
    double *cotangent;
} point_case;

static void point_reference(const point_case *a, double *out)
{
    const int64_t hc = a->heads * a->c, T = a->templates;
    double *q = malloc((size_t)hc * sizeof *q + 1), *kv = malloc((size_t)(2 * T * hc) * sizeof *kv + 1);
    double *p = malloc((size_t)T * sizeof *p + 1), any = 0;
    for (int64_t t = 0; t < T; t++)
        any += (double)a->mask[t];
    for (int64_t r = 0; r < a->positions; r++) {
        for (int64_t i = 0; i < a->cz; i++)
            out[r * a->cz + i] = (a->residual ? a->pair.d[r * a->cz + i] : 0) + (any > 0 ? a->w[OB].d[i] : 0);
        for (int64_t k = 0; k < hc; k++) {
            q[k] = 0;
            for (int64_t i = 0; i < a->cz; i++)
                q[k] += a->pair.d[r * a->cz + i] * a->w[QW].d[i * hc + k] / sqrt((double)a->c);
            for (int64_t t = 0; t < T; t++) {
                double x = 0, y = 0;
                for (int64_t i = 0; i < a->ct; i++) {
                    x += a->templ.d[(t * a->positions + r) * a->ct + i] * a->w[KW].d[i * hc + k];
                    y += a->templ.d[(t * a->positions + r) * a->ct + i] * a->w[VW].d[i * hc + k];
                }
                kv[t * hc + k] = x;
                kv[(T + t) * hc + k] = y;
            }
        }
        for (int64_t h = 0; h < a->heads; h++) {
            double top = -INFINITY, total = 0;
            for (int64_t t = 0; t < T; t++) {
                p[t] = 0;
                for (int64_t k = 0; k < a->c; k++)
                    p[t] += q[h * a->c + k] * kv[t * hc + h * a->c + k];
                if (a->mask[t] == 0)
                    p[t] = -1e9;
                top = fmax(top, p[t]);
            }
            for (int64_t t = 0; t < T; t++)
                total += p[t] = exp(p[t] - top);
            for (int64_t k = 0; k < a->c && any > 0; k++) {
                double o = 0;
                for (int64_t t = 0; t < T; t++)
                    o += p[t] / total * kv[(T + t) * hc + h * a->c + k];
                for (int64_t i = 0; i < a->cz; i++)
                    out[r * a->cz + i] += o * a->w[OW].d[(h * a->c + k) * a->cz + i];
            }
        }
    }
    free(q);
    free(kv);
    free(p);
}
static double point_loss(void *arg)
{
    const point_case *a = arg;
    const int64_t n = a->positions * a->cz;
    double *out = malloc((size_t)n * sizeof *out + 1), s = 0;
    point_reference(a, out);
    for (int64_t i = 0; i < n; i++)
        s += out[i] * a->cotangent[i];
    free(out);
    return s;
}

static void run_point(const ff_kernels *k, int64_t positions, int64_t T, int64_t cz, int64_t ct, int64_t heads, int64_t c,
                      int variant, int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32, in_place = variant & 1;
    const int64_t n = positions * cz, hc = heads * c;
    point_case a = {positions, T, cz, ct, heads, c, variant & 2, NULL, kernel_array_make("pair", n, 0, 1),
                    kernel_array_make("templates", T * positions * ct, 0, 1), {{0}}, NULL};
    const int64_t sizes[PARAMS] = {0, 0, cz * hc, ct * hc, ct * hc, 0, 0, hc * cz, cz};
    make_params(a.w, sizes);
    float *mask = kernel_mask(T, 0.6f);
    for (int64_t t = 0; t < T; t++)
        mask[t] = variant & 4 ? 0 : t == 0 ? 1 : mask[t];
    a.mask = mask;
    kernel_array cotangent = kernel_array_make("cotangent", n, 0, 1);
    a.cotangent = cotangent.d;
    const ff_attention_params w = pointers(a.w, false), g = pointers(a.w, true);
    const ff_pointwise_attention_args args = {positions, T, cz, ct, heads, c, mask, a.residual};
    float *out = malloc((size_t)n * sizeof *out + 1);
    double *want = malloc((size_t)n * sizeof *want + 1);
    memcpy(out, a.pair.x, (size_t)n * sizeof *out);
    void *scratch = kernel_scratch(k->pointwise_attention_scratch_bytes(&args, false));
    k->pointwise_attention_forward(out, in_place ? out : a.pair.x, a.templ.x, &w, &args, scratch);
    free(scratch);
    point_reference(&a, want);
    kernel_check(k, "pointwise out", out, want, n, f32 ? 5e-6 : 3e-2);
    const bool shared = in_place && a.residual;
    if (shared)
        memcpy(a.pair.grad, cotangent.x, (size_t)n * sizeof(float));
    scratch = kernel_scratch(k->pointwise_attention_scratch_bytes(&args, true));
    k->pointwise_attention_backward(a.pair.grad, a.templ.grad, &g, shared ? a.pair.grad : cotangent.x, a.pair.x, a.templ.x, &w,
                                    &args, scratch);
    free(scratch);
    for (int64_t i = 0; shared && i < n; i++)
        a.pair.grad[i] += kernel_grad_start;
    /* bf16: differences of rounded numbers where the softmax's gradient cancels */
    const double tolerance = f32 ? 3e-5 : 8e-2, floor = (f32 ? 0.02 : 0.3) * sqrt((double)n);
    kernel_check_gradient(k, &a.pair, point_loss, &a, samples, tolerance, 0.3);
    kernel_check_gradient(k, &a.templ, point_loss, &a, samples, tolerance, 0.3);
    for (int i = 0; i < PARAMS; i++)
        kernel_check_gradient(k, &a.w[i], point_loss, &a, samples, tolerance, floor);
    free(want);
    free(out);
    free(mask);
    kernel_array_free(&cotangent);
    kernel_array_free(&a.pair);
    kernel_array_free(&a.templ);
    for (int i = 0; i < PARAMS; i++)
        kernel_array_free(&a.w[i]);
}

static void point_sizes(const ff_kernels *k)
{
    static const int64_t sizes[][6] = {{11, 2, 12, 8, 4, 2}, {5, 0, 12, 8, 4, 2},  {0, 2, 12, 8, 4, 2}, {1, 1, 128, 64, 4, 16},
                                       {17, 4, 5, 3, 1, 7},  {97, 3, 33, 17, 3, 5}, {40, 4, 128, 64, 4, 16}};
    kernel_draws = 200;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int variant = 0; variant < (i == 0 ? 8 : 4); variant++) {
            omp_set_num_threads(1 + (int)((i + (size_t)variant) % 3));
            run_point(k, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], sizes[i][4], sizes[i][5], variant,
                      i == 0 ? 100 : 4);
        }
}
static void test_templates_equal_differences(void) { kernel_every_table(point_sizes); }

static CU_TestInfo tests[] = {
    {"columns_equal_differences", test_columns_equal_differences},
    {"long_columns", test_long_columns},
    {"templates_equal_differences", test_templates_equal_differences},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_global_attention = {"kernels/global_attention", NULL, NULL, NULL, NULL, tests};
