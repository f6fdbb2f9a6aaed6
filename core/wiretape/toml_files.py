"""Load TOML files that people write, explain their syntax errors in plain English, and find the lines of their values.

The tables are checked afterwards, by `wiretape.input_validation`.
"""

import io
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.input_validation import KeyPath, Source
from wiretape.safe_text import printable

_MAX_BYTES = 1_000_000
# tomllib needs minutes for one key of 50,000 parts.
_LONG_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*(?:(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""",
    re.MULTILINE,
)
_BEGINNING = re.compile(r"""\s*(?:\#|\[|[\w"'-][\w."' -]*=)""")
_MESSAGE = re.compile(r"(.*?) \((at (?:line (\d+), column (\d+)|end of document))\)", re.DOTALL)
_DECLARED_TWICE = re.compile(r"Cannot declare \((.*?),?\) twice")
_INLINE_TABLE = "an inline table must be on one line, including its closing }"
_UNFINISHED = "the file ends in the middle of a value: a ], a } or a quote is missing"
_EXPLANATIONS = {
    "Cannot overwrite a value": "a key is given twice, or is used both as a value and as a table",
    "Illegal character '\\n'": 'a string must end on its first line: a quote is missing, or use three quotes (""")',
    "Invalid value": "invalid value: strings need quotes, and true and false are written in lower case",
    "Unclosed array": "a comma or ] is missing",
    "Unclosed inline table": "a comma or } is missing",
}
_CAUSED_BY_END = {"Invalid value", "Unclosed array", "Unclosed inline table", "Unterminated string"}
_TABLE = re.compile(r"[ \t]*(\[\[?)([^\]\n]{1,500})\]")
_KEY = re.compile(r"""[ \t]*((?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:[ \t]*\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*)[ \t]*=""")
_PART = re.compile(r"""[\w-]+|"[^"\n]*"|'[^'\n]*'""")
_QUOTES = re.compile(r'"""|\'\'\'')


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.  Raises InputError."""
    return parse_toml(read_toml_text(path), str(path))


def read_toml_text(path: Path, kind: str = "TOML") -> str:
    """Read the text of a TOML file, or of another `kind` of file.  Raises InputError."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        _check_size(content, str(path), kind)
        # Some editors begin a file with a byte order mark, and some end lines as Windows does.
        return io.TextIOWrapper(io.BytesIO(content), "utf-8-sig").read()
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    except UnicodeDecodeError:
        raise InputError(f"{printable(str(path))} is not valid {kind}: it is not UTF-8.") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; `name` is what error messages call it.  Raises InputError."""
    try:
        _check_size(text.encode(), name)
        if _LONG_KEY.search(text):
            raise InputError(f"{printable(name)} has a dotted key of more than 100 parts: use fewer.")
        return tomllib.loads(text)
    except UnicodeEncodeError:
        raise InputError(f"{printable(name)} is not valid TOML: it contains half of a surrogate pair.") from None
    except tomllib.TOMLDecodeError as error:
        problem = printable(_explain(error, text))
        raise InputError(f"{printable(name)} is not valid TOML: {problem}.") from None
    except ValueError:
        # Python limits the digits of integers, and tomllib does not turn its error into one about TOML.
        raise InputError(f"{printable(name)} is not valid TOML: it has a number with thousands of digits.") from None
    except RecursionError:
        raise InputError(f"{printable(name)} is nested too deeply.") from None


def _check_size(content: bytes, name: str, kind: str = "TOML") -> None:
    """Raise InputError if there is too much text: tomllib takes minutes for some files of this size."""
    if len(content) > _MAX_BYTES:
        raise InputError(f"{printable(name)} is larger than 1 MB, the limit for {kind}: split or shorten it.")


def require_table_lists(document: Any, names: Iterable[str], source: Source) -> None:
    """Raise InputError where a document has a single table `[name]` instead of a list `[[name]]`."""
    for name in names:
        if isinstance(document, Mapping) and isinstance(document.get(name), Mapping):
            raise source.error((name,), f"expected a list of tables: write [[{name}]] instead of [{name}]")


def is_toml_text(text: str) -> bool:
    """Whether a string is TOML, valid or not, rather than the name of a file."""
    return "\n" in text or (not text.endswith(".toml") and _BEGINNING.match(text) is not None)


def _explain(error: tomllib.TOMLDecodeError, text: str) -> str:
    """Explain an error of tomllib, which speaks of TOML's grammar, and say where it is."""
    match = _MESSAGE.fullmatch(str(error))
    if match is None:
        return str(error)
    problem, position, line, column = match.groups()
    if line is None:
        position = f"at the end, line {len(text.splitlines())}"
        problem = _UNFINISHED if problem in _CAUSED_BY_END else problem
    elif _is_line_end_in_inline_table(problem, text, int(line), int(column)):
        problem = _INLINE_TABLE
    if twice := _DECLARED_TWICE.fullmatch(problem):
        name = ".".join(part.strip(" '\"") for part in twice[1].split(","))
        problem = f"{name} is declared twice; for a list of tables, put [[{name}]] above each"
    return f"{_EXPLANATIONS.get(problem, problem)} ({position})"


def _is_line_end_in_inline_table(problem: str, text: str, line: int, column: int) -> bool:
    """Whether a line ends inside braces, where a key or its value should stand."""
    if problem not in {"Invalid initial character for a key part", "Unclosed inline table"}:
        return False
    rest = text.split("\n")[line - 1][column - 1 :].strip()
    return not rest or rest.startswith("#")


# Lines of values, which tomllib does not report.


def find_lines(text: str) -> Callable[[KeyPath], int | None]:
    """Return a function that returns the line of a key path, or that of the closest table around it.

    `text` is valid TOML.
    """

    def line_of(path: KeyPath) -> int | None:
        lines = _lines_of_values(text)
        ends = range(len(path), -1, -1)
        return next((lines[path[:end]] for end in ends if path[:end] in lines), None)

    return line_of


@lru_cache(maxsize=4)  # only errors need it, and there may be several in one file
def _lines_of_values(text: str) -> Mapping[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = _open_quotes(line, quotes)
        elif found := _TABLE.match(line):
            table = _table_path(_parts(found[2]), counts, is_list=found[1] == "[[")
            for end in range(1, len(table) + 1):
                lines.setdefault(table[:end], number)
        else:
            if found := _KEY.match(line):
                lines.setdefault((*table, *_parts(found[1])), number)
            quotes = _open_quotes(line, "")
    return lines


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(key))


def _table_path(parts: tuple[str, ...], counts: dict[KeyPath, int], *, is_list: bool) -> KeyPath:
    """Return the key path of a table, with the index of each list of tables that it is in."""
    path: KeyPath = ()
    for place, part in enumerate(parts, 1):
        path = (*path, part)
        if is_list and place == len(parts):
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _open_quotes(line: str, quotes: str) -> str:
    """Return the quotes of the multi-line string that is open after a line; empty if there is none."""
    for found in _QUOTES.findall(line):
        if not quotes:
            quotes = found
        elif found == quotes:
            quotes = ""
    return quotes
