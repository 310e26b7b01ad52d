"""Parallel styles, with the names and arguments that torch gives them.

Between styled modules tensors are plain parts by default, and gradients of what is replicated are
whole on every rank. So a column-wise layer before a row-wise one costs what Megatron's pair does:
one all-reduce forward and one backward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from hyper_parallel import _torch
from hyper_parallel.dtensors.dtensor import DTensor
from hyper_parallel.errors import UnsupportedError, make_error, usage_error
from hyper_parallel.layouts.layout_specs import resolve_layout
from hyper_parallel.layouts.mesh import as_mesh
from hyper_parallel.layouts.placement import Replicate, Shard, as_placement, is_placement
from hyper_parallel.modules.parallelize import line_of
from hyper_parallel.modules.view import lay_out

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """How one module is parallelized. Subclasses change it in ``_apply``, and may use hooks."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        """Parallelize ``module`` over a mesh of one axis, in place."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in vars(self).items() if k != "src_data_rank")
        return f"{type(self).__name__}({shown})"


def _to_dtensor(value: torch.Tensor, mesh: Any, placement: Any, shape: Any = None) -> DTensor:
    if _torch.is_dtensor(value):
        return value  # type: ignore[return-value]
    return DTensor.from_local(value, mesh, [placement], shape=shape)


def _moved(value: DTensor, mesh: Any, placement: Any) -> DTensor:
    layout = resolve_layout([placement], as_mesh(mesh), value.dim())
    return _torch.redistribute(value, layout)


def _handed_on(value: DTensor, mesh: Any, placement: Any, local: bool) -> torch.Tensor:
    """Move to ``placement``; a plain part in one step, so that a sum costs nothing backward."""
    if not local:
        return _moved(value, mesh, placement)
    return _torch.to_local_as(value, resolve_layout([placement], as_mesh(mesh), value.dim()))


def _first(inputs: tuple[Any, ...], what: str) -> torch.Tensor:
    if inputs and isinstance(inputs[0], torch.Tensor):
        return inputs[0]
    given = type(inputs[0]).__name__ if inputs else "nothing by place"
    raise usage_error(
        "HP-P046", f"{what}: the first input is {given}, not a tensor", hint="pass it by place"
    )


def _one(placement: Any, default: Any) -> tuple[Any, ...]:
    return (default if placement is None else as_placement(placement),)


class _Sliced(ParallelStyle):
    """What column-wise and row-wise layers share."""

    _default_input: Any
    _default_output: Any

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        output_layouts: Any = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.input_layouts = _one(input_layouts, self._default_input)
        self.output_layouts = _one(output_layouts, self._default_output)
        self.use_local_output = use_local_output

    def _refuse(self, module: nn.Module) -> Exception:
        return make_error(
            UnsupportedError,
            "HP-P045",
            f"{type(self).__name__} knows Linear and Embedding, not {type(module).__name__}",
            hint="name the layers inside it, or use shard_module or custom_shard",
        )

    def _hook(self, module: nn.Module, mesh: Any, wanted: Any, width: int | None) -> None:
        """Convert inputs and outputs; ``width`` is the size of the input's last dim."""
        given, result, local = self.input_layouts[0], self.output_layouts[0], self.use_local_output

        def before(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            x = _first(inputs, type(self).__name__)
            shape = None
            cuts_last = given.is_shard() and given.dim % x.dim() == x.dim() - 1
            if cuts_last and width is not None:
                shape = [*x.shape[:-1], width]
            return _moved(_to_dtensor(x, mesh, given, shape), mesh, wanted), *inputs[1:]

        def after(module: nn.Module, inputs: Any, output: Any) -> torch.Tensor:
            return _handed_on(output, mesh, result, local)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)


class ColwiseParallel(_Sliced):
    """Cut a Linear by its output features, an Embedding by its width.

    Args:
        input_layouts: how a plain input lies; R by default.
        output_layouts: how the output shall lie; by default cut along the last dim.
        use_local_output: give a plain part, or a DTensor.

    Cost:
        Forward nothing, backward one all-reduce of the input's gradient.
    """

    _default_input = Replicate()
    _default_output = Shard(-1)

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        mesh = line_of(device_mesh)
        if isinstance(module, nn.Linear):
            cut, width = Shard(0), module.in_features
        elif isinstance(module, nn.Embedding):
            cut, width = Shard(1), None
        else:
            raise self._refuse(module)
        for name in list(module._parameters):
            lay_out(module, name, mesh, [cut], self.src_data_rank)
        self._hook(module, mesh, Replicate(), width)
        return module


class RowwiseParallel(_Sliced):
    """Cut a Linear by its input features, an Embedding by its rows.

    Args:
        input_layouts: how a plain input lies; by default cut along the last dim for a Linear.
        output_layouts: how the output shall lie; R by default.
        use_local_output: give a plain part, or a DTensor.

    Cost:
        Forward one all-reduce of the output, backward nothing; with ``output_layouts`` cut, one
        reduce-scatter and one all-gather.
    """

    _default_input = Shard(-1)
    _default_output = Replicate()

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        mesh = line_of(device_mesh)
        if isinstance(module, nn.Linear):
            lay_out(module, "weight", mesh, [Shard(1)], self.src_data_rank)
            lay_out(module, "bias", mesh, [Replicate()], self.src_data_rank)
            self._hook(module, mesh, Shard(-1), module.in_features)
        elif isinstance(module, nn.Embedding):
            lay_out(module, "weight", mesh, [Shard(0)], self.src_data_rank)
            self._hook(module, mesh, Replicate(), None)
        else:
            raise self._refuse(module)
        return module


class SequenceParallel(ParallelStyle):
    """Keep a norm, a dropout or another pointwise module whole, and run it on a cut sequence.

    A plain input counts as cut already, a DTensor is redistributed.

    Args:
        sequence_dim: the input's dim that is cut.
        use_local_output: give a plain part, or a DTensor.

    Cost:
        One all-reduce of a number for a plain input, none for a DTensor that is cut already.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        mesh = line_of(device_mesh)
        cut = self.sequence_sharding[0]
        for inner in module.modules():
            for name in list(inner._parameters):
                lay_out(inner, name, mesh, [Replicate()], self.src_data_rank)

        def before(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            x = _first(inputs, "SequenceParallel")
            return _moved(_to_dtensor(x, mesh, cut), mesh, cut), *inputs[1:]

        def after(module: nn.Module, inputs: Any, output: Any) -> torch.Tensor:
            return _handed_on(output, mesh, cut, self.use_local_output)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


def _several(layouts: Any) -> tuple[Any, ...] | None:
    if layouts is None:
        return None
    if is_placement(layouts):
        return (as_placement(layouts),)
    return tuple(None if each is None else as_placement(each) for each in layouts)


def _check_pair(what: str, given: Any, wanted: Any) -> None:
    if (given is None) != (wanted is None) or (given is not None and len(given) != len(wanted)):
        raise usage_error(
            "HP-P047",
            f"{what} and desired_{what} must be of one length",
            given=given,
            wanted=wanted,
        )


def _converted(value: Any, mesh: Any, given: Any, wanted: Any, local: bool, where: str) -> Any:
    """Convert one input or output; None leaves it alone."""
    if given is None:
        return value
    if not isinstance(value, torch.Tensor):
        raise usage_error(
            "HP-P046",
            f"{where} has a placement, but is a {type(value).__name__}",
            hint="None in its place",
        )
    return _handed_on(
        _to_dtensor(value, mesh, given), mesh, given if wanted is None else wanted, local
    )


class PrepareModuleInput(ParallelStyle):
    """Convert the inputs of a module: plain tensors to DTensors, and these to other layouts.

    Args:
        input_layouts: how plain inputs lie: a placement, or one an argument, None for those to be
            left alone.
        desired_input_layouts: how the module shall get them.
        input_kwarg_layouts: as ``input_layouts``, for keyword arguments by name.
        desired_input_kwarg_layouts: as ``desired_input_layouts``.
        use_local_output: give plain parts to the module, or DTensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Any] | None = None,
        desired_input_kwarg_layouts: dict[str, Any] | None = None,
        use_local_output: bool = False,
    ) -> None:
        super().__init__()
        self.input_layouts = _several(input_layouts)
        self.desired_input_layouts = _several(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        _check_pair("input_layouts", self.input_layouts, self.desired_input_layouts)
        _check_pair(
            "input_kwarg_layouts", self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        )

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        mesh = line_of(device_mesh)
        name = type(module).__name__

        def before(
            module: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            given, wanted = self.input_layouts, self.desired_input_layouts
            if given is not None and wanted is not None:
                _check_count(inputs, given, f"inputs of {name}")
                inputs = tuple(
                    _converted(x, mesh, g, w, self.use_local_output, f"input {i} of {name}")
                    for i, (x, g, w) in enumerate(zip(inputs, given, wanted, strict=True))
                )
            made = dict(kwargs)
            for key, placement in self.input_kwarg_layouts.items():
                if key in made:
                    target = self.desired_input_kwarg_layouts.get(key)
                    where = f'input "{key}" of {name}'
                    local = self.use_local_output
                    made[key] = _converted(made[key], mesh, placement, target, local, where)
            return inputs, made

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Convert the outputs of a module: plain tensors to DTensors, and these to other layouts.

    Args:
        output_layouts: how plain outputs lie: a placement, or one an output, None for those to be
            left alone.
        desired_output_layouts: how they shall lie.
        use_local_output: give plain parts, or DTensors.
    """

    def __init__(
        self,
        *,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.output_layouts = _several(output_layouts)
        self.desired_output_layouts = _several(desired_output_layouts)
        self.use_local_output = use_local_output
        _check_pair("output_layouts", self.output_layouts, self.desired_output_layouts)

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        mesh = line_of(device_mesh)
        name = type(module).__name__

        def after(module: nn.Module, inputs: Any, outputs: Any) -> Any:
            values = outputs if isinstance(outputs, tuple) else (outputs,)
            given, wanted = self.output_layouts or (), self.desired_output_layouts or ()
            _check_count(values, given, f"outputs of {name}")
            made = tuple(
                _converted(x, mesh, g, w, self.use_local_output, f"output {i} of {name}")
                for i, (x, g, w) in enumerate(zip(values, given, wanted, strict=True))
            )
            return made if len(made) > 1 else made[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """``PrepareModuleInput`` and ``PrepareModuleOutput`` in one."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Any] | None = None,
        desired_input_kwarg_layouts: dict[str, Any] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


def _check_count(values: Sequence[Any], layouts: Sequence[Any], what: str) -> None:
    if len(values) != len(layouts):
        raise usage_error(
            "HP-P048",
            f"{len(values)} {what}, the style has {len(layouts)} placements",
            hint="one each, None for those to be left alone",
        )
