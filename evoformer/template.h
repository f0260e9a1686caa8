/* template.h - templates: pair stack, embedding of one template, attention of the pair representation over templates,
 * torsion-angle rows of the MSA (Jumper et al. 2021, Suppl. Alg. 2 lines 7-13, Alg. 16, 17). */
#ifndef FF_EVOFORMER_TEMPLATE_H
#define FF_EVOFORMER_TEMPLATE_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"
#include "evoformer/template_features.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_MODEL_MAX_TEMPLATES = 8 }; /* one node takes them all */

typedef struct {
    int64_t c_z, c_t;
    int64_t num_block, num_head; /* of the pair stack; head size is c_t / num_head */
    int64_t c_triangle;          /* num_intermediate_channel of its triangle multiplications */
    int64_t transition_factor;
    float dropout; /* rate of its triangle modules */
    bool fuse_projection_weights;
    int64_t attention_num_head, attention_key_dim; /* of the pointwise attention */
    ff_dgram_config dgram;                         /* 3.25, 50.75, 39 */
    bool use_template_unit_vector;
} ff_template_config;

typedef struct {
    ff_biased_attention_layer triangle_attention_starting_node, triangle_attention_ending_node;
    ff_triangle_multiplication_layer triangle_multiplication_outgoing, triangle_multiplication_incoming;
    ff_transition_layer pair_transition;
} ff_template_block;

typedef struct {
    ff_template_config config;
    ff_linear_layer embedding2d;
    ff_layer_norm_layer output_layer_norm;
    ff_attention_layer attention; /* pointwise */
    ff_template_block *blocks;    /* [config.num_block], owned */
} ff_template_embedder;

/** Declare or bind at the binder's scope (".../template_embedding"). Allocates the blocks: ff_template_destroy. */
ff_status ff_template_bind(const ff_binder *b, const ff_template_config *config, ff_template_embedder *w);
/** The same for the parts of ".../single_template_embedding" alone. */
ff_status ff_single_template_bind(const ff_binder *b, const ff_template_config *config, ff_template_embedder *w);
void ff_template_destroy(ff_template_embedder *w);

/**
 * One block of the template pair stack: triangle attention starting, ending, multiplication outgoing, incoming,
 * transition. pair [num_res_local, num_res, c_t], rows sharded; consumed.
 */
ff_tensor *ff_template_block_forward(ff_ctx *ctx, const ff_template_block *w, ff_tensor *pair, ff_tensor *mask_2d);

/**
 * Pair features through embedding2d and the pair stack, before the output layer norm.
 * The template's arrays must outlive the backward pass.
 * @return [num_res_local, num_res, c_t]
 */
ff_tensor *ff_template_pair_stack(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *t, ff_tensor *mask_2d,
                                  bool checkpoint);

/** All of one template's embedding, [num_res_local, num_res, c_t]. */
ff_tensor *ff_single_template_embedding(ff_ctx *ctx, const ff_template_embedder *w, const ff_template *t,
                                        ff_tensor *mask_2d, bool checkpoint);

/**
 *     pair + (sum(template_mask) > 0) attention(pair over templates), or the update alone
 *
 * @param pair           [num_res_local, num_res, c_z], rows sharded; consumed
 * @param templates      num_templ of them, at most FF_MODEL_MAX_TEMPLATES
 * @param template_mask  [num_templ]; must outlive the backward pass
 */
ff_tensor *ff_template_embedding(ff_ctx *ctx, const ff_template_embedder *w, ff_tensor *pair,
                                 const ff_template *templates, int64_t num_templ, const float *template_mask,
                                 ff_tensor *mask_2d, bool checkpoint, ff_update update);

/* Torsion-angle rows. */
typedef struct {
    int64_t c_m;
    ff_linear_layer template_single_embedding, template_projection;
} ff_template_torsion;

ff_status ff_template_torsion_bind(const ff_binder *b, int64_t c_m, ff_template_torsion *w);

/** [num_templ, num_res, 57] of all templates. */
ff_tensor *ff_template_torsion_rows_features(ff_ctx *ctx, const ff_template *templates, int64_t num_templ);

/** template_projection(relu(template_single_embedding(features))), [num_templ, num_res, c_m] or this rank's rows of it; features
 * borrowed. */
ff_tensor *ff_template_torsion_rows(ff_ctx *ctx, const ff_template_torsion *w, ff_tensor *features);

#ifdef __cplusplus
}
#endif
#endif
