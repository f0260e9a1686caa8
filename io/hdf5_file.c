/* hdf5_file.c - see hdf5_file.h. Library handles live inside one function each; its own error printing is off for
 * the calls made here, because messages go through the context. */
#include "io/hdf5_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FF_HAVE_HDF5

#include "io/hdf5_private.h"

enum { PATH_BYTES = 1024 };

ff_status ff_hdf5_open(ff_ctx *ctx, ff_hdf5_file **file, const char *path)
{
    *file = NULL;
    FILE *probe = fopen(path, "rb");
    if (probe == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    fclose(probe);
    ff_hdf5_file *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (f == NULL || copy == NULL) {
        free(f);
        free(copy);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory opening %s", path);
    }
    f->path = copy;
    ff_hdf5_prepare();
    const htri_t is_hdf5 = H5Fis_hdf5(path);
    f->id = is_hdf5 > 0 ? H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT) : -1;
    if (f->id < 0) {
        free(copy);
        free(f);
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       is_hdf5 > 0 ? "%s is a damaged or truncated HDF5 file" : "%s is not an HDF5 file", path);
    }
    *file = f;
    return FF_OK;
}

void ff_hdf5_close(ff_hdf5_file *file)
{
    if (file == NULL)
        return;
    H5Fclose(file->id);
    free(file->path);
    free(file);
}

/* ---- visits ---- */

/* State of one visit; the library's callbacks stop at the first failure. */
typedef struct {
    ff_ctx *ctx;
    ff_hdf5_visit_fn visit;
    void *arg;
    H5O_type_t type;
    ff_status status;
} visit_state;

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    (void)info;
    visit_state *state = data;
    H5O_info_t object;
    if (H5Oget_info_by_name(group, name, &object, H5P_DEFAULT) < 0)
        return -1;
    if (object.type != state->type)
        return 0;
    state->status = state->visit(state->ctx, state->arg, name);
    return state->status == FF_OK ? 0 : 1;
}

static ff_status visit(ff_ctx *ctx, ff_hdf5_file *file, const char *path, visit_state *state, bool deep)
{
    const hid_t group = H5Gopen2(file->id, path, H5P_DEFAULT);
    if (group < 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: cannot read group %s", file->path, path);
    hsize_t index = 0;
    const herr_t result = deep ? H5Lvisit(group, H5_INDEX_NAME, H5_ITER_INC, visit_link, state)
                               : H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &index, visit_link, state);
    H5Gclose(group);
    if (state->status != FF_OK)
        return state->status;
    return result < 0 ? FF_FAIL(ctx, FF_ERR_FORMAT, "%s: group %s is damaged", file->path, path) : FF_OK;
}

/* Whether a path exists: every link on the way has to. "/" does. */
static bool exists(ff_hdf5_file *file, const char *path)
{
    char part[PATH_BYTES];
    for (size_t i = 1; path[0] != '\0' && path[1] != '\0'; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        if (i >= sizeof part)
            return false;
        memcpy(part, path, i);
        part[i] = '\0';
        if (H5Lexists(file->id, part, H5P_DEFAULT) <= 0)
            return false;
        if (path[i] == '\0')
            break;
    }
    return true;
}

ff_status ff_hdf5_each_group(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_visit_fn fn, void *arg)
{
    visit_state state = {ctx, fn, arg, H5O_TYPE_GROUP, FF_OK};
    return visit(ctx, file, group, &state, false);
}

ff_status ff_hdf5_each_dataset(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_visit_fn fn, void *arg)
{
    if (!exists(file, group))
        return FF_OK;
    visit_state state = {ctx, fn, arg, H5O_TYPE_DATASET, FF_OK};
    return visit(ctx, file, group, &state, true);
}

/* ---- data sets ---- */

static ff_hdf5_kind kind_of(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_FLOAT: return FF_HDF5_FLOAT;
    case H5T_INTEGER: return FF_HDF5_INTEGER;
    case H5T_STRING: return FF_HDF5_TEXT;
    default: return FF_HDF5_OTHER;
    }
}

ff_status ff_hdf5_get_info(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, ff_hdf5_info *info)
{
    *info = (ff_hdf5_info){.kind = FF_HDF5_OTHER};
    const hid_t id = exists(file, dataset) ? H5Dopen2(file->id, dataset, H5P_DEFAULT) : -1;
    if (id < 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: no data set %s", file->path, dataset);
    const hid_t type = H5Dget_type(id), space = H5Dget_space(id);
    hsize_t shape[H5S_MAX_RANK];
    const int ndim = H5Sget_simple_extent_ndims(space);
    const bool good = type >= 0 && ndim >= 0 && H5Sget_simple_extent_dims(space, shape, NULL) >= 0;
    if (good) {
        info->kind = kind_of(type);
        info->element_bytes = H5Tget_size(type);
    }
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    H5Dclose(id);
    if (!good)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s is damaged", file->path, dataset);
    if (ndim > FF_HDF5_MAX_DIMS)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s has %d dimensions, at most %d are read", file->path,
                       dataset, ndim, FF_HDF5_MAX_DIMS);
    info->ndim = ndim;
    info->size = 1;
    for (int i = 0; i < ndim; i++) {
        info->shape[i] = (int64_t)shape[i];
        if (__builtin_mul_overflow(info->size, info->shape[i], &info->size) || info->size > INT64_MAX / 8)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s: its size is out of range", file->path, dataset);
    }
    return FF_OK;
}

static bool is_number(ff_hdf5_kind kind) { return kind == FF_HDF5_FLOAT || kind == FF_HDF5_INTEGER; }

static ff_status read_numbers(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, hid_t type, void *data, int64_t size)
{
    ff_hdf5_info info;
    FF_TRY(ff_hdf5_get_info(ctx, file, dataset, &info));
    if (!is_number(info.kind) || info.size != size)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s does not hold %lld numbers", file->path, dataset,
                       (long long)size);
    if (size == 0)
        return FF_OK;
    const hid_t id = H5Dopen2(file->id, dataset, H5P_DEFAULT);
    const herr_t result = id < 0 ? -1 : H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    if (id >= 0)
        H5Dclose(id);
    return result < 0 ? FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s cannot be read (damaged or truncated)", file->path,
                                dataset)
                      : FF_OK;
}

ff_status ff_hdf5_read_float(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, float *data, int64_t size)
{
    return read_numbers(ctx, file, dataset, H5T_NATIVE_FLOAT, data, size);
}

ff_status ff_hdf5_read_int32(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int32_t *data, int64_t size)
{
    return read_numbers(ctx, file, dataset, H5T_NATIVE_INT32, data, size);
}

ff_status ff_hdf5_read_int8(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int8_t *data, int64_t size)
{
    return read_numbers(ctx, file, dataset, H5T_NATIVE_INT8, data, size);
}

ff_status ff_hdf5_read_int64(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, int64_t *data, int64_t size)
{
    return read_numbers(ctx, file, dataset, H5T_NATIVE_INT64, data, size);
}

bool ff_hdf5_exists(ff_hdf5_file *file, const char *path) { return exists(file, path); }

/* Copies of the texts of an open data set; false when it cannot be read. */
static bool read_texts(hid_t id, hid_t type, char **data, int64_t size)
{
    const bool variable = H5Tis_variable_str(type) > 0;
    const size_t bytes = variable ? sizeof(char *) : H5Tget_size(type);
    char *raw = calloc((size_t)size, bytes);
    if (raw == NULL)
        return false;
    const hid_t memory = H5Tcopy(type); /* fixed length: as stored, cut at the first NUL or at its end */
    bool good = H5Dread(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, raw) >= 0;
    for (int64_t i = 0; good && i < size; i++) {
        const char *text = variable ? ((char **)(void *)raw)[i] : raw + (size_t)i * bytes;
        data[i] = text == NULL ? strdup("") : variable ? strdup(text) : strndup(text, bytes);
        good = data[i] != NULL;
    }
    if (variable) {
        const hid_t space = H5Dget_space(id);
        H5Dvlen_reclaim(memory, space, H5P_DEFAULT, raw);
        H5Sclose(space);
    }
    H5Tclose(memory);
    free(raw);
    return good;
}

ff_status ff_hdf5_read_text(ff_ctx *ctx, ff_hdf5_file *file, const char *dataset, char **data, int64_t size)
{
    ff_hdf5_info info;
    FF_TRY(ff_hdf5_get_info(ctx, file, dataset, &info));
    if (info.kind != FF_HDF5_TEXT || info.size != size)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s does not hold %lld texts", file->path, dataset,
                       (long long)size);
    memset(data, 0, (size_t)size * sizeof *data);
    if (size == 0)
        return FF_OK;
    const hid_t id = H5Dopen2(file->id, dataset, H5P_DEFAULT);
    const hid_t type = id < 0 ? -1 : H5Dget_type(id);
    const bool good = type >= 0 && read_texts(id, type, data, size);
    if (type >= 0)
        H5Tclose(type);
    if (id >= 0)
        H5Dclose(id);
    if (good)
        return FF_OK;
    for (int64_t i = 0; i < size; i++) {
        free(data[i]);
        data[i] = NULL;
    }
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: data set %s cannot be read (damaged or truncated)", file->path, dataset);
}

/* ---- attributes ---- */

typedef struct {
    ff_ctx *ctx;
    ff_hdf5_attribute_fn visit;
    void *arg;
    ff_status status;
} attribute_state;

/* Text of a scalar string attribute, to be freed with free; NULL when it cannot be read. */
static char *read_text(hid_t id, hid_t type)
{
    char *text = NULL;
    if (H5Tis_variable_str(type) > 0) {
        char *library_text = NULL;
        const hid_t memory = H5Tcopy(H5T_C_S1);
        H5Tset_size(memory, H5T_VARIABLE);
        H5Tset_cset(memory, H5Tget_cset(type));
        if (H5Aread(id, memory, &library_text) >= 0 && library_text != NULL) {
            text = strdup(library_text);
            H5free_memory(library_text);
        }
        H5Tclose(memory);
    } else {
        const size_t bytes = H5Tget_size(type);
        text = calloc(bytes + 1, 1);
        if (text != NULL && H5Aread(id, type, text) < 0) {
            free(text);
            text = NULL;
        }
    }
    return text;
}

static bool read_number(hid_t id, int64_t count, double *value)
{
    double *values = calloc((size_t)count, sizeof *values);
    const bool good = values != NULL && H5Aread(id, H5T_NATIVE_DOUBLE, values) >= 0;
    *value = good ? values[0] : 0;
    free(values);
    return good;
}

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info, void *data)
{
    (void)info;
    attribute_state *state = data;
    const hid_t id = H5Aopen(object, name, H5P_DEFAULT);
    if (id < 0)
        return -1;
    const hid_t type = H5Aget_type(id), space = H5Aget_space(id);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    double value = 0;
    if (H5Tget_class(type) == H5T_STRING && count == 1) {
        char *text = read_text(id, type);
        if (text != NULL)
            state->status = state->visit(state->ctx, state->arg, name, text, 0);
        free(text);
    } else if (is_number(kind_of(type)) && count > 0 && read_number(id, count, &value)) {
        state->status = state->visit(state->ctx, state->arg, name, NULL, value);
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(id);
    return state->status == FF_OK ? 0 : 1;
}

ff_status ff_hdf5_each_attribute(ff_ctx *ctx, ff_hdf5_file *file, const char *group, ff_hdf5_attribute_fn fn, void *arg)
{
    attribute_state state = {ctx, fn, arg, FF_OK};
    const hid_t id = exists(file, group) ? H5Gopen2(file->id, group, H5P_DEFAULT) : -1;
    if (id < 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: no group %s, or it is damaged", file->path, group);
    hsize_t index = 0;
    const herr_t result = H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_INC, &index, visit_attribute, &state);
    H5Gclose(id);
    if (state.status != FF_OK)
        return state.status;
    return result < 0 ? FF_FAIL(ctx, FF_ERR_FORMAT, "%s: the attributes of %s are damaged", file->path, group) : FF_OK;
}

int64_t ff_hdf5_read_attribute(ff_hdf5_file *file, const char *group, const char *name, double *values, int64_t capacity)
{
    const hid_t id = exists(file, group) ? H5Aopen_by_name(file->id, group, name, H5P_DEFAULT, H5P_DEFAULT) : -1;
    if (id < 0)
        return 0;
    const hid_t type = H5Aget_type(id), space = H5Aget_space(id);
    const int64_t count = H5Sget_simple_extent_npoints(space);
    double *all = is_number(kind_of(type)) && count > 0 ? calloc((size_t)count, sizeof *all) : NULL;
    const bool good = all != NULL && H5Aread(id, H5T_NATIVE_DOUBLE, all) >= 0;
    for (int64_t i = 0; good && i < count && i < capacity; i++)
        values[i] = all[i];
    free(all);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(id);
    return good ? count : 0;
}

#endif
