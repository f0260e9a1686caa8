/* main_infer.c - fastfold-infer: from sequences to predicted structures.
 *
 * Contents
 *   1. options
 *   2. the run: signals
 *   3. models
 *   4. one target
 *   5. all targets
 *   6. main */
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

#include "core/options.h"
#include "core/sha256.h"
#include "core/version.h"
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

/* ---- 1. options ---- */

typedef struct {
    ff_option_list weights, presets, msas;
    const char *msa_dir, *hhr, *template_dir, *obsolete, *max_template_date, *features, *batch, *output_dir;
    int64_t num_recycle, num_ensemble, num_seq, num_extra, max_templates, seed, num_seeds, threads, max_memory, blocks;
    double recycle_tolerance;
    int dtype, backend, isa, b_column;
    int64_t placeholder;
    bool allow_undated, alphafold_compatible, random_weights, plan, save_raw, overwrite, json_log, mmcif, report;
} infer_options;

#define AT(member) offsetof(infer_options, member)
static const ff_option table[] = {
    {"weights", FF_OPTION_LIST, AT(weights), NULL, NULL, "Model",
     "AlphaFold .npz, checkpoint .h5 or OpenFold .pt; given again = several models, ranked"},
    {"preset", FF_OPTION_LIST, AT(presets), NULL, NULL, "Model",
     "model_1 .. model_5, model_1_ptm .. model_5_ptm, small, tiny; one for each --weights (default: what the file fits)"},
    {"random-weights", FF_OPTION_FLAG, AT(random_weights), NULL, NULL, "Model",
     "numbers of no meaning instead of a weight file: to try the machinery"},
    {"num-recycle", FF_OPTION_INT64, AT(num_recycle), "-1", "-1..100", "Model",
     "passes after the first; -1 = as the preset (or the batch) has it"},
    {"recycle-tolerance", FF_OPTION_DOUBLE, AT(recycle_tolerance), "0", "0..", "Model",
     "stop recycling when CA distances change less than this, Å root mean square; 0 = never"},
    {"num-ensemble", FF_OPTION_INT64, AT(num_ensemble), "1", "1..64", "Model", "samples of the MSA averaged in a pass"},
    {"num-seq", FF_OPTION_INT64, AT(num_seq), "-1", "-1..", "Model", "most MSA rows; -1 = as the preset has it"},
    {"num-extra", FF_OPTION_INT64, AT(num_extra), "-1", "-1..", "Model", "most extra MSA rows"},
    {"max-templates", FF_OPTION_INT64, AT(max_templates), "-1", "-1..8", "Model", "most templates"},
    {"template-torsion-placeholder", FF_OPTION_INT64, AT(placeholder), "1", "0..1", "Model",
     "1: undefined template torsions are sin 1, cos 0 (repeatable); 0: what released AlphaFold makes of them"},
    {"seed", FF_OPTION_INT64, AT(seed), "0", "0..", "Model", "key of the rows drawn from the MSA"},
    {"num-seeds", FF_OPTION_INT64, AT(num_seeds), "1", "1..1000", "Model", "predictions by seed, seed + 1, ..., ranked"},
    {"blocks", FF_OPTION_INT64, AT(blocks), "0", "0..48", "Model", "run only so many Evoformer blocks (for benchmarks); 0 = all"},
    {"msa", FF_OPTION_LIST, AT(msas), NULL, NULL, "Input", "A3M or Stockholm file of the only target; may be given again"},
    {"msa-dir", FF_OPTION_STRING, AT(msa_dir), NULL, NULL, "Input", "folder with NAME/*.a3m, *.sto, *.hhr or NAME.a3m ... for each target"},
    {"hhr", FF_OPTION_STRING, AT(hhr), NULL, NULL, "Input", "template hits of the only target (hhsearch or hmmsearch)"},
    {"template-dir", FF_OPTION_STRING, AT(template_dir), NULL, NULL, "Input", "folder of mmCIF or PDB files of the hits"},
    {"obsolete", FF_OPTION_STRING, AT(obsolete), NULL, NULL, "Input", "the PDB's obsolete.dat"},
    {"max-template-date", FF_OPTION_STRING, AT(max_template_date), NULL, NULL, "Input", "latest release date of a template, YYYY-MM-DD"},
    {"allow-undated", FF_OPTION_FLAG, AT(allow_undated), NULL, NULL, "Input", "files without a release date pass the cut-off"},
    {"alphafold-compatible", FF_OPTION_FLAG, AT(alphafold_compatible), NULL, NULL, "Input", "refuse what AlphaFold refuses"},
    {"features", FF_OPTION_STRING, AT(features), NULL, NULL, "Input", "features.h5 of fastfold-data instead of a sequence"},
    {"batch", FF_OPTION_STRING, AT(batch), NULL, NULL, "Input", "FILE.h5 or FILE.h5:/GROUP, arrays as the model reads them"},
    {"dtype", FF_OPTION_ENUM, AT(dtype), "f32", "f32|bf16", "Machine", "type of matrix-product operands"},
    {"backend", FF_OPTION_ENUM, AT(backend), "cpu", "cpu|emulated|cuda", "Machine", "where kernels run"},
    {"isa", FF_OPTION_ENUM, AT(isa), "best", "best|plain|avx2|avx512|avx512_bf16|amx", "Machine", "instruction set"},
    {"threads", FF_OPTION_INT64, AT(threads), "0", "0..4096", "Machine", "OpenMP threads, 0 = as the environment says"},
    {"max-memory", FF_OPTION_BYTES, AT(max_memory), NULL, "64M..", "Machine", "memory budget, like 20G; default: no limit"},
    {"plan", FF_OPTION_FLAG, AT(plan), NULL, NULL, "Machine", "only say what it takes"},
    {"output-dir", FF_OPTION_STRING, AT(output_dir), "predictions", NULL, "Output", "folder for a folder of each target"},
    {"overwrite", FF_OPTION_FLAG, AT(overwrite), NULL, NULL, "Output", "replace results that are there"},
    {"save-raw", FF_OPTION_FLAG, AT(save_raw), NULL, NULL, "Output", "result.h5 with all outputs of the model"},
    {"mmcif", FF_OPTION_FLAG, AT(mmcif), "on", NULL, "Output", "write ranked_N.cif (ModelCIF)"},
    {"report", FF_OPTION_FLAG, AT(report), "on", NULL, "Output", "write report.html"},
    {"b-factor", FF_OPTION_ENUM, AT(b_column), "plddt", "plddt|100-plddt", "Output", "what the B-factor column holds"},
    {"json-log", FF_OPTION_FLAG, AT(json_log), NULL, NULL, "Output", "log records as JSON lines"},
    FF_OPTION_END};

static const ff_program program = {
    "fastfold-infer", "[options] INPUT...",
    "Predicts the structures of proteins. INPUT: FASTA file (every record is a target), A3M file (its first row), a folder of\n"
    "such files, or - for FASTA on standard input.",
    table};

static int usage_error(const char *message)
{
    fprintf(stderr, "%s: %s; --help lists the options\n", program.name, message);
    return EXIT_USAGE;
}

/* What options say together. @return EXIT_DONE when they make sense */
static int check_usage(const infer_options *o, const ff_arguments *args)
{
    const bool file_input = o->features != NULL || o->batch != NULL;
    if (o->features != NULL && o->batch != NULL)
        return usage_error("--features and --batch are both inputs; give one of them");
    if (file_input && args->num_positional > 0)
        return usage_error("--features and --batch stand in place of INPUT");
    if (!file_input && args->num_positional == 0)
        return usage_error("nothing to predict: give a FASTA file");
    if (o->presets.count > 0 && o->weights.count > 0 && o->presets.count != o->weights.count)
        return usage_error("one --preset for each --weights, or none");
    if (o->weights.count == 0 && o->random_weights && o->presets.count == 0)
        return usage_error("--random-weights needs a --preset");
    if (o->weights.count > 0 && o->random_weights)
        return usage_error("--random-weights and --weights exclude each other");
    if (o->hhr != NULL && o->template_dir == NULL)
        return usage_error("--hhr needs --template-dir DIR, where the structures of the hits are");
    return EXIT_DONE;
}

/* ---- 2. the run ---- */

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
    infer_options o;
    ff_predictor *models; /* [num_models] */
    int64_t num_models;
    ff_template_source *templates;
    ff_targets targets;
    ff_array_set given; /* of --features or --batch */
    ff_run_log log;
    char weights_hash[FF_SHA256_HEX_BYTES];
} infer_run;

/* ---- 3. models ---- */

/* Options of the command line over those of the preset. */
static void adjust(const infer_options *o, ff_predictor *p)
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
    else if (weights == NULL && !r->o.random_weights)
        return ff_weights_absent(ctx, preset);
    else
        FF_TRY(ff_predictor_open(ctx, p, preset, weights, (uint64_t)r->o.seed));
    adjust(&r->o, p);
    FF_INFO(ctx, "model %s%s: %lld parameters from %s", p->name, asked == NULL ? " (as the file fits)" : "",
            (long long)p->model.parameters.total, weights == NULL ? "a random generator: the prediction means nothing" : weights);
    return FF_OK;
}

/* Names, sizes and times of weight files, and the options that change a result. */
static void hash_models(infer_run *r)
{
    const infer_options *o = &r->o;
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
    const infer_options *o = &r->o;
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

/* ---- 4. one target ---- */

/* Features of a target, and what was found. */
static ff_status get_features(infer_run *r, const ff_target *target, ff_array_set *features, ff_input_counts *counts)
{
    const infer_options *o = &r->o;
    const ff_input_options input = {.msas = o->msas.items,
                                    .num_msas = o->msas.count,
                                    .msa_dir = o->msa_dir,
                                    .hhr = o->hhr,
                                    .templates = r->templates,
                                    .alphafold_compatible = o->alphafold_compatible};
    return ff_input_features(&r->ctx, features, target, &input, counts);
}

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

/* Sizes of the batch a model gets from these features (or of the batch that was given). */
static void batch_sizes(const infer_run *r, const ff_predictor *p, const ff_target *target, const ff_array_set *features,
                        int64_t *num_seq, int64_t *num_extra, int64_t *num_templ)
{
    const ff_array *msa = ff_array_find(features, r->o.batch != NULL ? "msa_feat" : "msa");
    const ff_array *extra = ff_array_find(features, "extra_msa"), *templates = ff_array_find(features, "template_aatype");
    const ff_process_options *d = &p->process;
    (void)target;
    *num_templ = templates == NULL ? 0 : templates->shape[r->o.batch != NULL ? 1 : 0];
    if (r->o.batch != NULL) {
        *num_seq = msa->shape[1];
        *num_extra = extra == NULL ? 0 : extra->shape[1];
        return;
    }
    const int64_t rows = msa->shape[0], most = d->num_seq - (d->reduce_msa_clusters_by_max_templates ? d->max_templates : 0);
    *num_seq = rows < most ? rows : most;
    *num_extra = rows - *num_seq < d->num_extra ? rows - *num_seq : d->num_extra;
    *num_templ = *num_templ < d->max_templates ? *num_templ : d->max_templates;
}

static void print_cost(const ff_target *target, const ff_predictor *p, const ff_predict_cost *c)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    printf("%s, %s: %lld residues, %lld MSA rows, %lld extra rows, %lld templates: %.2f GiB (weights %.2f, batch %.2f, "
           "activations %.2f, results %.2f), %.2f TFLOP a pass, %.2f in all\n",
           target->folder, p->name, (long long)c->num_res, (long long)c->num_seq, (long long)c->num_extra,
           (long long)c->num_templ, c->total_bytes / gib, c->weights_bytes / gib, c->batch_bytes / gib,
           c->activation_bytes / gib, c->result_bytes / gib, c->flop / 1e12, c->flop_all / 1e12);
}

/* Plan, print when asked, and refuse what does not fit. */
static ff_status plan_target(infer_run *r, const ff_target *target, const ff_array_set *features)
{
    for (int64_t m = 0; m < r->num_models; m++) {
        ff_predict_cost cost;
        int64_t num_seq, num_extra, num_templ;
        batch_sizes(r, &r->models[m], target, features, &num_seq, &num_extra, &num_templ);
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
    ff_status status = ff_target_folder_begin(ctx, &folder, r->o.output_dir, target, hash, r->o.overwrite);
    if (status == FF_OK && folder.finished) {
        ff_run_log_skip(&r->log, target->folder);
    } else if (status == FF_OK) {
        const ff_predictor *p = &r->models[0];
        const ff_evoformer_config *t = &p->model.evoformer.config;
        ff_run_log_target(&r->log, &(ff_run_target){.name = target->folder,
                                                    .num_res = target->num_res,
                                                    .num_predictions = r->num_models * r->o.num_seeds,
                                                    .num_recycle = p->process.num_recycle,
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

static ff_status run_target(infer_run *r, const ff_target *target)
{
    ff_ctx *ctx = &r->ctx;
    ff_status status = FF_OK;
    ff_array_set made, *features = &r->given;
    ff_input_counts counts = {0};
    ff_array_set_init(&made);
    if (target->problem != NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s", target->problem);
    if (r->o.features == NULL && r->o.batch == NULL) {
        features = &made;
        FF_TRY_DONE(get_features(r, target, &made, &counts));
        if (counts.single_sequence)
            FF_WARN(ctx, "%s: %s", target->folder, ff_input_single_sequence_note());
    }
    FF_TRY_DONE(plan_target(r, target, features));
    if (!r->o.plan)
        status = run_in_folder(r, target, features, counts.single_sequence);
done:
    ff_array_set_destroy(&made);
    return status;
}

/* ---- 5. all targets ---- */

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

static ff_status collect_targets(infer_run *r, const ff_arguments *args)
{
    ff_ctx *ctx = &r->ctx;
    const infer_options *o = &r->o;
    bool placeholder = o->placeholder != 0;
    if (o->features != NULL)
        FF_TRY(ff_input_read_features(ctx, &r->given, &r->targets, o->features));
    if (o->batch != NULL)
        FF_TRY(ff_input_read_batch(ctx, &r->given, &r->targets, o->batch, &placeholder));
    for (int64_t m = 0; m < r->num_models; m++)
        r->models[m].forward.template_torsion_placeholder = placeholder;
    for (int i = 0; i < args->num_positional; i++)
        FF_TRY(add_input(r, args->positional[i], args->num_positional == 1));
    if (r->targets.count > 1 && (o->msas.count > 0 || o->hhr != NULL))
        return FF_FAIL(ctx, FF_ERR_ARG, "--msa and --hhr belong to one target, and the input holds %lld; --msa-dir DIR serves several",
                       (long long)r->targets.count);
    FF_TRY(ff_targets_choose_folders(ctx, &r->targets));
    ff_targets_sort(&r->targets);
    return o->plan ? FF_OK : ff_targets_write_names(ctx, &r->targets, o->output_dir);
}

static ff_status open_templates(infer_run *r)
{
    const infer_options *o = &r->o;
    if (o->template_dir == NULL)
        return FF_OK;
    const ff_template_options options = {.folder = o->template_dir,
                                         .obsolete = o->obsolete,
                                         .max_date = o->max_template_date,
                                         .allow_undated = o->allow_undated,
                                         .alphafold_compatible = o->alphafold_compatible,
                                         .cancel = &told_to_end};
    return ff_template_source_create(&r->ctx, &r->templates, &options);
}

static ff_status set_up(infer_run *r)
{
    ff_ctx *ctx = &r->ctx;
    const infer_options *o = &r->o;
    ctx->log.json = o->json_log;
    ctx->seed = (uint64_t)o->seed;
#ifdef _OPENMP
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
#endif
    FF_TRY(ff_kernels_get(ctx, &ctx->kernels, (ff_backend)o->backend, (ff_isa)(o->isa - 1), (ff_dtype)o->dtype));
    FF_TRY(ff_pool_create(ctx, 0, false));
    FF_TRY(open_models(r));
    return open_templates(r);
}

/* Costs alone. */
static int plan_targets(infer_run *r)
{
    int exit_status = EXIT_DONE;
    for (int64_t i = 0; i < r->targets.count && told_to_end == 0; i++) {
        if (run_target(r, &r->targets.items[i]) == FF_OK)
            continue;
        fprintf(stderr, "%s: %s: %s\n", program.name, r->targets.items[i].folder, r->ctx.message);
        ff_context_clear(&r->ctx);
        exit_status = EXIT_FAILED_;
    }
    return told_to_end != 0 ? EXIT_FAILED_ : exit_status;
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
        if (run_target(r, target) == FF_OK)
            continue;
        ff_run_log_target_end(&r->log, target->folder, FF_TARGET_FAILED, ctx->message, NULL);
        ff_context_clear(ctx);
    }
    const int exit_status = ff_run_log_end(&r->log);
    if (told_to_end != 0)
        fprintf(stderr, "%s: stopped by signal %d; run it again to go on\n", program.name, (int)told_to_end);
    return exit_status;
}

static void clean_up(infer_run *r)
{
    ff_template_source_destroy(r->templates);
    for (int64_t i = 0; i < r->num_models; i++)
        ff_predictor_close(&r->models[i]);
    free(r->models);
    ff_targets_destroy(&r->targets);
    ff_array_set_destroy(&r->given);
    if (r->ctx.pool != NULL)
        ff_pool_destroy(&r->ctx);
}

/* ---- 6. main ---- */

int main(int argc, char **argv)
{
    infer_run r = {0};
    ff_arguments args;
    ff_context_init(&r.ctx);
    ff_array_set_init(&r.given);
    if (ff_options_parse(&r.ctx, &program, &r.o, argc, argv, &args) != FF_OK) {
        fprintf(stderr, "%s: %s\n", program.name, r.ctx.message);
        return EXIT_USAGE;
    }
    if (args.help || args.version) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&program, stdout);
        return EXIT_DONE;
    }
    int exit_status = check_usage(&r.o, &args);
    if (exit_status != EXIT_DONE)
        return exit_status;
    watch_signals();
    if (set_up(&r) == FF_OK && collect_targets(&r, &args) == FF_OK) {
        exit_status = run_targets(&r);
    } else {
        fprintf(stderr, "%s: %s\n", program.name, r.ctx.message);
        exit_status = r.ctx.status == FF_ERR_ARG ? EXIT_USAGE : EXIT_FAILED_;
    }
    clean_up(&r);
    return exit_status;
}
