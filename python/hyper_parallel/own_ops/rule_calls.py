"""Calls of functions whose layouts a rule gives: ``register_rule`` for a ``DFunction``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh, Query_
from hyper_parallel.errors import UnsupportedError, UsageError, make_error, usage_error
from hyper_parallel.launch.failures import naming_failures
from hyper_parallel.launch.ranks import rank
from hyper_parallel.layouts.plan_values import distribute_value
from hyper_parallel.local.region import Region, local_of, running
from hyper_parallel.own_ops.distributed_op import RuleOp
from hyper_parallel.own_ops.op_calls import entered, inferred, mesh_of_call
from hyper_parallel.rules.infer import TensorSpec

_READABLE = (bool, int, float, str)


def run_rule(
    op: RuleOp, func: Callable[..., Any], args: tuple[Any, ...], names: Sequence[str]
) -> Any:
    """Answer a call by the op's rule: move inputs, run on parts, wrap.

    Args:
        names: of the arguments. Tensors and lists of tensors are the rule's operands, others its
            attributes; None is an absent operand where the rule has one more.
    """
    mesh = mesh_of_call(op, args, {})
    call = _Call(args, names)
    plan = inferred(op, call.key(), lambda: _Plan(op, call, mesh))
    moved = iter(
        [distribute_value(t, layout) for t, layout in zip(call.tensors, plan.wanted, strict=True)]
    )

    def part(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return local_of(next(moved), mesh)
        return type(value)(part(each) for each in value) if _is_tensors(value) else value

    parts = [part(value) for value in args]
    for place, value in plan.replaced.items():
        parts[place] = value
    region = Region(mesh, joined=False)
    local, _ = entered(region, parts, {}, op)
    with naming_failures(op.op_name), running(region):
        results = func(*local)
    values = list(results) if isinstance(results, (list, tuple)) else [results]
    if len(values) != len(plan.results):
        raise usage_error(
            "HP-F034", f"{op.op_name}: {len(values)} results, the rule has {len(plan.results)}"
        )
    made: list[Any] = []
    here = mesh.coordinate(rank()) or []
    for i, (value, (layout, size)) in enumerate(
        zip(region.leave(values), plan.results, strict=True)
    ):
        want = layout.local_shape(size, here)
        if want != list(value.shape):
            raise usage_error(
                "HP-F041",
                f"{op.op_name}: result {i} does not have the shape that the rule says",
                shape=list(value.shape),
                wanted=want,
            )
        made.append(_torch.wrap(value, layout, size))
    return type(results)(made) if isinstance(results, (list, tuple)) else made[0]


def _is_tensors(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and len(value) > 0
    return several and all(isinstance(each, torch.Tensor) for each in value)


class _Call:
    """Arguments as a rule reads them."""

    def __init__(self, args: tuple[Any, ...], names: Sequence[str]) -> None:
        self.tensors: list[torch.Tensor] = []
        self.names: list[str] = []
        self.lengths: list[int] = []
        self.places: list[int] = []  # of the operands, for absent ones among them
        self.absent: list[int] = []
        self.attrs: dict[str, Any] = {}
        self.argument = {name: place for place, name in enumerate(names)}
        for place, (value, name) in enumerate(zip(args, names, strict=True)):
            if isinstance(value, torch.Tensor):
                self.tensors.append(value)
                self.names.append(name)
                self.lengths.append(-1)
                self.places.append(place)
            elif _is_tensors(value):
                self.tensors += value
                self.names += [f"{name}[{i}]" for i in range(len(value))]
                self.lengths.append(len(value))
                self.places.append(place)
            elif value is None:
                self.absent.append(place)
            elif _readable(value):
                self.attrs[name] = value

    def key(self) -> Any:
        operands = [(_layout(t), tuple(t.shape), t.dtype) for t in self.tensors]
        return (operands, self.lengths, self.places, self.absent, self.attrs)

    def query(self, row: str, mesh: Mesh) -> Query_:
        operands = [
            (name, list(t.shape), TensorSpec((), None, t.dtype).dtype, _layout(t))
            for t, name in zip(self.tensors, self.names, strict=True)
        ]
        try:
            return Query_(row, operands, self.lengths, self.attrs, mesh)
        except UsageError as error:
            if error.code != "HP-S001" or not self.absent:
                raise
        padded: list[Any] = []
        lengths: list[int] = []
        rest = iter(operands)
        of_place = dict(zip(self.places, self.lengths, strict=True))
        for place in sorted([*self.places, *self.absent]):
            count = of_place.get(place, -1)
            lengths.append(count)
            padded += [next(rest) if place in of_place else None for _ in range(abs(count))]
        return Query_(row, padded, lengths, self.attrs, mesh)


def _layout(tensor: torch.Tensor) -> Layout_ | None:
    return _torch.layout(tensor) if _torch.is_dtensor(tensor) else None


def _readable(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(each, int) for each in value)
    return isinstance(value, _READABLE)


class _Plan:
    """What a rule asks of the operands of a call, and gives."""

    def __init__(self, op: RuleOp, call: _Call, mesh: Mesh) -> None:
        query = call.query(op.row, mesh)
        made = query.forward()
        sizes = [list(size) for size, _ in query.results]
        if made["handler"] or made["random"] or any(-1 in size for size in sizes):
            raise make_error(
                UnsupportedError,
                "HP-F040",
                f"{op.op_name}: the rule needs more than the function itself",
                rule=query.spec,
                needs=f"handler {made['handler']}" if made["handler"] else "random draws or values",
                hint="mark that letter with !, or write a DistributedOp",
            )
        self.wanted = [layout for layout in made["inputs"] if layout is not None]
        self.results: list[tuple[Layout_, list[int]]] = list(
            zip(made["outputs"], sizes, strict=True)
        )
        here = mesh.coordinate(rank()) or []
        shapes = [layout.local_shape(size, here) for layout, size in self.results]
        self.replaced: dict[int, Any] = {}
        for argument, kind, tensor, dim in made["rewrites"]:
            value: Any = list(shapes[tensor])
            if kind == "local size":
                value = shapes[tensor][dim]
            elif kind == "local sizes":
                value = [shape[dim] for shape in shapes]
            self.replaced[call.argument[argument]] = value
