/* subprocess.c - fork, exec and the ways a program can end.
 *
 * Contents
 *   1. commands
 *   2. start
 *   3. output and end
 *   4. judging, running one, finding programs */
#include "io/subprocess.h"
#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double grace_s = 3; /* from SIGTERM to SIGKILL */

struct ff_process {
    pid_t pid;
    int output;                       /* read end of the pipe for the tail; -1 after its end */
    double begin_s, limit_s, asked_s; /* asked_s: when SIGTERM was sent; 0 = not yet */
    bool timed_out, cancelled;
    size_t tail_length;
    char tail[FF_TAIL_BYTES];
};

/* ---- 1. commands ---- */

/* Takes `text`, which may be NULL (no memory): then the command can not be run. */
static void add_owned(ff_subprocess *command, char *text)
{
    if (command->argc < 0 || text == NULL)
        goto failed;
    if (command->argc + 2 > command->capacity) {
        const int capacity = command->capacity < 8 ? 16 : 2 * command->capacity;
        char **argv = realloc(command->argv, (size_t)capacity * sizeof *argv);
        if (argv == NULL)
            goto failed;
        command->argv = argv;
        command->capacity = capacity;
    }
    command->argv[command->argc++] = text;
    command->argv[command->argc] = NULL;
    return;
failed:
    free(text);
    for (int i = 0; i < command->argc; i++)
        free(command->argv[i]);
    command->argc = -1;
}

void ff_subprocess_init(ff_subprocess *command, const char *program)
{
    *command = (ff_subprocess){0};
    ff_subprocess_add(command, program);
}

void ff_subprocess_destroy(ff_subprocess *command)
{
    for (int i = 0; i < command->argc; i++)
        free(command->argv[i]);
    free(command->argv);
    *command = (ff_subprocess){0};
}

void ff_subprocess_add(ff_subprocess *command, const char *argument) { add_owned(command, strdup(argument)); }

void ff_subprocess_addf(ff_subprocess *command, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    add_owned(command, length < 0 ? NULL : text);
}

void ff_subprocess_add_words(ff_subprocess *command, const char *words)
{
    while (*words != '\0') {
        const size_t length = strcspn(words, " ");
        add_owned(command, strndup(words, length));
        words += length + (words[length] == ' ');
    }
}

const char *ff_subprocess_format(const ff_subprocess *command, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < command->argc && length + 1 < size; i++) {
        const char *a = command->argv[i];
        const bool plain = a[0] != '\0' && strpbrk(a, " \t\n'\"\\$`*?&|;<>()[]{}~#!") == NULL;
        length += (size_t)snprintf(text + length, size - length, plain ? "%s%s" : "%s'%s'", i > 0 ? " " : "", a);
    }
    return text;
}

/* ---- 2. start ---- */

/* After fork, only calls that are safe there. Writes errno to `report` and ends when the program cannot be run. */
static void become(const ff_subprocess *command, pid_t parent, int input, int output, int errors, int report)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    if (getppid() == parent && dup2(input, 0) >= 0 && dup2(output, 1) >= 0 && dup2(errors, 2) >= 0 &&
        (command->folder == NULL || chdir(command->folder) == 0))
        execvp(command->argv[0], command->argv);
    const int error = errno;
    const ssize_t written = write(report, &error, sizeof error);
    _exit(written == sizeof error ? 127 : 126);
}

static ff_status start_failed(ff_ctx *ctx, const ff_subprocess *command, int error)
{
    if (command->folder != NULL && access(command->folder, X_OK) != 0)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot start %s in folder %s: %s", command->argv[0], command->folder,
                       strerror(errno));
    return FF_FAIL(ctx, FF_ERR_IO, "cannot start %s: %s", command->argv[0], strerror(error));
}

static void close_all(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

ff_status ff_process_start(ff_ctx *ctx, ff_process **process, const ff_subprocess *command)
{
    enum { INPUT, OUTPUT, TAIL_WRITE, REPORT_WRITE, TAIL_READ, REPORT_READ, NUM_FDS };
    int fds[NUM_FDS] = {-1, -1, -1, -1, -1, -1}, two[2];
    *process = NULL;
    ff_status status = FF_OK;
    ff_process *p = command->argc > 0 ? calloc(1, sizeof *p) : NULL;
    if (p == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory starting a program");
    if ((fds[INPUT] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        goto failed;
    if (command->stdout_path != NULL &&
        (fds[OUTPUT] = open(command->stdout_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0) {
        status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", command->stdout_path, strerror(errno));
        goto done;
    }
    if (pipe2(two, O_CLOEXEC) != 0)
        goto failed;
    fds[TAIL_READ] = two[0], fds[TAIL_WRITE] = two[1];
    if (pipe2(two, O_CLOEXEC) != 0)
        goto failed;
    fds[REPORT_READ] = two[0], fds[REPORT_WRITE] = two[1];
    fcntl(fds[TAIL_READ], F_SETFL, O_NONBLOCK);
    p->begin_s = ff_clock_s();
    p->limit_s = command->time_limit_s;
    const pid_t parent = getpid();
    p->pid = fork();
    if (p->pid < 0)
        goto failed;
    if (p->pid == 0)
        become(command, parent, fds[INPUT], fds[OUTPUT] >= 0 ? fds[OUTPUT] : fds[TAIL_WRITE], fds[TAIL_WRITE],
               fds[REPORT_WRITE]);
    setpgid(p->pid, p->pid); /* here as well: whoever is first */
    close(fds[REPORT_WRITE]);
    fds[REPORT_WRITE] = -1;
    int error;
    ssize_t got;
    while ((got = read(fds[REPORT_READ], &error, sizeof error)) < 0 && errno == EINTR)
        ;
    if (got == sizeof error) { /* ended before it was the program */
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        status = start_failed(ctx, command, error);
        goto done;
    }
    p->output = fds[TAIL_READ];
    fds[TAIL_READ] = -1;
    *process = p;
    p = NULL;
    goto done;
failed:
    status = start_failed(ctx, command, errno);
done:
    close_all(fds, NUM_FDS);
    free(p);
    return status;
}

/* ---- 3. output and end ---- */

static void keep_tail(ff_process *p, const char *text, size_t length)
{
    const size_t room = sizeof p->tail - 1;
    if (length > room) {
        text += length - room;
        length = room;
    }
    if (p->tail_length + length > room) {
        const size_t drop = p->tail_length + length - room;
        memmove(p->tail, p->tail + drop, p->tail_length - drop);
        p->tail_length -= drop;
    }
    memcpy(p->tail + p->tail_length, text, length);
    p->tail_length += length;
    p->tail[p->tail_length] = '\0';
}

static void take_output(ff_process *p)
{
    char text[8192];
    for (int i = 0; i < 64 && p->output >= 0; i++) { /* a program that writes without end must not hold us */
        const ssize_t got = read(p->output, text, sizeof text);
        if (got > 0) {
            keep_tail(p, text, (size_t)got);
        } else if (got == 0) {
            close(p->output);
            p->output = -1;
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void fill_end(ff_process *p, ff_subprocess_end *end, int wait_status, const struct rusage *usage)
{
    *end = (ff_subprocess_end){
        .exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1,
        .signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0,
        .timed_out = p->timed_out,
        .cancelled = p->cancelled,
        .wall_s = ff_clock_s() - p->begin_s,
        .cpu_s = (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
                 1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec),
        .peak_bytes = (int64_t)usage->ru_maxrss * 1024,
    };
    memcpy(end->tail, p->tail, sizeof end->tail);
}

bool ff_process_poll(ff_process *p, ff_subprocess_end *end)
{
    take_output(p);
    siginfo_t info = {0};
    /* Look without reaping: while the leader is a zombie its group number is not given to anybody else. */
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == p->pid) {
        int wait_status = 0;
        struct rusage usage = {0};
        kill(-p->pid, SIGKILL);
        while (wait4(p->pid, &wait_status, 0, &usage) < 0 && errno == EINTR)
            ;
        take_output(p);
        p->pid = 0;
        fill_end(p, end, wait_status, &usage);
        return true;
    }
    const double now = ff_clock_s();
    if (p->limit_s > 0 && now - p->begin_s > p->limit_s && p->asked_s == 0) {
        p->timed_out = true;
        p->asked_s = now;
        kill(-p->pid, SIGTERM);
    }
    if (p->asked_s > 0 && now - p->asked_s > grace_s)
        kill(-p->pid, SIGKILL);
    return false;
}

void ff_process_cancel(ff_process *p)
{
    p->cancelled = true;
    if (p->asked_s == 0 && p->pid > 0) {
        p->asked_s = ff_clock_s();
        kill(-p->pid, SIGTERM);
    }
}

void ff_process_destroy(ff_process *p)
{
    if (p == NULL)
        return;
    if (p->pid > 0) {
        kill(-p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (p->output >= 0)
        close(p->output);
    free(p);
}

/* ---- 4. judging, running one, finding programs ---- */

/* The last lines of the tail, at most about 400 bytes, on one line. */
static void summarise_tail(const char *tail, char *text, size_t size)
{
    enum { SHOWN = 400 };
    size_t length = strlen(tail);
    while (length > 0 && (unsigned char)tail[length - 1] <= ' ')
        length--;
    size_t begin = 0;
    if (length > SHOWN) {
        begin = length - SHOWN;
        const char *line = memchr(tail + begin, '\n', length - begin);
        if (line != NULL && line + 1 < tail + length)
            begin = (size_t)(line + 1 - tail);
    }
    size_t out = 0;
    bool gap = false;
    for (size_t i = begin; i < length && out + 4 < size; i++) {
        const unsigned char c = (unsigned char)tail[i];
        if (c == '\n' || c == '\r') {
            gap = out > 0;
            continue;
        }
        if (gap) {
            text[out++] = ' ', text[out++] = '|', text[out++] = ' ';
            gap = false;
        }
        text[out++] = c < ' ' || c == 127 ? ' ' : (char)c;
    }
    text[out] = '\0';
}

ff_status ff_subprocess_judge(ff_ctx *ctx, const char *name, const ff_subprocess_end *end)
{
    char tail[512];
    summarise_tail(end->tail, tail, sizeof tail);
    const char *said = tail[0] != '\0' ? ": " : "; it printed nothing";
    if (end->cancelled)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: stopped after %.1f s, as we were told to end", name, end->wall_s);
    if (end->timed_out)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: ended by us at its time limit after %.1f s%s%s", name, end->wall_s, said,
                       tail);
    if (end->signal != 0)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: ended by signal %d (%s) after %.1f s%s%s%s", name, end->signal,
                       strsignal(end->signal), end->wall_s,
                       end->signal == SIGKILL ? "; out of memory is a common cause" : "", said, tail);
    if (end->exit_code != 0)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: exit status %d after %.1f s%s%s", name, end->exit_code, end->wall_s, said,
                       tail);
    return FF_OK;
}

ff_status ff_subprocess_run(ff_ctx *ctx, const ff_subprocess *command, const volatile sig_atomic_t *cancel,
                            ff_subprocess_end *end)
{
    ff_process *process;
    ff_subprocess_end own;
    if (end == NULL)
        end = &own;
    FF_TRY(ff_process_start(ctx, &process, command));
    for (int wait_ms = 1; !ff_process_poll(process, end); wait_ms = wait_ms < 20 ? wait_ms + 1 : 20) {
        if (cancel != NULL && *cancel != 0)
            ff_process_cancel(process);
        poll(NULL, 0, wait_ms);
    }
    ff_process_destroy(process);
    return ff_subprocess_judge(ctx, command->argv[0], end);
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* `name` in the folders of PATH; NULL when it is in none. */
static char *find_in_path(const char *name)
{
    const char *folders = getenv("PATH");
    while (folders != NULL && *folders != '\0') {
        const int length = (int)strcspn(folders, ":");
        char *path = NULL;
        if (length > 0 && asprintf(&path, "%.*s/%s", length, folders, name) >= 0) {
            if (is_program(path))
                return path;
            free(path);
        }
        folders += length + (folders[length] == ':');
    }
    return NULL;
}

/* A command may run in another folder than ours. Links are kept: some programs look at their own name. */
static char *absolute_path(const char *path)
{
    if (path[0] == '/')
        return strdup(path);
    char *folder = getcwd(NULL, 0), *result = NULL;
    if (folder == NULL || asprintf(&result, "%s/%s", folder, path) < 0)
        result = NULL;
    free(folder);
    return result;
}

ff_status ff_find_program(ff_ctx *ctx, char **path, const char *option, const char *given, const char *variable,
                          const char *name)
{
    const char *wanted = given;
    if (wanted == NULL)
        wanted = getenv(variable);
    if (wanted == NULL || *wanted == '\0')
        wanted = name;
    const bool is_path = strchr(wanted, '/') != NULL;
    *path = !is_path ? find_in_path(wanted) : is_program(wanted) ? absolute_path(wanted) : NULL;
    if (*path != NULL)
        return FF_OK;
    if (is_path)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: no program at %s, where %s%s says it is", name, wanted,
                       given != NULL ? "--" : "", given != NULL ? option : variable);
    return FF_FAIL(
        ctx, FF_ERR_IO,
        "%s: no program \"%s\" in the folders of PATH; install it, or say where it is with --%s PATH or %s", name,
        wanted, option, variable);
}
