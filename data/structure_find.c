#include "data/structure_find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const char *const endings[] = {".cif", ".mmcif", ".pdb", ".ent"}; /* best first */
enum { NUM_ENDINGS = sizeof endings / sizeof *endings };

/* A name in the folder; its key is the name in lower case, for a file without its ending. */
typedef struct {
    char *name, *key;
    int rank; /* 2 * ending + gzip; lower is better */
} entry;

typedef struct {
    entry *items; /* by key, rank, name */
    size_t count, capacity;
} list;

struct ff_structure_finder {
    char *folder;
    list files, folders;
};

/* Rank of a file name and the length without its ending; -1 = another kind of file. */
static int rank_of(const char *name, size_t *stem)
{
    size_t length = strlen(name);
    const bool gzip = length > 3 && strcasecmp(name + length - 3, ".gz") == 0;
    if (gzip)
        length -= 3;
    for (int e = 0; e < NUM_ENDINGS; e++) {
        const size_t n = strlen(endings[e]);
        if (length > n && strncasecmp(name + length - n, endings[e], n) == 0) {
            *stem = length - n;
            return 2 * e + gzip;
        }
    }
    return -1;
}

bool ff_structure_is_file_name(const char *name)
{
    size_t stem;
    return rank_of(name, &stem) >= 0;
}

static bool add(list *l, const char *name, size_t length, int rank)
{
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        entry *items = realloc(l->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        l->items = items;
        l->capacity = capacity;
    }
    entry *e = &l->items[l->count];
    *e = (entry){strdup(name), strndup(name, length), rank};
    l->count++;
    for (char *c = e->key; c != NULL && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    return e->name != NULL && e->key != NULL;
}

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int by_key = strcmp(x->key, y->key);
    return by_key != 0 ? by_key : x->rank != y->rank ? x->rank - y->rank : strcmp(x->name, y->name);
}

static void list_destroy(list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->items[i].name);
        free(l->items[i].key);
    }
    free(l->items);
    *l = (list){NULL, 0, 0};
}

/* Whether a directory's entry is a folder; links are followed. */
static bool is_folder(const char *folder, const struct dirent *d)
{
    char path[4096];
    struct stat st;
    if (d->d_type == DT_DIR)
        return true;
    if (d->d_type == DT_REG)
        return false;
    snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Structure files and, where asked for, folders; false with errno when the folder cannot be read, or memory is short.
 */
static bool list_folder(const char *folder, list *files, list *folders)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return false;
    bool good = true;
    for (const struct dirent *d = readdir(dir); good && d != NULL; d = readdir(dir)) {
        size_t stem;
        const int rank = rank_of(d->d_name, &stem);
        if (d->d_name[0] == '.')
            continue;
        if (rank >= 0)
            good = add(files, d->d_name, stem, rank);
        else if (folders != NULL && is_folder(folder, d))
            good = add(folders, d->d_name, strlen(d->d_name), 0);
    }
    closedir(dir);
    if (files->count > 0)
        qsort(files->items, files->count, sizeof *files->items, compare);
    if (folders != NULL && folders->count > 0)
        qsort(folders->items, folders->count, sizeof *folders->items, compare);
    return good;
}

ff_status ff_structure_finder_create(ff_ctx *ctx, ff_structure_finder **finder, const char *folder)
{
    *finder = NULL;
    ff_structure_finder *f = calloc(1, sizeof *f);
    if (f == NULL || (f->folder = strdup(folder)) == NULL) {
        free(f);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory listing %s", folder);
    }
    errno = 0;
    if (!list_folder(folder, &f->files, &f->folders)) {
        const int error = errno;
        ff_structure_finder_destroy(f);
        return FF_FAIL(ctx, error == ENOMEM ? FF_ERR_MEM : FF_ERR_IO, "cannot list folder %s: %s", folder,
                       strerror(error));
    }
    *finder = f;
    return FF_OK;
}

void ff_structure_finder_destroy(ff_structure_finder *f)
{
    if (f == NULL)
        return;
    list_destroy(&f->files);
    list_destroy(&f->folders);
    free(f->folder);
    free(f);
}

/* The first (best) entry of a key; NULL = none. */
static const entry *find_key(const list *l, const char *key)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(l->items[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->count && strcmp(l->items[low].key, key) == 0 ? &l->items[low] : NULL;
}

/* Of the names an entry's file may have, the best one in a list. */
static const entry *find_file(const list *files, const char *id, const char *chain)
{
    char key[128];
    const entry *best = NULL;
    for (int form = 0; form < (chain == NULL || chain[0] == '\0' ? 2 : 4); form++) {
        if (form < 2)
            snprintf(key, sizeof key, form == 0 ? "%s" : "pdb%s", id);
        else
            snprintf(key, sizeof key, form == 2 ? "%s_%s" : "%s%s", id, chain);
        for (char *c = key; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        const entry *found = form >= 2 && best != NULL ? NULL : find_key(files, key);
        if (found != NULL && (best == NULL || found->rank < best->rank))
            best = found;
    }
    return best;
}

static char *join(const char *a, const char *b, const char *c)
{
    const size_t bytes = strlen(a) + strlen(b) + (c != NULL ? strlen(c) : 0) + 3;
    char *path = malloc(bytes);
    if (path != NULL)
        snprintf(path, bytes, c != NULL ? "%s/%s/%s" : "%s/%s", a, b, c);
    return path;
}

/* The file in a folder below, if that is there and has it. */
static char *find_below(const ff_structure_finder *f, const char *key, const char *id, const char *chain)
{
    char *path = NULL;
    for (const entry *sub = find_key(&f->folders, key), *end = f->folders.items + f->folders.count;
         sub != NULL && sub < end && path == NULL && strcmp(sub->key, key) == 0; sub++) {
        list files = {NULL, 0, 0};
        char *folder = join(f->folder, sub->name, NULL);
        if (folder != NULL && list_folder(folder, &files, NULL)) {
            const entry *file = find_file(&files, id, chain);
            path = file == NULL ? NULL : join(f->folder, sub->name, file->name);
        }
        list_destroy(&files);
        free(folder);
    }
    return path;
}

char *ff_structure_find(const ff_structure_finder *f, const char *id, const char *chain)
{
    const size_t length = strlen(id);
    if (length < 4 || length >= FF_PDB_ID_BYTES || strchr(id, '/') != NULL)
        return NULL;
    const entry *file = find_file(&f->files, id, chain);
    if (file != NULL)
        return join(f->folder, file->name, NULL);
    char whole[FF_PDB_ID_BYTES], middle[3] = {0};
    for (size_t i = 0; i <= length; i++)
        whole[i] = (char)tolower((unsigned char)id[i]);
    memcpy(middle, whole + length - 3, 2); /* 1[ab]c, pdb_00001[ab]c */
    char *path = find_below(f, middle, id, chain);
    return path != NULL ? path : find_below(f, whole, id, chain);
}

ff_status ff_structure_find_current(ff_ctx *ctx, const ff_structure_finder *finder, const ff_obsolete *obsolete,
                                    const char *id, const char *chain, char *found, char **path)
{
    char current[FF_PDB_ID_BYTES];
    const ff_status circle = ff_obsolete_follow(ctx, obsolete, id, current);
    const char *at = id;
    *path = NULL;
    /* a circle has no end: one round of it is enough, and no list is longer than this */
    for (int step = 0; at != NULL && step < 64; step++) {
        *path = ff_structure_find(finder, at, chain);
        if (*path != NULL) {
            snprintf(found, FF_PDB_ID_BYTES, "%s", at);
            for (char *c = found; *c != '\0'; c++)
                *c = (char)tolower((unsigned char)*c);
            if (circle != FF_OK)
                ff_context_clear(ctx);
            return FF_OK;
        }
        at = ff_obsolete_next(obsolete, at);
        if (at != NULL && strcasecmp(at, id) == 0)
            break;
    }
    return circle;
}
