/* file_seal.h - 32 bytes at the end of a file that say how long the rest is and what its checksum is, for formats whose
 * readers ignore what follows their own end (HDF5). */
#ifndef FF_IO_FILE_SEAL_H
#define FF_IO_FILE_SEAL_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Append a seal to a closed file. */
ff_status ff_file_seal(ff_ctx *ctx, const char *path);
/**
 * Read the whole file and compare: any changed, missing or added byte is noticed (a file of 1.5 GB takes about half a
 * second from memory).
 * @return FF_ERR_IO: not readable; FF_ERR_FORMAT: no seal (cut short, or changed by another program), or a wrong
 *         checksum.
 */
ff_status ff_file_check_seal(ff_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
