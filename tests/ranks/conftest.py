import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hyper_parallel.own_ops.distributed_op import registered_ops
from hyper_parallel.own_ops.distributed_op import unregister_distributed_op as unregister


@pytest.fixture(autouse=True)
def no_op_is_left_behind():
    """Take away the distributed ops that a test registered."""
    before = set(registered_ops())
    yield
    for name in set(registered_ops()) - before:
        unregister(name)
