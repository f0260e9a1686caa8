/* obsolete.h - the PDB's list of obsolete entries (obsolete.dat): what replaced an entry, followed to the end.
 *
 * Lines `OBSLTE    31-JUL-94 116L     216L`; of several successors the first counts, as in AlphaFold. AlphaFold takes
 * one step only; a successor that became obsolete itself is followed here. */
#ifndef FF_DATA_OBSOLETE_H
#define FF_DATA_OBSOLETE_H

#include <stdbool.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_PDB_ID_BYTES = 16 }; /* "1abc", "pdb_00001abc" */

typedef struct ff_obsolete ff_obsolete;

/**
 * Read the list, plain or gzip.
 * @return FF_ERR_IO; FF_ERR_FORMAT: file:line of an OBSLTE line that names no entry, or a file that holds something
 * else.
 */
ff_status ff_obsolete_read(ff_ctx *ctx, ff_obsolete **obsolete, const char *path);
void ff_obsolete_destroy(ff_obsolete *obsolete); /* NULL is fine */

/** The direct successor of an entry (any case), in lower case; NULL when it has none. `obsolete` may be NULL. */
const char *ff_obsolete_next(const ff_obsolete *obsolete, const char *id);

/**
 * Follow successors to the entry that counts today.
 *
 * @param id       any case
 * @param current  [FF_PDB_ID_BYTES]  out  lower case; `id` itself when nothing replaced it
 * @return FF_ERR_FORMAT when the list leads in a circle (the message names it); `current` is then `id`.
 */
ff_status ff_obsolete_follow(ff_ctx *ctx, const ff_obsolete *obsolete, const char *id, char *current);

#ifdef __cplusplus
}
#endif
#endif
