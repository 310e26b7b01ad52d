"""Read the Python package without importing it: public names, signatures, docstrings."""

import re
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parent.parent
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
        if init is None or init.is_alias:
            return head
        made = one_signature(init).removesuffix(" -> None").replace("__init__", thing.name, 1)
        return f"{head}\n{made}" if bases else made
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
