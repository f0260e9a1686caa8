#!/usr/bin/env python3
"""make_golden_subset.py SOURCE TARGET MODEL_TARGET: copies the project's own reference cases out of the whole set.

Of every family of the trunk: all `tiny` cases, one `real` one and some long ones, written packed to TARGET/FAMILY.h5 with
the attributes of SOURCE/FAMILY.h5. Of structure, heads, losses and whole model: the small cases, to MODEL_TARGET. Needs h5py.
"""
import os
import sys

import h5py

REAL = {
    "primitives": "attention_core_real",
    "msa_attention": "column_global_real",
    "transition": "extra_msa_real",
    "outer_product_mean": "extra_msa_real",
    "triangle": "att_ending_real",
    "evoformer_block": "extra_real",
    "evoformer_stack": None,
    "embeddings": "real",
    "template": "torsion_real",
    "embeddings_and_evoformer": None,
}

MODEL = {
    "losses": ("tiny",),
    "geometry": ("",),
    "ipa": ("tiny",),
    "structure_module": ("tiny",),
    "heads": ("tiny",),
    "whole_model_tiny": ("loss_recycle1", "no_templates_recycle1", "recycle3"),
}

LONG = ("attention_core_long", "column_global_long", "column_long", "msa_long")


def wanted(family, case):
    if family in MODEL:
        return any(part in case for part in MODEL[family]) and case != "recycle3_released"
    return "tiny" in case or case == REAL[family] or case in LONG


def copy_attributes(old, new):
    for name, value in old.attrs.items():
        new.attrs[name] = value


def copy_group(old, new):
    copy_attributes(old, new)
    for name, item in old.items():
        if isinstance(item, h5py.Group):
            copy_group(item, new.create_group(name))
        elif item.size > 256:
            new.create_dataset(name, data=item[()], compression="gzip", compression_opts=9, shuffle=True)
        else:
            new.create_dataset(name, data=item[()])


def main(source, families, target):
    os.makedirs(target, exist_ok=True)
    total = 0
    for family in families:
        path = os.path.join(target, family + ".h5")
        # the "latest" format has much less overhead in files of many small arrays; every library since 1.10 reads it
        with h5py.File(os.path.join(source, family + ".h5"), "r") as old, \
                h5py.File(path, "w", libver=("v110", "v110")) as new:
            copy_attributes(old, new)
            for case in old:
                if wanted(family, case):
                    copy_group(old[case], new.create_group(case))
        total += os.path.getsize(path)
        print(f"{family:26s} {os.path.getsize(path):9d} bytes")
    print(f"{'all':26s} {total:9d} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], REAL, sys.argv[2])
    main(sys.argv[1], MODEL, sys.argv[3])
