"""The names of ``torch.distributed.tensor``, so that porting a program is one changed import."""

from hyper_parallel.dtensors.dtensor import DTensor, distribute_tensor
from hyper_parallel.dtensors.factories import empty, full, ones, rand, randn, zeros
from hyper_parallel.layouts.mesh import DeviceMesh, init_device_mesh
from hyper_parallel.layouts.placement import Partial, Placement, Replicate, Shard
from hyper_parallel.modules.convert import from_torch, to_torch
from hyper_parallel.modules.parallelize import distribute_module

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "from_torch",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "to_torch",
    "zeros",
]
