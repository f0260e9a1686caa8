#include "infer/write_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/version.h"
#include "infer/json_writer.h"
#include "io/safe_file.h"

char ff_confidence_category(double plddt)
{
    return plddt < 50 ? 'D' : plddt < 70 ? 'L' : plddt < 90 ? 'M' : 'H';
}

const char *ff_prediction_key(char key[FF_PREDICTION_KEY_BYTES], const ff_prediction *p)
{
    snprintf(key, FF_PREDICTION_KEY_BYTES, "%s_seed_%" PRIu64, p->model_name, p->seed);
    return key;
}

/* pLDDT with two decimals, as the score is written; the category must be that of the written number. */
static double rounded_score(const ff_prediction *p, int64_t i)
{
    return rint(fmin(fmax((double)p->plddt[i], 0.0), 100.0) * 100) / 100;
}

static void put_history(ff_json *json, const ff_prediction *p)
{
    ff_json_array_begin(json, "recycles");
    for (int64_t k = 0; k < p->num_history; k++) {
        const ff_recycle_record *pass = &p->history[k];
        ff_json_object_begin(json, NULL);
        ff_json_integer(json, "recycle", k);
        ff_json_number(json, "mean_plddt", pass->mean_plddt, 4);
        ff_json_number(json, "ptm", pass->ptm, 5);
        ff_json_number(json, "ca_change", pass->ca_change_ang, 4);
        ff_json_number(json, "seconds", pass->seconds, 4);
        ff_json_object_end(json);
    }
    ff_json_array_end(json);
}

static ff_status write_confidence(ff_ctx *ctx, FILE *file, const void *arg)
{
    const ff_prediction *p = arg;
    ff_json json;
    (void)ctx;
    ff_json_begin(&json, file, true);
    ff_json_object_begin(&json, NULL);
    ff_json_array_begin(&json, "residueNumber");
    for (int64_t i = 0; i < p->num_res; i++)
        ff_json_integer(&json, NULL, (int64_t)p->residue_index[i] + 1);
    ff_json_array_end(&json);
    ff_json_array_begin(&json, "confidenceScore");
    for (int64_t i = 0; i < p->num_res; i++)
        ff_json_number(&json, NULL, rounded_score(p, i), 2);
    ff_json_array_end(&json);
    ff_json_array_begin(&json, "confidenceCategory");
    for (int64_t i = 0; i < p->num_res; i++)
        ff_json_text(&json, NULL, (char[]){ff_confidence_category(rounded_score(p, i)), '\0'});
    ff_json_array_end(&json);
    ff_json_text(&json, "target", p->name);
    ff_json_text(&json, "sequence", p->sequence);
    ff_json_text(&json, "model", p->model_name);
    ff_json_integer(&json, "seed", (int64_t)p->seed);
    ff_json_integer(&json, "num_res", p->num_res);
    ff_json_number(&json, "mean_plddt", ff_prediction_mean_plddt(p), 4);
    ff_json_number(&json, "ptm", p->ptm, 5);
    ff_json_number(&json, "max_pae", p->pae != NULL ? p->max_pae : NAN, 4);
    ff_json_number(&json, "ranking_confidence", p->ranking_confidence, 5);
    ff_json_integer(&json, "num_msa", p->num_msa);
    if (p->msa_depth != NULL)
        ff_json_integers(&json, "msa_depth", p->msa_depth, p->num_res);
    put_history(&json, p);
    ff_json_array_begin(&json, "notes");
    for (int64_t k = 0; k < p->num_notes; k++)
        ff_json_text(&json, NULL, p->notes[k]);
    ff_json_array_end(&json);
    ff_json_text(&json, "version", "fastfold " FF_VERSION);
    ff_json_object_end(&json);
    ff_json_end(&json);
    return FF_OK;
}

ff_status ff_confidence_json_write(ff_ctx *ctx, const ff_prediction *p, const char *path)
{
    FF_TRY(ff_prediction_check(ctx, p));
    return ff_safe_file_write(ctx, path, write_confidence, p);
}

static ff_status write_pae(ff_ctx *ctx, FILE *file, const void *arg)
{
    const ff_prediction *p = arg;
    ff_json json;
    (void)ctx;
    ff_json_begin(&json, file, false);
    ff_json_array_begin(&json, NULL);
    ff_json_object_begin(&json, NULL);
    ff_json_array_begin(&json, "predicted_aligned_error");
    for (int64_t i = 0; i < p->num_res; i++)
        ff_json_floats(&json, NULL, p->pae + i * p->num_res, p->num_res, 1);
    ff_json_array_end(&json);
    ff_json_number(&json, "max_predicted_aligned_error", p->max_pae, 4);
    ff_json_object_end(&json);
    ff_json_array_end(&json);
    ff_json_end(&json);
    return FF_OK;
}

ff_status ff_pae_json_write(ff_ctx *ctx, const ff_prediction *p, const char *path)
{
    if (p->pae == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s has no predicted aligned error to write in %s; models named _ptm have",
                       p->model_name, path);
    FF_TRY(ff_prediction_check(ctx, p));
    return ff_safe_file_write(ctx, path, write_pae, p);
}

typedef struct {
    const ff_prediction *predictions;
    const int64_t *order;
    int64_t count;
} several;

static ff_status write_timings(ff_ctx *ctx, FILE *file, const void *arg)
{
    const several *all = arg;
    char key[FF_PREDICTION_KEY_BYTES], recycle[32];
    ff_json json;
    (void)ctx;
    ff_json_begin(&json, file, true);
    ff_json_object_begin(&json, NULL);
    for (int64_t k = 0; k < all->count; k++) {
        const ff_prediction *p = &all->predictions[k];
        ff_json_object_begin(&json, ff_prediction_key(key, p));
        for (int64_t t = 0; t < p->num_timings; t++)
            ff_json_number(&json, p->timings[t].name, p->timings[t].seconds, 4);
        for (int64_t t = 0; t < p->num_history; t++) {
            snprintf(recycle, sizeof recycle, "recycle_%" PRId64, t);
            ff_json_number(&json, recycle, p->history[t].seconds, 4);
        }
        ff_json_object_end(&json);
    }
    ff_json_object_end(&json);
    ff_json_end(&json);
    return FF_OK;
}

ff_status ff_timings_json_write(ff_ctx *ctx, const ff_prediction *predictions, int64_t count, const char *path)
{
    return ff_safe_file_write(ctx, path, write_timings, &(several){predictions, NULL, count});
}

static ff_status write_ranking(ff_ctx *ctx, FILE *file, const void *arg)
{
    const several *all = arg;
    char key[FF_PREDICTION_KEY_BYTES], name[48];
    bool all_ptm = true;
    ff_json json;
    (void)ctx;
    for (int64_t k = 0; k < all->count; k++)
        all_ptm = all_ptm && isfinite(all->predictions[k].ptm);
    ff_json_begin(&json, file, true);
    ff_json_object_begin(&json, NULL);
    for (int pass = 0; pass < (all_ptm ? 2 : 1); pass++) {
        ff_json_object_begin(&json, pass == 0 ? "plddts" : "ptms");
        for (int64_t k = 0; k < all->count; k++) {
            const ff_prediction *p = &all->predictions[k];
            ff_json_number(&json, ff_prediction_key(key, p), pass == 0 ? ff_prediction_mean_plddt(p) : p->ptm, 5);
        }
        ff_json_object_end(&json);
    }
    ff_json_array_begin(&json, "order");
    for (int64_t k = 0; k < all->count; k++)
        ff_json_text(&json, NULL, ff_prediction_key(key, &all->predictions[all->order[k]]));
    ff_json_array_end(&json);
    ff_json_object_begin(&json, "files");
    for (int64_t k = 0; k < all->count; k++) {
        snprintf(name, sizeof name, "ranked_%" PRId64 ".pdb", k);
        ff_json_text(&json, name, ff_prediction_key(key, &all->predictions[all->order[k]]));
    }
    ff_json_object_end(&json);
    ff_json_object_end(&json);
    ff_json_end(&json);
    return FF_OK;
}

ff_status ff_ranking_json_write(ff_ctx *ctx, const ff_prediction *predictions, const int64_t *order, int64_t count,
                                const char *path)
{
    return ff_safe_file_write(ctx, path, write_ranking, &(several){predictions, order, count});
}
