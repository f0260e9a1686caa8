/* Contents: the predictor; batches; results; raw outputs; predicting; costs. */
#include "infer/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/random.h"
#include "model/initialise.h"
#include "model/weights_fit.h"
#include "structure/residue_constants.h"
#include "tensor/plan.h"
#include "tensor/pool.h"

/* ---- the predictor ---- */

ff_status ff_predictor_find_preset(ff_ctx *ctx, const char *weights, char preset[FF_PRESET_NAME_BYTES])
{
    return ff_weights_find_preset(ctx, weights, preset);
}

static ff_status set_sizes(ff_ctx *ctx, ff_predictor *p, const char *preset, ff_model_config *config)
{
    memset(p, 0, sizeof *p);
    FF_TRY(ff_model_config_preset(ctx, config, preset));
    snprintf(p->name, sizeof p->name, "%s", preset);
    FF_TRY(ff_process_options_preset(ctx, &p->process, preset));
    p->process.pad = false;
    p->forward = ff_model_options_default();
    return FF_OK;
}

/* AlphaFold starts with last layers of zeros: all atoms in one place, all confidences alike. To show what the machinery does
 * they get normal numbers of variance 1 / fan-in as well; smaller ones in the trunk, where dozens of updates add up. */
static void fill_zero_layers(ff_parameters *parameters, uint64_t seed)
{
    for (int64_t k = 0; k < parameters->count; k++) {
        const ff_parameter *p = &parameters->items[k];
        float *values = parameters->values + p->offset;
        bool zero = p->ndim >= 2;
        for (int64_t i = 0; zero && i < p->size; i++)
            zero = values[i] == 0.0f;
        if (!zero)
            continue;
        const ff_random_key key = {seed, ff_random_stream(1, (uint64_t)k)};
        const double share = strstr(p->name, "evoformer") != NULL ? 0.001 : 1;
        const double scale = share * sqrt((double)p->shape[p->ndim - 1] / (double)p->size);
        for (int64_t i = 0; i < p->size; i++)
            values[i] = (float)scale * ff_random_normal(key, (uint64_t)i);
    }
}

ff_status ff_predictor_open(ff_ctx *ctx, ff_predictor *p, const char *preset, const char *weights, uint64_t seed)
{
    char found[FF_PRESET_NAME_BYTES];
    ff_model_config config;
    memset(p, 0, sizeof *p);
    if (preset == NULL && weights == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "neither a preset nor a weight file was given");
    if (preset == NULL) {
        FF_TRY(ff_predictor_find_preset(ctx, weights, found));
        preset = found;
    }
    FF_TRY(set_sizes(ctx, p, preset, &config));
    FF_TRY(ff_model_create(ctx, &p->model, &config, false));
    p->random_weights = weights == NULL;
    if (weights != NULL)
        return ff_weights_read(ctx, &p->model.parameters, weights);
    FF_TRY(ff_model_initialise(ctx, &p->model.parameters, seed));
    fill_zero_layers(&p->model.parameters, seed);
    return FF_OK;
}

ff_status ff_predictor_open_dry(ff_ctx *ctx, ff_predictor *p, const char *preset)
{
    ff_model_config config;
    FF_TRY(set_sizes(ctx, p, preset, &config));
    return ff_model_create(ctx, &p->model, &config, false); /* zeros: pages nobody touches */
}

void ff_predictor_close(ff_predictor *p)
{
    ff_model_destroy(&p->model);
    memset(p, 0, sizeof *p);
}

/* ---- batches ---- */

ff_status ff_predictor_make_batch(ff_ctx *ctx, const ff_predictor *p, const ff_array_set *features, uint64_t seed,
                                  ff_array_set *batch)
{
    ff_process_options options = p->process;
    options.key = (ff_sample_key){seed, 0, 0};
    return ff_process_features(ctx, batch, features, &options);
}

/* ---- results ---- */

/* Residues before the padding of the last slice. */
static int64_t real_residues(const ff_model_output *out)
{
    const float *mask = ff_data(ff_model_output_features(out)->seq_mask);
    int64_t n = out->num_res;
    while (n > 0 && mask[n - 1] == 0.0f)
        n--;
    return n;
}

/* The top left n x n corner of a total x total array of rows of `width`. */
static float *corner(ff_ctx *ctx, const float *x, int64_t total, int64_t n, int64_t width)
{
    float *cut = malloc((size_t)(n * n * width + 1) * sizeof *cut);
    if (cut == NULL) {
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for results");
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(cut + i * n * width, x + i * total * width, (size_t)(n * width) * sizeof *cut);
    return cut;
}

static ff_status set_pair_results(ff_ctx *ctx, const ff_predictor *p, const ff_model_output *out, int64_t n,
                                  ff_prediction *result)
{
    const ff_heads_config *h = &p->model.heads.config;
    const int64_t total = out->num_res;
    float edges[256];
    float *logits = corner(ctx, ff_data(out->heads.distogram), total, n, h->distogram_num_bins);
    if (logits == NULL)
        return ctx->status;
    ff_bin_edges(edges, h->distogram_first_break, h->distogram_last_break, h->distogram_num_bins);
    ff_status status = ff_prediction_set_contacts(ctx, result, logits, h->distogram_num_bins, edges);
    free(logits);
    if (status != FF_OK || h->pae_num_bins == 0)
        return status;
    float *pae = malloc((size_t)(total * total + 1) * sizeof *pae);
    if (pae == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for results");
    const float *errors = ff_data(out->heads.predicted_aligned_error);
    ff_bin_edges(edges, 0, h->pae_max_error_bin, h->pae_num_bins);
    const double max = ff_predicted_aligned_error(pae, NULL, errors, edges, total, h->pae_num_bins);
    result->ptm = ff_predicted_tm_score(errors, edges, total, h->pae_num_bins);
    float *cut = corner(ctx, pae, total, n, 1);
    status = cut == NULL ? ctx->status : ff_prediction_set_pae(ctx, result, cut, max);
    free(cut);
    free(pae);
    return status;
}

static ff_status make_prediction(ff_ctx *ctx, const ff_predictor *p, const ff_model_output *out, const ff_array_set *batch,
                                 const char *name, uint64_t seed, ff_prediction *result)
{
    const ff_evoformer_features *f = ff_model_output_features(out);
    const int64_t n = real_residues(out), bins = p->model.heads.config.plddt_num_bins;
    char *sequence = calloc((size_t)n + 1, 1);
    if (sequence == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for results");
    for (int64_t i = 0; i < n; i++)
        sequence[i] = ff_restypes[f->aatype[i]];
    const ff_status status = ff_prediction_create(ctx, result, name, sequence, p->name, seed);
    free(sequence);
    FF_TRY(status);
    const ff_array *exists = ff_array_find(batch, "atom37_atom_exists");
    memcpy(result->residue_index, f->residue_index, (size_t)n * sizeof *f->residue_index);
    memcpy(result->atom37_positions, ff_data(out->structure.atom37), (size_t)(n * 37 * 3) * sizeof(float));
    memcpy(result->atom37_mask, exists->f32, (size_t)(n * 37) * sizeof(float));
    result->ranking_confidence = ff_plddt(result->plddt, ff_data(out->heads.predicted_lddt), n, bins);
    return set_pair_results(ctx, p, out, n, result);
}

/* ---- raw outputs ---- */

static ff_status add_raw(ff_ctx *ctx, ff_array_set *raw, const char *name, const ff_tensor *x)
{
    if (x == NULL)
        return FF_OK;
    ff_array *a = ff_array_add(ctx, raw, name, FF_ARRAY_FLOAT32, x->ndim, x->shape);
    if (a == NULL)
        return ctx->status;
    memcpy(a->f32, ff_data(x), (size_t)x->size * sizeof(float));
    return FF_OK;
}

static ff_status add_edges(ff_ctx *ctx, ff_array_set *raw, const char *name, double first, double last, int64_t num_bins)
{
    ff_array *a = ff_array_add(ctx, raw, name, FF_ARRAY_FLOAT32, FF_DIMS(num_bins - 1));
    if (a == NULL)
        return ctx->status;
    ff_bin_edges(a->f32, first, last, num_bins);
    return FF_OK;
}

static ff_status make_raw(ff_ctx *ctx, const ff_predictor *p, const ff_model_output *out, ff_array_set *raw)
{
    const ff_heads_config *h = &p->model.heads.config;
    const struct {
        const char *name;
        const ff_tensor *x;
    } all[] = {{"structure_module/final_atom_positions", out->structure.atom37},
               {"distogram/logits", out->heads.distogram},
               {"masked_msa/logits", out->heads.masked_msa},
               {"experimentally_resolved/logits", out->heads.experimentally_resolved},
               {"predicted_lddt/logits", out->heads.predicted_lddt},
               {"predicted_aligned_error/logits", out->heads.predicted_aligned_error},
               {"representations/msa", out->representations.msa},
               {"representations/msa_first_row", out->representations.msa_first_row},
               {"representations/pair", out->representations.pair},
               {"representations/single", out->representations.single},
               {"representations/structure_module", out->structure.act}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        FF_TRY(add_raw(ctx, raw, all[i].name, all[i].x));
    FF_TRY(add_edges(ctx, raw, "distogram/bin_edges", h->distogram_first_break, h->distogram_last_break,
                     h->distogram_num_bins));
    return h->pae_num_bins == 0 ? FF_OK
                                : add_edges(ctx, raw, "predicted_aligned_error/breaks", 0, h->pae_max_error_bin,
                                            h->pae_num_bins);
}

/* ---- predicting ---- */

/* Passes as they end. */
typedef struct {
    const ff_predictor *p;
    ff_recycle_record records[128]; /* --num-recycle goes to 100 */
    int64_t count;
    double begin_s;
    ff_predict_pass_fn on_pass;
    void *on_pass_arg;
} pass_log;

static void note_pass(ff_ctx *ctx, void *arg, const ff_model_output *out)
{
    pass_log *log = arg;
    if (log->count >= (int64_t)(sizeof log->records / sizeof *log->records))
        return;
    ff_recycle_record *r = &log->records[log->count++];
    const int64_t bins = log->p->model.heads.config.plddt_num_bins, n = real_residues(out);
    ff_tensor *logits = ff_plddt_head(ctx, &log->p->model.heads, out->structure.act);
    float *plddt = malloc((size_t)(n + 1) * sizeof *plddt);
    *r = (ff_recycle_record){NAN, NAN, out->change_ang, ff_clock_s() - log->begin_s};
    if (ff_computing(ctx) && plddt != NULL)
        r->mean_plddt = ff_plddt(plddt, ff_data(logits), n, bins);
    free(plddt);
    ff_tensor_release(logits);
    if (log->on_pass != NULL)
        log->on_pass(log->on_pass_arg, r);
    log->begin_s = ff_clock_s();
}

static ff_status add_history(ff_ctx *ctx, ff_prediction *out, const pass_log *log)
{
    for (int64_t i = 0; i < log->count; i++) {
        ff_recycle_record r = log->records[i];
        if (i + 1 == log->count)
            r.ptm = out->ptm;
        FF_TRY(ff_prediction_add_pass(ctx, out, &r));
    }
    return FF_OK;
}

ff_status ff_predict(ff_ctx *ctx, const ff_predictor *p, const ff_array_set *batch, const char *name, uint64_t seed,
                     ff_prediction *out, ff_array_set *raw, ff_predict_pass_fn on_pass, void *on_pass_arg)
{
    ff_status status = FF_OK;
    ff_model_output model_out;
    pass_log log = {.p = p, .begin_s = ff_clock_s(), .on_pass = on_pass, .on_pass_arg = on_pass_arg};
    ff_model_options options = p->forward;
    options.on_pass = note_pass;
    options.on_pass_arg = &log;
    memset(out, 0, sizeof *out);
    const double begin_s = ff_clock_s();
    FF_TRY(ff_model_forward(ctx, &p->model, batch, &options, &model_out));
    const double model_s = ff_clock_s() - begin_s;
    FF_TRY_DONE(make_prediction(ctx, p, &model_out, batch, name, seed, out));
    FF_TRY_DONE(add_history(ctx, out, &log));
    FF_TRY_DONE(ff_prediction_add_timing(ctx, out, "model", model_s));
    if (raw != NULL)
        FF_TRY_DONE(make_raw(ctx, p, &model_out, raw));
    FF_TRY_DONE(ff_prediction_check(ctx, out));
done:
    ff_model_output_release(&model_out);
    return status;
}

/* ---- costs ---- */

/* A batch of zeros of these sizes, of which no page is touched. */
static ff_status shape_batch(ff_ctx *ctx, ff_array_set *batch, int64_t slices, const ff_predict_cost *n)
{
    const struct {
        const char *name;
        ff_array_type type;
        int ndim;
        int64_t shape[4];
    } all[] = {{"aatype", FF_ARRAY_INT32, 1, {n->num_res}},
               {"residue_index", FF_ARRAY_INT32, 1, {n->num_res}},
               {"seq_mask", FF_ARRAY_FLOAT32, 1, {n->num_res}},
               {"target_feat", FF_ARRAY_FLOAT32, 2, {n->num_res, FF_TARGET_FEAT}},
               {"msa_feat", FF_ARRAY_FLOAT32, 3, {n->num_seq, n->num_res, FF_MSA_FEAT}},
               {"msa_mask", FF_ARRAY_FLOAT32, 2, {n->num_seq, n->num_res}},
               {"extra_msa", FF_ARRAY_INT32, 2, {n->num_extra, n->num_res}},
               {"extra_msa_mask", FF_ARRAY_FLOAT32, 2, {n->num_extra, n->num_res}},
               {"extra_has_deletion", FF_ARRAY_FLOAT32, 2, {n->num_extra, n->num_res}},
               {"extra_deletion_value", FF_ARRAY_FLOAT32, 2, {n->num_extra, n->num_res}},
               {"atom37_atom_exists", FF_ARRAY_FLOAT32, 2, {n->num_res, 37}},
               {"template_aatype", FF_ARRAY_INT32, 2, {n->num_templ, n->num_res}},
               {"template_mask", FF_ARRAY_FLOAT32, 1, {n->num_templ}},
               {"template_all_atom_positions", FF_ARRAY_FLOAT32, 4, {n->num_templ, n->num_res, 37, 3}},
               {"template_all_atom_masks", FF_ARRAY_FLOAT32, 3, {n->num_templ, n->num_res, 37}},
               {"template_pseudo_beta", FF_ARRAY_FLOAT32, 3, {n->num_templ, n->num_res, 3}},
               {"template_pseudo_beta_mask", FF_ARRAY_FLOAT32, 2, {n->num_templ, n->num_res}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t shape[FF_HDF5_MAX_DIMS] = {slices};
        if (n->num_templ == 0 && strncmp(all[i].name, "template", 8) == 0)
            continue;
        memcpy(shape + 1, all[i].shape, (size_t)all[i].ndim * sizeof *shape);
        if (ff_array_add(ctx, batch, all[i].name, all[i].type, all[i].ndim + 1, shape) == NULL)
            return ctx->status;
    }
    return FF_OK;
}

static double set_bytes(const ff_array_set *set)
{
    double bytes = 0;
    for (int64_t i = 0; i < set->count; i++)
        bytes += (double)set->items[i]->size * (double)ff_array_type_bytes(set->items[i]->type);
    return bytes;
}

ff_status ff_predict_plan(ff_ctx *ctx, const ff_predictor *p, int64_t num_res, int64_t num_seq, int64_t num_extra,
                          int64_t num_templ, ff_predict_cost *cost)
{
    ff_status status = FF_OK;
    ff_ctx dry = *ctx; /* kernels, communicator, options */
    ff_array_set batch;
    ff_model_output out = {0};
    ff_model_options options = p->forward;
    /* peak and FLOP of passes after the second do not differ */
    const int64_t passes = p->process.num_recycle + 1, slices = (passes > 2 ? 2 : passes) * options.num_ensemble;
    *cost = (ff_predict_cost){.num_res = num_res, .num_seq = num_seq, .num_extra = num_extra, .num_templ = num_templ};
    dry.pool = NULL;
    dry.plan = NULL;
    dry.tape = NULL;
    dry.on_step = NULL;
    options.num_recycle = -1;
    options.on_pass = NULL;
    ff_array_set_init(&batch);
    FF_TRY_DONE(ff_pool_create(&dry, 0, true));
    FF_TRY_DONE(ff_plan_create(&dry));
    FF_TRY_DONE(shape_batch(&dry, &batch, slices, cost));
    FF_TRY_DONE(ff_model_forward(&dry, &p->model, &batch, &options, &out));
    const ff_plan_record total = ff_plan_total(&dry);
    cost->flop = total.flop / (double)(slices / options.num_ensemble);
    cost->flop_all = cost->flop * (double)passes;
    cost->activation_bytes = (double)total.in_use;
    cost->batch_bytes = set_bytes(&batch) / (double)slices * (double)(passes * options.num_ensemble);
    cost->weights_bytes = 4.0 * (double)p->model.parameters.total;
    cost->result_bytes = 4.0 * (double)num_res * (double)num_res * (3 + (double)p->model.heads.config.distogram_num_bins);
    cost->total_bytes = cost->weights_bytes + cost->batch_bytes + cost->activation_bytes + cost->result_bytes;
done:
    ff_model_output_release(&out);
    ff_array_set_destroy(&batch);
    if (dry.plan != NULL)
        ff_plan_destroy(&dry);
    if (dry.pool != NULL)
        ff_pool_destroy(&dry);
    if (status != FF_OK && ctx->status == FF_OK)
        FF_FAIL(ctx, status, "%s", dry.message);
    return status;
}

/* The longest chain that fits in place of this one; 0 = none. */
static int64_t longest_that_fits(ff_ctx *ctx, const ff_predictor *p, const ff_predict_cost *cost, int64_t max_bytes)
{
    int64_t fits = 0, fails = cost->num_res;
    while (fails - fits > 1) {
        const int64_t middle = (fits + fails) / 2;
        ff_predict_cost c;
        if (ff_predict_plan(ctx, p, middle, cost->num_seq, cost->num_extra, cost->num_templ, &c) != FF_OK)
            return 0;
        *(c.total_bytes <= (double)max_bytes ? &fits : &fails) = middle;
    }
    return fits;
}

ff_status ff_predict_fits(ff_ctx *ctx, const ff_predictor *p, const ff_predict_cost *cost, int64_t max_bytes)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    ff_predict_cost less;
    char advice[160];
    if (max_bytes <= 0 || cost->total_bytes <= (double)max_bytes)
        return FF_OK;
    const int64_t num_seq = cost->num_seq / 4 + 1, num_extra = cost->num_extra / 8;
    FF_TRY(ff_predict_plan(ctx, p, cost->num_res, num_seq, num_extra, cost->num_templ, &less));
    if (less.total_bytes <= (double)max_bytes) {
        snprintf(advice, sizeof advice, "--num-seq %lld --num-extra %lld (needs %.2f GiB)", (long long)num_seq,
                 (long long)num_extra, less.total_bytes / gib);
    } else {
        const int64_t longest = longest_that_fits(ctx, p, cost, max_bytes);
        FF_TRY(ctx->status);
        snprintf(advice, sizeof advice, "a larger budget, or a part of the chain: %lld residues would fit", (long long)longest);
    }
    return FF_FAIL(ctx, FF_ERR_MEM, "%lld residues need %.2f GiB (%.2f of them activations), --max-memory allows %.2f GiB; try %s",
                   (long long)cost->num_res, cost->total_bytes / gib, cost->activation_bytes / gib, (double)max_bytes / gib,
                   advice);
}
