"""What questions to rules take and give: tensors by shape and layout, and answers that print."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from hyper_parallel import _core
from hyper_parallel._core import Mesh

__all__ = ["Change", "Gradient", "Inference", "Strategies", "Strategy", "TensorSpec"]


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
        object.__setattr__(self, "dtype", _core.short_dtype(str(self.dtype)))

    @classmethod
    def parse(cls, text: str) -> TensorSpec:
        """Read ``f32[8, 16] on dp=2 tp=4: S(0) R``, ``f32[8, 16] S(0) R`` or ``f32[8, 16]``.

        Raises:
            UsageError: other text.
        """
        dtype, shape, layout = _core.parse_operand(text)
        return cls(tuple(shape), layout, dtype)

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return text if self.layout is None else f"{text} {self.layout}"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class Change:
    """An operand that must be redistributed.

    ``bytes`` are those that a rank moves; ``reason`` says which mesh axis does what; ``text`` is
    what is printed.
    """

    operand: str
    before: TensorSpec
    after: TensorSpec
    bytes: float
    reason: str
    text: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return self.text

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
        text: all of it for readers; what is printed.
    """

    op: str
    mesh: Mesh
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    changes: tuple[Change, ...]
    handler: str
    rewrites: tuple[str, ...]
    bytes: float
    text: str = dataclasses.field(default="", compare=False)

    def __repr__(self) -> str:
        return self.text


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
        text: all of it for readers; what is printed.
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
    text: str = dataclasses.field(default="", compare=False)

    def __repr__(self) -> str:
        return self.text


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
