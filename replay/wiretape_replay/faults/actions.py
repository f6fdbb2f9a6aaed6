"""What is to be done on a line.  Pure data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape.contract import Limit
from wiretape_replay.answers.reasons import ActiveRun, Reason


@dataclass(frozen=True, slots=True)
class Mark:
    """Note that a fault begins here."""

    fault: str
    """Its name."""
    text: str
    """One line for the log."""


@dataclass(frozen=True, slots=True)
class Write:
    """Send bytes, at once and in one piece."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing for so many nanoseconds of real time; None: until the client leaves."""

    time_ns: int | None


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection (FIN)."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer with an error of the service instead."""

    code: str
    message: str | None = None
    active: ActiveRun | None = None
    limit: Limit | None = None
    retry_after: int | None = None
    reasons: tuple[Reason, ...] = ()


Action = Mark | Write | Wait | Drop | Reset | Reply


def ends(action: Action) -> bool:
    """Whether nothing can follow an action."""
    return isinstance(action, Drop | Reset | Reply) or action == Wait(None)


def until_over(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions up to and with the first after which nothing can follow."""
    for action in actions:
        yield action
        if ends(action):
            return
