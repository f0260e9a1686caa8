/* Other programs: what they say is kept, and every way they can end comes back as a status with a message. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/subprocess.h"
#include "io/tasks.h"

static ff_ctx ctx;
static char folder[64];
static ff_subprocess command;
static ff_subprocess_end end;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_sub_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    command = (ff_subprocess){0};
}

static void tear_down(void)
{
    char text[96];
    ff_subprocess_destroy(&command);
    snprintf(text, sizeof text, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(text), 0);
}

static const char *in_folder(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void make_shell(const char *script)
{
    ff_subprocess_init(&command, "/bin/sh");
    ff_subprocess_add(&command, "-c");
    ff_subprocess_add(&command, script);
}

static ff_status run_shell(const char *script)
{
    make_shell(script);
    return ff_subprocess_run(&ctx, &command, NULL, &end);
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        return true;
    printf("\n    \"%s\" is not in \"%s\"\n", part, text);
    return false;
}

/* The process whose number a script wrote to a file is gone. */
static bool is_gone(const char *path)
{
    long pid = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%ld", &pid) != 1)
        pid = 0;
    if (file != NULL)
        fclose(file);
    for (int i = 0; i < 100 && pid > 0; i++) {
        char state = 'Z', name[64];
        snprintf(name, sizeof name, "/proc/%ld/stat", pid);
        FILE *stat = fopen(name, "r");
        const bool found = stat != NULL && fscanf(stat, "%*d %*s %c", &state) == 1;
        if (stat != NULL)
            fclose(stat);
        if (!found || state == 'Z')
            return true;
        usleep(20000);
    }
    return false;
}

static void test_output_goes_to_its_file_and_errors_to_the_tail(void)
{
    char path[128], line[32] = "";
    make_shell("echo result; echo remark >&2");
    command.stdout_path = in_folder(path, "out");
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_OK);
    CU_ASSERT_STRING_EQUAL(end.tail, "remark\n");
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof line, file));
    fclose(file);
    CU_ASSERT_STRING_EQUAL(line, "result\n");
}

static void test_arguments_reach_the_program_as_they_are(void)
{
    ff_subprocess_init(&command, "printf");
    ff_subprocess_add_words(&command, "[%s] [%s] [%s]");
    CU_ASSERT_EQUAL(command.argc, 4);
    ff_subprocess_destroy(&command);
    ff_subprocess_init(&command, "printf");
    ff_subprocess_add(&command, "[%s]");
    ff_subprocess_add(&command, "$HOME; `x` 'y' \"z\"");
    ff_subprocess_addf(&command, "%d %s", 3, "words");
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_OK);
    CU_ASSERT_STRING_EQUAL(end.tail, "[$HOME; `x` 'y' \"z\"][3 words]");
    char text[128];
    CU_ASSERT_STRING_EQUAL(ff_subprocess_format(&command, text, 20), "printf '[%s]' '$HOM");
}

static void test_standard_input_is_empty(void)
{
    CU_ASSERT_EQUAL(run_shell("cat; echo end"), FF_OK);
    CU_ASSERT_STRING_EQUAL(end.tail, "end\n");
}

static void test_an_exit_status_comes_with_the_last_lines(void)
{
    CU_ASSERT_EQUAL(run_shell("echo first; echo 'cannot read x' >&2; echo; exit 3"), FF_ERR_IO);
    CU_ASSERT_EQUAL(end.exit_code, 3);
    CU_ASSERT(has(ctx.message, "/bin/sh: exit status 3 after "));
    CU_ASSERT(has(ctx.message, "s: first | cannot read x"));
}

static void test_only_the_end_of_much_output_is_kept(void)
{
    CU_ASSERT_EQUAL(run_shell("i=0; while [ $i -lt 20000 ]; do echo line number $i; i=$((i + 1)); done; exit 1"),
                    FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "| line number 19999"));
    CU_ASSERT_PTR_NULL(strstr(ctx.message, "line number 1234"));
    CU_ASSERT(strlen(end.tail) == FF_TAIL_BYTES - 1);
    CU_ASSERT(strlen(ctx.message) < 600);
}

static void test_a_crash_names_the_signal(void)
{
    CU_ASSERT_EQUAL(run_shell("echo going >&2; kill -SEGV $$"), FF_ERR_IO);
    CU_ASSERT_EQUAL(end.signal, SIGSEGV);
    CU_ASSERT(has(ctx.message, "ended by signal 11 (Segmentation fault)"));
    CU_ASSERT(has(ctx.message, ": going"));
    ff_context_clear(&ctx);
    ff_subprocess_destroy(&command);
    CU_ASSERT_EQUAL(run_shell("kill -KILL $$"), FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "out of memory is a common cause; it printed nothing"));
}

static void test_a_missing_program_is_named(void)
{
    ff_subprocess_init(&command, "/no/such/program");
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_ERR_IO);
    CU_ASSERT_STRING_EQUAL(ctx.message, "cannot start /no/such/program: No such file or directory");
    ff_context_clear(&ctx);
    ff_subprocess_destroy(&command);
    make_shell("true");
    command.folder = "/no/such/folder";
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_ERR_IO);
    CU_ASSERT_STRING_EQUAL(ctx.message, "cannot start /bin/sh in folder /no/such/folder: No such file or directory");
    ff_context_clear(&ctx);
    command.folder = NULL;
    command.stdout_path = "/no/such/folder/out";
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_ERR_IO);
    CU_ASSERT_STRING_EQUAL(ctx.message, "cannot write /no/such/folder/out: No such file or directory");
}

static void test_a_hanging_program_ends_at_its_limit_with_all_its_children(void)
{
    char script[256];
    snprintf(script, sizeof script, "sleep 60 & echo $! >%s/child; echo waiting >&2; wait", folder);
    make_shell(script);
    command.time_limit_s = 0.3;
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_ERR_IO);
    CU_ASSERT(end.timed_out);
    CU_ASSERT(end.wall_s < 3);
    CU_ASSERT(has(ctx.message, "ended by us at its time limit after 0."));
    CU_ASSERT(has(ctx.message, ": waiting"));
    char path[128];
    CU_ASSERT(is_gone(in_folder(path, "child")));
}

static void test_a_program_deaf_to_sigterm_is_killed(void)
{
    make_shell("trap '' TERM; while :; do sleep 0.1; done");
    command.time_limit_s = 0.2;
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, NULL, &end), FF_ERR_IO);
    CU_ASSERT_EQUAL(end.signal, SIGKILL);
    CU_ASSERT(end.timed_out);
    CU_ASSERT(end.wall_s > 2.9 && end.wall_s < 10);
}

static void test_a_child_left_behind_does_not_keep_us(void)
{
    char script[256], path[128];
    snprintf(script, sizeof script, "sleep 60 & echo $! >%s/child; echo done", folder);
    CU_ASSERT_EQUAL(run_shell(script), FF_OK);
    CU_ASSERT(end.wall_s < 10);
    CU_ASSERT(is_gone(in_folder(path, "child")));
}

static void test_a_cancel_ends_the_whole_group(void)
{
    volatile sig_atomic_t cancel = 1;
    char script[256], path[128];
    snprintf(script, sizeof script, "sleep 60 & echo $! >%s/child; wait", folder);
    make_shell(script);
    CU_ASSERT_EQUAL(ff_subprocess_run(&ctx, &command, &cancel, &end), FF_ERR_IO);
    CU_ASSERT(end.cancelled);
    CU_ASSERT(has(ctx.message, "as we were told to end"));
    if (access(in_folder(path, "child"), F_OK) == 0)
        CU_ASSERT(is_gone(path));
}

static void test_programs_are_found_by_option_environment_and_path(void)
{
    char path[128], *found;
    FILE *file = fopen(in_folder(path, "tool"), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs("#!/bin/sh\n", file);
    fclose(file);
    CU_ASSERT_EQUAL(ff_find_program(&ctx, &found, "jackhmmer", path, "FF_TEST_TOOL", "jackhmmer"),
                    FF_ERR_IO); /* not executable */
    CU_ASSERT(has(ctx.message, "jackhmmer: no program at /tmp/ff_sub_"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(chmod(path, 0755), 0);
    CU_ASSERT_EQUAL(ff_find_program(&ctx, &found, "jackhmmer", path, "FF_TEST_TOOL", "jackhmmer"), FF_OK);
    CU_ASSERT_STRING_EQUAL(found, path);
    free(found);
    setenv("FF_TEST_TOOL", path, 1);
    CU_ASSERT_EQUAL(ff_find_program(&ctx, &found, "jackhmmer", NULL, "FF_TEST_TOOL", "jackhmmer"), FF_OK);
    CU_ASSERT_STRING_EQUAL(found, path);
    free(found);
    unsetenv("FF_TEST_TOOL");
    CU_ASSERT_EQUAL(ff_find_program(&ctx, &found, "sh", NULL, "FF_TEST_TOOL", "sh"), FF_OK);
    CU_ASSERT(has(found, "/bin/sh"));
    free(found);
    CU_ASSERT_EQUAL(ff_find_program(&ctx, &found, "tool-option", NULL, "FF_TEST_TOOL", "no-such-tool"), FF_ERR_IO);
    CU_ASSERT_STRING_EQUAL(ctx.message,
                           "no-such-tool: no program \"no-such-tool\" in the folders of PATH; install it, or say "
                           "where it is with --tool-option PATH or FF_TEST_TOOL");
}

/* ---- tasks ---- */

typedef struct {
    const char *scripts[4];
    int ended;
} shell_task;

static ff_status next_script(ff_ctx *c, ff_task *task, ff_subprocess *next, bool *more)
{
    const char *script = ((shell_task *)task->arg)->scripts[task->step];
    *more = script != NULL;
    if (script != NULL && strcmp(script, "refuse") == 0)
        return FF_FAIL(c, FF_ERR_FORMAT, "no command for %s", task->name);
    if (script != NULL) {
        ff_subprocess_init(next, "/bin/sh");
        ff_subprocess_add(next, "-c");
        ff_subprocess_add(next, script);
        next->folder = folder;
        next->time_limit_s = 20;
    }
    return FF_OK;
}

static ff_status count_end(ff_ctx *c, ff_task *task)
{
    (void)c;
    ((shell_task *)task->arg)->ended++;
    return FF_OK;
}

static ff_task make_task(const char *name, int num_cpus, int64_t after, shell_task *work)
{
    return (ff_task){
        .name = name, .num_cpus = num_cpus, .after = after, .next = next_script, .ended = count_end, .arg = work};
}

static void test_one_bad_task_leaves_the_others(void)
{
    shell_task work[] = {{{"exit 7"}, 0}, {{"echo one >a", "cat a >b"}, 0}, {{"true", "refuse"}, 0}, {{NULL}, 0}};
    ff_task tasks[] = {make_task("bad", 1, -1, &work[0]), make_task("good", 1, -1, &work[1]),
                       make_task("refused", 5, -1, &work[2]), make_task("empty", 0, 0, &work[3])};
    char path[128];
    CU_ASSERT_EQUAL(ff_tasks_run(&ctx, tasks, 4, 2, NULL), FF_OK);
    CU_ASSERT_EQUAL(tasks[0].state, FF_TASK_FAILED);
    CU_ASSERT_EQUAL(tasks[0].status, FF_ERR_IO);
    CU_ASSERT(has(tasks[0].message, "bad: exit status 7"));
    CU_ASSERT_EQUAL(tasks[1].state, FF_TASK_DONE);
    CU_ASSERT_EQUAL(access(in_folder(path, "b"), F_OK), 0);
    CU_ASSERT_EQUAL(tasks[2].state, FF_TASK_FAILED);
    CU_ASSERT_STRING_EQUAL(tasks[2].message, "no command for refused");
    CU_ASSERT_EQUAL(tasks[3].state, FF_TASK_DONE);
    CU_ASSERT(tasks[3].after_failed);
    CU_ASSERT(work[0].ended == 1 && work[1].ended == 1 && work[2].ended == 1);
    CU_ASSERT_EQUAL(ctx.status, FF_OK);
}

/* Each script notes how many of its kind run beside it: `ln` of a lock is atomic, so counting files is enough. */
static void test_the_budget_holds_and_waiting_tasks_come_later(void)
{
    enum { N = 7 };
    const char *script = "d=$(mktemp run.XXXXXX); ls run.* | wc -l >>counts; sleep 0.15; rm $d";
    shell_task work[N];
    ff_task tasks[N];
    for (int i = 0; i < N; i++) {
        work[i] = (shell_task){{script}, 0};
        tasks[i] = make_task("counter", 1, -1, &work[i]);
    }
    tasks[1].num_cpus = 3; /* all of the budget: nobody else beside it */
    work[1].scripts[0] = "ls run.* 2>/dev/null | wc -l >alone; sleep 0.1; ls run.* 2>/dev/null | wc -l >>alone";
    tasks[0].after = 6; /* first in the array, but waits for the last */
    work[0].scripts[0] = "test -e last";
    work[6].scripts[1] = "touch last";
    char path[128];
    CU_ASSERT_EQUAL(ff_tasks_run(&ctx, tasks, N, 3, NULL), FF_OK);
    for (int i = 0; i < N; i++)
        CU_ASSERT_EQUAL(tasks[i].state, FF_TASK_DONE);
    int count, most = 0, n = 0;
    FILE *file = fopen(in_folder(path, "counts"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fscanf(file, "%d", &count) == 1) {
        most = count > most ? count : most;
        n++;
    }
    fclose(file);
    CU_ASSERT_EQUAL(n, 5);
    CU_ASSERT(most >= 2 && most <= 3);
    file = fopen(in_folder(path, "alone"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (fscanf(file, "%d", &count) == 1)
        CU_ASSERT_EQUAL(count, 0);
    fclose(file);
    CU_ASSERT(tasks[0].begin_s >= tasks[6].begin_s + tasks[6].wall_s - 1e-3);
}

static volatile sig_atomic_t told;
static void on_alarm(int number) { told = number; }

static void test_a_signal_of_ours_ends_everything(void)
{
    shell_task work[] = {{{"sleep 60"}, 0}, {{"sleep 60 & echo $! >child; wait"}, 0}, {{"touch late"}, 0}};
    ff_task tasks[] = {make_task("a", 1, -1, &work[0]), make_task("b", 1, -1, &work[1]),
                       make_task("c", 1, 0, &work[2])};
    told = 0;
    struct sigaction action = {.sa_handler = on_alarm}, old;
    sigaction(SIGALRM, &action, &old);
    alarm(1);
    CU_ASSERT_EQUAL(ff_tasks_run(&ctx, tasks, 3, 2, &told), FF_ERR_IO);
    sigaction(SIGALRM, &old, NULL);
    CU_ASSERT(has(ctx.message, "stopped, as we were told to end"));
    char path[128];
    CU_ASSERT(is_gone(in_folder(path, "child")));
    CU_ASSERT_NOT_EQUAL(access(in_folder(path, "late"), F_OK), 0);
    CU_ASSERT_EQUAL(tasks[2].state, FF_TASK_FAILED);
}

static CU_TestInfo tests[] = {
    {"output_goes_to_its_file_and_errors_to_the_tail", test_output_goes_to_its_file_and_errors_to_the_tail},
    {"arguments_reach_the_program_as_they_are", test_arguments_reach_the_program_as_they_are},
    {"standard_input_is_empty", test_standard_input_is_empty},
    {"an_exit_status_comes_with_the_last_lines", test_an_exit_status_comes_with_the_last_lines},
    {"only_the_end_of_much_output_is_kept", test_only_the_end_of_much_output_is_kept},
    {"a_crash_names_the_signal", test_a_crash_names_the_signal},
    {"a_missing_program_is_named", test_a_missing_program_is_named},
    {"a_hanging_program_ends_at_its_limit_with_all_its_children",
     test_a_hanging_program_ends_at_its_limit_with_all_its_children},
    {"a_program_deaf_to_sigterm_is_killed", test_a_program_deaf_to_sigterm_is_killed},
    {"a_child_left_behind_does_not_keep_us", test_a_child_left_behind_does_not_keep_us},
    {"a_cancel_ends_the_whole_group", test_a_cancel_ends_the_whole_group},
    {"programs_are_found_by_option_environment_and_path", test_programs_are_found_by_option_environment_and_path},
    {"one_bad_task_leaves_the_others", test_one_bad_task_leaves_the_others},
    {"the_budget_holds_and_waiting_tasks_come_later", test_the_budget_holds_and_waiting_tasks_come_later},
    {"a_signal_of_ours_ends_everything", test_a_signal_of_ours_ends_everything},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_io_subprocess = {"io/subprocess", NULL, NULL, set_up, tear_down, tests};
