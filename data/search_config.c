#include "data/search_config.h"

#include <stdlib.h>
#include <string.h>

#include "io/text_file.h"

/* The place of a name among databases and programs; NULL when it is none. */
static char **find_place(ff_search_config *config, const char *name, int length, bool *is_program)
{
    for (int i = 0; i < FF_NUM_DBS; i++)
        if (strncmp(ff_search_db_name(i), name, (size_t)length) == 0 && ff_search_db_name(i)[length] == '\0') {
            *is_program = false;
            return &config->databases[i];
        }
    for (int i = 0; i < FF_NUM_TOOLS; i++)
        if (strncmp(ff_search_tool_option(i), name, (size_t)length) == 0 &&
            ff_search_tool_option(i)[length] == '\0') {
            *is_program = true;
            return &config->programs[i];
        }
    return NULL;
}

/* A path of the file, made one from where we are. */
static char *resolve(const char *config_path, const char *value, bool is_program)
{
    const char *slash = strrchr(config_path, '/');
    char *path = NULL;
    if (value[0] == '/' || slash == NULL || (is_program && strchr(value, '/') == NULL))
        return strdup(value);
    return asprintf(&path, "%.*s/%s", (int)(slash - config_path), config_path, value) < 0 ? NULL : path;
}

static ff_status take_line(ff_ctx *ctx, ff_search_config *config, const char *path, ff_text_line *line)
{
    char *text = line->text, *comment = memchr(text, '#', (size_t)line->length);
    int64_t length = comment == NULL ? line->length : comment - text;
    char quote[FF_TEXT_QUOTE_BYTES];
    bool is_program;
    ff_text_strip(&text, &length);
    if (length == 0)
        return FF_OK;
    text[length] = '\0';
    const int name_length = (int)strcspn(text, " \t=");
    char *value = text + name_length + strspn(text + name_length, " \t");
    if (name_length == 0 || *value != '=')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s is not `name = path`", path, (long long)line->number,
                       ff_text_quote(quote, text, length));
    value += 1 + strspn(value + 1, " \t");
    char **place = find_place(config, text, name_length, &is_program);
    if (place == NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %s is no database or program; they are named as the options are",
                       path, (long long)line->number, ff_text_quote(quote, text, name_length));
    if (*place != NULL || *value == '\0')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %.*s %s", path, (long long)line->number, name_length, text,
                       *value == '\0' ? "has no path" : "was given before");
    *place = resolve(path, value, is_program);
    return *place == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory") : FF_OK;
}

ff_status ff_search_config_read(ff_ctx *ctx, ff_search_config *config, const char *path)
{
    ff_text_file *file;
    ff_status status = FF_OK;
    *config = (ff_search_config){.databases = {NULL}};
    FF_TRY(ff_text_open(ctx, &file, path));
    for (ff_text_line line;;) {
        FF_TRY_DONE(ff_text_next(ctx, file, &line));
        if (line.text == NULL)
            break;
        FF_TRY_DONE(take_line(ctx, config, path, &line));
    }
done:
    ff_text_close(file);
    if (status != FF_OK)
        ff_search_config_destroy(config);
    return status;
}

void ff_search_config_destroy(ff_search_config *config)
{
    for (int i = 0; i < FF_NUM_DBS; i++)
        free(config->databases[i]);
    for (int i = 0; i < FF_NUM_TOOLS; i++)
        free(config->programs[i]);
    *config = (ff_search_config){.databases = {NULL}};
}

void ff_search_config_apply(const ff_search_config *config, ff_search_options *options)
{
    for (int i = 0; i < FF_NUM_DBS; i++)
        if (options->databases[i] == NULL)
            options->databases[i] = config->databases[i];
    for (int i = 0; i < FF_NUM_TOOLS; i++)
        if (options->programs[i] == NULL)
            options->programs[i] = config->programs[i];
}
