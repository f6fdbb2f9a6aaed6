"""Requests without their secrets, for messages and log lines."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from wiretape.observations import Headers, RequestStarted
from wiretape.recording import REDACTED_PATTERN, RedactionPolicy, Redactor, overwrite
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import NO_BODY, HttpRequest

_REDACTED = re.compile(REDACTED_PATTERN)
_LONGEST_KEPT = 4096
"""Characters of a request's head whose label is kept: finding its secrets takes long, and clients repeat requests."""


def without_secrets(request: HttpRequest, parameters: Iterable[str] = ()) -> HttpRequest:
    """Return a request with `[redacted]` for the secrets of its head, and asterisks for them in its body.

    `parameters` are names of more parameters with secrets.
    """
    redactor = Redactor(b"", RedactionPolicy(parameters=tuple(parameters)))
    method, target, version, headers = request.method, request.target, request.http_version, request.headers
    head = redactor.redact_request(RequestStarted(1, 0, "", method, "http", "", target, version, headers))
    target = _REDACTED.sub("[redacted]", head.target)
    headers = tuple((name, _REDACTED.sub("[redacted]", value)) for name, value in head.headers)
    text = request.body.text and overwrite(request.body.text, redactor.find_secrets(request.body.text))
    return replace(request, target=target, headers=headers, body=replace(request.body, text=text))


def request_label(request: HttpRequest) -> str:
    """Return method and path for log lines, without secrets, and without the query."""
    size = len(request.target) + sum(map(len, chain.from_iterable(request.headers)))
    return (_label if size > _LONGEST_KEPT else _kept_label)(request.method, request.target, request.headers)


def _label(method: str, target: str, headers: Headers) -> str:
    shown = without_secrets(HttpRequest(method, target, NO_BODY, headers))
    return shorten(f"{method} {shown.target.partition('?')[0]}")


_kept_label = lru_cache(100)(_label)
