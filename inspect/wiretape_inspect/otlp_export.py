"""OpenTelemetry: exchanges as spans, with the durable events of streams and the findings as span events.

Names follow the semantic conventions for HTTP and generative AI where they apply; all others begin with `wiretape.`.
Needs the extra `otlp`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as Urllib3Timeout

from wiretape import __version__
from wiretape.errors import InputError
from wiretape.event import Event as RecordedEvent
from wiretape.labels import ended_well
from wiretape.observations import Ending, header
from wiretape.recording import Exchange, Recording, known_rules, open_recording, redact_urls
from wiretape.rules import Finding, Rule, Severity
from wiretape.safe_text import shorten
from wiretape.time_limit import call_within

EVENT_LIMIT = 1000
"""Events of a stream that its span contains; `wiretape.events` counts them all."""
_BATCH = 50
_LONGEST = 4096
"""Characters of an attribute."""
_POLL_S = 1.0
_TIMEOUT_S = 5.0
_LONGEST_RESPONSE = 64 * 1024
_MOST_RUNNING = 3
"""Requests whose response has not ended."""
_Attributes = dict[str, str | int | bool]


def otlp_parts(recording: Recording, exchanges: Iterable[Exchange] | None) -> Iterator[bytes]:
    """Return the body of an OTLP request (`ExportTraceServiceRequest` in protobuf), a part at a time."""
    spans = (span_of(recording, each) for each in (recording.exchanges() if exchanges is None else exchanges))
    # Protobuf messages of the same type are merged by joining their bytes.
    while batch := list(islice(spans, _BATCH)):
        yield encode_spans(batch).SerializeToString()


class Exporter:
    """Sends the spans of a recording to an OTLP endpoint, once each."""

    def __init__(self, url: str) -> None:
        """`url` is the base URL of an OTLP/HTTP receiver, such as `http://127.0.0.1:4318`.  Raises InputError."""
        self.url = shorten(redact_urls(url))
        """The URL without credentials, for messages."""
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise InputError(f"Invalid endpoint {self.url!r}: expected a URL, for example http://127.0.0.1:4318.")
        self._session = _BoundedSession()
        endpoint = f"{url.rstrip('/')}/v1/traces"
        self._exporter = OTLPSpanExporter(endpoint, timeout=_TIMEOUT_S, session=self._session)
        # It logs each attempt; the error below says it once.
        logging.getLogger("opentelemetry").disabled = True
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)

    def send(self, recording: Recording, exchanges: Iterable[Exchange]) -> int:
        """Send a span for each exchange, and return their number.  Raises InputError if they do not arrive."""
        spans, sent = (span_of(recording, each) for each in exchanges), 0
        while batch := list(islice(spans, _BATCH)):
            if self._exporter.export(batch) is not SpanExportResult.SUCCESS:
                reason = self._session.problem or "check that it is running"
                raise InputError(f"The OTLP endpoint {self.url} does not accept spans: {reason}.")
            sent += len(batch)
        return sent

    def follow(self, path: Path, is_stopped: Callable[[float], bool], report: Callable[[str], None]) -> None:
        """Send exchanges of a growing recording once they have ended, until it is closed or `is_stopped`.

        `is_stopped` waits for so many seconds.  Spans that do not arrive are left out, and reported at the first one
        and in the end.
        """
        pending: set[int] = set()
        last = lost = 0
        while True:
            stop = is_stopped(_POLL_S)
            # Opened anew each time: an open reader would keep the writer from closing the file cleanly.
            with open_recording(path) as recording:
                is_closed = recording.info.ended_ns is not None
                found = [*(recording.exchange(number) for number in sorted(pending)), *recording.exchanges(after=last)]
                last = max([last, *(each.number for each in found)])
                pending = {each.number for each in found if each.ending is Ending.OPEN}
                ended = [each for each in found if each.ending is not Ending.OPEN or stop or is_closed]
                try:
                    self.send(recording, ended)
                except InputError as error:
                    if not lost:
                        report(f"{error} Recording continues.")
                    lost += len(ended)
            if stop or is_closed:
                break
        if lost:
            report(f"Exchanges that were not exported: {lost}; send them with wiretape export --format otlp.")


class _BoundedSession(requests.Session):
    """Sends requests, each for a limited time, and reads responses of limited size from the endpoint itself."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = True
        self.problem = ""
        """Why the last request failed, if it is not that the endpoint cannot be reached."""
        self._running = 0

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request, and read the response.  Raises requests.RequestException."""
        self.problem = ""
        late = f"its response takes longer than {_TIMEOUT_S:.0f} s"
        if self._running == _MOST_RUNNING:
            self._refuse(late)
        self._running += 1
        options["allow_redirects"] = False
        try:
            # The timeout of requests is that between two bytes.
            response, size = call_within(_TIMEOUT_S, partial(self._send, request, options))
        except (TimeoutError, requests.Timeout):
            self._refuse(late)
        if size > _LONGEST_RESPONSE:
            self._refuse(f"its response is larger than {_LONGEST_RESPONSE >> 10} KiB")
        if response.status_code // 100 != 2:
            self.problem = f"it responds with status {response.status_code}"
        if response.status_code // 100 == 3:
            # The exporter would take it for success.
            self._refuse(self.problem)
        return response

    def _send(self, request: requests.PreparedRequest, options: dict[str, Any]) -> tuple[requests.Response, int]:
        try:
            response = super().send(request, **options)
            # Only the status matters.  If this is the whole response, the connection is used again.
            size = len(response.raw.read(_LONGEST_RESPONSE + 1))
            response.close()
        except Urllib3Timeout as error:
            raise requests.Timeout(error) from None
        except HTTPError as error:
            raise requests.RequestException(error) from None
        finally:
            self._running -= 1
        return response, size

    def _refuse(self, problem: str) -> NoReturn:
        self.problem = problem
        raise requests.RequestException(problem)


def span_of(recording: Recording, exchange: Exchange) -> ReadableSpan:
    """Return the span of an exchange.  The same recording always gives the same ids."""
    findings = list(recording.findings(exchange.number))
    events, attributes = _stream_events(recording, exchange) if exchange.is_stream else ([], {})
    started = recording.info.started_unix_ns
    rules = known_rules(recording.info.contracts)
    events += [_finding_event(finding, started, rules) for finding in findings]
    parent = _parent(exchange)
    return ReadableSpan(
        name=_name(exchange),
        context=SpanContext(
            parent.trace_id if parent else _id(16, started, exchange.channel or exchange.number),
            _id(8, started, recording.info.upstream, exchange.number),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        ),
        parent=parent,
        kind=SpanKind.CLIENT,
        resource=Resource({"service.name": "wiretape", "wiretape.recording": recording.path.name}),
        instrumentation_scope=InstrumentationScope("wiretape", __version__),
        attributes=_exchange_attributes(exchange) | attributes,
        events=sorted(events, key=lambda event: event.timestamp),
        status=_status(exchange, findings),
        start_time=started + exchange.request.time_ns,
        end_time=started + (exchange.ended_ns or exchange.began_ns),
    )


def _id(size: int, *parts: object) -> int:
    return int.from_bytes(sha256(repr(parts).encode()).digest()[:size]) or 1


def _parent(exchange: Exchange) -> SpanContext | None:
    """Return the span of the client that sent the request, if it said so (W3C Trace Context)."""
    carrier = {"traceparent": header(exchange.request.headers, "traceparent") or ""}
    context = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
    return context if context.is_valid else None


def _name(exchange: Exchange) -> str:
    return f"{exchange.request.method} {_route(exchange) or ''}".rstrip()


def _route(exchange: Exchange) -> str | None:
    """Return the path of the operation, with names in place of ids."""
    return None if exchange.facts is None else exchange.facts.operation.pattern.route


def _exchange_attributes(exchange: Exchange) -> _Attributes:
    request, response = exchange.request, exchange.response
    path, _, query = request.target.partition("?")
    return _clean(
        {
            "http.request.method": request.method,
            "http.request.body.size": exchange.request_bytes,
            "url.full": f"{request.scheme}://{request.authority}{request.target}",
            "url.scheme": request.scheme,
            "url.path": path,
            "url.query": query or None,
            "url.template": _route(exchange),
            "server.address": _host(request.authority),
            "user_agent.original": header(request.headers, "user-agent"),
            "network.protocol.version": request.http_version.removeprefix("HTTP/"),
            "gen_ai.operation.name": "invoke_agent" if exchange.operation else None,
            "gen_ai.conversation.id": exchange.channel,
            "http.response.body.size": exchange.response_bytes,
            "http.response.status_code": response.status if response else None,
            "error.type": _error_type(exchange),
            "wiretape.exchange": exchange.number,
            **_key_attributes(exchange.keys),
            "wiretape.ending": str(exchange.ending),
        }
    )


def _host(authority: str) -> str | None:
    """Return the host of an authority, which may be anything that a client sent; None if it is not valid."""
    try:
        return urlsplit(f"//{authority}").hostname
    except ValueError:
        return None


def _clean(attributes: dict[str, str | int | None]) -> _Attributes:
    """Leave out what is unknown, and what OTLP cannot hold: lone surrogates, and more than 64 bits."""
    return {
        name: shorten(value, _LONGEST) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and (isinstance(value, str) or abs(value) < 2**63)
    }


def _error_type(exchange: Exchange) -> str | None:
    if exchange.response is not None and exchange.response.status >= 400:
        return str(exchange.response.status)
    if exchange.response is None or not ended_well(exchange.ending, stream=exchange.is_stream):
        return str(exchange.ending)
    return None


def _status(exchange: Exchange, findings: list[Finding]) -> Status:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        return Status(StatusCode.ERROR, f"{errors[0].code}: {shorten(errors[0].message)}")
    error = _error_type(exchange)
    return Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error)


def _stream_events(recording: Recording, exchange: Exchange) -> tuple[list[Event], _Attributes]:
    """Return the durable events of a stream, and the numbers of events by kind."""
    events: list[Event] = []
    count = deltas = 0
    for event in recording.events(exchange.number):
        count = event.number
        if event.kind == "delta":
            deltas += 1
        elif len(events) < EVENT_LIMIT:
            name, time_ns = shorten(event.type) or "message", recording.info.started_unix_ns + event.time_ns
            events.append(Event(name, _event_attributes(event), time_ns))
    return events, {"wiretape.events": count, "wiretape.deltas": deltas}


def _key_attributes(keys: Mapping[str, str]) -> dict[str, str | int | None]:
    """Return the keys of entities by their names."""
    return {f"wiretape.{name}_id": key for name, key in keys.items()}


def _event_attributes(event: RecordedEvent) -> _Attributes:
    return _clean(
        {
            "wiretape.event": event.number,
            "wiretape.event.id": event.id,
            "wiretape.sequence": event.sequence,
            **_key_attributes(event.keys),
        }
    )


def _finding_event(finding: Finding, started: int, rules: Mapping[str, Rule]) -> Event:
    attributes = _clean(
        {
            "wiretape.rule.code": finding.code,
            "wiretape.rule.name": rules[finding.code].name if finding.code in rules else None,
            "wiretape.severity": str(finding.severity),
            "wiretape.side": str(finding.side),
            "wiretape.message": finding.message,
            "wiretape.event": finding.event,
        }
    )
    return Event("wiretape.finding", attributes, started + finding.time_ns)
