#include "io/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(ff_safe_file *safe)
{
    free(safe->path);
    free(safe->temporary);
    *safe = (ff_safe_file){NULL, NULL, NULL};
}

ff_status ff_safe_file_name(ff_ctx *ctx, ff_safe_file *safe, const char *path)
{
    *safe = (ff_safe_file){NULL, NULL, NULL};
    const size_t bytes = strlen(path) + 32;
    safe->path = strdup(path);
    safe->temporary = malloc(bytes);
    if (safe->path == NULL || safe->temporary == NULL) {
        forget(safe);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    }
    snprintf(safe->temporary, bytes, "%s.tmp%ld", path, (long)getpid());
    return FF_OK;
}

ff_status ff_safe_file_begin(ff_ctx *ctx, ff_safe_file *safe, const char *path)
{
    FF_TRY(ff_safe_file_name(ctx, safe, path));
    safe->file = fopen(safe->temporary, "wb");
    if (safe->file == NULL) {
        const int error = errno;
        forget(safe);
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(error));
    }
    return FF_OK;
}

/* The temporary file's content on the disk. */
static int flush_to_disk(ff_safe_file *safe)
{
    if (safe->file != NULL) {
        const int bad = ferror(safe->file) | fflush(safe->file) | fsync(fileno(safe->file));
        const int error = errno;
        const int closed = fclose(safe->file);
        safe->file = NULL;
        return bad != 0 ? error : closed != 0 ? errno : 0;
    }
    const int fd = open(safe->temporary, O_RDONLY);
    if (fd < 0)
        return errno;
    const int error = fsync(fd) != 0 ? errno : 0;
    close(fd);
    return error;
}

ff_status ff_safe_file_commit(ff_ctx *ctx, ff_safe_file *safe)
{
    ff_status status = FF_OK;
    int error = flush_to_disk(safe);
    if (error == 0 && rename(safe->temporary, safe->path) != 0)
        error = errno;
    if (error != 0) {
        unlink(safe->temporary);
        status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s; nothing was changed", safe->path,
                         error > 0 ? strerror(error) : "write error");
    }
    forget(safe);
    return status;
}

void ff_safe_file_abandon(ff_safe_file *safe)
{
    if (safe->file != NULL)
        fclose(safe->file);
    if (safe->temporary != NULL)
        unlink(safe->temporary);
    forget(safe);
}

ff_status ff_safe_file_write(ff_ctx *ctx, const char *path, ff_write_fn write, const void *arg)
{
    ff_safe_file safe;
    FF_TRY(ff_safe_file_begin(ctx, &safe, path));
    const ff_status status = write(ctx, safe.file, arg);
    if (status == FF_OK)
        return ff_safe_file_commit(ctx, &safe);
    ff_safe_file_abandon(&safe);
    return status;
}

ff_status ff_make_folders(ff_ctx *ctx, const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory making folder %s", path);
    ff_status status = FF_OK;
    for (char *p = copy + 1; status == FF_OK; p++) {
        const char c = *p;
        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        struct stat st;
        const int error = mkdir(copy, 0777) == 0 ? 0 : errno;
        if (error != 0 && !(stat(copy, &st) == 0 && S_ISDIR(st.st_mode)))
            status = FF_FAIL(ctx, FF_ERR_IO, "cannot make folder %s: %s", copy, strerror(error));
        *p = c;
        if (c == '\0')
            break;
    }
    free(copy);
    return status;
}

ff_status ff_make_temporary_folder(ff_ctx *ctx, char **path)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || *parent == '\0')
        parent = "/tmp";
    if (asprintf(path, "%s/fastfold-XXXXXX", parent) < 0) {
        *path = NULL;
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory making a temporary folder");
    }
    if (mkdtemp(*path) != NULL)
        return FF_OK;
    const int error = errno;
    free(*path);
    *path = NULL;
    return FF_FAIL(ctx, FF_ERR_IO, "cannot make a temporary folder in %s: %s", parent, strerror(error));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path);
    return 0;
}

void ff_remove_folder(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }
