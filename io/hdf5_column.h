/* hdf5_column.h - long data sets read and written by stretches of rows: the first axis grows, chunks cut it, and rows
 * of many records lie one behind the other.
 *
 * Any number of threads may read one column at once: where a chunk lies is asked of HDF5 once, under a lock; its
 * bytes are then read and inflated by the calling thread alone, as HDF5 itself decodes under one lock for the whole
 * process. */
#ifndef FF_IO_HDF5_COLUMN_H
#define FF_IO_HDF5_COLUMN_H

#include "io/hdf5_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FF_HDF5_FLOAT32, FF_HDF5_INT32, FF_HDF5_INT8, FF_HDF5_INT64 } ff_hdf5_type;

size_t ff_hdf5_type_bytes(ff_hdf5_type type);

/* ---- reading ---- */

typedef struct ff_hdf5_column ff_hdf5_column;

/**
 * Open a data set of `type`, whose rows have the shape [ndim] (0, NULL: single values).
 *
 * @param file  must stay open as long as the column is
 * @return FF_ERR_FORMAT: absent, or of another type or shape; the message names both.
 */
ff_status ff_hdf5_column_open(ff_ctx *ctx, ff_hdf5_column **column, ff_hdf5_file *file, const char *dataset,
                              ff_hdf5_type type, int ndim, const int64_t *shape);
void ff_hdf5_column_close(ff_hdf5_column *column); /* NULL is fine */

int64_t ff_hdf5_column_rows(const ff_hdf5_column *column);

/**
 * Read rows [first, first + count).
 * @return FF_ERR_FORMAT with file, data set and rows: outside the column, a damaged or cut file.
 */
ff_status ff_hdf5_column_read(ff_ctx *ctx, ff_hdf5_column *column, int64_t first, int64_t count, void *data);

/* ---- writing ---- */

typedef struct ff_hdf5_column_writer ff_hdf5_column_writer;

/**
 * Open a column of a file being written; a new one is made when it is not there.
 * @param chunk_rows  of a new one; chunks are shuffled (elements wider than a byte) and deflated
 */
ff_status ff_hdf5_column_append_open(ff_ctx *ctx, ff_hdf5_column_writer **column, ff_hdf5_writer *writer,
                                     const char *dataset, ff_hdf5_type type, int ndim, const int64_t *shape,
                                     int64_t chunk_rows);
ff_status ff_hdf5_column_append(ff_ctx *ctx, ff_hdf5_column_writer *column, int64_t count, const void *data);
/** Rows so far. */
int64_t ff_hdf5_column_appended(const ff_hdf5_column_writer *column);
/** Before the writer's commit; the column is gone afterwards, also on failure (FF_ERR_IO). NULL is fine. */
ff_status ff_hdf5_column_append_close(ff_ctx *ctx, ff_hdf5_column_writer *column);

#ifdef __cplusplus
}
#endif
#endif
