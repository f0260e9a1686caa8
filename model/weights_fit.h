/* weights_fit.h - which preset a file of weights belongs to, by the names and shapes of its arrays. */
#ifndef FF_MODEL_WEIGHTS_FIT_H
#define FF_MODEL_WEIGHTS_FIT_H

#include "model/openfold_names.h"
#include "model/presets.h"
#include "model/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_FIT_PRESETS = 16 };

typedef struct {
    const char *fitting[FF_FIT_PRESETS]; /* the presets whose arrays are all there, with the fewest left over */
    int num_fitting;
    const char *nearest;    /* when none fits: the one with the fewest arrays wrong */
    ff_weights_match match; /* of the first fitting, or of the nearest */
} ff_weights_fit;

/** Compare a file of any kind with every preset. Reads names and shapes only. */
ff_status ff_weights_find_fit(ff_ctx *ctx, const char *path, ff_weights_fit *fit);

/** Compare it with one preset. */
ff_status ff_weights_match_preset(ff_ctx *ctx, const char *path, const char *preset, ff_weights_match *match);

/**
 * The preset of a file: what a checkpoint says; else a preset's name in the file's name, when its arrays fit
 * ("params_model_2_ptm.npz": arrays do not tell model_1 from model_2); else the first whose arrays fit.
 * @return FF_ERR_FORMAT when none does, and `preset` is "".
 */
ff_status ff_weights_find_preset(ff_ctx *ctx, const char *path, char preset[FF_PRESET_NAME_BYTES]);

/** Text for people: "model_1_ptm, model_2_ptm" or "none; nearest tiny: ...". */
void ff_weights_format_fit(const ff_weights_fit *fit, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
