"""What an event says of runs and tool calls, wherever it stands in its JSON."""

from wiretape.contract import EVENT_TYPES, STORED_TYPES, STREAM_RESYNC, TOOL_TYPES
from wiretape.rules.message import Message

TOOL_STARTED, CUSTOM_TOOL_USE, *_OUTCOMES = TOOL_TYPES
START_TYPES = frozenset({TOOL_STARTED, CUSTOM_TOOL_USE})
OUTCOME_TYPES = frozenset(_OUTCOMES)
_OF_NO_RUN = {"session", "stream", "sandbox"}
OF_A_RUN = frozenset(name for name in EVENT_TYPES if name.partition(".")[0] not in _OF_NO_RUN)
"""The types of events that belong to a run; that others name one says nothing of how it goes on."""
OUTPUT_TYPES = frozenset(EVENT_TYPES) - STORED_TYPES - {STREAM_RESYNC}
"""The types of which an ephemeral event is live output of the session."""


def run_of(message: Message) -> str | None:
    """The run that an event belongs to, when it says so."""
    run_id = message.document.get("run_id")
    return run_id if type(run_id) is str else None


def call_ids(message: Message) -> list[str]:
    """The ids of the tool call that an event belongs to: one, or two when it contradicts itself."""
    first, second = _said(message, "tool_call_id")
    if first is None or first == second:
        return [] if second is None else [second]
    return [first] if second is None else [first, second]


def tool_name(message: Message) -> str | None:
    """The name of the tool, when the event says one and does not contradict itself."""
    first, second = _said(message, "name")
    if first is None or second is None or first == second:
        return second if first is None else first
    return None


def _said(message: Message, name: str) -> tuple[str | None, str | None]:
    """What `content` and `data` say, where it is a string."""
    content, data = message.document.get("content"), message.document.get("data")
    first = content.get(name) if type(content) is dict else None
    second = data.get(name) if type(data) is dict else None
    return first if type(first) is str else None, second if type(second) is str else None
