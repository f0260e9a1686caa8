/* suite kernels/attention: attention_core and the gated module against double loops and differences of them. */
#include "tests/kernel_case.h"

typedef struct {
    int64_t batch, length, c, heads, width;
    bool column, norm, gate, biased, residual;
    const float *mask, *dropout;
    kernel_array x, scale, offset, q, k, v, g, gb, o, ob, bias;
    const double *cotangent;
} gated_case;

static int64_t place(const gated_case *a, int64_t b, int64_t l) { return (a->column ? l * a->batch + b : b * a->length + l) * a->c; }

static void product(double *y, const double *x, const double *w, int64_t rows, int64_t n, int64_t m)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < m; j++) {
            double s = 0;
            for (int64_t i = 0; i < n; i++)
                s += x[r * n + i] * w[i * m + j];
            y[r * m + j] = s;
        }
}

/* o[L, H w] of one batch row from projected q, k, v */
static void attend(double *o, const double *q, const double *k, const double *v, const double *bias, const float *mask,
                   int64_t L, int64_t H, int64_t w, double scale)
{
    double *p = malloc((size_t)(L + 1) * sizeof *p);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < L; i++) {
            double top = -INFINITY, sum = 0;
            for (int64_t j = 0; j < L; j++) {
                double s = bias == NULL ? 0 : bias[(h * L + i) * L + j];
                for (int64_t c = 0; c < w; c++)
                    s += scale * q[(i * H + h) * w + c] * k[(j * H + h) * w + c];
                p[j] = mask != NULL && mask[j] == 0 ? -1e9 : s;
                top = fmax(top, p[j]);
            }
            for (int64_t j = 0; j < L; j++)
                sum += p[j] = exp(p[j] - top);
            for (int64_t c = 0; c < w; c++) {
                double s = 0;
                for (int64_t j = 0; j < L; j++)
                    s += p[j] * v[(j * H + h) * w + c];
                o[(i * H + h) * w + c] = s / sum;
            }
        }
    free(p);
}

static void reference(const gated_case *a, double *out)
{
    const int64_t L = a->length, c = a->c, hw = a->heads * a->width;
    double *y = malloc((size_t)(L * (c + 5 * hw) + c + 1) * sizeof *y), *q = y + L * c, *k = q + L * hw, *v = k + L * hw;
    double *g = v + L * hw, *o = g + L * hw, *u = o + L * hw;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t l = 0; l < L; l++) {
            const double *x = a->x.d + place(a, b, l);
            if (a->norm)
                kernel_layer_norm(y + l * c, x, a->scale.d, a->offset.d, c);
            else
                memcpy(y + l * c, x, (size_t)c * sizeof *y);
        }
        product(q, y, a->q.d, L, c, hw);
        product(k, y, a->k.d, L, c, hw);
        product(v, y, a->v.d, L, c, hw);
        product(g, y, a->g.d, L, c, hw);
        attend(o, q, k, v, a->biased ? a->bias.d : NULL, a->mask + b * L, L, a->heads, a->width, 1 / sqrt((double)a->width));
        for (int64_t i = 0; a->gate && i < L * hw; i++)
            o[i] /= 1 + exp(-(g[i] + a->gb.d[i % hw]));
        for (int64_t l = 0; l < L; l++) {
            product(u, o + l * hw, a->o.d, 1, hw, c);
            for (int64_t i = 0; i < c; i++) {
                const double update = (u[i] + a->ob.d[i]) * (a->dropout == NULL ? 1 : a->dropout[l * c + i]);
                out[place(a, b, l) + i] = update + (a->residual ? a->x.d[place(a, b, l) + i] : 0);
            }
        }
    }
    free(y);
}

static double loss(void *arg)
{
    const gated_case *a = arg;
    const int64_t n = a->batch * a->length * a->c;
    double *out = malloc((size_t)(n + 1) * sizeof *out), s = 0;
    reference(a, out);
    for (int64_t i = 0; i < n; i++)
        s += out[i] * a->cotangent[i];
    free(out);
    return s;
}

enum { COLUMN = 1, BARE = 2, KEEP = 4, KEEP_QKV = 8, NO_BIAS = 16, KEEP_LSE = 32, KEEP_OUTPUT = 64, KEEP_ONLY_QKV = 128 };

static void run_case(const ff_kernels *k, int64_t batch, int64_t length, int64_t c, int64_t heads, int64_t width, int options,
                     int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32, bare = (options & BARE) != 0;
    const int64_t n = batch * length * c, hw = heads * width, nb = heads * length * length;
    const float spread = c > 0 ? 1 / sqrtf((float)c) : 1;
    gated_case a = {batch, length, c, heads, width, (options & COLUMN) != 0, !bare, !bare, !(options & NO_BIAS), !bare, NULL, NULL,
                    kernel_array_make("x", n, 0.2f, 1), kernel_array_make("norm_scale", c, 1, 0.3f),
                    kernel_array_make("norm_offset", c, 0, 0.3f), kernel_array_make("query_w", c * hw, 0, 2 * spread),
                    kernel_array_make("key_w", c * hw, 0, 2 * spread), kernel_array_make("value_w", c * hw, 0, spread),
                    kernel_array_make("gating_w", c * hw, 0, spread), kernel_array_make("gating_b", hw, 0.5f, 0.3f),
                    kernel_array_make("output_w", c * hw, 0, hw > 0 ? 1 / sqrtf((float)hw) : 1),
                    kernel_array_make("output_b", c, 0, 0.3f), kernel_array_make("bias", nb, 0, 1), NULL};
    kernel_array cotangent = kernel_array_make("cotangent", n, 0, 1);
    a.cotangent = cotangent.d;
    float *mask = kernel_mask(batch * length, 0.7f), *dropout = bare ? NULL : kernel_mask(length * c, 0.75f);
    for (int64_t l = 0; l < length && batch > 1; l++)
        mask[l] = 0; /* one row whose keys are all masked */
    a.mask = mask;
    a.dropout = dropout;
    const ff_attention_params w = {bare ? NULL : a.scale.x, bare ? NULL : a.offset.x, a.q.x, a.k.x, a.v.x, bare ? NULL : a.g.x,
                                   bare ? NULL : a.gb.x, a.o.x, a.ob.x};
    const ff_attention_params g = {bare ? NULL : a.scale.grad, bare ? NULL : a.offset.grad, a.q.grad, a.k.grad, a.v.grad,
                                   bare ? NULL : a.g.grad, bare ? NULL : a.gb.grad, a.o.grad, a.ob.grad};
    const ff_gated_attention_args args = {.batch = batch, .length = length, .c_in = c, .num_head = heads, .c_hidden = width,
                                          .stride_batch = a.column ? c : length * c, .stride_length = a.column ? batch * c : c,
                                          .mask = mask, .mask_stride_batch = length, .mask_stride_length = 1,
                                          .bias = a.biased ? a.bias.x : NULL, .dropout = dropout, .residual = a.residual};
    float *lse = malloc((size_t)(batch * heads * length + 1) * 4), *kept_output = malloc((size_t)(batch * length * hw + 1) * 4);
    void *q = kernel_operands(k, batch * length * hw), *key = kernel_operands(k, batch * length * hw),
         *v = kernel_operands(k, batch * length * hw);
    ff_gated_attention_kept keep = {lse, kept_output, NULL, NULL, NULL};
    if (options & KEEP_QKV)
        keep = (ff_gated_attention_kept){lse, kept_output, q, key, v};
    if (options & KEEP_LSE)
        keep.output = NULL;
    if (options & KEEP_OUTPUT)
        keep.lse = NULL;
    if (options & KEEP_ONLY_QKV)
        keep = (ff_gated_attention_kept){NULL, NULL, q, key, v};
    const ff_gated_attention_kept *kept =
        options & (KEEP | KEEP_QKV | KEEP_LSE | KEEP_OUTPUT | KEEP_ONLY_QKV) ? &keep : NULL;

    float *out = malloc((size_t)(n + 1) * sizeof *out);
    double *want = malloc((size_t)(n + 1) * sizeof *want);
    void *scratch = kernel_scratch(k->gated_attention_scratch_bytes(&args, false));
    k->gated_attention_forward(out, a.x.x, &w, &args, kept, scratch);
    free(scratch);
    reference(&a, want);
    kernel_check(k, "out", out, want, n, f32 ? 5e-6 : 2e-2);
    if (samples > 0) {
        kernel_array *const all[] = {&a.x, &a.q, &a.k, &a.v, &a.o, &a.ob, &a.bias, &a.scale, &a.offset, &a.g, &a.gb};
        scratch = kernel_scratch(k->gated_attention_scratch_bytes(&args, true));
        k->gated_attention_backward(a.x.grad, a.biased ? a.bias.grad : NULL, &g, cotangent.x, a.x.x, &w, &args, kept, scratch);
        free(scratch);
        for (size_t i = 0; i < (bare ? 7 : sizeof all / sizeof *all); i++)
            if (a.biased || all[i] != &a.bias)
                /* bf16: against the largest of a few entries; the golden cases hold whole arrays to 5e-2 */
                kernel_check_gradient(k, all[i], loss, &a, samples, f32 ? 1e-4 : 0.25, 0.1);
    }
    void *const blocks[] = {lse, kept_output, q, key, v, out, want, mask, dropout};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
    kernel_array *const arrays[] = {&a.x, &a.scale, &a.offset, &a.q, &a.k, &a.v, &a.g, &a.gb, &a.o, &a.ob, &a.bias, &cotangent};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        kernel_array_free(arrays[i]);
}

static void small_cases(const ff_kernels *k)
{
    kernel_draws = 0;
    run_case(k, 3, 7, 10, 2, 3, 0, 6);
    run_case(k, 2, 13, 12, 3, 4, COLUMN | KEEP, 6);
    run_case(k, 3, 11, 16, 2, 8, KEEP_QKV, 6);
    run_case(k, 2, 9, 8, 1, 5, BARE | NO_BIAS, 6);
    run_case(k, 2, 1, 5, 2, 2, KEEP, 5);
}
static void wide_cases(const ff_kernels *k)
{
    kernel_draws = 100;
    run_case(k, 2, 17, 64, 2, 32, KEEP_QKV, 3);
    run_case(k, 2, 50, 32, 4, 8, COLUMN, 2);
}
static void any_length(const ff_kernels *k)
{
    const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 33, 97};
    kernel_draws = 200;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        run_case(k, 2, lengths[i], 16, 2, 8, i % 2 ? COLUMN : 0, 0);
    run_case(k, 0, 5, 16, 2, 8, 0, 0);
}
static void long_row(const ff_kernels *k)
{
    kernel_draws = 300;
    run_case(k, 1, 4097, 4, 1, 2, NO_BIAS, 0);
}

/* ---- attention on projected operands ---- */

typedef struct {
    int64_t batch, num_query, num_key, heads, width;
    bool biased;
    const float *mask;
    kernel_array q, k, v, bias;
    const double *cotangent;
} core_case;

/* as `attend`, with num_query and num_key apart; no keys: an empty sum */
static void core_reference(const core_case *a, double *out)
{
    const int64_t Q = a->num_query, K = a->num_key, H = a->heads, w = a->width;
    double *p = malloc((size_t)(K + 1) * sizeof *p);
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < Q; i++) {
                double top = -INFINITY, sum = 0;
                for (int64_t j = 0; j < K; j++) {
                    double s = a->biased ? a->bias.d[(h * Q + i) * K + j] : 0;
                    for (int64_t c = 0; c < w; c++)
                        s += 0.4f * a->q.d[((b * Q + i) * H + h) * w + c] * a->k.d[((b * K + j) * H + h) * w + c];
                    p[j] = a->mask[b * K + j] == 0 ? -1e9 : s;
                    top = fmax(top, p[j]);
                }
                for (int64_t j = 0; j < K; j++)
                    sum += p[j] = exp(p[j] - top);
                for (int64_t c = 0; c < w; c++) {
                    double s = 0;
                    for (int64_t j = 0; j < K; j++)
                        s += p[j] / sum * a->v.d[((b * K + j) * H + h) * w + c];
                    out[((b * Q + i) * H + h) * w + c] = s;
                }
            }
    free(p);
}

static double core_loss(void *arg)
{
    const core_case *a = arg;
    const int64_t n = a->batch * a->num_query * a->heads * a->width;
    double *out = malloc((size_t)(n + 1) * sizeof *out), s = 0;
    core_reference(a, out);
    for (int64_t i = 0; i < n; i++)
        s += out[i] * a->cotangent[i];
    free(out);
    return s;
}

static void run_core(const ff_kernels *k, int64_t batch, int64_t Q, int64_t K, int64_t H, int64_t w, bool biased, int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32;
    const int64_t n = batch * Q * H * w, nk = batch * K * H * w;
    core_case a = {batch, Q, K, H, w, biased, NULL, kernel_array_make("q", n, 0, 1), kernel_array_make("k", nk, 0, 1),
                   kernel_array_make("v", nk, 0, 1), kernel_array_make("bias", H * Q * K, 0, 1), NULL};
    kernel_array cotangent = kernel_array_make("cotangent", n, 0, 1);
    a.cotangent = cotangent.d;
    float *mask = kernel_mask(batch * K, 0.7f);
    for (int64_t j = 0; j < K && batch > 1; j++)
        mask[j] = 0; /* every key of the first batch row */
    a.mask = mask;
    const ff_attention_core_args args = {batch, Q, K, H, w, 0.4f, mask, biased ? a.bias.x : NULL};
    float *out = malloc((size_t)(n + 1) * sizeof *out);
    double *want = malloc((size_t)(n + 1) * sizeof *want);
    void *scratch = kernel_scratch(k->attention_core_scratch_bytes(&args, false));
    k->attention_core_forward(out, a.q.x, a.k.x, a.v.x, &args, scratch);
    free(scratch);
    core_reference(&a, want);
    kernel_check(k, "core out", out, want, n, f32 ? 5e-6 : 2e-2);
    scratch = kernel_scratch(k->attention_core_scratch_bytes(&args, true));
    k->attention_core_backward(a.q.grad, a.k.grad, a.v.grad, biased ? a.bias.grad : NULL, cotangent.x, a.q.x, a.k.x, a.v.x,
                               &args, scratch);
    free(scratch);
    kernel_array *const all[] = {&a.q, &a.k, &a.v, &a.bias};
    for (size_t i = 0; i < (biased ? 4 : 3); i++)
        kernel_check_gradient(k, all[i], core_loss, &a, samples, f32 ? 1e-4 : 0.1, 0.1);
    free(out);
    free(want);
    free(mask);
    for (size_t i = 0; i < 4; i++)
        kernel_array_free(all[i]);
    kernel_array_free(&cotangent);
}

static void core_cases(const ff_kernels *k)
{
    kernel_draws = 500;
    run_core(k, 2, 7, 7, 2, 3, true, 20);
    run_core(k, 3, 5, 19, 2, 8, true, 20);
    run_core(k, 2, 53, 17, 1, 16, false, 12);
    run_core(k, 2, 26, 67, 2, 32, true, 8);
    run_core(k, 2, 1, 1, 1, 1, true, 4);
}
static void core_empty(const ff_kernels *k)
{
    kernel_draws = 600;
    run_core(k, 0, 3, 4, 2, 4, true, 4);
    run_core(k, 2, 0, 4, 2, 4, true, 4);
    run_core(k, 2, 3, 0, 2, 4, true, 4); /* no keys: zeros, not 0 / 0 */
    run_core(k, 2, 3, 4, 0, 4, false, 4);
}
/* no heads: the update is dropout * output_b */
static void no_heads(const ff_kernels *k)
{
    kernel_draws = 700;
    run_case(k, 2, 6, 5, 0, 4, NO_BIAS, 5);
}
/* any pointer of what is kept may be NULL */
static void keeps_of_any_kind(const ff_kernels *k)
{
    kernel_draws = 800;
    run_case(k, 2, 14, 16, 2, 8, KEEP_LSE, 6);
    run_case(k, 2, 14, 16, 2, 8, KEEP_OUTPUT, 6);
    run_case(k, 2, 14, 16, 2, 8, KEEP_ONLY_QKV, 6);
}

/* softmax over keys is blind to a constant: one number added to every bias changes nothing */
static void shifted_bias(const ff_kernels *k)
{
    enum { B = 2, L = 19, H = 2, W = 4, N = B * L * H * W };
    kernel_draws = 400;
    kernel_array q = kernel_array_make("q", N, 0, 1), key = kernel_array_make("k", N, 0, 1), v = kernel_array_make("v", N, 0, 1);
    kernel_array bias = kernel_array_make("bias", H * L * L, 0, 1);
    ff_attention_core_args args = {B, L, L, H, W, 0.5f, NULL, bias.x};
    float out[2][N];
    void *scratch = kernel_scratch(k->attention_core_scratch_bytes(&args, false));
    k->attention_core_forward(out[0], q.x, key.x, v.x, &args, scratch);
    for (int i = 0; i < H * L * L; i++)
        bias.x[i] += 2.0f;
    k->attention_core_forward(out[1], q.x, key.x, v.x, &args, scratch);
    free(scratch);
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = out[0][i];
    kernel_check(k, "out", out[1], want, N, k->dtype == FF_DTYPE_F32 ? 3e-6 : 1e-2);
    double reference_out[L * H * W];
    attend(reference_out, q.d, key.d, v.d, bias.d, NULL, L, H, W, 0.5);
    kernel_check(k, "first row", out[0], reference_out, L * H * W, k->dtype == FF_DTYPE_F32 ? 3e-6 : 2e-2);
    kernel_array_free(&q);
    kernel_array_free(&key);
    kernel_array_free(&v);
    kernel_array_free(&bias);
}

static void test_small_modules_equal_differences(void) { kernel_every_table(small_cases); }
static void test_wide_heads_equal_differences(void) { kernel_every_table(wide_cases); }
static void test_any_length(void) { kernel_every_table(any_length); }
static void test_4097_keys(void) { kernel_every_table(long_row); }
static void test_core_equals_differences(void) { kernel_every_table(core_cases); }
static void test_core_of_nothing(void) { kernel_every_table(core_empty); }
static void test_no_heads(void) { kernel_every_table(no_heads); }
static void test_any_part_may_be_kept(void) { kernel_every_table(keeps_of_any_kind); }
static void test_a_constant_bias_changes_nothing(void) { kernel_every_table(shifted_bias); }

static CU_TestInfo tests[] = {
    {"small_modules_equal_differences", test_small_modules_equal_differences},
    {"wide_heads_equal_differences", test_wide_heads_equal_differences},
    {"any_length", test_any_length},
    {"4097_keys", test_4097_keys},
    {"core_equals_differences", test_core_equals_differences},
    {"core_of_nothing", test_core_of_nothing},
    {"no_heads", test_no_heads},
    {"any_part_may_be_kept", test_any_part_may_be_kept},
    {"a_constant_bias_changes_nothing", test_a_constant_bias_changes_nothing},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_attention = {"kernels/attention", NULL, NULL, NULL, NULL, tests};
