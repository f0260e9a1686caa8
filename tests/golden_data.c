#include "tests/golden_data.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const golden_data_kind *const tables[] = {golden_data_parser_kinds, golden_data_structure_kinds,
                                                 golden_data_transform_kinds, golden_data_raw_kinds,
                                                 golden_data_label_kinds};
enum { NUM_TABLES = sizeof tables / sizeof *tables, NAME_BYTES = 512 };

bool golden_data_knows(const char *family)
{
    static const char *const families[] = {"data_parsers", "data_raw", "data_transforms", "data_random", "data_labels"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(family, families[i]) == 0)
            return true;
    return false;
}

/* ---- cases ---- */

/* The kind that serves top-level group `top`. */
static const golden_data_kind *find_kind(const char *family, const char *top)
{
    for (int t = 0; t < NUM_TABLES; t++)
        for (const golden_data_kind *k = tables[t]; k->family != NULL; k++)
            if (strcmp(k->family, family) == 0 && (k->depth < 0 || strcmp(k->prefix, top) == 0))
                return k;
    return NULL;
}

typedef struct {
    golden_data *g;
    const char *family, *top;
    ff_hdf5_visit_fn visit;
    void *arg;
} case_visit;

static ff_status visit_below(ff_ctx *ctx, void *arg, const char *name)
{
    const case_visit *v = arg;
    char group[NAME_BYTES];
    snprintf(group, sizeof group, "%s/%s", v->top, name);
    return v->visit(ctx, v->arg, group);
}

static ff_status visit_top(ff_ctx *ctx, void *arg, const char *name)
{
    case_visit *v = arg;
    const golden_data_kind *kind = find_kind(v->family, name);
    if (kind == NULL || kind->depth <= 0)
        return v->visit(ctx, v->arg, name);
    char group[NAME_BYTES];
    snprintf(group, sizeof group, "/%s", name);
    v->top = name;
    return ff_hdf5_each_group(ctx, v->g->file, group, visit_below, v);
}

ff_status golden_data_each_case(golden_data *g, const char *family, ff_hdf5_visit_fn visit, void *arg)
{
    case_visit v = {g, family, NULL, visit, arg};
    return ff_hdf5_each_group(g->ctx, g->file, "/", visit_top, &v);
}

ff_status golden_data_run(golden_data *g, const char *family, const char *group)
{
    char top[NAME_BYTES];
    snprintf(top, sizeof top, "%.*s", (int)strcspn(group, "/"), group);
    const golden_data_kind *kind = find_kind(family, top);
    if (kind == NULL)
        return FF_FAIL(g->ctx, FF_ERR_UNSUPPORTED, "no runner for %s/%s", family, group);
    return kind->run(g, group);
}

/* ---- for runners ---- */

void golden_data_path(const golden_data *g, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", g->data_root, name);
    for (char *p = path + strlen(g->data_root); *p != '\0'; p++)
        if (*p == '|')
            *p = '/';
}

typedef struct {
    const char *name;
    char *text;
    double value;
    bool found;
} attribute;

static ff_status take_attribute(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    (void)ctx;
    attribute *a = arg;
    if (strcmp(a->name, name) == 0) {
        a->found = true;
        a->value = value;
        a->text = text == NULL ? NULL : strdup(text);
    }
    return FF_OK;
}

double golden_data_number(golden_data *g, const char *group, const char *name, double fallback)
{
    attribute a = {name, NULL, 0, false};
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "/%s", group);
    ff_hdf5_each_attribute(g->ctx, g->file, path, take_attribute, &a);
    free(a.text);
    return a.found ? a.value : fallback;
}

char *golden_data_text(golden_data *g, const char *group, const char *name)
{
    attribute a = {name, NULL, 0, false};
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "/%s", group);
    ff_hdf5_each_attribute(g->ctx, g->file, path, take_attribute, &a);
    return a.text;
}

static void report(golden_data *g, const char *what, bool good, double error, double tolerance, const char *reason)
{
    golden_verdict v = {.result = good ? GOLDEN_PASSED : GOLDEN_FAILED, .error = error, .tolerance = tolerance,
                        .entry_error = -1};
    snprintf(v.array, sizeof v.array, "%s", what);
    snprintf(v.reason, sizeof v.reason, "%s", good ? "" : reason);
    g->report(g->report_arg, &v);
}

void golden_data_check(golden_data *g, const char *what, bool good, const char *format, ...)
{
    char reason[320];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    report(g, what, good, good ? 0 : INFINITY, 0, reason);
}

static double number_at(const ff_array *a, int64_t i)
{
    return a->type == FF_ARRAY_FLOAT32 ? a->f32[i] : a->type == FF_ARRAY_INT32 ? a->i32[i] : a->i8[i];
}

static bool same_shape(const ff_array *a, const ff_array *b)
{
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

static void compare(golden_data *g, const char *name, const ff_array *want, const ff_array *got, double tolerance)
{
    char reason[320] = "";
    double worst = 0, allowed = want->type == FF_ARRAY_FLOAT32 ? tolerance : 0;
    if (got == NULL) {
        snprintf(reason, sizeof reason, "not made");
    } else if ((want->type == FF_ARRAY_TEXT) != (got->type == FF_ARRAY_TEXT)) {
        snprintf(reason, sizeof reason, "text and numbers differ in kind");
    } else if (!same_shape(want, got)) {
        snprintf(reason, sizeof reason, "another shape: first length %lld of %d dimensions, wanted %lld of %d",
                 (long long)(got->ndim > 0 ? got->shape[0] : 1), got->ndim,
                 (long long)(want->ndim > 0 ? want->shape[0] : 1), want->ndim);
    } else if (want->type == FF_ARRAY_TEXT) {
        for (int64_t i = 0; i < want->size && reason[0] == '\0'; i++) {
            const char *a = got->text[i] == NULL ? "" : got->text[i], *b = want->text[i] == NULL ? "" : want->text[i];
            if (strcmp(a, b) != 0)
                snprintf(reason, sizeof reason, "entry %lld is \"%.80s\", wanted \"%.80s\"", (long long)i, a, b);
        }
    } else {
        int64_t at = -1;
        for (int64_t i = 0; i < want->size; i++) {
            const double w = number_at(want, i), d = fabs(number_at(got, i) - w) / fmax(1, fabs(w));
            if (!(d <= worst)) {
                worst = isnan(d) ? INFINITY : d;
                at = i;
            }
        }
        if (worst > allowed)
            snprintf(reason, sizeof reason, "entry %lld is %.9g, wanted %.9g", (long long)at, number_at(got, at),
                     number_at(want, at));
    }
    report(g, name, reason[0] == '\0', reason[0] == '\0' ? worst : fmax(worst, 1), allowed, reason);
}

void golden_data_compare(golden_data *g, const char *group, const ff_array_set *got, double tolerance)
{
    ff_array_set want;
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "/%s", group);
    ff_array_set_init(&want);
    if (ff_array_set_read(g->ctx, &want, g->file, path) == FF_OK)
        for (int64_t i = 0; i < want.count; i++)
            compare(g, want.items[i]->name, want.items[i], ff_array_find(got, want.items[i]->name), tolerance);
    ff_array_set_destroy(&want);
}

void golden_data_compare_array(golden_data *g, const char *group, const char *name, const ff_array *got, double tolerance)
{
    ff_array_set want;
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "/%s", group);
    ff_array_set_init(&want);
    if (ff_array_set_read(g->ctx, &want, g->file, path) == FF_OK) {
        const ff_array *w = ff_array_find(&want, name);
        if (w != NULL)
            compare(g, name, w, got, tolerance);
        else
            golden_data_check(g, name, false, "the file has no such array");
    }
    ff_array_set_destroy(&want);
}
