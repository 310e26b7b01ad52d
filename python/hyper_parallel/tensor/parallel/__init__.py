"""The names of ``torch.distributed.tensor.parallel``, so that porting is one changed import."""

from hyper_parallel.tensor.experimental import implicit_replication, local_map
from hyper_parallel.tensor.parallel.module import (
    distribute_module,
    loss_parallel,
    parallelize_module,
)
from hyper_parallel.tensor.parallel.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "distribute_module",
    "implicit_replication",
    "local_map",
    "loss_parallel",
    "parallelize_module",
]
