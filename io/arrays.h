/* arrays.h - named arrays, as features, batches and results travel through the data side: in memory and in HDF5.
 *
 * A set owns its arrays. Names may hold "/" (groups in a file). Shapes in C order; 0 dimensions = a single value. */
#ifndef FF_IO_ARRAYS_H
#define FF_IO_ARRAYS_H

#include "io/hdf5_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FF_ARRAY_FLOAT32, FF_ARRAY_INT32, FF_ARRAY_INT8, FF_ARRAY_TEXT } ff_array_type;

typedef struct {
    char *name;
    ff_array_type type;
    int ndim;
    int64_t shape[FF_HDF5_MAX_DIMS];
    int64_t size; /* elements */
    union {
        void *data;
        float *f32;
        int32_t *i32;
        int8_t *i8;
        char **text; /* each NULL (= "") or owned */
    };
} ff_array;

typedef struct {
    ff_array **items; /* in the order they were added; the pointers stay valid while other arrays come and go */
    int64_t count, capacity;
} ff_array_set;

void ff_array_set_init(ff_array_set *set);
void ff_array_set_destroy(ff_array_set *set); /* leaves it as after init */

#define FF_DIMS(...)                                                                                                   \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/** A new array of zeros (texts: empty); an array of that name goes first. FF_DIMS(n, m) gives ndim and shape; a single
 * value is `0, NULL`. @return NULL on failure (ctx says why). */
ff_array *ff_array_add(ff_ctx *ctx, ff_array_set *set, const char *name, ff_array_type type, int ndim,
                       const int64_t *shape);
/** NULL when absent. */
ff_array *ff_array_find(const ff_array_set *set, const char *name);
/** The array of that name, type and shape (-1 = any length; ndim < 0 = any shape). NULL, and FF_ERR_FORMAT naming the array
 * and both shapes, when it is not so. */
ff_array *ff_array_need(ff_ctx *ctx, const ff_array_set *set, const char *name, ff_array_type type, int ndim,
                        const int64_t *shape);
void ff_array_remove(ff_array_set *set, const char *name);
/** Hand the array `name` of `from` over to `to`, under `new_name` (an array of that name goes first; `to` may be `from`). Nothing
 * is copied. */
ff_status ff_array_move(ff_ctx *ctx, ff_array_set *to, const char *new_name, ff_array_set *from, const char *name);
/** Put a copy of `text` (`length` bytes) in a place of a text array. */
ff_status ff_array_put_text(ff_ctx *ctx, ff_array *array, int64_t index, const char *text, size_t length);
/** A copy of `array` under `name` in `set`. */
ff_array *ff_array_copy(ff_ctx *ctx, ff_array_set *set, const char *name, const ff_array *array);
size_t ff_array_type_bytes(ff_array_type type);

/** Read every data set below `group` ("/" = all) into `set`, by the names relative to it. Numbers become float32 or int32
 * (8-bit integers int8); texts of fixed or variable length become text. */
ff_status ff_array_set_read(ff_ctx *ctx, ff_array_set *set, ff_hdf5_file *file, const char *group);
/** Write all arrays below `group`, which is made when it is not there. */
ff_status ff_array_set_write(ff_ctx *ctx, const ff_array_set *set, ff_hdf5_writer *writer, const char *group);

#ifdef __cplusplus
}
#endif
#endif
