"""The command line: ``hyper_parallel COMMAND``, or ``python -m hyper_parallel COMMAND``.

Only ``verify`` needs torch. Commands end with 0; with 1 where the answer is bad news (a rule that
is wrong, a redistribution that does not exist); with 2 where they were called wrongly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from hyper_parallel import _core
from hyper_parallel.errors import CommError, InternalError, UnsupportedError, UsageError

__all__ = ["main"]


def plan(arguments: Sequence[str]) -> int:
    """Tell how a tensor gets from one layout to another: steps, bytes, the lower bound, time.

    hyper_parallel plan "f32[4096, 1024] on dp=2 tp=4: S(0) R" "R S(1)"
    """
    parser = _parser(plan)
    parser.add_argument("source", help='"f32[4096, 1024] on dp=2 tp=4: S(0) R"')
    parser.add_argument("target", help='"R S(1)", or on another mesh "dp=8: S(1)"')
    parser.add_argument(
        "--topology", default=_core.topologies()[0], help=", ".join(_core.topologies())
    )
    parser.add_argument("--json", action="store_true", help="for other programs")
    given = parser.parse_args(arguments)
    print(_core.explain_plan(given.source, given.target, given.topology, given.json).rstrip("\n"))
    return 0


def rules(arguments: Sequence[str]) -> int:
    """Show the rules of ops, and what one mesh axis may do in a call.

    hyper_parallel rules                                     all names, by family
    hyper_parallel rules topk                                the table of a sample call
    hyper_parallel rules aten::mm "f32[8, 16]; f32[16, 32]"  the table of this call
    hyper_parallel rules aten::sum "f32[8, 16]" dim=1        with attributes
    hyper_parallel rules --markdown                          the page docs/rules.md
    """
    parser = _parser(rules)
    parser.add_argument("op", nargs="?", help="aten::mm, mm, topk; all names are listed without it")
    parser.add_argument("rest", nargs="*", help="operands as text, and attributes")
    parser.add_argument("--markdown", action="store_true", help="write docs/rules.md")
    given = parser.parse_args(arguments)
    if given.markdown:
        print(_core.rules_markdown(), end="")
    elif given.op is None:
        print(_core.rules_listing())
    else:
        operands = " ".join(part for part in given.rest if "[" in part and "=" not in part)
        attrs = " ".join(part for part in given.rest if "=" in part)
        print(_core.rules_table(given.op, operands, attrs))
    return 0


def explain(arguments: Sequence[str]) -> int:
    """Show a record of collectives that ``CommReport.to_json`` wrote.

    hyper_parallel explain step.json                   sums by phase, kind and axes
    hyper_parallel explain step.json --why             each collective with its cause
    hyper_parallel explain step.json --html step.html  a page with both
    """
    from hyper_parallel.report import CommReport

    parser = _parser(explain)
    parser.add_argument("record", help="a file of CommReport.to_json")
    parser.add_argument("--why", action="store_true", help="each collective with its cause")
    parser.add_argument("--html", metavar="PAGE", help="write a page in place of text")
    parser.add_argument("--title", default="Communication", help="of the page")
    given = parser.parse_args(arguments)
    report = CommReport.from_json(given.record)
    if given.html:
        report.to_html(given.html, given.title)
    else:
        print(report.why() if given.why else report.table())
    return 0


def verify(arguments: Sequence[str]) -> int:
    """Check rules on real tensors: is every strategy true, and is one missing?"""
    return import_module("hyper_parallel.verifier.session").main(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    command.__name__: command for command in (plan, rules, explain, verify)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(_usage())
        return 0
    if not given or given[0] not in _COMMANDS:
        print(_usage(), file=sys.stderr)
        return 2
    try:
        return _COMMANDS[given[0]](given[1:])
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except (UnsupportedError, CommError, InternalError) as error:
        print(error, file=sys.stderr)
        return 1


def _usage() -> str:
    lines = ["usage: hyper_parallel COMMAND ...", ""]
    for name, command in _COMMANDS.items():
        lines.append(f"  {name:<8} {(command.__doc__ or '').partition(chr(10))[0]}")
    return "\n".join([*lines, "", "hyper_parallel COMMAND --help says more."])


def _parser(command: Callable[[Sequence[str]], int]) -> argparse.ArgumentParser:
    text = "\n".join(line.removeprefix("    ") for line in (command.__doc__ or "").splitlines())
    return argparse.ArgumentParser(
        prog=f"hyper_parallel {command.__name__}",
        description=text.rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
