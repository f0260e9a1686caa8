/* simulate_calibrate.c - a cluster file of this machine: GEMM peak, copy bandwidth, one step on one rank, a ping-pong. */
#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench/simulate_command.h"
#include "dap/dap.h"
#include "dap/ping.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

enum { SMALL_PING = 64, LARGE_PING = 4 << 20, SMALL_PINGS = 201, LARGE_PINGS = 21 };

static ff_status begin(ff_ctx *ctx, const simulate_options *o)
{
#ifdef _OPENMP
    omp_set_num_threads((int)o->threads);
#endif
    return ff_pool_create(ctx, 0, false);
}

static void end(ff_ctx *ctx)
{
    ff_tape_destroy(ctx);
    if (ff_pool_get_stats(ctx->pool).in_use == 0) /* a failed run may have left some */
        ff_pool_destroy(ctx);
}

ff_status sim_measure_step(ff_ctx *ctx, const simulate_options *o, double *seconds)
{
    bench_run run = sim_bench_run(ctx, o);
    bench_result result;
    *seconds = 0;
    FF_TRY(begin(ctx, o));
    const ff_status status = bench_measure(&run, o->repeat, true, &result);
    *seconds = result.seconds_min; /* what others do on the machine only adds */
    end(ctx);
    return status;
}

/* Latency and bandwidth of a process that talks to all others at the same time. */
static ff_status measure_links(ff_ctx *ctx, sim_cluster *cluster, double peers)
{
    double small_s, large_s;
    FF_TRY(ff_dap_ping(ctx, SMALL_PING, SMALL_PINGS, &small_s));
    FF_TRY(ff_dap_ping(ctx, LARGE_PING, LARGE_PINGS, &large_s));
    if (peers > 0) {
        cluster->inside_latency_us = 1e6 * small_s / peers;
        cluster->inside_gbytes_per_s = 1e-9 * peers * LARGE_PING / fmax(large_s - small_s, 1e-9);
    }
    return FF_OK;
}

ff_status sim_calibrate(ff_ctx *ctx, const simulate_options *o, sim_cluster *cluster, double *single_s)
{
    double gflops, gbytes;
    struct ff_comm *const comm = ctx->comm;
    const int64_t ranks = (int64_t)ff_dap_size(ctx) * ff_data_size(ctx);
    sim_cluster_init(cluster);
    cluster->name = "this machine, measured";
    cluster->source = "fastfold-bench simulate --calibrate";
    cluster->ranks_per_node = ranks;
    ctx->comm = NULL; /* every process the same, by itself, at the same time */
    ff_status status = sim_measure_step(ctx, o, single_s);
    if (status == FF_OK)
        status = bench_machine_peaks(ctx, FF_DTYPE_F32, &gflops, &gbytes);
    ctx->comm = comm;
    FF_TRY(status);
    if (gflops > 0)
        cluster->matrix_tflops_f32 = cluster->matrix_tflops_bf16 = 1e-3 * gflops;
    cluster->memory_gbytes_per_s = gbytes;
    return measure_links(ctx, cluster, (double)(ranks - 1));
}
