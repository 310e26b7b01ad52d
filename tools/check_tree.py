"""Check rules of the tree that no compiler or formatter checks.

Prints one line for each finding and ends with status 1 if one of them is an error.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".cpp", ".h", ".py", ".cmake", ".toml", ".yaml", ".yml", ".json", ".md", ".txt"}

# The most lines of a file, by the first folder that fits. Stubs and data have no limit.
LIMITS = {"tests/": 600, "hyper_parallel/rules/families/": 300, "": 400}
# Files over their limit, with the lines they have. They may only shrink; the entry then goes.
LONGER = {
    "hyper_parallel/torch/ranks/local/world.cpp": 442,
    "python/hyper_parallel/local/local_code.py": 460,
}

# The rooms, lowest first, and what each may see besides itself. A room sees only rooms that stand
# above its own line, so the table has no circle; `check_arrows` refuses one that does.
CPP_ROOMS = {
    "core": "",
    "plan": "core",
    "rules": "core plan",
    "rules/build": "core rules",
    "rules/text": "core rules rules/build",
    "rules/engine": "core plan rules",
    "rules/families": "core rules rules/build rules/text",
    "rules/query": "core rules rules/build rules/text rules/engine rules/families",
    "explain": "core plan rules rules/text rules/query",
    "torch/base": "core",
    "torch/ranks/local": "core torch/base",
    "torch/ranks": "core torch/base torch/ranks/local",
    "torch/random": "core torch/base",
    "torch/comm": "core plan explain torch/base torch/ranks",
    "torch/tensor": "core plan torch/base torch/ranks torch/comm",
    "torch/local": "core torch/base torch/ranks torch/comm torch/tensor",
    "torch/dispatch": "core plan rules torch/base torch/ranks torch/comm torch/tensor",
    "torch/handlers": "core plan rules torch/base torch/ranks torch/comm torch/tensor "
    "torch/dispatch",
    "torch/draws": "core plan rules torch/base torch/ranks torch/random torch/comm torch/tensor "
    "torch/dispatch",
    "torch/ops": "core torch/base",
    "torch/face": "core plan torch/base torch/ranks torch/comm torch/tensor torch/local",
    "torch/verify": "core plan rules rules/engine torch/base torch/ranks torch/comm torch/tensor "
    "torch/dispatch",
    # The list of public headers.
    ".": "core plan rules rules/query explain torch/ranks torch/comm torch/dispatch torch/face",
}
PYTHON_ROOMS = {
    "launch": ".",
    "layouts": ". launch",
    "local": ". launch layouts",
    "dtensors": ". launch layouts local",
    "rules": ".",
    "own_ops": ". launch layouts local rules",
    "modules": ". launch layouts local dtensors",
    "verifier": ". launch layouts local own_ops",
    "verifier/cases": ". verifier",
    # Names of torch and of the older system, and the package itself.
    "tensor/experimental": ". layouts local dtensors",
    "tensor/parallel": "modules tensor/experimental",
    "tensor": "layouts dtensors modules tensor/parallel",
    "core/shard/ops": "own_ops",
}
TORCH_FREE = tuple(
    f"hyper_parallel/{room}/" for room in CPP_ROOMS if not room.startswith((".", "torch"))
)

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
WIDE = re.compile(r"^(torch/(torch|extension|all)\.h|ATen/ATen\.h)$")
PYTHON = re.compile(r"^(Python\.h|pybind11/|torch/csrc/utils/pybind\.h)")
CPP_INCLUDE = re.compile(r'^#include "([\w/]+\.h)"', re.MULTILINE)
CPP_ARROW = re.compile(r'^#include "hyper_parallel/([\w/]+)/\w+\.h"', re.MULTILINE)
PYTHON_ARROW = re.compile(
    r"^\s*(?:from|import) hyper_parallel\.([\w.]+)(?: import ([^\n]*))?", re.MULTILINE
)
# At the start of a line: not in a function, and not for types alone.
PYTHON_IMPORT = re.compile(
    r"^from hyper_parallel((?:\.\w+)*) import (\([^)]*\)|[^\n]*)"
    r"|^import hyper_parallel((?:\.\w+)+)",
    re.MULTILINE,
)
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def tree_files() -> list[str]:
    """List tracked and new files that git does not ignore, relative to the root."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in set(listed.stdout.split("\0")) if (ROOT / name).is_file())


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check_includes(name: str, text: str) -> list[str]:
    """Keep torch out of the torch-free part, wide headers and Python out of the library."""
    errors = []
    library = name.startswith("hyper_parallel/")
    for match in INCLUDE.finditer(text):
        header = match[1]
        where = f"{name}:{line_of(text, match.start())}"
        if name.startswith(TORCH_FREE) and (
            TORCH.match(header) or header.startswith("hyper_parallel/torch/")
        ):
            errors.append(f"{where}: torch header in the torch-free part: {header}")
        if (library or name.startswith("python/")) and WIDE.match(header):
            errors.append(f"{where}: wide header, include the narrow one: {header}")
        if library and PYTHON.match(header):
            errors.append(f"{where}: Python header in the library, use python/src: {header}")
    return errors


def check_table(rooms: dict[str, str], which: str) -> list[str]:
    """A room may see only rooms of the lines above it."""
    errors = []
    above: set[str] = {"."} if which == "Python" else set()
    for room, seen in rooms.items():
        for other in seen.split():
            if other not in above:
                errors.append(
                    f"tools/check_tree.py: {which} room {room} would see {other} below it"
                )
        above.add(room)
    return errors


def check_arrows(name: str, text: str) -> list[str]:
    """A file sees its own room and those that the table allows."""
    path = Path(name)
    errors = []
    if name.startswith("hyper_parallel/") and "gloo_headers" not in name:
        room = path.parent.relative_to("hyper_parallel").as_posix()
        rooms, arrow = CPP_ROOMS, CPP_ARROW
        seen = [(m.start(), m[1]) for m in arrow.finditer(text)]
    elif name.startswith("python/hyper_parallel/") and path.suffix == ".py":
        room = path.parent.relative_to("python/hyper_parallel").as_posix()
        rooms = PYTHON_ROOMS
        if room == ".":  # the package itself, and what all of it may see
            return []
        seen = [(m.start(), room_of_module(m[1])) for m in PYTHON_ARROW.finditer(text)]
    else:
        return []
    if seen and room not in rooms:
        return [f"{name}: the room {room} is not in the table of tools/check_tree.py"]
    for start, other in seen:
        if other != room and other not in rooms[room].split():
            errors.append(f"{name}:{line_of(text, start)}: {room} may not see {other}")
    return errors


def room_of_module(module: str) -> str:
    parts = module.split(".")
    while parts and not (ROOT / "python/hyper_parallel" / "/".join(parts)).is_dir():
        parts.pop()
    return "/".join(parts) or "."


def imported(text: str) -> list[str]:
    """The modules of ours that a Python file needs when it is loaded, as paths."""
    found = []
    for match in PYTHON_IMPORT.finditer(text):
        module = f"python/hyper_parallel{(match[1] or match[3] or '').replace('.', '/')}"
        names = re.findall(r"\w+", match[2] or "")
        inside = [f"{module}/{name}.py" for name in names]
        found += [path for path in inside if (ROOT / path).is_file()] or [f"{module}.py"]
    return found


def check_circles(texts: dict[str, str]) -> list[str]:
    """No header includes itself, and no module of Python is loaded for itself, by way of others."""
    graph = {}
    for name, text in texts.items():
        if name.endswith(".h"):
            graph[name] = CPP_INCLUDE.findall(text)
        elif name.startswith("python/hyper_parallel/") and name.endswith(".py"):
            graph[name] = imported(text)
    errors = []
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            errors.append(f"{name}: a circle: {' -> '.join(circle)}")
        elif name in graph and name not in done:
            path.append(name)
            for other in graph[name]:
                visit(other)
            path.pop()
            done.add(name)

    for name in graph:
        visit(name)
    return errors


def check_length(name: str, text: str) -> list[str]:
    """A file that is too long is split by idea."""
    if Path(name).suffix not in {".cpp", ".h", ".py"}:
        return []
    lines = text.count("\n")
    limit = next(most for folder, most in LIMITS.items() if name.startswith(folder))
    allowed = LONGER.get(name, limit)
    if lines > allowed:
        return [f"{name}: {lines} lines, at most {allowed}: split it by idea"]
    if name in LONGER and lines <= limit:
        return [f"{name}: {lines} lines: take it off LONGER in tools/check_tree.py"]
    return []


def check_header(name: str, text: str) -> list[str]:
    """A header has `#pragma once` first (a comment may stand above) and says what it is for."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("//")]
    errors = []
    if not code or code[0] != "#pragma once":
        errors.append(f"{name}: the first line that is no comment must be #pragma once")
    if len(code) == len(lines):
        errors.append(f"{name}: no comment says what this header is for")
    return errors


def check_text(name: str, text: str) -> list[str]:
    """No open ends, no blanks at line ends, one newline at the end."""
    errors = [
        f"{name}:{line_of(text, match.start())}: {match[0]} left in"
        for match in UNFINISHED.finditer(text)
    ]
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            errors.append(f"{name}:{number}: blanks at the end of the line")
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        errors.append(f"{name}: must end with exactly one newline")
    return errors


def main() -> int:
    errors = check_table(CPP_ROOMS, "C++") + check_table(PYTHON_ROOMS, "Python")
    texts = {}
    for name in tree_files():
        path = ROOT / name
        if path.suffix not in SOURCES and path.name != "Makefile":
            continue
        try:
            texts[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            errors.append(f"{name}: not UTF-8")
    for name, text in texts.items():
        errors += check_text(name, text) + check_arrows(name, text) + check_length(name, text)
        if name.endswith((".cpp", ".h")):
            errors += check_includes(name, text)
        if name.endswith(".h"):
            errors += check_header(name, text)
    errors += check_circles(texts)
    errors += [f"{name}: on LONGER, but not in the tree" for name in LONGER if name not in texts]
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
