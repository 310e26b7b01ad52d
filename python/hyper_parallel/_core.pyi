from collections.abc import Iterable, Sequence
from typing import Any

class UsageError(ValueError):
    code: str

class UnsupportedError(NotImplementedError):
    code: str

class CommError(RuntimeError):
    code: str

class InternalError(RuntimeError):
    code: str

def near_names(name: str, known: Sequence[str]) -> list[str]:
    """The names among ``known`` closest to ``name``, best first, at most three."""

def path_matches(pattern: str, name: str) -> bool: ...
def closest_patterns(patterns: Sequence[str], names: Sequence[str], what: str) -> list[int]:
    """For each name the index of the pattern that names it most closely, -1 for none."""

class Placement:
    """How one tensor lies along one mesh axis."""

    @property
    def dim(self) -> int: ...
    @property
    def reduce_op(self) -> str: ...
    def is_replicate(self) -> bool: ...
    def is_shard(self, dim: int | None = None) -> bool: ...
    def is_partial(self, reduce_op: str | None = None) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

def Replicate() -> Placement: ...
def Shard(dim: int) -> Placement: ...
def Partial(reduce_op: str = "sum") -> Placement: ...

class Mesh:
    """Ranks in a grid with named axes; interned."""

    @staticmethod
    def get(sizes: Sequence[int], names: Sequence[str], ranks: Sequence[int] = ...) -> Mesh: ...
    @staticmethod
    def parse(text: str) -> Mesh: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def ranks(self) -> list[int]: ...
    @property
    def ndim(self) -> int: ...
    def size(self, axis: int | None = None) -> int: ...
    def axis(self, name: str) -> int: ...
    def coordinate(self, rank: int) -> list[int] | None: ...
    def group(self, axes: Sequence[int], rank: int) -> list[int]: ...
    def sub_mesh(self, names: Sequence[str], rank: int) -> Mesh: ...
    def flatten(self, names: Sequence[str], name: str = "") -> Mesh: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Split:
    """How one tensor dim is cut."""

    @property
    def dim(self) -> int: ...
    @property
    def axes(self) -> list[int]: ...
    @property
    def block(self) -> int: ...
    @property
    def segments(self) -> list[int]: ...

class Layout_:
    """How one tensor lies over a mesh; immutable and interned."""

    @staticmethod
    def get(mesh: Mesh, placements: Iterable[Placement], ndim: int | None = None) -> Layout_: ...
    @staticmethod
    def of_splits(
        mesh: Mesh,
        splits: Sequence[tuple[int, Sequence[int], int, Sequence[int]]],
        partials: Sequence[str | None] = ...,
    ) -> Layout_: ...
    @staticmethod
    def from_names(mesh: Mesh, dims: Sequence[Sequence[str]]) -> Layout_: ...
    @staticmethod
    def replicated(mesh: Mesh) -> Layout_: ...
    @staticmethod
    def parse(text: str) -> Layout_: ...
    @property
    def mesh(self) -> Mesh: ...
    @property
    def placements(self) -> list[Placement]: ...
    @property
    def splits(self) -> list[Split]: ...
    @property
    def is_replicated(self) -> bool: ...
    @property
    def has_partial(self) -> bool: ...
    @property
    def max_dim(self) -> int: ...
    @property
    def replicas(self) -> int: ...
    def dual(self) -> Layout_: ...
    def reduced(self) -> Layout_: ...
    def with_axis(self, axis: int, placement: Placement) -> Layout_: ...
    def local_shape(self, sizes: Sequence[int], coordinate: Sequence[int]) -> list[int]: ...
    def to_string(self) -> str: ...
    def to_string_with_mesh(self) -> str: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

def plan(source: Layout_, target: Layout_, meta: str) -> str:
    """The steps, bytes and lower bound of a redistribution of a tensor such as "f32[8, 4]"."""

class Query_:
    """A call of an op that has met its rule."""

    def __init__(
        self,
        op: str,
        operands: list[tuple[str, Sequence[int], str, Layout_ | None] | None],
        list_lengths: list[int],
        attrs: dict[str, Any],
        mesh: Mesh | None = None,
    ) -> None: ...
    @property
    def row(self) -> str: ...
    @property
    def spec(self) -> str: ...
    @property
    def mesh(self) -> Mesh: ...
    @property
    def results(self) -> list[tuple[list[int], bool]]: ...
    def forward(self) -> dict[str, Any]: ...
    def forward_towards(self, outputs: Sequence[Layout_ | None]) -> dict[str, Any]: ...
    def backward(self, outputs: Sequence[Layout_ | None]) -> dict[str, Any]: ...
    def grad(
        self,
        inputs: Sequence[Layout_ | None],
        outputs: Sequence[Layout_ | None],
        out_grads: Sequence[Layout_ | None],
        grads: Sequence[Layout_ | None] = ...,
    ) -> dict[str, Any]: ...
    def table(self) -> list[tuple[str, str, str]]: ...

def rule_names() -> list[str]:
    """Every name that inference knows, sorted."""

def rule_rows() -> list[tuple[str, str, str, list[str]]]: ...
def rule_handlers() -> list[tuple[str, str]]: ...
def redistribution_bytes(source: Layout_, target: Layout_, meta: str) -> float:
    """Bytes that a rank moves from one layout to another."""

class CommRow:
    """One collective that a rank took part in: a line of a report; a value."""

    def __init__(
        self,
        kind: str,
        axes: tuple[str, ...],
        bytes: int,
        phase: str,
        op: str = "",
        reason: str = "",
        tensor: str = "",
        source: str = "",
        target: str = "",
        ranks: int = 1,
        joined: int = 0,
    ) -> None: ...
    @property
    def kind(self) -> str:
        """all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast"""
    @property
    def axes(self) -> tuple[str, ...]:
        """Of the mesh, major to minor."""
    @property
    def bytes(self) -> int:
        """That one rank sends, the largest over ranks."""
    @property
    def phase(self) -> str:
        """forward or backward"""
    @property
    def op(self) -> str:
        """For which it was issued, such as aten::linear; empty if the program asked."""
    @property
    def reason(self) -> str:
        """The argument, and what the op needs."""
    @property
    def tensor(self) -> str:
        """The whole tensor, such as f32[4, 8]."""
    @property
    def source(self) -> str:
        """Its placements before; empty for collectives of local code."""
    @property
    def target(self) -> str:
        """Its placements after."""
    @property
    def ranks(self) -> int:
        """Of the group."""
    @property
    def joined(self) -> int:
        """Rows of one number, if not 0, went out as one collective."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

def select_rows(
    rows: Sequence[CommRow],
    kind: str | None = None,
    phase: str | None = None,
    axes: Sequence[str] | None = None,
    op: str | None = None,
) -> list[CommRow]:
    """The rows that fit all that is given."""

def count_rows(rows: Sequence[CommRow]) -> int:
    """The number of collectives; those that went out as one count once."""

def rows_table(rows: Sequence[CommRow]) -> str:
    """Counts and bytes by phase, kind and axes."""

def rows_why(rows: Sequence[CommRow]) -> str:
    """One line a collective: what it moves, and what asked for it."""

def rows_html(rows: Sequence[CommRow], title: str) -> str:
    """A page with the sums, and every collective with its cause."""

def rows_json(rows: Sequence[CommRow]) -> str:
    """The rows as JSON, one a line."""

def explain_plan(source: str, target: str, topology: str = "uniform", json: bool = False) -> str:
    """A redistribution by text: steps, bytes, lower bound, time."""

def topologies() -> list[str]:
    """The names of the known topologies, the default first."""
