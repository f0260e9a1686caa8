/* The simulator: times worked out by hand on small clusters and records, what must hold for any, and the model's own record. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/simulate.h"
#include "io/safe_file.h"
#include "tests/check.h"

static ff_ctx ctx;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32), FF_OK);
}

static void tear_down(void) {}

#define CHECK_NUMBER(got, want) CU_ASSERT_DOUBLE_EQUAL(got, want, 1e-9 * fabs((double)(want)) + 1e-15)

/* 2 nodes of 4 ranks: 1e12 FLOP/s, 1e9 bytes/s memory, 1e9 bytes/s inside after 1 ms, 0.5e9 bytes/s a node between after 2 ms. */
static sim_cluster small_cluster(void)
{
    sim_cluster c;
    sim_cluster_init(&c);
    c.nodes = 2;
    c.ranks_per_node = 4;
    c.memory_gbytes_per_s = c.inside_gbytes_per_s = 1;
    c.inside_latency_us = 1000;
    c.between_gbytes_per_s = 0.5;
    c.between_latency_us = 2000;
    return c;
}

/* ---- times ---- */

static void test_operations(void)
{
    sim_cluster c = small_cluster();
    CHECK_NUMBER(sim_operation_seconds(&c, SIM_F32, 3e12, 1e9), 3); /* computation is the slower */
    CHECK_NUMBER(sim_operation_seconds(&c, SIM_F32, 3e12, 5e9), 5); /* memory is */
    c.matrix_efficiency = 0.5;
    c.matrix_tflops_bf16 = 4;
    c.launch_us = 1e6;
    c.scale = 2;
    CHECK_NUMBER(sim_operation_seconds(&c, SIM_F32, 3e12, 0), 1 + 2 * 6);
    CHECK_NUMBER(sim_operation_seconds(&c, SIM_BF16, 3e12, 0), 1 + 2 * 1.5);
    c.memory_efficiency = 0.25;
    CHECK_NUMBER(sim_operation_seconds(&c, SIM_BF16, 0, 1e9), 1 + 2 * 4);
}

static void test_exchanges(void)
{
    sim_cluster c = small_cluster();
    CHECK_NUMBER(sim_exchange_seconds(&c, 1, 1e9), 0);
    CHECK_NUMBER(sim_exchange_seconds(&c, 2, 1e9), 0.001 + 1);
    CHECK_NUMBER(sim_exchange_seconds(&c, 4, 3e9), 3 * (0.001 + 1));
    /* 8 ranks: 1e9 bytes to each; 4 peers elsewhere, each over a quarter of 0.5e9 bytes/s; the 3 near ones are done sooner */
    CHECK_NUMBER(sim_exchange_seconds(&c, 8, 7e9), 4 * (0.002 + 8));
    /* 3 do not divide 4: a group lies across two nodes, and the lonely rank sends all it has over a third of the link */
    CHECK_NUMBER(sim_exchange_seconds(&c, 3, 2e9), 2 * (0.002 + 6));
    c.oversubscription = 2;
    CHECK_NUMBER(sim_exchange_seconds(&c, 8, 7e9), 4 * (0.002 + 16));
    c.inside_topology = SIM_BUS;
    CHECK_NUMBER(sim_exchange_seconds(&c, 4, 3e9), 3 * (0.001 + 4));
}

static void test_all_reduces(void)
{
    const sim_cluster c = small_cluster();
    CHECK_NUMBER(sim_all_reduce_seconds(&c, 1, 4e9), 0);
    /* reduce-scatter and all-gather of 4 ranks: 3 messages of 1e9 bytes each */
    CHECK_NUMBER(sim_all_reduce_seconds(&c, 4, 4e9), 2 * (3 * 0.001 + 3));
    /* and a ring of 2 nodes: 0.5e9 bytes there and back, at a quarter of 0.5e9 bytes/s */
    CHECK_NUMBER(sim_all_reduce_seconds(&c, 8, 4e9), 2 * (3 * 0.001 + 3) + 2 * (0.002 + 4));
}

/* ---- replay ---- */

static ff_plan_record compute(const char *name, bool backward, double seconds)
{
    return (ff_plan_record){.name = name, .backward = backward, .flop = 1e12 * seconds};
}

static ff_plan_record exchange(const char *name, bool backward, double seconds) /* for 2 ranks without latency */
{
    return (ff_plan_record){.name = name, .backward = backward, .bytes_sent = 1e9 * seconds};
}

/* The forward half of a block in the order of the model code, the later way back of the MSA included. */
static int make_block(ff_plan_record *r)
{
    int n = 0;
    r[n++] = compute("msa_row_attention_with_pair_bias", false, 4);
    r[n++] = exchange("all_to_all", false, 2);
    r[n++] = compute("msa_transition", false, 4);
    r[n++] = compute("outer_product_mean", false, 4);
    r[n++] = exchange("all_to_all", false, 5);
    r[n++] = compute("triangle_multiplication_outgoing", false, 8);
    r[n++] = exchange("all_to_all", false, 2);
    r[n++] = compute("triangle_multiplication_incoming", false, 8);
    r[n++] = exchange("all_to_all", false, 2);
    r[n++] = compute("pair_transition", false, 4);
    return n;
}

static sim_result run_block(sim_schedule schedule, const ff_plan_record *records, int n)
{
    sim_cluster c = small_cluster();
    c.inside_latency_us = 0;
    const sim_run run = {.dap_size = 2, .data_size = 1, .schedule = schedule, .num_seq = 128, .num_res = 256};
    sim_result r;
    CU_ASSERT_EQUAL_FATAL(sim_replay(&ctx, &c, &run, records, n, NULL, 0, &r), FF_OK);
    CHECK_NUMBER(r.step_s, r.compute_s + r.exposed_s + r.reduce_exposed_s);
    return r;
}

static void test_schedules_on_a_block(void)
{
    ff_plan_record records[16];
    const int n = make_block(records);
    const sim_result blocking = run_block(SIM_BLOCKING, records, n);
    CHECK_NUMBER(blocking.compute_s, 32);
    CHECK_NUMBER(blocking.exposed_s, 11);
    CHECK_NUMBER(blocking.bytes_sent, 11e9);
    /* 5 s behind the first 8 of the pair stack */
    const sim_result fastfold = run_block(SIM_FASTFOLD, records, n);
    CHECK_NUMBER(fastfold.exposed_s, 6);
    CHECK_NUMBER(fastfold.bytes_sent, 11e9);
    /* the two around the incoming update are gone; of the first, 3 of 4 slices leave while 4 s of rows are computed */
    const sim_result ours = run_block(SIM_OURS, records, n);
    CHECK_NUMBER(ours.exposed_s, 0.5);
    CHECK_NUMBER(ours.bytes_sent, 7e9);
}

/* An exchange longer than what there is to hide it behind; the link is busy when the next one wants it. */
static void test_a_busy_link(void)
{
    ff_plan_record records[16];
    const int n = make_block(records);
    records[4].bytes_sent = 20e9;
    const sim_result r = run_block(SIM_FASTFOLD, records, n);
    /* begins at 14; the exchange that wants the link at 22 ends at 36 instead of 24; then all is as before */
    CHECK_NUMBER(r.exposed_s, 2 + 14 + 2);
    CHECK_NUMBER(run_block(SIM_BLOCKING, records, n).exposed_s, 26);
}

static void test_operand_gathers(void)
{
    const double r = 256, projections = 196608 / (196608 + 256 * r);
    const ff_plan_record records[] = {compute("msa_transition", false, 1), exchange("all_gather_operand", false, 3),
                                      compute("triangle_multiplication_outgoing", false, 8), compute("pair_transition", false, 1)};
    CHECK_NUMBER(run_block(SIM_BLOCKING, records, 4).exposed_s, 3);
    CHECK_NUMBER(run_block(SIM_FASTFOLD, records, 4).exposed_s, 3 - 8 * projections / 6);
    CHECK_NUMBER(run_block(SIM_OURS, records, 4).exposed_s, 0);
}

/* The gradient of the way back is there when the backward pass of the block begins. */
static void test_backward_of_the_way_back(void)
{
    const ff_plan_record records[] = {
        compute("pair_transition", false, 1), compute("pair_transition", true, 2),
        compute("triangle_multiplication_outgoing", true, 4), exchange("all_to_all", true, 5),
        compute("outer_product_mean", true, 4), compute("msa_row_attention_with_pair_bias", true, 4)};
    CHECK_NUMBER(run_block(SIM_BLOCKING, records, 6).exposed_s, 5);
    CHECK_NUMBER(run_block(SIM_FASTFOLD, records, 6).exposed_s, 0);
}

static void test_copies_count(void)
{
    ff_plan_record records[] = {compute("msa_transition", false, 1), exchange("all_to_all", false, 2),
                                compute("msa_transition", false, 1)};
    records[1].bytes_moved = 4e9;
    CHECK_NUMBER(run_block(SIM_BLOCKING, records, 3).step_s, 1 + 2 + 4 + 1);
}

static void test_gradients(void)
{
    const ff_plan_record records[] = {compute("pair_transition", false, 5), compute("pair_transition", true, 10)};
    sim_cluster c = small_cluster();
    c.inside_latency_us = 0;
    sim_run run = {.dap_size = 1, .data_size = 2, .num_seq = 8, .num_res = 8, .parameter_bytes = 2.5e9};
    sim_result r;
    CU_ASSERT_EQUAL(sim_replay(&ctx, &c, &run, records, 2, NULL, 0, &r), FF_OK);
    CHECK_NUMBER(r.reduce_s, 2.5);
    CHECK_NUMBER(r.step_s, 15 + 2.5);
    run.schedule = SIM_OURS; /* 25 buckets, 0.4 s apart, 0.1 s each */
    CU_ASSERT_EQUAL(sim_replay(&ctx, &c, &run, records, 2, NULL, 0, &r), FF_OK);
    CHECK_NUMBER(r.step_s, 15 + 0.1);
    run.parameter_bytes = 25e9; /* a second each: the first begins after 0.4 s */
    CU_ASSERT_EQUAL(sim_replay(&ctx, &c, &run, records, 2, NULL, 0, &r), FF_OK);
    CHECK_NUMBER(r.step_s, 5 + 0.4 + 25);
    run.extra_forward = 1.5;
    CU_ASSERT_EQUAL(sim_replay(&ctx, &c, &run, records, 2, records, 1, &r), FF_OK);
    CHECK_NUMBER(r.step_s, 5 + 0.4 + 25 + 1.5 * 5);
    run.data_size = 9;
    CU_ASSERT_EQUAL(sim_replay(&ctx, &c, &run, records, 2, NULL, 0, &r), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "9 x 1"));
}

/* ---- the model's own record ---- */

static const bench_op *tiny_model(void)
{
    for (int i = 0; i < bench_num_model_ops; i++)
        if (strcmp(bench_model_ops[i].name, "model_tiny") == 0)
            return &bench_model_ops[i];
    return NULL;
}

static bench_recording record_tiny(int dap)
{
    bench_recording recording;
    const bench_run run = {.ctx = &ctx, .k = ctx.kernels, .op = tiny_model(), .pass = BENCH_BOTH,
                           .sizes = {.num_seq = 12, .num_res = 24, .num_extra = 16, .num_templ = 1, .dap_size = dap}};
    CU_ASSERT_EQUAL_FATAL(bench_record(&run, &recording), FF_OK);
    return recording;
}

static sim_result replay_tiny(const sim_cluster *c, const bench_recording *rec, int64_t dap, int64_t data, sim_schedule schedule)
{
    const sim_run run = {.dap_size = dap, .data_size = data, .schedule = schedule, .num_seq = 12, .num_res = 24,
                         .parameter_bytes = rec->parameter_bytes};
    sim_result r;
    CU_ASSERT_EQUAL_FATAL(sim_replay(&ctx, c, &run, rec->records, rec->count, NULL, 0, &r), FF_OK);
    return r;
}

static void test_one_rank_sends_nothing(void)
{
    const sim_cluster c = small_cluster();
    bench_recording one = record_tiny(1);
    double flop = 0;
    for (int64_t i = 0; i < one.count; i++)
        flop += one.records[i].flop;
    for (int s = SIM_BLOCKING; s <= SIM_OURS; s++) {
        const sim_result r = replay_tiny(&c, &one, 1, 1, (sim_schedule)s);
        CU_ASSERT_EQUAL(r.bytes_sent, 0);
        CU_ASSERT_EQUAL(r.exposed_s, 0);
        CU_ASSERT_EQUAL(r.reduce_s, 0);
        CHECK_NUMBER(r.step_s, r.compute_s);
        CHECK_NUMBER(r.flop, flop);
    }
    bench_recording_destroy(&one);
}

static void test_ordered(void)
{
    sim_cluster c = small_cluster();
    c.inside_latency_us = 1;
    bench_recording one = record_tiny(1), two = record_tiny(2), four = record_tiny(4);
    CU_ASSERT_TRUE(two.peak_bytes < one.peak_bytes && four.peak_bytes < two.peak_bytes);
    double before = INFINITY;
    for (int s = SIM_BLOCKING; s <= SIM_OURS; s++) { /* each schedule hides no less than the one before */
        const sim_result r = replay_tiny(&c, &two, 2, 2, (sim_schedule)s);
        CU_ASSERT_TRUE(r.step_s < before);
        CU_ASSERT_TRUE(r.exposed_s > 0 && r.exposed_s <= r.exchange_s);
        before = r.step_s;
        sim_cluster other = c; /* slower links, slower ranks */
        other.inside_gbytes_per_s /= 4;
        CU_ASSERT_TRUE(replay_tiny(&other, &two, 2, 2, (sim_schedule)s).step_s > r.step_s);
        other = c;
        other.inside_latency_us *= 10;
        CU_ASSERT_TRUE(replay_tiny(&other, &two, 2, 2, (sim_schedule)s).step_s > r.step_s);
        other = c;
        other.memory_gbytes_per_s /= 2;
        CU_ASSERT_TRUE(replay_tiny(&other, &two, 2, 2, (sim_schedule)s).step_s > r.step_s);
    }
    /* an endless link: what is left is that a rank of 4 does no less than a quarter */
    c.inside_gbytes_per_s = 1e9;
    c.inside_latency_us = 0;
    const double alone = replay_tiny(&c, &one, 1, 1, SIM_BLOCKING).step_s;
    const double shared = replay_tiny(&c, &four, 4, 1, SIM_BLOCKING).step_s;
    CU_ASSERT_TRUE(shared < alone && shared > alone / 4);
    bench_recording_destroy(&one);
    bench_recording_destroy(&two);
    bench_recording_destroy(&four);
}

/* ---- files ---- */

static ff_status write_file(ff_ctx *c, FILE *file, const void *arg)
{
    (void)c;
    sim_cluster_write(arg, file);
    return FF_OK;
}

static void test_files(void)
{
    static const char *const names[] = {"jobs/clusters/a100x512.ini", "jobs/clusters/h100.ini", "jobs/clusters/laptop.ini"};
    char *folder, path[512];
    CU_ASSERT_EQUAL_FATAL(ff_make_temporary_folder(&ctx, &folder), FF_OK);
    snprintf(path, sizeof path, "%s/cluster.ini", folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sim_cluster c, again;
        CU_ASSERT_EQUAL(sim_cluster_read(&ctx, &c, names[i]), FF_OK);
        CU_ASSERT_TRUE(c.ranks_per_node > 1 && c.memory_gbytes > 0);
        CU_ASSERT_EQUAL(ff_safe_file_write(&ctx, path, write_file, &c), FF_OK);
        CU_ASSERT_EQUAL(sim_cluster_read(&ctx, &again, path), FF_OK);
        CU_ASSERT_STRING_EQUAL(again.name, c.name);
        CU_ASSERT_EQUAL(again.nodes, c.nodes);
        CU_ASSERT_EQUAL(again.inside_topology, c.inside_topology);
        CU_ASSERT_EQUAL(again.between_gbytes_per_s, c.between_gbytes_per_s);
        sim_cluster_destroy(&c);
        sim_cluster_destroy(&again);
    }
    FILE *file = fopen(path, "w");
    fputs("[link]\noversubscription = 0.5\n", file);
    fclose(file);
    sim_cluster c;
    CU_ASSERT_EQUAL(sim_cluster_read(&ctx, &c, path), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "cluster.ini:2"));
    sim_cluster_destroy(&c);
    ff_remove_folder(folder);
    free(folder);
}

/* Damaged command lines end with 2, a fitted step is the step. */
static int command(const char *const *words)
{
    char *argv[16];
    int argc = 0;
    for (; words[argc] != NULL; argc++)
        argv[argc] = (char *)words[argc];
    return bench_simulate(argc, argv);
}

static void test_command(void)
{
    char *folder, fitted[512];
    CU_ASSERT_EQUAL_FATAL(ff_make_temporary_folder(&ctx, &folder), FF_OK);
    snprintf(fitted, sizeof fitted, "%s/fitted.ini", folder);
    const char *const good[] = {"simulate", "--cluster", "jobs/clusters/laptop.ini", "--preset", "tiny", "--num-res", "24",
                                "--single-step", "7", "--write", fitted, "--json", NULL};
    CU_ASSERT_EQUAL(command(good), 0);
    sim_cluster c;
    CU_ASSERT_EQUAL_FATAL(sim_cluster_read(&ctx, &c, fitted), FF_OK);
    bench_recording recording;
    const bench_run run = {.ctx = &ctx, .k = ctx.kernels, .op = tiny_model(), .pass = BENCH_BOTH,
                           .sizes = {.num_seq = 128, .num_res = 24, .num_extra = 1024, .num_templ = 1}};
    CU_ASSERT_EQUAL_FATAL(bench_record(&run, &recording), FF_OK);
    CU_ASSERT_DOUBLE_EQUAL(replay_tiny(&c, &recording, 1, 1, SIM_BLOCKING).step_s, 7, 1e-6);
    bench_recording_destroy(&recording);
    sim_cluster_destroy(&c);
    const char *const none[] = {"simulate", NULL}, *const crowded[] = {"simulate", "--cluster", "jobs/clusters/laptop.ini",
                                                                      "--preset", "tiny", "--dap", "3", NULL};
    CU_ASSERT_EQUAL(command(none), 2);
    CU_ASSERT_EQUAL(command(crowded), 2);
    ff_remove_folder(folder);
    free(folder);
}

static CU_TestInfo tests[] = {{"operations", test_operations},
                              {"exchanges", test_exchanges},
                              {"all-reduces", test_all_reduces},
                              {"schedules on a block", test_schedules_on_a_block},
                              {"a busy link", test_a_busy_link},
                              {"operand gathers", test_operand_gathers},
                              {"backward of the MSA's way back", test_backward_of_the_way_back},
                              {"copies count", test_copies_count},
                              {"gradients", test_gradients},
                              {"one rank sends nothing", test_one_rank_sends_nothing},
                              {"ordered", test_ordered},
                              {"files", test_files},
                              {"command", test_command},
                              CU_TEST_INFO_NULL};

CU_SuiteInfo suite_bench_simulate = {"bench_simulate", NULL, NULL, set_up, tear_down, tests};
