"""Linear algebra of matrices."""

import torch

from hyper_parallel.verifier.case import case, ints, t, unit

from .table import dominant, give, lower, posdef, without

give("linalg_inv", case(dominant(4, 3, 3)), case(dominant(5, 5)))
for name in ("cholesky", "linalg_cholesky_ex"):
    give(name, case(posdef(5, 3, 3)), case(posdef(2, 4, 4, 4)))
give("cholesky_inverse", case(lower(5, 3, 3)), case(lower(4, 4)))
give("cholesky_solve", case(t(5, 3, 2), lower(5, 3, 3)), case(t(3, 2), lower(3, 3)))
give("_linalg_det _linalg_slogdet linalg_inv_ex", case(dominant(5, 3, 3)), case(dominant(4, 4)))
give("linalg_matrix_exp", case(unit(5, 3, 3)), case(unit(4, 4)))
give("linalg_lu_factor_ex linalg_lu geqrf", case(t(5, 4, 3)), case(t(3, 4)))
give("linalg_ldl_factor_ex", case(posdef(5, 3, 3)), case(posdef(4, 4)))
without(
    "linalg_ldl_solve linalg_lu_solve lu_unpack",
    "torch does not check pivots, and parts of a P are none: it would write out of bounds",
)
give("_linalg_solve_ex", case(dominant(5, 3, 3), t(5, 3, 2)), case(dominant(4, 4), t(4)))
give("_linalg_solve_ex", case(dominant(3, 3), t(5, 2, 3), left=False))
give("linalg_qr", case(t(5, 4, 3)), case(t(3, 4, 2), "r"), case(t(4, 2), "complete"))
give("_linalg_svd", case(t(5, 4, 3)), case(t(3, 4, 2), False, False))
give("_linalg_eigh", case(posdef(5, 3, 3)), case(posdef(4, 4), "U", False))
give("linalg_eig", case(posdef(5, 3, 3), values=False), case(posdef(4, 4), values=False))
give("linalg_householder_product", case(t(5, 4, 3), unit(5, 3)), case(t(4, 2), unit(2)))
give("ormqr", case(t(5, 4, 3), unit(5, 3), t(5, 4, 2)))
give("linalg_pinv.atol_rtol_tensor", case(t(5, 4, 3)), case(dominant(4, 4)))
give("triangular_solve", case(t(5, 3, 2), lower(5, 3, 3), False), case(t(3, 2), lower(3, 3), False))
give("_linalg_check_errors", case(ints(0, 1, 5, dtype=torch.int32), "op", is_matrix=False))

give("linalg_lstsq", case(t(5, 3), t(5, 2)), case(t(4, 5, 3), t(4, 5, 2)))
