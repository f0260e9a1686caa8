#include "infer/target_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/version.h"
#include "infer/json_writer.h"
#include "io/safe_file.h"
#include "io/text_file.h"

#ifdef FF_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

static const char status_file[] = "status.json";
static const char *const state_names[] = {"running", "finished", "failed"};

/* What a run leaves in a target's folder (infer/output.h), and the temporary files of one that was killed. */
static const char *const our_files[] = {"status.json",     "ranked_*.pdb",  "ranked_*.cif", "confidence*.json",
                                        "predicted_aligned_error*.json", "ranking.json", "timings.json", "report.html",
                                        "result*.h5"};

char *ff_path_join(ff_ctx *ctx, const char *path, const char *name)
{
    const size_t bytes = strlen(path) + strlen(name) + 2;
    char *joined = malloc(bytes);
    if (joined == NULL)
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a path in %s", path);
    else
        snprintf(joined, bytes, "%s/%s", path, name);
    return joined;
}

static void utc_now(char text[32])
{
    const time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* ---- what is there ---- */

static bool is_ours(const char *name)
{
    char pattern[64];
    for (size_t k = 0; k < sizeof our_files / sizeof *our_files; k++) {
        snprintf(pattern, sizeof pattern, "%s.tmp*", our_files[k]);
        if (fnmatch(our_files[k], name, 0) == 0 || fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

/* Visit the files of a folder: remove ours, or count those that are not ours. */
static ff_status look_through(ff_ctx *ctx, const char *path, bool remove_ours, int64_t *num_foreign)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read folder %s: %s", path, strerror(errno));
    ff_status status = FF_OK;
    *num_foreign = 0;
    for (struct dirent *entry; status == FF_OK && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const bool ours = is_ours(entry->d_name);
        *num_foreign += !ours;
        if (ours && remove_ours && strcmp(entry->d_name, status_file) != 0 &&
            unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            status = FF_FAIL(ctx, FF_ERR_IO, "cannot remove %s/%s: %s", path, entry->d_name, strerror(errno));
    }
    closedir(dir);
    return status;
}

typedef struct {
    bool there;
    bool finished;
    char input_hash[65];
} old_status;

#ifdef FF_HAVE_CJSON
/* A status.json that is damaged or not ours counts as unfinished: it is written again. */
static ff_status read_status(ff_ctx *ctx, old_status *old, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    *old = (old_status){.there = access(path, F_OK) == 0};
    if (!old->there)
        return FF_OK;
    FF_TRY(ff_text_read_all(ctx, path, &text, &size));
    cJSON *json = cJSON_ParseWithLength(text, size);
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "state"));
    const char *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "input_hash"));
    old->finished = state != NULL && strcmp(state, state_names[FF_TARGET_FINISHED]) == 0;
    snprintf(old->input_hash, sizeof old->input_hash, "%s", hash != NULL ? hash : "");
    cJSON_Delete(json);
    free(text);
    return FF_OK;
}
#else
static ff_status read_status(ff_ctx *ctx, old_status *old, const char *path)
{
    *old = (old_status){.there = access(path, F_OK) == 0};
    if (!old->there)
        return FF_OK;
    return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                   "%s: this program was built without cJSON and cannot see whether the target is done;"
                   " use --overwrite or another output folder, or build again after `make deps`",
                   path);
}
#endif

/* A folder, no link: whoever made the output folder must not lead us out of it. */
static ff_status make_folder(ff_ctx *ctx, const char *path)
{
    struct stat st;
    if (mkdir(path, 0777) == 0)
        return FF_OK;
    if (errno != EEXIST)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot make folder %s: %s", path, strerror(errno));
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return FF_FAIL(ctx, FF_ERR_IO, "%s is %s, where a folder is to be; move it or use another output folder", path,
                       S_ISLNK(st.st_mode) ? "a link" : "a file");
    return FF_OK;
}

/* ---- status.json ---- */

typedef struct {
    const ff_target_folder *folder;
    const ff_target *target;
    ff_target_state state;
    const char *message;
} status_record;

static ff_status put_status(ff_ctx *ctx, FILE *file, const void *arg)
{
    const status_record *r = arg;
    ff_json json;
    (void)ctx;
    ff_json_begin(&json, file, true);
    ff_json_object_begin(&json, NULL);
    ff_json_text(&json, "state", state_names[r->state]);
    ff_json_text(&json, "message", r->message);
    ff_json_text(&json, "name", r->target->name);
    ff_json_text(&json, "folder", r->target->folder);
    ff_json_text(&json, "source", r->target->source);
    ff_json_integer(&json, "num_res", r->target->num_res);
    ff_json_text(&json, "input_hash", r->folder->input_hash);
    ff_json_text(&json, "begun", r->folder->begun);
    if (r->state != FF_TARGET_RUNNING) {
        char ended[32];
        utc_now(ended);
        ff_json_text(&json, "ended", ended);
        ff_json_number(&json, "seconds", ff_clock_s() - r->folder->begin_s, 3);
    }
    ff_json_text(&json, "version", "fastfold " FF_VERSION);
    ff_json_object_end(&json);
    ff_json_end(&json);
    return FF_OK;
}

ff_status ff_target_folder_end(ff_ctx *ctx, const ff_target_folder *folder, const ff_target *target,
                               ff_target_state state, const char *message)
{
    char *path = ff_path_join(ctx, folder->path, status_file);
    if (path == NULL)
        return FF_ERR_MEM;
    const ff_status status =
        ff_safe_file_write(ctx, path, put_status, &(status_record){folder, target, state, message});
    free(path);
    return status;
}

/* ---- begin ---- */

/* Whether the folder may be used; *finished when there is nothing to do. */
static ff_status may_use(ff_ctx *ctx, const ff_target_folder *folder, bool *finished)
{
    int64_t num_foreign = 0;
    old_status old;
    char *path = ff_path_join(ctx, folder->path, status_file);
    if (path == NULL)
        return FF_ERR_MEM;
    ff_status status = read_status(ctx, &old, path);
    free(path);
    if (status != FF_OK)
        return status;
    if (old.finished) {
        *finished = strcmp(old.input_hash, folder->input_hash) == 0;
        if (*finished)
            return FF_OK;
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "%s holds the finished result of another sequence or other options; use --overwrite to"
                       " replace it, or another output folder",
                       folder->path);
    }
    FF_TRY(look_through(ctx, folder->path, false, &num_foreign));
    if (!old.there && num_foreign > 0)
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "%s was there before and holds files that are not ours; use --overwrite to write beside"
                       " them, or another output folder",
                       folder->path);
    return FF_OK;
}

ff_status ff_target_folder_begin(ff_ctx *ctx, ff_target_folder *folder, const char *output_dir, const ff_target *target,
                                 const char *input_hash, bool overwrite)
{
    int64_t num_foreign;
    *folder = (ff_target_folder){.begin_s = ff_clock_s()};
    snprintf(folder->input_hash, sizeof folder->input_hash, "%s", input_hash);
    utc_now(folder->begun);
    if ((folder->path = ff_path_join(ctx, output_dir, target->folder)) == NULL)
        return FF_ERR_MEM;
    FF_TRY(make_folder(ctx, folder->path));
    if (!overwrite)
        FF_TRY(may_use(ctx, folder, &folder->finished));
    if (folder->finished)
        return FF_OK;
    /* `running` comes first: a kill between the two must not leave `finished` beside removed files */
    FF_TRY(ff_target_folder_end(ctx, folder, target, FF_TARGET_RUNNING, NULL));
    return look_through(ctx, folder->path, true, &num_foreign);
}

void ff_target_folder_destroy(ff_target_folder *folder)
{
    free(folder->path);
    *folder = (ff_target_folder){0};
}
