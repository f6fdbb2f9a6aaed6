"""Findings with what the recording holds at their locations, as data for programs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wiretape.contract import TOOL_TYPES
from wiretape.event_facts import facts_of
from wiretape.json_codec import read_json
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape_inspect.report.evidence import LocatedFrame, body_beginning, locate
from wiretape_inspect.report.fingerprint import DefectKind, expected_pattern, request_template
from wiretape_inspect.report.recording_report import Report

MAX_BYTES = 1024
"""Bytes of a frame that are kept."""


@dataclass(frozen=True, slots=True)
class FrameDetail:
    """A frame of a stream, or the beginning of a response that is not a stream."""

    event: int | None
    offset: int | None
    """Offset of the first byte in the decoded body; None for a response."""
    length: int | None
    """In bytes; None for a response, which is not read to its end."""
    data: bytes
    """The first `MAX_BYTES` bytes."""
    type: str | None
    """The JSON `type`, or else the name on the `event:` line."""
    tool: str
    id: str | None
    """The SSE id."""
    sequence: int | None
    line: int | None
    """Number of its first line, from 1, in what `wiretape export --format sse` writes."""
    exported: int | None
    """Its offset there, which is less than `offset` if bytes were lost."""


@dataclass(frozen=True, slots=True)
class FindingDetail:
    """A finding, and what is at its location."""

    index: int
    """Index of the finding in the report."""
    finding: Finding
    exchange: Exchange
    frame: FrameDetail | None
    before: FrameDetail | None
    """The previous event on the same connection."""
    kind: DefectKind

    @property
    def fingerprint(self) -> str:
        """The same for the same defect in another recording."""
        return self.kind.fingerprint


def finding_details(report: Report) -> Iterator[FindingDetail]:
    """Yield every finding of the report in order."""
    for located in locate(report.recording, enumerate(report.findings)):
        finding, exchange = located.finding, located.exchange
        if finding.byte_offset is None:
            frame = _response_detail(report, exchange)
        else:
            frame = _frame_detail(located.frame) if located.frame is not None else None
        before = _frame_detail(located.before) if located.before is not None else None
        yield FindingDetail(located.index, finding, exchange, frame, before, _kind(finding, exchange, frame))


def _frame_detail(located: LocatedFrame) -> FrameDetail:
    frame = located.seen.frame
    facts = facts_of(frame)
    return FrameDetail(
        event=located.seen.event,
        offset=frame.start,
        length=len(frame.raw),
        data=frame.raw[:MAX_BYTES],
        type=facts.type or None,
        tool=_tool_name(frame.data) if facts.type in TOOL_TYPES else "",
        id=facts.id,
        sequence=facts.sequence,
        line=located.line,
        exported=located.exported,
    )


def _response_detail(report: Report, exchange: Exchange) -> FrameDetail | None:
    if exchange.is_stream or not exchange.response_bytes:
        return None
    data = body_beginning(report.recording, exchange, MAX_BYTES)
    return FrameDetail(None, None, None, data, None, "", None, None, None, None)


def _tool_name(data: bytes) -> str:
    """Return the name of the tool that a tool event is about."""
    fields: Any = read_json(data)
    for key in ("content", "data"):
        part = fields.get(key) if isinstance(fields, dict) else None
        if isinstance(part, dict) and isinstance(part.get("name"), str):
            return str(part["name"])
    return ""


def _kind(finding: Finding, exchange: Exchange, frame: FrameDetail | None) -> DefectKind:
    about = (frame.type or "") if frame is not None and frame.event is not None else ""
    if finding.event is None and exchange.response is not None and not exchange.is_stream:
        about = f"status {exchange.response.status}"
    return DefectKind(
        code=finding.code,
        request=request_template(exchange.request.method, exchange.request.target),
        about=about,
        tool=frame.tool if frame is not None else "",
        expected=expected_pattern(finding.message),
    )
