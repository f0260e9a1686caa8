#include "data/obsolete.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text_file.h"

typedef struct {
    char from[FF_PDB_ID_BYTES], to[FF_PDB_ID_BYTES];
} replacement;

struct ff_obsolete {
    replacement *items; /* by `from` */
    size_t count, capacity;
};

static void copy_lower(char to[FF_PDB_ID_BYTES], const char *from)
{
    size_t i = 0;
    for (; i + 1 < FF_PDB_ID_BYTES && from[i] != '\0'; i++)
        to[i] = (char)tolower((unsigned char)from[i]);
    to[i] = '\0';
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const replacement *)a)->from, ((const replacement *)b)->from);
}

static ff_status add(ff_ctx *ctx, ff_obsolete *o, const char *from, const char *to)
{
    if (o->count == o->capacity) {
        const size_t capacity = o->capacity > 0 ? 2 * o->capacity : 1024;
        replacement *items = realloc(o->items, capacity * sizeof *items);
        if (items == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %zu obsolete entries", o->count);
        o->items = items;
        o->capacity = capacity;
    }
    copy_lower(o->items[o->count].from, from);
    copy_lower(o->items[o->count].to, to);
    o->count++;
    return FF_OK;
}

/* One line, its end cut off; `known` becomes true when it is of the kind this file has. */
static ff_status read_line(ff_ctx *ctx, ff_obsolete *o, const char *line, const char *path, size_t number,
                           bool *known)
{
    char date[16], from[FF_PDB_ID_BYTES], to[FF_PDB_ID_BYTES];
    if (strncmp(line, "OBSLTE", 6) != 0 || !isspace((unsigned char)line[6])) {
        *known = *known || strstr(line, "OBSOLETE") != NULL;
        return FF_OK;
    }
    *known = true;
    const int n = sscanf(line + 6, "%15s %15s %15s", date, from, to);
    if (n < 2)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%zu: \"%.60s\" names no entry; wanted: OBSLTE DATE FROM [TO]", path,
                       number, line);
    return n == 3 ? add(ctx, o, from, to) : FF_OK;
}

static ff_status read_lines(ff_ctx *ctx, ff_obsolete *o, char *data, size_t size, const char *path)
{
    bool known = size == 0;
    size_t number = 0;
    for (char *line = data, *end = data + size; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        char *next = stop == NULL ? end : stop + 1;
        if (stop != NULL)
            *stop = '\0';
        FF_TRY(read_line(ctx, o, line, path, ++number, &known));
        line = next;
    }
    if (!known)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: no OBSLTE line in it; this is not the PDB's obsolete.dat", path);
    if (o->count > 0)
        qsort(o->items, o->count, sizeof *o->items, compare);
    return FF_OK;
}

ff_status ff_obsolete_read(ff_ctx *ctx, ff_obsolete **obsolete, const char *path)
{
    char *data = NULL;
    size_t size = 0;
    *obsolete = NULL;
    FF_TRY(ff_text_read_all(ctx, path, &data, &size));
    ff_obsolete *o = calloc(1, sizeof *o);
    ff_status status = o == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path) : FF_OK;
    if (status == FF_OK)
        status = read_lines(ctx, o, data, size, path);
    free(data);
    if (status != FF_OK) {
        ff_obsolete_destroy(o);
        return status;
    }
    *obsolete = o;
    return FF_OK;
}

void ff_obsolete_destroy(ff_obsolete *o)
{
    if (o == NULL)
        return;
    free(o->items);
    free(o);
}

const char *ff_obsolete_next(const ff_obsolete *o, const char *id)
{
    replacement key;
    copy_lower(key.from, id);
    const replacement *found =
        o == NULL || o->count == 0 ? NULL : bsearch(&key, o->items, o->count, sizeof key, compare);
    return found == NULL ? NULL : found->to;
}

ff_status ff_obsolete_follow(ff_ctx *ctx, const ff_obsolete *o, const char *id, char *current)
{
    copy_lower(current, id);
    const char *slow = current, *fast = ff_obsolete_next(o, current), *last = fast;
    /* the hare takes two steps for the tortoise's one; they meet when there is a circle */
    while (fast != NULL) {
        if (strcmp(slow, fast) == 0)
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "obsolete entry %s: the list of successors leads in a circle through %s", current, fast);
        last = fast;
        fast = ff_obsolete_next(o, fast);
        if (fast == NULL)
            break;
        last = fast;
        fast = ff_obsolete_next(o, fast);
        slow = ff_obsolete_next(o, slow);
    }
    if (last != NULL)
        copy_lower(current, last);
    return FF_OK;
}
