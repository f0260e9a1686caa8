/* geometry.h - rotations, rigid transforms and torsions of single residues, each with its backward.
 *
 * Contents: quaternions; rigid transforms; frames from points; torsions; atoms.
 *
 * A quaternion is (w, x, y, z). A rigid is 12 numbers: row-major rotation R, then translation t; x_global = R x_local + t. An
 * affine is 7 numbers: quaternion, then translation. Arithmetic is double, as it costs nothing here; arrays of many residues are
 * float32 elsewhere. Backward functions add (+=) into their grad_ outputs, any of which may be NULL. Sources: Jumper et al. 2021, Suppl. Alg. 20-24;
 * alphafold/model/{quat_affine,r3,all_atom}.py. */
#ifndef FF_STRUCTURE_GEOMETRY_H
#define FF_STRUCTURE_GEOMETRY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- quaternions ---- */

/** The quadratic form of q, which is a rotation for |q| = 1; never normalises. */
void ff_quat_to_rot(double r[9], const double q[4]);
void ff_quat_to_rot_backward(double grad_q[4], const double grad_r[9], const double q[4]);
/** Hamilton product a b. */
void ff_quat_multiply(double out[4], const double a[4], const double b[4]);
void ff_quat_multiply_backward(double grad_a[4], double grad_b[4], const double grad_out[4], const double a[4],
                               const double b[4]);
/** Unit quaternion with w >= 0 of a rotation. */
void ff_rot_to_quat(double q[4], const double r[9]);

/**
 * Backbone update (Alg. 23) composed from the right: q' = (q + q (0, b, c, d)) / |.|, t' = t + R(q) (x, y, z), for
 * update = (b, c, d, x, y, z).
 */
void ff_affine_update(double out[7], const double affine[7], const double update[6]);
void ff_affine_update_backward(double grad_affine[7], double grad_update[6], const double grad_out[7],
                               const double affine[7], const double update[6]);

/* ---- rigid transforms ---- */

/** R(q), t of an affine with t multiplied by `scale`. */
void ff_affine_to_rigid(double rigid[12], const double affine[7], double scale);
void ff_affine_to_rigid_backward(double grad_affine[7], const double grad_rigid[12], const double affine[7], double scale);
void ff_rigid_compose(double out[12], const double a[12], const double b[12]);
void ff_rigid_compose_backward(double grad_a[12], double grad_b[12], const double grad_out[12], const double a[12],
                               const double b[12]);
void ff_rigid_invert(double out[12], const double a[12]);
void ff_rigid_invert_backward(double grad_a[12], const double grad_out[12], const double a[12]);
void ff_rigid_apply(double out[3], const double a[12], const double p[3]);
void ff_rigid_apply_backward(double grad_a[12], double grad_p[3], const double grad_out[3], const double a[12],
                             const double p[3]);
/** R^T (p - t) */
void ff_rigid_apply_inverse(double out[3], const double a[12], const double p[3]);
void ff_rigid_apply_inverse_backward(double grad_a[12], double grad_p[3], const double grad_out[3], const double a[12],
                                     const double p[3]);

/* ---- frames from points ---- */

#define FF_FRAME_EPSILON 1e-8 /* alphafold/model/r3.py vecs_robust_normalize */

/**
 * Gram-Schmidt (Alg. 21): x along origin - neg_x, y towards xy. Each normalisation is v / sqrt(|v|^2 + epsilon), so degenerate points
 * give zero columns.
 */
void ff_rigid_from_3_points(double rigid[12], const double neg_x[3], const double origin[3], const double xy[3],
                            double epsilon);
void ff_rigid_from_3_points_backward(double grad_neg_x[3], double grad_origin[3], double grad_xy[3],
                                     const double grad_rigid[12], const double neg_x[3], const double origin[3],
                                     const double xy[3], double epsilon);

/* ---- torsions ---- */

/** (sin, cos) of the dihedral of four points, by frames: normalised by sqrt(s^2 + c^2 + 1e-8). */
void ff_dihedral(double sin_cos[2], double p[4][3]);
void ff_dihedral_backward(double grad_p[4][3], const double grad_sin_cos[2], double p[4][3]);

/* ---- atoms ---- */

/**
 * Backbone rigid and seven (sin, cos) to the eight frames of a residue (Alg. 24, lines 1-10); absent groups have the rotation
 * 0 and their parent's origin.
 */
void ff_torsions_to_frames(double frames[8][12], const double backbone[12], double sin_cos[7][2], int aatype);
void ff_torsions_to_frames_backward(double grad_backbone[12], double grad_sin_cos[7][2], double grad_frames[8][12],
                                    const double backbone[12], double sin_cos[7][2], int aatype);
/** Ideal atoms in their frames, times the atom mask (Alg. 24, line 11). */
void ff_frames_to_atom14(double atoms[14][3], double frames[8][12], int aatype);
void ff_frames_to_atom14_backward(double grad_frames[8][12], double grad_atoms[14][3], int aatype);

#ifdef __cplusplus
}
#endif
#endif
