/* suite kernels/triangle: triangle multiplication against double loops and differences of them. */
#include "tests/kernel_case.h"

enum { PARAMS = 16 };

typedef struct {
    int64_t num_i, num_j, num_k, c_z, ch; /* product: rows i of this shard, all rows j, k */
    bool incoming, residual, fused;
    float *mask, *dropout;
    kernel_array pair, w[PARAMS]; /* in the order of ff_triangle_multiplication_params */
    double *cotangent;
} tri_case;

static const char *const names[PARAMS] = {
    "norm_scale", "norm_offset", "left_projection_w", "left_projection_b", "right_projection_w", "right_projection_b",
    "left_gate_w", "left_gate_b", "right_gate_w", "right_gate_b", "center_norm_scale", "center_norm_offset",
    "output_projection_w", "output_projection_b", "gating_linear_w", "gating_linear_b"};

/* fused: left and right weights are halves of one array, which entries 2 (projection) and 6 (gate) hold */
static void make_case(tri_case *c)
{
    const int64_t sizes[PARAMS] = {c->c_z, c->c_z, c->c_z * c->ch, c->ch, c->c_z * c->ch, c->ch,
                                   c->c_z * c->ch, c->ch, c->c_z * c->ch, c->ch, c->ch, c->ch,
                                   c->ch * c->c_z, c->c_z, c->c_z * c->c_z, c->c_z};
    const int64_t P = c->num_i * c->num_j;
    c->pair = kernel_array_make("pair", P * c->c_z, 0.3f, 1.0f);
    for (int i = 0; i < PARAMS; i++) {
        const int64_t n = c->fused && (i == 2 || i == 6) ? 2 * sizes[i] : c->fused && (i == 4 || i == 8) ? 0 : sizes[i];
        const float spread = i == 0 || i == 1 || i == 10 || i == 11 || i % 2 ? 0.3f : 1.0f / sqrtf((float)c->c_z);
        c->w[i] = kernel_array_make(names[i], n, i == 0 || i == 10 ? 1.0f : 0.1f, spread);
    }
    c->mask = kernel_mask(P, 0.8f);
    for (int64_t j = 0; j < c->num_j && c->num_i > 1; j++)
        c->mask[j] = 0; /* a masked row */
    c->dropout = kernel_mask(c->num_j * c->c_z, 0.75f);
    for (int64_t i = 0; i < c->num_j * c->c_z; i++)
        c->dropout[i] *= 4.0f / 3.0f;
    kernel_array cotangent = kernel_array_make("cotangent", P * c->c_z, 0.0f, 1.0f);
    c->cotangent = cotangent.d;
    cotangent.d = NULL;
    kernel_array_free(&cotangent);
}
static void free_case(tri_case *c)
{
    kernel_array_free(&c->pair);
    for (int i = 0; i < PARAMS; i++)
        kernel_array_free(&c->w[i]);
    free(c->mask);
    free(c->dropout);
    free(c->cotangent);
}

static double weight(const tri_case *c, int side, int gate, int64_t k, int64_t n) /* side 0 left */
{
    if (c->fused)
        return c->w[gate ? 6 : 2].d[k * 2 * c->ch + side * c->ch + n];
    return c->w[(gate ? 6 : 2) + 2 * side].d[k * c->ch + n];
}

/* left, right [ch, num_i, num_j] of positions as stored, t [ch, ...], out; any may be NULL */
static void reference(const tri_case *c, double *left, double *right, double *t, double *out)
{
    const int64_t R = c->num_i, C = c->num_j, P = R * C;
    double *x = malloc((size_t)(P * c->c_z) * sizeof *x + 1), *side[2], *tt = malloc((size_t)(c->ch * R * R) * sizeof *tt + 1);
    for (int64_t p = 0; p < P; p++)
        kernel_layer_norm(x + p * c->c_z, c->pair.d + p * c->c_z, c->w[0].d, c->w[1].d, c->c_z);
    for (int s = 0; s < 2; s++) {
        side[s] = malloc((size_t)(c->ch * P) * sizeof(double) + 1);
        for (int64_t n = 0; n < c->ch; n++)
            for (int64_t p = 0; p < P; p++) {
                double v = c->w[3 + 2 * s].d[n], g = c->w[7 + 2 * s].d[n];
                for (int64_t k = 0; k < c->c_z; k++) {
                    v += x[p * c->c_z + k] * weight(c, s, 0, k, n);
                    g += x[p * c->c_z + k] * weight(c, s, 1, k, n);
                }
                side[s][n * P + p] = c->mask[p] * v / (1 + exp(-g));
            }
    }
    /* square: t[i, j] = sum_k left[i, k] right[j, k], or left[k, j] right[k, i] */
    for (int64_t n = 0; n < c->ch; n++)
        for (int64_t i = 0; i < R; i++)
            for (int64_t j = 0; j < R; j++) {
                double s = 0;
                for (int64_t k = 0; k < C; k++)
                    s += c->incoming ? side[0][n * P + k * C + j] * side[1][n * P + k * C + i]
                                     : side[0][n * P + i * C + k] * side[1][n * P + j * C + k];
                tt[(n * R + i) * R + j] = s;
            }
    if (out != NULL) {
        double *row = malloc((size_t)c->ch * sizeof *row + 1), *y = malloc((size_t)c->ch * sizeof *y + 1);
        for (int64_t p = 0; p < P; p++) {
            for (int64_t n = 0; n < c->ch; n++)
                row[n] = tt[n * P + p];
            kernel_layer_norm(y, row, c->w[10].d, c->w[11].d, c->ch);
            for (int64_t k = 0; k < c->c_z; k++) {
                double o = c->w[13].d[k], g = c->w[15].d[k];
                for (int64_t n = 0; n < c->ch; n++)
                    o += y[n] * c->w[12].d[n * c->c_z + k];
                for (int64_t n = 0; n < c->c_z; n++)
                    g += x[p * c->c_z + n] * c->w[14].d[n * c->c_z + k];
                const double drop = c->dropout == NULL ? 1.0 : (double)c->dropout[p % C * c->c_z + k];
                out[p * c->c_z + k] = (c->residual ? c->pair.d[p * c->c_z + k] : 0) + drop * o / (1 + exp(-g));
            }
        }
        free(row);
        free(y);
    }
    if (left != NULL)
        memcpy(left, side[0], (size_t)(c->ch * P) * sizeof *left);
    if (right != NULL)
        memcpy(right, side[1], (size_t)(c->ch * P) * sizeof *right);
    if (t != NULL)
        memcpy(t, tt, (size_t)(c->ch * R * R) * sizeof *t);
    free(tt);
    free(side[0]);
    free(side[1]);
    free(x);
}

static double loss(void *arg)
{
    const tri_case *c = arg;
    const int64_t n = c->num_i * c->num_j * c->c_z;
    double *out = malloc((size_t)n * sizeof *out + 1), s = 0;
    reference(c, NULL, NULL, NULL, out);
    for (int64_t i = 0; i < n; i++)
        s += out[i] * c->cotangent[i];
    free(out);
    return s;
}

static ff_triangle_multiplication_params pointers(tri_case *c, bool grad)
{
    float *p[PARAMS];
    for (int i = 0; i < PARAMS; i++)
        p[i] = grad ? c->w[i].grad : c->w[i].x;
    if (c->fused) {
        p[4] = p[2] + c->ch;
        p[8] = p[6] + c->ch;
    }
    return (ff_triangle_multiplication_params){p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11],
                                               p[12], p[13], p[14], p[15], c->fused ? 2 * c->ch : c->ch};
}

static void check_operands(const ff_kernels *k, const char *what, const void *got, const double *want, int64_t n,
                           double tolerance)
{
    float *f = malloc((size_t)n * sizeof *f + 1);
    for (int64_t i = 0; i < n; i++)
        f[i] = kernel_operand_get(k, got, i);
    kernel_check(k, what, f, want, n, tolerance);
    free(f);
}

/* A whole square module: project, product (b in `blocks` pieces, t in place of a when in_place), output, and back. */
static void run_case(const ff_kernels *k, tri_case *c, int blocks, bool in_place, int64_t samples)
{
    const bool f32 = k->dtype == FF_DTYPE_F32;
    const double forward = f32 ? 4e-6 : 2e-2, backward = f32 ? 3e-5 : 5e-2; /* rounding of operands, then sums */
    const int64_t R = c->num_i, P = R * R, n = P * c->c_z;
    const ff_triangle_multiplication_params w = pointers(c, false), grad = pointers(c, true);
    ff_triangle_multiplication_args project = {R, R, c->c_z, c->ch, R * c->c_z, c->c_z, c->mask, R, 1, NULL, false};
    if (c->incoming) {
        project.stride_i = c->c_z;
        project.stride_j = R * c->c_z;
        project.mask_stride_i = 1;
        project.mask_stride_j = R;
    }
    const ff_triangle_multiplication_args output = {R, R, c->c_z, c->ch, R * c->c_z, c->c_z, NULL, 0, 0, c->dropout,
                                                    c->residual};
    double *left = malloc((size_t)(c->ch * P) * sizeof *left + 1), *right = malloc((size_t)(c->ch * P) * sizeof *right + 1);
    double *t = malloc((size_t)(c->ch * P) * sizeof *t + 1), *out = malloc((size_t)n * sizeof *out + 1);
    reference(c, left, right, t, out);
    void *sides[2] = {kernel_operands(k, c->ch * P), kernel_operands(k, c->ch * P)};
    size_t bytes = k->triangle_multiplication_scratch_bytes(&project, false);
    void *scratch = kernel_scratch(bytes);
    k->triangle_multiplication_project_forward(sides[0], sides[1], c->pair.x, &w, &project, scratch);
    free(scratch);
    double *stored[2] = {left, right};
    for (int s = 0; s < 2; s++) { /* the incoming update's operands are transposed */
        double *want = malloc((size_t)(c->ch * P) * sizeof *want + 1);
        for (int64_t e = 0; e < c->ch * P; e++) {
            const int64_t p = e % P;
            want[e] = stored[s][e - p + (c->incoming ? p % R * R + p / R : p)];
        }
        check_operands(k, s == 0 ? "left" : "right", sides[s], want, c->ch * P, forward);
        free(want);
    }
    void *a = c->incoming ? sides[1] : sides[0], *b = c->incoming ? sides[0] : sides[1];

    /* b in blocks of unequal rows */
    ff_operand_block block[8];
    void *pieces[8], *grad_pieces[8];
    int64_t row = 0;
    for (int q = 0; q < blocks; q++) {
        const int64_t rows = q + 1 == blocks ? R - row : (R - row) / 2;
        pieces[q] = kernel_operands(k, c->ch * rows * R);
        grad_pieces[q] = kernel_operands(k, c->ch * rows * R);
        for (int64_t ch = 0; ch < c->ch; ch++)
            memcpy((char *)pieces[q] + (size_t)(ch * rows * R) * k->operand_bytes,
                   (char *)b + (size_t)(ch * P + row * R) * k->operand_bytes, (size_t)(rows * R) * k->operand_bytes);
        block[q] = (ff_operand_block){pieces[q], rows};
        row += rows;
    }
    const ff_triangle_product_args product = {c->ch, R, R, blocks, block};
    void *a_kept = kernel_operands(k, c->ch * P), *tk = in_place ? a : kernel_operands(k, c->ch * P);
    memcpy(a_kept, a, (size_t)(c->ch * P) * k->operand_bytes);
    scratch = kernel_scratch(k->triangle_product_scratch_bytes(&product, false));
    k->triangle_multiplication_product_forward(tk, a, &product, scratch);
    free(scratch);
    check_operands(k, "t", tk, t, c->ch * P, f32 ? 1e-5 : 3e-2);

    float *got = malloc((size_t)n * sizeof *got + 1);
    memcpy(got, c->pair.x, (size_t)n * sizeof *got);
    scratch = kernel_scratch(k->triangle_multiplication_scratch_bytes(&output, false));
    k->triangle_multiplication_output_forward(got, in_place ? got : c->pair.x, tk, &w, &output, scratch);
    free(scratch);
    /* a layer norm of a single channel gives rounding noise over sqrt(epsilon) */
    kernel_check(k, "out", got, out, n, f32 ? 2e-5 : 4e-2);

    /* back */
    float *grad_out = malloc((size_t)n * sizeof *grad_out + 1), *grad_pair = c->pair.grad;
    for (int64_t i = 0; i < n; i++)
        grad_out[i] = (float)c->cotangent[i];
    const bool shared = in_place && c->residual; /* grad_pair == grad_out: the residual's part is there */
    if (shared)
        memcpy(grad_pair, grad_out, (size_t)n * sizeof *grad_out);
    void *grad_t = in_place ? tk : kernel_operands(k, c->ch * P);
    scratch = kernel_scratch(k->triangle_multiplication_scratch_bytes(&output, true));
    k->triangle_multiplication_output_backward(grad_t, grad_pair, &grad, shared ? grad_pair : grad_out, c->pair.x, tk, &w,
                                               &output, scratch);
    free(scratch);
    void *grad_a = in_place ? grad_t : kernel_operands(k, c->ch * P), *grad_b = kernel_operands(k, c->ch * P);
    scratch = kernel_scratch(k->triangle_product_scratch_bytes(&product, true));
    k->triangle_multiplication_product_backward(grad_a, grad_pieces, grad_t, a_kept, &product, scratch);
    free(scratch);
    row = 0;
    for (int q = 0; q < blocks; q++) {
        for (int64_t ch = 0; ch < c->ch; ch++)
            memcpy((char *)grad_b + (size_t)(ch * P + row * R) * k->operand_bytes,
                   (char *)grad_pieces[q] + (size_t)(ch * block[q].rows * R) * k->operand_bytes,
                   (size_t)(block[q].rows * R) * k->operand_bytes);
        row += block[q].rows;
    }
    const void *grad_left = c->incoming ? grad_b : grad_a, *grad_right = c->incoming ? grad_a : grad_b;
    const void *left_kept = c->incoming ? b : a_kept, *right_kept = c->incoming ? a_kept : b;
    scratch = kernel_scratch(k->triangle_multiplication_scratch_bytes(&project, true));
    k->triangle_multiplication_project_backward(grad_pair, &grad, grad_left, grad_right, left_kept, right_kept, c->pair.x,
                                                &w, &project, scratch);
    free(scratch);
    if (shared)
        for (int64_t i = 0; i < n; i++)
            grad_pair[i] += kernel_grad_start;
    /* a gradient that cancels is measured against a hundredth of an ordinary one */
    const double floor = 0.02 * sqrt((double)(n > 0 ? n : 1));
    if (n > 0 && samples > 0) {
        kernel_check_gradient(k, &c->pair, loss, c, samples, backward, 0.02);
        for (int i = 0; i < PARAMS; i++)
            kernel_check_gradient(k, &c->w[i], loss, c, samples, backward, floor);
    }
    kernel_array_reset_grad(&c->pair);
    for (int i = 0; i < PARAMS; i++)
        kernel_array_reset_grad(&c->w[i]);

    free(grad_b);
    if (!in_place) {
        free(grad_a);
        free(grad_t);
        free(tk);
    }
    free(a_kept);
    free(sides[0]);
    free(sides[1]);
    for (int q = 0; q < blocks; q++) {
        free(pieces[q]);
        free(grad_pieces[q]);
    }
    free(grad_out);
    free(got);
    free(left);
    free(right);
    free(t);
    free(out);
}

static void small_case(const ff_kernels *k)
{
    kernel_draws = 0;
    for (int variant = 0; variant < 8; variant++) {
        tri_case c = {5, 5, 5, 12, 6, variant & 1, variant & 2, variant & 4, NULL, NULL, {0}, {{0}}, NULL};
        make_case(&c);
        omp_set_num_threads(1 + variant % 3);
        run_case(k, &c, 1 + variant % 3, variant & 1, 24);
        free_case(&c);
    }
}
static void test_module_and_gradients_equal_differences(void) { kernel_every_table(small_case); }

static void odd_sizes(const ff_kernels *k)
{
    static const int64_t sizes[][3] = {{0, 12, 6}, {1, 12, 6}, {2, 3, 5},   {15, 16, 17}, {16, 17, 16},
                                       {17, 5, 4}, {7, 33, 1}, {13, 32, 32}, {19, 64, 48}};
    kernel_draws = 100;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t R = sizes[i][0];
        tri_case c = {R, R, R, sizes[i][1], sizes[i][2], i & 1, true, false, NULL, NULL, {0}, {{0}}, NULL};
        make_case(&c);
        omp_set_num_threads(1 + (int)(i % 2));
        run_case(k, &c, R > 2 ? 2 : 1, i & 1, 3);
        free_case(&c);
    }
}
static void test_odd_sizes(void) { kernel_every_table(odd_sizes); }

static void real_channels(const ff_kernels *k)
{
    kernel_draws = 200;
    tri_case c = {37, 37, 37, 128, 128, true, true, false, NULL, NULL, {0}, {{0}}, NULL};
    make_case(&c);
    omp_set_num_threads(2);
    run_case(k, &c, 1, true, 0);
    free_case(&c);
}
static void test_true_channels_on_a_prime_length(void) { kernel_every_table(real_channels); }

/* product alone where rows differ from columns, in blocks with odd and empty ones, and with a long K */
static void uneven_product(const ff_kernels *k)
{
    enum { I = 14, K = 1021, C = 2, BLOCKS = 4 };
    static const int64_t rows[BLOCKS] = {33, 0, 5, 20};
    const int64_t J = 58;
    kernel_draws = 300;
    kernel_array a = kernel_array_make("a", C * I * K, 0, 1), b = kernel_array_make("b", C * J * K, 0, 1);
    kernel_array gt = kernel_array_make("grad_t", C * I * J, 0, 1);
    void *ak = kernel_operands(k, a.n), *gtk = kernel_operands(k, gt.n), *t = kernel_operands(k, gt.n);
    void *grad_a = kernel_operands(k, a.n), *grad_b[BLOCKS];
    ff_operand_block block[BLOCKS];
    for (int64_t i = 0; i < a.n; i++) { /* numbers that are exact in bf16 */
        a.d[i] = a.x[i] = (float)((int)(a.x[i] * 8)) / 8;
    }
    for (int64_t i = 0; i < b.n; i++)
        b.d[i] = b.x[i] = (float)((int)(b.x[i] * 8)) / 8;
    for (int64_t i = 0; i < gt.n; i++)
        gt.d[i] = gt.x[i] = (float)((int)(gt.x[i] * 8)) / 8;
    const size_t es = k->operand_bytes;
#define TO_OPERAND(dst, index, value)                                                                                  \
    do {                                                                                                               \
        uint32_t bits;                                                                                                 \
        memcpy(&bits, &(value), 4);                                                                                    \
        if (es == 4) {                                                                                                 \
            memcpy((char *)(dst) + 4 * (index), &bits, 4);                                                             \
        } else {                                                                                                       \
            const uint16_t half = (uint16_t)(bits >> 16);                                                              \
            memcpy((char *)(dst) + 2 * (index), &half, 2);                                                             \
        }                                                                                                              \
    } while (0)
    for (int64_t i = 0; i < a.n; i++)
        TO_OPERAND(ak, i, a.x[i]);
    for (int64_t i = 0; i < gt.n; i++)
        TO_OPERAND(gtk, i, gt.x[i]);
    int64_t j0 = 0;
    for (int q = 0; q < BLOCKS; q++) {
        void *p = kernel_operands(k, C * rows[q] * K);
        for (int64_t c = 0; c < C; c++)
            for (int64_t e = 0; e < rows[q] * K; e++)
                TO_OPERAND(p, c * rows[q] * K + e, b.x[(c * J + j0) * K + e]);
        block[q] = (ff_operand_block){p, rows[q]};
        grad_b[q] = kernel_operands(k, C * rows[q] * K);
        j0 += rows[q];
    }
    const ff_triangle_product_args args = {C, I, K, BLOCKS, block};
    void *scratch = kernel_scratch(k->triangle_product_scratch_bytes(&args, false));
    k->triangle_multiplication_product_forward(t, ak, &args, scratch);
    free(scratch);
    scratch = kernel_scratch(k->triangle_product_scratch_bytes(&args, true));
    k->triangle_multiplication_product_backward(grad_a, grad_b, gtk, ak, &args, scratch);
    free(scratch);
    double *want_t = calloc((size_t)gt.n, sizeof *want_t), *want_a = calloc((size_t)a.n, sizeof *want_a);
    double *want_b = calloc((size_t)b.n, sizeof *want_b);
    for (int64_t c = 0; c < C; c++)
        for (int64_t i = 0; i < I; i++)
            for (int64_t j = 0; j < J; j++)
                for (int64_t q = 0; q < K; q++) {
                    want_t[(c * I + i) * J + j] += a.d[(c * I + i) * K + q] * b.d[(c * J + j) * K + q];
                    want_a[(c * I + i) * K + q] += gt.d[(c * I + i) * J + j] * b.d[(c * J + j) * K + q];
                    want_b[(c * J + j) * K + q] += gt.d[(c * I + i) * J + j] * a.d[(c * I + i) * K + q];
                }
    const double tolerance = es == 4 ? 1e-6 : 4e-3; /* bf16: the result's own rounding */
    check_operands(k, "t", t, want_t, gt.n, tolerance);
    check_operands(k, "grad_a", grad_a, want_a, a.n, tolerance);
    j0 = 0;
    for (int q = 0; q < BLOCKS; q++) {
        for (int64_t c = 0; c < C; c++)
            check_operands(k, "grad_b", (char *)grad_b[q] + (size_t)(c * rows[q] * K) * es, want_b + (c * J + j0) * K,
                           rows[q] * K, tolerance);
        j0 += rows[q];
        free(grad_b[q]);
        free((void *)(uintptr_t)block[q].data);
    }
    free(want_b);
    free(want_a);
    free(want_t);
    free(grad_a);
    free(t);
    free(gtk);
    free(ak);
    kernel_array_free(&gt);
    kernel_array_free(&b);
    kernel_array_free(&a);
}
static void test_product_of_uneven_blocks(void) { kernel_every_table(uneven_product); }

static CU_TestInfo tests[] = {
    {"module_and_gradients_equal_differences", test_module_and_gradients_equal_differences},
    {"odd_sizes", test_odd_sizes},
    {"true_channels_on_a_prime_length", test_true_channels_on_a_prime_length},
    {"product_of_uneven_blocks", test_product_of_uneven_blocks},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_triangle = {"kernels/triangle", NULL, NULL, NULL, NULL, tests};
