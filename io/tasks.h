/* tasks.h - several programs side by side under a budget of CPUs.
 *
 * A task is a few commands, one after the other, made as they are needed: `next` is called with task->step 0, 1, ...
 * and fills a command, or says that the task is done. A task may wait for another one. What goes wrong in one task
 * is written down there and touches no other; tasks that waited for it are told (they may still do something
 * sensible without it). */
#ifndef FF_IO_TASKS_H
#define FF_IO_TASKS_H

#include "io/subprocess.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FF_TASK_WAITING, FF_TASK_RUNNING, FF_TASK_DONE, FF_TASK_FAILED } ff_task_state;

typedef struct ff_task ff_task;
struct ff_task {
    const char *name; /* for messages and the log: "jackhmmer uniref90 T1078" */
    int num_cpus; /* counted against the budget while a command of it runs; more than the budget counts as all of it */
    int64_t after; /* index of the task that must end first, -1 = none */

    /**
     * Make the next command (initialised to nothing; call ff_subprocess_init), or set *more to false: the task is
     * done. Called in the thread of ff_tasks_run, with task->step counting the commands that ran before, all with
     * exit status 0. A failure fails the task.
     */
    ff_status (*next)(ff_ctx *ctx, ff_task *task, ff_subprocess *command, bool *more);
    /** Called once when the task ended, well or not; NULL = nothing. A failure here is a failure of the whole run. */
    ff_status (*ended)(ff_ctx *ctx, ff_task *task);
    void *arg;

    /* set by ff_tasks_run */
    int step;
    ff_task_state state;
    bool after_failed; /* the task waited for has failed */
    ff_status status;
    char message[FF_MESSAGE_BYTES]; /* why it failed */
    double begin_s, wall_s, cpu_s;  /* since the run began; length; CPU time of its programs */
    int64_t peak_bytes;
    struct ff_process *process;
};

/**
 * Run all tasks. Those earlier in the array start earlier where the budget allows; a later one that fits goes first
 * rather than leave CPUs idle.
 *
 * @param tasks     [num_tasks] state zero on entry
 * @param num_cpus  budget, at least 1
 * @param cancel    set to non-zero by a signal handler: running programs are ended, nothing more is started; NULL =
 * none
 * @return FF_OK when all tasks came to an end, also to a bad one (look at their states); FF_ERR_IO after a cancel;
 * what an `ended`
 *         returned.
 */
ff_status ff_tasks_run(ff_ctx *ctx, ff_task *tasks, int64_t num_tasks, int num_cpus,
                       const volatile sig_atomic_t *cancel);

/** CPUs this process may use. */
int ff_num_cpus(void);

#ifdef __cplusplus
}
#endif
#endif
