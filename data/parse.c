#include "data/parse.h"

#include <stdlib.h>
#include <string.h>

#include "core/version.h"

void ff_parsed_init(ff_parsed *parsed)
{
    *parsed = (ff_parsed){.attributes = NULL};
    ff_array_set_init(&parsed->arrays);
}

void ff_parsed_destroy(ff_parsed *parsed)
{
    for (int64_t i = 0; i < parsed->num_attributes; i++) {
        free(parsed->attributes[i].object);
        free(parsed->attributes[i].name);
        free(parsed->attributes[i].text);
    }
    free(parsed->attributes);
    ff_array_set_destroy(&parsed->arrays);
    ff_parsed_init(parsed);
}

static ff_status put(ff_ctx *ctx, ff_parsed *parsed, const char *object, const char *name, const char *text,
                     double number)
{
    ff_attribute *grown = realloc(parsed->attributes, (size_t)(parsed->num_attributes + 1) * sizeof *grown);
    if (grown == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for attribute %s", name);
    parsed->attributes = grown;
    ff_attribute *a = &grown[parsed->num_attributes++];
    *a = (ff_attribute){strdup(object), strdup(name), text == NULL ? NULL : strdup(text), number};
    if (a->object == NULL || a->name == NULL || (text != NULL && a->text == NULL))
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for attribute %s", name);
    return FF_OK;
}

ff_status ff_parsed_put_number(ff_ctx *ctx, ff_parsed *parsed, const char *object, const char *name, double number)
{
    return put(ctx, parsed, object, name, NULL, number);
}

ff_status ff_parsed_put_text(ff_ctx *ctx, ff_parsed *parsed, const char *object, const char *name, const char *text)
{
    return put(ctx, parsed, object, name, text, 0);
}

const ff_attribute *ff_parsed_find(const ff_parsed *parsed, const char *object, const char *name)
{
    for (int64_t i = 0; i < parsed->num_attributes; i++)
        if (strcmp(parsed->attributes[i].object, object) == 0 && strcmp(parsed->attributes[i].name, name) == 0)
            return &parsed->attributes[i];
    return NULL;
}

ff_status ff_parsed_put_texts(ff_ctx *ctx, ff_parsed *parsed, const char *name, const ff_text_list *list)
{
    ff_array *array = ff_array_add(ctx, &parsed->arrays, name, FF_ARRAY_TEXT, FF_DIMS(list->count));
    if (array == NULL)
        return ctx->status;
    for (int64_t i = 0; i < list->count; i++) {
        const char *text = ff_text_list_get(list, i);
        FF_TRY(ff_array_put_text(ctx, array, i, text, strlen(text)));
    }
    return FF_OK;
}

static ff_status write_all(ff_ctx *ctx, const ff_parsed *parsed, ff_hdf5_writer *writer, const char *format,
                           const char *source)
{
    FF_TRY(ff_array_set_write(ctx, &parsed->arrays, writer, "/"));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, writer, "/", "format", format));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, writer, "/", "source", source));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, writer, "/", "program", "fastfold-data " FF_VERSION));
    for (int64_t i = 0; i < parsed->num_attributes; i++) {
        const ff_attribute *a = &parsed->attributes[i];
        FF_TRY(ff_hdf5_make_group(ctx, writer, a->object));
        if (a->text != NULL)
            FF_TRY(ff_hdf5_write_text_attribute(ctx, writer, a->object, a->name, a->text));
        else
            FF_TRY(ff_hdf5_write_number_attribute(ctx, writer, a->object, a->name, a->number));
    }
    return FF_OK;
}

ff_status ff_parsed_write(ff_ctx *ctx, const ff_parsed *parsed, const char *path, const char *format,
                          const char *source)
{
    ff_hdf5_writer *writer;
    FF_TRY(ff_hdf5_create(ctx, &writer, path));
    const ff_status status = write_all(ctx, parsed, writer, format, source);
    if (status != FF_OK) {
        ff_hdf5_abandon(writer);
        return status;
    }
    return ff_hdf5_commit(ctx, writer);
}
