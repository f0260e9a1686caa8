#include "structure/geometry.h"

#include <math.h>
#include <string.h>

#include "structure/residue_constants.h"

static double dot3(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void cross3(double out[3], const double a[3], const double b[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* ---- quaternions ---- */

void ff_quat_to_rot(double r[9], const double q[4])
{
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0] = w * w + x * x - y * y - z * z;
    r[1] = 2 * (x * y - w * z);
    r[2] = 2 * (x * z + w * y);
    r[3] = 2 * (x * y + w * z);
    r[4] = w * w - x * x + y * y - z * z;
    r[5] = 2 * (y * z - w * x);
    r[6] = 2 * (x * z - w * y);
    r[7] = 2 * (y * z + w * x);
    r[8] = w * w - x * x - y * y + z * z;
}

void ff_quat_to_rot_backward(double grad_q[4], const double g[9], const double q[4])
{
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    grad_q[0] += 2 * (w * (g[0] + g[4] + g[8]) - z * g[1] + y * g[2] + z * g[3] - x * g[5] - y * g[6] + x * g[7]);
    grad_q[1] += 2 * (x * (g[0] - g[4] - g[8]) + y * g[1] + z * g[2] + y * g[3] - w * g[5] + z * g[6] + w * g[7]);
    grad_q[2] += 2 * (y * (-g[0] + g[4] - g[8]) + x * g[1] + w * g[2] + x * g[3] + z * g[5] - w * g[6] + z * g[7]);
    grad_q[3] += 2 * (z * (-g[0] - g[4] + g[8]) - w * g[1] + x * g[2] + w * g[3] + y * g[5] + x * g[6] + y * g[7]);
}

/* Coefficients of the Hamilton product: out[i] = sum of sign * a[k] * b[table[i][k]]. */
static const int product_index[4][4] = {{0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}};
static const double product_sign[4][4] = {{1, -1, -1, -1}, {1, 1, 1, -1}, {1, -1, 1, 1}, {1, 1, -1, 1}};

void ff_quat_multiply(double out[4], const double a[4], const double b[4])
{
    for (int i = 0; i < 4; i++) {
        out[i] = 0;
        for (int k = 0; k < 4; k++)
            out[i] += product_sign[i][k] * a[k] * b[product_index[i][k]];
    }
}

void ff_quat_multiply_backward(double grad_a[4], double grad_b[4], const double grad_out[4], const double a[4],
                               const double b[4])
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            const double g = product_sign[i][k] * grad_out[i];
            if (grad_a != NULL)
                grad_a[k] += g * b[product_index[i][k]];
            if (grad_b != NULL)
                grad_b[product_index[i][k]] += g * a[k];
        }
}

void ff_rot_to_quat(double q[4], const double r[9])
{
    /* the largest of 4w^2, 4x^2, 4y^2, 4z^2 is at least 1, so dividing by it is safe */
    const double square[4] = {1 + r[0] + r[4] + r[8], 1 + r[0] - r[4] - r[8], 1 - r[0] + r[4] - r[8],
                              1 - r[0] - r[4] + r[8]};
    int best = 0;
    for (int i = 1; i < 4; i++)
        best = square[i] > square[best] ? i : best;
    const double wx = r[7] - r[5], wy = r[2] - r[6], wz = r[3] - r[1], xy = r[1] + r[3], xz = r[2] + r[6],
                 yz = r[5] + r[7];
    const double rows[4][4] = {
        {square[0], wx, wy, wz}, {wx, square[1], xy, xz}, {wy, xy, square[2], yz}, {wz, xz, yz, square[3]}};
    const double *row = rows[best];
    const double norm = sqrt(row[0] * row[0] + row[1] * row[1] + row[2] * row[2] + row[3] * row[3]);
    for (int i = 0; i < 4; i++)
        q[i] = (row[0] < 0 ? -row[i] : row[i]) / norm;
}

void ff_affine_update(double out[7], const double affine[7], const double update[6])
{
    const double v[4] = {0, update[0], update[1], update[2]};
    double q[4], r[9];
    ff_quat_multiply(q, affine, v);
    for (int i = 0; i < 4; i++)
        q[i] += affine[i];
    const double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++)
        out[i] = q[i] / norm;
    ff_quat_to_rot(r, affine);
    for (int i = 0; i < 3; i++)
        out[4 + i] = affine[4 + i] + dot3(r + 3 * i, update + 3);
}

void ff_affine_update_backward(double grad_affine[7], double grad_update[6], const double grad_out[7],
                               const double affine[7], const double update[6])
{
    const double v[4] = {0, update[0], update[1], update[2]};
    double q[4], r[9], grad_q[4], grad_v[4] = {0}, grad_r[9];
    ff_quat_multiply(q, affine, v);
    double square = 0, along = 0;
    for (int i = 0; i < 4; i++) {
        q[i] += affine[i];
        square += q[i] * q[i];
        along += q[i] * grad_out[i];
    }
    const double norm = sqrt(square);
    for (int i = 0; i < 4; i++) {
        grad_q[i] = grad_out[i] / norm - q[i] * along / (norm * square);
        grad_affine[i] += grad_q[i];
    }
    ff_quat_multiply_backward(grad_affine, grad_v, grad_q, affine, v);
    ff_quat_to_rot(r, affine);
    for (int i = 0; i < 3; i++) {
        grad_update[i] += grad_v[1 + i];
        grad_affine[4 + i] += grad_out[4 + i];
        for (int k = 0; k < 3; k++) {
            grad_update[3 + k] += r[3 * i + k] * grad_out[4 + i];
            grad_r[3 * i + k] = grad_out[4 + i] * update[3 + k];
        }
    }
    ff_quat_to_rot_backward(grad_affine, grad_r, affine);
}

/* ---- rigid transforms ---- */

void ff_affine_to_rigid(double rigid[12], const double affine[7], double scale)
{
    ff_quat_to_rot(rigid, affine);
    for (int i = 0; i < 3; i++)
        rigid[9 + i] = scale * affine[4 + i];
}

void ff_affine_to_rigid_backward(double grad_affine[7], const double grad_rigid[12], const double affine[7], double scale)
{
    ff_quat_to_rot_backward(grad_affine, grad_rigid, affine);
    for (int i = 0; i < 3; i++)
        grad_affine[4 + i] += scale * grad_rigid[9 + i];
}

void ff_rigid_apply(double out[3], const double a[12], const double p[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = dot3(a + 3 * i, p) + a[9 + i];
}

void ff_rigid_apply_backward(double grad_a[12], double grad_p[3], const double g[3], const double a[12],
                             const double p[3])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            if (grad_a != NULL)
                grad_a[3 * i + k] += g[i] * p[k];
            if (grad_p != NULL)
                grad_p[k] += g[i] * a[3 * i + k];
        }
    for (int i = 0; i < 3 && grad_a != NULL; i++)
        grad_a[9 + i] += g[i];
}

void ff_rigid_apply_inverse(double out[3], const double a[12], const double p[3])
{
    for (int k = 0; k < 3; k++) {
        out[k] = 0;
        for (int i = 0; i < 3; i++)
            out[k] += a[3 * i + k] * (p[i] - a[9 + i]);
    }
}

void ff_rigid_apply_inverse_backward(double grad_a[12], double grad_p[3], const double g[3], const double a[12],
                                     const double p[3])
{
    for (int i = 0; i < 3; i++) {
        const double back = dot3(a + 3 * i, g); /* R g */
        if (grad_p != NULL)
            grad_p[i] += back;
        if (grad_a == NULL)
            continue;
        grad_a[9 + i] -= back;
        for (int k = 0; k < 3; k++)
            grad_a[3 * i + k] += (p[i] - a[9 + i]) * g[k];
    }
}

void ff_rigid_compose(double out[12], const double a[12], const double b[12])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            out[3 * i + k] = a[3 * i] * b[k] + a[3 * i + 1] * b[3 + k] + a[3 * i + 2] * b[6 + k];
    ff_rigid_apply(out + 9, a, b + 9);
}

void ff_rigid_compose_backward(double grad_a[12], double grad_b[12], const double g[12], const double a[12],
                               const double b[12])
{
    for (int i = 0; i < 3; i++)
        for (int m = 0; m < 3; m++)
            for (int k = 0; k < 3; k++) {
                if (grad_a != NULL)
                    grad_a[3 * i + m] += g[3 * i + k] * b[3 * m + k];
                if (grad_b != NULL)
                    grad_b[3 * m + k] += g[3 * i + k] * a[3 * i + m];
            }
    ff_rigid_apply_backward(grad_a, grad_b == NULL ? NULL : grad_b + 9, g + 9, a, b + 9);
}

void ff_rigid_invert(double out[12], const double a[12])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            out[3 * i + k] = a[3 * k + i];
    for (int i = 0; i < 3; i++)
        out[9 + i] = -dot3(out + 3 * i, a + 9);
}

void ff_rigid_invert_backward(double grad_a[12], const double g[12], const double a[12])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            grad_a[3 * k + i] += g[3 * i + k] - g[9 + i] * a[9 + k];
            grad_a[9 + k] -= g[9 + i] * a[3 * k + i];
        }
}

/* ---- frames from points ---- */

/* What forward and backward share. */
typedef struct {
    double v0[3], n0, e0[3], v1[3], along, u[3], n1, e1[3];
} gram_schmidt;

static void orthonormalise(gram_schmidt *s, const double neg_x[3], const double origin[3], const double xy[3],
                           double epsilon)
{
    for (int i = 0; i < 3; i++) {
        s->v0[i] = origin[i] - neg_x[i];
        s->v1[i] = xy[i] - origin[i];
    }
    s->n0 = sqrt(dot3(s->v0, s->v0) + epsilon);
    for (int i = 0; i < 3; i++)
        s->e0[i] = s->v0[i] / s->n0;
    s->along = dot3(s->v1, s->e0);
    for (int i = 0; i < 3; i++)
        s->u[i] = s->v1[i] - s->along * s->e0[i];
    s->n1 = sqrt(dot3(s->u, s->u) + epsilon);
    for (int i = 0; i < 3; i++)
        s->e1[i] = s->u[i] / s->n1;
}

void ff_rigid_from_3_points(double rigid[12], const double neg_x[3], const double origin[3], const double xy[3],
                            double epsilon)
{
    gram_schmidt s;
    double e2[3];
    orthonormalise(&s, neg_x, origin, xy, epsilon);
    cross3(e2, s.e0, s.e1);
    for (int i = 0; i < 3; i++) {
        rigid[3 * i] = s.e0[i];
        rigid[3 * i + 1] = s.e1[i];
        rigid[3 * i + 2] = e2[i];
        rigid[9 + i] = origin[i];
    }
}

/* += of grad of v / n with n = sqrt(|v|^2 + epsilon) */
static void normalise_backward(double grad_v[3], const double g[3], const double v[3], double n)
{
    const double along = dot3(v, g) / (n * n * n);
    for (int i = 0; i < 3; i++)
        grad_v[i] = g[i] / n - v[i] * along;
}

void ff_rigid_from_3_points_backward(double grad_neg_x[3], double grad_origin[3], double grad_xy[3],
                                     const double grad_rigid[12], const double neg_x[3], const double origin[3],
                                     const double xy[3], double epsilon)
{
    gram_schmidt s;
    double g0[3], g1[3], g2[3], part[3], grad_u[3], grad_v0[3], grad_v1[3];
    orthonormalise(&s, neg_x, origin, xy, epsilon);
    for (int i = 0; i < 3; i++) {
        g0[i] = grad_rigid[3 * i];
        g1[i] = grad_rigid[3 * i + 1];
        g2[i] = grad_rigid[3 * i + 2];
    }
    cross3(part, s.e1, g2);
    for (int i = 0; i < 3; i++)
        g0[i] += part[i];
    cross3(part, g2, s.e0);
    for (int i = 0; i < 3; i++)
        g1[i] += part[i];
    normalise_backward(grad_u, g1, s.u, s.n1);
    const double across = dot3(grad_u, s.e0);
    for (int i = 0; i < 3; i++) {
        grad_v1[i] = grad_u[i] - across * s.e0[i];
        g0[i] -= s.along * grad_u[i] + across * s.v1[i];
    }
    normalise_backward(grad_v0, g0, s.v0, s.n0);
    for (int i = 0; i < 3; i++) {
        if (grad_neg_x != NULL)
            grad_neg_x[i] -= grad_v0[i];
        if (grad_origin != NULL)
            grad_origin[i] += grad_v0[i] - grad_v1[i] + grad_rigid[9 + i];
        if (grad_xy != NULL)
            grad_xy[i] += grad_v1[i];
    }
}

/* ---- torsions ---- */

/* The fourth point in the frame of the first three: y is the cosine's side, z the sine's. */
void ff_dihedral(double sin_cos[2], double p[4][3])
{
    double frame[12], local[3];
    ff_rigid_from_3_points(frame, p[1], p[2], p[0], FF_FRAME_EPSILON);
    ff_rigid_apply_inverse(local, frame, p[3]);
    const double n = sqrt(local[1] * local[1] + local[2] * local[2] + 1e-8);
    sin_cos[0] = local[2] / n;
    sin_cos[1] = local[1] / n;
}

void ff_dihedral_backward(double grad_p[4][3], const double g[2], double p[4][3])
{
    double frame[12], local[3], grad_frame[12] = {0};
    ff_rigid_from_3_points(frame, p[1], p[2], p[0], FF_FRAME_EPSILON);
    ff_rigid_apply_inverse(local, frame, p[3]);
    const double n = sqrt(local[1] * local[1] + local[2] * local[2] + 1e-8);
    const double along = (local[2] * g[0] + local[1] * g[1]) / (n * n * n);
    const double grad_local[3] = {0, g[1] / n - local[1] * along, g[0] / n - local[2] * along};
    ff_rigid_apply_inverse_backward(grad_frame, grad_p[3], grad_local, frame, p[3]);
    ff_rigid_from_3_points_backward(grad_p[1], grad_p[2], grad_p[0], grad_frame, p[1], p[2], p[0], FF_FRAME_EPSILON);
}

/* ---- atoms ---- */

/* The frame of a group in its parent's: default . RotX(angle); groups 0 (no angle) to 7. */
static void local_frame(double frame[12], int group, double sin_cos[7][2], int aatype)
{
    const float(*d)[4] = ff_restype_rigid_group_default_frame[aatype][group];
    const double s = group == 0 ? 0 : sin_cos[group - 1][0], c = group == 0 ? 1 : sin_cos[group - 1][1];
    for (int i = 0; i < 3; i++) {
        frame[3 * i] = d[i][0];
        frame[3 * i + 1] = d[i][1] * c + d[i][2] * s;
        frame[3 * i + 2] = d[i][2] * c - d[i][1] * s;
        frame[9 + i] = d[i][3];
    }
}

static int parent_of(int group) { return group >= 5 ? group - 1 : -1; } /* chi2..4 hang on the chi before */

void ff_torsions_to_frames(double frames[8][12], const double backbone[12], double sin_cos[7][2], int aatype)
{
    for (int g = 0; g < FF_NUM_GROUPS; g++) {
        double local[12];
        local_frame(local, g, sin_cos, aatype);
        ff_rigid_compose(frames[g], parent_of(g) < 0 ? backbone : frames[parent_of(g)], local);
    }
}

void ff_torsions_to_frames_backward(double grad_backbone[12], double grad_sin_cos[7][2], double grad_frames[8][12],
                                    const double backbone[12], double sin_cos[7][2], int aatype)
{
    double frames[8][12], grads[8][12];
    ff_torsions_to_frames(frames, backbone, sin_cos, aatype);
    memcpy(grads, grad_frames, sizeof grads);
    for (int g = FF_NUM_GROUPS - 1; g >= 0; g--) {
        const int parent = parent_of(g);
        double local[12], grad_local[12] = {0};
        local_frame(local, g, sin_cos, aatype);
        ff_rigid_compose_backward(parent < 0 ? grad_backbone : grads[parent], grad_local, grads[g],
                                  parent < 0 ? backbone : frames[parent], local);
        if (g == 0)
            continue;
        const float(*d)[4] = ff_restype_rigid_group_default_frame[aatype][g];
        for (int i = 0; i < 3; i++) {
            grad_sin_cos[g - 1][0] += grad_local[3 * i + 1] * d[i][2] - grad_local[3 * i + 2] * d[i][1];
            grad_sin_cos[g - 1][1] += grad_local[3 * i + 1] * d[i][1] + grad_local[3 * i + 2] * d[i][2];
        }
    }
}

static void ideal_position(double p[3], int aatype, int atom)
{
    for (int i = 0; i < 3; i++)
        p[i] = ff_restype_atom14_rigid_group_positions[aatype][atom][i];
}

void ff_frames_to_atom14(double atoms[14][3], double frames[8][12], int aatype)
{
    for (int a = 0; a < FF_NUM_ATOM14; a++) {
        double p[3];
        ideal_position(p, aatype, a);
        ff_rigid_apply(atoms[a], frames[ff_restype_atom14_to_rigid_group[aatype][a]], p);
        for (int i = 0; i < 3; i++)
            atoms[a][i] *= ff_restype_atom14_mask[aatype][a];
    }
}

void ff_frames_to_atom14_backward(double grad_frames[8][12], double grad_atoms[14][3], int aatype)
{
    for (int a = 0; a < FF_NUM_ATOM14; a++) {
        if (ff_restype_atom14_mask[aatype][a] == 0.0f)
            continue;
        const double unused[12] = {0}; /* an ideal position gets no gradient */
        double p[3];
        ideal_position(p, aatype, a);
        ff_rigid_apply_backward(grad_frames[ff_restype_atom14_to_rigid_group[aatype][a]], NULL, grad_atoms[a], unused, p);
    }
}
