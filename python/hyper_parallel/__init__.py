"""Write a model for one device, state how tensors lie over a mesh, and run it on many."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hyper_parallel._core import plan
from hyper_parallel.errors import CommError, InternalError, UnsupportedError, UsageError
from hyper_parallel.layouts.placement import Partial, Placement, Replicate, Shard
from hyper_parallel.rules.infer import (
    TensorSpec,
    infer_backward,
    infer_forward,
    infer_grad,
    strategies,
)

if TYPE_CHECKING:
    from hyper_parallel.dtensors.dtensor import DTensor, distribute_tensor
    from hyper_parallel.dtensors.factories import empty, full, ones, rand, randn, zeros
    from hyper_parallel.grad import (
        SkipDTensorDispatch,
        checking,
        no_grad_sync,
        parallelize_value_and_grad,
        policy,
        random_mode,
    )
    from hyper_parallel.launch.failures import collective_log
    from hyper_parallel.launch.ranks import (
        init_process_group,
        manual_seed,
        rank,
        run_local,
        world_size,
    )
    from hyper_parallel.layouts.layout import Layout
    from hyper_parallel.layouts.mesh import DeviceMesh, init_device_mesh
    from hyper_parallel.local.collectives import (
        all_gather,
        all_reduce,
        all_to_all,
        axis_rank,
        axis_size,
        broadcast,
        permute,
        reduce_scatter,
    )
    from hyper_parallel.local.local_code import custom_shard
    from hyper_parallel.modules.sharding import ShardingPlan, shard, shard_module
    from hyper_parallel.own_ops.dfunction import DFunction
    from hyper_parallel.own_ops.distributed_op import (
        DistributedOp,
        get_distributed_op,
        register_distributed_op,
        register_rule,
        unregister_distributed_op,
        unregister_rule,
    )
    from hyper_parallel.own_ops.op_calls import layout_cache_clear, layout_cache_info
    from hyper_parallel.own_ops.op_files import load_distributed_ops
    from hyper_parallel.report import CommReport, CommRow, comm_report, explain
    from hyper_parallel.tensor.parallel import (
        ColwiseParallel,
        ParallelStyle,
        PrepareModuleInput,
        PrepareModuleInputOutput,
        PrepareModuleOutput,
        RowwiseParallel,
        SequenceParallel,
        distribute_module,
        loss_parallel,
        parallelize_module,
    )
    from hyper_parallel.verifier.session import verify

# What needs torch, by the module that has it. It is loaded, all together, when the first of these
# names is asked for, so that rules and plans can be asked without torch.
_WITH_TORCH = {
    "local.collectives": (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "axis_rank",
        "axis_size",
        "broadcast",
        "permute",
        "reduce_scatter",
    ),
    "own_ops.dfunction": ("DFunction",),
    "own_ops.distributed_op": (
        "DistributedOp",
        "get_distributed_op",
        "register_distributed_op",
        "register_rule",
        "unregister_distributed_op",
        "unregister_rule",
    ),
    "dtensors.dtensor": (
        "DTensor",
        "distribute_tensor",
    ),
    "dtensors.factories": (
        "empty",
        "full",
        "ones",
        "rand",
        "randn",
        "zeros",
    ),
    "grad": (
        "SkipDTensorDispatch",
        "checking",
        "no_grad_sync",
        "parallelize_value_and_grad",
        "policy",
        "random_mode",
    ),
    "layouts.layout": ("Layout",),
    "local.local_code": ("custom_shard",),
    "layouts.mesh": (
        "DeviceMesh",
        "init_device_mesh",
    ),
    "own_ops.op_calls": (
        "layout_cache_clear",
        "layout_cache_info",
    ),
    "own_ops.op_files": ("load_distributed_ops",),
    "launch.failures": ("collective_log",),
    "launch.ranks": (
        "init_process_group",
        "manual_seed",
        "rank",
        "run_local",
        "world_size",
    ),
    "report": (
        "CommReport",
        "CommRow",
        "comm_report",
        "explain",
    ),
    "modules.sharding": (
        "ShardingPlan",
        "shard",
        "shard_module",
    ),
    "tensor.parallel": (
        "ColwiseParallel",
        "ParallelStyle",
        "PrepareModuleInput",
        "PrepareModuleInputOutput",
        "PrepareModuleOutput",
        "RowwiseParallel",
        "SequenceParallel",
        "distribute_module",
        "loss_parallel",
        "parallelize_module",
    ),
    "verifier.session": ("verify",),
}


def _load() -> None:
    import_module("torch")  # first: the libraries below link to it
    for module, names in _WITH_TORCH.items():
        found = import_module(f"{__name__}.{module}")
        globals().update({name: getattr(found, name) for name in names})
    import_module(f"{__name__}.own_ops.torch_ops")  # answers the dispatch
    import_module(f"{__name__}.own_ops.op_files").load_at_import()


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
    "ColwiseParallel",
    "CommError",
    "CommReport",
    "CommRow",
    "DFunction",
    "DTensor",
    "DeviceMesh",
    "DistributedOp",
    "InternalError",
    "Layout",
    "ParallelStyle",
    "Partial",
    "Placement",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "Replicate",
    "RowwiseParallel",
    "SequenceParallel",
    "Shard",
    "ShardingPlan",
    "SkipDTensorDispatch",
    "TensorSpec",
    "UnsupportedError",
    "UsageError",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_rank",
    "axis_size",
    "broadcast",
    "checking",
    "collective_log",
    "comm_report",
    "custom_shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "explain",
    "full",
    "get_distributed_op",
    "infer_backward",
    "infer_forward",
    "infer_grad",
    "init_device_mesh",
    "init_process_group",
    "layout_cache_clear",
    "layout_cache_info",
    "load_distributed_ops",
    "loss_parallel",
    "manual_seed",
    "no_grad_sync",
    "ones",
    "parallelize_module",
    "parallelize_value_and_grad",
    "permute",
    "plan",
    "policy",
    "rand",
    "randn",
    "random_mode",
    "rank",
    "reduce_scatter",
    "register_distributed_op",
    "register_rule",
    "run_local",
    "shard",
    "shard_module",
    "strategies",
    "unregister_distributed_op",
    "unregister_rule",
    "verify",
    "world_size",
    "zeros",
]
