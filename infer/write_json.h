/* write_json.h - confidences and timings of a prediction as JSON files.
 *
 * Formats follow AlphaFold (alphafold/common/confidence.py) and AlphaFold DB, whose readers (ChimeraX, PAE Viewer,
 * Mol*) open them. */
#ifndef FF_INFER_WRITE_JSON_H
#define FF_INFER_WRITE_JSON_H

#include "infer/prediction.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * AlphaFold DB's confidence file, `{"residueNumber": [...], "confidenceScore": [...], "confidenceCategory": [...],
 * ...}`: pLDDT with two decimals; D below 50, L below 70, M below 90, H above. Then members of ours: target,
 * sequence, model, seed, num_res, mean_plddt, ptm, max_pae, ranking_confidence, msa_depth, recycles (history),
 * notes, version.
 */
ff_status ff_confidence_json_write(ff_ctx *ctx, const ff_prediction *prediction, const char *path);

/**
 * AlphaFold DB's PAE file, `[{"predicted_aligned_error": [[...], ...], "max_predicted_aligned_error": 31.75}]`, one
 * decimal; row i is aligned on residue i.
 * @return FF_ERR_ARG when the model gave no PAE.
 */
ff_status ff_pae_json_write(ff_ctx *ctx, const ff_prediction *prediction, const char *path);

/** `{"MODEL_NAME_SEED": {"phase": seconds, ..., "recycle_0": seconds, ...}, ...}` of all predictions of a target. */
ff_status ff_timings_json_write(ff_ctx *ctx, const ff_prediction *predictions, int64_t count, const char *path);

/**
 * Which prediction became which rank: AlphaFold's ranking_debug.json members `plddts` (or `ptms`) and `order`, and
 * the file of each. `order` [count]: the prediction at each rank.
 */
ff_status ff_ranking_json_write(ff_ctx *ctx, const ff_prediction *predictions, const int64_t *order, int64_t count,
                                const char *path);

/** The letter of a pLDDT: D L M H. */
char ff_confidence_category(double plddt);

enum { FF_PREDICTION_KEY_BYTES = 128 };
/** `model_1_ptm_seed_0`, the key of a prediction in files about several. @return `key` */
const char *ff_prediction_key(char key[FF_PREDICTION_KEY_BYTES], const ff_prediction *prediction);

#ifdef __cplusplus
}
#endif
#endif
