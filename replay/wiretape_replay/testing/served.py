"""A service that a test talks to, and that says what is wrong with the test's client."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wiretape.errors import InputError
from wiretape.toml_files import is_toml_text
from wiretape_replay.running import RunningService, start_scenario
from wiretape_replay.service.scenario.scenario_steps import Scenario
from wiretape_replay.service.serve_options import ServeOptions
from wiretape_replay.session.session_streams import StreamRequest
from wiretape_replay.testing.choices import ClientCriteria
from wiretape_replay.testing.heard import Heard
from wiretape_replay.testing.listening import Listener
from wiretape_replay.testing.verdict import wrong


class JudgedService(Heard):
    """A service in the thread that all of the process share; to be used from any other thread."""

    def __init__(self, running: RunningService, listener: Listener, criteria: ClientCriteria, record: Path) -> None:
        super().__init__(running, listener, record)
        self._running = running
        self._criteria = criteria

    @property
    def key(self) -> str:
        """A bearer key that is good."""
        return self._running.key

    @property
    def headers(self) -> dict[str, str]:
        """What a request has to carry."""
        return {"Authorization": f"Bearer {self.key}"}

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, a day at most, with everything that happens in it.

        Raises InputError where time is real, and for what is no time.
        """
        self._running.advance(seconds)

    @property
    def streams(self) -> list[StreamRequest]:
        """The streams of sessions that were asked for so far, in order."""
        return list(self._running.service.streams.streamed)

    @property
    def faults_done(self) -> dict[str, int]:
        """How often each fault was done so far, by its name."""
        return self._running.service.faults.counts

    def wrong(self) -> str | None:
        """What a test fails by, with its report; None when all is well so far."""
        failed = self._listener.failed
        return wrong(self.findings, [], self._criteria, self.record, self.keep, checks_failed=failed)


@contextmanager
def served(
    scenario: Scenario | Path | str, options: ServeOptions, criteria: ClientCriteria, record: Path
) -> Iterator[JudgedService]:
    """Serve until the block is left; what there is to know stays readable.  `record` is for a new file.

    Raises InputError when something cannot be served.
    """
    listener = Listener(criteria.config.settings, record)
    lines: list[str] = []
    with start_scenario(scenario, options, judge=listener, log=lines.append) as running:
        service = JudgedService(running, listener, criteria, record)
        service.lines = lines
        yield service


def located_scenario(scenario: Scenario | Path | str, find: Callable[[Path], Path]) -> Scenario | Path | str:
    """A scenario as serve_scenario takes it, files found."""
    if isinstance(scenario, Path):
        return find(scenario)
    if isinstance(scenario, str) and not is_toml_text(scenario) and (scenario.endswith(".toml") or "/" in scenario):
        return find(Path(scenario))
    if not isinstance(scenario, Scenario | str):
        raise InputError(f"{scenario!r} is no scenario: give the name of one that ships, a TOML file, or its text.")
    return scenario
