"""Reductions."""

import torch

from hyper_parallel.verifier.case import bools, case, distinct, grid, ints, positive, t

from .table import INF, all_but_one, give, some_nan, sparse, without

DIMS = ([0], [1], [0, 2], [-1], [])


def over_dims(name, draw=t, dims=DIMS, **kwargs):
    give(name, *(case(draw(5, 4, 3), d, **kwargs) for d in dims))
    give(name, case(draw(6, 2), [0], True, **kwargs))


give("nansum", case(some_nan(5, 3)), case(some_nan(2, 4, 6)))
give("sum mean", case(t(5, 3)), case(t(2, 4, 6)), case(t()))
give("sum prod", case(ints(-3, 4, 5, 3)), case(t(5, 3), dtype=torch.float32))
give("mean", case(t(5, 3), dtype=torch.float32))
give("max min", case(distinct(5, 3)), case(distinct(2, 4, 6)), case(ints(-9, 9, 5, 3)))
give("std var", case(t(5, 3)), case(t(2, 4, 6), False))
give("prod", case(positive(5, 3)), case(t(4)))
give("_is_all_true all", case(all_but_one(True, 5, 3)))
give("_is_any_true any", case(all_but_one(False, 5, 3)))
give("_is_all_true _is_any_true", case(bools(5, 3)), case(bools(4)))
give("all any", case(bools(5, 3)), case(sparse(2, 4)), case(bools(2)))
give("count_nonzero", case(grid(5, 3)), case(grid(2, 4, 6), 1), case(grid(2, 4, 6), -1))
over_dims("sum.dim_IntList")
over_dims("mean.dim")
over_dims("nansum", some_nan)
over_dims("amax", distinct)
over_dims("amin", distinct)
over_dims("logsumexp", dims=DIMS[:-1])
over_dims("var.dim", dims=())
over_dims("std.dim", dims=())
give("sum.dim_IntList mean.dim", case(t(5, 3), None), case(t(5, 3), [1], dtype=torch.float32))
give("sum.dim_IntList", case(ints(-3, 4, 5, 3), [0]), case(bools(5, 3), [1]))
give("var.dim std.dim", *(case(t(5, 4, 3), d) for d in ([0], [1], [0, 2], None)))
give("var.dim std.dim", case(t(5, 4, 3), [1], False, True))
give(
    "var.correction std.correction",
    *(case(t(5, 4, 3), d) for d in ([0], [1], [0, 2], None)),
    case(t(5, 4, 3), [1], correction=0),
    case(t(5, 4, 3), [1], correction=2, keepdim=True),
)
give("all.dim", case(all_but_one(True, 5), 0))
give("any.dim", case(all_but_one(False, 5), 0))
give("all.dims", case(all_but_one(True, 5, 3), [0, 1]))
give("any.dims", case(all_but_one(False, 5, 3), [0, 1]))
give("any.dims", case(all_but_one(False, 5, 4, 3), [0, 2]))
give("all.dim any.dim", *(case(bools(5, 4, 3), d) for d in (0, 1, -1)), case(sparse(5, 3), 0, True))
give("all.dims any.dims", *(case(bools(5, 4, 3), d) for d in ([0], [0, 2])))
give("all.dims any.dims", case(bools(4), None), case(sparse(5, 3), [1], True))
give("count_nonzero.dim_IntList", *(case(grid(5, 4, 3), d) for d in ([0], [0, 2], [-1])))
give(
    "argmax argmin",
    case(distinct(5, 4, 3)),
    *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)),
    case(distinct(5, 4), 1, True),
    case(grid(5, 6), 1),
)
give("max.dim min.dim", *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)))
give("max.dim min.dim", case(distinct(5, 4), 1, True), case(grid(5, 6), 1), case(grid(6, 5), 0))
give("median.dim nanmedian.dim mode", *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)))
give("median.dim nanmedian.dim", case(distinct(5, 4), 1, True))
give("mode", case(grid(5, 6), 1, True), case(grid(5, 6)))
give(
    "kthvalue",
    *(case(distinct(5, 4, 3), 2, d) for d in (0, 1, -1)),
    case(distinct(5, 4), 3, 1, True),
)
give("prod.dim_int", *(case(positive(5, 4, 3), d) for d in (0, 1, -1)), case(t(5, 4), 1, True))
F32 = t(5, 3, dtype=torch.float32)
give("norm.Scalar", case(t(5, 3)), *(case(t(5, 3), p) for p in (0, 1, 3, INF, -INF)))
give(
    "norm.ScalarOpt_dtype",
    case(t(5, 3), None, dtype=torch.float64),
    case(F32, 1, dtype=torch.float64),
)
ORDERS = (0, 1, 2, 3, INF, -INF)
give("norm.ScalarOpt_dim linalg_vector_norm", *(case(t(5, 4, 3), p, [1]) for p in ORDERS))
give(
    "norm.ScalarOpt_dim linalg_vector_norm",
    case(t(5, 4, 3), 2, [0, 2]),
    case(t(5, 4), 2, [0], True),
)
give("norm.ScalarOpt_dim", case(t(5, 4), None, [1]), case(t(5, 4), 2, []))
give("norm.ScalarOpt_dim_dtype", case(t(5, 4, 3), 2, [1], False, dtype=torch.float64))
give(
    "norm.ScalarOpt_dim_dtype",
    case(t(5, 4, 3, dtype=torch.float32), 1, [0, 2], True, dtype=torch.float64),
)
give(
    "linalg_vector_norm",
    case(t(5, 3)),
    case(t(5, 3), 2, None, True),
    case(F32, 1, dtype=torch.float64),
)
give(
    "aminmax",
    case(distinct(5, 3)),
    case(distinct(5, 4), dim=1),
    case(distinct(4, 6), dim=0, keepdim=True),
)
without("hash_tensor", "its unsigned results cannot be compared by arithmetic")
give("median nanmedian", case(distinct(5, 3)), case(distinct(7)))
give(
    "std_mean.correction var_mean.correction",
    case(t(5, 3), [0]),
    case(t(2, 4, 6), [1], correction=0, keepdim=True),
)
give("std_mean.correction var_mean.correction", case(t(5, 4)))
