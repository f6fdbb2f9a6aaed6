"""Which playhead a stream follows."""

from wiretape.contract import AUTHORIZATION, bearer_key
from wiretape.observe import header
from wiretape_replay.front.asked import Asked
from wiretape_replay.session.drive import Drive
from wiretape_replay.session.log import Log
from wiretape_replay.session.playhead import Playhead


class Drives:
    """The playheads of a replay: one a session, or one for each client that begins anew."""

    def __init__(self, *, speed: float, paused: bool, own: bool) -> None:
        """`own`: a stream without a cursor gets a playhead of its own, and one with a cursor goes on with it."""
        self.shared: dict[str, Drive] = {}
        """The playhead of each session by its id: the one that all follow, or the latest."""
        self._speed = speed
        self._paused = paused
        self._own = own
        self._latest: dict[tuple[str, str], Drive] = {}
        self._every: list[Drive] = []

    def of(self, log: Log) -> Drive:
        """The playhead of a session."""
        return self.shared.get(log.session_id) or self._begin(log)

    def for_stream(self, log: Log, asked: Asked, cursor: str | None) -> Drive:
        """The playhead that the stream asked for follows."""
        if not self._own:
            return self.of(log)
        client = (log.session_id, _client(asked))
        known = self._latest.get(client)
        if known is None or cursor is None:
            known = self._latest[client] = self._begin(log)
        return known

    def reset(self) -> None:
        """Begin anew with every session."""
        for drive in self._every:
            drive.reset()

    def stop(self) -> None:
        """Let no clock run any longer."""
        for drive in self._every:
            drive.stop()

    def _begin(self, log: Log) -> Drive:
        drive = Drive(Playhead(log, speed=self._speed, paused=self._paused))
        self.shared[log.session_id] = drive
        self._every.append(drive)
        return drive


def _client(asked: Asked) -> str:
    """Who asks: the bearer key, or without one the address."""
    return bearer_key(header(asked.headers, AUTHORIZATION) or "") or asked.client
