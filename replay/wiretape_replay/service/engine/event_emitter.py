"""Create the events of a session, with their ids, sequences, times and bytes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from wiretape.contract import DELTA_TYPES
from wiretape.observations import Ending
from wiretape_replay.generated_ids import generate_id
from wiretape_replay.session.session_log import EntryKind, LogEntry, event_frame

Content = Mapping[str, Any] | Sequence[Mapping[str, Any]]
_EMPTY: Mapping[str, Any] = {}


def format_time(epoch: datetime, time_ns: int) -> str:
    """A time as the service writes it; `epoch` is in UTC."""
    time = epoch + timedelta(microseconds=time_ns // 1000)
    return time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class EventEmitter:
    """Creates the events of one session and keeps them until they are taken."""

    def __init__(
        self, *, session_id: str, workspace_id: str, seed: int, epoch: datetime, ephemeral: frozenset[str]
    ) -> None:
        """`ephemeral` are the event types that are not stored."""
        self.session_id = session_id
        self._workspace_id = workspace_id
        self._seed = seed
        self._epoch = epoch.astimezone(UTC)
        self._ephemeral = ephemeral
        self._sequence = 0
        self._pending: list[LogEntry] = []

    @property
    def pending_since_ns(self) -> int | None:
        """The time of the first entry that was not taken."""
        return self._pending[0].time_ns if self._pending else None

    def take(self) -> list[LogEntry]:
        """Return the entries that were not taken yet, in order."""
        taken, self._pending = self._pending, []
        return taken

    def generate_id(self, prefix: str, *parts: str | int) -> str:
        """The id of something that belongs to this session."""
        return generate_id(prefix, self._seed, self.session_id, *parts)

    def format_time(self, time_ns: int) -> str:
        """A time as the service writes it."""
        return format_time(self._epoch, time_ns)

    def emit(
        self, type_: str, run_id: str, time_ns: int, content: Content = _EMPTY, data: Mapping[str, Any] = _EMPTY
    ) -> None:
        """Emit an event that is not a delta."""
        if type_ in self._ephemeral:
            document: dict[str, Any] = {"type": type_, "run_id": run_id, "delta": {}}
            document |= {"content": content, "data": data} if content or data else {}
            self._append(EntryKind.EPHEMERAL, time_ns, document)
            return
        self._sequence += 1
        document = {
            "id": self.generate_id("evt", self._sequence),
            "sequence": self._sequence,
            "type": type_,
            "workspace_id": self._workspace_id,
            "session_id": self.session_id,
            "run_id": run_id,
            "created_at": self.format_time(time_ns),
            "content": content,
            "data": data,
        }
        self._append(EntryKind.DURABLE, time_ns, document)

    def emit_delta(self, type_: str, run_id: str, time_ns: int, text: str) -> None:
        """Emit a fragment of text.  Raises ValueError for a type that is not a delta."""
        if type_ not in DELTA_TYPES:
            raise ValueError(f"{type_} is not a delta.")
        self._append(EntryKind.EPHEMERAL, time_ns, {"type": type_, "run_id": run_id, "delta": {"text": text}})

    def end_streams(self, ending: Ending, time_ns: int) -> None:
        """End the connected streams."""
        self._pending.append(LogEntry(EntryKind.ENDING, time_ns, ending=ending))

    def _append(self, kind: EntryKind, time_ns: int, document: Mapping[str, Any]) -> None:
        data = document.get("data")
        entry = LogEntry(
            kind=kind,
            time_ns=time_ns,
            data=event_frame(document["type"], orjson.dumps(document), document.get("id")),
            id=document.get("id"),
            type=document["type"],
            sequence=document.get("sequence"),
            run_id=document["run_id"],
            tool_call_id=data.get("tool_call_id") if data is not None else None,
        )
        self._pending.append(entry)
