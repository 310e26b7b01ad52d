"""Rules of ops on layouts alone: no tensors, no ranks, no torch.

    x = "f32[8, 16] on dp=2 tp=2: S(0) S(1)"
    w = "f32[16, 32] on dp=2 tp=2: R R"
    infer_forward("mm", [x, w])      # what mm needs, and what it gives
    strategies("mm", [x, w])         # all ways to split it

Ops go by the names of torch's dispatcher (``aten::mm``; without ``aten::`` if no op of Paddle has
the name), or by those of Paddle with Paddle's operands and attributes (``topk`` with ``axis``).
``python -m hyper_parallel rules`` lists them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hyper_parallel import _core
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import usage_error
from hyper_parallel.rules.strict import refusal
from hyper_parallel.rules.values import (
    Change,
    Gradient,
    Inference,
    Strategies,
    Strategy,
    TensorSpec,
)

__all__ = [
    "Change",
    "Gradient",
    "Inference",
    "Strategies",
    "Strategy",
    "TensorSpec",
    "infer_backward",
    "infer_forward",
    "infer_grad",
    "strategies",
]

# ---- From arguments ------------------------------------------------------------------------

Input = TensorSpec | str | tuple[Sequence[int], Any] | None


def _spec(value: Any, name: str) -> TensorSpec | None:
    if value is None or isinstance(value, TensorSpec):
        return value
    if isinstance(value, str):
        return TensorSpec.parse(value)
    if isinstance(value, tuple) and 2 <= len(value) <= 3 and isinstance(value[0], Sequence):
        return TensorSpec(*value)
    raise usage_error(
        "HP-S043",
        f"{name}: {value!r} describes no tensor",
        form='TensorSpec((8, 16), "dp=2 tp=4: S(0) R"), ((8, 16), layout), or text',
    )


def _named(inputs: Any) -> list[tuple[str, Any]]:
    if isinstance(inputs, Mapping):
        return [(str(name), value) for name, value in inputs.items()]
    if isinstance(inputs, str | TensorSpec):
        inputs = [inputs]
    return [("", value) for value in inputs]


class _Call:
    """The operands of a call, flat, and its rule."""

    def __init__(self, op: str, inputs: Any, attrs: Mapping[str, Any] | None) -> None:
        self.names: list[str] = []
        self.specs: list[TensorSpec | None] = []
        self.lengths: list[int] = []
        for place, (name, value) in enumerate(_named(inputs)):
            shown = name or f"input {place}"
            if isinstance(value, list):
                self.lengths.append(len(value))
                for i, each in enumerate(value):
                    self._add(f"{shown}[{i}]", each)
            else:
                self.lengths.append(-1)
                self._add(shown, value)
        self.mesh = self._mesh()
        layouts = [self.layout(spec) for spec in self.specs]
        operands = [
            None if spec is None else (name, spec.shape, spec.dtype, layout)
            for name, spec, layout in zip(self.names, self.specs, layouts, strict=True)
        ]
        self.layouts = layouts
        self.rule = _core.Query_(op, operands, self.lengths, dict(attrs or {}), self.mesh)
        self.mesh = self.rule.mesh

    def _add(self, name: str, value: Any) -> None:
        self.names.append(name)
        self.specs.append(_spec(value, name))

    def _mesh(self) -> Mesh | None:
        for spec in self.specs:
            layout = None if spec is None else spec.layout
            if isinstance(layout, str) and ":" in layout:
                return Layout_.parse(layout).mesh
            if layout is not None and not isinstance(layout, str):
                return layout.mesh if isinstance(layout, Layout_) else layout._mesh
        return None

    def layout(self, spec: TensorSpec | None) -> Layout_ | None:
        """Get the interned layout of an operand."""
        return None if spec is None else self.resolve(spec.layout, len(spec.shape))

    def resolve(self, layout: Any, ndim: int) -> Layout_ | None:
        if layout is None or isinstance(layout, Layout_):
            return layout
        if not isinstance(layout, str):
            return layout.resolve(ndim)
        if ":" in layout or self.mesh is None:
            return Layout_.parse(layout)
        return Layout_.parse(f"{self.mesh}: {layout}")

    def results(self, values: Any, what: str) -> list[Layout_ | None]:
        """Read layouts of the results; missing ones at the end say nothing."""
        given = [] if values is None else _named(values)
        known = self.rule.results
        if len(given) > len(known):
            raise usage_error(
                "HP-S033",
                f"{self.rule.row}: wrong number of {what}",
                needed=len(known),
                given=len(given),
            )
        layouts: list[Layout_ | None] = []
        for (sizes, _), (_, value) in zip(known, given, strict=False):
            is_spec = isinstance(value, TensorSpec) or (isinstance(value, str) and "[" in value)
            layout = _spec(value, what).layout if is_spec else value  # type: ignore[union-attr]
            layouts.append(self.resolve(layout, len(sizes)))
        return layouts + [None] * (len(known) - len(layouts))

    def towards(self, grads: Any) -> list[Layout_ | None]:
        """Read layouts of the gradients of all inputs; empty if none is given."""
        given = [] if grads is None else _named(grads)
        if len(given) > len(self.specs):
            raise usage_error(
                "HP-S033",
                f"{self.rule.row}: wrong number of grads",
                needed=len(self.specs),
                given=len(given),
            )
        found = [
            None if spec is None else self.resolve(value, len(spec.shape))
            for spec, (_, value) in zip(self.specs, given, strict=False)
        ]
        return found and found + [None] * (len(self.specs) - len(found))

    def inputs(self, layouts: Sequence[Layout_ | None]) -> tuple[TensorSpec | None, ...]:
        return tuple(
            None if spec is None or layout is None else TensorSpec(spec.shape, layout, spec.dtype)
            for spec, layout in zip(self.specs, layouts, strict=True)
        )

    def outputs(self, layouts: Sequence[Layout_ | None]) -> tuple[TensorSpec | None, ...]:
        kind = self.rule.result_dtype
        return tuple(
            None if layout is None or not present else TensorSpec(tuple(sizes), layout, kind)
            for (sizes, present), layout in zip(self.rule.results, layouts, strict=True)
        )

    def changes(self, made: Mapping[str, Any]) -> tuple[Change, ...]:
        results = range(len(self.rule.results))
        names = self.names + [f"output {i}" for i in results] + [f"out_grad {i}" for i in results]
        shapes = [() if s is None else s.shape for s in self.specs]
        shapes += [tuple(sizes) for sizes, _ in self.rule.results] * 2
        return tuple(
            Change(names[i], TensorSpec(shapes[i], a), TensorSpec(shapes[i], b), *rest)
            for i, a, b, *rest in made["changes"]
        )

    def strategies(self) -> Strategies:
        lines = tuple(Strategy(*line) for line in self.rule.table())
        return Strategies(self.rule.row, self.rule.spec, lines, self.rule.sized())

    def inference(self, made: Mapping[str, Any]) -> Inference:
        return Inference(
            self.rule.row,
            self.mesh,
            self.inputs(made["inputs"]),
            self.outputs(made["outputs"]),
            self.changes(made),
            made["handler"],
            tuple(r[0] for r in made["rewrites"]),
            made["bytes"],
            made["text"],
        )


# ---- Questions -----------------------------------------------------------------------------


def infer_forward(
    op: str,
    inputs: Any,
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: Any = None,
    strict: bool = False,
    topology: str = "uniform",
) -> Inference:
    """Tell what an op needs of its inputs, and how its results lie.

    Args:
        op: see the head of this module.
        inputs: one entry an argument that is a tensor, or a mapping from names to these: a
            ``TensorSpec``, its text, a pair of shape and layout, None for an absent tensor, a
            list of these for a list of tensors.
        attrs: arguments that are no tensors, by name: ``{"dim": -1}``.
        outputs: layouts that the results shall have next, as far as they are known; None for any.
        strict: refuse layouts that the op cannot take as they are.
        topology: the table by which bytes are weighed, see ``plan``: bytes between hosts cost more.

    Returns:
        The strategy that moves the fewest bytes, as the planner and the handlers will move them;
        with ``outputs``, those count that bring the results there, and splits that no input has yet
        are tried too. ``outputs`` of None alone change nothing.

    Raises:
        UsageError: an unknown op, operands or attributes that do not fit; the text names op,
            operand and dim. With ``strict`` an operand that would have to be redistributed; the
            text lists the strategies that are nearest.
        UnsupportedError: with ``outputs``, a list op, or results that cannot be.

    Cost:
        Some microseconds, with ``outputs`` a millisecond; nothing is moved.
    """
    call = _Call(op, inputs, attrs)
    wanted = [] if outputs is None else call.results(outputs, "outputs")
    made = call.inference(call.rule.forward(wanted, topology))
    if strict and made.changes:
        raise refusal(made, call.layouts, call.strategies())
    return made


def infer_backward(
    op: str, inputs: Any, outputs: Any, attrs: Mapping[str, Any] | None = None
) -> Inference:
    """Tell which inputs give wanted results.

    Args:
        inputs: as in ``infer_forward``; their layouts decide what the results leave open.
        outputs: a layout for each result, None for one that says nothing.

    Returns:
        Inputs and the results that they give. Where no strategy gives all that is wanted along an
        axis, all are whole there: the wanted layout is then a local step away.

    Raises:
        UsageError: as ``infer_forward``; too many outputs.
        UnsupportedError: a list op, or results that cannot be (a rank would hold nothing).
    """
    call = _Call(op, inputs, attrs)
    return call.inference(call.rule.backward(call.results(outputs, "outputs")))


def infer_grad(
    op: str,
    inputs: Any,
    out_grads: Any,
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: Any = None,
    grads: Any = None,
) -> Gradient:
    """Tell how the gradients of all inputs lie.

    Args:
        inputs: as in ``infer_forward``, in the layouts that the op needs or others.
        out_grads: a layout for the gradient of each result, None for a result without one. These
            are layouts of whole gradients: ``R`` means that every rank has it all.
        outputs: layouts of saved results, if the gradient is computed from these.
        grads: layouts that the gradients shall have next, one an input, lists flat; None for any.
            The bytes that bring them there then count.

    Returns:
        The cheapest way to compute the gradients on parts. A gradient summed over pieces that
        ranks hold is ``P(sum)``.

    Raises:
        UsageError: as ``infer_forward``.
        UnsupportedError: a list op.
    """
    call = _Call(op, inputs, attrs)
    made = call.rule.grad(
        [
            None if s is None else layout or Layout_.replicated(call.mesh)
            for s, layout in zip(call.specs, call.layouts, strict=True)
        ],
        call.results(outputs, "outputs"),
        call.results(out_grads, "out_grads"),
        call.towards(grads),
    )
    return Gradient(
        call.rule.row,
        call.mesh,
        call.inputs(made["inputs"]),
        call.outputs(made["outputs"]),
        call.outputs(made["out_grads"]),
        call.inputs(made["grads"]),
        call.changes(made),
        made["handler"],
        made["bytes"],
        made["text"],
    )


def strategies(op: str, inputs: Any, attrs: Mapping[str, Any] | None = None) -> Strategies:
    """List all that one mesh axis may do in a call.

    Args:
        inputs: as in ``infer_forward``; layouts may be left out.

    Raises:
        UsageError: as ``infer_forward``.
    """
    return _Call(op, placed(inputs), attrs).strategies()


def placed(inputs: Any) -> dict[str, Any]:
    """Drop the layouts of operands, and put the first on a mesh of two ranks."""
    named = _named(inputs)
    plain: dict[str, Any] = {
        name or f"input {i}": _without_layout(value) for i, (name, value) in enumerate(named)
    }
    first = next((k for k, v in plain.items() if isinstance(v, TensorSpec)), None)
    if first is not None:
        plain[first] = dataclasses.replace(plain[first], layout="x=2: R")
    else:
        for value in plain.values():
            if isinstance(value, list) and value:
                value[0] = dataclasses.replace(value[0], layout="x=2: R")
                break
    return plain


def _without_layout(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_layout(each) for each in value]
    spec = _spec(value, "input")
    return None if spec is None else dataclasses.replace(spec, layout=None)
