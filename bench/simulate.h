/* simulate.h - the plan-mode record of a run replayed on a described cluster: how long a step takes there, how much of the
 * communication is exposed, and how well it uses the ranks.
 *
 *     time of an operation    launch + scale * max(flop / (efficiency * rate), bytes / (efficiency * memory bandwidth))
 *     time of an exchange     (group - 1) latencies + bytes / bandwidth, inside and between nodes separately; the slower counts
 *     gradient reduction      ring all-reduces, a bucket each, launched as the backward pass proceeds
 *
 * One rank stands for all: they have equal shares (the first rank holds the largest), and no rank waits for a slower one. Links and
 * computation do not slow each other down. Exchanges of a rank run one after the other, in the order they were started. */
#ifndef FF_BENCH_SIMULATE_H
#define FF_BENCH_SIMULATE_H

#include <stdio.h>

#include "tensor/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the cluster ---- */

typedef enum { SIM_F32, SIM_BF16 } sim_dtype;
typedef enum {
    SIM_SWITCH, /* each rank has the whole bandwidth at the same time as the others */
    SIM_BUS     /* the ranks of a node share it */
} sim_topology;

/* What a cluster file (INI) says. Rates are per rank, but for the link between nodes. */
typedef struct {
    const char *name, *source;     /* where the numbers come from */
    int64_t nodes, ranks_per_node;
    double matrix_tflops_f32, matrix_tflops_bf16;
    double matrix_efficiency, memory_efficiency; /* (0, 1]: of the data-sheet figures */
    double memory_gbytes_per_s, memory_gbytes;
    double launch_us;              /* per operation */
    double scale;                  /* measured over modelled time of one rank, launches aside: the fitted figure */
    double inside_gbytes_per_s, inside_latency_us;   /* within a node, one direction */
    int inside_topology;                             /* sim_topology */
    double between_gbytes_per_s, between_latency_us; /* between nodes: of a node, shared by its ranks */
    double oversubscription;       /* >= 1: the between-node bandwidth is divided by it */
    char *text;                    /* owned; the strings point into it */
} sim_cluster;

/** Defaults: one node of one rank, no losses. */
void sim_cluster_init(sim_cluster *cluster);
/** Read a cluster file. FF_ERR_ARG with file and line for what does not parse; FF_ERR_IO. Destroy it also after a failure. */
ff_status sim_cluster_read(ff_ctx *ctx, sim_cluster *cluster, const char *path);
/** Write one that reads back the same. */
void sim_cluster_write(const sim_cluster *cluster, FILE *file);
void sim_cluster_destroy(sim_cluster *cluster);

/* ---- times ---- */

/** Seconds of one operation on one rank. */
double sim_operation_seconds(const sim_cluster *cluster, sim_dtype dtype, double flop, double bytes);

/**
 * Seconds of an exchange in which each of `group` ranks, neighbours in the numbering, sends `bytes` in equal parts to the
 * others (all-to-all, all-gather, reduce-scatter: pairwise or ring, group - 1 rounds). 0 for a group of 1.
 */
double sim_exchange_seconds(const sim_cluster *cluster, int64_t group, double bytes);

/** Seconds of an all-reduce of `bytes` over `ranks`: reduce-scatter and all-gather within the nodes, a ring between them. */
double sim_all_reduce_seconds(const sim_cluster *cluster, int64_t ranks, double bytes);

/* ---- replay ---- */

typedef enum {
    SIM_BLOCKING, /* the model code of today: every exchange begins and ends in a row, gradients after the backward pass */
    SIM_FASTFOLD, /* FastFold: the MSA's way back runs behind the pair stack; operand gathers behind one matrix product */
    SIM_OURS      /* launch early, wait late, slices; incoming update without its two exchanges; gradients in buckets */
} sim_schedule;

/** "blocking", "fastfold", "ours". */
const char *sim_schedule_name(sim_schedule schedule);

typedef struct {
    int64_t dap_size, data_size;
    sim_schedule schedule;
    sim_dtype dtype;         /* of matrix operands, activations and what is sent; the record is in float32 */
    int64_t num_seq, num_res; /* how an operation's time splits into projections and products */
    double parameter_bytes;  /* gradients reduced after a backward pass; 0 = none */
    double extra_forward;    /* forward passes without tape before this one: mean number of recycling passes */
} sim_run;

typedef struct {
    double step_s;
    double compute_s;        /* of which computation */
    double exposed_s;        /* waiting for exchanges of DAP */
    double exchange_s;       /* their time on the link, hidden or not */
    double reduce_s, reduce_exposed_s; /* gradient reduction */
    double bytes_sent;       /* by a rank, DAP */
    double flop;             /* of a rank */
} sim_result;

/**
 * Replay a record of one rank of run->dap_size.
 *
 * @param records  [count]  one step: forward, then backward (with what is computed again) if there is one
 * @param forward  [num_forward]  one forward pass without tape, for extra_forward; may be NULL with extra_forward 0
 * @return FF_ERR_MEM; FF_ERR_ARG when the cluster has fewer ranks than the run
 */
ff_status sim_replay(ff_ctx *ctx, const sim_cluster *cluster, const sim_run *run, const ff_plan_record *records, int64_t count,
                     const ff_plan_record *forward, int64_t num_forward, sim_result *result);

/** The command: `simulate` and its options, without the program's name. @return the exit status. */
int bench_simulate(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
