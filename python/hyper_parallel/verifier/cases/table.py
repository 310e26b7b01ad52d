"""The table itself, and draws that several families use."""

import math

import torch

from hyper_parallel.verifier.case import ints, made, mixed

CASES = {}
WITHOUT = {}
INF = float("inf")


def give(ops, *cases):
    """Give ops, named without ``aten::``, the same calls."""
    for op in ops.split():
        CASES.setdefault(op if "::" in op else f"aten::{op}", []).extend(cases)


def without(ops, reason):
    for op in ops.split():
        WITHOUT[op if "::" in op else f"aten::{op}"] = reason


def sparse(*shape):
    """Draw small whole numbers as floats, in some draws mostly 0."""

    def draw(g):
        odds = (0.1, 0.9)[int(torch.randint(2, (), generator=g))]
        kept = torch.rand(shape, generator=g) < odds
        return torch.randint(1, 4, shape, generator=g).double() * kept

    return made(draw, f"sparse{list(shape)}")


def small_ints(*shape):
    return ints(0, 5, *shape)


def bools_with_true(*shape):
    """Draw a mask whose rows all have a True."""

    def draw(g):
        mask = torch.rand(shape, generator=g) < 0.5
        mask[..., 0] = True
        return mask

    return made(draw, f"mask{list(shape)}")


def dominant(*shape):
    """Draw square matrices with a large diagonal: inverses stay small."""

    def draw(g):
        eye = torch.eye(shape[-1], dtype=torch.float64)
        return torch.randn(shape, generator=g, dtype=torch.float64) / 4 + 2 * eye

    return made(draw, f"dominant{list(shape)}")


SORTED = made(lambda g: torch.randn(6, generator=g, dtype=torch.float64).sort().values, "sorted[6]")
PERMUTED = made(lambda g: torch.randperm(4, generator=g)[:3], "permuted[3]")


def columns(g, size, rows, count):
    """Draw indices below ``size`` that are different in each column."""
    return torch.stack([torch.randperm(size, generator=g)[:rows] for _ in range(count)], 1)


def some_nan(*shape):
    """Draw normal values with some nan among them."""
    return mixed(*shape, special=(math.nan,))


def some_real(*shape):
    """Draw complex values, some without imaginary part."""

    def draw(g):
        out = torch.randn(shape, generator=g, dtype=COMPLEX)
        real = torch.rand(shape, generator=g) < 0.5
        return torch.where(real, out.real.to(COMPLEX), out)

    return made(draw, f"some real{list(shape)}")


def all_but_one(value, *shape):
    """Draw bools that are ``value``, but for one: a piece without it gives another answer."""

    def draw(g):
        out = torch.full(shape, value)
        out.view(-1)[int(torch.randint(out.numel(), (), generator=g))] = not value
        return out

    return made(draw, f"{value} but one{list(shape)}")


def half(*shape):
    """Draw small whole numbers as bf16: products and sums of them are exact."""
    return ints(-2, 3, *shape, dtype=torch.bfloat16)


def bools_as_floats(*shape):
    """Draw 0 and 1 as floats: probabilities that leave no choice."""
    return made(lambda g: (torch.rand(shape, generator=g) < 0.5).double(), f"0 or 1{list(shape)}")


X, W, FLAT = (5, 3), (2, 4, 6), (1, 7)
COMPLEX = torch.complex128


def posdef(*shape):
    """Draw symmetric positive definite matrices."""

    def draw(g):
        x = torch.randn(shape, generator=g, dtype=torch.float64)
        return x @ x.mT + shape[-1] * torch.eye(shape[-1], dtype=torch.float64)

    return made(draw, f"posdef{list(shape)}")


def lower(*shape):
    return made(
        lambda g: (
            torch.randn(shape, generator=g, dtype=torch.float64).tril()
            + 2 * torch.eye(shape[-1], dtype=torch.float64)
        ),
        f"lower{list(shape)}",
    )
