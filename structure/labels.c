#include "structure/labels.h"

#include <string.h>

#include "structure/geometry.h"
#include "structure/residue_constants.h"

enum { ATOMS = FF_NUM_ATOM37, GROUPS = FF_NUM_GROUPS, TORSIONS = FF_NUM_TORSIONS };

static void load3(double out[3], const float *positions, int atom)
{
    for (int i = 0; i < 3; i++)
        out[i] = positions[3 * atom + i];
}

static void add3(float *grad, int atom, const double g[3])
{
    for (int i = 0; i < 3; i++)
        grad[3 * atom + i] += (float)g[i];
}

/* ---- frames ---- */

/* Atoms of a group's frame: on -x, origin, in xy. A group without has atom 0 three times. */
static void frame_atoms(int atoms[3], int aatype, int group)
{
    for (int i = 0; i < 3; i++) {
        const int a = ff_restype_rigid_group_base_atom37[aatype][group][i];
        atoms[i] = a < 0 ? 0 : a;
    }
}

/* Signs of the columns: the backbone's x and z point the other way; alternatives are turned by pi about x. */
static double column_sign(int aatype, int group, bool alternative, int column)
{
    double sign = group == 0 && column != 1 ? -1 : 1;
    if (alternative && ff_restype_rigid_group_is_ambiguous[aatype][group] > 0 && column != 0)
        sign = -sign;
    return sign;
}

static void store_frame(float *out, const double frame[12], int aatype, int group, bool alternative)
{
    if (out == NULL)
        return;
    for (int i = 0; i < 9; i++)
        out[i] = (float)(frame[i] * column_sign(aatype, group, alternative, i % 3));
    for (int i = 9; i < 12; i++)
        out[i] = (float)frame[i];
}

static float *at(float *base, int64_t index) { return base == NULL ? NULL : base + index; }
static const float *at_const(const float *base, int64_t index) { return base == NULL ? NULL : base + index; }

static void store(float *base, int64_t index, float value)
{
    if (base != NULL)
        base[index] = value;
}

void ff_atom37_to_frames(const ff_frame_labels *out, const int32_t *aatype, const float *all_atom_positions,
                         const float *all_atom_mask, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++) {
        const float *x = all_atom_positions + r * ATOMS * 3, *m = all_atom_mask + r * ATOMS;
        for (int g = 0; g < GROUPS; g++) {
            const int64_t k = r * GROUPS + g;
            int atoms[3];
            double p[3][3], frame[12];
            frame_atoms(atoms, aatype[r], g);
            float exists = ff_restype_rigid_group_mask[aatype[r]][g];
            store(out->group_exists, k, exists);
            store(out->group_is_ambiguous, k, ff_restype_rigid_group_is_ambiguous[aatype[r]][g]);
            for (int i = 0; i < 3; i++) {
                load3(p[i], x, atoms[i]);
                exists = m[atoms[i]] > 0.0f ? exists : 0.0f;
            }
            store(out->gt_exists, k, exists);
            ff_rigid_from_3_points(frame, p[0], p[1], p[2], FF_FRAME_EPSILON);
            store_frame(at(out->gt_frames, 12 * k), frame, aatype[r], g, false);
            store_frame(at(out->alt_gt_frames, 12 * k), frame, aatype[r], g, true);
        }
    }
}

static void add_frame_grad(double grad[12], const float *g, int aatype, int group, bool alternative)
{
    for (int i = 0; i < 12 && g != NULL; i++)
        grad[i] += g[i] * (i < 9 ? column_sign(aatype, group, alternative, i % 3) : 1);
}

void ff_atom37_to_frames_backward(float *grad_positions, const float *grad_gt_frames, const float *grad_alt_gt_frames,
                                  const int32_t *aatype, const float *all_atom_positions, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++)
        for (int g = 0; g < GROUPS; g++) {
            const int64_t k = 12 * (r * GROUPS + g);
            int atoms[3];
            double p[3][3], grad[12] = {0}, grad_p[3][3] = {{0}};
            frame_atoms(atoms, aatype[r], g);
            for (int i = 0; i < 3; i++)
                load3(p[i], all_atom_positions + r * ATOMS * 3, atoms[i]);
            add_frame_grad(grad, at_const(grad_gt_frames, k), aatype[r], g, false);
            add_frame_grad(grad, at_const(grad_alt_gt_frames, k), aatype[r], g, true);
            ff_rigid_from_3_points_backward(grad_p[0], grad_p[1], grad_p[2], grad, p[0], p[1], p[2], FF_FRAME_EPSILON);
            for (int i = 0; i < 3; i++)
                add3(grad_positions + r * ATOMS * 3, atoms[i], grad_p[i]);
        }
}

/* ---- torsions ---- */

/* One atom of a torsion: `back` 1 = of the residue before. */
typedef struct {
    int atom, back;
} torsion_atom;

static void torsion_atoms(torsion_atom atoms[4], int aatype, int torsion)
{
    static const torsion_atom backbone[3][4] = {
        {{FF_ATOM_CA, 1}, {FF_ATOM_C, 1}, {FF_ATOM_N, 0}, {FF_ATOM_CA, 0}}, /* omega of the bond before */
        {{FF_ATOM_C, 1}, {FF_ATOM_N, 0}, {FF_ATOM_CA, 0}, {FF_ATOM_C, 0}},  /* phi */
        {{FF_ATOM_N, 0}, {FF_ATOM_CA, 0}, {FF_ATOM_C, 0}, {FF_ATOM_O, 0}},  /* psi, from O: opposite to N */
    };
    for (int i = 0; i < 4; i++)
        atoms[i] = torsion < 3 ? backbone[torsion][i]
                               : (torsion_atom){ff_chi_angles_atom_indices[aatype][torsion - 3][i], 0};
}

/* Before residue 0 everything is 0. */
static void load_torsion(double p[4][3], const torsion_atom atoms[4], const float *positions, int64_t r)
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            p[i][k] = r < atoms[i].back ? 0 : positions[((r - atoms[i].back) * ATOMS + atoms[i].atom) * 3 + k];
}

static float torsion_mask(const torsion_atom atoms[4], const float *mask, int aatype, int torsion, int64_t r)
{
    float m = torsion < 3 ? 1.0f : ff_chi_angles_mask[aatype][torsion - 3];
    for (int i = 0; i < 4; i++)
        m *= r < atoms[i].back ? 0.0f : mask[(r - atoms[i].back) * ATOMS + atoms[i].atom];
    return m;
}

/* Signs of (sin, cos): psi is measured from O; an alternative pi-periodic chi is turned by pi. */
static double torsion_sign(int aatype, int torsion, bool alternative)
{
    const bool turned = alternative && torsion >= 3 && ff_chi_pi_periodic[aatype][torsion - 3] > 0;
    return (torsion == 2) != turned ? -1 : 1;
}

void ff_atom37_to_torsion_angles(float *sin_cos, float *alt_sin_cos, float *mask, const int32_t *aatype,
                                 const float *all_atom_positions, const float *all_atom_mask, bool placeholder,
                                 int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++)
        for (int t = 0; t < TORSIONS; t++) {
            const int64_t k = r * TORSIONS + t;
            const int type = aatype[r] < FF_AATYPE_X ? aatype[r] : FF_AATYPE_X;
            torsion_atom atoms[4];
            double p[4][3], angle[2];
            torsion_atoms(atoms, type, t);
            load_torsion(p, atoms, all_atom_positions, r);
            ff_dihedral(angle, p);
            const float defined = torsion_mask(atoms, all_atom_mask, type, t, r);
            store(mask, k, defined);
            const bool replaced = placeholder && defined == 0.0f;
            for (int i = 0; i < 2; i++) {
                store(sin_cos, 2 * k + i, replaced ? (float)(1 - i) : (float)(torsion_sign(type, t, false) * angle[i]));
                store(alt_sin_cos, 2 * k + i, replaced ? (float)(1 - i) : (float)(torsion_sign(type, t, true) * angle[i]));
            }
        }
}

void ff_atom37_to_torsion_angles_backward(float *grad_positions, const float *grad_sin_cos, const float *grad_alt_sin_cos,
                                          const int32_t *aatype, const float *all_atom_positions,
                                          const float *all_atom_mask, bool placeholder, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++)
        for (int t = 0; t < TORSIONS; t++) {
            const int64_t k = r * TORSIONS + t;
            const int type = aatype[r] < FF_AATYPE_X ? aatype[r] : FF_AATYPE_X;
            torsion_atom atoms[4];
            double p[4][3], g[2], grad_p[4][3] = {{0}};
            torsion_atoms(atoms, type, t);
            if (placeholder && torsion_mask(atoms, all_atom_mask, type, t, r) == 0.0f)
                continue;
            load_torsion(p, atoms, all_atom_positions, r);
            for (int i = 0; i < 2; i++) {
                g[i] = grad_sin_cos == NULL ? 0 : torsion_sign(type, t, false) * grad_sin_cos[2 * k + i];
                g[i] += grad_alt_sin_cos == NULL ? 0 : torsion_sign(type, t, true) * grad_alt_sin_cos[2 * k + i];
            }
            ff_dihedral_backward(grad_p, g, p);
            for (int i = 0; i < 4; i++)
                if (r >= atoms[i].back)
                    add3(grad_positions + (r - atoms[i].back) * ATOMS * 3, atoms[i].atom, grad_p[i]);
        }
}

/* ---- atoms ---- */

void ff_make_atom14_labels(const ff_atom14_labels *out, const int32_t *aatype, const float *all_atom_positions,
                           const float *all_atom_mask, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++)
        for (int a = 0; a < FF_NUM_ATOM14; a++) {
            const int64_t k = r * FF_NUM_ATOM14 + a;
            const int type = aatype[r], other = ff_restype_atom14_renaming[type][a];
            const int from[2] = {ff_restype_atom14_to_atom37[type][a], ff_restype_atom14_to_atom37[type][other]};
            float *const positions[2] = {out->gt_positions, out->alt_gt_positions};
            float *const exists[2] = {out->gt_exists, out->alt_gt_exists};
            const int slot[2] = {a, other};
            store(out->atom_exists, k, ff_restype_atom14_mask[type][a]);
            store(out->atom_is_ambiguous, k, ff_restype_atom14_is_ambiguous[type][a]);
            for (int v = 0; v < 2; v++) {
                const int64_t source = r * ATOMS + from[v];
                const float m = ff_restype_atom14_mask[type][slot[v]] * all_atom_mask[source];
                store(exists[v], k, m);
                for (int i = 0; i < 3; i++)
                    store(positions[v], 3 * k + i, m * all_atom_positions[3 * source + i]);
            }
        }
}

void ff_make_pseudo_beta(float *positions, float *mask, const int32_t *aatype, const float *all_atom_positions,
                    const float *all_atom_mask, int64_t num_res)
{
    enum { GLYCINE = 7 };
    for (int64_t r = 0; r < num_res; r++) {
        const int64_t source = r * ATOMS + (aatype[r] == GLYCINE ? FF_ATOM_CA : FF_ATOM_CB);
        memcpy(positions + 3 * r, all_atom_positions + 3 * source, 3 * sizeof(float));
        if (mask != NULL)
            mask[r] = all_atom_mask[source];
    }
}

void ff_backbone_affine(float *affine, float *mask, const int32_t *aatype, const float *all_atom_positions,
                        const float *all_atom_mask, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++) {
        int atoms[3];
        double p[3][3], frame[12], q[4] = {1, 0, 0, 0};
        float exists = ff_restype_rigid_group_mask[aatype[r]][0];
        frame_atoms(atoms, aatype[r], 0);
        for (int i = 0; i < 3; i++) {
            load3(p[i], all_atom_positions + r * ATOMS * 3, atoms[i]);
            exists *= all_atom_mask[r * ATOMS + atoms[i]];
        }
        mask[r] = exists;
        if (exists > 0) {
            ff_rigid_from_3_points(frame, p[0], p[1], p[2], FF_FRAME_EPSILON);
            for (int i = 0; i < 9; i++)
                frame[i] *= column_sign(aatype[r], 0, false, i % 3);
            ff_rot_to_quat(q, frame);
        }
        for (int i = 0; i < 4; i++)
            affine[7 * r + i] = (float)q[i];
        for (int i = 0; i < 3; i++)
            affine[7 * r + 4 + i] = (float)p[1][i];
    }
}

void ff_make_atom14_masks(float *atom14_atom_exists, int32_t *residx_atom14_to_atom37, float *atom37_atom_exists,
                          int32_t *residx_atom37_to_atom14, const int32_t *aatype, int64_t num_res)
{
    for (int64_t r = 0; r < num_res; r++) {
        const int type = aatype[r];
        for (int a = 0; a < FF_NUM_ATOM14; a++) {
            store(atom14_atom_exists, r * FF_NUM_ATOM14 + a, ff_restype_atom14_mask[type][a]);
            if (residx_atom14_to_atom37 != NULL)
                residx_atom14_to_atom37[r * FF_NUM_ATOM14 + a] = ff_restype_atom14_to_atom37[type][a];
        }
        for (int a = 0; a < ATOMS; a++) {
            store(atom37_atom_exists, r * ATOMS + a, ff_restype_atom37_mask[type][a]);
            if (residx_atom37_to_atom14 != NULL)
                residx_atom37_to_atom14[r * ATOMS + a] = ff_restype_atom37_to_atom14[type][a];
        }
    }
}
