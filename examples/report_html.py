"""The page of train_qwen3.py: loss curves and the communication table."""

import html
import io

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th { background: #f4f4f4; } td:first-child, th:first-child { text-align: left; }
"""


def figure(curves: dict[str, list[float]]) -> str:
    """Loss curves as an inline SVG; the runs lie on one another, so they differ in line style."""
    fig, (loss, gap) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    first = next(iter(curves.values()))
    for (name, values), style in zip(curves.items(), ("-", "--", ":"), strict=True):
        loss.plot(values, style, label=name, linewidth=2.2 if style == "-" else 1.6)
        if style != "-":
            gaps = [max(abs(a - b), 1e-17) for a, b in zip(values, first, strict=True)]
            gap.semilogy(gaps, style, label=name)
    loss.set(xlabel="step", ylabel="loss", title="loss")
    gap.set(xlabel="step", ylabel="|difference|", title="difference from one device (float64)")
    loss.legend()
    gap.legend()
    out = io.StringIO()
    fig.savefig(out, format="svg")
    pyplot.close(fig)
    text = out.getvalue()
    return text[text.index("<svg") :]


def table(head: list[str], rows: list[list[object]]) -> str:
    def line(tag, cells):
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    return "<table>" + line("th", head) + "".join(line("td", r) for r in rows) + "</table>"


def page(single: list[float], parallel: dict, megatron: dict) -> str:
    names = {"tensor": "dp=2 tp=2", "sequence": "dp=2 tp=2, sequence parallel"}
    curves = {"one device": single} | {names[k]: parallel[k][0] for k in names}
    losses = [
        [i, f"{loss:.12f}"]
        + [
            x
            for k in names
            for x in (f"{parallel[k][0][i]:.12f}", f"{abs(loss - parallel[k][0][i]):.1e}")
        ]
        for i, loss in enumerate(single)
    ]
    counts = []
    for key, want in megatron.items():
        got = parallel["counts"][key]
        for phase, kind in sorted(set(got) | set(want)):
            counts.append(
                [names[key], phase, kind, got.get((phase, kind), 0), want.get((phase, kind), 0)]
            )
    detail = [
        [r.phase, r.kind, " ".join(r.axes), r.tensor, f"{r.source} -> {r.target}", r.bytes]
        + [r.op or "the program", r.reason]
        for r in parallel["report"].rows
    ]
    return f"""<!doctype html>
<meta charset="utf-8"><title>Qwen3 on one device and on a mesh</title><style>{STYLE}</style>
<h1>One step, one device or four ranks: the same numbers</h1>
<p>An unmodified Qwen3, real text, float64. Tensors are split by a plan of a few lines; every
collective below was derived.</p>
{figure(curves)}
<h2>Collectives of one layer over tp</h2>
{table(["run", "phase", "collective", "ours", "Megatron-LM"], counts)}
<h2>All collectives of one step (one layer, dp=2 tp=2, rank 0)</h2>
{table(["phase", "collective", "over", "tensor", "layouts", "bytes", "for", "why"], detail)}
<h2>Losses</h2>
{table(["step", "one device", "dp=2 tp=2", "difference", "sequence", "difference"], losses)}
"""
