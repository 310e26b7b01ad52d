"""The torch-free library: layouts, plans, rules. Users have these names by `hyper_parallel`."""

from collections.abc import Iterable, Sequence
from typing import Any

class UsageError(ValueError):
    """The caller's mistake. ``code`` has a section in docs/errors.md."""

    code: str

class UnsupportedError(NotImplementedError):
    """No rule, step or strategy for a valid request."""

    code: str

class CommError(RuntimeError):
    """A rank or a link failed, or ranks disagree."""

    code: str

class InternalError(RuntimeError):
    """A fault of the library: please report it."""

    code: str

def near_names(name: str, known: Sequence[str]) -> list[str]:
    """The names among ``known`` closest to ``name``, best first, at most three."""

def path_matches(pattern: str, name: str) -> bool:
    """True if a pattern (``*``, ``?``, ``[qkv]``, ``**``) matches a dotted name."""

def closest_patterns(patterns: Sequence[str], names: Sequence[str], what: str) -> list[int]:
    """For each name the index of the pattern that names it most closely, -1 for none."""

class Placement:
    """How one tensor lies along one mesh axis."""

    @property
    def dim(self) -> int:
        """The split dim of ``Shard``; negative ones count from the end. -1 for other kinds."""

    @property
    def reduce_op(self) -> str:
        """The kind of ``Partial``: ``sum``, ``avg``, ``max``, ``min`` or ``prod``."""

    def is_replicate(self) -> bool:
        """True for ``Replicate()``."""

    def is_shard(self, dim: int | None = None) -> bool:
        """True for ``Shard(dim)``; for any dim without ``dim``."""

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True for ``Partial(reduce_op)``; for any kind without ``reduce_op``."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

def Replicate() -> Placement:
    """Every rank along the axis holds the whole tensor."""

def Shard(dim: int) -> Placement:
    """Rank i along the axis holds chunk i of ``dim``.

    Chunks are ``ceil(size / ranks)`` long; later ones may be shorter or empty."""

def Partial(reduce_op: str = "sum") -> Placement:
    """Every rank along the axis holds a value; ``reduce_op`` over them gives the tensor.

    Raises:
        UsageError: an unknown kind.
    """

class Mesh:
    """Ranks in a grid with named axes; interned."""

    @staticmethod
    def get(sizes: Sequence[int], names: Sequence[str], ranks: Sequence[int] = ...) -> Mesh:
        """The mesh of these sizes and names; ``ranks`` are row-major, 0, 1, 2 ... if empty.

        Raises:
            UsageError: names, sizes and ranks do not make a mesh.
        """

    @staticmethod
    def parse(text: str) -> Mesh:
        """Read ``dp=2 tp=4`` or ``dp=2 tp=2 ranks=[0, 2, 1, 3]``.

        Raises:
            UsageError: other text; it shows the place.
        """

    @property
    def sizes(self) -> list[int]:
        """The number of ranks along each axis."""

    @property
    def names(self) -> list[str]:
        """The name of each axis."""

    @property
    def ranks(self) -> list[int]:
        """All ranks, row-major: the last axis varies fastest."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    def size(self, axis: int | None = None) -> int:
        """The number of ranks, of one axis if it is given by number."""

    def axis(self, name: str) -> int:
        """The number of the axis ``name``.

        Raises:
            UsageError: there is none; the axes are listed.
        """

    def coordinate(self, rank: int) -> list[int] | None:
        """The place of ``rank`` in the grid, one number an axis; None if it is no member."""

    def group(self, axes: Sequence[int], rank: int) -> list[int]:
        """The ranks that ``rank`` reaches along ``axes`` only, the first axis major.

        Raises:
            UsageError: ``rank`` is no member.
        """

    def sub_mesh(self, names: Sequence[str], rank: int) -> Mesh:
        """The mesh of the axes ``names``, in that order, that holds ``rank``."""

    def flatten(self, names: Sequence[str], name: str = "") -> Mesh:
        """The mesh in which the adjacent axes ``names`` are one, called ``name``."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Split:
    """How one tensor dim is cut."""

    @property
    def dim(self) -> int:
        """The tensor dim that is cut."""

    @property
    def axes(self) -> list[int]:
        """The numbers of the mesh axes that cut it, major to minor."""

    @property
    def block(self) -> int:
        """Boundaries of chunks fall on multiples of this many indices; 1 for no blocks."""

    @property
    def segments(self) -> list[int]:
        """The sizes of the parts of the dim that are cut each on its own; empty for none."""

class Layout_:
    """How one tensor lies over a mesh; immutable and interned."""

    @staticmethod
    def get(mesh: Mesh, placements: Iterable[Placement], ndim: int | None = None) -> Layout_:
        """One placement an axis; axes on one dim are ordered as the mesh has them.

        Args:
            ndim: of the tensor, needed for dims that count from the end.

        Raises:
            UsageError: another number of placements, a dim out of range.
        """

    @staticmethod
    def of_splits(
        mesh: Mesh,
        splits: Sequence[tuple[int, Sequence[int], int, Sequence[int]]],
        partials: Sequence[str | None] = ...,
    ) -> Layout_:
        """The full form: ``(dim, axes, block, segments)`` for each dim that is cut.

        Args:
            partials: one kind or None an axis.

        Raises:
            UsageError: an axis is used twice, a dim is listed twice.
        """

    @staticmethod
    def from_names(mesh: Mesh, dims: Sequence[Sequence[str]]) -> Layout_:
        """For each tensor dim the names of the axes that cut it, major first, or ``"None"``."""

    @staticmethod
    def replicated(mesh: Mesh) -> Layout_:
        """Every rank holds the whole tensor."""

    @staticmethod
    def parse(text: str) -> Layout_:
        """Read ``dp=2 tp=4: S(0) R``.

        Raises:
            UsageError: other text; it shows the place.
        """

    @property
    def mesh(self) -> Mesh:
        """The mesh that the tensor lies on."""

    @property
    def placements(self) -> list[Placement]:
        """One placement an axis."""

    @property
    def splits(self) -> list[Split]:
        """The dims that are cut, ascending."""

    @property
    def is_replicated(self) -> bool:
        """True if every rank holds the whole tensor."""

    @property
    def has_partial(self) -> bool:
        """True if some axis is ``Partial``."""

    @property
    def max_dim(self) -> int:
        """The largest dim that is cut, -1 if none."""

    @property
    def replicas(self) -> int:
        """How many ranks hold the same part."""

    def dual(self) -> Layout_:
        """The layout of the gradient: R and P(sum) swap, S stays.

        Raises:
            UnsupportedError: P(max), P(min) or P(prod).
        """

    def reduced(self) -> Layout_:
        """The same with every ``Partial`` axis made R."""

    def with_axis(self, axis: int, placement: Placement) -> Layout_:
        """The same with one axis changed; a new cut is the minor one of its dim."""

    def local_shape(self, sizes: Sequence[int], coordinate: Sequence[int]) -> list[int]:
        """The sizes of the part at ``coordinate`` of a tensor of global ``sizes``.

        Raises:
            UsageError: the tensor lacks a dim that is cut, segments do not sum to its size.
        """

    def to_string(self) -> str:
        """``S(0) R``."""

    def to_string_with_mesh(self) -> str:
        """``dp=2 tp=4: S(0) R``."""

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
    def row(self) -> str:
        """The op whose row serves the call."""

    @property
    def spec(self) -> str:
        """The text of that row."""

    @property
    def mesh(self) -> Mesh:
        """The mesh of the call."""

    @property
    def results(self) -> list[tuple[list[int], bool]]:
        """Sizes of each result, and whether they are known before the run."""

    def forward(
        self, outputs: Sequence[Layout_ | None] = ..., topology: str = "uniform"
    ) -> dict[str, Any]:
        """The cheapest strategy for the operands as they lie, and where results shall lie next."""

    def backward(self, outputs: Sequence[Layout_ | None]) -> dict[str, Any]:
        """The layouts of operands that give results in these layouts."""

    def grad(
        self,
        inputs: Sequence[Layout_ | None],
        outputs: Sequence[Layout_ | None],
        out_grads: Sequence[Layout_ | None],
        grads: Sequence[Layout_ | None] = ...,
    ) -> dict[str, Any]:
        """The layouts of the gradients of the operands, and what must move for them."""

    def table(self) -> list[tuple[str, str, str, tuple[Any, ...], tuple[Any, ...], str]]:
        """All strategies of one mesh axis: text, handler, gradients; then placements of operands
        and results, and the letter."""

    @property
    def result_dtype(self) -> str:
        """The element type that results are shown with."""

    def sized(self) -> str:
        """The rule of this call in letters and sizes: ``*m k, *k n -> m n {m=8, k=16, n=32}``."""

def rule_names() -> list[str]:
    """Every name that inference knows, sorted."""

def rule_rows() -> list[tuple[str, str, str, list[str]]]:
    """Of each built-in row: op, text, family, names that it serves beside its own."""

def rule_handlers() -> list[tuple[str, str]]:
    """The name of each handler and what it does."""

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

def short_dtype(name: str) -> str:
    """The library's name of an element type: f32 for float32; other text as it is."""

def parse_operand(text: str) -> tuple[str, list[int], str | None]:
    """Element type, sizes and layout of ``f32[8, 16] on dp=2 tp=4: S(0) R``."""

def parse_attrs(text: str) -> dict[str, Any]:
    """Attributes by name: ``dim=1 keepdim=True shape=[2, 3]``."""

def rule_sample(op: str, rule: str) -> str:
    """The sample call of a row, empty if there is none."""

def rules_listing() -> str:
    """The names of all rows, by family."""

def rules_table(op: str, operands: str = "", attrs: str = "") -> str:
    """The strategies of one mesh axis in a call, by default the row's sample call."""

def rules_markdown() -> str:
    """The page docs/rules.md."""
