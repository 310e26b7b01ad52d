"""Cases of the verifier: values to draw, calls of ops, and the table of all calls."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from hyper_parallel.errors import usage_error

# ---- Values --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Value:
    """A random argument: drawn anew for each seed."""

    draw: Callable[[torch.Generator], Any]
    text: str

    def __repr__(self) -> str:
        return self.text


def t(*shape: int, dtype: torch.dtype = torch.float64) -> Value:
    """Draw normal values."""
    return Value(lambda g: torch.randn(shape, generator=g, dtype=dtype), f"t{list(shape)}")


def uniform(low: float, high: float, *shape: int, dtype: torch.dtype = torch.float64) -> Value:
    """Draw values between ``low`` and ``high``."""
    return Value(
        lambda g: torch.rand(shape, generator=g, dtype=dtype) * (high - low) + low,
        f"uniform({low}, {high}){list(shape)}",
    )


def positive(*shape: int) -> Value:
    """Draw values between 0.5 and 2.5."""
    return uniform(0.5, 2.5, *shape)


def unit(*shape: int) -> Value:
    """Draw values between -0.9 and 0.9."""
    return uniform(-0.9, 0.9, *shape)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Value:
    """Draw integers from ``low`` up to and without ``high``."""
    return Value(
        lambda g: torch.randint(low, high, shape, generator=g).to(dtype),
        f"ints({low}, {high}){list(shape)}",
    )


def bools(*shape: int) -> Value:
    """Draw True and False, one of them rarely in some draws."""

    def draw(g: torch.Generator) -> torch.Tensor:
        odds = (0.1, 0.5, 0.9)[int(torch.randint(3, (), generator=g))]
        return torch.rand(shape, generator=g) < odds

    return Value(draw, f"bools{list(shape)}")


def mixed(*shape: int, special: Sequence[float] = (math.nan, math.inf, -math.inf, 0.0)) -> Value:
    """Draw normal values with some special ones among them."""

    def draw(g: torch.Generator) -> torch.Tensor:
        out = torch.randn(shape, generator=g, dtype=torch.float64)
        flat = out.view(-1)
        for value in special:
            for _ in range(max(1, flat.numel() // 8)):
                flat[int(torch.randint(flat.numel(), (), generator=g))] = value
        return out

    return Value(draw, f"mixed{list(shape)}")


def grid(*shape: int) -> Value:
    """Draw small whole numbers as floats, so that some are equal."""
    return Value(lambda g: torch.randint(-2, 3, shape, generator=g).double(), f"grid{list(shape)}")


def distinct(*shape: int) -> Value:
    """Draw values that differ by at least a little: no ties, no kinks."""

    def draw(g: torch.Generator) -> torch.Tensor:
        count = math.prod(shape)
        order = torch.randperm(count, generator=g).double()
        return ((order - count / 2 + 0.3) / 4).reshape(shape)

    return Value(draw, f"distinct{list(shape)}")


def made(draw: Callable[[torch.Generator], Any], text: str) -> Value:
    """Draw with a function of a generator."""
    return Value(draw, text)


# ---- Cases ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of an op: arguments that are values to draw, or plain ones."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    values: bool = True
    grad: bool = True

    def label(self) -> str:
        parts = [_text(a) for a in self.args]
        parts += [f"{k}={_text(v)}" for k, v in self.kwargs.items()]
        return ", ".join(parts)

    def draw(self, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        g = torch.Generator().manual_seed(seed)
        args = tuple(_drawn(a, g) for a in self.args)
        return args, {k: _drawn(v, g) for k, v in self.kwargs.items()}


def case(*args: Any, values: bool = True, grad: bool = True, **kwargs: Any) -> Case:
    """Describe one call.

    Args:
        values: False where results are arbitrary (``empty``, random draws): only layouts, sizes
            and types are compared.
        grad: False to leave gradients out.
    """
    return Case(args, kwargs, values, grad)


def case_like(example_inputs: Any) -> Case:
    """Describe calls whose tensors are drawn like the given ones.

    Args:
        example_inputs: the arguments by place. Floating-point tensors are drawn normally, others
            are rearranged.
    """
    inputs = example_inputs if isinstance(example_inputs, (list, tuple)) else (example_inputs,)
    return Case(tuple(_like(value) for value in inputs), {})


def _like(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_like(each) for each in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point() or value.is_complex():
        dtype = torch.float64 if value.is_floating_point() else torch.complex128
        return Value(
            lambda g: torch.randn(value.shape, generator=g, dtype=dtype),
            f"like {list(value.shape)}",
        )

    def rearrange(g: torch.Generator) -> torch.Tensor:
        order = torch.randperm(value.numel(), generator=g)
        return value.detach().flatten()[order].reshape(value.shape)

    return Value(rearrange, f"like {list(value.shape)}")


def _drawn(value: Any, g: torch.Generator) -> Any:
    if isinstance(value, Value):
        return value.draw(g)
    if isinstance(value, list | tuple):
        return type(value)(_drawn(v, g) for v in value)
    return value


def _text(value: Any) -> str:
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else repr(value)


def schema_of(op: str) -> Any:
    """Find the schema of ``aten::sum.dim_IntList``; None if torch has no such op."""
    name, _, overload = op.partition(".")
    try:
        return torch._C._get_schema(name, overload)
    except RuntimeError:
        return None


def in_place_name(op: str) -> str:
    name, dot, overload = op.partition(".")
    return f"{name}_{dot}{overload}"


class Table:
    """The cases of all ops: the package ``hyper_parallel.verifier.cases`` or one like it."""

    def __init__(self, module: Any) -> None:
        self._cases: dict[str, list[Case]] = module.CASES
        self._default = module.default
        self.without: dict[str, str] = module.WITHOUT

    def cases(self, op: str, spec: str) -> list[Case]:
        if op in self._cases:
            return self._cases[op]
        return [] if op in self.without else self._default(op, spec)


def load_table(path: str | os.PathLike[str] | None = None) -> Table:
    """Read the table of cases.

    Args:
        path: a module or a package; default: ``$HYPER_PARALLEL_CASES``, else the package's own.

    Raises:
        UsageError: HP-V004, no file there.
    """
    path = path or os.environ.get("HYPER_PARALLEL_CASES")
    if not path:
        return Table(importlib.import_module("hyper_parallel.verifier.cases"))
    file = Path(path)
    if file.is_dir():
        file /= "__init__.py"
    if not file.is_file():
        raise usage_error(
            "HP-V004",
            f"verify: no table of cases at {file}",
            hint="give example_inputs or cases=[...], or leave HYPER_PARALLEL_CASES unset",
        )
    spec = importlib.util.spec_from_file_location("hyper_parallel_cases", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return Table(module)
