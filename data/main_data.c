/* main_data.c - fastfold-data: everything from sequences, alignments and structures to HDF5, as sub-commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "data/command.h"

static const ff_command *const commands[] = {
    &ff_command_parse,
    &ff_command_inspect,
    &ff_command_features,
    &ff_command_process,
    &ff_command_chains,
    &ff_command_merge,
    &ff_command_check,
};
enum { NUM_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *file)
{
    fputs("Usage: fastfold-data COMMAND [options] ...\n\n"
          "Reads sequences, alignments, template hits and structures, and makes features and data sets of them.\n\n"
          "Commands:\n", file);
    for (int i = 0; i < NUM_COMMANDS; i++)
        fprintf(file, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`fastfold-data COMMAND --help` explains one. Exit status: 0 done, 1 failed, 2 wrong usage.\n", file);
}

static const ff_command *find_command(const char *name)
{
    for (int i = 0; i < NUM_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/* One line on stderr, whatever a message holds. */
static void print_message(const char *name, const char *message)
{
    fprintf(stderr, "%s: ", name);
    for (const char *p = message; *p != '\0'; p++)
        fputc(*p == '\n' ? ' ' : *p, stderr);
    fputc('\n', stderr);
}

static int run_command(ff_ctx *ctx, const ff_command *command, int argc, char **argv)
{
    const ff_program *program = &command->program;
    ff_arguments args;
    void *options = calloc(1, command->options_bytes + 1);
    int exit_status = FF_EXIT_USAGE;
    if (options == NULL) {
        fprintf(stderr, "%s: out of memory\n", program->name);
        return FF_EXIT_FAILED;
    }
    if (ff_options_parse(ctx, program, options, argc, argv, &args) != FF_OK)
        goto done;
    exit_status = FF_EXIT_DONE;
    if (args.help || args.version) {
        (args.help ? ff_options_print_help : ff_options_print_version)(program, stdout);
        goto done;
    }
    exit_status = command->run(ctx, options, &args);
done:
    if (ctx->status != FF_OK)
        print_message(program->name, ctx->message);
    if (exit_status == FF_EXIT_DONE && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "%s: cannot write to standard output\n", program->name);
        exit_status = FF_EXIT_FAILED;
    }
    free(options);
    return exit_status;
}

int main(int argc, char **argv)
{
    ff_ctx ctx;
    ff_context_init(&ctx);
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "--help") == 0 || strcmp(first, "help") == 0) {
        print_help(stdout);
        return FF_EXIT_DONE;
    }
    if (strcmp(first, "--version") == 0) {
        puts("fastfold-data " FF_VERSION);
        return FF_EXIT_DONE;
    }
    const ff_command *command = find_command(first);
    if (command == NULL) {
        if (*first == '\0')
            print_help(stderr);
        else
            fprintf(stderr, "fastfold-data: unknown command \"%s\"; --help lists them all\n", first);
        return FF_EXIT_USAGE;
    }
    return run_command(&ctx, command, argc - 1, argv + 1);
}
