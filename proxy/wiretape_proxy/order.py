"""What the recorder is told to do."""

from dataclasses import asdict, dataclass

import orjson

NO_CONFIG = "none"


@dataclass(frozen=True, slots=True)
class Order:
    """What to record to, and what to check by."""

    output: str
    upstream: str
    """Where the traffic goes, for those who read the recording."""
    append: bool
    config: str = ""
    """The configuration of the rules: a file, `none`, or empty for the nearest one."""
    progress: bool = False
    """Whether to say now and then how things stand."""

    def dump(self) -> bytes:
        """As one line."""
        return orjson.dumps(asdict(self)) + b"\n"

    @classmethod
    def load(cls, line: bytes) -> "Order":
        """From a line."""
        return cls(**orjson.loads(line))
