"""Examples of the README and of docs run, and print what the pages say."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)\)")
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def examples(page: Path) -> list[tuple[str, str]]:
    """Each block of Python with the block of text that follows it."""
    blocks = BLOCK.findall(page.read_text())
    return [
        (code, output)
        for (kind, code), (after, output) in itertools.pairwise(blocks)
        if (kind, after) == ("python", "text")
    ]


def test_the_readme_has_an_example():
    assert examples(ROOT / "README.md")


@pytest.mark.parametrize("page", [p for p in PAGES if examples(p)], ids=lambda page: page.name)
def test_examples_print_what_is_shown(tmp_path, page):
    for code, output in examples(page):
        script = tmp_path / "example.py"
        script.write_text(code)
        run = subprocess.run(
            [sys.executable, str(script)],
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout == output


def test_the_example_is_short():
    assert all(len(code.splitlines()) <= 30 for code, _ in examples(ROOT / "README.md"))


def test_commands_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake (\w+)", README)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target
