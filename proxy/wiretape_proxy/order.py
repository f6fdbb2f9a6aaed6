"""What the recorder is told to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """What to record to."""

    output: str
    upstream: str
    """Where the traffic goes, for those who read the recording."""
    append: bool
