"""Lists of tensors: foreach and fused optimizers."""

import torch

from hyper_parallel.verifier.case import case, distinct, ints, made, positive, t, unit

from .table import INF, give

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
