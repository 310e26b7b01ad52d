"""Samples of distributed ops and functions, and values for their tests."""

import torch

import hyper_parallel as hp
from hyper_parallel import DFunction, DTensor, Layout
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

f64 = torch.float64
GRID = Layout((2, 2), ("dp", "tp"))
LINE = Layout((2,), ("tp",))


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def put(value, layout, grad=True):
    return hp.distribute_tensor(value, layout, src_data_rank=None).requires_grad_(grad)


def equal(mine, theirs):
    mine = mine.full_tensor() if type(mine) is DTensor else mine
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


class ScaledProduct(DFunction):
    """``x @ w * scale``; a subclass gives it a name."""

    @staticmethod
    def forward(ctx, x, w, scale):
        ctx.save_for_backward(x, w)
        ctx.scale = scale
        return x @ w * scale

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t() * ctx.scale, x.t() @ grad * ctx.scale, None


class MyAddDistOp(DistributedOp):
    def __init__(self):
        super().__init__("MyAdd")

    def infer_layout(self, layouts, extra_args=None):
        return layouts[0]


MyAddDistOp()


class MyAdd(DFunction):
    _op_name = "MyAdd"

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class MatmulOp(DistributedOp):
    """The newer form: contracting over a cut dim gives a sum that the op itself finishes."""

    def preprocess(self, args, kwargs):
        local_args = (args[0].to_local(), args[1].to_local())
        return local_args, {}, [args[0].layout, args[1].layout]

    def infer_layout(self, cache_values):
        x, w = cache_values
        self._check_partial_inputs([x, w])
        rows, inner = x.alias_tensor_map
        if w.alias_tensor_map[0] != inner:
            raise ValueError("contracting dims are cut differently")
        mesh = Layout(x.mesh_shape, x.alias_name, x.rank_list)
        return (mesh(rows, w.alias_tensor_map[1]),), inner

    def get_expand_impl(self, func, infer_result, cache_values):
        inner = infer_result[1]
        if inner == "None":
            return None
        return lambda x, w: hp.all_reduce(func(x, w), inner)


MatmulOp("MyMatmul")


class MyMatmul(DFunction):
    _op_name = "MyMatmul"

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


def scaled(name):
    class Scale(DFunction):
        _op_name = name

        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s
            return x * s

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.s, None

    return Scale
