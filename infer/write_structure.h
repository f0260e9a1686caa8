/* write_structure.h - the predicted structure as PDB and mmCIF files.
 *
 * Both hold the atoms that atom37_mask names, in atom37 order, as one chain A and one model, with residue numbers
 * residue_index + 1 and three decimals, and refuse what ff_prediction_check refuses. */
#ifndef FF_INFER_WRITE_STRUCTURE_H
#define FF_INFER_WRITE_STRUCTURE_H

#include "infer/prediction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the B-factor column holds. */
typedef enum {
    FF_B_PLDDT,          /* pLDDT, 0..100, as AlphaFold writes it */
    FF_B_100_MINUS_PLDDT /* so that low is good, as for B factors of crystals */
} ff_b_column;

/** What the column holds for residue i. */
double ff_prediction_b(const ff_prediction *prediction, int64_t i, ff_b_column b_column);

/**
 * PDB text: AlphaFold's (data/pdb_write.h), after a TITLE and remarks that say what made the file and what the B column
 * means.
 * @return FF_ERR_ARG for what the format cannot hold (ff_prediction_fits_pdb; coordinates wider than their columns);
 *         then no file appears.
 */
ff_status ff_prediction_write_pdb(ff_ctx *ctx, const ff_prediction *prediction, const char *path, ff_b_column b_column);

/** Whether atom and residue numbers have room in PDB columns: up to 99,998 atoms, residue numbers to 9,999. */
bool ff_prediction_fits_pdb(const ff_prediction *prediction);

/**
 * mmCIF with ModelCIF's categories (mmcif_ma.dic): the sequence as a polymer entity, software, protocol, pLDDT as a
 * global and per-residue QA metric, pTM as a global one. Any number of residues and atoms. The QA metrics are pLDDT
 * whatever the B column holds.
 * @return FF_ERR_UNSUPPORTED when built without gemmi.
 */
ff_status ff_prediction_write_mmcif(ff_ctx *ctx, const ff_prediction *prediction, const char *path,
                                    ff_b_column b_column);

#ifdef __cplusplus
}
#endif
#endif
