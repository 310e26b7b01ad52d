"""Recurrent modules of torch on split sequences: results, states and all gradients."""

import copy
import functools

import pytest
import torch
from handlers_support import MESHES, compare, every_mesh, tensor
from torch import nn

import hyper_parallel as hp
from hyper_parallel import Shard, distribute_tensor, init_device_mesh, run_local

KINDS = {
    "rnn": nn.RNN,
    "relu": functools.partial(nn.RNN, nonlinearity="relu"),
    "lstm": nn.LSTM,
    "projected": functools.partial(nn.LSTM, proj_size=2),
    "gru": nn.GRU,
}
CELLS = {
    "rnn": nn.RNNCell,
    "relu": functools.partial(nn.RNNCell, nonlinearity="relu"),
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
}


def flat(value):
    return [t for each in value for t in flat(each)] if isinstance(value, tuple) else [value]


def run(module, names, states=0):
    """Make a function of the input, ``states`` states and the parameters."""

    def call(x, *rest):
        hx = rest[:states]
        weights = dict(zip(names, rest[states:], strict=True))
        args = (x,) if states == 0 else (x, hx if states > 1 else hx[0])
        own = copy.deepcopy(module)  # its parameters are exchanged, and ranks are threads
        return flat(torch.func.functional_call(own, weights, args))

    return call


def check(module, x, cut, mesh, states=(), state_cut=(), **options):
    torch.manual_seed(0)
    parameters = dict(module.double().named_parameters())
    fn = run(module, list(parameters), len(states))
    whole = [(None,)] * len(parameters)
    operands = [x, *states, *(p.detach() for p in parameters.values())]
    compare(fn, operands, [cut, *[state_cut] * len(states), *whole], mesh, **options)


@every_mesh
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [5, 3], ids=["uneven", "empty"])
def test_layers_split_by_batch(kind, size, mesh):
    check(KINDS[kind](4, 3, 2, bidirectional=True), tensor(6, size, 4), (1,), mesh)
    check(KINDS[kind](4, 3, batch_first=True, bias=False), tensor(size, 6, 4), (0,), mesh)


@every_mesh
@pytest.mark.parametrize("kind", KINDS)
def test_features_and_steps_are_gathered(kind, mesh):
    for cut in ((0,), (2,)):
        check(KINDS[kind](4, 3), tensor(6, 5, 4), cut, mesh)
    check(KINDS[kind](4, 3), tensor(6, 4), (1,), mesh)  # one sequence, without a batch


@every_mesh
def test_states_that_are_given_follow_the_batch(mesh):
    for state_cut in ((1,), (2,), (None,)):
        h, c = tensor(1, 5, 3, seed=1), tensor(1, 5, 3, seed=2)
        check(nn.GRU(4, 3), tensor(6, 5, 4), (1,), mesh, [h], state_cut)
        check(nn.LSTM(4, 3), tensor(6, 5, 4), (1,), mesh, [h, c], state_cut)


@every_mesh
@pytest.mark.parametrize("kind", CELLS)
def test_cells(kind, mesh):
    check(CELLS[kind](4, 3), tensor(5, 4), (0,), mesh)
    states = [tensor(5, 3, seed=i) for i in range(2 if kind == "lstm" else 1)]
    check(CELLS[kind](4, 3, bias=False), tensor(5, 4), (0,), mesh, states, (None,))


def test_nothing_moves_and_the_batch_stays_split():
    def on_rank():
        mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("dp",))
        torch.manual_seed(0)
        module = hp.distribute_module(nn.LSTM(4, 3, 2), mesh)
        x = distribute_tensor(tensor(6, 5, 4, dtype=torch.float32), mesh, [Shard(1)])
        with hp.comm_report() as report:
            out, (h, c) = module(x)
        assert [list(t.placements) for t in (out, h, c)] == [[Shard(1)]] * 3
        assert len(report.rows) == 0, report.table()

    run_local(on_rank, 3)


@pytest.mark.parametrize("mesh", MESHES[:2], ids=["2", "4"])
def test_dropout_between_layers_draws_what_one_device_draws(mesh):
    def drawn(module, x):
        hp.manual_seed(7)
        return module(x)[0]

    torch.manual_seed(0)
    module = nn.LSTM(4, 3, 3, dropout=0.5).double()
    x = tensor(6, 5, 4)
    expected = run_local(lambda: drawn(module, x), 1)[0]
    assert not torch.equal(expected, module.eval()(x)[0])
    module.train()

    def on_rank():
        there = init_device_mesh("cpu", mesh[0], mesh_dim_names=mesh[1])
        return drawn(module, distribute_tensor(x, there, [Shard(1)])).full_tensor()

    for result in run_local(on_rank, mesh[0][0]):
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
