#include "tensor/tape.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct ff_tape {
    ff_node **nodes; /* one allocation each: pointers to nodes stay valid */
    int64_t count, capacity;
};

ff_status ff_tape_create(ff_ctx *ctx)
{
    assert(ctx->tape == NULL);
    ctx->tape = calloc(1, sizeof *ctx->tape);
    return ctx->tape != NULL ? FF_OK : FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the tape");
}

static void release_all(ff_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++) {
        ff_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

static void release_node(ff_ctx *ctx, ff_node *node)
{
    if (node->release != NULL)
        node->release(ctx, node);
    release_all(node->kept, FF_NODE_KEPT);
    release_all(node->outputs, FF_NODE_OUTPUTS);
    release_all(node->inputs, FF_NODE_INPUTS);
    free(node);
}

void ff_tape_destroy(ff_ctx *ctx)
{
    ff_tape *tape = ctx->tape;
    if (tape == NULL)
        return;
    while (tape->count > 0)
        release_node(ctx, tape->nodes[--tape->count]);
    free(tape->nodes);
    free(tape);
    ctx->tape = NULL;
}

ff_node *ff_tape_add(ff_ctx *ctx, const char *name, ff_backward_fn backward, ff_tensor *const *inputs, int num_inputs,
                     ff_tensor *const *outputs, int num_outputs, ff_tensor *const *kept, int num_kept, const void *args,
                     size_t args_bytes)
{
    assert(num_inputs <= FF_NODE_INPUTS && num_outputs <= FF_NODE_OUTPUTS && num_kept <= FF_NODE_KEPT);
    assert(args_bytes <= FF_NODE_ARGS_BYTES);
    ff_tape *tape = ctx->tape;
    ff_node *node = NULL;
    if (ctx->status == FF_OK && tape->count == tape->capacity) {
        const int64_t capacity = tape->capacity == 0 ? 256 : 2 * tape->capacity;
        ff_node **grown = realloc(tape->nodes, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the tape");
        } else {
            tape->nodes = grown;
            tape->capacity = capacity;
        }
    }
    if (ctx->status == FF_OK) {
        node = aligned_alloc(_Alignof(ff_node) < 16 ? 16 : _Alignof(ff_node), (sizeof *node + 15) / 16 * 16);
        if (node == NULL)
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a tape node");
    }
    if (node == NULL) {
        for (int i = 0; i < num_kept; i++)
            ff_tensor_release(kept[i]);
        return NULL;
    }
    memset(node, 0, sizeof *node);
    node->name = name;
    node->backward = backward;
    node->kernels = ctx->kernels;
    for (int i = 0; i < num_inputs; i++)
        node->inputs[i] = ff_tensor_retain(inputs[i]);
    for (int i = 0; i < num_outputs; i++) {
        node->outputs[i] = ff_tensor_retain(outputs[i]);
        if (outputs[i] != NULL)
            outputs[i]->requires_grad = true;
    }
    for (int i = 0; i < num_kept; i++)
        node->kept[i] = kept[i];
    if (args_bytes > 0)
        memcpy(node->args, args, args_bytes);
    tape->nodes[tape->count++] = node;
    return node;
}

static bool wanted(const ff_node *node)
{
    for (int i = 0; i < FF_NODE_OUTPUTS; i++)
        if (node->outputs[i] != NULL && node->outputs[i]->grad != NULL)
            return true;
    return false;
}

ff_status ff_tape_backward(ff_ctx *ctx)
{
    ff_tape *tape = ctx->tape;
    const ff_kernels *kernels = ctx->kernels;
    ctx->tape = NULL; /* backward functions record nothing */
    while (tape->count > 0) {
        ff_node *node = tape->nodes[--tape->count];
        ctx->kernels = node->kernels;
        if (ctx->status == FF_OK && wanted(node))
            node->backward(ctx, node);
        ctx->kernels = kernels;
        for (int i = 0; i < FF_NODE_OUTPUTS; i++)
            if (node->outputs[i] != NULL) { /* used up: nothing earlier on the tape adds to it */
                ff_tensor_release(node->outputs[i]->grad);
                node->outputs[i]->grad = NULL;
            }
        release_node(ctx, node);
    }
    ctx->tape = tape;
    return ctx->status;
}

/* ---- checkpointed regions ---- */

typedef struct {
    ff_region_fn region;
    const void *arg;
    int num_tensors, num_constants;
    uint64_t op_index; /* where the region's random numbers start */
    uint64_t step;
    bool unchanged[FF_REGION_TENSORS]; /* the region handed the input on as it was */
} region_args;

/* A leaf on x's memory, which the caller keeps alive. */
static ff_tensor *leaf(ff_ctx *ctx, ff_tensor *x)
{
    ff_tensor *t = x == NULL ? NULL : ff_tensor_view(ctx, ff_data(x), x->ndim, x->shape);
    if (t != NULL)
        t->requires_grad = x->requires_grad;
    return t;
}

static void region_backward(ff_ctx *ctx, ff_node *node)
{
    region_args args;
    memcpy(&args, node->args, sizeof args);
    const uint64_t op_index = ctx->op_index, step = ctx->step;
    ff_tape *outer = ctx->tape;
    ctx->tape = NULL;
    ctx->op_index = args.op_index;
    ctx->step = args.step;

    ff_tensor *leaves[FF_REGION_TENSORS] = {NULL}, *tensors[FF_REGION_TENSORS] = {NULL}, *grads[FF_REGION_TENSORS] = {NULL};
    for (int i = 0; i < args.num_tensors; i++) /* only their gradients are needed: the rerun makes the outputs again */
        if (node->outputs[i] != NULL) {
            grads[i] = node->outputs[i]->grad;
            node->outputs[i]->grad = NULL;
            ff_tensor_release(node->outputs[i]);
            node->outputs[i] = NULL;
        }
    if (ff_tape_create(ctx) == FF_OK) {
        for (int i = 0; i < args.num_tensors; i++) {
            leaves[i] = leaf(ctx, node->inputs[i]);
            tensors[i] = ff_tensor_retain(leaves[i]);
        }
        args.region(ctx, args.arg, tensors);
        for (int i = 0; i < args.num_tensors; i++) { /* move the gradients onto the rerun's outputs */
            if (ctx->status != FF_OK || grads[i] == NULL || tensors[i] == NULL)
                continue;
            assert(tensors[i]->grad == NULL);
            tensors[i]->grad = grads[i];
            grads[i] = NULL;
        }
        for (int i = 0; i < args.num_tensors; i++)
            if (tensors[i] != leaves[i]) {
                ff_tensor_release(tensors[i]); /* the tape holds it */
                tensors[i] = NULL;
            }
        ff_tape_backward(ctx);
        for (int i = 0; i < args.num_tensors; i++) {
            ff_tensor *x = node->inputs[i];
            if (ctx->status == FF_OK && x != NULL && x->requires_grad && leaves[i]->grad != NULL) {
                if (x->grad == NULL) {
                    x->grad = leaves[i]->grad;
                    leaves[i]->grad = NULL;
                } else if (ff_computing(ctx)) {
                    ctx->kernels->add_scaled(ff_data(x->grad), ff_data(leaves[i]->grad), 1.0f, x->size);
                }
            }
        }
        ff_tape_destroy(ctx);
    }
    release_all(tensors, FF_REGION_TENSORS);
    release_all(leaves, FF_REGION_TENSORS);
    release_all(grads, FF_REGION_TENSORS);
    ctx->tape = outer;
    ctx->op_index = op_index;
    ctx->step = step;
}

void ff_checkpoint(ff_ctx *ctx, const char *name, ff_region_fn region, const void *arg, ff_tensor **tensors,
                   int num_tensors, ff_tensor *const *constants, int num_constants)
{
    assert(num_tensors <= FF_REGION_TENSORS && num_tensors + num_constants <= FF_NODE_INPUTS);
    if (!ff_recording(ctx, tensors, num_tensors)) {
        region(ctx, arg, tensors);
        return;
    }
    region_args args = {region, arg, num_tensors, num_constants, ctx->op_index, ctx->step, {false}};
    ff_tensor *inputs[FF_NODE_INPUTS] = {NULL};
    for (int i = 0; i < num_tensors; i++)
        inputs[i] = ff_tensor_retain(tensors[i]);
    for (int i = 0; i < num_constants; i++)
        inputs[num_tensors + i] = ff_tensor_retain(constants[i]);

    ff_tape *tape = ctx->tape;
    ctx->tape = NULL;
    region(ctx, arg, tensors);
    ctx->tape = tape;

    ff_tensor *outputs[FF_NODE_OUTPUTS] = {NULL};
    for (int i = 0; i < num_tensors; i++) {
        args.unchanged[i] = tensors[i] == inputs[i];
        outputs[i] = args.unchanged[i] ? NULL : tensors[i]; /* what passes through needs no gradient of ours */
    }
    if (ctx->status == FF_OK)
        ff_tape_add(ctx, name, region_backward, inputs, num_tensors + num_constants, outputs, num_tensors, NULL, 0, &args,
                    sizeof args);
    release_all(inputs, FF_NODE_INPUTS);
}
