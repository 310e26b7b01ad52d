"""A function of tensors on one device and on ranks: what it gives must be equal."""

import torch

import hyper_parallel as hp

f64 = torch.float64


def wave(*shape, start=0.0):
    """Make values that are all different, the same wherever they are made."""
    count = torch.Size(shape).numel()
    return torch.cos(torch.arange(count, dtype=f64) * 0.7 + start).reshape(shape)


def flat(value):
    """List the numbers of what a case gives: tensors whole, sequences joined, None as a word."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return [value]
    if isinstance(value, (tuple, list)):
        return [each for item in value for each in flat(item)]
    if isinstance(value, hp.DTensor):
        value = value.detach().full_tensor()
    return value.detach().flatten().tolist()


def equal_to_one_device(case, *layouts, grad=True):
    """Check a function of ``wave`` tensors under ``layouts``: (shape, text of a layout) each."""

    def inputs(place):
        return [
            place(wave(*shape, start=i), text).requires_grad_(grad)
            for i, (shape, text) in enumerate(layouts)
        ]

    def cut(value, text):
        return hp.distribute_tensor(value, hp.Layout.parse(text), src_data_rank=None)

    want = flat(case(*inputs(lambda value, text: value.clone())))
    got = flat(case(*inputs(cut)))
    assert len(got) == len(want), f"{got}\n{want}"
    for mine, theirs in zip(got, want, strict=True):
        if isinstance(theirs, float):
            assert abs(mine - theirs) <= 1e-12 * max(1, abs(theirs)), f"{got}\n{want}"
        else:
            assert mine == theirs, f"{got}\n{want}"
