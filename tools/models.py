"""Train small models of transformers under the plans that they bring, and print one table.

    make models
    python tools/models.py Qwen3 Mixtral

Each row is one step on ranks against one device, in float64: the differences, whether greedy tokens
agree, and the bytes that a rank sends: as the plan is taken here, and as it is written, where
outputs are gathered that need not be.
"""

import argparse
import copy
import sys
from pathlib import Path

import torch
import transformers

import hyper_parallel as hp
from hyper_parallel import _torch
from hyper_parallel._core import Replicate
from hyper_parallel.tensor.parallel.model_plans import plan_of_model

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from float64 import KeepFloat64

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
    "Glm4": dict(head_dim=6),
    "Cohere2": dict(head_dim=6),
    "DeepseekV2": {**LATENT, "n_group": 1, "topk_group": 1, "topk_method": "greedy"},
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
    """Run one step: the loss, and the gradients that there are."""
    with KeepFloat64():
        loss = model(input_ids=x, labels=x, use_cache=False).loss
    loss.backward()
    return loss, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def tokens(model):
    """Generate greedily, with a cache."""
    x = ids()[:2]
    options = dict(max_new_tokens=5, do_sample=False, use_cache=True)
    with KeepFloat64(), torch.no_grad():
        out = model.generate(x, attention_mask=torch.ones_like(x), **options)
    return out.full_tensor() if type(out) is hp.DTensor else out


def step_on_ranks(model, mesh, *, as_written=False):
    """Run one step on ranks: the loss, the gradients, and the bytes that a rank sent."""
    sizes, names = MESHES[mesh]

    def on_rank():
        layout = hp.Layout(sizes, names)
        ours = hp.parallelize_module(copy.deepcopy(model), layout)
        if as_written:
            gather(ours, layout)
        x = hp.distribute_tensor(ids(), layout("dp" if "dp" in names else "None", "None"))
        with hp.comm_report() as report:
            loss, grads = step(ours, x)
        sent = sum(row.bytes for row in report.rows)
        return loss.full_tensor(), {n: g.full_tensor() for n, g in grads.items()}, sent

    return hp.run_local(on_rank, 2 if len(sizes) == 1 else 4)[0]


def gather(model, layout):
    """Make whole what the model's plan gathers."""
    axis = layout.alias_name.index("tp")

    def whole(t):
        return _torch.redistribute(t, _torch.layout(t).with_axis(axis, Replicate()))

    for path, style in plan_of_model(model).items():
        for name, module in model.named_modules():
            if not hp._core.path_matches(path, name):
                continue
            if style in ("colwise_gather_output", "colwise_rep"):
                module.register_forward_hook(lambda m, inputs, out: whole(out))


def row(name, mesh):
    """Measure one row of the table."""
    model = made(name)
    want_loss, want = step(copy.deepcopy(model), ids())
    loss, grads, sent = step_on_ranks(model, mesh)
    far = max((grads[n] - g).abs().max().item() for n, g in want.items())
    same = "-"
    if mesh == "tp2":
        there = tokens(copy.deepcopy(model))
        here = hp.run_local(
            lambda: tokens(hp.parallelize_module(copy.deepcopy(model), hp.Layout((2,), ("tp",)))), 2
        )
        same = "yes" if all(torch.equal(t, there) for t in here) else "NO"
    written = step_on_ranks(model, mesh, as_written=True)[2]
    return abs((loss - want_loss).item()), far, same, sent, written


def main() -> int:
    """Print the table; 1 if a model differs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(SIZES)}; all by default")
    wrong = 0
    print(
        f"{'model':12}{'mesh':10}{'loss':>9}{'gradient':>10}{'tokens':>8}{'bytes':>9}{'written':>9}"
    )
    for name in parser.parse_args().models or SIZES:
        for mesh in MESHES:
            loss, far, same, sent, written = row(name, mesh)
            wrong += loss > BOUND or far > BOUND or same == "NO"
            print(
                f"{name:12}{mesh:10}{loss:9.0e}{far:10.0e}{same:>8}{sent:9}{written:9}", flush=True
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    sys.exit(main())
