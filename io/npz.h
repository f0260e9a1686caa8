/* npz.h - NumPy's .npz: a zip archive of .npy members, one array each. Without the zip library (io/zip_file.h)
 * every call fails with FF_ERR_UNSUPPORTED and says how to build it.
 *
 * Reading: members stored or deflated, zip64; each is read straight into the caller's memory and its checksum is
 * compared. Writing: stored, in the order given, the same bytes for the same arrays; the file appears whole, with the
 * commit. Messages name the file and the array. */
#ifndef FF_IO_NPZ_H
#define FF_IO_NPZ_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"
#include "io/number_formats.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_NPZ_MAX_DIMS = 8 };

typedef struct {
    ff_number_type type;
    bool fortran_order;
    int ndim; /* 0 = a single number */
    int64_t shape[FF_NPZ_MAX_DIMS];
    int64_t size; /* elements */
} ff_npz_info;

typedef struct ff_npz ff_npz;

/** @return FF_ERR_IO: no such file, not readable; FF_ERR_FORMAT: no zip archive, or cut short. */
ff_status ff_npz_open(ff_ctx *ctx, ff_npz **npz, const char *path);
void ff_npz_close(ff_npz *npz); /* NULL is fine */

int64_t ff_npz_count(const ff_npz *npz);
/** Name of array i, without the ".npy". */
const char *ff_npz_name(const ff_npz *npz, int64_t i);
/** The number of the array of that name, -1 when there is none. */
int64_t ff_npz_find(const ff_npz *npz, const char *name);

/** What array i holds. FF_ERR_FORMAT: not a .npy, or its header does not fit its length; FF_ERR_UNSUPPORTED: big
 * endian, texts, objects and other types that are not numbers. */
ff_status ff_npz_get_info(ff_ctx *ctx, ff_npz *npz, int64_t i, ff_npz_info *info);
/**
 * Read array i, which must have `size` elements, converted to float32 and in C order.
 * @return FF_ERR_FORMAT: cut short, damaged (the checksum differs), or another number of elements.
 *
 * float32 in C order goes to `data` without a copy; other types pass through a small buffer; Fortran order needs a copy
 * of that one array.
 */
ff_status ff_npz_read_float(ff_ctx *ctx, ff_npz *npz, int64_t i, float *data, int64_t size);

typedef struct ff_npz_writer ff_npz_writer;

ff_status ff_npz_create(ff_ctx *ctx, ff_npz_writer **writer, const char *path);
ff_status ff_npz_write_float(ff_ctx *ctx, ff_npz_writer *writer, const char *name, int ndim, const int64_t *shape,
                             const float *data);
/** Write the directory, flush to disk and rename into place; the writer is gone afterwards, also on failure. */
ff_status ff_npz_commit(ff_ctx *ctx, ff_npz_writer *writer);
/** Drop the file; NULL is fine. */
void ff_npz_abandon(ff_npz_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
