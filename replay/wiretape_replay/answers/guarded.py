"""A source behind a guard."""

import time
from collections.abc import Callable

from wiretape.safe_text import shorten
from wiretape_replay.answers.guard import Guard
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.line import Line
from wiretape_replay.front.source import Source
from wiretape_replay.front.tap import OWN_ANSWER


class Guarded:
    """Answers what the guard refuses, and leaves everything else to the source behind it."""

    def __init__(
        self,
        guard: Guard,
        source: Source,
        log: Callable[[str], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`log` takes a line for each refusal; limits are counted on `clock` (ns)."""
        self._guard = guard
        self._source = source
        self._log = log
        self._clock = clock

    async def answer(self, asked: Asked, line: Line) -> None:
        """See Source."""
        refusal = self._guard.refusal(asked, self._clock())
        if refusal is None:
            await self._source.answer(asked, line)
            return
        # The query may hold secrets.
        self._log(shorten(f"{asked.method} {asked.target.partition('?')[0]} → {refusal.status}, refused by the guard"))
        line.mark(OWN_ANSWER)
        await refusal.send(line, with_body=asked.method != "HEAD")
