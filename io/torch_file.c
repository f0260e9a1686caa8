#include "io/torch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pickle.h"
#include "io/zip_file.h"

enum {
    MAX_DEPTH = 16,               /* of dictionaries in dictionaries */
    MAX_PICKLE_BYTES = 256 << 20, /* weights of 93 million numbers need one of about 1 MB */
    PATH_BYTES = 1024,
    BUFFER_BYTES = 1 << 14
};

struct ff_torch_file {
    ff_zip *zip;
    char *root; /* folder of all members, with its "/" */
    ff_torch_tensor *tensors;
    int64_t count, capacity;
    float *cache; /* the numbers of member `cached`, of which several tensors may be views */
    int64_t cached;
};

static const struct {
    const char *name;
    ff_number_type type;
} storages[] = {
    {"torch FloatStorage", FF_NUMBER_F32},     {"torch DoubleStorage", FF_NUMBER_F64},
    {"torch HalfStorage", FF_NUMBER_F16},      {"torch LongStorage", FF_NUMBER_I64},
    {"torch BFloat16Storage", FF_NUMBER_BF16}, {"torch IntStorage", FF_NUMBER_I32},
    {"torch ShortStorage", FF_NUMBER_I16},     {"torch CharStorage", FF_NUMBER_I8},
    {"torch ByteStorage", FF_NUMBER_U8},       {"torch BoolStorage", FF_NUMBER_BOOL},
};
enum { NUM_STORAGES = sizeof storages / sizeof *storages };

#define REBUILD_TENSOR    "torch._utils _rebuild_tensor_v2"
#define REBUILD_PARAMETER "torch._utils _rebuild_parameter"

/* ---- the archive ---- */

/* The folder that holds data.pkl. */
static ff_status find_root(ff_ctx *ctx, ff_torch_file *f, int64_t *pickle_member)
{
    for (int64_t i = 0; i < ff_zip_count(f->zip); i++) {
        const char *name = ff_zip_name(f->zip, i), *slash = strchr(name, '/');
        if (slash == NULL || strcmp(slash, "/data.pkl") != 0)
            continue;
        *pickle_member = i;
        f->root = strndup(name, (size_t)(slash - name) + 1);
        return f->root == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", ff_zip_path(f->zip)) : FF_OK;
    }
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s was not written by torch: it has no data.pkl", ff_zip_path(f->zip));
}

/* The member of that name below the root; -1 when there is none. */
static int64_t find_member(const ff_torch_file *f, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s%s%s", f->root, folder, name);
    return length < 0 || length >= PATH_BYTES ? -1 : ff_zip_find(f->zip, path);
}

/* All bytes of a member, NUL-terminated. */
static ff_status read_member(ff_ctx *ctx, ff_zip *zip, int64_t i, unsigned char **bytes, size_t *size)
{
    ff_zip_member *member;
    *size = (size_t)ff_zip_size(zip, i);
    if (*size > MAX_PICKLE_BYTES)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%s: %s is larger than %d MB", ff_zip_path(zip), ff_zip_name(zip, i),
                       MAX_PICKLE_BYTES >> 20);
    *bytes = calloc(1, *size + 1);
    if (*bytes == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", ff_zip_path(zip));
    FF_TRY(ff_zip_begin(ctx, zip, i, &member));
    const ff_status status = ff_zip_read(ctx, member, *bytes, *size);
    if (status == FF_OK)
        return ff_zip_end(ctx, member);
    ff_zip_drop(member);
    return status;
}

static ff_status check_byte_order(ff_ctx *ctx, const ff_torch_file *f)
{
    const int64_t i = find_member(f, "", "byteorder");
    unsigned char *text = NULL;
    size_t size;
    if (i < 0)
        return FF_OK; /* older files have none and are little endian */
    ff_status status = read_member(ctx, f->zip, i, &text, &size);
    if (status == FF_OK && strcmp((const char *)text, "little") != 0)
        status = FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%s holds %.8s-endian numbers; only little endian is read",
                         ff_zip_path(f->zip), (const char *)text);
    free(text);
    return status;
}

/* ---- tensors in the pickle ---- */

static ff_status bad_tensor(ff_ctx *ctx, const ff_torch_file *f, const char *path, const char *why)
{
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: tensor %s %s", ff_zip_path(f->zip), path, why);
}

static bool is_tuple(const ff_pickle_value *v, int64_t at_least)
{
    return v->type == FF_PICKLE_TUPLE && v->count >= at_least;
}

static bool is_call(const ff_pickle_value *v, const char *function)
{
    return v->type == FF_PICKLE_CALL && strcmp(v->items[0]->text, function) == 0;
}

/* Persistent id ("storage", type, key, place, number of elements). */
static ff_status read_storage(ff_ctx *ctx, const ff_torch_file *f, const char *path, const ff_pickle_value *v,
                              ff_torch_tensor *t)
{
    if (v->type != FF_PICKLE_PERSISTENT || !is_tuple(v->items[0], 5))
        return bad_tensor(ctx, f, path, "has no storage");
    ff_pickle_value *const *id = v->items[0]->items;
    int i = 0;
    while (i < NUM_STORAGES && id[1]->type == FF_PICKLE_GLOBAL && strcmp(id[1]->text, storages[i].name) != 0)
        i++;
    if (i == NUM_STORAGES || id[1]->type != FF_PICKLE_GLOBAL || id[2]->type != FF_PICKLE_TEXT ||
        id[4]->type != FF_PICKLE_INTEGER)
        return bad_tensor(ctx, f, path, "has a storage of an unknown form");
    t->type = storages[i].type;
    t->storage_size = id[4]->integer;
    t->member = find_member(f, "data/", id[2]->text);
    if (t->member < 0)
        return bad_tensor(ctx, f, path, "has its numbers in a member that is missing");
    if (t->storage_size < 0 || t->storage_size > INT64_MAX / 8 ||
        ff_zip_size(f->zip, t->member) != t->storage_size * ff_number_bytes(t->type))
        return bad_tensor(ctx, f, path, "has a storage of another length than its member");
    return FF_OK;
}

/* A tuple of numbers, none negative. */
static bool read_lengths(const ff_pickle_value *v, int64_t *lengths, int *count)
{
    if (v->type != FF_PICKLE_TUPLE || v->count > FF_TORCH_MAX_DIMS)
        return false;
    *count = (int)v->count;
    for (int d = 0; d < *count; d++) {
        if (v->items[d]->type != FF_PICKLE_INTEGER || v->items[d]->integer < 0)
            return false;
        lengths[d] = v->items[d]->integer;
    }
    return true;
}

/* Size, and whether the last element lies inside the storage. */
static bool measure(ff_torch_tensor *t)
{
    int64_t last = t->offset;
    t->size = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (__builtin_mul_overflow(t->size, t->shape[d], &t->size) || t->size > INT64_MAX / 8)
            return false;
    }
    if (t->size == 0)
        return true;
    for (int d = 0; d < t->ndim; d++) {
        int64_t reach;
        if (__builtin_mul_overflow(t->shape[d] - 1, t->stride[d], &reach) || __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return last < t->storage_size;
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, ...) */
static ff_status read_tensor(ff_ctx *ctx, const ff_torch_file *f, const char *path, const ff_pickle_value *call,
                             ff_torch_tensor *t)
{
    const ff_pickle_value *arguments = call->items[1];
    int num_strides = 0;
    if (!is_tuple(arguments, 4) || arguments->items[1]->type != FF_PICKLE_INTEGER || arguments->items[1]->integer < 0 ||
        !read_lengths(arguments->items[2], t->shape, &t->ndim) ||
        !read_lengths(arguments->items[3], t->stride, &num_strides) || num_strides != t->ndim)
        return bad_tensor(ctx, f, path, "is of an unknown form");
    t->offset = arguments->items[1]->integer;
    FF_TRY(read_storage(ctx, f, path, arguments->items[0], t));
    return measure(t) ? FF_OK : bad_tensor(ctx, f, path, "reaches beyond its storage");
}

static ff_status add_tensor(ff_ctx *ctx, ff_torch_file *f, const char *path, const ff_pickle_value *call)
{
    if (f->count == f->capacity) {
        const int64_t capacity = f->capacity == 0 ? 256 : 2 * f->capacity;
        ff_torch_tensor *grown = realloc(f->tensors, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", ff_zip_path(f->zip));
        f->tensors = grown;
        f->capacity = capacity;
    }
    ff_torch_tensor t = {.path = NULL};
    FF_TRY(read_tensor(ctx, f, path, call, &t));
    t.path = strdup(path);
    if (t.path == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", ff_zip_path(f->zip));
    f->tensors[f->count++] = t;
    return FF_OK;
}

/* Collect the tensors in `v` and in the dictionaries below it. */
static ff_status collect(ff_ctx *ctx, ff_torch_file *f, const ff_pickle_value *v, const char *path, int depth)
{
    char below[PATH_BYTES];
    if (is_call(v, REBUILD_PARAMETER) && is_tuple(v->items[1], 1)) /* (tensor, requires_grad, hooks) */
        v = v->items[1]->items[0];
    if (is_call(v, REBUILD_TENSOR))
        return add_tensor(ctx, f, path, v);
    if (v->type != FF_PICKLE_DICT)
        return FF_OK;
    if (depth == MAX_DEPTH)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%s: its dictionaries are nested too deeply", ff_zip_path(f->zip));
    for (int64_t i = 0; i + 1 < v->count; i += 2) {
        const ff_pickle_value *key = v->items[i];
        if (key->type != FF_PICKLE_TEXT && key->type != FF_PICKLE_INTEGER)
            continue;
        const char *slash = path[0] == '\0' ? "" : "/";
        const int length = key->type == FF_PICKLE_TEXT
                               ? snprintf(below, sizeof below, "%s%s%s", path, slash, key->text)
                               : snprintf(below, sizeof below, "%s%s%lld", path, slash, (long long)key->integer);
        if (length < 0 || length >= PATH_BYTES)
            return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%s: a name below %.100s is too long", ff_zip_path(f->zip), path);
        for (char *c = below; *c != '\0'; c++)
            if ((unsigned char)*c < ' ') /* messages are one line whatever the file says */
                *c = '?';
        FF_TRY(collect(ctx, f, v->items[i + 1], below, depth + 1));
    }
    return FF_OK;
}

static ff_status read_pickle(ff_ctx *ctx, ff_torch_file *f, int64_t member)
{
    const char *allowed[NUM_STORAGES + 3] = {REBUILD_TENSOR, REBUILD_PARAMETER};
    unsigned char *bytes = NULL;
    size_t size;
    ff_pickle *pickle = NULL;
    for (int i = 0; i < NUM_STORAGES; i++)
        allowed[2 + i] = storages[i].name;
    ff_status status = read_member(ctx, f->zip, member, &bytes, &size);
    if (status == FF_OK)
        status = ff_pickle_read(ctx, &pickle, bytes, size, allowed, ff_zip_path(f->zip));
    if (status == FF_OK)
        status = collect(ctx, f, ff_pickle_root(pickle), "", 0);
    ff_pickle_destroy(pickle);
    free(bytes);
    return status;
}

ff_status ff_torch_open(ff_ctx *ctx, ff_torch_file **file, const char *path)
{
    ff_status status = FF_OK;
    int64_t pickle_member = 0;
    ff_torch_file *f = calloc(1, sizeof *f);
    *file = NULL;
    if (f == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    f->cached = -1;
    FF_TRY_DONE(ff_zip_open(ctx, &f->zip, path, "a .pt file"));
    FF_TRY_DONE(find_root(ctx, f, &pickle_member));
    FF_TRY_DONE(check_byte_order(ctx, f));
    FF_TRY_DONE(read_pickle(ctx, f, pickle_member));
done:
    if (status == FF_OK)
        *file = f;
    else
        ff_torch_close(f);
    return status;
}

void ff_torch_close(ff_torch_file *file)
{
    if (file == NULL)
        return;
    for (int64_t i = 0; i < file->count; i++)
        free(file->tensors[i].path);
    free(file->tensors);
    free(file->root);
    free(file->cache);
    ff_zip_close(file->zip);
    free(file);
}

int64_t ff_torch_count(const ff_torch_file *file) { return file->count; }

const ff_torch_tensor *ff_torch_get(const ff_torch_file *file, int64_t i) { return &file->tensors[i]; }

/* ---- numbers ---- */

/* Whether the elements lie one after the other in C order. */
static bool is_contiguous(const ff_torch_tensor *t)
{
    int64_t want = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->stride[d] != want)
            return false;
        want *= t->shape[d];
    }
    return true;
}

static ff_status read_numbers(ff_ctx *ctx, ff_zip_member *member, const ff_torch_tensor *t, float *data)
{
    const int64_t bytes = ff_number_bytes(t->type), most = BUFFER_BYTES / bytes;
    unsigned char buffer[BUFFER_BYTES];
    if (t->type == FF_NUMBER_F32)
        return ff_zip_read(ctx, member, data, (size_t)t->storage_size * sizeof *data);
    for (int64_t done = 0; done < t->storage_size;) {
        const int64_t n = t->storage_size - done < most ? t->storage_size - done : most;
        FF_TRY(ff_zip_read(ctx, member, buffer, (size_t)(n * bytes)));
        ff_numbers_to_float(t->type, buffer, data + done, n);
        done += n;
    }
    return FF_OK;
}

/* All numbers of the tensor's storage. */
static ff_status read_storage_numbers(ff_ctx *ctx, ff_torch_file *f, const ff_torch_tensor *t, float *data)
{
    ff_zip_member *member;
    FF_TRY(ff_zip_begin(ctx, f->zip, t->member, &member));
    const ff_status status = read_numbers(ctx, member, t, data);
    if (status == FF_OK)
        return ff_zip_end(ctx, member);
    ff_zip_drop(member);
    return status;
}

static ff_status fill_cache(ff_ctx *ctx, ff_torch_file *f, const ff_torch_tensor *t)
{
    if (f->cached == t->member)
        return FF_OK;
    f->cached = -1;
    free(f->cache);
    f->cache = malloc((size_t)t->storage_size * sizeof *f->cache);
    if (f->cache == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", ff_zip_path(f->zip));
    FF_TRY(read_storage_numbers(ctx, f, t, f->cache));
    f->cached = t->member;
    return FF_OK;
}

/* data[C order] from the storage by strides. */
static void gather(const ff_torch_tensor *t, const float *storage, float *data)
{
    int64_t index[FF_TORCH_MAX_DIMS] = {0}, at = t->offset;
    for (int64_t k = 0; k < t->size; k++) {
        data[k] = storage[at];
        for (int d = t->ndim - 1; d >= 0; d--) {
            at += t->stride[d];
            if (++index[d] < t->shape[d])
                break;
            index[d] = 0;
            at -= t->stride[d] * t->shape[d];
        }
    }
}

ff_status ff_torch_read_float(ff_ctx *ctx, ff_torch_file *f, int64_t i, float *data, int64_t size)
{
    const ff_torch_tensor *t = &f->tensors[i];
    if (t->size != size)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: tensor %s has %lld numbers, wanted %lld", ff_zip_path(f->zip), t->path,
                       (long long)t->size, (long long)size);
    if (size == 0)
        return FF_OK;
    if (is_contiguous(t) && size == t->storage_size)
        return read_storage_numbers(ctx, f, t, data);
    FF_TRY(fill_cache(ctx, f, t));
    gather(t, f->cache, data);
    return FF_OK;
}
