"""Which playhead a stream follows."""

from wiretape.contract import AUTHORIZATION, KEEP_ALIVE_SECONDS, bearer_key
from wiretape.observations import header
from wiretape_replay.http_server.request import HttpRequest
from wiretape_replay.session.changes import Changes
from wiretape_replay.session.idle_timer import CallLater, call_later
from wiretape_replay.session.playhead import Playhead
from wiretape_replay.session.playhead_clock import PlayheadClock
from wiretape_replay.session.session_log import SessionLog


class Playheads:
    """The playheads of a replay: one a session, or one for each client that begins anew."""

    def __init__(
        self,
        *,
        speed: float,
        paused: bool,
        own: bool,
        keep_alive_s: float = KEEP_ALIVE_SECONDS,
        later: CallLater = call_later,
    ) -> None:
        """`own`: a stream without a cursor gets a playhead of its own, and one with a cursor goes on with it.

        `keep_alive_s`, `later`: see Drive.
        """
        self.speed = speed
        self.changes = Changes()
        """Of the playheads and of who follows them."""
        self.shared: dict[str, PlayheadClock] = {}
        """The playhead of each session by its id: the one that all follow, or the latest."""
        self._paused = paused
        self._own = own
        self._keep_alive_s = keep_alive_s
        self._later = later
        self._spare: dict[str, PlayheadClock] = {}
        self._latest: dict[tuple[str, str], PlayheadClock] = {}
        self._every: list[PlayheadClock] = []

    def of(self, log: SessionLog) -> PlayheadClock:
        """The playhead of a session.  One that no stream has asked for yet is that of the next that begins anew."""
        drive = self.shared.get(log.session_id)
        if drive is None:
            drive = self._spare[log.session_id] = self._begin(log)
        return drive

    def all_of(self, log: SessionLog) -> list[PlayheadClock]:
        """Every playhead of a session, the latest last; one at least."""
        latest = self.of(log)
        return [drive for drive in self._every if drive.playhead.log is log] if self._own else [latest]

    def for_stream(self, log: SessionLog, asked: HttpRequest, cursor: str | None) -> PlayheadClock:
        """The playhead that the stream asked for follows."""
        if not self._own:
            return self.of(log)
        client = (log.session_id, _client(asked))
        known = self._latest.get(client)
        if known is None or cursor is None:
            spare = self._spare.pop(log.session_id, None)
            known = self._latest[client] = self._begin(log) if spare is None else spare
        return known

    def reset(self) -> None:
        """Begin anew with every session."""
        for drive in self._every:
            drive.reset()

    def stop(self) -> None:
        """Let no clock run any longer."""
        for drive in self._every:
            drive.stop()
        self.changes.close()

    def _begin(self, log: SessionLog) -> PlayheadClock:
        playhead = Playhead(log, speed=self.speed, paused=self._paused)
        latest = self.shared.get(log.session_id)
        if latest is not None:
            playhead.breakpoints = list(latest.playhead.breakpoints)
        drive = PlayheadClock(playhead, changed=self.changes.note, keep_alive_s=self._keep_alive_s, later=self._later)
        self.shared[log.session_id] = drive
        self._every.append(drive)
        return drive


def _client(asked: HttpRequest) -> str:
    """Who asks: the bearer key, or without one the address."""
    return bearer_key(header(asked.headers, AUTHORIZATION) or "") or asked.client
