"""What a comparison found as lines of text, and as JSON.  Pure."""

from collections.abc import Iterator
from typing import Any

from wiretape.json_diff import MISSING, Difference
from wiretape.recording import Exchange
from wiretape_inspect.comparing.model import KINDS, Compared, Found, Kind, Place
from wiretape_inspect.comparing.recordings import Total
from wiretape_inspect.comparing.sameness import parting
from wiretape_inspect.facts import compact
from wiretape_inspect.spans import Span
from wiretape_inspect.words import count, digits, duration

_LONGEST = 60
"""Characters of a value that are shown."""
_BEFORE = 12
"""How many of them stand before the first that differs."""
_STYLES: dict[Kind, str] = {"missing": "bad", "added": "durable", "changed": "gap", "moved": "delta", "time": "delta"}
_INDENT = " " * 32


def spans(compared: Compared) -> Iterator[list[Span]]:
    """The lines about two exchanges; none where they are the same."""
    if not compared.counts:
        return
    yield _head(compared)
    for found in compared.found:
        if found.what == "exchange" and None in found.places:
            continue
        yield _line(found)
        for place in found.fields:
            yield [(_INDENT, "finding"), (f"{place.path}: ", "dim"), (_values(place), "")]
    if compared.omitted:
        yield [(f"{'':>9}… and {compared.omitted:,} more; --limit 0 tells all", "dim")]


def _head(compared: Compared) -> list[Span]:
    first, second = compared.first, compared.second
    if first and second:
        return [(f"A#{first.number} B#{second.number}  ", "head"), (_request(first), "head")]
    exchange, name = (first, "A") if first else (second, "B")
    return [(f"only in {name}: #{exchange.number if exchange else 0}  ", "head"), (_request(exchange), "head")]


def _request(exchange: Exchange | None) -> str:
    return f"{exchange.request.method} {exchange.request.target}" if exchange else ""


def _line(found: Found) -> list[Span]:
    places = (("-" if place is None else _at(place)) for place in found.places)
    about = {"exchange": "the exchange", "event": found.type or "(no type)", "text": f"the text of {found.type}"}
    parts = [about[found.what]]
    parts += [found.id] if found.id else []
    parts += [f"seq {digits(found.sequence)}"] if found.sequence is not None else []
    parts += [f"run {found.run_id}"] if found.run_id else []
    if found.later_ns is not None:
        parts.append(f"{duration(abs(found.later_ns))} {'later' if found.later_ns > 0 else 'sooner'}")
    columns = " ".join(f"{place:<10}" for place in places)
    # Lines of findings are never cut.
    return [(f"{found.kind:>9}  ", _STYLES[found.kind]), (columns, "dim"), ("  ".join(parts), "finding")]


def _at(place: Place) -> str:
    return f"#{place.exchange}" if place.event is None else f"{place.exchange}:{place.event}"


def _values(place: Difference) -> str:
    first, second = place.first, place.second
    if isinstance(first, str) and isinstance(second, str):
        same = parting(first, second)
        begin = max(0, same - _BEFORE) if max(len(first), len(second)) > _LONGEST else 0
        first, second = (("…" if begin else "") + text[begin:] for text in (first, second))
    return f"{_value(first)} → {_value(second)}"


def _value(value: Any) -> str:
    if value is MISSING or value is None:
        return "(none)" if value is MISSING else "null"
    text = compact(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def summary(total: Total, *, ids: bool) -> Iterator[list[Span]]:
    """The last lines."""
    told = " · ".join(f"{total.counts[kind]:,} {kind}" for kind in KINDS if total.counts[kind])
    said = f"{count(total.counts.total(), 'difference')}: {told}" if told else "No difference"
    yield [
        (said, "head"),
        (f"  (compared: {count(total.exchanges, 'pair')} of exchanges, {count(total.events, 'event')} of both)", ""),
    ]
    if not ids and total.alone["missing"] and total.alone["added"]:
        yield [("--normalize ids pairs exchanges whose sessions and runs have other ids.", "finding")]


def documents(compared: Compared) -> Iterator[dict[str, Any]]:
    """An object for each difference."""
    exchange = compared.first or compared.second
    for found in compared.found:
        yield {
            "row": "difference",
            "kind": found.kind,
            "what": found.what,
            "a": found.first,
            "b": found.second,
            "request": _request(exchange),
            "type": found.type or None,
            "id": found.id,
            "sequence": found.sequence,
            "run_id": found.run_id,
            "fields": [_field(place) for place in found.fields],
            "later_ns": found.later_ns,
        }


def _field(place: Difference) -> dict[str, Any]:
    values = {name: value for name, value in (("a", place.first), ("b", place.second)) if value is not MISSING}
    return {"path": place.path, **values}


def total_document(total: Total) -> dict[str, Any]:
    """The last object."""
    return {
        "row": "summary",
        "equal": total.equal,
        "exchanges": total.exchanges,
        "events": total.events,
        "differences": {kind: total.counts[kind] for kind in KINDS},
        "omitted": total.omitted,
    }
