"""Sharding plans: state how parameters, inputs and results of a model lie over a mesh."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils._pytree import tree_map

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import UsageError, near_facts, placed, usage_error
from hyper_parallel.layouts.layout_specs import resolve_layout
from hyper_parallel.layouts.mesh import as_mesh
from hyper_parallel.layouts.plan_values import Inputs, apply_spec, assign, check_spec, meshes_of
from hyper_parallel.modules.view import ModuleView, check_shape

__all__ = ["ShardingPlan", "shard", "shard_module"]

M = TypeVar("M", bound=Callable[..., Any])

_PARTS = ("parameter", "forward", "return_local_tensor")
_ENDS = ("input", "output")


@dataclasses.dataclass
class ShardingPlan:
    """A plan for ``shard_module`` by parts; the same as a dict.

    Args:
        plan: parameter names to layouts: ``parameter`` of the dict.
        input_plan: ``input`` or ``<module>.input`` to the layouts of arguments.
        output_plan: ``output`` or ``<module>.output`` to the layouts of results.
        return_local_tensor: names of modules, "" for the root, whose results become plain tensors.
    """

    plan: Mapping[str, Any] | None = None
    input_plan: Mapping[str, Any] | None = None
    output_plan: Mapping[str, Any] | None = None
    return_local_tensor: Sequence[str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """One dict: each key with what lies behind it.

        Raises:
            UsageError: ``input_plan`` or ``output_plan`` is no dict.
        """
        for name, end in (("input_plan", "input"), ("output_plan", "output")):
            part = getattr(self, name)
            if part is not None and not isinstance(part, Mapping):
                raise usage_error(
                    "HP-P010", f"ShardingPlan: {name} is a dict by name, not {type(part).__name__}"
                )
            for key in part or ():
                if key.rpartition(".")[2] != end:
                    raise usage_error(
                        "HP-P012", f'ShardingPlan: "{key}" in {name} does not end with {end}'
                    )
        return {
            "parameter": self.plan,
            "forward": {**(self.input_plan or {}), **(self.output_plan or {})},
            "return_local_tensor": self.return_local_tensor,
        }


Plan = Mapping[str, Any] | ShardingPlan


def shard_module(
    model: M,
    sharding_plan: Plan,
    device_mesh: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> M:
    """Lay a model out over a mesh, in place, or wrap a function.

        layout = Layout((2, 2), ("dp", "tp"))
        shard_module(model, {
            "parameter": {
                "layers.*.up.weight": layout("tp", "None"),
                "layers.*.down.weight": layout("None", "tp"),
            },
            "forward": {
                "input": {"x": layout("dp", "None")},       # also a list, a tuple or one layout
                "output": [layout("dp", "None")],
                "layers.*.down.output": layout("dp", "None"),
            },
        })

    Parameters become DTensors: those that no key names are replicated. Buffers that no key names
    stay plain. Tied parameters stay tied. A plain input that a key names counts as the same global
    value on every rank and is cut; a DTensor is redistributed. Other inputs are not touched.

    Args:
        model: a module or a function.
        sharding_plan: a dict or a ``ShardingPlan``. ``parameter`` maps names to layouts;
            ``forward`` maps ``input``, ``output``, ``<module>.input`` and ``<module>.output`` to
            the layouts of arguments and results.
            Keys may have wildcards (``*`` within a part, ``**`` across parts); the closest counts.
            A layout is a ``Layout``, placements, or names such as ``("dp", "None")``; None leaves
            a value alone; lists and dicts reach values inside lists, dicts and dataclasses.
            ``return_local_tensor`` lists modules ("" is the root) whose results become plain.
        device_mesh: needed only where no entry is a ``Layout``. May also stand before the plan.
        src_data_rank: whose parameters count, as a place in the mesh's rank list; with None every
            rank is trusted to hold the same ones, and nothing is communicated.

    Returns:
        The same module, or a function of the same signature.

    Raises:
        UsageError: a key that matches nothing (near names are listed), an unknown argument, a
            layout that does not fit, layouts of several meshes. The model is then unchanged. At a
            call: a layout for what is no tensor, counts that differ.
    """
    if isinstance(device_mesh, (Mapping, ShardingPlan)):
        sharding_plan, device_mesh = device_mesh, sharding_plan
    if isinstance(sharding_plan, ShardingPlan):
        sharding_plan = sharding_plan.as_dict()
    _check_plan(sharding_plan)
    parameters = dict(sharding_plan.get("parameter") or {})
    forward = dict(sharding_plan.get("forward") or {})
    mesh = _find_mesh(parameters, forward, device_mesh)
    plain = sharding_plan.get("return_local_tensor") or ()
    if not isinstance(model, nn.Module):
        if plain:
            raise usage_error(
                "HP-P016", "sharding plan: return_local_tensor names modules, a function has none"
            )
        return _shard_function(model, parameters, forward, mesh)

    view = ModuleView(model)
    hooks: list[tuple[nn.Module, Any]] = [*_module_hooks(view, forward, mesh)]
    hooks += _local_hooks(view, plain)
    moves = _parameter_moves(view, parameters, mesh)
    _torch.distribute_tensor(torch.empty(0), Layout_.replicated(mesh), None)  # raises if no member
    for module, hook in hooks:
        if isinstance(hook, _InputHook):
            view.before(module, hook)
        else:
            view.after(module, hook)
    moves.run(None if src_data_rank is None else _source_rank(mesh, src_data_rank))
    return model


def shard(
    model: M,
    sharding_plan: Plan,
    device_mesh: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> M:
    """Do what ``shard_module`` does; its older name."""
    return shard_module(model, sharding_plan, device_mesh, src_data_rank=src_data_rank)


# ---- The plan ------------------------------------------------------------------------------


def _check_plan(plan: Any) -> None:
    if not isinstance(plan, Mapping):
        raise usage_error(
            "HP-P010",
            f"a sharding plan is a dict, not {type(plan).__name__}",
            hint='{"parameter": {...}, "forward": {...}}',
        )
    for part, entries in plan.items():
        if part not in _PARTS:
            raise usage_error(
                "HP-P011",
                f'sharding plan: no part is named "{part}"',
                parts=", ".join(_PARTS),
            )
        if part == "return_local_tensor":
            if isinstance(entries, str):
                raise usage_error("HP-P010", "return_local_tensor is a list of names, not one")
            continue
        if entries is not None and not isinstance(entries, Mapping):
            raise usage_error(
                "HP-P010",
                f'sharding plan: "{part}" is a dict by name, not {type(entries).__name__}',
            )
    for key, spec in (plan.get("forward") or {}).items():
        if key.rpartition(".")[2] not in _ENDS:
            raise usage_error(
                "HP-P012",
                f'sharding plan: "{key}" in "forward" ends neither with input nor with output',
                **near_facts("ends", key.rpartition(".")[2], _ENDS),
            )
        check_spec(spec, f'"{key}"')


def _find_mesh(parameters: dict[str, Any], forward: dict[str, Any], device_mesh: Any) -> Mesh:
    """Find the one mesh of all layouts of a plan."""
    found = {} if device_mesh is None else {as_mesh(device_mesh): "device_mesh"}
    for part in (parameters, forward):
        for key, spec in part.items():
            for mesh in meshes_of(spec):
                found.setdefault(mesh, f'"{key}"')
    if len(found) > 1:
        (one, where), (other, there) = list(found.items())[:2]
        raise usage_error(
            "HP-P013",
            "sharding plan: layouts of different meshes",
            first=f"{one} in {where}",
            second=f"{other} in {there}",
        )
    if not found:
        raise usage_error(
            "HP-P014",
            "sharding plan: no entry brings a mesh",
            hint="use layouts made by Layout(...), or give device_mesh=",
        )
    return next(iter(found))


def _source_rank(mesh: Mesh, place: int) -> int:
    if not 0 <= place < len(mesh.ranks):
        raise usage_error(
            "HP-M015", f"src_data_rank={place}: the mesh has {len(mesh.ranks)} ranks", mesh=mesh
        )
    return mesh.ranks[place]


# ---- Parameters ----------------------------------------------------------------------------


def _parameter_moves(view: ModuleView, plan: dict[str, Any], mesh: Mesh) -> _torch.ParameterMoves:
    """Work out the layout of every parameter; change nothing."""
    specs = list(plan.values())

    def layout_of_key(key: int, tensor: torch.Tensor, name: str) -> Layout_:
        check_shape(name, tensor)
        return _layout_of_parameter(specs[key], mesh, tensor, name)

    return _torch.ParameterMoves(view, mesh, list(plan), layout_of_key)


def _layout_of_parameter(spec: Any, mesh: Mesh, tensor: torch.Tensor, name: str) -> Layout_:
    try:
        return resolve_layout(spec, mesh, tensor.dim())
    except UsageError as error:
        raise placed(error, f'parameter "{name}" {list(tensor.shape)}') from None


# ---- Inputs and outputs --------------------------------------------------------------------


class _InputHook:
    """A forward pre-hook that lays out arguments."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.inputs.apply(args, kwargs)


class _OutputHook:
    """A forward hook that lays out results."""

    def __init__(self, spec: Any, mesh: Mesh, where: str) -> None:
        self.spec, self.mesh, self.where = spec, mesh, where

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        return apply_spec(output, self.spec, self.mesh, self.where)


def _module_hooks(
    view: ModuleView, forward: dict[str, Any], mesh: Mesh
) -> list[tuple[nn.Module, _InputHook | _OutputHook]]:
    """Make the hooks of a plan; register none."""
    modules = view.modules
    known = [f"{path}.{end}" if path else end for path in modules for end in _ENDS]
    made: list[tuple[nn.Module, _InputHook | _OutputHook]] = []
    registered: dict[str, set[int]] = {end: set() for end in _ENDS}
    done: dict[tuple[int, str], tuple[str, Any]] = {}  # a shared module has several names
    for name, (key, spec) in assign(forward, known, "module").items():
        path, _, end = name.rpartition(".")
        module = modules[path]
        other, before = done.setdefault((id(module), end), (key, spec))
        if other is not key or before is not spec:
            raise usage_error(
                "HP-P024",
                f'sharding plan: two keys of "forward" are for one module, "{path}"',
                keys=f'"{other}", "{key}"',
            )
        if spec is None or id(module) in registered[end]:
            continue
        registered[end].add(id(module))
        where = f"{end} of {path or type(module).__name__}"
        if end == "input":
            made.append((module, _InputHook(Inputs(spec, mesh, module.forward, where))))
        else:
            made.append((module, _OutputHook(spec, mesh, where)))
    return made


def _local_hooks(view: ModuleView, names: Sequence[str]) -> list[tuple[nn.Module, Any]]:
    chosen = assign(dict.fromkeys(names), view.modules, "module")
    return [(view.modules[name], _plain_results) for name in chosen]


def _plain_results(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    return tree_map(lambda v: _torch.to_local(v) if _is_dtensor(v) else v, output)


def _is_dtensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and _torch.is_dtensor(value)


def _shard_function(
    function: M, parameters: dict[str, Any], forward: dict[str, Any], mesh: Mesh
) -> M:
    if not callable(function):
        raise usage_error(
            "HP-P015", f"a module or a function is sharded, not {type(function).__name__}"
        )
    name = getattr(function, "__name__", type(function).__name__)
    if parameters:
        raise usage_error(
            "HP-P016",
            f'sharding plan: the function {name} has no parameters, but the plan has "parameter"',
            parameters=", ".join(parameters),
        )
    assign(forward, _ENDS, "end of a function")
    inputs = Inputs(forward.get("input"), mesh, function, f"input of {name}")
    output = forward.get("output")

    @functools.wraps(function)
    def sharded(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = inputs.apply(args, kwargs)
        return apply_spec(function(*args, **kwargs), output, mesh, f"output of {name}")

    return sharded  # type: ignore[return-value]
