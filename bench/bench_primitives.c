/* bench_primitives.c - layer norm, softmax, linear, attention core and elementwise entries of the kernel table, at the
 * sizes the trunk has them. */
#include "bench/kernel_arrays.h"

#include <math.h>

/* ---- layer norm ---- */

static ff_status layer_norm_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->layer_norm_forward != NULL, run->k->layer_norm_backward != NULL));
    bench_kernel_state *s = run->state;
    const bool msa = run->op->variant == 0;
    s->rows = msa ? run->sizes.num_seq * run->sizes.num_res : run->sizes.num_res * run->sizes.num_res;
    s->width = msa ? C_M : C_Z;
    const int64_t n = s->rows * s->width;
    s->x = bench_take(run, n, 1);
    s->y = bench_take(run, n, 1);
    bench_take_grads(run, n, n);
    bench_make_scale(run, &s->w.layer_norm.value.scale, &s->w.layer_norm.grad.scale, s->width);
    bench_make_weight(run, &s->w.layer_norm.value.offset, &s->w.layer_norm.grad.offset, 1, s->width);
    if (bench_wants_backward(run))
        s->scratch = bench_take_bytes(run, run->k->layer_norm_backward_scratch_bytes(s->rows, s->width));
    run->bytes = 8.0 * (double)n;
    run->bytes_back = 16.0 * (double)n;
    return run->ctx->status;
}

static void layer_norm_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->layer_norm_forward(s->y, s->x, &s->w.layer_norm.value, s->rows, s->width);
}

static void layer_norm_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->layer_norm_backward(s->grad_x, &s->w.layer_norm.grad, s->grad_y, s->x, &s->w.layer_norm.value, s->rows,
                                s->width, s->scratch);
}

/* ---- softmax, over the logits of a quarter of the MSA rows ---- */

static int64_t softmax_batch(const bench_run *run) { return run->sizes.num_seq < 4 ? 1 : run->sizes.num_seq / 4; }

static ff_status softmax_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->softmax_forward != NULL, run->k->softmax_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res, per_row = HEADS_MSA * length * length, n = softmax_batch(run) * per_row;
    s->x = bench_take(run, n, 4);
    s->y = bench_take(run, n, 1);
    s->a = bench_take(run, per_row, 1);
    s->mask = bench_take_ones(run, softmax_batch(run) * length);
    bench_take_grads(run, n, n);
    if (bench_wants_backward(run))
        s->grad_a = bench_take(run, per_row, 0.1f);
    run->bytes = 8.0 * (double)n + 4.0 * (double)per_row;
    run->bytes_back = 16.0 * (double)n + 8.0 * (double)per_row;
    return run->ctx->status;
}

static void softmax_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res;
    run->k->softmax_forward(s->y, s->x, s->mask, s->a, softmax_batch(run), HEADS_MSA, length, length);
}

static void softmax_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res;
    run->k->softmax_backward(s->grad_x, s->grad_a, s->grad_y, s->y, s->mask, softmax_batch(run), HEADS_MSA, length,
                             length);
}

/* ---- linear ---- */

static ff_status linear_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->linear_forward != NULL, run->k->linear_backward != NULL));
    bench_kernel_state *s = run->state;
    s->rows = run->sizes.num_seq * run->sizes.num_res;
    s->width = C_M;
    const int64_t n = s->rows * s->width;
    s->x = bench_take(run, n, 1);
    s->y = bench_take(run, n, 1);
    bench_take_grads(run, n, n);
    bench_make_weight(run, &s->w.linear.value.weights, &s->w.linear.grad.weights, C_M, C_M);
    bench_make_weight(run, &s->w.linear.value.bias, &s->w.linear.grad.bias, 1, C_M);
    s->scratch = bench_take_bytes(run, run->k->linear_scratch_bytes(s->rows, C_M, C_M));
    run->flop = 2.0 * (double)n * C_M;
    run->bytes = 8.0 * (double)n;
    run->bytes_back = 16.0 * (double)n;
    return run->ctx->status;
}

static void linear_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->linear_forward(s->y, s->x, &s->w.linear.value, s->rows, C_M, C_M, false, false, s->scratch);
}

static void linear_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->linear_backward(s->grad_x, &s->w.linear.grad, s->grad_y, s->x, &s->w.linear.value, s->rows, C_M, C_M,
                            s->scratch);
}

/* ---- attention core: row attention on projected operands ---- */

static ff_status attention_core_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->attention_core_forward != NULL, run->k->attention_core_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t batch = run->sizes.num_seq, length = run->sizes.num_res, n = batch * length * HEADS_MSA * C_HIDDEN;
    s->x = bench_take(run, n, 1);
    s->a = bench_take(run, n, 1);
    s->b = bench_take(run, n, 1);
    s->y = bench_take(run, n, 1);
    s->c = bench_take(run, HEADS_MSA * length * length, 1);
    s->mask = bench_take_ones(run, batch * length);
    bench_take_grads(run, n, n);
    if (bench_wants_backward(run)) {
        s->grad_a = bench_take(run, n, 0.1f);
        s->grad_b = bench_take(run, n, 0.1f);
        s->grad_c = bench_take(run, HEADS_MSA * length * length, 0.1f);
    }
    s->args.core = (ff_attention_core_args){.batch = batch, .num_query = length, .num_key = length,
                                            .num_head = HEADS_MSA, .c_hidden = C_HIDDEN,
                                            .scale = 1 / sqrtf((float)C_HIDDEN), .mask = s->mask, .bias = s->c};
    s->scratch = bench_take_bytes(run, bench_larger(run->k->attention_core_scratch_bytes(&s->args.core, false),
                                        bench_wants_backward(run) ? run->k->attention_core_scratch_bytes(&s->args.core, true)
                                                            : 0));
    run->flop = 4.0 * (double)n * (double)length;
    run->bytes = 16.0 * (double)n + 4.0 * HEADS_MSA * (double)(length * length);
    return run->ctx->status;
}

static void attention_core_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->attention_core_forward(s->y, s->x, s->a, s->b, &s->args.core, s->scratch);
}

static void attention_core_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->attention_core_backward(s->grad_x, s->grad_a, s->grad_b, s->grad_c, s->grad_y, s->x, s->a, s->b,
                                    &s->args.core, s->scratch);
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
    FF_TRY(bench_offered(run, there[variant], k->sigmoid_gate_backward != NULL));
    bench_kernel_state *s = run->state;
    s->rows = run->sizes.num_res * run->sizes.num_res;
    s->width = C_Z;
    const int64_t n = s->rows * C_Z;
    s->x = bench_take(run, n, 1);
    if (streams[variant] > 1)
        s->y = bench_take(run, n, 1);
    if (variant == SIGMOID_GATE)
        s->a = bench_take(run, n, 1);
    if (variant == BIAS_DROPOUT_RESIDUAL)
        s->mask = bench_take_ones(run, run->sizes.num_res * C_Z);
    bench_take_grads(run, n, n);
    if (bench_wants_backward(run))
        s->grad_a = bench_take(run, n, 0.1f);
    bench_make_weight(run, &s->w.linear.value.bias, &s->w.linear.grad.bias, 1, C_Z);
    run->bytes = 4.0 * streams[variant] * (double)n;
    run->bytes_back = 28.0 * (double)n;
    return run->ctx->status;
}

static void elementwise_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
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
    bench_kernel_state *s = run->state;
    run->k->sigmoid_gate_backward(s->grad_x, s->grad_a, s->w.linear.grad.bias, s->grad_y, s->x, s->a,
                                  s->w.linear.value.bias, s->rows, C_Z);
}

/* ---- the table ---- */

const bench_op bench_primitive_ops[] = {
    BENCH_KERNEL("layer_norm", "rows of the MSA [S R, 256]", 0, layer_norm),
    BENCH_KERNEL("layer_norm_pair", "rows of the pair representation [R R, 128]", 1, layer_norm),
    BENCH_KERNEL("softmax", "biased and masked, logits [S / 4, 8, R, R]", 0, softmax),
    BENCH_KERNEL("linear", "[S R, 256] -> [S R, 256]", 0, linear),
    BENCH_KERNEL("attention_core", "row attention on projected q, k, v: batch S, length R, 8 x 32", 0, attention_core),
    BENCH_FORWARD_ONLY("bias_dropout_residual", "[R R, 128]", BIAS_DROPOUT_RESIDUAL, elementwise),
    BENCH_KERNEL("sigmoid_gate", "[R R, 128]", SIGMOID_GATE, elementwise),
    BENCH_FORWARD_ONLY("add_scaled", "[R R, 128]", ADD_SCALED, elementwise),
    BENCH_FORWARD_ONLY("transpose", "[R, R, 128]", TRANSPOSE, elementwise),
    BENCH_FORWARD_ONLY("dropout_mask", "[R R, 128]", DROPOUT_MASK, elementwise),
};
const int bench_num_primitive_ops = (int)(sizeof bench_primitive_ops / sizeof *bench_primitive_ops);
