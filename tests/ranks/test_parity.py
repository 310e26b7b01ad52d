"""One training step of whole models, on one device and over dp x tp x sp meshes: the same loss and
the same gradient of every parameter, float64, sizes that do not divide."""

import copy
import sys
from pathlib import Path

import pytest
import torch
import transformers

import hyper_parallel as hp

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from float64 import KeepFloat64

BATCH, LENGTH, VOCAB = 3, 7, 61  # none divides by 2

# Two orders of a sum over some hundred terms of size 1, and some layers: 1e-12 leaves a margin of
# a hundred over what is seen (1e-15 to 1e-14).
BOUND = 1e-12


def llama(attention: str):
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=24,
        intermediate_size=30,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        max_position_embeddings=32,
        use_cache=False,
        attn_implementation=attention,
    )
    plan = {
        "model.embed_tokens.weight": ("tp", "None"),
        "model.layers.*.self_attn.[qkv]_proj.weight": ("tp", "None"),
        "model.layers.*.self_attn.o_proj.weight": ("None", "tp"),
        "model.layers.*.mlp.gate_proj.weight": ("tp", "None"),
        "model.layers.*.mlp.up_proj.weight": ("tp", "None"),
        "model.layers.*.mlp.down_proj.weight": ("None", "tp"),
        "lm_head.weight": ("tp", "None"),
    }
    return transformers.LlamaForCausalLM(config), plan


def gpt2(attention: str):
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_embd=24,
        n_layer=2,
        n_head=3,
        n_positions=16,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        attn_implementation=attention,
    )
    plan = {
        "transformer.wte.weight": ("tp", "None"),  # tied to lm_head.weight
        "transformer.h.*.attn.c_attn.weight": ("None", "tp"),
        "transformer.h.*.attn.c_attn.bias": ("tp",),
        "transformer.h.*.attn.c_proj.weight": ("tp", "None"),
        "transformer.h.*.mlp.c_fc.weight": ("None", "tp"),
        "transformer.h.*.mlp.c_fc.bias": ("tp",),
        "transformer.h.*.mlp.c_proj.weight": ("tp", "None"),
    }
    return transformers.GPT2LMHeadModel(config), plan


def bert(attention: str):
    config = transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=30,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )
    plan = {
        "bert.embeddings.word_embeddings.weight": ("tp", "None"),
        "bert.encoder.layer.*.attention.self.*.weight": ("tp", "None"),
        "bert.encoder.layer.*.attention.self.*.bias": ("tp",),
        "bert.encoder.layer.*.attention.output.dense.weight": ("None", "tp"),
        "bert.encoder.layer.*.intermediate.dense.weight": ("tp", "None"),
        "bert.encoder.layer.*.intermediate.dense.bias": ("tp",),
        "bert.encoder.layer.*.output.dense.weight": ("None", "tp"),
    }
    return transformers.BertForMaskedLM(config), plan


MODELS = {"llama": llama, "gpt2": gpt2, "bert": bert}

MESHES = {
    "tp2": ((2,), ("tp",), ("None", "None")),
    "dp2xtp2": ((2, 2), ("dp", "tp"), ("dp", "None")),
    "dp2xsp2": ((2, 2), ("dp", "sp"), ("dp", "sp")),
    "dp2xtp2xsp2": ((2, 2, 2), ("dp", "tp", "sp"), ("dp", "sp")),
    "tp3": ((3,), ("tp",), ("None", "None")),
}


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)
    labels = ids.clone()
    labels[0, 2:4] = -100  # ignored: the ranks count different numbers of tokens
    return ids, labels


def gradients(model, ids, labels):
    with KeepFloat64():
        loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    return loss, {name: p.grad for name, p in model.named_parameters()}


def sharded(model, plan, mesh, inputs):
    sizes, names, entries = mesh
    layout = hp.Layout(sizes, names)

    def known(entry):  # a plan for tp on a mesh without it: whole
        return layout(*("None" if e != "None" and e not in names else e for e in entry))

    return hp.shard_module(
        copy.deepcopy(model),
        {
            "parameter": {k: known(v) for k, v in plan.items()},
            "forward": {"input": {name: layout(*entries) for name in inputs}},
        },
    )


# The ops of a step are the same on every mesh: strict is run on two of them.
RUNS = [(mesh, "auto") for mesh in MESHES] + [("dp2xtp2", "strict"), ("dp2xsp2", "strict")]


@pytest.mark.parametrize(("mesh", "policy"), RUNS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_step_equals_one_device(name, attention, mesh, policy):
    torch.manual_seed(0)
    model, plan = MODELS[name](attention)
    model = model.double().eval()
    ids, labels = tokens()
    want_loss, want = gradients(copy.deepcopy(model), ids, labels)

    def step():
        with hp.policy(policy):
            ours = sharded(model, plan, MESHES[mesh], ("input_ids", "labels"))
            loss, grads = gradients(ours, ids, labels)
            return loss.full_tensor(), {
                n: (g.full_tensor(), g.layout == dict(ours.named_parameters())[n].layout)
                for n, g in grads.items()
            }

    size = 1
    for n in MESHES[mesh][0]:
        size *= n
    for loss, grads in hp.run_local(step, size):
        assert abs((loss - want_loss).item()) < BOUND
        assert grads.keys() == want.keys()
        for n, (grad, own_layout) in grads.items():
            assert own_layout, n
            difference = (grad - want[n]).abs().max().item()
            assert difference < BOUND * max(1.0, want[n].abs().max().item()), n
