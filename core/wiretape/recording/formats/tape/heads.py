"""What a tape says of the heads of an exchange, and of how its events are written."""

from collections.abc import Callable
from typing import Any

from wiretape.observe import Headers, reason_of
from wiretape.recording.formats.model import LAST_STATUS
from wiretape.recording.formats.tape.framing import FIELDS, JSON_STYLES, LINE_ENDS, PLAIN, Framing
from wiretape.toml import Table


def status_of(table: Table) -> tuple[int, str]:
    """The status of the answer, and its reason.  Raises InputError, as the others do."""
    said = table.values.get("answer", 200)
    if isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= LAST_STATUS:
        return said, reason_of(said)
    number, space, reason = said.partition(" ") if isinstance(said, str) else ("", "", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 3 and space):
        raise table.wrong("answer", "it has to be a status, as in 200 or 200 OK, or null for no answer")
    return int(number), reason


def headers_of(table: Table, key: str, default: Headers) -> Headers:
    """The headers under a key."""
    if key not in table:
        return default
    said = table.values[key]
    listed = [said] if isinstance(said, dict) else said
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise table.wrong(key, "it has to be a list of such lines as - Accept: text/event-stream")
    pairs = [(name, value) for each in listed for name, value in each.items()]
    return tuple((_latin1(table, key, name), _latin1(table, key, value)) for name, value in pairs)


def _latin1(table: Table, key: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise table.wrong(key, "names and values have to be texts: put them in quotes")
    if any(ord(character) > 255 for character in value):
        raise table.wrong(key, "each character of a header stands for one byte, so there is none above U+00FF")
    return value


_FRAMING: dict[str, Callable[[Table], Any]] = {
    "fields": lambda table: tuple(table.texts("fields")),
    "line-end": lambda table: table.one_of("line-end", list(LINE_ENDS)),
    "json": lambda table: table.one_of("json", list(JSON_STYLES)),
    "space": lambda table: table.flag("space"),
}


def framing_said(table: Table) -> Framing:
    """How the events of the exchange are written."""
    if "framing" not in table:
        return PLAIN
    said = table.table("framing", "json: spaced")
    said.only(_FRAMING, "key of framing")
    made = Framing(**{key.replace("-", "_"): _FRAMING[key](said) for key in said})
    if sorted(made.fields) != sorted(FIELDS):
        raise said.wrong("fields", f"it has to name {', '.join(FIELDS)}, in their order")
    return made
