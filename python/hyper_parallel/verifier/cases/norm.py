"""Normalisation."""

from hyper_parallel.verifier.case import case, positive, t

from .table import give, without

give(
    "layer_norm",
    case(t(4, 5), [5], t(5), t(5)),
    case(t(2, 5, 6), [6], t(6)),
    case(t(2, 5, 6), [6]),
    case(t(5, 2, 4), [2, 4], t(2, 4), t(2, 4)),
    case(t(2, 5, 6), [6], None, t(6), 1e-3),
)
give(
    "_fused_rms_norm",
    case(t(5, 3, 4), [4], positive(4), 1e-5),
    case(t(5, 3, 4), [3, 4], None, 1e-5),
    case(t(4, 6), [6], None, None),
)
give(
    "native_layer_norm",
    case(t(4, 5), [5], t(5), t(5), 1e-5),
    case(t(5, 2, 4), [2, 4], t(2, 4), None, 1e-5),
    case(t(2, 5, 6), [6], None, None, 1e-5),
)
give(
    "rms_norm",
    case(t(4, 5), [5], t(5)),
    case(t(2, 5, 6), [6], t(6), 1e-3),
    case(t(2, 5, 6), [6]),
    case(t(5, 2, 4), [2, 4], t(2, 4)),
)
give(
    "group_norm",
    case(t(5, 6, 3), 3, t(6), t(6)),
    case(t(2, 4, 5, 2), 2, t(4)),
    case(t(3, 4), 2),
    case(t(5, 6, 3), 6, t(6), t(6)),
)
give(
    "batch_norm",
    case(t(5, 4), t(4), t(4), t(4), positive(4), True, 0.1, 1e-5, False),
    case(t(5, 4, 3), t(4), t(4), t(4), positive(4), False, 0.1, 1e-5, False),
    case(t(5, 3, 2, 2), None, None, None, None, True, 0.1, 1e-5, False),
    case(t(5, 3), t(3), None, t(3), positive(3), False, 0.1, 1e-5, False),
)
give("_safe_softmax", case(t(5, 3), 1), case(t(4, 6), 0))

give(
    "_native_batch_norm_legit.no_stats",
    case(t(5, 4), t(4), t(4), True, 0.1, 1e-5),
    case(t(5, 3, 2, 2), None, None, True, 0.1, 1e-5),
)
give(
    "_native_batch_norm_legit_no_training _batch_norm_no_update",
    case(t(5, 4), t(4), t(4), t(4), positive(4), 0.1, 1e-5),
    case(t(6, 4, 3), t(4), None, t(4), positive(4), 0.1, 1e-5),
)
without(
    "native_group_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update",
    "torch does not check sizes, and pieces that do not fit would be written out of bounds: "
    "test_verify.py runs their strategies alone",
)
