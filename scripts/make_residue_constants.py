"""Write structure/residue_constants.c from a residue_constants.h5 (tables of names and numbers of the 20 residues).

    python3 scripts/make_residue_constants.py ../shared/reference/residue_constants.h5 >structure/residue_constants.c
"""
import sys

import h5py
import numpy as np

# name in C: (name in the file, C type)
TABLES = [
    ('ff_restypes', 'restypes_with_x_and_gap', 'char'),
    ('ff_resnames', 'resnames', 'text'),
    ('ff_atom_types', 'atom_types', 'text'),
    ('ff_restype_atom14_names', 'restype_atom14_names', 'text'),
    ('ff_restype_atom14_to_atom37', 'restype_atom14_to_atom37', 'int8_t'),
    ('ff_restype_atom37_to_atom14', 'restype_atom37_to_atom14', 'int8_t'),
    ('ff_restype_atom14_mask', 'restype_atom14_mask', 'float'),
    ('ff_restype_atom37_mask', 'restype_atom37_mask', 'float'),
    ('ff_restype_atom14_to_rigid_group', 'restype_atom14_to_rigid_group', 'int8_t'),
    ('ff_restype_atom14_rigid_group_positions', 'restype_atom14_rigid_group_positions', 'float'),
    ('ff_restype_rigid_group_default_frame', 'restype_rigid_group_default_frame', 'float'),
    ('ff_restype_rigid_group_base_atom37', 'restype_rigid_group_base_atom37', 'int8_t'),
    ('ff_restype_rigid_group_mask', 'restype_rigid_group_mask', 'float'),
    ('ff_restype_rigid_group_is_ambiguous', 'restype_rigid_group_is_ambiguous', 'float'),
    ('ff_chi_angles_mask', 'chi_angles_mask', 'float'),
    ('ff_chi_pi_periodic', 'chi_pi_periodic', 'float'),
    ('ff_chi_angles_atom_indices', 'chi_angles_atom_indices', 'int8_t'),
    ('ff_restype_atom14_renaming', 'restype_atom14_renaming', 'int8_t'),
    ('ff_restype_atom14_is_ambiguous', 'restype_atom14_is_ambiguous', 'float'),
    ('ff_atom37_van_der_waals_radius', 'atom37_van_der_waals_radius', 'float'),
    ('ff_between_res_bond_length_c_n', 'between_res_bond_length_c_n', 'float'),
    ('ff_between_res_bond_length_stddev_c_n', 'between_res_bond_length_stddev_c_n', 'float'),
    ('ff_between_res_cos_angles_c_n_ca', 'between_res_cos_angles_c_n_ca', 'float'),
    ('ff_between_res_cos_angles_ca_c_n', 'between_res_cos_angles_ca_c_n', 'float'),
    ('ff_atom14_dists_lower_bound', 'atom14_dists_lower_bound_overlap1.5_factor12', 'float'),
    ('ff_atom14_dists_upper_bound', 'atom14_dists_upper_bound_overlap1.5_factor12', 'float'),
    ('ff_hhblits_to_aatype', 'map_hhblits_aatype_to_our_aatype', 'int8_t'),
]


def entry(value, kind):
    if kind == 'text':
        return '"%s"' % value.decode().rstrip('\0')
    if kind == 'char':
        return "'%s'" % value.decode()
    if kind == 'int8_t':
        return str(int(value))
    text = '%.9g' % value
    return text + ('f' if '.' in text or 'e' in text else '.0f')


def braces(array, kind, indent):
    pad = '    ' * indent
    if array.ndim == 1:
        items = [entry(v, kind) for v in array]
        lines, line = [], pad
        for i, item in enumerate(items):
            item += ', ' if i + 1 < len(items) else ''
            if len(line) + len(item) > 112:
                lines.append(line.rstrip())
                line = pad
            line += item
        return '\n'.join(lines + [line.rstrip()])
    parts = []
    for a in array:
        inner = braces(a, kind, indent + 1)
        one_line = a.ndim == 1 and '\n' not in inner
        parts.append('%s{%s}' % (pad, inner.strip()) if one_line else '%s{\n%s\n%s}' % (pad, inner, pad))
    return ',\n'.join(parts)


def main():
    print('/* residue_constants.c - written by scripts/make_residue_constants.py; do not edit. */')
    print('#include "structure/residue_constants.h"')
    with h5py.File(sys.argv[1]) as file:
        for name, source, kind in TABLES:
            array = np.asarray(file[source])
            ctype = {'text': 'char', 'float': 'float', 'int8_t': 'int8_t', 'char': 'char'}[kind]
            dims = ''.join('[%d]' % n for n in array.shape) + ('[4]' if kind == 'text' else '')
            print('\nconst %s %s%s = {\n%s};' % (ctype, name, dims, braces(array, kind, 1)))


main()
