"""Parts of tensors, and their rearrangement."""

from hyper_parallel.verifier.case import case, t

from .table import give

give(
    "slice.Tensor",
    case(t(5, 3), 0, 1, 4),
    case(t(5, 4), 1, 0, 3),
    case(t(5, 3)),
    case(t(5, 3), 0, 0, 9223372036854775807),
    case(t(8, 3), 0, 0, 8, 2),
    case(t(6, 4), 0, -3, None),
    case(t(2, 7), 1, 2, 2),
)
give("select.int", case(t(5, 3), 0, 2), case(t(5, 3), 1, -1), case(t(2, 4, 3), 1, 0))
give("diagonal", case(t(5, 5)), case(t(2, 4, 3), 1, 1, 2), case(t(3, 4, 5), -1, 0, 2))
give("flip", case(t(5, 3), [0]), case(t(5, 4, 3), [0, 2]), case(t(6, 2), []))
give("roll", case(t(5, 3), [1], [0]), case(t(5, 4), [2, -1], [0, 1]), case(t(5, 3), [2], []))
give(
    "constant_pad_nd",
    case(t(5, 3), [1, 2]),
    case(t(5, 3), [0, 0, 1, 1], 1.5),
    case(t(5, 4), [-1, 0]),
)
give(
    "pad",
    case(t(5, 3), [1, 2]),
    case(t(5, 3), [0, 0, 1, 1], "constant", 1.5),
    case(t(2, 5, 4), [1, 1], "reflect"),
    case(t(3, 2, 5), [2, 1], "replicate"),
    case(t(3, 2, 5), [2, 1], "circular"),
)
give(
    "repeat",
    case(t(5, 3), [2, 1]),
    case(t(5), [3, 2]),
    case(t(5, 3), [1, 1]),
    case(t(2, 4), [1, 3]),
)
give("repeat_interleave.self_int", case(t(5, 3), 2, 0), case(t(5, 4), 3, 1), case(t(5, 3), 2))
give("as_strided", case(t(5, 3), [5, 3], [3, 1]), case(t(6, 2), [3, 2], [4, 1], 1))
give("tril triu", case(t(5, 3)), case(t(2, 4, 4), 1), case(t(3, 6), -1))
give("unfold", case(t(8, 3), 0, 2, 2), case(t(5, 7), 1, 3, 2), case(t(5, 6), 1, 6, 1))
give("narrow_copy", case(t(5, 3), 0, 1, 3), case(t(5, 6), 1, 2, 4))
give("slice_scatter", case(t(5, 3), t(2, 3), 0, 1, 3), case(t(5, 6), t(5, 3), 1, 0, 6, 2))
give("select_scatter", case(t(5, 3), t(3), 0, 1), case(t(2, 5, 4), t(2, 5), 2, -1))
give("diagonal_scatter", case(t(5, 3), t(3)), case(t(2, 4, 4), t(2, 3), 1, 1, 2))
give("diag_embed", case(t(5, 3)), case(t(4, 2), 1, 0, 2))
give("rot90", case(t(5, 3)), case(t(4, 6, 2), 2, [0, 2]), case(t(4, 6, 2), -1, [1, 2]))
give("as_strided_scatter", case(t(5, 3), t(2, 2), [2, 2], [3, 1]))

give(
    "unfold_backward",
    case(t(4, 3, 2), [8, 3], 0, 2, 2),
    case(t(5, 3, 3), [5, 7], 1, 3, 2),
    case(t(5, 4, 6, 2), [5, 5, 6], 1, 2, 1),
)
