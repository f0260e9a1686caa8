#include "data/chain_lists.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text_file.h"

enum { NAME_BYTES = 256 };

static size_t lower(char to[NAME_BYTES], const char *from, size_t length)
{
    if (length >= NAME_BYTES)
        length = NAME_BYTES - 1;
    for (size_t i = 0; i < length; i++)
        to[i] = (char)tolower((unsigned char)from[i]);
    to[length] = '\0';
    return length;
}

/* Add a name; `there` is its number when it was in the list, else -1. */
static ff_status add(ff_ctx *ctx, ff_chain_list *list, const char *name, size_t length, int64_t number,
                     int64_t *there)
{
    char key[NAME_BYTES];
    int64_t index;
    bool added;
    const size_t key_length = lower(key, name, length);
    FF_TRY(ff_name_table_add(ctx, &list->names, key, key_length, &index, &added));
    *there = added ? -1 : list->numbers[index];
    if (!added)
        return FF_OK;
    if (index >= list->capacity) {
        const int64_t capacity = list->capacity > 0 ? 2 * list->capacity : 1024;
        int64_t *numbers = realloc(list->numbers, (size_t)capacity * sizeof *numbers);
        if (numbers == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld names", (long long)capacity);
        list->numbers = numbers;
        list->capacity = capacity;
    }
    list->numbers[index] = number;
    return FF_OK;
}

/* The next word of a line up to `#`; NULL at its end. */
static const char *next_word(const char **at, size_t *length)
{
    *at += strspn(*at, " \t\r,");
    const char *word = *at;
    *length = strcspn(word, " \t\r,#");
    *at += *length;
    return *length > 0 ? word : NULL;
}

static ff_status read_line(ff_ctx *ctx, ff_chain_list *list, const ff_text_line *line, const char *path,
                           bool clusters)
{
    const char *at = line->text;
    size_t length;
    int64_t there;
    bool first = true;
    for (const char *word = next_word(&at, &length); word != NULL; word = next_word(&at, &length), first = false) {
        if (clusters && first)
            FF_TRY(ff_text_list_add(ctx, &list->clusters, word, length));
        const int64_t number = clusters ? list->clusters.count - 1 : line->number;
        FF_TRY(add(ctx, list, word, length, number, &there));
        if (clusters && there >= 0 && there != number)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: %.*s is in the cluster of %s already", path,
                           (long long)line->number, (int)length, word, ff_text_list_get(&list->clusters, there));
    }
    return FF_OK;
}

static ff_status read_list(ff_ctx *ctx, ff_chain_list *list, const char *path, bool clusters)
{
    ff_status status = FF_OK;
    ff_text_file *file;
    FF_TRY(ff_text_open(ctx, &file, path));
    for (ff_text_line line;;) {
        FF_TRY_DONE(ff_text_next(ctx, file, &line));
        if (line.text == NULL)
            break;
        FF_TRY_DONE(read_line(ctx, list, &line, path, clusters));
    }
    if (list->names.names.count == 0)
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s: no chain name in it", path);
done:
    ff_text_close(file);
    return status;
}

ff_status ff_chain_list_read(ff_ctx *ctx, ff_chain_list *list, const char *path)
{
    return read_list(ctx, list, path, false);
}

ff_status ff_cluster_list_read(ff_ctx *ctx, ff_chain_list *list, const char *path)
{
    return read_list(ctx, list, path, true);
}

void ff_chain_list_destroy(ff_chain_list *list)
{
    ff_name_table_destroy(&list->names);
    ff_text_list_destroy(&list->clusters);
    free(list->numbers);
    *list = (ff_chain_list){.numbers = NULL};
}

int64_t ff_chain_list_find(const ff_chain_list *list, const char *name)
{
    char key[NAME_BYTES];
    const size_t length = lower(key, name, strlen(name));
    return list->names.names.count == 0 ? -1 : ff_name_table_find(&list->names, key, length);
}

const char *ff_chain_list_cluster(const ff_chain_list *list, const char *name)
{
    const int64_t index = ff_chain_list_find(list, name);
    return index < 0 ? "" : ff_text_list_get(&list->clusters, list->numbers[index]);
}
