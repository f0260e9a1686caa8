#include "tensor/plan.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/pool.h"

struct ff_plan {
    ff_plan_record *records;
    int64_t count, capacity;
};

ff_status ff_plan_create(ff_ctx *ctx)
{
    ctx->plan = calloc(1, sizeof *ctx->plan);
    return ctx->plan != NULL ? FF_OK : FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the plan");
}

void ff_plan_destroy(ff_ctx *ctx)
{
    if (ctx->plan == NULL)
        return;
    free(ctx->plan->records);
    free(ctx->plan);
    ctx->plan = NULL;
}

void ff_plan_add(ff_ctx *ctx, const char *name, bool backward, double flop, double bytes_moved, double bytes_kept,
                 double bytes_sent)
{
    ff_plan *plan = ctx->plan;
    if (plan == NULL || ctx->status != FF_OK)
        return;
    if (plan->count == plan->capacity) {
        const int64_t capacity = plan->capacity == 0 ? 256 : 2 * plan->capacity;
        ff_plan_record *grown = realloc(plan->records, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the plan");
            return;
        }
        plan->records = grown;
        plan->capacity = capacity;
    }
    const size_t in_use = ctx->pool == NULL ? 0 : ff_pool_get_stats(ctx->pool).in_use;
    plan->records[plan->count++] =
        (ff_plan_record){name, backward, flop, bytes_moved, bytes_kept, bytes_sent, in_use};
}

int64_t ff_plan_count(const ff_plan *plan) { return plan->count; }
const ff_plan_record *ff_plan_get(const ff_plan *plan, int64_t index) { return &plan->records[index]; }

static void merge(ff_plan_record *sum, const ff_plan_record *r)
{
    sum->flop += r->flop;
    sum->bytes_moved += r->bytes_moved;
    sum->bytes_kept += r->bytes_kept;
    sum->bytes_sent += r->bytes_sent;
    if (r->in_use > sum->in_use)
        sum->in_use = r->in_use;
}

ff_plan_record ff_plan_total(const ff_ctx *ctx)
{
    ff_plan_record sum = {.name = "total"};
    for (int64_t i = 0; i < ctx->plan->count; i++)
        merge(&sum, &ctx->plan->records[i]);
    sum.in_use = ctx->pool == NULL ? 0 : ff_pool_get_stats(ctx->pool).peak;
    return sum;
}

static void print_record(FILE *file, bool json, const ff_plan_record *r, int64_t calls)
{
    const char *pass = r->backward ? "backward" : "forward";
    if (json)
        fprintf(file,
                "{\"op\": \"%s\", \"pass\": \"%s\", \"calls\": %lld, \"flop\": %.0f, \"bytes_moved\": %.0f, "
                "\"bytes_kept\": %.0f, \"bytes_sent\": %.0f, \"in_use\": %zu}\n",
                r->name, pass, (long long)calls, r->flop, r->bytes_moved, r->bytes_kept, r->bytes_sent, r->in_use);
    else
        fprintf(file, "%-42s %-8s %5lld %11.3f %11.1f %11.1f %11.1f %11.1f\n", r->name, pass, (long long)calls,
                r->flop * 1e-9, r->bytes_moved * 1e-6, r->bytes_kept * 1e-6, r->bytes_sent * 1e-6,
                (double)r->in_use * 1e-6);
}

void ff_plan_print(const ff_ctx *ctx, FILE *file, bool json)
{
    const ff_plan *plan = ctx->plan;
    if (!json)
        fprintf(file, "%-42s %-8s %5s %11s %11s %11s %11s %11s\n", "operation", "pass", "calls", "GFLOP", "MB moved",
                "MB kept", "MB sent", "MB in use");
    for (int64_t i = 0; i < plan->count; i++) {
        ff_plan_record sum = plan->records[i];
        int64_t calls = 1;
        bool earlier = false;
        for (int64_t j = 0; j < i && !earlier; j++)
            earlier = plan->records[j].backward == sum.backward && strcmp(plan->records[j].name, sum.name) == 0;
        if (earlier)
            continue;
        for (int64_t j = i + 1; j < plan->count; j++)
            if (plan->records[j].backward == sum.backward && strcmp(plan->records[j].name, sum.name) == 0) {
                merge(&sum, &plan->records[j]);
                calls++;
            }
        print_record(file, json, &sum, calls);
    }
    const ff_plan_record total = ff_plan_total(ctx);
    if (json)
        fprintf(file, "{\"op\": \"total\", \"calls\": %lld, \"flop\": %.0f, \"bytes_moved\": %.0f, "
                      "\"bytes_kept\": %.0f, \"bytes_sent\": %.0f, \"peak_bytes\": %zu}\n",
                (long long)plan->count, total.flop, total.bytes_moved, total.bytes_kept, total.bytes_sent,
                total.in_use);
    else
        fprintf(file, "%-42s %-8s %5lld %11.3f %11.1f %11.1f %11.1f %11.1f\n", "total (in use: peak)", "",
                (long long)plan->count, total.flop * 1e-9, total.bytes_moved * 1e-6, total.bytes_kept * 1e-6,
                total.bytes_sent * 1e-6, (double)total.in_use * 1e-6);
}
