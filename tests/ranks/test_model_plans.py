"""Models of transformers under the plans that they bring, against one device."""

import copy

import pytest
import torch
from ranks_support import refused
from test_parity import KeepFloat64
from torch import nn

import hyper_parallel as hp
from hyper_parallel import Layout, UsageError
from hyper_parallel.tensor.parallel.model_plans import STYLES, parallelize_model, plan_of_model

transformers = pytest.importorskip("transformers")

BOUND = 1e-12
VOCAB, LENGTH = 64, 6

COMMON = dict(
    vocab_size=VOCAB,
    hidden_size=24,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
    tie_word_embeddings=False,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
EXPERTS = dict(num_experts_per_tok=2, output_router_logits=True)
LATENT = dict(
    moe_intermediate_size=16,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    n_group=2,
    topk_group=1,
    kv_lora_rank=8,
    q_lora_rank=12,
    qk_rope_head_dim=4,
    qk_nope_head_dim=6,
    v_head_dim=6,
    first_k_dense_replace=1,
    num_key_value_heads=4,
    head_dim=4,
)
SIZES = {
    "Llama": dict(intermediate_size=30),
    "Qwen3": dict(head_dim=6),
    "Mixtral": dict(num_local_experts=4, **EXPERTS),
    "Qwen3Moe": dict(head_dim=6, moe_intermediate_size=16, num_experts=4, **EXPERTS),
    "DeepseekV3": LATENT,
    "Phi3": {},
    "Gemma2": dict(head_dim=6),
    "Olmo2": {},
    "GptOss": dict(head_dim=6, num_local_experts=4, num_experts_per_tok=2),
}
MESHES = {"tp2": ((2,), ("tp",)), "dp2xtp2": ((2, 2), ("dp", "tp"))}


def made(name):
    config = getattr(transformers, f"{name}Config")(**{**COMMON, **SIZES[name]})
    config._experts_implementation = "eager"
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config).double().eval()


def ids():
    return torch.randint(3, VOCAB, (4, LENGTH), generator=torch.Generator().manual_seed(1))


def step(model, x):
    with KeepFloat64():
        loss = model(input_ids=x, labels=x, use_cache=False).loss
    loss.backward()
    return loss, {n: p.grad for n, p in model.named_parameters()}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", SIZES)
def test_a_step_equals_one_device(name, mesh):
    model = made(name)
    want_loss, want = step(copy.deepcopy(model), ids())
    sizes, names = MESHES[mesh]

    def on_rank():
        layout = Layout(sizes, names)
        ours = hp.parallelize_module(copy.deepcopy(model), layout)
        x = hp.distribute_tensor(ids(), layout("dp" if "dp" in names else "None", "None"))
        loss, grads = step(ours, x)
        cut = sum(p.layout.placements[-1].is_shard() for p in ours.parameters())
        return loss.full_tensor(), {n: g.full_tensor() for n, g in _present(grads)}, cut

    for loss, grads, cut in hp.run_local(on_rank, 2 if len(sizes) == 1 else 4):
        assert cut >= 2  # the embedding and the head at least
        assert abs((loss - want_loss).item()) < BOUND
        for n, grad in _present(want):
            assert (grads[n] - grad).abs().max() < BOUND, n
        assert grads.keys() == dict(_present(want)).keys()


def _present(grads):
    return [(n, g) for n, g in grads.items() if g is not None]


@pytest.mark.parametrize("name", ["Qwen3", "Mixtral", "DeepseekV3"])
def test_greedy_tokens_equal_one_device(name):
    model = made(name)
    options = dict(max_new_tokens=5, do_sample=False, use_cache=True)

    def tokens(model):
        x = ids()[:2]
        with KeepFloat64(), torch.no_grad():
            return model.generate(x, attention_mask=torch.ones_like(x), **options)

    want = tokens(copy.deepcopy(model))

    def on_rank():
        ours = hp.parallelize_module(copy.deepcopy(model), Layout((2,), ("tp",)))
        out = tokens(ours)
        return out.full_tensor() if type(out) is hp.DTensor else out

    for out in hp.run_local(on_rank, 2):
        assert torch.equal(out, want)


def test_plans_of_experts():
    model = made("Mixtral")
    want_loss, want = step(copy.deepcopy(model), ids())
    plan = {f"model.{k}": v for k, v in model.config.base_model_ep_plan.items()}

    def on_rank():
        ours = parallelize_model(copy.deepcopy(model), Layout((2,), ("tp",)), plan)
        stack = ours.model.layers[0].mlp.experts.gate_up_proj
        assert str(stack.layout) == "tp=2: S(0)"
        loss, grads = step(ours, ids())
        return loss.full_tensor(), {n: g.full_tensor() for n, g in _present(grads)}

    for loss, grads in hp.run_local(on_rank, 2):
        assert abs((loss - want_loss).item()) < BOUND
        for n, grad in _present(want):
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
