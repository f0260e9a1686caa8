/* Contents: the table; reading; presets; settings. */
#include "train/train_options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

#define AT(member) offsetof(ff_train_options, member)
static const ff_option table[] = {
    {"data", FF_OPTION_STRING, AT(data), NULL, NULL, "Data", "training set: a data set of fastfold-data chains"},
    {"validation", FF_OPTION_STRING, AT(validation), NULL, NULL, "Data", "data set whose chains are predicted with the averaged weights"},
    {"distillation", FF_OPTION_STRING, AT(distillation), NULL, NULL, "Data", "second training set, of predicted structures"},
    {"distillation-fraction", FF_OPTION_DOUBLE, AT(distillation_fraction), "0.75", "0..1", "Data", "samples taken from it"},
    {"overfit", FF_OPTION_STRING, AT(overfit), NULL, NULL, "Data",
     "learn one chain by heart, to see that everything works: its name in --data, or a structure file, as 1a8o.cif or 1a8o.cif:A"},
    {"max-resolution", FF_OPTION_DOUBLE, AT(max_resolution), "9", "0..", "Data", "Å; worse chains are left out"},
    {"max-aa-fraction", FF_OPTION_DOUBLE, AT(max_aa_fraction), "0.8", "0..1", "Data", "largest share of one residue type in a chain"},
    {"min-res", FF_OPTION_INT64, AT(min_res), "0", "0..", "Data", "residues of the shortest chain; 0 = any"},
    {"max-res", FF_OPTION_INT64, AT(max_res), "0", "0..", "Data", "residues of the longest chain; 0 = any"},
    {"max-release-date", FF_OPTION_STRING, AT(max_release_date), NULL, NULL, "Data", "YYYY-MM-DD; later chains are left out"},
    {"cluster-weights", FF_OPTION_FLAG, AT(cluster_weights), "on", NULL, "Data", "draw a chain in proportion to 1 / size of its cluster"},
    {"length-weights", FF_OPTION_FLAG, AT(length_weights), "on", NULL, "Data", "and to its length, between 256 and 512 residues"},
    {"loader-workers", FF_OPTION_INT64, AT(loader_workers), "1", "0..64", "Data", "threads that make samples ahead"},
    {"cache", FF_OPTION_BYTES, AT(cache), "1G", "0..", "Data", "memory for chains that will be drawn again"},

    {"output-dir", FF_OPTION_STRING, AT(output_dir), NULL, NULL, "Run", "folder of the run: checkpoints, metrics, configuration"},
    {"resume", FF_OPTION_FLAG, AT(resume), NULL, NULL, "Run", "go on from the newest whole checkpoint there; start when there is none"},
    {"init-weights", FF_OPTION_STRING, AT(init_weights), NULL, NULL, "Run", "weights to start from: .npz, checkpoint, .pt"},
    {"config", FF_OPTION_STRING, AT(config), NULL, NULL, "Run", "INI file with any of these options; the command line wins"},
    {"steps", FF_OPTION_INT64, AT(steps), "-1", "-1..", "Run", "steps of the whole run (-1 here and below: as the preset has it)"},
    {"seed", FF_OPTION_INT64, AT(seed), "0", "0..", "Run", "of weights, samples and dropout"},
    {"plan", FF_OPTION_FLAG, AT(plan), NULL, NULL, "Run", "print memory and arithmetic of a step, and end"},

    {"preset", FF_OPTION_STRING, AT(preset), "tiny", NULL, "Model", "tiny, small, initial or finetune"},
    {"model", FF_OPTION_STRING, AT(model), NULL, NULL, "Model", "another model: model_1 .. model_5_ptm, small, tiny"},
    {"stage", FF_OPTION_ENUM, AT(stage), "preset", "preset|initial|finetune|ptm", "Model",
     "finetune adds violations and experimentally resolved, ptm also the aligned error"},
    {"crop", FF_OPTION_INT64, AT(crop), "-1", "-1..", "Model", "residues of a sample; 0 = whole chains"},
    {"num-seq", FF_OPTION_INT64, AT(num_seq), "-1", "-1..", "Model", "MSA rows"},
    {"num-extra", FF_OPTION_INT64, AT(num_extra), "-1", "-1..", "Model", "extra MSA rows"},
    {"max-templates", FF_OPTION_INT64, AT(max_templates), "-1", "-1..", "Model", "templates"},
    {"num-recycle", FF_OPTION_INT64, AT(num_recycle), "-1", "-1..", "Model", "most passes after the first"},
    {"draw-recycles", FF_OPTION_FLAG, AT(draw_recycles), "on", NULL, "Model", "0 to num-recycle of them, drawn for each step"},
    {"dropout", FF_OPTION_ENUM, AT(dropout), "preset", "preset|on|off", "Model", "as AlphaFold's, in training"},

    {"batch-size", FF_OPTION_INT64, AT(batch_size), "1", "1..", "Optimisation", "samples of a step"},
    {"learning-rate", FF_OPTION_DOUBLE, AT(learning_rate), "-1", "-1..", "Optimisation", "after the warm-up"},
    {"warmup", FF_OPTION_INT64, AT(warmup), "-1", "-1..", "Optimisation", "steps over which the rate rises"},
    {"decay-start", FF_OPTION_INT64, AT(decay_start), "-1", "-1..", "Optimisation", "last step at the full rate; 0 = never decays"},
    {"decay-every", FF_OPTION_INT64, AT(decay_every), "-1", "-1..", "Optimisation", "steps between further decays; 0 = one decay"},
    {"decay-factor", FF_OPTION_DOUBLE, AT(decay_factor), "-1", "-1..1", "Optimisation", "of each decay"},
    {"clip", FF_OPTION_DOUBLE, AT(clip), "-1", "-1..", "Optimisation", "largest norm of a sample's gradient; 0 = any"},
    {"ema-decay", FF_OPTION_DOUBLE, AT(ema_decay), "-1", "-1..1", "Optimisation", "of the averaged weights"},
    {"violation-weight", FF_OPTION_DOUBLE, AT(violation_weight), "-1", "-1..", "Optimisation", "of structural violations in the loss"},
    {"violation-from", FF_OPTION_INT64, AT(violation_from), "-1", "-1..", "Optimisation", "steps without violation loss before it begins"},
    {"mask-fraction", FF_OPTION_DOUBLE, AT(mask_fraction), "-1", "-1..1", "Optimisation", "MSA places hidden for the masked-MSA loss"},
    {"clamp-prob", FF_OPTION_DOUBLE, AT(clamp_prob), "-1", "-1..1", "Optimisation", "samples whose backbone FAPE is clamped at 10 Å"},
    {"max-bad-steps", FF_OPTION_INT64, AT(max_bad_steps), "20", "1..", "Optimisation",
     "steps in a row without a finite gradient that end the run"},

    {"dtype", FF_OPTION_ENUM, AT(dtype), "f32", "f32|bf16", "Machine", "operands of matrix products; weights are float32 always"},
    {"threads", FF_OPTION_INT64, AT(threads), "0", "0..4096", "Machine", "0 = all; results repeat bit for bit with the same number"},
    {"max-memory", FF_OPTION_BYTES, AT(max_memory), "0", "0..", "Machine",
     "blocks are recomputed in the backward pass until a step fits; 0 = keep everything"},
    {"plain-blocks", FF_OPTION_INT64, AT(plain_blocks), "-1", "-1..", "Machine",
     "Evoformer blocks that are not recomputed (-1: as many as fit max-memory)"},

    {"checkpoint-every", FF_OPTION_INT64, AT(checkpoint_every), "1000", "0..", "Output", "steps; 0 = by time and at the end only"},
    {"checkpoint-minutes", FF_OPTION_DOUBLE, AT(checkpoint_minutes), "30", "0..", "Output", "0 = by steps only"},
    {"keep", FF_OPTION_INT64, AT(keep), "3", "1..", "Output", "newest checkpoints kept, besides the best"},
    {"validate-every", FF_OPTION_INT64, AT(validate_every), "1000", "0..", "Output", "steps; 0 = at the end only"},
    {"validation-crop", FF_OPTION_INT64, AT(validation_crop), "0", "0..", "Output", "residues of validated chains; 0 = all"},
    {"metrics", FF_OPTION_STRING, AT(metrics), NULL, NULL, "Output", "JSON lines (default: OUTPUT_DIR/metrics.jsonl)"},
    {"log-every", FF_OPTION_INT64, AT(log_every), "10", "1..", "Output", "steps averaged in one line of metrics"},
    {"progress", FF_OPTION_FLAG, AT(progress), "on", NULL, "Output", "a live line, on a terminal"},
    FF_OPTION_END};

const ff_program ff_train_program = {
    "fastfold-train", "--data FILE --output-dir RUN [options]",
    "Trains AlphaFold 2 on chains with known structures. Stops cleanly on SIGTERM, SIGINT and SIGUSR1: it writes a checkpoint and\n"
    "ends with status 0; the same command with --resume goes on.",
    table};

/* ---- reading ---- */

static ff_status read_text(ff_ctx *ctx, const char *path, char **text)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    if (fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    *text = size < 0 || size > 1 << 20 ? NULL : calloc((size_t)size + 1, 1);
    const bool good = *text != NULL && fseek(file, 0, SEEK_SET) == 0 && fread(*text, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    return good ? FF_OK : FF_FAIL(ctx, FF_ERR_IO, "cannot read %s as a configuration of at most 1 MB", path);
}

static ff_status read_config(ff_ctx *ctx, ff_train_options *o, const char *path, char **text)
{
    FF_TRY(read_text(ctx, path, text));
    return ff_options_read_ini(ctx, &ff_train_program, o, *text, path);
}

ff_status ff_train_options_read(ff_ctx *ctx, ff_train_options *o, ff_train_texts *texts, int argc, char **argv, ff_arguments *args)
{
    char path[4096];
    ff_train_options first; /* of the command line alone: says which files there are */
    char **copy = calloc((size_t)argc + 1, sizeof *copy); /* parsing moves arguments about */
    if (copy == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    const ff_status status = ff_options_parse(ctx, &ff_train_program, &first, argc, copy, args);
    free(copy);
    FF_TRY(status);
    ff_options_set_defaults(&ff_train_program, o);
    if (first.resume && first.output_dir != NULL) {
        snprintf(path, sizeof path, "%s/config.ini", first.output_dir);
        FILE *there = fopen(path, "rb");
        if (there != NULL) {
            fclose(there);
            FF_TRY(read_config(ctx, o, path, &texts->texts[0]));
        }
    }
    if (first.config != NULL)
        FF_TRY(read_config(ctx, o, first.config, &texts->texts[1]));
    return ff_options_parse_over(ctx, &ff_train_program, o, argc, argv, args);
}

void ff_train_texts_free(ff_train_texts *texts)
{
    for (size_t i = 0; i < sizeof texts->texts / sizeof *texts->texts; i++)
        free(texts->texts[i]);
    memset(texts, 0, sizeof *texts);
}

/* ---- presets ---- */

typedef struct {
    const char *name, *model;
    ff_training_stage stage;
    int64_t crop, num_seq, num_extra, max_templates, num_recycle;
    int64_t steps, warmup;
    double learning_rate; /* of the initial stage */
} train_preset;

static const train_preset presets[] = {
    {"tiny", "tiny", FF_STAGE_INITIAL, 128, 32, 64, 2, 1, 10000, 200, 4e-3},
    {"small", "small", FF_STAGE_INITIAL, 256, 128, 512, 4, 3, 50000, 1000, 1e-3},
    {"initial", "model_1_ptm", FF_STAGE_INITIAL, 256, 128, 1024, 4, 3, 78125, 1000, 1e-3},
    {"finetune", "model_1_ptm", FF_STAGE_FINETUNE, 384, 512, 5120, 4, 3, 11719, 1000, 1e-3},
};

static ff_status find_preset(ff_ctx *ctx, const char *name, const train_preset **found)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *found = &presets[i];
            return FF_OK;
        }
    return FF_FAIL(ctx, FF_ERR_ARG, "there is no preset %s; there are tiny, small, initial, finetune", name);
}

static void take(int64_t *value, int64_t preset)
{
    if (*value < 0)
        *value = preset;
}

static void take_number(double *value, double preset)
{
    if (*value < 0)
        *value = preset;
}

/* One chain by heart, all heads included: nothing that only helps with other chains, and a rate that ends near zero. */
static void take_overfit(ff_train_options *o, const train_preset *p)
{
    o->stage = o->stage == 0 ? 1 + (int)FF_STAGE_PTM : o->stage;
    take_number(&o->learning_rate, p->learning_rate);
    take(&o->steps, 4000);
    take(&o->crop, 0);
    take(&o->warmup, 100);
    take(&o->decay_start, o->steps / 2);
    take(&o->decay_every, o->steps / 100 > 0 ? o->steps / 100 : 1);
    take_number(&o->decay_factor, 0.93);
    take(&o->violation_from, o->steps * 2 / 3);
    take_number(&o->violation_weight, 5);
    take_number(&o->ema_decay, 0.99);
    take_number(&o->clamp_prob, 0); /* clamped, a chain that lies all in one place has no gradient */
    o->dropout = o->dropout == 0 ? 2 : o->dropout;
}

/* ---- settings ---- */

static ff_status resolve_values(ff_ctx *ctx, ff_train_options *o, ff_train_settings *s)
{
    const train_preset *p = NULL;
    FF_TRY(find_preset(ctx, o->preset, &p));
    if (o->overfit != NULL)
        take_overfit(o, p);
    s->stage = o->stage == 0 ? p->stage : (ff_training_stage)(o->stage - 1);
    o->stage = (int)s->stage + 1;
    if (o->model == NULL)
        o->model = p->model;
    const ff_optimizer_config standard = ff_optimizer_alphafold(s->stage != FF_STAGE_INITIAL);
    const bool first = s->stage == FF_STAGE_INITIAL;
    take(&o->steps, p->steps);
    take(&o->crop, p->crop);
    take(&o->num_seq, p->num_seq);
    take(&o->num_extra, p->num_extra);
    take(&o->max_templates, p->max_templates);
    take(&o->num_recycle, p->num_recycle);
    take_number(&o->learning_rate, first ? p->learning_rate : standard.learning_rate);
    take(&o->warmup, first ? p->warmup : 0);
    take(&o->decay_start, standard.decay_start);
    take(&o->decay_every, standard.decay_every);
    take_number(&o->decay_factor, standard.decay_factor);
    take_number(&o->clip, standard.clip_norm);
    take_number(&o->ema_decay, standard.ema_decay);
    take_number(&o->violation_weight, ff_loss_stage_weights(s->stage).violation);
    take(&o->violation_from, 0);
    take_number(&o->mask_fraction, 0.15);
    take_number(&o->clamp_prob, 0.9);
    o->dropout = o->dropout == 0 ? 1 : o->dropout;
    return FF_OK;
}

static ff_status make_samples(ff_ctx *ctx, const ff_train_options *o, ff_train_settings *s)
{
    ff_process_options *p = &s->samples.process;
    FF_TRY(ff_process_options_preset(ctx, p, "initial"));
    p->num_seq = o->num_seq;
    p->num_extra = o->num_extra;
    p->max_templates = o->max_templates;
    p->num_recycle = o->num_recycle;
    p->crop_size = o->crop;
    p->masked_msa.replace_fraction = o->mask_fraction;
    p->clamp_prob = o->clamp_prob;
    s->validation = *p;
    s->validation.training = false;
    s->validation.crop_size = o->validation_crop;
    s->validation.crop_start = 0;
    s->validation.random = false;
    s->samples.seed = (uint64_t)o->seed;
    s->samples.batch_size = o->batch_size;
    s->samples.draw_recycles = o->draw_recycles;
    s->samples.distillation_fraction = o->distillation_fraction;
    s->samples.num_workers = o->loader_workers;
    s->samples.queue_length = 2 * o->batch_size + 2;
    s->samples.cache_bytes = (size_t)o->cache;
    return FF_OK;
}

static ff_status make_trainer(ff_ctx *ctx, const ff_train_options *o, ff_train_settings *s)
{
    ff_trainer_config *t = &s->trainer;
    FF_TRY(ff_model_config_preset(ctx, &t->model, o->model));
    t->optimizer = ff_optimizer_alphafold(false);
    t->optimizer.learning_rate = o->learning_rate;
    t->optimizer.warmup_steps = o->warmup;
    t->optimizer.decay_start = o->decay_start;
    t->optimizer.decay_every = o->decay_every;
    t->optimizer.decay_factor = o->decay_factor;
    t->optimizer.clip_norm = o->clip;
    t->optimizer.ema_decay = o->ema_decay;
    t->weights = ff_loss_stage_weights(s->stage);
    t->weights.violation = o->violation_weight;
    t->violation_from = o->violation_from;
    t->batch_size = o->batch_size;
    t->max_bad_steps = o->max_bad_steps;
    t->seed = (uint64_t)o->seed;
    t->dropout = o->dropout == 1;
    if (s->stage == FF_STAGE_PTM && t->model.heads.pae_num_bins == 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "--stage ptm trains the aligned error, which model %s has not; take a _ptm model", o->model);
    return FF_OK;
}

ff_status ff_train_resolve(ff_ctx *ctx, ff_train_options *o, ff_train_settings *s)
{
    memset(s, 0, sizeof *s);
    FF_TRY(resolve_values(ctx, o, s));
    FF_TRY(make_samples(ctx, o, s));
    FF_TRY(make_trainer(ctx, o, s));
    s->steps = o->steps;
    s->filter = ff_dataset_filter_default();
    s->filter.max_resolution = o->max_resolution;
    s->filter.max_aa_fraction = o->max_aa_fraction;
    s->filter.min_res = o->min_res;
    s->filter.max_res = o->max_res;
    s->filter.max_release_date = o->max_release_date;
    s->filter.cluster_weights = o->cluster_weights;
    s->filter.length_weights = o->length_weights;
    return FF_OK;
}
