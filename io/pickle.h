/* pickle.h - Python's pickle as plain data: numbers, texts, lists, dictionaries. Nothing is imported and nothing is
 * run.
 *
 * A pickle is a program for a small stack machine, and Python's own reader lets it call any function. This one has the
 * opcodes that describe data, and takes a GLOBAL only when its caller lists it; even then a call stays what it is, a
 * function's name beside its arguments, for the caller to look at. Everything else is refused by name. Source of the
 * opcodes: Python's pickletools.py, protocols 2 to 5. */
#ifndef FF_IO_PICKLE_H
#define FF_IO_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_PICKLE_NONE,
    FF_PICKLE_BOOL,      /* integer 0, 1 */
    FF_PICKLE_INTEGER,   /* integer */
    FF_PICKLE_REAL,      /* real */
    FF_PICKLE_TEXT,      /* text, UTF-8 */
    FF_PICKLE_TUPLE,     /* items */
    FF_PICKLE_LIST,      /* items */
    FF_PICKLE_DICT,      /* items: key, value, key, value, ...; also of collections.OrderedDict() */
    FF_PICKLE_GLOBAL,    /* text: "module name", one of those allowed */
    FF_PICKLE_CALL,      /* items: the global, the tuple of arguments */
    FF_PICKLE_PERSISTENT /* items: the id, which means something to the caller only */
} ff_pickle_type;

typedef struct ff_pickle_value {
    ff_pickle_type type;
    int64_t integer;
    double real;
    char *text;
    struct ff_pickle_value **items;
    int64_t count, capacity;
} ff_pickle_value;

typedef struct ff_pickle ff_pickle;

/**
 * @param allowed  globals that may occur, "module name", ended by NULL; "collections OrderedDict" is known without
 * @param what     the file, for messages
 * @return FF_ERR_FORMAT: cut short or no pickle; FF_ERR_UNSUPPORTED: an opcode or a global that is not allowed, named.
 */
ff_status ff_pickle_read(ff_ctx *ctx, ff_pickle **pickle, const unsigned char *bytes, size_t size,
                         const char *const *allowed, const char *what);
/** The value it makes; it and all below it live as long as the pickle. May contain itself: walk with a limit of depth.
 * */
const ff_pickle_value *ff_pickle_root(const ff_pickle *pickle);
void ff_pickle_destroy(ff_pickle *pickle); /* NULL is fine */

/** The value of a text key in a DICT; NULL when there is none, or `dict` is none. */
const ff_pickle_value *ff_pickle_find(const ff_pickle_value *dict, const char *key);

#ifdef __cplusplus
}
#endif
#endif
