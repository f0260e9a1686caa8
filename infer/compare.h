/* compare.h - a model against an experimental structure: which residues correspond, and how well they agree. */
#ifndef FF_INFER_COMPARE_H
#define FF_INFER_COMPARE_H

#include "data/structure_file.h"
#include "train/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Global alignment of two sequences (Needleman and Wunsch 1970): +2 for equal letters, -1 for others, -2 for each letter
 * without partner, which costs nothing before and after the shorter sequence. For sequences of one protein, where a part
 * may be missing; not for distant relatives.
 *
 * @param partner  [strlen(a)] out  index in b, or -1
 * @return FF_ERR_MEM; FF_ERR_ARG when the table would have more than 2^28 entries
 */
ff_status ff_sequence_align(ff_ctx *ctx, int64_t *partner, const char *a, const char *b);

typedef struct {
    const ff_structure_chain *model, *truth; /* the chains compared */
    int64_t num_resolved;  /* residues of the truth with a CA atom */
    int64_t num_compared;  /* of these, residues the model has too */
    int64_t num_identical; /* of these, residues of the same type */
    ff_structure_metrics metrics; /* over the residues compared */
    double mean_b; /* mean over the model's CA atoms of the B column: pLDDT in a file of ours */
} ff_comparison;

/**
 * Compare CA atoms of two chains.
 * @return FF_ERR_ARG when fewer than 3 residues correspond. ctx needs a pool.
 */
ff_status ff_compare_chains(ff_ctx *ctx, ff_comparison *result, const ff_structure_chain *model,
                            const ff_structure_chain *truth);

/**
 * Compare a model with a structure.
 * @param model_chain, truth_chain  chain ids; NULL = the first of the model; of the truth the one with most residues equal
 * @return FF_ERR_ARG also for a chain that is not there; the message lists those that are
 */
ff_status ff_compare_structures(ff_ctx *ctx, ff_comparison *result, const ff_structure *model, const char *model_chain,
                                const ff_structure *truth, const char *truth_chain);

#ifdef __cplusplus
}
#endif
#endif
