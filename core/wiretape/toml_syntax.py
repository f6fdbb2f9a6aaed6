"""What is wrong with a text that is no TOML, in words for people: tomllib's are about its grammar."""

import re
import tomllib

_SAID = re.compile(r"(.*?) \((at (?:line (\d+), column (\d+)|end of document))\)", re.DOTALL)
_TWICE = re.compile(r"Cannot declare \((.*?),?\) twice")
_ONE_LINE = "a table in { } has to stand on one line, to its }"
_CUT = "it ends in the middle of something; a ], a } or a quote is missing"
_PLAINLY = {
    "Cannot overwrite a value": "a key is given twice, or a table also as a value",
    "Illegal character '\\n'": "a text has to end on its line; a quote is missing, or three stand around several lines",
    "Invalid value": "no value can be read; a text has to stand in quotes, and true and false are written small",
    "Unclosed array": "a comma or ] is missing",
    "Unclosed inline table": "a comma or } is missing",
}
_UNFINISHED = {"Invalid value", "Unclosed array", "Unclosed inline table", "Unterminated string"}


def plainly(error: tomllib.TOMLDecodeError, text: str) -> str:
    """What to tell of an error, place included."""
    match = _SAID.fullmatch(str(error))
    if match is None:
        return str(error)
    what, where, line, column = match.groups()
    if line is None:
        where = f"at the end, line {len(text.splitlines())}"
        what = _CUT if what in _UNFINISHED else what
    if _ends_within_a_table(what, text, line, column):
        return f"{_ONE_LINE} ({where})"
    if twice := _TWICE.fullmatch(what):
        name = ".".join(part.strip(" '\"") for part in twice[1].split(","))
        return f"{name} is declared twice; several tables of one name stand under [[{name}]] each ({where})"
    return f"{_PLAINLY.get(what, what)} ({where})"


def _ends_within_a_table(what: str, text: str, line: str | None, column: str | None) -> bool:
    """Whether a line ends where a key should stand, or go on, within braces."""
    if (
        line is None
        or column is None
        or what not in {"Invalid initial character for a key part", "Unclosed inline table"}
    ):
        return False
    rest = text.split("\n")[int(line) - 1][int(column) - 1 :].strip()
    return not rest or rest.startswith("#")
