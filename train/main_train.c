/* main_train.c - fastfold-train: chains with known structures to weights.
 *
 *     fastfold-train --data chains.h5 --validation held_out.h5 --output-dir run
 *     fastfold-train --overfit 1a8o.cif:A --output-dir run
 *     fastfold-train --preset initial --plan --max-memory 20G */
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/pool.h"
#include "train/training_run.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* The signal handler can reach nothing else. */
static volatile sig_atomic_t told_to_end;

static void on_signal(int number) { told_to_end = number; }

static bool is_told_to_end(void *arg)
{
    (void)arg;
    return told_to_end != 0;
}

/* A second SIGINT or SIGTERM ends the program at once. */
static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = numbers[i] == SIGUSR1 ? 0 : (int)SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], &action, NULL);
    }
}

static ff_status check_usage(ff_ctx *ctx, const ff_train_options *o, const ff_arguments *args)
{
    if (args->num_positional > 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "unexpected argument %s; see --help", args->positional[0]);
    if (o->plan)
        return FF_OK;
    if (o->data == NULL && o->overfit == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "--data FILE is missing: what to train on (fastfold-data chains makes it)");
    if (o->output_dir == NULL || *o->output_dir == '\0')
        return FF_FAIL(ctx, FF_ERR_ARG, "--output-dir RUN is missing: where checkpoints and metrics go");
    return FF_OK;
}

/* The arguments as one text. */
static char *join(int argc, char **argv)
{
    size_t length = 1;
    for (int i = 0; i < argc; i++)
        length += strlen(argv[i]) + 1;
    char *text = calloc(length, 1), *at = text;
    for (int i = 0; text != NULL && i < argc; i++)
        at += sprintf(at, "%s%s", i > 0 ? " " : "", argv[i]);
    return text;
}

static ff_status run(ff_ctx *ctx, ff_train_options *o, const char *command)
{
    ff_train_settings settings;
    char changed[FF_MESSAGE_BYTES];
    FF_TRY(ff_train_resolve(ctx, o, &settings));
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
    else
        o->threads = omp_get_max_threads();
    FF_TRY(ff_kernels_get(ctx, &ctx->kernels, FF_BACKEND_CPU, FF_ISA_NONE, (ff_dtype)o->dtype));
    FF_TRY(ff_pool_create(ctx, 0, false));
    ff_options_format_changed(&ff_train_program, o, changed, sizeof changed);
    if (!o->plan)
        FF_INFO(ctx, "fastfold-train isa=%s %s", ff_isa_name(ff_isa_best()), changed);
    const ff_status status = ff_training_run(ctx, o, &settings, command, is_told_to_end, NULL);
    ff_pool_destroy(ctx);
    return status;
}

int main(int argc, char **argv)
{
    ff_ctx ctx;
    ff_train_options o;
    ff_train_texts texts = {{NULL}};
    ff_arguments args;
    ff_context_init(&ctx);
    watch_signals();
    char *command = join(argc, argv);
    ff_status status = ff_train_options_read(&ctx, &o, &texts, argc, argv, &args);
    if (status == FF_OK && (args.help || args.version))
        (args.help ? ff_options_print_help : ff_options_print_version)(&ff_train_program, stdout);
    else if (status == FF_OK && (status = check_usage(&ctx, &o, &args)) == FF_OK)
        status = run(&ctx, &o, command);
    if (status != FF_OK)
        fprintf(stderr, "%s: %s\n", ff_train_program.name, ctx.message);
    ff_train_texts_free(&texts);
    free(command);
    return status == FF_OK ? EXIT_DONE : status == FF_ERR_ARG ? EXIT_USAGE : EXIT_FAILED;
}
