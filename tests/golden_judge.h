/* golden_judge.h - compares what a program produced for a reference case with what the file wants.
 *
 * An array passes when both hold, with `tol` its tolerance and `want` the reference:
 *   1. max |got - want| <= tol * M,   M = max |want|, for gradients at least 1e-3 of the largest |gradient| of the case
 *      (1e-2 for the arrays that the attribute `grad_exact_zero` names: their true value is zero);
 *   2. |got - want| <= 10 * tol * (|want| + median of the non-zero |want|) for every entry, so that a few large entries
 *      do not hide wrong ordinary ones: outputs, and gradients of the families that are one module; not for arrays whose
 *      max |want| lies below the floor of rule 1.
 * Outputs behind an outer product mean are judged in two parts, each with its own M and median: residue pairs that no
 * sequence covers (their numbers are divided by 1e-3 only), and the rest. Undefined torsions are left out. */
#ifndef FF_TESTS_GOLDEN_JUDGE_H
#define FF_TESTS_GOLDEN_JUDGE_H

#include <stdbool.h>

#include "tests/golden_case.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    double forward, gradient; /* tol of outputs and of gradients */
    /* A case records how far the reference's own float32 run is from the stored float64 numbers; tol is never tighter
     * than five times that, except where the user asked for less than the default. */
    bool forward_as_is, gradient_as_is;
} golden_tolerances;

typedef enum { GOLDEN_PASSED, GOLDEN_FAILED, GOLDEN_UNKNOWN } golden_result;

typedef struct {
    char array[512];    /* "output/msa", "grad/param/attention/query_w", "inference:output/msa" */
    golden_result result; /* GOLDEN_UNKNOWN: the backend has no gradients for this operation */
    double error;       /* max |got - want| / M of the worst part */
    double tolerance;   /* tol */
    double max_want;    /* max |want| of that part */
    double entry_error; /* max |got - want| / (10 (|want| + median)), to be compared with tol; -1 = rule 2 not asked */
    char reason[320];   /* why it failed, with the worst entry; empty otherwise */
} golden_verdict;

typedef void (*golden_report_fn)(void *arg, const golden_verdict *verdict);

/** The tolerances of the reference files: float32 2e-5 and 1e-4, bf16 2e-2 and 5e-2. */
golden_tolerances golden_default_tolerances(bool bf16);

/** Judge every output and gradient of a case, and what is missing; `report` is called once for each array. */
void golden_judge(ff_ctx *ctx, const golden_case *c, const golden_tolerances *tolerances, golden_report_fn report,
                  void *arg);

#ifdef __cplusplus
}
#endif
#endif
