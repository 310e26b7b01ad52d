"""Styles on modules: ``parallelize_module`` and ``distribute_module``."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from hyper_parallel import _torch
from hyper_parallel.errors import UsageTypeError, make_error, usage_error
from hyper_parallel.layouts.mesh import DeviceMesh, as_mesh
from hyper_parallel.layouts.placement import Replicate
from hyper_parallel.layouts.plan_values import assign
from hyper_parallel.modules.view import lay_out, viewing

if TYPE_CHECKING:
    from hyper_parallel.modules.style import ParallelStyle

__all__ = ["distribute_module", "loss_parallel", "parallelize_module"]


def parallelize_module(
    module: nn.Module,
    device_mesh: Any = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> nn.Module:
    """Apply parallel styles to a module and those inside it, in place.

        parallelize_module(model, mesh["tp"], {
            "layers.*.up": ColwiseParallel(),
            "layers.*.down": RowwiseParallel(),
        })
        parallelize_module(model, mesh)         # a model of transformers: by its own tp_plan

    Args:
        device_mesh: of one axis, ours or torch's; for a plan of transformers also of several, of
            which one is named ``tp``.
        parallelize_plan: a style, or styles by module path. Paths may have wildcards (``*`` within
            a part, ``**`` across parts); the closest counts; ``""`` is the module itself. By
            default the plan that the model brings.
        src_data_rank: whose parameters count, as a place in the mesh; with None every rank is
            trusted to hold the same ones, and nothing is communicated.

    Returns:
        The same module. Tied parameters stay tied.

    Raises:
        UsageError: a path that matches no module (near names are listed), a mesh of several axes.
        UnsupportedError: a style on a module that it does not know.
    """
    from hyper_parallel.modules.style import ParallelStyle

    if device_mesh is None:
        raise usage_error(
            "HP-P040",
            "parallelize_module: a mesh is needed",
            hint="parallelize_module(m, mesh, plan)",
        )
    if parallelize_plan is None:
        from hyper_parallel.modules.model_plans import parallelize_model

        return parallelize_model(module, device_mesh, src_data_rank=src_data_rank)
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan = {"": parallelize_plan}
    if not isinstance(parallelize_plan, Mapping):
        raise make_error(
            UsageTypeError,
            "HP-P041",
            "parallelize_module: a plan is a style or a dict, not "
            f"{type(parallelize_plan).__name__}",
        )
    for path, style in parallelize_plan.items():
        if not isinstance(style, ParallelStyle):
            raise make_error(
                UsageTypeError,
                "HP-P041",
                f'parallelize_module: "{path}" has no style, but {style!r:.60}',
                hint="ColwiseParallel(), RowwiseParallel(), ...",
            )
    mesh = line_of(device_mesh)
    done: dict[int, tuple[str, ParallelStyle]] = {}
    with viewing(module):
        modules = dict(module.named_modules(remove_duplicate=False))
        for name, (_, style) in assign(parallelize_plan, list(modules), "module").items():
            target = modules[name]
            other, before = done.setdefault(id(target), (name, style))
            if other != name:  # a module with several names
                if before is not style:
                    raise usage_error(
                        "HP-P024", f'two styles for one module, "{other}" and "{name}"'
                    )
                continue
            style.src_data_rank = src_data_rank
            made = style._apply(target, mesh)
            if made is not target and name:
                parent, _, last = name.rpartition(".")
                setattr(module.get_submodule(parent), last, made)
    return module


def line_of(device_mesh: Any) -> DeviceMesh:
    """Take a mesh of one axis, ours or torch's."""
    core = as_mesh(device_mesh)
    if core.ndim != 1:
        raise usage_error(
            "HP-P042",
            f"parallel styles need a mesh of one axis, this one has {core.ndim}",
            mesh=core,
            hint=f'mesh["{core.names[-1]}"]',
        )
    return DeviceMesh._of(core, str(getattr(device_mesh, "device_type", "cpu")))


def distribute_module(
    module: nn.Module,
    device_mesh: Any = None,
    partition_fn: Callable[[str, nn.Module, Any], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> nn.Module:
    """Make all parameters and buffers of a module DTensors, and convert its inputs and outputs.

    Args:
        device_mesh: ours or torch's.
        partition_fn: called with each module inside, to distribute its parameters; those that it
            leaves plain are replicated.
        input_fn: ``(module, inputs, device_mesh) -> inputs``, before each forward.
        output_fn: ``(module, outputs, device_mesh) -> outputs``, after it.

    Returns:
        The same module.

    Raises:
        UsageError: called twice on a module, or functions of other arguments.
    """
    if getattr(module, "_distribute_module_applied", False):
        raise usage_error("HP-P043", "distribute_module was called on this module before")
    core = as_mesh(device_mesh)
    for what, function in (("input_fn", input_fn), ("output_fn", output_fn)):
        if function is not None and len(inspect.signature(function).parameters) != 3:
            raise usage_error(
                "HP-P044", f"distribute_module: {what} takes (module, values, device_mesh)"
            )
    mesh = DeviceMesh._of(core, str(getattr(device_mesh, "device_type", "cpu")))
    whole = [Replicate()] * core.ndim
    with viewing(module):
        for name, inner in module.named_modules():
            if partition_fn is not None:
                partition_fn(name, inner, device_mesh)
            for key, tensor in [*inner._parameters.items(), *inner._buffers.items()]:
                if tensor is not None and not _torch.is_dtensor(tensor):
                    lay_out(inner, key, mesh, whole, 0)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, output: output_fn(m, output, device_mesh))
    module._distribute_module_applied = True  # type: ignore[assignment]
    return module


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Do nothing: losses keep a cut class dim cut everywhere, each rank takes its part."""
    yield
