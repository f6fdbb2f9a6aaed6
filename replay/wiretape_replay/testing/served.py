"""A service that a test talks to, and that says what is wrong with the test's client."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from wiretape.config import Config
from wiretape.errors import InputError
from wiretape.toml_files import is_toml_text
from wiretape_replay.running import RunningService, start_scenario
from wiretape_replay.service.assumptions import default_setup, setup_in
from wiretape_replay.service.scenario.steps import Scenario
from wiretape_replay.service.serving import ServeOptions
from wiretape_replay.session.session_streams import StreamRequest
from wiretape_replay.testing.choices import faults_in, refuse_others, rules, table_given, threshold
from wiretape_replay.testing.heard import Heard
from wiretape_replay.testing.listening import Listener
from wiretape_replay.testing.verdict import wrong

_CLOCKS = ("virtual", "real")


class ServiceGiven(TypedDict, total=False):
    """What can be asked for besides the scenario; most of it is what `wiretape serve` has options for."""

    clock: str
    """`virtual` (the default: nothing is waited for) or `real`."""
    seed: int
    data: Path | str | None
    """A file that keeps everything."""
    service: "Path | str | Mapping[str, Any] | None"
    """Keys, limits and what is assumed: a file, its text, or the same as a dictionary."""
    faults: "Path | str | Mapping[str, Any] | list[Mapping[str, Any]] | None"
    """What goes wrong: a file, its text, the same as a dictionary, one fault, or a list of faults."""
    fail_on: str | None
    """The test fails by a finding as bad as this or worse: `error` (the default), `warning`, `note`, or `never`."""
    allow: "list[str] | str"
    """Rules that may be broken: codes, or how they begin."""


@dataclass(frozen=True, slots=True)
class ServiceChoices:
    """The same, understood."""

    scenario: Scenario | Path | str
    options: ServeOptions
    config: Config
    fail_on: str
    rules: tuple[str, ...]
    allow_misses: bool = True

    @classmethod
    def of(
        cls,
        scenario: Scenario | Path | str,
        given: Mapping[str, Any],
        config: Config,
        find: Callable[[Path], Path] = Path,
    ) -> "ServiceChoices":
        """Understand what is `ServiceGiven`.  `find` says which file is meant by a path.  Raises InputError."""
        refuse_others(given, ServiceGiven.__annotations__, "A service")
        clock = given.get("clock", _CLOCKS[0])
        if clock not in _CLOCKS:
            raise InputError(f"clock={clock!r} is none of these: {', '.join(_CLOCKS)}.")
        service, data = given.get("service"), given.get("data")
        if not isinstance(seed := given.get("seed"), int | None):
            raise InputError(f"seed={seed!r} is no whole number.")
        if not isinstance(data, Path | str | None):
            raise InputError(f"data={data!r} is no file.")
        options = ServeOptions(
            seed=seed,
            virtual=clock == "virtual",
            data=None if data is None else Path(data),
            setup=default_setup() if service is None else setup_in(table_given("service", service, find)),
            faults=faults_in(given.get("faults"), find),
        )
        fail_on = threshold(given.get("fail_on"), config)
        return cls(_meant(scenario, find), options, config, fail_on, rules(given, config))


class JudgedService(Heard):
    """A service in the thread that all of the process share; to be used from any other thread."""

    def __init__(self, running: RunningService, listener: Listener, choices: ServiceChoices, record: Path) -> None:
        super().__init__(running, listener, record)
        self._running = running
        self._choices = choices

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
        return self._running.service.faults.done

    def wrong(self) -> str | None:
        """What a test fails by, with its report; None when all is well so far."""
        failed = self._listener.failed
        return wrong(self.findings, [], self._choices, self.record, self.keep, checks_failed=failed)


@contextmanager
def served(choices: ServiceChoices, record: Path) -> Iterator[JudgedService]:
    """Serve until the block is left; what there is to know stays readable.  `record` is for a new file.

    Raises InputError when something cannot be served.
    """
    listener = Listener(choices.config.settings, record)
    lines: list[str] = []
    with start_scenario(choices.scenario, choices.options, judge=listener, log=lines.append) as running:
        service = JudgedService(running, listener, choices, record)
        service.lines = lines
        yield service


def _meant(scenario: Scenario | Path | str, find: Callable[[Path], Path]) -> Scenario | Path | str:
    """A scenario as serve_scenario takes it, files found."""
    if isinstance(scenario, Path):
        return find(scenario)
    if isinstance(scenario, str) and not is_toml_text(scenario) and (scenario.endswith(".toml") or "/" in scenario):
        return find(Path(scenario))
    if not isinstance(scenario, Scenario | str):
        raise InputError(f"{scenario!r} is no scenario: give the name of one that ships, a TOML file, or its text.")
    return scenario
