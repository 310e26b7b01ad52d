"""The LibTorch layer as Python sees it. Users have these names by `hyper_parallel`."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hyper_parallel._core import CommRow, Layout_, Mesh
from hyper_parallel.dtensors.dtensor import DTensor

# DTensors
def set_dtensor_type(type: type) -> None:
    """Name the Python class that wrappers become."""

def is_dtensor(tensor: torch.Tensor) -> bool:
    """True for a distributed tensor."""

def describe(tensor: torch.Tensor) -> str:
    """``f32[8, 4] on dp=2 tp=4: S(0) R``."""

def layout(tensor: torch.Tensor) -> Layout_:
    """How the tensor lies. Raises UsageError for a plain tensor."""

def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part, without a graph."""

def local_for_use(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part as ops use it: with its autograd graph."""

def has_down_node(tensor: torch.Tensor) -> bool:
    """True if the graph of the tensor is that of its local tensor."""

def to_local(tensor: torch.Tensor, grad_layout: Layout_ | None = None) -> torch.Tensor:
    """This rank's part, as a plain tensor in the graph.

    Args:
        grad_layout: how the gradient of the result lies; by default as the tensor, P as R.
    """

def full_tensor(tensor: torch.Tensor, grad_layout: Layout_ | None = None) -> torch.Tensor:
    """The whole tensor on every rank. Cost: the gathers and reductions of its layout."""

def from_local(
    local: torch.Tensor,
    layout: Layout_,
    sizes: Sequence[int] | None = None,
    grad_layout: Layout_ | None = None,
) -> DTensor:
    """A distributed tensor made of one part a rank.

    Args:
        sizes: global; without them parts are taken to be equal.
        grad_layout: how the gradient of ``local`` must lie.

    Raises:
        UsageError: the part does not fit the layout and sizes.
    """

def distribute_tensor(
    tensor: torch.Tensor, layout: Layout_, source_rank: int | None = 0
) -> DTensor:
    """Lay a whole tensor out.

    Args:
        source_rank: whose values count, sent by a broadcast; None: each rank cuts its own copy.
    """

def redistribute(tensor: torch.Tensor, layout: Layout_, reason: str = ...) -> DTensor:
    """The same tensor in another layout, at the cheapest plan. ``reason`` stands in reports."""

def reduce_partial(tensor: torch.Tensor) -> DTensor:
    """The same tensor with every ``Partial`` axis reduced to R."""

def wrap(local: torch.Tensor, layout: Layout_, sizes: Sequence[int]) -> DTensor:
    """A wrapper around ``local``, with no graph and no check."""

def local_cotangent(gradient: torch.Tensor, layout: Layout_, sizes: Sequence[int]) -> torch.Tensor:
    """The local cotangent of a value in ``layout``; a plain gradient counts as whole."""

def gradient_factor(layout: Layout_) -> float:
    """By how much the gradient is larger than the local cotangent: n for a ``P(avg)`` axis."""

# Code on local tensors
def enter_region(locals: Sequence[torch.Tensor], mesh: Mesh | None) -> list[torch.Tensor]:
    """Parts for code on local tensors, behind one node of autograd."""

def region_anchor(entered: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """A tensor that hangs on all entered parts; None where no part needs a gradient.

    Collectives take it, so that all ranks run them in backward."""

def leave_region(
    results: Sequence[torch.Tensor],
    ties: Sequence[torch.Tensor],
    forced: bool,
    mesh: Mesh | None,
) -> list[torch.Tensor]:
    """Results of code on local tensors, behind one node that hangs on all ``ties``.

    Args:
        forced: the results need a gradient even if none of their inputs does on this rank.
    """

def graph_mark() -> int:
    """A number for the state of this thread's graph, for ``reaches_outside``."""

def reaches_outside(tensors: Sequence[torch.Tensor], since: int) -> bool:
    """True if a graph that was built after ``since`` meets a tensor from before."""

def backward_mesh() -> Mesh | None:
    """The mesh of the region whose backward runs now, or None."""

def note_collective(
    kind: str, mesh: Mesh, axes: Sequence[int], local: torch.Tensor, bytes: float
) -> None:
    """Put a collective into the record, if one is kept. ``bytes``: moved by this rank."""

def to_local_as(tensor: torch.Tensor, target: Layout_) -> torch.Tensor:
    """This rank's part after a redistribution to ``target``."""

# Settings of the calling thread; each gives the value before.
def set_grad_sync(enabled: bool) -> bool:
    """Finish the sums of parameters' gradients after each backward pass, or leave them pending."""

def set_check_mode(enabled: bool) -> bool:
    """Compare on all ranks what they are about to do, before each call."""

def set_policy(name: str) -> str:
    """``auto``: an unknown op runs on whole tensors and warns; ``strict``: it raises."""

def policy() -> str:
    """``auto`` or ``strict``."""

def set_skip(value: bool) -> bool:
    """Let ops see local tensors in the place of distributed ones."""

# Plans and reports
def cache_info() -> dict[str, int]:
    """Hits, misses and size of this rank's cache of call plans."""

def clear_cache() -> None:
    """Empty this rank's cache of call plans."""

class CommReport_:
    """The collectives of a rank between ``start`` and ``stop``."""

    def __init__(self) -> None: ...
    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """End the record. Without ``start`` it does nothing."""

    @property
    def rows(self) -> list[CommRow]:
        """One row a collective, in order."""

# Rules
def rule_rows() -> list[tuple[str, str]]:
    """The op and the text of each built-in row."""

def verify(
    cases: list[dict[str, Any]],
    sizes: Sequence[int],
    dispatch: bool = True,
    missing: bool = True,
    seed: int = 0,
    most_choices: int = ...,
    most_layouts: int = ...,
    most_trials: int = ...,
) -> dict[str, Any]:
    """Run the strategies of rules on ranks as threads, as ``hyper_parallel.verify`` asks for."""

def find_rule(op: str) -> str | None:
    """The text of the row that serves ``op``; None if there is none."""

def register_rule(op: str, rule: str) -> None:
    """Give an op of the program a rule.

    Raises:
        UsageError: torch has no such op, or the rule cannot be read.
    """

def unregister_rule(op: str) -> bool:
    """Take the rule away; False if there was none."""

def register_row(name: str, rule: str) -> None:
    """As ``register_rule``, for a name that is no op of torch."""

def unregister_row(name: str) -> bool:
    """Take the row away; False if there was none."""

def set_user_op(op: str, handled: bool) -> None:
    """Let Python run calls of ``op``, or no longer."""

def set_user_op_handler(
    handler: Callable[[str, str, tuple[Any, ...], dict[str, Any]], Any],
) -> None:
    """The function that runs them: it gets name, overload, arguments."""

# Ranks
class _LocalWorld:
    def __init__(self, size: int, timeout: float) -> None: ...
    def enter(self, rank: int) -> None: ...
    @staticmethod
    def leave() -> None: ...
    def fail(self, rank: int, text: str) -> bool: ...
    def finish(self, rank: int) -> None: ...
    def abort(self, reason: str) -> None: ...
    def restore_threads(self) -> None: ...

def _rank() -> int: ...
def _world_size() -> int: ...
def _context_generation() -> int: ...
def _inside_run_local() -> bool: ...
def _seed_rank_stream(seed: int) -> None: ...
def _rank_stream_state() -> torch.Tensor: ...
def _set_rank_stream_state(state: torch.Tensor) -> None: ...
def _group_name(ranks: Sequence[int]) -> str: ...
def _set_process_context(
    description: tuple[int, int, Callable[[list[int]], str], str] | None,
) -> None: ...
def _set_context_provider(
    provider: Callable[[], tuple[int, int, Callable[[list[int]], str], str] | None],
) -> None: ...
