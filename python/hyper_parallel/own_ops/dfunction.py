"""Hand-written forward and backward on the parts of DTensors."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.errors import near_facts, usage_error
from hyper_parallel.own_ops.distributed_op import RuleOp, find_distributed_op, registered_ops
from hyper_parallel.own_ops.op_calls import run_distributed_op
from hyper_parallel.own_ops.rule_calls import run_rule

__all__ = ["DFunction"]

_inside: contextvars.ContextVar[str] = contextvars.ContextVar("inside", default="")


class DFunction(torch.autograd.Function):
    """A ``torch.autograd.Function`` that also takes DTensors.

        class MyAddOp(DistributedOp):
            def infer_layout(self, layouts, extra_args=None):
                return layouts[0]

        MyAddOp("MyAdd")

        class MyAdd(DFunction):
            _op_name = "MyAdd"

            @staticmethod
            def forward(ctx, x, y):
                return x + y

            @staticmethod
            def backward(ctx, grad):
                return grad, grad

        MyAdd.apply(x, y)

    Called with plain tensors alone it is what torch's class is. With DTensors, ``forward`` and
    ``backward`` get this rank's parts, and the layouts of results are those that the
    ``DistributedOp`` named ``_op_name`` infers. Gradients are in the dual layout: that of a
    replicated value is each rank's own contribution. Collectives by axis name work in both.

    A rule for ``_op_name`` (``register_rule``) serves as well. It reads tensors as its operands and
    other arguments as attributes, by the names that ``forward`` gives them.

    Raises:
        UsageError: no ``_op_name``, no distributed op of that name (near names are listed),
            ``apply`` inside ``forward`` or ``backward`` of another ``DFunction``.
    """

    _op_name: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "backward"):
            function = cls.__dict__.get(name)
            if isinstance(function, staticmethod):
                setattr(cls, name, staticmethod(_guarded(function.__func__, cls.__name__)))

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run it; see the class."""
        outer = _inside.get()
        if outer:
            raise usage_error(
                "HP-F021",
                f"{cls.__name__}.apply inside forward or backward of {outer}",
                hint="call a function that both use",
            )
        plain = functools.partial(super().apply, **kwargs)
        if not any(_has_dtensor(value) for value in args):
            return plain(*args)
        if not cls._op_name:
            raise usage_error(
                "HP-F022",
                f"{cls.__name__} has no _op_name, so its layouts cannot be inferred",
                hint=f'_op_name = "{cls.__name__}" in the class, and a DistributedOp of that name',
            )
        op = find_distributed_op(cls._op_name)
        if op is None:
            raise usage_error(
                "HP-F020",
                f'{cls.__name__}: no distributed op is registered for "{cls._op_name}"',
                **near_facts("registered", cls._op_name, registered_ops()),
                hint=f'make a DistributedOp("{cls._op_name}") before the call',
            )
        if isinstance(op, RuleOp):
            return run_rule(op, plain, args, cls._argument_names(len(args)))
        owner = (cls, tuple(kwargs.items()))
        return run_distributed_op(op, plain, args, {}, owner=owner)

    @classmethod
    def _argument_names(cls, count: int) -> list[str]:
        """Name the arguments of ``apply`` as ``forward`` does; those that it gathers by place."""
        parameters = list(inspect.signature(cls.forward).parameters.values())
        if cls.setup_context is torch.autograd.Function.setup_context:
            del parameters[0]  # ctx
        names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        return [names[i] if i < len(names) else str(i) for i in range(count)]


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Let ``apply`` know that it is called from inside."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        token = _inside.set(name)
        try:
            return function(*args, **kwargs)
        finally:
            _inside.reset(token)

    return guarded


def _has_dtensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return _torch.is_dtensor(value)
    return isinstance(value, (list, tuple)) and any(_has_dtensor(each) for each in value)
