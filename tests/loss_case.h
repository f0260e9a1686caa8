/* loss_case.h - what the suites of losses share: a made-up protein with its ground truth, predictions and all gradients. */
#ifndef FF_TESTS_LOSS_CASE_H
#define FF_TESTS_LOSS_CASE_H

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "structure/geometry.h"
#include "structure/labels.h"
#include "structure/residue_constants.h"
#include "tensor/pool.h"
#include "tests/check.h"
#include "train/losses.h"

enum { LOSS_LAYERS = 3, LOSS_BINS = 10, LOSS_SEQ = 4, LOSS_CLASS = 23, LOSS_ARRAYS = 96, LOSS_GRADS = 16 };

/* All arrays are test memory with guards, freed by loss_case_free. */
typedef struct {
    int64_t num_res;
    float *held[LOSS_ARRAYS];
    int num_held;
    int32_t *aatype, *residue_index, *true_msa;
    float *all_atom_pos, *all_atom_mask; /* what every label is made of */
    float *seq_mask, *chi_angles, *chi_mask, *bin_edges, *breaks, *bert_mask;
    float *gt_pos, *alt_pos, *gt_exists, *alt_exists, *atom_exists, *ambiguous;
    float *gt_frames, *alt_frames, *frame_mask, *affine, *affine_mask, *beta, *beta_mask, *atom37_exists;
    float *traj[LOSS_LAYERS], *angles[LOSS_LAYERS], *raw_angles[LOSS_LAYERS];
    float *frames, *atom14, *final_pos, *distogram, *msa, *plddt, *resolved, *pae;
    /* gradients, in the order of ff_loss_grads; all of them once more in `grad` and `grad_size` */
    float *grad_traj[LOSS_LAYERS], *grad_angles[LOSS_LAYERS], *grad_raw[LOSS_LAYERS];
    float *grad[LOSS_GRADS];
    int64_t grad_size[LOSS_GRADS];
    ff_loss_inputs in;
    ff_loss_grads grads;
} loss_case;

static inline void loss_context(ff_ctx *ctx)
{
    ff_context_init(ctx);
    ctx->log.file = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(ctx, 0, false), FF_OK);
}

static inline float loss_normal(uint64_t stream, int64_t i)
{
    return ff_random_normal((ff_random_key){11, stream}, (uint64_t)i);
}

static inline float *loss_array(loss_case *c, int64_t n)
{
    CU_ASSERT_FATAL(c->num_held < LOSS_ARRAYS);
    float *x = ff_test_floats(n);
    c->held[c->num_held++] = x;
    return x;
}

static inline float *loss_random(loss_case *c, int64_t n, uint64_t stream, float scale)
{
    float *x = loss_array(c, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * loss_normal(stream, i);
    return x;
}

static inline float *loss_constant(loss_case *c, int64_t n, float value)
{
    float *x = loss_array(c, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
    return x;
}

/* A rotation near the identity (spread 0.1) or anywhere (spread large) as a unit quaternion. */
static inline void loss_quaternion(double q[4], uint64_t stream, int64_t i, double spread)
{
    double norm = 0;
    for (int k = 0; k < 4; k++) {
        q[k] = (k == 0 ? 1 : 0) + spread * (double)loss_normal(stream, 4 * i + k);
        norm += q[k] * q[k];
    }
    for (int k = 0; k < 4; k++)
        q[k] /= sqrt(norm);
}

/* Backbone frames of a loose helix, side chains at random torsions: atom14 positions [num_res, 14, 3] and chi angles. */
static inline void loss_build_atoms(loss_case *c, float *atom14)
{
    double backbone[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 5, -3, 2};
    for (int64_t i = 0; i < c->num_res; i++) {
        double step[12], next[12], torsions[7][2], frames[8][12], atoms[14][3], affine[7] = {0};
        loss_quaternion(affine, 20, i, 0.2);
        affine[1] += 0.8;
        const double norm =
            sqrt(affine[0] * affine[0] + affine[1] * affine[1] + affine[2] * affine[2] + affine[3] * affine[3]);
        for (int k = 0; k < 4; k++)
            affine[k] /= norm;
        affine[4] = 2.5;
        affine[5] = 2.5;
        ff_affine_to_rigid(step, affine, 1.0);
        ff_rigid_compose(next, backbone, step);
        memcpy(backbone, next, sizeof backbone);
        for (int k = 0; k < 7; k++) {
            const double angle = 3 * (double)loss_normal(21, 7 * i + k);
            torsions[k][0] = sin(angle);
            torsions[k][1] = cos(angle);
            if (k >= 3)
                c->chi_angles[4 * i + k - 3] = (float)angle;
        }
        ff_torsions_to_frames(frames, backbone, torsions, c->aatype[i]);
        ff_frames_to_atom14(atoms, frames, c->aatype[i]);
        for (int a = 0; a < 14; a++)
            for (int x = 0; x < 3; x++)
                atom14[(i * 14 + a) * 3 + x] = (float)atoms[a][x];
    }
}

/* Every label from all_atom_pos and all_atom_mask. */
static inline void loss_make_labels(loss_case *c)
{
    const ff_atom14_labels atoms = {c->gt_pos, c->alt_pos, c->gt_exists, c->alt_exists, c->atom_exists, c->ambiguous};
    const ff_frame_labels frames = {c->gt_frames, c->alt_frames, c->frame_mask, NULL, NULL};
    ff_make_atom14_labels(&atoms, c->aatype, c->all_atom_pos, c->all_atom_mask, c->num_res);
    ff_atom37_to_frames(&frames, c->aatype, c->all_atom_pos, c->all_atom_mask, c->num_res);
    ff_backbone_affine(c->affine, c->affine_mask, c->aatype, c->all_atom_pos, c->all_atom_mask, c->num_res);
    ff_make_pseudo_beta(c->beta, c->beta_mask, c->aatype, c->all_atom_pos, c->all_atom_mask, c->num_res);
    ff_make_atom14_masks(NULL, NULL, c->atom37_exists, NULL, c->aatype, c->num_res);
}

static inline void loss_make_truth(loss_case *c)
{
    const int64_t n = c->num_res;
    c->aatype = calloc((size_t)n, sizeof *c->aatype);
    c->residue_index = calloc((size_t)n, sizeof *c->residue_index);
    c->chi_angles = loss_array(c, 4 * n);
    c->chi_mask = loss_array(c, 4 * n);
    c->all_atom_pos = loss_constant(c, 111 * n, 0);
    c->all_atom_mask = loss_constant(c, 37 * n, 0);
    for (int64_t i = 0; i < n; i++) {
        c->aatype[i] = (int32_t)((3 + 7 * i) % 20);        /* D K W R H S ..: symmetric side chains early */
        c->residue_index[i] = (int32_t)(i + (i >= n / 2)); /* one gap */
        for (int k = 0; k < 4; k++)
            c->chi_mask[4 * i + k] = ff_chi_angles_mask[c->aatype[i]][k];
    }
    float *atom14 = loss_array(c, 42 * n);
    loss_build_atoms(c, atom14);
    for (int64_t i = 0; i < n; i++)
        for (int a = 0; a < 14; a++) {
            const int type = c->aatype[i], to = ff_restype_atom14_to_atom37[type][a];
            if (ff_restype_atom14_mask[type][a] == 0 || (i % 7 == 5 && a > 3)) /* some lack their side chain */
                continue;
            c->all_atom_mask[37 * i + to] = 1;
            memcpy(c->all_atom_pos + (37 * i + to) * 3, atom14 + (14 * i + a) * 3, 3 * sizeof *atom14);
        }
    c->gt_pos = loss_array(c, 42 * n);
    c->alt_pos = loss_array(c, 42 * n);
    c->gt_exists = loss_array(c, 14 * n);
    c->alt_exists = loss_array(c, 14 * n);
    c->atom_exists = loss_array(c, 14 * n);
    c->ambiguous = loss_array(c, 14 * n);
    c->gt_frames = loss_array(c, 96 * n);
    c->alt_frames = loss_array(c, 96 * n);
    c->frame_mask = loss_array(c, 8 * n);
    c->affine = loss_array(c, 7 * n);
    c->affine_mask = loss_array(c, n);
    c->beta = loss_array(c, 3 * n);
    c->beta_mask = loss_array(c, n);
    c->atom37_exists = loss_array(c, 37 * n);
    c->seq_mask = loss_constant(c, n, 1);
    loss_make_labels(c);
}

/* Predictions: truth, moved as one body and shaken by `noise` (Å; a tenth of it in quaternions). */
static inline void loss_make_structure(loss_case *c, float noise)
{
    const int64_t n = c->num_res;
    double q[4], body[12], affine[7] = {0}, rigid[12], p[3], moved[12];
    loss_quaternion(q, 30, 0, 1);
    memcpy(affine, q, sizeof q);
    affine[4] = 4;
    affine[6] = -7;
    ff_affine_to_rigid(body, affine, 1.0);
    c->frames = loss_array(c, 96 * n);
    c->atom14 = loss_array(c, 42 * n);
    for (int64_t g = 0; g < 8 * n; g++) {
        for (int k = 0; k < 12; k++)
            rigid[k] = (double)c->gt_frames[12 * g + k];
        ff_rigid_compose(moved, body, rigid);
        for (int k = 0; k < 12; k++)
            c->frames[12 * g + k] = (float)moved[k] + (k < 9 ? 0.1f : 1) * noise * loss_normal(31, 12 * g + k);
    }
    for (int64_t a = 0; a < 14 * n; a++) {
        double out[3];
        for (int x = 0; x < 3; x++)
            p[x] = (double)c->gt_pos[3 * a + x];
        ff_rigid_apply(out, body, p);
        for (int x = 0; x < 3; x++)
            c->atom14[3 * a + x] = (float)out[x] + noise * loss_normal(32, 3 * a + x);
    }
    for (int layer = 0; layer < LOSS_LAYERS; layer++) {
        c->traj[layer] = loss_array(c, 7 * n);
        c->angles[layer] = loss_array(c, 14 * n);
        c->raw_angles[layer] = loss_random(c, 14 * n, 40 + (uint64_t)layer, 1);
        for (int64_t i = 0; i < n; i++) {
            for (int k = 0; k < 12; k++)
                rigid[k] = (double)c->gt_frames[96 * i + k];
            ff_rigid_compose(moved, body, rigid);
            ff_rot_to_quat(q, moved);
            for (int k = 0; k < 7; k++)
                c->traj[layer][7 * i + k] = (float)(k < 4 ? q[k] : moved[9 + k - 4]) +
                                            (k < 4 ? 0.1f : 1) * noise * loss_normal(33 + (uint64_t)layer, 7 * i + k);
            for (int k = 0; k < 7; k++) {
                const float *raw = c->raw_angles[layer] + 14 * i + 2 * k;
                const float norm = sqrtf(raw[0] * raw[0] + raw[1] * raw[1]);
                c->angles[layer][14 * i + 2 * k] = raw[0] / norm;
                c->angles[layer][14 * i + 2 * k + 1] = raw[1] / norm;
            }
        }
    }
    c->final_pos = loss_constant(c, 111 * n, 0);
    for (int64_t i = 0; i < n; i++)
        for (int x = 0; x < 3; x++)
            c->final_pos[(37 * i + FF_ATOM_CA) * 3 + x] = c->atom14[(14 * i + 1) * 3 + x];
}

static inline void loss_make_heads(loss_case *c)
{
    const int64_t n = c->num_res;
    c->distogram = loss_random(c, n * n * LOSS_BINS, 50, 2);
    c->pae = loss_random(c, n * n * LOSS_BINS, 51, 2);
    c->msa = loss_random(c, LOSS_SEQ * n * LOSS_CLASS, 52, 2);
    c->plddt = loss_random(c, n * LOSS_BINS, 53, 2);
    c->resolved = loss_random(c, 37 * n, 54, 2);
    c->bert_mask = loss_array(c, LOSS_SEQ * n);
    c->true_msa = calloc((size_t)(LOSS_SEQ * n), sizeof *c->true_msa);
    for (int64_t i = 0; i < LOSS_SEQ * n; i++) {
        c->bert_mask[i] = i % 3 == 0 ? 1 : 0;
        c->true_msa[i] = (int32_t)(5 * i % LOSS_CLASS);
    }
    c->bin_edges = loss_array(c, LOSS_BINS - 1);
    c->breaks = loss_array(c, LOSS_BINS - 1);
    for (int k = 0; k < LOSS_BINS - 1; k++) {
        c->bin_edges[k] = 2.3125f + 2.4f * (float)k;
        c->breaks[k] = 31.0f / (LOSS_BINS - 2) * (float)k;
    }
}

static inline float *loss_gradient(loss_case *c, int *at, int64_t size)
{
    c->grad[*at] = loss_constant(c, size, 0);
    c->grad_size[*at] = size;
    return c->grad[(*at)++];
}

static inline void loss_make_gradients(loss_case *c)
{
    const int64_t n = c->num_res;
    int at = 0;
    for (int layer = 0; layer < LOSS_LAYERS; layer++) {
        c->grad_traj[layer] = loss_gradient(c, &at, 7 * n);
        c->grad_angles[layer] = loss_gradient(c, &at, 14 * n);
        c->grad_raw[layer] = loss_gradient(c, &at, 14 * n);
    }
    c->grads = (ff_loss_grads){.traj = c->grad_traj, .angles = c->grad_angles, .unnormalized_angles = c->grad_raw};
    c->grads.frames = loss_gradient(c, &at, 96 * n);
    c->grads.atom14_pos = loss_gradient(c, &at, 42 * n);
    c->grads.distogram_logits = loss_gradient(c, &at, n * n * LOSS_BINS);
    c->grads.masked_msa_logits = loss_gradient(c, &at, LOSS_SEQ * n * LOSS_CLASS);
    c->grads.plddt_logits = loss_gradient(c, &at, n * LOSS_BINS);
    c->grads.resolved_logits = loss_gradient(c, &at, 37 * n);
    c->grads.pae_logits = loss_gradient(c, &at, n * n * LOSS_BINS);
    CU_ASSERT_EQUAL_FATAL(at, LOSS_GRADS);
}

static inline void loss_point_inputs(loss_case *c)
{
    const int64_t n = c->num_res;
    c->in = (ff_loss_inputs){
        .backbone = {LOSS_LAYERS, n, (const float *const *)c->traj, c->affine, c->affine_mask, 0.9},
        .sidechain = {.num_res = n, .frames = c->frames, .atom14_pos = c->atom14, .frame_mask = c->frame_mask},
        .renaming = {n, c->atom14, c->gt_pos, c->alt_pos, c->gt_exists, c->alt_exists, c->ambiguous, c->gt_frames,
                     c->alt_frames},
        .torsion = {LOSS_LAYERS, n, (const float *const *)c->angles, (const float *const *)c->raw_angles, c->aatype,
                    c->chi_angles, c->chi_mask, c->seq_mask},
        .violation = {n, c->atom14, c->atom_exists, c->aatype, c->residue_index, c->seq_mask},
        .distogram = {n, LOSS_BINS, c->distogram, c->bin_edges, c->beta, c->beta_mask, {0, 0}},
        .masked_msa = {LOSS_SEQ, n, LOSS_CLASS, c->msa, c->true_msa, c->bert_mask, {0, 0}},
        .plddt = {n, LOSS_BINS, c->plddt, c->final_pos, c->all_atom_pos, c->all_atom_mask, 2.0},
        .resolved = {n, c->resolved, c->all_atom_mask, c->atom37_exists, 2.0},
        .pae = {n, LOSS_BINS, c->pae, c->breaks, c->traj[LOSS_LAYERS - 1], c->affine, c->affine_mask, 2.0, {0, 0}},
    };
}

/** A protein of num_res residues whose prediction is off by about `noise` Å after superposition. */
static inline void loss_case_make(loss_case *c, int64_t num_res, float noise)
{
    memset(c, 0, sizeof *c);
    c->num_res = num_res;
    loss_make_truth(c);
    loss_make_structure(c, noise);
    loss_make_heads(c);
    loss_make_gradients(c);
    loss_point_inputs(c);
}

static inline void loss_case_clear_gradients(loss_case *c)
{
    for (int k = 0; k < LOSS_GRADS; k++)
        memset(c->grad[k], 0, (size_t)c->grad_size[k] * sizeof(float));
}

static inline void loss_case_free(loss_case *c)
{
    for (int k = 0; k < c->num_held; k++)
        ff_test_free(c->held[k]);
    free(c->aatype);
    free(c->residue_index);
    free(c->true_msa);
    memset(c, 0, sizeof *c);
}

#endif
