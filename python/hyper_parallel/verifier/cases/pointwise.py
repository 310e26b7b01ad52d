"""Elementwise ops."""

import torch

from hyper_parallel.verifier.case import (
    bools,
    case,
    grid,
    ints,
    mixed,
    positive,
    schema_of,
    t,
    uniform,
    unit,
)

from .table import CASES, COMPLEX, FLAT, W, X, give, small_ints, some_real, sparse

# Where the function is defined and smooth; normal values elsewhere.
DOMAIN = {}
for names, kind in (
    ("acos arccos asin arcsin atanh arctanh erfinv", unit),
    ("log log10 log1p log2 sqrt rsqrt digamma lgamma mvlgamma polygamma reciprocal i0 xlogy "
     "float_power pow igamma igammac addcdiv div divide true_divide fmod remainder "
     "floor_divide rpow", positive),
    ("isfinite isinf isnan isneginf isposinf nan_to_num", mixed),
    ("eq ne lt le gt ge greater greater_equal less less_equal not_equal heaviside maximum minimum "
     "sign sgn signbit copysign fmax fmin max min isclose",
     grid),
    ("logical_and logical_or logical_xor logical_not", sparse),
):  # fmt: skip
    for name in names.split():
        DOMAIN[name] = kind
INTEGERS = set(
    [
        "__and__",
        "__or__",
        "__xor__",
        "__lshift__",
        "__rshift__",
        "__iand__",
        "__ior__",
        "__ixor__",
        "__ilshift__",
        "__irshift__",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "gcd",
        "lcm",
    ]
)


def base_name(op):
    return op.removeprefix("aten::").partition(".")[0]


def default(op, spec):
    """Make the calls of a pointwise op from its schema: equal shapes, broadcast ones, no dims."""
    if not spec.startswith("pointwise"):
        return []
    schema = schema_of(op)
    if schema is None:
        return []
    name = base_name(op)
    draw = small_ints if name in INTEGERS else DOMAIN.get(name, t)
    tensors = sum(str(a.type) == "Tensor" for a in schema.arguments)
    if tensors == 1:
        shapes = [[(5, 3)], [(2, 4, 6)], [(1, 7)]]
    else:
        rest = [(5, 3)] * (tensors - 1)
        shapes = [
            [(5, 3), *rest],
            [(2, 4, 3), (3,), *[(4, 1)] * (tensors - 2)],
            [(3,), *[(4, 1)] * (tensors - 1)],
        ]
        if tensors == 2:
            shapes.append([(4, 3), ()])
    return [filled(schema, name, draw, one) for one in shapes]


def filled(schema, name, draw, shapes):
    args, kwargs = [], {}
    shapes = list(shapes)
    for a in schema.arguments:
        kind = str(a.type)
        if kind == "Tensor":
            value = draw(*shapes.pop(0))
        elif a.has_default_value():
            continue
        elif a.name in SCALARS and (name, a.name) not in SCALARS_OF:
            value = SCALARS[a.name]
        else:
            value = SCALARS_OF.get((name, a.name), {"number": 2, "int": 2, "float": 0.5}.get(kind))
        if a.kwarg_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    return case(*args, **kwargs)


SCALARS = {
    "other": 2,
    "exponent": 2,
    "min": -0.5,
    "max": 0.5,
    "threshold": 0.1,
    "value": 0.3,
    "weight": 0.3,
    "p": 2,
    "n": 1,
    "decimals": 1,
    "dtype": torch.float32,
}
SCALARS_OF = {}
give("clamp clip", case(t(*X), -0.5, 0.5), case(t(*W), -0.5), case(t(*FLAT), None, 0.5))
give(
    "clamp.Tensor clip.Tensor",
    case(t(*X), t(*X), positive(*X)),
    case(t(2, 4, 3), uniform(-1, 0, 3), uniform(0, 1, 4, 1)),
    case(t(*X), None, t(3)),
)
give("prelu", case(t(4, 3), t(3)), case(t(2, 5, 4), t(5)), case(t(*X), t(1)), case(t(7), t(1)))
give("where.Scalar", case(bools(*X), 2, 3), case(bools(*W), 0.5, 1.5))
give(
    "where.self",
    case(bools(*X), t(*X), t(*X)),
    case(bools(2, 4, 3), t(3), t(4, 1)),
    case(bools(3), t(4, 1), t()),
    case(bools(4, 1), t(4, 3), ints(0, 9, 4, 3)),
)
give(
    "where.ScalarOther",
    case(bools(*X), t(*X), 0.0),
    case(bools(2, 4, 3), t(3), 0.7),
    case(bools(3), t(4, 1), 0.7),
)
give(
    "where.ScalarSelf",
    case(bools(*X), 0.0, t(*X)),
    case(bools(2, 4, 3), 0.7, t(3)),
    case(bools(3), 0.7, t(4, 1)),
)
give(
    "masked_fill.Scalar",
    case(t(*X), bools(*X), 0.0),
    case(t(2, 4, 3), bools(3), 0.7),
    case(t(3), bools(4, 1), -1e9),
)
give(
    "masked_fill.Tensor",
    case(t(*X), bools(*X), t()),
    case(t(2, 4, 3), bools(4, 1), t()),
    case(t(3), bools(4, 1), t()),
)
give(
    "_conj conj _neg_view imag real resolve_conj conj_physical",
    case(t(*X, dtype=COMPLEX)),
    case(t(*W, dtype=COMPLEX)),
)
give("_neg_view conj real resolve_neg conj_physical", case(t(*X)), case(t(*W)))
give("to.device", case(t(*X), torch.device("cpu"), torch.float32), case(t(*W), "cpu", torch.int64))
give(
    "to.dtype to.dtype_layout _to_copy",
    *(case(t(*X), dtype=kind) for kind in (torch.float32, torch.int64, torch.complex128)),
    case(ints(0, 9, *W), dtype=torch.float64),
    case(t(*FLAT), dtype=torch.float64),
)
give("add.Tensor sub.Tensor", case(t(*X), t(3), alpha=-2), case(t(*X), ints(0, 5, 5, 1)))
give("div.Tensor_mode", case(t(*X), positive(*X), rounding_mode=None))
give("div.Tensor_mode", case(t(*X), positive(3), rounding_mode="floor"))
give("div.Scalar_mode", case(t(*X), 2, rounding_mode=None), case(t(*X), 2, rounding_mode="trunc"))
CASES["aten::divide.Tensor_mode"] = CASES["aten::div.Tensor_mode"]
CASES["aten::divide.Scalar_mode"] = CASES["aten::div.Scalar_mode"]
for twin in ["__iand__", "__ilshift__", "__ior__", "__irshift__", "__ixor__"]:
    give(
        f"{twin}.Tensor",
        case(small_ints(*X), small_ints(*X)),
        case(small_ints(4, 3), small_ints(3)),
    )
give("isreal", case(some_real(5, 3)), case(t(2, 4)))
give("polygamma", case(1, positive(*X)), case(0, positive(*W)))
give("mvlgamma", case(uniform(2, 4, *X), 2))
give("atan2 arctan2 hypot", case(t(*X), t(*X)), case(t(2, 4, 3), t(3)), case(t(3), t(4, 1)))
give("acosh arccosh", case(uniform(1.5, 3, *X)), case(uniform(1.5, 3, *W)))
give("logit", case(uniform(0.1, 0.9, *X)), case(uniform(-0.2, 1.2, *W), 1e-3))
give("pow.Scalar float_power.Scalar", case(2, t(*X)), case(1.5, t(*W)))
give("frac trunc fix floor ceil round", case(t(*X)), case(uniform(-4, 4, *W)))
give("round.decimals", case(t(*X), decimals=1), case(t(*W), decimals=-1))
give("nextafter", case(t(*X), t(*X)), case(t(2, 4, 3), t(3)))
give("complex", case(t(*X), t(*X)), case(t(2, 4, 3), t(3)))
give("polar", case(positive(*X), t(*X)), case(positive(2, 4, 3), t(3)))
give("view_as_complex", case(t(5, 3, 2)), case(t(4, 2)))
give("view_as_real", case(t(5, 3, dtype=COMPLEX)), case(t(4, dtype=COMPLEX)))
give("frexp.Tensor", case(t(5, 3)), case(t(2, 4, 6)))
give("native_dropout_backward", case(t(5, 3), bools(5, 3), 2.0))
