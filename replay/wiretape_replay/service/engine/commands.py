"""Commands for the engine of a session, and refusals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wiretape_replay.responses.error_envelope import ActiveRun, ErrorDetail


class CommandKind(StrEnum):
    """What a command does."""

    CREATE = "create"
    CANCEL = "cancel"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Command:
    """A request to the engine, refused or not: all commands in order are enough to rebuild its state."""

    kind: CommandKind
    time_ns: int
    run_id: str | None = None
    """None for the creation of a run."""
    body: Mapping[str, Any] | None = None
    """None for a cancellation."""


class Refusal(Exception):  # noqa: N818 - a normal response, not an error of the program
    """A command is refused with one of the 16 codes; the fields are those of the error envelope.

    Refused commands count too: they have to be stored like all others.
    """

    def __init__(
        self, code: str, message: str, *, active: ActiveRun | None = None, reasons: Sequence[ErrorDetail] = ()
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.active = active
        self.reasons = reasons
