/* tensor.h - reference-counted arrays and the rules of ownership that let model code read like the paper.
 *
 * Contents: tensors; creation and reference counting; gradients; in-place targets; scratch.
 *
 * Rules. A function that returns an ff_tensor * returns one reference, which the caller releases. Arguments are borrowed,
 * except a residual input documented as "consumed": then the callee takes the caller's reference
 *     msa = ff_msa_transition(ctx, w, msa, ...);
 * and, without a tape and with nobody else holding the tensor, updates it in place. After the first failure every
 * operation returns NULL at once (and still consumes what it says it consumes); NULL tensor arguments are allowed then.
 * Data are float32 in C order, or operands (matrix-product inputs in the dtype of the kernel table). */
#ifndef FF_TENSOR_TENSOR_H
#define FF_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_MAX_DIMS = 6 };

typedef struct ff_tensor {
    int refs;
    int ndim;
    int64_t shape[FF_MAX_DIMS];
    int64_t size;          /* elements */
    size_t bytes;          /* of data */
    void *data;            /* 64-byte aligned; never dereferenced in plan mode */
    struct ff_tensor *grad; /* same shape, float32; NULL until something is added */
    bool requires_grad;    /* set on leaves by the caller, on results by the tape */
    bool external;         /* a view of memory the tensor does not own */
    struct ff_pool *pool;
} ff_tensor;

#define FF_SHAPE(...)                                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/** Uninitialised float32 tensor from ctx's pool: ff_tensor_create(ctx, FF_SHAPE(num_seq, num_res, c_m)). NULL on failure. */
ff_tensor *ff_tensor_create(ff_ctx *ctx, int ndim, const int64_t *shape);
/** The same, set to zero. */
ff_tensor *ff_tensor_zeros(ff_ctx *ctx, int ndim, const int64_t *shape);
/** Operand tensor: table->operand_bytes an element (kept activations, triangle operands). */
ff_tensor *ff_tensor_create_operand(ff_ctx *ctx, int ndim, const int64_t *shape);
/** A view of the caller's float32 memory, which must outlive it; never updated in place, except as ff_update_target says. */
ff_tensor *ff_tensor_view(ff_ctx *ctx, float *data, int ndim, const int64_t *shape);
/** A copy of `x` (float32). */
ff_tensor *ff_tensor_copy(ff_ctx *ctx, const ff_tensor *x);
/** A second tensor on x's data with another shape of equal size; holds a reference to x's memory through `x` being kept by
 * the tape node that makes it. Differentiable (the gradient is reshaped). */
ff_tensor *ff_tensor_reshape(ff_ctx *ctx, ff_tensor *x, int ndim, const int64_t *shape);

ff_tensor *ff_tensor_retain(ff_tensor *x); /* NULL is fine; returns x */
void ff_tensor_release(ff_tensor *x);      /* NULL is fine */

static inline float *ff_data(const ff_tensor *x) { return x == 0 ? (float *)0 : (float *)x->data; }

/** Whether kernels run: no failure so far and not in plan mode. Every operation asks this before calling a kernel. */
bool ff_computing(const ff_ctx *ctx);
/** Whether an operation on these inputs (n of them, NULL allowed) must leave a tape node. */
bool ff_recording(const ff_ctx *ctx, ff_tensor *const *inputs, int n);

/** Gradient of x, made and zeroed at the first call; NULL when x needs none. Borrowed. */
ff_tensor *ff_tensor_grad(ff_ctx *ctx, ff_tensor *x);
/**
 * For the backward of a residual update out = x + f(x): make x's gradient hold grad_out (moved when x has none yet and
 * nobody else holds it, else added), so that the kernel then adds f's part in place. out's gradient is gone afterwards.
 * @return x's gradient (borrowed), NULL on failure or when x needs none.
 */
ff_tensor *ff_grad_through_residual(ff_ctx *ctx, ff_tensor *x, ff_tensor *out);

/**
 * Where a residual update of the consumed tensor `x` goes: x itself (one reference, moved) when nothing else needs it
 * (no tape node wanted, refs == 1, not a view), else a new tensor of its shape, and then the caller releases x afterwards.
 */
ff_tensor *ff_update_target(ff_ctx *ctx, ff_tensor *x, bool recorded);

/** `bytes` of scratch from the pool (64-byte aligned; counted in the peak); NULL for 0 bytes or on failure. */
void *ff_scratch_begin(ff_ctx *ctx, size_t bytes);
void ff_scratch_end(ff_ctx *ctx, void *scratch);

/** Fail with FF_ERR_SHAPE unless x has this shape (-1 = any); `name` is used in the message. */
bool ff_check_shape(ff_ctx *ctx, const ff_tensor *x, const char *name, int ndim, const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
