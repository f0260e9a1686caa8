/* zip_file.h - zip archives, member by member: the one place that knows the zip library. Without it every call fails
 * with FF_ERR_UNSUPPORTED and says how to build it.
 *
 * Reading: stored or deflated members, zip64. Writing: stored members, the same bytes for the same content, zip64 where
 * needed; the archive appears whole, with the commit. Messages name the archive and the member. */
#ifndef FF_IO_ZIP_FILE_H
#define FF_IO_ZIP_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_zip ff_zip;
typedef struct ff_zip_member ff_zip_member;

/** `kind` says in messages what the file should be ("a .npz file").
 * @return FF_ERR_IO: no such file, not readable; FF_ERR_FORMAT: not a zip archive, or cut short. */
ff_status ff_zip_open(ff_ctx *ctx, ff_zip **zip, const char *path, const char *kind);
void ff_zip_close(ff_zip *zip); /* NULL is fine */

const char *ff_zip_path(const ff_zip *zip);
int64_t ff_zip_count(const ff_zip *zip);
const char *ff_zip_name(const ff_zip *zip, int64_t i);
/** Bytes of the member's content, as the directory says. */
int64_t ff_zip_size(const ff_zip *zip, int64_t i);
/** The number of the member of that name, -1 when there is none. */
int64_t ff_zip_find(const ff_zip *zip, const char *name);

/** Begin to read member i; ends with ff_zip_end or ff_zip_drop. */
ff_status ff_zip_begin(ff_ctx *ctx, ff_zip *zip, int64_t i, ff_zip_member **member);
/** The next `bytes` bytes, all of them. FF_ERR_FORMAT: cut short or damaged. */
ff_status ff_zip_read(ff_ctx *ctx, ff_zip_member *member, void *data, size_t bytes);
/** Nothing may be left over, and the checksum must be right: FF_ERR_FORMAT. The member is gone afterwards. */
ff_status ff_zip_end(ff_ctx *ctx, ff_zip_member *member);
void ff_zip_drop(ff_zip_member *member); /* NULL is fine */

typedef struct ff_zip_writer ff_zip_writer;

ff_status ff_zip_create(ff_ctx *ctx, ff_zip_writer **writer, const char *path);
/** Add a member: `head` and then `data`. */
ff_status ff_zip_add(ff_ctx *ctx, ff_zip_writer *writer, const char *name, const void *head, size_t head_bytes,
                     const void *data, size_t data_bytes);
/** Write the directory, flush to disk and rename into place; the writer is gone afterwards, also on failure. */
ff_status ff_zip_commit(ff_ctx *ctx, ff_zip_writer *writer);
void ff_zip_abandon(ff_zip_writer *writer); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
