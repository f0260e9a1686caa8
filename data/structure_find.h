/* structure_find.h - structure files of a folder by PDB id.
 *
 * Names in any case: ID.cif, ID.mmcif, ID.pdb, ID.ent, pdbID.ent, each also with .gz, in the folder itself or one
 * level below in a folder named after the middle of the id (ab/1abc.cif.gz, as the PDB divides its archive) or the
 * id. */
#ifndef FF_DATA_STRUCTURE_FIND_H
#define FF_DATA_STRUCTURE_FIND_H

#include "data/obsolete.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_structure_finder ff_structure_finder;

/** List a folder. FF_ERR_IO when it cannot be read. A finder does not change afterwards: threads may share it. */
ff_status ff_structure_finder_create(ff_ctx *ctx, ff_structure_finder **finder, const char *folder);
void ff_structure_finder_destroy(ff_structure_finder *finder); /* NULL is fine */

/** Whether the name ends like a structure file's. */
bool ff_structure_is_file_name(const char *name);

/**
 * The file of an entry; of several mmCIF before PDB, plain before gzip.
 *
 * @param chain  NULL, or a chain id: files that hold one chain and are named ID_CHAIN or IDCHAIN are then taken too
 * @return a path the caller frees; NULL when there is none
 */
char *ff_structure_find(const ff_structure_finder *finder, const char *id, const char *chain);

/**
 * The file of an entry, or of what replaced it: the first of id, its successor, that one's successor, ... that is
 * there.
 *
 * @param found  [FF_PDB_ID_BYTES]  out  the id of the file, lower case
 * @param path   out  the caller frees it; NULL when none of them is there, which is no failure
 * @return FF_ERR_FORMAT when the list leads in a circle and none of it is there
 */
ff_status ff_structure_find_current(ff_ctx *ctx, const ff_structure_finder *finder, const ff_obsolete *obsolete,
                                    const char *id, const char *chain, char *found, char **path);

#ifdef __cplusplus
}
#endif
#endif
