"""Check rules of the tree that no compiler or formatter checks.

Prints one line for each finding and ends with status 1 if one of them is an error.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".cpp", ".h", ".py", ".cmake", ".toml", ".yaml", ".yml", ".json", ".md", ".txt"}
TORCH_FREE = tuple(f"hyper_parallel/{part}/" for part in ("core", "rules", "plan", "report", "cli"))
LONG_FILE = 500  # lines

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
WIDE = re.compile(r"^(torch/(torch|extension|all)\.h|ATen/ATen\.h)$")
PYTHON = re.compile(r"^(Python\.h|pybind11/|torch/csrc/utils/pybind\.h)")
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
    errors: list[str] = []
    for name in tree_files():
        path = ROOT / name
        if path.suffix not in SOURCES and path.name != "Makefile":
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            errors.append(f"{name}: not UTF-8")
            continue
        errors += check_text(name, text)
        if path.suffix in {".cpp", ".h"}:
            errors += check_includes(name, text)
        if path.suffix == ".h":
            errors += check_header(name, text)
        lines = text.count("\n")
        if path.suffix in {".cpp", ".h", ".py"} and lines > LONG_FILE:
            print(f"note: {name} has {lines} lines (over {LONG_FILE})")
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
