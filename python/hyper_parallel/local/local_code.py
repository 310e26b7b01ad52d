"""Hand-written parallel code inside a program that is written for one device."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import UsageTypeError, make_error, usage_error
from hyper_parallel.launch.failures import naming_failures
from hyper_parallel.layouts.layout import Layout
from hyper_parallel.layouts.layout_specs import is_layout_spec, resolve_layout
from hyper_parallel.layouts.mesh import as_mesh
from hyper_parallel.layouts.plan_values import check_spec, meshes_of
from hyper_parallel.local.region import Region, local_of, running, wrap_results

__all__ = ["custom_shard"]


def custom_shard(
    func: Callable[..., Any] | None = None,
    *layouts: Any,
    out_layouts: Any = None,
    in_layouts: Any = None,
    device_mesh: Any = None,
    out_placements: Any = None,
    in_placements: Any = None,
    redistribute_inputs: bool = True,
) -> Callable[..., Any]:
    """Wrap a function that is written for the parts of tensors, and may communicate itself.

        layout = Layout((2, 4), ("dp", "mp"))

        def matmul(x, w):
            return all_reduce(x @ w, "mp")

        matmul = custom_shard(matmul, (layout("dp", "None"),), (layout("dp", "mp"), layout("mp")))

        @custom_shard(out_layouts=(layout("dp", "None"),))        # inputs as they come
        def normalize(x): ...

    Called with DTensors it gets this rank's parts, and what it returns is taken as parts in
    ``out_layouts``. Called without any DTensor it is a plain call. Collectives for use inside are
    ``hyper_parallel.all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` and so on;
    they know the mesh.

    Gradients are the true adjoint of what the function computes on all ranks: inside, the gradient
    of a replicated value is each rank's own contribution, and the sum is taken outside. If an
    input requires grad, all floating-point results do.

    Args:
        func: a function; without it, a decorator is returned.
        layouts: the arguments below by place: ``out_layouts, in_layouts, redistribute_inputs``, or
            ``device_mesh, out_placements, in_placements, redistribute_inputs``.
        out_layouts: for each result its layout, None for what is no tensor; one for a single
            result; nested as results are.
        in_layouts: for each argument its layout, None for what is no tensor; nested as arguments
            are; or a dict by name. By default each DTensor keeps its own. A plain tensor whose
            entry is None counts as the same value on every rank.
        device_mesh: for layouts given as placements or names.
        redistribute_inputs: move inputs to ``in_layouts``. With False they are taken as they are,
            and nothing is checked.

    Returns:
        A function of the same signature.

    Raises:
        UsageError: no ``out_layouts``, a wrong number of layouts, a layout for what is no DTensor,
            a DTensor without one, results of other shapes than their layouts say.
        TypeError: ``func`` is a module.

    Cost:
        Redistributions of inputs, and one all-gather of sizes if some result is cut.
    """
    options = _options(
        layouts,
        out_layouts=out_layouts,
        in_layouts=in_layouts,
        device_mesh=device_mesh,
        out_placements=out_placements,
        in_placements=in_placements,
        redistribute_inputs=redistribute_inputs,
    )
    if func is None:
        return lambda function: _wrapped(function, *options)
    return _wrapped(func, *options)


def _options(layouts: tuple[Any, ...], **given: Any) -> tuple[Any, Any, Mesh | None, bool]:
    by_place = ["out_layouts", "in_layouts", "redistribute_inputs"]
    if layouts and _is_mesh(layouts[0]):
        by_place = ["device_mesh", "out_placements", "in_placements", "redistribute_inputs"]
    if len(layouts) > len(by_place):
        raise usage_error(
            "HP-F001",
            f"custom_shard: {len(layouts)} arguments after func",
            takes=", ".join(by_place),
        )
    given.update(zip(by_place, layouts, strict=False))
    for end in ("out", "in"):
        if given[f"{end}_layouts"] is not None and given[f"{end}_placements"] is not None:
            raise usage_error(
                "HP-F001", f"custom_shard: both {end}_layouts and {end}_placements are given"
            )
    outputs = given["out_layouts"] if given["out_layouts"] is not None else given["out_placements"]
    inputs = given["in_layouts"] if given["in_layouts"] is not None else given["in_placements"]
    if outputs is None:
        raise usage_error(
            "HP-F002",
            "custom_shard: out_layouts are needed",
            hint='custom_shard(func, (layout("dp", "None"),))',
        )
    mesh = given["device_mesh"]
    core = None if mesh is None else as_mesh(mesh)
    check_spec(outputs, "out_layouts", "custom_shard")
    check_spec(inputs, "in_layouts", "custom_shard")
    found = {**({} if core is None else {core: 1}), **dict.fromkeys(meshes_of(outputs), 1)}
    if len(found) > 1:
        raise usage_error(
            "HP-F003",
            "custom_shard: layouts of different meshes",
            meshes="; ".join(map(str, found)),
        )
    return outputs, inputs, next(iter(found), None), bool(given["redistribute_inputs"])


def _is_mesh(value: Any) -> bool:
    if isinstance(value, Layout):
        return not value.configured
    return isinstance(value, Mesh) or hasattr(value, "mesh_dim_names")


def _wrapped(
    func: Callable[..., Any], outputs: Any, inputs: Any, mesh: Mesh | None, move: bool
) -> Callable[..., Any]:
    if isinstance(func, nn.Module):
        raise make_error(
            UsageTypeError,
            "HP-F004",
            f"custom_shard takes a function, not the module {type(func).__name__}",
            hint="wrap the function that its forward calls, with parameters as arguments",
        )
    if not callable(func):
        raise make_error(
            UsageTypeError, "HP-F004", f"custom_shard takes a function, not {type(func).__name__}"
        )
    name = getattr(func, "__name__", type(func).__name__)
    signature = _signature(func)

    @functools.wraps(func)
    def sharded(*args: Any, **kwargs: Any) -> Any:
        found = _mesh_of(args, kwargs)
        if found is None:
            return func(*args, **kwargs)
        region = Region(mesh or found)
        taker = _Inputs(region, move, name)
        args, kwargs = taker.take(signature, args, kwargs, inputs)
        with naming_failures(f"custom_shard: {name}"):
            with running(region):
                results = func(*args, **kwargs)
            giver = _Outputs(region, name)
            shown = giver.collect(results, outputs, "result")
            return giver.fill(shown, giver.wrapped())

    return sharded


def _signature(func: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):  # builtins without a signature
        return None


def _mesh_of(*values: Any) -> Mesh | None:
    """Find the mesh of the first DTensor in nested values."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if _torch.is_dtensor(value):
                return _torch.layout(value).mesh
        elif isinstance(value, Mapping):
            found = _mesh_of(*value.values())
            if found is not None:
                return found
        elif isinstance(value, (list, tuple)):
            found = _mesh_of(*value)
            if found is not None:
                return found
    return None


# ---- Inputs --------------------------------------------------------------------------------


class _Inputs:
    """Turns the arguments of one call into parts."""

    def __init__(self, region: Region, move: bool, name: str) -> None:
        self.region, self.move, self.name = region, move, name
        self.mesh: Mesh = region.mesh  # type: ignore[assignment]
        self.locals: list[torch.Tensor] = []

    def take(
        self,
        signature: inspect.Signature | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        specs: Any,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        by_place, by_name = self._assigned(signature, args, kwargs, specs)
        places = [
            self._part(value, spec, f"argument {i}")
            for i, (value, spec) in enumerate(zip(args, by_place, strict=True))
        ]
        named = {k: self._part(v, by_name[k], f'argument "{k}"') for k, v in kwargs.items()}
        entered = self.region.enter(self.locals)
        return tuple(_filled(each, entered) for each in places), {
            k: _filled(v, entered) for k, v in named.items()
        }

    def _assigned(
        self,
        signature: inspect.Signature | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        specs: Any,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Give each argument its entry of ``in_layouts``; ``...`` stands for "as it is"."""
        if specs is None:
            return [...] * len(args), dict.fromkeys(kwargs, ...)
        names = list(signature.parameters) if signature is not None else []
        if isinstance(specs, Mapping):
            unknown = [n for n in specs if n not in names and n not in kwargs]
            if unknown:
                raise usage_error(
                    "HP-F005",
                    f'custom_shard: {self.name} has no argument named "{unknown[0]}"',
                    arguments=", ".join(names) or "none",
                )
            of_place = [specs.get(names[i]) if i < len(names) else None for i in range(len(args))]
            return of_place, {k: specs.get(k) for k in kwargs}
        items = [specs] if is_layout_spec(specs) else list(specs)
        given = len(args) + len(kwargs)
        most = max(given, len(names) if signature is not None and not kwargs else 0)
        if len(items) < given or len(items) > max(most, len(names)):
            raise usage_error(
                "HP-F005",
                f"custom_shard: {self.name} got {given} arguments, in_layouts has {len(items)}",
                hint="one entry an argument, None for what is no tensor",
            )
        by_name = {}
        for k in kwargs:
            place = names.index(k) if k in names else -1
            if not 0 <= place < len(items):
                raise usage_error(
                    "HP-F005",
                    f'custom_shard: in_layouts has no entry for the argument "{k}"',
                    hint="in_layouts may be a dict by name",
                )
            by_name[k] = items[place]
        return items[: len(args)], by_name

    def _part(self, value: Any, spec: Any, where: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, spec, where)
        inner = spec is ... or spec is None
        if isinstance(value, (list, tuple)):
            specs = [spec] * len(value) if inner else self._items(spec, len(value), where)
            made = [
                self._part(v, s, f"{where}[{i}]")
                for i, (v, s) in enumerate(zip(value, specs, strict=True))
            ]
            return value._make(made) if hasattr(value, "_make") else type(value)(made)
        if isinstance(value, dict):
            get = (lambda k: spec) if inner else (lambda k: spec.get(k))
            if not inner and not isinstance(spec, Mapping):
                raise self._misfit(value, spec, where)
            return {k: self._part(v, get(k), f"{where}[{k!r}]") for k, v in value.items()}
        if not inner and value is not None:
            raise self._misfit(value, spec, where)
        return value

    def _items(self, spec: Any, count: int, where: str) -> list[Any]:
        if is_layout_spec(spec) or not isinstance(spec, Sequence) or len(spec) != count:
            raise usage_error(
                "HP-F005",
                f"custom_shard: {where} of {self.name} is a list of {count}, its entry is not",
                entry=spec,
            )
        return list(spec)

    def _misfit(self, value: Any, spec: Any, where: str) -> Exception:
        return usage_error(
            "HP-F006",
            f"custom_shard: {where} of {self.name} has a layout, but is no tensor",
            value=f"{type(value).__name__} {value!r:.60}",
            layout=spec,
            hint="None in its place",
        )

    def _tensor(self, value: torch.Tensor, spec: Any, where: str) -> _Slot:
        if spec is None and _torch.is_dtensor(value):
            raise usage_error(
                "HP-F007",
                f"custom_shard: {where} of {self.name} is a DTensor, its layout is None",
                tensor=_torch.describe(value),
                hint="None is for what is no tensor; without in_layouts each keeps its own",
            )
        if spec is not None and spec is not ...:
            if not _torch.is_dtensor(value):
                raise usage_error(
                    "HP-F008",
                    f"custom_shard: {where} of {self.name} has a layout, but is a plain tensor",
                    tensor=_torch.describe(value),
                    hint="distribute_tensor() makes a DTensor; None hands it on as it is",
                )
            if self.move:
                own = _torch.layout(value).mesh
                value = _torch.redistribute(value, resolve_layout(spec, own, value.dim()))
        if _torch.is_dtensor(value) and _torch.layout(value).mesh != self.mesh:
            raise usage_error(
                "HP-F003",
                f"custom_shard: {where} of {self.name} is on another mesh",
                tensor=_torch.describe(value),
                mesh=self.mesh,
            )
        self.locals.append(local_of(value, self.mesh))
        return _Slot(len(self.locals) - 1)


class _Slot:
    """The place of a tensor in a list."""

    def __init__(self, index: int) -> None:
        self.index = index


def _filled(value: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(value, _Slot):
        return tensors[value.index]
    if isinstance(value, (list, tuple)):
        made = [_filled(v, tensors) for v in value]
        return value._make(made) if hasattr(value, "_make") else type(value)(made)
    if isinstance(value, dict):
        return {k: _filled(v, tensors) for k, v in value.items()}
    return value


# ---- Results -------------------------------------------------------------------------------


class _Outputs:
    """Turns the parts that one call gave into DTensors."""

    def __init__(self, region: Region, name: str) -> None:
        self.region, self.name = region, name
        self.parts: list[torch.Tensor] = []
        self.layouts: list[Layout_] = []
        self.places: list[str] = []

    def collect(self, value: Any, spec: Any, where: str) -> Any:
        if isinstance(value, torch.Tensor):
            if isinstance(spec, (list, tuple)) and not is_layout_spec(spec) and len(spec) == 1:
                spec = spec[0]
            return self._tensor(value, spec, where)
        if isinstance(value, (list, tuple)):
            if spec is None:
                specs: list[Any] = [None] * len(value)
            elif is_layout_spec(spec) and len(value) == 1:
                specs = [spec]
            elif is_layout_spec(spec) or isinstance(spec, Mapping) or len(spec) != len(value):
                count = 1 if is_layout_spec(spec) else len(spec)
                raise usage_error(
                    "HP-F009",
                    f"custom_shard: {self.name} returned {len(value)} values in {where}, "
                    f"out_layouts has {count}",
                    hint="one layout a result, None for what is no tensor",
                )
            else:
                specs = list(spec)
            made = [
                self.collect(v, s, f"{where} {i}")
                for i, (v, s) in enumerate(zip(value, specs, strict=True))
            ]
            return value._make(made) if hasattr(value, "_make") else type(value)(made)
        if isinstance(value, dict):
            if not isinstance(spec, Mapping) or set(spec) != set(value):
                raise usage_error(
                    "HP-F009",
                    f"custom_shard: {self.name} returned a dict in {where}",
                    keys=", ".join(map(str, value)),
                    hint="out_layouts as a dict with these keys",
                )
            return {k: self.collect(v, spec[k], f"{where}[{k!r}]") for k, v in value.items()}
        one_none = isinstance(spec, (list, tuple)) and len(spec) == 1 and spec[0] is None
        if spec is not None and not one_none:
            raise usage_error(
                "HP-F009",
                f"custom_shard: {where} of {self.name} is no tensor, but has a layout",
                value=f"{type(value).__name__} {value!r:.60}",
                hint="None in its place",
            )
        return value

    def _tensor(self, value: torch.Tensor, spec: Any, where: str) -> _Slot:
        if _torch.is_dtensor(value):
            raise usage_error(
                "HP-F009",
                f"custom_shard: {where} of {self.name} is a DTensor; parts are expected",
                tensor=_torch.describe(value),
                hint="inside, tensors are plain: was a DTensor taken from outside the function?",
            )
        if spec is None or not is_layout_spec(spec):
            raise usage_error(
                "HP-F009",
                f"custom_shard: {where} of {self.name} is a tensor without a layout",
                tensor=_torch.describe(value),
                entry=spec,
                hint="one layout a result",
            )
        layout = resolve_layout(spec, self.region.mesh, value.dim())
        self.parts.append(value)
        self.layouts.append(layout)
        self.places.append(where)
        return _Slot(len(self.parts) - 1)

    def wrapped(self) -> list[Any]:
        if self.region.reaches_outside(self.parts):
            raise usage_error(
                "HP-F014",
                f"custom_shard: {self.name} uses a tensor that requires grad and is no argument",
                hint="pass it as an argument, so that its gradient is summed; or detach() it",
            )
        parts = self.region.leave(self.parts)
        for part, layout, place in zip(parts, self.layouts, self.places, strict=True):
            _torch.check_gradient_passes(part, layout, f"custom_shard: {place} of {self.name}")
        return wrap_results(parts, self.layouts, f"custom_shard: {self.name}", self.places)

    @staticmethod
    def fill(value: Any, tensors: list[Any]) -> Any:
        return _filled(value, tensors)
