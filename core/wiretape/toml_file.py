"""Load TOML files, with syntax errors in plain English."""

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from wiretape.decode import Source, decode
from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.safe_text import printable

T = TypeVar("T")

_ERROR = re.compile(r"(.*?) \((at (?:line (\d+), column (\d+)|end of document))\)", re.DOTALL)
_TWICE = re.compile(r"Cannot declare \((.*?),?\) twice")
_BROKEN_INLINE_TABLE = "an inline table { } has to stay on one line, up to its }"
_TRUNCATED = "the file ends in the middle of a value; a ], a } or a quote is missing"
_PLAIN = {
    "Cannot overwrite a value": "a key is given twice, or is both a table and a value",
    "Illegal character '\\n'": "a string has to end on its line; a quote is missing, or use three quotes",
    "Invalid value": "invalid value; strings need quotes, and true and false are lower case",
    "Unclosed array": "a comma or ] is missing",
    "Unclosed inline table": "a comma or } is missing",
}
_UNFINISHED = {"Invalid value", "Unclosed array", "Unclosed inline table", "Unterminated string"}
_TOML_START = re.compile(r"""\s*(?:\#|\[|(?:[A-Za-z0-9_.-]|"[^"\n]*"|'[^'\n]*'|[ \t])+=)""")


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.  Raises InputError."""
    try:
        text = path.read_text("utf-8-sig")  # some editors begin a file with a byte order mark
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    except UnicodeDecodeError:
        raise InputError(f"{printable(str(path))} is not valid TOML: it is not UTF-8.") from None
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; errors call it `name`.  Raises InputError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{printable(name)} is not valid TOML: {printable(_plain_error(error, text))}.") from None
    except RecursionError:
        raise InputError(f"{printable(name)} is nested too deeply.") from None


def decode_toml(path: Path, type_: type[T]) -> T:
    """Read a TOML file as `type_`.  Raises InputError."""
    return decode(load_toml(path), type_, Source(str(path)))


def is_toml_text(text: str) -> bool:
    """Whether a string is TOML, valid or not, rather than the name of a file."""
    return "\n" in text or (not text.endswith(".toml") and _TOML_START.match(text) is not None)


def _plain_error(error: tomllib.TOMLDecodeError, text: str) -> str:
    """What is wrong and where, without tomllib's grammar terms."""
    match = _ERROR.fullmatch(str(error))
    if match is None:
        return str(error)
    problem, where, line, column = match.groups()
    if line is None:
        where = f"at the end, line {len(text.splitlines())}"
        problem = _TRUNCATED if problem in _UNFINISHED else problem
    elif _breaks_inline_table(problem, text, int(line), int(column)):
        return f"{_BROKEN_INLINE_TABLE} ({where})"
    if twice := _TWICE.fullmatch(problem):
        name = ".".join(part.strip(" '\"") for part in twice[1].split(","))
        return f"{name} is declared twice; to repeat a table, write [[{name}]] each time ({where})"
    return f"{_PLAIN.get(problem, problem)} ({where})"


def _breaks_inline_table(problem: str, text: str, line: int, column: int) -> bool:
    """Whether a line ends inside braces, where TOML wants a key or the closing brace."""
    if problem not in {"Invalid initial character for a key part", "Unclosed inline table"}:
        return False
    rest = text.split("\n")[line - 1][column - 1 :].strip()
    return not rest or rest.startswith("#")
