#include "io/name_table.h"

#include <stdlib.h>
#include <string.h>

/* Eight bytes at a time: multiply and fold, then the mixing of splitmix64. */
uint64_t ff_hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint64_t hash = 0x9e3779b97f4a7c15u ^ length;
    for (; length >= 8; length -= 8, p += 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--)
            word = word << 8 | p[i];
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    uint64_t word = 0;
    for (size_t i = length; i-- > 0;)
        word = word << 8 | p[i];
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 30;
    hash *= 0xbf58476d1ce4e5b9u;
    return hash ^ hash >> 27;
}

/* Whether name i is this one; a NUL in `name` compares as the two characters it is kept as. */
static bool same_name(const ff_name_table *table, int64_t i, const char *name, size_t length)
{
    const char *own = ff_name_table_get(table, i);
    if (memchr(name, '\0', length) == NULL)
        return strncmp(own, name, length) == 0 && own[length] == '\0';
    for (size_t k = 0; k < length; k++) {
        if (name[k] == '\0' ? own[0] != '\\' || own[1] != '0' : own[0] != name[k])
            return false;
        own += name[k] == '\0' ? 2 : 1;
    }
    return *own == '\0';
}

/* The slot of the name, or the free one where it belongs. */
static int64_t find_slot(const ff_name_table *table, uint64_t hash, const char *name, size_t length)
{
    int64_t slot = (int64_t)(hash & (uint64_t)(table->num_slots - 1));
    for (;; slot = (slot + 1) & (table->num_slots - 1)) {
        const int64_t i = table->slots[slot];
        if (i < 0 || (table->hashes[i] == hash && same_name(table, i, name, length)))
            return slot;
    }
}

/* At most half of the slots in use. */
static ff_status make_room(ff_ctx *ctx, ff_name_table *table)
{
    const int64_t count = table->names.count;
    FF_TRY(ff_grow(ctx, &table->hashes, &table->hash_capacity, count + 1, sizeof *table->hashes));
    if (2 * (count + 1) <= table->num_slots)
        return FF_OK;
    const int64_t num_slots = table->num_slots == 0 ? 64 : 2 * table->num_slots;
    int64_t *slots = malloc((size_t)num_slots * sizeof *slots);
    if (slots == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld names", (long long)num_slots);
    for (int64_t s = 0; s < num_slots; s++)
        slots[s] = -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t s = (int64_t)(table->hashes[i] & (uint64_t)(num_slots - 1));
        while (slots[s] >= 0)
            s = (s + 1) & (num_slots - 1);
        slots[s] = i;
    }
    free(table->slots);
    table->slots = slots;
    table->num_slots = num_slots;
    return FF_OK;
}

ff_status ff_name_table_add(ff_ctx *ctx, ff_name_table *table, const char *name, size_t length, int64_t *index,
                            bool *added)
{
    FF_TRY(make_room(ctx, table));
    const uint64_t hash = ff_hash_bytes(name, length);
    const int64_t slot = find_slot(table, hash, name, length);
    *index = table->slots[slot];
    if (added != NULL)
        *added = *index < 0;
    if (*index >= 0)
        return FF_OK;
    FF_TRY(ff_text_list_add(ctx, &table->names, name, length));
    *index = table->names.count - 1;
    table->hashes[*index] = hash;
    table->slots[slot] = *index;
    return FF_OK;
}

int64_t ff_name_table_find(const ff_name_table *table, const char *name, size_t length)
{
    return table->num_slots == 0 ? -1 : table->slots[find_slot(table, ff_hash_bytes(name, length), name, length)];
}

void ff_name_table_destroy(ff_name_table *table)
{
    ff_text_list_destroy(&table->names);
    free(table->hashes);
    free(table->slots);
    *table = (ff_name_table){.hashes = NULL};
}
