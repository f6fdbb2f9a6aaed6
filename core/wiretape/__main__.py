"""`python -m wiretape` runs the `wiretape` command."""

import io
import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Run the command; Ctrl-C ends it quietly even while it is being imported."""
    _open_closed_streams()
    _buffer_output()
    _exit_on_signals()
    try:
        from wiretape.cli import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt as interrupt:
        sys.exit(*(interrupt.args or [130]))  # wiretape.cli.INTERRUPTED, which may not be imported yet


def _open_closed_streams() -> None:
    """Open standard streams that the caller closed (`>&-`): otherwise a file opened later would get their output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _buffer_output() -> None:
    """Give standard output a buffer: without one (PYTHONUNBUFFERED), Python drops what a write leaves over."""
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = open(sys.stdout.fileno(), "w", 1, encoding, errors, closefd=False)  # noqa: SIM115


def _exit_on_signals() -> None:
    """Make SIGTERM and SIGHUP end every command as Ctrl-C does, so that temporary recordings are deleted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends it at once
    # SystemExit would pass for that of a module which is being imported.
    raise KeyboardInterrupt(128 + number)


if __name__ == "__main__":
    main()
