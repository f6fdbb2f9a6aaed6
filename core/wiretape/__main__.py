"""`python -m wiretape` is the `wiretape` command."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command; Ctrl-C also ends it quietly while it is still being loaded."""
    try:
        from wiretape.cli import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # as wiretape.cli.INTERRUPTED, which may not be there yet


if __name__ == "__main__":
    main()
