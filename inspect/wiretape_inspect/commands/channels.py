"""`wiretape channels`: the channels of a recording."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.cells import cell_len

from wiretape.contract.vocabulary import CHANNEL, Vocabulary
from wiretape.event import Event, TimedFrame
from wiretape.files import PATH
from wiretape.json_codec import dump_json, members_of
from wiretape.labels import count_of, ended_well, ending_label
from wiretape.observations import Ending
from wiretape.recording import Exchange, Recording, RecordingInfo, open_recording
from wiretape.rules import Finding, Severity
from wiretape.safe_text import printable
from wiretape.sse import FrameKind
from wiretape.terminal_styles import status_style
from wiretape.units import format_duration, format_integer
from wiretape_inspect.terminal import Terminal
from wiretape_inspect.terminal_output import Line, Part, find_terminal, labelled, wrapped, write_lines
from wiretape_inspect.timeline_text import stored_findings

FORMAT = 1
"""The version of the JSON that `wiretape channels --json` prints."""
_COUNTS = ("streams", "events", "durable", "deltas", "failed")
_COLUMNS = ("channel", *_COUNTS, "last seq", "first", "last", "findings")
"""The columns before the endings of the streams."""
_RIGHT_ALIGNED = {*_COUNTS, "last seq"}
_LEFT_OUT = ((), ("durable", "deltas"), ("durable", "deltas", "first", "last"))
"""What narrower and narrower terminals leave out."""
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
    failed: int = 0
    """The number of events that report a failure."""
    last_sequence: int | None = None
    """The highest sequence."""
    first_ns: int | None = None
    last_ns: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """The endings of its streams, in words."""
    failures: set[str] = field(default_factory=set)
    """The endings that are failures."""
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
            self.last_ns = max(self.last_ns, seen.time_ns)
            if isinstance(seen, Event):
                self._add_event(seen, exchange.vocabulary)
        in_event = in_event and exchange.ending is not Ending.OPEN
        label = ending_label(exchange.ending, stream=True, in_event=in_event)
        self.endings[label] += 1
        if not ended_well(exchange.ending, stream=True, in_event=in_event):
            self.failures.add(label)

    def _add_event(self, seen: Event, vocabulary: Vocabulary) -> None:
        self.kinds[seen.kind] += 1
        self.failed += seen.type in vocabulary.failures
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
                **members_of(channel, "streams", "requests", "failed", "last_sequence", "endings", "findings"),
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
    by_status = _tally(others, lambda status: status_style(int(status) if status.isdigit() else None))
    yield wrapped("other exchanges: ", *(by_status or ["none"]))
    text, style = _count_severities(_severities(recording))
    yield wrapped("findings: ", (text or "none", style))


def _severities(recording: Recording) -> Counter[str]:
    return Counter(str(finding.severity) for finding in recording.findings())


def _table_lines(channels: Sequence[ChannelSummary], room: int | None) -> Iterable[Line]:
    """Return a table that fits into `room` columns if it can, without some of its own; otherwise, blocks."""
    names = {channel.name for channel in channels}
    title = printable(names.pop()) if len(names) == 1 else _COLUMNS[0]
    titles = {name: (title if name == _COLUMNS[0] else name, "head") for name in _COLUMNS}
    rows = [titles, *map(_cells, channels)]
    widths = {name: max(cell_len(row[name][0]) for row in rows) for name in _COLUMNS}
    always = [name for name in _COLUMNS if name != "failed" or any(channel.failed for channel in channels)]
    for left_out in _LEFT_OUT:
        shown = [name for name in always if name not in left_out]
        indent = sum(widths[name] + len(_GAP) for name in shown)
        if room is None or room >= indent + _LEAST_ROOM:
            endings: list[list[Part]] = [[("endings", "head")], *map(_endings, channels)]
            cells = ([_padded(*row[name], name, widths[name]) for name in shown] for row in rows)
            return [Line([*each, *ended], "wrap", indent) for each, ended in zip(cells, endings, strict=True)]
    return _blocks(channels)


def _padded(text: str, style: str, name: str, width: int) -> Part:
    space = " " * (width - cell_len(text))
    return (f"{space}{text}{_GAP}" if name in _RIGHT_ALIGNED else f"{text}{space}{_GAP}", style)


def _blocks(channels: Iterable[ChannelSummary]) -> Iterator[Line]:
    for channel in channels:
        cells = _cells(channel)
        counts = [count_of(channel.streams, "stream"), *(f"{cells[name][0]} {name}" for name in _COUNTS[1:-1])]
        failed: Part = (f" · {cells['failed'][0]} failed", "bad") if channel.failed else ""
        yield wrapped((cells["channel"][0], "head"))
        yield labelled(_INDENT, " · ".join(counts), failed, f" · last seq {cells['last seq'][0]}")
        yield labelled(_INDENT, f"{cells['first'][0]} to {cells['last'][0]} UTC")
        if channel.endings:
            yield labelled(_INDENT, *_endings(channel))
        if channel.findings:
            yield labelled(_INDENT, cells["findings"])


def _cells(channel: ChannelSummary) -> dict[str, tuple[str, str]]:
    """Return the text and the style of each column but the last."""
    streams, kinds, sequence = channel.streams, channel.kinds, channel.last_sequence
    counts = (streams, kinds.total(), kinds["durable"], kinds["delta"], channel.failed)
    times = (f"{channel.info.wall_clock(time_ns):%H:%M:%S}" for time_ns in (channel.first_ns or 0, channel.last_ns))
    findings, worst = _count_severities(channel.findings)
    texts = [
        printable(channel.id) if channel.id is not None else "(none)",
        *(f"{number:,}" for number in counts),
        format_integer(sequence) if sequence is not None else _NONE,
        *times,
        findings or _NONE,
    ]
    styles = {"failed": "bad" if channel.failed else "", "findings": worst}
    return {name: (text, styles.get(name, "")) for name, text in zip(_COLUMNS, texts, strict=True)}


def _endings(channel: ChannelSummary) -> list[Part]:
    return _tally(channel.endings, lambda label: "bad" if label in channel.failures else "") or [_NONE]


def _count_severities(counts: Counter[str]) -> tuple[str, str]:
    """Return how many findings there are of each severity, and the worst one."""
    found = [severity for severity in Severity if counts[severity]]
    return ", ".join(count_of(counts[severity], severity) for severity in found), next(iter(found), "")


def _tally(counts: Counter[str], style_of: Callable[[str], str]) -> list[Part]:
    parts = [(f"{name}: {number:,}", style_of(name)) for name, number in sorted(counts.items())]
    return [each for part in parts for each in (", ", part)][1:]


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
