/* hdf5_writer.c - the writing half of hdf5_file.h. */
#include "io/hdf5_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file_seal.h"
#include "io/safe_file.h"

#ifdef FF_HAVE_HDF5

#include "io/hdf5_private.h"

enum { CHUNK_BYTES = 1 << 20, PLAIN_BYTES = 4096, DEFLATE_LEVEL = 4 };

/* Copy a file into an open one; false with errno. */
static bool copy_into(FILE *to, const char *path)
{
    FILE *from = fopen(path, "rb");
    char *buffer = malloc(CHUNK_BYTES);
    bool good = from != NULL && buffer != NULL;
    for (size_t n = 1; good && n > 0;) {
        n = fread(buffer, 1, CHUNK_BYTES, from);
        good = !ferror(from) && fwrite(buffer, 1, n, to) == n;
    }
    const int error = errno;
    free(buffer);
    if (from != NULL)
        fclose(from);
    errno = error;
    return good && fflush(to) == 0;
}

/* A writer over a new file, or over a copy of `source`. */
static ff_status create(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path, const char *source)
{
    *writer = NULL;
    ff_safe_file safe;
    FF_TRY(ff_safe_file_begin(ctx, &safe, path)); /* a clear message when the folder does not let us */
    if (source != NULL && !copy_into(safe.file, source)) {
        FF_FAIL(ctx, FF_ERR_IO, "cannot copy %s before it is changed: %s", source, strerror(errno));
        ff_safe_file_abandon(&safe);
        return ctx->status;
    }
    fclose(safe.file);
    safe.file = NULL;
    ff_hdf5_writer *w = calloc(1, sizeof *w);
    ff_hdf5_prepare();
    const hid_t id = w == NULL        ? -1
                     : source != NULL ? H5Fopen(safe.temporary, H5F_ACC_RDWR, H5P_DEFAULT)
                                      : H5Fcreate(safe.temporary, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (id < 0) {
        free(w);
        FF_FAIL(ctx, FF_ERR_IO, "cannot write %s", path);
        ff_safe_file_abandon(&safe);
        return FF_ERR_IO;
    }
    w->id = id;
    w->safe = safe;
    *writer = w;
    return FF_OK;
}

ff_status ff_hdf5_create(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path) { return create(ctx, writer, path, NULL); }

ff_status ff_hdf5_create_from(ff_ctx *ctx, ff_hdf5_writer **writer, const char *path)
{
    ff_hdf5_file *file;
    *writer = NULL;
    FF_TRY(ff_hdf5_open(ctx, &file, path)); /* says what is wrong with it */
    ff_hdf5_close(file);
    return create(ctx, writer, path, path);
}

static ff_status finish(ff_ctx *ctx, ff_hdf5_writer *w, bool seal)
{
    ff_status status = ctx->status;
    errno = 0;
    const bool flushed = H5Fflush(w->id, H5F_SCOPE_GLOBAL) >= 0;
    const int error = errno;
    if (H5Fclose(w->id) < 0 || !flushed)
        status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s; nothing was changed", w->safe.path,
                         error != 0 ? strerror(error) : "the disk is full or failed");
    if (status == FF_OK && seal)
        status = ff_file_seal(ctx, w->safe.temporary);
    if (status == FF_OK)
        status = ff_safe_file_commit(ctx, &w->safe);
    else
        ff_safe_file_abandon(&w->safe);
    free(w);
    return status;
}

ff_status ff_hdf5_commit(ff_ctx *ctx, ff_hdf5_writer *w)
{
    return finish(ctx, w, false);
}

ff_status ff_hdf5_commit_sealed(ff_ctx *ctx, ff_hdf5_writer *w)
{
    return finish(ctx, w, true);
}

void ff_hdf5_abandon(ff_hdf5_writer *w)
{
    if (w == NULL)
        return;
    H5Fclose(w->id);
    ff_safe_file_abandon(&w->safe);
    free(w);
}

static ff_status failed(ff_ctx *ctx, const ff_hdf5_writer *w, const char *what)
{
    return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s (%s): the disk is full or failed", w->safe.path, what);
}

ff_status ff_hdf5_make_group(ff_ctx *ctx, ff_hdf5_writer *w, const char *group)
{
    if (strcmp(group, "/") == 0 || group[0] == '\0')
        return FF_OK;
    const hid_t there = H5Gopen2(w->id, group, H5P_DEFAULT);
    if (there >= 0) {
        H5Gclose(there);
        return FF_OK;
    }
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    const hid_t id = H5Gcreate2(w->id, group, links, H5P_DEFAULT, H5P_DEFAULT);
    H5Pclose(links);
    if (id < 0)
        return failed(ctx, w, group);
    H5Gclose(id);
    return FF_OK;
}

/* Chunks along the first axes, so that a row of the last axes stays whole where it can; of nearly one size, because the
 * last one is stored whole. */
static void choose_chunk(int ndim, const int64_t *shape, size_t element_bytes, hsize_t *chunk)
{
    size_t bytes = element_bytes;
    for (int i = ndim - 1; i >= 0; i--) {
        const size_t room = CHUNK_BYTES / bytes > 0 ? CHUNK_BYTES / bytes : 1;
        const size_t parts = ((size_t)shape[i] + room - 1) / room;
        chunk[i] = (hsize_t)(((size_t)shape[i] + parts - 1) / parts);
        bytes *= (size_t)chunk[i];
    }
}

static ff_status write_dataset(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                               hid_t memory_type, hid_t file_type, bool compress, const void *data)
{
    FF_TRY(ctx->status);
    hsize_t dims[FF_HDF5_MAX_DIMS] = {0}, chunk[FF_HDF5_MAX_DIMS] = {0};
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) {
        dims[i] = (hsize_t)shape[i];
        size *= shape[i];
    }
    const hid_t space = ndim == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(ndim, dims, NULL);
    const hid_t links = H5Pcreate(H5P_LINK_CREATE), layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    H5Pset_obj_track_times(layout, 0); /* the same data give the same file */
    if (compress && ndim > 0 && (size_t)size * H5Tget_size(file_type) > PLAIN_BYTES) {
        choose_chunk(ndim, shape, H5Tget_size(file_type), chunk);
        H5Pset_chunk(layout, ndim, chunk);
        H5Pset_shuffle(layout);
        H5Pset_deflate(layout, DEFLATE_LEVEL);
    }
    const hid_t id = H5Dcreate2(w->id, dataset, file_type, space, links, layout, H5P_DEFAULT);
    const bool good = id >= 0 && (size == 0 || H5Dwrite(id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    if (id >= 0)
        H5Dclose(id);
    H5Pclose(layout);
    H5Pclose(links);
    H5Sclose(space);
    return good ? FF_OK : failed(ctx, w, dataset);
}

ff_status ff_hdf5_write_float(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                              const float *data)
{
    return write_dataset(ctx, w, dataset, ndim, shape, H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, true, data);
}

ff_status ff_hdf5_write_float_plain(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                                    const float *data)
{
    return write_dataset(ctx, w, dataset, ndim, shape, H5T_NATIVE_FLOAT, H5T_IEEE_F32LE, false, data);
}

ff_status ff_hdf5_write_int32(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                              const int32_t *data)
{
    return write_dataset(ctx, w, dataset, ndim, shape, H5T_NATIVE_INT32, H5T_STD_I32LE, true, data);
}

ff_status ff_hdf5_write_int8(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                             const int8_t *data)
{
    return write_dataset(ctx, w, dataset, ndim, shape, H5T_NATIVE_INT8, H5T_STD_I8LE, true, data);
}

ff_status ff_hdf5_write_int64(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                              const int64_t *data)
{
    return write_dataset(ctx, w, dataset, ndim, shape, H5T_NATIVE_INT64, H5T_STD_I64LE, true, data);
}

ff_status ff_hdf5_remove(ff_ctx *ctx, ff_hdf5_writer *w, const char *path)
{
    const hid_t id = H5Oopen(w->id, path, H5P_DEFAULT);
    if (id < 0)
        return FF_OK;
    H5Oclose(id);
    return H5Ldelete(w->id, path, H5P_DEFAULT) >= 0 ? FF_OK : failed(ctx, w, path);
}

static hid_t text_type(void)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    return type;
}

ff_status ff_hdf5_write_text(ff_ctx *ctx, ff_hdf5_writer *w, const char *dataset, int ndim, const int64_t *shape,
                             char *const *data)
{
    int64_t size = 1;
    for (int i = 0; i < ndim; i++)
        size *= shape[i];
    const char **texts = malloc((size_t)(size > 0 ? size : 1) * sizeof *texts);
    if (texts == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", dataset);
    for (int64_t i = 0; i < size; i++)
        texts[i] = data[i] == NULL ? "" : data[i];
    const hid_t type = text_type();
    const ff_status status = write_dataset(ctx, w, dataset, ndim, shape, type, type, false, texts);
    H5Tclose(type);
    free(texts);
    return status;
}

/* ---- attributes ---- */

static ff_status write_attribute(ff_ctx *ctx, ff_hdf5_writer *w, const char *object, const char *name, hid_t memory_type,
                                 hid_t file_type, const void *value)
{
    FF_TRY(ctx->status);
    const hid_t owner = H5Oopen(w->id, object, H5P_DEFAULT);
    if (owner < 0)
        return failed(ctx, w, object);
    if (H5Aexists(owner, name) > 0)
        H5Adelete(owner, name);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t id = H5Acreate2(owner, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool good = id >= 0 && H5Awrite(id, memory_type, value) >= 0;
    if (id >= 0)
        H5Aclose(id);
    H5Sclose(space);
    H5Oclose(owner);
    return good ? FF_OK : failed(ctx, w, name);
}

ff_status ff_hdf5_write_text_attribute(ff_ctx *ctx, ff_hdf5_writer *w, const char *object, const char *name,
                                       const char *text)
{
    const hid_t type = text_type();
    const ff_status status = write_attribute(ctx, w, object, name, type, type, &text);
    H5Tclose(type);
    return status;
}

ff_status ff_hdf5_write_number_attribute(ff_ctx *ctx, ff_hdf5_writer *w, const char *object, const char *name,
                                         double value)
{
    return write_attribute(ctx, w, object, name, H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, &value);
}

#endif
