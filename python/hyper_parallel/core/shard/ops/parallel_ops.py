"""``DistributedOp`` under the path that programs for HyperParallel import it from."""

from hyper_parallel.own_ops.distributed_op import DistributedOp

__all__ = ["DistributedOp"]
