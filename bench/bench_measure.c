/* bench_measure.c - machine peaks, memory marks, and the loop that measures an operation. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/clock.h"
#include "core/random.h"
#include "dap/dap.h"
#include "kernels/gemm.h"
#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

int bench_num_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void bench_fill(float *x, int64_t n, float scale, uint64_t stream)
{
    const ff_random_key key = {1, stream};
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < (n + 3) / 4; block++) {
        uint32_t bits[4];
        ff_random_block(key, (uint64_t)block, bits);
        for (int64_t i = 0; i < 4 && 4 * block + i < n; i++)
            x[4 * block + i] = scale * ((float)(bits[i] >> 8) * 0x1p-23f - 1);
    }
}

/* ---- machine peaks ---- */

enum { COPY_BYTES = BENCH_COPY_BYTES, LEAST_PEAK_RUNS = 5, PAGE = 4096 };

static double copy_seconds(char *to, const char *from)
{
    const double begin = ff_clock_s();
#ifdef _OPENMP
#pragma omp parallel
    {
        const size_t parts = (size_t)omp_get_num_threads(), part = (size_t)omp_get_thread_num();
        const size_t first = COPY_BYTES / PAGE * part / parts * PAGE;
        const size_t last = COPY_BYTES / PAGE * (part + 1) / parts * PAGE;
        memcpy(to + first, from + first, last - first);
    }
#else
    memcpy(to, from, COPY_BYTES);
#endif
    return ff_clock_s() - begin;
}

ff_status bench_peaks_begin(ff_ctx *ctx, bench_peaks *p, ff_dtype dtype)
{
    *p = (bench_peaks){.dtype = dtype, .from = aligned_alloc(PAGE, COPY_BYTES), .to = aligned_alloc(PAGE, COPY_BYTES)};
    if (p->from == NULL || p->to == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the copy that measures the memory bandwidth");
    memset(p->from, 1, COPY_BYTES);
    copy_seconds(p->to, p->from); /* page faults */
    return FF_OK;
}

void bench_peaks_run(bench_peaks *p)
{
    const double gflops = ff_gemm_peak(p->dtype, &p->gemm);
    p->gflops = fmax(p->gflops, gflops);
    p->least_gflops = p->runs == 0 ? gflops : fmin(p->least_gflops, gflops);
    p->bandwidth = fmax(p->bandwidth, 2e-9 * COPY_BYTES / copy_seconds(p->to, p->from));
    p->runs++;
}

void bench_peaks_end(bench_peaks *p)
{
    if (p->gemm != NULL)
        ff_gemm_peak_free(p->gemm);
    free(p->from);
    free(p->to);
    p->gemm = p->from = p->to = NULL;
}

ff_status bench_machine_peaks(ff_ctx *ctx, ff_dtype dtype, double *gflops, double *gbytes_per_s)
{
    bench_peaks peaks = {0};
    const ff_status status = bench_peaks_begin(ctx, &peaks, dtype);
    for (int i = 0; status == FF_OK && i < LEAST_PEAK_RUNS; i++)
        bench_peaks_run(&peaks);
    *gflops = peaks.gflops;
    *gbytes_per_s = peaks.bandwidth;
    bench_peaks_end(&peaks);
    return status;
}

/* ---- resident memory ---- */

void bench_reset_resident_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL)
        return;
    fputs("5", file);
    fclose(file);
}

size_t bench_resident_peak(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    char line[256];
    long long kilobytes = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %lld", &kilobytes) == 1)
            break;
    fclose(file);
    return (size_t)kilobytes * 1024;
}

/* ---- one pass ---- */

/* Seconds of one pass of the kind asked for, without the preparations. */
static double run_pass(bench_run *run)
{
    const bench_op *op = run->op;
    double seconds = 0;
    if (op->prepare != NULL)
        op->prepare(run);
    double begin = ff_clock_s();
    op->forward(run);
    const double forward = ff_clock_s() - begin;
    if (run->pass != BENCH_BACKWARD)
        seconds += forward;
    if (run->pass == BENCH_BACKWARD || run->pass == BENCH_BOTH) {
        if (op->prepare_backward != NULL)
            op->prepare_backward(run);
        begin = ff_clock_s();
        op->backward(run);
        seconds += ff_clock_s() - begin;
    }
    ff_tape_destroy(run->ctx);
    return seconds;
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the measured pass costs, from what a forward pass costs. */
static void set_costs(const bench_run *run, bench_result *result)
{
    const double back = run->bytes_back > 0 ? run->bytes_back : 2 * run->bytes;
    const bool forward = run->pass != BENCH_BACKWARD, backward = run->pass == BENCH_BACKWARD || run->pass == BENCH_BOTH;
    result->flop = run->flop * ((forward ? 1 : 0) + (backward ? 2 : 0));
    result->minimal_bytes = (forward ? run->bytes : 0) + (backward ? back : 0);
}

/* ---- plan mode ---- */

/* Run the pass with shapes only, in a context of its own; `ctx` keeps its plan for the caller to read. */
static ff_status plan_pass(const bench_run *run, bench_run *dry, ff_ctx *ctx)
{
    ff_status status = FF_OK;
    ff_context_init(ctx);
    ctx->log = run->ctx->log;
    ctx->kernels = run->ctx->kernels;
    *dry = *run;
    dry->ctx = ctx;
    dry->state = NULL;
    FF_TRY(ff_pool_create(ctx, 0, true));
    FF_TRY_DONE(ff_plan_create(ctx));
    FF_TRY_DONE(dry->op->set_up(dry));
    if (dry->sizes.dap_size > 1)
        FF_TRY_DONE(ff_dap_init_plan(ctx, 0, dry->sizes.dap_size));
    ff_pool_reset_peak(ctx->pool);
    run_pass(dry);
    status = ctx->status;
done:
    if (status != FF_OK)
        FF_FAIL(run->ctx, status, "in plan mode: %.900s", ctx->message);
    return status;
}

static void plan_end(bench_run *dry)
{
    if (dry->state != NULL)
        dry->op->tear_down(dry);
    ff_dap_finalize(dry->ctx);
    ff_plan_destroy(dry->ctx);
    ff_pool_destroy(dry->ctx);
}

ff_status bench_plan(bench_run *run, bool json)
{
    if (!run->op->is_module)
        return FF_FAIL(run->ctx, FF_ERR_ARG, "%s is a kernel: only modules have a plan", run->op->name);
    ff_ctx ctx;
    bench_run dry;
    const ff_status status = plan_pass(run, &dry, &ctx);
    if (status == FF_OK)
        ff_plan_print(&ctx, stdout, json);
    plan_end(&dry);
    return status;
}

ff_status bench_record(const bench_run *run, bench_recording *recording)
{
    ff_ctx ctx;
    bench_run dry;
    *recording = (bench_recording){0};
    ff_status status = plan_pass(run, &dry, &ctx);
    if (status == FF_OK) {
        recording->count = ff_plan_count(ctx.plan);
        recording->records = calloc((size_t)recording->count + 1, sizeof *recording->records);
        if (recording->records == NULL)
            status = FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory for %lld records", (long long)recording->count);
        for (int64_t i = 0; status == FF_OK && i < recording->count; i++)
            recording->records[i] = *ff_plan_get(ctx.plan, i);
        recording->peak_bytes = ff_pool_get_stats(ctx.pool).peak;
        recording->parameter_bytes = dry.parameter_bytes;
    }
    plan_end(&dry);
    return status;
}

void bench_recording_destroy(bench_recording *recording)
{
    free(recording->records);
    *recording = (bench_recording){0};
}

static ff_status predict(bench_run *run, bench_result *result)
{
    ff_ctx ctx;
    bench_run dry;
    const ff_status status = plan_pass(run, &dry, &ctx);
    if (status == FF_OK) {
        result->predicted_peak_bytes = ff_pool_get_stats(ctx.pool).peak;
        for (int64_t i = 0; i < ff_plan_count(ctx.plan); i++) {
            const ff_plan_record *record = ff_plan_get(ctx.plan, i);
            if (run->pass != BENCH_BACKWARD || record->backward)
                result->predicted_flop += record->flop;
        }
    }
    plan_end(&dry);
    return status;
}

/* ---- the loop ---- */

static ff_status time_passes(bench_run *run, int64_t repeat, bool quick, bench_result *result)
{
    ff_ctx *ctx = run->ctx;
    ff_status status = FF_OK;
    bench_peaks peaks = {0};
    double *seconds = calloc((size_t)repeat, sizeof *seconds);
    if (seconds == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
        goto done;
    }
    if (!quick)
        FF_TRY_DONE(bench_peaks_begin(ctx, &peaks, run->k->dtype));
    run_pass(run); /* warms the pool and the caches */
    ff_pool_reset_peak(ctx->pool);
    for (int64_t i = 0; i < repeat && ctx->status == FF_OK; i++) {
        if (!quick)
            bench_peaks_run(&peaks);
        seconds[i] = run_pass(run);
    }
    while (!quick && peaks.runs < LEAST_PEAK_RUNS)
        bench_peaks_run(&peaks);
    FF_TRY_DONE(ctx->status);
    result->peak_bytes = ff_pool_get_stats(ctx->pool).peak;
    qsort(seconds, (size_t)repeat, sizeof *seconds, compare_seconds);
    result->seconds_min = seconds[0];
    result->seconds_median = 0.5 * (seconds[(repeat - 1) / 2] + seconds[repeat / 2]);
    result->gemm_peak_gflops = peaks.gflops;
    result->gemm_peak_spread = peaks.least_gflops > 0 ? peaks.gflops / peaks.least_gflops : 0;
    result->memory_bandwidth = peaks.bandwidth;
done:
    bench_peaks_end(&peaks);
    free(seconds);
    return status;
}

ff_status bench_measure(bench_run *run, int64_t repeat, bool quick, bench_result *result)
{
    ff_ctx *ctx = run->ctx;
    *result = (bench_result){0};
    ff_status status = FF_OK;
    FF_TRY_DONE(run->op->set_up(run));
    set_costs(run, result);
    FF_TRY_DONE(time_passes(run, repeat, quick, result));
    ff_pool_trim(ctx->pool); /* a pass from a cold pool is what the process needs at most */
    bench_reset_resident_peak();
    run_pass(run);
    result->peak_resident_bytes = bench_resident_peak();
    FF_TRY_DONE(ctx->status);
    if (run->op->is_module)
        FF_TRY_DONE(predict(run, result));
done:
    if (run->state != NULL)
        run->op->tear_down(run);
    run->state = NULL;
    return status;
}
