/* msa_rows.h - the loops under the MSA transforms, on plain arrays: lists of rows, and the features of a row. Shared by transforms.h
 * (one array set after the other) and process.c (straight into the batch). */
#ifndef FF_DATA_MSA_ROWS_H
#define FF_DATA_MSA_ROWS_H

#include "data/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers 0..n-1; the caller frees. NULL on failure. */
int64_t *ff_msa_rows_all(ff_ctx *ctx, int64_t n);
/** Take out blocks as ff_transform_block_delete_msa does; the first row stays. @return how many are left, in their order */
int64_t ff_msa_rows_delete_blocks(int64_t *rows, int64_t num_rows, const ff_block_delete_options *options,
                                  const ff_random_key *key);
/** Bring rows[from..] into random order (Fisher and Yates); not at all with a NULL key. */
void ff_msa_rows_shuffle(int64_t *rows, int64_t num_rows, int64_t from, const ff_random_key *key);

/** msa_feat of `num_res` places. @param feat [num_res, 49] out, zeros before; profile [num_res, 23] */
void ff_msa_feat_row(float *feat, const int32_t *codes, const float *deletions, const float *profile, const float *mean,
                     int64_t num_res);
/** min(d, 1) and atan(d / 3) 2 / pi of num_res deletions; `has` and `value` hold zeros before. */
void ff_deletion_row(float *has, float *value, const float *deletions, int64_t num_res);

#ifdef __cplusplus
}
#endif
#endif
