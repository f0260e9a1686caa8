/* Contents: layers; one slice of the batch; ensembles; recycling; forward. */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evoformer/primitives.h"
#include "evoformer/shards.h"
#include "structure/residue_constants.h"

/* ---- layers ---- */

/* Structure module and heads: declared or bound. */
static ff_status bind_rest(const ff_binder *top, const ff_model_config *config, ff_structure_module *structure_module,
                           ff_heads *heads)
{
    const ff_binder structure = ff_binder_enter(top, "structure_module");
    FF_TRY(ff_structure_module_bind(&structure, &config->structure, structure_module));
    return ff_heads_bind(top, &config->heads, heads);
}

ff_status ff_model_declare(ff_ctx *ctx, const ff_model_config *config, ff_parameters *parameters)
{
    ff_structure_module structure_module;
    ff_heads heads;
    FF_TRY(ff_evoformer_declare(ctx, parameters, "evoformer", &config->evoformer));
    const ff_binder top = ff_binder_at(ctx, parameters, true, "");
    return bind_rest(&top, config, &structure_module, &heads);
}

ff_status ff_model_bind(ff_ctx *ctx, ff_model *model, const ff_model_config *config, ff_parameters *parameters,
                        const char *scope)
{
    const ff_binder top = ff_binder_at(ctx, parameters, false, scope), trunk = ff_binder_enter(&top, "evoformer");
    model->config = *config;
    FF_TRY(ff_evoformer_bind(ctx, parameters, trunk.scope, &config->evoformer, &model->evoformer));
    return bind_rest(&top, config, &model->structure_module, &model->heads);
}

ff_status ff_model_create(ff_ctx *ctx, ff_model *model, const ff_model_config *config, bool with_grads)
{
    memset(model, 0, sizeof *model);
    ff_parameters_init(&model->parameters);
    FF_TRY(ff_model_declare(ctx, config, &model->parameters));
    FF_TRY(ff_parameters_allocate(ctx, &model->parameters, with_grads));
    return ff_model_bind(ctx, model, config, &model->parameters, "");
}

void ff_model_destroy(ff_model *model)
{
    ff_evoformer_destroy(&model->evoformer);
    ff_parameters_destroy(&model->parameters);
    memset(model, 0, sizeof *model);
}

/* ---- one slice of the batch ---- */

enum { SLICE_TENSORS = 7 };

/* What the trunk reads of one slice. The views live as long as the batch; the tensors until slice_release. */
typedef struct {
    ff_evoformer_features features;
    const float *atom37_atom_exists; /* [num_res, 37]; 0 where the batch is padded */
    ff_template templates[FF_MODEL_MAX_TEMPLATES];
} slice;

/* The batch's sizes, from its own arrays. */
typedef struct {
    int64_t num_slices, num_res, num_seq, num_extra_seq, num_templ;
} batch_sizes;

static ff_status get_sizes(ff_ctx *ctx, const ff_model_config *config, const ff_array_set *batch, batch_sizes *n)
{
    const ff_array *msa = ff_array_need(ctx, batch, "msa_feat", FF_ARRAY_FLOAT32, FF_DIMS(-1, -1, -1, FF_MSA_FEAT));
    const ff_array *extra = ff_array_need(ctx, batch, "extra_msa", FF_ARRAY_INT32, FF_DIMS(-1, -1, -1));
    if (msa == NULL || extra == NULL)
        return ctx->status;
    *n = (batch_sizes){msa->shape[0], msa->shape[2], msa->shape[1], extra->shape[1], 0};
    const ff_array *templates = ff_array_find(batch, "template_aatype");
    if (config->evoformer.template_enabled && templates != NULL && templates->ndim == 3)
        n->num_templ = templates->shape[1];
    if (n->num_res < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "the batch has no residues");
    if (n->num_templ > FF_MODEL_MAX_TEMPLATES)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%lld templates; at most %d are offered", (long long)n->num_templ,
                       FF_MODEL_MAX_TEMPLATES);
    return FF_OK;
}

/* Where slice `index` of an array begins; the array must have this shape below the leading axis. */
static void *slice_data(ff_ctx *ctx, const ff_array_set *batch, const char *name, ff_array_type type, int64_t num_slices,
                        int64_t index, int ndim, const int64_t *shape)
{
    int64_t whole[FF_HDF5_MAX_DIMS] = {num_slices}, size = 1;
    for (int i = 0; i < ndim; i++) {
        whole[i + 1] = shape[i];
        size *= shape[i];
    }
    const ff_array *a = ctx->status == FF_OK ? ff_array_need(ctx, batch, name, type, ndim + 1, whole) : NULL;
    return a == NULL ? NULL : (void *)((char *)a->data + (size_t)(index * size) * ff_array_type_bytes(type));
}

static ff_tensor *slice_view(ff_ctx *ctx, const ff_array_set *batch, const char *name, int64_t num_slices, int64_t index,
                             int ndim, const int64_t *shape)
{
    float *data = slice_data(ctx, batch, name, FF_ARRAY_FLOAT32, num_slices, index, ndim, shape);
    return data == NULL ? NULL : ff_tensor_view(ctx, data, ndim, shape);
}

static void slice_templates(ff_ctx *ctx, slice *s, const ff_array_set *batch, const batch_sizes *n, int64_t index,
                            bool placeholder)
{
    const int64_t num_res = n->num_res;
    if (n->num_templ == 0)
        return;
    const int32_t *aatype = slice_data(ctx, batch, "template_aatype", FF_ARRAY_INT32, n->num_slices, index,
                                       FF_DIMS(n->num_templ, num_res));
    const float *positions = slice_data(ctx, batch, "template_all_atom_positions", FF_ARRAY_FLOAT32, n->num_slices, index,
                                        FF_DIMS(n->num_templ, num_res, 37, 3));
    const float *atom_mask = slice_data(ctx, batch, "template_all_atom_masks", FF_ARRAY_FLOAT32, n->num_slices, index,
                                        FF_DIMS(n->num_templ, num_res, 37));
    const float *beta = slice_data(ctx, batch, "template_pseudo_beta", FF_ARRAY_FLOAT32, n->num_slices, index,
                                   FF_DIMS(n->num_templ, num_res, 3));
    const float *beta_mask = slice_data(ctx, batch, "template_pseudo_beta_mask", FF_ARRAY_FLOAT32, n->num_slices, index,
                                        FF_DIMS(n->num_templ, num_res));
    s->features.template_mask = slice_data(ctx, batch, "template_mask", FF_ARRAY_FLOAT32, n->num_slices, index,
                                           FF_DIMS(n->num_templ));
    for (int64_t t = 0; t < n->num_templ && ctx->status == FF_OK; t++)
        s->templates[t] = (ff_template){.num_res = num_res,
                                        .aatype = aatype + t * num_res,
                                        .positions = positions + t * num_res * 37 * 3,
                                        .atom_mask = atom_mask + t * num_res * 37,
                                        .pseudo_beta = beta + t * num_res * 3,
                                        .pseudo_beta_mask = beta_mask + t * num_res,
                                        .placeholder = placeholder};
    s->features.num_templ = n->num_templ;
    s->features.templates = s->templates;
}

/* AlphaFold's codes: features must not index past the tables. */
static ff_status check_codes(ff_ctx *ctx, const char *name, const int32_t *codes, int64_t count, int32_t largest)
{
    for (int64_t i = 0; codes != NULL && i < count; i++)
        if (codes[i] < 0 || codes[i] > largest)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s has the code %d; 0 .. %d are known", name, codes[i], largest);
    return ctx->status;
}

static ff_status slice_open(ff_ctx *ctx, slice *s, const ff_array_set *batch, const batch_sizes *n, int64_t index,
                            bool placeholder)
{
    const int64_t num_res = n->num_res, slices = n->num_slices;
    memset(s, 0, sizeof *s);
    ff_evoformer_features *f = &s->features;
    f->num_res = num_res;
    f->num_seq = n->num_seq;
    f->num_extra_seq = n->num_extra_seq;
    f->aatype = slice_data(ctx, batch, "aatype", FF_ARRAY_INT32, slices, index, FF_DIMS(num_res));
    s->atom37_atom_exists =
        slice_data(ctx, batch, "atom37_atom_exists", FF_ARRAY_FLOAT32, slices, index, FF_DIMS(num_res, 37));
    f->residue_index = slice_data(ctx, batch, "residue_index", FF_ARRAY_INT32, slices, index, FF_DIMS(num_res));
    f->extra_msa = slice_data(ctx, batch, "extra_msa", FF_ARRAY_INT32, slices, index, FF_DIMS(n->num_extra_seq, num_res));
    f->target_feat = slice_view(ctx, batch, "target_feat", slices, index, FF_SHAPE(num_res, FF_TARGET_FEAT));
    f->msa_feat = slice_view(ctx, batch, "msa_feat", slices, index, FF_SHAPE(n->num_seq, num_res, FF_MSA_FEAT));
    f->extra_has_deletion =
        slice_view(ctx, batch, "extra_has_deletion", slices, index, FF_SHAPE(n->num_extra_seq, num_res));
    f->extra_deletion_value =
        slice_view(ctx, batch, "extra_deletion_value", slices, index, FF_SHAPE(n->num_extra_seq, num_res));
    f->seq_mask = slice_view(ctx, batch, "seq_mask", slices, index, FF_SHAPE(num_res));
    f->msa_mask = slice_view(ctx, batch, "msa_mask", slices, index, FF_SHAPE(n->num_seq, num_res));
    f->extra_msa_mask = slice_view(ctx, batch, "extra_msa_mask", slices, index, FF_SHAPE(n->num_extra_seq, num_res));
    slice_templates(ctx, s, batch, n, index, placeholder);
    FF_TRY(ctx->status);
    FF_TRY(check_codes(ctx, "aatype", f->aatype, num_res, FF_AATYPE_X));
    for (int64_t t = 0; t < n->num_templ; t++)
        FF_TRY(check_codes(ctx, "template_aatype", s->templates[t].aatype, num_res, FF_TEMPLATE_AATYPE - 1));
    return FF_OK;
}

static void slice_close(slice *s)
{
    ff_evoformer_features *f = &s->features;
    ff_tensor *const all[SLICE_TENSORS] = {f->target_feat, f->msa_feat,       f->extra_has_deletion, f->extra_deletion_value,
                                           f->seq_mask,    f->extra_msa_mask, f->msa_mask};
    for (int i = 0; i < SLICE_TENSORS; i++)
        ff_tensor_release(all[i]);
}

/* ---- ensembles ---- */

/* a = (a + b) or a * factor, in place or on the tape. */
static void accumulate(ff_ctx *ctx, ff_tensor **a, ff_tensor *b)
{
    if (ctx->status != FF_OK)
        return;
    ff_tensor *sum = ff_add(ctx, *a, b);
    ff_tensor_release(*a);
    *a = sum;
}

static void scale(ff_ctx *ctx, ff_tensor *x, float factor)
{
    if (ff_computing(ctx))
        for (int64_t i = 0; i < x->size; i++)
            ff_data(x)[i] *= factor;
}

/* The trunk on num_ensemble slices, its results averaged but for the MSA, which is the first slice's. Only one slice can be
 * differentiated: training uses one. */
static ff_status run_trunk(ff_ctx *ctx, const ff_model *m, const ff_array_set *batch, const batch_sizes *n, int64_t first,
                           int64_t num_ensemble, bool placeholder, bool input_gradients, slice *slices, const ff_evoformer_features *previous,
                           ff_evoformer_output *out)
{
    for (int64_t e = 0; e < num_ensemble; e++) {
        slice *s = &slices[e];
        FF_TRY(slice_open(ctx, s, batch, n, first + e, placeholder));
        s->features.target_feat->requires_grad = s->features.msa_feat->requires_grad = input_gradients && ctx->tape != NULL;
        s->features.prev_pos = previous->prev_pos;
        s->features.prev_msa_first_row = previous->prev_msa_first_row;
        s->features.prev_pair = previous->prev_pair;
        s->features.release_prev_pair = e + 1 == num_ensemble ? previous->release_prev_pair : NULL;
        ff_evoformer_output one;
        if (e == 0) {
            FF_TRY(ff_evoformer_forward(ctx, &m->evoformer, &s->features, out));
            continue;
        }
        FF_TRY(ff_evoformer_forward(ctx, &m->evoformer, &s->features, &one));
        accumulate(ctx, &out->msa_first_row, one.msa_first_row);
        accumulate(ctx, &out->pair, one.pair);
        accumulate(ctx, &out->single, one.single);
        ff_evoformer_output_release(&one);
    }
    if (num_ensemble > 1 && ctx->status == FF_OK) {
        scale(ctx, out->msa_first_row, 1.0f / (float)num_ensemble);
        scale(ctx, out->pair, 1.0f / (float)num_ensemble);
        scale(ctx, out->single, 1.0f / (float)num_ensemble);
    }
    return ctx->status;
}

/* ---- recycling ---- */

/* What goes from one pass to the next; no gradient flows through. */
typedef struct {
    ff_tensor *positions, *msa_first_row, *pair;
} recycled;

/* Inputs of a pass. */
struct ff_model_inputs {
    recycled previous;
    int64_t num_slices;
    slice slices[]; /* [num_slices] of the ensemble */
};

static void recycled_release(recycled *r)
{
    ff_tensor_release(r->positions);
    ff_tensor_release(r->msa_first_row);
    ff_tensor_release(r->pair);
    *r = (recycled){NULL, NULL, NULL};
}

static void close_slices(struct ff_model_inputs *in)
{
    for (int64_t e = 0; e < in->num_slices; e++)
        slice_close(&in->slices[e]);
    memset(in->slices, 0, (size_t)in->num_slices * sizeof *in->slices);
}

static void inputs_release(struct ff_model_inputs *in)
{
    if (in == NULL)
        return;
    recycled_release(&in->previous);
    close_slices(in);
    free(in);
}

/* Root mean square change of the CA distance matrix over residues that count. */
static double distance_change(const float *a, const float *b, const float *mask, int64_t num_res)
{
    double sum = 0, pairs = 0;
    for (int64_t i = 0; i < num_res; i++)
        for (int64_t j = 0; j < i; j++) {
            if (mask[i] == 0.0f || mask[j] == 0.0f)
                continue;
            double da = 0, db = 0;
            for (int x = 0; x < 3; x++) {
                const int64_t p = (i * 37 + FF_ATOM_CA) * 3 + x, q = (j * 37 + FF_ATOM_CA) * 3 + x;
                da += ((double)a[p] - a[q]) * ((double)a[p] - a[q]);
                db += ((double)b[p] - b[q]) * ((double)b[p] - b[q]);
            }
            sum += (sqrt(da) - sqrt(db)) * (sqrt(da) - sqrt(db));
            pairs += 1;
        }
    return pairs > 0 ? sqrt(sum / pairs) : 0;
}

/* One pass: trunk and structure module. */
static ff_status run_pass(ff_ctx *ctx, const ff_model *m, const ff_array_set *batch, const batch_sizes *n, int64_t pass,
                          const ff_model_options *o, ff_model_output *out)
{
    struct ff_model_inputs *in = out->inputs;
    const ff_evoformer_features prev = {.prev_pos = ff_data(in->previous.positions),
                                        .prev_msa_first_row = in->previous.msa_first_row,
                                        .prev_pair = in->previous.pair,
                                        .release_prev_pair = &in->previous.pair};
    FF_TRY(run_trunk(ctx, m, batch, n, pass * o->num_ensemble, o->num_ensemble, o->template_torsion_placeholder,
                     o->input_gradients, in->slices, &prev, &out->representations));
    FF_TRY(ff_context_step(ctx, "structure_module", 0, 1));
    const ff_evoformer_features *f = &in->slices[0].features;
    return ff_structure_module_forward(ctx, &m->structure_module, out->representations.single, out->representations.pair,
                                       f->seq_mask, f->aatype, in->slices[0].atom37_atom_exists, &out->structure);
}

static void pass_release(ff_model_output *out)
{
    ff_evoformer_output_release(&out->representations);
    ff_structure_output_release(&out->structure);
}

/* ---- forward ---- */

ff_model_options ff_model_options_default(void)
{
    return (ff_model_options){
        .num_recycle = -1, .num_ensemble = 1, .template_torsion_placeholder = true, .heads = true};
}

static ff_status check_options(ff_ctx *ctx, const batch_sizes *n, const ff_model_options *o, int64_t *num_passes)
{
    if (o->num_ensemble < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "num_ensemble is %lld; at least 1 is needed", (long long)o->num_ensemble);
    if (o->num_ensemble > 1 && ctx->tape != NULL)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "gradients are offered for num_ensemble 1 only");
    *num_passes = o->num_recycle < 0 ? n->num_slices / o->num_ensemble : o->num_recycle + 1;
    if (*num_passes < 1 || *num_passes * o->num_ensemble > n->num_slices)
        return FF_FAIL(ctx, FF_ERR_ARG, "%lld recycles of %lld ensemble slices need %lld slices; the batch has %lld",
                       (long long)(*num_passes - 1), (long long)o->num_ensemble,
                       (long long)(*num_passes * o->num_ensemble), (long long)n->num_slices);
    return FF_OK;
}

/* After a pass that may not be the last: note the change, tell, and decide. */
static bool is_last(ff_ctx *ctx, const ff_model_options *o, int64_t pass, int64_t num_passes, ff_model_output *out)
{
    const bool asked = ff_computing(ctx) && (o->on_pass != NULL || o->recycle_tolerance > 0); /* training does not ask */
    const recycled *previous = &out->inputs->previous;
    const slice *s = &out->inputs->slices[0];
    out->num_passes = pass + 1;
    out->change_ang = NAN;
    if (asked && previous->positions != NULL)
        out->change_ang = distance_change(ff_data(previous->positions), ff_data(out->structure.atom37),
                                          ff_data(s->features.seq_mask), out->num_res);
    if (asked && o->on_pass != NULL)
        o->on_pass(ctx, o->on_pass_arg, out);
    return pass + 1 == num_passes || (o->recycle_tolerance > 0 && out->change_ang < o->recycle_tolerance);
}

static void keep_for_next(const ff_model_output *out)
{
    recycled *previous = &out->inputs->previous;
    recycled_release(previous);
    previous->positions = ff_tensor_retain(out->structure.atom37);
    previous->msa_first_row = ff_tensor_retain(out->representations.msa_first_row);
    previous->pair = ff_tensor_retain(out->representations.pair);
}

ff_status ff_model_forward(ff_ctx *ctx, const ff_model *model, const ff_array_set *batch, const ff_model_options *options,
                           ff_model_output *out)
{
    ff_status status = FF_OK;
    batch_sizes n = {0};
    int64_t num_passes = 0;
    struct ff_tape *tape = ctx->tape;
    memset(out, 0, sizeof *out);
    FF_TRY(ctx->status);
    FF_TRY(get_sizes(ctx, &model->config, batch, &n));
    FF_TRY(check_options(ctx, &n, options, &num_passes));
    out->num_res = n.num_res;
    out->inputs = calloc(1, sizeof *out->inputs + (size_t)options->num_ensemble * sizeof out->inputs->slices[0]);
    if (out->inputs == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the batch");
    out->inputs->num_slices = options->num_ensemble;
    for (int64_t pass = 0; pass < num_passes; pass++) {
        close_slices(out->inputs);
        pass_release(out);
        ctx->tape = pass + 1 == num_passes ? tape : NULL;
        FF_TRY_DONE(run_pass(ctx, model, batch, &n, pass, options, out));
        if (is_last(ctx, options, pass, num_passes, out))
            break;
        keep_for_next(out);
    }
    if (options->heads)
        FF_TRY_DONE(ff_heads_forward(ctx, &model->heads, out->representations.msa, out->representations.pair,
                                     out->representations.single, out->structure.act, &out->heads));
done:
    ctx->tape = tape;
    if (status != FF_OK)
        ff_model_output_release(out);
    return status;
}

ff_status ff_model_output_gather(ff_ctx *ctx, ff_model_output *out)
{
    const ff_evoformer_output *r = &out->representations;
    const int64_t n = r->num_res;
    ff_shards_replace_by_rows(ctx, &out->heads.masked_msa, r->num_rows, r->num_seq);
    ff_shards_replace_by_rows(ctx, &out->heads.distogram, n, n);
    ff_shards_replace_by_rows(ctx, &out->heads.predicted_aligned_error, n, n);
    return ff_evoformer_output_gather(ctx, &out->representations);
}

const ff_evoformer_features *ff_model_output_features(const ff_model_output *out) { return &out->inputs->slices[0].features; }

void ff_model_output_release(ff_model_output *out)
{
    pass_release(out);
    ff_heads_output_release(&out->heads);
    inputs_release(out->inputs);
    out->inputs = NULL;
}
