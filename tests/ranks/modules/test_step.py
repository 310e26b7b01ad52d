"""Whole steps: Megatron's collectives, accumulation, mixed precision, checkpointing."""

import copy
import sys
from pathlib import Path

import pytest
import test_parity as parity
import torch

import hyper_parallel as hp

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import train_qwen3 as qwen
from float64 import KeepFloat64


@pytest.fixture(scope="module")
def models():
    return {n: qwen.make_model(n) for n in (1, 2)}


@pytest.fixture(scope="module")
def ids():
    return qwen.make_batches(1, 4, 16)[0]


def reports(plan, models, ids):
    def fn():
        return {n: qwen.collectives(plan, models[n], ids) for n in models}

    return hp.run_local(fn, 4)[0]


@pytest.mark.parametrize("name", ["tensor", "sequence"])
def test_collectives_of_a_layer_are_megatrons(name, models, ids):
    plan = qwen.PLAN if name == "tensor" else qwen.SEQUENCE_PLAN

    def fn():
        return qwen.layer_counts(plan, models, ids)

    for counts in hp.run_local(fn, 4):
        assert counts == qwen.MEGATRON[name]


def test_bytes_of_a_layer_are_megatrons(models, ids):
    # V: a whole activation of one dp group, f64. An all-reduce moves 2 (n-1)/n V, a gather or a
    # reduce-scatter (n-1)/n V, on n = 2.
    activation = 2 * 16 * 256 * 8
    for plan, phase, want in (
        (qwen.PLAN, "forward", 2 * activation),
        (qwen.PLAN, "backward", 2 * activation),
        (qwen.SEQUENCE_PLAN, "forward", 2 * activation),
        (qwen.SEQUENCE_PLAN, "backward", 2 * activation),
    ):
        got = reports(plan, models, ids)
        assert got[2].bytes(phase=phase, axes="tp") - got[1].bytes(phase=phase, axes="tp") == want


def test_embedding_head_and_loss(models, ids):
    report = reports(qwen.PLAN, models, ids)[1]
    # Embedding 1, layer 2, and of the loss two reductions of tokens: maximum, sum.
    assert report.count(phase="forward", kind="all_reduce", axes="tp") == 5
    assert report.count(phase="forward", op="aten::cross_entropy_loss", axes="tp") == 2
    # Backward: layer 2, embedding 1 (Megatron has it at the head); nothing for the loss.
    assert report.count(phase="backward", kind="all_reduce", axes="tp") == 3
    # One coalesced reduction for the gradients of parameters replicated over dp, one over dp x tp.
    assert report.count(phase="backward", axes="dp") == 1
    assert report.count(phase="backward", axes=("dp", "tp")) == 1


def accumulate(model, batches, sync_last_only):
    for i, batch in enumerate(batches):
        last = i == len(batches) - 1
        with KeepFloat64():
            if sync_last_only and not last:
                with hp.no_grad_sync():
                    (model(input_ids=batch, labels=batch).loss / len(batches)).backward()
            else:
                (model(input_ids=batch, labels=batch).loss / len(batches)).backward()


@pytest.mark.parametrize("sync_last_only", [True, False])
def test_gradient_accumulation(models, sync_last_only):
    batches = qwen.make_batches(3, 4, 8)
    plain = copy.deepcopy(models[1])
    accumulate(plain, batches, False)
    want = {n: p.grad for n, p in plain.named_parameters()}

    def fn():
        model = hp.shard_module(copy.deepcopy(models[1]), qwen.PLAN)
        with hp.comm_report() as report:
            accumulate(model, batches, sync_last_only)
        over_dp = report.count(phase="backward", axes="dp")
        return over_dp, {n: p.grad.full_tensor() for n, p in model.named_parameters()}

    for over_dp, grads in hp.run_local(fn, 4):
        assert over_dp == (1 if sync_last_only else 3)
        for name, grad in grads.items():
            torch.testing.assert_close(grad, want[name], rtol=1e-11, atol=1e-13)


def test_mixed_precision(models, ids):
    def step(model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        return loss

    plain = copy.deepcopy(models[1]).float()
    want = step(plain)

    def fn():
        model = hp.shard_module(copy.deepcopy(models[1]).float(), qwen.PLAN)
        loss = step(model)
        return loss.full_tensor(), {n: p.grad.full_tensor() for n, p in model.named_parameters()}

    # bfloat16 keeps 8 bits: sums in another order differ by some 1e-2 of their size.
    for loss, grads in hp.run_local(fn, 4):
        assert abs(loss.item() - want.item()) < 2e-2
        for name, p in plain.named_parameters():
            scale = p.grad.norm().item()
            assert (grads[name] - p.grad).norm().item() < 5e-2 * scale + 1e-6, name


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    entry, model, plan = parity.gpt2("sdpa")  # casts nothing in its blocks, so all is float64
    model.train()
    want = parity.step(entry, copy.deepcopy(model), parity.tokens())

    def fn():
        ours = copy.deepcopy(model)
        ours.gradient_checkpointing_enable({"use_reentrant": reentrant})
        ours = parity.sharded(ours, plan, parity.MESHES["dp2xtp2"], ("input_ids", "labels"))
        return parity.whole(parity.step(entry, ours, parity.tokens()))

    for got in hp.run_local(fn, 4):
        loss, far = parity.differences(got, want)
        assert loss < parity.BOUND
        assert far < parity.BOUND


def test_dropout_draws_what_one_device_draws():
    x = torch.randn(5, 6, dtype=torch.float64)
    torch.manual_seed(7)
    want = [torch.nn.functional.dropout(x, 0.4), torch.nn.functional.dropout(x, 0.1)]

    def fn(placements):
        torch.manual_seed(7)
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
        ours = hp.distribute_tensor(x, mesh, placements)
        return [torch.nn.functional.dropout(ours, p).full_tensor() for p in (0.4, 0.1)]

    for placements in ([hp.Shard(0)], [hp.Shard(1)], [hp.Replicate()]):
        for got in hp.run_local(fn, 2, placements):
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b)
