"""What tests of ranks share: values that each rank can make for every other, and groups."""

import pytest
import torch
import torch.distributed as dist

from hyper_parallel import _torch, run_local, world_size

functional = torch.ops._c10d_functional


def group_name(ranks=None):
    return _torch._group_name(list(ranks) if ranks is not None else list(range(world_size())))


def group(ranks=None):
    return dist.distributed_c10d._resolve_process_group(group_name(ranks))


def wait(result):
    if isinstance(result, torch.Tensor):
        return functional.wait_tensor(result)
    return [functional.wait_tensor(each) for each in result]


def value(of_rank, shape, dtype=torch.float32):
    """Make the tensor of one rank, the same wherever it is made."""
    generator = torch.Generator().manual_seed(1000 + of_rank)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(1, 4, shape, generator=generator).to(dtype)


def values(shape, dtype=torch.float32):
    """Make the tensors of all ranks."""
    return [value(r, shape, dtype) for r in range(world_size())]


def same_bits(tensors):
    first = tensors[0].contiguous().view(torch.uint8)
    return all(torch.equal(first, t.contiguous().view(torch.uint8)) for t in tensors)


def on_ranks(world):
    """Make a test of a function that runs on ``world`` ranks."""

    def decorate(function):
        def test():
            run_local(function, world)

        test.__name__ = function.__name__
        test.__doc__ = function.__doc__
        return test

    return decorate


def refused(kind, code, call, *args, **kwargs):
    """Check that a call raises an error of the library, of this class and code; give its text."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert type(caught.value) is kind, f"{type(caught.value)} in place of {kind}"
    assert caught.value.code == code, str(caught.value)
    assert str(caught.value).startswith(f"[{code}] ")
    return str(caught.value)
