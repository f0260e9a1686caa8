#include "model/openfold_names.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* A scope of AlphaFold's and where OpenFold has it. */
typedef struct {
    const char *alphafold, *openfold;
} scope_pair;

static const scope_pair stacks[] = {
    {"evoformer/evoformer_iteration/", "evoformer.blocks."},
    {"evoformer/extra_msa_stack/", "extra_msa_stack.blocks."},
    {"evoformer/template_embedding/single_template_embedding/template_pair_stack/__layer_stack_no_state/",
     "template_pair_stack.blocks."},
    {NULL, NULL},
};

/* Scopes inside a block. */
static const scope_pair block_scopes[] = {
    {"msa_row_attention_with_pair_bias", "msa_att_row.linear_z"},
    {"msa_row_attention_with_pair_bias/query_norm", "msa_att_row.layer_norm_m"},
    {"msa_row_attention_with_pair_bias/feat_2d_norm", "msa_att_row.layer_norm_z"},
    {"msa_row_attention_with_pair_bias/attention", "msa_att_row.mha"},
    {"msa_column_attention/query_norm", "msa_att_col.layer_norm_m"},
    {"msa_column_attention/attention", "msa_att_col.mha"},
    {"msa_column_global_attention/query_norm", "msa_att_col.layer_norm_m"},
    {"msa_column_global_attention/attention", "msa_att_col.global_attention"},
    {"msa_transition/input_layer_norm", "msa_transition.layer_norm"},
    {"msa_transition/transition1", "msa_transition.linear_1"},
    {"msa_transition/transition2", "msa_transition.linear_2"},
    {"outer_product_mean", "outer_product_mean.linear_out"},
    {"outer_product_mean/layer_norm_input", "outer_product_mean.layer_norm"},
    {"outer_product_mean/left_projection", "outer_product_mean.linear_1"},
    {"outer_product_mean/right_projection", "outer_product_mean.linear_2"},
    {"triangle_multiplication_outgoing/layer_norm_input", "tri_mul_out.layer_norm_in"},
    {"triangle_multiplication_outgoing/left_projection", "tri_mul_out.linear_a_p"},
    {"triangle_multiplication_outgoing/right_projection", "tri_mul_out.linear_b_p"},
    {"triangle_multiplication_outgoing/left_gate", "tri_mul_out.linear_a_g"},
    {"triangle_multiplication_outgoing/right_gate", "tri_mul_out.linear_b_g"},
    {"triangle_multiplication_outgoing/center_layer_norm", "tri_mul_out.layer_norm_out"},
    {"triangle_multiplication_outgoing/output_projection", "tri_mul_out.linear_z"},
    {"triangle_multiplication_outgoing/gating_linear", "tri_mul_out.linear_g"},
    {"triangle_multiplication_incoming/layer_norm_input", "tri_mul_in.layer_norm_in"},
    {"triangle_multiplication_incoming/left_projection", "tri_mul_in.linear_b_p"},
    {"triangle_multiplication_incoming/right_projection", "tri_mul_in.linear_a_p"},
    {"triangle_multiplication_incoming/left_gate", "tri_mul_in.linear_b_g"},
    {"triangle_multiplication_incoming/right_gate", "tri_mul_in.linear_a_g"},
    {"triangle_multiplication_incoming/center_layer_norm", "tri_mul_in.layer_norm_out"},
    {"triangle_multiplication_incoming/output_projection", "tri_mul_in.linear_z"},
    {"triangle_multiplication_incoming/gating_linear", "tri_mul_in.linear_g"},
    {"triangle_attention_starting_node", "tri_att_start.linear"},
    {"triangle_attention_starting_node/query_norm", "tri_att_start.layer_norm"},
    {"triangle_attention_starting_node/attention", "tri_att_start.mha"},
    {"triangle_attention_ending_node", "tri_att_end.linear"},
    {"triangle_attention_ending_node/query_norm", "tri_att_end.layer_norm"},
    {"triangle_attention_ending_node/attention", "tri_att_end.mha"},
    {"pair_transition/input_layer_norm", "pair_transition.layer_norm"},
    {"pair_transition/transition1", "pair_transition.linear_1"},
    {"pair_transition/transition2", "pair_transition.linear_2"},
    {NULL, NULL},
};

#define FOLD "structure_module/fold_iteration/"

/* All other scopes. */
static const scope_pair scopes[] = {
    {"evoformer/preprocess_1d", "input_embedder.linear_tf_m"},
    {"evoformer/preprocess_msa", "input_embedder.linear_msa_m"},
    {"evoformer/left_single", "input_embedder.linear_tf_z_i"},
    {"evoformer/right_single", "input_embedder.linear_tf_z_j"},
    {"evoformer/pair_activiations", "input_embedder.linear_relpos"},
    {"evoformer/prev_pos_linear", "recycling_embedder.linear"},
    {"evoformer/prev_msa_first_row_norm", "recycling_embedder.layer_norm_m"},
    {"evoformer/prev_pair_norm", "recycling_embedder.layer_norm_z"},
    {"evoformer/extra_msa_activations", "extra_msa_embedder.linear"},
    {"evoformer/single_activations", "evoformer.linear"},
    {"evoformer/template_embedding/single_template_embedding/embedding2d", "template_pair_embedder.linear"},
    {"evoformer/template_embedding/single_template_embedding/output_layer_norm", "template_pair_stack.layer_norm"},
    {"evoformer/template_embedding/attention", "template_pointwise_att.mha"},
    {"evoformer/template_single_embedding", "template_single_embedder.linear_1"},
    {"evoformer/template_projection", "template_single_embedder.linear_2"},
    {"structure_module/single_layer_norm", "structure_module.layer_norm_s"},
    {"structure_module/pair_layer_norm", "structure_module.layer_norm_z"},
    {"structure_module/initial_projection", "structure_module.linear_in"},
    {FOLD "invariant_point_attention", "structure_module.ipa"},
    {FOLD "invariant_point_attention/q_scalar", "structure_module.ipa.linear_q"},
    {FOLD "invariant_point_attention/kv_scalar", "structure_module.ipa.linear_kv"},
    {FOLD "invariant_point_attention/q_point_local", "structure_module.ipa.linear_q_points"},
    {FOLD "invariant_point_attention/kv_point_local", "structure_module.ipa.linear_kv_points"},
    {FOLD "invariant_point_attention/attention_2d", "structure_module.ipa.linear_b"},
    {FOLD "invariant_point_attention/output_projection", "structure_module.ipa.linear_out"},
    {FOLD "attention_layer_norm", "structure_module.layer_norm_ipa"},
    {FOLD "transition", "structure_module.transition.layers.0.linear_1"},
    {FOLD "transition_1", "structure_module.transition.layers.0.linear_2"},
    {FOLD "transition_2", "structure_module.transition.layers.0.linear_3"},
    {FOLD "transition_layer_norm", "structure_module.transition.layer_norm"},
    {FOLD "affine_update", "structure_module.bb_update.linear"},
    {FOLD "rigid_sidechain/input_projection", "structure_module.angle_resnet.linear_in"},
    {FOLD "rigid_sidechain/input_projection_1", "structure_module.angle_resnet.linear_initial"},
    {FOLD "rigid_sidechain/resblock1", "structure_module.angle_resnet.layers.0.linear_1"},
    {FOLD "rigid_sidechain/resblock2", "structure_module.angle_resnet.layers.0.linear_2"},
    {FOLD "rigid_sidechain/resblock1_1", "structure_module.angle_resnet.layers.1.linear_1"},
    {FOLD "rigid_sidechain/resblock2_1", "structure_module.angle_resnet.layers.1.linear_2"},
    {FOLD "rigid_sidechain/unnormalized_angles", "structure_module.angle_resnet.linear_out"},
    {"predicted_lddt_head/input_layer_norm", "aux_heads.plddt.layer_norm"},
    {"predicted_lddt_head/act_0", "aux_heads.plddt.linear_1"},
    {"predicted_lddt_head/act_1", "aux_heads.plddt.linear_2"},
    {"predicted_lddt_head/logits", "aux_heads.plddt.linear_3"},
    {"distogram_head/half_logits", "aux_heads.distogram.linear"},
    {"masked_msa_head/logits", "aux_heads.masked_msa.linear"},
    {"experimentally_resolved_head/logits", "aux_heads.experimentally_resolved.linear"},
    {"predicted_aligned_error_head/logits", "aux_heads.tm.linear"},
    {NULL, NULL},
};

/* Last parts of a name; in the scope "attention" the second list comes first. */
static const scope_pair leaves[] = {
    {"weights", "weight"},
    {"bias", "bias"},
    {"scale", "weight"},
    {"offset", "bias"},
    {"output_w", "weight"},
    {"output_b", "bias"},
    {"feat_2d_weights", "weight"},
    {"trainable_point_weights", "head_weights"},
    {NULL, NULL},
};
static const scope_pair attention_leaves[] = {
    {"query_w", "linear_q.weight"}, {"key_w", "linear_k.weight"},
    {"value_w", "linear_v.weight"}, {"gating_w", "linear_g.weight"},
    {"gating_b", "linear_g.bias"},  {"output_w", "linear_o.weight"},
    {"output_b", "linear_o.bias"},  {NULL, NULL},
};

/* What stands for the first `length` bytes of `text`; NULL when nothing does. */
static const char *look_up(const scope_pair *pairs, const char *text, size_t length)
{
    for (; pairs->alphafold != NULL; pairs++)
        if (strlen(pairs->alphafold) == length && memcmp(pairs->alphafold, text, length) == 0)
            return pairs->openfold;
    return NULL;
}

bool ff_openfold_name(const char *parameter, int64_t block, char name[FF_OPENFOLD_NAME_BYTES], bool *stacked)
{
    const scope_pair *stack = stacks;
    while (stack->alphafold != NULL && strncmp(parameter, stack->alphafold, strlen(stack->alphafold)) != 0)
        stack++;
    *stacked = stack->alphafold != NULL;
    const char *inside = parameter + (*stacked ? strlen(stack->alphafold) : 0), *slash = strrchr(inside, '/');
    if (slash == NULL)
        return false;
    const size_t length = (size_t)(slash - inside);
    const char *scope = look_up(*stacked ? block_scopes : scopes, inside, length), *leaf = slash + 1;
    const bool attention = length >= 10 && memcmp(slash - 10, "/attention", 10) == 0;
    const char *last = look_up(attention ? attention_leaves : leaves, leaf, strlen(leaf));
    if (scope == NULL || last == NULL)
        return false;
    if (*stacked)
        snprintf(name, FF_OPENFOLD_NAME_BYTES, "%s%lld.%s.%s", stack->openfold, (long long)block, scope, last);
    else
        snprintf(name, FF_OPENFOLD_NAME_BYTES, "%s.%s", scope, last);
    return true;
}

static bool is_word(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && memcmp(word, text, length) == 0;
}

/* Whether a part of a name says nothing: `before` is the part before it. */
static bool is_empty_part(const char *part, size_t length, const char *before, size_t before_length)
{
    static const char *const words[] = {"module",   "model", "core", "pair_stack", "template_embedder",
                                        "_msa_att", "stack"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(words[i], part, length))
            return true;
    return is_word("linear", part, length) &&
           (is_word("linear_q_points", before, before_length) || is_word("linear_kv_points", before, before_length));
}

void ff_openfold_normalise(const char *stored, char name[FF_OPENFOLD_NAME_BYTES])
{
    size_t n = 0, before_length = 0;
    const char *before = "";
    for (const char *part = stored; *part != '\0';) {
        const char *dot = strchr(part, '.');
        size_t length = dot == NULL ? strlen(part) : (size_t)(dot - part);
        const char *next = part + length + (dot == NULL ? 0 : 1), *text = part;
        if (!is_empty_part(part, length, before, before_length)) {
            before = part;
            before_length = length;
            if (is_word("template_angle_embedder", part, length)) {
                text = "template_single_embedder";
                length = strlen(text);
            }
            if (n + length + 2 > FF_OPENFOLD_NAME_BYTES)
                break;
            if (n > 0)
                name[n++] = '.';
            memcpy(name + n, text, length);
            n += length;
        }
        part = next;
    }
    name[n] = '\0';
}
