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

def layout_of_node(node: Any) -> Layout_ | None:
    """The layout of the DTensor whose ``grad_fn`` this is; None for another node."""

def sizes_of_node(node: Any) -> list[int]:
    """The sizes of the DTensor whose ``grad_fn`` this is."""

def gradient_node(tensor: torch.Tensor) -> Any:
    """The node that gets the gradient: ``grad_fn``, or what adds to ``grad`` of a leaf."""

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

def make_filled(
    name: str,
    sizes: Sequence[int],
    layout: Layout_,
    like: torch.Tensor,
    value: torch.Tensor,
    requires_grad: bool,
) -> DTensor:
    """The factory of this name; ``like`` has the element type and the device, ``value`` one
    number."""

def needs_coordinates(tensor: torch.Tensor, index: list[Any], value_ndim: int) -> bool:
    """Whether ``tensor[index] = value`` cannot be written through a view."""

def assign_by_coordinates(tensor: torch.Tensor, index: list[Any], value: torch.Tensor) -> None:
    """Write ``value`` where ``index`` points: each rank the elements that it holds."""

# Code on local tensors
class Region:
    """One run of code on local tensors: its mesh, and the borders of its graph.

    Args:
        mesh: over which its collectives run.
        joined: make all results depend on all collectives, as data may decide what a rank uses.
    """

    def __init__(self, mesh: Mesh | None, joined: bool = True) -> None: ...
    @property
    def mesh(self) -> Mesh | None:
        """The mesh of collectives that name none."""

    def enter(self, locals: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The parts as the code uses them, behind one node of autograd."""

    def reaches_outside(self, results: Sequence[torch.Tensor]) -> bool:
        """True if the code used tensors that require grad and are no inputs."""

    def leave(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results as the outside uses them, behind one node that hangs on all collectives."""

def set_current_region(region: Region | None) -> Region | None:
    """Make a region the one whose code runs on this thread; gives the one before."""

def part_for(value: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """The part that local code uses; a plain tensor is the same value on every rank."""

def wrap_parts(
    parts: Sequence[torch.Tensor], layouts: Sequence[Layout_], what: str, names: Sequence[str]
) -> list[DTensor]:
    """DTensors of the parts that local code gave, checked to fit together on all ranks."""

def check_gradient_passes(part: torch.Tensor, layout: Layout_, what: str) -> None:
    """Refuse a part that requires grad in ``P(max)``, ``P(min)`` or ``P(prod)``."""

class Pending:
    """A collective under way: ``wait`` gives its result."""

    def wait(self) -> torch.Tensor:
        """The result, the same at each call. All ranks must wait in the same order."""

def all_reduce(
    x: torch.Tensor, axes: Sequence[str], op: str, mesh: Mesh | None, async_op: bool
) -> Any:
    """Combine the tensors of all ranks along ``axes``."""

def all_gather(
    x: torch.Tensor,
    axes: Sequence[str],
    dim: int,
    sizes: Sequence[int] | None,
    mesh: Mesh | None,
    async_op: bool,
) -> Any:
    """Join the parts of all ranks along ``dim``."""

def reduce_scatter(
    x: torch.Tensor,
    axes: Sequence[str],
    dim: int,
    op: str,
    sizes: Sequence[int] | None,
    mesh: Mesh | None,
    async_op: bool,
) -> Any:
    """Combine the tensors of all ranks; each gets its part along ``dim``."""

def all_to_all(
    x: torch.Tensor,
    axes: Sequence[str],
    send: Sequence[int] | None,
    receive: Sequence[int] | None,
    mesh: Mesh | None,
    async_op: bool,
) -> Any:
    """Send rows to the ranks, and join what they send."""

def broadcast(
    x: torch.Tensor, axes: Sequence[str], source: int, mesh: Mesh | None, async_op: bool
) -> Any:
    """The tensor of the rank at place ``source``."""

def permute(
    x: torch.Tensor,
    axes: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    mesh: Mesh | None,
    async_op: bool,
) -> Any:
    """Send ``x`` from place to place."""

def axis_rank(axes: Sequence[str], mesh: Mesh | None) -> int:
    """The calling rank's place along ``axes``."""

def axis_size(axes: Sequence[str], mesh: Mesh | None) -> int:
    """The number of ranks along ``axes``."""

def to_local_as(tensor: torch.Tensor, target: Layout_) -> torch.Tensor:
    """This rank's part after a redistribution to ``target``."""

# Settings of the calling thread; each gives the value before.
def set_grad_sync(enabled: bool) -> bool:
    """Finish the sums of parameters' gradients after each backward pass, or leave them pending."""

def set_check_mode(enabled: bool) -> bool:
    """Compare on all ranks what they are about to do, before each call."""

def set_policy(name: str) -> str:
    """``auto``: an unknown op runs on whole tensors and warns; ``strict``: it raises."""

def set_random_mode(name: str) -> str:
    """``auto``, ``exact`` or ``by_index``: which numbers random ops draw; gives the one before."""

def policy() -> str:
    """``auto`` or ``strict``."""

def set_skip(value: bool) -> bool:
    """Let ops see local tensors in the place of distributed ones."""

# Values and gradients
def check_weights(weights: list[torch.Tensor]) -> None:
    """Raise UsageError unless all are leaves that require grad."""

def gradients(
    outputs: list[torch.Tensor | None],
    weights: list[torch.Tensor],
    sens: Sequence[float] | None,
    single: bool,
) -> list[torch.Tensor]:
    """The gradients of ``weights``; ``.grad`` stays as it was."""

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
class ParameterMoves:
    """New layouts for the tensors of a model, worked out before anything changes."""

    def __init__(
        self,
        view: Any,
        mesh: Mesh,
        keys: Sequence[str],
        layout_of_key: Callable[[int, torch.Tensor, str], Layout_],
    ) -> None: ...
    def run(self, source_rank: int | None) -> None:
        """Make them all; with a source rank its values count."""

class _LocalWorld:
    def __init__(self, size: int, timeout: float) -> None: ...
    def enter(self, rank: int) -> None: ...
    @staticmethod
    def leave() -> None: ...
    def fail(self, rank: int, text: str) -> bool: ...
    def finish(self, rank: int) -> None: ...
    def abort(self, reason: str) -> None: ...
    def restore_threads(self) -> None: ...

def _collective_log() -> str: ...
def _note_failure(error: str, final: bool) -> None: ...
def _finish_watch() -> None: ...
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
