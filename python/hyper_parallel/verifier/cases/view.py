"""Views."""

from hyper_parallel.verifier.case import case, t

from .table import COMPLEX, give

SAME = "alias contiguous detach clone lift lift_fresh"
give(SAME, case(t(5, 3)), case(t(2, 4, 6)))
give(
    "permute",
    case(t(5, 4, 3), [2, 0, 1]),
    case(t(5, 3), [-1, 0]),
    case(t(2, 3, 4, 5), [0, 2, 1, 3]),
)
give(
    "transpose.int swapdims swapaxes",
    case(t(5, 4, 3), 0, 2),
    case(t(5, 3), -1, 0),
    case(t(5, 3), 1, 1),
)
give("t", case(t(5, 3)), case(t(7)))
give("adjoint mT mH", case(t(5, 3)), case(t(2, 4, 3)))
give("adjoint mH matrix_H", case(t(4, 3, dtype=COMPLEX)))
give("matrix_H", case(t(5, 3)))
give("numpy_T", case(t(5, 3)), case(t(6)))
give("unsqueeze", *(case(t(5, 3), d) for d in (0, 1, 2, -1)))
give("squeeze", case(t(5, 1, 3, 1)), case(t(1, 2)), case(t(5, 3)))
give("squeeze.dim", case(t(5, 1, 3), 1), case(t(5, 3), 0), case(t(1, 4), -2))
give("squeeze.dims", case(t(5, 1, 3, 1), [1, 3]), case(t(5, 1, 3), [0, 1]), case(t(2, 3), [0, 1]))
give("movedim.int moveaxis.int", case(t(5, 4, 3), 0, 2), case(t(5, 4, 3), -1, 0))
give("movedim.intlist moveaxis.intlist", case(t(5, 4, 3), [0, 1], [2, 0]))
give(
    "expand broadcast_to",
    case(t(5, 1), [5, 4]),
    case(t(3), [5, 2, 3]),
    case(t(4, 1, 3), [-1, 5, -1]),
)
give("expand broadcast_to", case(t(5, 3), [5, 3]))
SHAPES = (
    ((6, 4), [24]),
    ((24,), [6, 4]),
    ((5, 6), [5, 2, 3]),
    ((5, 2, 3), [5, -1]),
    ((4, 3, 2), [12, 2]),
    ((4, 6), [8, 3]),
    ((6, 4), [4, 6]),
    ((5, 1, 3), [5, 3]),
    ((5, 3), [1, 5, 1, 3]),
    ((2, 6, 4), [2, 6, 2, 2]),
    ((4, 4), [2, 2, 2, 2]),
    ((8, 3), [4, 6]),
    ((5, 3), [5, 3]),
    ((12,), [2, -1, 3]),
)
give("view reshape _unsafe_view", *(case(t(*before), after) for before, after in SHAPES))
give("view reshape", case(t(1), []), case(t(), [1, 1]))
give(
    "flatten.using_ints", case(t(5, 2, 3)), case(t(5, 2, 3), 1), case(t(4, 3, 2), 0, 1), case(t(5))
)
give("ravel", case(t(5, 3)), case(t(4)), case(t(2, 3, 2)))
