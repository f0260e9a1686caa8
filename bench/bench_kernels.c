/* bench_kernels.c - entries of the kernel table as operations of fastfold-bench, at the sizes the trunk has them.
 *
 * Contents: arrays and weights; layer norm, softmax, linear, attention core; gated, global and pointwise attention; pair
 * bias; transition; triangle multiplication; outer product mean; elementwise; the table.
 *
 * Arrays come from the pool, so that peak_bytes counts them; weights and their gradients do not. Forward passes write to
 * an array of their own, except inference, which updates residuals in place. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/pool.h"

enum { C_M = 256, C_Z = 128, C_E = 64, C_T = 64, HEADS_MSA = 8, HEADS_PAIR = 4, C_HIDDEN = 32, C_OUTER = 32, FACTOR = 4 };
enum { MOST_ARRAYS = 24, MOST_WEIGHTS = 48, ALIGNMENT = 64 };

typedef struct {
    float *x, *y, *grad_x, *grad_y; /* input, output, their gradients */
    float *a, *b, *c;               /* further inputs */
    float *grad_a, *grad_b, *grad_c;
    float *mask;
    void *scratch;
    int64_t rows, width; /* where a kernel is called with these */
    struct {
        void *memory;
        size_t bytes;
    } arrays[MOST_ARRAYS];
    int num_arrays;
    float *weights[MOST_WEIGHTS];
    int num_weights;
    union {
        struct { ff_layer_norm_params value, grad; } layer_norm;
        struct { ff_linear_params value, grad; } linear;
        struct { ff_attention_params value, grad; } attention;
        struct { ff_pair_bias_params value, grad; } pair_bias;
        struct { ff_transition_params value, grad; } transition;
        struct { ff_triangle_multiplication_params value, grad; } triangle;
        struct { ff_outer_product_mean_params value, grad; } outer;
    } w;
    union {
        ff_attention_core_args core;
        ff_gated_attention_args attention;
        ff_pointwise_attention_args pointwise;
        ff_pair_bias_args pair_bias;
        ff_transition_args transition;
        struct {
            ff_triangle_multiplication_args own;
            ff_triangle_product_args product;
            ff_operand_block block;
        } triangle;
        struct {
            ff_outer_product_project_args project;
            ff_outer_product_args product;
        } outer;
    } args;
    ff_gated_attention_kept kept;
} kernel_state;

/* ---- arrays and weights ---- */

static kernel_state *new_state(bench_run *run)
{
    kernel_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    run->state = s;
    return s;
}

static void tear_down(bench_run *run)
{
    kernel_state *s = run->state;
    for (int i = s->num_arrays - 1; i >= 0; i--)
        ff_pool_free(run->ctx->pool, s->arrays[i].memory, s->arrays[i].bytes);
    for (int i = 0; i < s->num_weights; i++)
        free(s->weights[i]);
    free(s);
    run->state = NULL;
}

static void *take_bytes(bench_run *run, size_t bytes)
{
    kernel_state *s = run->state;
    void *memory = bytes == 0 || run->ctx->status != FF_OK ? NULL : ff_pool_alloc(run->ctx, bytes);
    if (memory == NULL)
        return NULL;
    s->arrays[s->num_arrays].memory = memory;
    s->arrays[s->num_arrays++].bytes = bytes;
    return memory;
}

static float *take(bench_run *run, int64_t n, float scale)
{
    kernel_state *s = run->state;
    float *x = take_bytes(run, (size_t)n * sizeof *x);
    if (x != NULL)
        bench_fill(x, n, scale, (uint64_t)s->num_arrays);
    return x;
}

static float *take_ones(bench_run *run, int64_t n)
{
    float *x = take_bytes(run, (size_t)n * sizeof *x);
    for (int64_t i = 0; x != NULL && i < n; i++)
        x[i] = 1;
    return x;
}

/* Matrix-product operands in the table's dtype. */
static void *take_operand(bench_run *run, int64_t n, float scale)
{
    const size_t bytes = (size_t)n * run->k->operand_bytes;
    void *x = take_bytes(run, bytes);
    if (x == NULL)
        return NULL;
    enum { CHUNK = 4096 };
    float chunk[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        bench_fill(chunk, count, scale, (uint64_t)first);
        if (run->k->operand_bytes == sizeof(float)) {
            memcpy((float *)x + first, chunk, (size_t)count * sizeof(float));
            continue;
        }
        for (int64_t i = 0; i < count; i++) { /* bf16: the upper half */
            uint32_t bits;
            memcpy(&bits, &chunk[i], sizeof bits);
            ((uint16_t *)x)[first + i] = (uint16_t)(bits >> 16);
        }
    }
    return x;
}

static float *weight_memory(bench_run *run, int64_t n)
{
    kernel_state *s = run->state;
    const size_t bytes = ((size_t)n * sizeof(float) / ALIGNMENT + 1) * ALIGNMENT;
    float *w = aligned_alloc(ALIGNMENT, bytes);
    if (w == NULL) {
        FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
        return NULL;
    }
    memset(w, 0, bytes);
    return s->weights[s->num_weights++] = w;
}

/* Random weights, small enough that an update is smaller than what it is added to; and a gradient for them. */
static void make_weight(bench_run *run, float **value, float **grad, int64_t num_input, int64_t num_output)
{
    *value = weight_memory(run, num_input * num_output);
    *grad = weight_memory(run, num_input * num_output);
    if (*value != NULL)
        bench_fill(*value, num_input * num_output, 1 / sqrtf((float)num_input),
                   100 + (uint64_t)((kernel_state *)run->state)->num_weights);
}

static void make_scale(bench_run *run, float **value, float **grad, int64_t c)
{
    *value = weight_memory(run, c);
    *grad = weight_memory(run, c);
    for (int64_t i = 0; *value != NULL && i < c; i++)
        (*value)[i] = 1;
}

static bool wants_backward(const bench_run *run) { return run->pass == BENCH_BACKWARD || run->pass == BENCH_BOTH; }

static bool in_place(const bench_run *run) { return run->pass == BENCH_INFERENCE; }

static ff_status offered(bench_run *run, bool forward, bool backward)
{
    if (!forward || (wants_backward(run) && !backward))
        return FF_FAIL(run->ctx, FF_ERR_UNSUPPORTED, "the %s backend has no %s%s", run->k->name, run->op->name,
                       forward ? ", backward" : "");
    return new_state(run) == NULL ? run->ctx->status : FF_OK;
}

/* Gradients of x and y where the pass needs them. */
static void take_grads(bench_run *run, int64_t num_x, int64_t num_y)
{
    kernel_state *s = run->state;
    if (!wants_backward(run))
        return;
    s->grad_x = take(run, num_x, 0.1f);
    s->grad_y = take(run, num_y, 1);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* ---- layer norm ---- */

static ff_status layer_norm_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->layer_norm_forward != NULL, run->k->layer_norm_backward != NULL));
    kernel_state *s = run->state;
    const bool msa = run->op->variant == 0;
    s->rows = msa ? run->sizes.num_seq * run->sizes.num_res : run->sizes.num_res * run->sizes.num_res;
    s->width = msa ? C_M : C_Z;
    const int64_t n = s->rows * s->width;
    s->x = take(run, n, 1);
    s->y = take(run, n, 1);
    take_grads(run, n, n);
    make_scale(run, &s->w.layer_norm.value.scale, &s->w.layer_norm.grad.scale, s->width);
    make_weight(run, &s->w.layer_norm.value.offset, &s->w.layer_norm.grad.offset, 1, s->width);
    if (wants_backward(run))
        s->scratch = take_bytes(run, run->k->layer_norm_backward_scratch_bytes(s->rows, s->width));
    run->bytes = 8.0 * (double)n;
    run->bytes_back = 16.0 * (double)n;
    return run->ctx->status;
}

static void layer_norm_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->layer_norm_forward(s->y, s->x, &s->w.layer_norm.value, s->rows, s->width);
}

static void layer_norm_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->layer_norm_backward(s->grad_x, &s->w.layer_norm.grad, s->grad_y, s->x, &s->w.layer_norm.value, s->rows,
                                s->width, s->scratch);
}

/* ---- softmax, over the logits of a quarter of the MSA rows ---- */

static int64_t softmax_batch(const bench_run *run) { return run->sizes.num_seq < 4 ? 1 : run->sizes.num_seq / 4; }

static ff_status softmax_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->softmax_forward != NULL, run->k->softmax_backward != NULL));
    kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res, per_row = HEADS_MSA * length * length, n = softmax_batch(run) * per_row;
    s->x = take(run, n, 4);
    s->y = take(run, n, 1);
    s->a = take(run, per_row, 1);
    s->mask = take_ones(run, softmax_batch(run) * length);
    take_grads(run, n, n);
    if (wants_backward(run))
        s->grad_a = take(run, per_row, 0.1f);
    run->bytes = 8.0 * (double)n + 4.0 * (double)per_row;
    run->bytes_back = 16.0 * (double)n + 8.0 * (double)per_row;
    return run->ctx->status;
}

static void softmax_forward(bench_run *run)
{
    kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res;
    run->k->softmax_forward(s->y, s->x, s->mask, s->a, softmax_batch(run), HEADS_MSA, length, length);
}

static void softmax_backward(bench_run *run)
{
    kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res;
    run->k->softmax_backward(s->grad_x, s->grad_a, s->grad_y, s->y, s->mask, softmax_batch(run), HEADS_MSA, length,
                             length);
}

/* ---- linear ---- */

static ff_status linear_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->linear_forward != NULL, run->k->linear_backward != NULL));
    kernel_state *s = run->state;
    s->rows = run->sizes.num_seq * run->sizes.num_res;
    s->width = C_M;
    const int64_t n = s->rows * s->width;
    s->x = take(run, n, 1);
    s->y = take(run, n, 1);
    take_grads(run, n, n);
    make_weight(run, &s->w.linear.value.weights, &s->w.linear.grad.weights, C_M, C_M);
    make_weight(run, &s->w.linear.value.bias, &s->w.linear.grad.bias, 1, C_M);
    s->scratch = take_bytes(run, run->k->linear_scratch_bytes(s->rows, C_M, C_M));
    run->flop = 2.0 * (double)n * C_M;
    run->bytes = 8.0 * (double)n;
    run->bytes_back = 16.0 * (double)n;
    return run->ctx->status;
}

static void linear_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->linear_forward(s->y, s->x, &s->w.linear.value, s->rows, C_M, C_M, false, false, s->scratch);
}

static void linear_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->linear_backward(s->grad_x, &s->w.linear.grad, s->grad_y, s->x, &s->w.linear.value, s->rows, C_M, C_M,
                            s->scratch);
}

/* ---- attention core: row attention on projected operands ---- */

static ff_status attention_core_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->attention_core_forward != NULL, run->k->attention_core_backward != NULL));
    kernel_state *s = run->state;
    const int64_t batch = run->sizes.num_seq, length = run->sizes.num_res, n = batch * length * HEADS_MSA * C_HIDDEN;
    s->x = take(run, n, 1);
    s->a = take(run, n, 1);
    s->b = take(run, n, 1);
    s->y = take(run, n, 1);
    s->c = take(run, HEADS_MSA * length * length, 1);
    s->mask = take_ones(run, batch * length);
    take_grads(run, n, n);
    if (wants_backward(run)) {
        s->grad_a = take(run, n, 0.1f);
        s->grad_b = take(run, n, 0.1f);
        s->grad_c = take(run, HEADS_MSA * length * length, 0.1f);
    }
    s->args.core = (ff_attention_core_args){.batch = batch, .num_query = length, .num_key = length,
                                            .num_head = HEADS_MSA, .c_hidden = C_HIDDEN,
                                            .scale = 1 / sqrtf((float)C_HIDDEN), .mask = s->mask, .bias = s->c};
    s->scratch = take_bytes(run, larger(run->k->attention_core_scratch_bytes(&s->args.core, false),
                                        wants_backward(run) ? run->k->attention_core_scratch_bytes(&s->args.core, true)
                                                            : 0));
    run->flop = 4.0 * (double)n * (double)length;
    run->bytes = 16.0 * (double)n + 4.0 * HEADS_MSA * (double)(length * length);
    return run->ctx->status;
}

static void attention_core_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->attention_core_forward(s->y, s->x, s->a, s->b, &s->args.core, s->scratch);
}

static void attention_core_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->attention_core_backward(s->grad_x, s->grad_a, s->grad_b, s->grad_c, s->grad_y, s->x, s->a, s->b,
                                    &s->args.core, s->scratch);
}

/* ---- gated attention ---- */

enum { ROW = 0, COLUMN, STARTING, ENDING };

static void make_attention_weights(bench_run *run, int64_t c_in, int64_t width, int64_t c_key, bool global)
{
    kernel_state *s = run->state;
    ff_attention_params *v = &s->w.attention.value, *g = &s->w.attention.grad;
    make_scale(run, &v->query_norm_scale, &g->query_norm_scale, c_in);
    make_weight(run, &v->query_norm_offset, &g->query_norm_offset, 1, c_in);
    make_weight(run, &v->query_w, &g->query_w, c_in, width);
    make_weight(run, &v->key_w, &g->key_w, c_in, global ? c_key : width);
    make_weight(run, &v->value_w, &g->value_w, c_in, global ? c_key : width);
    make_weight(run, &v->gating_w, &g->gating_w, c_in, width);
    make_weight(run, &v->gating_b, &g->gating_b, 1, width);
    make_weight(run, &v->output_w, &g->output_w, width, c_in);
    make_weight(run, &v->output_b, &g->output_b, 1, c_in);
}

static ff_gated_attention_args attention_layout(const bench_run *run)
{
    const int64_t num_seq = run->sizes.num_seq, num_res = run->sizes.num_res;
    ff_gated_attention_args a = {.c_hidden = C_HIDDEN, .residual = true};
    const int variant = run->op->variant;
    const bool msa = variant == ROW || variant == COLUMN, along_inner = variant == ROW || variant == STARTING;
    const int64_t outer = msa ? num_seq : num_res;
    a.c_in = msa ? C_M : C_Z;
    a.num_head = msa ? HEADS_MSA : HEADS_PAIR;
    a.batch = along_inner ? outer : num_res;
    a.length = along_inner ? num_res : outer;
    a.stride_batch = along_inner ? num_res * a.c_in : a.c_in;
    a.stride_length = along_inner ? a.c_in : num_res * a.c_in;
    a.mask_stride_batch = along_inner ? num_res : 1;
    a.mask_stride_length = along_inner ? 1 : num_res;
    return a;
}

static ff_status gated_attention_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->gated_attention_forward != NULL, run->k->gated_attention_backward != NULL));
    kernel_state *s = run->state;
    ff_gated_attention_args a = attention_layout(run);
    const int64_t n = a.batch * a.length * a.c_in, width = a.num_head * a.c_hidden, hidden = a.batch * a.length * width;
    const bool bias = run->op->variant != COLUMN;
    make_attention_weights(run, a.c_in, width, width, false);
    s->x = take(run, n, 1);
    s->y = in_place(run) ? s->x : take(run, n, 1);
    s->mask = take_ones(run, a.batch * a.length);
    s->a = bias ? take(run, a.num_head * a.length * a.length, 1) : NULL;
    a.mask = s->mask;
    a.bias = s->a;
    if (wants_backward(run)) {
        s->grad_y = s->grad_x = take(run, n, 1); /* as behind a residual */
        s->grad_a = bias ? take(run, a.num_head * a.length * a.length, 0.1f) : NULL;
    }
    if (run->pass != BENCH_INFERENCE && !run->sizes.keep_inputs)
        s->kept = (ff_gated_attention_kept){.lse = take(run, a.batch * a.num_head * a.length, 0),
                                            .output = take(run, hidden, 0),
                                            .query = take_operand(run, hidden, 0),
                                            .key = take_operand(run, hidden, 0),
                                            .value = take_operand(run, hidden, 0)};
    s->args.attention = a;
    s->scratch = take_bytes(run, larger(run->k->gated_attention_scratch_bytes(&a, false),
                                        wants_backward(run) ? run->k->gated_attention_scratch_bytes(&a, true) : 0));
    run->flop = 10.0 * (double)n * (double)width + 4.0 * (double)(hidden * a.length);
    run->bytes = 8.0 * (double)n + 6.0 * (double)hidden * (double)run->k->operand_bytes +
                 (bias ? 4.0 * (double)(a.num_head * a.length * a.length) : 0);
    return run->ctx->status;
}

static const ff_gated_attention_kept *kept(const kernel_state *s) { return s->kept.lse == NULL ? NULL : &s->kept; }

static void gated_attention_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->gated_attention_forward(s->y, s->x, &s->w.attention.value, &s->args.attention, kept(s), s->scratch);
}

static void gated_attention_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->gated_attention_backward(s->grad_x, s->grad_a, &s->w.attention.grad, s->grad_y, s->x, &s->w.attention.value,
                                     &s->args.attention, kept(s), s->scratch);
}

/* ---- global attention: columns of the extra MSA ---- */

static ff_status global_attention_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->global_attention_forward != NULL, run->k->global_attention_backward != NULL));
    kernel_state *s = run->state;
    const int64_t num_res = run->sizes.num_res, num_extra = run->sizes.num_extra, n = num_extra * num_res * C_E;
    enum { C_KEY = C_E / HEADS_MSA };
    make_attention_weights(run, C_E, C_E, C_KEY, true);
    s->x = take(run, n, 1);
    s->y = in_place(run) ? s->x : take(run, n, 1);
    s->mask = take_ones(run, num_extra * num_res);
    if (wants_backward(run))
        s->grad_y = s->grad_x = take(run, n, 1);
    s->args.attention = (ff_global_attention_args){
        .batch = num_res, .length = num_extra, .c_in = C_E, .num_head = HEADS_MSA, .c_hidden = C_KEY,
        .stride_batch = C_E, .stride_length = num_res * C_E, .mask = s->mask, .mask_stride_batch = 1,
        .mask_stride_length = num_res, .residual = true};
    s->scratch = take_bytes(
        run, larger(run->k->global_attention_scratch_bytes(&s->args.attention, false),
                    wants_backward(run) ? run->k->global_attention_scratch_bytes(&s->args.attention, true) : 0));
    /* key and value 2 x 1024, gate and output 2 x 8192, products 256 for each sequence; one query a column */
    run->flop = 18688.0 * (double)(num_extra * num_res) + 8192.0 * (double)num_res;
    run->bytes = 8.0 * (double)n;
    return run->ctx->status;
}

static void global_attention_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->global_attention_forward(s->y, s->x, &s->w.attention.value, &s->args.attention, s->scratch);
}

static void global_attention_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->global_attention_backward(s->grad_x, &s->w.attention.grad, s->grad_y, s->x, &s->w.attention.value,
                                      &s->args.attention, s->scratch);
}

/* ---- pointwise attention over templates ---- */

static ff_status pointwise_attention_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->pointwise_attention_forward != NULL, run->k->pointwise_attention_backward != NULL));
    kernel_state *s = run->state;
    enum { C_KEY = 16, WIDTH = HEADS_PAIR * C_KEY };
    const int64_t num_pair = run->sizes.num_res * run->sizes.num_res, num_templ = run->sizes.num_templ;
    ff_attention_params *v = &s->w.attention.value, *g = &s->w.attention.grad;
    make_weight(run, &v->query_w, &g->query_w, C_Z, WIDTH);
    make_weight(run, &v->key_w, &g->key_w, C_T, WIDTH);
    make_weight(run, &v->value_w, &g->value_w, C_T, WIDTH);
    make_weight(run, &v->output_w, &g->output_w, WIDTH, C_Z);
    make_weight(run, &v->output_b, &g->output_b, 1, C_Z);
    s->x = take(run, num_pair * C_Z, 1);
    s->y = in_place(run) ? s->x : take(run, num_pair * C_Z, 1);
    s->a = take(run, num_templ * num_pair * C_T, 1);
    s->mask = take_ones(run, num_templ);
    if (wants_backward(run)) {
        s->grad_y = s->grad_x = take(run, num_pair * C_Z, 1);
        s->grad_a = take(run, num_templ * num_pair * C_T, 0.1f);
    }
    s->args.pointwise = (ff_pointwise_attention_args){.num_pair = num_pair, .num_templ = num_templ, .c_z = C_Z,
                                                      .c_t = C_T, .num_head = HEADS_PAIR, .c_hidden = C_KEY,
                                                      .template_mask = s->mask, .residual = true};
    s->scratch = take_bytes(
        run, larger(run->k->pointwise_attention_scratch_bytes(&s->args.pointwise, false),
                    wants_backward(run) ? run->k->pointwise_attention_scratch_bytes(&s->args.pointwise, true) : 0));
    const double p = (double)num_pair, t = (double)num_templ;
    run->flop = p * WIDTH * (4.0 * C_Z + 4.0 * C_T * t + 4.0 * t);
    run->bytes = 4.0 * p * (2.0 * C_Z + C_T * t);
    return run->ctx->status;
}

static void pointwise_attention_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->pointwise_attention_forward(s->y, s->x, s->a, &s->w.attention.value, &s->args.pointwise, s->scratch);
}

static void pointwise_attention_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->pointwise_attention_backward(s->grad_x, s->grad_a, &s->w.attention.grad, s->grad_y, s->x, s->a,
                                         &s->w.attention.value, &s->args.pointwise, s->scratch);
}

/* ---- pair bias ---- */

static ff_status pair_bias_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->pair_bias_forward != NULL, run->k->pair_bias_backward != NULL));
    kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res, area = length * length, heads = HEADS_MSA;
    make_scale(run, &s->w.pair_bias.value.norm_scale, &s->w.pair_bias.grad.norm_scale, C_Z);
    make_weight(run, &s->w.pair_bias.value.norm_offset, &s->w.pair_bias.grad.norm_offset, 1, C_Z);
    make_weight(run, &s->w.pair_bias.value.weights, &s->w.pair_bias.grad.weights, C_Z, heads);
    s->x = take(run, area * C_Z, 1);
    s->y = take(run, area * heads, 1);
    take_grads(run, area * C_Z, area * heads);
    s->args.pair_bias = (ff_pair_bias_args){.num_i = length, .num_j = length, .c_z = C_Z, .num_head = heads,
                                            .stride_i = length * C_Z, .stride_j = C_Z, .bias_stride_head = area,
                                            .bias_stride_i = length};
    s->scratch = take_bytes(run, larger(run->k->pair_bias_scratch_bytes(&s->args.pair_bias, false),
                                        wants_backward(run) ? run->k->pair_bias_scratch_bytes(&s->args.pair_bias, true)
                                                            : 0));
    run->flop = 2.0 * (double)(area * C_Z * heads);
    run->bytes = 4.0 * (double)(area * (C_Z + heads));
    run->bytes_back = 4.0 * (double)(area * (3 * C_Z + heads));
    return run->ctx->status;
}

static void pair_bias_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->pair_bias_forward(s->y, s->x, &s->w.pair_bias.value, &s->args.pair_bias, s->scratch);
}

static void pair_bias_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->pair_bias_backward(s->grad_x, &s->w.pair_bias.grad, s->grad_y, s->x, &s->w.pair_bias.value,
                               &s->args.pair_bias, s->scratch);
}

/* ---- transition of the MSA ---- */

static ff_status transition_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->transition_forward != NULL, run->k->transition_backward != NULL));
    kernel_state *s = run->state;
    const int64_t rows = run->sizes.num_seq * run->sizes.num_res, n = rows * C_M;
    ff_transition_params *v = &s->w.transition.value, *g = &s->w.transition.grad;
    make_scale(run, &v->norm_scale, &g->norm_scale, C_M);
    make_weight(run, &v->norm_offset, &g->norm_offset, 1, C_M);
    make_weight(run, &v->weights1, &g->weights1, C_M, FACTOR * C_M);
    make_weight(run, &v->bias1, &g->bias1, 1, FACTOR * C_M);
    make_weight(run, &v->weights2, &g->weights2, FACTOR * C_M, C_M);
    make_weight(run, &v->bias2, &g->bias2, 1, C_M);
    s->x = take(run, n, 1);
    s->y = in_place(run) ? s->x : take(run, n, 1);
    if (wants_backward(run))
        s->grad_y = s->grad_x = take(run, n, 1);
    s->args.transition = (ff_transition_args){.rows = rows, .c = C_M, .c_hidden = FACTOR * C_M, .residual = true};
    s->scratch = take_bytes(
        run, larger(run->k->transition_scratch_bytes(&s->args.transition, false),
                    wants_backward(run) ? run->k->transition_scratch_bytes(&s->args.transition, true) : 0));
    run->flop = 4.0 * (double)n * FACTOR * C_M;
    run->bytes = 8.0 * (double)n;
    run->bytes_back = 12.0 * (double)n;
    return run->ctx->status;
}

static void transition_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->transition_forward(s->y, s->x, &s->w.transition.value, &s->args.transition, s->scratch);
}

static void transition_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->transition_backward(s->grad_x, &s->w.transition.grad, s->grad_y, s->x, &s->w.transition.value,
                                &s->args.transition, s->scratch);
}

/* ---- triangle multiplication, outgoing, in its three parts ---- */

static void make_triangle_weights(bench_run *run)
{
    kernel_state *s = run->state;
    ff_triangle_multiplication_params *v = &s->w.triangle.value, *g = &s->w.triangle.grad;
    make_scale(run, &v->norm_scale, &g->norm_scale, C_Z);
    make_weight(run, &v->norm_offset, &g->norm_offset, 1, C_Z);
    make_weight(run, &v->left_projection_w, &g->left_projection_w, C_Z, C_Z);
    make_weight(run, &v->left_projection_b, &g->left_projection_b, 1, C_Z);
    make_weight(run, &v->right_projection_w, &g->right_projection_w, C_Z, C_Z);
    make_weight(run, &v->right_projection_b, &g->right_projection_b, 1, C_Z);
    make_weight(run, &v->left_gate_w, &g->left_gate_w, C_Z, C_Z);
    make_weight(run, &v->left_gate_b, &g->left_gate_b, 1, C_Z);
    make_weight(run, &v->right_gate_w, &g->right_gate_w, C_Z, C_Z);
    make_weight(run, &v->right_gate_b, &g->right_gate_b, 1, C_Z);
    make_scale(run, &v->center_norm_scale, &g->center_norm_scale, C_Z);
    make_weight(run, &v->center_norm_offset, &g->center_norm_offset, 1, C_Z);
    make_weight(run, &v->output_projection_w, &g->output_projection_w, C_Z, C_Z);
    make_weight(run, &v->output_projection_b, &g->output_projection_b, 1, C_Z);
    make_weight(run, &v->gating_linear_w, &g->gating_linear_w, C_Z, C_Z);
    make_weight(run, &v->gating_linear_b, &g->gating_linear_b, 1, C_Z);
    v->projection_stride = g->projection_stride = C_Z;
}

static void triangle_args(bench_run *run)
{
    kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res;
    s->args.triangle.own = (ff_triangle_multiplication_args){
        .num_i = length, .num_j = length, .c_z = C_Z, .c_hidden = C_Z, .stride_i = length * C_Z, .stride_j = C_Z,
        .mask = s->mask, .mask_stride_i = length, .mask_stride_j = 1, .residual = true};
}

static void triangle_scratch(bench_run *run)
{
    kernel_state *s = run->state;
    const ff_triangle_multiplication_args *a = &s->args.triangle.own;
    s->scratch = take_bytes(
        run, larger(run->k->triangle_multiplication_scratch_bytes(a, false),
                    wants_backward(run) ? run->k->triangle_multiplication_scratch_bytes(a, true) : 0));
}

static ff_status triangle_project_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->triangle_multiplication_project_forward != NULL,
                   run->k->triangle_multiplication_project_backward != NULL));
    kernel_state *s = run->state;
    const int64_t area = run->sizes.num_res * run->sizes.num_res, n = area * C_Z;
    make_triangle_weights(run);
    s->mask = take_ones(run, area);
    s->x = take(run, n, 1);
    s->a = take_operand(run, n, 1); /* left, right */
    s->b = take_operand(run, n, 1);
    if (wants_backward(run)) {
        s->grad_x = take(run, n, 0.1f);
        s->grad_a = take_operand(run, n, 1);
        s->grad_b = take_operand(run, n, 1);
    }
    triangle_args(run);
    triangle_scratch(run);
    run->flop = 8.0 * (double)n * C_Z;
    run->bytes = (double)n * (4 + 2.0 * (double)run->k->operand_bytes);
    return run->ctx->status;
}

static void triangle_project_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->triangle_multiplication_project_forward(s->a, s->b, s->x, &s->w.triangle.value, &s->args.triangle.own,
                                                    s->scratch);
}

static void triangle_project_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->triangle_multiplication_project_backward(s->grad_x, &s->w.triangle.grad, s->grad_a, s->grad_b, s->a, s->b,
                                                     s->x, &s->w.triangle.value, &s->args.triangle.own, s->scratch);
}

static ff_status triangle_product_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->triangle_multiplication_product_forward != NULL,
                   run->k->triangle_multiplication_product_backward != NULL));
    kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res, n = length * length * C_Z;
    s->a = take_operand(run, n, 1);
    s->b = take_operand(run, n, 1);
    s->y = take_operand(run, n, 1);
    if (wants_backward(run)) {
        s->grad_y = take_operand(run, n, 1);
        s->grad_a = take_operand(run, n, 1);
        s->grad_b = take_operand(run, n, 1);
    }
    s->args.triangle.block = (ff_operand_block){s->b, length};
    s->args.triangle.product = (ff_triangle_product_args){.c_hidden = C_Z, .num_i = length, .num_k = length,
                                                          .num_blocks = 1, .blocks = &s->args.triangle.block};
    const ff_triangle_product_args *a = &s->args.triangle.product;
    s->scratch = take_bytes(run, larger(run->k->triangle_product_scratch_bytes(a, false),
                                        wants_backward(run) ? run->k->triangle_product_scratch_bytes(a, true) : 0));
    run->flop = 2.0 * (double)n * (double)length;
    run->bytes = 3.0 * (double)n * (double)run->k->operand_bytes;
    run->bytes_back = 5.0 * (double)n * (double)run->k->operand_bytes;
    return run->ctx->status;
}

static void triangle_product_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->triangle_multiplication_product_forward(s->y, s->a, &s->args.triangle.product, s->scratch);
}

static void triangle_product_backward(bench_run *run)
{
    kernel_state *s = run->state;
    void *grad_b[1] = {s->grad_b};
    run->k->triangle_multiplication_product_backward(s->grad_a, grad_b, s->grad_y, s->a, &s->args.triangle.product,
                                                     s->scratch);
}

static ff_status triangle_output_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->triangle_multiplication_output_forward != NULL,
                   run->k->triangle_multiplication_output_backward != NULL));
    kernel_state *s = run->state;
    const int64_t area = run->sizes.num_res * run->sizes.num_res, n = area * C_Z;
    make_triangle_weights(run);
    s->mask = take_ones(run, area);
    s->x = take(run, n, 1);
    s->a = take_operand(run, n, 1); /* t */
    s->y = in_place(run) ? s->x : take(run, n, 1);
    if (wants_backward(run)) {
        s->grad_y = s->grad_x = take(run, n, 1);
        s->grad_a = take_operand(run, n, 1);
    }
    triangle_args(run);
    triangle_scratch(run);
    run->flop = 4.0 * (double)n * C_Z;
    run->bytes = (double)n * (8 + (double)run->k->operand_bytes);
    return run->ctx->status;
}

static void triangle_output_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->triangle_multiplication_output_forward(s->y, s->x, s->a, &s->w.triangle.value, &s->args.triangle.own,
                                                   s->scratch);
}

static void triangle_output_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->triangle_multiplication_output_backward(s->grad_a, s->grad_x, &s->w.triangle.grad, s->grad_y, s->x, s->a,
                                                    &s->w.triangle.value, &s->args.triangle.own, s->scratch);
}

/* ---- outer product mean in its two parts ---- */

static void make_outer_weights(bench_run *run)
{
    kernel_state *s = run->state;
    ff_outer_product_mean_params *v = &s->w.outer.value, *g = &s->w.outer.grad;
    make_scale(run, &v->norm_scale, &g->norm_scale, C_M);
    make_weight(run, &v->norm_offset, &g->norm_offset, 1, C_M);
    make_weight(run, &v->left_projection_w, &g->left_projection_w, C_M, C_OUTER);
    make_weight(run, &v->left_projection_b, &g->left_projection_b, 1, C_OUTER);
    make_weight(run, &v->right_projection_w, &g->right_projection_w, C_M, C_OUTER);
    make_weight(run, &v->right_projection_b, &g->right_projection_b, 1, C_OUTER);
    make_weight(run, &v->output_w, &g->output_w, C_OUTER * C_OUTER, C_Z);
    make_weight(run, &v->output_b, &g->output_b, 1, C_Z);
}

static ff_status outer_project_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->outer_product_mean_project_forward != NULL,
                   run->k->outer_product_mean_project_backward != NULL));
    kernel_state *s = run->state;
    const int64_t num_seq = run->sizes.num_seq, num_res = run->sizes.num_res, rows = num_seq * num_res;
    make_outer_weights(run);
    s->mask = take_ones(run, rows);
    s->x = take(run, rows * C_M, 1);
    s->a = take_operand(run, rows * C_OUTER, 1);
    s->b = take_operand(run, rows * C_OUTER, 1);
    if (wants_backward(run)) {
        s->grad_x = take(run, rows * C_M, 0.1f);
        s->grad_a = take(run, rows * C_OUTER, 1);
        s->grad_b = take(run, rows * C_OUTER, 1);
    }
    s->args.outer.project = (ff_outer_product_project_args){
        .num_seq = num_seq, .num_res = num_res, .c_m = C_M, .c_outer = C_OUTER, .stride_seq = num_res * C_M,
        .stride_res = C_M, .mask = s->mask, .mask_stride_seq = num_res, .mask_stride_res = 1};
    const ff_outer_product_project_args *a = &s->args.outer.project;
    s->scratch = take_bytes(
        run, larger(run->k->outer_product_mean_project_scratch_bytes(a, false),
                    wants_backward(run) ? run->k->outer_product_mean_project_scratch_bytes(a, true) : 0));
    run->flop = 4.0 * (double)rows * C_M * C_OUTER;
    run->bytes = (double)rows * (4.0 * C_M + 2.0 * C_OUTER * (double)run->k->operand_bytes);
    return run->ctx->status;
}

static void outer_project_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->outer_product_mean_project_forward(s->a, s->b, s->x, &s->w.outer.value, &s->args.outer.project, s->scratch);
}

static void outer_project_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->outer_product_mean_project_backward(s->grad_x, &s->w.outer.grad, s->grad_a, s->grad_b, s->x,
                                                &s->w.outer.value, &s->args.outer.project, s->scratch);
}

static ff_status outer_product_set_up(bench_run *run)
{
    FF_TRY(offered(run, run->k->outer_product_mean_product_forward != NULL,
                   run->k->outer_product_mean_product_backward != NULL));
    kernel_state *s = run->state;
    const int64_t num_seq = run->sizes.num_seq, num_res = run->sizes.num_res, rows = num_seq * num_res;
    const int64_t area = num_res * num_res;
    make_outer_weights(run);
    s->mask = take_ones(run, rows);
    s->a = take_operand(run, rows * C_OUTER, 1);
    s->b = take_operand(run, rows * C_OUTER, 1);
    s->x = take(run, area * C_Z, 1);
    s->y = in_place(run) ? s->x : take(run, area * C_Z, 1);
    if (wants_backward(run)) {
        s->grad_y = take(run, area * C_Z, 1);
        s->grad_a = take(run, rows * C_OUTER, 0.1f);
        s->grad_b = take(run, rows * C_OUTER, 0.1f);
    }
    s->args.outer.product = (ff_outer_product_args){
        .num_seq = num_seq, .num_res_i = num_res, .num_res_j = num_res, .c_outer = C_OUTER, .c_z = C_Z,
        .mask_i = s->mask, .mask_j = s->mask, .stride_i = num_res * C_Z, .stride_j = C_Z, .residual = true};
    const ff_outer_product_args *a = &s->args.outer.product;
    s->scratch = take_bytes(
        run, larger(run->k->outer_product_mean_product_scratch_bytes(a, false),
                    wants_backward(run) ? run->k->outer_product_mean_product_scratch_bytes(a, true) : 0));
    run->flop = 2.0 * C_OUTER * C_OUTER * (double)area * (double)(num_seq + C_Z);
    run->bytes = 2.0 * (double)rows * C_OUTER * (double)run->k->operand_bytes + 8.0 * (double)area * C_Z;
    return run->ctx->status;
}

static void outer_product_forward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->outer_product_mean_product_forward(s->y, s->x, s->a, s->b, &s->w.outer.value, &s->args.outer.product,
                                               s->scratch);
}

static void outer_product_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->outer_product_mean_product_backward(s->grad_a, s->grad_b, &s->w.outer.grad, s->grad_y, s->a, s->b,
                                                &s->w.outer.value, &s->args.outer.product, s->scratch);
}

/* ---- elementwise, on the pair representation ---- */

enum { BIAS_DROPOUT_RESIDUAL = 0, SIGMOID_GATE, ADD_SCALED, TRANSPOSE, DROPOUT_MASK };

static ff_status elementwise_set_up(bench_run *run)
{
    const ff_kernels *k = run->k;
    const bool there[] = {k->bias_dropout_residual != NULL, k->sigmoid_gate_forward != NULL, k->add_scaled != NULL,
                          k->transpose != NULL, k->dropout_mask != NULL};
    const double streams[] = {3, 3, 3, 2, 1}; /* arrays read or written */
    const int variant = run->op->variant;
    FF_TRY(offered(run, there[variant], k->sigmoid_gate_backward != NULL));
    kernel_state *s = run->state;
    s->rows = run->sizes.num_res * run->sizes.num_res;
    s->width = C_Z;
    const int64_t n = s->rows * C_Z;
    s->x = take(run, n, 1);
    if (streams[variant] > 1)
        s->y = take(run, n, 1);
    if (variant == SIGMOID_GATE)
        s->a = take(run, n, 1);
    if (variant == BIAS_DROPOUT_RESIDUAL)
        s->mask = take_ones(run, run->sizes.num_res * C_Z);
    take_grads(run, n, n);
    if (wants_backward(run))
        s->grad_a = take(run, n, 0.1f);
    make_weight(run, &s->w.linear.value.bias, &s->w.linear.grad.bias, 1, C_Z);
    run->bytes = 4.0 * streams[variant] * (double)n;
    run->bytes_back = 28.0 * (double)n;
    return run->ctx->status;
}

static void elementwise_forward(bench_run *run)
{
    kernel_state *s = run->state;
    const ff_kernels *k = run->k;
    const int64_t length = run->sizes.num_res, n = s->rows * s->width;
    const float *bias = s->w.linear.value.bias;
    switch (run->op->variant) {
    case BIAS_DROPOUT_RESIDUAL:
        k->bias_dropout_residual(s->y, s->x, bias, s->mask, s->y, s->rows, length, C_Z);
        break;
    case SIGMOID_GATE: k->sigmoid_gate_forward(s->y, s->x, s->a, bias, s->rows, C_Z); break;
    case ADD_SCALED: k->add_scaled(s->y, s->x, 0.5f, n); break;
    case TRANSPOSE: k->transpose(s->y, s->x, length, length, C_Z, false); break;
    case DROPOUT_MASK: k->dropout_mask(s->x, (ff_random_key){1, 2}, 0.25f, 0, n); break;
    }
}

static void elementwise_backward(bench_run *run)
{
    kernel_state *s = run->state;
    run->k->sigmoid_gate_backward(s->grad_x, s->grad_a, s->w.linear.grad.bias, s->grad_y, s->x, s->a,
                                  s->w.linear.value.bias, s->rows, C_Z);
}

/* ---- the table ---- */

#define KERNEL(name, about, variant, prefix)                                                                           \
    {                                                                                                                  \
        name, about, false, variant, prefix##_set_up, NULL, prefix##_forward, NULL, prefix##_backward, tear_down       \
    }
#define FORWARD_ONLY(name, about, variant, prefix)                                                                     \
    {                                                                                                                  \
        name, about, false, variant, prefix##_set_up, NULL, prefix##_forward, NULL, NULL, tear_down                    \
    }

const bench_op bench_kernel_ops[] = {
    KERNEL("layer_norm", "rows of the MSA [S R, 256]", 0, layer_norm),
    KERNEL("layer_norm_pair", "rows of the pair representation [R R, 128]", 1, layer_norm),
    KERNEL("softmax", "biased and masked, logits [S / 4, 8, R, R]", 0, softmax),
    KERNEL("linear", "[S R, 256] -> [S R, 256]", 0, linear),
    KERNEL("attention_core", "row attention on projected q, k, v: batch S, length R, 8 x 32", 0, attention_core),
    KERNEL("gated_attention_row", "batch S, length R, 256 channels, 8 x 32, given bias", ROW, gated_attention),
    KERNEL("gated_attention_column", "batch R, length S, 256 channels, 8 x 32", COLUMN, gated_attention),
    KERNEL("gated_attention_starting", "batch R, length R, 128 channels, 4 x 32, given bias", STARTING, gated_attention),
    KERNEL("gated_attention_ending", "the same along columns", ENDING, gated_attention),
    KERNEL("global_attention", "batch R, length E, 64 channels, 8 x 8", 0, global_attention),
    KERNEL("pointwise_attention", "[R R, 128] over T templates [T, R R, 64], 4 x 16", 0, pointwise_attention),
    KERNEL("pair_bias", "[R, R, 128] -> [8, R, R]", 0, pair_bias),
    KERNEL("transition", "[S R, 256], hidden 1024", 0, transition),
    KERNEL("triangle_multiplication_project", "[R, R, 128] -> left, right [128, R, R]", 0, triangle_project),
    KERNEL("triangle_multiplication_product", "[128, R, R] x [128, R, R]", 0, triangle_product),
    KERNEL("triangle_multiplication_output", "[128, R, R] -> [R, R, 128], gated", 0, triangle_output),
    KERNEL("outer_product_mean_project", "[S, R, 256] -> left, right [R, 32, S]", 0, outer_project),
    KERNEL("outer_product_mean_product", "left, right -> [R, R, 128]", 0, outer_product),
    FORWARD_ONLY("bias_dropout_residual", "[R R, 128]", BIAS_DROPOUT_RESIDUAL, elementwise),
    KERNEL("sigmoid_gate", "[R R, 128]", SIGMOID_GATE, elementwise),
    FORWARD_ONLY("add_scaled", "[R R, 128]", ADD_SCALED, elementwise),
    FORWARD_ONLY("transpose", "[R, R, 128]", TRANSPOSE, elementwise),
    FORWARD_ONLY("dropout_mask", "[R R, 128]", DROPOUT_MASK, elementwise),
};
const int bench_num_kernel_ops = (int)(sizeof bench_kernel_ops / sizeof *bench_kernel_ops);
