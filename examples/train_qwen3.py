"""Train a small Qwen3 on one device and on a mesh of ranks, and show that the steps are equal.

The model is an unmodified transformers ``Qwen3ForCausalLM`` (random weights), the text is the
standard library's ``pydoc_data.topics`` as bytes. The same weights and batches are trained

  * on one device,
  * on a mesh dp=2 x tp=2, tensors split as ``PLAN`` says,
  * the same with sequence parallelism (``SEQUENCE_PLAN`` added).

    python examples/train_qwen3.py                          ranks are threads of this process
    torchrun --nproc-per-node=4 examples/train_qwen3.py     ranks are processes (Gloo)

Prints a table of losses, the largest gradient differences, and the collectives of one layer beside
Megatron-LM's; writes ``out/train_qwen3.html``. The last line is ``PASS ...`` or ``FAIL ...``.
"""

import argparse
import copy
import os
import pathlib
import pydoc_data.topics
import sys
import time

import report_html
import torch
from float64 import KeepFloat64
from tqdm import tqdm
from transformers import Qwen3Config, Qwen3ForCausalLM

import hyper_parallel as hp

BOUND = 1e-10  # float64: losses and gradients of all three runs agree to this
WORLD = 4

layout = hp.Layout((2, 2), ("dp", "tp"))
ROWS, COLUMNS = layout("tp", "None"), layout("None", "tp")
BATCH = layout("dp", "None")
TOKENS, SEQUENCE = layout("dp", "None", "None"), layout("dp", "tp", "None")

# The seeds' dict: how parameters and the inputs of the model lie. All else is derived.
PLAN = {
    "parameter": {
        "model.embed_tokens.weight": ROWS,
        "model.layers.*.self_attn.[qkv]_proj.weight": ROWS,
        "model.layers.*.self_attn.o_proj.weight": COLUMNS,
        "model.layers.*.mlp.gate_proj.weight": ROWS,
        "model.layers.*.mlp.up_proj.weight": ROWS,
        "model.layers.*.mlp.down_proj.weight": COLUMNS,
        "lm_head.weight": ROWS,
    },
    "forward": {
        "input": {"input_ids": BATCH, "labels": BATCH},
        "model.embed_tokens.output": TOKENS,
    },
}

# Sequence parallelism: between the blocks the sequence is split over tp.
SEQUENCE_PLAN = {
    "parameter": PLAN["parameter"],
    "forward": {
        **PLAN["forward"],
        "model.embed_tokens.output": SEQUENCE,
        "model.layers.*.self_attn.input": {"hidden_states": TOKENS},
        "model.layers.*.self_attn.o_proj.output": SEQUENCE,
        "model.layers.*.mlp.input": [TOKENS],
        "model.layers.*.mlp.output": [SEQUENCE],
        "lm_head.input": [TOKENS],
    },
}


def make_model(layers: int, seed: int = 0) -> Qwen3ForCausalLM:
    """The model on one device, float64, weights from `seed`."""
    config = Qwen3Config(
        vocab_size=256,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation="sdpa",
    )
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config).double()


def make_batches(steps: int, batch: int, length: int) -> list[torch.Tensor]:
    """`steps` batches of bytes, each [batch, length]."""
    text = "\n".join(pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics))
    data = torch.tensor(list(text.encode()), dtype=torch.long)
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(len(data) - length, (steps, batch), generator=generator)
    return [torch.stack([data[s : s + length] for s in row]) for row in starts.tolist()]


def train(model, batches, progress):
    """Train; returns the losses, the first step's gradients (whole) and the seconds a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    losses, first_grads, seconds = [], {}, []
    for ids in batches:
        begin = time.perf_counter()
        with KeepFloat64():  # the model's own casts to float32 would hide differences below 1e-7
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        if not first_grads:
            first_grads = {n: whole(p.grad).clone() for n, p in model.named_parameters()}
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
        progress()
    return losses, first_grads, min(seconds)


def whole(t: torch.Tensor) -> torch.Tensor:
    return t.full_tensor() if isinstance(t, hp.DTensor) else t


def collectives(plan, model, ids: torch.Tensor):
    """The collectives of one step of `model`, on this rank."""
    model = hp.shard_module(copy.deepcopy(model), plan)
    with hp.comm_report() as report:
        model(input_ids=ids, labels=ids).loss.backward()
    return report


def layer_counts(plan, models, ids) -> dict[tuple[str, str], int]:
    """Collectives over tp that one more layer adds: {(phase, kind): count}."""
    one, two = (collectives(plan, models[n], ids) for n in (1, 2))

    def count(report, phase, kind):
        return report.count(phase=phase, kind=kind, axes="tp")

    keys = sorted({(row.phase, row.kind) for row in two.rows})
    return {k: n for k in keys if (n := count(two, *k) - count(one, *k))}


# What Megatron-LM issues a layer over its tensor-parallel group. With sequence parallelism its
# backward gathers the two inputs again, which it does not keep; ours are kept.
# Source: Megatron-LM core/tensor_parallel/layers.py and mappings.py.
MEGATRON = {
    "tensor": {("forward", "all_reduce"): 2, ("backward", "all_reduce"): 2},
    "sequence": {
        ("forward", "all_gather"): 2,
        ("forward", "reduce_scatter"): 2,
        ("backward", "all_gather"): 2,
        ("backward", "reduce_scatter"): 2,
    },
}


def parallel_part(arguments, models, bar) -> dict:
    """What each rank does. Returns the results of both plans. `models` by number of layers: made
    once, since ranks that are threads share torch's random generator."""
    batches = make_batches(arguments.steps, arguments.batch, arguments.length)
    out = {}
    for name, plan in (("tensor", PLAN), ("sequence", SEQUENCE_PLAN)):
        model = hp.shard_module(copy.deepcopy(models[arguments.layers]), plan)
        out[name] = train(model, batches, bar if hp.rank() == 0 else lambda: None)
    out["counts"] = {
        "tensor": layer_counts(PLAN, models, batches[0]),
        "sequence": layer_counts(SEQUENCE_PLAN, models, batches[0]),
    }
    out["report"] = collectives(PLAN, models[1], batches[0])
    return out


def compare(arguments, single, parallel) -> tuple[float, float]:
    """Print the tables; returns the largest loss and gradient differences."""
    names = {"tensor": "dp=2 tp=2", "sequence": "with sequence parallel"}
    print(f"\n{'step':>4}  {'one device':>16}", end="")
    print("".join(f"  {names[k]:>22}  {'difference':>10}" for k in names))
    loss_diff = 0.0
    for i, loss in enumerate(single[0]):
        line = f"{i:>4}  {loss:>16.12f}"
        for key in names:
            other = parallel[key][0][i]
            loss_diff = max(loss_diff, abs(loss - other))
            line += f"  {other:>22.12f}  {abs(loss - other):>10.1e}"
        print(line)

    grad_diff, rows = 0.0, []
    for name, grad in single[1].items():
        scale = max(grad.abs().max().item(), 1e-30)
        for key in names:
            diff = (grad - parallel[key][1][name]).abs().max().item()
            rows.append((diff, diff / scale, name, names[key]))
            grad_diff = max(grad_diff, diff)
    print("\nlargest gradient differences of the first step (float64)")
    print(f"  {'absolute':>9}  {'relative':>9}  parameter")
    for diff, relative, name, run in sorted(rows, reverse=True)[:8]:
        print(f"  {diff:>9.1e}  {relative:>9.1e}  {name} ({run})")

    print("\ncollectives of one layer over tp           ours  Megatron")
    for key, want in MEGATRON.items():
        got = parallel["counts"][key]
        for phase, kind in sorted(set(got) | set(want)):
            n, m = got.get((phase, kind), 0), want.get((phase, kind), 0)
            print(f"  {names[key]:<24}{phase:<9} {kind:<15}{n:>3}  {m:>3}")
            if n != m:
                loss_diff = float("inf")
    print(
        f"\nseconds a step: one device {single[2]:.2f}, "
        + ", ".join(f"{names[k]} {parallel[k][2]:.2f}" for k in names)
        + f" ({WORLD} ranks on {os.cpu_count()} cores)"
    )
    return loss_diff, grad_diff


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--html", default="out/train_qwen3.html")
    arguments = parser.parse_args()

    processes = "RANK" in os.environ
    if processes:
        hp.init_process_group()
        if hp.world_size() != WORLD:
            raise SystemExit(f"torchrun --nproc-per-node={WORLD} is needed")
    here = not processes or hp.rank() == 0

    models = {n: make_model(n) for n in {1, 2, arguments.layers}}
    model = models[arguments.layers]
    size = sum(p.numel() for p in model.parameters())
    if here:
        print(f"Qwen3, {size / 1e6:.1f} M parameters, float64, {arguments.steps} steps of")
        print(f"{arguments.batch} x {arguments.length} bytes, mesh dp=2 tp=2")
    batches = make_batches(arguments.steps, arguments.batch, arguments.length)
    with tqdm(total=3 * arguments.steps, unit="step", disable=not here) as bar:
        single = train(copy.deepcopy(model), batches, bar.update) if here else None
        if processes:
            parallel = parallel_part(arguments, models, bar.update)
        else:
            parallel = hp.run_local(parallel_part, WORLD, arguments, models, bar.update)[0]
    if not here:
        return 0

    loss_diff, grad_diff = compare(arguments, single, parallel)
    page = pathlib.Path(arguments.html)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report_html.page(single[0], parallel, MEGATRON))
    print(f"page: {page}")
    good = loss_diff < BOUND and grad_diff < BOUND
    print(
        f"{'PASS' if good else 'FAIL'} loss_diff={loss_diff:.1e} grad_diff={grad_diff:.1e} "
        f"ranks={WORLD} mesh=dp2xtp2 steps={arguments.steps}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
