/* prediction.h - one finished prediction, as everything that writes files takes it: plain C arrays in host memory.
 *
 * The struct owns its arrays. ff_prediction_create makes those that every prediction has, filled with zeros; the
 * optional ones are made by the functions below and are NULL otherwise. */
#ifndef FF_INFER_PREDICTION_H
#define FF_INFER_PREDICTION_H

#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One pass through the model. */
typedef struct {
    double mean_plddt;    /* 0..100 */
    double ptm;           /* 0..1; NaN without the head */
    double ca_change_ang; /* RMS change of the distances between CA atoms since the pass before; NaN for the first */
    double seconds;
} ff_recycle_record;

typedef struct {
    char name[32]; /* "features", "evoformer", ... */
    double seconds;
} ff_timing;

typedef struct {
    char *name;        /* the target's name: its header's text, any bytes */
    char *model_name;  /* "model_1_ptm" */
    uint64_t seed;
    char *sequence;    /* [num_res] one-letter codes, as predicted */
    int64_t num_res;
    int32_t *aatype;        /* [num_res] 0..20, from the sequence */
    int32_t *residue_index; /* [num_res] as in AlphaFold's features, from 0: files say residue_index + 1 */

    float *atom37_positions; /* [num_res, 37, 3] Å */
    float *atom37_mask;      /* [num_res, 37] 1 = the residue has this atom */
    float *plddt;            /* [num_res] 0..100 */
    double ranking_confidence; /* larger is better: mean pLDDT, or pTM with that head */

    float *pae;     /* [num_res, num_res] Å, aligned on the first index; or NULL */
    double max_pae; /* upper end of the last bin, 31.75 Å in AlphaFold; 0 without pae */
    double ptm;     /* 0..1; NaN without the head */

    float *contact_probability; /* [num_res, num_res] P(CB-CB distance < 8 Å); or NULL */

    int64_t num_msa;         /* rows the MSA had, with the query; 0 = not known */
    int32_t *msa_depth;      /* [num_res] rows that have a residue here; or NULL */
    int64_t num_coverage;    /* rows kept of the next two, most similar to the query first */
    uint8_t *coverage;       /* [num_coverage, num_res] 1 = this row has a residue here; or NULL */
    float *coverage_identity; /* [num_coverage] share of a row's residues that equal the query's */

    ff_recycle_record *history; /* [num_history] */
    int64_t num_history;
    ff_timing *timings; /* [num_timings] in order */
    int64_t num_timings;
    char **notes; /* [num_notes] what a reader must know: "no MSA: ..." */
    int64_t num_notes;
} ff_prediction;

enum { FF_MAX_COVERAGE_ROWS = 400 };

/**
 * A prediction of a sequence: aatype from its letters (any other letter is X), residue_index 0, 1, ..., ptm NaN.
 * @return FF_ERR_ARG for an empty sequence; FF_ERR_MEM. The struct is safe to destroy in every case.
 */
ff_status ff_prediction_create(ff_ctx *ctx, ff_prediction *prediction, const char *name, const char *sequence,
                               const char *model_name, uint64_t seed);
void ff_prediction_destroy(ff_prediction *prediction);

/** Take a copy of predicted aligned errors [num_res, num_res]. */
ff_status ff_prediction_set_pae(ff_ctx *ctx, ff_prediction *prediction, const float *pae, double max_pae);

/**
 * Contact probabilities from the distogram: what its bins up to 8 Å hold (ff_contact_probabilities).
 *
 * @param logits     [num_res, num_res, num_bins]
 * @param bin_edges  [num_bins - 1] Å, rising (AlphaFold: 63 from 2.3125 to 21.6875)
 */
ff_status ff_prediction_set_contacts(ff_ctx *ctx, ff_prediction *prediction, const float *logits, int64_t num_bins,
                                     const float *bin_edges);

/**
 * Depth and coverage from the alignment. At most FF_MAX_COVERAGE_ROWS rows are kept for the picture, evenly over the
 * rows in order of identity.
 *
 * @param msa  [num_rows, num_res] MSA codes, 21 = gap; row 0 is the query
 */
ff_status ff_prediction_set_msa(ff_ctx *ctx, ff_prediction *prediction, const int8_t *msa, int64_t num_rows);

ff_status ff_prediction_add_pass(ff_ctx *ctx, ff_prediction *prediction, const ff_recycle_record *record);
ff_status ff_prediction_add_timing(ff_ctx *ctx, ff_prediction *prediction, const char *name, double seconds);
ff_status ff_prediction_add_note(ff_ctx *ctx, ff_prediction *prediction, const char *note);

/** Mean over the residues, 0..100. */
double ff_prediction_mean_plddt(const ff_prediction *prediction);

/**
 * Whether it can be written: sizes, codes, rising residue numbers, finite positions of all atoms the mask names,
 * pLDDT in 0..100, finite errors. FF_ERR_ARG names the first residue and atom that is wrong.
 */
ff_status ff_prediction_check(ff_ctx *ctx, const ff_prediction *prediction);

#ifdef __cplusplus
}
#endif
#endif
