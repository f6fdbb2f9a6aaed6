"""The answer to what is no request."""

from collections.abc import Callable

from wiretape.contract.error_codes import INVALID_REQUEST
from wiretape.text import shown
from wiretape_replay.answers.envelope import envelope
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.front.answer import Answer


def foreign(request_ids: RequestIds) -> Callable[[str], Answer]:
    """Answers what is no request at all."""

    def answer(what: str) -> Answer:
        told = shown(" ".join(what.split()))
        return envelope(INVALID_REQUEST, f"The request cannot be understood: {told}", request_ids.next())

    return answer
