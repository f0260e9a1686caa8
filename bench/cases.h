/* cases.h - what the commands `data` and `train` of fastfold-bench share: their options, the clock, the output, and made-up inputs.
 *
 * A case is one thing measured that is no kernel and no module: a reader, the loader, the optimiser, a training step. */
#ifndef FF_BENCH_CASES_H
#define FF_BENCH_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_ctx *ctx;            /* with kernels and a pool */
    const char *command;    /* "data" or "train" */
    int64_t repeat;         /* timed runs of a case */
    bool json;
    bool quick;             /* do not measure the machine's own peaks */
    const char *a3m;        /* alignment to read; NULL = one is made */
    const char *data_dir;   /* folder of mmCIF files; NULL = that case is left out */
    const char *dataset;    /* training set to load from; NULL = one is made */
    int64_t num_chains;     /* of the made training set */
    int64_t num_samples;    /* of the loader cases; 0 = as many as there are chains */
    int64_t num_steps;      /* of the training cases */
    int64_t num_seq, num_res; /* of the loss cases */
    int64_t blocks;         /* Evoformer blocks of the optimiser's model_1_ptm; 0 = its 48 */
    const char *presets;    /* whose training steps are timed, joined by ',' */
} bench_cases;

/** The command `data`: alignments, structure files, features to batches, the loader. */
ff_status bench_data(const bench_cases *cases);
/** The command `train`: the optimiser, every loss, whole training steps. */
ff_status bench_train(const bench_cases *cases);

/* ---- clock and output ---- */

typedef struct {
    double median, least;
} bench_seconds;

typedef ff_status (*bench_case_fn)(ff_ctx *ctx, void *arg);

/** Seconds of `repeat` calls after one that warms up. */
ff_status bench_time(const bench_cases *cases, bench_case_fn fn, void *arg, bench_seconds *seconds);
/** The same of times taken elsewhere; sorts them. */
bench_seconds bench_summary(double *seconds, int64_t count);

/* One more number of a case. */
typedef struct {
    const char *key;  /* in JSON */
    const char *unit; /* in the table: "MB/s" */
    double value;
} bench_figure;

void bench_print_heads(const bench_cases *cases);
/** One line: {"op": command, "case": name, "seconds_median": ...} or a row of the table. `count` figures. */
void bench_print_case(const bench_cases *cases, const char *name, bench_seconds seconds, int count,
                      const bench_figure *figures);
#define BENCH_FIGURES(...)                                                                                             \
    (int)(sizeof((bench_figure[]){__VA_ARGS__}) / sizeof(bench_figure)), (const bench_figure[]) { __VA_ARGS__ }

/* ---- made-up inputs (made_chains.c) ---- */

/** Write an alignment as searches give them: rows alike to the query to 30-90 %, stretches of gaps, insertions. */
ff_status bench_write_a3m(ff_ctx *ctx, const char *path, int64_t num_seq, int64_t num_res);

/* A chain with all its atoms: bonds as in proteins, torsions at random. */
typedef struct {
    int64_t num_res;
    int32_t *aatype, *residue_index;
    float *positions; /* [num_res, 37, 3] Å */
    float *mask;      /* [num_res, 37] */
} bench_chain;

/** A pure function of number and length. Release with bench_chain_destroy. */
ff_status bench_chain_make(ff_ctx *ctx, bench_chain *chain, int64_t num_res, uint64_t number);
void bench_chain_destroy(bench_chain *chain);

/** A training set of made-up chains, of lengths from min_res to max_res, `rows` rows of alignment each. */
ff_status bench_write_dataset(ff_ctx *ctx, const char *path, int64_t num_chains, int64_t min_res, int64_t max_res,
                              int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
