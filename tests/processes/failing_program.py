"""Run by test_torchrun.py on each process: code of the user fails on rank 1 alone."""

import sys

import torch

import hyper_parallel as hp

layout = hp.Layout((2,), ("tp",))


def fail(x):
    if hp.rank() == 1:
        raise KeyError("lost")
    return hp.all_reduce(x, "tp")


class Fails(hp.DFunction):
    _op_name = "Fails"

    @staticmethod
    def forward(ctx, x):
        return fail(x)


class FailsBackward(hp.DFunction):
    _op_name = "FailsBackward"

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if hp.rank() == 1:
            raise KeyError("lost")
        return grad * 2


class FailsOp(hp.DistributedOp):
    def get_expand_impl(self, func, *rest):
        return fail


def main(which: str) -> None:
    hp.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = hp.distribute_tensor(torch.ones(4, 2), layout("tp", "None"))
    if which == "custom_shard":
        run = hp.custom_shard(fail, layout("tp", "None"))
    elif which == "result":  # the others wait for the sizes of this rank's results
        run = hp.custom_shard(lambda x: x if hp.rank() == 0 else {}["lost"], layout("tp", "None"))
    elif which == "rule":
        hp.register_rule("Fails", "a b -> a b")
        run = Fails.apply
    elif which == "function":
        hp.DistributedOp("Fails")
        run = Fails.apply
    elif which == "backward":  # the others wait for this rank's part of the weight's gradient
        hp.DistributedOp("FailsBackward")
        weight = hp.distribute_tensor(torch.ones(4, 2), layout("None", "None")).requires_grad_()
        run = lambda x: FailsBackward.apply(x * weight).sum().backward()  # noqa: E731
    else:
        FailsOp("exp")
        run = torch.exp
    try:
        run(x)
    except Exception as error:
        text = str(error).split("\n")[0]
        sys.stdout.write(f"RESULT {(hp.rank(), type(error).__name__, text)}\n")
        sys.stdout.flush()
        if hp.rank() == 0:
            return
        raise SystemExit(0) from None  # its links close


if __name__ == "__main__":
    main(sys.argv[1])
