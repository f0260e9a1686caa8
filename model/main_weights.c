/* main_weights.c - fastfold-weights: look into files of weights, convert them, make random ones.
 *
 *     fastfold-weights inspect params_model_1_ptm.npz
 *     fastfold-weights convert finetuning_ptm_2.pt -o openfold_ptm_2.npz
 *     fastfold-weights init --preset tiny --seed 1 -o start.npz */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/options.h"
#include "io/hdf5_file.h"
#include "io/torch_file.h"
#include "model/checkpoint.h"
#include "model/initialise.h"
#include "model/model.h"
#include "model/weights_fit.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, SHAPE_BYTES = 128 };

typedef struct {
    const char *preset, *output;
    int64_t seed;
    bool overwrite, average, list, values;
} weights_options;

static const ff_option option_table[] = {
    {"preset", FF_OPTION_STRING, offsetof(weights_options, preset), NULL, NULL, "Model",
     "model_1 .. model_5, model_1_ptm .. model_5_ptm, small or tiny; convert and inspect find it by names and shapes"},
    {"seed", FF_OPTION_INT64, offsetof(weights_options, seed), "0", "0..", "Model", "of random weights"},
    {"output", FF_OPTION_STRING, offsetof(weights_options, output), NULL, NULL, "Files",
     "file to write, also -o: .npz as AlphaFold's, or .h5, our checkpoint"},
    {"overwrite", FF_OPTION_FLAG, offsetof(weights_options, overwrite), NULL, NULL, "Files",
     "replace the output file when it is there"},
    {"average", FF_OPTION_FLAG, offsetof(weights_options, average), "true", NULL, "Files",
     "of a checkpoint take the averaged weights; --no-average takes the last ones"},
    {"list", FF_OPTION_FLAG, offsetof(weights_options, list), "true", NULL, "Output",
     "inspect: one line for each array, with shape and name"},
    {"values", FF_OPTION_FLAG, offsetof(weights_options, values), NULL, NULL, "Output",
     "inspect: also mean, standard deviation, least and largest value of each array"},
    FF_OPTION_END};

static const ff_program program = {
    "fastfold-weights", "inspect FILE | convert FILE -o FILE | init --preset NAME --seed K -o FILE  [options]",
    "Looks into weights, converts between AlphaFold's .npz and our checkpoints (and from OpenFold's .pt), makes "
    "random\n"
    "weights to start training from. AlphaFold's weights are at https://storage.googleapis.com/alphafold/\n"
    "alphafold_params_2022-12-06.tar (licence CC BY 4.0).",
    option_table};

/* ---- what several commands need ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Before any work: a name that says the kind, and no file that would be lost. */
static ff_status check_output(ff_ctx *ctx, const weights_options *o)
{
    struct stat st;
    if (o->output == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "say where to write: -o FILE.npz or -o FILE.h5");
    if (!ends_with(o->output, ".npz") && !ends_with(o->output, ".h5"))
        return FF_FAIL(ctx, FF_ERR_ARG, "-o %s: the name should end in .npz or .h5", o->output);
    if (stat(o->output, &st) == 0 && !o->overwrite)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s is there already; --overwrite replaces it", o->output);
    return FF_OK;
}

static ff_status write_weights(ff_ctx *ctx, const ff_parameters *p, const char *path,
                               const ff_checkpoint_header *header)
{
    const ff_checkpoint_block block = {FF_CHECKPOINT_PARAMETERS, p->values, false, false};
    if (ends_with(path, ".npz"))
        return ff_weights_write_npz(ctx, p, path);
    return ff_checkpoint_write(ctx, path, header, p, &block, 1);
}

static ff_status read_weights(ff_ctx *ctx, ff_parameters *p, const char *path, const weights_options *o)
{
    return o->average ? ff_weights_read(ctx, p, path) : ff_weights_read_last(ctx, p, path);
}

static int64_t count_numbers(const ff_parameters *p)
{
    int64_t n = 0;
    for (int64_t k = 0; k < p->count; k++)
        n += p->items[k].size;
    return n;
}

static ff_status declare_preset(ff_ctx *ctx, ff_parameters *p, const char *preset)
{
    ff_model_config config;
    FF_TRY(ff_model_config_preset(ctx, &config, preset));
    return ff_model_declare(ctx, &config, p);
}

/* ---- inspect ---- */

static void print_values(const float *x, int64_t n)
{
    double sum = 0, squares = 0, least = INFINITY, largest = -INFINITY;
    int64_t odd = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            odd++;
            continue;
        }
        sum += x[i];
        squares += (double)x[i] * x[i];
        least = fmin(least, (double)x[i]);
        largest = fmax(largest, (double)x[i]);
    }
    const double count = (double)(n - odd), mean = count > 0 ? sum / count : NAN;
    const double variance = count > 0 ? squares / count - mean * mean : NAN;
    printf("  mean %11.4g  std %10.4g  least %11.4g  largest %11.4g", mean, sqrt(variance > 0 ? variance : 0), least,
           largest);
    if (odd > 0)
        printf("  %" PRId64 " not finite", odd);
}

static void print_array(const char *name, int ndim, const int64_t *shape, int64_t size, const float *values)
{
    char text[SHAPE_BYTES];
    ff_weights_format_shape(text, sizeof text, ndim, shape);
    printf("%-20s %10" PRId64, text, size);
    if (values != NULL)
        print_values(values, size);
    printf("  %s\n", name);
}

static ff_status print_group(ff_ctx *ctx, void *arg, const char *name)
{
    (void)ctx;
    (void)arg;
    if (strcmp(name, "numbers") != 0)
        printf(" %s", name);
    return FF_OK;
}

static ff_status print_header(ff_ctx *ctx, const char *path)
{
    ff_checkpoint_header header;
    ff_hdf5_file *file;
    FF_TRY(ff_checkpoint_read_header(ctx, path, &header));
    FF_TRY(ff_hdf5_open(ctx, &file, path));
    printf("checkpoint  preset %s, step %" PRId64 "\nblocks     ", header.preset[0] == '\0' ? "unknown" : header.preset,
           header.step);
    const ff_status status = ff_hdf5_each_group(ctx, file, "/", print_group, NULL);
    ff_hdf5_close(file);
    printf("\n");
    for (int i = 0; i < header.num_numbers; i++)
        printf("number      %s = %.17g\n", header.numbers[i].name, header.numbers[i].value);
    return status;
}

static ff_status print_fit(ff_ctx *ctx, const weights_options *o, const char *path, int64_t count, int64_t numbers)
{
    ff_weights_fit fit;
    char text[512];
    FF_TRY(ff_weights_find_fit(ctx, path, &fit));
    ff_weights_format_fit(&fit, text, sizeof text);
    printf("arrays      %" PRId64 ", %" PRId64 " numbers, %.1f MB as float32\npreset      %s\n", count, numbers,
           (double)numbers * 4e-6, text);
    if (o->preset == NULL)
        return FF_OK;
    ff_weights_match match;
    FF_TRY(ff_weights_match_preset(ctx, path, o->preset, &match));
    if (match.missing + match.misshapen == 0)
        return FF_OK;
    return FF_FAIL(ctx, FF_ERR_FORMAT,
                   "%s does not fit preset %s: %" PRId64 " arrays missing, %" PRId64
                   " of another shape, first %s; it fits %s",
                   path, o->preset, match.missing, match.misshapen, match.first, text);
}

/* The tensors of a .pt, as they are there. */
static ff_status inspect_torch(ff_ctx *ctx, const weights_options *o, const char *path)
{
    ff_status status = FF_OK;
    ff_torch_file *file;
    int64_t numbers = 0;
    float *values = NULL;
    FF_TRY(ff_torch_open(ctx, &file, path));
    for (int64_t i = 0; i < ff_torch_count(file); i++)
        numbers += ff_torch_get(file, i)->size;
    printf("file        %s (.pt)\n", path);
    status = print_fit(ctx, o, path, ff_torch_count(file), numbers);
    for (int64_t i = 0; status == FF_OK && o->list && i < ff_torch_count(file); i++) {
        const ff_torch_tensor *t = ff_torch_get(file, i);
        if (o->values) {
            float *grown = realloc(values, (size_t)(t->size + 1) * sizeof *values);
            if (grown == NULL)
                status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for tensor %s", t->path);
            else
                status = ff_torch_read_float(ctx, file, i, values = grown, t->size);
        }
        if (status == FF_OK)
            print_array(t->path, t->ndim, t->shape, t->size, values);
    }
    free(values);
    ff_torch_close(file);
    return status;
}

static ff_status inspect_arrays(ff_ctx *ctx, const weights_options *o, const char *path, ff_weights_kind kind)
{
    ff_status status = FF_OK;
    ff_parameters p;
    ff_parameters_init(&p);
    FF_TRY_DONE(ff_weights_declare_as_in_file(ctx, &p, path));
    printf("file        %s (%s)\n", path, kind == FF_WEIGHTS_NPZ ? ".npz" : ".h5");
    if (kind == FF_WEIGHTS_CHECKPOINT)
        FF_TRY_DONE(print_header(ctx, path));
    FF_TRY_DONE(print_fit(ctx, o, path, p.count, count_numbers(&p)));
    if (o->values) {
        FF_TRY_DONE(ff_parameters_allocate(ctx, &p, false));
        FF_TRY_DONE(read_weights(ctx, &p, path, o));
    }
    for (int64_t k = 0; o->list && k < p.count; k++) {
        const ff_parameter *item = &p.items[k];
        print_array(item->name, item->ndim, item->shape, item->size, o->values ? p.values + item->offset : NULL);
    }
done:
    ff_parameters_destroy(&p);
    return status;
}

static ff_status inspect(ff_ctx *ctx, const weights_options *o, const char *path)
{
    ff_weights_kind kind;
    ff_model_config config;
    if (o->preset != NULL)
        FF_TRY(ff_model_config_preset(ctx, &config, o->preset));
    FF_TRY(ff_weights_get_kind(ctx, path, &kind));
    return kind == FF_WEIGHTS_TORCH ? inspect_torch(ctx, o, path) : inspect_arrays(ctx, o, path, kind);
}

/* ---- convert ---- */

/* The preset asked for, or the one the file is of; "" for a .npz or checkpoint that is of none. */
static ff_status choose_preset(ff_ctx *ctx, const weights_options *o, const char *path, ff_weights_kind kind,
                               ff_checkpoint_header *header)
{
    if (kind == FF_WEIGHTS_CHECKPOINT)
        FF_TRY(ff_checkpoint_read_header(ctx, path, header));
    if (o->preset != NULL) {
        snprintf(header->preset, sizeof header->preset, "%s", o->preset);
        return FF_OK;
    }
    const ff_status status = ff_weights_find_preset(ctx, path, header->preset);
    if (status == FF_ERR_FORMAT && kind != FF_WEIGHTS_TORCH && header->preset[0] == '\0') {
        ff_context_clear(ctx); /* converted all the same, by what is there */
        return FF_OK;
    }
    return status;
}

static ff_status convert(ff_ctx *ctx, const weights_options *o, const char *path)
{
    ff_status status = FF_OK;
    ff_weights_kind kind;
    ff_checkpoint_header header = {.step = 0};
    ff_parameters p;
    ff_parameters_init(&p);
    FF_TRY_DONE(check_output(ctx, o));
    FF_TRY_DONE(ff_weights_get_kind(ctx, path, &kind));
    FF_TRY_DONE(choose_preset(ctx, o, path, kind, &header));
    if (o->preset != NULL || kind == FF_WEIGHTS_TORCH)
        FF_TRY_DONE(declare_preset(ctx, &p, header.preset));
    else /* everything that is there, of whatever model */
        FF_TRY_DONE(ff_weights_declare_as_in_file(ctx, &p, path));
    FF_TRY_DONE(ff_parameters_allocate(ctx, &p, false));
    FF_TRY_DONE(read_weights(ctx, &p, path, o));
    FF_TRY_DONE(write_weights(ctx, &p, o->output, &header));
    printf("%s: %" PRId64 " arrays, %" PRId64 " numbers, preset %s\n", o->output, p.count, count_numbers(&p),
           header.preset[0] == '\0' ? "unknown" : header.preset);
done:
    ff_parameters_destroy(&p);
    return status;
}

/* ---- init ---- */

static ff_status init(ff_ctx *ctx, const weights_options *o)
{
    ff_status status = FF_OK;
    ff_checkpoint_header header = {.step = 0};
    ff_parameters p;
    ff_parameters_init(&p);
    if (o->preset == NULL) {
        status = FF_FAIL(ctx, FF_ERR_ARG, "say which model: --preset NAME");
        goto done;
    }
    FF_TRY_DONE(check_output(ctx, o));
    FF_TRY_DONE(declare_preset(ctx, &p, o->preset));
    FF_TRY_DONE(ff_parameters_allocate(ctx, &p, false));
    FF_TRY_DONE(ff_model_initialise(ctx, &p, (uint64_t)o->seed));
    snprintf(header.preset, sizeof header.preset, "%s", o->preset);
    FF_TRY_DONE(write_weights(ctx, &p, o->output, &header));
    printf("%s: %" PRId64 " arrays, %" PRId64 " numbers, preset %s, seed %" PRId64 "\n", o->output, p.count,
           count_numbers(&p), o->preset, o->seed);
done:
    ff_parameters_destroy(&p);
    return status;
}

/* ---- the program ---- */

static int run(ff_ctx *ctx, const weights_options *o, const ff_arguments *args)
{
    const char *command = args->num_positional > 0 ? args->positional[0] : "";
    const bool is_init = strcmp(command, "init") == 0, is_convert = strcmp(command, "convert") == 0;
    const bool known = is_init || is_convert || strcmp(command, "inspect") == 0;
    if (*command == '\0')
        FF_FAIL(ctx, FF_ERR_ARG, "say what to do: inspect FILE, convert FILE -o FILE, or init --preset NAME -o FILE");
    else if (!known)
        FF_FAIL(ctx, FF_ERR_ARG, "unknown command \"%s\"; there are inspect, convert and init", command);
    else if (is_init && args->num_positional != 1)
        FF_FAIL(ctx, FF_ERR_ARG, "init takes no file besides -o FILE, not %s", args->positional[1]);
    else if (!is_init && args->num_positional != 2)
        FF_FAIL(ctx, FF_ERR_ARG, "%s takes one file, %d were given", command, args->num_positional - 1);
    if (ctx->status != FF_OK)
        return EXIT_USAGE;
    const ff_status status = is_init      ? init(ctx, o)
                             : is_convert ? convert(ctx, o, args->positional[1])
                                          : inspect(ctx, o, args->positional[1]);
    return status == FF_OK ? EXIT_DONE : status == FF_ERR_ARG ? EXIT_USAGE : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    static char output[] = "--output";
    ff_ctx ctx;
    weights_options o;
    ff_arguments args;
    ff_context_init(&ctx);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-o") == 0) /* the one short option, for habit's sake */
            argv[i] = output;
    int exit_status = EXIT_USAGE;
    if (ff_options_parse(&ctx, &program, &o, argc, argv, &args) == FF_OK) {
        if (args.help || args.version) {
            (args.help ? ff_options_print_help : ff_options_print_version)(&program, stdout);
            return EXIT_DONE;
        }
        exit_status = run(&ctx, &o, &args);
    }
    if (ctx.status != FF_OK)
        fprintf(stderr, "%s: %s\n", program.name, ctx.message);
    if (exit_status == EXIT_DONE && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "%s: cannot write to standard output\n", program.name);
        exit_status = EXIT_FAILED;
    }
    return exit_status;
}
