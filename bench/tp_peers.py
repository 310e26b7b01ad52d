"""Time a tensor-parallel training step of the host: ours beside hand-written Megatron style.

    megatron       local tensors, two autograd functions that call the collectives by hand
    torch_styles   torch's ParallelStyles: DTensors at the borders of modules only
    torch_dtensor  torch's DTensor throughout
    ours           our DTensors throughout

A fake process group stands for the wire, so that all that differs is the host's work. Interleaved;
each figure is the minimum of several repeats. The last line is `ours_vs_megatron=...`.
"""

import argparse
import copy
import time

import torch
import torch.distributed as dist
import torch.distributed.tensor as dtensor
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore

import hyper_parallel as hp

HEADS = 8
ROWS, COLUMNS = ("q", "k", "v", "gate", "up"), ("o", "down")  # how a linear's weight is split


class CopyToRanks(torch.autograd.Function):
    """Megatron's f: identity forward, all-reduce backward."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return all_reduce(g, ctx.group), None


class ReduceFromRanks(torch.autograd.Function):
    """Megatron's g: all-reduce forward, identity backward."""

    @staticmethod
    def forward(ctx, x, group):
        return all_reduce(x, group)

    @staticmethod
    def backward(ctx, g):
        return g, None


def all_reduce(x: torch.Tensor, group: str) -> torch.Tensor:
    ops = torch.ops._c10d_functional
    return ops.wait_tensor(ops.all_reduce(x, "sum", group))


class Block(nn.Module):
    """A Llama-like layer. With `group` it holds 1 / `ranks` of it, split by hand."""

    def __init__(self, hidden: int, ranks: int = 1, group: str | None = None):
        super().__init__()
        self.head_dim, self.group = hidden // HEADS, group
        part, wide = hidden // ranks, 4 * hidden // ranks
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        for name in ("q", "k", "v"):
            setattr(self, name, nn.Linear(hidden, part, bias=False))
        self.o = nn.Linear(part, hidden, bias=False)
        self.gate, self.up = (nn.Linear(hidden, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, hidden, bias=False)

    def enter(self, x):
        return x if self.group is None else CopyToRanks.apply(x, self.group)

    def leave(self, x):
        return x if self.group is None else ReduceFromRanks.apply(x, self.group)

    def forward(self, x):
        b, t, _ = x.shape
        y = self.enter(self.norm1(x))
        q, k, v = (
            p(y).view(b, t, -1, self.head_dim).transpose(1, 2) for p in (self.q, self.k, self.v)
        )
        w = torch.softmax(q @ k.transpose(-1, -2) * self.head_dim**-0.5, -1)
        x = x + self.leave(self.o((w @ v).transpose(1, 2).reshape(b, t, -1)))
        y = self.enter(self.norm2(x))
        return x + self.leave(self.down(F.silu(self.gate(y)) * self.up(y)))


class Net(nn.Module):
    def __init__(self, options, ranks: int = 1, group: str | None = None):
        super().__init__()
        self.layers = nn.ModuleList(
            Block(options.hidden, ranks, group) for _ in range(options.layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def split(net: Net, mesh, make, shard, whole) -> Net:
    """A copy of `net` whose parameters are DTensors, made by `make(value, mesh, placements)`."""
    net = copy.deepcopy(net)
    for layer in net.layers:
        for name, module in layer.named_children():
            dim = 0 if name in ROWS else 1 if name in COLUMNS else None
            placement = whole() if dim is None else shard(dim)
            module.weight = nn.Parameter(make(module.weight.detach(), mesh, [placement]))
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tp", type=int, default=8)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=options.tp)
    mesh = init_device_mesh("cpu", (options.tp,), mesh_dim_names=("tp",))
    our_mesh = hp.init_device_mesh("cpu", (options.tp,), mesh_dim_names=("tp",))

    net = Net(options)
    x = torch.randn(1, options.tokens, options.hidden)
    styles = copy.deepcopy(net)
    for layer in styles.layers:
        plan = {name: ColwiseParallel() for name in ROWS} | {n: RowwiseParallel() for n in COLUMNS}
        parallelize_module(layer, mesh, plan)
    whole = [dtensor.Replicate()]
    runs = {
        "megatron": (Net(options, options.tp, mesh.get_group("tp").group_name), x),
        "torch_styles": (styles, x),
        "torch_dtensor": (
            split(net, mesh, dtensor.distribute_tensor, dtensor.Shard, dtensor.Replicate),
            dtensor.distribute_tensor(x, mesh, whole),
        ),
        "ours": (
            split(net, our_mesh, hp.distribute_tensor, hp.Shard, hp.Replicate),
            hp.distribute_tensor(x, our_mesh, [hp.Replicate()]),
        ),
    }

    def step(model, value):
        model(value).backward()
        for p in model.parameters():
            p.grad = None

    for model, value in runs.values():
        for _ in range(3):
            step(model, value)
    best = dict.fromkeys(runs, 1e9)
    for _ in range(options.repeats):
        for name, (model, value) in runs.items():
            begin = time.perf_counter()
            for _ in range(options.steps):
                step(model, value)
            best[name] = min(best[name], (time.perf_counter() - begin) / options.steps)

    print(f"{options.layers} layers, tp={options.tp}, forward and backward without a wire")
    print(f"{'':<16}{'milliseconds':>14}{'over megatron':>16}")
    for name, seconds in best.items():
        print(f"{name:<16}{seconds * 1e3:>14.2f}{seconds / best['megatron']:>16.2f}")
    print(f"ours_vs_megatron={best['ours'] / best['megatron']:.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
