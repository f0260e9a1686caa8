/* transforms_msa.c - which rows of the MSA are read, what is hidden in them, and the features made of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/transforms.h"
#include "structure/residue_constants.h"

/* Arrays with a row of the MSA on axis 0; after sampling the rest is in "extra_" arrays. */
static const char *const row_arrays[] = {"msa", "deletion_matrix", "msa_mask", "msa_row_mask", "bert_mask", "true_msa"};
enum { NUM_ROW_ARRAYS = sizeof row_arrays / sizeof *row_arrays, NAME_BYTES = 64 };

/* Numbers 0..n-1; those from `from` on in random order (Fisher and Yates) when there is a key. The caller frees. */
static int64_t *row_order(ff_ctx *ctx, int64_t n, int64_t from, const ff_random_key *key)
{
    int64_t *rows = malloc((size_t)(n > 0 ? n : 1) * sizeof *rows);
    if (rows == NULL) {
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for an order of %lld rows", (long long)n);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        rows[i] = i;
    for (int64_t i = n - 1; key != NULL && i > from; i--) {
        const int64_t j = from + (int64_t)ff_random_below(*key, (uint64_t)i, (uint64_t)(i - from + 1));
        const int64_t swap = rows[i];
        rows[i] = rows[j];
        rows[j] = swap;
    }
    return rows;
}

/* The rows of array `name` in `order` go to `out`: the first num_kept under its name, the others (if extra) under extra_NAME. */
static ff_status split_rows(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features, const char *name,
                            const int64_t *order, int64_t num_rows, int64_t num_kept, bool extra)
{
    char text[NAME_BYTES + 8];
    const ff_array *a = ff_array_find(features, name);
    if (a == NULL)
        return FF_OK;
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
    int64_t *order = row_order(ctx, num_seq, 1, key);
    ff_status status = order == NULL ? ctx->status : FF_OK;
    for (int i = 0; i < NUM_ROW_ARRAYS && status == FF_OK; i++)
        status = split_rows(ctx, out, features, row_arrays[i], order, num_seq, kept, true);
    free(order);
    return status;
}

ff_status ff_transform_block_delete_msa(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features,
                                        const ff_block_delete_options *options, const ff_random_key *key)
{
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    /* in float32, as OpenFold rounds it */
    const int64_t num_seq = msa->shape[0],
                  block = (int64_t)floorf((float)num_seq * (float)options->fraction_per_block);
    int64_t num_blocks = options->num_blocks, num_kept = 0;
    int64_t *kept = row_order(ctx, num_seq, 0, NULL);
    bool *deleted = calloc((size_t)(num_seq > 0 ? num_seq : 1), sizeof *deleted);
    ff_status status = FF_OK;
    if (kept == NULL || deleted == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld MSA rows", (long long)num_seq));
    if (key == NULL || block < 1 || num_seq < 2)
        num_blocks = 0;
    else if (options->randomize_num_blocks)
        num_blocks = (int64_t)ff_random_below(*key, 0, (uint64_t)num_blocks + 1);
    for (int64_t b = 0; b < num_blocks; b++) {
        const int64_t start = 1 + (int64_t)ff_random_below(*key, (uint64_t)b + 1, (uint64_t)num_seq - 1);
        for (int64_t s = start; s < num_seq && s < start + block; s++)
            deleted[s] = true;
    }
    for (int64_t s = 0; s < num_seq; s++)
        if (!deleted[s])
            kept[num_kept++] = s;
    for (int i = 0; i < NUM_ROW_ARRAYS && status == FF_OK; i++)
        status = split_rows(ctx, out, features, row_arrays[i], kept, num_kept, num_kept, false);
done:
    free(kept);
    free(deleted);
    return status;
}

ff_status ff_transform_crop_extra_msa(ff_ctx *ctx, ff_array_set *features, int64_t max_extra, const ff_random_key *key)
{
    const ff_array *msa = ff_array_need(ctx, features, "extra_msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const int64_t num_extra = msa->shape[0], kept = num_extra < max_extra ? num_extra : max_extra;
    int64_t *order = row_order(ctx, num_extra, 0, key);
    ff_status status = order == NULL ? ctx->status : FF_OK;
    for (int i = 0; i < NUM_ROW_ARRAYS && status == FF_OK; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "extra_%s", row_arrays[i]);
        if (key != NULL)
            status = split_rows(ctx, features, features, name, order, num_extra, kept, false);
        else if (ff_array_find(features, name) != NULL)
            ff_array_keep_rows(ff_array_find(features, name), kept);
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

static float deletion_value(float d)
{
    return d == 0 ? 0 : atanf(d / 3) * (float)(2 / 3.14159265358979323846);
}

static float has_deletion(float d) { return d < 0 ? 0 : d > 1 ? 1 : d; }

static ff_status make_target_feat(ff_ctx *ctx, ff_array_set *features)
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
        feat->f32[i * WIDTH] = has_deletion((float)between->i32[i]);
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
    for (int64_t i = 0; i < d->size; i++)
        if (d->f32[i] != 0) { /* few are; the arrays are zero */
            has->f32[i] = has_deletion(d->f32[i]);
            value->f32[i] = deletion_value(d->f32[i]);
        }
    return FF_OK;
}

ff_status ff_transform_make_msa_feat(ff_ctx *ctx, ff_array_set *features)
{
    FF_TRY(make_target_feat(ctx, features));
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
    for (int64_t i = 0; i < s * n; i++) {
        float *f = feat->f32 + i * FF_MSA_FEAT_WIDTH;
        if ((uint32_t)msa->i32[i] < FF_MSA_CODES)
            f[msa->i32[i]] = 1;
        f[FF_MSA_CODES] = has_deletion(deletions->f32[i]);
        f[FF_MSA_CODES + 1] = deletion_value(deletions->f32[i]);
        memcpy(f + FF_MSA_CODES + 2, profile->f32 + i * FF_MSA_CODES, FF_MSA_CODES * sizeof *f);
        f[FF_MSA_FEAT_WIDTH - 1] = deletion_value(mean->f32[i]);
    }
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
