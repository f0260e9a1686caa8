/* tape.h - automatic differentiation: modules leave one node each, which states what it keeps.
 *
 * An operation runs its forward kernel, then, when ff_recording() says so, adds a node with its inputs, outputs, kept
 * tensors and a small copy of its arguments. ff_tape_backward visits the nodes in reverse order; a node whose outputs
 * have no gradient is skipped, and each node's tensors are released as soon as it is done. */
#ifndef FF_TENSOR_TAPE_H
#define FF_TENSOR_TAPE_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_NODE_INPUTS = 9, FF_NODE_OUTPUTS = 4, FF_NODE_KEPT = 8, FF_NODE_ARGS_BYTES = 512 };

typedef struct ff_node ff_node;
typedef void (*ff_backward_fn)(ff_ctx *ctx, ff_node *node);

struct ff_node {
    const char *name;
    ff_backward_fn backward;
    ff_backward_fn release;              /* NULL, or called when the node goes, after its backward or without it */
    const ff_kernels *kernels;           /* the table the forward ran on; ctx->kernels during backward */
    ff_tensor *inputs[FF_NODE_INPUTS];   /* retained; NULL entries allowed */
    ff_tensor *outputs[FF_NODE_OUTPUTS]; /* retained */
    ff_tensor *kept[FF_NODE_KEPT];       /* retained */
    _Alignas(16) unsigned char args[FF_NODE_ARGS_BYTES];
};

typedef struct ff_tape ff_tape;

/** A fresh tape, installed as ctx->tape. */
ff_status ff_tape_create(ff_ctx *ctx);
/** Release all nodes and clear ctx->tape; NULL tape is fine. */
void ff_tape_destroy(ff_ctx *ctx);

/**
 * Add a node. Inputs and outputs are retained, outputs get requires_grad. `args` (args_bytes <= FF_NODE_ARGS_BYTES) is
 * copied. Kept tensors: the node takes over the caller's references (NULL allowed).
 * @return the node, NULL on failure.
 */
ff_node *ff_tape_add(ff_ctx *ctx, const char *name, ff_backward_fn backward, ff_tensor *const *inputs, int num_inputs,
                     ff_tensor *const *outputs, int num_outputs, ff_tensor *const *kept, int num_kept, const void *args,
                     size_t args_bytes);

/**
 * Back-propagate: the caller has set the gradients of some outputs (ff_tensor_grad + fill, or ff_tensor_set_grad).
 * Leaves' gradients stay in their ->grad; parameters' in their gradient block. The tape is empty afterwards.
 */
ff_status ff_tape_backward(ff_ctx *ctx);

/** Set x's gradient to a copy of `values` (size of x; ignored in plan mode). */
ff_status ff_tensor_set_grad(ff_ctx *ctx, ff_tensor *x, const float *values);

/**
 * A checkpointed region: run `region` without a tape keeping only its inputs; in the backward pass it is run again with a
 * tape and differentiated. `region` maps num_tensors inputs to as many outputs in place of the array (each input reference
 * is consumed by it, as model code does; entries it does not change stay). Random numbers repeat exactly.
 * `arg` must outlive the backward pass, as must what it points to: `constants` (masks: tensors the region reads through arg)
 * are retained until then. Without a tape the region is simply run.
 */
typedef void (*ff_region_fn)(ff_ctx *ctx, const void *arg, ff_tensor **tensors);
enum { FF_REGION_TENSORS = 4 };
void ff_checkpoint(ff_ctx *ctx, const char *name, ff_region_fn region, const void *arg, ff_tensor **tensors,
                   int num_tensors, ff_tensor *const *constants, int num_constants);

#ifdef __cplusplus
}
#endif
#endif
