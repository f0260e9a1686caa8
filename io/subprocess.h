/* subprocess.h - other programs, run without a shell: each in a process group of its own, with the end of what it
 * says kept for messages, a time limit, and a clean end when we are told to stop.
 *
 *     ff_subprocess command;
 *     ff_subprocess_init(&command, "/usr/bin/jackhmmer");
 *     ff_subprocess_add(ctx, &command, "--cpu"), ff_subprocess_addf(ctx, &command, "%d", 4);
 *     status = ff_subprocess_run(ctx, &command, NULL);
 *     ff_subprocess_destroy(&command);
 *
 * io/tasks.h runs several side by side. */
#ifndef FF_IO_SUBPROCESS_H
#define FF_IO_SUBPROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_TAIL_BYTES = 4096 };

typedef struct {
    char **argv; /* [argc], then NULL; owned */
    int argc, capacity;
    const char *stdout_path; /* file for standard output; NULL: it joins standard error in the tail */
    const char *folder;      /* working folder; NULL = ours */
    double time_limit_s;     /* wall clock; 0 = none */
} ff_subprocess;

/** How a program ended. */
typedef struct {
    int start_error;          /* errno of the start; the rest is then zero */
    int exit_code;            /* 0..255; -1 when a signal ended it */
    int signal;               /* the signal that ended it, or 0 */
    bool timed_out;           /* we ended it at its time limit */
    bool cancelled;           /* we ended it because we were told to stop */
    double wall_s;            /* from start to end */
    double cpu_s;             /* user and system time of it and of the children it waited for */
    int64_t peak_bytes;       /* largest resident size of one of its processes */
    char tail[FF_TAIL_BYTES]; /* the end of its standard error (and output, when that went to no file) */
} ff_subprocess_end;

/** A command without arguments; `program` is a path or, without "/", a name to be found along PATH. Cannot fail: a
 * lack of memory shows when it is run. */
void ff_subprocess_init(ff_subprocess *command, const char *program);
void ff_subprocess_destroy(ff_subprocess *command);
/** Add one argument. */
void ff_subprocess_add(ff_subprocess *command, const char *argument);
void ff_subprocess_addf(ff_subprocess *command, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/** Add all words of `words`, separated by single blanks: fixed flags. */
void ff_subprocess_add_words(ff_subprocess *command, const char *words);
/** The command on one line, arguments with odd characters in quotes; cut at `size`. @return text */
const char *ff_subprocess_format(const ff_subprocess *command, char *text, size_t size);

/** A program under way. */
typedef struct ff_process ff_process;

/**
 * Start a command: standard input empty, signals as by default, and killed by the system should we die.
 * @return FF_ERR_IO when it cannot be started: no such program, not executable, folder or output file not there.
 */
ff_status ff_process_start(ff_ctx *ctx, ff_process **process, const ff_subprocess *command);
/** Take in its output and look whether it ended (then true, `end` is filled, and whatever it left running in its
 * group is gone). Does not wait. A program past its time limit is asked to end (SIGTERM), and killed three seconds
 * later. */
bool ff_process_poll(ff_process *process, ff_subprocess_end *end);
/** Ask it to end; it is killed should it not do so in three seconds. ff_process_poll then reports the end. */
void ff_process_cancel(ff_process *process);
/** Kill the group at once when it still runs, and free everything; NULL is fine. */
void ff_process_destroy(ff_process *process);

/** A status and message for an end: FF_OK for exit status 0; else FF_ERR_IO "NAME: exit status 1 after 3 s: TAIL".
 * The message shows the last lines of the tail. */
ff_status ff_subprocess_judge(ff_ctx *ctx, const char *name, const ff_subprocess_end *end);

/**
 * Run a command and wait for its end.
 * @param cancel  set to non-zero by a signal handler to stop; NULL = none
 * @param end     out; NULL when not wanted
 * @return as ff_subprocess_judge, under the name of the program
 */
ff_status ff_subprocess_run(ff_ctx *ctx, const ff_subprocess *command, const volatile sig_atomic_t *cancel,
                            ff_subprocess_end *end);

/**
 * Find a program: `given` (the value of `option`: a path, or a name for PATH), else the value of environment variable
 * `variable`, else `name` along PATH.
 * @param path    out  the caller frees it
 * @param option  without dashes, for messages
 * @return FF_ERR_IO naming the program, where it was looked for, and the option and variable that set it.
 */
ff_status ff_find_program(ff_ctx *ctx, char **path, const char *option, const char *given, const char *variable,
                          const char *name);

#ifdef __cplusplus
}
#endif
#endif
