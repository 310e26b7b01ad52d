"""Handlers of look-ups in split tables, and attention of split queries."""

import pytest
import torch
import torch.nn.functional as F
from handlers_support import compare, every_mesh, split, tensor

import hyper_parallel as hp
from hyper_parallel import Partial, Shard, distribute_tensor, init_device_mesh, run_local

# ---- Embedding and look-ups ---------------------------------------------------------------------


IDS = torch.tensor([[0, 2, 1, 2], [2, 0, 0, 1]])


@every_mesh
@split
@pytest.mark.parametrize(
    "cut, ids", [((0,), None), ((0, 0), None), ((0, 1), None), ((0, None), (None, 0))]
)
def test_embedding(cut, ids, size, mesh):
    compare(lambda w, i: F.embedding(i, w), [tensor(size, 4), IDS], [cut, ids], mesh)


@every_mesh
def test_embedding_padding_has_no_gradient(mesh):
    compare(lambda w, i: F.embedding(i, w, padding_idx=2), [tensor(5, 4), IDS], [(0,), None], mesh)


BAG_IDS = torch.tensor([0, 2, 1, 2, 2, 0, 0, 1])
STARTS = torch.tensor([0, 3, 3, 5])


@every_mesh
@split
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize(
    "cut, ids, starts",
    [
        ((0,), None, None),
        ((1,), (None,), (None,)),
        ((None,), (None,), (0,)),
        ((0, None), (None,), (None, 0)),
        ((0, 1), (0,), (0,)),
        ((0, 0), (None,), (0, 0)),
    ],
)
def test_embedding_bag(cut, ids, starts, padding, mode, size, mesh):
    compare(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding),
        [tensor(size, 4), BAG_IDS, STARTS],
        [cut, ids, starts],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("cut", [(0,), (1,), (None,), (0, 0)])
def test_embedding_bag_with_weights(cut, last, mesh):
    starts = torch.tensor([0, 3, 3, 8]) if last else STARTS
    compare(
        lambda w, i, o, s: F.embedding_bag(
            i, w, o, mode="sum", per_sample_weights=s, include_last_offset=last
        ),
        [tensor(5, 4), BAG_IDS, starts, tensor(8, seed=1)],
        [cut, (0,), (0,), (0,)],
        mesh,
    )
    compare(
        lambda w, i: F.embedding_bag(i.view(4, 2), w), [tensor(5, 4), BAG_IDS], [cut, (0,)], mesh
    )


@every_mesh
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("cut", [(0,), (1,), (None,), (0, 1)])
def test_gradients_by_frequency_of_indices(cut, mode, mesh):
    compare(
        lambda w: F.embedding_bag(BAG_IDS, w, STARTS, mode=mode, scale_grad_by_freq=True),
        [tensor(5, 4)],
        [cut],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("cut", [(0,), (1,), (None,), (0, 1)])
def test_sparse_gradients_come_out_dense(cut, mesh):
    for fn in (
        lambda w, sparse: F.embedding(IDS, w, sparse=sparse),
        lambda w, sparse: F.embedding_bag(BAG_IDS, w, STARTS, mode="sum", sparse=sparse),
        lambda w, sparse: F.embedding_bag(BAG_IDS, w, STARTS, mode="mean", sparse=sparse),
    ):
        compare(lambda w, fn=fn: fn(w, isinstance(w, hp.DTensor)), [tensor(5, 4)], [cut], mesh)


@every_mesh
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_rows_that_no_bag_holds_may_be_infinite(mode, mesh):
    table = tensor(6, 4)
    table[3] = torch.inf
    table[5] = torch.nan
    compare(
        lambda w: F.embedding_bag(BAG_IDS, w, STARTS, mode=mode), [table], [(0,)], mesh, grad=False
    )


def test_the_mean_of_a_large_bag_in_half_precision():
    table = torch.ones(4, 2, dtype=torch.bfloat16)
    ids = torch.arange(1000) % 4

    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        w = distribute_tensor(table, mesh, [Shard(0)])
        return F.embedding_bag(ids, w, torch.tensor([0, 700]), mode="mean").full_tensor()

    for result in run_local(on_rank, 2):
        assert torch.equal(result, torch.ones(2, 2, dtype=torch.bfloat16))


@pytest.mark.parametrize("bad", [5, -1])
def test_embedding_bag_refuses_ids_outside_the_table(bad):
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        w = distribute_tensor(tensor(5, 4), mesh, [Shard(0)])
        F.embedding_bag(torch.tensor([0, bad]), w, torch.tensor([0]))

    with pytest.raises(RuntimeError, match="idx"):
        run_local(on_rank, 2)


def test_a_split_table_of_bags_moves_nothing():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        w = distribute_tensor(tensor(5, 4), mesh, [Shard(0)]).requires_grad_()
        with hp.policy("strict"), hp.comm_report() as traffic:
            out = F.embedding_bag(BAG_IDS, w, STARTS, mode="mean")
        with hp.comm_report() as backward:
            out.redistribute(placements=[Shard(0)]).square().sum().backward()
        assert w.grad.placements == (Shard(0),)
        return traffic.count(), [row.kind for row in backward.rows], out.placements

    for forward, backward, placements in run_local(on_rank, 2):
        assert forward == 0 and placements == (Partial(),)
        assert backward == ["reduce_scatter", "all_gather"]


@pytest.mark.parametrize("bad", [5, -1])
def test_embedding_refuses_ids_outside_the_table(bad):
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        F.embedding(torch.tensor([0, bad]), distribute_tensor(tensor(5, 4), mesh, [Shard(0)]))

    with pytest.raises(IndexError):
        run_local(on_rank, 2)


@every_mesh
@split
@pytest.mark.parametrize("cut", [(0,), (0, 0), (0, 1)])
def test_look_ups(cut, size, mesh):
    index = torch.tensor([2, 0, 2, 1])
    rows = index.unsqueeze(1).expand(4, 4).contiguous()
    compare(lambda x, i: torch.index_select(x, 0, i), [tensor(size, 4), index], [cut, None], mesh)
    compare(lambda x, i: torch.gather(x, 0, i), [tensor(size, 4), rows], [cut, None], mesh)
    compare(lambda x, i: x[i], [tensor(size, 4), index], [cut, None], mesh)
    compare(
        lambda x, i: x[i], [tensor(size, 4), torch.tensor([[-1, 0], [-2, 1]])], [cut, None], mesh
    )
    compare(lambda x, i: x[:, i], [tensor(4, size), index], [tuple(1 - d for d in cut), None], mesh)


@pytest.mark.parametrize(
    "look_up, error",
    [
        (lambda x, i: torch.index_select(x, 0, i), IndexError),
        (lambda x, i: torch.gather(x, 0, i), RuntimeError),
        (lambda x, i: x[i], IndexError),
    ],
)
def test_look_ups_refuse_what_torch_refuses(look_up, error):
    x = tensor(5)
    with pytest.raises(error):
        look_up(x, torch.tensor([5]))

    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        look_up(distribute_tensor(x, mesh, [Shard(0)]), torch.tensor([5]))

    with pytest.raises(error):
        run_local(on_rank, 2)


# ---- Attention ----------------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("keys", [2, 5, 7])
@pytest.mark.parametrize("cut", [(2,), (2, 2), (2, 1)])
def test_causal_attention_over_split_queries(cut, keys, size, mesh):
    heads = tuple(1 if d == 1 else None for d in cut)
    compare(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [tensor(2, 2, size, 4), tensor(2, 2, keys, 4, seed=1), tensor(2, 2, keys, 4, seed=2)],
        [cut, heads, heads],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("mask_cut", [None, (0,)])
def test_attention_mask_over_split_queries(mask_cut, mesh):
    compare(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m.detach()),
        [tensor(2, 2, 5, 4), tensor(2, 2, 7, 4, seed=1), tensor(2, 2, 7, 4, seed=2), tensor(5, 7)],
        [(2,), (None,), (None,), mask_cut],
        mesh,
    )
