#include "infer/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "infer/json_writer.h"
#include "infer/report_page.h"
#include "infer/write_json.h"
#include "io/safe_file.h"
#include "structure/residue_constants.h"

typedef struct {
    const ff_prediction *predictions;
    const int64_t *order;
    int64_t count;
    uint8_t *bytes; /* of the map being written: [FF_REPORT_MAX_SIDE, FF_REPORT_MAX_SIDE], or the packed coverage */
} report;

/* Mean of the pairs in square (row, column) of a map of `step` residues a side. */
static double square_mean(const float *pairs, int64_t num_res, int64_t step, int64_t row, int64_t column)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = row * step; i < (row + 1) * step && i < num_res; i++) {
        for (int64_t j = column * step; j < (column + 1) * step && j < num_res; j++, count++)
            sum += pairs[i * num_res + j];
    }
    return sum / (double)count;
}

/* Values 0..top as bytes 0..255; residues a side of a square, and squares a side. */
static void put_map(ff_json *json, const char *key, const float *pairs, int64_t num_res, double top, uint8_t *bytes)
{
    const int64_t step = (num_res + FF_REPORT_MAX_SIDE - 1) / FF_REPORT_MAX_SIDE;
    const int64_t side = (num_res + step - 1) / step;
    double sum = 0;
    for (int64_t k = 0; k < num_res * num_res; k++)
        sum += pairs[k];
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++) {
            const double value = step == 1 ? pairs[i * num_res + j] : square_mean(pairs, num_res, step, i, j);
            bytes[i * side + j] = (uint8_t)lrint(255 * fmin(fmax(value / top, 0.0), 1.0));
        }
    }
    ff_json_object_begin(json, key);
    ff_json_integer(json, "side", side);
    ff_json_integer(json, "step", step);
    ff_json_number(json, "max", top, 4);
    ff_json_number(json, "mean", sum / (double)(num_res * num_res), 4);
    ff_json_base64(json, "bytes", bytes, side * side);
    ff_json_object_end(json);
}

/* Coverage as bits, lowest bit first. */
static void put_msa(ff_json *json, const ff_prediction *p, uint8_t *bytes)
{
    const int64_t cells = p->num_coverage * p->num_res, size = (cells + 7) / 8;
    memset(bytes, 0, (size_t)size);
    for (int64_t k = 0; k < cells; k++)
        bytes[k / 8] |= (uint8_t)((p->coverage[k] != 0) << (k % 8));
    ff_json_object_begin(json, "msa");
    ff_json_integer(json, "num", p->num_msa);
    ff_json_integer(json, "rows", p->num_coverage);
    ff_json_integers(json, "depth", p->msa_depth, p->num_res);
    ff_json_floats(json, "identity", p->coverage_identity, p->num_coverage, 3);
    ff_json_base64(json, "bytes", bytes, size);
    ff_json_object_end(json);
}

static void put_residues(ff_json *json, const ff_prediction *p)
{
    ff_json_array_begin(json, "numbers");
    for (int64_t i = 0; i < p->num_res; i++)
        ff_json_integer(json, NULL, (int64_t)p->residue_index[i] + 1);
    ff_json_array_end(json);
    ff_json_floats(json, "plddt", p->plddt, p->num_res, 2);
    ff_json_array_begin(json, "ca");
    for (int64_t i = 0; i < p->num_res; i++) {
        const int64_t ca = i * FF_NUM_ATOM37 + FF_ATOM_CA;
        for (int k = 0; k < 3; k++)
            ff_json_number(json, NULL, p->atom37_mask[ca] >= 0.5f ? p->atom37_positions[ca * 3 + k] : (float)NAN, 2);
    }
    ff_json_array_end(json);
}

static void put_lists(ff_json *json, const report *r, const ff_prediction *p)
{
    char key[FF_PREDICTION_KEY_BYTES];
    ff_json_array_begin(json, "history");
    for (int64_t k = 0; k < p->num_history; k++) {
        ff_json_object_begin(json, NULL);
        ff_json_number(json, "mean_plddt", p->history[k].mean_plddt, 4);
        ff_json_number(json, "ptm", p->history[k].ptm, 5);
        ff_json_number(json, "ca_change", p->history[k].ca_change_ang, 4);
        ff_json_number(json, "seconds", p->history[k].seconds, 4);
        ff_json_object_end(json);
    }
    ff_json_array_end(json);
    ff_json_array_begin(json, "timings");
    for (int64_t k = 0; k < p->num_timings; k++) {
        ff_json_object_begin(json, NULL);
        ff_json_text(json, "name", p->timings[k].name);
        ff_json_number(json, "seconds", p->timings[k].seconds, 4);
        ff_json_object_end(json);
    }
    ff_json_array_end(json);
    ff_json_array_begin(json, "notes");
    for (int64_t k = 0; k < p->num_notes; k++)
        ff_json_text(json, NULL, p->notes[k]);
    ff_json_array_end(json);
    ff_json_array_begin(json, "ranking");
    for (int64_t k = 0; k < r->count; k++) {
        const ff_prediction *ranked = &r->predictions[r->order[k]];
        ff_json_object_begin(json, NULL);
        ff_json_text(json, "key", ff_prediction_key(key, ranked));
        ff_json_number(json, "mean_plddt", ff_prediction_mean_plddt(ranked), 4);
        ff_json_number(json, "ptm", ranked->ptm, 5);
        ff_json_number(json, "confidence", ranked->ranking_confidence, 5);
        ff_json_object_end(json);
    }
    ff_json_array_end(json);
}

static void put_data(FILE *file, const report *r)
{
    const ff_prediction *p = &r->predictions[r->order[0]];
    char seed[32];
    ff_json json;
    ff_json_begin(&json, file, true);
    ff_json_object_begin(&json, NULL);
    ff_json_text(&json, "name", p->name);
    ff_json_text(&json, "model", p->model_name);
    snprintf(seed, sizeof seed, "%" PRIu64, p->seed); /* JavaScript's numbers end at 2^53 */
    ff_json_text(&json, "seed", seed);
    ff_json_text(&json, "version", "FastFold in C " FF_VERSION);
    ff_json_text(&json, "sequence", p->sequence);
    ff_json_number(&json, "mean_plddt", ff_prediction_mean_plddt(p), 4);
    ff_json_number(&json, "ptm", p->ptm, 5);
    put_residues(&json, p);
    if (p->pae != NULL)
        put_map(&json, "pae", p->pae, p->num_res, p->max_pae, r->bytes);
    if (p->contact_probability != NULL)
        put_map(&json, "contacts", p->contact_probability, p->num_res, 1.0, r->bytes);
    if (p->coverage != NULL)
        put_msa(&json, p, r->bytes);
    put_lists(&json, r, p);
    ff_json_object_end(&json);
    ff_json_end(&json);
}

static ff_status write_report(ff_ctx *ctx, FILE *file, const void *arg)
{
    static const char mark[] = "@DATA@";
    const char *at = strstr(ff_report_page, mark);
    (void)ctx;
    fwrite(ff_report_page, 1, (size_t)(at - ff_report_page), file);
    put_data(file, arg);
    fputs(at + sizeof mark - 1, file);
    return FF_OK;
}

ff_status ff_report_write(ff_ctx *ctx, const ff_prediction *predictions, const int64_t *order, int64_t count,
                          const char *path)
{
    const ff_prediction *p = &predictions[order[0]];
    FF_TRY(ff_prediction_check(ctx, p));
    const int64_t side = p->num_res < FF_REPORT_MAX_SIDE ? p->num_res : FF_REPORT_MAX_SIDE;
    const int64_t map = side * side, coverage = (p->num_coverage * p->num_res + 7) / 8;
    report r = {predictions, order, count, malloc((size_t)(map > coverage ? map : coverage))};
    if (r.bytes == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    const ff_status status = ff_safe_file_write(ctx, path, write_report, &r);
    free(r.bytes);
    return status;
}
