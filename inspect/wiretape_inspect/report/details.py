"""Findings together with what the recording holds at their places.  Streams: one pass over each event stream."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from wiretape.contract import TOOL_TYPES
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape.rules.jsontext import read
from wiretape.sse import FrameKind
from wiretape.stream import SeenFrame
from wiretape_inspect.facts import facts_of
from wiretape_inspect.report.evidence import beginning
from wiretape_inspect.report.fingerprint import Kind, expected_kind, template
from wiretape_inspect.report.judging import Report

BYTES = 1024
"""How many bytes of a message a detail keeps."""
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class At:
    """A message, or the beginning of an answer that is no stream."""

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
    numbered = enumerate(report.findings)
    for number, group in groupby(numbered, key=lambda item: item[1].exchange):
        exchange = report.recording.exchange(number)
        of_exchange = list(group)
        # In the report those about no event come first, but an unfinished message stands at the stream's end.
        eventless = [item for item in of_exchange if item[1].event is None]
        yield from _in_order(report, exchange, eventless)
        yield from _in_order(report, exchange, of_exchange[len(eventless) :])


def _in_order(report: Report, exchange: Exchange, findings: list[tuple[int, Finding]]) -> Iterator[Detail]:
    """Findings whose offsets grow, with the messages that begin there."""
    spots = _spots(report, exchange) if any(finding.byte_offset is not None for _, finding in findings) else iter(())
    here = before = None
    for number, finding in findings:
        offset = finding.byte_offset
        if offset is None:
            # Nothing tells where it is; the stream is not read on for it.
            answer = _answer(report, exchange)
            yield Detail(number, finding, exchange, answer, None, _kind(finding, exchange, answer))
            continue
        while here is None or here.start < offset:
            following = next(spots, None)
            if following is None:
                break
            before, here = here, following
        at = here.read() if here is not None and here.start == offset else None
        earlier = before.read() if at is not None and before is not None and before.seen.event is not None else None
        yield Detail(number, finding, exchange, at, earlier, _kind(finding, exchange, at))


@dataclass(frozen=True, slots=True)
class _Spot:
    """A message, whole or not, or a piece of what is too large to be one."""

    seen: SeenFrame
    line: int
    exported: int

    @property
    def start(self) -> int:
        return self.seen.frame.start

    def read(self) -> At:
        """Look into it, which takes time."""
        frame = self.seen.frame
        facts = facts_of(frame)
        return At(
            event=self.seen.event,
            offset=frame.start,
            length=len(frame.raw),
            data=frame.raw[:BYTES],
            type=facts.type or None,
            tool=_tool(frame.data) if facts.type in TOOL_TYPES else "",
            id=facts.id,
            sequence=facts.sequence,
            line=self.line,
            exported=self.exported,
        )


def _spots(report: Report, exchange: Exchange) -> Iterator[_Spot]:
    line, exported = 1, 0
    for seen in report.recording.frames(exchange.number):
        raw = seen.frame.raw
        if seen.frame.kind in {FrameKind.MESSAGE, FrameKind.TAIL, FrameKind.OVERSIZED}:
            yield _Spot(seen, line, exported)
        line += len(_LINE_END.findall(raw))
        exported += len(raw)


def _answer(report: Report, exchange: Exchange) -> At | None:
    if exchange.is_stream or not exchange.response_bytes:
        return None
    data = beginning(report.recording, exchange, BYTES)
    return At(None, None, None, data, None, "", None, None, None, None)


def _tool(data: bytes) -> str:
    """The name of the tool that a tool event is about."""
    said: Any = read(data)
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
