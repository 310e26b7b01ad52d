"""``x[index] = value`` in every form, on whole and on split dims, forward and backward."""

import pytest
import torch
from handlers_support import compare, every_mesh, tensor

T = torch.tensor
INDICES = {
    "number": 2,
    "last": -1,
    "slice": slice(1, 4),
    "open slice": slice(2, None),
    "step": slice(None, None, 2),
    "empty": slice(3, 3),
    "two numbers": (1, 2),
    "number, slice": (3, slice(1, 3)),
    "rows, number": (slice(None), 1),
    "ellipsis": (..., 2),
    "new axis": (None, 2),
    "index": T([0, 4, 1]),
    "index, number": (T([0, 4, 1]), 2),
    "number, index": (2, T([0, 3, 1])),
    "number, rows, index": (2, slice(None), T([0, 1])),
    "index, rows, number": (T([1, 3]), slice(None), 0),
    "slice, index": (slice(0, 3), T([0, 3])),
    "mask": T([True, False, True, False, True]),
    "slice, mask": (slice(1, 3), T([True, False, True, False])),
    "all": slice(None),
}
CUTS = [(0,), (1,), (2,), (0, 1), (1, 1), (None, 0)]


@every_mesh
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_setitem(index, cut, mesh):
    shape = tensor(5, 4, 3)[index].shape

    def write(value):
        def run(x, *others):
            out = x * 1
            out[index] = others[0] * 2 if others else value
            return out

        return run

    compare(write(2.5), [tensor(5, 4, 3)], [cut], mesh)
    compare(write(None), [tensor(5, 4, 3), tensor(*shape)], [cut, (None,)], mesh)
    compare(write(None), [tensor(5, 4, 3), tensor(shape[-1])], [cut, None], mesh)


@every_mesh
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_split_value(cut, mesh):
    def run(x, value):
        out = x * 1
        out[1:4] = value
        return out

    compare(run, [tensor(5, 4, 3), tensor(3, 4, 3)], [cut, cut], mesh)


@every_mesh
def test_getitem_of_the_same_forms(mesh):
    for index in INDICES.values():
        for cut in CUTS:
            compare(lambda x, i=index: x[i], [tensor(5, 4, 3)], [cut], mesh)
