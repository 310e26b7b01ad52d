"""``local_map`` and ``implicit_replication`` with torch's signatures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.dtensors.dtensor import DTensor
from hyper_parallel.errors import usage_error
from hyper_parallel.layouts.layout_specs import is_layout_spec, layout_of_arguments
from hyper_parallel.local.local_code import custom_shard

__all__ = ["implicit_replication", "local_map"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Do nothing: plain tensors beside DTensors count as replicated everywhere."""
    yield


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: Any = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Run a function on the parts of DTensors, with torch's arguments.

    It is ``custom_shard``, and the gradient the true adjoint of what ``func`` computes, unless
    ``in_grad_placements`` are given. Then it is torch's: ``func`` gives the gradient of each input
    in these placements, and gets the gradients of its results whole.

    Args:
        out_placements: for a single result its placements; else a tuple with an entry a result.
        redistribute_inputs: move inputs to ``in_placements``; otherwise others raise.

    Raises:
        UsageError: as ``custom_shard``; an input in other placements than ``in_placements``.
    """
    if func is None:
        return lambda function: local_map(
            function,
            out_placements,
            in_placements,
            in_grad_placements,
            device_mesh,
            redistribute_inputs=redistribute_inputs,
        )
    if in_grad_placements is not None:
        return _Whole(
            func,
            out_placements,
            in_placements,
            in_grad_placements,
            device_mesh,
            redistribute_inputs,
        ).wrapped()
    inner = custom_shard(
        func, out_layouts=out_placements, in_layouts=in_placements, device_mesh=device_mesh
    )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if in_placements is not None and not redistribute_inputs:
            for i, (value, entry) in enumerate(zip(args, _entries(in_placements), strict=False)):
                _check_placements(value, entry, i)
        return inner(*args, **kwargs)

    return mapped


def _entries(placements: Any) -> Sequence[Any]:
    return (placements,) if is_layout_spec(placements) else tuple(placements)


def _check_placements(value: Any, entry: Any, place: int) -> None:
    if entry is None or not isinstance(value, torch.Tensor) or not _torch.is_dtensor(value):
        return
    own = _torch.layout(value)
    want = layout_of_arguments(own.mesh, entry, value.dim())
    if own != want:
        raise usage_error(
            "HP-F013",
            f"local_map: argument {place} has other placements than in_placements",
            tensor=_torch.describe(value),
            wanted=want,
            hint="redistribute_inputs=True",
        )


class _Whole:
    """A function on parts whose gradients cross the border as torch's do."""

    def __init__(
        self, func: Any, outputs: Any, inputs: Any, gradients: Any, mesh: Any, move: bool
    ) -> None:
        self.func, self.outputs, self.mesh, self.move = func, outputs, mesh, move
        self.inputs = None if inputs is None else _entries(inputs)
        self.gradients = _entries(gradients)

    def wrapped(self) -> Callable[..., Any]:
        @functools.wraps(self.func)
        def mapped(*args: Any, **kwargs: Any) -> Any:
            mesh = self.mesh
            parts = []
            for i, value in enumerate(args):
                if isinstance(value, torch.Tensor) and _torch.is_dtensor(value):
                    mesh = mesh or value.device_mesh  # type: ignore[attr-defined]
                    value = self._part(value, i)
                parts.append(value)
            results = self.func(*parts, **kwargs)
            return results if mesh is None else self._given_back(results, mesh)

        return mapped

    def _part(self, value: Any, place: int) -> torch.Tensor:
        entry = None if self.inputs is None else self.inputs[place]
        if entry is not None and self.move:
            value = value.redistribute(value.device_mesh, entry)
        _check_placements(value, entry, place)
        gradient = self.gradients[place] if place < len(self.gradients) else None
        return value.to_local(grad_placements=gradient)

    def _given_back(self, results: Any, mesh: Any) -> Any:
        if isinstance(results, torch.Tensor):
            entry = self.outputs
            if not is_layout_spec(entry):
                entry = entry[0]
            return DTensor.from_local(results, mesh, entry)
        if len(results) != len(self.outputs):
            raise usage_error(
                "HP-F009",
                f"local_map: {len(results)} results, out_placements has {len(self.outputs)}",
            )
        return type(results)(
            DTensor.from_local(value, mesh, entry) if entry is not None else value
            for value, entry in zip(results, self.outputs, strict=True)
        )
