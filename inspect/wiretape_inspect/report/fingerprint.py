"""Fingerprints: what stays the same of a finding when the same defect is recorded again."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from wiretape import contract
from wiretape.contract import operation_of

_SENTENCE = re.compile(r"Expected ((?:`[^`]*`|[^`])*?), got (.*)\.", re.DOTALL)
_QUOTED = re.compile(r"`([^`]*)`")
_NUMBER = re.compile(r"\d[\d.,]*(?<![.,])")
_INDEX = re.compile(r"\[\d+\]")
_VERSION = re.compile(r"v\d+")
_LONG_SEGMENT = 20


@dataclass(frozen=True, slots=True)
class DefectKind:
    """What the findings have in common that share an entry of a baseline."""

    code: str
    request: str
    """Method and path, with `{…}` in place of identifiers."""
    about: str
    """The type of the event, or the status of the response; empty if there is neither."""
    tool: str
    """The tool that the event is about; empty for other events."""
    expected: str
    """What was expected, without recorded values."""

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits."""
        return _hash(self)


# A recording with many findings has few kinds of them.
_CACHE_SIZE = 4096


@lru_cache(_CACHE_SIZE)
def _hash(kind: DefectKind) -> str:
    text = json.dumps(asdict(kind), sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:32]


@lru_cache(_CACHE_SIZE)
def split_message(message: str) -> tuple[str, str] | None:
    """Split the message of a finding into what was expected and what was found; None if it has another form."""
    match = _SENTENCE.fullmatch(message)
    return (match[1], match[2]) if match else None


@lru_cache(_CACHE_SIZE)
def expected_pattern(message: str) -> str:
    """Return what was expected, or the whole message, without recorded values and numbers."""
    parts = split_message(message)
    return _NUMBER.sub("#", _QUOTED.sub(_generalize, parts[0] if parts else message)).replace("# bytes", "# byte")


@lru_cache(_CACHE_SIZE)
def request_template(method: str, target: str) -> str:
    """Return a request with its identifiers replaced: `GET /v1/sessions/{session_id}/events/stream`."""
    match = operation_of(method, target)
    if match is not None:
        return f"{method} {match.operation.path}"
    path = target.partition("?")[0].partition("#")[0]
    return f"{method} {'/'.join(map(_segment, path.split('/')))}"


def _segment(segment: str) -> str:
    if _VERSION.fullmatch(segment):
        return segment
    return "{}" if len(segment) >= _LONG_SEGMENT or any(map(str.isdigit, segment)) else segment


def _generalize(quoted: re.Match[str]) -> str:
    """Keep a name of the specification; anything else may be a recorded value."""
    name = _INDEX.sub("[]", quoted[1])
    is_name = name in _vocabulary() or all(part in _vocabulary() for part in name.replace("[]", "").split("."))
    return f"`{name}`" if is_name else "`…`"


@cache
def _vocabulary() -> frozenset[str]:
    """Return the names that the specification gives to types, codes, fields and headers."""
    names = {*contract.EVENT_TYPES, *contract.ERROR_CODES, *contract.ENVELOPE_FIELDS, contract.ENVELOPE_KEY}
    names |= {contract.CURSOR_HEADER, contract.AUTHORIZATION, contract.RETRY_AFTER, "Content-Type"}
    names |= {"event", "id", "data", "retry", "error", "sequence", "type", "delta", "details"}
    for path in Path(contract.__file__).parent.rglob("*.json"):
        names |= set(_properties(json.loads(path.read_text("utf-8"))))
    return frozenset(names)


def _properties(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in a JSON Schema."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
    elif not isinstance(schema, list):
        return
    for inner in schema.values() if isinstance(schema, dict) else schema:
        yield from _properties(inner)
