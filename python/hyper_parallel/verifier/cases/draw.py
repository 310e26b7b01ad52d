"""Random draws."""

from hyper_parallel.verifier.case import case, positive, t, uniform

from .table import bools_as_floats, give

give("dropout native_dropout", case(t(5, 3), 0.0, True), case(t(2, 4, 6), 0.5, False))
give("dropout native_dropout", case(t(5, 3), 0.5, True))
give(
    "feature_dropout",
    case(t(5, 3, 2), 0.0, True),
    case(t(5, 3), 0.5, True),
)
give("bernoulli", case(bools_as_floats(5, 3)), case(uniform(0, 1, 5, 3)))
give("bernoulli.p", case(t(5, 3), 1.0), case(t(2, 4), 0.3))
give("bernoulli_.float", case(t(5, 3), 1.0), case(t(2, 4), 0.3))
give("bernoulli.Tensor bernoulli_.Tensor", case(t(5, 3), uniform(0, 1, 5, 3)))
give("normal.Tensor_Tensor", case(t(5, 3), positive(5, 3)))
give("normal.Tensor_float", case(t(5, 3), 2.0))
give("normal.float_Tensor", case(0.5, positive(5, 3)))
give("poisson", case(positive(5, 3)), case(uniform(0, 0, 2, 4)))
DRAWS = "cauchy_ exponential_ log_normal_ normal_ normal_functional random_ uniform uniform_"
give(DRAWS + " rand_like randn_like", case(t(5, 3)), case(t(2, 4)))
give("geometric_", case(t(5, 3), 0.4))
give("random_.to randint_like", case(t(5, 3), 9), case(t(2, 4), 1))
give("random_.from randint_like.low_dtype", case(t(5, 3), 2, 9), case(t(5, 3), 2, 3))
give("multinomial", case(positive(5, 4), 2), case(positive(4), 3, True))
give("alpha_dropout feature_alpha_dropout", case(t(5, 3), 0.5, True), case(t(5, 4), 0.5, False))

give(
    "rrelu_with_noise",
    case(t(5, 3), t(5, 3), 0.1, 0.3, False),
    case(t(2, 4, 6), t(2, 4, 6), 0.1, 0.3, True),
    case(t(5, 3), t(5, 3), 0.2, 0.2, True),
)
