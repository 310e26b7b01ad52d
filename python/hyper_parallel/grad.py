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
    "random_mode",
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
        if not isinstance(weight, torch.Tensor):
            raise usage_error(
                "HP-G010",
                f"value_and_grad: weights[{i}] is a {type(weight).__name__}, not a tensor",
            )
    _torch.check_weights(leaves)
    if sens is not None and not (
        isinstance(sens, (list, tuple))
        and all(isinstance(each, Real) and not isinstance(each, bool) for each in sens)
    ):
        raise usage_error(
            "HP-G011",
            "value_and_grad: sens is a list or tuple of numbers, one an output",
            given=repr(sens),
        )

    def value_and_grad(*args: Any, **kwargs: Any) -> tuple[Any, list[torch.Tensor]]:
        with torch.enable_grad():
            outputs = fn(*args, **kwargs)
        single = not isinstance(outputs, (list, tuple))
        tensors = [
            each if isinstance(each, torch.Tensor) else None
            for each in ([outputs] if single else outputs)
        ]
        return outputs, _torch.gradients(tensors, leaves, sens, single)

    if isinstance(fn, torch.nn.Module):
        return value_and_grad
    return functools.wraps(fn)(value_and_grad)


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


def random_mode(name: str) -> _Setting:
    """Choose the numbers that random ops on DTensors draw. Used as ``policy`` is.

    In every mode they are the same under any layout and on any number of ranks, states of the
    generator advance equally on all ranks, and ``torch.manual_seed`` decides.

    Args:
        name: ``exact``: those of plain torch on one device. Each rank draws the whole tensor and
            keeps its part: time and memory of the whole. ``by_index``: a function of the seed and
            of the place of the element in the whole tensor (Philox); each rank draws its part
            alone, and nothing moves. ``auto``, the default: exact for draws of up to 65,536
            numbers, where that costs little, by index beyond.

    Poisson, multinomial and other draws whose numbers depend on values in turn are exact in every
    mode: their operands are gathered.

    Raises:
        UsageError: another name.
    """
    return _Setting(_torch.set_random_mode, name)


def checking(enabled: bool = True) -> _Setting:
    """Compare over the ranks what should be the same on all.

    Plain tensors that enter ops beside DTensors count as the same value on every rank, and so do
    the copies of a replicated result of ``custom_shard``, ``DFunction`` and ``DistributedOp``. With
    this, a rank whose shape, element type or values differ raises UsageError. Used as ``policy``
    is.

    Processes over Gloo also compare each collective before it is issued: kind, element type, shape
    and the op that asked. Ranks of ``run_local`` always do, but for the op.

    Raises:
        CommError: ranks are about to call different collectives.

    Cost:
        One small all-gather a tensor, and a read of its values; one a collective of processes.
    """
    return _Setting(_torch.set_check_mode, enabled)
