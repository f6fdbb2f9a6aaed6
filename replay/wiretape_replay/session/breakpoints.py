"""Where a playhead stops.  Pure: no I/O, no clock."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from wiretape_replay.session.session_log import LogEntry


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Stops before every entry that fits all that is said here; what is None fits anything."""

    type: str | None = None
    """An event type, with `*` for any characters: `tool.*`."""
    sequence: int | None = None
    tool_call_id: str | None = None
    finding: str | None = None
    """The code of a finding about the event, or its beginning; empty: any finding."""

    def fits(self, entry: LogEntry) -> bool:
        """Whether the playhead stops before `entry`."""
        return (
            (self.type is None or (entry.type is not None and fnmatchcase(entry.type, self.type)))
            and (self.sequence is None or entry.sequence == self.sequence)
            and (self.tool_call_id is None or entry.tool_call_id == self.tool_call_id)
            and (self.finding is None or any(code.startswith(self.finding) for code in entry.findings))
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said, so that it would stop everywhere."""
        return self == Breakpoint()
