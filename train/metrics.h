/* metrics.h - how good a predicted CA trace is: lDDT, dRMSD, RMSD after superposition, GDT and TM-score.
 *
 * Everywhere: predicted and truth are [num_res, 3] in Å in host memory, residues correspond by index (a fixed
 * alignment), mask [num_res] says which residues are resolved in the truth; the others count nowhere.
 * Computed in double precision, in an order that does not depend on the number of threads. With no resolved
 * residue a score is 0 and so is an RMSD. A coordinate that is not finite gives the worst score (0, or
 * infinity for an RMSD). */
#ifndef FF_TRAIN_METRICS_H
#define FF_TRAIN_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FF_LDDT_CUTOFF_ANG 15.0

/**
 * lDDT of each residue against the other resolved ones (Mariani et al. 2013; Suppl. Alg. 29): the mean over
 * partners with a true distance below `cutoff_ang` of the fractions of |d - d_true| < 0.5, 1, 2, 4 Å.
 *
 *     lddt[i] = (1e-10 + sum of scores) / (1e-10 + number of partners)
 *
 * so a residue without partners scores 1, as in AlphaFold's code. Time O(num_res^2).
 *
 * @param lddt  [num_res] out, 0..1
 */
void ff_lddt_per_residue(double *lddt, const float *predicted, const float *truth, const float *mask, int64_t num_res,
                         double cutoff_ang);

typedef struct {
    int64_t num_resolved;
    double lddt_ca;   /* 0..1: over all pairs within 15 Å; residues without partners do not count */
    double drmsd_ang; /* root mean square difference of the distances of all pairs */
    double rmsd_ang;  /* after the best superposition of all residues */
    double gdt_ts;    /* 0..1: mean over 1, 2, 4, 8 Å of the largest fraction of residues within it */
    double gdt_ha;    /* the same of 0.5, 1, 2, 4 Å */
    double tm_score;  /* 0..1: normalised by the number of resolved residues */
} ff_structure_metrics;

/** All of them. Scratch comes from ctx->pool (FF_ERR_MEM). */
ff_status ff_structure_metrics_compute(ff_ctx *ctx, ff_structure_metrics *metrics, const float *predicted,
                                       const float *truth, const float *mask, int64_t num_res);

/** lDDT over all pairs of resolved residues with a true distance below 15 Å; 0..1, and 0 without such a pair. */
double ff_lddt_ca(const float *predicted, const float *truth, const float *mask, int64_t num_res);

/** sqrt(mean over pairs i < j of (d_ij - true d_ij)^2); blind to mirror images. */
double ff_drmsd(const float *predicted, const float *truth, const float *mask, int64_t num_res);

/** A proper rotation (row-major) and a translation. */
typedef struct {
    double rotation[9], translation[3];
} ff_superposition;

/**
 * The rotation and translation that bring `moving` nearest to `fixed` in the sense of least squares (Horn
 * 1987, by the largest eigenvector of a 4 x 4 matrix: never a mirror image). Points on a line or in one place
 * give one of the best.
 *
 * @param moving, fixed  [n, 3] double
 * @param weight         [n], or NULL = all 1; all zero gives the identity
 * @return root mean square distance afterwards
 */
double ff_superpose(ff_superposition *s, const double *moving, const double *fixed, const double *weight, int64_t n);

/** RMSD of the resolved residues after superposition. */
ff_status ff_rmsd(ff_ctx *ctx, double *rmsd_ang, const float *predicted, const float *truth, const float *mask,
                  int64_t num_res);

typedef struct {
    double tm_score, gdt_ts, gdt_ha; /* 0..1 */
} ff_global_scores;

/**
 * TM-score and GDT with the superposition that is best for each (Zhang and Skolnick 2004; Zemla 2003).
 *
 *     TM = max over superpositions of 1/L * sum of 1 / (1 + (d_i / d0)^2)
 *     d0 = 1.24 (L - 15)^(1/3) - 1.8, at least 0.5 Å
 *
 * The maximum is searched as TM-score does: fragments of length L, L/2, L/4, ... 4 from every start are
 * superposed, and each superposition is refined on the residues it brings within a cutoff until these no
 * longer change. GDT takes, for every cutoff, the most residues that any of the visited superpositions
 * brought within it. L is the number of resolved residues. Time about O(L^2) with a few thousand
 * superpositions.
 */
ff_status ff_global_scores_compute(ff_ctx *ctx, ff_global_scores *scores, const float *predicted, const float *truth,
                                   const float *mask, int64_t num_res);

/** d0 of TM-score for a length, Å: at least 0.5; lengths of 21 and less give 0.5. */
double ff_tm_d0(int64_t length);

#ifdef __cplusplus
}
#endif
#endif
