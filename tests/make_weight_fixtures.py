#!/usr/bin/env python3
"""make_weight_fixtures.py TARGET: writes the small weight files that tests/data/weights holds. Needs NumPy and torch.

Number k of an array (C order) is (k - 5) / 8 where the type has fractions, k - 5 for signed integers and k for unsigned.
openfold.pt holds the published model_1_ptm with small axes (two blocks, other lengths n -> 2 + n % 3); number k of AlphaFold's
array NAME is there (fnv1a(NAME) % 1000 + k) / 4.
"""
import collections
import os
import sys
import zipfile

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


def torch_types(target):
    import torch
    base = (torch.arange(24, dtype=torch.float32) - 5) / 8
    whole = base.reshape(2, 3, 4)
    n = torch.arange(24)
    state = collections.OrderedDict()
    for name, dtype in (("f2", torch.float16), ("bf2", torch.bfloat16), ("f4", torch.float32), ("f8", torch.float64)):
        state[name] = whole.to(dtype)
    for name, dtype in (("i1", torch.int8), ("i2", torch.int16), ("i4", torch.int32), ("i8", torch.int64)):
        state[name] = (n - 5).reshape(2, 3, 4).to(dtype)
    state["u1"] = n.reshape(2, 3, 4).to(torch.uint8)
    state["bool"] = n % 2 == 1
    state["transposed"] = whole.permute(0, 2, 1).contiguous().permute(0, 2, 1)
    state["view"] = torch.cat([torch.full((7,), 99.0), base, torch.full((3,), 99.0)])[7:31].reshape(2, 3, 4)
    state["expanded"] = torch.tensor([[1.5], [2.5]]).expand(2, 3)
    state["scalar"] = torch.tensor(-0.625)
    state["empty"] = torch.zeros(0, 37)
    state["parameter"] = torch.nn.Parameter(whole)
    torch.save({"ema": {"params": state, "decay": 0.999}, "step": 7, "names": ["a", ("b", None, True)], 3: {"x": base}},
               os.path.join(target, "types.pt"))


LAYER_NORM = {"scale": "weight", "offset": "bias"}
LINEAR = {"weights": "weight", "bias": "bias"}
ATTENTION = {"query_w": "linear_q.weight", "key_w": "linear_k.weight", "value_w": "linear_v.weight",
             "output_w": "linear_o.weight", "output_b": "linear_o.bias"}
GATED = dict(ATTENTION, gating_w="linear_g.weight", gating_b="linear_g.bias")


def under(prefix, leaves):
    return {k: f"{prefix}.{v}" for k, v in leaves.items()}


def triangle(name, left, right):
    m = {"layer_norm_input": under(f"{name}.layer_norm_in", LAYER_NORM)}
    for side, letter in (("left", left), ("right", right)):
        m[f"{side}_projection"] = under(f"{name}.linear_{letter}_p", LINEAR)
        m[f"{side}_gate"] = under(f"{name}.linear_{letter}_g", LINEAR)
    m["center_layer_norm"] = under(f"{name}.layer_norm_out", LAYER_NORM)
    m["output_projection"] = under(f"{name}.linear_z", LINEAR)
    m["gating_linear"] = under(f"{name}.linear_g", LINEAR)
    return m


def triangle_attention(name):
    return {"query_norm": under(f"{name}.layer_norm", LAYER_NORM), "feat_2d_weights": f"{name}.linear.weight",
            "attention": under(f"{name}.mha", GATED)}


def transition(name):
    return {"input_layer_norm": under(f"{name}.layer_norm", LAYER_NORM), "transition1": under(f"{name}.linear_1", LINEAR),
            "transition2": under(f"{name}.linear_2", LINEAR)}


def pair_modules(pair):
    return {"triangle_multiplication_outgoing": triangle(f"{pair}tri_mul_out", "a", "b"),
            "triangle_multiplication_incoming": triangle(f"{pair}tri_mul_in", "b", "a"),
            "triangle_attention_starting_node": triangle_attention(f"{pair}tri_att_start"),
            "triangle_attention_ending_node": triangle_attention(f"{pair}tri_att_end"),
            "pair_transition": transition(f"{pair}pair_transition")}


def block(release, extra):
    msa = "core." if release == 1 else ""
    pair = {0: "", 1: "core.", 2: "pair_stack."}[release]
    column = "msa_att_col" if extra or release == 0 else "msa_att_col._msa_att"
    m = pair_modules(pair)
    m["msa_row_attention_with_pair_bias"] = {
        "query_norm": under("msa_att_row.layer_norm_m", LAYER_NORM), "attention": under("msa_att_row.mha", GATED),
        "feat_2d_norm": under("msa_att_row.layer_norm_z", LAYER_NORM), "feat_2d_weights": "msa_att_row.linear_z.weight"}
    m["msa_column_global_attention" if extra else "msa_column_attention"] = {
        "query_norm": under(f"{column}.layer_norm_m", LAYER_NORM),
        "attention": under(f"{column}.global_attention" if extra else f"{column}.mha", GATED)}
    m["msa_transition"] = transition(f"{msa}msa_transition")
    m["outer_product_mean"] = {
        "layer_norm_input": under(f"{msa}outer_product_mean.layer_norm", LAYER_NORM),
        "left_projection": under(f"{msa}outer_product_mean.linear_1", LINEAR),
        "right_projection": under(f"{msa}outer_product_mean.linear_2", LINEAR),
        "output_w": f"{msa}outer_product_mean.linear_out.weight", "output_b": f"{msa}outer_product_mean.linear_out.bias"}
    return m


def openfold_names(release):
    """AlphaFold's names as a nested dictionary to OpenFold's module paths; {} is the block. Releases 0, 1, 2."""
    t = "template_embedder." if release == 2 else ""
    torsion = "template_single_embedder" if release == 2 else "template_angle_embedder"
    points = ".linear" if release == 2 else ""
    sm, res = "structure_module", "structure_module.angle_resnet"
    extra = "extra_msa_stack.stack.blocks.{}" if release == 0 else "extra_msa_stack.blocks.{}"
    pair_stack = {k: v for k, v in pair_modules("").items()}
    return {
        "evoformer": {
            "preprocess_1d": under("input_embedder.linear_tf_m", LINEAR),
            "preprocess_msa": under("input_embedder.linear_msa_m", LINEAR),
            "left_single": under("input_embedder.linear_tf_z_i", LINEAR),
            "right_single": under("input_embedder.linear_tf_z_j", LINEAR),
            "prev_pos_linear": under("recycling_embedder.linear", LINEAR),
            "prev_msa_first_row_norm": under("recycling_embedder.layer_norm_m", LAYER_NORM),
            "prev_pair_norm": under("recycling_embedder.layer_norm_z", LAYER_NORM),
            "pair_activiations": under("input_embedder.linear_relpos", LINEAR),
            "template_embedding": {
                "single_template_embedding": {
                    "embedding2d": under(f"{t}template_pair_embedder.linear", LINEAR),
                    "template_pair_stack": {"__layer_stack_no_state": nest(f"{t}template_pair_stack.blocks.{{}}", pair_stack)},
                    "output_layer_norm": under(f"{t}template_pair_stack.layer_norm", LAYER_NORM)},
                "attention": under(f"{t}template_pointwise_att.mha", ATTENTION)},
            "extra_msa_activations": under("extra_msa_embedder.linear", LINEAR),
            "extra_msa_stack": nest(extra, block(release, True)),
            "template_single_embedding": under(f"{t}{torsion}.linear_1", LINEAR),
            "template_projection": under(f"{t}{torsion}.linear_2", LINEAR),
            "evoformer_iteration": nest("evoformer.blocks.{}", block(release, False)),
            "single_activations": under("evoformer.linear", LINEAR)},
        "structure_module": {
            "single_layer_norm": under(f"{sm}.layer_norm_s", LAYER_NORM), "initial_projection": under(f"{sm}.linear_in", LINEAR),
            "pair_layer_norm": under(f"{sm}.layer_norm_z", LAYER_NORM),
            "fold_iteration": {
                "invariant_point_attention": {
                    "q_scalar": under(f"{sm}.ipa.linear_q", LINEAR), "kv_scalar": under(f"{sm}.ipa.linear_kv", LINEAR),
                    "q_point_local": under(f"{sm}.ipa.linear_q_points{points}", LINEAR),
                    "kv_point_local": under(f"{sm}.ipa.linear_kv_points{points}", LINEAR),
                    "trainable_point_weights": f"{sm}.ipa.head_weights", "attention_2d": under(f"{sm}.ipa.linear_b", LINEAR),
                    "output_projection": under(f"{sm}.ipa.linear_out", LINEAR)},
                "attention_layer_norm": under(f"{sm}.layer_norm_ipa", LAYER_NORM),
                "transition": under(f"{sm}.transition.layers.0.linear_1", LINEAR),
                "transition_1": under(f"{sm}.transition.layers.0.linear_2", LINEAR),
                "transition_2": under(f"{sm}.transition.layers.0.linear_3", LINEAR),
                "transition_layer_norm": under(f"{sm}.transition.layer_norm", LAYER_NORM),
                "affine_update": under(f"{sm}.bb_update.linear", LINEAR),
                "rigid_sidechain": {
                    "input_projection": under(f"{res}.linear_in", LINEAR),
                    "input_projection_1": under(f"{res}.linear_initial", LINEAR),
                    "resblock1": under(f"{res}.layers.0.linear_1", LINEAR), "resblock2": under(f"{res}.layers.0.linear_2", LINEAR),
                    "resblock1_1": under(f"{res}.layers.1.linear_1", LINEAR),
                    "resblock2_1": under(f"{res}.layers.1.linear_2", LINEAR),
                    "unnormalized_angles": under(f"{res}.linear_out", LINEAR)}}},
        "predicted_lddt_head": {
            "input_layer_norm": under("aux_heads.plddt.layer_norm", LAYER_NORM), "act_0": under("aux_heads.plddt.linear_1", LINEAR),
            "act_1": under("aux_heads.plddt.linear_2", LINEAR), "logits": under("aux_heads.plddt.linear_3", LINEAR)},
        "distogram_head": {"half_logits": under("aux_heads.distogram.linear", LINEAR)},
        "experimentally_resolved_head": {"logits": under("aux_heads.experimentally_resolved.linear", LINEAR)},
        "masked_msa_head": {"logits": under("aux_heads.masked_msa.linear", LINEAR)},
        "predicted_aligned_error_head": {"logits": under("aux_heads.tm.linear", LINEAR)}}


def nest(prefix, tree):
    return {k: nest(prefix, v) if isinstance(v, dict) else f"{prefix}.{v}" for k, v in tree.items()}


def flatten(tree, prefix=""):
    for k, v in tree.items():
        yield from flatten(v, f"{prefix}{k}/") if isinstance(v, dict) else [(prefix + k, v)]


def to_openfold(name, array):
    """One block of AlphaFold's array in OpenFold's layout."""
    leaf = name.rsplit("/", 1)[1]
    if "attention/" in name and leaf in ("query_w", "key_w", "value_w", "gating_w"):
        return array.reshape(array.shape[0], -1).T
    if leaf == "output_w":
        return array.reshape(-1, array.shape[-1]).T
    if leaf in ("weights", "feat_2d_weights"):
        return array.T
    return array.reshape(-1)


def fnv1a(text):
    h = 0xcbf29ce484222325
    for c in text.encode():
        h = (h ^ c) * 0x100000001b3 % 2**64
    return h


def small_arrays(manifest):
    """{name: array} of the fixture."""
    arrays = {}
    for line in open(manifest):
        name, shape, _ = line.split()
        shape = [2 + int(n) % 3 for n in shape.split(",")]
        if any(s in name for s in ("evoformer_iteration/", "extra_msa_stack/", "__layer_stack")):
            shape[0] = 2
        k = np.arange(int(np.prod(shape)))
        arrays[name] = ((fnv1a(name) % 1000 + k) / 4).astype(np.float32).reshape(shape)
    return arrays


def openfold_state(manifest, release):
    import torch
    arrays, names, state = small_arrays(manifest), dict(flatten(openfold_names(release))), collections.OrderedDict()
    assert arrays.keys() == names.keys()
    for name, path in names.items():
        blocks = arrays[name] if "{}" in path else [arrays[name]]
        for i, one in enumerate(blocks):
            state[path.format(i)] = torch.from_numpy(np.ascontiguousarray(to_openfold(name, one)))
    return state


def pack(source, target):
    """The same archive deflated: torch stores, and a fixture should be small."""
    with zipfile.ZipFile(source) as a, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as b:
        for item in a.infolist():
            b.writestr(zipfile.ZipInfo(item.filename), a.read(item), zipfile.ZIP_DEFLATED)


def openfold_file(target, manifest):
    import torch
    state = openfold_state(manifest, 2)
    flat = torch.cat([t.reshape(-1) for t in state.values()])  # one storage, of which all tensors are views
    at, views = 0, collections.OrderedDict()
    for name, t in state.items():
        views["model." + name] = flat[at:at + t.numel()].reshape(t.shape)
        at += t.numel()
    torch.save({"ema": {"params": views, "decay": 0.999}}, os.path.join(target, "openfold.tmp"))
    pack(os.path.join(target, "openfold.tmp"), os.path.join(target, "openfold.pt"))
    os.unlink(os.path.join(target, "openfold.tmp"))


def other_releases(target, manifest):
    """Not kept: plain state_dicts of all releases, and the same weights as .npz."""
    import torch
    for release in range(3):
        torch.save(openfold_state(manifest, release), os.path.join(target, f"release{release}.pt"))
    arrays = {"alphafold/alphafold_iteration/{}//{}".format(*k.rsplit("/", 1)): v for k, v in small_arrays(manifest).items()}
    np.savez(os.path.join(target, "openfold.npz"), **arrays)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "weights", "model_1_ptm.txt")
    numpy_files(sys.argv[1])
    torch_types(sys.argv[1])
    openfold_file(sys.argv[1], here)
    if "--all" in sys.argv:
        other_releases(sys.argv[1], here)
