/* process_slices.h - the ensemble slices of a sample: what process.c plans, and what of the MSA each slice holds. */
#ifndef FF_DATA_PROCESS_SLICES_H
#define FF_DATA_PROCESS_SLICES_H

#include "data/process.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const ff_process_options *options;
    const ff_array_set *chain; /* msa, deletion_matrix, hhblits_profile of the whole chain */
    int64_t num_slices, num_seq; /* num_seq: rows of a slice at most, after the reduction by templates */
    int64_t crop_start;
    ff_feature_sizes sizes; /* the residue axis holds the crop size */
} ff_slice_plan;

/** The key of a draw, in `key`; NULL when the options draw nothing. */
const ff_random_key *ff_process_draw(ff_random_key *key, const ff_process_options *options, int64_t slice, ff_draw which);

/**
 * The MSA features of all slices, written straight into the batch: msa_feat, msa_mask, msa_row_mask, bert_mask, true_msa and the
 * extra_* ones. The same numbers as sample_msa, make_masked_msa, nearest_neighbor_clusters, summarize_clusters, crop_extra_msa
 * (first rows: they are in random order already), make_msa_feat, crop and stack_slice one after the other, without the arrays
 * between: at 10,000 rows of 500 residues these are half of the time.
 */
ff_status ff_process_slices(ff_ctx *ctx, ff_array_set *batch, const ff_slice_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
