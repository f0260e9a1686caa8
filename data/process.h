/* process.h - from raw features to a batch the model reads: AlphaFold's whole monomer pipeline, in its order. */
#ifndef FF_DATA_PROCESS_H
#define FF_DATA_PROCESS_H

#include "data/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Called once for a sample, with the features of the whole chain before they are cut: may add labels, made of aatype [N],
 * all_atom_positions [N,37,3] and all_atom_mask [N,37]. Those that data/feature_schema.h lists are cut, padded and stacked. */
typedef ff_status (*ff_process_labels_fn)(ff_ctx *ctx, void *arg, ff_array_set *features);

typedef struct {
    int64_t num_seq;       /* most MSA rows (clusters) */
    int64_t num_extra;     /* most extra MSA rows */
    int64_t max_templates; /* 0: no template arrays in the batch; else they are always there, empty ones masked */
    bool reduce_msa_clusters_by_max_templates; /* num_seq - max_templates rows: templates become MSA rows in the model */
    int64_t num_recycle, num_ensemble;         /* the leading axis is num_ensemble (num_recycle + 1) */

    int64_t crop_size;  /* residues; 0 = the whole chain. Shorter chains are padded to it */
    int64_t crop_start; /* -1 = drawn; ignored when crop_size is 0 */
    ff_crop_form crop_form;
    bool pad; /* rows and templates up to the sizes above; false: as many as there are */

    bool random; /* false: first rows and templates, nothing masked, crop_start -1 = 0 */
    ff_sample_key key;
    ff_masked_msa_options masked_msa; /* replace_fraction 0 = off; AlphaFold masks in inference too */
    bool training;                    /* block deletion, templates sampled, FAPE clamped in clamp_prob of the samples */
    ff_block_delete_options block_delete;
    double clamp_prob;                /* 0.9; use_clamped_fape is made when the features lack it */

    ff_process_labels_fn labels; /* NULL = none */
    void *labels_arg;
} ff_process_options;

/** Sizes of a preset as far as they concern data: model_1 .. model_5, model_1_ptm .. model_5_ptm, small, tiny (inference), and
 * initial, finetune (training). */
typedef struct {
    const char *name;
    int64_t num_seq, num_extra, max_templates;
    bool reduce_msa_clusters_by_max_templates;
    int64_t num_recycle, crop_size;
    bool training;
} ff_data_preset;

/** NULL-terminated by name; for messages and --help. */
const ff_data_preset *ff_data_presets(void);
/** FF_ERR_ARG for an unknown name; the message lists those there are. */
ff_status ff_process_options_preset(ff_ctx *ctx, ff_process_options *options, const char *preset);

/**
 * The whole pipeline. Each ensemble slice draws its own MSA rows and masks; crop and templates are the same for all.
 *
 * @param batch  out  arrays of DATA's "Features the model reads", each with a leading axis of num_ensemble (num_recycle + 1);
 *               arrays of those names in it are replaced
 * @param raw    in   an array set with the names and shapes of features.pkl (typed or not), and labels if any
 * @return FF_ERR_FORMAT: a raw array is missing or of another shape; FF_ERR_ARG: an option out of range.
 *
 * Repeats bit for bit for the same raw features and options, whatever thread calls it.
 */
ff_status ff_process_features(ff_ctx *ctx, ff_array_set *batch, const ff_array_set *raw, const ff_process_options *options);

#ifdef __cplusplus
}
#endif
#endif
