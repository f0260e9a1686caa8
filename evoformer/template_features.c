/* Contents: vectors; pair features; torsion angles. */
#include "evoformer/template_features.h"

#include <math.h>
#include <string.h>

enum { ATOM_N = 0, ATOM_CA = 1, ATOM_C = 2, ATOM_O = 4 };

/* ---- vectors ---- */

typedef struct {
    double x, y, z;
} vec;

static vec sub(vec a, vec b) { return (vec){a.x - b.x, a.y - b.y, a.z - b.z}; }
static double dot(vec a, vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static vec scaled(vec a, double f) { return (vec){a.x * f, a.y * f, a.z * f}; }
static vec cross(vec a, vec b)
{
    return (vec){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
static vec normalized(vec a, double epsilon) { return scaled(a, 1.0 / sqrt(dot(a, a) + epsilon)); }

static vec atom(const ff_template *t, int64_t residue, int a)
{
    if (residue < 0)
        return (vec){0, 0, 0};
    const float *p = t->positions + (residue * FF_ATOM37 + a) * 3;
    return (vec){p[0], p[1], p[2]};
}

static double atom_mask(const ff_template *t, int64_t residue, int a)
{
    return residue < 0 ? 0.0 : (double)t->atom_mask[residue * FF_ATOM37 + a];
}

/* A frame: x axis along `axis`, xy plane through `plane` (both from the origin). */
typedef struct {
    vec e0, e1, e2;
} frame;

static frame make_frame(vec axis, vec plane, double epsilon)
{
    frame f;
    f.e0 = normalized(axis, epsilon);
    f.e1 = normalized(sub(plane, scaled(f.e0, dot(f.e0, plane))), epsilon);
    f.e2 = cross(f.e0, f.e1);
    return f;
}

static vec into_frame(const frame *f, vec p) { return (vec){dot(f->e0, p), dot(f->e1, p), dot(f->e2, p)}; }

/* ---- pair features ---- */

enum { CHANNELS_BESIDES_BINS = 1 + 2 * FF_TEMPLATE_AATYPE + 3 + 1 };

int64_t ff_template_pair_channels(const ff_dgram_config *dgram) { return dgram->num_bins + CHANNELS_BESIDES_BINS; }

static double backbone_mask(const ff_template *t, int64_t i)
{
    return atom_mask(t, i, ATOM_N) * atom_mask(t, i, ATOM_CA) * atom_mask(t, i, ATOM_C);
}

static void one_hot(float *to, int32_t type, double value)
{
    if (type >= 0 && type < FF_TEMPLATE_AATYPE)
        to[type] = (float)value;
}

void ff_template_pair_features(float *features, const ff_template *t, const ff_dgram_config *dgram, bool unit_vector,
                               int64_t i0, int64_t i1)
{
    const double frame_epsilon = 1e-20, vector_epsilon = 1e-6; /* alphafold/model: quat_affine, modules (template) */
    const int64_t channels = ff_template_pair_channels(dgram), num_res = t->num_res;
    memset(features, 0, (size_t)((i1 - i0) * num_res * channels) * sizeof *features);
    for (int64_t i = i0; i < i1; i++) {
        const double mask_i = backbone_mask(t, i);
        const vec ca = atom(t, i, ATOM_CA);
        const frame f = make_frame(sub(atom(t, i, ATOM_C), ca), sub(atom(t, i, ATOM_N), ca), frame_epsilon);
        for (int64_t j = 0; j < num_res; j++) {
            const double mask = mask_i * backbone_mask(t, j);
            if (mask == 0.0)
                continue; /* every channel is multiplied by it */
            float *at = features + ((i - i0) * num_res + j) * channels;
            double d2 = 0;
            for (int x = 0; x < 3; x++) {
                const double d = (double)t->pseudo_beta[i * 3 + x] - (double)t->pseudo_beta[j * 3 + x];
                d2 += d * d;
            }
            const int64_t bin = ff_dgram_bin(dgram, d2);
            if (bin >= 0)
                at[bin] = (float)mask;
            at += dgram->num_bins;
            *at++ = (float)((double)t->pseudo_beta_mask[i] * (double)t->pseudo_beta_mask[j] * mask);
            one_hot(at, t->aatype[j], mask);
            one_hot(at + FF_TEMPLATE_AATYPE, t->aatype[i], mask);
            at += 2 * FF_TEMPLATE_AATYPE;
            if (unit_vector) {
                const vec v = into_frame(&f, sub(atom(t, j, ATOM_CA), ca));
                const double factor = mask * mask / sqrt(vector_epsilon + dot(v, v));
                at[0] = (float)(v.x * factor);
                at[1] = (float)(v.y * factor);
                at[2] = (float)(v.z * factor);
            }
            at[3] = (float)(mask * mask);
        }
    }
}

/* ---- torsion angles ---- */

enum { CHI = 4, UNKNOWN = 20, NO_CHI = -1 };

/* Atoms of chi1..4 by residue type (A R N D C Q E G H I L K M F P S T W Y V X): consecutive chi share three atoms, so a
 * chain of up to seven atom37 indices gives all. */
static const int8_t chi_chain[UNKNOWN + 1][CHI + 3] = {
    {NO_CHI},                                 /* ALA */
    {0, 1, 3, 5, 11, 23, 32},                 /* ARG: N CA CB CG CD NE CZ */
    {0, 1, 3, 5, 16, NO_CHI},                 /* ASN */
    {0, 1, 3, 5, 16, NO_CHI},                 /* ASP */
    {0, 1, 3, 10, NO_CHI},                    /* CYS */
    {0, 1, 3, 5, 11, 26, NO_CHI},             /* GLN */
    {0, 1, 3, 5, 11, 26, NO_CHI},             /* GLU */
    {NO_CHI},                                 /* GLY */
    {0, 1, 3, 5, 14, NO_CHI},                 /* HIS */
    {0, 1, 3, 6, 12, NO_CHI},                 /* ILE */
    {0, 1, 3, 5, 12, NO_CHI},                 /* LEU */
    {0, 1, 3, 5, 11, 19, 35},                 /* LYS */
    {0, 1, 3, 5, 18, 19, NO_CHI},             /* MET */
    {0, 1, 3, 5, 12, NO_CHI},                 /* PHE */
    {0, 1, 3, 5, 11, NO_CHI},                 /* PRO */
    {0, 1, 3, 8, NO_CHI},                     /* SER */
    {0, 1, 3, 9, NO_CHI},                     /* THR */
    {0, 1, 3, 5, 12, NO_CHI},                 /* TRP */
    {0, 1, 3, 5, 12, NO_CHI},                 /* TYR */
    {0, 1, 3, 6, NO_CHI},                     /* VAL */
    {NO_CHI},                                 /* UNK */
};

/* The chi that looks the same after half a turn; 0 = none. */
static int symmetric_chi(int32_t type)
{
    enum { ASP = 3, GLU = 6, PHE = 13, TYR = 18 };
    return type == GLU ? 3 : type == ASP || type == PHE || type == TYR ? 2 : 0;
}

static int num_chi(int32_t type)
{
    int n = 0;
    while (n < CHI + 3 && chi_chain[type][n] != NO_CHI)
        n++;
    return n > 3 ? n - 3 : 0;
}

/* Four atoms, as (residue, atom37). */
typedef struct {
    int64_t residue[4];
    int atom[4];
    bool defined;
} torsion;

static torsion torsion_atoms(const ff_template *t, int64_t i, int k)
{
    const int64_t p = i - 1;
    if (k == 0) /* pre_omega */
        return (torsion){{p, p, i, i}, {ATOM_CA, ATOM_C, ATOM_N, ATOM_CA}, true};
    if (k == 1) /* phi */
        return (torsion){{p, i, i, i}, {ATOM_C, ATOM_N, ATOM_CA, ATOM_C}, true};
    if (k == 2) /* psi */
        return (torsion){{i, i, i, i}, {ATOM_N, ATOM_CA, ATOM_C, ATOM_O}, true};
    const int32_t type = t->aatype[i] < 0 || t->aatype[i] > UNKNOWN ? UNKNOWN : t->aatype[i];
    if (k - 3 >= num_chi(type)) /* the reference takes atom 0 four times: all differences vanish */
        return (torsion){{i, i, i, i}, {0, 0, 0, 0}, false};
    const int8_t *chain = chi_chain[type] + (k - 3);
    return (torsion){{i, i, i, i}, {chain[0], chain[1], chain[2], chain[3]}, true};
}

/* (sin, cos) of the angle from atom 1 to atom 4 about the axis from atom 2 to atom 3. Epsilons as in the reference. */
static void sin_cos(const vec p[4], double result[2], bool *well_conditioned)
{
    const double epsilon = 1e-8, degenerate = 1e-6;
    const vec axis = sub(p[2], p[1]), plane = sub(p[0], p[2]), to = sub(p[3], p[2]);
    const frame f = make_frame(axis, plane, epsilon);
    const vec rel = into_frame(&f, to);
    const double length = sqrt(rel.z * rel.z + rel.y * rel.y + epsilon);
    result[0] = rel.z / length;
    result[1] = rel.y / length;
    const vec residual = sub(plane, scaled(f.e0, dot(f.e0, plane))), off = sub(to, scaled(f.e0, dot(f.e0, to)));
    const bool flat = dot(plane, plane) > 0 && dot(residual, residual) < degenerate * degenerate * dot(plane, plane);
    const bool on_axis = dot(to, to) > 0 && dot(off, off) < degenerate * degenerate * dot(to, to);
    const bool no_axis = dot(axis, axis) == 0.0;
    *well_conditioned = no_axis || !(flat || on_axis);
}

void ff_template_torsion_features(float *features, float *well_conditioned, const ff_template *t)
{
    memset(features, 0, (size_t)(t->num_res * FF_TEMPLATE_TORSION_FEAT) * sizeof *features);
    for (int64_t i = 0; i < t->num_res; i++) {
        float *at = features + i * FF_TEMPLATE_TORSION_FEAT;
        float *angles = at + FF_TEMPLATE_AATYPE, *alternative = angles + 2 * FF_TORSIONS;
        float *masks = alternative + 2 * FF_TORSIONS;
        one_hot(at, t->aatype[i], 1.0);
        for (int k = 0; k < FF_TORSIONS; k++) {
            const torsion q = torsion_atoms(t, i, k);
            vec p[4];
            double mask = q.defined ? 1.0 : 0.0, value[2];
            bool well;
            for (int a = 0; a < 4; a++) {
                p[a] = atom(t, q.residue[a], q.atom[a]);
                mask *= atom_mask(t, q.residue[a], q.atom[a]);
            }
            sin_cos(p, value, &well);
            const bool replaced = t->placeholder && mask == 0.0;
            const double sign = k == 2 ? -1.0 : 1.0; /* psi is measured with O in place of the next N */
            const double mirror = k >= 3 && symmetric_chi(t->aatype[i]) == k - 2 ? -1.0 : 1.0;
            for (int x = 0; x < 2; x++) {
                angles[2 * k + x] = replaced ? (float)(1 - x) : (float)(sign * value[x]);
                alternative[2 * k + x] = replaced ? (float)(1 - x) : (float)(sign * mirror * value[x]);
            }
            masks[k] = (float)mask;
            if (well_conditioned != NULL)
                well_conditioned[i * FF_TORSIONS + k] = well ? 1.0f : 0.0f;
        }
    }
}
