"""Names in the tables of docs/ways-in.md and docs/cpp.md exist."""

import importlib
import re
from pathlib import Path

import pytest
import torch

import hyper_parallel as hp
from hyper_parallel import tensor
from hyper_parallel.own_ops import op_files
from hyper_parallel.tensor import experimental, parallel

ROOT = Path(__file__).resolve().parents[2]
TICKED = re.compile(r"`([^`]+)`")
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9.]*")
OURS = [
    hp,
    tensor,
    parallel,
    experimental,
    hp.DTensor,
    hp.Layout,
    hp.ShardingPlan,
    torch,
    torch.nn,
    torch.nn.functional,
    torch.Tensor,
]
# Words of examples: arguments, axes, modules of the reader.
EXAMPLE = {
    *("func", "fn", "plan", "model", "mesh", "layout", "out_layouts", "in_layouts", "x", "half"),
    *("output_layouts", "input_layouts", "input_plan", "output_plan", "return_local_tensor"),
    *("mesh_dim_names", "use_local_output", "dp", "tp", "None", "nn", "torchrun", "namespace"),
}


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each table by the first word of its head."""
    found: dict[str, list[list[str]]] = {}
    head = ""
    for line in (ROOT / "docs" / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line[:1] == "|" else []
        if not cells:
            head = ""
        elif not head:
            head = cells[0].strip("| ")
            found[head] = []
        elif set(line) - set("|- "):
            found[head].append(cells)
    return found


WAYS = tables("ways-in.md")


def exists(word: str) -> bool:
    word = word.removesuffix(".")
    if word in EXAMPLE or all(part in EXAMPLE for part in word.split(".")):
        return True
    if word.startswith("layout."):
        word = word.removeprefix("layout.")
    if word.startswith("HYPER_PARALLEL_"):
        return word in Path(op_files.__file__).read_text()
    first = word.split(".")[0]
    if first in ("hyper_parallel", "torch", "nn"):
        word = f"torch.{word}" if first == "nn" else word
        for cut in range(word.count(".") + 1, 0, -1):
            parts = word.split(".")
            try:
                value = importlib.import_module(".".join(parts[:cut]))
            except ImportError:
                continue
            return all(
                hasattr(value, part) and (value := getattr(value, part), True)[1]
                for part in parts[cut:]
            )
        return False
    return any(hasattr(place, word) for place in OURS)


def test_there_is_a_table_for_each_system():
    assert {"PyTorch DTensor", "Megatron", "HyperParallel on MindSpore", "you have"} <= set(WAYS)
    assert all(len(rows) >= 9 for rows in WAYS.values())


@pytest.mark.parametrize("table", sorted(WAYS))
def test_names_of_ours_exist(table):
    for row in WAYS[table]:
        for ticked in TICKED.findall(row[1]):
            text = re.sub(r'"[^"]*"', "", ticked)
            missing = [word for word in WORD.findall(text) if not exists(word)]
            assert not missing, (row, missing)


def test_names_of_torch_exist():
    from torch.distributed import device_mesh
    from torch.distributed import tensor as theirs
    from torch.distributed.tensor import debug, placement_types
    from torch.distributed.tensor import experimental as more
    from torch.distributed.tensor import parallel as styles

    places = [device_mesh, theirs, debug, placement_types, more, styles]
    for row in WAYS["PyTorch DTensor"]:
        for ticked in TICKED.findall(row[0]):
            word = WORD.findall(ticked)[0]
            if word.startswith("torch."):
                assert exists(word), word
            elif word != "torchrun":
                assert any(hasattr(place, word) for place in places), word


def test_names_of_the_older_system_are_here_where_the_table_says_the_same():
    for row in WAYS["HyperParallel on MindSpore"]:
        if row[1].startswith("the same"):
            for ticked in TICKED.findall(row[0]):
                assert exists(WORD.findall(ticked)[0]), row


def test_names_in_cpp_exist():
    headers = "\n".join(p.read_text() for p in sorted((ROOT / "hyper_parallel").rglob("*.h")))
    rows = tables("cpp.md")["need"]
    assert len(rows) >= 10
    for row in rows:
        for ticked in TICKED.findall(row[1]):
            for name in re.findall(r"(\w+)\(", ticked):
                assert re.search(rf"\b{name}\(", headers), name
            if ticked.endswith(".h"):
                assert (ROOT / "hyper_parallel" / ticked).is_file()
