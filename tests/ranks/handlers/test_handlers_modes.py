"""Handlers on cuts in segments and blocks, under autocast; checking of plain tensors."""

import pytest
import torch
import torch.nn.functional as F
from handlers_support import MESHES, compare, tensor, whole

import hyper_parallel as hp
from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, run_local

# ---- Cuts in segments and blocks ----------------------------------------------------------------


SEGMENTS = ["tp=2: S(1; segments=4|3|2)", "tp=4: S(1; segments=4|3|2)", "tp=2: S(1; block=4)"]
FIRST = [text.replace("S(1;", "S(0;") for text in SEGMENTS]
THIRD = [text.replace("S(1;", "S(2;") for text in SEGMENTS]


def of_text(text):
    return (int(text[3]),), ("tp",)


@pytest.mark.parametrize("text", SEGMENTS)
def test_segments_of_rows(text):
    x, mesh = tensor(4, 9), of_text(text)
    compare(lambda x: torch.cumsum(x, 1), [x], [text], mesh)
    compare(lambda x: torch.max(x, 1), [x], [text], mesh)
    compare(lambda x: torch.topk(x, 2, 1), [x], [text], mesh)
    compare(lambda x: torch.sort(x, 1), [x], [text], mesh)
    compare(lambda x: torch.argmax(x), [x], [text], mesh)
    compare(lambda x: torch.argmin(x, 1), [(x * 2).round()], [text], mesh)
    compare(lambda x: torch.softmax(x, 1), [x], [text], mesh)
    compare(lambda x: torch.linalg.vector_norm(x, torch.inf, 1), [x], [text], mesh)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("text", SEGMENTS)
def test_segments_of_classes(text, smoothing):
    target = torch.tensor([0, 8, 3, 4, 7, -100])
    weight = tensor(9).abs()
    compare(
        lambda x, t: F.cross_entropy(x, t, weight, label_smoothing=smoothing),
        [tensor(6, 9), target],
        [text, None],
        of_text(text),
    )


@pytest.mark.parametrize("text", FIRST)
def test_segments_of_tables(text):
    index = torch.tensor([0, 8, 3, 4, 7, 7, 2])
    mesh = of_text(text)
    compare(
        lambda w, i: F.embedding(i, w, padding_idx=4), [tensor(9, 3), index], [text, None], mesh
    )
    compare(lambda x, i: torch.index_select(x, 0, i), [tensor(9, 3), index], [text, None], mesh)
    compare(lambda x, i: x[i - 9], [tensor(9, 3), index], [text, None], mesh)
    compare(lambda x, i: torch.gather(x, 0, i), [tensor(9), index], [text, None], mesh)


@pytest.mark.parametrize("text", THIRD)
def test_segments_of_queries(text):
    compare(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [tensor(2, 2, 9, 4), tensor(2, 2, 7, 4, seed=1), tensor(2, 2, 7, 4, seed=2)],
        [text, (None,), (None,)],
        of_text(text),
    )


# ---- Modes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_gives_the_types_of_torch(dtype):
    x, w, t = (
        tensor(6, 8, dtype=dtype),
        tensor(4, 8, dtype=torch.float32),
        torch.tensor([0, 1, 2, 3, 0, 1]),
    )

    def fn(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = F.linear(x, w)
            return F.cross_entropy(logits, t), torch.softmax(logits, 1), F.layer_norm(logits, (4,))

    sizes, names = MESHES[0]

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        return [
            whole(r)
            for r in fn(
                distribute_tensor(x, mesh, [Replicate()]), distribute_tensor(w, mesh, [Shard(0)])
            )
        ]

    for results in run_local(on_rank, 2):
        for a, e in zip(results, fn(x, w), strict=True):
            assert a.dtype == e.dtype
            torch.testing.assert_close(a, e, rtol=2e-2, atol=2e-2)


def check_plain(change):
    plain = tensor(3, 4)

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        x = distribute_tensor(tensor(3, 4), mesh, [Shard(1)])
        with hp.checking():
            return whole(x + change(plain, hp.rank()))

    return run_local(on_rank, 4)


def test_checking_accepts_equal_plain_tensors():
    for result in check_plain(lambda t, rank: t):
        torch.testing.assert_close(result, tensor(3, 4) * 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda t, rank: t + (rank == 2) * 1e-9,
        lambda t, rank: t.flip(0) if rank == 2 else t,
        lambda t, rank: t.float() if rank == 2 else t,
        lambda t, rank: t[:1] if rank == 2 else t,
    ],
    ids=["value", "order", "dtype", "shape"],
)
def test_checking_names_the_rank_that_differs(change):
    with pytest.raises(hp.UsageError, match="plain tensor differs between ranks") as error:
        check_plain(change)
    assert "ranks 2" in str(error.value)
