/* hdf5_absent.c - hdf5_file.h when the library is not there: every call says so. */
#include "io/hdf5_column.h"
#include "io/hdf5_file.h"

#ifndef FF_HAVE_HDF5

static ff_status not_built(ff_ctx *ctx)
{
    return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                   "this program was built without HDF5: `make deps` installs it, then build again");
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

ff_status ff_hdf5_open(ff_ctx *ctx, ff_hdf5_file **file, const char *path)
{
    *file = NULL;
    return not_built(ctx);
}
ff_status ff_hdf5_each_group(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_visit_fn visit, void *arg) { return not_built(ctx); }
ff_status ff_hdf5_each_dataset(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_visit_fn visit, void *arg) { return not_built(ctx); }
ff_status ff_hdf5_get_info(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, ff_hdf5_info *info) { return not_built(ctx); }
ff_status ff_hdf5_read_float(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, float *data, int64_t size) { return not_built(ctx); }
ff_status ff_hdf5_read_int32(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int32_t *data, int64_t size) { return not_built(ctx); }
ff_status ff_hdf5_read_int8(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int8_t *data, int64_t size) { return not_built(ctx); }
ff_status ff_hdf5_read_int64(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int64_t *data, int64_t size) { return not_built(ctx); }
ff_status ff_hdf5_read_text(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, char **data, int64_t size) { return not_built(ctx); }
ff_status ff_hdf5_each_attribute(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_attribute_fn visit, void *arg) { return not_built(ctx); }
ff_status ff_hdf5_create(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path)
{
    *writer = NULL;
    return not_built(ctx);
}
ff_status ff_hdf5_commit(ff_ctx *ctx, ff_hdf5_writer *writer) { return not_built(ctx); }
ff_status ff_hdf5_make_group(ff_ctx *ctx, ff_hdf5_writer *writer, const char *group) { return not_built(ctx); }
ff_status ff_hdf5_write_float(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape, const float *data) { return not_built(ctx); }
ff_status ff_hdf5_write_float_plain(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape, const float *data) { return not_built(ctx); }
ff_status ff_hdf5_write_int32(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape, const int32_t *data) { return not_built(ctx); }
ff_status ff_hdf5_write_int8(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape, const int8_t *data) { return not_built(ctx); }
ff_status ff_hdf5_create_from(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path)
{
    *writer = NULL;
    return not_built(ctx);
}
ff_status ff_hdf5_write_int64(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape, const int64_t *data) { return not_built(ctx); }
ff_status ff_hdf5_remove(ff_ctx *ctx, ff_hdf5_writer *writer, const char *path) { return not_built(ctx); }
ff_status ff_hdf5_write_text(ff_ctx *ctx, ff_hdf5_writer *writer, const char *dataset, int ndim, const int64_t *shape, char *const *data) { return not_built(ctx); }
ff_status ff_hdf5_write_text_attribute(ff_ctx *ctx, ff_hdf5_writer *writer, const char *object, const char *name, const char *text) { return not_built(ctx); }
ff_status ff_hdf5_write_number_attribute(ff_ctx *ctx, ff_hdf5_writer *writer, const char *object, const char *name, double value) { return not_built(ctx); }
ff_status ff_hdf5_column_open(ff_ctx *ctx, ff_hdf5_column **column, ff_hdf5_file *file, const char *dataset, ff_hdf5_type type, int ndim, const int64_t *shape)
{
    *column = NULL;
    return not_built(ctx);
}
ff_status ff_hdf5_column_read(ff_ctx *ctx, ff_hdf5_column *column, int64_t first, int64_t count, void *data) { return not_built(ctx); }
ff_status ff_hdf5_column_append_open(ff_ctx *ctx, ff_hdf5_column_writer **column, ff_hdf5_writer *writer, const char *dataset, ff_hdf5_type type, int ndim, const int64_t *shape, int64_t chunk_rows)
{
    *column = NULL;
    return not_built(ctx);
}
ff_status ff_hdf5_column_append(ff_ctx *ctx, ff_hdf5_column_writer *column, int64_t count, const void *data) { return not_built(ctx); }
size_t ff_hdf5_type_bytes(ff_hdf5_type type) { return type == FF_HDF5_INT8 ? 1 : type == FF_HDF5_INT64 ? 8 : 4; }
int64_t ff_hdf5_column_rows(const ff_hdf5_column *column) { return 0; }
int64_t ff_hdf5_column_appended(const ff_hdf5_column_writer *column) { return 0; }
void ff_hdf5_column_close(ff_hdf5_column *column) { }
ff_status ff_hdf5_column_append_close(ff_ctx *ctx, ff_hdf5_column_writer *column) { return FF_OK; }
void ff_hdf5_close(ff_hdf5_file *file) { }
ff_status ff_hdf5_commit_sealed(ff_ctx *ctx, ff_hdf5_writer *writer) { return not_built(ctx); }
void ff_hdf5_abandon(ff_hdf5_writer *writer) { }
int64_t ff_hdf5_read_attribute(ff_hdf5_file *file, const char *group, const char *name, double *values, int64_t capacity)
{
    return 0;
}
bool ff_hdf5_exists(ff_hdf5_file *file, const char *path) { return false; }

#endif
