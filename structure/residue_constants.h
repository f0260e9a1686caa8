/* residue_constants.h - names and numbers of the 20 residues (AlphaFold's residue_constants; ideal geometry after Engh & Huber).
 *
 * aatype: 0..19 = A R N D C Q E G H I L K M F P S T W Y V, 20 = X (unknown); MSA codes add 21 = gap, 22 = [MASK]. Å and radian. */
#ifndef FF_STRUCTURE_RESIDUE_CONSTANTS_H
#define FF_STRUCTURE_RESIDUE_CONSTANTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_NUM_RESTYPES = 21, FF_NUM_ATOM14 = 14, FF_NUM_ATOM37 = 37, FF_NUM_GROUPS = 8, FF_NUM_TORSIONS = 7, FF_AATYPE_X = 20 };

/* atom37 indices that code names; atom14 has N, CA, C, O, CB in slots 0..4 */
enum { FF_ATOM_N = 0, FF_ATOM_CA = 1, FF_ATOM_C = 2, FF_ATOM_CB = 3, FF_ATOM_O = 4 };

extern const char ff_restypes[22];                   /* letters by code: 20 residues, X, '-' */
extern const char ff_resnames[21][4];                /* "ALA" ..., "UNK" */
extern const char ff_atom_types[37][4];              /* atom37 order */
extern const char ff_restype_atom14_names[21][14][4]; /* "" = unused slot */
extern const int8_t ff_restype_atom14_to_atom37[21][14]; /* 0 where unused */
extern const int8_t ff_restype_atom37_to_atom14[21][37]; /* 0 where absent */
extern const float ff_restype_atom14_mask[21][14];
extern const float ff_restype_atom37_mask[21][37];
extern const int8_t ff_restype_atom14_to_rigid_group[21][14]; /* 0 backbone, 3 psi, 4..7 chi1..4 */
extern const float ff_restype_atom14_rigid_group_positions[21][14][3]; /* in the frame of its group */
extern const float ff_restype_rigid_group_default_frame[21][8][4][4];  /* in the parent's frame; zero where absent */
extern const int8_t ff_restype_rigid_group_base_atom37[21][8][3];      /* point on -x, origin, point in xy; -1 = none */
extern const float ff_restype_rigid_group_mask[21][8];
extern const float ff_restype_rigid_group_is_ambiguous[21][8]; /* turned by pi in the alternative truth */
extern const float ff_chi_angles_mask[21][4];
extern const float ff_chi_pi_periodic[21][4];
extern const int8_t ff_chi_angles_atom_indices[21][4][4]; /* atom37; 0 0 0 0 where undefined */
extern const int8_t ff_restype_atom14_renaming[21][14];   /* slot whose place the alternative naming takes */
extern const float ff_restype_atom14_is_ambiguous[21][14];
extern const float ff_atom37_van_der_waals_radius[37];
extern const float ff_between_res_bond_length_c_n[2]; /* general, next residue proline */
extern const float ff_between_res_bond_length_stddev_c_n[2];
extern const float ff_between_res_cos_angles_c_n_ca[2]; /* mean, standard deviation */
extern const float ff_between_res_cos_angles_ca_c_n[2];
extern const float ff_atom14_dists_lower_bound[21][14][14]; /* overlap 1.5 Å, 12 standard deviations */
extern const float ff_atom14_dists_upper_bound[21][14][14];
extern const int8_t ff_hhblits_to_aatype[22]; /* HHblits code to MSA code */

#ifdef __cplusplus
}
#endif
#endif
