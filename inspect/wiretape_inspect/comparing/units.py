"""One stream as what is compared of it: the messages that are no deltas, one by one, and the texts of the deltas."""

from array import array
from collections.abc import Iterator
from typing import Any

from wiretape.frame_reader import FrameReader, SeenFrame
from wiretape.json_path import JsonPath
from wiretape.json_reader import UnreadableJson, read_json
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording
from wiretape.sse import Frame, FrameKind
from wiretape_inspect.comparing.choices import Choices
from wiretape_inspect.comparing.masks import Mask
from wiretape_inspect.comparing.spool import Spool
from wiretape_inspect.facts import fragment_in, placed

LONGEST = 1_000_000
"""Characters of the text of deltas that are kept; what comes after is compared by its length."""
_COMPARED = frozenset({b"event", b"retry"})
_known: dict[tuple[tuple[bytes, bytes], ...], tuple[tuple[bytes, bytes], ...]] = {}
_MOST_KNOWN = 1000
_MESSAGE = FrameKind.MESSAGE.value


class Unit:
    """A message that is compared with another one."""

    __slots__ = ("_mask", "_token", "data", "document", "event", "id", "lines", "sequence", "ticket", "time_ns", "type")

    def __init__(self, seen: SeenFrame, kind: str, sequence: int | None, document: Any) -> None:
        frame = seen.frame
        self.event = seen.event or 0
        self.time_ns = seen.time_ns
        self.type = kind
        self.id = frame.id
        self.lines = _lines(frame)
        """The lines that count beside `id` and `data`."""
        self.sequence = sequence
        self.data = frame.data
        self.document = document
        self.ticket: tuple[int, int] | None = None
        """Where `data` is kept, when neither it nor `document` is here."""
        self._mask: Mask | None = None
        self._token: int | None = None

    @property
    def mask(self) -> Mask:
        """What it says beside its ids and times."""
        if self._mask is None:
            self._mask = Mask(self.document, self.type)
        return self._mask

    @property
    def token(self) -> int:
        """The same for messages that say the same, whatever their ids, times and sequences."""
        return self.mask.token if self._token is None else self._token

    def put_aside(self, spool: Spool) -> None:
        """Let go of what is said, until it is restored."""
        self._token, self._mask = self.token, None
        self.ticket, self.data, self.document = spool.keep(self.data), b"", None

    def restore(self, spool: Spool, ignored: tuple[JsonPath, ...]) -> None:
        """Have again what was put aside."""
        if self.ticket is not None:
            self.data = spool.take(self.ticket)
            self.document, self.ticket = document_of(self.data, ignored), None

    def release(self) -> None:
        """Let go of what is said for good."""
        self.data, self.document, self._mask = b"", None, None


def _lines(frame: Frame) -> tuple[tuple[bytes, bytes], ...]:
    found = tuple([line for line in frame.fields if line[0] in _COMPARED])
    # Most events of a stream have one of a few.
    return _known.setdefault(found, found) if len(_known) < _MOST_KNOWN else found


class Spoken:
    """What the deltas of one type and run join to."""

    def __init__(self, kind: str, run_id: str | None) -> None:
        self.type = kind
        self.run_id = run_id
        self.length = 0
        self.events = array("q")
        """The number of each delta on its connection."""
        self.ends = array("q")
        """Where each delta ends in the text."""
        self.times = array("q")
        """When each came (ns)."""
        self._parts: list[str] = []
        self._kept = 0

    def add(self, seen: SeenFrame, text: str) -> None:
        """One more delta."""
        self.length += len(text)
        self.events.append(seen.event or 0)
        self.times.append(seen.time_ns)
        self.ends.append(self.length)
        if self._kept < LONGEST:
            self._parts.append(text[: LONGEST - self._kept])
            self._kept += len(self._parts[-1])

    @property
    def text(self) -> str:
        """Its first million characters."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]


class StreamUnits:
    """Reads a stream.  What is asked for beside `units` is known when all of those were taken."""

    def __init__(self, recording: Recording, exchange: Exchange, choices: Choices) -> None:
        self.exchange = exchange
        self.spoken: dict[tuple[str, str | None], Spoken] = {}
        self.messages = 0
        self.cut = False
        """Whether bytes of an unfinished message were left."""
        self.undecodable: str | None = None
        self._recording = recording
        self._choices = choices

    def units(self) -> Iterator[Unit]:
        """Its messages but for plain deltas, in order."""
        reader = FrameReader(self.exchange.content_encoding)
        for part in self._recording.body(self.exchange.number, Side.RESPONSE):
            yield from self._units(reader.feed(part) if isinstance(part, BytesArrived) else reader.skip(part))
        yield from self._units(last := reader.close())
        self.cut = any(seen.frame.kind is FrameKind.TAIL for seen in last)
        self.undecodable = reader.undecodable

    def unit(self, event: int) -> Unit | None:
        """The message of this number, read again."""
        seen = next(self._recording.frames(self.exchange.number, event), None)
        if seen is None:
            return None
        value = _said(seen.frame.data)
        kind, _, sequence = placed(seen.frame, value if isinstance(value, dict) else None)
        return Unit(seen, kind, sequence, value)

    def _units(self, frames: list[SeenFrame]) -> Iterator[Unit]:
        for seen in frames:
            if seen.frame.kind == _MESSAGE and (unit := self._unit(seen)) is not None:
                yield unit

    def _unit(self, seen: SeenFrame) -> Unit | None:
        self.messages += 1
        value = _said(seen.frame.data)
        said = value if isinstance(value, dict) else None
        kind, standing, sequence = placed(seen.frame, said)
        text = fragment_in(said) if said and standing == "delta" else None
        if said is None or text is None:
            return Unit(seen, kind, sequence, _counted(value, self._choices.ignored))
        if self._choices.deltas != "none":
            run = said.get("run_id")
            key = (kind, run if isinstance(run, str) else None)
            self.spoken.setdefault(key, Spoken(*key)).add(seen, text)
        if seen.frame.id is None and sequence is None:
            return None
        # One that is stored, as it should not be, is a message by itself too.
        return Unit(seen, kind, sequence, _counted(value, self._choices.ignored))


def document_of(data: bytes, ignored: tuple[JsonPath, ...]) -> Any:
    """What data says as far as it counts: JSON, or else text."""
    return _counted(_said(data), ignored)


def _said(data: bytes) -> Any:
    value = read_json(data)
    return data.decode("utf-8", "backslashreplace") if isinstance(value, UnreadableJson) else value


def _counted(value: Any, ignored: tuple[JsonPath, ...]) -> Any:
    for path in ignored:
        if not path.steps:
            return None
        try:
            path.drop(value)
        except RecursionError:
            return value
    return value
