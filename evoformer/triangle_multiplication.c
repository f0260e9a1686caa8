/* Contents: geometry; the parts of the forward pass; backward of the product; the node; forward.
 *
 * Both directions are one code. Each rank projects its own rows of the pair (outgoing) or of the transposed pair
 * (incoming, its columns): left and right are [c_hidden, local, num_res]. `right` is gathered as one block per rank.
 *     outgoing   t[i, j] = left[i] . right[j]     a = left (local rows), b = the blocks of right
 *     incoming   t[i, j] = right'[i] . left'[j]   a = each block of right' in turn, b = left' (local columns)
 * so that t lies as the local pair does: outgoing [c, local, num_res], incoming one [c, rows, local] per block. */
#include "evoformer/triangle_multiplication.h"

#include <string.h>

#include "dap/dap.h"
#include "evoformer/shards.h"

enum { KEPT_LEFT, KEPT_RIGHT, KEPT_T, KEPT_DROPOUT, KEPT_COUNT };
enum { CHANNEL_CHUNKS = 2 }; /* in the backward pass of nodes that keep their inputs only */

/* ---- geometry ---- */

typedef struct {
    const ff_triangle_multiplication_layer *w;
    bool incoming;
    ff_update update;
    int rank, size;
    int64_t num_res, local;
    ff_triangle_multiplication_args project; /* rows = the local axis */
    ff_triangle_multiplication_args output;  /* rows = i */
} triangle_node;

static bool set_geometry(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, const ff_tensor *pair,
                         const ff_tensor *pair_mask, bool incoming, ff_update update, triangle_node *n)
{
    if (!ff_check_shape(ctx, pair, "pair", FF_SHAPE(-1, -1, w->c_z)))
        return false;
    const int64_t num_res = pair->shape[incoming ? 0 : 1], local = pair->shape[incoming ? 1 : 0], c_z = w->c_z;
    if (!ff_check_shape(ctx, pair_mask, "pair_mask", FF_SHAPE(num_res, num_res)))
        return false;
    const int rank = ff_dap_rank(ctx), size = ff_dap_size(ctx);
    const int64_t first = ff_shard_first(num_res, rank, size);
    *n = (triangle_node){.w = w, .incoming = incoming, .update = update, .rank = rank, .size = size};
    n->num_res = num_res;
    n->local = local;
    n->project = (ff_triangle_multiplication_args){
        .num_i = local,
        .num_j = num_res,
        .c_z = c_z,
        .c_hidden = w->c_hidden,
        .stride_i = incoming ? c_z : num_res * c_z,
        .stride_j = incoming ? local * c_z : c_z,
        .mask = ff_data(pair_mask) + (incoming ? first : first * num_res),
        .mask_stride_i = incoming ? 1 : num_res,
        .mask_stride_j = incoming ? num_res : 1,
    };
    n->output = (ff_triangle_multiplication_args){
        .num_i = incoming ? num_res : local,
        .num_j = incoming ? local : num_res,
        .c_z = c_z,
        .c_hidden = w->c_hidden,
        .stride_i = pair->shape[1] * c_z,
        .stride_j = c_z,
        .residual = update == FF_RESIDUAL,
    };
    return true;
}

static int64_t part_first(const triangle_node *n, int r) { return ff_shard_first(n->num_res, r, n->size); }
static int64_t part_rows(const triangle_node *n, int r) { return ff_shard_length(n->num_res, r, n->size); }

/* Where channel 0 of block r begins in an array of all blocks, [c_hidden, rows, row] each. */
static void *block_at(const ff_ctx *ctx, const triangle_node *n, void *data, int r, int64_t row)
{
    return (char *)data + (size_t)(part_first(n, r) * n->w->c_hidden * row) * ctx->kernels->operand_bytes;
}

static double triangle_flop(const triangle_node *n)
{
    const double ij = (double)n->local * (double)n->num_res, c = (double)n->w->c_hidden, c_z = (double)n->w->c_z;
    return ij * (8.0 * c_z * c + 2.0 * (c + c_z) * c_z + 2.0 * (double)n->num_res * c);
}

/* pair in and out, the two operands written and read */
static double triangle_bytes(const ff_ctx *ctx, const triangle_node *n)
{
    return (double)n->local * (double)n->num_res *
           (8.0 * (double)n->w->c_z + 4.0 * (double)n->w->c_hidden * (double)ctx->kernels->operand_bytes);
}

/* ---- the parts of the forward pass ---- */

/* left: this rank's; right: of all ranks. */
static void project(ff_ctx *ctx, const triangle_node *n, ff_tensor *pair, ff_tensor **left, ff_tensor **right)
{
    const int64_t c = n->w->c_hidden;
    *left = ff_tensor_create_operand(ctx, FF_SHAPE(c, n->local, n->num_res));
    ff_tensor *own = ff_tensor_create_operand(ctx, FF_SHAPE(c, n->local, n->num_res));
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&n->project, false));
    if (ff_computing(ctx))
        ctx->kernels->triangle_multiplication_project_forward((*left)->data, own->data, ff_data(pair), &n->w->value,
                                                              &n->project, scratch);
    ff_scratch_end(ctx, scratch);
    *right = ff_shards_gather_operand(ctx, own, n->num_res, c * n->num_res);
    ff_tensor_release(own);
}

/* The product's arguments for pass `r` (incoming: block r of right against left; outgoing: the only pass). `blocks` has
 * room for every rank. */
static ff_triangle_product_args product_args(const ff_ctx *ctx, const triangle_node *n, int r, ff_tensor *left,
                                             ff_tensor *right, ff_operand_block *blocks, const void **a)
{
    ff_triangle_product_args p = {.c_hidden = n->w->c_hidden, .num_k = n->num_res, .blocks = blocks};
    if (n->incoming) {
        p.num_i = part_rows(n, r);
        p.num_blocks = 1;
        *a = right == NULL ? NULL : block_at(ctx, n, right->data, r, n->num_res);
        blocks[0] = (ff_operand_block){left == NULL ? NULL : left->data, n->local};
        return p;
    }
    p.num_i = n->local;
    p.num_blocks = n->size;
    *a = left == NULL ? NULL : left->data;
    for (int q = 0; q < n->size; q++)
        blocks[q] = (ff_operand_block){right == NULL ? NULL : block_at(ctx, n, right->data, q, n->num_res),
                                       part_rows(n, q)};
    return p;
}

static int num_passes(const triangle_node *n) { return n->incoming ? n->size : 1; }

/* Bytes of the block list of a pass. */
static size_t blocks_bytes(const triangle_node *n) { return (size_t)n->size * sizeof(ff_operand_block); }

/* The block list has to be there even when nothing is computed: scratch sizes depend on it. */
typedef struct {
    ff_operand_block few[16];
    ff_operand_block *list;
    void *scratch;
} block_list;

static void blocks_begin(ff_ctx *ctx, const triangle_node *n, block_list *b)
{
    b->scratch = NULL;
    b->list = b->few;
    if (n->size > (int)(sizeof b->few / sizeof *b->few)) {
        b->scratch = ff_scratch_begin(ctx, blocks_bytes(n));
        b->list = ff_computing(ctx) ? b->scratch : NULL;
    }
}

/* t, in the place of `reuse` when that is given. */
static ff_tensor *product(ff_ctx *ctx, const triangle_node *n, ff_tensor *left, ff_tensor *right, ff_tensor *reuse)
{
    const ff_kernels *k = ctx->kernels;
    ff_tensor *t = reuse != NULL
                       ? ff_tensor_retain(reuse)
                       : ff_tensor_create_operand(ctx, FF_SHAPE(n->w->c_hidden, n->output.num_i, n->output.num_j));
    block_list b;
    blocks_begin(ctx, n, &b);
    for (int r = 0; r < num_passes(n) && b.list != NULL; r++) {
        const void *a;
        const ff_triangle_product_args p = product_args(ctx, n, r, left, right, b.list, &a);
        void *scratch = ff_scratch_begin(ctx, k->triangle_product_scratch_bytes(&p, false));
        if (ff_computing(ctx))
            k->triangle_multiplication_product_forward(
                n->incoming ? block_at(ctx, n, t->data, r, n->local) : t->data, a, &p, scratch);
        ff_scratch_end(ctx, scratch);
    }
    ff_scratch_end(ctx, b.scratch);
    return t;
}

/* The rows of the output's pass r: all of them, or block r of an incoming update. */
static ff_triangle_multiplication_args output_args(const triangle_node *n, int r, int64_t *pair_offset)
{
    ff_triangle_multiplication_args a = n->output;
    *pair_offset = 0;
    if (n->incoming) {
        a.num_i = part_rows(n, r);
        *pair_offset = part_first(n, r) * a.stride_i;
    }
    return a;
}

static void output(ff_ctx *ctx, const triangle_node *n, ff_tensor *out, ff_tensor *pair, ff_tensor *t)
{
    for (int r = 0; r < num_passes(n); r++) {
        int64_t at;
        const ff_triangle_multiplication_args a = output_args(n, r, &at);
        void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&a, false));
        if (ff_computing(ctx))
            ctx->kernels->triangle_multiplication_output_forward(
                ff_data(out) + at, ff_data(pair) + at,
                n->incoming ? block_at(ctx, n, t->data, r, n->local) : t->data, &n->w->value, &a, scratch);
        ff_scratch_end(ctx, scratch);
    }
}

/* ---- backward of the product ---- */

/* This rank's part of the sum over ranks of the gradient of right, as an operand. Consumes `all`. */
static ff_tensor *reduce_right(ff_ctx *ctx, const triangle_node *n, ff_tensor *all)
{
    if (n->size == 1 || ctx->status != FF_OK)
        return all;
    ff_tensor *wide = ff_shards_to_float(ctx, all);
    ff_tensor_release(all);
    ff_tensor *sum = ff_shards_reduce(ctx, wide, n->num_res, n->w->c_hidden * n->num_res);
    ff_tensor_release(wide);
    ff_tensor *local = ctx->status != FF_OK ? NULL : ff_shards_to_operand(ctx, sum);
    ff_tensor_release(sum);
    return local;
}

/* sum += part, float32; the first part becomes the sum. Consumes `part` (operand). */
static ff_tensor *accumulate(ff_ctx *ctx, ff_tensor *sum, ff_tensor *part)
{
    ff_tensor *wide = ctx->status != FF_OK ? NULL : ff_shards_to_float(ctx, part);
    ff_tensor_release(part);
    if (sum == NULL)
        return wide;
    if (ff_computing(ctx))
        ctx->kernels->add_scaled(ff_data(sum), ff_data(wide), 1.0f, sum->size);
    ff_tensor_release(wide);
    return sum;
}

/* grad_left (local), in the place of grad_t where the sizes allow it, and grad_right (all ranks' blocks, this rank's part
 * of their sums). Consumes grad_t. */
static void product_backward(ff_ctx *ctx, const triangle_node *n, ff_tensor *grad_t, ff_tensor *left, ff_tensor *right,
                             ff_tensor **grad_left, ff_tensor **grad_right)
{
    const ff_kernels *k = ctx->kernels;
    const int64_t c = n->w->c_hidden;
    ff_tensor *sum = NULL;
    *grad_left = NULL;
    *grad_right = n->incoming && n->size == 1 ? ff_tensor_retain(grad_t)
                                              : ff_tensor_create_operand(ctx, FF_SHAPE(n->num_res, c * n->num_res));
    block_list b;
    blocks_begin(ctx, n, &b);
    void **grads = ff_scratch_begin(ctx, (size_t)n->size * sizeof *grads);
    for (int r = 0; r < num_passes(n) && b.list != NULL; r++) {
        const void *a;
        const ff_triangle_product_args p = product_args(ctx, n, r, left, right, b.list, &a);
        *grad_left = n->incoming ? ff_tensor_create_operand(ctx, FF_SHAPE(c, n->local, n->num_res))
                                 : ff_tensor_retain(grad_t);
        void *scratch = ff_scratch_begin(ctx, k->triangle_product_scratch_bytes(&p, true));
        if (ff_computing(ctx)) {
            for (int q = 0; q < n->size; q++)
                grads[q] = block_at(ctx, n, (*grad_right)->data, q, n->num_res);
            if (n->incoming) {
                void *const grad_b[1] = {(*grad_left)->data};
                k->triangle_multiplication_product_backward(grads[r], grad_b,
                                                            block_at(ctx, n, grad_t->data, r, n->local), a, &p, scratch);
            } else {
                k->triangle_multiplication_product_backward((*grad_left)->data, grads, grad_t->data, a, &p, scratch);
            }
        }
        ff_scratch_end(ctx, scratch);
        if (num_passes(n) > 1) {
            sum = accumulate(ctx, sum, *grad_left);
            *grad_left = NULL;
        }
    }
    ff_scratch_end(ctx, grads);
    ff_scratch_end(ctx, b.scratch);
    ff_tensor_release(grad_t);
    if (sum != NULL && ctx->status == FF_OK)
        *grad_left = ff_shards_to_operand(ctx, sum);
    ff_tensor_release(sum);
}

/* ---- the node ---- */

/* t becomes grad_t in place; grad_pair gets the gate's and the residual part. */
static void output_backward(ff_ctx *ctx, const triangle_node *n, const ff_module_grads *g, ff_tensor *pair, ff_tensor *t)
{
    for (int r = 0; r < num_passes(n); r++) {
        int64_t at;
        const ff_triangle_multiplication_args a = output_args(n, r, &at);
        void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&a, true));
        if (ff_computing(ctx)) {
            void *block = n->incoming ? block_at(ctx, n, t->data, r, n->local) : t->data;
            ctx->kernels->triangle_multiplication_output_backward(block, g->grad_x + at,
                                                                  n->w->trained ? &n->w->grad : NULL, g->grad_out + at,
                                                                  ff_data(pair) + at, block, &n->w->value, &a, scratch);
        }
        ff_scratch_end(ctx, scratch);
    }
}

/* Move the projections' pointers to channel c0. */
static ff_triangle_multiplication_params from_channel(const ff_triangle_multiplication_params *w, int64_t c0)
{
    ff_triangle_multiplication_params p = *w;
    float **arrays[] = {&p.left_projection_w, &p.left_projection_b, &p.right_projection_w, &p.right_projection_b,
                        &p.left_gate_w,       &p.left_gate_b,       &p.right_gate_w,       &p.right_gate_b};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] += c0;
    return p;
}

/* Channels c0 .. c0 + channels - 1 of the projections. */
static void project_backward(ff_ctx *ctx, const triangle_node *n, const ff_module_grads *g, ff_tensor *pair,
                             const void *grad_left, const void *grad_right, const void *left, const void *right,
                             int64_t c0, int64_t channels)
{
    ff_triangle_multiplication_args a = n->project;
    a.c_hidden = channels;
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&a, true));
    if (ff_computing(ctx)) {
        const ff_triangle_multiplication_params value = from_channel(&n->w->value, c0);
        const ff_triangle_multiplication_params grad = n->w->trained ? from_channel(&n->w->grad, c0) : n->w->grad;
        ctx->kernels->triangle_multiplication_project_backward(g->grad_x, n->w->trained ? &grad : NULL, grad_left,
                                                               grad_right, left, right, ff_data(pair), &value, &a,
                                                               scratch);
    }
    ff_scratch_end(ctx, scratch);
}

/* One rank, product and projections by chunks of channels: of the gradients of a and b only a chunk of one is ever there
 * besides grad_t. */
static void chunked_backward(ff_ctx *ctx, const triangle_node *n, const ff_module_grads *g, ff_tensor *pair,
                             ff_tensor *grad_t, ff_tensor *left, ff_tensor *right)
{
    const ff_kernels *k = ctx->kernels;
    const int64_t c = n->w->c_hidden, plane = n->num_res * n->num_res, step = (c + CHANNEL_CHUNKS - 1) / CHANNEL_CHUNKS;
    ff_tensor *grad_b = ff_tensor_create_operand(ctx, FF_SHAPE(step, plane));
    for (int64_t c0 = 0; c0 < c && ctx->status == FF_OK; c0 += step) {
        const int64_t channels = c - c0 < step ? c - c0 : step;
        const size_t at = (size_t)(c0 * plane) * k->operand_bytes;
        char *l = (char *)left->data + at, *r = (char *)right->data + at, *gt = (char *)grad_t->data + at;
        void *const gb[1] = {grad_b->data};
        const ff_operand_block block = {n->incoming ? l : r, n->num_res};
        const ff_triangle_product_args p = {channels, n->num_res, n->num_res, 1, &block};
        void *scratch = ff_scratch_begin(ctx, k->triangle_product_scratch_bytes(&p, true));
        if (ff_computing(ctx))
            k->triangle_multiplication_product_backward(gt, gb, gt, n->incoming ? r : l, &p, scratch);
        ff_scratch_end(ctx, scratch);
        project_backward(ctx, n, g, pair, n->incoming ? gb[0] : gt, n->incoming ? gt : gb[0], l, r, c0, channels);
    }
    ff_tensor_release(grad_b);
}

static void whole_backward(ff_ctx *ctx, const triangle_node *n, const ff_module_grads *g, ff_tensor *pair,
                           ff_tensor **kept)
{
    ff_tensor *grad_left = NULL, *grad_right = NULL;
    product_backward(ctx, n, kept[KEPT_T], kept[KEPT_LEFT], kept[KEPT_RIGHT], &grad_left, &grad_right);
    kept[KEPT_T] = NULL;
    grad_right = reduce_right(ctx, n, grad_right);
    if (ctx->status == FF_OK)
        project_backward(ctx, n, g, pair, grad_left->data, grad_right->data, kept[KEPT_LEFT]->data,
                         block_at(ctx, n, kept[KEPT_RIGHT]->data, n->rank, n->num_res), 0, n->w->c_hidden);
    ff_tensor_release(grad_left);
    ff_tensor_release(grad_right);
}

static void triangle_backward(ff_ctx *ctx, ff_node *node)
{
    triangle_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *pair = node->inputs[0], **kept = node->kept;
    ff_module_grads g;
    if (!ff_module_offered(ctx, ctx->kernels->triangle_multiplication_product_backward != NULL,
                           "triangle multiplication backward") ||
        !ff_module_grads_begin(ctx, node, pair, node->outputs[0], n.update, &g))
        return;
    const bool recompute = kept[KEPT_LEFT] == NULL;
    const double kept_bytes = ff_module_bytes(kept, KEPT_COUNT);
    if (recompute) {
        project(ctx, &n, pair, &kept[KEPT_LEFT], &kept[KEPT_RIGHT]);
        kept[KEPT_T] = product(ctx, &n, kept[KEPT_LEFT], kept[KEPT_RIGHT], NULL);
    }
    output_backward(ctx, &n, &g, pair, kept[KEPT_T]);
    if (recompute && n.size == 1) /* what keeps only inputs also has to be small here */
        chunked_backward(ctx, &n, &g, pair, kept[KEPT_T], kept[KEPT_LEFT], kept[KEPT_RIGHT]);
    else
        whole_backward(ctx, &n, &g, pair, kept);
    ff_module_record(ctx, node->name, true, triangle_flop(&n), triangle_bytes(ctx, &n), kept_bytes, 0);
    ff_module_grads_end(&g);
}

/* ---- forward ---- */

static ff_tensor *triangle(ff_ctx *ctx, const char *name, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                           ff_tensor *pair_mask, bool incoming, ff_update update)
{
    triangle_node n;
    if (!ff_module_offered(ctx, ctx->kernels->triangle_multiplication_product_forward != NULL,
                           "triangle multiplication") ||
        !set_geometry(ctx, w, pair, pair_mask, incoming, update, &n))
        return ff_module_end(ctx, pair, NULL);
    ff_tensor *inputs[] = {pair, pair_mask}, *kept[KEPT_COUNT] = {NULL};
    const bool recorded = ff_module_recorded(ctx, w->trained, inputs, 1);
    const bool keep = recorded && ff_module_keep(ctx) != FF_KEEP_INPUTS;
    ff_tensor *out = ff_module_output(ctx, pair, recorded, update);
    kept[KEPT_DROPOUT] = ff_module_dropout(ctx, w->dropout, incoming ? ff_shard_first(n.num_res, n.rank, n.size) : 0,
                                           n.output.num_j, w->c_z);
    n.output.dropout = ff_data(kept[KEPT_DROPOUT]);
    project(ctx, &n, pair, &kept[KEPT_LEFT], &kept[KEPT_RIGHT]);
    ff_tensor *reuse = keep || n.size > 1 ? NULL : kept[incoming ? KEPT_RIGHT : KEPT_LEFT];
    kept[KEPT_T] = product(ctx, &n, kept[KEPT_LEFT], kept[KEPT_RIGHT], reuse);
    for (int i = KEPT_LEFT; i <= KEPT_RIGHT && !keep; i++) {
        ff_tensor_release(kept[i]);
        kept[i] = NULL;
    }
    output(ctx, &n, out, pair, kept[KEPT_T]);
    if (!keep) {
        ff_tensor_release(kept[KEPT_T]);
        kept[KEPT_T] = NULL;
    }
    ff_module_record(ctx, name, false, triangle_flop(&n), triangle_bytes(ctx, &n), ff_module_bytes(kept, KEPT_COUNT), 0);
    if (recorded)
        ff_tape_add(ctx, name, triangle_backward, inputs, 2, &out, 1, kept, KEPT_COUNT, &n, sizeof n);
    else
        ff_tensor_release(kept[KEPT_DROPOUT]);
    return ff_module_end(ctx, pair, out);
}

ff_tensor *ff_triangle_multiplication_outgoing(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                                               ff_tensor *pair_mask, ff_update update)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_z);
    ff_tensor *out = triangle(ctx, "triangle_multiplication_outgoing", w, pair, pair_mask, false, update);
    ctx->kernels = outer;
    return out;
}

ff_tensor *ff_triangle_multiplication_incoming(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                                               ff_tensor *pair_mask, ff_update update)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c_z);
    ff_tensor *out = triangle(ctx, "triangle_multiplication_incoming", w, pair, pair_mask, true, update);
    ctx->kernels = outer;
    return out;
}
