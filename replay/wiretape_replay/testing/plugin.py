"""The pytest plugin: the marker `wiretape`, and the fixtures `wiretape_replay`, `wiretape_stream`, `wiretape_service`.

pytest imports this module at every start, so all other modules are imported when a test starts a replay.
"""

import hashlib
import os
import re
import shlex
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wiretape.config import Config
    from wiretape_replay.testing.checked_servers import CheckedReplay, CheckedService, ServerGroup

_MARKER = (
    "wiretape(recording, **options): the recording and the options of the fixtures wiretape and wiretape_replay; "
    "paths are relative to the test's file, or to rootdir. With upstream, the recording is a tape that is recorded."
)
_MODES = ("none", "once", "missing", "all")
_STATES = ("named", "used", "written")
"""What a test did with a tape, and all before."""
_LONGEST_NAME = 100
_DAY_NS = 86_400_000_000_000
_GROUP: "pytest.StashKey[ServerGroup]" = pytest.StashKey()
_CONFIG: "pytest.StashKey[Config]" = pytest.StashKey()
_OUTCOME = pytest.StashKey[str]()
_BEGAN_NS = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options about tapes."""
    group = parser.getgroup("wiretape", "tapes that tests record (wiretape)")
    group.addoption(
        "--wiretape-record",
        choices=_MODES,
        help="Record nothing, tapes that do not exist, what tapes lack, or all tapes again. "
        "[default: once, or none if the variable CI is set]",
    )
    group.addoption("--wiretape-unused", action="store_true", help="List the tapes that no test uses.")
    group.addoption(
        "--wiretape-max-age", type=_parse_age, metavar="AGE", help="List the tapes that are older, for example 30d."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the summary."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_BEGAN_NS] = time.time_ns()
    config.pluginmanager.register(_TapeSummary(config), "wiretape-tapes")


def _parse_age(text: str) -> int:
    """The number of days in an age such as `30d`."""
    if (match := re.fullmatch(r"([0-9]{1,5})d", text)) is None:
        raise ArgumentTypeError(f"expected a number of days, such as 30d, got {text!r}")
    return int(match[1])


@pytest.fixture
def _wiretape_servers(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[ServerGroup]":
    """The replays and stand-ins of one test."""
    item = request.node
    with _in_one_sentence():
        group = item.stash[_GROUP] = _create_group(item, tmp_path)
    item.stash[_OUTCOME] = "failed"  # until it is known
    try:
        yield group
    finally:
        group.stop()
    if item.stash[_OUTCOME] == "passed" and (text := group.failure()) is not None:
        pytest.fail(text, pytrace=False)
    if item.stash[_OUTCOME] == "passed":
        with _in_one_sentence():
            group.save()
    if item.stash[_OUTCOME] != "failed":
        group.delete_recordings()


@pytest.fixture
def wiretape_replay(request: pytest.FixtureRequest, _wiretape_servers: "ServerGroup") -> "Callable[..., CheckedReplay]":
    """Replay a recording as an offline service: `wiretape_replay("run.db", faults="faults.toml")`.

    Returns a replay with its `url`.  Call it as often as you like: all replays stop with the test, and the test fails
    if its client breaks a rule.  Takes the options of `wiretape replay`; the recording and options that are not given
    come from the marker `wiretape`.
    """

    def start(recording: "Path | str | None" = None, **options: Any) -> "CheckedReplay":
        with _in_one_sentence():
            return _wiretape_servers.replay(*_merge_markers(request.node, recording, options))

    return start


@pytest.fixture
def wiretape_stream(_wiretape_servers: "ServerGroup") -> "Callable[..., CheckedReplay]":
    """Serve a stream without a recording: `wiretape_stream(["data: one", {"data": {"n": 2}}], "POST /v1/chat")`.

    An event is its lines, or an element of a tape.  Takes the options of `wiretape replay`, and returns a replay.
    """

    def start(events: "Iterable[object]", request: str = "GET /", **options: Any) -> "CheckedReplay":
        with _in_one_sentence():
            return _wiretape_servers.stream(events, request, options)

    return start


@pytest.fixture
def wiretape_service(_wiretape_servers: "ServerGroup") -> "Callable[..., CheckedService]":
    """Play a scenario as the stand-in for the service: `wiretape_service("hello")`, a TOML file, or its text.

    Returns a service with its `url` and `key`.  Call it as often as you like: all services stop with the test, and
    the test fails if its client breaks a rule.  Takes the options of `wiretape serve`; time is virtual by default.
    """

    def start(scenario: "Path | str | None" = None, **options: Any) -> "CheckedService":
        with _in_one_sentence():
            return _wiretape_servers.serve(scenario, options)

    return start


@pytest.fixture
def wiretape(wiretape_replay: "Callable[..., CheckedReplay]") -> "CheckedReplay":
    """A replay of the recording in the marker `wiretape`; see `wiretape_replay`."""
    return wiretape_replay()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that passed if its client broke a rule."""
    __tracebackhide__ = True
    yield
    __tracebackhide__ = False
    group = item.stash.get(_GROUP, None)
    if group is not None and (text := group.failure()) is not None:
        pytest.fail(text, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the client did to the report of a test that failed for another reason."""
    report = yield
    group = item.stash.get(_GROUP, None)
    if call.when == "teardown" and (tapes := _tapes_of(item, group)):
        # An attribute, because xdist passes it on from the worker.
        report.wiretape_tapes = tapes  # type: ignore[attr-defined]
    if group is None or call.when != "call":
        return report
    item.stash[_OUTCOME] = report.outcome
    if report.failed and (text := group.summary()):
        report.sections.append(("wiretape replay", text))
    return report


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Fail the test with the sentence of an InputError, without a traceback."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see the module

    try:
        yield
    except InputError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _create_group(item: pytest.Item, folder: Path) -> "ServerGroup":
    from wiretape.config import find_config  # noqa: PLC0415 - see the module
    from wiretape_replay.testing.checked_servers import ServerGroup  # noqa: PLC0415 - see the module

    stash = item.config.stash
    if _CONFIG not in stash:
        stash[_CONFIG] = find_config(item.config.rootpath)
    return ServerGroup(
        folder,
        stash[_CONFIG],
        lambda path: _find_file(item, path),
        lambda path: _find_file(item, path, is_tape=True),
        command=lambda mode: f"pytest --wiretape-record={mode} {shlex.quote(_argument_for(item))}",
        since_ns=stash[_BEGAN_NS],
    )


def _argument_for(item: pytest.Item) -> str:
    """The argument that selects a test, from the folder in which pytest was started."""
    _, separator, name = item.nodeid.partition("::")
    return os.path.relpath(item.path, item.config.invocation_params.dir) + separator + name


def _merge_markers(
    item: pytest.Item, recording: "Path | str | None", options: dict[str, Any]
) -> tuple["Path | str", dict[str, Any]]:
    """The recording and the options: the call takes precedence over the markers, and the nearest marker over others."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see the module
    from wiretape.safe_text import closest_match, printable  # noqa: PLC0415 - see the module

    merged: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("wiretape"))):
        if len(marker.args) > 1:
            raise InputError("The `wiretape` marker takes one recording; pass all options by name.")
        merged |= ({"recording": marker.args[0]} if marker.args else {}) | {**marker.kwargs}
    merged |= options
    marked = merged.pop("recording", None)
    chosen = marked if recording is None else recording
    if (mode := item.config.getoption("wiretape_record", None)) is not None:
        merged["record"] = mode
    if chosen is None and "upstream" in merged:
        chosen = Path("tapes", item.path.stem, f"{_tape_name(item)}.tape")
    if chosen is None and (misspelt := next((name for name in merged if closest_match(name, ["upstream"])), None)):
        raise InputError(f"A replay has no option {printable(misspelt)}; did you mean upstream?")
    if chosen is None:
        raise InputError('The recording is missing: use wiretape_replay("run.db") or @pytest.mark.wiretape("run.db").')
    return chosen, merged


def _tape_name(item: pytest.Item) -> str:
    """The name of a test, with its class, as the name of a file."""
    name = ".".join(item.nodeid.split("::")[1:])
    safe = re.sub(r"[^\w.\[\]-]+", "-", name)[:_LONGEST_NAME]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _tapes_of(item: pytest.Item, group: "ServerGroup | None") -> list[tuple[str, str, int]]:
    """The recordings of a test: path, what was done with it, and when it began (ns since 1970, 0 if unknown)."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see the module

    tapes = []
    with suppress(InputError):
        if item.get_closest_marker("wiretape") is not None:
            tape, _ = _merge_markers(item, None, {})
            tapes.append((str(_find_file(item, Path(tape), is_tape=True)), "named", 0))
    return tapes + ([] if group is None else list(group.recordings()))


def _find_file(item: pytest.Item, path: Path, *, is_tape: bool = False) -> Path:
    """The file at a path relative to the test's file, or to rootdir; a tape may not exist yet.  Raises InputError."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see the module
    from wiretape.safe_text import printable  # noqa: PLC0415 - see the module

    folders = list(dict.fromkeys([item.path.parent, item.config.rootpath]))
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    if is_tape:
        return folders[0] / path
    searched = " or ".join(printable(str(folder)) for folder in folders)
    raise InputError(f"Cannot find {printable(str(path))} in {searched}.")


class _TapeSummary:
    """Counts the tapes of all tests, also of those in the workers of xdist, and prints the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tapes: dict[Path, tuple[str, int]] = {}
        """For each tape: what was done with it, and when it began (ns)."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the tapes of a test."""
        for name, state, began_ns in getattr(report, "wiretape_tapes", ()):
            path = Path(name).resolve()
            known = self._tapes.get(path, (_STATES[0], 0))
            if path.suffix == ".tape":
                self._tapes[path] = max(known, (state, began_ns), key=lambda each: _STATES.index(each[0]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how many tapes were used, written, unused and old, and list the last two on request."""
        states = [state for state, _ in self._tapes.values()]
        used = len(states) - states.count("named")
        if not used:
            return
        days, lists_unused = (self._config.getoption(f"wiretape_{name}") for name in ("max_age", "unused"))
        unused, old = self._find_unused(), self._find_old(days)
        counts = [f"{used} tape{'s' * (used != 1)} used", f"{states.count('written')} written"]
        if unused:
            counts.append(f"{len(unused)} unused{'' if lists_unused else ' (list them with --wiretape-unused)'}")
        if old:
            counts.append(f"{len(old)} older than {days} days (record them again with --wiretape-record=all)")
        terminalreporter.write_line(f"wiretape: {', '.join(counts)}")
        for label, paths in (("unused", unused if lists_unused else []), ("old", old)):
            for path in paths:
                terminalreporter.write_line(f"  {label}: {os.path.relpath(path)}")

    def _find_unused(self) -> list[Path]:
        """The tapes beside those of the tests; none if only some tests of a file ran, which do not name all."""
        options = self._config.option
        is_part = any(getattr(options, name, None) for name in ("keyword", "markexpr", "deselect", "lf"))
        if is_part or any("::" in each for each in self._config.args):
            return []
        folders = {path.parent for path in self._tapes}
        return sorted(path for folder in folders for path in folder.glob("*.tape") if path not in self._tapes)

    def _find_old(self, days: int | None) -> list[Path]:
        if days is None:
            return []
        latest_ns = time.time_ns() - days * _DAY_NS
        return sorted(path for path, (_, began_ns) in self._tapes.items() if 0 < began_ns < latest_ns)
