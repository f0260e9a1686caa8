/* bench_attention.c - gated, global and pointwise attention and pair bias, entries of the kernel table. */
#include "bench/kernel_arrays.h"

/* ---- gated attention ---- */

enum { ROW = 0, COLUMN, STARTING, ENDING };

static void make_attention_weights(bench_run *run, int64_t c_in, int64_t width, int64_t c_key, bool global)
{
    bench_kernel_state *s = run->state;
    ff_attention_params *v = &s->w.attention.value, *g = &s->w.attention.grad;
    bench_make_scale(run, &v->query_norm_scale, &g->query_norm_scale, c_in);
    bench_make_weight(run, &v->query_norm_offset, &g->query_norm_offset, 1, c_in);
    bench_make_weight(run, &v->query_w, &g->query_w, c_in, width);
    bench_make_weight(run, &v->key_w, &g->key_w, c_in, global ? c_key : width);
    bench_make_weight(run, &v->value_w, &g->value_w, c_in, global ? c_key : width);
    bench_make_weight(run, &v->gating_w, &g->gating_w, c_in, width);
    bench_make_weight(run, &v->gating_b, &g->gating_b, 1, width);
    bench_make_weight(run, &v->output_w, &g->output_w, width, c_in);
    bench_make_weight(run, &v->output_b, &g->output_b, 1, c_in);
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
    FF_TRY(bench_offered(run, run->k->gated_attention_forward != NULL, run->k->gated_attention_backward != NULL));
    bench_kernel_state *s = run->state;
    ff_gated_attention_args a = attention_layout(run);
    const int64_t n = a.batch * a.length * a.c_in, width = a.num_head * a.c_hidden, hidden = a.batch * a.length * width;
    const bool bias = run->op->variant != COLUMN;
    make_attention_weights(run, a.c_in, width, width, false);
    s->x = bench_take(run, n, 1);
    s->y = bench_in_place(run) ? s->x : bench_take(run, n, 1);
    s->mask = bench_take_ones(run, a.batch * a.length);
    s->a = bias ? bench_take(run, a.num_head * a.length * a.length, 1) : NULL;
    a.mask = s->mask;
    a.bias = s->a;
    if (bench_wants_backward(run)) {
        s->grad_y = s->grad_x = bench_take(run, n, 1); /* as behind a residual */
        s->grad_a = bias ? bench_take(run, a.num_head * a.length * a.length, 0.1f) : NULL;
    }
    if (run->pass != BENCH_INFERENCE && !run->sizes.keep_inputs)
        s->kept = (ff_gated_attention_kept){.lse = bench_take(run, a.batch * a.num_head * a.length, 0),
                                            .output = bench_take(run, hidden, 0),
                                            .query = bench_take_operand(run, hidden, 0),
                                            .key = bench_take_operand(run, hidden, 0),
                                            .value = bench_take_operand(run, hidden, 0)};
    s->args.attention = a;
    s->scratch = bench_take_bytes(run, bench_larger(run->k->gated_attention_scratch_bytes(&a, false),
                                        bench_wants_backward(run) ? run->k->gated_attention_scratch_bytes(&a, true) : 0));
    run->flop = 10.0 * (double)n * (double)width + 4.0 * (double)(hidden * a.length);
    run->bytes = 8.0 * (double)n + 6.0 * (double)hidden * (double)run->k->operand_bytes +
                 (bias ? 4.0 * (double)(a.num_head * a.length * a.length) : 0);
    return run->ctx->status;
}

static const ff_gated_attention_kept *kept(const bench_kernel_state *s) { return s->kept.lse == NULL ? NULL : &s->kept; }

static void gated_attention_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->gated_attention_forward(s->y, s->x, &s->w.attention.value, &s->args.attention, kept(s), s->scratch);
}

static void gated_attention_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->gated_attention_backward(s->grad_x, s->grad_a, &s->w.attention.grad, s->grad_y, s->x, &s->w.attention.value,
                                     &s->args.attention, kept(s), s->scratch);
}

/* ---- global attention: columns of the extra MSA ---- */

static ff_status global_attention_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->global_attention_forward != NULL, run->k->global_attention_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t num_res = run->sizes.num_res, num_extra = run->sizes.num_extra, n = num_extra * num_res * C_E;
    enum { C_KEY = C_E / HEADS_MSA };
    make_attention_weights(run, C_E, C_E, C_KEY, true);
    s->x = bench_take(run, n, 1);
    s->y = bench_in_place(run) ? s->x : bench_take(run, n, 1);
    s->mask = bench_take_ones(run, num_extra * num_res);
    if (bench_wants_backward(run))
        s->grad_y = s->grad_x = bench_take(run, n, 1);
    s->args.attention = (ff_global_attention_args){
        .batch = num_res, .length = num_extra, .c_in = C_E, .num_head = HEADS_MSA, .c_hidden = C_KEY,
        .stride_batch = C_E, .stride_length = num_res * C_E, .mask = s->mask, .mask_stride_batch = 1,
        .mask_stride_length = num_res, .residual = true};
    s->scratch = bench_take_bytes(
        run, bench_larger(run->k->global_attention_scratch_bytes(&s->args.attention, false),
                    bench_wants_backward(run) ? run->k->global_attention_scratch_bytes(&s->args.attention, true) : 0));
    /* key and value 2 x 1024, gate and output 2 x 8192, products 256 for each sequence; one query a column */
    run->flop = 18688.0 * (double)(num_extra * num_res) + 8192.0 * (double)num_res;
    run->bytes = 8.0 * (double)n;
    return run->ctx->status;
}

static void global_attention_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->global_attention_forward(s->y, s->x, &s->w.attention.value, &s->args.attention, s->scratch);
}

static void global_attention_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->global_attention_backward(s->grad_x, &s->w.attention.grad, s->grad_y, s->x, &s->w.attention.value,
                                      &s->args.attention, s->scratch);
}

/* ---- pointwise attention over templates ---- */

static ff_status pointwise_attention_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->pointwise_attention_forward != NULL, run->k->pointwise_attention_backward != NULL));
    bench_kernel_state *s = run->state;
    enum { C_KEY = 16, WIDTH = HEADS_PAIR * C_KEY };
    const int64_t num_pair = run->sizes.num_res * run->sizes.num_res, num_templ = run->sizes.num_templ;
    ff_attention_params *v = &s->w.attention.value, *g = &s->w.attention.grad;
    bench_make_weight(run, &v->query_w, &g->query_w, C_Z, WIDTH);
    bench_make_weight(run, &v->key_w, &g->key_w, C_T, WIDTH);
    bench_make_weight(run, &v->value_w, &g->value_w, C_T, WIDTH);
    bench_make_weight(run, &v->output_w, &g->output_w, WIDTH, C_Z);
    bench_make_weight(run, &v->output_b, &g->output_b, 1, C_Z);
    s->x = bench_take(run, num_pair * C_Z, 1);
    s->y = bench_in_place(run) ? s->x : bench_take(run, num_pair * C_Z, 1);
    s->a = bench_take(run, num_templ * num_pair * C_T, 1);
    s->mask = bench_take_ones(run, num_templ);
    if (bench_wants_backward(run)) {
        s->grad_y = s->grad_x = bench_take(run, num_pair * C_Z, 1);
        s->grad_a = bench_take(run, num_templ * num_pair * C_T, 0.1f);
    }
    s->args.pointwise = (ff_pointwise_attention_args){.num_pair = num_pair, .num_templ = num_templ, .c_z = C_Z,
                                                      .c_t = C_T, .num_head = HEADS_PAIR, .c_hidden = C_KEY,
                                                      .template_mask = s->mask, .residual = true};
    s->scratch = bench_take_bytes(
        run, bench_larger(run->k->pointwise_attention_scratch_bytes(&s->args.pointwise, false),
                    bench_wants_backward(run) ? run->k->pointwise_attention_scratch_bytes(&s->args.pointwise, true) : 0));
    const double p = (double)num_pair, t = (double)num_templ;
    run->flop = p * WIDTH * (4.0 * C_Z + 4.0 * C_T * t + 4.0 * t);
    run->bytes = 4.0 * p * (2.0 * C_Z + C_T * t);
    return run->ctx->status;
}

static void pointwise_attention_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->pointwise_attention_forward(s->y, s->x, s->a, &s->w.attention.value, &s->args.pointwise, s->scratch);
}

static void pointwise_attention_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->pointwise_attention_backward(s->grad_x, s->grad_a, &s->w.attention.grad, s->grad_y, s->x, s->a,
                                         &s->w.attention.value, &s->args.pointwise, s->scratch);
}

/* ---- pair bias ---- */

static ff_status pair_bias_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->pair_bias_forward != NULL, run->k->pair_bias_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res, area = length * length, heads = HEADS_MSA;
    bench_make_scale(run, &s->w.pair_bias.value.norm_scale, &s->w.pair_bias.grad.norm_scale, C_Z);
    bench_make_weight(run, &s->w.pair_bias.value.norm_offset, &s->w.pair_bias.grad.norm_offset, 1, C_Z);
    bench_make_weight(run, &s->w.pair_bias.value.weights, &s->w.pair_bias.grad.weights, C_Z, heads);
    s->x = bench_take(run, area * C_Z, 1);
    s->y = bench_take(run, area * heads, 1);
    bench_take_grads(run, area * C_Z, area * heads);
    s->args.pair_bias = (ff_pair_bias_args){.num_i = length, .num_j = length, .c_z = C_Z, .num_head = heads,
                                            .stride_i = length * C_Z, .stride_j = C_Z, .bias_stride_head = area,
                                            .bias_stride_i = length};
    s->scratch = bench_take_bytes(run, bench_larger(run->k->pair_bias_scratch_bytes(&s->args.pair_bias, false),
                                        bench_wants_backward(run) ? run->k->pair_bias_scratch_bytes(&s->args.pair_bias, true)
                                                            : 0));
    run->flop = 2.0 * (double)(area * C_Z * heads);
    run->bytes = 4.0 * (double)(area * (C_Z + heads));
    run->bytes_back = 4.0 * (double)(area * (3 * C_Z + heads));
    return run->ctx->status;
}

static void pair_bias_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->pair_bias_forward(s->y, s->x, &s->w.pair_bias.value, &s->args.pair_bias, s->scratch);
}

static void pair_bias_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->pair_bias_backward(s->grad_x, &s->w.pair_bias.grad, s->grad_y, s->x, &s->w.pair_bias.value,
                               &s->args.pair_bias, s->scratch);
}

/* ---- the table ---- */

const bench_op bench_attention_ops[] = {
    BENCH_KERNEL("gated_attention_row", "batch S, length R, 256 channels, 8 x 32, given bias", ROW, gated_attention),
    BENCH_KERNEL("gated_attention_column", "batch R, length S, 256 channels, 8 x 32", COLUMN, gated_attention),
    BENCH_KERNEL("gated_attention_starting", "batch R, length R, 128 channels, 4 x 32, given bias", STARTING, gated_attention),
    BENCH_KERNEL("gated_attention_ending", "the same along columns", ENDING, gated_attention),
    BENCH_KERNEL("global_attention", "batch R, length E, 64 channels, 8 x 8", 0, global_attention),
    BENCH_KERNEL("pointwise_attention", "[R R, 128] over T templates [T, R R, 64], 4 x 16", 0, pointwise_attention),
    BENCH_KERNEL("pair_bias", "[R, R, 128] -> [8, R, R]", 0, pair_bias),
};
const int bench_num_attention_ops = (int)(sizeof bench_attention_ops / sizeof *bench_attention_ops);
