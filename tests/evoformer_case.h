/* evoformer_case.h - what the suites of evoformer/ share: contexts, random parameters and arrays, one run of a stack. */
#ifndef FF_TESTS_EVOFORMER_CASE_H
#define FF_TESTS_EVOFORMER_CASE_H

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "evoformer/evoformer.h"
#include "tensor/pool.h"
#include "tests/check.h"

/** A silent context on the float32 CPU table with its own pool. */
static inline bool case_context(ff_ctx *ctx, size_t limit, bool dry)
{
    ff_context_init(ctx);
    ctx->log.file = NULL;
    ctx->seed = 20;
    return ff_kernels_get(ctx, &ctx->kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32) == FF_OK &&
           ff_pool_create(ctx, limit, dry) == FF_OK;
}

static inline void case_normal(float *x, int64_t n, uint64_t stream, float scale)
{
    const ff_random_key key = {7, stream};
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * ff_random_normal(key, (uint64_t)i);
}

static inline void case_mask(float *x, int64_t n, uint64_t stream)
{
    const ff_random_key key = {8, stream};
    for (int64_t i = 0; i < n; i++)
        x[i] = ff_random_uniform(key, (uint64_t)i) < 0.8f ? 1.0f : 0.0f;
}

/** Allocate declared parameters with gradients; weights of size fan_in^-1/2, scales around 1. */
static inline bool case_fill_parameters(ff_ctx *ctx, ff_parameters *p)
{
    if (ff_parameters_allocate(ctx, p, true) != FF_OK)
        return false;
    for (int64_t i = 0; i < p->count; i++) {
        const ff_parameter *item = &p->items[i];
        float *x = p->values + item->offset;
        const char *last = strrchr(item->name, '/');
        const bool scale = last != NULL && strcmp(last, "/scale") == 0;
        const int64_t fan_in = item->ndim >= 2 ? item->shape[item->ndim - 2] : 1;
        case_normal(x, item->size, (uint64_t)i, item->ndim >= 2 ? 1.0f / __builtin_sqrtf((float)fan_in) : 0.2f);
        for (int64_t k = 0; scale && k < item->size; k++)
            x[k] = 1.0f + 0.3f * x[k];
    }
    return true;
}

/** Small sizes that no vector width divides. */
static inline ff_block_config case_small_block(void)
{
    return (ff_block_config){.c_m = 12,
                             .c_z = 8,
                             .num_head_msa = 4,
                             .num_head_pair = 2,
                             .c_triangle = 6,
                             .c_outer = 5,
                             .transition_factor = 3,
                             .dropout_msa = 0.15f,
                             .dropout_pair = 0.25f};
}

/** AlphaFold's sizes. */
static inline ff_block_config case_published_block(void)
{
    ff_ctx ctx;
    ff_evoformer_config config;
    ff_context_init(&ctx);
    ff_evoformer_config_preset(&ctx, &config, 1);
    return config.evoformer;
}

/* One run of a stack and what came out of it. */
typedef struct {
    ff_block_config config;
    int64_t num_block, num_seq, num_res;
    bool tape, keep_inputs, checkpoint, training, dry;
    size_t limit; /* of the pool; 0 = none */
    uint64_t step;
    const float *shift; /* [num_seq * num_res * c_m + num_res^2 * c_z] added to the inputs; NULL = none */

    ff_status status;
    char message[FF_MESSAGE_BYTES];
    size_t peak;
    float *msa, *pair, *grad_msa, *grad_pair, *grads; /* NULL when dry, failed, or not asked for */
    int64_t msa_size, pair_size, num_grads;
} stack_run;

static inline void stack_run_free(stack_run *r)
{
    free(r->msa);
    free(r->pair);
    free(r->grad_msa);
    free(r->grad_pair);
    free(r->grads);
    r->msa = r->pair = r->grad_msa = r->grad_pair = r->grads = NULL;
}

static inline float *case_copy(const float *x, int64_t n)
{
    float *copy = malloc((size_t)(n + 1) * sizeof *copy);
    if (copy != NULL)
        memcpy(copy, x, (size_t)n * sizeof *copy);
    return copy;
}

/* Uninitialised tensors of a dry pool stay so. */
static inline ff_tensor *case_tensor(ff_ctx *ctx, int ndim, const int64_t *shape, uint64_t stream, bool mask, const float *shift)
{
    ff_tensor *x = ff_tensor_create(ctx, ndim, shape);
    if (x == NULL || !ff_computing(ctx))
        return x;
    if (mask)
        case_mask(ff_data(x), x->size, stream);
    else
        case_normal(ff_data(x), x->size, stream, 1.0f);
    for (int64_t i = 0; shift != NULL && i < x->size; i++)
        ff_data(x)[i] += shift[i];
    return x;
}

static inline void stack_run_backward(ff_ctx *ctx, stack_run *r, ff_tensor **msa, ff_tensor **pair, ff_tensor *msa_in,
                                      ff_tensor *pair_in, const ff_parameters *p)
{
    ff_tensor *tensors[2] = {*msa, *pair};
    for (int i = 0; i < 2; i++) {
        ff_tensor *grad = tensors[i] == NULL ? NULL : ff_tensor_grad(ctx, tensors[i]);
        if (grad != NULL && ff_computing(ctx))
            case_normal(ff_data(grad), grad->size, 900u + (unsigned)i, 1.0f);
    }
    ff_tensor_release(*msa); /* a caller that has its loss needs them no more */
    ff_tensor_release(*pair);
    *msa = *pair = NULL;
    ff_tape_backward(ctx);
    if (ctx->status == FF_OK && !r->dry) {
        r->grad_msa = case_copy(ff_data(ff_tensor_grad(ctx, msa_in)), r->msa_size);
        r->grad_pair = case_copy(ff_data(ff_tensor_grad(ctx, pair_in)), r->pair_size);
        r->grads = case_copy(p->grads, p->total);
        r->num_grads = p->total;
    }
}

static inline void stack_run_go(stack_run *r)
{
    ff_ctx ctx;
    ff_parameters p;
    ff_block *blocks = calloc((size_t)r->num_block, sizeof *blocks);
    const int64_t S = r->num_seq, R = r->num_res;
    ff_parameters_init(&p);
    r->msa_size = S * R * r->config.c_m;
    r->pair_size = R * R * r->config.c_z;
    CU_ASSERT_TRUE_FATAL(blocks != NULL && case_context(&ctx, r->limit, r->dry));
    ff_binder b = ff_binder_at(&ctx, &p, true, "");
    CU_ASSERT_EQUAL_FATAL(ff_block_stack_bind(&b, &r->config, r->num_block, blocks), FF_OK);
    CU_ASSERT_TRUE_FATAL(case_fill_parameters(&ctx, &p));
    b.declare = false;
    CU_ASSERT_EQUAL_FATAL(ff_block_stack_bind(&b, &r->config, r->num_block, blocks), FF_OK);
    ctx.keep_inputs = r->keep_inputs;
    ctx.training = r->training;
    ctx.step = r->step;
    ff_tensor *msa = case_tensor(&ctx, FF_SHAPE(S, R, r->config.c_m), 901, false, r->shift);
    ff_tensor *pair = case_tensor(&ctx, FF_SHAPE(R, R, r->config.c_z), 902, false,
                                  r->shift == NULL ? NULL : r->shift + r->msa_size);
    ff_tensor *msa_mask = case_tensor(&ctx, FF_SHAPE(S, R), 903, true, NULL);
    ff_tensor *pair_mask = case_tensor(&ctx, FF_SHAPE(R, R), 904, true, NULL);
    ff_tensor *msa_in = r->tape ? ff_tensor_retain(msa) : NULL, *pair_in = r->tape ? ff_tensor_retain(pair) : NULL;
    if (r->tape && ctx.status == FF_OK) {
        msa->requires_grad = pair->requires_grad = true;
        ff_tape_create(&ctx);
    }
    ff_block_stack_forward(&ctx, blocks, r->num_block, r->checkpoint, &msa, &pair, msa_mask, pair_mask);
    if (ctx.status == FF_OK && !r->dry) {
        r->msa = case_copy(ff_data(msa), r->msa_size);
        r->pair = case_copy(ff_data(pair), r->pair_size);
    }
    if (r->tape)
        stack_run_backward(&ctx, r, &msa, &pair, msa_in, pair_in, &p);
    r->status = ctx.status;
    memcpy(r->message, ctx.message, sizeof r->message);
    r->peak = ff_pool_get_stats(ctx.pool).peak;
    ff_tape_destroy(&ctx);
    ff_tensor *all[] = {msa, pair, msa_in, pair_in, msa_mask, pair_mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ff_tensor_release(all[i]);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
    if (ff_pool_get_stats(ctx.pool).in_use == 0)
        ff_pool_destroy(&ctx);
    ff_parameters_destroy(&p);
    free(blocks);
}

#endif
