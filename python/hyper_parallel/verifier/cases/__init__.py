"""Example inputs for every rule, a file a family.

``CASES`` maps an op to its calls; ops of the pointwise family get theirs from the schema
(``default``). A call is ``case(arguments...)`` with values that are drawn anew for each seed: ``t``
normal, ``positive``, ``unit``, ``ints``, ``bools``, ``distinct`` (no ties), ``mixed`` (with nan and
inf). Sizes are such that 2, 3 and 4 ranks get uneven and empty pieces (5, 3, 2), and even ones (4,
6).

``WITHOUT`` names the rules that have no case, each with the reason.
"""

from importlib import import_module
from pathlib import Path

from .pointwise import default
from .table import CASES, WITHOUT

__all__ = ["CASES", "WITHOUT", "default"]

for family in sorted(Path(__file__).parent.glob("[a-z]*.py")):
    import_module(f"{__name__}.{family.stem}")
