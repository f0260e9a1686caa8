/* openfold_read.c - reading OpenFold's .pt: the second half of openfold_names.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/torch_file.h"
#include "model/openfold_names.h"
#include "model/weights.h"

/* A tensor of the file under its name in the one form. */
typedef struct {
    char name[FF_OPENFOLD_NAME_BYTES];
    int64_t tensor;
    bool used;
} entry;

typedef struct {
    ff_torch_file *file;
    const char *path;
    entry *entries; /* by name */
    int64_t count;
    float *scratch; /* of the largest tensor that is transposed */
    int64_t scratch_size;
} source;

static int compare(const void *a, const void *b) { return strcmp(((const entry *)a)->name, ((const entry *)b)->name); }

/* Where the weights are, ended by "/"; "" when the file is a plain dictionary of tensors. */
static const char *find_folder(const ff_torch_file *file)
{
    static const char *const folders[] = {"ema/params/", "state_dict/", "module/", "model_state_dict/", "model/"};
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++)
        for (int64_t i = 0; i < ff_torch_count(file); i++)
            if (strncmp(ff_torch_get(file, i)->path, folders[k], strlen(folders[k])) == 0)
                return folders[k];
    return "";
}

static ff_status list_tensors(ff_ctx *ctx, source *s)
{
    const char *folder = find_folder(s->file);
    s->entries = calloc((size_t)ff_torch_count(s->file) + 1, sizeof *s->entries);
    if (s->entries == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", s->path);
    for (int64_t i = 0; i < ff_torch_count(s->file); i++) {
        const char *path = ff_torch_get(s->file, i)->path;
        if (strncmp(path, folder, strlen(folder)) != 0 || strchr(path + strlen(folder), '/') != NULL)
            continue;
        ff_openfold_normalise(path + strlen(folder), s->entries[s->count].name);
        s->entries[s->count++].tensor = i;
    }
    qsort(s->entries, (size_t)s->count, sizeof *s->entries, compare);
    return FF_OK;
}

static ff_status shape_failure(ff_ctx *ctx, const source *s, const ff_torch_tensor *t, const ff_parameter *item,
                               int lead)
{
    char have[128], want[128];
    ff_weights_format_shape(have, sizeof have, t->ndim, t->shape);
    ff_weights_format_shape(want, sizeof want, item->ndim - lead, item->shape + lead);
    return FF_FAIL(ctx, FF_ERR_FORMAT,
                   "%s: tensor %s has shape %s, %s needs %s of the model; is this the right preset?", s->path, t->path,
                   have, item->name, want);
}

/* Whether a tensor holds the numbers of an array without its `lead` first axes: a vector of as many, or [output,
 * input], the transpose of the array with some first axes joined and the rest joined. */
static bool is_layout_of(const ff_torch_tensor *t, const ff_parameter *item, int lead)
{
    const int64_t size = lead == 0 ? item->size : item->size / item->shape[0];
    int64_t first = 1;
    if (t->ndim != 2)
        return t->ndim == 1 && t->size == size;
    for (int d = lead; d + 1 < item->ndim; d++) {
        first *= item->shape[d];
        if (first == t->shape[1] && first * t->shape[0] == size)
            return true;
    }
    return false;
}

static ff_status reserve(ff_ctx *ctx, source *s, int64_t size)
{
    if (size <= s->scratch_size)
        return FF_OK;
    float *grown = realloc(s->scratch, (size_t)size * sizeof *grown);
    if (grown == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", s->path);
    s->scratch = grown;
    s->scratch_size = size;
    return FF_OK;
}

/* One tensor into its place; `lead` axes of the item's shape are not the tensor's. */
static ff_status read_tensor(ff_ctx *ctx, source *s, int64_t i, const ff_parameter *item, int lead, float *values)
{
    const ff_torch_tensor *t = ff_torch_get(s->file, i);
    if (!is_layout_of(t, item, lead))
        return shape_failure(ctx, s, t, item, lead);
    if (t->ndim != 2)
        return ff_torch_read_float(ctx, s->file, i, values, t->size);
    FF_TRY(reserve(ctx, s, t->size));
    FF_TRY(ff_torch_read_float(ctx, s->file, i, s->scratch, t->size));
    const int64_t num_output = t->shape[0], num_input = t->shape[1];
    for (int64_t row = 0; row < num_input; row++)
        for (int64_t column = 0; column < num_output; column++)
            values[row * num_output + column] = s->scratch[column * num_input + row];
    return FF_OK;
}

/* The file's tensor for a block of an array (`name`: what OpenFold calls it); NULL when it has none. */
static entry *find_tensor(const source *s, const ff_parameter *item, int64_t block, char name[FF_OPENFOLD_NAME_BYTES],
                          bool *stacked)
{
    char memory[FF_WEIGHT_NAME_BYTES];
    entry key = {.tensor = -1};
    name[0] = '\0';
    ff_weights_memory_name(item->name, memory);
    if (!ff_openfold_name(memory, block, key.name, stacked))
        return NULL;
    strcpy(name, key.name);
    entry *found = bsearch(&key, s->entries, (size_t)s->count, sizeof *s->entries, compare);
    if (found != NULL)
        found->used = true;
    return found;
}

static ff_status read_block(ff_ctx *ctx, source *s, const ff_parameter *item, int64_t block, float *values,
                            bool *stacked)
{
    char name[FF_OPENFOLD_NAME_BYTES];
    const entry *found = find_tensor(s, item, block, name, stacked);
    if (name[0] == '\0')
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "OpenFold has no parameter for %s", item->name);
    if (found == NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s: tensor %s, which is %s here, is missing; are these weights of another preset?", s->path,
                       name, item->name);
    const int64_t each = *stacked ? item->size / item->shape[0] : 0;
    return read_tensor(ctx, s, found->tensor, item, *stacked ? 1 : 0, values + block * each);
}

static ff_status read_parameter(ff_ctx *ctx, source *s, const ff_parameter *item, float *values)
{
    bool stacked;
    FF_TRY(read_block(ctx, s, item, 0, values, &stacked));
    for (int64_t block = 1; stacked && block < item->shape[0]; block++)
        FF_TRY(read_block(ctx, s, item, block, values, &stacked));
    return FF_OK;
}

static int64_t count_surplus(const source *s, const char **first)
{
    int64_t surplus = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (!s->entries[i].used && surplus++ == 0)
            *first = s->entries[i].name;
    return surplus;
}

static ff_status open_source(ff_ctx *ctx, source *s, const char *path)
{
    *s = (source){.path = path};
    FF_TRY(ff_torch_open(ctx, &s->file, path));
    return list_tensors(ctx, s);
}

static void close_source(source *s)
{
    free(s->entries);
    free(s->scratch);
    ff_torch_close(s->file);
}

ff_status ff_openfold_read(ff_ctx *ctx, ff_parameters *p, const char *path)
{
    ff_status status = FF_OK;
    const char *first = NULL;
    source s;
    FF_TRY_DONE(open_source(ctx, &s, path));
    for (int64_t k = 0; k < p->count; k++)
        FF_TRY_DONE(read_parameter(ctx, &s, &p->items[k], p->values + p->items[k].offset));
    const int64_t surplus = count_surplus(&s, &first);
    if (surplus > 0)
        FF_INFO(ctx, "%s: %lld tensors are not of this model and are left out, first %s", path, (long long)surplus,
                first);
done:
    close_source(&s);
    return status;
}

static void match_parameter(const source *s, const ff_parameter *item, ff_weights_match *match)
{
    char name[FF_OPENFOLD_NAME_BYTES];
    bool stacked = true;
    for (int64_t block = 0; stacked && block < item->shape[0]; block++) {
        const entry *found = find_tensor(s, item, block, name, &stacked);
        if (found == NULL) {
            ff_weights_note_mismatch(match, &match->missing, item->name);
            return;
        }
        if (!is_layout_of(ff_torch_get(s->file, found->tensor), item, stacked ? 1 : 0)) {
            ff_weights_note_mismatch(match, &match->misshapen, item->name);
            return;
        }
    }
}

ff_status ff_openfold_match(ff_ctx *ctx, const ff_parameters *p, const char *path, ff_weights_match *match)
{
    ff_status status = FF_OK;
    const char *first = NULL;
    source s;
    *match = (ff_weights_match){.missing = 0};
    FF_TRY_DONE(open_source(ctx, &s, path));
    for (int64_t k = 0; k < p->count; k++)
        match_parameter(&s, &p->items[k], match);
    match->surplus = count_surplus(&s, &first);
done:
    close_source(&s);
    return status;
}
