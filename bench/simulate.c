#include "bench/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "core/options.h"
#include "io/text_file.h"

/* ---- the cluster ---- */

#define NUMBER(name_, member, default_, range, group, help)                                                            \
    {                                                                                                                  \
        name_, FF_OPTION_DOUBLE, offsetof(sim_cluster, member), default_, range, group, help                           \
    }

static const ff_option cluster_table[] = {
    {"name", FF_OPTION_STRING, offsetof(sim_cluster, name), "one rank", NULL, "cluster", "what it is"},
    {"source", FF_OPTION_STRING, offsetof(sim_cluster, source), "", NULL, "cluster", "where the numbers come from"},
    {"nodes", FF_OPTION_INT64, offsetof(sim_cluster, nodes), "1", "1..", "cluster", "nodes"},
    {"ranks-per-node", FF_OPTION_INT64, offsetof(sim_cluster, ranks_per_node), "1", "1..", "cluster", "ranks of a node"},
    NUMBER("matrix-tflops-f32", matrix_tflops_f32, "1", "1e-9..", "rank", "matrix products in float32, 1e12 FLOP/s"),
    NUMBER("matrix-tflops-bf16", matrix_tflops_bf16, "1", "1e-9..", "rank", "in bfloat16"),
    NUMBER("matrix-efficiency", matrix_efficiency, "1", "1e-9..1", "rank", "fraction of that which products reach"),
    NUMBER("memory-gbytes-per-s", memory_gbytes_per_s, "1000", "1e-9..", "rank", "memory bandwidth, 1e9 bytes/s"),
    NUMBER("memory-efficiency", memory_efficiency, "1", "1e-9..1", "rank", "fraction of that which is reached"),
    NUMBER("memory-gbytes", memory_gbytes, "0", "0..", "rank", "memory, 1e9 bytes; 0 = not known"),
    NUMBER("launch-us", launch_us, "0", "0..", "rank", "before each operation, microseconds"),
    NUMBER("scale", scale, "1", "1e-9..", "rank", "measured over modelled time of an operation, launch aside"),
    NUMBER("inside-gbytes-per-s", inside_gbytes_per_s, "1000", "1e-9..", "link", "a rank to others of its node, 1e9 bytes/s"),
    NUMBER("inside-latency-us", inside_latency_us, "0", "0..", "link", "of a message, microseconds"),
    {"inside-topology", FF_OPTION_ENUM, offsetof(sim_cluster, inside_topology), "switch", "switch|bus", "link",
     "switch: every rank has that bandwidth at once; bus: they share it"},
    NUMBER("between-gbytes-per-s", between_gbytes_per_s, "1000", "1e-9..", "link", "a node to others, shared by its ranks"),
    NUMBER("between-latency-us", between_latency_us, "0", "0..", "link", "of a message, microseconds"),
    NUMBER("oversubscription", oversubscription, "1", "1..", "link", "nodes' bandwidth over that of the tree above them"),
    FF_OPTION_END};

static const ff_program cluster_program = {"cluster file", "", "", cluster_table};

void sim_cluster_init(sim_cluster *cluster)
{
    *cluster = (sim_cluster){0};
    ff_options_set_defaults(&cluster_program, cluster);
}

ff_status sim_cluster_read(ff_ctx *ctx, sim_cluster *cluster, const char *path)
{
    size_t size;
    sim_cluster_init(cluster);
    FF_TRY(ff_text_read_all(ctx, path, &cluster->text, &size));
    return ff_options_read_ini(ctx, &cluster_program, cluster, cluster->text, path);
}

void sim_cluster_write(const sim_cluster *cluster, FILE *file) { ff_options_write_ini(&cluster_program, cluster, file); }

void sim_cluster_destroy(sim_cluster *cluster)
{
    free(cluster->text);
    cluster->text = NULL;
}

/* ---- times ---- */

double sim_operation_seconds(const sim_cluster *c, sim_dtype dtype, double flop, double bytes)
{
    const double tflops = dtype == SIM_BF16 ? c->matrix_tflops_bf16 : c->matrix_tflops_f32;
    const double matrix_s = flop / (1e12 * tflops * c->matrix_efficiency);
    const double memory_s = bytes / (1e9 * c->memory_gbytes_per_s * c->memory_efficiency);
    return 1e-6 * c->launch_us + c->scale * fmax(matrix_s, memory_s);
}

/* Of the peers of the rank that has fewest of them near: how many are on its node. */
static int64_t near_peers(const sim_cluster *c, int64_t group)
{
    const int64_t per_node = c->ranks_per_node;
    if (c->nodes == 1 || group == 1)
        return group - 1;
    if (group >= per_node)
        return per_node - 1;
    const int64_t first = per_node % group; /* of a group that begins at the end of a node */
    return first == 0 ? group - 1 : (first < group - first ? first : group - first) - 1;
}

static double inside_rate(const sim_cluster *c, int64_t active)
{
    return 1e9 * c->inside_gbytes_per_s / (c->inside_topology == SIM_BUS ? (double)active : 1);
}

/* What one rank gets of its node's link while `active` of the node send. */
static double between_rate(const sim_cluster *c, int64_t active)
{
    return 1e9 * c->between_gbytes_per_s / c->oversubscription / (double)active;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

double sim_exchange_seconds(const sim_cluster *c, int64_t group, double bytes)
{
    if (group <= 1)
        return 0;
    const int64_t near = near_peers(c, group), far = group - 1 - near, active = at_most(group, c->ranks_per_node);
    const double each = bytes / (double)(group - 1);
    const double inside_s = near == 0 ? 0 : (double)near * (1e-6 * c->inside_latency_us + each / inside_rate(c, active));
    const double between_s = far == 0 ? 0 : (double)far * (1e-6 * c->between_latency_us + each / between_rate(c, active));
    return fmax(inside_s, between_s);
}

double sim_all_reduce_seconds(const sim_cluster *c, int64_t ranks, double bytes)
{
    const int64_t near = at_most(ranks, c->ranks_per_node), nodes = (ranks + near - 1) / near;
    const double within = bytes * (double)(near - 1) / (double)near;
    double seconds = 0;
    if (near > 1) /* reduce-scatter, later all-gather */
        seconds += 2 * ((double)(near - 1) * 1e-6 * c->inside_latency_us + within / inside_rate(c, near));
    if (nodes > 1) /* every rank's part around a ring of nodes, all at once */
        seconds += 2 * (double)(nodes - 1) * (1e-6 * c->between_latency_us + bytes / (double)(nodes * near) / between_rate(c, near));
    return seconds;
}
