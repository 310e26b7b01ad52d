"""The registry of distributed ops under the path that programs for HyperParallel import it from."""

from hyper_parallel.own_ops.distributed_op import (
    get_distributed_op,
    register_distributed_op,
    unregister_distributed_op,
)

unregister = unregister_distributed_op

__all__ = [
    "get_distributed_op",
    "register_distributed_op",
    "unregister",
    "unregister_distributed_op",
]
