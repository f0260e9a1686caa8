/* simulate_replay.c - what a schedule does with each exchange of a record, and the clock.
 *
 * Contents: the parts of an operation; the schedules; the clock; the gradients; the step.
 *
 * An exchange is started at one point of the computation and waited for at another; a point is (operation, share of its time). With
 * slices it starts earlier: what the share `sliced` before the starting point makes is sent as it becomes ready. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/simulate.h"

enum { SLICES = 4, GRADIENT_BUCKETS = 25 };

/* ---- the parts of an operation ---- */

/* Of the FLOP of an operation, how much is not products over the exchanged axis: projections (as the plan counts them). */
static double projection_share(const sim_run *run, const char *name)
{
    const double s = (double)run->num_seq, r = (double)run->num_res;
    if (strncmp(name, "triangle_multiplication", 23) == 0)
        return 196608 / (196608 + 256 * r);
    if (strncmp(name, "triangle_attention", 18) == 0)
        return 131072 / (164864 + 512 * r); /* query, key, value, gate */
    if (strncmp(name, "msa_row_attention", 17) == 0)
        return 524288 / (655360 + 1024 * r);
    if (strcmp(name, "outer_product_mean") == 0)
        return 32768 / (32768 + 2048 * r + 262144 * r / s);
    return 0;
}

static bool is_triangle_update(const char *name) { return strncmp(name, "triangle_multiplication", 23) == 0; }

/* ---- the schedules ---- */

typedef struct {
    int64_t op;
    double share;
} point;

typedef struct {
    point start, wait;
    double sliced; /* share of the starting operation before `start` */
    double seconds, bytes;
    double copy_s; /* of the rank: half of it packs before the start, half unpacks after the wait */
    double end_s;  /* while the clock runs */
} exchange;

typedef struct {
    const char *name;
    bool backward;
    double seconds;
} operation;

typedef struct {
    operation *ops;
    exchange *exchanges;
    int64_t num_ops, num_exchanges;
    double flop;
} timeline;

static bool is_exchange(const ff_plan_record *r) { return r->bytes_sent > 0; }

static bool named(const timeline *t, int64_t op, const char *prefix)
{
    return op >= 0 && op < t->num_ops && strncmp(t->ops[op].name, prefix, strlen(prefix)) == 0;
}

/* The next operation from `op` on (in steps of `step`) that reads the MSA the row attention reads; the ends of the record too. */
static int64_t find_row_attention(const timeline *t, int64_t op, int64_t step, bool backward)
{
    int64_t i = op;
    while (i > 0 && i < t->num_ops - 1 && !(named(t, i, "msa_row_attention") && t->ops[i].backward == backward) &&
           t->ops[i].backward == backward)
        i += step;
    return i;
}

/* The MSA's way back to rows: after the outer product, and its dual right before the backward of it. */
static bool is_msa_way_back(const timeline *t, int64_t next)
{
    return (named(t, next - 1, "outer_product_mean") && !t->ops[next - 1].backward && is_triangle_update(t->ops[next].name)) ||
           (named(t, next, "outer_product_mean") && t->ops[next].backward && named(t, next - 1, "triangle_multiplication"));
}

static void run_behind_pair_stack(const timeline *t, exchange *e, int64_t next)
{
    if (!t->ops[next].backward) {
        e->wait = (point){find_row_attention(t, next, 1, false), 0};
    } else {
        e->start = (point){find_row_attention(t, next, -1, true), 1};
        e->wait = (point){next, 0};
    }
}

/* Exchanges inside an operation: its record comes after theirs. `gate`: the share that one matrix product takes. */
static void schedule_operand(const sim_run *run, const timeline *t, exchange *e, int64_t next, const char *kind)
{
    const double projections = projection_share(run, t->ops[next].name);
    const double part = projections / (is_triangle_update(t->ops[next].name) ? 6 : 2); /* one of its equal projections */
    const bool sum = strcmp(kind, "reduce_scatter") == 0;
    if (run->schedule == SIM_FASTFOLD && !sum) { /* one operand, then one product while it is gathered */
        const double before = is_triangle_update(t->ops[next].name) ? 2 * part : part;
        e->start = (point){next, before};
        e->wait = (point){next, before + part};
    } else if (run->schedule == SIM_OURS && !sum) { /* channel slices: the product of one while the next is on its way */
        e->start = (point){next, 2 * part};
        e->sliced = 2 * part;
        e->wait = (point){next, 1 - (1 - projections) / SLICES};
    } else if (run->schedule == SIM_OURS) { /* products first; the other operand's projections meanwhile */
        e->start = (point){next, 1 - projections};
        e->sliced = 1 - projections;
        e->wait = (point){next, 1 - projections / 2};
    }
}

/* Where one exchange between operations next - 1 and next starts and is waited for. */
static void schedule_exchange(const sim_run *run, const timeline *t, exchange *e, int64_t next, const char *kind)
{
    e->start = (point){next - 1, 1};
    e->wait = (point){next, 0};
    e->sliced = 0;
    if (run->schedule == SIM_BLOCKING || next == 0 || next == t->num_ops)
        return;
    const bool operand = named(t, next, "triangle_multiplication") || named(t, next, "outer_product_mean");
    if (strcmp(kind, "all_gather_operand") == 0 || (strcmp(kind, "reduce_scatter") == 0 && operand))
        schedule_operand(run, t, e, next, kind);
    else if (strcmp(kind, "all_to_all") == 0 && is_msa_way_back(t, next))
        run_behind_pair_stack(t, e, next);
    else if (run->schedule != SIM_OURS)
        return;
    else if (strcmp(kind, "all_to_all") == 0)
        e->sliced = 1; /* rows leave as they are finished */
    else if (strcmp(kind, "all_gather") == 0 && !t->ops[next].backward)
        e->wait.share = projection_share(run, t->ops[next].name); /* the bias is wanted by the softmax */
}

/* Ours updates the incoming edges without leaving the row layout (partial sums are reduced instead of an operand gathered, as many
 * bytes): the two exchanges around it fall away. */
static bool falls_away(const sim_run *run, const timeline *t, int64_t next, const char *kind)
{
    return run->schedule == SIM_OURS && strcmp(kind, "all_to_all") == 0 && !is_msa_way_back(t, next) &&
           (named(t, next, "triangle_multiplication_incoming") || named(t, next - 1, "triangle_multiplication_incoming"));
}

static void add_exchange(const sim_cluster *c, const sim_run *run, timeline *t, const ff_plan_record *r)
{
    const double narrow = run->dtype == SIM_BF16 ? 0.5 : 1, bytes = r->bytes_sent * narrow;
    t->exchanges[t->num_exchanges++] =
        (exchange){.bytes = bytes, .seconds = sim_exchange_seconds(c, run->dap_size, bytes),
                   .copy_s = sim_operation_seconds(c, run->dtype, 0, r->bytes_moved * narrow)};
}

/* Operations and the exchanges before each; which of them stay is known once the next operation is. */
static void lay_out(const sim_cluster *c, const sim_run *run, timeline *t, const ff_plan_record *records, int64_t count)
{
    for (int64_t i = 0; i < count; i++) /* names first: schedules look at neighbours */
        if (!is_exchange(&records[i])) {
            t->ops[t->num_ops++] = (operation){
                .name = records[i].name, .backward = records[i].backward,
                .seconds = sim_operation_seconds(c, run->dtype, records[i].flop,
                                                 records[i].bytes_moved * (run->dtype == SIM_BF16 ? 0.5 : 1))};
            t->flop += records[i].flop;
        }
    int64_t op = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!is_exchange(&records[i])) {
            op++;
            continue;
        }
        if (falls_away(run, t, op, records[i].name))
            continue;
        add_exchange(c, run, t, &records[i]);
        schedule_exchange(run, t, &t->exchanges[t->num_exchanges - 1], op, records[i].name);
    }
}

/* ---- the clock ---- */

typedef struct {
    double now, link_free, exposed;
} clock_state;

static int before(point a, point b) { return a.op < b.op || (a.op == b.op && a.share < b.share); }

/* Start an exchange at its point, which is now. */
static void start(clock_state *k, const timeline *t, exchange *e)
{
    const double made_s = e->start.op < 0 ? 0 : e->sliced * t->ops[e->start.op].seconds;
    const double first_ready = k->now - made_s * (SLICES - 1) / SLICES;
    const double busy = fmax(k->link_free, first_ready) + e->seconds;
    e->end_s = e->sliced > 0 ? fmax(busy, k->now + e->seconds / SLICES) : fmax(k->link_free, k->now) + e->seconds;
    k->link_free = e->end_s;
}

/* The exchange whose next event (start, or wait once it has started) comes first; -1 when none is left. Started ones have end_s >= 0. */
static int64_t next_event(const exchange *e, int64_t first, int64_t last, const bool *done)
{
    int64_t best = -1;
    for (int64_t i = first; i < last; i++) {
        if (done[i])
            continue;
        const point p = e[i].end_s < 0 ? e[i].start : e[i].wait;
        if (best < 0 || before(p, e[best].end_s < 0 ? e[best].start : e[best].wait))
            best = i;
    }
    return best;
}

/* Run all operations; events of an operation in the order of their points. */
static void run_clock(clock_state *k, timeline *t, bool *done)
{
    int64_t low = 0; /* exchanges below are done */
    point at = {-1, 1};
    for (int64_t i = 0; i < t->num_exchanges; i++)
        t->exchanges[i].end_s = -1;
    for (;;) {
        while (low < t->num_exchanges && done[low])
            low++;
        const int64_t i = next_event(t->exchanges, low, t->num_exchanges, done);
        const point p = i < 0 ? (point){t->num_ops, 0} : t->exchanges[i].end_s < 0 ? t->exchanges[i].start : t->exchanges[i].wait;
        while (at.op < p.op && at.op < t->num_ops) { /* to the end of this operation, then on */
            k->now += at.op < 0 ? 0 : (1 - at.share) * t->ops[at.op].seconds;
            at = (point){at.op + 1, 0};
        }
        if (at.op == p.op && at.op >= 0 && at.op < t->num_ops && p.share > at.share) {
            k->now += (p.share - at.share) * t->ops[at.op].seconds;
            at = p;
        }
        if (i < 0)
            return;
        exchange *e = &t->exchanges[i];
        if (e->end_s < 0) {
            k->now += e->copy_s / 2;
            start(k, t, e);
        } else {
            k->exposed += fmax(0, e->end_s - k->now);
            k->now = fmax(k->now, e->end_s) + e->copy_s / 2;
            done[i] = true;
        }
    }
}

/* ---- one record ---- */

static ff_status replay(ff_ctx *ctx, const sim_cluster *c, const sim_run *run, const ff_plan_record *records, int64_t count,
                        sim_result *sum, double weight, double *backward_s)
{
    timeline t = {.ops = calloc((size_t)count + 1, sizeof *t.ops), .exchanges = calloc((size_t)count + 1, sizeof *t.exchanges)};
    bool *done = calloc((size_t)count + 1, sizeof *done);
    ff_status status = FF_OK;
    if (t.ops == NULL || t.exchanges == NULL || done == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the replay of %lld records", (long long)count);
        goto end;
    }
    lay_out(c, run, &t, records, count);
    clock_state k = {0};
    run_clock(&k, &t, done);
    bool backward = false;
    for (int64_t i = 0; i < t.num_ops; i++) {
        backward = backward || t.ops[i].backward;
        sum->compute_s += weight * t.ops[i].seconds;
        *backward_s += backward ? t.ops[i].seconds : 0;
    }
    for (int64_t i = 0; i < t.num_exchanges; i++) {
        sum->exchange_s += weight * t.exchanges[i].seconds;
        sum->compute_s += weight * t.exchanges[i].copy_s;
        sum->bytes_sent += weight * t.exchanges[i].bytes;
    }
    sum->step_s += weight * k.now;
    sum->exposed_s += weight * k.exposed;
    sum->flop += weight * t.flop;
end:
    free(t.ops);
    free(t.exchanges);
    free(done);
    return status;
}

/* ---- the gradients ---- */

/* Buckets become ready evenly over the backward pass, are reduced one after the other, and the last ones are waited for. */
static void reduce_gradients(const sim_cluster *c, const sim_run *run, double backward_s, sim_result *sum)
{
    const int64_t ranks = run->dap_size * run->data_size;
    if (ranks == 1 || run->parameter_bytes <= 0)
        return;
    const double bucket_s = sim_all_reduce_seconds(c, ranks, run->parameter_bytes / GRADIENT_BUCKETS);
    sum->reduce_s = GRADIENT_BUCKETS * bucket_s;
    double end = 0;
    for (int i = 1; i <= GRADIENT_BUCKETS; i++) {
        const double ready = run->schedule == SIM_BLOCKING ? backward_s : backward_s * i / GRADIENT_BUCKETS;
        end = fmax(end, ready) + bucket_s;
    }
    sum->reduce_exposed_s = fmax(0, end - backward_s);
    sum->step_s += sum->reduce_exposed_s;
}

/* ---- the step ---- */

const char *sim_schedule_name(sim_schedule schedule)
{
    return schedule == SIM_FASTFOLD ? "fastfold" : schedule == SIM_OURS ? "ours" : "blocking";
}

ff_status sim_replay(ff_ctx *ctx, const sim_cluster *cluster, const sim_run *run, const ff_plan_record *records, int64_t count,
                     const ff_plan_record *forward, int64_t num_forward, sim_result *result)
{
    double backward_s = 0, none = 0;
    *result = (sim_result){0};
    if (run->dap_size * run->data_size > cluster->nodes * cluster->ranks_per_node)
        return FF_FAIL(ctx, FF_ERR_ARG, "%lld x %lld ranks do not fit on the cluster's %lld nodes of %lld: change --dap, --data-parallel or the file",
                       (long long)run->data_size, (long long)run->dap_size, (long long)cluster->nodes,
                       (long long)cluster->ranks_per_node);
    FF_TRY(replay(ctx, cluster, run, records, count, result, 1, &backward_s));
    if (run->extra_forward > 0)
        FF_TRY(replay(ctx, cluster, run, forward, num_forward, result, run->extra_forward, &none));
    reduce_gradients(cluster, run, backward_s, result);
    return FF_OK;
}
