"""Run by test_torchrun.py on each process; prints one line that the test reads."""

import sys

import torch
import torch.distributed as dist

from hyper_parallel import _torch, init_process_group, rank, run_local, world_size

functional = torch.ops._c10d_functional


def total(x, ranks):
    name = _torch._group_name(ranks)
    return functional.wait_tensor(functional.all_reduce(x, "sum", name)).tolist()


def main(own_call: bool) -> None:
    alone = (rank(), world_size())  # used before the processes meet: must not stick
    if own_call:
        dist.init_process_group("gloo")
    else:
        init_process_group("gloo")
    me, size = rank(), world_size()
    everyone = list(range(size))
    whole = total(torch.tensor([me + 1.0]), everyone)
    parts = []
    if size > 2:
        # Made by members only, in the order given.
        mine = [r for r in reversed(everyone) if r % 2 == me % 2]
        name = _torch._group_name(mine)
        x = torch.tensor([float(me)])
        gathered = functional.all_gather_into_tensor(x, len(mine), name)
        parts = functional.wait_tensor(gathered).tolist()
    # Threads as ranks still work inside a process of many.
    local = run_local(lambda: (rank(), total(torch.ones(1), [0, 1])), 2)
    same_group = _torch._group_name(everyone) == dist.group.WORLD.group_name
    dist.destroy_process_group()
    # One write: processes share the pipe, and print writes piece by piece where it is unbuffered.
    found = (me, alone, size, whole, parts, local, same_group, world_size())
    sys.stdout.write(f"RESULT {found}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(own_call="own" in sys.argv)
