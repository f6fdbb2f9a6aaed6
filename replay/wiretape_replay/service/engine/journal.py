"""What a session has said: its events, in order, with ids, sequences and times."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from wiretape.contract import DELTA_TYPES
from wiretape.observations import Ending
from wiretape_replay.service.engine.ids import made_id
from wiretape_replay.service.engine.model import Emitted
from wiretape_replay.session.session_log import EntryKind

Content = Mapping[str, Any] | Sequence[Mapping[str, Any]]
_NOTHING: Mapping[str, Any] = {}


class Journal:
    """Makes the events of one session and keeps those that nobody has taken yet."""

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
        self._untaken: list[Emitted] = []

    @property
    def waiting_since_ns(self) -> int | None:
        """The time of the first event that nobody has taken."""
        return self._untaken[0].time_ns if self._untaken else None

    def take(self) -> list[Emitted]:
        """What nobody has taken yet, in order."""
        taken, self._untaken = self._untaken, []
        return taken

    def made_id(self, kind: str, *of: str | int) -> str:
        """An id of something of this session."""
        return made_id(kind, self._seed, self.session_id, *of)

    def instant(self, time_ns: int) -> str:
        """A time as the service writes it."""
        then = self._epoch + timedelta(microseconds=time_ns // 1000)
        return then.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"

    def event(
        self, kind: str, run_id: str, time_ns: int, content: Content = _NOTHING, data: Mapping[str, Any] = _NOTHING
    ) -> None:
        """Something happened to a run that is no delta."""
        if kind in self._ephemeral:
            document: dict[str, Any] = {"type": kind, "run_id": run_id, "delta": {}}
            document |= {"content": content, "data": data} if content or data else {}
            self._untaken.append(Emitted(EntryKind.EPHEMERAL, time_ns, document))
            return
        self._sequence += 1
        document = {
            "id": self.made_id("evt", self._sequence),
            "sequence": self._sequence,
            "type": kind,
            "workspace_id": self._workspace_id,
            "session_id": self.session_id,
            "run_id": run_id,
            "created_at": self.instant(time_ns),
            "content": content,
            "data": data,
        }
        self._untaken.append(Emitted(EntryKind.DURABLE, time_ns, document))

    def delta(self, kind: str, run_id: str, time_ns: int, text: str) -> None:
        """A fragment came.  Raises ValueError for a type that is none of the deltas."""
        if kind not in DELTA_TYPES:
            raise ValueError(f"{kind} is no delta.")
        document = {"type": kind, "run_id": run_id, "delta": {"text": text}}
        self._untaken.append(Emitted(EntryKind.EPHEMERAL, time_ns, document))

    def end_streams(self, ending: Ending, time_ns: int) -> None:
        """The streams that are connected end."""
        self._untaken.append(Emitted(EntryKind.ENDING, time_ns, ending=ending))
