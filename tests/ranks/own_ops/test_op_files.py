"""YAML files that name distributed ops and rules."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from ranks_support import refused

import hyper_parallel as hp
from hyper_parallel import Layout, UsageError, get_distributed_op, load_distributed_ops
from hyper_parallel.core.shard.ops.parallel_ops_register import unregister

MODULE = """
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class MyOpDistributedOp(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        return (layouts[0],)
"""

ENTRY = """
{name}:
  dist_op_name: _my_op_dist
  distributed_op_class: {cls}
  distributed_op_file: {file}
"""


def write(folder, name="Xxx", cls="MyOpDistributedOp", file="parallel_my_op", more=""):
    (folder / "parallel_my_op.py").write_text(MODULE)
    (folder / "custom_ops.yaml").write_text(ENTRY.format(name=name, cls=cls, file=file) + more)
    return folder


def test_reg_01_after_yaml_registration_the_op_is_found(tmp_path):
    assert load_distributed_ops(write(tmp_path)) == ["Xxx"]
    op = get_distributed_op("Xxx")
    assert type(op).__name__ == "MyOpDistributedOp" and op.op_name == "Xxx"

    class Xxx(hp.DFunction):
        _op_name = "Xxx"

        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    def step():
        line = Layout((2,), ("dp",))
        out = Xxx.apply(hp.distribute_tensor(torch.ones(4), line("dp")))
        return out.layout == line("dp"), out.tolist()

    assert hp.run_local(step, 2) == [(True, [2.0] * 4)] * 2
    assert load_distributed_ops(tmp_path) == ["Xxx"]  # once more is no mistake
    unregister("Xxx")


def test_defaults_suffixes_and_rules(tmp_path):
    write(
        tmp_path,
        "Yyy",
        more=textwrap.dedent(
            """
            __default__:
              distributed_op_class: MyOpDistributedOp
              distributed_op_file: parallel_my_op
            Zzz:
              infer_layout_suffix: WithShape
            aten::sinc:
              rule: "a ... -> a ..."
            """
        ),
    )
    assert load_distributed_ops([tmp_path / "custom_ops.yaml"]) == ["Yyy", "Zzz", "aten::sinc"]
    assert get_distributed_op("Zzz").suffix == "WithShape"
    assert hp.unregister_rule("aten::sinc")
    unregister("Yyy")
    unregister("Zzz")


@pytest.mark.parametrize(
    ("code", "line", "words", "entry"),
    [
        ("HP-F053", 2, "MyOpDistributedOp", dict(cls="MyOpDistributed")),
        ("HP-F053", 2, "cannot be imported", dict(file="parallel_none")),
        ("HP-F052", 6, "another entry", dict(more=ENTRY.format(name="Xxx", cls="A", file="b")[1:])),
        ("HP-F051", 7, "distributed_op_class", dict(more="Qqq:\n  distributed_op_clas: A\n")),
        ("HP-F051", 6, "no distributed_op_class", dict(more="Qqq:\n  dist_op_name: a\n")),
        ("HP-F051", 6, "no block", dict(more="Qqq: 3\n")),
        ("HP-F050", 7, "", dict(more="Qqq: [\n")),
    ],
)
def test_mistakes_name_file_and_line(tmp_path, code, line, words, entry):
    text = refused(UsageError, code, load_distributed_ops, write(tmp_path, **entry))
    assert f"custom_ops.yaml:{line}: " in text and words in text


@pytest.mark.parametrize(
    ("code", "op", "rule"),
    [
        ("HP-S050", "aten::sinc", "a b ->"),
        ("HP-S046", "aten::sinc", "reduce nothing"),
        ("HP-S044", "aten::sink", "a -> a"),
        ("HP-S045", "aten::exp", "a! b -> ="),
        ("HP-F033", "Zzz", "a -> a"),
    ],
)
def test_mistakes_in_rules_name_file_and_line(tmp_path, code, op, rule):
    more = (
        "Zzz:\n  distributed_op_class: MyOpDistributedOp\n  distributed_op_file: parallel_my_op\n"
    )
    load_distributed_ops(write(tmp_path, "Yyy", more=more))
    hp.register_rule("aten::exp", "a b! -> =")
    (tmp_path / "rules.yaml").write_text(f'# rules\n{op}:\n  rule: "{rule}"\n')
    try:
        text = refused(UsageError, code, load_distributed_ops, tmp_path / "rules.yaml")
        assert f"[{code}] {tmp_path}/rules.yaml:2: " in text
    finally:
        assert hp.unregister_rule("aten::exp") and unregister("Yyy") and unregister("Zzz")


def test_a_rule_in_a_file_takes_the_place_of_a_built_in_one(tmp_path):
    (tmp_path / "rules.yaml").write_text('aten::exp:\n  rule: "a! b! -> ="\n')

    def layout_of_exp():
        line = Layout((2,), ("dp",))
        x = hp.distribute_tensor(torch.ones(4, 2), line("dp", "None")).requires_grad_()
        out = torch.exp(x)
        out.sum().backward()
        assert torch.equal(x.grad.full_tensor(), torch.ones(4, 2).exp())
        return str(out.layout)

    assert hp.run_local(layout_of_exp, 2) == ["dp=2: S(0)"] * 2
    load_distributed_ops(tmp_path)
    try:
        assert hp.run_local(layout_of_exp, 2) == ["dp=2: R"] * 2
    finally:
        assert hp.unregister_rule("aten::exp")
    assert hp.run_local(layout_of_exp, 2) == ["dp=2: S(0)"] * 2


def test_a_folder_that_is_not_there(tmp_path):
    refused(UsageError, "HP-F050", load_distributed_ops, tmp_path / "none")


def test_the_environment_adds_folders(tmp_path):
    ops, modules = tmp_path / "yaml", tmp_path / "modules"
    ops.mkdir()
    modules.mkdir()
    write(ops)
    (ops / "parallel_my_op.py").rename(modules / "parallel_my_op.py")
    program = "import hyper_parallel as hp; print(type(hp.get_distributed_op('Xxx')).__name__)"
    environment = dict(
        os.environ,
        HYPER_PARALLEL_OPS_YAML_DIR=str(ops),
        HYPER_PARALLEL_OPS_PYTHON_PATH=str(modules),
        PYTHONPATH=os.pathsep.join(p for p in sys.path if p),
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "MyOpDistributedOp"
