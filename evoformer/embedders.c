/* Contents: parameters; features of pairs; MSA; pair; extra MSA. */
#include "evoformer/embedders.h"

#include <string.h>

#include "dap/dap.h"
#include "evoformer/primitives.h"

enum { CHUNK_ROWS = 8192 }; /* one-hot rows made at a time */

/* ---- parameters ---- */

ff_status ff_embedder_bind(const ff_binder *b, const ff_embedder_config *g, ff_embedder *w)
{
    *w = (ff_embedder){.config = *g};
    w->preprocess_1d = (ff_linear_layer){.num_input = FF_TARGET_FEAT, .num_output = g->c_m};
    w->preprocess_msa = (ff_linear_layer){.num_input = FF_MSA_FEAT, .num_output = g->c_m};
    w->left_single = w->right_single = (ff_linear_layer){.num_input = FF_TARGET_FEAT, .num_output = g->c_z};
    w->prev_pos_linear = (ff_linear_layer){.num_input = g->prev_pos.num_bins, .num_output = g->c_z};
    w->pair_activiations = (ff_linear_layer){.num_input = 2 * g->max_relative_feature + 1, .num_output = g->c_z};
    w->extra_msa_activations = (ff_linear_layer){.num_input = FF_EXTRA_MSA_FEAT, .num_output = g->c_e};
    w->prev_msa_first_row_norm = (ff_layer_norm_layer){.c = g->c_m};
    w->prev_pair_norm = (ff_layer_norm_layer){.c = g->c_z};
    FF_TRY(ff_bind_linear(b, "preprocess_1d", &w->preprocess_1d));
    FF_TRY(ff_bind_linear(b, "preprocess_msa", &w->preprocess_msa));
    FF_TRY(ff_bind_linear(b, "left_single", &w->left_single));
    FF_TRY(ff_bind_linear(b, "right_single", &w->right_single));
    FF_TRY(ff_bind_linear(b, "prev_pos_linear", &w->prev_pos_linear));
    FF_TRY(ff_bind_linear(b, "pair_activiations", &w->pair_activiations));
    FF_TRY(ff_bind_linear(b, "extra_msa_activations", &w->extra_msa_activations));
    FF_TRY(ff_bind_layer_norm(b, "prev_msa_first_row_norm", &w->prev_msa_first_row_norm));
    return ff_bind_layer_norm(b, "prev_pair_norm", &w->prev_pair_norm);
}

/* ---- features of pairs ---- */

void ff_pseudo_beta(double *beta, const float *positions, const int32_t *aatype, int64_t num_res)
{
    enum { CA = 1, CB = 3, GLYCINE = 7 };
    for (int64_t i = 0; i < num_res; i++)
        for (int x = 0; x < 3; x++)
            beta[i * 3 + x] = positions[(i * FF_ATOM37 + (aatype[i] == GLYCINE ? CA : CB)) * 3 + x];
}

int64_t ff_dgram_bin(const ff_dgram_config *g, double distance2)
{
    const double last_upper = 1e8; /* squared: AlphaFold's dgram_from_positions */
    for (int64_t b = g->num_bins - 1; b >= 0; b--) {
        const double step = g->num_bins > 1 ? (g->max_ang - g->min_ang) / (double)(g->num_bins - 1) : 0.0;
        const double low = g->min_ang + (double)b * step, high = g->min_ang + (double)(b + 1) * step;
        if (distance2 > low * low)
            return distance2 < (b == g->num_bins - 1 ? last_upper : high * high) ? b : -1;
    }
    return -1;
}

int64_t ff_relpos_bin(int64_t max_relative_feature, int32_t index_i, int32_t index_j)
{
    const int64_t offset = (int64_t)index_i - index_j + max_relative_feature;
    return offset < 0 ? 0 : offset > 2 * max_relative_feature ? 2 * max_relative_feature : offset;
}

ff_tensor *ff_mask_2d(ff_ctx *ctx, ff_tensor *seq_mask)
{
    if (!ff_check_shape(ctx, seq_mask, "seq_mask", FF_SHAPE(-1)) ||
        !ff_module_offered(ctx, ctx->kernels->linear_forward != NULL, "linear"))
        return NULL;
    const int64_t n = seq_mask->shape[0];
    const ff_linear_params row = {ff_data(seq_mask), NULL}; /* the outer product as a linear layer of one channel */
    ff_tensor *mask = ff_tensor_create(ctx, FF_SHAPE(n, n));
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->linear_scratch_bytes(n, 1, n));
    if (ff_computing(ctx))
        ctx->kernels->linear_forward(ff_data(mask), ff_data(seq_mask), &row, n, 1, n, false, false, scratch);
    ff_scratch_end(ctx, scratch);
    return ff_module_end(ctx, NULL, mask);
}

/* One call of a linear layer inside a node, with its own scratch. y (+)= x W + b */
static void apply(ff_ctx *ctx, const ff_linear_layer *w, float *y, const float *x, int64_t rows, bool accumulate)
{
    const ff_kernels *k = ctx->kernels;
    void *scratch = ff_scratch_begin(ctx, k->linear_scratch_bytes(rows, w->num_input, w->num_output));
    if (ff_computing(ctx))
        k->linear_forward(y, x, &w->value, rows, w->num_input, w->num_output, false, accumulate, scratch);
    ff_scratch_end(ctx, scratch);
}

static void apply_backward(ff_ctx *ctx, const ff_linear_layer *w, float *grad_x, const float *grad_y, const float *x,
                           int64_t rows)
{
    const ff_kernels *k = ctx->kernels;
    void *scratch = ff_scratch_begin(ctx, k->linear_scratch_bytes(rows, w->num_input, w->num_output));
    if (ff_computing(ctx))
        k->linear_backward(grad_x, w->trained ? &w->grad : NULL, grad_y, x, &w->value, rows, w->num_input, w->num_output,
                           scratch);
    ff_scratch_end(ctx, scratch);
}

/* grad_x of a layer norm inside a node; a NULL grad_x is computed and dropped. */
static void norm_backward(ff_ctx *ctx, const ff_layer_norm_layer *w, float *grad_x, const float *grad_y, const float *x,
                          int64_t rows)
{
    const ff_kernels *k = ctx->kernels;
    ff_tensor *held = grad_x != NULL ? NULL : ff_tensor_zeros(ctx, FF_SHAPE(rows, w->c));
    void *scratch = ff_scratch_begin(ctx, k->layer_norm_backward_scratch_bytes(rows, w->c));
    if (ff_computing(ctx))
        k->layer_norm_backward(grad_x != NULL ? grad_x : ff_data(held), w->trained ? &w->grad : NULL, grad_y, x, &w->value,
                               rows, w->c, scratch);
    ff_scratch_end(ctx, scratch);
    ff_tensor_release(held);
}

static double linear_flop(const ff_linear_layer *w, int64_t rows)
{
    return 2.0 * (double)rows * (double)w->num_input * (double)w->num_output;
}

static bool offered(ff_ctx *ctx)
{
    return ff_module_offered(ctx, ctx->kernels->linear_forward != NULL && ctx->kernels->linear_backward != NULL,
                             "linear") &&
           ff_module_offered(ctx, ctx->kernels->layer_norm_backward != NULL, "layer norm backward") &&
           ff_module_offered(ctx, ctx->kernels->bias_dropout_residual != NULL, "bias, dropout, residual");
}

/* ---- MSA ---- */

static double embed_msa_flop(const ff_embedder *w, int64_t num_seq, int64_t num_res)
{
    return linear_flop(&w->preprocess_msa, num_seq * num_res) + linear_flop(&w->preprocess_1d, num_res);
}

static bool has_first_row(const ff_ctx *ctx, int64_t num_seq) { return ff_dap_rank(ctx) == 0 && num_seq > 0; }

static void embed_msa_backward(ff_ctx *ctx, ff_node *node)
{
    const ff_embedder *w;
    memcpy(&w, node->args, sizeof w);
    ff_tensor *target_feat = node->inputs[0], *msa_feat = node->inputs[1], *prev = node->inputs[2];
    ff_tensor *grad = node->outputs[0]->grad;
    const int64_t num_seq = grad->shape[0], num_res = grad->shape[1], row = num_res * w->config.c_m;
    ff_module_drop_outputs(node);
    ff_tensor *sum = ff_tensor_zeros(ctx, FF_SHAPE(num_res, w->config.c_m)); /* over sequences */
    for (int64_t s = 0; s < num_seq && ff_computing(ctx); s++)
        ctx->kernels->add_scaled(ff_data(sum), ff_data(grad) + s * row, 1.0f, row);
    apply_backward(ctx, &w->preprocess_1d, ff_data(ff_tensor_grad(ctx, target_feat)), ff_data(sum),
                   ff_data(target_feat), num_res);
    ff_tensor_release(sum);
    apply_backward(ctx, &w->preprocess_msa, ff_data(ff_tensor_grad(ctx, msa_feat)), ff_data(grad), ff_data(msa_feat),
                   num_seq * num_res);
    float *grad_prev = ff_data(ff_tensor_grad(ctx, prev)); /* on every rank: they sum it up */
    if (has_first_row(ctx, num_seq))
        norm_backward(ctx, &w->prev_msa_first_row_norm, grad_prev, ff_data(grad), ff_data(prev), num_res);
    ff_module_record(ctx, node->name, true, embed_msa_flop(w, num_seq, num_res), (double)msa_feat->bytes + (double)grad->bytes,
                     0, 0);
}

static ff_tensor *embed_msa_on_table(ff_ctx *ctx, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *msa_feat,
                                     ff_tensor *prev_msa_first_row)
{
    const int64_t c_m = w->config.c_m;
    if (!offered(ctx) || !ff_check_shape(ctx, target_feat, "target_feat", FF_SHAPE(-1, FF_TARGET_FEAT)) ||
        !ff_check_shape(ctx, msa_feat, "msa_feat", FF_SHAPE(-1, target_feat->shape[0], FF_MSA_FEAT)))
        return NULL;
    const int64_t num_seq = msa_feat->shape[0], num_res = msa_feat->shape[1], row = num_res * c_m;
    ff_tensor *prev = prev_msa_first_row != NULL ? ff_tensor_retain(prev_msa_first_row)
                                                 : ff_tensor_zeros(ctx, FF_SHAPE(num_res, c_m));
    if (!ff_check_shape(ctx, prev, "prev_msa_first_row", FF_SHAPE(num_res, c_m)))
        return ff_module_end(ctx, prev, NULL);
    ff_tensor *inputs[] = {target_feat, msa_feat, prev};
    ff_tensor *msa = ff_tensor_create(ctx, FF_SHAPE(num_seq, num_res, c_m));
    ff_tensor *one = ff_tensor_create(ctx, FF_SHAPE(num_res, c_m));
    apply(ctx, &w->preprocess_msa, ff_data(msa), ff_data(msa_feat), num_seq * num_res, false);
    apply(ctx, &w->preprocess_1d, ff_data(one), ff_data(target_feat), num_res, false);
    if (ff_computing(ctx)) {
        for (int64_t s = 0; s < num_seq; s++)
            ctx->kernels->add_scaled(ff_data(msa) + s * row, ff_data(one), 1.0f, row);
        ctx->kernels->layer_norm_forward(ff_data(one), ff_data(prev), &w->prev_msa_first_row_norm.value, num_res, c_m);
        if (has_first_row(ctx, num_seq))
            ctx->kernels->add_scaled(ff_data(msa), ff_data(one), 1.0f, row);
    }
    ff_tensor_release(one);
    ff_module_record(ctx, "embed_msa", false, embed_msa_flop(w, num_seq, num_res),
                     (double)msa_feat->bytes + 4.0 * (double)(num_seq * row), 0, 0);
    if (ff_module_recorded(ctx, w->preprocess_msa.trained, inputs, 3))
        ff_tape_add(ctx, "embed_msa", embed_msa_backward, inputs, 3, &msa, 1, NULL, 0, &w, sizeof w);
    return ff_module_end(ctx, prev, msa);
}

ff_tensor *ff_embed_msa(ff_ctx *ctx, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *msa_feat,
                        ff_tensor *prev_msa_first_row)
{
    const ff_kernels *outer = ff_module_enter(ctx, 0); /* one-hot and small features: always float32 */
    ff_tensor *target = ff_dap_replicated(ctx, target_feat), *prev = ff_dap_replicated(ctx, prev_msa_first_row);
    ff_tensor *out = embed_msa_on_table(ctx, w, target, msa_feat, prev);
    ff_tensor_release(target);
    ff_tensor_release(prev);
    ctx->kernels = outer;
    return out;
}

/* ---- pair ---- */

typedef struct {
    const ff_embedder *w;
    const float *prev_pos;
    const int32_t *aatype, *residue_index;
    int64_t num_res, first, rows; /* this rank's */
} pair_node;

typedef void (*chunk_fn)(ff_ctx *ctx, const ff_linear_layer *w, float *pair, const float *one_hot, int64_t rows);

static void chunk_forward(ff_ctx *ctx, const ff_linear_layer *w, float *pair, const float *one_hot, int64_t rows)
{
    apply(ctx, w, pair, one_hot, rows, true);
}

static void chunk_backward(ff_ctx *ctx, const ff_linear_layer *w, float *grad_pair, const float *one_hot, int64_t rows)
{
    apply_backward(ctx, w, NULL, grad_pair, one_hot, rows);
}

/* Both one-hot features of rows i0 .. i1 - 1 of the pair, set in arrays of zeros. */
static void fill_one_hot(const pair_node *n, float *relpos, float *dgram, const double *beta, int64_t i0, int64_t i1,
                         int64_t num_res)
{
    const int64_t num_relpos = n->w->pair_activiations.num_input, num_bins = n->w->prev_pos_linear.num_input;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = 0; j < num_res; j++) {
            const int64_t row = (i - i0) * num_res + j;
            double d2 = 0;
            for (int x = 0; x < 3 && n->prev_pos != NULL; x++)
                d2 += (beta[i * 3 + x] - beta[j * 3 + x]) * (beta[i * 3 + x] - beta[j * 3 + x]);
            const int64_t bin = ff_dgram_bin(&n->w->config.prev_pos, d2);
            relpos[row * num_relpos +
                   ff_relpos_bin(n->w->config.max_relative_feature, n->residue_index[i], n->residue_index[j])] = 1.0f;
            if (bin >= 0)
                dgram[row * num_bins + bin] = 1.0f;
        }
}

/* Relative positions and distances of the previous pass, by chunks of rows. */
static void for_chunks(ff_ctx *ctx, const pair_node *n, float *pair, chunk_fn call)
{
    const int64_t num_res = n->num_res, end = n->first + n->rows;
    const ff_linear_layer *rel = &n->w->pair_activiations, *pos = &n->w->prev_pos_linear;
    const int64_t height = num_res < 1 || num_res > CHUNK_ROWS ? 1 : CHUNK_ROWS / num_res;
    double *beta = ff_scratch_begin(ctx, (size_t)(num_res * 3) * sizeof *beta);
    if (ff_computing(ctx) && n->prev_pos != NULL)
        ff_pseudo_beta(beta, n->prev_pos, n->aatype, num_res);
    for (int64_t i0 = n->first; i0 < end && ctx->status == FF_OK; i0 += height) {
        const int64_t i1 = i0 + height < end ? i0 + height : end, rows = (i1 - i0) * num_res;
        ff_tensor *relpos = ff_tensor_zeros(ctx, FF_SHAPE(rows, rel->num_input));
        ff_tensor *dgram = ff_tensor_zeros(ctx, FF_SHAPE(rows, pos->num_input));
        if (ff_computing(ctx))
            fill_one_hot(n, ff_data(relpos), ff_data(dgram), beta, i0, i1, num_res);
        float *at = pair + (i0 - n->first) * num_res * n->w->config.c_z;
        call(ctx, rel, at, ff_data(relpos), rows);
        call(ctx, pos, at, ff_data(dgram), rows);
        ff_tensor_release(relpos);
        ff_tensor_release(dgram);
    }
    ff_scratch_end(ctx, beta);
}

/* Sums of grad[i, j] over j (left) and over the `rows` i (right). */
static void sum_axes(ff_ctx *ctx, float *left, float *right, const float *grad, int64_t rows, int64_t n, int64_t c)
{
    ff_tensor *ones = ff_tensor_create(ctx, FF_SHAPE(n));
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->linear_scratch_bytes(n, 1, c));
    if (ff_computing(ctx)) {
        for (int64_t j = 0; j < n; j++)
            ff_data(ones)[j] = 1.0f;
        for (int64_t i = 0; i < rows; i++) { /* the sum over rows as the weight gradient of a one-channel linear layer */
            const ff_linear_params sum = {left + i * c, NULL}, zero = {right, NULL};
            ctx->kernels->linear_backward(NULL, &sum, grad + i * n * c, ff_data(ones), &zero, n, 1, c, scratch);
            ctx->kernels->add_scaled(right, grad + i * n * c, 1.0f, n * c);
        }
    }
    ff_scratch_end(ctx, scratch);
    ff_tensor_release(ones);
}

static double embed_pair_flop(const ff_embedder *w, int64_t rows, int64_t n)
{
    return linear_flop(&w->pair_activiations, rows * n) + linear_flop(&w->prev_pos_linear, rows * n) +
           linear_flop(&w->left_single, rows + n);
}

static void embed_pair_backward(ff_ctx *ctx, ff_node *node)
{
    pair_node p;
    memcpy(&p, node->args, sizeof p);
    const ff_embedder *w = p.w;
    ff_tensor *target_feat = node->inputs[0], *prev = node->inputs[1], *grad = node->outputs[0]->grad;
    const int64_t n = p.num_res, c_z = w->config.c_z, at = p.first * FF_TARGET_FEAT;
    ff_module_drop_outputs(node);
    ff_tensor *left = ff_tensor_zeros(ctx, FF_SHAPE(p.rows, c_z)), *right = ff_tensor_zeros(ctx, FF_SHAPE(n, c_z));
    sum_axes(ctx, ff_data(left), ff_data(right), ff_data(grad), p.rows, n, c_z);
    float *grad_target = ff_data(ff_tensor_grad(ctx, target_feat));
    apply_backward(ctx, &w->left_single, grad_target == NULL ? NULL : grad_target + at, ff_data(left), ff_data(target_feat) + at,
                   p.rows);
    apply_backward(ctx, &w->right_single, grad_target, ff_data(right), ff_data(target_feat), n);
    ff_tensor_release(left);
    ff_tensor_release(right);
    for_chunks(ctx, &p, ff_data(grad), chunk_backward);
    norm_backward(ctx, &w->prev_pair_norm, ff_data(ff_tensor_grad(ctx, prev)), ff_data(grad), ff_data(prev), p.rows * n);
    ff_module_record(ctx, node->name, true, embed_pair_flop(w, p.rows, n), 2 * (double)grad->bytes, 0, 0);
}

static ff_tensor *embed_pair_on_table(ff_ctx *ctx, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *prev_pair,
                                      const float *prev_pos, const int32_t *aatype, const int32_t *residue_index)
{
    const int64_t c_z = w->config.c_z;
    if (!offered(ctx) || !ff_check_shape(ctx, target_feat, "target_feat", FF_SHAPE(-1, FF_TARGET_FEAT)))
        return NULL;
    const int64_t n = target_feat->shape[0], first = ff_shard_first(n, ff_dap_rank(ctx), ff_dap_size(ctx));
    const int64_t rows = ff_shard_length(n, ff_dap_rank(ctx), ff_dap_size(ctx));
    const pair_node p = {w, prev_pos, aatype, residue_index, n, first, rows};
    ff_tensor *prev = prev_pair != NULL ? ff_tensor_retain(prev_pair) : ff_tensor_zeros(ctx, FF_SHAPE(rows, n, c_z));
    if (!ff_check_shape(ctx, prev, "prev_pair", FF_SHAPE(rows, n, c_z)))
        return ff_module_end(ctx, prev, NULL);
    ff_tensor *inputs[] = {target_feat, prev}, *pair = ff_tensor_create(ctx, FF_SHAPE(rows, n, c_z));
    ff_tensor *left = ff_tensor_create(ctx, FF_SHAPE(rows, c_z)), *right = ff_tensor_create(ctx, FF_SHAPE(n, c_z));
    apply(ctx, &w->left_single, ff_data(left), ff_data(target_feat) + first * FF_TARGET_FEAT, rows, false);
    apply(ctx, &w->right_single, ff_data(right), ff_data(target_feat), n, false);
    if (ff_computing(ctx)) {
        ctx->kernels->layer_norm_forward(ff_data(pair), ff_data(prev), &w->prev_pair_norm.value, rows * n, c_z);
        for (int64_t i = 0; i < rows; i++) {
            float *row = ff_data(pair) + i * n * c_z;
            ctx->kernels->bias_dropout_residual(row, ff_data(right), ff_data(left) + i * c_z, NULL, row, n, n, c_z);
        }
    }
    ff_tensor_release(left);
    ff_tensor_release(right);
    for_chunks(ctx, &p, ff_data(pair), chunk_forward);
    ff_module_record(ctx, "embed_pair", false, embed_pair_flop(w, rows, n), 8.0 * (double)(rows * n * c_z), 0, 0);
    if (ff_module_recorded(ctx, w->pair_activiations.trained, inputs, 2))
        ff_tape_add(ctx, "embed_pair", embed_pair_backward, inputs, 2, &pair, 1, NULL, 0, &p, sizeof p);
    return ff_module_end(ctx, prev, pair);
}

ff_tensor *ff_embed_pair(ff_ctx *ctx, const ff_embedder *w, ff_tensor *target_feat, ff_tensor *prev_pair,
                         const float *prev_pos, const int32_t *aatype, const int32_t *residue_index)
{
    const ff_kernels *outer = ff_module_enter(ctx, 0); /* one-hot and small features: always float32 */
    ff_tensor *target = ff_dap_replicated(ctx, target_feat);
    ff_tensor *out = embed_pair_on_table(ctx, w, target, prev_pair, prev_pos, aatype, residue_index);
    ff_tensor_release(target);
    ctx->kernels = outer;
    return out;
}

/* ---- extra MSA ---- */

typedef struct {
    const ff_embedder *w;
    const int32_t *extra_msa;
} extra_node;

static void fill_extra(float *feat, const extra_node *n, const ff_tensor *has_deletion, const ff_tensor *deletion_value,
                       int64_t first, int64_t rows)
{
    memset(feat, 0, (size_t)(rows * FF_EXTRA_MSA_FEAT) * sizeof *feat);
    for (int64_t r = 0; r < rows; r++) {
        const int32_t letter = n->extra_msa[first + r];
        if (letter >= 0 && letter < FF_EXTRA_MSA_CLASS)
            feat[r * FF_EXTRA_MSA_FEAT + letter] = 1.0f;
        feat[r * FF_EXTRA_MSA_FEAT + FF_EXTRA_MSA_CLASS] = ff_data(has_deletion)[first + r];
        feat[r * FF_EXTRA_MSA_FEAT + FF_EXTRA_MSA_CLASS + 1] = ff_data(deletion_value)[first + r];
    }
}

static int64_t chunk_rows(int64_t first, int64_t total) { return total - first < CHUNK_ROWS ? total - first : CHUNK_ROWS; }

static void embed_extra_backward(ff_ctx *ctx, ff_node *node)
{
    extra_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *has = node->inputs[0], *value = node->inputs[1], *grad = node->outputs[0]->grad;
    const bool wanted = has->requires_grad || value->requires_grad;
    float *grad_has = ff_data(ff_tensor_grad(ctx, has)), *grad_value = ff_data(ff_tensor_grad(ctx, value));
    ff_module_drop_outputs(node);
    for (int64_t first = 0; first < has->size && ctx->status == FF_OK; first += CHUNK_ROWS) {
        const int64_t rows = chunk_rows(first, has->size);
        ff_tensor *feat = ff_tensor_create(ctx, FF_SHAPE(rows, FF_EXTRA_MSA_FEAT));
        ff_tensor *grad_feat = wanted ? ff_tensor_zeros(ctx, FF_SHAPE(rows, FF_EXTRA_MSA_FEAT)) : NULL;
        if (ff_computing(ctx))
            fill_extra(ff_data(feat), &n, has, value, first, rows);
        apply_backward(ctx, &n.w->extra_msa_activations, ff_data(grad_feat),
                       ff_data(grad) + first * n.w->config.c_e, ff_data(feat), rows);
        for (int64_t r = 0; r < rows && wanted && ff_computing(ctx); r++) {
            if (grad_has != NULL)
                grad_has[first + r] += ff_data(grad_feat)[r * FF_EXTRA_MSA_FEAT + FF_EXTRA_MSA_CLASS];
            if (grad_value != NULL)
                grad_value[first + r] += ff_data(grad_feat)[r * FF_EXTRA_MSA_FEAT + FF_EXTRA_MSA_CLASS + 1];
        }
        ff_tensor_release(feat);
        ff_tensor_release(grad_feat);
    }
    ff_module_record(ctx, node->name, true, linear_flop(&n.w->extra_msa_activations, has->size), (double)grad->bytes, 0,
                     0);
}

static ff_tensor *embed_extra_msa_on_table(ff_ctx *ctx, const ff_embedder *w, const int32_t *extra_msa, ff_tensor *has_deletion,
                                           ff_tensor *deletion_value)
{
    if (!offered(ctx) || !ff_check_shape(ctx, has_deletion, "extra_has_deletion", FF_SHAPE(-1, -1)) ||
        !ff_check_shape(ctx, deletion_value, "extra_deletion_value", has_deletion->ndim, has_deletion->shape))
        return NULL;
    const extra_node n = {w, extra_msa};
    const int64_t total = has_deletion->size;
    ff_tensor *inputs[] = {has_deletion, deletion_value};
    ff_tensor *out = ff_tensor_create(ctx, FF_SHAPE(has_deletion->shape[0], has_deletion->shape[1], w->config.c_e));
    for (int64_t first = 0; first < total && ctx->status == FF_OK; first += CHUNK_ROWS) {
        const int64_t rows = chunk_rows(first, total);
        ff_tensor *feat = ff_tensor_create(ctx, FF_SHAPE(rows, FF_EXTRA_MSA_FEAT));
        if (ff_computing(ctx))
            fill_extra(ff_data(feat), &n, has_deletion, deletion_value, first, rows);
        apply(ctx, &w->extra_msa_activations, ff_data(out) + first * w->config.c_e, ff_data(feat), rows, false);
        ff_tensor_release(feat);
    }
    ff_module_record(ctx, "embed_extra_msa", false, linear_flop(&w->extra_msa_activations, total),
                     4.0 * (double)(total * w->config.c_e), 0, 0);
    if (ff_module_recorded(ctx, w->extra_msa_activations.trained, inputs, 2))
        ff_tape_add(ctx, "embed_extra_msa", embed_extra_backward, inputs, 2, &out, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, NULL, out);
}

ff_tensor *ff_embed_extra_msa(ff_ctx *ctx, const ff_embedder *w, const int32_t *extra_msa, ff_tensor *has_deletion,
                              ff_tensor *deletion_value)
{
    const ff_kernels *outer = ff_module_enter(ctx, 0); /* one-hot and small features: always float32 */
    ff_tensor *out = embed_extra_msa_on_table(ctx, w, extra_msa, has_deletion, deletion_value);
    ctx->kernels = outer;
    return out;
}
