"""What the proxy says on standard error, one line at a time."""

import logging
import re

import click

from wiretape.text import printable

_OURS = "wiretape_proxy"
_SECRET = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)


def say(line: str) -> None:
    """Write a line, made safe to show."""
    click.echo(_SECRET.sub(r"\1 …", printable(line)), err=True)


class Output(logging.Handler):
    """Log records as plain lines.  Before the proxy is ready, errors are told by the exception that ends it."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)

    def open(self) -> None:
        """The proxy is ready: from now on, say what there is to say."""
        self.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """Say it in one line, without a traceback: those quote what passes."""
        line = record.getMessage().partition("\n")[0]
        if record.exc_info and record.exc_info[0] is not None:
            line = f"{line} ({record.exc_info[0].__name__})"
        say(line if record.name.startswith(_OURS) else f"mitmproxy: {line}")


def install() -> Output:
    """Send the log there: all that we say, and the warnings of others."""
    output = Output()
    logging.basicConfig(level=logging.WARNING, handlers=[output], force=True)
    logging.getLogger(_OURS).setLevel(logging.INFO)
    return output
