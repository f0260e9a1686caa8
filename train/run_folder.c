/* Contents: the folder; checkpoints; metrics. */
#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "io/safe_file.h"

#define CHECKPOINT_FORMAT "checkpoint_%010" PRId64 ".h5"

/* ---- the folder ---- */

const char *ff_run_folder_path(const ff_run_folder *run, const char *name, char path[FF_RUN_PATH_BYTES])
{
    const size_t length = strlen(run->folder), rest = strlen(name) + 1;
    memcpy(path, run->folder, length);
    path[length] = '/';
    memcpy(path + length + 1, name, rest < FF_RUN_PATH_BYTES - length - 1 ? rest : FF_RUN_PATH_BYTES - length - 1);
    path[FF_RUN_PATH_BYTES - 1] = '\0';
    return path;
}

/* A folder that takes no files is better known before the first step than after the first thousand. */
static ff_status take_lock(ff_ctx *ctx, ff_run_folder *run)
{
    char path[FF_RUN_PATH_BYTES];
    const int fd = open(ff_run_folder_path(run, "lock", path), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        run->lock = fd;
        return FF_OK;
    }
    const int error = errno;
    close(fd);
    return error == EWOULDBLOCK ? FF_FAIL(ctx, FF_ERR_IO, "another process trains in %s", run->folder)
                                : FF_FAIL(ctx, FF_ERR_IO, "cannot lock %s: %s", path, strerror(error));
}

/* Whether a name is that of a file io/safe_file.h was writing here: NAME.tmpPID. */
static bool is_unfinished(const char *name)
{
    static const char *const ours[] = {"checkpoint_", "best.h5", "config.ini", "run.json", "training.html", "metrics.jsonl"};
    const char *end = strstr(name, ".tmp");
    bool found = false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        found = found || strncmp(name, ours[i], strlen(ours[i])) == 0;
    return found && end != NULL && end[4] != '\0' && end[4 + strspn(end + 4, "0123456789")] == '\0';
}

/* With the lock held nobody else is writing. */
static ff_status remove_unfinished(ff_ctx *ctx, const ff_run_folder *run)
{
    char path[FF_RUN_PATH_BYTES];
    DIR *folder = opendir(run->folder);
    if (folder == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot list %s: %s", run->folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (is_unfinished(entry->d_name))
            unlink(ff_run_folder_path(run, entry->d_name, path));
    closedir(folder);
    return FF_OK;
}

ff_status ff_run_folder_open(ff_ctx *ctx, ff_run_folder *run, const char *folder, const char *metrics, int64_t keep, bool resume)
{
    int64_t *steps = NULL, count = 0;
    memset(run, 0, sizeof *run);
    if (strlen(folder) + 64 > sizeof run->folder || (metrics != NULL && strlen(metrics) >= sizeof run->metrics))
        return FF_FAIL(ctx, FF_ERR_ARG, "the path of the run folder or of the metrics is too long");
    snprintf(run->folder, sizeof run->folder, "%s", folder);
    if (metrics != NULL)
        snprintf(run->metrics, sizeof run->metrics, "%s", metrics);
    else
        ff_run_folder_path(run, "metrics.jsonl", run->metrics);
    run->keep = keep;
    FF_TRY(ff_make_folders(ctx, folder));
    FF_TRY(take_lock(ctx, run));
    FF_TRY(remove_unfinished(ctx, run));
    FF_TRY(ff_run_folder_list(ctx, run, &steps, &count));
    free(steps);
    if (count > 0 && !resume)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s holds a run already (%" PRId64 " checkpoints): --resume goes on with it", folder, count);
    return FF_OK;
}

void ff_run_folder_close(ff_run_folder *run)
{
    if (run->lines != NULL)
        fclose(run->lines);
    if (run->lock > 0)
        close(run->lock);
    memset(run, 0, sizeof *run);
}

/* ---- checkpoints ---- */

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

ff_status ff_run_folder_list(ff_ctx *ctx, const ff_run_folder *run, int64_t **steps, int64_t *count)
{
    DIR *folder = opendir(run->folder);
    int64_t capacity = 0;
    *steps = NULL;
    *count = 0;
    if (folder == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot list %s: %s", run->folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int64_t step;
        char name[64];
        if (sscanf(entry->d_name, "checkpoint_%" SCNd64 ".h5", &step) != 1)
            continue;
        snprintf(name, sizeof name, CHECKPOINT_FORMAT, step);
        if (strcmp(name, entry->d_name) != 0)
            continue; /* a temporary one that was never finished, or somebody else's */
        if (*count == capacity) {
            capacity = 2 * capacity + 16;
            int64_t *grown = realloc(*steps, (size_t)capacity * sizeof *grown);
            if (grown == NULL) {
                closedir(folder);
                return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
            }
            *steps = grown;
        }
        (*steps)[(*count)++] = step;
    }
    closedir(folder);
    if (*count > 0)
        qsort(*steps, (size_t)*count, sizeof **steps, newest_first);
    return FF_OK;
}

static const char *checkpoint_path(const ff_run_folder *run, int64_t step, char path[FF_RUN_PATH_BYTES])
{
    char name[64];
    snprintf(name, sizeof name, CHECKPOINT_FORMAT, step);
    return ff_run_folder_path(run, name, path);
}

ff_status ff_run_folder_save(ff_ctx *ctx, const ff_run_folder *run, const ff_trainer *t, const ff_checkpoint_header *header)
{
    char path[FF_RUN_PATH_BYTES];
    int64_t *steps = NULL, count = 0;
    FF_TRY(ff_trainer_save(ctx, t, header, checkpoint_path(run, t->step, path)));
    const ff_status status = ff_run_folder_list(ctx, run, &steps, &count);
    for (int64_t i = run->keep; status == FF_OK && i < count; i++)
        unlink(checkpoint_path(run, steps[i], path));
    free(steps);
    return status;
}

ff_status ff_run_folder_load(ff_ctx *ctx, const ff_run_folder *run, ff_trainer *t, ff_checkpoint_header *header, bool *found)
{
    char path[FF_RUN_PATH_BYTES];
    int64_t *steps = NULL, count = 0;
    ff_status status = ff_run_folder_list(ctx, run, &steps, &count);
    *found = false;
    for (int64_t i = 0; status == FF_OK && i < count && !*found; i++) {
        status = ff_trainer_load(ctx, t, header, checkpoint_path(run, steps[i], path));
        *found = status == FF_OK;
        if ((status == FF_ERR_FORMAT || status == FF_ERR_IO) && i + 1 < count) {
            FF_WARN(ctx, "%s; the checkpoint before it is taken", ctx->message);
            ff_context_clear(ctx);
            status = FF_OK;
        }
    }
    free(steps);
    return status;
}

/* ---- metrics ---- */

/* The lines of steps that are done; a last line cut short goes. */
typedef struct {
    const char *path;
    int64_t step;
} kept_lines;

static ff_status copy_lines(ff_ctx *ctx, FILE *out, const void *arg)
{
    const kept_lines *kept = arg;
    FILE *in = fopen(kept->path, "r");
    char *line = NULL;
    size_t capacity = 0;
    if (in == NULL)
        return errno == ENOENT ? FF_OK : FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: %s", kept->path, strerror(errno));
    for (ssize_t length; (length = getline(&line, &capacity, in)) > 0;) {
        const char *at = strstr(line, "\"step\":");
        if (line[length - 1] == '\n' && at != NULL && strtoll(at + strlen("\"step\":"), NULL, 10) <= kept->step)
            fwrite(line, 1, (size_t)length, out);
    }
    free(line);
    fclose(in);
    return FF_OK;
}

ff_status ff_run_folder_begin_metrics(ff_ctx *ctx, ff_run_folder *run, int64_t step)
{
    const kept_lines kept = {run->metrics, step};
    FF_TRY(ff_safe_file_write(ctx, run->metrics, copy_lines, &kept));
    run->lines = fopen(run->metrics, "a");
    if (run->lines == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", run->metrics, strerror(errno));
    return FF_OK;
}
