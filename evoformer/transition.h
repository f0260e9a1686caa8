/* transition.h - layer norm, linear, relu, linear at every position (Jumper et al. 2021, Suppl. Alg. 9, 15). */
#ifndef FF_EVOFORMER_TRANSITION_H
#define FF_EVOFORMER_TRANSITION_H

#include "evoformer/module.h"
#include "evoformer/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * x + transition2(relu(transition1(LN(x)))), or the update alone.
 *
 * @param name    of the record and the node: "msa_transition", "pair_transition"
 * @param x       [..., c], any sharding; consumed
 * @param unread  nobody reads the result's values: the last module of a region that is run again to be differentiated.
 *                The kernel is left out, and the result has x's memory.
 */
ff_tensor *ff_transition(ff_ctx *ctx, const char *name, const ff_transition_layer *w, ff_tensor *x, ff_update update,
                         bool unread);

#ifdef __cplusplus
}
#endif
#endif
