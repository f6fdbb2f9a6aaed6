"""A replay that a test talks to, and that says what is wrong with the test's client."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

from wiretape.control_protocol import PATIENCE_S
from wiretape_replay.control.control_state import SessionState, State
from wiretape_replay.control.handle import What, Where
from wiretape_replay.control.playhead_control import Until
from wiretape_replay.replay_options import ReplayOptions
from wiretape_replay.running import RunningReplay, start_replay
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.playhead import Step
from wiretape_replay.session.session_log import LogEntry
from wiretape_replay.session.session_streams import StreamRequest
from wiretape_replay.testing.choices import ClientCriteria
from wiretape_replay.testing.heard import Heard
from wiretape_replay.testing.listening import Listener
from wiretape_replay.testing.verdict import wrong
from wiretape_replay.verbatim.exchange_queues import RecordedRequest as Recorded
from wiretape_replay.verbatim.verbatim_player import UnmatchedRequest


class JudgedReplay(Heard):
    """A replay in the thread that all replays of the process share; to be used from any other thread.

    What moves the playhead (`step`, `seek`, `wait`, …) is about the only session of the recording; where there are
    several, ask `session` for one.  What cannot be done raises InputError.
    """

    def __init__(self, running: RunningReplay, listener: Listener, criteria: ClientCriteria, record: Path) -> None:
        super().__init__(running, listener, record)
        self._running = running
        self._criteria = criteria

    def state(self) -> State:
        """Of everything."""
        return self._running.state()

    def reset(self) -> None:
        """Begin anew: playheads, recorded answers and faults; streams that are connected end."""
        self._running.reset()

    def pause(self) -> None:
        """See SessionHandle."""
        self.session().pause()

    def resume(self) -> None:
        """See SessionHandle."""
        self.session().resume()

    def step(self, to: Step | str = Step.EVENT, *, count: int = 1) -> LogEntry | None:
        """See SessionHandle."""
        return self.session().step(to, count=count)

    def seek(self, **where: Unpack[Where]) -> None:
        """See SessionHandle."""
        self.session().seek(**where)

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """See SessionHandle."""
        return self.session().breakpoints

    def add_breakpoint(self, point: Breakpoint | None = None, **what: Unpack[What]) -> Breakpoint:
        """See SessionHandle."""
        return self.session().add_breakpoint(point, **what)

    def remove_breakpoint(self, point: Breakpoint | None = None, **what: Unpack[What]) -> None:
        """See SessionHandle."""
        self.session().remove_breakpoint(point, **what)

    def wait(self, until: Until | str = Until.STANDING, *, timeout_s: float = PATIENCE_S) -> SessionState:
        """See SessionHandle.  Raises RuntimeError in a coroutine, which `async_wait` is for."""
        return self.session().wait(until, timeout_s=timeout_s)

    async def async_wait(self, until: Until | str = Until.STANDING, *, timeout_s: float = PATIENCE_S) -> SessionState:
        """The same as `wait`, in a coroutine of asyncio."""
        return await self.session().async_wait(until, timeout_s=timeout_s)

    @property
    def streams(self) -> list[StreamRequest]:
        """The streams of sessions that were asked for so far, in order; none in verbatim mode."""
        player = self._running.replay.player
        return list(player.streamed) if player is not None else []

    @property
    def misses(self) -> list[UnmatchedRequest]:
        """The requests that were answered with status 501, in order."""
        return list(self._running.replay.misses)

    @property
    def unconsumed(self) -> list[Recorded]:
        """The recorded requests that nobody asked, in recorded order; in session mode without streams."""
        return self._running.replay.unconsumed

    @property
    def faults_done(self) -> dict[str, int]:
        """How often each fault was done so far, by its name."""
        return self._running.replay.faults.counts

    def wrong(self) -> str | None:
        """What a test fails by: findings with their report, and requests without a match; None when all is well so far.

        Records what passes when something is wrong.
        """
        return wrong(
            self.findings,
            self.misses,
            self._criteria,
            self.record,
            self.keep,
            checks_failed=self._listener.failed,
        )


@contextmanager
def started(recording: Path, options: ReplayOptions, criteria: ClientCriteria, record: Path) -> Iterator[JudgedReplay]:
    """Play a recording until the block is left; what there is to know stays readable.  `record` is for a new file.

    Raises InputError when something cannot be played.
    """
    listener = Listener(criteria.config.settings, record)
    lines: list[str] = []
    with start_replay(recording, options, judge=listener, log=lines.append) as running:
        replay = JudgedReplay(running, listener, criteria, record)
        replay.lines = lines
        yield replay
