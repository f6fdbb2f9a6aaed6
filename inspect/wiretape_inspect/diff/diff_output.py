"""Print the differences as text lines and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import commonprefix
from typing import Any

from wiretape.event_preview import compact_json
from wiretape.json_codec import dump_json, members_of
from wiretape.json_path import Difference
from wiretape.labels import count_of
from wiretape.patterns import MISSING
from wiretape.recording import Exchange, Recording
from wiretape.units import format_delay, format_integer
from wiretape_inspect.diff.diff_model import KINDS, DiffEntry, DiffLocation, DiffTotal, ExchangeDiff, Kind
from wiretape_inspect.terminal_output import Line, labelled, wrapped
from wiretape_inspect.timeline_text import type_style

_MAX_VALUE = 60
"""Characters of a value that are shown."""
_CONTEXT = 12
"""How many of them precede the first difference."""
_STYLES: dict[Kind, str] = {"missing": "gap", "added": "call", "changed": "gap", "moved": "dim", "time": "dim"}
_INDENT = " " * 32


def diff_lines(diff: ExchangeDiff) -> Iterator[Line]:
    """The lines about two exchanges; none if they are equal."""
    if not diff.counts:
        return
    yield _heading(diff)
    for entry in diff.entries:
        if entry.subject == "exchange" and None in entry.locations:
            continue
        yield _line(entry, diff)
        for difference in entry.fields:
            yield labelled(_INDENT, (f"{difference.path}: ", "dim"), _values(difference))
    if diff.omitted:
        yield Line([(f"{'':>9}… and {diff.omitted:,} more; --limit 0 shows all", "dim")])


def _heading(diff: ExchangeDiff) -> Line:
    first, second = diff.first, diff.second
    if first and second:
        return labelled((f"A#{first.number} B#{second.number}  ", "head"), (_request(first), "head"))
    exchange, name = (first, "A") if first else (second, "B")
    return labelled((f"only in {name}: #{exchange.number if exchange else 0}  ", "head"), (_request(exchange), "head"))


def _request(exchange: Exchange | None) -> str:
    return f"{exchange.request.method} {exchange.request.target}" if exchange else ""


def _line(entry: DiffEntry, diff: ExchangeDiff) -> Line:
    locations = (
        "-" if at is None else f"#{at.exchange}" if at.event is None else f"{at.exchange}:{at.event}"
        for at in entry.locations
    )
    subjects = {"exchange": "the exchange", "event": entry.type or "(no type)", "text": f"the text of {entry.type}"}
    exchange = diff.first or diff.second
    style = type_style(entry.type, exchange.vocabulary) if exchange else ""
    parts = [entry.id] if entry.id else []
    parts += [f"seq {format_integer(entry.sequence)}"] if entry.sequence is not None else []
    parts += [f"{name.replace('_', ' ')} {key}" for name, key in entry.keys.items()]
    if entry.later_ns is not None:
        parts.append(format_delay(entry.later_ns))
    columns = " ".join(f"{location:<10}" for location in locations)
    label = (f"{entry.kind:>9}  ", _STYLES[entry.kind])
    return labelled(label, (columns, "dim"), (subjects[entry.subject], style), *(f"  {part}" for part in parts))


def _values(difference: Difference) -> str:
    first, second = difference.first, difference.second
    if isinstance(first, str) and isinstance(second, str):
        common = len(commonprefix((first, second)))  # noqa: RUF071 - of texts, not paths
        begin = max(0, common - _CONTEXT) if max(len(first), len(second)) > _MAX_VALUE else 0
        first, second = (("…" if begin else "") + text[begin:] for text in (first, second))
    return f"{_value(first)} → {_value(second)}"


def _value(value: Any) -> str:
    if value is MISSING or value is None:
        return "(none)" if value is MISSING else "null"
    text = compact_json(value)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def total_lines(total: DiffTotal, *, ids: bool) -> Iterator[Line]:
    """The last lines."""
    kinds = " · ".join(f"{total.counts[kind]:,} {kind}" for kind in KINDS if total.counts[kind])
    headline = f"{count_of(total.counts.total(), 'difference')}: {kinds}" if kinds else "No difference"
    first, second = total.events
    compared = f"{count_of(total.exchanges, 'pair')} of exchanges, {count_of(first, 'event')} of A, {second:,} of B"
    yield labelled((headline, "head" if kinds else "good"), f"  (compared: {compared})")
    if not ids and total.unpaired["missing"] and total.unpaired["added"]:
        yield wrapped("--normalize ids pairs exchanges whose ids differ.")


def json_lines(
    recordings: Sequence[Recording],
    diffs: Iterable[ExchangeDiff],
    total: DiffTotal,
    head: Mapping[str, Any],
    *,
    with_previews: bool = False,
) -> Iterator[str]:
    """The lines of `wiretape diff --json`: `head`, a line for each difference, and their `total`, which is added up.

    `with_previews` adds the type, the sequence and the content of the events of a difference.
    """
    yield dump_json({"row": "diff", **head})
    for diff in diffs:
        total.add(diff)
        for entry, document in zip(diff.entries, _documents(diff), strict=True):
            if with_previews:
                document["previews"] = list(map(_preview, recordings, entry.locations))
            yield dump_json(document)
    yield dump_json(
        {
            "row": "summary",
            "equal": total.is_equal,
            "exchanges": total.exchanges,
            "events": {"a": total.events[0], "b": total.events[1]},
            "differences": {kind: total.counts[kind] for kind in KINDS},
            "omitted": total.omitted,
        }
    )


def _preview(recording: Recording, location: DiffLocation | None) -> dict[str, Any] | None:
    """Return the type, the sequence and the content of an event; None if there is no event."""
    if location is None or location.event is None:
        return None
    event = next(recording.events(location.exchange, location.event), None)
    return None if event is None else members_of(event, "type", "sequence", "text")


def _documents(diff: ExchangeDiff) -> Iterator[dict[str, Any]]:
    exchange = diff.first or diff.second
    for entry in diff.entries:
        yield {
            "row": "difference",
            "kind": entry.kind,
            "what": entry.subject,
            "a": entry.locations[0],
            "b": entry.locations[1],
            "request": _request(exchange),
            "type": entry.type or None,
            "fields": [_field(difference) for difference in entry.fields],
            **members_of(entry, "id", "sequence", "later_ns"),
            **({} if exchange is None else exchange.vocabulary.columns(entry.keys)),
        }


def _field(difference: Difference) -> dict[str, Any]:
    values = {
        name: value for name, value in (("a", difference.first), ("b", difference.second)) if value is not MISSING
    }
    return {"path": difference.path, **values}
