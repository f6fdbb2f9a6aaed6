"""The pytest plugin: the fixtures `wiretape_replay`, `wiretape` and `wiretape_service`, and the marker `wiretape`.

pytest imports this module at every start, so all other modules are imported when a test starts a replay.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wiretape.config import Config
    from wiretape_replay.testing.checked_servers import CheckedReplay, CheckedService, ServerGroup

_MARKER = (
    "wiretape(recording, **options): the recording and the options of the fixtures wiretape and wiretape_replay; "
    "paths are relative to the test's file, or to rootdir."
)
_GROUP: "pytest.StashKey[ServerGroup]" = pytest.StashKey()
_CONFIG: "pytest.StashKey[Config]" = pytest.StashKey()
_OUTCOME = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


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
    return ServerGroup(folder, stash[_CONFIG], lambda path: _find_file(item, path))


def _merge_markers(
    item: pytest.Item, recording: "Path | str | None", options: dict[str, Any]
) -> tuple["Path | str", dict[str, Any]]:
    """The recording and the options: the call takes precedence over the markers, and the nearest marker over others."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see the module

    merged: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("wiretape"))):
        if len(marker.args) > 1:
            raise InputError("The `wiretape` marker takes one recording; pass all options by name.")
        merged |= ({"recording": marker.args[0]} if marker.args else {}) | {**marker.kwargs}
    merged |= options
    marked = merged.pop("recording", None)
    chosen = marked if recording is None else recording
    if chosen is None:
        raise InputError('The recording is missing: use wiretape_replay("run.db") or @pytest.mark.wiretape("run.db").')
    return chosen, merged


def _find_file(item: pytest.Item, path: Path) -> Path:
    """The file at a path relative to the test's file, or to rootdir.  Raises InputError."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see the module
    from wiretape.safe_text import printable  # noqa: PLC0415 - see the module

    folders = list(dict.fromkeys([item.path.parent, item.config.rootpath]))
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    searched = " or ".join(printable(str(folder)) for folder in folders)
    raise InputError(f"Cannot find {printable(str(path))} in {searched}.")
