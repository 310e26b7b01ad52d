"""Linear exchanges between ranks: how each runs, and its transpose."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Mesh
from hyper_parallel.local.region import current_region

_functional = torch.ops._c10d_functional


@dataclasses.dataclass(frozen=True)
class Group:
    """The ranks that the calling one reaches along axes."""

    mesh: Mesh
    axes: tuple[int, ...]
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def name(self) -> str:
        return _torch._group_name(list(self.ranks))


REDUCTIONS = {"sum": "sum", "avg": "avg", "max": "max", "min": "min", "prod": "product"}


class Move:
    """A linear exchange between ranks: how it runs, and its transpose."""

    group: Group

    def start(self, x: torch.Tensor) -> torch.Tensor:
        """Issue it; the result is there after ``finish``."""
        raise NotImplementedError

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        return _functional.wait_tensor(raw)

    def transposed(self) -> Move:
        raise NotImplementedError

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return self.finish(self.start(x))

    def note(self, kind: str, x: torch.Tensor, bytes: float) -> None:
        _torch.note_collective(kind, self.group.mesh, list(self.group.axes), x, bytes)


@dataclasses.dataclass(frozen=True)
class AllReduce(Move):
    group: Group
    op: str

    def start(self, x: torch.Tensor) -> torch.Tensor:
        n = self.group.size
        self.note("all_reduce", x, 2 * (n - 1) / n * _bytes(x))
        return _functional.all_reduce(x.contiguous(), REDUCTIONS[self.op], self.group.name)

    def transposed(self) -> Move:
        return self


@dataclasses.dataclass(frozen=True)
class AllGather(Move):
    group: Group
    dim: int
    lengths: tuple[int, ...]

    def start(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.movedim(self.dim, 0)
        rows = _with_rows(rows, max(self.lengths)).contiguous()
        self.note("all_gather", x, (self.group.size - 1) * _bytes(x))
        return _functional.all_gather_into_tensor(rows, self.group.size, self.group.name)

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        whole = _functional.wait_tensor(raw)
        longest = max(self.lengths)
        if any(n != longest for n in self.lengths):
            parts = [whole[i * longest :][:n] for i, n in enumerate(self.lengths)]
            whole = torch.cat(parts)
        return _moved_back(whole, self.dim)

    def transposed(self) -> Move:
        return ReduceScatter(self.group, self.dim, self.lengths, "sum")


@dataclasses.dataclass(frozen=True)
class ReduceScatter(Move):
    group: Group
    dim: int
    lengths: tuple[int, ...]
    op: str

    def start(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.movedim(self.dim, 0)
        longest = max(self.lengths)
        if any(n != longest for n in self.lengths):
            rows = torch.cat([_with_rows(part, longest) for part in rows.split(self.lengths)])
        n = self.group.size
        self.note("reduce_scatter", x, (n - 1) / n * _bytes(x))
        return _functional.reduce_scatter_tensor(
            rows.contiguous(), REDUCTIONS[self.op], n, self.group.name
        )

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        part = _functional.wait_tensor(raw)
        mine = self.lengths[self.group.index]
        return _moved_back(part if mine == part.shape[0] else part[:mine].clone(), self.dim)

    def transposed(self) -> Move:
        gather = AllGather(self.group, self.dim, self.lengths)
        return gather if self.op == "sum" else Scaled(gather, 1 / self.group.size)


@dataclasses.dataclass(frozen=True)
class Scaled(Move):
    move: Move
    factor: float

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return self.move.start(x * self.factor)

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        return self.move.finish(raw)

    def transposed(self) -> Move:
        return Scaled(self.move.transposed(), self.factor)


@dataclasses.dataclass(frozen=True)
class AllToAll(Move):
    group: Group
    send: tuple[int, ...]
    receive: tuple[int, ...]

    def start(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0] - self.send[self.group.index]
        self.note("all_to_all", x, rows * _bytes(x) / max(1, x.shape[0]))
        return _functional.all_to_all_single(
            x.contiguous(), list(self.receive), list(self.send), self.group.name
        )

    def transposed(self) -> Move:
        return AllToAll(self.group, self.receive, self.send)


@dataclasses.dataclass(frozen=True)
class Broadcast(Move):
    group: Group
    source: int

    def start(self, x: torch.Tensor) -> torch.Tensor:
        self.note("broadcast", x, _bytes(x) if self.group.index == self.source else 0)
        return _functional.broadcast(x.contiguous(), self.source, self.group.name)

    def transposed(self) -> Move:
        return SumTo(self.group, self.source)


@dataclasses.dataclass(frozen=True)
class SumTo(Move):
    """The sum over ranks on one of them, zeros on the others."""

    group: Group
    target: int

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return AllReduce(self.group, "sum").start(x)

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        total = _functional.wait_tensor(raw)
        return total if self.group.index == self.target else torch.zeros_like(total)

    def transposed(self) -> Move:
        return Broadcast(self.group, self.target)


@dataclasses.dataclass(frozen=True)
class Permute(Move):
    group: Group
    pairs: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]

    def start(self, x: torch.Tensor) -> torch.Tensor:
        mine, n = self.group.index, x.numel()
        send = [n * ((mine, j) in self.pairs) for j in range(self.group.size)]
        receive = [n * ((j, mine) in self.pairs) for j in range(self.group.size)]
        flat = x.reshape(-1) if any(send) else x.new_empty(0)
        self.note("permute", x, 0 if send[mine] else _bytes(flat))
        return _functional.all_to_all_single(flat.contiguous(), receive, send, self.group.name)

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        flat = _functional.wait_tensor(raw)
        if not any(target == self.group.index for _, target in self.pairs):
            return flat.new_zeros(self.shape)
        return flat.reshape(self.shape).clone()

    def transposed(self) -> Move:
        return Permute(self.group, tuple((b, a) for a, b in self.pairs), self.shape)


def _with_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
    missing = rows - x.shape[0]
    return x if missing == 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])


def _moved_back(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Put dim 0 back to its place. No view: results may be written to."""
    return x if dim == 0 else x.movedim(0, dim).contiguous()


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


@dataclasses.dataclass(frozen=True)
class Nothing(Move):
    """An exchange among one rank."""

    group: Group

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        return raw

    def transposed(self) -> Move:
        return self


@dataclasses.dataclass(frozen=True)
class OnReal(Move):
    """Complex numbers sent as pairs; a dim that counts from the front stays where it is."""

    move: Move

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return self.move.start(torch.view_as_real(x.resolve_conj()))

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(self.move.finish(raw).contiguous())

    def transposed(self) -> Move:
        return OnReal(self.move.transposed())


@dataclasses.dataclass(frozen=True)
class OnBytes(Move):
    move: Move

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return self.move.start(x.to(torch.uint8))

    def finish(self, raw: torch.Tensor) -> torch.Tensor:
        return self.move.finish(raw).to(torch.bool)

    def transposed(self) -> Move:
        return OnBytes(self.move.transposed())


# ---- The graph -----------------------------------------------------------------------------


class Exchange(torch.autograd.Function):
    """A move in the graph. ``anchor`` makes its result require grad on all ranks or on none."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        anchor: torch.Tensor | None,
        move: Move,
        raw: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.move = move
        return move.run(x) if raw is None else move.finish(raw)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return Exchange.apply(gradient, None, ctx.move.transposed(), None), None, None, None


def apply_move(move: Move, x: torch.Tensor, raw: torch.Tensor | None, joined: bool) -> torch.Tensor:
    region = current_region()
    flows = joined and (x.is_floating_point() or x.is_complex())
    anchor = region.anchor() if region is not None and flows else None
    if not flows:
        with torch.no_grad():
            return move.run(x.detach()) if raw is None else move.finish(raw)
    result = Exchange.apply(x, anchor, move, raw)
    if anchor is not None and region is not None:
        region.ties.append(result)
    return result
