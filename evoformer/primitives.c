/* Contents: layer norm; linear; relu, sum, dropout; attention core; gate; the Attention module; rows. */
#include "evoformer/primitives.h"

#include <string.h>

#include "dap/dap.h"

bool ff_replicated_trained(const ff_ctx *ctx, bool trained) { return trained && ff_dap_rank(ctx) == 0; }

static double bytes_of(const ff_tensor *x) { return x == NULL ? 0.0 : (double)x->bytes; }

/* ---- layer norm ---- */

typedef struct {
    const ff_layer_norm_layer *w;
    bool sharded;
} norm_node;

static void layer_norm_backward(ff_ctx *ctx, ff_node *node)
{
    norm_node n;
    memcpy(&n, node->args, sizeof n);
    const ff_layer_norm_layer *w = n.w;
    const bool trained = n.sharded ? w->trained : ff_replicated_trained(ctx, w->trained);
    ff_tensor *x = node->inputs[0];
    const int64_t rows = x->size / w->c;
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->layer_norm_backward != NULL, "layer norm backward"))
        return;
    ff_tensor *held = x->requires_grad ? NULL : ff_tensor_zeros(ctx, x->ndim, x->shape);
    ff_tensor *grad_x = x->requires_grad ? ff_tensor_grad(ctx, x) : held;
    void *scratch = ff_scratch_begin(ctx, k->layer_norm_backward_scratch_bytes(rows, w->c));
    if (ff_computing(ctx))
        k->layer_norm_backward(ff_data(grad_x), trained ? &w->grad : NULL, ff_data(node->outputs[0]->grad), ff_data(x), &w->value,
                               rows, w->c, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "layer_norm", true, 0, 2 * bytes_of(x), 0, 0);
    ff_tensor_release(held);
}

static ff_tensor *layer_norm(ff_ctx *ctx, norm_node n, ff_tensor *x)
{
    const ff_layer_norm_layer *w = n.w;
    if (!ff_module_offered(ctx, ctx->kernels->layer_norm_forward != NULL, "layer norm"))
        return NULL;
    if (x->ndim < 1 || x->shape[x->ndim - 1] != w->c) {
        FF_FAIL(ctx, FF_ERR_SHAPE, "layer norm of %lld channels on an array that has not", (long long)w->c);
        return NULL;
    }
    ff_tensor *out = ff_tensor_create(ctx, x->ndim, x->shape);
    if (ff_computing(ctx))
        ctx->kernels->layer_norm_forward(ff_data(out), ff_data(x), &w->value, x->size / w->c, w->c);
    ff_module_record(ctx, "layer_norm", false, 0, 2 * bytes_of(x), 0, 0);
    if (ff_module_recorded(ctx, w->trained, &x, 1))
        ff_tape_add(ctx, "layer_norm", layer_norm_backward, &x, 1, &out, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, NULL, out);
}

ff_tensor *ff_layer_norm(ff_ctx *ctx, const ff_layer_norm_layer *w, ff_tensor *x)
{
    return layer_norm(ctx, (norm_node){w, false}, x);
}

ff_tensor *ff_layer_norm_sharded(ff_ctx *ctx, const ff_layer_norm_layer *w, ff_tensor *x)
{
    return layer_norm(ctx, (norm_node){w, true}, x);
}

/* ---- linear ---- */

typedef struct {
    const ff_linear_layer *w;
    ff_linear_layer own; /* used when w is NULL: a layer put together for one call */
    bool relu, sharded;
} linear_node;

static const ff_linear_layer *linear_of(const linear_node *n) { return n->w != NULL ? n->w : &n->own; }

/* Where the forward pass gave 0, the gradient stops. */
static ff_tensor *through_relu(ff_ctx *ctx, const ff_tensor *grad, const ff_tensor *out)
{
    if (ctx->status == FF_OK && ctx->kernels->backend == FF_BACKEND_CUDA)
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "the cuda backend has no relu backward");
    ff_tensor *masked = ff_tensor_create(ctx, grad->ndim, grad->shape);
    if (ff_computing(ctx))
        for (int64_t i = 0; i < grad->size; i++)
            ff_data(masked)[i] = ff_data(out)[i] > 0.0f ? ff_data(grad)[i] : 0.0f;
    return masked;
}

static void linear_backward(ff_ctx *ctx, ff_node *node)
{
    linear_node n;
    memcpy(&n, node->args, sizeof n);
    const ff_linear_layer *w = linear_of(&n);
    const bool trained = n.sharded ? w->trained : ff_replicated_trained(ctx, w->trained);
    ff_tensor *x = node->inputs[0], *out = node->outputs[0];
    const int64_t rows = x->size / w->num_input;
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->linear_backward != NULL, "linear backward"))
        return;
    ff_tensor *grad = n.relu ? through_relu(ctx, out->grad, out) : ff_tensor_retain(out->grad);
    float *grad_x = ff_data(ff_tensor_grad(ctx, x));
    void *scratch = ff_scratch_begin(ctx, k->linear_scratch_bytes(rows, w->num_input, w->num_output));
    if (ff_computing(ctx))
        k->linear_backward(grad_x, trained ? &w->grad : NULL, ff_data(grad), ff_data(x), &w->value, rows, w->num_input,
                           w->num_output, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "linear", true, 2.0 * (double)rows * (double)w->num_input * (double)w->num_output,
                     bytes_of(x) + bytes_of(out), 0, 0);
    ff_tensor_release(grad);
}

static ff_tensor *linear(ff_ctx *ctx, linear_node n, ff_tensor *x, int ndim, const int64_t *shape)
{
    const ff_linear_layer *w = linear_of(&n);
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->linear_forward != NULL, "linear"))
        return NULL;
    if (x->size % w->num_input != 0 || x->ndim < 1 || x->shape[x->ndim - 1] != w->num_input) {
        FF_FAIL(ctx, FF_ERR_SHAPE, "linear of %lld channels on an array that has not", (long long)w->num_input);
        return NULL;
    }
    const int64_t rows = x->size / w->num_input;
    ff_tensor *out = ff_tensor_create(ctx, ndim, shape);
    void *scratch = ff_scratch_begin(ctx, k->linear_scratch_bytes(rows, w->num_input, w->num_output));
    if (ff_computing(ctx))
        k->linear_forward(ff_data(out), ff_data(x), &w->value, rows, w->num_input, w->num_output, n.relu, false, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "linear", false, 2.0 * (double)rows * (double)w->num_input * (double)w->num_output,
                     bytes_of(x) + bytes_of(out), 0, 0);
    if (ff_module_recorded(ctx, w->trained, &x, 1))
        ff_tape_add(ctx, "linear", linear_backward, &x, 1, &out, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, NULL, out);
}

static ff_tensor *linear_on_table(ff_ctx *ctx, linear_node n, ff_tensor *x)
{
    if (ctx->status != FF_OK)
        return NULL;
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    if (x->ndim > 0)
        shape[x->ndim - 1] = n.w->num_output;
    return linear(ctx, n, x, x->ndim, shape);
}

static ff_tensor *linear_of_width(ff_ctx *ctx, linear_node n, ff_tensor *x)
{
    const ff_kernels *outer = ff_module_enter(ctx, n.w->num_output);
    ff_tensor *out = linear_on_table(ctx, n, x);
    ctx->kernels = outer;
    return out;
}

ff_tensor *ff_linear(ff_ctx *ctx, const ff_linear_layer *w, ff_tensor *x, bool relu)
{
    return linear_of_width(ctx, (linear_node){.w = w, .relu = relu}, x);
}

ff_tensor *ff_linear_sharded(ff_ctx *ctx, const ff_linear_layer *w, ff_tensor *x, bool relu)
{
    return linear_of_width(ctx, (linear_node){.w = w, .relu = relu, .sharded = true}, x);
}

/* ---- relu, sum, dropout ---- */

static void relu_backward(ff_ctx *ctx, ff_node *node)
{
    ff_tensor *masked = through_relu(ctx, node->outputs[0]->grad, node->outputs[0]);
    float *grad = ff_data(ff_tensor_grad(ctx, node->inputs[0]));
    if (ff_computing(ctx) && grad != NULL)
        ctx->kernels->add_scaled(grad, ff_data(masked), 1.0f, masked->size);
    ff_tensor_release(masked);
}

ff_tensor *ff_relu(ff_ctx *ctx, ff_tensor *x)
{
    if (ctx->status == FF_OK && ctx->kernels->backend == FF_BACKEND_CUDA)
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "the cuda backend has no relu");
    if (ctx->status != FF_OK)
        return NULL;
    ff_tensor *out = ff_tensor_create(ctx, x->ndim, x->shape);
    if (ff_computing(ctx))
        for (int64_t i = 0; i < x->size; i++)
            ff_data(out)[i] = ff_data(x)[i] > 0.0f ? ff_data(x)[i] : 0.0f;
    ff_module_record(ctx, "relu", false, 0, 2 * bytes_of(x), 0, 0);
    if (ff_module_recorded(ctx, false, &x, 1))
        ff_tape_add(ctx, "relu", relu_backward, &x, 1, &out, 1, NULL, 0, NULL, 0);
    return ff_module_end(ctx, NULL, out);
}

static void add_backward(ff_ctx *ctx, ff_node *node)
{
    const ff_tensor *g = node->outputs[0]->grad;
    for (int i = 0; i < 2; i++) {
        float *grad = ff_data(ff_tensor_grad(ctx, node->inputs[i]));
        if (ff_computing(ctx) && grad != NULL)
            ctx->kernels->add_scaled(grad, ff_data(g), 1.0f, g->size);
    }
}

ff_tensor *ff_add(ff_ctx *ctx, ff_tensor *a, ff_tensor *b)
{
    if (ctx->status != FF_OK || !ff_check_shape(ctx, b, "second summand", a->ndim, a->shape))
        return NULL;
    ff_tensor *inputs[] = {a, b}, *out = ff_tensor_create(ctx, a->ndim, a->shape);
    if (ff_computing(ctx))
        ctx->kernels->bias_dropout_residual(ff_data(out), ff_data(a), NULL, NULL, ff_data(b), 1, 1, a->size);
    ff_module_record(ctx, "add", false, 0, 3 * bytes_of(a), 0, 0);
    if (ff_module_recorded(ctx, false, inputs, 2))
        ff_tape_add(ctx, "add", add_backward, inputs, 2, &out, 1, NULL, 0, NULL, 0);
    return ff_module_end(ctx, NULL, out);
}

static void dropout_backward(ff_ctx *ctx, ff_node *node)
{
    const ff_tensor *g = node->outputs[0]->grad;
    const int64_t rows = g->shape[0], c = rows > 0 ? g->size / rows : 0;
    float *grad = ff_data(ff_tensor_grad(ctx, node->inputs[0]));
    if (ff_computing(ctx) && grad != NULL)
        ctx->kernels->bias_dropout_residual(grad, ff_data(g), NULL, ff_data(node->kept[0]), grad, rows, rows, c);
}

ff_tensor *ff_dropout(ff_ctx *ctx, ff_tensor *x, float rate)
{
    if (ctx->status != FF_OK)
        return NULL;
    const int64_t rows = x->shape[0], c = rows > 0 ? x->size / rows : 0;
    ff_tensor *mask = ff_module_dropout(ctx, rate, 0, rows, c);
    if (mask == NULL)
        return ctx->status == FF_OK ? ff_tensor_retain(x) : NULL;
    ff_tensor *out = ff_tensor_create(ctx, x->ndim, x->shape);
    if (ff_computing(ctx))
        ctx->kernels->bias_dropout_residual(ff_data(out), ff_data(x), NULL, ff_data(mask), NULL, rows, rows, c);
    if (ff_module_recorded(ctx, false, &x, 1))
        ff_tape_add(ctx, "dropout", dropout_backward, &x, 1, &out, 1, &mask, 1, NULL, 0);
    else
        ff_tensor_release(mask);
    return ff_module_end(ctx, NULL, out);
}

/* ---- attention core ---- */

typedef struct {
    ff_attention_core_args a;
} core_node;

static double core_flop(const ff_attention_core_args *a)
{
    return 4.0 * (double)a->batch * (double)a->num_head * (double)a->num_query * (double)a->num_key *
           (double)a->c_hidden;
}

static void core_backward(ff_ctx *ctx, ff_node *node)
{
    core_node n;
    memcpy(&n, node->args, sizeof n);
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->attention_core_backward != NULL, "attention core backward"))
        return;
    float *grads[3], *grad_bias = NULL;
    ff_tensor *held[3] = {NULL};
    double bytes = 0;
    for (int i = 0; i < 3; i++) {
        ff_tensor *x = node->inputs[i];
        held[i] = x->requires_grad ? NULL : ff_tensor_zeros(ctx, x->ndim, x->shape);
        grads[i] = ff_data(x->requires_grad ? ff_tensor_grad(ctx, x) : held[i]);
        bytes += bytes_of(x);
    }
    if (node->inputs[4] != NULL)
        grad_bias = ff_data(ff_tensor_grad(ctx, node->inputs[4]));
    void *scratch = ff_scratch_begin(ctx, k->attention_core_scratch_bytes(&n.a, true));
    if (ff_computing(ctx))
        k->attention_core_backward(grads[0], grads[1], grads[2], grad_bias, ff_data(node->outputs[0]->grad),
                                   ff_data(node->inputs[0]), ff_data(node->inputs[1]), ff_data(node->inputs[2]), &n.a,
                                   scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "attention_core", true, core_flop(&n.a), bytes, 0, 0);
    for (int i = 0; i < 3; i++)
        ff_tensor_release(held[i]);
}

static ff_tensor *attention_core_on_table(ff_ctx *ctx, ff_tensor *q, ff_tensor *k, ff_tensor *v, ff_tensor *mask, ff_tensor *bias,
                                          float scale)
{
    const ff_kernels *table = ctx->kernels;
    if (!ff_module_offered(ctx, table->attention_core_forward != NULL, "attention core") ||
        !ff_check_shape(ctx, q, "q", FF_SHAPE(-1, -1, -1, -1)) ||
        !ff_check_shape(ctx, k, "k", FF_SHAPE(q->shape[0], -1, q->shape[2], q->shape[3])) ||
        !ff_check_shape(ctx, v, "v", k->ndim, k->shape) ||
        (mask != NULL && !ff_check_shape(ctx, mask, "mask", FF_SHAPE(k->shape[0], k->shape[1]))) ||
        (bias != NULL && !ff_check_shape(ctx, bias, "bias", FF_SHAPE(q->shape[2], q->shape[1], k->shape[1]))))
        return NULL;
    const core_node n = {{.batch = q->shape[0],
                          .num_query = q->shape[1],
                          .num_key = k->shape[1],
                          .num_head = q->shape[2],
                          .c_hidden = q->shape[3],
                          .scale = scale,
                          .mask = ff_data(mask),
                          .bias = ff_data(bias)}};
    ff_tensor *inputs[] = {q, k, v, mask, bias};
    ff_tensor *out = ff_tensor_create(ctx, q->ndim, q->shape);
    void *scratch = ff_scratch_begin(ctx, table->attention_core_scratch_bytes(&n.a, false));
    if (ff_computing(ctx))
        table->attention_core_forward(ff_data(out), ff_data(q), ff_data(k), ff_data(v), &n.a, scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "attention_core", false, core_flop(&n.a), 2 * bytes_of(q) + bytes_of(k) + bytes_of(v), 0, 0);
    if (ff_module_recorded(ctx, false, inputs, 5))
        ff_tape_add(ctx, "attention_core", core_backward, inputs, 5, &out, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, NULL, out);
}

ff_tensor *ff_attention_core(ff_ctx *ctx, ff_tensor *q, ff_tensor *k, ff_tensor *v, ff_tensor *mask, ff_tensor *bias,
                             float scale)
{
    const ff_kernels *outer = ff_module_enter(ctx, (q == NULL ? 0 : q->shape[q->ndim - 2] * q->shape[q->ndim - 1]));
    ff_tensor *out = attention_core_on_table(ctx, q, k, v, mask, bias, scale);
    ctx->kernels = outer;
    return out;
}

/* ---- gate ---- */

static void gate_backward(ff_ctx *ctx, ff_node *node)
{
    ff_tensor *x = node->inputs[0], *gate = node->inputs[1];
    if (!ff_module_offered(ctx, ctx->kernels->sigmoid_gate_backward != NULL, "sigmoid gate backward"))
        return;
    ff_tensor *held_x = x->requires_grad ? NULL : ff_tensor_zeros(ctx, x->ndim, x->shape);
    ff_tensor *held_gate = gate->requires_grad ? NULL : ff_tensor_zeros(ctx, x->ndim, x->shape);
    float *grad_x = ff_data(x->requires_grad ? ff_tensor_grad(ctx, x) : held_x);
    float *grad_gate = ff_data(gate->requires_grad ? ff_tensor_grad(ctx, gate) : held_gate);
    if (ff_computing(ctx))
        ctx->kernels->sigmoid_gate_backward(grad_x, grad_gate, NULL, ff_data(node->outputs[0]->grad), ff_data(x),
                                            ff_data(gate), NULL, 1, x->size);
    ff_module_record(ctx, "sigmoid_gate", true, 0, 3 * bytes_of(x), 0, 0);
    ff_tensor_release(held_x);
    ff_tensor_release(held_gate);
}

ff_tensor *ff_sigmoid_gate(ff_ctx *ctx, ff_tensor *x, ff_tensor *gate)
{
    if (!ff_module_offered(ctx, ctx->kernels->sigmoid_gate_forward != NULL, "sigmoid gate") ||
        !ff_check_shape(ctx, gate, "gate", x->ndim, x->shape))
        return NULL;
    ff_tensor *inputs[] = {x, gate}, *out = ff_tensor_create(ctx, x->ndim, x->shape);
    if (ff_computing(ctx))
        ctx->kernels->sigmoid_gate_forward(ff_data(out), ff_data(x), ff_data(gate), NULL, 1, x->size);
    ff_module_record(ctx, "sigmoid_gate", false, 0, 3 * bytes_of(x), 0, 0);
    if (ff_module_recorded(ctx, false, inputs, 2))
        ff_tape_add(ctx, "sigmoid_gate", gate_backward, inputs, 2, &out, 1, NULL, 0, NULL, 0);
    return ff_module_end(ctx, NULL, out);
}

/* ---- the Attention module ---- */

/* A projection to [batch, n, num_head, c_hidden]. */
static ff_tensor *to_heads(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *x, float *weights, float *grad,
                           float *bias, float *grad_bias)
{
    if (ctx->status != FF_OK)
        return NULL;
    linear_node n = {.own = {x->shape[2], w->num_head * w->c_hidden, w->trained, {weights, bias}, {grad, grad_bias}}};
    return linear(ctx, n, x, FF_SHAPE(x->shape[0], x->shape[1], w->num_head, w->c_hidden));
}

ff_tensor *ff_attention(ff_ctx *ctx, const ff_attention_layer *w, ff_tensor *q_data, ff_tensor *m_data, ff_tensor *mask,
                        ff_tensor *bias)
{
    const ff_attention_params *p = &w->value, *g = &w->grad;
    if (!ff_check_shape(ctx, q_data, "q_data", FF_SHAPE(-1, -1, w->c_in)) ||
        !ff_check_shape(ctx, m_data, "m_data", FF_SHAPE(q_data->shape[0], -1, w->c_memory)))
        return NULL;
    const float scale = 1.0f / __builtin_sqrtf((float)w->c_hidden);
    ff_tensor *q = to_heads(ctx, w, q_data, p->query_w, g->query_w, NULL, NULL);
    ff_tensor *k = to_heads(ctx, w, m_data, p->key_w, g->key_w, NULL, NULL);
    ff_tensor *v = to_heads(ctx, w, m_data, p->value_w, g->value_w, NULL, NULL);
    ff_tensor *o = ff_attention_core(ctx, q, k, v, mask, bias, scale);
    if (p->gating_w != NULL) {
        ff_tensor *gate = to_heads(ctx, w, q_data, p->gating_w, g->gating_w, p->gating_b, g->gating_b);
        ff_tensor *gated = ff_sigmoid_gate(ctx, o, gate);
        ff_tensor_release(gate);
        ff_tensor_release(o);
        o = gated;
    }
    ff_tensor *out = NULL;
    if (ctx->status == FF_OK) {
        const int64_t hc = w->num_head * w->c_hidden;
        ff_tensor *flat = ff_tensor_reshape(ctx, o, FF_SHAPE(q_data->shape[0], q_data->shape[1], hc));
        const int64_t c_out = w->c_in;
        linear_node n = {.own = {hc, c_out, w->trained, {p->output_w, p->output_b}, {g->output_w, g->output_b}}};
        if (flat != NULL)
            out = linear(ctx, n, flat, FF_SHAPE(q_data->shape[0], q_data->shape[1], c_out));
        ff_tensor_release(flat);
    }
    ff_tensor_release(q);
    ff_tensor_release(k);
    ff_tensor_release(v);
    ff_tensor_release(o);
    return out;
}

/* ---- rows ---- */

static void add_rows(ff_ctx *ctx, ff_tensor *x, int64_t x_first, const ff_tensor *grad, int64_t grad_first, int64_t n)
{
    float *grad_x = ff_data(ff_tensor_grad(ctx, x));
    if (ff_computing(ctx) && grad_x != NULL)
        ctx->kernels->add_scaled(grad_x + x_first, ff_data(grad) + grad_first, 1.0f, n);
}

static int64_t row_size(const ff_tensor *x)
{
    int64_t n = 1;
    for (int i = 1; i < x->ndim; i++)
        n *= x->shape[i];
    return n;
}

static void slice_backward(ff_ctx *ctx, ff_node *node)
{
    int64_t first;
    memcpy(&first, node->args, sizeof first);
    ff_tensor *x = node->inputs[0], *out = node->outputs[0];
    add_rows(ctx, x, first * row_size(x), out->grad, 0, out->size);
}

ff_tensor *ff_slice_rows(ff_ctx *ctx, ff_tensor *x, int64_t first, int64_t count)
{
    if (ctx->status != FF_OK)
        return NULL;
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = count;
    ff_tensor *out = ff_tensor_create(ctx, x->ndim, shape);
    if (ff_computing(ctx))
        memcpy(out->data, ff_data(x) + first * row_size(x), out->bytes);
    ff_module_record(ctx, "slice_rows", false, 0, 2 * bytes_of(out), 0, 0);
    if (ff_module_recorded(ctx, false, &x, 1))
        ff_tape_add(ctx, "slice_rows", slice_backward, &x, 1, &out, 1, NULL, 0, &first, sizeof first);
    return ff_module_end(ctx, NULL, out);
}

static void concat_backward(ff_ctx *ctx, ff_node *node)
{
    ff_tensor *a = node->inputs[0], *b = node->inputs[1], *out = node->outputs[0];
    add_rows(ctx, a, 0, out->grad, 0, a->size);
    add_rows(ctx, b, 0, out->grad, a->size, b->size);
}

ff_tensor *ff_concat_rows(ff_ctx *ctx, ff_tensor *a, ff_tensor *b)
{
    if (ctx->status != FF_OK)
        return NULL;
    int64_t shape[FF_MAX_DIMS], tail[FF_MAX_DIMS];
    memcpy(tail, a->shape, sizeof tail);
    tail[0] = -1;
    if (!ff_check_shape(ctx, b, "the rows below", a->ndim, tail))
        return NULL;
    memcpy(shape, a->shape, sizeof shape);
    shape[0] += b->shape[0];
    ff_tensor *inputs[] = {a, b}, *out = ff_tensor_create(ctx, a->ndim, shape);
    if (ff_computing(ctx)) {
        memcpy(out->data, a->data, a->bytes);
        memcpy(ff_data(out) + a->size, b->data, b->bytes);
    }
    ff_module_record(ctx, "concat_rows", false, 0, 2 * bytes_of(out), 0, 0);
    if (ff_module_recorded(ctx, false, inputs, 2))
        ff_tape_add(ctx, "concat_rows", concat_backward, inputs, 2, &out, 1, NULL, 0, NULL, 0);
    return ff_module_end(ctx, NULL, out);
}
