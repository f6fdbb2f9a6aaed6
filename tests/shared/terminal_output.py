"""What commands write to a terminal."""

import os
import pty
import subprocess

from wiretape_process import WiretapeProcess


def on_terminal(*arguments: object, columns: int = 80, **environment: str) -> str:
    """Run `wiretape` on a terminal and return its standard output.

    Standard error would have a progress bar if the machine is slow.
    """
    main, side = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "LESS"}}
    given |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "PAGER": "cat", **environment}
    with WiretapeProcess(*arguments, stdin=side, stdout=side, stderr=subprocess.DEVNULL, env=given):
        os.close(side)
        output = b""
        while data := _read(main):
            output += data
        os.close(main)
    return output.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Linux answers EIO if nothing has the other side open any more."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
