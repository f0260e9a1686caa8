/* hdf5_file.h - reading HDF5: the one place that knows the library. Without it every call fails with
 * FF_ERR_UNSUPPORTED and says how to build it.
 *
 * Paths are inside the file, "/" separated; messages name the file and the path. */
#ifndef FF_DATA_HDF5_FILE_H
#define FF_DATA_HDF5_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_HDF5_MAX_DIMS = 8 };

typedef struct ff_hdf5_file ff_hdf5_file;

typedef enum { FF_HDF5_FLOAT, FF_HDF5_INTEGER, FF_HDF5_OTHER } ff_hdf5_kind;

typedef struct {
    ff_hdf5_kind kind;
    int ndim; /* 0 = a single number */
    int64_t shape[FF_HDF5_MAX_DIMS];
    int64_t size; /* elements */
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

/** An attribute: `text` NULL for a number (of an array, the first one). Neither text nor number: not reported. */
typedef ff_status (*ff_hdf5_attribute_fn)(ff_ctx *ctx, void *arg, const char *name, const char *text, double value);
/** The attributes of a group ("/" = the file's own), in order of name. */
ff_status ff_hdf5_each_attribute(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_attribute_fn visit,
                                 void *arg);

#ifdef __cplusplus
}
#endif
#endif
