"""Run by test_lost_ranks.py on each process: one of them leaves the common order at one place."""

import os
import signal
import sys
import time

import torch

import hyper_parallel as hp
from hyper_parallel import _torch


class Leaves:
    """Counts the places of a step, and does `how` at place number `where` of rank `who`."""

    def __init__(self, how: str, where: int, who: int) -> None:
        self.how, self.where, self.who, self.count = how, where, who, 0

    def __call__(self, run):
        """Run one collective op, or what `how` says in its place."""
        self.count += 1
        if hp.rank() != self.who or self.count != self.where + 1:
            return run()
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.how == "raise":
            raise ValueError("one rank alone")
        if self.how == "return":
            raise SystemExit(0)
        if self.how == "swap":  # another collective
            group = _torch._group_name(list(range(hp.world_size())))
            functional = torch.ops._c10d_functional
            functional.wait_tensor(functional.all_reduce(torch.ones(6, 6), "sum", group))
        if self.how == "late":
            time.sleep(6)
            return run()
        return run() if self.how == "none" else None


def train(place: Leaves, steps: int) -> float:
    layout = hp.Layout((hp.world_size(),), ("tp",))
    torch.manual_seed(0)
    w = torch.randn(6, 6)
    dw = hp.distribute_tensor(w, layout("None", "tp"))
    x = hp.distribute_tensor(torch.randn(6, 6), layout("None", "None"))
    total = 0.0
    for _ in range(steps):
        y = x @ dw
        whole = place(lambda y=y: y.redistribute(layout("None", "None")))
        if whole is not None:
            total += float(whole.to_local().sum())
        full = place(lambda: (dw * 2).full_tensor())
        if full is not None:
            total += float(full.sum())
    return total


def main(how: str, where: int, who: int, steps: int, checked: bool) -> None:
    hp.init_process_group()
    start = time.monotonic()
    place = Leaves(how, where, who)
    try:
        with hp.checking(checked):
            result = train(place, steps)
    except hp.CommError as error:
        took = time.monotonic() - start
        sys.stdout.write(f"RESULT {(hp.rank(), 'CommError', str(error), took)!r}\n")
        sys.stdout.flush()
        os._exit(3)  # no longer than needed
    if how == "none":
        sys.stdout.write(f"RESULT {(hp.rank(), 'fine', result, hp.collective_log())!r}\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5] == "checked")
