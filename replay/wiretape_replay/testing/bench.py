"""The replays of one test: they are begun, they are judged, and their recordings stay if something was wrong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from wiretape.config import Config
from wiretape_replay.replay_options import ReplayOptions
from wiretape_replay.service.serve_options import ServeOptions
from wiretape_replay.testing.choices import ClientCriteria, options_in
from wiretape_replay.testing.judged import JudgedReplay, started
from wiretape_replay.testing.served import JudgedService, located_scenario, served
from wiretape_replay.testing.verdict import recorded

_SHOWN = 30
"""How many of the last lines of a replay are shown."""


class Played(Protocol):
    """What listens to a client."""

    record: Path
    lines: list[str]

    def wrong(self) -> str | None:
        """What a test fails by; None when all is well so far."""
        ...

    def keep(self) -> None:
        """Record what has passed."""
        ...


class Bench:
    """Replays and services that end together.  To be used from one thread."""

    def __init__(self, folder: Path, config: Config, find: Callable[[Path], Path] = Path) -> None:
        """`folder` is for recordings; `find` says which file is meant by a path."""
        self.replays: list[Played] = []
        self._folder = folder
        self._config = config
        self._find = find
        self._stack = ExitStack()
        self._told = False

    def start(self, recording: Path | str, given: dict[str, Any]) -> JudgedReplay:
        """One more.  Raises InputError."""
        options = options_in(ReplayOptions, given, self._find, "A replay")
        criteria = ClientCriteria.of(given, self._config)
        path = self._find(Path(recording))
        replay = self._stack.enter_context(started(path, options, criteria, self._free_path()))
        self.replays.append(replay)
        return replay

    def serve(self, scenario: Any, given: dict[str, Any]) -> JudgedService:
        """A service, played by a scenario.  Raises InputError."""
        options = options_in(ServeOptions, {"clock": "virtual"} | given, self._find, "A service")
        criteria = ClientCriteria.of({"allow_misses": True} | given, self._config)
        located = located_scenario(scenario, self._find)
        service = self._stack.enter_context(served(located, options, criteria, self._free_path()))
        self.replays.append(service)
        return service

    def wrong(self) -> str | None:
        """What the test fails by, as JudgedReplay tells it; None when all is well, or if it was told before."""
        if self._told:
            return None
        texts = [text for text in (replay.wrong() for replay in self.replays) if text is not None]
        self._told = bool(texts)
        return "\n\n".join(texts) or None

    def account(self) -> str:
        """What there is to know about a test that failed by itself; empty if it was told what it failed by."""
        if self._told:
            return ""
        self._told = True
        return "\n\n".join("\n".join(_account(replay)) for replay in self.replays)

    def stop(self) -> None:
        """End all of them."""
        self._stack.close()

    def tidy(self) -> None:
        """Remove the recordings of a test with which nothing was wrong."""
        for replay in self.replays:
            replay.record.unlink(missing_ok=True)

    def _free_path(self) -> Path:
        number = len(self.replays) + 1
        return self._folder / ("replayed.db" if number == 1 else f"replayed-{number}.db")


def _account(replay: Played) -> Iterator[str]:
    text = replay.wrong()
    yield (
        text
        if text is not None
        else f"Nothing is wrong with what the client did.\n{recorded(replay.record, replay.keep)}"
    )
    yield "Requests:"
    yield from _last(replay.lines)


def _last(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) > _SHOWN:
        yield f"… {len(lines) - _SHOWN:,} lines before"
    yield from lines[-_SHOWN:]
