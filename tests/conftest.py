"""Settings for all tests.

With WIRETAPE_NO_SKIPS=1, a skipped test fails the run; WIRETAPE_SKIPS=FILE lists skipped tests in a file, which pytest
takes as `@FILE`.  Hypothesis has no deadlines: a busy machine is slow, and
speed is measured in `benchmarks/`.  `--hypothesis-profile=same` tries the same examples every time, so that the
result depends on the change only; without it, and in `make fuzz`, every run tries others.  A property test tries 30
examples, in `make fuzz` 500.  It has its own number if it chooses one of many defects to plant, if 30 did not find a
planted one (parser, playhead), or if an example takes a tenth of a second.

Temporary files are in memory if there is room, because creating and closing thousands of recordings waits for the
disk.  `--basetemp` or TMPDIR override this.
"""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings

os.environ.pop("FORCE_COLOR", None)  # tests compare plain output, also where the caller wants colours
os.environ.pop("CI", None)  # cassettes record nothing where it is set

settings.register_profile(
    "wiretape",
    deadline=None,
    max_examples=int(os.environ.get("WIRETAPE_FUZZ", "30")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("same", settings.get_profile("wiretape"), derandomize=True)
settings.load_profile("wiretape")

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder in it that is this user's alone
ROOM = 1 << 30
"""Bytes; a few concurrent tests take a tenth of it."""
FIRST = (
    "tests/testing/",
    "tests/docs/test_guides.py",
    "tests/demo/",
    "tests/clients/",
    "tests/inspect/page/test_page_firefox.py",
)
"""Tests that take long, mostly for starting programs and waiting.  At the end of a run, all would wait for them."""


class _SkippedTests:
    """Collects skipped tests, and lists them in a file, or fails the run if there are any."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # An expected failure is reported as skipped too, but it ran.
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        self._skipped[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._file is not None:
            if not hasattr(session.config, "workerinput"):  # workers have only a share of the tests
                self._file.write_text("".join(f"{name}\n" for name in sorted(self._skipped)), "utf-8")
        elif self._skipped and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._skipped and self._file is None:
            terminalreporter.section("skipped tests, which WIRETAPE_NO_SKIPS forbids", red=True)
            for name, reason in self._skipped.items():
                terminalreporter.line(f"{name}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    # Background jobs of a shell ignore SIGINT, and nohup ignores SIGHUP; programs that tests signal would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if "TMPDIR" not in os.environ and _has_room(IN_MEMORY):
        tempfile.tempdir = str(IN_MEMORY)
    file = os.environ.get("WIRETAPE_SKIPS")
    if file or os.environ.get("WIRETAPE_NO_SKIPS") == "1":
        config.pluginmanager.register(_SkippedTests(Path(file) if file else None), "skipped-tests")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile this worker's share of the tests of a fresh clone, because each worker imports all of them."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    if not worker or sys.dont_write_bytecode:
        return
    paths = [path for pattern in ("conftest.py", "test_*.py") for path in sorted(Path(__file__).parent.rglob(pattern))]
    state = session.config.stash[rewrite.assertstate_key]
    for path in paths[int(worker.removeprefix("gw")) :: int(count)]:
        folder = rewrite.get_cache_dir(path)
        compiled = folder / (path.stem + rewrite.PYC_TAIL)
        if not compiled.exists() and rewrite.try_makedirs(folder):
            source, code = rewrite._rewrite_test(path, session.config)
            rewrite._write_pyc(state, code, source, compiled)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


# The collector would look through thousands of tests and modules again and again: a fifth of the time in which they are
# collected, and then a tenth of all, unless they are frozen.
def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: more than cores, because tests wait for sockets and processes."""
    return 2 * len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2 * (os.cpu_count() or 1)


def _has_room(folder: Path) -> bool:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return False
    room = os.statvfs(folder)
    # Tests start programs that they write.
    return room.f_bavail * room.f_frsize >= ROOM and not room.f_flag & os.ST_NOEXEC
