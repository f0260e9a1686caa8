/* bench_dap.c - Evoformer blocks on several ranks, exchanges blocking and overlapped, on an artificial link.
 *
 * Contents: options; the step; sums of events; the report; the trace; the program.
 *
 * The link is set from a first run without it: a step's bytes take --link-ratio times the step's own work. Times are those of rank 0,
 * the median step of --repeat. The wait for an exchange is counted as exposed from when the last rank has begun it: what comes before
 * is waiting for a slower rank. Bytes are counted where they are sent, and compared with what plan mode says. */
#include "bench/bench_dap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench/bench.h"
#include "core/clock.h"
#include "core/options.h"
#include "core/version.h"
#include "dap/dap.h"
#include "evoformer/embeddings_and_evoformer.h"
#include "io/safe_file.h"
#include "tensor/plan.h"
#include "tensor/pool.h"
#include "tensor/tape.h"

/* ---- options ---- */

typedef struct {
    int64_t dap, num_seq, num_res, blocks, repeat, threads;
    double link_ratio, link_latency_us;
    int dtype, wire, pass, schedule;
    bool checkpoint, plan, json;
    const char *trace;
} dap_options;

enum { PASS_INFERENCE, PASS_BOTH };
enum { SCHEDULE_BLOCKING, SCHEDULE_OVERLAPPED, SCHEDULE_EACH };

static const ff_option option_table[] = {
    {"dap", FF_OPTION_INT64, offsetof(dap_options, dap), "2", "1..4096", "Step", "ranks: mpirun -np that many"},
    {"num-seq", FF_OPTION_INT64, offsetof(dap_options, num_seq), "128", "1..", "Step", "MSA rows"},
    {"num-res", FF_OPTION_INT64, offsetof(dap_options, num_res), "64", "1..", "Step", "residues"},
    {"blocks", FF_OPTION_INT64, offsetof(dap_options, blocks), "3", "1..1000", "Step", "Evoformer blocks"},
    {"pass", FF_OPTION_ENUM, offsetof(dap_options, pass), "inference", "inference|both", "Step",
     "inference, or forward and backward with the reduction of gradients"},
    {"checkpoint", FF_OPTION_FLAG, offsetof(dap_options, checkpoint), NULL, NULL, "Step", "keep the inputs of blocks only"},
    {"dtype", FF_OPTION_ENUM, offsetof(dap_options, dtype), "f32", "f32|bf16", "Step", "type of matrix-product operands"},
    {"threads", FF_OPTION_INT64, offsetof(dap_options, threads), "1", "1..4096", "Step", "of a rank"},
    {"repeat", FF_OPTION_INT64, offsetof(dap_options, repeat), "5", "1..1000", "Step", "steps measured"},
    {"schedule", FF_OPTION_ENUM, offsetof(dap_options, schedule), "each", "blocking|overlapped|each", "Exchanges", "how they run"},
    {"wire", FF_OPTION_ENUM, offsetof(dap_options, wire), "f32", "f32|bf16", "Exchanges",
     "how float arrays travel, with --dtype bf16"},
    {"plan", FF_OPTION_FLAG, offsetof(dap_options, plan), NULL, NULL, "Exchanges",
     "one process computes nothing and prints the bytes that rank 0 of --dap would send"},
    {"link-ratio", FF_OPTION_DOUBLE, offsetof(dap_options, link_ratio), "0.8", "0..100", "Exchanges",
     "an artificial link on which a step's bytes take this times its work; 0 = none"},
    {"link-latency", FF_OPTION_DOUBLE, offsetof(dap_options, link_latency_us), "5", "0..1e6", "Exchanges",
     "its latency, microseconds"},
    {"trace", FF_OPTION_STRING, offsetof(dap_options, trace), NULL, NULL, "Output",
     "write the last step of all ranks for chrome://tracing"},
    {"json", FF_OPTION_FLAG, offsetof(dap_options, json), NULL, NULL, "Output", "one JSON object a line"},
    FF_OPTION_END};

static const ff_program program = {"fastfold-bench dap", "--dap N [options]",
                                   "Bytes, exposed and hidden time of each kind of exchange in Evoformer blocks on N ranks.\n"
                                   "Start as mpirun -np N fastfold-bench dap --dap N.",
                                   option_table};

/* ---- the step ---- */

typedef struct {
    ff_ctx *ctx;
    const dap_options *o;
    ff_parameters parameters;
    ff_block *blocks;
    ff_tensor *msa_mask, *pair_mask;
} dap_run;

static ff_tensor *ones(ff_ctx *ctx, int64_t rows, int64_t cols)
{
    ff_tensor *x = ff_tensor_create(ctx, FF_SHAPE(rows, cols));
    for (int64_t i = 0; ff_computing(ctx) && i < x->size; i++)
        ff_data(x)[i] = 1;
    return x;
}

static ff_tensor *random_rows(const dap_run *r, int64_t total, int64_t length, int64_t c, uint64_t stream)
{
    const int64_t rows = ff_shard_length(total, ff_dap_rank(r->ctx), ff_dap_size(r->ctx));
    ff_tensor *x = ff_tensor_create(r->ctx, FF_SHAPE(rows, length, c));
    if (ff_computing(r->ctx))
        bench_fill(ff_data(x), x->size, 1, stream);
    if (x != NULL)
        x->requires_grad = r->o->pass == PASS_BOTH;
    return x;
}

static ff_status set_up(dap_run *r)
{
    ff_ctx *ctx = r->ctx;
    ff_evoformer_config preset;
    ff_parameters_init(&r->parameters);
    FF_TRY(ff_evoformer_config_preset(ctx, &preset, 1));
    r->blocks = calloc((size_t)r->o->blocks, sizeof *r->blocks);
    if (r->blocks == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld blocks", (long long)r->o->blocks);
    ff_binder b = ff_binder_at(ctx, &r->parameters, true, "");
    FF_TRY(ff_block_stack_bind(&b, &preset.evoformer, r->o->blocks, r->blocks));
    FF_TRY(ff_parameters_allocate(ctx, &r->parameters, r->o->pass == PASS_BOTH));
    if (ff_computing(ctx))
        bench_fill(r->parameters.values, r->parameters.total, 0.05f, 3); /* small: an update is smaller than what it is added to */
    b.declare = false;
    FF_TRY(ff_block_stack_bind(&b, &preset.evoformer, r->o->blocks, r->blocks));
    r->msa_mask = ones(ctx, r->o->num_seq, r->o->num_res);
    r->pair_mask = ones(ctx, r->o->num_res, r->o->num_res);
    return ctx->status;
}

static void tear_down(dap_run *r)
{
    ff_tensor_release(r->msa_mask);
    ff_tensor_release(r->pair_mask);
    free(r->blocks);
    ff_parameters_destroy(&r->parameters);
}

/* @return seconds */
static double step(const dap_run *r)
{
    ff_ctx *ctx = r->ctx;
    const int64_t n = r->o->num_res;
    const bool both = r->o->pass == PASS_BOTH;
    ff_tensor *msa = random_rows(r, r->o->num_seq, n, 256, 1), *pair = random_rows(r, n, n, 128, 2);
    if (both)
        ff_tape_create(ctx);
    const double begin = ff_clock_s();
    ff_block_stack_forward(ctx, r->blocks, r->o->blocks, r->o->checkpoint, &msa, &pair, r->msa_mask, r->pair_mask);
    ff_tensor *const out[2] = {msa, pair};
    for (int i = 0; i < 2; i++) {
        ff_tensor *grad = both ? ff_tensor_grad(ctx, out[i]) : NULL;
        if (grad != NULL && ff_computing(ctx))
            memcpy(grad->data, out[i]->data, grad->bytes);
        ff_tensor_release(out[i]);
    }
    if (both) {
        ff_tape_backward(ctx);
        ff_dap_reduce_gradients(ctx, r->parameters.grads, r->parameters.total);
        ff_tape_destroy(ctx);
    }
    return ff_clock_s() - begin;
}

/* Records that send something, one line each; peak memory. */
static void print_plan(const ff_ctx *ctx, const dap_options *o)
{
    const ff_plan_record total = ff_plan_total(ctx);
    for (int64_t i = 0; i < ff_plan_count(ctx->plan); i++) {
        const ff_plan_record *r = ff_plan_get(ctx->plan, i);
        if (r->bytes_sent > 0)
            printf("%-8s %-24s %14.0f\n", r->backward ? "backward" : "forward", r->name, r->bytes_sent);
    }
    printf("%.0f bytes sent by rank 0, %.3f MB a block; peak %.3f MB\n", total.bytes_sent,
           total.bytes_sent / (double)o->blocks * 1e-6, (double)total.in_use * 1e-6);
}

/* What one step sends from a rank, as plan mode has it. */
static ff_status planned_bytes(const ff_kernels *kernels, const dap_options *o, int rank, bool print, double *bytes)
{
    ff_ctx ctx;
    dap_run dry = {.ctx = &ctx, .o = o};
    ff_context_init(&ctx);
    ctx.kernels = kernels;
    ff_status status = ff_pool_create(&ctx, 0, true);
    if (status == FF_OK)
        status = ff_dap_init_plan(&ctx, rank, (int)o->dap);
    ff_dap_set_wire(&ctx, (ff_dtype)o->wire);
    if (status == FF_OK)
        status = set_up(&dry);
    if (status == FF_OK)
        status = ff_plan_create(&ctx);
    if (status == FF_OK) {
        (void)step(&dry);
        *bytes = ff_plan_total(&ctx).bytes_sent;
        if (print)
            print_plan(&ctx, o);
        status = ctx.status;
    }
    tear_down(&dry);
    ff_plan_destroy(&ctx);
    ff_dap_finalize(&ctx);
    ff_pool_destroy(&ctx);
    return status;
}

/* ---- sums of events ---- */

enum { MAX_KINDS = 32 };

typedef struct {
    const char *name;
    bool backward;
    int64_t calls;
    double bytes_sent, bytes_received, transfer_s, exposed_s, late_s; /* late: waits for ranks that began later */
} event_sum;

typedef struct {
    event_sum kinds[MAX_KINDS], total;
    int num_kinds;
    double step_s, work_s;
} step_sum;

static void add_event(event_sum *sum, const ff_dap_event *e)
{
    const double exposed = ff_dap_event_exposed(e);
    sum->calls++;
    sum->bytes_sent += e->bytes_sent;
    sum->bytes_received += e->bytes_received;
    sum->transfer_s += e->done_s > e->posted_s ? e->done_s - e->posted_s : 0;
    sum->exposed_s += exposed;
    sum->late_s += e->end_s - e->wait_s - exposed;
}

static step_sum sum_events(const ff_ctx *ctx, double step_s)
{
    step_sum s = {.step_s = step_s, .total = {.name = "all"}};
    for (int64_t i = 0; i < ff_dap_num_events(ctx); i++) {
        const ff_dap_event *e = ff_dap_get_event(ctx, i);
        int k = 0;
        while (k < s.num_kinds && (strcmp(s.kinds[k].name, e->name) != 0 || s.kinds[k].backward != e->backward))
            k++;
        if (k == MAX_KINDS)
            k--;
        else if (k == s.num_kinds)
            s.kinds[s.num_kinds++] = (event_sum){.name = e->name, .backward = e->backward};
        add_event(&s.kinds[k], e);
        add_event(&s.total, e);
    }
    s.work_s = step_s - s.total.exposed_s - s.total.late_s;
    return s;
}

static int by_step(const void *a, const void *b)
{
    const double x = ((const step_sum *)a)->step_s, y = ((const step_sum *)b)->step_s;
    return (x > y) - (x < y);
}

/* The median step after one that warms up; the events of the last one stay in the communicator. */
static ff_status measure(const dap_run *r, step_sum *median)
{
    step_sum *all = calloc((size_t)r->o->repeat, sizeof *all);
    if (all == NULL)
        return FF_FAIL(r->ctx, FF_ERR_MEM, "out of memory");
    (void)step(r);
    for (int64_t i = 0; i < r->o->repeat && r->ctx->status == FF_OK; i++) {
        ff_dap_trace(r->ctx, true);
        const double seconds = step(r);
        all[i] = sum_events(r->ctx, seconds);
    }
    qsort(all, (size_t)r->o->repeat, sizeof *all, by_step);
    *median = all[r->o->repeat / 2];
    free(all);
    return r->ctx->status;
}

/* ---- the report ---- */

static void print_kind(const dap_options *o, const char *schedule, const event_sum *k, const step_sum *s)
{
    const double blocks = (double)o->blocks, hidden = fmax(0, k->transfer_s - k->exposed_s);
    if (o->json)
        printf("{\"schedule\": \"%s\", \"exchange\": \"%s\", \"pass\": \"%s\", \"calls\": %lld, \"bytes_sent_per_block\": %.0f, "
               "\"bytes_received_per_block\": %.0f, \"transfer_s\": %.6g, \"exposed_s\": %.6g, \"hidden_s\": %.6g, \"late_s\": %.6g, "
               "\"step_s\": %.6g, \"work_s\": %.6g, \"exposed_fraction\": %.4f}\n",
               schedule, k->name, k->backward ? "backward" : "forward", (long long)k->calls, k->bytes_sent / blocks,
               k->bytes_received / blocks, k->transfer_s, k->exposed_s, hidden, k->late_s, s->step_s, s->work_s,
               k->exposed_s / s->step_s);
    else
        printf("%-11s %-20s %-8s %6.1f %11.3f %11.3f %10.3f %10.3f %10.3f %10.3f %7.1f%%\n", schedule, k->name,
               k == &s->total ? "" : k->backward ? "backward" : "forward", (double)k->calls / blocks, k->bytes_sent / blocks * 1e-6,
               k->bytes_received / blocks * 1e-6, k->transfer_s * 1e3, k->exposed_s * 1e3, hidden * 1e3, k->late_s * 1e3,
               100 * k->exposed_s / s->step_s);
}

static void print_step(const dap_options *o, const char *schedule, const step_sum *s)
{
    for (int k = 0; k < s->num_kinds; k++)
        print_kind(o, schedule, &s->kinds[k], s);
    print_kind(o, schedule, &s->total, s);
    if (!o->json)
        printf("%-11s step %.3f ms, work %.3f ms\n", schedule, s->step_s * 1e3, s->work_s * 1e3);
}

static void print_head(const dap_options *o, const ff_ctx *ctx, double bytes_per_s)
{
    if (o->json)
        return;
    printf("fastfold-bench dap %s: %d ranks of %lld threads, S %lld, R %lld, %lld blocks, %s, isa %s, link %.4g MB/s\n", FF_VERSION,
           ff_dap_size(ctx), (long long)o->threads, (long long)o->num_seq, (long long)o->num_res, (long long)o->blocks,
           o->pass == PASS_BOTH ? "forward and backward" : "inference", ff_isa_name(ctx->kernels->isa), bytes_per_s * 1e-6);
    printf("%-11s %-20s %-8s %6s %11s %11s %10s %10s %10s %10s %8s\n", "schedule", "exchange", "pass", "calls", "MB sent",
           "MB received", "ms link", "exposed", "hidden", "late", "of step");
}

/* ---- the trace ---- */

enum { EVENT_NUMBERS = 6 };

typedef struct {
    const ff_ctx *ctx;
    const double *numbers; /* [ranks, events, EVENT_NUMBERS] */
    double origin;
} trace_file;

static void write_span(FILE *file, bool *comma, const char *name, int rank, int row, double from, double to, double bytes)
{
    fprintf(file, "%s\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": "
                  "{\"bytes_sent\": %.0f}}", *comma ? "," : "", name, rank, row, from * 1e6, fmax(0, to - from) * 1e6, bytes);
    *comma = true;
}

/* Rows of a rank: its work, its waits, the link. */
static ff_status write_trace(ff_ctx *ctx, FILE *file, const void *arg)
{
    (void)ctx;
    const trace_file *t = arg;
    const int64_t count = ff_dap_num_events(t->ctx);
    bool comma = false;
    fprintf(file, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
    for (int rank = 0; rank < ff_dap_size(t->ctx); rank++) {
        const double *numbers = t->numbers + (int64_t)rank * count * EVENT_NUMBERS;
        double busy = numbers[0] - t->origin;
        for (int64_t i = 0; i < count; i++) {
            const double *e = numbers + i * EVENT_NUMBERS; /* begin, posted, done, wait, end, bytes */
            const char *name = ff_dap_get_event(t->ctx, i)->name;
            char text[96];
            write_span(file, &comma, "work", rank, 0, busy, e[3] - t->origin, 0);
            snprintf(text, sizeof text, "wait %s", name);
            write_span(file, &comma, text, rank, 0, e[3] - t->origin, e[4] - t->origin, 0);
            write_span(file, &comma, name, rank, 1 + (int)(i % 2), e[1] - t->origin, e[2] - t->origin, e[5]);
            busy = e[4] - t->origin;
        }
    }
    fprintf(file, "\n]}\n");
    return FF_OK;
}

static ff_status save_trace(ff_ctx *ctx, const char *path)
{
    ff_status status = FF_OK;
    const int64_t count = ff_dap_num_events(ctx), size = ff_dap_size(ctx);
    const size_t bytes = (size_t)(count * EVENT_NUMBERS) * sizeof(double);
    double *own = malloc(bytes + 1), *all = malloc((size_t)size * bytes + 1);
    if (own == NULL || all == NULL)
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the trace");
    for (int64_t i = 0; status == FF_OK && i < count; i++) {
        const ff_dap_event *e = ff_dap_get_event(ctx, i);
        const double numbers[EVENT_NUMBERS] = {e->begin_s, e->posted_s, e->done_s, e->wait_s, e->end_s, e->bytes_sent};
        memcpy(own + i * EVENT_NUMBERS, numbers, sizeof numbers);
    }
    ff_dap_set_link(ctx, 0, 0);
    const trace_file t = {ctx, all, count > 0 && own != NULL ? own[0] : 0};
    ff_dap_trace(ctx, false); /* the events stay */
    if (status == FF_OK)
        status = ff_dap_all_gather_bytes(ctx, all, own, size, bytes);
    if (status == FF_OK && ff_dap_rank(ctx) == 0)
        status = ff_safe_file_write(ctx, path, write_trace, &t);
    free(own);
    free(all);
    return status;
}

/* ---- the program ---- */

/* The ranks' work differs by noise: the link is that of rank 0 for all. */
static ff_status agree_on_link(ff_ctx *ctx, double own, double *agreed)
{
    const int size = ff_dap_size(ctx);
    double *all = calloc((size_t)size, sizeof *all);
    if (all == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    const ff_status status = ff_dap_all_gather_bytes(ctx, all, &own, size, sizeof own);
    *agreed = all[0];
    free(all);
    return status;
}

static ff_status compare_bytes(const dap_run *r)
{
    double planned = 0;
    const double before = ff_dap_bytes_sent(r->ctx);
    (void)step(r);
    const double counted = ff_dap_bytes_sent(r->ctx) - before;
    FF_TRY(r->ctx->status);
    FF_TRY(planned_bytes(r->ctx->kernels, r->o, ff_dap_rank(r->ctx), false, &planned));
    if (planned != counted)
        return FF_FAIL(r->ctx, FF_ERR_COMM, "a step sent %.0f bytes, plan mode has %.0f", counted, planned);
    if (ff_dap_rank(r->ctx) == 0 && !r->o->json)
        printf("bytes sent by rank 0 in a step: %.0f, as planned\n", counted);
    return FF_OK;
}

static ff_status run(const dap_run *r)
{
    ff_ctx *ctx = r->ctx;
    const dap_options *o = r->o;
    step_sum s;
    double bytes_per_s = 0;
    ff_dap_set_blocking(ctx, true);
    FF_TRY(measure(r, &s));
    if (o->link_ratio > 0 && s.total.bytes_received > 0)
        FF_TRY(agree_on_link(ctx, s.total.bytes_received / (o->link_ratio * s.work_s), &bytes_per_s));
    if (ff_dap_rank(ctx) == 0)
        print_head(o, ctx, bytes_per_s);
    for (int schedule = SCHEDULE_BLOCKING; schedule <= SCHEDULE_OVERLAPPED; schedule++) {
        if (o->schedule != SCHEDULE_EACH && o->schedule != schedule)
            continue;
        ff_dap_set_blocking(ctx, schedule == SCHEDULE_BLOCKING);
        ff_dap_set_link(ctx, o->link_latency_us * 1e-6, bytes_per_s);
        FF_TRY(measure(r, &s));
        if (ff_dap_rank(ctx) == 0)
            print_step(o, schedule == SCHEDULE_BLOCKING ? "blocking" : "overlapped", &s);
    }
    if (o->trace != NULL)
        FF_TRY(save_trace(ctx, o->trace));
    ff_dap_set_link(ctx, 0, 0);
    return compare_bytes(r);
}

int bench_dap(int argc, char **argv)
{
    ff_ctx ctx;
    dap_options o;
    ff_arguments args;
    ff_context_init(&ctx);
    if (ff_options_parse(&ctx, &program, &o, argc, argv, &args) != FF_OK || args.num_positional > 0) {
        fprintf(stderr, "%s: %s\n", program.name, ctx.status != FF_OK ? ctx.message : "takes options only; see --help");
        return 2;
    }
    if (args.help || args.version) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&program, stdout);
        return 0;
    }
    dap_run r = {.ctx = &ctx, .o = &o};
#ifdef _OPENMP
    omp_set_num_threads((int)o.threads);
#endif
    if (o.plan) {
        double bytes;
        ff_status planned = ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, (ff_dtype)o.dtype);
        if (planned == FF_OK)
            planned = planned_bytes(ctx.kernels, &o, 0, true, &bytes);
        return planned == FF_OK ? 0 : 1;
    }
    ff_status status = ff_dap_init(&ctx, &argc, &argv, (int)o.dap);
    ff_dap_set_wire(&ctx, (ff_dtype)o.wire);
    if (status == FF_OK)
        status = ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, (ff_dtype)o.dtype);
    if (status == FF_OK)
        status = ff_pool_create(&ctx, 0, false);
    if (status == FF_OK)
        status = set_up(&r);
    if (status == FF_OK)
        status = run(&r);
    (void)ff_dap_agree(&ctx);
    if (ctx.status != FF_OK && ff_dap_rank(&ctx) == 0)
        fprintf(stderr, "%s: %s\n", program.name, ctx.message);
    status = ctx.status;
    tear_down(&r);
    ff_tape_destroy(&ctx);
    if (ctx.pool != NULL && ff_pool_get_stats(ctx.pool).in_use == 0)
        ff_pool_destroy(&ctx);
    ff_dap_finalize(&ctx);
    return status == FF_OK ? 0 : status == FF_ERR_ARG ? 2 : 1;
}
