#include "model/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/npz.h"
#include "io/zip_file.h"
#include "model/checkpoint.h"
#include "model/openfold_names.h"

#define PREFIX       "alphafold/alphafold_iteration/"
#define PUBLISHED_AT "https://storage.googleapis.com/alphafold/alphafold_params_2022-12-06.tar (licence CC BY 4.0)"

/* ---- names ---- */

void ff_weights_memory_name(const char *stored, char name[FF_WEIGHT_NAME_BYTES])
{
    static const char per_layer[] = "__layer_stack_no_per_layer/", state[] = "__layer_stack_no_state/";
    size_t n = 0;
    if (strncmp(stored, PREFIX, strlen(PREFIX)) == 0)
        stored += strlen(PREFIX);
    while (*stored != '\0' && n + sizeof state < FF_WEIGHT_NAME_BYTES) {
        if (strncmp(stored, per_layer, sizeof per_layer - 1) == 0) {
            memcpy(name + n, state, sizeof state - 1);
            n += sizeof state - 1;
            stored += sizeof per_layer - 1;
        } else {
            if (!(stored[0] == '/' && stored[1] == '/'))
                name[n++] = *stored;
            stored++;
        }
    }
    name[n] = '\0';
}

void ff_weights_published_name(const char *name, char stored[FF_WEIGHT_NAME_BYTES])
{
    char memory[FF_WEIGHT_NAME_BYTES];
    ff_weights_memory_name(name, memory);
    const char *slash = strrchr(memory, '/');
    if (slash == NULL)
        snprintf(stored, FF_WEIGHT_NAME_BYTES, "%s%.200s", PREFIX, memory);
    else
        snprintf(stored, FF_WEIGHT_NAME_BYTES, "%s%.*s/%s", PREFIX, (int)(slash - memory), memory, slash);
}

void ff_weights_format_shape(char *text, size_t bytes, int ndim, const int64_t *shape)
{
    size_t n = (size_t)snprintf(text, bytes, "[");
    for (int d = 0; d < ndim && n < bytes; d++)
        n += (size_t)snprintf(text + n, bytes - n, d == 0 ? "%lld" : ", %lld", (long long)shape[d]);
    if (n < bytes)
        snprintf(text + n, bytes - n, "]");
}

void ff_weights_note_mismatch(ff_weights_match *match, int64_t *counter, const char *name)
{
    if (match->first[0] == '\0')
        snprintf(match->first, sizeof match->first, "%s", name);
    ++*counter;
}

/* ---- which file ---- */

ff_status ff_weights_absent(ff_ctx *ctx, const char *preset)
{
    const bool published = preset != NULL && strncmp(preset, "model_", 6) == 0;
    if (!published)
        return FF_FAIL(
            ctx, FF_ERR_ARG,
            "no weights were given (--weights FILE): train some, make random ones with fastfold-weights init "
            "--preset %s, or use a published preset: %s holds params_model_1.npz and so on",
            preset == NULL ? "NAME" : preset, PUBLISHED_AT);
    return FF_FAIL(ctx, FF_ERR_ARG, "no weights were given (--weights FILE): %s needs params_%s.npz, which is in %s",
                   preset, preset, PUBLISHED_AT);
}

static ff_status unreadable(ff_ctx *ctx, const char *path, int error)
{
    const char *slash = strrchr(path, '/'), *base = slash == NULL ? path : slash + 1;
    if (strncmp(base, "params_model_", 13) == 0)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read the weights %s: %s; the file is in %s", path, strerror(error),
                       PUBLISHED_AT);
    return FF_FAIL(ctx, FF_ERR_IO, "cannot read the weights %s: %s; AlphaFold's are in %s", path, strerror(error),
                   PUBLISHED_AT);
}

/* A zip archive is OpenFold's when it has a pickle below its one folder. */
static ff_status zip_kind(ff_ctx *ctx, const char *path, ff_weights_kind *kind)
{
    ff_zip *zip;
    *kind = FF_WEIGHTS_NPZ;
    FF_TRY(ff_zip_open(ctx, &zip, path, "a file of weights"));
    for (int64_t i = 0; i < ff_zip_count(zip); i++) {
        const char *slash = strchr(ff_zip_name(zip, i), '/');
        if (slash != NULL && strcmp(slash, "/data.pkl") == 0)
            *kind = FF_WEIGHTS_TORCH;
    }
    ff_zip_close(zip);
    return FF_OK;
}

ff_status ff_weights_get_kind(ff_ctx *ctx, const char *path, ff_weights_kind *kind)
{
    unsigned char magic[8] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return unreadable(ctx, path, errno);
    errno = 0;
    const size_t got = fread(magic, 1, sizeof magic, file);
    const int error = errno;
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return unreadable(ctx, path, error);
    if (memcmp(magic, "PK", 2) == 0)
        return zip_kind(ctx, path, kind);
    *kind = FF_WEIGHTS_CHECKPOINT;
    if (memcmp(magic, "\x89HDF\r\n\x1a\n", 8) == 0)
        return FF_OK;
    if (got >= 2 && magic[0] == 0x80 && magic[1] >= 2 && magic[1] <= 5)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                       "%s has the form torch wrote before version 1.6; load it and save it again with a newer torch",
                       path);
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s holds no weights: it is neither a .npz, nor a checkpoint in HDF5, nor a .pt",
                   path);
}

/* ---- .npz ---- */

/* The names in memory of all arrays of a file. */
typedef struct {
    char (*names)[FF_WEIGHT_NAME_BYTES];
    bool *used;
    int64_t count;
} file_names;

static ff_status read_names(ff_ctx *ctx, const ff_npz *npz, file_names *f)
{
    f->count = ff_npz_count(npz);
    f->names = malloc((size_t)(f->count + 1) * sizeof *f->names);
    f->used = calloc((size_t)f->count + 1, sizeof *f->used);
    if (f->names == NULL || f->used == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the names of weights");
    for (int64_t i = 0; i < f->count; i++)
        ff_weights_memory_name(ff_npz_name(npz, i), f->names[i]);
    return FF_OK;
}

static int64_t find_name(const file_names *f, const char *name)
{
    char memory[FF_WEIGHT_NAME_BYTES];
    ff_weights_memory_name(name, memory);
    for (int64_t i = 0; i < f->count; i++)
        if (strcmp(f->names[i], memory) == 0)
            return i;
    return -1;
}

/* All names first, so that a file of another model is told by what it lacks. */
static ff_status check_names(ff_ctx *ctx, const ff_parameters *p, file_names *f, const char *path)
{
    const char *missing = NULL;
    int64_t num_missing = 0;
    for (int64_t k = 0; k < p->count; k++) {
        const int64_t i = find_name(f, p->items[k].name);
        if (i >= 0) {
            f->used[i] = true;
            continue;
        }
        if (num_missing++ == 0)
            missing = p->items[k].name;
    }
    if (num_missing == 1)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: array %s is missing; are these weights of another preset?", path,
                       missing);
    if (num_missing > 1)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s: %lld of %lld arrays are missing, first %s; are these weights of another preset?", path,
                       (long long)num_missing, (long long)p->count, missing);
    return FF_OK;
}

static void note_surplus(ff_ctx *ctx, const ff_npz *npz, const file_names *f, const char *path)
{
    const char *first = NULL;
    int64_t surplus = 0;
    for (int64_t i = 0; i < f->count; i++)
        if (!f->used[i] && surplus++ == 0)
            first = ff_npz_name(npz, i);
    if (surplus > 0)
        FF_INFO(ctx, "%s: %lld arrays are not of this model and are left out, first %s", path, (long long)surplus,
                first);
}

static bool same_shape(const ff_parameter *p, int ndim, const int64_t *shape)
{
    return p->ndim == ndim && (ndim == 0 || memcmp(p->shape, shape, (size_t)ndim * sizeof *shape) == 0);
}

static ff_status read_array(ff_ctx *ctx, ff_parameters *p, const ff_parameter *item, ff_npz *npz, int64_t i,
                            const char *path)
{
    ff_npz_info info;
    FF_TRY(ff_npz_get_info(ctx, npz, i, &info));
    if (!same_shape(item, info.ndim, info.shape)) {
        char have[128], want[128];
        ff_weights_format_shape(have, sizeof have, info.ndim, info.shape);
        ff_weights_format_shape(want, sizeof want, item->ndim, item->shape);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: array %s has shape %s, the model needs %s; is this the right preset?",
                       path, item->name, have, want);
    }
    return ff_npz_read_float(ctx, npz, i, p->values + item->offset, item->size);
}

ff_status ff_weights_read_npz(ff_ctx *ctx, ff_parameters *p, const char *path)
{
    ff_status status = FF_OK;
    ff_npz *npz = NULL;
    file_names names = {NULL, NULL, 0};
    FF_TRY(ff_npz_open(ctx, &npz, path));
    FF_TRY_DONE(read_names(ctx, npz, &names));
    FF_TRY_DONE(check_names(ctx, p, &names, path));
    for (int64_t k = 0; k < p->count; k++)
        FF_TRY_DONE(read_array(ctx, p, &p->items[k], npz, find_name(&names, p->items[k].name), path));
    note_surplus(ctx, npz, &names, path);
done:
    free(names.names);
    free(names.used);
    ff_npz_close(npz);
    return status;
}

/* An array and the name it gets in a file. */
typedef struct {
    char stored[FF_WEIGHT_NAME_BYTES];
    const ff_parameter *item;
} named_array;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const named_array *)a)->stored, ((const named_array *)b)->stored);
}

/* In the order of names, so that the same weights give the same file however they were declared. */
ff_status ff_weights_write_npz(ff_ctx *ctx, const ff_parameters *p, const char *path)
{
    ff_status status = FF_OK;
    ff_npz_writer *w = NULL;
    named_array *arrays = malloc((size_t)(p->count + 1) * sizeof *arrays);
    if (arrays == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    for (int64_t k = 0; k < p->count; k++) {
        ff_weights_published_name(p->items[k].name, arrays[k].stored);
        arrays[k].item = &p->items[k];
    }
    qsort(arrays, (size_t)p->count, sizeof *arrays, compare_names);
    FF_TRY_DONE(ff_npz_create(ctx, &w, path));
    for (int64_t k = 0; k < p->count; k++) {
        const ff_parameter *item = arrays[k].item;
        FF_TRY_DONE(ff_npz_write_float(ctx, w, arrays[k].stored, item->ndim, item->shape, p->values + item->offset));
    }
    status = ff_npz_commit(ctx, w);
    w = NULL;
done:
    ff_npz_abandon(w);
    free(arrays);
    return status;
}

static ff_status declare_as_in_npz(ff_ctx *ctx, ff_parameters *p, const char *path)
{
    ff_status status = FF_OK;
    ff_npz *npz;
    FF_TRY(ff_npz_open(ctx, &npz, path));
    for (int64_t i = 0; i < ff_npz_count(npz); i++) {
        char name[FF_WEIGHT_NAME_BYTES];
        ff_npz_info info;
        ff_weights_memory_name(ff_npz_name(npz, i), name);
        FF_TRY_DONE(ff_npz_get_info(ctx, npz, i, &info));
        if (info.ndim > FF_MAX_DIMS) {
            status = FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%s: array %s has %d dimensions, at most %d", path, name,
                             info.ndim, FF_MAX_DIMS);
            goto done;
        }
        FF_TRY_DONE(ff_parameters_add(ctx, p, name, info.ndim, info.shape));
    }
done:
    ff_npz_close(npz);
    return status;
}

/* ---- any kind ---- */

static ff_status read_checkpoint(ff_ctx *ctx, ff_parameters *p, const char *path, bool average)
{
    ff_checkpoint_header header;
    ff_checkpoint_block averaged = {FF_CHECKPOINT_EMA, p->values, true, false};
    ff_checkpoint_block last = {FF_CHECKPOINT_PARAMETERS, p->values, false, false};
    if (average)
        FF_TRY(ff_checkpoint_read(ctx, path, &header, p, &averaged, 1));
    return averaged.found ? FF_OK : ff_checkpoint_read(ctx, path, &header, p, &last, 1);
}

static ff_status read_any(ff_ctx *ctx, ff_parameters *p, const char *path, bool average)
{
    ff_weights_kind kind;
    FF_TRY(ff_weights_get_kind(ctx, path, &kind));
    switch (kind) {
    case FF_WEIGHTS_NPZ: return ff_weights_read_npz(ctx, p, path);
    case FF_WEIGHTS_TORCH: return ff_openfold_read(ctx, p, path);
    default: return read_checkpoint(ctx, p, path, average);
    }
}

ff_status ff_weights_read(ff_ctx *ctx, ff_parameters *p, const char *path) { return read_any(ctx, p, path, true); }

ff_status ff_weights_read_last(ff_ctx *ctx, ff_parameters *p, const char *path)
{
    return read_any(ctx, p, path, false);
}

ff_status ff_weights_declare_as_in_file(ff_ctx *ctx, ff_parameters *p, const char *path)
{
    ff_weights_kind kind;
    FF_TRY(ff_weights_get_kind(ctx, path, &kind));
    if (kind == FF_WEIGHTS_TORCH)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "%s has OpenFold's layout; say which preset it is (--preset NAME)",
                       path);
    return kind == FF_WEIGHTS_NPZ ? declare_as_in_npz(ctx, p, path) : ff_checkpoint_declare_as_in_file(ctx, p, path);
}
