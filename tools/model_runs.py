"""One step of a model and its greedy tokens, on one device and on ranks."""

import copy
import dataclasses
import math
import sys
from pathlib import Path

import torch
from model_zoo import Entry, batch_of, inputs

import hyper_parallel as hp
from hyper_parallel import _torch
from hyper_parallel._core import Replicate
from hyper_parallel.modules.model_plans import parallelize_model, plan_of_model

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from float64 import KeepFloat64

BOUND = 1e-12
MESHES = {"tp2": ((2,), ("tp",)), "dp2xtp2": ((2, 2), ("dp", "tp"))}
UNEVEN = {"tp3": ((3,), ("tp",)), "tp4": ((4,), ("tp",))}  # beside 4 heads, 2 of keys
GENERATE = ("causal", "seq2seq", "speech", "vl")
LISTS = ("image_grid_thw", "mm_token_type_ids")  # read by Python, not by ops
GATHERED = ("colwise_gather_output", "colwise_rep")


@dataclasses.dataclass
class Step:
    """What a step gave: the loss, the gradients that there are, and the bytes that a rank sent."""

    loss: torch.Tensor
    grads: dict[str, torch.Tensor]
    sent: int = 0


def plan_of(model) -> dict[str, str]:
    """The plan that a model brings; empty if it brings none."""
    try:
        return plan_of_model(model)
    except hp.UsageError:
        return {}


def step(entry: Entry, model, given: dict[str, torch.Tensor]) -> Step:
    """Run one step."""
    options = {"use_cache": False} if entry.kind in ("causal", "seq2seq", "vl", "speech") else {}
    if entry.kind == "clip":
        options["return_loss"] = True
    with KeepFloat64():
        loss = model(**given, **options).loss
    loss.backward()
    return Step(
        loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    )


def laid_out(model, layout: hp.Layout):
    """Lay a copy of a model out by its plan; replicate all if it brings none."""
    return parallelize_model(copy.deepcopy(model), layout, plan_of(model))


def step_on_ranks(entry: Entry, model, mesh: str, *, as_written: bool = False) -> Step:
    """Run one step on ranks; with ``as_written`` outputs are gathered where the plan says so."""
    sizes, names = (MESHES | UNEVEN)[mesh]

    def on_rank() -> Step:
        layout = hp.Layout(sizes, names)
        ours = laid_out(model, layout)
        if as_written:
            gather(ours, layout)
        batch = "dp" if "dp" in names else "None"
        given = {
            name: t
            if name in LISTS
            else hp.distribute_tensor(
                t,
                layout(
                    *([batch if len(t) == batch_of(entry) else "None"] + ["None"] * (t.dim() - 1))
                ),
            )
            for name, t in inputs(entry, model).items()
        }
        with hp.comm_report() as report:
            out = step(entry, ours, given)
        return whole(out, sum(row.bytes for row in report.rows))

    return hp.run_local(on_rank, math.prod(sizes))[0]


def whole(out: Step, sent: int = 0) -> Step:
    """The same with whole plain tensors; a collective."""
    return Step(_whole(out.loss), {n: _whole(g) for n, g in out.grads.items()}, sent)


def gather(model, layout: hp.Layout) -> None:
    """Make whole what the model's plan gathers."""
    axis = layout.alias_name.index("tp")

    def whole(t):
        return _torch.redistribute(t, _torch.layout(t).with_axis(axis, Replicate()))

    for path, style in plan_of(model).items():
        for name, module in model.named_modules():
            if style in GATHERED and hp._core.path_matches(path, name):
                module.register_forward_hook(lambda m, inputs, out: whole(out))


def tokens(entry: Entry, model) -> torch.Tensor:
    """Generate greedily, with a cache."""
    given = {k: t for k, t in inputs(entry, model).items() if k != "labels"}
    model.generation_config.eos_token_id = None
    options = dict(max_new_tokens=4, do_sample=False, use_cache=True)
    if "input_ids" in given:
        options["attention_mask"] = torch.ones_like(given["input_ids"])
    with KeepFloat64(), torch.no_grad():
        return _whole(model.generate(**given, **options))


def tokens_on_ranks(entry: Entry, model, mesh: str) -> list[torch.Tensor]:
    """Generate on ranks, from the same plain ids everywhere; what each rank got."""
    sizes, names = MESHES[mesh]
    return hp.run_local(
        lambda: tokens(entry, laid_out(model, hp.Layout(sizes, names))), math.prod(sizes)
    )


def differences(got: Step, want: Step) -> tuple[float, float]:
    """The largest differences of loss and gradients, over the largest value or 1.

    Raises:
        ValueError: other parameters have gradients.
    """
    if got.grads.keys() != want.grads.keys():
        odd = sorted(got.grads.keys() ^ want.grads.keys())
        raise ValueError(f"gradients missing or too many: {', '.join(odd[:3])}")
    loss = _distance(got.loss, want.loss)
    return loss, max((_distance(got.grads[n], g) for n, g in want.grads.items()), default=0.0)


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    if b.numel() == 0:
        return 0.0
    far = (a - b).abs().max().item() / max(1.0, b.abs().max().item())
    return far if far == far else float("inf")


def _whole(t: torch.Tensor) -> torch.Tensor:
    return t.full_tensor() if isinstance(t, hp.DTensor) else t
