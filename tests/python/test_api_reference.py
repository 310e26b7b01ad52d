"""docs/api/ says what headers and docstrings say, and every public name has its text."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import api
import api_cpp
import api_python


@pytest.fixture(scope="module")
def made():
    return api.pages()


def test_pages_are_up_to_date(made):
    assert api.drift(made) == [], "run `make api`"


def test_every_public_name_in_python_has_a_docstring():
    assert api_python.undocumented_python() == []


def test_every_declaration_of_the_headers_has_a_comment():
    assert api_cpp.undocumented_cpp() == []


def test_what_users_call_is_there(made):
    python = "".join(text for name, text in made.items() if "/python/" in name)
    package = api_python.python_package()
    # A few are rules of a page that users read elsewhere: errors, and torch's names.
    for name in map(str, package.exports):
        assert f"### `{name}`" in python, name
    assert "### `Layout`" in made["docs/api/cpp/core.md"]
    assert "### `redistribute`" in made["docs/api/cpp/plan.md"]


HEADER = """\
#pragma once

namespace other {
class Elsewhere;
}  // namespace other

namespace hyper_parallel {

/// A pair of sizes.
///
///     a pair {1, 2}
struct Pair {
  int a = 0;  // the first
  explicit Pair(int a) : a(a) {}
  int sum() const { return a + b_; }

 private:
  int b_ = 0;
};

/// The sum, and the difference.
int sum(const Pair& pair);
int difference(const Pair& pair);

inline int bare() {
  return 1;
}

/// As it says.
template <class F>
auto call(F&& f) {
  return f("}");
}

}  // namespace hyper_parallel
"""


def test_headers_are_read_as_they_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(api_cpp, "ROOT", tmp_path)
    path = tmp_path / "pair.h"
    path.write_text(HEADER)
    found = [d for d in api_cpp.declarations(path) if not api_cpp.is_forward(d)]
    assert [d.names for d in found] == [["Pair"], ["sum", "difference"], ["bare"], ["call"]]
    assert found[0].doc == "A pair of sizes.\n\n    a pair {1, 2}"
    assert found[0].code == (
        "struct Pair {\n  int a = 0;  // the first\n  explicit Pair(int a);\n  int sum() const;\n};"
    )
    assert found[2].doc == "" and found[2].code == "inline int bare();"
    assert found[3].code == "template <class F>\nauto call(F&& f);"
