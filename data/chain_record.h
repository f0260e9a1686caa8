/* chain_record.h - a chain of a structure file as a record of a training set: its name, its numbering, its alignment.
 */
#ifndef FF_DATA_CHAIN_RECORD_H
#define FF_DATA_CHAIN_RECORD_H

#include "data/dataset.h"
#include "data/structure_file.h"
#include "io/name_table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_RECORD_NAME_BYTES = 256 };

/** FILEID of a path: the file's name without .gz and .cif, .mmcif, .pdb, .ent, and without the pdb of pdb1abc.ent. */
const char *ff_chain_file_id(char id[FF_RECORD_NAME_BYTES], const char *path);
/** FILEID_CHAIN; FILEID alone where the chain has no id. */
const char *ff_chain_record_name(char name[FF_RECORD_NAME_BYTES], const char *file_id, const char *chain_id);

/**
 * Residue numbers from 0 for the relative positions of the model. A declared sequence counts its residues. Without
 * one, a residue bonded to the one before (C to N within 2.5 Å) has the next number, whatever the author's numbers
 * say (homologous numbering skips and inserts); where the bond is not there, the gap of the author's numbers counts,
 * at least one residue.
 *
 * @param index  [num_res]  out
 */
void ff_chain_residue_index(const ff_structure_chain *chain, int32_t *index);

/* The alignments of a folder, listed once. Start with {0}. */
typedef struct {
    const char *folder;
    int64_t max_rows;         /* rows kept of an alignment; 0 = all */
    ff_name_table names;      /* what files and folders are called up to each dot, in lower case */
    ff_text_list spelled;     /* [names] as they are written */
    ff_name_table sequences;  /* of chains that had an alignment */
    ff_text_list of_sequence; /* [sequences] its name */
} ff_chain_alignments;

/** FF_ERR_IO: the folder cannot be read. */
ff_status ff_chain_alignments_open(ff_ctx *ctx, ff_chain_alignments *alignments, const char *folder,
                                   int64_t max_rows);
void ff_chain_alignments_destroy(ff_chain_alignments *alignments);

/**
 * Read the alignment of a chain: that of its record's name, else of FILEID (any case), PDBID_CHAIN or FILEIDCHAIN,
 * else that of a chain before with the same sequence. One whose first row has another length does not fit and is
 * passed over, with a warning; one of the record's own name then is an error.
 *
 * @param features  out  msa, deletion_matrix_int [S, num_res] int32; left as it is when there is no alignment
 * @param found     out  whether there is one
 */
ff_status ff_chain_alignment_read(ff_ctx *ctx, ff_chain_alignments *alignments, const char *name, const char *file_id,
                                  const char *entry_id, const ff_structure_chain *chain, ff_array_set *features,
                                  bool *found);

#ifdef __cplusplus
}
#endif
#endif
