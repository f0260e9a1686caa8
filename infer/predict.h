/* predict.h - one model with its weights, predicting: batch in, finished prediction out; and what that costs, before it is done. */
#ifndef FF_INFER_PREDICT_H
#define FF_INFER_PREDICT_H

#include "data/process.h"
#include "infer/prediction.h"
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ff_model model;
    char name[FF_PRESET_NAME_BYTES];  /* the preset */
    bool random_weights;              /* no weight file: numbers of no meaning */
    ff_process_options process;       /* sizes of batches made from raw features */
    ff_model_options forward;
} ff_predictor;

/**
 * Make the model of a preset and fill it from a weight file of any kind (model/weights.h).
 * @param preset   NULL = what the file's name says ("params_model_1_ptm.npz"), else what its arrays fit
 * @param weights  NULL = random weights of `seed`, for tests and demonstrations of the machinery
 */
ff_status ff_predictor_open(ff_ctx *ctx, ff_predictor *p, const char *preset, const char *weights, uint64_t seed);
/** The same without weights in memory, for planning (a dry pool). */
ff_status ff_predictor_open_dry(ff_ctx *ctx, ff_predictor *p, const char *preset);
void ff_predictor_close(ff_predictor *p);

/** The preset a weight file is of. `preset` is filled. */
ff_status ff_predictor_find_preset(ff_ctx *ctx, const char *weights, char preset[FF_PRESET_NAME_BYTES]);

/** A batch from raw features (names and shapes of features.pkl); p->process with another seed. */
ff_status ff_predictor_make_batch(ff_ctx *ctx, const ff_predictor *p, const ff_array_set *features, uint64_t seed,
                                  ff_array_set *batch);

/** Told after each pass of a prediction. */
typedef void (*ff_predict_pass_fn)(void *arg, const ff_recycle_record *pass);

/**
 * Predict. Padded residues (seq_mask 0 at the end) are left out of the result.
 *
 * @param batch  arrays under the names and shapes the model reads, leading axis = recycling steps
 * @param name   of the target, for the files
 * @param on_pass  NULL = nobody is told
 * @param raw    NULL, or gets the model's outputs: structure_module/final_atom_positions, distogram/logits, ...
 */
ff_status ff_predict(ff_ctx *ctx, const ff_predictor *p, const ff_array_set *batch, const char *name, uint64_t seed,
                     ff_prediction *out, ff_array_set *raw, ff_predict_pass_fn on_pass, void *on_pass_arg);

/* ---- costs ---- */

typedef struct {
    int64_t num_res, num_seq, num_extra, num_templ;
    double weights_bytes, batch_bytes, activation_bytes, result_bytes, total_bytes;
    double flop; /* of one pass and of all */
    double flop_all;
} ff_predict_cost;

/**
 * What a prediction of these sizes takes, by running the model's code on shapes alone. ctx needs kernels; its pool and plan are
 * not touched.
 */
ff_status ff_predict_plan(ff_ctx *ctx, const ff_predictor *p, int64_t num_res, int64_t num_seq, int64_t num_extra,
                          int64_t num_templ, ff_predict_cost *cost);

/** FF_ERR_MEM "needs X, have Y, try ..." when the cost is over `max_bytes` (0 = no limit). */
ff_status ff_predict_fits(ff_ctx *ctx, const ff_predictor *p, const ff_predict_cost *cost, int64_t max_bytes);

#ifdef __cplusplus
}
#endif
#endif
