/* transforms.h - AlphaFold's feature transforms, from raw features (names and shapes of features.pkl) to what the model reads.
 *
 * N residues, S MSA rows, E extra MSA rows, T templates; int32 codes, float32 numbers and masks. Each transform changes a set of
 * named arrays in place, and says which arrays it reads and writes; what it reads must be there with that shape
 * (FF_ERR_FORMAT otherwise, naming the array). Names are AlphaFold's (alphafold/model/tf/data_transforms.py); where OpenFold
 * does something else, the docstring says so. The usual order is that of data/process.h.
 *
 * Random transforms take a key, a pure function of (seed, epoch, sample, slice, operation), so a sample is the same on any
 * number of workers and after a restart. A NULL key takes the first rows, the first templates, and masks nothing.
 *
 *   transforms_basic.c     typing, codes, squeezing, masks, profile, atom layout, pseudo beta
 *   transforms_msa.c       sampling, block deletion, masking, MSA features
 *   transforms_cluster.c   nearest neighbours and their summaries
 *   transforms_crop.c      templates and residues cut, padding, stacking */
#ifndef FF_DATA_TRANSFORMS_H
#define FF_DATA_TRANSFORMS_H

#include "core/random.h"
#include "data/feature_schema.h"
#include "data/msa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MSA codes after correct_msa_restypes */
enum { FF_MSA_X = 20, FF_MSA_MASK = 22, FF_MSA_CODES = 23, FF_MSA_FEAT_WIDTH = 49, FF_EXTRA_MSA_FEAT_WIDTH = 25 };

/* ---- random numbers ---- */

/** Which sample: draw `sample` of epoch `epoch` of a run. For inference epoch and sample are 0. */
typedef struct {
    uint64_t seed, epoch, sample;
} ff_sample_key;

typedef enum {
    FF_DRAW_SAMPLE_MSA,
    FF_DRAW_BLOCK_DELETE,
    FF_DRAW_MASKED_MSA,
    FF_DRAW_CROP_EXTRA,
    FF_DRAW_CROP,
    FF_DRAW_TEMPLATES,
    FF_DRAW_CLAMP,
    FF_DRAW_COUNT
} ff_draw;

/** The key of one operation of one ensemble slice (of 2^20 at most) of a sample. */
ff_random_key ff_sample_random(const ff_sample_key *sample, int64_t slice, ff_draw draw);

/* ---- basic ---- */

/** Raw names and types to those AlphaFold's transforms start from: deletion_matrix_int [S,N] becomes deletion_matrix (float32);
 * 8-bit msa and deletions, as data sets store them, become int32 and float32. */
ff_status ff_transform_type_features(ff_ctx *ctx, ff_array_set *features);

/** msa from HHblits codes to AlphaFold's; the last axis (20 to 22 long) of arrays named `*profile*` likewise. Codes outside 0..21
 * are FF_ERR_FORMAT, with their place. */
ff_status ff_transform_correct_msa_restypes(ff_ctx *ctx, ff_array_set *features);

/** aatype [N,21] one-hot to [N] codes; trailing axes of length 1 go; seq_length and num_alignments [N] become single values, and
 * so do resolution, is_distillation and use_clamped_fape. */
ff_status ff_transform_squeeze_features(ff_ctx *ctx, ff_array_set *features);

/** aatype -> seq_mask [N] of ones. */
ff_status ff_transform_make_seq_mask(ff_ctx *ctx, ff_array_set *features);
/** msa -> msa_mask [S,N], msa_row_mask [S] of ones. */
ff_status ff_transform_make_msa_mask(ff_ctx *ctx, ff_array_set *features);
/** msa -> hhblits_profile [N,22]: how often each code stands in a column, over all rows; kept when it is already there. */
ff_status ff_transform_make_hhblits_profile(ff_ctx *ctx, ff_array_set *features);

/** template_aatype [T,N,22] one-hot in HHblits order to [T,N] codes in AlphaFold's. */
ff_status ff_transform_fix_templates_aatype(ff_ctx *ctx, ff_array_set *features);
/** template_aatype -> template_mask [T] of ones. */
ff_status ff_transform_make_template_mask(ff_ctx *ctx, ff_array_set *features);
/** P is "template_" or "": Paatype, Pall_atom_positions [...,N,37,3], template_all_atom_masks or all_atom_mask [...,N,37]
 * -> Ppseudo_beta [...,N,3] (Å) and its mask: CB, for glycine CA; X and gap take CB. */
ff_status ff_transform_make_pseudo_beta(ff_ctx *ctx, ff_array_set *features, const char *prefix);

/** aatype -> atom14_atom_exists [N,14], residx_atom14_to_atom37 [N,14], residx_atom37_to_atom14 [N,37], atom37_atom_exists
 * [N,37]; unused slots have index 0, X has no atoms. */
ff_status ff_transform_make_atom14_masks(ff_ctx *ctx, ff_array_set *features);

/* ---- MSA ---- */

/**
 * Split the MSA rows into at most `max_seq` rows and the rest: msa, deletion_matrix, msa_mask, msa_row_mask (of those there are)
 * and extra_msa, extra_deletion_matrix, ... Row 0 stays first; the others come in random order, so with S <= max_seq they
 * are only shuffled. With a NULL key all keep their order.
 * @param out  where the arrays go; may be `features` itself
 */
ff_status ff_transform_sample_msa(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features, int64_t max_seq,
                                  const ff_random_key *key);

typedef struct {
    double fraction_per_block; /* rows of a block, of all rows, rounded down: 0.3 */
    int64_t num_blocks;        /* 5 */
    bool randomize_num_blocks; /* 0 to num_blocks of them, uniformly */
} ff_block_delete_options;

/**
 * Delete blocks of consecutive MSA rows; row 0 and the order stay. Blocks start uniformly at 1..S-1, may overlap and end with the
 * MSA. Source: Jumper et al. 2021, Suppl. Alg. 1, as OpenFold has it.
 * @param key  NULL: nothing is deleted
 */
ff_status ff_transform_block_delete_msa(ff_ctx *ctx, ff_array_set *out, const ff_array_set *features,
                                        const ff_block_delete_options *options, const ff_random_key *key);

typedef struct {
    double replace_fraction;                        /* 0.15 of the places */
    double uniform_prob, profile_prob, same_prob;   /* 0.1 each; the rest becomes [MASK] */
} ff_masked_msa_options;

/**
 * Hide part of the MSA for the BERT loss: each place is chosen independently with replace_fraction, and then gets a uniform
 * residue, one from hhblits_profile's column, itself, or [MASK]. Row 0 and gaps are treated like all others.
 * msa, hhblits_profile -> msa (changed), true_msa (as it was), bert_mask [S,N].
 * @param key  NULL: nothing is masked
 */
ff_status ff_transform_make_masked_msa(ff_ctx *ctx, ff_array_set *features, const ff_masked_msa_options *options,
                                       const ff_random_key *key);

/**
 * msa, msa_mask, extra_msa, extra_msa_mask -> extra_cluster_assignment [E]: the row of msa with most equal codes among the 20
 * residues and X (gaps and [MASK] never agree, nor do masked places); the lowest of equals.
 * Cost: S E N byte comparisons, 32 at a time with AVX2.
 */
ff_status ff_transform_nearest_neighbor_clusters(ff_ctx *ctx, ff_array_set *features);

/**
 * Mean of each row of msa and the extra rows assigned to it: cluster_profile [S,N,23] and cluster_deletion_mean [S,N], both over
 * 1e-6 + msa_mask + members. The row itself counts once, as it is (masked).
 */
ff_status ff_transform_summarize_clusters(ff_ctx *ctx, ff_array_set *features);

/** At most `max_extra` of the rows of every extra_* array of rows, in random order; the first ones with a NULL key. */
ff_status ff_transform_crop_extra_msa(ff_ctx *ctx, ff_array_set *features, int64_t max_extra, const ff_random_key *key);

/**
 * msa_feat [S,N,49] = one-hot msa 23, has_deletion, deletion value, cluster_profile 23, value of the mean deletion;
 * target_feat [N,22] = has a chain break before it, one-hot aatype 21; extra_has_deletion, extra_deletion_value [E,N].
 * has = min(d, 1), value = atan(d / 3) 2 / pi for d deletions.
 */
ff_status ff_transform_make_msa_feat(ff_ctx *ctx, ff_array_set *features);
/** Its target_feat alone. */
ff_status ff_transform_make_target_feat(ff_ctx *ctx, ff_array_set *features);
/** extra_msa_feat [E,N,25] = one-hot extra_msa 23, extra_has_deletion, extra_deletion_value (AlphaFold does so in the model). */
ff_status ff_transform_make_extra_msa_feat(ff_ctx *ctx, ff_array_set *features);

/* ---- selection, crop, size ---- */

/** Only what data/feature_schema.h lists stays. */
ff_status ff_transform_select_features(ff_ctx *ctx, ff_array_set *features);

typedef enum { FF_CROP_ALPHAFOLD, FF_CROP_OPENFOLD } ff_crop_form;

/**
 * Where a crop of `crop_size` residues of a chain of `num_res` begins (0 when it is not longer). ALPHAFOLD: uniform. OPENFOLD: the
 * same for samples with clamped FAPE; for the others uniform on 0..n-x with x uniform on 0..n, n = num_res - crop_size.
 * With a NULL key 0.
 */
int64_t ff_transform_draw_crop_start(int64_t num_res, int64_t crop_size, ff_crop_form form, bool clamped_fape,
                                     const ff_random_key *key);

/**
 * At most `max_templates` templates. With a key: min(u, max_templates) of them in random order, u uniform on 0..T
 * (AlphaFold's training); without one the first ones.
 */
ff_status ff_transform_sample_templates(ff_ctx *ctx, ff_array_set *features, int64_t max_templates,
                                        const ff_random_key *key);

/** Cut the residue axes to [start, start + crop_size) as far as there are residues; seq_length = what is left. After select. */
ff_status ff_transform_crop(ff_ctx *ctx, ff_array_set *features, int64_t crop_size, int64_t start);

/** Lengths that arrays are padded to, by axis; a negative one leaves the axis as it is. */
typedef struct {
    int64_t length[FF_AXIS_COUNT]; /* by ff_feature_axis */
} ff_feature_sizes;

/** Zeros after the residues, rows and templates there are, up to the sizes. FF_ERR_SHAPE when there is more than that. */
ff_status ff_transform_make_fixed_size(ff_ctx *ctx, ff_array_set *features, const ff_feature_sizes *sizes);

/**
 * Put the features of one ensemble slice into a batch, whose arrays have one more axis in front, of `num_slices`; they are made
 * (anew) with slice 0, which comes first. Padded with zeros to `sizes` on the way (as make_fixed_size does).
 */
ff_status ff_transform_stack_slice(ff_ctx *ctx, ff_array_set *batch, const ff_array_set *features, int64_t slice,
                                   int64_t num_slices, const ff_feature_sizes *sizes);

#ifdef __cplusplus
}
#endif
#endif
