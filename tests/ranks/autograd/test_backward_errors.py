"""An error of the library that leaves a backward pass keeps its class and code."""

import sys

import pytest
import torch
from autograd_support import f64, wave
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import CommError, DTensor, Layout, UnsupportedError, UsageError


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient * ctx.saved_tensors[0]


def put(value, text):
    return hp.distribute_tensor(value, Layout.parse(text), src_data_rank=None).requires_grad_()


@on_ranks(2)
def test_from_the_node_of_a_leaf():
    x = DTensor.from_local(torch.ones(2, dtype=f64), Layout.parse("a=2: P(min)")).requires_grad_()
    refused(UnsupportedError, "HP-G001", Square.apply(x.reshape(1, 2)).sum().backward)


@on_ranks(2)
def test_from_an_op_in_a_function_and_in_a_hook():
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.as_strided((2,), (1,), 1)

    w = put(wave(4), "a=2: S(0)")
    refused(UnsupportedError, "HP-D015", Refusing.apply(w[:2] * 1).sum().backward)
    y = w * 2
    y.register_hook(lambda gradient: gradient.redistribute([hp.Shard(5)]))
    with pytest.raises(UsageError):
        y.sum().backward()


@on_ranks(2)
def test_a_batch_of_gradients_is_refused():
    for text in ("a=2: R", "a=2: S(0)"):
        x = put(wave(4, 3), text)
        y = x.sin().sum(1)
        rows = torch.eye(4, dtype=f64)
        refused(
            UnsupportedError,
            "HP-D017",
            torch.autograd.grad,
            y,
            x,
            grad_outputs=rows,
            is_grads_batched=True,
        )
        refused(
            UnsupportedError,
            "HP-D017",
            torch.autograd.functional.jacobian,
            lambda x: x.sin().sum(1),
            x,
            vectorize=True,
        )
        plain = (x * 2).full_tensor()
        refused(
            UnsupportedError,
            "HP-D017",
            torch.autograd.grad,
            plain,
            x,
            grad_outputs=torch.ones(2, 4, 3, dtype=f64),
            is_grads_batched=True,
        )


def test_from_a_rank_that_fails_in_backward():
    def program():
        w = put(wave(4), "a=2: R")
        y = w.sin()
        if hp.rank() == 1:
            y.register_hook(lambda gradient: 1 / 0)
        try:
            y.sum().backward()
        finally:
            seen[hp.rank()] = sys.exc_info()[0]

    seen = {}
    with pytest.raises(ZeroDivisionError):
        hp.run_local(program, 2)
    assert seen == {0: CommError, 1: ZeroDivisionError}
