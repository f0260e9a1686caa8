#include "evoformer/transition.h"

#include <string.h>

typedef struct {
    const ff_transition_layer *w;
    ff_transition_args a;
    ff_update update;
} transition_node;

static double transition_flop(const ff_transition_args *a)
{
    return 4.0 * (double)a->rows * (double)a->c * (double)a->c_hidden;
}

static double transition_bytes(const ff_transition_args *a) { return 8.0 * (double)a->rows * (double)a->c; }

static void transition_backward(ff_ctx *ctx, ff_node *node)
{
    transition_node n;
    memcpy(&n, node->args, sizeof n);
    ff_tensor *x = node->inputs[0];
    const ff_kernels *k = ctx->kernels;
    ff_module_grads g;
    if (!ff_module_offered(ctx, k->transition_backward != NULL, "transition backward") ||
        !ff_module_grads_begin(ctx, node, x, node->outputs[0], n.update, &g))
        return;
    void *scratch = ff_scratch_begin(ctx, k->transition_scratch_bytes(&n.a, true));
    if (ff_computing(ctx))
        k->transition_backward(g.grad_x, n.w->trained ? &n.w->grad : NULL, g.grad_out, ff_data(x), &n.w->value, &n.a,
                               scratch);
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, node->name, true, transition_flop(&n.a), transition_bytes(&n.a), 0, 0);
    ff_module_grads_end(&g);
}

static ff_tensor *transition_on_table(ff_ctx *ctx, const char *name, const ff_transition_layer *w, ff_tensor *x, ff_update update,
                                      bool unread)
{
    const ff_kernels *k = ctx->kernels;
    if (!ff_module_offered(ctx, k->transition_forward != NULL, "transition"))
        return ff_module_end(ctx, x, NULL);
    if (x->ndim < 1 || x->shape[x->ndim - 1] != w->c) {
        FF_FAIL(ctx, FF_ERR_SHAPE, "%s: the input has %lld channels, expected %lld", name,
                (long long)(x->ndim < 1 ? 0 : x->shape[x->ndim - 1]), (long long)w->c);
        return ff_module_end(ctx, x, NULL);
    }
    transition_node n = {w, {.rows = x->size / w->c, .c = w->c, .c_hidden = w->c_hidden}, update};
    n.a.residual = update == FF_RESIDUAL;
    const bool recorded = ff_module_recorded(ctx, w->trained, &x, 1);
    unread = unread && recorded; /* then the node keeps x, and the view below stays valid */
    ff_tensor *out = unread ? ff_tensor_view(ctx, ff_data(x), x->ndim, x->shape)
                            : ff_module_output(ctx, x, recorded, update);
    if (!unread) {
        void *scratch = ff_scratch_begin(ctx, k->transition_scratch_bytes(&n.a, false));
        if (ff_computing(ctx))
            k->transition_forward(ff_data(out), ff_data(x), &w->value, &n.a, scratch);
        ff_scratch_end(ctx, scratch);
        ff_module_record(ctx, name, false, transition_flop(&n.a), transition_bytes(&n.a), 0, 0);
    }
    if (recorded)
        ff_tape_add(ctx, name, transition_backward, &x, 1, &out, 1, NULL, 0, &n, sizeof n);
    return ff_module_end(ctx, x, out);
}

ff_tensor *ff_transition(ff_ctx *ctx, const char *name, const ff_transition_layer *w, ff_tensor *x, ff_update update,
                         bool unread)
{
    const ff_kernels *outer = ff_module_enter(ctx, w->c);
    ff_tensor *out = transition_on_table(ctx, name, w, x, update, unread);
    ctx->kernels = outer;
    return out;
}
