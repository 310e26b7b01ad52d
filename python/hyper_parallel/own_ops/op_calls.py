"""Calls of ops that a ``DistributedOp`` infers: the three stages, and the cache of the last two."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import UnsupportedError, make_error, usage_error
from hyper_parallel.launch.failures import naming_failures
from hyper_parallel.layouts.layout import Layout
from hyper_parallel.local.region import Region, local_of, raw_locals, running, wrap_results
from hyper_parallel.own_ops.distributed_op import (
    DistributedOp,
    registry_generation,
)

__all__ = ["layout_cache_clear", "layout_cache_info"]


# ---- The cache -----------------------------------------------------------------------------


class _Cache(threading.local):
    """What was inferred, for each op, on one rank."""

    def __init__(self) -> None:
        self.seen = (-1, -1)
        self.entries: dict[str, dict[Any, Any]] = {}
        self.hits = 0
        self.misses = 0


_of_thread = _Cache()
_MOST_ENTRIES = 4096


def _cache() -> _Cache:
    """Get the cache of this rank; implementations may know the rank, so ranks share nothing."""
    cache = _of_thread
    now = (registry_generation(), _torch._context_generation())
    if cache.seen != now:
        cache.seen = now
        cache.entries = {}
    return cache


def layout_cache_info() -> dict[str, Any]:
    """Tell hits, misses, and the number of entries for each op, on this rank."""
    cache = _cache()
    sizes = {name: len(entries) for name, entries in cache.entries.items()}
    return {"hits": cache.hits, "misses": cache.misses, "entries": sizes}


def layout_cache_clear() -> None:
    """Forget what distributed ops inferred on this rank."""
    cache = _cache()
    cache.entries, cache.hits, cache.misses = {}, 0, 0


def _key(value: Any) -> Any:
    """Make a complete key of a value: equal keys mean equal inference.

    Raises:
        TypeError: a value that cannot be one.
    """
    if isinstance(value, torch.Tensor):
        raise TypeError("the values of a tensor are no key")
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_key(each) for each in value))
    if isinstance(value, dict):
        return (dict, tuple((k, _key(v)) for k, v in value.items()))
    if isinstance(value, float):
        return (float, repr(value))
    if isinstance(value, Layout):  # the number of dims counts
        return (Layout, value, value.alias_tensor_map if value.configured else None)
    hash(value)
    return (type(value), value)


def inferred(op: DistributedOp, values: Any, infer: Callable[[], Any]) -> Any:
    cache = _cache()
    try:
        key = (_key(values), torch.is_grad_enabled())
    except TypeError:
        cache.misses += 1
        return infer()
    entries = cache.entries.setdefault(op.op_name, {})
    if key in entries:
        cache.hits += 1
        return entries[key]
    cache.misses += 1
    made = infer()
    if len(entries) >= _MOST_ENTRIES:
        entries.clear()
    entries[key] = made
    return made


# ---- A call --------------------------------------------------------------------------------


def run_distributed_op(
    op: DistributedOp,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    owner: Any,
    writes: Sequence[int | str] = (),
) -> Any:
    """Answer a call with DTensors: infer, run on parts, wrap.

    An error of one process is told to the others.

    Args:
        owner: what tells ``func`` from other functions of the same op, hashable.
        writes: places and names of the arguments that ``func`` writes. It gets copies of their
            parts.

    Returns:
        The results; with ``writes`` a pair of these and the written copies.
    """
    with naming_failures(op.op_name):
        return _run(op, func, args, kwargs, owner, writes)


def _run(
    op: DistributedOp,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    owner: Any,
    writes: Sequence[int | str],
) -> Any:
    mesh = mesh_of_call(op, args, kwargs)
    with raw_locals():
        split = op.preprocess(args, kwargs)
    if split is None:
        local_args, local_kwargs, infer = _older_form(op, func, args, kwargs, mesh, owner)
        layouts, impl, replaced = infer()
        local_args = _replaced(local_args, replaced)
    else:
        if not isinstance(split, (list, tuple)) or len(split) != 3:
            raise usage_error(
                "HP-F036",
                f"{op.op_name}: preprocess gives (local_args, local_kwargs, cache_values), or None",
                given=type(split).__name__,
            )
        local_args, local_kwargs, values = split
        plain = {id(t) for t in tensors_of((args, kwargs)) if not _torch.is_dtensor(t)}
        take = lambda t: local_of(t, mesh) if id(t) in plain else t  # noqa: E731
        local_args, local_kwargs = mapped(tuple(local_args), take), mapped(local_kwargs, take)
        layouts, impl = inferred(op, (owner, values), lambda: _newer_form(op, func, values))
    region = Region(mesh, joined=False)
    local_args, local_kwargs = entered(region, local_args, local_kwargs, op)
    copies = [_copy_of_written(op, local_args, local_kwargs, place) for place in writes]
    local_args = tuple(
        copies[writes.index(i)] if i in writes else value for i, value in enumerate(local_args)
    )
    local_kwargs.update({k: copies[writes.index(k)] for k in local_kwargs if k in writes})
    with running(region):
        results = (impl or func)(*local_args, **local_kwargs)
    if not writes:
        return wrapped(op, region, results, layouts)
    return wrapped(op, region, results, layouts), copies


def _copy_of_written(
    op: DistributedOp, args: tuple[Any, ...], kwargs: dict[str, Any], place: int | str
) -> torch.Tensor:
    value = kwargs.get(place) if isinstance(place, str) else dict(enumerate(args)).get(place)
    if not isinstance(value, torch.Tensor):
        raise usage_error(
            "HP-F042",
            f"{op.op_name}: argument {place} is written, and preprocess left no tensor there",
            hint="local arguments that are written keep their places",
        )
    return value.clone()


def mesh_of_call(op: DistributedOp, args: Any, kwargs: Any) -> Mesh:
    meshes = dict.fromkeys(
        _torch.layout(t).mesh for t in tensors_of((args, kwargs)) if _torch.is_dtensor(t)
    )
    if len(meshes) != 1:
        raise usage_error(
            "HP-F037",
            f"{op.op_name}: DTensors of {len(meshes)} meshes in one call",
            meshes="; ".join(map(str, meshes)),
        )
    return next(iter(meshes))


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for each in value for t in tensors_of(each)]
    return []


def _newer_form(op: DistributedOp, func: Any, values: Any) -> tuple[Any, Any]:
    result = op.infer_layout(values)
    pair = isinstance(result, (list, tuple)) and len(result) == 2
    if not (pair and isinstance(result[0], (list, tuple))):
        raise usage_error(
            "HP-F036",
            f"{op.op_name}: infer_layout gives ((layout, ...), extra)",
            given=repr(result)[:200],
        )
    return _layouts_of(op, result[0]), op.get_expand_impl(func, result, values)


def _older_form(
    op: DistributedOp,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mesh: Mesh,
    owner: Any,
) -> tuple[Any, Any, Callable[[], Any]]:
    flat: list[Any] = []
    for value in [*args, *kwargs.values()]:
        expand = op.suffix == "WithTupleExpand" and isinstance(value, (list, tuple))
        flat += value if expand else [value]
    layouts = [
        value.layout if isinstance(value, torch.Tensor) and _torch.is_dtensor(value) else None
        for value in flat
    ]
    extra = [
        value
        for value, layout in zip(flat, layouts, strict=True)
        if layout is None and value is not None
    ]
    shapes = [
        tuple(value.shape) if isinstance(value, torch.Tensor) else None
        for value in flat
        if value is not None
    ]
    if op.suffix == "WithShape":
        extra = [*extra, shapes]
    elif op.suffix in ("Reshape", "Slice"):
        extra = [*extra, shapes[0]]
    names = list(kwargs)

    def infer() -> Any:
        one = len(inspect.signature(op.infer_layout).parameters) == 1
        result = op.infer_layout([*layouts, *extra]) if one else op.infer_layout(layouts, extra)
        replaced: tuple[Any, ...] = ()
        given = result
        if op.suffix == "Reshape":
            result, shape = result
            replaced = (shape,)
        elif op.suffix == "Slice":
            result, begin, end = result
            replaced = (begin, end)
        elif _is_pair(result):
            result = result[0]
        made = _layouts_of(op, result if isinstance(result, (list, tuple)) else (result,))
        shown = given if op.suffix in ("Reshape", "Slice") else result
        return made, op.get_expand_impl(func, shown, layouts, extra), replaced

    values = (owner, layouts, [_shown(each) for each in extra], names, len(args))
    take = functools.partial(local_of, mesh=mesh)
    local_args = tuple(mapped(value, take) for value in args)
    local_kwargs = {k: mapped(v, take) for k, v in kwargs.items()}
    return local_args, local_kwargs, lambda: inferred(op, values, infer)


def _is_pair(result: Any) -> bool:
    """Tell the newer result ``((layout, ...), extra)`` from a tuple of layouts."""
    return (
        isinstance(result, (list, tuple))
        and len(result) == 2
        and isinstance(result[0], (list, tuple))
    )


def _shown(value: Any) -> Any:
    """Make what stands for an argument in a key: of a plain tensor, its type and shape."""
    if isinstance(value, torch.Tensor):
        return ("plain", value.dtype, tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return tuple(_shown(each) for each in value)
    return value


def _replaced(args: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put local shapes or bounds, the last arguments of the older forms, in their places."""
    return (args[0], *values, *args[1 + len(values) :]) if values else args


def mapped(value: Any, take: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return take(value)
    if isinstance(value, (list, tuple)):
        made = [mapped(each, take) for each in value]
        return value._make(made) if hasattr(value, "_make") else type(value)(made)
    if isinstance(value, dict):
        return {k: mapped(v, take) for k, v in value.items()}
    return value


def entered(
    region: Region, args: Sequence[Any], kwargs: dict[str, Any], op: DistributedOp
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Check that all is local, and take it into the region."""
    locals: list[torch.Tensor] = []

    def note(value: torch.Tensor) -> int:
        if _torch.is_dtensor(value):
            raise usage_error(
                "HP-F038",
                f"{op.op_name}: preprocess left a DTensor among the local arguments",
                tensor=_torch.describe(value),
                hint="to_local() gives the part",
            )
        locals.append(value)
        return len(locals) - 1

    class Place(int):
        pass

    def place(value: Any) -> Any:
        return mapped(value, lambda t: Place(note(t)))

    made = [place(value) for value in args], {k: place(v) for k, v in dict(kwargs).items()}
    values = region.enter(locals)

    def fill(value: Any) -> Any:
        if isinstance(value, Place):
            return values[value]
        if isinstance(value, (list, tuple)):
            items = [fill(each) for each in value]
            return value._make(items) if hasattr(value, "_make") else type(value)(items)
        return {k: fill(v) for k, v in value.items()} if isinstance(value, dict) else value

    return tuple(fill(v) for v in made[0]), {k: fill(v) for k, v in made[1].items()}


def _layouts_of(op: DistributedOp, layouts: Sequence[Any]) -> tuple[Layout | None, ...]:
    for layout in layouts:
        if layout is not None and not isinstance(layout, (Layout, Layout_)):
            raise usage_error(
                "HP-F036",
                f"{op.op_name}: infer_layout gave {layout!r:.80}, not a layout",
                hint="a Layout, a tuple of them, or ((layout, ...), extra)",
            )
    return tuple(Layout._of(each) if isinstance(each, Layout_) else each for each in layouts)


def wrapped(
    op: DistributedOp, region: Region, results: Any, layouts: tuple[Layout | None, ...]
) -> Any:
    several = isinstance(results, (list, tuple))
    values = list(results) if several else [results]
    if several and len(layouts) == 1 and len(values) > 1:
        layouts = layouts * len(values)
    if len(values) != len(layouts):
        raise usage_error(
            "HP-F034",
            f"{op.op_name}: {len(values)} results, infer_layout gave {len(layouts)} layouts",
        )
    tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
    for i in tensors:
        if layouts[i] is None:
            raise usage_error("HP-F034", f"{op.op_name}: result {i} is a tensor without a layout")
        check_gradient(op, values[i], layouts[i])
    parts = region.leave([values[i] for i in tensors])
    resolved = [layouts[i].resolve(part.dim()) for i, part in zip(tensors, parts, strict=True)]  # type: ignore[union-attr]
    made = wrap_results(parts, resolved, op.op_name, [f"result {i}" for i in tensors])
    for i, tensor in zip(tensors, made, strict=True):
        values[i] = tensor
    if not several:
        return values[0]
    return results._make(values) if hasattr(results, "_make") else type(results)(values)


def check_gradient(op: DistributedOp, part: torch.Tensor, layout: Layout | None) -> None:
    """Refuse a result that requires grad and is P(max), P(min) or P(prod)."""
    kinds = [] if layout is None else [kind for kind in layout.partial if kind is not None]
    bad = [kind for kind in kinds if kind not in ("sum", "avg")]
    if bad and part.requires_grad:
        raise make_error(
            UnsupportedError,
            "HP-F012",
            f"{op.op_name}: the result requires grad, and no gradient passes P({bad[0]})",
            layout=layout,
            hint="detach() the inputs",
        )
