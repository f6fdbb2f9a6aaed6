"""`python -m wiretape` is the `wiretape` command."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Run the command; Ctrl-C also ends it quietly while it is still being loaded."""
    _open_what_is_closed()
    _clean_up_when_ended()
    try:
        from wiretape.cli import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        sys.exit(130)  # as wiretape.cli.INTERRUPTED, which may not be there yet


def _open_what_is_closed() -> None:
    """Let what a caller closed (`>&-`) go nowhere; a file opened later would get its number, and what is said."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _clean_up_when_ended() -> None:
    """Let SIGTERM and SIGHUP end every command as Ctrl-C does: no temporary recording stays behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup has SIGHUP ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
