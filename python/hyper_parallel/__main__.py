"""Commands: ``python -m hyper_parallel verify [op ...]``."""

import sys

from hyper_parallel import verifier

COMMANDS = {"verify": verifier.main}


def main() -> int:
    """Run the command that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m hyper_parallel {{{','.join(COMMANDS)}}} ...", file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
