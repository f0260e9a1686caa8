/* hdf5_file.h - reading and writing HDF5: the one place that knows the library. Without it every call fails with
 * FF_ERR_UNSUPPORTED and says how to build it.
 *
 * Paths are inside the file, "/" separated; messages name the file and the path. */
#ifndef FF_IO_HDF5_FILE_H
#define FF_IO_HDF5_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_HDF5_MAX_DIMS = 8 };

typedef struct ff_hdf5_file ff_hdf5_file;

typedef enum { FF_HDF5_FLOAT, FF_HDF5_INTEGER, FF_HDF5_TEXT, FF_HDF5_OTHER } ff_hdf5_kind;

typedef struct {
    ff_hdf5_kind kind;
    int ndim; /* 0 = a single number */
    int64_t shape[FF_HDF5_MAX_DIMS];
    int64_t size;        /* elements */
    size_t element_bytes; /* as stored */
} ff_hdf5_info;

/** @return FF_ERR_IO: no such file, not readable; FF_ERR_FORMAT: not HDF5, or truncated. */
ff_status ff_hdf5_open(ff_ctx *ctx, ff_hdf5_file **file, const char *path);
void ff_hdf5_close(ff_hdf5_file *file); /* NULL is fine */

/** Called for each thing found, in order of name; anything but FF_OK ends the visit and is passed on. */
typedef ff_status (*ff_hdf5_visit_fn)(ff_ctx *ctx, void *arg, const char *name);

/** The groups directly below a group. */
ff_status ff_hdf5_each_group(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_visit_fn visit, void *arg);
/** All data sets below a group, however deep, by their path relative to it. A group that is not there has none. */
ff_status ff_hdf5_each_dataset(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_visit_fn visit, void *arg);

/** What a data set holds. FF_ERR_FORMAT when it is not there or has more than FF_HDF5_MAX_DIMS dimensions. */
ff_status ff_hdf5_get_info(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, ff_hdf5_info *info);
/** Read a whole numeric data set of `size` elements, converted to float32. */
ff_status ff_hdf5_read_float(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, float *data, int64_t size);
/** The same, converted to int32, int8 or int64. */
ff_status ff_hdf5_read_int32(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int32_t *data, int64_t size);
ff_status ff_hdf5_read_int8(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int8_t *data, int64_t size);
ff_status ff_hdf5_read_int64(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int64_t *data, int64_t size);
/** Texts of fixed or variable length: each entry of `data` becomes a string the caller frees. */
ff_status ff_hdf5_read_text(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, char **data, int64_t size);
/** Whether a group or data set of that path is there. */
bool ff_hdf5_exists(ff_hdf5_file *file, const char *path);

/** An attribute: `text` NULL for a number (of an array, the first one). Neither text nor number: not reported. */
typedef ff_status (*ff_hdf5_attribute_fn)(ff_ctx *ctx, void *arg, const char *name, const char *text, double value);
/** The attributes of a group ("/" = the file's own), in order of name. */
ff_status ff_hdf5_each_attribute(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_attribute_fn visit,
                                 void *arg);

/** The numbers of an attribute of a group, at most `capacity` of them. @return how many there are; 0 = no such attribute. */
int64_t ff_hdf5_read_attribute(ff_hdf5_file *file, const char *group, const char *name, double *values, int64_t capacity);

/* ---- writing: the file appears under its name, whole, with the commit ---- */

typedef struct ff_hdf5_writer ff_hdf5_writer;

/** Begin a new file (temporary until the commit). FF_ERR_IO: folder missing, not writable. */
ff_status ff_hdf5_create(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path);
/** Begin with a copy of the file that is there, to change or extend; it stays as it is until the commit. Errors as of
 * ff_hdf5_open and ff_hdf5_create. */
ff_status ff_hdf5_create_from(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path);
/** Flush to disk and rename into place; the writer is gone afterwards, also on failure. */
ff_status ff_hdf5_commit(ff_ctx *ctx, ff_hdf5_writer *writer);
/** The same, with a seal (io/file_seal.h) after the library's own end of the file; other readers do not see it. */
ff_status ff_hdf5_commit_sealed(ff_ctx *ctx, ff_hdf5_writer *writer);
/** Drop the file; NULL is fine. */
void ff_hdf5_abandon(ff_hdf5_writer *writer);

/** Make a group and those above it; nothing when it is there. */
ff_status ff_hdf5_make_group(ff_ctx *ctx, ff_hdf5_writer *writer, const char *group);
/** Data sets, with the groups above them; above 4 KB in one chunk of at most 1 MB, shuffled and deflated. ndim 0 = one value. */
ff_status ff_hdf5_write_float(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape,
                              const float *data);
/** The same, neither chunked nor deflated: fast, for large blocks of weights. */
ff_status ff_hdf5_write_float_plain(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim,
                                    const int64_t *shape, const float *data);
ff_status ff_hdf5_write_int32(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape,
                              const int32_t *data);
ff_status ff_hdf5_write_int8(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape,
                             const int8_t *data);
ff_status ff_hdf5_write_int64(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape,
                              const int64_t *data);
/** Remove a data set or group, to write it anew; nothing when it is not there. */
ff_status ff_hdf5_remove(ff_ctx *ctx, ff_hdf5_writer *writer, const char *path);
/** UTF-8, variable length; a NULL entry is written as "". */
ff_status ff_hdf5_write_text(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape,
                             char *const *data);
/** An attribute of a group or data set ("/" = the file), replacing one of that name. */
ff_status ff_hdf5_write_text_attribute(ff_ctx *ctx, ff_hdf5_writer *writer, const char *object, const char *name,
                                       const char *text);
ff_status ff_hdf5_write_number_attribute(ff_ctx *ctx, ff_hdf5_writer *writer, const char *object, const char *name,
                                         double value);

#ifdef __cplusplus
}
#endif
#endif
