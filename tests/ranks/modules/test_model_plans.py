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
from hyper_parallel.modules.model_plans import STYLES, parallelize_model, plan_of_model

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

from model_runs import (
    BOUND,
    MESHES,
    UNEVEN,
    differences,
    step,
    step_on_ranks,
    tokens,
    tokens_on_ranks,
    whole,
)
from model_zoo import entries, inputs, made
from models import DOZEN, read_results

LISTED = {e.name: e for e in entries()}
BEYOND_TEXT = [
    "BertForMaskedLM",
    "T5ForConditionalGeneration",
    "WhisperForConditionalGeneration",
    "Wav2Vec2ForCTC",
    "ResNetForImageClassification",
    "SwinForImageClassification",
    "SegformerForSemanticSegmentation",
    "CLIPModel",
    "Qwen3VLForConditionalGeneration",
]


@pytest.fixture(autouse=True)
def _float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def entry_of(name):
    return LISTED[f"{name}ForCausalLM"]


def compare_step(entry, mesh, **fields):
    model = made(entry, **fields)
    want = step(entry, copy.deepcopy(model), inputs(entry, model))
    assert want.grads
    loss, far = differences(step_on_ranks(entry, model, mesh), want)
    assert loss < BOUND
    assert far < BOUND


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", DOZEN)
def test_a_step_equals_one_device(name, mesh):
    compare_step(entry_of(name), mesh)


@pytest.mark.parametrize("mesh", UNEVEN)
@pytest.mark.parametrize("name", ["Phi3", "Olmo2"])
def test_heads_that_do_not_divide(name, mesh):
    compare_step(entry_of(name), mesh)


@pytest.mark.parametrize("name", BEYOND_TEXT)
def test_a_step_of_other_kinds_equals_one_device(name):
    compare_step(LISTED[name], "dp2xtp2")


@pytest.mark.parametrize("name", ["Qwen3", "Mixtral", "DeepseekV3"])
def test_greedy_tokens_equal_one_device(name):
    entry = entry_of(name)
    model = made(entry)
    want = tokens(entry, copy.deepcopy(model))
    for out in tokens_on_ranks(entry, model, "tp2"):
        assert torch.equal(out, want)


def test_other_experts_equal_one_device():
    compare_step(entry_of("Mixtral"), "dp2xtp2", experts_implementation="batched_mm")


def test_the_table_has_every_model_and_all_are_equal():
    rows = read_results()
    assert {r["model"] for r in rows} == set(LISTED)
    assert {r["result"] for r in rows} == {"equal"}
    assert {r["tokens"] for r in rows} <= {"equal", "-"}


@pytest.mark.parametrize("name", ["Phi3", "Glm4", "Olmo2"])
def test_nothing_is_gathered_that_need_not_be(name):
    entry = entry_of(name)
    model = made(entry)
    ours, written = (step_on_ranks(entry, model, "tp2", as_written=w).sent for w in (False, True))
    assert ours < 0.75 * written


def forward_collectives(name):
    """Count what a step on tp=2 sends in forward."""
    entry = entry_of(name)
    model = made(entry)

    def on_rank():
        ours = hp.parallelize_module(copy.deepcopy(model), Layout((2,), ("tp",)))
        given = inputs(entry, model)
        with hp.comm_report() as report:
            step(entry, ours, given)
        return report

    report = hp.run_local(on_rank, 2)[0]
    rows = [r for r in report.rows if r.phase == "forward"]
    return {(r.kind, r.tensor): sum(r.tensor == q.tensor for q in rows) for r in rows}


# Where layers end in norms the embedding is summed twice, for a norm and for the residual.
@pytest.mark.parametrize(
    ("name", "embedding"), [("Llama", 1), ("Phi3", 1), ("Glm4", 2), ("Gemma2", 2)]
)
def test_two_sums_a_layer_and_two_small_ones_for_the_loss(name, embedding):
    assert forward_collectives(name) == {
        ("all_reduce", "f64[3, 6, 32]"): 2 * 2 + embedding,
        ("all_reduce", "f64[18, 1]"): 2,
    }


def test_plans_of_experts():
    entry = entry_of("Mixtral")
    model = made(entry)
    want = step(entry, copy.deepcopy(model), inputs(entry, model))
    plan = {f"model.{k}": v for k, v in model.config.base_model_ep_plan.items()}

    def on_rank():
        ours = parallelize_model(copy.deepcopy(model), Layout((2,), ("tp",)), plan)
        stack = ours.model.layers[0].mlp.experts.gate_up_proj
        assert str(stack.layout) == "tp=2: S(0)"
        return whole(step(entry, ours, inputs(entry, model)))

    for got in hp.run_local(on_rank, 2):
        loss, far = differences(got, want)
        assert loss < BOUND
        assert far < BOUND


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
