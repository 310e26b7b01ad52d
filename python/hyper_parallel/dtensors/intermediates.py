"""Gradients of DTensors inside the graph.

Gradients flow through the graph of the local tensors. A DTensor that an op made has a local tensor
in that graph, so its hooks sit there, and what they see is wrapped as a DTensor in the dual layout:
for R that is P(sum), each rank's own contribution.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, Node
from torch.utils.hooks import RemovableHandle

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, UnsupportedError
from hyper_parallel.errors import make_error

Hook = Callable[[Any], torch.Tensor | None]


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

    def local_hook(gradient: torch.Tensor | None) -> torch.Tensor | None:
        # As in torch: a hook on one of several outputs is called with None if that one is unused.
        shown = None if gradient is None else wrap_gradient(gradient, layout, sizes)
        result = hook(shown)
        return None if result is None else unwrap_gradient(result, layout, sizes)

    return _torch.local_for_use(tensor).register_hook(local_hook)


def giving_dual(tensor: torch.Tensor, hook: Hook) -> Hook:
    """Make a hook for ``tensor``, which has a graph of its own, that may give any layout or plain.

    What the hook gives then takes the layout in which the engine adds up gradients.
    """
    layout, sizes = _torch.layout(tensor), list(tensor.shape)

    def dual_hook(gradient: torch.Tensor | None) -> torch.Tensor | None:
        result = hook(gradient)
        if result is None or (_torch.is_dtensor(result) and _torch.layout(result) is layout.dual()):
            return result
        return wrap_gradient(unwrap_gradient(result, layout, sizes), layout, sizes)

    return dual_hook


def retained_gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    """Get what ``retain_grad`` kept for a DTensor inside the graph."""
    local = _torch.local_for_use(tensor)
    if not local.retains_grad or local.grad is None:
        return None
    return wrap_gradient(local.grad, _torch.layout(tensor), list(tensor.shape))


def warn_of_share(tensor: torch.Tensor, gradient: torch.Tensor | None) -> None:
    """Warn of a gradient of 1 / n for a number of which n ranks hold copies.

    Systems in which each copy starts a backward pass of its own divide so (``repeat_num()``). Here
    all copies are one number, and gradients would be n times too small.
    """
    if gradient is None or gradient.numel() != 1 or _torch.is_dtensor(gradient):
        return
    layout = _torch.layout(tensor)
    axes = zip(layout.mesh.sizes, layout.placements, strict=True)
    copies = math.prod(size for size, placement in axes if placement.is_replicate())
    if copies > 1 and math.isclose(gradient.item(), 1 / copies, rel_tol=1e-3):
        warnings.warn(
            f"backward(1 / {copies}) of a DTensor of which {copies} ranks hold copies: gradients "
            "become that much smaller. Copies are one value here, and nothing is to be divided by "
            "their number.",
            stacklevel=3,
        )


# ---- Nodes -----------------------------------------------------------------------------------


def register_node_hook(node: Node, hook: Any) -> RemovableHandle:
    """Refuse a hook on ``grad_fn`` that would see the gradients of an op's inputs."""
    raise make_error(
        UnsupportedError,
        "HP-G020",
        "register_hook of the grad_fn of a DTensor: gradients pass the op on the parts of ranks",
        node=node.name(),
        hint="tensor.register_hook(hook), or grad_fn.register_prehook(hook)",
    )


def register_node_prehook(node: Node, hook: Any) -> RemovableHandle:
    """Register ``hook`` before the node of an op, whose result, a DTensor, has this ``grad_fn``."""
    layout, sizes = _torch.layout_of_node(node), _torch.sizes_of_node(node)
    local = node.next_functions[0][0]
    if len(local._input_metadata) != 1:
        raise make_error(
            UnsupportedError,
            "HP-G020",
            "register_prehook of the grad_fn of a DTensor that is one of several results",
            node=local.name(),
            hint="tensor.register_hook(hook)",
        )

    def local_hook(gradients: tuple[torch.Tensor | None]) -> tuple[torch.Tensor | None] | None:
        (gradient,) = gradients
        result = hook((None if gradient is None else wrap_gradient(gradient, layout, sizes),))
        if result is None:
            return None
        (changed,) = result
        return (None if changed is None else unwrap_gradient(changed, layout, sizes),)

    return local.register_prehook(local_hook)


_torch_will_execute = torch._C._will_engine_execute_node
_torch_node_of = torch.autograd.graph._get_grad_fn_or_grad_acc


def _will_execute(node: Node) -> bool:
    """Say whether this pass runs ``node``; for that of a DTensor, the local one behind it."""
    if _torch.layout_of_node(node) is not None:
        node = node.next_functions[0][0]
    return _torch_will_execute(node)


def _node_of(value: Any) -> Node:
    """Find the node that gets the gradient of a tensor or edge: of a leaf, what accumulates it."""
    if isinstance(value, torch.Tensor) and _torch.is_dtensor(value) and value.is_leaf:
        return _torch.gradient_node(value)
    return _torch_node_of(value)


# ---- Backward passes -------------------------------------------------------------------------

_torch_run_backward = torch.autograd.graph._engine_run_backward


class _Inside:
    """An input of a backward pass that lies inside the graph: where the engine finds it."""

    def __init__(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.layout, self.sizes = _torch.layout(value), list(value.shape)
            self.local: Any = _torch.local_for_use(value)
        else:
            self.layout = _torch.layout_of_node(value.node)
            self.sizes = _torch.sizes_of_node(value.node)
            self.local = GradientEdge(*value.node.next_functions[0])

    def shown(self, gradient: torch.Tensor | None) -> torch.Tensor | None:
        return None if gradient is None else wrap_gradient(gradient, self.layout, self.sizes)


def _run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a backward pass in which ``inputs`` may be DTensors inside the graph, or edges to them.

    The engine is given their local tensors, and its gradients are wrapped. Without this it would
    look for the wrapper in the graph, not find it, and with ``allow_unused`` give None.
    """
    inputs = args[3] if len(args) > 3 else ()  # after gradients, retain_graph, create_graph
    inside = {i: _Inside(each) for i, each in enumerate(inputs) if _is_inside(each)}
    if not inside:
        return _torch_run_backward(outputs, *args, **kwargs)
    inputs = tuple(inside[i].local if i in inside else each for i, each in enumerate(inputs))
    results = _torch_run_backward(outputs, *args[:3], inputs, *args[4:], **kwargs)
    if kwargs.get("accumulate_grad"):
        return results  # the engine made the locals retain their gradients
    return tuple(inside[i].shown(g) if i in inside else g for i, g in enumerate(results))


def _is_inside(value: Any) -> bool:
    if isinstance(value, GradientEdge):
        return _torch.layout_of_node(value.node) is not None
    return isinstance(value, torch.Tensor) and _torch.has_down_node(value)


def install() -> None:
    """Let what torch has in Python for backward passes know DTensors inside the graph."""
    torch.autograd.graph._engine_run_backward = _run_backward
    torch.autograd._engine_run_backward = _run_backward
    torch.autograd.graph._get_grad_fn_or_grad_acc = _node_of
    torch._C._will_engine_execute_node = _will_execute
