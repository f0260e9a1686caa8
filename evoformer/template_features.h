/* template_features.h - geometry of templates: channels of residue pairs and torsion angles, computed on the host in
 * double precision (undefined torsions are differences of equal numbers, which float32 turns into noise of unit length). */
#ifndef FF_EVOFORMER_TEMPLATE_FEATURES_H
#define FF_EVOFORMER_TEMPLATE_FEATURES_H

#include "evoformer/embedders.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FF_TEMPLATE_AATYPE = 22,        /* one-hot classes; 20 unknown, 21 gap */
    FF_TORSIONS = 7,                /* pre_omega, phi, psi, chi1..4 */
    FF_TEMPLATE_TORSION_FEAT = 57   /* one-hot 22, sin/cos 14, alternative sin/cos 14, masks 7 */
};

/* One template; host memory, borrowed. */
typedef struct {
    int64_t num_res;
    const int32_t *aatype;         /* [num_res], 0..21 */
    const float *positions;        /* [num_res, 37, 3], Angstrom; 0 where an atom is absent */
    const float *atom_mask;        /* [num_res, 37] */
    const float *pseudo_beta;      /* [num_res, 3], Angstrom */
    const float *pseudo_beta_mask; /* [num_res] */
    bool placeholder; /* undefined torsions are (sin 1, cos 0); else what their zero coordinates give (released AlphaFold) */
} ff_template;

/** Channels of a residue pair: bins + 49 (88 with the usual 39 bins). */
int64_t ff_template_pair_channels(const ff_dgram_config *dgram);

/**
 * Rows i0 .. i1 - 1 of the pair features, [(i1 - i0) * num_res, channels]: distogram of pseudo-beta, mask of both
 * pseudo-betas, one-hot aatype of j, of i, unit vector from i to j in the backbone frame of i (zeros unless asked for),
 * mask of both backbones; all times the last one.
 */
void ff_template_pair_features(float *features, const ff_template *t, const ff_dgram_config *dgram, bool unit_vector,
                               int64_t i0, int64_t i1);

/**
 * Torsion angles as (sin, cos) with their alternative (chi that look the same after half a turn are negated) and masks,
 * after one-hot aatype.
 *
 * @param features          [num_res, 57]; the last 7 are the masks
 * @param well_conditioned  [num_res, 7], 0 where three atoms on a line (or two in one place) leave the angle undefined
 *                          although they are not all absent; may be NULL
 */
void ff_template_torsion_features(float *features, float *well_conditioned, const ff_template *t);

#ifdef __cplusplus
}
#endif
#endif
