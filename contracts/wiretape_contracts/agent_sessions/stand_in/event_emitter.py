"""Create the events of a session, with their ids, sequences, times and bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import orjson

from wiretape.observations import Ending
from wiretape_contracts.agent_sessions import DELTA_TYPES
from wiretape_replay.channel.channel_log import EntryKind, LogEntry, event_frame

Content = Mapping[str, Any] | Sequence[Mapping[str, Any]]
_EMPTY: Mapping[str, Any] = {}


def generate_id(prefix: str, seed: int, *parts: str | int) -> str:
    """Return `prefix_` and 20 hexadecimal digits, which depend on the seed and the parts only."""
    text = "\0".join(map(str, (prefix, seed, *parts)))
    return f"{prefix}_{blake2b(text.encode(), digest_size=10).hexdigest()}"


def format_time(epoch: datetime, time_ns: int) -> str:
    """A time as the service writes it."""
    time = epoch.astimezone(UTC) + timedelta(microseconds=time_ns // 1000)
    return time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


@dataclass(slots=True)
class EventEmitter:
    """Creates the events of one session and keeps them until they are taken."""

    session_id: str
    workspace_id: str
    seed: int
    epoch: datetime
    ephemeral: frozenset[str]
    """The event types that are not stored."""
    pending: list[LogEntry] = field(default_factory=list)
    """The entries that were not taken yet, in order."""
    _sequence: int = 0

    def generate_id(self, prefix: str, *parts: str | int) -> str:
        """The id of something that belongs to this session."""
        return generate_id(prefix, self.seed, self.session_id, *parts)

    def emit(
        self,
        type_: str,
        run_id: str,
        time_ns: int,
        content: Content = _EMPTY,
        data: Mapping[str, Any] = _EMPTY,
        *,
        text: str | None = None,
    ) -> None:
        """Emit an event; `text` is that of a delta."""
        document: dict[str, Any]
        if type_ in self.ephemeral:
            kind = EntryKind.EPHEMERAL
            document = {"type": type_, "run_id": run_id, "delta": {} if text is None else {"text": text}}
            document |= {"content": content, "data": data} if content or data else {}
        else:
            kind = EntryKind.DURABLE
            self._sequence += 1
            document = {
                "id": self.generate_id("evt", self._sequence),
                "sequence": self._sequence,
                "type": type_,
                "workspace_id": self.workspace_id,
                "session_id": self.session_id,
                "run_id": run_id,
                "created_at": format_time(self.epoch, time_ns),
                "content": content,
                "data": data,
            }
        entry = LogEntry(
            kind=kind,
            time_ns=time_ns,
            data=event_frame(type_, orjson.dumps(document), document.get("id")),
            id=document.get("id"),
            type=type_,
            sequence=document.get("sequence"),
            keys={"run": run_id} | ({"tool_call": call} if (call := data.get("tool_call_id")) else {}),
            is_optional=type_ in DELTA_TYPES,
        )
        self.pending.append(entry)

    def end_streams(self, ending: Ending, time_ns: int) -> None:
        """End the connected streams."""
        self.pending.append(LogEntry(EntryKind.ENDING, time_ns, ending=ending))
