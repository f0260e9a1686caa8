#include "model/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file_seal.h"
#include "io/hdf5_file.h"
#include "model/weights.h"

#define FORMAT  "fastfold checkpoint"
#define NUMBERS "/numbers"

enum { PATH_BYTES = FF_WEIGHT_NAME_BYTES + FF_CHECKPOINT_NAME_BYTES + 2 };

/* ---- numbers ---- */

ff_status ff_checkpoint_set_number(ff_ctx *ctx, ff_checkpoint_header *header, const char *name, double value)
{
    int i = 0;
    while (i < header->num_numbers && strcmp(header->numbers[i].name, name) != 0)
        i++;
    if (i == FF_CHECKPOINT_NUMBERS || strlen(name) >= FF_CHECKPOINT_NAME_BYTES)
        return FF_FAIL(ctx, FF_ERR_ARG, "a checkpoint has no room for number %s", name);
    snprintf(header->numbers[i].name, FF_CHECKPOINT_NAME_BYTES, "%s", name);
    header->numbers[i].value = value;
    if (i == header->num_numbers)
        header->num_numbers++;
    return FF_OK;
}

double ff_checkpoint_get_number(const ff_checkpoint_header *header, const char *name, double otherwise)
{
    for (int i = 0; i < header->num_numbers; i++)
        if (strcmp(header->numbers[i].name, name) == 0)
            return header->numbers[i].value;
    return otherwise;
}

/* ---- writing ---- */

static ff_status write_header(ff_ctx *ctx, ff_hdf5_writer *w, const ff_checkpoint_header *h, int64_t num_arrays)
{
    FF_TRY(ff_hdf5_write_text_attribute(ctx, w, "/", "format", FORMAT));
    FF_TRY(ff_hdf5_write_number_attribute(ctx, w, "/", "version", FF_CHECKPOINT_VERSION));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, w, "/", "preset", h->preset));
    FF_TRY(ff_hdf5_write_number_attribute(ctx, w, "/", "step", (double)h->step));
    FF_TRY(ff_hdf5_write_number_attribute(ctx, w, "/", "num_arrays", (double)num_arrays));
    FF_TRY(ff_hdf5_make_group(ctx, w, NUMBERS));
    for (int i = 0; i < h->num_numbers; i++)
        FF_TRY(ff_hdf5_write_number_attribute(ctx, w, NUMBERS, h->numbers[i].name, h->numbers[i].value));
    return FF_OK;
}

/* The path of a parameter in a block. */
static void array_path(char path[PATH_BYTES], const char *block, const char *parameter)
{
    char name[FF_WEIGHT_NAME_BYTES];
    ff_weights_memory_name(parameter, name);
    snprintf(path, PATH_BYTES, "/%.*s/%s", FF_CHECKPOINT_NAME_BYTES, block, name);
}

static ff_status write_blocks(ff_ctx *ctx, ff_hdf5_writer *w, const ff_parameters *p, const ff_checkpoint_block *blocks,
                              int num_blocks)
{
    for (int b = 0; b < num_blocks; b++) {
        for (int64_t k = 0; k < p->count; k++) {
            const ff_parameter *item = &p->items[k];
            char path[PATH_BYTES];
            array_path(path, blocks[b].name, item->name);
            FF_TRY(ff_hdf5_write_float_plain(ctx, w, path, item->ndim, item->shape, blocks[b].values + item->offset));
        }
    }
    return FF_OK;
}

ff_status ff_checkpoint_write(ff_ctx *ctx, const char *path, const ff_checkpoint_header *header, const ff_parameters *p,
                              const ff_checkpoint_block *blocks, int num_blocks)
{
    ff_hdf5_writer *w;
    FF_TRY(ff_hdf5_create(ctx, &w, path));
    ff_status status = write_header(ctx, w, header, p->count);
    if (status == FF_OK)
        status = write_blocks(ctx, w, p, blocks, num_blocks);
    if (status != FF_OK) {
        ff_hdf5_abandon(w);
        return status;
    }
    return ff_hdf5_commit_sealed(ctx, w);
}

/* ---- reading ---- */

/* The library may crash on a damaged file, so the seal comes first. */
static ff_status open_sealed(ff_ctx *ctx, ff_hdf5_file **file, const char *path)
{
    FF_TRY(ff_file_check_seal(ctx, path));
    return ff_hdf5_open(ctx, file, path);
}

/* What the attributes of "/" say. */
typedef struct {
    ff_checkpoint_header *header;
    bool format, damaged;
    double version, num_arrays;
} stored_header;

static ff_status take_attribute(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    (void)ctx;
    stored_header *s = arg;
    if (text != NULL && strcmp(name, "format") == 0)
        s->format = strcmp(text, FORMAT) == 0;
    else if (text != NULL && strcmp(name, "preset") == 0)
        snprintf(s->header->preset, sizeof s->header->preset, "%s", text);
    else if (text == NULL && strcmp(name, "version") == 0)
        s->version = value;
    else if (text == NULL && strcmp(name, "step") == 0)
        s->header->step = value >= 0 && value <= 0x1p53 ? (int64_t)value : -1;
    else if (text == NULL && strcmp(name, "num_arrays") == 0)
        s->num_arrays = value >= 0 && value <= 1e9 ? value : 0;
    return FF_OK;
}

static ff_status take_number(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    stored_header *s = arg;
    if (text != NULL || s->header->num_numbers == FF_CHECKPOINT_NUMBERS || strlen(name) >= FF_CHECKPOINT_NAME_BYTES) {
        s->damaged = true; /* none that we wrote */
        return FF_OK;
    }
    return ff_checkpoint_set_number(ctx, s->header, name, value);
}

static ff_status read_header(ff_ctx *ctx, ff_hdf5_file *file, const char *path, ff_checkpoint_header *header,
                             int64_t *num_arrays)
{
    stored_header s = {.header = header};
    memset(header, 0, sizeof *header);
    FF_TRY(ff_hdf5_each_attribute(ctx, file, "/", take_attribute, &s));
    if (!s.format)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s is an HDF5 file, but not a checkpoint of ours", path);
    if (s.version != FF_CHECKPOINT_VERSION)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s is a checkpoint of version %g; this program reads version %d", path,
                       s.version, FF_CHECKPOINT_VERSION);
    if (ff_hdf5_exists(file, NUMBERS))
        FF_TRY(ff_hdf5_each_attribute(ctx, file, NUMBERS, take_number, &s));
    *num_arrays = (int64_t)s.num_arrays;
    if (s.damaged)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s is a checkpoint with numbers of another program", path);
    return FF_OK;
}

ff_status ff_checkpoint_read_header(ff_ctx *ctx, const char *path, ff_checkpoint_header *header)
{
    ff_hdf5_file *file;
    int64_t num_arrays;
    FF_TRY(open_sealed(ctx, &file, path));
    const ff_status status = read_header(ctx, file, path, header, &num_arrays);
    ff_hdf5_close(file);
    return status;
}

static ff_status read_array(ff_ctx *ctx, ff_hdf5_file *file, const char *path, const char *block,
                            const ff_parameter *item, float *values)
{
    char dataset[PATH_BYTES];
    ff_hdf5_info info;
    array_path(dataset, block, item->name);
    if (!ff_hdf5_exists(file, dataset))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: array %s is missing; are these weights of another preset?", path,
                       dataset);
    FF_TRY(ff_hdf5_get_info(ctx, file, dataset, &info));
    bool same = info.ndim == item->ndim;
    for (int d = 0; same && d < info.ndim; d++)
        same = info.shape[d] == item->shape[d];
    if (!same) {
        char have[128], want[128];
        ff_weights_format_shape(have, sizeof have, info.ndim, info.shape);
        ff_weights_format_shape(want, sizeof want, item->ndim, item->shape);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: array %s has shape %s, the model needs %s; is this the right preset?",
                       path, dataset, have, want);
    }
    return ff_hdf5_read_float(ctx, file, dataset, values, item->size);
}

static ff_status read_block(ff_ctx *ctx, ff_hdf5_file *file, const char *path, const ff_parameters *p,
                            ff_checkpoint_block *block)
{
    char group[FF_CHECKPOINT_NAME_BYTES + 2];
    snprintf(group, sizeof group, "/%.*s", FF_CHECKPOINT_NAME_BYTES, block->name);
    block->found = ff_hdf5_exists(file, group);
    if (!block->found)
        return block->optional ? FF_OK : FF_FAIL(ctx, FF_ERR_FORMAT, "%s: the checkpoint has no %s", path, block->name);
    for (int64_t k = 0; k < p->count; k++)
        FF_TRY(read_array(ctx, file, path, block->name, &p->items[k], block->values + p->items[k].offset));
    return FF_OK;
}

ff_status ff_checkpoint_read(ff_ctx *ctx, const char *path, ff_checkpoint_header *header, const ff_parameters *p,
                             ff_checkpoint_block *blocks, int num_blocks)
{
    ff_status status = FF_OK;
    ff_hdf5_file *file;
    int64_t num_arrays;
    FF_TRY(open_sealed(ctx, &file, path));
    FF_TRY_DONE(read_header(ctx, file, path, header, &num_arrays));
    for (int b = 0; b < num_blocks; b++)
        FF_TRY_DONE(read_block(ctx, file, path, p, &blocks[b]));
    if (num_arrays > p->count)
        FF_INFO(ctx, "%s: %lld arrays are not of this model and are left out", path,
                (long long)(num_arrays - p->count));
done:
    ff_hdf5_close(file);
    return status;
}

/* ---- what a file holds ---- */

typedef struct {
    ff_hdf5_file *file;
    ff_parameters *parameters;
} declaring;

static ff_status declare(ff_ctx *ctx, void *arg, const char *name)
{
    const declaring *d = arg;
    char dataset[PATH_BYTES];
    ff_hdf5_info info;
    array_path(dataset, FF_CHECKPOINT_PARAMETERS, name);
    FF_TRY(ff_hdf5_get_info(ctx, d->file, dataset, &info));
    if (info.ndim > FF_MAX_DIMS)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "array %s has %d dimensions, at most %d", dataset, info.ndim, FF_MAX_DIMS);
    return ff_parameters_add(ctx, d->parameters, name, info.ndim, info.shape);
}

ff_status ff_checkpoint_declare_as_in_file(ff_ctx *ctx, ff_parameters *parameters, const char *path)
{
    ff_status status = FF_OK;
    ff_checkpoint_header header;
    int64_t num_arrays;
    declaring d = {NULL, parameters};
    FF_TRY(open_sealed(ctx, &d.file, path));
    FF_TRY_DONE(read_header(ctx, d.file, path, &header, &num_arrays));
    FF_TRY_DONE(ff_hdf5_each_dataset(ctx, d.file, "/" FF_CHECKPOINT_PARAMETERS, declare, &d));
    if (parameters->count != num_arrays)
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s is damaged: it has %lld arrays of %lld", path,
                         (long long)parameters->count, (long long)num_arrays);
done:
    ff_hdf5_close(d.file);
    return status;
}
