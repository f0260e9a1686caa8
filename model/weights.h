/* weights.h - weights in files: AlphaFold's .npz, our checkpoints (model/checkpoint.h), OpenFold's .pt.
 *
 * Names. In memory (ff_parameters) an array has the path below the model:
 * "evoformer/evoformer_iteration/msa_transition/ transition1/weights". Published files have
 * "alphafold/alphafold_iteration/" before and "//" before the last part; both forms are read, and the published one is
 * written. The blocks of the template pair stack are below "__layer_stack_no_state" in memory;
 * "__layer_stack_no_per_layer" in a file means the same. */
#ifndef FF_MODEL_WEIGHTS_H
#define FF_MODEL_WEIGHTS_H

#include "core/context.h"
#include "tensor/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_WEIGHT_NAME_BYTES = 256 };

/** The name in memory of a name in a file; cut off at FF_WEIGHT_NAME_BYTES. */
void ff_weights_memory_name(const char *stored, char name[FF_WEIGHT_NAME_BYTES]);
/** The published name of a name in memory. */
void ff_weights_published_name(const char *name, char stored[FF_WEIGHT_NAME_BYTES]);

typedef enum { FF_WEIGHTS_NPZ, FF_WEIGHTS_CHECKPOINT, FF_WEIGHTS_TORCH } ff_weights_kind;

/** What kind of file this is, by its content. FF_ERR_IO: not readable, and where weights are published; FF_ERR_FORMAT:
 * none of the three. */
ff_status ff_weights_get_kind(ff_ctx *ctx, const char *path, ff_weights_kind *kind);

/**
 * Fill every declared and allocated array from a file of any kind (of a checkpoint: the averaged weights where it has
 * them).
 * @return FF_ERR_FORMAT: an array is missing, has another shape (both are named), is cut short or damaged. The values
 *         are then undefined. Arrays of the file that the model does not have are a note in the log.
 */
ff_status ff_weights_read(ff_ctx *ctx, ff_parameters *parameters, const char *path);
/** The same, but of a checkpoint the weights of the last step and not their average. */
ff_status ff_weights_read_last(ff_ctx *ctx, ff_parameters *parameters, const char *path);

/** The same from a .npz. One pass, straight into place: no second copy of the weights. */
ff_status ff_weights_read_npz(ff_ctx *ctx, ff_parameters *parameters, const char *path);
/** Under the published names; the file appears whole. */
ff_status ff_weights_write_npz(ff_ctx *ctx, const ff_parameters *parameters, const char *path);

/** Declare in `parameters` (initialised, empty) what a .npz or a checkpoint holds, by names and shapes in memory. Of a
 * .pt the layout does not tell: FF_ERR_UNSUPPORTED. */
ff_status ff_weights_declare_as_in_file(ff_ctx *ctx, ff_parameters *parameters, const char *path);

/* How far the arrays of a file are from those of a model. */
typedef struct {
    int64_t missing, misshapen;       /* of the model's arrays */
    int64_t surplus;                  /* of the file's */
    char first[FF_WEIGHT_NAME_BYTES]; /* the first of the model's that is missing or misshapen; "" when all fit */
} ff_weights_match;

/** Count one array that does not fit: `counter` is match->missing or match->misshapen. */
void ff_weights_note_mismatch(ff_weights_match *match, int64_t *counter, const char *name);

/** Fail with FF_ERR_ARG: no weights were given; which file `preset` needs, where that is published, its licence. */
ff_status ff_weights_absent(ff_ctx *ctx, const char *preset);

/** Text of a shape, "[48, 256]". */
void ff_weights_format_shape(char *text, size_t bytes, int ndim, const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
