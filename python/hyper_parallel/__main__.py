"""Commands: ``python -m hyper_parallel rules [op ...]`` and ``verify [op ...]``."""

import importlib
import sys

# Modules are loaded when they are asked for: `rules` needs no torch.
COMMANDS = {"rules": "rules.page", "verify": "verifier.session"}


def main() -> int:
    """Run the command that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m hyper_parallel {{{','.join(COMMANDS)}}} ...", file=sys.stderr)
        return 2
    module = importlib.import_module(f"hyper_parallel.{COMMANDS[sys.argv[1]]}")
    return module.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
