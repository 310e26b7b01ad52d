"""Ranks: threads of this process (``run_local``), or the processes of torchrun."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.launch.failures import tell_of_the_end

__all__ = ["init_process_group", "manual_seed", "rank", "run_local", "world_size"]

_torch_manual_seed = torch.manual_seed
_torch_get_rng_state = torch.get_rng_state
_torch_set_rng_state = torch.set_rng_state


def manual_seed(seed: int) -> torch.Generator:
    """Seed the random numbers of the calling rank.

    Ranks that are threads share torch's default generator, so each draws from a stream of its own,
    which a seed set by another rank does not touch. ``torch.manual_seed``, ``torch.get_rng_state``
    and ``torch.set_rng_state`` mean this stream once this package is imported.
    """
    if _torch._inside_run_local():
        # Not the default generator: another rank may be drawing with its stream in there.
        _torch._seed_rank_stream(int(seed) & 0xFFFFFFFFFFFFFFFF)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(int(seed))
        return torch.default_generator
    return _torch_manual_seed(seed)


def _get_rng_state() -> torch.Tensor:
    """Give the state of the calling rank's stream; activation checkpoints keep it."""
    return _torch._rank_stream_state() if _torch._inside_run_local() else _torch_get_rng_state()


def _set_rng_state(new_state: torch.Tensor) -> None:
    if _torch._inside_run_local():
        _torch._set_rank_stream_state(new_state)
    else:
        _torch_set_rng_state(new_state)


torch.manual_seed = torch.random.manual_seed = manual_seed
torch.get_rng_state = torch.random.get_rng_state = _get_rng_state
torch.set_rng_state = torch.random.set_rng_state = _set_rng_state

# Measured on 2 cores: while one rank runs Python only, another does 3 times the ops that it does
# with the default 5 ms; below 0.1 ms both lose half to switching.
_SWITCH_SECONDS = 0.0002


def rank() -> int:
    """Tell the number of the calling rank, 0 where there is only one."""
    return _torch._rank()


def world_size() -> int:
    """Tell the number of ranks, 1 outside ``run_local`` and torchrun."""
    return _torch._world_size()


def init_process_group(backend: str | None = None, **options: Any) -> None:
    """Start torch.distributed from torchrun's environment; do nothing without it.

    A program may instead call ``torch.distributed.init_process_group`` itself: the first use of
    a mesh finds it.

    Args:
        backend: default: NCCL for CUDA tensors and Gloo for the rest, Gloo alone without CUDA.
        options: of ``torch.distributed.init_process_group``, such as ``timeout``.
    """
    import torch
    import torch.distributed as dist

    if dist.is_initialized() or "WORLD_SIZE" not in os.environ or _torch._inside_run_local():
        return
    cuda = torch.cuda.is_available()
    if cuda and backend != "gloo":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(backend or ("cpu:gloo,cuda:nccl" if cuda else "gloo"), **options)


def run_local(fn: Callable[..., Any], world: int, *args: Any, timeout: float = 60.0) -> list[Any]:
    """Run ``fn(*args)`` on ``world`` ranks, each a thread of this process.

        results = run_local(train, 4, config)      # results[i] is what rank i returned

    Grad mode, autocast, settings (see ``policy``) and context variables of the caller hold on the
    ranks. Collectives are
    copies in shared memory; a rank that waits holds no interpreter lock.

    Args:
        timeout: seconds that a rank waits for the others in one collective.

    Returns:
        What the ranks returned, by rank.

    Raises:
        The error that came first, with a note that names the rank. The other ranks then stop at
        their next collective with a CommError, which is not reported.
        CommError: ranks disagree on a collective, or one is late.
        UsageError: called on a rank, or ``world`` is below 1.
    """
    state = _torch._LocalWorld(world, timeout)
    results: list[Any] = [None] * world
    causes: list[BaseException] = []

    def run_rank(number: int) -> None:
        try:
            state.enter(number)
            try:
                results[number] = fn(*args)
                state.finish(number)
            finally:
                state.leave()
        except BaseException as error:
            if state.fail(number, f"{type(error).__name__}: {error}"):
                error.add_note(f"on rank {number} of {world}")
                causes.append(error)

    threads = [
        threading.Thread(
            target=contextvars.copy_context().run,
            args=(run_rank, number),
            name=f"rank {number} of {world}",
            daemon=True,
        )
        for number in range(world)
    ]
    with _short_switch_interval():
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:
            _stop(state, threads, error)
            raise
        finally:
            state.restore_threads()
    if causes:
        raise causes[0]
    return results


def _stop(state: _torch._LocalWorld, threads: list[threading.Thread], error: BaseException) -> None:
    """Stop ranks that wait for others, and those in Python code, then wait a little for them."""
    state.abort(f"{type(error).__name__} in the caller of run_local")
    for thread in threads:
        if thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
            )
    for thread in threads:
        if thread.ident is not None:
            thread.join(timeout=5.0)


@contextlib.contextmanager
def _short_switch_interval() -> Iterator[None]:
    """Let threads hand over the interpreter lock sooner than after the default 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _torch_distributed() -> tuple[int, int, Callable[[list[int]], str], str] | None:
    """Describe the process of an initialised torch.distributed for the C++ side."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    tell_of_the_end()
    size = dist.get_world_size()
    everyone = dist.group.WORLD.group_name

    def make_group(ranks: list[int]) -> str:
        if ranks == list(range(size)):
            return everyone
        # Only members call; the order of ranks is the order of the mesh axis.
        group = dist.new_group(ranks, use_local_synchronization=True, sort_ranks=False)
        return group.group_name

    return dist.get_rank(), size, make_group, everyone


_torch._set_context_provider(_torch_distributed)
