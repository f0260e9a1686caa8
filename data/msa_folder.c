#include "data/msa_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/a3m.h"
#include "data/search.h"
#include "data/stockholm.h"

/* ---- names ---- */

static bool begins_with(const char *name, const char *start) { return strncasecmp(name, start, strlen(start)) == 0; }

static bool ends_with(const char *name, size_t length, const char *end)
{
    const size_t n = strlen(end);
    return length > n && strncasecmp(name + length - n, end, n) == 0;
}

/* Length of a name without .gz. */
static size_t plain_length(const char *name)
{
    const size_t length = strlen(name);
    return ends_with(name, length, ".gz") ? length - 3 : length;
}

static bool has_ending(const char *name, const char *const *endings)
{
    for (; *endings != NULL; endings++)
        if (ends_with(name, plain_length(name), *endings))
            return true;
    return false;
}

static const char *const msa_endings[] = {".a3m", ".a2m", ".sto", ".sth", ".stockholm", NULL};
static const char *const hit_endings[] = {".hhr", NULL};

static bool is_hits(const char *name)
{
    return has_ending(name, hit_endings) || begins_with(name, "pdb_hits.sto") || begins_with(name, "hmm_output.sto");
}

static bool is_msa(const char *name)
{
    return has_ending(name, msa_endings) && !is_hits(name) && !begins_with(name, "uniprot_hits.");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* AlphaFold's order of sources. */
static int rank_of(const char *path)
{
    static const struct {
        const char *start;
        int rank;
    } known[] = {{"uniref90", 0}, {"bfd", 1}, {"uniclust", 1}, {"uniref30", 1}, {"mgnify", 2}};
    const char *name = base_name(path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins_with(name, known[i].start))
            return known[i].rank;
    return 3;
}

static int compare_paths(const void *a, const void *b)
{
    const char *one = *(const char *const *)a, *two = *(const char *const *)b;
    const int difference = rank_of(one) - rank_of(two);
    return difference != 0 ? difference : strcmp(one, two);
}

int64_t ff_msa_file_max_seq(const char *path)
{
    const char *name = base_name(path);
    return begins_with(name, "uniref90") ? FF_UNIREF90_MAX_SEQ : begins_with(name, "mgnify") ? FF_MGNIFY_MAX_SEQ : 0;
}

/* ---- folders ---- */

typedef struct {
    char **paths;
    int64_t count, capacity;
} path_list;

static void destroy_paths(path_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
}

/* Add the files of `folder` that `wanted` takes; `prefix` must stand at the start of their names (NULL = any). */
static ff_status list_files(ff_ctx *ctx, path_list *list, const char *folder, const char *prefix)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read folder %s: %s", folder, strerror(errno));
    ff_status status = FF_OK;
    for (struct dirent *entry; status == FF_OK && (entry = readdir(dir)) != NULL;) {
        if (prefix != NULL &&
            (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || entry->d_name[strlen(prefix)] != '.'))
            continue;
        if (entry->d_name[0] == '.' || !(is_msa(entry->d_name) || is_hits(entry->d_name)))
            continue;
        status = ff_grow(ctx, &list->paths, &list->capacity, list->count + 1, sizeof *list->paths);
        if (status == FF_OK && asprintf(&list->paths[list->count], "%s/%s", folder, entry->d_name) < 0)
            status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
        if (status == FF_OK)
            list->count++;
    }
    closedir(dir);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

ff_status ff_msa_files_find(ff_ctx *ctx, ff_msa_files *files, const char *folder, const char *name)
{
    path_list list = {0};
    char *own = NULL;
    ff_status status = FF_OK;
    *files = (ff_msa_files){0};
    if (asprintf(&own, "%s/%s", folder, name) < 0)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    FF_TRY_DONE(list_files(ctx, &list, folder, name));
    if (is_folder(own))
        FF_TRY_DONE(list_files(ctx, &list, own, NULL));
    if (list.count > 0)
        qsort(list.paths, (size_t)list.count, sizeof *list.paths, compare_paths);
    for (int64_t i = 0; i < list.count; i++) {
        const char *path = list.paths[i];
        if (!is_hits(base_name(path)))
            FF_TRY_DONE(ff_text_list_add(ctx, &files->msas, path, strlen(path)));
        else if (files->hits == NULL && (files->hits = strdup(path)) == NULL)
            FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory"));
    }
done:
    free(own);
    destroy_paths(&list);
    if (status != FF_OK)
        ff_msa_files_destroy(files);
    return status;
}

void ff_msa_files_destroy(ff_msa_files *files)
{
    ff_text_list_destroy(&files->msas);
    free(files->hits);
    *files = (ff_msa_files){0};
}

const char *ff_msa_folder_explain(const char *folder, const char *name, char *text, size_t size)
{
    DIR *dir = opendir(folder);
    bool has_files = false, deeper = false;
    char sub[256] = "";
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[4096];
        has_files = has_files || is_msa(entry->d_name);
        snprintf(path, sizeof path, "%s/%s/%s", folder, entry->d_name, name);
        if (entry->d_name[0] != '.' && !deeper && is_folder(path)) {
            snprintf(sub, sizeof sub, "%s", entry->d_name);
            deeper = true;
        }
    }
    if (dir != NULL)
        closedir(dir);
    int length = snprintf(text, size, "no alignments of %.80s: expected %s/%.80s/*.a3m (or .sto), or %s/%.80s.a3m",
                          name, folder, name, folder, name);
    if (length < 0 || (size_t)length >= size)
        return text;
    if (deeper)
        snprintf(text + length, size - (size_t)length, "; they lie one level deeper, in %s/%s", folder, sub);
    else if (has_files)
        snprintf(text + length, size - (size_t)length, "; %s itself holds alignments of other names", folder);
    return text;
}

/* ---- reading ---- */

ff_status ff_msa_file_kind(ff_ctx *ctx, const char *path, ff_file_kind *kind)
{
    ff_text_file *file;
    ff_status status = FF_OK;
    *kind = FF_FILE_UNKNOWN;
    FF_TRY(ff_text_open(ctx, &file, path));
    for (ff_text_line line;;) {
        FF_TRY_DONE(ff_text_next(ctx, file, &line));
        if (line.text == NULL)
            break;
        const char *text = line.text + strspn(line.text, " \t");
        if (*text == '\0')
            continue;
        if (begins_with(text, "# STOCKHOLM"))
            *kind = FF_FILE_STOCKHOLM;
        else if (*text == '>')
            *kind = FF_FILE_A3M;
        else if (*text == '#')
            continue; /* ColabFold's and others' comments before an A3M */
        else if (strncmp(text, "Query ", 6) == 0)
            *kind = FF_FILE_HHR;
        break;
    }
done:
    ff_text_close(file);
    return status;
}

ff_status ff_msa_file_read(ff_ctx *ctx, ff_msa *msa, const char *path, const ff_msa_options *options)
{
    ff_file_kind kind;
    *msa = (ff_msa){0};
    FF_TRY(ff_msa_file_kind(ctx, path, &kind));
    if (kind == FF_FILE_STOCKHOLM)
        return ff_stockholm_read(ctx, msa, path, options);
    if (kind == FF_FILE_A3M)
        return ff_a3m_read(ctx, msa, path, options);
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s is no alignment: neither A3M (a line with \">\" first) nor Stockholm",
                   path);
}
