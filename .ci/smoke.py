"""Record, report, replay and debug with an installed wiretape, in an empty folder.

    python .ci/smoke.py COMMAND...

COMMAND is how to run wiretape: a path, or `uvx --from … wiretape`.  Needs no packages.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

_TIMEOUT_S = 300
"""A guard against hanging; a busy machine is slow."""
_KEY = "wiretape-key"
_URL = re.compile(r"http://127\.0\.0\.1:\d+\S*?(?=[,;\s]|$)")


def run(command: list[str], folder: Path, *arguments: str) -> str:
    """Run a command to its end and return its output.  Raises CalledProcessError if it fails."""
    return subprocess.run(
        [*command, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
    ).stdout


@contextmanager
def running(command: list[str], folder: Path, *arguments: str) -> Iterator[str]:
    """Run a server; yield the first URL that it prints; end it with SIGTERM."""
    with subprocess.Popen([*command, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        timer = Timer(_TIMEOUT_S, process.kill)
        timer.start()
        try:
            lines = []
            for line in process.stderr or ():
                lines.append(line)
                if found := _URL.search(line):
                    break
            else:
                sys.exit(f"{' '.join(arguments)} did not start:\n{''.join(lines)}")
            yield found.group()
            process.send_signal(signal.SIGTERM)
            rest = process.communicate()[1]
            if process.returncode:
                sys.exit(f"{' '.join(arguments)} ended with status {process.returncode}:\n{rest}")
        finally:
            timer.cancel()
            process.kill()


def follow_run(url: str) -> list[str]:
    """Create a session and a run, and return the types of its events."""
    session = f"/v1/sessions/{_request(f'{url}/v1/sessions', method='POST')['id']}"
    _request(f"{url}{session}/runs", method="POST")
    types: list[str] = []
    with urllib.request.urlopen(_authorized(f"{url}{session}/events/stream"), timeout=_TIMEOUT_S) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                types.append(json.loads(line.removeprefix(b"data: "))["type"])
            if types[-1:] == ["run.completed"]:
                return types
    sys.exit(f"The stream ended after {types}.")


def _request(url: str, method: str) -> dict[str, str]:
    with urllib.request.urlopen(_authorized(url, method), timeout=_TIMEOUT_S) as response:
        body: dict[str, str] = json.load(response)
    return body


def _authorized(url: str, method: str = "GET") -> urllib.request.Request:
    return urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {_KEY}"})


def main(command: list[str]) -> None:
    """Use the command as a new user does."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        listen = ("--listen", "127.0.0.1:0")
        with (
            running(command, folder, "serve", "hello", *listen) as service,
            running(command, folder, "proxy", service, *listen, "--output", "run.db", "--plain") as proxy,
        ):
            types = follow_run(proxy)
        report = run(command, folder, "report", "run.db")
        run(command, folder, "replay", "run.db", "--verify")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with running(command, folder, "debug", "run.db") as page, browser.open(page, timeout=_TIMEOUT_S) as response:
            title = re.search(rb"<title>.+</title>", response.read())
        if title is None or "events in 3 exchanges" not in report:
            sys.exit(f"The page has no title, or the report does not count the events:\n{report}")
    print(f"recorded, reported, replayed and debugged {len(types)} events")


if __name__ == "__main__":
    main(sys.argv[1:])
