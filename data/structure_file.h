/* structure_file.h - protein chains from mmCIF and PDB files, plain or gzip.
 *
 * Files with _entity_poly_seq are read as AlphaFold reads mmCIF (alphafold/data/mmcif_parsing.py): chains of the
 * sequences the entry declares, residues that were not seen marked missing, model 1 only, of alternate locations the
 * one with the highest occupancy. PDB files, and mmCIF files as refinement programs write them, are read more widely
 * than AlphaFold does: the first model, insertion codes kept, the sequence from SEQRES where there is one, else the
 * residues that are there. `alphafold_compatible` refuses what AlphaFold refuses.
 *
 * The syntax is read by gemmi; without it every call gives FF_ERR_UNSUPPORTED. */
#ifndef FF_DATA_STRUCTURE_FILE_H
#define FF_DATA_STRUCTURE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "data/pdb_write.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_RESIDUE_NAME_BYTES = 8 };

typedef enum { FF_STRUCTURE_AUTO, FF_STRUCTURE_MMCIF, FF_STRUCTURE_PDB } ff_structure_format;

typedef struct {
    ff_structure_format format; /* AUTO looks at the content */
    bool alphafold_compatible;  /* refuse what AlphaFold refuses */
} ff_structure_options;

/* One protein chain. A missing residue has mask 0, author number 0, and the name the sequence gives it. */
typedef struct {
    char *id;       /* author's chain id; "" where a PDB file has none */
    char *label_id; /* _atom_site.label_asym_id; `id` again for PDB files */
    char *problem;  /* NULL, or why AlphaFold would not use the coordinates: CA atoms of neighbours 150 Å apart */
    bool declared;  /* the sequence was declared (_entity_poly_seq, SEQRES): missing residues are known */
    int64_t num_res, num_observed;
    char *sequence;                              /* [num_res] one-letter codes, X = unknown; NUL ended */
    int32_t *aatype;                             /* [num_res] AlphaFold order, 20 = X */
    int8_t *is_missing;                          /* [num_res] */
    char (*residue_name)[FF_RESIDUE_NAME_BYTES]; /* [num_res] as in the file, "MSE" */
    int32_t *author_number;                      /* [num_res] */
    char *insertion_code;                        /* [num_res] ' ' = none */
    char *hetflag;                               /* [num_res] ' ' ATOM, 'H' HETATM, 'W' water */
    float *positions;                            /* [num_res, 37, 3] Å */
    float *mask;                                 /* [num_res, 37] */
    float *b_factors;                            /* [num_res, 37] */
} ff_structure_chain;

typedef struct {
    char *entry_id;     /* as in the file, or "" */
    char *release_date; /* "YYYY-MM-DD": oldest revision (mmCIF), first REVDAT (PDB); "" = none */
    char *method;       /* lower case, "x-ray diffraction"; several are joined by ','; or "" */
    float resolution;   /* Å, 0 = none */
    int64_t num_models;
    int64_t num_chains;
    ff_structure_chain *chains; /* by entity, then in the file's order */
} ff_structure;

/**
 * Read the protein chains of a file.
 *
 * @param structure  out  destroyed by ff_structure_destroy; empty after a failure
 * @param options    NULL = everything default
 * @return FF_ERR_IO (cannot be opened), FF_ERR_FORMAT (damaged, truncated, another kind of file, no protein in it:
 * one line with the file, the line where known, and what is wrong), FF_ERR_UNSUPPORTED (built without gemmi).
 */
ff_status ff_structure_read(ff_ctx *ctx, ff_structure *structure, const char *path,
                            const ff_structure_options *options);
/** The same for bytes in memory; `name` is for messages. */
ff_status ff_structure_read_bytes(ff_ctx *ctx, ff_structure *structure, const char *data, size_t size,
                                  const char *name, const ff_structure_options *options);
void ff_structure_destroy(ff_structure *structure); /* leaves it empty */

/** Whether a text is a date like 2021-11-01. */
bool ff_structure_is_date(const char *text);

/** The chain of that author id; NULL when there is none. */
const ff_structure_chain *ff_structure_find_chain(const ff_structure *structure, const char *id);

/**
 * Put a chain's arrays under `prefix` ("" or "A/"): sequence, aatype, is_missing, residue_name,
 * author_residue_number, insertion_code, hetflag ("H_MSE"), all_atom_positions, all_atom_mask.
 */
ff_status ff_structure_chain_arrays(ff_ctx *ctx, ff_array_set *set, const char *prefix,
                                    const ff_structure_chain *chain);

/**
 * Read a PDB file as AlphaFold's protein.from_pdb_string: every residue with one of the 37 atom names, waters and
 * ligands too (as X). AlphaFold takes files of exactly one model and without insertion codes, and so does this with
 * `alphafold_compatible`; else the first model is read, and codes set residues apart.
 *
 * @param protein  out  ff_protein_destroy
 * @param options  NULL = everything default; the format is PDB in any case
 */
ff_status ff_structure_read_protein(ff_ctx *ctx, ff_protein *protein, const char *path,
                                    const ff_structure_options *options);
ff_status ff_structure_read_protein_bytes(ff_ctx *ctx, ff_protein *protein, const char *data, size_t size,
                                          const char *name, const ff_structure_options *options);

#ifdef __cplusplus
}
#endif
#endif
