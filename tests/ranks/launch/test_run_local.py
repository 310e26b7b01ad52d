"""run_local: results, errors, and what happens when ranks do not do the same."""

import contextvars
import os
import signal
import sys
import threading
import time

import pytest
import torch
from ranks_support import functional, group, group_name, wait

from hyper_parallel import CommError, UnsupportedError, UsageError, _torch, rank, run_local
from hyper_parallel import world_size as size_of_world


def all_reduce(x=None):
    x = torch.ones(2, 2) if x is None else x
    return wait(functional.all_reduce(x, "sum", group_name()))


def test_results_by_rank_and_arguments():
    assert run_local(lambda a, b: (rank(), size_of_world(), a + b), 3, 1, 2) == [
        (0, 3, 3),
        (1, 3, 3),
        (2, 3, 3),
    ]
    assert (rank(), size_of_world()) == (0, 1)


def test_the_first_error_is_raised_as_itself_and_names_the_rank():
    seen = {}

    def body():
        all_reduce()
        if rank() == 2:
            raise KeyError("boom")
        start = time.monotonic()
        try:
            all_reduce()
        except RuntimeError as error:
            seen[rank()] = (time.monotonic() - start, error)
            raise

    with pytest.raises(KeyError, match="boom") as caught:
        run_local(body, 4, timeout=30)
    assert caught.value.__notes__ == ["on rank 2 of 4"]
    assert sorted(seen) == [0, 1, 3]
    for seconds, error in seen.values():
        assert seconds < 5
        assert isinstance(error, CommError)
        assert "[HP-C003] rank 2 failed: KeyError: 'boom'" in str(error)


def test_a_rank_that_comes_later_learns_of_the_failure_at_once():
    def body():
        if rank() == 0:
            raise ValueError("early")
        time.sleep(0.2)
        start = time.monotonic()
        with pytest.raises(CommError, match="rank 0 failed: ValueError: early"):
            all_reduce()
        assert time.monotonic() - start < 5

    with pytest.raises(ValueError, match="early"):
        run_local(body, 2, timeout=30)


def test_time_out_says_where_every_rank_is():
    late = threading.Event()

    def body():
        all_reduce()
        if rank() == 1:
            late.wait(10)
            return
        try:
            all_reduce(torch.ones(3))
        finally:
            late.set()

    with pytest.raises(CommError) as caught:
        run_local(body, 3, timeout=0.5)
    text = str(caught.value)
    assert text.startswith("[HP-C002] all_reduce: rank ")
    assert "waited 500 ms for ranks [1] of [0, 1, 2]" in text
    assert "rank 0   waits in all_reduce(sum) f32[3] #2 on ranks [0, 1, 2]" in text
    assert "rank 1   is elsewhere, last all_reduce #1 on ranks [0, 1, 2]" in text
    assert "rank 2   waits in all_reduce(sum) f32[3] #2 on ranks [0, 1, 2]" in text


def test_a_rank_that_returned_is_not_waited_for():
    def body():
        all_reduce()
        if rank() != 1:
            all_reduce()

    start = time.monotonic()
    with pytest.raises(CommError, match="waits for rank 1, which has returned") as caught:
        run_local(body, 3, timeout=30)
    assert time.monotonic() - start < 10
    assert "[HP-C004]" in str(caught.value)


def test_ranks_that_wait_for_each_other_are_told():
    def body():
        x = torch.ones(1)
        pair = group_name([0, 1]) if rank() < 2 else None
        whole = group_name()
        if rank() == 0:
            functional.all_reduce(x, "sum", pair)
        functional.all_reduce(x, "sum", whole)

    start = time.monotonic()
    with pytest.raises(CommError, match="every rank waits for another one") as caught:
        run_local(body, 3, timeout=30)
    assert time.monotonic() - start < 10 and caught.value.code == "HP-C005"
    assert "waits in all_reduce(sum) f32[1] #1 on ranks [0, 1]\n" in str(caught.value)


def _mismatches():
    yield "sizes", lambda: all_reduce(torch.ones(2, 1 + rank())), ["f32[2, 1]", "f32[2, 2]"]
    yield (
        "types",
        lambda: all_reduce(torch.ones(2, dtype=[torch.float32, torch.int64][rank()])),
        [
            "f32[2]",
            "i64[2]",
        ],
    )
    yield (
        "reductions",
        lambda: functional.all_reduce(torch.ones(2), ["sum", "max"][rank()], group_name()),
        ["all_reduce(sum) f32[2]", "all_reduce(max) f32[2]"],
    )
    yield (
        "operations",
        lambda: all_reduce() if rank() == 0 else group().barrier().wait(),
        ["all_reduce(sum) f32[2, 2]", "barrier #1"],
    )
    yield (
        "roots",
        lambda: functional.broadcast(torch.ones(2), rank(), group_name()),
        ["broadcast(root 0) f32[2]", "broadcast(root 1) f32[2]"],
    )
    yield (
        "elements",
        lambda: functional.all_to_all_single(torch.ones(3), [1, 2], [2, 1], group_name()),
        ["member 0 sends 2 elements, member 0 expects 1"],
    )


@pytest.mark.parametrize(("what", "call", "texts"), list(_mismatches()))
def test_ranks_that_disagree_all_get_both_sides(what, call, texts):
    def body():
        with pytest.raises(CommError) as caught:
            call()
        # The meeting is over on both ranks, so they may go on.
        assert all_reduce().sum() == 8
        return str(caught.value)

    for text in run_local(body, 2, timeout=30):
        assert text.startswith("[HP-C001]")
        assert what in text
        for part in texts:
            assert part in text


def test_arguments_that_cannot_be_right_are_refused_before_meeting():
    def body():
        with pytest.raises(UsageError, match="HP-C008"):
            group()._allgather_base(torch.empty(3), torch.ones(2))
        with pytest.raises(UsageError, match="HP-C008"):
            functional.all_to_all_single(torch.ones(3), [1, 1], [1, 1], group_name())
        with pytest.raises(UnsupportedError, match="HP-C009"):
            functional.all_reduce(torch.ones(2), "band", group_name())
        with pytest.raises(UsageError, match="HP-C010"):
            group_name([0, 1, 2])
        with pytest.raises(RuntimeError, match="needs no communication"):
            group_name([rank()])

    run_local(body, 2)


def test_a_message_that_nobody_sent():
    def body():
        if rank() == 0:
            group().recv([torch.zeros(1)], 1, 0).wait()
        else:
            group()

    with pytest.raises(CommError, match="recv: rank 0 waits for rank 1, which has returned"):
        run_local(body, 2, timeout=30)


def test_run_local_does_not_nest():
    def body():
        run_local(lambda: None, 2)

    with pytest.raises(UsageError, match="HP-C013"):
        run_local(body, 2)
    with pytest.raises(UsageError, match="HP-C007"):
        run_local(lambda: None, 0)


def test_settings_of_the_caller_hold_on_the_ranks():
    variable = contextvars.ContextVar("variable", default=0)

    def body():
        return (
            torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            variable.get(),
        )

    variable.set(5)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        assert run_local(body, 2) == [(False, True, torch.float16, 5)] * 2
    assert run_local(body, 2)[0][:2] == (True, False)


def test_a_setting_of_a_rank_stays_on_it():
    def body():
        if rank() == 0:
            torch.set_grad_enabled(False)
        all_reduce()
        return torch.is_grad_enabled()

    assert run_local(body, 2) == [False, True]
    assert torch.is_grad_enabled()


def test_threads_and_switch_interval_are_put_back():
    before = torch.get_num_threads(), sys.getswitchinterval()
    threads = run_local(torch.get_num_threads, 4)
    assert threads == [max(1, before[0] // 4)] * 4
    assert (torch.get_num_threads(), sys.getswitchinterval()) == before


def test_contexts_have_their_own_generation():
    def body():
        return _torch._context_generation()

    outside = _torch._context_generation()
    seen = {outside, *run_local(body, 3), *run_local(body, 3)}
    assert len(seen) == 7
    assert _torch._context_generation() == outside


def test_an_interrupt_stops_all_ranks():
    def body():
        if rank() == 0:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                time.sleep(0.01)
        all_reduce()

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_local(body, 3, timeout=60)
    assert time.monotonic() - start < 10
    assert not [t for t in threading.enumerate() if t.name.startswith("rank ")]
    assert run_local(rank, 2) == [0, 1]


def test_ranks_that_wait_are_stopped_from_outside():
    state, errors = _torch._LocalWorld(2, 60.0), []

    def waits():
        state.enter(0)
        try:
            all_reduce()
        except CommError as error:
            errors.append(error)
        finally:
            state.leave()

    thread = threading.Thread(target=waits)
    thread.start()
    time.sleep(0.2)
    state.abort("a test")
    thread.join(timeout=10)
    assert errors[0].code == "HP-C006" and "a test" in str(errors[0])


def test_waiting_holds_no_interpreter_lock():
    # Rank 1 can only come if rank 0 waits without the lock, also when called back from C++.
    def body():
        if rank() == 1:
            time.sleep(0.05)
        x = torch.ones(1, requires_grad=True)
        y = x * 2
        y.register_hook(lambda grad: all_reduce(grad))
        y.backward()
        return x.grad.item()

    assert run_local(body, 2, timeout=10) == [4.0, 4.0]
