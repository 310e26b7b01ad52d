"""docs/errors.md has one section for each code in the sources, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r'"(HP-[A-Z]\d{3})"')
SECTION = re.compile(r"^## (HP-[A-Z]\d{3})$", re.MULTILINE)
SOURCES = [
    path
    for folder in ("hyper_parallel", "python")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".cpp", ".h", ".py"}
]


# What no program can bring about, and why.
UNREACHED = {
    "HP-C012": "needs a network that fails",
    "HP-C015": "needs a network that fails while all processes live",
    "HP-D001": "torch refuses the assignment before the library is asked",
    "HP-D014": "no type of argument that torch has holds tensors out of sight",
    "HP-D030": "the rule keeps the vocabulary whole in such a call",
    "HP-D090": "a row that names a handler wrongly; the rows are tested",
    "HP-S007": "torch's parser counts out= tensors first",
    "HP-S032": "only C++ code chooses strategies by hand",
}
TESTS = [
    path
    for folder in ("tests", "examples", "docs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".cpp", ".py"} and path != Path(__file__).resolve()
]


def sections() -> list[str]:
    return SECTION.findall((ROOT / "docs/errors.md").read_text())


def test_every_code_has_a_section():
    used = {code: path.name for path in SOURCES for code in CODE.findall(path.read_text())}
    missing = {code: name for code, name in sorted(used.items()) if code not in sections()}
    assert not missing


def test_every_section_has_a_code():
    used = {code for path in SOURCES for code in CODE.findall(path.read_text())}
    assert [code for code in sections() if code not in used] == []


def test_sections_stand_once_and_say_something():
    text = (ROOT / "docs/errors.md").read_text()
    assert len(set(sections())) == len(sections())
    for code, body in zip(sections(), SECTION.split(text)[2::2], strict=True):
        assert len(body.split("\n# ")[0].strip()) > 20, f"{code} has no text"


def test_every_code_is_met_by_a_test():
    met = {code for path in TESTS for code in re.findall(r"HP-[A-Z]\d{3}", path.read_text())}
    assert [code for code in sections() if code not in met and code not in UNREACHED] == []
    assert [code for code in UNREACHED if code in met] == []
