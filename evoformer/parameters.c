#include "evoformer/parameters.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { TABLE_DIMS = 3 };

/* One array of a layer: its name, the pointer it goes to, and which of the layer's sizes its axes have. */
typedef struct {
    const char *name;
    size_t offset; /* of a float * in the layer's value and grad structs */
    int ndim;
    int dims[TABLE_DIMS]; /* indices into the sizes given to bind_table */
} entry;

ff_binder ff_binder_at(ff_ctx *ctx, ff_parameters *parameters, bool declare, const char *scope)
{
    ff_binder b = {.ctx = ctx, .parameters = parameters, .declare = declare, .num_block = 0, .block = -1, .scope = ""};
    assert(strlen(scope) < sizeof b.scope);
    snprintf(b.scope, sizeof b.scope, "%s", scope);
    return b;
}

ff_binder ff_binder_enter(const ff_binder *b, const char *name)
{
    ff_binder inner = *b;
    const size_t used = strlen(b->scope);
    assert(used + strlen(name) + 2 < sizeof inner.scope);
    snprintf(inner.scope + used, sizeof inner.scope - used, "%s%s", used > 0 ? "/" : "", name);
    return inner;
}

ff_status ff_bind_array(const ff_binder *b, const char *name, int ndim, const int64_t *shape, float **value,
                        float **grad)
{
    if (!b->declare)
        return ff_parameters_bind(b->ctx, b->parameters, b->scope, name, b->block, ndim, shape, value, grad);
    const ff_binder full = ff_binder_enter(b, name);
    int64_t stacked[FF_MAX_DIMS] = {b->num_block};
    const int lead = b->num_block > 0 ? 1 : 0;
    memcpy(stacked + lead, shape, (size_t)ndim * sizeof *shape);
    return ff_parameters_add(b->ctx, b->parameters, full.scope, ndim + lead, stacked);
}

/* `value` and `grad` are the layer's two structs of pointers. */
static ff_status bind_table(const ff_binder *b, const entry *table, size_t n, const int64_t *sizes, void *value,
                            void *grad, bool *trained)
{
    for (size_t i = 0; i < n; i++) {
        int64_t shape[TABLE_DIMS] = {0};
        for (int k = 0; k < table[i].ndim; k++)
            shape[k] = sizes[table[i].dims[k]];
        float **v = (float **)(void *)((char *)value + table[i].offset);
        float **g = (float **)(void *)((char *)grad + table[i].offset);
        FF_TRY(ff_bind_array(b, table[i].name, table[i].ndim, shape, v, g));
    }
    *trained = !b->declare && b->parameters->grads != NULL;
    return FF_OK;
}

#define BIND(b, table, sizes, w)                                                                                       \
    bind_table((b), (table), sizeof(table) / sizeof *(table), (sizes), &(w)->value, &(w)->grad, &(w)->trained)

ff_status ff_bind_layer_norm(const ff_binder *b, const char *name, ff_layer_norm_layer *w)
{
    static const entry table[] = {
        {"scale", offsetof(ff_layer_norm_params, scale), 1, {0}},
        {"offset", offsetof(ff_layer_norm_params, offset), 1, {0}},
    };
    const ff_binder in = ff_binder_enter(b, name);
    return BIND(&in, table, (&(int64_t){w->c}), w);
}

ff_status ff_bind_linear(const ff_binder *b, const char *name, ff_linear_layer *w)
{
    static const entry table[] = {
        {"weights", offsetof(ff_linear_params, weights), 2, {0, 1}},
        {"bias", offsetof(ff_linear_params, bias), 1, {1}},
    };
    const int64_t sizes[] = {w->num_input, w->num_output};
    const ff_binder in = ff_binder_enter(b, name);
    return BIND(&in, table, sizes, w);
}

ff_status ff_bind_sized_linear(const ff_binder *b, const char *name, ff_linear_layer *w, int64_t num_input, int64_t num_output)
{
    *w = (ff_linear_layer){.num_input = num_input, .num_output = num_output};
    return ff_bind_linear(b, name, w);
}

ff_status ff_bind_transition(const ff_binder *b, const char *name, ff_transition_layer *w)
{
    static const entry table[] = {
        {"input_layer_norm/scale", offsetof(ff_transition_params, norm_scale), 1, {0}},
        {"input_layer_norm/offset", offsetof(ff_transition_params, norm_offset), 1, {0}},
        {"transition1/weights", offsetof(ff_transition_params, weights1), 2, {0, 1}},
        {"transition1/bias", offsetof(ff_transition_params, bias1), 1, {1}},
        {"transition2/weights", offsetof(ff_transition_params, weights2), 2, {1, 0}},
        {"transition2/bias", offsetof(ff_transition_params, bias2), 1, {0}},
    };
    const int64_t sizes[] = {w->c, w->c_hidden};
    const ff_binder in = ff_binder_enter(b, name);
    return BIND(&in, table, sizes, w);
}

/* Sizes of the attention tables: c_in, num_head, c_hidden, c_memory. */
static const entry norm_table[] = {
    {"query_norm/scale", offsetof(ff_attention_params, query_norm_scale), 1, {0}},
    {"query_norm/offset", offsetof(ff_attention_params, query_norm_offset), 1, {0}},
};
static const entry query_output_table[] = {
    {"query_w", offsetof(ff_attention_params, query_w), 3, {0, 1, 2}},
    {"output_w", offsetof(ff_attention_params, output_w), 3, {1, 2, 0}},
    {"output_b", offsetof(ff_attention_params, output_b), 1, {0}},
};
static const entry key_value_table[] = {
    {"key_w", offsetof(ff_attention_params, key_w), 3, {3, 1, 2}},
    {"value_w", offsetof(ff_attention_params, value_w), 3, {3, 1, 2}},
};
static const entry global_key_value_table[] = {
    {"key_w", offsetof(ff_attention_params, key_w), 2, {0, 2}},
    {"value_w", offsetof(ff_attention_params, value_w), 2, {0, 2}},
};
static const entry gate_table[] = {
    {"gating_w", offsetof(ff_attention_params, gating_w), 3, {0, 1, 2}},
    {"gating_b", offsetof(ff_attention_params, gating_b), 2, {1, 2}},
};

ff_status ff_bind_attention(const ff_binder *b, const char *name, ff_attention_layer *w)
{
    const int64_t sizes[] = {w->c_in, w->num_head, w->c_hidden, w->c_in};
    const ff_binder in = ff_binder_enter(b, name), attention = ff_binder_enter(&in, "attention");
    FF_TRY(BIND(&in, norm_table, sizes, w));
    FF_TRY(BIND(&attention, query_output_table, sizes, w));
    FF_TRY(BIND(&attention, key_value_table, sizes, w));
    return BIND(&attention, gate_table, sizes, w);
}

ff_status ff_bind_global_attention(const ff_binder *b, const char *name, ff_attention_layer *w)
{
    const int64_t sizes[] = {w->c_in, w->num_head, w->c_hidden, w->c_in};
    const ff_binder in = ff_binder_enter(b, name), attention = ff_binder_enter(&in, "attention");
    FF_TRY(BIND(&in, norm_table, sizes, w));
    FF_TRY(BIND(&attention, query_output_table, sizes, w));
    FF_TRY(BIND(&attention, global_key_value_table, sizes, w));
    return BIND(&attention, gate_table, sizes, w);
}

ff_status ff_bind_pointwise_attention(const ff_binder *b, const char *name, ff_attention_layer *w)
{
    const int64_t sizes[] = {w->c_in, w->num_head, w->c_hidden, w->c_memory};
    const ff_binder in = ff_binder_enter(b, name);
    FF_TRY(BIND(&in, query_output_table, sizes, w));
    return BIND(&in, key_value_table, sizes, w);
}

static const entry bias_weights_table[] = {
    {"feat_2d_weights", offsetof(ff_pair_bias_params, weights), 2, {0, 1}},
};
static const entry bias_norm_table[] = {
    {"feat_2d_norm/scale", offsetof(ff_pair_bias_params, norm_scale), 1, {0}},
    {"feat_2d_norm/offset", offsetof(ff_pair_bias_params, norm_offset), 1, {0}},
};

ff_status ff_bind_row_attention(const ff_binder *b, const char *name, ff_biased_attention_layer *w)
{
    const int64_t sizes[] = {w->bias.c_z, w->bias.num_head};
    const ff_binder in = ff_binder_enter(b, name);
    FF_TRY(ff_bind_attention(b, name, &w->attention));
    FF_TRY(BIND(&in, bias_norm_table, sizes, &w->bias));
    return BIND(&in, bias_weights_table, sizes, &w->bias);
}

ff_status ff_bind_triangle_attention(const ff_binder *b, const char *name, ff_biased_attention_layer *w)
{
    const int64_t sizes[] = {w->bias.c_z, w->bias.num_head};
    const ff_binder in = ff_binder_enter(b, name);
    FF_TRY(ff_bind_attention(b, name, &w->attention));
    FF_TRY(BIND(&in, bias_weights_table, sizes, &w->bias));
    w->bias.value.norm_scale = w->attention.value.query_norm_scale;
    w->bias.value.norm_offset = w->attention.value.query_norm_offset;
    w->bias.grad.norm_scale = w->attention.grad.query_norm_scale;
    w->bias.grad.norm_offset = w->attention.grad.query_norm_offset;
    return FF_OK;
}

#define TRIANGLE(member) offsetof(ff_triangle_multiplication_params, member)

/* Sizes: c_z, c_hidden, 2 c_hidden. */
static const entry triangle_output_table[] = {
    {"output_projection/weights", TRIANGLE(output_projection_w), 2, {1, 0}},
    {"output_projection/bias", TRIANGLE(output_projection_b), 1, {0}},
    {"gating_linear/weights", TRIANGLE(gating_linear_w), 2, {0, 0}},
    {"gating_linear/bias", TRIANGLE(gating_linear_b), 1, {0}},
};
static const entry triangle_table[] = {
    {"layer_norm_input/scale", TRIANGLE(norm_scale), 1, {0}},
    {"layer_norm_input/offset", TRIANGLE(norm_offset), 1, {0}},
    {"left_projection/weights", TRIANGLE(left_projection_w), 2, {0, 1}},
    {"left_projection/bias", TRIANGLE(left_projection_b), 1, {1}},
    {"right_projection/weights", TRIANGLE(right_projection_w), 2, {0, 1}},
    {"right_projection/bias", TRIANGLE(right_projection_b), 1, {1}},
    {"left_gate/weights", TRIANGLE(left_gate_w), 2, {0, 1}},
    {"left_gate/bias", TRIANGLE(left_gate_b), 1, {1}},
    {"right_gate/weights", TRIANGLE(right_gate_w), 2, {0, 1}},
    {"right_gate/bias", TRIANGLE(right_gate_b), 1, {1}},
    {"center_layer_norm/scale", TRIANGLE(center_norm_scale), 1, {1}},
    {"center_layer_norm/offset", TRIANGLE(center_norm_offset), 1, {1}},
};
static const entry triangle_fused_table[] = {
    {"left_norm_input/scale", TRIANGLE(norm_scale), 1, {0}},
    {"left_norm_input/offset", TRIANGLE(norm_offset), 1, {0}},
    {"projection/weights", TRIANGLE(left_projection_w), 2, {0, 2}},
    {"projection/bias", TRIANGLE(left_projection_b), 1, {2}},
    {"gate/weights", TRIANGLE(left_gate_w), 2, {0, 2}},
    {"gate/bias", TRIANGLE(left_gate_b), 1, {2}},
    {"center_norm/scale", TRIANGLE(center_norm_scale), 1, {1}},
    {"center_norm/offset", TRIANGLE(center_norm_offset), 1, {1}},
};

/* Left and right are the column halves of one array. */
static void split_fused(ff_triangle_multiplication_params *p, int64_t c_hidden)
{
    p->right_projection_w = p->left_projection_w + c_hidden;
    p->right_projection_b = p->left_projection_b + c_hidden;
    p->right_gate_w = p->left_gate_w + c_hidden;
    p->right_gate_b = p->left_gate_b + c_hidden;
}

ff_status ff_bind_triangle_multiplication(const ff_binder *b, const char *name, ff_triangle_multiplication_layer *w,
                                          bool fused)
{
    const int64_t sizes[] = {w->c_z, w->c_hidden, 2 * w->c_hidden};
    const ff_binder in = ff_binder_enter(b, name);
    FF_TRY(fused ? BIND(&in, triangle_fused_table, sizes, w) : BIND(&in, triangle_table, sizes, w));
    FF_TRY(BIND(&in, triangle_output_table, sizes, w));
    w->value.projection_stride = w->grad.projection_stride = fused ? 2 * w->c_hidden : w->c_hidden;
    if (fused && !b->declare) {
        split_fused(&w->value, w->c_hidden);
        if (w->trained)
            split_fused(&w->grad, w->c_hidden);
    }
    return FF_OK;
}

ff_status ff_bind_outer_product_mean(const ff_binder *b, const char *name, ff_outer_product_mean_layer *w)
{
#define OUTER(member) offsetof(ff_outer_product_mean_params, member)
    static const entry table[] = {
        {"layer_norm_input/scale", OUTER(norm_scale), 1, {0}},
        {"layer_norm_input/offset", OUTER(norm_offset), 1, {0}},
        {"left_projection/weights", OUTER(left_projection_w), 2, {0, 1}},
        {"left_projection/bias", OUTER(left_projection_b), 1, {1}},
        {"right_projection/weights", OUTER(right_projection_w), 2, {0, 1}},
        {"right_projection/bias", OUTER(right_projection_b), 1, {1}},
        {"output_w", OUTER(output_w), 3, {1, 1, 2}},
        {"output_b", OUTER(output_b), 1, {2}},
    };
#undef OUTER
    const int64_t sizes[] = {w->c_m, w->c_outer, w->c_z};
    const ff_binder in = ff_binder_enter(b, name);
    return BIND(&in, table, sizes, w);
}
