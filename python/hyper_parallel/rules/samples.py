"""A sample call of each row, for tables and documents.

A row is looked up by its op, else by its text, else by the text's first words. Sizes are such that
what belongs together is seen: 8 ranks' worth of rows, 16 of columns.
"""

from __future__ import annotations

import ast
import re
from typing import Any

__all__ = ["parse_attrs", "parse_inputs", "sample"]

# operands | attributes. Operands are separated by ";", "-" is absent, { } holds a list.
_BY_TEXT = {
    "add_where": "f32[8, 16]; bool[4, 1]; i64[4]; f32[4, 16]",
    "attention": "f32[2, 4, 8, 16]; f32[2, 4, 12, 16]; f32[2, 4, 12, 16]",
    "batch_norm": "f32[8, 4, 6]; f32[4]; f32[4] | training=False",
    "batch_statistics": "f32[8, 4, 6]; f32[4]; f32[4]; f32[4]; f32[4] | training=True",
    "block_diag": "{f32[8, 16]; f32[4, 8]}",
    "cat": "{f32[8, 16]; f32[4, 16]}",
    "channel_shuffle": "f32[8, 4, 6, 6] | groups=2",
    "chunk_cat": "{f32[8, 16]; f32[8, 4]} | dim=1 num_chunks=2",
    "columns": "f32[8, 4, 6, 6] | kernel_size=[2, 2] dilation=[1, 1] padding=[0, 0] stride=[2, 2]",
    "columns back": (
        "f32[8, 16, 9] | "
        "output_size=[6, 6] kernel_size=[2, 2] dilation=[1, 1] padding=[0, 0] stride=[2, 2]"
    ),
    "complex": "f32[8, 2]",
    "complex real": "c64[8]",
    "convolution": (
        "f32[8, 4, 16, 16]; f32[6, 4, 3, 3]; f32[6] | "
        "stride=[1, 1] padding=[0, 0] dilation=[1, 1] transposed=False output_padding=[0, 0] "
        "groups=1"
    ),
    "convolution 1": "f32[8, 4, 16]; f32[6, 4, 3]; f32[6]",
    "convolution 2": "f32[8, 4, 16, 16]; f32[6, 4, 3, 3]; f32[6]",
    "convolution 3": "f32[8, 4, 8, 8, 8]; f32[6, 4, 3, 3, 3]; f32[6]",
    "copy": "f32[8, 16]; f32[8, 16]",
    "ctc_loss": "f32[12, 8, 16]; i64[8, 4] | reduction=2",
    "diag_embed": "f32[8, 16]",
    "diagonal": "f32[4, 8, 8] | dim1=1 dim2=2",
    "draw": "f32[8, 16]",
    "dropout": "f32[8, 16] | p=0.5 train=True",
    "dynamic": "i64[8]",
    "each": "{f32[8, 16]; f32[4]}",
    "eigh": "f32[4, 8, 8]",
    "einsum": "{f32[8, 16]; f32[16, 4]} | equation='mk,kn->mn'",
    "elements_of_first": "f32[8, 16]; f32[4]",
    "embedding": "f32[100, 16]; i64[2, 8]",
    "embedding_bag": "f32[100, 16]; i64[32]; i64[8]",
    "expand": "f32[8, 1] | size=[8, 16]",
    "flatten": "f32[8, 4, 16] | start_dim=1",
    "flip_or_roll": "f32[8, 16] | dims=[0] shifts=[1]",
    "fused": "{f32[8]}; {f32[8]}; {f32[8]}; {f32[8]}; {}; {f32[]}",
    "gather": "f32[8, 16]; i64[8, 4] | dim=1",
    "gather_nd": "f32[8, 4, 16]; i64[6, 2]",
    "glu": "f32[8, 16] | dim=1",
    "group_norm": "f32[8, 4, 6]; f32[4]; f32[4] | num_groups=2",
    "group_norm native": "f32[8, 4, 6]; f32[4]; f32[4] | N=8 C=4 HxW=6 group=2",
    "grouped_mm": "f32[16, 8]; f32[4, 8, 16]; i32[4]",
    "histc": "f32[8] | bins=4 min=-1 max=1",
    "histogram counts edges": "f32[8, 16] | bins=4",
    "histogram given counts edges": "f32[8, 16]; f32[5]",
    "histogram points": "f32[8, 2] | bins=[4, 3]",
    "histogram points given counts": "f32[8, 2]; f32[5]; f32[4]",
    "host": "f32[1]",
    "index": "f32[8, 16]; i64[4]",
    "index_put": "f32[8, 16]; i64[4]; f32[4, 16] | accumulate=True",
    "index_select": "f32[8, 16]; i64[4] | dim=0",
    "index_where": "f32[8, 16]; bool[4, 1]; i64[4] | fill=0",
    "inner": "f32[4, 8]; f32[6, 8]",
    "label_smooth": "f32[8, 16]",
    "like": "f32[8, 16]",
    "linear_cross_entropy": "f32[8, 16]; f32[100, 16]; i64[8] | reduction='sum'",
    "loss_of_classes cross_entropy": "f32[8, 100]; i64[8] | reduction=2",
    "loss_of_classes nll_loss": "f32[8, 100]; i64[8] | reduction=2",
    "loss_of_pairs": "f32[8, 16]; f32[8, 16] | reduction=2",
    "loss_with_softmax": "f32[8, 100]; i64[8, 1]",
    "lstsq": "f32[4, 8, 6]; f32[4, 8, 3]",
    "lu": "f32[4, 8, 6]",
    "lu_unpack": "f32[4, 8, 8]; i32[4, 8]",
    "margin": "f32[8, 16]; i64[8] | reduction=2",
    "margin native": "f32[8, 16]; i64[8, 16] | reduction=2",
    "matmul": "f32[4, 8, 16]; f32[16, 32]",
    "movedim": "f32[4, 8, 16] | source=[0] destination=[2]",
    "multinomial": "f32[8, 16] | num_samples=2",
    "narrow": "f32[8, 16] | dim=1 start=0 length=4",
    "new": "f32[8, 16] | size=[8, 16]",
    "new strided": "f32[8, 16] | size=[8, 16]",
    "nonzero": "f32[8, 16]",
    "nonzero_static": "f32[8, 16] | size=4",
    "norm": "f32[8, 16]; f32[16] | normalized_shape=[16]",
    "norm ! native": "f32[8, 16]; f32[16]; f32[16] | normalized_shape=[16]",
    "norm layer_norm": "f32[8, 16]; f32[16]; f32[16] | normalized_shape=[16]",
    "one_hot": "i64[8] | num_classes=4",
    "pad": "f32[8, 16] | pad=[1, 1]",
    "part": "f32[8, 16]; f32[16] | dim=0 index=1",
    "part diagonal": "f32[4, 8, 8]; f32[8, 4] | dim1=0 dim2=1",
    "part slice": "f32[8, 16]; f32[8, 4] | dim=1 start=0 end=4",
    "pdist": "f32[8, 16]",
    "permute": "f32[4, 8, 16] | dims=[2, 0, 1]",
    "pick": "f32[8, 16] | dim=1",
    "pixels": "f32[8, 16, 6, 6] | upscale_factor=2",
    "pixels back": "f32[8, 4, 6, 6] | downscale_factor=2",
    "pointwise addcdiv": "f32[8, 16]; f32[8, 16]; f32[8, 16]",
    "pointwise addcmul": "f32[8, 16]; f32[8, 16]; f32[8, 16]",
    "pointwise additive": "f32[8, 16]; f32[8, 16]",
    "pointwise blend": "f32[8, 16]; f32[8, 16]",
    "pointwise choose 0 2": "f32[8, 16]; bool[8, 16]; f32[]",
    "pointwise choose 1 2": "bool[8, 16]; f32[8, 16]; f32[8, 16]",
    "pointwise first": "f32[8, 16]; f32[8, 16]",
    "pointwise multilinear": "f32[8, 16]; f32[8, 16]",
    "pointwise zero=other 1": "bool[8, 16]; f32[8, 16] | other=0",
    "pointwise zero=self 1": "bool[8, 16]; f32[8, 16] | self=0",
    "pointwise zero=value 0": "f32[8, 16]; bool[8, 16] | value=0",
    "pool 1": "f32[8, 4, 16] | kernel_size=[2]",
    "pool 2": "f32[8, 4, 16, 16] | kernel_size=[2, 2]",
    "pool 3": "f32[8, 4, 8, 8, 8] | kernel_size=[2, 2, 2]",
    "pool_back": "f32[8, 4, 8, 8]; f32[8, 4, 16, 16]; i64[8, 4, 8, 8]",
    "prelu": "f32[8, 16]; f32[16]",
    "qr": "f32[4, 8, 6]",
    "recurrent": "f32[6, 8, 4]; f32[1, 8, 3]; {f32[9, 4]; f32[9, 3]}",
    "recurrent cell": "f32[8, 4]; f32[8, 3]; f32[9, 4]; f32[9, 3]",
    "recurrent cell lstm": "f32[8, 4]; {f32[8, 3]; f32[8, 3]}; f32[12, 4]; f32[12, 3]",
    "recurrent lstm": ("f32[6, 8, 4]; {f32[1, 8, 3]; f32[1, 8, 3]}; {f32[12, 4]; f32[12, 3]}"),
    "reduce": "f32[8, 16] | dim=[1]",
    "renorm": "f32[8, 16] | p=2.0 dim=0 maxnorm=1.0",
    "repeat": "f32[8, 16] | repeats=[2, 1]",
    "repeat_interleave": "f32[8, 16] | repeats=2 dim=0",
    "repeats": "f32[8, 16]; i64[8] | dim=0",
    "resample 1": "f32[8, 4, 16] | output_size=[8]",
    "resample 2": "f32[8, 4, 16, 16] | output_size=[8, 8]",
    "resample 3": "f32[8, 4, 8, 8, 8] | output_size=[4, 4, 4]",
    "right_side": "f32[4, 8, 8]; i32[4, 8]; f32[4, 8, 3]",
    "rope": "f32[2, 8, 4, 16]; f32[2, 8, 4, 16]; -; f32[1, 8, 1, 16]; f32[1, 8, 1, 16]",
    "rot90": "f32[8, 16] | k=1 dims=[0, 1]",
    "rrelu": "f32[8, 16]; f32[8, 16] | training=True",
    "same": "f32[8, 16]",
    "scatter": "f32[8, 16]; i64[8, 4]; f32[8, 4] | dim=1",
    "scatter value": "f32[8, 16]; i64[8, 4] | dim=1",
    "scatter_nd_add": "f32[8, 16]; i64[6, 1]; f32[6, 16]",
    "searchsorted": "f32[8, 16]; f32[8, 4]",
    "segment_reduce": "f32[8, 16]; i64[3] | axis=0",
    "select": "f32[8, 16] | dim=0 index=1",
    "slice": "f32[8, 16] | dim=1 start=0 end=4",
    "slices": "f32[8, 4, 16] | axes=[1] starts=[0] ends=[2]",
    "solve": "f32[4, 8, 8]; f32[4, 8, 3]",
    "split chunks": "f32[8, 16] | chunks=2",
    "split size": "f32[8, 16] | split_size=4",
    "split sizes": "f32[8, 16] | split_sizes=[2, 6]",
    "squeeze": "f32[8, 1, 16] | dim=[1]",
    "stack": "{f32[8, 16]; f32[8, 16]}",
    "statistics": "f32[8, 4, 6]; f32[4]; f32[4]",
    "statistics groups": "f32[8, 4, 6]; f32[4]; f32[4] | num_groups=2",
    "steps": "f32[]; f32[] | steps=8",
    "strided": "f32[8, 16] | size=[8, 4]",
    "strided scatter": "f32[8, 16]; f32[8, 4] | size=[8, 4] stride=[16, 1]",
    "svd": "f32[4, 8, 6]",
    "take": "f32[8, 16]; i64[4]",
    "transform": "f32[8, 16] | dim=[1]",
    "transpose": "f32[8, 16] | dim0=0 dim1=1 axis0=0 axis1=1",
    "triangle": "f32[4, 8, 16]",
    "type_as": "f32[8, 16]; f32[4]",
    "unbind": "f32[2, 16]",
    "unfold": "f32[8, 16] | dimension=1 size=4 step=4",
    "unfold_back": "f32[4, 16, 2] | input_sizes=[8, 16] dim=0 size=2 step=2",
    "unique": "i64[8, 16]",
    "unsqueeze": "f32[8, 16] | dim=1",
    "view": "f32[8, 16] | size=[8, 4, 4] shape=[8, 4, 4]",
    "whole": "f32[8]; bool[8]; f32[8]",
}

_BY_OP = {
    "aten::conv_transpose1d": "f32[8, 4, 16]; f32[4, 6, 3]; f32[6]",
    "aten::conv_transpose2d.input": "f32[8, 4, 16, 16]; f32[4, 6, 3, 3]; f32[6]",
    "aten::conv_transpose3d.input": "f32[8, 4, 8, 8, 8]; f32[4, 6, 3, 3, 3]; f32[6]",
    "aten::linalg_pinv.atol_rtol_tensor": "f32[4, 8, 6]; f32[4]; f32[4]",
    "aten::addbmm": "f32[8, 32]; f32[4, 8, 16]; f32[4, 16, 32]",
    "aten::index_copy": "f32[8, 16]; i64[4]; f32[4, 16] | dim=0",
    "aten::index_add": "f32[8, 16]; i64[4]; f32[4, 16] | dim=0",
    "aten::index_fill.int_Scalar": "f32[8, 16]; i64[4] | dim=0",
    "aten::linalg_inv": "f32[4, 8, 8]",
    "aten::linalg_solve_triangular": "f32[4, 8, 8]; f32[4, 8, 3]",
    "aten::masked_select": "f32[8]; bool[8]",
    "aten::nll_loss2d": "f32[8, 100, 4, 4]; i64[8, 4, 4] | reduction=2",
    "hyper_parallel::roi_align": (
        "f32[2, 4, 8, 8]; f32[6, 4]; i64[2] | pooled_height=3 pooled_width=3"
    ),
}

# Elementwise ops of two tensors whose names do not say so.
_TWO = """
 atan2 arctan2 bitwise_and bitwise_or bitwise_xor copysign eq floor_divide fmax fmin fmod gcd ge
 greater greater_equal gt heaviside hypot igamma igammac isclose lcm le less less_equal logaddexp
 logaddexp2 logical_and logical_or logical_xor lt maximum minimum ne nextafter not_equal remainder
 xlogy
"""

_SIZES = {"m": 8, "k": 16, "n": 32, "b": 4, "d": 16, "v": 100, "t": 4}


def _from_letters(rule: str) -> str:
    """Make operands for a rule in letters."""
    operands = []
    for operand in rule.split("->")[0].split(","):
        sizes = []
        for dim in re.sub(r"[*+?^#]", "", operand).split():
            letter = re.split(r"[!~@]", dim)[0]
            sizes += (
                ["8"] if letter == "..." else [] if letter == "()" else [str(_SIZES.get(letter, 8))]
            )
        operands.append(f"f32[{', '.join(sizes)}]")
    places = {name: value or "1" for name, value in re.findall(r"@(\w+)(?:=(-?\d+))?", rule)}
    places |= {name: "2" for name in re.findall(r"_=(\w+)", rule)}
    attrs = " ".join(f"{name}={value}" for name, value in places.items())
    return "; ".join(operands) + (f" | {attrs}" if attrs else "")


def _batched(words: list[str]) -> str:
    """Make operands for a row of batched matrices: ``batched mq mm -> mq``."""
    operands = []
    for word in words[: words.index("->")]:
        sizes = ["4", *("8" if letter in "mnrst" else "3" for letter in word.strip("."))]
        operands.append(f"f32[{', '.join(sizes)}]")
    return "; ".join(operands)


def sample(op: str, rule: str) -> str:
    """Find the sample call of a row, as text: operands, and attributes behind a bar.

    Raises:
        KeyError: there is none.
    """
    name = op.partition("::")[2]
    if op in _BY_OP:
        return _BY_OP[op]
    if "->" in rule and not rule.startswith("batched"):
        return _from_letters(rule)
    words = rule.split()
    if words[0] == "pointwise" and words[1:2] in ([], ["monotone"], ["quotient"]):
        base, _, overload = name.partition(".")
        two = overload.startswith("Tensor") and not overload.endswith("Scalar")
        two = (
            two
            or overload in ("other", "Scalar_Tensor", "Tensor_mode")
            or re.search(rf"\b{base}\b", _TWO) is not None
        )
        two = two and not overload.startswith("Scalar")
        return "f32[8, 16]; f32[8, 16]" if two else "f32[8, 16]"
    if words[0] == "pointwise" and rule not in _BY_TEXT:
        return "f32[8, 16]"
    if words[0] == "batched":
        return _batched(words[1:])
    if words[0] == "each":
        lists = 2 if ".List" in name or ".Tensor" in name else 1
        lists = 3 if "addc" in name else 2 if words[1].startswith(("copy", "lerp")) else lists
        return "; ".join([_BY_TEXT["each"]] * lists)
    for key in (rule, " ".join(words[:2]), words[0]):
        if key in _BY_TEXT:
            return _BY_TEXT[key]
    raise KeyError(op)


def parse_inputs(text: str) -> list[Any]:
    """Read operands: ``f32[8, 16]; -; {f32[8]; f32[4]}``."""
    inputs: list[Any] = []
    for part in re.findall(r"\{[^}]*\}|[^;{}]+", text):
        if part.startswith("{"):
            inputs.append([_one(each) for each in part[1:-1].split(";") if each.strip()])
        elif part.strip():
            inputs.append(_one(part))
    return inputs


def _one(text: str) -> str | None:
    return None if text.strip() == "-" else text.strip()


def parse_attrs(text: str) -> dict[str, Any]:
    """Read attributes: ``dim=1 keepdim=True shape=[2, 3] equation='ij->i'``.

    A value that is no Python literal is text.
    """
    attrs: dict[str, Any] = {}
    for name, value in re.findall(r"(\w+)=(\[[^\]]*\]|'[^']*'|\S+)", text):
        try:
            attrs[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            attrs[name] = value
    return attrs
