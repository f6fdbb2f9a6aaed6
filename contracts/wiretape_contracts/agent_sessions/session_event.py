"""Events of the service: where their JSON has the facts, and what they mean."""

from datetime import UTC, datetime, timedelta

from wiretape.event import Event, Shape, decode_id
from wiretape.event_format import EventType
from wiretape.json_codec import sequence_in
from wiretape.patterns import Pointer
from wiretape_contracts.agent_sessions.contract_document import DELTA_TYPES

_NO_OFFSET = timedelta(0)
_TEXT = Pointer("/delta/text")
_DELTA_TYPES = {name: EventType(name, is_delta=True, is_durable=False, text=_TEXT) for name in DELTA_TYPES}
_OTHER_TYPE = EventType("", is_delta=False, is_durable=None)
# Python 3.11 takes 50 ns to look up a member of an enumeration.
_NO_DATA, _NO_OBJECT, _EPHEMERAL, _DELTA, _DURABLE = Shape


class SessionEvent(Event):
    """An event of a session."""

    __slots__ = ("created_at", "run_id")

    def _read_facts(self) -> None:
        document, identity = self.document, self.id_line
        is_object = type(self.value) is dict
        sequence, run_id, type_ = document.get("sequence"), document.get("run_id"), document.get("type")
        if type(sequence) is float:
            sequence = sequence_in(document, self.data)
        self.sequence = sequence if type(sequence) is int else None
        self.run_id: str | None = run_id if type(run_id) is str else None
        """The JSON `run_id`, if it is a string."""
        type_ = type_ if type(type_) is str else self.name
        self.type = type_
        self.cursor = decode_id(identity) if identity else None
        self.created_at: datetime | None = None
        """The JSON `created_at`, if it is an ISO 8601 timestamp in UTC; always None for a delta."""
        self.is_delta = type_ in DELTA_TYPES and is_object
        if self.is_delta:
            self.event_type = _DELTA_TYPES[type_]
            self.is_durable, self.shape = False, _DELTA
            return
        self.event_type = _OTHER_TYPE
        self.is_durable = bool(identity) or self.has_sequence
        if is_object:
            self.shape = _DURABLE if self.is_durable else _EPHEMERAL
            self.created_at = _parse_utc(document.get("created_at"))
        else:
            self.shape = _NO_OBJECT if self.has_data else _NO_DATA

    @property
    def has_sequence(self) -> bool:
        """Whether its JSON has a `sequence` of any type other than null."""
        return self.document.get("sequence") is not None

    @property
    def keys(self) -> dict[str, str]:
        """See Event."""
        # The index reads this of every event.
        run, call = self.run_id, self.tool_call_id
        if not call:
            return {"run": run} if run else {}
        return {"run": run, "tool_call": call} if run else {"tool_call": call}

    @property
    def tool_call_ids(self) -> list[str]:
        """The tool call ids in `content` and `data`: none, one, or two that differ."""
        first, second = self._content_and_data("tool_call_id")
        found = [first] if second is None or first == second else [first, second]
        return [call_id for call_id in found if call_id is not None]

    @property
    def tool_call_id(self) -> str | None:
        """The first of the `tool_call_ids`; None without any."""
        first, second = self._content_and_data("tool_call_id")
        return second if first is None else first

    @property
    def tool_name(self) -> str | None:
        """The tool name in `content` and `data`; None if there is none, or if they differ."""
        first, second = self._content_and_data("name")
        if first is None or second is None or first == second:
            return second if first is None else first
        return None

    def _content_and_data(self, name: str) -> tuple[str | None, str | None]:
        """The values of a field of `content` and `data`, if they are strings."""
        content, data = self.document.get("content"), self.document.get("data")
        first = content.get(name) if type(content) is dict else None
        second = data.get(name) if type(data) is dict else None
        return first if type(first) is str else None, second if type(second) is str else None


def _parse_utc(value: object) -> datetime | None:
    """Return the time of an ISO 8601 timestamp in UTC; None for any other value."""
    if type(value) is not str:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo is UTC or time.utcoffset() == _NO_OFFSET else None
