"""Gradients of DTensors inside the graph.

Gradients flow through the graph of the local tensors. A DTensor that an op made has a local tensor
in that graph, so its hooks sit there, and what they see is wrapped as a DTensor in the dual layout:
for R that is P(sum), each rank's own contribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from hyper_parallel import _torch
from hyper_parallel._core import Layout_

Hook = Callable[[torch.Tensor], torch.Tensor | None]


def wrap_gradient(gradient: torch.Tensor, layout: Layout_, sizes: list[int]) -> torch.Tensor:
    """Show the local cotangent of a value in ``layout`` as a DTensor."""
    factor = _torch.gradient_factor(layout)
    return _torch.wrap(gradient if factor == 1 else gradient * factor, layout.dual(), sizes)


def unwrap_gradient(gradient: torch.Tensor, layout: Layout_, sizes: list[int]) -> torch.Tensor:
    """Get the local cotangent of a value in ``layout``; a plain gradient counts as whole."""
    return _torch.local_cotangent(gradient, layout, sizes)


def register_local_hook(tensor: torch.Tensor, hook: Hook) -> RemovableHandle:
    """Register ``hook`` for the gradient of ``tensor``, a DTensor inside the graph."""
    layout, sizes = _torch.layout(tensor), list(tensor.shape)

    def local_hook(gradient: torch.Tensor) -> torch.Tensor | None:
        result = hook(wrap_gradient(gradient, layout, sizes))
        return None if result is None else unwrap_gradient(result, layout, sizes)

    return _torch.local_for_use(tensor).register_hook(local_hook)


def retained_gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    """Get what ``retain_grad`` kept for a DTensor inside the graph."""
    local = _torch.local_for_use(tensor)
    if not local.retains_grad or local.grad is None:
        return None
    return wrap_gradient(local.grad, _torch.layout(tensor), list(tensor.shape))


_torch_run_backward = torch.autograd.graph._engine_run_backward


def _run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a backward pass in which ``inputs`` may be DTensors inside the graph.

    The engine is given their local tensors, and its gradients are wrapped. Without this it would
    look for the wrapper in the graph, not find it, and with ``allow_unused`` give None.
    """
    inputs = args[3] if len(args) > 3 else ()  # after gradients, retain_graph, create_graph
    places = [i for i, each in enumerate(inputs) if _is_inside(each)]
    if not places:
        return _torch_run_backward(outputs, *args, **kwargs)
    tensors = {i: inputs[i] for i in places}
    inputs = tuple(_torch.local_for_use(t) if i in tensors else t for i, t in enumerate(inputs))
    results = _torch_run_backward(outputs, *args[:3], inputs, *args[4:], **kwargs)
    if kwargs.get("accumulate_grad"):
        return results  # the engine made the locals retain their gradients
    return tuple(
        wrap_gradient(result, _torch.layout(tensors[i]), list(tensors[i].shape))
        if i in tensors and result is not None
        else result
        for i, result in enumerate(results)
    )


def _is_inside(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and _torch.has_down_node(value)


def install() -> None:
    """Let torch.autograd.grad and backward take DTensors inside the graph as inputs."""
    torch.autograd.graph._engine_run_backward = _run_backward
    torch.autograd._engine_run_backward = _run_backward
