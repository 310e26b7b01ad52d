"""Name the process that failed: a broken link alone does not tell whose error came first.

Threads of ``run_local`` learn of each other's errors by themselves. Processes leave a note in the
store of ``torch.distributed`` when code of the user raises, and read it when a link breaks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from hyper_parallel import _torch
from hyper_parallel.errors import CommError, make_error
from hyper_parallel.launch.ranks import rank

__all__ = ["naming_failures"]

_KEY = "hyper_parallel/failed"
_BROKEN = ("closed by peer", "reset by peer", "timed out", "timeout", "broken pipe")
_noted = False


@contextlib.contextmanager
def naming_failures(what: str) -> Iterator[None]:
    """Run code of the user; an error of it is told to the other processes of the launch.

    Args:
        what: the code, for the note: ``custom_shard: matmul``.

    Raises:
        CommError: a link broke because another process failed here; the text names it.

    Cost:
        None while nothing is raised.
    """
    try:
        yield
    except CommError:
        raise
    except Exception as error:
        store = _store()
        if store is None:
            raise
        if _is_broken_link(error):
            if store.check([_KEY]):
                raise make_error(
                    CommError, "HP-C003", store.get(_KEY).decode(), seen=f"{error}".split("\n")[0]
                ) from error
            raise
        first_line = f"{error}".split("\n")[0]
        store.set(_KEY, f"rank {rank()} failed in {what}: {type(error).__name__}: {first_line}")
        _set_noted(True)
        raise
    else:
        if _noted:
            _forget()


def _store() -> Any:
    if _torch._inside_run_local() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    return dist.distributed_c10d._get_default_store()


def _is_broken_link(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(each in text for each in _BROKEN)


def _forget() -> None:
    """Take this process's note away: its program caught the error and goes on."""
    store = _store()
    if store is not None:
        store.delete_key(_KEY)
    _set_noted(False)


def _set_noted(value: bool) -> None:
    global _noted
    _noted = value
