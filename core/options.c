/* options.c - the option table: reading, help, and what differs from the defaults.
 *
 * Contents
 *   1. reading one value
 *   2. finding a name, and the nearest one
 *   3. the command line
 *   4. help and version
 *   5. what differs from the defaults
 *   6. INI files */
#include "core/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"

enum { NAME_BYTES = 64 }; /* longest option name, with its end */

/* ---- 1. reading one value ---- */

typedef union {
    bool flag;
    int64_t integer;
    double real;
    const char *string;
    int choice;
    const ff_option_list *list; /* the whole list when loaded; not used for reading, see store */
} option_value;

static bool read_int64(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *value = number;
    return end != text && *end == '\0' && errno == 0;
}

static bool read_double(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && !isnan(*value);
}

bool ff_options_read_bytes(const char *text, int64_t *bytes)
{
    char *end;
    const double number = strtod(text, &end);
    if (end == text || !isfinite(number) || number < 0)
        return false;
    double unit = 1;
    static const char prefixes[] = "KMGT";
    const char *prefix = *end == '\0' ? NULL : strchr(prefixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
    if (prefix != NULL) {
        unit = ldexp(1.0, 10 * (int)(prefix - prefixes + 1));
        end++;
        if (*end == 'i' && end[1] == 'B')
            end++;
    }
    if (*end == 'B')
        end++;
    if (*end != '\0' || number * unit >= 0x1p63)
        return false;
    *bytes = (int64_t)(number * unit);
    return true;
}

/* Position of `text` among "a|b|c", or -1. */
static int find_choice(const char *choices, const char *text)
{
    const size_t length = strlen(text);
    for (int position = 0;; position++) {
        const size_t width = strcspn(choices, "|");
        if (width == length && memcmp(choices, text, length) == 0)
            return position;
        if (choices[width] == '\0')
            return -1;
        choices += width + 1;
    }
}

static bool read_flag(const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "off", "on", "no", "yes", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *value = i % 2 == 1;
            return true;
        }
    }
    return false;
}

/* One end of a range in the unit of the option; integers are compared as integers so that large ones stay exact. */
static bool end_allows(const ff_option *option, const char *limit, const option_value *value, bool low)
{
    if (*limit == '\0')
        return true;
    if (option->type == FF_OPTION_DOUBLE) {
        double bound;
        const bool ok = read_double(limit, &bound);
        assert(ok);
        (void)ok;
        return low ? value->real >= bound : value->real <= bound;
    }
    int64_t bound;
    const bool ok = option->type == FF_OPTION_BYTES ? ff_options_read_bytes(limit, &bound) : read_int64(limit, &bound);
    assert(ok);
    (void)ok;
    return low ? value->integer >= bound : value->integer <= bound;
}

static bool in_range(const ff_option *option, const option_value *value)
{
    if (option->range == NULL)
        return true;
    char low[NAME_BYTES];
    const char *dots = strstr(option->range, "..");
    assert(dots != NULL && (size_t)(dots - option->range) < sizeof low);
    memcpy(low, option->range, (size_t)(dots - option->range));
    low[dots - option->range] = '\0';
    return end_allows(option, low, value, true) && end_allows(option, dots + 2, value, false);
}

/* NULL when `text` was read into `value`; else what is expected instead. */
static const char *read_value(const ff_option *option, const char *text, option_value *value)
{
    switch (option->type) {
    case FF_OPTION_FLAG: return read_flag(text, &value->flag) ? NULL : "true or false";
    case FF_OPTION_STRING:
    case FF_OPTION_LIST: value->string = text; return NULL;
    case FF_OPTION_ENUM: value->choice = find_choice(option->range, text); return value->choice >= 0 ? NULL : "";
    case FF_OPTION_INT64:
        return !read_int64(text, &value->integer) ? "a whole number" : in_range(option, value) ? NULL : "";
    case FF_OPTION_DOUBLE: return !read_double(text, &value->real) ? "a number" : in_range(option, value) ? NULL : "";
    case FF_OPTION_BYTES:
        return !ff_options_read_bytes(text, &value->integer) ? "a size such as 512M or 20G"
               : in_range(option, value)                     ? NULL
                                                             : "";
    }
    return "";
}

static option_value default_value(const ff_option *option)
{
    option_value value;
    memset(&value, 0, sizeof value);
    if (option->default_value != NULL) {
        const char *expected = read_value(option, option->default_value, &value);
        assert(expected == NULL && "a default in the option table does not parse");
        (void)expected;
    }
    return value;
}

static void store(const ff_option *option, void *values, const option_value *value)
{
    void *member = (char *)values + option->offset;
    switch (option->type) {
    case FF_OPTION_FLAG: *(bool *)member = value->flag; break;
    case FF_OPTION_STRING: *(const char **)member = value->string; break;
    case FF_OPTION_ENUM: *(int *)member = value->choice; break;
    case FF_OPTION_DOUBLE: *(double *)member = value->real; break;
    case FF_OPTION_INT64:
    case FF_OPTION_BYTES: *(int64_t *)member = value->integer; break;
    case FF_OPTION_LIST: { /* one more, or the default: none */
        ff_option_list *list = member;
        if (value->string == NULL)
            *list = (ff_option_list){0, {NULL}};
        else
            list->items[list->count++] = value->string;
        break;
    }
    }
}

static option_value load(const ff_option *option, const void *values)
{
    const void *member = (const char *)values + option->offset;
    option_value value;
    memset(&value, 0, sizeof value);
    switch (option->type) {
    case FF_OPTION_FLAG: value.flag = *(const bool *)member; break;
    case FF_OPTION_STRING: value.string = *(const char *const *)member; break;
    case FF_OPTION_ENUM: value.choice = *(const int *)member; break;
    case FF_OPTION_DOUBLE: value.real = *(const double *)member; break;
    case FF_OPTION_INT64:
    case FF_OPTION_BYTES: value.integer = *(const int64_t *)member; break;
    case FF_OPTION_LIST: value.list = member; break;
    }
    return value;
}

/* ---- 2. finding a name, and the nearest one ---- */

static const ff_option *find_option(const ff_option *table, const char *name, size_t length)
{
    for (const ff_option *option = table; option->name != NULL; option++)
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    return NULL;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment). */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
    int rows[3][NAME_BYTES + 1]; /* row i is rows[i % 3]: the last two are needed */
    for (int j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i - 1) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}

/* The known name nearest to `name`, or NULL when none is near (more than a third of the letters differ). */
static const char *nearest_name(const ff_option *table, const char *name, int length)
{
    if (length >= NAME_BYTES)
        return NULL;
    const char *nearest = NULL;
    int best = length / 3 > 2 ? length / 3 + 1 : 3;
    const char *const built_in[] = {"help", "version", NULL};
    const ff_option *option = table;
    for (int i = 0; option->name != NULL || built_in[i] != NULL;) {
        const char *known = option->name != NULL ? (option++)->name : built_in[i++];
        const int known_length = (int)strlen(known);
        assert(known_length < NAME_BYTES);
        int distance = edit_distance(name, length, known, known_length);
        if (length >= 3 && known_length > length && memcmp(known, name, (size_t)length) == 0)
            distance = 1; /* a name cut short */
        if (distance < best && distance < known_length) {
            best = distance;
            nearest = known;
        }
    }
    return nearest;
}

/* ---- 3. the command line ---- */

/* What stands before a name on the command line: one dash and one letter, or two and a word. */
static const char *dashes(const ff_option *option) { return option->name[1] == '\0' ? "-" : "--"; }

void ff_options_set_defaults(const ff_program *program, void *values)
{
    for (const ff_option *option = program->table; option->name != NULL; option++) {
        const option_value value = default_value(option);
        store(option, values, &value);
    }
}

static ff_status fail_unknown(ff_ctx *ctx, const ff_program *program, const char *argument)
{
    const char *name = argument + strspn(argument, "-");
    const size_t length = strcspn(name, "=");
    const char *nearest = nearest_name(program->table, name, length < NAME_BYTES ? (int)length : NAME_BYTES);
    const int shown = (int)strcspn(argument, "=");
    if (strcmp(argument, "-h") == 0)
        nearest = "help";
    if (nearest != NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "unknown option %.*s; did you mean --%s?", shown, argument, nearest);
    return FF_FAIL(ctx, FF_ERR_ARG, "unknown option %.*s; --help lists all options", shown, argument);
}

static ff_status set_value(ff_ctx *ctx, const ff_option *option, void *values, const char *text)
{
    option_value value;
    const char *expected = read_value(option, text, &value);
    if (option->type == FF_OPTION_LIST && load(option, values).list->count == FF_OPTION_LIST_MAX)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s%s was given more than %d times", dashes(option), option->name,
                       FF_OPTION_LIST_MAX);
    if (expected == NULL) {
        store(option, values, &value);
        return FF_OK;
    }
    if (*expected != '\0')
        return FF_FAIL(ctx, FF_ERR_ARG, "%s%s: \"%s\" is not %s", dashes(option), option->name, text, expected);
    if (option->type == FF_OPTION_ENUM)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s%s: \"%s\" is not one of %s", dashes(option), option->name, text,
                       option->range);
    return FF_FAIL(ctx, FF_ERR_ARG, "%s%s: %s is outside the range %s", dashes(option), option->name, text,
                   option->range);
}

/* Read one option at argv[i]; adds to *used how many arguments it took. */
static ff_status read_option(ff_ctx *ctx, const ff_program *program, void *values, int argc, char **argv, int i,
                             int *used)
{
    const char *name = argv[i] + (argv[i][1] == '-' ? 2 : 1);
    const size_t length = strcspn(name, "=");
    const char *text = name[length] == '=' ? name + length + 1 : NULL;
    *used = 1;
    const ff_option *option = find_option(program->table, name, length);
    if (option == NULL && text == NULL && strncmp(name, "no-", 3) == 0) {
        option = find_option(program->table, name + 3, length - 3);
        if (option != NULL && option->type == FF_OPTION_FLAG)
            return set_value(ctx, option, values, "false");
        if (option != NULL)
            return FF_FAIL(ctx, FF_ERR_ARG, "--%s takes a value, so there is no --no-%s", option->name, option->name);
    }
    if (option == NULL)
        return fail_unknown(ctx, program, argv[i]);
    if (text == NULL && option->type == FF_OPTION_FLAG)
        return set_value(ctx, option, values, "true");
    if (text == NULL) {
        if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0)
            return FF_FAIL(ctx, FF_ERR_ARG, "%s%s needs a value", dashes(option), option->name);
        text = argv[i + 1];
        *used = 2;
    }
    return set_value(ctx, option, values, text);
}

ff_status ff_options_parse(ff_ctx *ctx, const ff_program *program, void *values, int argc, char **argv,
                           ff_arguments *args)
{
    ff_options_set_defaults(program, values);
    return ff_options_parse_over(ctx, program, values, argc, argv, args);
}

ff_status ff_options_parse_over(ff_ctx *ctx, const ff_program *program, void *values, int argc, char **argv,
                                ff_arguments *args)
{
    *args = (ff_arguments){.positional = argv + (argc > 0)};
    for (int i = 1; i < argc;) {
        char *argument = argv[i];
        int used = 1;
        if (strcmp(argument, "--") == 0) {
            for (i++; i < argc; i++)
                args->positional[args->num_positional++] = argv[i];
            break;
        }
        if (argument[0] != '-' || argument[1] == '\0')
            args->positional[args->num_positional++] = argument;
        else if (strcmp(argument, "--help") == 0)
            args->help = true;
        else if (strcmp(argument, "--version") == 0)
            args->version = true;
        else if (argument[1] != '-' && (argument[2] != '\0' || find_option(program->table, argument + 1, 1) == NULL))
            return fail_unknown(ctx, program, argument);
        else
            FF_TRY(read_option(ctx, program, values, argc, argv, i, &used));
        i += used;
    }
    return FF_OK;
}

/* ---- 4. help and version ---- */

static const char *type_word(const ff_option *option)
{
    switch (option->type) {
    case FF_OPTION_FLAG: return "";
    case FF_OPTION_INT64: return " N";
    case FF_OPTION_DOUBLE: return " X";
    case FF_OPTION_STRING:
    case FF_OPTION_LIST: return " TEXT";
    case FF_OPTION_ENUM: return " NAME";
    case FF_OPTION_BYTES: return " SIZE";
    }
    return "";
}

static void print_option(const ff_option *option, FILE *file)
{
    enum { HELP_COLUMN = 30 };
    const int width = fprintf(file, "  %s%s%s", dashes(option), option->name, type_word(option));
    fprintf(file, "%*s%s", width < HELP_COLUMN ? HELP_COLUMN - width : 1, "", option->help);
    const bool has_default = option->default_value != NULL && option->default_value[0] != '\0';
    if (option->range != NULL && has_default)
        fprintf(file, " (%s; default %s)", option->range, option->default_value);
    else if (option->range != NULL)
        fprintf(file, " (%s)", option->range);
    else if (has_default)
        fprintf(file, " (default %s)", option->default_value);
    fputc('\n', file);
}

void ff_options_print_help(const ff_program *program, FILE *file)
{
    fprintf(file, "Usage: %s %s\n\n%s\n", program->name, program->usage, program->about);
    const char *group = "";
    for (const ff_option *option = program->table; option->name != NULL; option++) {
        const char *own_group = option->group != NULL ? option->group : "Options";
        if (strcmp(group, own_group) != 0)
            fprintf(file, "\n%s:\n", own_group);
        group = own_group;
        print_option(option, file);
    }
    static const ff_option built_in[] = {{.name = "help", .help = "show this text"},
                                         {.name = "version", .help = "show the version"}};
    fputs("\nInformation:\n", file);
    print_option(&built_in[0], file);
    print_option(&built_in[1], file);
}

void ff_options_print_version(const ff_program *program, FILE *file)
{
    fprintf(file, "%s %s\n", program->name, FF_VERSION);
}

/* ---- 5. what differs from the defaults ---- */

static bool same_value(const ff_option *option, const option_value *a, const option_value *b)
{
    switch (option->type) {
    case FF_OPTION_FLAG: return a->flag == b->flag;
    case FF_OPTION_STRING:
        return a->string == b->string ||
               (a->string != NULL && b->string != NULL && strcmp(a->string, b->string) == 0);
    case FF_OPTION_ENUM: return a->choice == b->choice;
    case FF_OPTION_DOUBLE: return a->real == b->real;
    case FF_OPTION_INT64:
    case FF_OPTION_BYTES: return a->integer == b->integer;
    case FF_OPTION_LIST: return a->list->count == 0; /* b is the default: none */
    }
    return true;
}

static int format_list(const ff_option_list *list, char *text, size_t size)
{
    size_t length = 0;
    for (int i = 0; i < list->count; i++)
        length += (size_t)snprintf(length < size ? text + length : NULL, length < size ? size - length : 0, "%s%s",
                                   i > 0 ? "," : "", list->items[i]);
    return (int)length;
}

static int format_value(const ff_option *option, const option_value *value, char *text, size_t size)
{
    switch (option->type) {
    case FF_OPTION_FLAG: return snprintf(text, size, "%s", value->flag ? "true" : "false");
    case FF_OPTION_STRING: return snprintf(text, size, "%s", value->string != NULL ? value->string : "");
    case FF_OPTION_LIST: return format_list(value->list, text, size);
    case FF_OPTION_DOUBLE: { /* as short as reads back the same */
        char shortest[32];
        snprintf(shortest, sizeof shortest, "%.10g", value->real);
        return snprintf(text, size, strtod(shortest, NULL) == value->real ? "%.10g" : "%.17g", value->real);
    }
    case FF_OPTION_INT64:
    case FF_OPTION_BYTES: return snprintf(text, size, "%" PRId64, value->integer);
    case FF_OPTION_ENUM: {
        const char *choice = option->range;
        for (int i = 0; i < value->choice; i++)
            choice += strcspn(choice, "|") + 1;
        return snprintf(text, size, "%.*s", (int)strcspn(choice, "|"), choice);
    }
    }
    return 0;
}

size_t ff_options_format_changed(const ff_program *program, const void *values, char *text, size_t size)
{
    size_t length = 0;
    if (size > 0)
        text[0] = '\0';
    for (const ff_option *option = program->table; option->name != NULL; option++) {
        const option_value value = load(option, values), standard = default_value(option);
        if (same_value(option, &value, &standard))
            continue;
        const char *gap = length > 0 ? " " : "";
        char *at = length < size ? text + length : NULL;
        length += (size_t)snprintf(at, at != NULL ? size - length : 0, "%s%s=", gap, option->name);
        at = length < size ? text + length : NULL;
        length += (size_t)format_value(option, &value, at, at != NULL ? size - length : 0);
    }
    return length;
}

/* ---- 6. INI files ---- */

/* The text without blanks at its ends. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

/* One line, cut up; the message of a failure has no place yet. */
static ff_status read_ini_line(ff_ctx *ctx, const ff_program *program, void *values, char *line)
{
    char *equals = strchr(line, '=');
    if (*line == '\0' || *line == '#' || *line == ';' || *line == '[')
        return FF_OK;
    if (equals == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "\"%.60s\" is not `name = value`", line);
    *equals = '\0';
    const char *name = trim(line), *text = trim(equals + 1);
    const ff_option *option = find_option(program->table, name, strlen(name));
    if (option == NULL)
        return fail_unknown(ctx, program, name);
    if (*text != '\0')
        return set_value(ctx, option, values, text);
    const option_value standard = default_value(option);
    store(option, values, &standard);
    return FF_OK;
}

ff_status ff_options_read_ini(ff_ctx *ctx, const ff_program *program, void *values, char *text, const char *path)
{
    for (int number = 1; text != NULL; number++) {
        char *end = strchr(text, '\n');
        if (end != NULL)
            *end++ = '\0';
        const ff_status status = read_ini_line(ctx, program, values, trim(text));
        if (status != FF_OK) {
            char message[FF_MESSAGE_BYTES];
            snprintf(message, sizeof message, "%s", ctx->message);
            ff_context_clear(ctx);
            return FF_FAIL(ctx, status, "%s:%d: %s", path, number, message);
        }
        text = end;
    }
    return FF_OK;
}

void ff_options_write_ini(const ff_program *program, const void *values, FILE *file)
{
    const char *group = "";
    for (const ff_option *option = program->table; option->name != NULL; option++) {
        const option_value value = load(option, values);
        const char *own_group = option->group != NULL ? option->group : "Options";
        char text[4096];
        if (strcmp(group, own_group) != 0)
            fprintf(file, "%s[%s]\n", *group == '\0' ? "" : "\n", own_group);
        group = own_group;
        if (option->type == FF_OPTION_LIST) {
            for (int i = 0; i < value.list->count; i++)
                fprintf(file, "%s = %s\n", option->name, value.list->items[i]);
            continue;
        }
        format_value(option, &value, text, sizeof text);
        fprintf(file, "%s = %s\n", option->name, text);
    }
}
