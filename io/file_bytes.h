/* file_bytes.h - a whole file in memory, plain or gzip (told by its first bytes, not by its name). */
#ifndef FF_IO_FILE_BYTES_H
#define FF_IO_FILE_BYTES_H

#include <stddef.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Read `path`, unpacked where it is gzip.
 *
 * @param data  out  the bytes and one NUL after them; the caller frees it. NULL after a failure.
 * @param size  out  bytes without the NUL
 * @return FF_ERR_IO: no such file, a folder, not readable; FF_ERR_FORMAT: damaged or cut gzip, or more than
 *         `max_bytes` (0 = 4 GiB) unpacked; FF_ERR_UNSUPPORTED: gzip, and the program was built without zlib.
 */
ff_status ff_file_bytes_read(ff_ctx *ctx, char **data, size_t *size, const char *path, size_t max_bytes);

#ifdef __cplusplus
}
#endif
#endif
