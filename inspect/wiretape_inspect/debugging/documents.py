"""What the page is told, as plain data: the same for a server and for an exported file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiretape.recording import Exchange, Recording
from wiretape.rules import CATALOGUE, Finding
from wiretape_inspect import jsonlines, place, timeline
from wiretape_inspect.place import Around
from wiretape_inspect.view.filter_match import Match
from wiretape_inspect.view.resume import resumed
from wiretape_inspect.view.state import state_at


def recording_document(
    recording: Recording,
    exchanges: Iterable[Exchange] | None = None,
    found: Mapping[int, Sequence[Finding]] | None = None,
) -> dict[str, Any]:
    """The recording as a whole: its head, those of its exchanges (or of these), and what was found about them.

    `found` are findings by exchange; those of the live checks for None.
    """
    chosen = list(recording.exchanges() if exchanges is None else exchanges)
    info = recording.info
    found = timeline.stored_findings(recording) if found is None else found
    findings = [finding for exchange in chosen for finding in found.get(exchange.number, ())]
    return {
        "file": recording.path.name,
        "upstream": info.upstream,
        "tool": info.tool,
        "started": info.started,
        "ended_ns": info.ended_ns,
        "exchanges": [jsonlines.head(exchange) for exchange in chosen],
        "findings": findings,
        "rules": rules_of(findings),
    }


def rules_of(findings: Iterable[Finding]) -> Mapping[str, Any]:
    """What there is to say of the rules that were broken, by code."""
    codes = sorted({finding.code for finding in findings})
    return {code: _rule(code) for code in codes if code in CATALOGUE}


def _rule(code: str) -> dict[str, Any]:
    rule = CATALOGUE[code]
    return {"name": rule.name, "severity": rule.severity, "side": rule.side, "clause": rule.clause, "about": rule.about}


def row_lines(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], matches: Match | None = None
) -> Iterator[str]:
    """The head of an exchange and its rows that match, as `wiretape show --json` prints them."""
    if not exchange.is_stream:
        yield from map(jsonlines.dump, jsonlines.rows(recording, exchange, findings, matches))
        return
    shown = timeline.taken(recording, exchange, findings, matches)
    if shown is not None:
        yield jsonlines.dump({"row": "exchange", **jsonlines.head(exchange)})
        yield from (jsonlines.row_text(exchange.number, row) for row in shown)


def event_lines(recording: Recording, exchange: Exchange, first: int, last: int) -> Iterator[str]:
    """A row for each message of a stream from number `first` to `last`, deltas too."""
    began = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    since_ns = began
    for seen in recording.frames(exchange.number, max(first - 1, 1)):
        if seen.event is None:
            continue
        if seen.event > last:
            return
        if seen.event >= first:
            yield jsonlines.dump(jsonlines.row(exchange.number, place.row(seen, since_ns)))
        since_ns = seen.time_ns


def event_document(recording: Recording, exchange: Exchange, around: Around) -> dict[str, Any]:
    """One message closely, and what a client knew just after it."""
    state = state_at(recording, exchange, around.seen.event or 0)
    return jsonlines.closely(recording, exchange, around, timeline.findings_about(recording, exchange), state)


def resume_lines(recording: Recording, first: Exchange, second: Exchange) -> Iterator[str]:
    """Two connections side by side, as JSON, one id a line.  Raises InputError, at once."""
    return map(jsonlines.dump, jsonlines.joined(resumed(recording, first, second)))
