#include "io/arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/large_pages.h"

void ff_array_set_init(ff_array_set *set) { *set = (ff_array_set){NULL, 0, 0}; }

static void array_destroy(ff_array *array)
{
    if (array == NULL)
        return;
    if (array->type == FF_ARRAY_TEXT && array->text != NULL)
        for (int64_t i = 0; i < array->size; i++)
            free(array->text[i]);
    free(array->data);
    free(array->name);
    free(array);
}

void ff_array_set_destroy(ff_array_set *set)
{
    for (int64_t i = 0; i < set->count; i++)
        array_destroy(set->items[i]);
    free(set->items);
    ff_array_set_init(set);
}

size_t ff_array_type_bytes(ff_array_type type)
{
    return type == FF_ARRAY_TEXT ? sizeof(char *) : type == FF_ARRAY_INT8 ? 1 : 4;
}

static int64_t index_of(const ff_array_set *set, const char *name)
{
    for (int64_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i]->name, name) == 0)
            return i;
    return -1;
}

ff_array *ff_array_find(const ff_array_set *set, const char *name)
{
    const int64_t i = index_of(set, name);
    return i < 0 ? NULL : set->items[i];
}

void ff_array_remove(ff_array_set *set, const char *name)
{
    const int64_t i = index_of(set, name);
    if (i < 0)
        return;
    array_destroy(set->items[i]);
    memmove(set->items + i, set->items + i + 1, (size_t)(set->count - i - 1) * sizeof *set->items);
    set->count--;
}

static ff_array *array_create(ff_ctx *ctx, const char *name, ff_array_type type, int ndim, const int64_t *shape)
{
    ff_array *array = calloc(1, sizeof *array);
    bool good = array != NULL && ndim <= FF_HDF5_MAX_DIMS;
    if (good) {
        array->type = type;
        array->ndim = ndim;
        array->size = 1;
        for (int i = 0; i < ndim; i++) {
            array->shape[i] = shape[i];
            good = good && shape[i] >= 0 && !__builtin_mul_overflow(array->size, shape[i], &array->size);
        }
        array->name = strdup(name);
        array->data = good ? calloc((size_t)(array->size > 0 ? array->size : 1), ff_array_type_bytes(type)) : NULL;
        ff_use_large_pages(array->data, (size_t)array->size * ff_array_type_bytes(type));
    }
    if (good && array->name != NULL && array->data != NULL)
        return array;
    if (array != NULL)
        array->size = 0;
    array_destroy(array);
    FF_FAIL(ctx, FF_ERR_MEM, "out of memory for array %s", name);
    return NULL;
}

/* Put an array in, in the place of one of its name; on failure it is destroyed. */
static ff_status insert(ff_ctx *ctx, ff_array_set *set, ff_array *array)
{
    const int64_t there = index_of(set, array->name);
    if (there >= 0) {
        array_destroy(set->items[there]);
        set->items[there] = array;
        return FF_OK;
    }
    if (set->count == set->capacity) {
        const int64_t capacity = set->capacity > 0 ? 2 * set->capacity : 32;
        ff_array **items = realloc(set->items, (size_t)capacity * sizeof *items);
        if (items == NULL) {
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for array %s", array->name);
            array_destroy(array);
            return FF_ERR_MEM;
        }
        set->items = items;
        set->capacity = capacity;
    }
    set->items[set->count++] = array;
    return FF_OK;
}

ff_array *ff_array_add(ff_ctx *ctx, ff_array_set *set, const char *name, ff_array_type type, int ndim,
                       const int64_t *shape)
{
    ff_array *array = array_create(ctx, name, type, ndim, shape);
    return array != NULL && insert(ctx, set, array) == FF_OK ? array : NULL;
}

ff_status ff_array_move(ff_ctx *ctx, ff_array_set *to, const char *new_name, ff_array_set *from, const char *name)
{
    const int64_t at = index_of(from, name);
    if (at < 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s is missing", name);
    char *copy = strdup(new_name);
    if (copy == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for array %s", new_name);
    ff_array *array = from->items[at];
    memmove(from->items + at, from->items + at + 1, (size_t)(from->count - at - 1) * sizeof *from->items);
    from->count--;
    free(array->name);
    array->name = copy;
    return insert(ctx, to, array);
}

/* "[3, ?]" */
static const char *shape_text(char *text, size_t size, int ndim, const int64_t *shape)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < ndim && at < size; i++) {
        at += (size_t)snprintf(text + at, size - at, i > 0 ? ", " : "");
        if (at < size)
            at += (size_t)(shape[i] < 0 ? snprintf(text + at, size - at, "?")
                                        : snprintf(text + at, size - at, "%lld", (long long)shape[i]));
    }
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

ff_array *ff_array_need(ff_ctx *ctx, const ff_array_set *set, const char *name, ff_array_type type, int ndim,
                        const int64_t *shape)
{
    static const char *const types[] = {"float32", "int32", "int8", "text"};
    char want[128], have[128];
    ff_array *array = ff_array_find(set, name);
    if (array == NULL) {
        FF_FAIL(ctx, FF_ERR_FORMAT, "array %s is missing", name);
        return NULL;
    }
    bool good = array->type == type && (ndim < 0 || array->ndim == ndim);
    for (int i = 0; good && i < ndim; i++)
        good = shape[i] < 0 || array->shape[i] == shape[i];
    if (good)
        return array;
    FF_FAIL(ctx, FF_ERR_FORMAT, "array %s is %s %s, wanted %s %s", name, types[array->type],
            shape_text(have, sizeof have, array->ndim, array->shape), types[type],
            ndim < 0 ? "of any shape" : shape_text(want, sizeof want, ndim, shape));
    return NULL;
}

ff_status ff_array_put_text(ff_ctx *ctx, ff_array *array, int64_t index, const char *text, size_t length)
{
    char *copy = strndup(text, length);
    if (copy == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for array %s", array->name);
    free(array->text[index]);
    array->text[index] = copy;
    return FF_OK;
}

ff_array *ff_array_copy(ff_ctx *ctx, ff_array_set *set, const char *name, const ff_array *array)
{
    ff_array *copy = ff_array_add(ctx, set, name, array->type, array->ndim, array->shape);
    if (copy == NULL)
        return NULL;
    if (array->type != FF_ARRAY_TEXT) {
        memcpy(copy->data, array->data, (size_t)array->size * ff_array_type_bytes(array->type));
        return copy;
    }
    for (int64_t i = 0; i < array->size; i++)
        if (array->text[i] != NULL &&
            ff_array_put_text(ctx, copy, i, array->text[i], strlen(array->text[i])) != FF_OK)
            return NULL;
    return copy;
}

/* ---- files ---- */

typedef struct {
    ff_array_set *set;
    ff_hdf5_file *file;
    const char *group;
} reading;

static const char *join(char *path, size_t size, const char *group, const char *name)
{
    const size_t length = strlen(group);
    snprintf(path, size, "%s%s%s", group, length > 0 && group[length - 1] == '/' ? "" : "/", name);
    return path;
}

static ff_status read_one(ff_ctx *ctx, void *arg, const char *name)
{
    const reading *r = arg;
    char path[1024];
    join(path, sizeof path, r->group, name);
    ff_hdf5_info info;
    FF_TRY(ff_hdf5_get_info(ctx, r->file, path, &info));
    if (info.kind == FF_HDF5_OTHER)
        return FF_OK; /* not ours to read */
    const ff_array_type type = info.kind == FF_HDF5_TEXT    ? FF_ARRAY_TEXT
                               : info.kind == FF_HDF5_FLOAT ? FF_ARRAY_FLOAT32
                               : info.element_bytes == 1    ? FF_ARRAY_INT8
                                                            : FF_ARRAY_INT32;
    ff_array *array = ff_array_add(ctx, r->set, name, type, info.ndim, info.shape);
    if (array == NULL)
        return ctx->status;
    switch (type) {
    case FF_ARRAY_FLOAT32: return ff_hdf5_read_float(ctx, r->file, path, array->f32, info.size);
    case FF_ARRAY_INT32: return ff_hdf5_read_int32(ctx, r->file, path, array->i32, info.size);
    case FF_ARRAY_INT8: return ff_hdf5_read_int8(ctx, r->file, path, array->i8, info.size);
    default: return ff_hdf5_read_text(ctx, r->file, path, array->text, info.size);
    }
}

ff_status ff_array_set_read(ff_ctx *ctx, ff_array_set *set, ff_hdf5_file *file, const char *group)
{
    reading r = {set, file, group};
    return ff_hdf5_each_dataset(ctx, file, group, read_one, &r);
}

ff_status ff_array_set_write(ff_ctx *ctx, const ff_array_set *set, ff_hdf5_writer *writer, const char *group)
{
    char path[1024];
    FF_TRY(ff_hdf5_make_group(ctx, writer, group));
    for (int64_t i = 0; i < set->count; i++) {
        const ff_array *a = set->items[i];
        join(path, sizeof path, group, a->name);
        switch (a->type) {
        case FF_ARRAY_FLOAT32: FF_TRY(ff_hdf5_write_float(ctx, writer, path, a->ndim, a->shape, a->f32)); break;
        case FF_ARRAY_INT32: FF_TRY(ff_hdf5_write_int32(ctx, writer, path, a->ndim, a->shape, a->i32)); break;
        case FF_ARRAY_INT8: FF_TRY(ff_hdf5_write_int8(ctx, writer, path, a->ndim, a->shape, a->i8)); break;
        case FF_ARRAY_TEXT: FF_TRY(ff_hdf5_write_text(ctx, writer, path, a->ndim, a->shape, a->text)); break;
        }
    }
    return FF_OK;
}
