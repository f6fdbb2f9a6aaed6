"""SSE: framing of event streams.  "WHATWG" is the HTML standard, part "Server-sent events".

The rules that follow from that standard, or hold for any client of it, apply to every event stream.  Those that only
the specification states apply to streams of the service: one `event:` line and one `data:` line per event (SSE005,
SSE006), and the media type (SSE007).
"""

from http import HTTPStatus

from wiretape.rules.catalogue import (
    HELD,
    INCOMPLETE_BODY,
    STREAM_RESPONSE,
    SUCCESS_RESPONSE,
    Outcome,
    check,
    problem,
)
from wiretape.rules.finding import quote_or_none
from wiretape.sse import EVENT_STREAM, is_event_stream
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.service_body import SuccessBody


@check(STREAM_RESPONSE)
def hold_for_event_stream(exchange: ExchangeState) -> Outcome:
    """Hold if the response to a stream request is an event stream."""
    return HELD if is_event_stream(exchange.response_header("content-type")) else None


@check(SUCCESS_RESPONSE)
def wrong_content_type(body: SuccessBody, exchange: ExchangeState) -> Outcome:
    """The response to a stream request has the status 200, but is not an event stream."""
    if not exchange.is_stream_request or body.response.status != HTTPStatus.OK:
        return None
    if body.may_be_error and not body.is_whole:
        return INCOMPLETE_BODY
    content_type = exchange.response_header("content-type")
    return problem(f"Expected the Content-Type `{EVENT_STREAM}`, got {quote_or_none(content_type)}.")
