"""The names of ``torch.distributed.tensor.experimental``."""

from hyper_parallel.tensor.experimental.local_map import implicit_replication, local_map

__all__ = ["implicit_replication", "local_map"]
