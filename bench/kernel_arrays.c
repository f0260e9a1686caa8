/* kernel_arrays.c - see kernel_arrays.h. */
#include "bench/kernel_arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/pool.h"

enum { ALIGNMENT = 64 };

static bench_kernel_state *bench_new_state(bench_run *run)
{
    bench_kernel_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
    run->state = s;
    return s;
}

void bench_arrays_release(bench_run *run)
{
    bench_kernel_state *s = run->state;
    for (int i = s->num_arrays - 1; i >= 0; i--)
        ff_pool_free(run->ctx->pool, s->arrays[i].memory, s->arrays[i].bytes);
    for (int i = 0; i < s->num_weights; i++)
        free(s->weights[i]);
    free(s);
    run->state = NULL;
}

void *bench_take_bytes(bench_run *run, size_t bytes)
{
    bench_kernel_state *s = run->state;
    void *memory = bytes == 0 || run->ctx->status != FF_OK ? NULL : ff_pool_alloc(run->ctx, bytes);
    if (memory == NULL)
        return NULL;
    s->arrays[s->num_arrays].memory = memory;
    s->arrays[s->num_arrays++].bytes = bytes;
    return memory;
}

float *bench_take(bench_run *run, int64_t n, float scale)
{
    bench_kernel_state *s = run->state;
    float *x = bench_take_bytes(run, (size_t)n * sizeof *x);
    if (x != NULL)
        bench_fill(x, n, scale, (uint64_t)s->num_arrays);
    return x;
}

float *bench_take_ones(bench_run *run, int64_t n)
{
    float *x = bench_take_bytes(run, (size_t)n * sizeof *x);
    for (int64_t i = 0; x != NULL && i < n; i++)
        x[i] = 1;
    return x;
}

void *bench_take_operand(bench_run *run, int64_t n, float scale)
{
    const size_t bytes = (size_t)n * run->k->operand_bytes;
    void *x = bench_take_bytes(run, bytes);
    if (x == NULL)
        return NULL;
    enum { CHUNK = 4096 };
    float chunk[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        bench_fill(chunk, count, scale, (uint64_t)first);
        if (run->k->operand_bytes == sizeof(float)) {
            memcpy((float *)x + first, chunk, (size_t)count * sizeof(float));
            continue;
        }
        for (int64_t i = 0; i < count; i++) { /* bf16: the upper half */
            uint32_t bits;
            memcpy(&bits, &chunk[i], sizeof bits);
            ((uint16_t *)x)[first + i] = (uint16_t)(bits >> 16);
        }
    }
    return x;
}

static float *weight_memory(bench_run *run, int64_t n)
{
    bench_kernel_state *s = run->state;
    const size_t bytes = ((size_t)n * sizeof(float) / ALIGNMENT + 1) * ALIGNMENT;
    float *w = aligned_alloc(ALIGNMENT, bytes);
    if (w == NULL) {
        FF_FAIL(run->ctx, FF_ERR_MEM, "out of memory");
        return NULL;
    }
    memset(w, 0, bytes);
    return s->weights[s->num_weights++] = w;
}

void bench_make_weight(bench_run *run, float **value, float **grad, int64_t num_input, int64_t num_output)
{
    *value = weight_memory(run, num_input * num_output);
    *grad = weight_memory(run, num_input * num_output);
    if (*value != NULL)
        bench_fill(*value, num_input * num_output, 1 / sqrtf((float)num_input),
                   100 + (uint64_t)((bench_kernel_state *)run->state)->num_weights);
}

void bench_make_scale(bench_run *run, float **value, float **grad, int64_t c)
{
    *value = weight_memory(run, c);
    *grad = weight_memory(run, c);
    for (int64_t i = 0; *value != NULL && i < c; i++)
        (*value)[i] = 1;
}

bool bench_wants_backward(const bench_run *run) { return run->pass == BENCH_BACKWARD || run->pass == BENCH_BOTH; }

bool bench_in_place(const bench_run *run) { return run->pass == BENCH_INFERENCE; }

ff_status bench_offered(bench_run *run, bool forward, bool backward)
{
    if (!forward || (bench_wants_backward(run) && !backward))
        return FF_FAIL(run->ctx, FF_ERR_UNSUPPORTED, "the %s backend has no %s%s", run->k->name, run->op->name,
                       forward ? ", backward" : "");
    return bench_new_state(run) == NULL ? run->ctx->status : FF_OK;
}

void bench_take_grads(bench_run *run, int64_t num_x, int64_t num_y)
{
    bench_kernel_state *s = run->state;
    if (!bench_wants_backward(run))
        return;
    s->grad_x = bench_take(run, num_x, 0.1f);
    s->grad_y = bench_take(run, num_y, 1);
}

size_t bench_larger(size_t a, size_t b) { return a > b ? a : b; }
