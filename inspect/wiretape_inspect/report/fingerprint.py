"""What stays the same of a finding when the same defect is recorded again."""

import json
import re
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
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
class Kind:
    """What two findings have in common that one entry of a baseline stands for."""

    code: str
    request: str
    """Method and path, with `{…}` where identifiers stand."""
    about: str
    """The type of the event, or the status of the answer; empty where there is neither."""
    tool: str
    """The name of the tool that the event is about; empty for other events."""
    expected: str
    """What was expected, without the values that the recording put into the sentence."""

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits."""
        return _hashed(self)


# A recording with many findings has few kinds of them, so what is worked out for one is kept for a while.
_REMEMBERED = 4096


@lru_cache(_REMEMBERED)
def _hashed(kind: Kind) -> str:
    text = json.dumps(asdict(kind), sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:32]


@lru_cache(_REMEMBERED)
def expectation(message: str) -> tuple[str, str] | None:
    """What the sentence of a finding says was expected, and what came; None where it is built otherwise."""
    said = _SENTENCE.fullmatch(message)
    return (said[1], said[2]) if said else None


@lru_cache(_REMEMBERED)
def expected_kind(message: str) -> str:
    """What was expected, or all that is said, without recorded values and numbers."""
    said = expectation(message)
    return _NUMBER.sub("#", _QUOTED.sub(_kept, said[0] if said else message)).replace("# bytes", "# byte")


@lru_cache(_REMEMBERED)
def template(method: str, target: str) -> str:
    """A request with its identifiers replaced: `GET /v1/sessions/{session_id}/events/stream`."""
    match = operation_of(method, target)
    if match is not None:
        return f"{method} {match.operation.path}"
    path = target.partition("?")[0].partition("#")[0]
    return f"{method} {'/'.join(map(_segment, path.split('/')))}"


def _segment(segment: str) -> str:
    if _VERSION.fullmatch(segment):
        return segment
    return "{}" if len(segment) >= _LONG_SEGMENT or any(map(str.isdigit, segment)) else segment


def _kept(quoted: re.Match[str]) -> str:
    """A name of the specification stays; anything else may be a recorded value."""
    name = _INDEX.sub("[]", quoted[1])
    known = name in _vocabulary() or all(part in _vocabulary() for part in name.replace("[]", "").split("."))
    return f"`{name}`" if known else "`…`"


@cache
def _vocabulary() -> frozenset[str]:
    """The names that the specification gives to types, codes, fields and headers."""
    words = {*contract.EVENT_TYPES, *contract.ERROR_CODES, *contract.ENVELOPE_FIELDS, contract.ENVELOPE_KEY}
    words |= {contract.CURSOR_HEADER, contract.AUTHORIZATION, contract.RETRY_AFTER, "Content-Type"}
    words |= {"event", "id", "data", "retry", "error", "sequence", "type", "delta", "details"}
    for path in _files(files(contract)):
        if path.name.endswith(".json"):
            words |= set(_properties(json.loads(path.read_text("utf-8"))))
    return frozenset(words)


def _files(folder: Any) -> list[Any]:
    inner = list(folder.iterdir())
    return [file for item in inner for file in (_files(item) if item.is_dir() else [item])]


def _properties(schema: Any) -> list[str]:
    """The names of all properties that a JSON Schema speaks of."""
    if isinstance(schema, list):
        return [name for item in schema for name in _properties(item)]
    if not isinstance(schema, dict):
        return []
    names: list[str] = []
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, inner in properties.items():
            names += [name, *_properties(inner)]
    return names + [name for key, value in schema.items() if key != "properties" for name in _properties(value)]
