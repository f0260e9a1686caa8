/* main_infer.c - fastfold-infer: from sequences to predicted structures.
 *
 * Contents
 *   1. the run: signals
 *   2. models
 *   3. one target
 *   4. all targets
 *   5. main */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/sha256.h"
#include "core/version.h"
#include "data/fasta.h"
#include "infer/infer_options.h"
#include "infer/inputs.h"
#include "infer/output.h"
#include "infer/predict.h"
#include "infer/run_log.h"
#include "infer/target_folder.h"
#include "infer/targets.h"
#include "infer/write_json.h"
#include "io/safe_file.h"
#include "kernels/kernels.h"
#include "model/weights.h"
#include "tensor/pool.h"

enum { EXIT_DONE = 0, EXIT_FAILED_ = 1, EXIT_USAGE = 2 };

/* ---- 1. the run ---- */

/* Nothing but this reaches a signal handler: the signal that told us to end. */
static volatile sig_atomic_t told_to_end;

static void on_signal(int number) { told_to_end = number; }

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND}; /* a second one ends at once */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

typedef struct {
    ff_ctx ctx;
    ff_infer_options o;
    ff_predictor *models; /* [num_models] */
    int64_t num_models;
    ff_targets targets;
    ff_feature_maker *maker;    /* NULL with --features and --batch */
    ff_feature_query *queries;  /* [num_queries] of the targets without a problem */
    char (*query_names)[FF_FILE_NAME_BYTES];
    int64_t *query_of;          /* [targets.count] -1 = none */
    char *cache;                /* of searches, when --cache was not given */
    ff_array_set given; /* of --features or --batch */
    ff_run_log log;
    char weights_hash[FF_SHA256_HEX_BYTES];
    bool folder_begun; /* of the target under way */
} infer_run;

/* ---- 2. models ---- */

/* Options of the command line over those of the preset. */
static void adjust(const ff_infer_options *o, ff_predictor *p)
{
    ff_process_options *d = &p->process;
    if (o->num_seq >= 0)
        d->num_seq = o->num_seq;
    if (o->num_extra >= 0)
        d->num_extra = o->num_extra;
    if (o->max_templates >= 0 && o->max_templates < d->max_templates)
        d->max_templates = o->max_templates;
    if (o->num_recycle >= 0)
        d->num_recycle = o->num_recycle;
    d->num_ensemble = o->num_ensemble;
    p->forward.num_recycle = o->batch != NULL ? o->num_recycle : d->num_recycle;
    p->forward.num_ensemble = o->num_ensemble;
    p->forward.recycle_tolerance = o->recycle_tolerance;
    p->forward.template_torsion_placeholder = o->placeholder != 0;
    if (o->blocks > 0 && o->blocks < p->model.evoformer.config.evoformer_num_block)
        p->model.evoformer.config.evoformer_num_block = o->blocks;
}

static ff_status open_model(infer_run *r, ff_predictor *p, const char *preset, const char *weights)
{
    ff_ctx *ctx = &r->ctx;
    char found[FF_PRESET_NAME_BYTES];
    const char *asked = preset;
    if (preset == NULL) {
        FF_TRY(ff_predictor_find_preset(ctx, weights, found));
        preset = found;
    }
    if (r->o.plan)
        FF_TRY(ff_predictor_open_dry(ctx, p, preset));
    else if (weights == NULL && !r->o.random_weights) {
        ff_model_config config;
        FF_TRY(ff_model_config_preset(ctx, &config, preset)); /* an unknown name is the first thing to hear about */
        return ff_weights_absent(ctx, preset);
    } else
        FF_TRY(ff_predictor_open(ctx, p, preset, weights, (uint64_t)r->o.seed));
    adjust(&r->o, p);
    FF_INFO(ctx, "model %s%s: %lld parameters%s%s", p->name, asked == NULL ? " (as the file fits)" : "",
            (long long)p->model.parameters.total, r->o.plan ? "" : " from ",
            r->o.plan         ? ""
            : weights == NULL ? "a random generator: the prediction means nothing"
                              : weights);
    return FF_OK;
}

/* Names, sizes and times of weight files, and the options that change a result. */
static void hash_models(infer_run *r)
{
    const ff_infer_options *o = &r->o;
    ff_sha256 hash;
    char text[256];
    ff_sha256_begin(&hash);
    for (int i = 0; i < o->weights.count; i++) {
        struct stat info = {0};
        stat(o->weights.items[i], &info);
        snprintf(text, sizeof text, "%lld %lld", (long long)info.st_size, (long long)info.st_mtime);
        ff_sha256_add_text(&hash, text);
    }
    for (int64_t i = 0; i < r->num_models; i++)
        ff_sha256_add_text(&hash, r->models[i].name);
    snprintf(text, sizeof text, "%lld %g %lld %lld %lld %lld %lld %lld %lld %lld %d %d", (long long)o->num_recycle,
             o->recycle_tolerance, (long long)o->num_ensemble, (long long)o->num_seq, (long long)o->num_extra,
             (long long)o->max_templates, (long long)o->seed, (long long)o->num_seeds, (long long)o->blocks,
             (long long)o->placeholder, o->dtype, o->save_raw);
    ff_sha256_add_text(&hash, text);
    ff_sha256_end(&hash, r->weights_hash);
}

static ff_status open_models(infer_run *r)
{
    const ff_infer_options *o = &r->o;
    const char *family[FF_FAMILY_MODELS];
    if (o->weights.count == 0 && o->presets.count == 0 && !o->plan)
        return ff_weights_absent(&r->ctx, "model_1_ptm");
    if (o->presets.count == 1 && ff_model_preset_family(o->presets.items[0], family))
        return FF_FAIL(&r->ctx, FF_ERR_ARG, "%s stands for five models: give each with a --weights and a --preset of its own (%s ..)",
                       o->presets.items[0], family[0]);
    r->num_models = o->weights.count > 0 ? o->weights.count : o->presets.count > 0 ? o->presets.count : 1;
    r->models = calloc((size_t)r->num_models, sizeof *r->models);
    if (r->models == NULL)
        return FF_FAIL(&r->ctx, FF_ERR_MEM, "out of memory for models");
    for (int64_t i = 0; i < r->num_models; i++)
        FF_TRY(open_model(r, &r->models[i],
                          i < o->presets.count ? o->presets.items[i] : o->weights.count > 0 ? NULL : "model_1_ptm",
                          i < o->weights.count ? o->weights.items[i] : NULL));
    hash_models(r);
    return FF_OK;
}

/* ---- 3. one target ---- */

/* Everything a result depends on. */
static void hash_target(const infer_run *r, const ff_target *target, const ff_array_set *features, char hex[FF_SHA256_HEX_BYTES])
{
    ff_sha256 hash;
    ff_sha256_begin(&hash);
    ff_sha256_add_text(&hash, r->weights_hash);
    ff_sha256_add_text(&hash, target->name);
    for (int64_t i = 0; i < features->count; i++) {
        const ff_array *a = features->items[i];
        ff_sha256_add_text(&hash, a->name);
        if (a->type != FF_ARRAY_TEXT)
            ff_sha256_add(&hash, a->data, (size_t)a->size * ff_array_type_bytes(a->type));
        for (int64_t k = 0; a->type == FF_ARRAY_TEXT && k < a->size; k++)
            ff_sha256_add_text(&hash, a->text[k]);
    }
    ff_sha256_end(&hash, hex);
}

/* Rows of the alignment for depth and coverage: raw features have them, batches do not. */
static ff_status set_msa(infer_run *r, const ff_array_set *features, ff_prediction *p)
{
    const ff_array *msa = ff_array_find(features, "msa");
    if (msa == NULL || msa->ndim != 2 || msa->shape[1] != p->num_res)
        return FF_OK;
    int8_t *codes = malloc((size_t)msa->size + 1);
    if (codes == NULL)
        return FF_FAIL(&r->ctx, FF_ERR_MEM, "out of memory for the alignment");
    for (int64_t i = 0; i < msa->size; i++)
        codes[i] = msa->type == FF_ARRAY_INT8 ? msa->i8[i] : (int8_t)msa->i32[i];
    const ff_status status = ff_prediction_set_msa(&r->ctx, p, codes, msa->shape[0]);
    free(codes);
    return status;
}

/* Sizes of the batch a model gets from these features, or of the batch that was given; without features the most there can be. */
static void batch_sizes(const infer_run *r, const ff_predictor *p, const ff_array_set *features,
                        int64_t *num_seq, int64_t *num_extra, int64_t *num_templ)
{
    const ff_process_options *d = &p->process;
    const int64_t most = d->num_seq - (d->reduce_msa_clusters_by_max_templates ? d->max_templates : 0);
    if (features == NULL) {
        *num_seq = most;
        *num_extra = d->num_extra;
        *num_templ = d->max_templates;
        return;
    }
    const ff_array *msa = ff_array_find(features, r->o.batch != NULL ? "msa_feat" : "msa");
    const ff_array *extra = ff_array_find(features, "extra_msa"), *templates = ff_array_find(features, "template_aatype");
    *num_templ = templates == NULL ? 0 : templates->shape[r->o.batch != NULL ? 1 : 0];
    if (r->o.batch != NULL) {
        *num_seq = msa->shape[1];
        *num_extra = extra == NULL ? 0 : extra->shape[1];
        return;
    }
    const int64_t rows = msa->shape[0];
    *num_seq = rows < most ? rows : most;
    *num_extra = rows - *num_seq < d->num_extra ? rows - *num_seq : d->num_extra;
    *num_templ = *num_templ < d->max_templates ? *num_templ : d->max_templates;
}

/* "1.25 GiB", "3.1 MiB" */
static const char *size_text(char text[32], double bytes)
{
    const double mib = 1024.0 * 1024.0;
    if (bytes < 1024 * mib)
        snprintf(text, 32, "%.1f MiB", bytes / mib);
    else
        snprintf(text, 32, "%.2f GiB", bytes / (1024 * mib));
    return text;
}

static void print_cost(const ff_target *target, const ff_predictor *p, const ff_predict_cost *c)
{
    char total[32], weights[32], batch[32], activations[32], results[32];
    printf("%s, %s: %lld residues, %lld MSA rows, %lld extra rows, %lld templates: %s (weights %s, batch %s, activations %s, "
           "results %s), %.4g TFLOP a pass, %.4g in all\n",
           target->folder, p->name, (long long)c->num_res, (long long)c->num_seq, (long long)c->num_extra,
           (long long)c->num_templ, size_text(total, c->total_bytes), size_text(weights, c->weights_bytes),
           size_text(batch, c->batch_bytes), size_text(activations, c->activation_bytes), size_text(results, c->result_bytes),
           c->flop / 1e12, c->flop_all / 1e12);
    fflush(stdout);
}

/* Plan, print when asked, and refuse what does not fit. */
static ff_status plan_target(infer_run *r, const ff_target *target, const ff_array_set *features)
{
    for (int64_t m = 0; m < r->num_models; m++) {
        ff_predict_cost cost;
        int64_t num_seq, num_extra, num_templ;
        batch_sizes(r, &r->models[m], features, &num_seq, &num_extra, &num_templ);
        FF_TRY(ff_predict_plan(&r->ctx, &r->models[m], target->num_res, num_seq, num_extra, num_templ, &cost));
        if (r->o.plan)
            print_cost(target, &r->models[m], &cost);
        FF_TRY(ff_predict_fits(&r->ctx, &r->models[m], &cost, r->o.max_memory));
    }
    return FF_OK;
}

static void tell_pass(void *arg, const ff_recycle_record *pass) { ff_run_log_pass(arg, pass); }

static ff_status predict_one(infer_run *r, const ff_target *target, const ff_array_set *features, const ff_predictor *p,
                             uint64_t seed, ff_prediction *out, ff_array_set *raw)
{
    ff_ctx *ctx = &r->ctx;
    ff_status status = FF_OK;
    ff_array_set made;
    ff_array_set_init(&made);
    if (r->o.batch == NULL)
        FF_TRY_DONE(ff_predictor_make_batch(ctx, p, features, seed, &made));
    FF_TRY_DONE(ff_predict(ctx, p, r->o.batch != NULL ? features : &made, target->name, seed, out, raw, tell_pass, &r->log));
    FF_TRY_DONE(set_msa(r, features, out));
    if (p->random_weights)
        FF_TRY_DONE(ff_prediction_add_note(ctx, out, "random weights: this structure means nothing"));
done:
    ff_array_set_destroy(&made);
    return status;
}

/* All models and seeds of a target, written to its folder. */
static ff_status predict_all(infer_run *r, const ff_target *target, const ff_array_set *features, bool single_sequence,
                             const char *folder)
{
    ff_ctx *ctx = &r->ctx;
    ff_status status = FF_OK;
    char key[FF_PREDICTION_KEY_BYTES];
    int64_t *order = NULL;
    const int64_t count = r->num_models * r->o.num_seeds;
    ff_prediction *predictions = calloc((size_t)count, sizeof *predictions);
    ff_array_set *raw = calloc((size_t)count, sizeof *raw);
    const ff_array_set **raw_pointers = calloc((size_t)count, sizeof *raw_pointers);
    if (predictions == NULL || raw == NULL || raw_pointers == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for predictions");
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        const ff_prediction key_of = {.model_name = r->models[i / r->o.num_seeds].name,
                                      .seed = (uint64_t)(r->o.seed + i % r->o.num_seeds)};
        ff_run_log_prediction(&r->log, ff_prediction_key(key, &key_of));
        raw_pointers[i] = &raw[i];
        FF_TRY_DONE(predict_one(r, target, features, &r->models[i / r->o.num_seeds],
                                (uint64_t)(r->o.seed + i % r->o.num_seeds), &predictions[i], r->o.save_raw ? &raw[i] : NULL));
        if (single_sequence)
            FF_TRY_DONE(ff_prediction_add_note(ctx, &predictions[i], ff_input_single_sequence_note()));
        if (target->note[0] != '\0')
            FF_TRY_DONE(ff_prediction_add_note(ctx, &predictions[i], target->note));
    }
    const ff_output_options output = {.b_column = (ff_b_column)r->o.b_column,
                                      .mmcif = r->o.mmcif,
                                      .report = r->o.report,
                                      .raw = r->o.save_raw ? raw_pointers : NULL};
    FF_TRY_DONE(ff_output_write(ctx, folder, predictions, count, &output));
    order = calloc((size_t)count, sizeof *order);
    if (order != NULL && ff_output_rank(ctx, order, predictions, count) == FF_OK)
        ff_run_log_target_end(&r->log, target->folder, FF_TARGET_FINISHED, NULL, &predictions[order[0]]);
    status = ctx->status;
done:
    free(order);
    for (int64_t i = 0; i < count; i++) {
        if (predictions != NULL)
            ff_prediction_destroy(&predictions[i]);
        if (raw != NULL)
            ff_array_set_destroy(&raw[i]);
    }
    free(predictions);
    free(raw);
    free(raw_pointers);
    return status;
}

/* The folder's status follows what happens. */
static ff_status run_in_folder(infer_run *r, const ff_target *target, const ff_array_set *features, bool single_sequence)
{
    ff_ctx *ctx = &r->ctx;
    char hash[FF_SHA256_HEX_BYTES];
    ff_target_folder folder = {0};
    hash_target(r, target, features, hash);
    r->folder_begun = true;
    ff_status status = ff_target_folder_begin(ctx, &folder, r->o.output_dir, target, hash, r->o.overwrite);
    if (status == FF_OK && folder.finished) {
        ff_run_log_skip(&r->log, target->folder);
    } else if (status == FF_OK) {
        const ff_predictor *p = &r->models[0];
        if (single_sequence)
            FF_WARN(ctx, "%s: %s", target->folder, ff_input_single_sequence_note());
        const ff_evoformer_config *t = &p->model.evoformer.config;
        ff_run_log_target(&r->log, &(ff_run_target){.name = target->folder,
                                                    .num_res = target->num_res,
                                                    .num_predictions = r->num_models * r->o.num_seeds,
                                                    .num_recycle = p->forward.num_recycle >= 0 ? p->forward.num_recycle
                                                                                               : p->process.num_recycle,
                                                    .num_ensemble = r->o.num_ensemble,
                                                    .num_steps = t->evoformer_num_block + t->extra_msa_num_block + 1});
        status = predict_all(r, target, features, single_sequence, folder.path);
        if (status == FF_OK)
            status = ff_target_folder_end(ctx, &folder, target, FF_TARGET_FINISHED, NULL);
        else
            ff_target_folder_end(ctx, &folder, target, FF_TARGET_FAILED, ctx->message);
    }
    ff_target_folder_destroy(&folder);
    return status;
}

static ff_status predict_features(infer_run *r, const ff_target *target, const ff_array_set *features, bool single_sequence)
{
    FF_TRY(plan_target(r, target, features));
    return r->o.plan ? FF_OK : run_in_folder(r, target, features, single_sequence);
}

static ff_status run_target(infer_run *r, const ff_target *target, int64_t query)
{
    ff_ctx *ctx = &r->ctx;
    ff_status status = FF_OK;
    ff_made_features made;
    if (target->problem != NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s", target->problem);
    if (r->maker == NULL)
        return predict_features(r, target, &r->given, false);
    if (r->o.plan && ff_feature_maker_searches(r->maker))
        return plan_target(r, target, NULL);
    FF_TRY_DONE(ff_feature_maker_make(ctx, r->maker, query, &made));
    const bool single_sequence = made.counts.num_seq < 2;
    if (ff_feature_maker_complaint(r->maker, query) != NULL)
        FF_WARN(ctx, "%s", ff_feature_maker_complaint(r->maker, query));
    status = predict_features(r, target, &made.set, single_sequence);
done:
    ff_made_features_destroy(&made);
    return status;
}

/* A target that failed before its folder was begun says so there as well, unless an earlier result is in it. */
static void record_failure(infer_run *r, const ff_target *target)
{
    ff_ctx quiet = r->ctx;
    ff_target_folder folder = {0};
    ff_context_clear(&quiet);
    if (!r->folder_begun && ff_target_folder_begin(&quiet, &folder, r->o.output_dir, target, "", false) == FF_OK)
        ff_target_folder_end(&quiet, &folder, target, FF_TARGET_FAILED, r->ctx.message);
    ff_target_folder_destroy(&folder);
}

/* ---- 4. all targets ---- */

/* An input that cannot be read is a target with a problem when there are others. */
static ff_status add_input(infer_run *r, const char *path, bool only)
{
    char problem[FF_MESSAGE_BYTES];
    if (ff_targets_add_path(&r->ctx, &r->targets, path) == FF_OK || only || r->ctx.status == FF_ERR_MEM)
        return r->ctx.status;
    snprintf(problem, sizeof problem, "%s", r->ctx.message);
    ff_context_clear(&r->ctx);
    const char *slash = strrchr(path, '/');
    return ff_targets_add(&r->ctx, &r->targets, slash == NULL ? path : slash + 1, "", path, NULL, NULL, problem);
}

/* The number of passes is the batch's, unless the command line says how many of them. */
static void use_batch_passes(infer_run *r)
{
    const int64_t slices = ff_array_find(&r->given, "msa_feat")->shape[0];
    for (int64_t m = 0; m < r->num_models; m++)
        if (r->o.num_recycle < 0)
            r->models[m].process.num_recycle = slices / r->o.num_ensemble - 1;
}

static ff_status collect_targets(infer_run *r, const ff_arguments *args)
{
    ff_ctx *ctx = &r->ctx;
    const ff_infer_options *o = &r->o;
    bool placeholder = o->placeholder != 0;
    if (o->features != NULL)
        FF_TRY(ff_input_read_features(ctx, &r->given, &r->targets, o->features));
    if (o->batch != NULL) {
        FF_TRY(ff_input_read_batch(ctx, &r->given, &r->targets, o->batch, &placeholder));
        use_batch_passes(r);
    }
    for (int64_t m = 0; m < r->num_models; m++)
        r->models[m].forward.template_torsion_placeholder = placeholder;
    for (int i = 0; i < args->num_positional; i++)
        FF_TRY(add_input(r, args->positional[i], args->num_positional == 1));
    if (r->targets.count > 1 && (o->make.msas.count > 0 || o->make.hhr != NULL))
        return FF_FAIL(ctx, FF_ERR_ARG, "--msa and --hhr belong to one target, and the input holds %lld; --msa-dir DIR serves several",
                       (long long)r->targets.count);
    FF_TRY(ff_targets_choose_folders(ctx, &r->targets));
    ff_targets_sort(&r->targets);
    return o->plan ? FF_OK : ff_targets_write_names(ctx, &r->targets, o->output_dir);
}

/* What cannot fit even without an alignment is found out before hours of searching. */
static ff_status check_memory(infer_run *r, ff_target *target)
{
    ff_ctx *ctx = &r->ctx;
    for (int64_t m = 0; m < r->num_models && r->o.max_memory > 0; m++) {
        ff_predict_cost cost;
        FF_TRY(ff_predict_plan(ctx, &r->models[m], target->num_res, 1, 0, 0, &cost));
        if (ff_predict_fits(ctx, &r->models[m], &cost, r->o.max_memory) == FF_OK)
            continue;
        target->problem = strdup(ctx->message);
        ff_context_clear(ctx);
        return target->problem == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory") : FF_OK;
    }
    return FF_OK;
}

/* Targets that are sequences: their alignments and templates, found or searched. */
static ff_status find_inputs(infer_run *r)
{
    ff_ctx *ctx = &r->ctx;
    const size_t most = (size_t)r->targets.count + 1;
    int64_t count = 0;
    if (r->maker == NULL)
        return FF_OK;
    r->queries = calloc(most, sizeof *r->queries);
    r->query_names = calloc(most, sizeof *r->query_names);
    r->query_of = calloc(most, sizeof *r->query_of);
    if (r->queries == NULL || r->query_names == NULL || r->query_of == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for targets");
    for (int64_t i = 0; i < r->targets.count; i++) {
        ff_target *t = &r->targets.items[i];
        r->query_of[i] = -1;
        if (t->problem == NULL && ff_feature_maker_searches(r->maker))
            FF_TRY(check_memory(r, t));
        if (t->problem != NULL)
            continue;
        ff_fasta_file_name(r->query_names[count], t->name);
        r->query_of[i] = count;
        r->queries[count] = (ff_feature_query){.name = r->query_names[count],
                                               .description = t->name,
                                               .sequence = t->sequence,
                                               .source = t->source,
                                               .msa = t->msa_path};
        count++;
    }
    FF_TRY(ff_feature_maker_set_queries(ctx, r->maker, r->queries, count));
    return r->o.plan ? FF_OK : ff_feature_maker_search(ctx, r->maker, NULL, NULL);
}

/* What searches found stays beside the predictions: a run that is stopped need not search again. */
static ff_status open_maker(infer_run *r)
{
    if (r->o.features != NULL || r->o.batch != NULL)
        return FF_OK;
    if (r->o.make.cache == NULL && !r->o.plan) {
        r->cache = ff_path_join(&r->ctx, r->o.output_dir, ".searches");
        if (r->cache == NULL)
            return r->ctx.status;
        r->o.make.cache = r->cache;
    }
    return ff_feature_maker_create(&r->ctx, &r->maker, &r->o.make, &told_to_end);
}

static ff_status set_up(infer_run *r)
{
    ff_ctx *ctx = &r->ctx;
    const ff_infer_options *o = &r->o;
    ctx->seed = (uint64_t)o->seed;
#ifdef _OPENMP
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
#endif
    FF_TRY(ff_kernels_get(ctx, &ctx->kernels, (ff_backend)o->backend, (ff_isa)(o->isa - 1), (ff_dtype)o->dtype));
    FF_TRY(ff_pool_create(ctx, 0, false));
    FF_TRY(open_models(r));
    return open_maker(r);
}

static int64_t query_of(const infer_run *r, int64_t target) { return r->query_of == NULL ? -1 : r->query_of[target]; }

/* Costs alone. */
static int plan_targets(infer_run *r)
{
    int exit_status = EXIT_DONE;
    for (int64_t i = 0; i < r->targets.count && told_to_end == 0; i++) {
        const ff_target *target = &r->targets.items[i];
        if (run_target(r, target, query_of(r, i)) == FF_OK)
            continue;
        ff_log_write(&r->ctx.log, FF_LOG_ERROR, "%s: %s", target->folder, r->ctx.message);
        ff_context_clear(&r->ctx);
        exit_status = EXIT_FAILED_;
    }
    return exit_status;
}

/* One bad target does not stop the rest; a signal does. */
static int run_targets(infer_run *r)
{
    ff_ctx *ctx = &r->ctx;
    if (r->o.plan)
        return plan_targets(r);
    ff_run_log_begin(&r->log, ctx, stderr, r->targets.count, &told_to_end);
    for (int64_t i = 0; i < r->targets.count && told_to_end == 0; i++) {
        const ff_target *target = &r->targets.items[i];
        r->folder_begun = false;
        if (run_target(r, target, query_of(r, i)) == FF_OK)
            continue;
        record_failure(r, target);
        ff_run_log_target_end(&r->log, target->folder, FF_TARGET_FAILED, ctx->message, NULL);
        ff_context_clear(ctx);
    }
    return ff_run_log_end(&r->log);
}

static void clean_up(infer_run *r)
{
    ff_feature_maker_destroy(r->maker);
    free(r->cache);
    free(r->queries);
    free(r->query_names);
    free(r->query_of);
    for (int64_t i = 0; i < r->num_models; i++)
        ff_predictor_close(&r->models[i]);
    free(r->models);
    ff_targets_destroy(&r->targets);
    ff_array_set_destroy(&r->given);
    if (r->ctx.pool != NULL)
        ff_pool_destroy(&r->ctx);
}

/* ---- 5. main ---- */

/* The last word of a run that did not get to its targets, or was stopped: one line, also for those who read JSON. */
static void say(const infer_run *r, const char *message)
{
    if (r->o.json_log)
        ff_log_write(&r->ctx.log, FF_LOG_ERROR, "%s", message);
    else
        fprintf(stderr, "%s: %s\n", ff_infer_program.name, message);
}

static int run_all(infer_run *r, const ff_arguments *args)
{
    char message[96];
    int exit_status;
    r->ctx.log.json = r->o.json_log;
    watch_signals();
    if (set_up(r) == FF_OK && collect_targets(r, args) == FF_OK && find_inputs(r) == FF_OK) {
        exit_status = run_targets(r);
    } else {
        exit_status = r->ctx.status == FF_ERR_ARG ? EXIT_USAGE : EXIT_FAILED_;
        if (told_to_end == 0)
            say(r, r->ctx.message);
    }
    if (told_to_end != 0) {
        snprintf(message, sizeof message, "stopped by signal %d; the same command goes on where it was", (int)told_to_end);
        say(r, message);
        exit_status = EXIT_FAILED_;
    }
    return exit_status;
}

int main(int argc, char **argv)
{
    infer_run r = {.maker = NULL};
    ff_arguments args;
    ff_context_init(&r.ctx);
    ff_array_set_init(&r.given);
    if (ff_infer_options_read(&r.ctx, &r.o, argc, argv, &args) != FF_OK) {
        say(&r, r.ctx.message);
        return EXIT_USAGE;
    }
    if (args.help || args.version) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&ff_infer_program, stdout);
        return EXIT_DONE;
    }
    const int exit_status = run_all(&r, &args);
    clean_up(&r);
    return exit_status;
}
