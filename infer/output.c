#include "infer/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "infer/report.h"
#include "infer/target_folder.h"
#include "infer/write_json.h"
#include "structure/residue_constants.h"

ff_status ff_output_rank(ff_ctx *ctx, int64_t *order, const ff_prediction *predictions, int64_t count)
{
    if (count < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "there is no prediction to rank");
    for (int64_t k = 0; k < count; k++) { /* insertion: a handful of models and seeds */
        const double confidence = predictions[k].ranking_confidence;
        int64_t at = k;
        for (; at > 0; at--) {
            const double before = predictions[order[at - 1]].ranking_confidence;
            if (!(confidence > before || (isnan(before) && !isnan(confidence))))
                break;
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
    return FF_OK;
}

/* folder/STEM[_RANK].END; the caller frees it. */
static char *file_path(ff_ctx *ctx, const char *folder, const char *stem, int64_t rank, const char *end)
{
    char name[64];
    if (rank > 0)
        snprintf(name, sizeof name, "%s_%" PRId64 "%s", stem, rank, end);
    else
        snprintf(name, sizeof name, "%s%s", stem, end);
    return ff_path_join(ctx, folder, name);
}

typedef ff_status (*write_one)(ff_ctx *ctx, const ff_prediction *p, const char *path, const ff_output_options *options);

static ff_status pdb(ff_ctx *ctx, const ff_prediction *p, const char *path, const ff_output_options *options)
{
    return ff_prediction_write_pdb(ctx, p, path, options->b_column);
}

static ff_status mmcif(ff_ctx *ctx, const ff_prediction *p, const char *path, const ff_output_options *options)
{
    return ff_prediction_write_mmcif(ctx, p, path, options->b_column);
}

static ff_status confidence(ff_ctx *ctx, const ff_prediction *p, const char *path, const ff_output_options *options)
{
    (void)options;
    return ff_confidence_json_write(ctx, p, path);
}

static ff_status pae(ff_ctx *ctx, const ff_prediction *p, const char *path, const ff_output_options *options)
{
    (void)options;
    return ff_pae_json_write(ctx, p, path);
}

static ff_status write_as(ff_ctx *ctx, write_one write, const ff_prediction *p, const ff_output_options *options,
                          const char *folder, const char *stem, int64_t rank, const char *end)
{
    char *path = file_path(ctx, folder, stem, rank, end);
    if (path == NULL)
        return FF_ERR_MEM;
    const ff_status status = write(ctx, p, path, options);
    free(path);
    return status;
}

/* The files of one rank. */
static ff_status write_rank(ff_ctx *ctx, const char *folder, const ff_prediction *p, int64_t rank,
                            const ff_output_options *options)
{
    char stem[48];
    snprintf(stem, sizeof stem, "ranked_%" PRId64, rank);
    if (ff_prediction_fits_pdb(p))
        FF_TRY(write_as(ctx, pdb, p, options, folder, stem, 0, ".pdb"));
    else
        FF_WARN(ctx, "%s: %" PRId64 " residues are more than a PDB file can number; the structure is in %s.cif", folder,
                p->num_res, stem);
    if (options->mmcif || !ff_prediction_fits_pdb(p))
        FF_TRY(write_as(ctx, mmcif, p, options, folder, stem, 0, ".cif"));
    FF_TRY(write_as(ctx, confidence, p, options, folder, "confidence", rank, ".json"));
    if (p->pae != NULL)
        FF_TRY(write_as(ctx, pae, p, options, folder, "predicted_aligned_error", rank, ".json"));
    return FF_OK;
}

static ff_status write_result(ff_ctx *ctx, const char *folder, const ff_prediction *p, int64_t rank,
                              const ff_array_set *raw)
{
    char *path = file_path(ctx, folder, "result", rank, ".h5");
    if (path == NULL)
        return FF_ERR_MEM;
    const ff_status status = ff_result_h5_write(ctx, p, raw, path);
    free(path);
    return status;
}

/* Files about all predictions. */
static ff_status write_summaries(ff_ctx *ctx, const char *folder, const ff_prediction *predictions,
                                 const int64_t *order, int64_t count, const ff_output_options *options)
{
    ff_status status = FF_OK;
    char *ranking = ff_path_join(ctx, folder, "ranking.json"), *timings = ff_path_join(ctx, folder, "timings.json");
    char *report = ff_path_join(ctx, folder, "report.html");
    if (ranking == NULL || timings == NULL || report == NULL)
        status = FF_ERR_MEM;
    if (status == FF_OK)
        status = ff_ranking_json_write(ctx, predictions, order, count, ranking);
    if (status == FF_OK)
        status = ff_timings_json_write(ctx, predictions, count, timings);
    if (status == FF_OK && options->report)
        status = ff_report_write(ctx, predictions, order, count, report);
    free(ranking);
    free(timings);
    free(report);
    return status;
}

ff_status ff_output_write(ff_ctx *ctx, const char *folder, const ff_prediction *predictions, int64_t count,
                          const ff_output_options *options)
{
    ff_status status = FF_OK;
    int64_t *order = malloc((size_t)(count > 0 ? count : 1) * sizeof *order);
    if (order == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory ranking predictions");
    FF_TRY_DONE(ff_output_rank(ctx, order, predictions, count));
    for (int64_t rank = 0; rank < count; rank++) {
        FF_TRY_DONE(write_rank(ctx, folder, &predictions[order[rank]], rank, options));
        if (options->raw != NULL)
            FF_TRY_DONE(write_result(ctx, folder, &predictions[order[rank]], rank, options->raw[order[rank]]));
    }
    FF_TRY_DONE(write_summaries(ctx, folder, predictions, order, count, options));
done:
    free(order);
    return status;
}

/* ---- result.h5 ---- */

static ff_status put_arrays(ff_ctx *ctx, const ff_prediction *p, ff_hdf5_writer *w)
{
    const int64_t residues[] = {p->num_res}, pairs[] = {p->num_res, p->num_res};
    const int64_t positions[] = {p->num_res, FF_NUM_ATOM37, 3};
    FF_TRY(ff_hdf5_write_int32(ctx, w, "aatype", 1, residues, p->aatype));
    FF_TRY(ff_hdf5_write_int32(ctx, w, "residue_index", 1, residues, p->residue_index));
    FF_TRY(ff_hdf5_write_float(ctx, w, "final_atom_positions", 3, positions, p->atom37_positions));
    FF_TRY(ff_hdf5_write_float(ctx, w, "final_atom_mask", 2, positions, p->atom37_mask));
    FF_TRY(ff_hdf5_write_float(ctx, w, "plddt", 1, residues, p->plddt));
    if (p->pae != NULL)
        FF_TRY(ff_hdf5_write_float(ctx, w, "predicted_aligned_error", 2, pairs, p->pae));
    if (p->contact_probability != NULL)
        FF_TRY(ff_hdf5_write_float(ctx, w, "contact_probability", 2, pairs, p->contact_probability));
    if (p->msa_depth != NULL)
        FF_TRY(ff_hdf5_write_int32(ctx, w, "msa_depth", 1, residues, p->msa_depth));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, w, "/", "sequence", p->sequence));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, w, "/", "model", p->model_name));
    FF_TRY(ff_hdf5_write_text_attribute(ctx, w, "/", "version", "fastfold " FF_VERSION));
    FF_TRY(ff_hdf5_write_number_attribute(ctx, w, "/", "seed", (double)p->seed));
    FF_TRY(ff_hdf5_write_number_attribute(ctx, w, "/", "ranking_confidence", p->ranking_confidence));
    FF_TRY(ff_hdf5_write_number_attribute(ctx, w, "/", "max_predicted_aligned_error", p->max_pae));
    return ff_hdf5_write_number_attribute(ctx, w, "/", "ptm", p->ptm);
}

ff_status ff_result_h5_write(ff_ctx *ctx, const ff_prediction *p, const ff_array_set *raw, const char *path)
{
    ff_hdf5_writer *writer = NULL;
    FF_TRY(ff_hdf5_create(ctx, &writer, path));
    ff_status status = put_arrays(ctx, p, writer);
    if (status == FF_OK && raw != NULL)
        status = ff_array_set_write(ctx, raw, writer, "/raw");
    if (status == FF_OK)
        return ff_hdf5_commit(ctx, writer);
    ff_hdf5_abandon(writer);
    return status;
}
