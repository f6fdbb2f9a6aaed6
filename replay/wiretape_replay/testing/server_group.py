"""The replays and stand-ins of one test: they stop together, and their recordings are kept if the test fails."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from wiretape.config import Config, find_config
from wiretape_replay.client_verdict.client_report import inconclusive_lines
from wiretape_replay.server_options import ReplayOptions, ServeOptions
from wiretape_replay.testing.checked_servers import (
    CheckedReplay,
    CheckedServer,
    CheckedService,
    checked_replay,
    checked_service,
    find_scenario,
)
from wiretape_replay.testing.client_criteria import ClientCriteria, keep_recording, select_options

_MOST_LINES = 30
"""How many log lines of a server are shown, counted from the last."""


class ClientError(AssertionError):
    """The client broke a rule, or sent a request without a match; the message contains the report."""


class ServerGroup:
    """Servers that stop together.  Use it from one thread."""

    def __init__(self, folder: Path, config: Config, find: Callable[[Path], Path] = Path) -> None:
        """`folder` is for recordings; `find` resolves paths."""
        self.servers: list[CheckedServer] = []
        self._folder = folder
        self._config = config
        self._find = find
        self._stack = ExitStack()
        self._is_reported = False

    def replay(self, recording: Path | str, options: dict[str, Any]) -> CheckedReplay:
        """Start a replay.  Raises InputError."""
        replay_options = select_options(ReplayOptions, options, self._find, "A replay")
        criteria = ClientCriteria.of(options, self._config)
        path = self._find(Path(recording))
        replay = self._stack.enter_context(checked_replay(path, replay_options, criteria, self._free_path()))
        self.servers.append(replay)
        return replay

    def serve(self, scenario: Any, options: dict[str, Any]) -> CheckedService:
        """Start a stand-in.  Raises InputError."""
        serve_options = select_options(ServeOptions, {"clock": "virtual"} | options, self._find, "A service")
        criteria = ClientCriteria.of(options, self._config)
        found = find_scenario(scenario, self._find)
        service = self._stack.enter_context(checked_service(found, serve_options, criteria, self._free_path()))
        self.servers.append(service)
        return service

    def failure(self) -> str | None:
        """Why the test fails because of its client; None if it does not, or if that was reported before."""
        if self._is_reported:
            return None
        texts = [text for text in (server.failure() for server in self.servers) if text is not None]
        self._is_reported = bool(texts)
        return "\n\n".join(texts) or None

    def summary(self) -> str:
        """What the client did, for a test that failed for another reason; empty if that was reported before."""
        if self._is_reported:
            return ""
        self._is_reported = True
        return "\n\n".join("\n".join(_summarise(server)) for server in self.servers)

    def stop(self) -> None:
        """Stop all servers."""
        self._stack.close()

    def delete_recordings(self) -> None:
        """Delete the recordings of a test that passed."""
        for server in self.servers:
            server.record.unlink(missing_ok=True)

    def _free_path(self) -> Path:
        number = len(self.servers) + 1
        return self._folder / ("replayed.db" if number == 1 else f"replayed-{number}.db")


@contextmanager
def replay(recording: Path | str, **options: Any) -> Iterator[CheckedReplay]:
    """Replay a recording until the block is left, and check the client.

    Takes the fields of ReplayOptions, and `fail_on`, `allow`, `allow_misses` and `faults_may_miss`.  Paths are
    relative to the current folder.  Raises InputError for invalid options and files, and ClientError at the end if the
    client broke a rule, a request had no match, or a fault never matched.  An exception of the block gets the
    same text as a note.  If anything fails, the traffic stays recorded in a temporary folder.
    """
    with _checked_group() as group:
        yield group.replay(recording, options)


@contextmanager
def serve(scenario: Any = "hello", **options: Any) -> Iterator[CheckedService]:
    """Play a scenario as the stand-in until the block is left, and check the client.

    Takes the fields of ServeOptions, and `fail_on`, `allow` and `faults_may_miss`; time is virtual by default.
    Everything else is as with `replay`.
    """
    with _checked_group() as group:
        yield group.serve(scenario, options)


@contextmanager
def _checked_group() -> Iterator[ServerGroup]:
    config = find_config(Path.cwd())
    folder = Path(tempfile.mkdtemp(prefix="wiretape-"))
    group = ServerGroup(folder, config)
    try:
        try:
            yield group
        finally:
            group.stop()
        _raise_failure(group)
        group.delete_recordings()
    except Exception as error:
        if text := group.summary():
            error.add_note(text)
        raise
    finally:
        with suppress(OSError):  # it contains recordings
            folder.rmdir()


def _raise_failure(group: ServerGroup) -> None:
    if (text := group.failure()) is not None:
        raise ClientError(text)


def _summarise(server: CheckedServer) -> Iterator[str]:
    failure = server.failure()
    if failure is not None:
        yield failure
    else:
        yield "The client passed the checks."
        yield from inconclusive_lines(server.inconclusive)
        yield keep_recording(server.record, server.keep)
    yield "Requests:"
    yield from _last_lines(server.lines)


def _last_lines(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) > _MOST_LINES:
        yield f"… {len(lines) - _MOST_LINES:,} lines before"
    yield from lines[-_MOST_LINES:]
