#include "io/npz.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/zip_file.h"

struct ff_npz {
    ff_zip *zip;
    char **names; /* without ".npy" */
    int64_t count;
};

enum {
    MAGIC_BYTES = 8,        /* "\x93NUMPY", major, minor */
    HEADER_BYTES = 1 << 16, /* more than any shape of FF_NPZ_MAX_DIMS needs */
    BUFFER_BYTES = 1 << 16, /* of conversions; a multiple of every element size */
    ALIGNMENT = 64          /* of the data, as NumPy writes it */
};
static const char MAGIC[] = "\x93NUMPY";

ff_status ff_npz_open(ff_ctx *ctx, ff_npz **npz, const char *path)
{
    ff_status status = FF_OK;
    ff_npz *n = calloc(1, sizeof *n);
    *npz = NULL;
    if (n == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    FF_TRY_DONE(ff_zip_open(ctx, &n->zip, path, "a .npz file"));
    const int64_t count = ff_zip_count(n->zip);
    n->names = calloc((size_t)count + 1, sizeof *n->names);
    for (int64_t i = 0; n->names != NULL && i < count; i++) {
        const char *name = ff_zip_name(n->zip, i);
        const size_t length = strlen(name);
        const bool npy = length > 4 && strcmp(name + length - 4, ".npy") == 0;
        n->names[i] = strndup(name, npy ? length - 4 : length);
        if (n->names[i] == NULL)
            break;
        n->count++;
    }
    if (n->count < count)
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
done:
    if (status == FF_OK)
        *npz = n;
    else
        ff_npz_close(n);
    return status;
}

void ff_npz_close(ff_npz *npz)
{
    if (npz == NULL)
        return;
    for (int64_t i = 0; i < npz->count; i++)
        free(npz->names[i]);
    free(npz->names);
    ff_zip_close(npz->zip);
    free(npz);
}

int64_t ff_npz_count(const ff_npz *npz) { return npz->count; }

const char *ff_npz_name(const ff_npz *npz, int64_t i) { return npz->names[i]; }

int64_t ff_npz_find(const ff_npz *npz, const char *name)
{
    for (int64_t i = 0; i < npz->count; i++)
        if (strcmp(npz->names[i], name) == 0)
            return i;
    return -1;
}

/* ---- the header of a .npy ---- */

/* Where a message is about. */
typedef struct {
    ff_ctx *ctx;
    const char *path, *name;
} place;

static place place_of(ff_ctx *ctx, const ff_npz *npz, int64_t i)
{
    return (place){ctx, ff_zip_path(npz->zip), npz->names[i]};
}

static ff_status bad_header(const place *at, const char *what)
{
    return FF_FAIL(at->ctx, FF_ERR_FORMAT, "%s: array %s is not a NumPy array: %s", at->path, at->name, what);
}

/* The text after `'key':`, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    const int length = snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(header, quoted);
    if (p == NULL)
        return NULL;
    p += length;
    while (isspace((unsigned char)*p))
        p++;
    if (*p++ != ':')
        return NULL;
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

static ff_status read_type(const place *at, const char *header, ff_npz_info *info)
{
    static const struct {
        const char *name;
        ff_number_type type;
    } types[] = {{"f2", FF_NUMBER_F16}, {"f4", FF_NUMBER_F32}, {"f8", FF_NUMBER_F64}, {"i1", FF_NUMBER_I8},
                 {"i2", FF_NUMBER_I16}, {"i4", FF_NUMBER_I32}, {"i8", FF_NUMBER_I64}, {"u1", FF_NUMBER_U8},
                 {"u2", FF_NUMBER_U16}, {"u4", FF_NUMBER_U32}, {"u8", FF_NUMBER_U64}, {"b1", FF_NUMBER_BOOL}};
    const char *p = value_of(header, "descr");
    if (p == NULL || *p != '\'')
        return FF_FAIL(at->ctx, FF_ERR_UNSUPPORTED, "%s: array %s is a record; only plain numbers are read", at->path,
                       at->name);
    char type[16] = {0};
    for (size_t i = 0; i + 1 < sizeof type && p[i + 1] != '\0' && p[i + 1] != '\''; i++)
        type[i] = p[i + 1];
    for (size_t i = 0; (type[0] == '<' || type[0] == '|') && i < sizeof types / sizeof *types; i++) {
        if (strcmp(type + 1, types[i].name) == 0) {
            info->type = types[i].type;
            return FF_OK;
        }
    }
    return FF_FAIL(at->ctx, FF_ERR_UNSUPPORTED,
                   "%s: array %s has type %s; little-endian numbers are read (<f2 <f4 <f8, <i1 .. <u8, |b1)", at->path,
                   at->name, type);
}

static ff_status read_shape(const place *at, const char *header, ff_npz_info *info)
{
    const char *p = value_of(header, "shape");
    if (p == NULL || *p++ != '(')
        return bad_header(at, "its header gives no shape");
    info->ndim = 0;
    info->size = 1;
    for (;;) {
        while (isspace((unsigned char)*p) || *p == ',')
            p++;
        if (*p == ')')
            return FF_OK;
        char *end;
        const long long length = isdigit((unsigned char)*p) ? strtoll(p, &end, 10) : -1;
        if (length < 0)
            return bad_header(at, "its shape is not a row of numbers");
        if (info->ndim == FF_NPZ_MAX_DIMS)
            return FF_FAIL(at->ctx, FF_ERR_UNSUPPORTED, "%s: array %s has more than %d dimensions", at->path, at->name,
                           FF_NPZ_MAX_DIMS);
        info->shape[info->ndim++] = length;
        if (__builtin_mul_overflow(info->size, (int64_t)length, &info->size) || info->size > INT64_MAX / 8)
            return bad_header(at, "its shape is too large");
        p = *end == 'L' ? end + 1 : end; /* Python 2 wrote 3L */
    }
}

static ff_status read_order(const place *at, const char *header, ff_npz_info *info)
{
    const char *p = value_of(header, "fortran_order");
    if (p == NULL || (strncmp(p, "True", 4) != 0 && strncmp(p, "False", 5) != 0))
        return bad_header(at, "its header does not say the order");
    info->fortran_order = *p == 'T';
    return FF_OK;
}

/* Read up to the data. `before` = bytes of magic and header. */
static ff_status read_header(const place *at, ff_zip_member *member, ff_npz_info *info, int64_t *before)
{
    unsigned char start[MAGIC_BYTES + 4];
    FF_TRY(ff_zip_read(at->ctx, member, start, MAGIC_BYTES));
    if (memcmp(start, MAGIC, sizeof MAGIC - 1) != 0)
        return bad_header(at, "it does not begin with \\x93NUMPY");
    if (start[6] < 1 || start[6] > 3)
        return bad_header(at, "its version is not 1, 2 or 3");
    const size_t length_bytes = start[6] == 1 ? 2 : 4;
    FF_TRY(ff_zip_read(at->ctx, member, start + MAGIC_BYTES, length_bytes));
    uint32_t length = 0;
    for (size_t k = length_bytes; k > 0; k--)
        length = length << 8 | start[MAGIC_BYTES + k - 1];
    if (length >= HEADER_BYTES)
        return bad_header(at, "its header is too long");
    char *header = calloc(1, (size_t)length + 1);
    if (header == NULL)
        return FF_FAIL(at->ctx, FF_ERR_MEM, "out of memory reading %s", at->path);
    ff_status status = ff_zip_read(at->ctx, member, header, length);
    if (status == FF_OK)
        status = read_type(at, header, info);
    if (status == FF_OK)
        status = read_order(at, header, info);
    if (status == FF_OK)
        status = read_shape(at, header, info);
    free(header);
    *before = (int64_t)(MAGIC_BYTES + length_bytes + length);
    return status;
}

/* Header read, its length checked against the directory's; the member stands at the data. */
static ff_status begin(ff_ctx *ctx, ff_npz *npz, int64_t i, ff_zip_member **member, ff_npz_info *info)
{
    const place at = place_of(ctx, npz, i);
    int64_t before = 0;
    *info = (ff_npz_info){.ndim = 0};
    FF_TRY(ff_zip_begin(ctx, npz->zip, i, member));
    ff_status status = read_header(&at, *member, info, &before);
    const int64_t have = ff_zip_size(npz->zip, i) - before, need = info->size * ff_number_bytes(info->type);
    if (status == FF_OK && have != need)
        status =
            FF_FAIL(ctx, FF_ERR_FORMAT, "%s: array %s is cut short or damaged: its shape needs %lld bytes, it has %lld",
                    at.path, at.name, (long long)need, (long long)have);
    if (status != FF_OK) {
        ff_zip_drop(*member);
        *member = NULL;
    }
    return status;
}

ff_status ff_npz_get_info(ff_ctx *ctx, ff_npz *npz, int64_t i, ff_npz_info *info)
{
    ff_zip_member *member;
    FF_TRY(begin(ctx, npz, i, &member, info));
    ff_zip_drop(member);
    return FF_OK;
}

/* ---- numbers ---- */

static ff_status read_numbers(ff_ctx *ctx, ff_zip_member *member, const ff_npz_info *info, float *data)
{
    if (info->type == FF_NUMBER_F32)
        return ff_zip_read(ctx, member, data, (size_t)info->size * sizeof *data);
    unsigned char *raw = malloc(BUFFER_BYTES);
    if (raw == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading an array");
    ff_status status = FF_OK;
    const int64_t item_bytes = ff_number_bytes(info->type), most = BUFFER_BYTES / item_bytes;
    for (int64_t done = 0; status == FF_OK && done < info->size;) {
        const int64_t n = info->size - done < most ? info->size - done : most;
        status = ff_zip_read(ctx, member, raw, (size_t)(n * item_bytes));
        if (status == FF_OK)
            ff_numbers_to_float(info->type, raw, data + done, n);
        done += n;
    }
    free(raw);
    return status;
}

/* data[C order] from a copy in Fortran order: the first index runs fastest there. */
static void reorder(const ff_npz_info *info, const float *copy, float *data)
{
    int64_t index[FF_NPZ_MAX_DIMS] = {0}, at = 0;
    for (int64_t k = 0; k < info->size; k++) {
        data[at] = copy[k];
        int64_t stride = info->size; /* next index, first axis first; `at` follows */
        for (int d = 0; d < info->ndim; d++) {
            stride /= info->shape[d];
            at += stride;
            if (++index[d] < info->shape[d])
                break;
            index[d] = 0;
            at -= stride * info->shape[d];
        }
    }
}

ff_status ff_npz_read_float(ff_ctx *ctx, ff_npz *npz, int64_t i, float *data, int64_t size)
{
    ff_status status = FF_OK;
    ff_zip_member *member = NULL;
    ff_npz_info info;
    float *copy = NULL;
    FF_TRY_DONE(begin(ctx, npz, i, &member, &info));
    if (info.size != size) {
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s: array %s has %lld numbers, wanted %lld", ff_zip_path(npz->zip),
                         npz->names[i], (long long)info.size, (long long)size);
        goto done;
    }
    const bool transposed = info.fortran_order && info.ndim > 1 && size > 0;
    if (transposed && (copy = malloc((size_t)size * sizeof *copy)) == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", ff_zip_path(npz->zip));
        goto done;
    }
    FF_TRY_DONE(read_numbers(ctx, member, &info, transposed ? copy : data));
    status = ff_zip_end(ctx, member);
    member = NULL;
    if (status == FF_OK && transposed)
        reorder(&info, copy, data);
done:
    ff_zip_drop(member);
    free(copy);
    return status;
}

/* ---- writing ---- */

struct ff_npz_writer {
    ff_zip_writer *zip;
};

ff_status ff_npz_create(ff_ctx *ctx, ff_npz_writer **writer, const char *path)
{
    *writer = NULL;
    ff_npz_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    const ff_status status = ff_zip_create(ctx, &w->zip, path);
    if (status != FF_OK) {
        free(w);
        return status;
    }
    *writer = w;
    return FF_OK;
}

/* Magic, length and header, padded with spaces to whole ALIGNMENT and ended by a newline. */
static size_t make_header(char *header, size_t bytes, int ndim, const int64_t *shape)
{
    const size_t before = MAGIC_BYTES + 2;
    size_t n = before;
    n += (size_t)snprintf(header + n, bytes - n, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int d = 0; d < ndim; d++)
        n += (size_t)snprintf(header + n, bytes - n, d == 0 ? "%lld" : ", %lld", (long long)shape[d]);
    n += (size_t)snprintf(header + n, bytes - n, "%s), }", ndim == 1 ? "," : "");
    const size_t whole = (n + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(header + n, ' ', whole - n);
    header[whole - 1] = '\n';
    memcpy(header, MAGIC, sizeof MAGIC - 1);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)((whole - before) & 0xff);
    header[9] = (char)((whole - before) >> 8);
    return whole;
}

ff_status ff_npz_write_float(ff_ctx *ctx, ff_npz_writer *w, const char *name, int ndim, const int64_t *shape,
                             const float *data)
{
    char header[512], *member;
    int64_t size = 1;
    if (ndim < 0 || ndim > FF_NPZ_MAX_DIMS)
        return FF_FAIL(ctx, FF_ERR_ARG, "array %s has %d dimensions; at most %d", name, ndim, FF_NPZ_MAX_DIMS);
    for (int d = 0; d < ndim; d++)
        size *= shape[d];
    if (asprintf(&member, "%s.npy", name) < 0)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing array %s", name);
    const size_t header_bytes = make_header(header, sizeof header, ndim, shape);
    const ff_status status = ff_zip_add(ctx, w->zip, member, header, header_bytes, data, (size_t)size * sizeof *data);
    free(member);
    return status;
}

ff_status ff_npz_commit(ff_ctx *ctx, ff_npz_writer *w)
{
    const ff_status status = ff_zip_commit(ctx, w->zip);
    free(w);
    return status;
}

void ff_npz_abandon(ff_npz_writer *w)
{
    if (w == NULL)
        return;
    ff_zip_abandon(w->zip);
    free(w);
}
