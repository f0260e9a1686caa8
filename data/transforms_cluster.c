/* transforms_cluster.c - extra rows assigned to the MSA row they are nearest to, and what a row and its members look like. */
#include <stdlib.h>
#include <string.h>

#include "data/msa_cluster.h"
#include "data/transforms.h"

/* What the two sides of the comparison hold where nothing may agree. */
enum { OTHER_OF_ROWS = 254, OTHER_OF_CENTERS = 255 };

/* An MSA, its mask and (when asked for) its deletions, of equal shapes. */
typedef struct {
    int64_t num_seq, num_res;
    const int32_t *codes;
    const float *mask, *deletions;
} msa_view;

static ff_status view(ff_ctx *ctx, msa_view *v, const ff_array_set *features, const char *const names[3], bool deletions)
{
    const ff_array *msa = ff_array_need(ctx, features, names[0], FF_ARRAY_INT32, FF_DIMS(-1, -1));
    const ff_array *mask = msa == NULL ? NULL : ff_array_need(ctx, features, names[1], FF_ARRAY_FLOAT32, 2, msa->shape);
    const ff_array *d =
        mask == NULL || !deletions ? NULL : ff_array_need(ctx, features, names[2], FF_ARRAY_FLOAT32, 2, msa->shape);
    if (mask == NULL || (deletions && d == NULL))
        return ctx->status;
    *v = (msa_view){msa->shape[0], msa->shape[1], msa->i32, mask->f32, d == NULL ? NULL : d->f32};
    return FF_OK;
}

static ff_status view_both(ff_ctx *ctx, msa_view *msa, msa_view *extra, const ff_array_set *features, bool deletions)
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
static uint8_t *packed_rows(ff_ctx *ctx, const msa_view *v, uint8_t other)
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
    msa_view msa, extra;
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

/* Extra rows by cluster: those of cluster s are members[first[s] .. first[s+1]). Both freed by the caller. */
static ff_status group(ff_ctx *ctx, int64_t **first, int64_t **members, const ff_array *assignment, int64_t num_seq)
{
    *first = calloc((size_t)num_seq + 2, sizeof **first);
    *members = malloc((size_t)(assignment->size + 1) * sizeof **members);
    if (*first == NULL || *members == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld MSA rows", (long long)assignment->size);
    for (int64_t e = 0; e < assignment->size; e++) {
        if (assignment->i32[e] < 0 || assignment->i32[e] >= num_seq)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "extra_cluster_assignment of row %lld is %d, and there are %lld clusters",
                           (long long)e, assignment->i32[e], (long long)num_seq);
        (*first)[assignment->i32[e] + 2]++;
    }
    for (int64_t s = 0; s < num_seq; s++)
        (*first)[s + 2] += (*first)[s + 1];
    for (int64_t e = 0; e < assignment->size; e++)
        (*members)[(*first)[assignment->i32[e] + 1]++] = e;
    return FF_OK;
}

/* Add one row to the sums of its cluster; the centre counts whatever its mask, AlphaFold does not ask. */
static void add_row(float *profile, float *deletions, const int32_t *codes, const float *mask, const float *d,
                    int64_t num_res)
{
    for (int64_t i = 0; i < num_res; i++) {
        const float m = mask == NULL ? 1 : mask[i];
        if ((uint32_t)codes[i] < FF_MSA_CODES)
            profile[i * FF_MSA_CODES + codes[i]] += m;
        deletions[i] += m * d[i];
    }
}

static void summarize(float *profile, float *mean, float *count, const msa_view *msa, const msa_view *extra, int64_t s,
                      const int64_t *members, int64_t num_members)
{
    const int64_t n = msa->num_res;
    for (int64_t i = 0; i < n; i++)
        count[i] = 1e-6F + msa->mask[s * n + i];
    for (int64_t k = 0; k < num_members; k++) {
        const int64_t e = members[k] * n;
        add_row(profile, mean, extra->codes + e, extra->mask + e, extra->deletions + e, n);
        for (int64_t i = 0; i < n; i++)
            count[i] += extra->mask[e + i];
    }
    add_row(profile, mean, msa->codes + s * n, NULL, msa->deletions + s * n, n);
    for (int64_t i = 0; i < n; i++) {
        const float scale = 1 / count[i];
        for (int c = 0; c < FF_MSA_CODES; c++)
            profile[i * FF_MSA_CODES + c] *= scale;
        mean[i] *= scale;
    }
}

ff_status ff_transform_summarize_clusters(ff_ctx *ctx, ff_array_set *features)
{
    msa_view msa, extra;
    FF_TRY(view_both(ctx, &msa, &extra, features, true));
    const int64_t s = msa.num_seq, n = msa.num_res;
    const ff_array *assignment =
        ff_array_need(ctx, features, "extra_cluster_assignment", FF_ARRAY_INT32, FF_DIMS(extra.num_seq));
    if (assignment == NULL)
        return ctx->status;
    ff_array *profile = ff_array_add(ctx, features, "cluster_profile", FF_ARRAY_FLOAT32, FF_DIMS(s, n, FF_MSA_CODES));
    ff_array *mean = ff_array_add(ctx, features, "cluster_deletion_mean", FF_ARRAY_FLOAT32, FF_DIMS(s, n));
    if (profile == NULL || mean == NULL)
        return ctx->status;
    ff_status status = FF_OK;
    int64_t *first = NULL, *members = NULL;
    float *count = malloc((size_t)(n > 0 ? n : 1) * sizeof *count);
    if (count == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld residues", (long long)n));
    FF_TRY_DONE(group(ctx, &first, &members, assignment, s));
    for (int64_t k = 0; k < s; k++)
        summarize(profile->f32 + k * n * FF_MSA_CODES, mean->f32 + k * n, count, &msa, &extra, k, members + first[k],
                  first[k + 1] - first[k]);
done:
    free(count);
    free(first);
    free(members);
    return status;
}
