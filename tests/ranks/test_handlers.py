"""Composite handlers: each op on split operands against the op on one device.

Every case runs on meshes of 2 and 4 ranks and on 2 x 2 ranks, with a dim of 5 (uneven) and one of 3
(some ranks get nothing) cut over one axis or over both, forward and backward.
"""

import functools

import pytest
import torch
import torch.nn.functional as F

import hyper_parallel as hp
from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, run_local

MESHES = [((2,), ("tp",)), ((4,), ("tp",)), ((2, 2), ("dp", "tp"))]
EXACT = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def tensor(*sizes, dtype=torch.float64, seed=0):
    """Make values that lie apart, so that no two are equal."""
    generator = torch.Generator().manual_seed(seed + sum(s * 7**i for i, s in enumerate(sizes)))
    return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)


def placements(ndim, cut):
    """Give the axes of a mesh of ``ndim`` axes: ``cut`` names a dim (or None) for each, from the last."""
    dims = [None] * ndim
    for i, dim in enumerate(cut[:ndim]):
        dims[ndim - 1 - i] = dim
    return [Replicate() if dim is None else Shard(dim) for dim in dims]


def close(actual, expected, dtype, what):
    tolerance = EXACT.get(expected.dtype, EXACT.get(dtype, 0))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}")


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def compare(fn, operands, cuts, mesh_sizes, *, grad=True, create_graph=False, strict=True):
    """Run ``fn(*operands)`` on one device and on ranks; compare results and gradients.

    ``cuts`` has a tuple of dims for each operand, None for a plain one.
    """
    sizes, names = mesh_sizes

    def leaves(values):
        return [v.clone().requires_grad_(grad and v.is_floating_point()) for v in values]

    def loss_of(results):
        parts = [r for r in results if r.is_floating_point() and r.requires_grad]
        total = 0.0
        for i, r in enumerate(parts):
            weight = tensor(*r.shape, seed=50 + i, dtype=r.dtype)
            total = total + (r * weight).sum()
        return total if parts else None

    single = leaves(operands)
    expected = as_list(fn(*single))
    expected_grads = gradients(loss_of(expected), single, create_graph)

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        wrapped = []
        for leaf, cut in zip(leaves(operands), cuts, strict=True):
            if cut is None:
                wrapped.append(leaf)
            else:
                layout = placements(len(sizes), cut)
                value = distribute_tensor(leaf.detach(), mesh, layout)
                wrapped.append(value.requires_grad_(leaf.requires_grad))
        with hp.policy("strict" if strict else "auto"):
            results = as_list(fn(*wrapped))
            loss = loss_of(results)
            grads = gradients(loss, wrapped, create_graph)
        return [whole(r) for r in results], [whole(g) for g in grads]

    for rank, (results, grads) in enumerate(run_local(on_rank, functools.reduce(int.__mul__, sizes))):
        for i, (a, e) in enumerate(zip(results, expected, strict=True)):
            assert a.dtype == e.dtype
            close(a, e.detach(), operands[0].dtype, f"rank {rank} result {i}")
        for i, (a, e) in enumerate(zip(grads, expected_grads, strict=True)):
            assert (a is None) == (e is None), f"rank {rank} gradient {i}"
            if e is not None:
                close(a, e, operands[0].dtype, f"rank {rank} gradient {i}")


def gradients(loss, leaves, create_graph):
    wanted = [x for x in leaves if x.requires_grad]
    if loss is None or not wanted:
        return []
    grads = torch.autograd.grad(loss, wanted, create_graph=create_graph, allow_unused=True)
    if not create_graph:
        return list(grads)
    # A second time, of a function of the first gradients that is not linear in them.
    square = sum((g * g).sum() for g in grads if g is not None)
    return [*grads, *torch.autograd.grad(square, wanted, allow_unused=True)]


def whole(t):
    if t is None:
        return None
    return (t.full_tensor() if isinstance(t, hp.DTensor) else t).detach()


every_mesh = pytest.mark.parametrize("mesh", MESHES, ids=["2", "4", "2x2"])
split = pytest.mark.parametrize("size", [5, 3], ids=["uneven", "empty"])


# ---- Softmax -------------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_softmax(op, cut, size, mesh):
    compare(lambda x: op(x, 1), [tensor(4, size)], [cut], mesh)


@every_mesh
@pytest.mark.parametrize("op", [torch.softmax, torch.log_softmax])
def test_softmax_converts_its_input_to_dtype(op, mesh):
    compare(lambda x: op(x, -1, dtype=torch.float64), [tensor(4, 5, dtype=torch.float32)], [(1, 0)], mesh)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("op", [torch.softmax, torch.log_softmax])
def test_softmax_of_half_types(op, dtype):
    compare(lambda x: op(x, 1), [tensor(4, 37, dtype=dtype)], [(1,)], MESHES[0], grad=False)


def test_softmax_of_infinities():
    x = tensor(4, 5)
    x[0] = -torch.inf
    x[1, 2] = torch.inf
    x[2, :3] = -torch.inf
    x[3, 1] = torch.nan
    sizes, names = MESHES[1]

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        return whole(torch.softmax(distribute_tensor(x, mesh, [Shard(1)]), 1))

    for result in run_local(on_rank, 4):
        torch.testing.assert_close(result, torch.softmax(x, 1), equal_nan=True)


@every_mesh
def test_softmax_twice_differentiable(mesh):
    compare(lambda x: torch.softmax(x, 1), [tensor(3, 5)], [(1,)], mesh, create_graph=True)


@every_mesh
@split
@pytest.mark.parametrize("dims, keepdim", [(1, False), (1, True), ((0, 1), False)])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_logsumexp(dims, keepdim, cut, size, mesh):
    compare(lambda x: torch.logsumexp(x, dims, keepdim), [tensor(4, size)], [cut], mesh)


def test_logsumexp_of_a_row_of_minus_infinity():
    x = tensor(3, 5)
    x[1] = -torch.inf
    compare(lambda x: torch.logsumexp(x, 1), [x], [(1,)], MESHES[1], grad=False)


# ---- Norms ---------------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("cut", [(2,), (2, 2), (2, 0), (1, 2)])
def test_layer_norm(cut, size, mesh):
    parameter = tuple(None if d is None else d - 1 if d > 0 else None for d in cut)
    compare(
        lambda x, w, b: F.layer_norm(x, (4, size), w, b),
        [tensor(3, 4, size), tensor(4, size, seed=1), tensor(4, size, seed=2)],
        [cut, parameter, parameter],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_layer_norm_with_plain_parameters(cut, mesh):
    compare(
        lambda x, w, b: F.layer_norm(x, (5,), w, b, eps=1e-3),
        [tensor(4, 5), tensor(5, seed=1), tensor(5, seed=2)],
        [cut, None, None],
        mesh,
    )


@every_mesh
@split
@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_rms_norm(cut, eps, size, mesh):
    parameter = tuple(0 if d == 1 else None for d in cut)
    compare(
        lambda x, w: F.rms_norm(x, (size,), w, eps),
        [tensor(4, size), tensor(size, seed=1)],
        [cut, parameter],
        mesh,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rms_norm_epsilon_of_half_types(dtype):
    compare(lambda x: F.rms_norm(x, (6,)), [tensor(3, 6, dtype=dtype) * 1e-3], [(1,)], MESHES[0], grad=False)


def test_layer_norm_twice_differentiable():
    compare(lambda x: F.layer_norm(x, (5,)), [tensor(3, 5)], [(1,)], MESHES[0], create_graph=True)


def test_layer_norm_is_exact_far_from_zero():
    """One device is wrong by 1e-3 here, so the reference is in float64."""
    x = tensor(3, 64, dtype=torch.float32) + 1e4

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        return whole(F.layer_norm(distribute_tensor(x, mesh, [Shard(1)]), (64,)))

    for result in run_local(on_rank, 4):
        torch.testing.assert_close(result.double(), F.layer_norm(x.double(), (64,)), rtol=0, atol=1e-6)


# ---- Linear --------------------------------------------------------------------------------


@every_mesh
@split
def test_linear_with_a_split_sum(size, mesh):
    compare(
        F.linear,
        [tensor(4, size), tensor(3, size, seed=1), tensor(3, seed=2)],
        [(1,), (1,), (None,)],
        mesh,
    )


@every_mesh
def test_linear_bias_of_infinity_is_not_nan(mesh):
    bias = torch.tensor([torch.inf, 1.0, -torch.inf], dtype=torch.float64)
    compare(F.linear, [tensor(4, 5), tensor(3, 5, seed=1), bias], [(1,), (1,), (None,)], mesh, grad=False)


@every_mesh
def test_addmm_keeps_alpha_and_beta(mesh):
    compare(
        lambda c, a, b: torch.addmm(c, a, b, alpha=2, beta=3),
        [tensor(4, 3), tensor(4, 5, seed=1), tensor(5, 3, seed=2)],
        [(None,), (1,), (0,)],
        mesh,
    )


@every_mesh
def test_addmv_and_baddbmm(mesh):
    compare(torch.addmv, [tensor(4), tensor(4, 5), tensor(5)], [(None,), (1,), (0,)], mesh)
    compare(torch.baddbmm, [tensor(2, 4, 3), tensor(2, 4, 5), tensor(2, 5, 3)], [(None,), (2,), (1,)], mesh)


# ---- Embedding and look-ups ----------------------------------------------------------------


IDS = torch.tensor([[0, 2, 1, 2], [2, 0, 0, 1]])


@every_mesh
@split
@pytest.mark.parametrize("cut, ids", [((0,), None), ((0, 0), None), ((0, 1), None), ((0, None), (None, 0))])
def test_embedding(cut, ids, size, mesh):
    compare(lambda w, i: F.embedding(i, w), [tensor(size, 4), IDS], [cut, ids], mesh)


@every_mesh
def test_embedding_padding_has_no_gradient(mesh):
    compare(lambda w, i: F.embedding(i, w, padding_idx=2), [tensor(5, 4), IDS], [(0,), None], mesh)


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
    compare(lambda x, i: x[i], [tensor(size, 4), torch.tensor([[-1, 0], [-2, 1]])], [cut, None], mesh)
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


# ---- Losses --------------------------------------------------------------------------------


TARGET = torch.tensor([0, 2, -100, 1, 2, 0])


@every_mesh
@split
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cut, target", [((1,), (None,)), ((1, 1), (None,)), ((1, 0), (None, 0)), ((0,), (0,))])
def test_cross_entropy(cut, target, smoothing, weighted, reduction, size, mesh):
    weight = [tensor(size).abs() + 0.1] if weighted else []
    compare(
        lambda x, t, *w: F.cross_entropy(x, t, *(u.detach() for u in w), reduction=reduction, label_smoothing=smoothing),
        [tensor(6, size), TARGET, *weight],
        [cut, target, *([None] if weighted else [])],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cut, target", [((1,), (None,)), ((1, 0), (None, 0)), ((2,), (1,)), ((1, 2), (None, 1))])
def test_cross_entropy_with_more_dims(cut, target, smoothing, reduction, mesh):
    targets = torch.tensor([[0, 4, 1], [3, -1, 2], [1, 1, 0], [2, 4, -1]])
    compare(
        lambda x, t: F.cross_entropy(x, t, ignore_index=-1, reduction=reduction, label_smoothing=smoothing),
        [tensor(4, 5, 3), targets],
        [cut, target],
        mesh,
    )


@every_mesh
def test_cross_entropy_of_one_token(mesh):
    compare(F.cross_entropy, [tensor(5), torch.tensor(3)], [(0,), None], mesh)


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cut", [(1,), (0,), (1, 1), (1, 0)])
def test_cross_entropy_with_distributions(cut, smoothing, reduction, mesh):
    target = torch.softmax(tensor(6, 5, seed=3), 1)
    compare(
        lambda x, t, w: F.cross_entropy(x, t, w.detach(), reduction=reduction, label_smoothing=smoothing),
        [tensor(6, 5), target, tensor(5).abs()],
        [cut, cut, None],
        mesh,
    )


@pytest.mark.parametrize("mesh", MESHES[:1] + MESHES[2:], ids=["2", "2x2"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_twice_differentiable(smoothing, mesh):
    compare(
        lambda x, t: F.cross_entropy(x, t, label_smoothing=smoothing),
        [tensor(6, 5), TARGET],
        [(1, 0), (None, 0)],
        mesh,
        create_graph=True,
    )


def test_cross_entropy_where_every_token_is_ignored():
    compare(lambda x, t: F.cross_entropy(x, t, reduction="sum"), [tensor(2, 5), torch.full((2,), -100)], [(1,), None], MESHES[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_cross_entropy_of_half_types(dtype):
    compare(F.cross_entropy, [tensor(6, 37, dtype=dtype), TARGET], [(1,), None], MESHES[0])


def test_cross_entropy_refuses_targets_outside_the_classes():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        F.cross_entropy(distribute_tensor(tensor(2, 5), mesh, [Shard(1)]), torch.tensor([0, 5]))

    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        run_local(on_rank, 2)


def test_cross_entropy_moves_two_numbers_a_token_and_nothing_backward():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = distribute_tensor(tensor(6, 5), mesh, [Shard(1)]).requires_grad_()
        with hp.comm_report() as forward:
            loss = F.cross_entropy(x, TARGET)
        with hp.comm_report() as backward:
            loss.backward()
        return loss.layout, [r.kind for r in forward.rows], [r.kind for r in backward.rows]

    for layout, forward, backward in run_local(on_rank, 2):
        assert str(layout.placements) and forward == ["all_reduce", "all_reduce"] and backward == []


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cut, target", [((1,), (None,)), ((1, 0), (None, 0)), ((0,), (0,))])
def test_nll_loss(cut, target, weighted, reduction, mesh):
    weight = [tensor(5).abs() + 0.1] if weighted else []
    compare(
        lambda x, t, *w: F.nll_loss(x, t, *(u.detach() for u in w), reduction=reduction),
        [tensor(6, 5), TARGET, *weight],
        [cut, target, *([None] if weighted else [])],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("cut", [(0,), (1,), (1, 0), (0, 0)])
def test_mean_of_losses_of_pairs(loss, cut, mesh):
    compare(loss, [tensor(5, 3), tensor(5, 3, seed=1)], [cut, cut], mesh)


# ---- Attention -----------------------------------------------------------------------------


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


# ---- Selection -----------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.argmax, torch.argmin])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_argmax(op, cut, size, mesh):
    x = tensor(4, size)
    for keepdim in (False, True):
        compare(lambda x, k=keepdim: op(x, 1, k), [x], [cut], mesh, strict=False)
        compare(lambda x, k=keepdim: op(x, None, k), [x], [cut], mesh, strict=False)
    compare(lambda x: op(x, 1), [(x * 3).round().long()], [cut], mesh, strict=False)


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.max, torch.min])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_minmax_dim(op, cut, size, mesh):
    for keepdim in (False, True):
        compare(lambda x, k=keepdim: op(x, 1, keepdim=k), [tensor(4, size)], [cut], mesh)
    compare(lambda x: op(x, 1), [(tensor(4, size) * 2).round().int()], [cut], mesh)


@pytest.mark.parametrize("op", [torch.max, torch.min])
def test_minmax_of_equal_values_and_nan(op):
    x = torch.tensor(
        [[1.0, 1, 1, 1, 1], [0, torch.nan, 3, torch.nan, 1], [torch.inf] * 5, [-torch.inf] * 5],
        dtype=torch.float64,
    )

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        return [whole(r) for r in op(distribute_tensor(x, mesh, [Shard(1)]), 1)]

    for values, indices in run_local(on_rank, 4):
        torch.testing.assert_close(values, op(x, 1).values, equal_nan=True)
        assert indices.tolist() == op(x, 1).indices.tolist()


@every_mesh
@split
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_topk(cut, largest, k, size, mesh):
    compare(lambda x: torch.topk(x, k, 1, largest), [tensor(4, size)], [cut], mesh)
    x = torch.randperm(4 * size, generator=torch.Generator().manual_seed(1)).view(4, size)
    compare(lambda x: torch.topk(x, k, 1, largest), [x], [cut], mesh)


@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_nan_and_infinity(largest):
    x = torch.tensor([[1.0, torch.nan, -torch.inf, 2, torch.inf], [-torch.inf] * 5, [torch.inf] * 5, [torch.nan] * 5])

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        values, indices = torch.topk(distribute_tensor(x, mesh, [Shard(1)]), 5, 1, largest)
        return whole(values), whole(indices)

    for values, indices in run_local(on_rank, 4):
        torch.testing.assert_close(values, torch.topk(x, 5, 1, largest).values, equal_nan=True)
        assert all(sorted(row) == [0, 1, 2, 3, 4] for row in indices.tolist())


@every_mesh
@split
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_sort(cut, descending, size, mesh):
    x = tensor(4, size)
    compare(lambda x: torch.sort(x, 1, descending), [x], [cut], mesh)
    compare(lambda x: torch.argsort(x, 1, descending), [x], [cut], mesh)
    compare(lambda x: torch.sort(x, dim=1, stable=True), [(x * 2).round()], [cut], mesh)


# ---- Reductions ----------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_mean(cut, size, mesh):
    x = tensor(4, size)
    compare(torch.mean, [x], [cut], mesh)
    compare(lambda x: x.mean(1), [x], [cut], mesh)
    compare(lambda x: x.mean((0, 1), keepdim=True), [x], [cut], mesh)
    compare(lambda x: x.mean(1, dtype=torch.float64), [x.float()], [cut], mesh)


def test_mean_of_half_types_does_not_overflow():
    compare(torch.mean, [torch.full((2000,), 100.0, dtype=torch.float16)], [(0,)], MESHES[0])


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.var, torch.std])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_var(op, cut, size, mesh):
    x = tensor(4, size)
    compare(op, [x], [cut], mesh)
    compare(lambda x: op(x, 1), [x], [cut], mesh)
    compare(lambda x: op(x, 1, keepdim=True, correction=0), [x], [cut], mesh)
    compare(lambda x: op(x, (0, 1), unbiased=False), [x], [cut], mesh)


def test_std_of_equal_values_has_gradient_zero():
    compare(lambda x: torch.std(x, 1), [torch.ones(2, 5, dtype=torch.float64)], [(1,)], MESHES[0])


def test_var_twice_differentiable():
    compare(lambda x: torch.var(x, 1), [tensor(3, 5)], [(1,)], MESHES[0], create_graph=True)


@every_mesh
@split
@pytest.mark.parametrize("p", [2, 1, 3, 0.5, 0, -1, torch.inf, -torch.inf])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_vector_norm(cut, p, size, mesh):
    x = tensor(4, size)
    compare(lambda x: torch.linalg.vector_norm(x, p, 1), [x], [cut], mesh)
    compare(lambda x: torch.linalg.vector_norm(x, p), [x], [cut], mesh)
    compare(lambda x: torch.norm(x, p, 1, keepdim=True), [x], [cut], mesh)


@pytest.mark.parametrize("p", [2, 1, 3, torch.inf])
def test_vector_norm_at_zero_and_at_equal_values(p):
    compare(lambda x: torch.linalg.vector_norm(x, p, 1), [torch.zeros(2, 5, dtype=torch.float64)], [(1,)], MESHES[1])
    compare(lambda x: torch.linalg.vector_norm(x, p, 1), [torch.ones(2, 5, dtype=torch.float64)], [(1,)], MESHES[1])


def test_vector_norm_of_nan():
    x = tensor(2, 5)
    x[0, 4] = torch.nan

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        return whole(torch.linalg.vector_norm(distribute_tensor(x, mesh, [Shard(1)]), torch.inf, 1))

    for result in run_local(on_rank, 4):
        torch.testing.assert_close(result, torch.linalg.vector_norm(x, torch.inf, 1), equal_nan=True)


@every_mesh
@pytest.mark.parametrize("p", [2, 1, torch.inf])
@pytest.mark.parametrize("grad", [True, False])
def test_foreach_norm(p, grad, mesh):
    compare(
        lambda *x: torch._foreach_norm(x, p),
        [tensor(4, 5), tensor(7), tensor(2, 3), tensor(6, 2)],
        [(1,), (0,), (None,), (0, 0)],
        mesh,
        grad=grad,
    )


def test_foreach_norm_is_one_collective():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        tensors = [distribute_tensor(tensor(4, n), mesh, [Shard(1)]) for n in (3, 4, 5, 6)]
        with hp.comm_report() as report:
            torch._foreach_norm(tensors)
        return [r.kind for r in report.rows]

    assert run_local(on_rank, 2) == [["all_reduce"]] * 2


@every_mesh
@split
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_cumsum(cut, size, mesh):
    compare(lambda x: torch.cumsum(x, 1), [tensor(4, size)], [cut], mesh)
    compare(lambda x: torch.cumsum(x, 1), [torch.arange(4 * size).view(4, size).int()], [cut], mesh)
    compare(lambda x: torch.cumsum(x, 1, dtype=torch.float64), [tensor(4, size).float()], [cut], mesh)


def test_cumsum_twice_differentiable():
    compare(lambda x: torch.cumsum(x, 1) ** 2, [tensor(3, 5)], [(1,)], MESHES[1], create_graph=True)


@every_mesh
def test_squeeze_looks_at_global_sizes(mesh):
    for fn in (
        lambda x: x.squeeze(),
        lambda x: x.squeeze(1),
        lambda x: x.squeeze((0, 1)),
    ):
        compare(fn, [tensor(4, 1, 2)], [(0,)], mesh)
