"""Find the lines of values in the text of a TOML file, for error messages; tomllib does not report them."""

import re
from collections.abc import Callable

from wiretape.input_validation import KeyPath

_TABLE = re.compile(r"[ \t]*(\[\[?)([^\]\n]{1,500})\]")
_KEY = re.compile(r"""[ \t]*((?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:[ \t]*\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*)[ \t]*=""")
_PART = re.compile(r"""[\w-]+|"[^"\n]*"|'[^'\n]*'""")
_QUOTES = re.compile(r'"""|\'\'\'')


def find_lines(text: str) -> Callable[[KeyPath], int | None]:
    """Return a function that returns the line of a key path, or that of the closest table around it.

    `text` is valid TOML.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = _open_quotes(line, quotes)
        elif found := _TABLE.match(line):
            table = _table_path(_parts(found[2]), counts, is_list=found[1] == "[[")
            lines.setdefault(table, number)
        else:
            if found := _KEY.match(line):
                lines.setdefault((*table, *_parts(found[1])), number)
            quotes = _open_quotes(line, "")

    def line_of(path: KeyPath) -> int | None:
        ends = range(len(path), -1, -1)
        return next((lines[path[:end]] for end in ends if path[:end] in lines), None)

    return line_of


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
