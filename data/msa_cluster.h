/* msa_cluster.h - the arithmetic of MSA clustering on bytes: which of S rows agrees with a row at most residues. */
#ifndef FF_DATA_MSA_CLUSTER_H
#define FF_DATA_MSA_CLUSTER_H

#include <stdint.h>

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

#ifdef __cplusplus
}
#endif
#endif
