"""Start `wiretape` commands, and mitmproxy's programs, in milliseconds.

Importing a command takes up to a second of processor time, and the tests start hundreds.  Here, each command runs in a
process of its own, with its own arguments, environment, folder and streams, that is forked from one in which
everything is imported already.  What depends on a new interpreter, such as imports and variables like PYTHONHASHSEED,
needs `python -m wiretape`.  A `wiretape proxy` that was started here forks its recorder from itself; others, such as
those of the programs of mitmproxy, start it as users do.
"""

import gc
import multiprocessing
import os
import signal
import subprocess
import traceback
from importlib import import_module
from multiprocessing.connection import Connection

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(
    [
        "wiretape_proxy.cli",
        "wiretape_proxy.proxy_runner",
        "wiretape_proxy.recorder",
        "mitmproxy.tools.main",
        "mitmproxy.tools.web.master",
        "wiretape_replay.commands.replay",
        "wiretape_replay.commands.serve",
        "sqlite_utils",
        "wiretape_inspect.commands.debug",
        "wiretape_inspect.commands.probe",
        "wiretape_inspect.commands.report",
        "wiretape_inspect.commands.show",
        "wiretape_inspect.terminal",
    ]
)
_MAIN = {
    "wiretape": "wiretape.__main__:main",
    "breakable_proxy": "breakable_proxy:main",
    "recorder": "wiretape_proxy.recorder:main",
    **{name: f"mitmproxy.tools.main:{name}" for name in ("mitmdump", "mitmproxy", "mitmweb")},
}
_RUN = """
import os, sys
from importlib import import_module
from wiretape_process import fork_recorders
for number, stream in enumerate(streams):
    os.dup2(stream.fileno(), number)
    stream.close()
sys.stdin, sys.stdout = open(0), open(1, "w", 1 if environment.get("PYTHONUNBUFFERED") else -1)
sys.stderr = open(2, "w", 1, errors="backslashreplace")
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
sys.argv = arguments
module, function = main.split(":")
if function == "main":
    fork_recorders()
getattr(import_module(module), function)()
"""


def fork_recorders() -> None:
    """Let this process, a `wiretape proxy`, fork its recorder from itself."""
    subprocess.Popen = _RecorderForker


class _RecorderForker(subprocess.Popen):
    """Starts programs; forks the recorder instead."""

    def _execute_child(self, args, *rest) -> None:
        from wiretape_proxy.recorder_client import _START  # noqa: PLC0415 - preloaded where this runs

        if _START not in args:
            super()._execute_child(args, *rest)
            return
        pipes, starts_session = rest[9:15], rest[20]
        self.pid = os.fork()
        if not self.pid:
            _be_the_recorder(read_end=pipes[0], write_end=pipes[3], starts_session=starts_session)
        self._child_created = True
        self._close_pipe_fds(*pipes)


def _be_the_recorder(read_end: int, write_end: int, *, starts_session: bool) -> None:
    """Run the recorder in this process as in a new one, with streams and signals of its own; then exit."""
    status = 1
    try:
        # Collecting the sockets of the proxy would close files of the recorder that have the same descriptors.
        gc.freeze()
        if starts_session:
            os.setsid()
        os.dup2(read_end, 0)
        os.dup2(write_end, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        # Whoever started the fork server first chose what it has imported.
        import_module("wiretape_proxy.recorder").main()
        status = 0
    except Exception:  # noqa: BLE001
        traceback.print_exc()
    finally:
        os._exit(status)


class ForkedProgram(subprocess.Popen):
    """A running program: `ForkedProgram("mitmdump", "-n")`."""

    def __init__(self, name: str, *arguments: object, **options) -> None:
        super().__init__([name, *map(str, arguments)], **options)

    def _execute_child(
        self, args, _executable, _preexec, _close, _pass, cwd, env, _info, _flags, _shell, *pipes_and_more
    ) -> None:
        pipes = pipes_and_more[:6]
        read_end, write_ends = pipes[0], pipes[3::2]
        ends = [given if given >= 0 else number for number, given in enumerate((read_end, *write_ends))]
        streams = [Connection(os.dup(end)) for end in ends]
        variables = {
            "streams": streams,
            "folder": os.fspath(cwd or os.getcwd()),  # noqa: PTH109
            "environment": dict(os.environ if env is None else env),
            "arguments": args,
            "main": _MAIN[args[0]],
        }
        self._process = _FORKED.Process(target=exec, args=(_RUN, variables))
        self._process.start()
        for stream in streams:
            stream.close()
        self.pid = self._process.pid
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _internal_poll(self, *_, **__) -> int | None:
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._process.join(timeout)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


class WiretapeProcess(ForkedProgram):
    """A running `wiretape` command: `WiretapeProcess("show", path, stdout=subprocess.PIPE, text=True)`."""

    def __init__(self, *arguments: object, **options) -> None:
        super().__init__("wiretape", *arguments, **options)


def run_wiretape(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run a `wiretape` command to its end; its output is captured."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with WiretapeProcess(*arguments, **(pipes | options), text=True) as process:
        try:
            output, errors = process.communicate(timeout=50)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
