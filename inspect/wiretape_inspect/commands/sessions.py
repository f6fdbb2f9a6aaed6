"""`wiretape sessions`: the sessions of a recording."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.cells import cell_len

from wiretape.event import Event, TimedFrame
from wiretape.files import PATH
from wiretape.json_codec import dump_json, members_of
from wiretape.labels import count_of, ending_label
from wiretape.observations import Ending
from wiretape.recording import Exchange, Recording, RecordingInfo, open_recording
from wiretape.rules import Finding
from wiretape.safe_text import printable
from wiretape.sse import FrameKind
from wiretape.units import format_duration, format_integer
from wiretape_inspect.styled_line import Line, labelled, wrapped
from wiretape_inspect.terminal import Terminal
from wiretape_inspect.terminal_output import find_terminal, write_lines
from wiretape_inspect.timeline_text import stored_findings

FORMAT = 1
"""The version of the JSON that `wiretape sessions --json` prints."""
_COUNTS = ("streams", "events", "durable", "deltas")
_COLUMNS = ("session", *_COUNTS, "last seq", "first (UTC)", "last (UTC)", "endings", "findings")
_RIGHT_ALIGNED = {*_COUNTS, "last seq"}
_INDENT = " " * 4
_NONE = "-"


@dataclass(slots=True)
class SessionSummary:
    """The traffic of one session; replayed events count again."""

    info: RecordingInfo
    id: str | None
    """None for all streams whose path contains no session."""
    streams: int = 0
    requests: int = 0
    """Exchanges that are not streams."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The number of events of its streams by kind."""
    last_sequence: int | None = None
    """The highest sequence."""
    first_ns: int | None = None
    last_ns: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """The endings of its streams, in words."""
    findings: Counter[str] = field(default_factory=Counter)
    """By severity."""

    def add(self, exchange: Exchange, frames: Iterable[TimedFrame], findings: Iterable[Finding]) -> None:
        """Add an exchange of this session."""
        if self.first_ns is None:
            self.first_ns = exchange.request.time_ns
        self.last_ns = max(self.last_ns, exchange.ended_ns or exchange.request.time_ns)
        self.findings.update(str(finding.severity) for finding in findings)
        if not exchange.is_stream:
            self.requests += 1
            return
        self.streams += 1
        in_event = False
        for seen in frames:
            in_event = seen.frame.kind is FrameKind.TAIL
            self._add_frame(seen)
        in_event = in_event and exchange.ending is not Ending.OPEN
        self.endings[ending_label(exchange.ending, stream=True, in_event=in_event)] += 1

    def _add_frame(self, seen: TimedFrame) -> None:
        self.last_ns = max(self.last_ns, seen.time_ns)
        if not isinstance(seen, Event):
            return
        self.kinds[seen.kind] += 1
        if seen.sequence is not None and (self.last_sequence is None or seen.sequence > self.last_sequence):
            self.last_sequence = seen.sequence


def summarise(recording: Recording) -> tuple[list[SessionSummary], Counter[str]]:
    """Return the sessions, and how many exchanges are not streams, by status or `no response`."""
    findings = stored_findings(recording)
    sessions: dict[str | None, SessionSummary] = {}
    others: Counter[str] = Counter()
    for exchange in recording.exchanges():
        if not exchange.is_stream:
            others[str(exchange.response.status) if exchange.response else "no response"] += 1
            if exchange.channel is None:
                continue
        session = sessions.setdefault(exchange.channel, SessionSummary(recording.info, exchange.channel))
        frames = recording.frames(exchange.number) if exchange.is_stream else ()
        session.add(exchange, frames, findings.get(exchange.number, ()))
    return list(sessions.values()), others


def summary_document(recording: Recording) -> dict[str, Any]:
    """Return the sessions of a recording as plain data for JSON."""
    info, (found, others) = recording.info, summarise(recording)
    return {
        "format": FORMAT,
        "recording": msgspec.to_builtins(info) | {"contracts": info.contract_names},
        "sessions": [
            {
                "session_id": session.id,
                **members_of(session, "streams", "requests", "last_sequence", "endings", "findings"),
                "events": session.kinds.total(),
                "durable": session.kinds["durable"],
                "deltas": session.kinds["delta"],
                "ephemeral": session.kinds["ephemeral"],
                "first": info.wall_clock(session.first_ns or 0),
                "last": info.wall_clock(session.last_ns),
            }
            for session in found
        ],
        "other_exchanges": dict(sorted(others.items())),
        "findings": _severities(recording),
    }


def summary_lines(recording: Recording, terminal: Terminal | None) -> Iterator[Line | str]:
    """Yield the lines of `wiretape sessions`: a table, or blocks if the terminal is too narrow for it."""
    info, (found, others) = recording.info, summarise(recording)
    length = f"lasted {format_duration(info.ended_ns)}" if info.ended_ns is not None else "not closed"
    upstream = [f"upstream {info.upstream}"] if info.upstream else []
    contracts = [f"contract {', '.join(info.contract_names)}"] if info.contracts else []
    yield wrapped(" · ".join((info.tool, *upstream, *contracts, f"{info.started:%Y-%m-%d %H:%M:%SZ}", length)))
    if found:
        yield ""
        table = list(_table_lines(found))
        widest = max(cell_len(str(line)) for line in table)
        width = terminal.width if terminal else None
        yield from table if width is None or widest <= width else _blocks(found)
        yield ""
    yield f"other exchanges: {_tally(others) or 'none'}"
    yield f"findings: {_count_severities(_severities(recording)) or 'none'}"


def _severities(recording: Recording) -> Counter[str]:
    return Counter(str(finding.severity) for finding in recording.findings())


def _table_lines(sessions: Iterable[SessionSummary]) -> Iterator[Line]:
    rows = [_COLUMNS, *(tuple(map(printable, _cells(session))) for session in sessions)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for name, width, cell in zip(_COLUMNS, widths, row, strict=True):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if name in _RIGHT_ALIGNED else cell + space)
        yield Line([("  ".join(cells), "head" if row is _COLUMNS else "")], "keep")


def _blocks(sessions: Iterable[SessionSummary]) -> Iterator[Line]:
    for session in sessions:
        cells = dict(zip(_COLUMNS, _cells(session), strict=True))
        counts = [f"{cells[name]} {name}" for name in _COUNTS]
        yield wrapped((cells["session"], "head"))
        yield labelled(_INDENT, " · ".join([*counts, f"last seq {cells['last seq']}"]))
        yield labelled(_INDENT, f"{cells['first (UTC)']} to {cells['last (UTC)']} UTC")
        yield from (labelled(_INDENT, cells[name]) for name in ("endings", "findings") if cells[name] != _NONE)


def _cells(session: SessionSummary) -> Iterator[str]:
    yield session.id if session.id is not None else "(none)"
    for number in (session.streams, session.kinds.total(), session.kinds["durable"], session.kinds["delta"]):
        yield f"{number:,}"
    yield format_integer(session.last_sequence) if session.last_sequence is not None else _NONE
    for time_ns in (session.first_ns or 0, session.last_ns):
        yield f"{session.info.wall_clock(time_ns):%H:%M:%S.%f}"[:-3]
    yield _tally(session.endings) or _NONE
    yield _count_severities(session.findings) or _NONE


def _count_severities(counts: Counter[str]) -> str:
    return ", ".join(count_of(number, severity) for severity, number in sorted(counts.items()))


def _tally(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in sorted(counts.items()))


@click.command()
@click.argument("file", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
def sessions(file: Path, as_json: bool) -> None:
    """List the sessions of the recording FILE, with their streams, events, endings and findings.

    An event that was replayed after a reconnect is counted twice.

    \b
    Example:
        wiretape sessions run.db
    """
    with open_recording(file) as recording:
        if as_json:
            write_lines([dump_json(summary_document(recording), indent=True)])
        else:
            write_lines(summary_lines(recording, find_terminal()))
