"""Keys and entries of sharding plans; no ranks."""

import pytest

from hyper_parallel import Layout, UsageError
from hyper_parallel._core import path_matches as matches
from hyper_parallel.layouts.plan_values import Inputs, assign, check_spec, meshes_of

LAYOUT = Layout((2, 2), ("dp", "tp"))
NAMES = ["embed.weight", "layers.0.q.weight", "layers.1.q.weight", "layers.1.mlp.up.weight", "w"]


def chosen(*patterns):
    found = assign({p: p for p in patterns}, NAMES, "parameter")
    return {name: key for name, (key, _) in found.items()}


def refused(code, call, *args, **kwargs):
    with pytest.raises(UsageError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    return str(caught.value)


def test_a_star_stays_within_one_part():
    assert matches("layers.*.q.weight", "layers.0.q.weight")
    assert not matches("layers.*.weight", "layers.0.q.weight")
    assert matches("layers.?.q.w*", "layers.0.q.weight")
    assert not matches("*", "a.b") and matches("*", "a")


def test_two_stars_cross_parts():
    assert matches("**.weight", "layers.0.q.weight") and matches("**.weight", "weight")
    assert matches("layers.**.weight", "layers.weight")
    assert matches("**", "a.b.c") and not matches("**.bias", "a.weight")


def test_the_closest_key_counts():
    assert chosen("**", "layers.*.q.weight", "layers.1.q.weight") == {
        "embed.weight": "**",
        "layers.0.q.weight": "layers.*.q.weight",
        "layers.1.q.weight": "layers.1.q.weight",
        "layers.1.mlp.up.weight": "**",
        "w": "**",
    }
    assert chosen("**.weight", "**.q.weight")["layers.0.q.weight"] == "**.q.weight"


def test_equally_close_keys_are_refused():
    text = refused("HP-P002", chosen, "layers.*.q.weight", "layers.0.?.weight")
    assert '"layers.0.q.weight"' in text and '"layers.*.q.weight"' in text


def test_a_key_that_matches_nothing_shows_near_names():
    assert "embed.weight" in refused("HP-P001", chosen, "embd.weight")
    assert "layers.0.q.weight" in refused("HP-P001", chosen, "nothing.like.it.at.all")


def test_entries_bring_their_meshes():
    mesh = LAYOUT.device_mesh._core
    assert meshes_of({"x": LAYOUT("dp"), "y": [None, (LAYOUT("tp"),)]}) == [mesh, mesh]
    assert meshes_of((("dp", "None"), None)) == []


def test_entries_are_layouts_lists_and_dicts():
    check_spec({"x": [LAYOUT("dp"), None, ("dp", "None")]}, "input")
    assert "input['x'][1]" in refused("HP-P003", check_spec, {"x": [None, 3]}, "input")
    refused("HP-P003", check_spec, {LAYOUT("dp")}, "output")


def test_arguments_are_checked_when_the_plan_is():
    def function(x, mask=None, *, scale=1.0):
        return x

    mesh = LAYOUT.device_mesh._core
    Inputs({"x": LAYOUT("dp"), "scale": None}, mesh, function, "input of f")
    text = refused("HP-P007", Inputs, {"masc": LAYOUT("dp")}, mesh, function, "input of f")
    assert "near" in text and "mask" in text
    text = refused("HP-P006", Inputs, [None] * 3, mesh, function, "input of f")
    assert "x, mask" in text
    Inputs([None] * 3, mesh, lambda *args: args, "input of f")
    Inputs({"any": None}, mesh, lambda **named: named, "input of f")
    Inputs([None] * 3, mesh, max, "input of max")


def test_entries_meet_the_arguments_of_a_call():
    def function(x, y, *, z=None):
        return x

    mesh = LAYOUT.device_mesh._core
    inputs = Inputs([None, None], mesh, function, "input of f")
    assert inputs.apply((1,), {"y": 2}) == ((1,), {"y": 2})
    inputs = Inputs({"y": LAYOUT("dp")}, mesh, function, "input of f")
    assert inputs.apply((1,), {"y": None}) == ((1,), {"y": None})
    text = refused("HP-P004", inputs.apply, (1, "text"), {})
    assert "input of f['y']" in text and "str" in text
