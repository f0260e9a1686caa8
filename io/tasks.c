#include "io/tasks.h"
#include "core/clock.h"

#include <assert.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    ff_task *tasks;
    int64_t num_tasks, num_open; /* open: not ended */
    int num_cpus, num_free;
    double begin_s;
} task_run;

int ff_num_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int cost(const task_run *run, const ff_task *task)
{
    return task->num_cpus > run->num_cpus ? run->num_cpus : task->num_cpus < 1 ? 1 : task->num_cpus;
}

/* The task is over with `status`; its message is the context's, which is cleared for the others. */
static ff_status end_task(ff_ctx *ctx, task_run *run, ff_task *task, ff_status status)
{
    task->state = status == FF_OK ? FF_TASK_DONE : FF_TASK_FAILED;
    task->status = status;
    task->wall_s = ff_clock_s() - run->begin_s - task->begin_s;
    snprintf(task->message, sizeof task->message, "%s", status == FF_OK ? "" : ctx->message);
    ff_context_clear(ctx);
    run->num_open--;
    return task->ended == NULL ? FF_OK : task->ended(ctx, task);
}

/* Start the next command of a task that holds its CPUs; ends it, and gives them back, when there is none. */
static ff_status advance(ff_ctx *ctx, task_run *run, ff_task *task)
{
    ff_subprocess command = {0};
    bool more = true;
    ff_status status = task->next(ctx, task, &command, &more);
    if (status == FF_OK && more) {
        char text[1024];
        ff_log_write(&ctx->log, FF_LOG_DEBUG, "%s: %s", task->name,
                     ff_subprocess_format(&command, text, sizeof text));
        status = ff_process_start(ctx, &task->process, &command);
    }
    ff_subprocess_destroy(&command);
    if (status == FF_OK && more)
        return FF_OK;
    run->num_free += cost(run, task);
    return end_task(ctx, run, task, status);
}

static ff_status start_ready(ff_ctx *ctx, task_run *run, bool *moved)
{
    for (int64_t i = 0; i < run->num_tasks; i++) {
        ff_task *task = &run->tasks[i];
        if (task->state != FF_TASK_WAITING || cost(run, task) > run->num_free)
            continue;
        if (task->after >= 0) {
            const ff_task_state state = run->tasks[task->after].state;
            if (state != FF_TASK_DONE && state != FF_TASK_FAILED)
                continue;
            task->after_failed = state == FF_TASK_FAILED;
        }
        task->state = FF_TASK_RUNNING;
        task->begin_s = ff_clock_s() - run->begin_s;
        run->num_free -= cost(run, task);
        *moved = true;
        FF_TRY(advance(ctx, run, task));
    }
    return FF_OK;
}

static ff_status look_at(ff_ctx *ctx, task_run *run, ff_task *task, bool *moved)
{
    ff_subprocess_end end;
    if (task->process == NULL || !ff_process_poll(task->process, &end))
        return FF_OK;
    *moved = true;
    ff_process_destroy(task->process);
    task->process = NULL;
    task->cpu_s += end.cpu_s;
    if (end.peak_bytes > task->peak_bytes)
        task->peak_bytes = end.peak_bytes;
    const ff_status status = ff_subprocess_judge(ctx, task->name, &end);
    if (status != FF_OK) {
        run->num_free += cost(run, task);
        return end_task(ctx, run, task, status);
    }
    task->step++;
    return advance(ctx, run, task);
}

/* End what runs and let everything else be. */
static ff_status stop(ff_ctx *ctx, task_run *run)
{
    bool left = true;
    for (int64_t i = 0; i < run->num_tasks; i++)
        if (run->tasks[i].process != NULL)
            ff_process_cancel(run->tasks[i].process);
    while (left) {
        left = false;
        for (int64_t i = 0; i < run->num_tasks; i++) {
            ff_task *task = &run->tasks[i];
            ff_subprocess_end end;
            if (task->process == NULL)
                continue;
            if (!ff_process_poll(task->process, &end)) {
                left = true;
                continue;
            }
            ff_process_destroy(task->process);
            task->process = NULL;
        }
        poll(NULL, 0, 10);
    }
    for (int64_t i = 0; i < run->num_tasks; i++) {
        ff_task *task = &run->tasks[i];
        if (task->state == FF_TASK_DONE || task->state == FF_TASK_FAILED)
            continue;
        task->state = FF_TASK_FAILED;
        task->status = FF_ERR_IO;
        snprintf(task->message, sizeof task->message, "%s: stopped, as we were told to end", task->name);
    }
    return FF_FAIL(ctx, FF_ERR_IO, "stopped, as we were told to end; nothing half done is left");
}

ff_status ff_tasks_run(ff_ctx *ctx, ff_task *tasks, int64_t num_tasks, int num_cpus,
                       const volatile sig_atomic_t *cancel)
{
    const int budget = num_cpus < 1 ? 1 : num_cpus;
    task_run run = {tasks, num_tasks, num_tasks, budget, budget, ff_clock_s()};
    ff_status status = FF_OK;
    int wait_ms = 1;
    for (int64_t i = 0; i < num_tasks; i++)
        assert(tasks[i].after < num_tasks && tasks[i].after != i && tasks[i].state == FF_TASK_WAITING);
    while (run.num_open > 0) {
        bool moved = false;
        if (cancel != NULL && *cancel != 0) {
            status = stop(ctx, &run);
            break;
        }
        FF_TRY_DONE(start_ready(ctx, &run, &moved));
        for (int64_t i = 0; i < num_tasks; i++)
            FF_TRY_DONE(look_at(ctx, &run, &tasks[i], &moved));
        wait_ms = moved ? 1 : wait_ms < 20 ? wait_ms + 1 : 20;
        assert(moved || run.num_free < budget || run.num_open == 0); /* else two tasks wait for each other */
        if (!moved)
            poll(NULL, 0, wait_ms);
    }
done:
    for (int64_t i = 0; i < num_tasks; i++) {
        ff_process_destroy(tasks[i].process);
        tasks[i].process = NULL;
    }
    return status;
}
