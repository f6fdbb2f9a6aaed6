"""TOML files that people write: read, with one sentence about what is wrong."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from wiretape.errors import InputError
from wiretape.rules.selection import nearest
from wiretape.text import printable


class TomlFile(NamedTuple):
    """A file that was read."""

    path: Path
    text: str
    """As it stands in the file; tomllib keeps no line numbers, so a key's is looked for here."""
    document: dict[str, Any]

    @property
    def said(self) -> str:
        """Its path, for people."""
        return printable(str(self.path))


def read_toml(path: Path) -> TomlFile:
    """What stands in `path`.  Raises InputError when it cannot be read or is no TOML."""
    said = printable(str(path))
    try:
        text = path.read_text("utf-8")
        return TomlFile(path, text, tomllib.loads(text))
    except OSError as error:
        raise InputError(f"{said} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{said} is not UTF-8, so it is no TOML.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{said} is no TOML: {printable(str(error))}.") from None
    except RecursionError:
        raise InputError(f"{said} is nested too deeply.") from None


def hint(word: str, known: Iterable[str]) -> str:
    """What follows `there is no such …`: the one that was meant, or all there are."""
    words = list(known)
    similar = nearest(word, words)
    return f", did you mean {similar}?" if similar else f"; there are {', '.join(words)}"
