"""Gradient inference is true: gradients computed on parts, as it says, are those of one device.

Each op gets its operands and the gradients of its results in every combination of layouts, or in
many drawn ones. Every rank computes the gradients of its parts with torch's autograd; joined as
the answer says they must be the undivided op's. What it calls not needed gets other values.
"""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F

from hyper_parallel import _core

MOST = 24  # combinations of layouts for one op and mesh
RANKS = (2, 3)


def t(*shape):
    return ("f64", shape)


def ints(high, *shape):
    return ("i64", shape, high)


# name: (row, function, operands, attributes)
OPS = {
    "mm": ("aten::mm", torch.mm, [t(5, 4), t(4, 3)], {}),
    "bmm": ("aten::bmm", torch.bmm, [t(3, 5, 4), t(3, 4, 2)], {}),
    "matmul with a broadcast batch": ("aten::matmul", torch.matmul, [t(3, 5, 4), t(1, 4, 2)], {}),
    "linear": ("aten::linear", F.linear, [t(5, 4), t(3, 4), t(3)], {}),
    "addmm": ("aten::addmm", torch.addmm, [t(3), t(5, 4), t(4, 3)], {}),
    "baddbmm": ("aten::baddbmm", torch.baddbmm, [t(1, 5, 2), t(3, 5, 4), t(3, 4, 2)], {}),
    "three operands": (
        "aten::einsum",
        lambda *x: torch.einsum("mk,kn,m->mn", *x),
        [[t(5, 4), t(4, 3), t(5)]],
        {"equation": "mk,kn,m->mn"},
    ),
    "add": ("aten::add.Tensor", torch.add, [t(5, 3), t(3)], {}),
    "mul": ("aten::mul.Tensor", torch.mul, [t(5, 3), t(5, 1)], {}),
    "div": ("aten::div.Tensor", torch.div, [t(5, 3), t(3)], {}),
    "gelu": ("aten::gelu", F.gelu, [t(5, 3)], {}),
    "sum": ("aten::sum.dim_IntList", lambda x: x.sum(1), [t(5, 3)], {"dim": [1]}),
    "amax": ("aten::amax", lambda x: x.amax(1), [t(5, 3)], {"dim": [1]}),
    "clamp": ("aten::clamp", lambda x: x.clamp(-0.5, 0.5), [t(5, 3)], {"min": -0.5, "max": 0.5}),
    "maximum": ("aten::maximum", torch.maximum, [t(5, 3), t(3)], {}),
    "prod": ("aten::prod.dim_int", lambda x: x.prod(1), [t(5, 3)], {"dim": 1}),
    "cumprod": ("aten::cumprod", lambda x: x.cumprod(1), [t(5, 3)], {"dim": 1}),
    "softmax": ("aten::softmax.int", lambda x: x.softmax(1), [t(5, 3)], {"dim": 1}),
    "layer_norm": (
        "aten::layer_norm",
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        [t(5, 4), t(4), t(4)],
        {"normalized_shape": [4]},
    ),
    "native_layer_norm": (
        "aten::native_layer_norm",
        lambda x, w, b: torch.native_layer_norm(x, x.shape[-1:], w, b, 1e-5)[:1],
        [t(5, 4), t(4), t(4)],
        {"normalized_shape": [4]},
    ),
    "embedding": ("aten::embedding", lambda w, i: w[i], [t(4, 3), ints(4, 5)], {}),
    "index_select": (
        "aten::index_select",
        lambda x, i: x.index_select(0, i),
        [t(4, 3), ints(4, 5)],
        {"dim": 0},
    ),
    "gather": ("aten::gather", lambda x, i: x.gather(1, i), [t(5, 3), ints(3, 5, 4)], {"dim": 1}),
    "scatter_add": (
        "aten::scatter_add",
        lambda x, i, s: x.scatter_add(1, i, s),
        [t(5, 3), ints(3, 5, 4), t(5, 4)],
        {"dim": 1},
    ),
    "topk": ("aten::topk", lambda x: x.topk(2, 1)[:1], [t(5, 3)], {"k": 2, "dim": 1}),
    "transpose": ("aten::t", torch.t, [t(5, 3)], {}),
    "stack": ("aten::stack", lambda *x: torch.stack(x), [[t(5, 3), t(5, 3)]], {"dim": 0}),
    "unbind": ("aten::unbind.int", lambda x: x.unbind(0), [t(2, 5)], {"dim": 0}),
    "conv2d": ("aten::conv2d", F.conv2d, [t(4, 3, 4, 4), t(5, 3, 2, 2), t(5)], {}),
    "conv_transpose2d": (
        "aten::conv_transpose2d.input",
        F.conv_transpose2d,
        [t(4, 3, 3, 3), t(3, 5, 2, 2), t(5)],
        {},
    ),
    "where": (
        "aten::where.self",
        lambda c, x, y: torch.where(c > 0, x, y),
        [ints(2, 5, 3), t(5, 3), t(3)],
        {},
    ),
}


def draw(spec, g):
    if spec[0] == "i64":
        return torch.randint(spec[2], spec[1], generator=g)
    return torch.randn(spec[1], generator=g, dtype=torch.float64)


def placements(tensor, partial):
    options = ["R", *(f"S({d})" for d in range(tensor.dim()) if tensor.shape[d] > 1)]
    return options + (["P(sum)"] if partial and tensor.is_floating_point() else [])


def cut(tensor, layout, ranks, g):
    """The parts that ranks hold; a partial tensor is split at random."""
    placement = layout.placements[0]
    if placement.is_shard():
        size = -(-tensor.shape[placement.dim] // ranks)
        begins = [min(i * size, tensor.shape[placement.dim]) for i in range(ranks + 1)]
        return [tensor.narrow(placement.dim, a, b - a) for a, b in itertools.pairwise(begins)]
    if placement.is_partial():
        parts = [torch.randn(tensor.shape, generator=g, dtype=tensor.dtype) for _ in range(ranks)]
        return [tensor - sum(parts[1:]), *parts[1:]]
    return [tensor] * ranks


def check(tensor, parts, layout, what):
    """``parts`` joined as ``layout`` says are ``tensor``; replicated ones on every rank."""
    placement = layout.placements[0]
    if placement.is_shard():
        joined = [torch.cat(parts, placement.dim)]
    elif placement.is_partial():
        assert placement.reduce_op == "sum", what
        joined = [sum(parts)]
    else:
        joined = parts
    for each in joined:
        torch.testing.assert_close(each, tensor, rtol=1e-9, atol=1e-9, msg=lambda m: f"{what}\n{m}")


def gradients(function, operands, out_grads):
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in operands]
    results = function(*leaves)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    wanted = [x for x in leaves if x.requires_grad]
    grads = iter(torch.autograd.grad(results, wanted, out_grads, allow_unused=True))
    return [next(grads) if x.requires_grad else None for x in leaves]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", OPS)
def test_gradients_on_parts_are_those_of_one_device(name, ranks):
    row, function, specs, attrs = OPS[name]
    g = torch.Generator().manual_seed(7)
    lengths = [len(s) if isinstance(s, list) else -1 for s in specs]
    flat = [each for s in specs for each in (s if isinstance(s, list) else [s])]
    operands = [draw(spec, g) for spec in flat]
    results = function(*operands)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    out_grads = [torch.randn(r.shape, generator=g, dtype=torch.float64) for r in results]
    whole = gradients(function, operands, out_grads)
    mesh = _core.Mesh.get([ranks], ["x"])
    rule = _core.Query_(
        row,
        [("", list(s[1]), s[0], None) for s in flat],
        lengths,
        attrs,
        mesh,
    )
    options = [placements(x, False) for x in operands] + [placements(x, True) for x in out_grads]
    combinations = list(itertools.product(*options))
    if len(combinations) > MOST:
        combinations = random.Random(0).sample(combinations, MOST)
    split = 0
    for texts in combinations:
        given = [_core.Layout_.parse(f"{mesh}: {text}") for text in texts]
        count = len(operands)
        grads = given[count:] + [None] * (len(rule.results) - len(out_grads))
        made = rule.grad(given[:count], [], grads)
        what = f"{name} on {ranks} ranks, given {', '.join(texts)}: {made}"
        if made["handler"]:
            continue  # its own tests run it
        parts = []
        for i, tensor in enumerate(operands):
            layout = made["inputs"][i]
            if layout is not None:
                parts.append(cut(tensor, layout, ranks, g))
                continue
            # Not needed: any values, in the shape of the gradient.
            own = made["grads"][i]
            shapes = [own.local_shape(list(tensor.shape), [rank]) for rank in range(ranks)]
            parts.append([torch.randn(s, generator=g, dtype=torch.float64) for s in shapes])
        cotangents = [
            cut(grad, layout, ranks, g)
            for grad, layout in zip(out_grads, made["out_grads"], strict=False)
        ]
        local = [
            gradients(function, [p[rank] for p in parts], [c[rank] for c in cotangents])
            for rank in range(ranks)
        ]
        for i, grad in enumerate(whole):
            assert (grad is None) == (made["grads"][i] is None), what
            if grad is not None:
                check(grad, [mine[i] for mine in local], made["grads"][i], what)
        split += any(m is not None and not m.is_replicated for m in made["grads"])
    assert split > 0  # not all of it ran on whole tensors
