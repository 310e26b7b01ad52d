"""Check ops that a ``DistributedOp`` or the rule of a ``DFunction`` answers, on ranks.

Inputs are laid out in many ways and the call is made on DTensors; values and gradients are compared
with the same call on plain tensors. A call that refuses its layouts counts as refused, any other
error and any difference as wrong.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import UsageError, usage_error
from hyper_parallel.launch.ranks import rank, run_local
from hyper_parallel.layouts.layout import Layout
from hyper_parallel.local.local_code import custom_shard
from hyper_parallel.own_ops.dfunction import DFunction
from hyper_parallel.own_ops.distributed_op import RuleOp, find_distributed_op
from hyper_parallel.own_ops.op_calls import mapped, tensors_of

__all__ = ["function_named", "verify_function"]

Found = Callable[[str, str, str], None]


def function_named(op: Any) -> tuple[str, Callable[..., Any]] | None:
    """Find what to call for a ``DFunction``, its name, or an op of torch with a distributed op.

    Returns:
        The name of the op and the function; None for ops that the verifier of rules serves.
    """
    if isinstance(op, type) and issubclass(op, DFunction):
        if not op._op_name:
            raise usage_error("HP-F022", f"verify: {op.__name__} has no _op_name")
        return op._op_name, op.apply
    if not isinstance(op, str):
        raise usage_error("HP-V003", f"verify: {op!r:.60} is no name of an op and no DFunction")
    answer = find_distributed_op(op) or find_distributed_op(op.partition(".")[0])
    if answer is None and op.startswith("aten::"):
        answer = find_distributed_op(op.removeprefix("aten::").partition(".")[0])
    if answer is None:
        return None
    functions = [each for each in _subclasses(DFunction) if each._op_name == op]
    if len(functions) > 1:
        raise usage_error(
            "HP-V003",
            f'verify: {len(functions)} functions have the _op_name "{op}"',
            functions=", ".join(each.__qualname__ for each in functions),
            hint="give the class in place of its name",
        )
    if functions:
        return op, functions[0].apply
    space, _, name = (op if "::" in op else f"aten::{op}").partition("::")
    name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, space), name, None)
    if packet is None:
        raise usage_error("HP-V003", f'verify: no DFunction has the _op_name "{op}"')
    return op, getattr(packet, overload) if overload else packet


def _subclasses(cls: type) -> list[type]:
    return [each for one in cls.__subclasses__() for each in (one, *_subclasses(one))]


def verify_function(
    name: str,
    func: Callable[..., Any],
    draw: Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]],
    sizes: Sequence[int],
    seed: int,
    most: int,
    found: Found,
) -> dict[str, Any]:
    """Check one call on one mesh.

    Args:
        func: takes plain tensors and DTensors.
        draw: gives the arguments for a seed, the same on every rank.
        sizes: of the mesh.
        most: layouts that are tried; a sample of all if there are more.
        found: called with kind, layouts and detail for each difference.

    Returns:
        Counts: ``dispatched`` calls, ``backward`` calls with gradients, ``refused``, ``error``.
    """
    mesh = Mesh.get(list(sizes), [f"x{i}" for i in range(len(sizes))], [])
    args, kwargs = draw(seed)
    want, want_grads = _step(func, _leaves(args), _leaves(kwargs), None)
    counts: dict[str, Any] = {"dispatched": 0, "backward": 0, "refused": 0, "error": 0.0}
    for layouts in _layouts(tensors_of((args, kwargs)), mesh, seed, most):
        shown = ", ".join(map(str, layouts))
        try:
            answers = run_local(lambda at=layouts: _on_rank(func, draw, seed, at), mesh.size())
        except UsageError as error:
            if isinstance(find_distributed_op(name), RuleOp):
                found("raised", shown, str(error))
            counts["refused"] += 1
            continue
        except Exception as error:
            if isinstance(error, ValueError):  # what infer_layout of a program raises
                counts["refused"] += 1
            else:
                found("raised", shown, f"{type(error).__name__}: {error}")
            continue
        counts["dispatched"] += 1
        counts["backward"] += any(g is not None for g in want_grads)
        for results, grads in answers:
            for kind, mine, theirs in (("value", results, want), ("gradient", grads, want_grads)):
                far = _difference(mine, theirs)
                if far is None or far > 1e-9:
                    found(kind, shown, "sizes or types differ" if far is None else f"{far:.1e} off")
                    break
                counts["error"] = max(counts["error"], far)
            else:
                continue
            break
    return counts


def _layouts(
    tensors: Sequence[torch.Tensor], mesh: Mesh, seed: int, most: int
) -> list[tuple[Layout_, ...]]:
    """List layouts of all inputs: R, each dim cut, and pending sums of floating-point ones."""
    along_axis = []
    for t in tensors:
        ways = ["R", *(f"S({dim})" for dim in range(t.dim()))]
        along_axis.append(ways + (["P(sum)"] if t.is_floating_point() else []))
    of_axis = list(itertools.product(*along_axis))
    count = len(of_axis) ** mesh.ndim
    chooser = random.Random(seed)
    every = range(count) if count <= most else sorted(chooser.sample(range(count), most))
    made = []
    for number in every:
        ways = []
        for _ in range(mesh.ndim):
            number, way = divmod(number, len(of_axis))
            ways.append(of_axis[way])
        made.append(
            tuple(
                Layout_.parse(f"{mesh}: {' '.join(way[i] for way in ways)}")
                for i in range(len(tensors))
            )
        )
    return made


def _leaves(value: Any) -> Any:
    def leaf(t: torch.Tensor) -> torch.Tensor:
        return t.detach().clone().requires_grad_(t.is_floating_point() or t.is_complex())

    return mapped(value, leaf)


def _on_rank(
    func: Callable[..., Any],
    draw: Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]],
    seed: int,
    layouts: tuple[Layout_, ...],
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    args, kwargs = (_leaves(value) for value in draw(seed))
    return _step(func, args, kwargs, layouts)


def _step(
    func: Callable[..., Any],
    args: Any,
    kwargs: Any,
    layouts: tuple[Layout_, ...] | None,
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """Call ``func``; give results and the gradients of all leaves as plain tensors.

    Leaves are whole where an input is pending, and lie as the input does elsewhere.
    """
    leaves: list[torch.Tensor] = []
    rest = iter(layouts or ())

    def laid_out(t: torch.Tensor) -> torch.Tensor:
        if layouts is None:
            leaves.append(t)
            return t.clone()  # no leaf, so that it may be written
        layout = next(rest)
        pending = any(p.is_partial() for p in layout.placements)
        start = Layout_.replicated(layout.mesh) if pending else layout
        with torch.no_grad():
            leaf = _torch.distribute_tensor(t.detach(), start, None)
        leaves.append(leaf.requires_grad_(t.requires_grad))
        return _spread(leaf, layout) if pending else leaf.clone()

    results = func(*mapped(args, laid_out), **mapped(kwargs, laid_out))
    outs = tensors_of(results if isinstance(results, (list, tuple)) else [results])
    wanted = [o for o in outs if o.requires_grad]
    if wanted:  # no op but the checked one is called on DTensors: the program may have changed it
        torch.autograd.backward(wanted, [_start(o, i) for i, o in enumerate(wanted)])
    return [_plain(o.detach()) for o in outs], [
        None if leaf.grad is None else _plain(leaf.grad) for leaf in leaves
    ]


def _spread(whole: torch.Tensor, layout: Layout_) -> torch.Tensor:
    """Make the sum pending, with other terms on each rank that cancel out."""
    place = layout.mesh.coordinate(rank()) or []
    sign = 1.0
    for axis, placement in enumerate(layout.placements):
        if placement.is_partial():
            sign *= {0: 1.0, 1: -1.0}.get(place[axis], 0.0) if layout.mesh.sizes[axis] > 1 else 0.0
    add = custom_shard(lambda part: part + 3.0 * sign, Layout._of(layout))
    return add(_torch.redistribute(whole, layout))


def _start(output: torch.Tensor, seed: int) -> torch.Tensor:
    """Make the gradient that an output starts with."""
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed))
    drawn = drawn.to(output.dtype)
    if not _torch.is_dtensor(output):
        return drawn
    return _torch.distribute_tensor(drawn, _torch.layout(output).reduced(), None)


def _plain(t: torch.Tensor) -> torch.Tensor:
    return _torch.full_tensor(t, None) if _torch.is_dtensor(t) else t


def _difference(mine: Sequence[Any], theirs: Sequence[Any]) -> float | None:
    far = 0.0
    for one, other in zip(mine, theirs, strict=True):
        if one is None or other is None:
            known = one if other is None else other
            far = max(far, 0.0 if known is None or known.numel() == 0 else known.abs().max().item())
        elif one.shape != other.shape or one.dtype != other.dtype:
            return None
        elif one.numel():
            far = max(far, (one.double() - other.double()).abs().max().item())
    return far
