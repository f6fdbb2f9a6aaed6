"""What is wrong with the JSON of an event, told apart by the table of the specification that it offends."""

from dataclasses import dataclass
from typing import Any

from wiretape.contract.schemas import DURABLE_EVENT, EPHEMERAL_EVENT, EVENT_SCHEMAS, Violation


@dataclass(frozen=True, slots=True)
class Flaws:
    """Where an event is not what it should be."""

    general: tuple[Violation, ...] = ()
    """What no event of its kind, durable or ephemeral, may be."""
    special: tuple[Violation, ...] = ()
    """What no event of its type may be, though others may; nothing about fields that are flawed in general."""


NO_FLAWS = Flaws()


def flaws_of(document: dict[str, Any], name: str | None, *, is_delta: bool) -> Flaws:
    """The flaws of a durable event, or of a delta, of the type `name`."""
    special = EVENT_SCHEMAS.get(name or "")
    schema = EPHEMERAL_EVENT if is_delta else DURABLE_EVENT
    if (special or schema).is_valid(document):
        return NO_FLAWS
    general = schema.violations(document)
    if special is None:
        return Flaws(general)
    flawed = {violation.path[0] for violation in general}
    return Flaws(general, tuple(v for v in special.violations(document) if v.path[0] not in flawed))
