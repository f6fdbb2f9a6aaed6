"""Answers that are whole before they are sent: small ones, in the service's own words."""

from dataclasses import dataclass

import orjson

from wiretape.observations import Headers, reason_phrase
from wiretape_replay.front.head import Framing, Head
from wiretape_replay.front.line import Line


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, headers and a body of known length."""

    status: int
    body: bytes
    headers: Headers = ()
    """Besides those that say what the body is."""
    content_type: str = "application/json"

    @classmethod
    def of(cls, status: int, document: object, headers: Headers = ()) -> "Answer":
        """An answer that carries a JSON document, written the same way in every run."""
        return cls(status, orjson.dumps(document) + b"\n", headers)

    async def send(self, line: Line, *, with_body: bool = True) -> None:
        """Write the whole answer; without its body where the client asked with HEAD.  Raises ConnectionError."""
        await line.begin(self.head(Framing.LENGTH if with_body else Framing.EMPTY))
        if with_body:
            await line.send(self.body)
        await line.finish()

    def head(self, framing: Framing = Framing.LENGTH) -> Head:
        """The head of the answer."""
        about = (("Content-Type", self.content_type), ("Content-Length", str(len(self.body))))
        return Head(self.status, reason_phrase(self.status), (*about, *self.headers), framing)
