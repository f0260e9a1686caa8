/* overlap.c - exchanges in two parts, other work in between.
 *
 * Contents: on the tape; shifts.
 *
 * A begin and its end are two nodes with one ff_dap_pending between them, which the begin's node owns. Backward runs the other way
 * round: the end's node begins the opposite exchange into an array of its own, the begin's node waits and adds it to x's gradient,
 * as other nodes may have added to that meanwhile. */
#include "dap/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/tape.h"

struct ff_dap_pending {
    ff_transfer transfer;
    bool active;          /* begun and not ended */
    bool recorded;        /* a node owns it */
    ff_tensor *in, *out;  /* of the exchange under way */
    ff_tensor *token;     /* ties the nodes together; carries no values */
    int from, to;
    int64_t total_to;
};

static void finish(ff_ctx *ctx, ff_dap_pending *p)
{
    if (p->active)
        ff_transfer_end(ctx, &p->transfer);
    p->active = false;
    ff_tensor_release(p->in);
    p->in = NULL;
}

static void start(ff_ctx *ctx, ff_dap_pending *p, ff_tensor *out, ff_tensor *in, int from, int to, bool backward)
{
    const ff_transfer_record record = {"all_to_all", backward, out == NULL ? 0.0 : (double)(in->bytes + out->bytes),
                                       !backward && ff_transfer_narrow(ctx, in == NULL ? 0 : in->shape[in->ndim - 1])};
    p->in = ff_tensor_retain(in);
    p->out = out;
    if (ctx->status != FF_OK)
        return;
    ff_transfer_all_to_all(ctx, &p->transfer, out, in, from, to, false, &record);
    p->active = true;
    if (ff_comm_blocking(ctx))
        finish(ctx, p);
}

static ff_dap_pending *pending_of(const ff_node *node)
{
    ff_dap_pending *p;
    memcpy(&p, node->args, sizeof p);
    return p;
}

static void end_backward(ff_ctx *ctx, ff_node *node)
{
    ff_dap_pending *p = pending_of(node);
    ff_tensor *grad = node->outputs[0]->grad;
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, grad->shape, sizeof shape);
    shape[p->from] = ff_shard_length(grad->shape[p->from], ff_dap_rank(ctx), ff_dap_size(ctx));
    shape[p->to] = p->total_to;
    start(ctx, p, ff_tensor_create(ctx, grad->ndim, shape), grad, p->to, p->from, true);
    (void)ff_tensor_grad(ctx, node->inputs[0]); /* so that the begin's node has its turn */
}

static void begin_backward(ff_ctx *ctx, ff_node *node)
{
    ff_dap_pending *p = pending_of(node);
    ff_tensor *x = node->inputs[0];
    finish(ctx, p);
    if (ctx->status == FF_OK && x->requires_grad && x->grad == NULL) {
        x->grad = p->out;
        p->out = NULL;
    } else if (ff_computing(ctx) && x->requires_grad) {
        ctx->kernels->add_scaled(ff_data(x->grad), ff_data(p->out), 1.0f, x->size);
    }
}

static void begin_release(ff_ctx *ctx, ff_node *node)
{
    ff_dap_pending *p = pending_of(node);
    finish(ctx, p);
    ff_tensor_release(p->out);
    free(p);
}

ff_dap_pending *ff_dap_all_to_all_begin(ff_ctx *ctx, ff_tensor *x, int from, int64_t total_from, int to, int64_t total_to)
{
    ff_dap_pending *p = ctx->status == FF_OK && x != NULL ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
        ff_tensor_release(x);
        if (ctx->status == FF_OK)
            FF_FAIL(ctx, FF_ERR_MEM, "out of memory for an exchange");
        return NULL;
    }
    p->from = from;
    p->to = to;
    p->total_to = total_to;
    if (ff_dap_size(ctx) == 1) {
        p->out = x;
        return p;
    }
    int64_t shape[FF_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[from] = total_from;
    shape[to] = ff_shard_length(total_to, ff_dap_rank(ctx), ff_dap_size(ctx));
    p->recorded = ff_recording(ctx, &x, 1);
    if (p->recorded) {
        p->token = ff_tensor_zeros(ctx, FF_SHAPE(1));
        ff_node *node = ff_tape_add(ctx, "all_to_all_begin", begin_backward, &x, 1, &p->token, 1, NULL, 0, &p, sizeof p);
        p->recorded = node != NULL;
        if (node != NULL)
            node->release = begin_release;
    }
    start(ctx, p, ff_tensor_create(ctx, x->ndim, shape), x, from, to, false);
    ff_tensor_release(x);
    return p;
}

ff_tensor *ff_dap_all_to_all_end(ff_ctx *ctx, ff_dap_pending *p)
{
    if (p == NULL)
        return NULL;
    finish(ctx, p);
    ff_tensor *out = p->out;
    p->out = NULL;
    if (p->recorded && ctx->status == FF_OK)
        ff_tape_add(ctx, "all_to_all_end", end_backward, &p->token, 1, &out, 1, NULL, 0, &p, sizeof p);
    ff_tensor_release(p->token);
    p->token = NULL;
    if (!p->recorded)
        free(p);
    if (ctx->status == FF_OK)
        return out;
    ff_tensor_release(out);
    return NULL;
}

/* ---- shifts ---- */

ff_dap_shift *ff_dap_shift_begin(ff_ctx *ctx, const char *name, int by, const ff_tensor *to, ff_tensor *from)
{
    const ff_group group = ff_comm_group(ctx, FF_GROUP_DAP);
    if (ctx->status != FF_OK)
        return NULL;
    ff_exchange_part *parts = ff_exchange_parts(ctx);
    memset(parts, 0, (size_t)group.size * sizeof *parts);
    ff_exchange_part *send = &parts[(group.rank + by) % group.size];
    send->send = to->data;
    send->send_bytes = to->bytes;
    ff_exchange_part *receive = &parts[(group.rank - by + group.size) % group.size];
    receive->receive = from->data;
    receive->receive_bytes = from->bytes;
    ff_exchange_handle *handle = ff_exchange_begin(ctx, &group, name, false, (double)(to->bytes + from->bytes));
    if (!ff_comm_blocking(ctx))
        return handle;
    (void)ff_exchange_end(ctx, handle);
    return NULL;
}

void ff_dap_shift_end(ff_ctx *ctx, ff_dap_shift *shift) { (void)ff_exchange_end(ctx, shift); }
