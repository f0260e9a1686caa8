/* cases.c - clock and output of the cases: see cases.h. */
#include "bench/cases.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "core/clock.h"
#include "core/version.h"

/* ---- clock ---- */

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_seconds bench_summary(double *seconds, int64_t count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    return (bench_seconds){0.5 * (seconds[(count - 1) / 2] + seconds[count / 2]), seconds[0]};
}

ff_status bench_time(const bench_cases *cases, bench_case_fn fn, void *arg, bench_seconds *result)
{
    ff_status status = FF_OK;
    double *seconds = calloc((size_t)cases->repeat, sizeof *seconds);
    if (seconds == NULL)
        return FF_FAIL(cases->ctx, FF_ERR_MEM, "out of memory");
    FF_TRY_DONE(fn(cases->ctx, arg));
    for (int64_t i = 0; i < cases->repeat; i++) {
        const double begin = ff_clock_s();
        FF_TRY_DONE(fn(cases->ctx, arg));
        seconds[i] = ff_clock_s() - begin;
    }
    *result = bench_summary(seconds, cases->repeat);
done:
    free(seconds);
    return status;
}

/* ---- output ---- */

void bench_print_heads(const bench_cases *cases)
{
    if (cases->json)
        return;
    printf("fastfold-bench %s %s: %d threads, isa %s\n", FF_VERSION, cases->command, bench_num_threads(),
           ff_isa_name(cases->ctx->kernels->isa));
    printf("%-28s %10s %10s\n", "case", "median s", "least s");
}

void bench_print_case(const bench_cases *cases, const char *name, bench_seconds seconds, int count,
                      const bench_figure *figures)
{
    if (cases->json)
        printf("{\"op\": \"%s\", \"case\": \"%s\", \"threads\": %d, \"seconds_median\": %.6g, \"seconds_min\": %.6g",
               cases->command, name, bench_num_threads(), seconds.median, seconds.least);
    else
        printf("%-28s %10.5f %10.5f", name, seconds.median, seconds.least);
    for (int k = 0; k < count; k++)
        if (cases->json)
            printf(", \"%s\": %.6g", figures[k].key, figures[k].value);
        else
            printf("%s%.4g %s", k == 0 ? "  " : ", ", figures[k].value, figures[k].unit);
    printf(cases->json ? "}\n" : "\n");
    fflush(stdout);
}
