"""The packages that mirror torch's have its names and signatures, so that porting is one import."""

import inspect

import pytest
from torch.distributed import tensor as their_tensor
from torch.distributed.tensor import experimental as their_experimental
from torch.distributed.tensor import parallel as their_parallel

from hyper_parallel import tensor
from hyper_parallel.tensor import experimental, parallel

PAIRS = [(their_parallel, parallel), (their_tensor, tensor), (their_experimental, experimental)]
# What other parts of the library do in their own way; docs/ways-in.md says how.
ELSEWHERE = {"context_parallel", "register_sharding"}
NAMES = [
    (theirs, ours, name)
    for theirs, ours in PAIRS
    for name in theirs.__all__
    if name not in ELSEWHERE
]


@pytest.mark.parametrize(("theirs", "ours", "name"), NAMES, ids=[n for _, _, n in NAMES])
def test_every_name_of_torch_is_here_and_takes_what_torchs_takes(theirs, ours, name):
    mine, other = getattr(ours, name), getattr(theirs, name)
    assert inspect.isclass(mine) == inspect.isclass(other)
    assert name in ours.__all__
    try:
        wanted = inspect.signature(other).parameters.values()
    except ValueError:  # placements: built in there
        return
    if name in ("DTensor", "Placement"):
        return
    given = inspect.signature(mine).parameters
    several = any(p.kind is p.VAR_KEYWORD for p in given.values())
    places = [p.name for p in wanted if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [p for p in given if given[p].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][
        : len(places)
    ] == places
    for parameter in wanted:
        if parameter.kind is parameter.VAR_POSITIONAL:
            assert any(p.kind is p.VAR_POSITIONAL for p in given.values()), parameter
            continue
        assert parameter.name in given or several, parameter
        if parameter.name in given and parameter.name != "layout":
            assert given[parameter.name].default == parameter.default, parameter


@pytest.mark.parametrize("name", ["Shard", "Replicate", "Partial"])
def test_placements_are_made_and_asked_as_torchs(name):
    arguments = (1,) if name == "Shard" else ()
    mine, other = getattr(tensor, name)(*arguments), getattr(their_tensor, name)(*arguments)
    for question in ("is_shard", "is_replicate", "is_partial"):
        assert getattr(mine, question)() == getattr(other, question)()
    assert isinstance(mine, tensor.Placement) and isinstance(mine, getattr(tensor, name))
    for attribute in ("dim", "reduce_op"):
        if hasattr(other, attribute):
            assert getattr(mine, attribute) == getattr(other, attribute)


METHODS = ["from_local", "to_local", "full_tensor", "redistribute"]


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_dtensor_take_what_torchs_take(name):
    given = inspect.signature(getattr(tensor.DTensor, name)).parameters
    for parameter in inspect.signature(getattr(their_tensor.DTensor, name)).parameters.values():
        if parameter.name not in ("self", "forward_dtype", "backward_dtype"):
            assert parameter.name in given, parameter
    assert isinstance(tensor.DTensor.placements, property)
    assert isinstance(tensor.DTensor.device_mesh, property)


def test_styles_keep_the_attributes_that_subclasses_of_torchs_read():
    for name, options in (
        ("ColwiseParallel", {}),
        ("RowwiseParallel", {}),
        ("SequenceParallel", {}),
        ("PrepareModuleInput", {}),
        (
            "PrepareModuleOutput",
            dict(
                output_layouts=their_tensor.Shard(0), desired_output_layouts=their_tensor.Shard(1)
            ),
        ),
    ):
        mine, other = getattr(parallel, name)(**options), getattr(their_parallel, name)(**options)
        theirs_alone = {"desired_input_layouts", "with_kwargs"}  # how theirs run, not what is asked
        wanted = {key for key in vars(other) if key[0] != "_"} - theirs_alone
        assert wanted <= set(dir(mine)), name
        assert mine.src_data_rank == other.src_data_rank == 0
