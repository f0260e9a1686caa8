/* features.h - the raw features of one chain, as AlphaFold's data pipeline makes them (monomer), under its names. N
 * residues, S rows of alignments; texts are UTF-8. data/templates.h adds the template features.
 *
 *   aatype [N,21]               one-hot in AlphaFold's order, X last
 *   between_segment_residues [N] 0
 *   domain_name, sequence [1]   description and letters
 *   residue_index [N]           0..N-1
 *   seq_length [N]              N
 *   msa [S,N]                   HHblits codes, 21 = gap
 *   deletion_matrix_int [S,N]   residues left out just before the column
 *   num_alignments [N]          S
 *   msa_species_identifiers [S] "" where the name of a row tells none */
#ifndef FF_DATA_FEATURES_H
#define FF_DATA_FEATURES_H

#include "data/msa.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Add the features of the sequence. FF_ERR_FORMAT: a character that is no upper-case letter. */
ff_status ff_features_add_sequence(ff_ctx *ctx, ff_array_set *set, const char *sequence, const char *description);

/**
 * Add the features of alignments: their rows in the order given, but not a row whose letters were there before.
 *
 * @param msas      [num_msas] all with columns of the sequence; at least one row in all
 * @param num_res   length of the sequence
 * @return FF_ERR_FORMAT naming file, line and row: another length, a letter without a code (as ff_msa_check).
 */
ff_status ff_features_add_msas(ff_ctx *ctx, ff_array_set *set, const ff_msa *const *msas, int64_t num_msas,
                               int64_t num_res);

/** An alignment of the sequence alone; destroy it with ff_msa_destroy. */
ff_status ff_msa_from_sequence(ff_ctx *ctx, ff_msa *msa, const char *sequence, const char *description);

/** Residues in which row 0 of an alignment differs from the sequence (X on either side is equal to all). */
int64_t ff_msa_differences(const ff_msa *msa, const char *sequence);

#ifdef __cplusplus
}
#endif
#endif
