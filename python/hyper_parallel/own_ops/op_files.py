"""Distributed ops and rules that YAML files name.

    MyOp:
      dist_op_name: _my_op_dist
      distributed_op_class: MyOpDistributedOp
      distributed_op_file: parallel_my_op
    mylib::swiglu:
      rule: "... f, ... f -> ... f"

A block ``__default__`` gives what entries of its file leave out. A class is looked for in the
file's folder, in the folders given, in those of ``HYPER_PARALLEL_OPS_PYTHON_PATH``, and among
modules.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hyper_parallel.errors import UsageError, near_facts, placed, usage_error
from hyper_parallel.own_ops.distributed_op import (
    SUFFIXES,
    DistributedOp,
    find_distributed_op,
    register_rule,
)

__all__ = ["load_distributed_ops"]

BUILT_IN = Path(__file__).parents[1] / "core" / "shard" / "ops" / "yaml"
_KEYS = (
    "dist_op_name",
    "distributed_op_class",
    "distributed_op_file",
    "distributed_op_module",
    "infer_layout_suffix",
    "rule",
)


def load_distributed_ops(
    folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    python_path: Sequence[str | os.PathLike[str]] = (),
) -> list[str]:
    """Register what the YAML files of folders name, besides what is registered.

    At import this is done for the folder ``core/shard/ops/yaml`` of the package, and for those that
    ``HYPER_PARALLEL_OPS_YAML_DIR`` lists, separated as in ``PATH``.

    Args:
        folders: of ``*.yaml`` files, or such files.
        python_path: folders of the modules that entries name.

    Returns:
        The names that were registered.

    Raises:
        UsageError: a file that cannot be read, an unknown key, a class that is not found, two
            entries for one op; with file and line.
    """
    several = [folders] if isinstance(folders, (str, os.PathLike)) else list(folders)
    entries: dict[str, _Entry] = {}
    for folder in several:
        for entry in _entries_of(Path(folder)):
            before = entries.setdefault(entry.name, entry)
            if before is not entry:
                raise usage_error(
                    "HP-F052", f'{entry.place}: "{entry.name}" has another entry', at=before.place
                )
    extra = [Path(each) for each in python_path]
    extra += [Path(p) for p in _listed("HYPER_PARALLEL_OPS_PYTHON_PATH")]
    for entry in entries.values():
        entry.register(extra)
    return list(entries)


def load_at_import() -> None:
    """Register what the package and the environment name."""
    folders: list[Path] = [BUILT_IN] if BUILT_IN.is_dir() else []
    folders += [Path(p) for p in _listed("HYPER_PARALLEL_OPS_YAML_DIR")]
    if any(any(folder.glob("*.yaml")) for folder in folders if folder.is_dir()) or len(folders) > 1:
        load_distributed_ops(folders)


def _listed(variable: str) -> list[str]:
    return [part for part in os.environ.get(variable, "").split(os.pathsep) if part]


# ---- Reading -------------------------------------------------------------------------------


class _Entry:
    """One entry of a file, and where it stands."""

    def __init__(self, name: str, values: dict[str, Any], file: Path, line: int) -> None:
        self.name, self.values, self.file, self.line = name, values, file, line

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def register(self, python_path: Iterable[Path]) -> None:
        if "rule" in self.values:
            try:
                register_rule(self.name, str(self.values["rule"]))
            except UsageError as error:
                raise placed(error, self.place) from None
            return
        for key in ("distributed_op_class",):
            if not self.values.get(key):
                raise self.error("HP-F051", f'"{self.name}" has no {key}', keys=", ".join(_KEYS))
        suffix = self.values.get("infer_layout_suffix") or ""
        if suffix not in SUFFIXES:
            raise self.error(
                "HP-F051",
                f'"{self.name}": no kind of infer_layout is named "{suffix}"',
                kinds=", ".join(repr(each) for each in SUFFIXES),
            )
        found = self._class(python_path)
        before = find_distributed_op(self.name)
        if before is not None and type(before).__qualname__ != found.__qualname__:
            raise self.error(
                "HP-F052",
                f'"{self.name}" has a distributed op already',
                registered=type(before).__qualname__,
            )
        made = found(self.name)
        made.suffix = suffix

    def _class(self, python_path: Iterable[Path]) -> type[DistributedOp]:
        name = self.values["distributed_op_class"]
        module = self._module(python_path)
        found = getattr(module, name, None)
        if not isinstance(found, type) or not issubclass(found, DistributedOp):
            classes = [
                n
                for n, v in vars(module).items()
                if isinstance(v, type) and issubclass(v, DistributedOp) and v is not DistributedOp
            ]
            raise self.error(
                "HP-F053",
                f'"{self.name}": {module.__name__} has no DistributedOp named {name}',
                **near_facts("classes", str(name), classes),
            )
        return found

    def _module(self, python_path: Iterable[Path]) -> ModuleType:
        dotted = self.values.get("distributed_op_module")
        file = str(self.values.get("distributed_op_file") or "").removesuffix(".py")
        if not dotted and not file:
            raise self.error(
                "HP-F051", f'"{self.name}" has no distributed_op_file', keys=", ".join(_KEYS)
            )
        try:
            if dotted:
                return importlib.import_module(dotted)
            folders = [self.file.parent, self.file.parent.parent, *python_path]
            for folder in folders:
                path = folder / f"{file}.py"
                if path.is_file():
                    return _module_of_file(path)
            return importlib.import_module(file)
        except ImportError as error:
            raise self.error(
                "HP-F053",
                f'"{self.name}": {dotted or file} cannot be imported',
                cause=error,
                hint="HYPER_PARALLEL_OPS_PYTHON_PATH, or python_path=, names folders of modules",
            ) from error

    def error(self, code: str, text: str, **facts: object) -> Exception:
        return usage_error(code, f"{self.place}: {text}", **facts)


def _module_of_file(path: Path) -> ModuleType:
    """Import a file once, under a name of its own."""
    mark = hashlib.sha1(str(path.resolve()).encode(), usedforsecurity=False).hexdigest()[:8]
    name = f"hyper_parallel_ops_{path.stem}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _entries_of(folder: Path) -> list[_Entry]:
    if folder.is_file():
        return _entries_of_file(folder)
    if not folder.is_dir():
        raise usage_error("HP-F050", f"no folder of YAML files at {folder}")
    return [entry for file in sorted(folder.glob("*.yaml")) for entry in _entries_of_file(file)]


def _entries_of_file(file: Path) -> list[_Entry]:
    try:
        import yaml
    except ImportError as error:
        raise usage_error(
            "HP-F050", "PyYAML is needed to read YAML files", hint="pip install pyyaml"
        ) from error
    try:
        node = yaml.compose(file.read_text(), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark is not None else str(file)
        problem = getattr(error, "problem", None) or error
        raise usage_error("HP-F050", f"{where}: {problem}") from error
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise usage_error("HP-F051", f"{file}:1: entries by op name are needed")
    made: list[_Entry] = []
    lines: dict[str, int] = {}
    default: dict[str, Any] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            raise usage_error(
                "HP-F052", f'{file}:{line}: "{name}" has another entry', at=f"{file}:{lines[name]}"
            )
        lines[name] = line
        if not isinstance(value, yaml.MappingNode):
            raise usage_error(
                "HP-F051", f'{file}:{line}: "{name}" is no block of keys', keys=", ".join(_KEYS)
            )
        values: dict[str, Any] = {}
        for inner, item in value.value:
            at = f"{file}:{inner.start_mark.line + 1}"
            if inner.value not in _KEYS:
                raise usage_error(
                    "HP-F051",
                    f'{at}: "{name}" has an unknown key "{inner.value}"',
                    **near_facts("keys", str(inner.value), _KEYS),
                )
            if not isinstance(item, yaml.ScalarNode):
                raise usage_error("HP-F051", f'{at}: "{inner.value}" of "{name}" is no text')
            values[inner.value] = item.value
        if name == "__default__":
            default = values
        else:
            made.append(_Entry(name, values, file, line))
    for entry in made:
        entry.values = {**({} if "rule" in entry.values else default), **entry.values}
    return made
