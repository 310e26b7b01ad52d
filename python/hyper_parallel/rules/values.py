"""What questions to rules take and give: tensors by shape and layout, and answers that print."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from hyper_parallel._core import Mesh
from hyper_parallel.errors import usage_error

__all__ = ["Change", "Gradient", "Inference", "Strategies", "Strategy", "TensorSpec"]

_TYPES = {
    "float64": "f64", "double": "f64", "float32": "f32", "float": "f32", "float16": "f16",
    "half": "f16", "bfloat16": "bf16", "int64": "i64", "long": "i64", "int32": "i32",
    "int": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "complex64": "c64",
    "complex128": "c128",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Describe a tensor: its global shape, how it lies over a mesh, its element type.

    Args:
        shape: global sizes.
        layout: a ``Layout``, or text: ``"dp=2 tp=4: S(0) R"``, or ``"S(0) R"`` where another
            operand names the mesh. None: the same on every rank.
        dtype: ``"f32"`` and its like, or torch's type.
    """

    shape: tuple[int, ...]
    layout: Any = None
    dtype: Any = "f32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        kind = str(self.dtype).removeprefix("torch.")
        object.__setattr__(self, "dtype", _TYPES.get(kind, kind))

    @classmethod
    def parse(cls, text: str) -> TensorSpec:
        """Read ``f32[8, 16] on dp=2 tp=4: S(0) R``, ``f32[8, 16] S(0) R`` or ``f32[8, 16]``.

        Raises:
            UsageError: other text.
        """
        kind, bracket, rest = text.strip().partition("[")
        sizes, end, layout = rest.partition("]")
        try:
            shape = tuple(int(size) for size in sizes.split(",") if size.strip())
        except ValueError:
            shape, bracket = (), ""
        if not bracket or not end or not kind:
            raise usage_error(
                "HP-S043",
                f"{text!r} describes no tensor",
                form="f32[8, 16] on dp=2 tp=4: S(0) R",
            )
        return cls(shape, layout.strip().removeprefix("on ").strip() or None, kind)

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return text if self.layout is None else f"{text} {self.layout}"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class Change:
    """An operand that must be redistributed.

    ``bytes`` are those that a rank moves; ``reason`` says which mesh axis does what.
    """

    operand: str
    before: TensorSpec
    after: TensorSpec
    bytes: float
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.operand}: {self.before.layout} -> {self.after.layout}, {self.bytes:.0f} bytes: "
            f"{self.reason}"
        )

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class Inference:
    """The answer to forward and reverse inference.

    Attributes:
        op: the row that serves the call, such as ``aten::topk``.
        inputs: required, one a tensor; lists stand flat. None for an absent tensor.
        outputs: the results. Sizes that are known after the run only are -1.
        changes: the inputs that must be redistributed.
        handler: how the op runs if not as it is on local tensors; see docs/rules.md.
        rewrites: other arguments that differ on each rank, such as ``groups``.
        bytes: what a rank moves for all changes and the handler.
    """

    op: str
    mesh: Mesh
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    changes: tuple[Change, ...]
    handler: str
    rewrites: tuple[str, ...]
    bytes: float

    def __repr__(self) -> str:
        lines = _lines("input", self.inputs) + _lines("output", self.outputs)
        lines += _tail(self.changes, self.handler)
        lines += [f"argument {each} is local" for each in self.rewrites]
        return _text(self.op, self.mesh, self.bytes, lines)


@dataclasses.dataclass(frozen=True)
class Gradient:
    """The answer to gradient inference: layouts of whole gradients, R where each rank has it all.

    Attributes:
        inputs: what the gradient needs of the op's inputs; None where only the shape matters.
        outputs: the same of its results.
        out_grads: required of the gradients of the results.
        grads: the gradients of the inputs; None for integers and absent tensors.
        changes: the tensors that must be redistributed.
        handler: as in ``Inference``.
        bytes: what a rank moves for all changes and the handler.
    """

    op: str
    mesh: Mesh
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    out_grads: tuple[TensorSpec | None, ...]
    grads: tuple[TensorSpec | None, ...]
    changes: tuple[Change, ...]
    handler: str
    bytes: float

    def __repr__(self) -> str:
        lines = _lines("input", self.inputs) + _lines("output", self.outputs)
        lines += _lines("out_grad", self.out_grads) + _lines("grad", self.grads)
        return _text(
            f"{self.op} gradient", self.mesh, self.bytes, lines + _tail(self.changes, self.handler)
        )


@dataclasses.dataclass(frozen=True)
class Strategy:
    """What one mesh axis may do: ``S(0) R -> S(0)    m``, and the gradients that then come out.

    Attributes:
        inputs: one placement a tensor, lists flat; None for an absent tensor.
        outputs: the same for the results.
        factor: the letter that the axis is given to; empty for none.
    """

    text: str
    handler: str
    grads: str
    inputs: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = ()
    factor: str = ""

    def __str__(self) -> str:
        return f"{self.text:<44}  grad {self.grads}".rstrip() if self.grads else self.text

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class Strategies(Sequence[Strategy]):
    """All strategies of a call on one mesh axis, the one without a split first.

    Attributes:
        op: the row that serves the call.
        rule: the row's text.
        lines: the strategies.
        sized: the rule of this call with its sizes, ``*m k, *k n -> m n {m=8, k=16, n=32}``; of an
            op on lists one line an element.
    """

    op: str
    rule: str
    lines: tuple[Strategy, ...]
    sized: str = ""

    def __getitem__(self, index: Any) -> Any:
        return self.lines[index]

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Strategy]:
        return iter(self.lines)

    def __repr__(self) -> str:
        return "\n".join([f"{self.op}    {self.rule}", *map(str, self.lines)])


def _lines(kind: str, specs: Sequence[TensorSpec | None]) -> list[str]:
    return [f"{kind} {i}  {spec}" for i, spec in enumerate(specs) if spec is not None]


def _tail(changes: Sequence[Change], handler: str) -> list[str]:
    return [f"change {change}" for change in changes] + ([f"handler {handler}"] if handler else [])


def _text(op: str, mesh: Mesh, moved: float, lines: Sequence[str]) -> str:
    return "\n  ".join([f"{op} on {mesh}: a rank moves {moved:.0f} bytes", *lines])
