"""Writes by index along a split dim, and attention whose query heads are cut across groups."""

import pytest
import torch
import torch.nn.functional as F
from handlers_support import MESHES, compare, every_mesh, tensor


def write(op, *, in_place):
    """Give the op on a leaf: in place on a copy of it, or out of place."""

    def run(x, *others):
        return op(x.clone(), *others) if in_place else op(x, *others)

    return run


INDEX = torch.tensor([0, 4, 1, 4])
CUTS = [(0,), (0, 0), (0, 1)]
forms = pytest.mark.parametrize("in_place", [False, True], ids=["new", "in_place"])


@every_mesh
@forms
@pytest.mark.parametrize("cut", CUTS)
def test_index_add(cut, in_place, mesh):
    def op(x, source):
        return (x.index_add_ if in_place else x.index_add)(0, INDEX, source, alpha=2)

    compare(write(op, in_place=in_place), [tensor(5, 3), tensor(4, 3)], [cut, (None,)], mesh)


@every_mesh
@forms
def test_index_copy_and_fill(in_place, mesh):
    index = torch.tensor([3, 0, 4])

    def copy(x, source):
        return (x.index_copy_ if in_place else x.index_copy)(0, index, source)

    def fill(x):
        return (x.index_fill_ if in_place else x.index_fill)(0, torch.tensor([1, -1]), 2.5)

    compare(write(copy, in_place=in_place), [tensor(5, 3), tensor(3, 3)], [(0,), (None,)], mesh)
    compare(write(fill, in_place=in_place), [tensor(5, 3)], [(0, 0)], mesh)


@every_mesh
@forms
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_scatter(cut, in_place, mesh):
    index = torch.tensor([[0, 2], [4, 1], [3, 0]])

    def add(x, source):
        return (x.scatter_add_ if in_place else x.scatter_add)(1, index, source)

    def move(x, source):
        return (x.scatter_ if in_place else x.scatter)(1, index, source)

    def value(x):
        return (x.scatter_ if in_place else x.scatter)(1, index, 7.0)

    for op in (add, move):
        compare(write(op, in_place=in_place), [tensor(3, 5), tensor(3, 2)], [cut, (None,)], mesh)
    compare(write(value, in_place=in_place), [tensor(3, 5)], [cut], mesh)


@every_mesh
@forms
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate, in_place, mesh):
    rows, columns = torch.tensor([0, 2, -1]), torch.tensor([1, 3, 0])

    def one(x, values):
        return (x.index_put_ if in_place else x.index_put)((rows,), values, accumulate=accumulate)

    def two(x, values):
        return (x.index_put_ if in_place else x.index_put)(
            (rows, columns), values, accumulate=accumulate
        )

    compare(write(one, in_place=in_place), [tensor(5, 4), tensor(3, 4)], [(0, 1), (None,)], mesh)
    compare(write(two, in_place=in_place), [tensor(5, 4), tensor(3)], [(0, 1), (None,)], mesh)


def test_an_index_outside_is_refused():
    with pytest.raises((IndexError, RuntimeError)):
        compare(
            lambda x: x.index_fill(0, torch.tensor([5]), 1.0), [tensor(5, 3)], [(0,)], MESHES[0]
        )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 8])
def test_more_ranks_than_key_heads(heads, causal):
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    keys = [tensor(2, 2, 6, 4, seed=1), tensor(2, 2, 6, 4, seed=2)]
    for mesh in MESHES[1:]:
        compare(attend, [tensor(2, heads, 6, 4), *keys], [(1, 1), (None,), (None,)], mesh)
