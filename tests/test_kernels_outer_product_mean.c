/* suite kernels/outer_product_mean: project and product as one module against double loops and differences of them.
 *
 * What lies between the two entries (the layout of right) is theirs; the tests see it only as the gradients that product's
 * backward hands to project's, and by gathering columns from shards. */
#include "tests/kernel_case.h"

enum { NORM_SCALE, NORM_OFFSET, LEFT_W, LEFT_B, RIGHT_W, RIGHT_B, OUTPUT_W, OUTPUT_B, PARAMS };

typedef struct {
    int64_t S, R, first, rows, cm, c, cz; /* rows i first .. first + rows - 1 of R */
    bool transposed, residual;             /* msa stored [R, S, c_m]; pair as [j, i] */
    float *mask;                           /* [S, R], or NULL */
    kernel_array msa, pair, w[PARAMS];
    double *cotangent, *out; /* [rows, R, cz] */
} opm_case;

static int64_t msa_at(const opm_case *o, int64_t s, int64_t i) { return (o->transposed ? i * o->S + s : s * o->R + i) * o->cm; }
static int64_t pair_at(const opm_case *o, int64_t i, int64_t j)
{
    return (o->transposed ? j * o->rows + i : i * o->R + j) * o->cz;
}
static double mask_of(const opm_case *o, int64_t s, int64_t i) { return o->mask == NULL ? 1 : (double)o->mask[s * o->R + i]; }

/* side[i, s, c] of both projections */
static void sides(const opm_case *o, double *left, double *right)
{
    double *y = malloc((size_t)o->cm * sizeof *y + 1);
    for (int64_t s = 0; s < o->S; s++)
        for (int64_t i = 0; i < o->R; i++) {
            kernel_layer_norm(y, o->msa.d + msa_at(o, s, i), o->w[NORM_SCALE].d, o->w[NORM_OFFSET].d, o->cm);
            for (int64_t e = 0; e < o->c; e++) {
                double l = o->w[LEFT_B].d[e], r = o->w[RIGHT_B].d[e];
                for (int64_t k = 0; k < o->cm; k++) {
                    l += y[k] * o->w[LEFT_W].d[k * o->c + e];
                    r += y[k] * o->w[RIGHT_W].d[k * o->c + e];
                }
                left[(i * o->S + s) * o->c + e] = l * mask_of(o, s, i);
                right[(i * o->S + s) * o->c + e] = r * mask_of(o, s, i);
            }
        }
    free(y);
}

static double loss(void *arg)
{
    opm_case *o = arg;
    const int64_t S = o->S, c = o->c, n = o->R * S * c;
    double *left = malloc((size_t)n * sizeof *left + 1), *right = malloc((size_t)n * sizeof *right + 1);
    double *outer = malloc((size_t)(c * c) * sizeof *outer + 1), sum = 0;
    sides(o, left, right);
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->R; j++) {
            const double *l = left + (o->first + i) * S * c, *r = right + j * S * c;
            double norm = 1e-3;
            memset(outer, 0, (size_t)(c * c) * sizeof *outer);
            for (int64_t s = 0; s < S; s++) {
                norm += mask_of(o, s, o->first + i) * mask_of(o, s, j);
                for (int64_t a = 0; a < c * c; a++)
                    outer[a] += l[s * c + a / c] * r[s * c + a % c];
            }
            for (int64_t f = 0; f < o->cz; f++) {
                double v = o->w[OUTPUT_B].d[f];
                for (int64_t a = 0; a < c * c; a++)
                    v += outer[a] * o->w[OUTPUT_W].d[a * o->cz + f];
                v = v / norm + (o->residual ? o->pair.d[pair_at(o, i, j) + f] : 0);
                o->out[pair_at(o, i, j) + f] = v;
                sum += v * o->cotangent[pair_at(o, i, j) + f];
            }
        }
    free(outer);
    free(right);
    free(left);
    return sum;
}

/* Outputs in two parts, as 1 / norm is 1000 where no sequence covers a pair. */
static void check_output(const ff_kernels *k, const opm_case *o, const float *got)
{
    const double tolerance = k->dtype == FF_DTYPE_F32 ? 5e-6 : 2e-2;
    double worst[2] = {0, 0}, largest[2] = {0, 0};
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->R; j++) {
            double covered = 0;
            for (int64_t s = 0; s < o->S; s++)
                covered += mask_of(o, s, o->first + i) * mask_of(o, s, j);
            for (int64_t f = 0; f < o->cz; f++) {
                const int64_t at = pair_at(o, i, j) + f;
                const double e = fabs((double)got[at] - o->out[at]);
                if (!(e <= worst[covered > 0]))
                    worst[covered > 0] = e;
                largest[covered > 0] = fmax(largest[covered > 0], fabs(o->out[at]));
            }
        }
    for (int part = 0; part < 2; part++) {
        const int ok = worst[part] <= tolerance * largest[part];
        if (!ok)
            printf("\n    %s %s S %ld R %ld c %ld: %s pairs: error %.3g of the largest\n", ff_isa_name(k->isa),
                   k->dtype == FF_DTYPE_F32 ? "f32" : "bf16", (long)o->S, (long)o->R, (long)o->c,
                   part ? "covered" : "uncovered", worst[part] / largest[part]);
        CU_ASSERT_TRUE(ok);
    }
}

static void run_case(const ff_kernels *k, opm_case o, bool masked, int64_t samples)
{
    static const char *const names[PARAMS] = {"norm_scale",         "norm_offset",        "left_projection_w",
                                              "left_projection_b",  "right_projection_w", "right_projection_b",
                                              "output_w",           "output_b"};
    const int64_t S = o.S, R = o.R, cm = o.cm, c = o.c, n = S * R * cm, np = o.rows * R * o.cz, ns = R * S * c;
    const int64_t sizes[PARAMS] = {cm, cm, cm * c, c, cm * c, c, c * c * o.cz, o.cz};
    o.msa = kernel_array_make("msa", n, 0.2f, 1);
    o.pair = kernel_array_make("pair", np, 0, 1);
    for (int p = 0; p < PARAMS; p++)
        o.w[p] = kernel_array_make(names[p], sizes[p], p == NORM_SCALE ? 1 : 0.05f,
                                   p == OUTPUT_W ? 1 / (float)c : p < LEFT_W || p % 2 ? 0.3f : 1 / sqrtf((float)cm));
    kernel_array cotangent = kernel_array_make("cotangent", np, 0, 1);
    o.cotangent = cotangent.d;
    o.out = malloc((size_t)np * sizeof(double) + 1);
    o.mask = masked ? kernel_mask(S * R, 0.7f) : NULL;
    for (int64_t s = 0; masked && s < S; s++)
        o.mask[s * R + R / 2] = 0; /* one residue in no sequence */
    const ff_outer_product_mean_params w = {o.w[0].x, o.w[1].x, o.w[2].x, o.w[3].x, o.w[4].x, o.w[5].x, o.w[6].x, o.w[7].x};
    const ff_outer_product_mean_params g = {o.w[0].grad, o.w[1].grad, o.w[2].grad, o.w[3].grad,
                                            o.w[4].grad, o.w[5].grad, o.w[6].grad, o.w[7].grad};
    const ff_outer_product_project_args project = {S, R, cm, c, o.transposed ? cm : R * cm, o.transposed ? S * cm : cm,
                                                   o.mask, R, 1};
    float *by_residue = malloc((size_t)(S * R) * sizeof *by_residue + 1);
    for (int64_t i = 0; i < R; i++)
        for (int64_t s = 0; s < S; s++)
            by_residue[i * S + s] = (float)mask_of(&o, s, i);
    const ff_outer_product_args product = {S, o.rows, R, c, o.cz, by_residue + o.first * S, by_residue,
                                           o.transposed ? o.cz : R * o.cz, o.transposed ? o.rows * o.cz : o.cz, o.residual};
    void *left = kernel_operands(k, ns), *right = kernel_operands(k, ns);
    void *own = (char *)left + (size_t)(o.first * S * c) * k->operand_bytes;
    void *scratch = kernel_scratch(k->outer_product_mean_project_scratch_bytes(&project, false));
    /* two shards of residues, the right sides side by side: what a gather gives */
    const int64_t half = R / 3;
    for (int shard = 0; shard < 2; shard++) {
        ff_outer_product_project_args part = project;
        const int64_t from = shard ? half : 0;
        part.num_res = shard ? R - half : half;
        part.mask = o.mask == NULL ? NULL : o.mask + from;
        k->outer_product_mean_project_forward((char *)left + (size_t)(from * S * c) * k->operand_bytes,
                                              (char *)right + (size_t)(from * S * c) * k->operand_bytes,
                                              o.msa.x + from * project.stride_res, &w, &part, scratch);
    }
    free(scratch);
    float *out = malloc((size_t)np * sizeof *out + 1);
    memset(out, 0xff, (size_t)np * sizeof *out);
    scratch = kernel_scratch(k->outer_product_mean_product_scratch_bytes(&product, false));
    k->outer_product_mean_product_forward(out, o.pair.x, own, right, &w, &product, scratch);
    loss(&o);
    check_output(k, &o, out);
    if (o.residual) { /* in place */
        float *in_place = malloc((size_t)np * sizeof *out + 1);
        memcpy(in_place, o.pair.x, (size_t)np * sizeof *out);
        k->outer_product_mean_product_forward(in_place, in_place, own, right, &w, &product, scratch);
        CU_ASSERT_EQUAL(memcmp(in_place, out, (size_t)np * sizeof *out), 0);
        free(in_place);
    }
    free(scratch);
    if (samples > 0) {
        float *grad_left = calloc((size_t)ns + 1, sizeof *grad_left), *grad_right = calloc((size_t)ns + 1, sizeof *grad_right);
        scratch = kernel_scratch(k->outer_product_mean_product_scratch_bytes(&product, true));
        k->outer_product_mean_product_backward(grad_left + o.first * S * c, grad_right, &g, cotangent.x, own, right, &w,
                                               &product, scratch);
        free(scratch);
        scratch = kernel_scratch(k->outer_product_mean_project_scratch_bytes(&project, true));
        k->outer_product_mean_project_backward(o.msa.grad, &g, grad_left, grad_right, o.msa.x, &w, &project, scratch);
        const double tolerance = k->dtype == FF_DTYPE_F32 ? 5e-5 : 5e-2;
        kernel_check_gradient(k, &o.msa, loss, &o, samples, tolerance, 0.01);
        for (int p = 0; p < PARAMS; p++)
            kernel_check_gradient(k, &o.w[p], loss, &o, samples, tolerance, 0.01);
        kernel_array again = kernel_array_make("again", n, 0, 1); /* no parameter gradients wanted */
        k->outer_product_mean_project_backward(again.grad, NULL, grad_left, grad_right, o.msa.x, &w, &project, scratch);
        CU_ASSERT_EQUAL(memcmp(again.grad, o.msa.grad, (size_t)n * sizeof *out), 0);
        free(scratch);
        float *left2 = calloc((size_t)ns + 1, sizeof *left2), *right2 = calloc((size_t)ns + 1, sizeof *right2);
        scratch = kernel_scratch(k->outer_product_mean_product_scratch_bytes(&product, true));
        k->outer_product_mean_product_backward(left2 + o.first * S * c, right2, NULL, cotangent.x, own, right, &w, &product,
                                               scratch);
        CU_ASSERT_EQUAL(memcmp(left2, grad_left, (size_t)ns * sizeof *out), 0);
        CU_ASSERT_EQUAL(memcmp(right2, grad_right, (size_t)ns * sizeof *out), 0);
        free(scratch);
        kernel_array_free(&again);
        free(left2);
        free(right2);
        free(grad_left);
        free(grad_right);
    }
    free(out);
    free(right);
    free(left);
    free(by_residue);
    free(o.mask);
    free(o.out);
    kernel_array_free(&cotangent);
    kernel_array_free(&o.msa);
    kernel_array_free(&o.pair);
    for (int p = 0; p < PARAMS; p++)
        kernel_array_free(&o.w[p]);
}

static void all_sizes(const ff_kernels *k)
{
    /* S, R, first, rows, c_m, c_outer, c_z */
    static const int64_t sizes[][7] = {{3, 4, 0, 4, 6, 5, 3},   {0, 3, 0, 3, 8, 4, 5},    {1, 1, 0, 1, 16, 32, 16},
                                       {5, 7, 2, 3, 12, 12, 7}, {17, 3, 0, 0, 8, 5, 4},   {16, 11, 0, 11, 5, 16, 9},
                                       {15, 9, 4, 5, 17, 17, 12}, {97, 3, 0, 3, 12, 8, 5}, {200, 2, 1, 1, 7, 3, 4},
                                       {2, 70, 0, 3, 4, 3, 2},  {31, 3, 0, 2, 16, 32, 17}, {34, 10, 1, 9, 8, 32, 3},
                                       {4, 13, 0, 13, 33, 33, 1}, {8, 18, 0, 17, 4, 2, 128}, {130, 5, 0, 5, 6, 32, 4},
                                       {4, 0, 0, 0, 8, 2, 4},   {2, 67, 0, 67, 8, 2, 4}};
    kernel_draws = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *z = sizes[i];
        const opm_case o = {.S = z[0], .R = z[1], .first = z[2], .rows = z[3], .cm = z[4], .c = z[5], .cz = z[6],
                            .transposed = i % 2, .residual = i % 3 != 1};
        omp_set_num_threads(1 + (int)i % 3);
        run_case(k, o, i % 4 != 3, i < 1 ? 64 : z[5] > 16 ? 3 : 6);
    }
}
static void test_update_and_gradients_equal_differences(void) { kernel_every_table(all_sizes); }

static CU_TestInfo tests[] = {
    {"update_and_gradients_equal_differences", test_update_and_gradients_equal_differences},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_outer_product_mean = {"kernels/outer_product_mean", NULL, NULL, NULL, NULL, tests};
