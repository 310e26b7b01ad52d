"""New tensors."""

import torch

from hyper_parallel.verifier.case import case, ints, t

from .table import give

give("zeros_like ones_like", case(t(5, 3)), case(t(2, 4), dtype=torch.int64))
give("full_like fill.Scalar", case(t(5, 3), 2.5), case(t(2, 4, 6), 0))
give("fill.Tensor", case(t(5, 3), t()), case(t(2, 4, 6), t()))
give("zero", case(t(5, 3)), case(t(2, 4, 6)))
give("empty_like", case(t(5, 3), values=False), case(t(2, 4, 6), dtype=torch.int64, values=False))
give("new_zeros new_ones", case(t(5, 3), [5, 3]), case(t(5, 3), [4]), case(t(5, 3), []))
give("new_full", case(t(5, 3), [5, 3], 2.5), case(t(5, 3), [4, 2], 1.5))
give("new_empty", case(t(5, 3), [5, 3], values=False), case(t(5, 3), [4], values=False))
give("copy", case(t(5, 3), t(5, 3)), case(t(2, 4, 3), t(3)), case(t(5, 3), ints(0, 9, 5, 1)))
give("type_as to.other", case(t(5, 3), t(2)), case(ints(0, 9, 5, 3), t()))
give("linspace.Tensor_Tensor logspace.Tensor_Tensor", case(t(), t(), 5))
give("linspace.Tensor_Scalar logspace.Tensor_Scalar", case(t(), 2.0, 5))
give("linspace.Scalar_Tensor logspace.Scalar_Tensor", case(2.0, t(), 5))
