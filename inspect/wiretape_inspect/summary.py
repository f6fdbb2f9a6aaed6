"""What a recording holds, session by session: one pass over it, memory by the number of sessions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from wiretape.event_facts import kind_and_sequence
from wiretape.frame_reader import SeenFrame
from wiretape.observations import Ending
from wiretape.recording import Exchange, Recording, RecordingInfo
from wiretape.rules import Finding
from wiretape.sse import FrameKind
from wiretape_inspect.humanize import ending_label

FORMAT = 1
"""The version of the JSON that `wiretape sessions --json` writes."""


@dataclass(slots=True)
class Session:
    """What crossed the wire of one session; events that were replayed count again."""

    id: str | None
    """None gathers the streams of which the path names no session."""
    streams: int = 0
    requests: int = 0
    """Exchanges that are no stream."""
    durable: int = 0
    deltas: int = 0
    ephemeral: int = 0
    last_sequence: int | None = None
    """The highest seen."""
    first_ns: int | None = None
    last_ns: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """How its streams ended, in words."""
    findings: Counter[str] = field(default_factory=Counter)
    """By severity."""

    @property
    def events(self) -> int:
        """All messages of its streams."""
        return self.durable + self.deltas + self.ephemeral

    def add(self, exchange: Exchange, frames: Iterable[SeenFrame], findings: Iterable[Finding]) -> None:
        """Count an exchange of this session."""
        if self.first_ns is None:
            self.first_ns = exchange.request.time_ns
        self.last_ns = max(self.last_ns, exchange.ended_ns or exchange.request.time_ns)
        self.findings.update(str(finding.severity) for finding in findings)
        if not exchange.is_stream:
            self.requests += 1
            return
        self.streams += 1
        cut = False
        for seen in frames:
            cut = seen.frame.kind is FrameKind.TAIL
            self._count(seen)
        self.endings[
            ending_label(exchange.ending, stream=True, in_event=cut and exchange.ending is not Ending.OPEN)
        ] += 1

    def _count(self, seen: SeenFrame) -> None:
        self.last_ns = max(self.last_ns, seen.time_ns)
        if seen.event is None:
            return
        standing, sequence = kind_and_sequence(seen.frame)
        if standing == "durable":
            self.durable += 1
        elif standing == "delta":
            self.deltas += 1
        else:
            self.ephemeral += 1
        if sequence is not None and (self.last_sequence is None or sequence > self.last_sequence):
            self.last_sequence = sequence


@dataclass(slots=True)
class Summary:
    """A whole recording."""

    info: RecordingInfo
    sessions: list[Session]
    others: Counter[str]
    """The exchanges that are no stream, by status; `no response` where there is none."""
    findings: Counter[str]

    def wall(self, time_ns: int) -> datetime:
        """A time of the recording on the wall clock (UTC)."""
        return self.info.started + timedelta(microseconds=time_ns // 1000)


def summarise(recording: Recording, findings: dict[int, list[Finding]]) -> Summary:
    """Read a recording through; `findings` are its live ones, by exchange."""
    sessions: dict[str | None, Session] = {}
    others: Counter[str] = Counter()
    for exchange in recording.exchanges():
        if not exchange.is_stream:
            others[str(exchange.response.status) if exchange.response else "no response"] += 1
            if exchange.session_id is None:
                continue
        session = sessions.setdefault(exchange.session_id, Session(exchange.session_id))
        frames = recording.frames(exchange.number) if exchange.is_stream else ()
        session.add(exchange, frames, findings.get(exchange.number, ()))
    total = Counter(str(finding.severity) for found in findings.values() for finding in found)
    return Summary(recording.info, list(sessions.values()), others, total)


def as_json(whole: Summary) -> dict[str, Any]:
    """The summary as a JSON document."""
    return {
        "format": FORMAT,
        "recording": whole.info,
        "sessions": [_session(whole, session) for session in whole.sessions],
        "other_exchanges": dict(sorted(whole.others.items())),
        "findings": dict(whole.findings),
    }


def _session(whole: Summary, session: Session) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "streams": session.streams,
        "requests": session.requests,
        "events": session.events,
        "durable": session.durable,
        "deltas": session.deltas,
        "ephemeral": session.ephemeral,
        "last_sequence": session.last_sequence,
        "first": whole.wall(session.first_ns or 0),
        "last": whole.wall(session.last_ns),
        "endings": dict(session.endings),
        "findings": dict(session.findings),
    }
