/* name_table.h - names to indices 0, 1, 2... in the order they came: a hash table over one block of text. */
#ifndef FF_IO_NAME_TABLE_H
#define FF_IO_NAME_TABLE_H

#include "io/text_buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_text_list names; /* by index; a NUL inside a name is kept as `\0` */
    uint64_t *hashes;   /* [hash_capacity] of each name */
    int64_t hash_capacity;
    int64_t *slots; /* [num_slots], a power of two; -1 = free */
    int64_t num_slots;
} ff_name_table;

/**
 * The index of a name, which is added when it is new.
 * @param index  out  0..count-1
 * @param added  out  whether it is new; may be NULL
 */
ff_status ff_name_table_add(ff_ctx *ctx, ff_name_table *table, const char *name, size_t length, int64_t *index,
                            bool *added);
/** -1 when it was not added. */
int64_t ff_name_table_find(const ff_name_table *table, const char *name, size_t length);
static inline const char *ff_name_table_get(const ff_name_table *table, int64_t index)
{
    return ff_text_list_get(&table->names, index);
}
void ff_name_table_destroy(ff_name_table *table);

/** A hash of bytes, the same on every machine. */
uint64_t ff_hash_bytes(const void *bytes, size_t length);

#ifdef __cplusplus
}
#endif
#endif
