"""Settings hold where the work of a thread goes: hooks, checkpoints, ranks; not elsewhere."""

import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import hyper_parallel as hp
from hyper_parallel import _torch

BLOCKS = {
    "policy": lambda: hp.policy("strict"),
    "checking": lambda: hp.checking(),
    "no_grad_sync": lambda: hp.no_grad_sync(),
    "skip": lambda: hp.SkipDTensorDispatch(),
}
DEFAULT = {"policy": "auto", "checking": False, "no_grad_sync": True, "skip": False}
INSIDE = {"policy": "strict", "checking": True, "no_grad_sync": False, "skip": True}


def read(name):
    if name == "policy":
        return _torch.policy()
    change = {
        "checking": _torch.set_check_mode,
        "no_grad_sync": _torch.set_grad_sync,
        "skip": _torch.set_skip,
    }[name]
    value = change(DEFAULT[name])
    change(value)
    return value


pytestmark = pytest.mark.parametrize("name", BLOCKS)


def test_a_block_on_its_thread_only(name):
    seen = []
    with BLOCKS[name]():
        assert read(name) == INSIDE[name]
        thread = threading.Thread(target=lambda: seen.append(read(name)))
        thread.start()
        thread.join()
    assert seen == [DEFAULT[name]]
    assert read(name) == DEFAULT[name]


def test_blocks_on_two_threads_end_in_any_order(name):
    entered, left = threading.Event(), threading.Event()
    seen = []

    def other():
        with BLOCKS[name]():
            entered.set()
            left.wait()
            seen.append(read(name))
        seen.append(read(name))

    thread = threading.Thread(target=other)
    with BLOCKS[name]():
        thread.start()
        entered.wait()
    assert read(name) == DEFAULT[name]
    left.set()
    thread.join()
    assert seen == [INSIDE[name], DEFAULT[name]]
    assert read(name) == DEFAULT[name]


def test_ranks_have_copies_of_the_settings_of_their_caller(name):
    def program():
        first = read(name)
        if hp.rank() == 0:
            hp.policy("auto"), hp.checking(False)
            _torch.set_grad_sync(True)
            _torch.set_skip(False)
        return first, read(name)

    with BLOCKS[name]():
        (first0, after0), (first1, after1) = hp.run_local(program, 2)
        assert read(name) == INSIDE[name]
    assert first0 == first1 == after1 == INSIDE[name]
    assert after0 == DEFAULT[name]


def test_hooks_see_what_the_caller_of_backward_has(name):
    def program():
        seen = []
        y = torch.ones(4, requires_grad=True) * 2
        y.register_hook(lambda g: seen.append(read(name)))
        loss = y.sum()
        with BLOCKS[name]():
            loss.backward(retain_graph=True)
        loss.backward()
        return seen

    assert hp.run_local(program, 2) == [[INSIDE[name], DEFAULT[name]]] * 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_computes_again_under_the_settings_of_backward(name, reentrant):
    def program():
        seen = []
        x = torch.ones(4, requires_grad=True)

        def part(x):
            seen.append(read(name))
            return (x * 2).sin()

        with BLOCKS[name]():
            checkpoint(part, x, use_reentrant=reentrant).sum().backward()
            y = checkpoint(part, x, use_reentrant=reentrant)
        y.sum().backward()
        return seen

    inside, outside = INSIDE[name], DEFAULT[name]
    assert hp.run_local(program, 2) == [[inside, inside, inside, outside]] * 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_values_of_a_checkpoint_inside_a_block(name, reentrant):
    if name == "skip":
        pytest.skip("inside, ops give this rank's parts as plain tensors")

    def program():
        w = hp.distribute_tensor(torch.ones(4), hp.Layout.parse("a=2: R")).requires_grad_()
        with BLOCKS[name]():
            y = checkpoint(lambda x: (x * 2).sin(), w, use_reentrant=reentrant).sum()
        y.backward()
        assert w.grad.layout == w.layout
        return w.grad.full_tensor()

    want = 2 * torch.cos(torch.tensor(2.0)).expand(4)
    for got in hp.run_local(program, 2):
        assert torch.allclose(got, want)
