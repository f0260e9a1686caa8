/* options.h - command-line options as a table.
 *
 *     typedef struct { int64_t num_recycle; double dropout; bool json; int dtype; int64_t memory; } options;
 *     static const ff_option table[] = {
 *         {"num-recycle", FF_OPTION_INT64, offsetof(options, num_recycle), "3", "0..", "Model", "recycling passes"},
 *         {"dtype", FF_OPTION_ENUM, offsetof(options, dtype), "f32", "f32|bf16", "Model", "type of matrix operands"},
 *         {"memory", FF_OPTION_BYTES, offsetof(options, memory), "20G", "1M..", "Machine", "memory budget"},
 *         {"json", FF_OPTION_FLAG, offsetof(options, json), NULL, NULL, "Output", "one JSON object a line"},
 *         FF_OPTION_END};
 *     static const ff_program program = {"fastfold-demo", "[options] FILE...", "Shows how options work.", table};
 *
 *     if (ff_options_parse(&ctx, &program, &o, argc, argv, &args) != FF_OK) {
 *         fprintf(stderr, "%s: %s\n", program.name, ctx.message);
 *         return 2;
 *     }
 *     if (args.help || args.version)
 *         return args.help ? ff_options_print_help(&program, stdout) : ff_options_print_version(&program, stdout), 0;
 *
 * On the command line: `--num-recycle 3`, `--num-recycle=3`, `--json`, `--no-json`, `--json=off`; `--` ends the options.
 * The last one given wins, but a list keeps them all. `--help` and `--version` are in every program. An option whose name is
 * one letter is written with one dash (`-o FILE`); only what every reader knows is abbreviated so. */
#ifndef FF_CORE_OPTIONS_H
#define FF_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_OPTION_FLAG,   /* bool; default false */
    FF_OPTION_INT64,  /* int64_t */
    FF_OPTION_DOUBLE, /* double */
    FF_OPTION_STRING, /* const char *, into argv or the table; NULL when there is no default */
    FF_OPTION_ENUM,   /* int: position of the value in `range`, from 0 */
    FF_OPTION_BYTES,  /* int64_t; text like 512M, 1.5G, 64KiB: powers of 1024 */
    FF_OPTION_LIST    /* ff_option_list; may be given again and again; starts empty */
} ff_option_type;

enum { FF_OPTION_LIST_MAX = 64 };

typedef struct {
    int count;
    const char *items[FF_OPTION_LIST_MAX]; /* into argv, in the order given */
} ff_option_list;

typedef struct {
    const char *name; /* without the dashes, words joined by '-' */
    ff_option_type type;
    size_t offset;             /* offsetof the member in the program's struct of values */
    const char *default_value; /* as on the command line; NULL = false, 0, the first choice, no string */
    const char *range;         /* numbers "LOW..HIGH", both included, either may be left out; ENUM "a|b|c"; NULL = any */
    const char *group;         /* heading in the help text; options of one group stand together */
    const char *help;          /* one phrase, with the unit */
} ff_option;

#define FF_OPTION_END                                                                              \
    {                                                                                              \
        NULL, FF_OPTION_FLAG, 0, NULL, NULL, NULL, NULL                                            \
    }

typedef struct {
    const char *name;       /* "fastfold-bench" */
    const char *usage;      /* "[options] FILE..." */
    const char *about;      /* a sentence or a few lines for the help text */
    const ff_option *table; /* ends with FF_OPTION_END */
} ff_program;

/** What is left of the command line besides options. */
typedef struct {
    char **positional; /* [num_positional], a stretch of argv */
    int num_positional;
    bool help;    /* --help was given */
    bool version; /* --version was given */
} ff_arguments;

/** Set every value of the table to its default. A default that does not parse is a mistake of ours: an assert. */
void ff_options_set_defaults(const ff_program *program, void *values);

/**
 * Set defaults, then read the command line. Positional arguments are moved to the front of argv (after argv[0]), in
 * their order.
 *
 * @param values  the program's struct, as the table's offsets have it
 * @return FF_OK; FF_ERR_ARG with a one-line message that names the option, the offending text and what is allowed; an
 *         unknown name comes with the nearest known one. `args` is filled up to the failure.
 */
ff_status ff_options_parse(ff_ctx *ctx, const ff_program *program, void *values, int argc, char **argv,
                           ff_arguments *args);

/** The same on top of the values there are: defaults, or what a file said. */
ff_status ff_options_parse_over(ff_ctx *ctx, const ff_program *program, void *values, int argc, char **argv,
                                ff_arguments *args);

/**
 * Read options from the text of an INI file: `name = value` a line, blank lines, `[headings]` and comments that begin with `#` or
 * `;`. Values are as on the command line; an empty one means the default.
 *
 * @param text  is cut up, and must outlive the values: strings point into it
 * @param path  for messages
 * @return FF_ERR_ARG with file and line
 */
ff_status ff_options_read_ini(ff_ctx *ctx, const ff_program *program, void *values, char *text, const char *path);
/** Write every option so that ff_options_read_ini gives the same values, by groups as headings. */
void ff_options_write_ini(const ff_program *program, const void *values, FILE *file);

/** Usage, the text about the program, and every option by group with type, range and default. */
void ff_options_print_help(const ff_program *program, FILE *file);

/** `NAME VERSION` on one line. */
void ff_options_print_version(const ff_program *program, FILE *file);

/**
 * Write the options that differ from their defaults as `name=value name=value`, for the first log line of a run.
 * @return the length of the whole text, as snprintf does; 0 when nothing differs.
 */
size_t ff_options_format_changed(const ff_program *program, const void *values, char *text, size_t size);

/** Read a size such as "20G" (K M G T, powers of 1024, "B" or "iB" may follow). False when it is none. */
bool ff_options_read_bytes(const char *text, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
