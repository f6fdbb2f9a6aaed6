"""One exchange, as a tape says it: its heads, and what was observed of it, in order of time."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from wiretape.contract import EVENT_STREAM
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording.formats.tape.heads import framing_said, headers_of, request_line_of, status_of
from wiretape.recording.formats.tape.items import STEP_NS, Chunks, Lost, read_item, read_items, seconds, text_of
from wiretape.recording.formats.tape.scanning import Document, Listed, Scanner
from wiretape.recording.formats.tape.values import Told, load, table_of
from wiretape.toml import Table
from wiretape.toml_places import Place

KEYS = (
    *("request", "target", "at", "number", "client", "scheme", "authority", "http", "headers", "body", "asked"),
    *("answer", "answered", "answer-http", "answer-headers", "answer-body", "events", "framing"),
    *("ending", "ended", "detail"),
)
CLIENT = "127.0.0.1"
HTTP = "HTTP/1.1"
STREAM_HEADERS: Headers = (("Content-Type", EVENT_STREAM),)
JSON_HEADERS: Headers = (("Content-Type", "application/json"),)
Items = Iterator[Chunks | Lost]


@dataclass(frozen=True, slots=True)
class Around:
    """What an exchange need not say."""

    scheme: str
    authority: str

    @classmethod
    def of(cls, upstream: str) -> "Around":
        """What an upstream says; one that is no URL is an authority."""
        try:
            parts = urlsplit(upstream)
        except ValueError:
            return cls("http", upstream)
        return cls(parts.scheme or "http", parts.netloc or upstream)


class Exchange:
    """An exchange of a tape.  Making it and reading it raises InputError where it is wrong."""

    def __init__(self, scanner: Scanner, document: Document, around: Around) -> None:
        self._scanner = scanner
        self._listed = {key: each for key, each in document.entries.items() if isinstance(each, Listed)}
        self.table = whole(scanner, document)
        self.table.only(KEYS, "key of an exchange")
        for key, each in self._listed.items():
            if key == "events" and "answer-body" in self.table:
                raise scanner.wrong(each.line, "events and answer-body do not go together: both are the answer's body")
        self._around = around
        self._framing = framing_said(self.table)
        self.at_ns = None if "at" not in self.table else seconds(self.table, "at", 0)
        self.number = self.table.integer("number", least=1) if "number" in self.table else None

    def wrong(self, key: str, what: str) -> Exception:
        """An error about a key."""
        return self.table.wrong(key, what)

    def observations(self, number: int, at_ns: int) -> Iterator[Observation]:
        """What was observed, in order of time, when it is exchange `number` and begins at `at_ns`."""
        yield self._request(number, at_ns)
        last_ns = at_ns
        for seen in self._both(number, at_ns):
            last_ns = max(last_ns, last_of(seen))
            yield seen
        ending = Ending(self.table.one_of("ending", list(Ending), Ending.COMPLETE))
        if ending is not Ending.OPEN or "ended" in self.table:
            after_ns = seconds(self.table, "ended", STEP_NS)
            yield ExchangeEnded(number, last_ns + after_ns, ending, text_of(self.table, "detail", ""))

    def _both(self, number: int, at_ns: int) -> Iterator[Observation]:
        """What was asked and what was answered: one after the other, or as the times say that are given."""
        asking = self._asking(number, at_ns)
        if "asked" in self.table or "answered" in self.table:
            asked_ns = seconds(self.table, "asked", 0) if self.table.values.get("asked") is not None else 0
            yield from _merged(asking, self._answering(number, at_ns, asked_ns + STEP_NS))
            return
        last_ns = at_ns
        for seen in asking:
            last_ns = last_of(seen)
            yield seen
        yield from self._answering(number, at_ns, last_ns - at_ns + STEP_NS)

    def _request(self, number: int, at_ns: int) -> RequestStarted:
        table = self.table
        method, target = request_line_of(table)
        return RequestStarted(
            number,
            at_ns,
            text_of(table, "client", CLIENT),
            method,
            text_of(table, "scheme", self._around.scheme),
            text_of(table, "authority", self._around.authority),
            target,
            text_of(table, "http", HTTP),
            headers_of(table, "headers", ()),
        )

    def _asking(self, number: int, at_ns: int) -> Iterator[Observation]:
        """The request's body, and that it was whole, which may be said to have come before some of it."""
        body = self._body("body", number, Side.REQUEST, at_ns)
        if "asked" not in self.table:
            last_ns = at_ns
            for seen in body:
                last_ns = last_of(seen)
                yield seen
            yield RequestEnded(number, last_ns + STEP_NS)
        elif self.table.values["asked"] is None:
            yield from body
        else:
            whole_ns = at_ns + seconds(self.table, "asked", 0)
            yield from _merged(iter([RequestEnded(number, whole_ns)]), body)

    def _answering(self, number: int, at_ns: int, usual_ns: int) -> Iterator[Observation]:
        """The answer, which begins `usual_ns` after the request did where nothing else is said."""
        table = self.table
        if "answer" in table and table.values["answer"] is None:
            for key in ("answered", "answer-http", "answer-headers", "answer-body", "events"):
                if key in table or key in self._listed:
                    raise table.wrong(key if key in table else "answer", f"there is no answer, so no {key}")
            return
        status, reason = status_of(table)
        answered_ns = at_ns + seconds(table, "answered", usual_ns)
        key = "events" if self._has("events") else "answer-body"
        headers = headers_of(table, "answer-headers", self._default_headers(key))
        yield ResponseStarted(number, answered_ns, status, reason, text_of(table, "answer-http", HTTP), headers)
        yield from self._body(key, number, Side.RESPONSE, answered_ns)

    def _has(self, key: str) -> bool:
        return key in self.table or key in self._listed

    def _default_headers(self, key: str) -> Headers:
        if key == "events" and self._has(key):
            return STREAM_HEADERS
        return JSON_HEADERS if isinstance(self.table.values.get(key), dict) else ()

    def _body(self, key: str, number: int, side: Side, now_ns: int) -> Iterator[BytesArrived | BytesLost]:
        start = 0
        for item in self._items(key):
            if isinstance(item, Lost):
                now_ns += item.after_ns
                yield BytesLost(number, now_ns, side, start, item.count, item.why)
                start += item.count
                continue
            for after_ns, data in item.parts:
                now_ns += after_ns
                end = start + len(data)
                yield BytesArrived(number, side, start, data, (end,), (now_ns,))
                start = end

    def _items(self, key: str) -> Items:
        listed = self._listed.get(key)
        if listed is not None:
            return read_items(self._scanner.path, self._scanner.items(listed), key, self._framing)
        if key not in self.table:
            return iter(())
        value = self.table.values[key]
        if isinstance(value, list):
            return (read_item(each, self._framing) for each in self.table.tables(key))
        if key != "events" and isinstance(value, str):
            return iter([Chunks(((STEP_NS, value.encode()),))])
        if key != "events" and isinstance(value, dict):
            return iter([Chunks(((STEP_NS, self._framing.document(value)),))])
        raise self.table.wrong(key, 'it has to be a list of such things as - data: {"type": "run.started"}')


def whole(scanner: Scanner, document: Document) -> Table:
    """The entries of a document but for the lists that are read later.  Raises InputError."""
    values: dict[str, Any] = {}
    lines: dict[Place, int] = {}
    for key, entry in document.entries.items():
        if isinstance(entry, Listed):
            lines[(key,)] = entry.line
            continue
        value, told = load(scanner.path, entry)
        values[key] = table_of(told, value, ()).values[key]
        lines |= told.lines
        lines.pop((), None)
    return Table(Told(scanner.path, document.line, lines), values)


def last_of(seen: Observation) -> int:
    """When it was over."""
    return seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns


def _merged(first: Iterator[Observation], second: Iterator[Observation]) -> Iterator[Observation]:
    """Two sequences in order of time as one."""
    yield from heapq.merge(first, second, key=lambda seen: seen.time_ns)
