"""The command ``corrust``, which comes with the package: the same as the program's."""

import sys

from ._corrust import run_command


def main() -> int:
    """Run the command with the process's arguments and return its exit code."""
    return run_command(["corrust", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
