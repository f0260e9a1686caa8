/* triangle_incoming_rows.c - the incoming triangle update on a pair split by rows.
 *
 * Contents: geometry; projections; the product and its sum over ranks; backward; forward.
 *
 *     t[i, j] = sum over k of right[k, i] left[k, j]
 *
 * Rows are k: a rank has part of every sum. It makes the part of band q (the rows i of rank q, all j) for each rank in turn and sends
 * it there while it makes the next one; the owner adds the parts in float32. No exchange of layouts is needed before or after, and
 * only a band at a time is on its way. Parts travel as operands.
 * Projections lie by bands: left and right are [c_hidden, rows of the band, local k] for each rank in turn. */
#include <string.h>

#include "dap/dap.h"
#include "evoformer/shards.h"
#include "evoformer/triangle_multiplication.h"

enum { KEPT_LEFT, KEPT_RIGHT, KEPT_T, KEPT_DROPOUT, KEPT_COUNT };
enum { MAX_FEW = 16 };

/* ---- geometry ---- */

typedef struct {
    const ff_triangle_multiplication_layer *w;
    ff_update update;
    int rank, size;
    int64_t num_res, local;
    const float *mask; /* [num_res, num_res] */
    ff_triangle_multiplication_args output;
} rows_node;

static int64_t band_first(const rows_node *n, int q) { return ff_shard_first(n->num_res, q, n->size); }
static int64_t band_rows(const rows_node *n, int q) { return ff_shard_length(n->num_res, q, n->size); }

/* Band q of an array of bands, [c_hidden, rows, row] each. */
static void *band_at(const ff_ctx *ctx, const rows_node *n, void *data, int q, int64_t row)
{
    return (char *)data + (size_t)(band_first(n, q) * n->w->c_hidden * row) * ctx->kernels->operand_bytes;
}

static ff_triangle_multiplication_args project_args(const rows_node *n, int q)
{
    return (ff_triangle_multiplication_args){
        .num_i = band_rows(n, q), /* columns of the local rows: the update is the outgoing one on the transposed pair */
        .num_j = n->local,
        .c_z = n->w->c_z,
        .c_hidden = n->w->c_hidden,
        .stride_i = n->w->c_z,
        .stride_j = n->num_res * n->w->c_z,
        .mask = n->mask + band_first(n, n->rank) * n->num_res + band_first(n, q),
        .mask_stride_i = 1,
        .mask_stride_j = n->num_res,
    };
}

static bool set_geometry(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, const ff_tensor *pair, const ff_tensor *pair_mask,
                         ff_update update, rows_node *n)
{
    *n = (rows_node){.w = w, .update = update, .rank = ff_dap_rank(ctx), .size = ff_dap_size(ctx)};
    if (!ff_check_shape(ctx, pair, "pair", FF_SHAPE(-1, -1, w->c_z)))
        return false;
    n->num_res = pair->shape[1];
    n->local = pair->shape[0];
    n->mask = ff_data(pair_mask);
    n->output = (ff_triangle_multiplication_args){.num_i = n->local,
                                                  .num_j = n->num_res,
                                                  .c_z = w->c_z,
                                                  .c_hidden = w->c_hidden,
                                                  .stride_i = n->num_res * w->c_z,
                                                  .stride_j = w->c_z,
                                                  .residual = update == FF_RESIDUAL};
    return ff_check_shape(ctx, pair_mask, "pair_mask", FF_SHAPE(n->num_res, n->num_res)) &&
           ff_check_shape(ctx, pair, "pair", FF_SHAPE(band_rows(n, n->rank), n->num_res, w->c_z));
}

static double rows_flop(const rows_node *n)
{
    const double kj = (double)n->local * (double)n->num_res, c = (double)n->w->c_hidden, c_z = (double)n->w->c_z;
    return kj * (8.0 * c_z * c + 2.0 * (c + c_z) * c_z + 2.0 * (double)n->num_res * c);
}

static double rows_bytes(const ff_ctx *ctx, const rows_node *n)
{
    return (double)n->local * (double)n->num_res *
           (8.0 * (double)n->w->c_z + 4.0 * (double)n->w->c_hidden * (double)ctx->kernels->operand_bytes);
}

/* ---- projections ---- */

static void project(ff_ctx *ctx, const rows_node *n, ff_tensor *pair, ff_tensor **left, ff_tensor **right)
{
    *left = ff_tensor_create_operand(ctx, FF_SHAPE(n->w->c_hidden, n->num_res, n->local));
    *right = ff_tensor_create_operand(ctx, FF_SHAPE(n->w->c_hidden, n->num_res, n->local));
    for (int q = 0; q < n->size && n->local > 0; q++) {
        const ff_triangle_multiplication_args a = project_args(n, q);
        void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&a, false));
        if (ff_computing(ctx) && a.num_i > 0)
            ctx->kernels->triangle_multiplication_project_forward(
                band_at(ctx, n, (*left)->data, q, n->local), band_at(ctx, n, (*right)->data, q, n->local),
                ff_data(pair) + band_first(n, q) * n->w->c_z, &n->w->value, &a, scratch);
        ff_scratch_end(ctx, scratch);
        ff_dap_poll(ctx);
    }
}

/* The blocks b of the product: left, of all bands. `few` serves most groups; else *scratch is to be ended. */
static ff_operand_block *left_blocks(ff_ctx *ctx, const rows_node *n, ff_tensor *left, ff_operand_block *few, void **scratch)
{
    ff_operand_block *blocks = few;
    *scratch = NULL;
    if (n->size > MAX_FEW) {
        *scratch = ff_scratch_begin(ctx, (size_t)n->size * sizeof *blocks);
        blocks = ff_computing(ctx) ? *scratch : NULL;
    }
    for (int q = 0; q < n->size && blocks != NULL; q++)
        blocks[q] = (ff_operand_block){left == NULL ? NULL : band_at(ctx, n, left->data, q, n->local), band_rows(n, q)};
    return blocks;
}

/* ---- the product and its sum over ranks ---- */

static ff_tensor *band_of(ff_ctx *ctx, const rows_node *n, int q)
{
    return ff_tensor_create_operand(ctx, FF_SHAPE(n->w->c_hidden, band_rows(n, q), n->num_res));
}

/* This rank's part of t for band q. */
static ff_tensor *band_product(ff_ctx *ctx, const rows_node *n, ff_tensor *left, ff_tensor *right, int q)
{
    ff_operand_block few[MAX_FEW];
    void *held;
    ff_tensor *t = band_of(ctx, n, q);
    const ff_operand_block *blocks = left_blocks(ctx, n, left, few, &held);
    const ff_triangle_product_args p = {n->w->c_hidden, band_rows(n, q), n->local, n->size, blocks};
    void *scratch = blocks == NULL || n->local == 0 ? NULL : ff_scratch_begin(ctx, ctx->kernels->triangle_product_scratch_bytes(&p, false));
    if (ff_computing(ctx) && n->local == 0)
        memset(t->data, 0, t->bytes);
    else if (ff_computing(ctx) && p.num_i > 0)
        ctx->kernels->triangle_multiplication_product_forward(t->data, band_at(ctx, n, right->data, q, n->local), &p, scratch);
    ff_scratch_end(ctx, scratch);
    ff_scratch_end(ctx, held);
    return t;
}

/* sum += part (operand, consumed). */
static void add_part(ff_ctx *ctx, ff_tensor *sum, ff_tensor *part)
{
    ff_tensor *wide = ctx->status == FF_OK ? ff_shards_to_float(ctx, part) : NULL;
    if (ff_computing(ctx))
        ctx->kernels->add_scaled(ff_data(sum), ff_data(wide), 1.0f, sum->size);
    ff_tensor_release(wide);
    ff_tensor_release(part);
}

/* One part on its way to its owner, another one on its way here. */
typedef struct {
    ff_tensor *sent, *received;
    ff_dap_shift *shift;
} traveller;

/* Wait for it and add what came. */
static void arrive(ff_ctx *ctx, traveller *v, ff_tensor *sum)
{
    ff_dap_shift_end(ctx, v->shift);
    ff_tensor_release(v->sent);
    if (v->received != NULL)
        add_part(ctx, sum, v->received);
    *v = (traveller){NULL, NULL, NULL};
}

/* t of the own band, summed over ranks in a fixed order. The own part is made last, while others travel. */
static ff_tensor *product(ff_ctx *ctx, const rows_node *n, ff_tensor *left, ff_tensor *right)
{
    traveller on_way[2] = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
    ff_tensor *sum = ff_tensor_zeros(ctx, FF_SHAPE(n->w->c_hidden, n->local, n->num_res));
    for (int s = 1; s < n->size; s++) {
        traveller *v = &on_way[s % 2];
        arrive(ctx, v, sum);
        v->sent = band_product(ctx, n, left, right, (n->rank + s) % n->size);
        v->received = band_of(ctx, n, n->rank);
        v->shift = ff_dap_shift_begin(ctx, "reduce_scatter_operand", s, v->sent, v->received);
    }
    add_part(ctx, sum, band_product(ctx, n, left, right, n->rank));
    arrive(ctx, &on_way[n->size % 2], sum);
    arrive(ctx, &on_way[(n->size - 1) % 2], sum);
    ff_tensor *t = ctx->status == FF_OK ? ff_shards_to_operand(ctx, sum) : NULL;
    ff_tensor_release(sum);
    return t;
}

/* ---- backward ---- */

/* t becomes grad_t in place; grad_pair gets the gate's and the residual part. */
static void output_backward(ff_ctx *ctx, const rows_node *n, const ff_module_grads *g, ff_tensor *pair, ff_tensor *t)
{
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&n->output, true));
    if (ff_computing(ctx) && n->local > 0)
        ctx->kernels->triangle_multiplication_output_backward(t->data, g->grad_x, n->w->trained ? &n->w->grad : NULL, g->grad_out,
                                                              ff_data(pair), t->data, &n->w->value, &n->output, scratch);
    ff_scratch_end(ctx, scratch);
}

/* Of band q: grad_right into its place, grad_left of all bands added to the sum. grad_t: of band q. */
static void band_backward(ff_ctx *ctx, const rows_node *n, const void *grad_t, ff_tensor *left, ff_tensor *right, int q,
                          ff_tensor *grad_right, ff_tensor *sum)
{
    ff_operand_block few[MAX_FEW];
    void *held, *grads[MAX_FEW], **grad_blocks = grads, *held_grads = NULL;
    const ff_operand_block *blocks = left_blocks(ctx, n, left, few, &held);
    if (n->size > MAX_FEW)
        grad_blocks = held_grads = ff_scratch_begin(ctx, (size_t)n->size * sizeof *grad_blocks);
    ff_tensor *part = ff_tensor_create_operand(ctx, FF_SHAPE(n->w->c_hidden, n->num_res, n->local));
    const ff_triangle_product_args p = {n->w->c_hidden, band_rows(n, q), n->local, n->size, blocks};
    void *scratch = blocks == NULL ? NULL : ff_scratch_begin(ctx, ctx->kernels->triangle_product_scratch_bytes(&p, true));
    if (ff_computing(ctx)) {
        for (int r = 0; r < n->size; r++)
            grad_blocks[r] = band_at(ctx, n, part->data, r, n->local);
        ctx->kernels->triangle_multiplication_product_backward(band_at(ctx, n, grad_right->data, q, n->local), grad_blocks, grad_t,
                                                               band_at(ctx, n, right->data, q, n->local), &p, scratch);
    }
    ff_scratch_end(ctx, scratch);
    ff_scratch_end(ctx, held_grads);
    ff_scratch_end(ctx, held);
    add_part(ctx, sum, part);
}

static void project_backward(ff_ctx *ctx, const rows_node *n, const ff_module_grads *g, ff_tensor *pair, ff_tensor *grad_left,
                             ff_tensor *grad_right, ff_tensor *left, ff_tensor *right)
{
    for (int q = 0; q < n->size; q++) {
        const ff_triangle_multiplication_args a = project_args(n, q);
        const int64_t at = band_first(n, q) * n->w->c_z;
        void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&a, true));
        if (ff_computing(ctx) && a.num_i > 0)
            ctx->kernels->triangle_multiplication_project_backward(
                g->grad_x + at, n->w->trained ? &n->w->grad : NULL, band_at(ctx, n, grad_left->data, q, n->local),
                band_at(ctx, n, grad_right->data, q, n->local), band_at(ctx, n, left->data, q, n->local),
                band_at(ctx, n, right->data, q, n->local), ff_data(pair) + at, &n->w->value, &a, scratch);
        ff_scratch_end(ctx, scratch);
    }
}

/* Consumes grad_t, of the own band. The sum over ranks becomes a gather: every rank's k needs grad_t of all bands. */
static void product_backward(ff_ctx *ctx, const rows_node *n, const ff_module_grads *g, ff_tensor *pair, ff_tensor *grad_t,
                             ff_tensor *left, ff_tensor *right)
{
    const int64_t c = n->w->c_hidden;
    ff_tensor *all = ff_shards_gather_operand(ctx, grad_t, n->num_res, c * n->num_res);
    ff_tensor_release(grad_t);
    ff_tensor *sum = n->local == 0 ? NULL : ff_tensor_zeros(ctx, FF_SHAPE(c, n->num_res, n->local));
    ff_tensor *grad_right = n->local == 0 ? NULL : ff_tensor_create_operand(ctx, FF_SHAPE(c, n->num_res, n->local));
    for (int q = 0; q < n->size && n->local > 0 && ctx->status == FF_OK; q++)
        if (band_rows(n, q) > 0)
            band_backward(ctx, n, band_at(ctx, n, all->data, q, n->num_res), left, right, q, grad_right, sum);
    ff_tensor_release(all);
    ff_tensor *grad_left = sum == NULL || ctx->status != FF_OK ? NULL : ff_shards_to_operand(ctx, sum);
    ff_tensor_release(sum);
    if (grad_left != NULL)
        project_backward(ctx, n, g, pair, grad_left, grad_right, left, right);
    ff_tensor_release(grad_left);
    ff_tensor_release(grad_right);
}

static void rows_backward(ff_ctx *ctx, ff_node *node)
{
    rows_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *pair = node->inputs[0], **kept = node->kept;
    ff_module_grads g;
    if (!ff_module_offered(ctx, ctx->kernels->triangle_multiplication_product_backward != NULL, "triangle multiplication backward") ||
        !ff_module_grads_begin(ctx, node, pair, node->outputs[0], n.update, &g))
        return;
    const double kept_bytes = ff_module_bytes(kept, KEPT_COUNT);
    if (kept[KEPT_LEFT] == NULL) {
        project(ctx, &n, pair, &kept[KEPT_LEFT], &kept[KEPT_RIGHT]);
        kept[KEPT_T] = product(ctx, &n, kept[KEPT_LEFT], kept[KEPT_RIGHT]);
    }
    output_backward(ctx, &n, &g, pair, kept[KEPT_T]);
    product_backward(ctx, &n, &g, pair, kept[KEPT_T], kept[KEPT_LEFT], kept[KEPT_RIGHT]);
    kept[KEPT_T] = NULL;
    ff_module_record(ctx, node->name, true, rows_flop(&n), rows_bytes(ctx, &n), kept_bytes, 0);
    ff_module_grads_end(&g);
}

/* ---- forward ---- */

static void drop(ff_tensor **kept, int first, int end)
{
    for (int i = first; i < end; i++) {
        ff_tensor_release(kept[i]);
        kept[i] = NULL;
    }
}

static ff_tensor *incoming_rows(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair, ff_tensor *pair_mask,
                                ff_update update)
{
    static const char name[] = "triangle_multiplication_incoming";
    rows_node n;
    if (!ff_module_offered(ctx, ctx->kernels->triangle_multiplication_product_forward != NULL, "triangle multiplication") ||
        !set_geometry(ctx, w, pair, pair_mask, update, &n))
        return ff_module_end(ctx, pair, NULL);
    ff_tensor *inputs[] = {pair, pair_mask}, *kept[KEPT_COUNT] = {NULL};
    const bool recorded = ff_module_recorded(ctx, w->trained, inputs, 1);
    const bool keep = recorded && ff_module_keep(ctx) != FF_KEEP_INPUTS;
    ff_tensor *out = ff_module_output(ctx, pair, recorded, update);
    kept[KEPT_DROPOUT] = ff_module_dropout(ctx, w->dropout, 0, n.num_res, w->c_z);
    n.output.dropout = ff_data(kept[KEPT_DROPOUT]);
    project(ctx, &n, pair, &kept[KEPT_LEFT], &kept[KEPT_RIGHT]);
    kept[KEPT_T] = product(ctx, &n, kept[KEPT_LEFT], kept[KEPT_RIGHT]);
    if (!keep)
        drop(kept, KEPT_LEFT, KEPT_RIGHT + 1);
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->triangle_multiplication_scratch_bytes(&n.output, false));
    if (ff_computing(ctx) && n.local > 0)
        ctx->kernels->triangle_multiplication_output_forward(ff_data(out), ff_data(pair), kept[KEPT_T]->data, &w->value, &n.output,
                                                             scratch);
    ff_scratch_end(ctx, scratch);
    if (!keep)
        drop(kept, KEPT_T, KEPT_T + 1);
    ff_module_record(ctx, name, false, rows_flop(&n), rows_bytes(ctx, &n), ff_module_bytes(kept, KEPT_COUNT), 0);
    if (recorded)
        ff_tape_add(ctx, name, rows_backward, inputs, 2, &out, 1, kept, KEPT_COUNT, &n, sizeof n);
    else
        ff_tensor_release(kept[KEPT_DROPOUT]);
    return ff_module_end(ctx, pair, out);
}

ff_tensor *ff_triangle_multiplication_incoming_rows(ff_ctx *ctx, const ff_triangle_multiplication_layer *w, ff_tensor *pair,
                                                    ff_tensor *pair_mask, ff_update update)
{
    if (ff_dap_size(ctx) == 1)
        return ff_triangle_multiplication_incoming(ctx, w, pair, pair_mask, update);
    const ff_kernels *outer = ff_module_enter(ctx, w->c_z);
    ff_tensor *out = incoming_rows(ctx, w, pair, pair_mask, update);
    ctx->kernels = outer;
    return out;
}
