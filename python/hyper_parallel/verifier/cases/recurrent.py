"""Recurrent layers and cells."""

from hyper_parallel.verifier.case import case, t

from .table import give, without


def weights(gates, features, hidden, *, layers=1, directions=1, biases=True):
    out = []
    for layer in range(layers):
        width = features if layer == 0 else hidden * directions
        for _ in range(directions):
            out += [t(gates * hidden, width), t(gates * hidden, hidden)]
            out += [t(gates * hidden), t(gates * hidden)] if biases else []
    return out


def layer(gates, states, *, layers=1, directions=1, biases=True, batch_first=False):
    hx = [t(layers * directions, 5, 2) for _ in range(states)]
    return case(
        t(5, 3, 4) if batch_first else t(3, 5, 4),
        hx if states > 1 else hx[0],
        weights(gates, 4, 2, layers=layers, directions=directions, biases=biases),
        biases, layers, 0.0, False, directions == 2, batch_first,
    )  # fmt: skip


def layers(gates, states):
    return [
        layer(gates, states),
        layer(gates, states, layers=2, directions=2, batch_first=True),
        layer(gates, states, biases=False),
    ]


for op, gates, states in (("gru", 3, 1), ("rnn_relu", 1, 1), ("rnn_tanh", 1, 1), ("lstm", 4, 2)):
    hx = [t(5, 2) for _ in range(states)]
    give(
        f"{op}_cell",
        case(t(5, 4), hx if states > 1 else hx[0], *weights(gates, 4, 2)),
        case(t(5, 4), hx if states > 1 else hx[0], *weights(gates, 4, 2, biases=False)),
    )
    if op != "lstm":
        give(f"{op}.input", *layers(gates, states))

LSTM = layers(4, 2)
without(
    "lstm.input",
    "torch does not check the sizes of states, and those that do not fit would be read out of "
    "bounds: test_verify.py runs its strategies alone",
)
