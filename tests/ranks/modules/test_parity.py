"""One training step of whole models, on one device and over dp x tp x sp meshes: the same loss and
the same gradient of every parameter, float64, sizes that do not divide."""

import copy
import sys
from pathlib import Path

import pytest
import torch

import hyper_parallel as hp

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
from model_runs import BOUND, differences, step, whole
from model_zoo import Entry, made

BATCH, LENGTH, VOCAB = 3, 7, 61  # none divides by 2

# 3 heads divide by no mesh but tp3.
LLAMA = Entry("causal", "LlamaForCausalLM")
GPT2 = Entry("causal", "GPT2LMHeadModel")
BERT = Entry("masked", "BertForMaskedLM")


def llama(attention: str):
    heads = dict(hidden_size=24, head_dim=4, num_attention_heads=6, num_key_value_heads=3)
    model = made(LLAMA, attn_implementation=attention, **heads)
    plan = {
        "model.embed_tokens.weight": ("tp", "None"),
        "model.layers.*.self_attn.[qkv]_proj.weight": ("tp", "None"),
        "model.layers.*.self_attn.o_proj.weight": ("None", "tp"),
        "model.layers.*.mlp.gate_proj.weight": ("tp", "None"),
        "model.layers.*.mlp.up_proj.weight": ("tp", "None"),
        "model.layers.*.mlp.down_proj.weight": ("None", "tp"),
        "lm_head.weight": ("tp", "None"),
    }
    return LLAMA, model, plan


def gpt2(attention: str):
    none = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)  # it trains, too
    model = made(GPT2, n_embd=24, n_head=3, attn_implementation=attention, **none)
    plan = {
        "transformer.wte.weight": ("tp", "None"),  # tied to lm_head.weight
        "transformer.h.*.attn.c_attn.weight": ("None", "tp"),
        "transformer.h.*.attn.c_attn.bias": ("tp",),
        "transformer.h.*.attn.c_proj.weight": ("tp", "None"),
        "transformer.h.*.mlp.c_fc.weight": ("None", "tp"),
        "transformer.h.*.mlp.c_fc.bias": ("tp",),
        "transformer.h.*.mlp.c_proj.weight": ("tp", "None"),
    }
    return GPT2, model, plan


def bert(attention: str):
    model = made(BERT, hidden_size=24, num_attention_heads=3, attn_implementation=attention)
    plan = {
        "bert.embeddings.word_embeddings.weight": ("tp", "None"),
        "bert.encoder.layer.*.attention.self.*.weight": ("tp", "None"),
        "bert.encoder.layer.*.attention.self.*.bias": ("tp",),
        "bert.encoder.layer.*.attention.output.dense.weight": ("None", "tp"),
        "bert.encoder.layer.*.intermediate.dense.weight": ("tp", "None"),
        "bert.encoder.layer.*.intermediate.dense.bias": ("tp",),
        "bert.encoder.layer.*.output.dense.weight": ("None", "tp"),
    }
    return BERT, model, plan


MODELS = {"llama": llama, "gpt2": gpt2, "bert": bert}

MESHES = {
    "tp2": ((2,), ("tp",), ("None", "None")),
    "dp2xtp2": ((2, 2), ("dp", "tp"), ("dp", "None")),
    "dp2xsp2": ((2, 2), ("dp", "sp"), ("dp", "sp")),
    "dp2xtp2xsp2": ((2, 2, 2), ("dp", "tp", "sp"), ("dp", "sp")),
    "tp3": ((3,), ("tp",), ("None", "None")),
}


def tokens() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(VOCAB, (BATCH, LENGTH), generator=generator)
    labels = ids.clone()
    labels[0, 2:4] = -100  # ignored: the ranks count different numbers of tokens
    return {"input_ids": ids, "labels": labels}


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
    entry, model, plan = MODELS[name](attention)
    want = step(entry, copy.deepcopy(model), tokens())

    def on_rank():
        with hp.policy(policy):
            ours = sharded(model, plan, MESHES[mesh], ("input_ids", "labels"))
            got = step(entry, ours, tokens())
            parameters = dict(ours.named_parameters())
            assert all(g.layout == parameters[n].layout for n, g in got.grads.items())
            return whole(got)

    for got in hp.run_local(on_rank, torch.Size(MESHES[mesh][0]).numel()):
        loss, far = differences(got, want)
        assert loss < BOUND
        assert far < BOUND
