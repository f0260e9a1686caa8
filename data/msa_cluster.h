/* msa_cluster.h - the arithmetic of MSA clustering on plain arrays: which of S rows agrees with a row at most residues, and what a
 * row and those nearest to it look like on average. */
#ifndef FF_DATA_MSA_CLUSTER_H
#define FF_DATA_MSA_CLUSTER_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows are padded to a multiple of this many bytes. */
enum { FF_MSA_ROW_BYTES = 64 };

/** Bytes of a packed row of `num_res` residues. */
int64_t ff_msa_packed_stride(int64_t num_res);

/**
 * Pack codes for counting: 0..20 as they are, everything else (gap, [MASK], masked places, padding) as `other`. Give the two sides
 * of a comparison different ones, both above 20: then such places never agree.
 * @param packed  [num_seq, stride]         out
 * @param msa     [num_seq, num_res]        in
 * @param mask    [num_seq, num_res] or NULL in   0 = masked
 */
void ff_msa_pack(uint8_t *packed, const int32_t *msa, const float *mask, int64_t num_seq, int64_t num_res, uint8_t other);

/**
 * For each of `num_rows` rows the centre that agrees with it at most places; the lowest of equals, 0 when there is no centre.
 * @param nearest  [num_rows]             out
 * @param rows     [num_rows, stride]     in   64-byte aligned is fastest
 * @param centers  [num_centers, stride]  in
 */
void ff_msa_nearest(int32_t *nearest, const uint8_t *rows, int64_t num_rows, const uint8_t *centers, int64_t num_centers,
                    int64_t stride);
/** The same without vector instructions beyond the compiler's own; what ff_msa_nearest is tested against. */
void ff_msa_nearest_plain(int32_t *nearest, const uint8_t *rows, int64_t num_rows, const uint8_t *centers,
                          int64_t num_centers, int64_t stride);

/** An MSA of plain arrays, each [num_seq, num_res]; no mask (NULL) = all ones; `deletions` NULL where they are not read. */
typedef struct {
    int64_t num_seq, num_res;
    const int32_t *codes;
    const float *mask, *deletions;
} ff_msa_view;

/**
 * Means of each centre and the rows assigned to it, as ff_transform_summarize_clusters gives them. Rows may stand in any order: sums
 * of counts below 2^24 are exact.
 * @param profile     [centers, num_res, 23]  out
 * @param mean        [centers, num_res]      out  of the deletions
 * @param assignment  [rows]                  in   a centre, or -1 = the row belongs to none
 * @return FF_ERR_FORMAT: an assignment to no centre; FF_ERR_MEM.
 */
ff_status ff_msa_summarize(ff_ctx *ctx, float *profile, float *mean, const ff_msa_view *centers, const ff_msa_view *rows,
                           const int32_t *assignment);

#ifdef __cplusplus
}
#endif
#endif
