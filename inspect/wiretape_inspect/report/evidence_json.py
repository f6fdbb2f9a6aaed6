"""A finding with its evidence as JSON for the page, and the characters in the evidence that the finding is about."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from wiretape.recording import Recording
from wiretape.rules import Finding, Party
from wiretape_inspect.report.evidence import (
    Evidence,
    LocatedFinding,
    LocatedFrame,
    evidence,
    locate,
    request_headers,
)
from wiretape_inspect.report.fingerprint import split_message

_WIDTH = 1000
"""Characters of a line of evidence: the page folds long lines."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Mark:
    """The characters of a line of evidence that a finding is about."""

    line: int
    begin: int
    end: int


def evidence_document(recording: Recording, located: LocatedFinding) -> dict[str, Any]:
    """Return a finding with its evidence.

    Besides the fields of the finding: `expected` and `actual` (null if the message has no such parts), `request`,
    `request_headers` if the client broke the rule, `end` (offset after the frame), `evidence` (`[[margin, line]]`) and
    `offending` (a `Mark` in these lines, or null).
    """
    finding, request = located.finding, located.exchange.request
    found = evidence(recording, located, _WIDTH)
    expected, actual = split_message(finding.message) or (None, None)
    is_client = finding.side is Party.CLIENT
    return {
        **msgspec.to_builtins(finding),
        "expected": expected,
        "actual": actual,
        "request": f"{request.method} {request.target}",
        "request_headers": request_headers(located.exchange, _WIDTH) if is_client else [],
        "end": found.end,
        "evidence": found.lines,
        "offending": mark_offending(located, found),
    }


def mark_offending(located: LocatedFinding, found: Evidence) -> Mark | None:
    """Return what a finding is about in the lines of its evidence; None if they do not show it."""
    before = located.before
    # The first line is about the previous event, if there is one.
    number = str(before.event.number) if before is not None and before.event is not None else None
    first = 1 if found.lines and found.lines[0][0] == number else 0
    mark = find_offending(located.finding.message, [text for _, text in found.lines[first:]])
    return None if mark is None else replace(mark, line=mark.line + first)


def locate_one(recording: Recording, finding: Finding) -> LocatedFinding:
    """Locate one finding; the index finds its event without reading the stream up to it."""
    if finding.event is None:
        return next(iter(locate(recording, [finding])))
    frame = before = None
    for seen in recording.frames(finding.exchange, max(finding.event - 1, 1)):
        frame = LocatedFrame(seen, 0, 0)
        if frame.event is not None:
            if frame.event.number >= finding.event:
                break
            before = frame
    return LocatedFinding(0, finding, recording.exchange(finding.exchange), frame, before)


def find_offending(message: str, lines: Sequence[str]) -> Mark | None:
    """Return where lines of a frame or a body show what a message is about; None if they do not.

    That is the actual value, or else the expected one.
    """
    expected, actual = split_message(message) or ("", message)
    names = [name for name in re.findall(r"\w+", message) if not name.isdigit()]
    for value in (*_values(actual), *_values(expected)):
        for number, line in enumerate(lines):
            begin = _index_of(value, line, names)
            if begin >= 0:
                return Mark(number, begin, begin + len(value))
    return None


def _values(text: str) -> Iterator[str]:
    """Yield what a part of a message quotes or names: texts in backticks, then types of events, then numbers."""
    yield from re.findall(r"`([^`]+)`", text)
    yield from re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+\b", text)
    yield from re.findall(rf"(?<![\w.`-]){_NUMBER.pattern}(?![\w.`])", text)


def _index_of(value: str, line: str, names: Iterable[str]) -> int:
    """Return where a line has a value, or -1; a number only as the value of a key or field that the message names."""
    if _NUMBER.fullmatch(value) is None:
        return line.find(value)
    if "status" in names and re.match(rf"{re.escape(value)}(?: |$)", line):
        return 0
    found = (re.search(rf'\b{re.escape(name)}"?: ?({re.escape(value)})(?![\d.])', line) for name in names)
    return next((match.start(1) for match in found if match is not None), -1)
