"""The stubs name what the built modules have, and nothing else."""

import ast
from pathlib import Path

import pytest

import hyper_parallel
from hyper_parallel import _core, _torch

FOLDER = Path(hyper_parallel.__file__).parent


def members(body):
    functions = (ast.FunctionDef, ast.ClassDef)
    return {node.name: node for node in body if isinstance(node, functions)}


@pytest.mark.parametrize("module", [_core, _torch], ids=["_core", "_torch"])
def test_stubs_and_modules_agree(module):
    name = module.__name__.rpartition(".")[2]
    stubs = members(ast.parse((FOLDER / f"{name}.pyi").read_text()).body)
    assert set(stubs) == {n for n in vars(module) if not n.startswith("__")}
    for name, stub in stubs.items():
        if isinstance(stub, ast.ClassDef) and not issubclass(getattr(module, name), Exception):
            have = {n for n in vars(getattr(module, name)) if not n.startswith("_")}
            assert {n for n in members(stub.body) if not n.startswith("_")} == have, name


def test_the_package_is_typed_and_exports_what_it_says():
    assert (FOLDER / "py.typed").exists()
    for name in hyper_parallel.__all__:
        assert hasattr(hyper_parallel, name)
    assert sorted(hyper_parallel.__all__) == list(hyper_parallel.__all__)
