/* parameters.h - the trunk's layers as pointers into the parameter block, declared and bound by AlphaFold's names.
 *
 * Contents: layers; the binder; one function per layer, which declares names and shapes, or binds pointers to them.
 *
 * A layer holds its sizes, the arrays of its kernel (value) and their gradients in the same struct (grad). The gradients
 * are used only where `trained` is set, that is when the parameter block has gradients. */
#ifndef FF_EVOFORMER_PARAMETERS_H
#define FF_EVOFORMER_PARAMETERS_H

#include "tensor/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- layers ---- */

typedef struct {
    int64_t c;
    bool trained;
    ff_layer_norm_params value, grad;
} ff_layer_norm_layer;

typedef struct {
    int64_t num_input, num_output;
    bool trained;
    ff_linear_params value, grad;
} ff_linear_layer;

typedef struct {
    int64_t c, c_hidden;
    bool trained;
    ff_transition_params value, grad;
} ff_transition_layer;

/* Gated self-attention with its layer norm (MSA row, column, global column; triangle) and template pointwise attention. */
typedef struct {
    int64_t c_in, num_head, c_hidden;
    int64_t c_memory; /* pointwise attention: channels of the templates (c_in = c_z) */
    float dropout;    /* rate on the update, shared over the batch axis */
    bool trained;
    ff_attention_params value, grad;
} ff_attention_layer;

typedef struct {
    int64_t c_z, num_head;
    bool trained;
    ff_pair_bias_params value, grad;
} ff_pair_bias_layer;

/* MSA row attention (the bias has a norm of its own) and triangle attention (it shares query_norm). */
typedef struct {
    ff_attention_layer attention;
    ff_pair_bias_layer bias;
} ff_biased_attention_layer;

typedef struct {
    int64_t c_z, c_hidden;
    float dropout; /* rate, shared over i */
    bool trained;
    ff_triangle_multiplication_params value, grad;
} ff_triangle_multiplication_layer;

typedef struct {
    int64_t c_m, c_outer, c_z;
    bool trained;
    ff_outer_product_mean_params value, grad;
} ff_outer_product_mean_layer;

/* ---- the binder ---- */

enum { FF_SCOPE_BYTES = 384 };

/* Where names are looked for, and whether they are declared (added to the list, before allocation) or bound. */
typedef struct {
    ff_ctx *ctx;
    ff_parameters *parameters;
    bool declare;
    int64_t num_block; /* declaring stacked layers: length of the leading block axis; 0 = no such axis */
    int64_t block;     /* binding stacked layers: the slice; -1 = no such axis */
    char scope[FF_SCOPE_BYTES];
} ff_binder;

/** A binder at `scope` ("" = the top), without a block axis. */
ff_binder ff_binder_at(ff_ctx *ctx, ff_parameters *parameters, bool declare, const char *scope);
/** The same one level down. */
ff_binder ff_binder_enter(const ff_binder *b, const char *name);
/** One array, for names that fit no layer. `value` and `grad` are untouched when declaring. */
ff_status ff_bind_array(const ff_binder *b, const char *name, int ndim, const int64_t *shape, float **value,
                        float **grad);

/* ---- layers: sizes are taken from the struct, which the caller has filled; pointers are set when binding ---- */

ff_status ff_bind_layer_norm(const ff_binder *b, const char *name, ff_layer_norm_layer *w);
ff_status ff_bind_linear(const ff_binder *b, const char *name, ff_linear_layer *w);
/** The same with the sizes given here. */
ff_status ff_bind_sized_linear(const ff_binder *b, const char *name, ff_linear_layer *w, int64_t num_input, int64_t num_output);
ff_status ff_bind_transition(const ff_binder *b, const char *name, ff_transition_layer *w);
/** AlphaFold's `name` with `attention/...` and `query_norm/...` in it. */
ff_status ff_bind_attention(const ff_binder *b, const char *name, ff_attention_layer *w);
/** The same for the global column attention, whose key_w and value_w have one head. */
ff_status ff_bind_global_attention(const ff_binder *b, const char *name, ff_attention_layer *w);
/** Pointwise attention: `name` is the attention scope itself; no norm, no gate. */
ff_status ff_bind_pointwise_attention(const ff_binder *b, const char *name, ff_attention_layer *w);
/** MSA row attention: feat_2d_norm, feat_2d_weights beside the attention. */
ff_status ff_bind_row_attention(const ff_binder *b, const char *name, ff_biased_attention_layer *w);
/** Triangle attention: feat_2d_weights beside the attention, the norm is shared. */
ff_status ff_bind_triangle_attention(const ff_binder *b, const char *name, ff_biased_attention_layer *w);
/** `fused`: one `projection` and one `gate` of 2 c_hidden channels (multimer v3), left first. */
ff_status ff_bind_triangle_multiplication(const ff_binder *b, const char *name, ff_triangle_multiplication_layer *w,
                                          bool fused);
ff_status ff_bind_outer_product_mean(const ff_binder *b, const char *name, ff_outer_product_mean_layer *w);

#ifdef __cplusplus
}
#endif
#endif
