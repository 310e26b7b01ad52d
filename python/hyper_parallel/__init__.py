"""Write a model for one device, state how tensors lie over a mesh, and run it on many."""

import torch as _load_torch_first  # noqa: F401  (the libraries below link to it)

from hyper_parallel._core import plan
from hyper_parallel.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    axis_rank,
    axis_size,
    broadcast,
    permute,
    reduce_scatter,
)
from hyper_parallel.dfunction import DFunction
from hyper_parallel.distributed_op import (
    DistributedOp,
    get_distributed_op,
    register_distributed_op,
    register_rule,
    unregister_distributed_op,
    unregister_rule,
)
from hyper_parallel.dtensor import DTensor, distribute_tensor
from hyper_parallel.errors import CommError, InternalError, UnsupportedError, UsageError
from hyper_parallel.factories import empty, full, ones, rand, randn, zeros
from hyper_parallel.grad import checking, no_grad_sync, parallelize_value_and_grad, policy
from hyper_parallel.layout import Layout
from hyper_parallel.local_code import custom_shard
from hyper_parallel.mesh import DeviceMesh, init_device_mesh
from hyper_parallel.op_calls import layout_cache_clear, layout_cache_info
from hyper_parallel.op_files import load_at_import as _load_op_files
from hyper_parallel.op_files import load_distributed_ops
from hyper_parallel.placement import Partial, Placement, Replicate, Shard
from hyper_parallel.ranks import init_process_group, manual_seed, rank, run_local, world_size
from hyper_parallel.report import CommReport, CommRow, comm_report, explain
from hyper_parallel.sharding import shard, shard_module
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
from hyper_parallel.verifier import verify

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
    "UnsupportedError",
    "UsageError",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_rank",
    "axis_size",
    "broadcast",
    "checking",
    "comm_report",
    "custom_shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "explain",
    "full",
    "get_distributed_op",
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
    "rank",
    "reduce_scatter",
    "register_distributed_op",
    "register_rule",
    "run_local",
    "shard",
    "shard_module",
    "unregister_distributed_op",
    "unregister_rule",
    "verify",
    "world_size",
    "zeros",
]

_load_op_files()
