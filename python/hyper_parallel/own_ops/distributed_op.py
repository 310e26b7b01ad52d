"""Ops whose layouts a Python class infers: ``DistributedOp`` and its registry."""

from __future__ import annotations

import threading
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.errors import UsageError, near_facts, usage_error
from hyper_parallel.layouts.layout import Layout

__all__ = [
    "DistributedOp",
    "get_distributed_op",
    "register_distributed_op",
    "register_rule",
    "registered_ops",
    "unregister_distributed_op",
    "unregister_rule",
]

SUFFIXES = ("", "WithShape", "Reshape", "WithTupleExpand", "Slice")


class DistributedOp:
    """How one op runs on parts: layouts of results from those of inputs, and what replaces it.

        class MyAdd(DistributedOp):
            def infer_layout(self, layouts, extra_args=None):
                return layouts[0]

        MyAdd("MyAdd")                 # made is registered

    The name is that of a ``DFunction``, of an op made with ``torch.library`` (``mylib::swiglu``),
    or of one of torch (``linear``, all its overloads), where it takes the place of the built-in
    rule. With ``out=`` the results are copied there. An op in place (``mul_``) is another op, under
    its own name: it runs on copies of the parts, and what it wrote goes into the argument, which
    keeps its layout.

    There are three stages: ``preprocess`` splits a call into local arguments and what decides
    layouts; ``infer_layout`` gives the layouts of results, and refuses what it cannot do;
    ``get_expand_impl`` may give another function to run. Without a ``preprocess`` the older form
    holds: ``infer_layout(layouts, extra_args)`` and ``get_expand_impl(func, output_layout, layouts,
    extra_args)``; ``layouts`` has an entry an argument, None for what is no DTensor, and
    ``extra_args`` all arguments that are no DTensors. Inputs are never moved: ops that need another
    layout raise in ``infer_layout``.

    The last two stages run once for each set of layouts and arguments on each rank.

    Args:
        op_name: the name to register under.
        suffix: what ``extra_args`` and results of the older form hold besides: ``WithShape`` adds a
            list of the inputs' global shapes; ``Reshape`` adds the global shape of the first, and
            results are (layout, local target shape); ``Slice`` adds that shape, and results are
            (layout, local begin, local end); ``WithTupleExpand`` flattens lists of tensors.

    Raises:
        UsageError: another class is registered under the name.
    """

    _allow_partial_inputs = False

    def __init__(self, op_name: str, suffix: str | None = None) -> None:
        self.op_name = op_name
        self.suffix = "" if suffix is None else suffix
        _check_suffix(op_name, self.suffix)
        register_distributed_op(op_name, self)

    def preprocess(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Split a call: ``(local_args, local_kwargs, cache_values)``, or None for the older form.

        ``to_local()`` gives the parts with the graph that local code needs. ``cache_values`` holds
        all that ``infer_layout`` depends on.
        """
        return None

    def infer_layout(self, layouts: Any, extra_args: Any = None) -> Any:
        """Give the layouts of results: one, or a tuple of them, then what the next stage needs.

        The newer form gets ``cache_values`` and returns ``((layout, ...), extra)``.
        """
        self._check_partial_inputs(layouts)
        found = next((each for each in layouts if isinstance(each, Layout)), None)
        if found is None:
            raise usage_error("HP-F030", f"{self.op_name}: no input is a DTensor")
        return found

    def get_expand_impl(self, func: Any, infer_result: Any, *rest: Any) -> Any:
        """Give the function to run on local arguments in place of ``func``; None for ``func``."""
        return None

    def _check_partial_inputs(self, layouts: Any) -> None:
        """Refuse inputs with pending reductions, unless ``_allow_partial_inputs``.

        Raises:
            UsageError: such an input.
        """
        if self._allow_partial_inputs:
            return
        for i, layout in enumerate(layouts):
            if isinstance(layout, Layout) and layout.has_partial:
                raise usage_error(
                    "HP-F031",
                    f"{self.op_name}: input {i} has a pending reduction, which this op cannot take",
                    layout=layout,
                    hint="reduce_partial() does the reduction",
                )


# ---- The registry --------------------------------------------------------------------------

_lock = threading.RLock()
_ops: dict[str, DistributedOp] = {}
_now = 0  # changes with the registry


def register_distributed_op(op_name: str, op: DistributedOp) -> None:
    """Let ``op`` answer calls with DTensors of the ``DFunction`` or op of that name.

    Raises:
        UsageError: an op of another class is registered under the name; not a ``DistributedOp``.
    """
    if not isinstance(op, DistributedOp):
        raise usage_error(
            "HP-F032", f'"{op_name}": a DistributedOp is registered, not {type(op).__name__}'
        )
    with _lock:
        before = _ops.get(op_name)
        if before is not None and _class_name(before) != _class_name(op):
            raise usage_error(
                "HP-F033",
                f'"{op_name}" has a distributed op already',
                registered=_class_name(before),
                given=_class_name(op),
                hint=f'unregister_distributed_op("{op_name}") first',
            )
        _ops[op_name] = op
        _changed()
        name = torch_name(op_name)
        if name is not None:
            try:
                _torch.set_user_op(name, True)
            except UsageError:
                del _ops[op_name]
                raise


def _changed() -> None:
    global _now
    _now += 1


def registry_generation() -> int:
    """Get a number that changes with the registry."""
    return _now


def _class_name(op: DistributedOp) -> str:
    return f"{type(op).__module__}.{type(op).__qualname__}"


def unregister_distributed_op(op_name: str) -> bool:
    """Take a distributed op away; a built-in rule of the same op counts again. False: none was."""
    with _lock:
        was = _ops.pop(op_name, None) is not None
        _changed()
    name = torch_name(op_name)
    if was and name is not None:
        _torch.set_user_op(name, False)
    return was


def get_distributed_op(op_name: str) -> DistributedOp:
    """Get the distributed op of a name.

    Raises:
        UsageError: none is registered; near names are listed.
    """
    op = find_distributed_op(op_name)
    if op is None:
        raise usage_error(
            "HP-F020",
            f'no distributed op is registered for "{op_name}"',
            **near_facts("registered", op_name, registered_ops()),
            hint=f'make a DistributedOp("{op_name}"), or register_rule("{op_name}", ...)',
        )
    return op


def find_distributed_op(op_name: str) -> DistributedOp | None:
    with _lock:
        return _ops.get(op_name)


def registered_ops() -> list[str]:
    """List the names that have a distributed op."""
    with _lock:
        return sorted(_ops)


def torch_name(op_name: str) -> str | None:
    """Get the schema name that a registered name stands for: ``linear`` is ``aten::linear``."""
    if "::" in op_name:
        return op_name.partition(".")[0]
    return f"aten::{op_name}" if hasattr(torch.ops.aten, op_name) else None


def _check_suffix(op_name: str, suffix: str) -> None:
    if suffix not in SUFFIXES:
        raise usage_error(
            "HP-F035",
            f'"{op_name}": no kind of infer_layout is named "{suffix}"',
            kinds=", ".join(repr(each) for each in SUFFIXES),
        )


def register_rule(op: str, rule: str) -> None:
    """Give an op a sharding rule in the notation of docs/notation.md; one line is enough.

        register_rule("mylib::swiglu", "... f, ... f -> ... f")

    It takes the place of a built-in one. Forward, reverse and gradient inference follow from it,
    inputs are moved as it needs, and ``verify("mylib::swiglu", (gate, up))`` checks it.

    Args:
        op: the name in torch's schema, with its overload if it has one: ``aten::sum.dim_IntList``.
            Or the ``_op_name`` of a ``DFunction``: tensors and lists of tensors by place are the
            operands, other arguments the attributes, by the names of ``forward``.

    Raises:
        UsageError: torch has no such op, the rule cannot be read, another rule of the program's or
            a ``DistributedOp`` of that name.
    """
    if "::" in op or torch_name(op) is not None:
        _torch.register_rule(op, rule)
        return
    fresh = find_distributed_op(op) is None
    made = RuleOp(op)  # refuses a DistributedOp of that name
    try:
        _torch.register_row(made.row, rule)
    except UsageError:
        if fresh:
            unregister_distributed_op(op)
        raise


def unregister_rule(op: str) -> bool:
    """Take the rule of ``register_rule`` away; a built-in one counts again. False: none was."""
    if isinstance(find_distributed_op(op), RuleOp):
        unregister_distributed_op(op)
        return _torch.unregister_row(_ROW + op)
    return _torch.unregister_rule(op)


_ROW = "function::"


class RuleOp(DistributedOp):
    """A function whose layouts a rule gives, and whose inputs are moved as the rule needs."""

    @property
    def row(self) -> str:
        return _ROW + self.op_name
