"""The names of ``torch.distributed.tensor.parallel``, so that porting is one changed import."""

from hyper_parallel.modules.parallelize import (
    distribute_module,
    loss_parallel,
    parallelize_module,
)
from hyper_parallel.modules.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)
from hyper_parallel.tensor.experimental import implicit_replication, local_map

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
