/* simulate_command.c - fastfold-bench simulate: options, recording, the table.
 *
 *     fastfold-bench simulate --cluster jobs/clusters/a100x512.ini --num-seq 512 --num-res 384 --num-extra 5120 \
 *         --dap 4 --data-parallel 128 --dtype bf16 --checkpoint --recycles 1.5
 *     mpirun -np 2 fastfold-bench simulate --calibrate --dap 2 --preset tiny --write here.ini */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/simulate_command.h"
#include "core/options.h"
#include "dap/dap.h"
#include "io/safe_file.h"

enum { EACH_SCHEDULE = SIM_OURS + 1, PASS_TRAINING = 1 };

static const ff_option simulate_table[] = {
    {"cluster", FF_OPTION_STRING, offsetof(simulate_options, cluster), NULL, NULL, "Cluster", "file that describes it"},
    {"single-step", FF_OPTION_DOUBLE, offsetof(simulate_options, single_step), "0", "0..", "Cluster",
     "fit the file's `scale` so that one rank takes so many seconds for this step; 0 = take the file's"},
    {"calibrate", FF_OPTION_FLAG, offsetof(simulate_options, calibrate), NULL, NULL, "Cluster",
     "measure this machine instead: a step on one rank and a ping-pong; then the step itself, beside what is predicted"},
    {"threads", FF_OPTION_INT64, offsetof(simulate_options, threads), "1", "1..4096", "Cluster", "of a process measured"},
    {"repeat", FF_OPTION_INT64, offsetof(simulate_options, repeat), "9", "1..1000", "Cluster", "steps measured"},
    {"write", FF_OPTION_STRING, offsetof(simulate_options, write), NULL, NULL, "Cluster", "write the cluster so fitted or measured"},
    {"dap", FF_OPTION_INT64, offsetof(simulate_options, dap), "1", "1..4096", "Cluster", "ranks a model"},
    {"data-parallel", FF_OPTION_INT64, offsetof(simulate_options, data), "1", "1..1048576", "Cluster", "models, a sample each"},
    {"preset", FF_OPTION_ENUM, offsetof(simulate_options, preset), "model_1_ptm", "model_1_ptm|small|tiny", "Model",
     "without templates"},
    {"num-seq", FF_OPTION_INT64, offsetof(simulate_options, num_seq), "128", "1..", "Model", "MSA rows"},
    {"num-res", FF_OPTION_INT64, offsetof(simulate_options, num_res), "256", "1..", "Model", "residues"},
    {"num-extra", FF_OPTION_INT64, offsetof(simulate_options, num_extra), "1024", "1..", "Model", "extra MSA rows"},
    {"blocks", FF_OPTION_INT64, offsetof(simulate_options, blocks), "0", "0..", "Model", "Evoformer blocks, 0 = all"},
    {"pass", FF_OPTION_ENUM, offsetof(simulate_options, pass), "both", "inference|both", "Step",
     "inference, or forward and backward with the reduction of gradients"},
    {"checkpoint", FF_OPTION_FLAG, offsetof(simulate_options, checkpoint), NULL, NULL, "Step",
     "keep the inputs of blocks only, compute the rest again"},
    {"recycles", FF_OPTION_DOUBLE, offsetof(simulate_options, recycles), "0", "0..", "Step",
     "mean number of forward passes before the one that counts; training draws 0 to 3, 1.5 in the mean"},
    {"dtype", FF_OPTION_ENUM, offsetof(simulate_options, dtype), "f32", "f32|bf16", "Step",
     "of matrix operands, activations and what is sent"},
    {"schedule", FF_OPTION_ENUM, offsetof(simulate_options, schedule), "each", "blocking|fastfold|ours|each", "Step",
     "when exchanges begin and end"},
    {"json", FF_OPTION_FLAG, offsetof(simulate_options, json), NULL, NULL, "Output", "one JSON object a line"},
    FF_OPTION_END};

static const ff_program simulate_program = {
    "fastfold-bench simulate", "--cluster FILE | --calibrate [options]",
    "Replays what a training step or a prediction would do, operation by operation, on a described cluster: step time,\n"
    "exposed communication, efficiency against one rank, memory of a rank. docs/simulator.md tells what is assumed.",
    simulate_table};

/* ---- what is replayed ---- */

typedef struct {
    bench_recording step, forward;
} recordings;

static void release(recordings *r)
{
    bench_recording_destroy(&r->step);
    bench_recording_destroy(&r->forward);
}

bench_run sim_bench_run(ff_ctx *ctx, const simulate_options *o)
{
    return (bench_run){.ctx = ctx, .k = ctx->kernels, .op = &bench_model_ops[o->preset],
                       .pass = o->pass == PASS_TRAINING ? BENCH_BOTH : BENCH_INFERENCE,
                       .sizes = {.num_seq = o->num_seq, .num_res = o->num_res, .num_extra = o->num_extra, .num_templ = 1,
                                 .blocks = o->blocks, .checkpoint = o->checkpoint}};
}

static ff_status record(ff_ctx *ctx, const simulate_options *o, int64_t dap, recordings *r)
{
    bench_run run = sim_bench_run(ctx, o);
    run.sizes.dap_size = (int)dap;
    *r = (recordings){0};
    FF_TRY(bench_record(&run, &r->step));
    run.pass = BENCH_INFERENCE;
    return bench_record(&run, &r->forward);
}

static ff_status replay(ff_ctx *ctx, const sim_cluster *cluster, const simulate_options *o, const recordings *r, int64_t dap,
                        int64_t data, sim_schedule schedule, sim_result *result)
{
    const double narrow = o->dtype == SIM_BF16 ? 0.5 : 1;
    const sim_run run = {.dap_size = dap, .data_size = data, .schedule = schedule, .dtype = (sim_dtype)o->dtype,
                         .num_seq = o->num_seq, .num_res = o->num_res, .extra_forward = o->recycles,
                         .parameter_bytes = o->pass == PASS_TRAINING ? narrow * r->step.parameter_bytes : 0};
    return sim_replay(ctx, cluster, &run, r->step.records, r->step.count, r->forward.records, r->forward.count, result);
}

/* Parameters in float32; in training gradients and Adam's two moments as well. */
static double memory_bytes(const simulate_options *o, const recordings *r)
{
    const double copies = o->pass == PASS_TRAINING ? 4 : 1, narrow = o->dtype == SIM_BF16 ? 0.5 : 1;
    return copies * r->step.parameter_bytes + narrow * (double)r->step.peak_bytes;
}

/* ---- output ---- */

static bool is_first(const ff_ctx *ctx) { return ff_dap_rank(ctx) == 0 && ff_data_rank(ctx) == 0; }

static void print_head(const sim_cluster *c, const simulate_options *o, const sim_result *one)
{
    printf("%s; %lld nodes of %lld ranks, scale %.3g\n", c->name, (long long)c->nodes, (long long)c->ranks_per_node, c->scale);
    printf("%s, S %lld, R %lld, E %lld; one rank: %.4g s a step, %.1f TFLOP, %.2f TFLOP/s\n",
           o->pass == PASS_TRAINING ? "training" : "inference", (long long)o->num_seq, (long long)o->num_res,
           (long long)o->num_extra, one->step_s, 1e-12 * one->flop, 1e-12 * one->flop / one->step_s);
    printf("%-9s %5s %5s %10s %10s %9s %9s %9s %9s %10s %9s\n", "schedule", "data", "dap", "step s", "compute s", "link s",
           "exposed s", "reduce s", "exposed s", "efficiency", "GB a rank");
}

static void print_result(const simulate_options *o, sim_schedule schedule, const sim_result *r, double efficiency, double bytes)
{
    if (o->json)
        printf("{\"schedule\": \"%s\", \"data_parallel\": %lld, \"dap\": %lld, \"step_s\": %.6g, \"compute_s\": %.6g, "
               "\"exchange_s\": %.6g, \"exposed_s\": %.6g, \"reduce_s\": %.6g, \"reduce_exposed_s\": %.6g, \"bytes_sent\": %.6g, "
               "\"flop\": %.6g, \"efficiency\": %.5g, \"memory_bytes\": %.6g}\n",
               sim_schedule_name(schedule), (long long)o->data, (long long)o->dap, r->step_s, r->compute_s, r->exchange_s,
               r->exposed_s, r->reduce_s, r->reduce_exposed_s, r->bytes_sent, r->flop, efficiency, bytes);
    else
        printf("%-9s %5lld %5lld %10.4g %10.4g %9.4g %9.4g %9.4g %9.4g %9.1f%% %9.2f\n", sim_schedule_name(schedule),
               (long long)o->data, (long long)o->dap, r->step_s, r->compute_s, r->exchange_s, r->exposed_s, r->reduce_s,
               r->reduce_exposed_s, 100 * efficiency, 1e-9 * bytes);
}

/* ---- the command ---- */

/* Operation times are launch + scale * rest, so one step at two scales gives the scale. */
static ff_status fit_scale(ff_ctx *ctx, sim_cluster *cluster, const simulate_options *o, const recordings *one,
                           double single_s)
{
    sim_result r;
    cluster->scale = 1;
    FF_TRY(replay(ctx, cluster, o, one, 1, 1, SIM_BLOCKING, &r));
    const double at_one = r.step_s;
    cluster->scale = 2;
    FF_TRY(replay(ctx, cluster, o, one, 1, 1, SIM_BLOCKING, &r));
    cluster->scale = 1 + (single_s - at_one) / (r.step_s - at_one);
    if (!(cluster->scale > 0))
        return FF_FAIL(ctx, FF_ERR_ARG, "a step of %g s on one rank: launches alone take longer", single_s);
    return FF_OK;
}

static ff_status write_cluster(ff_ctx *ctx, FILE *file, const void *arg)
{
    (void)ctx;
    sim_cluster_write(arg, file);
    return FF_OK;
}

/* The cluster, measured or read, and fitted. */
static ff_status get_cluster(ff_ctx *ctx, const simulate_options *o, sim_cluster *cluster, const recordings *one)
{
    double single_s = o->single_step;
    if (o->calibrate)
        FF_TRY(sim_calibrate(ctx, o, cluster, &single_s));
    else
        FF_TRY(sim_cluster_read(ctx, cluster, o->cluster));
    if (single_s > 0)
        FF_TRY(fit_scale(ctx, cluster, o, one, single_s));
    if (o->write != NULL && is_first(ctx))
        FF_TRY(ff_safe_file_write(ctx, o->write, write_cluster, cluster));
    return FF_OK;
}

/* The step as it really is on the processes launched, against what was predicted for the code of today. */
static ff_status compare_with_measured(ff_ctx *ctx, const simulate_options *o, double predicted_s)
{
    double seconds;
    FF_TRY(sim_measure_step(ctx, o, &seconds));
    if (!is_first(ctx))
        return FF_OK;
    if (o->json)
        printf("{\"measured_s\": %.6g, \"predicted_s\": %.6g, \"difference\": %.4g}\n", seconds, predicted_s,
               predicted_s / seconds - 1);
    else
        printf("measured: %.4g s, predicted: %.4g s (%+.1f %%)\n", seconds, predicted_s, 100 * (predicted_s / seconds - 1));
    return FF_OK;
}

static ff_status simulate(ff_ctx *ctx, const simulate_options *o, sim_cluster *cluster, recordings *one, recordings *many)
{
    sim_result base, r;
    FF_TRY(ff_kernels_get(ctx, &ctx->kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32)); /* the replay narrows */
    FF_TRY(record(ctx, o, 1, one));
    FF_TRY(record(ctx, o, o->dap, many));
    FF_TRY(get_cluster(ctx, o, cluster, one));
    FF_TRY(replay(ctx, cluster, o, one, 1, 1, SIM_BLOCKING, &base));
    if (!o->json && is_first(ctx))
        print_head(cluster, o, &base);
    for (int s = SIM_BLOCKING; s <= SIM_OURS; s++) {
        if (o->schedule != EACH_SCHEDULE && o->schedule != s)
            continue;
        FF_TRY(replay(ctx, cluster, o, many, o->dap, o->data, (sim_schedule)s, &r));
        if (is_first(ctx))
            print_result(o, (sim_schedule)s, &r, base.step_s / (r.step_s * (double)o->dap), memory_bytes(o, many));
    }
    if (o->calibrate) {
        FF_TRY(replay(ctx, cluster, o, many, o->dap, o->data, SIM_BLOCKING, &r));
        FF_TRY(compare_with_measured(ctx, o, r.step_s));
    }
    if (cluster->memory_gbytes > 0 && memory_bytes(o, many) > 1e9 * cluster->memory_gbytes)
        FF_WARN(ctx, "%.1f GB a rank are more than its memory of %.1f GB", 1e-9 * memory_bytes(o, many), cluster->memory_gbytes);
    return FF_OK;
}

int bench_simulate(int argc, char **argv)
{
    ff_ctx ctx;
    simulate_options o;
    ff_arguments args;
    ff_context_init(&ctx);
    ff_status status = ff_options_parse(&ctx, &simulate_program, &o, argc, argv, &args);
    if (status == FF_OK && (args.help || args.version)) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&simulate_program, stdout);
        return 0;
    }
    if (status == FF_OK && args.num_positional > 0)
        status = FF_FAIL(&ctx, FF_ERR_ARG, "%s is no option; --help lists them", args.positional[0]);
    if (status == FF_OK && o.calibrate == (o.cluster != NULL))
        status = FF_FAIL(&ctx, FF_ERR_ARG, "which cluster? --cluster FILE (there are examples in jobs/clusters) or --calibrate");
    if (status == FF_OK && o.calibrate && o.recycles > 0)
        status = FF_FAIL(&ctx, FF_ERR_ARG, "--recycles is not measured: leave it out with --calibrate");
    if (status == FF_OK && o.calibrate)
        status = ff_dap_init_grid(&ctx, &argc, &argv, (int)o.data, (int)o.dap);
    sim_cluster cluster;
    recordings one = {0}, many = {0};
    sim_cluster_init(&cluster);
    if (status == FF_OK)
        status = simulate(&ctx, &o, &cluster, &one, &many);
    if (ctx.comm != NULL)
        status = ff_dap_agree(&ctx);
    if (status != FF_OK && is_first(&ctx))
        fprintf(stderr, "%s: %s\n", simulate_program.name, ctx.message);
    ff_dap_finalize(&ctx);
    release(&one);
    release(&many);
    sim_cluster_destroy(&cluster);
    return status == FF_OK ? 0 : status == FF_ERR_ARG ? 2 : 1;
}
