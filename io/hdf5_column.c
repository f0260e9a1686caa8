/* hdf5_column.c - see hdf5_column.h.
 *
 * Contents: types - opening - chunks: where they lie, reading, decoding - reading rows - writing */
#include "io/hdf5_column.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FF_HAVE_HDF5

#include "io/hdf5_private.h"

#ifdef FF_HAVE_ZLIB
#include <zlib.h>
#endif

enum { DEFLATE_LEVEL = 4, MAX_FILTERS = 2 };

/* Where a chunk lies in the file. */
typedef struct {
    uint64_t address;
    uint32_t bytes;
    uint32_t filter_mask; /* bit i: filter i was left out for this chunk */
    bool known;
} chunk_place;

struct ff_hdf5_column {
    hid_t id;
    char *path, *name; /* of file and data set */
    hid_t memory_type;
    int ndim; /* of a row */
    int64_t row_elements, rows, chunk_rows;
    size_t element_bytes;
    bool by_hand; /* chunks are decoded here; else the library reads, under the lock */
    int fd;
    int num_filters;
    H5Z_filter_t filters[MAX_FILTERS];
    chunk_place *chunks; /* [num_chunks], filled under the lock */
    int64_t num_chunks;
    pthread_mutex_t lock;
};

/* ---- types ---- */

size_t ff_hdf5_type_bytes(ff_hdf5_type type) { return type == FF_HDF5_INT8 ? 1 : type == FF_HDF5_INT64 ? 8 : 4; }

static hid_t file_type(ff_hdf5_type type)
{
    switch (type) {
    case FF_HDF5_FLOAT32: return H5T_IEEE_F32LE;
    case FF_HDF5_INT32: return H5T_STD_I32LE;
    case FF_HDF5_INT64: return H5T_STD_I64LE;
    default: return H5T_STD_I8LE;
    }
}

static hid_t memory_type(ff_hdf5_type type)
{
    switch (type) {
    case FF_HDF5_FLOAT32: return H5T_NATIVE_FLOAT;
    case FF_HDF5_INT32: return H5T_NATIVE_INT32;
    case FF_HDF5_INT64: return H5T_NATIVE_INT64;
    default: return H5T_NATIVE_INT8;
    }
}

static const char *type_name(ff_hdf5_type type)
{
    static const char *const names[] = {"float32", "int32", "int8", "int64"};
    return names[type];
}

/* Whether an open data set has rows of this type and shape; its number of rows. */
static bool fits(hid_t id, ff_hdf5_type type, int ndim, const int64_t *shape, int64_t *rows)
{
    hsize_t dims[FF_HDF5_MAX_DIMS + 1];
    const hid_t stored = H5Dget_type(id), space = H5Dget_space(id);
    bool good = H5Tequal(stored, file_type(type)) > 0 && H5Sget_simple_extent_ndims(space) == ndim + 1 &&
                H5Sget_simple_extent_dims(space, dims, NULL) == ndim + 1;
    for (int i = 0; good && i < ndim; i++)
        good = dims[i + 1] == (hsize_t)shape[i];
    *rows = good ? (int64_t)dims[0] : 0;
    H5Tclose(stored);
    H5Sclose(space);
    return good;
}

/* ---- opening ---- */

/* Chunks and filters; whether this source can decode them by itself. */
static void learn_layout(ff_hdf5_column *c, hid_t file)
{
    hsize_t chunk[FF_HDF5_MAX_DIMS + 1] = {0}, user_block = 0;
    const hid_t layout = H5Dget_create_plist(c->id), creation = H5Fget_create_plist(file),
                stored = H5Dget_type(c->id);
    void *handle = NULL;
    H5Pget_userblock(creation, &user_block);
    c->by_hand = H5Pget_layout(layout) == H5D_CHUNKED && H5Pget_chunk(layout, c->ndim + 1, chunk) == c->ndim + 1 &&
                 chunk[0] > 0 && user_block == 0 && H5Tequal(c->memory_type, stored) > 0 &&
                 H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle != NULL;
    int64_t elements = 1;
    for (int i = 0; i < c->ndim; i++)
        elements *= (int64_t)chunk[i + 1];
    c->by_hand = c->by_hand && elements == c->row_elements; /* whole rows */
    const int filters = H5Pget_nfilters(layout);
    for (int i = 0; c->by_hand && i < filters; i++) {
        unsigned flags, config;
        size_t count = 0;
        const H5Z_filter_t filter = H5Pget_filter2(layout, (unsigned)i, &flags, &count, NULL, 0, NULL, &config);
        c->by_hand = i < MAX_FILTERS && (filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE);
#ifndef FF_HAVE_ZLIB
        c->by_hand = c->by_hand && filter != H5Z_FILTER_DEFLATE;
#endif
        if (c->by_hand)
            c->filters[c->num_filters++] = filter;
    }
    if (c->by_hand) {
        c->fd = *(int *)handle;
        c->chunk_rows = (int64_t)chunk[0];
        c->num_chunks = (c->rows + c->chunk_rows - 1) / c->chunk_rows;
    }
    H5Tclose(stored);
    H5Pclose(creation);
    H5Pclose(layout);
}

ff_status ff_hdf5_column_open(ff_ctx *ctx, ff_hdf5_column **column, ff_hdf5_file *file, const char *dataset,
                              ff_hdf5_type type, int ndim, const int64_t *shape)
{
    *column = NULL;
    const hid_t id = ff_hdf5_exists(file, dataset) ? H5Dopen2(file->id, dataset, H5P_DEFAULT) : -1;
    int64_t rows = 0;
    if (id < 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: no data set %s", file->path, dataset);
    if (!fits(id, type, ndim, shape, &rows)) {
        H5Dclose(id);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s does not hold rows of %s in %d dimensions, as wanted",
                       file->path, dataset, type_name(type), ndim);
    }
    ff_hdf5_column *c = calloc(1, sizeof *c);
    if (c == NULL) {
        H5Dclose(id);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory opening %s", dataset);
    }
    pthread_mutex_init(&c->lock, NULL);
    c->id = id;
    c->ndim = ndim;
    c->rows = rows;
    c->memory_type = memory_type(type);
    c->element_bytes = ff_hdf5_type_bytes(type);
    c->row_elements = 1;
    for (int i = 0; i < ndim; i++)
        c->row_elements *= shape[i];
    learn_layout(c, file->id);
    c->path = strdup(file->path);
    c->name = strdup(dataset);
    c->chunks = calloc((size_t)c->num_chunks + 1, sizeof *c->chunks);
    if (c->path == NULL || c->name == NULL || c->chunks == NULL) {
        ff_hdf5_column_close(c);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory opening %s", dataset);
    }
    *column = c;
    return FF_OK;
}

void ff_hdf5_column_close(ff_hdf5_column *c)
{
    if (c == NULL)
        return;
    H5Dclose(c->id);
    pthread_mutex_destroy(&c->lock);
    free(c->path);
    free(c->name);
    free(c->chunks);
    free(c);
}

int64_t ff_hdf5_column_rows(const ff_hdf5_column *c) { return c->rows; }

/* ---- chunks ---- */

static bool locate(ff_hdf5_column *c, int64_t chunk, chunk_place *place)
{
    pthread_mutex_lock(&c->lock);
    chunk_place *known = &c->chunks[chunk];
    bool good = known->known;
    if (!good) {
        hsize_t offset[FF_HDF5_MAX_DIMS + 1] = {(hsize_t)(chunk * c->chunk_rows)}, bytes = 0;
        unsigned mask = 0;
        haddr_t address = HADDR_UNDEF;
        ff_hdf5_prepare();
        good = H5Dget_chunk_info_by_coord(c->id, offset, &mask, &address, &bytes) >= 0 && address != HADDR_UNDEF &&
               bytes > 0 && bytes <= UINT32_MAX;
        if (good)
            *known = (chunk_place){address, (uint32_t)bytes, mask, true};
    }
    *place = *known;
    pthread_mutex_unlock(&c->lock);
    return good;
}

static bool read_at(int fd, void *data, size_t bytes, uint64_t address)
{
    for (char *to = data; bytes > 0;) {
        const ssize_t n = pread(fd, to, bytes, (off_t)address);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        address += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool inflate_into(void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
#ifdef FF_HAVE_ZLIB
    uLongf length = to_bytes;
    return uncompress(to, &length, from, from_bytes) == Z_OK && length == to_bytes;
#else
    (void)to, (void)to_bytes, (void)from, (void)from_bytes;
    return false;
#endif
}

/* Bytes of elements [first, first + count) out of a shuffled chunk of n: byte b of all elements stands before byte b
 * + 1. */
static void unshuffle(unsigned char *to, const unsigned char *from, size_t n, size_t element_bytes, size_t first,
                      size_t count)
{
    if (element_bytes == 4) {
        const unsigned char *a = from + first, *b = a + n, *c = b + n, *d = c + n;
        for (size_t i = 0; i < count; i++) {
            to[4 * i] = a[i];
            to[4 * i + 1] = b[i];
            to[4 * i + 2] = c[i];
            to[4 * i + 3] = d[i];
        }
        return;
    }
    for (size_t b = 0; b < element_bytes; b++)
        for (size_t i = 0; i < count; i++)
            to[i * element_bytes + b] = from[b * n + first + i];
}

/* Rows [first, first + count) of a chunk; `raw` and `plain` are scratch of a chunk each. */
static bool read_chunk(ff_hdf5_column *c, int64_t chunk, int64_t first, int64_t count, char *to, char *raw,
                       char *plain)
{
    const size_t elements = (size_t)(c->chunk_rows * c->row_elements), bytes = elements * c->element_bytes;
    const size_t row_bytes = (size_t)c->row_elements * c->element_bytes;
    chunk_place place;
    if (!locate(c, chunk, &place) || place.bytes > bytes + bytes / 8 + 1024 ||
        !read_at(c->fd, raw, place.bytes, place.address))
        return false;
    bool shuffled = false;
    char *now = raw;
    size_t now_bytes = place.bytes;
    for (int i = c->num_filters - 1; i >= 0; i--) {
        if ((place.filter_mask >> i & 1) != 0)
            continue;
        if (c->filters[i] == H5Z_FILTER_SHUFFLE) {
            shuffled = true; /* undone on the way out: it comes first in our files, and so last here */
            if (i != 0)
                return false;
            continue;
        }
        if (shuffled || now != raw || !inflate_into(plain, bytes, now, now_bytes))
            return false;
        now = plain;
        now_bytes = bytes;
    }
    if (now_bytes != bytes)
        return false;
    if (shuffled && c->element_bytes > 1)
        unshuffle((unsigned char *)to, (const unsigned char *)now, elements, c->element_bytes,
                  (size_t)(first * c->row_elements), (size_t)(count * c->row_elements));
    else
        memcpy(to, now + (size_t)first * row_bytes, (size_t)count * row_bytes);
    return true;
}

/* ---- reading rows ---- */

static bool read_by_hand(ff_hdf5_column *c, int64_t first, int64_t count, char *to)
{
    const size_t row_bytes = (size_t)c->row_elements * c->element_bytes,
                 chunk_bytes = (size_t)c->chunk_rows * row_bytes;
    char *raw = malloc(2 * chunk_bytes + chunk_bytes / 8 + 1024);
    bool good = raw != NULL;
    for (int64_t end = first + count; good && first < end;) {
        const int64_t chunk = first / c->chunk_rows, inside = first - chunk * c->chunk_rows;
        const int64_t rows = end - first < c->chunk_rows - inside ? end - first : c->chunk_rows - inside;
        good = read_chunk(c, chunk, inside, rows, to, raw, raw + chunk_bytes + chunk_bytes / 8 + 1024);
        to += (size_t)rows * row_bytes;
        first += rows;
    }
    free(raw);
    return good;
}

/* A selection of rows [first, first + count) in the file's space. */
static hid_t select_rows(hid_t id, int64_t first, int64_t count)
{
    hsize_t start[FF_HDF5_MAX_DIMS + 1] = {0}, counts[FF_HDF5_MAX_DIMS + 1];
    const hid_t space = H5Dget_space(id);
    H5Sget_simple_extent_dims(space, counts, NULL);
    start[0] = (hsize_t)first;
    counts[0] = (hsize_t)count;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, counts, NULL);
    return space;
}

static bool read_by_library(ff_hdf5_column *c, int64_t first, int64_t count, void *data)
{
    const hsize_t elements = (hsize_t)(count * c->row_elements);
    pthread_mutex_lock(&c->lock);
    ff_hdf5_prepare();
    const hid_t from = select_rows(c->id, first, count), to = H5Screate_simple(1, &elements, NULL);
    const bool good = H5Dread(c->id, c->memory_type, to, from, H5P_DEFAULT, data) >= 0;
    H5Sclose(to);
    H5Sclose(from);
    pthread_mutex_unlock(&c->lock);
    return good;
}

ff_status ff_hdf5_column_read(ff_ctx *ctx, ff_hdf5_column *c, int64_t first, int64_t count, void *data)
{
    if (first < 0 || count < 0 || count > c->rows || first > c->rows - count)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s has %lld rows, %lld from %lld were wanted", c->path,
                       c->name, (long long)c->rows, (long long)count, (long long)first);
    if (count == 0 || c->row_elements == 0)
        return FF_OK;
    const bool good = c->by_hand ? read_by_hand(c, first, count, data) : read_by_library(c, first, count, data);
    return good ? FF_OK
                : FF_FAIL(ctx, FF_ERR_FORMAT,
                          "%s: data set %s: rows %lld to %lld cannot be read (damaged or truncated file)", c->path,
                          c->name, (long long)first, (long long)(first + count - 1));
}

/* ---- writing ---- */

struct ff_hdf5_column_writer {
    hid_t id;
    ff_hdf5_writer *writer;
    char *name;
    hid_t memory_type;
    int ndim;
    int64_t row_elements, rows;
    int64_t shape[FF_HDF5_MAX_DIMS];
};

static hid_t make_dataset(hid_t file, const char *dataset, ff_hdf5_type type, int ndim, const int64_t *shape,
                          int64_t chunk_rows)
{
    hsize_t dims[FF_HDF5_MAX_DIMS + 1] = {0}, most[FF_HDF5_MAX_DIMS + 1] = {H5S_UNLIMITED},
                                    chunk[FF_HDF5_MAX_DIMS + 1];
    chunk[0] = (hsize_t)chunk_rows;
    for (int i = 0; i < ndim; i++)
        dims[i + 1] = most[i + 1] = chunk[i + 1] = (hsize_t)shape[i];
    const hid_t space = H5Screate_simple(ndim + 1, dims, most), links = H5Pcreate(H5P_LINK_CREATE);
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    H5Pset_obj_track_times(layout, 0); /* the same data give the same file */
    H5Pset_chunk(layout, ndim + 1, chunk);
    if (ff_hdf5_type_bytes(type) > 1)
        H5Pset_shuffle(layout);
    H5Pset_deflate(layout, DEFLATE_LEVEL);
    const hid_t id = H5Dcreate2(file, dataset, file_type(type), space, links, layout, H5P_DEFAULT);
    H5Pclose(layout);
    H5Pclose(links);
    H5Sclose(space);
    return id;
}

ff_status ff_hdf5_column_append_open(ff_ctx *ctx, ff_hdf5_column_writer **column, ff_hdf5_writer *writer,
                                     const char *dataset, ff_hdf5_type type, int ndim, const int64_t *shape,
                                     int64_t chunk_rows)
{
    *column = NULL;
    int64_t rows = 0;
    hid_t id = H5Dopen2(writer->id, dataset, H5P_DEFAULT);
    const bool there = id >= 0;
    if (!there)
        id = make_dataset(writer->id, dataset, type, ndim, shape, chunk_rows);
    if (id < 0)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s (%s): the disk is full or failed", writer->safe.path,
                       dataset);
    if (there && !fits(id, type, ndim, shape, &rows)) {
        H5Dclose(id);
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s: data set %s does not hold rows of %s in %d dimensions; it cannot be extended",
                       writer->safe.path, dataset, type_name(type), ndim);
    }
    ff_hdf5_column_writer *c = calloc(1, sizeof *c);
    char *name = strdup(dataset);
    if (c == NULL || name == NULL) {
        free(c);
        free(name);
        H5Dclose(id);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %s", dataset);
    }
    *c = (ff_hdf5_column_writer){id, writer, name, memory_type(type), ndim, 1, rows, {0}};
    for (int i = 0; i < ndim; i++) {
        c->shape[i] = shape[i];
        c->row_elements *= shape[i];
    }
    *column = c;
    return FF_OK;
}

ff_status ff_hdf5_column_append(ff_ctx *ctx, ff_hdf5_column_writer *c, int64_t count, const void *data)
{
    if (count == 0)
        return FF_OK;
    hsize_t dims[FF_HDF5_MAX_DIMS + 1] = {(hsize_t)(c->rows + count)};
    const hsize_t elements = (hsize_t)(count * c->row_elements);
    for (int i = 0; i < c->ndim; i++)
        dims[i + 1] = (hsize_t)c->shape[i];
    bool good = H5Dset_extent(c->id, dims) >= 0;
    if (good) {
        const hid_t to = select_rows(c->id, c->rows, count), from = H5Screate_simple(1, &elements, NULL);
        good = H5Dwrite(c->id, c->memory_type, from, to, H5P_DEFAULT, data) >= 0;
        H5Sclose(from);
        H5Sclose(to);
    }
    if (!good)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s (%s): the disk is full or failed", c->writer->safe.path,
                       c->name);
    c->rows += count;
    return FF_OK;
}

int64_t ff_hdf5_column_appended(const ff_hdf5_column_writer *c) { return c->rows; }

ff_status ff_hdf5_column_append_close(ff_ctx *ctx, ff_hdf5_column_writer *c)
{
    if (c == NULL)
        return FF_OK;
    ff_status status = FF_OK;
    if (H5Dclose(c->id) < 0) /* the last chunks are written here */
        status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s (%s): the disk is full or failed", c->writer->safe.path,
                         c->name);
    free(c->name);
    free(c);
    return status;
}

#endif
