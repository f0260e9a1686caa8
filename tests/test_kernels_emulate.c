/* suite kernels/emulate: the CUDA kernels, run on the CPU by the emulator, against plain loops in double precision, in
 * several orders of blocks and threads; and deliberate mistakes, each of which has to be seen.
 *
 * Contents
 *   1. arrays with guard words, random numbers, comparison
 *   2. layer_norm, softmax
 *   3. attention_core, gated_attention, pair_bias
 *   4. faults */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/emulate/control.h"
#include "kernels/kernels.h"
#include "tests/emulate_faults.h"

const ff_kernels *ff_kernels_emulated(ff_dtype dtype);

/* ---- 1. arrays ---- */

enum { MAX_ARRAYS = 64, GUARD_FLOATS = 16, NUM_SEEDS = 4 };

static float *blocks[MAX_ARRAYS]; /* of the running test; freed by tear_down */
static int64_t block_sizes[MAX_ARRAYS];
static int num_blocks;
static uint64_t random_state;

static const float guard = -7.25e30f;

/* n floats of NaN between guard words, 64-byte aligned plus `shift` floats. */
static float *array_shifted(int64_t n, int shift)
{
    const int64_t size = n + 2 * GUARD_FLOATS + shift;
    float *block = aligned_alloc(64, ((size_t)size * sizeof(float) + 63) / 64 * 64);
    CU_ASSERT_FATAL(block != NULL && num_blocks < MAX_ARRAYS);
    for (int64_t i = 0; i < size; i++)
        block[i] = i < GUARD_FLOATS + shift || i >= GUARD_FLOATS + shift + n ? guard : NAN;
    blocks[num_blocks] = block;
    block_sizes[num_blocks++] = n + shift;
    return block + GUARD_FLOATS + shift;
}

static float *array(int64_t n) { return array_shifted(n, 0); }

static void release(void)
{
    for (; num_blocks > 0; num_blocks--) {
        const float *block = blocks[num_blocks - 1];
        for (int i = 0; i < GUARD_FLOATS; i++) {
            CU_ASSERT_EQUAL(block[i], guard);
            CU_ASSERT_EQUAL(block[GUARD_FLOATS + block_sizes[num_blocks - 1] + i], guard);
        }
        free(blocks[num_blocks - 1]);
    }
}

static void set_up(void) { random_state = 20210715; }

static void tear_down(void)
{
    release();
    ff_emulate_set_seed(0);
}

static double uniform(void) /* in (-1, 1) */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) / 4503599627370496.0 - 1.0;
}

static float *random_array(int64_t n, double size)
{
    float *a = array(n);
    for (int64_t i = 0; i < n; i++)
        a[i] = (float)(size * uniform());
    return a;
}

/* Ones and zeros; row `masked_row` of `columns` entries is wholly masked. */
static float *random_mask(int64_t rows, int64_t columns, int64_t masked_row)
{
    float *a = array(rows * columns);
    for (int64_t i = 0; i < rows * columns; i++)
        a[i] = i / (columns > 0 ? columns : 1) != masked_row && uniform() > -0.5;
    return a;
}

/* |got - want| <= tolerance * max|want|; the message names the worst element. */
static void check_close(const char *what, const float *got, const double *want, int64_t n,
                        double tolerance)
{
    double largest = 0, worst = 0;
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++) {
        const double error = fabs(got[i] - want[i]);
        largest = fmax(largest, fabs(want[i]));
        if (!(error <= worst)) { /* NaN too */
            worst = error;
            at = i;
            if (isnan(error))
                break;
        }
    }
    const bool close = !(worst > tolerance * largest) && !isnan(worst);
    if (!close)
        fprintf(stderr,
                "\n    %s: element %lld is %.9g, expected %.9g (largest %.3g, tolerance %.1g)\n",
                what, (long long)at, (double)got[at], want[at], largest, tolerance);
    CU_ASSERT(close);
}

static double *doubles(int64_t n) { return (double *)(void *)array(2 * n); }

/* ---- 2. layer_norm, softmax ---- */

static void normalise(double *y, const float *x, int64_t c, const float *scale, const float *offset)
{
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < c; i++)
        mean += (double)x[i] / (double)c;
    for (int64_t i = 0; i < c; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)c;
    for (int64_t i = 0; i < c; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * scale[i] + offset[i];
}

static void test_layer_norm_equals_a_loop_for_any_size(void)
{
    static const int64_t widths[] = {1, 2, 3, 16, 20, 127, 128, 132, 256, 257, 384, 512, 516, 1031};
    static const int64_t row_counts[] = {0, 1, 3, 13};
    const ff_kernels *k = ff_kernels_emulated(FF_DTYPE_F32);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t j = 0; j < sizeof row_counts / sizeof *row_counts; j++)
            for (int shift = 0; shift < 2; shift++) {
                const int64_t c = widths[i], rows = row_counts[j];
                ff_emulate_set_seed(i + j);
                float *x = array_shifted(rows * c, shift), *y = array(rows * c);
                for (int64_t e = 0; e < rows * c; e++)
                    x[e] = (float)(3 * uniform() + 5);
                const ff_layer_norm_params w = {random_array(c, 1), random_array(c, 1)};
                double *want = doubles(rows * c);
                for (int64_t r = 0; r < rows; r++)
                    normalise(want + r * c, x + r * c, c, w.scale, w.offset);
                k->layer_norm_forward(y, x, &w, rows, c);
                /* two or three values near 5 may differ by little: their rounding, 3e-7, shows in the quotient */
                check_close("layer_norm", y, want, rows * c, 2e-5);
                k->layer_norm_forward(x, x, &w, rows, c);
                CU_ASSERT(rows == 0 || memcmp(x, y, (size_t)(rows * c) * sizeof *x) == 0 ||
                          shift == 1);
                check_close("layer_norm in place", x, want, rows * c, 2e-5);
                release();
            }
}

static void test_softmax_equals_a_loop_for_any_size(void)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1},   {2, 3, 5, 31},  {3, 2, 4, 33},
                                        {2, 1, 3, 128}, {2, 2, 2, 129}, {2, 1, 2, 512},
                                        {2, 2, 3, 513}, {0, 2, 3, 4},   {2, 2, 3, 0}};
    const ff_kernels *k = ff_kernels_emulated(FF_DTYPE_F32);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int options = 0; options < 4; options++) {
            const int64_t *s = shapes[i], rows = s[0] * s[1] * s[2], n = rows * s[3];
            ff_emulate_set_seed(i + (size_t)options);
            float *x = random_array(n, 4), *y = array(n);
            const float *mask = options & 1 ? random_mask(s[0], s[3], s[0] - 1) : NULL;
            const float *bias = options & 2 ? random_array(s[1] * s[2] * s[3], 2) : NULL;
            double *want = doubles(n);
            for (int64_t r = 0; r < rows; r++) {
                const int64_t b = r / (s[1] * s[2]), hq = r % (s[1] * s[2]);
                double largest = -INFINITY, sum = 0;
                for (int64_t j = 0; j < s[3]; j++) {
                    double v = x[r * s[3] + j] + (bias != NULL ? bias[hq * s[3] + j] : 0);
                    v = mask != NULL && mask[b * s[3] + j] == 0 ? -1e9 : v;
                    want[r * s[3] + j] = v;
                    largest = fmax(largest, v);
                }
                for (int64_t j = 0; j < s[3]; j++)
                    sum += want[r * s[3] + j] = exp(want[r * s[3] + j] - largest);
                for (int64_t j = 0; j < s[3]; j++)
                    want[r * s[3] + j] /= sum;
            }
            k->softmax_forward(y, x, mask, bias, s[0], s[1], s[2], s[3]);
            check_close("softmax", y, want, n, 2e-6);
            for (int64_t r = 0; r < rows && s[3] > 0; r++) {
                double sum = 0;
                for (int64_t j = 0; j < s[3]; j++)
                    sum += y[r * s[3] + j];
                CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-5);
            }
            k->softmax_forward(x, x, mask, bias, s[0], s[1], s[2], s[3]);
            CU_ASSERT(n == 0 || memcmp(x, y, (size_t)n * sizeof *x) == 0);
            release();
        }
}

/* ---- 3. attention ---- */

/* out [c] and the log of the sum of one query; key j at j * stride. mask_stride as in the table. */
static double attend(double *out, const double *q, const double *k, const double *v,
                     int64_t num_key, int64_t stride, int64_t c, double scale, const float *mask,
                     int64_t mask_stride, const float *bias)
{
    double *logits = malloc(sizeof(double) * (size_t)(num_key + 1)), largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < num_key; j++) {
        logits[j] = bias != NULL ? bias[j] : 0;
        for (int64_t d = 0; d < c; d++)
            logits[j] += scale * q[d] * k[j * stride + d];
        if (mask != NULL && mask[j * mask_stride] == 0)
            logits[j] = -1e9;
        largest = fmax(largest, logits[j]);
    }
    for (int64_t j = 0; j < num_key; j++)
        sum += logits[j] = exp(logits[j] - largest);
    for (int64_t d = 0; d < c; d++) {
        out[d] = 0;
        for (int64_t j = 0; j < num_key; j++)
            out[d] += logits[j] / sum * v[j * stride + d];
    }
    free(logits);
    return largest + log(sum);
}

static double *to_doubles(const float *x, int64_t n)
{
    double *y = doubles(n);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
    return y;
}

static void check_attention_core(const ff_kernels *k, const int64_t *s, int options)
{
    ff_attention_core_args a = {s[0], s[1], s[2], s[3], s[4], (float)(1 / sqrt((double)s[4])),
                                NULL, NULL};
    const int64_t width = a.num_head * a.c_hidden, n = a.batch * a.num_query * width;
    const float *q = random_array(n, 2), *key = random_array(a.batch * a.num_key * width, 2);
    const float *value = random_array(a.batch * a.num_key * width, 1);
    a.mask = options & 1 ? random_mask(a.batch, a.num_key, a.batch - 1) : NULL;
    a.bias = options & 2 ? random_array(a.num_head * a.num_query * a.num_key, 1) : NULL;
    float *out = array(n);
    double *want = doubles(n), *q64 = to_doubles(q, n);
    double *k64 = to_doubles(key, a.batch * a.num_key * width),
           *v64 = to_doubles(value, a.batch * a.num_key * width);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t i = 0; i < a.num_query; i++)
            for (int64_t h = 0; h < a.num_head; h++) {
                const int64_t at = (b * a.num_query + i) * width + h * a.c_hidden;
                const int64_t first = b * a.num_key * width + h * a.c_hidden;
                attend(want + at, q64 + at, k64 + first, v64 + first, a.num_key, width, a.c_hidden,
                       a.scale, a.mask != NULL ? a.mask + b * a.num_key : NULL, 1,
                       a.bias != NULL ? a.bias + (h * a.num_query + i) * a.num_key : NULL);
            }
    k->attention_core_forward(out, q, key, value, &a, NULL);
    check_close("attention_core", out, want, n, k->dtype == FF_DTYPE_BF16 ? 2e-2 : 2e-6);
    release();
}

static void test_attention_core_equals_a_loop_for_any_size(void)
{
    /* batch, queries, keys, heads, head width: one and several key tiles, widths of one and several chunks */
    static const int64_t shapes[][5] = {{1, 1, 1, 1, 1},    {2, 5, 7, 3, 3},    {1, 64, 64, 2, 32},
                                        {2, 65, 129, 1, 8}, {1, 17, 70, 2, 16}, {2, 3, 37, 2, 30},
                                        {1, 66, 33, 1, 64}, {1, 9, 67, 2, 70},  {1, 7, 100, 1, 136},
                                        {2, 3, 0, 2, 4},    {0, 3, 2, 2, 4},    {2, 0, 3, 2, 4}};
    for (int dtype = 0; dtype < 2; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int options = 0; options < 4; options++) {
                ff_emulate_set_seed(i + (size_t)options);
                check_attention_core(ff_kernels_emulated((ff_dtype)dtype), shapes[i], options);
            }
}

enum {
    NO_NORM = 1,
    NO_GATE = 2,
    NO_BIAS = 4,
    NO_MASK = 8,
    DROPOUT = 16,
    RESIDUAL = 32,
    COLUMNS = 64,
    KEEP = 128
};

static float operand(const ff_kernels *k, const void *array_, int64_t i)
{
    if (k->dtype == FF_DTYPE_F32)
        return ((const float *)array_)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)array_)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* x row (c_in) times weights [c_in, width] */
static void project(double *y, const double *x, const float *weights, int64_t c_in, int64_t width)
{
    for (int64_t n = 0; n < width; n++) {
        y[n] = 0;
        for (int64_t c = 0; c < c_in; c++)
            y[n] += x[c] * weights[c * width + n];
    }
}

static void check_kept(const ff_kernels *k, const char *what, const void *got, const double *want,
                       int64_t n, double tolerance)
{
    float *values = array(n);
    for (int64_t i = 0; i < n; i++)
        values[i] = operand(k, got, i);
    check_close(what, values, want, n, tolerance);
}

static void check_gated_attention(const ff_kernels *k, const int64_t *s, int options)
{
    ff_gated_attention_args a = {
        .batch = s[0], .length = s[1], .c_in = s[2], .num_head = s[3], .c_hidden = s[4]};
    const int64_t rows = a.batch * a.length, n = rows * a.c_in, c = a.c_hidden,
                  width = a.num_head * c;
    const double tolerance = k->dtype == FF_DTYPE_BF16 ? 2e-2 : 4e-6,
                 fit = 1.5 / sqrt((double)a.c_in);
    const bool columns = options & COLUMNS;
    a.stride_batch = columns ? a.c_in : a.length * a.c_in;
    a.stride_length = columns ? a.batch * a.c_in : a.c_in;
    a.mask_stride_batch = columns ? 1 : a.length;
    a.mask_stride_length = columns ? a.batch : 1;
    a.residual = options & RESIDUAL;
    ff_attention_params w = {0};
    if (!(options & NO_NORM)) {
        w.query_norm_scale = random_array(a.c_in, 1);
        w.query_norm_offset = random_array(a.c_in, 1);
    }
    w.query_w = random_array(a.c_in * width, fit);
    w.key_w = random_array(a.c_in * width, fit);
    w.value_w = random_array(a.c_in * width, fit);
    if (!(options & NO_GATE)) {
        w.gating_w = random_array(a.c_in * width, fit);
        w.gating_b = random_array(width, 1);
    }
    w.output_w = random_array(width * a.c_in, 1);
    w.output_b = random_array(a.c_in, 1);
    float *x = random_array(n, 1), *out = array(n);
    float *mask =
        random_mask(a.batch, a.length, a.batch - 1); /* [batch, length] or its transpose */
    for (int64_t i = 0; columns && i < rows; i++)
        mask[i] = i % a.batch != a.batch - 1 && uniform() > -0.5;
    a.mask = options & NO_MASK ? NULL : mask;
    a.bias = options & NO_BIAS ? NULL : random_array(a.num_head * a.length * a.length, 1);
    float *dropout = random_array(a.length * a.c_in, 1);
    for (int64_t i = 0; i < a.length * a.c_in; i++)
        dropout[i] = dropout[i] > 0.5f ? 0.0f : 1.25f;
    a.dropout = options & DROPOUT ? dropout : NULL;

    double *input = doubles(a.c_in), *q = doubles(rows * width), *key = doubles(rows * width);
    double *value = doubles(rows * width), *gate = doubles(rows * width),
           *o = doubles(rows * width);
    double *lse = doubles(a.batch * a.num_head * a.length), *want = doubles(n),
           *update = doubles(a.c_in);
    double *q_kept = doubles(rows * width), *k_kept = doubles(rows * width),
           *v_kept = doubles(rows * width);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r / a.length * a.stride_batch + r % a.length * a.stride_length;
        for (int64_t e = 0; e < a.c_in; e++)
            input[e] = row[e];
        if (w.query_norm_scale != NULL)
            normalise(input, row, a.c_in, w.query_norm_scale, w.query_norm_offset);
        project(q + r * width, input, w.query_w, a.c_in, width);
        project(key + r * width, input, w.key_w, a.c_in, width);
        project(value + r * width, input, w.value_w, a.c_in, width);
        if (w.gating_w != NULL)
            project(gate + r * width, input, w.gating_w, a.c_in, width);
        for (int64_t e = 0; e < width; e++) {
            const int64_t at =
                ((r / a.length * a.num_head + e / c) * a.length + r % a.length) * c + e % c;
            gate[r * width + e] =
                w.gating_w != NULL ? 1 / (1 + exp(-gate[r * width + e] - w.gating_b[e])) : 1;
            q[r * width + e] /= sqrt((double)c);
            q_kept[at] = q[r * width + e];
            k_kept[at] = key[r * width + e];
            v_kept[at] = value[r * width + e];
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t b = r / a.length, l = r % a.length, first = b * a.length * width;
        for (int64_t h = 0; h < a.num_head; h++)
            lse[(b * a.num_head + h) * a.length + l] = attend(
                o + r * width + h * c, q + r * width + h * c, key + first + h * c,
                value + first + h * c, a.length, width, c, 1,
                a.mask != NULL ? a.mask + b * a.mask_stride_batch : NULL, a.mask_stride_length,
                a.bias != NULL ? a.bias + (h * a.length + l) * a.length : NULL);
        double *gated = gate + r * width;
        for (int64_t e = 0; e < width; e++)
            gated[e] *= o[r * width + e];
        project(update, gated, w.output_w, width, a.c_in);
        const int64_t at = b * a.stride_batch + l * a.stride_length;
        for (int64_t e = 0; e < a.c_in; e++)
            want[at + e] =
                (a.residual ? x[at + e] : 0) +
                (update[e] + w.output_b[e]) * (a.dropout != NULL ? a.dropout[l * a.c_in + e] : 1);
    }

    void *scratch = array((int64_t)(k->gated_attention_scratch_bytes(&a, false) / sizeof(float)));
    ff_gated_attention_kept keep = {0};
    if (options & KEEP)
        keep = (ff_gated_attention_kept){array(a.batch * a.num_head * a.length),
                                         array(rows * width), array(rows * width),
                                         array(rows * width), array(rows * width)};
    k->gated_attention_forward(out, x, &w, &a, options & KEEP ? &keep : NULL, scratch);
    check_close("gated_attention", out, want, n, tolerance);
    if (options & KEEP) {
        check_close("lse", keep.lse, lse, a.batch * a.num_head * a.length, tolerance);
        check_close("kept output", keep.output, o, rows * width, tolerance);
        check_kept(k, "kept query", keep.query, q_kept, rows * width, tolerance);
        check_kept(k, "kept key", keep.key, k_kept, rows * width, tolerance);
        check_kept(k, "kept value", keep.value, v_kept, rows * width, tolerance);
    }
    k->gated_attention_forward(x, x, &w, &a, NULL, scratch); /* in place */
    CU_ASSERT(n == 0 || memcmp(x, out, (size_t)n * sizeof *x) == 0);
    release();
}

static void test_gated_attention_equals_a_loop_for_any_size(void)
{
    /* batch, length, c_in, heads, head width */
    static const int64_t shapes[][5] = {
        {1, 1, 1, 1, 1},   {3, 7, 12, 4, 3},   {2, 15, 16, 4, 4},   {3, 16, 8, 4, 2},
        {2, 17, 64, 8, 8}, {1, 65, 20, 2, 16}, {2, 67, 128, 4, 32}, {1, 33, 300, 2, 16},
        {1, 5, 24, 2, 72}, {0, 5, 8, 2, 4},    {3, 0, 8, 2, 4},     {2, 3, 8, 0, 4}};
    static const int options[] = {RESIDUAL | DROPOUT | KEEP, COLUMNS | NO_BIAS | KEEP,
                                  COLUMNS | RESIDUAL | DROPOUT, NO_NORM | NO_GATE,
                                  NO_MASK | NO_BIAS | RESIDUAL};
    for (int dtype = 0; dtype < 2; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (size_t j = 0; j < sizeof options / sizeof *options; j++) {
                ff_emulate_set_seed(i + j);
                check_gated_attention(ff_kernels_emulated((ff_dtype)dtype), shapes[i], options[j]);
            }
}

static void test_every_order_of_blocks_and_threads_gives_the_same_bits(void)
{
    const ff_kernels *k = ff_kernels_emulated(FF_DTYPE_BF16);
    const ff_gated_attention_args a = {.batch = 2,
                                       .length = 70,
                                       .c_in = 48,
                                       .num_head = 3,
                                       .c_hidden = 16,
                                       .stride_batch = 70 * 48,
                                       .stride_length = 48,
                                       .mask = random_mask(2, 70, 1),
                                       .mask_stride_batch = 70,
                                       .mask_stride_length = 1,
                                       .bias = random_array(3 * 70 * 70, 1)};
    const ff_attention_params w = {
        random_array(48, 1),        random_array(48, 1),        random_array(48 * 48, 0.2),
        random_array(48 * 48, 0.2), random_array(48 * 48, 0.2), random_array(48 * 48, 0.2),
        random_array(48, 1),        random_array(48 * 48, 1),   random_array(48, 1)};
    const int64_t n = 2 * 70 * 48;
    const float *x = random_array(n, 1);
    float *first = array(n), *again = array(n);
    void *scratch = array((int64_t)(k->gated_attention_scratch_bytes(&a, false) / sizeof(float)));
    for (uint64_t seed = 0; seed < 2 * NUM_SEEDS; seed++) {
        ff_emulate_set_seed(seed);
        k->gated_attention_forward(seed == 0 ? first : again, x, &w, &a, NULL, scratch);
        CU_ASSERT(seed == 0 || memcmp(first, again, (size_t)n * sizeof *first) == 0);
    }
}

static void test_pair_bias_equals_a_loop_for_any_size(void)
{
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1}, {3, 5, 12, 4}, {7, 11, 128, 8}, {5, 13, 300, 3}, {0, 5, 8, 2}};
    for (int dtype = 0; dtype < 2; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int transposed = 0; transposed < 2; transposed++) {
                const ff_kernels *k = ff_kernels_emulated((ff_dtype)dtype);
                const int64_t *s = shapes[i];
                ff_emulate_set_seed(i + (size_t)transposed);
                ff_pair_bias_args a = {.num_i = s[0], .num_j = s[1], .c_z = s[2], .num_head = s[3]};
                a.stride_i = transposed ? a.c_z : a.num_j * a.c_z;
                a.stride_j = transposed ? a.num_i * a.c_z : a.c_z;
                a.bias_stride_i = a.num_j;
                a.bias_stride_head = a.num_i * a.num_j;
                const int64_t n = a.num_i * a.num_j;
                const float *pair = random_array(n * a.c_z, 1);
                const ff_pair_bias_params w = {random_array(a.c_z, 1), random_array(a.c_z, 1),
                                               random_array(a.c_z * a.num_head, 1)};
                float *bias = array(n * a.num_head);
                double *want = doubles(n * a.num_head), *row = doubles(a.c_z),
                       *heads = doubles(a.num_head);
                for (int64_t r = 0; r < n; r++) {
                    normalise(row, pair + r / a.num_j * a.stride_i + r % a.num_j * a.stride_j,
                              a.c_z, w.norm_scale, w.norm_offset);
                    project(heads, row, w.weights, a.c_z, a.num_head);
                    for (int64_t h = 0; h < a.num_head; h++)
                        want[h * n + r] = heads[h];
                }
                k->pair_bias_forward(bias, pair, &w, &a, NULL);
                check_close("pair_bias", bias, want, n * a.num_head,
                            dtype == FF_DTYPE_BF16 ? 2e-2 : 4e-6);
                release();
            }
}

/* ---- 4. faults ---- */

enum { RIGHT = 0, WRONG_NUMBERS = 1 };

/* Runs a fault kernel with seeds 0 .. 2 NUM_SEEDS - 1; RIGHT if the numbers are right for all of them. */
static int run_fault(ff_fault fault)
{
    enum { N = FF_FAULT_ROWS * FF_FAULT_CHANNELS };
    static float x[N], a[16 * 32], b[32 * 8], y[16 * 8];
    for (int i = 0; i < N; i++)
        x[i] = (float)(uniform() + 1);
    for (int i = 0; i < 16 * 32; i++)
        a[i] = (float)round(16 * uniform()); /* exact in bf16 */
    for (int i = 0; i < 32 * 8; i++)
        b[i] = (float)round(16 * uniform());
    for (uint64_t seed = 0; seed < 2 * NUM_SEEDS; seed++) {
        ff_emulate_set_seed(seed);
        if (fault < FF_FAULT_NO_BARRIER_AFTER_COPY) {
            ff_fault_row_moments(fault, y, x);
            for (int r = 0; r < FF_FAULT_ROWS; r++) {
                double sum = 0, squares = 0;
                for (int c = 0; c < FF_FAULT_CHANNELS; c++)
                    sum += x[r * FF_FAULT_CHANNELS + c];
                for (int c = 0; c < FF_FAULT_CHANNELS; c++)
                    squares += pow(x[r * FF_FAULT_CHANNELS + c] - sum / FF_FAULT_CHANNELS, 2);
                if (!(fabs(y[2 * r] - sum) < 1e-3) || !(fabs(y[2 * r + 1] - squares) < 1e-3))
                    return WRONG_NUMBERS;
            }
        }
        if (fault >= FF_FAULT_NO_BARRIER_AFTER_COPY || fault == FF_FAULT_NONE) {
            ff_fault_product(fault, y, a, b);
            for (int i = 0; i < 16 * 8; i++) {
                double sum = 0;
                for (int d = 0; d < 32; d++)
                    sum += (double)a[i / 8 * 32 + d] * b[d * 8 + i % 8];
                if (!(fabs(y[i] - sum) < 1e-3))
                    return WRONG_NUMBERS;
            }
        }
    }
    return RIGHT;
}

/* Runs a fault in a child; its exit status, or -1 when it was stopped by a trap, whose message is stored. */
static int run_in_child(ff_fault fault, char *message, size_t size)
{
    int ends[2], status = 0;
    size_t length = 0;
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(run_fault(fault));
    }
    close(ends[1]);
    char piece[256];
    for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) >
                      0;) /* to the end: the child must not get SIGPIPE */
        for (ssize_t i = 0; i < got && length + 1 < size; i++)
            message[length++] = piece[i];
    message[length] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_correct_kernels_pass_in_every_order(void)
{
    char message[4096];
    CU_ASSERT_EQUAL(run_in_child(FF_FAULT_NONE, message, sizeof message), RIGHT);
    CU_ASSERT_STRING_EQUAL(message, "");
}

static void test_every_fault_is_seen(void)
{
    /* text NULL: the numbers are wrong in one of the orders at least (or ThreadSanitizer's exit status says so) */
    static const struct {
        ff_fault fault;
        const char *name, *text;
    } faults[] = {
        {FF_FAULT_NO_BARRIER_BEFORE_READ, "no barrier between a write and its reads", NULL},
        {FF_FAULT_NO_BARRIER_BEFORE_REUSE, "no barrier before shared memory is written again",
         NULL},
        {FF_FAULT_WRONG_LANE, "wrong lane in a butterfly", NULL},
        {FF_FAULT_TILE_EDGE, "tile edge off by one", NULL},
        {FF_FAULT_UNSET_SHARED, "shared memory read before it was written", NULL},
        {FF_FAULT_RACE_ON_SUM, "unordered read-modify-write of shared memory", NULL},
        {FF_FAULT_SHARED_OVERRUN, "shared memory overrun by one element",
         "of its 16 bytes of shared memory"},
        {FF_FAULT_SHARED_FAR_OVERRUN, "shared memory overrun by pages",
         "of the block's 16 bytes of shared memory"},
        {FF_FAULT_DIVERGENT_BARRIER, "different __syncthreads in one block",
         "divergent __syncthreads"},
        {FF_FAULT_DIVERGENT_SHUFFLE, "different shuffles in one warp", "divergent warp collective"},
        {FF_FAULT_RETURNED_LANE, "shuffle with a lane that has returned", "return"},
        {FF_FAULT_FOREIGN_MASK, "mask without the calling lane", "has not the calling lane"},
        {FF_FAULT_DEADLOCK, "half a warp in __syncwarp, the rest in __syncthreads", "deadlock"},
        {FF_FAULT_MISALIGNED_VECTOR, "misaligned float4", "vector load"},
        {FF_FAULT_STACK_OVERFLOW, "stack overflow", "stack overflow"},
        {FF_FAULT_EMPTY_GRID, "empty grid", "grid of 0 x 1 x 1"},
        {FF_FAULT_NO_BARRIER_AFTER_COPY, "no barrier after cp.async", NULL},
        {FF_FAULT_WEAK_WAIT, "cp.async.wait_group that waits for too little", NULL},
        {FF_FAULT_SWAPPED_FRAGMENT, "mma operand registers exchanged", NULL},
        {FF_FAULT_NOT_TRANSPOSED, "ldmatrix without .trans", NULL},
        {FF_FAULT_MISALIGNED_COPY, "misaligned cp.async", "cp.async source"},
        {FF_FAULT_MISALIGNED_MATRIX, "misaligned ldmatrix", "ldmatrix row"},
        {FF_FAULT_MATRIX_NOT_SHARED, "ldmatrix from global memory", "of shared memory"},
        {FF_FAULT_HALF_A_WARP, "mma in half a warp", "deadlock"},
    };
    CU_ASSERT_EQUAL(sizeof faults / sizeof *faults, FF_FAULT_COUNT - 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char message[4096];
        const int result = run_in_child(faults[i].fault, message, sizeof message);
        const bool seen = faults[i].text == NULL
                              ? result > 0
                              : result == -1 && strstr(message, faults[i].text) != NULL;
        if (!seen)
            fprintf(stderr, "\n    fault not seen: %s (result %d, message '%s')\n", faults[i].name,
                    result, message);
        CU_ASSERT(seen);
    }
}

/* The tests that fork come first: ThreadSanitizer is of no use in the child of a process that has made fibers. */
static CU_TestInfo tests[] = {
    {"correct_kernels_pass_in_every_order", test_correct_kernels_pass_in_every_order},
    {"every_fault_is_seen", test_every_fault_is_seen},
    {"layer_norm_equals_a_loop_for_any_size", test_layer_norm_equals_a_loop_for_any_size},
    {"softmax_equals_a_loop_for_any_size", test_softmax_equals_a_loop_for_any_size},
    {"attention_core_equals_a_loop_for_any_size", test_attention_core_equals_a_loop_for_any_size},
    {"gated_attention_equals_a_loop_for_any_size", test_gated_attention_equals_a_loop_for_any_size},
    {"pair_bias_equals_a_loop_for_any_size", test_pair_bias_equals_a_loop_for_any_size},
    {"every_order_of_blocks_and_threads_gives_the_same_bits",
     test_every_order_of_blocks_and_threads_gives_the_same_bits},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_kernels_emulate = {"kernels/emulate", NULL, NULL, set_up, tear_down, tests};
