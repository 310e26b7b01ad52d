"""Write docs/api/: a page a room of both languages, from headers and docstrings.

    python tools/api.py          write the pages
    python tools/api.py --check  compare with the pages that are there; status 1 if they differ

Nothing is imported or compiled. C++: what a header of the library declares, with its `///` comment.
Python: the names in `__all__` of each module, and all names of the two stubs.
"""

import re
import sys
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent))

from api_cpp import cpp_headers, cpp_page, undocumented_cpp
from api_python import (
    public_names,
    python_package,
    python_rooms,
    python_section,
    ticks,
    undocumented_python,
)
from check_tree import CPP_ROOMS

ROOT = Path(__file__).resolve().parent.parent
OUT = "docs/api"
NOTE = "<!-- Made by `make api`. Change the header or the docstring, not this page. -->\n\n"


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:])\s", " ".join(ticks(text).split()))[0].rstrip(":")


def page_name(room: str) -> str:
    return (room or "package").replace("/", "_")


def exported(package: griffe.Module, by_rooms: dict[str, list[griffe.Module]]) -> str:
    """A link for each name that the package exports, to where it is described."""
    places = {}
    for room, members in sorted(by_rooms.items()):
        for module in members:
            for thing in public_names(module):
                places[thing.name] = f"python/{page_name(room)}.md#{thing.name.lower()}"
    return ", ".join(f"[`{name}`]({places[name]})" for name in map(str, package.exports or ()))


def pages() -> dict[str, str]:
    """All pages by their path from the root."""
    out: dict[str, str] = {}
    index = ["# API reference\n", NOTE.rstrip() + "\n"]
    index.append(
        "Made from docstrings and headers by `make api`. The page\n"
        "[hyper_parallel.h](cpp/hyper_parallel.md) lists the C++ headers for users; the other\n"
        "pages of C++ are for work on the library.\n"
    )
    index.append("## Python\n")
    package = python_package()
    by_rooms = python_rooms(package)
    index.append(f"The names of `hyper_parallel`: {exported(package, by_rooms)}.\n")
    for room, members in sorted(by_rooms.items(), key=lambda item: (item[0][:1] == "_", item)):
        sections = [text for text in map(python_section, members) if text]
        if not sections:
            continue
        name = page_name(room)
        title = "hyper_parallel" + ("." + room.replace("/", ".") if room else "")
        out[f"{OUT}/python/{name}.md"] = f"# {title}\n\n{NOTE}" + "\n".join(sections)
        names = [t.name for m in members for t in public_names(m) if t.is_function or t.is_class]
        shown = ", ".join(f"`{n}`" for n in names[:8]) + (", ..." if len(names) > 8 else "")
        index.append(f"- [{title}](python/{name}.md): {shown}")
    index.append("\n## C++\n")
    for room in CPP_ROOMS:
        page = cpp_page(room, NOTE)
        if not page:
            continue
        name = "hyper_parallel" if room == "." else room.replace("/", "_")
        out[f"{OUT}/cpp/{name}.md"] = page
        headers = ", ".join(f"`{path.name}`" for path in cpp_headers(room))
        title = "hyper_parallel" if room == "." else room
        index.append(f"- [{title}](cpp/{name}.md): {headers}")
    out[f"{OUT}/README.md"] = "\n".join(index) + "\n"
    return {
        name: re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.M)).strip() + "\n"
        for name, text in out.items()
    }


def drift(made: dict[str, str]) -> list[str]:
    """Pages that differ from what is on disk, are missing, or are there for nothing."""
    there = {p.relative_to(ROOT).as_posix(): p for p in (ROOT / OUT).rglob("*.md")}
    return sorted(
        [name for name in made if name not in there or there[name].read_text() != made[name]]
        + [name for name in there if name not in made]
    )


def main() -> int:
    made = pages()
    changed = drift(made)
    if "--check" in sys.argv:
        for name in changed:
            print(f"{name}: not as headers and docstrings say: run `make api`")
        return 1 if changed else 0
    for name in changed:
        path = ROOT / name
        if name not in made:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[name])
    for name in undocumented_cpp() + undocumented_python():
        print(f"no comment: {name}")
    print(f"{len(made)} pages, {len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
