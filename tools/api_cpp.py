"""Read the headers of the library: what namespaces declare, with its `///` comment."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from check_tree import CPP_ROOMS

ROOT = Path(__file__).resolve().parent.parent


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


def cpp_page(room: str, note: str) -> str:
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
    return f"# {title}\n\n{note}" + "\n".join(parts) if parts else ""
