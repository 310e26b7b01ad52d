"""Samples of the requirements, as they are written there; torch in place of MindSpore's ops."""

import sys
import types

import pytest
import torch
import torch as ops
from own_ops_support import drawn, equal, f64
from ranks_support import refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import (
    DFunction,
    Layout,
    UsageError,
    all_reduce,
    custom_shard,
    parallelize_value_and_grad,
    shard,
    shard_module,
)
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import (
    get_distributed_op,
    register_distributed_op,
    unregister,
)


class Net(nn.Module):
    """A module with the names that the samples use."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(drawn(8, 6))
        self.bias = nn.Parameter(drawn(6, seed=1))
        self.sub_net = nn.Module()
        self.sub_net.dense = nn.Linear(6, 4, dtype=f64)
        with torch.no_grad():
            self.sub_net.dense.weight.copy_(drawn(4, 6, seed=2))
            self.sub_net.dense.bias.copy_(drawn(4, seed=3))
        self.sub_net.forward = lambda x: self.sub_net.dense(x)

    def forward(self, x):
        return self.sub_net(x=ops.matmul(x, self.weight) + self.bias)


def grads_of(net):
    return {name: p.grad for name, p in net.named_parameters()}


def one_device():
    net = Net()
    net(drawn(4, 8, seed=9)).square().sum().backward()
    return grads_of(net)


@pytest.mark.parametrize("form", ["dict", "list", "tuple"])
def test_the_plan_of_the_first_sample(form):
    want = one_device()

    def step():
        layout = Layout((2, 2), ("dp", "tp"))
        layout0, layout1 = layout("None", "tp"), layout("tp")
        layout2, layout3 = layout("None", "tp"), layout("None")
        layout4, layout5 = layout("dp", "None"), layout("dp", "None")
        layout6, layout7 = layout("dp", "tp"), layout("dp", "None")
        sharding_plan = {
            "parameter": {
                "weight": layout0,
                "bias": layout1,
                "sub_net.dense.weight": layout2,
                "sub_net.dense.bias": layout3,
            },
            "forward": {
                "input": {"x": layout4},
                "output": {"out": layout5},
                "sub_net.input": {"x": layout6},
                "sub_net.output": {"out": layout7},
            },
        }
        if form != "dict":
            of = list if form == "list" else tuple
            sharding_plan["forward"] = {
                key: of(entry.values()) for key, entry in sharding_plan["forward"].items()
            }
        model = Net()
        assert shard(model, sharding_plan) is model
        net_out = model(drawn(4, 8, seed=9))
        assert net_out.layout == layout5
        net_out.square().sum().backward()
        for name, grad in grads_of(model).items():
            equal(grad, want[name])

    hp.run_local(step, 4)


def test_the_slip_of_the_first_sample_is_named():
    layout = Layout((2, 2), ("dp", "tp"))
    plan = {"forward": {"sub_net.ouput": {"out": layout("dp", "None")}}}
    text = refused(UsageError, "HP-P012", shard, Net(), plan)
    assert '"sub_net.ouput"' in text and "output" in text
    plan = {"forward": {"sub_net.output": {"out", layout("dp", "None")}}}  # a set, not a dict
    refused(UsageError, "HP-P003", shard, Net(), plan)


def test_a_function_takes_a_plan_without_parameters():
    def step():
        layout = Layout((2, 2), ("dp", "tp"))
        plan = {
            "forward": {
                "input": [layout("dp", "tp"), layout("tp", "None")],
                "output": [layout("dp", "None")],
            }
        }
        out = shard(ops.matmul, plan)(drawn(4, 6), drawn(6, 3, seed=1))
        assert out.layout == layout("dp", "None")
        equal(out, drawn(4, 6) @ drawn(6, 3, seed=1))

    hp.run_local(step, 4)


@pytest.mark.parametrize("sens", [None, [0.5, 2.0]])
def test_value_and_grad_of_the_first_sample(sens):
    def net(x, w):
        y = x @ w
        return y.square().sum(), y.sum()

    x, w = drawn(4, 6), drawn(6, 5, seed=1).requires_grad_()
    one, two = net(x, w)
    (one if sens is None else 0.5 * one + 2 * two).backward()

    def step():
        layout = Layout((2, 2), ("dp", "tp"))
        dx = hp.distribute_tensor(x, layout("dp", "None"))
        dw = hp.distribute_tensor(w.detach(), layout("None", "tp")).requires_grad_()
        values, grads = parallelize_value_and_grad(net, [dw], sens)(dx, dw)
        equal(values[0], one.detach())
        equal(grads[0], w.grad)
        single, grads = parallelize_value_and_grad(lambda x, w: net(x, w)[0], (dw,))(dx, dw)
        equal(single, one.detach())

    hp.run_local(step, 4)


# ---- The second request --------------------------------------------------------------------


def test_shard_module_of_the_second_sample():
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(drawn(8, 6))

        def forward(self, x):
            return ops.matmul(x, self.weight)

    alone = Linear()
    want = alone(drawn(4, 8, seed=1))
    want.square().sum().backward()

    def step():
        dp, tp = 2, 2
        model = Linear()
        layout = Layout((dp, tp), ("dp", "tp"))

        sharding_plan = {
            "forward": {
                "input": (layout("dp", "tp"),),
                "output": (layout("dp", "None"),),
            },
            "parameter": {"weight": layout("None", "tp")},
        }

        model = shard_module(model, sharding_plan)
        out = model(drawn(4, 8, seed=1))
        assert out.layout == layout("dp", "None")
        equal(out, want.detach())
        out.square().sum().backward()
        equal(model.weight.grad, alone.weight.grad)

    hp.run_local(step, 4)


def test_custom_shard_of_the_second_sample():
    x, y = drawn(4, 6).requires_grad_(), drawn(6, 3, seed=1).requires_grad_()
    (x @ y).square().sum().backward()

    def step():
        layout = Layout((2, 2), ("dp", "mp"))
        x_layout, y_layout, out_layout = (
            layout("dp", "mp"),
            layout("mp", "None"),
            layout("dp", "None"),
        )

        @custom_shard(
            out_layouts=(out_layout,),
            in_layouts=(x_layout, y_layout),
            redistribute_inputs=True,
        )
        def my_distributed_func(x, y):
            out = ops.matmul(x, y)
            out = all_reduce(out, "mp")
            return out

        dx = hp.distribute_tensor(x.detach(), layout("None", "None")).requires_grad_()
        dy = hp.distribute_tensor(y.detach(), layout("None", "mp")).requires_grad_()
        out = my_distributed_func(dx, dy)
        equal(out, (x @ y).detach())
        out.square().sum().backward()
        equal(dx.grad, x.grad)
        equal(dy.grad, y.grad)

    hp.run_local(step, 4)


def _normalize_xxx_args(x, y):
    return (x, y), {}


class XxxDistributedOp(DistributedOp):
    """The three stages, as the second sample writes them."""

    def preprocess(self, args, kwargs):
        args, _ = _normalize_xxx_args(*args, **kwargs)
        local_args = (args[0].to_local(), args[1].to_local())
        local_kwargs = {}
        cache_values = [args[0].layout, args[1].layout]
        return local_args, local_kwargs, cache_values

    def infer_layout(self, cache_values):
        layout = cache_values[0]
        self._check_partial_inputs([layout])
        output_layout = layout
        return ((output_layout,), None)


class MyCustomFunc(DFunction):
    _op_name = "MyCustomOp"

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def test_the_three_stages_of_the_second_sample():
    XxxDistributedOp("MyCustomOp")
    x, y = drawn(5, 3).requires_grad_(), drawn(5, 3, seed=1).requires_grad_()
    MyCustomFunc.apply(x, y).square().sum().backward()

    def step():
        layout = Layout((2, 2), ("dp", "tp"))("dp", "tp")
        dx = hp.distribute_tensor(x.detach(), layout).requires_grad_()
        dy = hp.distribute_tensor(y.detach(), layout).requires_grad_()
        out = MyCustomFunc.apply(dx, dy)
        assert out.layout == layout
        out.square().sum().backward()
        equal(dx.grad, x.grad)
        equal(dy.grad, y.grad)

    try:
        hp.run_local(step, 4)
        report = hp.verify(MyCustomFunc, (drawn(5, 3), drawn(5, 3)), meshes=[(2,)])
        assert report.total("dispatched") > 0
    finally:
        unregister("MyCustomOp")


def test_registration_by_program_of_the_second_sample():
    class MyOpDistributedOp(DistributedOp):
        def infer_layout(self, layouts, extra_args=None):
            return (layouts[0],)

    register_distributed_op("MyOp", MyOpDistributedOp("MyOp"))
    assert type(get_distributed_op("MyOp")) is MyOpDistributedOp
    assert unregister("MyOp")


YAML = """
MatMul:
  dist_op_name: _matmul_dist_op
  distributed_op_class: MatMulDistributedOp
  distributed_op_file: parallel_matmul
# custom_ops.yaml
MyOp:
  dist_op_name: _my_op_dist
  distributed_op_class: MyOpDistributedOp
  distributed_op_file: parallel_my_op
"""

MODULE = """
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class {name}DistributedOp(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        return (layouts[0],)
"""


def test_the_yaml_files_of_the_second_sample(tmp_path):
    (tmp_path / "custom_ops.yaml").write_text(YAML)
    (tmp_path / "parallel_matmul.py").write_text(MODULE.format(name="MatMul"))
    (tmp_path / "parallel_my_op.py").write_text(MODULE.format(name="MyOp"))
    assert hp.load_distributed_ops(tmp_path) == ["MatMul", "MyOp"]
    assert type(get_distributed_op("MatMul")).__name__ == "MatMulDistributedOp"
    assert unregister("MatMul") and unregister("MyOp")


def test_names_that_the_samples_import():
    assert isinstance(sys.modules["hyper_parallel.core.shard.ops.parallel_ops"], types.ModuleType)
    for name in ("Layout", "DTensor", "custom_shard", "DFunction", "shard_module", "shard"):
        assert hasattr(hp, name), name
    for name in ("reduce_partial", "redistribute", "to_local", "from_local", "layout"):
        assert hasattr(hp.DTensor, name), name
