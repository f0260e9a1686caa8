/* feature_schema.h - which features reach the model and what their leading axes count: what selecting, cropping, padding and
 * stacking need to know. Axes after the named ones (37 atoms, 3 coordinates, ...) pass through as they are. */
#ifndef FF_DATA_FEATURE_SCHEMA_H
#define FF_DATA_FEATURE_SCHEMA_H

#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { FF_AXIS_NONE, FF_AXIS_RES, FF_AXIS_MSA, FF_AXIS_EXTRA, FF_AXIS_TEMPLATE, FF_AXIS_COUNT } ff_feature_axis;

enum { FF_FEATURE_AXES = 2 };

typedef struct {
    const char *name;
    ff_feature_axis axes[FF_FEATURE_AXES]; /* FF_AXIS_NONE: not an axis to cut */
} ff_feature_info;

/** The feature of that name; NULL when the model does not read it (nor the losses). */
const ff_feature_info *ff_feature_find(const char *name);

/**
 * Copy a block between two arrays of `ndim` dimensions and elements of `bytes`: entries [from, from + count) of `src` to
 * [0, count) of `dst`. Blocks must lie inside both.
 */
void ff_block_copy(void *dst, const int64_t *dst_shape, const void *src, const int64_t *src_shape, const int64_t *from,
                   const int64_t *count, int ndim, size_t bytes);

/** Rows `rows[0..num_rows)` (numbers of places on axis 0) of `src`, in that order, as array `name` of `dst`. */
ff_array *ff_array_gather_rows(ff_ctx *ctx, ff_array_set *dst, const char *name, const ff_array *src,
                               const int64_t *rows, int64_t num_rows);
/** Keep the first `num_rows` rows of an array of numbers, in place. */
void ff_array_keep_rows(ff_array *array, int64_t num_rows);

#ifdef __cplusplus
}
#endif
#endif
