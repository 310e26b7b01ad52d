"""Plans that models of ``transformers`` bring: their style names as layouts of parameters.

The names were made for modules that see plain parts. Here tensors between modules are DTensors, and
what a style does to inputs and outputs follows from the layouts of parameters: sums are done where
they are needed, gradients of what is replicated are summed, nothing is gathered that need not be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh, path_matches
from hyper_parallel.errors import near_facts, usage_error
from hyper_parallel.layouts.mesh import as_mesh
from hyper_parallel.modules.sharding import shard_module

__all__ = ["STYLES", "parallelize_model", "plan_of_model"]

# For each style the dim of a parameter that is cut, counted from the end (None: it stays whole),
# the parts of that dim which are cut each on its own, and whether parameters of one dim are cut.
STYLES: dict[str, tuple[int | None, int, bool]] = {
    "all_reduce": (None, 1, False),
    "colwise": (-2, 1, True),
    "colwise_gather_output": (-2, 1, True),
    "colwise_rep": (-2, 1, True),
    "embedding_colwise": (-1, 1, False),
    "embedding_rowwise": (-2, 1, False),
    "ep_dispatch_experts": (None, 1, False),
    "grouped_gemm": (0, 1, True),
    "local_params": (None, 1, False),
    "mla_kv_a_proj": (None, 1, False),
    "moe_identity_expert": (None, 1, False),
    "moe_tp_experts": (None, 1, False),
    "packed_colwise": (-2, 2, True),
    "packed_rowwise": (-1, 2, False),
    "replicate": (None, 1, False),
    "replicated_with_grad_allreduce": (None, 1, False),
    "rowwise": (-1, 1, False),
    "rowwise_rep": (-1, 1, False),
    "rowwise_split_input": (-1, 1, False),
    "sequence_parallel": (None, 1, False),
}

# Fused weights that a model takes apart again: plans gather what these give, here each of their
# parts is cut on its own and what they give stays where it is. By module name, the sizes of the
# parts to one another: products of fields of the configuration.
_FUSED: dict[str, tuple[tuple[str, ...], ...]] = {
    "gate_up_proj": ((), ()),
    "qkv_proj": (("num_attention_heads",), ("num_key_value_heads",), ("num_key_value_heads",)),
    "in_proj_qkv": (
        ("linear_num_key_heads", "linear_key_head_dim"),
        ("linear_num_key_heads", "linear_key_head_dim"),
        ("linear_num_value_heads", "linear_value_head_dim"),
    ),
}
_GATHERED = ("colwise_gather_output", "colwise_rep")


def plan_of_model(model: nn.Module) -> dict[str, str]:
    """Get the plan that a model brings: style names by path of a module or parameter.

    Raises:
        UsageError: it brings none.
    """
    plan = getattr(model, "tp_plan", None)
    if not plan:
        config = getattr(model, "config", None)
        plan = getattr(config, "base_model_tp_plan", None)
        prefix = getattr(model, "base_model_prefix", "")
        if plan and prefix and hasattr(model, prefix):
            plan = {f"{prefix}.{path}": style for path, style in plan.items()}
    if not plan:
        raise usage_error(
            "HP-P049",
            f"{type(model).__name__} brings no plan",
            hint="parallelize_module(model, mesh, plan), or shard_module(model, plan)",
        )
    return dict(plan)


def parallelize_model(
    model: nn.Module,
    device_mesh: Any,
    plan: Mapping[str, str] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> nn.Module:
    """Lay out the parameters of a model as its plan says, in place.

    Args:
        device_mesh: of one axis, or with one named ``tp``, along which the plan cuts; over the
            others parameters are replicated, and inputs may be cut.
        plan: style names by path; by default the one that the model brings. Paths that match
            nothing are left out: models share plans.

    Raises:
        UsageError: no plan, an unknown style (near names are listed), no axis ``tp``.
    """
    mesh = as_mesh(device_mesh)
    axis = _axis(mesh)
    styles = plan_of_model(model) if plan is None else dict(plan)
    for path, style in styles.items():
        if style not in STYLES:
            raise usage_error(
                "HP-P050",
                f'"{path}": no style is named "{style}"',
                **near_facts("styles", str(style), STYLES),
            )
    config = getattr(model, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    layouts = {
        name: layout
        for name, parameter in model.named_parameters()
        if (layout := _layout(name, parameter, styles, mesh, axis, text)) is not None
    }
    shard_module(
        model, {"parameter": layouts}, device_mesh=device_mesh, src_data_rank=src_data_rank
    )
    for module in model.modules():
        kind = type(module)
        if "Norm" in kind.__name__ and not kind.__module__.startswith("torch."):  # those are one op
            module.register_forward_pre_hook(_sum_inputs)
    return model


def _sum_inputs(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Finish sums before a norm: it needs them, and its code reads its input more than once."""
    reason = f"input of {type(module).__name__}: a norm needs the sum"
    return tuple(
        _torch.redistribute(t, _torch.layout(t).reduced(), reason) if _is_sum(t) else t
        for t in inputs
    )


def _is_sum(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and _torch.is_dtensor(t) and _torch.layout(t).has_partial


def _axis(mesh: Mesh) -> int:
    if mesh.ndim == 1:
        return 0
    if "tp" not in mesh.names:
        raise usage_error(
            "HP-P042", "which axis does the plan cut along? none is named tp", mesh=mesh
        )
    return mesh.axis("tp")


def _layout(
    name: str,
    parameter: nn.Parameter,
    styles: Mapping[str, str],
    mesh: Mesh,
    axis: int,
    config: Any,
) -> Layout_ | None:
    style = _style_of(name, styles)
    dim, parts, cuts_vectors = STYLES[style] if style is not None else (None, 1, False)
    ndim = parameter.dim()
    if dim is None or ndim == 0 or (ndim == 1 and not cuts_vectors):
        return None
    place = 0 if ndim == 1 else dim % ndim
    shares = [1] * parts
    if style in _GATHERED:
        shares = _shares(name, config)
    size, whole = parameter.shape[place], sum(shares)
    segments = [size // whole * n for n in shares] if len(shares) > 1 and size % whole == 0 else []
    return Layout_.of_splits(mesh, [(place, [axis], 1, segments)])


def _shares(name: str, config: Any) -> list[int]:
    """The sizes of the parts of a fused weight to one another; one part for others."""
    parts = _FUSED.get(name.split(".")[-2] if "." in name else "", ((),))
    if any(not getattr(config, field, None) for fields in parts for field in fields):
        return [1]
    return [math.prod(getattr(config, field) for field in fields) for fields in parts]


def _style_of(name: str, styles: Mapping[str, str]) -> str | None:
    """Find the style of a parameter: of its own path, or of the module that holds it."""
    module, _, _ = name.rpartition(".")
    for path in (name, module):
        for pattern, style in styles.items():
            if path_matches(pattern, path):
                return style
    return None
