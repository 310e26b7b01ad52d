"""The context of a process follows torch.distributed, here with the fake backend."""

import pytest
import torch
import torch.distributed as dist
from ranks_support import functional, wait
from torch.testing._internal.distributed.fake_pg import FakeStore

from hyper_parallel import UsageError, _torch, rank, run_local, world_size


@pytest.fixture
def fake():
    def start(me, size):
        dist.init_process_group("fake", store=FakeStore(), rank=me, world_size=size)

    yield start
    if dist.is_initialized():
        dist.destroy_process_group()


def test_alone_without_torch_distributed():
    assert (rank(), world_size()) == (0, 1)
    with pytest.raises(UsageError, match="HP-C010"):
        _torch._group_name([0, 1])


def test_context_comes_and_goes_with_the_default_group(fake):
    generations = {_torch._context_generation()}
    for me, size in ((3, 8), (1, 4)):
        fake(me, size)
        assert (rank(), world_size()) == (me, size)
        generations.add(_torch._context_generation())
        dist.destroy_process_group()
        assert (rank(), world_size()) == (0, 1)
        assert _torch._context_generation() in generations
    assert len(generations) == 3


def test_groups_of_torch_distributed(fake):
    fake(2, 8)
    assert _torch._group_name(list(range(8))) == dist.group.WORLD.group_name
    name = _torch._group_name([6, 2, 4])
    assert name != dist.group.WORLD.group_name
    assert _torch._group_name([6, 2, 4]) == name != _torch._group_name([2, 4, 6])
    group = dist.distributed_c10d._resolve_process_group(name)
    assert (group.rank(), group.size()) == (1, 3)
    gathered = wait(functional.all_gather_into_tensor(torch.ones(2), 3, name))
    assert gathered.shape == (6,)
    with pytest.raises(UsageError, match="HP-C010"):
        _torch._group_name([2, 8])


def test_run_local_stands_before_the_process(fake):
    fake(2, 8)
    assert run_local(lambda: (rank(), world_size()), 2) == [(0, 2), (1, 2)]
    assert (rank(), world_size()) == (2, 8)
