"""Calls of torch's operator database: sample inputs, what one device makes of them, and layouts."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as database
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import hyper_parallel as hp

# Contents are arbitrary: only shape and type are compared.
UNINITIALISED = re.compile(r"^(empty|new_empty|resize_)")
# By the least precise type among operands and results: gradients pass through it. Elsewhere exact.
TOLERANCES = {
    torch.bfloat16: 1e-2,
    torch.float16: 2e-3,
    torch.complex32: 2e-3,
    torch.float32: 1e-3,
    torch.complex64: 1e-3,
}
FINEST = 1e-7
SEED = 7

Layout = tuple[int | None, ...]  # for each tensor the dim that is split, or None


def is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def label(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


def load_ops(pattern: str = ".") -> list[Any]:
    warnings.simplefilter("ignore")
    return [op for op in database.op_db if re.search(pattern, label(op))]


class Sample:
    """One call, with its results and gradients on one device.

    Making it raises what torch raises on one device.
    """

    def __init__(self, op: Any, sample: Any, in_place: bool) -> None:
        self.function = written(op) if in_place else op.op
        self.process = sample.output_process_fn_grad
        self.leaves, self.spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.tensors = [x for x in self.leaves if is_tensor(x)]
        self.grad = op.supports_autograd and any(t.requires_grad for t in self.tensors)
        self.values = not UNINITIALISED.match(op.name)
        self.cotangents: list[Any] | None = None
        try:
            self.outputs, self.grads = self.call(copy)
        except RuntimeError:  # no gradient for this sample
            self.grad = False
            self.outputs, self.grads = self.call(copy)
        types = {x.dtype for x in [*self.tensors, *self.outputs] if is_tensor(x)}
        self.tolerance = max((TOLERANCES.get(t, FINEST) for t in types), default=FINEST)

    def call(
        self, convert: Callable[[Any], Any], full: Callable[[Any], Any] = lambda x: x
    ) -> tuple[list[Any], list[Any]]:
        """Give results and gradients of inputs, whole; the first call fixes the cotangents."""
        leaves = [convert(x) for x in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        torch.manual_seed(SEED)
        with torch.set_grad_enabled(self.grad):
            results = tree_map(full, self.function(*args, **kwargs))
        outputs = [x.detach().clone() if is_tensor(x) else x for x in tree_leaves(results)]
        if not self.grad:
            return outputs, []
        ends = [x for x in tree_leaves(self.process(results)) if is_tensor(x)]
        if self.cotangents is None:
            g = torch.Generator().manual_seed(SEED)
            self.cotangents = [
                torch.randn(x.shape, generator=g, dtype=x.dtype) if x.requires_grad else None
                for x in ends
            ]
            self.grad = any(c is not None for c in self.cotangents)
        pairs = [
            (x, c)
            for x, c in zip(ends, self.cotangents, strict=True)
            if c is not None and x.requires_grad
        ]
        if pairs:
            torch.autograd.backward([x for x, _ in pairs], [c for _, c in pairs])
        inputs = [x for x in leaves if is_tensor(x) and x.requires_grad]
        return outputs, [None if x.grad is None else full(x.grad).detach() for x in inputs]

    def on_rank(self, mesh: Any, layouts: list[Layout]) -> tuple[list[Any], list[Any]]:
        """Run it on DTensors; ``layouts`` has one entry a mesh axis."""
        number = iter(range(len(self.tensors)))

        def convert(x: Any) -> Any:
            if not is_tensor(x):
                return x
            i = next(number)
            if x.layout != torch.strided:
                return copy(x)
            dims = [layout[i] for layout in layouts]
            placements = [hp.Replicate() if d is None else hp.Shard(d) for d in dims]
            out = hp.distribute_tensor(x.detach().clone(), mesh, placements)
            return out.requires_grad_() if self.grad and x.requires_grad else out

        return self.call(convert, lambda x: x.full_tensor() if isinstance(x, hp.DTensor) else x)

    def check(self, result: tuple[list[Any], list[Any]]) -> tuple[str, str] | None:
        """Compare with one device: None, or what is wrong and how."""
        outputs, grads = result
        if len(outputs) != len(self.outputs):
            return "wrong_forward", f"{len(outputs)} results, not {len(self.outputs)}"
        for i, (got, want) in enumerate(zip(outputs, self.outputs, strict=True)):
            if why := difference(got, want, self.tolerance, self.values):
                return "wrong_forward", f"result {i}: {why}"
        for i, (got, want) in enumerate(zip(grads, self.grads, strict=True)):
            if got is None and want is None:
                continue
            zero = torch.zeros_like(want if got is None else got)  # None means zero
            got, want = zero if got is None else got, zero if want is None else want
            if why := difference(got, want, self.tolerance):
                return "wrong_grad", f"gradient {i}: {why}"
        return None


def copy(x: Any) -> Any:
    return x.detach().clone().requires_grad_(x.requires_grad) if is_tensor(x) else x


def written(op: Any) -> Callable[..., Any]:
    """Give the form in place, applied to a copy of the first operand."""
    method = op.get_inplace()
    return lambda x, *args, **kwargs: method(x.clone(), *args, **kwargs)


def difference(got: Any, want: Any, tolerance: float, values: bool = True) -> str:
    if not is_tensor(want):
        same = type(got) is type(want) and (not values or got == want or got != got)
        return "" if same else f"{got!r}, not {want!r}"
    if not is_tensor(got):
        return f"{type(got).__name__}, not a tensor"
    for what in ("dtype", "shape", "layout"):
        if getattr(got, what) != getattr(want, what):
            return f"{what} {getattr(got, what)}, not {getattr(want, what)}"
    if not values:
        return ""
    if got.layout != torch.strided:
        got, want = got.to_dense(), want.to_dense()
    got, want = got.resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg()
    if got.is_floating_point():
        got, want = got.double(), want.double()
    far = ~torch.isclose(got, want, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
    if not far.any():
        return ""
    at = tuple(far.nonzero()[0].tolist())
    count = f"{int(far.sum())}/{far.numel()} values differ"
    return f"{count}, at {list(at)} {got[at].item():.5g}, not {want[at].item():.5g}"


def set_sizes(s: int) -> None:
    """Set the sizes of samples: the database reads them from globals of its modules."""
    even = s % 2 == 0

    def reduction_inputs(device: Any, dtype: Any, requires_grad: bool, **_: Any) -> Iterator[Any]:
        shapes = (
            [[], [s], [s, 3 * s], [s, 2 * s, 1, s]] if even else [[], [2], [3, 5], [3, 2, 1, 2]]
        )
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        return (torch.testing.make_tensor(x, **options) for x in shapes)

    news = {"S": s, "M": s * (3 if even else 2), "L": s * (6 if even else 4)}
    news["_generate_reduction_inputs"] = reduction_inputs
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch.testing._internal"):
            continue
        for attribute, value in news.items():
            if type(getattr(module, attribute, None)) is type(value):
                setattr(module, attribute, value)


def samples(op: Any, sizes: list[int], count: int, in_place: bool) -> Iterator[tuple[str, Sample]]:
    """Give the first usable samples of each size, half as many for sizes after the first."""
    # Double where there is one: gradients of some ops lose half their digits.
    wanted = (torch.float64, torch.float32, torch.complex128, torch.int64, torch.bool)
    dtype = next((d for d in wanted if d in op.dtypes), None)
    if dtype is None or (in_place and op.get_inplace() is None):
        return
    if op.name == "_segment_reduce":  # its samples read out of bounds at other sizes
        sizes = [5]

    def least(sample: Any) -> bool:
        leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
        shapes = [x.shape for x in leaves if is_tensor(x)]
        return not any(max(s, default=0) > 1 for s in shapes) or any(0 in s for s in shapes)

    for n, size in enumerate(sizes):
        set_sizes(size)
        torch.manual_seed(0)
        random.seed(0)
        grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        made: list[Any] = []
        with contextlib.suppress(Exception):  # the database may not take this size
            made.extend(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), 200))
        left = count if n == 0 else (count + 1) // 2
        for i, sample in sorted(enumerate(made), key=lambda pair: least(pair[1])):
            if left == 0:
                break
            try:
                ready = Sample(op, sample, in_place)
            except Exception:
                continue
            left -= 1
            if ready.tensors:
                yield f"{size}#{i}", ready


def layouts(tensors: list[torch.Tensor], world: int, limit: int, seed: str) -> list[Layout]:
    """Give all replicated; then in turn one dim everywhere, one split operand, a random mix."""
    rng, n = random.Random(seed), len(tensors)
    dims = [
        [d for d in range(t.ndim) if t.shape[d] > 1] if t.layout == torch.strided else []
        for t in tensors
    ]

    def pick(choose: Callable[[torch.Tensor], int]) -> Layout:
        wanted = [choose(t) for t in tensors]
        return tuple(d if d in dims[i] else None for i, d in enumerate(wanted))

    def is_even(layout: Layout) -> bool:
        pairs = zip(tensors, layout, strict=True)
        return all(d is None or t.shape[d] % world == 0 for t, d in pairs)

    depth = range(max((t.ndim for t in tensors), default=0))
    same = [pick(lambda t, d=d: d) for d in depth]
    same += [pick(lambda t, d=d: t.ndim - 1 - d) for d in depth]
    single = [tuple(d if i == j else None for j in range(n)) for i in range(n) for d in dims[i]]
    mixed = [tuple(rng.choice([None, *ds]) for ds in dims) for _ in range(4 * limit * (n > 1))]
    for group in (same, single, mixed):
        rng.shuffle(group)
        group.sort(key=lambda layout: not is_even(layout))
    turns = [x for turn in itertools.zip_longest(same, single, mixed) for x in turn if x]
    return list(dict.fromkeys([(None,) * n, *turns]))[:limit]
