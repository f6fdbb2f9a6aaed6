"""The parts of a HAR entry that are known before its bodies are read."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote

from wiretape.observations import Ending, Headers, RequestStarted, header
from wiretape.recording import Exchange, Recording, RedactionPolicy

_POLICY = RedactionPolicy()
_SENSITIVE = frozenset((*_POLICY.credential_headers, *_POLICY.secret_headers))
_IN_URL = "!$%&'()*+,-./:;=?@[]_~"
"""What stands in a URL as it is, besides letters and digits; the number sign would begin a fragment."""
UNKNOWN = "x-unknown"
"""The type of a body that nobody gave one."""


def facts(recording: Recording, exchange: Exchange) -> dict[str, Any]:
    """When it was, how long each part took (milliseconds), and what kind of resource it is."""
    timings = _timings(exchange)
    return {
        "startedDateTime": started(recording.info.started_unix_ns + exchange.request.time_ns),
        "time": round(sum(timings.values()), 6),
        "cache": {},
        "timings": {"blocked": -1, "dns": -1, "connect": -1, "ssl": -1, **timings},
        "_resourceType": "eventsource" if exchange.is_stream else "fetch",
    }


def started(unix_ns: int) -> str:
    """A time on the wall clock, ISO 8601 UTC, to the microsecond."""
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_ns // 1000):%Y-%m-%dT%H:%M:%S.%fZ}"


def _timings(exchange: Exchange) -> dict[str, float]:
    """HAR knows no answer that begins before the request has ended: the request counts as sent then."""
    began = exchange.request.time_ns
    response_ns = exchange.response.time_ns if exchange.response else None
    ended = max(filter(None, (exchange.ended_ns, response_ns, exchange.request_ended_ns)), default=began)
    answered = ended if response_ns is None else response_ns
    sent = min(exchange.request_ended_ns or began, answered)
    return {"send": _ms(sent - began), "wait": _ms(answered - sent), "receive": _ms(ended - answered)}


def _ms(ns: int) -> float:
    return ns / 1_000_000


def request(exchange: Exchange, *, sensitive: bool) -> dict[str, Any]:
    """The request without its body."""
    seen = exchange.request
    url = url_of(seen)
    return {
        "method": seen.method,
        "url": url,
        "httpVersion": seen.http_version,
        "cookies": [],
        "headers": _headers(seen.headers, sensitive=sensitive),
        "queryString": [
            {"name": name, "value": value} for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True)
        ],
        "headersSize": -1,
        "bodySize": exchange.request_bytes,
    }


def url_of(seen: RequestStarted) -> str:
    """The URL of a request: what no URL can hold is percent-encoded."""
    target = seen.target if seen.target.startswith("/") else f"/{seen.target}"
    return f"{seen.scheme}://{_quoted(seen.authority)}{_quoted(target)}"


def _quoted(text: str) -> str:
    return quote(text, safe=_IN_URL, encoding="latin-1", errors="replace")


def response(exchange: Exchange, *, sensitive: bool) -> dict[str, Any]:
    """The response without its content; without any it has the status 0, as browsers write it."""
    seen = exchange.response
    headers = seen.headers if seen else ()
    return {
        "status": seen.status if seen else 0,
        "statusText": seen.reason if seen else "",
        "httpVersion": seen.http_version if seen else "",
        "cookies": [],
        "headers": _headers(headers, sensitive=sensitive),
        "redirectURL": header(headers, "location") or "",
        "headersSize": -1,
        "bodySize": exchange.response_bytes,
        **_error(exchange),
    }


def _error(exchange: Exchange) -> dict[str, str]:
    if exchange.ending is Ending.COMPLETE:
        return {}
    return {"_error": f"{exchange.ending}: {exchange.detail}" if exchange.detail else str(exchange.ending)}


def _headers(headers: Headers, *, sensitive: bool) -> list[dict[str, str]]:
    taken = (pair for pair in headers if sensitive or pair[0].lower() not in _SENSITIVE)
    return [{"name": name, "value": value} for name, value in taken]
