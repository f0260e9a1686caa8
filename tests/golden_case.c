/* golden_case.c - a reference case in memory: lists, getters, results, parameters, reading. See golden_case.h. */
#include "tests/golden_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/hdf5_file.h"

enum { ALIGNMENT = 64, PATH_BYTES = 1024 };

/* ---- lists ---- */

void golden_list_free(golden_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        free(list->items[i].name);
        free(list->items[i].data);
    }
    free(list->items);
    *list = (golden_list){0};
}

ff_status golden_list_add(golden_list *list, const char *name, int ndim, const int64_t *shape, const float *data)
{
    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity == 0 ? 32 : 2 * list->capacity;
        golden_array *grown = realloc(list->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return FF_ERR_MEM;
        list->items = grown;
        list->capacity = capacity;
    }
    golden_array array = {.ndim = ndim, .size = 1};
    for (int i = 0; i < ndim; i++) {
        array.shape[i] = shape[i];
        array.size *= shape[i];
    }
    const size_t bytes = (size_t)array.size * sizeof(float);
    array.name = strdup(name);
    array.data = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    if (array.name == NULL || array.data == NULL) {
        free(array.name);
        free(array.data);
        return FF_ERR_MEM;
    }
    if (data != NULL && bytes > 0)
        memcpy(array.data, data, bytes);
    else
        memset(array.data, 0, bytes);
    list->items[list->count++] = array;
    return FF_OK;
}

const golden_array *golden_list_find(const golden_list *list, const char *name)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

/* ---- getters ---- */

static const golden_array *required(ff_ctx *ctx, const golden_case *c, const golden_list *list, const char *group,
                                    const char *name)
{
    const golden_array *array = golden_list_find(list, name);
    if (array == NULL)
        FF_FAIL(ctx, FF_ERR_FORMAT, "%s: case %s has no array %s/%s", c->file, c->name, group, name);
    return array;
}

const golden_array *golden_input(ff_ctx *ctx, const golden_case *c, const char *name)
{
    return required(ctx, c, &c->inputs, "input", name);
}

const golden_array *golden_param(ff_ctx *ctx, const golden_case *c, const char *name)
{
    return required(ctx, c, &c->params, "param", name);
}

const golden_array *golden_cotangent(const golden_case *c, const char *name)
{
    return golden_list_find(&c->cotangents, name);
}

const golden_array *golden_find_input(const golden_case *c, const char *name)
{
    return golden_list_find(&c->inputs, name);
}

const golden_array *golden_find_param(const golden_case *c, const char *name)
{
    return golden_list_find(&c->params, name);
}

bool golden_wants_output(const golden_case *c, const char *name)
{
    return golden_list_find(&c->want_outputs, name) != NULL;
}

bool golden_wants_grad(const golden_case *c, const char *name)
{
    if (golden_list_find(&c->want_grads, name) != NULL)
        return true;
    const size_t length = strlen(name);
    for (int64_t i = 0; i < c->want_reduced.count; i++) {
        const char *reduced = c->want_reduced.items[i].name;
        if (strncmp(reduced, name, length) == 0 && strrchr(reduced, '/') == reduced + length)
            return true;
    }
    return false;
}

static const golden_attribute *find_attribute(const golden_case *c, const char *name)
{
    for (int64_t i = 0; i < c->num_attributes; i++)
        if (strcmp(c->attributes[i].name, name) == 0)
            return &c->attributes[i];
    return NULL;
}

bool golden_has_attribute(const golden_case *c, const char *name) { return find_attribute(c, name) != NULL; }

double golden_number(const golden_case *c, const char *name, double fallback)
{
    const golden_attribute *a = find_attribute(c, name);
    return a != NULL && a->text == NULL ? a->value : fallback;
}

int64_t golden_int(const golden_case *c, const char *name, int64_t fallback)
{
    return (int64_t)llround(golden_number(c, name, (double)fallback));
}

const char *golden_text(const golden_case *c, const char *name, const char *fallback)
{
    const golden_attribute *a = find_attribute(c, name);
    return a != NULL && a->text != NULL ? a->text : fallback;
}

static ff_status add_attribute(golden_case *c, const char *name, const char *text, double value)
{
    golden_attribute *grown = realloc(c->attributes, (size_t)(c->num_attributes + 1) * sizeof *grown);
    if (grown == NULL)
        return FF_ERR_MEM;
    c->attributes = grown;
    golden_attribute *a = &grown[c->num_attributes];
    *a = (golden_attribute){strdup(name), text == NULL ? NULL : strdup(text), value};
    c->num_attributes++; /* golden_case_free frees it even when a copy failed */
    return a->name == NULL || (text != NULL && a->text == NULL) ? FF_ERR_MEM : FF_OK;
}

ff_status golden_add_number(golden_case *c, const char *name, double value)
{
    return add_attribute(c, name, NULL, value);
}

ff_status golden_add_text(golden_case *c, const char *name, const char *text)
{
    return add_attribute(c, name, text, 0);
}

/* ---- results ---- */

/* Under a variant the name becomes "variant:name". */
static void store(golden_case *c, golden_list *list, const char *group, const char *name, const float *data, int ndim,
                  const int64_t *shape)
{
    char full[PATH_BYTES];
    snprintf(full, sizeof full, "%s%s%s%s", c->variant == NULL ? "" : c->variant, c->variant == NULL ? "" : ":", group,
             name);
    if (data == NULL || golden_list_add(list, full, ndim, shape, data) != FF_OK)
        c->out_of_memory = true;
}

void golden_store_output(golden_case *c, const char *name, const float *data, int ndim, const int64_t *shape)
{
    store(c, &c->got_outputs, "", name, data, ndim, shape);
}

void golden_store_grad_input(golden_case *c, const char *name, const float *data, int ndim, const int64_t *shape)
{
    store(c, &c->got_grads, "input/", name, data, ndim, shape);
}

void golden_store_grad_param(golden_case *c, const char *name, const float *data, int ndim, const int64_t *shape)
{
    store(c, &c->got_grads, "param/", name, data, ndim, shape);
}

static void set_text(golden_case *c, char **target, const char *text)
{
    free(*target);
    *target = text == NULL ? NULL : strdup(text);
    if (text != NULL && *target == NULL)
        c->out_of_memory = true;
}

void golden_set_variant(golden_case *c, const char *variant) { set_text(c, &c->variant, variant); }

void golden_lack_gradients(golden_case *c, const char *reason) { set_text(c, &c->no_gradients, reason); }

/* ---- parameters ---- */

static const char *scoped(char *text, size_t bytes, const char *scope, const char *name)
{
    snprintf(text, bytes, "%s%s%s", scope, scope[0] == '\0' ? "" : "/", name);
    return text;
}

ff_status golden_build_parameters(ff_ctx *ctx, const golden_case *c, const char *scope, ff_parameters *p)
{
    char name[PATH_BYTES];
    ff_parameters_init(p);
    for (int64_t i = 0; i < c->params.count; i++) {
        const golden_array *array = &c->params.items[i];
        FF_TRY(ff_parameters_add(ctx, p, scoped(name, sizeof name, scope, array->name), array->ndim, array->shape));
    }
    FF_TRY(ff_parameters_allocate(ctx, p, true));
    for (int64_t i = 0; i < c->params.count; i++) {
        const golden_array *array = &c->params.items[i];
        const ff_parameter *item = ff_parameters_find(p, scoped(name, sizeof name, scope, array->name));
        memcpy(p->values + item->offset, array->data, (size_t)array->size * sizeof(float));
    }
    return FF_OK;
}

void golden_store_parameter_grads(golden_case *c, const char *scope, const ff_parameters *p)
{
    char name[PATH_BYTES];
    for (int64_t i = 0; i < c->params.count; i++) {
        const golden_array *array = &c->params.items[i];
        const ff_parameter *item = ff_parameters_find(p, scoped(name, sizeof name, scope, array->name));
        if (item != NULL && p->grads != NULL)
            golden_store_grad_param(c, array->name, p->grads + item->offset, item->ndim, item->shape);
    }
}

/* ---- reading ---- */

static ff_status add_name(ff_ctx *ctx, void *arg, const char *name)
{
    golden_names *names = arg;
    char **grown = realloc(names->names, (size_t)(names->count + 1) * sizeof *grown);
    if (grown == NULL || (names->names = grown, grown[names->count] = strdup(name)) == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the list of cases");
    names->count++;
    return FF_OK;
}

static ff_status take_family(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    (void)value;
    golden_names *names = arg;
    if (strcmp(name, "family") != 0 || text == NULL)
        return FF_OK;
    names->family = strdup(text);
    return names->family == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory") : FF_OK;
}

ff_status golden_names_read(ff_ctx *ctx, golden_names *names, const char *path)
{
    *names = (golden_names){0};
    ff_hdf5_file *file = NULL;
    FF_TRY(ff_hdf5_open(ctx, &file, path));
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_hdf5_each_attribute(ctx, file, "/", take_family, names));
    if (names->family == NULL) {
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s is not a golden file: it has no attribute `family`", path);
        goto done;
    }
    FF_TRY_DONE(ff_hdf5_each_group(ctx, file, "/", add_name, names));
done:
    ff_hdf5_close(file);
    if (status != FF_OK)
        golden_names_free(names);
    return status;
}

void golden_names_free(golden_names *names)
{
    for (int64_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    free(names->family);
    *names = (golden_names){0};
}

static ff_status take_attribute(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    if (add_attribute(arg, name, text, value) != FF_OK)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading attributes");
    return FF_OK;
}

/* One group of a case ("input") into one of its lists. */
typedef struct {
    ff_hdf5_file *file;
    const char *group; /* whole path */
    golden_list *list;
} group_reader;

static ff_status read_array(ff_ctx *ctx, void *arg, const char *name)
{
    const group_reader *reader = arg;
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", reader->group, name);
    ff_hdf5_info info;
    FF_TRY(ff_hdf5_get_info(ctx, reader->file, path, &info));
    if (info.kind == FF_HDF5_OTHER)
        return FF_OK; /* text: no operation here takes it */
    if (info.ndim > FF_MAX_DIMS)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "data set %s has %d dimensions, at most %d are read", path, info.ndim,
                       FF_MAX_DIMS);
    if (golden_list_add(reader->list, name, info.ndim, info.shape, NULL) != FF_OK)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    golden_array *array = &reader->list->items[reader->list->count - 1];
    array->integer = info.kind == FF_HDF5_INTEGER;
    return ff_hdf5_read_float(ctx, reader->file, path, array->data, array->size);
}

static ff_status read_group(ff_ctx *ctx, ff_hdf5_file *file, const char *name, const char *group, golden_list *list)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/%s/%s", name, group);
    group_reader reader = {file, path, list};
    return ff_hdf5_each_dataset(ctx, file, path, read_array, &reader);
}

ff_status golden_case_read(ff_ctx *ctx, golden_case *c, const char *path, const char *family, const char *name)
{
    memset(c, 0, sizeof *c);
    ff_hdf5_file *file = NULL;
    FF_TRY(ff_hdf5_open(ctx, &file, path));
    ff_status status = FF_OK;
    char group[PATH_BYTES];
    snprintf(group, sizeof group, "/%s", name);
    FF_TRY_DONE(ff_hdf5_each_attribute(ctx, file, group, take_attribute, c));
    c->file = strdup(path);
    c->family = strdup(family);
    c->name = strdup(name);
    c->op = strdup(golden_text(c, "op", ""));
    if (c->file == NULL || c->family == NULL || c->name == NULL || c->op == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
        goto done;
    }
    FF_TRY_DONE(read_group(ctx, file, name, "input", &c->inputs));
    FF_TRY_DONE(read_group(ctx, file, name, "param", &c->params));
    FF_TRY_DONE(read_group(ctx, file, name, "cotangent", &c->cotangents));
    FF_TRY_DONE(read_group(ctx, file, name, "output", &c->want_outputs));
    FF_TRY_DONE(read_group(ctx, file, name, "grad", &c->want_grads));
    FF_TRY_DONE(read_group(ctx, file, name, "grad_reduced", &c->want_reduced));
done:
    ff_hdf5_close(file);
    if (status != FF_OK)
        golden_case_free(c);
    return status;
}

void golden_case_free(golden_case *c)
{
    golden_list *lists[] = {&c->inputs,       &c->params,      &c->cotangents, &c->want_outputs, &c->want_grads,
                            &c->want_reduced, &c->got_outputs, &c->got_grads};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        golden_list_free(lists[i]);
    for (int64_t i = 0; i < c->num_attributes; i++) {
        free(c->attributes[i].name);
        free(c->attributes[i].text);
    }
    free(c->attributes);
    free(c->file);
    free(c->family);
    free(c->name);
    free(c->op);
    free(c->variant);
    free(c->no_gradients);
    memset(c, 0, sizeof *c);
}
