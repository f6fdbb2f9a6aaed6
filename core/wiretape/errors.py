"""Errors of the library. Each carries one sentence: what is wrong with which value, then what to do."""

import sys
from pathlib import Path

from wiretape.safe_text import printable, shorten


class WiretapeError(Exception):
    """Base class of every error that wiretape raises on purpose. `str()` returns one line that is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        """The sentence, unescaped: it may quote file names and input."""

    def __str__(self) -> str:
        return printable(self.message)


class InputError(WiretapeError):
    """A file, an address, an option or other input is invalid. The command line exits with status 2."""


class RecordingError(InputError):
    """A file is not a recording that this version can read or write."""


MITMPROXY = "mitmproxy>=11.0.2,<13"
OTLP = "opentelemetry-exporter-otlp-proto-http>=1.40"
REQUIREMENTS = {"mitmproxy": MITMPROXY, "opentelemetry": OTLP}
"""Optional import packages, and what installs them: the extras in pyproject.toml."""


def missing_package_error(package: str, purpose: str) -> InputError:
    """Return the error that `purpose` needs an optional package, with a command that installs it."""
    return InputError(
        f"{purpose} needs {package}, which is not installed: run {install_command(REQUIREMENTS[package])}"
    )


def install_command(requirement: str) -> str:
    """Return the command that installs a package next to wiretape, whether pip, pipx or uv installed wiretape."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject wiretape '{requirement}'"
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv pip install --python {sys.prefix} '{requirement}'"
    return f"pip install '{requirement}'"


def describe_failure(error: Exception) -> str:
    """Return the kind of an unexpected exception and the line that raised it; its text could quote traffic."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    line = f" in {Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where is not None else ""
    return f"{type(error).__name__}{line}"


def describe_import_failure(error: BaseException) -> str:
    """Return what kept a module of a user from being imported, in a few words."""
    return shorten(f"{type(error).__name__}: {error}").rstrip(".")
