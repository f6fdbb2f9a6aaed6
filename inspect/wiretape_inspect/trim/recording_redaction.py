"""Redact observations; bodies keep their length, except for compressed ones."""

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
from wiretape_inspect.trim.body_redaction import BodyDecoder, BodyRedaction, find_secrets, overwrite
from wiretape_inspect.trim.redaction_targets import Literals, RedactionTargets, excerpt

Head = RequestStarted | ResponseStarted
_REDACTED = re.compile(rf"(?:[A-Za-z]+ )?(?:{REDACTED_PATTERN})")
"""A header value that is redacted already, with the scheme of a credential before it."""
_FRAMING_HEADERS = {"content-encoding", "content-length"}


@dataclass(slots=True)
class RecordingRedaction:
    """The replacements in a recording."""

    targets: RedactionTargets
    literals: Literals
    bodies: dict[tuple[int, Side], BodyRedaction] = field(default_factory=dict)
    header_count: int = 0
    """How many replacements there are in request lines, status lines and headers."""
    _header_names: set[str] = field(default_factory=set)
    """The names of all headers."""
    _redactor: Redactor = field(default_factory=lambda: Redactor(token_bytes(32)))

    @classmethod
    def of(cls, recording: Recording, exchanges: Iterable[Exchange], targets: RedactionTargets) -> "RecordingRedaction":
        """Find secrets in the exchanges.  Holds their bodies in memory, one at a time."""
        chosen = list(exchanges)
        redaction = cls(targets, targets.literals(_header_values(chosen, targets.headers)))
        for exchange in chosen:
            redaction.header_count += sum(redaction._redact_head(head)[1] for head in _heads(exchange))
            redaction._header_names.update(name.lower() for head in _heads(exchange) for name, _ in head.headers)
            for side in Side:
                redaction.bodies[exchange.number, side] = find_secrets(
                    recording, exchange, side, targets, redaction.literals
                )
        return redaction

    @property
    def count(self) -> int:
        """How many replacements there are."""
        return self.header_count + sum(len(body.replacements) for body in self.bodies.values())

    def summary(self) -> Iterator[str]:
        """What is redacted, one sentence each."""
        in_bodies = count_of(self.count - self.header_count, "replacement")
        yield f"{count_of(self.header_count, 'replacement')} in headers and {in_bodies} in bodies."
        for (number, side), body in self.bodies.items():
            if body.undecodable:
                yield (
                    f"The {side} body of exchange {number} cannot be decoded and searched: "
                    "it is removed from there on and counts as lost."
                )
            elif body.encoding is not None:
                yield f"The {side} body of exchange {number} was compressed: it is stored decoded, with another length."
        unreadable = sum(body.unreadable for body in self.bodies.values())
        if unreadable:
            yield f"{count_of(unreadable, 'JSON text')} could not be read: no JSON path matches there."

    def not_found(self) -> Iterator[str]:
        """The targets that were not found; of texts only the beginning.  Complete once `apply` is exhausted."""
        yield from (f"header:{name}" for name in sorted(self.targets.headers - self._header_names))
        matched = {path for body in self.bodies.values() for path in body.matched_paths}
        yield from (f"json:{printable(path.text)}" for path in self.targets.paths if path not in matched)
        yield from (f"text:{excerpt(text)}" for text in self.targets.texts if not self.literals.has_found(text))

    def apply(self, observations: Iterable[Observation]) -> Iterator[Observation]:
        """The observations without the secrets."""
        decoders: dict[tuple[int, Side], BodyDecoder] = {}
        for seen in observations:
            if isinstance(seen, RequestStarted | ResponseStarted):
                yield self._redact_head(seen)[0]
            elif isinstance(seen, BytesArrived | BytesLost):
                body = self.bodies[seen.exchange, seen.side]
                for part in _decode(seen, body, decoders):
                    yield overwrite(part, body) if isinstance(part, BytesArrived) else self._redact_lost(part)
            elif isinstance(seen, ExchangeEnded):
                yield replace(seen, detail=self.literals.mask_message(seen.detail)[0])
            else:
                yield seen

    def _redact_lost(self, lost: BytesLost) -> BytesLost:
        return replace(lost, why=self.literals.mask_message(lost.why)[0])

    def _redact_head(self, seen: Head) -> tuple[Head, int]:
        """A head without secrets, and how many replacements were made."""
        names = self.targets.headers
        pairs = [(name, *self._redact_value(name.lower() in names, value)) for name, value in seen.headers]
        headers = self._adjust_framing(seen, tuple((name, value) for name, value, _ in pairs))
        count = sum(each for _, _, each in pairs)
        if isinstance(seen, ResponseStarted):
            reason, here = self.literals.mask_header(seen.reason)
            return replace(seen, headers=headers, reason=reason), count + here
        texts = [self.literals.mask_header(text) for text in (seen.target, seen.authority, seen.client)]
        target, authority, client = (text for text, _ in texts)
        made = replace(seen, headers=headers, target=target, authority=authority, client=client)
        return made, count + sum(here for _, here in texts)

    def _redact_value(self, whole: bool, value: str) -> tuple[str, int]:
        if not whole:
            return self.literals.mask_header(value)
        if not value or _REDACTED.fullmatch(value):
            return value, 0
        return self._redactor.fingerprint(value), 1

    def _adjust_framing(self, seen: Head, headers: Headers) -> Headers:
        """Remove the headers that do not fit a body which is stored decoded."""
        side = Side.REQUEST if isinstance(seen, RequestStarted) else Side.RESPONSE
        body = self.bodies.get((seen.exchange, side))
        if body is None or body.encoding is None:
            return headers
        return tuple((name, value) for name, value in headers if name.lower() not in _FRAMING_HEADERS)


def _heads(exchange: Exchange) -> list[Head]:
    return [exchange.request] if exchange.response is None else [exchange.request, exchange.response]


def _header_values(exchanges: Iterable[Exchange], names: frozenset[str]) -> Iterator[str]:
    """The values of the headers with these names."""
    for exchange in exchanges:
        for head in _heads(exchange):
            for name, value in head.headers:
                if name.lower() in names and not _REDACTED.search(value):
                    yield value


def _decode(
    seen: BytesArrived | BytesLost, body: BodyRedaction, decoders: dict[tuple[int, Side], BodyDecoder]
) -> Iterable[BytesArrived | BytesLost]:
    if body.encoding is None:
        return [seen]
    key = (seen.exchange, seen.side)
    if key not in decoders:
        decoders[key] = BodyDecoder(body.encoding)
    return decoders[key].feed(seen)
