#!/usr/bin/env python3
"""make_weight_fixtures.py TARGET: writes the small weight files that tests/data/weights holds. Needs NumPy and torch.

Number k of an array (C order) is (k - 5) / 8 where the type has fractions, k - 5 for signed integers and k for unsigned.
"""
import os
import sys

import numpy as np


def numpy_files(target):
    n = np.arange(24)
    arrays = {t: ((n - 5) / 8).astype(t).reshape(2, 3, 4) for t in ("f2", "f4", "f8")}
    arrays.update({t: (n - 5).astype(t).reshape(2, 3, 4) for t in ("i1", "i2", "i4", "i8")})
    arrays.update({t: n.astype(t).reshape(2, 3, 4) for t in ("u1", "u2", "u4", "u8")})
    arrays["bool"] = (n % 2).astype(bool)
    arrays["fortran"] = np.asfortranarray(arrays["f4"])
    arrays["fortran_f8"] = np.asfortranarray(arrays["f8"])
    arrays["scalar"] = np.float32(-0.625)
    arrays["empty"] = np.zeros((0, 37), np.float32)
    arrays["scope/layer//weights"] = arrays["f4"][0]
    np.savez(os.path.join(target, "types.npz"), **arrays)
    np.savez_compressed(os.path.join(target, "types_deflated.npz"), **arrays)
    np.savez(os.path.join(target, "refused.npz"), big=np.zeros(3, ">f4"), text=np.array(["a"]), complex=np.zeros(2, "c8"),
             record=np.zeros(2, [("a", "f4"), ("b", "i4")]))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    numpy_files(sys.argv[1])
