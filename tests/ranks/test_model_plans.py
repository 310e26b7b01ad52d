"""Models of transformers under the plans that they bring, against one device."""

import copy
import sys
from pathlib import Path

import pytest
import torch
from ranks_support import refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import Layout, UsageError
from hyper_parallel.tensor.parallel.model_plans import STYLES, parallelize_model, plan_of_model

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from models import BOUND, MESHES, SIZES, ids, made, step, step_on_ranks, tokens


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", SIZES)
def test_a_step_equals_one_device(name, mesh):
    model = made(name)
    want_loss, want = step(copy.deepcopy(model), ids())
    loss, grads, _ = step_on_ranks(model, mesh)
    assert abs((loss - want_loss).item()) < BOUND
    assert grads.keys() == want.keys()
    for n, grad in want.items():
        assert (grads[n] - grad).abs().max() < BOUND, n


@pytest.mark.parametrize("name", ["Qwen3", "Mixtral", "DeepseekV3"])
def test_greedy_tokens_equal_one_device(name):
    model = made(name)
    want = tokens(copy.deepcopy(model))

    def on_rank():
        return tokens(hp.parallelize_module(copy.deepcopy(model), Layout((2,), ("tp",))))

    for out in hp.run_local(on_rank, 2):
        assert torch.equal(out, want)


def test_nothing_is_gathered_that_need_not_be():
    model = made("Phi3")
    assert step_on_ranks(model, "tp2")[2] < 0.8 * step_on_ranks(model, "tp2", as_written=True)[2]


def test_plans_of_experts():
    model = made("Mixtral")
    want_loss, want = step(copy.deepcopy(model), ids())
    plan = {f"model.{k}": v for k, v in model.config.base_model_ep_plan.items()}

    def on_rank():
        ours = parallelize_model(copy.deepcopy(model), Layout((2,), ("tp",)), plan)
        stack = ours.model.layers[0].mlp.experts.gate_up_proj
        assert str(stack.layout) == "tp=2: S(0)"
        loss, grads = step(ours, ids())
        return loss.full_tensor(), {n: g.full_tensor() for n, g in grads.items()}

    for loss, grads in hp.run_local(on_rank, 2):
        assert abs((loss - want_loss).item()) < BOUND
        for n, grad in want.items():
            assert (grads[n] - grad).abs().max() < BOUND, n


def test_every_style_of_transformers_is_known():
    from transformers.distributed import (
        expert_parallel,  # noqa: F401  (registers its own)
        tensor_parallel,  # noqa: F401
    )
    from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES

    names = set(ALL_PARALLEL_STYLES.keys())
    assert names and names <= set(STYLES)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 12)
        self.embed = nn.Embedding(10, 8)
        self.stack = nn.Parameter(torch.zeros(4, 6, 8))
        self.sinks = nn.Parameter(torch.zeros(8))


LINE = {
    "colwise": ("S(0)", "S(0)", "S(1)"),
    "colwise_gather_output": ("S(0)", "S(0)", "S(1)"),
    "colwise_rep": ("S(0)", "S(0)", "S(1)"),
    "rowwise": ("S(1)", "R", "S(2)"),
    "rowwise_split_input": ("S(1)", "R", "S(2)"),
    "rowwise_rep": ("S(1)", "R", "S(2)"),
    "packed_colwise": ("S(0; segments=6|6)", "S(0; segments=6|6)", "S(1; segments=3|3)"),
    "packed_rowwise": ("S(1; segments=4|4)", "R", "S(2; segments=4|4)"),
    "grouped_gemm": ("S(0)", "S(0)", "S(0)"),
}


@pytest.mark.parametrize("style", sorted(STYLES))
def test_layouts_of_each_style(style):
    want = LINE.get(style, ("R", "R", "R"))
    if style.startswith("embedding"):
        want = None

    def on_rank():
        model = Layer()
        if want is None:
            parallelize_model(model, Layout((2,), ("tp",)), {"embed": style})
            return [str(model.embed.weight.layout)]
        parallelize_model(model, Layout((2,), ("tp",)), {"linear": style, "stack": style})
        tensors = (model.linear.weight, model.linear.bias, model.stack)
        return [str(t.layout) for t in tensors]

    found = hp.run_local(on_rank, 2)[0]
    if want is None:
        want = ("S(0)",) if style == "embedding_rowwise" else ("S(1)",)
    assert found == [f"tp=2: {w}" for w in want]


def test_mistakes():
    layout = Layout((1,), ("tp",))
    refused(UsageError, "HP-P049", plan_of_model, nn.Linear(2, 2))
    text = refused(UsageError, "HP-P050", parallelize_model, Layer(), layout, {"linear": "colwis"})
    assert "colwise" in text
    grid = Layout((1, 1), ("dp", "mp"))
    refused(UsageError, "HP-P042", parallelize_model, Layer(), grid, {"linear": "colwise"})
