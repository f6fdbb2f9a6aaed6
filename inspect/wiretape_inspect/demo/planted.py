"""What is planted in the service of the demo: its scenario, its faults, and the rules that find them."""

from dataclasses import dataclass
from pathlib import Path

SCENARIO = Path(__file__).with_name("library.toml")
FAULTS = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault of the script."""

    fault: str
    """Its name there."""
    codes: tuple[str, ...]
    """The rules that it breaks."""
    what: str
    harm: str
    """What it does to clients."""


PLANTED = (
    Planted(
        "delta-with-id",
        ("DUR004",),
        "One message.delta has an id, as if it were stored.",
        "A client that saves it as its cursor asks for an event that there is not.",
    ),
    Planted(
        "cut-off",
        ("SSE002",),
        "The connection closes in the middle of message.completed.",
        "The client has that event only when it has come back for it.",
    ),
    Planted(
        "sent-twice",
        ("SEQ001", "SEQ003"),
        "The first event after the resume comes twice.",
        "A client that counts or shows what comes does it twice.",
    ),
)
CODES = {code for planted in PLANTED for code in planted.codes}
