/* chain_source.h - chains with coordinates, by number, wherever they come from: a data set, or one chain of a structure file.
 *
 * `read` may be called by several threads at once, each with a context of its own. */
#ifndef FF_TRAIN_CHAIN_SOURCE_H
#define FF_TRAIN_CHAIN_SOURCE_H

#include "core/sha256.h"
#include "data/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_chain_source {
    int64_t num_records;
    double *weights; /* [num_records] owned; how often each is drawn; NULL = in shuffled epochs */
    char hash[FF_SHA256_HEX_BYTES]; /* of what is in it: names, sequences, weights */
    void *arg;                      /* of the functions below */
    /** Raw features, as features.pkl has them, and all_atom_positions, all_atom_mask, resolution, into an empty set. */
    ff_status (*read)(ff_ctx *ctx, void *arg, int64_t record, ff_array_set *raw);
    const char *(*name)(void *arg, int64_t record); /* lent */
    int64_t (*num_res)(void *arg, int64_t record);
    void (*close)(void *arg);
} ff_chain_source;

/**
 * The records of a data set that pass a filter (weight 0 = never drawn).
 * @param only  NULL, or the name of the one record to keep: FF_ERR_ARG when there is none, naming some there are
 */
ff_status ff_chain_source_open_dataset(ff_ctx *ctx, ff_chain_source *source, const char *path, const ff_dataset_filter *filter,
                                       const char *only);
/**
 * One chain of a structure file, without an alignment: residues that were not seen are left out at the ends and masked inside.
 * @param chain  author's id; NULL = the first chain
 */
ff_status ff_chain_source_open_structure(ff_ctx *ctx, ff_chain_source *source, const char *path, const char *chain);
void ff_chain_source_close(ff_chain_source *source); /* a zeroed one is fine */

#ifdef __cplusplus
}
#endif
#endif
