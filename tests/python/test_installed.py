"""The package alone, away from the checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hyper_parallel


def test_an_installed_package_verifies_a_rule_with_its_own_cases(tmp_path):
    """The folder of the package is what a wheel holds; nothing beside it may be needed."""
    ours = Path(hyper_parallel.__file__).parent
    shutil.copytree(ours, tmp_path / "hyper_parallel", ignore=shutil.ignore_patterns("__pycache__"))
    made = subprocess.run(
        [sys.executable, "-m", "hyper_parallel", "verify", "aten::mm"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    assert "aten::mm    *m k, *k n -> m n" in made.stdout
    assert "0 wrong, 0 missing, 0 rules without a case" in made.stdout
