"""The answer to what is no request."""

import re
from collections.abc import Callable, Sequence

from wiretape.contract import INVALID_REQUEST
from wiretape.safe_text import shorten
from wiretape_replay.answers.envelope import envelope
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.front.answer import Answer

_REQUEST_LINE = re.compile(r"\bmethod\b.* b'([!#$%&*+.^_`|~0-9A-Za-z-]+) ([!-&(-\[\]-~]+) HTTP/1\.[01]'")
"""The request line in what aiohttp says of a method that it does not know."""


def foreign(request_ids: RequestIds, methods: Callable[[str], Sequence[str]] = lambda _: ()) -> Callable[[str], Answer]:
    """Answers what is no request at all; `methods` are those that a target takes."""

    def answer(what: str) -> Answer:
        told = " ".join(what.split())
        line = _REQUEST_LINE.search(told)
        if line is None:
            return envelope(INVALID_REQUEST, f"The request cannot be understood: {shorten(told)}", request_ids.next())
        allowed = ", ".join(methods(line[2]))
        path = shorten(line[2].partition("?")[0])
        told = f"There is no method {line[1]}" + (f"; {path} takes {allowed}." if allowed else ".")
        return envelope(INVALID_REQUEST, told, request_ids.next(), headers=(("Allow", allowed),) if allowed else ())

    return answer
