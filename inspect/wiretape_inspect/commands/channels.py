"""`wiretape channels`: the channels of a recording."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.cells import cell_len

from wiretape.contract.vocabulary import CHANNEL
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
from wiretape_inspect.terminal import Terminal
from wiretape_inspect.terminal_output import Line, Part, find_terminal, labelled, wrapped, write_lines
from wiretape_inspect.timeline_text import stored_findings

FORMAT = 1
"""The version of the JSON that `wiretape channels --json` prints."""
_COUNTS = ("streams", "events", "durable", "deltas")
_COLUMNS = ("channel", *_COUNTS, "last seq", "first", "last", "findings", "endings")
_RIGHT_ALIGNED = {*_COUNTS, "last seq"}
_LEFT_OUT_IF_NARROW = {"durable", "deltas"}
_LEAST_ROOM = 20
"""Columns of the terminal that the endings need, which wrap."""
_INDENT = " " * 4
_GAP = "  "
_NONE = "-"


@dataclass(slots=True)
class ChannelSummary:
    """The traffic of one channel; replayed events count again."""

    info: RecordingInfo
    name: str
    """What the contract calls such a channel."""
    id: str | None
    """None for all streams that name no channel."""
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
        """Add an exchange of this channel."""
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


def summarise(recording: Recording) -> tuple[list[ChannelSummary], Counter[str]]:
    """Return the channels, and how many exchanges are not streams, by status or `no response`."""
    findings = stored_findings(recording)
    channels: dict[tuple[str, str | None], ChannelSummary] = {}
    others: Counter[str] = Counter()
    for exchange in recording.exchanges():
        if not exchange.is_stream:
            others[str(exchange.response.status) if exchange.response else "no response"] += 1
            if exchange.channel is None:
                continue
        name = exchange.vocabulary.channel
        summary = ChannelSummary(recording.info, name, exchange.channel)
        channel = channels.setdefault((name, exchange.channel), summary)
        frames = recording.frames(exchange.number) if exchange.is_stream else ()
        channel.add(exchange, frames, findings.get(exchange.number, ()))
    if not recording.info.contracts and all(channel.id is None for channel in channels.values()):
        for channel in channels.values():
            channel.name = CHANNEL  # the traffic belongs to no contract that could name it
    return list(channels.values()), others


def summary_document(recording: Recording) -> dict[str, Any]:
    """Return the channels of a recording as plain data for JSON."""
    info, (found, others) = recording.info, summarise(recording)
    return {
        "format": FORMAT,
        "recording": msgspec.to_builtins(info) | {"contracts": info.contract_names},
        "channels": [
            {
                "name": channel.name,
                "id": channel.id,
                **members_of(channel, "streams", "requests", "last_sequence", "endings", "findings"),
                "events": channel.kinds.total(),
                "durable": channel.kinds["durable"],
                "deltas": channel.kinds["delta"],
                "ephemeral": channel.kinds["ephemeral"],
                "first": info.wall_clock(channel.first_ns or 0),
                "last": info.wall_clock(channel.last_ns),
            }
            for channel in found
        ],
        "other_exchanges": dict(sorted(others.items())),
        "findings": _severities(recording),
    }


def summary_lines(recording: Recording, terminal: Terminal | None) -> Iterator[Line | str]:
    """Yield the lines of `wiretape channels`: a table, or blocks if the terminal is too narrow for it."""
    info, (found, others) = recording.info, summarise(recording)
    length = f"lasted {format_duration(info.ended_ns)}" if info.ended_ns is not None else "not closed"
    upstream = [f"upstream {info.upstream}"] if info.upstream else []
    contracts = [f"contract {', '.join(info.contract_names)}"] if info.contracts else []
    yield wrapped(" · ".join((info.tool, *upstream, *contracts, f"{info.started:%Y-%m-%d %H:%M:%SZ}", length)))
    if found:
        yield ""
        yield from _table_lines(found, terminal.width if terminal else None)
        yield ""
    yield f"other exchanges: {_tally(others) or 'none'}"
    total = _count_severities(_severities(recording)) or "none"
    yield Line(["findings: ", (total, _findings_style(total))])


def _severities(recording: Recording) -> Counter[str]:
    return Counter(str(finding.severity) for finding in recording.findings())


def _table_lines(channels: Sequence[ChannelSummary], room: int | None) -> Iterable[Line]:
    """Return a table that fits into `room` columns if it can, without some of its own; otherwise, blocks."""
    names = {channel.name for channel in channels}
    titles = (printable(names.pop()) if len(names) == 1 else _COLUMNS[0], *_COLUMNS[1:])
    rows = [titles, *(tuple(map(printable, _cells(channel))) for channel in channels)]
    widths = dict(zip(_COLUMNS, (max(map(cell_len, column)) for column in zip(*rows, strict=True)), strict=True))
    for left_out in ((), _LEFT_OUT_IF_NARROW):
        shown = [name for name in _COLUMNS[:-1] if name not in left_out]
        indent = sum(widths[name] + len(_GAP) for name in shown)
        if room is None or room >= indent + min(widths["endings"], _LEAST_ROOM):
            cells = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
            return [_row(row, shown, widths, indent, is_title=row is cells[0]) for row in cells]
    return _blocks(channels)


def _row(cells: dict[str, str], shown: Sequence[str], widths: dict[str, int], indent: int, *, is_title: bool) -> Line:
    parts: list[Part] = []
    for name in shown:
        space = " " * (widths[name] - cell_len(cells[name]))
        text = f"{space}{cells[name]}" if name in _RIGHT_ALIGNED else f"{cells[name]}{space}"
        parts.append(
            (f"{text}{_GAP}", "head" if is_title else _findings_style(cells[name]) if name == "findings" else "")
        )
    return Line([*parts, (cells["endings"], "head" if is_title else "")], "wrap", indent)


def _findings_style(findings: str) -> str:
    """Return the style of the worst severity in a text of `_count_severities`."""
    return next((severity for severity in ("error", "warning") if f" {severity}" in findings), "")


def _blocks(channels: Iterable[ChannelSummary]) -> Iterator[Line]:
    for channel in channels:
        cells = dict(zip(_COLUMNS, _cells(channel), strict=True))
        streams = count_of(channel.streams, "stream")
        counts = [streams, *(f"{cells[name]} {name}" for name in _COUNTS[1:])]
        yield wrapped((cells["channel"], "head"))
        yield labelled(_INDENT, " · ".join([*counts, f"last seq {cells['last seq']}"]))
        yield labelled(_INDENT, f"{cells['first']} to {cells['last']} UTC")
        if cells["endings"] != _NONE:
            yield labelled(_INDENT, cells["endings"])
        if cells["findings"] != _NONE:
            yield labelled(_INDENT, (cells["findings"], _findings_style(cells["findings"])))


def _cells(channel: ChannelSummary) -> Iterator[str]:
    yield channel.id if channel.id is not None else "(none)"
    for number in (channel.streams, channel.kinds.total(), channel.kinds["durable"], channel.kinds["delta"]):
        yield f"{number:,}"
    yield format_integer(channel.last_sequence) if channel.last_sequence is not None else _NONE
    for time_ns in (channel.first_ns or 0, channel.last_ns):
        yield f"{channel.info.wall_clock(time_ns):%H:%M:%S}"
    yield _count_severities(channel.findings) or _NONE
    yield _tally(channel.endings) or _NONE


def _count_severities(counts: Counter[str]) -> str:
    return ", ".join(count_of(number, severity) for severity, number in sorted(counts.items()))


def _tally(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in sorted(counts.items()))


@click.command()
@click.argument("file", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
def channels(file: Path, as_json: bool) -> None:
    """List the channels of the recording FILE, with their streams, events, endings and findings.

    An event that was replayed after a reconnect is counted twice.

    \b
    Example:
        wiretape channels run.db
    """
    with open_recording(file) as recording:
        if as_json:
            write_lines([dump_json(summary_document(recording), indent=True)])
        else:
            write_lines(summary_lines(recording, find_terminal()))
