"""Findings together with what the recording holds at their places."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wiretape.contract import TOOL_TYPES
from wiretape.event_facts import facts_of
from wiretape.json_reader import read_json
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape_inspect.report.evidence import beginning
from wiretape_inspect.report.fingerprint import Kind, expected_kind, template
from wiretape_inspect.report.places import Spot, placed
from wiretape_inspect.report.recording_report import Report

BYTES = 1024
"""How many bytes of a message a detail keeps."""


@dataclass(frozen=True, slots=True)
class At:
    """A frame of a stream, or the beginning of an answer that is no stream."""

    event: int | None
    offset: int | None
    """Of the first byte in the decoded body; None for an answer."""
    length: int | None
    """In bytes; None for an answer, which is not read to its end."""
    data: bytes
    """The first `BYTES` of them."""
    type: str | None
    """The JSON `type`, or else the name on the `event:` line."""
    tool: str
    id: str | None
    """The SSE id."""
    sequence: int | None
    line: int | None
    """The line, from 1, at which it begins in what `wiretape export --format sse` writes."""
    exported: int | None
    """The offset there, which is less than `offset` where bytes were lost."""


@dataclass(frozen=True, slots=True)
class Detail:
    """One finding, and what there is at its place."""

    number: int
    """Its place in the report's list."""
    finding: Finding
    exchange: Exchange
    at: At | None
    before: At | None
    """The message before it on the same connection."""
    kind: Kind

    @property
    def fingerprint(self) -> str:
        """The same for the same defect in another recording."""
        return self.kind.fingerprint


def details(report: Report) -> Iterator[Detail]:
    """Every finding of the report, in its order."""
    for place in placed(report.recording, enumerate(report.findings)):
        finding, exchange = place.finding, place.exchange
        if finding.byte_offset is None:
            at = _answer(report, exchange)
        else:
            at = _read(place.here) if place.here is not None else None
        before = _read(place.before) if place.before is not None else None
        yield Detail(place.number, finding, exchange, at, before, _kind(finding, exchange, at))


def _read(spot: Spot) -> At:
    """Look into a frame, which takes time."""
    frame = spot.seen.frame
    facts = facts_of(frame)
    return At(
        event=spot.seen.event,
        offset=frame.start,
        length=len(frame.raw),
        data=frame.raw[:BYTES],
        type=facts.type or None,
        tool=_tool(frame.data) if facts.type in TOOL_TYPES else "",
        id=facts.id,
        sequence=facts.sequence,
        line=spot.line,
        exported=spot.exported,
    )


def _answer(report: Report, exchange: Exchange) -> At | None:
    if exchange.is_stream or not exchange.response_bytes:
        return None
    data = beginning(report.recording, exchange, BYTES)
    return At(None, None, None, data, None, "", None, None, None, None)


def _tool(data: bytes) -> str:
    """The name of the tool that a tool event is about."""
    said: Any = read_json(data)
    for key in ("content", "data"):
        part = said.get(key) if isinstance(said, dict) else None
        if isinstance(part, dict) and isinstance(part.get("name"), str):
            return str(part["name"])
    return ""


def _kind(finding: Finding, exchange: Exchange, at: At | None) -> Kind:
    about = (at.type or "") if at is not None and at.event is not None else ""
    if finding.event is None and exchange.response is not None and not exchange.is_stream:
        about = f"status {exchange.response.status}"
    return Kind(
        code=finding.code,
        request=template(exchange.request.method, exchange.request.target),
        about=about,
        tool=at.tool if at is not None else "",
        expected=expected_kind(finding.message),
    )
