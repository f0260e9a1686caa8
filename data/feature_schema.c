#include "data/feature_schema.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RES FF_AXIS_RES
#define MSA FF_AXIS_MSA
#define EXTRA FF_AXIS_EXTRA
#define TEMPLATE FF_AXIS_TEMPLATE

/* in order of strcmp, for bsearch */
static const ff_feature_info features[] = {
    {"aatype", {RES}},
    {"all_atom_mask", {RES}},
    {"all_atom_positions", {RES}},
    {"alt_torsion_angles_sin_cos", {RES}},
    {"atom14_alt_gt_exists", {RES}},
    {"atom14_alt_gt_positions", {RES}},
    {"atom14_atom_exists", {RES}},
    {"atom14_atom_is_ambiguous", {RES}},
    {"atom14_gt_exists", {RES}},
    {"atom14_gt_positions", {RES}},
    {"atom37_atom_exists", {RES}},
    {"backbone_affine_mask", {RES}},
    {"backbone_affine_tensor", {RES}},
    {"backbone_rigid_mask", {RES}},
    {"backbone_rigid_tensor", {RES}},
    {"bert_mask", {MSA, RES}},
    {"chi_angles", {RES}},
    {"chi_angles_sin_cos", {RES}},
    {"chi_mask", {RES}},
    {"extra_deletion_value", {EXTRA, RES}},
    {"extra_has_deletion", {EXTRA, RES}},
    {"extra_msa", {EXTRA, RES}},
    {"extra_msa_feat", {EXTRA, RES}},
    {"extra_msa_mask", {EXTRA, RES}},
    {"extra_msa_row_mask", {EXTRA}},
    {"is_distillation", {FF_AXIS_NONE}},
    {"msa_feat", {MSA, RES}},
    {"msa_mask", {MSA, RES}},
    {"msa_row_mask", {MSA}},
    {"pseudo_beta", {RES}},
    {"pseudo_beta_mask", {RES}},
    {"residue_index", {RES}},
    {"residx_atom14_to_atom37", {RES}},
    {"residx_atom37_to_atom14", {RES}},
    {"resolution", {FF_AXIS_NONE}},
    {"rigidgroups_alt_gt_frames", {RES}},
    {"rigidgroups_group_exists", {RES}},
    {"rigidgroups_group_is_ambiguous", {RES}},
    {"rigidgroups_gt_exists", {RES}},
    {"rigidgroups_gt_frames", {RES}},
    {"seq_length", {FF_AXIS_NONE}},
    {"seq_mask", {RES}},
    {"target_feat", {RES}},
    {"template_aatype", {TEMPLATE, RES}},
    {"template_all_atom_masks", {TEMPLATE, RES}},
    {"template_all_atom_positions", {TEMPLATE, RES}},
    {"template_mask", {TEMPLATE}},
    {"template_pseudo_beta", {TEMPLATE, RES}},
    {"template_pseudo_beta_mask", {TEMPLATE, RES}},
    {"template_sum_probs", {TEMPLATE}},
    {"torsion_angles_mask", {RES}},
    {"torsion_angles_sin_cos", {RES}},
    {"true_msa", {MSA, RES}},
    {"use_clamped_fape", {FF_AXIS_NONE}},
};

static int compare_name(const void *key, const void *item)
{
    return strcmp(key, ((const ff_feature_info *)item)->name);
}

const ff_feature_info *ff_feature_find(const char *name)
{
    return bsearch(name, features, sizeof features / sizeof *features, sizeof *features, compare_name);
}

void ff_block_copy(void *dst, const int64_t *dst_shape, const void *src, const int64_t *src_shape, const int64_t *from,
                   const int64_t *count, int ndim, size_t bytes)
{
    if (ndim == 0) {
        memcpy(dst, src, bytes);
        return;
    }
    size_t dst_inner = bytes, src_inner = bytes;
    bool whole = true; /* what lies below this axis is copied as one piece */
    for (int i = 1; i < ndim; i++) {
        dst_inner *= (size_t)dst_shape[i];
        src_inner *= (size_t)src_shape[i];
        whole = whole && dst_shape[i] == src_shape[i] && count[i] == src_shape[i];
    }
    const char *s = (const char *)src + (size_t)from[0] * src_inner;
    if (whole) {
        memcpy(dst, s, (size_t)count[0] * src_inner);
        return;
    }
    for (int64_t i = 0; i < count[0]; i++)
        ff_block_copy((char *)dst + (size_t)i * dst_inner, dst_shape + 1, s + (size_t)i * src_inner, src_shape + 1, from + 1,
                      count + 1, ndim - 1, bytes);
}

ff_array *ff_array_gather_rows(ff_ctx *ctx, ff_array_set *dst, const char *name, const ff_array *src,
                               const int64_t *rows, int64_t num_rows)
{
    assert(src->type != FF_ARRAY_TEXT && src->ndim > 0);
    int64_t shape[FF_HDF5_MAX_DIMS];
    memcpy(shape, src->shape, sizeof shape);
    shape[0] = num_rows;
    ff_array *made = ff_array_add(ctx, dst, name, src->type, src->ndim, shape);
    if (made == NULL)
        return NULL;
    const size_t bytes =
        src->shape[0] > 0 ? (size_t)(src->size / src->shape[0]) * ff_array_type_bytes(src->type) : 0;
    for (int64_t i = 0; i < num_rows; i++)
        memcpy((char *)made->data + (size_t)i * bytes, (const char *)src->data + (size_t)rows[i] * bytes, bytes);
    return made;
}

void ff_array_keep_rows(ff_array *array, int64_t num_rows)
{
    assert(array->type != FF_ARRAY_TEXT && array->ndim > 0 && num_rows <= array->shape[0]);
    if (array->shape[0] > 0)
        array->size = array->size / array->shape[0] * num_rows;
    array->shape[0] = num_rows;
}
