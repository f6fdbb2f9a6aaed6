"""What was forgotten, taken out of what was observed; every body keeps its length, but for compressed ones."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from secrets import token_bytes

from wiretape.labels import count_of
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Headers,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import REDACTED_PATTERN, Exchange, Recording, Redactor
from wiretape.safe_text import printable
from wiretape_inspect.trimming.bodies import Decoding, Found, found, overwritten
from wiretape_inspect.trimming.secrets import Literals, Secrets, begun

Head = RequestStarted | ResponseStarted
_DONE = re.compile(rf"(?:[A-Za-z]+ )?(?:{REDACTED_PATTERN})")
"""A header's value that was replaced, with the scheme of a credential before it."""
_FRAMING = {"content-encoding", "content-length"}


@dataclass(slots=True)
class Redaction:
    """What is done to a recording."""

    secrets: Secrets
    literals: Literals
    bodies: dict[tuple[int, Side], Found] = field(default_factory=dict)
    heads: int = 0
    """In how many places of heads something is replaced."""
    _named: set[str] = field(default_factory=set)
    """The headers that there are."""
    _redactor: Redactor = field(default_factory=lambda: Redactor(token_bytes(32)))

    @classmethod
    def of(cls, recording: Recording, exchanges: Iterable[Exchange], secrets: Secrets) -> "Redaction":
        """Look for secrets in the exchanges; their bodies are held in memory one by one."""
        chosen = list(exchanges)
        made = cls(secrets, secrets.literals(_values(chosen, secrets.headers)))
        for exchange in chosen:
            made.heads += sum(made._head(head)[1] for head in _heads(exchange))
            made._named.update(name.lower() for head in _heads(exchange) for name, _ in head.headers)
            for side in Side:
                made.bodies[exchange.number, side] = found(recording, exchange, side, secrets, made.literals)
        return made

    @property
    def count(self) -> int:
        """In how many places something is replaced."""
        return self.heads + sum(len(body.spans) for body in self.bodies.values())

    def told(self) -> Iterator[str]:
        """What was done, a sentence each."""
        spans = self.count - self.heads
        yield f"{count_of(self.heads, 'place')} redacted in heads and {count_of(spans, 'place')} in bodies."
        for (number, side), body in self.bodies.items():
            if body.undecodable:
                yield (
                    f"The {side} body of exchange {number} cannot be decoded, and so not looked into: from there on it "
                    "is left out, and counts as lost."
                )
            elif body.encoding is not None:
                yield f"The {side} body of exchange {number} was compressed: it is kept decoded, and other in length."
        unread = sum(body.unread for body in self.bodies.values())
        if unread:
            yield f"{count_of(unread, 'JSON text')} could not be read: no path leads into it."

    def missed(self) -> Iterator[str]:
        """What was looked for and not found, as it is given, once `applied` has been taken; of texts the beginning."""
        yield from (f"header:{name}" for name in sorted(self.secrets.headers - self._named))
        meant = {path for body in self.bodies.values() for path in body.meant}
        yield from (f"json:{printable(path.text)}" for path in self.secrets.paths if path not in meant)
        yield from (f"text:{begun(text)}" for text in self.secrets.texts if not self.literals.has(text))

    def applied(self, observations: Iterable[Observation]) -> Iterator[Observation]:
        """The observations without the secrets.  Streams."""
        decoding: dict[tuple[int, Side], Decoding] = {}
        for seen in observations:
            if isinstance(seen, RequestStarted | ResponseStarted):
                yield self._head(seen)[0]
            elif isinstance(seen, BytesArrived | BytesLost):
                body = self.bodies[seen.exchange, seen.side]
                for part in _decoded(seen, body, decoding):
                    yield overwritten(part, body) if isinstance(part, BytesArrived) else self._lost(part)
            elif isinstance(seen, ExchangeEnded):
                yield replace(seen, detail=self.literals.words(seen.detail)[0])
            else:
                yield seen

    def _lost(self, lost: BytesLost) -> BytesLost:
        return replace(lost, why=self.literals.words(lost.why)[0])

    def _head(self, seen: Head) -> tuple[Head, int]:
        """A head without secrets, and in how many places something was replaced."""
        named = self.secrets.headers
        pairs = [(name, *self._value(name.lower() in named, value)) for name, value in seen.headers]
        headers = self._framed(seen, tuple((name, value) for name, value, _ in pairs))
        count = sum(each for _, _, each in pairs)
        if isinstance(seen, ResponseStarted):
            reason, here = self.literals.head(seen.reason)
            return replace(seen, headers=headers, reason=reason), count + here
        texts = [self.literals.head(text) for text in (seen.target, seen.authority, seen.client)]
        target, authority, client = (text for text, _ in texts)
        made = replace(seen, headers=headers, target=target, authority=authority, client=client)
        return made, count + sum(here for _, here in texts)

    def _value(self, whole: bool, value: str) -> tuple[str, int]:
        if not whole:
            return self.literals.head(value)
        if not value or _DONE.fullmatch(value):
            return value, 0
        return self._redactor.fingerprint(value), 1

    def _framed(self, seen: Head, headers: Headers) -> Headers:
        """Headers that fit a body which is kept decoded."""
        side = Side.REQUEST if isinstance(seen, RequestStarted) else Side.RESPONSE
        body = self.bodies.get((seen.exchange, side))
        if body is None or body.encoding is None:
            return headers
        return tuple((name, value) for name, value in headers if name.lower() not in _FRAMING)


def _heads(exchange: Exchange) -> list[Head]:
    return [exchange.request] if exchange.response is None else [exchange.request, exchange.response]


def _values(exchanges: Iterable[Exchange], names: frozenset[str]) -> Iterator[str]:
    """The values of headers of these names."""
    for exchange in exchanges:
        for head in _heads(exchange):
            for name, value in head.headers:
                if name.lower() in names and not _DONE.search(value):
                    yield value


def _decoded(
    seen: BytesArrived | BytesLost, body: Found, decoding: dict[tuple[int, Side], Decoding]
) -> Iterable[BytesArrived | BytesLost]:
    if body.encoding is None:
        return [seen]
    place = (seen.exchange, seen.side)
    if place not in decoding:
        decoding[place] = Decoding(body.encoding)
    return decoding[place].feed(seen)
