/* bench_updates.c - transition, triangle multiplication and outer product mean, entries of the kernel table. */
#include "bench/kernel_arrays.h"

/* ---- transition of the MSA ---- */

static ff_status transition_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->transition_forward != NULL, run->k->transition_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t rows = run->sizes.num_seq * run->sizes.num_res, n = rows * C_M;
    ff_transition_params *v = &s->w.transition.value, *g = &s->w.transition.grad;
    bench_make_scale(run, &v->norm_scale, &g->norm_scale, C_M);
    bench_make_weight(run, &v->norm_offset, &g->norm_offset, 1, C_M);
    bench_make_weight(run, &v->weights1, &g->weights1, C_M, FACTOR * C_M);
    bench_make_weight(run, &v->bias1, &g->bias1, 1, FACTOR * C_M);
    bench_make_weight(run, &v->weights2, &g->weights2, FACTOR * C_M, C_M);
    bench_make_weight(run, &v->bias2, &g->bias2, 1, C_M);
    s->x = bench_take(run, n, 1);
    s->y = bench_in_place(run) ? s->x : bench_take(run, n, 1);
    if (bench_wants_backward(run))
        s->grad_y = s->grad_x = bench_take(run, n, 1);
    s->args.transition = (ff_transition_args){.rows = rows, .c = C_M, .c_hidden = FACTOR * C_M, .residual = true};
    s->scratch = bench_take_bytes(
        run, bench_larger(run->k->transition_scratch_bytes(&s->args.transition, false),
                    bench_wants_backward(run) ? run->k->transition_scratch_bytes(&s->args.transition, true) : 0));
    run->flop = 4.0 * (double)n * FACTOR * C_M;
    run->bytes = 8.0 * (double)n;
    run->bytes_back = 12.0 * (double)n;
    return run->ctx->status;
}

static void transition_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->transition_forward(s->y, s->x, &s->w.transition.value, &s->args.transition, s->scratch);
}

static void transition_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->transition_backward(s->grad_x, &s->w.transition.grad, s->grad_y, s->x, &s->w.transition.value,
                                &s->args.transition, s->scratch);
}

/* ---- triangle multiplication, outgoing, in its three parts ---- */

static void make_triangle_weights(bench_run *run)
{
    bench_kernel_state *s = run->state;
    ff_triangle_multiplication_params *v = &s->w.triangle.value, *g = &s->w.triangle.grad;
    bench_make_scale(run, &v->norm_scale, &g->norm_scale, C_Z);
    bench_make_weight(run, &v->norm_offset, &g->norm_offset, 1, C_Z);
    bench_make_weight(run, &v->left_projection_w, &g->left_projection_w, C_Z, C_Z);
    bench_make_weight(run, &v->left_projection_b, &g->left_projection_b, 1, C_Z);
    bench_make_weight(run, &v->right_projection_w, &g->right_projection_w, C_Z, C_Z);
    bench_make_weight(run, &v->right_projection_b, &g->right_projection_b, 1, C_Z);
    bench_make_weight(run, &v->left_gate_w, &g->left_gate_w, C_Z, C_Z);
    bench_make_weight(run, &v->left_gate_b, &g->left_gate_b, 1, C_Z);
    bench_make_weight(run, &v->right_gate_w, &g->right_gate_w, C_Z, C_Z);
    bench_make_weight(run, &v->right_gate_b, &g->right_gate_b, 1, C_Z);
    bench_make_scale(run, &v->center_norm_scale, &g->center_norm_scale, C_Z);
    bench_make_weight(run, &v->center_norm_offset, &g->center_norm_offset, 1, C_Z);
    bench_make_weight(run, &v->output_projection_w, &g->output_projection_w, C_Z, C_Z);
    bench_make_weight(run, &v->output_projection_b, &g->output_projection_b, 1, C_Z);
    bench_make_weight(run, &v->gating_linear_w, &g->gating_linear_w, C_Z, C_Z);
    bench_make_weight(run, &v->gating_linear_b, &g->gating_linear_b, 1, C_Z);
    v->projection_stride = g->projection_stride = C_Z;
}

static void triangle_args(bench_run *run)
{
    bench_kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res;
    s->args.triangle.own = (ff_triangle_multiplication_args){
        .num_i = length, .num_j = length, .c_z = C_Z, .c_hidden = C_Z, .stride_i = length * C_Z, .stride_j = C_Z,
        .mask = s->mask, .mask_stride_i = length, .mask_stride_j = 1, .residual = true};
}

static void triangle_scratch(bench_run *run)
{
    bench_kernel_state *s = run->state;
    const ff_triangle_multiplication_args *a = &s->args.triangle.own;
    s->scratch = bench_take_bytes(
        run, bench_larger(run->k->triangle_multiplication_scratch_bytes(a, false),
                    bench_wants_backward(run) ? run->k->triangle_multiplication_scratch_bytes(a, true) : 0));
}

static ff_status triangle_project_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->triangle_multiplication_project_forward != NULL,
                   run->k->triangle_multiplication_project_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t area = run->sizes.num_res * run->sizes.num_res, n = area * C_Z;
    make_triangle_weights(run);
    s->mask = bench_take_ones(run, area);
    s->x = bench_take(run, n, 1);
    s->a = bench_take_operand(run, n, 1); /* left, right */
    s->b = bench_take_operand(run, n, 1);
    if (bench_wants_backward(run)) {
        s->grad_x = bench_take(run, n, 0.1f);
        s->grad_a = bench_take_operand(run, n, 1);
        s->grad_b = bench_take_operand(run, n, 1);
    }
    triangle_args(run);
    triangle_scratch(run);
    run->flop = 8.0 * (double)n * C_Z;
    run->bytes = (double)n * (4 + 2.0 * (double)run->k->operand_bytes);
    return run->ctx->status;
}

static void triangle_project_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->triangle_multiplication_project_forward(s->a, s->b, s->x, &s->w.triangle.value, &s->args.triangle.own,
                                                    s->scratch);
}

static void triangle_project_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->triangle_multiplication_project_backward(s->grad_x, &s->w.triangle.grad, s->grad_a, s->grad_b, s->a, s->b,
                                                     s->x, &s->w.triangle.value, &s->args.triangle.own, s->scratch);
}

static ff_status triangle_product_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->triangle_multiplication_product_forward != NULL,
                   run->k->triangle_multiplication_product_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t length = run->sizes.num_res, n = length * length * C_Z;
    s->a = bench_take_operand(run, n, 1);
    s->b = bench_take_operand(run, n, 1);
    s->y = bench_take_operand(run, n, 1);
    if (bench_wants_backward(run)) {
        s->grad_y = bench_take_operand(run, n, 1);
        s->grad_a = bench_take_operand(run, n, 1);
        s->grad_b = bench_take_operand(run, n, 1);
    }
    s->args.triangle.block = (ff_operand_block){s->b, length};
    s->args.triangle.product = (ff_triangle_product_args){.c_hidden = C_Z, .num_i = length, .num_k = length,
                                                          .num_blocks = 1, .blocks = &s->args.triangle.block};
    const ff_triangle_product_args *a = &s->args.triangle.product;
    s->scratch = bench_take_bytes(run, bench_larger(run->k->triangle_product_scratch_bytes(a, false),
                                        bench_wants_backward(run) ? run->k->triangle_product_scratch_bytes(a, true) : 0));
    run->flop = 2.0 * (double)n * (double)length;
    run->bytes = 3.0 * (double)n * (double)run->k->operand_bytes;
    run->bytes_back = 5.0 * (double)n * (double)run->k->operand_bytes;
    return run->ctx->status;
}

static void triangle_product_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->triangle_multiplication_product_forward(s->y, s->a, &s->args.triangle.product, s->scratch);
}

static void triangle_product_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    void *grad_b[1] = {s->grad_b};
    run->k->triangle_multiplication_product_backward(s->grad_a, grad_b, s->grad_y, s->a, &s->args.triangle.product,
                                                     s->scratch);
}

static ff_status triangle_output_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->triangle_multiplication_output_forward != NULL,
                   run->k->triangle_multiplication_output_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t area = run->sizes.num_res * run->sizes.num_res, n = area * C_Z;
    make_triangle_weights(run);
    s->mask = bench_take_ones(run, area);
    s->x = bench_take(run, n, 1);
    s->a = bench_take_operand(run, n, 1); /* t */
    s->y = bench_in_place(run) ? s->x : bench_take(run, n, 1);
    if (bench_wants_backward(run)) {
        s->grad_y = s->grad_x = bench_take(run, n, 1);
        s->grad_a = bench_take_operand(run, n, 1);
    }
    triangle_args(run);
    triangle_scratch(run);
    run->flop = 4.0 * (double)n * C_Z;
    run->bytes = (double)n * (8 + (double)run->k->operand_bytes);
    return run->ctx->status;
}

static void triangle_output_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->triangle_multiplication_output_forward(s->y, s->x, s->a, &s->w.triangle.value, &s->args.triangle.own,
                                                   s->scratch);
}

static void triangle_output_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->triangle_multiplication_output_backward(s->grad_a, s->grad_x, &s->w.triangle.grad, s->grad_y, s->x, s->a,
                                                    &s->w.triangle.value, &s->args.triangle.own, s->scratch);
}

/* ---- outer product mean in its two parts ---- */

static void make_outer_weights(bench_run *run)
{
    bench_kernel_state *s = run->state;
    ff_outer_product_mean_params *v = &s->w.outer.value, *g = &s->w.outer.grad;
    bench_make_scale(run, &v->norm_scale, &g->norm_scale, C_M);
    bench_make_weight(run, &v->norm_offset, &g->norm_offset, 1, C_M);
    bench_make_weight(run, &v->left_projection_w, &g->left_projection_w, C_M, C_OUTER);
    bench_make_weight(run, &v->left_projection_b, &g->left_projection_b, 1, C_OUTER);
    bench_make_weight(run, &v->right_projection_w, &g->right_projection_w, C_M, C_OUTER);
    bench_make_weight(run, &v->right_projection_b, &g->right_projection_b, 1, C_OUTER);
    bench_make_weight(run, &v->output_w, &g->output_w, C_OUTER * C_OUTER, C_Z);
    bench_make_weight(run, &v->output_b, &g->output_b, 1, C_Z);
}

static ff_status outer_project_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->outer_product_mean_project_forward != NULL,
                   run->k->outer_product_mean_project_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t num_seq = run->sizes.num_seq, num_res = run->sizes.num_res, rows = num_seq * num_res;
    make_outer_weights(run);
    s->mask = bench_take_ones(run, rows);
    s->x = bench_take(run, rows * C_M, 1);
    s->a = bench_take_operand(run, rows * C_OUTER, 1);
    s->b = bench_take_operand(run, rows * C_OUTER, 1);
    if (bench_wants_backward(run)) {
        s->grad_x = bench_take(run, rows * C_M, 0.1f);
        s->grad_a = bench_take(run, rows * C_OUTER, 1);
        s->grad_b = bench_take(run, rows * C_OUTER, 1);
    }
    s->args.outer.project = (ff_outer_product_project_args){
        .num_seq = num_seq, .num_res = num_res, .c_m = C_M, .c_outer = C_OUTER, .stride_seq = num_res * C_M,
        .stride_res = C_M, .mask = s->mask, .mask_stride_seq = num_res, .mask_stride_res = 1};
    const ff_outer_product_project_args *a = &s->args.outer.project;
    s->scratch = bench_take_bytes(
        run, bench_larger(run->k->outer_product_mean_project_scratch_bytes(a, false),
                    bench_wants_backward(run) ? run->k->outer_product_mean_project_scratch_bytes(a, true) : 0));
    run->flop = 4.0 * (double)rows * C_M * C_OUTER;
    run->bytes = (double)rows * (4.0 * C_M + 2.0 * C_OUTER * (double)run->k->operand_bytes);
    return run->ctx->status;
}

static void outer_project_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->outer_product_mean_project_forward(s->a, s->b, s->x, &s->w.outer.value, &s->args.outer.project, s->scratch);
}

static void outer_project_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->outer_product_mean_project_backward(s->grad_x, &s->w.outer.grad, s->grad_a, s->grad_b, s->x,
                                                &s->w.outer.value, &s->args.outer.project, s->scratch);
}

static ff_status outer_product_set_up(bench_run *run)
{
    FF_TRY(bench_offered(run, run->k->outer_product_mean_product_forward != NULL,
                   run->k->outer_product_mean_product_backward != NULL));
    bench_kernel_state *s = run->state;
    const int64_t num_seq = run->sizes.num_seq, num_res = run->sizes.num_res, rows = num_seq * num_res;
    const int64_t area = num_res * num_res;
    make_outer_weights(run);
    s->mask = bench_take_ones(run, rows);
    s->a = bench_take_operand(run, rows * C_OUTER, 1);
    s->b = bench_take_operand(run, rows * C_OUTER, 1);
    s->x = bench_take(run, area * C_Z, 1);
    s->y = bench_in_place(run) ? s->x : bench_take(run, area * C_Z, 1);
    if (bench_wants_backward(run)) {
        s->grad_y = bench_take(run, area * C_Z, 1);
        s->grad_a = bench_take(run, rows * C_OUTER, 0.1f);
        s->grad_b = bench_take(run, rows * C_OUTER, 0.1f);
    }
    s->args.outer.product = (ff_outer_product_args){
        .num_seq = num_seq, .num_res_i = num_res, .num_res_j = num_res, .c_outer = C_OUTER, .c_z = C_Z,
        .mask_i = s->mask, .mask_j = s->mask, .stride_i = num_res * C_Z, .stride_j = C_Z, .residual = true};
    const ff_outer_product_args *a = &s->args.outer.product;
    s->scratch = bench_take_bytes(
        run, bench_larger(run->k->outer_product_mean_product_scratch_bytes(a, false),
                    bench_wants_backward(run) ? run->k->outer_product_mean_product_scratch_bytes(a, true) : 0));
    run->flop = 2.0 * C_OUTER * C_OUTER * (double)area * (double)(num_seq + C_Z);
    run->bytes = 2.0 * (double)rows * C_OUTER * (double)run->k->operand_bytes + 8.0 * (double)area * C_Z;
    return run->ctx->status;
}

static void outer_product_forward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->outer_product_mean_product_forward(s->y, s->x, s->a, s->b, &s->w.outer.value, &s->args.outer.product,
                                               s->scratch);
}

static void outer_product_backward(bench_run *run)
{
    bench_kernel_state *s = run->state;
    run->k->outer_product_mean_product_backward(s->grad_a, s->grad_b, &s->w.outer.grad, s->grad_y, s->a, s->b,
                                                &s->w.outer.value, &s->args.outer.product, s->scratch);
}

/* ---- the table ---- */

const bench_op bench_update_ops[] = {
    BENCH_KERNEL("transition", "[S R, 256], hidden 1024", 0, transition),
    BENCH_KERNEL("triangle_multiplication_project", "[R, R, 128] -> left, right [128, R, R]", 0, triangle_project),
    BENCH_KERNEL("triangle_multiplication_product", "[128, R, R] x [128, R, R]", 0, triangle_product),
    BENCH_KERNEL("triangle_multiplication_output", "[128, R, R] -> [R, R, 128], gated", 0, triangle_output),
    BENCH_KERNEL("outer_product_mean_project", "[S, R, 256] -> left, right [R, 32, S]", 0, outer_project),
    BENCH_KERNEL("outer_product_mean_product", "left, right -> [R, R, 128]", 0, outer_product),
};
const int bench_num_update_ops = (int)(sizeof bench_update_ops / sizeof *bench_update_ops);
