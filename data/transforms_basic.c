/* transforms_basic.c - what does not draw: types, codes, squeezing, masks, the profile, atom layouts, pseudo beta. */
#include <string.h>

#include "data/transforms.h"
#include "structure/residue_constants.h"

enum { HHBLITS_CODES = 22, GLYCINE = 7 };

/* Each sample gets 2^40 streams' worth of room: the step of a stream is the sample, mixed with the epoch; its operation counts
 * slices and draws. */
ff_random_key ff_sample_random(const ff_sample_key *sample, int64_t slice, ff_draw draw)
{
    const uint64_t step = ff_random_stream(sample->sample, sample->epoch);
    return (ff_random_key){sample->seed, ff_random_stream(step, (uint64_t)slice * FF_DRAW_COUNT + (uint64_t)draw)};
}

static double number_at(const ff_array *a, int64_t i)
{
    return a->type == FF_ARRAY_FLOAT32 ? a->f32[i] : a->type == FF_ARRAY_INT32 ? a->i32[i] : a->i8[i];
}

/* Rename and convert numbers. Deletions of 8 bits are counts 0..255. */
static ff_status convert(ff_ctx *ctx, ff_array_set *features, const char *from, const char *to, ff_array_type type)
{
    ff_array *a = ff_array_find(features, from);
    if (a == NULL || (a->type == type && strcmp(from, to) == 0))
        return FF_OK;
    if (a->type == FF_ARRAY_TEXT)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s holds text, wanted numbers", from);
    ff_array *b = ff_array_add(ctx, features, "converted number", type, a->ndim, a->shape);
    if (b == NULL)
        return ctx->status;
    for (int64_t i = 0; a->type == FF_ARRAY_INT32 && i < a->size; i++)
        b->f32[i] = (float)a->i32[i];
    for (int64_t i = 0; a->type == FF_ARRAY_INT8 && type == FF_ARRAY_FLOAT32 && i < a->size; i++)
        b->f32[i] = (uint8_t)a->i8[i];
    for (int64_t i = 0; a->type == FF_ARRAY_INT8 && type == FF_ARRAY_INT32 && i < a->size; i++)
        b->i32[i] = a->i8[i];
    for (int64_t i = 0; a->type == FF_ARRAY_FLOAT32 && type == FF_ARRAY_INT32 && i < a->size; i++)
        b->i32[i] = (int32_t)a->f32[i];
    for (int64_t i = 0; a->type == FF_ARRAY_FLOAT32 && type == FF_ARRAY_FLOAT32 && i < a->size; i++)
        b->f32[i] = a->f32[i];
    ff_array_remove(features, from);
    return ff_array_move(ctx, features, to, features, "converted number");
}

ff_status ff_transform_type_features(ff_ctx *ctx, ff_array_set *features)
{
    if (ff_array_find(features, "deletion_matrix_int") != NULL)
        FF_TRY(convert(ctx, features, "deletion_matrix_int", "deletion_matrix", FF_ARRAY_FLOAT32));
    FF_TRY(convert(ctx, features, "deletion_matrix", "deletion_matrix", FF_ARRAY_FLOAT32));
    return convert(ctx, features, "msa", "msa", FF_ARRAY_INT32);
}

/* The column that HHblits column i becomes. */
static ff_status permute_profile(ff_ctx *ctx, ff_array *profile)
{
    const int64_t width = profile->ndim > 0 ? profile->shape[profile->ndim - 1] : 0;
    if (profile->type != FF_ARRAY_FLOAT32 || width < 20 || width > HHBLITS_CODES)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s has rows of %lld, wanted 20 to 22 frequencies", profile->name,
                       (long long)width);
    for (int64_t row = 0; row < profile->size / width; row++) {
        float old[HHBLITS_CODES], *p = profile->f32 + row * width;
        memcpy(old, p, (size_t)width * sizeof *p);
        for (int64_t i = 0; i < width; i++)
            p[ff_hhblits_to_aatype[i]] = old[i];
    }
    return FF_OK;
}

ff_status ff_transform_correct_msa_restypes(ff_ctx *ctx, ff_array_set *features)
{
    ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, -1, NULL);
    if (msa == NULL)
        return ctx->status;
    int32_t map[32] = {0}; /* a power of two: wrong codes, found below, read inside */
    uint32_t highest = 0;
    for (int i = 0; i < HHBLITS_CODES; i++)
        map[i] = ff_hhblits_to_aatype[i];
    for (int64_t i = 0; i < msa->size; i++)
        highest = (uint32_t)msa->i32[i] > highest ? (uint32_t)msa->i32[i] : highest;
    if (highest >= HHBLITS_CODES) {
        int64_t at = 0, num_res = msa->ndim > 1 && msa->shape[1] > 0 ? msa->shape[1] : 1;
        while ((uint32_t)msa->i32[at] < HHBLITS_CODES)
            at++;
        return FF_FAIL(ctx, FF_ERR_FORMAT, "msa row %lld, residue %lld: code %d, wanted 0 to 21", (long long)(at / num_res),
                       (long long)(at % num_res), msa->i32[at]);
    }
    for (int64_t i = 0; i < msa->size; i++)
        msa->i32[i] = map[msa->i32[i] & 31];
    for (int64_t i = 0; i < features->count; i++)
        if (strstr(features->items[i]->name, "profile") != NULL)
            FF_TRY(permute_profile(ctx, features->items[i]));
    return FF_OK;
}

/* The place of the largest of n numbers; the first of equals. */
static int32_t largest(const float *x, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = (int32_t)i;
    return best;
}

static ff_status one_hot_to_aatype(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *hot = ff_array_find(features, "aatype");
    if (hot == NULL || hot->ndim == 1)
        return FF_OK;
    if (hot->type == FF_ARRAY_TEXT || hot->ndim != 2 || hot->shape[1] < 20 || hot->shape[1] > FF_NUM_RESTYPES)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array aatype is not one-hot [num_res, 21]");
    ff_array *codes = ff_array_add(ctx, features, "aatype codes", FF_ARRAY_INT32, 1, hot->shape);
    if (codes == NULL)
        return ctx->status;
    const int64_t width = hot->shape[1];
    for (int64_t i = 0; i < hot->shape[0]; i++) {
        float row[FF_NUM_RESTYPES];
        for (int64_t c = 0; c < width; c++)
            row[c] = (float)number_at(hot, i * width + c);
        codes->i32[i] = largest(row, width);
    }
    return ff_array_move(ctx, features, "aatype", features, "aatype codes");
}

ff_status ff_transform_squeeze_features(ff_ctx *ctx, ff_array_set *features)
{
    /* Axes after squeezing: AlphaFold drops a last axis of 1 whatever it is, which would take the residues of a chain of one. */
    static const struct {
        const char *name;
        int ndim;
    } squeezed[] = {{"msa", 2}, {"deletion_matrix", 2}, {"between_segment_residues", 1}, {"residue_index", 1},
                    {"num_alignments", 1}, {"seq_length", 1}, {"template_all_atom_masks", 3}};
    static const char *const single[] = {"num_alignments", "seq_length", "resolution", "is_distillation",
                                         "use_clamped_fape"};
    FF_TRY(one_hot_to_aatype(ctx, features));
    for (size_t i = 0; i < sizeof squeezed / sizeof *squeezed; i++) {
        ff_array *a = ff_array_find(features, squeezed[i].name);
        while (a != NULL && a->ndim > squeezed[i].ndim && a->shape[a->ndim - 1] == 1)
            a->ndim--;
    }
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        ff_array *a = ff_array_find(features, single[i]);
        if (a == NULL || a->ndim == 0)
            continue;
        if (a->size < 1 || a->type == FF_ARRAY_TEXT)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s has no number", single[i]);
        a->ndim = 0;
        a->size = 1;
    }
    return FF_OK;
}

/* ---- masks and profile ---- */

static ff_array *add_ones(ff_ctx *ctx, ff_array_set *features, const char *name, int ndim, const int64_t *shape)
{
    ff_array *a = ff_array_add(ctx, features, name, FF_ARRAY_FLOAT32, ndim, shape);
    for (int64_t i = 0; a != NULL && i < a->size; i++)
        a->f32[i] = 1;
    return a;
}

ff_status ff_transform_make_seq_mask(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *aatype = ff_array_need(ctx, features, "aatype", FF_ARRAY_INT32, FF_DIMS(-1));
    return aatype != NULL && add_ones(ctx, features, "seq_mask", 1, aatype->shape) != NULL ? FF_OK : ctx->status;
}

ff_status ff_transform_make_msa_mask(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    return msa != NULL && add_ones(ctx, features, "msa_mask", 2, msa->shape) != NULL &&
                   add_ones(ctx, features, "msa_row_mask", 1, msa->shape) != NULL
               ? FF_OK
               : ctx->status;
}

ff_status ff_transform_make_hhblits_profile(ff_ctx *ctx, ff_array_set *features)
{
    if (ff_array_find(features, "hhblits_profile") != NULL)
        return FF_OK;
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    if (msa == NULL)
        return ctx->status;
    const int64_t num_seq = msa->shape[0], num_res = msa->shape[1];
    ff_array *profile = ff_array_add(ctx, features, "hhblits_profile", FF_ARRAY_FLOAT32, FF_DIMS(num_res, HHBLITS_CODES));
    if (profile == NULL)
        return ctx->status;
    for (int64_t s = 0; s < num_seq; s++) /* counts up to 2^24 are exact */
        for (int64_t i = 0; i < num_res; i++) {
            const uint32_t code = (uint32_t)msa->i32[s * num_res + i];
            if (code < HHBLITS_CODES)
                profile->f32[i * HHBLITS_CODES + code] += 1;
        }
    for (int64_t i = 0; i < profile->size; i++)
        profile->f32[i] /= (float)(num_seq > 0 ? num_seq : 1);
    return FF_OK;
}

/* ---- templates ---- */

ff_status ff_transform_fix_templates_aatype(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *hot =
        ff_array_need(ctx, features, "template_aatype", FF_ARRAY_FLOAT32, FF_DIMS(-1, -1, HHBLITS_CODES));
    if (hot == NULL)
        return ctx->status;
    ff_array *codes = ff_array_add(ctx, features, "template codes", FF_ARRAY_INT32, 2, hot->shape);
    if (codes == NULL)
        return ctx->status;
    for (int64_t i = 0; i < codes->size; i++)
        codes->i32[i] = ff_hhblits_to_aatype[largest(hot->f32 + i * HHBLITS_CODES, HHBLITS_CODES)];
    return ff_array_move(ctx, features, "template_aatype", features, "template codes");
}

ff_status ff_transform_make_template_mask(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *aatype = ff_array_find(features, "template_aatype");
    if (aatype == NULL || aatype->ndim < 1)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array template_aatype is missing");
    return add_ones(ctx, features, "template_mask", 1, aatype->shape) != NULL ? FF_OK : ctx->status;
}

ff_status ff_transform_make_pseudo_beta(ff_ctx *ctx, ff_array_set *features, const char *prefix)
{
    char name[5][64];
    const bool templates = prefix[0] != '\0';
    const char *const suffix[5] = {"aatype", "all_atom_positions", templates ? "all_atom_masks" : "all_atom_mask",
                                   "pseudo_beta", "pseudo_beta_mask"};
    for (int i = 0; i < 5; i++)
        snprintf(name[i], sizeof name[i], "%s%s", prefix, suffix[i]);
    const ff_array *aatype = ff_array_need(ctx, features, name[0], FF_ARRAY_INT32, -1, NULL);
    if (aatype == NULL)
        return ctx->status;
    const int lead = aatype->ndim;
    int64_t shape[FF_HDF5_MAX_DIMS];
    memcpy(shape, aatype->shape, sizeof shape);
    shape[lead] = FF_NUM_ATOM37;
    shape[lead + 1] = 3;
    const ff_array *positions = ff_array_need(ctx, features, name[1], FF_ARRAY_FLOAT32, lead + 2, shape);
    const ff_array *mask = ff_array_need(ctx, features, name[2], FF_ARRAY_FLOAT32, lead + 1, shape);
    if (positions == NULL || mask == NULL)
        return ctx->status;
    shape[lead] = 3;
    ff_array *beta = ff_array_add(ctx, features, name[3], FF_ARRAY_FLOAT32, lead + 1, shape);
    ff_array *beta_mask = ff_array_add(ctx, features, name[4], FF_ARRAY_FLOAT32, lead, shape);
    if (beta == NULL || beta_mask == NULL)
        return ctx->status;
    for (int64_t i = 0; i < aatype->size; i++) {
        const int64_t atom = i * FF_NUM_ATOM37 + (aatype->i32[i] == GLYCINE ? FF_ATOM_CA : FF_ATOM_CB);
        memcpy(beta->f32 + i * 3, positions->f32 + atom * 3, 3 * sizeof(float));
        beta_mask->f32[i] = mask->f32[atom];
    }
    return FF_OK;
}

/* ---- atoms ---- */

ff_status ff_transform_make_atom14_masks(ff_ctx *ctx, ff_array_set *features)
{
    const ff_array *aatype = ff_array_need(ctx, features, "aatype", FF_ARRAY_INT32, FF_DIMS(-1));
    if (aatype == NULL)
        return ctx->status;
    const int64_t n = aatype->size;
    ff_array *exists14 = ff_array_add(ctx, features, "atom14_atom_exists", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM14));
    ff_array *to37 = ff_array_add(ctx, features, "residx_atom14_to_atom37", FF_ARRAY_INT32, FF_DIMS(n, FF_NUM_ATOM14));
    ff_array *to14 = ff_array_add(ctx, features, "residx_atom37_to_atom14", FF_ARRAY_INT32, FF_DIMS(n, FF_NUM_ATOM37));
    ff_array *exists37 = ff_array_add(ctx, features, "atom37_atom_exists", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37));
    if (exists14 == NULL || to37 == NULL || to14 == NULL || exists37 == NULL)
        return ctx->status;
    for (int64_t i = 0; i < n; i++) {
        const int32_t a = aatype->i32[i];
        if (a < 0 || a > FF_AATYPE_X)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "aatype of residue %lld is %d, wanted 0 to 20", (long long)i, a);
        memcpy(exists14->f32 + i * FF_NUM_ATOM14, ff_restype_atom14_mask[a], sizeof ff_restype_atom14_mask[a]);
        memcpy(exists37->f32 + i * FF_NUM_ATOM37, ff_restype_atom37_mask[a], sizeof ff_restype_atom37_mask[a]);
        for (int k = 0; k < FF_NUM_ATOM14; k++)
            to37->i32[i * FF_NUM_ATOM14 + k] = ff_restype_atom14_to_atom37[a][k];
        for (int k = 0; k < FF_NUM_ATOM37; k++)
            to14->i32[i * FF_NUM_ATOM37 + k] = ff_restype_atom37_to_atom14[a][k];
    }
    return FF_OK;
}
