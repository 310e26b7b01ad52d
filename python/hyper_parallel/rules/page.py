"""What ``hyper_parallel rules`` prints: names, tables of strategies, the page docs/rules.md."""

from __future__ import annotations

from hyper_parallel import _core
from hyper_parallel.errors import near_facts, usage_error
from hyper_parallel.rules.infer import strategies
from hyper_parallel.rules.samples import parse_attrs, parse_inputs, sample

__all__ = ["listing", "markdown", "table"]

Rows = list[tuple[str, str, str, list[str]]]

_HEAD = """\
# Rules

This page is made by `python -m hyper_parallel rules --markdown`. A rule is read as
[notation.md](notation.md) says; [inference.md](inference.md) shows how to ask it. A rule that
starts with a word is made by C++ code from sizes and attributes: the head of the family's file,
`hyper_parallel/rules/families/<family>.cpp`, says what its words mean. The third column has what
every rule, however made, is for one call: its letters with their sizes.
`python -m hyper_parallel rules topk` shows that call, and all its strategies.

Names in the last column are those of Paddle's ops. They go with Paddle's operands and attributes.
"""


def rows() -> Rows:
    """All rows: family, op, rule, Paddle's names."""
    return _core.rule_rows()


def row_of(op: str) -> tuple[str, str, str]:
    """Find the row that serves a name: its op, its rule, the family.

    Raises:
        UsageError: HP-S040, an unknown op.
    """
    known = rows()
    for family, name, rule, _ in known:
        if name == op:
            return name, rule, family
    for family, name, rule, names in known:
        if op.removeprefix("paddle::") in names:
            return name, rule, family
    for family, name, rule, _ in known:
        if name == f"aten::{op}":
            return name, rule, family
    names = _core.rule_names()
    raise usage_error(
        "HP-S040", f'no rule for an op named "{op}"', **near_facts("known", op, names)
    )


def table(op: str, operands: str = "", attrs: str = "") -> str:
    """Write the table of strategies of a call, by default of the row's sample.

    Args:
        op: a name; without operands Paddle's names stand for the rows that serve them.
        operands: ``"f32[8, 16]; f32[16, 32]"``.
        attrs: ``"dim=1 keepdim=True"``.

    Raises:
        UsageError: an unknown op, or a call that does not fit.
    """
    name, rule, family = row_of(op)
    called = op
    if not operands:
        called = name
        operands, _, own = sample(name, rule).partition("|")
        attrs = " ".join(part for part in (own.strip(), attrs) if part)
    made = strategies(called, parse_inputs(operands), parse_attrs(attrs))
    title = name if op == name else f"{op}, by {name}"
    lines = [f"{title}    {rule}", f"family {family}", f"call {operands.strip()}"]
    if attrs:
        lines[-1] += f", {attrs}"
    lines += [f"rule {line}" for line in made.sized.splitlines()]
    lines += [""] + [str(line) for line in made]
    docs = dict(_core.rule_handlers())
    handlers = sorted({line.handler for line in made if line.handler})
    if handlers:
        lines += [""] + [f"~{handler}: {docs[handler]}" for handler in handlers]
    return "\n".join(lines)


def listing() -> str:
    """Write all names, by family."""
    lines = []
    family = ""
    for own, op, rule, names in rows():
        if own != family:
            family = own
            lines.append(f"{'' if not lines else chr(10)}{family}")
        also = f"    also {', '.join(names)}" if names else ""
        lines.append(f"  {op:<44} {rule}{also}")
    return "\n".join(lines)


def _code(*texts: str) -> str:
    return " ".join(f"`{text.replace('|', chr(92) + '|')}`" for text in texts)


def _sized(op: str, rule: str) -> str:
    """The rule of a row's sample call; of an op on lists that of the first element."""
    operands, _, attrs = sample(op, rule).partition("|")
    lines = strategies(op, parse_inputs(operands), parse_attrs(attrs)).sized.splitlines()
    return next(line for line in lines if not line.startswith("handler "))


def markdown() -> str:
    """Write docs/rules.md."""
    known = rows()
    lines = [_HEAD]
    families: dict[str, Rows] = {}
    for row in known:
        families.setdefault(row[0], []).append(row)
    paddle = sorted({name for row in known for name in row[3]})
    lines.append(f"{len(known)} rows in {len(families)} families; {len(paddle)} names of Paddle.\n")
    for family, members in families.items():
        lines += [f"## {family}", "", "| op | rule | of a call | Paddle |", "|---|---|---|---|"]
        for _, op, rule, names in members:
            cells = [f"`{op}`", _code(rule), _code(_sized(op, rule)), _code(*names)]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        "## Handlers",
        "",
        "Where a rule says `~name` the op runs by this handler instead of on local tensors alone.",
        "",
        "| handler | does |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {doc} |" for name, doc in _core.rule_handlers()]
    return "\n".join(lines) + "\n"
