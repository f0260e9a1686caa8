#include "data/process.h"

#include <stdio.h>
#include <string.h>

#include "data/process_slices.h"

/* ---- options ---- */

static const ff_data_preset presets[] = {
    {"model_1", 512, 5120, 4, true, 3, 0, false},     {"model_2", 512, 1024, 4, true, 3, 0, false},
    {"model_3", 512, 5120, 0, false, 3, 0, false},    {"model_4", 512, 5120, 0, false, 3, 0, false},
    {"model_5", 512, 1024, 0, false, 3, 0, false},    {"model_1_ptm", 512, 5120, 4, true, 3, 0, false},
    {"model_2_ptm", 512, 1024, 4, true, 3, 0, false}, {"model_3_ptm", 512, 5120, 0, false, 3, 0, false},
    {"model_4_ptm", 512, 5120, 0, false, 3, 0, false}, {"model_5_ptm", 512, 1024, 0, false, 3, 0, false},
    {"small", 128, 512, 4, false, 3, 0, false},       {"tiny", 32, 64, 2, false, 1, 0, false},
    {"initial", 128, 1024, 4, false, 3, 256, true},   {"finetune", 512, 5120, 4, false, 3, 384, true},
    {NULL, 0, 0, 0, false, 0, 0, false}};

const ff_data_preset *ff_data_presets(void) { return presets; }

ff_status ff_process_options_preset(ff_ctx *ctx, ff_process_options *options, const char *preset)
{
    const ff_data_preset *p = presets;
    while (p->name != NULL && strcmp(p->name, preset) != 0)
        p++;
    if (p->name == NULL) {
        char names[256];
        size_t at = 0;
        for (p = presets; p->name != NULL && at < sizeof names; p++)
            at += (size_t)snprintf(names + at, sizeof names - at, " %s", p->name);
        return FF_FAIL(ctx, FF_ERR_ARG, "there is no data preset %s; there are%s", preset, names);
    }
    *options = (ff_process_options){
        .num_seq = p->num_seq,
        .num_extra = p->num_extra,
        .max_templates = p->max_templates,
        .reduce_msa_clusters_by_max_templates = p->reduce_msa_clusters_by_max_templates,
        .num_recycle = p->num_recycle,
        .num_ensemble = 1,
        .crop_size = p->crop_size,
        .crop_start = -1,
        .crop_form = FF_CROP_OPENFOLD,
        .pad = true,
        .random = true,
        .masked_msa = {.replace_fraction = 0.15, .uniform_prob = 0.1, .profile_prob = 0.1, .same_prob = 0.1},
        .training = p->training,
        .block_delete = {.fraction_per_block = 0.3, .num_blocks = 5},
        .clamp_prob = 0.9,
    };
    return FF_OK;
}

static ff_status check_options(ff_ctx *ctx, const ff_process_options *o)
{
    const double p = o->masked_msa.uniform_prob + o->masked_msa.profile_prob + o->masked_msa.same_prob;
    if (o->num_seq < 1 || o->num_extra < 0 || o->max_templates < 0 || o->num_recycle < 0 || o->num_ensemble < 1 ||
        o->crop_size < 0 || o->crop_start < -1)
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "num_seq %lld, num_extra %lld, max_templates %lld, num_recycle %lld, num_ensemble %lld, crop_size %lld, "
                       "crop_start %lld: wanted at least 1, 0, 0, 0, 1, 0, -1",
                       (long long)o->num_seq, (long long)o->num_extra, (long long)o->max_templates,
                       (long long)o->num_recycle, (long long)o->num_ensemble, (long long)o->crop_size,
                       (long long)o->crop_start);
    if (o->reduce_msa_clusters_by_max_templates && o->max_templates >= o->num_seq)
        return FF_FAIL(ctx, FF_ERR_ARG, "%lld templates leave no MSA row of %lld", (long long)o->max_templates,
                       (long long)o->num_seq);
    if (!(o->masked_msa.replace_fraction >= 0 && o->masked_msa.replace_fraction <= 1 && p >= 0 && p <= 1 + 1e-9))
        return FF_FAIL(ctx, FF_ERR_ARG, "probabilities of MSA masking do not lie in 0..1");
    return FF_OK;
}

/* ---- the chain: what all slices share ---- */

/* Raw arrays that the pipeline or the labels read. */
static ff_status copy_raw(ff_ctx *ctx, ff_array_set *features, const ff_array_set *raw, bool templates)
{
    static const char *const read[] = {"aatype", "between_segment_residues", "deletion_matrix", "deletion_matrix_int", "msa",
                                       "num_alignments", "residue_index", "seq_length"};
    for (int64_t i = 0; i < raw->count; i++) {
        const ff_array *a = raw->items[i];
        const ff_feature_info *info = ff_feature_find(a->name);
        /* labels and templates; features of MSA rows are made here, whatever the file has under their names */
        bool wanted = a->type != FF_ARRAY_TEXT && info != NULL && info->axes[0] != FF_AXIS_MSA && info->axes[0] != FF_AXIS_EXTRA;
        for (size_t k = 0; !wanted && k < sizeof read / sizeof *read; k++)
            wanted = strcmp(a->name, read[k]) == 0;
        if (!wanted || (!templates && strncmp(a->name, "template_", 9) == 0))
            continue;
        if (ff_array_copy(ctx, features, a->name, a) == NULL)
            return ctx->status;
    }
    return FF_OK;
}

/* Template arrays of no templates, for a chain that has none. */
static ff_status add_no_templates(ff_ctx *ctx, ff_array_set *features, int64_t num_res)
{
    return ff_array_add(ctx, features, "template_aatype", FF_ARRAY_FLOAT32, FF_DIMS(0, num_res, 22)) != NULL &&
                   ff_array_add(ctx, features, "template_all_atom_positions", FF_ARRAY_FLOAT32,
                                FF_DIMS(0, num_res, 37, 3)) != NULL &&
                   ff_array_add(ctx, features, "template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(0, num_res, 37)) != NULL &&
                   ff_array_add(ctx, features, "template_sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(0, 1)) != NULL
               ? FF_OK
               : ctx->status;
}

static ff_status make_templates(ff_ctx *ctx, ff_array_set *features, int64_t num_res)
{
    if (ff_array_find(features, "template_aatype") == NULL)
        FF_TRY(add_no_templates(ctx, features, num_res));
    FF_TRY(ff_transform_fix_templates_aatype(ctx, features));
    const ff_array *aatype = ff_array_need(ctx, features, "template_aatype", FF_ARRAY_INT32, FF_DIMS(-1, num_res));
    if (aatype == NULL)
        return ctx->status;
    if (ff_array_find(features, "template_sum_probs") == NULL &&
        ff_array_add(ctx, features, "template_sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(aatype->shape[0], 1)) == NULL)
        return ctx->status;
    FF_TRY(ff_transform_make_template_mask(ctx, features));
    return ff_transform_make_pseudo_beta(ctx, features, "template_");
}

/* use_clamped_fape, drawn for a training sample that does not come with it. */
static ff_status draw_clamp(ff_ctx *ctx, ff_array_set *features, const ff_process_options *o)
{
    if (!o->training || ff_array_find(features, "use_clamped_fape") != NULL)
        return FF_OK;
    ff_array *clamp = ff_array_add(ctx, features, "use_clamped_fape", FF_ARRAY_FLOAT32, 0, NULL);
    if (clamp == NULL)
        return ctx->status;
    clamp->f32[0] =
        !o->random || ff_random_uniform(ff_sample_random(&o->key, 0, FF_DRAW_CLAMP), 0) < (float)o->clamp_prob ? 1 : 0;
    return FF_OK;
}

static ff_status check_lengths(ff_ctx *ctx, const ff_array_set *features)
{
    const ff_array *aatype = ff_array_need(ctx, features, "aatype", FF_ARRAY_INT32, FF_DIMS(-1));
    if (aatype == NULL)
        return ctx->status;
    const int64_t n = aatype->size;
    if (n < 1)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "the chain has no residues");
    const ff_array *msa = ff_array_need(ctx, features, "msa", FF_ARRAY_INT32, FF_DIMS(-1, n));
    if (msa == NULL || ff_array_need(ctx, features, "deletion_matrix", FF_ARRAY_FLOAT32, FF_DIMS(msa->shape[0], n)) == NULL ||
        ff_array_need(ctx, features, "residue_index", FF_ARRAY_INT32, FF_DIMS(n)) == NULL ||
        ff_array_need(ctx, features, "between_segment_residues", FF_ARRAY_INT32, FF_DIMS(n)) == NULL)
        return ctx->status;
    if (msa->shape[0] < 1)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "the MSA has no rows; its first row is the query");
    return FF_OK;
}

/* AlphaFold's nonensembled transforms. */
static ff_status make_chain(ff_ctx *ctx, ff_array_set *features, const ff_array_set *raw, const ff_process_options *o)
{
    FF_TRY(copy_raw(ctx, features, raw, o->max_templates > 0));
    FF_TRY(ff_transform_type_features(ctx, features));
    FF_TRY(ff_transform_correct_msa_restypes(ctx, features));
    FF_TRY(ff_transform_squeeze_features(ctx, features));
    FF_TRY(check_lengths(ctx, features));
    const int64_t num_res = ff_array_find(features, "aatype")->size;
    ff_array *seq_length = ff_array_add(ctx, features, "seq_length", FF_ARRAY_INT32, 0, NULL);
    if (seq_length == NULL)
        return ctx->status;
    seq_length->i32[0] = (int32_t)num_res;
    FF_TRY(ff_transform_make_seq_mask(ctx, features));
    FF_TRY(ff_transform_make_hhblits_profile(ctx, features));
    if (o->max_templates > 0)
        FF_TRY(make_templates(ctx, features, num_res));
    FF_TRY(ff_transform_make_atom14_masks(ctx, features));
    FF_TRY(ff_transform_make_target_feat(ctx, features));
    FF_TRY(draw_clamp(ctx, features, o));
    return o->labels == NULL ? FF_OK : o->labels(ctx, o->labels_arg, features);
}

/* ---- the plan of the slices ---- */

static void make_plan(ff_slice_plan *p, const ff_process_options *o, const ff_array_set *chain)
{
    ff_random_key key;
    const ff_array *clamp = ff_array_find(chain, "use_clamped_fape"), *templates = ff_array_find(chain, "template_aatype");
    const int64_t num_res = ff_array_find(chain, "aatype")->size, rows = ff_array_find(chain, "msa")->shape[0];
    const bool clamped = clamp == NULL || clamp->type != FF_ARRAY_FLOAT32 || clamp->f32[0] != 0;
    *p = (ff_slice_plan){.options = o, .chain = chain, .num_slices = o->num_ensemble * (o->num_recycle + 1)};
    p->num_seq = o->num_seq - (o->reduce_msa_clusters_by_max_templates ? o->max_templates : 0);
    if (o->crop_size > 0)
        p->crop_start = o->crop_start >= 0 ? o->crop_start
                                           : ff_transform_draw_crop_start(num_res, o->crop_size, o->crop_form, clamped,
                                                                          ff_process_draw(&key, o, 0, FF_DRAW_CROP));
    int64_t *length = p->sizes.length;
    length[FF_AXIS_NONE] = -1;
    length[FF_AXIS_RES] = o->crop_size > 0 ? o->crop_size : num_res;
    length[FF_AXIS_MSA] = p->num_seq;
    length[FF_AXIS_EXTRA] = o->num_extra;
    length[FF_AXIS_TEMPLATE] = o->max_templates;
    if (!o->pad && !o->training) { /* every slice then has as many rows */
        const int64_t seq = rows < p->num_seq ? rows : p->num_seq, num_templates = templates == NULL ? 0 : templates->shape[0];
        length[FF_AXIS_MSA] = seq;
        length[FF_AXIS_EXTRA] = rows - seq < o->num_extra ? rows - seq : o->num_extra;
        length[FF_AXIS_TEMPLATE] = num_templates < o->max_templates ? num_templates : o->max_templates;
    }
}

/* What is the same in every slice. */
static ff_status stack_chain(ff_ctx *ctx, ff_array_set *batch, ff_array_set *chain, const ff_slice_plan *p)
{
    ff_random_key key;
    FF_TRY(ff_transform_select_features(ctx, chain));
    FF_TRY(ff_transform_sample_templates(ctx, chain, p->options->max_templates,
                                         p->options->training ? ff_process_draw(&key, p->options, 0, FF_DRAW_TEMPLATES) : NULL));
    FF_TRY(ff_transform_crop(ctx, chain, p->sizes.length[FF_AXIS_RES], p->crop_start));
    for (int64_t i = 0; i < p->num_slices; i++)
        FF_TRY(ff_transform_stack_slice(ctx, batch, chain, i, p->num_slices, &p->sizes));
    return FF_OK;
}

ff_status ff_process_features(ff_ctx *ctx, ff_array_set *batch, const ff_array_set *raw, const ff_process_options *options)
{
    ff_status status = FF_OK;
    ff_array_set chain;
    ff_slice_plan plan;
    ff_array_set_init(&chain);
    FF_TRY_DONE(check_options(ctx, options));
    FF_TRY_DONE(make_chain(ctx, &chain, raw, options));
    make_plan(&plan, options, &chain);
    FF_TRY_DONE(ff_process_slices(ctx, batch, &plan));
    FF_TRY_DONE(stack_chain(ctx, batch, &chain, &plan));
done:
    ff_array_set_destroy(&chain);
    return status;
}
