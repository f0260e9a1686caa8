/* command_inspect.c - fastfold-data inspect: what an HDF5 file of ours, or any other, holds. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/command.h"
#include "io/hdf5_file.h"

typedef struct {
    bool json;
} inspect_options;

static const ff_option table[] = {
    {"json", FF_OPTION_FLAG, offsetof(inspect_options, json), NULL, NULL, "Output", "one JSON object a file"},
    FF_OPTION_END};

enum { PATH_BYTES = 1024, MAX_READ = 1 << 24, SHOWN_TEXT = 60 };

typedef struct {
    ff_hdf5_file *file;
    bool json;
    int64_t entries; /* printed in the open JSON list or object */
    char group[PATH_BYTES];
} inspector;

/* ---- text and JSON ---- */

static void print_json_text(const char *text)
{
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if (*p < 0x20)
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

static void print_number(double x)
{
    if (isfinite(x))
        printf("%.9g", x);
    else
        fputs("null", stdout);
}

/* The first bytes of a text on one line, cut between UTF-8 characters. */
static void print_shortened(const char *text)
{
    size_t n = strlen(text), shown = n > SHOWN_TEXT ? SHOWN_TEXT : n;
    while (shown < n && shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80)
        shown--;
    for (size_t i = 0; i < shown; i++)
        putchar((unsigned char)text[i] < ' ' ? ' ' : text[i]);
    if (shown < n)
        printf("... (%zu bytes)", n);
}

/* ---- attributes ---- */

static ff_status print_attribute(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    (void)ctx;
    inspector *in = arg;
    if (in->json) {
        fputs(in->entries++ > 0 ? ", " : "", stdout);
        print_json_text(name);
        fputs(": ", stdout);
        if (text != NULL)
            print_json_text(text);
        else
            print_number(value);
        return FF_OK;
    }
    printf("%s  @%-26s ", in->group, name);
    if (text != NULL)
        print_shortened(text);
    else
        printf("%.9g", value);
    putchar('\n');
    return FF_OK;
}

/* ---- arrays ---- */

typedef struct {
    double low, high, sum;
    int64_t finite, not_finite, zero;
} statistics;

static void count_value(statistics *s, double x)
{
    if (!isfinite(x)) {
        s->not_finite++;
        return;
    }
    if (s->finite == 0 || x < s->low)
        s->low = x;
    if (s->finite == 0 || x > s->high)
        s->high = x;
    s->sum += x;
    s->zero += x == 0;
    s->finite++;
}

/* Numbers of a data set that is small enough to be read for a summary. */
static ff_status read_statistics(ff_ctx *ctx, inspector *in, const char *path, const ff_hdf5_info *info, statistics *s)
{
    const bool real = info->kind == FF_HDF5_FLOAT;
    void *data = malloc((size_t)info->size * 4 + 4);
    if (data == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    const ff_status status = real ? ff_hdf5_read_float(ctx, in->file, path, data, info->size)
                                  : ff_hdf5_read_int32(ctx, in->file, path, data, info->size);
    for (int64_t i = 0; status == FF_OK && i < info->size; i++)
        count_value(s, real ? (double)((float *)data)[i] : (double)((int32_t *)data)[i]);
    free(data);
    return status;
}

static ff_status read_first_text(ff_ctx *ctx, inspector *in, const char *path, const ff_hdf5_info *info, char **first)
{
    *first = NULL;
    char **texts = calloc((size_t)info->size + 1, sizeof *texts);
    if (texts == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    const ff_status status = ff_hdf5_read_text(ctx, in->file, path, texts, info->size);
    if (status == FF_OK && info->size > 0) {
        *first = texts[0];
        texts[0] = NULL;
    }
    for (int64_t i = 0; i < info->size; i++)
        free(texts[i]);
    free(texts);
    return status;
}

static const char *kind_name(ff_hdf5_kind kind)
{
    static const char *const names[] = {"float", "integer", "text", "other"};
    return names[kind];
}

static void print_json_array(inspector *in, const char *name, const ff_hdf5_info *info, const statistics *s,
                             const char *first)
{
    printf("%s{\"name\": ", in->entries++ > 0 ? ", " : "");
    print_json_text(name);
    printf(", \"type\": \"%s\", \"element_bytes\": %zu, \"shape\": [", kind_name(info->kind), info->element_bytes);
    for (int i = 0; i < info->ndim; i++)
        printf("%s%lld", i > 0 ? ", " : "", (long long)info->shape[i]);
    putchar(']');
    if (s->finite + s->not_finite > 0) {
        fputs(", \"min\": ", stdout);
        print_number(s->finite > 0 ? s->low : NAN);
        fputs(", \"max\": ", stdout);
        print_number(s->finite > 0 ? s->high : NAN);
        fputs(", \"mean\": ", stdout);
        print_number(s->finite > 0 ? s->sum / (double)s->finite : NAN);
        printf(", \"zeros\": %lld, \"not_finite\": %lld", (long long)s->zero, (long long)s->not_finite);
    }
    if (first != NULL) {
        fputs(", \"first\": ", stdout);
        print_json_text(first);
    }
    putchar('}');
}

static void print_array(const char *name, const ff_hdf5_info *info, const statistics *s, const char *first)
{
    char shape[160] = "";
    for (int i = 0; i < info->ndim; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", i > 0 ? " x " : "",
                 (long long)info->shape[i]);
    printf("%-40s %s%zu  [%s]", name, kind_name(info->kind), info->element_bytes * 8, shape);
    if (s->finite > 0)
        printf("  %.6g to %.6g, mean %.6g", s->low, s->high, s->sum / (double)s->finite);
    if (s->not_finite > 0)
        printf("  %lld NOT FINITE", (long long)s->not_finite);
    if (first != NULL) {
        fputs("  \"", stdout);
        print_shortened(first);
        fputs("\"", stdout);
    }
    putchar('\n');
}

static ff_status inspect_array(ff_ctx *ctx, void *arg, const char *name)
{
    inspector *in = arg;
    ff_hdf5_info info;
    statistics s = {0};
    char *first = NULL;
    FF_TRY(ff_hdf5_get_info(ctx, in->file, name, &info));
    if (info.size <= MAX_READ && (info.kind == FF_HDF5_FLOAT || info.kind == FF_HDF5_INTEGER))
        FF_TRY(read_statistics(ctx, in, name, &info, &s));
    if (info.size <= MAX_READ && info.kind == FF_HDF5_TEXT)
        FF_TRY(read_first_text(ctx, in, name, &info, &first));
    if (in->json)
        print_json_array(in, name, &info, &s, first);
    else
        print_array(name, &info, &s, first);
    free(first);
    return FF_OK;
}

/* ---- groups ---- */

static ff_status inspect_group_attributes(ff_ctx *ctx, void *arg, const char *name)
{
    inspector *in = arg;
    const size_t length = strlen(in->group);
    if (length + strlen(name) + 2 > sizeof in->group)
        return FF_OK;
    sprintf(in->group + length, "%s%s", length > 1 ? "/" : "", name);
    ff_status status = ff_hdf5_each_attribute(ctx, in->file, in->group, print_attribute, in);
    if (status == FF_OK)
        status = ff_hdf5_each_group(ctx, in->file, in->group, inspect_group_attributes, in);
    in->group[length] = '\0';
    return status;
}

static ff_status inspect_open_file(ff_ctx *ctx, inspector *in, const char *path)
{
    if (in->json) {
        fputs("{\"file\": ", stdout);
        print_json_text(path);
        fputs(", \"attributes\": {", stdout);
    } else {
        printf("%s\n", path);
    }
    strcpy(in->group, "/");
    FF_TRY(ff_hdf5_each_attribute(ctx, in->file, "/", print_attribute, in));
    if (!in->json)
        FF_TRY(ff_hdf5_each_group(ctx, in->file, "/", inspect_group_attributes, in));
    if (in->json)
        fputs("}, \"arrays\": [", stdout);
    in->entries = 0;
    FF_TRY(ff_hdf5_each_dataset(ctx, in->file, "/", inspect_array, in));
    if (in->json)
        fputs("]}\n", stdout);
    return FF_OK;
}

static int run(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const inspect_options *o = options;
    if (args->num_positional == 0)
        return ff_command_usage(ctx, "no file given; see --help");
    ff_batch batch = {0, 0, NULL};
    for (int i = 0; i < args->num_positional; i++) {
        inspector in = {.json = o->json};
        if (ff_hdf5_open(ctx, &in.file, args->positional[i]) == FF_OK &&
            inspect_open_file(ctx, &in, args->positional[i]) == FF_OK)
            ff_batch_good(&batch);
        else
            ff_batch_bad(&batch, ctx);
        ff_hdf5_close(in.file);
    }
    return ff_batch_finish(&batch, ctx);
}

const ff_command ff_command_inspect = {
    "inspect",
    "say what an HDF5 file holds",
    {"fastfold-data inspect", "FILE.h5... [--json]",
     "Lists attributes and arrays with type, shape and range. Arrays of more than 16 million elements are not read.",
     table},
    sizeof(inspect_options),
    run};
