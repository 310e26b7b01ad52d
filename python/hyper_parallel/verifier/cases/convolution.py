"""Convolution, pooling, resampling."""

import torch

from hyper_parallel.verifier.case import case, distinct, made, t, uniform, unit

from .table import give, without

give(
    "conv1d",
    case(t(3, 4, 7), t(6, 4, 3), t(6)),
    case(t(2, 5, 6), t(3, 5, 2), None, [2], [1]),
    case(t(3, 4, 7), t(6, 2, 3), t(6), [1], [1], [1], 2),
    case(t(2, 6, 7), t(6, 1, 3), t(6), [1], [2], [2], 6),
    case(t(4, 7), t(6, 4, 3), t(6)),
    case(t(2, 3, 9), t(2, 3, 2), t(2), [3], [1], [2]),
    case(t(2, 2, 7), t(3, 2, 5), t(3), [1], [2]),
)
give(
    "conv1d.padding",
    case(t(2, 3, 7), t(4, 3, 4), t(4), [1], "same", [2]),
    case(t(2, 3, 7), t(4, 3, 3), None, [2], "valid"),
)
give("conv2d.padding", case(t(2, 3, 5, 4), t(4, 3, 3, 2), t(4), [1, 1], "same"))
give("conv3d.padding", case(t(2, 3, 3, 4, 3), t(2, 3, 2, 3, 1), t(2), [1, 1, 1], "same"))
give(
    "conv_transpose1d",
    case(t(5, 4, 6), t(4, 3, 3)),
    case(t(5, 4, 6), t(4, 3, 3), t(3), [2], [1], [1]),
    case(t(4, 6, 5), t(6, 1, 2), t(6), [1], [0], [0], 6),
    case(t(4, 6, 5), t(6, 2, 2), None, [1], [0], [0], 3),
    case(t(2, 3, 5), t(3, 2, 2), t(2), [3], [0], [2]),
    case(t(2, 3, 5), t(3, 2, 3), t(2), [2], [1], [1], 1, [2]),
)
give(
    "conv_transpose2d.input",
    case(t(5, 4, 4, 3), t(4, 3, 2, 2)),
    case(t(5, 4, 4, 3), t(4, 3, 2, 2), t(3), [2, 1], [1, 0], [1, 0]),
    case(t(4, 6, 3, 3), t(6, 1, 2, 2), t(6), [1, 1], [0, 0], [0, 0], 6),
)
give("conv_transpose3d.input", case(t(4, 3, 3, 2, 3), t(3, 5, 2, 2, 2), t(5)))
give(
    "conv2d",
    case(t(3, 4, 5, 6), t(5, 4, 3, 2), t(5)),
    case(t(2, 3, 5, 5), t(4, 3, 3, 3), None, [2, 2], [1, 1]),
    case(t(3, 4, 5, 5), t(6, 2, 3, 3), t(6), [1, 1], [1, 1], [1, 1], 2),
)
give("conv3d", case(t(3, 2, 3, 4, 3), t(5, 2, 2, 2, 2), t(5)))
give(
    "avg_pool1d",
    case(t(3, 5, 8), [2]),
    case(t(5, 6), [3], [2], [1]),
    case(t(2, 3, 8), [3], [2], [1], True, False),
)
give(
    "max_pool1d",
    case(distinct(3, 5, 8), [2]),
    case(distinct(5, 6), [3], [2], [1]),
    case(distinct(2, 3, 8), [3], [2], [1], [2], True),
)
give(
    "avg_pool2d",
    case(t(3, 5, 4, 6), [2, 2]),
    case(t(5, 4, 4), [3, 3], [1, 1], [1, 1]),
    case(t(2, 3, 5, 6), [3, 2], [2, 1], [1, 1], True, False),
    case(t(2, 3, 5, 4), [3, 2], [2, 2], [1, 0], False, True, 5),
)
give(
    "max_pool2d",
    case(distinct(3, 5, 4, 6), [2, 2]),
    case(distinct(5, 4, 4), [3, 3], [1, 1], [1, 1]),
)
give("avg_pool3d", case(t(3, 5, 4, 2, 2), [2, 2, 2]))
give("max_pool3d", case(distinct(3, 5, 4, 2, 2), [2, 2, 2]))
give("adaptive_avg_pool1d", case(t(3, 5, 8), [2]), case(t(5, 6), [3]))
give(
    "adaptive_avg_pool2d _adaptive_avg_pool2d",
    case(t(3, 5, 4, 6), [2, 3]),
    case(t(5, 4, 4), [1, 1]),
)
give("adaptive_avg_pool3d", case(t(3, 5, 4, 2, 2), [2, 1, 1]))
give("upsample_linear1d", case(t(3, 5, 4), [7], False))
give("upsample_nearest1d", case(t(3, 5, 4), [7]), case(t(3, 5, 5), [10]))
give("upsample_bilinear2d upsample_bicubic2d", case(t(3, 5, 4, 3), [6, 5], True))
give("upsample_nearest2d", case(t(3, 5, 4, 3), [6, 5]), case(t(2, 3, 5, 3), [10, 12]))
give(
    "convolution",
    case(t(3, 4, 5), t(6, 4, 2), t(6), [1], [1], [1], False, [0], 1),
    case(t(3, 4, 5), t(4, 6, 2), t(6), [2], [1], [1], True, [1], 1),
    case(t(3, 4, 5), t(4, 3, 2), None, [1], [0], [1], True, [0], 2),
)
give("conv_transpose1d", case(t(3, 4, 5), t(4, 6, 2), t(6)), case(t(5, 4), t(5, 3, 2), None, [2]))
give("conv_transpose2d.input", case(t(3, 4, 5, 4), t(4, 6, 2, 2), t(6), [2], [1]))
give("conv_transpose3d.input", case(t(3, 4, 3, 2, 3), t(4, 2, 2, 2, 2), t(2)))
give("channel_shuffle", case(t(5, 6, 3), 2))
give(
    "im2col",
    case(t(5, 3, 4, 5), [2, 2], [1, 1], [1, 0], [1, 2]),
    case(t(4, 4, 5), [2, 1], [1, 1], [0, 0], [1, 1]),
)
give("col2im", case(t(5, 12, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1]))
give("pixel_shuffle", case(t(5, 8, 3, 4), 2))
give("pixel_unshuffle", case(t(5, 3, 4, 6), 2))
give(
    "max_pool2d_with_indices",
    case(distinct(3, 5, 4, 6), [2, 2]),
    case(distinct(2, 3, 5, 6), [3, 2], [2, 1], [1, 1], [1, 2], True),
    case(distinct(3, 5, 4), [3, 3], [1, 1], [1, 1]),
    case(distinct(2, 5, 4), [1, 2], [1, 2]),
)
give("max_pool3d_with_indices", case(distinct(3, 5, 4, 2, 2), [2, 2, 2]))
give(
    "adaptive_max_pool2d",
    case(distinct(3, 5, 4, 6), [2, 3]),
    case(distinct(2, 3, 6, 5), [3, 2]),
)
give("adaptive_max_pool3d", case(distinct(3, 5, 4, 2, 2), [2, 1, 1]))
give("fractional_max_pool2d", case(distinct(3, 5, 6, 6), [2, 2], [3, 3], uniform(0, 1, 3, 5, 2)))
give(
    "fractional_max_pool3d",
    case(distinct(3, 5, 4, 4, 4), [2, 2, 2], [2, 2, 2], uniform(0, 1, 3, 5, 3)),
)
PLACES = made(
    lambda g: torch.tensor([0, 3, 8, 11]).expand(3, 5, 4).reshape(3, 5, 2, 2).clone(), "places"
)
give("max_unpool2d", case(t(3, 5, 2, 2), PLACES, [4, 3]))
give("max_unpool3d", case(t(3, 5, 1, 2, 2), made(lambda g: torch.tensor([0, 3, 8, 11]).expand(3, 5, 4).reshape(3, 5, 1, 2, 2).clone(), "places"),
                          [2, 2, 3], [1, 1, 1], [0, 0, 0]))  # fmt: skip
give("_upsample_nearest_exact1d", case(t(3, 5, 4), [7]))
give("_upsample_nearest_exact2d", case(t(3, 5, 4, 3), [6, 5]))
give("_upsample_nearest_exact3d upsample_nearest3d", case(t(3, 5, 2, 3, 2), [3, 4, 3]))
give("upsample_trilinear3d", case(t(3, 5, 2, 3, 2), [3, 4, 3], False))
give("_upsample_bilinear2d_aa _upsample_bicubic2d_aa", case(t(3, 5, 4, 3), [6, 5], False))
give("grid_sampler_2d", case(t(3, 5, 4, 6), unit(3, 2, 4, 2), 0, 0, False))
give("grid_sampler_3d", case(t(3, 5, 4, 3, 2), unit(3, 2, 4, 3, 3), 0, 0, False))

without(
    "max_pool2d_with_indices_backward",
    "torch does not check indices, and parts of a P are none, it would write out of bounds: "
    "test_verify.py runs its strategies alone",
)
