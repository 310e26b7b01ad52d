"""Example inputs for every rule.

``CASES`` maps an op to its calls; ops of the pointwise family get theirs from the schema
(``default``). A call is ``case(arguments...)`` with values that are drawn anew for each seed: ``t``
normal, ``positive``, ``unit``, ``ints``, ``bools``, ``distinct`` (no ties), ``mixed`` (with nan and
inf). Sizes are such that 2, 3 and 4 ranks get uneven and empty pieces (5, 3, 2), and even ones (4, 6).

``WITHOUT`` names the rules that have no case, each with the reason.
"""

import math

import torch

from hyper_parallel.verify_cases import (
    bools,
    case,
    distinct,
    grid,
    ints,
    made,
    mixed,
    positive,
    schema_of,
    t,
    uniform,
    unit,
)

CASES = {}
WITHOUT = {}
INF = float("inf")


def give(ops, *cases):
    """Give ops, named without ``aten::``, the same calls."""
    for op in ops.split():
        CASES.setdefault(op if "::" in op else f"aten::{op}", []).extend(cases)


def without(ops, reason):
    for op in ops.split():
        WITHOUT[op if "::" in op else f"aten::{op}"] = reason


def sparse(*shape):
    """Draw small whole numbers as floats, in some draws mostly 0."""

    def draw(g):
        odds = (0.1, 0.9)[int(torch.randint(2, (), generator=g))]
        kept = torch.rand(shape, generator=g) < odds
        return torch.randint(1, 4, shape, generator=g).double() * kept

    return made(draw, f"sparse{list(shape)}")


# ---- Elementwise ---------------------------------------------------------------------------

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


def small_ints(*shape):
    return ints(0, 5, *shape)


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


def bools_with_true(*shape):
    """Draw a mask whose rows all have a True."""

    def draw(g):
        mask = torch.rand(shape, generator=g) < 0.5
        mask[..., 0] = True
        return mask

    return made(draw, f"mask{list(shape)}")


def dominant(*shape):
    """Draw square matrices with a large diagonal: inverses stay small."""

    def draw(g):
        eye = torch.eye(shape[-1], dtype=torch.float64)
        return torch.randn(shape, generator=g, dtype=torch.float64) / 4 + 2 * eye

    return made(draw, f"dominant{list(shape)}")


SORTED = made(lambda g: torch.randn(6, generator=g, dtype=torch.float64).sort().values, "sorted[6]")
PERMUTED = made(lambda g: torch.randperm(4, generator=g)[:3], "permuted[3]")


def columns(g, size, rows, count):
    """Draw indices below ``size`` that are different in each column."""
    return torch.stack([torch.randperm(size, generator=g)[:rows] for _ in range(count)], 1)


def some_nan(*shape):
    """Draw normal values with some nan among them."""
    return mixed(*shape, special=(math.nan,))


def some_real(*shape):
    """Draw complex values, some without imaginary part."""

    def draw(g):
        out = torch.randn(shape, generator=g, dtype=COMPLEX)
        real = torch.rand(shape, generator=g) < 0.5
        return torch.where(real, out.real.to(COMPLEX), out)

    return made(draw, f"some real{list(shape)}")


def all_but_one(value, *shape):
    """Draw bools that are ``value``, but for one: a piece without it gives another answer."""

    def draw(g):
        out = torch.full(shape, value)
        out.view(-1)[int(torch.randint(out.numel(), (), generator=g))] = not value
        return out

    return made(draw, f"{value} but one{list(shape)}")


def half(*shape):
    """Draw small whole numbers as bf16: products and sums of them are exact."""
    return ints(-2, 3, *shape, dtype=torch.bfloat16)


def bools_as_floats(*shape):
    """Draw 0 and 1 as floats: probabilities that leave no choice."""
    return made(lambda g: (torch.rand(shape, generator=g) < 0.5).double(), f"0 or 1{list(shape)}")


X, W, FLAT = (5, 3), (2, 4, 6), (1, 7)

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
COMPLEX = torch.complex128
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

# ---- Contractions --------------------------------------------------------------------------

give("mm", case(t(5, 3), t(3, 6)), case(t(4, 7), t(7, 2)))
give("bmm", case(t(3, 5, 2), t(3, 2, 4)), case(t(2, 3, 7), t(2, 7, 3)))
give("mv", case(t(5, 3), t(3)), case(t(2, 7), t(7)))
give("dot", case(t(5), t(5)), case(t(8), t(8)))
give("vdot", case(t(5), t(5)), case(t(6, dtype=COMPLEX), t(6, dtype=COMPLEX)))
give("ger outer", case(t(5), t(3)), case(t(4), t(7)))
give("inner", case(t(2, 5, 3), t(4, 3)), case(t(5, 3), t(6, 3)))
give(
    "linear",
    case(t(2, 5, 3), t(4, 3), t(4)),
    case(t(5, 7), t(3, 7)),
    case(t(6), t(5, 6), t(5)),
    case(t(2, 2, 3, 4), t(2, 4), t(2)),
)
give(
    "matmul",
    case(t(5), t(5)),
    case(t(5, 3), t(3)),
    case(t(3), t(3, 5)),
    case(t(3), t(2, 3, 5)),
    case(t(2, 5, 3), t(3)),
    case(t(5, 3), t(3, 6)),
    case(t(2, 5, 3), t(3, 4)),
    case(t(3, 2), t(4, 2, 5)),
    case(t(2, 1, 5, 3), t(4, 3, 2)),
)
ADDENDS = ((5, 6), (6,), (1, 6), (5, 1), ())
give("addmm", *(case(t(*a), t(5, 3), t(3, 6)) for a in ADDENDS))
give(
    "addmm", case(t(6), t(5, 3), t(3, 6), beta=0.5, alpha=-2), case(t(6), t(5, 3), t(3, 6), beta=0)
)
give("addbmm", *(case(t(*a), t(4, 5, 3), t(4, 3, 6)) for a in ADDENDS))
give("baddbmm", *(case(t(*a), t(4, 5, 3), t(4, 3, 6)) for a in (*ADDENDS, (4, 5, 6), (4, 1, 1))))
give("baddbmm", case(t(4, 5, 6), t(4, 5, 3), t(4, 3, 6), beta=2, alpha=0.5))
give(
    "addmv",
    *(case(t(*a), t(5, 3), t(3)) for a in ((5,), (1,), ())),
    case(t(5), t(5, 3), t(3), beta=3),
)
give("addr", *(case(t(*a), t(5), t(6)) for a in ADDENDS), case(t(6), t(5), t(6), beta=2, alpha=3))
give(
    "einsum",
    case("ij,jk->ik", [t(5, 3), t(3, 4)]),
    case("bij,bjk->bik", [t(2, 5, 3), t(2, 3, 4)]),
    case("bhqd,bhkd->bhqk", [t(2, 3, 5, 4), t(2, 3, 6, 4)]),
    case("ij->ji", [t(5, 3)]),
    case("ij->", [t(5, 3)]),
    case("i,j,k->ijk", [t(5), t(3), t(2)]),
    case("ii->i", [t(5, 5)]),
    case("...i,ij->...j", [t(2, 5, 3), t(3, 4)]),
    case("ab,cb", [t(5, 3), t(4, 3)]),
)

# ---- Reductions ----------------------------------------------------------------------------

DIMS = ([0], [1], [0, 2], [-1], [])


def over_dims(name, draw=t, dims=DIMS, **kwargs):
    give(name, *(case(draw(5, 4, 3), d, **kwargs) for d in dims))
    give(name, case(draw(6, 2), [0], True, **kwargs))


give("nansum", case(some_nan(5, 3)), case(some_nan(2, 4, 6)))
give("sum mean", case(t(5, 3)), case(t(2, 4, 6)), case(t()))
give("sum prod", case(ints(-3, 4, 5, 3)), case(t(5, 3), dtype=torch.float32))
give("mean", case(t(5, 3), dtype=torch.float32))
give("max min", case(distinct(5, 3)), case(distinct(2, 4, 6)), case(ints(-9, 9, 5, 3)))
give("std var", case(t(5, 3)), case(t(2, 4, 6), False))
give("prod", case(positive(5, 3)), case(t(4)))
give("_is_all_true all", case(all_but_one(True, 5, 3)))
give("_is_any_true any", case(all_but_one(False, 5, 3)))
give("_is_all_true _is_any_true", case(bools(5, 3)), case(bools(4)))
give("all any", case(bools(5, 3)), case(sparse(2, 4)), case(bools(2)))
give("count_nonzero", case(grid(5, 3)), case(grid(2, 4, 6), 1), case(grid(2, 4, 6), -1))
over_dims("sum.dim_IntList")
over_dims("mean.dim")
over_dims("nansum", some_nan)
over_dims("amax", distinct)
over_dims("amin", distinct)
over_dims("logsumexp", dims=DIMS[:-1])
over_dims("var.dim", dims=())
over_dims("std.dim", dims=())
give("sum.dim_IntList mean.dim", case(t(5, 3), None), case(t(5, 3), [1], dtype=torch.float32))
give("sum.dim_IntList", case(ints(-3, 4, 5, 3), [0]), case(bools(5, 3), [1]))
give("var.dim std.dim", *(case(t(5, 4, 3), d) for d in ([0], [1], [0, 2], None)))
give("var.dim std.dim", case(t(5, 4, 3), [1], False, True))
give(
    "var.correction std.correction",
    *(case(t(5, 4, 3), d) for d in ([0], [1], [0, 2], None)),
    case(t(5, 4, 3), [1], correction=0),
    case(t(5, 4, 3), [1], correction=2, keepdim=True),
)
give("all.dim", case(all_but_one(True, 5), 0))
give("any.dim", case(all_but_one(False, 5), 0))
give("all.dims", case(all_but_one(True, 5, 3), [0, 1]))
give("any.dims", case(all_but_one(False, 5, 3), [0, 1]))
give("any.dims", case(all_but_one(False, 5, 4, 3), [0, 2]))
give("all.dim any.dim", *(case(bools(5, 4, 3), d) for d in (0, 1, -1)), case(sparse(5, 3), 0, True))
give("all.dims any.dims", *(case(bools(5, 4, 3), d) for d in ([0], [0, 2])))
give("all.dims any.dims", case(bools(4), None), case(sparse(5, 3), [1], True))
give("count_nonzero.dim_IntList", *(case(grid(5, 4, 3), d) for d in ([0], [0, 2], [-1])))
give(
    "argmax argmin",
    case(distinct(5, 4, 3)),
    *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)),
    case(distinct(5, 4), 1, True),
    case(grid(5, 6), 1),
)
give("max.dim min.dim", *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)))
give("max.dim min.dim", case(distinct(5, 4), 1, True), case(grid(5, 6), 1), case(grid(6, 5), 0))
give("median.dim nanmedian.dim mode", *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)))
give("median.dim nanmedian.dim", case(distinct(5, 4), 1, True))
give("mode", case(grid(5, 6), 1, True), case(grid(5, 6)))
give(
    "kthvalue",
    *(case(distinct(5, 4, 3), 2, d) for d in (0, 1, -1)),
    case(distinct(5, 4), 3, 1, True),
)
give("prod.dim_int", *(case(positive(5, 4, 3), d) for d in (0, 1, -1)), case(t(5, 4), 1, True))
F32 = t(5, 3, dtype=torch.float32)
give("norm.Scalar", case(t(5, 3)), *(case(t(5, 3), p) for p in (0, 1, 3, INF, -INF)))
give(
    "norm.ScalarOpt_dtype",
    case(t(5, 3), None, dtype=torch.float64),
    case(F32, 1, dtype=torch.float64),
)
ORDERS = (0, 1, 2, 3, INF, -INF)
give("norm.ScalarOpt_dim linalg_vector_norm", *(case(t(5, 4, 3), p, [1]) for p in ORDERS))
give(
    "norm.ScalarOpt_dim linalg_vector_norm",
    case(t(5, 4, 3), 2, [0, 2]),
    case(t(5, 4), 2, [0], True),
)
give("norm.ScalarOpt_dim", case(t(5, 4), None, [1]), case(t(5, 4), 2, []))
give("norm.ScalarOpt_dim_dtype", case(t(5, 4, 3), 2, [1], False, dtype=torch.float64))
give(
    "norm.ScalarOpt_dim_dtype",
    case(t(5, 4, 3, dtype=torch.float32), 1, [0, 2], True, dtype=torch.float64),
)
give(
    "linalg_vector_norm",
    case(t(5, 3)),
    case(t(5, 3), 2, None, True),
    case(F32, 1, dtype=torch.float64),
)

# ---- Along one dim -------------------------------------------------------------------------

give("cumsum cumprod", *(case(t(5, 4, 3), d) for d in (0, 1, -1)), case(t(7), 0))
give("cumsum", case(ints(-9, 9, 5, 4), 1), case(t(5, 4), 0, dtype=torch.float32))
give("cummax cummin", *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)))
give("logcumsumexp", *(case(t(5, 4, 3), d) for d in (0, 1, -1)))
give("sort argsort", case(distinct(5, 6)), *(case(distinct(5, 4, 3), d) for d in (0, 1)))
give("sort argsort", case(distinct(5, 6), 1, True))
give(
    "sort.stable argsort.stable",
    case(grid(5, 6), stable=True),
    case(grid(6, 5), stable=True, dim=0),
)
give("sort.stable argsort.stable", case(grid(5, 6), stable=True, dim=1, descending=True))
give("msort", case(distinct(5, 4)), case(distinct(3, 4, 5)))
give(
    "topk",
    case(distinct(5, 6), 2),
    case(distinct(6, 5), 3, 0),
    case(distinct(5, 4, 3), 2, 1, False),
    case(distinct(5, 8), 1, -1, True, True),
    case(distinct(5, 3), 3, 1),
)
give("softmax.int log_softmax.int special_softmax", *(case(t(5, 4, 3), d) for d in (0, 1, -1)))
give("special_log_softmax", *(case(t(5, 4, 3), d) for d in (0, 1, -1)))
give(
    "softmax.int log_softmax.int", case(t(5, 6), 1, torch.float32), case(t(7), 0), case(t(2, 5), 0)
)
give("_softmax _log_softmax", *(case(t(5, 4, 3), d, False) for d in (0, 1, -1)))
give("glu", case(t(5, 4)), case(t(6, 5), 0), case(t(2, 8, 3), 1))


def probabilities(log):
    def draw(g):
        x = torch.randn(5, 4, 3, generator=g, dtype=torch.float64)
        return torch.log_softmax(x, 1) if log else torch.softmax(x, 1)

    return made(draw, "probabilities[5, 4, 3]")


for log in (False, True):
    give(
        "_log_softmax_backward_data" if log else "_softmax_backward_data",
        case(t(5, 4, 3), probabilities(log), 1, torch.float64),
    )

# ---- Normalisation -------------------------------------------------------------------------

give(
    "layer_norm",
    case(t(4, 5), [5], t(5), t(5)),
    case(t(2, 5, 6), [6], t(6)),
    case(t(2, 5, 6), [6]),
    case(t(5, 2, 4), [2, 4], t(2, 4), t(2, 4)),
    case(t(2, 5, 6), [6], None, t(6), 1e-3),
)
give(
    "_fused_rms_norm",
    case(t(5, 3, 4), [4], positive(4), 1e-5),
    case(t(5, 3, 4), [3, 4], None, 1e-5),
    case(t(4, 6), [6], None, None),
)
give(
    "native_layer_norm",
    case(t(4, 5), [5], t(5), t(5), 1e-5),
    case(t(5, 2, 4), [2, 4], t(2, 4), None, 1e-5),
    case(t(2, 5, 6), [6], None, None, 1e-5),
)
give(
    "rms_norm",
    case(t(4, 5), [5], t(5)),
    case(t(2, 5, 6), [6], t(6), 1e-3),
    case(t(2, 5, 6), [6]),
    case(t(5, 2, 4), [2, 4], t(2, 4)),
)
give(
    "group_norm",
    case(t(5, 6, 3), 3, t(6), t(6)),
    case(t(2, 4, 5, 2), 2, t(4)),
    case(t(3, 4), 2),
    case(t(5, 6, 3), 6, t(6), t(6)),
)
give(
    "batch_norm",
    case(t(5, 4), t(4), t(4), t(4), positive(4), True, 0.1, 1e-5, False),
    case(t(5, 4, 3), t(4), t(4), t(4), positive(4), False, 0.1, 1e-5, False),
    case(t(5, 3, 2, 2), None, None, None, None, True, 0.1, 1e-5, False),
    case(t(5, 3), t(3), None, t(3), positive(3), False, 0.1, 1e-5, False),
)

# ---- Losses --------------------------------------------------------------------------------

for kind in (0, 1, 2):
    give(
        "cross_entropy_loss",
        case(t(5, 4), ints(0, 4, 5), None, kind),
        case(t(2, 5, 3), ints(0, 5, 2, 3), positive(5), kind),
        case(t(5, 4), uniform(0, 1, 5, 4), None, kind),
        case(t(4), ints(0, 4), None, kind),
        case(t(6, 4), ints(0, 4, 6), None, kind, 1),
        case(t(6, 4), ints(0, 4, 6), positive(4), kind, 2, 0.1),
        case(t(5, 4), uniform(0, 1, 5, 4), positive(4), kind, -100, 0.2),
    )
    give(
        "nll_loss nll_loss_nd",
        case(t(5, 4), ints(0, 4, 5), None, kind),
        case(t(5, 4), ints(0, 4, 5), positive(4), kind, 1),
    )
    give(
        "nll_loss_nd",
        case(t(4), ints(0, 4), None, kind),
        case(t(2, 5, 3), ints(0, 5, 2, 3), None, kind),
    )
    give(
        "nll_loss2d",
        case(t(2, 5, 3, 2), ints(0, 5, 2, 3, 2), None, kind),
        case(t(3, 4, 2, 2), ints(0, 4, 3, 2, 2), positive(4), kind, 1),
    )
    give("mse_loss l1_loss smooth_l1_loss huber_loss", case(t(5, 3), t(5, 3), kind))
    # The mean of broadcast operands has no gradient to compare with: torch 2.13 divides that of the
    # smaller operand by its own size, not by that of the loss (F.mse_loss broadcasts before).
    give("mse_loss smooth_l1_loss huber_loss", case(t(2, 4, 3), t(4, 3), kind, grad=kind != 1))
    give("l1_loss", case(t(2, 4, 3), t(4, 3), kind))
    give(
        "soft_margin_loss",
        case(
            t(5, 3),
            made(
                lambda g: torch.where(torch.rand(5, 3, generator=g) < 0.5, 1.0, -1.0).double(),
                "signs[5, 3]",
            ),
            kind,
        ),
    )
    give(
        "kl_div",
        case(t(5, 3), uniform(0.1, 1, 5, 3), kind),
        case(t(5, 3), t(5, 3), kind, log_target=True),
    )
    give("binary_cross_entropy", case(uniform(0.1, 0.9, 5, 3), uniform(0, 1, 5, 3), None, kind))
    give(
        "binary_cross_entropy",
        case(uniform(0.1, 0.9, 5, 3), uniform(0, 1, 5, 3), positive(3), kind),
    )
    give(
        "binary_cross_entropy_with_logits",
        case(t(5, 3), uniform(0, 1, 5, 3), None, None, kind),
        case(t(5, 3), uniform(0, 1, 5, 3), positive(5, 1), positive(3), kind),
    )

# ---- Look-up and attention -----------------------------------------------------------------

give(
    "embedding",
    case(t(7, 4), ints(0, 7, 5)),
    case(t(6, 3), ints(0, 6, 2, 5), 2),
    case(t(5, 4), ints(0, 5, 3), -1, True),
    case(t(7, 2), ints(0, 7)),
)
give("one_hot", case(ints(0, 4, 5), 4), case(ints(0, 5, 2, 3), 5), case(ints(0, 4, 5)))


def attention(q, k, v, *rest, **kwargs):
    give("scaled_dot_product_attention", case(t(*q), t(*k), t(*v), *rest, **kwargs))


attention((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2))
attention((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), None, 0.0, True)
attention((3, 4, 6, 2), (3, 4, 7, 2), (3, 4, 7, 3), None, 0.0, True)
attention((2, 6, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4), None, 0.0, True, enable_gqa=True)
attention((2, 4, 5, 2), (2, 1, 3, 2), (2, 1, 3, 2), enable_gqa=True, scale=0.3)
attention((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), t(5, 6))
attention((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), bools_with_true(2, 1, 5, 6))
attention((3, 5, 4), (3, 6, 4), (3, 6, 4), t(3, 1, 6))

# ---- Views ---------------------------------------------------------------------------------

SAME = "alias contiguous detach clone lift lift_fresh"
give(SAME, case(t(5, 3)), case(t(2, 4, 6)))
give(
    "permute",
    case(t(5, 4, 3), [2, 0, 1]),
    case(t(5, 3), [-1, 0]),
    case(t(2, 3, 4, 5), [0, 2, 1, 3]),
)
give(
    "transpose.int swapdims swapaxes",
    case(t(5, 4, 3), 0, 2),
    case(t(5, 3), -1, 0),
    case(t(5, 3), 1, 1),
)
give("t", case(t(5, 3)), case(t(7)))
give("adjoint mT mH", case(t(5, 3)), case(t(2, 4, 3)))
give("adjoint mH matrix_H", case(t(4, 3, dtype=COMPLEX)))
give("matrix_H", case(t(5, 3)))
give("numpy_T", case(t(5, 3)), case(t(6)))
give("unsqueeze", *(case(t(5, 3), d) for d in (0, 1, 2, -1)))
give("squeeze", case(t(5, 1, 3, 1)), case(t(1, 2)), case(t(5, 3)))
give("squeeze.dim", case(t(5, 1, 3), 1), case(t(5, 3), 0), case(t(1, 4), -2))
give("squeeze.dims", case(t(5, 1, 3, 1), [1, 3]), case(t(5, 1, 3), [0, 1]), case(t(2, 3), [0, 1]))
give("movedim.int moveaxis.int", case(t(5, 4, 3), 0, 2), case(t(5, 4, 3), -1, 0))
give("movedim.intlist moveaxis.intlist", case(t(5, 4, 3), [0, 1], [2, 0]))
give(
    "expand broadcast_to",
    case(t(5, 1), [5, 4]),
    case(t(3), [5, 2, 3]),
    case(t(4, 1, 3), [-1, 5, -1]),
)
give("expand broadcast_to", case(t(5, 3), [5, 3]))
SHAPES = (
    ((6, 4), [24]),
    ((24,), [6, 4]),
    ((5, 6), [5, 2, 3]),
    ((5, 2, 3), [5, -1]),
    ((4, 3, 2), [12, 2]),
    ((4, 6), [8, 3]),
    ((6, 4), [4, 6]),
    ((5, 1, 3), [5, 3]),
    ((5, 3), [1, 5, 1, 3]),
    ((2, 6, 4), [2, 6, 2, 2]),
    ((4, 4), [2, 2, 2, 2]),
    ((8, 3), [4, 6]),
    ((5, 3), [5, 3]),
    ((12,), [2, -1, 3]),
)
give("view reshape _unsafe_view", *(case(t(*before), after) for before, after in SHAPES))
give("view reshape", case(t(1), []), case(t(), [1, 1]))
give(
    "flatten.using_ints", case(t(5, 2, 3)), case(t(5, 2, 3), 1), case(t(4, 3, 2), 0, 1), case(t(5))
)
give("ravel", case(t(5, 3)), case(t(4)), case(t(2, 3, 2)))

# ---- Joining and cutting -------------------------------------------------------------------

give(
    "cat concat concatenate",
    case([t(5, 3), t(2, 3)], 0),
    case([t(5, 3), t(5, 4), t(5, 2)], 1),
    case([t(2, 4, 3), t(2, 4, 3)], -1),
    case([t(0), t(5, 3)], 0),
    case([t(5, 3)], 0),
    case([t(4, 3), t(4, 1)], 1),
)
give(
    "stack", case([t(5, 3), t(5, 3)]), case([t(5, 3), t(5, 3), t(5, 3)], 1), case([t(4), t(4)], -1)
)
give("split.Tensor unsafe_split.Tensor", case(t(5, 3), 2), case(t(5, 6), 3, 1), case(t(7, 2), 7))
give(
    "split.sizes split_with_sizes unsafe_split_with_sizes",
    case(t(6, 5), [2, 4]),
    case(t(5, 9), [4, 2, 3], 1),
    case(t(5, 3), [0, 5]),
)
give("chunk unsafe_chunk", case(t(5, 3), 2), case(t(5, 6), 3, 1), case(t(2, 3), 4))
give("unbind.int", case(t(3, 5)), case(t(5, 3), 1), case(t(4, 2, 3), -1))

# ---- New tensors ---------------------------------------------------------------------------

give("zeros_like ones_like", case(t(5, 3)), case(t(2, 4), dtype=torch.int64))
give("full_like fill.Scalar", case(t(5, 3), 2.5), case(t(2, 4, 6), 0))
give("fill.Tensor", case(t(5, 3), t()), case(t(2, 4, 6), t()))
give("zero", case(t(5, 3)), case(t(2, 4, 6)))
give("empty_like", case(t(5, 3), values=False), case(t(2, 4, 6), dtype=torch.int64, values=False))
give("new_zeros new_ones", case(t(5, 3), [5, 3]), case(t(5, 3), [4]), case(t(5, 3), []))
give("new_full", case(t(5, 3), [5, 3], 2.5), case(t(5, 3), [4, 2], 1.5))
give("new_empty", case(t(5, 3), [5, 3], values=False), case(t(5, 3), [4], values=False))
give("copy", case(t(5, 3), t(5, 3)), case(t(2, 4, 3), t(3)), case(t(5, 3), ints(0, 9, 5, 1)))
give("type_as to.other", case(t(5, 3), t(2)), case(ints(0, 9, 5, 3), t()))

# ---- Values on the host, sizes that depend on values ---------------------------------------

give("item _local_scalar_dense", case(t()), case(t(1)), case(ints(0, 9)))
ONES = made(lambda g: torch.ones(5, 3, dtype=torch.float64), "ones[5, 3]")
give("equal allclose", case(ONES, ONES))
give("is_nonzero", case(made(lambda g: torch.zeros(1, dtype=torch.float64), "zeros[1]")))
give("is_nonzero", case(t()), case(bools(1)))
give("equal allclose", case(t(5, 3), t(5, 3)), case(grid(2), grid(2)))
give("nonzero argwhere nonzero_numpy where", case(grid(5, 3)), case(bools(4)))
give("masked_select", case(t(5, 3), bools(5, 3)), case(t(5, 3), bools(3)))
give("_unique", case(grid(5, 3)), case(ints(0, 4, 7), True, True))
give("_unique2", case(grid(5, 3)), case(ints(0, 4, 7), True, True, True))
give("unique_dim", case(grid(5, 3), 0), case(ints(0, 2, 7, 2), 0, True, True, True))
give("unique_consecutive", case(grid(7)), case(ints(0, 3, 9), True, True))
give("bincount", case(ints(0, 5, 7)), case(ints(0, 4, 6), t(6), 8))
give("masked_scatter", case(t(5, 3), bools(5, 3), t(20)), case(t(4), bools(4), t(4)))

# ---- Random draws --------------------------------------------------------------------------

give("dropout native_dropout", case(t(5, 3), 0.0, True), case(t(2, 4, 6), 0.5, False))
give("dropout native_dropout", case(t(5, 3), 0.5, True))
give(
    "feature_dropout",
    case(t(5, 3, 2), 0.0, True),
    case(t(5, 3), 0.5, True),
)
give("bernoulli", case(bools_as_floats(5, 3)), case(uniform(0, 1, 5, 3)))
give("bernoulli.p", case(t(5, 3), 1.0), case(t(2, 4), 0.3))
give("bernoulli_.float", case(t(5, 3), 1.0), case(t(2, 4), 0.3))
give("bernoulli.Tensor bernoulli_.Tensor", case(t(5, 3), uniform(0, 1, 5, 3)))
give("normal.Tensor_Tensor", case(t(5, 3), positive(5, 3)))
give("normal.Tensor_float", case(t(5, 3), 2.0))
give("normal.float_Tensor", case(0.5, positive(5, 3)))
give("poisson", case(positive(5, 3)), case(uniform(0, 0, 2, 4)))
DRAWS = "cauchy_ exponential_ log_normal_ normal_ normal_functional random_ uniform uniform_"
give(DRAWS + " rand_like randn_like", case(t(5, 3)), case(t(2, 4)))
give("geometric_", case(t(5, 3), 0.4))
give("random_.to randint_like", case(t(5, 3), 9), case(t(2, 4), 1))
give("random_.from randint_like.low_dtype", case(t(5, 3), 2, 9), case(t(5, 3), 2, 3))
give("multinomial", case(positive(5, 4), 2), case(positive(4), 3, True))

# ---- Slices --------------------------------------------------------------------------------

give(
    "slice.Tensor",
    case(t(5, 3), 0, 1, 4),
    case(t(5, 4), 1, 0, 3),
    case(t(5, 3)),
    case(t(5, 3), 0, 0, 9223372036854775807),
    case(t(8, 3), 0, 0, 8, 2),
    case(t(6, 4), 0, -3, None),
    case(t(2, 7), 1, 2, 2),
)
give("select.int", case(t(5, 3), 0, 2), case(t(5, 3), 1, -1), case(t(2, 4, 3), 1, 0))
give("diagonal", case(t(5, 5)), case(t(2, 4, 3), 1, 1, 2), case(t(3, 4, 5), -1, 0, 2))
give("flip", case(t(5, 3), [0]), case(t(5, 4, 3), [0, 2]), case(t(6, 2), []))
give("roll", case(t(5, 3), [1], [0]), case(t(5, 4), [2, -1], [0, 1]), case(t(5, 3), [2], []))
give(
    "constant_pad_nd",
    case(t(5, 3), [1, 2]),
    case(t(5, 3), [0, 0, 1, 1], 1.5),
    case(t(5, 4), [-1, 0]),
)
give(
    "pad",
    case(t(5, 3), [1, 2]),
    case(t(5, 3), [0, 0, 1, 1], "constant", 1.5),
    case(t(2, 5, 4), [1, 1], "reflect"),
    case(t(3, 2, 5), [2, 1], "replicate"),
    case(t(3, 2, 5), [2, 1], "circular"),
)
give(
    "repeat",
    case(t(5, 3), [2, 1]),
    case(t(5), [3, 2]),
    case(t(5, 3), [1, 1]),
    case(t(2, 4), [1, 3]),
)
give("repeat_interleave.self_int", case(t(5, 3), 2, 0), case(t(5, 4), 3, 1), case(t(5, 3), 2))
give("as_strided", case(t(5, 3), [5, 3], [3, 1]), case(t(6, 2), [3, 2], [4, 1], 1))
give("tril triu", case(t(5, 3)), case(t(2, 4, 4), 1), case(t(3, 6), -1))
give("unfold", case(t(8, 3), 0, 2, 2), case(t(5, 7), 1, 3, 2), case(t(5, 6), 1, 6, 1))

# ---- Indexing ------------------------------------------------------------------------------

give("bucketize.Tensor", case(t(5, 3), SORTED), case(t(2, 4, 6), SORTED, right=True))
give(
    "isin.Tensor_Tensor",
    case(ints(0, 6, 5, 3), ints(0, 6, 4)),
    case(grid(2, 4), grid(3), invert=True),
)
give("isin.Tensor_Scalar", case(ints(0, 3, 5, 3), 1), case(grid(2, 4), 0))
give(
    "gather",
    case(t(5, 3), 0, ints(0, 5, 4, 3)),
    case(t(5, 6), 1, ints(0, 6, 5, 2)),
    case(t(2, 4, 3), 1, ints(0, 4, 2, 5, 2)),
    case(t(7), 0, ints(0, 7, 3)),
)
give(
    "index_select",
    case(t(5, 3), 0, ints(0, 5, 4)),
    case(t(5, 6), 1, ints(0, 6, 3)),
    case(t(7), 0, ints(0, 7)),
    case(t(2, 4, 3), -1, ints(0, 3, 5)),
)
give(
    "index.Tensor",
    case(t(5, 3), [ints(0, 5, 4)]),
    case(t(5, 6), [None, ints(0, 6, 3)]),
    case(t(5, 4, 3), [ints(0, 5, 4), ints(0, 4, 4)]),
    case(t(5, 4, 3), [ints(0, 5, 4, 1), None, ints(0, 3, 6)]),
    case(t(5, 4, 3), [ints(0, 5, 2, 3)]),
    case(t(5, 3), [bools(5)]),
    case(t(5, 3), [bools(5, 3)]),
    case(t(2, 5, 4), [None, ints(0, 5, 4), ints(0, 4, 4)]),
)
give(
    "index_add",
    case(t(5, 3), 0, ints(0, 5, 4), t(4, 3)),
    case(t(5, 6), 1, ints(0, 6, 3), t(5, 3), alpha=-2),
    case(t(7), 0, ints(0, 7, 5), t(5)),
)
give("index_copy", case(t(5, 3), 0, PERMUTED, t(3, 3)), case(t(4, 6), 1, PERMUTED, t(4, 3)))
give(
    "index_fill.int_Scalar",
    case(t(5, 3), 0, ints(0, 5, 2), 1.5),
    case(t(4, 6), 1, ints(0, 6, 3), 0),
)
give(
    "index_put",
    case(t(5, 3), [PERMUTED], t(3, 3)),
    case(t(5, 3), [PERMUTED], t()),
    case(t(5, 6), [None, PERMUTED], t(5, 3)),
    case(t(5, 3), [ints(0, 5, 4)], t(4, 3), True),
    case(t(5, 4, 3), [ints(0, 5, 6), ints(0, 4, 6)], t(6, 3), True),
    case(t(5, 3), [bools(5)], t(3)),
    case(t(5, 3), [bools(5, 3)], t()),
)
give(
    "scatter.src",
    case(t(5, 3), 0, made(lambda g: columns(g, 5, 4, 3), "columns[4, 3]"), t(4, 3)),
    case(t(4, 6), 1, made(lambda g: columns(g, 6, 3, 4).T.contiguous(), "rows[4, 3]"), t(4, 5)),
)
give(
    "scatter.value",
    case(t(5, 3), 0, ints(0, 5, 4, 3), 1.5),
    case(t(4, 6), 1, ints(0, 6, 3, 2), 0.0),
)
give(
    "scatter_add",
    case(t(5, 3), 0, ints(0, 5, 4, 3), t(4, 3)),
    case(t(4, 6), 1, ints(0, 6, 4, 5), t(4, 5)),
    case(t(4, 6), 1, ints(0, 6, 3, 2), t(4, 5)),
    case(t(7), 0, ints(0, 7, 9), t(9)),
)

# ---- Convolution and pooling ---------------------------------------------------------------

give(
    "conv1d",
    case(t(3, 4, 7), t(6, 4, 3), t(6)),
    case(t(2, 5, 6), t(3, 5, 2), None, [2], [1]),
    case(t(3, 4, 7), t(6, 2, 3), t(6), [1], [1], [1], 2),
    case(t(2, 6, 7), t(6, 1, 3), t(6), [1], [2], [2], 6),
    case(t(4, 7), t(6, 4, 3), t(6)),
    case(t(2, 3, 9), t(2, 3, 2), t(2), [3], [1], [2]),
    case(t(2, 2, 7), t(3, 2, 5), t(3), [1], [2]),
)
give(
    "conv1d.padding",
    case(t(2, 3, 7), t(4, 3, 4), t(4), [1], "same", [2]),
    case(t(2, 3, 7), t(4, 3, 3), None, [2], "valid"),
)
give("conv2d.padding", case(t(2, 3, 5, 4), t(4, 3, 3, 2), t(4), [1, 1], "same"))
give("conv3d.padding", case(t(2, 3, 3, 4, 3), t(2, 3, 2, 3, 1), t(2), [1, 1, 1], "same"))
give(
    "conv_transpose1d",
    case(t(5, 4, 6), t(4, 3, 3)),
    case(t(5, 4, 6), t(4, 3, 3), t(3), [2], [1], [1]),
    case(t(4, 6, 5), t(6, 1, 2), t(6), [1], [0], [0], 6),
    case(t(4, 6, 5), t(6, 2, 2), None, [1], [0], [0], 3),
    case(t(2, 3, 5), t(3, 2, 2), t(2), [3], [0], [2]),
    case(t(2, 3, 5), t(3, 2, 3), t(2), [2], [1], [1], 1, [2]),
)
give(
    "conv_transpose2d.input",
    case(t(5, 4, 4, 3), t(4, 3, 2, 2)),
    case(t(5, 4, 4, 3), t(4, 3, 2, 2), t(3), [2, 1], [1, 0], [1, 0]),
    case(t(4, 6, 3, 3), t(6, 1, 2, 2), t(6), [1, 1], [0, 0], [0, 0], 6),
)
give("conv_transpose3d.input", case(t(4, 3, 3, 2, 3), t(3, 5, 2, 2, 2), t(5)))
give(
    "conv2d",
    case(t(3, 4, 5, 6), t(5, 4, 3, 2), t(5)),
    case(t(2, 3, 5, 5), t(4, 3, 3, 3), None, [2, 2], [1, 1]),
    case(t(3, 4, 5, 5), t(6, 2, 3, 3), t(6), [1, 1], [1, 1], [1, 1], 2),
)
give("conv3d", case(t(3, 2, 3, 4, 3), t(5, 2, 2, 2, 2), t(5)))
give(
    "avg_pool1d",
    case(t(3, 5, 8), [2]),
    case(t(5, 6), [3], [2], [1]),
    case(t(2, 3, 8), [3], [2], [1], True, False),
)
give(
    "max_pool1d",
    case(distinct(3, 5, 8), [2]),
    case(distinct(5, 6), [3], [2], [1]),
    case(distinct(2, 3, 8), [3], [2], [1], [2], True),
)
give(
    "avg_pool2d",
    case(t(3, 5, 4, 6), [2, 2]),
    case(t(5, 4, 4), [3, 3], [1, 1], [1, 1]),
    case(t(2, 3, 5, 6), [3, 2], [2, 1], [1, 1], True, False),
    case(t(2, 3, 5, 4), [3, 2], [2, 2], [1, 0], False, True, 5),
)
give(
    "max_pool2d",
    case(distinct(3, 5, 4, 6), [2, 2]),
    case(distinct(5, 4, 4), [3, 3], [1, 1], [1, 1]),
)
give("avg_pool3d", case(t(3, 5, 4, 2, 2), [2, 2, 2]))
give("max_pool3d", case(distinct(3, 5, 4, 2, 2), [2, 2, 2]))
give("adaptive_avg_pool1d", case(t(3, 5, 8), [2]), case(t(5, 6), [3]))
give(
    "adaptive_avg_pool2d _adaptive_avg_pool2d",
    case(t(3, 5, 4, 6), [2, 3]),
    case(t(5, 4, 4), [1, 1]),
)
give("adaptive_avg_pool3d", case(t(3, 5, 4, 2, 2), [2, 1, 1]))
give("upsample_linear1d", case(t(3, 5, 4), [7], False))
give("upsample_nearest1d", case(t(3, 5, 4), [7]), case(t(3, 5, 5), [10]))
give("upsample_bilinear2d upsample_bicubic2d", case(t(3, 5, 4, 3), [6, 5], True))
give("upsample_nearest2d", case(t(3, 5, 4, 3), [6, 5]), case(t(2, 3, 5, 3), [10, 12]))

# ---- Other ---------------------------------------------------------------------------------

give(
    "_fft_c2c",
    case(t(5, 4, dtype=COMPLEX), [1], 0, True),
    case(t(3, 4, 2, dtype=COMPLEX), [0, 2], 1, False),
)
give("linalg_cross", case(t(5, 3), t(5, 3)), case(t(3, 4), t(3, 4), dim=0))
give("linalg_inv", case(dominant(4, 3, 3)), case(dominant(5, 5)))
give(
    "linalg_solve_triangular",
    case(dominant(3, 4, 4), t(3, 4, 5), upper=True),
    case(dominant(4, 4), t(5, 4), upper=False, left=False),
)
give("histc", case(t(5, 3), 4, -2, 2), case(t(7), 3))
give(
    "_grouped_mm",
    case(
        half(8, 16),
        half(3, 16, 16),
        made(lambda g: torch.tensor([3, 5, 8], dtype=torch.int32), "offsets[3]"),
    ),
    case(half(3, 8, 16), half(3, 16, 16)),
)

# ---- Lists ---------------------------------------------------------------------------------

PAIR = [(5, 3), (4,)]


def each(draw, shapes=PAIR):
    return [draw(*shape) for shape in shapes]


FOREACH_DOMAIN = {
    "acos": unit, "asin": unit, "log": positive, "log10": positive, "log1p": positive, "log2": positive,
    "lgamma": positive, "reciprocal": positive, "rsqrt": positive, "sqrt": positive, "max": distinct,
}  # fmt: skip
for name in [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "max",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "zero",
]:
    give(f"_foreach_{name}", case(each(FOREACH_DOMAIN.get(name, t))))
for name in ["add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow"]:
    draw = positive if name in ("div", "pow") else t
    give(f"_foreach_{name}.Scalar", case(each(draw), 1.5))
    give(f"_foreach_{name}.ScalarList", case(each(draw), [1.5, 2.0]))
    give(f"_foreach_{name}.List", case(each(draw), each(draw)))
for name in ["add", "mul", "div"]:
    give(f"_foreach_{name}.Tensor", case(each(t), positive()))
give("_foreach_add.List _foreach_sub.List", case(each(t), each(t), alpha=-2))
for name in ["addcmul", "addcdiv"]:
    grad = name == "addcmul"  # torch's backward of the other fails where some tensor is empty
    give(f"_foreach_{name}.Scalar", case(each(t), each(t), each(positive), 0.5, grad=grad))
    give(
        f"_foreach_{name}.ScalarList",
        case(each(t), each(t), each(positive), [0.5, 2.0], grad=grad),
    )
give("_foreach_lerp.Scalar", case(each(t), each(t), 0.3))
give("_foreach_lerp.ScalarList", case(each(t), each(t), [0.3, 0.7]))
give("_foreach_lerp.List", case(each(t), each(t), each(unit)))
give("_foreach_norm.Scalar", *(case(each(t), p) for p in (2, 1, INF)))
give("_foreach_copy", case(each(t), each(t)))


def steps():
    return [made(lambda g: torch.tensor(3.0), "step") for _ in PAIR]


ADAM = {
    "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "maximize": False,
}  # fmt: skip
for name in ("_fused_adam_", "_fused_adamw_"):
    for overload, lr in (("", 0.1), (".tensor_lr", made(lambda g: torch.tensor(0.1), "lr"))):
        for amsgrad in (False, True):
            give(
                f"{name}{overload}",
                case(each(t), each(t), each(t), each(positive), each(positive) if amsgrad else [],
                     steps(), lr=lr, amsgrad=amsgrad, **ADAM),
            )  # fmt: skip
give("_fused_adagrad_", case(each(t), each(t), each(positive), steps(), lr=0.1, lr_decay=0.01,
                             weight_decay=0.1, eps=1e-8, maximize=False))  # fmt: skip
for overload, lr in (("", 0.1), (".tensor_lr", made(lambda g: torch.tensor(0.1).double(), "lr"))):
    give(
        f"_fused_sgd_{overload}",
        case(each(t), each(t), each(t), weight_decay=0.1, momentum=0.9, lr=lr, dampening=0.1,
             nesterov=False, maximize=False, is_first_step=False),
        case(each(t), each(t), [], weight_decay=0.0, momentum=0.0, lr=lr, dampening=0.0,
             nesterov=False, maximize=True, is_first_step=False),
    )  # fmt: skip
give(
    "repeat_interleave.self_Tensor",
    case(t(5, 3), ints(0, 3, 5), 0),
    case(t(5, 4), ints(1, 3, 4), 1),
)
give("repeat_interleave.self_Tensor", case(t(5, 3), ints(2, 3, 1), 0))
give(
    "new_empty_strided",
    case(t(5, 3), [5, 3], [3, 1], values=False),
    case(t(5, 3), [4], [1], values=False),
)

# ---- Linear algebra ------------------------------------------------------------------------


def posdef(*shape):
    """Draw symmetric positive definite matrices."""

    def draw(g):
        x = torch.randn(shape, generator=g, dtype=torch.float64)
        return x @ x.mT + shape[-1] * torch.eye(shape[-1], dtype=torch.float64)

    return made(draw, f"posdef{list(shape)}")


def lower(*shape):
    return made(
        lambda g: (
            torch.randn(shape, generator=g, dtype=torch.float64).tril()
            + 2 * torch.eye(shape[-1], dtype=torch.float64)
        ),
        f"lower{list(shape)}",
    )


for name in ("cholesky", "linalg_cholesky_ex"):
    give(name, case(posdef(5, 3, 3)), case(posdef(2, 4, 4, 4)))
give("cholesky_inverse", case(lower(5, 3, 3)), case(lower(4, 4)))
give("cholesky_solve", case(t(5, 3, 2), lower(5, 3, 3)), case(t(3, 2), lower(3, 3)))
give("_linalg_det _linalg_slogdet linalg_inv_ex", case(dominant(5, 3, 3)), case(dominant(4, 4)))
give("linalg_matrix_exp", case(unit(5, 3, 3)), case(unit(4, 4)))
give("linalg_lu_factor_ex linalg_lu geqrf", case(t(5, 4, 3)), case(t(3, 4)))
give("linalg_ldl_factor_ex", case(posdef(5, 3, 3)), case(posdef(4, 4)))
without(
    "linalg_ldl_solve linalg_lu_solve lu_unpack",
    "torch does not check pivots, and parts of a P are none: it would write out of bounds",
)
give("_linalg_solve_ex", case(dominant(5, 3, 3), t(5, 3, 2)), case(dominant(4, 4), t(4)))
give("_linalg_solve_ex", case(dominant(3, 3), t(5, 2, 3), left=False))
give("linalg_qr", case(t(5, 4, 3)), case(t(3, 4, 2), "r"), case(t(4, 2), "complete"))
give("_linalg_svd", case(t(5, 4, 3)), case(t(3, 4, 2), False, False))
give("_linalg_eigh", case(posdef(5, 3, 3)), case(posdef(4, 4), "U", False))
give("linalg_eig", case(posdef(5, 3, 3), values=False), case(posdef(4, 4), values=False))
give("linalg_householder_product", case(t(5, 4, 3), unit(5, 3)), case(t(4, 2), unit(2)))
give("ormqr", case(t(5, 4, 3), unit(5, 3), t(5, 4, 2)))
give("linalg_pinv.atol_rtol_tensor", case(t(5, 4, 3)), case(dominant(4, 4)))
give("triangular_solve", case(t(5, 3, 2), lower(5, 3, 3), False), case(t(3, 2), lower(3, 3), False))
give("_linalg_check_errors", case(ints(0, 1, 5, dtype=torch.int32), "op", is_matrix=False))

# ---- What the rest of torch's database needed ------------------------------------------------

give("_fft_r2c", case(t(5, 4), [1], 0, True), case(t(3, 4, 2), [0, 2], 1, False))
give("_fft_c2r", case(t(5, 4, dtype=COMPLEX), [1], 0, 6), case(t(4, 3, dtype=COMPLEX), [0], 1, 7))
give("_cdist_forward", case(t(5, 3), t(4, 3), 2.0, 2), case(t(2, 4, 3), t(2, 5, 3), 1.0, None))
give("trace", case(t(5, 3)), case(t(4, 4)))
give("renorm", case(t(5, 3), 2.0, 0, 1.0), case(t(4, 5, 2), 1.0, -1, 1.5))
give(
    "searchsorted.Tensor",
    case(SORTED, t(5, 3)),
    case(made(lambda g: torch.randn(4, 6, generator=g).double().sort()[0], "rows[4, 6]"), t(4, 5)),
)
give("inner", case(t(5, 3), t(3)), case(t(3), t(4, 3)), case(t(), t(5)), case(t(3), t(2, 4, 3)))
give("frexp.Tensor", case(t(5, 3)), case(t(2, 4, 6)))
give("take", case(t(5, 3), ints(0, 15, 4, 3)), case(t(7), ints(0, 7, 5)))
give("put", case(t(5, 3), ints(0, 15, 4), t(4)))
give("index_fill.int_Tensor", case(t(5, 3), 0, ints(0, 5, 2), t()))
for reduce in ("prod", "mean", "amax", "amin"):
    rows = made(lambda g: torch.tensor([0, 4, 2]), "rows")
    give("index_reduce", case(distinct(5, 3), 0, rows, positive(3, 3), reduce))
    give("index_reduce", case(distinct(4, 6), 1, rows, positive(4, 3), reduce, include_self=False))
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    give("scatter_reduce.two", case(distinct(5, 3), 0, ints(0, 5, 4, 3), positive(4, 3), reduce))
    give("scatter_reduce.two", case(distinct(4, 6), 1, ints(0, 6, 4, 5), positive(4, 5), reduce))
give("dist", case(t(5, 3), t(5, 3)), case(t(4), t(4), 1))
give("nonzero_static", case(grid(5, 3), size=7))
give("unique_dim unique_dim_consecutive", case(ints(0, 2, 5, 3), 0))
give(
    "aminmax",
    case(distinct(5, 3)),
    case(distinct(5, 4), dim=1),
    case(distinct(4, 6), dim=0, keepdim=True),
)
without("hash_tensor", "its unsigned results cannot be compared by arithmetic")
give("median nanmedian", case(distinct(5, 3)), case(distinct(7)))
give(
    "std_mean.correction var_mean.correction",
    case(t(5, 3), [0]),
    case(t(2, 4, 6), [1], correction=0, keepdim=True),
)
give("std_mean.correction var_mean.correction", case(t(5, 4)))
give("_safe_softmax", case(t(5, 3), 1), case(t(4, 6), 0))
give("narrow_copy", case(t(5, 3), 0, 1, 3), case(t(5, 6), 1, 2, 4))
give("slice_scatter", case(t(5, 3), t(2, 3), 0, 1, 3), case(t(5, 6), t(5, 3), 1, 0, 6, 2))
give("select_scatter", case(t(5, 3), t(3), 0, 1), case(t(2, 5, 4), t(2, 5), 2, -1))
give("diagonal_scatter", case(t(5, 3), t(3)), case(t(2, 4, 4), t(2, 3), 1, 1, 2))
give("diag_embed", case(t(5, 3)), case(t(4, 2), 1, 0, 2))
give("rot90", case(t(5, 3)), case(t(4, 6, 2), 2, [0, 2]), case(t(4, 6, 2), -1, [1, 2]))
give("as_strided_scatter", case(t(5, 3), t(2, 2), [2, 2], [3, 1]))
give("linspace.Tensor_Tensor logspace.Tensor_Tensor", case(t(), t(), 5))
give("linspace.Tensor_Scalar logspace.Tensor_Scalar", case(t(), 2.0, 5))
give("linspace.Scalar_Tensor logspace.Scalar_Tensor", case(2.0, t(), 5))
give("native_dropout_backward", case(t(5, 3), bools(5, 3), 2.0))
for reduction in (0, 1, 2):
    give("multi_margin_loss", case(t(5, 3), ints(0, 3, 5), reduction=reduction))
    give("multilabel_margin_loss_forward", case(t(5, 3), ints(-1, 3, 5, 3), reduction))
give(
    "convolution",
    case(t(3, 4, 5), t(6, 4, 2), t(6), [1], [1], [1], False, [0], 1),
    case(t(3, 4, 5), t(4, 6, 2), t(6), [2], [1], [1], True, [1], 1),
    case(t(3, 4, 5), t(4, 3, 2), None, [1], [0], [1], True, [0], 2),
)
give("conv_transpose1d", case(t(3, 4, 5), t(4, 6, 2), t(6)), case(t(5, 4), t(5, 3, 2), None, [2]))
give("conv_transpose2d.input", case(t(3, 4, 5, 4), t(4, 6, 2, 2), t(6), [2], [1]))
give("conv_transpose3d.input", case(t(3, 4, 3, 2, 3), t(4, 2, 2, 2, 2), t(2)))
give("channel_shuffle", case(t(5, 6, 3), 2))
give(
    "im2col",
    case(t(5, 3, 4, 5), [2, 2], [1, 1], [1, 0], [1, 2]),
    case(t(4, 4, 5), [2, 1], [1, 1], [0, 0], [1, 1]),
)
give("col2im", case(t(5, 12, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1]))
give("pixel_shuffle", case(t(5, 8, 3, 4), 2))
give("pixel_unshuffle", case(t(5, 3, 4, 6), 2))
give(
    "max_pool2d_with_indices",
    case(distinct(3, 5, 4, 6), [2, 2]),
    case(distinct(2, 3, 5, 6), [3, 2], [2, 1], [1, 1], [1, 2], True),
    case(distinct(3, 5, 4), [3, 3], [1, 1], [1, 1]),
    case(distinct(2, 5, 4), [1, 2], [1, 2]),
)
give("max_pool3d_with_indices", case(distinct(3, 5, 4, 2, 2), [2, 2, 2]))
give(
    "adaptive_max_pool2d",
    case(distinct(3, 5, 4, 6), [2, 3]),
    case(distinct(2, 3, 6, 5), [3, 2]),
)
give("adaptive_max_pool3d", case(distinct(3, 5, 4, 2, 2), [2, 1, 1]))
give("fractional_max_pool2d", case(distinct(3, 5, 6, 6), [2, 2], [3, 3], uniform(0, 1, 3, 5, 2)))
give(
    "fractional_max_pool3d",
    case(distinct(3, 5, 4, 4, 4), [2, 2, 2], [2, 2, 2], uniform(0, 1, 3, 5, 3)),
)
PLACES = made(
    lambda g: torch.tensor([0, 3, 8, 11]).expand(3, 5, 4).reshape(3, 5, 2, 2).clone(), "places"
)
give("max_unpool2d", case(t(3, 5, 2, 2), PLACES, [4, 3]))
give("max_unpool3d", case(t(3, 5, 1, 2, 2), made(lambda g: torch.tensor([0, 3, 8, 11]).expand(3, 5, 4).reshape(3, 5, 1, 2, 2).clone(), "places"),
                          [2, 2, 3], [1, 1, 1], [0, 0, 0]))  # fmt: skip
give("_upsample_nearest_exact1d", case(t(3, 5, 4), [7]))
give("_upsample_nearest_exact2d", case(t(3, 5, 4, 3), [6, 5]))
give("_upsample_nearest_exact3d upsample_nearest3d", case(t(3, 5, 2, 3, 2), [3, 4, 3]))
give("upsample_trilinear3d", case(t(3, 5, 2, 3, 2), [3, 4, 3], False))
give("_upsample_bilinear2d_aa _upsample_bicubic2d_aa", case(t(3, 5, 4, 3), [6, 5], False))
give("grid_sampler_2d", case(t(3, 5, 4, 6), unit(3, 2, 4, 2), 0, 0, False))
give("grid_sampler_3d", case(t(3, 5, 4, 3, 2), unit(3, 2, 4, 3, 3), 0, 0, False))
give("alpha_dropout feature_alpha_dropout", case(t(5, 3), 0.5, True), case(t(5, 4), 0.5, False))

# ---- Ops that torch lacks ------------------------------------------------------------------

give(
    "hyper_parallel::gather_nd",
    case(t(4, 3, 5), ints(0, 3, 5, 2)),
    case(t(5, 3), ints(0, 5, 4, 1)),
)
give(
    "hyper_parallel::scatter_nd_add",
    case(t(3, 4), ints(0, 3, 5, 1), t(5, 4)),
    case(t(5, 4), ints(-3, 4, 6, 2), t(6)),
)
give("hyper_parallel::squared_l2_norm", case(t(5, 3)), case(t(4)))
give(
    "hyper_parallel::slice",
    case(t(5, 4, 3), [1], [1], [3], []),
    case(t(5, 4, 3), [0, 1], [1, 0], [2, 3], [0]),
)
give(
    "hyper_parallel::group_norm",
    case(t(4, 6, 3), t(6), t(6), 3),
    case(t(6, 4, 3), None, None, 2),
)
give(
    "hyper_parallel::instance_norm",
    case(t(6, 4, 3), t(4), t(4)),
    case(t(4, 6, 5), t(6), None),
)
give(
    "hyper_parallel::rope",
    case(t(5, 3, 4, 6), t(5, 3, 4, 6), t(5, 3, 2, 6), t(1, 3, 1, 6), t(1, 3, 1, 6)),
    case(t(4, 6, 3, 2), t(4, 6, 3, 2), t(4, 6, 3, 2), t(6, 2), t(6, 2), ints(0, 6, 4, 6)),
)
give(
    "hyper_parallel::label_smooth",
    case(t(5, 3, 4), t(4)),
    case(t(5, 3), t(5, 3)),
    case(t(5, 3)),
)
give(
    "hyper_parallel::batch_norm",
    *(case(t(5, 6, 3), t(6), t(6), t(6), positive(6), training) for training in (False, True)),
)
give(
    "hyper_parallel::cross_entropy_with_softmax",
    case(t(5, 4), ints(0, 4, 5, 1), 1, False),
    case(t(5, 4, 3), uniform(0, 1, 5, 4, 3), 1, True),
)
give(
    "hyper_parallel::roi_align",
    *(
        case(
            t(3, 5, 6, 4),
            made(lambda g: 4 * torch.rand(4, 4, generator=g).double().cumsum(1), "boxes"),
            made(lambda g: torch.tensor([1, 0, 3]), "counts"),
            2,
            3,
            0.5,
            ratio,
        )
        for ratio in (-1, 2)
    ),
)
give("hyper_parallel::unique", case(ints(0, 5, 4, 3)))
