"""Write docs/api/: a page a room of both languages, from headers and docstrings.

    python tools/api.py          write the pages
    python tools/api.py --check  compare with the pages that are there; status 1 if they differ

Nothing is imported or compiled. C++: what a header of the library declares, with its `///` comment.
Python: the names in `__all__` of each module, and all names of the two stubs.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent))

from check_tree import CPP_ROOMS

ROOT = Path(__file__).resolve().parent.parent
OUT = "docs/api"
NOTE = "<!-- Made by `make api`. Change the header or the docstring, not this page. -->\n\n"


# ---- C++ -----------------------------------------------------------------------------------------


@dataclass
class Declaration:
    """What stands between two blank lines of a namespace: a comment, then code it is about."""

    header: str
    line: int
    doc: str
    code: str

    @property
    def names(self) -> list[str]:
        """The names that the code declares, in order, each once."""
        found = []
        for statement in self.code.split("\n"):
            match = re.match(
                r"(?:template <.*>\s*)?(?:enum class|enum|class|struct) (\w+)|using (\w+) =",
                statement,
            ) or re.match(r"[\w:].*?\b(operator\W+|\w+)\(", statement)
            match = match or re.match(
                r"(?:inline |constexpr |extern )[^(]*?(\w+)(?: =|\{|;)", statement
            )
            if match:
                found.append(next(group for group in match.groups() if group))
        return list(dict.fromkeys(found))


def without_strings(line: str) -> str:
    return re.sub(r"'(?:\\.|[^'\\])'|\"(?:\\.|[^\"\\])*\"", '""', line.split("//")[0])


def depth_of(text: str) -> int:
    return sum(text.count(c) for c in "({[") - sum(text.count(c) for c in ")}]")


BODY = re.compile(r"\)(?: const)?(?: noexcept)?(?: override)?(?: -> [\w:<>]+)?(?:\s*: .*?\))? \{")


def without_bodies(lines: list[str]) -> list[str]:
    """Drop bodies of functions, and what a class keeps private."""
    out: list[str] = []
    skip = 0  # depth of the body that is being left out
    private = False
    initializers = False
    for line in lines:
        plain = without_strings(line)
        if skip:
            skip += depth_of(plain)
            continue
        if plain.strip() in ("private:", "protected:"):
            private = True
        elif plain.strip() == "public:":
            private = False
        if private and not plain.startswith("}"):
            continue
        if initializers or plain.strip().startswith(": "):
            initializers = not plain.rstrip().endswith("}")
            if out and not out[-1].endswith(";"):
                out[-1] += ";"
            continue
        match = BODY.search(plain)
        if match and not re.match(r"\s*(class|struct|enum)\b", plain):
            head = line[: line.index("{", match.start())].rstrip()
            out.append(re.sub(r"\) : .*", ")", head) + ";")
            skip = depth_of(plain)
            continue
        out.append(line)
    out = [re.sub(r"^( +)///", r"\1//", line) for line in out]
    return [line for line, after in zip(out, [*out[1:], ""], strict=True) if line or after != "};"]


def declarations(header: Path) -> Iterator[Declaration]:
    """The declarations of namespaces in a header, in order."""
    name = header.relative_to(ROOT).as_posix()
    doc: list[str] = []
    code: list[str] = []
    start = 0
    depth = 0
    hidden = 0  # depth of `namespace detail`
    for number, line in enumerate([*header.read_text().splitlines(), ""], 1):
        plain = without_strings(line)
        if depth == 0 and re.match(r"(inline )?namespace ", plain):
            hidden += bool(hidden or "detail" in plain) and not plain.rstrip().endswith("}")
            if doc:
                yield Declaration(name, number, text_of(doc), "")
            doc = []
            continue
        ends = depth == 0 and plain.startswith("}")  # of a namespace
        if ends or (depth == 0 and not line.strip()):
            if code and not hidden and re.search(r"\w", "".join(code)):
                yield Declaration(name, start, text_of(doc), "\n".join(without_bodies(code)))
            elif doc and not code:
                yield Declaration(name, start, text_of(doc), "")
            doc, code = [], []
            hidden = max(0, hidden - ends)
            continue
        if depth == 0 and line.startswith("///"):
            if code:
                if not hidden:
                    yield Declaration(name, start, text_of(doc), "\n".join(without_bodies(code)))
                doc, code = [], []
            doc.append(line[3:].removeprefix(" "))
            continue
        if depth == 0 and line.startswith(("#", "//")):
            continue
        if not code:
            start = number
        code.append(line)
        depth += depth_of(plain)


def text_of(doc: list[str]) -> str:
    return "\n".join(doc).strip("\n")


def is_forward(declaration: Declaration) -> bool:
    """True for `class X;` lines alone."""
    lines = declaration.code.split("\n")
    return bool(declaration.code) and all(re.fullmatch(r"(class|struct) \w+;", x) for x in lines)


def cpp_headers(room: str) -> list[Path]:
    folder = ROOT / "hyper_parallel" / room
    return [
        path
        for path in sorted(folder.glob("*.h"))
        if not path.read_text().startswith("// Internal") and not path.stem.endswith("internal")
    ]


def undocumented_cpp() -> list[str]:
    """Declarations without a comment, as `header:line: name`."""
    return [
        f"{d.header}:{d.line}: {', '.join(d.names) or d.code.splitlines()[0]}"
        for room in CPP_ROOMS
        for header in cpp_headers(room)
        for d in declarations(header)
        if d.code and not d.doc and not is_forward(d)
    ]


def cpp_page(room: str) -> str:
    """The page of a room; empty if it has no header to show."""
    parts = []
    for header in cpp_headers(room):
        found = [d for d in declarations(header) if not is_forward(d)]
        if not found:
            continue
        parts.append(f"## {header.relative_to(ROOT).as_posix()}\n")
        for d in found:
            if d.names:
                parts.append(f"### {', '.join(f'`{name}`' for name in d.names)}\n")
            if d.code:
                parts.append(f"```cpp\n{d.code}\n```\n")
            if d.doc:
                parts.append(d.doc + "\n")
    title = "hyper_parallel" if room == "." else f"hyper_parallel/{room}"
    return f"# {title}\n\n{NOTE}" + "\n".join(parts) if parts else ""


# ---- Python --------------------------------------------------------------------------------------

STUBS = ("_core", "_torch")
TITLES = {
    "parameters": "Arguments",
    "other parameters": "Arguments",
    "returns": "Returns",
    "yields": "Yields",
    "raises": "Raises",
    "attributes": "Attributes",
}


def python_package() -> griffe.Module:
    return griffe.load(
        "hyper_parallel",
        search_paths=[str(ROOT / "python")],
        allow_inspection=False,
        docstring_parser="google",
        docstring_options={"warnings": False},
    )


def modules(module: griffe.Module) -> Iterator[griffe.Module]:
    """The module and all below it, but for names with an underscore other than the stubs."""
    yield module
    for name, member in sorted(module.members.items()):
        hidden = name.startswith("_") and name not in STUBS
        if not member.is_alias and member.is_module and not hidden:
            yield from modules(member)


def public_names(module: griffe.Module) -> list[griffe.Object]:
    """What the module defines and offers, in the order of the file."""
    stub = module.name in STUBS
    found = []
    for name, member in module.members.items():
        if member.is_alias or member.is_module or name.startswith("_"):
            continue
        if stub or (module.exports is not None and name in map(str, module.exports)):
            found.append(member)
    return sorted(found, key=lambda member: member.lineno or 0)


def methods(cls: griffe.Class) -> list[griffe.Object]:
    return [
        member
        for name, member in cls.members.items()
        if not name.startswith("_")
        and not member.is_alias
        and (member.is_function or "property" in member.labels)
    ]


def undocumented_python(package: griffe.Module | None = None) -> list[str]:
    """Names of the reference without a docstring, as `module.name`."""
    missing = []
    for module in modules(package or python_package()):
        if not module.docstring and (public_names(module) or module.exports):
            missing.append(module.path)
        for thing in public_names(module):
            if not (thing.is_function or thing.is_class):
                continue
            if not thing.docstring:
                missing.append(thing.path)
            if thing.is_class:
                missing += [member.path for member in methods(thing) if not member.docstring]
    return missing


def signature(thing: griffe.Object) -> str:
    if thing.is_class:
        bases = ", ".join(str(base) for base in thing.bases)
        init = thing.members.get("__init__")
        head = f"class {thing.name}({bases})" if bases else f"class {thing.name}"
        return head if init is None or init.is_alias else f"{head}\n{signature(init)}"
    if "property" in thing.labels:
        value = thing.annotation if thing.annotation is not None else "Any"
        return f"{thing.name}: {value}"
    overloads = getattr(thing, "overloads", None) or [thing]
    return "\n".join(one_signature(each) for each in overloads)


def one_signature(function: griffe.Function) -> str:
    parts = []
    kinds = griffe.ParameterKind
    names = list(function.parameters)
    for index, p in enumerate(names):
        if p.name in ("self", "cls") and index == 0:
            continue
        star = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(p.kind, "")
        if p.kind is kinds.keyword_only and not any(
            q.kind in (kinds.var_positional, kinds.keyword_only) for q in names[:index]
        ):
            parts.append("*")
        text = star + p.name
        if p.annotation is not None:
            text += f": {p.annotation}"
        if p.default is not None and not star:
            text += f" = {p.default}" if p.annotation is not None else f"={p.default}"
        parts.append(text)
        later = names[index + 1 :]
        if p.kind is kinds.positional_only and not any(
            q.kind is kinds.positional_only for q in later
        ):
            parts.append("/")
    result = "" if function.returns is None else f" -> {function.returns}"
    line = f"{function.name}({', '.join(parts)}){result}"
    if len(line) <= 100:
        return line
    return f"{function.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def ticks(text: str) -> str:
    return text.replace("``", "`")


def prose(text: str) -> str:
    """A docstring's text as Markdown: literal blocks are indented in both."""
    return ticks(re.sub(r"::(\n|$)", r":\1", text.strip("\n")))


def docstring(thing: griffe.Object) -> str:
    if not thing.docstring:
        return ""
    parts = []
    for section in thing.docstring.parsed:
        kind = section.kind.value
        if kind == "text":
            parts.append(prose(section.value))
        elif kind == "examples":
            parts += [f"```python\n{value}\n```" for _, value in section.value]
        elif kind == "admonition":
            title = section.title or section.value.kind
            parts.append(f"**{title}:** {prose(section.value.contents)}")
        elif kind in TITLES:
            lines = [f"**{TITLES[kind]}**\n"]
            for item in section.value:
                head = getattr(item, "name", "") or ""
                note = item.annotation if kind == "raises" else head
                text = " ".join(prose(item.description).split())
                lines.append(f"- `{note}`: {text}" if note else f"- {text}")
            parts.append("\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def python_section(module: griffe.Module) -> str:
    things = [t for t in public_names(module) if t.is_function or t.is_class]
    if not things:
        return ""
    parts = [f"## {module.path}\n", docstring(module)]
    for thing in things:
        parts.append(f"### `{thing.name}`\n\n```python\n{signature(thing)}\n```\n")
        parts.append(docstring(thing))
        for member in methods(thing) if thing.is_class else []:
            head = f"#### `{thing.name}.{member.name}`\n\n```python\n{signature(member)}\n```\n"
            parts += [head, docstring(member)]
    return "\n".join(part for part in parts if part)


def python_rooms(package: griffe.Module) -> dict[str, list[griffe.Module]]:
    """The modules of each folder; the package's own modules and the stubs each have a page."""
    rooms: dict[str, list[griffe.Module]] = {}
    for module in modules(package):
        parts = module.path.split(".")[1:]
        folder = module.is_package or module.is_subpackage
        room = "/".join(parts if folder or len(parts) == 1 else parts[:-1])
        rooms.setdefault(room, []).append(module)
    return rooms


# ---- Pages ---------------------------------------------------------------------------------------


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:])\s", " ".join(ticks(text).split()))[0].rstrip(":")


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
    for room, members in sorted(python_rooms(package).items()):
        sections = [text for text in map(python_section, members) if text]
        if not sections:
            continue
        name = (room or "package").replace("/", "_")
        title = "hyper_parallel" + ("." + room.replace("/", ".") if room else "")
        out[f"{OUT}/python/{name}.md"] = f"# {title}\n\n{NOTE}" + "\n".join(sections)
        names = [t.name for m in members for t in public_names(m) if t.is_function or t.is_class]
        shown = ", ".join(f"`{n}`" for n in names[:8]) + (", ..." if len(names) > 8 else "")
        index.append(f"- [{title}](python/{name}.md): {shown}")
    index.append("\n## C++\n")
    for room in CPP_ROOMS:
        page = cpp_page(room)
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
