/* simulate_command.h - inside fastfold-bench simulate: its options, and measuring this machine. */
#ifndef FF_BENCH_SIMULATE_COMMAND_H
#define FF_BENCH_SIMULATE_COMMAND_H

#include "bench/bench.h"
#include "bench/simulate.h"

typedef struct {
    const char *cluster, *write;
    int64_t num_seq, num_res, num_extra, blocks, dap, data, threads, repeat;
    int preset, schedule, pass, dtype;
    double recycles, single_step;
    bool checkpoint, calibrate, json;
} simulate_options;

/** The operation that is recorded or measured. */
bench_run sim_bench_run(ff_ctx *ctx, const simulate_options *o);

/** The least of a few real steps, among the ranks of ctx->comm or alone. */
ff_status sim_measure_step(ff_ctx *ctx, const simulate_options *o, double *seconds);

/**
 * Rates of this machine as one node: GEMM peak, copy bandwidth, exchanges among the processes that were launched.
 * @param single_s  out  a step of one process by itself (while the others do the same)
 */
ff_status sim_calibrate(ff_ctx *ctx, const simulate_options *o, sim_cluster *cluster, double *single_s);

#endif
