/* main_mpi_tests.c - run under mpirun -np N: collectives against their definition, the Evoformer block against one process.
 *
 *   mpirun -np N mpi_tests          last line: N passed, N failed (printed by rank 0; all ranks exit alike)
 *   mpirun -np N mpi_tests --grid D   the same processes as D models: who sums with whom
 *   mpirun -np N mpi_tests --fail   one rank fails: all have to end with its message, and none may hang */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"
#include "tensor/tape.h"
#include "tests/evoformer_case.h"

enum { MAX_LENGTH = 13 };

static ff_comm *comm;
static int rank, size, num_passed, num_failed;

static void check(ff_ctx *ctx, bool good, const char *what, int64_t a, int64_t b)
{
    if (good) {
        num_passed++;
        return;
    }
    num_failed++;
    printf("FAIL rank %d of %d: %s (%lld, %lld) %s\n", rank, size, what, (long long)a, (long long)b, ctx->message);
}

static bool begin(ff_ctx *ctx)
{
    if (!case_context(ctx, 0, false))
        return false;
    ctx->comm = comm;
    return true;
}

static void end(ff_ctx *ctx)
{
    ff_tape_destroy(ctx);
    if (ff_pool_get_stats(ctx->pool).in_use == 0)
        ff_pool_destroy(ctx);
    else
        check(ctx, false, "tensors are left", (int64_t)ff_pool_get_stats(ctx->pool).in_use, 0);
}

/* ---- collectives ---- */

/* The global array a test speaks of: a number for each place and each `copy`. */
static float value(int64_t i, int64_t j, int64_t k, int copy) { return (float)(1000 * i + 30 * j + k) + 0.25f * (float)copy; }

/* [n0, n1, n2] from first0, first1, first2 on */
static ff_tensor *block(ff_ctx *ctx, const int64_t *first, const int64_t *n, int copy)
{
    ff_tensor *x = ff_tensor_create(ctx, 3, n);
    for (int64_t i = 0, at = 0; x != NULL && i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++)
                ff_data(x)[at++] = value(first[0] + i, first[1] + j, first[2] + k, copy);
    return x;
}

static bool equals(ff_ctx *ctx, const ff_tensor *got, const int64_t *first, const int64_t *n, int copy, float factor)
{
    if (ctx->status != FF_OK || got == NULL)
        return false;
    ff_tensor *want = block(ctx, first, n, copy);
    bool same = want != NULL && want->size == got->size;
    for (int64_t i = 0; same && i < want->size; i++)
        same = fabsf(ff_data(got)[i] - factor * ff_data(want)[i]) <= 1e-6f * fabsf(factor * ff_data(want)[i]);
    ff_tensor_release(want);
    return same;
}

/* Every gathering collective along `axis` of length n: values, and the gradient by its dual. */
static void gathers(int axis, int64_t n)
{
    const int64_t zero[3] = {0, 0, 0};
    int64_t whole[3] = {3, 3, 2}, first[3] = {0, 0, 0}, local[3];
    whole[axis] = n;
    memcpy(local, whole, sizeof local);
    local[axis] = ff_shard_length(n, rank, size);
    first[axis] = ff_shard_first(n, rank, size);
    for (int which = 0; which < 3; which++) {
        const char *const names[] = {"scatter", "gather_replicated", "all_gather"};
        ff_ctx ctx;
        if (!begin(&ctx) || ff_tape_create(&ctx) != FF_OK)
            return;
        ff_tensor *x = which == 0 ? block(&ctx, zero, whole, 0) : block(&ctx, first, local, 0);
        x->requires_grad = true;
        ff_tensor *y = which == 0   ? ff_dap_scatter(&ctx, x, axis)
                       : which == 1 ? ff_dap_gather_replicated(&ctx, x, axis, n)
                                    : ff_dap_all_gather(&ctx, x, axis, n);
        check(&ctx, which == 0 ? equals(&ctx, y, first, local, 0, 1) : equals(&ctx, y, zero, whole, 0, 1), names[which], axis, n);
        if (y != x) { /* one rank: the identity, and nothing on the tape */
            /* gradients: the same on every rank, but for all_gather, where rank r has r + 1 times it */
            ff_tensor *g = which == 0 ? block(&ctx, first, local, 1) : block(&ctx, zero, whole, 1);
            for (int64_t i = 0; which == 2 && i < g->size; i++)
                ff_data(g)[i] *= (float)(rank + 1);
            ff_tensor_set_grad(&ctx, y, ff_data(g));
            ff_tensor_release(y);
            ff_tape_backward(&ctx);
            const float sum = which == 2 ? (float)(size * (size + 1) / 2) : 1;
            check(&ctx, which == 0 ? equals(&ctx, x->grad, zero, whole, 1, sum) : equals(&ctx, x->grad, first, local, 1, sum),
                  "its gradient", axis, n);
            /* the adjoint that only takes the own slice must not pass this test */
            if (which == 2 && local[axis] > 0 && size > 1)
                check(&ctx, !equals(&ctx, x->grad, first, local, 1, (float)(rank + 1)), "a slice is told apart", axis, n);
            ff_tensor_release(g);
        } else {
            ff_tensor_release(y);
        }
        ff_tensor_release(x);
        end(&ctx);
    }
}

static void exchanges(int from, int to, int64_t n, int64_t m)
{
    int64_t whole[3] = {2, 2, 2}, before[3], after[3], first_before[3] = {0}, first_after[3] = {0};
    whole[from] = n;
    whole[to] = m;
    memcpy(before, whole, sizeof before);
    memcpy(after, whole, sizeof after);
    before[from] = ff_shard_length(n, rank, size);
    first_before[from] = ff_shard_first(n, rank, size);
    after[to] = ff_shard_length(m, rank, size);
    first_after[to] = ff_shard_first(m, rank, size);
    ff_ctx ctx;
    if (!begin(&ctx) || ff_tape_create(&ctx) != FF_OK)
        return;
    ff_tensor *x = block(&ctx, first_before, before, 0);
    x->requires_grad = true;
    ff_tensor *y = ff_dap_all_to_all(&ctx, ff_tensor_retain(x), from, n, to, m);
    check(&ctx, equals(&ctx, y, first_after, after, 0, 1), "all_to_all", 10 * n + m, 10 * from + to);
    if (y != x) {
        ff_tensor *g = block(&ctx, first_after, after, 1);
        ff_tensor_set_grad(&ctx, y, ff_data(g));
        ff_tensor_release(g);
        ff_tensor_release(y);
        ff_tape_backward(&ctx);
        check(&ctx, equals(&ctx, x->grad, first_before, before, 1, 1), "its gradient", 10 * n + m, 10 * from + to);
    } else {
        ff_tensor_release(y);
    }
    ff_tensor_release(x);
    end(&ctx);
}

static void reductions(int64_t n)
{
    ff_ctx ctx;
    if (!begin(&ctx))
        return;
    float x[MAX_LENGTH + 1];
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((rank + 1) * (i + 1));
    ff_dap_all_reduce(&ctx, x, n);
    bool good = ctx.status == FF_OK;
    for (int64_t i = 0; i < n; i++)
        good = good && x[i] == (float)(size * (size + 1) / 2 * (i + 1));
    check(&ctx, good, "all_reduce", n, 0);
    end(&ctx);
}

/* ---- the block ---- */

typedef struct {
    int64_t num_seq, num_res;
    bool training, keep_inputs, checkpoint, extra, first, published;
} block_case;

typedef struct {
    float *msa, *pair, *grad_msa, *grad_pair, *grads;
    int64_t msa_size, pair_size, num_grads;
} block_result;

static void free_result(block_result *r)
{
    free(r->msa);
    free(r->pair);
    free(r->grad_msa);
    free(r->grad_pair);
    free(r->grads);
}

/* Two blocks, sharded when the context has a communicator; results are whole arrays on every rank. */
static block_result run_blocks(ff_ctx *ctx, const block_case *c)
{
    enum { BLOCKS = 2 };
    block_result r = {0};
    ff_block w[BLOCKS];
    ff_block_config config = c->published ? case_published_block() : case_small_block();
    config.is_extra_msa = c->extra;
    config.outer_product_mean_first = c->first;
    const int64_t S = c->num_seq, R = c->num_res;
    ff_parameters p;
    ff_parameters_init(&p);
    ff_binder b = ff_binder_at(ctx, &p, true, "");
    if (ff_block_stack_bind(&b, &config, BLOCKS, w) != FF_OK || !case_fill_parameters(ctx, &p))
        return r;
    b.declare = false;
    for (int64_t i = 0; c->published && i < p.total; i++) /* else one rounding of the input changes gradients by 2e-3 */
        p.values[i] *= 0.4f;
    ff_block_stack_bind(&b, &config, BLOCKS, w);
    ctx->training = c->training;
    ctx->keep_inputs = c->keep_inputs;
    ff_tape_create(ctx);
    ff_tensor *msa_in = case_tensor(ctx, FF_SHAPE(S, R, config.c_m), 901, false, NULL);
    ff_tensor *pair_in = case_tensor(ctx, FF_SHAPE(R, R, config.c_z), 902, false, NULL);
    ff_tensor *msa_mask = case_tensor(ctx, FF_SHAPE(S, R), 903, true, NULL);
    ff_tensor *pair_mask = case_tensor(ctx, FF_SHAPE(R, R), 904, true, NULL);
    if (ctx->status == FF_OK)
        msa_in->requires_grad = pair_in->requires_grad = true;
    ff_tensor *msa = ff_dap_scatter(ctx, msa_in, 0), *pair = ff_dap_scatter(ctx, pair_in, 0);
    ff_block_stack_forward(ctx, w, BLOCKS, c->checkpoint, &msa, &pair, msa_mask, pair_mask);
    ff_tensor *out[2] = {ff_dap_gather_replicated(ctx, msa, 0, S), ff_dap_gather_replicated(ctx, pair, 0, R)};
    ff_tensor_release(msa);
    ff_tensor_release(pair);
    if (ctx->status == FF_OK) {
        r.msa = case_copy(ff_data(out[0]), r.msa_size = out[0]->size);
        r.pair = case_copy(ff_data(out[1]), r.pair_size = out[1]->size);
    }
    for (int i = 0; i < 2; i++) {
        ff_tensor *grad = ff_tensor_grad(ctx, out[i]);
        if (grad != NULL)
            case_normal(ff_data(grad), grad->size, 900u + (unsigned)i, 1.0f);
        ff_tensor_release(out[i]);
    }
    ff_tape_backward(ctx);
    ff_dap_all_reduce(ctx, p.grads, p.total);
    if (ctx->status == FF_OK) {
        r.grad_msa = case_copy(ff_data(ff_tensor_grad(ctx, msa_in)), r.msa_size);
        r.grad_pair = case_copy(ff_data(ff_tensor_grad(ctx, pair_in)), r.pair_size);
        r.grads = case_copy(p.grads, r.num_grads = p.total);
    }
    ff_tensor *all[] = {msa_in, pair_in, msa_mask, pair_mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ff_tensor_release(all[i]);
    ff_parameters_destroy(&p);
    return r;
}

/* Largest difference relative to the largest value. */
static double difference(const float *a, const float *b, int64_t n)
{
    double worst = 0, largest = 1e-30;
    if (a == NULL || b == NULL)
        return INFINITY;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - b[i]));
        largest = fmax(largest, fabs((double)b[i]));
        if (isnan(a[i]) || isnan(b[i]))
            return INFINITY;
    }
    return worst / largest;
}

/* float32, sums in another order: 1e-5 on narrow blocks, 3e-5 on 256 channels. */
static void compare(ff_ctx *ctx, const float *got, const float *want, int64_t n, const char *what, const block_case *c)
{
    const double d = difference(got, want, n);
    char text[96];
    snprintf(text, sizeof text, "%s: difference %.2g", what, d);
    check(ctx, d < (c->published ? 3e-5 : 1e-5), text, c->num_seq, c->num_res);
}

static void compare_block(const block_case *c)
{
    ff_ctx alone, together;
    if (!begin(&alone) || !begin(&together))
        return;
    alone.comm = NULL;
    block_result want = run_blocks(&alone, c), got = run_blocks(&together, c);
    compare(&together, got.msa, want.msa, want.msa_size, "msa of blocks", c);
    compare(&together, got.pair, want.pair, want.pair_size, "pair of blocks", c);
    compare(&together, got.grad_msa, want.grad_msa, want.msa_size, "gradient of msa", c);
    compare(&together, got.grad_pair, want.grad_pair, want.pair_size, "gradient of pair", c);
    compare(&together, got.grads, want.grads, want.num_grads, "gradients of parameters", c);
    free_result(&want);
    free_result(&got);
    end(&alone);
    end(&together);
}

/* ---- data parallel x DAP ---- */

/* Sums within a model, over all processes (several buckets), and again: the same bits. */
static void grid_sums(int data_size, int dap_size)
{
    enum { MANY = (1 << 21) + 77 };
    const int world = data_size * dap_size, process = ff_data_rank(&(ff_ctx){.comm = comm}) * dap_size + rank;
    ff_ctx ctx;
    float *x = malloc(2 * MANY * sizeof *x);
    if (x == NULL || !begin(&ctx))
        return;
    check(&ctx, ff_data_size(&ctx) == data_size && size == dap_size, "sizes of the grid", ff_data_size(&ctx), size);
    float one = (float)(process + 1);
    ff_dap_all_reduce(&ctx, &one, 1);
    const int first = ff_data_rank(&ctx) * dap_size;
    check(&ctx, one == (float)(dap_size * (2 * first + dap_size + 1)) / 2, "sum within a model", process, (int64_t)one);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < MANY; i++)
            x[pass * MANY + i] = (float)(process + 1) * (1.0f + 1.0f / (float)(i % 977 + 3));
        ff_dap_reduce_gradients(&ctx, x + pass * MANY, MANY);
    }
    bool good = ctx.status == FF_OK && memcmp(x, x + MANY, MANY * sizeof *x) == 0;
    for (int64_t i = 0; i < MANY && good; i++) {
        const float want = (float)(world * (world + 1)) / 2 * (1.0f + 1.0f / (float)(i % 977 + 3));
        good = fabsf(x[i] - want) <= 1e-6f * want;
    }
    check(&ctx, good, "sum over all processes", data_size, dap_size);
    free(x);
    end(&ctx);
}

/* ---- failure ---- */

/* Rank 1 fails while the others are already waiting in a collective. */
static int fail_on_one_rank(ff_ctx *first)
{
    ff_ctx ctx;
    const int64_t n[3] = {1 << 12, 4, 4}, zero[3] = {0, 0, 0};
    if (!begin(&ctx))
        return 1;
    int64_t local[3] = {ff_shard_length(n[0], rank, size), n[1], n[2]};
    if (rank == 1)
        FF_FAIL(&ctx, FF_ERR_FORMAT, "the deliberate failure");
    ff_tensor *x = rank == 1 ? NULL : block(&ctx, zero, local, 0);
    ff_tensor *y = ff_dap_all_gather(&ctx, x, 0, n[0]);
    ff_tensor_release(y);
    ff_tensor_release(x);
    const ff_status status = ff_dap_agree(&ctx);
    const bool good = status == FF_ERR_FORMAT && strstr(ctx.message, "the deliberate failure") != NULL;
    if (rank == 0)
        printf("%s\n%d passed, %d failed\n", ctx.message, good, !good);
    first->comm = ctx.comm;
    return !good;
}

static void everything(void)
{
    for (int64_t n = 0; n <= MAX_LENGTH; n++) {
        for (int axis = 0; axis < 3; axis++)
            gathers(axis, n);
        for (int64_t m = 0; m <= MAX_LENGTH; m += 3) {
            exchanges(0, 1, n, m);
            exchanges(1, 0, n, m);
            exchanges(2, 0, n, m);
        }
        reductions(n);
    }
    const block_case cases[] = {
        {.num_seq = 7, .num_res = 13},
        {.num_seq = 7, .num_res = 13, .training = true, .checkpoint = true},
        {.num_seq = 5, .num_res = 11, .training = true, .keep_inputs = true},
        {.num_seq = 1, .num_res = 7, .training = true}, /* empty MSA shards */
        {.num_seq = 4, .num_res = 2},                   /* empty pair shards from 3 ranks on */
        {.num_seq = 1, .num_res = 1},
        {.num_seq = 6, .num_res = 9, .extra = true},
        {.num_seq = 6, .num_res = 9, .first = true},
        {.num_seq = 9, .num_res = 21, .published = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare_block(&cases[i]);
}

int main(int argc, char **argv)
{
    ff_ctx first;
    ff_context_init(&first);
    const char *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    const int world = ranks == NULL ? 1 : atoi(ranks);
    const int data_size = argc > 2 && strcmp(argv[1], "--grid") == 0 ? atoi(argv[2]) : 1;
    if (ff_dap_init_grid(&first, &argc, &argv, data_size, world / (data_size > 0 ? data_size : 1)) != FF_OK) {
        fprintf(stderr, "mpi_tests: %s\n", first.message);
        return 1;
    }
    comm = first.comm;
    rank = ff_dap_rank(&first);
    size = ff_dap_size(&first);
    if (argc > 1 && strcmp(argv[1], "--fail") == 0) {
        const int result = fail_on_one_rank(&first);
        fflush(stdout);
        ff_dap_finalize(&first);
        return result;
    }
    if (argc > 1 && strcmp(argv[1], "--grid") == 0)
        grid_sums(data_size, size);
    else
        everything();
    float counts[2] = {(float)num_passed, (float)num_failed};
    fflush(stdout);
    ff_ctx ctx;
    if (begin(&ctx)) {
        ff_dap_reduce_gradients(&ctx, counts, 2);
        end(&ctx);
    }
    if (rank == 0 && ff_data_rank(&first) == 0)
        printf("%d passed, %d failed\n", (int)counts[0], (int)counts[1]);
    fflush(stdout);
    ff_dap_finalize(&first);
    return counts[1] != 0;
}
