/* loss_violation.c - structural violations: see losses.h.
 *
 * Contents: scratch; peptide bonds and their angles; clashes; distances within a residue; fractions; the
 * loss.
 *
 * Clashes and distances are computed row by row: a residue is compared with all others, and only its own
 * atoms get gradients, so every pair is visited twice and no two threads write to one place. */
#include "train/losses.h"

#include <string.h>

#include "structure/residue_constants.h"
#include "train/loss_common.h"

enum { N = 0, CA = 1, C = 2, SG = 5, A14 = FF_NUM_ATOM14, PROLINE = 14 };

static const double TOLERANCE_STDDEV = 12, CLASH_OVERLAP_ANG = 1.5; /* Suppl. section 1.9.11 */
static const double CA_CA_ANG = 3.80209737096, CA_CA_TOLERANCE_ANG = 1.5;
static const double BOND_EPSILON = 1e-6, PAIR_EPSILON = 1e-10, MEAN_EPSILON = 1e-6, FRACTION_EPSILON = 1e-10;

const ff_violation_weights ff_violation_all = {1, 1, 1, 1, 1};

/* Everything the parts share: details that are always there, and sums of rows. */
typedef struct {
    const ff_violation_inputs *in;
    ff_violation_details out;                   /* no NULLs */
    float *grad;                                /* [num_res, 14, 3] or NULL */
    double *row_clash, *row_pairs, *row_within; /* [num_res] */
    float *center; /* [num_res, 4] middle of the atoms of a residue, and the radius around it */
    double num_atoms;
} violations;

/* ---- vectors ---- */

static const float *atom(const ff_violation_inputs *in, int64_t i, int a)
{
    return in->atom14_pos + (i * A14 + a) * 3;
}
static float exists(const ff_violation_inputs *in, int64_t i, int a) { return in->atom_exists[i * A14 + a]; }

/* b - a, and sqrt(epsilon + its square). */
static double bond(double v[3], const float *a, const float *b)
{
    double d2 = BOND_EPSILON;
    for (int x = 0; x < 3; x++) {
        v[x] = (double)b[x] - (double)a[x];
        d2 += v[x] * v[x];
    }
    return sqrt(d2);
}

static void add_gradient(float *grad, int64_t i, int a, const double g[3], double factor)
{
    for (int x = 0; x < 3; x++)
        grad[(i * A14 + a) * 3 + x] += (float)(factor * g[x]);
}

/* ---- peptide bonds and their angles ---- */

/* relu(sqrt(1e-6 + (x - mean)^2) - tolerance) and its slope in x. */
static double beyond(double *slope, double x, double mean, double tolerance)
{
    const double error = sqrt(BOND_EPSILON + (x - mean) * (x - mean));
    *slope = error > tolerance ? (x - mean) / error : 0;
    return error > tolerance ? error - tolerance : 0;
}

/* The bond from residue i to i + 1, with what its three terms are made of. */
typedef struct {
    double ca_c[3], c_n[3], n_ca[3]; /* vectors C -> CA of i, C -> N, N -> CA of i + 1 */
    double ca_c_length, c_n_length, n_ca_length;
    double loss[3], slope[3], mask[3]; /* of bond, angle CA-C-N, angle C-N-CA */
} peptide;

static void measure_peptide(peptide *p, const ff_violation_inputs *in, int64_t i)
{
    const double near = in->residue_index[i + 1] - in->residue_index[i] == 1 ? 1 : 0;
    const int proline = in->aatype[i + 1] == PROLINE;
    p->ca_c_length = bond(p->ca_c, atom(in, i, C), atom(in, i, CA));
    p->c_n_length = bond(p->c_n, atom(in, i, C), atom(in, i + 1, N));
    p->n_ca_length = bond(p->n_ca, atom(in, i + 1, N), atom(in, i + 1, CA));
    double cos_ca_c_n = 0, cos_c_n_ca = 0;
    for (int x = 0; x < 3; x++) {
        cos_ca_c_n += p->ca_c[x] * p->c_n[x] / (p->ca_c_length * p->c_n_length);
        cos_c_n_ca -= p->c_n[x] * p->n_ca[x] / (p->c_n_length * p->n_ca_length);
    }
    p->loss[0] = beyond(&p->slope[0], p->c_n_length, (double)ff_between_res_bond_length_c_n[proline],
                        TOLERANCE_STDDEV * (double)ff_between_res_bond_length_stddev_c_n[proline]);
    p->loss[1] = beyond(&p->slope[1], cos_ca_c_n, (double)ff_between_res_cos_angles_ca_c_n[0],
                        TOLERANCE_STDDEV * (double)ff_between_res_cos_angles_ca_c_n[1]);
    p->loss[2] = beyond(&p->slope[2], cos_c_n_ca, (double)ff_between_res_cos_angles_c_n_ca[0],
                        TOLERANCE_STDDEV * (double)ff_between_res_cos_angles_c_n_ca[1]);
    p->mask[0] = near * (double)exists(in, i, C) * (double)exists(in, i + 1, N);
    p->mask[1] = p->mask[0] * (double)exists(in, i, CA);
    p->mask[2] = p->mask[0] * (double)exists(in, i + 1, CA);
}

/* Gradient of the cosine u.v / (|u| |v|) to u: v / (|u| |v|) - cos u / |u|^2 (lengths with their epsilon). */
static void cosine_gradient(double g[3], const double u[3], double u_length, const double v[3], double v_length)
{
    double dot = 0;
    for (int x = 0; x < 3; x++)
        dot += u[x] * v[x];
    for (int x = 0; x < 3; x++)
        g[x] = v[x] / (u_length * v_length) - dot * u[x] / (u_length * u_length * u_length * v_length);
}

static void peptide_gradient(float *grad, const peptide *p, int64_t i, const double factor[3])
{
    double g[3], g_ca_c[3] = {0}, g_c_n[3] = {0}, g_n_ca[3] = {0};
    for (int x = 0; x < 3; x++)
        g_c_n[x] = factor[0] * p->slope[0] * p->c_n[x] / p->c_n_length;
    cosine_gradient(g, p->ca_c, p->ca_c_length, p->c_n, p->c_n_length);
    for (int x = 0; x < 3; x++)
        g_ca_c[x] += factor[1] * p->slope[1] * g[x];
    cosine_gradient(g, p->c_n, p->c_n_length, p->ca_c, p->ca_c_length);
    for (int x = 0; x < 3; x++)
        g_c_n[x] += factor[1] * p->slope[1] * g[x];
    cosine_gradient(g, p->c_n, p->c_n_length, p->n_ca, p->n_ca_length);
    for (int x = 0; x < 3; x++)
        g_c_n[x] -= factor[2] * p->slope[2] * g[x];
    cosine_gradient(g, p->n_ca, p->n_ca_length, p->c_n, p->c_n_length);
    for (int x = 0; x < 3; x++)
        g_n_ca[x] -= factor[2] * p->slope[2] * g[x];
    add_gradient(grad, i, CA, g_ca_c, 1);
    add_gradient(grad, i, C, g_ca_c, -1);
    add_gradient(grad, i, C, g_c_n, -1);
    add_gradient(grad, i + 1, N, g_c_n, 1);
    add_gradient(grad, i + 1, N, g_n_ca, -1);
    add_gradient(grad, i + 1, CA, g_n_ca, 1);
}

static double ca_ca_fraction(const ff_violation_inputs *in)
{
    double sum = 0, count = FRACTION_EPSILON, v[3];
    for (int64_t i = 0; i + 1 < in->num_res; i++) {
        if (in->residue_index[i + 1] - in->residue_index[i] != 1)
            continue;
        const double mask = (double)exists(in, i, CA) * (double)exists(in, i + 1, CA);
        sum += bond(v, atom(in, i, CA), atom(in, i + 1, CA)) - CA_CA_ANG > CA_CA_TOLERANCE_ANG ? mask : 0;
        count += mask;
    }
    return sum / count;
}

/* Linear in the number of residues: in one thread. */
static void connections(violations *v, ff_violation_result *result, double weight, const ff_violation_weights *terms)
{
    const ff_violation_inputs *in = v->in;
    const double term[3] = {terms->bond_c_n, terms->angle_ca_c_n, terms->angle_c_n_ca};
    double sum[3] = {0}, count[3] = {MEAN_EPSILON, MEAN_EPSILON, MEAN_EPSILON};
    peptide p;
    memset(v->out.connection_loss, 0, (size_t)in->num_res * sizeof(float));
    memset(v->out.connection_mask, 0, (size_t)in->num_res * sizeof(float));
    for (int64_t i = 0; i + 1 < in->num_res; i++) {
        measure_peptide(&p, in, i);
        for (int k = 0; k < 3; k++) {
            sum[k] += p.mask[k] * p.loss[k];
            count[k] += p.mask[k];
            for (int64_t j = i; j <= i + 1; j++) {
                v->out.connection_loss[j] += (float)(0.5 * p.loss[k]); /* without the mask, as the published code */
                if (p.mask[k] != 0 && p.loss[k] > 0)
                    v->out.connection_mask[j] = 1;
            }
        }
    }
    for (int64_t i = 0; i + 1 < in->num_res && v->grad != NULL; i++) {
        double factor[3], any = 0;
        measure_peptide(&p, in, i);
        for (int k = 0; k < 3; k++) {
            factor[k] = weight * term[k] * p.mask[k] / count[k];
            any += fabs(factor[k] * p.slope[k]);
        }
        if (any != 0)
            peptide_gradient(v->grad, &p, i, factor);
    }
    result->bond_c_n = sum[0] / count[0];
    result->angle_ca_c_n = sum[1] / count[1];
    result->angle_c_n_ca = sum[2] / count[2];
    result->fraction_ca_ca = ca_ca_fraction(in);
}

/* ---- clashes ---- */

/* Middle and radius of the atoms of each residue; radius < 0 = it has none. */
static void enclose(violations *v)
{
    const ff_violation_inputs *in = v->in;
    for (int64_t i = 0; i < in->num_res; i++) {
        float *c = v->center + 4 * i, count = 0;
        c[0] = c[1] = c[2] = 0;
        c[3] = -1;
        for (int a = 0; a < A14; a++)
            for (int x = 0; x < 3; x++)
                if (exists(in, i, a) != 0) {
                    c[x] += atom(in, i, a)[x];
                    count += x == 0;
                }
        for (int x = 0; x < 3 && count > 0; x++)
            c[x] /= count;
        for (int a = 0; a < A14; a++) {
            const float *p = atom(in, i, a), d0 = p[0] - c[0], d1 = p[1] - c[1], d2 = p[2] - c[2];
            const float d = sqrtf(d0 * d0 + d1 * d1 + d2 * d2);
            if (exists(in, i, a) != 0 && !(d <= c[3]))
                c[3] = d;
        }
    }
}

/* Whether any two atoms of the residues can be near enough to clash. */
static bool may_clash(const float *a, const float *b)
{
    const float reach = a[3] + b[3] + 2 * 1.8f - 1.5f + 0.01f; /* two sulphurs, the overlap, rounding */
    const float d0 = a[0] - b[0], d1 = a[1] - b[1], d2 = a[2] - b[2];
    return d0 * d0 + d1 * d1 + d2 * d2 <= reach * reach;
}

static double radius(const ff_violation_inputs *in, int64_t i, int a)
{
    const int32_t type = in->aatype[i];
    return (double)ff_atom37_van_der_waals_radius[ff_restype_atom14_to_atom37[type][a]];
}

/* Whether the pair is bonded: C and N of neighbours, or both in the slot of SG. */
static bool is_bonded(const ff_violation_inputs *in, int64_t i, int a, int64_t j, int b)
{
    const int32_t step = in->residue_index[j] - in->residue_index[i];
    return (a == SG && b == SG) || (step == 1 && a == C && b == N) || (step == -1 && a == N && b == C);
}

/* Atom a of residue i against all of residue j: its part of the loss, and the gradient of its own position. */
static double clash_atom(violations *v, double g[3], int64_t i, int a, int64_t j)
{
    const ff_violation_inputs *in = v->in;
    const float *p = atom(in, i, a);
    double sum = 0;
    for (int b = 0; b < A14; b++) {
        if (exists(in, j, b) == 0 || is_bonded(in, i, a, j, b))
            continue;
        const float *q = atom(in, j, b);
        const double d0 = (double)p[0] - (double)q[0], d1 = (double)p[1] - (double)q[1],
                     d2 = (double)p[2] - (double)q[2];
        const double d = sqrt(PAIR_EPSILON + d0 * d0 + d1 * d1 + d2 * d2);
        const double error = radius(in, i, a) + radius(in, j, b) - CLASH_OVERLAP_ANG - d;
        if (!(error > 0))
            continue;
        sum += error;
        g[0] -= d0 / d;
        g[1] -= d1 / d;
        g[2] -= d2 / d;
    }
    return sum;
}

/* Pairs of atoms of residues i and j that are compared, each once. */
static double count_pairs(const ff_violation_inputs *in, const double *num_atoms, int64_t i, int64_t j)
{
    double count = num_atoms[i] * num_atoms[j] - (double)exists(in, i, SG) * (double)exists(in, j, SG);
    if (in->residue_index[j] - in->residue_index[i] == 1)
        count -= (double)exists(in, i, C) * (double)exists(in, j, N);
    return count;
}

static void clash_row(violations *v, const double *num_atoms, int64_t i, double factor)
{
    const ff_violation_inputs *in = v->in;
    double loss[A14] = {0}, g[A14][3] = {{0}};
    v->row_clash[i] = v->row_pairs[i] = 0;
    for (int64_t j = 0; j < in->num_res; j++) {
        if (in->residue_index[j] == in->residue_index[i])
            continue; /* itself, too */
        if (in->residue_index[j] > in->residue_index[i])
            v->row_pairs[i] += count_pairs(in, num_atoms, i, j);
        if (num_atoms[i] == 0 || num_atoms[j] == 0 || !may_clash(v->center + 4 * i, v->center + 4 * j))
            continue;
        for (int a = 0; a < A14; a++)
            if (exists(in, i, a) != 0)
                loss[a] += clash_atom(v, g[a], i, a, j);
    }
    for (int a = 0; a < A14; a++) {
        v->row_clash[i] += loss[a];
        v->out.clash_loss[i * A14 + a] = (float)loss[a];
        v->out.clash_mask[i * A14 + a] = loss[a] > 0 ? 1 : 0;
        if (v->grad != NULL)
            add_gradient(v->grad, i, a, g[a], 2 * factor); /* the pair counts for both of its atoms */
    }
}

/* ---- distances within a residue ---- */

static void within_row(violations *v, int64_t i, double factor)
{
    const ff_violation_inputs *in = v->in;
    const int32_t type = in->aatype[i];
    v->row_within[i] = 0;
    for (int a = 0; a < A14; a++) {
        double loss = 0, g[3] = {0};
        for (int b = 0; b < A14 && exists(in, i, a) != 0; b++) {
            if (b == a || exists(in, i, b) == 0)
                continue;
            const float *p = atom(in, i, a), *q = atom(in, i, b);
            const double d0 = (double)p[0] - (double)q[0], d1 = (double)p[1] - (double)q[1];
            const double d2 = (double)p[2] - (double)q[2];
            const double d = sqrt(PAIR_EPSILON + d0 * d0 + d1 * d1 + d2 * d2);
            const double low = (double)ff_atom14_dists_lower_bound[type][a][b] - d;
            const double high = d - (double)ff_atom14_dists_upper_bound[type][a][b];
            const double slope = (high > 0 ? 1 : 0) - (low > 0 ? 1 : 0);
            loss += (low > 0 ? low : 0) + (high > 0 ? high : 0);
            g[0] += slope * d0 / d;
            g[1] += slope * d1 / d;
            g[2] += slope * d2 / d;
        }
        v->row_within[i] += 2 * loss; /* row sum and column sum of a symmetric table */
        v->out.within_loss[i * A14 + a] = (float)(2 * loss);
        v->out.within_mask[i * A14 + a] = loss > 0 ? 1 : 0;
        if (v->grad != NULL)
            add_gradient(v->grad, i, a, g, 4 * factor);
    }
}

/* ---- fractions ---- */

static float any_of(const float *mask)
{
    for (int a = 0; a < A14; a++)
        if (mask[a] != 0)
            return 1;
    return 0;
}

static void fractions(violations *v, ff_violation_result *result)
{
    double sum[4] = {0}, count = FRACTION_EPSILON;
    for (int64_t i = 0; i < v->in->num_res; i++) {
        const double mask = v->in->seq_mask == NULL ? 1 : (double)v->in->seq_mask[i];
        const float flag[3] = {v->out.connection_mask[i], any_of(v->out.clash_mask + i * A14),
                               any_of(v->out.within_mask + i * A14)};
        v->out.residue_mask[i] = flag[0] != 0 || flag[1] != 0 || flag[2] != 0 ? 1 : 0;
        for (int k = 0; k < 3; k++)
            sum[k] += mask * (double)flag[k];
        sum[3] += mask * (double)v->out.residue_mask[i];
        count += mask;
    }
    result->fraction_bond = sum[0] / count;
    result->fraction_clash = sum[1] / count;
    result->fraction_within = sum[2] / count;
    result->fraction_any = sum[3] / count;
}

/* ---- the loss ---- */

static ff_status check_inputs(ff_ctx *ctx, const ff_violation_inputs *in)
{
    if (in->num_res <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "violations of %lld residues: the number must be positive",
                       (long long)in->num_res);
    for (int64_t i = 0; i < in->num_res; i++)
        if (in->aatype[i] < 0 || in->aatype[i] >= FF_NUM_RESTYPES)
            return FF_FAIL(ctx, FF_ERR_ARG, "aatype[%lld] is %d, wanted 0..%d", (long long)i, (int)in->aatype[i],
                           FF_NUM_RESTYPES - 1);
    return FF_OK;
}

/* Details the caller did not ask for go to `block`, [3 * num_res + 4 * 14 * num_res]. */
static ff_violation_details complete(const ff_violation_details *given, float *block, int64_t n)
{
    ff_violation_details d = given == NULL ? (ff_violation_details){0} : *given;
    float **const fields[] = {&d.connection_loss, &d.connection_mask, &d.residue_mask, &d.clash_loss,
                              &d.clash_mask,      &d.within_loss,     &d.within_mask};
    for (int k = 0; k < 7; k++) {
        if (*fields[k] == NULL)
            *fields[k] = block;
        block += k < 3 ? n : n * A14;
    }
    return d;
}

ff_status ff_loss_violation(ff_ctx *ctx, ff_violation_result *result, const ff_violation_details *details,
                            float *grad_pos, double weight, const ff_violation_weights *terms,
                            const ff_violation_inputs *in)
{
    enum { ROWS = 4, FLOATS = 3 + 4 * A14 + 4 };
    ff_status status = FF_OK;
    double *rows = NULL;
    float *block = NULL;
    const int64_t n = in->num_res;
    FF_TRY(check_inputs(ctx, in));
    FF_LOSS_SCRATCH(ctx, rows, ROWS * n);
    FF_LOSS_SCRATCH(ctx, block, FLOATS * n);
    if (terms == NULL)
        terms = &ff_violation_all;
    double *num_atoms = rows;
    violations v = {.in = in, .out = complete(details, block, n), .grad = weight != 0 ? grad_pos : NULL};
    v.row_clash = rows + n;
    v.row_pairs = rows + 2 * n;
    v.row_within = rows + 3 * n;
    v.center = block + (3 + 4 * A14) * n;
    for (int64_t i = 0; i < n; i++)
        num_atoms[i] = ff_sum_mask(in->atom_exists + i * A14, A14);
    const double norm = MEAN_EPSILON + ff_sum_rows(num_atoms, n);
    connections(&v, result, weight, terms);
    enclose(&v);
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; i++) {
        clash_row(&v, num_atoms, i, weight * terms->clash / norm);
        within_row(&v, i, weight * terms->within / norm);
    }
    const double clash = ff_sum_rows(v.row_clash, n);
    result->clash = clash / norm;
    result->clash_mean = 0.5 * clash / (MEAN_EPSILON + ff_sum_rows(v.row_pairs, n));
    result->within = ff_sum_rows(v.row_within, n) / norm;
    fractions(&v, result);
    result->loss = terms->bond_c_n * result->bond_c_n + terms->angle_ca_c_n * result->angle_ca_c_n +
                   terms->angle_c_n_ca * result->angle_c_n_ca + terms->clash * result->clash +
                   terms->within * result->within;
done:
    FF_LOSS_SCRATCH_FREE(ctx, block, FLOATS * n);
    FF_LOSS_SCRATCH_FREE(ctx, rows, ROWS * n);
    return status;
}
