"""tools/check_tree.py finds what is planted in a small copy of the tree."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = "// A header of the test.\n#pragma once\n\n"


@pytest.fixture
def tree(tmp_path):
    """The checker alone, in a repository of its own; no file is over its limit yet."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/check_tree.py", tmp_path / "tools/check_tree.py")
    change(tmp_path, r"(?s)LONGER = \{.*?\n\}\n", "LONGER: dict[str, int] = {}\n")
    (tmp_path / "python/hyper_parallel/layouts").mkdir(parents=True)
    (tmp_path / "python/hyper_parallel/modules").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert found(tmp_path) == []
    return tmp_path


def change(tree, pattern, text):
    """Edit the copy of the checker."""
    path = tree / "tools/check_tree.py"
    edited, count = re.subn(pattern, lambda _: text, path.read_text())
    assert count == 1
    path.write_text(edited)


def plant(tree, name, text):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(tree):
    run = subprocess.run(
        [sys.executable, "tools/check_tree.py"], cwd=tree, capture_output=True, text=True
    )
    lines = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0), run.stderr
    return lines


def include(header):
    return f'#include "hyper_parallel/{header}"\n'


def test_an_arrow_back_up(tree):
    plant(tree, "hyper_parallel/plan/cost.h", HEADER + "int cost();\n")
    plant(tree, "hyper_parallel/plan/text.h", HEADER + include("rules/rule.h"))
    plant(tree, "hyper_parallel/core/mesh.cpp", include("plan/cost.h"))
    assert found(tree) == [
        "hyper_parallel/core/mesh.cpp:1: core may not see plan",
        "hyper_parallel/plan/text.h:4: plan may not see rules",
    ]


def test_an_arrow_back_up_in_python(tree):
    plant(
        tree,
        "python/hyper_parallel/layouts/mesh.py",
        "def f():\n    from hyper_parallel.modules.style import x\n",
    )
    assert found(tree) == ["python/hyper_parallel/layouts/mesh.py:2: layouts may not see modules"]


def test_a_room_that_is_not_in_the_table(tree):
    plant(tree, "hyper_parallel/attic/old.cpp", include("core/mesh.h"))
    assert found(tree) == [
        "hyper_parallel/attic/old.cpp: the room attic is not in the table of tools/check_tree.py"
    ]


def test_a_circle_of_rooms(tree):
    change(tree, r'"core": "",', '"core": "plan",')
    assert found(tree) == ["tools/check_tree.py: C++ room core would see plan below it"]


def test_a_circle_of_headers(tree):
    plant(tree, "hyper_parallel/core/a.h", HEADER + include("core/b.h"))
    plant(tree, "hyper_parallel/core/b.h", HEADER + include("core/c.h"))
    plant(tree, "hyper_parallel/core/c.h", HEADER + include("core/a.h"))
    (line,) = found(tree)
    assert "core/a.h -> hyper_parallel/core/b.h -> hyper_parallel/core/c.h" in line


def test_a_circle_of_modules(tree):
    package = "python/hyper_parallel/layouts"
    plant(tree, f"{package}/__init__.py", "")
    plant(tree, f"{package}/mesh.py", "from hyper_parallel.layouts.layout import (\n    y,\n)\n")
    later = "def f():\n    from hyper_parallel.layouts.mesh import x\n"
    plant(tree, f"{package}/layout.py", later)
    assert found(tree) == []  # an import in a function waits until both are loaded
    plant(tree, f"{package}/layout.py", "from hyper_parallel.layouts import mesh\n")
    (line,) = found(tree)
    assert "a circle" in line and "layouts/mesh.py" in line and "layouts/layout.py" in line


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("hyper_parallel/core/long.cpp", 400),
        ("python/hyper_parallel/long.py", 400),
        ("tests/core/long_test.cpp", 600),
    ],
)
def test_a_file_over_its_limit(tree, name, limit):
    plant(tree, name, "\n".join(["// x"] * limit) + "\n")
    assert found(tree) == []
    plant(tree, name, "\n".join(["// x"] * (limit + 1)) + "\n")
    assert found(tree) == [f"{name}: {limit + 1} lines, at most {limit}: split it by idea"]


def test_a_long_file_may_only_shrink(tree):
    name = "hyper_parallel/core/long.cpp"
    change(tree, r"LONGER: dict\[str, int\] = \{\}", f'LONGER = {{"{name}": 450}}')
    assert found(tree) == [f"{name}: on LONGER, but not in the tree"]
    plant(tree, name, "// x\n" * 450)
    assert found(tree) == []
    plant(tree, name, "// x\n" * 451)
    assert found(tree) == [f"{name}: 451 lines, at most 450: split it by idea"]
    plant(tree, name, "// x\n" * 400)
    assert found(tree) == [f"{name}: 400 lines: take it off LONGER in tools/check_tree.py"]


def test_torch_and_python_stay_where_they_belong(tree):
    plant(tree, "hyper_parallel/plan/x.cpp", "#include <ATen/core/Tensor.h>\n")
    plant(tree, "hyper_parallel/torch/comm/x.cpp", "#include <ATen/ATen.h>\n#include <Python.h>\n")
    assert found(tree) == [
        "hyper_parallel/plan/x.cpp:1: torch header in the torch-free part: ATen/core/Tensor.h",
        "hyper_parallel/torch/comm/x.cpp:1: wide header, include the narrow one: ATen/ATen.h",
        "hyper_parallel/torch/comm/x.cpp:2: Python header in the library, use python/src: Python.h",
    ]


def test_headers_and_texts(tree):
    plant(tree, "hyper_parallel/core/x.h", "int x;\n")
    plant(tree, "docs/page.md", "one \ntwo\n\n")
    assert found(tree) == [
        "docs/page.md:1: blanks at the end of the line",
        "docs/page.md: must end with exactly one newline",
        "hyper_parallel/core/x.h: the first line that is no comment must be #pragma once",
        "hyper_parallel/core/x.h: no comment says what this header is for",
    ]
