"""A recorded event as a pytest test: its bytes, and what the rules find in them."""

from collections.abc import Iterator

from wiretape.checking import check_stream
from wiretape.errors import InputError
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable

MAX_BYTES = 64 * 1024
"""Bytes of a test.  A test that needs more is easier to write with the whole recording."""


def event_test(recording: Recording, exchange: Exchange, event: int) -> str:
    """Return the code of a test that passes for the bytes of an event.

    Earlier events are included if the findings about the event depend on them.
    Raises InputError if the event does not exist or is too large.
    """
    wanted = {finding.code for finding in recording.findings(exchange.number) if finding.event == event}
    frames: list[bytes] = []
    codes: list[str] = []
    for first in dict.fromkeys((event, max(event - 1, 1), 1)):
        found = list(_frames(recording, exchange.number, first, event))
        if sum(map(len, found)) > MAX_BYTES:
            break
        frames, target = found, exchange.request.target
        codes = [finding.code for finding in check_stream(b"".join(frames), target=target).findings]
        if wanted <= set(codes):
            break
    if not frames:
        raise InputError(f"Event {event} of exchange {exchange.number} is too large for a test.")
    surplus = ", ".join(dict.fromkeys(code for code in codes if code not in wanted))
    note = f"# Without the rest of its stream, the rules also find {surplus}.\n" if surplus else ""
    lines = "\n".join(f"    {frame!r}" for frame in frames)
    return (
        f"# Event {event} of exchange {exchange.number} in {printable(recording.path.name)}.\n"
        f"{note}\n"
        "import wiretape\n\n"
        f"BODY = (\n{lines}\n)\n\n\n"
        f"def test_event_{event}_of_exchange_{exchange.number}() -> None:\n"
        f"    result = wiretape.check_stream(BODY, target={exchange.request.target!r})\n"
        f"    assert [finding.code for finding in result.findings] == {codes!r}\n"
    )


def _frames(recording: Recording, number: int, first: int, last: int) -> Iterator[bytes]:
    """Yield the bytes of the frames of a stream from one event to another."""
    for seen in recording.frames(number, first):
        yield seen.frame.raw
        if seen.event == last:
            return
    raise InputError(f"Exchange {number} has no event {last}.")
