"""Name the process that failed: a broken link alone does not tell whose error came first.

Threads of ``run_local`` learn of each other's errors by themselves. Processes leave a note in the
store of ``torch.distributed`` when code of the user raises. Over Gloo the watch of each process
(``torch/ranks/watch.h``) reads it; over other backends it is read here when a link breaks.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from hyper_parallel import _torch
from hyper_parallel.errors import CommError, make_error

__all__ = ["collective_log", "naming_failures", "tell_of_the_end"]

_KEY = "hyper_parallel/failed"
_BROKEN = ("closed by peer", "reset by peer", "timed out", "timeout", "broken pipe")
_noted = False
_telling = False


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
        note = f"failed in {what}: {_first_line(error)}"
        store.set(_KEY, f"rank {_torch._rank()} {note}")
        _torch._note_failure(note, final=False)
        _set_noted(True)
        raise
    else:
        if _noted:
            _forget()


def collective_log() -> str:
    """Give the last collectives of the calling rank as text, oldest first, one a line.

        #7 all_reduce(sum) f32[6, 6] on ranks [0, 1] for mm  waits since 3 s

    Numbers count the collectives of one group, so lines of several ranks can be compared. Kept are
    those of ``run_local`` and those that Gloo runs for processes, the last 64. A failure writes the
    log to ``collectives.rank<r>.txt`` in ``HYPER_PARALLEL_LOG_DIRECTORY`` if that is set.
    """
    return _torch._collective_log()


def tell_of_the_end() -> None:
    """Let the other processes know when this one returns, or ends by an error."""
    global _telling
    if _telling:
        return
    _telling = True
    before = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        before(kind, error, trace)
        _torch._note_failure(f"failed: {_first_line(error)}", final=True)

    sys.excepthook = hook
    atexit.register(_torch._finish_watch)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0]


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
    _torch._note_failure("", final=False)
    _set_noted(False)


def _set_noted(value: bool) -> None:
    global _noted
    _noted = value
