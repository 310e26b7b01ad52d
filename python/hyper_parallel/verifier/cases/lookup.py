"""Look-ups in tables, and attention."""

from hyper_parallel.verifier.case import case, ints, t

from .table import bools_with_true, give, without

give(
    "embedding",
    case(t(7, 4), ints(0, 7, 5)),
    case(t(6, 3), ints(0, 6, 2, 5), 2),
    case(t(5, 4), ints(0, 5, 3), -1, True),
    case(t(7, 2), ints(0, 7)),
)
give("one_hot", case(ints(0, 4, 5), 4), case(ints(0, 5, 2, 3), 5), case(ints(0, 4, 5)))


def attention(q, k, v, *rest, **kwargs):
    give("scaled_dot_product_attention", case(t(*q), t(*k), t(*v), *rest, **kwargs))


attention((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2))
attention((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), None, 0.0, True)
attention((3, 4, 6, 2), (3, 4, 7, 2), (3, 4, 7, 3), None, 0.0, True)
attention((2, 6, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4), None, 0.0, True, enable_gqa=True)
attention((2, 4, 5, 2), (2, 1, 3, 2), (2, 1, 3, 2), enable_gqa=True, scale=0.3)
attention((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), t(5, 6))
attention((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), bools_with_true(2, 1, 5, 6))
attention((3, 5, 4), (3, 6, 4), (3, 6, 4), t(3, 1, 6))

without(
    "embedding_bag _embedding_bag embedding_bag.padding_idx",
    "three results are notes of torch for its backward, which here are none: "
    "tests/ranks/handlers/test_handlers_lookup.py compares bags and their gradients on every mesh",
)
