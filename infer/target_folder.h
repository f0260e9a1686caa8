/* target_folder.h - the folder of one target's results, and the status.json in it, by which a run knows later what
 * is done. */
#ifndef FF_INFER_TARGET_FOLDER_H
#define FF_INFER_TARGET_FOLDER_H

#include <stdint.h>

#include "core/context.h"
#include "infer/targets.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FF_TARGET_RUNNING, FF_TARGET_FINISHED, FF_TARGET_FAILED } ff_target_state;

typedef struct {
    char *path;          /* output_dir/folder */
    bool finished;       /* the same input was finished here before: nothing to do */
    char input_hash[65]; /* as given to ff_target_folder_begin */
    double begin_s;      /* monotonic */
    char begun[32];      /* UTC, "2024-05-01T12:00:00Z" */
} ff_target_folder;

/**
 * Make the folder of a target ready, and write `running` to its status.json.
 *
 * A folder that says `finished` for the same hash is left alone (`finished` is set), unless `overwrite`. What an
 * earlier attempt left (ranked_*.pdb, *.json, report.html, ...) is removed before a new one, so that files of two
 * runs never mix.
 *
 * @param input_hash  hexadecimal, at most 64 digits: everything that the result depends on (sequence, MSA, weights,
 *              options)
 * @return FF_ERR_ARG: it holds a finished result of another input, or files that are not ours, and `overwrite` is
 *         false; FF_ERR_IO: it cannot be made, or is a link or a file; FF_ERR_UNSUPPORTED: built without cJSON, and
 *         it holds a status.json. Then nothing in it was changed. Destroy it in every case.
 */
ff_status ff_target_folder_begin(ff_ctx *ctx, ff_target_folder *folder, const char *output_dir, const ff_target *target,
                                 const char *input_hash, bool overwrite);

/**
 * Write how it ended to status.json: state, message, times, what was predicted.
 *
 *     {"state": "failed", "message": "...", "name": "...", "folder": "...", "source": "...", "num_res": 138,
 *      "input_hash": "...", "begun": "2024-05-01T12:00:00Z", "ended": "...", "seconds": 12.5, "version": "..."}
 *
 * @param message  NULL for none. A failure of the context is not touched: end first with ctx->message, then clear it.
 */
ff_status ff_target_folder_end(ff_ctx *ctx, const ff_target_folder *folder, const ff_target *target,
                               ff_target_state state, const char *message);

void ff_target_folder_destroy(ff_target_folder *folder);

/** path/name, for any length; the caller frees it. NULL: out of memory, and the context says so. */
char *ff_path_join(ff_ctx *ctx, const char *path, const char *name);

#ifdef __cplusplus
}
#endif
#endif
