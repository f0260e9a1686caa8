/* safe_file.h - files that are there whole or not at all: written under a temporary name beside the target, flushed to
 * the disk, then renamed. */
#ifndef FF_IO_SAFE_FILE_H
#define FF_IO_SAFE_FILE_H

#include <stdio.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char *path;      /* where the file will be */
    char *temporary; /* where it is being written */
    FILE *file;      /* NULL with ff_safe_file_name */
} ff_safe_file;

/** Open a temporary file beside `path` for writing. FF_ERR_IO names the path and the system's reason. */
ff_status ff_safe_file_begin(ff_ctx *ctx, ff_safe_file *safe, const char *path);
/** Only choose the temporary name, for libraries that open files themselves. */
ff_status ff_safe_file_name(ff_ctx *ctx, ff_safe_file *safe, const char *path);
/** Flush, fsync, rename over `path`. On failure (disk full, ...) the temporary file is removed and `path` is as before. */
ff_status ff_safe_file_commit(ff_ctx *ctx, ff_safe_file *safe);
/** Remove the temporary file; nothing to do after a commit. Call it on every way out. */
void ff_safe_file_abandon(ff_safe_file *safe);

/** Writes a file's content; a failed fprintf need not be looked at, the commit finds it. */
typedef ff_status (*ff_write_fn)(ff_ctx *ctx, FILE *file, const void *arg);
/** Begin, let `write` fill the file, commit; nothing is left when it fails. */
ff_status ff_safe_file_write(ff_ctx *ctx, const char *path, ff_write_fn write, const void *arg);

/** mkdir -p. FF_ERR_IO names the part that failed. */
ff_status ff_make_folders(ff_ctx *ctx, const char *path);
/**
 * Make a folder of our own for temporary files, below TMPDIR or /tmp.
 * @param path  out  the caller frees it, after ff_remove_folder; NULL after a failure
 */
ff_status ff_make_temporary_folder(ff_ctx *ctx, char **path);
/** Remove a folder of ours with all that is in it; links are removed, not followed. What cannot be removed stays. */
void ff_remove_folder(const char *path);

#ifdef __cplusplus
}
#endif
#endif
