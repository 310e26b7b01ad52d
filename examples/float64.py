"""Run a model wholly in float64, though its code casts parts to float32 (norms, loss)."""

import torch
from torch.overrides import TorchFunctionMode


class KeepFloat64(TorchFunctionMode):
    """Inside, what the code asks for in float32 is float64: casts, but of tensors that are in
    another floating type already, and new tensors.

    The model's code is not touched. It is for comparing runs: in float32 two orders of the same
    sum differ by 1e-7, and a fault of that size would not be seen.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        first = args[0] if args else None
        if isinstance(first, torch.Tensor):
            if first.is_floating_point() and first.dtype != torch.float64:
                return func(*args, **kwargs)
            if func is torch.Tensor.float:
                return first.double()
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        return func(*args, **kwargs)
