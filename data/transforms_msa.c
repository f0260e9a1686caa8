/* transforms_msa.c - which rows of the MSA are read, what is hidden in them, and the features made of them. */
#include <stdlib.h>
#include <string.h>

#include "data/msa_rows.h"
#include "structure/residue_constants.h"

/* Arrays with a row of the MSA on axis 0; after sampling the rest is in "extra_" arrays. */
static const char *const row_arrays[] = {"msa", "deletion_matrix", "msa_mask", "msa_row_mask", "bert_mask", "true_msa"};
enum { NUM_ROW_ARRAYS = sizeof row_arrays / sizeof *row_arrays, NAME_BYTES = 64 };

/* The rows of array `name` of an MSA of num_seq, in `order`, go to `out`: the first num_kept under its name, the others (if extra)
 * under extra_NAME. */
static ff_status split_rows(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features, const char *name, int64_t num_seq,
                            const int64_t *order, int64_t num_rows, int64_t num_kept, bool extra)
{
    char text[NAME_BYTES + 8];
    const ff_array *a = ff_array_find(features, name);
    if (a == NULL)
        return FF_OK;
    if (a->ndim < 1 || a->shape[0] != num_seq || a->type == FF_ARRAY_TEXT)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s has %lld rows of numbers, msa %lld", name,
                       (long long)(a->ndim < 1 || a->type == FF_ARRAY_TEXT ? 0 : a->shape[0]), (long long)num_seq);
    snprintf(text, sizeof text, "extra_%s", name);
    if (extra && ff_array_gather_rows(ctx, out, text, a, order + num_kept, num_rows - num_kept) == NULL)
        return ctx->status;
    if (ff_array_gather_rows(ctx, out, "rows kept", a, order, num_kept) == NULL)
        return ctx->status;
    return ff_array_move(ctx, out, name, out, "rows kept");
}

ff_status ff_transform_sample_msa(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features, int64_t max_seq,
                                  const ff_random_key *key)
{
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const int64_t num_seq = msa->shape[0], kept = num_seq < max_seq ? num_seq : max_seq;
    int64_t *order = ff_msa_rows_all(ctx, num_seq);
    ff_status status = order == NULL ? ctx->status : FF_OK;
    if (status == FF_OK)
        ff_msa_rows_shuffle(order, num_seq, 1, key);
    for (int i = 0; i < NUM_ROW_ARRAYS && status == FF_OK; i++)
        status = split_rows(ctx, out, features, row_arrays[i], num_seq, order, num_seq, kept, true);
    free(order);
    return status;
}

ff_status ff_transform_block_delete_msa(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features,
                                        const ff_block_delete_options *options, const ff_random_key *key)
{
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    int64_t *kept = ff_msa_rows_all(ctx, msa->shape[0]);
    if (kept == NULL)
        return ctx->status;
    const int64_t num_seq = msa->shape[0], num_kept = ff_msa_rows_delete_blocks(kept, num_seq, options, key);
    ff_status status = FF_OK;
    for (int i = 0; i < NUM_ROW_ARRAYS && status == FF_OK; i++)
        status = split_rows(ctx, out, features, row_arrays[i], num_seq, kept, num_kept, num_kept, false);
    free(kept);
    return status;
}

ff_status ff_transform_crop_extra_msa(ff_ctx *ctx, ff_array_set *features, int64_t max_extra, const ff_random_key *key)
{
    const ff_array *msa = ff_array_need(ctx, features, "extra_msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const int64_t num_extra = msa->shape[0], kept = num_extra < max_extra ? num_extra : max_extra;
    int64_t *order = ff_msa_rows_all(ctx, num_extra);
    ff_status status = order == NULL ? ctx->status : FF_OK;
    if (status == FF_OK)
        ff_msa_rows_shuffle(order, num_extra, 0, key);
    for (int i = 0; i < NUM_ROW_ARRAYS && status == FF_OK; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "extra_%s", row_arrays[i]);
        ff_array *rows = ff_array_find(features, name);
        if (key == NULL && rows != NULL && rows->ndim > 0 && rows->shape[0] == num_extra && rows->type != FF_ARRAY_TEXT)
            ff_array_keep_rows(rows, kept); /* in place */
        else
            status = split_rows(ctx, features, features, name, num_extra, order, num_extra, kept, false);
    }
    free(order);
    return status;
}

/* ---- masking ---- */

/* A number below 2^32 that a uniform 32-bit word lies under with probability p. */
static uint64_t threshold(double p)
{
    return p <= 0 ? 0 : p >= 1 ? UINT64_C(1) << 32 : (uint64_t)(p * 4294967296.0);
}

/* The code a chosen place gets: `kind` chooses among the four ways, `which` a code. */
static int32_t replacement(const ff_masked_msa_options *o, int32_t code, const float *profile, uint32_t kind, uint32_t which)
{
    enum { RESIDUES = 20, PROFILE = 22 };
    const double u = kind / 4294967296.0;
    if (u < o->uniform_prob)
        return (int32_t)((uint64_t)which * RESIDUES >> 32);
    if (u < o->uniform_prob + o->profile_prob) {
        double sum = 0, at = 0;
        for (int c = 0; c < PROFILE; c++)
            sum += profile[c];
        for (int c = 0; c < PROFILE; c++) {
            at += profile[c];
            if (which / 4294967296.0 * sum < at)
                return c;
        }
        return code; /* an empty column */
    }
    return u < o->uniform_prob + o->profile_prob + o->same_prob ? code : FF_MSA_MASK;
}

ff_status ff_transform_make_masked_msa(ff_ctx *ctx, ff_array_set *features, const ff_masked_msa_options *options,
                                       const ff_random_key *key)
{
    ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const int64_t num_res = msa->shape[1];
    const uint64_t chosen_below = key == NULL ? 0 : threshold(options->replace_fraction);
    const ff_array *profile = NULL;
    if (chosen_below > 0 &&
        (profile = ff_array_need(ctx, features, "hhblits_profile", FF_ARRAY_FLOAT32, FF_DIMS(num_res, 22))) == NULL)
        return ctx->status;
    ff_array *bert_mask = ff_array_add(ctx, features, "bert_mask", FF_ARRAY_FLOAT32, 2, msa->shape);
    if (bert_mask == NULL || ff_array_copy(ctx, features, "true_msa", msa) == NULL)
        return ctx->status;
    for (int64_t at = 0; chosen_below > 0 && at < msa->size; at++) {
        uint32_t word[4];
        ff_random_block(*key, (uint64_t)at, word);
        if (word[0] >= chosen_below)
            continue;
        bert_mask->f32[at] = 1;
        msa->i32[at] = replacement(options, msa->i32[at], profile->f32 + at % num_res * 22, word[1], word[2]);
    }
    return FF_OK;
}

/* ---- features ---- */

ff_status ff_transform_make_target_feat(ff_ctx *ctx, ff_array_set *features)
{
    enum { WIDTH = 1 + FF_NUM_RESTYPES };
    const ff_array *aatype = ff_array_need(ctx, features, "aatype", FF_ARRAY_INT32, FF_DIMS(-1));
    if (aatype == NULL)
        return ctx->status;
    const int64_t n = aatype->size;
    const ff_array *between = ff_array_need(ctx, features, "between_segment_residues", FF_ARRAY_INT32, FF_DIMS(n));
    ff_array *feat = between == NULL ? NULL : ff_array_add(ctx, features, "target_feat", FF_ARRAY_FLOAT32, FF_DIMS(n, WIDTH));
    if (feat == NULL)
        return ctx->status;
    for (int64_t i = 0; i < n; i++) {
        feat->f32[i * WIDTH] = between->i32[i] > 0;
        if (aatype->i32[i] >= 0 && aatype->i32[i] < FF_NUM_RESTYPES)
            feat->f32[i * WIDTH + 1 + aatype->i32[i]] = 1;
    }
    return FF_OK;
}

static ff_status make_extra_deletions(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *d = ff_array_find(features, "extra_deletion_matrix");
    if (d == NULL)
        return FF_OK;
    ff_array *has = ff_array_add(ctx, features, "extra_has_deletion", FF_ARRAY_FLOAT32, d->ndim, d->shape);
    ff_array *value = ff_array_add(ctx, features, "extra_deletion_value", FF_ARRAY_FLOAT32, d->ndim, d->shape);
    if (has == NULL || value == NULL)
        return ctx->status;
    ff_deletion_row(has->f32, value->f32, d->f32, d->size);
    return FF_OK;
}

ff_status ff_transform_make_msa_feat(ff_ctx *ctx, ff_array_set *features)
{
    FF_TRY(ff_transform_make_target_feat(ctx, features));
    FF_TRY(make_extra_deletions(ctx, features));
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const int64_t s = msa->shape[0], n = msa->shape[1];
    const ff_array *deletions = ff_array_need(ctx, features, "deletion_matrix", FF_ARRAY_FLOAT32, FF_DIMS(s, n));
    const ff_array *profile = ff_array_need(ctx, features, "cluster_profile", FF_ARRAY_FLOAT32, FF_DIMS(s, n, FF_MSA_CODES));
    const ff_array *mean = ff_array_need(ctx, features, "cluster_deletion_mean", FF_ARRAY_FLOAT32, FF_DIMS(s, n));
    if (deletions == NULL || profile == NULL || mean == NULL)
        return ctx->status;
    ff_array *feat = ff_array_add(ctx, features, "msa_feat", FF_ARRAY_FLOAT32, FF_DIMS(s, n, FF_MSA_FEAT_WIDTH));
    if (feat == NULL)
        return ctx->status;
    ff_msa_feat_row(feat->f32, msa->i32, deletions->f32, profile->f32, mean->f32, s * n);
    return FF_OK;
}

ff_status ff_transform_make_extra_msa_feat(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *msa = ff_array_need(ctx, features, "extra_msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const ff_array *has = ff_array_need(ctx, features, "extra_has_deletion", FF_ARRAY_FLOAT32, 2, msa->shape);
    const ff_array *value = ff_array_need(ctx, features, "extra_deletion_value", FF_ARRAY_FLOAT32, 2, msa->shape);
    if (has == NULL || value == NULL)
        return ctx->status;
    ff_array *feat = ff_array_add(ctx, features, "extra_msa_feat", FF_ARRAY_FLOAT32,
                                  FF_DIMS(msa->shape[0], msa->shape[1], FF_EXTRA_MSA_FEAT_WIDTH));
    if (feat == NULL)
        return ctx->status;
    for (int64_t i = 0; i < msa->size; i++) {
        float *f = feat->f32 + i * FF_EXTRA_MSA_FEAT_WIDTH;
        if ((uint32_t)msa->i32[i] < FF_MSA_CODES)
            f[msa->i32[i]] = 1;
        f[FF_MSA_CODES] = has->f32[i];
        f[FF_MSA_CODES + 1] = value->f32[i];
    }
    return FF_OK;
}
