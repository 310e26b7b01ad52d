"""Write a model for one device, state how tensors lie over a mesh, and run it on many."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hyper_parallel._core import plan
from hyper_parallel.errors import CommError, InternalError, UnsupportedError, UsageError
from hyper_parallel.placement import Partial, Placement, Replicate, Shard
from hyper_parallel.rules import (
    TensorSpec,
    infer_backward,
    infer_forward,
    infer_grad,
    strategies,
)

if TYPE_CHECKING:
    from hyper_parallel.dtensor import DTensor, distribute_tensor
    from hyper_parallel.factories import empty, full, ones, rand, randn, zeros
    from hyper_parallel.grad import checking, no_grad_sync, parallelize_value_and_grad, policy
    from hyper_parallel.layout import Layout
    from hyper_parallel.mesh import DeviceMesh, init_device_mesh
    from hyper_parallel.ranks import init_process_group, manual_seed, rank, run_local, world_size
    from hyper_parallel.report import CommReport, CommRow, comm_report, explain
    from hyper_parallel.sharding import shard, shard_module
    from hyper_parallel.verifier import verify

# What needs torch, by the module that has it. It is loaded, all together, when the first of these
# names is asked for, so that rules and plans can be asked without torch.
_WITH_TORCH = {
    "dtensor": ("DTensor", "distribute_tensor"),
    "factories": ("empty", "full", "ones", "rand", "randn", "zeros"),
    "grad": ("checking", "no_grad_sync", "parallelize_value_and_grad", "policy"),
    "layout": ("Layout",),
    "mesh": ("DeviceMesh", "init_device_mesh"),
    "ranks": ("init_process_group", "manual_seed", "rank", "run_local", "world_size"),
    "report": ("CommReport", "CommRow", "comm_report", "explain"),
    "sharding": ("shard", "shard_module"),
    "verifier": ("verify",),
}


def _load() -> None:
    import_module("torch")  # first: the libraries below link to it
    for module, names in _WITH_TORCH.items():
        found = import_module(f"{__name__}.{module}")
        globals().update({name: getattr(found, name) for name in names})


def __getattr__(name: str) -> Any:
    if any(name in names for names in _WITH_TORCH.values()):
        _load()
        return globals()[name]
    if name == "_torch":
        import_module("torch")
        return import_module(f"{__name__}._torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "CommError",
    "CommReport",
    "CommRow",
    "DTensor",
    "DeviceMesh",
    "InternalError",
    "Layout",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "TensorSpec",
    "UnsupportedError",
    "UsageError",
    "checking",
    "comm_report",
    "distribute_tensor",
    "empty",
    "explain",
    "full",
    "infer_backward",
    "infer_forward",
    "infer_grad",
    "init_device_mesh",
    "init_process_group",
    "manual_seed",
    "no_grad_sync",
    "ones",
    "parallelize_value_and_grad",
    "plan",
    "policy",
    "rand",
    "randn",
    "rank",
    "run_local",
    "shard",
    "shard_module",
    "strategies",
    "verify",
    "world_size",
    "zeros",
]
