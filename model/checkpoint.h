/* checkpoint.h - our own weight files in HDF5: the weights, their average, the optimiser's moments, and where training
 * stood.
 *
 *     /                        attributes format = "fastfold checkpoint", version = 1, preset, step, num_arrays
 *     /numbers                 attributes: numbers of the trainer's own
 *     /BLOCK/NAME              float32, in the shape of the parameter NAME (model/weights.h), for each block
 *
 * Blocks are laid out as ff_parameters.values. "parameters" is always there; "ema" is the running average. The
 * file ends with a seal (io/file_seal.h), a checksum that is compared before anything is read; it appears whole or not
 * at all. */
#ifndef FF_MODEL_CHECKPOINT_H
#define FF_MODEL_CHECKPOINT_H

#include "model/presets.h"
#include "tensor/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_CHECKPOINT_VERSION = 1, FF_CHECKPOINT_NUMBERS = 32, FF_CHECKPOINT_NAME_BYTES = 64 };

#define FF_CHECKPOINT_PARAMETERS "parameters"
#define FF_CHECKPOINT_EMA        "ema"

typedef struct {
    char name[FF_CHECKPOINT_NAME_BYTES];
    double value; /* whole numbers are exact up to 2^53 */
} ff_checkpoint_number;

typedef struct {
    char preset[FF_PRESET_NAME_BYTES]; /* "" when the weights belong to none */
    int64_t step;
    ff_checkpoint_number numbers[FF_CHECKPOINT_NUMBERS];
    int num_numbers;
} ff_checkpoint_header;

typedef struct {
    const char *name; /* "parameters", "ema", "adam/first_moment", ... */
    float *values;    /* [parameters->total]; written from, or read into */
    bool optional;    /* reading: may be absent from the file */
    bool found;       /* reading: out */
} ff_checkpoint_block;

/** Add a number to a header (FF_ERR_ARG when it is full), or replace one. */
ff_status ff_checkpoint_set_number(ff_ctx *ctx, ff_checkpoint_header *header, const char *name, double value);
/** The number of that name, or `otherwise`. */
double ff_checkpoint_get_number(const ff_checkpoint_header *header, const char *name, double otherwise);

/** Write blocks; one of them should be "parameters". */
ff_status ff_checkpoint_write(ff_ctx *ctx, const char *path, const ff_checkpoint_header *header,
                              const ff_parameters *parameters, const ff_checkpoint_block *blocks, int num_blocks);
/** @return FF_ERR_IO: not readable; FF_ERR_FORMAT: no checkpoint, cut short, damaged, or of another version. */
ff_status ff_checkpoint_read_header(ff_ctx *ctx, const char *path, ff_checkpoint_header *header);
/**
 * Read header and blocks. Every declared parameter must be in each block found.
 * @return as ff_checkpoint_read_header; FF_ERR_FORMAT also names a missing, mis-shaped (both shapes) or damaged array,
 *         and then the content of the blocks is undefined.
 */
ff_status ff_checkpoint_read(ff_ctx *ctx, const char *path, ff_checkpoint_header *header,
                             const ff_parameters *parameters, ff_checkpoint_block *blocks, int num_blocks);
/** Declare in `parameters` (initialised, empty) what block "parameters" of the file holds. */
ff_status ff_checkpoint_declare_as_in_file(ff_ctx *ctx, ff_parameters *parameters, const char *path);

#ifdef __cplusplus
}
#endif
#endif
