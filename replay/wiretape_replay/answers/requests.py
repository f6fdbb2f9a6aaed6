"""Which requests a setting is about: an operation of the specification, or a method and a path."""

import re
from dataclasses import dataclass

from wiretape.contract import OPERATIONS

_WRITTEN = re.compile(r"([A-Z]+) (/\S*)")
_ANY = re.compile(r"\*|\{[^{}/]*\}")


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one method, whose path ends in these segments; `None` is any one segment."""

    name: str
    """As it was written."""
    method: str
    segments: tuple[str | None, ...]

    @classmethod
    def of(cls, name: str) -> "Requests":
        """Those that an operation's name (`stream`) or `METHOD /path/{any}/*` tells.  Raises ValueError."""
        operation = OPERATIONS.get(name)
        written = f"{operation.method} {operation.path}" if operation else name
        match = _WRITTEN.fullmatch(written)
        if match is None or "?" in match[2]:
            raise ValueError(f"it is none of {', '.join(OPERATIONS)}, and no METHOD /path such as POST /v1/sessions")
        segments = match[2].removeprefix("/").split("/")
        return cls(name, match[1], tuple(None if _ANY.fullmatch(segment) else segment for segment in segments))

    def holds(self, method: str, target: str) -> bool:
        """Whether a request is one of these.  The path may have any prefix, as a service's base URL may."""
        segments = target.partition("?")[0].partition("#")[0].split("/")[1:][-len(self.segments) :]
        if method != self.method or len(segments) != len(self.segments):
            return False
        pairs = zip(self.segments, segments, strict=True)
        return all(segment if wanted is None else segment == wanted for wanted, segment in pairs)
