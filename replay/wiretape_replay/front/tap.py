"""Who listens to what passes between clients and the front.

The front tells a `Watcher` of each request and the `Tap` it gets back of everything that follows.  Neither may
block or raise: a tap stands in the way of every byte.
"""

from typing import Protocol

from wiretape.observations import Ending
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.head import Head

OWN_ANSWER = "an answer of the replay's own"
"""What is said to `Tap.injected` of an answer that no recording and no script had: nobody is to blame for it."""


class Tap(Protocol):
    """Listens to one exchange."""

    def received(self, data: bytes) -> None:
        """A piece of the request body arrived."""

    def whole(self) -> None:
        """The request arrived whole."""

    def began(self, head: Head) -> None:
        """The head of the answer was written."""

    def sent(self, data: bytes) -> None:
        """A piece of the answer's body was written; its HTTP framing is left out."""

    def injected(self, fault: str) -> None:
        """From here on the answer is not what the source would have given: `fault` says what was done to it."""

    def ended(self, ending: Ending) -> None:
        """The exchange is over."""


class Watcher(Protocol):
    """Listens to everything."""

    def asked(self, asked: Asked) -> Tap:
        """A request's head arrived (`asked.body` is empty still)."""
        ...


class Deaf:
    """Listens to nothing: the watcher and tap of those who want none."""

    def asked(self, asked: Asked) -> "Deaf":  # noqa: ARG002 - a Watcher
        """See Watcher."""
        return self

    def received(self, data: bytes) -> None:
        """See Tap."""

    def whole(self) -> None:
        """See Tap."""

    def began(self, head: Head) -> None:
        """See Tap."""

    def sent(self, data: bytes) -> None:
        """See Tap."""

    def injected(self, fault: str) -> None:
        """See Tap."""

    def ended(self, ending: Ending) -> None:
        """See Tap."""
