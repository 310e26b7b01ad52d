"""The map of rooms has a paragraph for each room, and paths that pages name exist."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_tree

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "hyper_parallel/README.md").read_text()
PAGES = ["CONTRIBUTING.md", "docs/internals.md", "hyper_parallel/README.md"]
# Where a page may begin a path that it names.
BASES = ["", "hyper_parallel", "hyper_parallel/torch", "hyper_parallel/torch/dispatch",
         "hyper_parallel/torch/ranks", "python/hyper_parallel"]  # fmt: skip


def rooms() -> list[str]:
    cpp = [room for room in check_tree.CPP_ROOMS if room != "."]
    return cpp + [f"python {room}" for room in check_tree.PYTHON_ROOMS]


def test_every_room_has_its_paragraph_in_the_order_of_the_table():
    assert re.findall(r"\*\*`([\w/ ]+)`\*\*", MAP) == rooms()


def test_every_room_is_there():
    for room in rooms():
        base = "python/hyper_parallel" if room.startswith("python ") else "hyper_parallel"
        assert (ROOT / base / room.removeprefix("python ")).is_dir(), room


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_pages_name_exist(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S)
    named = re.findall(r"`((?:\.\./)?[\w/]+(?:/[\w<>.]+|\.(?:cpp|h|py|pyi|md)))`", text)
    assert len(named) > 5
    folders = [ROOT / base for base in BASES]
    folders += [ROOT / "hyper_parallel" / room for room in check_tree.CPP_ROOMS]
    for name in named:
        if "<" in name:
            continue
        assert any((folder / name).exists() for folder in folders), name


@pytest.mark.parametrize("page", PAGES)
def test_links_of_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / link).exists(), link
