/* transforms_crop.c - what the model reads is chosen, cut, padded and stacked. */
#include <stdlib.h>
#include <string.h>

#include "data/transforms.h"

ff_status ff_transform_select_features(ff_ctx *ctx, ff_array_set *features)
{
    (void)ctx;
    for (int64_t i = features->count - 1; i >= 0; i--)
        if (ff_feature_find(features->items[i]->name) == NULL)
            ff_array_remove(features, features->items[i]->name);
    return FF_OK;
}

int64_t ff_transform_draw_crop_start(int64_t num_res, int64_t crop_size, ff_crop_form form, bool clamped_fape,
                                     const ff_random_key *key)
{
    int64_t room = num_res - crop_size;
    if (key == NULL || room <= 0)
        return 0;
    if (form == FF_CROP_OPENFOLD && !clamped_fape)
        room -= (int64_t)ff_random_below(*key, 1, (uint64_t)room + 1);
    return (int64_t)ff_random_below(*key, 0, (uint64_t)room + 1);
}

/* ---- templates ---- */

static ff_status gather_templates(ff_ctx *ctx, ff_array_set *features, int64_t num_templates, const int64_t *rows,
                                  int64_t num_rows)
{
    for (int64_t i = 0; i < features->count; i++) {
        const ff_array *a = features->items[i];
        const ff_feature_info *info = ff_feature_find(a->name);
        if (info == NULL || info->axes[0] != FF_AXIS_TEMPLATE)
            continue;
        if (a->ndim < 1 || a->shape[0] != num_templates)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s has %lld templates, template_aatype %lld", a->name,
                           (long long)(a->ndim < 1 ? 0 : a->shape[0]), (long long)num_templates);
        char name[64];
        snprintf(name, sizeof name, "%s", a->name);
        if (ff_array_gather_rows(ctx, features, "templates kept", a, rows, num_rows) == NULL)
            return ctx->status;
        FF_TRY(ff_array_move(ctx, features, name, features, "templates kept"));
    }
    return FF_OK;
}

ff_status ff_transform_sample_templates(ff_ctx *ctx, ff_array_set *features, int64_t max_templates,
                                        const ff_random_key *key)
{
    const ff_array *aatype = ff_array_find(features, "template_aatype");
    if (aatype == NULL)
        return FF_OK;
    const int64_t num_templates = aatype->ndim > 0 ? aatype->shape[0] : 0;
    int64_t kept = num_templates;
    int64_t *rows = malloc((size_t)(num_templates + 1) * sizeof *rows);
    if (rows == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld templates", (long long)num_templates);
    for (int64_t t = 0; t < num_templates; t++)
        rows[t] = t;
    if (key != NULL) {
        kept = (int64_t)ff_random_below(*key, 0, (uint64_t)num_templates + 1);
        for (int64_t t = num_templates - 1; t > 0; t--) {
            const int64_t u = (int64_t)ff_random_below(*key, (uint64_t)t, (uint64_t)t + 1), swap = rows[t];
            rows[t] = rows[u];
            rows[u] = swap;
        }
    }
    const ff_status status = gather_templates(ctx, features, num_templates, rows, kept < max_templates ? kept : max_templates);
    free(rows);
    return status;
}

/* ---- residues ---- */

/* Cut one array's axes of residues. */
static ff_status crop_array(ff_ctx *ctx, ff_array_set *features, const ff_array *a, const ff_feature_info *info,
                            int64_t num_res, int64_t start, int64_t length)
{
    int64_t from[FF_HDF5_MAX_DIMS] = {0}, count[FF_HDF5_MAX_DIMS];
    bool cut = false;
    memcpy(count, a->shape, sizeof count);
    for (int i = 0; i < FF_FEATURE_AXES && i < a->ndim; i++)
        if (info->axes[i] == FF_AXIS_RES) {
            if (a->shape[i] != num_res)
                return FF_FAIL(ctx, FF_ERR_SHAPE, "array %s has %lld residues, seq_mask %lld", a->name,
                               (long long)a->shape[i], (long long)num_res);
            from[i] = start;
            count[i] = length;
            cut = true;
        }
    if (!cut)
        return FF_OK;
    char name[64];
    snprintf(name, sizeof name, "%s", a->name);
    ff_array *made = ff_array_add(ctx, features, "residues kept", a->type, a->ndim, count);
    if (made == NULL)
        return ctx->status;
    ff_block_copy(made->data, made->shape, a->data, a->shape, from, count, a->ndim, ff_array_type_bytes(a->type));
    return ff_array_move(ctx, features, name, features, "residues kept");
}

ff_status ff_transform_crop(ff_ctx *ctx, ff_array_set *features, int64_t crop_size, int64_t start)
{
    const ff_array *seq_mask = ff_array_need(ctx, features, "seq_mask", FF_ARRAY_FLOAT32, FF_DIMS(-1));
    if (seq_mask == NULL)
        return ctx->status;
    const int64_t num_res = seq_mask->size;
    if (crop_size < 1 || start < 0 || start >= num_res)
        return FF_FAIL(ctx, FF_ERR_ARG, "a crop of %lld residues from %lld does not lie in a chain of %lld",
                       (long long)crop_size, (long long)start, (long long)num_res);
    const int64_t length = num_res - start < crop_size ? num_res - start : crop_size;
    if (length == num_res)
        return FF_OK;
    for (int64_t i = 0; i < features->count; i++) {
        const ff_feature_info *info = ff_feature_find(features->items[i]->name);
        if (info != NULL)
            FF_TRY(crop_array(ctx, features, features->items[i], info, num_res, start, length));
    }
    ff_array *seq_length = ff_array_find(features, "seq_length");
    if (seq_length != NULL && seq_length->type == FF_ARRAY_INT32 && seq_length->ndim == 0)
        seq_length->i32[0] = (int32_t)length;
    return FF_OK;
}

/* ---- sizes ---- */

/* The shape an array is padded to. */
static ff_status padded_shape(ff_ctx *ctx, int64_t shape[FF_HDF5_MAX_DIMS], const ff_array *a, const ff_feature_sizes *sizes)
{
    const ff_feature_info *info = ff_feature_find(a->name);
    memcpy(shape, a->shape, FF_HDF5_MAX_DIMS * sizeof *shape);
    for (int i = 0; info != NULL && i < FF_FEATURE_AXES && i < a->ndim; i++) {
        const int64_t length = info->axes[i] == FF_AXIS_NONE ? -1 : sizes->length[info->axes[i]];
        if (length >= 0 && a->shape[i] > length)
            return FF_FAIL(ctx, FF_ERR_SHAPE, "axis %d of array %s has length %lld, more than the fixed size %lld", i,
                           a->name, (long long)a->shape[i], (long long)length);
        shape[i] = length >= 0 ? length : shape[i];
    }
    return FF_OK;
}

static void copy_padded(void *dst, const int64_t *shape, const ff_array *a)
{
    const int64_t from[FF_HDF5_MAX_DIMS] = {0};
    if (a->size > 0)
        ff_block_copy(dst, shape, a->data, a->shape, from, a->shape, a->ndim, ff_array_type_bytes(a->type));
}

ff_status ff_transform_make_fixed_size(ff_ctx *ctx, ff_array_set *features, const ff_feature_sizes *sizes)
{
    for (int64_t i = 0; i < features->count; i++) {
        const ff_array *a = features->items[i];
        int64_t shape[FF_HDF5_MAX_DIMS];
        char name[64];
        FF_TRY(padded_shape(ctx, shape, a, sizes));
        if (memcmp(shape, a->shape, sizeof shape) == 0)
            continue;
        snprintf(name, sizeof name, "%s", a->name);
        ff_array *made = ff_array_add(ctx, features, "fixed size", a->type, a->ndim, shape);
        if (made == NULL)
            return ctx->status;
        copy_padded(made->data, shape, a);
        FF_TRY(ff_array_move(ctx, features, name, features, "fixed size"));
    }
    return FF_OK;
}

ff_status ff_transform_stack_slice(ff_ctx *ctx, ff_array_set *batch, const ff_array_set *features, int64_t slice,
                                   int64_t num_slices, const ff_feature_sizes *sizes)
{
    for (int64_t i = 0; i < features->count; i++) {
        const ff_array *a = features->items[i];
        int64_t shape[FF_HDF5_MAX_DIMS + 1] = {num_slices};
        if (a->type == FF_ARRAY_TEXT || a->ndim + 1 > FF_HDF5_MAX_DIMS)
            return FF_FAIL(ctx, FF_ERR_SHAPE, "array %s cannot be stacked", a->name);
        FF_TRY(padded_shape(ctx, shape + 1, a, sizes));
        ff_array *stacked = slice == 0 ? NULL : ff_array_find(batch, a->name);
        if (stacked == NULL && (stacked = ff_array_add(ctx, batch, a->name, a->type, a->ndim + 1, shape)) == NULL)
            return ctx->status;
        if (stacked->type != a->type || stacked->ndim != a->ndim + 1 ||
            memcmp(stacked->shape, shape, (size_t)stacked->ndim * sizeof *shape) != 0)
            return FF_FAIL(ctx, FF_ERR_SHAPE, "array %s of slice %lld has another shape than those before", a->name,
                           (long long)slice);
        const size_t bytes = (size_t)(stacked->size / num_slices) * ff_array_type_bytes(a->type);
        copy_padded((char *)stacked->data + (size_t)slice * bytes, shape + 1, a);
    }
    return FF_OK;
}
