"""Ops of torch that have a ``DistributedOp``: called by the dispatch.

Ops that write their arguments run on copies of the parts; what they wrote then goes through
``copy_`` into the argument, which keeps its layout, its views and its place in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.errors import UnsupportedError, make_error, usage_error
from hyper_parallel.own_ops.distributed_op import DistributedOp, find_distributed_op
from hyper_parallel.own_ops.op_calls import run_distributed_op, tensors_of


def _answer(name: str, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    space, _, base = name.partition("::")
    op = find_distributed_op(name)
    if op is None and space == "aten":
        op = find_distributed_op(base)
    func = getattr(getattr(getattr(torch.ops, space), base), overload or "default")
    if op is None:  # taken away by another thread just now
        raise usage_error("HP-F020", f'no distributed op is registered for "{name}"')
    if not func._schema.is_mutable:
        return run_distributed_op(op, func, args, kwargs, owner=func)
    if any(argument.is_out for argument in func._schema.arguments):
        return _into_out(op, func, args, kwargs)
    return _in_place(op, func, args, kwargs)


def _into_out(op: DistributedOp, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the form that returns its results, and copy these."""
    given = dict(kwargs)
    outs = [given.pop(a.name) for a in func._schema.arguments if a.is_out]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors_of((args, kwargs))):
        raise make_error(
            UnsupportedError,
            "HP-F043",
            f"{op.op_name}: no gradient passes out=, and an argument requires grad",
            hint="the form that returns a new tensor, or no_grad()",
        )
    results = func._overloadpacket(*args, **given)
    several = isinstance(results, (list, tuple))
    for out, result in zip(outs, results if several else [results], strict=True):
        _write(op, out, result)
    return tuple(outs) if several else outs[0]


def _in_place(op: DistributedOp, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    schema = func._schema
    places = [i if i < len(args) else a.name for i, a in enumerate(schema.arguments)]
    written = {
        _alias(a): place
        for a, place in zip(schema.arguments, places, strict=True)
        if a.alias_info is not None and a.alias_info.is_write
    }
    writes = [p for p in written.values() if _given(p, args, kwargs) is not None]
    layouts = [_layout_of(_given(p, args, kwargs)) for p in writes]
    results, copies = run_distributed_op(op, func, args, kwargs, owner=func, writes=writes)
    values = list(results) if isinstance(results, (list, tuple)) else [results]
    returned: dict[Any, int] = {}
    for i, returns in enumerate(schema.returns):
        if returns.alias_info is not None and _alias(returns) in written:
            returned[written[_alias(returns)]] = i
    for place, layout, copy in zip(writes, layouts, copies, strict=True):
        target = _given(place, args, kwargs)
        if place in returned:
            value, values[returned[place]] = values[returned[place]], target
        elif layout is None:
            value = copy
        else:
            value = _torch.wrap(copy, layout, list(target.shape))
        _write(op, target, value)
    if not schema.returns:
        return None
    return values[0] if len(schema.returns) == 1 else tuple(values)


def _alias(argument: Any) -> tuple[str, ...]:
    return tuple(sorted(argument.alias_info.before_set))


def _given(place: int | str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return kwargs.get(place) if isinstance(place, str) else args[place]


def _layout_of(value: torch.Tensor) -> Any:
    return _torch.layout(value) if _torch.is_dtensor(value) else None


def _write(op: DistributedOp, target: torch.Tensor, value: torch.Tensor) -> None:
    if target.shape != value.shape:
        raise usage_error(
            "HP-S006",
            f"{op.op_name}: what is written has other sizes than the result",
            written=list(target.shape),
            result=list(value.shape),
        )
    target.copy_(value)


_torch.set_user_op_handler(_answer)
