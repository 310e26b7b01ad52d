"""Reports that are compared with one device on every mesh, with gradients."""

import pytest
import torch
from handlers_support import MESHES, compare, every_mesh, tensor

F = torch.nn.functional
T = torch.tensor
IDS = T([[0, 6, 3], [2, 2, 5]])
LABELS = T([1, 4, 0, -100, 3])


def smoothed(logits):
    return F.cross_entropy(logits, LABELS, label_smoothing=0.2)


def mla(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def shared_key(k_pe, k_nope):
    return torch.cat([k_nope, k_pe.unsqueeze(1).expand(-1, 4, -1, -1)], -1)


def put(x, v):
    out = x * 1
    out[T([0, 3, 1]), T([1, 1, 0])] = v
    return out


def scattered(scores):
    picked = scores.topk(2, -1)
    return torch.zeros_like(scores).scatter_(-1, picked.indices, picked.values)


def copied(x, y):
    return (x * 1).copy_(y)


def bias_once(x, w, b):
    return F.linear(x, w, b)


def convolved(x, w):
    return F.conv2d(x, w, stride=4)


COMPARED = {
    "rows 22 25: values and indices": (lambda x: x.max(1), [(5, 7)], [[(1,)], [(0,)]]),
    "rows 25: topk": (lambda x: x.topk(3, 1), [(5, 7)], [[(0,)], [(1,)]]),
    "rows 26: contraction split in another order": (
        lambda a, b: a @ b, [(4, 4), (4, 4)],
        [[(1, 1), (0, 0)], ["dp=2 tp=2: S(1, 1) S(1, 0)", (0, 0)]],
    ),
    "rows 27: convolution": (
        convolved, [(2, 3, 8, 8), (5, 3, 4, 4)], [[(0,), (None,)], [(1,), (1,)], [(3,), (None,)]],
    ),
    "rows 28: heads of two sizes": (
        mla, [(2, 4, 5, 6), (2, 4, 5, 6), (2, 4, 5, 3)], [[(1,), (1,), (1,)], [(0,), (0,), (0,)]],
    ),
    "rows 29 30: attention over a split sequence": (
        F.scaled_dot_product_attention, [(2, 2, 6, 4)] * 3, [[(2,)] * 3, [(2,), (None,), (None,)]],
    ),
    "rows 31 32: index_put": (
        put, [(5, 4), (3,)], [[(0,), (0,)], [(1,), (None,)], [(0, 1), (0,)]],
    ),
    "rows 33: gradient of an index": (
        lambda x: x[:, T([0, 5, 5])], [(1, 8)], [[(None,)], [(1,)]],
    ),
    "rows 34: scatter on split tokens": (scattered, [(2, 6, 5)], [[(1,)], [(2,)]]),
    "rows 35: copy of a broadcast": (
        copied, [(2, 3, 4, 5), (4, 1)], [[(2,), (None,)], [(3,), (None,)], [(2,), (0,)]],
    ),
    "rows 40: log_softmax": (lambda x: F.log_softmax(x, -1), [(5, 7)], [[(1,)], [(0, 1)]]),
    "rows 40 41: smoothed loss": (smoothed, [(5, 7)], [[(1,)], [(0,)], [(0, 1)]]),
    "rows 42: embedding": (
        lambda w: F.embedding(IDS, w), [(7, 4)], [[(0,)], [(0, 0)], [(None, 0)]],
    ),
    "rows 45: a bias counts once": (
        bias_once, [(5, 6), (3, 6), (3,)], [[(1,), (1,), (None,)], [(1, 0), (1,), None]],
    ),
    "rows 47: a shared key on split heads": (
        shared_key, [(2, 5, 3), (2, 4, 5, 6)], [[(None,), (1,)], [None, (1,)]],
    ),
}  # fmt: skip


@every_mesh
@pytest.mark.parametrize("name", COMPARED)
def test_compared(name, mesh):
    fn, shapes, cut_lists = COMPARED[name]
    for cuts in cut_lists:
        if any(isinstance(c, str) for c in cuts) and mesh is not MESHES[2]:
            continue
        compare(fn, [tensor(*s, seed=i) for i, s in enumerate(shapes)], cuts, mesh)
