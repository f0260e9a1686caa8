/* kernel_case.h - for the tests of fused kernels: random arrays kept as float32 and as double, gradients by central
 * differences of a double-precision loss, and every table of this machine.
 *
 * The reference of a kernel is a plain double loop over the same numbers; its gradients are differences of that loop, so
 * nothing of the kernel's own backward formulas is assumed. */
#ifndef FF_TESTS_KERNEL_CASE_H
#define FF_TESTS_KERNEL_CASE_H

#include <CUnit/CUnit.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/random.h"
#include "kernels/kernels.h"

#define KERNEL_UNUSED __attribute__((unused))

typedef struct {
    const char *name;
    int64_t n;
    float *x;    /* what the kernel reads */
    double *d;   /* the same for the reference, moved by differences */
    float *grad; /* starts at kernel_grad_start: backward entries add */
} kernel_array;

static const float kernel_grad_start = 0.25f;
static uint64_t kernel_draws KERNEL_UNUSED; /* streams used so far; reset by each test */

/* mean + spread * normal, exact size, so that a sanitizer sees the first element past the end */
static KERNEL_UNUSED kernel_array kernel_array_make(const char *name, int64_t n, float mean, float spread)
{
    const ff_random_key key = {2024, ++kernel_draws};
    kernel_array a = {name, n, NULL, NULL, NULL};
    a.x = malloc((size_t)n * sizeof(float) + (n == 0));
    a.d = malloc((size_t)n * sizeof(double) + (n == 0));
    a.grad = malloc((size_t)n * sizeof(float) + (n == 0));
    for (int64_t i = 0; i < n; i++) {
        a.x[i] = mean + spread * ff_random_normal(key, (uint64_t)i);
        a.d[i] = a.x[i];
        a.grad[i] = kernel_grad_start;
    }
    return a;
}
static KERNEL_UNUSED void kernel_array_free(kernel_array *a)
{
    free(a->x);
    free(a->d);
    free(a->grad);
    memset(a, 0, sizeof *a);
}
static KERNEL_UNUSED void kernel_array_reset_grad(kernel_array *a)
{
    for (int64_t i = 0; i < a->n; i++)
        a->grad[i] = kernel_grad_start;
}

/* 0 or 1 with about `share` ones */
static KERNEL_UNUSED float *kernel_mask(int64_t n, float share)
{
    const ff_random_key key = {2025, ++kernel_draws};
    float *m = malloc((size_t)n * sizeof(float) + (n == 0));
    for (int64_t i = 0; i < n; i++)
        m[i] = ff_random_uniform(key, (uint64_t)i) < share ? 1.0f : 0.0f;
    return m;
}

static KERNEL_UNUSED float kernel_operand_get(const ff_kernels *k, const void *p, int64_t i)
{
    float f;
    if (k->dtype == FF_DTYPE_F32) {
        memcpy(&f, (const char *)p + 4 * i, 4);
    } else {
        uint16_t h;
        memcpy(&h, (const char *)p + 2 * i, 2);
        const uint32_t u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
    }
    return f;
}
static KERNEL_UNUSED void *kernel_operands(const ff_kernels *k, int64_t n)
{
    void *p = malloc((size_t)n * k->operand_bytes + (n == 0));
    memset(p, 0xff, (size_t)n * k->operand_bytes); /* NaN in both types */
    return p;
}
static KERNEL_UNUSED void *kernel_scratch(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    memset(p, 0xff, (bytes + 127) & ~(size_t)63); /* NaN */
    return p;
}

/* |got - want| <= tolerance * max|want| everywhere */
static KERNEL_UNUSED void kernel_check(const ff_kernels *k, const char *what, const float *got, const double *want,
                                       int64_t n, double tolerance)
{
    double worst = 0, largest = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs((double)got[i] - want[i]);
        if (!(e <= worst)) { /* NaN counts */
            worst = e;
            at = i;
        }
        largest = fmax(largest, fabs(want[i]));
    }
    const int ok = n == 0 || worst <= tolerance * largest + 1e-12;
    if (!ok)
        printf("\n    %s %s: %s[%ld] is %.9g, want %.9g; error %.3g of the largest, %.3g allowed\n", ff_isa_name(k->isa),
               k->dtype == FF_DTYPE_F32 ? "f32" : "bf16", what, (long)at, (double)got[at], want[at], worst / largest,
               tolerance);
    CU_ASSERT_TRUE(ok);
}

/* a's gradient against central differences of the loss in up to `samples` entries; errors are measured against the largest
 * of them and `floor`. */
static KERNEL_UNUSED void kernel_check_gradient(const ff_kernels *k, kernel_array *a, double (*loss)(void *), void *arg,
                                                int64_t samples, double tolerance, double floor)
{
    const ff_random_key key = {2026, ++kernel_draws};
    double worst = 0, largest = floor, got_worst = 0, want_worst = 0;
    int64_t at = 0;
    for (int64_t s = 0; s < samples && s < a->n; s++) {
        const int64_t i = a->n <= samples ? s : (int64_t)ff_random_below(key, (uint64_t)s, (uint64_t)a->n);
        const double h = 1e-4, x = a->d[i];
        a->d[i] = x + h;
        const double up = loss(arg);
        a->d[i] = x - h;
        const double down = loss(arg);
        a->d[i] = x;
        const double want = (up - down) / (2 * h), got = (double)a->grad[i] - kernel_grad_start, e = fabs(got - want);
        if (!(e <= worst)) {
            worst = e;
            at = i;
            got_worst = got;
            want_worst = want;
        }
        largest = fmax(largest, fabs(want));
    }
    const int ok = worst <= tolerance * largest;
    if (!ok)
        printf("\n    %s %s: gradient of %s[%ld] is %.7g, by differences %.7g; error %.3g of the largest, %.3g allowed\n",
               ff_isa_name(k->isa), k->dtype == FF_DTYPE_F32 ? "f32" : "bf16", a->name, (long)at, got_worst, want_worst,
               worst / largest, tolerance);
    CU_ASSERT_TRUE(ok);
}

/* Run `test` with every table of this machine. */
static KERNEL_UNUSED void kernel_every_table(void (*test)(const ff_kernels *k))
{
    ff_ctx ctx;
    ff_context_init(&ctx);
    for (int isa = 0; isa < FF_ISA_COUNT; isa++)
        for (int dtype = 0; dtype < 2; dtype++) {
            const ff_kernels *k;
            if ((ff_isa)isa > ff_isa_best() || (isa > FF_ISA_AVX512_ && dtype == FF_DTYPE_F32))
                continue;
            CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &k, FF_BACKEND_CPU, (ff_isa)isa, (ff_dtype)dtype), FF_OK);
            test(k);
        }
}

/* Layer norm of one row in double. */
static KERNEL_UNUSED void kernel_layer_norm(double *y, const double *x, const double *scale, const double *offset, int64_t c)
{
    double mean = 0, var = 0;
    for (int64_t i = 0; i < c; i++)
        mean += x[i] / (double)c;
    for (int64_t i = 0; i < c; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)c;
    for (int64_t i = 0; i < c; i++)
        y[i] = (x[i] - mean) / sqrt(var + 1e-5) * scale[i] + offset[i];
}

#endif
