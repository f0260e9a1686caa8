/* bench_train.c - the command `train`: a step of the optimiser, every loss, and whole training steps of the presets.
 *
 * Contents: the optimiser; inputs of the losses; the losses; training steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "core/clock.h"
#include "bench/cases.h"
#include "bench/training.h"
#include "io/safe_file.h"
#include "tensor/pool.h"
#include "train/model_loss.h"
#include "train/plan.h"

/* ---- the optimiser ---- */

/* Floats of the block that a preset's model has. */
static ff_status count_parameters(ff_ctx *ctx, int64_t blocks, int64_t *total)
{
    ff_status status = FF_OK;
    ff_model_config config;
    ff_model model = {0};
    ff_ctx dry = *ctx; /* shapes only */
    dry.pool = NULL;
    FF_TRY(ff_model_config_preset(ctx, &config, "model_1_ptm"));
    if (blocks > 0)
        config.evoformer.evoformer_num_block = blocks;
    FF_TRY(ff_pool_create(&dry, 0, true));
    FF_TRY_DONE(ff_model_create(&dry, &model, &config, true));
    *total = model.parameters.total;
done:
    ff_model_destroy(&model);
    ff_pool_destroy(&dry);
    return status == FF_OK ? FF_OK : FF_FAIL(ctx, status, "%.900s", dry.message);
}

/* Norm: gradients are read. Update: gradients, both moments, values and average are read and written. */
enum { OPTIMISER_BYTES = 4 + 5 * 2 * 4 };

static ff_status run_optimiser(const bench_cases *cases, int64_t total, float *values, float *grads)
{
    ff_status status = FF_OK;
    ff_optimizer o = {0};
    bench_peaks peaks = {0};
    const ff_optimizer_config config = ff_optimizer_alphafold(false);
    double *seconds = calloc((size_t)cases->repeat, sizeof *seconds);
    if (seconds == NULL)
        return FF_FAIL(cases->ctx, FF_ERR_MEM, "out of memory");
    bench_fill(values, total, 1, 1);
    bench_fill(grads, total, 1e-3f, 2);
    FF_TRY_DONE(ff_optimizer_create(cases->ctx, &o, &config, values, total));
    if (!cases->quick)
        FF_TRY_DONE(bench_peaks_begin(cases->ctx, &peaks, cases->ctx->kernels->dtype));
    ff_optimizer_step(&o, values, grads, 1, true);
    for (int64_t k = 0; k < cases->repeat; k++) {
        bench_fill(grads, total, 1e-3f, 2);
        if (!cases->quick)
            bench_peaks_run(&peaks);
        const double begin = ff_clock_s();
        const ff_step_report report = ff_optimizer_step(&o, values, grads, 1, true);
        seconds[k] = ff_clock_s() - begin;
        if (!report.applied)
            FF_TRY_DONE(FF_FAIL(cases->ctx, FF_ERR_FORMAT, "the optimiser refused finite gradients"));
    }
    const bench_seconds s = bench_summary(seconds, cases->repeat);
    const double gbytes = 1e-9 * OPTIMISER_BYTES * (double)total / s.median;
    bench_print_case(cases, "optimiser_step", s,
                     BENCH_FIGURES({"parameters", "parameters", (double)total}, {"gbytes_per_second", "GB/s", gbytes},
                                   {"memory_bandwidth", "GB/s copied", peaks.bandwidth},
                                   {"percent_of_copy", "% of it", peaks.bandwidth > 0 ? 100 * gbytes / peaks.bandwidth : 0}));
done:
    bench_peaks_end(&peaks);
    ff_optimizer_destroy(&o);
    free(seconds);
    return status;
}

static ff_status time_optimiser(const bench_cases *cases)
{
    int64_t total = 0;
    FF_TRY(count_parameters(cases->ctx, cases->blocks, &total));
    const size_t bytes = ((size_t)total * sizeof(float) + 63) / 64 * 64;
    float *values = aligned_alloc(64, bytes), *grads = aligned_alloc(64, bytes);
    const ff_status status = values == NULL || grads == NULL
                                 ? FF_FAIL(cases->ctx, FF_ERR_MEM, "out of memory for %lld parameters", (long long)total)
                                 : run_optimiser(cases, total, values, grads);
    free(grads);
    free(values);
    return status;
}

/* ---- inputs of the losses ---- */

enum { LAYERS = 8, DISTOGRAM_BINS = 64, PAE_BINS = 64, PLDDT_BINS = 50, MSA_CLASSES = 23, STREAM = 200 };

/* Predictions of a made-up chain, off by about 1 Å, with its labels and all gradients. */
typedef struct {
    int64_t num_res, num_seq;
    bench_chain chain;
    ff_array_set labels, arrays; /* predictions and gradients by name */
    const float *traj[LAYERS], *angles[LAYERS];
    float *grad_traj[LAYERS], *grad_angles[LAYERS], *grad_unnormalized[LAYERS];
    ff_loss_inputs in;
    ff_loss_grads grads;
    float *renamed; /* out of the renaming */
} loss_state;

static float *add(ff_ctx *ctx, ff_array_set *set, const char *name, int64_t size)
{
    ff_array *a = ctx->status == FF_OK ? ff_array_add(ctx, set, name, FF_ARRAY_FLOAT32, FF_DIMS(1, size)) : NULL;
    return a == NULL ? NULL : a->f32;
}

/* An array of its own that is `base` (NULL = 0) with noise added. */
static float *shaken(ff_ctx *ctx, loss_state *s, const char *name, const float *base, int64_t size, float scale)
{
    float *x = add(ctx, &s->arrays, name, size);
    if (x == NULL)
        return NULL;
    bench_fill(x, size, scale, (uint64_t)(STREAM + s->arrays.count));
    for (int64_t i = 0; base != NULL && i < size; i++)
        x[i] += base[i];
    return x;
}

static const float *label(const loss_state *s, const char *name)
{
    const ff_array *a = ff_array_find(&s->labels, name);
    return a == NULL ? NULL : a->f32;
}

static ff_status make_labels(ff_ctx *ctx, loss_state *s)
{
    const int64_t n = s->num_res, places = s->num_seq * n;
    FF_TRY(bench_chain_make(ctx, &s->chain, n, 1));
    ff_array *aatype = ff_array_add(ctx, &s->labels, "aatype", FF_ARRAY_INT32, FF_DIMS(1, n));
    ff_array *positions = ff_array_add(ctx, &s->labels, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(1, n, 37, 3));
    ff_array *mask = ff_array_add(ctx, &s->labels, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(1, n, 37));
    ff_array *true_msa = ff_array_add(ctx, &s->labels, "true_msa", FF_ARRAY_INT32, FF_DIMS(s->num_seq, n));
    float *hidden = add(ctx, &s->labels, "bert_mask", places), *ones = add(ctx, &s->labels, "seq_mask", n);
    float *edges = add(ctx, &s->labels, "edges", DISTOGRAM_BINS - 1), *breaks = add(ctx, &s->labels, "breaks", PAE_BINS - 1);
    FF_TRY(ctx->status);
    memcpy(aatype->i32, s->chain.aatype, (size_t)n * sizeof *aatype->i32);
    memcpy(positions->f32, s->chain.positions, (size_t)(n * 111) * sizeof *positions->f32);
    memcpy(mask->f32, s->chain.mask, (size_t)(n * 37) * sizeof *mask->f32);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1;
    for (int64_t i = 0; i < places; i++) {
        true_msa->i32[i] = (int32_t)(5 * i % MSA_CLASSES);
        hidden[i] = i % 7 == 0 ? 1 : 0; /* 15 % of the places */
    }
    for (int k = 0; k < DISTOGRAM_BINS - 1; k++)
        edges[k] = 2.3125f + 0.3125f * (float)k;
    for (int k = 0; k < PAE_BINS - 1; k++)
        breaks[k] = 0.5f * (float)k;
    return ff_model_make_labels(ctx, &s->labels);
}

static void make_predictions(ff_ctx *ctx, loss_state *s)
{
    const int64_t n = s->num_res;
    char name[32];
    for (int l = 0; l < LAYERS; l++) {
        snprintf(name, sizeof name, "traj%d", l);
        s->traj[l] = shaken(ctx, s, name, label(s, "backbone_affine_tensor"), 7 * n, 0.1f);
        snprintf(name, sizeof name, "angles%d", l);
        s->angles[l] = shaken(ctx, s, name, NULL, 14 * n, 1);
        snprintf(name, sizeof name, "grad_traj%d", l);
        s->grad_traj[l] = add(ctx, &s->arrays, name, 7 * n);
        snprintf(name, sizeof name, "grad_angles%d", l);
        s->grad_angles[l] = add(ctx, &s->arrays, name, 14 * n);
        snprintf(name, sizeof name, "grad_unnormalized%d", l);
        s->grad_unnormalized[l] = add(ctx, &s->arrays, name, 14 * n);
    }
    s->grads = (ff_loss_grads){
        .traj = s->grad_traj, .angles = s->grad_angles, .unnormalized_angles = s->grad_unnormalized,
        .frames = add(ctx, &s->arrays, "grad_frames", 96 * n), .atom14_pos = add(ctx, &s->arrays, "grad_atoms", 42 * n),
        .distogram_logits = add(ctx, &s->arrays, "grad_distogram", n * n * DISTOGRAM_BINS),
        .masked_msa_logits = add(ctx, &s->arrays, "grad_msa", s->num_seq * n * MSA_CLASSES),
        .plddt_logits = add(ctx, &s->arrays, "grad_plddt", n * PLDDT_BINS),
        .resolved_logits = add(ctx, &s->arrays, "grad_resolved", n * 37),
        .pae_logits = add(ctx, &s->arrays, "grad_pae", n * n * PAE_BINS)};
    s->renamed = add(ctx, &s->arrays, "renamed", n * (1 + 42 + 14 + 96));
}

static void point_inputs(ff_ctx *ctx, loss_state *s)
{
    const int64_t n = s->num_res;
    const float *affine = label(s, "backbone_affine_tensor"), *affine_mask = label(s, "backbone_affine_mask");
    const float *mask = s->chain.mask, *seq_mask = label(s, "seq_mask");
    const float *atoms = shaken(ctx, s, "atom14", label(s, "atom14_gt_positions"), 42 * n, 1);
    const float *frames = shaken(ctx, s, "frames", label(s, "rigidgroups_gt_frames"), 96 * n, 0.1f);
    const float *predicted = shaken(ctx, s, "atom37", s->chain.positions, 111 * n, 1);
    s->in = (ff_loss_inputs){
        .backbone = {LAYERS, n, s->traj, affine, affine_mask, 1},
        .sidechain = {.num_res = n, .frames = frames, .atom14_pos = atoms, .frame_mask = label(s, "rigidgroups_gt_exists")},
        .renaming = {n, atoms, label(s, "atom14_gt_positions"), label(s, "atom14_alt_gt_positions"),
                     label(s, "atom14_gt_exists"), label(s, "atom14_alt_gt_exists"), label(s, "atom14_atom_is_ambiguous"),
                     label(s, "rigidgroups_gt_frames"), label(s, "rigidgroups_alt_gt_frames")},
        .torsion = {LAYERS, n, s->angles, s->angles, s->chain.aatype, label(s, "chi_angles"), label(s, "chi_mask"), seq_mask},
        .violation = {n, atoms, label(s, "atom14_gt_exists"), s->chain.aatype, s->chain.residue_index, seq_mask},
        .distogram = {n, DISTOGRAM_BINS, shaken(ctx, s, "distogram", NULL, n * n * DISTOGRAM_BINS, 2), label(s, "edges"),
                      label(s, "pseudo_beta"), label(s, "pseudo_beta_mask")},
        .masked_msa = {s->num_seq, n, MSA_CLASSES, shaken(ctx, s, "msa", NULL, s->num_seq * n * MSA_CLASSES, 2),
                       ff_array_find(&s->labels, "true_msa")->i32, label(s, "bert_mask")},
        .plddt = {n, PLDDT_BINS, shaken(ctx, s, "plddt", NULL, n * PLDDT_BINS, 2), predicted, s->chain.positions, mask, 2},
        .resolved = {n, shaken(ctx, s, "resolved", NULL, n * 37, 2), mask, mask, 2},
        .pae = {n, PAE_BINS, shaken(ctx, s, "pae", NULL, n * n * PAE_BINS, 2), label(s, "breaks"), s->traj[LAYERS - 1], affine,
                affine_mask, 2}};
}

/* ---- the losses ---- */

static ff_status run_backbone(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    return ff_loss_fape_backbone(ctx, &value, NULL, s->grad_traj, 1, &s->in.backbone);
}

static ff_status run_sidechain(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    ff_sidechain_fape_inputs in = s->in.sidechain;
    in.true_frames = s->in.renaming.true_frames;
    in.true_pos = s->in.renaming.true_pos;
    in.atom_mask = s->in.renaming.exists;
    return ff_loss_fape_sidechain(ctx, &value, s->grads.frames, s->grads.atom14_pos, 1, &in);
}

static ff_status run_renaming(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    const int64_t n = s->num_res;
    float *r = s->renamed;
    return ff_loss_rename_truth(ctx, r, r + n, r + 43 * n, r + 57 * n, &s->in.renaming);
}

static ff_status run_torsion(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    ff_torsion_result result;
    return ff_loss_torsion(ctx, &result, s->grad_angles, s->grad_unnormalized, 1, &s->in.torsion);
}

static ff_status run_violation(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    ff_violation_result result;
    return ff_loss_violation(ctx, &result, NULL, s->grads.atom14_pos, 1, NULL, &s->in.violation);
}

static ff_status run_distogram(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    return ff_loss_distogram(ctx, &value, s->grads.distogram_logits, 1, &s->in.distogram);
}

static ff_status run_masked_msa(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    return ff_loss_masked_msa(ctx, &value, s->grads.masked_msa_logits, 1, &s->in.masked_msa);
}

static ff_status run_plddt(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    return ff_loss_plddt(ctx, &value, NULL, s->grads.plddt_logits, 1, &s->in.plddt);
}

static ff_status run_resolved(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    return ff_loss_resolved(ctx, &value, s->grads.resolved_logits, 1, &s->in.resolved);
}

static ff_status run_pae(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    double value;
    return ff_loss_pae(ctx, &value, s->grads.pae_logits, 1, &s->in.pae);
}

static ff_status run_total(ff_ctx *ctx, void *arg)
{
    loss_state *s = arg;
    ff_loss_parts parts;
    const ff_loss_weights weights = ff_loss_stage_weights(FF_STAGE_PTM);
    return ff_loss_total(ctx, &parts, &s->grads, &s->in, &weights, 16);
}

static ff_status time_losses(const bench_cases *cases)
{
    static const struct {
        const char *name;
        bench_case_fn run;
    } losses[] = {{"loss_fape_backbone", run_backbone}, {"loss_fape_sidechain", run_sidechain},
                  {"loss_renaming", run_renaming},      {"loss_torsion", run_torsion},
                  {"loss_violation", run_violation},    {"loss_distogram", run_distogram},
                  {"loss_masked_msa", run_masked_msa},  {"loss_plddt", run_plddt},
                  {"loss_resolved", run_resolved},      {"loss_pae", run_pae},
                  {"loss_total", run_total}};
    ff_ctx *ctx = cases->ctx;
    ff_status status = FF_OK;
    loss_state s = {.num_res = cases->num_res, .num_seq = cases->num_seq};
    FF_TRY_DONE(make_labels(ctx, &s));
    make_predictions(ctx, &s);
    point_inputs(ctx, &s);
    FF_TRY_DONE(ctx->status);
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        bench_seconds seconds;
        FF_TRY_DONE(bench_time(cases, losses[k].run, &s, &seconds));
        bench_print_case(cases, losses[k].name, seconds,
                         BENCH_FIGURES({"milliseconds", "ms with gradients", 1e3 * seconds.median},
                                       {"num_res", "residues", (double)s.num_res}));
    }
done:
    ff_array_set_destroy(&s.arrays);
    ff_array_set_destroy(&s.labels);
    bench_chain_destroy(&s.chain);
    return status;
}

/* ---- training steps ---- */

static ff_status time_steps(const bench_cases *cases, const char *preset, const ff_chain_source *source)
{
    ff_ctx *ctx = cases->ctx;
    ff_status status = FF_OK;
    ff_train_cost cost = {0};
    bench_peaks peaks = {0};
    bench_training t;
    char name[64];
    bench_reset_resident_peak();
    FF_TRY_DONE(bench_training_open(ctx, &t, preset, source, 1));
    FF_TRY_DONE(ff_train_plan(ctx, &t.settings, -1, &cost));
    FF_TRY_DONE(bench_training_run(ctx, &t, cases->num_steps));
    const size_t resident = bench_resident_peak();
    if (!cases->quick) {
        FF_TRY_DONE(bench_peaks_begin(ctx, &peaks, ctx->kernels->dtype));
        for (int k = 0; k < 5; k++)
            bench_peaks_run(&peaks);
    }
    const double gflops = 1e-9 * cost.flop / t.step.median;
    snprintf(name, sizeof name, "step_%s", preset);
    bench_print_case(cases, name, t.step,
                     BENCH_FIGURES({"samples_per_second", "samples/s", 1 / t.step.median}, {"gflops", "GFLOP/s", gflops},
                                   {"percent_of_peak", "% of GEMM peak", peaks.gflops > 0 ? 100 * gflops / peaks.gflops : 0},
                                   {"wait_percent", "% waiting", 100 * t.wait_s / t.whole_s},
                                   {"update_percent", "% in the optimiser", 100 * t.update_s / t.whole_s},
                                   {"peak_mbytes", "MB resident", 1e-6 * (double)resident},
                                   {"flop", "FLOP", cost.flop}));
done:
    bench_peaks_end(&peaks);
    bench_training_close(ctx, &t);
    return status;
}

static ff_status time_training(const bench_cases *cases)
{
    enum { CHAINS = 8, MIN_RES = 256, MAX_RES = 300, ROWS = 1152 }; /* crops and rows are whole, initial's too */
    const ff_dataset_filter filter = ff_dataset_filter_default();
    ff_chain_source source = {0};
    ff_status status = FF_OK;
    char *folder = NULL, path[4096];
    FF_TRY(ff_make_temporary_folder(cases->ctx, &folder));
    snprintf(path, sizeof path, "%s/made.h5", folder);
    FF_TRY_DONE(bench_write_dataset(cases->ctx, path, CHAINS, MIN_RES, MAX_RES, ROWS));
    FF_TRY_DONE(ff_chain_source_open_dataset(cases->ctx, &source, path, &filter, NULL));
    for (const char *at = cases->presets; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        char preset[32];
        snprintf(preset, sizeof preset, "%.*s", (int)length, at);
        FF_TRY_DONE(time_steps(cases, preset, &source));
        at += length + (at[length] == ',');
    }
done:
    ff_chain_source_close(&source);
    ff_remove_folder(folder);
    free(folder);
    return status;
}

ff_status bench_train(const bench_cases *cases)
{
    bench_print_heads(cases);
    FF_TRY(time_optimiser(cases));
    FF_TRY(time_losses(cases));
    return time_training(cases);
}
