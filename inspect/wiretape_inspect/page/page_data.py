"""The JSON that the page reads, the same from a server and in an exported file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wiretape.json_codec import dump_json
from wiretape.recording import Exchange, Recording
from wiretape.rules import CATALOGUE, Finding
from wiretape_inspect import event_detail, timeline, timeline_json
from wiretape_inspect.event_detail import EventContext
from wiretape_inspect.view.reconnection import compare_connections
from wiretape_inspect.view.state_at_event import state_at


def recording_document(
    recording: Recording,
    exchanges: Iterable[Exchange] | None = None,
    findings: Mapping[int, Sequence[Finding]] | None = None,
) -> dict[str, Any]:
    """Return the recording without its rows: its head, the heads of its exchanges, and the findings.

    By default, these are all exchanges and the findings of the live checks.
    """
    chosen = list(recording.exchanges() if exchanges is None else exchanges)
    by_exchange = timeline.stored_findings(recording) if findings is None else findings
    found = [finding for exchange in chosen for finding in by_exchange.get(exchange.number, ())]
    info = recording.info
    return {
        "file": recording.path.name,
        "upstream": info.upstream,
        "tool": info.tool,
        "started": info.started,
        "ended_ns": info.ended_ns,
        "exchanges": [timeline_json.exchange_document(exchange) for exchange in chosen],
        "findings": found,
        "rules": rules_of(found),
    }


def rules_of(findings: Iterable[Finding]) -> Mapping[str, Any]:
    """Return the rules of some findings, by code."""
    codes = sorted({finding.code for finding in findings})
    return {code: _rule(code) for code in codes if code in CATALOGUE}


def _rule(code: str) -> dict[str, Any]:
    rule = CATALOGUE[code]
    return {"name": rule.name, "severity": rule.severity, "side": rule.side, "clause": rule.clause, "about": rule.about}


def event_lines(recording: Recording, exchange: Exchange, first: int, last: int) -> Iterator[str]:
    """Yield a row for each message of a stream from number `first` to `last`, including deltas."""
    since_ns = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    for seen in recording.frames(exchange.number, max(first - 1, 1)):
        if seen.event is None:
            continue
        if seen.event > last:
            return
        if seen.event >= first:
            yield dump_json(timeline_json.row_document(exchange.number, event_detail.detail_row(seen, since_ns)))
        since_ns = seen.time_ns


def event_document(recording: Recording, exchange: Exchange, around: EventContext) -> dict[str, Any]:
    """Return one message in full, with the state of the client just after it."""
    state = state_at(recording, exchange, around.seen.event or 0)
    return timeline_json.detail_document(recording, exchange, around, list(recording.findings(exchange.number)), state)


def resume_lines(recording: Recording, first: Exchange, second: Exchange) -> Iterator[str]:
    """Return the comparison of two connections, a line for each SSE id.  Raises InputError at once."""
    return map(dump_json, timeline_json.reconnection_documents(compare_connections(recording, first, second)))
