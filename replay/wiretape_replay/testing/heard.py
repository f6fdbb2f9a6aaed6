"""What a test can ask of whatever judges its client, be a recording or a scenario played to it."""

import asyncio
from pathlib import Path

from wiretape.rules import Finding
from wiretape_replay.control.handle import RunningSession
from wiretape_replay.running import RunningReplay, RunningService
from wiretape_replay.testing.listening import Listener, Request

_ROUNDS = 20
"""After so many rounds the event loop has noticed that a client has left: its FIN came before we asked."""


class Heard:
    """Something that runs in the thread that all of the process share; to be used from any other thread."""

    def __init__(self, running: RunningReplay | RunningService, listener: Listener, record: Path) -> None:
        self._serving = running
        self._listener = listener
        self.record = record
        """Where what passes is recorded, if that is wanted or something is wrong with it."""
        self.lines: list[str] = []
        """What the command would print, a line for each request."""

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return self._serving.url

    def session(self, session_id: str | None = None) -> RunningSession:
        """Moves the playhead of one session; None: of the only one.  Raises InputError."""
        return self._serving.session(session_id)

    @property
    def requests(self) -> list[Request]:
        """Everything that was asked so far, in order."""
        return list(self._listener.requests)

    @property
    def findings(self) -> list[Finding]:
        """What the client did wrong so far, whether or not the test fails by it (of very many the first 10,000)."""

        async def look() -> list[Finding]:
            await noticed()
            return list(self._listener.against_client)

        found: list[Finding] = self._serving.call(look)
        return found

    def keep(self) -> None:
        """Record what has passed, and what is still to pass.  Raises RecordingError when that cannot be."""
        self._serving.call(self._listener.keep)


async def noticed() -> None:
    """Let the event loop take in what has come."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
