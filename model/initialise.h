/* initialise.h - random weights to start training from, as AlphaFold starts.
 *
 * By name: final layers and gates' weights zero, gates' bias 1, other biases 0, norms 1 and 0, truncated normals of
 * variance 1 / fan-in (2 / fan-in before a relu), query, key and value uniform of variance 1 / mean fan, pair-bias
 * weights normal of variance 1 / c_z, point weights log(e - 1). Source: AlphaFold's model/common_modules.py,
 * modules.py, folding.py with zero_init. As there, the fans of query_w [c, head, channel] are c head and c channel. */
#ifndef FF_MODEL_INITIALISE_H
#define FF_MODEL_INITIALISE_H

#include "core/context.h"
#include "tensor/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Fill all allocated parameters; a pure function of seed, name and shape. FF_ERR_ARG names an array it has no rule
 * for. */
ff_status ff_model_initialise(ff_ctx *ctx, ff_parameters *parameters, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
