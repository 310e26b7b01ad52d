"""Values of sharding plans: what an entry asks for arguments and results, and doing it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh, closest_patterns
from hyper_parallel.errors import near_facts, usage_error
from hyper_parallel.layouts.layout_specs import is_layout_spec, mesh_of_spec, resolve_layout

T = TypeVar("T")


def meshes_of(spec: Any) -> list[Mesh]:
    """List the meshes that the layouts of an entry bring along."""
    mesh = mesh_of_spec(spec)
    if mesh is not None:
        return [mesh]
    if spec is None or isinstance(spec, str) or is_layout_spec(spec):
        return []
    if isinstance(spec, Mapping):
        spec = spec.values()
    if not isinstance(spec, (list, tuple, type({}.values()))):
        return []
    return [found for each in spec for found in meshes_of(each)]


def assign(patterns: Mapping[str, T], names: Iterable[str], kind: str) -> dict[str, tuple[str, T]]:
    """Give each name the pattern that names it most closely, and its value.

    Args:
        patterns: with wildcards: ``*`` and ``?`` within a part of a dotted name, ``**`` across.
        kind: what names are, for errors.

    Raises:
        UsageError: a pattern that matches nothing, or two that are equally close.
    """
    known, items = list(names), list(patterns.items())
    places = closest_patterns([pattern for pattern, _ in items], known, kind)
    return {name: items[i] for name, i in zip(known, places, strict=True) if i >= 0}


def check_spec(spec: Any, where: str, what: str = "sharding plan") -> None:
    """Check that ``spec`` is a layout, None, or lists and dicts of these.

    Raises:
        UsageError: anything else, such as a set or a number.
    """
    if spec is None or is_layout_spec(spec):
        return
    if isinstance(spec, Mapping):
        for name, each in spec.items():
            check_spec(each, f"{where}[{name!r}]", what)
    elif isinstance(spec, (list, tuple)):
        for i, each in enumerate(spec):
            check_spec(each, f"{where}[{i}]", what)
    else:
        raise usage_error(
            "HP-P003",
            f"{what}: {where} is {spec!r}",
            hint="a layout, None, a list or tuple of these, or a dict by name",
        )


def distribute_value(value: torch.Tensor, layout: Layout_) -> torch.Tensor:
    """Move a DTensor to ``layout``, or cut a plain tensor that all ranks hold, differentiably."""
    if _torch.is_dtensor(value):
        return _torch.redistribute(value, layout)
    if value.requires_grad and torch.is_grad_enabled():
        whole = Layout_.replicated(layout.mesh)
        return _torch.redistribute(_torch.from_local(value, whole, list(value.shape)), layout)
    return _torch.distribute_tensor(value, layout, None)


def apply_spec(value: Any, spec: Any, mesh: Mesh, where: str) -> Any:
    """Lay ``value`` out as ``spec`` says; None on either side leaves it alone.

    Raises:
        UsageError: a layout for what is no tensor, counts or names that do not fit.
    """
    if spec is None or value is None:
        return value
    if is_layout_spec(spec):
        if not isinstance(value, torch.Tensor):
            raise usage_error(
                "HP-P004",
                f"sharding plan: {where} has a layout, but is no tensor",
                value=_shown(value),
                layout=spec,
                hint="None leaves a value alone; a list or a dict reaches what is inside",
            )
        return distribute_value(value, resolve_layout(spec, mesh, value.dim()))
    if isinstance(spec, Mapping):
        return _apply_names(value, spec, mesh, where)
    if isinstance(value, torch.Tensor):
        if len(spec) == 1:
            return apply_spec(value, spec[0], mesh, where)
        raise _count_error(where, 1, len(spec))
    if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
        fields = _fields(value)
        if len(spec) > len(fields):
            raise _count_error(where, len(fields), len(spec))
        return _apply_names(value, dict(zip(fields, spec, strict=False)), mesh, where)
    if not isinstance(value, (list, tuple)):
        raise usage_error(
            "HP-P004",
            f"sharding plan: {where} has a list of layouts, but is no list",
            value=_shown(value),
        )
    if len(spec) > len(value):
        raise _count_error(where, len(value), len(spec))
    made = [
        apply_spec(each, spec[i], mesh, f"{where}[{i}]") if i < len(spec) else each
        for i, each in enumerate(value)
    ]
    return _like(value, made)


def _apply_names(value: Any, spec: Mapping[str, Any], mesh: Mesh, where: str) -> Any:
    """Lay out what ``spec`` names: fields of a result, or, where there are none, in order."""
    if isinstance(value, torch.Tensor):  # {"out": layout} for a single result
        return apply_spec(value, list(spec.values()), mesh, where)
    known = _fields(value)
    if not known:
        if not isinstance(value, (list, tuple)):
            raise usage_error(
                "HP-P004",
                f"sharding plan: {where} has layouts by name, but is no tensor, list or dict",
                value=_shown(value),
            )
        if len(spec) != len(value):
            raise _count_error(where, len(value), len(spec))
        return apply_spec(value, list(spec.values()), mesh, where)
    for name in spec:
        if name not in known:
            raise usage_error(
                "HP-P005",
                f'sharding plan: {where} has nothing named "{name}"',
                names=", ".join(map(str, known)),
            )
    made = {
        name: apply_spec(_field(value, name), each, mesh, f"{where}[{name!r}]")
        for name, each in spec.items()
        if each is not None
    }
    if isinstance(value, Mapping):
        if dataclasses.is_dataclass(value):  # transformers' ModelOutput keeps both in step itself
            for name, each in made.items():
                value[name] = each  # type: ignore[index]
            return value
        return type(value)({**value, **made})  # type: ignore[call-arg]
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **made)  # type: ignore[type-var]
    return value._replace(**made)


def _fields(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value)
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(getattr(value, "_fields", ()))


def _field(value: Any, name: Any) -> Any:
    return value[name] if isinstance(value, Mapping) else getattr(value, name)


def _like(value: Any, items: list[Any]) -> Any:
    return value._make(items) if hasattr(value, "_make") else type(value)(items)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _count_error(where: str, have: int, wanted: int) -> Exception:
    return usage_error(
        "HP-P006", f"sharding plan: {where} has {have} values, the plan gives {wanted} layouts"
    )


class Inputs:
    """The layouts of the arguments of one function: by place or by name."""

    def __init__(self, spec: Any, mesh: Mesh, function: Callable[..., Any], where: str) -> None:
        self.mesh = mesh
        self.where = where
        self.positional, self.named, self.open = _parameters(function)
        if isinstance(spec, Mapping):
            self.by_name: dict[str, Any] | None = dict(spec)
            self.in_order: list[Any] = []
            known = self.positional + self.named
            for name in self.by_name:
                if name not in known and "**" not in self.open:
                    raise usage_error(
                        "HP-P007",
                        f'sharding plan: {where} has no argument named "{name}"',
                        **near_facts("arguments", str(name), known),
                        arguments=", ".join(known) or "none",
                    )
        else:
            self.by_name = None
            self.in_order = [spec] if is_layout_spec(spec) else list(spec or ())
            if len(self.in_order) > len(self.positional) and "*" not in self.open:
                raise usage_error(
                    "HP-P006",
                    f"sharding plan: {where} has {len(self.in_order)} layouts, but takes "
                    f"{len(self.positional)} arguments by place",
                    arguments=", ".join(self.positional) or "none",
                )

    def apply(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Lay out the arguments of a call. Those that a call leaves out are left out."""
        places, names = list(args), dict(kwargs)
        if self.by_name is None:
            for i, spec in enumerate(self.in_order):
                where = f"{self.where}[{i}]"
                if i < len(places):
                    places[i] = apply_spec(places[i], spec, self.mesh, where)
                elif i < len(self.positional) and self.positional[i] in names:
                    name = self.positional[i]
                    names[name] = apply_spec(names[name], spec, self.mesh, where)
        else:
            for name, spec in self.by_name.items():
                where = f"{self.where}[{name!r}]"
                if name in names:
                    names[name] = apply_spec(names[name], spec, self.mesh, where)
                elif name in self.positional and self.positional.index(name) < len(places):
                    i = self.positional.index(name)
                    places[i] = apply_spec(places[i], spec, self.mesh, where)
        return tuple(places), names


def _parameters(function: Callable[..., Any]) -> tuple[list[str], list[str], set[str]]:
    """List arguments by place, by name only, and the signs of open ends (``*``, ``**``)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return [], [], {"*", "**"}
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signs = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return (
        [p.name for p in parameters if p.kind in by_place],
        [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY],
        {signs[p.kind] for p in parameters if p.kind in signs},
    )
