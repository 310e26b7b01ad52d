"""``python -m hyper_parallel``: see ``commands``."""

import sys

from hyper_parallel.commands import main

if __name__ == "__main__":
    sys.exit(main())
