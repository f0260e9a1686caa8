/* What a run tells: a line on a terminal, nothing but records elsewhere, JSON events that parse. */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "infer/run_log.h"
#include "tests/infer_case.h"

#ifdef FF_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

static char *logged;
static size_t logged_size;

static void set_up_log(void)
{
    set_up();
    ctx.log.file = open_memstream(&logged, &logged_size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ctx.log.file);
    ctx.log.level = FF_LOG_INFO;
    ctx.log.rank = -1;
}

static void tear_down_log(void)
{
    fclose(ctx.log.file);
    free(logged);
    tear_down();
}

/* Three targets: one done before, one that fails at once, one with two predictions of up to 2 passes of 2 + 3 steps. */
static int run(FILE *terminal, const volatile sig_atomic_t *stop)
{
    ff_run_log log;
    ff_run_log_begin(&log, &ctx, terminal, 3, stop);
    ff_run_log_skip(&log, "old");
    ff_run_log_target_end(&log, "bad", FF_TARGET_FAILED, "line 3: \"?\" is no amino-acid letter", NULL);
    ff_run_log_target(&log, &(ff_run_target){"T1078", 138, 2, 1, 1, 5});
    ff_run_log_prediction(&log, "model_1_seed_0"); /* stops early: no recycle */
    ff_run_log_pass(&log, &(ff_recycle_record){60, NAN, NAN, 1});
    ff_run_log_prediction(&log, "model_1_seed_1");
    CU_ASSERT_EQUAL(log.done_steps, 10);
    for (int pass = 0; pass < 2; pass++) {
        log.event_s -= 10; /* as if time had gone by */
        for (int step = 0; step < 2; step++)
            CU_ASSERT_EQUAL(ff_context_step(&ctx, "extra_msa_stack", step, 2), FF_OK);
        usleep(120000); /* the line is drawn ten times a second at most */
        log.event_s -= 10;
        for (int step = 0; step < 3; step++)
            CU_ASSERT_EQUAL(ff_context_step(&ctx, "evoformer", step, 3), FF_OK);
        ff_run_log_pass(&log, &(ff_recycle_record){70.5 + pass, NAN, pass > 0 ? 1.25 : NAN, 3.5});
    }
    CU_ASSERT_EQUAL(log.done_steps, 20);
    ff_run_log_target_end(&log, "T1078", FF_TARGET_FINISHED, NULL, &prediction);
    const int status = ff_run_log_end(&log);
    CU_ASSERT_PTR_NULL(ctx.on_step);
    fflush(ctx.log.file);
    return status;
}

static void test_records_say_what_happened(void)
{
    make_prediction(&prediction, "x", 3);
    CU_ASSERT_EQUAL(run(NULL, NULL), 1); /* one failed */
    static const char *const parts[] = {"old: finished before",
                                        "[error] target bad failed: line 3: \"?\" is no amino-acid letter",
                                        "target 3/3 T1078: 138 residues",
                                        "T1078 model_1_seed_1 recycle 0: mean pLDDT 70.50, 3.5 s",
                                        "recycle 1: mean pLDDT 71.50, CA distances changed by 1.250 A, 3.5 s",
                                        "T1078 finished in ",
                                        "1 finished, 1 failed, 1 finished before, 0 not begun"};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        CU_ASSERT_PTR_NOT_NULL(strstr(logged, parts[k]));
    CU_ASSERT_PTR_NULL(strstr(logged, "\r"));
    CU_ASSERT_PTR_NULL(strstr(logged, "evoformer"));
}

static void test_a_file_gets_no_progress_line(void)
{
    char path[256];
    make_prediction(&prediction, "x", 3);
    FILE *file = fopen(in_folder(path, "out"), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    run(file, NULL);
    CU_ASSERT_EQUAL(ftell(file), 0);
    fclose(file);
}

static void test_a_terminal_shows_pass_block_and_time_left(void)
{
    make_prediction(&prediction, "x", 3);
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        ff_test_skip("no pseudo-terminal");
        return;
    }
    FILE *terminal = fopen(ptsname(master), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(terminal);
    run(terminal, NULL);
    char shown[16384];
    int64_t count = 0;
    struct pollfd ready = {.fd = master, .events = POLLIN};
    while (poll(&ready, 1, 300) > 0 && (ready.revents & POLLIN) != 0) { /* the driver hands it over in pieces */
        const ssize_t got = read(master, shown + count, sizeof shown - 1 - (size_t)count);
        if (got <= 0)
            break;
        count += got;
    }
    CU_ASSERT_FATAL(count > 4);
    shown[count] = '\0';
    fclose(terminal);
    close(master);
    CU_ASSERT_PTR_NOT_NULL(strstr(shown, "[3/3] T1078 2/2: first pass, evoformer 0/3; all 12/20 (60 %), 0:00 left"));
    CU_ASSERT_PTR_NOT_NULL(strstr(shown, "2/2: recycle 1/1, extra_msa_stack 0/2; all 15/20 (75 %), 0:00 left"));
    CU_ASSERT_STRING_EQUAL(shown + count - 4, "\r\033[K"); /* the line is gone at the end */
}

static void test_a_request_to_stop_ends_the_next_step(void)
{
    volatile sig_atomic_t stop = 0;
    ff_run_log log;
    ff_run_log_begin(&log, &ctx, NULL, 2, &stop);
    ff_run_log_target(&log, &(ff_run_target){"a", 5, 1, 0, 1, 5});
    CU_ASSERT_EQUAL(ff_context_step(&ctx, "evoformer", 0, 5), FF_OK);
    stop = 1;
    CU_ASSERT_EQUAL(ff_context_step(&ctx, "evoformer", 1, 5), FF_ERR_CANCELLED);
    ff_run_log_target_end(&log, "a", FF_TARGET_FAILED, ctx.message, NULL);
    CU_ASSERT_EQUAL(ff_run_log_end(&log), 1);
    fflush(ctx.log.file);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "target a failed: stopped on request in evoformer"));
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "stopped on request in "));
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "1 not begun"));
}

#ifdef FF_HAVE_CJSON
static void test_json_events_parse_one_a_line(void)
{
    static const char *const expected[] = {"run_begin", "target_end", "target_end", "target_begin",
                                           "pass",      "block",      "block",      "pass",
                                           "block",     "block",      "pass",       "target_end",
                                           "run_end"};
    int64_t count = 0;
    ctx.log.json = true;
    make_prediction(&prediction, "x", 3);
    CU_ASSERT_EQUAL(run(stderr, NULL), 1);
    for (char *line = logged, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, count++) {
        cJSON *json = cJSON_ParseWithLength(line, (size_t)(end - line));
        CU_ASSERT_PTR_NOT_NULL_FATAL(json);
        const char *event = cJSON_GetStringValue(cJSON_GetObjectItem(json, "event"));
        CU_ASSERT_FATAL(count < (int64_t)(sizeof expected / sizeof *expected) && event != NULL);
        CU_ASSERT_STRING_EQUAL(event, expected[count]);
        if (count == 2)
            CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(json, "level")->valuestring, "error");
        if (count == 6) {
            CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(json, "phase")->valuestring, "evoformer");
            CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(json, "target")->valuestring, "T1078");
            CU_ASSERT_TRUE(cJSON_IsNumber(cJSON_GetObjectItem(json, "seconds_left")));
        }
        cJSON_Delete(json);
    }
    CU_ASSERT_EQUAL(count, (int64_t)(sizeof expected / sizeof *expected));
}
#endif

static CU_TestInfo tests[] = {
    {"records_say_what_happened", test_records_say_what_happened},
    {"a_file_gets_no_progress_line", test_a_file_gets_no_progress_line},
    {"a_terminal_shows_pass_block_and_time_left", test_a_terminal_shows_pass_block_and_time_left},
    {"a_request_to_stop_ends_the_next_step", test_a_request_to_stop_ends_the_next_step},
#ifdef FF_HAVE_CJSON
    {"json_events_parse_one_a_line", test_json_events_parse_one_a_line},
#endif
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_run_log = {"infer/run_log", NULL, NULL, set_up_log, tear_down_log, tests};
