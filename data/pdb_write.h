/* pdb_write.h - a protein as AlphaFold's common/protein.py has it, and its PDB text. */
#ifndef FF_DATA_PDB_WRITE_H
#define FF_DATA_PDB_WRITE_H

#include <stdint.h>
#include <stdio.h>

#include "core/context.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t num_res;
    int32_t *aatype;        /* [num_res] 0..20 */
    float *atom_positions;  /* [num_res, 37, 3] Å */
    float *atom_mask;       /* [num_res, 37] */
    int32_t *residue_index; /* [num_res] as printed */
    int32_t *chain_index;   /* [num_res] 0..61: A-Z a-z 0-9 */
    float *b_factors;       /* [num_res, 37] */
} ff_protein;

/** Arrays of zeros for num_res residues; they are one block. */
ff_status ff_protein_create(ff_ctx *ctx, ff_protein *protein, int64_t num_res);
void ff_protein_destroy(ff_protein *protein); /* leaves it empty */

/** Put the arrays into a set: aatype, atom_positions, atom_mask, residue_index, chain_index, b_factors. */
ff_status ff_protein_arrays(ff_ctx *ctx, ff_array_set *set, const ff_protein *protein);

/**
 * Write a protein as PDB text, byte for byte as AlphaFold's protein.to_pdb: one MODEL, atoms with mask >= 0.5 in atom37
 * order, TER after each chain, lines of 80 columns.
 *
 * @param remarks  NULL, or lines printed first as they are (padded to 80 columns), ended by NULL: "REMARK 3 ..."
 * @return FF_ERR_ARG when the format cannot hold it: no residue, aatype or chain_index out of range, more than 99,999
 *         atoms, a number or coordinate too wide for its column, not finite. FF_ERR_IO: the stream failed.
 */
ff_status ff_pdb_write(ff_ctx *ctx, FILE *file, const ff_protein *protein, const char *const *remarks);
/** The same to a file that appears whole (io/safe_file.h). */
ff_status ff_pdb_write_file(ff_ctx *ctx, const char *path, const ff_protein *protein, const char *const *remarks);

#ifdef __cplusplus
}
#endif
#endif
