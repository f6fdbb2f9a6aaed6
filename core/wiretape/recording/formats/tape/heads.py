"""What a tape says of the heads of an exchange, and of how its events are written."""

from collections.abc import Callable
from typing import Any

from wiretape.observations import Headers, reason_phrase
from wiretape.recording.formats.tape.framing import FIELDS, JSON_STYLES, LINE_ENDS, PLAIN, Framing
from wiretape.recording.formats.tape.items import text_of
from wiretape.recording.recording_source import MAX_STATUS, MIN_STATUS
from wiretape.safe_text import printable
from wiretape.toml import Table


def status_of(table: Table) -> tuple[int, str]:
    """The status of the answer, and its reason.  Raises InputError, as the others do."""
    said = table.values.get("answer", 200)
    if isinstance(said, int) and not isinstance(said, bool) and MIN_STATUS <= said <= MAX_STATUS:
        return said, reason_phrase(said)
    # With a reason, it may be any number: what services answer that get it wrong is written so.
    number, space, reason = said.partition(" ") if isinstance(said, str) else ("", "", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 3 and space):
        what = f"it has to be a status ({MIN_STATUS} to {MAX_STATUS}), as in 200 or 200 OK, or null for no answer"
        raise table.wrong("answer", what)
    return int(number), reason


def request_line_of(table: Table) -> tuple[str, str]:
    """The method and the target of the request."""
    method, space, target = text_of(table, "request").partition(" ")
    if "target" in table:
        if space:
            raise table.wrong("target", "it stands beside a request that is a method alone")
        return method, text_of(table, "target")
    if not space or not method:
        raise table.wrong("request", "it has to be a method and a target, as in GET /v1/sessions/s1/events/stream")
    if not is_target(method, target):
        raise table.wrong("request", f"{printable(target)} is no target: it has to begin with a slash")
    return method, target


def is_target(method: str, target: str) -> bool:
    """Whether HTTP knows such a target, or it is empty; `*` also begins one of which something was redacted."""
    return not target or target[0] in "/*" or "://" in target or method == "CONNECT"


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
