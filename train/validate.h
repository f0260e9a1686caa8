/* validate.h - how well a model predicts chains it is given whole: structure metrics and losses, by chain and on average. */
#ifndef FF_TRAIN_VALIDATE_H
#define FF_TRAIN_VALIDATE_H

#include "train/metrics.h"
#include "train/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *name; /* lent by the source */
    int64_t num_res;
    bool failed;      /* could not be read or predicted; the numbers are 0 */
    ff_structure_metrics metrics;
    ff_loss_parts parts;
} ff_validation_chain;

typedef struct {
    ff_validation_chain *chains; /* [num_chains] owned */
    int64_t num_chains, num_failed;
    ff_structure_metrics mean;   /* of the chains that did not fail */
    double loss, fraction_violating; /* residues that break a rule of the violation loss */
    double seconds;
} ff_validation;

/**
 * Predict every chain of a source with the averaged weights (which are exchanged with the weights meanwhile and are back on return)
 * and compare. A chain that cannot be read is left out with a warning.
 *
 * @param process     how batches are made; nothing is drawn
 * @param validation  out  ff_validation_destroy also after a failure
 */
ff_status ff_validate(ff_ctx *ctx, ff_validation *validation, ff_trainer *trainer, const ff_chain_source *source,
                      const ff_process_options *process);
void ff_validation_destroy(ff_validation *validation);

#ifdef __cplusplus
}
#endif
#endif
