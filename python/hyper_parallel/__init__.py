"""Write a model for one device, state how tensors lie over a mesh, and run it on many."""

import torch as _load_torch_first  # noqa: F401  (the libraries below link to it)

from hyper_parallel._core import plan
from hyper_parallel.dtensor import DTensor, distribute_tensor
from hyper_parallel.errors import CommError, InternalError, UnsupportedError, UsageError
from hyper_parallel.factories import empty, full, ones, rand, randn, zeros
from hyper_parallel.grad import checking, no_grad_sync, parallelize_value_and_grad, policy
from hyper_parallel.layout import Layout
from hyper_parallel.mesh import DeviceMesh, init_device_mesh
from hyper_parallel.placement import Partial, Placement, Replicate, Shard
from hyper_parallel.ranks import init_process_group, manual_seed, rank, run_local, world_size
from hyper_parallel.report import CommReport, CommRow, comm_report, explain
from hyper_parallel.sharding import shard, shard_module
from hyper_parallel.verifier import verify

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
    "UnsupportedError",
    "UsageError",
    "checking",
    "comm_report",
    "distribute_tensor",
    "empty",
    "explain",
    "full",
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
    "verify",
    "world_size",
    "zeros",
]
