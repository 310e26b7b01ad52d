"""Time single calls and a training step: plain torch, torch's DTensor, and ours.

All run in this process, interleaved; each figure is the minimum of several repeats, in
microseconds a call from Python. A fake process group of 4 ranks stands for the wire, so all that
is timed is the work of the host. Plain torch runs the same op on tensors of the local sizes.

    hit   the same call again and again
    miss  each call with sizes that were never seen

The last line holds the figures to follow: the mean overhead over plain torch of ours, divided by
that of torch's DTensor (over the rows of the first table that need no communication), and the
training step of a tiny Qwen3, replicated on one rank, over the same step in plain torch.
"""

import argparse
import copy
import time
import timeit

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import Qwen3Config, Qwen3ForCausalLM

import hyper_parallel as hp

RANKS = 4
BURST = 2e-3  # seconds
SIDES = ("plain", "torch", "ours")
THEIR_MESH = OUR_MESH = None  # set in main: they need the process group

# name: (statement, {operand: (global shape, dim that is split or None)})
OPS = {
    "add": ("x + y", {"x": ((64, 16), 0), "y": ((64, 16), 0)}),
    "mul": ("x * y", {"x": ((64, 16), 0), "y": ((64, 16), 0)}),
    "mm": ("mm(x, w)", {"x": ((64, 16), 0), "w": ((16, 16), None)}),
    "linear": ("linear(x, w, b)", {"x": ((64, 16), 0), "w": ((16, 16), 0), "b": ((16,), 0)}),
    "view": ("x.view(-1, 16, 4, 4)", {"x": ((4, 16, 16), 0)}),
    "transpose": ("x.transpose(0, 1)", {"x": ((64, 16), 0)}),
    "sum": ("x.sum(-1)", {"x": ((64, 16), 0)}),
    "softmax": ("x.softmax(-1)", {"x": ((64, 16), 0)}),
    "sdpa": ("sdpa(q, k, v)", {n: ((4, 2, 8, 8), 0) for n in "qkv"}),
    "detach": ("x.detach()", {"x": ((64, 16), 0)}),
    "add_": ("x.add_(y)", {"x": ((64, 16), 0), "y": ((64, 16), 0)}),
}
OPS["linear"][1]["x"] = ((64, 16), None)  # column parallel: weight split, input whole
# As OPS, for y that must move first; plain torch has both operands split alike.
MOVING = {"add S(0) S(1)": ("x + y", {"x": ((64, 16), 0), "y": ((64, 16), 1)})}
NAMES = {"mm": torch.mm, "linear": F.linear, "sdpa": F.scaled_dot_product_attention}


def operand(side: str, shape, dim, grad: bool) -> torch.Tensor:
    """A tensor of `side` of global `shape`, split on `dim` over all ranks (None: whole)."""
    if side == "plain":
        shape = [n // RANKS if d == dim else n for d, n in enumerate(shape)]
        out = torch.randn(shape)
    elif side == "torch":
        placement = Replicate() if dim is None else Shard(dim)
        out = distribute_tensor(torch.randn(shape), THEIR_MESH, [placement])
    else:
        placement = hp.Replicate() if dim is None else hp.Shard(dim)
        out = hp.distribute_tensor(torch.randn(shape), OUR_MESH, [placement])
    return out.requires_grad_(grad)


def operands(side: str, op: str, spec: dict, grad: bool) -> dict:
    if side == "plain" and op in MOVING:
        spec = dict.fromkeys(spec, spec["x"])
    out = {n: operand(side, shape, dim, grad) for n, (shape, dim) in spec.items()}
    if op == "add_" and grad:
        out["x"] = out["x"] * 1  # a leaf cannot be written
    return NAMES | out


def time_hits(op: str, statement: str, spec: dict, grad: bool, options) -> dict[str, float | str]:
    """Microseconds a call by side; where a side cannot run the op, the error's class."""
    best: dict[str, float | str] = {}
    for _ in range(options.repeats):
        for side in SIDES:
            if isinstance(best.get(side), str):
                continue
            timer = timeit.Timer(statement, globals=operands(side, op, spec, grad))
            try:
                # Short bursts: the minimum then finds one that no other process broke into.
                calls = max(20, int(BURST / (timer.timeit(10) / 10)))
                seconds = timer.timeit(calls) / calls
            except Exception as error:
                best[side] = type(error).__name__
                continue
            best[side] = min(best.get(side, 1e9), seconds * 1e6)
    return best


def time_misses(op: str, statement: str, spec: dict, options) -> dict[str, float | str]:
    """As `time_hits`; the first dim of each operand that is split is new in each call."""
    best: dict[str, float | str] = {}
    code = compile(statement, op, "eval")
    for repeat in range(3):
        for side in SIDES:
            if isinstance(best.get(side), str):
                continue
            count = 2 if side == "torch" else 10  # a miss of torch's DTensor takes milliseconds
            try:
                calls = []
                for i in range(count):
                    more = RANKS * (1 + i + 10 * repeat)
                    grown = {
                        n: ((shape[0] + more, *shape[1:]), dim) if dim == 0 else (shape, dim)
                        for n, (shape, dim) in spec.items()
                    }
                    calls.append(operands(side, op, grown, False))
                begin = time.perf_counter()
                for names in calls:
                    eval(code, names)
                seconds = (time.perf_counter() - begin) / count
            except Exception as error:
                best[side] = type(error).__name__
                continue
            best[side] = min(best.get(side, 1e9), seconds * 1e6)
    return best


def show(title: str, rows: list[tuple[str, dict]]) -> None:
    print(f"\n{title:<30}{'plain':>9}{'torch':>9}{'ours':>9}{'ours - plain':>14}{'ratio':>8}")
    for name, row in rows:
        line = f"  {name:<28}"
        for side in SIDES:
            value = row[side]
            line += f"{value[:8]:>9}" if isinstance(value, str) else f"{value:>9.2f}"
        if not isinstance(row["ours"], str):
            line += f"{row['ours'] - row['plain']:>14.2f}"
            if not isinstance(row["torch"], str):
                line += f"{overhead(row, 'ours') / overhead(row, 'torch'):>8.3f}"
        print(line)


def overhead(row: dict, side: str) -> float:
    return row[side] - row["plain"]


def time_ops(options) -> float:
    """Print the tables of ops; returns the mean overhead of ours over that of torch's DTensor."""
    rows = []
    for op, (statement, spec) in OPS.items():
        for grad in (False, True):
            name = f"{op}{' (grad)' if grad else ''}"
            rows.append((name, time_hits(op, statement, spec, grad, options)))
    show("hit, microseconds", rows)
    show(
        "hit with communication",
        [
            (f"{op}{' (grad)' if grad else ''}", time_hits(op, statement, spec, grad, options))
            for op, (statement, spec) in MOVING.items()
            for grad in (False, True)
        ],
    )
    show("miss", [(op, time_misses(op, *OPS[op], options)) for op in OPS if op != "add_"])
    whole = [row for _, row in rows if not any(isinstance(v, str) for v in row.values())]
    ours, torchs = (sum(overhead(row, side) for row in whole) for side in ("ours", "torch"))
    print(f"\nmean overhead over {len(whole)} rows of hits: ", end="")
    print(f"torch's DTensor {torchs / len(whole):.2f}, ours {ours / len(whole):.2f} microseconds")
    return ours / torchs


def make_model() -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config)


def replicate(model, distribute):
    """Replace each parameter by a replicated DTensor that `distribute` makes."""
    for module in model.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            setattr(module, name, torch.nn.Parameter(distribute(p.detach())))
    return model


def time_step(options) -> tuple[float, float]:
    """Time a training step; returns ours and torch's DTensor's over plain."""
    plain = make_model()
    ids = torch.randint(256, (2, 32), generator=torch.Generator().manual_seed(1))
    theirs = DeviceMesh("cpu", [0])
    ours = hp.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    models = {
        "plain": plain,
        "torch": replicate(
            copy.deepcopy(plain), lambda p: distribute_tensor(p, theirs, [Replicate()])
        ),
        "ours": replicate(
            copy.deepcopy(plain), lambda p: hp.distribute_tensor(p, ours, [hp.Replicate()])
        ),
    }
    optimizers = {side: torch.optim.AdamW(m.parameters(), lr=1e-3) for side, m in models.items()}

    def step(side: str) -> torch.Tensor:
        loss = models[side](input_ids=ids, labels=ids).loss
        loss.backward()
        optimizers[side].step()
        optimizers[side].zero_grad()
        return loss

    losses: dict[str, list[float]] = {side: [] for side in SIDES}
    best = dict.fromkeys(SIDES, 1e9)
    for _ in range(max(1, options.repeats // 3)):
        for side in SIDES:
            # torch's DTensor refuses plain tensors beside DTensors without this.
            with implicit_replication():
                losses[side].append(step(side).item())
                begin = time.perf_counter()
                for _ in range(options.steps):
                    loss = step(side)
                best[side] = min(best[side], (time.perf_counter() - begin) / options.steps)
                losses[side].append(loss.item())
    difference = max(
        abs(a - b) for side in SIDES for a, b in zip(losses["plain"], losses[side], strict=True)
    )
    print("\ntraining step of a tiny Qwen3      milliseconds   over plain")
    for side, name in zip(SIDES, ("plain torch", "torch's DTensor", "ours"), strict=True):
        print(f"  {name:<32}{best[side] * 1e3:>13.2f}{best[side] / best['plain']:>13.2f}")
    print(f"  largest difference of losses {difference:.1e}")
    return best["ours"] / best["plain"], best["torch"] / best["plain"]


def time_layouts(options) -> None:
    """Time what users write: the mesh with names, and layouts from it, known and new."""
    grid = hp.Layout((2, 2), ("dp", "tp"))
    print("\nlayout creation                    microseconds")
    for statement in (
        'hp.Layout((2, 2), ("dp", "tp"))',
        'grid("dp", "None")',
        'grid(("dp", "tp"), "None")',
        "grid(hp.Shard(0), hp.Replicate())",
    ):
        timer = timeit.Timer(statement, globals={"hp": hp, "grid": grid})
        seconds = min(timer.timeit(500) / 500 for _ in range(options.repeats))
        print(f"  {statement:<34}{seconds * 1e6:>11.2f}")
    axes = [("None",), ("dp",), ("tp",), ("dp", "tp"), ("tp", "dp")]
    new = [(*("None",) * n, a, *("None",) * m) for a in axes[1:] for n in range(9) for m in (3, 7)]
    begin = time.perf_counter()
    for names in new:
        grid(*names)
    print(f"  {'never seen':<34}{(time.perf_counter() - begin) / len(new) * 1e6:>11.2f}")


def main() -> None:
    global THEIR_MESH, OUR_MESH
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    THEIR_MESH = DeviceMesh("cpu", list(range(RANKS)), mesh_dim_names=("tp",))
    OUR_MESH = hp.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    print(f"{RANKS} ranks without a wire, one thread, torch {torch.__version__}")
    ratio = time_ops(options)
    time_layouts(options)
    ours, theirs = time_step(options)
    print(
        f"dispatch_overhead_vs_torch_dtensor={ratio:.3f} step_vs_plain={ours:.2f} "
        f"torch_dtensor_step_vs_plain={theirs:.2f}"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
