/* parameters.h - all parameters of a model in one block, their gradients in another, found by AlphaFold's names.
 *
 * Names are paths below the model ("evoformer/evoformer_iteration/msa_transition/transition1/weights"); stacked layers have
 * the block as leading axis, and a binding with block >= 0 gets that slice. */
#ifndef FF_TENSOR_PARAMETERS_H
#define FF_TENSOR_PARAMETERS_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char *name;
    int ndim;
    int64_t shape[FF_MAX_DIMS];
    int64_t size;
    int64_t offset; /* floats from the start of the block; multiples of 16 */
    bool bound;     /* some layer holds a pointer to it */
} ff_parameter;

typedef struct ff_parameters {
    ff_parameter *items;
    int64_t count, capacity;
    int64_t total; /* floats of a block */
    float *values; /* [total], zero at first */
    float *grads;  /* [total], NULL unless asked for */
} ff_parameters;

void ff_parameters_init(ff_parameters *p);
void ff_parameters_destroy(ff_parameters *p);
/** Declare an array; a second declaration of a name must have the same shape (FF_ERR_SHAPE). Before allocation only. */
ff_status ff_parameters_add(ff_ctx *ctx, ff_parameters *p, const char *name, int ndim, const int64_t *shape);
/** Lay out and allocate the blocks. */
ff_status ff_parameters_allocate(ff_ctx *ctx, ff_parameters *p, bool with_grads);
/** NULL when absent. */
ff_parameter *ff_parameters_find(const ff_parameters *p, const char *name);
/**
 * Pointers to an array (or to slice `block` of its leading axis; block < 0 = the array itself). `scope` may be "".
 * @return FF_ERR_FORMAT naming the missing parameter; FF_ERR_SHAPE with both shapes.
 */
ff_status ff_parameters_bind(ff_ctx *ctx, ff_parameters *p, const char *scope, const char *name, int64_t block, int ndim,
                             const int64_t *shape, float **value, float **grad);
void ff_parameters_zero_grads(ff_parameters *p);

#ifdef __cplusplus
}
#endif
#endif
