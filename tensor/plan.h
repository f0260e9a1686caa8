/* plan.h - what a run costs, recorded operation by operation, with or without computing it.
 *
 * With ctx->plan set, every operation adds a record. In plan mode (dry pool) nothing is computed: the same model code
 * runs on shapes alone, and the peak is what the pool would have reached. */
#ifndef FF_TENSOR_PLAN_H
#define FF_TENSOR_PLAN_H

#include <stdio.h>

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_plan_record {
    const char *name; /* operation, by AlphaFold's module name where it is one */
    bool backward;
    double flop;          /* multiply + add = 2, matrix products as in costs (recomputation not counted in forward) */
    double bytes_moved;   /* least traffic: inputs read and outputs written once */
    double bytes_kept;    /* left on the tape */
    double bytes_sent;    /* by this rank */
    size_t in_use;        /* pool, after the operation */
} ff_plan_record;

typedef struct ff_plan ff_plan;

ff_status ff_plan_create(ff_ctx *ctx); /* installs ctx->plan */
void ff_plan_destroy(ff_ctx *ctx);
/** Add a record; does nothing when ctx->plan is NULL. */
void ff_plan_add(ff_ctx *ctx, const char *name, bool backward, double flop, double bytes_moved, double bytes_kept,
                 double bytes_sent);
int64_t ff_plan_count(const ff_plan *plan);
const ff_plan_record *ff_plan_get(const ff_plan *plan, int64_t index);
/** Sum over all records; the peak of ctx's pool goes to in_use. */
ff_plan_record ff_plan_total(const ff_ctx *ctx);
/** Table (or JSON lines) of records merged by name and pass. */
void ff_plan_print(const ff_ctx *ctx, FILE *file, bool json);

#ifdef __cplusplus
}
#endif
#endif
