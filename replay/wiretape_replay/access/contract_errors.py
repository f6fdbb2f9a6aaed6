"""Error responses in the envelope of a contract, or in plain text if it has none.  Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from wiretape.contract.contract_tables import ErrorCase
from wiretape.contract.service_terms import ErrorWriter
from wiretape.http_headers import RETRY_AFTER
from wiretape.observations import Headers
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import HttpResponse

_REQUEST_LINE = re.compile(r"\bmethod\b.* b'([!#$%&*+.^_`|~0-9A-Za-z-]+) ([!-&(-\[\]-~]+) HTTP/1\.[01]'")
"""The request line in aiohttp's message about an unknown method."""
_STATUSES = {
    ErrorCase.MALFORMED: 400,
    ErrorCase.NO_KEY: 401,
    ErrorCase.NO_SCOPE: 403,
    ErrorCase.UNKNOWN_CHANNEL: 404,
    ErrorCase.LIMIT: 429,
    ErrorCase.UNKNOWN_CURSOR: 400,
}
"""The statuses of refusals for which a contract has no code."""
_WAIT = "retry_after"
"""The value with the seconds after which a request is no longer over a limit."""


def count_request_ids(prefix: str = "wiretape") -> Callable[[], str]:
    """Return a function that counts ids for responses not from a recording: `wiretape-1`, `wiretape-2` and so on.

    Everything that responds on a server shares one, so no id occurs twice, and every run has the same ids.
    """
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"


def refuse(
    errors: ErrorWriter | None,
    case: ErrorCase,
    message: str,
    request_id: str,
    *,
    values: Mapping[str, object] | None = None,
    headers: Headers = (),
    status: int | None = None,
) -> HttpResponse:
    """Return the response that refuses a request; `status` is for a contract without a code for the case."""
    code = None if errors is None else errors.code_of(case)
    if errors is None or code is None:
        own = _headers_for(case, values or {})
        return plain_response(status or _STATUSES[case], message, (*own, *headers))
    return error_response(errors, code, message, request_id, values=values, headers=headers)


def error_response(
    errors: ErrorWriter,
    code: str,
    message: str | None,
    request_id: str,
    *,
    values: Mapping[str, object] | None = None,
    fields: Mapping[str, Any] | None = None,
    headers: Headers = (),
    status: int | None = None,
) -> HttpResponse:
    """Return the response with a code; see `ErrorWriter.write`.  `headers` follow those that the code requires."""
    error = errors.write(code, message, request_id, values=values, fields=fields, status=status)
    table = errors.codes.get(code)
    own = () if table is None or table.when is None else _headers_for(table.when, values or {})
    return HttpResponse.from_json(error.status, error.document, (*own, *error.headers, *headers), code)


def plain_response(status: int, message: str, headers: Headers = ()) -> HttpResponse:
    """Return a response in plain text."""
    return HttpResponse(status, f"{message}\n".encode(), headers, "text/plain; charset=utf-8")


def malformed_request_handler(
    errors: ErrorWriter | None, next_id: Callable[[], str], allowed_methods: Callable[[str], Sequence[str]]
) -> Callable[[str], HttpResponse]:
    """Return a function that responds to malformed requests.

    Its argument is aiohttp's message; `allowed_methods` returns the methods of a target.
    """

    def respond(error: str) -> HttpResponse:
        error = " ".join(error.split())
        line = _REQUEST_LINE.search(error)
        if line is None:
            return refuse(errors, ErrorCase.MALFORMED, f"Malformed request: {shorten(error)}", next_id())
        method, target = line[1], line[2]
        allowed = ", ".join(allowed_methods(target))
        if not allowed:
            return refuse(errors, ErrorCase.MALFORMED, f"Unknown method {method}.", next_id())
        message = f"Unknown method {method}; {shorten(target.partition('?')[0])} allows {allowed}."
        return refuse(errors, ErrorCase.MALFORMED, message, next_id(), headers=(("Allow", allowed),))

    return respond


def _headers_for(case: ErrorCase, values: Mapping[str, object]) -> Headers:
    """Return the headers that HTTP requires, or that clients expect, whatever the contract."""
    if case is ErrorCase.NO_KEY:
        return (("WWW-Authenticate", "Bearer"),)  # RFC 9110, 11.6.1
    return ((RETRY_AFTER, str(values[_WAIT])),) if case is ErrorCase.LIMIT and _WAIT in values else ()
