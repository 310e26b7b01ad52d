"""Trace a whole training step with make_fx and run the graph; started by test_trace.py.

Ranks are processes here, since tracing patches modules of the whole process.
"""

import copy
import operator

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import hyper_parallel as hp


class Tiny(torch.nn.Module):
    """A transformer layer with embedding, head and loss; reads no value on the host."""

    def __init__(self, vocab=31, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.embed = torch.nn.Embedding(vocab, width)
        self.norm = torch.nn.RMSNorm(width)
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
        self.out = torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 30), torch.nn.Linear(30, width)
        self.head = torch.nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        b, s, _ = x.shape
        q, k, v = (p(self.norm(x)).view(b, s, self.heads, -1).transpose(1, 2) for p in self.qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, -1))
        x = x + self.down(F.gelu(self.up(x)))
        return F.cross_entropy(self.head(x)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def main() -> None:
    hp.init_process_group()
    torch.manual_seed(0)
    model = Tiny().double()
    ids = torch.randint(31, (3, 7))
    want = copy.deepcopy(model)
    want_loss = want(ids)
    want_loss.backward()

    layout = hp.Layout((2, 2), ("dp", "tp"))
    rows, columns = layout("tp", "None"), layout("None", "tp")
    plan = {"embed.weight": rows, "qkv.*.weight": rows, "qkv.*.bias": layout("tp")}
    plan |= {"out.weight": columns, "up.weight": rows, "up.bias": layout("tp")}
    plan |= {"down.weight": columns, "head.weight": rows}
    forward = {"input": [layout("dp", "None")]}
    ours = hp.shard_module(copy.deepcopy(model), {"parameter": plan, "forward": forward})
    parameters = list(ours.parameters())

    def step(ids):
        loss = ours(ids)
        grads = torch.autograd.grad(loss, parameters)
        return [loss.full_tensor(), *(g.full_tensor() for g in grads)]

    graph = make_fx(step)(ids)
    names = {str(n.target) for n in graph.graph.nodes if n.op == "call_function"}
    names.discard(str(operator.getitem))  # taking one of several results
    assert {n.split(".")[0] for n in names} <= {"aten", "_c10d_functional"}, names
    assert "_c10d_functional.all_reduce.default" in names

    loss, *grads = graph(ids)
    torch.testing.assert_close(loss, want_loss.detach())
    for grad, parameter in zip(grads, want.parameters(), strict=True):
        torch.testing.assert_close(grad, parameter.grad, rtol=1e-11, atol=1e-13)
    print(f"rank {hp.rank()} traced {len(graph.graph.nodes)} nodes")


if __name__ == "__main__":
    main()
