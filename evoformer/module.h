/* module.h - what the tape nodes of the trunk share: where an update goes, what is kept, gradients, dropout, records.
 *
 * A module is written as
 *
 *     if (!ff_module_begin(ctx, x, ...)) return ff_module_end(ctx, x, NULL);
 *     recorded = ff_module_recorded(...); out = ff_module_output(...);
 *     kernel; ff_plan_add; ff_tape_add when recorded;
 *     return ff_module_end(ctx, x, out);
 *
 * and consumes its first tensor `x` in both modes of ff_update. */
#ifndef FF_EVOFORMER_MODULE_H
#define FF_EVOFORMER_MODULE_H

#include "tensor/plan.h"
#include "tensor/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_RESIDUAL = 0, /* out = x + dropout * update; in place when nobody else needs x */
    FF_UPDATE_ONLY   /* out = update: what reference files hold for single modules */
} ff_update;

/* What a node keeps for its backward besides its inputs. */
typedef enum {
    FF_KEEP_INPUTS = 0, /* nothing: the backward pass recomputes */
    FF_KEEP_RESULT,     /* attention: log-sum-exp and result before the gate */
    FF_KEEP_ALL         /* everything the kernels can use */
} ff_keep;

/** What ctx asks for: FF_KEEP_INPUTS with ctx->keep_inputs, else FF_KEEP_ALL. */
ff_keep ff_module_keep(const ff_ctx *ctx);

/** False (and FF_ERR_UNSUPPORTED naming the operation) when the backend's table lacks the entry. */
bool ff_module_offered(ff_ctx *ctx, bool entry, const char *operation);

/** Whether a node is wanted: a tape is there, and an input or the module's parameters need a gradient. */
bool ff_module_recorded(const ff_ctx *ctx, bool trained, ff_tensor *const *inputs, int num_inputs);

/** Make ctx->kernels the table for layers of this width (kernels.h: narrow). @return the former one, to put back. Nodes remember
 * the table, so their backward runs on the same. */
const ff_kernels *ff_module_enter(ff_ctx *ctx, int64_t channels);
/** The same for what is float32 in every run: structure module, heads. */
const ff_kernels *ff_module_enter_float32(ff_ctx *ctx);

/** Where the module writes: x itself or a new tensor of its shape. NULL on failure. */
ff_tensor *ff_module_output(ff_ctx *ctx, ff_tensor *x, bool recorded, ff_update update);

/** Give up x (unless it became the output) and return the output, or NULL after any failure. NULLs are fine. */
ff_tensor *ff_module_end(ff_ctx *ctx, ff_tensor *x, ff_tensor *out);

/* ---- backward ---- */

/* Gradients of a module out = [x +] f(x) as its kernel wants them. grad_x == grad_out means in place: the residual part
 * is there already. */
typedef struct {
    float *grad_out, *grad_x;
    ff_tensor *held; /* released by ff_module_grads_end */
} ff_module_grads;

/**
 * Move or point; afterwards out may have no gradient any more. Also lets go of the data of outputs nobody else holds:
 * no backward pass of the trunk reads them.
 * @return false when there is nothing to do (failure).
 */
bool ff_module_grads_begin(ff_ctx *ctx, ff_node *node, ff_tensor *x, ff_tensor *out, ff_update update,
                           ff_module_grads *grads);
void ff_module_grads_end(ff_module_grads *grads);

/** Free the data of a node's outputs that only the node holds. */
void ff_module_drop_outputs(ff_node *node);

/** Release one of a node's kept tensors before the node itself goes. */
void ff_module_drop_kept(ff_node *node, int index);

/* ---- dropout ---- */

/**
 * Multipliers [length, c] for positions first .. first + length - 1 of an axis, shared over the other one; NULL when
 * dropout is off (not training, rate 0) or on failure. Draws from {ctx->seed, (ctx->step, ctx->op_index++)}, element
 * position * c + channel: the same for shards and reruns.
 */
ff_tensor *ff_module_dropout(ff_ctx *ctx, float rate, int64_t first, int64_t length, int64_t c);

/* ---- records ---- */

/** One record: forward as given; backward twice the FLOP, and twice the bytes plus what was kept. */
void ff_module_record(ff_ctx *ctx, const char *name, bool backward, double flop, double bytes_moved, double bytes_kept,
                      double bytes_sent);

/** Bytes of the kept tensors (NULL entries allowed). */
double ff_module_bytes(ff_tensor *const *kept, int n);

#ifdef __cplusplus
}
#endif
#endif
