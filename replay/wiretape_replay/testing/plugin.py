"""The pytest plugin: the fixtures `wiretape_replay`, `wiretape` and `wiretape_service`, and the marker `wiretape`.

pytest imports this at every start, so everything else is imported when a test asks for a replay.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wiretape.config import Config
    from wiretape_replay.testing.bench import Bench
    from wiretape_replay.testing.judged import JudgedReplay
    from wiretape_replay.testing.served import JudgedService

_MARKER = (
    "wiretape(recording, **options): what the fixtures wiretape and wiretape_replay play, and how; "
    "paths are relative to the test's file, or to rootdir."
)
_BENCH: "pytest.StashKey[Bench]" = pytest.StashKey()
_CONFIG: "pytest.StashKey[Config]" = pytest.StashKey()
_OUTCOME = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Say which marker there is."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def _wiretape_bench(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Bench]":
    """What plays recordings and scenarios for one test, and judges its clients."""
    item = request.node
    with _in_one_sentence():
        bench = item.stash[_BENCH] = _bench(item, tmp_path)
    item.stash[_OUTCOME] = "failed"  # until it is known
    try:
        yield bench
    finally:
        bench.stop()
    if item.stash[_OUTCOME] == "passed" and (text := bench.wrong()) is not None:
        pytest.fail(text, pytrace=False)
    if item.stash[_OUTCOME] != "failed":
        bench.tidy()


@pytest.fixture
def wiretape_replay(request: pytest.FixtureRequest, _wiretape_bench: "Bench") -> "Callable[..., JudgedReplay]":
    """Play a recording as an offline service: `wiretape_replay("run.db", faults="faults.toml")`.

    Returns a replay with its `url`, to be called as often as you like; all of them end with the test, and the test
    fails by what its client did wrong.  Takes the options of `wiretape replay`; without a recording, and for options
    that are not given, it takes those of the marker `wiretape`.
    """

    def play(recording: "Path | str | None" = None, **options: Any) -> "JudgedReplay":
        with _in_one_sentence():
            return _wiretape_bench.start(*_asked(request.node, recording, options))

    return play


@pytest.fixture
def wiretape_service(_wiretape_bench: "Bench") -> "Callable[..., JudgedService]":
    """Play the whole service by a scenario: `wiretape_service("hello")`, or a TOML file, or its text.

    Returns a service with its `url` and `key`, to be called as often as you like; all of them end with the test, and
    the test fails by what its client did wrong.  Takes the options of `wiretape serve`; time is virtual by default.
    """

    def serve(scenario: "Path | str" = "hello", **options: Any) -> "JudgedService":
        with _in_one_sentence():
            return _wiretape_bench.serve(scenario, options)

    return serve


@pytest.fixture
def wiretape(wiretape_replay: "Callable[..., JudgedReplay]") -> "JudgedReplay":
    """The recording that the marker `wiretape` names, played as an offline service; see `wiretape_replay`."""
    return wiretape_replay()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Let a test that passed fail by what its client did wrong."""
    __tracebackhide__ = True
    yield
    __tracebackhide__ = False
    bench = item.stash.get(_BENCH, None)
    if bench is not None and (text := bench.wrong()) is not None:
        pytest.fail(text, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a test that failed by itself what its client did."""
    report = yield
    bench = item.stash.get(_BENCH, None)
    if bench is None or call.when != "call":
        return report
    item.stash[_OUTCOME] = report.outcome
    if report.failed and (text := bench.account()):
        report.sections.append(("wiretape replay", text))
    return report


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Let the test fail by the sentence that says what cannot be used, without a traceback."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see above

    try:
        yield
    except InputError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _bench(item: pytest.Item, folder: Path) -> "Bench":
    from wiretape.config import find_config  # noqa: PLC0415 - see above
    from wiretape_replay.testing.bench import Bench  # noqa: PLC0415 - see above

    stash = item.config.stash
    if _CONFIG not in stash:
        stash[_CONFIG] = find_config(item.config.rootpath)
    return Bench(folder, stash[_CONFIG], lambda path: _found(item, path))


def _asked(item: pytest.Item, recording: "Path | str | None", options: dict[str, Any]) -> tuple["Path | str", Any]:
    """The recording and the options: those of the call before those of the markers, the nearest marker first."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see above

    given: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("wiretape"))):
        if len(marker.args) > 1:
            raise InputError("The marker wiretape takes one recording; everything else has a name.")
        given |= ({"recording": marker.args[0]} if marker.args else {}) | {**marker.kwargs}
    given |= options
    marked = given.pop("recording", None)
    named = marked if recording is None else recording
    if named is None:
        raise InputError('Say which recording: wiretape_replay("run.db"), or @pytest.mark.wiretape("run.db").')
    return named, given


def _found(item: pytest.Item, path: Path) -> Path:
    """The file that is meant: beside the test's file, or in rootdir.  Raises InputError."""
    from wiretape.errors import InputError  # noqa: PLC0415 - see above
    from wiretape.safe_text import printable  # noqa: PLC0415 - see above

    folders = list(dict.fromkeys([item.path.parent, item.config.rootpath]))
    for folder in folders:
        if (folder / path).exists():
            return folder / path
    where = " nor ".join(printable(str(folder)) for folder in folders)
    raise InputError(f"There is no {printable(str(path))} in {where}.")
