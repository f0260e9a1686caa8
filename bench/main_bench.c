/* main_bench.c - fastfold-bench: how fast kernels, modules and whole blocks run here, and how near to the machine's peaks.
 *
 *     fastfold-bench                        the Evoformer block, each pass
 *     fastfold-bench list                   what can be measured
 *     fastfold-bench simulate --help        a training step or a prediction on a described cluster
 *     fastfold-bench dap --help             exchanges between ranks: bytes, exposed and hidden time
 *     fastfold-bench modules kernels        all of it
 *     fastfold-bench data                   readers, features, the loader
 *     fastfold-bench train                  the optimiser, losses, training steps
 *     fastfold-bench evoformer_block triangle_attention_starting_node --pass inference --num-res 512 --json */
#include <stdio.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench/bench.h"
#include "bench/bench_dap.h"
#include "bench/cases.h"
#include "bench/simulate.h"
#include "core/options.h"
#include "core/version.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

/* ---- options ---- */

typedef struct {
    int64_t num_seq, num_res, num_extra, num_templ, blocks, dap, threads, repeat;
    int64_t num_chains, num_samples, num_steps;
    const char *a3m, *data_dir, *dataset, *presets;
    int pass, dtype, backend, isa, keep;
    bool checkpoint, plan, quick, json;
} bench_options;

enum { PASS_EACH = BENCH_BOTH + 1, KEEP_INPUTS = 0 };

static const ff_option option_table[] = {
    {"num-seq", FF_OPTION_INT64, offsetof(bench_options, num_seq), "128", "1..", "Sizes", "MSA rows S"},
    {"num-res", FF_OPTION_INT64, offsetof(bench_options, num_res), "256", "1..", "Sizes", "residues R"},
    {"num-extra", FF_OPTION_INT64, offsetof(bench_options, num_extra), "1024", "1..", "Sizes", "extra MSA rows E"},
    {"num-templ", FF_OPTION_INT64, offsetof(bench_options, num_templ), "4", "1..", "Sizes", "templates T"},
    {"blocks", FF_OPTION_INT64, offsetof(bench_options, blocks), "0", "0..", "Sizes",
     "blocks of a stack or model; 0 = 8 of a stack, all of a model"},
    {"dap", FF_OPTION_INT64, offsetof(bench_options, dap), "1", "1..4096", "Sizes",
     "with --plan: what one of so many ranks does and sends"},
    {"pass", FF_OPTION_ENUM, offsetof(bench_options, pass), "each", "inference|forward|backward|both|each", "What",
     "inference: no tape, in place; forward: with tape; backward: without its forward; both: forward and backward"},
    {"keep", FF_OPTION_ENUM, offsetof(bench_options, keep), "all", "inputs|all", "What",
     "what tape nodes keep for the backward pass; what they do not keep is computed again"},
    {"checkpoint", FF_OPTION_FLAG, offsetof(bench_options, checkpoint), NULL, NULL, "What",
     "stacks keep the inputs of their blocks only"},
    {"repeat", FF_OPTION_INT64, offsetof(bench_options, repeat), "5", "1..1000", "What",
     "timed runs; median and least are reported"},
    {"quick", FF_OPTION_FLAG, offsetof(bench_options, quick), NULL, NULL, "What",
     "do not measure the machine's own peaks"},
    {"plan", FF_OPTION_FLAG, offsetof(bench_options, plan), NULL, NULL, "What",
     "compute nothing: print FLOP, bytes and peak memory of each operation"},
    {"a3m", FF_OPTION_STRING, offsetof(bench_options, a3m), NULL, NULL, "Of data and train",
     "alignment to read (default: one of 10,000 x 500 is made)"},
    {"data-dir", FF_OPTION_STRING, offsetof(bench_options, data_dir), NULL, NULL, "Of data and train",
     "folder of mmCIF files to read (default: none)"},
    {"dataset", FF_OPTION_STRING, offsetof(bench_options, dataset), NULL, NULL, "Of data and train",
     "training set to load (default: one is made)"},
    {"num-chains", FF_OPTION_INT64, offsetof(bench_options, num_chains), "1000", "1..", "Of data and train",
     "chains of the training set that is made"},
    {"num-samples", FF_OPTION_INT64, offsetof(bench_options, num_samples), "0", "0..", "Of data and train",
     "samples loaded; 0 = as many as chains"},
    {"num-steps", FF_OPTION_INT64, offsetof(bench_options, num_steps), "10", "1..", "Of data and train",
     "training steps timed"},
    {"presets", FF_OPTION_STRING, offsetof(bench_options, presets), "tiny,small", NULL, "Of data and train",
     "whose steps are timed: of tiny, small, initial, finetune"},
    {"dtype", FF_OPTION_ENUM, offsetof(bench_options, dtype), "f32", "f32|bf16", "Machine",
     "type of matrix-product operands"},
    {"backend", FF_OPTION_ENUM, offsetof(bench_options, backend), "cpu", "cpu|emulated|cuda", "Machine", "kernel table"},
    {"isa", FF_OPTION_ENUM, offsetof(bench_options, isa), "best", "best|plain|avx2|avx512|avx512_bf16|amx", "Machine",
     "instruction set of the cpu backend and of its GEMM library"},
    {"threads", FF_OPTION_INT64, offsetof(bench_options, threads), "0", "0..4096", "Machine",
     "OpenMP threads, 0 = as the environment says"},
    {"json", FF_OPTION_FLAG, offsetof(bench_options, json), NULL, NULL, "Output", "one JSON object a line"},
    FF_OPTION_END};

static const ff_program program = {
    "fastfold-bench", "[list | data | train | simulate | OP...] [options]",
    "Measures kernels, modules, blocks and stacks of the Evoformer, and this machine's GEMM and memory peaks in between.\n"
    "Without OP: evoformer_block. `kernels`, `modules` and `models` stand for all of them. `data` measures readers,\n"
    "features and the loader, `train` the optimiser, the losses and whole training steps.\n"
    "`dap --help` tells about exchanges between ranks, `simulate --help` about steps on clusters that are not at hand.",
    option_table};

/* GEMM runs that differ by more than this say that the machine is busy: fractions of the peak are then worth little. */
static const double NOISY_SPREAD = 1.25;

static const char *const pass_names[] = {"inference", "forward", "backward", "both"};

/* ---- finding operations ---- */

typedef struct {
    const char *name; /* stands for all of them on the command line */
    const bench_op *ops;
    const int *count;
} op_group;

static const op_group groups[] = {{"modules", bench_module_ops, &bench_num_module_ops},
                                  {"models", bench_model_ops, &bench_num_model_ops},
                                  {"kernels", bench_primitive_ops, &bench_num_primitive_ops},
                                  {"kernels", bench_attention_ops, &bench_num_attention_ops},
                                  {"kernels", bench_update_ops, &bench_num_update_ops}};
enum { NUM_GROUPS = sizeof groups / sizeof *groups };

/* Whether `op` of `group` is meant by a word of the command line. */
static bool is_meant(const op_group *group, const bench_op *op, const char *word)
{
    return strcmp(word, op->name) == 0 || strcmp(word, group->name) == 0;
}

static bool is_known(const char *word)
{
    for (int g = 0; g < NUM_GROUPS; g++)
        for (int i = 0; i < *groups[g].count; i++)
            if (is_meant(&groups[g], &groups[g].ops[i], word))
                return true;
    return false;
}

static void print_list(void)
{
    for (int g = 0; g < NUM_GROUPS; g++) {
        if (g == 0 || strcmp(groups[g].name, groups[g - 1].name) != 0)
            printf("%s\n", groups[g].name);
        for (int i = 0; i < *groups[g].count; i++)
            printf("  %-36s %s\n", groups[g].ops[i].name, groups[g].ops[i].about);
    }
}

/* ---- results ---- */

static const char *dtype_name(ff_dtype dtype) { return dtype == FF_DTYPE_BF16 ? "bf16" : "f32"; }

static void print_json(const bench_run *run, const bench_result *r)
{
    const double gflops = r->flop / r->seconds_median * 1e-9;
    printf("{\"op\": \"%s\", \"pass\": \"%s\", \"num_seq\": %lld, \"num_res\": %lld, \"num_extra\": %lld, "
           "\"num_templ\": %lld, \"blocks\": %lld, ",
           run->op->name, pass_names[run->pass], (long long)run->sizes.num_seq, (long long)run->sizes.num_res,
           (long long)run->sizes.num_extra, (long long)run->sizes.num_templ, (long long)run->sizes.blocks);
    printf("\"dtype\": \"%s\", \"backend\": \"%s\", \"isa\": \"%s\", \"threads\": %d, \"keep\": \"%s\", "
           "\"checkpoint\": %s, ",
           dtype_name(run->k->dtype), run->k->name, ff_isa_name(run->k->isa), bench_num_threads(),
           run->sizes.keep_inputs ? "inputs" : "all", run->sizes.checkpoint ? "true" : "false");
    printf("\"seconds_median\": %.6g, \"seconds_min\": %.6g, \"flop\": %.6g, \"gflops\": %.5g, "
           "\"gemm_peak_gflops\": %.5g, \"gemm_peak_spread\": %.4g, \"fraction_of_peak\": %.4g, ",
           r->seconds_median, r->seconds_min, r->flop, gflops, r->gemm_peak_gflops,
           r->gemm_peak_spread, r->gemm_peak_gflops > 0 ? gflops / r->gemm_peak_gflops : 0);
    printf("\"gbytes_per_second\": %.5g, \"memory_bandwidth\": %.5g, \"minimal_bytes\": %.6g, \"peak_bytes\": %zu, "
           "\"predicted_peak_bytes\": %zu, \"predicted_flop\": %.6g, \"peak_resident_bytes\": %zu}\n",
           r->minimal_bytes / r->seconds_median * 1e-9, r->memory_bandwidth, r->minimal_bytes, r->peak_bytes,
           r->predicted_peak_bytes, r->predicted_flop, r->peak_resident_bytes);
}

static void print_table_head(const bench_run *run)
{
    printf("fastfold-bench %s: backend %s, isa %s, dtype %s, %d threads; S %lld, R %lld, E %lld\n", FF_VERSION,
           run->k->name, ff_isa_name(run->k->isa), dtype_name(run->k->dtype), bench_num_threads(),
           (long long)run->sizes.num_seq, (long long)run->sizes.num_res, (long long)run->sizes.num_extra);
    printf("%-36s %-9s %10s %10s %9s %6s %8s %6s %9s %9s\n", "operation", "pass", "median s", "least s", "GFLOP/s",
           "peak", "GB/s", "copy", "peak MB", "resident");
}

/* `peak` and `copy`: fractions of the GEMM peak and of the copy bandwidth. */
static void print_row(const bench_run *run, const bench_result *r)
{
    const double gflops = r->flop / r->seconds_median * 1e-9, gbytes = r->minimal_bytes / r->seconds_median * 1e-9;
    printf("%-36s %-9s %10.5f %10.5f ", run->op->name, pass_names[run->pass], r->seconds_median, r->seconds_min);
    if (r->flop > 0 && r->gemm_peak_gflops > 0)
        printf("%9.1f %5.1f%% ", gflops, 100 * gflops / r->gemm_peak_gflops);
    else
        printf("%9s %6s ", "-", "-");
    printf("%8.1f ", gbytes);
    if (r->memory_bandwidth > 0)
        printf("%5.1f%% ", 100 * gbytes / r->memory_bandwidth);
    else
        printf("%6s ", "-");
    printf("%9.1f %9.1f%s\n", (double)r->peak_bytes * 1e-6, (double)r->peak_resident_bytes * 1e-6,
           r->gemm_peak_spread > NOISY_SPREAD ? "  noisy" : "");
}

/* ---- running ---- */

static bool has_backward(const bench_op *op) { return op->backward != NULL; }

static int64_t num_blocks(const bench_options *o, const bench_op *op)
{
    const bool model = op >= bench_model_ops && op < bench_model_ops + bench_num_model_ops;
    return o->blocks > 0 || model ? o->blocks : 8;
}

static ff_status run_pass(ff_ctx *ctx, const bench_options *o, const bench_op *op, bench_pass pass)
{
    bench_run run = {.ctx = ctx, .k = ctx->kernels, .op = op, .pass = pass,
                     .sizes = {.num_seq = o->num_seq, .num_res = o->num_res, .num_extra = o->num_extra,
                               .num_templ = o->num_templ, .blocks = num_blocks(o, op), .keep_inputs = o->keep == KEEP_INPUTS,
                               .checkpoint = o->checkpoint, .dap_size = (int)o->dap}};
    if (o->dap > 1 && !(o->plan && op >= bench_model_ops && op < bench_model_ops + bench_num_model_ops))
        return FF_FAIL(ctx, FF_ERR_ARG, "--dap is for the plan of a model: add --plan to model, model_small or model_tiny");
    if (o->plan) {
        if (!o->json)
            printf("%s, %s: S %lld, R %lld, E %lld\n", op->name, pass_names[pass], (long long)o->num_seq,
                   (long long)o->num_res, (long long)o->num_extra);
        return bench_plan(&run, o->json);
    }
    bench_result result;
    FF_TRY(bench_measure(&run, o->repeat, o->quick, &result));
    if (o->json)
        print_json(&run, &result);
    else
        print_row(&run, &result);
    fflush(stdout);
    return FF_OK;
}

/* Each pass that the operation has, or the one asked for. */
static ff_status run_op(ff_ctx *ctx, const bench_options *o, const bench_op *op)
{
    for (int pass = BENCH_INFERENCE; pass <= BENCH_BOTH; pass++) {
        const bool backward = pass == BENCH_BACKWARD || pass == BENCH_BOTH;
        if (o->pass == PASS_EACH ? backward && !has_backward(op) : pass != o->pass)
            continue;
        if (o->pass == PASS_EACH && o->plan && (pass == BENCH_FORWARD || pass == BENCH_BACKWARD))
            continue; /* part of the plan of both */
        if (backward && !has_backward(op))
            return FF_FAIL(ctx, FF_ERR_ARG, "%s has no backward", op->name);
        FF_TRY(run_pass(ctx, o, op, (bench_pass)pass));
    }
    return FF_OK;
}

static ff_status set_up(ff_ctx *ctx, const bench_options *o)
{
#ifdef _OPENMP
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
#endif
    FF_TRY(ff_kernels_get(ctx, &ctx->kernels, (ff_backend)o->backend, (ff_isa)(o->isa - 1), (ff_dtype)o->dtype));
    return ff_pool_create(ctx, 0, false);
}

static ff_status run_all(ff_ctx *ctx, const bench_options *o, char **words, int count)
{
    static char *const usual[] = {(char *)"evoformer_block"};
    if (count == 0) {
        words = (char **)usual;
        count = 1;
    }
    if (!o->json && !o->plan)
        print_table_head(&(bench_run){.k = ctx->kernels, .sizes = {.num_seq = o->num_seq, .num_res = o->num_res,
                                                                   .num_extra = o->num_extra}});
    for (int w = 0; w < count; w++)
        for (int g = 0; g < NUM_GROUPS; g++)
            for (int i = 0; i < *groups[g].count; i++)
                if (is_meant(&groups[g], &groups[g].ops[i], words[w]))
                    FF_TRY(run_op(ctx, o, &groups[g].ops[i]));
    return FF_OK;
}

/* The commands `data` and `train`. */
typedef ff_status (*case_command)(const bench_cases *cases);

static case_command find_command(const ff_arguments *args)
{
    if (args->num_positional != 1)
        return NULL;
    return strcmp(args->positional[0], "data") == 0    ? bench_data
           : strcmp(args->positional[0], "train") == 0 ? bench_train
                                                       : NULL;
}

static ff_status run_cases(ff_ctx *ctx, const bench_options *o, case_command command)
{
    const bench_cases cases = {.ctx = ctx, .command = command == bench_data ? "data" : "train", .repeat = o->repeat,
                               .json = o->json, .quick = o->quick, .a3m = o->a3m, .data_dir = o->data_dir,
                               .dataset = o->dataset, .num_chains = o->num_chains, .num_samples = o->num_samples,
                               .num_steps = o->num_steps, .num_seq = o->num_seq, .num_res = o->num_res,
                               .blocks = o->blocks, .presets = o->presets};
    return command(&cases);
}

int main(int argc, char **argv)
{
    ff_ctx ctx;
    bench_options o;
    ff_arguments args;
    ff_context_init(&ctx);
    if (argc > 1 && strcmp(argv[1], "simulate") == 0)
        return bench_simulate(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "dap") == 0)
        return bench_dap(argc - 1, argv + 1);
    if (ff_options_parse(&ctx, &program, &o, argc, argv, &args) != FF_OK) {
        fprintf(stderr, "%s: %s\n", program.name, ctx.message);
        return 2;
    }
    if (args.help || args.version) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&program, stdout);
        return 0;
    }
    if (args.num_positional == 1 && strcmp(args.positional[0], "list") == 0) {
        print_list();
        return 0;
    }
    const case_command command = find_command(&args);
    for (int i = 0; command == NULL && i < args.num_positional; i++)
        if (!is_known(args.positional[i])) {
            fprintf(stderr, "%s: no operation %s; `%s list` names them\n", program.name, args.positional[i],
                    program.name);
            return 2;
        }
    ff_status status = set_up(&ctx, &o);
    if (status == FF_OK)
        status = command != NULL ? run_cases(&ctx, &o, command)
                                 : run_all(&ctx, &o, args.positional, args.num_positional);
    if (status != FF_OK)
        fprintf(stderr, "%s: %s\n", program.name, ctx.message);
    ff_tape_destroy(&ctx);
    if (ctx.pool != NULL && ff_pool_get_stats(ctx.pool).in_use == 0) /* a failed run may have left some */
        ff_pool_destroy(&ctx);
    return status == FF_OK ? 0 : status == FF_ERR_ARG ? 2 : 1;
}
