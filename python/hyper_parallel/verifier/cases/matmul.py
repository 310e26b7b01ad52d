"""Contractions."""

from hyper_parallel.verifier.case import case, t

from .table import COMPLEX, give

give("mm", case(t(5, 3), t(3, 6)), case(t(4, 7), t(7, 2)))
give("bmm", case(t(3, 5, 2), t(3, 2, 4)), case(t(2, 3, 7), t(2, 7, 3)))
give("mv", case(t(5, 3), t(3)), case(t(2, 7), t(7)))
give("dot", case(t(5), t(5)), case(t(8), t(8)))
give("vdot", case(t(5), t(5)), case(t(6, dtype=COMPLEX), t(6, dtype=COMPLEX)))
give("ger outer", case(t(5), t(3)), case(t(4), t(7)))
give("inner", case(t(2, 5, 3), t(4, 3)), case(t(5, 3), t(6, 3)))
give(
    "linear",
    case(t(2, 5, 3), t(4, 3), t(4)),
    case(t(5, 7), t(3, 7)),
    case(t(6), t(5, 6), t(5)),
    case(t(2, 2, 3, 4), t(2, 4), t(2)),
)
give(
    "matmul",
    case(t(5), t(5)),
    case(t(5, 3), t(3)),
    case(t(3), t(3, 5)),
    case(t(3), t(2, 3, 5)),
    case(t(2, 5, 3), t(3)),
    case(t(5, 3), t(3, 6)),
    case(t(2, 5, 3), t(3, 4)),
    case(t(3, 2), t(4, 2, 5)),
    case(t(2, 1, 5, 3), t(4, 3, 2)),
)
ADDENDS = ((5, 6), (6,), (1, 6), (5, 1), ())
give("addmm", *(case(t(*a), t(5, 3), t(3, 6)) for a in ADDENDS))
give(
    "addmm", case(t(6), t(5, 3), t(3, 6), beta=0.5, alpha=-2), case(t(6), t(5, 3), t(3, 6), beta=0)
)
give("addbmm", *(case(t(*a), t(4, 5, 3), t(4, 3, 6)) for a in ADDENDS))
give("baddbmm", *(case(t(*a), t(4, 5, 3), t(4, 3, 6)) for a in (*ADDENDS, (4, 5, 6), (4, 1, 1))))
give("baddbmm", case(t(4, 5, 6), t(4, 5, 3), t(4, 3, 6), beta=2, alpha=0.5))
give(
    "addmv",
    *(case(t(*a), t(5, 3), t(3)) for a in ((5,), (1,), ())),
    case(t(5), t(5, 3), t(3), beta=3),
)
give("addr", *(case(t(*a), t(5), t(6)) for a in ADDENDS), case(t(6), t(5), t(6), beta=2, alpha=3))
give(
    "einsum",
    case("ij,jk->ik", [t(5, 3), t(3, 4)]),
    case("bij,bjk->bik", [t(2, 5, 3), t(2, 3, 4)]),
    case("bhqd,bhkd->bhqk", [t(2, 3, 5, 4), t(2, 3, 6, 4)]),
    case("ij->ji", [t(5, 3)]),
    case("ij->", [t(5, 3)]),
    case("i,j,k->ijk", [t(5), t(3), t(2)]),
    case("ii->i", [t(5, 5)]),
    case("...i,ij->...j", [t(2, 5, 3), t(3, 4)]),
    case("ab,cb", [t(5, 3), t(4, 3)]),
)
give("_cdist_forward", case(t(5, 3), t(4, 3), 2.0, 2), case(t(2, 4, 3), t(2, 5, 3), 1.0, None))
give("inner", case(t(5, 3), t(3)), case(t(3), t(4, 3)), case(t(), t(5)), case(t(3), t(2, 4, 3)))

give(
    "bilinear",
    case(t(5, 3), t(5, 4), t(2, 3, 4), t(2)),
    case(t(2, 5, 4), t(2, 5, 6), t(3, 4, 6)),
    case(t(5), t(6), t(4, 5, 6), t(4)),
)
give("_pdist_forward", case(t(5, 3)), case(t(4, 6), 1.0))
