"""Values and gradients of a step, and the switches that gradients and dispatch obey."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from types import TracebackType
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.errors import usage_error

__all__ = [
    "SkipDTensorDispatch",
    "checking",
    "no_grad_sync",
    "parallelize_value_and_grad",
    "policy",
]


def parallelize_value_and_grad(
    fn: Callable[..., Any],
    weights: torch.Tensor | Iterable[torch.Tensor],
    sens: Sequence[float] | None = None,
) -> Callable[..., tuple[Any, list[torch.Tensor]]]:
    """Make a function that runs ``fn`` and also gives the gradients of ``weights``.

        step = parallelize_value_and_grad(model, model.parameters())
        loss, grads = step(tokens)

    The gradients are those that one device would get: what an output starts with is cut as the
    output is, and divided by the number of ranks that hold copies. ``.grad`` of the weights and of
    other leaves is not touched.

    Args:
        fn: a module or a function that gives a tensor, or a tuple or list of outputs.
        weights: leaves that require grad.
        sens: for several outputs the weight of each; by default 1 for the first and 0 for the
            rest. A single output takes none. An output that is no scalar counts by its sum.

    Returns:
        A function of the arguments of ``fn`` that gives its outputs and a list of gradients, one a
        weight: a DTensor in the weight's layout, plain for a plain weight, zeros for a weight that
        the outputs do not depend on.

    Raises:
        UsageError: ``weights`` holds what is no leaf that requires grad; ``sens`` for a single
            output, of another length than the outputs, or not of numbers; an output of weight
            other than 0 that does not depend on any tensor that requires grad.

    Cost:
        The sums of replicated weights are one collective for each set of axes and element type.
    """
    leaves = [weights] if isinstance(weights, torch.Tensor) else list(weights)
    for i, weight in enumerate(leaves):
        _check_weight(weight, i)
    _check_sens(sens)

    def value_and_grad(*args: Any, **kwargs: Any) -> tuple[Any, list[torch.Tensor]]:
        with torch.enable_grad():
            outputs = fn(*args, **kwargs)
        starts = [(output, weight) for output, weight in _weighted(outputs, sens) if weight != 0]
        return outputs, _gradients(starts, leaves)

    if isinstance(fn, torch.nn.Module):
        return value_and_grad
    return functools.wraps(fn)(value_and_grad)


def _check_weight(weight: Any, place: int) -> None:
    if not isinstance(weight, torch.Tensor):
        problem = f"is a {type(weight).__name__}, not a tensor"
    elif not weight.requires_grad:
        problem = "does not require grad"
    elif not weight.is_leaf:
        problem = "is no leaf: an op made it"
    else:
        return
    raise usage_error("HP-G010", f"parallelize_value_and_grad: weights[{place}] {problem}")


def _check_sens(sens: Any) -> None:
    if sens is None:
        return
    if not isinstance(sens, (list, tuple)) or not all(
        isinstance(each, Real) and not isinstance(each, bool) for each in sens
    ):
        raise usage_error(
            "HP-G011",
            "parallelize_value_and_grad: sens is a list or tuple of numbers, one an output",
            given=repr(sens),
        )


def _weighted(outputs: Any, sens: Sequence[float] | None) -> list[tuple[torch.Tensor, float]]:
    """Pair outputs with their weights."""
    several = isinstance(outputs, (list, tuple))
    items = list(outputs) if several else [outputs]
    if sens is None:
        sens = [1.0] + [0.0] * (len(items) - 1)
    elif not several or len(items) == 1:
        raise usage_error(
            "HP-G012",
            "parallelize_value_and_grad: sens must be None for a single output",
            given=repr(sens),
            hint="multiply the output instead",
        )
    if len(sens) != len(items):
        raise usage_error(
            "HP-G013",
            f"parallelize_value_and_grad: {len(sens)} numbers in sens for {len(items)} outputs",
        )
    for i, (item, weight) in enumerate(zip(items, sens, strict=True)):
        if weight == 0:
            continue
        if not isinstance(item, torch.Tensor) or not item.requires_grad:
            kind = "requires no grad" if isinstance(item, torch.Tensor) else type(item).__name__
            raise usage_error(
                "HP-G014",
                f"parallelize_value_and_grad: output {i} has no gradient ({kind})",
                hint="give it the weight 0 in sens, or return a tensor made from the weights",
            )
    return list(zip(items, sens, strict=True))


def _gradients(
    starts: list[tuple[torch.Tensor, float]], leaves: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Run a backward pass that leaves ``.grad`` of all leaves as it was."""
    before = [leaf.grad for leaf in leaves]
    try:
        for leaf in leaves:
            leaf.grad = None
        if starts and leaves:
            torch.autograd.backward(
                [output for output, _ in starts],
                [_start(output, weight) for output, weight in starts],
                inputs=leaves,
            )
        return [torch.zeros_like(w) if w.grad is None else w.grad for w in leaves]
    finally:
        for leaf, gradient in zip(leaves, before, strict=True):
            leaf.grad = gradient


def _start(output: torch.Tensor, weight: float) -> torch.Tensor:
    """Make the gradient that ``output`` starts with: ``weight`` everywhere."""
    if not _torch.is_dtensor(output):
        return torch.full_like(output, weight)
    part = torch.full_like(_torch.local(output), weight)
    return _torch.wrap(part, _torch.layout(output).reduced(), list(output.shape))


@contextmanager
def no_grad_sync() -> Iterator[None]:
    """Leave the sums of gradients pending in backward passes inside: ``.grad`` is P there.

        with no_grad_sync():
            loss(batch_1).backward()
        loss(batch_2).backward()     # one reduction for both

    What counts is where ``backward()`` is called. Settings belong to a thread, see ``policy``.
    """
    before = _torch.set_grad_sync(False)
    try:
        yield
    finally:
        _torch.set_grad_sync(before)


class SkipDTensorDispatch:
    """Let ops inside take this rank's parts of DTensors, as if these were plain.

        with SkipDTensorDispatch():
            optimizer.step()        # elementwise: right on parts, and spared the dispatch

    What is written stays written, other results are plain tensors. Nothing is checked and nothing
    communicates: a sum inside is this rank's sum. Blocks nest. Settings belong to a thread, see
    ``policy``.
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_torch.set_skip(True))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _torch.set_skip(self._before.pop())


class _Setting:
    """A setting that holds from now on, or until the end of a ``with`` block."""

    def __init__(self, change: Callable[[Any], Any], value: Any) -> None:
        self._change = change
        self._before = change(value)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._change(self._before)


def policy(name: str) -> _Setting:
    """Choose what happens to an op that has no rule.

        policy("strict")            # from now on, on the calling thread
        with policy("strict"):      # inside only
            model(x)

    Settings (this one, ``checking``, ``no_grad_sync``, ``SkipDTensorDispatch``) belong to a thread
    and go with its work, as torch's grad mode does: to the threads of the engine during a backward
    pass that it calls, hooks and checkpoints that compute again included, and to the ranks of a
    ``run_local``. A checkpoint computes again under the settings of the backward pass, not of the
    forward pass: call ``backward()`` inside the same block. Other threads that it starts, such as
    loaders of data, begin with the defaults.

    Args:
        name: ``auto`` runs the op on whole tensors and warns once; ``strict`` raises
            UnsupportedError.

    Raises:
        UsageError: another name.
    """
    return _Setting(_torch.set_policy, name)


def checking(enabled: bool = True) -> _Setting:
    """Compare over the ranks what should be the same on all.

    Plain tensors that enter ops beside DTensors count as the same value on every rank, and so do
    the copies of a replicated result of ``custom_shard``, ``DFunction`` and ``DistributedOp``. With
    this, a rank whose shape, element type or values differ raises UsageError. Used as ``policy``
    is.

    Cost:
        One small all-gather a tensor, and a read of its values.
    """
    return _Setting(_torch.set_check_mode, enabled)
