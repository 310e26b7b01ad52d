"""A model by its names: where each tensor is held, and the hooks around its modules.

The walk over the tensors (patterns, near names, ties, what moves) is ``ParameterMoves`` of
``torch/face/module.h``, for models of both languages; it sees this view.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from hyper_parallel.dtensors.dtensor import distribute_tensor
from hyper_parallel.errors import usage_error

__all__ = ["ModuleView", "check_shape", "lay_out", "viewing"]


@dataclasses.dataclass
class _Held:
    """One tensor, and all places that hold it."""

    tensor: torch.Tensor
    buffer: bool
    names: list[str] = dataclasses.field(default_factory=list)
    places: list[tuple[nn.Module, str]] = dataclasses.field(default_factory=list)


class ModuleView:
    """A model seen through the names of its tensors and modules.

    Args:
        root: the model. Its modules are read once; what is added later is not seen.
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.modules: dict[str, nn.Module] = dict(root.named_modules(remove_duplicate=False))
        self._held: dict[int, _Held] = {}
        for buffer in (False, True):
            for path, module in self.modules.items():
                for name, tensor in (module._buffers if buffer else module._parameters).items():
                    if tensor is None:
                        continue
                    held = self._held.setdefault(id(tensor), _Held(tensor, buffer))
                    held.names.append(f"{path}.{name}" if path else name)
                    held.places.append((module, name))

    def held(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        """List each tensor once: its names, itself, and whether it is a buffer.

        Raises:
            UsageError: a parameter without a shape.
        """
        for held in self._held.values():
            if not held.buffer:
                check_shape(held.names[0], held.tensor)
        return [(held.names, held.tensor, held.buffer) for held in self._held.values()]

    def holds(self, tensor: torch.Tensor) -> bool:
        """Tell whether the model holds this very tensor."""
        return id(tensor) in self._held

    def replace(
        self, old: torch.Tensor, made: torch.Tensor, gradient: torch.Tensor | None = None
    ) -> None:
        """Put ``made`` in all places that hold ``old``; a parameter stays one, ties stay."""
        held = self._held.pop(id(old))
        if isinstance(old, nn.Parameter):
            made = nn.Parameter(made, requires_grad=old.requires_grad)
            made.__dict__.update({k: v for k, v in old.__dict__.items() if k != "_is_param"})
            made.grad = gradient
        for module, name in held.places:
            table = module._parameters if name in module._parameters else module._buffers
            table[name] = made
        held.tensor = made
        self._held[id(made)] = held

    def before(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Call ``hook(module, args, kwargs)`` before each forward; it returns both anew."""
        module.register_forward_pre_hook(hook, with_kwargs=True)

    def after(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Call ``hook(module, args, result)`` after each forward; it returns the result anew."""
        module.register_forward_hook(hook)


def check_shape(name: str, tensor: torch.Tensor) -> None:
    """Refuse a lazy parameter.

    Raises:
        UsageError: it has no shape yet.
    """
    if nn.parameter.is_lazy(tensor):
        raise usage_error(
            "HP-P022",
            f'parameter "{name}" has no shape yet',
            hint="run the model once before it is sharded",
        )


# The view of the whole model, while styles lay out modules inside it.
_viewed: contextvars.ContextVar[ModuleView | None] = contextvars.ContextVar("viewed", default=None)


@contextlib.contextmanager
def viewing(root: nn.Module) -> Iterator[ModuleView]:
    """Let ``lay_out`` replace parameters in all places of ``root``, or of the model around it."""
    view = _viewed.get()
    if view is not None:
        yield view
        return
    view = ModuleView(root)
    token = _viewed.set(view)
    try:
        yield view
    finally:
        _viewed.reset(token)


def lay_out(
    module: nn.Module, name: str, mesh: Any, placements: Any, src_data_rank: int | None
) -> None:
    """Make a parameter or buffer of ``module`` a DTensor, wherever the model holds it.

    Args:
        mesh, placements, src_data_rank: as ``distribute_tensor`` takes them.

    Raises:
        UsageError: a parameter without a shape, a layout that does not fit.
    """
    old = module._parameters.get(name)
    if old is None:
        old = module._buffers.get(name)
    if old is None:
        return
    check_shape(name, old)
    made = distribute_tensor(old.detach(), mesh, placements, src_data_rank=src_data_rank)
    gradient = old.grad if old.is_leaf else None
    if gradient is not None:
        gradient = distribute_tensor(gradient, mesh, placements, src_data_rank=src_data_rank)
    view = _viewed.get()
    if view is None or not view.holds(old):
        view = ModuleView(module)
    view.replace(old, made, gradient)
