/* transforms_cluster.c - extra rows assigned to the MSA row they are nearest to, and what a row and its members look like. */
#include <stdlib.h>

#include "data/msa_cluster.h"
#include "data/transforms.h"

/* What the two sides of the comparison hold where nothing may agree. */
enum { OTHER_OF_ROWS = 254, OTHER_OF_CENTERS = 255 };

static ff_status view(ff_ctx *ctx, ff_msa_view *v, const ff_array_set *features, const char *const names[3], bool deletions)
{
    const ff_array *msa = ff_array_need(ctx, features, names[0], FF_ARRAY_INT32, FF_DIMS(-1, -1));
    const ff_array *mask = msa == NULL ? NULL : ff_array_need(ctx, features, names[1], FF_ARRAY_FLOAT32, 2, msa->shape);
    const ff_array *d =
        mask == NULL || !deletions ? NULL : ff_array_need(ctx, features, names[2], FF_ARRAY_FLOAT32, 2, msa->shape);
    if (mask == NULL || (deletions && d == NULL))
        return ctx->status;
    *v = (ff_msa_view){msa->shape[0], msa->shape[1], msa->i32, mask->f32, d == NULL ? NULL : d->f32};
    return FF_OK;
}

static ff_status view_both(ff_ctx *ctx, ff_msa_view *msa, ff_msa_view *extra, const ff_array_set *features, bool deletions)
{
    static const char *const names[3] = {"msa", "msa_mask", "deletion_matrix"};
    static const char *const extra_names[3] = {"extra_msa", "extra_msa_mask", "extra_deletion_matrix"};
    FF_TRY(view(ctx, msa, features, names, deletions));
    FF_TRY(view(ctx, extra, features, extra_names, deletions));
    if (msa->num_res == extra->num_res)
        return FF_OK;
    return FF_FAIL(ctx, FF_ERR_SHAPE, "msa has %lld residues, extra_msa %lld", (long long)msa->num_res,
                   (long long)extra->num_res);
}

/* num_rows packed rows, aligned. */
static uint8_t *packed_rows(ff_ctx *ctx, const ff_msa_view *v, uint8_t other)
{
    const int64_t bytes = (v->num_seq > 0 ? v->num_seq : 1) * ff_msa_packed_stride(v->num_res > 0 ? v->num_res : 1);
    uint8_t *packed = aligned_alloc(FF_MSA_ROW_BYTES, (size_t)bytes);
    if (packed == NULL)
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld MSA rows", (long long)v->num_seq);
    else
        ff_msa_pack(packed, v->codes, v->mask, v->num_seq, v->num_res, other);
    return packed;
}

ff_status ff_transform_nearest_neighbor_clusters(ff_ctx *ctx, ff_array_set *features)
{
    ff_msa_view msa, extra;
    FF_TRY(view_both(ctx, &msa, &extra, features, false));
    ff_array *assignment =
        ff_array_add(ctx, features, "extra_cluster_assignment", FF_ARRAY_INT32, FF_DIMS(extra.num_seq));
    if (assignment == NULL)
        return ctx->status;
    uint8_t *centers = packed_rows(ctx, &msa, OTHER_OF_CENTERS);
    uint8_t *rows = packed_rows(ctx, &extra, OTHER_OF_ROWS);
    if (centers != NULL && rows != NULL)
        ff_msa_nearest(assignment->i32, rows, extra.num_seq, centers, msa.num_seq, ff_msa_packed_stride(msa.num_res));
    const bool good = centers != NULL && rows != NULL;
    free(centers);
    free(rows);
    return good ? FF_OK : ctx->status;
}

ff_status ff_transform_summarize_clusters(ff_ctx *ctx, ff_array_set *features)
{
    ff_msa_view msa, extra;
    FF_TRY(view_both(ctx, &msa, &extra, features, true));
    const ff_array *assignment =
        ff_array_need(ctx, features, "extra_cluster_assignment", FF_ARRAY_INT32, FF_DIMS(extra.num_seq));
    if (assignment == NULL)
        return ctx->status;
    ff_array *profile = ff_array_add(ctx, features, "cluster_profile", FF_ARRAY_FLOAT32,
                                     FF_DIMS(msa.num_seq, msa.num_res, FF_MSA_CODES));
    ff_array *mean =
        ff_array_add(ctx, features, "cluster_deletion_mean", FF_ARRAY_FLOAT32, FF_DIMS(msa.num_seq, msa.num_res));
    if (profile == NULL || mean == NULL)
        return ctx->status;
    return ff_msa_summarize(ctx, profile->f32, mean->f32, &msa, &extra, assignment->i32);
}
