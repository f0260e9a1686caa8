/* train_options.h - the options of fastfold-train: from the command line and INI files to the settings of a run, presets filled in. */
#ifndef FF_TRAIN_TRAIN_OPTIONS_H
#define FF_TRAIN_TRAIN_OPTIONS_H

#include "core/options.h"
#include "train/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whole numbers of -1 and NaN stand for "as the preset has it" until ff_train_resolve. */
typedef struct {
    const char *data, *validation, *distillation, *overfit;
    const char *output_dir, *init_weights, *config, *metrics;
    bool resume, plan;
    const char *preset, *model;
    int stage; /* 0 = of the preset, else 1 + ff_training_stage */
    int64_t steps, seed;
    int64_t crop, num_seq, num_extra, max_templates, num_recycle;
    bool draw_recycles;
    double max_resolution, max_aa_fraction, distillation_fraction;
    int64_t min_res, max_res;
    const char *max_release_date;
    bool cluster_weights, length_weights;
    int64_t batch_size, warmup, decay_start, decay_every, violation_from, max_bad_steps;
    double learning_rate, decay_factor, clip, ema_decay, violation_weight, mask_fraction, clamp_prob;
    int dropout; /* 0 = of the preset, 1 on, 2 off */
    int dtype;
    int64_t threads, max_memory, loader_workers, cache;
    int64_t checkpoint_every, validate_every, keep, validation_crop;
    double checkpoint_minutes;
    int64_t log_every, plain_blocks;
    bool progress;
} ff_train_options;

extern const ff_program ff_train_program;

/* Texts of files that option values point into; start with {0}. */
typedef struct {
    char *texts[2];
} ff_train_texts;

/**
 * Read defaults, then (with --resume) OUTPUT_DIR/config.ini, then --config FILE, then the command line; each overrides what was
 * before it.
 * @return FF_ERR_ARG: wrong usage; FF_ERR_IO: a file cannot be read
 */
ff_status ff_train_options_read(ff_ctx *ctx, ff_train_options *o, ff_train_texts *texts, int argc, char **argv, ff_arguments *args);
void ff_train_texts_free(ff_train_texts *texts);

/** Everything a run needs, as numbers. */
typedef struct {
    ff_trainer_config trainer;
    ff_samples_options samples;
    ff_process_options validation; /* batches as inference makes them */
    ff_dataset_filter filter;
    ff_training_stage stage;
    int64_t steps;
} ff_train_settings;

/** Put the preset's values where none were given, in `o` too, and make the settings. FF_ERR_ARG names what does not go together. */
ff_status ff_train_resolve(ff_ctx *ctx, ff_train_options *o, ff_train_settings *s);

#ifdef __cplusplus
}
#endif
#endif
