/* golden_ops.h - how the operations of reference files are computed: one function per operation, run several times
 * (with a tape, keeping inputs only, without a tape, checkpointed) by golden_run. */
#ifndef FF_TESTS_GOLDEN_OPS_H
#define FF_TESTS_GOLDEN_OPS_H

#include "evoformer/evoformer.h"
#include "tests/golden_case.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GOLDEN_TENSORS = 24, GOLDEN_ARRAYS = 16 };

/* One run of one case. */
typedef struct golden_run_state {
    ff_ctx *ctx;
    golden_case *c;
    ff_parameters parameters;
    ff_binder binder; /* at the top of the parameters */
    bool checkpoint;  /* stacks keep their blocks' inputs only */

    ff_tensor *leaves[GOLDEN_TENSORS], *outputs[GOLDEN_TENSORS]; /* held until the end of the run */
    const char *leaf_names[GOLDEN_TENSORS], *output_names[GOLDEN_TENSORS];
    int num_leaves, num_outputs;
    int32_t *arrays[GOLDEN_ARRAYS]; /* integer inputs, freed at the end of the run */
    int num_arrays;
    void *layer; /* of the operation's own; freed with `destroy` after the backward pass */
    void (*destroy)(void *layer);
} golden_run_state;

typedef void (*golden_op_fn)(golden_run_state *s);

typedef struct {
    const char *family, *op;
    golden_op_fn run;
    bool checkpoints; /* has a checkpointed form */
} golden_op;

/* Each ends with a NULL op. */
extern const golden_op golden_embedding_ops[]; /* golden_ops_embed.c */
extern const golden_op golden_structure_ops[]; /* golden_ops_structure.c */
extern const golden_op golden_model_ops[];     /* golden_ops_model.c */
extern const golden_op golden_loss_ops[];      /* golden_ops_losses.c */

/** An input as a tensor (a copy, held by the state; the caller borrows it); differentiated where the file has its gradient.
 * NULL after a failure. */
ff_tensor *golden_leaf(golden_run_state *s, const char *name);
/** The same for an input that may be absent: NULL then. */
ff_tensor *golden_find_leaf(golden_run_state *s, const char *name);
/** An integer input, or NULL after a failure. */
const int32_t *golden_integers(golden_run_state *s, const char *name);
/** The floats of an input as they lie in the case. */
const float *golden_floats(golden_run_state *s, const char *name);
/** Hand a result over (the reference is taken). */
void golden_result(golden_run_state *s, const char *name, ff_tensor *x);
/** Hand over an intermediate array without a gradient. */
void golden_array_result(golden_run_state *s, const char *name, const float *data, int ndim, const int64_t *shape);

/** A shard of an input for a module that consumes it, split along `axis`: a second reference when there is one rank. */
ff_tensor *golden_shard(golden_run_state *s, const char *name, int axis);
/** A module's result, split along `axis` of `total` entries, gathered and handed over (x is taken). */
void golden_gathered_result(golden_run_state *s, const char *name, ff_tensor *x, int axis, int64_t total);

/** Keep a layer until the backward pass is over; `bytes` of zeros. NULL after a failure. */
void *golden_layer(golden_run_state *s, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
