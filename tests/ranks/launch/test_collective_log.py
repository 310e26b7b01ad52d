"""The log of the last collectives, here of ranks that are threads."""

import pytest
import torch

import hyper_parallel as hp


def layout():
    return hp.Layout((2,), ("tp",))


def test_the_log_of_each_rank():
    def run():
        x = hp.distribute_tensor(torch.ones(4, 4), layout()("None", "tp"))
        before = hp.collective_log()
        x.full_tensor()
        return hp.collective_log()[len(before) :]

    logs = hp.run_local(run, 2)
    assert logs[0] == logs[1]
    assert logs[0].count("\n") == 1
    assert "all_gather f32[4, 2] on ranks [0, 1]" in logs[0]


def test_the_log_is_bounded_and_starts_anew():
    def run():
        x = hp.distribute_tensor(torch.ones(4, 4), layout()("None", "tp"))
        for _ in range(100):
            x.full_tensor()
        return hp.collective_log()

    first, second = hp.run_local(run, 2), hp.run_local(run, 2)
    assert first == second
    assert len(first[0].splitlines()) == 64


def test_the_log_of_a_failed_collective():
    logs = {}

    def run():
        x = hp.distribute_tensor(torch.ones(4, 4), layout()("None", "tp"))
        if hp.rank() == 1:
            return
        try:
            x.full_tensor()
        finally:
            logs[hp.rank()] = hp.collective_log()

    with pytest.raises(hp.CommError, match="HP-C004"):
        hp.run_local(run, 2)
    assert logs[0].endswith("failed\n")


def test_no_log_without_ranks():
    assert hp.collective_log() == ""
